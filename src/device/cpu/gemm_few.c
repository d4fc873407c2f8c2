// gemm_few.c - products of a few dozen rows: b, which is read once, is packed in blocks that stay in L2, and each is multiplied
// with all of a before the next, which is fetched meanwhile. On one thread; others have other columns.

#include "device/cpu/gemm.h"

enum {
    ROWS_LEAST = 13, // with fewer, or with a matrix along k, it is better not to pack (gemm_thin.c)
    ROWS_LEAST_ALONG = 17,
    ROWS_MOST = 48,
    K_BLOCK = 128,      // rows of b that are packed at once, by
    BLOCK = 128 * 1024, // bytes
    CACHE_LINE = 64,
};

struct few {
    const struct gemm *g;
    const struct gemm_kernel *u;
    struct gemm_packing packing;
    int64_t item, k_most; // rows of b at once
    char *a, *b;          // packed: all of it; a block
};

// What is fetched ahead: lines of the matrix that are `line` bytes apart, `bytes` of each.
struct ahead {
    const char *at;
    int64_t line, lines, bytes;
    int64_t done; // of the first of them
};

static int64_t round_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

bool cpu_is_few(zl_dtype dtype, const struct gemm *g) {
    if ((dtype != ZL_FLOAT32 && dtype != ZL_FLOAT64) || cpu_blas()->multiply != cpu_own_gemm)
        return false;
    return g->m >= (g->b_row == 1 ? ROWS_LEAST_ALONG : ROWS_LEAST) && g->m <= ROWS_MOST && g->n > 2 * g->m &&
           g->c_col == 1 && (g->b_row == 1 || g->b_col == 1) && gemm_is_plain(gemm_kernel_for(dtype));
}

// Rows of a from a place of k on: blocks of k lie behind each other.
static char *packed_a(const struct few *f, int64_t p) {
    return f->a + p * round_up(f->g->m, f->u->rows) * f->item;
}

static void pack_a(const struct few *f) {
    const struct gemm *g = f->g;
    for (int64_t p = 0; p < g->k; p += f->k_most)
        gemm_pack(&f->packing, packed_a(f, p), f->u->rows, g->a + p * g->a_col * f->item, g->a_col * f->item,
                  g->a_row * f->item, MIN_OF(f->k_most, g->k - p), g->m, 0);
}

// A tile that is not whole goes through one that is.
static void edge_tile(const struct few *f, int64_t k, const char *a, const char *b, char *c, int64_t rows,
                      int64_t cols, bool add) {
    _Alignas(64) char tile[GEMM_ROWS_MOST * GEMM_COLS_MOST * 8];
    const int64_t width = f->u->cols;
    struct stride2 dense = {width * f->item, f->item}, place = {f->g->c_row * f->item, f->item};
    if (add) {
        memset(tile, 0, (size_t)(f->u->rows * width * f->item));
        cpu_move((size_t)f->item, tile, dense, c, place, rows, cols);
    }
    f->u->run(k, a, b, tile, width, add);
    cpu_move((size_t)f->item, c, place, tile, dense, rows, cols);
}

// The block of b at a place; none where there is nothing.
static struct ahead ahead_of(const struct few *f, int64_t p, int64_t rows, int64_t col, int64_t cols) {
    const struct gemm *g = f->g;
    const bool along = g->b_row == 1;
    rows = MIN_OF(rows, g->k - p), cols = MIN_OF(cols, g->n - col);
    return (struct ahead){.at = g->b + (p * g->b_row + col * g->b_col) * f->item,
                          .line = (along ? g->b_col : g->b_row) * f->item,
                          .lines = along ? cols : rows,
                          .bytes = (along ? rows : cols) * f->item};
}

// The next `bytes` of it. Inlined by force, as in gemm_own.c.
static inline __attribute__((always_inline)) void fetch(struct ahead *a, int64_t bytes) {
    for (; bytes > 0 && a->lines > 0; bytes -= CACHE_LINE) {
        __builtin_prefetch(a->at + a->done, 0, 2);
        a->done += CACHE_LINE;
        if (a->done >= a->bytes)
            a->at += a->line, a->lines--, a->done = 0;
    }
}

// Columns of a block, packed, times all rows.
static void multiply_block(const struct few *f, int64_t p, int64_t col, int64_t cols, struct ahead ahead) {
    const struct gemm *g = f->g;
    const struct gemm_kernel *u = f->u;
    const int64_t k = round_up(MIN_OF(f->k_most, g->k - p), u->step);
    const bool add = p > 0 || g->add;
    const int64_t tiles = round_up(cols, u->cols) / u->cols * (round_up(g->m, u->rows) / u->rows);
    const int64_t slice = ahead.lines * round_up(ahead.bytes, CACHE_LINE) / tiles + CACHE_LINE;
    for (int64_t j = 0; j < cols; j += u->cols)
        for (int64_t i = 0; i < g->m; i += u->rows) {
            const char *a = packed_a(f, p) + i * k * f->item, *b = f->b + j * k * f->item;
            char *c = g->c + (i * g->c_row + col + j) * f->item;
            fetch(&ahead, slice);
            if (i + u->rows <= g->m && j + u->cols <= cols)
                u->run(k, a, b, c, g->c_row, add);
            else
                edge_tile(f, k, a, b, c, MIN_OF(u->rows, g->m - i), MIN_OF(u->cols, cols - j), add);
        }
}

bool cpu_few_gemm(zl_dtype dtype, const struct gemm *g) {
    struct few f = {.g = g, .u = gemm_kernel_for(dtype), .item = (int64_t)zl_dtype_size(dtype)};
    f.packing =
        (struct gemm_packing){.item = f.item, .from_item = f.item, .unit = f.u->unit, .step = f.u->step};
    f.k_most = round_up(K_BLOCK, f.u->step);
    const int64_t width = MIN_OF(BLOCK / (f.k_most * f.item), g->n) / f.u->cols * f.u->cols;
    const int64_t most = MAX_OF(width, f.u->cols), k = round_up(g->k, f.u->step);
    f.a = cpu_scratch(SCRATCH_PACK, (size_t)(round_up(g->m, f.u->rows) * k * f.item + GEMM_SLACK));
    f.b = cpu_scratch(SCRATCH_LINES, (size_t)(f.k_most * most * f.item + GEMM_SLACK));
    if (!f.a || !f.b)
        return false;
    pack_a(&f);
    for (int64_t col = 0; col < g->n; col += most)
        for (int64_t p = 0; p < g->k; p += f.k_most) {
            const int64_t cols = MIN_OF(most, g->n - col), rows = MIN_OF(f.k_most, g->k - p);
            gemm_pack(&f.packing, f.b, f.u->cols, g->b + (p * g->b_row + col * g->b_col) * f.item,
                      g->b_row * f.item, g->b_col * f.item, rows, cols, g->n - col - cols);
            bool more = p + f.k_most < g->k;
            multiply_block(&f, p, col, cols,
                           ahead_of(&f, more ? p + f.k_most : 0, f.k_most, more ? col : col + most, most));
        }
    return true;
}
