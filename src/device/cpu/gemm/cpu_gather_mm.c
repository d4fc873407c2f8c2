// cpu_gather_mm.c - products of matrices selected by indices, products over segments of the inner axis, and
// products of int8.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"

struct products {
    struct gemm whole; // sizes and strides of one product; data of the first matrices of a and b
    zl_dtype dtype;
    int64_t item, each;     // bytes of an element; elements of a product
    int64_t a_step, b_step; // elements between matrices
    int64_t a_count, b_count;
    struct indices first, second; // indices of matrices of a and b; or, in `first`, where the segments begin
                                  // and end
    char *out;
    atomic_bool failed;
};

static struct gemm gemm_of(zl_array a, zl_array b, zl_array out, union scalar *room) {
    int row = out->ndim - 2, ra = a->ndim - 2, rb = b->ndim - 2;
    return (struct gemm){.m = out->dim[row],
                         .n = out->dim[row + 1],
                         .k = a->dim[ra + 1],
                         .a = array_data(a, &room[0]),
                         .b = array_data(b, &room[1]),
                         .a_row = array_stride(a)[ra],
                         .a_col = array_stride(a)[ra + 1],
                         .b_row = array_stride(b)[rb],
                         .b_col = array_stride(b)[rb + 1],
                         .c_row = out->dim[row + 1],
                         .c_col = 1};
}

// Computes one product. g.k may be 0.
static void run_one(struct products *p, struct gemm g, int64_t at) {
    g.c = p->out + at * p->each * p->item;
    if (g.k == 0)
        memset(g.c, 0, (size_t)(p->each * p->item));
    else if (!cpu_gemm(p->dtype, &g))
        atomic_store(&p->failed, true);
}

static bool run_all(struct products *p, zl_array out, void (*range)(const void *, int64_t, int64_t)) {
    p->dtype = (zl_dtype)out->dtype;
    p->item = (int64_t)array_item(out);
    p->each = p->whole.m * p->whole.n;
    p->out = cpu_data(out);
    atomic_init(&p->failed, false);
    cpu_split(out->size / p->each, 1, range, p);
    return !atomic_load(&p->failed);
}

static void gather_range(const void *context, int64_t from, int64_t to) {
    struct products *p = (struct products *)(uintptr_t)context;
    for (; from < to; from++) {
        int64_t at[2];
        cpu_indices_next(&p->first, from, 1, &at[0]);
        cpu_indices_next(&p->second, from, 1, &at[1]);
        struct gemm g = p->whole;
        g.a += cpu_position(at[0], p->a_count, p->a_count - 1) * p->a_step * p->item;
        g.b += cpu_position(at[1], p->b_count, p->b_count - 1) * p->b_step * p->item;
        run_one(p, g, from);
    }
}

bool cpu_gather_mm(const struct call *c) {
    union scalar room[2];
    zl_array a = c->in[0], b = c->in[1], out = call_output(c, 0);
    struct products p = {.whole = gemm_of(a, b, out, room),
                         .a_step = array_stride(a)[0],
                         .b_step = array_stride(b)[0],
                         .a_count = a->dim[0],
                         .b_count = b->dim[0]};
    bool ok = cpu_indices_open(&p.first, c->in[2]);
    if (ok && (ok = cpu_indices_open(&p.second, c->in[3]))) {
        ok = run_all(&p, out, gather_range);
        cpu_indices_close(&p.second);
    }
    cpu_indices_close(&p.first);
    return ok;
}

static void segment_range(const void *context, int64_t from, int64_t to) {
    struct products *p = (struct products *)(uintptr_t)context;
    for (; from < to; from++) {
        int64_t ends[2];
        cpu_indices_next(&p->first, 2 * from, 2, ends);
        struct gemm g = p->whole;
        int64_t start = MIN_OF(ends[0], g.k), stop = MIN_OF(ends[1], g.k);
        g.k = MAX_OF(stop - start, 0);
        g.a += start * g.a_col * p->item;
        g.b += start * g.b_row * p->item;
        run_one(p, g, from);
    }
}

bool cpu_segmented_mm(const struct call *c) {
    union scalar room[2];
    zl_array out = call_output(c, 0);
    struct products p = {.whole = gemm_of(c->in[0], c->in[1], out, room)};
    if (!cpu_indices_open(&p.first, c->in[2]))
        return false;
    bool ok = run_all(&p, out, segment_range);
    cpu_indices_close(&p.first);
    return ok;
}

// Bytes -----------------------------------------------------------------------------------------------------

struct byte_products {
    struct gemm whole;
    struct gemm_work how; // everything but the factors
    struct layout batch;  // operands: output, a, b
    atomic_bool failed;
};

static void byte_range(const void *context, int64_t from, int64_t to) {
    struct byte_products *p = (struct byte_products *)(uintptr_t)context;
    struct walk w;
    for (; from < to; from++) {
        struct gemm g = p->whole;
        struct gemm_work work = p->how;
        cpu_walk_to(&p->batch, &w, from);
        g.c = w.data[0];
        g.a = w.data[1];
        g.b = w.data[2];
        work.g = &g;
        bool done = false, ok = work.dtype != ZL_INT8 || gemm_few_bytes(&g, &done);
        if (!ok || (!done && !gemm_multiply(&work)))
            atomic_store(&p->failed, true);
    }
}

bool gemm_batches(const struct call *c, const struct gemm_work *how) {
    union scalar room[2];
    zl_array out = call_output(c, 0), list[] = {out, c->in[0], c->in[1]};
    struct byte_products p = {.whole = gemm_of(c->in[0], c->in[1], out, room), .how = *how};
    const void *data[] = {cpu_data(out), p.whole.a, p.whole.b};
    cpu_layout_start(&p.batch, out->ndim - 2, out->dim, 1);
    for (int i = 0; i < 3; i++)
        cpu_layout_add(&p.batch, data[i], array_item(list[i]), out->ndim - 2, list[i]->dim,
                       array_stride(list[i]));
    cpu_layout_merge(&p.batch);
    p.batch.loops = p.batch.axes;
    for (int i = 0; i < p.batch.axes; i++)
        p.batch.axis[i].step = 1;
    atomic_init(&p.failed, false);
    if (p.batch.size < pool_threads()) // all threads share each product
        byte_range(&p, 0, p.batch.size);
    else
        cpu_split(p.batch.size, 1, byte_range, &p);
    return !atomic_load(&p.failed);
}

bool cpu_matmul_int8(const struct call *c) {
    struct gemm_work how = {.dtype = ZL_INT8, .out = ZL_INT32, .kernel = gemm_kernel_for(ZL_INT8)};
    return gemm_batches(c, &how);
}
