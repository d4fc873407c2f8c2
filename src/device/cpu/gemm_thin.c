// gemm_thin.c - products of which one side is a few vectors long: the other matrix is read once, where it lies, as packing it
// would take longer than multiplying. The order of sums depends on the sizes only.

#include "device/cpu/cpu.h"

#include <string.h>

enum {
    THIN_MOST = 16, // vectors
    SIDE = 4,       // that are multiplied side by side
    LINES = 8,      // that are added up at once
    PIECE = 512,    // elements of results that stay in L1 meanwhile
};

#define THIN(name) name##_f32
#define THIN_TYPE  float
#include "device/cpu/gemm_thin.h"
#define THIN(name) name##_f64
#define THIN_TYPE  double
#include "device/cpu/gemm_thin.h"

// Vectors times a matrix of k x n; strides in elements.
struct thin {
    int64_t count, k, n;
    const char *x, *a;
    char *y;
    int64_t x_row, x_col;
    int64_t along, line; // of a: from one element of k to the next, and of n
    int64_t y_row, y_col;
};

static struct thin thin_of(const struct gemm *g) {
    if (g->m <= g->n)
        return (struct thin){g->m,     g->k,     g->n,     g->a,     g->b,     g->c,
                             g->a_row, g->a_col, g->b_row, g->b_col, g->c_row, g->c_col};
    return (struct thin){g->n,     g->k,     g->m,     g->b,     g->a,     g->c,
                         g->b_col, g->b_row, g->a_col, g->a_row, g->c_col, g->c_row};
}

bool cpu_is_thin(zl_dtype dtype, const struct gemm *g) {
    struct thin t = thin_of(g);
    return (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64) && t.count <= THIN_MOST && t.n > THIN_MOST &&
           !g->add && (t.along == 1 || t.line == 1);
}

// The vectors with neighbouring elements: where they are, or in scratch.
static bool gather_vectors(struct thin *t, int64_t item) {
    if (t->x_col == 1)
        return true;
    char *to = cpu_scratch(SCRATCH_PACK, (size_t)(t->count * t->k * item));
    if (!to)
        return false;
    cpu_move((size_t)item, to, (struct stride2){t->k * item, item}, t->x,
             (struct stride2){t->x_row * item, t->x_col * item}, t->count, t->k);
    t->x = to, t->x_row = t->k, t->x_col = 1;
    return true;
}

bool cpu_thin_gemm(zl_dtype dtype, const struct gemm *g) {
    const bool is_single = dtype == ZL_FLOAT32;
    const int64_t item = (int64_t)zl_dtype_size(dtype);
    struct thin t = thin_of(g);
    char *sums = cpu_scratch(SCRATCH_LINES, (size_t)(t.count * PIECE * item));
    if (!sums || !gather_vectors(&t, item))
        return false;
    for (int64_t j = 0, n; j < t.n; j += n) {
        n = MIN_OF(PIECE, t.n - j);
        const char *a = t.a + j * t.line * item;
        if (t.along == 1) {
            (is_single ? along_f32 : along_f64)(t.count, t.x, t.x_row, a, t.line, t.k, n, sums, n);
        } else {
            memset(sums, 0, (size_t)(t.count * n * item));
            (is_single ? across_f32 : across_f64)(t.count, t.x, t.x_row, a, t.along, t.k, n, sums, n);
        }
        cpu_move((size_t)item, t.y + j * t.y_col * item, (struct stride2){t.y_row * item, t.y_col * item},
                 sums, (struct stride2){n * item, item}, t.count, n);
    }
    return true;
}
