// vulkan_kernel.c - pipelines of SPIR-V modules, and the cache of compiled pipelines that the next process
// reads.
//
// A pipeline depends on its module and on the subgroup size, never on array sizes or bound buffers: all
// modules with the same number of bindings share one layout.

#include "device/vulkan/vulkan.h"

#include <stdio.h>
#include <string.h>

enum { // values of SPIR-V
    HEADER_WORDS = 5,
    OP_MEMORY_MODEL = 14,
    ADDRESSES_OF_64_BITS = 5348,
    OP_ENTRY_POINT = 15,
    OP_DECORATE = 71,
    DECORATION_BINDING = 33,
    ENTRIES = 64, // the most entry points of a module
};

static struct layouts {
    struct lock lock;
    vk_handle set[VULKAN_BUFFERS + 2], pipeline[VULKAN_BUFFERS + 2]; // by the number of bindings
} layouts[VULKAN_DEVICES];

// Modules ---------------------------------------------------------------------------------------------------

struct module {
    const uint32_t *word;
    size_t words;
    int bindings, entries;
    bool has_addresses;
    const char *entry[ENTRIES]; // in the module's words
};

static bool is_text_in(const uint32_t *word, size_t words) {
    return memchr(word, 0, words * sizeof *word);
}

// Reads a module's entry points, bindings and addressing from its instructions. Returns false, with an error,
// if it is not a module.
static bool read_module(struct module *m, const char *code, size_t bytes) {
    *m = (struct module){.word = (const uint32_t *)(const void *)code, .words = bytes / sizeof *m->word};
    for (size_t at = HEADER_WORDS, length; at < m->words; at += length) {
        const uint32_t *w = &m->word[at];
        length = w[0] >> 16;
        if (!length || length > m->words - at)
            return error_false(ZL_ERROR_COMPILE, "vulkan: a module is cut off at word %zu", at);
        if ((w[0] & 0xFFFF) == OP_MEMORY_MODEL && length == 3)
            m->has_addresses = w[1] == ADDRESSES_OF_64_BITS;
        if ((w[0] & 0xFFFF) == OP_ENTRY_POINT && length > 3 && m->entries < ENTRIES &&
            is_text_in(&w[3], length - 3))
            m->entry[m->entries++] = (const char *)&w[3];
        if ((w[0] & 0xFFFF) == OP_DECORATE && length == 4 && w[2] == DECORATION_BINDING)
            m->bindings = MAX_OF(m->bindings, (int)MIN_OF(w[3], (uint32_t)VULKAN_BUFFERS + 1) + 1);
    }
    return m->words > HEADER_WORDS || error_false(ZL_ERROR_COMPILE, "vulkan: a module has no words");
}

// Layouts ---------------------------------------------------------------------------------------------------

// Makes the layouts for a number of bindings. Under the lock.
static bool make_layouts(struct vulkan_device *d, struct layouts *l, int bindings) {
    struct vk_binding binding[VULKAN_BUFFERS + 1];
    for (int i = 0; i < bindings; i++)
        binding[i] = (struct vk_binding){
            .binding = (uint32_t)i, .kind = VK_STORAGE_BUFFER, .count = 1, .stages = VK_SHADER_COMPUTE};
    struct vk_make_set_layout set = {.record = VK_RECORD_SET_LAYOUT,
                                     .flags = d->api.push_set ? VK_LAYOUT_PUSHED : 0,
                                     .bindings = (uint32_t)bindings,
                                     .binding = binding};
    struct vk_push_range range = {VK_SHADER_COMPUTE, 0, (uint32_t)d->unit.spirv.push_bytes};
    struct vk_make_pipeline_layout pipeline = {.record = VK_RECORD_PIPELINE_LAYOUT,
                                               .sets = 1,
                                               .set = &l->set[bindings],
                                               .ranges = 1,
                                               .range = &range};
    if (!l->set[bindings] &&
        !VULKAN_CALL(d, vkCreateDescriptorSetLayout, d->device, &set, NULL, &l->set[bindings]))
        return false;
    return l->pipeline[bindings] ||
           VULKAN_CALL(d, vkCreatePipelineLayout, d->device, &pipeline, NULL, &l->pipeline[bindings]);
}

static bool find_layouts(struct vulkan_device *d, struct vulkan_function *f) {
    struct layouts *l = &layouts[vulkan_unit(d)];
    uint32_t most = MIN_OF(d->stage_buffers, (uint32_t)VULKAN_BUFFERS + 1);
    if ((uint32_t)f->bindings > most)
        return error_false(ZL_ERROR_COMPILE, "vulkan: a kernel has %d buffers; %s has %u at most%s",
                           f->bindings, d->name, most, d->has_addresses ? "" : ", and no buffer addresses");
    lock_take(&l->lock);
    bool good = make_layouts(d, l, f->bindings);
    f->set_layout = l->set[f->bindings];
    f->layout = l->pipeline[f->bindings];
    lock_give(&l->lock);
    return good;
}

// Pipelines -------------------------------------------------------------------------------------------------

static bool make_pipeline(struct vulkan_device *d, vk_handle cache, vk_handle shader, const char *name,
                          struct vulkan_function *f) {
    struct vk_subgroup_size size = {.record = VK_RECORD_SUBGROUP_SIZE, .size = d->subgroup};
    struct vk_make_compute make = {.record = VK_RECORD_COMPUTE_PIPELINE,
                                   .stage = {.record = VK_RECORD_STAGE,
                                             .next = d->subgroup ? &size : NULL,
                                             .flags = d->subgroup ? VK_STAGE_FULL_SUBGROUPS : 0,
                                             .stage = VK_SHADER_COMPUTE,
                                             .shader = shader,
                                             .name = name},
                                   .layout = f->layout,
                                   .base_index = -1};
    int code = d->api.vkCreateComputePipelines(d->device, cache, 1, &make, NULL, &f->pipeline);
    return code == VK_DONE ||
           error_false(ZL_ERROR_COMPILE, "vulkan: the driver of %s makes no pipeline of %s: code %d", d->name,
                       name, code);
}

// Makes pipelines of the first entry points. The driver may find them in `data`, which it returned for the
// same words before. Appends such data to *left, unless that is NULL. Returns false, with an error, if that
// fails; the caller still has to destroy the pipelines that were made.
static bool make_pipelines(struct vulkan_device *d, const struct module *m, const char *data, size_t bytes,
                           int count, struct vulkan_function *out, struct text *left) {
    struct vk_make_shader words = {
        .record = VK_RECORD_SHADER, .bytes = m->words * sizeof *m->word, .code = m->word};
    struct vk_make_cache known = {.record = VK_RECORD_PIPELINE_CACHE, .bytes = bytes, .data = data};
    vk_handle shader = 0, cache = 0;
    size_t room = 0;
    bool good = VULKAN_CALL(d, vkCreateShaderModule, d->device, &words, NULL, &shader) &&
                VULKAN_CALL(d, vkCreatePipelineCache, d->device, &known, NULL, &cache);
    for (int i = 0; i < count && good; i++) {
        out[i] = (struct vulkan_function){.bindings = m->bindings, .has_addresses = m->has_addresses};
        good = find_layouts(d, &out[i]) && make_pipeline(d, cache, shader, m->entry[i], &out[i]);
    }
    if (good && left && d->api.vkGetPipelineCacheData(d->device, cache, &room, NULL) == VK_DONE && room) {
        char *got = memory_alloc(room);
        good = got && d->api.vkGetPipelineCacheData(d->device, cache, &room, got) >= VK_DONE;
        if (good)
            text_bytes(left, got, (int)room);
        memory_free(got);
    }
    d->api.vkDestroyPipelineCache(d->device, cache, NULL);
    d->api.vkDestroyShaderModule(d->device, shader, NULL);
    return good;
}

// On disk ---------------------------------------------------------------------------------------------------

// The header of a cached pipeline: the module's words follow, then the driver's data.
struct head {
    uint64_t module_bytes;
};

bool vulkan_compile(struct vulkan_device *d, const struct text *source, struct text *code) {
    struct vulkan_function function[ENTRIES] = {{0}};
    struct head head = {(uint64_t)source->len};
    struct module m;
    if (!read_module(&m, source->data, (size_t)source->len))
        return false;
    text_bytes(code, (const char *)&head, sizeof head);
    text_bytes(code, source->data, source->len);
    bool good = make_pipelines(d, &m, NULL, 0, m.entries, function, code);
    for (int i = 0; i < m.entries; i++)
        d->api.vkDestroyPipeline(d->device, function[i].pipeline, NULL);
    return good && !code->failed;
}

bool vulkan_load(struct vulkan_device *d, const char *code, size_t bytes, int count,
                 struct vulkan_function **out) {
    struct head head = {0};
    struct module m;
    if (bytes >= sizeof head)
        memcpy(&head, code, sizeof head);
    if (bytes < sizeof head || head.module_bytes > bytes - sizeof head || head.module_bytes % 4)
        return error_false(ZL_ERROR_COMPILE, "vulkan: what is kept of a kernel is cut off");
    const char *data = code + sizeof head + head.module_bytes;
    struct vulkan_function *f = memory_zero(sizeof *f * (size_t)count);
    bool good = f && read_module(&m, code + sizeof head, head.module_bytes);
    if (good && m.entries < count)
        good =
            error_false(ZL_ERROR_COMPILE, "vulkan: a module has %d entry points, not %d", m.entries, count);
    good = good && make_pipelines(d, &m, data, bytes - sizeof head - head.module_bytes, count, f, NULL);
    for (int i = 0; i < count && good; i++)
        out[i] = &f[i];
    for (int i = 0; i < count && f && !good; i++)
        d->api.vkDestroyPipeline(d->device, f[i].pipeline, NULL);
    if (!good)
        memory_free(f);
    return good;
}

// Destroys pipelines once the device is idle. If the device is lost, or belongs to the parent of a fork, they
// are left to the driver.
void vulkan_unload(struct vulkan_device *d, int count, struct vulkan_function *first) {
    bool had_error = zl_error();
    if (!first)
        return;
    bool is_idle = vulkan_opened(vulkan_unit(d)) && vulkan_wait(d, vulkan_point(d));
    if (!is_idle && !had_error)
        zl_clear_error();
    for (int i = 0; i < count && is_idle; i++)
        d->api.vkDestroyPipeline(d->device, first[i].pipeline, NULL);
    memory_free(first);
}
