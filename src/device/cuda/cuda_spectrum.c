// cuda_spectrum.c - singular value decompositions, and eigendecompositions of symmetric matrices, by
// cuSOLVER.

#include "device/cuda/cuda_solver.h"

// Singular values -------------------------------------------------------------------------------------------

// cuSOLVER takes matrices that are at least as high as wide. A wide matrix is passed as it is, and cuSOLVER
// sees its transpose. Then its left vectors are our right ones, and all results have our layout.
struct singular {
    struct solving s;
    bool vectors, is_wide;
    int64_t high, wide; // sizes as cuSOLVER sees the matrix
    char *left, *right; // where cuSOLVER writes its vectors
};

static bool query_svd(struct singular *v) {
    struct solving *s = &v->s;
    size_t work = 0, host = 0;
    signed char how = v->vectors ? 'A' : 'N';
    int failed = solver_api()->cusolverDnXgesvd_bufferSize(
        s->s, s->parameters, how, how, v->high, v->wide, s->type, s->a, v->high, s->real, NULL, s->type,
        v->left, v->high, s->type, v->right, v->wide, s->type, &work, &host);
    return solving_work(s, failed, work, host);
}

static int find_values(const struct singular *v, int64_t i) {
    const struct solving *s = &v->s;
    signed char how = v->vectors ? 'A' : 'N';
    int64_t high = v->high, wide = v->wide;
    return solver_api()->cusolverDnXgesvd(
        s->s, s->parameters, how, how, high, wide, s->type, solving_matrix(s, i), high, s->real,
        solving_output(s, v->vectors ? 1 : 0, i), s->type,
        v->left ? v->left + i * high * high * s->item : NULL, high, s->type,
        v->right ? v->right + i * wide * wide * s->item : NULL, wide, s->type, s->work.memory, s->bytes,
        s->host, s->host_bytes, solving_info(s, i));
}

static bool place_vectors(struct singular *v) {
    struct solving *s = &v->s;
    if (!v->vectors)
        return true;
    if (v->is_wide) {
        v->left = solving_output(s, 2, 0);
        v->right = solving_output(s, 0, 0);
    } else {
        v->left = kernel_scratch_open(s->p, &s->more, (size_t)(s->batch * v->high * v->high * s->item));
        v->right = kernel_scratch_open(s->p, &s->result, (size_t)(s->batch * v->wide * v->wide * s->item));
    }
    return v->left && v->right;
}

enum kernel_taken cuda_svd(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0];
    int64_t m = x->dim[x->ndim - 2], n = x->dim[x->ndim - 1];
    struct singular v = {
        .vectors = call_args(c)[0], .is_wide = n >= m, .high = MAX_OF(m, n), .wide = MIN_OF(m, n)};
    zl_dtype dtype = (zl_dtype)x->dtype;
    int failed = 0;
    bool ready = solving_open(&v.s, p, c, !v.is_wide) && place_vectors(&v) && query_svd(&v);
    for (int64_t i = 0; ready && !failed && i < v.s.batch; i++)
        failed = find_values(&v, i);
    if (ready && !failed && v.vectors && !v.is_wide)
        ready = solving_store(&v.s, 0, dtype, v.left, m, m, m, m * m) &&
                solving_store(&v.s, 2, dtype, v.right, n, n, n, n * n);
    return solving_close(&v.s, ready ? failed : -1, "has singular values that were not found");
}

// Symmetric matrices ----------------------------------------------------------------------------------------

static bool query_eigh(struct solving *s, bool vectors, int uplo) {
    size_t work = 0, host = 0;
    int failed = solver_api()->cusolverDnXsyevd_bufferSize(s->s, s->parameters, vectors, uplo, s->n, s->type,
                                                           s->a, s->n, s->real, solving_output(s, 0, 0),
                                                           s->type, &work, &host);
    return solving_work(s, failed, work, host);
}

enum kernel_taken cuda_eigh(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    bool vectors = call_args(c)[1];
    int failed = 0, uplo = call_args(c)[0] ? SOLVER_UPPER : SOLVER_LOWER;
    bool ready = solving_open(&s, p, c, true) && query_eigh(&s, vectors, uplo);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = solver_api()->cusolverDnXsyevd(s.s, s.parameters, vectors, uplo, s.n, s.type,
                                                solving_matrix(&s, i), s.n, s.real, solving_output(&s, 0, i),
                                                s.type, s.work.memory, s.bytes, s.host, s.host_bytes,
                                                solving_info(&s, i));
    if (ready && !failed && vectors)
        ready = solving_store(&s, 1, (zl_dtype)c->in[0]->dtype, s.a, s.n, s.n, s.n, s.n * s.n);
    return solving_close(&s, ready ? failed : -1, "has eigenvalues that were not found");
}
