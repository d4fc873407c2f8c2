// kernels_cache.c - kernels by their keys: in memory, and as code on disk under a hash of source, device and
// driver.

#include "device/tile_runtime/group_kernel.h"
#include "device/kernels/kernels.h"
#include "pass/pass.h"
#include "render/render.h"

#include <string.h>

static struct lock lock;  // guards `loaded`; kernels are compiled without it, several at a time
static struct map loaded; // the unit's record and the key -> struct kernel_tiles

ZL_AT_LOAD {
    fork_guard(&lock);
}

// On disk ---------------------------------------------------------------------------------------------------

struct compiling {
    const struct kernel_place *place;
    int functions;
    struct kernel_function *function;
};

static bool compile_text(const struct text *source, struct text *code, void *context) {
    const struct compiling *c = context;
    return c->place->target->compile(c->place->unit, source, code);
}

static void *load_code(const char *code, size_t bytes, void *context) {
    const struct compiling *c = context;
    return c->place->target->load(c->place->unit, code, bytes, c->functions, c->function) ? context : NULL;
}

bool kernel_compile(const struct kernel_place *p, const struct text *source, int functions,
                    struct kernel_function *function) {
    struct compiling c = {p, functions, function};
    return kernel_code_use(
        &(struct kernel_code){p->target->identity(p->unit), source, compile_text, load_code, &c});
}

// In memory -------------------------------------------------------------------------------------------------

struct full_key {
    const struct target *record; // each unit has its own
    char key[1024];
};

static struct kernel_tiles *look_up(const struct full_key *key, size_t bytes) {
    lock_take(&lock);
    struct kernel_tiles *kernel = map_get(&loaded, key, bytes);
    lock_give(&lock);
    return kernel;
}

// Adds a kernel to the map and returns it. If another thread has added one with the same key, returns that
// one and chains the new one to it, because devices keep its code. Frees the kernel and returns NULL, with an
// error, if memory runs out.
static struct kernel_tiles *keep(const struct full_key *key, size_t bytes, struct kernel_tiles *kernel) {
    lock_take(&lock);
    struct kernel_tiles *kept = map_get(&loaded, key, bytes);
    if (kept)
        kernel_tiles_join(kept, kernel);
    else if (map_set(&loaded, key, bytes, kernel))
        kept = kernel;
    else
        kernel_tiles_free(kernel);
    lock_give(&lock);
    return kept;
}

// Batches ---------------------------------------------------------------------------------------------------

struct kernel_wanted {
    struct full_key key;
    size_t bytes; // of key
    struct tile_kernel *tiles;
};

static bool is_wanted(const struct kernel_batch *b, const struct full_key *key, size_t bytes) {
    for (int i = 0; i < b->count; i++)
        if (b->wanted[i].bytes == bytes && !memcmp(&b->wanted[i].key, key, bytes))
            return true;
    return false;
}

// Adds a kernel to the batch instead of compiling it. Returns a placeholder, which is never launched, or NULL
// and an error.
static void *want(const struct kernel_place *p, const struct full_key *key, size_t bytes, kernel_maker *make,
                  const void *data) {
    struct kernel_batch *b = p->batch;
    if (is_wanted(b, key, bytes))
        return b;
    struct tile_kernel *tiles =
        memory_grow(&b->wanted, &b->cap, b->count + 1, sizeof *b->wanted) ? make(data) : NULL;
    if (!tiles)
        return NULL;
    struct kernel_wanted *w = &b->wanted[b->count++];
    memcpy(&w->key, key, bytes);
    w->bytes = bytes;
    w->tiles = tiles;
    return b;
}

struct batch_compiling {
    struct kernel_batch *batch;
    const struct kernel_place *place;
};

static void compile_one(void *data, int part) {
    const struct batch_compiling *c = data;
    struct kernel_wanted *w = &c->batch->wanted[part];
    struct kernel_tiles *kernel = kernel_tiles_compile(c->place, w->tiles);
    if (kernel)
        keep(&w->key, w->bytes, kernel);
}

static void batch_free(struct kernel_batch *batch) {
    for (int i = 0; i < batch->count; i++)
        tile_free(batch->wanted[i].tiles);
    memory_free(batch->wanted);
    *batch = (struct kernel_batch){0};
}

void kernel_batch_compile(struct kernel_batch *batch, const struct kernel_place *p) {
    if (batch->count > 1) // a single kernel is compiled when it is needed
        pool_run(batch->count, compile_one, &(struct batch_compiling){batch, p});
    batch_free(batch);
}

bool kernel_batch_fits(struct kernel_batch *batch, const struct kernel_place *p) {
    bool fits = true;
    for (int i = 0; i < batch->count && fits; i++) {
        struct tile_kernel *kernel = batch->wanted[i].tiles;
        fits = pass_run(kernel, p->record, NULL) && target_has_needs(p->record, kernel) &&
               render_fits(p->record, kernel);
    }
    batch_free(batch);
    return fits;
}

const struct kernel_tiles *kernel_find_tiles(const struct kernel_place *p, const void *key, size_t bytes,
                                             kernel_maker *make, const void *data) {
    struct full_key full;
    if (bytes > sizeof full.key)
        return error_set(ZL_ERROR_COMPILE, "a kernel of %zu bytes of description: %zu are possible", bytes,
                         sizeof full.key);
    full.record = p->record;
    memcpy(full.key, key, bytes);
    size_t all = offsetof(struct full_key, key) + bytes;
    struct kernel_tiles *kernel = look_up(&full, all);
    if (kernel)
        return kernel;
    if (p->batch)
        return want(p, &full, all, make, data);
    struct tile_kernel *tiles = make(data);
    kernel = tiles ? kernel_tiles_compile(p, tiles) : NULL;
    tile_free(tiles);
    return kernel ? keep(&full, all, kernel) : NULL;
}
