// cuda_factor.c - factorisations and inverses of matrices by cuSOLVER: Cholesky, LU, QR.
//
// cuSOLVER stores matrices by columns and we store them by rows, so it sees the transpose of a matrix that is
// passed as it is. Cholesky factors and inverses are computed from that transpose, with the other triangle
// named; the other factorisations use copies by columns.

#include "device/cuda/cuda_solver.h"

#include <string.h>

static bool query_cholesky(struct solving *s, int uplo) {
    size_t work = 0, host = 0;
    int failed = solver_api()->cusolverDnXpotrf_bufferSize(s->s, s->parameters, uplo, s->n, s->type, s->a,
                                                           s->n, s->type, &work, &host);
    return solving_work(s, failed, work, host);
}

enum kernel_taken cuda_cholesky(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int failed = 0;
    bool upper = call_args(c)[0];
    int uplo = upper ? SOLVER_LOWER : SOLVER_UPPER;
    const int64_t dim[] = {c->in[0]->size};
    bool ready = solving_open(&s, p, c, false) && query_cholesky(&s, uplo);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = solver_api()->cusolverDnXpotrf(s.s, s.parameters, uplo, s.n, s.type, solving_matrix(&s, i),
                                                s.n, s.type, s.work.memory, s.bytes, s.host, s.host_bytes,
                                                solving_info(&s, i));
    char *y = ready ? solving_output(&s, 0, 0) : NULL;
    ready = ready && !failed && y &&
            kernel_move(p, (zl_dtype)c->in[0]->dtype, 1, dim, y, (int64_t[]){1}, s.a, (int64_t[]){1}) &&
            solving_fill(&s, y, s.n, s.n, upper ? FILL_BELOW : FILL_ABOVE);
    return solving_close(&s, ready ? 0 : failed ? failed : -1, "is not positive definite");
}

// Inverses --------------------------------------------------------------------------------------------------

static bool query_lu(struct solving *s, int64_t step) {
    size_t work = 0, host = 0;
    int failed = solver_api()->cusolverDnXgetrf_bufferSize(s->s, s->parameters, s->m, s->n, s->type, s->a,
                                                           step, s->type, &work, &host);
    return solving_work(s, failed, work, host);
}

static int factor_lu(const struct solving *s, int64_t i, int64_t *pivot) {
    return solver_api()->cusolverDnXgetrf(s->s, s->parameters, s->m, s->n, s->type, solving_matrix(s, i),
                                          s->m, pivot, s->type, s->work.memory, s->bytes, s->host,
                                          s->host_bytes, solving_info(s, i));
}

// The inverse of the transpose is the transpose of the inverse, so nothing has to be transposed, except upper
// triangles, which become upper ones for cuSOLVER too and are then their own LU factor. (cuSOLVER's function
// for triangles writes beyond the workspace that it asks for, as compute-sanitizer showed in CUDA 13.0.)
enum kernel_taken cuda_inverse(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int failed = 0;
    bool triangular = call_args(c)[0], transposed = triangular && call_args(c)[1];
    bool ready = solving_open(&s, p, c, transposed) &&
                 (!triangular || solving_fill(&s, s.a, s.n, s.n, FILL_ABOVE)) && query_lu(&s, s.n) &&
                 kernel_scratch_open(p, &s.more, (size_t)s.n * sizeof(int64_t)) &&
                 kernel_scratch_open(p, &s.result, sizeof(int));
    char *y = ready ? solving_output(&s, 0, 0) : NULL;
    ready = ready && y && solving_fill(&s, y, s.n, s.n, FILL_UNIT);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++) {
        failed = factor_lu(&s, i, s.more.memory);
        if (!failed)
            failed = solver_api()->cusolverDnXgetrs(s.s, s.parameters, transposed, s.n, s.n, s.type,
                                                    solving_matrix(&s, i), s.n, s.more.memory, s.type,
                                                    y + i * s.n * s.n * s.item, s.n, s.result.memory);
    }
    return solving_close(&s, ready ? failed : -1, "is singular");
}

// LU --------------------------------------------------------------------------------------------------------

static bool note_rows(const struct solving *s, void *pivot, int64_t k) {
    struct kernel_call list;
    void *swaps = solving_output(s, 1, 0), *rows = solving_output(s, 2, 0);
    kernel_begin_call(&list);
    kernel_add_memory(&list, pivot);
    kernel_add_memory(&list, swaps);
    kernel_add_memory(&list, rows);
    return swaps && rows &&
           cuda_run_file(s->p, (struct cuda_file){"pivots", ZL_UINT32}, &list, 3,
                         (const int64_t[]){s->batch, k, s->m});
}

enum kernel_taken cuda_lu(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int failed = 0;
    bool ready = solving_open(&s, p, c, true) && query_lu(&s, s.m);
    int64_t k = MIN_OF(s.m, s.n);
    ready = ready && kernel_scratch_open(p, &s.more, (size_t)(s.batch * k) * sizeof(int64_t));
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = factor_lu(&s, i, (int64_t *)s.more.memory + i * k);
    ready = ready && !failed &&
            solving_store(&s, 0, (zl_dtype)c->in[0]->dtype, s.a, s.m, s.n, s.m, s.m * s.n) &&
            note_rows(&s, s.more.memory, k);
    return solving_close(&s, ready ? 0 : failed ? failed : -1, NULL);
}

// QR --------------------------------------------------------------------------------------------------------

static int query_orthogonal(const struct solving *s, int64_t k, int *items) {
    const struct solver_api *api = solver_api();
    return (s->item == 8 ? api->cusolverDnDorgqr_bufferSize : api->cusolverDnSorgqr_bufferSize)(
        s->s, (int)s->m, (int)k, (int)k, s->a, (int)s->m, s->more.memory, items);
}

static bool query_qr(struct solving *s, int64_t k, int *items) {
    size_t work = 0, host = 0;
    int failed = solver_api()->cusolverDnXgeqrf_bufferSize(
        s->s, s->parameters, s->m, s->n, s->type, s->a, s->m, s->type, s->more.memory, s->type, &work, &host);
    if (!failed)
        failed = query_orthogonal(s, k, items);
    return solving_work(s, failed, MAX_OF(work, (size_t)*items * (size_t)s->item), host);
}

static int factor_qr(const struct solving *s, int64_t i, int64_t k, char *tau) {
    return solver_api()->cusolverDnXgeqrf(s->s, s->parameters, s->m, s->n, s->type, solving_matrix(s, i),
                                          s->m, s->type, tau + i * k * s->item, s->type, s->work.memory,
                                          s->bytes, s->host, s->host_bytes, solving_info(s, i));
}

static int make_orthogonal(const struct solving *s, int64_t i, int64_t k, char *tau, int items) {
    const struct solver_api *api = solver_api();
    return (s->item == 8 ? api->cusolverDnDorgqr : api->cusolverDnSorgqr)(
        s->s, (int)s->m, (int)k, (int)k, solving_matrix(s, i), (int)s->m, tau + i * k * s->item,
        s->work.memory, items, solving_info(s, i));
}

enum kernel_taken cuda_qr(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int failed = 0, items = 0;
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    bool ready = solving_open(&s, p, c, true);
    int64_t k = MIN_OF(s.m, s.n);
    ready =
        ready && kernel_scratch_open(p, &s.more, (size_t)(s.batch * k * s.item)) && query_qr(&s, k, &items);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = factor_qr(&s, i, k, s.more.memory);
    ready = ready && !failed && solving_store(&s, 1, dtype, s.a, k, s.n, s.m, s.m * s.n) &&
            solving_fill(&s, solving_output(&s, 1, 0), k, s.n, FILL_BELOW);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = make_orthogonal(&s, i, k, s.more.memory, items);
    ready = ready && !failed && solving_store(&s, 0, dtype, s.a, s.m, k, s.m, s.m * s.n);
    return solving_close(&s, ready ? 0 : failed ? failed : -1, "could not be factored");
}
