// quantize.c - quantised matrices: groups of numbers along the last axis share a scale.
//
// Affine: a number is scale * code + bias. The codes of the other modes are small floating-point numbers
// (four bits: e2m1; eight: e4m3), with a scale in a byte (e8m0: a power of two; nvfp4: e4m3) and no bias.
// Codes are packed into uint32, the first in the lowest bits; codes of 3, 5 and 6 bits may cross into the
// next word.
//
// Mode gguf_k is the format of llama.cpp's files in Q4_K, Q5_K and Q6_K: affine numbers, whose scales and
// biases are a few bits each times a float16 per block of 256 numbers. The scales are the bytes of these,
// block by block, as in the file. This mode is only read, not written.

#include "op/ops.h"

#include <limits.h>
#include <string.h>

// Modes -----------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int group, bits;
} modes[] = {[QUANT_AFFINE] = {"affine", 64, 4},
             [QUANT_MXFP4] = {"mxfp4", 32, 4},
             [QUANT_MXFP8] = {"mxfp8", 32, 8},
             [QUANT_NVFP4] = {"nvfp4", 16, 4},
             [QUANT_GGUF_K] = {"gguf_k", 32, 4}};

// Returns whether mode gguf_k has these groups and bits.
static bool is_k(int64_t group, int64_t bits) {
    return bits == 6 ? group == 16 : (bits == 4 || bits == 5) && group == 32;
}

int64_t op_quant_columns(const struct quantization *q, zl_array words) {
    return words->dim[words->ndim - 1] * 32 / q->bits;
}

// Returns the number of elements of scales in a row of `columns` numbers.
static int64_t row_scales(const struct quantization *q, int64_t columns) {
    int64_t groups = columns / q->group;
    return q->mode == QUANT_GGUF_K ? groups / op_k_groups(q->bits) * op_k_bytes(q->bits) : groups;
}

// Returns whether a row of `columns` numbers consists of whole groups and blocks of scales.
static bool is_whole(const struct quantization *q, int64_t columns) {
    return columns % (q->mode == QUANT_GGUF_K ? (int64_t)q->group * op_k_groups(q->bits) : q->group) == 0;
}

static bool check_numbers(const char *function, const struct quantization *q) {
    if (q->mode == QUANT_GGUF_K)
        return is_k(q->group, q->bits) || error_false(ZL_ERROR_VALUE,
                                                      "%s: groups of %d, %d bits: mode gguf_k has groups of "
                                                      "32 with 4 or 5 bits, and of 16 with 6",
                                                      function, q->group, q->bits);
    if (q->mode != QUANT_AFFINE)
        return (q->group == modes[q->mode].group && q->bits == modes[q->mode].bits) ||
               error_false(ZL_ERROR_VALUE, "%s: groups of %d, %d bits: mode %s has groups of %d and %d bits",
                           function, q->group, q->bits, modes[q->mode].name, modes[q->mode].group,
                           modes[q->mode].bits);
    if (q->group != 16 && q->group != 32 && q->group != 64 && q->group != 128)
        return error_false(ZL_ERROR_VALUE, "%s: groups of %d: 16, 32, 64 or 128 are possible", function,
                           q->group);
    return (q->bits >= 2 && q->bits <= 8 && q->bits != 7) ||
           error_false(ZL_ERROR_VALUE, "%s: %d bits: 2, 3, 4, 5, 6 or 8 are possible", function, q->bits);
}

bool op_read_quantization(const char *function, const char *mode, int group, int bits,
                          struct quantization *q) {
    for (size_t i = 0; i < COUNT(modes); i++)
        if (!strcmp(mode ? mode : "affine", modes[i].name)) {
            *q = (struct quantization){(enum quant_mode)i, group == INT_MIN ? modes[i].group : group,
                                       bits == INT_MIN ? modes[i].bits : bits};
            return check_numbers(function, q);
        }
    return error_false(ZL_ERROR_VALUE, "%s: mode '%.40s': affine, mxfp4, mxfp8, nvfp4 or gguf_k is needed",
                       function, mode);
}

bool op_check_global(const char *function, const struct quantization *q, zl_array scale) {
    if (!op_check_optional(scale))
        return false;
    if (scale && (q->mode != QUANT_NVFP4 || scale->size != 1 || scale->dtype != ZL_FLOAT32))
        return error_false(ZL_ERROR_VALUE,
                           "%s: a global scale of shape %s and %s in mode %s: one float32 number in mode "
                           "nvfp4 is possible",
                           function, array_text(scale), zl_dtype_name((zl_dtype)scale->dtype),
                           modes[q->mode].name);
    return true;
}

// Quantising ------------------------------------------------------------------------------------------------

enum { MODE, GROUP, CODE_BITS, ARGS };

// w is float16, bfloat16 or float32, and is quantised in mode affine.
static bool quantize(zl_array w, const int64_t *arg, zl_array *out) {
    OP_TEMP(int64_t, dim, 2 * w->ndim);
    if (!dim || !(w = zl_contiguous(w, false)))
        return false;
    int64_t *few = dim + w->ndim;
    for (int i = 0; i < w->ndim; i++)
        dim[i] = few[i] = w->dim[i];
    dim[w->ndim - 1] = w->dim[w->ndim - 1] / 32 * arg[CODE_BITS];
    few[w->ndim - 1] = w->dim[w->ndim - 1] / arg[GROUP];
    struct array_spec packed = {.dtype = ZL_UINT32, .ndim = w->ndim, .dim = dim};
    struct array_spec scales = {.dtype = (zl_dtype)w->dtype, .ndim = w->ndim, .dim = few};
    out[0] = graph_call(&op_quantize, 1, &w, ARGS, arg, 3, (struct array_spec[]){packed, scales, scales});
    for (int i = 1; i < 3; i++)
        out[i] = out[0] ? call_output(out[0]->call, i) : NULL;
    return out[0] != NULL;
}

static bool record_quantize(const struct call *c, const zl_array *in, zl_array *out) {
    return quantize(in[0], call_args(c), out);
}

static bool vmap_quantize(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                          int *out_axis) {
    for (int i = 0; i < 3; i++)
        out_axis[i] = axis[0] < 0 ? -1 : 0;
    zl_array w = axis[0] < 0 ? in[0] : op_batch_first(in[0], axis[0]);
    return w && quantize(w, call_args(c), out);
}

// Computes scales and biases of affine groups by other ops, whose derivatives are those of MLX. Codes have no
// derivative, as they are integers. The scale is chosen such that the end of the range that is further from
// zero is a multiple of it.
static bool formula(const struct call *c, const zl_array *in, zl_array *out) {
    const int64_t *arg = call_args(c);
    zl_array w = in[0], zero = zl_scalar(0);
    w = w ? zl_unflatten(w, -1, ZL_SHAPE(w->dim[w->ndim - 1] / arg[GROUP], arg[GROUP])) : NULL;
    zl_array high = zl_astype(zl_max_axis(w, -1, false), ZL_FLOAT32);
    zl_array low = zl_astype(zl_min_axis(w, -1, false), ZL_FLOAT32);
    zl_array below = zl_greater(zl_abs(low), zl_abs(high)), edge = zl_where(below, low, high);
    zl_array steps = zl_scalar((double)((1 << arg[CODE_BITS]) - 1));
    zl_array size = zl_maximum(zl_divide(zl_subtract(high, low), steps), zl_scalar(1e-7f));
    zl_array scale = zl_where(below, size, zl_negative(size)), code = zl_round(zl_divide(edge, scale), 0);
    zl_array is_zero = zl_equal(code, zero);
    zl_array scales = zl_where(is_zero, scale, zl_divide(edge, code)), biases = zl_where(is_zero, zero, edge);
    return w && (out[1] = zl_astype(scales, (zl_dtype)w->dtype)) &&
           (out[2] = zl_astype(biases, (zl_dtype)w->dtype));
}

static bool is_affine(const int64_t *arg) {
    bool bits = arg[CODE_BITS] >= 2 && arg[CODE_BITS] <= 8 && arg[CODE_BITS] != 7;
    return arg[MODE] == QUANT_AFFINE && bits &&
           (arg[GROUP] == 16 || arg[GROUP] == 32 || arg[GROUP] == 64 || arg[GROUP] == 128);
}

bool op_is_quantization(const int64_t *arg) {
    if (arg[MODE] == QUANT_AFFINE || !op_is_among(arg[MODE], COUNT(modes)))
        return is_affine(arg);
    if (arg[MODE] == QUANT_GGUF_K)
        return is_k(arg[GROUP], arg[CODE_BITS]);
    return arg[GROUP] == modes[arg[MODE]].group && arg[CODE_BITS] == modes[arg[MODE]].bits;
}

static const int64_t longest = (int64_t)1 << 40; // bound of the words or scales in a row

bool op_are_quantized(const int64_t *arg, const zl_array *part) {
    zl_array w = part[0], scales = part[1];
    int last = w->ndim - 1;
    bool affine = arg[MODE] == QUANT_AFFINE;
    zl_dtype dtype = (zl_dtype)scales->dtype;
    if (last < 1 || w->dtype != ZL_UINT32 || scales->ndim != w->ndim ||
        !shape_equal(last, w->dim, last, scales->dim) || scales->dim[last] > longest ||
        w->dim[last] > longest || (affine ? !op_is_small_float(dtype) : dtype != ZL_UINT8))
        return false;
    struct quantization q = {(enum quant_mode)arg[MODE], (int)arg[GROUP], (int)arg[CODE_BITS]};
    int64_t columns = op_quant_columns(&q, w);
    if (w->dim[last] * 32 % q.bits || !is_whole(&q, columns) || scales->dim[last] != row_scales(&q, columns))
        return false;
    return !affine || (part[2]->dtype == scales->dtype && op_same_shape(part[2], scales));
}

static bool fits_quantize(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return op_has(c, 1, ARGS) && is_affine(arg) && op_is_small_float((zl_dtype)in[0]->dtype) &&
           in[0]->ndim >= 2 && in[0]->dim[in[0]->ndim - 1] % MAX_OF(arg[GROUP], 32) == 0;
}

static const struct op_field fields[] = {{"mode", FIELD_INT}, {"group_size", FIELD_INT}, {"bits", FIELD_INT}};
const struct op op_quantize = {
    .name = "quantize",
    .kind = OP_OTHER,
    .outputs = 3,
    .fields = 3,
    .field = fields,
    .record = record_quantize,
    .fits = fits_quantize,
    .composed = formula,
    .vmap = vmap_quantize,
};

static bool quantize_affine(zl_array w, const struct quantization *q, zl_array *out) {
    zl_dtype dtype = (zl_dtype)w->dtype;
    w = dtype == ZL_FLOAT64 ? zl_astype(w, ZL_FLOAT32) : w;
    if (!w || !quantize(w, (int64_t[]){q->mode, q->group, q->bits}, out))
        return false;
    return (out[1] = zl_astype(out[1], dtype)) && (out[2] = zl_astype(out[2], dtype));
}

// Returns the codes of e2m1: the number of midpoints between its numbers that are smaller than |x|; ties go
// to the smaller number. Infinities, from dividing by a scale of 0, become 0.
static zl_array fp4_codes(zl_array x) {
    static const double middles[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
    x = zl_where(zl_isinf(x), zl_scalar(0), x);
    zl_array size = zl_abs(x), code = op_number(ZL_UINT32, 0), eight = op_number(ZL_UINT32, 8);
    for (size_t i = 0; i < COUNT(middles); i++)
        code = zl_add(code, zl_astype(zl_greater(size, zl_scalar(middles[i])), ZL_UINT32));
    zl_array negative = zl_less(x, zl_scalar(-middles[0]));
    return zl_add(code, zl_where(negative, eight, op_number(ZL_UINT32, 0)));
}

static zl_array pack_fp4(zl_array codes) {
    zl_array words = zl_reshape(codes, ZL_SHAPE(-1, 8));
    zl_array shifts = zl_arange_int(0, 32, 4, ZL_UINT32);
    return zl_sum_axis(zl_left_shift(words, shifts), -1, false);
}

// Rounds the scale of each group up to a power of two, divides w by it, and returns its exponent plus 127.
static zl_array scale_by_two(zl_array *w, zl_array scale) {
    zl_dtype dtype = (zl_dtype)scale->dtype;
    zl_array zero = op_number(dtype, 0);
    zl_array exponent = zl_where(zl_equal(scale, zero), zero,
                                 zl_astype(zl_ceil(zl_log2(zl_astype(scale, ZL_FLOAT32))), dtype));
    *w = zl_divide(*w, zl_power(op_number(dtype, 2), exponent));
    return zl_astype(zl_add(zl_astype(exponent, ZL_INT32), zl_scalar_int(127)), ZL_UINT8);
}

// Returns the scales as e4m3, and divides w by them. With a global scale, they are relative to it: 448 * 6 is
// the largest number in this format.
static zl_array scale_by_fp8(zl_array *w, zl_array scale, zl_array global) {
    zl_dtype dtype = (zl_dtype)scale->dtype;
    zl_array encode = global ? zl_divide(op_number(ZL_FLOAT32, 448 * 6), zl_reshape(global, ZL_SCALAR))
                             : op_number(ZL_FLOAT32, 1);
    scale = zl_to_fp8(zl_multiply(scale, encode));
    *w = zl_multiply(zl_divide(*w, zl_from_fp8(scale, dtype)), encode);
    return scale;
}

static zl_array with_last(zl_array x, zl_array like, int64_t last) {
    OP_TEMP(int64_t, dim, like->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < like->ndim; i++)
        dim[i] = i == like->ndim - 1 ? last : like->dim[i];
    return zl_reshape(x, (zl_shape){dim, like->ndim});
}

static bool quantize_floats(zl_array w, const struct quantization *q, zl_array global, zl_array *out) {
    int64_t last = w->dim[w->ndim - 1];
    zl_array rows = zl_reshape(w, ZL_SHAPE(w->size / q->group, q->group));
    zl_array most = zl_max_axis(zl_abs(rows), -1, true);
    zl_array scale = zl_divide(most, op_number((zl_dtype)w->dtype, q->bits == 4 ? 6 : 448));
    if (!scale)
        return false;
    zl_array byte = q->mode == QUANT_NVFP4 ? scale_by_fp8(&rows, scale, global) : scale_by_two(&rows, scale);
    zl_array packed = q->bits == 4 ? pack_fp4(fp4_codes(rows)) : zl_view(zl_to_fp8(rows), ZL_UINT32);
    out[0] = packed ? with_last(packed, w, last * q->bits / 32) : NULL;
    out[1] = out[0] && byte ? with_last(byte, w, last / q->group) : NULL;
    return out[1] != NULL;
}

bool zl_quantize(zl_array w, int group_size, int bits, const char *mode, zl_array global_scale,
                 zl_array *out) {
    struct quantization q;
    if (!op_check_out("zl_quantize", 3, out) || !w ||
        !op_read_quantization("zl_quantize", mode, group_size, bits, &q) ||
        !op_check_global("zl_quantize", &q, global_scale))
        return false;
    if (q.mode == QUANT_GGUF_K)
        return error_false(ZL_ERROR_VALUE,
                           "zl_quantize: mode gguf_k can be read, but is not made: affine, mxfp4, mxfp8 "
                           "or nvfp4 is needed");
    if (!dtype_is_float((zl_dtype)w->dtype))
        return error_false(ZL_ERROR_DTYPE, "zl_quantize: %s: floating point is needed",
                           zl_dtype_name((zl_dtype)w->dtype));
    int unit = q.mode == QUANT_AFFINE ? MAX_OF(q.group, 32) : q.group; // affine codes fill whole words
    if (w->ndim < 2 || w->dim[w->ndim - 1] % unit)
        return error_false(ZL_ERROR_SHAPE,
                           "zl_quantize: shape %s, groups of %d: two axes or more are needed, the last a "
                           "multiple of %d",
                           array_text(w), q.group, unit);
    if (q.mode == QUANT_AFFINE)
        return quantize_affine(w, &q, out);
    if (w->size == 0)
        return (out[0] = with_last(zl_zeros(ZL_SHAPE(0), ZL_UINT32), w, w->dim[w->ndim - 1] * q.bits / 32)) &&
               (out[1] = with_last(zl_zeros(ZL_SHAPE(0), ZL_UINT8), w, w->dim[w->ndim - 1] / q.group));
    return quantize_floats(w, &q, global_scale, out);
}
OP_SIGNATURE_BOOL(
    zl_quantize, "quantized",
    "w in few bits: in groups of group_size (16, 32, 64 or 128; None: 64) along the last axis, bits (2 to 6 "
    "or 8; "
    "None: 4) a number. out[0] "
    "are "
    "the codes, packed into uint32, out[1] the scales and, in mode affine, out[2] the biases: a number is "
    "scale "
    "* code + bias. In the modes mxfp4, mxfp8 and nvfp4, which fix groups and bits, the codes are numbers of "
    "four or eight bits, the scales bytes, and out[2] is NULL; nvfp4 may have a scale for all.",
    P_ARRAY(w), P_INT(group_size, "None"), P_INT(bits, "None"), P_STRING(mode, "affine"),
    P_OPTIONAL(global_scale), P_OUTPUTS(out, "3"));

// Back ------------------------------------------------------------------------------------------------------

// in: codes, scales, and biases if affine, else perhaps a global scale; all become row-major.
static zl_array dequantize(int count, const zl_array *in, const int64_t *arg, zl_dtype dtype) {
    zl_array dense[3], w = in[0];
    OP_TEMP(int64_t, dim, w->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < count; i++)
        if (!(dense[i] = zl_contiguous(in[i], false)))
            return NULL;
    for (int i = 0; i < w->ndim; i++)
        dim[i] = w->dim[i];
    dim[w->ndim - 1] = op_quant_columns(
        &(struct quantization){(enum quant_mode)arg[MODE], (int)arg[GROUP], (int)arg[CODE_BITS]}, w);
    return op_dense(&op_dequantize, count, dense, ARGS, arg, dtype, w->ndim, dim);
}

static bool record_dequantize(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = dequantize(c->inputs, in, call_args(c), (zl_dtype)call_first(c)->dtype));
}

static zl_array codes_of(zl_array w, zl_array scales, const struct quantization *q) {
    zl_array in[] = {w, zl_ones_like(scales, ZL_DTYPE_COUNT), op_zeros_of(scales)};
    return in[1] && in[2]
               ? dequantize(3, in, (int64_t[]){q->mode, q->group, q->bits}, (zl_dtype)scales->dtype)
               : NULL;
}

// Returns the sums over each group of `group` elements along the last axis.
static zl_array sum_groups(zl_array x, int group) {
    return x ? zl_sum_axis(zl_unflatten(x, -1, ZL_SHAPE(-1, group)), -1, false) : NULL;
}

zl_array op_quant_vjp(zl_array w, zl_array scales, const struct quantization *q, int input, zl_array g) {
    zl_array by = input == 2 || !g ? g : zl_multiply(g, codes_of(w, scales, q));
    zl_array sum = by && by->size ? sum_groups(by, q->group) : by ? op_zeros_of(scales) : NULL;
    return zl_astype(sum, (zl_dtype)scales->dtype);
}

static zl_array vjp_dequantize(const struct call *c, int input, const zl_array *cotangent) {
    const int64_t *arg = call_args(c);
    struct quantization q = {(enum quant_mode)arg[MODE], (int)arg[GROUP], (int)arg[CODE_BITS]};
    if (input == 0 || q.mode != QUANT_AFFINE)
        return NULL;
    return op_quant_vjp(c->in[0], c->in[1], &q, input, cotangent[0]);
}

// The result is linear in scales and biases together.
static bool jvp_dequantize(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = NULL;
    if (call_args(c)[MODE] != QUANT_AFFINE || (!tangent[1] && !tangent[2]))
        return true;
    zl_array in[3] = {c->in[0]};
    for (int i = 1; i < 3; i++)
        if (!(in[i] = tangent[i] ? tangent[i] : op_zeros_of(c->in[i])))
            return false;
    return record_dequantize(c, in, out);
}

static bool vmap_dequantize(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                            int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    bool global = call_args(c)[MODE] != QUANT_AFFINE && c->inputs == 3;
    zl_array many[3];
    if (global && axis[2] >= 0)
        return error_false(ZL_ERROR_VALUE, "zl_dequantize: the global scale cannot be mapped over");
    for (int i = 0; i < c->inputs; i++)
        if (!(many[i] = batch < 0 || (global && i == 2) ? in[i] : op_batch_repeat(in[i], axis[i], batch)))
            return false;
    out_axis[0] = batch < 0 ? -1 : 0;
    return record_dequantize(c, many, out);
}

static bool fits_dequantize(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->args != 3 || !op_is_quantization(arg) || c->inputs < 2 || c->inputs > 3 ||
        (c->inputs == 2 && arg[0] == QUANT_AFFINE))
        return false;
    bool global = c->inputs == 3 && arg[0] != QUANT_AFFINE;
    return op_is_small_float((zl_dtype)call_first(c)->dtype) && op_are_quantized(arg, in) &&
           (!global || (arg[0] == QUANT_NVFP4 && in[2]->size == 1 && in[2]->dtype == ZL_FLOAT32));
}

const struct op op_dequantize = {
    .name = "dequantize",
    .kind = OP_OTHER,
    .fields = 3,
    .field = fields,
    .record = record_dequantize,
    .fits = fits_dequantize,
    .vjp = vjp_dequantize,
    .jvp = jvp_dequantize,
    .vmap = vmap_dequantize,
};

// Checks ----------------------------------------------------------------------------------------------------

static bool check_dtypes(const char *function, const struct quantization *q, zl_array w, zl_array scales,
                         zl_array biases) {
    bool affine = q->mode == QUANT_AFFINE;
    if (w->dtype != ZL_UINT32)
        return error_false(ZL_ERROR_DTYPE, "%s: the quantised matrix is %s: uint32 is needed", function,
                           zl_dtype_name((zl_dtype)w->dtype));
    if (affine != (biases != NULL))
        return error_false(ZL_ERROR_VALUE, "%s: mode %s %s biases", function, modes[q->mode].name,
                           affine ? "needs" : "has no");
    if (affine ? !dtype_is_float(dtype_common(2, (zl_array[]){scales, biases})) : scales->dtype != ZL_UINT8)
        return error_false(ZL_ERROR_DTYPE, "%s: the scales are %s: %s needed in mode %s", function,
                           zl_dtype_name((zl_dtype)scales->dtype), affine ? "floating point is" : "uint8 is",
                           modes[q->mode].name);
    return true;
}

bool op_check_quantized(const char *function, const struct quantization *q, zl_array w, zl_array scales,
                        zl_array biases) {
    if (!check_dtypes(function, q, w, scales, biases))
        return false;
    int n = w->ndim;
    bool fits = n >= 2 && scales->ndim == n && shape_equal(n - 1, w->dim, n - 1, scales->dim) &&
                (!biases || shape_equal(n, scales->dim, biases->ndim, biases->dim));
    fits = fits && w->dim[n - 1] < INT64_MAX / 32 && w->dim[n - 1] * 32 % q->bits == 0 &&
           is_whole(q, op_quant_columns(q, w)) &&
           scales->dim[n - 1] == row_scales(q, op_quant_columns(q, w));
    return fits ||
           error_false(ZL_ERROR_SHAPE,
                       "%s: words of shape %s, scales of shape %s%s%s: with groups of %d and %d bits "
                       "these do not fit each other",
                       function, array_text(w), array_text(scales), biases ? ", biases of shape " : "",
                       biases ? array_text(biases) : "", q->group, q->bits);
}

zl_array zl_dequantize(zl_array w, zl_array scales, zl_array biases, int group_size, int bits,
                       const char *mode, zl_array global_scale, zl_dtype dtype) {
    struct quantization q;
    if (!w || !scales || !op_check_optional(biases) ||
        !op_read_quantization("zl_dequantize", mode, group_size, bits, &q) ||
        !op_check_global("zl_dequantize", &q, global_scale) ||
        !op_check_quantized("zl_dequantize", &q, w, scales, biases))
        return NULL;
    bool affine = q.mode == QUANT_AFFINE;
    zl_dtype own = affine                  ? dtype_common(2, (zl_array[]){scales, biases})
                   : q.mode == QUANT_GGUF_K ? ZL_FLOAT32
                                            : ZL_BFLOAT16;
    zl_dtype to = op_dtype_or(dtype, own);
    if (!op_check_dtype("zl_dequantize", to))
        return NULL;
    if (!dtype_is_float(to))
        return error_set(ZL_ERROR_DTYPE, "zl_dequantize: to %s: floating point is needed", zl_dtype_name(to));
    int64_t arg[] = {q.mode, q.group, q.bits};
    if (!affine)
        return dequantize(global_scale ? 3 : 2, (zl_array[]){w, scales, global_scale}, arg, to);
    zl_array in[] = {w, zl_astype(scales, own), zl_astype(biases, own)};
    return in[1] && in[2] ? zl_astype(dequantize(3, in, arg, own), to) : NULL;
}
OP_SIGNATURE(zl_dequantize, "quantized",
             "The numbers that zl_quantize made w, scales and biases from, nearly: of the dtype of the "
             "scales or, where they "
             "are bytes, bfloat16 (of mode gguf_k float32), unless dtype says another.",
             P_ARRAY(w), P_ARRAY(scales), P_OPTIONAL(biases), P_INT(group_size, "None"), P_INT(bits, "None"),
             P_STRING(mode, "affine"), P_OPTIONAL(global_scale), P_DTYPE(dtype, "None"));
