// kernels_conv.c - convolutions of any stride, dilation and padding, by src/kernel/conv.tile.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

struct recipe {
    char file[8];
    int32_t dtype;
};

enum { IN, TAPS, OUT, SIZES };
enum { STRIDE, LOW, DILATION, INPUT_DILATION, WINDOWS };

// As the kernel has them.
struct sizes {
    int64_t by_x[2 + CONV_AXES], by_w[2 + CONV_AXES];
    int64_t size[SIZES][CONV_AXES], window[WINDOWS][CONV_AXES];
    int64_t by_group, flip; // by_group: from a group's channels of x to the next group's
};

bool kernel_can_conv(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype);
}

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,WIDE=%s", kernel_type((zl_dtype)r->dtype),
                           kernel_type(tile_reduce_gives((zl_dtype)r->dtype)));
}

// Spatial axes are the last of three.
static void set_axis(struct sizes *s, int at, const struct conv_axis *a, zl_array x, zl_array w, zl_array y,
                     int axis) {
    s->by_x[at + 1] = array_stride(x)[axis];
    s->by_w[at + 1] = array_stride(w)[axis];
    s->size[IN][at] = x->dim[axis];
    s->size[TAPS][at] = w->dim[axis];
    s->size[OUT][at] = y->dim[axis];
    s->window[STRIDE][at] = a->stride;
    s->window[LOW][at] = a->low;
    s->window[DILATION][at] = a->dilation;
    s->window[INPUT_DILATION][at] = a->input_dilation;
}

static struct sizes sizes_of(const struct call *c, const struct conv *v) {
    zl_array x = c->in[0], w = c->in[1], y = call_first(c);
    int last = x->ndim - 1;
    struct sizes s = {.by_x = {[0] = array_stride(x)[0], [4] = array_stride(x)[last]},
                      .by_w = {[0] = array_stride(w)[0], [4] = array_stride(w)[last]},
                      .by_group =
                          v->in_batch ? y->dim[0] * array_stride(x)[0] : w->dim[last] * array_stride(x)[last],
                      .size = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
                      .window = {[STRIDE] = {1, 1, 1}, [DILATION] = {1, 1, 1}, [INPUT_DILATION] = {1, 1, 1}},
                      .flip = v->flip};
    for (int i = 0; i < v->axes; i++)
        set_axis(&s, CONV_AXES - v->axes + i, &v->axis[i], x, w, y, i + 1);
    return s;
}

bool kernel_conv(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], w = c->in[1], y = call_first(c);
    struct conv v = op_conv_read(c);
    struct sizes s = sizes_of(c, &v);
    struct recipe r = {"conv", x->dtype};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *from = kernel_reach(p, x), *by = kernel_reach(p, w), *to = kernel_reach(p, y);
    struct kernel_call k;
    kernel_begin_call(&k);
    kernel_add_memory(&k, from);
    kernel_add_memory(&k, by);
    kernel_add(&k, s.by_x, sizeof s.by_x);
    kernel_add(&k, s.by_w, sizeof s.by_w);
    kernel_add(&k, s.size, sizeof s.size);
    kernel_add(&k, s.window, sizeof s.window);
    kernel_add(&k, &s.by_group, sizeof s.by_group);
    kernel_add(&k, &s.flip, sizeof s.flip);
    kernel_add_memory(&k, to);
    return kernel && from && by && to &&
           kernel_launch_tiles(p, kernel, &k, 8,
                               (const int64_t[]){y->size, w->dim[0], w->dim[0] / v.groups,
                                                 w->dim[w->ndim - 1], kernel_elements(x), x->offset,
                                                 kernel_elements(w), w->offset});
}
