// factor.c - runs factorisations matrix by matrix, on column-major copies for LAPACK.

#include "device/cpu/gemm/product.h"
#include "device/cpu/linalg/linalg.h"
#include "device/cpu/rows/operands.h"

#include <stdio.h>

// Looks up the LAPACK functions of a list of names, with the prefix of the dtype.
static bool find(struct factor *f, const char *names) {
    char letter = f->dtype == ZL_FLOAT64 ? 'd' : f->dtype == ZL_COMPLEX64 ? 'c' : 's', symbol[16];
    for (size_t i = 0; *names; i++) {
        int bytes = (int)strcspn(names, " ");
        snprintf(symbol, sizeof symbol, "%c%.*s_", letter, bytes, names);
        if (!(f->function[i] = cpu_lapack(symbol)))
            return false;
        names += bytes + (names[bytes] == ' ');
    }
    return true;
}

bool cpu_factor_open(struct factor *f, const struct call *c, const char *functions) {
    zl_array a = c->in[0];
    int ndim = a->ndim - 2;
    *f = (struct factor){.c = c, .dtype = (zl_dtype)a->dtype, .item = (int64_t)array_item(a)};
    if (a->dim[ndim] > INT_MAX / 64 || a->dim[ndim + 1] > INT_MAX / 64)
        return error_false(ZL_ERROR_OVERFLOW, "%s of shape %s: LAPACK takes no matrices that large",
                           c->op->name, array_text(a));
    f->m = (int)a->dim[ndim];
    f->n = (int)a->dim[ndim + 1];
    f->row = array_stride(a)[ndim];
    f->col = array_stride(a)[ndim + 1];
    cpu_layout_start(&f->batch, ndim, a->dim, 0);
    cpu_layout_add(&f->batch, cpu_data(a), (size_t)f->item, ndim, a->dim, array_stride(a));
    cpu_layout_merge(&f->batch);
    f->batch.loops = f->batch.axes;
    for (int i = 0; i < f->batch.axes; i++)
        f->batch.axis[i].step = 1;
    f->workspace = cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item);
    return find(f, functions);
}

// Returns whether all numbers are finite. A number times zero is zero only if it is finite, so the sum of
// these products is zero only if all are.
#define ALL_FINITE(name, type)                                          \
    static bool name(const char *data, int64_t count) {                 \
        typedef type lanes __attribute__((vector_size(64)));            \
        const int64_t step = sizeof(lanes) / sizeof(type);              \
        lanes sum = {0}, some;                                          \
        type rest = 0, one;                                             \
        int64_t i = 0;                                                  \
        for (; i + step <= count; i += step) {                          \
            memcpy(&some, data + i * (int64_t)sizeof one, sizeof some); \
            sum += some * 0;                                            \
        }                                                               \
        for (; i < count; i++) {                                        \
            memcpy(&one, data + i * (int64_t)sizeof one, sizeof one);   \
            rest += one * 0;                                            \
        }                                                               \
        for (i = 0; i < step; i++)                                      \
            rest += sum[i];                                             \
        return rest == 0;                                               \
    }
ALL_FINITE(all_finite_f32, float)
ALL_FINITE(all_finite_f64, double)

static bool is_finite(const struct factor *f, const char *workspace) {
    int64_t count = (int64_t)f->m * f->n;
    if (f->dtype == ZL_FLOAT64)
        return all_finite_f64(workspace, count);
    return all_finite_f32(workspace, f->dtype == ZL_COMPLEX64 ? 2 * count : count);
}

// Copies a matrix to workspace so that its columns, or if it is transposed its rows, are contiguous.
static void copy_in(const struct factor *f, char *workspace, const char *from) {
    int64_t dim[] = {f->m, f->n}, stride[] = {f->row, f->col}, transposed_dim[] = {f->n, f->m};
    int64_t transposed_stride[] = {f->col, f->row};
    if (f->transposed)
        cpu_copy((size_t)f->item, 2, dim, workspace, (int64_t[]){f->n, 1}, from, stride);
    else
        cpu_copy((size_t)f->item, 2, transposed_dim, workspace, (int64_t[]){f->m, 1}, from,
                 transposed_stride);
}

enum { KEPT = 1 << 23 }; // bytes of work areas that a thread keeps

static void run_range(const void *context, int64_t from, int64_t to) {
    struct factor *f = (struct factor *)(uintptr_t)context;
    bool kept = f->workspace <= KEPT; // fresh pages would cost more than many factorisations
    char *workspace = kept ? cpu_scratch(SCRATCH_RESULT, f->workspace) : memory_alloc(f->workspace);
    struct walk w;
    if (!workspace)
        atomic_store(&f->info, CPU_FACTOR_NO_MEMORY);
    for (; workspace && from < to; from++) {
        cpu_walk_to(&f->batch, &w, from);
        copy_in(f, workspace, w.data[0]);
        int info = f->finite && !is_finite(f, workspace) ? CPU_FACTOR_NOT_FINITE : f->one(f, from, workspace);
        if (info)
            atomic_store(&f->info, info);
    }
    if (!kept)
        memory_free(workspace);
}

bool cpu_factor_run(struct factor *f, int *info) {
    enum { LEAST = 65536 }; // operations that are worth a second thread
    double flops = (double)f->m * f->n * (f->m < f->n ? f->m : f->n);
    bool alone = f->threaded && f->batch.size == 1 && flops >= (double)f->threaded && pool_threads() > 1;
    blas_threads *threads = alone ? cpu_lapack_threads() : NULL;
    atomic_init(&f->info, 0);
    cpu_blas_begin(threads);
    cpu_split(f->batch.size, (int64_t)(LEAST / flops) + 1, run_range, f);
    cpu_blas_end(threads);
    *info = atomic_load(&f->info);
    if (*info == CPU_FACTOR_NO_MEMORY)
        return error_false(ZL_ERROR_MEMORY, "%s: no memory for %zu bytes of work", f->c->op->name,
                           f->workspace);
    return *info != CPU_FACTOR_NOT_FINITE ||
           error_false(ZL_ERROR_DEVICE, "%s: a matrix of shape %s has elements that are not finite",
                       f->c->op->name, array_text(f->c->in[0]));
}

char *cpu_factor_output(const struct factor *f, int k, int64_t at) {
    zl_array out = call_output(f->c, k);
    return cpu_data(out) + at * (out->size / f->batch.size) * (int64_t)array_item(out);
}

void cpu_factor_store(const struct factor *f, int k, int64_t at, const char *from, int64_t rows, int64_t cols,
                      int64_t column) {
    cpu_copy((size_t)f->item, 2, (int64_t[]){rows, cols}, cpu_factor_output(f, k, at), (int64_t[]){cols, 1},
             from, f->transposed ? (int64_t[]){column, 1} : (int64_t[]){1, column});
}

int cpu_factor_work(const struct factor *f, const void *answer) {
    double size = f->dtype == ZL_FLOAT64 ? *(const double *)answer : (double)*(const float *)answer;
    return size < 1 ? 1 : (int)size;
}
