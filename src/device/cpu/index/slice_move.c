// slice_move.c - copies slices of an array, or combines them with their destination.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum { TO, FROM };

row_fn *cpu_update_row(int update, zl_dtype dtype) {
    return update == UPDATE_SET ? NULL : cpu_level()->rows->op[op_update_row((enum update)update)][dtype][0];
}

// Pads the slice to at least two axes, because the last two are moved as one rectangle.
static void add_axes(struct layout *l, int64_t item) {
    for (; l->axes < 2; l->axes++) {
        if (l->axes)
            l->axis[1] = l->axis[0];
        l->axis[0] = (struct layout_axis){.dim = 1, .stride = {item, item}};
    }
    l->loops = l->axes - 2;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
}

void cpu_slice_plan(struct slice_move *s, zl_dtype dtype, int update, int ndim, const int64_t *dim,
                    const int64_t *to_stride, const int64_t *from_stride) {
    struct layout *l = &s->layout;
    s->item = zl_dtype_size(dtype);
    s->combine = cpu_update_row(update, dtype);
    s->elements = cpu_scatter_elements(update, dtype);
    cpu_layout_start(l, ndim, dim, 1);
    cpu_layout_add(l, NULL, s->item, ndim, dim, to_stride);
    cpu_layout_add(l, NULL, s->item, ndim, dim, from_stride);
    cpu_layout_merge(l);
    int64_t item = (int64_t)s->item;
    bool dense =
        l->axes == 0 || (l->axes == 1 && l->axis[0].stride[TO] == item && l->axis[0].stride[FROM] == item);
    s->run = dense ? (size_t)l->size * s->item : 0;
    add_axes(l, item);
}

// Combines a row by a row kernel if both sides are contiguous, else element by element.
static void combine_row(const struct slice_move *s, char *to, const char *from) {
    const struct layout_axis *a = &s->layout.axis[s->layout.axes - 1];
    int64_t item = (int64_t)s->item;
    if (a->stride[TO] == item && a->stride[FROM] == item) {
        cpu_call_row(s->combine, to, to, from, NULL, a->dim);
        return;
    }
    for (int64_t i = 0; i < a->dim; i++)
        s->elements(to, (int64_t[]){i * a->stride[TO]}, from + i * a->stride[FROM], 0, 1);
}

static void move_rectangle(const struct slice_move *s, char *to, const char *from) {
    const struct layout *l = &s->layout;
    const struct layout_axis *a = &l->axis[l->axes - 2], *b = &l->axis[l->axes - 1];
    if (!s->combine)
        cpu_move(s->item, to, (struct stride2){a->stride[TO], b->stride[TO]}, from,
                 (struct stride2){a->stride[FROM], b->stride[FROM]}, a->dim, b->dim);
    for (int64_t i = 0; s->combine && i < a->dim; i++)
        combine_row(s, to + i * a->stride[TO], from + i * a->stride[FROM]);
}

void cpu_slice_strided(const struct slice_move *s, char *to, const char *from) {
    const struct layout *l = &s->layout;
    struct walk w;
    int64_t tiles = 1;
    for (int j = 0; j < l->loops; j++)
        tiles *= l->axis[j].dim;
    cpu_walk_to(l, &w, 0);
    for (;;) {
        move_rectangle(s, to + (intptr_t)w.data[TO], from + (intptr_t)w.data[FROM]);
        if (--tiles == 0)
            return;
        cpu_walk_next(l, &w);
    }
}
