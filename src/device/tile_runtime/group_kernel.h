// group_kernel.h - what drivers of groups of threads share: sizes of a call, computed from the kernel that was rendered.

#ifndef GROUP_KERNEL_H
#define GROUP_KERNEL_H

#include "kernel/kernel.h"
#include "render/render.h"

struct group_kernel {
    const struct tile_kernel *kernel; // as render_kernel left it; lives longer than this
    int parameters, rooms, launches;
    bool has_status;    // a last argument: render_has_status
    bool reads_scalars; // groups of a launch follow from parameters that are passed by value
    struct render_launch *launch;
    // These need the kernel no more:
    struct tile_tape *bytes; // of the sizes of parameters
    struct tile_tape *sizes; // of the sizes of rooms, then of the groups of launches
};

// Sizes of one call: bytes of buffers (of a scalar, of its value), bytes of memory outside of all groups, groups of each launch.
struct group_sizes {
    int64_t *bytes, *room, *groups;
};

bool group_kernel_open(struct group_kernel *g,
                       const struct tile_kernel *kernel); // false and an error; close it anyway
void group_kernel_close(struct group_kernel *g);
// address: of each parameter, of its value if it is passed by value. The same as for group_kernel_open.
bool group_sizes_open(struct group_sizes *s, const struct group_kernel *g, const int64_t *symbol,
                      void *const *address);
void group_sizes_close(struct group_sizes *s);
int64_t group_sizes_most(const struct group_sizes *s, const struct group_kernel *g); // bytes of the largest buffer
bool group_sizes_fail(const char *kernel); // the error of sizes that cannot be; false

// One call on a device with memory of its own, to which all arguments are copied. Of the device's functions alloc returns NULL, and the
// others false, after an error; alloc takes sizes of 0, and free waits for nothing.
struct group_memory {
    void *(*alloc)(void *device, size_t bytes);
    bool (*write)(void *device, void *to, const void *from, size_t bytes);
    bool (*read)(void *device, void *to, const void *from, size_t bytes);
    void (*free)(void *device, void *memory);
};
struct group_call {
    const struct group_kernel *group;
    const struct group_memory *use;
    void *device; // as these functions take it
    void *const *address;
    const int64_t *symbol;
    struct group_sizes sizes;
    void **memory; // of parameters that are not passed by value, of rooms, of the status where there is one
};
bool group_call_is_value(const struct group_call *k, int parameter);
bool group_call_open(struct group_call *k); // of which the rest is set; false and an error: close it anyway
bool group_call_read(const struct group_call *k); // outputs, and whether all assertions held; false and an error
void group_call_close(struct group_call *k, bool is_done); // not done: the device may still use memory, which stays with it

// kernel_code.c: what a compiler made of a source, kept on disk. identity says what it depends on besides: chip, driver, compiler and
// its options.
struct kernel_code {
    const char *identity;
    const struct text *source;
    bool (*compile)(const struct text *source, struct text *code, void *context); // false and an error
    void *(*load)(const char *code, size_t bytes, void *context);                 // NULL and an error
    void *context;
};
void *kernel_code_use(const struct kernel_code *code); // what load gave; NULL and an error

// rounding.c: tries how a unit rounds, unless that is on disk, and sets exactness and flushing in its record. run runs a tile kernel, which
// it may change, as struct kernel_driver. False and an error.
struct kernel_trial {
    const char *identity;        // of the unit and its driver
    const struct target *target; // with the record
    struct target_spirv *record;
    bool (*run)(struct tile_kernel *kernel, void *const *address, const int64_t *symbol, void *context);
    void *context;
};
bool kernel_try_rounding(struct kernel_trial *k);

// What an assertion of that line says, as an error. False.
bool group_kernel_fail(const struct group_kernel *g, int line);

#endif
