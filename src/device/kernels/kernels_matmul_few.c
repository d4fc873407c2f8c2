// kernels_matmul_few.c - products of few rows with a matrix whose columns are contiguous (x W^T of decoding),
// by src/kernel/matmul_few.tile.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum {
    LINES_MOST = 4, // rows of a
    PACK_BYTES = 16,
    WARP = 32,
    COLUMNS_MANY = 1 << 15, // columns of b from which a warp has two of them
};

// The rows of a and the columns of b.
struct few {
    int64_t m, n, k, a_step, b_step;
    int row;  // the axis of rows
    int pack; // elements per access
};

// Finds the axis of rows: the last axis of `a` but one or, if that has size 1, the only other batch axis,
// along which all matrices b are the same. Returns false if matrices b differ, or if there are more such
// axes.
static bool fold(struct few *f, zl_array a, zl_array b) {
    f->row = a->ndim - 2;
    for (int i = f->row - 1; i >= 0; i--) {
        if (a->dim[i] == 1)
            continue;
        if (a->dim[f->row] != 1 || array_stride(b)[i] != 0)
            return false;
        f->row = i;
    }
    f->m = a->dim[f->row];
    f->a_step = array_stride(a)[f->row];
    return true;
}

static bool find(const struct call *c, struct few *f) {
    zl_array a = c->in[0], b = c->in[1];
    int last = a->ndim - 1;
    if ((c->op != &op_matmul && c->op != &op_addmm) || !dtype_is_float((zl_dtype)a->dtype) ||
        device_batch_invariant() || !fold(f, a, b))
        return false;
    f->n = b->dim[last];
    f->k = a->dim[last];
    f->b_step = f->n == 1 ? f->k : array_stride(b)[last];
    f->a_step = f->m == 1 ? f->k : f->a_step;
    f->pack = PACK_BYTES / (int)array_item(a);
    bool is_few = f->m >= 1 && f->m <= LINES_MOST && f->n >= 1 && f->k >= (int64_t)WARP * f->pack;
    bool lies = array_stride(a)[last] == 1 && array_stride(b)[last - 1] == 1;
    int64_t together = f->k | a->offset | b->offset | f->a_step | f->b_step;
    return is_few && lies && f->a_step >= 0 && f->b_step >= 0 && together % f->pack == 0;
}

bool kernel_matmul_few_fits(const struct call *c) {
    struct few f;
    return kernel_inputs_lie(c) && find(c, &f);
}

bool kernel_matmul_few(const struct kernel_place *p, const struct call *c) {
    struct few f;
    struct kernel_work w;
    const int64_t *arg = call_args(c);
    bool adds = c->op == &op_addmm;
    zl_array a = c->in[0], b = c->in[1], y = call_first(c), added = adds ? c->in[2] : a;
    float scale = adds ? (float)op_arg_double(arg[ADDMM_ALPHA]) : 1,
          beta = adds ? (float)op_arg_double(arg[ADDMM_BETA]) : 0;
    zl_dtype dtype = (zl_dtype)a->dtype;
    find(c, &f);
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, f.m, f.n, f.k, a->offset, f.a_step, kernel_elements(a), b->offset, f.b_step,
               kernel_elements(b), added->offset, kernel_layout_stride(added, y->ndim, f.row),
               kernel_layout_stride(added, y->ndim, y->ndim - 1), kernel_elements(added));
    work_place(&w, a);
    work_place(&w, b);
    work_place(&w, added);
    work_value(&w, &scale, sizeof scale);
    work_value(&w, &beta, sizeof beta);
    work_result(&w, y);
    // On an H200, with four warps per column, 4 MB are read in 2.9 us and 96 MB in 24.6; with one warp, in
    // 3.7 and 26.8. With many columns, each warp has two: 151936 x 1024 takes 70 us; with four warps per
    // column, it would take 115.
    bool has_many = f.n >= COLUMNS_MANY;
    return WORK_FILE(&w, "matmul_few",
                     "ITEM=%t,WIDE=%t,PACK=%d,LINES=%d,COLUMNS=%d,PARTS=%d,SCALED=%d,ADDS=%d,%i", dtype,
                     tile_reduce_gives(dtype), f.pack, f.m < 3 ? (int32_t)f.m : LINES_MOST, has_many ? 2 : 1,
                     has_many ? 1 : 4, adds, beta != 0);
}
