// gemm_few.c - products of a few dozen rows. b, which is read once, is packed in blocks that stay in L2; each
// block is multiplied with all of a, while the next one is prefetched. Runs on one thread; other threads have
// other columns.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"

enum {
    ROWS_LEAST = 13,       // with fewer rows it is faster not to pack (gemm_thin.c);
    ROWS_LEAST_SHORT = 12, // the same for a short k,
    ROWS_LEAST_ALONG = 17, // for a b that is contiguous along k,
    ROWS_LEAST_WIDE = 8,   // for kernels whose vectors are longer than those of gemm_thin.c,
    ROWS_LEAST_HALF = 2,   // and for f16 and bf16, which are packed as float32
    K_SHORT = 1024,
    ROWS_MOST = 48,
    K_BLOCK = 128,      // rows of b that are packed at once if the order of sums is free
    BLOCK = 128 * 1024, // bytes of b that are packed at once
    CACHE_LINE = 64,
    FOUR = 4, // rows that one kernel multiplies with two panels of b
};

struct few {
    const struct gemm *g;
    const struct gemm_kernel *u;
    struct gemm_packing packing;
    int64_t item, from_item; // bytes of an element, packed and in the matrices
    int64_t k_most;          // rows of b that are packed at once
    char *a, *b;             // packed: all of a; a block of b
};

// What is prefetched: rows of the matrix that are `line` bytes apart, `bytes` of each.
struct ahead {
    const char *at;
    int64_t line, lines, bytes;
    int64_t done; // bytes of the first row that have been prefetched
    int64_t each; // rows that are prefetched per tile
};

static bool is_half(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
}

static int64_t rows_least(zl_dtype dtype, const struct gemm *g) {
    if (is_half(dtype))
        return ROWS_LEAST_HALF;
    if (g->b_row == 1)
        return ROWS_LEAST_ALONG;
    if (gemm_kernel_for(dtype)->run_packing)
        return ROWS_LEAST_WIDE;
    return g->k <= K_SHORT && gemm_kernel_for(dtype)->four ? ROWS_LEAST_SHORT : ROWS_LEAST;
}

// Returns how many rows of b are packed at once: a span, or the best number if the order of sums is free. 0:
// the order has several chains, which this algorithm cannot keep to.
static int64_t k_most(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_kernel *u = gemm_kernel_for(dtype);
    const struct gemm_order order = gemm_order_of(u, g->k, gemm_is_along(g));
    if (!gemm_keeps_order(dtype, g))
        return round_up(K_BLOCK, u->step);
    return order.chains == 1 ? order.span : 0;
}

bool cpu_is_few(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_kernel *u = gemm_kernel_for(dtype);
    if (!u || (u->dtype != ZL_FLOAT32 && u->dtype != ZL_FLOAT64) ||
        (!is_half(dtype) && cpu_blas()->multiply != cpu_own_gemm))
        return false;
    return g->m >= rows_least(dtype, g) && g->m <= ROWS_MOST && g->n > 2 * g->m && g->c_col == 1 &&
           (g->b_row == 1 || g->b_col == 1) && gemm_is_plain(u) && k_most(dtype, g) > 0;
}

// Returns the packed rows of a, from element p of k on: blocks of k are contiguous.
static char *packed_a(const struct few *f, int64_t p) {
    return f->a + p * round_up(f->g->m, f->u->rows) * f->item;
}

static void pack_a(const struct few *f) {
    const struct gemm *g = f->g;
    for (int64_t p = 0; p < g->k; p += f->k_most)
        gemm_pack(&f->packing, packed_a(f, p), f->u->rows, g->a + p * g->a_col * f->from_item,
                  g->a_col * f->from_item, g->a_row * f->from_item, MIN_OF(f->k_most, g->k - p), g->m, 0);
}

// Returns the block of b that begins at row p and a column, to prefetch it. It is empty past the end of b.
static struct ahead ahead_of(const struct few *f, int64_t p, int64_t rows, int64_t col, int64_t cols) {
    const struct gemm *g = f->g;
    const bool along = g->b_row == 1;
    rows = MIN_OF(rows, g->k - p), cols = MIN_OF(cols, g->n - col);
    return (struct ahead){.at = g->b + (p * g->b_row + col * g->b_col) * f->from_item,
                          .line = (along ? g->b_col : g->b_row) * f->from_item,
                          .lines = along ? cols : rows,
                          .bytes = (along ? rows : cols) * f->from_item};
}

// Prefetches the next `bytes` of it. It must be inlined, as in gemm_own.c.
static inline __attribute__((always_inline)) void fetch(struct ahead *a, int64_t bytes) {
    for (; bytes > 0 && a->lines > 0; bytes -= CACHE_LINE) {
        __builtin_prefetch(a->at + a->done, 0, 2);
        a->done += CACHE_LINE;
        if (a->done >= a->bytes)
            a->at += a->line, a->lines--, a->done = 0;
    }
}

// A tile of the result: some rows of a times one panel of b or, if `four`, two. The functions that compute it
// must be inlined.
struct tile {
    int64_t k;
    const char *a, *b;
    char *c;
    int64_t rows, cols;
    bool add, four;
};

static inline __attribute__((always_inline)) void run_tile(const struct few *f, const struct tile *t, char *c,
                                                           int64_t c_row, struct ahead *ahead) {
    const struct gemm_kernel *u = f->u;
    const char *at[GEMM_STREAMS];
    if (!u->fetching || f->k_most != K_BLOCK) {
        u->run(t->k, t->a, t->b, c, c_row, t->add);
        return;
    }
    for (int i = 0; i < GEMM_STREAMS; i++) {
        at[i] = ahead->at;
        if (i < ahead->each && ahead->lines > 1)
            ahead->at += ahead->line, ahead->lines--;
    }
    if (t->four)
        u->four(t->k, t->a, t->b, t->b + u->cols * t->k * f->item, c, c_row, t->add, at);
    else
        u->fetching(t->k, t->a, t->b, c, c_row, t->add, at);
}

// Computes a tile; a partial one is computed as a whole one in a buffer.
static inline __attribute__((always_inline)) void multiply_tile(const struct few *f, const struct tile *t,
                                                                struct ahead *ahead) {
    _Alignas(64) char tile[GEMM_ROWS_MOST * GEMM_COLS_MOST * 8];
    const int64_t height = t->four ? FOUR : f->u->rows, width = t->four ? 2 * f->u->cols : f->u->cols;
    struct stride2 dense = {width * f->item, f->item}, place = {f->g->c_row * f->item, f->item};
    if (t->rows == height && t->cols == width) {
        run_tile(f, t, t->c, f->g->c_row, ahead);
        return;
    }
    if (t->add) {
        memset(tile, 0, (size_t)(height * width * f->item));
        cpu_move((size_t)f->item, tile, dense, t->c, place, t->rows, t->cols);
    }
    run_tile(f, t, tile, width, ahead);
    cpu_move((size_t)f->item, t->c, place, tile, dense, t->rows, t->cols);
}

// Multiplies the packed columns of a block with all rows. The last rows, if they are at most FOUR, are
// multiplied with two panels at once.
static void multiply_block(const struct few *f, int64_t p, int64_t col, int64_t cols, struct ahead ahead) {
    const struct gemm *g = f->g;
    const struct gemm_kernel *u = f->u;
    const int64_t k = round_up(MIN_OF(f->k_most, g->k - p), u->step), rest = g->m % u->rows;
    const int64_t tiles = round_up(cols, u->cols) / u->cols * (round_up(g->m, u->rows) / u->rows);
    const int64_t slice = ahead.lines * round_up(ahead.bytes, CACHE_LINE) / tiles + CACHE_LINE;
    const bool streams =
        u->fetching && g->b_row != 1 && f->k_most == K_BLOCK; // else there are more lines than tiles prefetch
    ahead.each = streams ? ahead.lines / tiles + 1 : 0;
    for (int64_t j = 0; j < cols; j += u->cols)
        for (int64_t i = 0; i < g->m; i += u->rows) {
            const bool last = u->four && f->k_most == K_BLOCK && rest && rest <= FOUR && i + u->rows > g->m,
                       four = last && j / u->cols % 2;
            if (last && !four && j + 2 * u->cols <= cols)
                continue; // computed with the next panel
            const int64_t from = four ? j - u->cols : j, most = four ? 2 * u->cols : u->cols;
            if (!streams)
                fetch(&ahead, slice);
            multiply_tile(f,
                          &(struct tile){.k = k,
                                         .a = packed_a(f, p) + i * k * f->item,
                                         .b = f->b + from * k * f->item,
                                         .c = g->c + (i * g->c_row + col + from) * f->item,
                                         .rows = MIN_OF(u->rows, g->m - i),
                                         .cols = MIN_OF(most, cols - from),
                                         .add = p > 0 || g->add,
                                         .four = four},
                          &ahead);
        }
}

bool cpu_few_gemm(zl_dtype dtype, const struct gemm *g) {
    struct few f = {.g = g, .u = gemm_kernel_for(dtype), .from_item = (int64_t)zl_dtype_size(dtype)};
    f.item = (int64_t)zl_dtype_size(f.u->dtype);
    f.packing =
        (struct gemm_packing){.item = f.item, .from_item = f.from_item, .unit = f.u->unit, .step = f.u->step};
    if (f.u->dtype != dtype)
        f.packing.widen = cpu_level()->rows->cast[f.u->dtype][dtype];
    f.k_most = k_most(dtype, g);
    if (!f.k_most) // chosen for a wider product, of which this is a part
        return cpu_own_gemm(dtype, g);
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
            gemm_pack(&f.packing, f.b, f.u->cols, g->b + (p * g->b_row + col * g->b_col) * f.from_item,
                      g->b_row * f.from_item, g->b_col * f.from_item, rows, cols, g->n - col - cols);
            bool more = p + f.k_most < g->k;
            multiply_block(&f, p, col, cols,
                           ahead_of(&f, more ? p + f.k_most : 0, f.k_most, more ? col : col + most, most));
        }
    return true;
}
