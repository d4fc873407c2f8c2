// kernels_cache.c - kernels by their keys: in memory, and as code on disk under a hash of text, device and driver.

#include "device/kernels/kernels.h"
#include "pass/pass.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char symbol[] = "zl_kernel"; // of every text
static const char code_file[] = "kernel.bin";

static struct lock lock;  // guards loaded; compilations go on side by side
static struct map loaded; // key behind target and unit -> kernel

ZL_AT_LOAD {
    fork_guard(&lock);
}

// On disk ----------------------------------------------------------------------------------------------------------

struct making {
    const struct kernel_place *place;
    const struct text *source;
};

static bool make(const char *folder, void *context) {
    const struct making *m = context;
    char path[PATH_MAX];
    struct text code = {0};
    snprintf(path, sizeof path, "%s/%s", folder, code_file);
    counter_add(COUNTER_COMPILES, 1);
    bool done = m->place->target->compile(m->place->unit, m->source->data, &code) && !code.failed &&
                file_write(path, code.data, (size_t)code.len);
    text_free(&code);
    return done;
}

static void *load(const char *path, void *context) {
    const struct making *m = context;
    size_t bytes;
    char *code = file_read(path, &bytes);
    void *kernel = code ? m->place->target->load(m->place->unit, code, bytes, symbol) : NULL;
    memory_free(code);
    return kernel;
}

static void *compile(const struct kernel_place *p, const struct text *source) {
    struct text name = {0};
    char key[65];
    void *kernel = NULL;
    text_add(&name, "%s\n%s\n", p->target->identity(p->unit), source->data);
    if (!name.failed) {
        hash_sha256(name.data, (size_t)name.len, key);
        struct making making = {p, source};
        kernel = device_cache_use(&(struct cache_entry){
            .key = key, .file = code_file, .make = make, .use = load, .context = &making});
    }
    text_free(&name);
    return kernel;
}

static bool write_source(const struct kernel_place *p, kernel_writer *write, const void *data,
                         struct text *source) {
    if (!write(source, data) || source->failed)
        return false;
    pass_dump(p->target->dialect, source->data);
    return true;
}

// In memory --------------------------------------------------------------------------------------------------------

struct full_key {
    const struct kernel_target *target;
    int64_t unit;
    char key[1024];
};

static void *look_up(const struct full_key *key, size_t bytes) {
    lock_take(&lock);
    void *kernel = map_get(&loaded, key, bytes);
    lock_give(&lock);
    return kernel;
}

// Another thread may have made the same: either serves.
static bool keep(const struct full_key *key, size_t bytes, void *kernel) {
    lock_take(&lock);
    bool kept = map_set(&loaded, key, bytes, kernel);
    lock_give(&lock);
    return kept;
}

// Batches ----------------------------------------------------------------------------------------------------------

struct kernel_wanted {
    struct full_key key;
    size_t bytes; // of key
    struct text source;
};

static bool is_wanted(const struct kernel_batch *b, const struct full_key *key, size_t bytes) {
    for (int i = 0; i < b->count; i++)
        if (b->wanted[i].bytes == bytes && !memcmp(&b->wanted[i].key, key, bytes))
            return true;
    return false;
}

// What stands for a kernel that nothing will launch. NULL and an error.
static void *want(const struct kernel_place *p, const struct full_key *key, size_t bytes, kernel_writer *write,
                  const void *data) {
    struct kernel_batch *b = p->batch;
    struct text source = {0};
    if (is_wanted(b, key, bytes))
        return b;
    if (!memory_grow(&b->wanted, &b->cap, b->count + 1, sizeof *b->wanted) ||
        !write_source(p, write, data, &source)) {
        text_free(&source);
        return NULL;
    }
    b->wanted[b->count++] = (struct kernel_wanted){*key, bytes, source};
    return b;
}

struct compiling {
    struct kernel_batch *batch;
    const struct kernel_place *place;
};

static void compile_one(void *data, int part) {
    const struct compiling *c = data;
    const struct kernel_wanted *w = &c->batch->wanted[part];
    void *kernel = compile(c->place, &w->source);
    if (kernel)
        keep(&w->key, w->bytes, kernel);
}

void kernel_batch_compile(struct kernel_batch *batch, const struct kernel_place *p) {
    if (batch->count > 1) // one is compiled where it is needed
        pool_run(batch->count, compile_one, &(struct compiling){batch, p});
    for (int i = 0; i < batch->count; i++)
        text_free(&batch->wanted[i].source);
    memory_free(batch->wanted);
    *batch = (struct kernel_batch){0};
}

void *kernel_find(const struct kernel_place *p, const void *key, size_t bytes, kernel_writer *write,
                  const void *data) {
    struct full_key full = {.target = p->target, .unit = p->unit};
    struct text source = {0};
    if (bytes > sizeof full.key)
        return error_set(ZL_ERROR_COMPILE, "a kernel of %zu bytes of description: %zu are possible", bytes,
                         sizeof full.key);
    memcpy(full.key, key, bytes);
    size_t all = offsetof(struct full_key, key) + bytes;
    void *kernel = look_up(&full, all);
    if (kernel)
        return kernel;
    if (p->batch)
        return want(p, &full, all, write, data);
    kernel = write_source(p, write, data, &source) ? compile(p, &source) : NULL;
    text_free(&source);
    return kernel && keep(&full, all, kernel) ? kernel : NULL;
}
