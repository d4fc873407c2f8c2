// gemm_thin.c - products of which one side is a few vectors long: the other matrix is read once, where it lies, as packing it
// would take longer than multiplying. The order of sums depends on the sizes only.

#include "device/cpu/cpu.h"

#include <string.h>

enum {
    THIN_MOST = 16, // vectors
    SIDE = 4,       // that are multiplied side by side
    STREAMS = 4, // in which lines of the matrix are read, each through memory without a gap (gemm_vector.c)
    PIECE = 1 << 18, // bytes of results that stay in the caches meanwhile
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

typedef void few_fn(int64_t rows, const void *vectors, int64_t x_row, const void *matrix, int64_t line,
                    int64_t k, int64_t n, void *to, int64_t y_row);

// All vectors, a few at a time, which read the matrix again: blocks of its lines that stay in L2 meanwhile.
static void multiply_lines(const struct thin *t, int64_t item, few_fn *few, const char *a, int64_t n,
                           char *y) {
    const bool along = t->along == 1;
    const int64_t line = along ? t->line : t->along, lines = along ? n : t->k, length = along ? t->k : n;
    const int64_t fit = MAX_OF(cpu_cache_bytes(2) / 2 / (length * item), STREAMS);
    const int64_t block = t->count > SIDE ? MIN_OF(fit, lines) : lines;
    for (int64_t i = 0, some; i < lines; i += some) {
        some = MIN_OF(block, lines - i);
        for (int64_t r = 0; r < t->count; r += SIDE) {
            const char *x = t->x + r * t->x_row * item;
            few(t->count - r, along ? x : x + i * item, t->x_row, a + i * line * item, line,
                along ? t->k : some, along ? some : n, y + (r * n + (along ? i : 0)) * item, n);
        }
    }
}

bool cpu_thin_gemm(zl_dtype dtype, const struct gemm *g) {
    struct thin t = thin_of(g);
    const int64_t item = (int64_t)zl_dtype_size(dtype);
    const bool along = t.along == 1;
    few_fn *few = dtype == ZL_FLOAT32 ? (along ? few_along_f32 : few_across_f32)
                                      : (along ? few_along_f64 : few_across_f64);
    const int64_t piece = MIN_OF(PIECE / (t.count * item), t.n);
    char *sums = cpu_scratch(SCRATCH_LINES, (size_t)(t.count * piece * item));
    if (!sums || !gather_vectors(&t, item))
        return false;
    for (int64_t j = 0, n; j < t.n; j += n) {
        n = MIN_OF(piece, t.n - j);
        if (!along)
            memset(sums, 0, (size_t)(t.count * n * item));
        multiply_lines(&t, item, few, t.a + j * t.line * item, n, sums);
        cpu_move((size_t)item, t.y + j * t.y_col * item, (struct stride2){t.y_row * item, t.y_col * item},
                 sums, (struct stride2){n * item, item}, t.count, n);
    }
    return true;
}
