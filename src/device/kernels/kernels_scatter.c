// kernels_scatter.c - slices written into an array, or combined with what it holds, at places that indices give.
//
// Places are sorted, each with the number of its update: so a thread that comes to the first update of a place takes all that
// fall on it one after the other, in the order in which they are given. Slices that may overlap come one by one.

#include "device/kernels/kernels_positions.h"
#include "op/ops.h"

#include <string.h>

struct recipe {
    int32_t update, dtype, wide, sorted;
    char name[12]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const enum tile_op updates[] = {
    [UPDATE_ADD] = TILE_ADD, [UPDATE_PROD] = TILE_MUL, [UPDATE_MAX] = TILE_MAX, [UPDATE_MIN] = TILE_MIN};

static bool can_combine(enum update update, zl_dtype dtype) {
    return update == UPDATE_SET || tile_row_takes(updates[update], dtype);
}

bool kernel_can_scatter(const struct call *c) {
    return can_combine((enum update)call_args(c)[0], (zl_dtype)c->in[0]->dtype) &&
           kernel_indices_lie(c, 1, c->inputs - 2) && !array_is(c->in[c->inputs - 1], ARRAY_INLINE);
}

bool kernel_can_put_along(const struct call *c) {
    return can_combine((enum update)call_args(c)[1], (zl_dtype)c->in[0]->dtype) &&
           kernel_indices_lie(c, 1, 2);
}

// Places -----------------------------------------------------------------------------------------------------------

// l: axes of the indices; operands: the result, then the indices.
static bool find_places(const struct kernel_place *p, void *places, const struct kernel_layout *l,
                        const struct index_list *list, bool moves) {
    struct kernel_call k;
    int64_t size[2 + KERNEL_INDICES] = {l->size};
    kernel_begin_call(&k);
    struct place_recipe r = {"places", kernel_indices_are_wide(l, list), moves, kernel_index_key(list)};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, kernel_make_places, &r);
    if (!kernel || !kernel_add_indices(p, &k, l, list, r.wide))
        return false;
    kernel_add_memory(&k, places);
    return kernel_launch_tiles(p, kernel, &k, 1 + kernel_list_sizes(l, list, size + 1), size);
}

// Updates ----------------------------------------------------------------------------------------------------------

static const char text[] =
    "#define NUMBER(i) (SORTED ? (idx)order[i] : (idx)(i))\n"
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "struct zl_slice { idx dim[8]; idx stride[2][8]; };\n"
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *x, i64 x_at, GLOBAL const i64 *places, GLOBAL const "
    "u32 *order, "
    "idx begin, idx end, idx size,\n"
    "                 AXES s, i32 axes, AXES_OF(zl_slice) slice, i32 slice_axes) {\n"
    "    idx i = GROUP * THREADS + THREAD, number = begin + i / size, rest = i % size, there = 0, here = 0;\n"
    "    if (number >= end)\n"
    "        return;\n"
    "    i64 place = places[NUMBER(number)];\n"
    "    if (place == 0x7fffffffffffffff || (SORTED && number > begin && places[NUMBER(number - 1)] == "
    "place))\n"
    "        return;\n"
    "    for (i32 axis = slice_axes - 1; axis >= 0; axis--) {\n"
    "        idx next = rest / slice.dim[axis], at = rest - next * slice.dim[axis];\n"
    "        there += at * slice.stride[0][axis];\n"
    "        here += at * slice.stride[1][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    ITEM all = y[place + there];\n"
    "    for (; number < end && places[NUMBER(number)] == place; number++) {\n"
    "        idx left = NUMBER(number), from = here;\n"
    "        for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "            idx next = left / s.dim[axis];\n"
    "            from += (left - next * s.dim[axis]) * s.stride[0][axis];\n"
    "            left = next;\n"
    "        }\n"
    "        ITEM value = x[x_at + from];\n"
    "        COMBINE\n"
    "    }\n"
    "    y[place + there] = all;\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype;
    const char *part = kernel_part_type(dtype);
    kernel_begin(out, w->dialect, r->wide);
    text_add(out, "#define ITEM %s\n#define SORTED %d\n", kernel_memory_type(dtype), r->sorted);
    if (r->update == UPDATE_SET)
        text_add(out, "#define COMBINE all = value;\n%s", text);
    else if (!kernel_element(out, tile_row_kernel(updates[r->update], dtype, "vv"), w->dialect, "step"))
        return false;
    else
        text_add(out,
                 "#define COMBINE { ITEM next; step((%s *)&next, (const %s *)&all, (const %s *)&value); all "
                 "= next; }\n%s",
                 part, part, part, text);
    return true;
}

struct scattering {
    const struct kernel_place *place;
    const struct call *call;
    enum update update;
    bool overlaps; // slices may
    bool moves;    // a slice that leaves the array is moved back until it does not
    struct index_list list;
    struct kernel_layout at;    // of the indices; operands: the result, the indices
    struct kernel_layout entry; // of the updates along the axes of the indices
    struct kernel_layout slice; // operands: the result, the update
};

static bool put(const struct scattering *s, zl_array x, void *places, void *order, int64_t begin,
                int64_t end) {
    const struct kernel_place *p = s->place;
    struct kernel_call k;
    int64_t all = (end - begin) * s->slice.size;
    kernel_begin_call(&k);
    struct recipe r = {(int32_t)s->update, x->dtype,
                       layout_is_wide(&s->slice) || layout_is_wide(&s->entry) || all > INT32_MAX / 2,
                       !s->overlaps, "scatter"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, call_first(s->call)), *from = kernel_reach(p, x);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_memory(&k, places);
    kernel_add_memory(&k, order);
    kernel_add_int(&k, begin, r.wide);
    kernel_add_int(&k, end, r.wide);
    kernel_add_int(&k, s->slice.size, r.wide);
    kernel_add_axes(&k, &s->entry, 1, r.wide);
    kernel_add_int(&k, s->entry.axes, false);
    kernel_add_axes(&k, &s->slice, 3, r.wide);
    kernel_add_int(&k, s->slice.axes, false);
    return kernel && to && from && kernel_launch(p, kernel, (all + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static bool put_all(const struct scattering *s, zl_array x, void *places, void *order) {
    int64_t count = s->at.size;
    if (!find_places(s->place, places, &s->at, &s->list, s->moves))
        return false;
    if (!s->overlaps)
        return kernel_order_places(s->place, order, places, count) && put(s, x, places, order, 0, count);
    for (int64_t i = 0; i < count; i++)
        if (!put(s, x, places, places, i, i + 1))
            return false;
    return true;
}

static bool scatter(const struct scattering *s, zl_array x) {
    const struct device *d = s->place->target->device;
    int unit = s->place->unit, lane = s->place->lane;
    int64_t count = s->at.size;
    size_t capacity[2] = {0};
    if (s->at.axes > KERNEL_AXES || s->entry.axes > KERNEL_AXES || s->slice.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes that cannot be joined: use zl_contiguous first",
                           s->call->op->name, KERNEL_AXES);
    if (!kernel_copy_input(s->place, s->call))
        return false;
    if (!count || !s->slice.size)
        return true;
    void *places = device_alloc(d, unit, lane, (size_t)count * 8, &capacity[0]),
         *order = places ? device_alloc(d, unit, lane, (size_t)count * 4, &capacity[1]) : NULL;
    bool done = order && put_all(s, x, places, order);
    if (order)
        device_free(d, unit, lane, order, capacity[1]); // who gets it comes later in the lane's order
    if (places)
        device_free(d, unit, lane, places, capacity[0]);
    return done;
}

// Ops --------------------------------------------------------------------------------------------------------------

bool kernel_scatter(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), x = c->in[c->inputs - 1];
    int count = c->inputs - 2, outer = x->ndim - y->ndim; // axes of the indices
    const int64_t *axes = call_args(c) + 1, *size = x->dim + outer;
    struct scattering s = {
        .place = p, .call = c, .update = (enum update)call_args(c)[0], .list = {.count = count}};
    layout_begin(&s.at, 1 + count);
    layout_begin(&s.entry, 1);
    layout_begin(&s.slice, 2);
    for (int i = 0; i < count; i++) {
        s.list.index[i] = c->in[1 + i];
        s.list.offset[i] = c->in[1 + i]->offset;
        s.list.dim[i] = y->dim[axes[i]];
        s.list.last[i] = y->dim[axes[i]] - size[axes[i]];
        s.list.step[i] = array_stride(y)[axes[i]];
        s.overlaps |= size[axes[i]] > 1;
    }
    for (int axis = 0; axis < outer; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {0};
        for (int i = 0; i < count; i++)
            stride[1 + i] = array_stride(c->in[1 + i])[axis];
        layout_push(&s.at, x->dim[axis], stride);
        layout_push(&s.entry, x->dim[axis], &array_stride(x)[axis]);
    }
    for (int axis = 0; axis < y->ndim; axis++)
        layout_push(&s.slice, size[axis],
                    (const int64_t[]){array_stride(y)[axis], array_stride(x)[outer + axis]});
    return scatter(&s, x);
}

bool kernel_put_along(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), indices = c->in[1], x = c->in[2];
    int axis = (int)call_args(c)[0];
    struct scattering s = {.place = p,
                           .call = c,
                           .update = (enum update)call_args(c)[1],
                           .list = {.count = 1,
                                    .index = {indices},
                                    .offset = {indices->offset},
                                    .dim = {y->dim[axis]},
                                    .last = {y->dim[axis] - 1},
                                    .step = {array_stride(y)[axis]}}};
    layout_begin(&s.at, 2);
    layout_begin(&s.entry, 1);
    layout_begin(&s.slice, 2);
    for (int i = 0; i < indices->ndim; i++) {
        layout_push(&s.at, indices->dim[i],
                    (const int64_t[]){i == axis ? 0 : array_stride(y)[i], array_stride(indices)[i]});
        layout_push(&s.entry, indices->dim[i], &array_stride(x)[i]);
    }
    return scatter(&s, x);
}

bool kernel_can_dynamic_slice_update(const struct call *c) {
    return kernel_indices_lie(c, 1, 2) && c->args <= KERNEL_INDICES;
}

bool kernel_dynamic_slice_update(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c), x = c->in[1];
    struct scattering s = {.place = p, .call = c, .update = UPDATE_SET, .overlaps = true, .moves = true};
    s.list = kernel_list_starts(y, c->in[2], call_args(c), x->dim);
    layout_begin(&s.at, 1 + s.list.count);
    layout_begin(&s.entry, 1);
    layout_begin(&s.slice, 2);
    for (int axis = 0; axis < y->ndim; axis++)
        layout_push(&s.slice, x->dim[axis], (const int64_t[]){array_stride(y)[axis], array_stride(x)[axis]});
    return scatter(&s, x);
}
