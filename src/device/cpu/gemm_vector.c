// gemm_vector.c - matrix times vector: the matrix is read once, along its lines, whichever way they lie.
//
// Lines are read in streams, each through memory without a gap: at one of 4096 floats a Neoverse-V1 reads 35 GB/s so, and 25
// if lines that are neighbours are read side by side. Half floats are widened as they are read. Lines whose elements are not
// neighbours are gathered first.

#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"

#include <string.h>

enum {
    STREAMS = 4,      // that are read side by side
    ROWS_MOST = 2048, // results of lines along the vector at once
    PIECE = 1 << 17,  // bytes of a result that stay in L2 while lines are added to it
    GATHER = 65536,   // bytes of lines that are gathered at once
};

#define READ_TWO(p, low, high) ((low) = READ(p), (high) = READ((p) + LANES))

#define GEMV(name) name##_f32
#define GEMV_FROM  float
#define GEMV_TYPE  float
#define GEMV_LOAD  READ_TWO
#define GEMV_ONE   *
#include "device/cpu/gemm_vector.h"

#define GEMV(name) name##_f64
#define GEMV_FROM  double
#define GEMV_TYPE  double
#define GEMV_LOAD  READ_TWO
#define GEMV_ONE   *
#include "device/cpu/gemm_vector.h"

typedef halves8 halves8_memory __attribute__((aligned(2), may_alias));

// The upper half of a float.
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
#include "device/cpu/gemm_vector.h"

#if defined(__aarch64__) // converts halves without any extension

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
#include "device/cpu/gemm_vector.h"

#define ADD_FMLAL(low, high, a, x)                                  \
    __asm__("fmlal %0.4s, %2.4h, %3.4h\nfmlal2 %1.4s, %2.4h, %3.4h" \
            : "+&w"(low), "+&w"(high)                               \
            : "w"(a), "w"(x))
#define FLOAT_OF(from) ((float)*(const __fp16 *)(from))

#define HALF(name)  name##_fmlal
#define HALF_TARGET CPU_WITH("fp16fml")
#define HALF_ADD    ADD_FMLAL
#define HALF_ONE    FLOAT_OF
#define HALF_PAIRS  false
#include "device/cpu/gemm_vector_half.h"

#define ADD_BFMLAL(low, high, a, x)                                    \
    __asm__("bfmlalb %0.4s, %2.8h, %3.8h\nbfmlalt %1.4s, %2.8h, %3.8h" \
            : "+&w"(low), "+&w"(high)                                  \
            : "w"(a), "w"(x))

#define HALF(name)  name##_bfmlal
#define HALF_TARGET CPU_WITH("bf16")
#define HALF_ADD    ADD_BFMLAL
#define HALF_ONE    widen_bf16
#define HALF_PAIRS  true
#include "device/cpu/gemm_vector_half.h"

#endif

// Lines are `line` elements apart.
typedef void vector_fn(const void *a, int64_t line, const void *x, int64_t k, int64_t n, void *y);

// The best first.
static const struct reader {
    const char *needs; // as of cpu_has; NULL: nothing
    zl_dtype dtype;
    bool narrow; // the vector has the matrix's dtype; else that of the result
    vector_fn *along, *across;
} readers[] = {
#if defined(__aarch64__)
    {"bf16", ZL_BFLOAT16, true, along_bfmlal, across_bfmlal},
    {"fhm", ZL_FLOAT16, true, along_fmlal, across_fmlal},
    {NULL, ZL_FLOAT16, false, along_f16, across_f16},
#endif
    {NULL, ZL_FLOAT32, false, along_f32, across_f32},
    {NULL, ZL_FLOAT64, false, along_f64, across_f64},
    {NULL, ZL_BFLOAT16, false, along_bf16, across_bf16},
};

static const struct reader *reader_for(zl_dtype dtype) {
    for (size_t i = 0; i < COUNT(readers); i++)
        if (readers[i].dtype == dtype && (!readers[i].needs || cpu_has(readers[i].needs)))
            return &readers[i];
    return NULL;
}

// y[i] = sum of a[i, p] * x[p]. Strides in bytes.
struct gemv {
    int64_t rows, k;
    const char *a;
    int64_t row, col;
    const char *x; // contiguous and as wide as y, or as narrow as a
    char *y;
    int64_t y_stride;
    int64_t item, wide; // bytes of an element of a, and of x and y
    row_fn *widen;      // NULL: a is as wide
    const struct reader *read;
};

// n results from `row` on, where they belong.
static void put(const struct gemv *v, int64_t row, const char *from, int64_t n) {
    cpu_move((size_t)v->wide, v->y + row * v->y_stride, (struct stride2){0, v->y_stride}, from,
             (struct stride2){0, v->wide}, 1, n);
}

static void multiply_along(const struct gemv *v) {
    _Alignas(64) char sum[ROWS_MOST * 8];
    for (int64_t i = 0, n; i < v->rows; i += n) {
        n = MIN_OF(ROWS_MOST, v->rows - i);
        v->read->along(v->a + i * v->row, v->row / v->item, v->x, v->k, n, sum);
        put(v, i, sum, n);
    }
}

static bool multiply_across(const struct gemv *v) {
    char *sum = cpu_scratch(SCRATCH_LINES, (size_t)(MIN_OF(v->rows * v->wide, PIECE)));
    if (!sum)
        return false;
    for (int64_t i = 0, n; i < v->rows; i += n) {
        n = MIN_OF(PIECE / v->wide, v->rows - i);
        v->read->across(v->a + i * v->row, v->col / v->item, v->x, v->k, n, sum);
        put(v, i, sum, n);
    }
    return true;
}

// Gathered, and widened if there is no reader of their dtype: some lines at a time.
static bool multiply_gathered(const struct gemv *v) {
    int64_t line = v->k * (v->widen ? v->wide + v->item : v->item), lines = MAX_OF(GATHER / line, 1);
    char *narrow = cpu_scratch(SCRATCH_LINES, (size_t)(lines * line)), *wide = narrow;
    struct gemv some = *v;
    if (!narrow)
        return false;
    for (int64_t i = 0; i < v->rows; i += some.rows) {
        some.rows = MIN_OF(lines, v->rows - i);
        wide = v->widen ? narrow + some.rows * v->k * v->item : narrow;
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

// The vector, contiguous, and wide if its reader wants that: where it is, or in scratch.
static const char *read_vector(const struct gemv *v, zl_dtype dtype, const char *x, int64_t stride) {
    bool same = v->wide == v->item || v->read->narrow;
    if (same && stride == v->item)
        return x;
    char *wide = cpu_scratch(SCRATCH_PACK, (size_t)(v->k * (v->wide + v->item))), *narrow = wide;
    if (!wide)
        return NULL;
    if (!same)
        narrow = wide + v->k * v->wide;
    cpu_move((size_t)v->item, narrow, (struct stride2){0, v->item}, x, (struct stride2){0, stride}, 1, v->k);
    if (narrow != wide)
        cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][dtype], wide, narrow, NULL, NULL, v->k);
    return wide;
}

// Sizes and strides, and the vector as its reader wants it.
static bool open_gemv(struct gemv *v, zl_dtype dtype, const struct gemm *g) {
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16, by_row = g->n == 1;
    int64_t item = (int64_t)zl_dtype_size(dtype), wide = half ? 4 : item;
    *v = (struct gemv){.rows = by_row ? g->m : g->n, .k = g->k, .item = item, .wide = wide, .y = g->c};
    v->a = by_row ? g->a : g->b;
    v->row = (by_row ? g->a_row : g->b_col) * item;
    v->col = (by_row ? g->a_col : g->b_row) * item;
    v->y_stride = (by_row ? g->c_row : g->c_col) * wide;
    v->read = reader_for(dtype);
    if (!v->read) {
        v->widen = cpu_level()->rows->cast[ZL_FLOAT32][dtype];
        v->read = reader_for(ZL_FLOAT32);
    }
    v->x = read_vector(v, dtype, by_row ? g->b : g->a, (by_row ? g->b_row : g->a_col) * item);
    return v->x != NULL;
}

bool cpu_gemv(zl_dtype dtype, const struct gemm *g) {
    struct gemv v;
    if (!open_gemv(&v, dtype, g))
        return false;
    if (v.widen || (v.col != v.item && v.row != v.item))
        return multiply_gathered(&v);
    if (v.col != v.item)
        return multiply_across(&v);
    multiply_along(&v);
    return true;
}

// By all threads -----------------------------------------------------------------------------------------------------
//
// Lines across the vector are shared out, not cut, as pieces of them are read more slowly. Sums of some lines wait until all are
// there; how many there are depends on the sizes only, and so do results.

enum { SLICES_MOST = 16, SLICE_LINES = 16, SLICE_BYTES = 1 << 18, SHARED_BYTES = 1 << 19 };

struct slices {
    struct gemv v;
    zl_dtype dtype;
    const struct gemm *g;
    int64_t count;
    char *sum;      // of each
    row_fn *narrow; // of results; NULL: they are as wide as sums
};

static int64_t slices_of(zl_dtype dtype, const struct gemm *g) {
    int64_t lines = g->k / SLICE_LINES,
            bytes = g->m * g->n * g->k * (int64_t)zl_dtype_size(dtype) / SLICE_BYTES;
    return MIN_OF(MIN_OF(lines, bytes), SLICES_MOST);
}

bool cpu_gemv_is_shared(zl_dtype dtype, const struct gemm *g) {
    int64_t next = g->n == 1 ? g->a_row : g->b_col, along = g->n == 1 ? g->a_col : g->b_row;
    return next == 1 && along != 1 && slices_of(dtype, g) > 1 && reader_for(dtype) &&
           g->m * g->n * (int64_t)zl_dtype_size(dtype) <= SHARED_BYTES;
}

static void multiply_slices(const void *context, int64_t from, int64_t to) {
    const struct slices *s = context;
    const struct gemv *v = &s->v;
    const int64_t x_item = v->read->narrow ? v->item : v->wide;
    for (; from < to; from++) {
        int64_t start = v->k * from / s->count, lines = v->k * (from + 1) / s->count - start;
        const char *a = v->a + start * v->col;
        for (int64_t i = 0, n; i < v->rows; i += n) {
            n = MIN_OF(PIECE / v->wide, v->rows - i);
            v->read->across(a + i * v->row, v->col / v->item, v->x + start * x_item, lines, n,
                            s->sum + (from * v->rows + i) * v->wide);
        }
    }
}

static void add_slices(const void *context, int64_t from, int64_t to) {
    const struct slices *s = context;
    const struct gemv *v = &s->v;
    row_fn *add = cpu_level()->rows->op[TILE_ADD][v->wide == 8 ? ZL_FLOAT64 : ZL_FLOAT32][0];
    char *sum = s->sum + from * v->wide;
    for (int64_t i = 1; i < s->count; i++)
        cpu_call_row(add, sum, sum, sum + i * v->rows * v->wide, NULL, to - from);
    if (!s->narrow) {
        put(v, from, sum, to - from);
        return;
    }
    if (s->g->added.alpha != 0) {
        int64_t step = s->g->n == 1 ? s->g->added.row : s->g->added.col;
        cpu_gemm_add(s->dtype, &s->g->added, (float *)(void *)sum, from * step, step, to - from);
    }
    char *narrow = sum + v->rows * v->wide; // where those of the second were
    cpu_call_row(s->narrow, narrow, sum, NULL, NULL, to - from);
    cpu_move((size_t)v->item, v->y + from * v->y_stride / 2, (struct stride2){0, v->y_stride / 2}, narrow,
             (struct stride2){0, v->item}, 1, to - from);
}

bool cpu_gemv_shared(zl_dtype dtype, const struct gemm *g) {
    struct slices s = {.dtype = dtype, .g = g, .count = slices_of(dtype, g)};
    if (!open_gemv(&s.v, dtype, g))
        return false;
    if (s.v.wide != s.v.item)
        s.narrow = cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    if (!(s.sum = cpu_scratch(SCRATCH_SHARED, (size_t)(s.count * s.v.rows * s.v.wide))))
        return false;
    cpu_split(s.count, 1, multiply_slices, &s);
    cpu_split(s.v.rows, SLICE_BYTES / (s.count * s.v.wide), add_slices, &s);
    return true;
}
