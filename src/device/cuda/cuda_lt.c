// cuda_lt.c - products of matrices by cuBLASLt: all dtypes that it has, batches, matrices in place, and fused
// additions.
//
// Matrices whose rows or columns are contiguous are read in place; others are copied first. A bias, and the
// array that addmm adds, are fused into the product where no other call reads the product itself. cuBLASLt's
// relu is not used, because it loses NaN. fp8 products that cuBLASLt does not have are computed as f16
// products, which hold the same numbers.

#include "device/cuda/cuda_lt.h"
#include "device/kernels/kernels_group.h"
#include "op/ops.h"

#include <string.h>

enum {
    ALIGNED = 16,
    LOOPS_MOST = 4096,         // products of a batch that are submitted one by one
    TRANSPOSE_EACH = 64,       // least multiplications per byte of a copy for which it pays,
    TRANSPOSE_LEAST = 1 << 27, // and in all
    FP8_SINCE = 89,            // least compute capability
};

// Products of few rows run on our own kernel, which reads the matrix faster: 4 MB of bf16 take 2.9 us on an
// H200, and 4.4 to 12 with cuBLASLt.
bool cuda_lt_can(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return lt_is_there() && !kernel_matmul_few_fits(c) &&
           (c->op == &op_matmul_int8 || c->op == &op_matmul_fp8 || dtype_is_inexact(dtype));
}

// Matrices --------------------------------------------------------------------------------------------------

// One of our matrices, which is the transpose of one of cuBLASLt's.
struct matrix {
    const char *data;
    bool transposed; // columns are contiguous, not rows
    int64_t step;
};

// Describes a matrix. Returns false if neither its rows nor its columns are contiguous.
static bool see(struct matrix *m, zl_array x) {
    int64_t rows = x->dim[x->ndim - 2], cols = x->dim[x->ndim - 1];
    int64_t row = array_stride(x)[x->ndim - 2], col = array_stride(x)[x->ndim - 1];
    bool by_rows = (col == 1 || cols == 1) && (row >= cols || rows == 1);
    bool by_cols = (row == 1 || rows == 1) && (col >= rows || cols == 1);
    m->transposed = !by_rows;
    m->step = by_rows ? (rows == 1 ? cols : row) : cols == 1 ? rows : col;
    return by_rows || by_cols;
}

struct operands {
    zl_dtype dtype; // of a and b
    double scale, beta;
    bool copies; // whether the added array is copied, even if it is a bias
    const char *bias, *added;
    struct matrix a, b;
    char *y;
    struct kernel_scratch a_copy, b_copy, added_copy;
    struct kernel_layout batch; // of a and b
};

enum lie { AS_IT_LIES, BY_ROWS, BY_COLUMNS };

// Brings an operand: in place if its layout is as required, or as a copy, perhaps of another dtype.
static bool bring(const struct kernel_place *p, struct matrix *m, zl_array x, enum lie lie, zl_dtype dtype,
                  struct kernel_scratch *copy) {
    bool lies = see(m, x) && (lie == AS_IT_LIES || m->transposed == (lie == BY_COLUMNS));
    bool transposed = lies ? m->transposed : lie == BY_COLUMNS, wider = dtype != (zl_dtype)x->dtype;
    if (!lies || wider)
        *m = (struct matrix){.transposed = transposed, .step = x->dim[x->ndim - (transposed ? 2 : 1)]};
    m->data = wider    ? cuda_from_fp8(p, x, transposed, dtype, copy)
              : lies   ? cuda_element(p, x)
              : transposed ? cuda_transposed_copy(p, x, copy)
                       : cuda_row_major(p, x, copy);
    return m->data;
}

// Brings both operands; with by_sums, the axis that is summed over is contiguous in both.
static bool bring_all(const struct kernel_place *p, struct operands *o, const struct call *c, bool by_sums,
                      zl_dtype dtype) {
    zl_array a = c->in[0], b = c->in[1];
    o->dtype = dtype;
    o->scale = c->op == &op_matmul_fp8 ? op_arg_double(call_args(c)[FP8_SCALE])
               : c->op == &op_addmm    ? op_arg_double(call_args(c)[ADDMM_ALPHA])
                                       : 1;
    if (!bring(p, &o->a, a, by_sums ? BY_ROWS : AS_IT_LIES, dtype, &o->a_copy) ||
        !bring(p, &o->b, b, by_sums ? BY_COLUMNS : AS_IT_LIES, dtype, &o->b_copy))
        return false;
    OP_TEMP(int64_t, room, 2 * (int64_t)a->ndim);
    if (!room)
        return false;
    int64_t *dense_a = room, *dense_b = room + a->ndim;
    shape_row_major(a->ndim, a->dim, dense_a);
    shape_row_major(b->ndim, b->dim, dense_b);
    const int64_t *a_stride = o->a_copy.memory ? dense_a : array_stride(a);
    const int64_t *b_stride = o->b_copy.memory ? dense_b : array_stride(b);
    kernel_layout_begin(&o->batch, 2);
    for (int i = 0; i < a->ndim - 2; i++)
        kernel_layout_push(&o->batch, a->dim[i], (const int64_t[]){a_stride[i], b_stride[i]});
    return true;
}

// Returns whether an array is a bias: one number per column, contiguous.
static bool is_bias(zl_array x, int64_t n, zl_dtype dtype) {
    return x && !array_is(x, ARRAY_INLINE) && x->size == n && x->ndim > 0 && x->dim[x->ndim - 1] == n &&
           (n == 1 || array_stride(x)[x->ndim - 1] == 1) && x->dtype == dtype;
}

static bool is_aligned(const void *memory) {
    return (uintptr_t)memory % ALIGNED == 0;
}

// Brings the array that is added to the product: in place if it has the layout of the result, as a bias, or
// as a copy. The copy is not made in the result's memory, because cuBLASLt would round the product before it
// adds the values there.
static bool bring_added(const struct kernel_place *p, struct operands *o, const struct call *c) {
    zl_array x = c->in[2], y = call_first(c);
    o->beta = op_arg_double(call_args(c)[ADDMM_BETA]);
    if (o->beta == 0)
        return true;
    if (!array_is(x, ARRAY_INLINE) && x->size == y->size &&
        shape_is_row_major(x->ndim, x->dim, array_stride(x)))
        return (o->added = cuda_element(p, x));
    if (!o->copies && o->beta == 1 && y->ndim == 2 && is_bias(x, y->dim[1], (zl_dtype)y->dtype)) {
        o->bias = cuda_element(p, x);
        if (!o->bias || is_aligned(o->bias))
            return o->bias;
        o->bias = NULL;
    }
    void *copy = kernel_scratch_open(p, &o->added_copy, (size_t)y->size * array_item(y));
    o->added = copy;
    return copy && kernel_stretch_out(p, x, y->ndim, y->dim, copy);
}

static void close_copies(const struct kernel_place *p, struct operands *o) {
    kernel_scratch_close(p, &o->a_copy);
    kernel_scratch_close(p, &o->b_copy);
    kernel_scratch_close(p, &o->added_copy);
}

// Multiplying -----------------------------------------------------------------------------------------------

// Returns the alignment in bytes, up to ALIGNED, of the operands of all products of a batch.
static uint32_t alignment_of(const struct operands *o, int64_t item, int64_t each) {
    uintptr_t all =
        (uintptr_t)o->a.data | (uintptr_t)o->b.data | (uintptr_t)o->added | (uintptr_t)o->y | ALIGNED;
    for (int axis = 0; axis < o->batch.axes - 1; axis++)
        all |= (uintptr_t)((o->batch.stride[0][axis] | o->batch.stride[1][axis]) * item) | (uintptr_t)each;
    return (uint32_t)(all & (~all + 1));
}

// Sets *a and *b to the operands of product i, counted along the axes of the batch except the last.
static void advance(const struct operands *o, int64_t i, const char **a, const char **b, int64_t item) {
    *a = o->a.data;
    *b = o->b.data;
    for (int axis = o->batch.axes - 2; axis >= 0; axis--) {
        *a += i % o->batch.dim[axis] * o->batch.stride[0][axis] * item;
        *b += i % o->batch.dim[axis] * o->batch.stride[1][axis] * item;
        i /= o->batch.dim[axis];
    }
}

static struct lt_key key_of(const struct operands *o, const struct call *c) {
    zl_array y = call_first(c);
    int last = o->batch.axes - 1;
    struct lt_key k = {.m = y->dim[y->ndim - 2],
                       .n = y->dim[y->ndim - 1],
                       .k = c->in[0]->dim[y->ndim - 1],
                       .a_step = o->a.step,
                       .b_step = o->b.step,
                       .a_batch = last >= 0 ? o->batch.stride[0][last] : 0,
                       .b_batch = last >= 0 ? o->batch.stride[1][last] : 0,
                       .batch = last >= 0 ? o->batch.dim[last] : 1,
                       .dtype = (int16_t)o->dtype,
                       .out = y->dtype,
                       .transposed = o->a.transposed | o->b.transposed << 1,
                       .then = !o->bias             ? LT_NOTHING
                               : c->op == &op_addmm ? LT_BIAS_ROUNDED_ONCE
                                                    : LT_BIAS};
    k.aligned = (int32_t)alignment_of(o, (int64_t)zl_dtype_size(o->dtype),
                                      k.batch * k.m * k.n * (int64_t)array_item(y));
    return k;
}

// Runs all products of a batch. Under the unit's lock.
static enum kernel_taken multiply_all(const struct kernel_place *p, const struct operands *o,
                                      const struct call *c) {
    struct lt_key k = key_of(o, c);
    int64_t loops = o->batch.size / k.batch, each = k.batch * k.m * k.n * (int64_t)array_item(call_first(c));
    bool fits = loops <= LOOPS_MOST && k.batch <= INT32_MAX;
    bool had_error = zl_error();
    struct lt_product *r = fits ? lt_find(p->unit, p->lane, &k) : NULL;
    if (!r)
        return zl_error() && !had_error ? KERNEL_FAILED : KERNEL_NOT_TAKEN;
    for (int64_t i = 0; i < loops; i++) {
        struct lt_memory m = {.bias = o->bias,
                              .added = o->added ? o->added + i * each : NULL,
                              .y = o->y + i * each,
                              .scale = o->scale,
                              .beta = o->beta};
        advance(o, i, &m.a, &m.b, (int64_t)zl_dtype_size(o->dtype));
        if (!lt_multiply(p->unit, p->lane, r, &k, &m))
            return KERNEL_FAILED;
    }
    return KERNEL_DONE;
}

static enum kernel_taken try_adding(const struct kernel_place *p, const struct call *c, bool by_sums,
                                    zl_dtype dtype, bool copies) {
    struct operands o = {.copies = copies};
    enum kernel_taken taken = KERNEL_FAILED;
    o.y = kernel_reach(p, call_first(c));
    if (o.y && bring_all(p, &o, c, by_sums, dtype) && (c->op != &op_addmm || bring_added(p, &o, c))) {
        lt_take(p->unit);
        taken = multiply_all(p, &o, c);
        lt_give(p->unit);
    }
    close_copies(p, &o);
    return taken;
}

static enum kernel_taken try_product(const struct kernel_place *p, const struct call *c, bool by_sums,
                                     zl_dtype dtype) {
    return try_adding(p, c, by_sums, dtype, false);
}

// For some sizes, cuBLASLt has no product with a bias, or rounds the product before it adds the bias.
static enum kernel_taken multiply_added(const struct kernel_place *p, const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    enum kernel_taken taken = try_adding(p, c, false, dtype, false);
    return taken == KERNEL_NOT_TAKEN ? try_adding(p, c, false, dtype, true) : taken;
}

// Returns whether products of int8 are faster with copies whose rows and columns are contiguous along the
// axis that is summed over: the fast kernels support only that, in whole packs.
static bool transposing_pays(const struct call *c) {
    zl_array a = c->in[0], b = c->in[1];
    struct matrix m;
    int64_t copied = (see(&m, a) && !m.transposed ? 0 : a->size) + (see(&m, b) && m.transposed ? 0 : b->size);
    int64_t inner = a->dim[a->ndim - 1];
    double products = (double)call_first(c)->size * (double)inner;
    return inner % ALIGNED == 0 && products >= TRANSPOSE_LEAST && products >= (double)copied * TRANSPOSE_EACH;
}

// Returns whether the GPU has the product in fp8: rows times columns, in whole packs, also of the result.
static bool has_fp8(const struct kernel_place *p, const struct call *c) {
    struct cuda_device *d = cuda_device(p->unit);
    int last = c->in[0]->ndim - 1;
    return d && 10 * d->major + d->minor >= FP8_SINCE && c->in[0]->dim[last] % ALIGNED == 0 &&
           c->in[1]->dim[last] % ALIGNED == 0;
}

static enum kernel_taken multiply_fp8(const struct kernel_place *p, const struct call *c) {
    zl_dtype wide = call_first(c)->dtype == ZL_FLOAT16 ? ZL_FLOAT16 : ZL_BFLOAT16;
    enum kernel_taken taken = has_fp8(p, c) ? try_product(p, c, true, ZL_UINT8) : KERNEL_NOT_TAKEN;
    return taken == KERNEL_NOT_TAKEN ? try_product(p, c, false, wide) : taken;
}

// For int8, some GPUs only have products of contiguous rows with contiguous columns, and others only for some
// sizes.
static enum kernel_taken multiply_int8(const struct kernel_place *p, const struct call *c) {
    bool by_sums = transposing_pays(c);
    enum kernel_taken taken = try_product(p, c, by_sums, ZL_INT8);
    return taken == KERNEL_NOT_TAKEN ? try_product(p, c, !by_sums, ZL_INT8) : taken;
}

enum kernel_taken cuda_lt_multiply(const struct kernel_place *p, const struct call *c) {
    return c->op == &op_matmul_fp8    ? multiply_fp8(p, c)
           : c->op == &op_matmul_int8 ? multiply_int8(p, c)
           : c->op == &op_addmm       ? multiply_added(p, c)
                                      : try_product(p, c, false, (zl_dtype)c->in[0]->dtype);
}

// What follows ----------------------------------------------------------------------------------------------

// A product, and a sum with one number for each column.
struct fused {
    struct kernel_group g;
    zl_array bias;
};

// Returns the operand of a sum that is not computed by the group's first call, or NULL if neither or both
// are.
static zl_array other_of(const struct fuse_group *g, int index) {
    const struct call *c = g->call[index];
    bool first = fuse_source(g, index, 0) == g->begin, second = fuse_source(g, index, 1) == g->begin;
    return first != second ? c->in[first ? 1 : 0] : NULL;
}

// Returns the next call that is not a view of the product, or -1 if there is none or it is not a sum. Sets
// the rows of the calls before it.
static int next_sum(struct fuse_group *g) {
    int at = g->begin + 1, end = MIN_OF(g->steps->count, g->begin + FUSE_CALLS);
    g->row[0].kind = ROW_PRODUCT;
    for (; at < end && fuse_step(g, at)->kind == FUSE_VIEW && fuse_source(g, at, 0) >= g->begin; at++)
        g->row[at - g->begin].kind = ROW_VIEW;
    bool is_sum = at < end && g->call[at]->op == &op_elementwise[TILE_ADD] && fuse_is_ready(g, at);
    return is_sum ? at : -1;
}

// Returns whether the fused result may be rounded once, where two calls would round twice: f16 and bf16 only
// in compiled functions.
static bool may_round(const struct call *product, const struct call *sum) {
    zl_dtype dtype = (zl_dtype)product->in[0]->dtype;
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    return dtype == ZL_FLOAT32 || (is_half && product->compiled && sum->compiled);
}

static bool lies_alike(zl_array product, zl_array sum) {
    int64_t n = product->dim[1];
    return sum->size == product->size && sum->dim[sum->ndim - 1] == n &&
           shape_is_row_major(sum->ndim, sum->dim, array_stride(sum));
}

// Returns how many calls are fused, 0 if none.
static int find_fused(struct fused *f) {
    struct fuse_group *g = &f->g.f;
    const struct call *c = g->call[g->begin];
    zl_array y = call_first(c);
    int sum = c->op == &op_matmul && y->ndim == 2 ? next_sum(g) : -1;
    if (sum < 0)
        return 0;
    f->bias = other_of(g, sum);
    g->end = sum + 1;
    fuse_find_uses(g);
    bool fits = is_bias(f->bias, y->dim[1], (zl_dtype)y->dtype) && lies_alike(y, fuse_output(g, sum)) &&
                may_round(c, g->call[sum]) && g->outputs == 1 && !g->row[0].stored;
    return fits ? g->end - g->begin : 0;
}

static bool bring_fused(const struct kernel_place *p, const struct fused *f, struct operands *o) {
    o->bias = cuda_element(p, f->bias);
    const struct call *c = f->g.f.call[f->g.f.begin];
    return o->bias && is_aligned(o->bias) && bring_all(p, o, c, false, (zl_dtype)c->in[0]->dtype);
}

static bool run_fused(struct fuse_group *g) {
    const struct fused *f = (const struct fused *)g;
    const struct kernel_place *p = f->g.place;
    struct operands o = {0};
    o.y = kernel_reach(p, fuse_output(g, g->end - 1));
    lt_take(p->unit);
    bool done = o.y && bring_fused(p, f, &o) && multiply_all(p, &o, g->call[g->begin]) == KERNEL_DONE;
    lt_give(p->unit);
    close_copies(p, &o);
    if (!done && !zl_error())
        error_set(ZL_ERROR_DEVICE, "cuda: cuBLASLt does not take the product any more");
    return done;
}

// Returns whether cuBLASLt has an algorithm, for a result at the beginning of memory.
static bool has_algorithm(const struct kernel_place *p, const struct fused *f) {
    struct operands o = {0};
    bool found = false;
    if (bring_fused(p, f, &o) && !o.a_copy.memory && !o.b_copy.memory) {
        struct lt_key k = key_of(&o, f->g.f.call[f->g.f.begin]);
        lt_take(p->unit);
        found = lt_find(p->unit, p->lane, &k);
        lt_give(p->unit);
    }
    close_copies(p, &o);
    return found;
}

int cuda_lt_count(const struct program *program, struct call *const *call, int index) {
    struct fused f = {.g.f = {.steps = &program->steps, .call = call, .begin = index}};
    return program->fuses && cuda_uses_libraries() && lt_is_there() ? find_fused(&f) : 0;
}

int cuda_lt_fuse(const struct kernel_place *p, const struct program *program, struct binding *b, int index) {
    struct fused f = {.g.f = {.steps = &program->steps, .call = b->call, .begin = index}};
    if (!program->fuses || !cuda_uses_libraries() || !lt_is_there() || !fuse_is_ready(&f.g.f, index) ||
        call_first(b->call[index])->size == 0 || !find_fused(&f) || !has_algorithm(p, &f))
        return 0;
    return kernel_group_run(&f.g, b, run_fused, p);
}
