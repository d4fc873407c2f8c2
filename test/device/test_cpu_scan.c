// test_cpu_scan.c - scans of every dtype, layout and length, on one thread and on several, compared with a
// loop.

#include "graph/graph.h"
#include "op/ops.h"
#include "test.h"

#include <math.h>

// Lengths around those of vectors, strips and blocks, and one that threads divide.
static const int64_t lengths[] = {1,    2,    5,    16,   17,   33,   511,   512,   513,
                                  1024, 1500, 2048, 2049, 4095, 8200, 40001, 100000};

struct case_of {
    enum scan which;
    zl_dtype dtype;
    int64_t lines, n;
    bool reverse, inclusive, backwards, apart; // backwards, apart: reversed, or with gaps between the
                                               // elements of the input
};

static int64_t first_of(const struct case_of *c) {
    static const int64_t none[] = {0, 1, INT64_MIN, INT64_MAX};
    return none[c->which];
}

static int64_t combine(enum scan which, int64_t a, int64_t b) {
    switch (which) {
    case SCAN_SUM: return a + b;
    case SCAN_PROD: return a * b;
    case SCAN_MAX: return MAX_OF(a, b);
    default: return MIN_OF(a, b);
    }
}

static void reference(const struct case_of *c, const int64_t *from, int64_t *to) {
    int64_t kept = first_of(c);
    for (int64_t i = 0; i < c->n; i++) {
        int64_t at = c->reverse ? c->n - 1 - i : i, next = combine(c->which, kept, from[at]);
        to[at] = c->inclusive ? next : kept;
        kept = next;
    }
}

// Returns the input's elements in the layout of the case.
static zl_array laid_out(const struct case_of *c, const int64_t *values) {
    zl_array x = zl_astype(zl_from_i64(values, ZL_SHAPE(c->lines, c->n)), c->dtype);
    if (c->backwards)
        x = zl_flip(zl_contiguous(zl_flip(x, ZL_AXES(1)), false), ZL_AXES(1));
    if (c->apart) {
        zl_array twice = zl_contiguous(zl_stack((zl_array[]){x, zl_zeros_like(x, c->dtype)}, 2, 2), false);
        x = zl_squeeze(zl_slice(twice, ZL_SHAPE(0, 0, 0), ZL_SHAPE(c->lines, c->n, 1), ZL_SHAPE(1, 1, 1)),
                       ZL_AXES(2));
    }
    return x;
}

static zl_array scan(const struct case_of *c, zl_array x) {
    switch (c->which) {
    case SCAN_SUM: return zl_cumsum(x, 1, c->reverse, c->inclusive, c->dtype);
    case SCAN_PROD: return zl_cumprod(x, 1, c->reverse, c->inclusive, c->dtype);
    case SCAN_MAX: return zl_cummax(x, 1, c->reverse, c->inclusive);
    default: return zl_cummin(x, 1, c->reverse, c->inclusive);
    }
}

// Small numbers, whose sums are exact in every dtype; factors are 1, and sometimes -1.
static void draw(const struct case_of *c, int64_t *values) {
    bool is_signed = c->dtype >= ZL_INT8;
    for (int64_t i = 0; i < c->lines * c->n; i++) {
        bool odd = test_between(0, 50) == 0;
        values[i] = c->which == SCAN_PROD ? (odd && is_signed ? -1 : 1)
                                          : test_between(is_signed ? -2 : 0, c->dtype == ZL_BOOL ? 1 : 2);
    }
}

static void check_case(const struct case_of *c) {
    size_t bytes = sizeof(int64_t) * (size_t)(c->lines * c->n);
    int64_t *values = memory_alloc(bytes), *expected = memory_alloc(bytes);
    REQUIRE(values && expected);
    draw(c, values);
    for (int64_t line = 0; line < c->lines; line++)
        reference(c, values + line * c->n, expected + line * c->n);
    zl_array y = scan(c, laid_out(c, values));
    zl_array want = y ? zl_astype(zl_from_i64(expected, ZL_SHAPE(c->lines, c->n)), zl_dtype_of(y)) : NULL;
    int64_t edge = c->inclusive ? 0 : 1; // results of no elements are tested elsewhere
    int64_t from = c->reverse ? 0 : edge, to = c->n - (c->reverse ? edge : 0);
    zl_array part[] = {y, want};
    for (int k = 0; k < 2; k++)
        part[k] = zl_slice(part[k], ZL_SHAPE(0, from), ZL_SHAPE(c->lines, to), ZL_SHAPE(1, 1));
    if (!CHECK(zl_item_int(zl_array_equal(part[0], part[1], false))))
        test_note("scan %d of %s, %lld x %lld%s%s%s%s", c->which, zl_dtype_name(c->dtype),
                  (long long)c->lines, (long long)c->n, c->reverse ? " reverse" : "",
                  c->inclusive ? "" : " exclusive", c->backwards ? " backwards" : "",
                  c->apart ? " apart" : "");
    memory_free(values);
    memory_free(expected);
}

static void check_length(int64_t n) {
    for (int dtype = ZL_BOOL; dtype < ZL_DTYPE_COUNT; dtype++)
        for (enum scan which = SCAN_SUM; which <= SCAN_MIN; which++) {
            if (dtype == ZL_BOOL && which < SCAN_MAX)
                continue; // their result is int32
            struct case_of c = {which,
                                (zl_dtype)dtype,
                                test_between(0, 3) ? 1 : test_between(2, 9),
                                n,
                                test_between(0, 1),
                                test_between(0, 3),
                                !test_between(0, 3),
                                !test_between(0, 3)};
            if (n * c.lines > 100000)
                c.lines = 1;
            ZL_SCOPE
                check_case(&c);
        }
}

TEST(scans_of_every_length) {
    int threads = zl_threads();
    for (int count = 1; count <= 2; count++) {
        REQUIRE(zl_set_threads(count));
        for (size_t i = 0; i < COUNT(lengths); i++)
            if (!test_quick() || lengths[i] < 10000 || i % 2 == (size_t)count % 2)
                check_length(lengths[i]);
    }
    REQUIRE(zl_set_threads(threads));
}

// Floats are added in the same order on any number of threads.
TEST(scans_do_not_depend_on_threads) {
    int threads = zl_threads();
    zl_array sum[2],
        x = zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(100000), ZL_FLOAT32, zl_random_key(3));
    REQUIRE(zl_eval(x));
    for (int k = 0; k < 2; k++) {
        REQUIRE(zl_set_threads(1 + 2 * k));
        sum[k] = zl_cumsum(x, 0, false, true, ZL_FLOAT32);
        REQUIRE(zl_eval(sum[k]));
    }
    REQUIRE(zl_set_threads(threads));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(sum[0], sum[1], false)), 1);
}

// Several rows are scanned together, with the same results as each alone.
TEST(scans_of_many_lines) {
    static const int64_t sizes[] = {513, 700, 1025, 2500};
    enum { LINES = 67 };
    for (size_t i = 0; i < COUNT(sizes); i++)
        ZL_SCOPE {
            zl_array x = zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(LINES, sizes[i]), ZL_FLOAT32,
                                           zl_random_key(i));
            REQUIRE(zl_eval(x));
            zl_array all = zl_cumsum(x, 1, false, i / 2 > 0, ZL_FLOAT32);
            REQUIRE(zl_eval(all));
            for (int64_t row = 0; row < LINES; row += 11) {
                const int64_t first[] = {row, 0}, last[] = {row + 1, sizes[i]}, step[] = {1, 1};
                zl_shape from = {first, 2}, to = {last, 2}, by = {step, 2};
                zl_array line = zl_contiguous(zl_slice(x, from, to, by), false);
                zl_array alone = zl_cumsum(line, 1, false, i / 2 > 0, ZL_FLOAT32);
                CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_slice(all, from, to, by), alone, false)), 1);
            }
        }
}

// After a NaN all results are NaN; -0 does not become 0.
TEST(scans_of_special_numbers) {
    int64_t n = 3000;
    float *values = memory_alloc(sizeof *values * (size_t)n);
    REQUIRE(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = i == 1700 ? NAN : i == 5 ? 7 : -0.0f;
    zl_array x = zl_from_f32(values, ZL_SHAPE(n)),
             y[] = {zl_cummax(x, 0, false, true), zl_cumsum(x, 0, false, true, ZL_FLOAT32)};
    REQUIRE(zl_eval_all(2, y));
    for (int k = 0; k < 2; k++) {
        const float *got = zl_data_f32(y[k]);
        CHECK(signbit(got[0]) && signbit(got[4]) && got[5] == 7 && got[1699] == 7 && got[1700] != got[1700] &&
              got[n - 1] != got[n - 1]);
    }
    memory_free(values);
}
