// cuda_flash_kernel.c - tile kernels of attention: their texts, kept once a key, and their launches.

#include "device/cuda/cuda_flash.h"
#include "device/group_kernel.h"

#include <string.h>

enum { SIZE_MOST = 128, FEWEST_QUERIES = 16 };

struct flash {
    struct tile_kernel *kernel;
    struct group_kernel group;
    struct text source;
};

static struct lock lock; // guards kernels
static struct map kernels;

bool flash_fits(const struct attention *a) {
    bool is_half = a->q->dtype == ZL_FLOAT16 || a->q->dtype == ZL_BFLOAT16;
    int64_t most = MAX_OF(a->q->size, MAX_OF(a->k->size, a->v->size));
    int64_t size = a->q->dim[FLASH_D], width = a->v->dim[FLASH_D], queries = a->q->dim[FLASH_T];
    return is_half && a->scale > 0 && !a->mask && !a->sinks && size % 16 == 0 && width % 16 == 0 &&
           size <= SIZE_MOST && width <= SIZE_MOST && queries >= FEWEST_QUERIES &&
           !(a->causal && queries > a->k->dim[FLASH_T]) && most < INT32_MAX / 2;
}

struct flash_key flash_key_of(const struct attention *a, const char *name) {
    struct flash_key k = {.scale = a->scale,
                          .dtype = a->q->dtype,
                          .size = (int32_t)a->q->dim[FLASH_D],
                          .width = (int32_t)a->v->dim[FLASH_D],
                          .causal = a->causal,
                          .shared = (int32_t)(a->q->dim[FLASH_N] / a->k->dim[FLASH_N])};
    strncpy(k.name, name, sizeof k.name - 1);
    return k;
}

// Text --------------------------------------------------------------------------------------------------------------

static void write_words(struct text *out, const struct flash_key *k, const char *text);

// Of the kernel of keys: turns of one head, its first block of queries with causal, the head and the block of a turn.
static const char *turn_word(const struct flash_key *k, char word) {
    switch (word) {
    case 'u': return k->causal ? "(ceildiv(T, %k) - %f)" : "ceildiv(T, %k)";
    case 'f': return "(max(bx * 128 - (S - T), 0) // %k)";
    case 'q': return k->shared > 1 ? "by * %h + t // %u" : "by";
    case 'b':
        return k->shared > 1 ? (k->causal ? "(t %% %u + %f)" : "(t %% %u)") : k->causal ? "(t + %f)" : "t";
    default: return NULL;
    }
}

static void write_word(struct text *out, const struct flash_key *k, char word) {
    switch (word) {
    case '%': text_add(out, "%%"); return;
    case 'n': text_add(out, k->blocks ? "%d, resident %d" : "%d", k->threads, k->blocks); return;
    case 'k': text_add(out, "%d", k->step); return;
    case 'h': text_add(out, "%d", k->shared); return;
    case 't': text_add(out, k->dtype == ZL_FLOAT16 ? "f16" : "bf16"); return;
    case 'd': text_add(out, "%d", k->size); return;
    case 'e': text_add(out, "%d", k->width); return;
    case 's': text_add(out, "%.17g", k->scale); return;
    case 'p': text_add(out, "%.17g", k->scale * 1.4426950408889634); return;
    case 'x': text_add(out, k->causal ? "(ceildiv(T, 128) - 1 - bx)" : "bx"); return;
    default: write_words(out, k, turn_word(k, word)); return;
    }
}

static void write_words(struct text *out, const struct flash_key *k, const char *text) {
    for (; text && *text; text++)
        if (*text == '%')
            write_word(out, k, *++text);
        else
            text_bytes(out, text, 1);
}

static void write_tiles(struct text *out, const struct flash_key *k, const struct flash_text *text) {
    for (int i = 0; i < FLASH_PARTS && text->part[i]; i++)
        write_words(out, k, text->part[i]);
}

// Kernels -----------------------------------------------------------------------------------------------------------

static void drop(struct flash *f) {
    group_kernel_close(&f->group);
    tile_free(f->kernel);
    text_free(&f->source);
    memory_free(f);
}

static struct flash *make(const struct flash_key *k, const struct flash_text *text) {
    struct text tiles = {0};
    struct flash *f = memory_zero(sizeof *f);
    write_tiles(&tiles, k, text);
    bool made = f && !tiles.failed && (f->kernel = tile_parse(tiles.data, "attention")) &&
                render_kernel(&f->source, f->kernel, render_target("cuda_tiles")) &&
                group_kernel_open(&f->group, f->kernel);
    text_free(&tiles);
    if (made)
        return f;
    if (f)
        drop(f);
    return NULL;
}

static struct flash *find_kernel(const struct flash_key *k, const struct flash_text *text) {
    lock_take(&lock);
    struct flash *f = map_get(&kernels, k, sizeof *k);
    if (!f && (f = make(k, text)) && !map_set(&kernels, k, sizeof *k, f)) {
        drop(f);
        f = NULL;
    }
    lock_give(&lock);
    return f;
}

// Under the name that kernels have which are kept.
static bool write_source(struct text *out, const void *data) {
    const struct flash *f = data;
    text_add(out, "#define attention_0 zl_kernel\n");
    text_bytes(out, f->source.data, f->source.len);
    return true;
}

bool flash_source(const struct flash_key *k, const struct flash_text *text, struct text *tiles,
                  struct text *source) {
    if (tiles)
        write_tiles(tiles, k, text);
    if (!source)
        return !tiles || !tiles->failed;
    struct flash *f = make(k, text);
    bool made = f && write_source(source, f);
    if (f)
        drop(f);
    return made;
}

// Launches ----------------------------------------------------------------------------------------------------------

static bool launch(const struct kernel_place *p, struct flash *f, const struct flash_key *k,
                   const struct attention *a, void *const *memory, int count) {
    const struct render_launch *l = &f->group.launch[0];
    // As shapes name them: H, T, then G, S, which not all have.
    int64_t symbol[FLASH_SYMBOLS] = {a->q->dim[FLASH_B] * a->q->dim[FLASH_N], a->q->dim[FLASH_T],
                                     a->k->dim[FLASH_B] * a->k->dim[FLASH_N], a->k->dim[FLASH_T]};
    int32_t narrow[FLASH_SYMBOLS];
    void *argument[FLASH_BUFFERS + FLASH_SYMBOLS];
    struct group_sizes sizes = {0};
    void *kernel = kernel_find(p, k, sizeof *k, write_source, f);
    int at = 0;
    for (int i = 0; i < count; i++)
        argument[at++] = (void *)(uintptr_t)&memory[i];
    for (int i = 0; i < f->kernel->symbols; i++) {
        narrow[i] = (int32_t)symbol[i];
        argument[at++] = &narrow[i];
    }
    bool done = kernel && group_sizes_open(&sizes, &f->group, symbol);
    struct cuda_launch how = {.grid = {done ? (unsigned)sizes.groups[0] : 0, 1, 1},
                              .block = {(unsigned)l->threads, 1, 1},
                              .shared = (unsigned)l->shared};
    counter_add(COUNTER_LAUNCHES, 1);
    done = done && cuda_launch(p->unit, p->lane, kernel, &how, argument);
    group_sizes_close(&sizes);
    return done;
}

enum kernel_taken flash_run(const struct kernel_place *p, const struct flash_key *k,
                            const struct flash_text *text, const struct attention *a, void *const *memory,
                            int count) {
    struct cuda_device *d = cuda_device(p->unit);
    struct flash *f = d ? find_kernel(k, text) : NULL;
    if (f && f->group.launch[0].shared > d->unit.group.most_shared)
        return KERNEL_NOT_TAKEN;
    return f && launch(p, f, k, a, memory, count) ? KERNEL_DONE : KERNEL_FAILED;
}
