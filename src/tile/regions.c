// regions.c - runs tile statements in the interpreter: copy, fill, im2col, reduce, scan, gemm over rectangles
// of buffers.

#include "tile/interpret.h"

#include <inttypes.h>
#include <string.h>

// A region of the statement that is running. Axis i of its buffer is axis pair[i] of the rectangle that the
// statement works on, -1: none; if `pair` is NULL, the last axes belong together.
struct view {
    const struct tile_buffer *buffer;
    const int64_t *origin;
    int64_t size[TILE_DIMS];
    bool is_sized;
    const int *pair;
};

static struct view view_of(const struct machine *m, const struct tile_stmt *s, const struct operands *o,
                           int which) {
    const struct tile_region *region = &s->region[which];
    struct view v = {.buffer = region->buffer, .origin = o->origin[which]};
    v.is_sized = tile_region_is_sized(region);
    const int64_t *size = region->extent ? o->size[which] : m->cells[region->buffer->id].shape;
    memcpy(v.size, size, sizeof v.size);
    return v;
}

// Sets *at to the address of the element at a point of a rectangle with `axes` axes. Axes of the buffer that
// the rectangle does not have stay at the origin. Returns false if the element is outside of the buffer.
static bool element(const struct machine *m, const struct view *v, const int64_t *point, int axes,
                    char **at) {
    int64_t index[TILE_DIMS];
    for (int i = 0; i < v->buffer->ndim; i++) {
        int axis = v->pair ? v->pair[i] : axes - v->buffer->ndim + i;
        index[i] = v->origin[i] + (axis < 0 ? 0 : point[axis]);
    }
    return machine_find(m, v->buffer, index, at);
}

static union tile_value read_or(const struct machine *m, const struct view *v, const int64_t *point, int axes,
                                union tile_value other) {
    char *at;
    return element(m, v, point, axes, &at) ? machine_read(v->buffer->type, at) : other;
}

static union tile_value read_or_zero(const struct machine *m, const struct view *v, const int64_t *point,
                                     int axes) {
    return read_or(m, v, point, axes, (union tile_value){.u = 0});
}

static void write_if_inside(const struct machine *m, const struct view *v, const int64_t *point, int axes,
                            union tile_value value) {
    char *at;
    if (element(m, v, point, axes, &at))
        machine_write(v->buffer->type, at, value);
}

static bool next_point(int64_t *point, const int64_t *size, int axes) {
    for (int i = axes - 1; i >= 0; i--) {
        if (++point[i] < size[i])
            return true;
        point[i] = 0;
    }
    return false;
}

static bool is_empty(const int64_t *size, int axes) {
    for (int i = 0; i < axes; i++)
        if (size[i] <= 0)
            return true;
    return false;
}

// Copy and fill ---------------------------------------------------------------------------------------------

// Writes the sizes of a view along the axes of a rectangle; 1 along an axis that the view does not have.
static void spread(const struct view *v, int axes, int64_t *size) {
    for (int i = 0; i < axes; i++)
        size[i] = 1;
    for (int i = 0; i < v->buffer->ndim; i++)
        if (v->pair[i] >= 0)
            size[v->pair[i]] = v->size[i];
}

// Writes the sizes of the rectangle that both views cover. Fails if their sizes differ.
static bool pair_views(struct machine *m, const struct view *a, const struct view *b, int axes,
                       int64_t *size) {
    int64_t size_a[TILE_DIMS], size_b[TILE_DIMS];
    spread(a, axes, size_a);
    spread(b, axes, size_b);
    for (int i = 0; i < axes; i++) {
        size[i] = a->is_sized ? size_a[i] : size_b[i];
        if (a->is_sized && b->is_sized && size_a[i] != size_b[i])
            return machine_fail(m, "%s has %" PRId64 " and %s %" PRId64 " along an axis", a->buffer->text,
                                size_a[i], b->buffer->text, size_b[i]);
    }
    return true;
}

// Checks one side of a copy that is one vector access of a thread: it has no edges, so all of it must lie
// inside of its buffer, and it must begin at a multiple of its size in bytes.
static bool check_access(struct machine *m, const struct view *v) {
    int axis = v->buffer->ndim - 1;
    int64_t last[TILE_DIMS], bytes = v->size[axis] * tile_type_bytes(v->buffer->type);
    char *begin, *end;
    memcpy(last, v->origin, sizeof last);
    last[axis] += v->size[axis] - 1;
    if (!machine_find(m, v->buffer, v->origin, &begin) || !machine_find(m, v->buffer, last, &end))
        return machine_fail(m, "an access of %" PRId64 " bytes leaves %s", bytes, v->buffer->text);
    int64_t at = begin - m->cells[v->buffer->id].data;
    return at % bytes == 0 ||
           machine_fail(m, "an access of %" PRId64 " bytes begins at byte %" PRId64 " of %s", bytes, at,
                        v->buffer->text);
}

bool machine_copy(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct view from = view_of(m, s, o, 0), to = view_of(m, s, o, 1);
    int64_t size[TILE_DIMS], point[TILE_DIMS] = {0};
    int pair_from[TILE_DIMS], pair_to[TILE_DIMS];
    int axes = tile_pair(&s->region[0], &s->region[1], pair_from, pair_to);
    union tile_value outside = s->value ? o->value : (union tile_value){.u = 0};
    from.pair = pair_from;
    to.pair = pair_to;
    if (!pair_views(m, &from, &to, axes, size))
        return false;
    if (is_empty(size, axes))
        return true;
    if (s->loop == TILE_VECTOR && !(check_access(m, &from) && check_access(m, &to)))
        return false;
    do {
        union tile_value value = read_or(m, &from, point, axes, outside);
        write_if_inside(m, &to, point, axes, tile_convert(to.buffer->type, from.buffer->type, value));
    } while (next_point(point, size, axes));
    return true;
}

bool machine_fill(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct view to = view_of(m, s, o, 1);
    int axes = to.buffer->ndim;
    int64_t point[TILE_DIMS] = {0};
    if (is_empty(to.size, axes))
        return true;
    do
        write_if_inside(m, &to, point, axes, o->value);
    while (next_point(point, to.size, axes));
    return true;
}

// Sets *at to the element of the images that is at this row and column of the im2col matrix. Rows are the
// points of the convolution's result, image by image; columns are the taps of the window, each with all
// channels. Returns false where there is no element, as in the padding.
static bool find_tap(const struct machine *m, const struct tile_stmt *s, int64_t row, int64_t column,
                     char **at) {
    const struct tile_window *w = &s->window;
    const int64_t *shape = m->cells[s->region[0].buffer->id].shape;
    int64_t span = w->dilation * (w->size - 1) + 1, points[2];
    for (int i = 0; i < 2; i++) {
        int64_t room = shape[i + 1] + 2 * w->pad - span;
        points[i] = room < 0 ? 0 : room / w->stride + 1;
    }
    if (row < 0 || column < 0 || points[0] < 1 || points[1] < 1 || shape[3] < 1)
        return false;
    int64_t tap = column / shape[3],
            index[4] = {row / points[1] / points[0],
                        row / points[1] % points[0] * w->stride + tap / w->size * w->dilation - w->pad,
                        row % points[1] * w->stride + tap % w->size * w->dilation - w->pad,
                        column % shape[3]};
    return tap < (int64_t)w->size * w->size && machine_find(m, s->region[0].buffer, index, at);
}

bool machine_im2col(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct view to = view_of(m, s, o, 1);
    int64_t point[TILE_DIMS] = {0};
    struct tile_type type = s->region[0].buffer->type;
    if (is_empty(to.size, 2))
        return true;
    do {
        char *at;
        bool is_there = find_tap(m, s, o->index[0] + point[0], o->index[1] + point[1], &at);
        union tile_value value = is_there ? machine_read(type, at) : tile_value_of(type, 0);
        write_if_inside(m, &to, point, 2, tile_convert(to.buffer->type, type, value));
    } while (next_point(point, to.size, 2));
    return true;
}

// Reduce and scan -------------------------------------------------------------------------------------------

enum { LANE_BYTES = 128, MOST_LANES = 128 };

struct line { // the elements of a view along one axis
    const struct view *from;
    struct tile_type type; // in which elements are combined
    int axis;
    int64_t *point;
    bool absolute;
};

static union tile_value line_read(const struct machine *m, const struct line *l, int64_t at) {
    l->point[l->axis] = at;
    union tile_value value = read_or_zero(m, l->from, l->point, l->from->buffer->ndim);
    l->point[l->axis] = 0;
    value = tile_convert(l->type, l->from->buffer->type, value);
    return l->absolute ? tile_apply(TILE_ABS, l->type, l->type, &value) : value;
}

// Reduces a line in the order that every target keeps: lane j combines elements j, j + lanes, ...; then the
// upper half of the lanes is combined with the lower half, until one is left.
static union tile_value reduce_line(const struct machine *m, const struct line *l, struct combiner *combine,
                                    union tile_value identity) {
    union tile_value lane[MOST_LANES];
    int lanes = LANE_BYTES / tile_type_bytes(l->type);
    for (int j = 0; j < lanes; j++)
        lane[j] = identity;
    for (int64_t i = 0; i < l->from->size[l->axis]; i++)
        lane[i % lanes] = combiner_run(combine, lane[i % lanes], line_read(m, l, i));
    for (int half = lanes / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = combiner_run(combine, lane[j], lane[j + half]);
    return lane[0];
}

// Sets *at to the address of a line's result: it is at the same point, without the line's axis if the
// destination does not have it.
static bool find_result(const struct machine *m, const struct line *l, const struct view *to, char **at) {
    int64_t point[TILE_DIMS];
    int axes = 0, from_axes = l->from->buffer->ndim;
    for (int i = 0; i < from_axes; i++)
        if (i != l->axis || to->buffer->ndim >= from_axes)
            point[axes++] = l->point[i];
    return element(m, to, point, axes, at);
}

static void reduce_lines(const struct machine *m, const struct tile_stmt *s, const struct line *l,
                         const struct view *to, struct combiner *combine, union tile_value identity) {
    int64_t size[TILE_DIMS];
    memcpy(size, l->from->size, sizeof size);
    size[l->axis] = 1;
    if (is_empty(size, l->from->buffer->ndim))
        return;
    do {
        char *at;
        union tile_value value = reduce_line(m, l, combine, identity);
        if (!find_result(m, l, to, &at))
            continue;
        if (!s->clear)
            value = combiner_run(combine, machine_read(l->type, at), value);
        machine_write(l->type, at, value);
    } while (next_point(l->point, size, l->from->buffer->ndim));
}

bool machine_reduce(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct view from = view_of(m, s, o, 0), to = view_of(m, s, o, 1);
    int64_t point[TILE_DIMS] = {0};
    struct line line = {&from, to.buffer->type, s->axis, point, s->absolute};
    struct combiner combine;
    uint64_t identity;
    if (!tile_identity(s->combine, line.type, &identity))
        return machine_fail(m, "%s of %s", tile_op_name(s->combine), tile_type_name(line.type));
    bool good = combiner_open(&combine, s->combine, line.type);
    if (good)
        reduce_lines(m, s, &line, &to, &combine, tile_value_of(line.type, identity));
    combiner_close(&combine);
    return good;
}

// Scans a line from its first element, or from its last if `reverse`. An exclusive scan leaves the element
// itself out of its sum.
static void scan_line(const struct machine *m, const struct tile_stmt *s, const struct line *l,
                      const struct view *to, struct combiner *combine, union tile_value identity) {
    int64_t len = l->from->size[l->axis];
    union tile_value sum = identity;
    for (int64_t i = 0; i < len; i++) {
        int64_t at = s->reverse ? len - 1 - i : i;
        union tile_value next = combiner_run(combine, sum, line_read(m, l, at));
        l->point[l->axis] = at;
        write_if_inside(m, to, l->point, l->from->buffer->ndim, s->exclusive ? sum : next);
        l->point[l->axis] = 0;
        sum = next;
    }
}

bool machine_scan(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct view from = view_of(m, s, o, 0), to = view_of(m, s, o, 1);
    int64_t point[TILE_DIMS] = {0}, size[TILE_DIMS];
    struct line line = {&from, to.buffer->type, s->axis, point, false};
    struct combiner combine;
    uint64_t identity;
    if (!tile_identity(s->combine, line.type, &identity))
        return machine_fail(m, "%s of %s", tile_op_name(s->combine), tile_type_name(line.type));
    memcpy(size, from.size, sizeof size);
    size[s->axis] = 1;
    bool good = combiner_open(&combine, s->combine, line.type);
    if (good && !is_empty(size, from.buffer->ndim))
        do
            scan_line(m, s, &line, &to, &combine, tile_value_of(line.type, identity));
        while (next_point(point, size, from.buffer->ndim));
    combiner_close(&combine);
    return good;
}

// Gemm ------------------------------------------------------------------------------------------------------

struct product {
    struct view a, b, c;
    int64_t rows, columns, depth;
    struct tile_type type; // of the accumulator
    struct combiner multiply, add;
};

static union tile_value factor(const struct machine *m, const struct view *v, int64_t row, int64_t column,
                               bool transpose, struct tile_type type) {
    int64_t point[2] = {transpose ? column : row, transpose ? row : column};
    return tile_convert(type, v->buffer->type, read_or_zero(m, v, point, 2));
}

static void gemm_element(const struct machine *m, const struct tile_stmt *s, struct product *p, int64_t row,
                         int64_t column) {
    int64_t point[2] = {row, column};
    union tile_value zero = tile_value_of(p->type, 0), sum = zero;
    if (!s->clear)
        sum = tile_convert(p->type, p->c.buffer->type, read_or_zero(m, &p->c, point, 2));
    for (int64_t k = 0; k < p->depth; k++) {
        union tile_value a = factor(m, &p->a, row, k, s->transpose[0], p->type);
        union tile_value b = factor(m, &p->b, k, column, s->transpose[1], p->type);
        sum = combiner_run(&p->add, sum, combiner_run(&p->multiply, a, b));
    }
    write_if_inside(m, &p->c, point, 2, tile_convert(p->c.buffer->type, p->type, sum));
}

// Sets rows, columns and depth from the last two sizes of a and b. Fails if those of b or c do not fit.
static bool measure_gemm(struct machine *m, const struct tile_stmt *s, struct product *p) {
    const int64_t *a = p->a.size + p->a.buffer->ndim - 2, *b = p->b.size + p->b.buffer->ndim - 2;
    p->rows = a[s->transpose[0]];
    p->depth = a[!s->transpose[0]];
    p->columns = b[!s->transpose[1]];
    if (p->depth != b[s->transpose[1]])
        return machine_fail(m, "inner sizes differ: %" PRId64 " and %" PRId64, p->depth, b[s->transpose[1]]);
    const int64_t *c = p->c.size + p->c.buffer->ndim - 2;
    if (p->c.is_sized && (c[0] != p->rows || c[1] != p->columns))
        return machine_fail(m,
                            "the result is (%" PRId64 ", %" PRId64 ") and goes to (%" PRId64 ", %" PRId64 ")",
                            p->rows, p->columns, c[0], c[1]);
    return true;
}

bool machine_gemm(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct product p = {view_of(m, s, o, 0), view_of(m, s, o, 1), view_of(m, s, o, 2),
                        .type = {TILE_FLOAT, 32, 1}};
    if (!tile_type_is_half(p.c.buffer->type))
        p.type = p.c.buffer->type;
    if (!measure_gemm(m, s, &p))
        return false;
    bool can_add = combiner_open(&p.add, TILE_ADD, p.type);
    bool good = combiner_open(&p.multiply, TILE_MUL, p.type) && can_add;
    for (int64_t row = 0; row < p.rows && good; row++)
        for (int64_t column = 0; column < p.columns; column++)
            gemm_element(m, s, &p, row, column);
    combiner_close(&p.multiply);
    combiner_close(&p.add);
    return good;
}
