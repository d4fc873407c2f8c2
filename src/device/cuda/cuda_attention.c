// cuda_attention.c - attention of f16 and bf16 by cuDNN, where it has a kernel for it. Views are passed as
// they are, or copied if cuDNN cannot read them. Whether cuDNN is used depends on the sizes of a call alone,
// so that equal inputs give the same bits at any offset and strides.
//
// The graph has the form that cuDNN recognises as attention: scores, scaled, with masked ones replaced; a
// softmax by its parts; and the product with the values. For the backward pass, cuDNN gives one number per
// query, the logarithm of the sum of its exponentials. It is kept as the maximum of the scores, with a sum of
// 1, which means the same.

#include "device/cuda/cuda_attention.h"
#include "device/kernels/kernels_flash.h"

#include <math.h>
#include <string.h>

enum { B = ATTENTION_B, N = ATTENTION_N, T = ATTENTION_T, D = ATTENTION_D, AXES = ATTENTION_AXES };

static struct lock lock; // guards plans
static struct map plans;

// The graph -------------------------------------------------------------------------------------------------

int cuda_attention_mask_causal(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k,
                               int scores) {
    int row = dnn_like(g, scores, DNN_INT32), col = dnn_like(g, scores, DNN_INT32);
    dnn_index(g, scores, 2, row);
    dnn_index(g, scores, 3, col);
    if (k->q[T] != k->k[T]) {
        int later = dnn_like(g, scores, DNN_INT32), from = dnn_like(g, scores, DNN_INT32);
        a->tensor[ATTENTION_KEYS] = dnn_number(g, DNN_INT32, AXES);
        a->tensor[ATTENTION_QUERIES] = dnn_number(g, DNN_INT32, AXES);
        dnn_map(g, DNN_ADD, DNN_INT32, row, (int)a->tensor[ATTENTION_KEYS], -1, later);
        dnn_map(g, DNN_SUB, DNN_INT32, later, (int)a->tensor[ATTENTION_QUERIES], -1, from);
        row = from;
    }
    int sees = dnn_like(g, scores, DNN_BOOL), seen = dnn_like(g, scores, DNN_FLOAT32);
    dnn_map(g, DNN_GREATER_EQUAL, DNN_BOOL, row, col, -1, sees);
    a->tensor[ATTENTION_MASKED] = dnn_number(g, DNN_FLOAT32, AXES);
    dnn_map(g, DNN_SELECT, DNN_FLOAT32, scores, (int)a->tensor[ATTENTION_MASKED], sees, seen);
    return seen;
}

static int softmax(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k, int scores) {
    const int64_t line[] = {k->q[B], k->q[N], k->q[T], 1};
    int most = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, line, NULL);
    int sum = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, line, NULL);
    int logarithm = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, line, NULL);
    int kept = dnn_tensor(g, k->keeps ? DNN_MEMORY : DNN_WITHIN, DNN_FLOAT32, AXES, line, NULL);
    int less = dnn_like(g, scores, DNN_FLOAT32), power = dnn_like(g, scores, DNN_FLOAT32);
    int weights = dnn_like(g, scores, dnn_type_of((zl_dtype)k->dtype));
    dnn_reduce(g, DNN_MAX, scores, most);
    dnn_map(g, DNN_SUB, DNN_FLOAT32, scores, most, -1, less);
    dnn_map(g, DNN_EXP, DNN_FLOAT32, less, -1, -1, power);
    dnn_reduce(g, DNN_SUM, power, sum);
    dnn_map(g, DNN_LOG, DNN_FLOAT32, sum, -1, -1, logarithm);
    dnn_map(g, DNN_ADD, DNN_FLOAT32, most, logarithm, -1, kept);
    dnn_map(g, DNN_DIV, DNN_FLOAT32, power, sum, -1, weights);
    a->tensor[ATTENTION_KEPT] = k->keeps ? kept : -1;
    return weights;
}

static void describe(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k) {
    enum dnn_type type = dnn_type_of((zl_dtype)k->dtype);
    const int64_t transposed[] = {k->k[B], k->k[N], k->k[D], k->k[T]};
    const int64_t transposed_stride[] = {k->k_stride[B], k->k_stride[N], k->k_stride[D], k->k_stride[T]};
    const int64_t all[] = {k->q[B], k->q[N], k->q[T], k->k[T]}, out[] = {k->q[B], k->q[N], k->q[T], k->v[D]};
    a->tensor[ATTENTION_Q] = dnn_tensor(g, DNN_MEMORY, type, AXES, k->q, k->q_stride);
    a->tensor[ATTENTION_K] = dnn_tensor(g, DNN_MEMORY, type, AXES, transposed, transposed_stride);
    a->tensor[ATTENTION_V] = dnn_tensor(g, DNN_MEMORY, type, AXES, k->v, k->v_stride);
    a->tensor[ATTENTION_O] = dnn_tensor(g, DNN_MEMORY, type, AXES, out, k->o_stride);
    a->tensor[ATTENTION_SCALE] = dnn_number(g, DNN_FLOAT32, AXES);
    int product = dnn_tensor(g, DNN_WITHIN, DNN_FLOAT32, AXES, all, NULL);
    int scores = dnn_like(g, product, DNN_FLOAT32);
    dnn_matmul(g, (int)a->tensor[ATTENTION_Q], (int)a->tensor[ATTENTION_K], product);
    dnn_map(g, DNN_MUL, DNN_FLOAT32, product, (int)a->tensor[ATTENTION_SCALE], -1, scores);
    if (k->causal)
        scores = cuda_attention_mask_causal(g, a, k, scores);
    dnn_matmul(g, softmax(g, a, k, scores), (int)a->tensor[ATTENTION_V], (int)a->tensor[ATTENTION_O]);
}

struct attention_plan *cuda_attention_find(const struct attention_key *k, attention_describe *describe_it) {
    lock_take(&lock);
    struct attention_plan *a = map_get(&plans, k, sizeof *k);
    if (!a && (a = memory_zero(sizeof *a))) {
        struct dnn_graph *g = memory_zero(sizeof *g);
        memset(a->tensor, -1, sizeof a->tensor);
        if (g) {
            describe_it(g, a, k);
            a->plan = dnn_build(g, k->unit, k->lane, false);
            dnn_drop(g);
            memory_free(g);
        }
        if (!g || !map_set(&plans, k, sizeof *k, a)) {
            dnn_keep(a->plan.plan ? 1 : 0, &a->plan, -1);
            memory_free(a);
            a = NULL;
        }
    }
    lock_give(&lock);
    return a;
}

// Calls -----------------------------------------------------------------------------------------------------

static bool is_aligned(zl_array x, int64_t elements) {
    return elements * (int64_t)array_item(x) % 16 == 0;
}

static bool lies_well(zl_array x) {
    bool lies = is_aligned(x, x->offset);
    for (int i = 0; i < AXES - 1; i++)
        lies &= x->dim[i] == 1 || is_aligned(x, array_stride(x)[i]);
    return lies && array_stride(x)[D] == 1;
}

static bool lies_row_major(zl_array x) {
    return is_aligned(x, x->offset) && shape_is_row_major(x->ndim, x->dim, array_stride(x));
}

static void *bring(const struct kernel_place *p, zl_array x, bool lies, struct kernel_scratch *copy) {
    return lies ? cuda_element(p, x) : kernel_copy_out(p, x, copy);
}

void *cuda_attention_as_it_lies(const struct kernel_place *p, zl_array x, struct kernel_scratch *copy) {
    return bring(p, x, lies_well(x), copy);
}

void *cuda_attention_row_major(const struct kernel_place *p, zl_array x, struct kernel_scratch *copy) {
    return bring(p, x, lies_row_major(x), copy);
}

bool cuda_attention_fits(const struct attention *a) {
    bool is_half = a->q->dtype == ZL_FLOAT16 || a->q->dtype == ZL_BFLOAT16;
    return is_half && !a->mask && !a->sinks && a->q->dim[D] % 8 == 0 && a->v->dim[D] % 8 == 0 &&
           a->q->dim[D] <= 256 && a->v->dim[D] <= 256 && a->q->dim[T] > 1 && a->k->dim[T] > 1 &&
           !(a->causal && a->q->dim[T] > a->k->dim[T]);
}

void cuda_attention_strides(zl_array x, int64_t *stride) {
    if (lies_well(x))
        memcpy(stride, array_stride(x), sizeof *stride * AXES);
    else
        shape_row_major(AXES, x->dim, stride);
}

struct attention_key cuda_attention_key_of(const struct kernel_place *p, const struct attention *a) {
    struct attention_key k = {.dtype = a->q->dtype, .causal = a->causal, .unit = p->unit, .lane = p->lane};
    const struct {
        zl_array x;
        int64_t *dim, *stride;
    } list[] = {{a->q, k.q, k.q_stride}, {a->k, k.k, k.k_stride}, {a->v, k.v, k.v_stride}};
    for (size_t i = 0; i < COUNT(list); i++) {
        memcpy(list[i].dim, list[i].x->dim, sizeof k.q);
        cuda_attention_strides(list[i].x, list[i].stride);
    }
    return k;
}

bool cuda_attention_run(const struct kernel_place *p, const struct attention_plan *plan,
                        const struct attention *a, void *const *memory) {
    float scale = (float)a->scale, masked = -INFINITY, one = 1;
    int32_t keys = (int32_t)a->k->dim[T], queries = (int32_t)a->q->dim[T];
    void *const numbers[ATTENTION_TENSORS] = {[ATTENTION_SCALE] = &scale,
                                              [ATTENTION_MASKED] = &masked,
                                              [ATTENTION_KEYS] = &keys,
                                              [ATTENTION_QUERIES] = &queries,
                                              [ATTENTION_ONE] = &one};
    int64_t tensor[ATTENTION_TENSORS];
    void *given[ATTENTION_TENSORS];
    int count = 0;
    for (int i = 0; i < ATTENTION_TENSORS; i++) {
        if (plan->tensor[i] < 0)
            continue;
        given[count] = numbers[i] ? numbers[i] : memory[i];
        tensor[count] = plan->tensor[i];
        if (!given[count++])
            return false;
    }
    return dnn_run(p, &plan->plan, count, tensor, given);
}

// cuDNN divides the keys by the number of queries, so that a row of the result would depend on the others.
bool cuda_attend_can(const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    return !device_batch_invariant() && cuda_attention_fits(&a) && dnn_is_there();
}

enum kernel_taken cuda_attend(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    zl_array y = call_first(c), state = call_output(c, 1);
    bool keeps = !array_is_forgotten(state);
    if (kernel_attention_few_fits(p->record, &a))
        return KERNEL_NOT_TAKEN; // with cuDNN, each number of keys would need a plan
    struct attention_key k = cuda_attention_key_of(p, &a);
    k.keeps = keeps;
    memcpy(k.o_stride, array_stride(y), sizeof k.o_stride);
    struct attention_plan *plan = cuda_attention_find(&k, describe);
    if (!plan || !plan->plan.plan)
        return plan ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    struct kernel_scratch copy[ATTENTION_TENSORS] = {{0}};
    size_t line = (size_t)state->size / 2 * sizeof(float);
    void *memory[ATTENTION_TENSORS] = {
        [ATTENTION_Q] = cuda_attention_as_it_lies(p, a.q, &copy[ATTENTION_Q]),
        [ATTENTION_K] = cuda_attention_as_it_lies(p, a.k, &copy[ATTENTION_K]),
        [ATTENTION_V] = cuda_attention_as_it_lies(p, a.v, &copy[ATTENTION_V]),
        [ATTENTION_O] = kernel_reach(p, y),
        [ATTENTION_KEPT] = keeps ? kernel_scratch_open(p, &copy[ATTENTION_KEPT], line) : NULL,
    };
    bool done = cuda_attention_run(p, plan, &a, memory) &&
                (!keeps || cuda_pair_up(p, ZL_FLOAT32, state->size / 2, memory[ATTENTION_KEPT], 1,
                                        kernel_reach(p, state)));
    for (int i = 0; i < ATTENTION_TENSORS; i++)
        kernel_scratch_close(p, &copy[i]);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
