// kernels_quantized.h - quantised matrices as kernels read them.

#ifndef KERNELS_QUANTIZED_H
#define KERNELS_QUANTIZED_H

#include "device/kernels/kernels.h"
#include "op/ops.h"

// Returns the type of scales and biases as a clause (WORK_FILE): a dtype or WORK_E4M3.
int32_t kernel_scale_type(const int64_t *arg, zl_array scales);
// Returns how many groups have their scales stored together: more than 1 in mode gguf_k only.
int32_t kernel_scale_groups(const int64_t *arg);
// Returns how many elements of the scales such groups take, 1 unless the mode is gguf_k.
int32_t kernel_scale_bytes(const int64_t *arg);
// Returns the largest power of two, at most `most`, that divides both numbers: the elements that a vector may
// have.
int32_t kernel_divisor(int64_t most, int64_t a, int64_t b);

// A quantised matrix. biases and global are NULL if there are none.
struct quantized_matrix {
    zl_array words, scales, biases, global;
    zl_dtype dtype; // of the result
};
// Unpacks the matrix, row-major, to memory of the place. Returns false, with an error, if that fails.
bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m,
                   void *to);

// kernels_quantized_matmul.c --------------------------------------------------------------------------------

enum { QMM_MODE, QMM_GROUP, QMM_BITS, QMM_TRANSPOSE, QMM_GATHERED }; // arguments of a product
enum { QMM_X, QMM_WORDS, QMM_SCALES, QMM_BIASES };                   // its inputs

struct quantized_sizes { // symbols of its tile kernels, in their order
    int64_t products, m, k, rows, row_words, row_groups; // rows: of the quantised matrix; k: elements in a
                                                         // row of x
    int64_t lists, matrices;                             // matrices of x and of words
    int64_t x, words, scales, biases, first, second;     // offsets; first, second: of the indices
};
// Returns the sizes of a product.
struct quantized_sizes kernel_quantized_sizes(const struct call *c);
enum { QMM_LISTED = 6 };
// Lists the inputs of a product in the order of the kernels' parameters. Inputs that the call does not have
// are listed as x, which the kernels do not read in their place.
void kernel_quantized_inputs(const struct call *c, zl_array *list);

#endif
