// cuda_lt.c - products of matrices by cuBLASLt: every dtype that it has, batches, and matrices as they lie.
//
// cuBLASLt has columns where we have rows: it is given the transposes, in the other order. Matrices whose rows or columns lie
// behind each other are read where they are; others are copied first. What it chose for a shape is kept. A product
// that comes again is timed by each of the best choices, once: the guess is often a tenth slower.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_queue.h"
#include "op/ops.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

typedef struct lt_ *lt;
typedef struct lt_object_ *lt_object; // a layout, an operation, a preference

enum { // of NVIDIA's headers
    F32 = 0,
    F64 = 1,
    F16 = 2,
    I8 = 3,
    C64 = 4,
    I32 = 10,
    BF16 = 14,
    IN_F32 = 68,
    IN_F64 = 70,
    IN_I32 = 72,
    IN_TF32 = 77,
    LAYOUT_BATCH = 5,
    LAYOUT_BATCH_STEP = 6,
    OPERATION_A = 3,
    OPERATION_B = 4,
    PREFERENCE_WORKSPACE = 1,
    PREFERENCE_ALIGNMENT = 5, // of a, then b, c, d
    AS_IT_IS = 0,
    TRANSPOSED = 1,
};

struct choice {
    uint64_t algorithm[8];
    size_t workspace;
    int failed;
    float waves;
    int spare[4];
};

#define LT_FUNCTIONS(F)                                                                                      \
    F(cublasLtCreate, (lt * out))                                                                            \
    F(cublasLtMatrixLayoutCreate, (lt_object * out, int type, uint64_t rows, uint64_t cols, int64_t step))   \
    F(cublasLtMatrixLayoutSetAttribute, (lt_object o, int what, const void *value, size_t bytes))            \
    F(cublasLtMatrixLayoutDestroy, (lt_object o))                                                            \
    F(cublasLtMatmulDescCreate, (lt_object * out, int computes_in, int scale_type))                          \
    F(cublasLtMatmulDescSetAttribute, (lt_object o, int what, const void *value, size_t bytes))              \
    F(cublasLtMatmulDescDestroy, (lt_object o))                                                              \
    F(cublasLtMatmulPreferenceCreate, (lt_object * out))                                                     \
    F(cublasLtMatmulPreferenceSetAttribute, (lt_object o, int what, const void *value, size_t bytes))        \
    F(cublasLtMatmulPreferenceDestroy, (lt_object o))                                                        \
    F(cublasLtMatmulAlgoGetHeuristic,                                                                        \
      (lt c, lt_object operation, lt_object a, lt_object b, lt_object y, lt_object d, lt_object preference,  \
       int most, struct choice *out, int *count))                                                            \
    F(cublasLtMatmul,                                                                                        \
      (lt c, lt_object operation, const void *alpha, const void *a, lt_object a_layout, const void *b,       \
       lt_object b_layout, const void *beta, const void *y, lt_object y_layout, void *d, lt_object d_layout, \
       const void *algorithm, void *work, size_t bytes, cuda_stream s))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    LT_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

enum {
    CHOICES = 8,
    TIMED_AT = 3,          // use of a product at which its choices are timed
    TIMED_LEAST = 1 << 28, // operations of a product that is worth it
    WORKSPACE = 64 << 20,  // bytes, of each unit
    ALIGNED = 16,
    LOOPS_MOST = 4096, // products of a batch that are asked for one by one
};

// What a choice depends on: hashed as it lies, so without gaps.
struct key {
    int64_t m, n, k, a_step, b_step, a_batch, b_batch, batch;
    int32_t type, how; // how: 1 a, 2 b transposed, then what both are multiples of
};

struct product {
    lt_object operation, a, b, y;
    int choices, best, uses;
    struct choice choice[CHOICES];
};

static bool is_there;
static struct unit {
    struct lock lock; // guards all of it: a handle serves one thread at a time
    lt handle;
    void *workspace;
    bool failed;
    struct map products;
} units[CUDA_DEVICES];

// Opening -----------------------------------------------------------------------------------------------------------

static void find(void) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {LT_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing;
    void *library = cuda_library("cublasLt", (const int[CUDA_VERSIONS]){13, 12});
    is_there = library && library_bind(library, symbols, COUNT(symbols), &missing);
}

static bool is_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return is_there;
}

// Under the unit's lock.
static bool open_unit(int unit) {
    struct unit *u = &units[unit];
    if (u->handle || u->failed)
        return u->handle;
    bool had_error = zl_error();
    u->failed = api.cublasLtCreate(&u->handle) || !(u->workspace = cuda_alloc(unit, WORKSPACE));
    if (u->failed) {
        u->handle = NULL;
        if (!had_error)
            zl_clear_error(); // our own kernels need neither
    }
    return u->handle;
}

bool cuda_lt_can(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return is_open() && (c->op == &op_matmul_int8 || dtype_is_inexact(dtype));
}

// Matrices ----------------------------------------------------------------------------------------------------------

// A matrix of ours as the transpose of one of cuBLASLt's.
struct matrix {
    const char *data;
    bool turned; // columns lie behind each other, not rows
    int64_t step;
};

// False: neither its rows nor its columns lie behind each other.
static bool see(struct matrix *m, zl_array x) {
    int64_t rows = x->dim[x->ndim - 2], cols = x->dim[x->ndim - 1];
    int64_t row = array_stride(x)[x->ndim - 2], col = array_stride(x)[x->ndim - 1];
    bool by_rows = (col == 1 || cols == 1) && (row >= cols || rows == 1);
    bool by_cols = (row == 1 || rows == 1) && (col >= rows || cols == 1);
    m->turned = !by_rows;
    m->step = by_rows ? (rows == 1 ? cols : row) : cols == 1 ? rows : col;
    return by_rows || by_cols;
}

struct operands {
    struct matrix a, b;
    char *y;
    struct cuda_scratch a_copy, b_copy;
    struct kernel_layout batch; // of a and b
};

enum lie { AS_IT_LIES, BY_ROWS, BY_COLUMNS };

// An operand as it lies, if that is how it has to, or as a copy of it.
static bool bring(const struct kernel_place *p, struct matrix *m, zl_array x, enum lie lie,
                  struct cuda_scratch *copy) {
    bool fits = see(m, x) && (lie == AS_IT_LIES || m->turned == (lie == BY_COLUMNS));
    if (!fits)
        *m = (struct matrix){.turned = lie == BY_COLUMNS,
                             .step = x->dim[x->ndim - (lie == BY_COLUMNS ? 2 : 1)]};
    m->data = fits                ? cuda_element(p, x)
              : lie == BY_COLUMNS ? cuda_turned_copy(p, x, copy)
                                  : cuda_row_major(p, x, copy);
    return m->data;
}

// By what the products are summed over, if that has to lie behind each other.
static bool bring_all(const struct kernel_place *p, struct operands *o, const struct call *c, bool by_sums) {
    zl_array a = c->in[0], b = c->in[1];
    o->y = kernel_reach(p, call_first(c));
    if (!o->y || !bring(p, &o->a, a, by_sums ? BY_ROWS : AS_IT_LIES, &o->a_copy) ||
        !bring(p, &o->b, b, by_sums ? BY_COLUMNS : AS_IT_LIES, &o->b_copy))
        return false;
    OP_ROOM(int64_t, room, 2 * (int64_t)a->ndim);
    if (!room)
        return false;
    int64_t *dense_a = room, *dense_b = room + a->ndim;
    shape_row_major(a->ndim, a->dim, dense_a);
    shape_row_major(b->ndim, b->dim, dense_b);
    const int64_t *a_stride = o->a_copy.memory ? dense_a : array_stride(a);
    const int64_t *b_stride = o->b_copy.memory ? dense_b : array_stride(b);
    layout_begin(&o->batch, 2);
    for (int i = 0; i < a->ndim - 2; i++)
        layout_push(&o->batch, a->dim[i], (const int64_t[]){a_stride[i], b_stride[i]});
    return true;
}

// Choosing ----------------------------------------------------------------------------------------------------------

struct types {
    int in, out, scale, computes_in;
};

static struct types types_of(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT64: return (struct types){F64, F64, F64, IN_F64};
    case ZL_FLOAT16: return (struct types){F16, F16, F32, IN_F32};
    case ZL_BFLOAT16: return (struct types){BF16, BF16, F32, IN_F32};
    case ZL_COMPLEX64: return (struct types){C64, C64, C64, IN_F32};
    case ZL_INT8: return (struct types){I8, I32, I32, IN_I32};
    default: return (struct types){F32, F32, F32, setting_flag(SETTING_TF32) ? IN_TF32 : IN_F32};
    }
}

static lt_object layout_of_matrix(int type, int64_t rows, int64_t cols, bool turned, int64_t step,
                                  int64_t batch, int64_t batch_step) {
    lt_object layout = NULL;
    int32_t count = (int32_t)batch;
    if (api.cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)(turned ? rows : cols),
                                       (uint64_t)(turned ? cols : rows), step))
        return NULL;
    if (batch > 1 &&
        (api.cublasLtMatrixLayoutSetAttribute(layout, LAYOUT_BATCH, &count, sizeof count) ||
         api.cublasLtMatrixLayoutSetAttribute(layout, LAYOUT_BATCH_STEP, &batch_step, sizeof batch_step))) {
        api.cublasLtMatrixLayoutDestroy(layout);
        return NULL;
    }
    return layout;
}

static void drop_product(struct product *r) {
    const lt_object layout[] = {r->a, r->b, r->y};
    for (size_t i = 0; i < COUNT(layout); i++)
        if (layout[i])
            api.cublasLtMatrixLayoutDestroy(layout[i]);
    if (r->operation)
        api.cublasLtMatmulDescDestroy(r->operation);
    memory_free(r);
}

static bool describe(struct product *r, const struct key *k, zl_dtype dtype) {
    struct types t = types_of(dtype);
    int32_t a_how = k->how & 1 ? TRANSPOSED : AS_IT_IS, b_how = k->how & 2 ? TRANSPOSED : AS_IT_IS;
    r->a = layout_of_matrix(t.in, k->m, k->k, k->how & 1, k->a_step, k->batch, k->a_batch);
    r->b = layout_of_matrix(t.in, k->k, k->n, k->how & 2, k->b_step, k->batch, k->b_batch);
    r->y = layout_of_matrix(t.out, k->m, k->n, false, k->n, k->batch, k->m * k->n);
    return r->a && r->b && r->y && !api.cublasLtMatmulDescCreate(&r->operation, t.computes_in, t.scale) &&
           !api.cublasLtMatmulDescSetAttribute(r->operation, OPERATION_A, &b_how, sizeof b_how) &&
           !api.cublasLtMatmulDescSetAttribute(r->operation, OPERATION_B, &a_how, sizeof a_how);
}

static bool ask(struct unit *u, struct product *r, uint32_t aligned) {
    lt_object preference = NULL;
    size_t most = WORKSPACE;
    if (api.cublasLtMatmulPreferenceCreate(&preference))
        return false;
    bool set =
        !api.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &most, sizeof most);
    for (int i = 0; i < 4; i++)
        set = set && !api.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_ALIGNMENT + i, &aligned,
                                                               sizeof aligned);
    bool found = set && !api.cublasLtMatmulAlgoGetHeuristic(u->handle, r->operation, r->b, r->a, r->y, r->y,
                                                            preference, CHOICES, r->choice, &r->choices);
    api.cublasLtMatmulPreferenceDestroy(preference);
    return found && r->choices > 0 && !r->choice[0].failed;
}

// The product of a key, whose choices may be none; NULL and an error when memory is out.
static struct product *find_product(struct unit *u, const struct key *k, zl_dtype dtype) {
    struct product *r = map_get(&u->products, k, sizeof *k);
    if (r)
        return r;
    if (!(r = memory_zero(sizeof *r)))
        return NULL;
    if (!describe(r, k, dtype) || !ask(u, r, (uint32_t)k->how >> 2))
        r->choices = 0;
    if (map_set(&u->products, k, sizeof *k, r))
        return r;
    drop_product(r);
    return NULL;
}

// Multiplying -------------------------------------------------------------------------------------------------------

static int multiply(struct unit *u, const struct product *r, int choice, zl_dtype dtype, const char *a,
                    const char *b, char *y, cuda_stream s) {
    static const union {
        float f[2];
        double d;
        int32_t i;
    } none = {.f = {0, 0}}, one_float = {.f = {1, 0}}, one_double = {.d = 1}, one_int = {.i = 1};
    const void *one = dtype == ZL_FLOAT64 ? (const void *)&one_double
                      : dtype == ZL_INT8  ? (const void *)&one_int
                                          : &one_float;
    return api.cublasLtMatmul(u->handle, r->operation, one, b, r->b, a, r->a, &none, y, r->y, y, r->y,
                              r->choice[choice].algorithm, u->workspace, r->choice[choice].workspace, s);
}

// Milliseconds of one of two products; INFINITY: it fails.
static float time_choice(struct unit *u, const struct product *r, int choice, zl_dtype dtype, const char *a,
                         const char *b, char *y, cuda_stream s, const cuda_event mark[2]) {
    const struct cuda_api *cuda = cuda_api();
    float ms = INFINITY;
    if (multiply(u, r, choice, dtype, a, b, y, s) || cuda->cuEventRecord(mark[0], s) ||
        multiply(u, r, choice, dtype, a, b, y, s) || multiply(u, r, choice, dtype, a, b, y, s) ||
        cuda->cuEventRecord(mark[1], s) || cuda->cuEventSynchronize(mark[1]) ||
        cuda->cuEventElapsedTime(&ms, mark[0], mark[1]))
        return INFINITY;
    return ms;
}

static void time_choices(struct unit *u, struct product *r, zl_dtype dtype, const char *a, const char *b,
                         char *y, cuda_stream s) {
    const struct cuda_api *cuda = cuda_api();
    cuda_event mark[2] = {NULL, NULL};
    float best = INFINITY;
    bool ready = !cuda->cuEventCreate(&mark[0], 0) && !cuda->cuEventCreate(&mark[1], 0);
    for (int round = 0; ready && round < 2; round++)
        for (int i = 0; i < r->choices; i++) {
            float ms = r->choice[i].failed ? INFINITY : time_choice(u, r, i, dtype, a, b, y, s, mark);
            if (ms < best) {
                best = ms;
                r->best = i;
            }
        }
    for (int i = 0; i < 2; i++)
        if (mark[i])
            cuda->cuEventDestroy_v2(mark[i]);
}

// What the addresses of all products of a batch are multiples of.
static uint32_t alignment_of(const struct operands *o, int64_t item, int64_t each) {
    uintptr_t all = (uintptr_t)o->a.data | (uintptr_t)o->b.data | (uintptr_t)o->y | ALIGNED;
    for (int axis = 0; axis < o->batch.axes - 1; axis++)
        all |= (uintptr_t)((o->batch.stride[0][axis] | o->batch.stride[1][axis]) * item) | (uintptr_t)each;
    return (uint32_t)(all & (~all + 1));
}

// A product as the queue has it.
struct asked {
    struct unit *u;
    const struct product *r;
    int32_t choice, dtype;
    const char *a, *b;
    char *y;
};

static int multiply_asked(const void *data, cuda_stream s) {
    const struct asked *w = data;
    return multiply(w->u, w->r, w->choice, (zl_dtype)w->dtype, w->a, w->b, w->y, s);
}

static bool run_product(struct unit *u, struct product *r, const struct key *k, zl_dtype dtype, const char *a,
                        const char *b, char *y, cuda_stream s) {
    int unit = (int)(u - units);
    bool is_big = 2.0 * (double)k->m * (double)k->n * (double)k->k * (double)k->batch >= TIMED_LEAST;
    if (r->uses < TIMED_AT && ++r->uses == TIMED_AT && is_big && r->choices > 1) {
        cuda_queue_flush(unit);
        time_choices(u, r, dtype, a, b, y, s);
    }
    counter_add(COUNTER_LAUNCHES, 1);
    struct asked w = {u, r, r->best, (int32_t)dtype, a, b, y};
    return cuda_queue_work(unit, multiply_asked, &w, sizeof w, "cublasLtMatmul");
}

// Where product number i of those axes of a batch that are not its last is.
static void advance(const struct operands *o, int64_t i, const char **a, const char **b, int64_t item) {
    *a = o->a.data;
    *b = o->b.data;
    for (int axis = o->batch.axes - 2; axis >= 0; axis--) {
        *a += i % o->batch.dim[axis] * o->batch.stride[0][axis] * item;
        *b += i % o->batch.dim[axis] * o->batch.stride[1][axis] * item;
        i /= o->batch.dim[axis];
    }
}

static enum kernel_taken multiply_all(const struct kernel_place *p, const struct operands *o,
                                      const struct call *c) {
    struct unit *u = &units[p->unit];
    zl_array y = call_first(c);
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    int last = o->batch.axes - 1;
    int64_t batch = last >= 0 ? o->batch.dim[last] : 1, loops = o->batch.size / batch;
    struct key k = {.m = y->dim[y->ndim - 2],
                    .n = y->dim[y->ndim - 1],
                    .k = c->in[0]->dim[y->ndim - 1],
                    .a_step = o->a.step,
                    .b_step = o->b.step,
                    .a_batch = last >= 0 ? o->batch.stride[0][last] : 0,
                    .b_batch = last >= 0 ? o->batch.stride[1][last] : 0,
                    .batch = batch,
                    .type = dtype,
                    .how = o->a.turned | o->b.turned << 1};
    int64_t each = batch * k.m * k.n * (int64_t)array_item(y);
    k.how |= (int32_t)alignment_of(o, (int64_t)array_item(c->in[0]), each) << 2;
    struct cuda_device *d = cuda_device(p->unit);
    if (!d || loops > LOOPS_MOST || batch > INT32_MAX || !open_unit(p->unit))
        return d ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    struct product *r = find_product(u, &k, dtype);
    if (!r || !r->choices)
        return r ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    for (int64_t i = 0; i < loops; i++) {
        const char *a, *b;
        advance(o, i, &a, &b, (int64_t)array_item(c->in[0]));
        if (!run_product(u, r, &k, dtype, a, b, o->y + i * each, d->stream))
            return KERNEL_FAILED;
    }
    return KERNEL_DONE;
}

static enum kernel_taken try_product(const struct kernel_place *p, const struct call *c, bool by_sums) {
    struct operands o = {0};
    enum kernel_taken taken = KERNEL_FAILED;
    if (bring_all(p, &o, c, by_sums)) {
        lock_take(&units[p->unit].lock);
        taken = multiply_all(p, &o, c);
        lock_give(&units[p->unit].lock);
    }
    cuda_scratch_close(p, &o.a_copy);
    cuda_scratch_close(p, &o.b_copy);
    return taken;
}

// Of int8 some GPUs have only products of rows with columns.
enum kernel_taken cuda_lt_multiply(const struct kernel_place *p, const struct call *c) {
    enum kernel_taken taken = try_product(p, c, false);
    return taken == KERNEL_NOT_TAKEN && c->op == &op_matmul_int8 ? try_product(p, c, true) : taken;
}
