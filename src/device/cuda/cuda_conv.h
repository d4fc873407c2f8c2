// cuda_conv.h - convolutions by products of matrices, which are faster than many plans of cuDNN for float32
// without TF32.

#ifndef CUDA_CONV_H
#define CUDA_CONV_H

#include "device/cuda/cuda_dnn.h"
#include "op/ops.h"

// A convolution as cuDNN has it: sizes of input, kernel and output, batch and channels first, then spatial
// axes.
struct conv_sizes {
    enum dnn_conv_kind kind;
    int axes; // spatial
    bool flip;
    const int64_t *x, *w, *y, *stride, *dilation, *low;
};

// cuda_conv_product.c: whether it can be done, in memory that is not too much.
bool cuda_conv_has_product(const struct conv_sizes *s);
// Of float32, in memory of x, w and y, of which the kind says what is written; channels are contiguous. False
// and an error.
bool cuda_conv_by_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory);
// ms; INFINITY: it fails
float cuda_conv_time_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory);

// The launch that makes patches of an input (unfold.tile), or folds such into one (fold.tile): its key,
// symbols and table.
struct conv_patches {
    struct conv_patches_key {
        char name[8]; // no other kernel has such a key
        int32_t folds, unit;
    } key;
    int symbols, rows; // rows: of the table
    int64_t symbol[16];
    int32_t table[5][CONV_AXES];
};
struct conv_patches cuda_conv_patches_of(const struct conv_sizes *s, bool folds);
struct tile_kernel *cuda_conv_patches_make(const void *key); // as of kernel_maker

#endif
