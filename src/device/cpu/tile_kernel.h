// tile_kernel.h - what compiled tile kernels are given: the C text of render/prelude.c says the same.

#ifndef TILE_KERNEL_H
#define TILE_KERNEL_H

#include "kernel/kernel.h"

// A matrix of a block: rows are `row` elements apart.
struct tile_matrix {
    void *data;
    int64_t row;
    int dtype, transposed;
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
    char *const *room; // memory outside of all blocks
    void (*gemm)(const struct tile_gemm *g);
    void (*reduce)(int op, int dtype, void *to, const void *from, int64_t n); // a line, as enum tile_op
    void (*fail)(const struct tile_run *run, int line, const char *message);
    void (*print)(const struct tile_run *run, const char *message, int has_value, double value);
};

extern const struct kernel_driver cpu_kernel_driver;

// tile_gemm.c
void cpu_tile_reduce(int op, int dtype, void *to, const void *from, int64_t n);
void cpu_tile_gemm(const struct tile_gemm *g);

#endif
