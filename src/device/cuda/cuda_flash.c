// cuda_flash.c - attention of half floats by a tile kernel of our own: blocks of queries and keys in the matrix units.
//
// The kernel is of the tile language. Lengths and heads are its symbols; the sizes of heads, which are multiples of 16, its scale
// and whether it is causal are in its text. Views that are no rows behind each other are copied. Blocks of queries with most keys
// begin first: with causal, the last ones.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/group_kernel.h"
#include "op/ops.h"

#include <string.h>

enum { B, N, T, D };
enum { SIZE_MOST = 128, FEWEST_QUERIES = 16, SYMBOLS = 4 };

struct key {
    double scale;
    int32_t dtype, size, width, causal, keeps;
    char name[8]; // no other kernel has such a key
    int32_t
        shared; // heads of queries to one of keys: a constant, as copies would divide by a symbol in every turn
    int32_t threads, keys; // of a block, keys of a turn
};

struct flash {
    struct tile_kernel *kernel;
    struct group_kernel group;
    char *source;
};

static struct lock lock; // guards kernels
static struct map kernels;

// Text --------------------------------------------------------------------------------------------------------------

// %n: threads; %k: keys of a turn; %h: heads of queries to one of keys; %t: the type; %d, %e: sizes of heads of keys and of values;
// %x: the block of queries; %s: the scale of exponents of 2.
static const char begin_text[] =
    "kernel attention index 32 (Q: %t[H, T, %d], K: %t[G, S, %d], V: %t[G, S, %e])\n"
    "    -> (O: %t[H, T, %e]%o) {\n"
    "  grid by in H, bx in ceildiv(T, 128), threads %n {\n"
    "    shared q: %t[128, %d]\n"
    "    shared k: %t[%k, %d]\n"
    "    shared v: %t[%k, %e]\n"
    "    fragment s: f32[128, %k]\n"
    "    fragment p: %t[128, %k]\n"
    "    fragment o: f32[128, %e] = 0\n"
    "    fragment most: f32[128] = -1e30\n"
    "    fragment low: f32[128] = 0\n"
    "    fragment scale: f32[128]\n"
    "    fragment sum: f32[128]\n"
    "    fragment total: f32[128] = 0\n"
    "    copy Q[by, %x * 128, 0] of [1, 128, %d] -> q\n";

static const char all_text[] = "    pipeline t in ceildiv(S, %k) stages 2 {\n";
static const char causal_text[] =
    "    pipeline t in min(ceildiv(S, %k), ceildiv((%x + 1) * 128 + S - T, %k)) stages 2 {\n";

static const char turn_text[] = "      copy K[by // %h, t * %k, 0] of [1, %k, %d] -> k\n"
                                "      copy V[by // %h, t * %k, 0] of [1, %k, %e] -> v\n"
                                "      gemm q, transpose k -> s clear\n";
static const char edge_text[] =
    "      if t * %k + %k > S { map i in 128, j in %k { s[i, j] = where(t * %k + j < S, s[i, j], -inf) } }\n";
static const char causal_edge_text[] = "      if t * %k + %k > S | t * %k + %k > %x * 128 + S - T {\n"
                                       "        map i in 128, j in %k { s[i, j] = where(t * %k + j < S & t * "
                                       "%k + j <= %x * 128 + i + S - T, s[i, j], -inf) }\n"
                                       "      }\n";
static const char softmax_text[] =
    "      copy most -> scale\n"
    "      reduce maximum s -> most axis 1 accumulate\n"
    "      map i in 128 {\n"
    "        low[i] = -most[i] * %s\n"
    "        scale[i] = exp2(fma(scale[i], %s, low[i]))\n"
    "      }\n"
    "      map i in 128, j in %k { s[i, j] = exp2(fma(s[i, j], %s, low[i])) }\n"
    "      reduce add s -> sum axis 1\n"
    "      map i in 128 { total[i] = fma(total[i], scale[i], sum[i]) }\n"
    "      map i in 128, j in %e { o[i, j] = o[i, j] * scale[i] }\n"
    "      copy s -> p\n"
    "      gemm p, v -> o\n"
    "    }\n";

static const char keep_text[] = "    copy most -> M[by, %x * 128] of [1, 128]\n"
                                "    copy total -> L[by, %x * 128] of [1, 128]\n";

static const char end_text[] = "    map i in 128 { total[i] = 1 / total[i] }\n"
                               "    map i in 128, j in %e { o[i, j] = o[i, j] * total[i] }\n"
                               "    copy o -> O[by, %x * 128, 0] of [1, 128, %e]\n"
                               "  }\n"
                               "}\n";

static void write_word(struct text *out, const struct key *k, char word) {
    switch (word) {
    case 'n': text_add(out, "%d", k->threads); return;
    case 'k': text_add(out, "%d", k->keys); return;
    case 'h': text_add(out, "%d", k->shared); return;
    case 't': text_add(out, k->dtype == ZL_FLOAT16 ? "f16" : "bf16"); return;
    case 'd': text_add(out, "%d", k->size); return;
    case 'e': text_add(out, "%d", k->width); return;
    case 'x': text_add(out, k->causal ? "(ceildiv(T, 128) - 1 - bx)" : "bx"); return;
    case 's': text_add(out, "%.17g", k->scale * 1.4426950408889634); return;
    case 'o': text_add(out, k->keeps ? ", M: f32[H, T], L: f32[H, T]" : ""); return;
    default: return;
    }
}

static void write_words(struct text *out, const struct key *k, const char *text) {
    for (; *text; text++)
        if (*text == '%')
            write_word(out, k, *++text);
        else
            text_bytes(out, text, 1);
}

static void write_tiles(struct text *out, const struct key *k) {
    const char *const parts[] = {
        begin_text,   k->causal ? causal_text : all_text, turn_text, k->causal ? causal_edge_text : edge_text,
        softmax_text, k->keeps ? keep_text : "",          end_text};
    for (size_t i = 0; i < COUNT(parts); i++)
        write_words(out, k, parts[i]);
}

// Measured on an H200: with the matrix instructions of sm_90a eight warps have 16 queries each, and where registers allow it, 128
// keys a turn pay for causal. Else four warps have 32 queries each.
static void choose(struct key *k, bool has_warps) {
    bool is_wide = k->size % 64 == 0 && k->width % 64 == 0;
    k->threads = has_warps && is_wide ? 256 : 128;
    k->keys = has_warps && is_wide && k->causal && k->size == 64 && k->width == 64 ? 128 : 64;
}

// Kernels -----------------------------------------------------------------------------------------------------------

static void drop(struct flash *f) {
    group_kernel_close(&f->group);
    tile_free(f->kernel);
    memory_free(f->source);
    memory_free(f);
}

static struct flash *make(const struct key *k) {
    struct text tiles = {0};
    struct flash *f = memory_zero(sizeof *f);
    write_tiles(&tiles, k);
    bool made = f && !tiles.failed && (f->kernel = tile_parse(tiles.data, "attention")) &&
                (f->source = render_kernel(f->kernel, "cuda_tiles")) &&
                group_kernel_open(&f->group, f->kernel);
    text_free(&tiles);
    if (made)
        return f;
    if (f)
        drop(f);
    return NULL;
}

static struct flash *find_kernel(const struct key *k) {
    lock_take(&lock);
    struct flash *f = map_get(&kernels, k, sizeof *k);
    if (!f && (f = make(k)) && !map_set(&kernels, k, sizeof *k, f)) {
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
    text_bytes(out, f->source, (int)strlen(f->source));
    return true;
}

bool cuda_flash_source(zl_dtype dtype, int size, bool causal, bool keeps, bool has_warps, struct text *out) {
    struct key k = {.scale = 0.125,
                    .dtype = dtype,
                    .size = size,
                    .width = size,
                    .causal = causal,
                    .keeps = keeps,
                    .shared = 2};
    choose(&k, has_warps);
    struct flash *f = make(&k);
    bool made = f && write_source(out, f);
    if (f)
        drop(f);
    return made;
}

// Calls -------------------------------------------------------------------------------------------------------------

static bool fits(const struct attention *a) {
    bool is_half = a->q->dtype == ZL_FLOAT16 || a->q->dtype == ZL_BFLOAT16;
    int64_t most = MAX_OF(a->q->size, MAX_OF(a->k->size, a->v->size));
    return is_half && !a->mask && !a->sinks && a->q->dim[D] % 16 == 0 && a->v->dim[D] % 16 == 0 &&
           a->q->dim[D] <= SIZE_MOST && a->v->dim[D] <= SIZE_MOST && a->q->dim[T] >= FEWEST_QUERIES &&
           !(a->causal && a->q->dim[T] > a->k->dim[T]) && most < INT32_MAX / 2;
}

static const char pair_text[] =
    "KERNEL zl_kernel(GLOBAL f32 *state, GLOBAL const f32 *most, GLOBAL const f32 *sum, f32 scale, idx n) {\n"
    "    idx i = GROUP * THREADS + THREAD;\n"
    "    if (i < n) {\n"
    "        state[2 * i] = most[i] * scale;\n"
    "        state[2 * i + 1] = sum[i];\n"
    "    }\n"
    "}\n";

static bool write_pairs(struct text *out, const void *data) {
    kernel_begin(out, data, true);
    text_bytes(out, pair_text, (int)sizeof pair_text - 1);
    return true;
}

static bool keep(const struct kernel_place *p, zl_array state, float *most, float *sum, double scale) {
    int64_t count = state->size / 2;
    float factor = (float)scale;
    struct kernel_call k;
    kernel_begin_call(&k);
    void *kernel = kernel_find(p, "cuda_flash keep", 15, write_pairs, p->target->dialect);
    void *to = kernel_reach(p, state);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, most);
    kernel_add_memory(&k, sum);
    kernel_add(&k, &factor, sizeof factor);
    kernel_add_int(&k, count, true);
    return kernel && to && kernel_launch(p, kernel, (count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

// Memory that says that no index was outside: zeros, as long as nothing checks.
static void *status_of(const struct kernel_place *p) {
    static void *status[CUDA_DEVICES];
    static const int32_t fine = 0;
    lock_take(&lock);
    if (!status[p->unit] && (status[p->unit] = cuda_alloc(p->unit, sizeof fine)))
        p->target->device->copy(p->unit, status[p->unit], &fine, sizeof fine, false);
    lock_give(&lock);
    return status[p->unit];
}

static bool launch(const struct kernel_place *p, struct flash *f, const struct key *k,
                   const struct attention *a, void *const *memory, int count) {
    const struct render_launch *l = &f->group.launch[0];
    // As shapes name them: H, T, then G, S.
    int64_t symbol[SYMBOLS] = {a->q->dim[B] * a->q->dim[N], a->q->dim[T], a->k->dim[B] * a->k->dim[N],
                               a->k->dim[T]};
    int32_t narrow[SYMBOLS];
    void *argument[8 + SYMBOLS], *status = status_of(p);
    struct group_sizes sizes = {0};
    void *kernel = kernel_find(p, k, sizeof *k, write_source, f);
    int at = 0;
    for (int i = 0; i < count; i++)
        argument[at++] = (void *)(uintptr_t)&memory[i];
    for (int i = 0; i < SYMBOLS; i++) {
        narrow[i] = (int32_t)symbol[i];
        argument[at++] = &narrow[i];
    }
    argument[at] = &status;
    bool done = kernel && status && group_sizes_open(&sizes, &f->group, symbol);
    struct cuda_launch how = {.grid = {done ? (unsigned)sizes.groups[0] : 0, 1, 1},
                              .block = {(unsigned)l->threads, 1, 1},
                              .shared = (unsigned)l->shared};
    counter_add(COUNTER_LAUNCHES, 1);
    done = done && cuda_launch(p->unit, kernel, &how, argument);
    group_sizes_close(&sizes);
    return done;
}

enum { Q, K, V, O, MOST, SUM, BUFFERS };

static bool attend(const struct kernel_place *p, const struct key *k, const struct attention *a, zl_array y,
                   zl_array state) {
    struct cuda_scratch copy[BUFFERS] = {{0}};
    void *memory[BUFFERS] = {cuda_row_major(p, a->q, &copy[Q]), cuda_row_major(p, a->k, &copy[K]),
                             cuda_row_major(p, a->v, &copy[V]), kernel_reach(p, y)};
    struct flash *f = find_kernel(k);
    size_t line = (size_t)state->size / 2 * sizeof(float);
    bool done = f && memory[Q] && memory[K] && memory[V] && memory[O];
    if (done && k->keeps)
        done = (memory[MOST] = cuda_scratch_open(p, &copy[MOST], line)) &&
               (memory[SUM] = cuda_scratch_open(p, &copy[SUM], line));
    done = done && launch(p, f, k, a, memory, k->keeps ? BUFFERS : MOST) &&
           (!k->keeps || keep(p, state, memory[MOST], memory[SUM], k->scale));
    for (int i = 0; i < BUFFERS; i++)
        cuda_scratch_close(p, &copy[i]);
    return done;
}

enum kernel_taken cuda_flash(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    zl_array state = call_output(c, 1);
    if (!fits(&a))
        return KERNEL_NOT_TAKEN;
    struct key k = {.scale = a.scale,
                    .dtype = a.q->dtype,
                    .size = (int32_t)a.q->dim[D],
                    .width = (int32_t)a.v->dim[D],
                    .causal = a.causal,
                    .keeps = !array_is_forgotten(state),
                    .name = "flash",
                    .shared = (int32_t)(a.q->dim[N] / a.k->dim[N])};
    struct cuda_device *d = cuda_device(p->unit);
    choose(&k, d && d->major == 9);
    return attend(p, &k, &a, call_first(c), state) ? KERNEL_DONE : KERNEL_FAILED;
}
