// cuda_lt.h - products of matrices by cuBLASLt: what it chose for a shape, and one product by that.

#ifndef CUDA_LT_H
#define CUDA_LT_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"

// Whether a number is added to each column, and if so, whether it has to be before a 16-bit float is rounded.
enum { LT_NOTHING, LT_BIAS, LT_BIAS_ROUNDED_ONCE };

// What a choice depends on: hashed as it lies, so without gaps.
struct lt_key {
    int64_t m, n, k, a_step, b_step, a_batch, b_batch, batch;
    int16_t dtype, out;     // of the factors, uint8 is fp8; of the result
    int32_t aligned;        // what all addresses are multiples of
    int32_t turned, then;   // transposed: 1 a, 2 b: columns are contiguous
};

struct lt_product;

// Memory of one product, what it is multiplied by, and beta times what it is added to, which lies as y does
// elsewhere; bias and added may be NULL.
struct lt_memory {
    const char *a, *b, *bias, *added;
    char *y;
    double scale, beta;
};

bool lt_is_there(void); // and may be used: not with ZL_BATCH_INVARIANT
// What a unit's products are known by serves one thread at a time: what follows needs it.
void lt_take(int unit);
void lt_give(int unit);
// NULL: cuBLASLt has no algorithm, or does not start; or memory is out, and an error.
struct lt_product *lt_find(int unit, int lane, const struct lt_key *k);
// In the order of a lane's work. False and an error.
bool lt_multiply(int unit, int lane, struct lt_product *r, const struct lt_key *k, const struct lt_memory *m);

#endif
