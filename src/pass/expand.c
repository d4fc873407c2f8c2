// expand.c - expands shorthand: im2col becomes a map; a reduction of magnitudes (absmax, abssum) becomes a
// map to absolute values and a plain reduction.

#include "pass/boxes.h"

// im2col ----------------------------------------------------------------------------------------------------

static expr times(expr a, int64_t b) {
    return b == 1 ? a : MUL(a, box_number(b));
}

// Returns the number of points of the window along an axis of the images; 0 where it does not fit.
static expr points_along(const struct tile_stmt *s, int axis) {
    const struct tile_window *w = &s->window;
    int64_t room = 2 * w->pad - w->dilation * (w->size - 1) - 1 + w->stride;
    expr size = box_index(s->region[0].buffer->shape[axis]);
    return MAX(FLOORDIV(ADD(size, box_number(room)), box_number(w->stride)), box_number(0));
}

// Returns the position of a tap of the window along an axis of the images, for a point of the result.
static expr tap_along(const struct tile_stmt *s, expr point, expr tap) {
    const struct tile_window *w = &s->window;
    expr at = ADD(times(point, w->stride), times(tap, w->dilation));
    return w->pad ? SUB(at, box_number(w->pad)) : at;
}

static void im2col(const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    struct box b = box_of(to, NULL);
    expr high = points_along(s, 1), wide = points_along(s, 2), channels = box_index(from->buffer->shape[3]),
         size = box_number(s->window.size);
    tile_open_map(b.axes, b.name, b.size);
    expr row = ADD(box_index(s->index[0]), b.point[0]), column = ADD(box_index(s->index[1]), b.point[1]);
    expr tap = FLOORDIV(column, channels), point = FLOORDIV(row, wide);
    expr index[4] = {FLOORDIV(point, high), tap_along(s, REM(point, high), FLOORDIV(tap, size)),
                     tap_along(s, REM(row, wide), REM(tap, size)), REM(column, channels)};
    expr most = box_number((int64_t)s->window.size * s->window.size);
    expr mask = box_both(GE(row, box_number(0)), GE(column, box_number(0)));
    mask = box_both(mask, LT(tap, most));
    mask = box_both(mask, GT(MUL(high, wide), box_number(0)));
    for (int i = 0; i < 3; i++) { // the last is a remainder
        mask = i ? box_both(mask, GE(index[i], box_number(0))) : mask;
        mask = box_both(mask, LT(index[i], box_index(from->buffer->shape[i])));
    }
    expr value = mask ? tile_load(from->buffer, 4, index, mask, NULL) : NULL;
    box_write(to, &b, b.point, value ? tile_cast(to->buffer->type, value) : NULL, true);
    tile_close();
}

// Magnitudes ------------------------------------------------------------------------------------------------

static void reduce_sizes(struct tile_stmt s) {
    struct box b = box_of(&s.region[0], NULL);
    struct tile_type type = s.region[1].buffer->type;
    const struct tile_buffer *sizes = box_alloc("sizes", type, TILE_FRAGMENT, b.axes, b.size);
    tile_open_map(b.axes, b.name, b.size);
    expr x = box_read(&s.region[0], &b, b.point, true);
    if (sizes && x)
        tile_store(sizes, b.axes, b.point, ABS(tile_cast(type, x)), NULL);
    tile_close();
    s.region[0] = (struct tile_region){.buffer = sizes};
    s.absolute = false;
    tile_append(s);
}

// -----------------------------------------------------------------------------------------------------------

static bool is_word(const struct tile_stmt *s, const void *data) {
    (void)data;
    return s->kind == TILE_IM2COL || s->absolute;
}

static bool emit(void *data, const struct tile_stmt *s) {
    if (s->kind == TILE_IM2COL)
        im2col(s);
    else if (s->absolute)
        reduce_sizes(*s);
    return is_word(s, data);
}

bool pass_expand(struct tile_kernel *kernel, const struct target *target) {
    (void)target;
    return !pass_find(kernel->body, is_word, NULL) || pass_emit_kernel(kernel, emit, NULL);
}
