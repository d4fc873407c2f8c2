// kernels_fp8.c - numbers of eight bits (e4m3) as floats, from any strides: for products that only other dtypes have.

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

// Without an exponent of its own a number is what is left between two larger ones: no f32 is so small that it has none either.
const char kernel_fp8_text[] =
    "FN f32 fp8_number(u32 code) {\n"
    "    u32 low = code & 127u, is_small = low < 8u;\n"
    "    f32 size = zl_f32_from((low << 20) + ((120u + is_small) << 23)) - (is_small ? 0x1p-6f : 0.0f);\n"
    "    size = low == 127u ? zl_f32_from(0x7fc00000u) : size;\n"
    "    return code & 128u ? -size : size;\n"
    "}\n";

static const char text[] =
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "KERNEL zl_kernel(GLOBAL ITEM *to, GLOBAL const u8 *from, i64 from_at, idx n, AXES s, i32 axes) {\n"
    "    idx i = GROUP * THREADS + THREAD;\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    uidx rest = (uidx)i;\n"
    "    idx here = 0;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        uidx next = rest / (uidx)s.dim[axis];\n"
    "        here += (idx)(rest - next * (uidx)s.dim[axis]) * s.stride[0][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    f32 value = fp8_number(from[from_at + here]);\n"
    "    ITEM item;\n"
    "    narrow(&item, &value);\n"
    "    to[i] = item;\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype;
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, tile_cast_kernel(dtype, ZL_FLOAT32), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n%s%s", kernel_memory_type(dtype), kernel_fp8_text, text);
    return true;
}

bool kernel_from_fp8(const struct kernel_place *p, zl_array x, zl_dtype dtype, void *to) {
    struct kernel_layout l;
    struct kernel_call k;
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        layout_push(&l, x->dim[i], &array_stride(x)[i]);
    if (l.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           KERNEL_AXES, shape_text(x->ndim, x->dim));
    struct recipe r = {(int32_t)dtype, layout_is_wide(&l), "fp8"};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    void *from = kernel_reach(p, x);
    kernel_begin_call(&k);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, x->offset, true);
    kernel_add_int(&k, l.size, r.wide);
    kernel_add_axes(&k, &l, 1, r.wide);
    kernel_add_int(&k, l.axes, false);
    return kernel && from && kernel_launch(p, kernel, (l.size + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}
