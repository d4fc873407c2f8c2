// cuda_flash_vjp.c - cotangents of attention of half floats by tile kernels: one for queries, one for keys and values.
//
// Both compute the weights again, from the logarithm of each query's sum, which a first kernel takes from what was kept, with the
// product of result and cotangent that is subtracted from slopes. The kernel of keys has scores turned, a row a key, so that what
// the matrix units gave is what they take next; heads that share keys follow each other in its turns. Nothing is added up by two
// blocks.

#include "device/cuda/cuda_flash.h"
#include "device/kernels/kernels_attention.h"

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

struct flash_text flash_vjp_text(struct flash_key *k, bool of_keys) {
    k->threads = 256;
    k->step = 64;
    if (of_keys)
        return (struct flash_text){{keys_text, key_slopes_text,
                                    k->causal ? causal_query_edge_text : query_edge_text, keys_end_text}};
    return (struct flash_text){{queries_text, k->causal ? some_keys_text : all_keys_text, query_slopes_text,
                                k->causal ? causal_key_edge_text : key_edge_text, queries_end_text}};
}

// Calls -------------------------------------------------------------------------------------------------------------

enum { ROWS = 8, LANES = 32 };

static const char prepare_text[] =
    "#define ROWS 8\n"
    "#define LANES 32\n"
    ATTENTION_LOAD
    "KERNEL zl_kernel(GLOBAL f32 *top, GLOBAL f32 *less, GLOBAL const f32 *state, GLOBAL const ITEM *y, "
    "GLOBAL const ITEM *g, idx n, idx width) {\n"
    "    LOCAL f32 part[ROWS][LANES];\n"
    "    i32 row = THREAD / LANES, lane = THREAD % LANES;\n"
    "    i64 line = (i64)GROUP * ROWS + row;\n"
    "    f32 sum = 0;\n"
    "    for (i64 c = lane; c < width && line < n; c += LANES)\n"
    "        sum = zl_fma_f32(load(y + line * width + c), load(g + line * width + c), sum);\n"
    "    part[row][lane] = sum;\n"
    "    BARRIER;\n"
    "    if (lane || line >= n)\n"
    "        return;\n"
    "    sum = 0;\n"
    "    for (i32 c = 0; c < LANES; c++)\n"
    "        sum += part[row][c];\n"
    "    f32 total = state[2 * line + 1], log_of_total;\n"
    "    logarithm(&log_of_total, &total);\n"
    "    top[line] = (state[2 * line] + log_of_total) * 1.44269504f;\n" // of exponents of 2
    "    less[line] = sum;\n"
    "}\n";

struct writer {
    const char *dialect;
    zl_dtype dtype;
};

static bool write_prepare(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, true);
    if (!kernel_element(out, tile_cast_kernel(ZL_FLOAT32, w->dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_row_kernel(TILE_LOG, ZL_FLOAT32, "v"), w->dialect, "logarithm"))
        return false;
    text_add(out, "#define ITEM %s\n", kernel_memory_type(w->dtype));
    text_bytes(out, prepare_text, (int)sizeof prepare_text - 1);
    return true;
}

enum { Q, K, V, G, TOP, LESS, FIRST, SECOND, BUFFERS };

static bool prepare(const struct kernel_place *p, const struct attention *a, void *y, void *const *memory) {
    zl_dtype dtype = (zl_dtype)a->q->dtype;
    char name[] = "cuda_flash_vjp 0";
    name[sizeof name - 2] = dtype == ZL_FLOAT16 ? 'h' : 'b';
    struct kernel_call k;
    kernel_begin_call(&k);
    void *kernel =
        kernel_find(p, name, sizeof name, write_prepare, &(struct writer){p->target->dialect, dtype});
    void *state = kernel_reach(p, a->state);
    int64_t lines = a->state->size / 2;
    kernel_add_memory(&k, memory[TOP]);
    kernel_add_memory(&k, memory[LESS]);
    kernel_add_memory(&k, state);
    kernel_add_memory(&k, y);
    kernel_add_memory(&k, memory[G]);
    kernel_add_int(&k, lines, true);
    kernel_add_int(&k, a->v->dim[FLASH_D], true);
    return kernel && state && kernel_launch_by(p, kernel, (lines + ROWS - 1) / ROWS, ROWS * LANES, &k);
}

static enum kernel_taken run(const struct kernel_place *p, const struct attention *a, bool of_keys,
                             void **memory, zl_array first, zl_array second) {
    struct flash_key k = flash_key_of(a, of_keys ? "flash k" : "flash q");
    struct flash_text text = flash_vjp_text(&k, of_keys);
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
    struct cuda_scratch copy[BUFFERS] = {{0}}, of_y = {0};
    size_t line = (size_t)a.state->size / 2 * sizeof(float);
    void *y = cuda_row_major(p, a.y, &of_y);
    void *memory[BUFFERS] = {cuda_row_major(p, a.q, &copy[Q]),       cuda_row_major(p, a.k, &copy[K]),
                             cuda_row_major(p, a.v, &copy[V]),       cuda_row_major(p, a.g, &copy[G]),
                             cuda_scratch_open(p, &copy[TOP], line), cuda_scratch_open(p, &copy[LESS], line)};
    bool ready = y;
    for (int i = 0; i < FIRST; i++)
        ready = ready && memory[i];
    enum kernel_taken taken = ready && prepare(p, &a, y, memory) ? KERNEL_DONE : KERNEL_FAILED;
    if (taken == KERNEL_DONE)
        taken = run(p, &a, true, memory, call_output(c, 1), call_output(c, 2));
    if (taken == KERNEL_DONE)
        taken = run(p, &a, false, memory, call_first(c), NULL);
    for (int i = 0; i < BUFFERS; i++)
        cuda_scratch_close(p, &copy[i]);
    cuda_scratch_close(p, &of_y);
    return taken;
}
