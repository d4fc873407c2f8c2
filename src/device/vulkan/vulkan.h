// vulkan.h - Vulkan as we use it: opened at run time, one device and one queue a chip, memory in blocks, work
// in batches.
//
// Nothing of a vendor is needed to build or to start. A call that fails records an error that names the
// function and Vulkan's code.

#ifndef VULKAN_H
#define VULKAN_H

#include "base/base.h"
#include "device/vulkan/vulkan_api.h"
#include "pass/pass.h"

// vulkan_driver.c -------------------------------------------------------------------------------------------

enum { VULKAN_DEVICES = 8 };

struct vulkan_device {
    vk_chip chip;
    vk_device device; // NULL: it was not needed yet
    vk_queue queue;
    struct vulkan_device_api api;
    char name[256], detail[320];
    char whole_detail[420]; // with how it rounds, once that is known
    char identity[640]; // what compiled kernels depend on besides their words
    unsigned char id[16]; // of the chip, whichever driver reaches it
    bool is_host;       // it is the host's CPU
    atomic_bool is_lost; // the driver gave it up: nothing works on it any more
    uint32_t family;    // of its queue
    uint32_t extensions; // that it is opened with: VULKAN_PUSH_DESCRIPTOR, ...
    // by bindings: bytes of one buffer that a kernel reaches; such buffers of a kernel
    uint32_t storage_range, stage_buffers;
    bool has_addresses; // kernels can do without bindings
    uint32_t subgroup; // threads that kernels are to be compiled for; 0: the chip has one size only
    float timestamp_ns; // 0: it has no clock
    struct vk_memory_types types;
    int local_type, upload_type, read_type; // of arrays, of what the host writes, of what it reads
    uint64_t memory;    // bytes of the heap of arrays
    struct vk_features features; // what it is opened with, and what these lead to:
    struct vk_features11 features11;
    struct vk_features12 features12;
    struct vk_features13 features13;
    struct vk_shared_layout shared_layout;
    struct vk_bfloat bfloat;
    struct vk_matrices matrices;
    struct target_unit unit, far; // far: its kernels reach buffers by addresses
    atomic_bool knows_rounding; // unit says how the chip rounds
};

enum { VULKAN_PUSH_DESCRIPTOR = 1, VULKAN_SHARED_LAYOUT = 2, VULKAN_BFLOAT = 4, VULKAN_MATRICES = 8 };

// Opens the loader, or without one a driver by itself, and finds the chips, once. How many there are, GPUs
// first; 0 with the reason.
int vulkan_open(const char **reason);
bool vulkan_is_host(int unit); // of a chip that was found, which need not work
// What is known of a chip without using it; NULL and an error: there is none.
const struct vulkan_device *vulkan_chip(int unit);
struct vulkan_device *vulkan_device(int unit); // opened for use, its record complete; NULL and an error
struct vulkan_device *vulkan_opened(int unit); // the same before it is known how the chip rounds
int vulkan_unit(const struct vulkan_device *d);
const struct target *vulkan_target(int unit); // its record; NULL and an error

// A code is VK_DONE; else false and an error. A device that is lost is remembered as such.
bool vulkan_check(struct vulkan_device *d, int code, const char *function);
// Calls a function of a device and checks its code.
#define VULKAN_CALL(d, name, ...) vulkan_check(d, (d)->api.name(__VA_ARGS__), #name)

// vulkan_memory.c -------------------------------------------------------------------------------------------

// Memory of a device, which the host never reaches through its address: that is a number which names a block,
// of one VkBuffer, and a place in it, both of which begin at multiples of VULKAN_ALIGNMENT. NULL and an
// error; a size of 0 is 1.
enum { VULKAN_ALIGNMENT = 256 };
void *vulkan_alloc(struct vulkan_device *d, size_t bytes);
void vulkan_free(struct vulkan_device *d, void *memory); // nothing may use it any more
// Where memory lies. mapped is where the host sees it, NULL if it does not.
struct vulkan_place {
    vk_handle buffer;
    uint64_t offset, address; // address: as kernels know it, of a device that has_addresses
    char *mapped;
};
struct vulkan_place vulkan_place(const struct vulkan_device *d, const void *memory);
bool vulkan_is_cached(const struct vulkan_device *d); // the host reads mapped memory at its own speed
int64_t vulkan_blocks_made(int unit); // of memory, since the process began

// A buffer with memory of a type. False and an error.
struct vulkan_buffer {
    vk_handle buffer, memory;
    char *mapped; // NULL: the type is not visible to the host
    uint64_t address; // 0: it has none
};
bool vulkan_buffer_open(struct vulkan_device *d, struct vulkan_buffer *b, int type, uint64_t bytes);
void vulkan_buffer_close(struct vulkan_device *d, struct vulkan_buffer *b);

// vulkan_queue.c --------------------------------------------------------------------------------------------

// What a kernel is given: buffers, of which it reaches so many bytes, and the bytes of its block
// (render/spirv/spirv.h).
enum { VULKAN_BUFFERS = 32, VULKAN_BLOCK_BYTES = 4096 };
struct vulkan_reach {
    const void *memory;
    uint64_t bytes;
    bool is_written;
};
struct vulkan_function;
struct vulkan_launch {
    const struct vulkan_function *function;
    int64_t groups;
    int buffers;
    bool is_too_large; // something had no room
    struct vulkan_reach buffer[VULKAN_BUFFERS];
    uint32_t block_bytes;
    uint32_t block[VULKAN_BLOCK_BYTES / 4];
};
// All buffers, in order; then the block begins, with all values, in order.
void vulkan_launch_begin(struct vulkan_launch *l, const struct vulkan_function *f, int64_t groups);
void vulkan_launch_buffer(struct vulkan_launch *l, const void *memory, uint64_t bytes, bool is_written);
void vulkan_launch_block(struct vulkan_launch *l, const struct vulkan_device *d);
void vulkan_launch_value(struct vulkan_launch *l, const void *value, size_t bytes);

// Everything that a device is asked for comes in one order, whichever thread asks; a barrier stands between
// commands with memory in common that one of them writes, and only there. Commands are collected and
// submitted in batches: when there are enough of them, when somebody waits, and by vulkan_submit. False and
// an error.
bool vulkan_launch(struct vulkan_device *d, const struct vulkan_launch *l);
// returns when `from` may be used again
bool vulkan_write(struct vulkan_device *d, void *to, const void *from, size_t bytes);
// Waits for all that came before `value`, then reads. A value of UINT64_MAX stands for all there is.
bool vulkan_read(struct vulkan_device *d, void *to, const void *from, size_t bytes, uint64_t value);
bool vulkan_submit(struct vulkan_device *d);
// so that a device which has nothing to do gets what was collected
void vulkan_submit_if_idle(struct vulkan_device *d);
bool vulkan_good(int unit); // false and an error, once: a batch was not taken

// The value that the device's timeline has once all is done that was asked for so far; waits for one, and
// looks whether it is there.
uint64_t vulkan_point(struct vulkan_device *d);
bool vulkan_wait(struct vulkan_device *d, uint64_t value); // false and an error
bool vulkan_is_done(struct vulkan_device *d, uint64_t value);
// Calls run(data), which asks for something, and says how many ns of the device's own clock that took. False
// and an error.
bool vulkan_time(struct vulkan_device *d, bool (*run)(void *data), void *data, double *ns);

void vulkan_profile_end(void); // as of struct device

// What was done since the process began.
struct vulkan_counts {
    int64_t launches, barriers, submissions;
};
struct vulkan_counts vulkan_counts(int unit);

// vulkan_kernel.c -------------------------------------------------------------------------------------------

struct vulkan_function {
    vk_handle pipeline, layout, set_layout;
    int bindings; // up to the last that its module uses
    bool has_addresses; // instead of bindings of buffers
};

// What to keep of a module for the next process: its words, and what the driver made of them. False and an
// error.
bool vulkan_compile(struct vulkan_device *d, const struct text *source, struct text *code);
// Makes functions of the first entry points of that. They live as long as the device, or until vulkan_unload.
// False and an error.
bool vulkan_load(struct vulkan_device *d, const char *code, size_t bytes, int count,
                 struct vulkan_function **out);
// Waits for the device, and releases all functions of one vulkan_load; NULL is none.
void vulkan_unload(struct vulkan_device *d, int count, struct vulkan_function *first);

// vulkan_tile.c: completes the record of an open device by how the chip rounds, which is tried once. False
// and an error.
bool vulkan_know_rounding(struct vulkan_device *d);

#endif
