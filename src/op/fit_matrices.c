// fit_matrices.c - the column fits (fit.c) of products, factorisations, convolutions, Fourier transforms and quantised
// matrices.

#include "op/fit.h"

static bool is_truth(int64_t arg) {
    return arg == 0 || arg == 1;
}

static bool same_dtype(zl_array a, zl_array b) {
    return a->dtype == b->dtype;
}

static bool is_inexact(zl_array x) {
    return dtype_is_inexact((zl_dtype)x->dtype);
}

static bool is_integer(zl_array x) {
    return dtype_is_integer((zl_dtype)x->dtype);
}

// Products ---------------------------------------------------------------------------------------------------------

bool op_fits_gather_mm(const struct call *c, const zl_array *in) {
    return has(c, 4, 0) && in[0]->ndim == 3 && in[1]->ndim == 3 && same_dtype(in[0], in[1]) && is_inexact(in[0]) &&
           in[0]->dim[2] == in[1]->dim[1] && in[0]->dim[0] > 0 && in[1]->dim[0] > 0 && is_integer(in[2]) &&
           is_integer(in[3]);
}

bool op_fits_segmented_mm(const struct call *c, const zl_array *in) {
    return has(c, 3, 0) && in[0]->ndim == 2 && in[1]->ndim == 2 && same_dtype(in[0], in[1]) && is_inexact(in[0]) &&
           in[0]->dim[1] == in[1]->dim[0] && in[2]->dtype == ZL_UINT32 && in[2]->ndim >= 1 &&
           in[2]->dim[in[2]->ndim - 1] == 2;
}

// Matrices of bytes with the same batch axes and inner size.
static bool are_factors(const zl_array *in, zl_dtype dtype) {
    if (in[0]->dtype != dtype || in[1]->dtype != dtype || in[0]->ndim != in[1]->ndim || in[0]->ndim < 2)
        return false;
    int last = in[0]->ndim - 1;
    return shape_equal(last - 1, in[0]->dim, last - 1, in[1]->dim) && in[0]->dim[last] == in[1]->dim[last - 1];
}

bool op_fits_matmul_int8(const struct call *c, const zl_array *in) {
    return has(c, 2, 0) && are_factors(in, ZL_INT8);
}

bool op_fits_matmul_fp8(const struct call *c, const zl_array *in) {
    if (!has(c, 2, FP8_ARGS) || !are_factors(in, ZL_UINT8))
        return false;
    int64_t dtype = call_args(c)[FP8_DTYPE];
    return dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT16 || dtype == ZL_FLOAT32;
}

// Factorisations: matrices that are not empty -----------------------------------------------------------------------

static bool are_matrices(zl_array a, bool square, bool may_be_complex) {
    bool number = a->dtype == ZL_FLOAT32 || a->dtype == ZL_FLOAT64 || (may_be_complex && a->dtype == ZL_COMPLEX64);
    return number && a->ndim >= 2 && a->size > 0 && (!square || a->dim[a->ndim - 1] == a->dim[a->ndim - 2]);
}

static bool are_truths(const struct call *c) {
    for (int i = 0; i < c->args; i++)
        if (!is_truth(call_args(c)[i]))
            return false;
    return true;
}

bool op_fits_cholesky(const struct call *c, const zl_array *in) {
    return has(c, 1, 1) && are_truths(c) && are_matrices(in[0], true, false);
}

bool op_fits_inverse(const struct call *c, const zl_array *in) {
    return has(c, 1, 2) && are_truths(c) && are_matrices(in[0], true, false);
}

bool op_fits_lu(const struct call *c, const zl_array *in) {
    return has(c, 1, 0) && are_matrices(in[0], false, false);
}

bool op_fits_qr(const struct call *c, const zl_array *in) {
    return has(c, 1, 0) && are_matrices(in[0], false, false);
}

bool op_fits_svd(const struct call *c, const zl_array *in) {
    return has(c, 1, 1) && are_truths(c) && are_matrices(in[0], false, true);
}

bool op_fits_eigh(const struct call *c, const zl_array *in) {
    return has(c, 1, 2) && are_truths(c) && are_matrices(in[0], true, true);
}

bool op_fits_eig(const struct call *c, const zl_array *in) {
    return has(c, 1, 1) && are_truths(c) && are_matrices(in[0], true, true);
}

// Convolutions and Fourier transforms --------------------------------------------------------------------------------

static const int64_t far = (int64_t)1 << 40; // strides, paddings and dilations are not so large
static const int64_t longest = (int64_t)1 << 58; // elements along a dilated axis

// Stride, low, high, dilation and input_dilation of an axis.
static bool fits_along(const int64_t *arg, int64_t size, int64_t kernel) {
    int64_t span;
    bool small = arg[0] > 0 && arg[0] < far && arg[3] > 0 && arg[3] < far && arg[4] > 0 && arg[4] < far &&
                 arg[1] > -far && arg[1] < far && arg[2] > -far && arg[2] < far;
    return small && !__builtin_mul_overflow(size, arg[4], &span) && span < longest &&
           !__builtin_mul_overflow(kernel, arg[3], &span) && span < longest;
}

// Less than 0: they are in the batch.
static bool fits_groups(int64_t groups, zl_array x, zl_array w) {
    int64_t channels, last = x->ndim - 1;
    if (groups < 0)
        return w->dim[0] % groups == 0 && x->dim[0] % groups == 0 && x->dim[last] == w->dim[last];
    return w->dim[0] % groups == 0 && !__builtin_mul_overflow(w->dim[last], groups, &channels) &&
           channels == x->dim[last];
}

bool op_fits_conv(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->inputs != 2 || c->args < 2 || in[0]->ndim != in[1]->ndim)
        return false;
    int axes = in[0]->ndim - 2;
    if (axes < 1 || axes > CONV_AXES || c->args != 2 + 5 * axes || !arg[0] || arg[0] == INT64_MIN ||
        !is_truth(arg[1]) || !same_dtype(in[0], in[1]) || !is_inexact(in[0]))
        return false;
    for (int i = 0; i < axes; i++)
        if (!fits_along(arg + 2 + 5 * i, in[0]->dim[i + 1], in[1]->dim[i + 1]))
            return false;
    return fits_groups(arg[0], in[0], in[1]);
}

static bool is_number(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT32;
}

static bool stretches_to(zl_array x, int ndim, const int64_t *dim) {
    if (x->ndim != ndim)
        return false;
    for (int i = 0; i < ndim; i++)
        if (x->dim[i] != 1 && x->dim[i] != dim[i])
            return false;
    return true;
}

// q, k and v, mask and sinks; for the backward pass also what comes from the forward one.
bool op_fits_attention(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    bool back = c->op == &op_attention_vjp;
    if (c->args != 4 || !is_truth(arg[1]) || !is_truth(arg[2]) || !is_truth(arg[3]) || (arg[1] && arg[2]) ||
        c->inputs != 3 + (int)arg[2] + (int)arg[3] + 3 * back || in[0]->ndim != 4 || in[1]->ndim != 4 || in[2]->ndim != 4)
        return false;
    struct attention a = op_attention_read(c, in);
    const int64_t *q = a.q->dim, *k = a.k->dim, *v = a.v->dim, scores[] = {q[0], q[1], q[2], k[2]};
    const int64_t result[] = {q[0], q[1], q[2], v[3]}, state[] = {q[0], q[1], q[2], 2};
    bool fits = q[0] == k[0] && k[0] == v[0] && q[3] == k[3] && k[1] == v[1] && k[2] == v[2] && k[1] && q[1] % k[1] == 0 &&
                a.q->size && a.k->size && a.v->size && is_number((zl_dtype)a.q->dtype) && same_dtype(a.q, a.k) &&
                same_dtype(a.q, a.v);
    bool masked = !a.mask || (stretches_to(a.mask, 4, scores) && (a.mask->dtype == ZL_BOOL || same_dtype(a.mask, a.q)));
    bool drained = !a.sinks || (stretches_to(a.sinks, 2, q) && a.sinks->dim[1] == q[1] && same_dtype(a.sinks, a.q));
    return fits && masked && drained &&
           (!back || (shape_equal(4, result, a.y->ndim, a.y->dim) && shape_equal(4, state, a.state->ndim, a.state->dim) &&
                      shape_equal(4, result, a.g->ndim, a.g->dim) && same_dtype(a.y, a.q) && same_dtype(a.g, a.q) &&
                      a.state->dtype == ZL_FLOAT32));
}

bool op_fits_fft(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!has(c, 1, 4) || arg[0] < FFT_FORWARD || arg[0] > FFT_HERMITIAN || arg[1] < 0 || arg[1] >= in[0]->ndim ||
        arg[2] < 1 || in[0]->size == 0)
        return false;
    int64_t size = arg[0] == FFT_HERMITIAN ? arg[2] / 2 + 1 : arg[2];
    bool may_be_real = arg[0] != FFT_HERMITIAN, may_be_complex = arg[0] != FFT_REAL;
    return in[0]->dim[arg[1]] == size &&
           ((may_be_real && in[0]->dtype == ZL_FLOAT32) || (may_be_complex && in[0]->dtype == ZL_COMPLEX64));
}

// Parts of models -----------------------------------------------------------------------------------------------------

bool op_fits_cross_entropy(const struct call *c, const zl_array *in) {
    int last = in[0]->ndim - 1;
    return has(c, 2, 0) && last >= 0 && in[0]->dim[last] > 0 && dtype_is_float((zl_dtype)in[0]->dtype) &&
           is_integer(in[1]) && shape_equal(last, in[0]->dim, in[1]->ndim, in[1]->dim);
}

static bool has_shape(zl_array x, int ndim, const int64_t *dim) {
    return shape_equal(x->ndim, x->dim, ndim, dim);
}

bool op_fits_gated_delta(const struct call *c, const zl_array *in) {
    zl_array q = in[0], v = in[2];
    if (c->args != 0 || c->inputs < 6 || c->inputs > 7 || q->ndim != 4 || v->ndim != 4 ||
        (q->dtype != ZL_FLOAT32 && q->dtype != ZL_FLOAT64))
        return false;
    for (int i = 1; i < 6; i++)
        if (!same_dtype(in[i], q))
            return false;
    int64_t batch = q->dim[0], time = q->dim[1], groups = q->dim[2], keys = q->dim[3], heads = v->dim[2];
    const int64_t gates[] = {batch, time, heads, keys}, state[] = {batch, heads, v->dim[3], keys};
    return time > 0 && keys > 0 && groups > 0 && heads % groups == 0 && has_shape(in[1], 4, q->dim) &&
           v->dim[0] == batch && v->dim[1] == time && (has_shape(in[3], 3, gates) || has_shape(in[3], 4, gates)) &&
           has_shape(in[4], 3, gates) && has_shape(in[5], 4, state) &&
           (c->inputs == 6 || (in[6]->dtype == ZL_BOOL && has_shape(in[6], 2, gates)));
}

// Sparse matrices -----------------------------------------------------------------------------------------------------

static bool are_csr(zl_array indices, zl_array pointers) {
    return indices->ndim == 1 && pointers->ndim == 1 && pointers->dim[0] > 0 && same_dtype(indices, pointers) &&
           (indices->dtype == ZL_INT32 || indices->dtype == ZL_INT64);
}

static bool is_dense(zl_array x) {
    return x->ndim == 2 && (x->dtype == ZL_FLOAT32 || x->dtype == ZL_FLOAT64);
}

bool op_fits_csr_matmul(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!has(c, 4, 2) || !is_truth(arg[0]) || arg[1] < 0 || !are_csr(in[1], in[2]) || !is_dense(in[3]))
        return false;
    return in[0]->ndim == 1 && in[0]->dim[0] == in[1]->dim[0] && same_dtype(in[0], in[3]) &&
           in[3]->dim[0] == (arg[0] ? in[2]->dim[0] - 1 : arg[1]);
}

bool op_fits_csr_sample(const struct call *c, const zl_array *in) {
    return has(c, 4, 0) && are_csr(in[0], in[1]) && is_dense(in[2]) && is_dense(in[3]) && same_dtype(in[2], in[3]) &&
           in[2]->dim[1] == in[3]->dim[1] && in[2]->dim[0] == in[1]->dim[0] - 1;
}

bool op_fits_csr_rows(const struct call *c, const zl_array *in) {
    return has(c, 2, 1) && call_args(c)[0] >= 0 && in[0]->size > 0 && are_csr(in[0], in[1]);
}

// Quantised matrices ---------------------------------------------------------------------------------------------------

static bool is_affine(const int64_t *arg) {
    bool bits = arg[2] >= 2 && arg[2] <= 8 && arg[2] != 7;
    return arg[0] == QUANT_AFFINE && bits && (arg[1] == 16 || arg[1] == 32 || arg[1] == 64 || arg[1] == 128);
}

static bool is_mode(const int64_t *arg) {
    switch (arg[0]) {
    case QUANT_MXFP4: return arg[1] == 32 && arg[2] == 4;
    case QUANT_MXFP8: return arg[1] == 32 && arg[2] == 8;
    case QUANT_NVFP4: return arg[1] == 16 && arg[2] == 4;
    default: return is_affine(arg);
    }
}

bool op_fits_quantize(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    return has(c, 1, 3) && is_affine(arg) && is_number((zl_dtype)in[0]->dtype) && in[0]->ndim >= 2 &&
           in[0]->dim[in[0]->ndim - 1] % MAX_OF(arg[1], 32) == 0;
}

// Words, scales and, if affine, biases of one matrix or several.
static bool are_parts(const int64_t *arg, const zl_array *part) {
    zl_array w = part[0], scales = part[1];
    int last = w->ndim - 1;
    bool affine = arg[0] == QUANT_AFFINE;
    zl_dtype dtype = (zl_dtype)scales->dtype;
    if (last < 1 || w->dtype != ZL_UINT32 || scales->ndim != w->ndim || !shape_equal(last, w->dim, last, scales->dim) ||
        scales->dim[last] > far || w->dim[last] > far || (affine ? !is_number(dtype) : dtype != ZL_UINT8))
        return false;
    if (w->dim[last] * 32 != scales->dim[last] * arg[1] * arg[2])
        return false;
    return !affine || (same_dtype(part[2], scales) && shape_equal(w->ndim, scales->dim, part[2]->ndim, part[2]->dim));
}

bool op_fits_dequantize(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->args != 3 || !is_mode(arg) || c->inputs < 2 || c->inputs > 3 || (c->inputs == 2 && arg[0] == QUANT_AFFINE))
        return false;
    bool global = c->inputs == 3 && arg[0] != QUANT_AFFINE;
    return is_number((zl_dtype)call_first(c)->dtype) && are_parts(arg, in) &&
           (!global || (arg[0] == QUANT_NVFP4 && in[2]->size == 1 && in[2]->dtype == ZL_FLOAT32));
}

static bool are_lists(zl_array a, zl_array b) {
    return a->ndim == 1 && b->ndim == 1 && a->dim[0] == b->dim[0] && is_integer(a) && is_integer(b);
}

bool op_fits_quantized_matmul(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->args != 5 || !is_mode(arg) || !is_truth(arg[3]) || !is_truth(arg[4]))
        return false;
    int parts = arg[0] == QUANT_AFFINE ? 4 : 3, ndim = arg[4] ? 3 : 2;
    if (c->inputs != parts + 2 * (int)arg[4] || in[0]->ndim != ndim || in[1]->ndim != ndim || !are_parts(arg, in + 1) ||
        !dtype_is_float((zl_dtype)in[0]->dtype))
        return false;
    int64_t rows = in[1]->dim[ndim - 2], cols = in[2]->dim[ndim - 1] * arg[1];
    bool chosen = !arg[4] || (are_lists(in[parts], in[parts + 1]) && in[0]->dim[0] > 0 && in[1]->dim[0] > 0);
    return chosen && in[0]->dim[ndim - 1] == (arg[3] ? cols : rows);
}

// What follows shapes ----------------------------------------------------------------------------------------------------

bool op_fits_stretch_with(const struct call *c, const zl_array *in) {
    if (c->inputs < 1 || c->args != 1 || call_args(c)[0] < 0)
        return false;
    for (int i = 0; i < c->inputs; i++)
        if (in[i]->ndim < call_args(c)[0])
            return false;
    return true;
}

bool op_fits_element_count(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->inputs != 1 || c->args < 2 || !is_truth(arg[0]) || arg[1] < 0)
        return false;
    for (int i = 2; i < c->args; i++)
        if (arg[i] < 0 || arg[i] >= in[0]->ndim)
            return false;
    return dtype_is_inexact((zl_dtype)call_first(c)->dtype);
}
