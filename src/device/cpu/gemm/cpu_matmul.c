// cpu_matmul.c - matrix products: divides batches and large products among threads, and chooses the best
// algorithm for each size.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

#include <math.h>
#include <string.h>

enum { OUT, A, B, ADDED };

enum {
    FLOPS_LARGE = 1 << 25,     // of each product that all threads share, even if there are some more products
                               // than threads
    FLOPS_LEAST = 1 << 20,     // of a product that is worth a second thread
    FLOPS_OF_VECTOR = 1 << 17, // the same for matrix-vector products, which read each element from memory for
                               // two operations
    EDGE = 48,                 // parts begin at multiples of it
    ADDED_AT_ONCE = 256,       // elements that are added to sums in L1
};

// Scratch ---------------------------------------------------------------------------------------------------

// Buffers of a thread. Only a pointer is thread-local, because space for thread-local data is scarce in
// programs that load many libraries.
static _Thread_local struct scratch {
    void *data[SCRATCH_COUNT];
    size_t bytes[SCRATCH_COUNT];
} * scratch;

static void free_scratch(void *data) {
    (void)data;
    for (int i = 0; i < SCRATCH_COUNT; i++)
        memory_free_pages(scratch->data[i], scratch->bytes[i]);
    memory_free(scratch);
    scratch = NULL;
}

static bool open_scratch(void) {
    scratch = memory_zero(sizeof *scratch);
    if (scratch && base_thread_at_exit(free_scratch, NULL))
        return true;
    memory_free(scratch);
    scratch = NULL;
    return false;
}

void *cpu_scratch(int which, size_t bytes) {
    if (!scratch && !open_scratch())
        return NULL;
    if (scratch->bytes[which] >= bytes)
        return scratch->data[which];
    if (scratch->data[which])
        memory_free_pages(scratch->data[which], scratch->bytes[which]);
    scratch->data[which] = memory_alloc_pages(bytes);
    scratch->bytes[which] = scratch->data[which] ? bytes : 0;
    return scratch->data[which];
}

// One product -----------------------------------------------------------------------------------------------

struct product {
    struct layout batch; // operands: output, a, b
    struct gemm whole;   // sizes and strides of one product of the batch
    zl_dtype dtype;
    int64_t item;
    struct cut {
        int64_t part_rows, part_cols; // parts into which each product is divided
        int64_t rows, cols;           // of a part
    } cut;
    struct product_then then;
    atomic_bool failed;
};

static bool is_half(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
}

gemm_fn *cpu_choose_gemm(zl_dtype dtype, const struct gemm *g) {
    if (device_batch_invariant() && !gemm_ways_agree())
        return cpu_own_gemm;
    if (cpu_is_tiny(dtype, g))
        return cpu_tiny_gemm;
    if (cpu_is_dots(dtype, g))
        return cpu_dots_gemm;
    if ((g->m == 1 || g->n == 1) && dtype != ZL_COMPLEX64)
        return cpu_gemv;
    if (cpu_is_packed_late(dtype, g))
        return cpu_own_gemm;
    if (cpu_has_thin_kernel(dtype, g))
        return cpu_thin_gemm;
    if (cpu_is_few(dtype, g))
        return cpu_few_gemm;
    if (cpu_is_thin(dtype, g))
        return cpu_thin_gemm;
    return is_half(dtype) || device_batch_invariant() ? cpu_own_gemm : cpu_blas()->multiply;
}

void cpu_gemm_add(zl_dtype dtype, const struct gemm_added *added, float *sum, int64_t at, int64_t step,
                  int64_t n) {
    const struct row_table *rows = cpu_level()->rows;
    row_fn *times = rows->op[TILE_MUL][ZL_FLOAT32][2], *plus = rows->op[TILE_ADD][ZL_FLOAT32][0];
    const int64_t item = (int64_t)zl_dtype_size(dtype);
    const char *from = added->beta != 0 ? added->data + at * item : NULL;
    if (added->alpha != 1)
        cpu_call_row(times, sum, sum, &added->alpha, NULL, n);
    for (int64_t count; from && n > 0; n -= count, sum += count, from += count * step * item) {
        char dense[ADDED_AT_ONCE * 2];
        float wide[ADDED_AT_ONCE];
        count = MIN_OF(n, ADDED_AT_ONCE);
        if (step != 1)
            cpu_move((size_t)item, dense, (struct stride2){0, item}, from, (struct stride2){0, step * item},
                     1, count);
        cpu_call_row(rows->cast[ZL_FLOAT32][dtype], wide, step == 1 ? from : dense, NULL, NULL, count);
        if (added->beta != 1)
            cpu_call_row(times, wide, wide, &added->beta, NULL, count);
        cpu_call_row(plus, sum, sum, wide, NULL, count);
    }
}

// Adds the third operand to a product in f32, row by row; a single column counts as one row.
static void add_all(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_added *added = &g->added;
    float *sum = (float *)(void *)g->c;
    if (added->alpha != 0 && g->n == 1)
        cpu_gemm_add(dtype, added, sum, 0, added->row, g->m);
    else if (added->alpha != 0)
        for (int64_t i = 0; i < g->m; i++)
            cpu_gemm_add(dtype, added, sum + i * g->c_row, i * added->row, added->col, g->n);
}

// Multiplies a matrix and a vector of 16-bit floats into f32, then rounds to the result.
static bool multiply_half(zl_dtype dtype, const struct gemm *g) {
    struct gemm h = *g;
    row_fn *narrow = cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    h.c = cpu_scratch(SCRATCH_RESULT, sizeof(float) * (size_t)(g->m * g->n));
    if (!h.c)
        return false;
    h.c_row = g->n;
    h.c_col = 1;
    if (!cpu_choose_gemm(dtype, &h)(dtype, &h))
        return false;
    add_all(dtype, &h);
    bool dense = g->c_row == g->n || g->m == 1;
    int64_t rows = dense ? 1 : g->m, cols = dense ? g->m * g->n : g->n;
    for (int64_t i = 0; i < rows; i++)
        cpu_call_row(narrow, g->c + i * g->c_row * 2, h.c + i * g->n * 4, NULL, NULL, cols);
    return true;
}

// Returns the m x n part of a product whose result begins at (row, col).
static struct gemm part_of(int64_t item, const struct gemm *g, int64_t row, int64_t col, int64_t m,
                           int64_t n) {
    struct gemm part = *g;
    part.m = m;
    part.n = n;
    part.a += row * g->a_row * item;
    part.b += col * g->b_col * item;
    part.c += (row * g->c_row + col) * item;
    if (g->added.data)
        part.added.data += (row * g->added.row + col * g->added.col) * item;
    return part;
}

// Describes a product for our own kernels. The result has the dtype of the kernel's sums, or is rounded to
// the operands' 16 bits.
static struct gemm_work own_work(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_kernel *kernel = gemm_kernel_for_columns(dtype, g->n);
    return (struct gemm_work){
        .g = g, .dtype = dtype, .out = is_half(dtype) ? dtype : kernel->sum, .kernel = kernel};
}

bool cpu_gemm(zl_dtype dtype, const struct gemm *g) {
    gemm_fn *best = cpu_choose_gemm(dtype, g);
    if (!is_half(dtype))
        return best(dtype, g);
    if (best == cpu_own_gemm) {
        struct gemm_work work = own_work(dtype, g);
        return gemm_multiply(&work);
    }
    return multiply_half(dtype, g);
}

// All of them -----------------------------------------------------------------------------------------------

// Computes a part, and runs the epilogue on it.
static bool multiply_part(const struct product *p, struct gemm *g, struct product_part *part) {
    *g = part_of(p->item, g, part->row, part->col, part->rows, part->cols);
    if (!p->then.stored) {
        g->c = part->data = cpu_scratch(SCRATCH_PART, (size_t)(p->cut.rows * p->cut.cols * p->item));
        g->c_row = part->data_row = part->cols;
        if (!g->c)
            return false;
    }
    if (!cpu_gemm(p->dtype, g))
        return false;
    if (p->then.run)
        p->then.run(p->then.context, part);
    return true;
}

// Sets the operands of one product of a batch.
static void set_data(struct gemm *g, const struct walk *w) {
    g->c = w->data[OUT];
    g->a = w->data[A];
    g->b = w->data[B];
    g->added.data = g->added.beta != 0 ? w->data[ADDED] : NULL;
}

static void multiply_range(const void *context, int64_t from, int64_t to) {
    struct product *p = (struct product *)(uintptr_t)context;
    const struct cut *cut = &p->cut;
    int64_t parts = cut->part_rows * cut->part_cols;
    struct walk w;
    for (; from < to; from++) {
        struct product_part part = {.batch = from / parts,
                                    .row = from % parts / cut->part_cols * cut->rows,
                                    .col = from % parts % cut->part_cols * cut->cols};
        struct gemm g = p->whole;
        part.rows = MIN_OF(cut->rows, g.m - part.row);
        part.cols = MIN_OF(cut->cols, g.n - part.col);
        cpu_walk_to(&p->batch, &w, part.batch);
        set_data(&g, &w);
        if (!multiply_part(p, &g, &part))
            atomic_store(&p->failed, true);
    }
}

// A product that all threads work on.
struct shared {
    const struct product *p;
    const struct gemm *g;
    int64_t batch;
};

// Runs the epilogue on a finished block. If the epilogue needs whole rows, it waits for their last columns.
static void go_on(void *data, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    const struct shared *s = data;
    const struct product *p = s->p;
    if (p->then.lines && col + cols < s->g->n)
        return;
    struct product_part part = {.batch = s->batch, .row = row, .col = col, .rows = rows, .cols = cols};
    if (p->then.lines)
        part.col = 0, part.cols = s->g->n;
    if (!p->then.stored) {
        part.data = s->g->c + (row * s->g->c_row + part.col) * p->item;
        part.data_row = s->g->c_row;
    }
    p->then.run(p->then.context, &part);
}

static bool is_vector(const struct gemm *g) {
    return g->m == 1 || g->n == 1;
}

static bool multiply_shared(const struct product *p, struct gemm *g, int64_t batch) {
    struct shared s = {p, g, batch};
    if (p->dtype == ZL_COMPLEX64)
        return cpu_own_gemm(p->dtype, g);
    if (!p->then.stored) {
        g->c = cpu_scratch(SCRATCH_PART, (size_t)(g->m * g->n * p->item));
        g->c_row = g->n;
    }
    if (g->c && cpu_choose_gemm(p->dtype, g) == cpu_gemv) {
        if (!cpu_gemv_shared(p->dtype, g))
            return false;
        if (p->then.run)
            go_on(&s, 0, 0, g->m, g->n);
        return true;
    }
    struct gemm_work work = own_work(p->dtype, g);
    work.done = p->then.run ? go_on : NULL;
    work.data = &s;
    work.whole_rows = p->then.lines;
    return g->c && gemm_multiply(&work);
}

// Computes the batch's products one after the other, each by all threads.
static bool multiply_whole(struct product *p) {
    struct walk w;
    bool ok = true;
    for (int64_t i = 0; ok && i < p->batch.size; i++) {
        struct gemm g = p->whole;
        cpu_walk_to(&p->batch, &w, i);
        set_data(&g, &w);
        ok = multiply_shared(p, &g, i);
    }
    return ok;
}

static double flops_of(const struct gemm *g) {
    return 2.0 * (double)g->m * (double)g->n * (double)g->k;
}

// Returns whether all threads share each product because the batch has few. For a matrix-vector product,
// whose order of sums depends on the answer, the batch does not matter.
static bool is_shared(zl_dtype dtype, const struct gemm *g, int64_t batches) {
    int64_t few = flops_of(g) < FLOPS_LARGE ? pool_threads() : 4 * pool_threads();
    gemm_fn *best = cpu_choose_gemm(dtype, g);
    return best == cpu_gemv ? cpu_gemv_is_shared(dtype, g) : best == cpu_own_gemm && batches < few;
}

// Returns the least number of operations that is worth a second thread.
static double least_of(const struct gemm *g) {
    return is_vector(g) ? FLOPS_OF_VECTOR : FLOPS_LEAST;
}

// Divides a product into enough parts for all threads. Parts are as square as the result allows, and rather
// wide than high; rows are kept whole if possible.
static struct cut cut(const struct gemm *g, int64_t batches) {
    double flops = flops_of(g), most = flops / least_of(g) * 2;
    int64_t threads = flops * (double)batches < least_of(g) ? 1 : pool_threads();
    int64_t parts = batches >= 4 * threads ? 1 : (threads + batches - 1) / batches;
    if ((double)parts > most)
        parts = MAX_OF((int64_t)most, 1);
    double square = sqrt((double)parts * (double)g->m / (double)g->n);
    int64_t rows = 1;
    while (rows < parts && ((double)rows < square - 0.25 || parts % rows))
        rows++;
    int64_t cols = parts / rows;
    struct cut p = {.rows = MIN_OF(round_up((g->m + rows - 1) / rows, EDGE), g->m),
                    .cols = MIN_OF(round_up((g->n + cols - 1) / cols, EDGE), g->n)};
    p.part_rows = (g->m + p.rows - 1) / p.rows;
    p.part_cols = (g->n + p.cols - 1) / p.cols;
    return p;
}

static void set_batch(struct product *p, const struct call *c, union scalar *room) {
    zl_array out = call_output(c, 0), a = c->in[0], b = c->in[1];
    int ndim = out->ndim - 2;
    cpu_layout_start(&p->batch, ndim, out->dim, 1);
    cpu_layout_add(&p->batch, p->then.stored ? cpu_data(out) : (void *)room, (size_t)p->item,
                   p->then.stored ? ndim : 0, out->dim, array_stride(out));
    cpu_layout_add(&p->batch, array_data(a, &room[0]), (size_t)p->item, ndim, a->dim, array_stride(a));
    cpu_layout_add(&p->batch, array_data(b, &room[1]), (size_t)p->item, ndim, b->dim, array_stride(b));
    if (p->whole.added.beta != 0)
        cpu_layout_add(&p->batch, array_data(c->in[2], &room[2]), (size_t)p->item,
                       MAX_OF(c->in[2]->ndim - 2, 0), c->in[2]->dim, array_stride(c->in[2]));
    cpu_layout_merge(&p->batch);
    p->batch.loops = p->batch.axes;
    for (int j = 0; j < p->batch.axes; j++)
        p->batch.axis[j].step = 1;
}

// Returns the stride, in elements, of an axis counted from the last one; 0 if it is broadcast.
static int64_t stretched_stride(zl_array x, int from_last) {
    int axis = x->ndim - from_last;
    return axis < 0 || x->dim[axis] == 1 ? 0 : array_stride(x)[axis];
}

static struct gemm_added added_of(const struct call *c) {
    if (c->op != &op_addmm)
        return (struct gemm_added){0};
    return (struct gemm_added){.alpha = (float)op_arg_double(call_args(c)[ADDMM_ALPHA]),
                               .beta = (float)op_arg_double(call_args(c)[ADDMM_BETA]),
                               .row = stretched_stride(c->in[2], 2),
                               .col = stretched_stride(c->in[2], 1)};
}

// Returns the sizes and strides of one product of a call, without data.
static struct gemm gemm_of(const struct call *c) {
    zl_array a = c->in[0], b = c->in[1], out = call_output(c, 0);
    int row = out->ndim - 2, col = out->ndim - 1;
    const int64_t *as = array_stride(a), *bs = array_stride(b);
    return (struct gemm){.added = added_of(c),
                         .m = out->dim[row],
                         .n = out->dim[col],
                         .k = a->dim[col],
                         .a_row = as[row],
                         .a_col = as[col],
                         .b_row = bs[row],
                         .b_col = bs[col],
                         .c_row = array_stride(out)[row],
                         .c_col = 1};
}

struct product_parts cpu_matmul_parts(const struct call *c) {
    zl_array out = call_output(c, 0);
    struct gemm g = gemm_of(c);
    zl_dtype dtype = (zl_dtype)out->dtype;
    int64_t batches = out->size / MAX_OF(g.m * g.n, 1);
    if (is_shared(dtype, &g, batches) && dtype != ZL_COMPLEX64) {
        struct gemm_work work = own_work(dtype, &g);
        return (struct product_parts){g.m, g.n, is_vector(&g) || gemm_has_whole_rows(&work)};
    }
    struct cut parts = cut(&g, MAX_OF(batches, 1));
    return (struct product_parts){parts.rows, parts.cols, parts.part_cols == 1};
}

bool cpu_matmul_then(const struct call *c, const struct product_then *then) {
    union scalar room[3];
    zl_array out = call_output(c, 0);
    struct product p = {
        .whole = gemm_of(c), .dtype = (zl_dtype)out->dtype, .item = (int64_t)array_item(out), .then = *then};
    atomic_init(&p.failed, false);
    set_batch(&p, c, room);
    if (is_shared(p.dtype, &p.whole, p.batch.size))
        return multiply_whole(&p);
    p.cut = cut(&p.whole, p.batch.size);
    int64_t parts = p.cut.part_rows * p.cut.part_cols;
    double grain = least_of(&p.whole) / 2 * (double)parts / flops_of(&p.whole);
    parts *= p.batch.size;
    cpu_split(parts, grain < (double)parts ? (int64_t)grain + 1 : parts, multiply_range, &p);
    return !atomic_load(&p.failed);
}

bool cpu_matmul(const struct call *c) {
    zl_array out = call_output(c, 0);
    if (c->in[0]->dim[c->in[0]->ndim - 1] > 0)
        return cpu_matmul_then(c, &(struct product_then){.stored = true});
    memset(cpu_data(out), 0, (size_t)out->size * array_item(out));
    return true;
}
