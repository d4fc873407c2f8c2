// cpu_spectrum.c - singular values, eigenvalues and their vectors by LAPACK.
//
// LAPACK's complex functions take one more work area than the real ones, of real numbers.

#include "device/cpu/linalg/linalg.h"

typedef void gesdd_fn(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                      const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork,
                      int *info, size_t);
typedef void complex_gesdd_fn(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s,
                              void *u, const int *ldu, void *vt, const int *ldvt, void *work,
                              const int *lwork, void *rwork, int *iwork, int *info, size_t);
typedef void syevd_fn(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w,
                      void *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void heevd_fn(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w,
                      void *work, const int *lwork, void *rwork, const int *lrwork, int *iwork,
                      const int *liwork, int *info, size_t, size_t);
typedef void geev_fn(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda, void *wr,
                     void *wi, void *vl, const int *ldvl, void *vr, const int *ldvr, void *work,
                     const int *lwork, int *info, size_t, size_t);
typedef void complex_geev_fn(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda,
                             void *w, void *vl, const int *ldvl, void *vr, const int *ldvr, void *work,
                             const int *lwork, void *rwork, int *info, size_t, size_t);

enum { THREADED = 1 << 27 }; // 256 x 256: 1.02 to 1.16 of the time with two threads (Neoverse-V1, 2026-11)

#define FUNCTION(type, name, f) \
    type *name;                 \
    *(void **)&name = (f)->function[0]

static bool is_complex(const struct factor *f) {
    return f->dtype == ZL_COMPLEX64;
}

// Returns the bytes of a real number, such as an eigenvalue of a complex Hermitian matrix.
static size_t real_size(const struct factor *f) {
    return f->dtype == ZL_FLOAT64 ? 8 : 4;
}

bool cpu_spectrum_failed(const struct factor *f, int info) {
    return error_false(ZL_ERROR_DEVICE,
                       "%s: the values of a matrix of shape %s were not found (LAPACK says %d)",
                       f->c->op->name, array_text(f->c->in[0]), info);
}

// Singular values -------------------------------------------------------------------------------------------

struct svd_areas {
    char *s, *u, *vt, *work, *rwork;
    int *iwork;
};

static size_t svd_rwork(const struct factor *f) {
    size_t least = (size_t)MIN_OF(f->m, f->n), most = (size_t)MAX_OF(f->m, f->n);
    return is_complex(f) ? least * MAX_OF(5 * least + 7, 2 * most + 2 * least + 1) * 4 : 0;
}

static bool wants_vectors(const struct factor *f) {
    return f->c->outputs > 1;
}

// Assigns the arrays their addresses in workspace, unless that is NULL. Returns the bytes that they take.
static size_t svd_place(const struct factor *f, char *workspace, struct svd_areas *a) {
    size_t m = (size_t)f->m, n = (size_t)f->n, k = MIN_OF(m, n), item = (size_t)f->item;
    size_t used = 0;
    a->s = cpu_factor_take(workspace, &used, k * real_size(f));
    a->u = cpu_factor_take(workspace, &used, wants_vectors(f) ? m * m * item : 0);
    a->vt = cpu_factor_take(workspace, &used, wants_vectors(f) ? n * n * item : 0);
    a->work = cpu_factor_take(workspace, &used, (size_t)f->work[0] * item);
    a->rwork = cpu_factor_take(workspace, &used, svd_rwork(f));
    a->iwork = cpu_factor_take(workspace, &used, 8 * k * sizeof(int));
    return used;
}

static int gesdd(const struct factor *f, void *matrix, const struct svd_areas *a, void *work, int lwork) {
    const char *job = wants_vectors(f) ? "A" : "N";
    int info = 0;
    if (is_complex(f)) {
        FUNCTION(complex_gesdd_fn, function, f);
        function(job, &f->m, &f->n, matrix, &f->m, a->s, a->u, &f->m, a->vt, &f->n, work, &lwork, a->rwork,
                 a->iwork, &info, 1);
    } else {
        FUNCTION(gesdd_fn, function, f);
        function(job, &f->m, &f->n, matrix, &f->m, a->s, a->u, &f->m, a->vt, &f->n, work, &lwork, a->iwork,
                 &info, 1);
    }
    return info;
}

static int svd_one(const struct factor *f, int64_t at, char *workspace) {
    struct svd_areas a;
    bool vectors = wants_vectors(f);
    svd_place(f, workspace + cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item), &a);
    int info = gesdd(f, workspace, &a, a.work, f->work[0]);
    memcpy(cpu_factor_output(f, vectors, at), a.s, (size_t)MIN_OF(f->m, f->n) * real_size(f));
    if (vectors) {
        cpu_factor_store(f, 0, at, a.u, f->m, f->m, f->m);
        cpu_factor_store(f, 2, at, a.vt, f->n, f->n, f->n);
    }
    return info;
}

bool cpu_svd(const struct call *c) {
    struct factor f;
    struct svd_areas a;
    double answer[2] = {0}, none[2] = {0};
    int info, iwork = 0;
    if (cpu_condenses(c->in[0]))
        return cpu_svd_condensed(c);
    if (!cpu_factor_open(&f, c, "gesdd"))
        return false;
    a = (struct svd_areas){(char *)none, (char *)none, (char *)none, NULL, (char *)none, &iwork};
    gesdd(&f, none, &a, answer, -1);
    f.work[0] = cpu_factor_work(&f, answer);
    f.one = svd_one;
    f.finite = true;
    f.threaded = THREADED;
    f.workspace += svd_place(&f, NULL, &a);
    return cpu_factor_run(&f, &info) && (!info || cpu_spectrum_failed(&f, info));
}

// Symmetric and Hermitian matrices --------------------------------------------------------------------------

struct eigh_areas {
    char *w, *work, *rwork;
    int *iwork;
};

static size_t eigh_place(const struct factor *f, char *workspace, struct eigh_areas *a) {
    size_t used = 0;
    a->w = cpu_factor_take(workspace, &used, (size_t)f->n * real_size(f));
    a->work = cpu_factor_take(workspace, &used, (size_t)f->work[0] * (size_t)f->item);
    a->rwork = cpu_factor_take(workspace, &used, (size_t)f->work[1] * 4);
    a->iwork = cpu_factor_take(workspace, &used, (size_t)f->work[2] * sizeof(int));
    return used;
}

// Calls LAPACK. work: elements of the three work areas; -1 asks for these numbers.
static int eigh(const struct factor *f, void *matrix, const struct eigh_areas *a, const int *work) {
    const char *job = wants_vectors(f) ? "V" : "N", *triangle = call_args(f->c)[0] ? "U" : "L";
    int info = 0;
    if (is_complex(f)) {
        FUNCTION(heevd_fn, function, f);
        function(job, triangle, &f->n, matrix, &f->n, a->w, a->work, &work[0], a->rwork, &work[1], a->iwork,
                 &work[2], &info, 1, 1);
    } else {
        FUNCTION(syevd_fn, function, f);
        function(job, triangle, &f->n, matrix, &f->n, a->w, a->work, &work[0], a->iwork, &work[2], &info, 1,
                 1);
    }
    return info;
}

static int eigh_one(const struct factor *f, int64_t at, char *workspace) {
    struct eigh_areas a;
    eigh_place(f, workspace + cpu_factor_aligned((size_t)f->n * (size_t)f->n * (size_t)f->item), &a);
    int info = eigh(f, workspace, &a, f->work);
    memcpy(cpu_factor_output(f, 0, at), a.w, (size_t)f->n * real_size(f));
    if (wants_vectors(f))
        cpu_factor_store(f, 1, at, workspace, f->n, f->n, f->n);
    return info;
}

bool cpu_eigh(const struct call *c) {
    struct factor f;
    double answer[2] = {0}, real = 0, none[2] = {0};
    int info, whole = 0;
    if (cpu_condenses(c->in[0]))
        return cpu_eigh_condensed(c);
    if (!cpu_factor_open(&f, c, c->in[0]->dtype == ZL_COMPLEX64 ? "heevd" : "syevd"))
        return false;
    struct eigh_areas a = {(char *)none, (char *)answer, (char *)&real, &whole};
    eigh(&f, none, &a, (const int[]){-1, -1, -1});
    f.work[0] = cpu_factor_work(&f, answer);
    f.work[1] = is_complex(&f) ? cpu_factor_work(&f, &real) : 0;
    f.work[2] = MAX_OF(whole, 1);
    f.one = eigh_one;
    f.finite = true;
    f.threaded = THREADED;
    f.workspace += eigh_place(&f, NULL, &a);
    return cpu_factor_run(&f, &info) && (!info || cpu_spectrum_failed(&f, info));
}

// Other matrices --------------------------------------------------------------------------------------------

struct eig_areas {
    char *re, *im, *vectors, *work, *rwork; // of complex matrices, re holds the values
};

static size_t eig_place(const struct factor *f, char *workspace, struct eig_areas *a) {
    size_t n = (size_t)f->n, item = (size_t)f->item;
    size_t used = 0;
    a->re = cpu_factor_take(workspace, &used, n * item);
    a->im = cpu_factor_take(workspace, &used, n * item);
    a->vectors = cpu_factor_take(workspace, &used, wants_vectors(f) ? n * n * item : item);
    a->work = cpu_factor_take(workspace, &used, (size_t)f->work[0] * item);
    a->rwork = cpu_factor_take(workspace, &used, is_complex(f) ? 2 * n * 4 : 0);
    return used;
}

static int geev(const struct factor *f, void *matrix, const struct eig_areas *a, void *work, int lwork) {
    const char *job = wants_vectors(f) ? "V" : "N";
    int info = 0, one = 1;
    double unused[2];
    if (is_complex(f)) {
        FUNCTION(complex_geev_fn, function, f);
        function("N", job, &f->n, matrix, &f->n, a->re, unused, &one, a->vectors, &f->n, work, &lwork,
                 a->rwork, &info, 1, 1);
    } else {
        FUNCTION(geev_fn, function, f);
        function("N", job, &f->n, matrix, &f->n, a->re, a->im, unused, &one, a->vectors, &f->n, work, &lwork,
                 &info, 1, 1);
    }
    return info;
}

static float number_at(const struct factor *f, const char *list, int64_t i) {
    return f->dtype == ZL_FLOAT64 ? (float)((const double *)(const void *)list)[i]
                                  : ((const float *)(const void *)list)[i];
}

// Converts the eigenvectors of a real matrix to complex. For a conjugate pair of eigenvalues, LAPACK returns
// the real and the imaginary part of one vector in two columns; the other vector is its conjugate.
static void join_vectors(const struct factor *f, const struct eig_areas *a, float *out) {
    int64_t n = f->n;
    for (int64_t j = 0; j < n; j++) {
        float im = number_at(f, a->im, j);
        int64_t first = im < 0 ? j - 1 : j;
        for (int64_t i = 0; i < n; i++) {
            out[2 * (i * n + j)] = number_at(f, a->vectors, first * n + i);
            float part = im == 0 ? 0 : number_at(f, a->vectors, (first + 1) * n + i);
            out[2 * (i * n + j) + 1] = im < 0 ? -part : part;
        }
    }
}

static int eig_one(const struct factor *f, int64_t at, char *workspace) {
    struct eig_areas a;
    eig_place(f, workspace + cpu_factor_aligned((size_t)f->n * (size_t)f->n * (size_t)f->item), &a);
    int info = geev(f, workspace, &a, a.work, f->work[0]);
    float *values = (float *)(void *)cpu_factor_output(f, 0, at);
    if (is_complex(f)) {
        memcpy(values, a.re, (size_t)f->n * 8);
        if (wants_vectors(f))
            cpu_factor_store(f, 1, at, a.vectors, f->n, f->n, f->n);
        return info;
    }
    for (int64_t i = 0; i < f->n; i++) {
        values[2 * i] = number_at(f, a.re, i);
        values[2 * i + 1] = number_at(f, a.im, i);
    }
    if (wants_vectors(f) && !info)
        join_vectors(f, &a, (float *)(void *)cpu_factor_output(f, 1, at));
    return info;
}

bool cpu_eig(const struct call *c) {
    struct factor f;
    double answer[2] = {0}, none[2] = {0};
    int info;
    if (c->outputs == 1 && cpu_has_eigenvalues(c->in[0]))
        return cpu_eigenvalues(c);
    if (!cpu_factor_open(&f, c, "geev"))
        return false;
    struct eig_areas a = {(char *)none, (char *)none, (char *)none, NULL, (char *)none};
    geev(&f, none, &a, answer, -1);
    f.work[0] = cpu_factor_work(&f, answer);
    f.one = eig_one;
    f.finite = true;
    f.threaded = THREADED;
    f.workspace += eig_place(&f, NULL, &a);
    return cpu_factor_run(&f, &info) && (!info || cpu_spectrum_failed(&f, info));
}
