// test_conv.c - convolutions compared with sums that are written out, for every stride, padding, dilation and
// number of groups.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op_test.h"
#include "op/ops.h"

enum { AXES = 3, RANK = AXES + 2 };

// A convolution over three axes; unused axes have one element.
struct sample {
    int64_t batch, channels, outputs, groups; // channels, outputs: per group
    int64_t in[AXES], kernel[AXES], stride[AXES], low[AXES], high[AXES], dilation[AXES], input_dilation[AXES];
    bool flip, in_batch; // in_batch: the groups of the input are in its batch axis, as in gradients of
                         // kernels
};

static int64_t span(int64_t size, int64_t dilation) {
    return (size - 1) * dilation + 1;
}

static int64_t output_size(const struct sample *s, int i) {
    return (span(s->in[i], s->input_dilation[i]) + s->low[i] + s->high[i] -
            span(s->kernel[i], s->dilation[i])) /
               s->stride[i] +
           1;
}

// Returns the index along an input axis for output element `at` and a tap; -1 if there is none.
static int64_t place(const struct sample *s, int i, int64_t at, int64_t tap) {
    int64_t k = s->flip ? s->kernel[i] - 1 - tap : tap;
    int64_t p = at * s->stride[i] + k * s->dilation[i] - s->low[i];
    if (p < 0 || p % s->input_dilation[i] || p / s->input_dilation[i] >= s->in[i])
        return -1;
    return p / s->input_dilation[i];
}

static double expected(const struct sample *s, const double *x, const double *w, const int64_t *at) {
    int64_t group = at[4] / s->outputs;
    double sum = 0;
    for (int64_t tap = 0; tap < s->kernel[0] * s->kernel[1] * s->kernel[2]; tap++) {
        int64_t k[AXES] = {tap / s->kernel[2] / s->kernel[1], tap / s->kernel[2] % s->kernel[1],
                           tap % s->kernel[2]};
        int64_t from = s->in_batch ? group * s->batch + at[0] : at[0];
        bool inside = true;
        for (int i = 0; i < AXES; i++) {
            int64_t p = place(s, i, at[i + 1], k[i]);
            inside &= p >= 0;
            from = from * s->in[i] + p;
        }
        from = s->in_batch ? from : from * s->groups + group;
        for (int64_t c = 0; inside && c < s->channels; c++)
            sum += x[from * s->channels + c] *
                   w[(at[4] * s->kernel[0] * s->kernel[1] * s->kernel[2] + tap) * s->channels + c];
    }
    return sum;
}

// Returns the same elements in another order in memory.
static zl_array as_layout(zl_array x, int layout) {
    if (layout == 1)
        return zl_transpose(zl_contiguous(zl_transpose(x, ZL_ALL), false), ZL_ALL);
    if (layout == 3)
        return zl_swapaxes(zl_contiguous(zl_swapaxes(x, 0, -1), false), 0, -1);
    return layout == 2 ? zl_flip(zl_contiguous(zl_flip(x, ZL_ALL), false), ZL_ALL) : x;
}

// Returns multiples of 1/8, which are exact in every dtype.
static zl_array some(zl_shape shape, zl_dtype dtype) {
    int64_t size;
    if (!shape_size(shape.ndim, shape.dim, &size))
        return NULL;
    zl_array wave =
        zl_sin(zl_multiply(zl_arange(0, (double)size, 1, ZL_FLOAT64), zl_scalar(test_uniform(1, 2))));
    zl_array x = zl_divide(zl_rint(zl_multiply(wave, zl_scalar(8))), zl_scalar(8));
    x = zl_astype(zl_reshape(x, shape), dtype);
    return CHECK(zl_eval(x)) ? x : NULL;
}

// Returns all elements as doubles, to be freed.
static double *values_of(zl_array x) {
    double *out = malloc(sizeof(double) * (size_t)(x ? x->size : 1));
    if (!CHECK(out && zl_copy_to(zl_astype(x, ZL_FLOAT64), out, sizeof(double) * (size_t)x->size)))
        memset(out, 0, sizeof(double));
    return out;
}

// Records a convolution with groups in the batch, which has no public function: only derivatives record it.
static zl_array convolve_in_batch(const struct sample *s, zl_array x, zl_array w, int axes) {
    int64_t arg[2 + 5 * AXES] = {-s->groups, s->flip}, dim[RANK] = {s->batch};
    for (int i = 0; i < axes; i++) {
        int at = AXES - axes + i;
        memcpy(arg + 2 + 5 * i,
               (int64_t[]){s->stride[at], s->low[at], s->high[at], s->dilation[at], s->input_dilation[at]},
               sizeof *arg * 5);
        dim[i + 1] = output_size(s, at);
    }
    dim[axes + 1] = s->groups * s->outputs;
    return x && w
               ? op_dense(&op_conv, 2, (zl_array[]){x, w}, 2 + 5 * axes, arg, zl_dtype_of(x), axes + 2, dim)
               : NULL;
}

static zl_array convolve(const struct sample *s, zl_array x, zl_array w, int axes) {
    int skip = AXES - axes;
    int64_t padding[2 * AXES];
    if (s->in_batch)
        return convolve_in_batch(s, x, w, axes);
    for (int i = 0; i < axes; i++) {
        padding[i] = s->low[skip + i];
        padding[axes + i] = s->high[skip + i];
    }
    return zl_conv_general(x, w, (zl_shape){s->stride + skip, axes}, (zl_shape){padding, 2 * axes},
                           (zl_shape){s->dilation + skip, axes}, (zl_shape){s->input_dilation + skip, axes},
                           (int)s->groups, s->flip);
}

static int count_wrong(const struct sample *s, zl_array y, const double *xs, const double *ws, double bound) {
    int64_t out[RANK] = {s->batch, output_size(s, 0), output_size(s, 1), output_size(s, 2),
                         s->groups * s->outputs};
    double *ys = values_of(y);
    int wrong = !CHECK_EQ_INT(y->size, out[0] * out[1] * out[2] * out[3] * out[4]);
    for (int64_t i = 0; i < y->size && wrong < 3; i++) {
        int64_t at[RANK], rest = i;
        for (int k = RANK - 1; k >= 0; rest /= out[k], k--)
            at[k] = rest % out[k];
        wrong += !CHECK_NEAR(ys[i], expected(s, xs, ws, at), bound);
    }
    free(ys);
    return wrong;
}

static void check_values(const struct sample *s, zl_array x, zl_array w, zl_array y, double bound) {
    double *xs = values_of(x), *ws = values_of(w);
    if (count_wrong(s, y, xs, ws, bound))
        test_note("input %s, kernel %s, %d groups of %s, %s", array_text(x), array_text(w), (int)s->groups,
                  s->in_batch ? "the batch" : "channels", zl_dtype_name((zl_dtype)x->dtype));
    free(xs);
    free(ws);
}

static void sizes_of(const struct sample *s, int axes, int64_t *x_dim, int64_t *w_dim) {
    x_dim[0] = s->in_batch ? s->groups * s->batch : s->batch;
    w_dim[0] = s->outputs * s->groups;
    for (int i = 0; i < axes; i++) {
        x_dim[i + 1] = s->in[AXES - axes + i];
        w_dim[i + 1] = s->kernel[AXES - axes + i];
    }
    x_dim[axes + 1] = s->in_batch ? s->channels : s->channels * s->groups;
    w_dim[axes + 1] = s->channels;
}

static void check_sample(const struct sample *s, int axes, zl_dtype dtype, int layout) {
    if (!test_samples(4))
        return;
    int64_t x_dim[RANK], w_dim[RANK];
    sizes_of(s, axes, x_dim, w_dim);
    zl_array x = some((zl_shape){x_dim, axes + 2}, dtype), w = some((zl_shape){w_dim, axes + 2}, dtype);
    zl_array y = convolve(s, as_layout(x, layout), as_layout(w, layout), axes);
    double bound = dtype == ZL_FLOAT16 ? 0.02 : dtype == ZL_BFLOAT16 ? 0.15 : 1e-5;
    if (CHECK(y != NULL))
        check_values(s, x, w, y, bound * (1 + sqrt((double)(w->size / w->dim[0]))));
    else
        test_note("%s", zl_error());
}

static struct sample some_sample(int axes) {
    struct sample s = {.batch = test_between(1, 3), .flip = test_between(0, 1)};
    bool depthwise = test_between(0, 2) == 0;
    s.groups = depthwise ? test_between(2, 9) : test_between(0, 1) ? 1 : test_between(2, 3);
    s.channels = depthwise ? 1 : test_between(1, 5);
    s.outputs = depthwise ? 1 : test_between(1, 6);
    s.in_batch = s.groups > 1 && test_between(0, 1);
    for (int i = 0; i < AXES; i++) {
        bool is = i >= AXES - axes;
        s.kernel[i] = is ? test_between(1, 4) : 1;
        s.dilation[i] = is ? test_between(1, 3) : 1;
        s.input_dilation[i] = is && test_between(0, 1) ? test_between(1, 3) : 1;
        s.stride[i] = is ? test_between(1, 3) : 1;
        s.low[i] = is ? test_between(0, 4) : 0;
        s.high[i] = is ? test_between(0, 4) : 0;
        s.in[i] = is ? test_between(10, 14) : 1;
    }
    return s;
}

TEST(conv_is_a_sum_of_products) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    int rounds = test_quick() ? 40 : 300;
    for (int i = 0; i < rounds; i++)
        ZL_SCOPE {
            int axes = 1 + (i % 8 == 7 ? 2 : i % 2);
            struct sample s = some_sample(axes);
            check_sample(&s, axes, dtypes[test_between(0, 3)], (int)test_between(0, 3));
        }
}

// Such a convolution is a matrix product if there are no groups, gaps or padding. Large matrices are read in
// place if outputs or channels are contiguous.
TEST(conv_by_kernels_of_one_element) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < 64; i++)
        ZL_SCOPE {
            int axes = 1 + i % 3;
            struct sample s = some_sample(axes);
            for (int k = AXES - axes; k < AXES; k++) {
                s.kernel[k] = 1;
                s.stride[k] = 1 + (i % 8 == 4);
                s.low[k] = i % 8 == 5;
                s.high[k] = i % 8 == 6;
                s.input_dilation[k] = 1 + (i % 8 == 7);
            }
            s.groups = i % 4 == 3 ? s.groups : 1;
            if (i >= 32)
                s.groups = MIN_OF(s.groups, 2), s.channels = test_between(20, 60),
                s.outputs = test_between(30, 50);
            check_sample(&s, axes, dtypes[(i + i / 4) % 4], i < 32 ? i % 3 : i / 3 % 4);
        }
}

// From one channel to one: rows that take several pieces, or are shorter than the padding or the kernel.
TEST(conv_of_lines) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    static const int64_t sizes[][4] = {
        {2500, 64, 63, 63}, {1030, 3, 1, 1}, {40, 1, 0, 0}, {5, 9, 20, 3}, {70, 30, 0, 9}};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++)
        ZL_SCOPE {
            const int64_t *size = sizes[i / 2];
            struct sample s = some_sample(2);
            s.batch = s.channels = s.outputs = s.groups = s.stride[2] = s.input_dilation[2] = 1;
            s.in_batch = false;
            s.dilation[2] = i % 2 ? 2 : 1;
            s.in[2] = size[0] + (i % 2 ? size[1] : 0);
            s.kernel[2] = size[1];
            s.low[2] = size[2];
            s.high[2] = size[3];
            check_sample(&s, 2, dtypes[i % 4], (int)(i % 3));
        }
}

// Enough channels to be packed tap by tap, with all strides and dilations; taps that take several chunks.
TEST(conv_of_panels) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < (test_quick() ? 8 : 60); i++)
        ZL_SCOPE {
            int axes = 1 + i % 2;
            struct sample s = some_sample(axes);
            s.groups = 1 + i % 3 / 2;
            s.in_batch = s.groups > 1 && i / 3 % 2;
            s.channels = test_between(4, 9) * 4 + (i % 5 == 0);
            s.outputs = test_between(4, 30);
            check_sample(&s, axes, dtypes[i % 4], (int)test_between(0, 3));
        }
    struct sample s = some_sample(1);
    s.in_batch = false, s.groups = 1, s.channels = 700, s.outputs = 10, s.kernel[2] = 3;
    ZL_SCOPE
        check_sample(&s, 1, ZL_FLOAT32, 0);
}

// Enough outputs to fill vectors and tiles, shorter rows, and channels that fill vectors or hardly any.
TEST(conv_of_many_outputs) {
    static const zl_dtype dtypes[] = {ZL_BFLOAT16, ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16};
    static const int64_t channels[] = {32, 3, 64, 17};
    for (int i = 0; i < (test_long() ? 80 : test_quick() ? 12 : 24); i++)
        ZL_SCOPE {
            int axes = 1 + i % 3;
            struct sample s = some_sample(axes);
            s.groups = 1 + i % 5 / 4;
            s.in_batch = false;
            s.channels = channels[i % 4];
            s.outputs = test_between(16, 90);
            for (int axis = AXES - axes; axis < AXES; axis++) {
                s.kernel[axis] = test_between(1, 3);
                s.stride[axis] = i / 2 % 2 ? 1 : test_between(1, 2);
                s.input_dilation[axis] = 1;
                int64_t reach = span(s.kernel[axis], s.dilation[axis]);
                int64_t size = axes == 3 ? test_between(5, 8) : test_between(7, 19);
                s.in[axis] = MAX_OF(reach, size);
            }
            check_sample(&s, axes, dtypes[i % 4], (int)test_between(0, 3));
        }
}

// Gaps between elements of the input, also wider than the kernel, so that a part of the output is 0; along
// some axes none.
TEST(conv_of_inputs_with_gaps) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    for (int i = 0; i < (test_quick() ? 12 : 100); i++)
        ZL_SCOPE {
            int axes = 1 + i % 3;
            struct sample s = some_sample(axes);
            for (int axis = AXES - axes; axis < AXES; axis++) {
                s.input_dilation[axis] = test_between(1, 5);
                s.stride[axis] = s.input_dilation[axis] > 1 ? 1 : test_between(1, 2);
                s.in[axis] = test_between(4, 7);
                s.dilation[axis] = test_between(1, 2);
                s.low[axis] += s.kernel[axis]; // so that the kernel fits
            }
            if (i % 4 == 0)
                s.in_batch = false, s.groups = 1, s.channels = 20, s.outputs = 9;
            check_sample(&s, axes, dtypes[test_between(0, 3)], (int)test_between(0, 3));
        }
}

// Sizes of several tiles, with partial columns, rows of channels that take several blocks, plain products.
TEST(conv_of_large_arrays) {
    struct sample s = {.batch = 2, .channels = 24, .outputs = 140, .groups = 1};
    for (int i = 0; i < AXES; i++) {
        s.in[i] = i ? 22 : 1;
        s.kernel[i] = i ? 3 : 1;
        s.stride[i] = s.dilation[i] = s.input_dilation[i] = 1;
        s.low[i] = s.high[i] = i > 0;
    }
    ZL_SCOPE
        check_sample(&s, 2, ZL_FLOAT32, 0);
    s.in[1] = s.in[2] = 13;
    ZL_SCOPE
        check_sample(&s, 2, ZL_BFLOAT16, 0);
    s.in[1] = s.in[2] = 22;
    s.channels = s.outputs = 1;
    s.groups = 600;
    ZL_SCOPE
        check_sample(&s, 2, ZL_FLOAT16, 0);
    s.groups = 2;
    s.channels = s.outputs = 9;
    s.kernel[1] = s.kernel[2] = 1;
    s.low[1] = s.low[2] = s.high[1] = s.high[2] = 0;
    for (int i = 0; i < 2; i++)
        ZL_SCOPE {
            s.in_batch = i;
            check_sample(&s, 2, ZL_FLOAT32, 0);
        }
}

// A kernel of three by three per channel: two rows at a time, of all widths, with and without padding.
TEST(conv_of_channels_by_lines) {
    for (int64_t width = 1; width < 12; width++)
        for (int64_t low = 0; low < 4; low++)
            ZL_SCOPE {
                struct sample s = {
                    .batch = 2, .channels = 1, .outputs = 1, .groups = low == 3 ? 6 : 4 * (1 + low)};
                for (int i = 0; i < AXES; i++) {
                    s.in[i] = i == 0 ? 1 : i == 1 ? test_between(3, 9) : width;
                    s.kernel[i] = i ? 3 : 1;
                    s.stride[i] = s.dilation[i] = s.input_dilation[i] = 1;
                    s.low[i] = i ? low : 0;
                    s.high[i] = i == 2 && width < 3 ? 2 : i;
                }
                check_sample(&s, 2, ZL_FLOAT32, (int)test_between(0, 2));
            }
}

// As in gradients of depthwise kernels: results smaller than the kernels, with widths that are whole vectors
// or not; some so large that they are added up in parts.
TEST(conv_of_channels_by_large_kernels) {
    for (int i = 0; i < (test_quick() ? 40 : 400); i++)
        ZL_SCOPE {
            int axes = 1 + i % 3;
            struct sample s = some_sample(axes);
            s.batch = s.outputs = 1, s.channels = test_between(1, 4), s.groups = test_between(2, 21);
            s.flip = i % 5 == 4, s.in_batch = true;
            for (int axis = 0; axis < AXES; axis++) {
                bool is = axis >= AXES - MIN_OF(axes, 2);
                s.input_dilation[axis] = 1;
                s.in[axis] = !is ? 1 : i % 20 ? s.in[axis] : 40;
                s.low[axis] = is ? test_between(-1, 9) : 0;
                s.high[axis] = is ? test_between(-1, 9) : 0;
                s.dilation[axis] = is ? test_between(1, 2) : 1;
                s.kernel[axis] =
                    is ? (s.in[axis] + s.low[axis] + s.high[axis] - 1) / s.dilation[axis] - test_between(0, 2)
                       : 1;
            }
            if (axes == 3)
                s.low[0] = i / 3 % 2, s.high[0] = -s.low[0]; // or crops the whole input
            check_sample(&s, axes, i % 2 ? ZL_FLOAT32 : ZL_FLOAT64, (int)test_between(0, 3));
        }
}

TEST(conv_does_not_depend_on_threads) {
    int before = pool_threads();
    int64_t outputs = test_brief() ? 8 : 200, side = test_brief() ? 8 : 30;
    zl_array x = some(ZL_SHAPE(2, side, side, 32), ZL_FLOAT32),
             w = some(ZL_SHAPE(outputs, 3, 3, 32), ZL_FLOAT32),
             each = some(ZL_SHAPE(32, 3, 3, 1), ZL_FLOAT32), y[2], grad[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pool_set_threads(i ? 3 : 1));
        y[i] = zl_conv2d(x, w, ZL_SHAPE(1), ZL_SHAPE(1), ZL_SHAPE(1), 1);
        zl_array by_channel = zl_conv2d(x, each, ZL_SHAPE(1), ZL_SHAPE(1), ZL_SHAPE(1), 32);
        CHECK(zl_grad(zl_sum(zl_square(by_channel)), 1, &each, &grad[i]));
        CHECK(zl_eval_all(2, (zl_array[]){y[i], grad[i]}));
    }
    CHECK(pool_set_threads(before));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(y[0], y[1], false)), 1);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(grad[0], grad[1], false)), 1);
}

static double inner(zl_array a, zl_array b) {
    return zl_item(zl_sum(zl_multiply(a, b)));
}

// A convolution is linear in its input and in its kernels, so its transpose is the same for all values of the
// other. With gaps in the input or not, strides or not, and kernels flipped or not.
TEST(conv_gradients_are_transposes) {
    for (int i = 0; i < (test_quick() ? 48 : 400); i++)
        if (test_samples(6))
            ZL_SCOPE {
                int axes = 1 + i % 3;
                struct sample s = some_sample(axes);
                int64_t x_dim[RANK], w_dim[RANK];
                for (int axis = 0; axis < AXES; axis++)
                    s.stride[axis] = i / 3 % 2 ? s.stride[axis] : 1;
                sizes_of(&s, axes, x_dim, w_dim);
                zl_array in[2], other[2], grad[2] = {NULL, NULL};
                for (int k = 0; k < 2; k++) {
                    in[k] = some((zl_shape){k ? w_dim : x_dim, axes + 2}, ZL_FLOAT64);
                    other[k] = some((zl_shape){k ? w_dim : x_dim, axes + 2}, ZL_FLOAT64);
                }
                zl_array y = convolve(&s, in[0], in[1], axes),
                         g = some((zl_shape){y->dim, y->ndim}, ZL_FLOAT64);
                if (!CHECK(zl_grad(zl_sum(zl_multiply(y, g)), 2, in, grad)))
                    continue;
                double bound = 1e-12 * (double)(in[0]->size + y->size);
                CHECK_NEAR(inner(grad[0], other[0]), inner(g, convolve(&s, other[0], in[1], axes)), bound);
                CHECK_NEAR(inner(grad[1], other[1]), inner(g, convolve(&s, in[0], other[1], axes)), bound);
            }
}

// The gradient has the layout of the kernels, since an optimiser reads both together.
TEST(gradients_of_kernels_lie_as_kernels_do) {
    zl_array x = some(ZL_SHAPE(2, 9, 10, 6), ZL_FLOAT32), w = some(ZL_SHAPE(5, 3, 2, 6), ZL_FLOAT32), grad;
    zl_array y = zl_conv2d(x, w, ZL_SHAPE(2, 1), ZL_SHAPE(1), ZL_SHAPE(1), 1);
    REQUIRE(zl_grad(zl_sum(zl_square(y)), 1, &w, &grad) && zl_eval(grad));
    CHECK(zl_is_contiguous(grad));
}

TEST(conv_of_complex_numbers) {
    zl_array x = op_test_random(ZL_SHAPE(2, 5, 3), ZL_FLOAT32, -1, 1),
             w = op_test_random(ZL_SHAPE(2, 2, 3), ZL_FLOAT32, -1, 1);
    zl_array i = zl_scalar_complex(0, 1), y = zl_conv1d(zl_multiply(x, i), zl_multiply(w, i), 1, 1, 1, 1);
    CHECK_EQ_INT(zl_dtype_of(y), ZL_COMPLEX64);
    CHECK_EQ_INT(
        zl_item_int(zl_allclose(zl_real(y), zl_negative(zl_conv1d(x, w, 1, 1, 1, 1)), 1e-5, 1e-5, false)), 1);
}

TEST(conv_functions_read_their_numbers) {
    zl_array x = op_test_range(ZL_SHAPE(1, 4, 4, 1), ZL_FLOAT32),
             w = zl_ones(ZL_SHAPE(1, 2, 2, 1), ZL_FLOAT32);
    REQUIRE(zl_eval_all(2, (zl_array[]){x, w}));
    CHECK_ARRAY(zl_conv2d(x, w, ZL_SHAPE(2), ZL_SHAPE(0), ZL_SHAPE(1), 1), ZL_FLOAT32, ZL_SHAPE(1, 2, 2, 1),
                10, 18, 42, 50);
    CHECK_ARRAY(zl_conv2d(x, w, ZL_SHAPE(3, 2), ZL_NO_SHAPE, ZL_SHAPE(1, 2), 1), ZL_FLOAT32,
                ZL_SHAPE(1, 1, 1, 1), 12);
    zl_array a = zl_from_f32((float[]){1, 2, 3}, ZL_SHAPE(3)), v = zl_from_f32((float[]){1, 10}, ZL_SHAPE(2));
    CHECK_ARRAY(zl_convolve(a, v, "full"), ZL_FLOAT32, ZL_SHAPE(4), 1, 12, 23, 30);
    CHECK_ARRAY(zl_convolve(v, a, "same"), ZL_FLOAT32, ZL_SHAPE(3), 1, 12, 23);
    CHECK_ARRAY(zl_convolve(a, v, "valid"), ZL_FLOAT32, ZL_SHAPE(2), 12, 23);
    zl_array line = zl_reshape(a, ZL_SHAPE(1, 3, 1)), two = zl_reshape(v, ZL_SHAPE(1, 2, 1));
    CHECK_ARRAY(zl_conv_transpose1d(line, two, 2, 0, 1, 0, 1), ZL_FLOAT32, ZL_SHAPE(1, 6, 1), 1, 10, 2, 20, 3,
                30);
    CHECK_ARRAY(zl_conv_transpose1d(line, two, 2, 0, 1, 1, 1), ZL_FLOAT32, ZL_SHAPE(1, 7, 1), 1, 10, 2, 20, 3,
                30, 0);
    CHECK_ARRAY(zl_conv_general(line, two, ZL_NO_SHAPE, ZL_SHAPE(-1, 1), ZL_NO_SHAPE, ZL_NO_SHAPE, 1, false),
                ZL_FLOAT32, ZL_SHAPE(1, 2, 1), 32, 3);
    zl_array cube = zl_ones(ZL_SHAPE(1, 2, 2, 2, 1), ZL_FLOAT32);
    REQUIRE(zl_eval(cube));
    CHECK_ARRAY(zl_conv3d(cube, cube, ZL_SHAPE(1), ZL_SHAPE(0), ZL_SHAPE(1), 1), ZL_FLOAT32,
                ZL_SHAPE(1, 1, 1, 1, 1), 8);
    CHECK_EQ_INT(zl_size(zl_conv_transpose2d(x, w, ZL_SHAPE(2), ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(0), 1)),
                 64);
    CHECK_EQ_INT(
        zl_size(zl_conv_transpose3d(cube, cube, ZL_SHAPE(2), ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(1), 1)), 125);
}

TEST(groups_of_convolutions_are_held_against_sizes) {
    static const struct {
        int64_t groups, x[3], w[3];
        bool fits;
    } cases[] = {{2, {3, 5, 4}, {6, 2, 2}, true},         {2, {3, 5, 4}, {5, 2, 2}, false},
                 {2, {3, 5, 4}, {6, 2, 4}, false},        {0, {3, 5, 4}, {6, 2, 4}, false},
                 {-2, {4, 5, 3}, {6, 2, 3}, true},        {-2, {3, 5, 3}, {6, 2, 3}, false},
                 {-2, {4, 5, 3}, {5, 2, 3}, false},       {-2, {4, 5, 6}, {6, 2, 3}, false},
                 {INT64_MIN, {4, 5, 3}, {6, 2, 3}, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        zl_array in[] = {zl_ones((zl_shape){cases[i].x, 3}, ZL_FLOAT32),
                         zl_ones((zl_shape){cases[i].w, 3}, ZL_FLOAT32)},
                 out;
        int64_t arg[] = {cases[i].groups, 0, 1, 0, 0, 1, 1};
        struct array_spec spec = {.dtype = ZL_FLOAT32, .ndim = 3, .dim = cases[i].x};
        zl_array y = graph_call(&op_conv, 2, in, COUNT(arg), arg, 1, &spec);
        CHECK(y && op_replay("f", y->call, in, &out) == cases[i].fits);
        zl_clear_error();
    }
}

TEST(conv_of_nothing) {
    zl_array w = zl_ones(ZL_SHAPE(2, 3, 1), ZL_FLOAT32);
    REQUIRE(zl_eval(w));
    CHECK_EMPTY(zl_conv1d(zl_ones(ZL_SHAPE(0, 4, 1), ZL_FLOAT32), w, 1, 0, 1, 1), ZL_FLOAT32,
                ZL_SHAPE(0, 2, 2));
    CHECK_ARRAY(zl_conv1d(zl_ones(ZL_SHAPE(1, 0, 1), ZL_FLOAT32), w, 1, 2, 1, 1), ZL_FLOAT32,
                ZL_SHAPE(1, 2, 2), 0, 0, 0, 0);
    zl_array none = zl_ones(ZL_SHAPE(1, 3, 0), ZL_FLOAT32);
    CHECK_ARRAY(zl_conv1d(none, none, 1, 0, 1, 1), ZL_FLOAT32, ZL_SHAPE(1, 1, 1), 0);
    CHECK_EMPTY(
        zl_conv1d(zl_ones(ZL_SHAPE(1, 4, 1), ZL_FLOAT32), zl_ones(ZL_SHAPE(0, 3, 1), ZL_FLOAT32), 1, 0, 1, 1),
        ZL_FLOAT32, ZL_SHAPE(1, 2, 0));
}

TEST(conv_says_what_does_not_fit) {
    zl_array x = zl_ones(ZL_SHAPE(1, 4, 2), ZL_FLOAT32), w = zl_ones(ZL_SHAPE(3, 2, 2), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_conv2d(x, w, ZL_SHAPE(1), ZL_SHAPE(0), ZL_SHAPE(1), 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_conv1d(x, zl_ones(ZL_SHAPE(3, 2, 1), ZL_FLOAT32), 1, 0, 1, 1));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_conv1d(x, zl_ones(ZL_SHAPE(3, 2, 1), ZL_FLOAT32), 1, 0, 1, 2));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_conv1d(x, zl_ones(ZL_SHAPE(3, 5, 2), ZL_FLOAT32), 2, 0, 1, 1));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_conv1d(zl_astype(x, ZL_INT32), w, 1, 0, 1, 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_conv1d(x, w, 0, 0, 1, 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_conv1d(x, w, 1, 0, 0, 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_conv1d(x, w, 1, 0, 1, 0));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_conv_general(x, w, ZL_SHAPE(1, 1), ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(1), 1, false));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_conv_general(x, w, ZL_SHAPE(1), ZL_SHAPE(0), ZL_SHAPE(1), ZL_SHAPE(0), 1, false));
    CHECK_ERROR(ZL_ERROR_VALUE,
                zl_convolve(zl_ones(ZL_SHAPE(3), ZL_FLOAT32), zl_ones(ZL_SHAPE(3), ZL_FLOAT32), "half"));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_convolve(x, w, "full"));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_conv1d(zl_ones(ZL_SHAPE(3, 2), ZL_FLOAT32),
                                          zl_ones(ZL_SHAPE(3, 2), ZL_FLOAT32), 1, 0, 1, 1));
    CHECK(zl_conv1d(NULL, w, 1, 0, 1, 1) == NULL);
}

// Rules -----------------------------------------------------------------------------------------------------

static zl_array constant(int64_t count, zl_shape shape) {
    return zl_reshape(zl_sin(zl_arange(0, (double)count, 1, ZL_FLOAT64)), shape);
}

RULES(conv_by_input, ZL_SHAPE(2, 7, 4),
      zl_conv_general(x, constant(36, ZL_SHAPE(6, 3, 2)), ZL_SHAPE(2), ZL_SHAPE(1, 3), ZL_SHAPE(2),
                      ZL_SHAPE(1), 2, false))
RULES(conv_by_kernel, ZL_SHAPE(6, 3, 2),
      zl_conv_general(constant(56, ZL_SHAPE(2, 7, 4)), x, ZL_SHAPE(2), ZL_SHAPE(1, 3), ZL_SHAPE(2),
                      ZL_SHAPE(1), 2, true))
RULES(conv_dilated, ZL_SHAPE(1, 4, 5, 2),
      zl_conv_general(x, constant(36, ZL_SHAPE(3, 3, 2, 2)), ZL_SHAPE(3, 2), ZL_SHAPE(4, 0, 1, 2),
                      ZL_SHAPE(1, 2), ZL_SHAPE(2, 3), 1, true))
RULES(conv_dilated_by_kernel, ZL_SHAPE(3, 3, 2, 2),
      zl_conv_general(constant(40, ZL_SHAPE(1, 4, 5, 2)), x, ZL_SHAPE(3, 2), ZL_SHAPE(4, 0, 1, 2),
                      ZL_SHAPE(1, 2), ZL_SHAPE(2, 3), 1, false))
RULES(conv_cropped, ZL_SHAPE(1, 6, 2),
      zl_conv_general(x, constant(12, ZL_SHAPE(2, 3, 2)), ZL_SHAPE(2), ZL_SHAPE(-1, 4), ZL_SHAPE(1),
                      ZL_SHAPE(1), 1, false))
RULES(conv_transposed, ZL_SHAPE(1, 4, 3),
      zl_conv_transpose1d(x, constant(18, ZL_SHAPE(2, 3, 3)), 2, 1, 1, 1, 1))
RULES(conv_of_both, ZL_SHAPE(2, 3, 2), zl_conv1d(x, zl_multiply(x, x), 1, 1, 1, 1))
RULES(conv_of_volumes, ZL_SHAPE(1, 3, 3, 3, 1),
      zl_conv3d(x, constant(16, ZL_SHAPE(2, 2, 2, 2, 1)), ZL_SHAPE(1), ZL_SHAPE(1), ZL_SHAPE(1), 1))
RULES(conv_of_points, ZL_SHAPE(2, 3, 4, 3),
      zl_conv2d(x, constant(6, ZL_SHAPE(2, 1, 1, 3)), ZL_SHAPE(1), ZL_SHAPE(0), ZL_SHAPE(1), 1))
RULES(conv_of_points_by_kernel, ZL_SHAPE(2, 1, 1, 3),
      zl_conv2d(constant(72, ZL_SHAPE(2, 3, 4, 3)), x, ZL_SHAPE(1), ZL_SHAPE(0), ZL_SHAPE(1), 1))
RULES(conv_depthwise, ZL_SHAPE(2, 6, 3), zl_conv1d(x, constant(9, ZL_SHAPE(3, 3, 1)), 1, 1, 1, 3))

// A convolution with groups in the batch: its rules for derivatives and batches. Differentiating the gradient
// of kernels uses them.
static zl_array in_batch(zl_array x, zl_array w) {
    static const struct sample s = {.batch = 2,
                                    .channels = 3,
                                    .outputs = 2,
                                    .groups = 2,
                                    .in = {1, 1, 7},
                                    .kernel = {1, 1, 3},
                                    .stride = {1, 1, 2},
                                    .low = {0, 0, 1},
                                    .high = {0, 0, 3},
                                    .dilation = {1, 1, 2},
                                    .input_dilation = {1, 1, 1},
                                    .in_batch = true};
    return convolve(&s, x, w, 1);
}

static zl_array start_of(zl_array x) {
    return zl_slice(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(4, 3, 3), ZL_SHAPE(1, 1, 1));
}

// Returns both gradients of the sum of squares of y, concatenated.
static zl_array gradients(zl_array y, zl_array x, zl_array w) {
    zl_array grad[2];
    if (!zl_grad(zl_sum(zl_square(y)), 2, (zl_array[]){x, w}, grad))
        return NULL;
    return zl_concatenate((zl_array[]){zl_flatten(grad[0], 0, -1), zl_flatten(grad[1], 0, -1)}, 2, 0);
}

static zl_array gradients_in_batch(zl_array x, zl_array w) {
    return gradients(in_batch(x, w), x, w);
}

static zl_array gradients_of_depthwise(zl_array x, zl_array w, int64_t stride, int64_t gaps) {
    zl_array y =
        zl_conv_general(x, w, ZL_SHAPE(stride), ZL_SHAPE(2, 3), ZL_SHAPE(1), ZL_SHAPE(gaps), 3, false);
    return gradients(y, x, w);
}

RULES(conv_in_batch_by_input, ZL_SHAPE(4, 7, 3), in_batch(x, constant(36, ZL_SHAPE(4, 3, 3))))
RULES(conv_in_batch_by_kernel, ZL_SHAPE(4, 3, 3), in_batch(constant(84, ZL_SHAPE(4, 7, 3)), x))
RULES(conv_in_batch_of_both, ZL_SHAPE(4, 7, 3), in_batch(x, start_of(x)))
RULES(conv_in_batch_twice, ZL_SHAPE(4, 7, 3), gradients_in_batch(x, zl_square(start_of(x))))
RULES(conv_depthwise_twice, ZL_SHAPE(2, 6, 3),
      gradients_of_depthwise(x, constant(9, ZL_SHAPE(3, 3, 1)), 2, 1))
RULES(conv_depthwise_twice_by_kernel, ZL_SHAPE(3, 3, 1),
      gradients_of_depthwise(constant(36, ZL_SHAPE(2, 6, 3)), x, 1, 2))
