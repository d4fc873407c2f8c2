// kernels_quantized.h - quantised matrices as kernels read them.

#ifndef KERNELS_QUANTIZED_H
#define KERNELS_QUANTIZED_H

#include "device/kernels/kernels.h"
#include "op/ops.h"

// of scales and biases, for clauses (WORK_FILE)
int32_t kernel_scale_type(const int64_t *arg, zl_array scales);
// Of how many groups the scales lie together, and in how many elements: those of mode gguf_k do (for
// clauses).
int32_t kernel_scale_groups(const int64_t *arg);
int32_t kernel_scale_bytes(const int64_t *arg);
// Returns the largest power of two, at most `most`, that divides both numbers: elements that a vector may
// have.
int32_t kernel_divisor(int64_t most, int64_t a, int64_t b);

// The matrix that words, scales and biases stand for, row-major, to memory of the place. biases: NULL if
// there are none.
struct quantized_matrix {
    zl_array words, scales, biases, global;
    zl_dtype dtype; // of the result
};
bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m,
                   void *to);

// kernels_quantized_matmul.c --------------------------------------------------------------------------------

enum { QMM_MODE, QMM_GROUP, QMM_BITS, QMM_TRANSPOSE, QMM_GATHERED }; // arguments of a product
enum { QMM_X, QMM_WORDS, QMM_SCALES, QMM_BIASES };                   // its inputs

struct quantized_sizes { // symbols of its tile kernels, in their order
    int64_t products, m, k, rows, row_words, row_groups; // rows: of the matrix; k: numbers of a line of x
    int64_t lists, matrices;                             // matrices of x and of words
    int64_t x, words, scales, biases, first, second;     // where they begin
};
struct quantized_sizes kernel_quantized_sizes(const struct call *c);
// Lists its inputs in the order of the kernels' parameters. x stands for those that are not there, and is not
// read as such.
enum { QMM_LISTED = 6 };
void kernel_quantized_inputs(const struct call *c, zl_array *list);

#endif
