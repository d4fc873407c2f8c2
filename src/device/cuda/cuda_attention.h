// cuda_attention.h - attention by cuDNN, forward and backward: graphs, plans and runs. Only for
// cuda_attention*.c.

#ifndef CUDA_ATTENTION_H
#define CUDA_ATTENTION_H

#include "device/cuda/cuda_dnn.h"
#include "op/ops.h"

// Axes of q: batch, heads, queries, size of a head.
enum { ATTENTION_B, ATTENTION_N, ATTENTION_T, ATTENTION_D, ATTENTION_AXES };

// The key of a graph.
struct attention_key {
    int64_t q[ATTENTION_AXES], k[ATTENTION_AXES], v[ATTENTION_AXES];                      // sizes
    int64_t q_stride[ATTENTION_AXES], k_stride[ATTENTION_AXES], v_stride[ATTENTION_AXES]; // of their views
    int64_t o_stride[ATTENTION_AXES]; // of the result
    int64_t g_stride[ATTENTION_AXES]; // of the cotangent's view, for the backward pass
    int64_t of_stride[3][ATTENTION_AXES]; // of the cotangents of q, k and v
    int32_t dtype, causal, keeps, backward, unit, lane;
};

enum attention_tensor {
    ATTENTION_Q,
    ATTENTION_K, // transposed
    ATTENTION_V, // transposed in the backward pass
    ATTENTION_O,
    ATTENTION_SCALE,
    ATTENTION_MASKED, // the number that replaces masked scores
    ATTENTION_KEYS,   // the number of keys, if there are fewer queries
    ATTENTION_QUERIES,
    ATTENTION_KEPT, // the logarithm of each query's sum
    // Of the backward pass:
    ATTENTION_G,    // the cotangent of O
    ATTENTION_ONE,  // the number 1
    ATTENTION_LESS, // for each query, the sum of O times its cotangent
    ATTENTION_OF_Q,
    ATTENTION_OF_K,
    ATTENTION_OF_V,
    ATTENTION_TENSORS
};

struct attention_plan {
    struct dnn_plan plan;
    int64_t tensor[ATTENTION_TENSORS]; // -1: not in the graph
};

// Returns whether cuDNN may have a plan for it, by dtype, sizes and mask; strides do not matter.
bool cuda_attention_fits(const struct attention *a);
// Returns the key of an attention's inputs, place, dtype and causal; the caller sets the rest.
struct attention_key cuda_attention_key_of(const struct kernel_place *p, const struct attention *a);

// Stores the strides by which cuDNN reads an input: those of x, or of a row-major copy if it cannot read x in
// place.
void cuda_attention_strides(zl_array x, int64_t *stride);
// Returns an input that has those strides: the memory of x, or a copy, which the caller closes. Returns NULL
// and an error if that fails.
void *cuda_attention_as_it_lies(const struct kernel_place *p, zl_array x, struct kernel_scratch *copy);
// Returns an input that is row-major, as above.
void *cuda_attention_row_major(const struct kernel_place *p, zl_array x, struct kernel_scratch *copy);

// Adds an attention's operations to g, and stores the numbers of its tensors in a->tensor.
typedef void attention_describe(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k);
// Adds the causal mask, by which the last query sees the last key. Returns the tensor of the masked scores.
int cuda_attention_mask_causal(struct dnn_graph *g, struct attention_plan *a, const struct attention_key *k,
                               int scores);

// Returns the plan of a key, which is described once and kept; its plan.plan is NULL if cuDNN has none.
// Returns NULL and an error if memory runs out.
struct attention_plan *cuda_attention_find(const struct attention_key *k, attention_describe *describe);
// Runs a plan. memory is by enum attention_tensor, and NULL for numbers. Returns false, with an error, if it
// fails.
bool cuda_attention_run(const struct kernel_place *p, const struct attention_plan *plan,
                        const struct attention *a, void *const *memory);

#endif
