// attention.h - what the forward and the backward pass of attention share: their inputs, and the code that
// computes.
//
// Products are those of the micro-kernels of gemm.h. Rows of a (keys, or columns of values) come in panels of
// `rows`, those of b (queries) in panels of `cols`. Scores of a panel of queries lie by keys, the queries of
// the panel side by side: so the product of values and weights reads them as they are. Its results have a
// line for each column of the values.

#ifndef ATTENTION_H
#define ATTENTION_H

#include <float.h>

#include "device/cpu/gemm/gemm.h"
#include "op/ops.h"

enum { HALF_COLS = 12, FOUR = 4 };
#define HIDDEN (-FLT_MAX) // the score of a key that is not seen

// Returns the least multiple of unit that is not less than count.
static inline int64_t attention_round(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// An input (B, heads, lines, columns). Row r of matrix m is line r % lines of head m * share + r / lines.
struct attention_input {
    const char *data;
    int64_t stride[4]; // bytes
    int64_t item, share, lines, cols;
    row_fn *widen; // to float32; NULL: it is
};

// A result, whose lines are contiguous; rows as of an input.
struct attention_output {
    char *data;
    int64_t stride[3]; // bytes
    int64_t item, share, lines, cols;
    row_fn *narrow; // from float32; NULL: it is
};

// Code for one size of vectors. All is float32. Scores are (keys x cols), of which cols is a multiple of a
// vector.
struct attention_code {
    int lanes; // of a vector
    // Raises most, one number per column, to the largest score. What was computed with the old most must be
    // multiplied by factor, as sum is here. Returns whether any factor is not 1.
    bool (*rise)(const float *scores, int64_t keys, int64_t cols, float scale, float *most, float *sum,
                 float *factor);
    // Scores to exp(scale * (score - most)), which are added to sum. room: for as many numbers.
    void (*soften)(float *scores, int64_t keys, int64_t cols, float scale, const float *most, float *sum,
                   float *room);
    // The same as a panel of bfloat16 for a kernel that cpu_attention_kernel returned; scores are lost. NULL:
    // no kernel has such.
    void (*soften_half)(float *scores, int64_t keys, const struct gemm_kernel *u, float scale,
                        const float *most, float *sum, float *room, char *to);
    // Scores to 2^(score - top), which are added to sum. top is whole, no score is further from 0, but for
    // hidden ones, which are ATTENTION_NONE(top): their weights are 0. So no larger one has to be known
    // before.
    void (*power)(float *scores, int64_t keys, int64_t cols, float top, float *sum);
    // The largest sum of squares of rows that are `row` apart; NaN if one is.
    float (*longest)(const float *rows, int64_t row, int64_t count, int64_t cols);
    // Both for one row, whose scores are scaled.
    bool (*soften_row)(float *scores, int64_t keys, float *most, float *sum, float *factor);
    // Scores to weights, exp(score - most) * inverse, and their cotangents to those of the scores; these
    // alone.
    void (*weigh)(float *scores, float *slopes, int64_t keys, int64_t cols, const float *most,
                  const float *inverse, const float *less);
    void (*slope)(const float *weights, float *slopes, int64_t keys, int64_t cols, const float *less);
    // Scores by a mask, number by number: added, or hidden where it is 0.
    void (*add)(float *scores, const float *mask, int64_t count);
    void (*hide)(float *scores, const float *mask, int64_t count);
    void (*scale)(float *x, int64_t count, float factor);
    void (*scale_cols)(float *x, int64_t rows, int64_t cols, const float *factor); // each by its own
    // Products of one row with each of count others, which are `row` apart; and their sum, each times its
    // weight.
    void (*dots)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols, float *out);
    void (*add_rows)(const float *rows, int64_t row, int64_t count, const float *weights, int64_t cols,
                     float *y);
    // The same of FOUR rows at once, which are contiguous, as do their sums; their products and weights are
    // `apart`. Meanwhile as much is fetched from `next` on.
    void (*dots_of_four)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols,
                         float *out, int64_t apart, const float *next);
    void (*add_rows_to_four)(const float *rows, int64_t row, int64_t count, const float *weights,
                             int64_t apart, int64_t cols, float *y, const float *next);
};
// Returns the code for the level of cpu_level().
const struct attention_code *cpu_attention_code(void);

// The score of which `power` makes an exponent of 0, and so a weight of 0; and where it does so with all.
#define ATTENTION_NONE(top)  ((top) - 127)
#define ATTENTION_SHIFT(top) (12582912 + 127 - (top)) // the last bits of what is added to it are an exponent

// A problem, as both passes see it.
struct attend {
    const struct attention_code *code;
    const struct gemm_kernel *kernel;     // of all products
    struct attention_input q, k, v, mask; // mask.data is NULL: there is none
    bool hides;                           // the mask is of bool
    bool causal;
    float scale;
    float *sinks; // of all heads, for each of the batch or once; to be freed; NULL: there are none
    int64_t sink_stride;
    int64_t batch, matrices; // of k and v
    int64_t rows, keys;      // of one matrix: rows are the queries of all heads that share it
    int64_t dim, width;      // columns of q and k, and of v
    union scalar room[8];
};
// Sets all of *a but the kernel. The caller frees a->sinks. Returns false, with an error, if memory runs out.
bool cpu_attention_open(struct attend *a, const struct attention *from);
// Returns the best kernel for panels of so many queries, whose dtype is this one or float32.
const struct gemm_kernel *cpu_attention_kernel(zl_dtype dtype, int64_t rows);
// Makes *x refer to an array, each of whose matrices has `share` heads; a->room[room] holds an inline scalar.
void cpu_attention_input(struct attend *a, struct attention_input *x, zl_array from, int room, int64_t share);

// Returns where a row of matrix m of batch b begins.
static inline const char *attention_row(const struct attention_input *x, int64_t b, int64_t m, int64_t row) {
    return x->data + b * x->stride[0] + (m * x->share + row / x->lines) * x->stride[1] +
           row % x->lines * x->stride[2];
}

// Returns where a row of matrix m of batch b begins in an output.
static inline char *attention_place(const struct attention_output *y, int64_t b, int64_t m, int64_t row) {
    return y->data + b * y->stride[0] + (m * y->share + row / y->lines) * y->stride[1] +
           row % y->lines * y->stride[2];
}

// Returns the sink of a row's head.
static inline float attention_sink(const struct attend *a, int64_t b, int64_t m, int64_t row) {
    return a->sinks[b * a->sink_stride + m * a->q.share + row / a->q.lines];
}

// Returns how many keys query `row` sees if causal, those before it; they may be 0 or less. Then all keys
// count, as all scores are equally low.
static inline int64_t attention_seen(const struct attend *a, int64_t row) {
    return a->causal ? row % a->q.lines + 1 + a->keys - a->q.lines : a->keys;
}

// The least and the most keys that count for some rows.
struct attention_span { int64_t least, most; };
// Returns them for rows from `first` on.
static inline struct attention_span attention_span(const struct attend *a, int64_t first, int64_t count) {
    struct attention_span span = {a->keys, a->causal ? 0 : a->keys};
    for (int64_t i = first; a->causal && i < first + count; i++) {
        int64_t seen = attention_seen(a, i), counts = seen > 0 ? seen : a->keys;
        span.least = MIN_OF(span.least, seen);
        span.most = MAX_OF(span.most, counts);
    }
    return span;
}

// Returns rows as float32 with contiguous columns: x itself, or a copy in room, which has space for count
// rows. Sets *row to the floats between rows.
const float *cpu_attention_read(const struct attention_input *x, int64_t b, int64_t m, int64_t first,
                                int64_t count, float *room, int64_t *row);
// Makes *y refer to an output, each of whose matrices has `share` heads.
void cpu_attention_output(struct attention_output *y, zl_array to, int64_t share);
// Puts rows into y, from `first` on: row i is column i of `from`, whose lines are `apart` floats from each
// other. room has space for count rows.
void cpu_attention_put(const struct attention_output *y, int64_t b, int64_t m, int64_t first, int64_t count,
                       const float *from, int64_t apart, float *room);
// Returns the bytes of count lines of k elements, packed as panels of `width` lines.
static inline int64_t attention_packed(const struct attend *a, int64_t width, int64_t count, int64_t k) {
    return attention_round(count, width) * attention_round(k, a->kernel->step) *
           (int64_t)zl_dtype_size(a->kernel->dtype);
}
// Packs rows as panels of a factor of the kernel (0: a, 1: b). room has space for the rows of a panel.
void cpu_attention_pack_rows(const struct attend *a, const struct attention_input *x, int factor, int64_t b,
                             int64_t m, int64_t first, int64_t count, char *room, char *to);
// Packs the columns of rows as panels of factor a, so that k runs along the rows. room has space for count
// rows.
void cpu_attention_pack_cols(const struct attend *a, const struct attention_input *x, int64_t b, int64_t m,
                             int64_t first, int64_t count, char *room, char *to);
// Computes c (lines x cols of the kernel) = panels of lines times one panel of columns, along k; adds it to c
// if `add`. `length` is what k was when the lines were packed.
void cpu_attention_multiply(const struct attend *a, int64_t lines, int64_t k, int64_t length,
                            const char *panels, const char *panel, float *c, bool add);

// Sets scores of a panel of count queries, from `first` on, with keys that they do not see, if causal, to
// `hidden`. The first score is that of key `key`.
void cpu_attention_hide_later(const struct attend *a, int64_t first, int64_t count, int64_t key, int64_t keys,
                              float hidden, float *scores);
// Applies the causal mask and the mask, if there are such, to these scores of a panel. room has space for
// 2 * cols rows of keys.
void cpu_attention_mask(const struct attend *a, int64_t b, int64_t m, int64_t first, int64_t count,
                        int64_t key, int64_t keys, float *room, float *scores);
// Applies both to the scores of one query, which are contiguous. room has space for one row of keys.
void cpu_attention_mask_row(const struct attend *a, int64_t b, int64_t m, int64_t row, int64_t key,
                            int64_t keys, float *room, float *scores);

// attention_neon.c: members of struct attention_code, for HALF_COLS columns and keys in multiples of four.

// Does what soften does.
void cpu_attention_soften_neon(float *scores, int64_t keys, float scale, const float *most, float *sum,
                               float *room);
// Does what power does.
void cpu_attention_power_neon(float *scores, int64_t keys, float top, float *sum);
// Does what soften_half does.
void cpu_attention_soften_half(float *scores, int64_t keys, const struct gemm_kernel *u, float scale,
                               const float *most, float *sum, float *room, char *to);

#endif
