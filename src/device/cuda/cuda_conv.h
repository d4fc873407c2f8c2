// cuda_conv.h - convolutions of f32 as products of matrices, which are faster than many plans of cuDNN
// without TF32.

#ifndef CUDA_CONV_H
#define CUDA_CONV_H

#include "device/cuda/cuda_dnn.h"
#include "op/ops.h"

// A convolution in cuDNN's terms: sizes of input, kernel and output, batch and channels first, then spatial
// axes.
struct conv_sizes {
    enum dnn_conv_kind kind;
    int axes; // number of spatial axes
    bool flip;
    const int64_t *x, *w, *y, *stride, *dilation, *low;
};

// cuda_conv_product.c ---------------------------------------------------------------------------------------

// Returns whether a convolution can be computed so, with memory for its patches that is not too large.
bool cuda_conv_has_product(const struct conv_sizes *s);
// Runs it, in float32. memory is that of x, w and y, with contiguous channels; the kind says which of them is
// written. Returns false, with an error, if that fails.
bool cuda_conv_by_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory);
// Returns the milliseconds that a run takes, or INFINITY, without an error, if it fails.
float cuda_conv_time_product(const struct kernel_place *p, const struct conv_sizes *s, void *const *memory);

// The launch that makes patches of an input (unfold.tile), or adds up patches to an input (fold.tile): its
// key, symbols and table.
struct conv_patches {
    struct conv_patches_key {
        char name[8]; // sets its key apart from those of other kernels
        int32_t folds, unit;
    } key;
    int symbols, rows; // rows of the table
    int64_t symbol[16];
    int32_t table[5][CONV_AXES];
};
// Returns the launch that makes patches, or folds them.
struct conv_patches cuda_conv_patches_of(const struct conv_sizes *s, bool folds);
// Returns the kernel of a struct conv_patches_key, or NULL and an error, as a kernel_maker.
struct tile_kernel *cuda_conv_patches_make(const void *key);

#endif
