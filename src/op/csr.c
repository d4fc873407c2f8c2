// csr.c - sparse matrices as three arrays (CSR): values, their columns (indices), and the start of each row
// (indptr).
//
// Three ops are closed under derivatives: the product of the matrix, or its transpose, with a dense matrix;
// the elements of a dense product at the positions of the entries; and the row of each entry. Entries after
// the end of the last row belong to no row.

#include "op/ops.h"

enum { TRANSPOSED, COLUMNS };

static bool is_empty(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (in[i]->size == 0)
            return true;
    return false;
}

static bool make_dense(int count, const zl_array *in, zl_array *out) {
    for (int i = 0; i < count; i++)
        if (!(out[i] = zl_contiguous(in[i], false)))
            return false;
    return true;
}

static int64_t number_at(const struct csr_places *m, const void *list, int64_t at) {
    return m->dtype == ZL_INT32 ? ((const int32_t *)list)[at] : ((const int64_t *)list)[at];
}

bool op_csr_check(const char *name, const struct csr_places *m) {
    int64_t last = number_at(m, m->pointers, 0);
    if (last != 0)
        return error_false(ZL_ERROR_VALUE, "%s: indptr[0] is %lld: rows begin at 0", name, (long long)last);
    for (int64_t i = 1; i <= m->rows; i++) {
        int64_t next = number_at(m, m->pointers, i);
        if (next < last || next > m->entries)
            return error_false(ZL_ERROR_VALUE,
                               "%s: indptr[%lld] is %lld: %lld, the one before it, to %lld are possible",
                               name, (long long)i, (long long)next, (long long)last, (long long)m->entries);
        last = next;
    }
    for (int64_t i = 0; i < last; i++) {
        int64_t column = number_at(m, m->indices, i);
        if (column < 0 || column >= m->columns)
            return error_false(ZL_ERROR_VALUE, "%s: indices[%lld] is %lld: the matrix has %lld columns", name,
                               (long long)i, (long long)column, (long long)m->columns);
    }
    return true;
}

zl_array op_csr_product(const zl_array *in, bool transposed, int64_t columns) {
    const int64_t dim[] = {transposed ? columns : in[2]->dim[0] - 1, in[3]->dim[1]};
    zl_array dense[4];
    if (!op_check_size("zl_csr_matmul", 2, dim))
        return NULL;
    if (is_empty(4, in))
        return zl_zeros((zl_shape){dim, 2}, (zl_dtype)in[3]->dtype);
    return make_dense(4, in, dense) ? op_dense(&op_csr_matmul, 4, dense, 2, (int64_t[]){transposed, columns},
                                               (zl_dtype)in[3]->dtype, 2, dim)
                                    : NULL;
}

// Returns the elements of left right^T at the entries. in: indices, indptr, left (rows, n) and right
// (columns, n).
static zl_array sample(const zl_array *in) {
    zl_array dense[4];
    if (is_empty(4, in))
        return zl_zeros(zl_shape_of(in[0]), (zl_dtype)in[2]->dtype);
    return make_dense(4, in, dense)
               ? op_dense(&op_csr_sample, 4, dense, 0, NULL, (zl_dtype)in[2]->dtype, 1, in[0]->dim)
               : NULL;
}

zl_array op_csr_entry_rows(const zl_array *in, int64_t columns) {
    zl_array dense[2];
    return make_dense(2, in, dense)
               ? op_dense(&op_csr_rows, 2, dense, 1, &columns, (zl_dtype)in[0]->dtype, 1, in[0]->dim)
               : NULL;
}

static bool record_product(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = op_csr_product(in, call_args(c)[TRANSPOSED], call_args(c)[COLUMNS]));
}

static bool record_sample(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = sample(in));
}

static bool record_rows(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = op_csr_entry_rows(in, call_args(c)[0]));
}

// Derivatives: both ops are linear in each of two inputs ----------------------------------------------------

static zl_array sum_of(zl_array a, zl_array b) {
    return a && b ? zl_add(a, b) : a ? a : b;
}

static zl_array vjp_product(const struct call *c, int input, const zl_array *cotangent) {
    zl_array values = c->in[0], indices = c->in[1], pointers = c->in[2], dense = c->in[3], g = cotangent[0];
    bool transposed = call_args(c)[TRANSPOSED];
    if (input == 0)
        return sample((zl_array[]){indices, pointers, transposed ? dense : g, transposed ? g : dense});
    return op_csr_product((zl_array[]){values, indices, pointers, g}, !transposed, call_args(c)[COLUMNS]);
}

static bool jvp_product(const struct call *c, const zl_array *tangent, zl_array *out) {
    bool transposed = call_args(c)[TRANSPOSED];
    int64_t columns = call_args(c)[COLUMNS];
    zl_array values = tangent[0], dense = tangent[3];
    zl_array first =
        values ? op_csr_product((zl_array[]){values, c->in[1], c->in[2], c->in[3]}, transposed, columns)
               : NULL;
    zl_array second =
        dense ? op_csr_product((zl_array[]){c->in[0], c->in[1], c->in[2], dense}, transposed, columns) : NULL;
    out[0] = sum_of(first, second);
    return out[0] || (!values && !dense);
}

static zl_array vjp_sample(const struct call *c, int input, const zl_array *cotangent) {
    bool is_left = input == 2;
    return op_csr_product((zl_array[]){cotangent[0], c->in[0], c->in[1], c->in[is_left ? 3 : 2]}, !is_left,
                          c->in[3]->dim[0]);
}

static bool jvp_sample(const struct call *c, const zl_array *tangent, zl_array *out) {
    zl_array left = tangent[2], right = tangent[3];
    zl_array first = left ? sample((zl_array[]){c->in[0], c->in[1], left, c->in[3]}) : NULL;
    zl_array second = right ? sample((zl_array[]){c->in[0], c->in[1], c->in[2], right}) : NULL;
    out[0] = sum_of(first, second);
    return out[0] || (!left && !right);
}

// Batches ---------------------------------------------------------------------------------------------------

// The sparse matrices of a batch become the diagonal blocks of one matrix. After the rows of each comes one
// more row, with the entries that belong to no row of it.

// Returns 0, step, 2 * step and so on, one for each matrix of the batch: (batch, 1).
static zl_array starts(int64_t batch, int64_t step) {
    return zl_expand_dims(
        zl_multiply(zl_arange_int(0, batch, 1, ZL_INT64), op_number(ZL_INT64, (double)step)), ZL_AXES(1));
}

// Joins the column indices. Invalid ones become -1, which is invalid in the joined matrix too.
static zl_array join_indices(zl_array x, int axis, int64_t batch, int64_t columns) {
    zl_array at = zl_astype(op_batch_repeat(x, axis, batch), ZL_INT64);
    zl_array right = zl_logical_and(zl_greater_equal(at, op_number(ZL_INT64, 0)),
                                    zl_less(at, op_number(ZL_INT64, (double)columns)));
    return zl_flatten(zl_where(right, zl_add(at, starts(batch, columns)), op_number(ZL_INT64, -1)), 0, -1);
}

static zl_array join_pointers(zl_array x, int axis, int64_t batch, int64_t entries) {
    zl_array at = zl_add(zl_astype(op_batch_repeat(x, axis, batch), ZL_INT64), starts(batch, entries));
    zl_array end = zl_full(ZL_SHAPE(1), op_number(ZL_INT64, (double)(batch * entries)), ZL_INT64);
    return zl_concatenate((zl_array[]){zl_flatten(at, 0, -1), end}, 2, 0);
}

// Returns one dense matrix of all: (batch * rows, n), with a row of zeros after each if `longer`.
static zl_array join_dense(zl_array x, int axis, int64_t batch, bool longer) {
    x = op_batch_repeat(x, axis, batch);
    if (longer)
        x = zl_pad(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(0, 1, 0), zl_scalar(0));
    return zl_flatten(x, 0, 1);
}

// Returns the rows of a joined result as (batch, rows, n), without the last row of each if `longer`.
static zl_array part_rows(zl_array x, int64_t batch, bool longer) {
    x = zl_unflatten(x, 0, ZL_SHAPE(batch, x ? x->dim[0] / batch : 1));
    return x && longer
               ? zl_slice(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(batch, x->dim[1] - 1, x->dim[2]), ZL_SHAPE(1, 1, 1))
               : x;
}

// Multiplies one sparse matrix by a batch of dense ones, whose columns are joined.
static bool widen(const struct call *c, const zl_array *in, int axis, zl_array *out, int *out_axis) {
    zl_array x = zl_moveaxis(in[3], axis, -1);
    if (!x)
        return false;
    int64_t width = x->dim[1], batch = x->dim[2];
    out_axis[0] = 2;
    return record_product(c, (zl_array[]){in[0], in[1], in[2], zl_flatten(x, 1, 2)}, out) &&
           (out[0] = zl_unflatten(out[0], 1, ZL_SHAPE(width, batch)));
}

static bool vmap_product(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                         int *out_axis) {
    bool transposed = call_args(c)[TRANSPOSED];
    int64_t columns = call_args(c)[COLUMNS], batch = op_batch_size(4, in, axis), entries = c->in[0]->dim[0];
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record_product(c, in, out);
    if (op_batch_size(3, in, axis) < 0)
        return widen(c, in, axis[3], out, out_axis);
    zl_array joined[] = {zl_flatten(op_batch_repeat(in[0], axis[0], batch), 0, 1),
                         join_indices(in[1], axis[1], batch, columns),
                         join_pointers(in[2], axis[2], batch, entries),
                         join_dense(in[3], axis[3], batch, transposed)};
    bool ok = joined[0] && joined[1] && joined[2] && joined[3];
    return ok &&
           (out[0] = part_rows(op_csr_product(joined, transposed, batch * columns), batch, !transposed));
}

static bool vmap_sample(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                        int *out_axis) {
    int64_t columns = c->in[3]->dim[0], batch = op_batch_size(4, in, axis), entries = c->in[0]->dim[0];
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record_sample(c, in, out);
    zl_array joined[] = {join_indices(in[0], axis[0], batch, columns),
                         join_pointers(in[1], axis[1], batch, entries),
                         join_dense(in[2], axis[2], batch, true), join_dense(in[3], axis[3], batch, false)};
    bool ok = joined[0] && joined[1] && joined[2] && joined[3];
    return ok && (out[0] = zl_unflatten(sample(joined), 0, ZL_SHAPE(batch, entries)));
}

static bool vmap_rows(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                      int *out_axis) {
    int64_t columns = call_args(c)[0], batch = op_batch_size(2, in, axis), entries = c->in[0]->dim[0];
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record_rows(c, in, out);
    zl_array joined[] = {join_indices(in[0], axis[0], batch, columns),
                         join_pointers(in[1], axis[1], batch, entries)};
    zl_array all = joined[0] && joined[1] ? op_csr_entry_rows(joined, batch * columns) : NULL;
    zl_array each =
        zl_subtract(zl_unflatten(all, 0, ZL_SHAPE(batch, entries)), starts(batch, c->in[1]->dim[0]));
    return (out[0] = zl_astype(each, (zl_dtype)call_first(c)->dtype));
}

static bool are_csr(zl_array indices, zl_array pointers) {
    return indices->ndim == 1 && pointers->ndim == 1 && pointers->dim[0] > 0 &&
           indices->dtype == pointers->dtype && (indices->dtype == ZL_INT32 || indices->dtype == ZL_INT64);
}

static bool is_dense(zl_array x) {
    return x->ndim == 2 && (x->dtype == ZL_FLOAT32 || x->dtype == ZL_FLOAT64);
}

static bool fits_csr_matmul(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (!op_has(c, 4, 2) || !op_is_among(arg[0], 2) || arg[1] < 0 || !are_csr(in[1], in[2]) ||
        !is_dense(in[3]))
        return false;
    return in[0]->ndim == 1 && in[0]->dim[0] == in[1]->dim[0] && in[0]->dtype == in[3]->dtype &&
           in[3]->dim[0] == (arg[0] ? in[2]->dim[0] - 1 : arg[1]);
}

static const struct op_field product_fields[] = {{"transposed", FIELD_BOOL}, {"columns", FIELD_INT}};
const struct op op_csr_matmul = {
    .name = "csr_matmul",
    .kind = OP_OTHER,
    .fields = 2,
    .field = product_fields,
    .record = record_product,
    .fits = fits_csr_matmul,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .vmap = vmap_product,
};

static bool fits_csr_sample(const struct call *c, const zl_array *in) {
    return op_has(c, 4, 0) && are_csr(in[0], in[1]) && is_dense(in[2]) && is_dense(in[3]) &&
           in[2]->dtype == in[3]->dtype && in[2]->dim[1] == in[3]->dim[1] &&
           in[2]->dim[0] == in[1]->dim[0] - 1;
}

const struct op op_csr_sample = {
    .name = "csr_sample",
    .kind = OP_OTHER,
    .record = record_sample,
    .fits = fits_csr_sample,
    .vjp = vjp_sample,
    .jvp = jvp_sample,
    .vmap = vmap_sample,
};

static bool fits_csr_rows(const struct call *c, const zl_array *in) {
    return op_has(c, 2, 1) && call_args(c)[0] >= 0 && in[0]->size > 0 && are_csr(in[0], in[1]);
}

static const struct op_field rows_fields[] = {{"columns", FIELD_INT}};
const struct op op_csr_rows = {
    .name = "csr_rows",
    .kind = OP_OTHER,
    .fields = 1,
    .field = rows_fields,
    .record = record_rows,
    .fits = fits_csr_rows,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = vmap_rows,
};
