// cpu_eigenvalues.c - eigenvalues of real matrices that need not be symmetric: LAPACK balances a matrix, then
// our own reflections reduce it.
//
// The steps are those of ?geev, but the reduction to Hessenberg form reads the matrix once per column, and
// the QR algorithm uses vectors. Neoverse-V1, 2026-11, one thread, 256 x 256 of float32: these take 2.3 ms
// and 6.9 ms, in LAPACK 3.0 and 11.6.

#include "device/cpu/linalg/linalg.h"

#include <float.h>
#include <math.h>

enum { LEAST = 32, MOST = 512 }; // numbers of rows for which this is faster

#define FRANCIS(name)   francis_##name##_f32
#define FRANCIS_TYPE    float
#define FRANCIS_EPSILON FLT_EPSILON
#define FRANCIS_LEAST   FLT_MIN
#include "device/cpu/linalg/francis_values.h"
#define FRANCIS(name)   francis_##name##_f64
#define FRANCIS_TYPE    double
#define FRANCIS_EPSILON DBL_EPSILON
#define FRANCIS_LEAST   DBL_MIN
#include "device/cpu/linalg/francis_values.h"

typedef void gebal_fn(const char *job, const int *n, void *a, const int *lda, int *low, int *high,
                      void *scale, int *info, size_t);

// The arrays after the matrix: the values, and workspace for the algorithms.
struct areas {
    char *re, *im, *workspace;
};

static size_t list_bytes(const struct factor *f) {
    return cpu_factor_aligned((size_t)(f->n * f->item));
}

static size_t workspace_bytes(const struct factor *f) {
    return cpu_factor_aligned((size_t)f->n *
                              MAX_OF(6 * (size_t)f->item, sizeof(struct francis_reflection_f64)));
}

// Moves rows and columns [low, high) of a matrix of n rows to its start, as a matrix of that size.
static void cut_out(char *a, int64_t n, int64_t low, int64_t high, int64_t item) {
    int64_t rows = high - low;
    for (int64_t j = 0; j < rows; j++)
        memmove(a + j * rows * item, a + ((low + j) * n + low) * item, (size_t)(rows * item));
}

static int64_t run(zl_dtype dtype, int64_t n, void *h, char *re, char *im, void *workspace) {
    cpu_hessenberg(dtype, n, h, workspace);
    if (dtype == ZL_FLOAT64)
        return francis_eigenvalues_f64(n, h, (double *)(void *)re, (double *)(void *)im, workspace);
    return francis_eigenvalues_f32(n, h, (float *)(void *)re, (float *)(void *)im, workspace);
}

static void store(const struct factor *f, const struct areas *a, float *out) {
    for (int64_t i = 0; i < f->n; i++) {
        bool wide = f->dtype == ZL_FLOAT64;
        out[2 * i] = wide ? (float)((double *)(void *)a->re)[i] : ((float *)(void *)a->re)[i];
        out[2 * i + 1] = wide ? (float)((double *)(void *)a->im)[i] : ((float *)(void *)a->im)[i];
    }
}

// Balancing moves rows that have an eigenvalue on the diagonal out of [low, high).
static int values_one(const struct factor *f, int64_t at, char *matrix) {
    gebal_fn *gebal;
    *(void **)&gebal = f->function[0];
    int n = f->n, low = 1, high = n, info = 0;
    int64_t item = f->item;
    char *rest = matrix + cpu_factor_aligned((size_t)n * (size_t)n * (size_t)item);
    const struct areas a = {rest, rest + list_bytes(f), rest + 2 * list_bytes(f)};
    int exponent = cpu_normalize(f->dtype, matrix, (int64_t)n * n);
    gebal("B", &n, matrix, &n, &low, &high, a.workspace, &info, 1);
    if (info)
        return info;
    low--;
    memset(a.im, 0, (size_t)(n * item));
    for (int64_t i = 0; i < n; i++)
        memcpy(a.re + i * item, matrix + i * (n + 1) * item, (size_t)item);
    cut_out(matrix, n, low, high, item);
    info = (int)run(f->dtype, high - low, matrix, a.re + low * item, a.im + low * item, a.workspace);
    cpu_scale_back(f->dtype, a.re, n, exponent);
    cpu_scale_back(f->dtype, a.im, n, exponent);
    store(f, &a, (float *)(void *)cpu_factor_output(f, 0, at));
    return info;
}

bool cpu_has_eigenvalues(zl_array x) {
    int64_t n = x->dim[x->ndim - 1];
    return x->dtype != ZL_COMPLEX64 && n >= LEAST && n <= MOST;
}

bool cpu_eigenvalues(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, "gebal"))
        return false;
    f.one = values_one;
    f.finite = true;
    f.workspace += 2 * list_bytes(&f) + workspace_bytes(&f);
    return cpu_factor_run(&f, &info) && (!info || cpu_spectrum_failed(&f, info));
}
