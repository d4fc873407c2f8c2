// linalg.h - factorisations, inverses and spectra of matrices, by LAPACK and by algorithms of our own.

#ifndef LINALG_H
#define LINALG_H

#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

// lapack.c, factor.c, cpu_factor.c, cpu_spectrum.c ----------------------------------------------------------

// Returns a function of LAPACK by its Fortran name, such as "sgetrf_", or NULL and ZL_ERROR_LIBRARY.
void *cpu_lapack(const char *symbol);
// Returns the library's function that sets its number of threads, or NULL. A function must have been found
// before.
blas_threads *cpu_lapack_threads(void);

// A factorisation of each matrix of a batch by functions of LAPACK.
struct factor {
    const struct call *c;
    zl_dtype dtype;
    int64_t item;
    int m, n;              // rows and columns
    int64_t row, col;      // strides of the input, in elements
    struct layout batch;   // operand: the input
    bool transposed;       // the transposed matrix is factorised, because the input is row-major
    void *function[5];     // of LAPACK, in the order of the names that were looked up
    int work[3];           // elements of LAPACK's work areas
    int64_t threaded;      // operations above which LAPACK may use threads of its own; 0: never
    bool finite;           // the input must be finite: otherwise LAPACK prints a message or never returns
    size_t workspace;      // bytes of memory for one matrix, whose elements come first
    // Factorises matrix number `at`, which is column-major in `workspace`; returns LAPACK's info.
    int (*one)(const struct factor *f, int64_t at, char *workspace);
    atomic_int info; // of a matrix that failed
};
enum { CPU_FACTOR_NO_MEMORY = INT_MIN, CPU_FACTOR_NOT_FINITE = INT_MAX }; // values that are no info of LAPACK
// Sets f from the call, and finds functions by their names without the letter of the dtype, as in "getrf
// trsm". Returns false, with an error, if one is missing.
bool cpu_factor_open(struct factor *f, const struct call *c, const char *functions);
// Calls f->one for all matrices. Sets *info to 0, or to the info of one that failed. Returns false, with an
// error, for failures outside LAPACK.
bool cpu_factor_run(struct factor *f, int *info);
// Stores a column-major matrix into output k of matrix `at`; columns are `column` elements apart.
void cpu_factor_store(const struct factor *f, int k, int64_t at, const char *from, int64_t rows, int64_t cols,
                      int64_t column);
// Returns the address of output k of matrix `at`.
char *cpu_factor_output(const struct factor *f, int k, int64_t at);

// blocked.c: recursive algorithms for matrices of n columns, `lead` elements apart, with the functions of
// FACTOR_BLOCKED. They return LAPACK's info.
#define FACTOR_BLOCKED "trtri getrf trsm laswp potrf"
enum { FACTOR_TRTRI, FACTOR_GETRF, FACTOR_TRSM, FACTOR_LASWP, FACTOR_POTRF };
// Replaces the lower triangle of a by its Cholesky factor, as potrf does.
int cpu_blocked_cholesky(const struct factor *f, int n, char *a, int lead);
// Inverts a triangular matrix whose other triangle is 0. workspace has n * n / 4 + n elements.
int cpu_invert_triangle(const struct factor *f, bool upper, int n, char *a, int lead, char *workspace);
// Replaces a (m x n) by its factors L and U, and stores the row exchanges in pivot, as getrf does.
int cpu_blocked_lu(const struct factor *f, int m, int n, char *a, int lead, int *pivot);
// Writes the inverse of a to x, and overwrites a.
int cpu_blocked_inverse(const struct factor *f, char *a, char *x, char *workspace, int *pivot);
// Returns the size of a work area, which LAPACK reports as a number of the dtype.
int cpu_factor_work(const struct factor *f, const void *answer);
// Rounds up to the alignment of work areas.
static inline size_t cpu_factor_aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}
// Returns the next `bytes` bytes of workspace and adds them, aligned, to *used. If workspace is NULL, only
// adds them and returns NULL.
static inline void *cpu_factor_take(char *workspace, size_t *used, size_t bytes) {
    char *part = workspace ? workspace + *used : NULL;
    *used += cpu_factor_aligned(bytes);
    return part;
}

// condense.c: reduces real column-major matrices by Householder reflections, which are left in the matrices
// as LAPACK leaves them.
struct condensed {
    void *d, *e;          // the diagonal, and the subdiagonal or superdiagonal
    void *tau, *tau_row;  // factors of the reflections of columns and, for bidiagonal matrices, of rows
    void *workspace;      // 4 (m + n) elements
};
// Reduces a symmetric matrix (n x n), of which it uses the lower triangle, to a tridiagonal one.
void cpu_tridiagonal(zl_dtype dtype, int n, void *a, const struct condensed *c);
// Reduces a matrix (m x n, m >= n) to an upper bidiagonal one.
void cpu_bidiagonal(zl_dtype dtype, int m, int n, void *a, const struct condensed *c);
// Reduces a matrix (n x n) to an upper Hessenberg one, without its reflections; workspace has 6 n elements.
void cpu_hessenberg(zl_dtype dtype, int64_t n, void *a, void *workspace);
// Scales by a power of two if squares of elements could overflow or underflow, and returns the exponent, for
// cpu_scale_back.
int  cpu_normalize(zl_dtype dtype, void *a, int64_t count);
// Multiplies values by 2^exponent.
void cpu_scale_back(zl_dtype dtype, void *values, int64_t count, int exponent);

// cpu_condensed.c: eigh and svd of matrices that are condensed first.

// Returns whether that is faster than LAPACK.
bool cpu_condenses(zl_array x);
// Runs a call of eigh. Returns false, with an error, if it fails.
bool cpu_eigh_condensed(const struct call *c);
// Runs a call of svd. Returns false, with an error, if it fails.
bool cpu_svd_condensed(const struct call *c);
// Returns false, with an error that names LAPACK's info.
bool cpu_spectrum_failed(const struct factor *f, int info);

// cpu_eigenvalues.c: eigenvalues without vectors.

// Returns whether that is faster than LAPACK.
bool cpu_has_eigenvalues(zl_array x);
// Runs a call of eig that wants no vectors. Returns false, with an error, if it fails.
bool cpu_eigenvalues(const struct call *c);

#endif
