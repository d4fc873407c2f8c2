// sparse.c - the public functions on sparse matrices: products, and conversion to and from dense matrices.
// The ops are in csr.c.

#include "op/ops.h"

enum { VALUES, INDICES, POINTERS, PARTS };

// Checks the parts of a matrix as far as possible without reading them, and casts indices to int32 or int64.
static bool read_parts(const char *function, zl_array *part) {
    zl_array values = part[VALUES], indices = part[INDICES], pointers = part[POINTERS];
    if (!op_check_integers(function, indices) || !op_check_integers(function, pointers))
        return false;
    if (values->ndim != 1 || indices->ndim != 1 || values->dim[0] != indices->dim[0] || pointers->ndim != 1 ||
        pointers->dim[0] < 1)
        return error_false(
            ZL_ERROR_SHAPE,
            "%s: values %s, indices %s and indptr %s: two lists of one length, and a list of one more "
            "than rows, are needed",
            function, array_text(values), array_text(indices), array_text(pointers));
    zl_dtype both = zl_result_type((zl_dtype)indices->dtype, (zl_dtype)pointers->dtype);
    zl_dtype dtype = zl_dtype_size(both) < 4 || both == ZL_INT32 ? ZL_INT32 : ZL_INT64;
    return (part[INDICES] = zl_astype(indices, dtype)) && (part[POINTERS] = zl_astype(pointers, dtype));
}

static bool check_dtype(const char *function, zl_dtype dtype) {
    return dtype != ZL_COMPLEX64 ||
           error_false(ZL_ERROR_DTYPE, "%s: complex64 is not possible; floats are", function);
}

// dense: (columns, n).
static zl_array multiply(const char *function, zl_array *part, zl_array dense) {
    zl_dtype common = dtype_common(2, (zl_array[]){part[VALUES], dense}), result = op_float_dtype(common);
    zl_dtype dtype = result == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    if (!check_dtype(function, common) || !read_parts(function, part))
        return NULL;
    zl_array in[] = {zl_astype(part[VALUES], dtype), part[INDICES], part[POINTERS], zl_astype(dense, dtype)};
    return in[0] && in[3] ? zl_astype(op_csr_product(in, false, dense->dim[0]), result) : NULL;
}

#define MATRIX                                                                                             \
    "a sparse matrix: values, of each its column, in indices, and where each row begins among them, in "   \
    "indptr, which "                                                                                       \
    "has one element more than rows; entries from its last element on are not used. Where it is computed " \
    "it is an error "                                                                                      \
    "if indptr does not begin with 0, or falls, or an index is not a column. "

zl_array zl_csr_matvec(zl_array values, zl_array indices, zl_array indptr, zl_array x) {
    zl_array part[] = {values, indices, indptr};
    if (!values || !indices || !indptr || !x)
        return NULL;
    if (x->ndim != 1)
        return error_set(ZL_ERROR_SHAPE, "zl_csr_matvec: x of shape %s: one axis is needed", array_text(x));
    zl_scope s = zl_scope_begin();
    zl_array y = multiply("zl_csr_matvec", part, zl_expand_dims(x, ZL_AXES(1)));
    return zl_scope_leave(s, zl_squeeze(y, ZL_AXES(1)));
}
OP_SIGNATURE(zl_csr_matvec, "sparse",
             "The product of " MATRIX
             "x has as many elements as the matrix has columns. 16-bit floats are added in float32.",
             P_ARRAY(values), P_ARRAY(indices), P_ARRAY(indptr), P_ARRAY(x));

zl_array zl_csr_matmul(zl_array values, zl_array indices, zl_array indptr, zl_array b) {
    zl_array part[] = {values, indices, indptr};
    if (!values || !indices || !indptr || !b)
        return NULL;
    if (b->ndim != 2)
        return error_set(ZL_ERROR_SHAPE, "zl_csr_matmul: b of shape %s: two axes are needed", array_text(b));
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, multiply("zl_csr_matmul", part, b));
}
OP_SIGNATURE(zl_csr_matmul, "sparse",
             "The product of " MATRIX
             "b, (columns, n), is dense, and so is the result. 16-bit floats are added in float32.",
             P_ARRAY(values), P_ARRAY(indices), P_ARRAY(indptr), P_ARRAY(b));

// To a dense matrix -----------------------------------------------------------------------------------------

static zl_array scatter(zl_array *part, int64_t columns) {
    int64_t rows = part[POINTERS]->dim[0] - 1;
    zl_array values = part[VALUES], zeros = zl_zeros(ZL_SHAPE(rows, columns), (zl_dtype)values->dtype);
    if (!zeros || zeros->size == 0 || values->size == 0)
        return zeros;
    zl_array at[] = {op_csr_entry_rows(part + INDICES, columns), part[INDICES]};
    zl_array is_in_row = zl_less(at[0], zl_scalar_int(rows));
    // Entries in no row get the value 0, and no gradient.
    values = zl_where(is_in_row, values, zl_zeros(ZL_SCALAR, (zl_dtype)values->dtype));
    return at[0] ? zl_scatter_add(zeros, at, 2, zl_expand_dims(values, ZL_AXES(1, 2)), ZL_AXES(0, 1)) : NULL;
}

zl_array zl_csr_to_dense(zl_array values, zl_array indices, zl_array indptr, int64_t columns) {
    const char *function = "zl_csr_to_dense";
    zl_array part[] = {values, indices, indptr};
    if (!values || !indices || !indptr || !read_parts(function, part))
        return NULL;
    if (columns < 0)
        return error_set(ZL_ERROR_VALUE, "%s: %lld columns: not less than 0 are possible", function,
                         (long long)columns);
    if (!op_check_size(function, 2, (int64_t[]){indptr->dim[0] - 1, columns}))
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, scatter(part, columns));
}
OP_SIGNATURE(zl_csr_to_dense, "sparse",
             "The dense matrix of so many columns that is " MATRIX "Entries at one place are added.",
             P_ARRAY(values), P_ARRAY(indices), P_ARRAY(indptr), P_INT64(columns, NULL));

// From a dense matrix ---------------------------------------------------------------------------------------

// Returns where the entries of each row begin: a list with one element more than rows.
static zl_array count_rows(const char *function, zl_array is_entry, zl_dtype dtype) {
    zl_array each = op_reduce_axes(function, REDUCE_SUM, zl_astype(is_entry, dtype), ZL_AXES(1), false);
    zl_array sums = zl_cumsum(each, 0, false, true, dtype);
    return zl_concatenate((zl_array[]){zl_zeros(ZL_SHAPE(1), dtype), sums}, 2, 0);
}

// Returns the positions of the first `count` entries in the flattened matrix; 0 if it has fewer.
static zl_array positions(zl_array is_entry, int64_t count) {
    zl_array flat = zl_flatten(is_entry, 0, -1);
    zl_array rank = zl_cumsum(zl_astype(flat, ZL_INT64), 0, false, false, ZL_INT64);
    // Elements that are no entries, and later entries, get a position past the end, where nothing is written.
    zl_array to = zl_where(flat, rank, op_number(ZL_INT64, (double)count));
    zl_array all = flat ? zl_expand_dims(zl_arange_int(0, flat->size, 1, ZL_INT64), ZL_AXES(1)) : NULL;
    return zl_scatter(zl_zeros(ZL_SHAPE(count), ZL_INT64), &to, 1, all, ZL_AXES(0));
}

// count: the number of entries; if `given`, it is the caller's, and the matrix may have fewer or more.
static bool gather(zl_array a, zl_array is_entry, zl_array pointers, int64_t count, bool given,
                   zl_array *out) {
    zl_dtype dtype = (zl_dtype)pointers->dtype;
    out[POINTERS] = pointers;
    if (count == 0 || a->size == 0) {
        out[VALUES] = zl_zeros(ZL_SHAPE(count), (zl_dtype)a->dtype);
        out[INDICES] = zl_zeros(ZL_SHAPE(count), dtype);
        out[POINTERS] = zl_zeros_like(pointers, ZL_DTYPE_COUNT);
        return out[VALUES] && out[INDICES] && out[POINTERS];
    }
    zl_array at = positions(is_entry, count);
    zl_array number = op_number(ZL_INT64, (double)a->dim[1]), most = op_number(dtype, (double)count);
    out[INDICES] = zl_astype(zl_remainder(at, number), dtype);
    out[VALUES] = zl_take(zl_flatten(a, 0, -1), at, 0);
    if (given) {
        zl_array last = zl_take(pointers, zl_scalar_int(-1), 0);
        out[POINTERS] = zl_minimum(pointers, most);
        out[VALUES] = zl_where(zl_less(zl_arange_int(0, count, 1, dtype), last), out[VALUES],
                               zl_zeros(ZL_SCALAR, (zl_dtype)a->dtype));
    }
    return out[VALUES] && out[INDICES] && out[POINTERS];
}

static bool from_dense(const char *function, zl_array a, int64_t count, zl_array *out) {
    zl_dtype dtype = a->size > INT32_MAX || count > INT32_MAX ? ZL_INT64 : ZL_INT32;
    bool given = count != INT64_MIN;
    zl_array is_entry = zl_stop_gradient(zl_not_equal(a, zl_zeros(ZL_SCALAR, (zl_dtype)a->dtype)));
    zl_array pointers = count_rows(function, is_entry, dtype), last = zl_take(pointers, zl_scalar_int(-1), 0);
    if (!last || (!given && !op_read_number(function, 4, (zl_array[]){a, is_entry, pointers, last}, &count)))
        return false;
    return gather(a, is_entry, pointers, count, given, out);
}

bool zl_csr_from_dense(zl_array a, int64_t count, zl_array *out) {
    const char *function = "zl_csr_from_dense";
    if (!op_check_out(function, PARTS, out) || !a)
        return false;
    if (a->ndim != 2)
        return error_false(ZL_ERROR_SHAPE, "%s: a of shape %s: a matrix is needed", function, array_text(a));
    if (count < 0 && count != INT64_MIN)
        return error_false(ZL_ERROR_VALUE, "%s: %lld entries: not less than 0 are possible", function,
                           (long long)count);
    return (count == INT64_MIN || op_check_size(function, 1, &count)) && from_dense(function, a, count, out);
}
OP_SIGNATURE_BOOL(zl_csr_from_dense, "sparse",
                  "The elements of a matrix that are not 0 as a sparse matrix: values in out[0], of each its "
                  "column in out[1], and where "
                  "each row begins in out[2], int32 if that is enough. How many they are depends on a: if "
                  "count is not given, a is "
                  "evaluated, which cannot be while a function is mapped, compiled or exported. With a count "
                  "nothing is: the first so many "
                  "are taken, and zeros that belong to no row follow where there are less.",
                  P_ARRAY(a), P_INT64(count, "None"), P_OUTPUTS(out, "3"));
