// kernels_positions.c - places in an array that several arrays of indices give: their part of texts and arguments of kernels.

#include "device/kernels/kernels_positions.h"

bool kernel_indices_lie(const struct call *c, int first, int count) {
    for (int k = first; k < first + count; k++)
        if (array_is(c->in[k], ARRAY_INLINE))
            return false;
    return count <= KERNEL_INDICES;
}

void kernel_write_places(struct text *out, const struct index_key *key) {
    text_add(out, "struct zl_axes { idx dim[8]; idx stride[%d][8]; };\n#define INDICES ", key->count + 1);
    for (int k = 0; k < key->count; k++)
        text_add(out, "GLOBAL const %s *index%d, i64 index_at%d, i64 dim%d, i64 last%d, i64 step%d, ",
                 kernel_memory_type((zl_dtype)key->dtype[k]), k, k, k, k, k);
    text_add(out, "\n#define PLACE(number) \\\n    idx rest = number; \\\n    i64 place = 0; \\\n    bool "
                  "inside = true; \\\n");
    for (int k = 0; k < key->count; k++)
        text_add(out, "    idx which%d = 0; \\\n", k);
    text_add(out, "    for (i32 axis = axes - 1; axis >= 0; axis--) { \\\n"
                  "        idx next = rest / s.dim[axis], at = rest - next * s.dim[axis]; \\\n"
                  "        rest = next; \\\n        place += (i64)at * s.stride[0][axis]; \\\n");
    for (int k = 0; k < key->count; k++)
        text_add(out, "        which%d += at * s.stride[%d][axis]; \\\n", k, k + 1);
    text_add(out, "    } \\\n");
    for (int k = 0; k < key->count; k++)
        text_add(out,
                 "    { %s given = index%d[index_at%d + which%d]; \\\n"
                 "      i64 at = %s; \\\n"
                 "      at += at < 0 ? dim%d : 0; \\\n"
                 "      inside = inside && at >= 0 && at <= last%d; \\\n"
                 "      place += (at < 0 ? 0 : at > last%d ? last%d : at) * step%d; } \\\n",
                 kernel_memory_type((zl_dtype)key->dtype[k]), k, k, k,
                 key->dtype[k] == ZL_UINT64 ? "given >> 63 ? 0x7fffffffffffffff : (i64)given" : "(i64)given",
                 k, k, k, k, k);
    text_add(out, "\n");
}

bool kernel_add_indices(const struct kernel_place *p, struct kernel_call *k, const struct index_list *list) {
    for (int i = 0; i < list->count; i++) {
        zl_array x = list->index[i];
        void *memory = kernel_reach(p, x);
        if (!memory)
            return false;
        kernel_add_memory(k, memory);
        kernel_add_int(k, list->offset[i], true);
        kernel_add_int(k, list->dim[i], true);
        kernel_add_int(k, list->last[i], true);
        kernel_add_int(k, list->step[i], true);
    }
    return true;
}

struct index_key kernel_index_key(const struct index_list *list) {
    struct index_key key = {.count = list->count};
    for (int i = 0; i < list->count; i++)
        key.dtype[i] = list->index[i]->dtype;
    return key;
}

// Gather -----------------------------------------------------------------------------------------------------------

struct recipe {
    int32_t bytes, wide;
    struct index_key key;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    kernel_write_places(out, &w->r->key);
    text_add(
        out,
        "KERNEL zl_kernel(GLOBAL %s *y, GLOBAL const %s *x, INDICES i64 x_at, idx n, AXES s, i32 axes) {\n"
        "    idx i = GROUP * THREADS + THREAD;\n    if (i >= n)\n        return;\n    PLACE(i)\n"
        "    y[i] = x[x_at + place];\n}\n",
        kernel_item_type((size_t)w->r->bytes), kernel_item_type((size_t)w->r->bytes));
    return true;
}

// l: axes of the result; operands: x, then the indices.
static bool gather(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l,
                   const struct index_list *list) {
    zl_array x = c->in[0];
    struct kernel_call k;
    kernel_begin_call(&k);
    if (l->axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES);
    struct recipe r = {(int32_t)array_item(x), layout_is_wide(l), kernel_index_key(list), "gather"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, call_first(c)), *from = kernel_reach(p, x);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    if (!kernel_add_indices(p, &k, list))
        return false;
    kernel_add_int(&k, x->offset, true);
    kernel_add_int(&k, l->size, r.wide);
    kernel_add_axes(&k, l, (2u << list->count) - 1, r.wide);
    kernel_add_int(&k, l->axes, false);
    return kernel && to && from &&
           kernel_launch(p, kernel, (l->size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}

bool kernel_can_gather(const struct call *c) {
    return kernel_indices_lie(c, 0, c->inputs);
}

bool kernel_gather(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0];
    struct index_list list = {.count = c->inputs - 1};
    const int64_t *axes = call_args(c) + 1, *size = axes + list.count;
    struct kernel_layout l;
    layout_begin(&l, 1 + list.count);
    for (int i = 0; i < list.count; i++) {
        list.index[i] = c->in[1 + i];
        list.offset[i] = c->in[1 + i]->offset;
        list.dim[i] = x->dim[axes[i]];
        list.last[i] = x->dim[axes[i]] - size[axes[i]];
        list.step[i] = array_stride(x)[axes[i]];
    }
    for (int axis = 0; list.count && axis < c->in[1]->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {0};
        for (int i = 0; i < list.count; i++)
            stride[1 + i] = array_stride(c->in[1 + i])[axis];
        layout_push(&l, c->in[1]->dim[axis], stride);
    }
    for (int axis = 0; axis < x->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {array_stride(x)[axis]};
        layout_push(&l, size[axis], stride);
    }
    return gather(p, c, &l, &list);
}

struct index_list kernel_list_starts(zl_array x, zl_array starts, const int64_t *axes, const int64_t *size) {
    struct index_list list = {.count = (int)starts->size};
    for (int i = 0; i < list.count; i++) {
        list.index[i] = starts;
        list.offset[i] = starts->offset + (starts->ndim ? i * array_stride(starts)[0] : 0);
        list.dim[i] = x->dim[axes[i]];
        list.last[i] = x->dim[axes[i]] - size[axes[i]];
        list.step[i] = array_stride(x)[axes[i]];
    }
    return list;
}

// How many starts there are is how many axes the arguments name.
bool kernel_can_dynamic_slice(const struct call *c) {
    return kernel_indices_lie(c, 0, 2) && call_args(c)[0] <= KERNEL_INDICES;
}

bool kernel_dynamic_slice(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    struct index_list list = kernel_list_starts(x, c->in[1], call_args(c) + 1, y->dim);
    struct kernel_layout l;
    layout_begin(&l, 1 + list.count);
    for (int axis = 0; axis < x->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {array_stride(x)[axis]};
        layout_push(&l, y->dim[axis], stride);
    }
    return gather(p, c, &l, &list);
}
