// test_cpu_epilogue.c - calls that follow a matrix product run on parts of it, and give the same bits as
// after the whole product.

#include "random_view.h"

#include "device/cpu/cpu.h"

#include <string.h>

// The inputs of calls that follow a product p: x, a matrix; y, of p's shape; a row and a column.
struct sources {
    zl_array x, y, row, column;
};

static zl_array bias(zl_array p, const struct sources *s) {
    return zl_add(p, s->row);
}

static zl_array relu(zl_array p, const struct sources *s) {
    return zl_maximum(zl_add(p, s->row), zl_scalar(0));
}

static zl_array gelu(zl_array p, const struct sources *s) {
    zl_array x = zl_add(p, s->row);
    return zl_multiply(zl_multiply(x, zl_scalar(0.5)),
                       zl_add(zl_erf(zl_multiply(x, zl_scalar(0.7071067811865476))), zl_scalar(1)));
}

static zl_array residual(zl_array p, const struct sources *s) {
    return zl_add(zl_multiply(p, s->column), s->y);
}

static zl_array softmax(zl_array p, const struct sources *s) {
    zl_array x = zl_add(p, s->row), e = zl_exp(zl_subtract(x, zl_max_axis(x, -1, true)));
    return zl_divide(e, zl_sum_axis(e, -1, true));
}

static zl_array cast(zl_array p, const struct sources *s) {
    return zl_add(zl_astype(zl_astype(p, ZL_FLOAT16), ZL_FLOAT32), zl_astype(s->y, ZL_FLOAT32));
}

static zl_array line_sums(zl_array p, const struct sources *s) {
    return zl_sum_axis(zl_square(zl_subtract(p, s->y)), -1, false);
}

static zl_array turned(zl_array p, const struct sources *s) {
    return zl_swapaxes(zl_negative(zl_add(p, s->row)), -1, -2);
}

static zl_array (*const ends[])(zl_array, const struct sources *) = {bias,    relu, gelu,      residual,
                                                                     softmax, cast, line_sums, turned};

static bool same_bits(zl_array a, zl_array b) {
    const void *x = zl_data(zl_contiguous(a, false)), *y = zl_data(zl_contiguous(b, false));
    return x && y && zl_nbytes(a) == zl_nbytes(b) && !memcmp(x, y, zl_nbytes(a));
}

static void compare_once(zl_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, int pick,
                         bool keeps) {
    int64_t a[3] = {batch, m, k}, b[3] = {test_between(0, 1) ? batch : 1, k, n}, c[3] = {batch, m, n};
    struct view x = view_random(dtype, 3, a), w = view_random(dtype, 3, b), y = view_random(dtype, 3, c);
    struct view row = view_random(dtype, 1, &n), column = view_random(dtype, 3, (int64_t[]){1, m, 1});
    REQUIRE(x.array && w.array && y.array && row.array && column.array);
    struct sources s = {x.array, y.array, row.array, column.array};
    zl_array alone = zl_retain(zl_matmul(x.array, w.array));
    REQUIRE(zl_eval(alone));
    zl_array want = ends[pick](alone, &s);
    REQUIRE(zl_eval(want));
    zl_array product = zl_matmul(x.array, w.array), got[2] = {ends[pick](product, &s), product};
    REQUIRE(zl_eval_all(1 + keeps, got));
    if (!CHECK(same_bits(got[0], want) && (!keeps || same_bits(product, alone))))
        test_note("%s, %lld of %lld x %lld x %lld, end %d%s", zl_dtype_name(dtype), (long long)batch,
                  (long long)m, (long long)n, (long long)k, pick, keeps ? ", kept" : "");
    zl_release(alone);
}

// Parts of some rows and few columns, of which the last are in boxes.
TEST(epilogues_of_narrow_parts) {
    int64_t fused = zl_counter("fused");
    for (int i = 0; i < 8; i++)
        ZL_SCOPE {
            static const int64_t cols[] = {504, 512, 252, 1012};
            compare_once(ZL_FLOAT32, 1, 100, cols[i / 2 % 4], 2048, i % (int)COUNT(ends), i & 1);
        }
    CHECK(zl_counter("fused") > fused + 8);
}

TEST(epilogues_as_alone) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16};
    int rounds = test_quick() ? 16 : test_long() ? 2000 : 100, threads = zl_threads();
    int64_t fused = zl_counter("fused");
    for (int i = 0; i < rounds; i++)
        ZL_SCOPE {
            int64_t batch = test_between(0, 2) ? 1 : test_between(2, 3), n = test_between(2, 200);
            int64_t m = 8192 / n + test_between(2, 300), k = test_between(16, 200);
            zl_set_threads(1 + (int)test_between(0, 2));
            compare_once(dtypes[i % COUNT(dtypes)], batch, m, n, k, i / 4 % (int)COUNT(ends),
                         test_between(0, 3) == 0);
        }
    zl_set_threads(threads);
    CHECK(zl_counter("fused") > fused + rounds);
}
