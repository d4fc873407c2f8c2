// kernel.h - tile kernels of the public API, and the functions of a target that run them.

#ifndef KERNEL_H
#define KERNEL_H

#include "zellige_tile.h"

#include "tile/tile.h"

// A target that kernels are compiled for.
struct kernel_driver {
    const char *name;
    const char *device; // the array device that its kernels run on; "cpu" for the target c
    // Compiles a kernel; changes it, and needs it as long as the result lives. Appends the code that it gave
    // to the target's compiler to *source, even if that refuses it. Returns NULL, with an error, if compiling
    // fails.
    void *(*compile)(struct tile_kernel *kernel, struct text *source);
    // Runs a compiled kernel. `address` has an entry for each parameter: the address of its buffer, or of its
    // value if it is a number. Returns false, with an error, if that fails.
    bool (*run)(void *compiled, void *const *address, const int64_t *symbol);
    // Measures the seconds per run, over `repeats` runs in a row, by the device's own clock. NULL: it has no
    // clock.
    bool (*time)(void *compiled, void *const *address, const int64_t *symbol, int repeats, double *seconds);
    bool (*is_modelled)(void); // returns whether that clock is a model of the chip; NULL: it is not
    // Reports the work of the chip's engines in a run, from a model and without computing. NULL: the target
    // is not modelled.
    bool (*report)(void *compiled, void *const *address, const int64_t *symbol, zl_device_c_report *out);
    // returns a text about the chip, emulator or library that runs its kernels; NULL: there is none
    const char *(*says)(void);
    void (*free)(void *compiled);
    // holds returns whether memory at an address belongs to the device; kernels then work on it in place. It
    // is called only if is_loaded returns that something in this process has loaded the driver's library;
    // neither function loads it. Both NULL: all memory is the host's.
    bool (*is_loaded)(void);
    bool (*holds)(const void *address);
};

// A kernel compiled for one target.
struct kernel_form {
    const struct kernel_driver *driver;
    struct tile_kernel *lowered; // the kernel after its passes
    void *compiled;
    struct text source; // the code for the target's compiler
    struct kernel_form *next;
};
// Frees a form with its compiled kernel; forms that follow it in the list stay.
void kernel_form_free(struct kernel_form *form);

struct zl_kernel_ {
    struct tile_kernel *kernel;
    struct tile_sizes *sizes; // checked before each run; NULL: the kernel was only read
    // runs on the device of its arguments; a form is added when a target is first needed
    bool follows;
    struct lock lock;         // guards additions to forms
    struct kernel_form *_Atomic forms; // the newest first
    _Atomic(const char *) profiled;    // its text in a profile; NULL: no profile has recorded it
};

// A file of this folder, embedded by the build: the definition of a kernel of ops.
struct kernel_text {
    const char *name, *text; // "arange.tile"
};
extern const struct kernel_text kernel_texts[]; // the last has no name

// Returns the kernel of a file ("arange") with these values of its clauses ("ITEM=%s,BITS=32"; "": the file's
// own), owned by the caller, or NULL and an error.
struct tile_kernel *kernel_built_in(const char *name, const char *params, ...)
    __attribute__((format(printf, 2, 3)));

// Returns a copy of a kernel for passes, which work in place.
struct tile_kernel *kernel_copy(const struct tile_kernel *kernel);

#endif
