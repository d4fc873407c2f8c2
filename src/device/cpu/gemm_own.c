// gemm_own.c - our own matrix product: what is used where there is no BLAS that beats it, and for half floats.
//
// Blocks of a and b are packed so that the innermost part reads both in order: KC x MC of a for L2, KC x NC of b for
// L3, panels of them for L1. Packing takes any strides, and converts half floats to float32.

#include "device/cpu/cpu.h"

#include <string.h>

enum {
    KC = 384,
    MC = 128,
    NC = 1536,
    ROWS_MOST = 8,  // of a micro tile
    COLS_MOST = 48, // and its columns
    ITEM_MOST = 8,
};

typedef void micro_fn(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add);

// Registers of every CPU of the architecture. -----------------------------------------------------------------------

#if defined(__aarch64__)
#define MICRO_BY_LANE
#define BASE_ROWS 8
#define BASE_VECS 3
#else
#define BASE_ROWS 4
#define BASE_VECS 2
#endif

#define MICRO_NAME(part) part##_f32
#define MICRO_TYPE       float
#define MICRO_BYTES      16
#define MICRO_ROWS       BASE_ROWS
#define MICRO_VECS       BASE_VECS
#define MICRO_TARGET
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f64
#define MICRO_TYPE       double
#define MICRO_BYTES      16
#define MICRO_ROWS       BASE_ROWS
#define MICRO_VECS       BASE_VECS
#define MICRO_TARGET
#include "device/cpu/gemm_micro.h"

#if defined(__x86_64__)

#define MICRO_NAME(part) part##_f32_avx2
#define MICRO_TYPE       float
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx2
#define MICRO_TYPE       double
#define MICRO_BYTES      32
#define MICRO_ROWS       6
#define MICRO_VECS       2
#define MICRO_TARGET     __attribute__((target("avx2,fma")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f32_avx512
#define MICRO_TYPE       float
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm_micro.h"

#define MICRO_NAME(part) part##_f64_avx512
#define MICRO_TYPE       double
#define MICRO_BYTES      64
#define MICRO_ROWS       8
#define MICRO_VECS       3
#define MICRO_TARGET     __attribute__((target("avx512f")))
#include "device/cpu/gemm_micro.h"

#endif

static const struct micro {
    const char *level; // of the row kernels with which it is used; NULL: any
    zl_dtype dtype;
    int rows, cols;
    micro_fn *run;
} micros[] = {
#if defined(__x86_64__)
    {"avx2", ZL_FLOAT32, 6, 16, micro_f32_avx2},
    {"avx2", ZL_FLOAT64, 6, 8, micro_f64_avx2},
    {"avx512", ZL_FLOAT32, 8, 48, micro_f32_avx512},
    {"avx512", ZL_FLOAT64, 8, 24, micro_f64_avx512},
#endif
    {NULL, ZL_FLOAT32, BASE_ROWS, 4 * BASE_VECS, micro_f32},
    {NULL, ZL_FLOAT64, BASE_ROWS, 2 * BASE_VECS, micro_f64},
};

static const struct micro *micro_for(zl_dtype dtype) {
    const struct micro *m = micros;
    while (m->dtype != dtype || (m->level && strcmp(m->level, cpu_level()->name) != 0))
        m++;
    return m;
}

// Packing --------------------------------------------------------------------------------------------------------

struct own {
    const struct gemm *g;
    const struct micro *micro;
    size_t item;      // of what is multiplied: float32 or float64
    size_t from_item; // of the matrices
    row_fn *widen;    // NULL: the matrices hold it
    char *a, *b;      // packed blocks
};

// count lines, at most width, of k elements each, as k rows of width: the rest is zero. Strides in bytes.
static void pack_panel(const struct own *o, char *to, int64_t width, const char *from, int64_t k_stride,
                       int64_t line_stride, int64_t k, int64_t count) {
    _Alignas(64) char narrow[KC * ROWS_MOST * 2], wide[KC * ROWS_MOST * 4];
    int64_t item = (int64_t)o->item, from_item = (int64_t)o->from_item;
    if (count < width)
        memset(to, 0, (size_t)(k * width * item));
    if (o->widen) { // some lines at a time, each of them contiguous
        for (int64_t i = 0, n; i < count; i += n) {
            n = MIN_OF(ROWS_MOST, count - i);
            cpu_move(o->from_item, narrow, (struct stride2){k * from_item, from_item}, from + i * line_stride,
                     (struct stride2){line_stride, k_stride}, n, k);
            o->widen((char *[]){wide, narrow}, n * k, n * k);
            cpu_transpose(o->item, to + i * item, width * item, wide, k * item, k, n);
        }
    } else if (k_stride == item) {
        cpu_transpose(o->item, to, width * item, from, line_stride, k, count);
    } else {
        cpu_move(o->item, to, (struct stride2){width * item, item}, from,
                 (struct stride2){k_stride, line_stride}, k, count);
    }
}

static void pack(const struct own *o, char *to, int64_t width, const char *from, int64_t k_stride,
                 int64_t line_stride, int64_t k, int64_t count) {
    for (int64_t i = 0; i < count; i += width)
        pack_panel(o, to + i * k * (int64_t)o->item, width, from + i * line_stride, k_stride, line_stride, k,
                   MIN_OF(width, count - i));
}

// Multiplying ----------------------------------------------------------------------------------------------------

// A tile at the edge, or of a result that is not contiguous, goes through one of full size.
static void edge_tile(const struct own *o, int64_t k, const char *a, const char *b, char *c, int64_t rows,
                      int64_t cols, bool add) {
    _Alignas(64) char tile[ROWS_MOST * COLS_MOST * ITEM_MOST];
    int64_t item = (int64_t)o->item, width = o->micro->cols;
    struct stride2 dense = {width * item, item}, place = {o->g->c_row * item, o->g->c_col * item};
    if (add) {
        memset(tile, 0, (size_t)(o->micro->rows * width * item));
        cpu_move(o->item, tile, dense, c, place, rows, cols);
    }
    o->micro->run(k, a, b, tile, width, add);
    cpu_move(o->item, c, place, tile, dense, rows, cols);
}

static void multiply_block(const struct own *o, int64_t k, int64_t m, int64_t n, char *c, bool add) {
    const struct micro *u = o->micro;
    int64_t item = (int64_t)o->item;
    bool dense = o->g->c_col == 1;
    for (int64_t j = 0; j < n; j += u->cols)
        for (int64_t i = 0; i < m; i += u->rows) {
            const char *a = o->a + i * k * item, *b = o->b + j * k * item;
            char *tile = c + (i * o->g->c_row + j * o->g->c_col) * item;
            if (dense && i + u->rows <= m && j + u->cols <= n)
                u->run(k, a, b, tile, o->g->c_row, add);
            else
                edge_tile(o, k, a, b, tile, MIN_OF(u->rows, m - i), MIN_OF(u->cols, n - j), add);
        }
}

static void multiply_blocks(const struct own *o) {
    const struct gemm *g = o->g;
    const int64_t from = (int64_t)o->from_item, item = (int64_t)o->item;
    const int64_t mc = MC / o->micro->rows * o->micro->rows, nc = NC / o->micro->cols * o->micro->cols;
    for (int64_t j = 0; j < g->n; j += nc)
        for (int64_t p = 0; p < g->k; p += KC) {
            int64_t n = MIN_OF(nc, g->n - j), k = MIN_OF(KC, g->k - p);
            pack(o, o->b, o->micro->cols, g->b + (p * g->b_row + j * g->b_col) * from, g->b_row * from,
                 g->b_col * from, k, n);
            for (int64_t i = 0; i < g->m; i += mc) {
                int64_t m = MIN_OF(mc, g->m - i);
                pack(o, o->a, o->micro->rows, g->a + (i * g->a_row + p * g->a_col) * from, g->a_col * from,
                     g->a_row * from, k, m);
                multiply_block(o, k, m, n, g->c + (i * g->c_row + j * g->c_col) * item, g->add || p > 0);
            }
        }
}

static int64_t round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// dtype is that of the matrices; the result is float32 for half floats.
static bool multiply(zl_dtype dtype, const struct gemm *g) {
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    zl_dtype wide = half ? ZL_FLOAT32 : dtype;
    struct own o = {
        .g = g, .micro = micro_for(wide), .item = zl_dtype_size(wide), .from_item = zl_dtype_size(dtype)};
    if (half)
        o.widen = cpu_level()->rows->cast[ZL_FLOAT32][dtype];
    int64_t k = MIN_OF(g->k, KC), m = round_up(MIN_OF(g->m, MC), o.micro->rows);
    int64_t n = round_up(MIN_OF(g->n, NC), o.micro->cols);
    int64_t a_bytes = round_up(k * m * (int64_t)o.item, 64);
    o.a = cpu_scratch(SCRATCH_PACK, (size_t)(a_bytes + k * n * (int64_t)o.item));
    if (!o.a)
        return false;
    o.b = o.a + a_bytes;
    multiply_blocks(&o);
    return true;
}

// Complex numbers: four products of their parts, which are matrices of floats two apart. ------------------------------

static bool multiply_parts(const struct gemm *g, int a_part, int b_part, int c_part, bool add) {
    struct gemm h = *g;
    h.a += 4 * a_part, h.b += 4 * b_part, h.c += 4 * c_part;
    h.a_row *= 2, h.a_col *= 2, h.b_row *= 2, h.b_col *= 2, h.c_row *= 2, h.c_col *= 2;
    h.add = add;
    return multiply(ZL_FLOAT32, &h);
}

static void negate_real(const struct gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = (float *)(void *)(g->c + (i * g->c_row + j * g->c_col) * 8);
            *c = -*c;
        }
}

// The real part is -(im im - re re): its sign is turned before and after, so that everything is an addition.
static bool multiply_complex(const struct gemm *g) {
    if (g->add)
        negate_real(g);
    bool done = multiply_parts(g, 1, 1, 0, g->add);
    negate_real(g);
    return done && multiply_parts(g, 0, 0, 0, true) && multiply_parts(g, 0, 1, 1, g->add) &&
           multiply_parts(g, 1, 0, 1, true);
}

bool cpu_own_gemm(zl_dtype dtype, const struct gemm *g) {
    return dtype == ZL_COMPLEX64 ? multiply_complex(g) : multiply(dtype, g);
}
