// opencl_kernel.h - tile kernels on OpenCL: the target `opencl`.

#ifndef OPENCL_KERNEL_H
#define OPENCL_KERNEL_H

#include "kernel/kernel.h"

extern const struct kernel_driver opencl_kernel_driver;

#endif
