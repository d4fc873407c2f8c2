// test_cpu_sort.c - rows of every dtype and length, sorted and partitioned on one thread and on several,
// compared with the C library's sort.

#include "op/op_test.h"

#include <math.h>
#include <stdlib.h>

// Lengths around those at which the algorithm, or the number of rows that are sorted together, changes.
static const int64_t lengths[] = {1, 2, 16, 33, 255, 256, 257, 1000, 5000, 32767, 40000};

struct placed {
    double value;
    int64_t position;
};

// Orders NaN last, and equal elements by position.
static int compare(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    bool x_nan = x->value != x->value, y_nan = y->value != y->value;
    if (x_nan != y_nan)
        return x_nan - y_nan;
    if (!x_nan && x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int compare_numbers(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool is_equal(double a, double b) {
    return a == b || (a != a && b != b);
}

// Draws numbers over the whole range of a dtype, or a few different ones; some floats are NaN or -0.
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
            wrong += !is_equal(got, want) || position[line * n + i] != (double)expected[i].position;
        }
    }
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%lld lines of %lld %s", (long long)lines, (long long)n, zl_dtype_name(dtype));
    memory_free(value);
    memory_free(expected);
}

// Sorts the positions within the three groups of a partition: before, equal to, and after the kth element.
static void group(const struct placed *sorted, int64_t n, int64_t kth, int64_t *position) {
    int64_t begin = kth, end = kth + 1, ends[3];
    while (begin > 0 && is_equal(sorted[begin - 1].value, sorted[kth].value))
        begin--;
    while (end < n && is_equal(sorted[end].value, sorted[kth].value))
        end++;
    ends[0] = begin, ends[1] = end, ends[2] = n;
    for (int64_t i = 0; i < n; i++)
        position[i] = sorted[i].position;
    for (int64_t k = 0, from = 0; k < 3; from = ends[k++])
        qsort(position + from, (size_t)(ends[k] - from), sizeof *position, compare_numbers);
}

// Rows with their partition and largest elements at a position.
struct partitioned {
    int64_t n, kth;
    double *value, *partition, *positions, *largest; // of all lines
    struct placed *sorted;
    int64_t *position;
};

static int64_t count_wrong(const struct partitioned *p, int64_t line) {
    int64_t n = p->n, at = line * n, wrong = 0;
    for (int64_t i = 0; i < n; i++)
        p->sorted[i] = (struct placed){p->value[at + i], i};
    qsort(p->sorted, (size_t)n, sizeof *p->sorted, compare);
    group(p->sorted, n, p->kth, p->position);
    for (int64_t i = 0; i < n; i++) {
        double want = p->value[at + p->position[i]];
        wrong += !is_equal(p->partition[at + i], want) || p->positions[at + i] != (double)p->position[i];
        wrong += p->kth && i >= p->kth && // if it is all elements, topk leaves them unsorted
                 !is_equal(p->largest[line * (n - p->kth) + i - p->kth], want);
    }
    return wrong;
}

static void check_partition(zl_dtype dtype, int64_t lines, int64_t n) {
    int64_t kth = test_between(0, 2) ? test_between(0, n - 1) : test_between(0, MIN_OF(n - 1, 9)), wrong = 0;
    zl_array x = draw(dtype, lines, n), y[] = {zl_partition(x, (int)kth, 1), zl_argpartition(x, (int)kth, 1),
                                               zl_topk(x, (int)(n - kth), 1)};
    double *value = memory_alloc(sizeof *value * 4 * (size_t)(lines * n));
    REQUIRE(value);
    struct partitioned p = {n,
                            kth,
                            value,
                            value + lines * n,
                            value + 2 * lines * n,
                            value + 3 * lines * n,
                            memory_alloc(sizeof *p.sorted * (size_t)n),
                            memory_alloc(sizeof *p.position * (size_t)n)};
    REQUIRE(p.sorted && p.position && zl_eval(x) && zl_eval_all(3, y) && read(x, value));
    for (int k = 0; k < 3; k++)
        REQUIRE(read(y[k], value + (k + 1) * lines * n));
    for (int64_t line = 0; line < lines; line++)
        wrong += count_wrong(&p, line);
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("element %lld of %lld lines of %lld %s", (long long)kth, (long long)lines, (long long)n,
                  zl_dtype_name(dtype));
    memory_free(value);
    memory_free(p.position);
    memory_free(p.sorted);
}

TEST(partitions_of_every_length) {
    static const int64_t sizes[] = {1, 2, 16, 47, 48, 49, 128, 129, 300, 4095, 4096, 20000};
    int threads = zl_threads();
    for (int count = 1; count <= 3; count++) {
        REQUIRE(zl_set_threads(count));
        for (int dtype = ZL_BOOL; dtype < ZL_COMPLEX64; dtype++)
            for (size_t i = 0; i < COUNT(sizes); i++)
                ZL_SCOPE
                    check_partition((zl_dtype)dtype, sizes[i] <= 300 ? test_between(1, 50) : 1, sizes[i]);
    }
    REQUIRE(zl_set_threads(threads));
}

// Medians of many rows, which threads divide among them.
TEST(medians_of_many_lines) {
    for (int64_t n = 100; n <= 101; n++) {
        zl_array x = draw(ZL_INT32, 2000, n), sorted = zl_sort(x, 1), y = zl_median_axis(x, 1, true);
        REQUIRE(zl_eval_all(2, (zl_array[]){sorted, y}));
        zl_array middle[2];
        for (int k = 0; k < 2; k++) {
            int64_t at = (n - 1 + k) / 2;
            middle[k] = zl_astype(zl_slice(sorted, ZL_SHAPE(0, at), ZL_SHAPE(2000, at + 1), ZL_SHAPE(1, 1)),
                                  ZL_FLOAT32);
        }
        zl_array want = n % 2 ? middle[0] : zl_multiply(zl_add(middle[1], middle[0]), zl_scalar(0.5));
        CHECK_EQ_INT(zl_item_int(zl_array_equal(y, want, false)), 1);
    }
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

// Searches among many and among few values, one by one and all at once. The expected result is the number of
// smaller elements.
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
                if (dtype >= ZL_FLOAT16) { // every number is smaller than NaN, or equal to it
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
