// kernels_argreduce.c - where the smallest and the largest elements along an axis are: the first of equal ones, and the first
// NaN before all others. A group of threads for each result; a thread, where results lie beside each other.

#include "device/kernels/kernels.h"

struct recipe {
    int32_t dtype, is_max, columns, wide;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_argreduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    return !array_is(c->in[0], ARRAY_INLINE) && tile_row_takes(TILE_LT, dtype) &&
           c->in[0]->dim[call_args(c)[1]] < INT32_MAX;
}

static const char beginning[] =
    "FN bool ask_better(ITEM a, ITEM b) { u8 y; better(&y, (const SMALL *)&a, (const SMALL *)&b); return y "
    "!= 0; }\n"
    "FN bool is_nan(ITEM a) { u8 y; differs(&y, (const SMALL *)&a, (const SMALL *)&a); return y != 0; }\n"
    "FN bool wins(ITEM a, u32 at, ITEM best, u32 best_at) {\n"
    "    bool nan = is_nan(a);\n"
    "    if (nan != is_nan(best))\n"
    "        return nan;\n"
    "    if (!nan && ask_better(a, best))\n"
    "        return true;\n"
    "    return at < best_at && (nan || !ask_better(best, a));\n"
    "}\n"
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "KERNEL zl_kernel(GLOBAL u32 *y, GLOBAL const ITEM *x, i64 x_at, i64 step, idx n, idx results, AXES s, "
    "i32 axes) {\n"
    "    idx number = RESULT, rest = number;\n"
    "    if (number >= results)\n"
    "        return;\n"
    "    x += x_at;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = rest / s.dim[axis], at = rest - next * s.dim[axis];\n"
    "        x += (i64)at * s.stride[0][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    idx first = FIRST < n ? FIRST : n - 1;\n"
    "    ITEM best = x[first * step];\n"
    "    u32 best_at = (u32)first;\n"
    "    for (idx i = first + EACH; i < n; i += EACH) {\n"
    "        ITEM item = x[i * step];\n"
    "        if (wins(item, (u32)i, best, best_at)) {\n"
    "            best = item;\n"
    "            best_at = (u32)i;\n"
    "        }\n"
    "    }\n";

static const char of_rows[] =
    "    LOCAL ITEM room[256];\n"
    "    LOCAL u32 room_at[256];\n"
    "    room[THREAD] = best;\n"
    "    room_at[THREAD] = best_at;\n"
    "    BARRIER;\n"
    "    for (i32 span = 128; span > 0; span /= 2) {\n"
    "        if (THREAD < span && wins(room[THREAD + span], room_at[THREAD + span], "
    "room[THREAD], room_at[THREAD])) {\n"
    "            room[THREAD] = room[THREAD + span];\n"
    "            room_at[THREAD] = room_at[THREAD + span];\n"
    "        }\n"
    "        BARRIER;\n"
    "    }\n"
    "    if (THREAD == 0)\n"
    "        y[number] = room_at[0];\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype;
    kernel_begin(out, w->dialect, r->wide);
    if (!kernel_element(out, tile_row_kernel(r->is_max ? TILE_GT : TILE_LT, dtype, "vv"), w->dialect,
                        "better") ||
        !kernel_element(out, tile_row_kernel(TILE_NE, dtype, "vv"), w->dialect, "differs"))
        return false;
    text_add(out, "#define ITEM %s\n#define SMALL %s\n", kernel_memory_type(dtype), kernel_part_type(dtype));
    text_add(out, r->columns ? "#define RESULT GROUP * THREADS + THREAD\n#define FIRST 0\n#define EACH 1\n"
                             : "#define RESULT GROUP\n#define FIRST THREAD\n#define EACH THREADS\n");
    text_add(out, "%s%s", beginning, r->columns ? "    y[number] = best_at;\n}\n" : of_rows);
    return true;
}

bool kernel_argreduce(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    int axis = (int)call_args(c)[1];
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            layout_push(&l, x->dim[i], &array_stride(x)[i]);
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES, array_text(x));
    bool columns =
        l.axes && l.stride[0][l.axes - 1] == 1 && array_stride(x)[axis] != 1 && l.size >= KERNEL_THREADS;
    struct recipe r = {x->dtype, call_args(c)[0] != 0, columns, x->size > INT32_MAX / 2 || layout_is_wide(&l),
                       "argred"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *to = kernel_reach(p, y), *from = kernel_reach(p, x);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_int(&k, array_stride(x)[axis], true);
    kernel_add_int(&k, x->dim[axis], r.wide);
    kernel_add_int(&k, l.size, r.wide);
    kernel_add_axes(&k, &l, 1, r.wide);
    kernel_add_int(&k, l.axes, false);
    return kernel && to && from &&
           kernel_launch(p, kernel, columns ? (l.size + KERNEL_THREADS - 1) / KERNEL_THREADS : l.size, &k);
}
