// cuda_lt_choice.c - opens cuBLASLt at run time, describes products to it, and chooses the fastest of its
// algorithms for each.
//
// cuBLASLt stores matrices by columns and we store them by rows, so it gets the transposes, in reverse order.
// The algorithms that it proposes for a shape are kept. When a product is used for the third time, each of
// them is timed once: cuBLASLt's first guess is often a tenth slower than the best.

#include "device/cuda/cuda_lt.h"
#include "device/cuda/cuda_queue.h"

#include <math.h>
#include <pthread.h>

typedef struct lt_ *lt;
typedef struct lt_object_ *lt_object; // a layout, an operation, a preference

enum { // values from NVIDIA's headers
    F32 = 0,
    F64 = 1,
    F16 = 2,
    I8 = 3,
    C64 = 4,
    I32 = 10,
    BF16 = 14,
    F8 = 28, // e4m3
    IN_F32 = 68,
    IN_F64 = 70,
    IN_I32 = 72,
    IN_TF32 = 77,
    LAYOUT_BATCH = 5,
    LAYOUT_BATCH_STEP = 6,
    OPERATION_A = 3,
    OPERATION_B = 4,
    OPERATION_THEN = 7,
    OPERATION_BIAS = 8,
    THEN_NOTHING = 1,
    THEN_BIAS = 4,
    PREFERENCE_WORKSPACE = 1,
    PREFERENCE_PARTS = 3, // bits: the dtypes in which partial sums may be stored
    PARTS_AS_COMPUTED = 2,
    PARTS_AS_RESULTS = 5,
    PREFERENCE_ALIGNMENT = 5, // of a; then of b, c, d
    ALGORITHM_PARTS = 2,
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
    F(cublasLtMatmulAlgoConfigGetAttribute,                                                                  \
      (const void *algorithm, int what, void *out, size_t room, size_t *bytes))                              \
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
    TIMED_AT = 3,          // the use of a product at which its algorithms are timed
    TIMED_LEAST = 1 << 28, // least operations of a product for which timing pays
    TIMED_ROUNDS = 2,
    TIMED_RUNS = 2,
    WORKSPACE = 64 << 20, // bytes per lane
};

struct lt_product {
    lt_object operation, a, b, y;
    int choices, best, uses;
    struct choice choice[CHOICES];
};

static bool is_there;
static struct unit {
    struct lock lock; // guards all of the unit
    struct lock bias; // held while an operation has the bias of one product
    struct lane {
        lt handle;
        void *workspace;
        bool failed;
    } lane[CUDA_LANES];
    struct map products;
} units[CUDA_DEVICES];

// Opening ---------------------------------------------------------------------------------------------------

static void find(void) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {LT_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing;
    void *library = cuda_library("cublasLt", (const int[CUDA_VERSIONS]){13, 12});
    is_there = library && library_bind(library, symbols, COUNT(symbols), &missing);
}

// Returns whether cuBLASLt may be used. Its algorithms depend on the number of rows, and a single row is
// multiplied by another kernel than two, even with the same algorithm. So it is not used with
// ZL_BATCH_INVARIANT.
bool lt_is_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return is_there && !device_batch_invariant();
}

// Opens a lane's handle at its first use. Returns false, without an error, if that fails. Under the unit's
// lock.
static bool open_lane(int unit, struct lane *l) {
    if (LIKELY(l->handle || l->failed))
        return l->handle;
    bool had_error = zl_error();
    l->failed = api.cublasLtCreate(&l->handle) || !(l->workspace = cuda_alloc(unit, WORKSPACE));
    if (l->failed) {
        l->handle = NULL;
        if (!had_error)
            zl_clear_error(); // our own kernels need neither handle nor workspace
    }
    return l->handle;
}

// Choosing --------------------------------------------------------------------------------------------------

static int type_of(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT64: return F64;
    case ZL_FLOAT16: return F16;
    case ZL_BFLOAT16: return BF16;
    case ZL_COMPLEX64: return C64;
    case ZL_INT8: return I8;
    case ZL_INT32: return I32;
    case ZL_UINT8: return F8;
    default: return F32;
    }
}

// The type that products of a dtype are computed in, and the type of the scale.
struct sums {
    int computes_in, scale;
};

static struct sums sums_of(zl_dtype dtype) {
    switch (dtype) {
    case ZL_FLOAT64: return (struct sums){IN_F64, F64};
    case ZL_COMPLEX64: return (struct sums){IN_F32, C64};
    case ZL_INT8: return (struct sums){IN_I32, I32};
    case ZL_FLOAT32: return (struct sums){setting_flag(SETTING_TF32) ? IN_TF32 : IN_F32, F32};
    default: return (struct sums){IN_F32, F32};
    }
}

static lt_object layout_of_matrix(int type, int64_t rows, int64_t cols, bool transposed, int64_t step,
                                  int64_t batch, int64_t batch_step) {
    lt_object layout = NULL;
    int32_t count = (int32_t)batch;
    if (api.cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)(transposed ? rows : cols),
                                       (uint64_t)(transposed ? cols : rows), step))
        return NULL;
    if (batch > 1 &&
        (api.cublasLtMatrixLayoutSetAttribute(layout, LAYOUT_BATCH, &count, sizeof count) ||
         api.cublasLtMatrixLayoutSetAttribute(layout, LAYOUT_BATCH_STEP, &batch_step, sizeof batch_step))) {
        api.cublasLtMatrixLayoutDestroy(layout);
        return NULL;
    }
    return layout;
}

static void drop_product(struct lt_product *r) {
    const lt_object layout[] = {r->a, r->b, r->y};
    for (size_t i = 0; i < COUNT(layout); i++)
        if (layout[i])
            api.cublasLtMatrixLayoutDestroy(layout[i]);
    if (r->operation)
        api.cublasLtMatmulDescDestroy(r->operation);
    memory_free(r);
}

static bool describe(struct lt_product *r, const struct lt_key *k) {
    struct sums sums = sums_of((zl_dtype)k->dtype);
    int in = type_of((zl_dtype)k->dtype), out = type_of((zl_dtype)k->out);
    int32_t a_how = k->transposed & 1 ? TRANSPOSED : AS_IT_IS,
            b_how = k->transposed & 2 ? TRANSPOSED : AS_IT_IS;
    uint32_t then = k->then == LT_NOTHING ? THEN_NOTHING : THEN_BIAS;
    r->a = layout_of_matrix(in, k->m, k->k, k->transposed & 1, k->a_step, k->batch, k->a_batch);
    r->b = layout_of_matrix(in, k->k, k->n, k->transposed & 2, k->b_step, k->batch, k->b_batch);
    r->y = layout_of_matrix(out, k->m, k->n, false, k->n, k->batch, k->m * k->n);
    return r->a && r->b && r->y &&
           !api.cublasLtMatmulDescCreate(&r->operation, sums.computes_in, sums.scale) &&
           !api.cublasLtMatmulDescSetAttribute(r->operation, OPERATION_A, &b_how, sizeof b_how) &&
           !api.cublasLtMatmulDescSetAttribute(r->operation, OPERATION_B, &a_how, sizeof a_how) &&
           !api.cublasLtMatmulDescSetAttribute(r->operation, OPERATION_THEN, &then, sizeof then);
}

// Asks cuBLASLt for algorithms. Partial sums must not be rounded to f16 or bf16.
static bool find_algorithms(const struct lane *l, struct lt_product *r, const struct lt_key *k) {
    lt_object preference = NULL;
    size_t most = WORKSPACE;
    if (api.cublasLtMatmulPreferenceCreate(&preference))
        return false;
    uint32_t aligned = (uint32_t)k->aligned, parts = PARTS_AS_COMPUTED;
    if (k->out != ZL_FLOAT16 && k->out != ZL_BFLOAT16)
        parts |= PARTS_AS_RESULTS;
    bool set =
        !api.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &most, sizeof most) &&
        !api.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_PARTS, &parts, sizeof parts);
    for (int i = 0; i < 4; i++)
        set = set && !api.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_ALIGNMENT + i, &aligned,
                                                               sizeof aligned);
    bool found = set && !api.cublasLtMatmulAlgoGetHeuristic(l->handle, r->operation, r->b, r->a, r->y, r->y,
                                                            preference, CHOICES, r->choice, &r->choices);
    api.cublasLtMatmulPreferenceDestroy(preference);
    return found && r->choices > 0 && !r->choice[0].failed;
}

// Returns whether an algorithm adds up partial sums (split-k).
static bool has_parts(const struct choice *c) {
    int32_t parts = 1;
    size_t bytes;
    return api.cublasLtMatmulAlgoConfigGetAttribute(c->algorithm, ALGORITHM_PARTS, &parts, sizeof parts,
                                                    &bytes) ||
           parts > 1;
}

// Drops algorithms with partial sums: some round the sum of the parts to f16 or bf16 before they add the
// bias. If the first guess has parts, none is kept, and the bias is passed as a matrix instead.
static void leave_out_parts(struct lt_product *r) {
    int kept = 0;
    for (int i = 0; i < r->choices && (i == 0 || kept); i++)
        if (!has_parts(&r->choice[i]))
            r->choice[kept++] = r->choice[i];
    r->choices = kept;
}

struct lt_product *lt_find(int unit, int lane, const struct lt_key *k) {
    struct unit *u = &units[unit];
    struct lane *l = &u->lane[lane];
    struct lt_product *r = map_get(&u->products, k, sizeof *k);
    if (!open_lane(unit, l))
        return NULL;
    if (!r) {
        if (!(r = memory_zero(sizeof *r)))
            return NULL;
        if (!describe(r, k) || !find_algorithms(l, r, k))
            r->choices = 0;
        if (k->then == LT_BIAS_ROUNDED_ONCE)
            leave_out_parts(r);
        if (!map_set(&u->products, k, sizeof *k, r)) {
            drop_product(r);
            return NULL;
        }
    }
    return r->choices ? r : NULL;
}

void lt_take(int unit) {
    lock_take(&units[unit].lock);
}

void lt_give(int unit) {
    lock_give(&units[unit].lock);
}

// Multiplying -----------------------------------------------------------------------------------------------

// A product in the form that the queue stores, without padding.
struct queued {
    struct unit *u;
    const struct lane *l;
    const struct lt_product *r;
    struct lt_memory m;
    int32_t choice, dtype;
};

static int multiply(const struct queued *w, cuda_stream s) {
    static const double none[2];
    const struct lt_product *r = w->r;
    const struct lt_memory *m = &w->m;
    const struct choice *choice = &r->choice[w->choice];
    const float beta = (float)m->beta; // only f16 and bf16 products add a matrix
    const double as_double = m->scale;
    const int32_t as_int = (int32_t)m->scale;
    const float as_float[] = {(float)m->scale, 0};
    const void *scale = w->dtype == ZL_FLOAT64 ? (const void *)&as_double
                        : w->dtype == ZL_INT8  ? (const void *)&as_int
                                               : as_float;
    return api.cublasLtMatmul(w->l->handle, r->operation, scale, m->b, r->b, m->a, r->a,
                              m->added ? (const void *)&beta : none, m->added ? m->added : m->y, r->y, m->y,
                              r->y, choice->algorithm, w->l->workspace, choice->workspace, s);
}

static int set_bias(const struct queued *w) {
    return w->m.bias ? api.cublasLtMatmulDescSetAttribute(w->r->operation, OPERATION_BIAS, &w->m.bias,
                                                          sizeof w->m.bias)
                     : 0;
}

static int multiply_queued(const void *data, cuda_stream s) {
    const struct queued *w = data;
    if (!w->m.bias)
        return multiply(w, s);
    lock_take(&w->u->bias);
    int failed = set_bias(w);
    if (!failed)
        failed = multiply(w, s);
    lock_give(&w->u->bias);
    return failed;
}

struct trial {
    struct queued product;
    cuda_stream stream;
};

static bool try_choice(const void *data) {
    const struct trial *t = data;
    return !multiply(&t->product, t->stream);
}

// Returns the fastest algorithm. Each is run once before it is timed.
static int fastest(int unit, int lane, const struct queued *w, cuda_stream s) {
    struct trial t = {*w, s};
    int best = w->choice;
    float least = INFINITY;
    if (set_bias(w))
        return best;
    for (int i = 0; i < TIMED_ROUNDS * w->r->choices; i++) {
        t.product.choice = i % w->r->choices;
        bool runs = !w->r->choice[t.product.choice].failed && try_choice(&t);
        float ms = runs ? cuda_time(unit, lane, TIMED_RUNS, try_choice, &t) : INFINITY;
        if (ms < least) {
            least = ms;
            best = t.product.choice;
        }
    }
    return best;
}

// Returns the memory of a batch of matrices, whose lines begin `step` elements apart.
static struct cuda_range range_of(const char *data, int64_t lines, int64_t length, int64_t step,
                                  int64_t batches, int64_t batch, int64_t item) {
    int64_t elements = (lines - 1) * step + length, others = (batches - 1) * batch;
    uintptr_t begin = (uintptr_t)data + (uintptr_t)(MIN_OF(others, 0) * item);
    return (struct cuda_range){begin, (uintptr_t)data + (uintptr_t)((elements + MAX_OF(others, 0)) * item),
                               false};
}

enum { RANGES = 6 };

// Lists the memory that a product accesses. Returns the number of ranges.
static int list_ranges(const struct queued *w, const struct lt_key *k, struct cuda_range *range) {
    const struct lt_memory *m = &w->m;
    int64_t item = (int64_t)zl_dtype_size((zl_dtype)k->dtype), out = (int64_t)zl_dtype_size((zl_dtype)k->out);
    bool a_transposed = k->transposed & 1, b_transposed = k->transposed & 2;
    struct cuda_range y = range_of(m->y, k->batch * k->m, k->n, k->n, 1, 0, out);
    int ranges = 0;
    range[ranges++] = range_of(m->a, a_transposed ? k->k : k->m, a_transposed ? k->m : k->k, k->a_step,
                               k->batch, k->a_batch, item);
    range[ranges++] = range_of(m->b, b_transposed ? k->n : k->k, b_transposed ? k->k : k->n, k->b_step,
                               k->batch, k->b_batch, item);
    if (m->bias)
        range[ranges++] = range_of(m->bias, 1, k->n, 0, 1, 0, out);
    if (m->added)
        range[ranges++] = range_of(m->added, k->batch * k->m, k->n, k->n, 1, 0, out);
    y.is_written = true;
    range[ranges++] = y;
    uintptr_t workspace = (uintptr_t)w->l->workspace;
    range[ranges++] = (struct cuda_range){workspace, workspace + w->r->choice[w->choice].workspace, true};
    return ranges;
}

bool lt_multiply(int unit, int lane, struct lt_product *r, const struct lt_key *k,
                 const struct lt_memory *m) {
    struct unit *u = &units[unit];
    struct cuda_device *d = cuda_device(unit);
    struct queued w = {u, &u->lane[lane], r, *m, r->best, k->dtype};
    bool is_big = 2.0 * (double)k->m * (double)k->n * (double)k->k * (double)k->batch >= TIMED_LEAST;
    if (!d)
        return false;
    if (r->uses < TIMED_AT && ++r->uses == TIMED_AT && is_big && r->choices > 1) {
        cuda_queue_flush(unit, lane);
        lock_take(&u->bias);
        w.choice = r->best = fastest(unit, lane, &w, d->stream[lane]);
        lock_give(&u->bias);
    }
    counter_add(COUNTER_LAUNCHES, 1);
    struct cuda_range range[RANGES];
    struct cuda_library_work work = {multiply_queued, "cublasLtMatmul",          &w,
                                     sizeof w,        list_ranges(&w, k, range), range};
    return cuda_queue_work(unit, lane, &work);
}
