// kernels_move.c - copies between layouts, and the ops that consist of them: concatenate, pad, slice_update.
// Elements are copied by their size, whatever their dtype is, unless they are converted or combined.

#include "device/kernels/kernels.h"
#include "op/ops.h"

// How elements are written: converted from `from` to `item` and, unless `update` is UPDATE_SET, combined with
// the elements that are there.
struct recipe {
    int32_t item, from; // as %t of WORK_FILE
    enum update update;
};

static struct recipe to_set(zl_dtype dtype) {
    int32_t item = kernel_word(zl_dtype_size(dtype));
    return (struct recipe){item, item, UPDATE_SET};
}

static struct recipe to_update(enum update update, zl_dtype dtype) {
    return update == UPDATE_SET ? to_set(dtype) : (struct recipe){(int32_t)dtype, (int32_t)dtype, update};
}

// Moving ----------------------------------------------------------------------------------------------------

// One side of a move: memory of so many elements, or a number; the position of the first element, and the
// strides.
struct side {
    void *memory;
    const void *number;
    int64_t elements, at;
    const int64_t *stride; // NULL: one element for all
};

// Returns how many neighbouring elements are moved at once, 16 bytes at most: all operands are contiguous
// along the last axis and begin at multiples of that everywhere.
static int width_of(const struct kernel_layout *l, size_t bytes, const struct side *side) {
    int last = l->axes - 1, width = (int)(16 / bytes);
    for (bool fits = false; width > 1 && !fits; width = fits ? width : width / 2) {
        fits = last >= 0 && l->dim[last] % width == 0;
        for (int k = 0; fits && k < l->operands; k++) {
            fits = l->stride[k][last] == 1 &&
                   kernel_begins_run(&(struct kernel_end){side[k].memory, side[k].at}, width);
            for (int i = 0; fits && i < last; i++)
                fits = l->stride[k][i] % width == 0;
        }
    }
    return width;
}

// Counts a layout, and the positions of its operands, in runs.
static void count_runs(struct kernel_layout *l, int width, struct side *side) {
    for (int k = 0; width > 1 && k < l->operands; k++) {
        for (int i = 0; i < l->axes - 1; i++)
            l->stride[k][i] /= width;
        side[k].elements /= width;
        side[k].at /= width;
    }
    if (width > 1) {
        l->dim[l->axes - 1] /= width;
        l->size /= width;
    }
}

static bool fill(const struct kernel_place *p, size_t bytes, struct kernel_layout *l, struct side to,
                 const void *number) {
    struct kernel_work w;
    int width = width_of(l, bytes, &to);
    work_open(&w, p, "fill");
    w.wide = to.elements > KERNEL_NARROW;
    count_runs(l, width, &to);
    WORK_SIZES(&w, l->size, layout_inner(l), to.elements, to.at);
    work_value(&w, number, bytes);
    work_table(&w, l);
    work_memory(&w, to.memory);
    return WORK_FILE(&w, "fill", "ITEM=%t,WIDTH=%d,%i", kernel_word(bytes), width);
}

// Moves elements from side[1] to side[0].
static bool combine(const struct kernel_place *p, struct recipe r, struct kernel_layout *l,
                    struct side side[2]) {
    struct kernel_work w;
    bool sets = r.update == UPDATE_SET; // the kernel then ignores COMBINE
    int width = sets && r.item == r.from ? width_of(l, zl_dtype_size((zl_dtype)r.item), side) : 1;
    work_open(&w, p, "move");
    w.wide = MAX_OF(side[0].elements, side[1].elements) > KERNEL_NARROW;
    count_runs(l, width, side);
    WORK_SIZES(&w, l->size, layout_inner(l), side[0].elements, side[0].at, side[1].elements, side[1].at);
    work_memory(&w, side[1].memory);
    work_table(&w, l);
    work_memory(&w, side[0].memory);
    return WORK_FILE(&w, "move", "ITEM=%t,FROM=%t,SET=%d,COMBINE=%o,WIDTH=%d,%i", r.item, r.from, sets,
                     sets ? TILE_ADD : op_update_row(r.update), width);
}

// Combines elements with a number, which is written to memory for the kernel.
static bool combine_number(const struct kernel_place *p, struct recipe r, struct kernel_layout *l,
                           struct side to, const void *number) {
    struct kernel_layout one;
    struct kernel_scratch room = {0};
    size_t bytes = zl_dtype_size((zl_dtype)r.item);
    struct side from = {.memory = kernel_scratch_open(p, &room, bytes), .elements = 1};
    kernel_layout_begin(&one, 1);
    bool done =
        from.memory && fill(p, bytes, &one, from, number) && combine(p, r, l, (struct side[]){to, from});
    kernel_scratch_close(p, &room);
    return done;
}

static bool change(const struct kernel_place *p, struct recipe r, int ndim, const int64_t *dim,
                   struct side to, struct side from) {
    bool sets = r.update == UPDATE_SET, fills = from.number && sets;
    size_t bytes = zl_dtype_size((zl_dtype)r.item);
    struct kernel_layout l;
    kernel_layout_begin(&l, fills ? 1 : 2);
    for (int i = 0; i < ndim; i++)
        kernel_layout_push(&l, dim[i], (const int64_t[]){to.stride[i], from.stride ? from.stride[i] : 0});
    if (l.size == 0)
        return true;
    if (sets && !from.number && r.item == r.from && kernel_is_transpose(&l))
        return kernel_transpose(p, bytes, &l, (struct kernel_end){to.memory, to.at},
                                (struct kernel_end){from.memory, from.at});
    if (UNLIKELY(l.axes > KERNEL_AXES)) // only then is the text of the shape made, which takes longer than a
                                        // launch
        return kernel_check_axes(&l, shape_text(ndim, dim));
    to.elements = to.elements ? to.elements : kernel_layout_reach(&l, 0, to.at);
    if (fills)
        return fill(p, bytes, &l, to, from.number);
    if (from.number)
        return combine_number(p, r, &l, to, from.number);
    from.elements = from.elements ? from.elements : kernel_layout_reach(&l, 1, from.at);
    return combine(p, r, &l, (struct side[]){to, from});
}

static bool move(const struct kernel_place *p, zl_array like, int ndim, const int64_t *dim, struct side to,
                 struct side from) {
    return change(p, to_set((zl_dtype)like->dtype), ndim, dim, to, from);
}

// Returns the side of a move that an array is; the number of an inline scalar is written to `room`.
static struct side side_of(const struct kernel_place *p, zl_array x, union scalar *room) {
    if (!array_is(x, ARRAY_INLINE))
        return (struct side){kernel_reach(p, x), NULL, kernel_elements(x), x->offset, array_stride(x)};
    scalar_write(x, (zl_dtype)x->dtype, room);
    return (struct side){.number = room};
}

static bool copy_out(const struct kernel_place *p, struct recipe r, zl_array x, void *to) {
    union scalar room;
    OP_TEMP(int64_t, stride, x->ndim);
    if (!stride)
        return false;
    shape_row_major(x->ndim, x->dim, stride);
    return change(p, r, x->ndim, x->dim, (struct side){.memory = to, .stride = stride}, side_of(p, x, &room));
}

void *kernel_copy_out(const struct kernel_place *p, zl_array x, struct kernel_scratch *s) {
    void *to = kernel_scratch_open(p, s, (size_t)x->size * array_item(x));
    return to && copy_out(p, to_set((zl_dtype)x->dtype), x, to) ? to : NULL;
}

bool kernel_from_fp8(const struct kernel_place *p, zl_array x, zl_dtype dtype, void *to) {
    return copy_out(p, (struct recipe){(int32_t)dtype, WORK_E4M3, UPDATE_SET}, x, to);
}

bool kernel_stretch_out(const struct kernel_place *p, zl_array x, int ndim, const int64_t *dim, void *to) {
    union scalar room;
    struct side from = side_of(p, x, &room);
    int added = ndim - x->ndim;
    OP_TEMP(int64_t, stride, 2 * (int64_t)ndim);
    if (!stride)
        return false;
    shape_row_major(ndim, dim, stride);
    for (int i = 0; from.stride && i < ndim; i++)
        stride[ndim + i] = i < added || x->dim[i - added] == 1 ? 0 : from.stride[i - added];
    from.stride = from.stride ? stride + ndim : NULL;
    return move(p, x, ndim, dim, (struct side){.memory = to, .stride = stride}, from);
}

bool kernel_convert(const struct kernel_place *p, int ndim, const int64_t *dim, zl_dtype dtype, void *to,
                    const int64_t *to_stride, zl_dtype from_dtype, void *from, const int64_t *from_stride) {
    struct recipe converts = {(int32_t)dtype, (int32_t)from_dtype, UPDATE_SET};
    return change(p, dtype == from_dtype ? to_set(dtype) : converts, ndim, dim,
                  (struct side){.memory = to, .stride = to_stride},
                  (struct side){.memory = from, .stride = from_stride});
}

bool kernel_move(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *to_stride, void *from, const int64_t *from_stride) {
    return kernel_convert(p, ndim, dim, dtype, to, to_stride, dtype, from, from_stride);
}

bool kernel_fill(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *stride, const void *number) {
    return change(p, to_set(dtype), ndim, dim, (struct side){.memory = to, .stride = stride},
                  (struct side){.number = number});
}

// Ops -------------------------------------------------------------------------------------------------------

bool kernel_concatenate(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    int axis = (int)call_args(c)[0];
    struct side to = side_of(p, y, NULL);
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        union scalar room;
        if (x->size && !move(p, y, x->ndim, x->dim, to, side_of(p, x, &room)))
            return false;
        to.at += x->dim[axis] * array_stride(y)[axis];
    }
    return true;
}

bool kernel_pad(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    union scalar room, number;
    struct side to = side_of(p, y, NULL), padding = side_of(p, c->in[1], &number);
    padding.stride = NULL; // one number for all elements
    if (!move(p, y, y->ndim, y->dim, to, padding))
        return false;
    for (int i = 0; i < y->ndim; i++)
        to.at += call_args(c)[i] * array_stride(y)[i];
    return !x->size || move(p, y, x->ndim, x->dim, to, side_of(p, x, &room));
}

bool kernel_copy_input(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    union scalar room;
    return x->storage == y->storage || move(p, y, y->ndim, y->dim, side_of(p, y, NULL), side_of(p, x, &room));
}

bool kernel_slice_update(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), update = c->in[1];
    const int64_t *start = call_args(c) + 1, *stop = start + y->ndim, *step = stop + y->ndim;
    union scalar room;
    OP_TEMP(int64_t, stride, y->ndim);
    struct side to = side_of(p, y, NULL);
    if (!stride || !kernel_copy_input(p, c))
        return false;
    for (int i = 0; i < y->ndim; i++) {
        struct slice_run run = op_slice_run(y->dim[i], start[i], stop[i], step[i]);
        stride[i] = run.step * array_stride(y)[i];
        to.at += run.start * array_stride(y)[i];
    }
    to.stride = stride;
    return change(p, to_update((enum update)call_args(c)[0], (zl_dtype)y->dtype), update->ndim, update->dim,
                  to, side_of(p, update, &room));
}
