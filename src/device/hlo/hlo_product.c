// hlo_product.c - renders products of matrices and convolutions. Those of f32 are computed in f32.

#include "device/hlo/hlo.h"

#include <string.h>

static zl_dtype wide_of(zl_dtype dtype) {
    return tile_reduce_gives(dtype);
}

// By the estimates of libtpu 0.0.51, a bf16 product of one row becomes a loop without the matrix unit: on v6e
// it takes 3.4 times the cycles of eight rows, on v5e 2.9, and on v4 and v5p 11 (bench/results/pjrt.md).
// Padded with seven rows of zeros, it takes no more than eight rows. TPU7x needs no padding.
static const struct {
    const char *part; // of the chip's name ("TPU v5 lite", "TPU v5") or topology ("v5e:2x2", "v5p:2x2x1")
    struct hlo_target target;
} targets[] = {{"v4", {.least_lines = 8}},
               {"v5", {.least_lines = 8}},
               {"v6", {.least_lines = 8}},
               {"cpu", {.overwrites_early = true}}};

const struct hlo_target *hlo_target_of(const char *chip) {
    for (size_t i = 0; i < COUNT(targets); i++)
        if (strstr(chip, targets[i].part))
            return &targets[i].target;
    return NULL;
}

static struct hlo_tensor multiply_dense(struct hlo_module *m, struct hlo_tensor a, struct hlo_tensor b,
                                        zl_dtype dtype) {
    int64_t batch[HLO_AXES], from_a[] = {a.ndim - 1}, from_b[] = {b.ndim - 2};
    int axes = a.ndim - 2;
    struct hlo_tensor y = hlo_type(dtype, a.ndim, a.dim);
    for (int i = 0; i < axes; i++)
        batch[i] = i;
    y.dim[y.ndim - 1] = b.dim[b.ndim - 1];
    for (int i = 0; i < y.ndim; i++)
        y.real[i] = i < y.ndim - 1 ? a.real[i] : b.real[i];
    if (a.dim[a.ndim - 1] != b.dim[b.ndim - 2])
        hlo_refuse(m, "a product over a size that varies and one that does not");
    bool is_bounded = a.real[a.ndim - 1] || b.real[b.ndim - 2];
    if (is_bounded && !b.real[b.ndim - 2])
        b.real[b.ndim - 2] = a.real[a.ndim - 1];
    if (is_bounded && !a.real[a.ndim - 1])
        a.real[a.ndim - 1] = b.real[b.ndim - 2];
    a = hlo_fill_axis(m, a, a.ndim - 1, hlo_number(m, a.dtype, 0));
    b = hlo_fill_axis(m, b, b.ndim - 2, hlo_number(m, b.dtype, 0));
    hlo_writer(m)->bounded_ok++;
    hlo_emit(m, &y,
             "stablehlo.dot_general %v, %v, batching_dims = [%l] x [%l], contracting_dims = [%l] x [%l], "
             "precision = [HIGHEST, HIGHEST] : "
             "(%t, %t) -> %t",
             &a, &b, axes, batch, axes, batch, 1, from_a, 1, from_b, &a, &b, &y);
    hlo_writer(m)->bounded_ok--;
    return y;
}

// Returns x with zeros appended to an axis of size 1, if products of the target need more elements along it.
static struct hlo_tensor widen(struct hlo_module *m, struct hlo_tensor x, int axis) {
    int64_t none[HLO_RANK] = {0}, high[HLO_RANK] = {0},
            more = hlo_writer(m)->target.least_lines - x.dim[axis];
    high[axis] = more;
    return x.dim[axis] != 1 || more <= 0 || hlo_is_bounded(&x)
               ? x
               : hlo_pad(m, x, hlo_number(m, x.dtype, 0), none, high, none);
}

struct hlo_tensor hlo_multiply(struct hlo_module *m, struct hlo_tensor a, struct hlo_tensor b,
                               zl_dtype dtype) {
    int row = a.ndim - 2, column = a.ndim - 1;
    int64_t rows = a.dim[row], columns = b.dim[column];
    struct hlo_tensor y = multiply_dense(m, widen(m, a, row), widen(m, b, column), dtype);
    return hlo_cut(m, hlo_cut(m, y, row, 0, rows), column, 0, columns);
}

// Compilers sum products of 16-bit floats in f32 and round once, even if the product is requested in 16 bits.
// Then they need not write it in f32, and on v6e slice a lone row off as part of the product: 167,833 cycles
// instead of 169,044.
static zl_dtype sum_of(struct hlo_tensor a, struct hlo_tensor b, zl_dtype dtype) {
    bool is_half = dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT16;
    return is_half && a.dtype == dtype && b.dtype == dtype ? dtype : wide_of(dtype);
}

bool hlo_matmul(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                struct hlo_tensor *out) {
    zl_dtype dtype = (zl_dtype)call_first(c)->dtype;
    out[0] = hlo_cast(m, hlo_multiply(m, in[0], in[1], sum_of(in[0], in[1], dtype)), dtype);
    return true;
}

// Sets x to zero except along an axis from one number to before another. The numbers have one more axis at
// the beginning, which the result has too.
static struct hlo_tensor keep_between(struct hlo_module *m, struct hlo_tensor x, int axis,
                                      struct hlo_tensor from, struct hlo_tensor to) {
    struct hlo_tensor place = hlo_iota(m, from.dtype, x.ndim, x.dim, axis);
    struct hlo_tensor is_in =
        hlo_binary(m, TILE_AND, hlo_binary(m, TILE_LE, from, place), hlo_binary(m, TILE_LT, place, to));
    return hlo_choose(m, is_in, x, hlo_number(m, x.dtype, 0));
}

// Outside of a segment, both factors are set to zero: if only one were, infinities in the other would give
// NaN.
bool hlo_segmented_mm(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                      struct hlo_tensor *out) {
    zl_array y = call_first(c);
    zl_dtype dtype = (zl_dtype)y->dtype;
    int64_t pairs[] = {hlo_size(&in[2]) / 2, 2}, column[] = {pairs[0], 1, 1};
    struct hlo_tensor list = hlo_reshape(m, in[2], 2, pairs), end[2], x[2];
    for (int i = 0; i < 2; i++)
        end[i] = hlo_reshape(m, hlo_cut(m, list, 1, i, i + 1), 3, column);
    for (int i = 0; i < 2; i++)
        x[i] = keep_between(m, in[i], 1 - i, end[0], end[1]);
    struct hlo_tensor product = hlo_multiply(m, x[0], x[1], wide_of(dtype));
    out[0] = hlo_cast(m, hlo_reshape(m, product, y->ndim, y->dim), dtype);
    return true;
}

bool hlo_matmul_int8(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                     struct hlo_tensor *out) {
    (void)c;
    out[0] = hlo_multiply(m, in[0], in[1], ZL_INT32);
    return true;
}

// Renders alpha times the product plus beta times the third input, rounded once.
bool hlo_addmm(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
               struct hlo_tensor *out) {
    zl_array y = call_first(c);
    zl_dtype wide = wide_of((zl_dtype)y->dtype);
    double alpha = op_arg_double(call_args(c)[ADDMM_ALPHA]), beta = op_arg_double(call_args(c)[ADDMM_BETA]);
    struct hlo_tensor x = hlo_multiply(m, in[0], in[1], wide);
    if (alpha != 1)
        x = hlo_binary(m, TILE_MUL, x, hlo_number(m, wide, alpha));
    if (beta != 0) {
        struct hlo_tensor added = hlo_fit(m, hlo_cast(m, in[2], wide), y->ndim, y->dim);
        x = hlo_binary(m, TILE_ADD, x,
                       beta == 1 ? added : hlo_binary(m, TILE_MUL, added, hlo_number(m, wide, beta)));
    }
    out[0] = hlo_cast(m, x, (zl_dtype)y->dtype);
    return true;
}

static void add_places(struct hlo_module *m, const char *first, int axes, const char *last) {
    hlo_add(m, "[%s", first);
    for (int i = 0; i < axes; i++)
        hlo_add(m, ", %d", i);
    hlo_add(m, ", %s]", last);
}

static void add_numbers(struct hlo_module *m, const char *name, const struct conv *v, size_t member) {
    int64_t list[CONV_AXES];
    for (int i = 0; i < v->axes; i++)
        list[i] = *(const int64_t *)(const void *)((const char *)&v->axis[i] + member);
    hlo_add(m, "%s = [%l]", name, v->axes, list);
}

// Moves groups from the batch, (groups * N, sizes, C), to the channels, (N, sizes, groups * C).
static struct hlo_tensor groups_to_channels(struct hlo_module *m, struct hlo_tensor x, int64_t groups) {
    int64_t dim[HLO_AXES + 1] = {groups, x.dim[0] / groups};
    for (int i = 1; i < x.ndim; i++)
        dim[i + 1] = x.dim[i];
    struct hlo_tensor y = hlo_move_axis(m, hlo_reshape(m, x, x.ndim + 1, dim), 0, x.ndim - 1);
    x.dim[0] /= groups;
    x.dim[x.ndim - 1] *= groups;
    return hlo_reshape(m, y, x.ndim, x.dim);
}

bool hlo_conv(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
              struct hlo_tensor *out) {
    struct conv v = op_conv_read(c);
    zl_array like = call_first(c);
    zl_dtype wide = wide_of((zl_dtype)like->dtype);
    struct hlo_tensor x = hlo_cast(m, in[0], wide), w = hlo_cast(m, in[1], wide),
                      y = hlo_type(wide, like->ndim, like->dim);
    int64_t back[CONV_AXES];
    for (int i = 0; i < v.axes; i++)
        back[i] = i + 1;
    w = hlo_reverse(m, w, v.flip ? v.axes : 0, back);
    if (v.in_batch && v.groups > 1)
        x = groups_to_channels(m, x, v.groups);
    y.name = hlo_writer(m)->names++;
    hlo_add(m, "%v = stablehlo.convolution(%v, %v) dim_numbers = ", &y, &x, &w);
    add_places(m, "b", v.axes, "f");
    hlo_add(m, "x");
    add_places(m, "o", v.axes, "i");
    hlo_add(m, "->");
    add_places(m, "b", v.axes, "f");
    hlo_add(m, ", window = {");
    add_numbers(m, "stride", &v, offsetof(struct conv_axis, stride));
    hlo_add(m, ", pad = [");
    for (int i = 0; i < v.axes; i++)
        hlo_add(m, i ? ", [%l]" : "[%l]", 2, (int64_t[]){v.axis[i].low, v.axis[i].high});
    hlo_add(m, "], ");
    add_numbers(m, "lhs_dilate", &v, offsetof(struct conv_axis, input_dilation));
    hlo_add(m, ", ");
    add_numbers(m, "rhs_dilate", &v, offsetof(struct conv_axis, dilation));
    hlo_add(m,
            "} {feature_group_count = %d : i64, batch_group_count = 1 : i64, precision_config = "
            "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (%t, %t) -> %t\n",
            (int)v.groups, &x, &w, &y);
    out[0] = hlo_cast(m, y, (zl_dtype)like->dtype);
    return true;
}
