// index.c - take: slices of an array, chosen by indices along an axis.

#include "device/cpu/cpu.h"

#include <string.h>

enum { TO, FROM };

struct taking {
    char *out;
    const int64_t *index;
    int64_t count;     // of indices
    int64_t dim, step; // of the axis: elements, bytes
    size_t item;
    size_t run;          // bytes of a slice that is contiguous; 0: it is not
    struct layout outer; // axes before it; operand: x
    struct layout slice; // axes after it; operands: a slice of the result, one of x
};

// Negative indices count from the end. Those out of range take the nearest: no memory but x's is read.
static int64_t position(int64_t index, int64_t dim) {
    int64_t at = index < 0 ? index + dim : index;
    return at < 0 ? 0 : at >= dim ? dim - 1 : at;
}

// Rectangles of the last two axes of the slice.
static void take_slice(const struct taking *t, char *to, const char *from) {
    const struct layout *l = &t->slice;
    const struct layout_axis *a = &l->axis[l->axes - 2], *b = &l->axis[l->axes - 1];
    struct walk w;
    cpu_walk_to(l, &w, 0);
    int64_t tiles = l->size / (a->dim * b->dim);
    for (;;) {
        cpu_move(t->item, to + (w.data[TO] - l->data[TO]), (struct stride2){a->stride[TO], b->stride[TO]},
                 from + (w.data[FROM] - l->data[FROM]), (struct stride2){a->stride[FROM], b->stride[FROM]},
                 a->dim, b->dim);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, &w);
    }
}

static inline void take_run(char *to, const char *from, size_t bytes) {
    switch (bytes) { // elements: sizes that are one load and one store
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, bytes);
    }
}

// Slices [from, to) of the result, counted over the outer axes and the indices.
static void take_part(const void *context, int64_t from, int64_t to) {
    const struct taking *t = context;
    int64_t bytes = t->slice.size * (int64_t)t->item;
    struct walk w;
    cpu_walk_to(&t->outer, &w, from / t->count);
    for (int64_t i = from % t->count; from < to; from++) {
        const char *slice = w.data[0] + position(t->index[i], t->dim) * t->step;
        if (LIKELY(t->run))
            take_run(t->out + from * bytes, slice, t->run);
        else
            take_slice(t, t->out + from * bytes, slice);
        if (++i < t->count || from + 1 == to)
            continue;
        i = 0;
        cpu_walk_next(&t->outer, &w);
    }
}

static void cast_body(const void *context, char *const *p, int64_t n) {
    row_fn *const *row = context;
    (*row)(p, n);
}

// The indices as int64, one behind the other; *room is what the caller frees.
static const int64_t *read_indices(zl_array indices, union scalar *value, void **room) {
    const char *data = array_data(indices, value);
    *room = NULL;
    if (indices->dtype == ZL_INT64 &&
        (array_is(indices, ARRAY_CONTIGUOUS) || array_is(indices, ARRAY_INLINE)))
        return (const int64_t *)(const void *)data;
    row_fn *row = cpu_level()->rows->cast[ZL_INT64][indices->dtype];
    if (indices->dtype == ZL_INT64)
        row = NULL;
    if (!(*room = memory_alloc(sizeof(int64_t) * (size_t)indices->size)))
        return NULL;
    struct layout l;
    cpu_layout_start(&l, indices->ndim, indices->dim, 1);
    OP_ROOM(int64_t, dense, indices->ndim);
    if (!dense) {
        memory_free(*room);
        return NULL;
    }
    shape_row_major(indices->ndim, indices->dim, dense);
    if (!row) {
        cpu_copy(8, indices->ndim, indices->dim, *room, dense, data, array_stride(indices));
        return *room;
    }
    cpu_layout_add(&l, *room, 8, indices->ndim, indices->dim, dense);
    cpu_layout_add(&l, data, array_item(indices), indices->ndim, indices->dim, array_stride(indices));
    cpu_layout_plan(&l, ~0u, 0);
    cpu_layout_run(&l, 1, cast_body, &row);
    return *room;
}

// The axes of x before and after the one that is indexed. A slice has two axes at least, if only of size 1.
static void split_axes(struct taking *t, zl_array x, int axis, const char *data, const int64_t *out_stride,
                       int after) {
    cpu_layout_start(&t->outer, axis, x->dim, 0);
    cpu_layout_add(&t->outer, data, t->item, axis, x->dim, array_stride(x));
    t->outer.loops = t->outer.axes;
    struct layout *l = &t->slice;
    cpu_layout_start(l, after, x->dim + axis + 1, 1);
    cpu_layout_add(l, t->out, t->item, after, x->dim + axis + 1, out_stride);
    cpu_layout_add(l, data, t->item, after, x->dim + axis + 1, array_stride(x) + axis + 1);
    cpu_layout_merge(l);
    bool dense = l->axes == 0 || (l->axes == 1 && l->axis[0].stride[FROM] == (int64_t)t->item);
    t->run = dense ? (size_t)l->size * t->item : 0;
    for (; l->axes < 2; l->axes++) {
        if (l->axes)
            l->axis[1] = l->axis[0];
        l->axis[0] = (struct layout_axis){.dim = 1, .stride = {(int64_t)t->item, (int64_t)t->item}};
    }
    l->loops = l->axes - 2;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
    for (int j = 0; j < t->outer.axes; j++)
        t->outer.axis[j].step = 1;
}

bool cpu_take(const struct call *c) {
    union scalar room, index_room;
    void *list;
    zl_array x = c->in[0], indices = c->in[1], out = call_output(c, 0);
    int axis = (int)call_args(c)[0], after = x->ndim - axis - 1;
    struct taking t;
    t.item = array_item(x);
    t.out = cpu_data(out);
    t.count = indices->size;
    t.dim = x->dim[axis];
    t.step = array_stride(x)[axis] * (int64_t)t.item;
    t.index = read_indices(indices, &index_room, &list);
    if (!t.index)
        return false;
    split_axes(&t, x, axis, array_data(x, &room), array_stride(out) + out->ndim - after, after);
    int64_t bytes = t.slice.size * (int64_t)t.item;
    cpu_split(t.outer.size * t.count, CPU_SPLIT / 2 / (bytes + 16) + 1, take_part, &t);
    memory_free(list);
    return true;
}
