// test_stft.c - short-time Fourier transforms: compared with sums that are written out, their inverse, their
// adjoint, invalid input.

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "op/op_test.h"

OP_RULES_HERE(zl_fft_stft);
OP_RULES_HERE(zl_fft_istft);

enum { LENGTH = 37, ROWS = 2 };

static zl_array signal(void) {
    return op_test_random(ZL_SHAPE(ROWS, LENGTH), ZL_FLOAT32, -1, 1);
}

struct way {
    int n, hop, window; // window: length of the window; 0: no window is given
    bool center;
    const char *mode, *norm;
    int onesided;
};

static zl_array window_of(const struct way *w) {
    return w->window ? zl_add(zl_hanning(w->window), zl_scalar(0.25)) : NULL;
}

static zl_array transform(const struct way *w, zl_array x) {
    return zl_fft_stft(x, w->n, w->hop, INT_MIN, window_of(w), w->center, w->mode, w->norm, w->onesided);
}

// Sums ------------------------------------------------------------------------------------------------------

// Returns the element of the padded signal at a position relative to the signal itself.
static double sample(const double *x, int64_t at, const char *mode) {
    if (at >= 0 && at < LENGTH)
        return x[at];
    if (mode[0] == 'c')
        return 0;
    if (mode[0] == 'e')
        return x[at < 0 ? 0 : LENGTH - 1];
    return sample(x, at < 0 ? -at : 2 * (LENGTH - 1) - at, mode); // mirrored, repeatedly if needed
}

static double weight(const struct way *w, const double *window, int j) {
    int low = (w->n - w->window) / 2;
    return !w->window ? 1 : j < low || j >= low + w->window ? 0 : window[j - low];
}

// Returns the real or imaginary part of frequency k of a frame.
static double expected(const struct way *w, const double *x, const double *window, int frame, int k,
                       bool imaginary) {
    double sum = 0, scale = w->norm[0] == 'o' ? 1 / sqrt(w->n) : w->norm[0] == 'f' ? 1.0 / w->n : 1;
    for (int j = 0; j < w->n; j++) {
        double angle = -2 * acos(-1) * j * k / w->n;
        double value = sample(x, (int64_t)frame * w->hop + j - (w->center ? w->n / 2 : 0), w->mode);
        sum += value * weight(w, window, j) * (imaginary ? sin(angle) : cos(angle));
    }
    return sum * scale;
}

static void check_way(const struct way *w) {
    zl_array x = signal(), y = transform(w, x);
    int bins = w->onesided ? w->n / 2 + 1 : w->n;
    int frames = (LENGTH + (w->center ? w->n / 2 * 2 : 0) - w->n) / w->hop + 1;
    REQUIRE(y && zl_eval(y));
    CHECK_EQ_INT(y->dtype, ZL_COMPLEX64);
    REQUIRE(y->ndim == 3 && y->dim[0] == ROWS && y->dim[1] == bins && y->dim[2] == frames);
    const double *part[] = {op_test_values(zl_real(y)), op_test_values(zl_imag(y))};
    const double *from = op_test_values(x), *window = w->window ? op_test_values(window_of(w)) : NULL;
    double worst = 0;
    for (int64_t i = 0; i < 2 * y->size; i++) {
        int64_t at = i / 2, row = at / frames / bins;
        double want =
            expected(w, from + row * LENGTH, window, (int)(at % frames), (int)(at / frames % bins), i % 2);
        worst = fmax(worst, fabs(want - part[i % 2][at]));
    }
    CHECK_NEAR(worst, 0, 2e-5);
}

static const struct way ways[] = {
    {8, 2, 8, true, "reflect", "backward", 1}, {8, 3, 5, true, "constant", "ortho", 1},
    {7, 4, 0, true, "edge", "forward", 1},     {16, 5, 11, false, "reflect", "backward", 0},
    {90, 10, 64, true, "reflect", "ortho", 0}, {1, 1, 1, true, "edge", "backward", 1},
    {37, 9, 37, false, "edge", "backward", 1},
};

TEST(stft_is_the_sum_that_defines_it) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ZL_SCOPE
            check_way(&ways[i]);
}

TEST(stft_has_defaults) {
    zl_array x = op_test_random(ZL_SHAPE(3000), ZL_FLOAT64, -1, 1);
    zl_array y = zl_fft_stft(x, 2048, INT_MIN, 1000, NULL, true, NULL, NULL, INT_MIN);
    REQUIRE(y && zl_eval(y));
    CHECK(shape_equal(y->ndim, y->dim, 2, (int64_t[]){1025, 6}));
    zl_array z = zl_fft_stft(zl_astype(x, ZL_COMPLEX64), 2048, 512, INT_MIN, NULL, true, NULL, NULL, INT_MIN);
    REQUIRE(z && zl_eval(z));
    CHECK(shape_equal(z->ndim, z->dim, 2, (int64_t[]){2048, 6}));
    zl_array half = zl_fft_stft(zl_astype(x, ZL_COMPLEX64), 16, 4, INT_MIN, NULL, true, NULL, NULL, 1);
    CHECK_EQ_INT(zl_dim(half, 0), 9);
}

// Inverse ---------------------------------------------------------------------------------------------------

static double distance(zl_array a, zl_array b) {
    return zl_item(zl_max(zl_abs(zl_subtract(a, b))));
}

TEST(istft_gives_the_signal_back) {
    static const struct way each[] = {{8, 2, 8, true, "reflect", "backward", 1},
                                      {9, 3, 7, true, "constant", "ortho", 1},
                                      {12, 4, 0, true, "edge", "forward", 0},
                                      {12, 5, 12, false, "reflect", "backward", 1}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        ZL_SCOPE {
            const struct way *w = &each[i];
            zl_array x = signal(), y = transform(w, x);
            zl_array z = zl_fft_istft(y, w->n, w->hop, INT_MIN, window_of(w), w->center, w->norm, w->onesided,
                                      INT_MIN);
            REQUIRE(z && zl_eval(z) && z->ndim == 2 && z->dim[1] <= LENGTH);
            CHECK_EQ_INT(z->dtype, ZL_FLOAT32);
            CHECK_NEAR(distance(z, zl_slice(x, ZL_SHAPE(0, 0), zl_shape_of(z), ZL_SHAPE(1, 1))), 0, 1e-5);
        }
}

TEST(istft_cuts_and_lengthens) {
    zl_array x = op_test_random(ZL_SHAPE(LENGTH), ZL_FLOAT32, -1, 1);
    zl_array y = zl_fft_stft(x, 8, 2, INT_MIN, NULL, true, "reflect", NULL, INT_MIN);
    REQUIRE(zl_eval(y));
    zl_array same = zl_fft_istft(y, INT_MIN, 2, INT_MIN, NULL, true, NULL, INT_MIN, LENGTH);
    CHECK_EQ_INT(zl_size(same), LENGTH);
    CHECK_NEAR(distance(same, x), 0, 1e-5);
    zl_array more = zl_fft_istft(y, 8, 2, INT_MIN, NULL, true, NULL, INT_MIN, 100);
    CHECK_NEAR(
        zl_item(zl_sum_axis(zl_abs(zl_slice(more, ZL_SHAPE(60), ZL_SHAPE(100), ZL_SHAPE(1))), 0, false)), 0,
        0);
    CHECK_EMPTY(zl_fft_istft(y, 8, 2, INT_MIN, NULL, true, NULL, INT_MIN, 0), ZL_FLOAT32, ZL_SHAPE(0));
    // Samples that no window covers are 0, not infinite.
    zl_array none = zl_fft_istft(y, 8, 2, 0, NULL, true, NULL, INT_MIN, INT_MIN);
    CHECK_EQ_F64(zl_item(zl_max(zl_abs(none))), 0);
}

// Rules -----------------------------------------------------------------------------------------------------

static bool forward(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)count;
    return zl_give(out, transform(data, in[0]));
}

static bool back(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct way *w = data;
    (void)count;
    return zl_give(
        out, zl_fft_istft(in[0], w->n, w->hop, INT_MIN, window_of(w), w->center, w->norm, w->onesided, 41));
}

// Returns Re(sum(conj(a) * b)), the product of a cotangent and a tangent.
static double meet(zl_array a, zl_array b) {
    return zl_item(zl_sum(zl_astype(zl_real(zl_multiply(zl_conjugate(a), b)), ZL_FLOAT64)));
}

static zl_array complex_random(zl_array like) {
    zl_shape shape = zl_shape_of(like);
    zl_array re = op_test_random(shape, ZL_FLOAT32, -1, 1), im = op_test_random(shape, ZL_FLOAT32, -1, 1);
    zl_array x = like->dtype != ZL_COMPLEX64 ? re : zl_add(re, zl_multiply(im, zl_scalar_complex(0, 1)));
    return zl_eval(x) ? x : NULL;
}

// Checks <w, f(t)> = <f*(w), t> for a linear f.
static void check_adjoint(zl_fn f, zl_array x) {
    zl_outputs *values = zl_outputs_new(), *tangents = zl_outputs_new();
    zl_array t = complex_random(x), w, grad;
    if (CHECK(zl_jvp(f, 1, &x, &t, values, tangents))) {
        w = complex_random(zl_outputs_get(values, 0));
        if (CHECK(zl_vjp(f, 1, &x, 1, &w, NULL, &grad)))
            CHECK_NEAR(meet(w, zl_outputs_get(tangents, 0)), meet(grad, t), 1e-3);
    }
    zl_outputs_free(values);
    zl_outputs_free(tangents);
}

TEST(stft_derivatives_are_adjoints) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ZL_SCOPE {
            zl_array x = signal();
            struct way w = ways[i];
            check_adjoint((zl_fn){.call = forward, .data = &w}, x);
            check_adjoint((zl_fn){.call = back, .data = &w}, complex_random(transform(&w, x)));
        }
}

BATCHING(stft, ZL_SHAPE(2, 20), zl_abs(transform(&ways[0], x)))
BATCHING(istft, ZL_SHAPE(2, 5, 7), zl_fft_istft(x, 8, 2, INT_MIN, NULL, true, NULL, 1, INT_MIN))

// Bad input -------------------------------------------------------------------------------------------------

#define STFT(x, n, hop, length, window, mode, norm) \
    zl_fft_stft(x, n, hop, length, window, false, mode, norm, 1)
#define ISTFT(y, n, hop, length, norm) zl_fft_istft(y, n, hop, length, NULL, true, norm, 1, INT_MIN)

TEST(stft_refuses_what_makes_no_sense) {
    zl_array x = signal(), y = transform(&ways[0], x);
    CHECK_ERROR(ZL_ERROR_VALUE, STFT(x, 0, 1, INT_MIN, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, STFT(x, 3, INT_MIN, INT_MIN, NULL, NULL, NULL));
    CHECK_HAS(test_last_error(), "zl_fft_stft: frames of 3, 0 apart");
    CHECK_ERROR(ZL_ERROR_VALUE, STFT(x, 8, 1, 9, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, STFT(x, 8, 1, INT_MIN, zl_hanning(9), NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, STFT(x, 8, 1, INT_MIN, x, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, STFT(x, 64, 1, INT_MIN, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, STFT(zl_scalar(1), 1, 1, INT_MIN, NULL, NULL, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, STFT(x, 8, 1, INT_MIN, NULL, NULL, "none"));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fft_stft(x, 8, 1, INT_MIN, NULL, true, "wrap", NULL, 1));
    CHECK_ERROR(ZL_ERROR_SHAPE,
                zl_fft_stft(zl_zeros(ZL_SHAPE(0), ZL_FLOAT32), 8, 1, 8, NULL, true, "edge", NULL, 1));
    CHECK(zl_fft_stft(NULL, 8, 1, 8, NULL, true, NULL, NULL, 1) == NULL);
    CHECK_ERROR(ZL_ERROR_VALUE, ISTFT(y, 0, 1, INT_MIN, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, ISTFT(y, 8, 0, INT_MIN, NULL));
    CHECK_ERROR(ZL_ERROR_VALUE, ISTFT(y, 8, 2, INT_MIN, "none"));
    CHECK_ERROR(ZL_ERROR_SHAPE, ISTFT(zl_scalar(1), 8, 2, INT_MIN, NULL));
    CHECK_ERROR(ZL_ERROR_SHAPE, ISTFT(zl_zeros(ZL_SHAPE(5, 0), ZL_COMPLEX64), 8, 2, INT_MIN, NULL));
    CHECK(ISTFT(NULL, 8, 2, INT_MIN, NULL) == NULL);
}
