// kernel.h - a tile kernel of the public API, and what a target offers to run it.

#ifndef KERNEL_H
#define KERNEL_H

#include "zellige_tile.h"

#include "tile/tile.h"

// A target that kernels are compiled for.
struct kernel_driver {
    const char *name;
    const char *device; // that its kernels run on, as arrays call it; "cpu" of the target c
    // Compiles a kernel, which it changes and which lives as long as what it gives. Appends what it became for the target's compiler to
    // *source, also where that refuses it. NULL and an error.
    void *(*compile)(struct tile_kernel *kernel, struct text *source);
    // address: one for each parameter, of its value if it is a scalar. False and an error.
    bool (*run)(void *compiled, void *const *address, const int64_t *symbol);
    // Seconds of one of that many runs in a row, by the device's own clock. NULL: it has none.
    bool (*time)(void *compiled, void *const *address, const int64_t *symbol, int repeats, double *seconds);
    bool (*is_modelled)(void); // whether that clock is a model of the chip; NULL: it is not
    // What the chip's engines do in a run, counted without computing; NULL: a target that is not modelled. False and an error.
    bool (*report)(void *compiled, void *const *address, const int64_t *symbol, zl_device_c_report *out);
    const char *(*says)(void); // what runs its kernels, where that is not its device's name; NULL: there is nothing to say
    void (*free)(void *compiled);
    // Whether memory at an address is the device's own, on which kernels then work in place. It is asked only if is_loaded says that
    // something in this process has loaded the driver's library, which neither of them does. Both NULL: all memory is the host's.
    bool (*is_loaded)(void);
    bool (*holds)(const void *address);
};

// What a kernel became for one target.
struct kernel_form {
    const struct kernel_driver *driver;
    struct tile_kernel *lowered; // what the driver has changed
    void *compiled;
    struct text source; // what the target's compiler got
    struct kernel_form *next;
};
void kernel_form_free(struct kernel_form *form);

struct zl_kernel_ {
    struct tile_kernel *kernel;
    struct tile_sizes *sizes; // checked before each run; NULL: it was only read
    bool follows;             // it runs where its arguments are: a form is added when a target is first needed
    struct lock lock;         // guards additions to forms
    struct kernel_form *_Atomic forms; // the newest first
    _Atomic(const char *) profiled;    // its text, as a profile keeps it; NULL: none was recorded
};

// A file of this folder, which the build embeds: the definition of a kernel that ops run on devices.
struct kernel_text {
    const char *name, *text; // "arange.tile"
};
extern const struct kernel_text kernel_texts[]; // the last has no name

// The kernel of a file ("arange"), with other values of what its clauses name ("ITEM=%s,BITS=32"; "": those of the file). The caller
// owns it; NULL and an error.
struct tile_kernel *kernel_built_in(const char *name, const char *params, ...) __attribute__((format(printf, 2, 3)));

// A kernel of its own for passes, which work in place.
struct tile_kernel *kernel_copy(const struct tile_kernel *kernel);

#endif
