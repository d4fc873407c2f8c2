// tile_kernel.h - what compiled tile kernels are given: the C text of render/c/prelude.c says the same.

#ifndef TILE_KERNEL_H
#define TILE_KERNEL_H

#include "kernel/kernel.h"

// A rectangle of a matrix. What lies outside of the matrix is 0.
struct tile_matrix {
    void *data;        // the matrix: of rows, columns
    int64_t stride[2]; // in elements
    int64_t first[2];  // where the rectangle begins
    int64_t size[2];   // of the matrix
    int dtype, transposed;
    int is_input; // of the kernel: it stays as it is
};

// c (m x n) = a times b, added to what c holds unless it is cleared.
struct tile_gemm {
    int64_t m, n, k;
    struct tile_matrix a, b, c;
    int clear;
};

struct tile_run {
    char *const *address; // of parameters
    const int64_t *symbol;
    char *const *room; // memory that all blocks share
    void (*gemm)(const struct tile_run *run, const struct tile_gemm *g);
    void (*reduce)(int op, int dtype, void *to, const void *from, int64_t n); // a line, as enum tile_op
    void (*fail)(const struct tile_run *run, int line, const char *message);
    void (*print)(const struct tile_run *run, const char *message, int has_value, double value);
    uint64_t id; // of this run of the kernel
    // An index that is not in its buffer, where ZL_CHECK asks for tests.
    void (*outside)(const struct tile_run *run, int line, const char *buffer, int axis, int64_t index,
                    int64_t size);
};

extern const struct kernel_driver kernel_driver_c;

// tile_gemm.c: functions that struct tile_run gives to kernels.

// Reduces n contiguous elements to one, by an op of enum tile_op.
void cpu_tile_reduce(int op, int dtype, void *to, const void *from, int64_t n);
// Computes a product. If memory runs out it calls run->fail.
void cpu_tile_gemm(const struct tile_run *run, const struct tile_gemm *g);

// tile_panels.c: factors of products that are inputs of the kernel are packed once a thread, as long as there
// is room.

struct gemm_work;

// Packs both factors of a product, or finds those that are packed, and sets *a and *b. Returns false if they
// are too large or memory runs out.
bool cpu_tile_panels(const struct tile_run *run, const struct tile_gemm *t, const struct gemm_work *w,
                     const char **a, const char **b);

#endif
