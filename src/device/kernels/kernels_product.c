// kernels_product.c - products of large matrices whose rows or columns are contiguous, by
// src/kernel/product.tile, on units whose threads hold tiles in registers. f16 and bf16 need matrix
// instructions; other products run on kernels_matmul.c.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { PACK_BYTES = 16, LEAST = 32, TILE = 128, SMALL_TILE = 64, FEW_BLOCKS = 128, DEEP_BYTES = 40 << 10 };

// The layout of a factor: lines of contiguous elements, which are its rows or, if it is transposed, its
// columns.
struct factor {
    int64_t lines, line, step, between; // lines; elements per line; distance of lines; distance of matrices
    int is_transposed;
};

// Sets *between to the stride of the batch axes as one axis. Returns false if they do not form one.
static bool fold_batch(zl_array x, int64_t *between) {
    int64_t next = -1; // the stride at which an axis continues those merged so far
    *between = 0;
    for (int i = x->ndim - 3; i >= 0; i--) {
        int64_t stride = array_stride(x)[i];
        if (x->dim[i] == 1)
            continue;
        if (next < 0)
            *between = stride;
        else if (stride != next)
            return false;
        next = stride * x->dim[i];
    }
    return *between >= 0;
}

static bool find_factor(zl_array x, struct factor *f) {
    const int64_t *stride = &array_stride(x)[x->ndim - 2], *dim = &x->dim[x->ndim - 2];
    f->is_transposed = stride[1] != 1;
    f->lines = dim[f->is_transposed];
    f->line = dim[!f->is_transposed];
    f->step = stride[f->is_transposed];
    return stride[!f->is_transposed] == 1 && f->step >= 0 && kernel_elements(x) < KERNEL_NARROW / 2 &&
           fold_batch(x, &f->between);
}

// Returns the most elements, a power of two up to `pack`, that every access can take at once.
static int find_pack(zl_array x, const struct factor *f, int pack) {
    int64_t together = x->offset | f->line | f->step | f->between;
    while (pack > 1 && together % pack)
        pack /= 2;
    return pack;
}

static bool is_fast(const struct target *unit, zl_dtype dtype) {
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    return !unit->group->is_serial && unit->group->shared_bytes > 0 &&
           (is_half ? unit->multiplies && unit->multiplies(dtype, dtype, ZL_FLOAT32) : dtype == ZL_FLOAT32);
}

bool kernel_product_fits(const struct kernel_place *p, const struct call *c) {
    zl_array a = c->in[0], b = c->in[1], y = call_first(c);
    const int64_t *dim = &y->dim[y->ndim - 2];
    struct factor f;
    return (c->op == &op_matmul || c->op == &op_addmm) && is_fast(p->record, (zl_dtype)a->dtype) &&
           !device_batch_invariant() && dim[0] >= LEAST && dim[1] >= LEAST && a->dim[a->ndim - 1] >= LEAST &&
           y->size < KERNEL_NARROW / 2 && find_factor(a, &f) && find_factor(b, &f);
}

// Returns the depth of the tiles: how many columns of a and rows of b an iteration multiplies. It is larger
// for f16 and bf16 if two such tiles fit into shared memory.
static int depth_of(const struct target *unit, bool is_half) {
    return !is_half ? 16 : unit->group->has_async || unit->group->shared_bytes >= DEEP_BYTES ? 64 : 32;
}

bool kernel_product(const struct kernel_place *p, const struct call *c) {
    zl_array in[2] = {c->in[0], c->in[1]}, y = call_first(c);
    int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1], products = y->size / (m * n);
    const int64_t *arg = call_args(c);
    bool adds = c->op == &op_addmm, is_half = array_item(y) == 2;
    float scale = adds ? (float)op_arg_double(arg[ADDMM_ALPHA]) : 1;
    float beta = adds ? (float)op_arg_double(arg[ADDMM_BETA]) : 0;
    struct factor f[2];
    int pack = PACK_BYTES / (int)array_item(y);
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, products, m, n, in[0]->dim[in[0]->ndim - 1]);
    for (int i = 0; i < 2; i++) {
        find_factor(in[i], &f[i]);
        pack = find_pack(in[i], &f[i], pack);
    }
    for (int i = 0; i < 2; i++) {
        work_place(&w, in[i]);
        WORK_SIZES(&w, f[i].lines, f[i].line, in[i]->offset / pack, f[i].between, f[i].step);
    }
    work_value(&w, &scale, sizeof scale);
    work_value(&w, &beta, sizeof beta);
    work_result(&w, y);
    bool is_small = products * ((m + TILE - 1) / TILE) * ((n + TILE - 1) / TILE) < FEW_BLOCKS;
    int side = is_small ? SMALL_TILE : TILE;
    return WORK_FILE(&w, "product",
                     "ITEM=%t,OUT=%t,PACK=%d,AT=%d,BT=%d,SCALED=%d,ADDS=%d,M=%d,N=%d,K=%d,THREADS=%d",
                     y->dtype, y->dtype, pack, f[0].is_transposed, f[1].is_transposed, adds, beta != 0, side,
                     side, depth_of(p->record, is_half), is_half || is_small ? 128 : 256);
}
