// test_math_complex.c - mathematical functions of complex64 compared with C's complex double functions.
//
// Errors are relative to the modulus of the result. The sign of a zero decides on which side of a branch cut
// a number is, so zeros of both signs are among the parts. The worst case of each function is printed.

#include <complex.h>
#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "test.h"

// References that C does not have ---------------------------------------------------------------------------

// Makes a complex number; x + y * I would lose the sign of a zero.
static double complex join(double x, double y) {
    union {
        double part[2];
        double complex z;
    } both = {{x, y}};
    return both.z;
}

static double complex square_root_inverse(double complex z) {
    return 1 / csqrt(z);
}
static double complex log_2(double complex z) {
    return clog(z) * M_LOG2E;
}
static double complex log_10(double complex z) {
    return clog(z) * M_LOG10E;
}

static double complex log_1_plus(double complex z) {
    double x = creal(z), y = cimag(z);
    return join(cabs(z) < 0.5 ? log1p(x * (2 + x) + y * y) / 2 : creal(clog(1 + z)), atan2(y, 1 + x));
}

static const struct function {
    const char *name;
    zl_array (*apply)(zl_array);
    double complex (*reference)(double complex);
} functions[] = {
    {"exp", zl_exp, cexp},
    {"log", zl_log, clog},
    {"log2", zl_log2, log_2},
    {"log10", zl_log10, log_10},
    {"log1p", zl_log1p, log_1_plus},
    {"sqrt", zl_sqrt, csqrt},
    {"rsqrt", zl_rsqrt, square_root_inverse},
    {"sin", zl_sin, csin},
    {"cos", zl_cos, ccos},
    {"tan", zl_tan, ctan},
    {"sinh", zl_sinh, csinh},
    {"cosh", zl_cosh, ccosh},
    {"tanh", zl_tanh, ctanh},
    {"arcsin", zl_arcsin, casin},
    {"arccos", zl_arccos, cacos},
    {"arctan", zl_arctan, catan},
    {"arcsinh", zl_arcsinh, casinh},
    {"arccosh", zl_arccosh, cacosh},
    {"arctanh", zl_arctanh, catanh},
};

// Samples and errors ----------------------------------------------------------------------------------------

enum { CHUNK = 1 << 14 };

static const double bound = 1e-6;

static float some_part(void) {
    static const float odd[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.0f, 1e-20f, -1e-10f};
    if (test_between(0, 7) == 0)
        return odd[test_between(0, COUNT(odd) - 1)];
    return (float)ldexp(test_uniform(-1, 1), (int)test_between(-10, 5));
}

// Returns the error relative to the modulus; 0 if the result is NaN, or too large or too small for float32.
static double error_of(float complex got, double complex want) {
    double size = cabs(want);
    if (!(size < 1e37 && size > 1e-30))
        return 0;
    double error = cabs(got - want) / size;
    return isnan(error) ? INFINITY : error;
}

struct worst {
    double error;
    float complex a, b;
};

static void report(const char *name, bool pair, const struct worst *w) {
    if (CHECK(w->error <= bound) && test_quick())
        return;
    char second[80] = "";
    if (pair)
        snprintf(second, sizeof second, ", %a%+ai", crealf(w->b), cimagf(w->b));
    test_note("%s complex64 worst %.2g of its modulus at %a%+ai%s", name, w->error, crealf(w->a),
              cimagf(w->a), second);
}

static void fill(float complex *z) {
    for (int i = 0; i < CHUNK; i++)
        z[i] = (float complex)join(some_part(), some_part());
}

static void measure(const struct function *f, const float complex *z, struct worst *w) {
    const float complex *out = zl_data(f->apply(zl_from_foreign(z, ZL_SHAPE(CHUNK), ZL_COMPLEX64, NULL)));
    REQUIRE(out);
    for (int i = 0; i < CHUNK; i++) {
        double error = error_of(out[i], f->reference(z[i]));
        if (error > w->error)
            *w = (struct worst){error, z[i], 0};
    }
}

static int chunks(void) {
    return test_long() ? 600 : test_quick() ? 1 : 12;
}

TEST(math_of_complex64) {
    static float complex z[CHUNK];
    struct worst worst[COUNT(functions)] = {{0}};
    for (int chunk = 0; chunk < chunks(); chunk++) {
        fill(z);
        for (size_t k = 0; k < COUNT(functions); k++)
            ZL_SCOPE
                measure(&functions[k], z, &worst[k]);
    }
    for (size_t k = 0; k < COUNT(functions); k++)
        report(functions[k].name, false, &worst[k]);
}

// Functions of two numbers. Errors are relative to a scale; scale 0: not measured.
struct pair_function {
    const char *name;
    zl_array (*apply)(zl_array, zl_array);
    double complex (*reference)(double complex, double complex);
    double (*scale)(double complex, double complex);
};

static void measure_pairs(const struct pair_function *f, const float complex *a, const float complex *b,
                          struct worst *w) {
    zl_array x = zl_from_foreign(a, ZL_SHAPE(CHUNK), ZL_COMPLEX64, NULL);
    const float complex *out = zl_data(f->apply(x, zl_from_foreign(b, ZL_SHAPE(CHUNK), ZL_COMPLEX64, NULL)));
    REQUIRE(out);
    for (int i = 0; i < CHUNK; i++) {
        double scale = f->scale(a[i], b[i]);
        double error = scale > 0 ? error_of(out[i], f->reference(a[i], b[i])) / scale : 0;
        if (error > w->error)
            *w = (struct worst){error, a[i], b[i]};
    }
}

static void test_pairs(const struct pair_function *f) {
    static float complex a[CHUNK], b[CHUNK];
    struct worst worst = {0};
    for (int chunk = 0; chunk < chunks(); chunk++) {
        fill(a);
        fill(b);
        ZL_SCOPE
            measure_pairs(f, a, b, &worst);
    }
    report(f->name, true, &worst);
}

// The error of a power grows with its exponent times the logarithm of its base.
static double scale_of_power(double complex a, double complex b) {
    return a == 0 ? 0 : fmax(1, cabs(b * clog(a)));
}

TEST(math_of_complex64_powers) {
    test_pairs(&(struct pair_function){"power", zl_power, cpow, scale_of_power});
}

static bool is_later(double complex a, double complex b) {
    return creal(a) > creal(b) || (creal(a) == creal(b) && cimag(a) > cimag(b));
}

static double complex log_of_sum(double complex a, double complex b) {
    double complex max = is_later(a, b) ? a : b, min = is_later(a, b) ? b : a;
    return max + log_1_plus(cexp(min - max));
}

// Terms that cancel: the smaller their sum, the larger the error of the difference and of its logarithm.
static double scale_of_sum(double complex a, double complex b) {
    double complex max = is_later(a, b) ? a : b, min = is_later(a, b) ? b : a, y = log_of_sum(a, b);
    double rest = cabs(1 + cexp(min - max)), parts = fmax(cabs(a), cabs(b));
    return rest > 1e-3 ? fmax(1, parts / cabs(y)) * fmax(1, 1 / rest) : 0;
}

TEST(math_of_complex64_log_of_sum) {
    test_pairs(&(struct pair_function){"logaddexp", zl_logaddexp, log_of_sum, scale_of_sum});
}

TEST(ends_of_complex_log_of_sum) {
    const float none = -INFINITY, much = INFINITY;
    const float complex a[] = {join(none, 0), join(none, 0), join(much, 1), 1, join(NAN, 0), join(none, 0)};
    const float complex b[] = {join(1, 2),    join(none, 0), join(much, 2),
                               join(much, 0), join(much, 0), join(NAN, 1)};
    const float complex want[] = {join(1, 2),    join(none, 0),  join(much, 2),
                                  join(much, 0), join(NAN, NAN), join(NAN, NAN)};
    for (int turn = 0; turn < 2; turn++) {
        zl_array x = zl_from_foreign(turn ? b : a, ZL_SHAPE(6), ZL_COMPLEX64, NULL);
        const float complex *y =
            zl_data(zl_logaddexp(x, zl_from_foreign(turn ? a : b, ZL_SHAPE(6), ZL_COMPLEX64, NULL)));
        REQUIRE(y);
        for (int i = 0; i < 6; i++) {
            CHECK_EQ_F64(crealf(y[i]), crealf(want[i]));
            CHECK_EQ_F64(cimagf(y[i]), cimagf(want[i]));
        }
    }
}

TEST(functions_of_real_numbers_refuse_complex) {
    zl_array (*const refused[])(zl_array) = {zl_expm1, zl_sigmoid, zl_erf, zl_erfinv, zl_floor, zl_ceil};
    for (size_t i = 0; i < COUNT(refused); i++)
        CHECK_ERROR(ZL_ERROR_DTYPE, refused[i](zl_scalar_complex(1, 2)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_arctan2(zl_scalar_complex(1, 2), zl_scalar(1)));
}
