// kernels_cache.c - kernels by their keys: in memory, and as code on disk under a hash of text, device and driver.

#include "device/group_kernel.h"
#include "device/kernels/kernels.h"
#include "pass/pass.h"

#include <string.h>

static const char symbol[] = "zl_kernel"; // of every text that is not rendered from tiles

static struct lock lock;  // guards loaded; compilations go on side by side
static struct map loaded; // key behind the unit's record -> the function of a text, or struct kernel_tiles

ZL_AT_LOAD {
    fork_guard(&lock);
}

// On disk ----------------------------------------------------------------------------------------------------------

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

// What a key stands for ---------------------------------------------------------------------------------------------

// How it is described: a text that is written, or a tile kernel that is made.
struct recipe {
    kernel_writer *write; // NULL: it is made
    kernel_maker *make;
    const void *data;
};

// What the description gave. Tiles are rendered by who compiles them.
struct source {
    struct text text;
    struct tile_kernel *tiles; // NULL: it is a text
};

static void source_free(struct source *s) {
    text_free(&s->text);
    tile_free(s->tiles);
    s->tiles = NULL;
}

static bool source_make(const struct kernel_place *p, const struct recipe *r, struct source *out) {
    *out = (struct source){0};
    if (!r->write)
        return (out->tiles = r->make(r->data));
    if (!r->write(&out->text, r->data) || out->text.failed) {
        text_free(&out->text);
        return false;
    }
    pass_dump(p->target->dialect, out->text.data);
    return true;
}

// Uses the source up. NULL and an error.
static void *source_compile(const struct kernel_place *p, struct source *s) {
    struct kernel_function f = {.symbol = symbol, .threads = KERNEL_THREADS};
    void *kernel = s->tiles                             ? kernel_tiles_compile(p, s->tiles)
                   : kernel_compile(p, &s->text, 1, &f) ? f.handle
                                                        : NULL;
    source_free(s);
    return kernel;
}

// In memory --------------------------------------------------------------------------------------------------------

struct full_key {
    const struct target *record; // each unit has its own
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
    struct source source;
};

static bool is_wanted(const struct kernel_batch *b, const struct full_key *key, size_t bytes) {
    for (int i = 0; i < b->count; i++)
        if (b->wanted[i].bytes == bytes && !memcmp(&b->wanted[i].key, key, bytes))
            return true;
    return false;
}

// What stands for a kernel that nothing will launch. NULL and an error.
static void *want(const struct kernel_place *p, const struct full_key *key, size_t bytes,
                  const struct recipe *r) {
    struct kernel_batch *b = p->batch;
    struct source source;
    if (is_wanted(b, key, bytes))
        return b;
    if (!memory_grow(&b->wanted, &b->cap, b->count + 1, sizeof *b->wanted) || !source_make(p, r, &source))
        return NULL;
    struct kernel_wanted *w = &b->wanted[b->count++];
    memcpy(&w->key, key, bytes);
    w->bytes = bytes;
    w->source = source;
    return b;
}

struct batch_compiling {
    struct kernel_batch *batch;
    const struct kernel_place *place;
};

static void compile_one(void *data, int part) {
    const struct batch_compiling *c = data;
    struct kernel_wanted *w = &c->batch->wanted[part];
    void *kernel = source_compile(c->place, &w->source);
    if (kernel)
        keep(&w->key, w->bytes, kernel);
}

static void batch_free(struct kernel_batch *batch) {
    for (int i = 0; i < batch->count; i++)
        source_free(&batch->wanted[i].source);
    memory_free(batch->wanted);
    *batch = (struct kernel_batch){0};
}

void kernel_batch_compile(struct kernel_batch *batch, const struct kernel_place *p) {
    if (batch->count > 1) // one is compiled where it is needed
        pool_run(batch->count, compile_one, &(struct batch_compiling){batch, p});
    batch_free(batch);
}

bool kernel_batch_fits(struct kernel_batch *batch, const struct kernel_place *p) {
    bool fits = true;
    for (int i = 0; i < batch->count && fits; i++) {
        struct tile_kernel *kernel = batch->wanted[i].source.tiles;
        fits = !kernel || (pass_run(kernel, p->record, NULL) && target_has_needs(p->record, kernel));
    }
    batch_free(batch);
    return fits;
}

static void *find(const struct kernel_place *p, const void *key, size_t bytes, const struct recipe *r) {
    struct full_key full;
    struct source source;
    if (bytes > sizeof full.key)
        return error_set(ZL_ERROR_COMPILE, "a kernel of %zu bytes of description: %zu are possible", bytes,
                         sizeof full.key);
    full.record = p->record;
    memcpy(full.key, key, bytes);
    size_t all = offsetof(struct full_key, key) + bytes;
    void *kernel = look_up(&full, all);
    if (kernel)
        return kernel;
    if (p->batch)
        return want(p, &full, all, r);
    kernel = source_make(p, r, &source) ? source_compile(p, &source) : NULL;
    return kernel && keep(&full, all, kernel) ? kernel : NULL;
}

void *kernel_find(const struct kernel_place *p, const void *key, size_t bytes, kernel_writer *write,
                  const void *data) {
    return find(p, key, bytes, &(struct recipe){.write = write, .data = data});
}

const struct kernel_tiles *kernel_find_tiles(const struct kernel_place *p, const void *key, size_t bytes,
                                             kernel_maker *make, const void *data) {
    return find(p, key, bytes, &(struct recipe){.make = make, .data = data});
}
