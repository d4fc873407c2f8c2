// cuda_lt.h - products of matrices by cuBLASLt: its algorithms for a shape, and the enqueuing of a product.

#ifndef CUDA_LT_H
#define CUDA_LT_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

// Whether a bias is added, and if so, whether before the product is rounded to f16 or bf16.
enum { LT_NOTHING, LT_BIAS, LT_BIAS_ROUNDED_ONCE };

// The key of a product. It is hashed as bytes, so it has no padding.
struct lt_key {
    int64_t m, n, k, a_step, b_step, a_batch, b_batch, batch;
    int16_t dtype, out;     // of the factors, where uint8 stands for fp8; of the result
    int32_t aligned;        // bytes that all addresses are multiples of
    int32_t transposed, then;   // bits: 1 for a, 2 for b: columns are contiguous
};

struct lt_product;

// The memory of one product, its factor, and beta, the factor of `added`, which has the layout of y; bias and
// added may be NULL.
struct lt_memory {
    const char *a, *b, *bias, *added;
    char *y;
    double scale, beta;
};

// Returns whether cuBLASLt is installed and may be used, which ZL_BATCH_INVARIANT forbids.
bool lt_is_there(void);
// Locks a unit's table of products, for lt_find() and lt_multiply().
void lt_take(int unit);
// Unlocks it.
void lt_give(int unit);
// Returns the product of a key, which the table owns, or NULL: cuBLASLt has no algorithm or does not start,
// or memory runs out, with an error.
struct lt_product *lt_find(int unit, int lane, const struct lt_key *k);
// Enqueues a product on the lane. Returns false, with an error, if it fails.
bool lt_multiply(int unit, int lane, struct lt_product *r, const struct lt_key *k, const struct lt_memory *m);

#endif
