// vulkan.c - a Vulkan driver in front of lavapipe: it hides capabilities, does nothing until something waits
// for it, and fails on request.
//
// The loader opens it through fake/vulkan.json (VK_DRIVER_FILES). FAKE_VULKAN is a list of its properties,
// separated by commas:
//   discrete   the host cannot access the memory of arrays; bar: it can, but without a cache
//   gpu        it is a GPU: the same chip as the first device of test/fake/cuda.c
//   late       submitted work does not run until something waits for it
//   push       push descriptors are missing; f64, i64, i16, i8, f16, storage8, storage16, subgroups,
//              addresses: so are these
//   divide     quotients of f32 are wrong; multiply: products are wrong
//   buffers=N  most storage buffers of a kernel; push_bytes=N: most bytes of push constants; range=N: most
//              bytes of a storage buffer
// Tests find fake_fail and the like (fake.h) by dlsym.

#include "device/vulkan/vulkan_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT        __attribute__((visibility("default")))
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

typedef void *get_address(void *of, const char *name);

#ifdef __aarch64__
// Lavapipe compiles for the CPU that LLVM detects, with instructions that virtual machines may hide (SVE).
// This function, which names a CPU without them, is found before LLVM's own.
struct llvm_text {
    const char *data;
    size_t len;
};
struct llvm_text llvm_host(void) __asm__("_ZN4llvm3sys14getHostCPUNameEv");
EXPORT struct llvm_text llvm_host(void) {
    return (struct llvm_text){"neoverse-n1", strlen("neoverse-n1")};
}
#endif

static get_address *next_instance; // lavapipe's function
static struct vulkan_instance_api instance_api;
static struct vulkan_device_api api;

// What it is told -------------------------------------------------------------------------------------------

// Returns whether FAKE_VULKAN has a word, and sets the number after it.
static bool lacks(const char *word, uint32_t *number) {
    const char *list = getenv("FAKE_VULKAN");
    size_t len = strlen(word);
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        if (!strncmp(list, word, len) && strchr(",=", list[len])) {
            if (number && list[len] == '=')
                *number = (uint32_t)atoi(list + len + 1);
            return true;
        }
    return false;
}

static struct {
    pthread_mutex_t lock;
    char function[64];
    int after, code;
    bool is_lost;
    int64_t calls;
} failing = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Makes the after-th call from now on of a function, or if it is "" of any, fail with the code; a lost device
// stays lost.
EXPORT void fake_fail(const char *function, int after, int code) {
    pthread_mutex_lock(&failing.lock);
    snprintf(failing.function, sizeof failing.function, "%s", function);
    failing.after = after;
    failing.code = code;
    failing.is_lost = false;
    pthread_mutex_unlock(&failing.lock);
}

EXPORT int64_t fake_calls(void) { // of all functions that can fail
    return failing.calls;
}

static int fails(const char *function) {
    pthread_mutex_lock(&failing.lock);
    failing.calls++;
    int code = failing.is_lost ? VK_LOST : VK_DONE;
    if (failing.after && (!failing.function[0] || !strcmp(failing.function, function)) && !--failing.after) {
        code = failing.code;
        failing.is_lost = code == VK_LOST;
    }
    pthread_mutex_unlock(&failing.lock);
    return code;
}

// What a chip has -------------------------------------------------------------------------------------------

static void get_features(vk_chip c, struct vk_features *out) {
    instance_api.vkGetPhysicalDeviceFeatures2(c, out);
    out->flag[VK_FLOAT64] &= !lacks("f64", NULL);
    out->flag[VK_INT64] &= !lacks("i64", NULL);
    out->flag[VK_INT16] &= !lacks("i16", NULL);
    for (struct vk_features *f = out->next; f; f = f->next) { // all structures begin alike
        if (f->record == VK_RECORD_FEATURES11 && lacks("storage16", NULL))
            f->flag[VK_STORAGE16] = f->flag[VK_UNIFORM_STORAGE16] = f->flag[VK_PUSH16] = 0;
        if (f->record != VK_RECORD_FEATURES12)
            continue;
        if (lacks("storage8", NULL))
            f->flag[VK_STORAGE8] = f->flag[VK_UNIFORM_STORAGE8] = f->flag[VK_PUSH8] = 0;
        if (lacks("i64", NULL))
            f->flag[VK_ATOMICS64] = f->flag[VK_SHARED_ATOMICS64] = 0;
        f->flag[VK_INT8] &= !lacks("i8", NULL);
        f->flag[VK_FLOAT16] &= !lacks("f16", NULL);
        f->flag[VK_ADDRESSES] &= !lacks("addresses", NULL);
        f->flag[VK_TIMELINE] &= !lacks("timeline", NULL);
    }
}

static void get_properties(vk_chip c, struct vk_properties *out) {
    char name[sizeof out->name];
    instance_api.vkGetPhysicalDeviceProperties2(c, out);
    if (getenv("FAKE_VULKAN")) {
        snprintf(name, sizeof name, "fake %.200s", out->name);
        memcpy(out->name, name, sizeof name);
    }
    lacks("buffers", &out->limits.stage_buffers);
    lacks("push_bytes", &out->limits.push_bytes);
    lacks("range", &out->limits.storage_range);
    out->driver +=
        lacks("divide", NULL) + 2 * lacks("multiply", NULL); // other versions, since they round differently
    if (lacks("gpu", NULL))
        out->kind = VK_KIND_GPU;
    for (struct vk_properties11 *p = out->next; p; p = p->next) {
        if (p->record != VK_RECORD_PROPERTIES11)
            continue;
        if (lacks("subgroups", NULL))
            p->subgroup_ops = 1;
        if (lacks("gpu", NULL))
            snprintf((char *)p->device_id, sizeof p->device_id, "fake chip 0");
    }
}

static int get_extensions(vk_chip c, const char *layer, uint32_t *count, struct vk_extension *out) {
    int code = instance_api.vkEnumerateDeviceExtensionProperties(c, layer, count, out);
    for (uint32_t i = 0; out && i < *count; i++)
        if (!strcmp(out[i].name, "VK_KHR_push_descriptor") && lacks("push", NULL))
            snprintf(out[i].name, sizeof out[i].name, "VK_FAKE_nothing");
    return code;
}

// Memory ----------------------------------------------------------------------------------------------------

// Lavapipe has one type of memory. This GPU has three: its own, one that the host writes, and one that the
// host reads.
static const uint32_t discrete[] = {VK_LOCAL, VK_VISIBLE | VK_COHERENT, VK_VISIBLE | VK_COHERENT | VK_CACHED};

static void get_memory_types(vk_chip c, struct vk_memory_types *out) {
    instance_api.vkGetPhysicalDeviceMemoryProperties(c, out);
    if (lacks("bar", NULL))
        out->type[0].flags &= ~(uint32_t)VK_CACHED;
    if (!lacks("discrete", NULL))
        return;
    out->types = LENGTH(discrete);
    for (uint32_t i = 0; i < LENGTH(discrete); i++) {
        out->type[i].flags = discrete[i];
        out->type[i].heap = i > 0;
    }
    out->heap[1] = out->heap[0];
    out->heap[1].flags = 0;
    out->heaps = 2;
}

static void get_needs(vk_device d, vk_handle buffer, struct vk_needs *out) {
    api.vkGetBufferMemoryRequirements(d, buffer, out);
    if (lacks("discrete", NULL))
        out->types = (1 << LENGTH(discrete)) - 1;
}

static int allocate(vk_device d, const struct vk_make_memory *make, const void *allocator, vk_handle *out) {
    struct vk_make_memory real = *make;
    int code = fails("vkAllocateMemory");
    if (lacks("discrete", NULL))
        real.type = 0;
    return code ? code : api.vkAllocateMemory(d, &real, allocator, out);
}

// Running ---------------------------------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    vk_queue queue;
    int count;
    struct {
        vk_commands commands;
        vk_handle semaphore;
        uint64_t value;
    } waiting[64]; // enough for all batches, without a ring
} late = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int submit_one(vk_queue q, vk_commands commands, vk_handle semaphore, uint64_t value) {
    struct vk_timeline_submit timeline = {
        .record = VK_RECORD_TIMELINE_SUBMIT, .signals = 1, .signal = &value};
    struct vk_submit submit = {.record = VK_RECORD_SUBMIT,
                               .next = &timeline,
                               .commands = 1,
                               .command = &commands,
                               .signals = 1,
                               .signal = &semaphore};
    return api.vkQueueSubmit(q, 1, &submit, 0);
}

static int submit(vk_queue q, uint32_t count, const struct vk_submit *s, vk_handle fence) {
    int code = fails("vkQueueSubmit");
    if (code || !lacks("late", NULL))
        return code ? code : api.vkQueueSubmit(q, count, s, fence);
    const struct vk_timeline_submit *timeline = s->next;
    pthread_mutex_lock(&late.lock);
    late.queue = q;
    if (late.count == LENGTH(late.waiting) || count != 1 || s->commands != 1 || s->signals != 1)
        abort();
    late.waiting[late.count].commands = *s->command;
    late.waiting[late.count].semaphore = *s->signal;
    late.waiting[late.count++].value = *timeline->signal;
    pthread_mutex_unlock(&late.lock);
    return VK_DONE;
}

static int wait_semaphores(vk_device d, const struct vk_semaphore_wait *w, uint64_t timeout) {
    int code = fails("vkWaitSemaphores"), begun = 0;
    if (code)
        return code;
    pthread_mutex_lock(&late.lock);
    for (; begun < late.count && late.waiting[begun].value <= *w->value; begun++)
        submit_one(late.queue, late.waiting[begun].commands, late.waiting[begun].semaphore,
                   late.waiting[begun].value);
    late.count -= begun;
    memmove(late.waiting, late.waiting + begun, sizeof *late.waiting * (size_t)late.count);
    pthread_mutex_unlock(&late.lock);
    return api.vkWaitSemaphores(d, w, timeout);
}

// Code ------------------------------------------------------------------------------------------------------

enum { OP_TYPE_FLOAT = 22, OP_FADD = 129, OP_FMUL = 133, OP_FDIV = 136 }; // opcodes of SPIR-V

// Replaces quotients of f32 by products, or products by sums.
static void spoil(uint32_t *word, size_t words, bool divides) {
    uint32_t from = divides ? OP_FDIV : OP_FMUL, to = divides ? OP_FMUL : OP_FADD;
    uint32_t f32 = 0;
    for (size_t at = 5; at < words && word[at] >> 16; at += word[at] >> 16) {
        if ((word[at] & 0xFFFF) == OP_TYPE_FLOAT && word[at + 2] == 32)
            f32 = word[at + 1];
        if ((word[at] & 0xFFFF) == from && word[at + 1] == f32)
            word[at] -= from - to;
    }
}

static int make_shader(vk_device d, const struct vk_make_shader *make, const void *allocator,
                       vk_handle *out) {
    struct vk_make_shader other = *make;
    int code = fails("vkCreateShaderModule");
    if (code || !(lacks("divide", NULL) || lacks("multiply", NULL)))
        return code ? code : api.vkCreateShaderModule(d, make, allocator, out);
    uint32_t *word = malloc(make->bytes);
    memcpy(word, make->code, make->bytes);
    spoil(word, make->bytes / sizeof *word, lacks("divide", NULL));
    other.code = word;
    code = api.vkCreateShaderModule(d, &other, allocator, out);
    free(word);
    return code;
}

// Failing ---------------------------------------------------------------------------------------------------

// name, parameters, arguments: functions that are passed on unless they fail
#define FAILING(F)                                                                                          \
    F(vkCreateBuffer, (vk_device d, const struct vk_make_buffer *m, const void *a, vk_handle *o),           \
      (d, m, a, o))                                                                                         \
    F(vkBindBufferMemory, (vk_device d, vk_handle b, vk_handle m, uint64_t o), (d, b, m, o))                \
    F(vkMapMemory, (vk_device d, vk_handle m, uint64_t o, uint64_t b, uint32_t f, void **p),                \
      (d, m, o, b, f, p))                                                                                   \
    F(vkCreateSemaphore, (vk_device d, const struct vk_make_plain *m, const void *a, vk_handle *o),         \
      (d, m, a, o))                                                                                         \
    F(vkCreateCommandPool, (vk_device d, const struct vk_make_plain *m, const void *a, vk_handle *o),       \
      (d, m, a, o))                                                                                         \
    F(vkResetCommandPool, (vk_device d, vk_handle p, uint32_t f), (d, p, f))                                \
    F(vkAllocateCommandBuffers, (vk_device d, const struct vk_make_commands *m, vk_commands *o), (d, m, o)) \
    F(vkBeginCommandBuffer, (vk_commands c, const struct vk_begin *b), (c, b))                              \
    F(vkEndCommandBuffer, (vk_commands c), (c))                                                             \
    F(vkCreatePipelineCache, (vk_device d, const struct vk_make_cache *m, const void *a, vk_handle *o),     \
      (d, m, a, o))                                                                                         \
    F(vkGetPipelineCacheData, (vk_device d, vk_handle c, size_t * b, void *o), (d, c, b, o))                \
    F(vkCreateDescriptorSetLayout,                                                                          \
      (vk_device d, const struct vk_make_set_layout *m, const void *a, vk_handle *o), (d, m, a, o))         \
    F(vkCreatePipelineLayout,                                                                               \
      (vk_device d, const struct vk_make_pipeline_layout *m, const void *a, vk_handle *o), (d, m, a, o))    \
    F(vkCreateComputePipelines,                                                                             \
      (vk_device d, vk_handle c, uint32_t n, const struct vk_make_compute *m, const void *a, vk_handle *o), \
      (d, c, n, m, a, o))                                                                                   \
    F(vkCreateDescriptorPool, (vk_device d, const struct vk_make_set_pool *m, const void *a, vk_handle *o), \
      (d, m, a, o))                                                                                         \
    F(vkAllocateDescriptorSets, (vk_device d, const struct vk_make_sets *m, vk_handle *o), (d, m, o))

#define DEFINE(name, parameters, arguments)      \
    static int fake_##name parameters {          \
        int code = fails(#name);                 \
        return code ? code : api.name arguments; \
    }
FAILING(DEFINE)
#undef DEFINE

// The tables ------------------------------------------------------------------------------------------------

static void *get_device_address(vk_device d, const char *name);

static const struct entry {
    const char *name;
    void (*function)(void);
} entries[] = {
#define ROW(name, parameters, arguments) {#name, (void (*)(void))fake_##name},
    FAILING(ROW)
#undef ROW
        {"vkGetPhysicalDeviceFeatures2", (void (*)(void))get_features},
    {"vkGetPhysicalDeviceProperties2", (void (*)(void))get_properties},
    {"vkGetPhysicalDeviceMemoryProperties", (void (*)(void))get_memory_types},
    {"vkEnumerateDeviceExtensionProperties", (void (*)(void))get_extensions},
    {"vkGetBufferMemoryRequirements", (void (*)(void))get_needs},
    {"vkAllocateMemory", (void (*)(void))allocate},
    {"vkCreateShaderModule", (void (*)(void))make_shader},
    {"vkQueueSubmit", (void (*)(void))submit},
    {"vkWaitSemaphores", (void (*)(void))wait_semaphores},
    {"vkGetDeviceProcAddr", (void (*)(void))get_device_address},
};

static void *find(const char *name) {
    for (size_t i = 0; i < LENGTH(entries); i++)
        if (!strcmp(entries[i].name, name))
            return *(void *const *)(const void *)&entries[i].function;
    return NULL;
}

static void *get_device_address(vk_device d, const char *name) {
    void *ours = find(name);
#define BIND(type, name, parameters) *(void **)(void *)&api.name = instance_api.vkGetDeviceProcAddr(d, #name);
    if (!api.vkQueueSubmit) {
        VULKAN_DEVICE_FUNCTIONS(BIND)
    }
#undef BIND
    void *next = instance_api.vkGetDeviceProcAddr(d, name);
    return next && ours ? ours : next;
}

EXPORT void *vk_icdGetInstanceProcAddr(vk_instance i, const char *name) {
    void *next = next_instance(i, name);
#define BIND(type, name, parameters) *(void **)(void *)&instance_api.name = next_instance(i, #name);
    if (i && !instance_api.vkCreateDevice) {
        VULKAN_INSTANCE_FUNCTIONS(BIND)
    }
#undef BIND
    void *ours = find(name);
    return next && ours ? ours : next;
}

EXPORT int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    static const char *const names[] = {"libvulkan_lvp.so", "/usr/lib/libvulkan_lvp.so"};
    int (*negotiate)(uint32_t * version) = NULL;
    void *library = NULL;
    Dl_info self;
    if (dladdr(names, &self)) {
        char cache[1000]; // code for another CPU must not get into the shared cache
        snprintf(cache, sizeof cache, "%.900s.cache", self.dli_fname);
        setenv("MESA_SHADER_CACHE_DIR", cache, 0);
        dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL); // its symbols are found before those of other
                                                        // libraries
    }
    for (size_t i = 0; i < LENGTH(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -9; // an incompatible driver
    *(void **)(void *)&next_instance = dlsym(library, "vk_icdGetInstanceProcAddr");
    *(void **)(void *)&negotiate = dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
    return next_instance && negotiate ? negotiate(version) : -9;
}
