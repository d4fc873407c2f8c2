// cpu_factor.c - triangular factors and inverses by LAPACK.

#include "device/cpu/cpu.h"

// LAPACK in the Fortran convention: everything by address, lengths of texts behind.
typedef void potrf_fn(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
typedef void trtri_fn(const char *uplo, const char *diag, const int *n, void *a, const int *lda, int *info, size_t, size_t);
typedef void getrf_fn(const int *m, const int *n, void *a, const int *lda, int *pivot, int *info);
typedef void getri_fn(const int *n, void *a, const int *lda, const int *pivot, void *work, const int *lwork, int *info);
typedef void geqrf_fn(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork,
                      int *info);
typedef void orgqr_fn(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,
                      const int *lwork, int *info);

static const int ask = -1; // a work area of this size asks how large it should be

// A function found as an address.
#define FUNCTION(type, name, f, which) \
    type *name;                        \
    *(void **)&name = (f)->function[which]

static void put_zero(const struct factor *f, char *a, int64_t row, int64_t col) {
    memset(a + (col * f->m + row) * f->item, 0, (size_t)f->item);
}

// Nothing above the diagonal, or below it if upper.
static void clear_other_triangle(const struct factor *f, char *a, bool upper) {
    for (int64_t col = 0; col < f->n; col++)
        for (int64_t row = upper ? col + 1 : 0; row < (upper ? f->m : MIN_OF(col, f->m)); row++)
            put_zero(f, a, row, col);
}

static bool failed(const struct factor *f, const char *what, int info) {
    return error_false(ZL_ERROR_DEVICE, "%s: a matrix of shape %s %s (LAPACK says %d)", f->c->op->name,
                       array_text(f->c->in[0]), what, info);
}

// Cholesky -----------------------------------------------------------------------------------------------------

static int cholesky_one(const struct factor *f, int64_t at, char *room) {
    bool upper = call_args(f->c)[0];
    int info = 0;
    FUNCTION(potrf_fn, potrf, f, 0);
    potrf(upper ? "U" : "L", &f->n, room, &f->n, &info, 1);
    clear_other_triangle(f, room, upper);
    cpu_factor_store(f, 0, at, room, f->n, f->n, f->n);
    return info;
}

bool cpu_cholesky(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, "potrf", NULL))
        return false;
    f.one = cholesky_one;
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "is not positive definite", info));
}

// Inverses -----------------------------------------------------------------------------------------------------

static int invert_triangle(const struct factor *f, int64_t at, char *room) {
    bool upper = call_args(f->c)[1];
    int info = 0;
    FUNCTION(trtri_fn, trtri, f, 0);
    trtri(upper ? "U" : "L", "N", &f->n, room, &f->n, &info, 1, 1);
    clear_other_triangle(f, room, upper);
    cpu_factor_store(f, 0, at, room, f->n, f->n, f->n);
    return info;
}

// Behind the matrix: the work area, then the pivots.
static int invert_square(const struct factor *f, int64_t at, char *room) {
    char *work = room + cpu_factor_aligned((size_t)f->n * (size_t)f->n * (size_t)f->item);
    int *pivot = (int *)(void *)(work + cpu_factor_aligned((size_t)f->work[0] * (size_t)f->item));
    int info = 0;
    FUNCTION(getrf_fn, getrf, f, 0);
    FUNCTION(getri_fn, getri, f, 1);
    getrf(&f->n, &f->n, room, &f->n, pivot, &info);
    if (info == 0)
        getri(&f->n, room, &f->n, pivot, work, &f->work[0], &info);
    cpu_factor_store(f, 0, at, room, f->n, f->n, f->n);
    return info;
}

static void ask_getri(struct factor *f) {
    double answer[2] = {0}, a = 0;
    int pivot = 1, info = 0;
    FUNCTION(getri_fn, getri, f, 1);
    getri(&f->n, &a, &f->n, &pivot, answer, &ask, &info);
    f->work[0] = MAX_OF(cpu_factor_work(f, answer), f->n);
    f->room += cpu_factor_aligned((size_t)f->work[0] * (size_t)f->item) + (size_t)f->n * sizeof(int);
}

bool cpu_inverse(const struct call *c) {
    struct factor f;
    bool triangular = call_args(c)[0];
    int info;
    if (!cpu_factor_open(&f, c, triangular ? "trtri" : "getrf", triangular ? NULL : "getri"))
        return false;
    f.one = triangular ? invert_triangle : invert_square;
    if (!triangular)
        ask_getri(&f);
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "is singular", info));
}

// LU -----------------------------------------------------------------------------------------------------------

// Pivots as LAPACK counts them, from 1, to swaps, and for each row where it went.
static void note_rows(const struct factor *f, const int *pivot, uint32_t *swaps, uint32_t *rows, uint32_t *order) {
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

static int lu_one(const struct factor *f, int64_t at, char *room) {
    int *pivot = (int *)(void *)(room + cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item));
    int info = 0;
    FUNCTION(getrf_fn, getrf, f, 0);
    getrf(&f->m, &f->n, room, &f->m, pivot, &info);
    cpu_factor_store(f, 0, at, room, f->m, f->n, f->m);
    note_rows(f, pivot, (uint32_t *)(void *)cpu_factor_output(f, 1, at), (uint32_t *)(void *)cpu_factor_output(f, 2, at),
              (uint32_t *)(void *)(pivot + f->m));
    return info < 0 ? info : 0; // a zero on the diagonal is a result like any other
}

bool cpu_lu(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, "getrf", NULL))
        return false;
    f.one = lu_one;
    f.room += 2 * (size_t)f.m * sizeof(int);
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "could not be factored", info));
}

// QR -----------------------------------------------------------------------------------------------------------

static int qr_one(const struct factor *f, int64_t at, char *room) {
    int k = MIN_OF(f->m, f->n), info = 0;
    char *tau = room + cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item);
    char *work = tau + cpu_factor_aligned((size_t)k * (size_t)f->item);
    FUNCTION(geqrf_fn, geqrf, f, 0);
    FUNCTION(orgqr_fn, orgqr, f, 1);
    geqrf(&f->m, &f->n, room, &f->m, tau, work, &f->work[0], &info);
    if (info)
        return info;
    cpu_factor_store(f, 1, at, room, k, f->n, f->m);
    char *r = cpu_factor_output(f, 1, at);
    for (int64_t row = 1; row < k; row++)
        memset(r + row * f->n * f->item, 0, (size_t)(row * f->item));
    orgqr(&f->m, &k, &k, room, &f->m, tau, work, &f->work[0], &info);
    cpu_factor_store(f, 0, at, room, f->m, k, f->m);
    return info;
}

static void ask_qr(struct factor *f) {
    double first[2] = {0}, second[2] = {0}, a = 0, tau = 0;
    int k = MIN_OF(f->m, f->n), info = 0;
    FUNCTION(geqrf_fn, geqrf, f, 0);
    FUNCTION(orgqr_fn, orgqr, f, 1);
    geqrf(&f->m, &f->n, &a, &f->m, &tau, first, &ask, &info);
    orgqr(&f->m, &k, &k, &a, &f->m, &tau, second, &ask, &info);
    f->work[0] = MAX_OF(MAX_OF(cpu_factor_work(f, first), cpu_factor_work(f, second)), f->n);
    f->room += cpu_factor_aligned((size_t)k * (size_t)f->item) + (size_t)f->work[0] * (size_t)f->item;
}

bool cpu_qr(const struct call *c) {
    struct factor f;
    int info;
    if (!cpu_factor_open(&f, c, "geqrf", "orgqr"))
        return false;
    f.one = qr_one;
    ask_qr(&f);
    return cpu_factor_run(&f, &info) && (!info || failed(&f, "could not be factored", info));
}
