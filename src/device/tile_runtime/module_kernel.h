// module_kernel.h - tile kernels on a GPU whose driver loads modules: CUDA's, and HIP's, which has the same
// calls by other names.
//
// A target supplies the names of its calls, and functions that open it and compile; module_kernel.c has the
// arguments, launches and clocks.

#ifndef MODULE_KERNEL_H
#define MODULE_KERNEL_H

#include "base/base.h"
#include "kernel/kernel.h"
#include "pass/pass.h"

typedef unsigned long long module_address;

// our name, parameters; all return 0 for success
#define MODULE_CALLS(F)                                                                             \
    F(alloc, (module_address * out, size_t bytes))                                                  \
    F(free, (module_address memory))                                                                \
    F(copy_in, (module_address to, const void *from, size_t bytes, void *stream))                   \
    F(copy_out, (void *to, module_address from, size_t bytes, void *stream))                        \
    F(wait, (void *stream))                                                                         \
    F(pointer, (void *out, int what, module_address memory))                                        \
    F(load, (void **out, const void *code))                                                         \
    F(unload, (void *module))                                                                       \
    F(find, (void **out, void *module, const char *name))                                           \
    F(launch, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
               unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **argument,  \
                   void **extra))                                                                   \
    F(event_make, (void **out, unsigned flags))                                                     \
    F(event_record, (void *event, void *stream))                                                    \
    F(event_wait, (void *event))                                                                    \
    F(event_between, (float *ms, void *begin, void *end))                                           \
    F(event_free, (void *event))

struct module_calls {
#define MEMBER(word, parameters) int(*word) parameters;
    MODULE_CALLS(MEMBER)
#undef MEMBER
};

struct module_names { // the names in the library
#define MEMBER(word, parameters) const char *word;
    MODULE_CALLS(MEMBER)
#undef MEMBER
};

struct module_target {
    const char *name;
    const struct module_names *names;
    const struct module_calls *calls;                           // set once the target is open
    // returns the record of the first device, for this thread, or NULL and an error
    const struct target *(*open)(void);
    // checks the result of a call; returns false, with an error, unless it is 0
    bool (*check)(int code, const char *function);
    bool (*identify)(struct text *out);                         // appends chip and compiler; returns false,
                                                                // with an error, if that fails
    bool (*compile)(const struct text *source, struct text *code, void *unused);
    bool (*allow_shared)(void *function, int64_t bytes);        // NULL: launches pass the size
};

// Looks up the calls in a library. Returns false, with the name of a missing one in *missing, unless all are
// there.
bool module_bind(void *library, const struct module_names *names, struct module_calls *out,
                 const char **missing);

// The functions of struct kernel_driver (kernel/kernel.h).

// Renders a kernel, which it changes, to *source, compiles it, and loads it on the first device. Returns the
// compiled kernel, which module_free frees, or NULL and an error. The kernel has to outlive it.
void *module_compile(const struct module_target *target, struct tile_kernel *kernel, struct text *source);
// Runs a compiled kernel and waits for it. Arguments in the host's memory are copied to the device and back.
// Returns false, with an error, if that fails.
bool module_run(void *compiled, void *const *address, const int64_t *symbol);
// Runs a compiled kernel once, then `repeats` times, and stores the seconds per repetition on the device's
// clock. Returns false, with an error, if that fails.
bool module_time(void *compiled, void *const *address, const int64_t *symbol, int repeats, double *seconds);
// Unloads and frees a compiled kernel.
void module_free(void *compiled);
// Returns whether an address lies in memory of the driver's device; false, without an error, if the driver
// does not work.
bool module_holds(const struct module_target *target, const void *address);

#endif
