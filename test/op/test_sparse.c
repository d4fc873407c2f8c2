// test_sparse.c - sparse matrices compared with loops over dense ones: products, conversions, gradients,
// batches, invalid matrices.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op_test.h"
#include "fuzz/call_op.h"

OP_RULES_HERE(sparse);
OP_FITTING(zl_csr_matvec, values, ZL_FLOAT32, 4);
OP_FITTING(zl_csr_matvec, indices, ZL_INT32, 4);
OP_FITTING(zl_csr_matvec, indptr, ZL_INT32, 3);
OP_FITTING(zl_csr_matvec, x, ZL_FLOAT32, 5);
OP_FITTING(zl_csr_matmul, values, ZL_FLOAT32, 4);
OP_FITTING(zl_csr_matmul, indices, ZL_INT32, 4);
OP_FITTING(zl_csr_matmul, indptr, ZL_INT32, 3);
OP_FITTING(zl_csr_matmul, b, ZL_FLOAT32, 5, 2);
OP_FITTING(zl_csr_to_dense, values, ZL_FLOAT32, 4);
OP_FITTING(zl_csr_to_dense, indices, ZL_INT32, 4);
OP_FITTING(zl_csr_to_dense, indptr, ZL_INT32, 3);

enum { VALUES, INDICES, POINTERS, PARTS };

// Returns a dense matrix of which about the fraction `part` is not 0; some rows are empty, some full.
static zl_array some_matrix(int64_t rows, int64_t columns, double part) {
    double data[4096];
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t row = i / columns;
        double here = row % 5 == 3 ? 0 : row % 7 == 5 ? 1 : part;
        data[i] = test_uniform(0, 1) < here ? test_uniform(-2, 2) : 0;
    }
    zl_array a = zl_from_f64(data, ZL_SHAPE(rows, columns));
    return CHECK(zl_eval(a)) ? a : NULL;
}

static zl_array matmul(zl_array *m, zl_array b) {
    return zl_csr_matmul(m[VALUES], m[INDICES], m[POINTERS], b);
}

static double farthest(zl_array a, zl_array b) {
    return a && b && a->size && shape_equal(a->ndim, a->dim, b->ndim, b->dim)
               ? zl_item(zl_max(zl_abs(zl_subtract(a, b))))
           : a && b && a->size == b->size ? 0
                                          : INFINITY;
}

// Conversions -----------------------------------------------------------------------------------------------

static void check_parts(zl_array a, zl_array *m) {
    const double *dense = op_test_values(a), *value = op_test_values(m[VALUES]),
                 *index = op_test_values(m[INDICES]);
    const double *pointer = op_test_values(m[POINTERS]);
    int64_t rows = a->dim[0], columns = a->dim[1], at = 0;
    REQUIRE(dense && value && index && pointer && m[POINTERS]->size == rows + 1);
    CHECK_EQ_F64(pointer[0], 0);
    for (int64_t i = 0; i < rows * columns; i++) {
        if (dense[i] != 0) {
            CHECK_EQ_F64(value[at], dense[i]);
            CHECK_EQ_F64(index[at++], (double)(i % columns));
        }
        if (i % columns == columns - 1)
            CHECK_EQ_F64(pointer[i / columns + 1], (double)at);
    }
    CHECK_EQ_INT(m[VALUES]->size, at);
}

TEST(sparse_from_dense_and_back) {
    static const int64_t sizes[][2] = {{1, 1}, {9, 7}, {3, 40}, {64, 33}, {20, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ZL_SCOPE {
            zl_array a = some_matrix(sizes[i][0], sizes[i][1], 0.3), m[PARTS];
            REQUIRE(zl_csr_from_dense(a, INT64_MIN, m) && zl_eval_all(PARTS, m));
            CHECK_EQ_INT(m[INDICES]->dtype, ZL_INT32);
            check_parts(a, m);
            CHECK_EQ_F64(farthest(zl_csr_to_dense(m[VALUES], m[INDICES], m[POINTERS], sizes[i][1]), a), 0);
        }
}

// If the number of entries is given, nothing is evaluated: surplus entries are dropped, or unused ones belong
// to no row.
TEST(sparse_of_so_many_entries) {
    zl_array a = zl_from_f64((double[]){0, 1, 2, 0, 0, 3}, ZL_SHAPE(3, 2)), m[PARTS];
    REQUIRE(zl_csr_from_dense(a, 5, m));
    CHECK(!zl_is_available(m[VALUES]));
    REQUIRE(zl_eval_all(PARTS, m));
    CHECK_ARRAY(m[VALUES], ZL_FLOAT64, ZL_SHAPE(5), 1, 2, 3, 0, 0);
    CHECK_ARRAY(m[INDICES], ZL_INT32, ZL_SHAPE(5), 1, 0, 1, 0, 0);
    CHECK_ARRAY(m[POINTERS], ZL_INT32, ZL_SHAPE(4), 0, 1, 2, 3);
    CHECK_EQ_F64(farthest(zl_csr_to_dense(m[VALUES], m[INDICES], m[POINTERS], 2), a), 0);
    CHECK_EQ_F64(farthest(matmul(m, zl_eye(2, 2, 0, ZL_FLOAT64)), a), 0);
    REQUIRE(zl_csr_from_dense(a, 2, m) && zl_eval_all(PARTS, m));
    CHECK_ARRAY(m[VALUES], ZL_FLOAT64, ZL_SHAPE(2), 1, 2);
    CHECK_ARRAY(m[POINTERS], ZL_INT32, ZL_SHAPE(4), 0, 1, 2, 2);
    REQUIRE(zl_csr_from_dense(a, 0, m));
    CHECK_EQ_F64(
        farthest(zl_csr_to_dense(m[VALUES], m[INDICES], m[POINTERS], 2), zl_zeros_like(a, ZL_DTYPE_COUNT)),
        0);
}

TEST(sparse_of_nothing) {
    static const int64_t sizes[][2] = {{0, 0}, {0, 3}, {3, 0}};
    zl_array m[PARTS];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ZL_SCOPE {
            zl_shape shape = {sizes[i], 2};
            REQUIRE(zl_csr_from_dense(zl_zeros(shape, ZL_FLOAT32), INT64_MIN, m));
            CHECK_EQ_INT(zl_size(m[VALUES]), 0);
            CHECK_EQ_INT(zl_size(m[POINTERS]), shape.dim[0] + 1);
            CHECK_EQ_INT(zl_size(zl_csr_to_dense(m[VALUES], m[INDICES], m[POINTERS], shape.dim[1])), 0);
            zl_array y = matmul(m, zl_ones(ZL_SHAPE(shape.dim[1], 2), ZL_FLOAT32));
            CHECK_EQ_F64(farthest(y, zl_zeros(ZL_SHAPE(shape.dim[0], 2), ZL_FLOAT32)), 0);
        }
    REQUIRE(zl_csr_from_dense(zl_zeros(ZL_SHAPE(4, 3), ZL_FLOAT32), INT64_MIN, m));
    CHECK_ARRAY(zl_csr_matvec(m[VALUES], m[INDICES], m[POINTERS], zl_ones(ZL_SHAPE(3), ZL_FLOAT32)),
                ZL_FLOAT32, ZL_SHAPE(4), 0, 0, 0, 0);
}

// Products --------------------------------------------------------------------------------------------------

static void check_product(int64_t rows, int64_t columns, int64_t width, zl_dtype dtype, zl_dtype index) {
    zl_array a = some_matrix(rows, columns, 0.2), m[PARTS];
    zl_array b = op_test_random(ZL_SHAPE(columns, width), ZL_FLOAT64, -1, 1);
    a = zl_astype(zl_astype(a, dtype), ZL_FLOAT64); // rounded to the dtype
    b = zl_astype(zl_astype(b, dtype), ZL_FLOAT64);
    REQUIRE(zl_eval_all(2, (zl_array[]){a, b}));
    zl_array want = zl_sum_axes(zl_multiply(zl_expand_dims(a, ZL_AXES(2)), b), ZL_AXES(1), false);
    REQUIRE(zl_eval(want) && zl_csr_from_dense(zl_astype(a, dtype), INT64_MIN, m) && zl_eval_all(PARTS, m));
    m[INDICES] = zl_astype(m[INDICES], index);
    REQUIRE(zl_eval(m[INDICES]));
    zl_array y = matmul(m, zl_astype(b, dtype));
    CHECK_EQ_INT(zl_dtype_of(y), dtype);
    double bound = dtype == ZL_FLOAT64 ? 1e-12 : dtype == ZL_FLOAT32 ? 1e-5 : 0.1;
    CHECK_NEAR(farthest(zl_astype(y, ZL_FLOAT64), want), 0, bound);
    zl_array x = zl_take(b, zl_scalar_int(0), 1);
    y = zl_csr_matvec(m[VALUES], m[INDICES], m[POINTERS], zl_astype(x, dtype));
    CHECK_NEAR(farthest(zl_astype(y, ZL_FLOAT64), zl_take(want, zl_scalar_int(0), 1)), 0, bound);
}

TEST(sparse_products_are_sums) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    static const zl_dtype indices[] = {ZL_INT32, ZL_INT64, ZL_UINT8, ZL_UINT32};
    for (int i = 0; i < 16; i++)
        ZL_SCOPE {
            check_product(1, 1, 1, dtypes[i % 4], indices[i / 4]);
            check_product(30, 20, 3, dtypes[i % 4], indices[i / 4]);
            check_product(20, 30, 70, dtypes[i % 4], indices[i / 4]);
        }
}

static zl_array list(int64_t count, int64_t (*number)(int64_t at, int64_t each), int64_t each) {
    int32_t *data = malloc(sizeof *data * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        data[i] = (int32_t)number(i, each);
    zl_array x = zl_from_i32(data, ZL_SHAPE(count));
    free(data);
    return x;
}

enum { MANY = 100000 };
static int64_t start_of(int64_t at, int64_t each) {
    return at * each;
}
static int64_t column_of(int64_t at, int64_t each) {
    return (at / each * 7 + at % each) % MANY;
}

// Many rows with the same number of entries, none, one or more, on several threads, whose sums are adjacent.
TEST(sparse_rows_of_equal_length) {
    for (int64_t each = 0; each < 20; each += 1 + each / 4)
        ZL_SCOPE {
            zl_array indices = list(MANY * each, column_of, each ? each : 1),
                     pointers = list(MANY + 1, start_of, each);
            zl_array values = zl_ones(ZL_SHAPE(MANY * each), ZL_FLOAT32),
                     x = zl_arange(0, MANY, 1, ZL_FLOAT64);
            zl_array y = zl_csr_matvec(values, indices, pointers, x);
            REQUIRE(y && zl_eval(y));
            const double *got = zl_data_f64(y);
            int64_t wrong = 0;
            for (int64_t i = 0; i < MANY; i++) {
                double sum = 0;
                for (int64_t k = 0; k < each; k++)
                    sum += (double)((i * 7 + k) % MANY);
                wrong += got[i] != sum;
            }
            CHECK_EQ_INT(wrong, 0);
        }
}

// The bits depend neither on the number of threads nor on the other rows.
TEST(sparse_products_are_the_same_on_any_threads) {
    zl_array a = some_matrix(60, 60, 0.3), m[PARTS];
    REQUIRE(zl_csr_from_dense(zl_astype(a, ZL_FLOAT32), INT64_MIN, m) && zl_eval_all(PARTS, m));
    int64_t count = m[VALUES]->size, copies = 200;
    zl_array starts = zl_multiply(zl_arange_int(0, copies, 1, ZL_INT32), zl_scalar_int(count));
    zl_array first = zl_slice(m[POINTERS], ZL_SHAPE(0), ZL_SHAPE(60), ZL_SHAPE(1));
    zl_array all = zl_flatten(zl_add(zl_expand_dims(starts, ZL_AXES(1)), first), 0, -1);
    zl_array pointers = zl_concatenate(
        (zl_array[]){all, zl_full(ZL_SHAPE(1), zl_scalar_int(count * copies), ZL_INT32)}, 2, 0);
    zl_array values = zl_tile(m[VALUES], ZL_SHAPE(copies)), indices = zl_tile(m[INDICES], ZL_SHAPE(copies));
    zl_array x = op_test_random(ZL_SHAPE(60), ZL_FLOAT32, -1, 1);
    zl_array one = zl_csr_matvec(m[VALUES], m[INDICES], m[POINTERS], x);
    zl_array many = zl_csr_matvec(values, indices, pointers, x);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(many, zl_tile(one, ZL_SHAPE(copies)), false)), 1);
}

// Rules -----------------------------------------------------------------------------------------------------

// Rows {0, 2}, {}, {1}, {0, 1, 2, 2} of a matrix with three columns, and an entry that belongs to no row.
static zl_array indices_of_seven(void) {
    return zl_from_i32((int32_t[]){0, 2, 1, 0, 1, 2, 2, 0}, ZL_SHAPE(8));
}

static zl_array four_rows(void) {
    return zl_from_i32((int32_t[]){0, 2, 2, 3, 7}, ZL_SHAPE(5));
}

static zl_array by_matrix(zl_array x, int64_t width) { // x: the values, then the dense matrix
    zl_array values = zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(8), ZL_SHAPE(1));
    zl_array dense = zl_slice(x, ZL_SHAPE(8), ZL_SHAPE(8 + 3 * width), ZL_SHAPE(1));
    return zl_csr_matmul(values, indices_of_seven(), four_rows(), zl_reshape(dense, ZL_SHAPE(3, width)));
}
RULES(sparse_matvec, ZL_SHAPE(11), zl_squeeze(by_matrix(x, 1), ZL_AXES(1)))
RULES(sparse_matmul, ZL_SHAPE(17), by_matrix(x, 3))
RULES(sparse_to_dense, ZL_SHAPE(8), zl_csr_to_dense(x, indices_of_seven(), four_rows(), 3))

// The derivatives have derivatives: the cube of the product shows them.
static zl_array slope_of(zl_array x) {
    zl_array loss = zl_sum(zl_power(by_matrix(x, 2), zl_scalar(3))), g;
    return zl_grad(loss, 1, &x, &g) ? g : NULL;
}
RULES_IN(sparse_second_slopes, ZL_SHAPE(14), -1, 1, slope_of(x))

static zl_array entries_of(zl_array a) {
    zl_array m[PARTS];
    return zl_csr_from_dense(a, 5, m) ? m[VALUES] : NULL;
}
RULES(sparse_from_dense, ZL_SHAPE(2, 3), entries_of(x))

// One matrix for each element of the batch.
static bool each_product(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array m[PARTS];
    (void)data;
    return count == 2 && zl_csr_from_dense(in[0], 12, m) &&
           zl_give(out, zl_csr_matvec(m[VALUES], m[INDICES], m[POINTERS], in[1])) &&
           zl_give(out, zl_csr_to_dense(m[VALUES], m[INDICES], m[POINTERS], 4));
}

TEST(sparse_batches_of_matrices) {
    zl_array a = op_test_random(ZL_SHAPE(5, 3, 4), ZL_FLOAT64, -1, 1),
             x = op_test_random(ZL_SHAPE(4, 5), ZL_FLOAT64, -1, 1);
    a = zl_maximum(a, zl_scalar(0));
    REQUIRE(zl_eval(a));
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_vmap((zl_fn){.call = each_product}, 2, (zl_array[]){a, x}, (int[]){0, 1}, 2, NULL, out));
    zl_array want = zl_squeeze(zl_matmul(a, zl_expand_dims(zl_transpose(x, ZL_ALL), ZL_AXES(2))), ZL_AXES(2));
    CHECK_NEAR(farthest(zl_outputs_get(out, 0), want), 0, 1e-12);
    CHECK_EQ_F64(farthest(zl_outputs_get(out, 1), a), 0);
    zl_outputs_free(out);
}

static bool unsized(void *data, int count, const zl_array *in, zl_outputs *out) {
    zl_array m[PARTS];
    (void)data, (void)count;
    return zl_csr_from_dense(in[0], INT64_MIN, m) && zl_give(out, m[VALUES]);
}

TEST(sparse_of_a_traced_matrix_needs_a_count) {
    zl_array a = some_matrix(4, 5, 0.5), batch = zl_expand_dims(a, ZL_AXES(0)), grad;
    zl_outputs *out = zl_outputs_new();
    REQUIRE(zl_eval(batch));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_vmap((zl_fn){.call = unsized}, 1, &batch, (int[]){0}, 1, NULL, out));
    CHECK_HAS(test_last_error(), "zl_csr_from_dense: how much it gives was not said");
    zl_compiled compiled = zl_compile((zl_fn){.call = unsized}, false);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_compiled_call(compiled, NULL, 0, 1, &a, out));
    CHECK_HAS(test_last_error(), "zl_csr_from_dense: how much it gives was not said");
    zl_compiled_release(compiled);
    // Derivatives are computed if the values are known.
    int64_t count = zl_item_int(zl_sum(zl_astype(zl_not_equal(a, zl_scalar(0)), ZL_INT32)));
    zl_array ones = zl_ones(ZL_SHAPE(count), ZL_FLOAT64);
    REQUIRE(zl_vjp((zl_fn){.call = unsized}, 1, &a, 1, &ones, NULL, &grad));
    CHECK_EQ_F64(farthest(grad, zl_astype(zl_not_equal(a, zl_scalar(0)), ZL_FLOAT64)), 0);
    zl_outputs_free(out);
}

// Bad matrices ----------------------------------------------------------------------------------------------

#define I32(...) \
    zl_from_i32((int32_t[]){__VA_ARGS__}, ZL_SHAPE(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

TEST(sparse_matrices_are_checked_where_they_are_used) {
    static const struct {
        int32_t index[3], pointer[4];
        const char *why;
    } bad[] = {
        {{0, 1, 3}, {0, 1, 2, 3}, "indices[2] is 3: the matrix has 3 columns"},
        {{0, -1, 2}, {0, 1, 1, 3}, "indices[1] is -1: the matrix has 3 columns"},
        {{INT32_MAX, 1, 2}, {0, 3, 3, 3}, "indices[0] is 2147483647: the matrix has 3 columns"},
        {{INT32_MIN, 1, 2}, {0, 2, 2, 2}, "indices[0] is -2147483648: the matrix has 3 columns"},
        {{0, 1, 2}, {1, 1, 2, 3}, "indptr[0] is 1: rows begin at 0"},
        {{0, 1, 2}, {0, 2, 1, 3}, "indptr[2] is 1: 2, the one before it, to 3 are possible"},
        {{0, 1, 2}, {0, 1, 2, 4}, "indptr[3] is 4: 2, the one before it, to 3 are possible"},
        {{0, 1, 2},
         {0, INT32_MIN, 2, 3},
         "indptr[1] is -2147483648: 0, the one before it, to 3 are possible"},
    };
    zl_array values = zl_ones(ZL_SHAPE(3), ZL_FLOAT32);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int wide = 0; wide < 2; wide++)
            ZL_SCOPE {
                zl_dtype dtype = wide ? ZL_INT64 : ZL_INT32;
                zl_array indices = zl_astype(zl_from_i32(bad[i].index, ZL_SHAPE(3)), dtype), x, grad;
                zl_array pointers = zl_astype(zl_from_i32(bad[i].pointer, ZL_SHAPE(4)), dtype);
                for (int64_t width = 1; width < 3; width++) {
                    CHECK_ERROR(ZL_ERROR_VALUE,
                                zl_eval(zl_csr_matmul(values, indices, pointers,
                                                      zl_ones(ZL_SHAPE(3, width), ZL_FLOAT32))));
                    CHECK_HAS(test_last_error(), bad[i].why);
                }
                CHECK_ERROR(ZL_ERROR_VALUE, zl_eval(zl_csr_to_dense(values, indices, pointers, 3)));
                CHECK_HAS(test_last_error(), bad[i].why);
                x = zl_ones(ZL_SHAPE(3), ZL_FLOAT32);
                REQUIRE(zl_grad(zl_sum(zl_csr_matvec(values, indices, pointers, x)), 1, &x, &grad));
                CHECK_ERROR(ZL_ERROR_VALUE, zl_eval(grad)); // by the transposed matrix
                CHECK_HAS(test_last_error(), bad[i].why);
            }
}

TEST(sparse_refuses_what_does_not_fit) {
    zl_array v = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), at = I32(0, 1), rows = I32(0, 1, 2), out[PARTS];
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_csr_matvec(v, I32(0), rows, v));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_csr_matvec(v, at, zl_zeros(ZL_SHAPE(0), ZL_INT32), v));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_csr_matvec(v, at, rows, zl_scalar(1)));
    CHECK_STR(test_last_error(), "zl_csr_matvec: x of shape (): one axis is needed");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_csr_matmul(v, at, rows, v));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_csr_matvec(v, v, rows, v));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_csr_matvec(v, at, v, v));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_csr_matvec(zl_astype(v, ZL_COMPLEX64), at, rows, v));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_csr_to_dense(v, at, rows, -1));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_csr_to_dense(v, at, rows, INT64_MAX));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_csr_from_dense(v, INT64_MIN, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_csr_from_dense(zl_eye(2, 2, 0, ZL_FLOAT32), -1, out));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_csr_from_dense(zl_eye(2, 2, 0, ZL_FLOAT32), 3, NULL));
    CHECK(zl_csr_matvec(NULL, at, rows, v) == NULL && zl_csr_matmul(v, at, NULL, v) == NULL);
    CHECK_EQ_INT(zl_dtype_of(zl_csr_matvec(at, at, rows, at)), ZL_FLOAT32);
}
