// kernels_conv.c - convolutions of any stride, dilation and padding: a thread sums one element of the result.

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct recipe {
    int32_t dtype, spare;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

// As in the text. Lists are of the three spatial axes, those that are not there of size 1; strides of batch and channels
// come first and last.
struct sizes {
    int64_t x[5], w[5], x_at, w_at, x_group; // x_group: from a group to the next
    int64_t in[3], taps[3], out[3], stride[3], low[3], dilation[3], input_dilation[3];
    int64_t channels, group_outputs, outputs, count; // channels: that a kernel has
    int64_t flip;
};

bool kernel_can_conv(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype);
}

static const char text[] =
    "struct zl_axes {\n"
    "    i64 x[5], w[5], x_at, w_at, x_group;\n"
    "    i64 in[3], taps[3], out[3], stride[3], low[3], dilation[3], input_dilation[3];\n"
    "    i64 channels, group_outputs, outputs, count;\n"
    "    i64 flip;\n"
    "};\n"
    "FN WIDE load(GLOBAL const ITEM *from) {\n"
    "    ITEM item = *from;\n"
    "    WIDE value;\n"
    "    widen(&value, &item);\n"
    "    return value;\n"
    "}\n"
    // Where element k of the kernel meets the input, which lies input_dilation apart; less than 0: nowhere.
    "FN i64 meet(i64 at, i64 dilation, i64 in) {\n"
    "    if (at < 0 || at % dilation)\n"
    "        return -1;\n"
    "    return at / dilation < in ? at / dilation : -1;\n"
    "}\n"
    "#define MEET(axis, k) \\\n"
    "    meet(o[axis] * s.stride[axis] + k * s.dilation[axis] - s.low[axis], s.input_dilation[axis], "
    "s.in[axis])\n\n"
    "KERNEL zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *x, GLOBAL const ITEM *w, AXES s) {\n"
    "    i64 i = (i64)GROUP * THREADS + THREAD, rest = i, o[3];\n"
    "    if (i >= s.count)\n"
    "        return;\n"
    "    i64 output = rest % s.outputs;\n"
    "    rest /= s.outputs;\n"
    "    for (i32 axis = 2; axis >= 0; axis--) {\n"
    "        o[axis] = rest % s.out[axis];\n"
    "        rest /= s.out[axis];\n"
    "    }\n"
    "    x += s.x_at + rest * s.x[0] + output / s.group_outputs * s.x_group;\n"
    "    w += s.w_at + output * s.w[0];\n"
    "    WIDE sum = 0;\n"
    "    for (i64 a = 0; a < s.taps[0]; a++)\n"
    "        for (i64 b = 0; b < s.taps[1]; b++)\n"
    "            for (i64 c = 0; c < s.taps[2]; c++) {\n"
    "                i64 at0 = MEET(0, a), at1 = MEET(1, b), at2 = MEET(2, c);\n"
    "                if (at0 < 0 || at1 < 0 || at2 < 0)\n"
    "                    continue;\n"
    "                GLOBAL const ITEM *from = x + at0 * s.x[1] + at1 * s.x[2] + at2 * s.x[3];\n"
    "                GLOBAL const ITEM *by = w + (s.flip ? s.taps[0] - 1 - a : a) * s.w[1] +\n"
    "                                        (s.flip ? s.taps[1] - 1 - b : b) * s.w[2] +\n"
    "                                        (s.flip ? s.taps[2] - 1 - c : c) * s.w[3];\n"
    "                for (i64 e = 0; e < s.channels; e++)\n"
    "                    sum = FMA(load(from + e * s.x[4]), load(by + e * s.w[4]), sum);\n"
    "            }\n"
    "    ITEM item;\n"
    "    narrow(&item, &sum);\n"
    "    y[i] = item;\n"
    "}\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    zl_dtype dtype = (zl_dtype)w->r->dtype, wide = tile_reduce_gives(dtype);
    kernel_begin(out, w->dialect, true);
    if (!kernel_element(out, tile_cast_kernel(wide, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, wide), w->dialect, "narrow"))
        return false;
    text_add(out, "#define ITEM %s\n#define WIDE %s\n#define FMA zl_fma_%s\n", kernel_memory_type(dtype),
             kernel_memory_type(wide), kernel_memory_type(wide));
    text_bytes(out, text, (int)sizeof text - 1);
    return true;
}

// Spatial axes are the last of three.
static void set_axis(struct sizes *s, int at, const struct conv_axis *a, zl_array x, zl_array w, zl_array y,
                     int axis) {
    s->x[at + 1] = array_stride(x)[axis];
    s->w[at + 1] = array_stride(w)[axis];
    s->in[at] = x->dim[axis];
    s->taps[at] = w->dim[axis];
    s->out[at] = y->dim[axis];
    s->stride[at] = a->stride;
    s->low[at] = a->low;
    s->dilation[at] = a->dilation;
    s->input_dilation[at] = a->input_dilation;
}

static struct sizes sizes_of(const struct call *c) {
    zl_array x = c->in[0], w = c->in[1], y = call_first(c);
    struct conv v = op_conv_read(c);
    int last = x->ndim - 1;
    struct sizes s = {.x = {[0] = array_stride(x)[0], [4] = array_stride(x)[last]},
                      .w = {[0] = array_stride(w)[0], [4] = array_stride(w)[last]},
                      .x_at = x->offset,
                      .w_at = w->offset,
                      .x_group =
                          v.in_batch ? y->dim[0] * array_stride(x)[0] : w->dim[last] * array_stride(x)[last],
                      .in = {1, 1, 1},
                      .taps = {1, 1, 1},
                      .out = {1, 1, 1},
                      .stride = {1, 1, 1},
                      .dilation = {1, 1, 1},
                      .input_dilation = {1, 1, 1},
                      .channels = w->dim[last],
                      .group_outputs = w->dim[0] / v.groups,
                      .outputs = w->dim[0],
                      .count = y->size,
                      .flip = v.flip};
    for (int i = 0; i < v.axes; i++)
        set_axis(&s, CONV_AXES - v.axes + i, &v.axis[i], x, w, y, i + 1);
    return s;
}

bool kernel_conv(const struct kernel_place *p, const struct call *c) {
    struct sizes s = sizes_of(c);
    struct recipe r = {c->in[0]->dtype, 0, "conv"};
    void *memory[] = {kernel_reach(p, call_first(c)), kernel_reach(p, c->in[0]), kernel_reach(p, c->in[1])};
    void *kernel = kernel_find(p, &r, sizeof r, write_text, &(struct writer){&r, p->target->dialect});
    struct kernel_call k;
    kernel_begin_call(&k);
    for (size_t i = 0; i < COUNT(memory); i++) {
        if (!memory[i])
            return false;
        kernel_add_memory(&k, memory[i]);
    }
    kernel_add(&k, &s, sizeof s);
    return kernel && kernel_launch(p, kernel, (s.count + KERNEL_THREADS - 1) / KERNEL_THREADS, &k);
}
