// vulkan.h - Vulkan, opened at run time: one device and one queue per chip, memory in blocks, work in
// batches.
//
// Nothing of a vendor is needed to build or to start. A call that fails sets an error with the function and
// Vulkan's code.

#ifndef VULKAN_H
#define VULKAN_H

#include "base/base.h"
#include "device/vulkan/vulkan_api.h"
#include "pass/pass.h"

// vulkan_driver.c -------------------------------------------------------------------------------------------

enum { VULKAN_DEVICES = 8 };

struct vulkan_device {
    vk_chip chip;
    vk_device device; // NULL: not opened yet
    vk_queue queue;
    struct vulkan_device_api api;
    char name[256], detail[320];
    char whole_detail[420]; // with how the chip rounds, once that is known
    char identity[640]; // facts that compiled kernels depend on besides their words
    unsigned char id[16]; // of the chip, the same for every driver
    bool is_host;       // it is the host's CPU
    atomic_bool is_lost; // the driver lost the device: nothing works on it any more
    uint32_t family;    // of its queue
    uint32_t extensions; // that the device is opened with: VULKAN_PUSH_DESCRIPTOR, ...
    // by bindings: bytes of one buffer that a kernel reaches; such buffers of a kernel
    uint32_t storage_range, stage_buffers;
    bool has_addresses; // kernels can use addresses instead of bindings
    uint32_t subgroup; // threads per subgroup that kernels are compiled for; 0: the chip has only one size
    float timestamp_ns; // ns per tick of its clock; 0: it has none
    struct vk_memory_types types;
    int local_type, upload_type, read_type; // types of memory for arrays, for data that the host writes, and
                                            // for data that it reads
    uint64_t memory;    // bytes of the heap of arrays
    struct vk_features features; // the features that it is opened with, and what follows from them:
    struct vk_features11 features11;
    struct vk_features12 features12;
    struct vk_features13 features13;
    struct vk_shared_layout shared_layout;
    struct vk_bfloat bfloat;
    struct vk_matrices matrices;
    struct target_unit unit, far; // far: for kernels that reach buffers by addresses
    atomic_bool knows_rounding; // `unit` says how the chip rounds
};

enum { VULKAN_PUSH_DESCRIPTOR = 1, VULKAN_SHARED_LAYOUT = 2, VULKAN_BFLOAT = 4, VULKAN_MATRICES = 8 };

// Opens the loader, or a driver directly if there is no loader, and finds the chips, once; GPUs come first.
// Returns the number of chips, or 0 with the reason in *reason, which may be NULL.
int vulkan_open(const char **reason);
// Returns whether a chip that vulkan_open found is the host's CPU, without opening it.
bool vulkan_is_host(int unit);
// Returns what is known of a chip that need not be opened, or NULL and an error if there is none.
const struct vulkan_device *vulkan_chip(int unit);
// Returns a device that is open and whose record says how it rounds, or NULL and an error.
struct vulkan_device *vulkan_device(int unit);
// Returns a device that is open, whether or not it is known how it rounds, or NULL and an error.
struct vulkan_device *vulkan_opened(int unit);
// Returns the index of a device, by which the functions above find it.
int vulkan_unit(const struct vulkan_device *d);
// Returns the target record of a device, opened as by vulkan_device, or NULL and an error.
const struct target *vulkan_target(int unit);

// Returns whether `code` reports success, which codes of at least VK_DONE do; sets an error that names the
// function if it does not. A device that is lost is marked as such.
bool vulkan_check(struct vulkan_device *d, int code, const char *function);
// Calls a function of a device and checks its code.
#define VULKAN_CALL(d, name, ...) vulkan_check(d, (d)->api.name(__VA_ARGS__), #name)

// vulkan_memory.c -------------------------------------------------------------------------------------------

// Memory of a device is named by a pointer that the host cannot dereference: it encodes the number of a
// block, which is one VkBuffer, and an offset in it, a multiple of VULKAN_ALIGNMENT.
enum { VULKAN_ALIGNMENT = 256 };
// Returns memory of the device, at least 1 byte, or NULL and an error. The caller frees it with vulkan_free.
void *vulkan_alloc(struct vulkan_device *d, size_t bytes);
// Frees memory, which no work may use any more; NULL is allowed.
void vulkan_free(struct vulkan_device *d, void *memory);
// The place of memory. `mapped` is its address on the host, NULL if the host does not see it.
struct vulkan_place {
    vk_handle buffer;
    uint64_t offset, address; // address: for kernels, if the device has_addresses
    char *mapped;
};
// Returns where an address within memory of vulkan_alloc lies.
struct vulkan_place vulkan_place(const struct vulkan_device *d, const void *memory);
// Returns whether the memory of arrays is cached by the host, which reads it fast if it is mapped.
bool vulkan_is_cached(const struct vulkan_device *d);
// Returns the number of blocks of memory that were created since the process began.
int64_t vulkan_blocks_made(int unit);

// A buffer with memory of its own.
struct vulkan_buffer {
    vk_handle buffer, memory;
    char *mapped; // NULL: the memory is not visible to the host
    uint64_t address; // 0: it has none
};
// Creates a buffer with memory of this type, mapped if the host can see it. Returns false, with an error, if
// that fails; *b is zeroed then.
bool vulkan_buffer_open(struct vulkan_device *d, struct vulkan_buffer *b, int type, uint64_t bytes);
// Releases the buffer and its memory, which no work may use any more, and zeroes *b.
void vulkan_buffer_close(struct vulkan_device *d, struct vulkan_buffer *b);

// vulkan_queue.c --------------------------------------------------------------------------------------------

// The arguments of a launch: buffers, with the bytes that the kernel accesses of each, and the bytes of its
// block (render/spirv/spirv.h).
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
    bool is_too_large; // a buffer or value did not fit
    struct vulkan_reach buffer[VULKAN_BUFFERS];
    uint32_t block_bytes;
    uint32_t block[VULKAN_BLOCK_BYTES / 4];
};
// Begins to describe a launch of f with so many workgroups: all buffers follow, then the block, then all
// values, each in the order of the kernel's parameters. A buffer or value for which there is no room makes
// vulkan_launch fail.
void vulkan_launch_begin(struct vulkan_launch *l, const struct vulkan_function *f, int64_t groups);
// Appends a buffer, of which the kernel reaches `bytes` from `memory` on.
void vulkan_launch_buffer(struct vulkan_launch *l, const void *memory, uint64_t bytes, bool is_written);
// Begins the block with what the kernel needs to find its buffers, and with the number of workgroups.
void vulkan_launch_block(struct vulkan_launch *l, const struct vulkan_device *d);
// Appends a value to the block, padded to a multiple of 4 bytes.
void vulkan_launch_value(struct vulkan_launch *l, const void *value, size_t bytes);

// All commands of a device have one order, whichever thread enqueues them. There is a barrier between
// commands that share memory which one of them writes, and nowhere else. Commands are collected in batches; a
// batch is submitted when it is large enough, when a thread waits for it, and by vulkan_submit.

// Enqueues a launch. Returns false, with an error, if that fails.
bool vulkan_launch(struct vulkan_device *d, const struct vulkan_launch *l);
// Enqueues a copy from the host; `from` may be reused on return. Returns false, with an error, if that fails.
bool vulkan_write(struct vulkan_device *d, void *to, const void *from, size_t bytes);
// Waits at least for the work before `value`, for all work if it is UINT64_MAX, and copies to the host.
// Returns false, with an error, if that fails.
bool vulkan_read(struct vulkan_device *d, void *to, const void *from, size_t bytes, uint64_t value);
// Submits the commands that were collected. Returns false, with an error, if the driver does not accept them:
// they are lost then.
bool vulkan_submit(struct vulkan_device *d);
// Submits the commands that were collected if the device has no other work. vulkan_good reports a failure.
void vulkan_submit_if_idle(struct vulkan_device *d);
// Returns whether the driver accepted all batches; returns false, with an error, once per failure.
bool vulkan_good(int unit);

// Returns the value that the device's timeline has once all work enqueued so far is done.
uint64_t vulkan_point(struct vulkan_device *d);
// Waits until the timeline reaches a value, and submits the commands that this needs. Returns false, with an
// error, if that fails.
bool vulkan_wait(struct vulkan_device *d, uint64_t value);
// Returns whether the timeline has reached a value. Does not wait.
bool vulkan_is_done(struct vulkan_device *d, uint64_t value);
// Calls run(data), which enqueues work and returns whether it could, waits, and stores how many ns of the
// device's own clock the work took. Returns false, with an error, if that fails.
bool vulkan_time(struct vulkan_device *d, bool (*run)(void *data), void *data, double *ns);

// Reports the times of launches that a profile recorded and that are not known yet: profile_end of struct
// device.
void vulkan_profile_end(void);

// Counts since the process began.
struct vulkan_counts {
    int64_t launches, barriers, submissions;
};
// Returns the counts of a device.
struct vulkan_counts vulkan_counts(int unit);

// vulkan_kernel.c -------------------------------------------------------------------------------------------

struct vulkan_function {
    vk_handle pipeline, layout, set_layout;
    int bindings; // the number of bindings, up to the last one that its module uses
    bool has_addresses; // it uses addresses instead of bindings of buffers
};

// Compiles a SPIR-V module and appends to `code` what vulkan_load makes functions of, in this process or
// another: the module's words, and the driver's cache data for them. Returns false, with an error, if that
// fails.
bool vulkan_compile(struct vulkan_device *d, const struct text *source, struct text *code);
// Makes functions of the first `count` entry points of such code. They live as long as the device, or until
// vulkan_unload. Returns false, with an error, if that fails.
bool vulkan_load(struct vulkan_device *d, const char *code, size_t bytes, int count,
                 struct vulkan_function **out);
// Waits for the device and releases all functions of one vulkan_load, the first of which is *first; NULL is
// allowed.
void vulkan_unload(struct vulkan_device *d, int count, struct vulkan_function *first);

// Completes the record of an open device with how the chip rounds, which is measured once by running kernels
// (vulkan_tile.c). Returns false, with an error, if that fails.
bool vulkan_know_rounding(struct vulkan_device *d);

#endif
