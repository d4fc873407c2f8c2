// gemm_own.c - our own matrix product: the driver around the micro-kernels.
//
// Columns of b are packed once for all threads, or by each part if there are few parts. A single thread packs
// each panel when it first needs it; some kernels even pack while they multiply. Then free threads take parts
// of the result, which are blocks of rows: a block of a is packed so that it fits L2, and one panel of it at
// a time is in L1 together with one of b. Along k, the chains of gemm_order.c are computed one after the
// other; sums of a narrower result are kept in f32 until they are rounded once.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"

enum {
    FLOPS_LEAST = 1 << 20, // of a product that is worth a second thread, if a kernel's unit is one element
    STRIP = 240,           // columns after which a block of the result is finished, while it is still in L2
    ROWS_LEAST = 96,       // of a part, unless the result has fewer rows,
    ROWS_LEAST_FEW = 64,   // the same with few threads, if the result is less than twice as wide as high
    COLUMNS_LEAST = 192,   // columns of b that are packed at once even if they are long
    PANELS = 8,            // panels of b that are packed side by side
    MORE_COLUMNS = 4,      // with many threads, parts that are wider than this many times their height are
                           // made higher, to read less of b
    THREADS_MANY = 8,
    APART = 1024, // bytes: if the distance of rows of sums is a multiple, they share few sets of a cache, so
    SPREAD = 64,  // this many bytes are added to the distance
    GROUPS_EACH = 2, // groups of panels of a per thread, if both factors are packed first;
    PARTS_EACH = 4,  // parts of the result per thread then
};

struct own {
    struct gemm_work w;
    const struct gemm *g;
    const struct gemm_kernel *u;
    struct gemm_packing packing, packing_a;
    row_fn *scale, *narrow; // multiply sums by a number; convert sums to elements of c, NULL: the dtypes are
                            // the same
    int64_t item, sum_item; // bytes of a packed element, and of a sum
    struct gemm_order order;
    int64_t k_padded;             // elements of a packed line
    int64_t row_parts, col_parts; // parts that the result is divided into
    int64_t first, columns;       // the columns of b that are packed now
    int threads;
    char *b;             // packed columns of b; NULL: each part packs its own
    bool late;           // the part with the first rows packs a panel of b when it first needs it
    bool one_panel;      // no other part needs that panel, so that the next one overwrites it
    char *a;             // all of a, packed; NULL: each part packs its own rows
    atomic_bool *failed; // memory ran out
};

// Packing ---------------------------------------------------------------------------------------------------

static size_t packed_bytes(const struct own *o, int64_t columns) {
    if (o->one_panel)
        return (size_t)(o->u->cols * MIN_OF(o->order.span, o->k_padded) * o->item + GEMM_SLACK);
    return (size_t)(round_up(columns, o->u->cols) * o->k_padded * o->item + GEMM_SLACK);
}

// Returns the packed address of a column in a chain. Panels of b are contiguous, and chains follow each
// other.
static char *packed_b(const struct own *o, const struct gemm_chain *chain, int64_t col) {
    if (o->one_panel)
        return o->b;
    return o->b + (chain->at * round_up(o->columns, o->u->cols) + col * chain->length) * o->item;
}

// Flips bits in each byte; count is a multiple of 16.
static void flip_bytes(char *bytes, int64_t count, uint8_t bits) {
    const bytes16 flipped = (bytes16){0} + bits;
    for (int64_t i = 0; i < count; i += (int64_t)sizeof flipped) {
        bytes16 x;
        memcpy(&x, bytes + i, sizeof x);
        x ^= flipped;
        memcpy(bytes + i, &x, sizeof x);
    }
}

// Computes the range of piece `at` of `pieces`: all are about equally long and begin at multiples of `unit`.
static void set_range(int64_t at, int64_t pieces, int64_t length, int64_t unit, int64_t *from,
                      int64_t *count) {
    int64_t units = divide_up(length, unit);
    *from = units * at / pieces * unit;
    *count = MIN_OF(units * (at + 1) / pieces * unit, length) - *from;
}

// Returns how many groups the panels of b form: if possible, every thread gets equally many over all spans.
static int64_t groups_of(const struct own *o) {
    const int64_t panels = divide_up(o->columns, o->u->cols);
    int64_t groups = divide_up(panels, PANELS);
    while (groups < panels && groups * o->order.spans % o->threads)
        groups++;
    return groups;
}

// Packs columns [col, col + cols) of one span.
static void pack_columns(const struct own *o, int64_t span, int64_t col, int64_t cols) {
    const struct gemm *g = o->g;
    const int64_t item = o->packing.from_item, at = o->first + col,
                  part = o->u->b_cols ? o->u->b_cols : o->u->cols;
    const int64_t whole = round_up(cols, o->u->cols), packed = round_up(cols, part);
    char *panels[GEMM_CHAINS];
    int64_t line[GEMM_CHAINS];
    for (int c = 0; c < o->order.chains; c++) {
        struct gemm_chain chain = gemm_chain_at(&o->order, span * o->order.chains + c);
        panels[c] = packed_b(o, &chain, col);
        line[c] = chain.length * o->item;
    }
    gemm_pack_span(&o->packing, &o->order, span, panels, part, g->b + at * g->b_col * item, g->b_row * item,
                   g->b_col * item, cols, g->n - at - cols);
    for (int c = 0; c < o->order.chains; c++) {
        memset(panels[c] + packed * line[c], 0, (size_t)((whole - packed) * line[c]));
        if (o->u->flip)
            flip_bytes(panels[c], whole * line[c], o->u->flip);
    }
}

// Packs groups [from, to) of panels of b, which are numbered over all spans.
static void pack_b_range(const void *context, int64_t from, int64_t to) {
    const struct own *o = context;
    const int64_t groups = groups_of(o);
    for (; from < to; from++) {
        int64_t col, cols;
        set_range(from % groups, groups, o->columns, o->u->cols, &col, &cols);
        pack_columns(o, from / groups, col, cols);
    }
}

// Packs `rows` rows of a, from `row` on, as rows `at` and on of `height` that are packed side by side. Chains
// of a span are contiguous.
static void pack_a(const struct own *o, char *to, int64_t row, int64_t rows, int64_t at, int64_t height,
                   int64_t span) {
    const struct gemm *g = o->g;
    const int64_t item = o->packing.from_item;
    char *panels[GEMM_CHAINS];
    for (int c = 0; c < o->order.chains; c++) {
        struct gemm_chain chain = gemm_chain_at(&o->order, span * o->order.chains + c);
        panels[c] = to + ((chain.at - span * o->order.span) * height + at * chain.length) * o->item;
    }
    gemm_pack_span(&o->packing_a, &o->order, span, panels, o->u->rows, g->a + row * g->a_row * item,
                   g->a_col * item, g->a_row * item, rows, g->m - row - rows);
}

// Multiplying -----------------------------------------------------------------------------------------------

// A part of the result while its sums are computed.
struct part {
    int64_t row, col, rows, cols; // its position; col is counted from the first packed column
    char *a;                      // its packed rows
    char *sum;                    // where the sums are kept: in c, or in a buffer
    int64_t sum_row, sum_col;     // bytes
    int64_t sum_width;            // columns that the buffer has
};

// Computes a tile at the edge, or one of a result that is not contiguous, in a tile of full size that is
// copied. packing: b is packed at the same time; NULL: it is packed already.
static void edge_tile(const struct own *o, int64_t k, const char *a, const char *b, char *c,
                      struct stride2 place, int64_t rows, int64_t cols, bool add,
                      const struct gemm_ahead *packing) {
    _Alignas(64) char tile[GEMM_ROWS_MOST * GEMM_COLS_MOST * 8];
    int64_t item = o->sum_item, width = o->u->cols;
    struct stride2 dense = {width * item, item};
    if (add) {
        memset(tile, 0, (size_t)(o->u->rows * width * item));
        cpu_move((size_t)item, tile, dense, c, place, rows, cols);
    }
    if (packing)
        o->u->run_packing(k, a, b, tile, width, add, packing);
    else
        o->u->run(k, a, b, tile, width, add);
    cpu_move((size_t)item, c, place, tile, dense, rows, cols);
}

// Prefetches for a tile: the part of c that the tile is added to, and a slice of the next panel of b. It must
// be inlined: gcc drops calls of a function that only prefetches.
static inline __attribute__((always_inline)) void fetch(const struct own *o, const struct part *t,
                                                        const char *c, const char *b, int64_t bytes) {
    for (int64_t i = 0; c && i < o->u->rows; i++, c += t->sum_row) {
        __builtin_prefetch(c, 1, 2);
        __builtin_prefetch(c + o->u->cols * o->sum_item - 1, 1, 2);
    }
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(b + at, 0, 2);
}

static void call(void (*function)(void)) {
    if (function)
        function();
}

// Returns whether the kernel packs a panel of b while it multiplies it with the first rows.
static bool packs_meanwhile(const struct own *o, const struct part *t, int64_t from) {
    return o->late && t->row == 0 && o->u->run_packing && !o->packing.widen && o->g->b_col == 1 &&
           o->order.chains == 1 && t->sum_col == o->sum_item && from + o->u->cols <= t->cols;
}

// Returns the address of columns of b that are not packed yet.
static const char *unpacked_b(const struct own *o, const struct gemm_chain *chain, int64_t col) {
    return o->g->b + (chain->first * o->g->b_row + (o->first + col) * o->g->b_col) * o->packing.from_item;
}

// Returns where to prefetch the next panel of b from, a piece per tile.
static struct gemm_ahead ahead_of(const struct own *o, const struct part *t, const struct gemm_chain *chain,
                                  int64_t j) {
    const int64_t col = t->col + j + o->u->cols;
    if (packs_meanwhile(o, t, j + o->u->cols))
        return (struct gemm_ahead){unpacked_b(o, chain, col), o->g->b_row * o->item, 0, NULL};
    return (struct gemm_ahead){packed_b(o, chain, col), o->u->cols * o->u->unit * o->item, 0, NULL};
}

// Multiplies one panel of b with all rows of a part, by a kernel that prefetches the next panel meanwhile.
static void multiply_panel(const struct own *o, const struct part *t, const struct gemm_chain *chain,
                           int64_t j) {
    const struct gemm_kernel *u = o->u;
    const int64_t k = chain->length, tiles = divide_up(t->rows, u->rows), width = t->sum_row / o->sum_item;
    const int64_t pieces = divide_up(k / u->unit, tiles);
    const bool add = chain->first > 0 || o->g->add, meanwhile = packs_meanwhile(o, t, j);
    char *b = packed_b(o, chain, t->col + j), *column = t->sum + j % t->sum_width * t->sum_col;
    struct gemm_ahead ahead = ahead_of(o, t, chain, j);
    if (o->late && t->row == 0 && !meanwhile)
        pack_columns(o, chain->first / o->order.span, t->col + j, MIN_OF(u->cols, t->cols - j));
    struct gemm_ahead packing = {ahead.from, ahead.apart, o->g->b_row * o->item, b};
    for (int64_t i = 0; i < t->rows; i += u->rows, ahead.from += pieces * ahead.apart) {
        const bool packs = meanwhile && i == 0;
        const char *a = t->a + i * k * o->item, *from = packs ? unpacked_b(o, chain, t->col + j) : b;
        char *c = column + i * t->sum_row;
        if (o->narrow || (i + u->rows <= t->rows && j + u->cols <= t->cols))
            (packs ? u->run_packing : u->run_ahead)(k, a, from, c, width, add, packs ? &packing : &ahead);
        else
            edge_tile(o, k, a, from, c, (struct stride2){t->sum_row, t->sum_col},
                      MIN_OF(u->rows, t->rows - i), MIN_OF(u->cols, t->cols - j), add,
                      packs ? &packing : NULL);
    }
}

// Multiplies columns [from, to) of a part, for one chain of k.
static void multiply_strip(const struct own *o, const struct part *t, const struct gemm_chain *chain,
                           int64_t from, int64_t to) {
    const struct gemm_kernel *u = o->u;
    int64_t k = chain->length;
    struct stride2 place = {t->sum_row, t->sum_col};
    int64_t panel = k * u->cols * o->item, slice = panel / t->rows;
    bool dense = t->sum_col == o->sum_item, add = chain->first > 0 || o->g->add;
    for (int64_t j = from; u->run_ahead && dense && j < to; j += u->cols)
        multiply_panel(o, t, chain, j);
    if (u->run_ahead && dense)
        return;
    call(u->open);
    for (int64_t j = from; j < to; j += u->cols) {
        if (o->late && t->row == 0)
            pack_columns(o, chain->first / o->order.span, t->col + j, MIN_OF(u->cols, t->cols - j));
        const char *b = packed_b(o, chain, t->col + j);
        char *column = t->sum + j % t->sum_width * t->sum_col;
        for (int64_t i = 0; i < t->rows; i += u->rows) {
            const char *a = t->a + i * k * o->item;
            char *c = column + i * t->sum_row;
            if (!u->fetches)
                fetch(o, t, add ? c : NULL, b + panel + i * slice, u->rows * slice);
            bool whole = o->narrow || (i + u->rows <= t->rows && j + u->cols <= t->cols);
            if (whole && dense)
                u->run(k, a, b, c, t->sum_row / o->sum_item, add);
            else
                edge_tile(o, k, a, b, c, place, MIN_OF(u->rows, t->rows - i), MIN_OF(u->cols, t->cols - j),
                          add, NULL);
        }
    }
    call(u->close);
}

static void finish_strip(const struct own *o, const struct part *t, int64_t from, int64_t to) {
    const struct gemm *g = o->g;
    const int64_t item = (int64_t)zl_dtype_size(o->w.out), col = o->first + t->col + from;
    for (int64_t i = 0; (o->narrow || o->w.scale) && i < t->rows; i++) {
        char *sum = t->sum + i * t->sum_row + from % t->sum_width * t->sum_col;
        if (o->w.scale)
            cpu_call_row(o->scale, sum, sum, o->w.scale, NULL, to - from);
        if (g->added.alpha != 0)
            cpu_gemm_add(o->w.dtype, &g->added, (float *)(void *)sum,
                         (t->row + i) * g->added.row + col * g->added.col, g->added.col, to - from);
        if (o->narrow)
            cpu_call_row(o->narrow, g->c + ((t->row + i) * g->c_row + col) * item, sum, NULL, NULL,
                         to - from);
    }
    if (o->w.done)
        o->w.done(o->w.data, t->row, col, t->rows, to - from);
}

static bool open_part(const struct own *o, struct part *t) {
    const struct gemm *g = o->g;
    int64_t height = round_up(t->rows, o->u->rows);
    size_t bytes = (size_t)(height * MIN_OF(o->order.span, o->k_padded) * o->item + GEMM_SLACK);
    t->a = o->a ? o->a : cpu_scratch(SCRATCH_PACK, bytes);
    if (!o->narrow) {
        t->sum = g->c + (t->row * g->c_row + (o->first + t->col) * g->c_col) * o->sum_item;
        t->sum_row = g->c_row * o->sum_item;
        t->sum_col = g->c_col * o->sum_item;
        t->sum_width = o->columns + o->u->cols;
        return t->a;
    }
    bool at_once = o->order.spans * o->order.chains == 1;
    t->sum_width = round_up(at_once ? STRIP : t->cols, o->u->cols);
    t->sum_row = t->sum_width * o->sum_item;
    t->sum_row += t->sum_row % APART == 0 ? SPREAD : 0;
    t->sum_col = o->sum_item;
    t->sum = cpu_scratch(SCRATCH_RESULT, (size_t)(height * t->sum_row));
    return t->a && t->sum;
}

// Computes a part. Returns false if memory runs out.
static bool multiply_rows(const struct own *o, struct part t) {
    if (!open_part(o, &t))
        return false;
    const int64_t strip = round_up(STRIP, o->u->cols), chains = o->order.chains,
                  height = round_up(o->a ? o->g->m : t.rows, o->u->rows);
    const int64_t last = o->order.spans * chains - 1;
    char *room = t.a;
    for (int64_t i = 0; i <= last; i++) {
        struct gemm_chain chain = gemm_chain_at(&o->order, i);
        if (!o->a && i % chains == 0)
            pack_a(o, room, t.row, t.rows, 0, height, i / chains);
        t.a = o->a ? o->a + (chain.at * height + t.row * chain.length) * o->item
                   : room + (chain.at - i / chains * o->order.span) * height * o->item;
        for (int64_t j = 0; j < t.cols; j += strip) {
            multiply_strip(o, &t, &chain, j, MIN_OF(j + strip, t.cols));
            if (i == last)
                finish_strip(o, &t, j, MIN_OF(j + strip, t.cols));
        }
    }
    return true;
}

// Returns whether panels of b are packed one by one, when the first rows need them, so that they are still in
// the caches. Short row segments of b are better read for several panels at once.
static bool packs_late(const struct own *o) {
    return o->threads == 1 && o->u->run_ahead && o->order.chains == 1 &&
           (o->u->run_packing || o->g->b_row == 1);
}

// Computes a part as a product of its own, with its own packed columns of b.
static bool multiply_alone(const struct own *o, struct part t) {
    struct own mine = *o;
    mine.threads = 1;
    mine.first += t.col;
    mine.columns = t.cols;
    mine.late = mine.one_panel = packs_late(&mine) && t.rows == mine.g->m;
    mine.b = cpu_scratch(SCRATCH_SHARED, packed_bytes(&mine, t.cols));
    t.col = 0;
    if (!mine.b)
        return false;
    if (!mine.late)
        pack_b_range(&mine, 0, groups_of(&mine) * mine.order.spans);
    return multiply_rows(&mine, t);
}

static void multiply_part(void *data, int at) {
    struct own *o = data;
    struct part t;
    set_range(at % o->row_parts, o->row_parts, o->g->m, o->u->rows, &t.row, &t.rows);
    set_range(at / o->row_parts, o->col_parts, o->columns, o->u->cols, &t.col, &t.cols);
    if (!(o->b ? multiply_rows : multiply_alone)(o, t))
        atomic_store(o->failed, true);
}

// Blocks ----------------------------------------------------------------------------------------------------

// Returns how many columns of b are packed at once: as many as fit half of L3.
static int64_t columns_at_once(const struct own *o) {
    int64_t fit = cpu_cache_bytes(3) / 2 / (o->k_padded * o->item);
    int64_t blocks = divide_up(o->g->n, MAX_OF(fit, COLUMNS_LEAST));
    return round_up(divide_up(o->g->n, blocks), o->u->cols);
}

// Returns how many packed rows of a fit three eighths of L2.
static int64_t rows_in_cache(const struct own *o) {
    return cpu_cache_bytes(2) * 3 / 8 / (o->order.span / o->order.chains * o->item);
}

// Divides the result into parts whose rows fit three eighths of L2, the same number for every thread. If
// there are few rows, the columns are divided instead.
static void cut_result(struct own *o) {
    int64_t m = o->g->m, fit = rows_in_cache(o);
    bool few = o->threads < THREADS_MANY && o->columns < 2 * m;
    int64_t least = divide_up(m, MAX_OF(fit, o->u->rows)),
            most = MAX_OF(m / (few ? ROWS_LEAST_FEW : ROWS_LEAST), least);
    o->row_parts = MIN_OF(round_up(least, o->threads), most);
    while (o->row_parts > least && o->row_parts < o->threads && o->threads % o->row_parts)
        o->row_parts--; // else some threads would get one part more than others
    while (o->threads >= THREADS_MANY && o->row_parts % 2 == 0 && o->row_parts <= o->threads &&
           o->row_parts / 2 >= least &&
           m / o->row_parts * MORE_COLUMNS < o->columns / divide_up(o->threads, o->row_parts))
        o->row_parts /= 2; // nearly square parts read less of b
    o->col_parts = MIN_OF(divide_up(o->threads, o->row_parts), divide_up(o->columns, o->u->cols));
}

// Returns whether each part packs the columns of b that it needs by itself. With few threads it does so if no
// other part needs them, or if they fit L1 approximately: packing them twice is then faster than waiting for
// each other and moving cache lines between cores.
static bool packs_alone(const struct own *o) {
    if (o->threads == 1 || o->threads >= THREADS_MANY || o->row_parts * o->col_parts > o->threads ||
        pool_inside())
        return false;
    return o->row_parts == 1 ||
           packed_bytes(o, divide_up(o->columns, o->col_parts)) <= (size_t)cpu_cache_bytes(1) * 5 / 4;
}

// Packs b for all parts. Returns false if memory runs out.
static bool pack_b(struct own *o) {
    const int64_t groups = groups_of(o) * o->order.spans;
    o->late = packs_late(o);
    o->one_panel = o->late && o->row_parts == 1;
    o->b = cpu_scratch(SCRATCH_SHARED, packed_bytes(o, o->columns));
    if (o->b && o->threads > 1)
        cpu_split(groups, 1, pack_b_range, o);
    else if (o->b && !o->late)
        pack_b_range(o, 0, groups);
    return o->b;
}

// Both factors at once --------------------------------------------------------------------------------------
// With many threads, all parts with the same rows would pack these rows, and if each thread has one part, all
// wait for the slowest thread. So both factors are packed first, and parts are small. Kernels that do many
// products at once read packed rows faster than other threads can pack them: with these, each part packs its
// rows. Measured with 16 threads of a Xeon; other machines are not affected.

static int64_t height_of(const struct own *o) {
    return round_up(o->g->m, o->u->rows);
}

static bool packs_both(const struct own *o) {
    const int64_t bytes = (height_of(o) + round_up(o->columns, o->u->cols)) * o->k_padded * o->item;
    return o->threads >= THREADS_MANY && o->u->run_ahead && o->u->unit == 1 && !o->w.whole_rows &&
           !pool_inside() && o->row_parts * o->col_parts > 1 && bytes <= cpu_cache_bytes(3) / 2;
}

// Returns how many groups the panels of a form in each span.
static int64_t groups_of_a(const struct own *o) {
    return MIN_OF(o->threads * GROUPS_EACH, height_of(o) / o->u->rows);
}

// Packs groups [from, to), of which the groups of b come first and those of a after them.
static void pack_both_range(const void *context, int64_t from, int64_t to) {
    const struct own *o = context;
    const int64_t of_b = groups_of(o) * o->order.spans, groups = groups_of_a(o), height = height_of(o);
    pack_b_range(o, from, MIN_OF(to, of_b));
    for (from = MAX_OF(from, of_b); from < to; from++) {
        const int64_t span = (from - of_b) / groups;
        int64_t row, rows;
        set_range((from - of_b) % groups, groups, o->g->m, o->u->rows, &row, &rows);
        pack_a(o, o->a + span * o->order.span * height * o->item, row, rows, row, height, span);
    }
}

// Divides the result into parts that are about square, PARTS_EACH for each thread.
static void cut_both(struct own *o) {
    const int64_t wanted = o->threads * PARTS_EACH, units = height_of(o) / o->u->rows;
    const int64_t least = divide_up(o->g->m, MAX_OF(rows_in_cache(o), o->u->rows));
    o->row_parts = 1;
    while (o->row_parts < units && o->row_parts * o->row_parts * o->columns < wanted * o->g->m)
        o->row_parts++;
    o->row_parts = MAX_OF(o->row_parts, least);
    o->col_parts =
        MAX_OF(MIN_OF(divide_up(wanted, o->row_parts), divide_up(o->columns, o->u->cols)), 1);
}

// Packs both factors. Returns false if memory runs out.
static bool pack_both(struct own *o) {
    const int64_t b = round_up((int64_t)packed_bytes(o, o->columns), 64),
                  a = height_of(o) * o->k_padded * o->item + GEMM_SLACK;
    o->b = cpu_scratch(SCRATCH_SHARED, (size_t)(a + b));
    if (!o->b)
        return false;
    o->a = o->b + b;
    cpu_split((groups_of(o) + groups_of_a(o)) * o->order.spans, 1, pack_both_range, o);
    cut_both(o);
    return true;
}

static bool multiply_columns(struct own *o) {
    cut_result(o);
    o->a = o->b = NULL;
    if (!packs_alone(o) && !(packs_both(o) ? pack_both : pack_b)(o))
        return false;
    int parts = (int)(o->row_parts * o->col_parts);
    if (o->threads > 1)
        pool_run(parts, multiply_part, o);
    for (int i = 0; o->threads == 1 && i < parts; i++)
        multiply_part(o, i);
    return !atomic_load(o->failed);
}

// Computes a product with k = 0: clears the result, unless it is added to.
static bool clear(const struct gemm_work *w) {
    const struct gemm *g = w->g;
    size_t item = zl_dtype_size(w->out);
    const char zero[8] = {0};
    for (int64_t i = 0; !g->add && i < g->m; i++)
        cpu_move(item, g->c + i * g->c_row * (int64_t)item, (struct stride2){0, g->c_col * (int64_t)item},
                 zero, (struct stride2){0, 0}, 1, g->n);
    if (w->done && g->m > 0 && g->n > 0)
        w->done(w->data, 0, 0, g->m, g->n);
    return true;
}

// Sets up a product, except for memory. Returns how many columns of b are packed at once.
static int64_t open_product(struct own *o, const struct gemm_work *w) {
    const struct gemm *g = w->g;
    *o = (struct own){.w = *w, .g = g, .u = w->kernel};
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    o->item = (int64_t)zl_dtype_size(o->u->dtype);
    o->sum_item = (int64_t)zl_dtype_size(o->u->sum);
    o->packing = (struct gemm_packing){.item = o->item,
                                       .from_item = (int64_t)zl_dtype_size(w->dtype),
                                       .unit = o->u->unit,
                                       .step = o->u->step};
    if (w->dtype != o->u->dtype)
        o->packing.widen = w->widen ? w->widen : cpu_level()->rows->cast[o->u->dtype][w->dtype];
    o->packing_a = o->packing;
    if (o->u->a_unit)
        o->packing_a.unit = o->u->a_unit;
    if (w->scale)
        o->scale = cpu_level()->rows->op[TILE_MUL][ZL_FLOAT32][2]; // by a scalar
    if (w->out != o->u->sum)
        o->narrow = cpu_level()->rows->cast[w->out][o->u->sum];
    o->threads = flops / o->u->unit < FLOPS_LEAST ? 1 : pool_threads();
    o->order = gemm_order_of(o->u, g->k, gemm_is_along(g));
    o->k_padded = gemm_padded(&o->order);
    return columns_at_once(o);
}

bool gemm_has_whole_rows(const struct gemm_work *w) {
    struct own o;
    int64_t columns = open_product(&o, w);
    o.columns = MIN_OF(columns, w->g->n);
    cut_result(&o);
    return columns >= w->g->n && o.col_parts == 1;
}

bool gemm_multiply(const struct gemm_work *w) {
    const struct gemm *g = w->g;
    struct own o;
    if (g->m == 0 || g->n == 0 || g->k == 0)
        return clear(w);
    int64_t columns = open_product(&o, w);
    atomic_bool failed;
    atomic_init(&failed, false);
    o.failed = &failed;
    bool ok = true;
    for (; ok && o.first < g->n; o.first += columns) {
        o.columns = MIN_OF(columns, g->n - o.first);
        ok = multiply_columns(&o);
    }
    return ok;
}

// Factors packed in advance ---------------------------------------------------------------------------------

// Sets up packing of a whole factor, on this thread.
static void open_packed(struct own *o, const struct gemm_work *w) {
    open_product(o, w);
    o->threads = 1;
    o->columns = w->g->n;
}

size_t gemm_packed_bytes(const struct gemm_work *w, int factor) {
    struct own o;
    open_packed(&o, w);
    int64_t lines = factor ? round_up(w->g->n, o.u->cols) : round_up(w->g->m, o.u->rows);
    return (size_t)(lines * o.k_padded * o.item + GEMM_SLACK);
}

void gemm_pack_factor(const struct gemm_work *w, int factor, char *to) {
    struct own o;
    open_packed(&o, w);
    if (factor) {
        o.b = to;
        pack_b_range(&o, 0, groups_of(&o) * o.order.spans);
        return;
    }
    const int64_t height = round_up(w->g->m, o.u->rows);
    for (int64_t i = 0; i < o.order.spans; i++)
        pack_a(&o, to + i * o.order.span * height * o.item, 0, w->g->m, 0, height, i);
}

bool gemm_multiply_packed(const struct gemm_work *w, const char *a, const char *b) {
    struct own o;
    if (w->g->m == 0 || w->g->n == 0 || w->g->k == 0)
        return clear(w);
    open_packed(&o, w);
    atomic_bool failed;
    atomic_init(&failed, false);
    o.failed = &failed;
    o.a = (char *)(uintptr_t)a;
    o.b = (char *)(uintptr_t)b;
    cut_result(&o);
    for (int i = 0; i < o.row_parts * o.col_parts; i++)
        multiply_part(&o, i);
    return !atomic_load(&failed);
}

bool cpu_is_packed_late(zl_dtype dtype, const struct gemm *g) {
    const int64_t bytes = g->n * g->k * (int64_t)zl_dtype_size(dtype);
    return (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64) && gemm_kernel_for(dtype)->run_packing && g->m > 1 &&
           g->n >= gemm_kernel_for_columns(dtype, g->n)->cols && g->b_col == 1 &&
           bytes <= cpu_cache_bytes(2) && cpu_blas()->multiply == cpu_own_gemm;
}

bool cpu_own_gemm(zl_dtype dtype, const struct gemm *g) {
    if (dtype == ZL_COMPLEX64)
        return gemm_complex(g);
    const struct gemm_kernel *u = gemm_kernel_for_columns(dtype, g->n);
    return gemm_multiply(&(struct gemm_work){.g = g, .dtype = dtype, .out = u->sum, .kernel = u});
}
