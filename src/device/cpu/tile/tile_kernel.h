// tile_kernel.h - the arguments of compiled tile kernels; the C text of render/c/prelude.c declares the same.

#ifndef TILE_KERNEL_H
#define TILE_KERNEL_H

#include "kernel/kernel.h"

// A rectangle of a matrix. Elements outside of the matrix are 0.
struct tile_matrix {
    void *data;        // the matrix; the arrays below have a number for rows and one for columns
    int64_t stride[2]; // in elements
    int64_t first[2];  // position of the rectangle
    int64_t size[2];   // of the matrix
    int dtype, transposed;
    int is_input; // it is an input of the kernel, which does not change
};

// c (m x n) = a times b, plus the old c unless `clear`.
struct tile_gemm {
    int64_t m, n, k;
    struct tile_matrix a, b, c;
    int clear;
};

struct tile_run {
    char *const *address; // of parameters
    const int64_t *symbol;
    char *const *room; // buffers that all blocks share
    void (*gemm)(const struct tile_run *run, const struct tile_gemm *g);
    void (*reduce)(int op, int dtype, void *to, const void *from, int64_t n); // reduces a row; op: of enum
                                                                              // tile_op
    void (*fail)(const struct tile_run *run, int line, const char *message);
    void (*print)(const struct tile_run *run, const char *message, int has_value, double value);
    uint64_t id; // of this run of the kernel
    // Reports an index that is outside of its buffer; called if ZL_CHECK is set.
    void (*outside)(const struct tile_run *run, int line, const char *buffer, int axis, int64_t index,
                    int64_t size);
};

extern const struct kernel_driver kernel_driver_c;

// tile_gemm.c: functions that kernels call through struct tile_run.

// Reduces n contiguous elements to one, by an op of enum tile_op.
void cpu_tile_reduce(int op, int dtype, void *to, const void *from, int64_t n);
// Computes a product. If memory runs out it calls run->fail.
void cpu_tile_gemm(const struct tile_run *run, const struct tile_gemm *g);

// tile_panels.c: factors of products that are inputs of the kernel are packed once per thread, as long as
// there is space.

struct gemm_work;

// Packs both factors of a product, or finds them packed, and sets *a and *b. Returns false if they are too
// large or memory runs out.
bool cpu_tile_panels(const struct tile_run *run, const struct tile_gemm *t, const struct gemm_work *w,
                     const char **a, const char **b);

#endif
