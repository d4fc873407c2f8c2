// gemm_kernels.c - the list of micro-kernels, and those that every CPU runs.

#include "device/cpu/gemm/gemm.h"

#include <pthread.h>

// Sizes for the registers that every CPU of the architecture has.
#if defined(__aarch64__)
#define MICRO_BY_LANE
#define BASE_ROWS 8
#define BASE_VECS 3
#else
#define BASE_ROWS 4
#define BASE_VECS 2
#endif

#define MICRO_NAME(part) part##_f32
#define MICRO_TYPE       float
#define MICRO_BYTES      16
#define MICRO_ROWS       BASE_ROWS
#define MICRO_VECS       BASE_VECS
#define MICRO_TARGET
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part) part##_f64
#define MICRO_TYPE       double
#define MICRO_BYTES      16
#define MICRO_ROWS       BASE_ROWS
#define MICRO_VECS       BASE_VECS
#define MICRO_TARGET
#include "device/cpu/gemm/gemm_micro.h"

#define MICRO_NAME(part) part##_i32
#define MICRO_TYPE       uint32_t // sums wrap around
#define MICRO_BYTES      16
#define MICRO_ROWS       BASE_ROWS
#define MICRO_VECS       BASE_VECS
#define MICRO_TARGET
#include "device/cpu/gemm/gemm_micro.h"

const struct gemm_kernel gemm_kernels_any[] = {
    {"f32", NULL, ZL_FLOAT32, ZL_FLOAT32, BASE_ROWS, 4 * BASE_VECS, 1, 1, micro_f32},
    {"f64", NULL, ZL_FLOAT64, ZL_FLOAT64, BASE_ROWS, 2 * BASE_VECS, 1, 1, micro_f64},
    {"i32", NULL, ZL_INT32, ZL_INT32, BASE_ROWS, 4 * BASE_VECS, 1, 1, micro_i32},
    {NULL},
};

const struct gemm_kernel *gemm_kernel_at(int i) {
    static const struct gemm_kernel *const tables[] = {
#if defined(__aarch64__)
        gemm_kernels_sve,
        gemm_kernels_neon,
#elif defined(__x86_64__)
        gemm_kernels_amx,
        gemm_kernels_vnni,
        gemm_kernels_avx512_bf16,
        gemm_kernels_avx512,
        gemm_kernels_avx2,
#endif
        gemm_kernels_any,
    };
    for (size_t t = 0; t < COUNT(tables); t++)
        for (const struct gemm_kernel *k = tables[t]; k->name; k++)
            if (i-- == 0)
                return k;
    return NULL;
}

bool gemm_can_run(const struct gemm_kernel *k) {
    return !k->needs || cpu_has(k->needs);
}

bool gemm_is_plain(const struct gemm_kernel *k) {
    return !k->a_unit && !k->b_cols && !k->flip && !k->open && gemm_can_run(k);
}

static const struct gemm_kernel *best_for(zl_dtype dtype) {
    const struct gemm_kernel *k;
    for (int i = 0; (k = gemm_kernel_at(i)); i++)
        if (k->dtype == dtype && gemm_can_run(k))
            return k;
    return NULL;
}

static const struct gemm_kernel *best[ZL_DTYPE_COUNT];

static void choose_all(void) {
    for (int d = 0; d < ZL_DTYPE_COUNT; d++)
        best[d] = best_for((zl_dtype)d);
    if (!best[ZL_INT8])
        best[ZL_INT8] = best[ZL_INT16] ? best[ZL_INT16] : best[ZL_INT32];
    if (!best[ZL_FLOAT16])
        best[ZL_FLOAT16] = best[ZL_FLOAT32];
    if (!best[ZL_BFLOAT16])
        best[ZL_BFLOAT16] = best[ZL_FLOAT32];
}

const struct gemm_kernel *gemm_kernel_for(zl_dtype dtype) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_all);
    return best[dtype];
}

// A kernel with the same order of sums as the best one is at most a twentieth slower.
const struct gemm_kernel *gemm_kernel_for_columns(zl_dtype dtype, int64_t columns) {
    const struct gemm_kernel *u = gemm_kernel_for(dtype), *k, *fits = u;
    int64_t least = round_up(columns, u->cols);
    for (int i = 0; (k = gemm_kernel_at(i)); i++)
        if (k->like == u && round_up(columns, k->cols) * 21 / 20 < least) {
            fits = k;
            least = round_up(columns, k->cols);
        }
    return fits;
}
