// gather_mm.c - products of matrices chosen by indices from two lists.

#include "op/ops.h"

static const char *const function = "zl_gather_mm";

// in: a (A, m, k), b (B, k, n), and indices into both, which are cast to one dtype.
static zl_array gather_mm(const zl_array *in) {
    zl_array a = in[0], b = in[1], lhs = in[2], rhs = in[3], at[2];
    if (lhs && rhs && lhs->dtype != rhs->dtype) {
        lhs = zl_astype(lhs, ZL_INT64);
        rhs = zl_astype(rhs, ZL_INT64);
    }
    if (!lhs || !rhs || !op_broadcast(function, 2, (zl_array[]){lhs, rhs}, at))
        return NULL;
    int ndim = at[0]->ndim;
    OP_TEMP(int64_t, dim, ndim + 2);
    if (!dim)
        return NULL;
    for (int i = 0; i < ndim; i++)
        dim[i] = at[0]->dim[i];
    dim[ndim] = a->dim[1];
    dim[ndim + 1] = b->dim[2];
    if (!op_check_size(function, ndim + 2, dim))
        return NULL;
    return op_dense(&op_gather_mm, 4, (zl_array[]){a, b, at[0], at[1]}, 0, NULL, (zl_dtype)a->dtype, ndim + 2,
                    dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = gather_mm(in));
}

static zl_array as_list(zl_array x) {
    return x->ndim == 2 ? zl_expand_dims(x, ZL_AXES(0)) : zl_flatten(x, 0, -3);
}

// Rules -----------------------------------------------------------------------------------------------------

// Adds the cotangents of the single products to those of the matrices that they used.
static zl_array collect(zl_array like, zl_array indices, zl_array parts) {
    zl_array each = zl_expand_dims(parts, ZL_AXES(-3));
    return zl_scatter_add(op_zeros_of(like), &indices, 1, each, ZL_AXES(0));
}

static zl_array own_positions(zl_array indices) {
    return zl_reshape(zl_arange_int(0, indices->size, 1, ZL_INT64), zl_shape_of(indices));
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array a = c->in[0], b = c->in[1], lhs = c->in[2], rhs = c->in[3];
    zl_array g = as_list(cotangent[0]), own = own_positions(lhs);
    if (!g || !own)
        return NULL;
    zl_array parts = input == 0 ? gather_mm((zl_array[]){g, zl_matrix_transpose(b), own, rhs})
                                : gather_mm((zl_array[]){zl_matrix_transpose(a), g, lhs, own});
    return parts ? collect(c->in[input], c->in[input + 2], parts) : NULL;
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array a = c->in[0], b = c->in[1], lhs = c->in[2], rhs = c->in[3];
    zl_array by_a = tangent[0] ? gather_mm((zl_array[]){tangent[0], b, lhs, rhs}) : NULL;
    zl_array by_b = tangent[1] ? gather_mm((zl_array[]){a, tangent[1], lhs, rhs}) : NULL;
    out[0] = by_a && by_b ? zl_add(by_a, by_b) : by_a ? by_a : by_b;
    return out[0] || (!tangent[0] && !tangent[1]);
}

// Joins an extra axis of a list of matrices with the list, and increases the indices of each batch element
// accordingly.
static bool lengthen(zl_array *x, int axis, zl_array *indices, int index_axis, int64_t batch) {
    int ndim = (*indices)->ndim - (index_axis >= 0);
    *indices = op_batch_any(zl_astype(*indices, ZL_INT64), index_axis);
    if (axis < 0)
        return *indices;
    int64_t count = (*x)->dim[axis == 0 ? 1 : 0];
    zl_array from = zl_arange_int(0, batch * count, count, ZL_INT64);
    for (int i = 0; i < ndim; i++)
        from = zl_expand_dims(from, ZL_AXES(-1));
    *indices = zl_add(zl_where(zl_less(*indices, op_number(ZL_INT64, 0)),
                               zl_add(*indices, op_number(ZL_INT64, (double)count)), *indices),
                      from);
    return (*x = zl_flatten(op_batch_first(*x, axis), 0, 1)) && *indices;
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(4, in, axis);
    if (batch < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array all[4] = {in[0], in[1], in[2], in[3]};
    out_axis[0] = 0;
    for (int i = 0; i < 2; i++)
        if (!lengthen(&all[i], axis[i], &all[i + 2], axis[i + 2], batch))
            return false;
    return record(c, all, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    return op_has(c, 4, 0) && in[0]->ndim == 3 && in[1]->ndim == 3 && in[0]->dtype == in[1]->dtype &&
           dtype_is_inexact((zl_dtype)in[0]->dtype) && in[0]->dim[2] == in[1]->dim[1] && in[0]->dim[0] > 0 &&
           in[1]->dim[0] > 0 && dtype_is_integer((zl_dtype)in[2]->dtype) &&
           dtype_is_integer((zl_dtype)in[3]->dtype);
}

const struct op op_gather_mm = {
    .name = "gather_mm",
    .kind = OP_OTHER,
    .record = record,
    .fits = fits,
    .positions = {2, 3},
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Public ----------------------------------------------------------------------------------------------------

static bool check(zl_array a, zl_array b, zl_dtype dtype) {
    if (a->ndim == 0 || b->ndim == 0 || a->dim[a->ndim - 1] != b->dim[MAX_OF(b->ndim - 2, 0)])
        return error_false(ZL_ERROR_SHAPE, "%s: %s times %s: matrices with the same inner size are needed",
                           function, array_text(a), array_text(b));
    return dtype_is_float(dtype) ||
           error_false(ZL_ERROR_DTYPE, "%s: %s times %s: floating point is needed", function,
                       zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
}

// Returns the indices, or if they are NULL, one for each matrix of x, in the shape of its batch axes.
static zl_array indices_or_all(zl_array indices, zl_array x) {
    if (indices)
        return op_check_integers(function, indices) ? indices : NULL;
    int64_t count;
    if (!shape_size(x->ndim - 2, x->dim, &count))
        return NULL;
    return zl_reshape(zl_arange_int(0, count, 1, ZL_UINT32), (zl_shape){x->dim, x->ndim - 2});
}

static zl_array choose_and_multiply(zl_array a, zl_array b, zl_array lhs_indices, zl_array rhs_indices) {
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (!check(a, b, dtype))
        return NULL;
    zl_array x = zl_astype(a->ndim == 1 ? zl_expand_dims(a, ZL_AXES(0)) : a, dtype);
    zl_array y = zl_astype(b->ndim == 1 ? zl_expand_dims(b, ZL_AXES(1)) : b, dtype);
    zl_array lhs = x ? indices_or_all(lhs_indices, x) : NULL, rhs = y ? indices_or_all(rhs_indices, y) : NULL;
    if (!lhs || !rhs)
        return NULL;
    zl_array list[] = {as_list(x), as_list(y), lhs, rhs}, out = list[0] && list[1] ? gather_mm(list) : NULL;
    if (out && a->ndim == 1)
        out = zl_squeeze(out, ZL_AXES(-2));
    return out && b->ndim == 1 ? zl_squeeze(out, ZL_AXES(-1)) : out;
}

static bool again_gather_mm(const union op_value *v, zl_array *out) {
    return (out[0] = zl_gather_mm(v[0].array, v[1].array, v[2].array, v[3].array, v[4].number));
}

zl_array zl_gather_mm(zl_array a, zl_array b, zl_array lhs_indices, zl_array rhs_indices,
                      bool sorted_indices) {
    zl_array again;
    if (op_again(&again, "zl_gather_mm", again_gather_mm, a, b, lhs_indices, rhs_indices, sorted_indices))
        return again;
    (void)sorted_indices; // makes no difference here
    if (!a || !b || !op_check_optional(lhs_indices) || !op_check_optional(rhs_indices))
        return NULL;
    if (!lhs_indices && !rhs_indices)
        return op_matmul_as(function, a, b);
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, choose_and_multiply(a, b, lhs_indices, rhs_indices));
}
OP_SIGNATURE(zl_gather_mm, "matmul",
             "Products of matrices that the indices choose among those of a and of b, counted over all batch "
             "axes; the "
             "indices broadcast. Without one of them all matrices of a, or b, are taken. sorted_indices says "
             "that they "
             "are in order.",
             P_ARRAY(a), P_ARRAY(b), P_OPTIONAL(lhs_indices), P_OPTIONAL(rhs_indices),
             P_BOOL(sorted_indices, "False"));
