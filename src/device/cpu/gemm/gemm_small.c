// gemm_small.c - products of small matrices, without packing. They have one chain (gemm_order.c).

#include "device/cpu/gemm/product.h"
#include "device/cpu/gemm/gemm.h"

enum {
    SMALL_ROWS = 4, // rows of a tile
#if defined(__aarch64__)
    SMALL_VECTORS =
        8, // vectors of columns of a tile; half as many with more than two rows, so that all sums fit
           // registers
#else
    SMALL_VECTORS = 4,
#endif
    SMALL_MOST = 2 * SMALL_VECTORS, // with one row: b is then read from memory, row by row
    PRODUCTS_MOST = 1 << 18,        // products up to which packing does not pay,
    BYTES_MOST = 1 << 14,           // and bytes of b, which then stay in L1
};

#define SMALL(name) name##_f32
#define SMALL_TYPE  float
#include "device/cpu/gemm/gemm_small.h"
#define SMALL(name) name##_f64
#define SMALL_TYPE  double
#include "device/cpu/gemm/gemm_small.h"

// An outer product of any size is computed here: its result is written once and in place, and packing would
// only add work.
bool cpu_is_tiny(zl_dtype dtype, const struct gemm *g) {
    if ((dtype != ZL_FLOAT32 && dtype != ZL_FLOAT64) || (g->b_col != 1 && g->n != 1) || g->c_col != 1 ||
        g->add)
        return false;
    if (g->k == 1 && g->n >= SMALL_MOST)
        return true;
    if (g->m > PRODUCTS_MOST || g->n > PRODUCTS_MOST || g->k > PRODUCTS_MOST ||
        g->n * g->k * (int64_t)zl_dtype_size(dtype) > BYTES_MOST || g->m * g->n * g->k > PRODUCTS_MOST)
        return false;
    const struct gemm_order order = gemm_order_of(gemm_kernel_for(dtype), g->k, gemm_is_along(g));
    return order.spans * order.chains == 1;
}

bool cpu_tiny_gemm(zl_dtype dtype, const struct gemm *g) {
    if (dtype == ZL_FLOAT32)
        tiny_f32(g);
    else
        tiny_f64(g);
    return true;
}
