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

// kernels_quantized_matmul.c ----------------------------------------------------------------------------------------

enum { QMM_MODE, QMM_GROUP, QMM_BITS, QMM_TRANSPOSE, QMM_GATHERED }; // arguments of a product
enum { QMM_X, QMM_WORDS, QMM_SCALES, QMM_BIASES };                   // its inputs

struct quantized_sizes { // struct zl_axes of its kernels
    int64_t x, words, scales, biases, first, second; // where they begin
    int64_t m, k, rows, row_words, row_groups;       // rows: of the matrix; k: numbers of a line of x
    int64_t lists, matrices, blocks, chunks;         // matrices of x and of words; groups of threads for rows, and for lines
};
struct quantized_sizes kernel_quantized_sizes(const struct call *c); // but for blocks and chunks
// Memory of its inputs, in the order of the kernels' parameters. False and an error.
bool kernel_add_quantized(const struct kernel_place *p, struct kernel_call *k, const struct call *c);
// The struct, loads and stores; and how a kernel begins: block, line, number; x, words, scales and biases of its product. They
// need ITEM, widen, narrow, GATHERED and LINES.
extern const char kernel_quantized_text[], kernel_quantized_begin[];

#endif
