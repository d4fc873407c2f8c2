// tile_gemm.c - products of tiles and reductions of rows, which compiled tile kernels call.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/tile/tile_kernel.h"

#include "device/cpu/gemm/gemm.h"

// The part of a rectangle that is inside of its matrix. Rows and columns are those of the product.
struct part {
    const char *data;
    int64_t row, col;       // strides, in elements
    int64_t rows, cols;     // inside of the matrix
    int64_t at_row, at_col; // their position in the rectangle
};

static void clip(int64_t first, int64_t size, int64_t wanted, int64_t *at, int64_t *count) {
    *at = first < 0 ? MIN_OF(-first, wanted) : 0;
    *count = MAX_OF(MIN_OF(first + wanted, size) - MAX_OF(first, 0), 0);
}

static struct part part_of(const struct tile_matrix *m, int64_t rows, int64_t cols) {
    int row = m->transposed, col = !row;
    struct part p = {.row = m->stride[row], .col = m->stride[col]};
    clip(m->first[row], m->size[row], rows, &p.at_row, &p.rows);
    clip(m->first[col], m->size[col], cols, &p.at_col, &p.cols);
    int64_t from = MAX_OF(m->first[row], 0) * p.row + MAX_OF(m->first[col], 0) * p.col;
    p.data = (const char *)m->data + from * (int64_t)zl_dtype_size((zl_dtype)m->dtype);
    return p;
}

static void clear(const struct tile_gemm *t) {
    size_t item = zl_dtype_size((zl_dtype)t->c.dtype);
    for (int64_t i = 0; i < t->m; i++)
        memset((char *)t->c.data + i * t->c.stride[0] * (int64_t)item, 0, (size_t)t->n * item);
}

// Returns the product of the parts of both factors that are inside of their arrays: elements outside count as
// zeros and need not be multiplied.
static struct gemm gemm_of(const struct tile_gemm *t) {
    struct part a = part_of(&t->a, t->m, t->k), b = part_of(&t->b, t->k, t->n);
    int64_t from = MAX_OF(a.at_col, b.at_row), to = MIN_OF(a.at_col + a.cols, b.at_row + b.rows);
    int64_t item = (int64_t)zl_dtype_size((zl_dtype)t->a.dtype);
    bool whole = a.rows == t->m && b.cols == t->n && to > from;
    if (t->clear && !whole)
        clear(t);
    return (struct gemm){.m = a.rows,
                         .n = b.cols,
                         .k = MAX_OF(to - from, 0),
                         .a = a.data + (from - a.at_col) * a.col * item,
                         .b = b.data + (from - b.at_row) * b.row * item,
                         .c = (char *)t->c.data + (a.at_row * t->c.stride[0] + b.at_col) *
                                                      (int64_t)zl_dtype_size((zl_dtype)t->c.dtype),
                         .a_row = a.row,
                         .a_col = a.col,
                         .b_row = b.row,
                         .b_col = b.col,
                         .c_row = t->c.stride[0],
                         .c_col = 1,
                         .add = !t->clear || !whole};
}

static bool multiply(const struct tile_run *run, const struct tile_gemm *t, const struct gemm *g) {
    zl_dtype dtype = (zl_dtype)t->a.dtype;
    const struct gemm_kernel *u = gemm_kernel_for(dtype);
    struct gemm_work w = {.g = g, .dtype = dtype, .out = u->sum, .kernel = u};
    const char *a, *b;
    if (cpu_tile_panels(run, t, &w, &a, &b))
        return gemm_multiply_packed(&w, a, b);
    return gemm_multiply(&w);
}

// Computes a product into 16-bit floats. Their sums are float32, so it is computed in a buffer and then
// rounded.
static bool multiply_narrow(const struct tile_run *run, const struct tile_gemm *t, const struct gemm *g) {
    zl_dtype dtype = (zl_dtype)t->c.dtype;
    row_fn *widen = cpu_level()->rows->cast[ZL_FLOAT32][dtype],
           *narrow = cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    struct gemm wide = *g;
    char *room = cpu_scratch(SCRATCH_RESULT, sizeof(float) * (size_t)(g->m * g->n)), *c = g->c;
    if (!room)
        return false;
    for (int64_t i = 0; g->add && i < g->m; i++)
        cpu_call_row(widen, room + i * g->n * 4, c + i * g->c_row * 2, NULL, NULL, g->n);
    wide.c = room;
    wide.c_row = g->n;
    bool done = multiply(run, t, &wide);
    for (int64_t i = 0; i < g->m; i++)
        cpu_call_row(narrow, c + i * g->c_row * 2, room + i * g->n * 4, NULL, NULL, g->n);
    return done;
}

void cpu_tile_gemm(const struct tile_run *run, const struct tile_gemm *t) {
    struct gemm g = gemm_of(t);
    if (g.m == 0 || g.n == 0 || g.k == 0)
        return;
    bool is_narrow = t->c.dtype == ZL_FLOAT16 || t->c.dtype == ZL_BFLOAT16;
    if (!(is_narrow ? multiply_narrow : multiply)(run, t, &g))
        run->fail(run, 0, "there is no memory for a product");
}

void cpu_tile_reduce(int op, int dtype, void *to, const void *from, int64_t n) {
    cpu_call_row(cpu_reduce_row((enum tile_op)op, (zl_dtype)dtype), to, from, NULL, NULL, n);
}
