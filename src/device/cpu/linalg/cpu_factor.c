// cpu_factor.c - triangular and orthogonal factors and inverses, by LAPACK and by blocked.c.

#include "device/cpu/linalg/linalg.h"

// LAPACK's Fortran calling convention: every argument by address, and the lengths of strings at the end.
typedef void geqrf_fn(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                      const int *lwork, int *info);
typedef void orgqr_fn(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,
                      void *work, const int *lwork, int *info);

static const int query = -1; // as the size of a work area: the function returns the size that it needs

// Declares a function pointer and sets it to an address that was looked up.
#define FUNCTION(type, name, f, which) \
    type *name;                        \
    *(void **)&name = (f)->function[which]

// Clears the triangle of a row-major n x n matrix that does not belong to the factor: above the diagonal, or
// below it if `upper`.
static void clear_other_triangle(const struct factor *f, char *a, bool upper) {
    for (int64_t i = 0; i < f->n; i++) {
        int64_t from = upper ? 0 : i + 1, count = upper ? i : f->n - i - 1;
        memset(a + (i * f->n + from) * f->item, 0, (size_t)(count * f->item));
    }
}

static bool failed(const struct factor *f, const char *what, int info) {
    return error_false(ZL_ERROR_DEVICE, "%s: a matrix of shape %s %s (LAPACK says %d)", f->c->op->name,
                       array_text(f->c->in[0]), what, info);
}

// Cholesky --------------------------------------------------------------------------------------------------

// The upper factor is the transpose of the lower factor of the transposed matrix.
static int cholesky_one(const struct factor *f, int64_t at, char *workspace) {
    int info = cpu_blocked_cholesky(f, f->n, workspace, f->n);
    cpu_factor_store(f, 0, at, workspace, f->n, f->n, f->n);
    clear_other_triangle(f, cpu_factor_output(f, 0, at), f->transposed);
    return info;
}

bool cpu_cholesky(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, FACTOR_BLOCKED))
        return false;
    f.transposed = call_args(c)[0];
    f.one = cholesky_one;
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "is not positive definite", info));
}

// Inverses --------------------------------------------------------------------------------------------------

// matrix_bytes() returns the bytes of a matrix, work_bytes() those of the work area for inverting its
// triangles.
static size_t matrix_bytes(const struct factor *f) {
    return cpu_factor_aligned((size_t)f->n * (size_t)f->n * (size_t)f->item);
}

static size_t work_bytes(const struct factor *f) {
    return cpu_factor_aligned(((size_t)f->n * (size_t)f->n / 4 + (size_t)f->n) * (size_t)f->item);
}

// The inverse of the transposed matrix is the transposed inverse, so no data is moved except to copy it.
static int invert_triangle(const struct factor *f, int64_t at, char *workspace) {
    bool upper = call_args(f->c)[1];
    clear_other_triangle(f, workspace, upper);
    int info = cpu_invert_triangle(f, !upper, f->n, workspace, f->n, workspace + matrix_bytes(f));
    cpu_factor_store(f, 0, at, workspace, f->n, f->n, f->n);
    return info;
}

// Inverts one matrix. The workspace after it holds its inverse, the work area and the pivots.
static int invert_square(const struct factor *f, int64_t at, char *workspace) {
    char *inverse = workspace + matrix_bytes(f), *work = inverse + matrix_bytes(f);
    int info = cpu_blocked_inverse(f, workspace, inverse, work, (int *)(void *)(work + work_bytes(f)));
    cpu_factor_store(f, 0, at, inverse, f->n, f->n, f->n);
    return info;
}

bool cpu_inverse(const struct call *c) {
    struct factor f;
    bool triangular = call_args(c)[0];
    int info;
    if (!cpu_factor_open(&f, c, FACTOR_BLOCKED))
        return false;
    f.transposed = true;
    f.one = triangular ? invert_triangle : invert_square;
    f.workspace += work_bytes(&f) + (triangular ? 0 : matrix_bytes(&f) + (size_t)f.n * sizeof(int));
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "is singular", info));
}

// LU --------------------------------------------------------------------------------------------------------

// Converts LAPACK's pivots, which count from 1, to swaps, and to the final position of each row.
static void note_rows(const struct factor *f, const int *pivot, uint32_t *swaps, uint32_t *rows,
                      uint32_t *order) {
    for (int i = 0; i < f->m; i++)
        order[i] = (uint32_t)i;
    for (int i = 0; i < MIN_OF(f->m, f->n); i++) {
        uint32_t with = swaps[i] = (uint32_t)pivot[i] - 1, row = order[i];
        order[i] = order[with];
        order[with] = row;
    }
    for (int i = 0; i < f->m; i++)
        rows[order[i]] = (uint32_t)i;
}

static int lu_one(const struct factor *f, int64_t at, char *workspace) {
    int *pivot =
        (int *)(void *)(workspace + cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item));
    int info = cpu_blocked_lu(f, f->m, f->n, workspace, f->m, pivot);
    cpu_factor_store(f, 0, at, workspace, f->m, f->n, f->m);
    note_rows(f, pivot, (uint32_t *)(void *)cpu_factor_output(f, 1, at),
              (uint32_t *)(void *)cpu_factor_output(f, 2, at), (uint32_t *)(void *)(pivot + f->m));
    return info < 0 ? info : 0; // a zero on the diagonal is a valid result
}

bool cpu_lu(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, FACTOR_BLOCKED))
        return false;
    f.one = lu_one;
    f.workspace += 2 * (size_t)f.m * sizeof(int);
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "could not be factored", info));
}

// QR --------------------------------------------------------------------------------------------------------

static int qr_one(const struct factor *f, int64_t at, char *workspace) {
    int k = MIN_OF(f->m, f->n), info = 0;
    char *tau = workspace + cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item);
    char *work = tau + cpu_factor_aligned((size_t)k * (size_t)f->item);
    FUNCTION(geqrf_fn, geqrf, f, 0);
    FUNCTION(orgqr_fn, orgqr, f, 1);
    geqrf(&f->m, &f->n, workspace, &f->m, tau, work, &f->work[0], &info);
    if (info)
        return info;
    cpu_factor_store(f, 1, at, workspace, k, f->n, f->m);
    char *r = cpu_factor_output(f, 1, at);
    for (int64_t row = 1; row < k; row++)
        memset(r + row * f->n * f->item, 0, (size_t)(row * f->item));
    orgqr(&f->m, &k, &k, workspace, &f->m, tau, work, &f->work[0], &info);
    cpu_factor_store(f, 0, at, workspace, f->m, k, f->m);
    return info;
}

static void query_qr(struct factor *f) {
    double first[2] = {0}, second[2] = {0}, a = 0, tau = 0;
    int k = MIN_OF(f->m, f->n), info = 0;
    FUNCTION(geqrf_fn, geqrf, f, 0);
    FUNCTION(orgqr_fn, orgqr, f, 1);
    geqrf(&f->m, &f->n, &a, &f->m, &tau, first, &query, &info);
    orgqr(&f->m, &k, &k, &a, &f->m, &tau, second, &query, &info);
    f->work[0] = MAX_OF(MAX_OF(cpu_factor_work(f, first), cpu_factor_work(f, second)), f->n);
    f->workspace += cpu_factor_aligned((size_t)k * (size_t)f->item) + (size_t)f->work[0] * (size_t)f->item;
}

bool cpu_qr(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, "geqrf orgqr"))
        return false;
    f.one = qr_one;
    f.threaded = 1 << 27;
    query_qr(&f);
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "could not be factored", info));
}
