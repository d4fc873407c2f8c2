// kernels_move.c - elements moved from one layout to another, and what is put together of that: concatenate, pad, slices
// that are replaced. Elements are moved by their size, whatever they are.

#include "device/kernels/kernels.h"
#include "op/ops.h"

#include <string.h>

struct recipe {
    int32_t bytes, fills, wide; // of an element; all of them are one number
    int32_t update,
        dtype;    // of elements that are combined with those there; UPDATE_SET: they take their place
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// Text -------------------------------------------------------------------------------------------------------------

static const char text[] =
    "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
    "KERNEL zl_kernel(GLOBAL ITEM *to, i64 to_at, SOURCE, i64 from_at, idx n, AXES s, i32 axes) {\n"
    "    idx i = GROUP * THREADS + THREAD;\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    uidx rest = (uidx)i;\n"
    "    idx there = 0, here = 0;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        uidx next = rest / (uidx)s.dim[axis];\n"
    "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n"
    "        rest = next;\n"
    "        there += at * s.stride[0][axis];\n"
    "        here += at * s.stride[1][axis];\n"
    "    }\n"
    "    ITEM value = VALUE;\n"
    "    PUT\n"
    "}\n";

static const enum tile_op updates[] = {
    [UPDATE_ADD] = TILE_ADD, [UPDATE_PROD] = TILE_MUL, [UPDATE_MAX] = TILE_MAX, [UPDATE_MIN] = TILE_MIN};

const char *kernel_item_type(size_t bytes) {
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

// What is done with an element: replaced, or combined by a row.
static bool add_put(struct text *out, const struct writer *w) {
    const struct recipe *r = w->r;
    if (r->update == UPDATE_SET) {
        text_add(out, "#define ITEM %s\n#define PUT to[to_at + there] = value;\n",
                 kernel_item_type((size_t)r->bytes));
        return true;
    }
    const char *part = kernel_part_type((zl_dtype)r->dtype);
    text_add(out,
             "#define ITEM %s\n#define PUT ITEM old = to[to_at + there], all; "
             "step((%s *)&all, (const %s *)&old, (const %s *)&value); to[to_at + there] = all;\n",
             kernel_memory_type((zl_dtype)r->dtype), part, part, part);
    return kernel_element(out, tile_row_kernel(updates[r->update], (zl_dtype)r->dtype, "vv"), w->dialect,
                          "step");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    if (!add_put(out, w))
        return false;
    text_add(out, "#define SOURCE %s\n#define VALUE %s\n",
             w->r->fills ? "ITEM number" : "GLOBAL const ITEM *from",
             w->r->fills ? "number" : "from[from_at + here]");
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

// Moving -----------------------------------------------------------------------------------------------------------

// One side of a move: memory, or a number; where its first element is, and its strides.
struct side {
    void *memory;
    const void *number;
    int64_t at;
    const int64_t *stride;
};

static bool combine(const struct kernel_place *p, enum update update, zl_dtype dtype, int ndim,
                    const int64_t *dim, struct side to, struct side from) {
    size_t bytes = zl_dtype_size(dtype);
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 2);
    for (int i = 0; i < ndim; i++)
        layout_push(&l, dim[i], (const int64_t[]){to.stride[i], from.stride ? from.stride[i] : 0});
    if (l.size == 0)
        return true;
    if (update == UPDATE_SET && !from.number && kernel_is_transpose(&l))
        return kernel_transpose(p, bytes, &l, (struct kernel_end){to.memory, to.at},
                                (struct kernel_end){from.memory, from.at});
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           KERNEL_AXES, shape_text(ndim, dim));
    struct recipe r = {(int32_t)bytes,
                       from.number != NULL,
                       layout_is_wide(&l),
                       (int32_t)update,
                       update == UPDATE_SET ? 0 : (int32_t)dtype,
                       "move"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    kernel_add_memory(&k, to.memory);
    kernel_add_int(&k, to.at, true);
    if (from.number)
        kernel_add(&k, from.number, bytes);
    else
        kernel_add_memory(&k, from.memory);
    kernel_add_int(&k, from.at, true);
    kernel_add_int(&k, l.size, r.wide);
    kernel_add_axes(&k, &l, 3, r.wide);
    kernel_add_int(&k, l.axes, false);
    return kernel && (to.memory && (from.memory || from.number)) &&
           kernel_launch(p, kernel, (l.size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

static bool move(const struct kernel_place *p, zl_array like, int ndim, const int64_t *dim, struct side to,
                 struct side from) {
    return combine(p, UPDATE_SET, (zl_dtype)like->dtype, ndim, dim, to, from);
}

// An array as it lies; its number in room, if it is one.
static struct side side_of(const struct kernel_place *p, zl_array x, union scalar *room) {
    if (!array_is(x, ARRAY_INLINE))
        return (struct side){kernel_reach(p, x), NULL, x->offset, array_stride(x)};
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
    return combine(p, UPDATE_SET, dtype, ndim, dim, (struct side){.memory = to, .stride = to_stride},
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
    return combine(p, (enum update)call_args(c)[0], (zl_dtype)y->dtype, update->ndim, update->dim, to,
                   side_of(p, update, &room));
}
