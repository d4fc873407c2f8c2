// kernels_transpose.c - copies whose elements are neighbours along one axis before and along another after: in tiles
// through local memory, so that neighbouring threads read and write neighbours.

#include "device/kernels/kernels.h"

enum { SIDE = 32, LEAST = 16 }; // of a tile; elements along both axes from which it pays

struct recipe {
    int32_t bytes, wide;
    char name[16]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const char text[] =
    "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
    "KERNEL zl_kernel(GLOBAL ITEM *to, GLOBAL const ITEM *from, i64 from_at, idx rows, idx cols, i64 to_row, "
    "i64 from_col,\n"
    "                 idx tiles_r, idx tiles_c, AXES s, i32 axes) {\n"
    "    LOCAL ITEM room[32][33];\n"
    "    idx number = GROUP / (tiles_r * tiles_c), tile = GROUP % (tiles_r * tiles_c);\n"
    "    idx row = tile / tiles_c * 32, col = tile % tiles_c * 32;\n"
    "    i32 x = THREAD % 32, y = THREAD / 32;\n"
    "    from += from_at;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = number / s.dim[axis], at = number - next * s.dim[axis];\n"
    "        to += (i64)at * s.stride[0][axis];\n"
    "        from += (i64)at * s.stride[1][axis];\n"
    "        number = next;\n"
    "    }\n"
    "    for (i32 j = y; j < 32; j += THREADS / 32)\n"
    "        if (row + x < rows && col + j < cols)\n"
    "            room[j][x] = from[(row + x) + (i64)(col + j) * from_col];\n"
    "    BARRIER;\n"
    "    for (i32 j = y; j < 32; j += THREADS / 32)\n"
    "        if (row + j < rows && col + x < cols)\n"
    "            to[(i64)(row + j) * to_row + (col + x)] = room[x][j];\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    text_add(out, "#define ITEM %s\n", kernel_item_type((size_t)w->r->bytes));
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

int kernel_transposed_axis(const struct kernel_layout *l) {
    int last = l->axes - 1, found = -1;
    for (int i = 0; i < last; i++)
        if (l->stride[0][i] == 1 && l->dim[i] >= LEAST)
            found = i;
    return last > 0 && last <= KERNEL_AXES && l->dim[last] >= LEAST && l->stride[0][last] > 1 ? found : -1;
}

bool kernel_transpose(const struct kernel_place *p, const struct kernel_layout *l, int axis, zl_array y,
                      zl_array x) {
    int last = l->axes - 1;
    int64_t stride = 1, dense[64] = {0}; // of y
    int64_t tiles_r = (l->dim[axis] + SIDE - 1) / SIDE, tiles_c = (l->dim[last] + SIDE - 1) / SIDE;
    struct kernel_layout batch;
    struct kernel_call k;
    kernel_begin_call(&k);
    for (int i = last; i >= 0; stride *= l->dim[i--])
        dense[i] = stride;
    layout_begin(&batch, 2);
    for (int i = 0; i < last; i++)
        if (i != axis)
            layout_push(&batch, l->dim[i], (const int64_t[]){dense[i], l->stride[0][i]});
    struct recipe r = {(int32_t)array_item(x), layout_is_wide(l), "transpose"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y), *from = kernel_reach(p, x);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_int(&k, l->dim[axis], r.wide);
    kernel_add_int(&k, l->dim[last], r.wide);
    kernel_add_int(&k, dense[axis], true);
    kernel_add_int(&k, l->stride[0][last], true);
    kernel_add_int(&k, tiles_r, r.wide);
    kernel_add_int(&k, tiles_c, r.wide);
    kernel_add_axes(&k, &batch, 3, r.wide);
    kernel_add_int(&k, batch.axes, false);
    return kernel && to && from && kernel_launch(p, kernel, batch.size * tiles_r * tiles_c, &k);
}
