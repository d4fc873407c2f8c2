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
// Returns values for the clauses MODE, GROUP_SIZE, CODE_BITS and SCALE of files in src/kernel/.
struct quantized_clauses {
    char text[80];
};
struct quantized_clauses kernel_quantized_clauses(const struct quantized_key *key);
// Returns the largest power of two, at most `most`, that divides both numbers: elements that a vector may have.
int32_t kernel_divisor(int64_t most, int64_t a, int64_t b);

// The matrix that words, scales and biases stand for, row-major, to memory of the place. biases: NULL if there are none.
struct quantized_matrix {
    zl_array words, scales, biases, global;
    zl_dtype dtype; // of the result
};
bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m, void *to);

// kernels_quantized_matmul.c ----------------------------------------------------------------------------------------

enum { QMM_MODE, QMM_GROUP, QMM_BITS, QMM_TRANSPOSE, QMM_GATHERED }; // arguments of a product
enum { QMM_X, QMM_WORDS, QMM_SCALES, QMM_BIASES };                   // its inputs

struct quantized_sizes { // symbols of its tile kernels, in their order
    int64_t products, m, k, rows, row_words, row_groups; // rows: of the matrix; k: numbers of a line of x
    int64_t lists, matrices;                             // matrices of x and of words
    int64_t x, words, scales, biases, first, second;     // where they begin
};
struct quantized_sizes kernel_quantized_sizes(const struct call *c);
// Adds the memory of its inputs, in the order of the kernels' parameters. False and an error.
bool kernel_add_quantized(const struct kernel_place *p, struct kernel_call *k, const struct call *c);

#endif
