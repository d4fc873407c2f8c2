// conv_lines.c - convolutions of one channel into one: a line of the output is the sum of shifted lines of
// the input, each multiplied by a tap.
//
// A part is a piece of a line. The elements of the input that it needs are copied and padded with zeros. As
// many sums as fit into registers are computed at once, over all taps of a line of the kernel.

#include "device/cpu/conv/conv.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

enum { PIECE = 1024, BLOCK_BYTES = 128 }; // elements per part; bytes of the sums in registers

bool conv_has_lines(const struct convolution *v) {
    return v->groups == 1 && v->channels == 1 && v->outputs == 1 && v->dtype != ZL_COMPLEX64 &&
           v->axis[2].stride == 1 && v->axis[2].input_dilation == 1 &&
           (v->step[2] == v->item || v->in[2] == 1) && v->out[2] >= 8;
}

static int64_t wide_of(const struct convolution *v) {
    return MAX_OF(v->item, 4);
}

// A flipped kernel is applied to x in reverse.
void conv_reverse_lines(const struct convolution *v, void *w) {
    int64_t wide = wide_of(v), n = v->kernel[2];
    for (char *line = w; v->flip && line < (char *)w + v->taps * wide; line += n * wide)
        for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
            char kept[8];
            memcpy(kept, line + i * wide, (size_t)wide);
            memcpy(line + i * wide, line + j * wide, (size_t)wide);
            memcpy(line + j * wide, kept, (size_t)wide);
        }
}

// Sums ------------------------------------------------------------------------------------------------------

typedef float vector_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(16), aligned(8), may_alias));

// Adds n taps, whose elements of x are `apart` elements from each other, to `count` sums, which are whole
// blocks.
#define ADD_LINE(name, type)                                                                             \
    GEMM_FUSED static void add_line_##name(void *to, const void *from, const void *by, int64_t n,        \
                                           int64_t apart, int64_t count) {                               \
        GEMM_CONTRACT                                                                                    \
        enum {                                                                                           \
            WIDTH = sizeof(vector_##name) / sizeof(type),                                                \
            VECTORS = BLOCK_BYTES / sizeof(vector_##name)                                                \
        };                                                                                               \
        const type *w = by;                                                                              \
        for (int64_t i = 0; i < count; i += VECTORS * WIDTH) {                                           \
            vector_##name *sums = (vector_##name *)((type *)to + i), sum[VECTORS];                       \
            const type *x = (const type *)from + i;                                                      \
            _Pragma("GCC unroll 8") for (int j = 0; j < (int)VECTORS; j++) sum[j] = sums[j];             \
            for (int64_t k = 0; k < n; k++, x += apart) {                                                \
                const vector_##name *line = (const vector_##name *)x;                                    \
                _Pragma("GCC unroll 8") for (int j = 0; j < (int)VECTORS; j++) sum[j] += line[j] * w[k]; \
            }                                                                                            \
            _Pragma("GCC unroll 8") for (int j = 0; j < (int)VECTORS; j++) sums[j] = sum[j];             \
        }                                                                                                \
    }
ADD_LINE(f32, float)
ADD_LINE(f64, double)

// Lines -----------------------------------------------------------------------------------------------------

// Copies elements [first, first + count) of a line of x, converted to the dtype of sums. Elements outside of
// the line are 0.
static void fetch(const struct convolution *v, char *to, const char *line, int64_t first, int64_t count) {
    int64_t wide = wide_of(v), before = MIN_OF(MAX_OF(-first, 0), count);
    int64_t inside = MAX_OF(MIN_OF(v->in[2] - (first + before), count - before), 0),
            after = count - before - inside;
    const char *from = line + (first + before) * v->item;
    memset(to, 0, (size_t)(before * wide));
    if (inside && wide == v->item)
        memcpy(to + before * wide, from, (size_t)(inside * wide));
    else if (inside)
        cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][v->dtype], to + before * wide, from, NULL, NULL,
                     inside);
    memset(to + (before + inside) * wide, 0, (size_t)(after * wide));
}

static int64_t round_to_block(int64_t count, int64_t wide) {
    int64_t block = BLOCK_BYTES / wide;
    return (count + block - 1) / block * block;
}

static bool convolve_piece(const struct convolution *v, struct position s, int64_t count) {
    int64_t wide = wide_of(v), padded = round_to_block(count, wide), apart = v->axis[2].dilation;
    int64_t span = padded + (v->kernel[2] - 1) * apart;
    // The sums of the piece, followed by the elements of a line of x that they need.
    char *sum = cpu_scratch(SCRATCH_WORK, (size_t)((padded + span) * wide));
    if (!sum)
        return false;
    int64_t row = ((s.batch * v->out[0] + s.at[0]) * v->out[1] + s.at[1]) * v->out[2] + s.at[2];
    char *line = sum + padded * wide, *y = v->y + row * v->item;
    const char *x = v->x + s.batch * v->batch_step, *w = v->w;
    memset(sum, 0, (size_t)(padded * wide));
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < v->kernel[1]; j++, w += v->kernel[2] * wide) {
            int64_t first = place(v, 0, s.at[0], i), second = place(v, 1, s.at[1], j);
            if (first < 0 || second < 0)
                continue;
            fetch(v, line, x + first * v->step[0] + second * v->step[1], s.at[2] - v->axis[2].low, span);
            (wide == 8 ? add_line_f64 : add_line_f32)(sum, line, w, v->kernel[2], apart, padded);
        }
    if (wide == v->item)
        memcpy(y, sum, (size_t)(count * wide));
    else
        cpu_call_row(cpu_level()->rows->cast[v->dtype][ZL_FLOAT32], y, sum, NULL, NULL, count);
    return true;
}

static int64_t pieces_of_line(const struct convolution *v) {
    return (v->out[2] + PIECE - 1) / PIECE;
}

int64_t conv_line_parts(const struct convolution *v) {
    return v->rows / v->out[2] * pieces_of_line(v);
}

void conv_lines(const void *convolution, int64_t from, int64_t to) {
    struct convolution *v = (struct convolution *)(uintptr_t)convolution;
    int64_t pieces = pieces_of_line(v);
    for (; from < to; from++) {
        struct position s = position_of(v, from / pieces * v->out[2]);
        s.at[2] = from % pieces * PIECE;
        if (!convolve_piece(v, s, MIN_OF(PIECE, v->out[2] - s.at[2])))
            atomic_store(&v->failed, true);
    }
}
