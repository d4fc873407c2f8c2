// test_elementwise.c - every row of elementwise.def: values compared with long double, dtypes, layouts,
// special numbers, gradients compared with finite differences. A new row is tested in all these ways except
// values, until references[] has libm's name for it.

#include <complex.h>
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"
#include "test.h"

#define IN(lo, hi) lo, hi
static const struct row {
    const char *function;
    enum tile_op op;
    int inputs;
    int rule;
    double lo, hi; // interval of the samples
    zl_array (*one)(zl_array);
    zl_array (*two)(zl_array, zl_array);
} rows[] = {
#define UNARY(NAME, fn, doc, rule, tangent, lower, domain)   {#fn, TILE_##NAME, 1, rule, domain, fn, NULL},
#define BINARY(NAME, fn, doc, rule, tangents, lower, domain) {#fn, TILE_##NAME, 2, rule, domain, NULL, fn},
#include "op/elementwise.def"
};

static zl_array apply(const struct row *r, zl_array a, zl_array b) {
    return r->one ? r->one(a) : r->two(a, b);
}

// Returns whether the row accepts a dtype.
static bool takes(const struct row *r, zl_dtype d) {
    if (r->rule & BITS)
        return !dtype_is_inexact(d);
    return !((r->rule & REAL) && d == ZL_COMPLEX64) && !((r->rule & NUMBERS) && d == ZL_BOOL);
}

// References ------------------------------------------------------------------------------------------------

static long double sign_of(long double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static long double square_of(long double x) { return x * x; }
static long double negative_of(long double x) { return -x; }
static long double one_over(long double x) { return 1 / x; }
static long double one_over_root(long double x) { return 1 / sqrtl(x); }
static long double logistic(long double x) { return 1 / (1 + expl(-x)); }
static long double itself(long double x) { return x; }
static long double zero_of(long double x) { return 0 * (x == x ? 0 : x); }
static long double inverse_erf(long double y) {
    long double x = 0;
    if (fabsl(y) >= 1)
        return y / (1 - fabsl(y)) * (fabsl(y) == 1 ? 1 : NAN);
    for (int i = 0; i < 60; i++) // Newton's method
        x -= (erfl(x) - y) / (1.12837916709551257389615890312154517L * expl(-x * x));
    return x;
}
static long double add_of(long double a, long double b) { return a + b; }
static long double subtract_of(long double a, long double b) { return a - b; }
static long double multiply_of(long double a, long double b) { return a * b; }
static long double divide_of(long double a, long double b) { return a / b; }
static long double floor_quotient(long double a, long double b) { return floorl(a / b); }
static long double remainder_of(long double a, long double b) {
    long double r = fmodl(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static long double whole_quotient(long double a, long double b) {
    return b == 0 ? a / b : floorl((a - remainder_of(a, b)) / b + 0.5L);
}
static long double larger(long double a, long double b) { return a != a || b != b ? NAN : a > b ? a : b; }
static long double smaller(long double a, long double b) { return a != a || b != b ? NAN : a < b ? a : b; }
static long double log_of_sum(long double a, long double b) {
    return larger(a, b) + log1pl(expl(-fabsl(a - b)));
}
static long double is_equal(long double a, long double b) { return a == b; }
static long double is_other(long double a, long double b) { return a != b; }
static long double is_less(long double a, long double b) { return a < b; }
static long double is_less_or_equal(long double a, long double b) { return a <= b; }
static long double is_greater(long double a, long double b) { return a > b; }
static long double is_greater_or_equal(long double a, long double b) { return a >= b; }

static const struct {
    enum tile_op op;
    long double (*one)(long double);
    long double (*two)(long double, long double);
} references[] = {
    {TILE_NEG, negative_of, NULL},
    {TILE_ABS, fabsl, NULL},
    {TILE_SIGN, sign_of, NULL},
    {TILE_SQUARE, square_of, NULL},
    {TILE_SQRT, sqrtl, NULL},
    {TILE_RSQRT, one_over_root, NULL},
    {TILE_RECIP, one_over, NULL},
    {TILE_EXP, expl, NULL},
    {TILE_EXPM1, expm1l, NULL},
    {TILE_LOG, logl, NULL},
    {TILE_LOG2, log2l, NULL},
    {TILE_LOG10, log10l, NULL},
    {TILE_LOG1P, log1pl, NULL},
    {TILE_SIN, sinl, NULL},
    {TILE_COS, cosl, NULL},
    {TILE_TAN, tanl, NULL},
    {TILE_ASIN, asinl, NULL},
    {TILE_ACOS, acosl, NULL},
    {TILE_ATAN, atanl, NULL},
    {TILE_SINH, sinhl, NULL},
    {TILE_COSH, coshl, NULL},
    {TILE_TANH, tanhl, NULL},
    {TILE_ASINH, asinhl, NULL},
    {TILE_ACOSH, acoshl, NULL},
    {TILE_ATANH, atanhl, NULL},
    {TILE_ERF, erfl, NULL},
    {TILE_ERFINV, inverse_erf, NULL},
    {TILE_SIGMOID, logistic, NULL},
    {TILE_FLOOR, floorl, NULL},
    {TILE_CEIL, ceill, NULL},
    {TILE_RINT, rintl, NULL},
    {TILE_TRUNC, truncl, NULL},
    {TILE_CONJ, itself, NULL},
    {TILE_REAL_PART, itself, NULL},
    {TILE_IMAG_PART, zero_of, NULL},
    {TILE_ADD, NULL, add_of},
    {TILE_SUB, NULL, subtract_of},
    {TILE_MUL, NULL, multiply_of},
    {TILE_DIV, NULL, divide_of},
    {TILE_FLOORDIV, NULL, floor_quotient},
    {TILE_REM, NULL, remainder_of},
    {TILE_QUOT, NULL, whole_quotient},
    {TILE_POW, NULL, powl},
    {TILE_MAX, NULL, larger},
    {TILE_MIN, NULL, smaller},
    {TILE_LOGADDEXP, NULL, log_of_sum},
    {TILE_ATAN2, NULL, atan2l},
    {TILE_EQ, NULL, is_equal},
    {TILE_NE, NULL, is_other},
    {TILE_LT, NULL, is_less},
    {TILE_LE, NULL, is_less_or_equal},
    {TILE_GT, NULL, is_greater},
    {TILE_GE, NULL, is_greater_or_equal},
};

// Computes the expected value; NAN if libm has no function for it.
static bool reference(const struct row *r, long double a, long double b, long double *out) {
    for (size_t i = 0; i < COUNT(references); i++)
        if (references[i].op == r->op) {
            *out = references[i].one ? references[i].one(a) : references[i].two(a, b);
            return true;
        }
    return false;
}

// Values ----------------------------------------------------------------------------------------------------

enum { SAMPLES = 200 };

static double load(zl_dtype d, const void *data, int64_t i) {
    double value;
    dtype_convert(&value, ZL_FLOAT64, (const char *)data + i * (int64_t)zl_dtype_size(d), d, 1);
    return value;
}

// Returns random values of a dtype in the row's domain, as stored in the array.
static zl_array sample(zl_dtype d, double lo, double hi, int64_t n) {
    double values[SAMPLES];
    bool natural = d <= ZL_UINT64;
    for (int64_t i = 0; i < n; i++)
        values[i] = test_uniform(natural && lo < 0 ? 0 : lo, hi);
    return zl_astype(zl_from_f64(values, ZL_SHAPE(n)), d);
}

// Returns the ULP of a dtype near x.
static long double unit(zl_dtype d, long double x) {
    int digits = d == ZL_FLOAT16 ? 11 : d == ZL_BFLOAT16 ? 8 : d == ZL_FLOAT64 ? 53 : 24;
    int least = d == ZL_FLOAT16 ? -24 : d == ZL_FLOAT64 ? -1074 : -149;
    int exponent;
    frexpl(x, &exponent);
    return ldexpl(1, exponent - digits > least ? exponent - digits : least);
}

static void compare_values(const struct row *r, zl_dtype d) {
    zl_array a = sample(d, r->lo, r->hi, SAMPLES), b = sample(d, r->lo, r->hi, SAMPLES);
    zl_dtype compute = (r->rule & FLOAT) && !dtype_is_inexact(d) ? ZL_FLOAT32 : d;
    zl_array y = apply(r, a, b), widened = zl_astype(y, ZL_FLOAT64);
    if (!zl_eval_all(4, (zl_array[]){a, b, y, widened})) {
        CHECK_STR(zl_error(), r->function);
        zl_clear_error();
        return;
    }
    for (int64_t i = 0; i < SAMPLES; i++) {
        long double want, x = load(d, zl_data(a), i), x2 = load(d, zl_data(b), i),
                          got = zl_data_f64(widened)[i];
        if (!reference(r, x, x2, &want))
            return;
        if (r->inputs == 2 && x2 == 0 && !dtype_is_inexact(compute) && !isfinite(want))
            continue; // integer division by zero: see integers_are_defined_where_c_is_not
        // Booleans and integers are exact. 16-bit floats are rounded once more than the float32 result, whose
        // error is at most 3 ULPs.
        bool exact = !dtype_is_inexact(compute) || (r->rule & TRUTH);
        long double scale = want;
        if (r->op == TILE_LOGADDEXP) // a sum that may cancel: the error is relative to its terms
            scale = fmaxl(fabsl(larger(x, x2)), log1pl(expl(-fabsl(x - x2))));
        long double bound =
            exact ? 0 : (r->op == TILE_POW || r->op == TILE_TAN ? 4.5L : 3.5L) * unit(compute, scale);
        bool same = got == want || (got != got && want != want);
        if (!same && !(fabsl(got - want) <= bound)) {
            CHECK(!"value");
            test_note("%s of %s: (%.9Lg, %.9Lg) gave %.9Lg, not %.9Lg", r->function, zl_dtype_name(d), x, x2,
                      got, want);
            return;
        }
    }
}

// Returns whether integers may overflow: they wrap around, which long double does not, so these ops are
// tested inside their domain.
static bool overflows(const struct row *r, zl_dtype d) {
    return !dtype_is_inexact(d) && !(r->rule & FLOAT) &&
           (d == ZL_BOOL || r->op == TILE_POW ||
            ((r->op == TILE_SUB || r->op == TILE_NEG) && d <= ZL_UINT64));
}

TEST(elementwise_values_against_long_double) {
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int d = 0; d < ZL_COMPLEX64; d++)
            if (takes(&rows[i], (zl_dtype)d) && !overflows(&rows[i], (zl_dtype)d) && test_samples(8))
                ZL_SCOPE compare_values(&rows[i], (zl_dtype)d);
}

TEST(elementwise_refuses_what_its_rule_says) {
    zl_array z = zl_astype(zl_scalar(1), ZL_COMPLEX64), f = zl_ones(ZL_SHAPE(2), ZL_FLOAT32),
             b = zl_ones(ZL_SHAPE(2), ZL_BOOL);
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!takes(&rows[i], ZL_BOOL))
            CHECK_ERROR(ZL_ERROR_DTYPE, apply(&rows[i], b, b));
        if (!takes(&rows[i], ZL_COMPLEX64)) {
            CHECK_ERROR(ZL_ERROR_DTYPE, apply(&rows[i], z, z));
            CHECK_HAS(test_last_error(), rows[i].function);
        }
        if (!takes(&rows[i], ZL_FLOAT32))
            CHECK_ERROR(ZL_ERROR_DTYPE, apply(&rows[i], f, f));
    }
}

TEST(elementwise_output_dtypes) {
    zl_array i8 = zl_ones(ZL_SHAPE(2), ZL_INT8), c = zl_ones(ZL_SHAPE(2), ZL_COMPLEX64);
    CHECK_EQ_INT(zl_dtype_of(zl_exp(i8)), ZL_FLOAT32);
    CHECK_EQ_INT(zl_dtype_of(zl_divide(i8, i8)), ZL_FLOAT32);
    CHECK_EQ_INT(zl_dtype_of(zl_add(i8, i8)), ZL_INT8);
    CHECK_EQ_INT(zl_dtype_of(zl_less(i8, i8)), ZL_BOOL);
    CHECK_EQ_INT(zl_dtype_of(zl_abs(c)), ZL_FLOAT32);
    CHECK_EQ_INT(zl_dtype_of(zl_real(c)), ZL_FLOAT32);
    CHECK_EQ_INT(zl_dtype_of(zl_floor(i8)), ZL_INT8);
    zl_array truth = zl_ones(ZL_SHAPE(2), ZL_BOOL);
    CHECK_EQ_INT(zl_dtype_of(zl_right_shift(truth, truth)), ZL_UINT8);
    CHECK_EQ_F64(zl_item(zl_sum(zl_left_shift(truth, truth))), 4);
}

// Layouts: the same results for any strides
// ------------------------------------------------------------------

static zl_array strange(zl_array dense, int how) { // returns the elements of `dense` in another layout
    zl_shape shape = zl_shape_of(dense);
    switch (how) {
    case 1: return zl_transpose(zl_contiguous(zl_transpose(dense, ZL_ALL), false), ZL_ALL);
    case 2: return zl_flip(zl_contiguous(zl_flip(dense, ZL_ALL), false), ZL_ALL);
    case 3: {
        zl_array twice = zl_repeat(dense, 2, shape.ndim - 1);
        int64_t zero[10] = {0}, step[10], stop[10];
        for (int i = 0; i < shape.ndim; i++) {
            step[i] = i == shape.ndim - 1 ? 2 : 1;
            stop[i] = zl_dim(twice, i);
        }
        return zl_slice(twice, (zl_shape){zero, shape.ndim}, (zl_shape){stop, shape.ndim},
                        (zl_shape){step, shape.ndim});
    }
    default: return dense;
    }
}

static bool same_bits(zl_array a, zl_array b) {
    a = zl_contiguous(a, false), b = zl_contiguous(b, false);
    return zl_eval_all(2, (zl_array[]){a, b}) && zl_size(a) == zl_size(b) &&
           !memcmp(zl_data(a), zl_data(b), zl_nbytes(a));
}

static void compare_layouts(zl_array x, zl_array y) {
    zl_array want = zl_contiguous(zl_add(zl_multiply(x, y), x), false), truth = zl_less(x, y),
             chosen = zl_where(truth, x, y);
    CHECK(zl_eval_all(5, (zl_array[]){x, y, want, truth, chosen}));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            zl_array a = strange(x, i), b = strange(y, k);
            CHECK(zl_eval_all(2, (zl_array[]){a, b}));
            CHECK(same_bits(want, zl_add(zl_multiply(a, b), a)));
            CHECK(same_bits(chosen, zl_where(zl_less(a, b), a, b)));
        }
}

TEST(elementwise_layouts_give_the_same_bits) {
    const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT16, ZL_BFLOAT16,
                               ZL_INT8,    ZL_UINT16,  ZL_INT64,   ZL_COMPLEX64};
    const int64_t shapes[][3] = {{3, 5, 7}, {1, 1, 1}, {2, 1, 33}, {17, 4, 1}, {1, 64, 65}, {0, 3, 2}};
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            if (test_samples(5))
                ZL_SCOPE {
                    zl_shape shape = {shapes[s], 3};
                    int64_t n = shapes[s][0] * shapes[s][1] * shapes[s][2];
                    zl_array x = zl_astype(
                        zl_reshape(zl_remainder(zl_arange(0, (double)n, 1, ZL_FLOAT32), zl_scalar(11)),
                                   shape),
                        dtypes[d]);
                    zl_array y = zl_astype(
                        zl_reshape(zl_remainder(zl_arange(0, (double)n, 1, ZL_FLOAT32), zl_scalar(7)), shape),
                        dtypes[d]);
                    compare_layouts(x, y);
                }
}

TEST(elementwise_broadcasts) {
    for (int round = 0; round < (test_quick() ? 20 : 200); round++)
        ZL_SCOPE {
            int64_t full[5], a_dim[5], b_dim[5];
            int rank = (int)test_between(0, 5), skip = (int)test_between(0, rank);
            for (int i = 0; i < rank; i++) {
                full[i] = test_between(1, 6);
                a_dim[i] = test_between(0, 2) ? full[i] : 1;
                b_dim[i] = test_between(0, 2) ? full[i] : 1;
                full[i] = a_dim[i] == 1 && (i < skip || b_dim[i] == 1) ? 1 : full[i];
            }
            int64_t n = 1, m = 1;
            for (int i = 0; i < rank; i++)
                n *= a_dim[i];
            for (int i = skip; i < rank; i++)
                m *= b_dim[i];
            zl_array a = zl_reshape(zl_arange(0, (double)n, 1, ZL_FLOAT32), (zl_shape){a_dim, rank});
            zl_array b =
                zl_reshape(zl_arange(0, (double)m, 1, ZL_FLOAT32), (zl_shape){b_dim + skip, rank - skip});
            zl_array y = zl_subtract(a, b);
            zl_array copy_a = zl_contiguous(zl_broadcast_to(a, zl_shape_of(y)), false);
            zl_array copy_b = zl_contiguous(zl_broadcast_to(b, zl_shape_of(y)), false);
            CHECK(zl_eval_all(3, (zl_array[]){y, copy_a, copy_b}));
            for (int64_t i = 0; i < zl_size(y); i++)
                if (!CHECK_EQ_F64(zl_data_f32(y)[i], zl_data_f32(copy_a)[i] - zl_data_f32(copy_b)[i]))
                    break;
        }
}

TEST(elementwise_of_rank_ten_and_of_no_elements) {
    int64_t dim[10] = {1, 2, 1, 2, 3, 1, 2, 1, 2, 2};
    zl_array x = zl_reshape(zl_arange(0, 96, 1, ZL_FLOAT32), (zl_shape){dim, 10});
    zl_array y = zl_add(zl_transpose(x, ZL_ALL), zl_scalar(1));
    CHECK_EQ_F64(zl_item(zl_sum(y)), 95 * 96 / 2 + 96);
    zl_array none = zl_zeros(ZL_SHAPE(0, 4), ZL_FLOAT32);
    CHECK(zl_eval(zl_exp(none)));
    CHECK_EQ_INT(zl_size(zl_add(none, zl_ones(ZL_SHAPE(4), ZL_FLOAT32))), 0);
    CHECK_EQ_F64(zl_item(zl_sum(none)), 0);
}

// Integers and special numbers ------------------------------------------------------------------------------

static int64_t of_ints(zl_array (*op)(zl_array, zl_array), zl_dtype d, int64_t a, int64_t b) {
    zl_array x = zl_astype(zl_reshape(zl_from_i64(&a, ZL_SHAPE(1)), ZL_SCALAR), d);
    zl_array y = zl_astype(zl_reshape(zl_from_i64(&b, ZL_SHAPE(1)), ZL_SCALAR), d);
    return zl_item_int(op(x, y));
}

TEST(integers_are_defined_where_c_is_not) {
    CHECK_EQ_INT(of_ints(zl_floor_divide, ZL_INT32, 7, 0), 0);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_INT32, 7, 0), 7);
    CHECK_EQ_INT(of_ints(zl_floor_divide, ZL_INT32, INT32_MIN, -1), INT32_MIN);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_INT32, INT32_MIN, -1), 0);
    CHECK_EQ_INT(of_ints(zl_floor_divide, ZL_INT64, -7, 2), -4);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_INT64, -7, 2), 1);
    CHECK_EQ_INT(of_ints(zl_floor_divide, ZL_INT64, INT64_MIN, -1), INT64_MIN);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_INT64, INT64_MIN, -1), 0);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_INT8, -128, -1), 0);
    CHECK_EQ_INT(of_ints(zl_remainder, ZL_UINT64, -1, 0), -1);
    CHECK_EQ_INT(of_ints(zl_add, ZL_INT8, 127, 1), -128);
    CHECK_EQ_INT(of_ints(zl_multiply, ZL_UINT16, 65535, 65535), 1);
    CHECK_EQ_INT(of_ints(zl_left_shift, ZL_INT32, 1, 32), 0);
    CHECK_EQ_INT(of_ints(zl_left_shift, ZL_INT32, 1, -1), 0);
    CHECK_EQ_INT(of_ints(zl_right_shift, ZL_INT32, -8, 99), -1);
    CHECK_EQ_INT(of_ints(zl_right_shift, ZL_UINT8, 200, 8), 0);
    CHECK_EQ_INT(of_ints(zl_power, ZL_INT32, 3, 13), 1594323);
    CHECK_EQ_INT(of_ints(zl_power, ZL_INT32, -1, -3), 0);
    CHECK_EQ_INT(of_ints(zl_power, ZL_INT32, 2, -1), 0);
    CHECK_EQ_INT(zl_item_int(zl_abs(zl_astype(zl_scalar_int(INT32_MIN), ZL_INT32))), INT32_MIN);
}

// The derivative of a remainder by the divisor is -quotient, exactly the quotient that belongs to it, even if
// a / b is rounded to the next integer or has more digits than a float.
TEST(gradient_of_remainder_has_its_quotient) {
    zl_array x[] = {zl_from_f32((float[]){1, 1e9f, -1e9f, -1, 7, -3e38f}, ZL_SHAPE(6)),
                    zl_from_f32((float[]){0.1f, 7, 7, INFINITY, -2, 2e38f}, ZL_SHAPE(6))};
    static const float want[] = {-9, -142857136, 142857136, 1, 4, 2};
    zl_array g[2], both[2];
    REQUIRE(zl_grad(zl_sum(zl_remainder(x[0], x[1])), 2, x, g) && zl_divmod(x[0], x[1], both));
    zl_array slope = zl_negative(both[0]);
    g[0] = zl_contiguous(g[0], false);
    REQUIRE(zl_eval_all(3, (zl_array[]){g[0], g[1], slope}));
    for (int i = 0; i < 6; i++) {
        CHECK_EQ_F64(zl_data_f32(g[0])[i], 1);
        CHECK_EQ_F64(zl_data_f32(g[1])[i], want[i]);
        CHECK_EQ_F64(zl_data_f32(slope)[i], want[i]);
    }
    zl_array a = zl_astype(zl_scalar(1e18), ZL_FLOAT64), b = zl_astype(zl_scalar(7), ZL_FLOAT64), slope64;
    REQUIRE(zl_grad(zl_remainder(a, b), 1, &b, &slope64));
    CHECK_EQ_F64(zl_item(slope64), -142857142857142857.0);
    CHECK_EQ_F64(zl_item(zl_remainder(a, b)), 1);
}

TEST(special_numbers_follow_ieee) {
    const float values[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -3.5f, 3.4e38f};
    zl_array x = zl_from_f32(values, ZL_SHAPE(8, 1)), y = zl_from_f32(values, ZL_SHAPE(1, 8));
    zl_array most = zl_maximum(x, y), least = zl_minimum(x, y), less = zl_less(x, y), sum = zl_add(x, y);
    CHECK(zl_eval_all(4, (zl_array[]){most, least, less, sum}));
    for (int i = 0; i < 64; i++) {
        float a = values[i / 8], b = values[i % 8];
        CHECK_EQ_F64(zl_data_f32(most)[i], (double)larger(a, b));
        CHECK_EQ_F64(zl_data_f32(least)[i], (double)smaller(a, b));
        CHECK_EQ_INT(zl_data_bool(less)[i], a < b);
        CHECK_EQ_F64(zl_data_f32(sum)[i], a + b);
    }
    CHECK_SAME_F64(zl_item(zl_maximum(zl_scalar(-0.0), zl_astype(zl_scalar(0.0), ZL_FLOAT32))), 0.0);
    CHECK_SAME_F64(zl_item(zl_negative(zl_astype(zl_scalar(0.0), ZL_FLOAT32))), -0.0);
    CHECK_SAME_F64(zl_item(zl_rint(zl_astype(zl_scalar(-0.4), ZL_FLOAT32))), -0.0);
}

TEST(complex_arithmetic) {
    float complex a = 1 + 2 * I, b = -3 + 0.5f * I;
    zl_array x = zl_from(&a, ZL_SCALAR, ZL_COMPLEX64), y = zl_from(&b, ZL_SCALAR, ZL_COMPLEX64);
    struct {
        zl_array got;
        double complex want;
    } cases[] = {
        {zl_add(x, y), (double complex)a + b},       {zl_multiply(x, y), (double complex)a * b},
        {zl_divide(x, y), (double complex)a / b},    {zl_exp(x), cexp(a)},
        {zl_log(x), clog(a)},                        {zl_sqrt(y), csqrt(b)},
        {zl_sin(x), csin(a)},                        {zl_tanh(y), ctanh(b)},
        {zl_power(x, y), cpow(a, b)},                {zl_conjugate(x), conj(a)},
        {zl_abs(x), cabs(a)},                        {zl_imag(x), cimag(a)},
        {zl_arcsin(x), casin(a)},                    {zl_square(y), (double complex)b * b},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        zl_array z = zl_astype(cases[i].got, ZL_COMPLEX64);
        const float *got = zl_data(z);
        REQUIRE(got);
        if (!CHECK_NEAR(cabs(got[0] + got[1] * I - cases[i].want) / cabs(cases[i].want), 0, 3e-6))
            test_note("case %zu: %g + %gi, not %g + %gi", i, got[0], got[1], creal(cases[i].want),
                      cimag(cases[i].want));
    }
}

// Division by a power of two is a multiplication; a plan with such a division must not be reused for other
// numbers.
TEST(division_by_a_number_is_division_by_an_array_of_it) {
    const double divisors[] = {2, 3, -0.25, 0x1p14, 0x1p15, 0x1p-14, 0.1, 1, 0};
    const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    double value[64] = {0,        -0.0,     INFINITY,  -INFINITY, NAN,
                        0x1p-126, 0x1p-149, 0x1.8p-14, 65504,     0x1.fffffep127};
    for (int i = 10; i < 64; i++)
        value[i] = ldexp(test_uniform(-1, 1), test_between(-150, 120));
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t i = 0; i < COUNT(divisors); i++)
            ZL_SCOPE {
                zl_array x = zl_astype(zl_from_f64(value, ZL_SHAPE(64)), dtypes[d]);
                zl_array want = zl_divide(x, zl_full(ZL_SHAPE(64), zl_scalar(divisors[i]), dtypes[d]));
                zl_array alone = zl_divide(x, zl_scalar(divisors[i]));
                zl_array fused = zl_negative(zl_divide(zl_negative(x), zl_scalar(divisors[i])));
                if (!CHECK(zl_item_int(zl_logical_and(zl_array_equal(alone, want, true),
                                                      zl_array_equal(fused, want, true)))))
                    test_note("%s divided by %g", zl_dtype_name(dtypes[d]), divisors[i]);
            }
}

// Gradients -------------------------------------------------------------------------------------------------

static zl_array weighted(const struct row *r, zl_array a, zl_array b) {
    zl_array weight = zl_from_f64((double[]){1, -2, 0.5, 3, -1}, ZL_SHAPE(5));
    return zl_sum(zl_multiply(apply(r, a, b), weight));
}

static double moved(const struct row *r, const double *a, const double *b, int input, int at, double by) {
    double copy[2][5];
    memcpy(copy[0], a, sizeof copy[0]);
    memcpy(copy[1], b, sizeof copy[1]);
    copy[input][at] += by;
    return zl_item(weighted(r, zl_from_f64(copy[0], ZL_SHAPE(5)), zl_from_f64(copy[1], ZL_SHAPE(5))));
}

static void compare_gradient(const struct row *r) {
    double value[2][5];
    for (int i = 0; i < 10; i++)
        value[i / 5][i % 5] = test_uniform(r->lo, r->hi);
    zl_array in[2] = {zl_from_f64(value[0], ZL_SHAPE(5)), zl_from_f64(value[1], ZL_SHAPE(5))}, grad[2];
    if (!CHECK(zl_grad(weighted(r, in[0], in[1]), r->inputs, in, grad)))
        return;
    for (int k = 0; k < r->inputs; k++)
        for (int i = 0; i < 5; i++) {
            const double h = 1e-6;
            double slope =
                (moved(r, value[0], value[1], k, i, h) - moved(r, value[0], value[1], k, i, -h)) / (2 * h);
            if (!CHECK_NEAR(zl_data_f64(grad[k])[i], slope, 1e-6 * (1 + fabs(slope))))
                test_note("%s, input %d, at %g and %g", r->function, k, value[0][i], value[1][i]);
        }
}

TEST(gradients_against_finite_differences) {
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!(rows[i].rule & (TRUTH | BITS)) && test_samples(4))
            ZL_SCOPE compare_gradient(&rows[i]);
}

// Compares the derivative with respect to x, operand `at`, where the other operand is a number, with that
// where it is an array.
static void compare_beside_number(const struct row *r, int at) {
    double value[5];
    for (int i = 0; i < 5; i++)
        value[i] = test_uniform(r->lo, r->hi);
    zl_array x = zl_from_f64(value, ZL_SHAPE(5)), number = zl_scalar(test_uniform(r->lo, r->hi)), grad[2];
    for (int whole = 0; whole < 2; whole++) {
        zl_array other = whole ? zl_full(ZL_SHAPE(5), number, ZL_FLOAT64) : number;
        if (!CHECK(zl_grad(at ? weighted(r, x, other) : weighted(r, other, x), 1, &x, &grad[whole])))
            return;
    }
    if (!CHECK(zl_item_int(zl_array_equal(grad[0], grad[1], true))))
        test_note("%s with a number as operand %d", r->function, at);
}

TEST(gradients_in_float64_beside_a_number) {
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int at = 0; at < 2; at++)
            if (rows[i].inputs == 2 && !(rows[i].rule & (TRUTH | BITS)))
                ZL_SCOPE compare_beside_number(&rows[i], at);
}

TEST(gradients_of_broadcast_operands_are_sums) {
    zl_array x = zl_ones(ZL_SHAPE(3, 4), ZL_FLOAT32), row = zl_ones(ZL_SHAPE(4), ZL_FLOAT32), grads[2];
    zl_array column = zl_ones(ZL_SHAPE(3, 1), ZL_FLOAT32);
    CHECK(zl_grad(zl_sum(zl_multiply(zl_add(x, row), column)), 2, (zl_array[]){row, column}, grads));
    CHECK_EQ_INT(zl_ndim(grads[0]), 1);
    CHECK_EQ_F64(zl_data_f32(grads[0])[0], 3);
    CHECK_EQ_INT(zl_dim(grads[1], 1), 1);
    CHECK_EQ_F64(zl_data_f32(grads[1])[0], 8);
}

// Numbers are converted if no array next to them has a dtype; results of converted numbers still depend on
// them.
TEST(gradients_by_numbers) {
    zl_array w = zl_scalar(3), x = zl_full(ZL_SHAPE(4), zl_scalar(2), ZL_FLOAT16);
    const struct {
        zl_array loss;
        double grad;
    } cases[] = {
        {zl_square(w), 6},
        {zl_multiply(w, w), 6},
        {zl_multiply(zl_multiply(w, w), w), 27},
        {zl_multiply(zl_scalar(5), w), 5},
        {zl_where(zl_scalar_bool(true), w, zl_scalar(1)), 1},
        {zl_astype(w, ZL_FLOAT16), 1},
        {zl_square(zl_astype(w, ZL_FLOAT64)), 6},
        {zl_sum(zl_full(ZL_SHAPE(5), w, ZL_FLOAT32)), 5},
        {zl_sum(zl_full_like(x, w, ZL_DTYPE_COUNT)), 4},
        {zl_sum(zl_pad(x, ZL_SHAPE(1), ZL_SHAPE(2), w)), 3},
        {zl_sum(zl_multiply(x, w)), 8},
        {zl_sum(zl_multiply(zl_square(w), x)), 48},
        {zl_multiply(zl_stop_gradient(zl_square(w)), w), 9},
        {zl_real(zl_multiply(w, zl_scalar_complex(2, 1))), 2},
        {w, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        zl_array g = NULL;
        if (!CHECK(zl_grad(cases[i].loss, 1, &w, &g)))
            continue;
        CHECK_EQ_INT(zl_dtype_of(g), ZL_FLOAT32);
        CHECK_EQ_INT(zl_ndim(g), 0);
        CHECK_EQ_F64(zl_item(g), cases[i].grad);
    }
    zl_array c = zl_scalar_complex(2, 1), g;
    CHECK(zl_grad(zl_real(zl_multiply(c, c)), 1, &c, &g));
    CHECK_EQ_INT(zl_dtype_of(g), ZL_COMPLEX64);
    CHECK_EQ_F64(zl_item(zl_real(g)), 4);
}

// Each number is a separate variable, even if they are equal.
TEST(gradients_by_equal_numbers) {
    zl_array w[] = {zl_scalar(3), zl_scalar(3)}, g[2];
    REQUIRE(zl_grad(zl_multiply(zl_square(w[0]), w[1]), 2, w, g));
    CHECK_EQ_F64(zl_item(g[0]), 18);
    CHECK_EQ_F64(zl_item(g[1]), 9);
}

TEST(gradients_of_an_array_by_itself) {
    zl_array x = zl_from_f32((float[]){3}, ZL_SHAPE(1)), g;
    REQUIRE(zl_grad(x, 1, &x, &g));
    CHECK_EQ_F64(zl_item(g), 1);
    CHECK_EQ_INT(zl_ndim(g), 1);
}

TEST(gradients_that_cannot_be_say_why) {
    zl_array x = zl_ones(ZL_SHAPE(2), ZL_FLOAT32), g, loss = zl_sum(x),
             whole = zl_ones(ZL_SHAPE(2), ZL_INT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_grad(zl_exp(x), 1, &x, &g));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_grad(loss, 1, &whole, &g));
    CHECK(zl_eval(loss));
    CHECK_ERROR(ZL_ERROR_STATE, zl_grad(loss, 1, &x, &g));
    CHECK_HAS(test_last_error(), "before evaluating");
    zl_array w = zl_scalar(3), typed = zl_astype(w, ZL_FLOAT32);
    CHECK(zl_eval(typed));
    CHECK_ERROR(ZL_ERROR_STATE, zl_grad(typed, 1, &w, &g));
}
