// quantized_matmul.c - products with quantised matrices, which are never expanded in memory: the kernel
// dequantises them as it multiplies.

#include "op/ops.h"

#include <string.h>

enum { MODE, GROUP, CODE_BITS, TRANSPOSE, GATHERED, ARGS };
enum { X, W, SCALES, BIASES };

// The operands of a call. biases, first and second may be NULL.
struct product {
    zl_array x, w, scales, biases, first, second;
    struct quantization q;
    bool transpose;
};

static int list_inputs(const struct product *p, zl_array *in) {
    int count = 0;
    const zl_array all[] = {p->x, p->w, p->scales, p->biases, p->first, p->second};
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i])
            in[count++] = all[i];
    return count;
}

static struct product parts_of(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    int gathered = arg[GATHERED] != 0;
    return (struct product){.x = in[X],
                            .w = in[W],
                            .scales = in[SCALES],
                            .biases = arg[MODE] == QUANT_AFFINE ? in[BIASES] : NULL,
                            .first = gathered ? in[c->inputs - 2] : NULL,
                            .second = gathered ? in[c->inputs - 1] : NULL,
                            .q = {(enum quant_mode)arg[MODE], (int)arg[GROUP], (int)arg[CODE_BITS]},
                            .transpose = arg[TRANSPOSE]};
}

// Records the call; x is floating point.
static zl_array multiply(const struct product *p) {
    zl_array in[6];
    int count = list_inputs(p, in), ndim = p->x->ndim, gathered = p->first != NULL;
    for (int i = 0; i < count; i++)
        if (!(in[i] = zl_contiguous(in[i], false)))
            return NULL;
    int64_t rows = p->w->dim[ndim - 2], columns = op_quant_columns(&p->q, p->w);
    int64_t dim[] = {gathered ? p->first->dim[0] : 0, p->x->dim[ndim - 2], p->transpose ? rows : columns};
    int64_t arg[] = {p->q.mode, p->q.group, p->q.bits, p->transpose, gathered};
    const int64_t *shape = dim + !gathered;
    if (!op_check_size("zl_quantized_matmul", ndim, shape))
        return NULL;
    if (p->x->size == 0 || p->w->size == 0)
        return zl_zeros((zl_shape){shape, ndim}, (zl_dtype)p->x->dtype);
    return op_dense(&op_quantized_matmul, count, in, ARGS, arg, (zl_dtype)p->x->dtype, ndim, shape);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct product p = parts_of(c, in);
    return (out[0] = multiply(&p));
}

// Derivatives -----------------------------------------------------------------------------------------------

// Adds each element to the element of an array like x that it was taken from.
static zl_array scatter(zl_array x, zl_array index, zl_array each) {
    zl_array updates = zl_expand_dims(each, ZL_AXES(1)), zeros = op_zeros_of(x);
    return updates && zeros ? op_scatter_slices(UPDATE_ADD, zeros, 1, &index, updates, (int64_t[]){0}) : NULL;
}

static zl_array vjp_x(struct product p, zl_array g) {
    zl_array x = p.x, from = p.first;
    p.x = g;
    p.transpose = !p.transpose;
    if (!from)
        return multiply(&p);
    p.first = zl_arange_int(0, from->dim[0], 1, ZL_UINT32);
    zl_array each = p.first ? multiply(&p) : NULL;
    return each ? scatter(x, from, each) : NULL;
}

// Returns the cotangent that the matrix would have if it were not quantised.
static zl_array vjp_matrix(const struct product *p, zl_array g) {
    zl_dtype wide = p->x->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    zl_array x = zl_astype(p->first ? zl_take(p->x, p->first, 0) : p->x, wide);
    g = zl_astype(g, wide);
    zl_array dw = p->transpose ? zl_matmul(zl_matrix_transpose(g), x) : zl_matmul(zl_matrix_transpose(x), g);
    if (!p->second || !dw)
        return dw;
    zl_array like = zl_zeros(ZL_SHAPE(p->w->dim[0], dw->dim[1], dw->dim[2]), (zl_dtype)dw->dtype);
    return like ? scatter(like, p->second, dw) : NULL;
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    struct product p = parts_of(c, c->in);
    if (input == X)
        return vjp_x(p, cotangent[0]);
    if (input == SCALES && !p.biases)
        return error_set(ZL_ERROR_VALUE, "zl_quantized_matmul: scales that are bytes have no derivative");
    if (input == W)
        return error_set(
            ZL_ERROR_VALUE,
            "zl_quantized_matmul: there is no gradient by quantised words: use zl_stop_gradient on them");
    if (!p.biases || input > BIASES)
        return op_refuse_positions(c);
    return op_quant_vjp(p.w, p.scales, &p.q, input - 1, vjp_matrix(&p, cotangent[0]));
}

// The product is linear in x, and in scales and biases together.
static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    struct product by_x = parts_of(c, c->in), by_w = by_x;
    for (int i = by_x.biases ? BIASES + 1 : BIASES; by_x.second && i < c->inputs; i++)
        if (tangent[i])
            return op_refuse_positions(c);
    bool weights = by_x.biases && (tangent[SCALES] || tangent[BIASES]);
    zl_array sum = NULL, other = NULL;
    by_x.x = tangent[X];
    if (tangent[X] && !(sum = multiply(&by_x)))
        return false;
    if (weights) {
        by_w.scales = tangent[SCALES] ? tangent[SCALES] : op_zeros_of(by_w.scales);
        by_w.biases = tangent[BIASES] ? tangent[BIASES] : op_zeros_of(by_w.biases);
        if (!by_w.scales || !by_w.biases || !(other = multiply(&by_w)))
            return false;
    }
    out[0] = sum && other ? zl_add(sum, other) : sum ? sum : other;
    return out[0] || (!tangent[X] && !weights);
}

// Batches ---------------------------------------------------------------------------------------------------

static const char *const mode_names[] = {"affine", "mxfp4", "mxfp8", "nvfp4", "gguf_k"};

// If the quantised matrix is the same for the batch, the rows of all x are rows of one matrix. If not, the
// matrices are dequantised.
static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    struct product p = parts_of(c, in);
    int64_t batch = op_batch_size(c->inputs, in, axis);
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    if (p.first)
        return error_false(ZL_ERROR_VALUE, "zl_gather_qmm cannot be mapped over");
    zl_array x = op_batch_repeat(p.x, axis[X], batch);
    if (!x)
        return false;
    if (op_batch_size(c->inputs - 1, in + 1, axis + 1) < 0) {
        p.x = zl_flatten(x, 0, 1);
        zl_array y = p.x ? multiply(&p) : NULL;
        return (out[0] = zl_unflatten(y, 0, ZL_SHAPE(x->dim[0], x->dim[1])));
    }
    zl_array w =
        zl_dequantize(op_batch_repeat(p.w, axis[W], batch), op_batch_repeat(p.scales, axis[SCALES], batch),
                      p.biases ? op_batch_repeat(p.biases, axis[BIASES], batch) : NULL, p.q.group, p.q.bits,
                      mode_names[p.q.mode], NULL, (zl_dtype)p.x->dtype);
    return (out[0] = zl_matmul(x, p.transpose ? zl_matrix_transpose(w) : w));
}

static bool are_lists(zl_array a, zl_array b) {
    return a->ndim == 1 && b->ndim == 1 && a->dim[0] == b->dim[0] && dtype_is_integer((zl_dtype)a->dtype) &&
           dtype_is_integer((zl_dtype)b->dtype);
}

static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->args != 5 || !op_is_quantization(arg) || !op_is_among(arg[3], 2) || !op_is_among(arg[4], 2))
        return false;
    int parts = arg[0] == QUANT_AFFINE ? 4 : 3, ndim = arg[4] ? 3 : 2;
    if (c->inputs != parts + 2 * (int)arg[4] || in[0]->ndim != ndim || in[1]->ndim != ndim ||
        !op_are_quantized(arg, in + 1) || !dtype_is_float((zl_dtype)in[0]->dtype))
        return false;
    int64_t rows = in[1]->dim[ndim - 2], cols = op_quant_columns(
                &(struct quantization){(enum quant_mode)arg[0], (int)arg[1], (int)arg[2]}, in[1]);
    bool chosen = !arg[4] || (are_lists(in[parts], in[parts + 1]) && in[0]->dim[0] > 0 && in[1]->dim[0] > 0);
    return chosen && in[0]->dim[ndim - 1] == (arg[3] ? cols : rows);
}

static const struct op_field fields[] = {{"mode", FIELD_INT},
                                         {"group_size", FIELD_INT},
                                         {"bits", FIELD_INT},
                                         {"transpose", FIELD_BOOL},
                                         {"gathered", FIELD_BOOL}};
const struct op op_quantized_matmul = {
    .name = "quantized_matmul",
    .kind = OP_OTHER,
    .fields = 5,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Public functions ------------------------------------------------------------------------------------------

static bool check_sizes(const char *function, const struct product *p) {
    int n = p->w->ndim;
    int64_t columns = op_quant_columns(&p->q, p->w), inner = p->transpose ? columns : p->w->dim[n - 2];
    if (p->x->ndim == 0 || p->x->dim[p->x->ndim - 1] != inner)
        return error_false(ZL_ERROR_SHAPE,
                           "%s: x of shape %s times a %smatrix of shape (%lld, %lld): its last size must be "
                           "%lld",
                           function, array_text(p->x), p->transpose ? "transposed " : "",
                           (long long)p->w->dim[n - 2], (long long)columns, (long long)inner);
    return true;
}

// Checks the operands, casts x to the common dtype of all, and scales and biases to theirs. Returns false,
// with an error, if that fails.
static bool prepare(const char *function, struct product *p) {
    if (!op_check_quantized(function, &p->q, p->w, p->scales, p->biases) || !check_sizes(function, p))
        return false;
    zl_dtype dtype = dtype_common(p->biases ? 3 : 1, (zl_array[]){p->x, p->scales, p->biases});
    if (!dtype_is_float(dtype))
        return error_false(ZL_ERROR_DTYPE, "%s: x is %s: floating point is needed", function,
                           zl_dtype_name((zl_dtype)p->x->dtype));
    p->x = zl_astype(p->x, dtype);
    if (p->biases) {
        zl_dtype own = dtype_common(2, (zl_array[]){p->scales, p->biases});
        p->scales = zl_astype(p->scales, own);
        p->biases = zl_astype(p->biases, own);
    }
    return p->x && p->scales && (!p->biases == (p->q.mode != QUANT_AFFINE));
}

// Multiplies by one quantised matrix: all rows of x are rows of one matrix.
static zl_array multiply_rows(struct product p) {
    zl_array x = p.x;
    p.x = x->ndim == 1 ? zl_expand_dims(x, ZL_AXES(0)) : x->size ? zl_flatten(x, 0, -2) : x;
    OP_TEMP(int64_t, dim, x->ndim);
    if (!p.x || !dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    dim[x->ndim - 1] = p.transpose ? p.w->dim[0] : op_quant_columns(&p.q, p.w);
    if (x->size == 0)
        return op_check_size("zl_quantized_matmul", x->ndim, dim)
                   ? zl_zeros((zl_shape){dim, x->ndim}, (zl_dtype)x->dtype)
                   : NULL;
    return zl_reshape(multiply(&p), (zl_shape){dim, x->ndim});
}

// Returns the numbers of the matrices of x, in the shape of its axes before the last two.
static zl_array number_matrices(zl_array x) {
    int64_t count = 1;
    for (int i = 0; i < x->ndim - 2; i++)
        count *= x->dim[i];
    return zl_reshape(zl_arange_int(0, count, 1, ZL_UINT32), (zl_shape){x->dim, x->ndim - 2});
}

static zl_array as_list(zl_array x) {
    return x->ndim == 2 ? zl_expand_dims(x, ZL_AXES(0)) : zl_flatten(x, 0, -3);
}

// Multiplies the matrices of x and of w that the indices name. Both lists of indices have one shape, which
// comes first in the result.
static zl_array multiply_chosen(struct product p) {
    zl_array shape = p.first;
    if (p.x->size == 0 || p.w->size == 0 || shape->size == 0) {
        OP_TEMP(int64_t, dim, shape->ndim + 2);
        for (int i = 0; dim && i < shape->ndim; i++)
            dim[i] = shape->dim[i];
        if (!dim)
            return NULL;
        dim[shape->ndim] = p.x->dim[p.x->ndim - 2];
        dim[shape->ndim + 1] =
            p.transpose ? p.w->dim[p.w->ndim - 2] : op_quant_columns(&p.q, p.w);
        return op_check_size("zl_gather_qmm", shape->ndim + 2, dim)
                   ? zl_zeros((zl_shape){dim, shape->ndim + 2}, (zl_dtype)p.x->dtype)
                   : NULL;
    }
    p.x = as_list(p.x);
    p.w = as_list(p.w);
    p.scales = as_list(p.scales);
    p.biases = p.biases ? as_list(p.biases) : NULL;
    p.first = zl_flatten(p.first, 0, -1);
    p.second = zl_flatten(p.second, 0, -1);
    if (!p.x || !p.w || !p.scales || !p.first || !p.second)
        return NULL;
    zl_array y = multiply(&p);
    return y && shape->ndim ? zl_unflatten(y, 0, (zl_shape){shape->dim, shape->ndim})
                            : zl_squeeze(y, ZL_AXES(0));
}

static zl_array multiply_batches(const char *function, struct product p) {
    zl_array pair[2];
    if (p.x->ndim < 2)
        return error_set(ZL_ERROR_SHAPE, "%s: x of shape %s: two axes are needed for matrices of shape %s",
                         function, array_text(p.x), array_text(p.w));
    if (!(pair[0] = number_matrices(p.x)) || !(pair[1] = number_matrices(p.w)) ||
        !op_broadcast(function, 2, pair, pair))
        return NULL;
    p.first = pair[0];
    p.second = pair[1];
    return multiply_chosen(p);
}

static zl_array quantized_matmul(const char *function, struct product p) {
    if (!prepare(function, &p))
        return NULL;
    return p.w->ndim == 2 ? multiply_rows(p) : multiply_batches(function, p);
}

static bool again_quantized_matmul(const union op_value *v, zl_array *out) {
    return (out[0] = zl_quantized_matmul(v[0].array, v[1].array, v[2].array, v[3].array, v[4].number,
                                         v[5].number, v[6].number, v[7].string));
}

zl_array zl_quantized_matmul(zl_array x, zl_array w, zl_array scales, zl_array biases, bool transpose,
                             int group_size, int bits, const char *mode) {
    zl_array again;
    if (op_again(&again, "zl_quantized_matmul", again_quantized_matmul, x, w, scales, biases, transpose,
                 group_size, bits, mode))
        return again;
    struct product p = {.x = x, .w = w, .scales = scales, .biases = biases, .transpose = transpose};
    if (!x || !w || !scales || !op_check_optional(biases) ||
        !op_read_quantization("zl_quantized_matmul", mode, group_size, bits, &p.q))
        return NULL;
    return quantized_matmul("zl_quantized_matmul", p);
}
OP_SIGNATURE(zl_quantized_matmul, "quantized",
             "x times the matrix that w, scales and biases of zl_quantize stand for or, if transpose, times "
             "its transpose: of "
             "x (..., m, k) and a matrix (n, k) then (..., m, n). The axes before the last two broadcast.",
             P_ARRAY(x), P_ARRAY(w), P_ARRAY(scales), P_OPTIONAL(biases), P_BOOL(transpose, "True"),
             P_INT(group_size, "None"), P_INT(bits, "None"), P_STRING(mode, "affine"));

zl_array op_matrix_indices(const char *function, zl_array indices, zl_array x) {
    if (x->ndim < 2)
        return error_set(ZL_ERROR_SHAPE, "%s: an array of shape %s: two axes are needed", function,
                         array_text(x));
    if (!indices)
        return number_matrices(x);
    return op_check_integers(function, indices) ? zl_astype(indices, ZL_UINT32) : NULL;
}

static zl_array gather(struct product p, zl_array first, zl_array second) {
    const char *function = "zl_gather_qmm";
    zl_array pair[2];
    if (!prepare(function, &p) || !(pair[0] = op_matrix_indices(function, first, p.x)) ||
        !(pair[1] = op_matrix_indices(function, second, p.w)) || !op_broadcast(function, 2, pair, pair))
        return NULL;
    p.first = pair[0];
    p.second = pair[1];
    return multiply_chosen(p);
}

static bool again_gather_qmm(const union op_value *v, zl_array *out) {
    return (out[0] =
                zl_gather_qmm(v[0].array, v[1].array, v[2].array, v[3].array, v[4].array, v[5].array,
                              v[6].number, v[7].number, v[8].number, v[9].string, v[10].array, v[11].number));
}

zl_array zl_gather_qmm(zl_array x, zl_array w, zl_array scales, zl_array biases, zl_array lhs_indices,
                       zl_array rhs_indices, bool transpose, int group_size, int bits, const char *mode,
                       zl_array global_scale, bool sorted_indices) {
    zl_array again;
    if (op_again(&again, "zl_gather_qmm", again_gather_qmm, x, w, scales, biases, lhs_indices, rhs_indices,
                 transpose, group_size, bits, mode, global_scale, sorted_indices))
        return again;
    struct product p = {.x = x, .w = w, .scales = scales, .biases = biases, .transpose = transpose};
    (void)sorted_indices; // makes no difference here
    if (!x || !w || !scales || !op_check_optional(biases) ||
        !op_read_quantization("zl_gather_qmm", mode, group_size, bits, &p.q))
        return NULL;
    if (global_scale)
        return error_set(ZL_ERROR_VALUE, "zl_gather_qmm: a global scale is not possible");
    return lhs_indices || rhs_indices ? gather(p, lhs_indices, rhs_indices)
                                      : quantized_matmul("zl_gather_qmm", p);
}
OP_SIGNATURE(zl_gather_qmm, "quantized",
             "Products of matrices of x and of w, scales and biases, as zl_quantized_matmul, that the "
             "indices name: each counts "
             "the axes before the last two as one. The indices broadcast, and their shape comes first in the "
             "result; none are "
             "0, 1, 2 and so on.",
             P_ARRAY(x), P_ARRAY(w), P_ARRAY(scales), P_OPTIONAL(biases), P_OPTIONAL(lhs_indices),
             P_OPTIONAL(rhs_indices), P_BOOL(transpose, "True"), P_INT(group_size, "None"),
             P_INT(bits, "None"), P_STRING(mode, "affine"), P_OPTIONAL(global_scale),
             P_BOOL(sorted_indices, "False"));
