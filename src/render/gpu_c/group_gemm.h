// group_gemm.h - a product of tiles as it is rendered. Used by group_gemm.c and group_warps.c only.

#ifndef GROUP_GEMM_H
#define GROUP_GEMM_H

#include "render/gpu_c/group.h"

enum { GEMM_PANEL = 64, GEMM_STEP = 16 }; // elements in 128 bytes; depth of one instruction

struct gemm_operand {
    const struct tile_region *region;
    bool is_transposed;   // ldmatrix reads it transposed
    bool first_is_column; // `first` is a column of the region, not a row
    int64_t steps;        // per subgroup, of 16 rows or columns of the result
    char name;
    const char *first;   // variable of the text: the subgroup's first row or column
    const char *step[2]; // row and column of one load in the region, from zl_i and zl_k
    const char *lane[2]; // row and column of this lane in the load
};

struct gemm_product {
    struct gemm_operand a, b;
    int64_t rows, columns, depth; // per subgroup
    int down;                     // number of subgroups along the rows
    bool clear;
    int sum;          // id of the result's buffer
    const char *type; // of the operands
};

// group_gemm.c

// Return, of an operand, along its rows (axis 0) or columns (axis 1): the origin of its region in the buffer;
// the size of the buffer. Both are constants, in elements.
int64_t render_gemm_origin(const struct gemm_operand *o, int axis);
int64_t render_gemm_size(const struct gemm_operand *o, int axis);
// Appends the address of the operand's matrix in the stack of matrices that its buffer holds.
void render_gemm_matrix(struct program *p, const struct gemm_operand *o);
// Opens an unrolled loop over a variable of the text.
void render_gemm_loop(struct program *p, const char *name, int64_t from, int64_t to);
// Writes the loads of the operand's fragments for step zl_k of the depth into the array `to`.
void render_gemm_load(struct program *p, const struct gemm_operand *o, const char *to, int64_t depth);

// group_warps.c

// Returns whether sm_90a can compute the product by its instructions of four subgroups (wgmma).
bool render_gemm_has_warps(const struct gemm_product *m);
// Writes the product by these instructions.
void render_gemm_by_warps(struct program *p, const struct gemm_product *m);

#endif
