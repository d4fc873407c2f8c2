// test_fuzz_values.c - ops on numbers of very different magnitudes, compared with arithmetic of the host.
//
// Covers the elementwise ops whose result is exact or rounded once: arithmetic, division with remainder,
// roots, rounding, comparisons, bits and shifts, of every real dtype; and isclose of every pair of integer
// dtypes. Operands are pairs of the dtype's extremes, subnormal numbers, random bits, powers of two of any
// size, and numbers next to multiples of each other. The reference does not use the library's formulas: fmod
// of libm, double for narrower floats, 128 bits for integers. Both operands are arrays, or one is a single
// number; the op is alone or fused with another one; on the CPU and on every device that runs kernels.

#include <math.h>
#include <string.h>

#include "device/on_devices.h"

enum { COUNT_OF_PAIRS = 1000 };

// Floats ----------------------------------------------------------------------------------------------------

// Rounds to f32, once, unless d is f64; arithmetic of f16 and bf16 is that of f32, rounded at the end.
static double rounded(zl_dtype d, double x) {
    float narrow = (float)x;
    return d == ZL_FLOAT64 ? x : narrow;
}

static double sum(zl_dtype d, double a, double b) {
    return rounded(d, a + b);
}
static double difference(zl_dtype d, double a, double b) {
    return rounded(d, a - b);
}
static double product(zl_dtype d, double a, double b) {
    return rounded(d, a * b);
}
static double ratio(zl_dtype d, double a, double b) {
    return rounded(d, a / b);
}
static double floored(zl_dtype d, double a, double b) {
    return floor(rounded(d, a / b));
}

// Computes the remainder by the definition of numpy.remainder and numpy.divmod.
static double remains(zl_dtype d, double a, double b) {
    double r = fmod(a, b);
    if (b == 0 || isnan(r))
        return NAN;
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? rounded(d, r + b) : r;
}

static double quotient(zl_dtype d, double a, double b) {
    double r = fmod(a, b), q = rounded(d, rounded(d, a - r) / b);
    if (b == 0)
        return a / b;
    if (r != 0 && (r < 0) != (b < 0))
        q = rounded(d, q - 1);
    if (q == 0)
        return copysign(0, a / b);
    return q - floor(q) > 0.5 ? floor(q) + 1 : floor(q);
}

static double least(zl_dtype d, double a, double b) {
    (void)d;
    if (isnan(a) || isnan(b))
        return NAN;
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double most(zl_dtype d, double a, double b) {
    return -least(d, -a, -b);
}

static double equal(zl_dtype d, double a, double b) {
    return (void)d, a == b;
}
static double other(zl_dtype d, double a, double b) {
    return (void)d, a != b;
}
static double less(zl_dtype d, double a, double b) {
    return (void)d, a < b;
}
static double less_equal(zl_dtype d, double a, double b) {
    return (void)d, a <= b;
}
static double greater(zl_dtype d, double a, double b) {
    return (void)d, a > b;
}
static double greater_equal(zl_dtype d, double a, double b) {
    return (void)d, a >= b;
}

static double negated(zl_dtype d, double a, double b) {
    return (void)d, (void)b, -a;
}
static double size_of(zl_dtype d, double a, double b) {
    return (void)d, (void)b, fabs(a);
}
static double square(zl_dtype d, double a, double b) {
    return (void)b, rounded(d, a * a);
}
static double root(zl_dtype d, double a, double b) {
    return (void)b, rounded(d, sqrt(a));
}
static double inverse(zl_dtype d, double a, double b) {
    return (void)b, rounded(d, 1 / a);
}
static double below(zl_dtype d, double a, double b) {
    return (void)d, (void)b, floor(a);
}
static double above(zl_dtype d, double a, double b) {
    return (void)d, (void)b, ceil(a);
}
static double nearest(zl_dtype d, double a, double b) {
    return (void)d, (void)b, rint(a);
}
static double truncated(zl_dtype d, double a, double b) {
    return (void)d, (void)b, trunc(a);
}
static double sign(zl_dtype d, double a, double b) {
    return (void)d, (void)b, isnan(a) ? a : (a > 0) - (a < 0);
}

// Integers --------------------------------------------------------------------------------------------------

__extension__ typedef __int128 wide;

// Return an op's result before it wraps around; only shifts use the width. Unary ops ignore b.
static wide whole_sum(wide a, wide b, int bits) {
    return (void)bits, a + b;
}
static wide whole_difference(wide a, wide b, int bits) {
    return (void)bits, a - b;
}
static wide whole_product(wide a, wide b, int bits) { // for 64 bits only the low half, which is all that
                                                      // counts
    return (void)bits, (wide)((uint64_t)a * (uint64_t)b);
}
static wide whole_quotient(wide a, wide b, int bits) {
    (void)bits;
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static wide whole_remains(wide a, wide b, int bits) {
    wide rest = b == 0 ? a : a % b;
    return (void)bits, b != 0 && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static wide whole_least(wide a, wide b, int bits) {
    return (void)bits, a < b ? a : b;
}
static wide whole_most(wide a, wide b, int bits) {
    return (void)bits, a > b ? a : b;
}
static wide whole_equal(wide a, wide b, int bits) {
    return (void)bits, a == b;
}
static wide whole_other(wide a, wide b, int bits) {
    return (void)bits, a != b;
}
static wide whole_less(wide a, wide b, int bits) {
    return (void)bits, a < b;
}
static wide whole_less_equal(wide a, wide b, int bits) {
    return (void)bits, a <= b;
}
static wide whole_greater(wide a, wide b, int bits) {
    return (void)bits, a > b;
}
static wide whole_greater_equal(wide a, wide b, int bits) {
    return (void)bits, a >= b;
}
static wide both(wide a, wide b, int bits) {
    return (void)bits, a & b;
}
static wide either(wide a, wide b, int bits) {
    return (void)bits, a | b;
}
static wide one_of(wide a, wide b, int bits) {
    return (void)bits, a ^ b;
}
static wide shifted_left(wide a, wide b, int bits) {
    return b < 0 || b >= bits ? 0 : (wide)((uint64_t)a << (int)b);
}
static wide shifted_right(wide a, wide b, int bits) {
    return a >> (b < 0 || b >= bits ? bits : (int)b);
}
static wide whole_negated(wide a, wide b, int bits) {
    return (void)b, (void)bits, -a;
}
static wide whole_size(wide a, wide b, int bits) {
    return (void)b, (void)bits, a < 0 ? -a : a;
}
static wide whole_square(wide a, wide b, int bits) {
    return (void)b, whole_product(a, a, bits);
}
static wide whole_sign(wide a, wide b, int bits) {
    return (void)b, (void)bits, (a > 0) - (a < 0);
}
static wide inverted(wide a, wide b, int bits) {
    return (void)b, (void)bits, ~a;
}
static wide same(wide a, wide b, int bits) {
    return (void)b, (void)bits, a;
}

// The ops that are compared, with their references: of floats, of integers ----------------------------------

static const struct reference {
    zl_array (*one)(zl_array);
    zl_array (*two)(zl_array, zl_array);
    const char *name;
    double (*real)(zl_dtype d, double a, double b);
    wide (*whole)(wide a, wide b, int bits);
} references[] = {
    {zl_negative, NULL, "negative", negated, whole_negated},
    {zl_abs, NULL, "abs", size_of, whole_size},
    {zl_sign, NULL, "sign", sign, whole_sign},
    {zl_square, NULL, "square", square, whole_square},
    {zl_sqrt, NULL, "sqrt", root, NULL},
    {zl_reciprocal, NULL, "reciprocal", inverse, NULL},
    {zl_floor, NULL, "floor", below, same},
    {zl_ceil, NULL, "ceil", above, same},
    {zl_rint, NULL, "rint", nearest, same},
    {zl_trunc, NULL, "trunc", truncated, same},
    {zl_bitwise_invert, NULL, "bitwise_invert", NULL, inverted},
    {NULL, zl_add, "add", sum, whole_sum},
    {NULL, zl_subtract, "subtract", difference, whole_difference},
    {NULL, zl_multiply, "multiply", product, whole_product},
    {NULL, zl_divide, "divide", ratio, NULL},
    {NULL, zl_floor_divide, "floor_divide", floored, whole_quotient},
    {NULL, zl_quotient, "quotient", quotient, NULL},
    {NULL, zl_remainder, "remainder", remains, whole_remains},
    {NULL, zl_maximum, "maximum", most, whole_most},
    {NULL, zl_minimum, "minimum", least, whole_least},
    {NULL, zl_equal, "equal", equal, whole_equal},
    {NULL, zl_not_equal, "not_equal", other, whole_other},
    {NULL, zl_less, "less", less, whole_less},
    {NULL, zl_less_equal, "less_equal", less_equal, whole_less_equal},
    {NULL, zl_greater, "greater", greater, whole_greater},
    {NULL, zl_greater_equal, "greater_equal", greater_equal, whole_greater_equal},
    {NULL, zl_bitwise_and, "bitwise_and", NULL, both},
    {NULL, zl_bitwise_or, "bitwise_or", NULL, either},
    {NULL, zl_bitwise_xor, "bitwise_xor", NULL, one_of},
    {NULL, zl_left_shift, "left_shift", NULL, shifted_left},
    {NULL, zl_right_shift, "right_shift", NULL, shifted_right},
};

// Numbers far apart -----------------------------------------------------------------------------------------

static double real_far_apart(zl_dtype d, double near_to) {
    static const double list[] = {0,          1,
                                  2,          3,
                                  7,          0.1,
                                  0.5,        1e9,
                                  1e18,       1e-40,
                                  1e-7,       INFINITY,
                                  NAN,        0x1p24,
                                  0x1p24 + 2, 0x1p53,
                                  65504,      3e38,
                                  1.7e308,    0x1p-24,
                                  0x1p-149,   3 * 0x1p-149,
                                  0x1p-126,   0x1p-1074,
                                  0x1p-1022,  0x1.fffffep127};
    int range = d == ZL_FLOAT64 ? 1074 : d == ZL_FLOAT16 ? 24 : 149;
    double x = 0;
    switch (test_between(0, 4)) {
    case 0: x = list[test_between(0, (int)COUNT(list) - 1)]; break;
    case 1: { // random bits
        uint64_t bits = test_random();
        dtype_convert(&x, ZL_FLOAT64, &bits, d, 1);
        break;
    }
    case 2: x = ldexp(test_uniform(1, 2), test_between(-range, range)); break;
    case 3: x = test_between(0, 100); break;
    default: x = near_to * test_between(-1000, 1000); // the product, and by d's rounding, its neighbours
    }
    return test_random() & 1 ? -x : x;
}

static int64_t whole_far_apart(int bits) {
    uint64_t one = (uint64_t)1 << test_between(0, bits - 1);
    switch (test_between(0, 4)) {
    case 0: return test_between(-2, 3);
    case 1: return (int64_t)one;
    case 2: return (int64_t)(one - 1);
    case 3: return -(int64_t)(one >> 1) - test_between(0, 1);
    default: return (int64_t)test_random();
    }
}

static int bits_of(zl_dtype d) {
    return 8 * (int)zl_dtype_size(d);
}

// Writes one pair of numbers in the dtype's format.
static void fill(zl_dtype d, char *a, char *b) {
    if (dtype_is_integer(d)) {
        int64_t x = whole_far_apart(bits_of(d)), y = test_between(0, 5) ? whole_far_apart(bits_of(d)) : x;
        dtype_convert(a, d, &x, ZL_INT64, 1);
        dtype_convert(b, d, &y, ZL_INT64, 1);
        return;
    }
    double y = real_far_apart(d, 1);
    dtype_convert(b, d, &y, ZL_FLOAT64, 1);
    dtype_convert(&y, ZL_FLOAT64, b, d, 1);
    double x = real_far_apart(d, y);
    dtype_convert(a, d, &x, ZL_FLOAT64, 1);
}

// Comparing -------------------------------------------------------------------------------------------------

static wide whole_at(zl_dtype d, const char *at) {
    int64_t x;
    dtype_convert(&x, ZL_INT64, at, d, 1);
    return d == ZL_UINT64 ? (wide)(uint64_t)x : (wide)x;
}

static double real_at(zl_dtype d, const char *at) {
    double x;
    dtype_convert(&x, ZL_FLOAT64, at, d, 1);
    return x;
}

// Writes the expected result of one pair in the format of the result's dtype.
static void expect(const struct reference *r, zl_dtype d, const char *a, const char *b, zl_dtype to,
                   char *out) {
    if (dtype_is_integer(d)) {
        int64_t y = (int64_t)r->whole(whole_at(d, a), whole_at(d, b), bits_of(d));
        dtype_convert(out, to, &y, ZL_INT64, 1);
    } else {
        double y = r->real(d, real_at(d, a), real_at(d, b));
        dtype_convert(out, to, &y, ZL_FLOAT64, 1);
    }
}

static bool is_same(zl_dtype d, const char *a, const char *b) {
    return !memcmp(a, b, zl_dtype_size(d)) ||
           (dtype_is_inexact(d) && isnan(real_at(d, a)) && isnan(real_at(d, b)));
}

struct pairs {
    zl_dtype dtype;
    int64_t a_step, b_step; // 0: a single number
    char a[COUNT_OF_PAIRS * 8], b[COUNT_OF_PAIRS * 8];
};

static void compare(const struct reference *r, const struct pairs *p, zl_array y) {
    zl_dtype to = zl_dtype_of(y);
    const char *got = zl_data(y);
    size_t item = zl_dtype_size(p->dtype), result = zl_dtype_size(to);
    for (int64_t i = 0; got && i < COUNT_OF_PAIRS; i++) {
        const char *a = p->a + i * p->a_step * (int64_t)item, *b = p->b + i * p->b_step * (int64_t)item;
        char want[8];
        expect(r, p->dtype, a, b, to, want);
        if (is_same(to, got + (size_t)i * result, want))
            continue;
        CHECK(!"value");
        test_note("%s of %s: (%.17g, %.17g) gave %.17g, not %.17g", r->name, zl_dtype_name(p->dtype),
                  real_at(p->dtype, a), real_at(p->dtype, b), real_at(to, got + (size_t)i * result),
                  real_at(to, want));
        return;
    }
    CHECK(got != NULL);
}

static zl_array apply(const struct reference *r, zl_array a, zl_array b) {
    return r->one ? r->one(a) : r->two(a, b);
}

// Checks the op alone, then with a product by one, which changes no bits but makes it part of a fused kernel.
static void check_op(const struct reference *r, const struct pairs *p) {
    if (!(dtype_is_integer(p->dtype) ? r->whole != NULL : r->real != NULL))
        return;
    zl_array a = zl_from(p->a, p->a_step ? ZL_SHAPE(COUNT_OF_PAIRS) : ZL_SCALAR, p->dtype);
    zl_array b = zl_from(p->b, p->b_step ? ZL_SHAPE(COUNT_OF_PAIRS) : ZL_SCALAR, p->dtype);
    zl_array y = apply(r, a, b);
    if (r->one && !p->a_step)
        return;
    compare(r, p, y);
    if (zl_dtype_of(y) == p->dtype)
        compare(r, p, zl_multiply(apply(r, zl_multiply(a, zl_scalar_int(1)), b), zl_scalar_int(1)));
}

// Checks division, and one of every `others` other ops, because a device compiles a kernel for each.
static void check_dtype(zl_dtype d, int others) {
    struct pairs p = {.dtype = d};
    size_t item = zl_dtype_size(d);
    int way = test_between(0, 2);
    for (int64_t i = 0; i < COUNT_OF_PAIRS; i++)
        fill(d, p.a + i * (int64_t)item, p.b + i * (int64_t)item);
    p.a_step = way != 1, p.b_step = way != 2;
    for (size_t i = 0; i < COUNT(references); i++) {
        bool divides = references[i].two == zl_remainder || references[i].two == zl_quotient;
        if (divides || test_between(1, others) == 1)
            ZL_SCOPE
                check_op(&references[i], &p);
    }
}

static const zl_dtype dtypes[] = {ZL_UINT8, ZL_UINT16, ZL_UINT32,  ZL_UINT64,   ZL_INT8,    ZL_INT16,
                                  ZL_INT32, ZL_INT64,  ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32, ZL_FLOAT64};

TEST(numbers_far_apart) {
    for (int round = 0; round < (test_quick() ? 1 : test_long() ? 300 : 6); round++)
        for (size_t i = 0; i < COUNT(dtypes); i++)
            check_dtype(dtypes[i], 1);
}

static void check_some_values(void) {
    for (size_t i = 0; i < COUNT(dtypes); i++)
        if (!test_quick() || dtypes[i] == ZL_FLOAT32)
            check_dtype(dtypes[i], test_quick() ? 30 : test_long() ? 1 : 15);
}

TEST(numbers_far_apart_on_devices) {
    on_devices(check_some_values);
}

// Returns whether two integers of any dtypes are close, by their values in float64.
static bool is_close(double a, double b, double rtol, double atol) {
    return fabs(a - b) <= atol + rtol * fabs(b);
}

static void check_close(zl_dtype d, zl_dtype e) {
    char a[COUNT_OF_PAIRS * 8], b[COUNT_OF_PAIRS * 8];
    double rtol = test_between(0, 1) * 1e-5, atol = test_between(0, 2) * 0.5;
    for (int64_t i = 0; i < COUNT_OF_PAIRS; i++) {
        int64_t x = whole_far_apart(64), y = test_between(0, 2)
                                                 ? whole_far_apart(64)
                                                 : (int64_t)((uint64_t)x + (uint64_t)test_between(-1, 1));
        dtype_convert(a + i * (int64_t)zl_dtype_size(d), d, &x, ZL_INT64, 1);
        dtype_convert(b + i * (int64_t)zl_dtype_size(e), e, &y, ZL_INT64, 1);
    }
    zl_array close = zl_isclose(zl_from(a, ZL_SHAPE(COUNT_OF_PAIRS), d),
                                zl_from(b, ZL_SHAPE(COUNT_OF_PAIRS), e), rtol, atol, false);
    const bool *got = zl_data(close);
    REQUIRE(got);
    for (int64_t i = 0; i < COUNT_OF_PAIRS; i++) {
        double x = real_at(d, a + i * (int64_t)zl_dtype_size(d)),
               y = real_at(e, b + i * (int64_t)zl_dtype_size(e));
        if (got[i] != is_close(x, y, rtol, atol)) {
            CHECK(!"close");
            test_note("isclose of %s and %s: (%.17g, %.17g) gave %d", zl_dtype_name(d), zl_dtype_name(e), x,
                      y, got[i]);
            return;
        }
    }
}

static void check_some_close(int every) {
    for (int d = ZL_BOOL; d <= ZL_INT64; d++)
        for (int e = ZL_BOOL; e <= ZL_INT64; e++)
            if (test_between(1, every) == 1)
                ZL_SCOPE
                    check_close((zl_dtype)d, (zl_dtype)e);
}

TEST(integers_far_apart_are_not_close) {
    check_some_close(1);
}

static void check_close_on_device(void) {
    check_close(ZL_INT32, ZL_INT32);
    check_some_close(test_quick() ? 40 : 12);
}

TEST(integers_far_apart_are_not_close_on_devices) {
    on_devices(check_close_on_device);
}
