// gemm_small.c - products of tiny matrices: nothing is packed.

#include "device/cpu/cpu.h"

#define SMALL(name) name##_f32
#define SMALL_TYPE  float
#include "device/cpu/gemm_small.h"
#define SMALL(name) name##_f64
#define SMALL_TYPE  double
#include "device/cpu/gemm_small.h"

enum { TINY = 4096 }; // products up to which packing does not pay

bool cpu_is_tiny(zl_dtype dtype, const struct gemm *g) {
    bool small = g->m <= TINY && g->n <= TINY && g->k <= TINY && g->m * g->n * g->k <= TINY;
    return small && (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64) && (g->b_col == 1 || g->n == 1) &&
           g->c_col == 1 && !g->add;
}

bool cpu_tiny_gemm(zl_dtype dtype, const struct gemm *g) {
    if (dtype == ZL_FLOAT32)
        tiny_f32(g);
    else
        tiny_f64(g);
    return true;
}
