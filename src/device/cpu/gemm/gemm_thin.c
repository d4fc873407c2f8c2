// gemm_thin.c - products of a matrix and a few vectors. The matrix is read once and in place, because packing
// it would take longer than multiplying. The order of summation is that of gemm_order.c.

#include "device/cpu/rows/operands.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/rows/lanes.h"

#include <string.h>

enum {
    THIN_MOST = 16,  // vectors
    SIDE = 4,        // vectors that are multiplied side by side
    STREAMS = 4,     // rows of the matrix that are read side by side (gemm_vector.c)
    PANEL_LINES = 8, // rows that are multiplied with a panel of SIDE vectors at once
    PIECE = 1 << 18, // bytes of results, which stay in the caches while they are computed
    VECTOR = 16,     // bytes
};

// Limits of the kernel that computes along rows of the matrix, with the vectors packed as panels: the fewest
// vectors, the most if they are rows of the result, and the most if they are columns, of which more are
// better packed once for all threads (gemm_own.c). PANELED_K elements of k are packed at once.
enum { PANELED_LEAST = 7, PANELED_ROWS = 48, PANELED_COLUMNS = 32, PANELED_K = 4096 };

// Limits of the kernel that computes across rows of the matrix: the most vectors, and the rows at a time.
enum { ACROSS_MOST = 24, ACROSS_LINES = 16, ACROSS_LINES_LEAST = 4 };

// More than THIN_MOST vectors pay from MORE_K elements of k on, and across rows from MORE_LINES rows at a
// time on. If fewer than SOME_LINES rows are read at a time, more than ACROSS_FEW vectors are better packed
// (gemm_few.c).
enum { MORE_K = 256, MORE_LINES = 12, SOME_LINES = 6, ACROSS_FEW = 8 };

#define THIN(name) name##_f32
#define THIN_TYPE  float
#define THIN_DOTS  1
#include "device/cpu/gemm/gemm_thin.h"
#define THIN(name) name##_f64
#define THIN_TYPE  double
#define THIN_DOTS  0
#include "device/cpu/gemm/gemm_thin.h"

// Vectors times a matrix of k x n; strides are in elements.
struct thin {
    int64_t count, k, n;
    const char *x, *a;
    char *y;
    int64_t x_row, x_col;
    int64_t along, line; // strides of a along k and along n
    int64_t y_row, y_col;
    struct gemm_order order;
    bool streams; // rows need not be added in order
};

static struct thin thin_of(const struct gemm *g) {
    if (g->m <= g->n)
        return (struct thin){g->m,     g->k,     g->n,     g->a,     g->b,     g->c,
                             g->a_row, g->a_col, g->b_row, g->b_col, g->c_row, g->c_col};
    return (struct thin){g->n,     g->k,     g->m,     g->b,     g->a,     g->c,
                         g->b_col, g->b_row, g->a_col, g->a_row, g->c_col, g->c_row};
}

// If the order of sums is free, a long span is one chain, except for dot products of float32, which have one
// chain per lane.
static struct thin open_thin(zl_dtype dtype, const struct gemm *g) {
    struct thin t = thin_of(g);
    const struct gemm_kernel *u = gemm_kernel_for(dtype);
    const bool dots = t.along == 1 && dtype == ZL_FLOAT32 && !(u->lines[0] && t.count >= PANELED_LEAST);
    t.order = gemm_order_of(u, g->k, gemm_is_along(g));
    t.streams = !gemm_keeps_order(dtype, g);
    if (t.streams) {
        const int64_t span = MIN_OF(round_up(g->k, GEMM_CHAINS), PANELED_K);
        t.order = (struct gemm_order){g->k, span, (g->k + span - 1) / span, dots ? GEMM_CHAINS : 1, u->step};
    }
    return t;
}

// Returns whether a kernel multiplies rows along the vectors with panels of them.
static bool is_paneled(zl_dtype dtype, const struct thin *t) {
    return t->along == 1 && t->order.chains == 1 && t->count >= PANELED_LEAST &&
           gemm_kernel_for(dtype)->lines[0];
}

// Returns how many rows across the vectors a kernel reads at once. Rows whose pitch is a multiple of a large
// power of two compete for the same sets of L1: they take three quarters of its ways, or all of them if there
// would be too little work per result otherwise.
static int64_t lines_across(const struct thin *t, int64_t item) {
    const int64_t line = t->along * item, apart = line & -line;
    const int64_t fit = cpu_cache_bytes(1) / MAX_OF(apart, 1) * 3 / 4;
    return MAX_OF(MIN_OF(fit, ACROSS_LINES), ACROSS_LINES_LEAST);
}

// Returns the most vectors for which this kernel is the best one, with so many rows at a time.
static int64_t across_most(int64_t lines, bool more) {
    if (lines < SOME_LINES)
        return ACROSS_FEW;
    return more && lines >= MORE_LINES ? ACROSS_MOST : THIN_MOST;
}

// Returns whether a kernel reads rows across the vectors: vectors are padded to a multiple of GEMM_ACROSS,
// and at most a fifth of the work may be padding.
static bool is_across(zl_dtype dtype, const struct thin *t) {
    const int64_t padded = round_up(t->count, GEMM_ACROSS);
    return t->line == 1 && t->order.chains == 1 && gemm_kernel_for(dtype)->across &&
           5 * t->count > 4 * padded;
}

// Quickly rules out matrices that are too large to be thin.
static bool may_be_thin(zl_dtype dtype, const struct gemm *g) {
    return (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64) && MIN_OF(g->m, g->n) <= PANELED_ROWS;
}

// Rows across the vectors are read in the order of k, which allows for only one chain.
static bool is_thin_size(const struct gemm *g, const struct thin *t) {
    return t->n > THIN_MOST && !g->add && (t->along == 1 || t->order.chains == 1);
}

bool cpu_has_thin_kernel(zl_dtype dtype, const struct gemm *g) {
    if (!may_be_thin(dtype, g))
        return false;
    struct thin t = open_thin(dtype, g);
    const bool more = cpu_blas()->multiply == cpu_own_gemm && t.k >= MORE_K;
    if (!is_thin_size(g, &t))
        return false;
    if (is_paneled(dtype, &t))
        return t.count <= (!more ? THIN_MOST : g->m <= g->n ? PANELED_ROWS : PANELED_COLUMNS);
    return is_across(dtype, &t) &&
           t.count <= across_most(lines_across(&t, (int64_t)zl_dtype_size(dtype)), more);
}

bool cpu_is_thin(zl_dtype dtype, const struct gemm *g) {
    if (!may_be_thin(dtype, g))
        return false;
    struct thin t = open_thin(dtype, g);
    return (is_thin_size(g, &t) && t.count <= THIN_MOST && (t.along == 1 || t.line == 1)) ||
           cpu_has_thin_kernel(dtype, g);
}

// Makes the elements of each vector contiguous: in place, or in a scratch buffer.
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

// Packs the vectors as panels of SIDE. x_row becomes such that SIDE rows are one panel.
static bool pack_vectors(struct thin *t, int64_t item) {
    const struct gemm_packing packing = {item, item, NULL, 1, 1};
    char *to = cpu_scratch(SCRATCH_PACK, (size_t)(round_up(t->count, SIDE) * t->k * item));
    if (!to)
        return false;
    gemm_pack(&packing, to, SIDE, t->x, t->x_col * item, t->x_row * item, t->k, t->count, 0);
    t->x = to, t->x_row = t->k;
    return true;
}

// Multiplies all vectors, SIDE at a time, with rows along them. Every SIDE vectors read the matrix again, in
// blocks that stay in L2. The vectors are packed as panels if there is one chain.
static void multiply_along(zl_dtype dtype, const struct thin *t, const char *a, int64_t n, char *y) {
    const int64_t item = (int64_t)zl_dtype_size(dtype);
    const int64_t fit = MAX_OF(cpu_cache_bytes(2) / 2 / (t->k * item), STREAMS);
    const int64_t block = t->count > SIDE ? MIN_OF(fit, n) : n;
    for (int64_t i = 0, some; i < n; i += some) {
        some = MIN_OF(block, n - i);
        for (int64_t r = 0; r < t->count; r += SIDE)
            (dtype == ZL_FLOAT64    ? few_in_order_f64
             : t->order.chains == 1 ? few_in_order_f32
                                    : few_along_f32)(t->count - r, t->x + r * t->x_row * item, t->x_row,
                                                     a + i * t->line * item, t->line, &t->order, some,
                                                     y + (r * n + i) * item, n);
    }
}

// Does the same for rows across the vectors: adds the rows of one span to the sums of n columns.
static void add_across(zl_dtype dtype, const struct thin *t, int64_t span, const char *a, int64_t n,
                       char *sums) {
    const int64_t item = (int64_t)zl_dtype_size(dtype),
                  end = span * t->order.span + gemm_span_elements(&t->order, span);
    const int64_t fit = MAX_OF(cpu_cache_bytes(2) / 2 / (n * item), STREAMS);
    for (int64_t p = span * t->order.span, some; p < end; p += some) {
        some = MIN_OF(t->count > SIDE ? fit : t->k, end - p);
        for (int64_t r = 0; r < t->count; r += SIDE)
            (dtype == ZL_FLOAT32 ? few_across_f32 : few_across_f64)(
                t->count - r, t->x + (r * t->x_row + p) * item, t->x_row, a + p * t->along * item, t->along,
                some, t->streams, n, sums + r * n * item, n);
    }
}

static row_fn *add_row(zl_dtype dtype) {
    return cpu_level()->rows->op[TILE_ADD][dtype][0];
}

static void multiply_spans(zl_dtype dtype, const struct thin *t, const char *a, int64_t n, char *totals,
                           char *sums) {
    const int64_t count = t->count * n;
    for (int64_t span = 0; span < t->order.spans; span++) {
        char *to = span ? sums : totals;
        memset(to, 0, (size_t)count * zl_dtype_size(dtype));
        add_across(dtype, t, span, a, n, to);
        if (span)
            cpu_call_row(add_row(dtype), totals, sums, totals, NULL, count);
    }
}

// Panels ----------------------------------------------------------------------------------------------------
//
// Elements of different vectors are adjacent, so that a kernel can keep the sums of all vectors with several
// lines in registers.

struct panels {
    const struct thin *t;
    const struct gemm_kernel *u;
    int64_t item, lanes;    // bytes of an element; elements per VECTOR bytes
    int64_t count, vectors; // number of panels; their total width in units of VECTOR bytes
    int64_t k_most;         // elements of k that are packed at once: whole spans
    char *packed;
};

// Returns where a panel begins, in units of VECTOR bytes: all panels are about equally wide.
static int64_t panel_start(const struct panels *p, int64_t panel) {
    return p->vectors * panel / p->count;
}

static int64_t whole_steps(const struct panels *p, int64_t k) {
    return round_up(k, p->u->step);
}

// Packs k elements of all vectors, from element `from` on.
static void pack_panels(const struct panels *p, int64_t from, int64_t k) {
    const struct thin *t = p->t;
    const struct gemm_packing packing = {p->item, p->item, NULL, 1, p->u->step};
    for (int64_t i = 0; i < p->count; i++) {
        const int64_t first = panel_start(p, i) * p->lanes, end = panel_start(p, i + 1) * p->lanes;
        gemm_pack(&packing, p->packed + first * whole_steps(p, k) * p->item, end - first,
                  t->x + (first * t->x_row + from * t->x_col) * p->item, t->x_col * p->item,
                  t->x_row * p->item, k, MIN_OF(end, t->count) - first, 0);
    }
}

// Adds the elements after the last whole step, padded with zeros.
static void meet_rest(const struct panels *p, gemm_lines_fn *run, int64_t k, const void *const *lines,
                      const char *packed, char *sums, int64_t row) {
    _Alignas(VECTOR) char rest[GEMM_LINES][4 * VECTOR] = {{0}};
    const void *at[GEMM_LINES];
    for (int i = 0; i < GEMM_LINES; i++)
        at[i] = memcpy(rest[i], lines[i], (size_t)(k * p->item));
    run(p->u->step, at, packed, sums, row, GEMM_CONTINUE);
}

// Multiplies k elements of the last span, which ends within a step, of some lines with a panel of `wide`
// VECTORs. The span is summed separately before it is added.
static void meet_last(const struct panels *p, int64_t k, int64_t wide, const void **lines, const char *packed,
                      char *sums, int64_t row, bool add) {
    _Alignas(VECTOR) char tile[GEMM_LINES * GEMM_VECTORS_MOST * VECTOR] = {0};
    const int64_t whole = k / p->u->step * p->u->step, tile_row = wide * p->lanes;
    gemm_lines_fn *run = p->u->lines[wide - GEMM_VECTORS_LEAST];
    if (whole > 0)
        run(whole, lines, packed, tile, tile_row, GEMM_SET);
    for (int i = 0; i < GEMM_LINES; i++)
        lines[i] = (const char *)lines[i] + whole * p->item;
    meet_rest(p, run, k - whole, lines, packed + whole * wide * VECTOR, tile, tile_row);
    for (int i = 0; i < GEMM_LINES; i++)
        for (int64_t v = 0; v < wide; v++) {
            floats_memory *to = (floats_memory *)(sums + i * row * p->item + v * VECTOR);
            const floats4 sum = *(const floats_memory *)(tile + (i * wide + v) * VECTOR);
            *to = add ? sum + *to : sum;
        }
}

// Multiplies k elements of some lines with a panel. These are whole spans, except for the last one; each span
// is added to those before.
static void meet_lines(const struct panels *p, int64_t panel, int64_t from, int64_t k, const void **lines,
                       char *sums, int64_t row) {
    const int64_t first = panel_start(p, panel), wide = panel_start(p, panel + 1) - first;
    const char *packed = p->packed + first * VECTOR * whole_steps(p, k);
    sums += first * VECTOR;
    for (int64_t at = 0, some; at < k; at += some) {
        const bool add = from + at > 0;
        some = MIN_OF(p->t->order.span, k - at);
        if (some % p->u->step) {
            meet_last(p, some, wide, lines, packed + at * wide * VECTOR, sums, row, add);
            return;
        }
        p->u->lines[wide - GEMM_VECTORS_LEAST](some, lines, packed + at * wide * VECTOR, sums, row,
                                               add ? GEMM_ADD : GEMM_SET);
        for (int i = 0; i < GEMM_LINES; i++)
            lines[i] = (const char *)lines[i] + some * p->item;
    }
}

// Multiplies n lines in GEMM_LINES streams, then the lines that are left; the last line takes the place of
// missing ones, whose sums are never read.
static void multiply_block(const struct panels *p, int64_t from, int64_t k, const char *a, int64_t n,
                           char *sums) {
    const int64_t each = n / GEMM_LINES, width = p->vectors * p->lanes;
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t j = 0; j < n; j += GEMM_LINES) {
            const bool whole = j / GEMM_LINES < each;
            const int64_t first = whole ? j / GEMM_LINES : j, apart = whole ? each : 1;
            const void *lines[GEMM_LINES];
            for (int l = 0; l < GEMM_LINES; l++)
                lines[l] = a + MIN_OF(first + l * apart, n - 1) * p->t->line * p->item;
            meet_lines(p, i, from, k, lines, sums + first * width * p->item, apart * width);
        }
}

// Returns how many lines to read at once. Streams are an odd number of lines apart, so that lines of 2^n
// bytes use more sets of a cache.
static int64_t lines_at_once(int64_t most) {
    return most < GEMM_LINES ? most : ((most / GEMM_LINES - 1) | 1) * GEMM_LINES;
}

// Computes n lines, in blocks that stay in L2 while several panels read them.
static void multiply_panels(const struct panels *p, const char *a, int64_t n, char *sums) {
    const struct thin *t = p->t;
    for (int64_t from = 0, k; from < t->k; from += k) {
        k = MIN_OF(p->k_most, t->k - from);
        pack_panels(p, from, k);
        const int64_t fit = MAX_OF(cpu_cache_bytes(2) / 2 / (k * p->item), GEMM_LINES);
        for (int64_t i = 0, some; i < n; i += some) {
            some = lines_at_once(MIN_OF(fit, n - i));
            multiply_block(p, from, k, a + (i * t->line + from) * p->item, some,
                           sums + i * p->vectors * VECTOR);
        }
    }
}

static bool multiply_paneled(zl_dtype dtype, const struct thin *t) {
    struct panels p = {.t = t, .u = gemm_kernel_for(dtype), .item = (int64_t)zl_dtype_size(dtype)};
    p.lanes = VECTOR / p.item;
    p.vectors = (t->count + p.lanes - 1) / p.lanes;
    p.count = (p.vectors + GEMM_VECTORS_MOST - 1) / GEMM_VECTORS_MOST;
    p.k_most = MAX_OF(PANELED_K / t->order.span, 1) * t->order.span;
    const int64_t width = p.vectors * VECTOR, piece = MIN_OF(PIECE / width, t->n), k = MIN_OF(p.k_most, t->k);
    char *sums = cpu_scratch(SCRATCH_LINES, (size_t)((piece + GEMM_LINES) * width));
    p.packed = cpu_scratch(SCRATCH_PACK, (size_t)(width * whole_steps(&p, k) + GEMM_SLACK));
    if (!sums || !p.packed)
        return false;
    for (int64_t j = 0, n; j < t->n; j += n) {
        n = MIN_OF(piece, t->n - j);
        multiply_panels(&p, t->a + j * t->line * p.item, n, sums);
        cpu_move((size_t)p.item, t->y + j * t->y_col * p.item,
                 (struct stride2){t->y_col * p.item, t->y_row * p.item}, sums,
                 (struct stride2){width, p.item}, n, t->count);
    }
    return true;
}

// Rows across vectors ---------------------------------------------------------------------------------------
//
// A few rows at a time are added to all results, which are stored as consecutive tiles of a few vectors and
// columns.

enum { TILE_BYTES = GEMM_ACROSS * GEMM_ACROSS_BYTES };

struct across {
    const struct thin *t;
    gemm_across_fn *run;
    int64_t item, columns; // of a tile
    int64_t groups;        // groups of GEMM_ACROSS vectors
    char *packed, *sums;   // a panel per group; the sums of all groups for a tile's columns are consecutive
};

// Adds columns [from, from + n) of some rows. A last partial tile is copied first.
static void add_lines(const struct across *c, int64_t line, int64_t lines, int64_t from, int64_t n) {
    const struct thin *t = c->t;
    const int64_t row = t->along * c->item, tiles = n / c->columns, rest = n % c->columns;
    const char *a = t->a + line * row + from * c->item;
    _Alignas(64) char last[ACROSS_LINES * GEMM_ACROSS_BYTES];
    if (rest > 0) {
        memset(last, 0, sizeof last);
        for (int64_t i = 0; i < lines; i++)
            memcpy(last + i * GEMM_ACROSS_BYTES, a + i * row + tiles * GEMM_ACROSS_BYTES,
                   (size_t)(rest * c->item));
    }
    for (int64_t g = 0; g < c->groups; g++) {
        const char *x = c->packed + (g * t->k + line) * GEMM_ACROSS * c->item;
        char *sums = c->sums + g * TILE_BYTES;
        c->run(lines, x, a, row, sums, c->groups * TILE_BYTES, tiles);
        c->run(lines, x, last, GEMM_ACROSS_BYTES, sums + tiles * c->groups * TILE_BYTES, 0, rest > 0);
    }
}

static void store_tiles(const struct across *c, int64_t from, int64_t n) {
    const struct thin *t = c->t;
    const struct stride2 tile = {GEMM_ACROSS_BYTES, c->item},
                         place = {t->y_row * c->item, t->y_col * c->item};
    for (int64_t i = 0, at = 0; i < n; i += c->columns)
        for (int64_t r = 0; r < t->count; r += GEMM_ACROSS, at += TILE_BYTES)
            cpu_move((size_t)c->item, t->y + (r * t->y_row + (from + i) * t->y_col) * c->item, place,
                     c->sums + at, tile, MIN_OF(GEMM_ACROSS, t->count - r), MIN_OF(c->columns, n - i));
}

static bool multiply_across(zl_dtype dtype, const struct thin *t) {
    struct across c = {.t = t, .run = gemm_kernel_for(dtype)->across, .item = (int64_t)zl_dtype_size(dtype)};
    c.columns = GEMM_ACROSS_BYTES / c.item;
    c.groups = round_up(t->count, GEMM_ACROSS) / GEMM_ACROSS;
    const int64_t lines = lines_across(t, c.item), most = PIECE / (c.groups * TILE_BYTES) * c.columns;
    const struct gemm_packing packing = {c.item, c.item, NULL, 1, 1};
    c.packed = cpu_scratch(SCRATCH_PACK, (size_t)(c.groups * GEMM_ACROSS * t->k * c.item));
    const int64_t bytes = round_up(MIN_OF(most, t->n), c.columns) / c.columns * c.groups * TILE_BYTES;
    char *totals = cpu_scratch(SCRATCH_LINES, (size_t)(2 * bytes));
    if (!c.packed || !totals)
        return false;
    gemm_pack(&packing, c.packed, GEMM_ACROSS, t->x, t->x_col * c.item, t->x_row * c.item, t->k, t->count, 0);
    for (int64_t j = 0, n; j < t->n; j += n) {
        n = MIN_OF(most, t->n - j);
        const int64_t used = round_up(n, c.columns) / c.columns * c.groups * TILE_BYTES;
        for (int64_t span = 0; span < t->order.spans; span++) {
            const int64_t end = span * t->order.span + gemm_span_elements(&t->order, span);
            c.sums = span ? totals + bytes : totals;
            memset(c.sums, 0, (size_t)used);
            for (int64_t i = span * t->order.span; i < end; i += lines)
                add_lines(&c, i, MIN_OF(lines, end - i), j, n);
            if (span)
                cpu_call_row(add_row(dtype), totals, c.sums, totals, NULL, used / c.item);
        }
        c.sums = totals;
        store_tiles(&c, j, n);
    }
    return true;
}

bool cpu_thin_gemm(zl_dtype dtype, const struct gemm *g) {
    struct thin t = open_thin(dtype, g);
    if (is_paneled(dtype, &t))
        return multiply_paneled(dtype, &t);
    if (is_across(dtype, &t))
        return multiply_across(dtype, &t);
    const int64_t item = (int64_t)zl_dtype_size(dtype), piece = MIN_OF(PIECE / (t.count * item), t.n);
    const bool along = t.along == 1;
    char *totals = cpu_scratch(SCRATCH_LINES, (size_t)(2 * t.count * piece * item));
    if (!totals || !(along && t.order.chains == 1 ? pack_vectors(&t, item) : gather_vectors(&t, item)))
        return false;
    for (int64_t j = 0, n; j < t.n; j += n) {
        n = MIN_OF(piece, t.n - j);
        const char *a = t.a + j * t.line * item;
        if (along)
            multiply_along(dtype, &t, a, n, totals);
        else
            multiply_spans(dtype, &t, a, n, totals, totals + t.count * piece * item);
        cpu_move((size_t)item, t.y + j * t.y_col * item, (struct stride2){t.y_row * item, t.y_col * item},
                 totals, (struct stride2){n * item, item}, t.count, n);
    }
    return true;
}
