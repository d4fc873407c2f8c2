// kernels_conv.c - convolutions of any stride, dilation and padding, by src/kernel/conv.tile.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum { IN, TAPS, OUT, SIZES };
enum { STRIDE, LOW, DILATION, INPUT_DILATION, WINDOWS };

// The kernel's size parameters, in its order.
struct sizes {
    int64_t by_x[2 + CONV_AXES], by_w[2 + CONV_AXES], by_y[2 + CONV_AXES];
    int64_t size[SIZES][CONV_AXES], window[WINDOWS][CONV_AXES];
    int64_t by_group, flip; // by_group: the distance in x from the channels of a group to those of the next
};

bool kernel_can_conv(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype);
}

// Sets the sizes of one spatial axis. The kernel has three; a call with fewer uses the last ones.
static void set_axis(struct sizes *s, int at, const struct conv_axis *a, zl_array x, zl_array w, zl_array y,
                     int axis) {
    s->by_x[at + 1] = array_stride(x)[axis];
    s->by_w[at + 1] = array_stride(w)[axis];
    s->by_y[at + 1] = array_stride(y)[axis];
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
                      .by_y = {[0] = array_stride(y)[0], [4] = array_stride(y)[last]},
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
    struct kernel_work k;
    work_open(&k, p, c->op->name);
    WORK_SIZES(&k, y->size, w->dim[0], w->dim[0] / v.groups, w->dim[w->ndim - 1]);
    work_array(&k, x);
    work_array(&k, w);
    work_value(&k, s.by_x, sizeof s.by_x);
    work_value(&k, s.by_w, sizeof s.by_w);
    work_value(&k, s.by_y, sizeof s.by_y);
    work_value(&k, s.size, sizeof s.size);
    work_value(&k, s.window, sizeof s.window);
    work_value(&k, &s.by_group, sizeof s.by_group);
    work_value(&k, &s.flip, sizeof s.flip);
    work_result(&k, y);
    return WORK_FILE(&k, "conv", "ITEM=%t,WIDE=%t", x->dtype, tile_reduce_gives((zl_dtype)x->dtype));
}
