// cuda_solver.h - cuSOLVER: its functions, which take matrices by columns, and the common parts of their
// calls.

#ifndef CUDA_SOLVER_H
#define CUDA_SOLVER_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

typedef struct solver_ *solver;
typedef struct solver_parameters_ *solver_parameters;

enum { SOLVER_LOWER = 0, SOLVER_UPPER = 1 };

// After the name: the parameters of each function between its handle (and parameters object) and the sizes of
// its workspaces.
#define SOLVER_FUNCTIONS(F)                                                                                  \
    F(cusolverDnCreate, (solver * out))                                                                      \
    F(cusolverDnSetStream, (solver s, cuda_stream stream))                                                   \
    F(cusolverDnCreateParams, (solver_parameters * out))                                                     \
    F(cusolverDnXpotrf_bufferSize,                                                                           \
      (solver s, solver_parameters p, int uplo, int64_t n, int type, const void *a, int64_t step,            \
       int computes_in, size_t *work, size_t *host))                                                         \
    F(cusolverDnXpotrf,                                                                                      \
      (solver s, solver_parameters p, int uplo, int64_t n, int type, void *a, int64_t step, int computes_in, \
       void *work, size_t bytes, void *host, size_t host_bytes, int *info))                                  \
    F(cusolverDnXgetrf_bufferSize,                                                                           \
      (solver s, solver_parameters p, int64_t m, int64_t n, int type, const void *a, int64_t step,           \
       int computes_in, size_t *work, size_t *host))                                                         \
    F(cusolverDnXgetrf,                                                                                      \
      (solver s, solver_parameters p, int64_t m, int64_t n, int type, void *a, int64_t step, int64_t *pivot, \
       int computes_in, void *work, size_t bytes, void *host, size_t host_bytes, int *info))                 \
    F(cusolverDnXgetrs,                                                                                      \
      (solver s, solver_parameters p, int transposed, int64_t n, int64_t columns, int type, const void *a,   \
       int64_t step, const int64_t *pivot, int b_type, void *b, int64_t b_step, int *info))                  \
    F(cusolverDnXgeqrf_bufferSize,                                                                           \
      (solver s, solver_parameters p, int64_t m, int64_t n, int type, const void *a, int64_t step,           \
       int tau_type, const void *tau, int computes_in, size_t *work, size_t *host))                          \
    F(cusolverDnXgeqrf,                                                                                      \
      (solver s, solver_parameters p, int64_t m, int64_t n, int type, void *a, int64_t step, int tau_type,   \
       void *tau, int computes_in, void *work, size_t bytes, void *host, size_t host_bytes, int *info))      \
    F(cusolverDnSorgqr_bufferSize,                                                                           \
      (solver s, int m, int n, int k, const void *a, int step, const void *tau, int *items))                 \
    F(cusolverDnDorgqr_bufferSize,                                                                           \
      (solver s, int m, int n, int k, const void *a, int step, const void *tau, int *items))                 \
    F(cusolverDnSorgqr,                                                                                      \
      (solver s, int m, int n, int k, void *a, int step, const void *tau, void *work, int items, int *info)) \
    F(cusolverDnDorgqr,                                                                                      \
      (solver s, int m, int n, int k, void *a, int step, const void *tau, void *work, int items, int *info)) \
    F(cusolverDnXsyevd_bufferSize,                                                                           \
      (solver s, solver_parameters p, int vectors, int uplo, int64_t n, int type, const void *a,             \
       int64_t step, int w_type, const void *w, int computes_in, size_t *work, size_t *host))                \
    F(cusolverDnXsyevd, (solver s, solver_parameters p, int vectors, int uplo, int64_t n, int type, void *a, \
                         int64_t step, int w_type, void *w, int computes_in, void *work, size_t bytes,       \
                         void *host, size_t host_bytes, int *info))                                          \
    F(cusolverDnXgesvd_bufferSize,                                                                           \
      (solver s, solver_parameters p, signed char u_how, signed char v_how, int64_t m, int64_t n, int type,  \
       const void *a, int64_t step, int w_type, const void *w, int u_type, const void *u, int64_t u_step,    \
       int v_type, const void *v, int64_t v_step, int computes_in, size_t *work, size_t *host))              \
    F(cusolverDnXgesvd,                                                                                      \
      (solver s, solver_parameters p, signed char u_how, signed char v_how, int64_t m, int64_t n, int type,  \
       void *a, int64_t step, int w_type, void *w, int u_type, void *u, int64_t u_step, int v_type, void *v, \
       int64_t v_step, int computes_in, void *work, size_t bytes, void *host, size_t host_bytes, int *info))

struct solver_api {
#define MEMBER(name, parameters) int(*name) parameters;
    SOLVER_FUNCTIONS(MEMBER)
#undef MEMBER
};
// Returns cuSOLVER's functions, which may be called once cuda_factor_can() has returned true.
const struct solver_api *solver_api(void);

// Functions that older versions do not have.
#define SOLVER_GEEV(F)                                                                                      \
    F(cusolverDnXgeev_bufferSize,                                                                           \
      (solver s, solver_parameters p, int left, int right, int64_t n, int type, const void *a,              \
       int64_t step, int w_type,                                                                            \
       const void *w, int l_type, const void *l, int64_t l_step, int r_type, const void *r, int64_t r_step, \
       int computes_in, size_t *bytes, size_t *host_bytes))                                                 \
    F(cusolverDnXgeev,                                                                                      \
      (solver s, solver_parameters p, int left, int right, int64_t n, int type, void *a, int64_t step,      \
       int w_type,                                                                                          \
       void *w, int l_type, void *l, int64_t l_step, int r_type, void *r, int64_t r_step, int computes_in,  \
           void *work,                                                                                      \
       size_t bytes, void *host, size_t host_bytes, int *info))

struct solver_geev {
#define MEMBER(name, parameters) int(*name) parameters;
    SOLVER_GEEV(MEMBER)
#undef MEMBER
};
// Returns them, after cuda_factor_can(); its members are NULL if the version lacks them.
const struct solver_geev *solver_geev(void);

// A call on every matrix of a batch, one after the other.
struct solving {
    const struct kernel_place *p;
    const struct call *c;
    solver s;
    solver_parameters parameters;
    int64_t batch, m, n, item; // item: bytes of an element
    int type, real;            // cuSOLVER's types of elements and of real results
    char *a;                   // copies of the matrices, which may be written
    struct kernel_scratch copy, work, more, result, values, info;
    void *host; // the workspace on the host
    size_t bytes, host_bytes;
};

// Locks the lane's solver until solving_close(), which has to follow in any case, and copies the matrices,
// transposed if `transposed`. Returns false, with an error, if that fails.
bool solving_open(struct solving *s, const struct kernel_place *p, const struct call *c, bool transposed);
// Allocates work areas of so many bytes on the device and on the host. failed: what cuSOLVER returned when
// asked for these sizes. Returns false, with an error, if it is not 0 or memory runs out.
bool solving_work(struct solving *s, int failed, size_t work, size_t host);
// Return, of matrix i, memory of the device: cuSOLVER's info; the copy.
int *solving_info(const struct solving *s, int64_t i);
char *solving_matrix(const struct solving *s, int64_t i);
// Returns where matrix i of an output begins, or NULL and an error.
char *solving_output(const struct solving *s, int output, int64_t i);
// Waits for the work, checks each info, and frees and unlocks everything. failed: 0, or the code of what
// failed. what: what is wrong with a matrix whose info is positive, for the error; NULL: that is no error.
enum kernel_taken solving_close(struct solving *s, int failed, const char *what);

// Stores column-major matrices, rows x cols, to an output, row-major. Columns are `step`, matrices `next`
// elements apart. Returns false, with an error, if that fails.
bool solving_store(const struct solving *s, int output, zl_dtype dtype, char *from, int64_t rows,
                   int64_t cols, int64_t step, int64_t next);
enum solving_fill { FILL_ABOVE, FILL_BELOW, FILL_UNIT };
// Fills row-major matrices with zeros, above or below their diagonals, or makes each of them an identity.
// Returns false, with an error, if that fails.
bool solving_fill(const struct solving *s, void *to, int64_t rows, int64_t cols, enum solving_fill how);

#endif
