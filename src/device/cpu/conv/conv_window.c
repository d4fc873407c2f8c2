// conv_window.c - windows: the part of x that some lines of the output depend on is copied once and padded
// with zeros, so that every tap has a fixed offset from a position. Parts of a convolution are such lines;
// they do not depend on the number of threads.

#include "device/cpu/conv/conv.h"
#include "device/cpu/rows/operands.h"

enum {
    PART_BYTES = 1 << 18, // bytes of lines of x per part, which stay in L2
    PARTS_LEAST = 64,     // so that many threads have equal work, unless
    LINES_LEAST = 4,      // parts would have fewer lines
};

// Returns how many elements of x along an axis `count` elements of the output depend on.
static int64_t reach(const struct convolution *v, int axis, int64_t count) {
    return (count - 1) * v->axis[axis].stride + (v->kernel[axis] - 1) * v->axis[axis].dilation + 1;
}

bool conv_has_windows(const struct convolution *v) {
    return v->axis[0].input_dilation == 1 && v->axis[1].input_dilation == 1 &&
           v->axis[2].input_dilation == 1 && !v->is_product;
}

int64_t conv_window_parts(struct convolution *v, int64_t item, int64_t panels) {
    const int64_t line = reach(v, 2, v->out[2]) * v->channels * item * v->kernel[0];
    const int64_t fit = MAX_OF((PART_BYTES / line - reach(v, 1, 1)) / v->axis[1].stride, 1);
    const int64_t others = v->groups * v->batch * v->out[0], lines = v->out[1];
    const int64_t wanted = MIN_OF((PARTS_LEAST + others - 1) / others, lines / LINES_LEAST);
    const int64_t tiles = MAX_OF((lines + fit - 1) / fit, wanted);
    v->tile_rows = (lines + tiles - 1) / tiles;
    v->row_tiles = (lines + v->tile_rows - 1) / v->tile_rows;
    const int64_t windows = others * v->row_tiles;
    v->col_tiles = MAX_OF(MIN_OF(PARTS_LEAST / windows, panels), 1);
    return windows * v->col_tiles;
}

// Returns the bytes from the first element that a position depends on to that of a tap.
static int64_t tap_of(const struct conv_window *w, int64_t tap) {
    const struct convolution *v = w->v;
    const int64_t *kernel = v->kernel;
    const int64_t at[CONV_AXES] = {tap / kernel[2] / kernel[1], tap / kernel[2] % kernel[1], tap % kernel[2]};
    const int64_t apart[CONV_AXES] = {w->plane, v->axis[1].dilation * w->line,
                                      v->axis[2].dilation * w->position};
    int64_t bytes = 0;
    for (int i = 0; i < CONV_AXES; i++)
        bytes += (v->flip ? kernel[i] - 1 - at[i] : at[i]) * apart[i];
    return bytes;
}

bool conv_window_open(struct conv_window *w, const struct convolution *v, int64_t positions, zl_dtype dtype) {
    *w = (struct conv_window){.v = v, .item = (int64_t)zl_dtype_size(dtype), .filled = -1};
    w->width = reach(v, 2, v->out[2]);
    w->position = v->channels * w->item;
    w->line = w->width * w->position;
    w->plane = w->line * reach(v, 1, v->tile_rows);
    w->widen = dtype == v->dtype ? NULL : cpu_level()->rows->cast[dtype][v->dtype];
    const int64_t spare = positions * v->axis[2].stride * w->position,
                  bytes = round_up(w->plane * v->kernel[0] + spare, 64);
    w->x = cpu_scratch(SCRATCH_PACK, (size_t)(bytes + v->taps * (int64_t)sizeof w->tap[0]));
    if (!w->x)
        return false;
    w->tap = (int64_t *)(void *)(w->x + bytes);
    for (int64_t i = 0; i < v->taps; i++)
        w->tap[i] = tap_of(w, i);
    return true;
}

static void copy_positions(const struct conv_window *w, char *to, const char *from, int64_t count) {
    const struct convolution *v = w->v;
    const int64_t position = v->channels * v->item;
    const bool is_dense = v->step[2] == position;
    const int64_t pieces = is_dense ? 1 : count, bytes = is_dense ? count * position : position;
    for (int64_t i = 0; i < pieces; i++, to += w->position, from += v->step[2])
        if (w->widen)
            cpu_call_row(w->widen, to, from, NULL, NULL, bytes / v->item);
        else
            memcpy(to, from, (size_t)bytes);
}

// Copies the window's part of a line of x, given by its index along the first two axes. Elements outside of x
// become 0.
static void copy_line(const struct conv_window *w, int64_t first, int64_t second, char *to) {
    const struct convolution *v = w->v;
    const bool is_inside = first >= 0 && first < v->in[0] && second >= 0 && second < v->in[1];
    const int64_t before = MIN_OF(MAX_OF(v->axis[2].low, 0), w->width), skipped = MAX_OF(-v->axis[2].low, 0);
    const int64_t count = is_inside ? MAX_OF(MIN_OF(v->in[2] - skipped, w->width - before), 0) : 0;
    const char *from = v->x + w->batch * v->batch_step + w->group * v->group_step + first * v->step[0] +
                       second * v->step[1] + skipped * v->step[2];
    memset(to, 0, (size_t)(before * w->position));
    if (count > 0)
        copy_positions(w, to + before * w->position, from, count);
    to += (before + count) * w->position;
    memset(to, 0, (size_t)((w->width - before - count) * w->position));
}

void conv_window_fill(struct conv_window *w, int64_t part, int64_t panels, int64_t *first, int64_t *end) {
    const struct convolution *v = w->v;
    const int64_t window = part / v->col_tiles, col = part % v->col_tiles, place = window / v->row_tiles;
    *first = panels * col / v->col_tiles;
    *end = panels * (col + 1) / v->col_tiles;
    if (w->filled == window)
        return;
    w->filled = window;
    w->second = window % v->row_tiles * v->tile_rows;
    w->lines = MIN_OF(v->tile_rows, v->out[1] - w->second);
    w->first = place % v->out[0];
    w->batch = place / v->out[0] % v->batch;
    w->group = place / v->out[0] / v->batch;
    const int64_t lines = reach(v, 1, w->lines);
    for (int64_t i = 0; i < v->kernel[0]; i++)
        for (int64_t j = 0; j < lines; j++)
            copy_line(w, w->first * v->axis[0].stride + i * v->axis[0].dilation - v->axis[0].low,
                      w->second * v->axis[1].stride + j - v->axis[1].low, w->x + i * w->plane + j * w->line);
}
