// masked_mm.c - matrix products in which masks leave out, or scale, square blocks.

#include "op/ops.h"

static const char *const function = "zl_block_masked_mm";

// Expands a mask of blocks to a mask of the elements of rows x cols matrices.
static zl_array spread(zl_array mask, int64_t block, int64_t rows, int64_t cols) {
    zl_array y = zl_repeat(zl_repeat(mask, (int)block, -2), (int)block, -1);
    OP_TEMP(int64_t, list, 3 * (int64_t)zl_ndim(y));
    if (!y || !list)
        return NULL;
    int ndim = y->ndim;
    for (int i = 0; i < ndim; i++) {
        list[i] = 0;
        list[ndim + i] = i == ndim - 2 ? rows : i == ndim - 1 ? cols : y->dim[i];
        list[2 * ndim + i] = 1;
    }
    return zl_slice(y, (zl_shape){list, ndim}, (zl_shape){list + ndim, ndim},
                    (zl_shape){list + 2 * ndim, ndim});
}

static bool check_mask(zl_array x, zl_array mask, int64_t block, const char *which) {
    int64_t rows = (x->dim[x->ndim - 2] + block - 1) / block,
            cols = (x->dim[x->ndim - 1] + block - 1) / block;
    if (mask->ndim >= 2 && mask->dim[mask->ndim - 2] == rows && mask->dim[mask->ndim - 1] == cols)
        return true;
    return error_false(ZL_ERROR_SHAPE, "%s: %s of shape %s: the last sizes must be (%lld, %lld)", function,
                       which, array_text(mask), (long long)rows, (long long)cols);
}

// Returns x with blocks set to 0 where a bool mask is false, or multiplied by a mask of numbers.
static zl_array apply(zl_array x, zl_array mask, int64_t block, const char *which) {
    if (!x || !mask)
        return x;
    if (!check_mask(x, mask, block, which))
        return NULL;
    zl_array m = spread(mask, block, x->dim[x->ndim - 2], x->dim[x->ndim - 1]);
    if (!op_check_broadcast(function, x, m))
        return NULL;
    zl_dtype dtype = (zl_dtype)x->dtype;
    return m->dtype == ZL_BOOL ? zl_where(m, x, op_number(dtype, 0)) : zl_multiply(x, zl_astype(m, dtype));
}

static bool check(zl_array a, zl_array b, int block_size, zl_dtype dtype) {
    if (block_size != 32 && block_size != 64)
        return error_false(ZL_ERROR_VALUE, "%s: blocks of %d: 32 and 64 are possible", function, block_size);
    if (a->ndim == 0 || b->ndim == 0 || a->dim[a->ndim - 1] != b->dim[MAX_OF(b->ndim - 2, 0)])
        return error_false(ZL_ERROR_SHAPE, "%s: %s times %s: matrices with the same inner size are needed",
                           function, array_text(a), array_text(b));
    return dtype_is_float(dtype) ||
           error_false(ZL_ERROR_DTYPE, "%s: %s times %s: floating point is needed", function,
                       zl_dtype_name((zl_dtype)a->dtype), zl_dtype_name((zl_dtype)b->dtype));
}

static zl_array with_axis(zl_array x, bool lacks, int axis) {
    return x && lacks ? zl_expand_dims(x, ZL_AXES(axis)) : x;
}

// Masks have the axes of the arrays that they mask: none for the row or column that a vector stands for.
static zl_array masked(zl_array a, zl_array b, int block, zl_array mask_out, zl_array mask_lhs,
                       zl_array mask_rhs) {
    zl_dtype dtype = dtype_common(2, (zl_array[]){a, b});
    if (!check(a, b, block, dtype))
        return NULL;
    bool row = a->ndim == 1, column = b->ndim == 1;
    zl_array x = with_axis(zl_astype(a, dtype), row, 0), y = with_axis(zl_astype(b, dtype), column, 1);
    x = apply(x, with_axis(mask_lhs, row, -2), block, "mask_lhs");
    y = apply(y, with_axis(mask_rhs, column, -1), block, "mask_rhs");
    zl_array product = x && y ? op_matmul_as(function, x, y) : NULL;
    product = apply(product, with_axis(with_axis(mask_out, row, -2), column, -1), block, "mask_out");
    if (product && row)
        product = zl_squeeze(product, ZL_AXES(-2));
    return product && column ? zl_squeeze(product, ZL_AXES(-1)) : product;
}

zl_array zl_block_masked_mm(zl_array a, zl_array b, int block_size, zl_array mask_out, zl_array mask_lhs,
                            zl_array mask_rhs) {
    if (!a || !b || !op_check_optional(mask_out) || !op_check_optional(mask_lhs) ||
        !op_check_optional(mask_rhs))
        return NULL;
    if (!mask_out && !mask_lhs && !mask_rhs)
        return op_matmul_as(function, a, b);
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, masked(a, b, block_size, mask_out, mask_lhs, mask_rhs));
}
OP_SIGNATURE(zl_block_masked_mm, "matmul",
             "The matrix product of a and b, of which blocks of block_size x block_size elements, 32 or 64, "
             "are left out: "
             "of a where mask_lhs is false, of b where mask_rhs is, of the result where mask_out is. A mask "
             "of numbers "
             "multiplies. A mask that is NULL leaves out nothing.",
             P_ARRAY(a), P_ARRAY(b), P_INT(block_size, "64"), P_OPTIONAL(mask_out), P_OPTIONAL(mask_lhs),
             P_OPTIONAL(mask_rhs));
