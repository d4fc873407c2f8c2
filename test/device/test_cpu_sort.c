// test_cpu_sort.c - sorted lines of every dtype and length, on one thread and on several, against the C library's sort.

#include "op/op_test.h"

#include <math.h>
#include <stdlib.h>

// Around the lengths from which lines are sorted otherwise, and how many of them are sorted together.
static const int64_t lengths[] = {1, 2, 16, 33, 255, 256, 257, 1000, 5000, 32767, 40000};

struct placed {
    double value;
    int64_t position;
};

// NaN is last, equal elements keep their order.
static int compare(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    bool x_nan = x->value != x->value, y_nan = y->value != y->value;
    if (x_nan != y_nan)
        return x_nan - y_nan;
    if (!x_nan && x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

// Numbers all over the range of a dtype, or a few of them again and again; of floats, some are NaN or -0.
static zl_array draw(zl_dtype dtype, int64_t lines, int64_t n) {
    double *value = memory_alloc(sizeof *value * (size_t)(lines * n));
    int bits = (int)zl_dtype_size(dtype) * 8;
    bool few = test_between(0, 1), is_float = dtype_is_inexact(dtype),
         is_signed = dtype_is_signed(dtype) || is_float;
    int64_t most = few || dtype == ZL_BOOL ? 1 : ((int64_t)1 << (MIN_OF(bits, 40) - 2)) - 1;
    if (!value)
        return NULL;
    for (int64_t i = 0; i < lines * n; i++) {
        value[i] = (double)test_between(is_signed ? -most : 0, most);
        if (is_float && !test_between(0, 40))
            value[i] = test_between(0, 1) ? NAN : -0.0;
    }
    zl_array x = zl_astype(zl_from_f64(value, ZL_SHAPE(lines, n)), dtype);
    memory_free(value);
    return x;
}

static bool read(zl_array x, double *to) {
    return zl_copy_to(zl_astype(x, ZL_FLOAT64), to, sizeof *to * (size_t)zl_size(x));
}

static void check_lines(zl_dtype dtype, int64_t lines, int64_t n) {
    zl_array x = draw(dtype, lines, n), y[] = {zl_sort(x, 1), zl_argsort(x, 1)};
    struct placed *expected = memory_alloc(sizeof *expected * (size_t)n);
    REQUIRE(expected && zl_eval(x) && zl_eval_all(2, y));
    double *value = memory_alloc(sizeof *value * 3 * (size_t)(lines * n));
    REQUIRE(value);
    double *sorted = value + lines * n, *position = sorted + lines * n;
    REQUIRE(read(x, value) && read(y[0], sorted) && read(y[1], position));
    int64_t wrong = 0;
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i < n; i++)
            expected[i] = (struct placed){value[line * n + i], i};
        qsort(expected, (size_t)n, sizeof *expected, compare);
        for (int64_t i = 0; i < n; i++) {
            double got = sorted[line * n + i], want = expected[i].value;
            wrong += (got != want && (got == got || want == want)) ||
                     position[line * n + i] != (double)expected[i].position;
        }
    }
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%lld lines of %lld %s", (long long)lines, (long long)n, zl_dtype_name(dtype));
    memory_free(value);
    memory_free(expected);
}

static void check_lengths(void) {
    static const int64_t lines[] = {1, 3, 16, 37};
    for (int dtype = ZL_BOOL; dtype < ZL_COMPLEX64; dtype++)
        for (size_t i = 0; i < COUNT(lengths); i++) {
            int64_t count = lengths[i] < 5000 ? lines[test_between(0, 3)] : 1;
            if (lengths[i] < 5000 || !test_quick() || !test_between(0, 4))
                ZL_SCOPE
                    check_lines((zl_dtype)dtype, count, lengths[i]);
        }
}

TEST(sorts_of_every_length) {
    int threads = zl_threads();
    for (int count = 1; count <= 3; count++) {
        REQUIRE(zl_set_threads(count));
        check_lengths();
    }
    REQUIRE(zl_set_threads(threads));
}

// Values among many and among few, one by one and all at once: as many elements are smaller as a count says.
TEST(searches_of_every_dtype) {
    for (int dtype = ZL_UINT8; dtype < ZL_COMPLEX64; dtype++)
        for (int few = 0; few < 2; few++) {
            zl_array x = zl_reshape(draw((zl_dtype)dtype, 1, few ? 3 : 400), ZL_SHAPE(-1)),
                     v = draw((zl_dtype)dtype, 1, few ? 300 : 7);
            zl_array sorted = zl_sort(x, 0), value = zl_reshape(v, ZL_SHAPE(-1, 1));
            REQUIRE(zl_eval_all(2, (zl_array[]){sorted, value}));
            zl_array row = zl_reshape(sorted, ZL_SHAPE(1, -1));
            for (int right = 0; right < 2; right++) {
                zl_array before = right ? zl_less_equal(row, value) : zl_less(row, value);
                if (dtype >= ZL_FLOAT16) { // all are smaller than NaN, or equal
                    zl_array is_nan = zl_isnan(value), other = zl_isnan(row);
                    before =
                        zl_logical_or(before, right ? is_nan : zl_logical_and(is_nan, zl_logical_not(other)));
                }
                zl_array count = zl_astype(zl_sum_axis(before, 1, true), ZL_UINT32);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(
                                 zl_searchsorted(sorted, value, right ? "right" : "left"), count, false)),
                             1);
            }
        }
}
