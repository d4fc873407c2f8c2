// kernels_pair.c - divmod: two results of the same operands, which are read once.

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct recipe {
    int32_t dtype, wide;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_divmod(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) && !array_is(c->in[1], ARRAY_INLINE) &&
           tile_row_takes(TILE_REM, (zl_dtype)c->in[0]->dtype);
}

static const char text[] = "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
                           "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL ITEM *z, GLOBAL const ITEM *a, i64 a_at, "
                           "GLOBAL const ITEM *b, i64 b_at, idx n,\n"
                           "                 AXES s, i32 axes) {\n"
                           "    idx i = GROUP * THREADS + THREAD;\n"
                           "    if (i >= n)\n"
                           "        return;\n"
                           "    idx rest = i, from = 0, by = 0;\n"
                           "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                           "        idx next = rest / s.dim[axis], at = rest - next * s.dim[axis];\n"
                           "        rest = next;\n"
                           "        from += at * s.stride[0][axis];\n"
                           "        by += at * s.stride[1][axis];\n"
                           "    }\n"
                           "    ITEM left = a[a_at + from], right = b[b_at + by], whole, remains;\n"
                           "    quotient(&whole, &left, &right);\n"
                           "    remainder_of(&remains, &left, &right);\n"
                           "    y[i] = whole;\n"
                           "    z[i] = remains;\n"
                           "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, tile_row_kernel(op_quotient_row(dtype), dtype, "vv"), w->dialect, "quotient") ||
        !kernel_element(out, tile_row_kernel(TILE_REM, dtype, "vv"), w->dialect, "remainder_of"))
        return false;
    text_add(out, "#define ITEM %s\n", kernel_memory_type(dtype));
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

// Results are row-major: both have to lie alike.
bool kernel_divmod(const struct kernel_place *p, const struct call *c) {
    zl_array y = call_first(c);
    struct kernel_layout l;
    struct kernel_call k;
    kernel_begin_call(&k);
    layout_begin(&l, 2);
    for (int i = 0; i < y->ndim; i++)
        layout_push(&l, y->dim[i], (const int64_t[]){array_stride(c->in[0])[i], array_stride(c->in[1])[i]});
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "divmod: more than %d axes that cannot be joined: use zl_contiguous first",
                           KERNEL_AXES);
    struct recipe r = {y->dtype, layout_is_wide(&l), "divmod"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *memory[] = {kernel_reach(p, y), kernel_reach(p, call_output(c, 1)), kernel_reach(p, c->in[0]),
                      kernel_reach(p, c->in[1])};
    for (size_t i = 0; i < COUNT(memory); i++) {
        if (!memory[i])
            return false;
        kernel_add_memory(&k, memory[i]);
        if (i > 1)
            kernel_add_int(&k, c->in[i - 2]->offset, true);
    }
    kernel_add_int(&k, y->size, r.wide);
    kernel_add_axes(&k, &l, 3, r.wide);
    kernel_add_int(&k, l.axes, false);
    return kernel && kernel_launch(p, kernel, (y->size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}
