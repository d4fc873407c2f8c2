// cuda_eigen.c - eigenvalues and eigenvectors of general square matrices, by cuSOLVER, which has them since
// CUDA 12.6.
//
// Results are complex. Real matrices are converted to complex ones first: to complex128 if they are of f64,
// and then the results are rounded to complex64.

#include "device/cuda/cuda_solver.h"

enum { F64 = 1, C64 = 4, C128 = 5, NO_VECTORS = 0, VECTORS = 1 }; // of NVIDIA's headers

bool cuda_eig_can(const struct call *c) {
    return cuda_factor_can(c) && solver_geev()->cusolverDnXgeev;
}

// Numbers ---------------------------------------------------------------------------------------------------

// Converts the copies of real matrices to complex ones.
static bool widen(struct solving *s) {
    int64_t count = s->batch * s->n * s->n;
    if (s->type == C64)
        return true;
    char *to = kernel_scratch_open(s->p, &s->more, (size_t)(count * 2 * s->item)), *from = s->a;
    zl_dtype dtype = s->type == F64 ? ZL_FLOAT64 : ZL_FLOAT32;
    s->a = to;
    s->type = s->type == F64 ? C128 : C64;
    s->item *= 2;
    return cuda_pair_up(s->p, dtype, count, from, 0, to);
}

// Rounds complex128 matrices, which are stored by columns, to an output, which is complex64 and stored by
// rows.
static bool round_to(const struct solving *s, int output, void *from, int64_t rows, int64_t cols) {
    const int64_t dim[] = {s->batch, rows, cols, 2}, to_stride[] = {2 * rows * cols, 2 * cols, 2, 1},
                  from_stride[] = {2 * rows * cols, 2, 2 * rows, 1};
    char *to = solving_output(s, output, 0);
    return kernel_convert(s->p, 4, dim, ZL_FLOAT32, to, to_stride, ZL_FLOAT64, from, from_stride);
}

// Calls -----------------------------------------------------------------------------------------------------

// Returns where the eigenvalues of matrix i are written.
static char *values_of(const struct solving *s, int64_t i) {
    return s->type == C64 ? solving_output(s, 0, i) : (char *)s->values.memory + i * s->n * s->item;
}

static bool open_results(struct solving *s, int vectors) {
    size_t lines = (size_t)(s->batch * s->n * s->item);
    return (s->type == C64 || kernel_scratch_open(s->p, &s->values, lines)) &&
           (!vectors || kernel_scratch_open(s->p, &s->result, lines * (size_t)s->n));
}

static bool query(struct solving *s, int vectors) {
    size_t work = 0, host = 0;
    int type = s->type;
    int failed = solver_geev()->cusolverDnXgeev_bufferSize(
        s->s, s->parameters, NO_VECTORS, vectors, s->n, type, s->a, s->n, type, values_of(s, 0), type, NULL,
        s->n, type, s->result.memory, s->n, type, &work, &host);
    return solving_work(s, failed, work, host);
}

static int find_values(const struct solving *s, int vectors, int64_t i) {
    char *all = s->result.memory, *own = all ? all + i * s->n * s->n * s->item : NULL;
    int type = s->type;
    return solver_geev()->cusolverDnXgeev(s->s, s->parameters, NO_VECTORS, vectors, s->n, type,
                                          solving_matrix(s, i), s->n, type, values_of(s, i), type, NULL, s->n,
                                          type, own, s->n, type, s->work.memory, s->bytes, s->host,
                                          s->host_bytes, solving_info(s, i));
}

static bool store(const struct solving *s, int vectors) {
    if (s->type == C64)
        return !vectors || solving_store(s, 1, ZL_COMPLEX64, s->result.memory, s->n, s->n, s->n, s->n * s->n);
    return round_to(s, 0, s->values.memory, 1, s->n) &&
           (!vectors || round_to(s, 1, s->result.memory, s->n, s->n));
}

enum kernel_taken cuda_eig(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int vectors = call_args(c)[0] ? VECTORS : NO_VECTORS, failed = 0;
    bool ready = solving_open(&s, p, c, true) && widen(&s) && open_results(&s, vectors) && query(&s, vectors);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = find_values(&s, vectors, i);
    ready = ready && (failed || store(&s, vectors));
    return solving_close(&s, ready ? failed : -1, "has eigenvalues that were not found");
}
