// kernels_index.c - elements that indices choose along an axis: take, and take_along_axis.

#include "device/kernels/kernels.h"

struct recipe {
    int32_t bytes, index, wide; // of an element; dtype of the indices
    char name[8];               // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// An index out of range gives the nearest element.
static const char text[] = "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
                           "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *x, i64 x_at, GLOBAL const "
                           "INDEX *index, i64 index_at, i64 count,\n"
                           "                 i64 step, idx n, AXES s, i32 axes) {\n"
                           "    idx i = GROUP * THREADS + THREAD;\n"
                           "    if (i >= n)\n"
                           "        return;\n"
                           "    uidx rest = (uidx)i;\n"
                           "    idx from = 0, which = 0;\n"
                           "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                           "        uidx next = rest / (uidx)s.dim[axis];\n"
                           "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n"
                           "        rest = next;\n"
                           "        from += at * s.stride[0][axis];\n"
                           "        which += at * s.stride[1][axis];\n"
                           "    }\n"
                           "    INDEX given = index[index_at + which];\n"
                           "    i64 place = IS_LARGE(given) ? count - 1 : (i64)given;\n"
                           "    place += place < 0 ? count : 0;\n"
                           "    place = place < 0 ? 0 : place < count ? place : count - 1;\n"
                           "    y[i] = x[x_at + from + place * step];\n"
                           "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    text_add(out, "#define ITEM %s\n#define INDEX %s\n#define IS_LARGE(x) %s\n",
             kernel_item_type((size_t)w->r->bytes), kernel_memory_type((zl_dtype)w->r->index),
             w->r->index == ZL_UINT64 ? "(x >> 63 != 0)" : "0");
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

// l: axes of the result, with strides of x, but for the axis that is indexed, and of the indices.
static bool take(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l,
                 int axis) {
    zl_array x = c->in[0], indices = c->in[1];
    struct kernel_call k;
    kernel_begin_call(&k);
    if (l->axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES);
    struct recipe r = {(int32_t)array_item(x), indices->dtype, layout_is_wide(l), "take"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, call_first(c)), *from = kernel_reach(p, x), *which = kernel_reach(p, indices);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_memory(&k, which);
    kernel_add_int(&k, indices->offset, true);
    kernel_add_int(&k, x->dim[axis], true);
    kernel_add_int(&k, array_stride(x)[axis], true);
    kernel_add_int(&k, l->size, r.wide);
    kernel_add_axes(&k, l, 3, r.wide);
    kernel_add_int(&k, l->axes, false);
    return kernel && to && from && which &&
           kernel_launch(p, kernel, (l->size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

// Numbers that lie in no memory are rare here.
bool kernel_can_take(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) && !array_is(c->in[1], ARRAY_INLINE);
}

bool kernel_take(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    int axis = (int)call_args(c)[0];
    struct kernel_layout l;
    layout_begin(&l, 2);
    for (int i = 0; i < axis; i++)
        layout_push(&l, x->dim[i], (const int64_t[]){array_stride(x)[i], 0});
    for (int i = 0; i < indices->ndim; i++)
        layout_push(&l, indices->dim[i], (const int64_t[]){0, array_stride(indices)[i]});
    for (int i = axis + 1; i < x->ndim; i++)
        layout_push(&l, x->dim[i], (const int64_t[]){array_stride(x)[i], 0});
    return take(p, c, &l, axis);
}

bool kernel_take_along(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    int axis = (int)call_args(c)[0];
    struct kernel_layout l;
    layout_begin(&l, 2);
    for (int i = 0; i < x->ndim; i++)
        layout_push(&l, indices->dim[i],
                    (const int64_t[]){i == axis ? 0 : array_stride(x)[i], array_stride(indices)[i]});
    return take(p, c, &l, axis);
}
