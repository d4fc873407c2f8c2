// cuda_flash.c - attention of half floats by a tile kernel of our own: blocks of queries and keys in the matrix units.
//
// The kernel is of the tile language. Lengths and heads are its symbols; the sizes of heads, which are multiples of 16, its scale
// and whether it is causal are in its text. Views that are no rows behind each other are copied. Blocks of queries with most keys
// begin first: with causal, the last ones.

#include "device/cuda/cuda_flash.h"

// Text --------------------------------------------------------------------------------------------------------------

static const char begin_text[] =
    "kernel attention index 32 (Q: %t[H, T, %d], K: %t[G, S, %d], V: %t[G, S, %e])\n"
    "    -> (O: %t[H, T, %e]) {\n";
static const char begin_keeping_text[] =
    "kernel attention index 32 (Q: %t[H, T, %d], K: %t[G, S, %d], V: %t[G, S, %e])\n"
    "    -> (O: %t[H, T, %e], Z: f32[H, T, 2]) {\n";

static const char tiles_text[] = "  grid by in H, bx in ceildiv(T, 128), threads %n {\n"
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
    "        low[i] = -most[i] * %p\n"
    "        scale[i] = exp2(fma(scale[i], %p, low[i]))\n"
    "      }\n"
    "      map i in 128, j in %k { s[i, j] = exp2(fma(s[i, j], %p, low[i])) }\n"
    "      reduce add s -> sum axis 1\n"
    "      map i in 128 { total[i] = fma(total[i], scale[i], sum[i]) }\n"
    "      map i in 128, j in %e { o[i, j] = o[i, j] * scale[i] }\n"
    "      copy s -> p\n"
    "      gemm p, v -> o\n"
    "    }\n";

#define END_TEXT                                                   \
    "    map i in 128 { total[i] = 1 / total[i] }\n"               \
    "    map i in 128, j in %e { o[i, j] = o[i, j] * total[i] }\n" \
    "    copy o -> O[by, %x * 128, 0] of [1, 128, %e]\n"           \
    "  }\n"                                                        \
    "}\n"
static const char end_text[] = END_TEXT;
static const char end_keeping_text[] = "    map i in 128 {\n"
                                       "      if %x * 128 + i < T {\n"
                                       "        Z[by, %x * 128 + i, 0] = most[i] * %s\n"
                                       "        Z[by, %x * 128 + i, 1] = total[i]\n"
                                       "      }\n"
                                       "    }\n" END_TEXT;

static struct flash_text text_of(const struct flash_key *k) {
    return (struct flash_text){{k->keeps ? begin_keeping_text : begin_text, tiles_text,
                                k->causal ? causal_text : all_text, turn_text,
                                k->causal ? causal_edge_text : edge_text, softmax_text,
                                k->keeps ? end_keeping_text : end_text}};
}

// Measured on an H200: with the matrix instructions of sm_90a eight warps have 16 queries each, and 128 keys a turn pay where
// registers leave room for them; two blocks a multiprocessor multiply in turns. Else four warps have 32 queries each.
static void choose(struct flash_key *k, bool has_warps) {
    bool is_wide = k->size % 64 == 0 && k->width % 64 == 0;
    k->threads = has_warps && is_wide ? 256 : 128;
    k->blocks = k->threads == 256 ? 2 : 0;
    k->step = has_warps && k->size == 64 && k->width == 64 ? 128 : 64;
}

bool cuda_flash_source(const struct cuda_flash_text *t, struct text *tiles, struct text *source) {
    struct flash_key k = {.scale = t->scale,
                          .dtype = t->dtype,
                          .size = t->size,
                          .width = t->size,
                          .causal = t->causal,
                          .keeps = t->kind == CUDA_FLASH_KEEPING,
                          .shared = t->shared};
    bool is_forward = t->kind <= CUDA_FLASH_KEEPING;
    if (is_forward)
        choose(&k, t->has_warps);
    struct flash_text text = is_forward ? text_of(&k) : flash_vjp_text(&k, t->kind);
    return flash_source(&k, &text, tiles, source);
}

// Calls -------------------------------------------------------------------------------------------------------------

enum { Q, K, V, O, STATE, BUFFERS };

static enum kernel_taken attend(const struct kernel_place *p, const struct flash_key *k,
                                const struct attention *a, zl_array y, zl_array state) {
    struct cuda_scratch copy[O] = {{0}};
    struct flash_text text = text_of(k);
    void *memory[BUFFERS] = {cuda_row_major(p, a->q, &copy[Q]), cuda_row_major(p, a->k, &copy[K]),
                             cuda_row_major(p, a->v, &copy[V]), kernel_reach(p, y),
                             k->keeps ? kernel_reach(p, state) : NULL};
    int count = k->keeps ? BUFFERS : STATE;
    bool ready = true;
    for (int i = 0; i < count; i++)
        ready = ready && memory[i];
    enum kernel_taken taken = ready ? flash_run(p, k, &text, a, memory, count) : KERNEL_FAILED;
    for (int i = 0; i < O; i++)
        cuda_scratch_close(p, &copy[i]);
    return taken;
}

enum kernel_taken cuda_flash(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    struct cuda_device *d = cuda_device(p->unit);
    zl_array state = call_output(c, 1);
    if (!flash_fits(&a))
        return KERNEL_NOT_TAKEN;
    struct flash_key k = flash_key_of(&a, "flash");
    k.keeps = !array_is_forgotten(state);
    choose(&k, d && d->major == 9);
    return attend(p, &k, &a, call_first(c), state);
}
