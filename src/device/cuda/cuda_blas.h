// cuda_blas.h - products of matrices by NVIDIA's library.

#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H

#include "device/kernels/kernels.h"

enum kernel_taken cuda_blas(const struct kernel_place *p, const struct call *c); // of matmul, where it takes the layout

#endif
