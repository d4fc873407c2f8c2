// kernels_scatter.c - writes slices into an array, or combines them with what it holds, at positions given by
// indices.
//
// Positions are sorted, each with the number of its update. The thread that comes to the first update of a
// position then applies all updates of that position, in the order in which they were given
// (src/kernel/scatter.tile). Slices that may overlap are written one by one.

#include "device/kernels/kernels_positions.h"
#include "op/ops.h"

static bool can_combine(enum update update, zl_dtype dtype) {
    return update == UPDATE_SET || tile_row_takes(op_update_row(update), dtype);
}

bool kernel_can_scatter(const struct call *c) {
    return can_combine((enum update)call_args(c)[0], (zl_dtype)c->in[0]->dtype) &&
           c->inputs - 2 <= KERNEL_INDICES;
}

bool kernel_can_put_along(const struct call *c) {
    return can_combine((enum update)call_args(c)[1], (zl_dtype)c->in[0]->dtype);
}

// Places ----------------------------------------------------------------------------------------------------

struct scattering {
    const struct kernel_place *place;
    const struct call *call;
    enum update update;
    bool overlaps; // slices may overlap, so they are written one by one
    int64_t line;  // so many consecutive entries may have equal positions; 1: all positions differ
    bool wide;
    bool moves; // a slice that would leave the array is moved back into it
    struct index_list list;
    struct kernel_layout at;    // axes of the indices; operands: the result, the indices
    struct kernel_layout entry; // the updates along the axes of the indices
    struct kernel_layout slice; // axes of a slice; operands: the result, the update
};

// Finds the position of each entry; all bits are set if an index is out of range.
static bool find_places(const struct scattering *s, void *places) {
    struct kernel_work w;
    work_open(&w, s->place, s->call->op->name);
    WORK_SIZES(&w, s->at.size);
    kernel_add_indices(&w, &s->at, &s->list);
    work_memory(&w, places);
    w.wide = s->wide; // the same in all launches
    struct place_recipe r = {"places", s->wide, s->moves, false, false, 0, kernel_index_key(&s->list)};
    return work_run(&w, &r, sizeof r, kernel_make_places);
}

// Updates ---------------------------------------------------------------------------------------------------

static bool put(const struct scattering *s, zl_array x, const struct kernel_items *sorted, int64_t begin,
                int64_t end) {
    zl_array y = call_first(s->call);
    zl_dtype dtype = (zl_dtype)x->dtype;
    bool is_set = s->update == UPDATE_SET;
    struct kernel_work w;
    work_open(&w, s->place, s->call->op->name);
    WORK_SIZES(&w, (end - begin) * s->slice.size, s->slice.size, begin, s->at.size, s->line,
               layout_inner(&s->entry), layout_inner(&s->slice), kernel_elements(y));
    work_array(&w, x);
    work_memory(&w, sorted->key.memory);
    work_memory(&w, sorted->at.memory);
    work_table(&w, &s->entry);
    work_table(&w, &s->slice);
    work_result(&w, y);
    w.wide = s->wide; // the same in all launches
    return WORK_FILE(&w, "scatter",
                     is_set ? "ITEM=u%d,COMBINE=%o,SET=%d,SORTED=%d,%i,COUNT=u%b"
                            : "ITEM=%t,COMBINE=%o,SET=%d,SORTED=%d,%i,COUNT=u%b",
                     is_set ? 8 * (int32_t)zl_dtype_size(dtype) : (int32_t)dtype,
                     is_set ? TILE_ADD : op_update_row(s->update), is_set, s->line > 1);
}

static bool put_all(const struct scattering *s, zl_array x, struct kernel_items *room) {
    int64_t count = s->at.size, each = s->overlaps ? 1 : count;
    int now = 0;
    bool done = find_places(s, room[0].key.memory);
    if (done && s->line > 1)
        done = (now = kernel_sort_places(s->place, room, s->wide, count / s->line, s->line,
                                         call_first(s->call)->size)) >= 0;
    for (int64_t i = 0; done && i < count; i += each)
        done = put(s, x, &room[now], i, i + each);
    return done;
}

static bool scatter(struct scattering *s, zl_array x) {
    zl_array y = call_first(s->call);
    const char *name = s->call->op->name;
    struct kernel_items room[2] = {{{0}}};
    int64_t count = s->at.size;
    if (!kernel_check_axes(&s->at, name) || !kernel_check_axes(&s->entry, name) ||
        !kernel_check_axes(&s->slice, name))
        return false;
    if (!kernel_copy_input(s->place, s->call))
        return false;
    if (!count || !s->slice.size)
        return true;
    s->wide = kernel_indices_are_wide(&s->at, &s->list) || kernel_layout_is_wide(&s->slice) ||
              kernel_layout_is_wide(&s->entry) || count * s->slice.size > KERNEL_NARROW ||
              MAX_OF(kernel_elements(x), kernel_elements(y)) > KERNEL_NARROW;
    int rooms = s->line > 1 ? 2 : 1;
    bool done = true;
    for (int i = 0; i < rooms; i++)
        done = done && kernel_open_items(s->place, &room[i], count, s->wide ? 8 : 4);
    done = done && put_all(s, x, room);
    for (int i = rooms - 1; i >= 0; i--)
        kernel_close_items(s->place, &room[i]);
    return done;
}

// Ops -------------------------------------------------------------------------------------------------------

bool kernel_scatter(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), x = c->in[c->inputs - 1];
    int count = c->inputs - 2, outer = x->ndim - y->ndim; // axes of the indices
    const int64_t *axes = call_args(c) + 1, *size = x->dim + outer;
    struct scattering s = {.place = p, .call = c, .update = (enum update)call_args(c)[0]};
    s.list = kernel_list_indices(y, count, c->in + 1, axes, size, &s.at);
    kernel_layout_begin(&s.entry, 1);
    kernel_layout_begin(&s.slice, 2);
    for (int i = 0; i < count; i++)
        s.overlaps |= size[axes[i]] > 1;
    for (int axis = 0; axis < outer; axis++)
        kernel_layout_push(&s.entry, x->dim[axis], &array_stride(x)[axis]);
    for (int axis = 0; axis < y->ndim; axis++)
        kernel_layout_push(&s.slice, size[axis],
                           (const int64_t[]){array_stride(y)[axis], array_stride(x)[outer + axis]});
    s.line = s.overlaps ? 1 : s.at.size;
    return scatter(&s, x);
}

bool kernel_put_along(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), indices = c->in[1], x = c->in[2];
    int axis = (int)call_args(c)[0];
    struct scattering s = {.place = p, .call = c, .update = (enum update)call_args(c)[1]};
    kernel_list_index(&s.list, y, axis, 1, indices, indices->offset);
    kernel_layout_begin(&s.at, 2);
    kernel_layout_begin(&s.entry, 1);
    kernel_layout_begin(&s.slice, 2);
    // The indexed axis comes last: only entries that differ along it may have the same position.
    for (int i = 0; i <= indices->ndim; i++) {
        int at = i == indices->ndim ? axis : i;
        if (i == axis)
            continue;
        kernel_layout_push(
            &s.at, indices->dim[at],
            (const int64_t[]){at == axis ? 0 : array_stride(y)[at], array_stride(indices)[at]});
        kernel_layout_push(&s.entry, indices->dim[at], &array_stride(x)[at]);
    }
    s.line = indices->dim[axis];
    return scatter(&s, x);
}

bool kernel_can_dynamic_slice_update(const struct call *c) {
    return c->args <= KERNEL_INDICES;
}

bool kernel_dynamic_slice_update(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), x = c->in[1];
    struct scattering s = {
        .place = p, .call = c, .update = UPDATE_SET, .overlaps = true, .line = 1, .moves = true};
    s.list = kernel_list_starts(y, c->in[2], call_args(c), x->dim);
    if (array_is(x, ARRAY_CONTIGUOUS) && !array_is(x, ARRAY_INLINE) && s.list.count)
        return kernel_copy_input(p, c) && kernel_put_slice(p, c, x, &s.list);
    kernel_layout_begin(&s.at, 1 + s.list.count);
    kernel_layout_begin(&s.entry, 1);
    kernel_layout_begin(&s.slice, 2);
    for (int axis = 0; axis < y->ndim; axis++)
        kernel_layout_push(&s.slice, x->dim[axis],
                           (const int64_t[]){array_stride(y)[axis], array_stride(x)[axis]});
    return scatter(&s, x);
}
