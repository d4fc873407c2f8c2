// factor.c - factorisations, matrix by matrix: LAPACK works on copies that are column-major.

#include "device/cpu/cpu.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static void *find(zl_dtype dtype, const char *name) {
    char symbol[16];
    char letter = dtype == ZL_FLOAT64 ? 'd' : dtype == ZL_COMPLEX64 ? 'c' : 's';
    snprintf(symbol, sizeof symbol, "%c%s_", letter, name);
    return cpu_lapack(symbol);
}

bool cpu_factor_open(struct factor *f, const struct call *c, const char *first, const char *second) {
    zl_array a = c->in[0];
    int ndim = a->ndim - 2;
    *f = (struct factor){.c = c, .dtype = (zl_dtype)a->dtype, .item = (int64_t)array_item(a)};
    if (a->dim[ndim] > INT_MAX / 64 || a->dim[ndim + 1] > INT_MAX / 64)
        return error_false(ZL_ERROR_OVERFLOW, "%s of shape %s: LAPACK takes no matrices that large", c->op->name,
                           array_text(a));
    f->m = (int)a->dim[ndim];
    f->n = (int)a->dim[ndim + 1];
    f->stride = (struct stride2){array_stride(a)[ndim] * f->item, array_stride(a)[ndim + 1] * f->item};
    cpu_layout_start(&f->batch, ndim, a->dim, 0);
    cpu_layout_add(&f->batch, cpu_data(a), (size_t)f->item, ndim, a->dim, array_stride(a));
    cpu_layout_merge(&f->batch);
    f->batch.loops = f->batch.axes;
    for (int i = 0; i < f->batch.axes; i++)
        f->batch.axis[i].step = 1;
    f->room = cpu_factor_aligned((size_t)f->m * (size_t)f->n * (size_t)f->item);
    f->function[0] = find(f->dtype, first);
    f->function[1] = f->function[0] && second ? find(f->dtype, second) : NULL;
    return f->function[0] && (!second || f->function[1]);
}

enum { NO_MEMORY = INT_MIN, NOT_FINITE = INT_MAX }; // no info of LAPACK

static bool is_finite(const struct factor *f, const char *room) {
    int64_t count = (int64_t)f->m * f->n * (f->dtype == ZL_COMPLEX64 ? 2 : 1);
    bool finite = true;
    if (f->dtype == ZL_FLOAT64)
        for (int64_t i = 0; i < count; i++)
            finite &= isfinite(((const double *)(const void *)room)[i]) != 0;
    else
        for (int64_t i = 0; i < count; i++)
            finite &= isfinite(((const float *)(const void *)room)[i]) != 0;
    return finite;
}

static void run_range(const void *context, int64_t from, int64_t to) {
    struct factor *f = (struct factor *)(uintptr_t)context;
    char *room = memory_alloc(f->room);
    struct walk w;
    if (!room)
        atomic_store(&f->info, NO_MEMORY);
    for (; room && from < to; from++) {
        cpu_walk_to(&f->batch, &w, from);
        cpu_move((size_t)f->item, room, (struct stride2){f->item, f->item * f->m}, w.data[0], f->stride, f->m, f->n);
        int info = f->finite && !is_finite(f, room) ? NOT_FINITE : f->one(f, from, room);
        if (info)
            atomic_store(&f->info, info);
    }
    memory_free(room);
}

bool cpu_factor_run(struct factor *f, int *info) {
    enum { LEAST = 65536 }; // operations that are worth a second thread
    double flops = (double)f->m * f->n * (f->m < f->n ? f->m : f->n);
    atomic_init(&f->info, 0);
    cpu_split(f->batch.size, (int64_t)(LEAST / flops) + 1, run_range, f);
    *info = atomic_load(&f->info);
    if (*info == NO_MEMORY)
        return error_false(ZL_ERROR_MEMORY, "%s: no memory for %zu bytes of work", f->c->op->name, f->room);
    return *info != NOT_FINITE || error_false(ZL_ERROR_DEVICE, "%s: a matrix of shape %s has elements that are not finite",
                                              f->c->op->name, array_text(f->c->in[0]));
}

char *cpu_factor_output(const struct factor *f, int k, int64_t at) {
    zl_array out = call_output(f->c, k);
    return cpu_data(out) + at * (out->size / f->batch.size) * (int64_t)array_item(out);
}

void cpu_factor_store(const struct factor *f, int k, int64_t at, const char *from, int64_t rows, int64_t cols,
                      int64_t column) {
    cpu_move((size_t)f->item, cpu_factor_output(f, k, at), (struct stride2){cols * f->item, f->item}, from,
             (struct stride2){f->item, column * f->item}, rows, cols);
}

int cpu_factor_work(const struct factor *f, const void *answer) {
    double size = f->dtype == ZL_FLOAT64 ? *(const double *)answer : (double)*(const float *)answer;
    return size < 1 ? 1 : (int)size;
}
