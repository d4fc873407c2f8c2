// vulkan_driver.c - opens Vulkan and lists its devices; a device itself is opened at its first use.

#include "device/vulkan/vulkan.h"

#include "render/render.h"
#include "render/spirv/spirv.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    CHIPS = 32, // most chips that the loader may find
    EXTENSIONS = 512,
    FAMILIES = 16,
    SUBGROUP_SHUFFLE = 1 << 4,
};

typedef void *get_address(vk_instance i, const char *name);

static struct vulkan_instance_api api;
static vk_instance instance;
static struct vulkan_device devices[VULKAN_DEVICES];
static int device_count;
static const char *why_none;
static struct lock open_lock;
static unsigned opened_in; // the value of fork_era when Vulkan was opened

// Opening ---------------------------------------------------------------------------------------------------

static bool make_instance(get_address *get) {
    int (*create)(const struct vk_make_instance *make, const void *allocator, vk_instance *out) = NULL;
    struct vk_application application = {
        .record = VK_RECORD_APPLICATION, .name = "zellige", .engine = "zellige", .api = VK_API_1_3};
    struct vk_make_instance make = {.record = VK_RECORD_INSTANCE, .application = &application};
    *(void **)(void *)&create = get(NULL, "vkCreateInstance");
    if (!create || create(&make, NULL, &instance) != VK_DONE)
        return false;
    bool good = true;
#define BIND(type, name, parameters) good &= (*(void **)(void *)&api.name = get(instance, #name)) != NULL;
    VULKAN_INSTANCE_FUNCTIONS(BIND)
#undef BIND
    *(void **)(void *)&api.list_matrices = get(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return good;
}

// Negotiates the version of the driver's interface, which both sides must know before any other call.
static bool agree(void *library) {
    enum { INTERFACE = 5 };
    int (*negotiate)(uint32_t * version) = NULL;
    const struct library_symbol symbol = {"vk_icdNegotiateLoaderICDInterfaceVersion",
                                          (void **)(void *)&negotiate};
    uint32_t version = INTERFACE;
    return !library_bind(library, &symbol, 1, NULL) || negotiate(&version) == VK_DONE;
}

// Opens Vulkan through a library. Returns how many chips it finds.
static uint32_t open_through(const char *const *names, const char *symbol_name, vk_chip *chip) {
    void *library = library_open(names);
    get_address *get = NULL;
    const struct library_symbol symbol = {symbol_name, (void **)(void *)&get};
    uint32_t chips = CHIPS;
    if (!library || !library_bind(library, &symbol, 1, NULL))
        return 0;
    if (!strncmp(symbol_name, "vk_icd", 6) && !agree(library))
        return 0;
    if (!make_instance(get))
        return 0;
    return api.vkEnumeratePhysicalDevices(instance, &chips, chip) < VK_DONE ? 0
                                                                            : MIN_OF(chips, (uint32_t)CHIPS);
}

// Finds the chips. The loader knows all drivers. Machines with NVIDIA's GPUs often have only the driver,
// which can be opened directly.
static uint32_t find_chips(vk_chip *chip) {
    static const char *const loader[] = {"libvulkan.so.1", "libvulkan.so", NULL};
    static const char *const driver[] = {"libEGL_nvidia.so.0", NULL};
    uint32_t chips = open_through(loader, "vkGetInstanceProcAddr", chip);
    return chips ? chips : open_through(driver, "vk_icdGetInstanceProcAddr", chip);
}

// Describing ------------------------------------------------------------------------------------------------

static bool find_family(struct vulkan_device *d) {
    struct vk_queue_family family[FAMILIES];
    uint32_t families = FAMILIES;
    bool found = false, is_pure = false;
    api.vkGetPhysicalDeviceQueueFamilyProperties(d->chip, &families, family);
    for (uint32_t i = 0; i < families; i++) {
        bool pure = !(family[i].flags & VK_QUEUE_GRAPHICS);
        if (!(family[i].flags & VK_QUEUE_COMPUTE) || (found && (is_pure || !pure)))
            continue;
        found = true;
        is_pure = pure;
        d->family = i;
    }
    if (found && !family[d->family].timestamp_bits)
        d->timestamp_ns = 0;
    return found;
}

// In the order of the bits of vulkan_device.extensions.
static const char *const extensions[] = {"VK_KHR_push_descriptor", "VK_KHR_workgroup_memory_explicit_layout",
                                         "VK_KHR_shader_bfloat16", "VK_KHR_cooperative_matrix"};

static void find_extensions(struct vulkan_device *d) {
    struct vk_extension *list = memory_zero(sizeof *list * EXTENSIONS);
    uint32_t count = EXTENSIONS;
    if (!list || api.vkEnumerateDeviceExtensionProperties(d->chip, NULL, &count, list) < VK_DONE)
        count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < COUNT(extensions); k++)
            d->extensions |= !strcmp(list[i].name, extensions[k]) ? 1u << k : 0;
    memory_free(list);
}

// Returns the type of memory that has all of `flags`, as many of `better` as possible, and the largest heap;
// -1 if there is none.
static int find_type(const struct vk_memory_types *t, uint32_t flags, uint32_t better) {
    int best = -1, best_points = -1;
    uint64_t best_bytes = 0;
    for (uint32_t i = 0; i < t->types; i++) {
        uint64_t bytes = t->heap[t->type[i].heap].bytes;
        int points = __builtin_popcount(t->type[i].flags & better);
        if ((t->type[i].flags & flags) != flags || t->type[i].flags >> 4) // further flags are for special
                                                                          // uses
            continue;
        if (best >= 0 && (bytes < best_bytes || (bytes == best_bytes && points <= best_points)))
            continue;
        best = (int)i;
        best_bytes = bytes;
        best_points = points;
    }
    return best;
}

// Finds the types of memory. Arrays are in the device's largest heap, visible to the host if possible.
static bool find_types(struct vulkan_device *d) {
    api.vkGetPhysicalDeviceMemoryProperties(d->chip, &d->types);
    d->local_type = find_type(&d->types, VK_LOCAL, VK_VISIBLE | VK_COHERENT | VK_CACHED);
    d->upload_type = find_type(&d->types, VK_VISIBLE | VK_COHERENT, 0);
    d->read_type = find_type(&d->types, VK_VISIBLE | VK_COHERENT | VK_CACHED, 0);
    if (d->read_type < 0)
        d->read_type = d->upload_type;
    if (d->local_type < 0 || d->upload_type < 0)
        return false;
    d->memory = d->types.heap[d->types.type[d->local_type].heap].bytes;
    return true;
}

// Clears all feature flags except the wanted ones that the chip has.
static void keep_flags(uint32_t *flag, int flags, int wanted, const int *want) {
    uint32_t had[64];
    memcpy(had, flag, sizeof *flag * (size_t)flags);
    memset(flag, 0, sizeof *flag * (size_t)flags);
    for (int i = 0; i < wanted; i++)
        flag[want[i]] = had[want[i]];
}

static void find_features(struct vulkan_device *d, uint32_t version) {
    static const int want[] = {VK_FLOAT64, VK_INT64, VK_INT16};
    static const int want11[] = {VK_STORAGE16, VK_UNIFORM_STORAGE16, VK_PUSH16, VK_POINTERS};
    static const int want12[] = {VK_STORAGE8,           VK_UNIFORM_STORAGE8, VK_PUSH8,     VK_ATOMICS64,
                                 VK_SHARED_ATOMICS64,   VK_FLOAT16,          VK_INT8,      VK_SCALAR_LAYOUT,
                                 VK_SUBGROUP_TYPES,     VK_TIMELINE,         VK_ADDRESSES, VK_MEMORY_MODEL,
                                 VK_MEMORY_MODEL_DEVICE};
    static const int want13[] = {VK_SUBGROUP_SIZES, VK_FULL_SUBGROUPS, VK_MAINTENANCE4};
    void *last = NULL;
    d->shared_layout = (struct vk_shared_layout){.record = VK_RECORD_SHARED_LAYOUT, .next = last};
    last = d->extensions & VULKAN_SHARED_LAYOUT ? &d->shared_layout : last;
    d->bfloat = (struct vk_bfloat){.record = VK_RECORD_BFLOAT, .next = last};
    last = d->extensions & VULKAN_BFLOAT ? &d->bfloat : last;
    d->matrices = (struct vk_matrices){.record = VK_RECORD_MATRICES, .next = last};
    last = d->extensions & VULKAN_MATRICES ? &d->matrices : last;
    d->features13 = (struct vk_features13){.record = VK_RECORD_FEATURES13, .next = last};
    d->features12 = (struct vk_features12){.record = VK_RECORD_FEATURES12,
                                           .next = version >= VK_API_1_3 ? &d->features13 : last};
    d->features11 = (struct vk_features11){.record = VK_RECORD_FEATURES11, .next = &d->features12};
    d->features = (struct vk_features){.record = VK_RECORD_FEATURES, .next = &d->features11};
    api.vkGetPhysicalDeviceFeatures2(d->chip, &d->features);
    keep_flags(d->features.flag, COUNT(d->features.flag), COUNT(want), want);
    keep_flags(d->features11.flag, COUNT(d->features11.flag), COUNT(want11), want11);
    keep_flags(d->features12.flag, COUNT(d->features12.flag), COUNT(want12), want12);
    keep_flags(d->features13.flag, COUNT(d->features13.flag), COUNT(want13), want13);
}

// Sets the subgroup size. On a chip with several sizes, each kernel requests the size that the chip reports
// as its own.
static void find_subgroup(struct vulkan_device *d, const struct vk_properties11 *p,
                          const struct vk_subgroup_sizes *sizes) {
    bool shuffles = p->subgroup_stages & VK_SHADER_COMPUTE && p->subgroup_ops & SUBGROUP_SHUFFLE &&
                    d->features12.flag[VK_SUBGROUP_TYPES];
    bool varies = sizes->least < sizes->most;
    bool is_chosen = d->features13.flag[VK_SUBGROUP_SIZES] && d->features13.flag[VK_FULL_SUBGROUPS] &&
                     sizes->stages & VK_SHADER_COMPUTE;
    d->subgroup = varies && is_chosen ? p->subgroup_size : 0;
    d->unit.group.subgroup = shuffles && (!varies || is_chosen) ? (int)p->subgroup_size : 0;
    d->unit.group.shared_bytes = (int)MIN_OF(d->unit.group.most_shared, INT_MAX);
}

// Returns the set of 16-bit dtypes for which subgroups multiply 16 x 16 matrices with f32 sums.
static uint32_t find_matrices(const struct vulkan_device *d) {
    enum { MOST = 256, SIDE = 16 };
    struct vk_matrix *list = memory_zero(sizeof *list * MOST);
    uint32_t count = MOST, dtypes = 0;
    for (int i = 0; list && i < MOST; i++)
        list[i].record = VK_RECORD_MATRIX;
    bool has_list = list && d->matrices.has && d->features12.flag[VK_MEMORY_MODEL] && api.list_matrices &&
                    api.list_matrices(d->chip, &count, list) >= VK_DONE;
    for (uint32_t i = 0; has_list && i < count; i++) {
        const struct vk_matrix *m = &list[i];
        bool fits = m->m == SIDE && m->n == SIDE && m->k == SIDE && m->scope == VK_SCOPE_SUBGROUP &&
                    m->type[0] == m->type[1] && m->type[2] == VK_TYPE_F32 && m->type[3] == VK_TYPE_F32;
        if (fits && m->type[0] == VK_TYPE_F16 && d->features12.flag[VK_FLOAT16])
            dtypes |= PASS_F16;
        if (fits && m->type[0] == VK_TYPE_BF16 && d->bfloat.has && d->bfloat.has_matrices)
            dtypes |= PASS_BF16;
    }
    memory_free(list);
    return dtypes;
}

static void set_spirv(struct vulkan_device *d, const struct vk_properties *p,
                      const struct vk_properties12 *p12) {
    struct target_spirv *s = &d->unit.spirv;
    s->has_i64 = d->features.flag[VK_INT64];
    s->has_f64 = d->features.flag[VK_FLOAT64];
    s->has_f16 = d->features12.flag[VK_FLOAT16];
    s->has_bytes = d->features12.flag[VK_STORAGE8];
    s->has_halves = d->features11.flag[VK_STORAGE16];
    s->has_small_bytes = d->features12.flag[VK_INT8];
    s->has_small_halves = d->features.flag[VK_INT16];
    s->has_shared_layout = d->shared_layout.has && d->shared_layout.has_bytes && d->shared_layout.has_halves;
    static const zl_dtype floats[] = {ZL_FLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    s->rounds = s->keeps_small = s->keeps_special = 0;
    for (size_t i = 0; i < COUNT(floats); i++) {
        s->rounds |= p12->rounds_even[i] ? PASS_BIT(floats[i]) : 0;
        s->keeps_small |= p12->preserves_denormals[i] ? PASS_BIT(floats[i]) : 0;
        s->keeps_special |= p12->preserves_special[i] ? PASS_BIT(floats[i]) : 0;
    }
    target_set_matrices(&d->unit, find_matrices(d));
    s->push_bytes = (int)MIN_OF(p->limits.push_bytes, (uint32_t)VULKAN_BLOCK_BYTES);
    s->buffers = (int)MIN_OF(d->stage_buffers, (uint32_t)VULKAN_BUFFERS + 1);
    d->has_addresses =
        d->features12.flag[VK_ADDRESSES] && d->features12.flag[VK_MEMORY_MODEL] && d->features.flag[VK_INT64];
    if (!s->has_f64)
        d->unit.target.lacks |= PASS_BIT(ZL_FLOAT64);
    d->unit.target.lacks_wide_atomics = !d->features12.flag[VK_ATOMICS64];
}

// Describes a chip. Returns false if it cannot be used.
static bool describe(struct vulkan_device *d, vk_chip chip, const struct target *language) {
    struct vk_subgroup_sizes sizes = {.record = VK_RECORD_SUBGROUP_SIZES};
    struct vk_properties12 p12 = {.record = VK_RECORD_PROPERTIES12};
    struct vk_properties11 p11 = {.record = VK_RECORD_PROPERTIES11, .next = &p12};
    struct vk_properties p = {.record = VK_RECORD_PROPERTIES};
    *d = (struct vulkan_device){.chip = chip};
    api.vkGetPhysicalDeviceProperties2(chip, &p);
    if (p.api < VK_API_1_2)
        return false;
    p12.next = p.api >= VK_API_1_3 ? &sizes : NULL;
    p.next = &p11;
    api.vkGetPhysicalDeviceProperties2(chip, &p);
    snprintf(d->name, sizeof d->name, "%s", p.name);
    memcpy(d->id, p11.device_id, sizeof d->id);
    d->is_host = p.kind == VK_KIND_CPU;
    d->storage_range = p.limits.storage_range;
    d->stage_buffers = p.limits.stage_buffers;
    d->timestamp_ns = p.limits.timestamp_ns;
    find_extensions(d);
    find_features(d, p.api);
    if (!d->features12.flag[VK_TIMELINE] || !find_family(d) || !find_types(d))
        return false;
    target_set_unit(&d->unit, language, d->name,
                    (int)MIN_OF(MIN_OF(p.limits.threads, p.limits.threads_along[0]), (uint32_t)INT_MAX),
                    p.limits.shared_bytes);
    find_subgroup(d, &p11, &sizes);
    set_spirv(d, &p, &p12);
    if (d->has_addresses) // indices into bindings are signed 32-bit integers
        target_set_far(&d->unit, &d->far, MIN_OF(d->storage_range, (uint32_t)INT_MAX));
    snprintf(d->detail, sizeof d->detail, "Vulkan %u.%u, %.60s %.160s%s", p.api >> 22, p.api >> 12 & 1023,
             p12.name, p12.detail, d->unit.spirv.has_f64 ? "" : ", no float64");
    int len = snprintf(d->identity, sizeof d->identity, "vulkan %s, %s, driver %u, subgroup %d, cache ",
                       d->name, d->detail, p.driver, d->unit.group.subgroup);
    for (size_t i = 0; i < sizeof p.cache_id && len + 3 < (int)sizeof d->identity; i++)
        len += snprintf(d->identity + len, sizeof d->identity - (size_t)len, "%02x", p.cache_id[i]);
    return true;
}

// Appends the chips that can be used: GPUs, or CPUs if `hosts`. Devices are filled in where they stay,
// because their records point to each other's parts.
static void list_devices(uint32_t chips, const vk_chip *chip, const struct target *language, bool hosts) {
    for (uint32_t i = 0; i < chips && device_count < VULKAN_DEVICES; i++) {
        struct vulkan_device *d = &devices[device_count];
        device_count += describe(d, chip[i], language) && d->is_host == hosts;
    }
}

static void find_devices(void) {
    vk_chip chip[CHIPS];
    const struct target *language = render_target("spirv_tiles");
    opened_in = atomic_load(&fork_era);
    why_none = "no driver of Vulkan is installed: neither libvulkan.so.1 nor libEGL_nvidia.so.0 finds a chip";
    uint32_t chips = language ? find_chips(chip) : 0;
    if (!chips)
        return;
    why_none = "no chip has Vulkan 1.2 with timeline semaphores";
    list_devices(chips, chip, language, false);
    list_devices(chips, chip, language, true);
}

int vulkan_open(const char **reason) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_devices);
    if (!device_count && reason)
        *reason = why_none;
    return device_count;
}

bool vulkan_is_host(int unit) {
    return devices[unit].is_host;
}

int vulkan_unit(const struct vulkan_device *d) {
    return (int)(d - devices);
}

// Using -----------------------------------------------------------------------------------------------------

static bool bind_device(struct vulkan_device *d) {
    const char *missing = NULL;
#define BIND(type, name, parameters)                                                   \
    if (!(*(void **)(void *)&d->api.name = api.vkGetDeviceProcAddr(d->device, #name))) \
        missing = #name;
    VULKAN_DEVICE_FUNCTIONS(BIND)
#undef BIND
    if (d->extensions & VULKAN_PUSH_DESCRIPTOR)
        *(void **)(void *)&d->api.push_set = api.vkGetDeviceProcAddr(d->device, "vkCmdPushDescriptorSetKHR");
    return !missing || error_false(ZL_ERROR_DEVICE, "vulkan: the driver of %s has no %s", d->name, missing);
}

static bool make_device(struct vulkan_device *d) {
    const char *extension[COUNT(extensions)];
    uint32_t count = 0;
    for (size_t i = 0; i < COUNT(extensions); i++)
        if (d->extensions >> i & 1)
            extension[count++] = extensions[i];
    const float priority = 1;
    struct vk_make_queue queue = {
        .record = VK_RECORD_DEVICE_QUEUE, .family = d->family, .queues = 1, .priority = &priority};
    struct vk_make_device make = {.record = VK_RECORD_DEVICE,
                                  .next = &d->features,
                                  .queues = 1,
                                  .queue = &queue,
                                  .extensions = count,
                                  .extension = extension};
    vk_device made = NULL;
    if (!vulkan_check(d, api.vkCreateDevice(d->chip, &make, NULL, &made), "vkCreateDevice"))
        return false;
    d->device = made;
    if (!bind_device(d)) {
        d->device = NULL;
        return false;
    }
    d->api.vkGetDeviceQueue(d->device, d->family, 0, &d->queue);
    return true;
}

static struct vulkan_device *find_unit(int unit) {
    const char *reason = NULL;
    int count = vulkan_open(&reason);
    if (unit < 0 || unit >= count)
        return error_set(ZL_ERROR_DEVICE, "vulkan: there is no device %d: %s", unit,
                         count ? "fewer were found" : reason);
    return fork_spares("vulkan", opened_in) ? &devices[unit] : NULL;
}

const struct vulkan_device *vulkan_chip(int unit) {
    return find_unit(unit);
}

struct vulkan_device *vulkan_opened(int unit) {
    struct vulkan_device *d = find_unit(unit);
    if (!d)
        return NULL;
    if (UNLIKELY(atomic_load_explicit(&d->is_lost, memory_order_relaxed)))
        return error_set(ZL_ERROR_DEVICE, "vulkan: the driver has lost %s: it works in a new process only",
                         d->name);
    lock_take(&open_lock);
    bool ready = d->queue || make_device(d);
    lock_give(&open_lock);
    return ready ? d : NULL;
}

struct vulkan_device *vulkan_device(int unit) {
    struct vulkan_device *d = vulkan_opened(unit);
    return d && vulkan_know_rounding(d) ? d : NULL;
}

const struct target *vulkan_target(int unit) {
    struct vulkan_device *d = vulkan_device(unit);
    return d ? &d->unit.target : NULL;
}

bool vulkan_check(struct vulkan_device *d, int code, const char *function) {
    if (LIKELY(code >= VK_DONE))
        return true;
    if (code == VK_LOST)
        atomic_store(&d->is_lost, true);
    return error_false(
        code == VK_NO_HOST_MEMORY || code == VK_NO_DEVICE_MEMORY ? ZL_ERROR_MEMORY : ZL_ERROR_DEVICE,
        "vulkan: %s failed with code %d%s", function, code, code == VK_LOST ? ": the device is lost" : "");
}
