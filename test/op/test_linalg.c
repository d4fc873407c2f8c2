// test_linalg.c - factorisations compared with naive products in long double, norms and determinants compared
// with loops; strides, batches, empty matrices, errors, rules.

#define TEST_LACKS test_lacks_lapack

#include <math.h>
#include <pthread.h>

#include "op/op_test.h"

OP_RULES_HERE(linalg);

enum { MOST = 4096 };

// Matrices of a batch as long doubles: row-major, imaginary parts separate.
struct matrices {
    int64_t count, rows, cols;
    long double value[MOST];
};

static bool read(zl_array x, struct matrices *out) {
    const double *values = op_test_values(x);
    if (!CHECK(values && zl_size(x) <= MOST))
        return false;
    int ndim = zl_ndim(x);
    out->rows = zl_dim(x, ndim - 2);
    out->cols = zl_dim(x, ndim - 1);
    out->count = zl_size(x) ? zl_size(x) / (out->rows * out->cols) : 0;
    for (int64_t i = 0; i < zl_size(x); i++)
        out->value[i] = values[i];
    return true;
}

static long double product_at(const struct matrices *a, const struct matrices *b, int64_t at, int64_t i,
                              int64_t j) {
    const long double *x = a->value + at * a->rows * a->cols, *y = b->value + at * b->rows * b->cols;
    long double sum = 0;
    for (int64_t k = 0; k < a->cols; k++)
        sum += x[i * a->cols + k] * y[k * b->cols + j];
    return sum;
}

// Checks that a times b is y, for each matrix.
static void check_product(zl_array a, zl_array b, zl_array y, double bound) {
    static struct matrices ma, mb, my;
    if (!read(a, &ma) || !read(b, &mb) || !read(y, &my) || !CHECK(ma.cols == mb.rows && ma.count == my.count))
        return;
    for (int64_t at = 0; at < my.count; at++)
        for (int64_t i = 0; i < my.rows; i++)
            for (int64_t j = 0; j < my.cols; j++)
                CHECK_NEAR((double)product_at(&ma, &mb, at, i, j),
                           (double)my.value[(at * my.rows + i) * my.cols + j], bound);
}

static zl_array eye(zl_array like, int64_t n) {
    return zl_add(zl_zeros(ZL_SHAPE(zl_size(like) / (zl_dim(like, -1) * zl_dim(like, -2)), n, n), ZL_FLOAT64),
                  zl_eye(n, n, 0, ZL_FLOAT64));
}

// Evaluates x, so that it can be read several times.
static zl_array ready(zl_array x) {
    return x && zl_eval(x) ? x : NULL;
}

// Returns a batch of column-major matrices, with gaps between them.
static zl_array strided(int64_t count, int64_t rows, int64_t cols, zl_dtype dtype) {
    zl_array x = op_test_random(ZL_SHAPE(2 * count, cols, rows), dtype, -1, 1);
    x = zl_slice(x, ZL_SHAPE(0, 0, 0), ZL_SHAPE(2 * count, cols, rows), ZL_SHAPE(2, 1, 1));
    return ready(zl_matrix_transpose(x));
}

// Returns matrices that are far from singular.
static zl_array regular(int64_t n, zl_dtype dtype) {
    return ready(zl_add(strided(3, n, n, dtype), zl_multiply(zl_eye(n, n, 0, dtype), zl_scalar((double)n))));
}

static zl_array symmetric(int64_t n, zl_dtype dtype) {
    zl_array x = regular(n, dtype);
    return ready(zl_matmul(x, zl_matrix_transpose(x)));
}

static double bound_of(zl_dtype dtype) {
    return dtype == ZL_FLOAT64 ? 1e-11 : 3e-4;
}

static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64};

#define FOR_SIZES(n, dtype)                                          \
    for (int d = 0; d < 2; d++)                                      \
        for (int64_t n = 1, dtype_of = (int64_t)dtypes[d]; n < 8; n += 3) \
            ZL_SCOPE                                                 \
                for (zl_dtype dtype = (zl_dtype)dtype_of, *once = &dtype; once; once = NULL)

TEST(inverses) {
    FOR_SIZES(n, dtype) {
        zl_array a = regular(n, dtype);
        check_product(a, zl_linalg_inv(a), eye(a, n), bound_of(dtype));
        for (int upper = 0; upper < 2; upper++) {
            zl_array t = upper ? zl_triu(a, 0) : zl_tril(a, 0);
            check_product(t, zl_linalg_tri_inv(a, upper), eye(a, n), bound_of(dtype));
        }
    }
}

// Sizes at which matrices are divided in halves, and sizes next to these.
static const int64_t cut_sizes[] = {33, 48, 49, 97, 145, 200, 301};

static void check_close(zl_array x, zl_array y, double bound) {
    CHECK(zl_item(zl_max(zl_abs(zl_subtract(x, y)))) < bound);
}

static zl_array random_matrix(int64_t m, int64_t n, zl_dtype dtype) {
    zl_array key = zl_random_key((int64_t)(test_seed() % 1000) + 1000 * m + n);
    zl_array x = zl_random_uniform(zl_scalar(-1), zl_scalar(1), ZL_SHAPE(m, n), ZL_FLOAT32, key);
    return ready(zl_astype(x, dtype));
}

static zl_array near_identity(int64_t n, zl_dtype dtype) {
    zl_array x = random_matrix(n, n, dtype);
    return ready(zl_add(zl_divide(x, zl_sqrt(zl_scalar((double)n))),
                        zl_multiply(zl_scalar(2), zl_eye(n, n, 0, dtype))));
}

TEST(large_matrices_are_factored_by_halves) {
    for (size_t i = 0; i < COUNT(cut_sizes); i++)
        for (int d = 0; d < 2; d++)
            ZL_SCOPE {
                int64_t n = cut_sizes[i];
                double bound = dtypes[d] == ZL_FLOAT64 ? 1e-11 : 2e-4;
                zl_array a = near_identity(n, dtypes[d]), one = ready(zl_eye(n, n, 0, dtypes[d]));
                zl_array turned = ready(zl_matrix_transpose(a));
                check_close(zl_matmul(a, zl_linalg_inv(a)), one, bound);
                check_close(zl_matmul(zl_linalg_inv(turned), turned), one, bound);
                check_close(zl_matmul(zl_tril(a, 0), zl_linalg_tri_inv(a, false)), one, bound);
                check_close(zl_matmul(zl_triu(a, 0), zl_linalg_tri_inv(a, true)), one, bound);
                zl_array s = ready(zl_matmul(a, turned));
                zl_array l = ready(zl_linalg_cholesky(s, false)), u = ready(zl_linalg_cholesky(s, true));
                check_close(zl_matmul(l, zl_matrix_transpose(l)), s, bound * 10);
                check_close(zl_matmul(zl_matrix_transpose(u), u), s, bound * 10);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(l, zl_tril(l, 0), false)), 1);
                zl_array again = zl_linalg_cholesky(zl_add(s, zl_scalar(0)), false);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(l, again, false)), 1); // the same bits
            }
}

TEST(large_matrices_of_any_form_have_lu_factors) {
    for (size_t i = 0; i < COUNT(cut_sizes); i++)
        for (int64_t m = cut_sizes[i] - 30; m <= cut_sizes[i] + 30; m += 30)
            ZL_SCOPE {
                int64_t n = cut_sizes[i];
                zl_array a = random_matrix(m, n, ZL_FLOAT64), out[3];
                REQUIRE(zl_linalg_lu(a, out) && zl_eval_all(3, out));
                check_close(zl_matmul(zl_take(out[1], out[0], 0), out[2]), a, 1e-12);
                CHECK(zl_item(zl_max(zl_abs(out[1]))) <= 1);
            }
}

// A matrix large enough for LAPACK to use all threads, and the results that other threads compute meanwhile.
struct beside {
    zl_array a, values, inverse; // retained
    bool same;
};

static zl_array values_of(zl_array a) {
    return zl_linalg_eigvalsh(zl_add(a, zl_matrix_transpose(a)), "L");
}

static void *factor_beside(void *data) {
    struct beside *b = data;
    b->same = true;
    for (int i = 0; i < 3; i++)
        ZL_SCOPE
            b->same &= zl_item_int(zl_array_equal(values_of(b->a), b->values, false)) == 1 &&
                       zl_item_int(zl_array_equal(zl_linalg_inv(b->a), b->inverse, false)) == 1;
    return NULL;
}

TEST(factors_beside_each_other_are_the_same) {
    struct beside b[3];
    pthread_t thread[3];
    zl_array a = near_identity(256, ZL_FLOAT32), values = ready(values_of(a)),
             inverse = ready(zl_linalg_inv(a));
    REQUIRE(a && values && inverse);
    for (int i = 0; i < 3; i++) {
        b[i] = (struct beside){a, values, inverse, false};
        REQUIRE(!pthread_create(&thread[i], NULL, factor_beside, &b[i]));
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        CHECK(b[i].same);
    }
}

// The index of the first zero pivot is that in the whole matrix.
TEST(large_matrices_that_fail_say_where) {
    zl_array zero = zl_where(zl_equal(zl_arange_int(0, 200, 1, ZL_INT32), zl_scalar_int(170)), zl_scalar(0),
                             zl_scalar(1));
    zl_array a = ready(zl_diag(zl_astype(zero, ZL_FLOAT32), 0));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_inv(a)));
    CHECK_HAS(test_last_error(), "LAPACK says 171");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_tri_inv(a, false)));
    CHECK_HAS(test_last_error(), "LAPACK says 171");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_cholesky(a, true)));
    CHECK_HAS(test_last_error(), "LAPACK says 171");
}

TEST(cholesky_factors) {
    FOR_SIZES(n, dtype) {
        zl_array a = symmetric(n, dtype), l = ready(zl_linalg_cholesky(a, false)),
                 u = ready(zl_linalg_cholesky(a, true));
        check_product(l, zl_matrix_transpose(l), a, bound_of(dtype));
        check_product(zl_matrix_transpose(u), u, a, bound_of(dtype));
        CHECK_EQ_INT(zl_item_int(zl_array_equal(l, zl_tril(l, 0), false)), 1);
        CHECK_EQ_INT(zl_item_int(zl_array_equal(u, zl_triu(u, 0), false)), 1);
        check_product(a, zl_linalg_cholesky_inv(l, false), eye(a, n), bound_of(dtype));
        check_product(a, zl_linalg_cholesky_inv(u, true), eye(a, n), bound_of(dtype));
    }
}

TEST(qr_factors) {
    for (int64_t m = 1; m < 7; m += 2)
        for (int64_t n = 1; n < 7; n += 2) {
            zl_array a = strided(2, m, n, ZL_FLOAT64), out[2];
            REQUIRE(zl_linalg_qr(a, out) && zl_eval_all(2, out));
            check_product(out[0], out[1], a, 1e-12);
            check_product(zl_matrix_transpose(out[0]), out[0], eye(a, m < n ? m : n), 1e-12);
            CHECK_EQ_INT(zl_item_int(zl_array_equal(out[1], zl_triu(out[1], 0), false)), 1);
        }
}

static zl_array diagonal_of(zl_array s, int64_t m, int64_t n) {
    zl_array square =
        zl_multiply(zl_expand_dims(s, ZL_AXES(-1)), zl_eye(zl_dim(s, -1), zl_dim(s, -1), 0, ZL_FLOAT64));
    int64_t k = zl_dim(s, -1);
    return zl_pad(square, ZL_SHAPE(0, 0, 0), ZL_SHAPE(0, m - k, n - k), zl_scalar(0));
}

TEST(singular_values) {
    for (int64_t m = 1; m < 7; m += 2)
        for (int64_t n = 1; n < 7; n += 2) {
            zl_array a = strided(2, m, n, ZL_FLOAT64), out[3], values;
            REQUIRE(zl_linalg_svd(a, true, out) && zl_linalg_svd(a, false, &values) && zl_eval_all(3, out));
            check_product(zl_matmul(out[0], diagonal_of(out[1], m, n)), out[2], a, 1e-12);
            check_product(out[0], zl_matrix_transpose(out[0]), eye(a, m), 1e-12);
            check_product(out[2], zl_matrix_transpose(out[2]), eye(a, n), 1e-12);
            CHECK_EQ_INT(zl_item_int(zl_allclose(out[1], values, 1e-12, 1e-12, false)), 1);
            zl_array p = ready(zl_linalg_pinv(a));
            check_product(zl_matmul(a, p), a, a, 1e-11);
            check_product(zl_matmul(p, a), p, p, 1e-11);
        }
}

// Returns x as complex numbers with an imaginary part.
static zl_array complex_of(zl_array x) {
    return zl_add(zl_astype(x, ZL_COMPLEX64),
                  zl_multiply(zl_astype(zl_square(x), ZL_COMPLEX64), zl_scalar_complex(0, 1)));
}

static bool close_to(zl_array x, zl_array y) {
    return zl_item_int(zl_allclose(x, y, 1e-4, 1e-4, false)) == 1;
}

TEST(complex_matrices) {
    zl_array a = ready(complex_of(strided(3, 4, 4, ZL_FLOAT32))), out[3];
    REQUIRE(zl_linalg_svd(a, true, out) && zl_eval_all(3, out));
    CHECK_EQ_INT(zl_dtype_of(out[1]), ZL_FLOAT32);
    CHECK(close_to(zl_matmul(zl_multiply(out[0], zl_expand_dims(out[1], ZL_AXES(-2))), out[2]), a));
    zl_array h = ready(zl_add(a, zl_conjugate(zl_matrix_transpose(a))));
    REQUIRE(zl_linalg_eigh(h, "L", out) && zl_eval_all(2, out));
    CHECK(close_to(zl_matmul(h, out[1]), zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(-2)))));
    CHECK(close_to(zl_linalg_eigvalsh(h, "U"), out[0]));
    REQUIRE(zl_linalg_eig(a, out) && zl_eval_all(2, out));
    CHECK(close_to(zl_matmul(a, out[1]), zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(-2)))));
}

TEST(eigenvalues_of_symmetric_matrices) {
    FOR_SIZES(n, dtype) {
        zl_array a = symmetric(n, dtype), out[2];
        zl_array lower = zl_tril(a, 0), upper = zl_triu(a, 0);
        REQUIRE(zl_linalg_eigh(lower, "L", out) && zl_eval_all(2, out));
        check_product(a, out[1], zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(-2))),
                      10 * bound_of(dtype));
        check_product(zl_matrix_transpose(out[1]), out[1], eye(a, n), bound_of(dtype));
        CHECK(close_to(zl_linalg_eigvalsh(upper, "U"), out[0]));
        CHECK(close_to(zl_sort(out[0], -1), out[0]));
    }
}

// Matrices that our own reflections reduce, also with numbers whose squares overflow in float32.
static void check_spectra(zl_array a, double size, double bound) {
    zl_array out[3], values, one = ready(zl_multiply(a, zl_scalar(1 / size)));
    int64_t m = zl_dim(a, -2), n = zl_dim(a, -1);
    REQUIRE(zl_linalg_svd(a, true, out) && zl_linalg_svd(a, false, &values) && zl_eval_all(3, out));
    zl_array s = ready(zl_multiply(zl_astype(out[1], ZL_FLOAT64), zl_scalar(1 / size)));
    check_product(zl_matmul(zl_astype(out[0], ZL_FLOAT64), diagonal_of(s, m, n)), out[2], one, bound);
    check_product(out[0], zl_matrix_transpose(out[0]), eye(a, m), bound);
    check_product(out[2], zl_matrix_transpose(out[2]), eye(a, n), bound);
    CHECK(zl_item_int(zl_allclose(zl_multiply(values, zl_scalar(1 / size)), s, bound, bound, false)) == 1);
    if (m != n)
        return;
    zl_array both = ready(zl_multiply(zl_add(a, zl_matrix_transpose(a)), zl_scalar(0.5)));
    for (int upper = 0; upper < 2; upper++) {
        zl_array half = ready(upper ? zl_triu(both, 0) : zl_tril(both, 0));
        const char *which = upper ? "U" : "L";
        REQUIRE(zl_linalg_eigh(half, which, out) && zl_eval_all(2, out));
        zl_array w = ready(zl_multiply(out[0], zl_scalar(1 / size))),
                 unit = zl_multiply(both, zl_scalar(1 / size));
        check_product(unit, out[1], zl_multiply(out[1], zl_expand_dims(w, ZL_AXES(-2))), bound);
        check_product(zl_matrix_transpose(out[1]), out[1], eye(a, n), bound);
        zl_array alone = zl_multiply(zl_linalg_eigvalsh(half, which), zl_scalar(1 / size));
        CHECK(zl_item_int(zl_allclose(alone, w, bound, bound, false)) == 1);
    }
}

TEST(spectra_of_condensed_matrices) {
    static const int64_t sizes[][2] = {{16, 16}, {17, 17}, {30, 30}, {31, 31}, {20, 16}, {19, 31}, {32, 31}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int d = 0; d < 2; d++)
            ZL_SCOPE {
                check_spectra(strided(2, sizes[i][0], sizes[i][1], dtypes[d]), 1, d ? 1e-12 : 2e-5);
            }
    static const double scales[] = {1e30, 1e-30, 0};
    for (size_t i = 0; i < COUNT(scales); i++) {
        zl_array x = zl_retain(zl_multiply(strided(2, 18, 18, ZL_FLOAT32), zl_scalar(scales[i])));
        check_spectra(x, scales[i] > 0 ? scales[i] : 1, 2e-5);
        zl_release(x);
    }
    zl_array equal = zl_retain(zl_full(ZL_SHAPE(2, 16, 16), zl_scalar(1), ZL_FLOAT32)); // of rank 1
    check_spectra(equal, 1, 2e-5);
    zl_release(equal);
}

TEST(eigenvalues_of_other_matrices) {
    zl_array turn = zl_from_f32((float[]){0, -1, 1, 0}, ZL_SHAPE(2, 2)), out[2];
    REQUIRE(zl_linalg_eig(turn, out));
    CHECK(close_to(zl_square(out[0]), zl_from_f32((float[]){-1, -1}, ZL_SHAPE(2))));
    for (int d = 0; d < 2; d++) {
        zl_array a = strided(3, 5, 5, dtypes[d]), c = zl_astype(a, ZL_COMPLEX64);
        REQUIRE(zl_linalg_eig(a, out) && zl_eval_all(2, out));
        CHECK_EQ_INT(zl_dtype_of(out[0]), ZL_COMPLEX64);
        CHECK(close_to(zl_matmul(c, out[1]), zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(-2)))));
        CHECK(close_to(zl_linalg_eigvals(a), out[0]));
    }
}

// Compares values in any order: each has to be near one of the others.
static bool same_values(zl_array a, zl_array b, double bound) {
    zl_array apart = zl_abs(zl_subtract(zl_expand_dims(a, ZL_AXES(-1)), zl_expand_dims(b, ZL_AXES(-2))));
    zl_array worst = zl_maximum(zl_max(zl_min_axis(apart, -1, false)), zl_max(zl_min_axis(apart, -2, false)));
    if (zl_eval(worst) && zl_item(worst) <= bound)
        return true;
    test_note("eigenvalues are off by %g", worst ? zl_item(worst) : NAN);
    return false;
}

// Returns matrices of many unrelated elements.
static zl_array wild(int64_t count, int64_t n, zl_dtype dtype) {
    zl_array x =
        zl_square(zl_multiply(zl_arange(0, (double)(count * n * n), 1, ZL_FLOAT64), zl_scalar(0.37)));
    return ready(zl_matrix_transpose(zl_reshape(zl_astype(zl_sin(x), dtype), ZL_SHAPE(count, n, n))));
}

// Sizes that our own code computes. LAPACK also computes the eigenvalues when vectors are computed, for
// comparison.
TEST(eigenvalues_of_larger_matrices) {
    static const int64_t sizes[] = {32, 33, 47, 90, 130};
    static const double scales[] = {1, 1e30, 1e-30, 0};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int d = 0; d < 2; d++)
            ZL_SCOPE {
                zl_array a = wild(2, sizes[i], dtypes[d]), out[2];
                zl_array scaled = zl_multiply(a, zl_scalar(scales[i % 4]));
                REQUIRE(zl_linalg_eig(scaled, out));
                zl_array mixed = zl_concatenate((zl_array[]){a, zl_triu(a, 0), zl_triu(a, -1)}, 3, 0);
                double size = scales[i % 4] ? scales[i % 4] : 1;
                CHECK(same_values(zl_multiply(zl_linalg_eigvals(scaled), zl_scalar(1 / size)),
                                  zl_multiply(out[0], zl_scalar(1 / size)), 1e-4 * (double)sizes[i]));
                REQUIRE(zl_linalg_eig(mixed, out));
                zl_array sums = zl_sum_axis(zl_linalg_eigvals(mixed), -1, false);
                CHECK(same_values(zl_flatten(sums, 0, -1), zl_flatten(zl_sum_axis(out[0], -1, false), 0, -1),
                                  1e-4 * (double)sizes[i]));
            }
}

// A cyclic permutation, which QR steps without exceptional shifts would leave unchanged. Its eigenvalues are
// roots of unity.
TEST(eigenvalues_of_a_cycle) {
    enum { SIZE = 45 };
    float cycle[SIZE * SIZE] = {0};
    for (int i = 0; i < SIZE; i++)
        cycle[i * SIZE + (i + 1) % SIZE] = 1;
    zl_array values = zl_linalg_eigvals(zl_from_f32(cycle, ZL_SHAPE(SIZE, SIZE)));
    zl_array angle = zl_multiply(zl_arange(0, SIZE, 1, ZL_FLOAT32), zl_scalar(2 * 3.14159265358979 / SIZE));
    zl_array i = zl_linalg_eigvals(zl_from_f32((float[]){0, -1, 1, 0}, ZL_SHAPE(2, 2)));
    zl_array unit = zl_take(i, zl_argmax(zl_imag(i)), 0);
    CHECK(same_values(values, zl_add(zl_cos(angle), zl_multiply(unit, zl_sin(angle))), 1e-5));
}

TEST(lu_factors) {
    for (int64_t m = 1; m < 7; m += 2)
        for (int64_t n = 1; n < 7; n += 2) {
            zl_array a = strided(2, m, n, ZL_FLOAT64), out[3], pair[2];
            REQUIRE(zl_linalg_lu(a, out) && zl_linalg_lu_factor(a, pair) && zl_eval_all(3, out) &&
                    zl_eval_all(2, pair));
            zl_array l = zl_take_along_axis(out[1], zl_broadcast_to(zl_expand_dims(out[0], ZL_AXES(-1)),
                                                                    ZL_SHAPE(2, m, m < n ? m : n)), -2);
            check_product(l, out[2], a, 1e-12);
            CHECK_EQ_INT(zl_dtype_of(pair[1]), ZL_UINT32);
            CHECK_EQ_INT(zl_dim(pair[1], -1), m < n ? m : n);
            CHECK(close_to(zl_triu(pair[0], 0), zl_pad(out[2], ZL_SHAPE(0, 0, 0),
                                                       ZL_SHAPE(0, m > n ? m - n : 0, 0), zl_scalar(0))));
        }
}

TEST(equations) {
    FOR_SIZES(n, dtype) {
        zl_array a = regular(n, dtype), b = op_test_random(ZL_SHAPE(3, n, 2), dtype, -1, 1);
        zl_array v = op_test_random(ZL_SHAPE(n), dtype, -1, 1),
                 first = ready(zl_take(a, zl_scalar_int(0), 0));
        check_product(a, zl_linalg_solve(a, b), b, bound_of(dtype));
        check_product(zl_triu(a, 0), zl_linalg_solve_triangular(a, b, true), b, bound_of(dtype));
        check_product(zl_tril(a, 0), zl_linalg_solve_triangular(a, b, false), b, bound_of(dtype));
        CHECK_EQ_INT(zl_ndim(zl_linalg_solve(first, v)), 1);
        CHECK(close_to(zl_matmul(first, zl_linalg_solve(first, v)), v));
    }
}

// Computes the determinant by elimination with partial pivoting.
static long double naive_det(long double *a, int64_t n) {
    long double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best = fabsl(a[i * n + k]) > fabsl(a[best * n + k]) ? i : best;
        for (int64_t j = 0; best != k && j < n; j++) {
            long double x = a[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = x;
        }
        det *= best == k ? a[k * n + k] : -a[k * n + k];
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t j = n - 1; j >= k; j--)
                a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
    }
    return det;
}

TEST(determinants) {
    static struct matrices m;
    for (int64_t n = 1; n < 8; n++) {
        zl_array a = strided(3, n, n, ZL_FLOAT64), det = ready(zl_linalg_det(a)), out[2];
        REQUIRE(det && read(a, &m) && zl_linalg_slogdet(a, out) && zl_eval_all(2, out));
        for (int64_t at = 0; at < 3; at++) {
            double expected = (double)naive_det(m.value + at * n * n, n);
            double got = zl_item(zl_take(det, zl_scalar_int(at), 0));
            CHECK_NEAR(got, expected, 1e-12 * (1 + fabs(expected)));
            CHECK_EQ_F64(zl_item(zl_take(out[0], zl_scalar_int(at), 0)), expected < 0 ? -1 : 1);
            CHECK_NEAR(zl_item(zl_take(out[1], zl_scalar_int(at), 0)), log(fabs(expected)), 1e-10);
        }
    }
    zl_array zero[2];
    REQUIRE(zl_linalg_slogdet(zl_ones(ZL_SHAPE(4, 4), ZL_FLOAT32), zero) && zl_eval_all(2, zero));
    CHECK_EQ_F64(zl_item(zero[0]), 0);
    CHECK_EQ_F64(zl_item(zero[1]), -INFINITY);
    CHECK_EQ_F64(zl_item(zl_linalg_det(zl_ones(ZL_SHAPE(5, 5), ZL_FLOAT32))), 0);
    CHECK_ARRAY(zl_linalg_det(zl_zeros(ZL_SHAPE(2, 0, 0), ZL_FLOAT32)), ZL_FLOAT32, ZL_SHAPE(2), 1, 1);
    CHECK_ARRAY(zl_linalg_det(op_test_range(ZL_SHAPE(2, 2), ZL_INT32)), ZL_FLOAT32, ZL_SCALAR, -2);
    CHECK_ARRAY(zl_linalg_det(op_test_range(ZL_SHAPE(2, 2), ZL_FLOAT16)), ZL_FLOAT16, ZL_SCALAR, -2);
    REQUIRE(zl_linalg_slogdet(op_test_range(ZL_SHAPE(2, 2), ZL_BFLOAT16), zero));
    CHECK_ARRAY_NEAR(zero[1], ZL_BFLOAT16, ZL_SCALAR, 1e-2, log(2));
}

TEST(norms_of_vectors_and_matrices) {
    zl_array v = zl_from_f32((float[]){3, 0, -4}, ZL_SHAPE(3)),
             m = zl_from_f32((float[]){1, -2, 3, -4}, ZL_SHAPE(2, 2));
    CHECK_ARRAY(zl_linalg_norm(v, NULL, ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 5);
    CHECK_ARRAY(zl_linalg_norm(v, "0", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 2);
    CHECK_ARRAY(zl_linalg_norm(v, "1", ZL_AXES(0), true), ZL_FLOAT32, ZL_SHAPE(1), 7);
    CHECK_ARRAY(zl_linalg_norm(v, "inf", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 4);
    CHECK_ARRAY(zl_linalg_norm(v, "-inf", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 0);
    CHECK_ARRAY_NEAR(zl_linalg_norm(v, "3", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 1e-6, cbrt(91));
    CHECK_ARRAY(zl_linalg_norm(m, "1", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 6);
    CHECK_ARRAY(zl_linalg_norm(m, "-1", ZL_AXES(1, 0), false), ZL_FLOAT32, ZL_SCALAR, 3);
    CHECK_ARRAY(zl_linalg_norm(m, "inf", ZL_ALL, true), ZL_FLOAT32, ZL_SHAPE(1, 1), 7);
    CHECK_ARRAY_NEAR(zl_linalg_norm(m, "fro", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 1e-6, sqrt(30));
    CHECK_ARRAY_NEAR(zl_linalg_norm(m, NULL, ZL_AXES(0, 1), true), ZL_FLOAT32, ZL_SHAPE(1, 1), 1e-6,
                     sqrt(30));
    // the squares of the singular values add up to 30, their product is 2
    double large = sqrt(15 + sqrt(221)), small = sqrt(15 - sqrt(221));
    CHECK_ARRAY_NEAR(zl_linalg_norm(m, "2", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 1e-6, large);
    CHECK_ARRAY_NEAR(zl_linalg_norm(m, "-2", ZL_ALL, true), ZL_FLOAT32, ZL_SHAPE(1, 1), 1e-6, small);
    CHECK_ARRAY_NEAR(zl_linalg_norm(m, "nuc", ZL_ALL, false), ZL_FLOAT32, ZL_SCALAR, 1e-6, large + small);
    CHECK_ARRAY(zl_linalg_norm(op_test_range(ZL_SHAPE(2, 2), ZL_INT32), "1", ZL_AXES(1), false), ZL_FLOAT32,
                ZL_SHAPE(2), 1, 5);
}

TEST(cross_products) {
    zl_array a = zl_from_f32((float[]){1, 2, 3, 4, 5, 6}, ZL_SHAPE(2, 3)),
             x = zl_from_f32((float[]){1, 2}, ZL_SHAPE(2));
    zl_array e = zl_from_f32((float[]){0, 0, 1}, ZL_SHAPE(3));
    CHECK_ARRAY(zl_linalg_cross(a, e, -1), ZL_FLOAT32, ZL_SHAPE(2, 3), 2, -1, 0, 5, -4, 0);
    CHECK_ARRAY(zl_linalg_cross(x, e, 0), ZL_FLOAT32, ZL_SHAPE(3), 2, -1, 0);
    CHECK_ARRAY(zl_linalg_cross(e, x, -1), ZL_FLOAT32, ZL_SHAPE(3), -2, 1, 0);
    CHECK_ARRAY(zl_linalg_cross(x, zl_negative(x), -1), ZL_FLOAT32, ZL_SHAPE(3), 0, 0, 0);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_linalg_cross(e, zl_ones(ZL_SHAPE(4), ZL_FLOAT32), -1));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_linalg_cross(e, e, 1));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_linalg_cross(zl_astype(e, ZL_BOOL), zl_astype(x, ZL_BOOL), -1));
    CHECK_HAS(test_last_error(), "zl_linalg_cross: ");
    zl_array yes = zl_astype(e, ZL_BOOL);
    CHECK_ARRAY(zl_linalg_cross(yes, yes, -1), ZL_BOOL, ZL_SHAPE(3), 0, 0, 0);
}

TEST(empty_matrices) {
    zl_array none = zl_zeros(ZL_SHAPE(0, 3, 3), ZL_FLOAT32), flat = zl_zeros(ZL_SHAPE(2, 0), ZL_FLOAT32),
             out[3];
    CHECK_EMPTY(zl_linalg_inv(none), ZL_FLOAT32, ZL_SHAPE(0, 3, 3));
    CHECK_EMPTY(zl_linalg_cholesky(none, true), ZL_FLOAT32, ZL_SHAPE(0, 3, 3));
    CHECK_EMPTY(zl_linalg_pinv(flat), ZL_FLOAT32, ZL_SHAPE(0, 2));
    CHECK_EMPTY(zl_linalg_eigvalsh(none, "L"), ZL_FLOAT32, ZL_SHAPE(0, 3));
    CHECK_EMPTY(zl_linalg_eigvals(none), ZL_COMPLEX64, ZL_SHAPE(0, 3));
    REQUIRE(zl_linalg_svd(flat, true, out));
    CHECK_ARRAY(out[0], ZL_FLOAT32, ZL_SHAPE(2, 2), 1, 0, 0, 1);
    CHECK_EMPTY(out[1], ZL_FLOAT32, ZL_SHAPE(0));
    REQUIRE(zl_linalg_qr(flat, out));
    CHECK_EMPTY(out[1], ZL_FLOAT32, ZL_SHAPE(0, 0));
    REQUIRE(zl_linalg_lu(none, out));
    CHECK_EMPTY(out[2], ZL_FLOAT32, ZL_SHAPE(0, 3, 3));
    CHECK_EMPTY(zl_linalg_solve(none, zl_zeros(ZL_SHAPE(0, 3, 1), ZL_FLOAT32)), ZL_FLOAT32,
                ZL_SHAPE(0, 3, 1));
}

TEST(what_is_no_matrix_is_refused) {
    zl_array v = zl_ones(ZL_SHAPE(3), ZL_FLOAT32), flat = zl_ones(ZL_SHAPE(2, 3), ZL_FLOAT32), out[3];
    zl_array whole = zl_ones(ZL_SHAPE(2, 2), ZL_INT32), half = zl_ones(ZL_SHAPE(2, 2), ZL_FLOAT16);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_linalg_inv(v));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_linalg_inv(flat));
    CHECK_HAS(test_last_error(), "zl_linalg_inv: shape (2, 3): square matrices");
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_linalg_qr(whole, out));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_linalg_svd(half, true, out));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_linalg_cholesky(zl_astype(whole, ZL_COMPLEX64), false));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linalg_eigvalsh(zl_eye(2, 2, 0, ZL_FLOAT32), "X"));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_linalg_solve(zl_eye(2, 2, 0, ZL_FLOAT32), v));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_linalg_solve(whole, whole));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linalg_norm(v, "fro", ZL_ALL, false));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linalg_norm(flat, "3", ZL_ALL, false));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linalg_norm(flat, "long", ZL_ALL, false));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_linalg_norm(zl_ones(ZL_SHAPE(2, 2, 2), ZL_FLOAT32), "2", ZL_ALL, false));
    CHECK(!zl_linalg_inv(NULL) && !zl_linalg_norm(NULL, NULL, ZL_ALL, false) && !zl_linalg_solve(NULL, v) &&
          !zl_error());
}

TEST(what_has_no_result_fails_when_it_is_computed) {
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_inv(zl_ones(ZL_SHAPE(3, 3), ZL_FLOAT32))));
    CHECK_HAS(test_last_error(), "is singular");
    CHECK_ERROR(ZL_ERROR_DEVICE,
                zl_eval(zl_linalg_cholesky(zl_negative(zl_eye(3, 3, 0, ZL_FLOAT64)), false)));
    CHECK_HAS(test_last_error(), "is not positive definite");
    zl_array nan = zl_full(ZL_SHAPE(2, 2), zl_scalar(NAN), ZL_FLOAT32), out[2];
    REQUIRE(zl_linalg_eig(nan, out));
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(out[0]));
    CHECK_HAS(test_last_error(), "not finite");
}

// Rules -----------------------------------------------------------------------------------------------------

static zl_array definite(zl_array x) {
    return zl_add(zl_matmul(x, zl_matrix_transpose(x)), zl_eye(zl_dim(x, -1), zl_dim(x, -1), 0, ZL_FLOAT64));
}

static zl_array away_from_zero(zl_array x) {
    return zl_add(x, zl_multiply(zl_scalar(5), zl_eye(zl_dim(x, -1), zl_dim(x, -1), 0, ZL_FLOAT64)));
}

static zl_array output(bool ok, zl_array *out, int which) {
    return ok ? out[which] : NULL;
}

static zl_array room[3];

RULES(inv, ZL_SHAPE(3, 3), zl_linalg_inv(away_from_zero(x)))
RULES(inv_batch, ZL_SHAPE(2, 2, 2), zl_linalg_inv(away_from_zero(x)))
RULES(tri_inv, ZL_SHAPE(3, 3), zl_linalg_tri_inv(away_from_zero(x), false))
RULES(tri_inv_upper, ZL_SHAPE(3, 3), zl_linalg_tri_inv(away_from_zero(x), true))
RULES(cholesky, ZL_SHAPE(3, 3), zl_linalg_cholesky(definite(x), false))
RULES(cholesky_upper, ZL_SHAPE(3, 3), zl_linalg_cholesky(definite(x), true))
RULES(cholesky_inv, ZL_SHAPE(3, 3), zl_linalg_cholesky_inv(away_from_zero(x), false))
RULES(solve_triangular, ZL_SHAPE(3, 3), zl_linalg_solve_triangular(away_from_zero(x), x, false))
RULES(det, ZL_SHAPE(3, 3), zl_linalg_det(away_from_zero(x)))
RULES(norm, ZL_SHAPE(3, 3), zl_linalg_norm(x, "3", ZL_AXES(0), false))
RULES(cross, ZL_SHAPE(4, 3), zl_linalg_cross(x, zl_flip(zl_square(x), ZL_AXES(1)), -1))
BATCHING(qr, ZL_SHAPE(3, 2), output(zl_linalg_qr(x, room), room, 1))
BATCHING(svd, ZL_SHAPE(3, 2), output(zl_linalg_svd(x, true, room), room, 2))
BATCHING(svd_values, ZL_SHAPE(2, 3), output(zl_linalg_svd(x, false, room), room, 0))
BATCHING(lu, ZL_SHAPE(3, 3), output(zl_linalg_lu(x, room), room, 1))
BATCHING(eigh, ZL_SHAPE(3, 3), output(zl_linalg_eigh(x, "L", room), room, 0))
BATCHING(eig, ZL_SHAPE(3, 3), zl_abs(zl_linalg_eigvals(x)))
BATCHING(solve, ZL_SHAPE(3, 3), zl_linalg_solve(away_from_zero(x), x))
BATCHING(slogdet, ZL_SHAPE(4, 4), output(zl_linalg_slogdet(x, room), room, 1))
