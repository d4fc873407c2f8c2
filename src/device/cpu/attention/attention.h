// attention.h - what the forward and the backward pass of attention share: their inputs and outputs, the code
// for each vector size, packing and masks.
//
// Matrix products use the micro-kernels of gemm.h. Factor a (keys, or columns of values) is packed in panels
// of `rows` rows, factor b (queries) in panels of `cols` rows. The scores of a panel of queries are a matrix
// with a row per key and a column per query, so that the product of values and weights reads them without a
// transpose. That product has a row per column of the values and a column per query.

#ifndef ATTENTION_H
#define ATTENTION_H

#include <float.h>

#include "device/cpu/gemm/gemm.h"
#include "op/ops.h"

enum { HALF_COLS = 12, FOUR = 4 };
#define MASKED (-FLT_MAX) // the score of a key that a query does not see

// Returns the least multiple of unit that is not less than count.
static inline int64_t attention_round(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// An input (B, heads, lines, columns). A matrix consists of `share` heads: its row r is line r % lines of
// head m * share + r / lines, where m is the number of the matrix.
struct attention_input {
    const char *data;
    int64_t stride[4]; // bytes
    int64_t item, share, lines, cols;
    row_fn *widen; // converts to float32; NULL if the input is float32
};

// A result, each of whose rows is contiguous. Rows are numbered as those of an input.
struct attention_output {
    char *data;
    int64_t stride[3]; // bytes
    int64_t item, share, lines, cols;
    row_fn *narrow; // converts from float32; NULL if the result is float32
};

// The functions for one vector size. All numbers are float32. Scores have a row per key and `cols` columns,
// one per query; cols is a multiple of `lanes`.
struct attention_code {
    int lanes; // per vector
    // Raises most[c] to the largest score of column c, and multiplies sum[c] by factor[c], which is exp(scale
    // * (old most - new most)). The caller must multiply everything else that it computed with the old `most`
    // by factor. Returns whether any factor is not 1.
    bool (*raise_max)(const float *scores, int64_t keys, int64_t cols, float scale, float *most, float *sum,
                      float *factor);
    // Replaces scores by exp(scale * (score - most)), and adds these to sum. room has space for as many
    // numbers as there are scores.
    void (*exp_sum)(float *scores, int64_t keys, int64_t cols, float scale, const float *most, float *sum,
                    float *room);
    // Does the same, but writes the weights to `to` as a bf16 panel for a kernel that cpu_attention_kernel
    // returned, and destroys the scores. NULL: no bf16 kernel is supported.
    void (*exp_sum_bf16)(float *scores, int64_t keys, const struct gemm_kernel *u, float scale,
                         const float *most, float *sum, float *room, char *to);
    // Replaces scores by 2^(score - top), and adds these to sum. top is a whole number that no score exceeds
    // in magnitude, so that the largest score need not be known. Masked scores are ATTENTION_NONE(top), and
    // their weights become 0.
    void (*power)(float *scores, int64_t keys, int64_t cols, float top, float *sum);
    // Returns the largest sum of squares of rows that are `row` floats apart; NaN if any of the sums is NaN.
    float (*longest)(const float *rows, int64_t row, int64_t count, int64_t cols);
    // Does what raise_max and exp_sum do, for one row of contiguous scores that are already scaled.
    bool (*softmax_row)(float *scores, int64_t keys, float *most, float *sum, float *factor);
    // `weigh` replaces scores by weights, exp(score - most) * inverse, and dscores, which holds the
    // cotangents of the weights, by those of the scores, which are weight * (cotangent - less).
    // `softmax_vjp` does only the latter.
    void (*weigh)(float *scores, float *dscores, int64_t keys, int64_t cols, const float *most,
                  const float *inverse, const float *less);
    void (*softmax_vjp)(const float *weights, float *dscores, int64_t keys, int64_t cols,
                        const float *less);
    // Apply a mask to scores, element by element: `add` adds it, `mask_out` sets scores to MASKED where it is
    // 0.
    void (*add)(float *scores, const float *mask, int64_t count);
    void (*mask_out)(float *scores, const float *mask, int64_t count);
    void (*scale)(float *x, int64_t count, float factor);
    void (*scale_cols)(float *x, int64_t rows, int64_t cols, const float *factor); // factor[c] for column c
    // `dots` computes the dot product of x with each of count rows, which are `row` floats apart. `add_rows`
    // adds these rows to y, each multiplied by its weight.
    void (*dots)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols, float *out);
    void (*add_rows)(const float *rows, int64_t row, int64_t count, const float *weights, int64_t cols,
                     float *y);
    // Do the same for FOUR rows x, or FOUR sums y, which are contiguous. The products or weights of one of
    // them are `apart` floats from those of the next. Meanwhile they prefetch as many floats as they read,
    // from `next` on.
    void (*dots_of_four)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols,
                         float *out, int64_t apart, const float *next);
    void (*add_rows_to_four)(const float *rows, int64_t row, int64_t count, const float *weights,
                             int64_t apart, int64_t cols, float *y, const float *next);
};
// Returns the code for the level of cpu_level().
const struct attention_code *cpu_attention_code(void);

// The score that `power` turns into a weight of 0, because the exponent becomes 0. A score plus
// ATTENTION_SHIFT(top) has the exponent of its weight in its last bits.
#define ATTENTION_NONE(top)  ((top) - 127)
#define ATTENTION_SHIFT(top) (12582912 + 127 - (top)) // 1.5 * 2^23 + exponent bias - top

// An attention problem, as both passes see it.
struct attend {
    const struct attention_code *code;
    const struct gemm_kernel *kernel;     // used for all products
    struct attention_input q, k, v, mask; // mask.data: NULL if there is no mask
    bool is_bool_mask;                    // the mask excludes keys instead of adding to scores
    bool causal;
    float scale;
    float *sinks; // one per head, for each batch element or for all; to be freed; NULL: none
    int64_t sink_stride;
    int64_t batch, matrices; // matrices: heads of k and v per batch element
    int64_t rows, keys;      // of one matrix: rows are the queries of all heads that share it
    int64_t dim, width;      // columns of q and k, and of v
    union scalar room[8];
};
// Sets all of *a but the kernel. The caller frees a->sinks. Returns false, with an error, if memory runs out.
bool cpu_attention_open(struct attend *a, const struct attention *from);
// Returns the best kernel for so many queries. Its dtype is the given one or float32.
const struct gemm_kernel *cpu_attention_kernel(zl_dtype dtype, int64_t rows);
// Makes *x refer to an array in which a matrix consists of `share` heads. a->room[room] holds the value of an
// inline scalar.
void cpu_attention_input(struct attend *a, struct attention_input *x, zl_array from, int room, int64_t share);

// Returns the address of a row of matrix m of batch element b.
static inline const char *attention_row(const struct attention_input *x, int64_t b, int64_t m, int64_t row) {
    return x->data + b * x->stride[0] + (m * x->share + row / x->lines) * x->stride[1] +
           row % x->lines * x->stride[2];
}

// Returns the address of a row of matrix m of batch element b in an output.
static inline char *attention_place(const struct attention_output *y, int64_t b, int64_t m, int64_t row) {
    return y->data + b * y->stride[0] + (m * y->share + row / y->lines) * y->stride[1] +
           row % y->lines * y->stride[2];
}

// Returns the sink of a row's head.
static inline float attention_sink(const struct attend *a, int64_t b, int64_t m, int64_t row) {
    return a->sinks[b * a->sink_stride + m * a->q.share + row / a->q.lines];
}

// Returns how many keys query `row` sees: all, or with a causal mask those up to its own position. The number
// may be 0 or negative; then all scores of the query are equally low, and all keys count alike.
static inline int64_t attention_seen(const struct attend *a, int64_t row) {
    return a->causal ? row % a->q.lines + 1 + a->keys - a->q.lines : a->keys;
}

// Of some queries: the least number of keys that one of them sees, which may be negative, and the most keys
// that count for one of them.
struct attention_span { int64_t least, most; };
// Returns these numbers for count rows from `first` on.
static inline struct attention_span attention_span(const struct attend *a, int64_t first, int64_t count) {
    struct attention_span span = {a->keys, a->causal ? 0 : a->keys};
    for (int64_t i = first; a->causal && i < first + count; i++) {
        int64_t seen = attention_seen(a, i), counts = seen > 0 ? seen : a->keys;
        span.least = MIN_OF(span.least, seen);
        span.most = MAX_OF(span.most, counts);
    }
    return span;
}

// Returns rows as float32 with contiguous columns: a pointer into x, or to a copy in room, which has space
// for count rows. Sets *row to the floats between rows.
const float *cpu_attention_read(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                                int64_t count, float *room, int64_t *row);
// Makes *y refer to an output in which a matrix consists of `share` heads.
void cpu_attention_output(struct attention_output *y, zl_array to, int64_t share);
// Stores rows into y, from row `first` on: row i is column i of `from`, whose rows are `apart` floats from
// each other. room has space for count rows.
void cpu_attention_put(const struct attention_output *y, int64_t b, int64_t m, int64_t first, int64_t count,
                       const float *from, int64_t apart, float *room);
// Returns the bytes of count rows of k elements, packed as panels of `width` rows.
static inline int64_t attention_packed(const struct attend *a, int64_t width, int64_t count, int64_t k) {
    return attention_round(count, width) * attention_round(k, a->kernel->step) *
           (int64_t)zl_dtype_size(a->kernel->dtype);
}
// Packs rows as panels of a factor of the kernel (0: a, 1: b). room has space for the rows of a panel.
void cpu_attention_pack_rows(const struct attend *a, const struct attention_input *x, int factor, int64_t b,
                             int64_t m, int64_t first, int64_t count, char *room, char *to);
// Packs the transpose of rows as panels of factor a, so that k runs over the rows. room has space for count
// rows.
void cpu_attention_pack_cols(const struct attend *a, const struct attention_input *x, int64_t b, int64_t m,
                             int64_t first, int64_t count, char *room, char *to);
// Computes c, which has `lines` rows of kernel->cols numbers: the product of packed rows (`panels`) and one
// panel of factor b (`panel`), over k elements. Adds it to what c holds if `add`. `length` is the k that the
// rows were packed with, which determines the size of their panels.
void cpu_attention_multiply(const struct attend *a, int64_t lines, int64_t k, int64_t length,
                            const char *panels, const char *panel, float *c, bool add);

// Sets the scores of keys that a query does not see because of the causal mask to `masked`, in a panel of
// count queries from `first` on. The first row of scores is that of key `key`.
void cpu_attention_mask_causal(const struct attend *a, int64_t first, int64_t count, int64_t key,
                               int64_t keys, float masked, float *scores);
// Applies the causal mask and the mask, if there are any, to the scores of a panel of count queries with
// `keys` keys from `key` on. room has space for 2 * cols rows of `keys` numbers.
void cpu_attention_mask(const struct attend *a, int64_t b, int64_t m, int64_t first, int64_t count,
                        int64_t key, int64_t keys, float *room, float *scores);
// Applies both masks to the scores of one query, which are contiguous. room has space for one row of `keys`
// numbers.
void cpu_attention_mask_row(const struct attend *a, int64_t b, int64_t m, int64_t row, int64_t key,
                            int64_t keys, float *room, float *scores);

// attention_neon.c: members of struct attention_code, for HALF_COLS columns and keys in multiples of four.

// Does what exp_sum does.
void cpu_attention_exp_sum_neon(float *scores, int64_t keys, float scale, const float *most, float *sum,
                                float *room);
// Does what power does.
void cpu_attention_power_neon(float *scores, int64_t keys, float top, float *sum);
// Does what exp_sum_bf16 does.
void cpu_attention_exp_sum_bf16(float *scores, int64_t keys, const struct gemm_kernel *u, float scale,
                                const float *most, float *sum, float *room, char *to);

#endif
