// gemm_small.c - matrix times vector, and products of tiny matrices: nothing is packed.
//
// A vector product moves more than it computes: the matrix is read once, along its lines, whichever way they lie. Half
// floats are widened a piece at a time.

#include "device/cpu/cpu.h"

#include <string.h>

#define SMALL(name) name##_f32
#define SMALL_TYPE  float
#include "device/cpu/gemm_small.h"
#define SMALL(name) name##_f64
#define SMALL_TYPE  double
#include "device/cpu/gemm_small.h"

enum {
    TINY = 4096,  // products up to which packing does not pay
    PIECE = 1024, // elements of a line that are widened or gathered at once
    LINES = 4,    // lines added at once
};

bool cpu_is_tiny(zl_dtype dtype, const struct gemm *g) {
    bool small = g->m <= TINY && g->n <= TINY && g->k <= TINY && g->m * g->n * g->k <= TINY;
    return small && (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64) && (g->b_col == 1 || g->n == 1) &&
           g->c_col == 1 && !g->add;
}

bool cpu_tiny_gemm(zl_dtype dtype, const struct gemm *g) {
    if (dtype == ZL_FLOAT32)
        tiny_f32(g);
    else
        tiny_f64(g);
    return true;
}

// Matrix times vector ------------------------------------------------------------------------------------------------

// y[i] = sum of a[i, p] * x[p]. Strides in bytes.
struct gemv {
    int64_t rows, k;
    const char *a;
    int64_t row, col;
    const char *x; // contiguous and as wide as y
    char *y;
    int64_t y_stride;
    int64_t item, wide; // bytes of an element of a, and of x and y
    row_fn *widen;      // NULL: a is as wide
};

// n elements of a line of a, contiguous and wide: where they are, or in room.
static const char *read_line(const struct gemv *v, const char *from, int64_t stride, int64_t n, char *room) {
    char *narrow = v->widen ? room + n * v->wide : room;
    if (stride != v->item) {
        cpu_move((size_t)v->item, narrow, (struct stride2){0, v->item}, from, (struct stride2){0, stride}, 1,
                 n);
        from = narrow;
    }
    if (!v->widen)
        return from;
    v->widen((char *[]){room, (char *)(uintptr_t)from}, n, n);
    return room;
}

static void put(const struct gemv *v, int64_t row, double value) {
    char *to = v->y + row * v->y_stride;
    float single = (float)value;
    if (v->wide == 4)
        memcpy(to, &single, 4);
    else
        memcpy(to, &value, 8);
}

// Lines along the vector: one sum a row.
static void multiply_rows(const struct gemv *v) {
    _Alignas(64) char room[PIECE * 16];
    int64_t piece = v->widen || v->col != v->item ? PIECE : v->k;
    for (int64_t i = 0; i < v->rows; i++) {
        double sum = 0;
        for (int64_t p = 0, n; p < v->k; p += n) {
            n = MIN_OF(piece, v->k - p);
            const char *line = read_line(v, v->a + i * v->row + p * v->col, v->col, n, room),
                       *x = v->x + p * v->wide;
            if (v->wide == 4)
                sum += dot_f32((const void *)line, (const void *)x, n);
            else
                sum += dot_f64((const void *)line, (const void *)x, n);
        }
        put(v, i, sum);
    }
}

// Four lines, or the last few: those of half floats are widened first.
static void add_lines(const struct gemv *v, char *sum, const char *from, int64_t n, const char *x,
                      int lines) {
    _Alignas(64) char room[LINES * PIECE * 4 + PIECE * 2];
    int64_t line = v->col / v->wide;
    if (v->widen) {
        for (int k = 0; k < lines; k++)
            v->widen((char *[]){room + k * n * 4, (char *)(uintptr_t)(from + k * v->col)}, n, n);
        from = room;
        line = n;
    }
    if (v->wide == 4)
        add_lines_f32((void *)sum, (const void *)from, line, (const void *)x, lines, n);
    else
        add_lines_f64((void *)sum, (const void *)from, line, (const void *)x, lines, n);
}

// Lines across the vector: they are added up, a piece of all of them at a time.
static void multiply_lines(const struct gemv *v) {
    _Alignas(64) char sum[PIECE * 8];
    for (int64_t i = 0, n; i < v->rows; i += n) {
        n = MIN_OF(PIECE, v->rows - i);
        memset(sum, 0, (size_t)(n * v->wide));
        for (int64_t p = 0; p < v->k; p += LINES)
            add_lines(v, sum, v->a + i * v->row + p * v->col, n, v->x + p * v->wide,
                      (int)MIN_OF(LINES, v->k - p));
        cpu_move((size_t)v->wide, v->y + i * v->y_stride, (struct stride2){0, v->y_stride}, sum,
                 (struct stride2){0, v->wide}, 1, n);
    }
}

// The vector, contiguous and wide: where it is, or in scratch.
static const char *read_vector(const struct gemv *v, const char *x, int64_t stride) {
    if (!v->widen && stride == v->item)
        return x;
    char *room = cpu_scratch(SCRATCH_PACK, (size_t)(v->k * (v->wide + v->item)));
    return room ? read_line(v, x, stride, v->k, room) : NULL;
}

bool cpu_gemv(zl_dtype dtype, const struct gemm *g) {
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16, by_row = g->n == 1;
    int64_t item = (int64_t)zl_dtype_size(dtype), wide = half ? 4 : item;
    struct gemv v = {.rows = by_row ? g->m : g->n, .k = g->k, .item = item, .wide = wide, .y = g->c};
    v.widen = half ? cpu_level()->rows->cast[ZL_FLOAT32][dtype] : NULL;
    v.a = by_row ? g->a : g->b;
    v.row = (by_row ? g->a_row : g->b_col) * item;
    v.col = (by_row ? g->a_col : g->b_row) * item;
    v.y_stride = (by_row ? g->c_row : g->c_col) * wide;
    v.x = read_vector(&v, by_row ? g->b : g->a, (by_row ? g->b_row : g->a_col) * item);
    if (!v.x)
        return false;
    if (v.row == item && v.col != item)
        multiply_lines(&v);
    else
        multiply_rows(&v);
    return true;
}
