// create.c - new arrays: filled, ranges, diagonal, triangular.

#include <math.h>

#include "op/ops.h"

// full and its kin ------------------------------------------------------------------------------------------

static bool check_stretch(const char *function, zl_array value, zl_shape shape) {
    bool fits = value->ndim <= shape.ndim;
    for (int i = 1; fits && i <= value->ndim; i++) {
        int64_t size = value->dim[value->ndim - i];
        fits = size == 1 || size == shape.dim[shape.ndim - i];
    }
    return fits || error_false(ZL_ERROR_SHAPE, "%s: a value of shape %s does not broadcast to %s", function,
                               array_text(value), shape_text(shape.ndim, shape.dim));
}

static zl_array filled(const char *function, zl_shape shape, zl_array value, zl_dtype dtype) {
    if (!value || !op_check_dtype(function, dtype) || !op_check_shape(function, shape) ||
        !check_stretch(function, value, shape))
        return NULL;
    zl_array all = zl_broadcast_to(zl_astype(value, dtype), shape);
    return op_dense(&op_copy, 1, &all, 0, NULL, dtype, shape.ndim, shape.dim);
}

zl_array zl_full(zl_shape shape, zl_array vals, zl_dtype dtype) {
    return vals ? filled("zl_full", shape, vals, op_dtype_or(dtype, (zl_dtype)vals->dtype)) : NULL;
}
OP_SIGNATURE(
    zl_full, "create",
    "An array of that shape filled with vals, a number or what broadcasts to it; of its dtype if none "
    "is given.",
    P_SHAPE(shape), P_ARRAY(vals), P_DTYPE(dtype, "None"));

static zl_array filled_with(const char *function, zl_shape shape, zl_dtype dtype, double value) {
    return op_check_dtype(function, dtype) ? filled(function, shape, op_number(dtype, value), dtype) : NULL;
}

zl_array zl_zeros(zl_shape shape, zl_dtype dtype) {
    return filled_with("zl_zeros", shape, dtype, 0);
}
OP_SIGNATURE(zl_zeros, "create", "An array of zeros.", P_SHAPE(shape), P_DTYPE(dtype, "float32"));

zl_array zl_ones(zl_shape shape, zl_dtype dtype) {
    return filled_with("zl_ones", shape, dtype, 1);
}
OP_SIGNATURE(zl_ones, "create", "An array of ones.", P_SHAPE(shape), P_DTYPE(dtype, "float32"));

static zl_array filled_like(const char *function, zl_array a, zl_array value, zl_dtype dtype) {
    zl_array all = op_stretch(function, 2, (zl_array[]){zl_astype(value, dtype), a}, 0);
    return all ? op_dense(&op_copy, 1, &all, 0, NULL, dtype, all->ndim, all->dim) : NULL;
}

zl_array zl_full_like(zl_array a, zl_array vals, zl_dtype dtype) {
    if (!a || !vals || !op_check_broadcast("zl_full_like", a, vals))
        return NULL;
    dtype = op_dtype_or(dtype, (zl_dtype)a->dtype);
    return op_check_dtype("zl_full_like", dtype) ? filled_like("zl_full_like", a, vals, dtype) : NULL;
}
OP_SIGNATURE(
    zl_full_like, "create",
    "An array filled with vals, of the shape that a and vals broadcast to, and of the dtype of a if none "
    "is given.",
    P_ARRAY(a), P_ARRAY(vals), P_DTYPE(dtype, "None"));

static zl_array number_like(const char *function, zl_array a, zl_dtype dtype, double value) {
    dtype = a ? op_dtype_or(dtype, (zl_dtype)a->dtype) : dtype;
    return a && op_check_dtype(function, dtype) ? filled_like(function, a, op_number(dtype, value), dtype)
                                                : NULL;
}

zl_array zl_zeros_like(zl_array a, zl_dtype dtype) {
    return number_like("zl_zeros_like", a, dtype, 0);
}
OP_SIGNATURE(zl_zeros_like, "create", "Zeros of the shape of a, and of its dtype if none is given.",
             P_ARRAY(a), P_DTYPE(dtype, "None"));

zl_array zl_ones_like(zl_array a, zl_dtype dtype) {
    return number_like("zl_ones_like", a, dtype, 1);
}
OP_SIGNATURE(zl_ones_like, "create", "Ones of the shape of a, and of its dtype if none is given.", P_ARRAY(a),
             P_DTYPE(dtype, "None"));

// arange ----------------------------------------------------------------------------------------------------

static bool record_arange(const struct call *c, const zl_array *in, zl_array *out) {
    (void)in;
    zl_array y = call_output(c, 0);
    return (out[0] = op_dense(c->op, 0, NULL, 3, call_args(c), (zl_dtype)y->dtype, 1, y->dim));
}

static bool vmap_arange(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                        int *out_axis) {
    (void)axis;
    out_axis[0] = -1;
    return record_arange(c, in, out);
}

static const struct op_field double_fields[] = {
    {"start", FIELD_DOUBLE}, {"stop", FIELD_DOUBLE}, {"step", FIELD_DOUBLE}};
static bool fits(const struct call *c, const zl_array *in) {
    (void)in;
    zl_array y = call_output(c, 0);
    return op_has(c, 0, 3) && y->ndim == 1 && y->dtype != ZL_BOOL &&
           dtype_is_integer((zl_dtype)y->dtype) == (c->op == &op_arange_int);
}

static const struct op_field int_fields[] = {{"start", FIELD_INT}, {"stop", FIELD_INT}, {"step", FIELD_INT}};
const struct op op_arange = {
    .name = "arange",
    .kind = OP_OTHER,
    .fields = 3,
    .field = double_fields,
    .record = record_arange,
    .fits = fits,
    .vmap = vmap_arange,
};
const struct op op_arange_int = {
    .name = "arange_int",
    .kind = OP_OTHER,
    .fields = 3,
    .field = int_fields,
    .record = record_arange,
    .fits = fits,
    .vmap = vmap_arange,
};

static bool check_arange(const char *function, zl_dtype dtype) {
    if (!op_check_dtype(function, dtype))
        return false;
    return dtype != ZL_BOOL ||
           error_false(ZL_ERROR_DTYPE, "%s: bool cannot count: use a number dtype", function);
}

// Records a range of integers that wrap around. This is exact for every dtype, since narrower ones keep the
// low bits.
static zl_array count_up(int64_t start, int64_t step, int64_t count, zl_dtype dtype) {
    int64_t stop = (int64_t)((uint64_t)start + (uint64_t)count * (uint64_t)step);
    return op_dense(&op_arange_int, 0, NULL, 3, (int64_t[]){start, stop, step}, dtype, 1, &count);
}

zl_array zl_arange_int(int64_t start, int64_t stop, int64_t step, zl_dtype dtype) {
    dtype = op_dtype_or(dtype, ZL_INT32);
    if (!check_arange("zl_arange_int", dtype))
        return NULL;
    if (step == 0)
        return error_set(ZL_ERROR_VALUE, "zl_arange_int: the step is 0");
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    bool empty = step > 0 ? start >= stop : start <= stop;
    uint64_t count = empty ? 0 : (span - 1) / stride + 1;
    if (count > INT64_MAX / 16)
        return error_set(ZL_ERROR_OVERFLOW, "zl_arange_int: %llu numbers are too many",
                         (unsigned long long)count);
    zl_array y = count_up(start, step, (int64_t)count, dtype_is_integer(dtype) ? dtype : ZL_INT64);
    return zl_astype(y, dtype);
}
OP_SIGNATURE(zl_arange_int, "create",
             "zl_arange of whole numbers, exact to 64 bits; int32 if no dtype is given.",
             P_INT64(start, NULL), P_INT64(stop, NULL), P_INT64(step, "1"), P_DTYPE(dtype, "None"));

// Returns the number of elements, or -1 and an error.
static int64_t arange_count(double start, double stop, double step) {
    if (isnan(start) || isnan(stop) || isnan(step) || isinf(start) || isinf(stop) || step == 0) {
        error_set(ZL_ERROR_VALUE,
                  "zl_arange: from %g to %g by %g: the bounds must be finite and the step not 0", start, stop,
                  step);
        return -1;
    }
    double count = ceil((stop - start) / step);
    if (isinf(step))
        return (step > 0) == (start < stop) && start != stop;
    if (count > (double)(INT64_MAX / 16)) {
        error_set(ZL_ERROR_OVERFLOW, "zl_arange: from %g to %g by %g there are too many numbers", start, stop,
                  step);
        return -1;
    }
    return count > 0 ? (int64_t)count : 0;
}

static int64_t whole(double value) {
    int64_t out;
    dtype_convert(&out, ZL_INT64, &value, ZL_FLOAT64, 1);
    return out;
}

zl_array zl_arange(double start, double stop, double step, zl_dtype dtype) {
    dtype = op_dtype_or(dtype, ZL_FLOAT32);
    if (!check_arange("zl_arange", dtype))
        return NULL;
    int64_t count = arange_count(start, stop, step);
    if (count < 0)
        return NULL;
    if (count <= 1)
        step = 1; // infinity times 0 would be NaN
    if (dtype_is_integer(
            dtype)) // as in MLX, the step of integers is the difference of the first two elements, truncated
        return count_up(whole(start), (int64_t)((uint64_t)whole(start + step) - (uint64_t)whole(start)),
                        count, dtype);
    const int64_t arg[] = {op_double_arg(start), op_double_arg(stop), op_double_arg(step)};
    return op_dense(&op_arange, 0, NULL, 3, arg, dtype, 1, &count);
}
OP_SIGNATURE(zl_arange, "create",
             "start, start + step, start + 2 * step and so on, as long as they are before stop. Element i is "
             "computed from i, so that errors do not add up. float32 if no dtype is given.",
             P_DOUBLE(start, NULL), P_DOUBLE(stop, NULL), P_DOUBLE(step, "1"), P_DTYPE(dtype, "None"));

zl_array zl_linspace(double start, double stop, int64_t num, bool endpoint, zl_dtype dtype) {
    if (!op_check_dtype("zl_linspace", dtype))
        return NULL;
    if (num < 0)
        return error_set(ZL_ERROR_VALUE, "zl_linspace: %lld numbers: there cannot be less than 0",
                         (long long)num);
    if (!op_check_size("zl_linspace", 1, &num))
        return NULL;
    zl_dtype working = dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    if (num == 1)
        return filled("zl_linspace", ZL_SHAPE(1), op_number(working, start), dtype);
    double last = (double)(endpoint ? num - 1 : num);
    zl_array t = zl_divide(zl_arange(0, (double)num, 1, working), op_number(working, last));
    // Both ends are exact, because t is 0 at one and 1 at the other.
    zl_array y = zl_add(zl_multiply(zl_subtract(op_number(working, 1), t), op_number(working, start)),
                        zl_multiply(t, op_number(working, stop)));
    return zl_astype(y, dtype);
}
OP_SIGNATURE(zl_linspace, "create",
             "num numbers from start to stop, equally far apart; stop itself only if endpoint.",
             P_DOUBLE(start, NULL), P_DOUBLE(stop, NULL), P_INT64(num, "50"), P_BOOL(endpoint, "True"),
             P_DTYPE(dtype, "float32"));

// Diagonals and triangles -----------------------------------------------------------------------------------

// Returns column number - row number - k of an n by m matrix: 0 on the k-th diagonal, negative below it.
static zl_array diagonals(const char *function, int64_t n, int64_t m, int64_t k) {
    const int64_t dim[] = {n, m};
    if (!op_check_shape(function, (zl_shape){dim, 2}) || !op_check_size(function, 1, &n) ||
        !op_check_size(function, 1, &m))
        return NULL;
    k = k > m ? m : k < -n ? -n : k; // beyond that all elements are on one side of the diagonal
    zl_array down = zl_arange_int(0, n, 1, ZL_INT64), across = zl_arange_int(-k, m - k, 1, ZL_INT64);
    return zl_subtract(across, zl_expand_dims(down, ZL_AXES(1)));
}

// Returns m, or n if m was not given.
static int64_t columns(int64_t n, int64_t m) {
    return m == INT64_MIN ? n : m;
}

zl_array zl_eye(int64_t n, int64_t m, int64_t k, zl_dtype dtype) {
    if (!op_check_dtype("zl_eye", dtype))
        return NULL;
    return zl_astype(zl_equal(diagonals("zl_eye", n, columns(n, m), k), op_number(ZL_INT64, 0)), dtype);
}
OP_SIGNATURE(
    zl_eye, "create",
    "An n by m matrix of ones on the k-th diagonal and zeros elsewhere; k > 0 is above the main one.",
    P_INT64(n, NULL), P_INT64(m, "None"), P_INT64(k, "0"), P_DTYPE(dtype, "float32"));

zl_array zl_identity(int64_t n, zl_dtype dtype) {
    if (!op_check_dtype("zl_identity", dtype))
        return NULL;
    return zl_astype(zl_equal(diagonals("zl_identity", n, n, 0), op_number(ZL_INT64, 0)), dtype);
}
OP_SIGNATURE(zl_identity, "create", "The n by n identity matrix.", P_INT64(n, NULL),
             P_DTYPE(dtype, "float32"));

static zl_array triangle(const char *function, int64_t n, int64_t m, int64_t k) {
    return zl_less_equal(diagonals(function, n, m, k), op_number(ZL_INT64, 0));
}

zl_array zl_tri(int64_t n, int64_t m, int64_t k, zl_dtype dtype) {
    dtype = op_dtype_or(dtype, ZL_FLOAT32);
    return op_check_dtype("zl_tri", dtype)
               ? zl_astype(triangle("zl_tri", MAX_OF(n, 0), MAX_OF(columns(n, m), 0), k), dtype)
               : NULL;
}
OP_SIGNATURE(
    zl_tri, "create",
    "An n by m matrix of ones on and below the k-th diagonal and zeros above it; float32 if no dtype is "
    "given. A negative size is 0.",
    P_INT64(n, NULL), P_INT64(m, "None"), P_INT64(k, "0"), P_DTYPE(dtype, "None"));

// Sets the elements on the other side of the k-th diagonal of each matrix to 0.
static zl_array keep_triangle(const char *function, zl_array x, int64_t k, bool is_lower) {
    if (!x)
        return NULL;
    if (x->ndim < 2)
        return error_set(ZL_ERROR_SHAPE, "%s: x of shape %s is no matrix: it needs two axes or more",
                         function, array_text(x));
    zl_array zero = op_number((zl_dtype)x->dtype, 0);
    zl_array below = triangle(function, x->dim[x->ndim - 2], x->dim[x->ndim - 1], k);
    return is_lower ? zl_where(below, x, zero) : zl_where(below, zero, x);
}

static bool again_tril(const union op_value *v, zl_array *out) {
    return (out[0] = zl_tril(v[0].array, v[1].wide));
}

zl_array zl_tril(zl_array x, int64_t k) {
    zl_array y;
    if (op_again(&y, "zl_tril", again_tril, x, k))
        return y;
    return keep_triangle("zl_tril", x, k, true);
}
OP_SIGNATURE(zl_tril, "create", "x with zeros above the k-th diagonal of its last two axes.", P_ARRAY(x),
             P_INT64(k, "0"));

static bool again_triu(const union op_value *v, zl_array *out) {
    return (out[0] = zl_triu(v[0].array, v[1].wide));
}

zl_array zl_triu(zl_array x, int64_t k) {
    zl_array y;
    if (op_again(&y, "zl_triu", again_triu, x, k))
        return y;
    return keep_triangle("zl_triu", x, k == INT64_MIN ? k : k - 1, false);
}
OP_SIGNATURE(zl_triu, "create", "x with zeros below the k-th diagonal of its last two axes.", P_ARRAY(x),
             P_INT64(k, "0"));
