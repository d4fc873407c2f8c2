// cuda_kernel.h - tile kernels on NVIDIA GPUs: the target `cuda`.

#ifndef CUDA_KERNEL_H
#define CUDA_KERNEL_H

#include "kernel/kernel.h"

extern const struct kernel_driver cuda_kernel_driver;

#endif
