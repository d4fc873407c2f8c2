// cuda_attention_vjp.c - cotangents of attention of f16 and bf16 by cuDNN, where it has a kernel for them.
//
// The graph has the form that cuDNN recognises as the backward pass of attention. It computes the weights
// again from the logarithm of each query's sum; then the cotangents of the scores, from which the sum of the
// result times its cotangent is subtracted; and from both the cotangents of the inputs. For results that are
// the same in every run, the cotangents of the scores are written to memory, one per query and key, so long
// sequences run on our own kernels. Small heads do too, because our kernels are as fast for them.

#include "device/cuda/cuda_attention.h"

#include <string.h>

#define SLOPES_MOST ((size_t)2 << 30) // bytes

enum { SIZE_LEAST = 128 }; // the least size of a head
// Since cuDNN 9.5.1, the strides of a cotangent may differ from those of the result.
enum { STRIDES_SINCE = 90501 };

enum { B = ATTENTION_B, N = ATTENTION_N, T = ATTENTION_T, D = ATTENTION_D, AXES = ATTENTION_AXES };

// The graph -------------------------------------------------------------------------------------------------

struct sizes {
    int64_t line[AXES], scores[AXES], transposed[AXES],
        transposed_stride[AXES]; // per query; per query and key; per key and query
    enum dnn_type type;
};

static struct sizes sizes_of(const struct attention_key *k) {
    int64_t queries = k->q[T], keys = k->k[T];
    return (struct sizes){.line = {k->q[B], k->q[N], queries, 1},
                          .scores = {k->q[B], k->q[N], queries, keys},
                          .transposed = {k->q[B], k->q[N], keys, queries},
                          .transposed_stride = {k->q[N] * queries * keys, queries * keys, 1, keys},
                          .type = dnn_type_of((zl_dtype)k->dtype)};
}

static int add_transposed(struct dnn_graph *g, enum dnn_type type, const int64_t *dim,
                          const int64_t *stride) {
    return dnn_tensor(g, DNN_MEMORY, type, AXES, (const int64_t[]){dim[B], dim[N], dim[D], dim[T]},
                      (const int64_t[]){stride[B], stride[N], stride[D], stride[T]});
}

static void add_inputs(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k,
                       const struct sizes *s) {
    const int64_t out[] = {k->q[B], k->q[N], k->q[T], k->v[D]};
    a->tensor[ATTENTION_Q] = dnn_tensor(g, DNN_MEMORY, s->type, AXES, k->q, k->q_stride);
    a->tensor[ATTENTION_K] = add_transposed(g, s->type, k->k, k->k_stride);
    a->tensor[ATTENTION_V] = add_transposed(g, s->type, k->v, k->v_stride);
    a->tensor[ATTENTION_O] = dnn_tensor(g, DNN_MEMORY, s->type, AXES, out, k->o_stride);
    a->tensor[ATTENTION_G] = dnn_tensor(g, DNN_MEMORY, s->type, AXES, out, k->g_stride);
    a->tensor[ATTENTION_KEPT] = dnn_tensor(g, DNN_MEMORY, DNN_FLOAT32, AXES, s->line, NULL);
    a->tensor[ATTENTION_SCALE] = dnn_number(g, DNN_FLOAT32, AXES);
    a->tensor[ATTENTION_ONE] = dnn_number(g, DNN_FLOAT32, AXES);
}

// Adds the sum of the result times its cotangent, per query.
static void add_less(struct dnn_graph *g, struct attention_plan *a, const struct sizes *s) {
    int product = dnn_like(g, (int)a->tensor[ATTENTION_O], DNN_FLOAT32);
    int sum = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, s->line, NULL);
    a->tensor[ATTENTION_LESS] = dnn_tensor(g, DNN_MEMORY, DNN_FLOAT32, AXES, s->line, NULL);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, (int)a->tensor[ATTENTION_G], (int)a->tensor[ATTENTION_O], -1, product);
    dnn_reduce(g, DNN_SUM, product, sum);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, sum, (int)a->tensor[ATTENTION_ONE], -1, (int)a->tensor[ATTENTION_LESS]);
}

static int add_weights(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k,
                       const struct sizes *s) {
    int product = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, s->scores, NULL);
    int scores = dnn_like(g, product, DNN_FLOAT32), less = dnn_like(g, product, DNN_FLOAT32),
        weights = dnn_like(g, product, DNN_FLOAT32);
    dnn_matmul(g, (int)a->tensor[ATTENTION_Q], (int)a->tensor[ATTENTION_K], product);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, product, (int)a->tensor[ATTENTION_SCALE], -1, scores);
    dnn_map(g, DNN_SUB, DNN_FLOAT32, scores, (int)a->tensor[ATTENTION_KEPT], -1, less);
    if (k->causal)
        less = cuda_attention_mask_causal(g, a, k, less);
    dnn_map(g, DNN_EXP, DNN_FLOAT32, less, -1, -1, weights);
    return weights;
}

static int add_dscores(struct dnn_graph *g, struct attention_plan *a, const struct sizes *s, int weights) {
    int product = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, s->scores, NULL);
    int less = dnn_like(g, product, DNN_FLOAT32), times = dnn_like(g, product, DNN_FLOAT32),
        dscores = dnn_like(g, product, DNN_FLOAT32);
    dnn_matmul(g, (int)a->tensor[ATTENTION_G], (int)a->tensor[ATTENTION_V], product);
    dnn_map(g, DNN_SUB, DNN_FLOAT32, product, (int)a->tensor[ATTENTION_LESS], -1, less);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, less, weights, -1, times);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, times, (int)a->tensor[ATTENTION_SCALE], -1, dscores);
    return dscores;
}

// Adds the product of x, transposed, with b: one row per key. The results of heads of queries that share keys
// are added up. Returns the product's tensor.
static int add_of_keys(struct dnn_graph *g, const struct sizes *s, int x, int b, const int64_t *dim,
                       const int64_t *stride) {
    int transposed = dnn_tensor(g, DNN_WITHIN, s->type, AXES, s->transposed, s->transposed_stride);
    int y = dnn_tensor(g, DNN_MEMORY, s->type, AXES, dim, stride), all = y;
    dnn_reshape(g, x, transposed);
    if (dim[N] != s->scores[N])
        all = dnn_tensor(g, DNN_WITHIN, s->type, AXES,
                         (const int64_t[]){dim[B], s->scores[N], dim[T], dim[D]}, NULL);
    dnn_matmul(g, transposed, b, all);
    if (all != y)
        dnn_reduce(g, DNN_SUM, all, y);
    return y;
}

static void add_of_queries(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k,
                           const struct sizes *s, int dscores) {
    int keys = dnn_tensor(g, DNN_WITHIN, s->type, AXES, k->k, k->k_stride);
    a->tensor[ATTENTION_OF_Q] = dnn_tensor(g, DNN_MEMORY, s->type, AXES, k->q, k->of_stride[0]);
    dnn_reshape(g, (int)a->tensor[ATTENTION_K], keys);
    dnn_matmul(g, dscores, keys, (int)a->tensor[ATTENTION_OF_Q]);
}

static void describe(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k) {
    const struct sizes s = sizes_of(k);
    add_inputs(g, a, k, &s);
    add_less(g, a, &s);
    int weights = add_weights(g, a, k, &s);
    a->tensor[ATTENTION_OF_V] =
        add_of_keys(g, &s, weights, (int)a->tensor[ATTENTION_G], k->v, k->of_stride[2]);
    int dscores = add_dscores(g, a, &s, weights);
    a->tensor[ATTENTION_OF_K] =
        add_of_keys(g, &s, dscores, (int)a->tensor[ATTENTION_Q], k->k, k->of_stride[1]);
    add_of_queries(g, a, k, &s, dscores);
}

// Calls -----------------------------------------------------------------------------------------------------

// Computes the logarithm of each query's sum, from the maximum and the sum that were kept.
static bool read_kept(const struct kernel_place *p, void *kept, void *state, int64_t count) {
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, state);
    kernel_add_memory(&k, kept);
    return kept && state && cuda_run_file(p, (struct cuda_file){"log_sums", ZL_FLOAT32}, &k, 1, &count);
}

bool cuda_attend_vjp_can(const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    return cuda_attention_fits(&a) && a.q->dim[D] >= SIZE_LEAST && a.v->dim[D] >= SIZE_LEAST &&
           dnn_is_there();
}

enum kernel_taken cuda_attend_vjp(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    struct attention_key k = cuda_attention_key_of(p, &a);
    bool any_strides = dnn_version() >= STRIDES_SINCE;
    k.backward = true;
    for (int i = 0; i < 3; i++)
        memcpy(k.of_stride[i], array_stride(call_output(c, i)), sizeof k.of_stride[i]);
    if (any_strides) {
        cuda_attention_strides(a.y, k.o_stride);
        cuda_attention_strides(a.g, k.g_stride);
    } else {
        shape_row_major(AXES, a.y->dim, k.o_stride);
        shape_row_major(AXES, a.g->dim, k.g_stride);
    }
    struct attention_plan *plan = cuda_attention_find(&k, describe);
    if (!plan || !plan->plan.plan || plan->plan.workspace > SLOPES_MOST)
        return plan ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    void *(*bring)(const struct kernel_place *, zl_array, struct kernel_scratch *) =
        any_strides ? cuda_attention_as_it_lies : cuda_attention_row_major;
    struct kernel_scratch copy[ATTENTION_TENSORS] = {{0}}, of_state = {0};
    size_t line = (size_t)a.state->size / 2 * sizeof(float);
    void *memory[ATTENTION_TENSORS] = {
        [ATTENTION_Q] = cuda_attention_as_it_lies(p, a.q, &copy[ATTENTION_Q]),
        [ATTENTION_K] = cuda_attention_as_it_lies(p, a.k, &copy[ATTENTION_K]),
        [ATTENTION_V] = cuda_attention_as_it_lies(p, a.v, &copy[ATTENTION_V]),
        [ATTENTION_O] = bring(p, a.y, &copy[ATTENTION_O]),
        [ATTENTION_G] = bring(p, a.g, &copy[ATTENTION_G]),
        [ATTENTION_KEPT] = kernel_scratch_open(p, &copy[ATTENTION_KEPT], line),
        [ATTENTION_LESS] = kernel_scratch_open(p, &copy[ATTENTION_LESS], line),
        [ATTENTION_OF_Q] = kernel_reach(p, call_first(c)),
        [ATTENTION_OF_K] = kernel_reach(p, call_output(c, 1)),
        [ATTENTION_OF_V] = kernel_reach(p, call_output(c, 2)),
    };
    void *state = cuda_attention_row_major(p, a.state, &of_state);
    bool done = read_kept(p, memory[ATTENTION_KEPT], state, a.state->size / 2) &&
                cuda_attention_run(p, plan, &a, memory);
    kernel_scratch_close(p, &of_state);
    for (int i = 0; i < ATTENTION_TENSORS; i++)
        kernel_scratch_close(p, &copy[i]);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
