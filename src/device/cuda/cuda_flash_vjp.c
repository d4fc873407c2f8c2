// cuda_flash_vjp.c - cotangents of attention of half floats by tile kernels: one for queries, one for keys and values.
//
// Both compute the weights again, from the logarithm of each query's sum, which a first kernel takes from what was kept, with the
// product of result and cotangent that is subtracted from slopes. The kernel of keys has scores turned, a row a key, so that what
// the matrix units gave is what they take next; heads that share keys follow each other in its turns. Nothing is added up by two
// blocks.

#include "device/cuda/cuda_flash.h"

// Text --------------------------------------------------------------------------------------------------------------

#define INPUTS                                                                                         \
    "kernel attention index 32 (Q: %t[H, T, %d], K: %t[G, S, %d], V: %t[G, S, %e], Y: %t[H, T, %e],\n" \
    "    A: f32[H, T], B: f32[H, T])\n"

static const char queries_text[] = INPUTS "    -> (X: %t[H, T, %d]) {\n"
                                          "  grid by in H, bx in ceildiv(T, 128), threads %n {\n"
                                          "    shared q: %t[128, %d]\n"
                                          "    shared y: %t[128, %e]\n"
                                          "    shared k: %t[%k, %d]\n"
                                          "    shared v: %t[%k, %e]\n"
                                          "    fragment s: f32[128, %k]\n"
                                          "    fragment slope: f32[128, %k]\n"
                                          "    fragment p: %t[128, %k]\n"
                                          "    fragment x: f32[128, %d] = 0\n"
                                          "    fragment top: f32[128]\n"
                                          "    fragment less: f32[128]\n"
                                          "    copy Q[by, %x * 128, 0] of [1, 128, %d] -> q\n"
                                          "    copy Y[by, %x * 128, 0] of [1, 128, %e] -> y\n"
                                          "    copy A[by, %x * 128] of [1, 128] -> top\n"
                                          "    copy B[by, %x * 128] of [1, 128] -> less\n";

static const char all_keys_text[] = "    pipeline t in ceildiv(S, %k) stages 2 {\n";
static const char some_keys_text[] =
    "    pipeline t in min(ceildiv(S, %k), ceildiv((%x + 1) * 128 + S - T, %k)) stages 2 {\n";

static const char query_slopes_text[] =
    "      copy K[by // %h, t * %k, 0] of [1, %k, %d] -> k\n"
    "      copy V[by // %h, t * %k, 0] of [1, %k, %e] -> v\n"
    "      gemm q, transpose k -> s clear\n"
    "      gemm y, transpose v -> slope clear\n"
    "      map i in 128, j in %k { s[i, j] = exp2(fma(s[i, j], %p, -top[i])) * (slope[i, j] - less[i]) }\n";
static const char key_edge_text[] =
    "      if t * %k + %k > S { map i in 128, j in %k { s[i, j] = where(t * %k + j < S, s[i, j], 0) } }\n";
static const char causal_key_edge_text[] =
    "      if t * %k + %k > S | t * %k + %k > %x * 128 + S - T {\n"
    "        map i in 128, j in %k {\n"
    "          s[i, j] = where(t * %k + j < S & t * %k + j <= %x * 128 "
    "+ i + S - T, s[i, j], 0)\n"
    "        }\n"
    "      }\n";
static const char queries_end_text[] = "      copy s -> p\n"
                                       "      gemm p, k -> x\n"
                                       "    }\n"
                                       "    map i in 128, j in %d { x[i, j] = x[i, j] * %s }\n"
                                       "    copy x -> X[by, %x * 128, 0] of [1, 128, %d]\n"
                                       "  }\n"
                                       "}\n";

static const char keys_text[] = INPUTS "    -> (X: %t[G, S, %d], Z: %t[G, S, %e]) {\n"
                                       "  grid by in G, bx in ceildiv(S, 128), threads %n {\n"
                                       "    shared q: %t[%k, %d]\n"
                                       "    shared y: %t[%k, %e]\n"
                                       "    shared k: %t[128, %d]\n"
                                       "    shared v: %t[128, %e]\n"
                                       "    shared top: f32[%k]\n"
                                       "    shared less: f32[%k]\n"
                                       "    fragment s: f32[128, %k]\n"
                                       "    fragment slope: f32[128, %k]\n"
                                       "    fragment p: %t[128, %k]\n"
                                       "    fragment r: %t[128, %k]\n"
                                       "    fragment x: f32[128, %d] = 0\n"
                                       "    fragment z: f32[128, %e] = 0\n"
                                       "    copy K[by, bx * 128, 0] of [1, 128, %d] -> k\n"
                                       "    copy V[by, bx * 128, 0] of [1, 128, %e] -> v\n";

static const char key_slopes_text[] =
    "    pipeline t in %h * %u stages 2 {\n"
    "      copy Q[%q, %b * %k, 0] of [1, %k, %d] -> q\n"
    "      copy Y[%q, %b * %k, 0] of [1, %k, %e] -> y\n"
    "      copy A[%q, %b * %k] of [1, %k] -> top\n"
    "      copy B[%q, %b * %k] of [1, %k] -> less\n"
    "      gemm k, transpose q -> s clear\n"
    "      gemm v, transpose y -> slope clear\n"
    "      map i in 128, j in %k { s[i, j] = exp2(fma(s[i, j], %p, -top[j])) }\n";
static const char query_edge_text[] =
    "      if %b * %k + %k > T { map i in 128, j in %k { s[i, j] = where(%b * %k + j < T, s[i, j], 0) } }\n";
static const char causal_query_edge_text[] =
    "      if %b * %k + %k > T | %b * %k + S - T < bx * 128 + 128 {\n"
    "        map i in 128, j in %k {\n"
    "          s[i, j] = where(%b * %k + j < T & bx * 128 + i <= %b * %k + j + S - T, s[i, j], 0)\n"
    "        }\n"
    "      }\n";
static const char keys_end_text[] =
    "      copy s -> p\n"
    "      map i in 128, j in %k { slope[i, j] = s[i, j] * (slope[i, j] - less[j]) }\n"
    "      copy slope -> r\n"
    "      gemm p, y -> z\n"
    "      gemm r, q -> x\n"
    "    }\n"
    "    map i in 128, j in %d { x[i, j] = x[i, j] * %s }\n"
    "    copy x -> X[by, bx * 128, 0] of [1, 128, %d]\n"
    "    copy z -> Z[by, bx * 128, 0] of [1, 128, %e]\n"
    "  }\n"
    "}\n";

// Of each query: the logarithm of its sum, of base 2, and the product of result and cotangent.
static const char prepare_text[] =
    "kernel attention index 32 (Z: f32[H, T, 2], O: %t[H, T, %e], Y: %t[H, T, %e])\n"
    "    -> (A: f32[H, T], B: f32[H, T]) {\n"
    "  grid by in H, bx in ceildiv(T, 8), threads 256 {\n"
    "    fragment part: f32[8, 32] = 0\n"
    "    fragment sum: f32[8]\n"
    "    for c in ceildiv(%e, 32) {\n"
    "      map i in 8, j in 32 {\n"
    "        let t = bx * 8 + i\n"
    "        let d = c * 32 + j\n"
    "        if t < T & d < %e { part[i, j] = fma(f32(O[by, t, d]), f32(Y[by, t, d]), part[i, j]) }\n"
    "      }\n"
    "    }\n"
    "    reduce add part -> sum axis 1\n"
    "    map i in 8 {\n"
    "      let t = bx * 8 + i\n"
    "      if t < T {\n"
    "        A[by, t] = (Z[by, t, 0] + log(Z[by, t, 1])) * 1.44269504\n"
    "        B[by, t] = sum[i]\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";

struct flash_text flash_vjp_text(struct flash_key *k, enum cuda_flash_kind kind) {
    k->threads = 256;
    k->step = 64;
    if (kind == CUDA_FLASH_PREPARING)
        return (struct flash_text){{prepare_text}};
    if (kind == CUDA_FLASH_OF_KEYS)
        return (struct flash_text){{keys_text, key_slopes_text,
                                    k->causal ? causal_query_edge_text : query_edge_text, keys_end_text}};
    return (struct flash_text){{queries_text, k->causal ? some_keys_text : all_keys_text, query_slopes_text,
                                k->causal ? causal_key_edge_text : key_edge_text, queries_end_text}};
}

// Calls -------------------------------------------------------------------------------------------------------------

enum { Q, K, V, G, TOP, LESS, FIRST, SECOND, BUFFERS };

static enum kernel_taken prepare(const struct kernel_place *p, const struct attention *a,
                                 void *const *memory) {
    struct cuda_scratch copy[2] = {{0}};
    struct flash_key k = {.dtype = a->q->dtype, .width = (int32_t)a->v->dim[FLASH_D], .name = "flash p"};
    struct flash_text text = flash_vjp_text(&k, CUDA_FLASH_PREPARING);
    void *of_queries[] = {cuda_row_major(p, a->state, &copy[0]), cuda_row_major(p, a->y, &copy[1]), memory[G],
                          memory[TOP], memory[LESS]};
    enum kernel_taken taken = of_queries[0] && of_queries[1]
                                  ? flash_run(p, &k, &text, a, of_queries, COUNT(of_queries))
                                  : KERNEL_FAILED;
    cuda_scratch_close(p, &copy[0]);
    cuda_scratch_close(p, &copy[1]);
    return taken;
}

static enum kernel_taken run(const struct kernel_place *p, const struct attention *a, bool of_keys,
                             void **memory, zl_array first, zl_array second) {
    struct flash_key k = flash_key_of(a, of_keys ? "flash k" : "flash q");
    struct flash_text text = flash_vjp_text(&k, of_keys ? CUDA_FLASH_OF_KEYS : CUDA_FLASH_OF_QUERIES);
    memory[FIRST] = kernel_reach(p, first);
    memory[SECOND] = second ? kernel_reach(p, second) : NULL;
    if (!memory[FIRST] || (second && !memory[SECOND]))
        return KERNEL_FAILED;
    return flash_run(p, &k, &text, a, memory, second ? BUFFERS : SECOND);
}

// The kernel of keys has more memory: first it says whether it has room.
enum kernel_taken cuda_flash_vjp(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    if (!flash_fits(&a))
        return KERNEL_NOT_TAKEN;
    struct cuda_scratch copy[BUFFERS] = {{0}};
    size_t line = (size_t)a.state->size / 2 * sizeof(float);
    void *memory[BUFFERS] = {cuda_row_major(p, a.q, &copy[Q]),       cuda_row_major(p, a.k, &copy[K]),
                             cuda_row_major(p, a.v, &copy[V]),       cuda_row_major(p, a.g, &copy[G]),
                             cuda_scratch_open(p, &copy[TOP], line), cuda_scratch_open(p, &copy[LESS], line)};
    bool ready = true;
    for (int i = 0; i < FIRST; i++)
        ready = ready && memory[i];
    enum kernel_taken taken = ready ? prepare(p, &a, memory) : KERNEL_FAILED;
    if (taken == KERNEL_DONE)
        taken = run(p, &a, true, memory, call_output(c, 1), call_output(c, 2));
    if (taken == KERNEL_DONE)
        taken = run(p, &a, false, memory, call_first(c), NULL);
    for (int i = 0; i < BUFFERS; i++)
        cuda_scratch_close(p, &copy[i]);
    return taken;
}
