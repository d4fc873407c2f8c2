// test_fft.c - Fourier transforms compared with sums in double, with roots in long double, for every kind of
// length, layout and norm.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op_test.h"

typedef struct {
    double re, im;
} wide;

// Lines -----------------------------------------------------------------------------------------------------

static wide root(int64_t j, int64_t n) {
    long double angle = 2 * acosl(-1) * (long double)j / (long double)n;
    return (wide){(double)cosl(angle), (double)sinl(angle)};
}

// Returns element k of the transform of n numbers; sign: -1 forward, 1 inverse.
static wide sum_of(const wide *x, const wide *roots, int64_t n, int64_t k, int sign) {
    wide sum = {0, 0};
    for (int64_t j = 0, at = 0; j < n; j++, at = (at + k) % n) {
        double s = sign * roots[at].im;
        sum.re += x[j].re * roots[at].re - x[j].im * s;
        sum.im += x[j].re * s + x[j].im * roots[at].re;
    }
    return sum;
}

// Returns real and imaginary parts in turn, to be freed.
static float *parts_of(zl_array x) {
    zl_array y = zl_astype(x, ZL_COMPLEX64);
    float *out = calloc(2 * (size_t)(x ? x->size : 1), sizeof(float));
    CHECK(out && zl_copy_to(y, out, sizeof(float) * 2 * (size_t)x->size));
    return out;
}

static zl_array noise(int64_t rows, int64_t n, bool is_complex) {
    zl_array wave = zl_arange(0, (double)(rows * n), 1, ZL_FLOAT64);
    zl_array re = zl_sin(zl_multiply(zl_square(wave), zl_scalar(test_uniform(0.5, 2))));
    zl_array im = zl_cos(zl_multiply(zl_square(wave), zl_scalar(test_uniform(0.5, 2))));
    zl_array x = is_complex ? zl_add(zl_astype(re, ZL_FLOAT32),
                                     zl_multiply(zl_astype(im, ZL_FLOAT32), zl_scalar_complex(0, 1)))
                            : zl_astype(re, ZL_FLOAT32);
    x = zl_reshape(x, ZL_SHAPE(rows, n));
    return CHECK(zl_eval(x)) ? x : NULL;
}

// Compares `count` elements of each row of y with transforms of the rows of x; only some of them if there are
// many.
static void check_rows(zl_array x, zl_array y, int64_t rows, int64_t n, int64_t count, int sign) {
    float *from = parts_of(x), *got = parts_of(y);
    wide *line = malloc(sizeof(wide) * 2 * (size_t)n), *roots = line + n;
    double worst = 0, size = 0;
    for (int64_t j = 0; j < n; j++)
        roots[j] = root(j, n);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++)
            line[j] = (wide){from[2 * (r * n + j)], from[2 * (r * n + j) + 1]};
        for (int64_t k = 0; k<count; k += count> 600 ? 1 + count / 97 : 1) {
            wide want = sum_of(line, roots, n, k, sign);
            double re = want.re - got[2 * (r * count + k)], im = want.im - got[2 * (r * count + k) + 1];
            worst = fmax(worst, hypot(re, im));
            size = fmax(size, hypot(want.re, want.im));
        }
    }
    if (!CHECK(worst <= 6e-7 * (size + sqrt((double)n))))
        test_note("%d rows of %d: off by %.3g of %.3g", (int)rows, (int)n, worst, size);
    free(from);
    free(got);
    free(line);
}

static const int64_t lengths[] = {1,   2,   3,   4,   5,   6,    7,    8,    9,   10,  11,  12,
                                  13,  15,  16,  17,  20,  25,   27,   30,   31,  32,  36,  45,
                                  47,  60,  64,  81,  97,  100,  101,  125,  128, 210, 240, 243,
                                  289, 343, 360, 512, 625, 1000, 1009, 1024, 2310, 61, 67, 122, 1023};

TEST(fft_is_the_sum_that_defines_it) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        ZL_SCOPE {
            int64_t n = lengths[i], rows = i % 3 ? 1 : 3;
            zl_array z = noise(rows, n, true), x = noise(rows, n, false);
            check_rows(z, zl_fft_fft(z, (int)n, -1, "backward"), rows, n, n, -1);
            check_rows(z, zl_fft_ifft(z, (int)n, -1, "forward"), rows, n, n, 1);
            check_rows(x, zl_fft_rfft(x, (int)n, -1, NULL), rows, n, n / 2 + 1, -1);
            check_rows(x, zl_fft_fft(x, (int)n, -1, NULL), rows, n, n, -1);
            check_rows(x, zl_fft_ifft(x, (int)n, -1, "forward"), rows, n, n, 1);
        }
}

TEST(fft_of_long_lines) {
    static const int64_t many[] = {4096, 5000, 6561, 10007, 1 << 15, 1 << 16, 49152};
    for (size_t i = 0; i < (test_quick() ? 5 : sizeof many / sizeof *many); i++)
        ZL_SCOPE {
            zl_array z = noise(1, many[i], true), x = noise(1, many[i], false);
            check_rows(z, zl_fft_fft(z, (int)many[i], -1, "backward"), 1, many[i], many[i], -1);
            check_rows(x, zl_fft_rfft(x, (int)many[i], -1, "backward"), 1, many[i], many[i] / 2 + 1, -1);
            check_rows(x, zl_fft_ifft(x, (int)many[i], -1, "forward"), 1, many[i], many[i], 1);
        }
}

static bool are_close(zl_array a, zl_array b, double bound) {
    zl_array d = zl_max(zl_abs(zl_subtract(a, b)));
    return a && b && a->size == b->size && zl_eval(d) && zl_item(d) <= bound;
}

// Long transforms, which are divided and use strides: the same bits as for contiguous rows.
TEST(long_ffts_have_inverses) {
    zl_array z = noise(3, 1 << 15, true), x = noise(3, 1 << 16, false);
    zl_array y = zl_fft_fft(z, 1 << 15, -1, NULL), h = zl_fft_rfft(x, 1 << 16, -1, NULL);
    zl_array w = zl_fft_fft(zl_contiguous(zl_matrix_transpose(z), false), 1 << 15, 0, NULL);
    zl_array g = zl_fft_rfft(zl_contiguous(zl_matrix_transpose(x), false), 1 << 16, 0, NULL);
    REQUIRE(zl_eval_all(4, (zl_array[]){y, h, w, g}));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(y, zl_matrix_transpose(w), false)), 1);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(h, zl_matrix_transpose(g), false)), 1);
    CHECK(are_close(zl_fft_ifft(y, 1 << 15, -1, NULL), z, 1e-5));
    CHECK(are_close(zl_fft_irfft(h, 1 << 16, -1, NULL), x, 1e-5));
    CHECK(are_close(zl_fft_irfft(g, 1 << 16, 0, NULL), zl_matrix_transpose(x), 1e-5));
}

TEST(ffts_have_inverses) {
    static const char *const norms[] = {"backward", "ortho", "forward"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        ZL_SCOPE {
            int n = (int)lengths[i];
            const char *norm = norms[i % 3];
            zl_array z = noise(2, n, true), x = noise(2, n, false);
            CHECK(are_close(zl_fft_ifft(zl_fft_fft(z, n, -1, norm), n, -1, norm), z, 1e-5));
            if (!CHECK(are_close(zl_fft_irfft(zl_fft_rfft(x, n, -1, norm), n, -1, norm), x, 1e-5)))
                test_note("length %d, %s", n, norm);
        }
}

// Axes, layouts and many rows: the same bits as for each row alone.
TEST(fft_along_axes) {
    zl_array z = zl_reshape(noise(37, 60, true), ZL_SHAPE(37, 5, 12));
    REQUIRE(zl_eval(z));
    for (int axis = 0; axis < 3; axis++)
        ZL_SCOPE {
            zl_array y = zl_fft_fft(z, (int)zl_dim(z, axis), axis, "backward");
            zl_array moved = zl_contiguous(zl_moveaxis(z, axis, -1), false);
            zl_array same = zl_moveaxis(zl_fft_fft(moved, (int)zl_dim(z, axis), -1, "backward"), -1, axis);
            CHECK_EQ_INT(zl_item_int(zl_array_equal(y, same, false)), 1);
            zl_array back =
                zl_flip(zl_fft_fft(zl_flip(z, ZL_ALL), (int)zl_dim(z, axis), axis, "forward"), ZL_ALL);
            CHECK_EQ_INT(zl_dim(back, axis), zl_dim(z, axis));
            CHECK(zl_eval(back));
        }
    zl_array first = zl_fft_fft(zl_take(z, zl_scalar_int(20), 0), 12, -1, "backward");
    zl_array all = zl_fft_fft(z, 12, -1, "backward");
    CHECK_EQ_INT(zl_item_int(zl_array_equal(zl_take(all, zl_scalar_int(20), 0), first, false)), 1);
}

TEST(fft_does_not_depend_on_threads) {
    int before = pool_threads();
    zl_array z = noise(50, 1000, true), y[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pool_set_threads(i ? 3 : 1));
        y[i] = zl_fft_fft(z, 1000, -1, "backward");
        CHECK(zl_eval(y[i]));
    }
    CHECK(pool_set_threads(before));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(y[0], y[1], false)), 1);
}

TEST(fft_of_several_axes) {
    zl_array z = zl_reshape(noise(6, 20, true), ZL_SHAPE(4, 6, 5)),
             x = zl_reshape(noise(6, 20, false), ZL_SHAPE(4, 6, 5));
    REQUIRE(zl_eval_all(2, (zl_array[]){z, x}));
    zl_array one = zl_fft_fft(zl_fft_fft(z, 6, 1, NULL), 4, 0, NULL);
    CHECK(are_close(zl_fft_fftn(z, ZL_NO_SHAPE, ZL_AXES(0, 1), NULL), one, 1e-5));
    CHECK(are_close(zl_fft_ifftn(zl_fft_fftn(z, ZL_NO_SHAPE, ZL_ALL, "ortho"), ZL_NO_SHAPE, ZL_ALL, "ortho"),
                    z, 1e-5));
    zl_array half = zl_fft_rfft2(x, ZL_NO_SHAPE, ZL_AXES(-1, -2), "forward");
    CHECK(shape_equal(3, half->dim, 3, (int64_t[]){4, 4, 5}));
    CHECK(are_close(zl_fft_irfft2(half, ZL_SHAPE(5, 6), ZL_AXES(-1, -2), "forward"), x, 1e-5));
    CHECK(are_close(
        zl_fft_ifft2(zl_fft_fft2(z, ZL_NO_SHAPE, ZL_AXES(-2, -1), NULL), ZL_NO_SHAPE, ZL_AXES(-2, -1), NULL),
        z, 1e-5));
    CHECK(are_close(
        zl_fft_irfftn(zl_fft_rfftn(x, ZL_NO_SHAPE, ZL_ALL, NULL), ZL_SHAPE(4, 6, 5), ZL_AXES(0, 1, 2), NULL),
        x, 1e-5));
}

TEST(fft_sizes_and_orders) {
    zl_array x = zl_from_f32((float[]){1, 2, 3, 4}, ZL_SHAPE(4));
    CHECK_ARRAY(zl_real(zl_fft_fft(x, 2, 0, NULL)), ZL_FLOAT32, ZL_SHAPE(2), 3, -1);
    CHECK_ARRAY_NEAR(zl_real(zl_fft_fft(zl_astype(x, ZL_FLOAT64), 6, 0, NULL)), ZL_FLOAT32, ZL_SHAPE(6), 1e-6,
                     10, -3.5, 2.5, -2, 2.5, -3.5);
    CHECK_ARRAY(zl_fft_fftshift(x, ZL_ALL), ZL_FLOAT32, ZL_SHAPE(4), 3, 4, 1, 2);
    CHECK_ARRAY(zl_fft_ifftshift(zl_fft_fftshift(zl_arange(0, 5, 1, ZL_FLOAT32), ZL_AXES(0)), ZL_AXES(-1)),
                ZL_FLOAT32, ZL_SHAPE(5), 0, 1, 2, 3, 4);
    CHECK_ARRAY(zl_fft_fftfreq(5, 0.5), ZL_FLOAT32, ZL_SHAPE(5), 0, 0.4f, 0.8f, -0.8f, -0.4f);
    CHECK_ARRAY(zl_fft_rfftfreq(4, 1), ZL_FLOAT32, ZL_SHAPE(3), 0, 0.25, 0.5);
    CHECK_EMPTY(zl_fft_fft(zl_zeros(ZL_SHAPE(0, 3), ZL_FLOAT32), 3, -1, NULL), ZL_COMPLEX64, ZL_SHAPE(0, 3));
    CHECK_ARRAY(zl_real(zl_fft_fft(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32), 2, -1, NULL)), ZL_FLOAT32, ZL_SHAPE(2),
                0, 0);
    CHECK_ARRAY_NEAR(zl_fft_irfft(zl_multiply(x, zl_scalar_complex(1, 1)), 7, 0, "forward"), ZL_FLOAT32,
                     ZL_SHAPE(7), 1e-5, 19.000000, -17.496881, 4.650264, -5.487073, 4.200865, -5.266221,
                     7.399046);
    CHECK_ARRAY_NEAR(zl_fft_irfft(zl_multiply(x, zl_scalar_complex(1, 1)), 6, 0, "forward"), ZL_FLOAT32,
                     ZL_SHAPE(6), 1e-5, 15.000000, -12.660254, 1.732051, -1.000000, -1.732051, 4.660254);
}

TEST(fft_says_what_does_not_fit) {
    zl_array x = zl_zeros(ZL_SHAPE(3, 4), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fft_fft(zl_scalar(1), 3, 0, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fft_fft(x, 0, 0, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_fft_irfft(zl_zeros(ZL_SHAPE(1), ZL_FLOAT32), INT32_MIN, 0, NULL));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_fft_fft(x, 3, 2, NULL));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_fft_fftn(x, ZL_NO_SHAPE, ZL_AXES(1, -1), NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_fft(x, 3, 0, "none"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_fftn(x, ZL_SHAPE(2), ZL_ALL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_fftn(x, ZL_SHAPE(2), ZL_AXES(0, 1), NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_fftfreq(0, 1));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_rfftfreq(3, 0));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_fft_fftshift(x, ZL_AXES(2)));
    CHECK(zl_fft_fft(NULL, 3, 0, NULL) == NULL);
}

// Rules -----------------------------------------------------------------------------------------------------

// A linear function f, so that f and its derivatives can be compared.
typedef zl_array linear(zl_array x);

static zl_array real_fft(zl_array x) {
    return zl_fft_rfft(x, (int)zl_dim(x, -1), -1, "ortho");
}
static zl_array real_inverse(zl_array x) {
    return zl_fft_irfft(x, 2 * (int)zl_dim(x, -1) - 1, -1, "backward");
}
static zl_array real_even(zl_array x) {
    return zl_fft_irfft(x, INT32_MIN, -1, "forward");
}
static zl_array forward(zl_array x) {
    return zl_fft_fft(x, (int)zl_dim(x, -1), -1, "forward");
}
static zl_array inverse(zl_array x) {
    return zl_fft_ifft(x, 5, 0, "ortho");
}
static zl_array planes(zl_array x) {
    return zl_fft_rfftn(x, ZL_NO_SHAPE, ZL_ALL, "backward");
}

// Returns Re(sum(conj(a) * b)), the product of a cotangent and a tangent.
static double meet(zl_array a, zl_array b) {
    zl_array sum = zl_sum(zl_astype(zl_real(zl_multiply(zl_conjugate(a), b)), ZL_FLOAT64));
    return CHECK(zl_eval(sum)) ? zl_item(sum) : NAN;
}

static bool call_linear(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, (*(linear **)data)(in[0]));
}

// Checks that <w, f(t)> = <f*(w), t>, and that the tangent is f(t).
static void check_adjoint(linear *f, int64_t rows, int64_t n, bool is_complex) {
    zl_array x = noise(rows, n, is_complex), t = noise(rows, n, is_complex), y = f(x), g, w;
    zl_fn fn = {.call = call_linear, .data = &f};
    zl_outputs *values = zl_outputs_new(), *tangents = zl_outputs_new();
    REQUIRE(y && zl_eval(y));
    w = zl_reshape(noise(1, y->size, y->dtype == ZL_COMPLEX64), zl_shape_of(y));
    REQUIRE(zl_eval(w) && zl_vjp(fn, 1, &x, 1, &w, NULL, &g));
    REQUIRE(zl_jvp(fn, 1, &x, &t, values, tangents));
    REQUIRE(zl_eval_all(2, (zl_array[]){g, zl_outputs_get(tangents, 0)}));
    CHECK_EQ_INT(g->dtype, x->dtype);
    CHECK(are_close(zl_outputs_get(tangents, 0), f(t), 1e-6));
    CHECK_NEAR(meet(w, f(t)), meet(g, t), 1e-4 * (1 + (double)x->size));
    zl_outputs_free(values);
    zl_outputs_free(tangents);
}

TEST(fft_derivatives_are_adjoints) {
    for (int n = 2; n < 9; n++)
        ZL_SCOPE {
            check_adjoint(real_fft, 5, n, false);
            check_adjoint(real_inverse, 5, n, true);
            check_adjoint(real_even, 5, n, true);
            check_adjoint(forward, 5, n, true);
            check_adjoint(forward, 5, n, false);
            check_adjoint(inverse, 5, n, true);
            check_adjoint(inverse, 5, n, false);
            check_adjoint(planes, 5, n, false);
        }
}

BATCHING(fft, ZL_SHAPE(3, 8), zl_abs(zl_fft_fft(x, 8, -1, "backward")))
BATCHING(rfft, ZL_SHAPE(3, 6), zl_abs(zl_fft_rfft(x, 5, 0, "backward")))
BATCHING(irfft, ZL_SHAPE(3, 6), zl_fft_irfft(x, 9, 1, "backward"))
