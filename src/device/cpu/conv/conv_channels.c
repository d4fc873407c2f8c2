// conv_channels.c - depthwise convolutions: elements of x are multiplied by elements of w, channel by
// channel, and added up over the taps.
//
// The sums of some vectors of channels stay in registers for all taps. Neighbouring positions that see the
// same taps are computed together, so that each vector of w is loaded once for all of them. 16-bit floats are
// widened row by row and added up in memory.

#include "device/cpu/conv/conv.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

enum {
    TAPS = 128,     // the most taps whose addresses are kept
    POSITIONS = 4,  // neighbouring positions that are computed at once
    VECTORS = 2,    // vectors of channels per position
    CHANNELS = 512, // channels that are added up at once in memory
};

typedef float vector_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(16), aligned(8), may_alias));

// In registers ----------------------------------------------------------------------------------------------

struct tap {
    const char *x, *w;
};

// Lists the taps that lie inside of x for a position of the output, in the order of x, by the addresses of
// their first channel. Returns their number.
static int64_t find_taps(const struct convolution *v, const struct position *s, struct tap *tap) {
    const char *from = v->x + s->batch * v->batch_step, *w = v->w;
    const int64_t next = v->groups * v->item, line_taps = v->kernel[2];
    int64_t count = 0;
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < v->kernel[1]; j++) {
            int64_t first = place(v, 0, s->at[0], i), second = place(v, 1, s->at[1], j);
            const char *line = from + first * v->step[0] + second * v->step[1];
            for (int64_t n = 0; n < line_taps && first >= 0 && second >= 0; n++) {
                int64_t k = v->flip ? line_taps - 1 - n : n, third = place(v, 2, s->at[2], k);
                if (third >= 0)
                    tap[count++] = (struct tap){line + third * v->step[2], w + k * next};
            }
            w += line_taps * next;
        }
    return count;
}

// Defines the functions that compute all channels of one position or of a group of neighbouring positions,
// some vectors of channels at a time. The elements of x of two neighbours are `apart` bytes from each other.
#define SUMS(name, type)                                                                                     \
    GEMM_FUSED static inline __attribute__((always_inline)) void strip_##name(                               \
        int positions, int vectors, const struct tap *tap, int64_t taps, int64_t apart, int64_t at, char *y, \
        int64_t y_row) {                                                                                     \
        GEMM_CONTRACT                                                                                        \
        vector_##name sum[POSITIONS][VECTORS] = {{{0}}};                                                     \
        for (int64_t t = 0; t < taps; t++) {                                                                 \
            const vector_##name *w = (const vector_##name *)(tap[t].w + at);                                 \
            _Pragma("GCC unroll 4") for (int i = 0; i < positions; i++)                                      \
                _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) sum[i][j] +=                       \
                ((const vector_##name *)(tap[t].x + i * apart + at))[j] * w[j];                              \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int i = 0; i < positions; i++)                                          \
            _Pragma("GCC unroll 2") for (int j = 0; j < vectors;                                             \
                                         j++)((vector_##name *)(y + i * y_row + at))[j] = sum[i][j];         \
    }                                                                                                        \
    GEMM_FUSED static inline __attribute__((always_inline)) void threes_##name(                              \
        const struct tap *tap, int64_t taps, int64_t apart, int64_t at, char *y, int64_t y_row) {            \
        GEMM_CONTRACT                                                                                        \
        vector_##name sum[POSITIONS][VECTORS] = {{{0}}};                                                     \
        for (int64_t t = 0; t < taps; t += 3) {                                                              \
            vector_##name x[POSITIONS + 2][VECTORS];                                                         \
            _Pragma("GCC unroll 6") for (int i = 0; i < POSITIONS + 2; i++)                                  \
                _Pragma("GCC unroll 2") for (int j = 0; j < VECTORS; j++) x[i][j] =                          \
                    ((const vector_##name *)(tap[t].x + i * apart + at))[j];                                 \
            _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++)                                              \
                _Pragma("GCC unroll 2") for (int j = 0; j < VECTORS; j++) {                                  \
                vector_##name w = ((const vector_##name *)(tap[t + k].w + at))[j];                           \
                _Pragma("GCC unroll 4") for (int i = 0; i < POSITIONS; i++) sum[i][j] += x[i + k][j] * w;    \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int i = 0; i < POSITIONS; i++)                                          \
            _Pragma("GCC unroll 2") for (int j = 0; j < VECTORS;                                             \
                                         j++)((vector_##name *)(y + i * y_row + at))[j] = sum[i][j];         \
    }                                                                                                        \
    GEMM_FUSED static inline __attribute__((always_inline)) void sums_of_##name(                             \
        int positions, bool threes, const struct tap *tap, int64_t taps, int64_t apart, int64_t bytes,       \
        char *y) {                                                                                           \
        GEMM_CONTRACT                                                                                        \
        const int64_t vector = sizeof(vector_##name);                                                        \
        int64_t at = 0;                                                                                      \
        for (; threes && at + VECTORS * vector <= bytes; at += VECTORS * vector)                             \
            threes_##name(tap, taps, apart, at, y, bytes);                                                   \
        for (; at + VECTORS * vector <= bytes; at += VECTORS * vector)                                       \
            strip_##name(positions, VECTORS, tap, taps, apart, at, y, bytes);                                \
        for (; at + vector <= bytes; at += vector)                                                           \
            strip_##name(positions, 1, tap, taps, apart, at, y, bytes);                                      \
        for (; at < bytes; at += (int64_t)sizeof(type))                                                      \
            for (int i = 0; i < positions; i++) {                                                            \
                type sum = 0;                                                                                \
                for (int64_t t = 0; t < taps; t++)                                                           \
                    sum += *(const type *)(const void *)(tap[t].x + i * apart + at) *                        \
                           *(const type *)(const void *)(tap[t].w + at);                                     \
                *(type *)(void *)(y + i * bytes + at) = sum;                                                 \
            }                                                                                                \
    }                                                                                                        \
    GEMM_FUSED static void sums_##name(bool one, bool threes, const struct tap *tap, int64_t taps,           \
                                       int64_t apart, int64_t bytes, char *y) {                              \
        if (one)                                                                                             \
            sums_of_##name(1, false, tap, taps, apart, bytes, y);                                            \
        else                                                                                                 \
            sums_of_##name(POSITIONS, threes, tap, taps, apart, bytes, y);                                   \
    }
SUMS(f32, float)
SUMS(f64, double)

// Returns whether the next group of neighbouring positions is in one line and sees all taps along the last
// axis.
static bool are_alike(const struct convolution *v, const struct position *s) {
    const struct conv_axis *a = &v->axis[2];
    const int64_t first = s->at[2] * a->stride - a->low, last = s->at[2] + POSITIONS - 1;
    return last < v->out[2] && a->input_dilation == 1 && first >= 0 &&
           last * a->stride - a->low + (v->kernel[2] - 1) * a->dilation < v->in[2];
}

// Returns whether the taps come in threes with the same distance in x between consecutive taps as between
// consecutive positions. Then neighbouring positions share elements of x, which are loaded once.
static bool are_threes(const struct tap *tap, int64_t taps, int64_t apart) {
    for (int64_t t = 0; taps % 3 == 0 && t < taps; t += 3)
        if (tap[t + 1].x != tap[t].x + apart || tap[t + 2].x != tap[t].x + 2 * apart)
            return false;
    return taps % 3 == 0;
}

static void convolve_rows(const struct convolution *v, int64_t row, int64_t to) {
    const int64_t apart = v->axis[2].stride * v->step[2], bytes = v->groups * v->item;
    struct position at = position_of(v, row);
    struct tap tap[TAPS];
    bool follows = false, threes = false; // follows: in the same line as the positions before
    for (int64_t n, taps = 0; row < to; row += n) {
        bool one = row + POSITIONS > to || !are_alike(v, &at);
        for (int64_t t = 0; follows && !one && t < taps; t++)
            tap[t].x += POSITIONS * apart;
        if (!follows || one) {
            taps = find_taps(v, &at, tap);
            threes = !one && are_threes(tap, taps, apart);
        }
        (v->dtype == ZL_FLOAT64 ? sums_f64 : sums_f32)(one, threes, tap, taps, apart, bytes,
                                                       v->y + row * bytes);
        follows = !one && at.at[2] + POSITIONS < v->out[2];
        n = one ? 1 : POSITIONS;
        for (int64_t i = 0; i < n; i++)
            conv_next_position(v, &at);
    }
}

// Two lines -------------------------------------------------------------------------------------------------
// With a 3 x 3 kernel, two lines of the output read four lines of x if they are computed together, and six
// one after the other.

enum { LINES = 2, PLACES = 3, SIDE = 3 };

// Computes PLACES neighbouring positions in each of LINES lines. Lines of x are `line` bytes apart, those of
// y y_line bytes.
GEMM_FUSED static void sum_lines(const char *x, int64_t line, int64_t apart, const char *w, int64_t bytes,
                                 char *y, int64_t y_line) {
    GEMM_CONTRACT
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof(vector_f32)) {
        vector_f32 sum[LINES][PLACES] = {{{0}}}, by[SIDE * SIDE], seen[PLACES + SIDE - 1];
#pragma GCC unroll 9
        for (int i = 0; i < SIDE * SIDE; i++)
            by[i] = *(const vector_f32 *)(w + i * bytes + at);
#pragma GCC unroll 4
        for (int i = 0; i < LINES + SIDE - 1; i++) {
#pragma GCC unroll 5
            for (int j = 0; j < PLACES + SIDE - 1; j++)
                seen[j] = *(const vector_f32 *)(x + i * line + j * apart + at);
#pragma GCC unroll 3
            for (int k = 0; k < SIDE; k++)
#pragma GCC unroll 2
                for (int to = MAX_OF(i - SIDE + 1, 0); to <= MIN_OF(i, LINES - 1); to++)
#pragma GCC unroll 3
                    for (int j = 0; j < PLACES; j++)
                        sum[to][j] += seen[j + k] * by[(i - to) * SIDE + k];
        }
#pragma GCC unroll 2
        for (int i = 0; i < LINES; i++)
#pragma GCC unroll 3
            for (int j = 0; j < PLACES; j++)
                *(vector_f32 *)(y + i * y_line + j * bytes + at) = sum[i][j];
    }
}

static bool is_plain(const struct conv_axis *a) {
    return a->stride == 1 && a->dilation == 1 && a->input_dilation == 1;
}

static bool has_lines(const struct convolution *v) {
    return v->dtype == ZL_FLOAT32 && v->kernel[0] == 1 && v->kernel[1] == SIDE && v->kernel[2] == SIDE &&
           !v->flip && is_plain(&v->axis[1]) && is_plain(&v->axis[2]) &&
           v->groups % (int64_t)(sizeof(vector_f32) / sizeof(float)) == 0;
}

// Returns whether the next `rows` positions begin with LINES whole lines, all of whose taps along the first
// two axes lie inside of x.
static bool are_lines(const struct convolution *v, const struct position *s, int64_t rows) {
    return s->at[2] == 0 && rows >= LINES * v->out[2] && s->at[1] + LINES <= v->out[1] &&
           place(v, 0, s->at[0], 0) >= 0 && place(v, 1, s->at[1], 0) >= 0 &&
           place(v, 1, s->at[1] + LINES - 1, SIDE - 1) >= 0;
}

static void convolve_lines(const struct convolution *v, int64_t row, const struct position *s) {
    const int64_t bytes = v->groups * v->item, width = v->out[2], low = v->axis[2].low;
    const int64_t first = MIN_OF(MAX_OF(low, 0), width), end = MIN_OF(width, v->in[2] - SIDE + 1 + low);
    const char *x = v->x + s->batch * v->batch_step + place(v, 0, s->at[0], 0) * v->step[0] +
                    place(v, 1, s->at[1], 0) * v->step[1];
    int64_t at = first;
    for (; at + PLACES <= end; at += PLACES)
        sum_lines(x + (at - low) * v->step[2], v->step[1], v->step[2], v->w, bytes, v->y + (row + at) * bytes,
                  width * bytes);
    for (int64_t i = 0; i < LINES; i++, row += width) {
        convolve_rows(v, row, row + first);
        convolve_rows(v, row + at, row + width);
    }
}

static void convolve(const struct convolution *v, int64_t row, int64_t to) {
    const bool lines = has_lines(v);
    while (row < to) {
        struct position at = position_of(v, row);
        if (lines && are_lines(v, &at, to - row)) {
            convolve_lines(v, row, &at);
            row += LINES * v->out[2];
        } else {
            int64_t end = lines ? MIN_OF(to, row - at.at[2] + v->out[2]) : to;
            convolve_rows(v, row, end);
            row = end;
        }
    }
}

// In memory -------------------------------------------------------------------------------------------------

#define ADD_PRODUCTS(name, type)                                                                        \
    GEMM_FUSED static void add_products_##name(void *to, const void *from, const void *by, int64_t n) { \
        GEMM_CONTRACT                                                                                   \
        enum { WIDTH = sizeof(vector_##name) / sizeof(type) };                                          \
        type *sum = to;                                                                                 \
        const type *x = from, *w = by;                                                                  \
        int64_t i = 0;                                                                                  \
        for (; i + WIDTH <= n; i += WIDTH)                                                              \
            *(vector_##name *)(sum + i) +=                                                              \
                *(const vector_##name *)(x + i) * *(const vector_##name *)(w + i);                      \
        for (; i < n; i++)                                                                              \
            sum[i] += x[i] * w[i];                                                                      \
    }
ADD_PRODUCTS(f32, float)
ADD_PRODUCTS(f64, double)

// The sums of n channels.
struct sums {
    char *sum;
    row_fn *widen;         // NULL: elements have the dtype of sums
    int64_t n, wide, next; // next: bytes from one tap of w to the next
    bool is_double;
};

// Adds the products of the taps along the last axis. from: first element of x along it; by: w at the first
// tap.
static void add_taps(const struct convolution *v, const struct sums *s, int64_t o, const char *from,
                     const char *by) {
    _Alignas(64) char widened[CHANNELS * 4];
    for (int64_t k = 0; k < v->kernel[2]; k++, by += s->next) {
        int64_t at = place(v, 2, o, k);
        if (at < 0)
            continue;
        const char *x = from + at * v->step[2];
        if (s->widen) {
            cpu_call_row(s->widen, widened, x, NULL, NULL, s->n);
            x = widened;
        }
        (s->is_double ? add_products_f64 : add_products_f32)(s->sum, x, by, s->n);
    }
}

// Computes s->n channels of a position, from `channel` on. w is (taps, channels), in the dtype of sums.
static void sum_channels(const struct convolution *v, const struct position *at, int64_t channel,
                         const struct sums *s) {
    const char *from = v->x + at->batch * v->batch_step + channel * v->item, *by = v->w + channel * s->wide;
    memset(s->sum, 0, (size_t)(s->n * s->wide));
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < v->kernel[1]; j++, by += v->kernel[2] * s->next) {
            int64_t first = place(v, 0, at->at[0], i), second = place(v, 1, at->at[1], j);
            if (first >= 0 && second >= 0)
                add_taps(v, s, at->at[2], from + first * v->step[0] + second * v->step[1], by);
        }
}

void conv_channels(const void *context, int64_t row, int64_t to) {
    const struct convolution *v = context;
    if (v->item >= 4 && v->taps <= TAPS) {
        convolve(v, row, to);
        return;
    }
    _Alignas(64) char sum[CHANNELS * 8];
    bool is_half = v->item < 4;
    row_fn *narrow = is_half ? cpu_level()->rows->cast[v->dtype][ZL_FLOAT32] : NULL;
    struct sums s = {.sum = sum, .wide = is_half ? 4 : v->item, .is_double = v->dtype == ZL_FLOAT64};
    s.widen = is_half ? cpu_level()->rows->cast[ZL_FLOAT32][v->dtype] : NULL;
    s.next = v->groups * s.wide;
    struct position at = position_of(v, row);
    for (; row < to; row++, conv_next_position(v, &at))
        for (int64_t c = 0; c < v->groups; c += CHANNELS) {
            char *y = v->y + (row * v->groups + c) * v->item;
            s.n = MIN_OF(CHANNELS, v->groups - c);
            sum_channels(v, &at, c, &s);
            if (narrow)
                cpu_call_row(narrow, y, sum, NULL, NULL, s.n);
            else
                memcpy(y, sum, (size_t)(s.n * v->item));
        }
}
