// kernels_matmul.c - products of matrices of any strides, also of matrices that indices select (gather_mm)
// and of segments of the inner axis (segmented_mm), by src/kernel/matmul.tile.
//
// f16, bf16 and fp8 are multiplied and summed in f32, int8 in int32. The matrix that addmm adds is copied to
// the memory of the result, and read there.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum kind { BATCH, CHOSEN, PARTS }; // all of a batch; those that indices select; segments of the inner axis

bool kernel_can_matmul(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype) || c->op == &op_matmul_int8 || c->op == &op_matmul_fp8;
}

// Products of a batch, whose layout holds the strides from one product to the next.
struct product {
    enum kind kind;
    struct kernel_layout batch;
    zl_array a, b, y, first,
        second; // of indices; for BATCH, the matrices serve as placeholders
    int64_t a_step, b_step, a_count, b_count;
};

// Returns the product of the first two inputs, without batch axes.
static struct product product_of(const struct call *c, enum kind kind, zl_array first, zl_array second) {
    struct product f = {
        .kind = kind, .a = c->in[0], .b = c->in[1], .y = call_first(c), .first = first, .second = second};
    kernel_layout_begin(&f.batch, 2);
    return f;
}

// Returns whether positions need more than 31 bits, including those past the ends of blocks.
static bool is_wide(const struct product *f, int64_t inner) {
    int64_t most = MAX_OF(MAX_OF(kernel_elements(f->a), kernel_elements(f->b)), MAX_OF(f->y->size, inner));
    most = MAX_OF(most, MAX_OF(kernel_elements(f->first), kernel_elements(f->second)));
    return kernel_layout_is_wide(&f->batch) || most > KERNEL_NARROW;
}

static bool multiply(const struct kernel_place *p, const struct call *c, const struct product *f) {
    zl_array y = f->y, in[] = {f->a, f->b, f->first, f->second};
    int64_t m = y->dim[y->ndim - 2], n = y->dim[y->ndim - 1], inner = f->a->dim[f->a->ndim - 1];
    const int64_t *arg = call_args(c);
    bool adds = c->op == &op_addmm, is_fp8 = c->op == &op_matmul_fp8;
    float scale = adds || is_fp8 ? (float)op_arg_double(arg[adds ? (int)ADDMM_ALPHA : (int)FP8_SCALE]) : 1;
    float beta = adds ? (float)op_arg_double(arg[ADDMM_BETA]) : 0;
    bool is_int = f->a->dtype == ZL_INT8;
    zl_dtype index = f->kind == BATCH ? ZL_INT32 : (zl_dtype)f->first->dtype,
             wide = is_int   ? ZL_INT32
                    : is_fp8 ? ZL_FLOAT32
                             : tile_reduce_gives((zl_dtype)f->a->dtype);
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, f->batch.size, m, n, inner);
    for (size_t i = 0; i < COUNT(in); i++) { // an empty input is not read
        work_place(&w, in[i]->size ? in[i] : y);
        WORK_SIZES(&w, in[i]->offset);
    }
    WORK_SIZES(&w, f->a_count, f->b_count);
    for (size_t i = 0; i < COUNT(in); i++)
        WORK_SIZES(&w, kernel_elements(in[i]));
    const int64_t *by_a = &array_stride(f->a)[f->a->ndim - 2], *by_b = &array_stride(f->b)[f->b->ndim - 2];
    const int64_t by[] = {by_a[0], by_a[1], f->a_step, by_b[0], by_b[1], f->b_step};
    work_table(&w, &f->batch);
    work_rows(&w, 2, 3, by, 3);
    work_value(&w, &scale, sizeof scale);
    work_value(&w, &beta, sizeof beta);
    work_result(&w, y);
    w.wide |= is_wide(f, inner);
    // All batches of two and more axes share a kernel.
    return WORK_FILE(
        &w, "matmul",
        "ITEM=%t,WIDE=%t,FLOAT=%t,OUT=%t,WHICH=%t,GIVEN=%t,KIND=%d,INTEGER=%d,SCALED=%d,ADDS=%d,AXES=%d,%i",
        is_fp8 ? WORK_E4M3 : f->a->dtype, wide, is_int ? ZL_FLOAT32 : wide, y->dtype, index,
        index == ZL_UINT64 ? ZL_UINT64 : ZL_INT64, (int32_t)f->kind, is_int, adds || is_fp8, beta != 0,
        f->batch.axes < 2 ? f->batch.axes : KERNEL_AXES);
}

// Copies the matrix that addmm adds to the memory of the result, unless beta is 0.
static bool bring_added(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    return op_arg_double(call_args(c)[ADDMM_BETA]) == 0 ||
           kernel_stretch_out(p, c->in[2], y->ndim, y->dim, kernel_reach(p, y));
}

bool kernel_matmul(const struct kernel_place *p, const struct call *c) {
    if (kernel_matmul_few_fits(c))
        return kernel_matmul_few(p, c);
    struct product f = product_of(c, BATCH, c->in[0], c->in[1]);
    for (int i = 0; i < f.a->ndim - 2; i++)
        kernel_layout_push(&f.batch, f.a->dim[i],
                           (const int64_t[]){array_stride(f.a)[i], array_stride(f.b)[i]});
    if (c->op == &op_addmm && !bring_added(p, c))
        return false;
    return kernel_product_fits(p, c) ? kernel_product(p, c) : multiply(p, c, &f);
}

// Chosen ----------------------------------------------------------------------------------------------------

bool kernel_gather_mm(const struct kernel_place *p, const struct call *c) {
    zl_array first = c->in[2], second = c->in[3];
    struct product f = product_of(c, CHOSEN, first, second);
    f.a_step = array_stride(f.a)[0];
    f.b_step = array_stride(f.b)[0];
    f.a_count = f.a->dim[0];
    f.b_count = f.b->dim[0];
    for (int i = 0; i < first->ndim; i++)
        kernel_layout_push(&f.batch, first->dim[i],
                           (const int64_t[]){array_stride(first)[i], array_stride(second)[i]});
    return multiply(p, c, &f);
}

bool kernel_segmented_mm(const struct kernel_place *p, const struct call *c) {
    zl_array parts = c->in[2];
    struct product f = product_of(c, PARTS, parts, parts);
    f.a_step = array_stride(parts)[parts->ndim - 1];
    for (int i = 0; i < parts->ndim - 1; i++)
        kernel_layout_push(&f.batch, parts->dim[i], (const int64_t[]){array_stride(parts)[i], 0});
    return multiply(p, c, &f);
}
