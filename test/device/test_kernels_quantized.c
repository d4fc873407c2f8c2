// test_kernels_quantized.c - quantised matrices on every device that runs kernels, compared with the CPU.

#include "on_devices.h"

#include <limits.h>
#include <string.h>

struct quantized_case {
    const char *mode;
    int group, bits;
    zl_dtype dtype;
    int64_t m, n, k;
    bool transpose;
};

static struct quantized_case any_case(const char *mode, int group, int bits, zl_dtype dtype) {
    static const int64_t lines[] = {1, 2, 3, 5, 14},
                         sizes[][2] = {{3, 2048}, {7, 128}, {14, 1152}, {70, 128}};
    const int64_t *size = sizes[test_between(0, COUNT(sizes) - 1)];
    return (struct quantized_case){.mode = mode,
                                   .group = group,
                                   .bits = bits,
                                   .dtype = dtype,
                                   .m = lines[size[1] > 1152 ? 3 : test_between(0, COUNT(lines) - 1)],
                                   .n = size[0],
                                   .k = size[1],
                                   .transpose = test_between(0, 3) > 0};
}

// Draws words and scales of mode gguf_k, as a file might have them: random, except for the exponents of each
// block's f16 numbers.
static bool draw_k(const struct quantized_case *q, zl_shape shape, zl_array part[3]) {
    const int64_t rows = shape.ndim > 2 ? shape.dim[0] * shape.dim[1] : shape.dim[0],
                  k = shape.dim[shape.ndim - 1];
    const int64_t blocks = rows * k / 256, bytes = q->bits == 6 ? 18 : 16;
    const int halves = q->bits == 6 ? 1 : 2;
    zl_array whole = zl_random_bits(ZL_SHAPE(blocks, bytes - 2 * halves), 1, zl_random_key(5));
    zl_array half = zl_astype(zl_from_f32((float[]){0.01f, 0.02f}, ZL_SHAPE(1, halves)), ZL_FLOAT16);
    half = zl_broadcast_to(zl_view(half, ZL_UINT8), ZL_SHAPE(blocks, 2 * halves));
    zl_array both[] = {q->bits == 6 ? whole : half, q->bits == 6 ? half : whole};
    zl_array scales = zl_concatenate(both, 2, 1);
    int64_t dim[3];
    memcpy(dim, shape.dim, sizeof(int64_t) * (size_t)shape.ndim);
    dim[shape.ndim - 1] = k / 256 * bytes;
    part[1] = zl_reshape(scales, (zl_shape){dim, shape.ndim});
    dim[shape.ndim - 1] = k / 32 * q->bits;
    part[0] = zl_random_bits((zl_shape){dim, shape.ndim}, 4, zl_random_key(9));
    part[2] = NULL;
    return part[0] && part[1];
}

// Makes matrices whose sums are as large as their terms. In affine mode, no number is much smaller than its
// bias.
static bool quantize(const struct quantized_case *q, zl_shape shape, zl_array part[3]) {
    if (!strcmp(q->mode, "gguf_k"))
        return draw_k(q, shape, part);
    zl_array w = zl_abs(values(shape, q->dtype == ZL_FLOAT64 ? ZL_FLOAT32 : q->dtype, 7));
    if (!strcmp(q->mode, "affine"))
        w = zl_add(w, zl_scalar(6));
    part[2] = NULL;
    return zl_quantize(w, q->group, q->bits, q->mode, NULL, part);
}

static zl_array words(void *data) {
    const struct quantized_case *q = data;
    zl_array part[3];
    return quantize(q, ZL_SHAPE(q->n, q->k), part) ? part[0] : NULL;
}

// Returns scales and biases, concatenated.
static zl_array scales(void *data) {
    const struct quantized_case *q = data;
    zl_array part[3];
    if (!quantize(q, ZL_SHAPE(q->n, q->k), part))
        return NULL;
    return part[2] ? zl_concatenate(part + 1, 2, 0) : part[1];
}

static zl_array back(void *data) {
    const struct quantized_case *q = data;
    zl_array part[3];
    return quantize(q, ZL_SHAPE(q->n, q->k), part)
               ? zl_dequantize(part[0], part[1], part[2], q->group, q->bits, q->mode, NULL, q->dtype)
               : NULL;
}

static zl_array product(void *data) {
    const struct quantized_case *q = data;
    zl_array part[3];
    return quantize(q, ZL_SHAPE(q->n, q->k), part)
               ? zl_quantized_matmul(zl_abs(values(ZL_SHAPE(q->m, q->transpose ? q->k : q->n), q->dtype, 3)),
                                     part[0], part[1], part[2], q->transpose, q->group, q->bits, q->mode)
               : NULL;
}

// Returns the bound of a product, relative to its size. Both sides round the result; one of them also rounds
// the matrix twice: the products of scales and codes, which are at most 4 of 6, and their sums with biases.
// Together that is 3.7 times half an ULP.
static double bound_of(const struct quantized_case *q) {
    return q->dtype == ZL_FLOAT64   ? 1e-12
           : q->dtype == ZL_FLOAT32 ? 4e-6
           : q->dtype == ZL_FLOAT16 ? 0x1p-9
                                    : 0x1p-7;
}

static void check_case(struct quantized_case q) {
    bool ok = agree("quantize", words, &q, 0) && agree("its scales", scales, &q, 0) &&
              agree("dequantize", back, &q, 0) && agree("quantized_matmul", product, &q, bound_of(&q));
    if (!ok)
        test_note("%s, groups of %d, %d bits, %lld x %lld by %lld%s", q.mode, q.group, q.bits, (long long)q.m,
                  (long long)q.k, (long long)q.n, q.transpose ? ", transposed" : "");
}

// Devices compile kernels for each group size and number of bits; quick runs test one size for each number of
// bits.
static void check_affine(void) {
    static const int groups[] = {16, 32, 64, 128}, bits[] = {2, 3, 4, 5, 6, 8};
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT64};
    int64_t fallbacks = zl_counter("fallbacks");
    size_t step = test_quick() ? 4 : 1, drawn = test_random();
    for (size_t b = 0; b < COUNT(bits); b++)
        for (size_t g = (drawn + b) % step; g < COUNT(groups); g += step)
            ZL_SCOPE
                check_case(
                    any_case("affine", groups[g], bits[b], dtypes[test_between(0, COUNT(dtypes) - 1)]));
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

static void check_floats(void) {
    static const char *const modes[] = {"mxfp4", "mxfp8", "nvfp4"};
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t i = 0; i < COUNT(modes); i++)
        ZL_SCOPE {
            check_case(any_case(modes[i], INT_MIN, INT_MIN, dtypes[i]));
            if (i == 2) { // rows that end in the middle of a kernel's unit of work
                struct quantized_case q = {modes[i], INT_MIN, INT_MIN, ZL_FLOAT32, 3, 9, 48, true};
                check_case(q);
            }
        }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

// Products with matrices chosen by indices, one of them out of range.
static zl_array chosen(void *data) {
    const struct quantized_case *q = data;
    zl_array part[3];
    zl_array left = zl_from_i32((int32_t[]){2, 0, 1, 1}, ZL_SHAPE(4)),
             right = zl_from_i32((int32_t[]){3, 1, 1, 99}, ZL_SHAPE(4));
    zl_array x = values(ZL_SHAPE(3, q->m, q->transpose ? q->k : q->n), q->dtype, 3);
    return quantize(q, ZL_SHAPE(4, q->n, q->k), part)
               ? zl_gather_qmm(x, part[0], part[1], part[2], left, right, q->transpose, q->group, q->bits,
                               q->mode, NULL, false)
               : NULL;
}

// Scales as in files of llama.cpp, of positive and negative numbers, whose sums are much smaller than their
// terms.
static void check_k(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    const int only = test_quick() ? test_between(4, 6) : 0;
    for (int bits = 4; bits <= 6; bits++)
        for (int transpose = only && only != bits ? 2 : 0; transpose < 2; transpose++)
            ZL_SCOPE {
                struct quantized_case q = {
                    "gguf_k", bits == 6 ? 16 : 32, bits, ZL_FLOAT32, bits == 5 ? 1 : 5, 11, 512, transpose};
                if (!agree("dequantize", back, &q, 0) || !agree("quantized_matmul", product, &q, 1e-3) ||
                    !agree("gather_qmm", chosen, &q, 2e-2))
                    test_note("%d bits%s", bits, transpose ? ", transposed" : "");
            }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

static void check_chosen(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    for (int transpose = 0; transpose < 2; transpose++) {
        struct quantized_case q = {"affine", 32, 4, ZL_FLOAT32, 2, 12, 64, transpose};
        agree("gather_qmm", chosen, &q, 1e-5);
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

// Codes of four bits and 16-bit floats, for which devices have instructions: pieces of 128 numbers, few and
// many, rows that fill an instruction or not, and single rows.
static void check_lines(void) {
    static const int groups[] = {32, 64, 128};
    static const int64_t sizes[][3] = {{1, 40, 256}, {2, 16, 896},  {1, 13, 4864},
                                       {5, 3, 2048}, {1, 35, 1152}, {9, 7, 2304}};
    int64_t fallbacks = zl_counter("fallbacks");
    for (size_t g = 0; g < COUNT(groups); g++)
        for (size_t i = test_quick() ? g : 0; i < COUNT(sizes); i += test_quick() ? 2 : 1)
            ZL_SCOPE {
                struct quantized_case q = {
                    "affine",    groups[g],   4,           g % 2 ? ZL_FLOAT16 : ZL_BFLOAT16,
                    sizes[i][0], sizes[i][1], sizes[i][2], true};
                if (!agree("quantized_matmul", product, &q, bound_of(&q)))
                    test_note("groups of %d, %lld x %lld by %lld", q.group, (long long)q.m, (long long)q.k,
                              (long long)q.n);
            }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

TEST(lines_times_four_bits) {
    on_devices(check_lines);
}

TEST(affine_matrices) {
    on_devices(check_affine);
}

TEST(matrices_of_small_floats) {
    on_devices(check_floats);
}

TEST(matrices_with_the_scales_of_llama_cpp) {
    on_devices(check_k);
}

TEST(matrices_that_indices_choose) {
    on_devices(check_chosen);
}
