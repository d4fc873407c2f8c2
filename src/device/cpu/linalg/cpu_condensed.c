// cpu_condensed.c - spectra of real matrices: reduced by our own Householder reflections (condense.c), then
// solved by LAPACK.
//
// The steps are those of ?syevd and ?gesdd, but the reduction, the longest one, reads the matrix once per
// column. Neoverse-V1, 2026-11, one thread, 256 x 256 of f32: tridiagonal 1.1 ms instead of 1.9, bidiagonal
// 1.9 ms instead of 5.5.

#include "device/cpu/linalg/linalg.h"

enum {
    LEAST = 16,    // columns
    MOST = 1024,   // larger ones exceed the caches: LAPACK computes them, on all threads
    BLOCK = 64,    // the most columns that LAPACK applies at once
    BESIDE = 8192, // further elements of its work area
};

typedef void sterf_fn(const int *n, void *d, void *e, int *info);
typedef void stedc_fn(const char *compz, const int *n, void *d, void *e, void *z, const int *ldz, void *work,
                      const int *lwork, int *iwork, const int *liwork, int *info, size_t);
typedef void ormtr_fn(const char *side, const char *uplo, const char *trans, const int *m, const int *n,
                      const void *a, const int *lda, const void *tau, void *c, const int *ldc, void *work,
                      const int *lwork, int *info, size_t, size_t, size_t);
typedef void bdsdc_fn(const char *uplo, const char *compq, const int *n, void *d, void *e, void *u,
                      const int *ldu, void *vt, const int *ldvt, void *q, int *iq, void *work, int *iwork,
                      int *info, size_t, size_t);
typedef void ormbr_fn(const char *vect, const char *side, const char *trans, const int *m, const int *n,
                      const int *k, const void *a, const int *lda, const void *tau, void *c, const int *ldc,
                      void *work, const int *lwork, int *info, size_t, size_t, size_t);

#define FUNCTION(type, name, f, which) \
    type *name;                        \
    *(void **)&name = (f)->function[which]

// The arrays that follow the matrix in a thread's scratch memory.
struct areas {
    struct condensed c;
    char *left, *right; // vectors, column by column; eigenvectors use only `left`
    char *work;
    int *iwork;
};

static bool wants_vectors(const struct factor *f) {
    return f->c->outputs > 1;
}

// Assigns the arrays for a matrix of rows x cols, rows >= cols, their addresses in workspace, unless that is
// NULL. Returns the bytes that they and the matrix take.
static size_t place(const struct factor *f, size_t rows, size_t cols, char *workspace, struct areas *a) {
    size_t item = (size_t)f->item, used = cpu_factor_aligned(rows * cols * item);
    bool vectors = wants_vectors(f);
    a->c.d = cpu_factor_take(workspace, &used, cols * item);
    a->c.e = cpu_factor_take(workspace, &used, cols * item);
    a->c.tau = cpu_factor_take(workspace, &used, cols * item);
    a->c.tau_row = cpu_factor_take(workspace, &used, cols * item);
    a->c.workspace = cpu_factor_take(workspace, &used, 4 * (rows + cols) * item);
    a->left = cpu_factor_take(workspace, &used, vectors ? rows * rows * item : item);
    a->right = cpu_factor_take(workspace, &used, vectors ? cols * cols * item : item);
    a->work = cpu_factor_take(workspace, &used, (size_t)f->work[0] * item);
    a->iwork = cpu_factor_take(workspace, &used, (size_t)f->work[1] * sizeof(int));
    return used;
}

// Returns whether this file computes the decomposition of x. Matrices of which one side is much longer are
// left to LAPACK, which first reduces them to square ones by QR.
bool cpu_condenses(zl_array x) {
    int64_t m = x->dim[x->ndim - 2], n = x->dim[x->ndim - 1], least = MIN_OF(m, n), most = MAX_OF(m, n);
    return x->dtype != ZL_COMPLEX64 && least >= LEAST && most < MOST && most < least * 11 / 6;
}

static bool run(struct factor *f, int rows, int cols) {
    struct areas a;
    int info;
    f->finite = true;
    f->workspace = place(f, (size_t)rows, (size_t)cols, NULL, &a);
    return cpu_factor_run(f, &info) && (!info || cpu_spectrum_failed(f, info));
}

// Symmetric matrices ----------------------------------------------------------------------------------------

#define MIRROR(name, type)                       \
    static void name(type *a, int64_t n) {       \
        for (int64_t j = 0; j < n; j++)          \
            for (int64_t i = 0; i < j; i++)      \
                a[i * n + j] = a[j * n + i];     \
    }
MIRROR(mirror_f32, float)
MIRROR(mirror_f64, double)

static int eigh_one(const struct factor *f, int64_t at, char *workspace) {
    FUNCTION(sterf_fn, sterf, f, 0);
    FUNCTION(stedc_fn, stedc, f, 1);
    FUNCTION(ormtr_fn, ormtr, f, 2);
    struct areas a;
    int n = f->n, info = 0, applied = 0;
    place(f, (size_t)n, (size_t)n, workspace, &a);
    if (call_args(f->c)[0]) // the upper triangle
        f->dtype == ZL_FLOAT64 ? mirror_f64((double *)(void *)workspace, n)
                               : mirror_f32((float *)(void *)workspace, n);
    int exponent = cpu_normalize(f->dtype, workspace, (int64_t)n * n);
    cpu_tridiagonal(f->dtype, n, workspace, &a.c);
    if (wants_vectors(f)) {
        stedc("I", &n, a.c.d, a.c.e, a.left, &n, a.work, &f->work[0], a.iwork, &f->work[1], &info, 1);
        ormtr("L", "L", "N", &n, &n, workspace, &n, a.c.tau, a.left, &n, a.work, &f->work[0], &applied, 1, 1,
              1);
        cpu_factor_store(f, 1, at, a.left, n, n, n);
    } else {
        sterf(&n, a.c.d, a.c.e, &info);
    }
    cpu_scale_back(f->dtype, a.c.d, n, exponent);
    memcpy(cpu_factor_output(f, 0, at), a.c.d, (size_t)n * (size_t)f->item);
    return info ? info : applied;
}

bool cpu_eigh_condensed(const struct call *c) {
    struct factor f;
    if (!cpu_factor_open(&f, c, "sterf stedc ormtr"))
        return false;
    f.work[0] = MAX_OF(f.n * f.n + 4 * f.n + 1, BLOCK * f.n + BESIDE);
    f.work[1] = 5 * f.n + 3;
    f.one = eigh_one;
    return run(&f, f.n, f.n);
}

// Other matrices --------------------------------------------------------------------------------------------

// Initialises an orthogonal matrix of rows x rows, of which LAPACK sets the upper left square of cols x cols.
// The other elements are those of the identity matrix.
static void start_vectors(const struct factor *f, char *left, int64_t rows, int64_t cols) {
    memset(left, 0, (size_t)(rows * rows * f->item));
    for (int64_t i = cols; i < rows; i++)
        if (f->dtype == ZL_FLOAT64)
            ((double *)(void *)left)[i * rows + i] = 1;
        else
            ((float *)(void *)left)[i * rows + i] = 1;
}

static int svd_one(const struct factor *f, int64_t at, char *workspace) {
    FUNCTION(bdsdc_fn, bdsdc, f, 0);
    FUNCTION(ormbr_fn, ormbr, f, 1);
    struct areas a;
    int rows = MAX_OF(f->m, f->n), cols = MIN_OF(f->m, f->n), info = 0, applied[2] = {0};
    bool vectors = wants_vectors(f);
    place(f, (size_t)rows, (size_t)cols, workspace, &a);
    int exponent = cpu_normalize(f->dtype, workspace, (int64_t)rows * cols);
    cpu_bidiagonal(f->dtype, rows, cols, workspace, &a.c);
    if (vectors)
        start_vectors(f, a.left, rows, cols);
    bdsdc("U", vectors ? "I" : "N", &cols, a.c.d, a.c.e, a.left, &rows, a.right, &cols, NULL, NULL, a.work,
          a.iwork, &info, 1, 1);
    if (vectors) {
        ormbr("Q", "L", "N", &rows, &rows, &cols, workspace, &rows, a.c.tau, a.left, &rows, a.work,
              &f->work[0], &applied[0], 1, 1, 1);
        ormbr("P", "R", "T", &cols, &cols, &rows, workspace, &rows, a.c.tau_row, a.right, &cols, a.work,
              &f->work[0], &applied[1], 1, 1, 1);
        cpu_factor_store(f, f->transposed ? 2 : 0, at, a.left, rows, rows, rows);
        cpu_factor_store(f, f->transposed ? 0 : 2, at, a.right, cols, cols, cols);
    }
    cpu_scale_back(f->dtype, a.c.d, cols, exponent);
    memcpy(cpu_factor_output(f, vectors, at), a.c.d, (size_t)cols * (size_t)f->item);
    return info ? info : applied[0] ? applied[0] : applied[1];
}

bool cpu_svd_condensed(const struct call *c) {
    struct factor f;
    if (!cpu_factor_open(&f, c, "bdsdc ormbr"))
        return false;
    int rows = MAX_OF(f.m, f.n), cols = MIN_OF(f.m, f.n);
    // the vectors of the transposed matrix are transposed too, so no data is moved except to copy it
    f.transposed = f.m <= f.n;
    f.work[0] = MAX_OF(3 * cols * cols + 4 * cols, BLOCK * rows + BESIDE);
    f.work[1] = 8 * cols;
    f.one = svd_one;
    return run(&f, rows, cols);
}
