// cusolver.c - a libcusolver.so.12 for tests: triangular factorisations of column-major matrices, and
// eigenvalues, computed on the host at once. Other functions of the library fail.

#include "fake.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { F32 = 0, F64 = 1, C64 = 4, C128 = 5, LOWER = 0, WORK = 256, NOT_SUPPORTED = 9 };

struct solver {
    void *stream;
};

#define MISSING(name)         \
    int name(void);           \
    int name(void) {          \
        return NOT_SUPPORTED; \
    }
MISSING(cusolverDnXgeqrf_bufferSize)
MISSING(cusolverDnXgeqrf)
MISSING(cusolverDnSorgqr_bufferSize)
MISSING(cusolverDnDorgqr_bufferSize)
MISSING(cusolverDnSorgqr)
MISSING(cusolverDnDorgqr)
MISSING(cusolverDnXsyevd_bufferSize)
MISSING(cusolverDnXsyevd)
MISSING(cusolverDnXgesvd_bufferSize)
MISSING(cusolverDnXgesvd)

int cusolverDnCreate(struct solver **out) {
    return (*out = calloc(1, sizeof **out)) ? 0 : 2;
}

int cusolverDnSetStream(struct solver *s, void *stream) {
    s->stream = stream;
    return 0;
}

int cusolverDnCreateParams(void **out) {
    return (*out = calloc(1, 1)) ? 0 : 2;
}

// Matrices --------------------------------------------------------------------------------------------------

// A matrix in the host's format, with strides; it is written back to its memory.
struct matrix {
    int64_t rows, columns, step;
    int type;
    void *memory;
    double complex *at;
};

static double complex *at(const struct matrix *a, int64_t row, int64_t column) {
    return &a->at[column * a->rows + row];
}

static struct matrix take(const void *memory, int type, int64_t rows, int64_t columns, int64_t step) {
    struct matrix a = {rows, columns,           step,
                       type, fake_show(memory), malloc(sizeof *a.at * (size_t)(rows * columns + 1))};
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t from = i / rows * step + i % rows;
        a.at[i] = type == F32   ? ((float *)a.memory)[from]
                  : type == F64 ? ((double *)a.memory)[from]
                  : type == C64 ? (double complex)((float complex *)a.memory)[from]
                                : ((double complex *)a.memory)[from];
    }
    return a;
}

static void give(struct matrix *a, int writes) {
    for (int64_t i = 0; writes && i < a->rows * a->columns; i++) {
        int64_t to = i / a->rows * a->step + i % a->rows;
        if (a->type == F32)
            ((float *)a->memory)[to] = (float)creal(a->at[i]);
        else if (a->type == F64)
            ((double *)a->memory)[to] = creal(a->at[i]);
        else if (a->type == C64)
            ((float complex *)a->memory)[to] = (float complex)a->at[i];
        else
            ((double complex *)a->memory)[to] = a->at[i];
    }
    free(a->at);
}

static int begin(const struct solver *s, const void *work, size_t bytes) {
    return work && bytes >= WORK ? cuStreamSynchronize(s->stream) : NOT_SUPPORTED;
}

static int ask(size_t *work, size_t *host) {
    *work = WORK;
    *host = 0;
    return 0;
}

// Triangles -------------------------------------------------------------------------------------------------

int cusolverDnXpotrf_bufferSize(struct solver *s, void *p, int uplo, int64_t n, int type, const void *a,
                                int64_t step, int computes_in, size_t *work, size_t *host) {
    (void)s, (void)p, (void)uplo, (void)n, (void)type, (void)a, (void)step, (void)computes_in;
    return ask(work, host);
}

// The other triangle does not change.
int cusolverDnXpotrf(struct solver *s, void *p, int uplo, int64_t n, int type, void *memory, int64_t step,
                     int computes_in, void *work, size_t bytes, void *host, size_t host_bytes, int *info) {
    (void)p, (void)computes_in, (void)host, (void)host_bytes;
    if (begin(s, work, bytes))
        return NOT_SUPPORTED;
    struct matrix a = take(memory, type, n, n, step);
    int failed = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            double complex *to = uplo == LOWER ? at(&a, i, j) : at(&a, j, i);
            for (int64_t k = 0; k < j; k++)
                *to -=
                    uplo == LOWER ? *at(&a, i, k) * conj(*at(&a, j, k)) : conj(*at(&a, k, j)) * *at(&a, k, i);
            if (i == j && !(creal(*to) > 0) && !failed)
                failed = (int)j + 1;
            *to = i == j ? csqrt(*to) : *to / *at(&a, j, j);
        }
    give(&a, 1);
    *(int *)fake_show(info) = failed;
    return 0;
}

int cusolverDnXgetrf_bufferSize(struct solver *s, void *p, int64_t m, int64_t n, int type, const void *a,
                                int64_t step, int computes_in, size_t *work, size_t *host) {
    (void)s, (void)p, (void)m, (void)n, (void)type, (void)a, (void)step, (void)computes_in;
    return ask(work, host);
}

static void swap_rows(const struct matrix *a, int64_t i, int64_t j) {
    for (int64_t k = 0; k < a->columns; k++) {
        double complex x = *at(a, i, k);
        *at(a, i, k) = *at(a, j, k);
        *at(a, j, k) = x;
    }
}

int cusolverDnXgetrf(struct solver *s, void *p, int64_t m, int64_t n, int type, void *memory, int64_t step,
                     int64_t *pivot, int computes_in, void *work, size_t bytes, void *host, size_t host_bytes,
                     int *info) {
    (void)p, (void)computes_in, (void)host, (void)host_bytes;
    if (begin(s, work, bytes))
        return NOT_SUPPORTED;
    struct matrix a = take(memory, type, m, n, step);
    int failed = 0;
    pivot = fake_show(pivot);
    for (int64_t j = 0; j < (m < n ? m : n); j++) {
        int64_t most = j;
        for (int64_t i = j; i < m; i++)
            most = cabs(*at(&a, i, j)) > cabs(*at(&a, most, j)) ? i : most;
        pivot[j] = most + 1;
        swap_rows(&a, j, most);
        if (*at(&a, j, j) == 0 && !failed)
            failed = (int)j + 1;
        for (int64_t i = j + 1; i < m && *at(&a, j, j) != 0; i++) {
            *at(&a, i, j) /= *at(&a, j, j);
            for (int64_t k = j + 1; k < n; k++)
                *at(&a, i, k) -= *at(&a, i, j) * *at(&a, j, k);
        }
    }
    give(&a, 1);
    *(int *)fake_show(info) = failed;
    return 0;
}

// Replaces x by the solution of a triangular system. turned: that of the transposed triangle.
static void solve(const struct matrix *a, int lower, int unit, int turned, const struct matrix *x) {
    int64_t n = a->rows;
    for (int64_t c = 0; c < x->columns; c++)
        for (int64_t e = 0; e < n; e++) {
            int64_t i = lower != turned ? e : n - 1 - e;
            for (int64_t d = 0; d < e; d++) {
                int64_t j = lower != turned ? d : n - 1 - d;
                *at(x, i, c) -= (turned ? *at(a, j, i) : *at(a, i, j)) * *at(x, j, c);
            }
            *at(x, i, c) /= unit ? 1 : *at(a, i, i);
        }
}

int cusolverDnXgetrs(struct solver *s, void *p, int turned, int64_t n, int64_t columns, int type,
                     const void *memory, int64_t step, const int64_t *pivot, int b_type, void *b,
                     int64_t b_step, int *info) {
    (void)p;
    if (cuStreamSynchronize(s->stream))
        return NOT_SUPPORTED;
    struct matrix a = take(memory, type, n, n, step), x = take(b, b_type, n, columns, b_step);
    pivot = fake_show(pivot);
    for (int64_t i = 0; i < n && !turned; i++)
        swap_rows(&x, i, pivot[i] - 1);
    solve(&a, !turned, !turned, turned, &x);
    solve(&a, turned, turned, turned, &x);
    for (int64_t i = n - 1; i >= 0 && turned; i--)
        swap_rows(&x, i, pivot[i] - 1);
    give(&a, 0);
    give(&x, 1);
    *(int *)fake_show(info) = 0;
    return 0;
}

// Eigenvalues -----------------------------------------------------------------------------------------------

int cusolverDnXgeev_bufferSize(struct solver *s, void *p, int left, int right, int64_t n, int type,
                               const void *a, int64_t step, int w_type, const void *w, int l_type,
                               const void *l, int64_t l_step, int r_type, const void *r, int64_t r_step,
                               int computes_in, size_t *work, size_t *host) {
    (void)s, (void)p, (void)left, (void)right, (void)n, (void)type, (void)a, (void)step, (void)w_type,
        (void)w;
    (void)l_type, (void)l, (void)l_step, (void)r_type, (void)r, (void)r_step, (void)computes_in;
    return ask(work, host);
}

// Rotates rows, or columns, i and i + 1.
static void turn(const struct matrix *a, int of_rows, int64_t i, double c, double complex s) {
    for (int64_t k = 0; k < a->rows; k++) {
        double complex *x = of_rows ? at(a, i, k) : at(a, k, i),
                       *y = of_rows ? at(a, i + 1, k) : at(a, k, i + 1), old = *x;
        *x = of_rows ? c * old + conj(s) * *y : c * old + s * *y;
        *y = of_rows ? c * *y - s * old : c * *y - conj(s) * old;
    }
}

// Rotates rows i and i + 1 such that y of (x, y) becomes zero, and columns the other way round, also those of
// q.
static void rotate(const struct matrix *a, const struct matrix *q, int64_t i, double complex x,
                   double complex y) {
    double length = hypot(cabs(x), cabs(y)), c = length > 0 ? cabs(x) / length : 1;
    double complex phase = cabs(x) > 0 ? x / cabs(x) : 1, s = length > 0 ? y * conj(phase) / length : 0;
    turn(a, 1, i, c, s);
    turn(a, 0, i, c, s);
    turn(q, 0, i, c, s);
}

// Returns whether the element to the left of a row's diagonal is negligible.
static int is_cut(const struct matrix *a, int64_t row) {
    double beside = cabs(*at(a, row, row)) + cabs(*at(a, row - 1, row - 1));
    return cabs(*at(a, row, row - 1)) <= 1e-15 * beside;
}

// Returns the eigenvalue of the last two rows and columns that is nearer to the last element.
static double complex shift_of(const struct matrix *a, int64_t last) {
    double complex end = *at(a, last, last), half = (*at(a, last - 1, last - 1) - end) / 2,
                   product = *at(a, last - 1, last) * *at(a, last, last - 1),
                   root = csqrt(half * half + product);
    double complex divisor = cabs(half + root) > cabs(half - root) ? half + root : half - root;
    return divisor == 0 ? end : end - product / divisor;
}

// Makes a triangular by rotations that are accumulated in q: first to Hessenberg form, then by shifted QR
// steps. Returns how many rows are left if that takes too long.
static int64_t make_triangular(const struct matrix *a, const struct matrix *q) {
    int64_t n = a->rows, last = n - 1;
    for (int64_t j = 0; j < n - 2; j++)
        for (int64_t i = n - 2; i > j; i--)
            rotate(a, q, i, *at(a, i, j), *at(a, i + 1, j));
    for (int64_t steps = 0; last > 0 && steps < 100 * n; steps++) {
        if (is_cut(a, last)) {
            *at(a, last, last - 1) = 0;
            last--;
            continue;
        }
        int64_t first = last - 1;
        while (first > 0 && !is_cut(a, first))
            first--;
        rotate(a, q, first, *at(a, first, first) - shift_of(a, last), *at(a, first + 1, first));
        for (int64_t i = first + 1; i < last; i++)
            rotate(a, q, i, *at(a, i, i - 1), *at(a, i + 1, i - 1));
    }
    return last;
}

// Computes the i-th eigenvector of a triangular matrix, transformed by q, with length 1.
static void find_vector(const struct matrix *a, const struct matrix *q, int64_t i, double complex *out) {
    double complex *y = calloc((size_t)a->rows, sizeof *y);
    double length = 0;
    y[i] = 1;
    for (int64_t row = i - 1; row >= 0; row--) {
        for (int64_t k = row + 1; k <= i; k++)
            y[row] -= *at(a, row, k) * y[k];
        y[row] /= *at(a, row, row) - *at(a, i, i);
    }
    for (int64_t row = 0; row < a->rows; row++) {
        out[row] = 0;
        for (int64_t k = 0; k <= i; k++)
            out[row] += *at(q, row, k) * y[k];
        length += creal(out[row] * conj(out[row]));
    }
    for (int64_t row = 0; row < a->rows; row++)
        out[row] /= sqrt(length);
    free(y);
}

int cusolverDnXgeev(struct solver *s, void *p, int left, int right, int64_t n, int type, void *memory,
                    int64_t step, int w_type, void *w, int l_type, void *l, int64_t l_step, int r_type,
                    void *r, int64_t r_step, int computes_in, void *work, size_t bytes, void *host,
                    size_t host_bytes, int *info) {
    (void)p, (void)l_type, (void)l, (void)l_step, (void)computes_in, (void)host, (void)host_bytes;
    if (left || (type != C64 && type != C128) || begin(s, work, bytes))
        return NOT_SUPPORTED;
    struct matrix a = take(memory, type, n, n, step), q = take(memory, type, n, n, step),
                  values = take(w, w_type, n, 1, n);
    memset(q.at, 0, sizeof *q.at * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++)
        *at(&q, i, i) = 1;
    int64_t left_over = make_triangular(&a, &q);
    for (int64_t i = 0; i < n; i++)
        values.at[i] = *at(&a, i, i);
    if (right) {
        struct matrix vectors = take(r, r_type, n, n, r_step);
        for (int64_t i = 0; i < n; i++)
            find_vector(&a, &q, i, at(&vectors, 0, i));
        give(&vectors, 1);
    }
    give(&a, 0);
    give(&q, 0);
    give(&values, 1);
    *(int *)fake_show(info) = (int)left_over;
    return 0;
}
