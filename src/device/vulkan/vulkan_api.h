// vulkan_api.h - the parts of Vulkan 1.2 that are used, declared here so that nothing of a vendor is needed
// to build.
//
// Records have the layout of those in vulkan_core.h, with our names; test_vulkan.c compares the two. Handles
// of the driver's own objects are numbers, as on machines of 32 bits.

#ifndef VULKAN_API_H
#define VULKAN_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct vk_instance_ *vk_instance;
typedef struct vk_chip_ *vk_chip; // a VkPhysicalDevice
typedef struct vk_device_ *vk_device;
typedef struct vk_queue_ *vk_queue;
typedef struct vk_commands_ *vk_commands; // a VkCommandBuffer
typedef uint64_t vk_handle;               // of every other kind of object

enum vk_result {
    VK_DONE = 0,
    VK_NO_HOST_MEMORY = -1,
    VK_NO_DEVICE_MEMORY = -2,
    VK_LOST = -4,
};

enum vk_record { // sType
    VK_RECORD_APPLICATION = 0,
    VK_RECORD_INSTANCE = 1,
    VK_RECORD_DEVICE_QUEUE = 2,
    VK_RECORD_DEVICE = 3,
    VK_RECORD_SUBMIT = 4,
    VK_RECORD_MEMORY = 5,
    VK_RECORD_SEMAPHORE = 9,
    VK_RECORD_QUERY_POOL = 11,
    VK_RECORD_BUFFER = 12,
    VK_RECORD_SHADER = 16,
    VK_RECORD_PIPELINE_CACHE = 17,
    VK_RECORD_STAGE = 18,
    VK_RECORD_COMPUTE_PIPELINE = 29,
    VK_RECORD_PIPELINE_LAYOUT = 30,
    VK_RECORD_SET_LAYOUT = 32,
    VK_RECORD_SET_POOL = 33,
    VK_RECORD_SETS = 34,
    VK_RECORD_SET_WRITE = 35,
    VK_RECORD_COMMAND_POOL = 39,
    VK_RECORD_COMMANDS = 40,
    VK_RECORD_BEGIN = 42,
    VK_RECORD_BARRIER = 46,
    VK_RECORD_FEATURES11 = 49,
    VK_RECORD_PROPERTIES11 = 50,
    VK_RECORD_FEATURES12 = 51,
    VK_RECORD_PROPERTIES12 = 52,
    VK_RECORD_FEATURES13 = 53,
    VK_RECORD_FEATURES = 1000059000,
    VK_RECORD_MEMORY_FLAGS = 1000060000,
    VK_RECORD_PROPERTIES = 1000059001,
    VK_RECORD_SEMAPHORE_TYPE = 1000207002,
    VK_RECORD_TIMELINE_SUBMIT = 1000207003,
    VK_RECORD_SEMAPHORE_WAIT = 1000207004,
    VK_RECORD_SUBGROUP_SIZES = 1000225000,
    VK_RECORD_SUBGROUP_SIZE = 1000225001,
    VK_RECORD_ADDRESS = 1000244001,
    VK_RECORD_BFLOAT = 1000141000,
    VK_RECORD_SHARED_LAYOUT = 1000336000,
    VK_RECORD_MATRICES = 1000506000,
    VK_RECORD_MATRIX = 1000506001,
};

// The first members of every record that may be in a list: sType and pNext.
#define VK_HEAD      \
    uint32_t record; \
    void *next

// What a chip is --------------------------------------------------------------------------------------------

enum { VK_KIND_GPU = 2, VK_KIND_CPU = 4, VK_API_1_2 = 1 << 22 | 2 << 12, VK_API_1_3 = 1 << 22 | 3 << 12 };

// Only members that are read have names.
struct vk_limits {
    uint32_t before_range[7], storage_range, push_bytes, before_buffers[10], stage_buffers, before_shared[34],
        shared_bytes;
    uint32_t groups[3], threads, threads_along[3], before_alignment[13];
    uint64_t unused_alignments[3], storage_alignment;
    uint32_t before_period[22];
    float timestamp_ns;
    uint32_t after[12];
    uint64_t unused_copies[2], atom_bytes;
};

struct vk_properties {
    VK_HEAD;
    uint32_t api, driver, vendor, chip, kind;
    char name[256];
    uint8_t cache_id[16];
    struct vk_limits limits;
    uint32_t sparse[5];
};

struct vk_properties11 {
    VK_HEAD;
    uint8_t device_id[16], driver_id[16], luid[8];
    uint32_t nodes, luid_is_valid, subgroup_size, subgroup_stages, subgroup_ops, unused[5], set_descriptors;
    uint64_t allocation_bytes;
};

struct vk_properties12 {
    VK_HEAD;
    uint32_t driver;
    char name[256], detail[256];
    uint8_t conformance[4];
    uint32_t independences[2];
    // of f16, f32, f64
    uint32_t preserves_special[3], preserves_denormals[3], flushes_denormals[3], rounds_even[3],
        rounds_to_zero[3];
    uint32_t unused[29];
    uint64_t timeline_difference;
    uint32_t samples;
};

struct vk_subgroup_sizes { VK_HEAD; uint32_t least, most, groups, stages; };

// A size of matrices that the threads of a scope multiply together, and the types of a, b, c and the result.
struct vk_matrix { VK_HEAD; uint32_t m, n, k, type[4], saturates, scope; };
enum { VK_TYPE_F16 = 0, VK_TYPE_F32 = 1, VK_TYPE_BF16 = 1000141000, VK_SCOPE_SUBGROUP = 3 };

// Features are flags, known by their positions.
struct vk_features { VK_HEAD; uint32_t flag[55]; };
struct vk_features11 { VK_HEAD; uint32_t flag[12]; };
struct vk_features12 { VK_HEAD; uint32_t flag[47]; };
struct vk_features13 { VK_HEAD; uint32_t flag[15]; };
// Features of extensions.
struct vk_shared_layout { VK_HEAD; uint32_t has, has_scalar, has_bytes, has_halves; };
struct vk_bfloat { VK_HEAD; uint32_t has, has_dot, has_matrices; };
struct vk_matrices { VK_HEAD; uint32_t has, has_robust; };
enum { VK_FLOAT64 = 39, VK_INT64 = 40, VK_INT16 = 41 };                                  // of vk_features
enum { VK_STORAGE16 = 0, VK_UNIFORM_STORAGE16 = 1, VK_PUSH16 = 2, VK_POINTERS = 7 };     // of vk_features11
enum {                                                                                   // of vk_features12
    VK_STORAGE8 = 2,
    VK_UNIFORM_STORAGE8 = 3,
    VK_PUSH8 = 4,
    VK_ATOMICS64 = 5,
    VK_SHARED_ATOMICS64 = 6,
    VK_FLOAT16 = 7,
    VK_INT8 = 8,
    VK_SCALAR_LAYOUT = 31,
    VK_SUBGROUP_TYPES = 34,
    VK_HOST_RESET = 36,
    VK_TIMELINE = 37,
    VK_ADDRESSES = 38,
    VK_MEMORY_MODEL = 41,
    VK_MEMORY_MODEL_DEVICE = 42,
};
enum { VK_SUBGROUP_SIZES = 7, VK_FULL_SUBGROUPS = 8, VK_MAINTENANCE4 = 14 }; // of vk_features13

struct vk_extension {
    char name[256];
    uint32_t version;
};

enum { VK_QUEUE_COMPUTE = 2, VK_QUEUE_GRAPHICS = 1 };
struct vk_queue_family { uint32_t flags, queues, timestamp_bits, granularity[3]; };

enum { VK_LOCAL = 1, VK_VISIBLE = 2, VK_COHERENT = 4, VK_CACHED = 8 };
struct vk_memory_types {
    uint32_t types;
    struct { uint32_t flags, heap; } type[32];
    uint32_t heaps;
    struct { uint64_t bytes; uint32_t flags; } heap[16];
};

// What objects are made of ----------------------------------------------------------------------------------

struct vk_application {
    VK_HEAD;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api;
};
struct vk_make_instance {
    VK_HEAD;
    uint32_t flags;
    const struct vk_application *application;
    uint32_t layers;
    const char *const *layer;
    uint32_t extensions;
    const char *const *extension;
};
struct vk_make_queue {
    VK_HEAD;
    uint32_t flags, family, queues;
    const float *priority;
};
struct vk_make_device {
    VK_HEAD;
    uint32_t flags, queues;
    const struct vk_make_queue *queue;
    uint32_t layers;
    const char *const *layer;
    uint32_t extensions;
    const char *const *extension;
    const void *features;
};
enum { VK_USE_COPY_FROM = 1, VK_USE_COPY_TO = 2, VK_USE_STORAGE = 0x20, VK_USE_ADDRESS = 0x20000 };
struct vk_make_buffer {
    VK_HEAD;
    uint32_t flags;
    uint64_t bytes;
    uint32_t use, sharing, families;
    const uint32_t *family;
};
struct vk_make_memory {
    VK_HEAD;
    uint64_t bytes;
    uint32_t type;
};
enum { VK_MEMORY_HAS_ADDRESS = 2 };
struct vk_memory_flags { VK_HEAD; uint32_t flags, devices; }; // of vk_make_memory
struct vk_address { VK_HEAD; vk_handle buffer; };
struct vk_needs {
    uint64_t bytes, alignment;
    uint32_t types;
};
struct vk_semaphore_type {
    VK_HEAD;
    uint32_t type; // 1: a timeline
    uint64_t value;
};
// Of a semaphore; with flags and family, of a command pool.
struct vk_make_plain { VK_HEAD; uint32_t flags, family; };
struct vk_semaphore_wait {
    VK_HEAD;
    uint32_t flags, semaphores;
    const vk_handle *semaphore;
    const uint64_t *value;
};
struct vk_make_commands {
    VK_HEAD;
    vk_handle pool;
    uint32_t level, count;
};
struct vk_begin {
    VK_HEAD;
    uint32_t flags;
    const void *inheritance;
};
struct vk_timeline_submit {
    VK_HEAD;
    uint32_t waits;
    const uint64_t *wait;
    uint32_t signals;
    const uint64_t *signal;
};
struct vk_submit {
    VK_HEAD;
    uint32_t waits;
    const vk_handle *wait;
    const uint32_t *wait_stage;
    uint32_t commands;
    const vk_commands *command;
    uint32_t signals;
    const vk_handle *signal;
};
enum { VK_STAGE_COMPUTE = 0x800, VK_STAGE_COPY = 0x1000, VK_STAGE_END = 0x2000, VK_STAGE_HOST = 0x4000 };
enum { VK_ACCESS_HOST_READ = 0x2000, VK_ACCESS_READ = 0x8000, VK_ACCESS_WRITE = 0x10000 };
struct vk_barrier { VK_HEAD; uint32_t before, after; };
struct vk_copy { uint64_t from, to, bytes; };
enum { VK_STORAGE_BUFFER = 7, VK_SHADER_COMPUTE = 0x20, VK_POINT_COMPUTE = 1, VK_LAYOUT_PUSHED = 1 };
struct vk_range {
    vk_handle buffer;
    uint64_t offset, bytes;
};
struct vk_set_write {
    VK_HEAD;
    vk_handle set;
    uint32_t binding, element, count, kind;
    const void *image;
    const struct vk_range *range;
    const void *view;
};
struct vk_make_shader {
    VK_HEAD;
    uint32_t flags;
    size_t bytes;
    const uint32_t *code;
};
struct vk_binding {
    uint32_t binding, kind, count, stages;
    const void *samplers;
};
struct vk_make_set_layout {
    VK_HEAD;
    uint32_t flags, bindings;
    const struct vk_binding *binding;
};
struct vk_push_range { uint32_t stages, offset, bytes; };
struct vk_make_pipeline_layout {
    VK_HEAD;
    uint32_t flags, sets;
    const vk_handle *set;
    uint32_t ranges;
    const struct vk_push_range *range;
};
struct vk_subgroup_size { VK_HEAD; uint32_t size; };
enum { VK_STAGE_FULL_SUBGROUPS = 2 };
struct vk_stage {
    VK_HEAD;
    uint32_t flags, stage;
    vk_handle shader;
    const char *name;
    const void *constants;
};
struct vk_make_compute {
    VK_HEAD;
    uint32_t flags;
    struct vk_stage stage;
    vk_handle layout, base;
    int32_t base_index;
};
struct vk_make_cache {
    VK_HEAD;
    uint32_t flags;
    size_t bytes;
    const void *data;
};
struct vk_pool_size { uint32_t kind, count; };
struct vk_make_set_pool {
    VK_HEAD;
    uint32_t flags, sets, sizes;
    const struct vk_pool_size *size;
};
struct vk_make_sets {
    VK_HEAD;
    vk_handle pool;
    uint32_t count;
    const vk_handle *layout;
};
struct vk_make_queries { VK_HEAD; uint32_t flags, type, count, statistics; };
enum { VK_QUERY_TIMESTAMP = 2, VK_QUERY_64 = 1 };

// Functions -------------------------------------------------------------------------------------------------

// type, name, parameters. Functions of the instance, and of a device; each device has its own pointers to the
// latter.
#define VULKAN_INSTANCE_FUNCTIONS(F)                                                             \
    F(void, vkDestroyInstance, (vk_instance i, const void *allocator))                           \
    F(int, vkEnumeratePhysicalDevices, (vk_instance i, uint32_t *count, vk_chip *out))           \
    F(void, vkGetPhysicalDeviceProperties2, (vk_chip c, struct vk_properties *out))              \
    F(void, vkGetPhysicalDeviceFeatures2, (vk_chip c, struct vk_features *out))                  \
    F(void, vkGetPhysicalDeviceMemoryProperties, (vk_chip c, struct vk_memory_types *out))       \
    F(void, vkGetPhysicalDeviceQueueFamilyProperties, (vk_chip c, uint32_t *count,               \
                                                       struct vk_queue_family *out))             \
    F(int, vkEnumerateDeviceExtensionProperties, (vk_chip c, const char *layer, uint32_t *count, \
                                                  struct vk_extension *out))                     \
    F(int, vkCreateDevice, (vk_chip c, const struct vk_make_device *make, const void *allocator, \
                            vk_device *out))                                                     \
    F(void *, vkGetDeviceProcAddr, (vk_device d, const char *name))

#define VULKAN_DEVICE_FUNCTIONS(F)                                                                           \
    F(void, vkDestroyDevice, (vk_device d, const void *allocator))                                           \
    F(void, vkGetDeviceQueue, (vk_device d, uint32_t family, uint32_t index, vk_queue *out))                 \
    F(int, vkQueueSubmit, (vk_queue q, uint32_t count, const struct vk_submit *submit, vk_handle fence))     \
    F(int, vkCreateBuffer, (vk_device d, const struct vk_make_buffer *make, const void *allocator,           \
                            vk_handle *out))                                                                 \
    F(void, vkDestroyBuffer, (vk_device d, vk_handle buffer, const void *allocator))                         \
    F(void, vkGetBufferMemoryRequirements, (vk_device d, vk_handle buffer, struct vk_needs *out))            \
    F(uint64_t, vkGetBufferDeviceAddress, (vk_device d, const struct vk_address *of))                        \
    F(int, vkAllocateMemory, (vk_device d, const struct vk_make_memory *make, const void *allocator,         \
                              vk_handle *out))                                                               \
    F(void, vkFreeMemory, (vk_device d, vk_handle memory, const void *allocator))                            \
    F(int, vkBindBufferMemory, (vk_device d, vk_handle buffer, vk_handle memory, uint64_t offset))           \
    F(int, vkMapMemory, (vk_device d, vk_handle memory, uint64_t offset, uint64_t bytes, uint32_t flags,     \
                         void **out))                                                                        \
    F(int, vkCreateSemaphore, (vk_device d, const struct vk_make_plain *make, const void *allocator,         \
                               vk_handle *out))                                                              \
    F(int, vkWaitSemaphores, (vk_device d, const struct vk_semaphore_wait *wait, uint64_t timeout))          \
    F(int, vkGetSemaphoreCounterValue, (vk_device d, vk_handle semaphore, uint64_t *out))                    \
    F(int, vkCreateCommandPool, (vk_device d, const struct vk_make_plain *make, const void *allocator,       \
                                 vk_handle *out))                                                            \
    F(int, vkResetCommandPool, (vk_device d, vk_handle pool, uint32_t flags))                                \
    F(int, vkAllocateCommandBuffers, (vk_device d, const struct vk_make_commands *make, vk_commands *out))   \
    F(int, vkBeginCommandBuffer, (vk_commands c, const struct vk_begin *begin))                              \
    F(int, vkEndCommandBuffer, (vk_commands c))                                                              \
    F(void, vkCmdBindPipeline, (vk_commands c, int point, vk_handle pipeline))                               \
    F(void, vkCmdPushConstants, (vk_commands c, vk_handle layout, uint32_t stages, uint32_t offset,          \
                                 uint32_t bytes,                                                             \
                                 const void *value))                                                         \
    F(void, vkCmdBindDescriptorSets, (vk_commands c, int point, vk_handle layout, uint32_t first,            \
                                      uint32_t count,                                                        \
                                      const vk_handle *set, uint32_t offsets, const uint32_t *offset))       \
    F(void, vkCmdDispatch, (vk_commands c, uint32_t x, uint32_t y, uint32_t z))                              \
    F(void, vkCmdPipelineBarrier, (vk_commands c, uint32_t before, uint32_t after, uint32_t flags,           \
                                   uint32_t memories,                                                        \
                                   const struct vk_barrier *memory, uint32_t buffers, const void *buffer,    \
                                       uint32_t images,                                                      \
                                   const void *image))                                                       \
    F(void, vkCmdCopyBuffer, (vk_commands c, vk_handle from, vk_handle to, uint32_t count,                   \
                              const struct vk_copy *copy))                                                   \
    F(void, vkCmdResetQueryPool, (vk_commands c, vk_handle pool, uint32_t first, uint32_t count))            \
    F(void, vkCmdWriteTimestamp, (vk_commands c, uint32_t stage, vk_handle pool, uint32_t query))            \
    F(int, vkCreateQueryPool, (vk_device d, const struct vk_make_queries *make, const void *allocator,       \
                               vk_handle *out))                                                              \
    F(int, vkGetQueryPoolResults, (vk_device d, vk_handle pool, uint32_t first, uint32_t count,              \
                                   size_t bytes, void *out,                                                  \
                                   uint64_t stride, uint32_t flags))                                         \
    F(int, vkCreateShaderModule, (vk_device d, const struct vk_make_shader *make, const void *allocator,     \
                                  vk_handle *out))                                                           \
    F(void, vkDestroyShaderModule, (vk_device d, vk_handle shader, const void *allocator))                   \
    F(int, vkCreateDescriptorSetLayout, (vk_device d, const struct vk_make_set_layout *make,                 \
                                         const void *allocator,                                              \
                                         vk_handle *out))                                                    \
    F(int, vkCreatePipelineLayout, (vk_device d, const struct vk_make_pipeline_layout *make,                 \
                                    const void *allocator,                                                   \
                                    vk_handle *out))                                                         \
    F(int, vkCreateComputePipelines, (vk_device d, vk_handle cache, uint32_t count,                          \
                                      const struct vk_make_compute *make,                                    \
                                      const void *allocator, vk_handle *out))                                \
    F(void, vkDestroyPipeline, (vk_device d, vk_handle pipeline, const void *allocator))                     \
    F(int, vkCreatePipelineCache, (vk_device d, const struct vk_make_cache *make, const void *allocator,     \
                                   vk_handle *out))                                                          \
    F(void, vkDestroyPipelineCache, (vk_device d, vk_handle cache, const void *allocator))                   \
    F(int, vkGetPipelineCacheData, (vk_device d, vk_handle cache, size_t *bytes, void *out))                 \
    F(int, vkCreateDescriptorPool, (vk_device d, const struct vk_make_set_pool *make, const void *allocator, \
                                    vk_handle *out))                                                         \
    F(int, vkResetDescriptorPool, (vk_device d, vk_handle pool, uint32_t flags))                             \
    F(int, vkAllocateDescriptorSets, (vk_device d, const struct vk_make_sets *make, vk_handle *out))         \
    F(void, vkUpdateDescriptorSets, (vk_device d, uint32_t writes, const struct vk_set_write *write,         \
                                     uint32_t copies,                                                        \
                                     const void *copy))

// Functions of extensions: NULL if the device, or the instance, does not have them.
typedef void vulkan_push_set(vk_commands c, int point, vk_handle layout, uint32_t set, uint32_t writes,
                             const struct vk_set_write *write);

typedef int vulkan_matrix_list(vk_chip c, uint32_t *count, struct vk_matrix *out);

struct vulkan_instance_api {
    vulkan_matrix_list *list_matrices;
#define MEMBER(type, name, parameters) type(*name) parameters;
    VULKAN_INSTANCE_FUNCTIONS(MEMBER)
};

struct vulkan_device_api {
    VULKAN_DEVICE_FUNCTIONS(MEMBER)
#undef MEMBER
    vulkan_push_set *push_set;
};

#endif
