// group_kernel.h - code that drivers of GPUs share: the sizes of a call, its memory, compiled code on disk,
// and how a unit rounds.

#ifndef GROUP_KERNEL_H
#define GROUP_KERNEL_H

#include "kernel/kernel.h"
#include "render/render.h"

struct group_kernel {
    const struct tile_kernel *kernel; // after render_kernel; outlives this
    int parameters, launches;
    int rooms;          // buffers that pass values between launches
    bool has_status;    // the kernel has a last argument for it (render_has_status)
    bool reads_scalars; // the workgroups of a launch depend on parameters passed by value
    struct render_launch *launch;
    // These do not need the kernel any more:
    struct tile_tape *bytes; // computes the bytes of parameters
    struct tile_tape *sizes; // computes the bytes of rooms, then the workgroups of launches
};

// The sizes of one call.
struct group_sizes {
    int64_t *bytes;  // of each parameter's buffer or value
    int64_t *room;   // of each room
    int64_t *groups; // the workgroups of each launch
};

// Describes a kernel's launches and sizes. Returns false, with an error, if a size cannot be computed before
// the launch or memory runs out; call close anyway.
bool device_group_kernel_open(struct group_kernel *g, const struct tile_kernel *kernel);
// Frees what open made, and zeroes *g.
void device_group_kernel_close(struct group_kernel *g);
// Computes the sizes of a call. `address` has an entry for each parameter, of its buffer or its value.
// Returns false, with an error, if a size is impossible or memory runs out; call close anyway.
bool device_group_sizes_open(struct group_sizes *s, const struct group_kernel *g, const int64_t *symbol,
                             void *const *address);
// Frees the sizes.
void device_group_sizes_close(struct group_sizes *s);
// Returns the bytes of the largest buffer.
int64_t device_group_sizes_most(const struct group_sizes *s, const struct group_kernel *g);
// Sets the error for impossible sizes; returns false.
bool device_group_sizes_fail(const char *kernel);

// Functions of a device with memory of its own, to which all arguments of a call are copied. alloc returns
// NULL, and the others false, with an error, if they fail. alloc accepts 0 bytes; free does not wait.
struct group_memory {
    void *(*alloc)(void *device, size_t bytes);
    bool (*write)(void *device, void *to, const void *from, size_t bytes);
    bool (*read)(void *device, void *to, const void *from, size_t bytes);
    void (*free)(void *device, void *memory);
};
struct group_call {
    const struct group_kernel *group;
    const struct group_memory *use;
    void *device; // passed to these functions
    void *const *address;
    const int64_t *symbol;
    struct group_sizes sizes;
    // of parameters that are not passed by value, then of rooms, then of the status if there is one
    void **memory;
};
// Returns whether a parameter of the call is passed by value.
bool device_group_call_is_value(const struct group_call *k, int parameter);
// Allocates memory and copies arguments to it, after the first five fields are set. Returns false, with an
// error, if that fails; call close anyway.
bool device_group_call_open(struct group_call *k);
// Copies the outputs back. Returns false, with an error, if that fails or an assertion of the kernel failed.
bool device_group_call_read(const struct group_call *k);
// Frees the memory; if the call is not done, the device may still use it, and it is left to the device.
void device_group_call_close(struct group_call *k, bool is_done);

// kernel_code.c: compiled code that is kept on disk, under a key of its source and identity.
struct kernel_code {
    const char *identity; // what the code depends on besides its source: chip, driver, compiler and options
    const struct text *source;
    // returns false, with an error, if it fails
    bool (*compile)(const struct text *source, struct text *code, void *context);
    // returns NULL, with an error, if it fails
    void *(*load)(const char *code, size_t bytes, void *context);
    void *context;
};
// Finds or compiles the code, and returns the result of load, or NULL and an error.
void *kernel_code_use(const struct kernel_code *code);

// A trial of how a unit rounds (rounding.c).
struct kernel_trial {
    const char *identity;        // of the unit and its driver
    const struct target *target; // with the record
    struct target_spirv *record;
    // runs a tile kernel, which it may change, like kernel_driver.run
    bool (*run)(struct tile_kernel *kernel, void *const *address, const int64_t *symbol, void *context);
    void *context;
};
// Measures how the unit rounds, unless the answer is on disk, and sets exactness and flushing in its record.
// Returns false, with an error, if that fails.
bool kernel_try_rounding(struct kernel_trial *k);

// Sets the error of the assertion on a line; returns false.
bool device_group_kernel_fail(const struct group_kernel *g, int line);

#endif
