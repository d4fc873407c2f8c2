// attention.h - what the forward and the backward pass of attention share: their inputs, and the code that computes.
//
// Rows (queries, keys) come in panels of eight. A panel by columns has, for each column, those of its eight rows side by
// side; a block by rows is cut into stripes of eight columns, each of which has its rows one behind the other. Scores of a
// panel of queries lie by keys, eight queries side by side: the order in which the next product reads them.

#ifndef ATTENTION_H
#define ATTENTION_H

#include <float.h>

#include "device/cpu/cpu.h"
#include "op/ops.h"

enum { PANEL = 8 };
#define HIDDEN (-FLT_MAX) // the score of a key that is not seen

static inline int64_t attention_panels(int64_t count) {
    return (count + PANEL - 1) / PANEL * PANEL;
}

// An input (B, heads, lines, columns). Row r of matrix m is line r % lines of head m * share + r / lines.
struct attention_input {
    const char *data;
    int64_t stride[4]; // bytes
    int64_t item, share, lines, cols;
    row_fn *widen; // to float32; NULL: it is
};

// Code for one size of vectors. All is float32.
struct attention_code {
    // c (8 x 8) = a panel by columns times a stripe by rows, both of k; added to what c holds if `add`.
    void (*multiply)(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add);
    // Scores of a panel to exp(score - most), where most has become the largest so far. What was computed with the one
    // before must be multiplied by factor: sum is, and what these add is in it. Whether any factor is not 1.
    bool (*soften)(float *scores, int64_t keys, float *most, float *sum, float *factor);
    bool (*soften_row)(float *scores, int64_t keys, float *most, float *sum, float *factor);
    // Scores to weights, exp(score - most) * inverse, and their cotangents to those of the scores.
    void (*weigh)(float *scores, float *slopes, int64_t keys, const float *most, const float *inverse, const float *less);
    // Scores by a mask, number by number: added, or hidden where it is 0.
    void (*add)(float *scores, const float *mask, int64_t count);
    void (*hide)(float *scores, const float *mask, int64_t count);
    void (*scale)(float *x, int64_t count, float factor);
    // Products of one row with each of count others, which are `row` apart; and their sum, each times its weight.
    void (*dots)(const float *rows, int64_t row, int64_t count, const float *x, int64_t cols, float *out);
    void (*add_rows)(const float *rows, int64_t row, int64_t count, const float *weights, int64_t cols, float *y);
};
const struct attention_code *cpu_attention_code(void);

// A problem, as both passes see it.
struct attend {
    const struct attention_code *code;
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
bool cpu_attention_open(struct attend *a, const struct attention *from); // false and an error
void cpu_attention_input(struct attend *a, struct attention_input *x, zl_array from, int room, int64_t share);

static inline const char *attention_row(const struct attention_input *x, int64_t b, int64_t m, int64_t row) {
    return x->data + b * x->stride[0] + (m * x->share + row / x->lines) * x->stride[1] + row % x->lines * x->stride[2];
}

static inline float attention_sink(const struct attend *a, int64_t b, int64_t m, int64_t row) {
    return a->sinks[b * a->sink_stride + m * a->q.share + row / a->q.lines];
}

// Keys that query `row` sees if causal: those before it. Where that is none, or less, all count: all scores are as low.
static inline int64_t attention_seen(const struct attend *a, int64_t row) {
    return a->causal ? row % a->q.lines + 1 + a->keys - a->q.lines : a->keys;
}

// The least and the most keys that count for some rows.
struct attention_span { int64_t least, most; };
static inline struct attention_span attention_span(const struct attend *a, int64_t first, int64_t count) {
    struct attention_span span = {a->keys, a->causal ? 0 : a->keys};
    for (int64_t i = first; a->causal && i < first + count; i++) {
        int64_t seen = attention_seen(a, i), counts = seen > 0 ? seen : a->keys;
        span.least = MIN_OF(span.least, seen);
        span.most = MAX_OF(span.most, counts);
    }
    return span;
}

// Rows as float32, columns one behind the other: where they are, or in room for count rows; *row: floats between them.
const float *cpu_attention_read(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                                float *room, int64_t *row);
// Rows as panels by columns, and as a block by rows. room as above; what is missing of a panel is 0.
void cpu_attention_by_columns(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                              float *room, float *to);
void cpu_attention_by_rows(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                           float *room, float *to);
// Hides or changes scores of a panel of queries, `first` on, with keys from `key` on. room: for 16 rows of scores.
void cpu_attention_mask(const struct attend *a, int64_t b, int64_t m, int64_t first, int64_t count, int64_t key,
                        int64_t keys, float *room, float *scores);
// The same for one query, whose scores lie one behind the other. room: for one row.
void cpu_attention_mask_row(const struct attend *a, int64_t b, int64_t m, int64_t row, int64_t key, int64_t keys,
                            float *room, float *scores);

// attention_bf16.c: the same products where there are instructions for half floats; whether there are for these.
bool cpu_attention_has_half(zl_dtype dtype);
size_t cpu_attention_half_bytes(int64_t rows, int64_t cols); // of panels
// Rows as panels, and as panels of columns. room: for four rows.
void cpu_attention_half_rows(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                             float *room, char *to);
void cpu_attention_half_values(const struct attention_input *x, int64_t b, int64_t m, int64_t first, int64_t count,
                               float *room, char *to);
// Eight scores of each of eight queries; a panel's weights as a panel; eight columns of results, in squares, to which weights
// times values are added, or which are corrected.
void cpu_attention_half_scores(int64_t cols, const char *keys, const char *queries, float scale, float *out);
void cpu_attention_half_weights(const float *weights, int64_t keys, char *to);
void cpu_attention_half_add(int64_t keys, const char *weights, const char *values, float *squares);
void cpu_attention_half_correct(float *squares, const float *factor);

#endif
