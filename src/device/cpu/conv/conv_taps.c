// conv_taps.c - depthwise convolutions with kernels larger than the result, such as those that compute the
// gradients of depthwise kernels.
//
// The groups are in the batch axis (in_batch): x and w are views of arrays whose channels are contiguous, and
// both are read in place. Besides the taps, such a gradient sums over the batch of the forward convolution,
// which is the first axis here. A part is a range of rows of taps, whose products are added to the whole
// result. The division into parts does not depend on the number of threads, so the results do not either.

#include "device/cpu/conv/conv.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

enum {
    POSITIONS = 4,        // neighbouring positions that are computed at once
    VECTORS = 4,          // vectors of channels per position
    PARTS = 32,           // at most,
    PART_LEAST = 1 << 18, // products per part
};

typedef float vector_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(16), aligned(8), may_alias));

// An array whose channels are contiguous: bytes between elements along the axes.
struct lines {
    const char *data;
    int64_t step[CONV_AXES];
};

struct taps {
    const struct convolution *v;
    struct lines x, w;
    int64_t bytes; // of all channels
    int64_t lines, parts;
    char *sum; // the result of each part
};

bool conv_has_taps(const struct convolution *v) {
    bool has = v->in_batch && v->groups > 1 && v->batch == 1 && v->outputs == 1 && !v->flip &&
               (v->dtype == ZL_FLOAT32 || v->dtype == ZL_FLOAT64) && v->taps * v->channels > v->rows;
    for (int i = 0; i < CONV_AXES; i++)
        has &= v->axis[i].input_dilation == 1;
    return has && v->in[0] == 1 && v->kernel[0] == 1 && v->out[0] == 1 && v->axis[0].low == 0;
}

// Sums ------------------------------------------------------------------------------------------------------

// Products of n taps to be added to the sums of a few neighbouring positions. Distances are in bytes: `apart`
// in x between neighbouring positions, `next` in x and `w_next` in w between consecutive taps.
struct run {
    const char *x, *w;
    int64_t n, apart, next, w_next;
    char *sum;
    int64_t bytes; // of all channels: from one sum to the next
};

#define ADD(name, type)                                                                            \
    GEMM_FUSED static inline __attribute__((always_inline)) void add_vectors_##name(               \
        int positions, int vectors, const struct run *r, int64_t at) {                             \
        GEMM_CONTRACT                                                                              \
        vector_##name sum[POSITIONS][VECTORS] = {{{0}}};                                           \
        const char *x = r->x + at, *w = r->w + at;                                                 \
        for (int64_t t = 0; t < r->n; t++, x += r->next, w += r->w_next)                           \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) {                            \
                vector_##name by = ((const vector_##name *)w)[j];                                  \
                _Pragma("GCC unroll 4") for (int i = 0; i < positions; i++) sum[i][j] +=           \
                    ((const vector_##name *)(x + i * r->apart))[j] * by;                           \
            }                                                                                      \
        _Pragma("GCC unroll 4") for (int i = 0; i < positions; i++)                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++)(                             \
                (vector_##name *)(r->sum + i * r->bytes + at))[j] += sum[i][j];                    \
    }                                                                                              \
    GEMM_FUSED static inline                                                                       \
        __attribute__((always_inline)) void add_of_##name(int positions, const struct run *r) {    \
        GEMM_CONTRACT                                                                              \
        const int64_t vector = sizeof(vector_##name);                                              \
        int64_t at = 0;                                                                            \
        for (; at + VECTORS * vector <= r->bytes; at += VECTORS * vector)                          \
            add_vectors_##name(positions, VECTORS, r, at);                                         \
        for (; at + vector <= r->bytes; at += vector)                                              \
            add_vectors_##name(positions, 1, r, at);                                               \
        for (; at < r->bytes; at += (int64_t)sizeof(type))                                         \
            for (int i = 0; i < positions; i++) {                                                  \
                type sum = 0;                                                                      \
                for (int64_t t = 0; t < r->n; t++)                                                 \
                    sum += *(const type *)(const void *)(r->x + i * r->apart + t * r->next + at) * \
                           *(const type *)(const void *)(r->w + t * r->w_next + at);               \
                *(type *)(void *)(r->sum + i * r->bytes + at) += sum;                              \
            }                                                                                      \
    }                                                                                              \
    GEMM_FUSED static void add_##name(int64_t positions, const struct run *r) {                    \
        switch (positions) {                                                                       \
        case 1: add_of_##name(1, r); break;                                                        \
        case 2: add_of_##name(2, r); break;                                                        \
        case 3: add_of_##name(3, r); break;                                                        \
        default: add_of_##name(POSITIONS, r);                                                      \
        }                                                                                          \
    }
ADD(f32, float)
ADD(f64, double)

#define ADD_PART(name, type)                                             \
    static void add_part_##name(void *to, const void *from, int64_t n) { \
        for (int64_t i = 0; i < n; i++)                                  \
            ((type *)to)[i] += ((const type *)from)[i];                  \
    }
ADD_PART(f32, float)
ADD_PART(f64, double)

// One row each of x, w and the result.
struct line {
    const char *x, *w;
    char *sum;
};

static void add(const struct taps *t, const struct line *l, int64_t o, int64_t positions, int64_t from,
                int64_t to) {
    const struct conv_axis *a = &t->v->axis[2];
    const int64_t step = t->x.step[2], first = o * a->stride + from * a->dilation - a->low;
    if (from >= to)
        return;
    struct run r = {.x = l->x + first * step,
                    .w = l->w + from * t->w.step[2],
                    .n = to - from,
                    .apart = a->stride * step,
                    .next = a->dilation * step,
                    .w_next = t->w.step[2],
                    .sum = l->sum + o * t->bytes,
                    .bytes = t->bytes};
    (t->v->dtype == ZL_FLOAT64 ? add_f64 : add_f32)(positions, &r);
}

// first_tap() returns the first tap that lies inside of x for element o of a line, end_tap() the one after
// the last.
static int64_t first_tap(const struct convolution *v, int64_t o) {
    const struct conv_axis *a = &v->axis[2];
    int64_t before = a->low - o * a->stride;
    return before > 0 ? MIN_OF((before + a->dilation - 1) / a->dilation, v->kernel[2]) : 0;
}

static int64_t end_tap(const struct convolution *v, int64_t o) {
    const struct conv_axis *a = &v->axis[2];
    int64_t most = v->in[2] - 1 + a->low - o * a->stride;
    return most < 0 ? 0 : MIN_OF(most / a->dilation + 1, v->kernel[2]);
}

// Adds a row of taps to a row of the result: neighbouring positions together for the taps that all of them
// see, then each position alone for its other taps.
static void add_line(const struct taps *t, const struct line *l) {
    const struct convolution *v = t->v;
    for (int64_t o = 0, n; o < v->out[2]; o += n) {
        n = MIN_OF(POSITIONS, v->out[2] - o);
        int64_t from = first_tap(v, o), to = MAX_OF(end_tap(v, o + n - 1), from);
        add(t, l, o, n, from, to);
        for (int64_t i = o; i < o + n; i++) {
            add(t, l, i, 1, first_tap(v, i), MIN_OF(from, end_tap(v, i)));
            add(t, l, i, 1, MAX_OF(to, first_tap(v, i)), end_tap(v, i));
        }
    }
}

static void add_parts(const void *context, int64_t part, int64_t end) {
    const struct taps *t = context;
    const struct convolution *v = t->v;
    const int64_t result = v->rows * t->bytes;
    for (; part < end; part++) {
        char *sum = t->sum + part * result;
        memset(sum, 0, (size_t)result);
        for (int64_t i = t->lines * part / t->parts; i < t->lines * (part + 1) / t->parts; i++) {
            const int64_t batch = i / v->kernel[1], tap = i % v->kernel[1];
            for (int64_t o = 0; o < v->out[1]; o++) {
                int64_t at = place(v, 1, o, tap);
                if (at >= 0)
                    add_line(t, &(struct line){t->x.data + batch * t->x.step[0] + at * t->x.step[1],
                                               t->w.data + batch * t->w.step[0] + tap * t->w.step[1],
                                               sum + o * v->out[2] * t->bytes});
            }
        }
    }
}

// Running ---------------------------------------------------------------------------------------------------

// Sets *out to array k, whose first axis is the channels and whose last is the batch: in place if the
// channels are contiguous, else a copy in buffer.
static bool bring(const struct convolution *v, const struct conv_kernel *k, struct lines *out,
                  struct conv_buffer *buffer) {
    const int64_t *lies = k->stride;
    int64_t dense[CONV_AXES + 2];
    out->data = k->data;
    if (lies[0] != 1) {
        shape_row_major(k->ndim - 1, k->dim + 1, dense + 1);
        for (int i = 1; i < k->ndim; i++)
            dense[i] *= k->dim[0];
        dense[0] = 1;
        char *to = conv_open_buffer(buffer, k->size * v->item);
        if (!(out->data = to))
            return false;
        cpu_copy((size_t)v->item, k->ndim, k->dim, to, dense, k->data, lies);
        lies = dense;
    }
    out->step[0] = lies[k->ndim - 1] * v->item;
    for (int i = 1; i < CONV_AXES; i++) {
        int at = i - (CONV_AXES - (k->ndim - 2)) + 1;
        out->step[i] = at > 0 ? lies[at] * v->item : 0;
    }
    return true;
}

// Adds up the results of all parts, in order.
static void add_sums(const struct taps *t) {
    const int64_t count = t->v->rows * t->v->groups;
    for (int64_t part = 1; part < t->parts; part++)
        (t->v->dtype == ZL_FLOAT64 ? add_part_f64 : add_part_f32)(t->sum, t->sum + part * count * t->v->item,
                                                                  count);
    memcpy(t->v->y, t->sum, (size_t)(count * t->v->item));
}

bool conv_taps(const struct convolution *v, const struct conv_kernel *x, const struct conv_kernel *w) {
    struct taps t = {.v = v, .bytes = v->groups * v->item, .lines = v->channels * v->kernel[1]};
    const double products = (double)(v->rows * v->groups) * (double)(v->taps * v->channels);
    struct conv_buffer buffer[3] = {{0}};
    t.parts = (int64_t)MIN_OF(products / PART_LEAST + 1, MIN_OF(PARTS, (double)t.lines));
    t.sum = conv_open_buffer(&buffer[2], t.parts * v->rows * t.bytes);
    bool ok = t.sum && bring(v, x, &t.x, &buffer[0]) && bring(v, w, &t.w, &buffer[1]);
    if (ok) {
        cpu_split(t.parts, 1, add_parts, &t);
        add_sums(&t);
    }
    for (size_t i = 0; i < COUNT(buffer); i++)
        conv_close_buffer(&buffer[i]);
    return ok;
}
