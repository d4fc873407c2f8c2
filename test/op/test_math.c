// test_math.c - the errors of mathematical functions, in ULPs.
//
// Tests every value of the 16-bit floats, and samples of float32 compared with double and of float64 compared
// with long double: random bit patterns, moderate numbers, neighbours of multiples of pi/2 and of one,
// special numbers. The error of the reference is less than 2 of its own ULPs: 2^-28 of ours for float32; for
// float64 2^-59 if long double has 113 bits (aarch64), and 2^-10 if it has 64 (x86). The worst case of each
// function is printed; doc/mathematics.md has those of a long run.

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"
#include "test.h"

// Formats ---------------------------------------------------------------------------------------------------

static const struct format {
    zl_dtype dtype;
    int digits; // of the significand, including the implicit one
    int least;  // exponent of the smallest subnormal
    int top;    // 2^top is the number after the largest one
} half = {ZL_FLOAT16, 11, -24, 16}, bfloat = {ZL_BFLOAT16, 8, -133, 128},
  single = {ZL_FLOAT32, 24, -149, 128}, wide = {ZL_FLOAT64, 53, -1074, 1024};

static double load(const struct format *f, const void *data, int64_t i) {
    switch (f->dtype) {
    case ZL_FLOAT16: return half_to_float(((const uint16_t *)data)[i]);
    case ZL_BFLOAT16: return bfloat_to_float(((const uint16_t *)data)[i]);
    case ZL_FLOAT32: return ((const float *)data)[i];
    default: return ((const double *)data)[i];
    }
}

static void store(const struct format *f, void *data, int64_t i, double x) {
    size_t size = zl_dtype_size(f->dtype);
    dtype_convert((char *)data + (size_t)i * size, f->dtype, &x, ZL_FLOAT64, 1);
}

static double from_bits(const struct format *f, uint64_t bits) {
    union {
        uint64_t u64;
        uint32_t u32;
        uint16_t u16;
    } pattern;
    if (f->dtype == ZL_FLOAT64)
        pattern.u64 = bits;
    else if (f->dtype == ZL_FLOAT32)
        pattern.u32 = (uint32_t)bits;
    else
        pattern.u16 = (uint16_t)bits;
    return load(f, &pattern, 0);
}

// References that libm does not have ------------------------------------------------------------------------

static double one_over(double x) {
    return 1 / x;
}
static long double one_overl(long double x) {
    return 1 / x;
}
static double one_over_root(double x) {
    return 1 / sqrt(x);
}
static long double one_over_rootl(long double x) {
    return 1 / sqrtl(x);
}
static double logistic(double x) {
    return 1 / (1 + exp(-x));
}
static long double logisticl(long double x) {
    return 1 / (1 + expl(-x));
}

static double log_of_sum(double a, double b) {
    if (a == b || isnan(a) || isnan(b))
        return a + (a == b ? M_LN2 : b);
    return fmax(a, b) + log1p(exp(-fabs(a - b)));
}
static long double log_of_suml(long double a, long double b) {
    if (a == b || isnan(a) || isnan(b))
        return a + (a == b ? 0.693147180559945309417232121458176568L : b);
    return fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
}

// Returns the scale for the error of log_of_sum: its larger part, since the sum of both may cancel.
static double parts_of_log_of_sum(double a, double b) {
    return a == b ? fmax(fabs(a), 0.7) : fmax(fabs(fmax(a, b)), log1p(exp(-fabs(a - b))));
}

static const long double two_over_root_pi = 1.128379167095512573896158903121545172L;

// Winitzki's approximation, then two steps of Halley's method: errors of 1e-2, 1e-7, 1e-21. Beyond 1/2 by
// erfc, which is exact near 1.
static double inverse_erf(double x) {
    double a = fabs(x), l = log1p(-a * a), t = 4.33 + l / 2,
           y = a < 0.1 ? a * 0.886 : sqrt(sqrt(t * t - l / 0.147) - t);
    if (!(a < 1))
        return a == 1 ? x / 0.0 : NAN;
    for (int i = 0; i < 2; i++) {
        double miss = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y),
               step = miss / ((double)two_over_root_pi * exp(-y * y));
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

static long double inverse_erfl(long double x) {
    long double y = inverse_erf((double)x), a = fabsl(x), b = fabsl(y);
    if (!(a < 1) || a == 0)
        return y;
    long double miss = a < 0.5L ? erfl(b) - a : (1 - a) - erfcl(b),
                step = miss / (two_over_root_pi * expl(-b * b));
    return copysignl(b - step / (1 + b * step), x);
}

// Functions -------------------------------------------------------------------------------------------------

static const struct unary {
    const char *name;
    zl_array (*apply)(zl_array);
    double (*reference)(double);
    long double (*longer)(long double);
    double bound; // in ULPs
} unary[] = {
#define FUNCTION(name, reference, bound) \
    { #name, zl_##name, reference, reference##l, bound }
    FUNCTION(sqrt, sqrt, 0.501),
    FUNCTION(reciprocal, one_over, 0.501),
    FUNCTION(rsqrt, one_over_root, 3),
    FUNCTION(exp, exp, 3),
    FUNCTION(expm1, expm1, 3),
    FUNCTION(log, log, 3),
    FUNCTION(log2, log2, 3),
    FUNCTION(log10, log10, 3),
    FUNCTION(log1p, log1p, 3),
    FUNCTION(sin, sin, 3),
    FUNCTION(cos, cos, 3),
    FUNCTION(tan, tan, 4),
    FUNCTION(arcsin, asin, 3),
    FUNCTION(arccos, acos, 3),
    FUNCTION(arctan, atan, 3),
    FUNCTION(sinh, sinh, 3),
    FUNCTION(cosh, cosh, 3),
    FUNCTION(tanh, tanh, 3),
    FUNCTION(arcsinh, asinh, 3),
    FUNCTION(arccosh, acosh, 3),
    FUNCTION(arctanh, atanh, 3),
    FUNCTION(erf, erf, 3),
    FUNCTION(erfinv, inverse_erf, 3),
    FUNCTION(sigmoid, logistic, 3),
#undef FUNCTION
};

static void any_pair(const struct format *f, int64_t i, double *a, double *b);
static void power_pair(const struct format *f, int64_t i, double *a, double *b);
static void sum_pair(const struct format *f, int64_t i, double *a, double *b);

static const struct binary {
    const char *name;
    zl_array (*apply)(zl_array, zl_array);
    double (*reference)(double, double);
    long double (*longer)(long double, long double);
    double bound;
    void (*sample)(const struct format *f, int64_t i, double *a, double *b);
    double (*scale)(double, double); // the error is relative to this if it is larger than the result
} binary[] = {
    {"power", zl_power, pow, powl, 4, power_pair, NULL},
    {"arctan2", zl_arctan2, atan2, atan2l, 3, any_pair, NULL},
    {"logaddexp", zl_logaddexp, log_of_sum, log_of_suml, 3, sum_pair, parts_of_log_of_sum},
};

// Samples ---------------------------------------------------------------------------------------------------

// Points at which functions change their formula, overflow or underflow.
static const double edges[] = {0.0,      1.0,      0.5,       2.0,       3.0,       9.0,       20.0,
                               0.1,      1e5,      1e10,      1e22,      0x1p40,    0x1p120,   0x1p1000,
                               0x1p-24,  0x1p-53,  0x1p-126,  0x1p-149,  0x1p-1022, 0x1p-1074, 88.72283,
                               88.72284, 89.4,     103.2789,  103.972,   709.7827,  710.4758,  744.44007,
                               745.1332, 1.414213, 0.7071067, 0x1.8p127, 0x1p1023};

// Neighbours of one, the largest numbers, pi and pi/2, and the numbers nearest to a multiple of pi/2, in
// float32 and in float64.
static const double precise[] = {0x1.fffffep-1,          0x1.000002p0,         0x1.fffffep127,
                                 0x1.fffffep-127,        0x1.fffffffffffffp-1, 0x1.0000000000001p0,
                                 0x1.fffffffffffffp1023, 0x1.921fb6p1,         0x1.921fb54442d18p1,
                                 0x1.921fb6p0,           0x1.921fb54442d18p0,  0x1.f37c8ap95,
                                 0x1.6ac5b262ca1ffp849};

enum { SPECIALS = 2 * (int)(COUNT(edges) + COUNT(precise)) + 3, CHUNK = 1 << 16 };

static double special(int64_t i) {
    if (i >= SPECIALS - 3)
        return i == SPECIALS - 1 ? NAN : i == SPECIALS - 2 ? INFINITY : -INFINITY;
    size_t at = (size_t)i / 2;
    double x = at < COUNT(edges) ? edges[at] : precise[at - COUNT(edges)];
    return i % 2 ? -x : x;
}

static double with_random_sign(double x) {
    return test_random() & 1 ? -x : x;
}

static double moderate(void) {
    return ldexp(test_uniform(1, 2), (int)test_between(-14, 9));
}

// Returns a multiple of pi/2 or a neighbour of it; small multiples are as frequent as large ones.
static double near_quarter_turn(const struct format *f) {
    const long double half_pi = 1.570796326794896619231321691639751442L;
    double x = (double)((long double)(test_random() >> test_between(24, 62)) * half_pi);
    double towards = test_between(0, 2) ? with_random_sign(INFINITY) : x;
    return f->dtype == ZL_FLOAT64 ? nextafter(x, towards) : nextafterf((float)x, (float)towards);
}

static double near_one(const struct format *f) {
    return 1 + with_random_sign(ldexp(test_uniform(0.5, 1), -(int)test_between(0, f->digits)));
}

static double sample(const struct format *f, int64_t i) {
    if (i < SPECIALS)
        return special(i);
    switch (i % 4) {
    case 0: return with_random_sign(moderate());
    case 1: return with_random_sign(near_quarter_turn(f));
    case 2: return with_random_sign(near_one(f));
    default: return from_bits(f, test_random());
    }
}

// Draws a pair of numbers; the first pairs are all pairs of special numbers.
static void any_pair(const struct format *f, int64_t i, double *a, double *b) {
    if (i < SPECIALS * SPECIALS) {
        *a = special(i / SPECIALS);
        *b = special(i % SPECIALS);
    } else if (i % 4 == 3) {
        *a = from_bits(f, test_random());
        *b = from_bits(f, test_random());
    } else {
        *a = with_random_sign(i % 2 ? near_one(f) : moderate());
        *b = with_random_sign(moderate());
    }
}

// Half of the pairs have an exponent, integral or not, for which the power does not overflow.
static void power_pair(const struct format *f, int64_t i, double *a, double *b) {
    any_pair(f, i, a, b);
    if (i < SPECIALS * SPECIALS || i % 4 < 2)
        return;
    *a = i % 4 == 2 ? near_one(f) : fabs(from_bits(f, test_random()));
    *b = test_uniform(f->least - 2, f->top + 2) / log2(*a);
    if (test_random() & 1) {
        *a = with_random_sign(*a);
        *b = rint(*b);
    }
}

// Half of the pairs are close together; half of those give a sum near 1, whose logarithm cancels.
static void sum_pair(const struct format *f, int64_t i, double *a, double *b) {
    any_pair(f, i, a, b);
    if (i < SPECIALS * SPECIALS || i % 4 < 2)
        return;
    if (i % 4 == 2) {
        *b = *a + test_uniform(-1, 1) * ldexp(1, (int)test_between(-20, 6));
    } else {
        *a = test_uniform(-5, 0);
        *b = log1p(-exp(*a));
    }
}

// Errors ----------------------------------------------------------------------------------------------------

// Returns the difference of got and want in ULPs at `scale`. An overflow counts as 2^top.
static double error_of(const struct format *f, double got, long double want, double scale) {
    long double limit = ldexpl(1, f->top), value = isinf(got) ? copysignl(limit, got) : (long double)got;
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    want = want > limit ? limit : want < -limit ? -limit : want;
    scale = fmin(fabs(scale), ldexp(1, f->top - 1));
    int exponent = scale > 0 ? ilogb(scale) + 1 - f->digits : f->least;
    return (double)(fabsl(value - want) * ldexpl(1, -MAX_OF(exponent, f->least)));
}

struct worst {
    double ulp, a, b, got;
    long double want;
    int64_t samples;
};

static void take(struct worst *w, double ulp, double a, double b, double got, long double want) {
    if (ulp > w->ulp)
        *w = (struct worst){ulp, a, b, got, want, w->samples};
}

// Returns whether the numbers are equal, including infinities and signs of zeros.
static bool is_exact(double got, long double want) {
    return got == (double)want && !signbit(got) == !signbit(want);
}

static double rounded(const struct format *f, double x) {
    return f->dtype == ZL_FLOAT32 ? (float)x : x;
}

// Computes the error against double. If a result is correctly rounded, as most are, that suffices.
static double error_of_one(const struct format *f, const struct unary *u, double x, double got,
                           long double *want) {
    double y = u->reference(x);
    *want = y;
    if (f->digits == single.digits && is_exact(got, (float)y))
        return 0;
    if (y == 0 || isinf(y))
        return is_exact(got, rounded(f, y)) ? 0 : INFINITY;
    return error_of(f, got, y, y);
}

// Computes the error against long double. If libm's double, whose error is below 2 ULPs, is equal, it does so
// only for one in 16 numbers unless the run is long.
static double error_of_wide(const struct unary *u, int64_t i, double x, double got, long double *want) {
    if (!test_long() && i % 16 && is_exact(got, u->reference(x)))
        return 0;
    long double y = *want = u->longer(x);
    if (is_exact(got, y))
        return 0;
    if (y == 0 || isinf(y))
        return INFINITY;
    return error_of(&wide, got, y, (double)y);
}

static double error_of_two(const struct format *f, const struct binary *g, int64_t i, double a, double b,
                           double got, long double *want) {
    double y = g->reference(a, b);
    *want = y;
    if (f == &wide && (test_long() || i % 16 == 0 || !is_exact(got, y)))
        y = (double)(*want = g->longer(a, b));
    if (is_exact(got, rounded(f, y)))
        return 0;
    if (isinf(*want) || (*want == 0 && !g->scale))
        return INFINITY;
    return error_of(f, got, *want, g->scale ? fmax(fabs(y), g->scale(a, b)) : y);
}

static void report(const struct format *f, const char *name, double bound, bool pair, const struct worst *w) {
    char at[80];
    snprintf(at, sizeof at, pair ? "(%a, %a)" : "%a", w->a, w->b);
    if (!CHECK(w->ulp <= bound))
        test_note("%s of %s gives %a, not %La", name, at, w->got, w->want);
    if (test_quick() && w->ulp <= bound)
        return;
    if (w->ulp == 0)
        test_note("%s %s correctly rounded, %lld", name, zl_dtype_name(f->dtype), (long long)w->samples);
    else
        test_note("%s %s worst %.3f ulp at %s, %lld", name, zl_dtype_name(f->dtype), w->ulp, at,
                  (long long)w->samples);
}

// Measuring -------------------------------------------------------------------------------------------------

static union {
    uint16_t u16[CHUNK];
    float f32[CHUNK];
    double f64[CHUNK];
} input[2];

static zl_array array_of(const struct format *f, int at, int64_t count) {
    return zl_from_foreign(&input[at], ZL_SHAPE(count), f->dtype, NULL);
}

static void measure_chunk(const struct format *f, const struct unary *u, int64_t start, int64_t count,
                          struct worst *w) {
    const void *out = zl_data(u->apply(array_of(f, 0, count)));
    REQUIRE(out);
    for (int64_t i = 0; i < count; i++) {
        double x = load(f, &input[0], i), got = load(f, out, i);
        long double want = 0;
        double ulp =
            f == &wide ? error_of_wide(u, start + i, x, got, &want) : error_of_one(f, u, x, got, &want);
        take(w, ulp, x, 0, got, want);
    }
    w->samples += count;
}

// Measures all functions on the same numbers.
static void measure_samples(const struct format *f, int64_t samples) {
    struct worst worst[COUNT(unary)] = {{0}};
    for (int64_t start = 0; start < samples; start += CHUNK) {
        int64_t count = MIN_OF(CHUNK, samples - start);
        for (int64_t i = 0; i < count; i++)
            store(f, &input[0], i, sample(f, start + i));
        for (size_t k = 0; k < COUNT(unary); k++)
            ZL_SCOPE
                measure_chunk(f, &unary[k], start, count, &worst[k]);
    }
    for (size_t k = 0; k < COUNT(unary); k++)
        report(f, unary[k].name, unary[k].bound, false, &worst[k]);
}

// Measures all values, or a sample of them. Rounding the float32 result once more adds half an ULP to a few
// thousandths of the results.
static void measure_all(const struct format *f) {
    int stride = test_quick() ? 61 : 1, first = (int)test_between(0, stride - 1), count = 0;
    for (int bits = first; bits < 65536; bits += stride)
        input[0].u16[count++] = (uint16_t)bits;
    for (size_t k = 0; k < COUNT(unary); k++) {
        struct worst w = {0};
        ZL_SCOPE
            measure_chunk(f, &unary[k], 0, count, &w);
        report(f, unary[k].name, 0.51, false, &w);
    }
}

static void measure_pair_chunk(const struct format *f, const struct binary *g, int64_t start, int64_t count,
                               struct worst *w) {
    for (int64_t i = 0; i < count; i++) {
        double a, b;
        g->sample(f, start + i, &a, &b);
        store(f, &input[0], i, a);
        store(f, &input[1], i, b);
    }
    const void *out = zl_data(g->apply(array_of(f, 0, count), array_of(f, 1, count)));
    REQUIRE(out);
    for (int64_t i = 0; i < count; i++) {
        double a = load(f, &input[0], i), b = load(f, &input[1], i), got = load(f, out, i);
        long double want = 0;
        double ulp = error_of_two(f, g, start + i, a, b, got, &want);
        take(w, ulp, a, b, got, want);
    }
    w->samples += count;
}

static void measure_pairs(const struct format *f, const struct binary *g, int64_t samples) {
    struct worst w = {0};
    for (int64_t start = 0; start < samples; start += CHUNK)
        ZL_SCOPE
            measure_pair_chunk(f, g, start, MIN_OF(CHUNK, samples - start), &w);
    report(f, g->name, f->digits < single.digits ? 0.51 : g->bound, true, &w);
}

// Tests -----------------------------------------------------------------------------------------------------

static int64_t samples_of(const struct format *f) {
    if (test_long())
        return f == &single ? 100000000 : 10000000;
    return test_quick() ? 10000 : 1000000;
}

TEST(math_of_all_float16) {
    measure_all(&half);
}
TEST(math_of_all_bfloat16) {
    measure_all(&bfloat);
}
TEST(math_of_float32_against_double) {
    measure_samples(&single, samples_of(&single));
}
TEST(math_of_float64_against_long_double) {
    measure_samples(&wide, samples_of(&wide));
}

TEST(math_of_pairs) {
    const struct format *formats[] = {&half, &bfloat, &single, &wide};
    for (size_t i = 0; i < COUNT(binary); i++)
        for (size_t k = 0; k < COUNT(formats); k++)
            measure_pairs(formats[k], &binary[i], samples_of(formats[k]));
}
