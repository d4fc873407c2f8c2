// cpu_scan.c - scans along an axis, such as running sums.
//
// If another axis is contiguous, whole rows of it are combined with the row before by a row kernel. Otherwise
// several rows along the axis are scanned side by side, as chains. A long row is divided into strips, which
// are chains too: each is scanned from its own first element, then combined with the result of the strips
// before it. So the order of float additions depends on the length of the axis and on which axis is
// contiguous, not on the number of threads. 16-bit floats are accumulated in f32 and rounded when they are
// stored.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/scan.h"

#include <math.h>

enum { TO, FROM };

enum {
    COLUMNS = 2048, // elements of a row that are scanned together
    COLUMNS_LEAST = 8,
    STRIP = SCAN_STRIP,
    BLOCK = 4 * STRIP,
    BESIDE = 4,      // rows of more than a strip that are scanned side by side,
    MANY = 64,       // if there are at least so many rows
    LOGS_LEAST = 64, // elements of a row from which on logarithms of sums are not scanned as chains
};

struct scanning {
    struct layout others; // the axes that are not scanned; operands: to, from
    int64_t n;            // elements along the scanned axis
    int64_t step[2];      // bytes along it; negative for reverse scans
    bool inclusive;
    int64_t item, wide; // bytes of an element, and of an accumulator
    union scalar start; // the identity of the operation
    scan_chains_fn *chains;
    scan_total_fn *total;   // may be NULL
    row_fn *const *rows;    // combine elements; by form
    row_fn *row, *after;    // combine rows with rows, and rows with a single element
    row_fn *widen, *narrow; // NULL: elements are their own accumulators
    zl_dtype logs;          // the dtype in which logarithms of sums are scanned strip by strip; ZL_BOOL: they
                            // are not
};

// Reading and writing ---------------------------------------------------------------------------------------

// Returns n elements as a contiguous row, widened if needed: in place, or copied to room.
static const char *read_line(const struct scanning *s, const char *from, int64_t n, char *room) {
    char elements[STRIP * 2];
    if (s->step[FROM] == s->item && !s->widen)
        return from;
    for (int64_t i = 0, part; i < n; i += part) {
        part = MIN_OF(n - i, STRIP);
        const char *at = from + i * s->step[FROM];
        char *to = s->widen ? elements : room + i * s->item;
        if (s->step[FROM] != s->item || !s->widen)
            cpu_move((size_t)s->item, to, (struct stride2){0, s->item}, at,
                     (struct stride2){0, s->step[FROM]}, 1, part);
        if (s->widen)
            cpu_call_row(s->widen, room + i * s->wide, s->step[FROM] == s->item ? at : elements, NULL, NULL,
                         part);
    }
    return room;
}

// Combines at most STRIP scanned elements with the result before them (NULL: there is none), and stores them.
// `kept` is overwritten.
static void write_line(const struct scanning *s, char *to, char *kept, int64_t n, const char *before) {
    bool direct = s->step[TO] == s->item;
    char elements[STRIP * 2], *from = kept;
    if (before) {
        from = direct && !s->narrow ? to : kept;
        cpu_call_row(s->after, from, kept, before, NULL, n);
    }
    if (s->narrow) {
        cpu_call_row(s->narrow, direct ? to : elements, from, NULL, NULL, n);
        from = direct ? to : elements;
    }
    if (from != to)
        cpu_move((size_t)s->item, to, (struct stride2){0, s->step[TO]}, from, (struct stride2){0, s->item}, 1,
                 n);
}

// Strips ----------------------------------------------------------------------------------------------------

static int64_t strips_of(int64_t n) {
    return (n + STRIP - 1) / STRIP;
}

// Scans each strip of a block of n elements separately, and stores the results in `kept`.
static void scan_block(const struct scanning *s, const char *from, int64_t n, char *kept) {
    const char *elements = read_line(s, from, n, kept);
    int64_t whole = n / STRIP, done = whole * STRIP * s->wide;
    if (whole)
        s->chains(&(struct chains){kept, elements, STRIP, STRIP, STRIP, (int)whole}, s->rows);
    if (n % STRIP)
        s->chains(&(struct chains){kept + done, elements + done, 0, 0, n % STRIP, 1}, s->rows);
}

static const char *last_of(const struct scanning *s, const char *kept, int64_t n) {
    return kept + (n - 1) * s->wide;
}

// Scans elements [at, end) of a row of n; at is a multiple of BLOCK. *before is the result for the elements
// before, if at is not 0, and is updated.
static void scan_strips(const struct scanning *s, char *to, const char *from, int64_t at, int64_t end,
                        union scalar *before) {
    _Alignas(64) char kept[BLOCK * sizeof(union scalar)];
    for (int64_t n; at < end; at += n) {
        n = MIN_OF(end - at, BLOCK);
        scan_block(s, from + at * s->step[FROM], n, kept);
        for (int64_t i = 0; i < n; i += STRIP) {
            int64_t length = MIN_OF(n - i, STRIP);
            union scalar next = {.i = 0};
            char *strip = kept + i * s->wide;
            if (at + i)
                cpu_call_row(s->after, &next, last_of(s, strip, length), before, NULL, 1);
            else
                memcpy(&next, last_of(s, strip, length), (size_t)s->wide);
            write_line(s, to + (at + i) * s->step[TO], strip, length, at + i ? (const char *)before : NULL);
            *before = next;
        }
    }
}

// A row that all threads scan together: first they compute the totals of the strips, then each piece of the
// row is scanned from the result before it.
struct shared_line {
    const struct scanning *s;
    char *to;
    const char *from;
    int64_t n, piece;    // elements
    union scalar *total; // of strips; later, for each piece, the result before it
};

// Computes the totals of the strips of the block at an element.
static void add_up_block(const struct shared_line *l, int64_t at, char *room) {
    const char *elements = read_line(l->s, l->from + at * l->s->step[FROM], BLOCK, room);
    for (int64_t i = 0; i < BLOCK; i += STRIP)
        l->s->total(elements + i * l->s->wide, STRIP, &l->total[(at + i) / STRIP]);
}

static void scan_up_block(const struct shared_line *l, int64_t at, char *kept) {
    scan_block(l->s, l->from + at * l->s->step[FROM], BLOCK, kept);
    for (int64_t i = 0; i < BLOCK; i += STRIP)
        memcpy(&l->total[(at + i) / STRIP], last_of(l->s, kept + i * l->s->wide, STRIP), (size_t)l->s->wide);
}

static void add_up_part(const void *context, int64_t piece, int64_t end) {
    const struct shared_line *l = context;
    _Alignas(64) char kept[BLOCK * sizeof(union scalar)];
    for (int64_t at = piece * l->piece; at < end * l->piece; at += BLOCK)
        (l->s->total ? add_up_block : scan_up_block)(l, at, kept);
}

static void scan_piece_part(const void *context, int64_t piece, int64_t end) {
    const struct shared_line *l = context;
    union scalar before = l->total[piece];
    scan_strips(l->s, l->to, l->from, piece * l->piece, MIN_OF(end * l->piece, l->n), &before);
}

// Skips the last piece, because nothing follows it.
static void sum_up_pieces(const struct shared_line *l, int64_t pieces) {
    int64_t strips = l->piece / STRIP;
    union scalar before = l->total[0];
    for (int64_t piece = 1; piece < pieces; piece++) {
        for (int64_t i = (piece - 1) * strips; i < piece * strips; i++)
            if (i)
                cpu_call_row(l->s->after, &before, &l->total[i], &before, NULL, 1);
        l->total[piece] = before; // overwrites the total of a strip that was added already
    }
}

static bool scan_shared_line(const struct scanning *s, char *to, const char *from, int64_t n) {
    int64_t blocks = (n + BLOCK - 1) / BLOCK, each = blocks / (4 * pool_threads()) + 1;
    struct shared_line l = {s, to,           from,
                            n, each * BLOCK, memory_alloc((size_t)strips_of(n) * sizeof(union scalar))};
    if (!l.total)
        return false;
    int64_t pieces = (n + l.piece - 1) / l.piece;
    if (pieces > 1)
        cpu_split(pieces - 1, 1, add_up_part, &l);
    sum_up_pieces(&l, pieces);
    cpu_split(pieces, 1, scan_piece_part, &l);
    memory_free(l.total);
    return true;
}

// Lines -----------------------------------------------------------------------------------------------------

// Returns whether rows can be scanned from the input to the output without a buffer.
static bool is_direct(const struct scanning *s, const char *to, const char *from, const int64_t *apart) {
    return s->step[TO] == s->item && s->step[FROM] == s->item && !s->widen && apart[TO] % s->item == 0 &&
           apart[FROM] % s->item == 0 && to != from;
}

// Scans rows of more than a strip side by side, if is_direct(). Each has the result that scan_strips()
// computes.
static void scan_beside(const struct scanning *s, char *to, const char *from, const int64_t *apart,
                        int64_t lines, int64_t n) {
    for (int64_t at = 0; at < n; at += STRIP, to += STRIP * s->item, from += STRIP * s->item) {
        int64_t length = MIN_OF(n - at, STRIP);
        s->chains(&(struct chains){to, from, apart[TO] / s->item, apart[FROM] / s->item, length, (int)lines},
                  s->rows);
        for (int64_t k = 0; at && k < lines; k++) {
            char *strip = to + k * apart[TO];
            cpu_call_row(s->after, strip, strip, strip - s->item, NULL, length);
        }
    }
}

// Scans up to SCAN_CHAINS rows of at most STRIP elements each, and at most BLOCK in all; apart: bytes between
// rows.
static void scan_short_lines(const struct scanning *s, char *to, const char *from, const int64_t *apart,
                             int64_t lines, int64_t n) {
    _Alignas(64) char kept[BLOCK * sizeof(union scalar)];
    if (is_direct(s, to, from, apart)) {
        s->chains(&(struct chains){to, from, apart[TO] / s->item, apart[FROM] / s->item, n, (int)lines},
                  s->rows);
        return;
    }
    for (int64_t k = 0; k < lines; k++) {
        char *line = kept + k * n * s->wide;
        const char *elements = read_line(s, from + k * apart[FROM], n, line);
        if (elements != line)
            memcpy(line, elements, (size_t)(n * s->wide));
    }
    s->chains(&(struct chains){kept, kept, n, n, n, (int)lines}, s->rows);
    for (int64_t k = 0; k < lines; k++)
        write_line(s, to + k * apart[TO], kept + k * n * s->wide, n, NULL);
}

static void scan_logs(const struct scanning *s, char *to, const char *from, int64_t n) {
    _Alignas(64) char kept[STRIP * sizeof(double)];
    struct scan_logs state = cpu_scan_logs_start();
    for (int64_t at = 0, part; at < n; at += part) {
        part = MIN_OF(n - at, STRIP);
        cpu_scan_logs(&state, s->logs, read_line(s, from + at * s->step[FROM], part, kept), kept, part);
        write_line(s, to + at * s->step[TO], kept, part, NULL);
    }
}

static void scan_lines_at(const struct scanning *s, char *to, const char *from, const int64_t *apart,
                          int64_t lines) {
    int64_t n = s->n - !s->inclusive;
    for (int64_t k = 0; !s->inclusive && k < lines; k++)
        cpu_slice_run(to + k * apart[TO], (const char *)&s->start, (size_t)s->item);
    if (n == 0)
        return;
    to += s->inclusive ? 0 : s->step[TO];
    if (s->logs != ZL_BOOL && n >= LOGS_LEAST) {
        for (int64_t k = 0; k < lines; k++)
            scan_logs(s, to + k * apart[TO], from + k * apart[FROM], n);
        return;
    }
    if (n <= STRIP) {
        scan_short_lines(s, to, from, apart, lines, n);
        return;
    }
    if (lines > 1 && is_direct(s, to, from, apart)) {
        scan_beside(s, to, from, apart, lines, n);
        return;
    }
    for (int64_t k = 0; k < lines; k++)
        scan_strips(s, to + k * apart[TO], from + k * apart[FROM], 0, n, &(union scalar){.i = 0});
}

static void scan_lines(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    const struct scanning *s = context;
    const int64_t *apart = l->axes ? l->axis[l->axes - 1].stride : (int64_t[]){0, 0};
    for (;;) {
        scan_lines_at(s, w->data[TO], w->data[FROM], apart, l->axes ? cpu_walk_extent(l, w, l->axes - 1) : 1);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Rows ------------------------------------------------------------------------------------------------------

// Scans n rows of cols elements: each is combined with the row before it.
static void scan_rows_kept(const struct scanning *s, char *to, const char *from, int64_t n, int64_t cols) {
    memcpy(to, from, (size_t)(cols * s->item));
    for (int64_t i = 1; i < n; i++)
        cpu_call_row(s->row, to + i * s->step[TO], to + (i - 1) * s->step[TO], from + i * s->step[FROM], NULL,
                     cols);
}

static void scan_rows_wide(const struct scanning *s, char *to, const char *from, int64_t n, int64_t cols) {
    _Alignas(64) char kept[COLUMNS * 4], read[COLUMNS * 4];
    memcpy(to, from, (size_t)(cols * s->item));
    cpu_call_row(s->widen, kept, from, NULL, NULL, cols);
    for (int64_t i = 1; i < n; i++) {
        cpu_call_row(s->widen, read, from + i * s->step[FROM], NULL, NULL, cols);
        cpu_call_row(s->row, kept, kept, read, NULL, cols);
        cpu_call_row(s->narrow, to + i * s->step[TO], kept, NULL, NULL, cols);
    }
}

static void scan_columns(const struct layout *l, struct walk *w, int64_t tiles, const void *context) {
    const struct scanning *s = context;
    for (;;) {
        int64_t cols = cpu_walk_extent(l, w, l->axes - 1), n = s->n - !s->inclusive;
        char *to = w->data[TO] + (s->inclusive ? 0 : s->step[TO]);
        if (!s->inclusive)
            cpu_fill((size_t)s->item, w->data[TO], (const char *)&s->start, cols);
        if (n > 0 && s->widen)
            scan_rows_wide(s, to, w->data[FROM], n, cols);
        else if (n > 0)
            scan_rows_kept(s, to, w->data[FROM], n, cols);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, w);
    }
}

// Scans -----------------------------------------------------------------------------------------------------

// Returns the identity of the operation; for a maximum or minimum, the opposite extreme of the dtype.
static union scalar start_of(enum scan which, zl_dtype dtype) {
    static const double numbers[] = {0, 1, -INFINITY, INFINITY, -INFINITY};
    double number = dtype == ZL_BOOL && which == SCAN_MAX ? 0 : numbers[which];
    union scalar start = {.i = 0};
    dtype_convert(&start, dtype, &number, ZL_FLOAT64, 1);
    if (dtype == ZL_COMPLEX64 && (which == SCAN_MAX || which == SCAN_MIN)) // both parts are infinite
        memcpy((char *)&start + 4, &start, 4);
    return start;
}

static bool choose_rows(struct scanning *s, enum scan which, zl_dtype dtype) {
    static const enum tile_op ops[] = {TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN, TILE_LOGADDEXP};
    const struct row_table *rows = cpu_level()->rows;
    bool is_half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    zl_dtype kept = is_half ? ZL_FLOAT32 : dtype;
    s->chains = cpu_scan_chains(which, kept);
    s->total = cpu_scan_total(which, kept);
    s->rows = rows->op[ops[which]][kept];
    s->row = s->rows[0];
    s->after = s->rows[2];
    s->logs = which == SCAN_LOGADDEXP && kept != ZL_COMPLEX64 ? kept : ZL_BOOL;
    s->item = (int64_t)zl_dtype_size(dtype);
    s->wide = (int64_t)zl_dtype_size(kept);
    s->widen = is_half ? rows->cast[ZL_FLOAT32][dtype] : NULL;
    s->narrow = is_half ? rows->cast[dtype][ZL_FLOAT32] : NULL;
    return (s->chains && s->row && s->after) ||
           error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for scan of %s", zl_dtype_name(dtype));
}

// Separates the scanned axis from the others; its strides are stored in s. list: space for three numbers per
// axis.
static void split_axes(struct scanning *s, zl_array out, zl_array x, const char *data, const int64_t *arg,
                       int64_t *list) {
    int ndim = out->ndim, axis = (int)arg[1];
    int64_t *dim = list, *to = dim + ndim, *from = to + ndim,
            steps[] = {array_stride(out)[axis], array_stride(x)[axis]};
    char *start = cpu_data(out);
    for (int i = 0; i < ndim; i++) {
        dim[i] = i == axis ? 1 : out->dim[i];
        to[i] = array_stride(out)[i];
        from[i] = array_stride(x)[i];
    }
    s->n = out->dim[axis];
    for (int k = 0; k < 2; k++)
        s->step[k] = steps[k] * s->item * (arg[2] ? -1 : 1);
    int64_t last = arg[2] ? s->n - 1 : 0;
    cpu_layout_start(&s->others, ndim, dim, 1);
    cpu_layout_add(&s->others, start - last * s->step[TO], (size_t)s->item, ndim, dim, to);
    cpu_layout_add(&s->others, data - last * s->step[FROM], (size_t)s->item, ndim, dim, from);
    cpu_layout_merge(&s->others);
}

// Scans a few long rows one after the other, each by all threads.
static bool scan_few_lines(const struct scanning *s) {
    struct walk w;
    int64_t n = s->n - !s->inclusive;
    cpu_walk_to(&s->others, &w, 0);
    for (int64_t left = s->others.size; left > 0; left--) {
        if (!s->inclusive)
            cpu_slice_run(w.data[TO], (const char *)&s->start, (size_t)s->item);
        if (!scan_shared_line(s, w.data[TO] + (s->inclusive ? 0 : s->step[TO]), w.data[FROM], n))
            return false;
        if (left > 1)
            cpu_walk_next(&s->others, &w);
    }
    return true;
}

static bool run_scan(struct scanning *s) {
    struct layout *l = &s->others;
    const struct layout_axis *inner = l->axes ? &l->axis[l->axes - 1] : NULL;
    bool rows = inner && inner->dim >= COLUMNS_LEAST && inner->stride[TO] == s->item &&
                inner->stride[FROM] == s->item;
    bool few = !rows && s->logs == ZL_BOOL && pool_threads() > 1 && l->size < 2 * pool_threads() &&
               s->n >= 8 * BLOCK;
    int64_t lines = MIN_OF(MAX_OF(BLOCK / s->n, 1), SCAN_CHAINS); // rows that a block has space for
    if (s->n > STRIP && l->size >= MANY)
        lines = BESIDE;
    int64_t together = rows ? COLUMNS : few ? 1 : lines;
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = j == l->axes - 1 ? MIN_OF(l->axis[j].dim, together) : 1;
    if (few)
        return scan_few_lines(s);
    cpu_walk(l, (double)(l->size * s->n * s->item) * 4, rows ? scan_columns : scan_lines, s);
    return true;
}

bool cpu_scan(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    const int64_t *arg = call_args(c);
    struct scanning s;
    OP_TEMP(int64_t, list, 3 * (int64_t)out->ndim);
    if (!list || !choose_rows(&s, (enum scan)arg[0], (zl_dtype)x->dtype))
        return false;
    s.inclusive = arg[3];
    s.start = start_of((enum scan)arg[0], (zl_dtype)x->dtype);
    split_axes(&s, out, x, array_data(x, &room), arg, list);
    return run_scan(&s);
}
