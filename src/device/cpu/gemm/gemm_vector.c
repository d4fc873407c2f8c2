// gemm_vector.c - matrix-vector products. The matrix is read once, along whichever axis is contiguous.
//
// The order of summation is that of gemm_order.c. Rows along the vector are read in several streams, each of
// them sequential in memory: one Neoverse-V1 reads rows of 4096 floats at 35 GB/s this way, and at 25 GB/s if
// adjacent rows are read side by side. Rows across the vector are read in order and prefetched. f16 and bf16
// are widened as they are read. If no axis is contiguous, rows are gathered first.

#include "device/cpu/rows/operands.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/rows/lanes.h"

#include <string.h>

enum {
    STREAMS = 4,           // rows that are read side by side
    ROWS_MOST = 2048,      // results that are computed at once from rows along the vector
    GROUP = 2,             // chains whose rows are read together,
    CHAIN_LINES = 2,       // so many rows of each chain at a time
    GROUP_STRIP = 1 << 14, // bytes of sums of each of these chains, which stay in L1
    STRIP = 1 << 13,       // bytes of sums that stay in L1 while rows are added to them in order
    STRIP_LEAST = 64,      // results per strip, at least
    PIECE = 1 << 17,       // bytes of sums that stay in L2 while streams are added to them
    SLICES_MOST = 16,      // spans if the order of sums is free; each has at least SLICE_LINES rows and
                           // SLICE_BYTES
    SLICE_LINES = 16,
    SLICE_BYTES = 1 << 18,
    GATHER = 65536, // bytes of rows that are gathered at once
};

#define LANED(name)     laned_##name##_f32
#define LANED_TYPE      float
#define LANED_TRANSPOSE lanes_transpose_f32
#include "device/cpu/gemm/gemm_lanes.h"

#define LANED(name)     laned_##name##_f64
#define LANED_TYPE      double
#define LANED_TRANSPOSE lanes_transpose_f64
#include "device/cpu/gemm/gemm_lanes.h"

#define READ_TWO(p, low, high) ((low) = READ(p), (high) = READ((p) + LANES))

#define GEMV(name) name##_f32
#define GEMV_FROM  float
#define GEMV_TYPE  float
#define GEMV_LOAD  READ_TWO
#define GEMV_ONE   *
#define GEMV_DOTS  1
#include "device/cpu/gemm/gemm_vector.h"

#define GEMV(name) name##_f64
#define GEMV_FROM  double
#define GEMV_TYPE  double
#define GEMV_LOAD  READ_TWO
#define GEMV_ONE   *
#define GEMV_DOTS  0
#include "device/cpu/gemm/gemm_vector.h"

typedef halves8 halves8_memory __attribute__((aligned(2), may_alias));

// Returns a float whose upper half are the bits of a bf16.
static inline float widen_bf16(const uint16_t *from) {
    union {
        uint32_t bits;
        float value;
    } x = {(uint32_t)*from << 16};
    return x.value;
}

#define READ_BF16(p, low, high)                                                                \
    do {                                                                                       \
        halves8 both = *(const halves8_memory *)(p), none = {0};                               \
        (low) = (vector_bf16)__builtin_shufflevector(none, both, 0, 8, 1, 9, 2, 10, 3, 11);    \
        (high) = (vector_bf16)__builtin_shufflevector(none, both, 4, 12, 5, 13, 6, 14, 7, 15); \
    } while (0)

#define GEMV(name) name##_bf16
#define GEMV_FROM  uint16_t
#define GEMV_TYPE  float
#define GEMV_LOAD  READ_BF16
#define GEMV_ONE   widen_bf16
#define GEMV_DOTS  1
#include "device/cpu/gemm/gemm_vector.h"

#if defined(__aarch64__) // every aarch64 converts f16

#define READ_F16(p, low, high)                                   \
    do {                                                         \
        halves8 both = *(const halves8_memory *)(p);             \
        __asm__("fcvtl %0.4s, %1.4h" : "=w"(low) : "w"(both));   \
        __asm__("fcvtl2 %0.4s, %1.8h" : "=w"(high) : "w"(both)); \
    } while (0)

#define GEMV(name) name##_f16
#define GEMV_FROM  __fp16
#define GEMV_TYPE  float
#define GEMV_LOAD  READ_F16
#define GEMV_ONE   *
#define GEMV_DOTS  1
#include "device/cpu/gemm/gemm_vector.h"

#include "device/cpu/gemm/gemm_vector_half.h"

#elif defined(__x86_64__)

#include <immintrin.h>

#define GEMV_TARGET __attribute__((target("avx2,fma,f16c")))

GEMV_TARGET static inline float widen_f16(const uint16_t *from) {
    return _cvtsh_ss(*from);
}

#define READ_F16(p, low, high)                                             \
    do {                                                                   \
        __m256 both = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p))); \
        (low) = _mm256_castps256_ps128(both);                              \
        (high) = _mm256_extractf128_ps(both, 1);                           \
    } while (0)

#define GEMV(name) name##_f16
#define GEMV_FROM  uint16_t
#define GEMV_TYPE  float
#define GEMV_LOAD  READ_F16
#define GEMV_ONE   widen_f16
#define GEMV_DOTS  1
#include "device/cpu/gemm/gemm_vector.h"

#endif

// Rows are `line` elements apart.
typedef void along_fn(const void *a, int64_t line, const void *x, const struct gemm_order *o, int64_t count,
                      void *y);
typedef void across_fn(const void *a, int64_t line, const void *x, int64_t k, int64_t n, bool streams,
                       void *y);
typedef void chains_fn(const void *a, int64_t line, const void *const *x, const int64_t *count, int64_t n,
                       void *y, int64_t apart);

// The best readers come first.
static const struct reader {
    const char *needs; // as in cpu_has; NULL: nothing
    zl_dtype dtype;
    bool narrow;        // the vector has the matrix's dtype; else that of the result
    along_fn *along;    // rows along the vector; the lanes of a register are chains
    along_fn *in_order; // the same with one chain; NULL: rows are gathered as float32
    across_fn *across;  // rows across the vector, of one chain
    chains_fn *chains;  // of GROUP chains of a span; NULL: chains are read one after the other
} readers[] = {
#if defined(__aarch64__)
    {"bf16", ZL_BFLOAT16, true, NULL, along_bfmmla, across_bfmmla, NULL},
    {"fhm", ZL_FLOAT16, true, along_fmlal, NULL, across_fmlal, NULL},
    {NULL, ZL_FLOAT16, false, along_f16, NULL, across_f16, chains_f16},
#elif defined(__x86_64__)
    {"avx2", ZL_FLOAT16, false, along_f16, NULL, across_f16, chains_f16},
#endif
    {NULL, ZL_FLOAT32, false, along_f32, laned_along_f32, across_f32, chains_f32},
    {NULL, ZL_FLOAT64, false, NULL, laned_along_f64, across_f64, NULL},
    {NULL, ZL_BFLOAT16, false, along_bf16, NULL, across_bf16, chains_bf16},
};

static const struct reader *reader_for(zl_dtype dtype) {
    for (size_t i = 0; i < COUNT(readers); i++)
        if (readers[i].dtype == dtype && (!readers[i].needs || cpu_has(readers[i].needs)))
            return &readers[i];
    return NULL;
}

// y[i] = sum over p of a[i, p] * x[p]. Strides are in bytes.
struct gemv {
    int64_t rows, k;
    const char *a;
    int64_t row, col;
    const char *x; // contiguous; has the dtype of y or of a; for rows across it, chain after chain
    char *y;
    int64_t y_stride;
    int64_t item, wide; // bytes of an element of a, and of x and y
    row_fn *widen;      // NULL: a has the dtype of the sums, or its reader converts it
    const struct reader *read;
    along_fn *along; // of read; NULL: rows are across the vector
    struct gemm_order order;
    int64_t chains; // chains of all spans
    int64_t group;  // chains that are summed side by side
    bool streams;   // rows across the vector need not be added in order
    int64_t x_item; // bytes of an element of x
};

// Stores n results from `row` on.
static void put(const struct gemv *v, int64_t row, const char *from, int64_t n) {
    cpu_move((size_t)v->wide, v->y + row * v->y_stride, (struct stride2){0, v->y_stride}, from,
             (struct stride2){0, v->wide}, 1, n);
}

static void multiply_along(const struct gemv *v) {
    _Alignas(64) char sum[ROWS_MOST * 8];
    for (int64_t i = 0, n; i < v->rows; i += n) {
        n = MIN_OF(ROWS_MOST, v->rows - i);
        v->along(v->a + i * v->row, v->row / v->item, v->x, &v->order, n, sum);
        put(v, i, sum, n);
    }
}

// Computes results [from, from + n) for a group of chains, whose sums are `apart` elements from each other.
static void multiply_group(const struct gemv *v, int64_t group, int64_t from, int64_t n, char *sum,
                           int64_t apart) {
    const struct gemm_chain chain = gemm_chain_at(&v->order, group * v->group);
    const char *a = v->a + chain.first * v->col + from * v->row;
    const void *x[GROUP];
    int64_t count[GROUP];
    if (v->group == 1) {
        v->read->across(a, chain.apart * v->col / v->item, v->x + chain.at * v->x_item, chain.count, n,
                        v->streams, sum);
        return;
    }
    for (int c = 0; c < GROUP; c++) {
        const struct gemm_chain one = gemm_chain_at(&v->order, group * GROUP + c);
        x[c] = v->x + one.at * v->x_item;
        count[c] = one.count;
    }
    v->read->chains(a, v->col / v->item, x, count, n, sum, apart);
}

static row_fn *add_row(const struct gemv *v) {
    return cpu_level()->rows->op[TILE_ADD][v->wide == 8 ? ZL_FLOAT64 : ZL_FLOAT32][0];
}

// Returns how many results are summed at once: fewer if not every thread would get a group otherwise.
static int64_t strip_of(const struct gemv *v) {
    if (v->group == 1)
        return MIN_OF((v->streams ? PIECE : STRIP) / v->wide, v->rows);
    const int64_t groups = v->chains / v->group, parts = (pool_threads() + groups - 1) / groups;
    return MIN_OF(GROUP_STRIP / v->wide, round_up((v->rows + parts - 1) / parts, STRIP_LEAST));
}

static bool multiply_across(const struct gemv *v) {
    const int64_t strip = strip_of(v), bytes = strip * v->wide;
    char *total = cpu_scratch(SCRATCH_LINES, (size_t)(2 * v->group * bytes));
    if (!total)
        return false;
    char *sum = total + v->group * bytes;
    for (int64_t i = 0, n; i < v->rows; i += n) {
        n = MIN_OF(strip, v->rows - i);
        for (int64_t g = 0; g < v->chains / v->group; g++) {
            char *to = g ? sum : total;
            multiply_group(v, g, i, n, to, strip);
            for (int64_t c = g ? 0 : 1; c < v->group; c++)
                cpu_call_row(add_row(v), total, to + c * bytes, total, NULL, n);
        }
        put(v, i, total, n);
    }
    return true;
}

// Gathers rows, and widens them if there is no reader for their dtype, then multiplies them, some rows at a
// time.
static bool multiply_gathered(const struct gemv *v) {
    int64_t line = v->k * (v->widen ? v->wide + v->item : v->item), lines = MAX_OF(GATHER / line, 1);
    char *wide = cpu_scratch(SCRATCH_LINES, (size_t)(lines * line)),
         *narrow = wide; // the wide elements come first, so that they are aligned
    struct gemv some = *v;
    if (!wide)
        return false;
    for (int64_t i = 0; i < v->rows; i += some.rows) {
        some.rows = MIN_OF(lines, v->rows - i);
        narrow = v->widen ? wide + some.rows * v->k * v->wide : wide;
        cpu_move((size_t)v->item, narrow, (struct stride2){v->k * v->item, v->item}, v->a + i * v->row,
                 (struct stride2){v->row, v->col}, some.rows, v->k);
        if (v->widen)
            cpu_call_row(v->widen, wide, narrow, NULL, NULL, some.rows * v->k);
        some.a = wide;
        some.item = v->widen ? v->wide : v->item;
        some.row = v->k * some.item;
        some.y = v->y + i * v->y_stride;
        multiply_along(&some);
    }
    return true;
}

// Returns the vector, contiguous and in the dtype that its reader needs: in place, or in a scratch buffer.
// Rows across it are read chain by chain, so its elements are then in the order of chains.
static const char *read_vector(const struct gemv *v, zl_dtype dtype, const char *x, int64_t stride) {
    const bool same = v->x_item == v->item, chained = !v->along && v->order.chains > 1;
    if (same && stride == v->item && !chained)
        return x;
    const int64_t count = chained ? gemm_padded(&v->order) : v->k, chains = chained ? v->chains : 1;
    char *wide = cpu_scratch(SCRATCH_PACK, (size_t)(count * (v->x_item + v->item))), *narrow = wide;
    if (!wide)
        return NULL;
    if (!same)
        narrow = wide + count * v->x_item;
    for (int64_t c = 0; c < chains; c++) {
        const struct gemm_chain chain = gemm_chain_at(&v->order, c),
                                of = chained ? chain : (struct gemm_chain){0, 1, v->k, 0, 0};
        cpu_move((size_t)v->item, narrow + of.at * v->item, (struct stride2){0, v->item},
                 x + of.first * stride, (struct stride2){0, of.apart * stride}, 1, of.count);
        if (!same)
            cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][dtype], wide + of.at * v->x_item,
                         narrow + of.at * v->item, NULL, NULL, of.count);
    }
    return wide;
}

// Chooses how the matrix is read.
static void choose_reader(struct gemv *v, zl_dtype dtype) {
    const bool across = v->col != v->item && v->row == v->item, chained = v->order.chains > 1;
    v->read = reader_for(dtype);
    if (v->read && !across)
        v->along = chained ? v->read->along : v->read->in_order;
    if (!v->read || (!across && !v->along)) {
        v->widen = cpu_level()->rows->cast[ZL_FLOAT32][dtype];
        v->read = reader_for(ZL_FLOAT32);
        v->along = chained ? v->read->along : v->read->in_order;
    }
    v->x_item = v->read->narrow ? v->item : v->wide;
    v->group = !v->along && chained && v->read->chains ? GROUP : 1;
}

// Returns the order to use if it is free: for rows across the vector, spans for several threads; else one
// span of chains that are summed side by side.
static struct gemm_order free_order(zl_dtype dtype, const struct gemm *g, bool across) {
    const int64_t bytes = g->m * g->n * g->k * (int64_t)zl_dtype_size(dtype);
    int64_t spans = across ? MIN_OF(MIN_OF(g->k / SLICE_LINES, bytes / SLICE_BYTES), SLICES_MOST) : 1;
    struct gemm_order o = {.k = g->k, .chains = across ? 1 : GEMM_CHAINS, .step = 1};
    o.span = round_up((g->k + MAX_OF(spans, 1) - 1) / MAX_OF(spans, 1), o.chains);
    o.spans = (g->k + o.span - 1) / o.span;
    return o;
}

static struct gemm_order order_for(zl_dtype dtype, const struct gemm *g) {
    const int64_t next = g->n == 1 ? g->a_row : g->b_col, along = g->n == 1 ? g->a_col : g->b_row;
    const struct reader *read = reader_for(dtype);
    const bool across = along != 1 && next == 1;
    return gemm_keeps_order(dtype, g) || !read || (!across && !read->along)
               ? gemm_order_of(gemm_kernel_for(dtype), g->k, gemm_is_along(g))
               : free_order(dtype, g, across);
}

// Sets the sizes and strides, and prepares the vector for its reader.
static bool open_gemv(struct gemv *v, zl_dtype dtype, const struct gemm *g) {
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16, by_row = g->n == 1;
    int64_t item = (int64_t)zl_dtype_size(dtype), wide = half ? 4 : item;
    *v = (struct gemv){.rows = by_row ? g->m : g->n, .k = g->k, .item = item, .wide = wide, .y = g->c};
    v->a = by_row ? g->a : g->b;
    v->row = (by_row ? g->a_row : g->b_col) * item;
    v->col = (by_row ? g->a_col : g->b_row) * item;
    v->y_stride = (by_row ? g->c_row : g->c_col) * wide;
    v->order = order_for(dtype, g);
    v->streams = !gemm_keeps_order(dtype, g);
    v->chains = v->order.spans * v->order.chains;
    choose_reader(v, dtype);
    v->x = read_vector(v, dtype, by_row ? g->b : g->a, (by_row ? g->b_row : g->a_col) * item);
    return v->x != NULL;
}

bool cpu_gemv(zl_dtype dtype, const struct gemm *g) {
    struct gemv v;
    if (!open_gemv(&v, dtype, g))
        return false;
    if (v.widen || (v.along && v.col != v.item))
        return multiply_gathered(&v);
    if (!v.along)
        return multiply_across(&v);
    multiply_along(&v);
    return true;
}

// By all threads --------------------------------------------------------------------------------------------
//
// Threads divide the strips of all groups of chains of rows across the vector. The sums of all chains are
// kept, and added up in order afterwards.

enum { SHARED_LEAST = 1 << 18, SHARED_BYTES = 1 << 19, ADDED_LEAST = 1 << 18 };

struct slices {
    struct gemv v;
    zl_dtype dtype;
    const struct gemm *g;
    int64_t strips;
    char *sum;      // of all chains
    row_fn *narrow; // converts results; NULL: they have the dtype of the sums
};

bool cpu_gemv_is_shared(zl_dtype dtype, const struct gemm *g) {
    const int64_t next = g->n == 1 ? g->a_row : g->b_col, along = g->n == 1 ? g->a_col : g->b_row,
                  bytes = g->m * g->n * (int64_t)zl_dtype_size(dtype);
    const struct gemm_order order = order_for(dtype, g);
    return next == 1 && along != 1 && order.spans * order.chains > 1 && bytes * g->k > SHARED_LEAST &&
           bytes <= SHARED_BYTES && reader_for(dtype);
}

static void multiply_slices(const void *context, int64_t from, int64_t to) {
    const struct slices *s = context;
    const struct gemv *v = &s->v;
    const int64_t strip = strip_of(v);
    const int64_t groups = v->chains / v->group;
    for (; from < to; from++) {
        const int64_t group = from % groups, at = from / groups * strip;
        multiply_group(v, group, at, MIN_OF(strip, v->rows - at),
                       s->sum + (group * v->group * v->rows + at) * v->wide, v->rows);
    }
}

static void add_slices(const void *context, int64_t from, int64_t to) {
    const struct slices *s = context;
    const struct gemv *v = &s->v;
    char *sum = s->sum + from * v->wide;
    for (int64_t i = 1; i < v->chains; i++)
        cpu_call_row(add_row(v), sum, sum + i * v->rows * v->wide, sum, NULL, to - from);
    if (!s->narrow) {
        put(v, from, sum, to - from);
        return;
    }
    if (s->g->added.alpha != 0) {
        int64_t step = s->g->n == 1 ? s->g->added.row : s->g->added.col;
        cpu_gemm_add(s->dtype, &s->g->added, (float *)(void *)sum, from * step, step, to - from);
    }
    char *narrow = sum + v->rows * v->wide; // memory of the second chain's sums, which are no longer needed
    cpu_call_row(s->narrow, narrow, sum, NULL, NULL, to - from);
    cpu_move((size_t)v->item, v->y + from * v->y_stride / 2, (struct stride2){0, v->y_stride / 2}, narrow,
             (struct stride2){0, v->item}, 1, to - from);
}

bool cpu_gemv_shared(zl_dtype dtype, const struct gemm *g) {
    struct slices s = {.dtype = dtype, .g = g};
    if (!open_gemv(&s.v, dtype, g))
        return false;
    if (s.v.wide != s.v.item)
        s.narrow = cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    if (!(s.sum = cpu_scratch(SCRATCH_SHARED, (size_t)(s.v.chains * s.v.rows * s.v.wide))))
        return false;
    s.strips = (s.v.rows + strip_of(&s.v) - 1) / strip_of(&s.v);
    cpu_split(s.v.chains / s.v.group * s.strips, 1, multiply_slices, &s);
    cpu_split(s.v.rows, ADDED_LEAST / (s.v.chains * s.v.wide), add_slices, &s);
    return true;
}
