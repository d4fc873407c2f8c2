// work.c - the kinds of work, and their common functions: data, random unless zeros are chosen, arrays that
// are held until the work is finished, and elements as doubles for verification.

#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WORK(name) extern const struct bench_work_kind bench_work_##name;
#include "works.def"

static const struct bench_work_kind *const kinds[] = {
#define WORK(name) &bench_work_##name,
#include "works.def"
};

const struct bench_work_kind *bench_work_kind(int index) {
    return index < (int)(sizeof kinds / sizeof *kinds) ? kinds[index] : NULL;
}

const struct bench_work_kind *bench_work_find(const char *name) {
    for (int i = 0; bench_work_kind(i); i++)
        if (!strcmp(bench_work_kind(i)->name, name))
            return bench_work_kind(i);
    return NULL;
}

bool bench_fail(struct bench_work *w, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(w->why, sizeof w->why, format, list);
    va_end(list);
    return false;
}

static bool has_tf32(const struct bench_work *w) {
    const char *setting = getenv("ZL_TF32");
    return setting && !strcmp(setting, "1") && w->device && !strncmp(w->device, "cuda", 4) &&
           !strcmp(w->kind->name, "gemm");
}

bool bench_work_prepare(struct bench_work *w, const struct bench_config *config) {
    w->kind = bench_work_find(config->work);
    w->config = config;
    if (!w->kind)
        return bench_fail(w, "no work '%s'", config->work);
    w->is_absent = true;
    if (w->tells_seconds && !w->kind->tell)
        return bench_fail(w, "%s runs tile kernels alone: the works tile and tile_rows", w->device);
    if (config->dtype == BENCH_FP8 && strcmp(w->kind->name, "gemm"))
        return bench_fail(w, "of fp8 there are only products: no %s", config->work);
    if (config->dtype == BENCH_TF32 && !has_tf32(w))
        return bench_fail(w, "tf32 is how cuda multiplies float32 with ZL_TF32=1 in the environment");
    w->is_absent = false;
    zl_random_seed(7);
    bool done = false;
    ZL_SCOPE {
        done = w->kind->prepare(w);
    }
    return done;
}

static bool evaluate(struct bench_work *w, zl_array result) {
    return w->is_async ? zl_async_eval(result) : zl_eval(result);
}

bool bench_work_run(struct bench_work *w, int count) {
    if (w->kind->run)
        return w->kind->run(w, count);
    bool done = true;
    for (int i = 0; i < count && done; i++)
        ZL_SCOPE {
            done = evaluate(w, w->kind->record(w));
        }
    return (!w->is_async || zl_synchronize()) && done;
}

bool bench_work_falls_back(struct bench_work *w) {
    int64_t before = zl_counter("fallback_runs");
    return bench_work_run(w, 1) && zl_counter("fallback_runs") > before;
}

void bench_work_finish(struct bench_work *w) {
    for (int i = 0; i < w->inputs; i++)
        zl_release(w->in[i]);
    if (w->kind && w->kind->finish && w->data)
        w->kind->finish(w);
    free(w->data);
    w->inputs = 0;
    w->data = NULL;
}

// Data ------------------------------------------------------------------------------------------------------

zl_array bench_hold(struct bench_work *w, zl_array a) {
    if (!a || w->inputs == (int)(sizeof w->in / sizeof *w->in) || !zl_eval(zl_retain(a)))
        return NULL;
    return w->in[w->inputs++] = a;
}

zl_array bench_random(struct bench_work *w, zl_shape shape) {
    zl_dtype dtype = bench_dtype_of_arrays(w->config->dtype);
    if (w->zeros)
        return bench_hold(w, zl_zeros(shape, dtype));
    if (dtype == ZL_INT8)
        return bench_hold(w, zl_random_randint(zl_scalar(-127), zl_scalar(127), shape, dtype, NULL));
    zl_array numbers = zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, NULL);
    return bench_hold(w, w->config->dtype == BENCH_FP8 ? zl_to_fp8(numbers) : zl_astype(numbers, dtype));
}

double *bench_elements(zl_array a) {
    double *out = NULL;
    ZL_SCOPE {
        zl_array wide = zl_contiguous(zl_astype(a, ZL_FLOAT64), false);
        size_t bytes = wide ? zl_nbytes(wide) : 0;
        out = wide ? malloc(bytes ? bytes : 1) : NULL;
        if (out && !zl_copy_to(wide, out, bytes)) {
            free(out);
            out = NULL;
        }
    }
    return out;
}

// fp8 has the precision of bf16, because results of fp8 work are bf16.
double bench_dtype_epsilon(enum bench_dtype dtype) {
    static const double epsilon[BENCH_DTYPES] = {
        [BENCH_F64] = 0x1p-52, [BENCH_F32] = 0x1p-23, [BENCH_TF32] = 0x1p-10, [BENCH_BF16] = 0x1p-7,
        [BENCH_F16] = 0x1p-10, [BENCH_FP8] = 0x1p-7,  [BENCH_INT8] = 0,
    };
    return epsilon[dtype];
}
