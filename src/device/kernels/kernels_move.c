// kernels_move.c - elements moved from one layout to another, and what is put together of that: concatenate, pad, slices
// that are replaced. Elements are moved by their size, whatever they are.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

struct recipe {
    char file[8];
    int32_t bytes, wide;   // of an element that is only moved
    int32_t update, dtype; // of elements that are combined with those there
};

static const enum tile_op updates[] = {
    [UPDATE_ADD] = TILE_ADD, [UPDATE_PROD] = TILE_MUL, [UPDATE_MAX] = TILE_MAX, [UPDATE_MIN] = TILE_MIN};

const char *kernel_item_type(size_t bytes) {
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

static struct tile_kernel *make_move(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,%s", kernel_item_type((size_t)r->bytes),
                           kernel_index_clauses(r->wide));
}

static struct tile_kernel *make_update(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,COMBINE=%s,%s", kernel_type((zl_dtype)r->dtype),
                           tile_op_name(updates[r->update]), kernel_index_clauses(r->wide));
}

// Moving -----------------------------------------------------------------------------------------------------------

// One side of a move: memory of so many elements, or a number; where its first element is, and its strides.
struct side {
    void *memory;
    const void *number;
    int64_t elements, at;
    const int64_t *stride; // NULL: all are one
};

static bool fill(const struct kernel_place *p, size_t bytes, const struct kernel_layout *l, struct side to,
                 const void *number) {
    struct kernel_call k;
    kernel_begin_call(&k);
    struct recipe r = {"fill", (int32_t)bytes, layout_is_wide(l) || to.elements > KERNEL_NARROW};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make_move, &r);
    kernel_add(&k, number, bytes);
    kernel_add_table(&k, l, r.wide);
    kernel_add_memory(&k, to.memory);
    return kernel && to.memory &&
           kernel_launch_tiles(p, kernel, &k, 4, (const int64_t[]){l->size, l->axes, to.elements, to.at});
}

static bool combine(const struct kernel_place *p, enum update update, zl_dtype dtype,
                    const struct kernel_layout *l, struct side to, struct side from) {
    struct kernel_call k;
    kernel_begin_call(&k);
    bool wide = layout_is_wide(l) || MAX_OF(to.elements, from.elements) > KERNEL_NARROW;
    struct recipe moves = {"move", (int32_t)zl_dtype_size(dtype), wide},
                  updates_it = {"update", .wide = wide, .update = (int32_t)update, .dtype = (int32_t)dtype},
                  r = update == UPDATE_SET ? moves : updates_it;
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, &r, sizeof r, update == UPDATE_SET ? make_move : make_update, &r);
    kernel_add_memory(&k, from.memory);
    kernel_add_table(&k, l, wide);
    kernel_add_memory(&k, to.memory);
    return kernel && to.memory && from.memory &&
           kernel_launch_tiles(
               p, kernel, &k, 6,
               (const int64_t[]){l->size, l->axes, to.elements, to.at, from.elements, from.at});
}

// A number that is combined with elements lies in memory, where kernels read it once for each.
static bool combine_number(const struct kernel_place *p, enum update update, zl_dtype dtype,
                           const struct kernel_layout *l, struct side to, const void *number) {
    struct kernel_layout one;
    size_t capacity;
    struct side room = {.elements = 1};
    room.memory = device_alloc(p->target->device, p->unit, p->lane, zl_dtype_size(dtype), &capacity);
    layout_begin(&one, 1);
    bool done = room.memory && fill(p, zl_dtype_size(dtype), &one, room, number) &&
                combine(p, update, dtype, l, to, room);
    if (room.memory)
        device_free(p->target->device, p->unit, p->lane, room.memory, capacity);
    return done;
}

static bool change(const struct kernel_place *p, enum update update, zl_dtype dtype, int ndim,
                   const int64_t *dim, struct side to, struct side from) {
    bool fills = from.number && update == UPDATE_SET;
    struct kernel_layout l;
    layout_begin(&l, fills ? 1 : 2);
    for (int i = 0; i < ndim; i++)
        layout_push(&l, dim[i], (const int64_t[]){to.stride[i], from.stride ? from.stride[i] : 0});
    if (l.size == 0)
        return true;
    if (update == UPDATE_SET && !from.number && kernel_is_transpose(&l))
        return kernel_transpose(p, zl_dtype_size(dtype), &l, (struct kernel_end){to.memory, to.at},
                                (struct kernel_end){from.memory, from.at});
    if (!kernel_check_axes(&l, shape_text(ndim, dim)))
        return false;
    to.elements = to.elements ? to.elements : layout_reach(&l, 0, to.at);
    if (fills)
        return fill(p, zl_dtype_size(dtype), &l, to, from.number);
    if (from.number)
        return combine_number(p, update, dtype, &l, to, from.number);
    from.elements = from.elements ? from.elements : layout_reach(&l, 1, from.at);
    return combine(p, update, dtype, &l, to, from);
}

static bool move(const struct kernel_place *p, zl_array like, int ndim, const int64_t *dim, struct side to,
                 struct side from) {
    return change(p, UPDATE_SET, (zl_dtype)like->dtype, ndim, dim, to, from);
}

// An array as it lies; its number in room, if it is one.
static struct side side_of(const struct kernel_place *p, zl_array x, union scalar *room) {
    if (!array_is(x, ARRAY_INLINE))
        return (struct side){kernel_reach(p, x), NULL, kernel_elements(x), x->offset, array_stride(x)};
    scalar_write(x, (zl_dtype)x->dtype, room);
    return (struct side){.number = room};
}

bool kernel_copy_out(const struct kernel_place *p, zl_array x, void *to) {
    union scalar room;
    OP_ROOM(int64_t, stride, x->ndim);
    if (!stride)
        return false;
    shape_row_major(x->ndim, x->dim, stride);
    return move(p, x, x->ndim, x->dim, (struct side){.memory = to, .stride = stride}, side_of(p, x, &room));
}

bool kernel_stretch_out(const struct kernel_place *p, zl_array x, int ndim, const int64_t *dim, void *to) {
    union scalar room;
    struct side from = side_of(p, x, &room);
    int added = ndim - x->ndim;
    OP_ROOM(int64_t, stride, 2 * (int64_t)ndim);
    if (!stride)
        return false;
    shape_row_major(ndim, dim, stride);
    for (int i = 0; from.stride && i < ndim; i++)
        stride[ndim + i] = i < added || x->dim[i - added] == 1 ? 0 : from.stride[i - added];
    from.stride = from.stride ? stride + ndim : NULL;
    return move(p, x, ndim, dim, (struct side){.memory = to, .stride = stride}, from);
}

bool kernel_move(const struct kernel_place *p, zl_dtype dtype, int ndim, const int64_t *dim, void *to,
                 const int64_t *to_stride, void *from, const int64_t *from_stride) {
    return change(p, UPDATE_SET, dtype, ndim, dim, (struct side){.memory = to, .stride = to_stride},
                  (struct side){.memory = from, .stride = from_stride});
}

// Ops --------------------------------------------------------------------------------------------------------------

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

// The same number for all elements: inline, or read through strides of 0.
static struct side one_for_all(const struct kernel_place *p, zl_array x, union scalar *room) {
    struct side s = side_of(p, x, room);
    s.stride = NULL;
    return s;
}

bool kernel_pad(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    union scalar room, number;
    struct side to = side_of(p, y, NULL);
    if (!move(p, y, y->ndim, y->dim, to, one_for_all(p, c->in[1], &number)))
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
    OP_ROOM(int64_t, stride, y->ndim);
    struct side to = side_of(p, y, NULL);
    if (!stride || !kernel_copy_input(p, c))
        return false;
    for (int i = 0; i < y->ndim; i++) {
        struct slice_run run = op_slice_run(y->dim[i], start[i], stop[i], step[i]);
        stride[i] = run.step * array_stride(y)[i];
        to.at += run.start * array_stride(y)[i];
    }
    to.stride = stride;
    return change(p, (enum update)call_args(c)[0], (zl_dtype)y->dtype, update->ndim, update->dim, to,
                  side_of(p, update, &room));
}
