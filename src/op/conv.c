// conv.c - convolutions with one to three spatial axes, channels last, and functions built on them.
//
// One op computes all convolutions, except that kernels of one element become matrix products. The
// derivatives are convolutions too, with flipped kernels, where strides and dilations exchange roles. There
// padding may be negative: it removes elements of the dilated input.

#include <limits.h>
#include <string.h>

#include "op/ops.h"

// arg: groups (negative if they are in the batch axis), flip, then five numbers for each spatial axis.
enum { GROUPS, FLIP, AXES, EACH = 5, MOST_ARGS = AXES + EACH * CONV_AXES };

static const int64_t span_most = (int64_t)1 << 58; // the most elements along a dilated axis, so that sums of
                                                   // them do not overflow

struct conv op_conv_read(const struct call *c) {
    const int64_t *arg = call_args(c);
    bool in_batch = arg[GROUPS] < 0;
    struct conv v = {.groups = in_batch ? -arg[GROUPS] : arg[GROUPS],
                     .in_batch = in_batch,
                     .flip = arg[FLIP],
                     .axes = c->in[0]->ndim - 2};
    for (int i = 0; i < v.axes; i++) {
        const int64_t *a = arg + AXES + EACH * i;
        v.axis[i] = (struct conv_axis){a[0], a[1], a[2], a[3], a[4]};
    }
    return v;
}

// Returns the extent of `size` elements that are `dilation` apart.
static int64_t span(int64_t size, int64_t dilation) {
    return size ? (size - 1) * dilation + 1 : 0;
}

static int64_t output_size(zl_array x, zl_array w, const struct conv *v, int i) {
    const struct conv_axis *a = &v->axis[i];
    int64_t left =
        span(x->dim[i + 1], a->input_dilation) + a->low + a->high - span(w->dim[i + 1], a->dilation);
    return left < 0 ? 0 : left / a->stride + 1;
}

// Returns whether each element of the result depends only on the input at the same position: a matrix
// product.
static bool is_product(zl_array w, const struct conv *v) {
    bool is = v->groups == 1;
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        is &= w->dim[i + 1] == 1 && a->stride == 1 && a->low == 0 && a->high == 0 && a->input_dilation == 1;
    }
    return is;
}

static zl_array multiply(const char *function, zl_array x, zl_array w) {
    static const int axes[CONV_AXES] = {1, 2, 3};
    return op_matmul_as(function, x, zl_matrix_transpose(zl_squeeze(w, (zl_axes){axes, w->ndim - 2})));
}

// Returns whether x is a view with batch and channel axes exchanged: in memory, the batch axis is innermost.
static bool is_swapped(zl_array x) {
    const int64_t *stride = array_stride(x);
    int last = x->ndim - 1;
    return x->dim[0] > 1 && stride[0] == 1 && x->dim[last] > 1 && stride[last] > 1;
}

// The gradient of a kernel is a convolution of such arrays, whose result is swapped back. Returns strides
// with which it is row-major after that, or NULL: row-major itself.
static const int64_t *lie_like(zl_array x, zl_array w, int ndim, const int64_t *dim, int64_t *stride) {
    int64_t swapped[CONV_AXES + 2], first;
    if (!is_swapped(x) || !is_swapped(w))
        return NULL;
    memcpy(swapped, dim, sizeof *dim * (size_t)ndim);
    swapped[0] = dim[ndim - 1];
    swapped[ndim - 1] = dim[0];
    shape_row_major(ndim, swapped, stride);
    first = stride[0];
    stride[0] = stride[ndim - 1];
    stride[ndim - 1] = first;
    return stride;
}

// Records the convolution of arrays that have been checked.
static zl_array convolve(const char *function, zl_array x, zl_array w, const struct conv *v) {
    int64_t dim[CONV_AXES + 2], arg[MOST_ARGS] = {v->in_batch ? -v->groups : v->groups, v->flip};
    if (!x || !w)
        return NULL;
    dim[0] = v->in_batch ? x->dim[0] / v->groups : x->dim[0];
    dim[v->axes + 1] = w->dim[0];
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        dim[i + 1] = output_size(x, w, v, i);
        memcpy(arg + AXES + EACH * i, (int64_t[]){a->stride, a->low, a->high, a->dilation, a->input_dilation},
               sizeof(int64_t) * EACH);
    }
    if (!op_check_size(function, v->axes + 2, dim))
        return NULL;
    if (x->size == 0 || w->size == 0)
        return zl_zeros((zl_shape){dim, v->axes + 2}, (zl_dtype)x->dtype);
    if (is_product(w, v))
        return multiply(function, x, w);
    int64_t stride[CONV_AXES + 2];
    struct array_spec spec = {.dtype = (zl_dtype)x->dtype, .ndim = v->axes + 2, .dim = dim};
    spec.stride = lie_like(x, w, spec.ndim, dim, stride);
    return op_call(&op_conv, 2, (zl_array[]){x, w}, AXES + EACH * v->axes, arg, &spec);
}

static const char *const general = "zl_conv_general";

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct conv v = op_conv_read(c);
    return (out[0] = convolve(general, in[0], in[1], &v));
}

// Derivatives -----------------------------------------------------------------------------------------------

static zl_array conjugate(zl_array x) {
    return x->dtype == ZL_COMPLEX64 ? zl_conjugate(x) : x;
}

// Exchanges the first and the last axis within each group: (groups * a, ..., b) becomes (groups * b, ..., a).
static zl_array swap_in_groups(zl_array x, int64_t groups) {
    if (groups == 1)
        return zl_swapaxes(x, 0, -1);
    return zl_flatten(zl_swapaxes(zl_unflatten(x, 0, ZL_SHAPE(groups, -1)), 1, -1), 0, 1);
}

// Moves the groups of the last axis to the first: (a, ..., groups * b) becomes (groups * a, ..., b).
static zl_array groups_to_front(zl_array x, int64_t groups) {
    return groups == 1 ? x : zl_flatten(zl_moveaxis(zl_unflatten(x, -1, ZL_SHAPE(groups, -1)), -2, 0), 0, 1);
}

// Returns the cotangent of the input: the cotangent g of the output, dilated by the stride, convolved with
// the flipped kernel.
static zl_array vjp_input(zl_array x, zl_array w, zl_array g, const struct conv *v) {
    struct conv back = {.groups = v->groups, .flip = !v->flip, .axes = v->axes};
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        int64_t kernel = span(w->dim[i + 1], a->dilation), low = kernel - 1 - a->low;
        int64_t high =
            span(x->dim[i + 1], a->input_dilation) - 1 + kernel - span(g->dim[i + 1], a->stride) - low;
        back.axis[i] = (struct conv_axis){a->input_dilation, low, high, a->dilation, a->stride};
    }
    zl_array y = convolve(general, g, swap_in_groups(conjugate(w), v->groups), &back);
    return v->in_batch ? groups_to_front(y, v->groups) : y;
}

// Returns the cotangent of the kernel: a convolution that sums over the batch, with g as its kernel and the
// channels (also those in groups) as its batch. Nothing is copied.
static zl_array vjp_kernel(zl_array x, zl_array w, zl_array g, const struct conv *v) {
    struct conv back = {.groups = v->groups, .in_batch = v->groups > 1 && !v->in_batch, .axes = v->axes};
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        int64_t high = span(w->dim[i + 1], a->dilation) - 1 + span(g->dim[i + 1], a->stride) -
                       span(x->dim[i + 1], a->input_dilation) - a->low;
        back.axis[i] = (struct conv_axis){a->dilation, a->low, high, a->stride, a->input_dilation};
    }
    zl_array swapped = zl_swapaxes(conjugate(x), 0, -1);
    return zl_swapaxes(convolve(general, swapped, zl_swapaxes(g, 0, -1), &back), 0, -1);
}

// Returns the same with exchanged roles: the input is the kernel, g is convolved with it, and the result is
// flipped.
static zl_array vjp_kernel_swapped(zl_array x, zl_array w, zl_array g, const struct conv *v) {
    struct conv back = {.groups = v->groups, .in_batch = v->groups > 1, .axes = v->axes};
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        int64_t last = span(w->dim[i + 1], a->dilation) - 1, low = last - a->low;
        int64_t high = last + span(x->dim[i + 1], a->input_dilation) - span(g->dim[i + 1], a->stride) - low;
        back.axis[i] = (struct conv_axis){a->dilation, low, high, a->input_dilation, a->stride};
    }
    zl_array kernel = conjugate(x);
    kernel = v->in_batch ? swap_in_groups(kernel, v->groups) : zl_swapaxes(kernel, 0, -1);
    return groups_to_front(convolve(general, zl_swapaxes(g, 0, -1), kernel, &back), v->groups);
}

// Returns the cotangent of the kernel. Of the two ways, it chooses the one whose input is not dilated: a
// dilated kernel costs nothing.
static zl_array vjp_weight(zl_array x, zl_array w, zl_array g, const struct conv *v) {
    int spatial[CONV_AXES] = {1, 2, 3};
    bool is_spread = false, is_strided = false;
    for (int i = 0; i < v->axes; i++) {
        is_spread |= v->axis[i].input_dilation > 1;
        is_strided |= v->axis[i].stride > 1;
    }
    bool swaps = is_spread && !is_strided;
    zl_array y = (swaps ? vjp_kernel_swapped : vjp_kernel)(x, w, g, v);
    return swaps == v->flip ? y : zl_flip(y, (zl_axes){spatial, v->axes});
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    struct conv v = op_conv_read(c);
    return (input ? vjp_weight : vjp_input)(c->in[0], c->in[1], cotangent[0], &v);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct conv v = op_conv_read(c);
    zl_array by_x = tangent[0] ? convolve(general, tangent[0], c->in[1], &v) : NULL;
    zl_array by_w = tangent[1] ? convolve(general, c->in[0], tangent[1], &v) : NULL;
    out[0] = by_x && by_w ? zl_add(by_x, by_w) : by_x ? by_x : by_w;
    return out[0] || (!tangent[0] && !tangent[1]);
}

// Batches ---------------------------------------------------------------------------------------------------

// Maps over inputs: the extra axis joins the batch, after the groups that the batch has.
static zl_array map_inputs(zl_array x, zl_array w, const struct conv *v) {
    int64_t many = x->dim[0], groups = v->in_batch ? v->groups : 1, each = x->dim[1] / groups;
    zl_array front = zl_moveaxis(zl_unflatten(x, 1, ZL_SHAPE(groups, each)), 1, 0);
    return zl_unflatten(convolve(general, zl_flatten(front, 0, 2), w, v), 0, ZL_SHAPE(many, each));
}

// Maps over kernels: each kernel has output channels of its own.
static zl_array map_kernels(zl_array x, zl_array w, const struct conv *v) {
    zl_array y = convolve(general, x, zl_flatten(w, 0, 1), v);
    return zl_unflatten(y, -1, ZL_SHAPE(w->dim[0], w->dim[1]));
}

// Maps over both: each pair is a group.
static zl_array map_both(zl_array x, zl_array w, const struct conv *v) {
    struct conv many = *v;
    many.groups *= w->dim[0];
    zl_array grouped = v->in_batch ? zl_flatten(x, 0, 1) : zl_flatten(zl_moveaxis(x, 0, -2), -2, -1);
    return map_kernels(grouped, w, &many);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    struct conv v = op_conv_read(c);
    int64_t batch = op_batch_size(2, in, axis);
    bool one_input = axis[0] < 0 && v.groups == 1;
    zl_array x = one_input ? in[0] : op_batch_repeat(in[0], axis[0], batch);
    zl_array w = axis[1] < 0 ? in[1] : op_batch_first(in[1], axis[1]);
    if (!x || !w)
        return false;
    out_axis[0] = axis[1] < 0 ? 0 : v.axes + 1;
    out[0] = (axis[1] < 0 ? map_inputs : one_input ? map_kernels : map_both)(x, w, &v);
    return out[0];
}

static const int64_t far = (int64_t)1 << 40;     // bound of strides, paddings and dilations
static const int64_t longest = (int64_t)1 << 58; // bound of the elements along a dilated axis

// arg: stride, low, high, dilation and input_dilation of an axis.
static bool fits_along(const int64_t *arg, int64_t size, int64_t kernel) {
    int64_t span;
    bool small = arg[0] > 0 && arg[0] < far && arg[3] > 0 && arg[3] < far && arg[4] > 0 && arg[4] < far &&
                 arg[1] > -far && arg[1] < far && arg[2] > -far && arg[2] < far;
    return small && !__builtin_mul_overflow(size, arg[4], &span) && span < longest &&
           !__builtin_mul_overflow(kernel, arg[3], &span) && span < longest;
}

// Negative groups are in the batch axis.
static bool fits_groups(int64_t groups, zl_array x, zl_array w) {
    int64_t channels, last = x->ndim - 1;
    if (groups < 0)
        return w->dim[0] % groups == 0 && x->dim[0] % groups == 0 && x->dim[last] == w->dim[last];
    return w->dim[0] % groups == 0 && !__builtin_mul_overflow(w->dim[last], groups, &channels) &&
           channels == x->dim[last];
}

static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->inputs != 2 || c->args < 2 || in[0]->ndim != in[1]->ndim)
        return false;
    int axes = in[0]->ndim - 2;
    if (axes < 1 || axes > CONV_AXES || c->args != 2 + 5 * axes || !arg[0] || arg[0] == INT64_MIN ||
        !op_is_among(arg[1], 2) || in[0]->dtype != in[1]->dtype || !dtype_is_inexact((zl_dtype)in[0]->dtype))
        return false;
    for (int i = 0; i < axes; i++)
        if (!fits_along(arg + 2 + 5 * i, in[0]->dim[i + 1], in[1]->dim[i + 1]))
            return false;
    return fits_groups(arg[0], in[0], in[1]);
}

static const struct op_field fields[] = {{"groups", FIELD_INT}, {"flip", FIELD_BOOL}, {"axes", FIELD_LIST}};
const struct op op_conv = {
    .name = "conv",
    .kind = OP_OTHER,
    .fields = 3,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Checks ----------------------------------------------------------------------------------------------------

// axes: the spatial axes of the function; 0: as many as the input has.
static bool check_ranks(const char *function, zl_array x, zl_array w, int axes) {
    if (axes ? x->ndim == axes + 2 && w->ndim == axes + 2
             : x->ndim > 2 && x->ndim <= CONV_AXES + 2 && w->ndim == x->ndim)
        return true;
    if (axes)
        return error_false(
            ZL_ERROR_SHAPE,
            "%s: an input of shape %s and a weight of shape %s: both need %d axes, (N, sizes, C) "
            "and (O, sizes, C)",
            function, array_text(x), array_text(w), axes + 2);
    return error_false(
        ZL_ERROR_SHAPE,
        "%s: an input of shape %s and a weight of shape %s: both need the same number of axes, 3, 4 "
        "or 5",
        function, array_text(x), array_text(w));
}

static bool check_channels(const char *function, zl_array x, zl_array w, int groups) {
    int64_t channels = x->dim[x->ndim - 1], each = w->dim[w->ndim - 1];
    if (groups < 1)
        return error_false(ZL_ERROR_VALUE, "%s: %d groups: at least one is needed", function, groups);
    if (channels % groups == 0 && channels / groups == each && w->dim[0] % groups == 0)
        return true;
    return error_false(
        ZL_ERROR_SHAPE,
        "%s: an input of shape %s and a weight of shape %s in %d groups: the input's channels must be "
        "groups times the weight's last size, and its first size a multiple of groups",
        function, array_text(x), array_text(w), groups);
}

static bool check_dtype(const char *function, zl_array x) {
    return dtype_is_inexact((zl_dtype)x->dtype) ||
           error_false(
               ZL_ERROR_DTYPE,
               "%s: the input is %s: floating point or complex numbers are needed; convert with zl_astype",
               function, zl_dtype_name((zl_dtype)x->dtype));
}

static bool fits_span(int64_t size, int64_t dilation) {
    return size == 0 || (size - 1) <= (span_most - 1) / dilation;
}

static bool check_axis(const char *function, zl_array x, zl_array w, const struct conv *v, int i) {
    const struct conv_axis *a = &v->axis[i];
    if (!fits_span(x->dim[i + 1], a->input_dilation) || !fits_span(w->dim[i + 1], a->dilation))
        return error_false(ZL_ERROR_OVERFLOW, "%s: sizes %lld and %lld dilated by %lld and %lld are too big",
                           function, (long long)x->dim[i + 1], (long long)w->dim[i + 1],
                           (long long)a->input_dilation, (long long)a->dilation);
    int64_t kernel = span(w->dim[i + 1], a->dilation);
    int64_t length = span(x->dim[i + 1], a->input_dilation) + a->low + a->high;
    return length >= kernel ||
           error_false(
               ZL_ERROR_SHAPE,
               "%s: the kernel spans %lld elements along axis %d, the padded input of shape %s only %lld",
               function, (long long)kernel, i + 1, array_text(x), (long long)length);
}

// Lists of numbers, one for each axis -----------------------------------------------------------------------

// Reads a list with a number per axis. A single number applies to all axes; an empty list means `usual`.
// Numbers must be at least `least`.
static bool read_list(const char *function, const char *what, zl_shape list, int axes, int64_t usual,
                      int64_t least, int64_t *out) {
    int count = list.ndim < 0 ? 0 : list.ndim;
    if (count > 0 && !op_check_list(function, list))
        return false;
    if (count > 1 && count != axes)
        return error_false(ZL_ERROR_VALUE, "%s: %d numbers as %s: one, or %d, are needed", function, count,
                           what, axes);
    for (int i = 0; i < axes; i++) {
        out[i] = count == 0 ? usual : list.dim[count == 1 ? 0 : i];
        if (out[i] < least || out[i] > INT_MAX)
            return error_false(ZL_ERROR_VALUE, "%s: %s of %lld: a number from %lld to %d is needed", function,
                               what, (long long)out[i], (long long)least, INT_MAX);
    }
    return true;
}

// Reads the padding. A list with two numbers per axis has all paddings at the beginning, then those at the
// end.
static bool read_padding(const char *function, zl_shape list, int axes, int64_t *low, int64_t *high) {
    bool both = list.ndim == 2 * axes && list.dim;
    zl_shape before = both ? (zl_shape){list.dim, axes} : list;
    zl_shape after = both ? (zl_shape){list.dim + axes, axes} : list;
    return read_list(function, "padding", before, axes, 0, -INT_MAX, low) &&
           read_list(function, "padding", after, axes, 0, -INT_MAX, high);
}

struct options {
    zl_shape stride, padding, dilation, input_dilation;
    int groups;
    bool flip;
};

static bool read_options(const char *function, const struct options *o, int axes, struct conv *out) {
    int64_t stride[CONV_AXES], low[CONV_AXES], high[CONV_AXES], dilation[CONV_AXES], input[CONV_AXES];
    if (!read_list(function, "stride", o->stride, axes, 1, 1, stride) ||
        !read_padding(function, o->padding, axes, low, high) ||
        !read_list(function, "dilation", o->dilation, axes, 1, 1, dilation) ||
        !read_list(function, "input dilation", o->input_dilation, axes, 1, 1, input))
        return false;
    *out = (struct conv){.groups = o->groups, .flip = o->flip, .axes = axes};
    for (int i = 0; i < axes; i++)
        out->axis[i] = (struct conv_axis){stride[i], low[i], high[i], dilation[i], input[i]};
    return true;
}

// Public functions ------------------------------------------------------------------------------------------

// Negative padding removes elements of the input, before it is dilated.
static zl_array crop(zl_array x, struct conv *v) {
    int64_t start[CONV_AXES + 2] = {0}, stop[CONV_AXES + 2], step[CONV_AXES + 2];
    bool whole = true;
    for (int i = 0; i < x->ndim; i++)
        stop[i] = x->dim[i], step[i] = 1;
    for (int i = 0; i < v->axes; i++) {
        struct conv_axis *a = &v->axis[i];
        whole &= a->low >= 0 && a->high >= 0;
        start[i + 1] = MAX_OF(-a->low, 0);
        stop[i + 1] = MAX_OF(x->dim[i + 1] + MIN_OF(a->high, 0), 0);
        a->low = MAX_OF(a->low, 0);
        a->high = MAX_OF(a->high, 0);
    }
    return whole ? x
                 : zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim},
                            (zl_shape){step, x->ndim});
}

static zl_array check_and_convolve(const char *function, zl_array x, zl_array w, int axes,
                                   const struct options *o) {
    struct conv v;
    if (!x || !w || !check_ranks(function, x, w, axes) || !check_channels(function, x, w, o->groups) ||
        !check_dtype(function, x) || !read_options(function, o, x->ndim - 2, &v))
        return NULL;
    zl_dtype dtype = dtype_common(2, (zl_array[]){x, w});
    x = crop(zl_astype(x, dtype), &v);
    for (int i = 0; x && i < v.axes; i++)
        if (!check_axis(function, x, w, &v, i))
            return NULL;
    return x ? convolve(function, x, zl_astype(w, dtype), &v) : NULL;
}

zl_array zl_conv_general(zl_array input, zl_array weight, zl_shape stride, zl_shape padding,
                         zl_shape kernel_dilation, zl_shape input_dilation, int groups, bool flip) {
    return check_and_convolve(
        general, input, weight, 0,
        &(struct options){stride, padding, kernel_dilation, input_dilation, groups, flip});
}
#define LAYOUTS                                                                                          \
    " The input is (N, sizes, C), the weight (O, sizes, C / groups), the result (N, sizes, O): each of " \
    "`groups` equal parts of the channels has its own kernels."
#define LISTS " A list of one number is for all axes."
OP_SIGNATURE(
    zl_conv_general, "conv",
    "The input convolved, without turning the kernels around unless flip, over one to three axes." LAYOUTS
    " The input is dilated, then padded with zeros; padding that is negative takes elements away, and a "
    "list of twice as many numbers as there are axes has what comes before, then what comes behind." LISTS,
    P_ARRAY(input), P_ARRAY(weight), P_SHAPE_OR(stride, "1"), P_SHAPE_OR(padding, "0"),
    P_SHAPE_OR(kernel_dilation, "1"), P_SHAPE_OR(input_dilation, "1"), P_INT(groups, "1"),
    P_BOOL(flip, "False"));

static zl_array plain(const char *function, int axes, zl_array input, zl_array weight, zl_shape stride,
                      zl_shape padding, zl_shape dilation, int groups) {
    return check_and_convolve(function, input, weight, axes,
                              &(struct options){stride, padding, dilation, ZL_NO_SHAPE, groups, false});
}

zl_array zl_conv1d(zl_array input, zl_array weight, int stride, int padding, int dilation, int groups) {
    return plain("zl_conv1d", 0, input, weight, ZL_SHAPE(stride), ZL_SHAPE(padding), ZL_SHAPE(dilation),
                 groups);
}
OP_SIGNATURE(zl_conv1d, "conv",
             "The input convolved over one axis, or over all spatial ones if there are more, without turning "
             "the kernels "
             "around." LAYOUTS,
             P_ARRAY(input), P_ARRAY(weight), P_INT(stride, "1"), P_INT(padding, "0"), P_INT(dilation, "1"),
             P_INT(groups, "1"));

#define CONV(function, axes, many)                                                                           \
    zl_array function(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, \
                      int groups) {                                                                          \
        return plain(#function, axes, input, weight, stride, padding, dilation, groups);                     \
    }                                                                                                        \
    OP_SIGNATURE(function, "conv",                                                                           \
                 "The input convolved over " many                                                            \
                 " axes, without turning the kernels around." LAYOUTS LISTS,                                 \
                 P_ARRAY(input), P_ARRAY(weight), P_SHAPE_OR(stride, "1"), P_SHAPE_OR(padding, "0"),         \
                 P_SHAPE_OR(dilation, "1"), P_INT(groups, "1"))
CONV(zl_conv2d, 2, "two");
CONV(zl_conv3d, 3, "three");

// Transposed ------------------------------------------------------------------------------------------------

// Computes the transpose of a convolution with this stride and padding: the stride dilates the input.
static zl_array transposed(const char *function, int axes, zl_array x, zl_array w, const struct options *o,
                           zl_shape output_padding) {
    int64_t pad[2 * CONV_AXES], dilation[CONV_AXES], more[CONV_AXES], *low = pad, *high = pad + axes;
    if (!x || !w || !check_ranks(function, x, w, axes) ||
        !read_list(function, "padding", o->padding, axes, 0, -INT_MAX, low) ||
        !read_list(function, "dilation", o->dilation, axes, 1, 1, dilation) ||
        !read_list(function, "output padding", output_padding, axes, 0, -INT_MAX, more))
        return NULL;
    for (int i = 0; i < axes; i++) {
        if (!fits_span(w->dim[i + 1], dilation[i]))
            return error_set(ZL_ERROR_OVERFLOW, "%s: a kernel of shape %s dilated by %lld is too big",
                             function, array_text(w), (long long)dilation[i]);
        low[i] = span(w->dim[i + 1], dilation[i]) - 1 - low[i];
        high[i] = low[i] + more[i];
    }
    return check_and_convolve(
        function, x, w, axes,
        &(struct options){ZL_NO_SHAPE, {pad, 2 * axes}, {dilation, axes}, o->stride, o->groups, true});
}

#define TRANSPOSED                                                                                        \
    " The result is as long as the input of a convolution with this stride and padding whose result the " \
    "input "                                                                                              \
    "is, and output_padding longer."

static bool again_transpose1d(const union op_value *v, zl_array *out) {
    return (out[0] = zl_conv_transpose1d(v[0].array, v[1].array, v[2].number, v[3].number, v[4].number,
                                         v[5].number, v[6].number));
}

zl_array zl_conv_transpose1d(zl_array input, zl_array weight, int stride, int padding, int dilation,
                             int output_padding, int groups) {
    zl_array y;
    if (op_again(&y, "zl_conv_transpose1d", again_transpose1d, input, weight, stride, padding, dilation,
                 output_padding, groups))
        return y;
    struct options o = {ZL_SHAPE(stride), ZL_SHAPE(padding), ZL_SHAPE(dilation), ZL_NO_SHAPE, groups, true};
    return transposed("zl_conv_transpose1d", 1, input, weight, &o, ZL_SHAPE(output_padding));
}
OP_SIGNATURE(zl_conv_transpose1d, "conv",
             "The transpose of a convolution over one axis, as layers use it to make arrays longer." LAYOUTS
                 TRANSPOSED,
             P_ARRAY(input), P_ARRAY(weight), P_INT(stride, "1"), P_INT(padding, "0"), P_INT(dilation, "1"),
             P_INT(output_padding, "0"), P_INT(groups, "1"));

#define CONV_TRANSPOSE(function, axes, many)                                                                 \
    static bool again_##function(const union op_value *v, zl_array *out) {                                   \
        return (out[0] = function(v[0].array, v[1].array, v[2].shape, v[3].shape, v[4].shape, v[5].shape,    \
                                  v[6].number));                                                             \
    }                                                                                                        \
    zl_array function(zl_array input, zl_array weight, zl_shape stride, zl_shape padding, zl_shape dilation, \
                      zl_shape output_padding, int groups) {                                                 \
        zl_array y;                                                                                          \
        if (op_again(&y, #function, again_##function, input, weight, stride, padding, dilation,              \
                     output_padding, groups))                                                                \
            return y;                                                                                        \
        struct options o = {stride, padding, dilation, ZL_NO_SHAPE, groups, true};                           \
        return transposed(#function, axes, input, weight, &o, output_padding);                               \
    }                                                                                                        \
    OP_SIGNATURE(function, "conv",                                                                           \
                 "The transpose of a convolution over " many " axes, as layers use it to make arrays "       \
                 "larger." LAYOUTS TRANSPOSED LISTS,                                                         \
                 P_ARRAY(input), P_ARRAY(weight), P_SHAPE_OR(stride, "1"), P_SHAPE_OR(padding, "0"),         \
                 P_SHAPE_OR(dilation, "1"), P_SHAPE_OR(output_padding, "0"), P_INT(groups, "1"))
CONV_TRANSPOSE(zl_conv_transpose2d, 2, "two");
CONV_TRANSPOSE(zl_conv_transpose3d, 3, "three");

// Lists of numbers ------------------------------------------------------------------------------------------

// Returns the padding at the beginning of a list that is convolved with `count` numbers, and sets *high to
// that at the end. Returns -1 if there is no such mode.
static int64_t padding_of(const char *mode, int64_t count, int64_t *high) {
    bool same = mode && !strcmp(mode, "same");
    int64_t low = !mode || !strcmp(mode, "full") ? count - 1
                  : !strcmp(mode, "valid")       ? 0
                  : same                         ? count / 2
                                                 : -1;
    *high = same ? (count - 1) / 2 : low;
    return low;
}

static bool again_convolve(const union op_value *v, zl_array *out) {
    return (out[0] = zl_convolve(v[0].array, v[1].array, v[2].string));
}

zl_array zl_convolve(zl_array a, zl_array v, const char *mode) {
    zl_array y;
    if (op_again(&y, "zl_convolve", again_convolve, a, v, mode))
        return y;
    const char *function = "zl_convolve";
    if (!a || !v)
        return NULL;
    if (a->ndim != 1 || v->ndim != 1 || a->size == 0 || v->size == 0)
        return error_set(ZL_ERROR_SHAPE,
                         "%s: arrays of shapes %s and %s: lists with an element at least are needed",
                         function, array_text(a), array_text(v));
    zl_array x = a->size < v->size ? v : a, w = a->size < v->size ? a : v;
    int64_t high, low = padding_of(mode, w->size, &high);
    if (low < 0)
        return error_set(ZL_ERROR_VALUE, "%s: mode \"%s\": \"full\", \"same\" or \"valid\" is needed",
                         function, mode);
    struct options o = {ZL_NO_SHAPE, ZL_SHAPE(low, high), ZL_NO_SHAPE, ZL_NO_SHAPE, 1, true};
    y = check_and_convolve(function, zl_expand_dims(x, ZL_AXES(0, 2)), zl_expand_dims(w, ZL_AXES(0, 2)), 1,
                           &o);
    return zl_flatten(y, 0, -1);
}
OP_SIGNATURE(zl_convolve, "conv",
             "The convolution of two lists: \"full\", everywhere where they meet; \"same\", as long as the "
             "longer one; "
             "or \"valid\", where the shorter one lies within.",
             P_ARRAY(a), P_ARRAY(v), P_STRING(mode, "'full'"));
