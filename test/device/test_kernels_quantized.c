// test_kernels_quantized.c - quantised matrices on every device that runs kernels, against the CPU.

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

// Sums are as large as their terms, and of affine matrices no number is much smaller than its bias.
static bool quantize(const struct quantized_case *q, zl_shape shape, zl_array part[3]) {
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

// Scales and biases, behind each other.
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

// The bound of a product, by its size: both sides round the result, and one of them the matrix, twice: scales times codes, at most
// 4 of 6, and their sums with biases. That is 3.7 halves of a unit.
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

// Devices compile kernels for each size of groups and each number of bits: quick runs take one size for each.
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
            if (i == 2) { // rows that end in half a unit of the kernel
                struct quantized_case q = {modes[i], INT_MIN, INT_MIN, ZL_FLOAT32, 3, 9, 48, true};
                check_case(q);
            }
        }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

// Matrices that indices choose, one of them far out of range.
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

static void check_chosen(void) {
    int64_t fallbacks = zl_counter("fallbacks");
    for (int transpose = 0; transpose < 2; transpose++) {
        struct quantized_case q = {"affine", 32, 4, ZL_FLOAT32, 2, 12, 64, transpose};
        agree("gather_qmm", chosen, &q, 1e-5);
    }
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
}

// Codes of four bits and half floats, which devices have instructions for: pieces of 128 numbers, few of them and many, lines that
// fill an instruction and lines that do not, and one line.
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

TEST(matrices_that_indices_choose) {
    on_devices(check_chosen);
}
