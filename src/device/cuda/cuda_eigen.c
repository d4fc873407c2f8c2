// cuda_eigen.c - eigenvalues and vectors of any square matrices, by cuSOLVER, which has them since CUDA 12.6.
//
// Results are complex, so that real matrices are made complex first: two numbers of float64 each if that is what they are, and
// what was found is rounded to complex64 at the end.

#include "device/cuda/cuda_solver.h"

enum { F64 = 1, C64 = 4, C128 = 5, NO_VECTORS = 0, VECTORS = 1 }; // of NVIDIA's headers

bool cuda_eig_can(const struct call *c) {
    return cuda_factor_can(c) && solver_geev()->cusolverDnXgeev;
}

// Kernels -----------------------------------------------------------------------------------------------------------

static const char widen_text[] = "KERNEL zl_kernel(GLOBAL REAL *y, GLOBAL const REAL *x, i64 n) {\n"
                                 "    i64 i = (i64)GROUP * THREADS + THREAD;\n"
                                 "    if (i < n) {\n"
                                 "        y[2 * i] = x[i];\n"
                                 "        y[2 * i + 1] = 0;\n"
                                 "    }\n"
                                 "}\n";

// Of complex numbers by columns to those by rows.
static const char round_text[] =
    "KERNEL zl_kernel(GLOBAL f32 *y, GLOBAL const f64 *x, i64 rows, i64 cols, i64 n) {\n"
    "    i64 i = (i64)GROUP * THREADS + THREAD, in = i % (rows * cols);\n"
    "    i64 from = i - in + in % cols * rows + in / cols;\n"
    "    if (i < n) {\n"
    "        y[2 * i] = (f32)x[2 * from];\n"
    "        y[2 * i + 1] = (f32)x[2 * from + 1];\n"
    "    }\n"
    "}\n";

struct writer {
    bool is_wide, rounds;
    const char *dialect;
};

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, true);
    text_add(out, "#define REAL %s\n%s", w->is_wide ? "f64" : "f32", w->rounds ? round_text : widen_text);
    return true;
}

static void *find_kernel(const struct kernel_place *p, bool is_wide, bool rounds) {
    const char *key = rounds ? "cuda_eigen round" : is_wide ? "cuda_eigen wid64" : "cuda_eigen wid32";
    return kernel_find(p, key, 16, write_text, &(struct writer){is_wide, rounds, p->target->dialect});
}

// The copies of real matrices become complex ones.
static bool widen(struct solving *s) {
    int64_t count = s->batch * s->n * s->n;
    const struct kernel_place *p = s->p;
    struct kernel_call k;
    if (s->type == C64)
        return true;
    void *kernel = find_kernel(p, s->type == F64, false);
    char *to = cuda_scratch_open(p, &s->more, (size_t)(count * 2 * s->item));
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, s->a);
    kernel_add_int(&k, count, true);
    s->a = to;
    s->type = s->type == F64 ? C128 : C64;
    s->item *= 2;
    return kernel && to && kernel_launch(p, kernel, (count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static bool round_to(const struct solving *s, int output, void *from, int64_t rows, int64_t cols) {
    int64_t count = s->batch * rows * cols;
    char *to = solving_output(s, output, 0);
    void *kernel = find_kernel(s->p, true, true);
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, rows, true);
    kernel_add_int(&k, cols, true);
    kernel_add_int(&k, count, true);
    return kernel && to && kernel_launch(s->p, kernel, (count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

// Calls -------------------------------------------------------------------------------------------------------------

// Where the values of a matrix go.
static char *values_of(const struct solving *s, int64_t i) {
    return s->type == C64 ? solving_output(s, 0, i) : (char *)s->values.memory + i * s->n * s->item;
}

static bool open_results(struct solving *s, int vectors) {
    size_t lines = (size_t)(s->batch * s->n * s->item);
    return (s->type == C64 || cuda_scratch_open(s->p, &s->values, lines)) &&
           (!vectors || cuda_scratch_open(s->p, &s->result, lines * (size_t)s->n));
}

static bool ask(struct solving *s, int vectors) {
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
    bool ready = solving_open(&s, p, c, true) && widen(&s) && open_results(&s, vectors) && ask(&s, vectors);
    for (int64_t i = 0; ready && !failed && i < s.batch; i++)
        failed = find_values(&s, vectors, i);
    ready = ready && (failed || store(&s, vectors));
    return solving_close(&s, ready ? failed : -1, "has eigenvalues that were not found");
}
