// kernels_quantized.h - quantised matrices as kernels read them.

#ifndef KERNELS_QUANTIZED_H
#define KERNELS_QUANTIZED_H

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct quantized_key { // part of a kernel's key
    int32_t mode, group, bits;
    int32_t scales; // dtype of scales and biases
};

struct quantized_key kernel_quantized_key(const int64_t *arg, zl_array scales);
// BITS, GROUP_SIZE, AFFINE; SCALE and WIDE, types of scales in memory and of what is computed; scale_of(item);
// number_of(code), the f32 that a code stands for; code_at(words, i). False and an error.
bool kernel_write_quantized(struct text *out, const struct quantized_key *key, zl_dtype wide, const char *dialect);

// The matrix that words, scales and biases stand for, row-major, to memory of the place. biases: NULL if there are none.
struct quantized_matrix {
    zl_array words, scales, biases, global;
    zl_dtype dtype; // of the result
};
bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m, void *to);

#endif
