// test_cpu_matmul.c - matrix products of all sizes, layouts and dtypes, compared with a loop in double
// precision.

#include "random_view.h"

#include "graph/graph.h"

#include <string.h>

static int rounds(int quick, int usual) {
    return test_quick() ? quick : test_long() ? 10 * usual : usual;
}

static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_COMPLEX64, ZL_FLOAT16, ZL_BFLOAT16};

// Returns element (batch..., i, j) of the product, one part of it. Operands are small integers, so that sums
// are exact.
static double expected(const struct view *a, const struct view *b, const int64_t *batch, int batches,
                       int64_t i, int64_t j, int part) {
    int64_t at[VIEW_AXES], bt[VIEW_AXES];
    int ndim = batches + 2;
    double sum = 0;
    for (int k = 0; k < batches; k++)
        at[k] = bt[k] = batch[k];
    for (int64_t k = 0; k < a->dim[a->ndim - 1]; k++) {
        at[ndim - 2] = i, at[ndim - 1] = k;
        bt[ndim - 2] = k, bt[ndim - 1] = j;
        double ar = view_at(a, ndim, at, 0), br = view_at(b, ndim, bt, 0);
        if (a->dtype != ZL_COMPLEX64) {
            sum += ar * br;
            continue;
        }
        double ai = view_at(a, ndim, at, 1), bi = view_at(b, ndim, bt, 1);
        sum += part ? ar * bi + ai * br : ar * br - ai * bi;
    }
    return sum;
}

static double rounded(double value, zl_dtype dtype) {
    char room[8];
    if (dtype != ZL_COMPLEX64) {
        dtype_convert(room, dtype, &value, ZL_FLOAT64, 1);
        dtype_convert(&value, ZL_FLOAT64, room, dtype, 1);
    }
    return value;
}

static void multiply_once(int64_t m, int64_t n, int64_t k, zl_dtype dtype, int batches) {
    int64_t da[VIEW_AXES] = {3, 2}, db[VIEW_AXES] = {3, 2}, at[VIEW_AXES] = {0}, dim[VIEW_AXES], index = 0;
    da[batches] = m, da[batches + 1] = k;
    db[batches] = k, db[batches + 1] = n;
    if (batches && test_between(0, 1))
        db[0] = 1;
    struct view a = view_random(dtype, batches + 2, da), b = view_random(dtype, batches + 2, db);
    zl_array y = zl_matmul(a.array, b.array);
    REQUIRE(zl_eval(y));
    for (int i = 0; i < y->ndim; i++)
        dim[i] = y->dim[i];
    int wrong = 0;
    do {
        for (int part = 0; part < (dtype == ZL_COMPLEX64 ? 2 : 1); part++) {
            double want = rounded(expected(&a, &b, at, batches, at[batches], at[batches + 1], part), dtype);
            wrong += dense_at(y, index, part) != want;
        }
        index++;
    } while (next_position(batches + 2, dim, at));
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%s %s strides %s times %s strides %s", zl_dtype_name(dtype), array_text(a.array),
                  shape_text(a.ndim, a.stride), array_text(b.array), shape_text(b.ndim, b.stride));
}

TEST(random_products) {
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 16, 33, 50, 60, 100};
    for (int round = 0; round < rounds(20, 100); round++)
        ZL_SCOPE {
            int64_t s[3];
            for (int i = 0; i < 3; i++)
                s[i] = sizes[test_between(0, test_quick() ? 7 : 9)];
            multiply_once(s[0], s[1], s[2], dtypes[test_between(0, 4)], (int)test_between(0, 2));
        }
}

// Two to sixteen vectors times matrices with contiguous rows or columns, in whole pieces and with remainders.
TEST(a_few_vectors_times_a_matrix) {
    for (int round = 0; round < rounds(12, 60); round++)
        ZL_SCOPE {
            int64_t few = test_between(2, 16), many = test_between(17, round % 4 ? 90 : 1100),
                    k = test_between(5, 70);
            multiply_once(round % 2 ? few : many, round % 2 ? many : few, k, dtypes[round / 2 % 2], 0);
        }
}

// All numbers of rows for which the matrix is used in blocks, which are not full, and which are added up
// along k; the last rows are few or many.
TEST(a_few_dozen_rows_times_a_matrix) {
    for (int64_t m = 12; m <= 48; m += test_quick() ? 4 : 1)
        ZL_SCOPE {
            int64_t n = test_between(2 * m + 1, 300), k = test_between(100, 300);
            multiply_once(m, n, k, m % 6 ? ZL_FLOAT32 : ZL_FLOAT64, 0);
        }
}

TEST(long_and_thin_products) {
    static const int64_t sizes[][3] = {{1, 3000, 12}, {3000, 1, 12}, {1, 12, 3000},
                                       {2, 2, 5000},  {1, 1, 10000}, {700, 3, 1},
                                       {5, 2000, 3},  {1, 5, 2500},  {5, 1, 2500}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int k = 0; k < 5; k++)
            ZL_SCOPE {
                if (dtypes[k] == ZL_BFLOAT16 && sizes[i][2] > 1000)
                    continue;
                multiply_once(sizes[i][0], sizes[i][1], sizes[i][2], dtypes[k], 0);
            }
}

// The matrix is large enough for all threads, and contiguous along the vector or across it.
TEST(vectors_times_large_matrices) {
    static const zl_dtype floats[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    for (int round = 0; round < rounds(4, 16); round++)
        ZL_SCOPE {
            int64_t many = test_between(500, 700), k = test_between(600, 900);
            multiply_once(round % 2 ? 1 : many, round % 2 ? many : 1, k, floats[round / 2 % 4],
                          round % 3 == 2);
        }
}

static zl_array noise(int64_t rows, int64_t columns, zl_dtype dtype, int64_t seed) {
    return zl_astype(zl_random_normal(ZL_SHAPE(rows, columns), ZL_FLOAT32, NULL, NULL, zl_random_key(seed)),
                     dtype);
}

static bool same_bits(zl_array a, zl_array b) {
    return zl_eval(a) && zl_eval(b) && !memcmp(zl_data(a), zl_data(b), zl_nbytes(a));
}

// Neither the number of threads nor the calls that follow change a bit.
TEST(vectors_times_large_matrices_on_any_threads) {
    const int threads = zl_threads();
    for (int i = 0; i < 4; i++)
        ZL_SCOPE {
            zl_array x = noise(1, 1000, dtypes[i % 2 ? 0 : 4], 1),
                     w = noise(1000, 901, (zl_dtype)x->dtype, 2);
            zl_array b = noise(1, 901, (zl_dtype)x->dtype, 3);
            zl_array one, all, alone;
            if (i / 2)
                w = zl_transpose(noise(901, 1000, (zl_dtype)x->dtype, 4), ZL_ALL);
            REQUIRE(zl_eval(x) && zl_eval(w) && zl_eval(b) && zl_set_threads(1));
            REQUIRE(zl_eval(one = zl_matmul(x, w)) && zl_set_threads(threads));
            CHECK(same_bits(one, all = zl_matmul(x, w)));
            alone = zl_maximum(zl_add(all, b), zl_scalar(0));
            CHECK(same_bits(alone, zl_maximum(zl_add(zl_matmul(x, w), b), zl_scalar(0))));
        }
}

TEST(products_of_many_blocks) {
    if (test_quick())
        SKIP("not in a quick run");
    multiply_once(140, 100, 400, ZL_FLOAT32, 0);
    multiply_once(9, 1600, 20, ZL_FLOAT32, 0);
    multiply_once(270, 50, 390, ZL_FLOAT64, 0);
    multiply_once(520, 70, 30, ZL_BFLOAT16, 0);
}

TEST(products_of_nothing) {
    zl_array a = zl_zeros(ZL_SHAPE(3, 0), ZL_FLOAT32), b = zl_zeros(ZL_SHAPE(0, 4), ZL_FLOAT32);
    zl_array y = zl_matmul(a, b);
    CHECK_EQ_F64(zl_item(zl_sum(zl_abs(y))), 0);
    CHECK_EQ_INT(
        zl_size(zl_matmul(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), zl_zeros(ZL_SHAPE(3, 4), ZL_FLOAT32))), 0);
}
