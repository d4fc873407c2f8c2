// gemm_complex.c - complex matrix products as real ones.
//
// Rows of a and c are read as real rows of twice the length. Each row of b becomes two: the row itself, which
// the real parts of a multiply, and the row times i, which the imaginary parts multiply. The number of
// operations is that of the direct method.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

enum {
    COMPLEX = 8,          // bytes
    ROOM_BYTES = 1 << 22, // bytes of doubled columns of b that are made at once, so that they stay in the
                          // cache,
    COLUMNS_LEAST = 64,   // but never fewer columns than these
};

// Writes columns of b, from `first` on, as floats: 2 k rows of 2 n.
static void double_columns(const struct gemm *g, int64_t first, int64_t n, float *to) {
    cpu_move(COMPLEX, (char *)to, (struct stride2){2 * n * COMPLEX, COMPLEX},
             g->b + first * g->b_col * COMPLEX, (struct stride2){g->b_row * COMPLEX, g->b_col * COMPLEX},
             g->k, n);
    for (int64_t p = 0; p < g->k; p++, to += 4 * n)
        for (int64_t j = 0; j < 2 * n; j += 2) {
            to[2 * n + j] = -to[j + 1];
            to[2 * n + j + 1] = to[j];
        }
}

static bool multiply_columns(const struct gemm *g, int64_t first, int64_t n, float *room) {
    struct gemm real = *g;
    double_columns(g, first, n, room);
    real.n = 2 * n;
    real.k = 2 * g->k;
    real.a_row = 2 * g->a_row;
    real.b = (const char *)room, real.b_row = 2 * n, real.b_col = 1;
    real.c += first * COMPLEX, real.c_row = 2 * g->c_row;
    return cpu_own_gemm(ZL_FLOAT32, &real);
}

// Rows of a and c are contiguous.
static bool multiply_rows(const struct gemm *g) {
    int64_t column = g->k * 2 * COMPLEX, most = MAX_OF(ROOM_BYTES / column, COLUMNS_LEAST),
            n = MIN_OF(most, g->n);
    float *room = cpu_scratch(SCRATCH_DOUBLED, (size_t)(n * column));
    bool ok = room;
    for (int64_t j = 0; ok && j < g->n; j += n)
        ok = multiply_columns(g, j, MIN_OF(n, g->n - j), room);
    return ok;
}

// Returns a row-major contiguous copy of a matrix, which the caller frees.
static char *copy_rows(const char *from, struct stride2 stride, int64_t rows, int64_t cols) {
    char *to = memory_alloc((size_t)(rows * cols * COMPLEX));
    if (to)
        cpu_move(COMPLEX, to, (struct stride2){cols * COMPLEX, COMPLEX}, from, stride, rows, cols);
    return to;
}

bool gemm_complex(const struct gemm *g) {
    struct gemm h = *g;
    char *a = NULL, *c = NULL;
    const struct stride2 a_place = {g->a_row * COMPLEX, g->a_col * COMPLEX},
                         c_place = {g->c_row * COMPLEX, g->c_col * COMPLEX};
    bool ok = true;
    if (g->m == 0 || g->n == 0)
        return true;
    if (g->a_col != 1 && g->k > 0) {
        h.a = a = copy_rows(g->a, a_place, g->m, g->k);
        h.a_row = g->k, h.a_col = 1;
        ok = a;
    }
    if (ok && g->c_col != 1) {
        h.c = c = copy_rows(g->c, c_place, g->m, g->n);
        h.c_row = g->n, h.c_col = 1;
        ok = c;
    }
    ok = ok && multiply_rows(&h);
    if (ok && c)
        cpu_move(COMPLEX, g->c, c_place, c, (struct stride2){g->n * COMPLEX, COMPLEX}, g->m, g->n);
    memory_free(a);
    memory_free(c);
    return ok;
}
