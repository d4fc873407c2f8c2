// fft.c - discrete Fourier transforms, as in mlx.core.fft: one op along one axis, and functions built on it.
//
// The op takes and returns float32 and complex64 only; FFT_FORWARD and FFT_INVERSE take both. Its sums are
// not normalised, but multiplied by the argument `scale`.

#include <limits.h>
#include <math.h>
#include <string.h>

#include "op/ops.h"

// arg: enum fft, axis, n, scale.
enum { WHICH, AXIS, COUNT_OF, SCALE, ARGS };

static zl_array transform_axis(zl_array x, enum fft which, int axis, int64_t n, double scale) {
    OP_TEMP(int64_t, dim, x ? x->ndim : 1);
    if (!x || !dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i != axis ? x->dim[i] : which == FFT_REAL ? n / 2 + 1 : n;
    const int64_t arg[ARGS] = {which, axis, n, op_double_arg(scale)};
    return op_dense(&op_fft, 1, &x, ARGS, arg, which == FFT_HERMITIAN ? ZL_FLOAT32 : ZL_COMPLEX64, x->ndim,
                    dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    const int64_t *arg = call_args(c);
    out[0] =
        transform_axis(in[0], (enum fft)arg[WHICH], (int)arg[AXIS], arg[COUNT_OF], op_arg_double(arg[SCALE]));
    return out[0];
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    const int64_t *arg = call_args(c);
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    out_axis[0] = 0;
    out[0] = transform_axis(op_batch_first(in[0], axis[0]), (enum fft)arg[WHICH], (int)arg[AXIS] + 1,
                            arg[COUNT_OF], op_arg_double(arg[SCALE]));
    return out[0];
}

// Multiplies elements 0 to n / 2 along an axis by `factor` if their conjugate is another of the n elements.
static zl_array weigh_pairs(zl_array x, int axis, int64_t n, double factor) {
    if (!x)
        return NULL;
    zl_array k = zl_arange_int(0, n / 2 + 1, 1, ZL_INT64);
    zl_array paired = zl_logical_and(zl_greater(k, op_number(ZL_INT64, 0)),
                                     zl_less(k, op_number(ZL_INT64, (double)((n + 1) / 2))));
    zl_array weight = zl_where(paired, op_number(ZL_FLOAT32, factor), op_number(ZL_FLOAT32, 1));
    for (int i = axis + 1; i < x->ndim; i++)
        weight = zl_expand_dims(weight, ZL_AXES(-1));
    return zl_multiply(x, weight);
}

// Returns x in the dtype of a, which may be real: then its real part.
static zl_array part_like(zl_array a, zl_array x) {
    return a->dtype == ZL_FLOAT32 ? zl_real(x) : x;
}

// The adjoint of a transform is the transform in the opposite direction. In the half spectrum of real
// numbers, most elements stand for two.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    const int64_t *arg = call_args(c);
    zl_array g = cotangent[0];
    int axis = (int)arg[AXIS];
    int64_t n = arg[COUNT_OF];
    double scale = op_arg_double(arg[SCALE]);
    (void)input;
    switch (arg[WHICH]) {
    case FFT_FORWARD: return part_like(c->in[0], transform_axis(g, FFT_INVERSE, axis, n, scale));
    case FFT_INVERSE: return part_like(c->in[0], transform_axis(g, FFT_FORWARD, axis, n, scale));
    case FFT_REAL: return transform_axis(weigh_pairs(g, axis, n, 0.5), FFT_HERMITIAN, axis, n, scale);
    default: return weigh_pairs(transform_axis(g, FFT_REAL, axis, n, scale), axis, n, 2);
    }
}

static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!op_has(c, 1, 4) || arg[0] < FFT_FORWARD || arg[0] > FFT_HERMITIAN || arg[1] < 0 ||
        arg[1] >= in[0]->ndim || arg[2] < 1 || in[0]->size == 0)
        return false;
    int64_t size = arg[0] == FFT_HERMITIAN ? arg[2] / 2 + 1 : arg[2];
    bool may_be_real = arg[0] != FFT_HERMITIAN, may_be_complex = arg[0] != FFT_REAL;
    return in[0]->dim[arg[1]] == size &&
           ((may_be_real && in[0]->dtype == ZL_FLOAT32) || (may_be_complex && in[0]->dtype == ZL_COMPLEX64));
}

static const struct op_field fields[] = {
    {"which", FIELD_INT}, {"axis", FIELD_INT}, {"n", FIELD_INT}, {"scale", FIELD_DOUBLE}};
const struct op op_fft = {
    .name = "fft",
    .kind = OP_OTHER,
    .fields = 4,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = op_jvp_linear,
    .vmap = vmap,
};

// Arguments -------------------------------------------------------------------------------------------------

struct request {
    const char *function;
    bool real, inverse;
    int count;     // number of axes
    int64_t *axis; // the axes
    int64_t *size; // the length of the transform along each
};

// Returns the scale for a norm, or NAN and an error.
static double scale_of(const struct request *r, const char *norm) {
    double count = 1;
    for (int i = 0; i < r->count; i++)
        count *= (double)r->size[i];
    if (!norm || !strcmp(norm, "backward"))
        return r->inverse ? 1 / count : 1;
    if (!strcmp(norm, "ortho"))
        return 1 / sqrt(count);
    if (!strcmp(norm, "forward"))
        return r->inverse ? 1 : 1 / count;
    error_set(ZL_ERROR_VALUE, "%s: norm \"%s\": \"backward\", \"ortho\" or \"forward\" is needed",
              r->function, norm);
    return NAN;
}

static bool check_request(const char *function, zl_array a, zl_shape s, zl_axes axes) {
    if (a->ndim == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: a scalar: it needs an axis", function);
    if (s.ndim < 0)
        return true;
    if (axes.count < 0)
        return error_false(ZL_ERROR_VALUE, "%s: %d sizes without axes: both, or only axes, are needed",
                           function, s.ndim);
    if (s.ndim != axes.count)
        return error_false(ZL_ERROR_VALUE, "%s: %d sizes for %d axes: one for each is needed", function,
                           s.ndim, axes.count);
    return op_check_list(function, s);
}

static bool read_sizes(struct request *r, zl_array a, zl_shape s) {
    for (int i = 0; i < r->count; i++) {
        bool halved = r->real && r->inverse && i == r->count - 1;
        int64_t given = a->dim[r->axis[i]];
        r->size[i] = s.ndim >= 0 ? s.dim[i] : halved ? 2 * (given - 1) : given;
        if (r->size[i] <= 0 || r->size[i] > INT_MAX)
            return error_false(
                ZL_ERROR_SHAPE,
                "%s: %lld numbers along axis %lld of shape %s: a number from 1 to %d is needed", r->function,
                (long long)r->size[i], (long long)r->axis[i], array_text(a), INT_MAX);
    }
    return true;
}

// Cuts a, or pads it with zeros at the end, to the length of the transform along each axis.
static zl_array resize(const struct request *r, zl_array a) {
    OP_TEMP(int64_t, list, 5 * (int64_t)a->ndim);
    if (!list)
        return NULL;
    int64_t *size = list, *start = size + a->ndim, *stop = start + a->ndim, *one = stop + a->ndim,
            *more = one + a->ndim;
    memcpy(size, a->dim, sizeof(int64_t) * (size_t)a->ndim);
    for (int i = 0; i < r->count; i++)
        size[r->axis[i]] = r->size[i];
    if (r->real && r->inverse)
        size[r->axis[r->count - 1]] = r->size[r->count - 1] / 2 + 1;
    for (int i = 0; i < a->ndim; i++) {
        start[i] = 0, one[i] = 1;
        stop[i] = MIN_OF(size[i], a->dim[i]);
        more[i] = size[i] - stop[i];
    }
    if (!op_check_size(r->function, a->ndim, size))
        return NULL;
    if (shape_equal(a->ndim, size, a->ndim, a->dim))
        return a;
    a = zl_slice(a, (zl_shape){start, a->ndim}, (zl_shape){stop, a->ndim}, (zl_shape){one, a->ndim});
    return a ? zl_pad(a, (zl_shape){start, a->ndim}, (zl_shape){more, a->ndim},
                      op_number((zl_dtype)a->dtype, 0))
             : NULL;
}

// Transforms ------------------------------------------------------------------------------------------------

// Transforms from real numbers begin with the last axis, and transforms to real numbers end with it, so that
// all others are complex.
static zl_array transform_axes(const struct request *r, zl_array x, double scale) {
    int last = r->count - 1;
    if (r->real && !r->inverse)
        x = transform_axis(x, FFT_REAL, (int)r->axis[last], r->size[last], scale);
    for (int i = r->real ? last - 1 : last; i >= 0; i--) {
        bool scaled = (r->real && !r->inverse) || i != (r->real ? last - 1 : last);
        x = transform_axis(x, r->inverse ? FFT_INVERSE : FFT_FORWARD, (int)r->axis[i], r->size[i],
                           scaled ? 1 : scale);
    }
    if (r->real && r->inverse)
        x = transform_axis(x, FFT_HERMITIAN, (int)r->axis[last], r->size[last], last ? 1 : scale);
    return x;
}

static zl_array read_and_transform(struct request *r, zl_array a, zl_shape s, zl_axes axes,
                                   const char *norm) {
    for (int i = 0; axes.count < 0 && i < r->count; i++)
        r->axis[i] = i;
    if ((axes.count >= 0 && !op_read_axes(r->function, a, axes, r->axis)) || !read_sizes(r, a, s))
        return NULL;
    double scale = scale_of(r, norm);
    if (isnan(scale))
        return NULL;
    if (r->count == 0)
        return op_same(a);
    zl_array x = resize(r, a);
    bool is_real = r->real ? !r->inverse : x && x->dtype != ZL_COMPLEX64;
    return x ? transform_axes(r, zl_astype(x, is_real ? ZL_FLOAT32 : ZL_COMPLEX64), scale) : NULL;
}

static zl_array transform(const char *function, zl_array a, zl_shape s, zl_axes axes, const char *norm,
                          bool real, bool inverse) {
    if (!a || !check_request(function, a, s, axes))
        return NULL;
    struct request r = {function, real, inverse, axes.count < 0 ? a->ndim : axes.count, NULL, NULL};
    OP_TEMP(int64_t, list, 2 * (int64_t)r.count + 1);
    if (!list)
        return NULL;
    r.axis = list;
    r.size = list + r.count;
    zl_scope scope = zl_scope_begin();
    return zl_scope_leave(scope, read_and_transform(&r, a, s, axes, norm));
}

static zl_array transform_one(const char *function, zl_array a, int n, int axis, const char *norm, bool real,
                              bool inverse) {
    int64_t size = n;
    zl_shape s = n == INT_MIN ? ZL_NO_SHAPE : (zl_shape){&size, 1};
    return transform(function, a, s, ZL_AXES(axis), norm, real, inverse);
}

#define NORM                                                                                           \
    " The norm says which direction is divided by the count of numbers: \"backward\" or \"forward\"; " \
    "\"ortho\" divides both by its root."
#define ONE_SIZE " n numbers are taken: those that are missing are 0."
#define SIZES    " s numbers are taken along the axes, each its own: those that are missing are 0."

#define ONE_AXIS(function, real, inverse, doc)                                                       \
    static bool again_##function(const union op_value *v, zl_array *out) {                           \
        return (out[0] = function(v[0].array, v[1].number, v[2].number, v[3].string));               \
    }                                                                                                \
    zl_array function(zl_array a, int n, int axis, const char *norm) {                               \
        zl_array y;                                                                                  \
        if (op_again(&y, #function, again_##function, a, n, axis, norm))                             \
            return y;                                                                                \
        return transform_one(#function, a, n, axis, norm, real, inverse);                            \
    }                                                                                                \
    OP_SIGNATURE(function, "fft", doc " along an axis." ONE_SIZE NORM, P_ARRAY(a), P_INT(n, "None"), \
                 P_INT(axis, "-1"), P_STRING(norm, "'backward'"))
#define AXES(function, usual, real, inverse, doc)                                                   \
    static bool again_##function(const union op_value *v, zl_array *out) {                          \
        return (out[0] = function(v[0].array, v[1].shape, v[2].axes, v[3].string));                 \
    }                                                                                               \
    zl_array function(zl_array a, zl_shape s, zl_axes axes, const char *norm) {                     \
        zl_array y;                                                                                 \
        if (op_again(&y, #function, again_##function, a, s, axes, norm))                            \
            return y;                                                                               \
        return transform(#function, a, s, axes, norm, real, inverse);                               \
    }                                                                                               \
    OP_SIGNATURE(function, "fft", doc " along axes." SIZES NORM, P_ARRAY(a), P_SHAPE_OR(s, "None"), \
                 P_AXES(axes, usual), P_STRING(norm, "'backward'"))
#define FORWARD "The discrete Fourier transform of a"
#define INVERSE "The inverse discrete Fourier transform of a"
#define REAL \
    "The first half, and the element in the middle, of the discrete Fourier transform of real numbers a"
#define HERMITIAN \
    "The real numbers of whose discrete Fourier transform a is the first half and the element in the middle"
#define LAST ", of the last axis,"

ONE_AXIS(zl_fft_fft, false, false, FORWARD);
ONE_AXIS(zl_fft_ifft, false, true, INVERSE);
ONE_AXIS(zl_fft_rfft, true, false, REAL);
ONE_AXIS(zl_fft_irfft, true, true, HERMITIAN);
AXES(zl_fft_fft2, "[-2, -1]", false, false, FORWARD);
AXES(zl_fft_ifft2, "[-2, -1]", false, true, INVERSE);
AXES(zl_fft_rfft2, "[-2, -1]", true, false, REAL LAST);
AXES(zl_fft_irfft2, "[-2, -1]", true, true, HERMITIAN LAST);
AXES(zl_fft_fftn, "None", false, false, FORWARD);
AXES(zl_fft_ifftn, "None", false, true, INVERSE);
AXES(zl_fft_rfftn, "None", true, false, REAL LAST);
AXES(zl_fft_irfftn, "None", true, true, HERMITIAN LAST);

// Order and frequencies -------------------------------------------------------------------------------------

static zl_array shift(const char *function, zl_array a, zl_axes axes, bool back) {
    int count = !a ? 0 : axes.count < 0 ? a->ndim : axes.count;
    if (a && axes.count > 0 && !axes.axis)
        return error_set(ZL_ERROR_AXIS, "%s: %d axes, but no list of them", function, axes.count);
    zl_array y = a ? op_same(a) : NULL;
    for (int i = 0; y && i < count; i++) {
        int axis = shape_axis(function, axes.count < 0 ? i : axes.axis[i], a->ndim);
        int64_t half = axis < 0 ? 0 : a->dim[axis] / 2;
        y = axis < 0 ? NULL : zl_roll(y, ZL_SHAPE(back ? -half : half), ZL_AXES(axis));
    }
    return y;
}

static bool again_fftshift(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fft_fftshift(v[0].array, v[1].axes));
}

zl_array zl_fft_fftshift(zl_array a, zl_axes axes) {
    zl_array y;
    if (op_again(&y, "zl_fft_fftshift", again_fftshift, a, axes))
        return y;
    return shift("zl_fft_fftshift", a, axes, false);
}
OP_SIGNATURE(zl_fft_fftshift, "fft",
             "a rolled along axes so that frequency 0, which is first, is in the middle.", P_ARRAY(a),
             P_AXES(axes, "None"));

static bool again_ifftshift(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fft_ifftshift(v[0].array, v[1].axes));
}

zl_array zl_fft_ifftshift(zl_array a, zl_axes axes) {
    zl_array y;
    if (op_again(&y, "zl_fft_ifftshift", again_ifftshift, a, axes))
        return y;
    return shift("zl_fft_ifftshift", a, axes, true);
}
OP_SIGNATURE(zl_fft_ifftshift, "fft",
             "a rolled along axes so that frequency 0, which is in the middle, is first.", P_ARRAY(a),
             P_AXES(axes, "None"));

static bool check_samples(const char *function, int n, double d) {
    if (n > 0 && d != 0 && !isnan(d))
        return true;
    return error_false(ZL_ERROR_VALUE,
                       "%s: %d samples %g apart: at least one, and a distance that is not 0, are needed",
                       function, n, d);
}

static zl_array over_length(zl_array whole, int n, double d) {
    return zl_multiply(whole, op_number(ZL_FLOAT32, 1 / (n * d)));
}

zl_array zl_fft_fftfreq(int n, double d) {
    if (!check_samples("zl_fft_fftfreq", n, d))
        return NULL;
    double half = n / 2, more = n / 2 + n % 2;
    zl_array part[] = {zl_arange(0, more, 1, ZL_FLOAT32), zl_arange(-half, 0, 1, ZL_FLOAT32)};
    return over_length(zl_concatenate(part, 2, 0), n, d);
}
OP_SIGNATURE(zl_fft_fftfreq, "fft", "The frequencies of the transform of n samples that are d apart.",
             P_INT(n, NULL), P_DOUBLE(d, "1.0"));

zl_array zl_fft_rfftfreq(int n, double d) {
    if (!check_samples("zl_fft_rfftfreq", n, d))
        return NULL;
    return over_length(zl_arange(0, n / 2 + 1, 1, ZL_FLOAT32), n, d);
}
OP_SIGNATURE(zl_fft_rfftfreq, "fft", "The frequencies of the transform of n real samples that are d apart.",
             P_INT(n, NULL), P_DOUBLE(d, "1.0"));
