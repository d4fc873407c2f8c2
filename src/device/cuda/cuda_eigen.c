// cuda_eigen.c - eigenvalues and vectors of any square matrices, by cuSOLVER, which has them since CUDA 12.6.
//
// Results are complex, so that real matrices are made complex first. Those of float64 are left to the CPU: complex64 has less.

#include "device/cuda/cuda_solver.h"

enum { C64 = 4, NO_VECTORS = 0, VECTORS = 1 }; // of NVIDIA's headers

bool cuda_eig_can(const struct call *c) {
    return cuda_factor_can(c) && solver_geev()->cusolverDnXgeev && c->in[0]->dtype != ZL_FLOAT64;
}

static const char widen_text[] = "KERNEL zl_kernel(GLOBAL f32 *y, GLOBAL const f32 *x, i64 n) {\n"
                                 "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
                                 "    if (i < n) {\n"
                                 "        y[2 * i] = x[i];\n"
                                 "        y[2 * i + 1] = 0;\n"
                                 "    }\n"
                                 "}\n";

static bool write_widen(struct text *out, const void *dialect) {
    kernel_begin(out, dialect, true);
    text_bytes(out, widen_text, (int)sizeof widen_text - 1);
    return true;
}

// The copies of real matrices become complex ones.
static bool widen(struct solving *s) {
    int64_t count = s->batch * s->n * s->n;
    const struct kernel_place *p = s->p;
    struct kernel_call k;
    if (s->type == C64)
        return true;
    void *kernel = kernel_find(p, "cuda_eigen widen", 16, write_widen, p->target->dialect);
    char *to = cuda_scratch_open(p, &s->more, (size_t)count * 2 * sizeof(float));
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, s->a);
    kernel_add_int(&k, count, true);
    s->a = to;
    s->type = C64;
    s->item = 2 * sizeof(float);
    return kernel && to && kernel_launch(p, kernel, (count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static bool ask(struct solving *s, int vectors) {
    size_t work = 0, host = 0;
    int failed = solver_geev()->cusolverDnXgeev_bufferSize(
        s->s, s->parameters, NO_VECTORS, vectors, s->n, C64, s->a, s->n, C64, solving_output(s, 0, 0), C64,
        NULL, s->n, C64, s->result.memory, s->n, C64, &work, &host);
    return solving_work(s, failed, work, host);
}

static int find_values(const struct solving *s, int vectors, int64_t i) {
    char *all = s->result.memory, *own = all ? all + i * s->n * s->n * s->item : NULL;
    return solver_geev()->cusolverDnXgeev(s->s, s->parameters, NO_VECTORS, vectors, s->n, C64,
                                          solving_matrix(s, i), s->n, C64, solving_output(s, 0, i), C64, NULL,
                                          s->n, C64, own, s->n, C64, s->work.memory, s->bytes, s->host,
                                          s->host_bytes, solving_info(s, i));
}

enum kernel_taken cuda_eig(const struct kernel_place *p, const struct call *c) {
    struct solving s;
    int vectors = call_args(c)[0] ? VECTORS : NO_VECTORS, failed = 0;
    bool ready = solving_open(&s, p, c, true) && widen(&s);
    if (ready && vectors)
        ready = cuda_scratch_open(p, &s.result, (size_t)(s.batch * s.n * s.n * s.item));
    ready = ready && ask(&s, vectors);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = find_values(&s, vectors, i);
    if (ready && !failed && vectors)
        ready = solving_store(&s, 1, ZL_COMPLEX64, s.result.memory, s.n, s.n, s.n, s.n * s.n);
    return solving_close(&s, ready ? failed : -1, "has eigenvalues that were not found");
}
