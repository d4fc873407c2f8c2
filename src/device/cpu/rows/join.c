// join.c - concatenate and pad, whose results are put together from copies.

#include "device/cpu/rows/operands.h"

bool cpu_concatenate(const struct call *c) {
    zl_array out = call_output(c, 0);
    size_t item = array_item(out);
    int axis = (int)call_args(c)[0];
    int64_t step = array_stride(out)[axis] * (int64_t)item;
    char *to = cpu_data(out);
    for (int i = 0; i < c->inputs; i++) {
        zl_array x = c->in[i];
        union scalar room;
        if (x->size)
            cpu_copy(item, x->ndim, x->dim, to, array_stride(out), array_data(x, &room), array_stride(x));
        to += x->dim[axis] * step;
    }
    return true;
}

// Padding: for each axis, the margin before and after x is filled. It is as wide as x along the axes before
// that axis, and as wide as the result along those after it, so that no element is written twice.
struct margin {
    zl_array x, out;
    const int64_t *before; // margins before each axis; those after follow
    const char *value;
    int64_t *dim, *zero; // buffers: sizes of the part to fill; strides of the value, all 0
};

static int64_t origin(const struct margin *m, int axis) {
    int64_t at = 0;
    for (int i = 0; i < axis; i++)
        at += m->before[i] * array_stride(m->out)[i];
    return at;
}

static void fill_margin(const struct margin *m, int axis, int64_t from, int64_t to) {
    size_t item = array_item(m->out);
    int64_t at = origin(m, axis) + from * array_stride(m->out)[axis];
    for (int i = 0; i < m->out->ndim; i++)
        m->dim[i] = i < axis ? m->x->dim[i] : i == axis ? to - from : m->out->dim[i];
    cpu_copy(item, m->out->ndim, m->dim, cpu_data(m->out) + at * (int64_t)item, array_stride(m->out),
             m->value, m->zero);
}

bool cpu_pad(const struct call *c) {
    union scalar room, value_room;
    zl_array x = c->in[0], out = call_output(c, 0);
    int ndim = out->ndim;
    OP_TEMP(int64_t, list, 2 * ndim);
    if (!list)
        return false;
    struct margin m = {x, out, call_args(c), array_data(c->in[1], &value_room), list, list + ndim};
    for (int i = 0; i < ndim; i++)
        m.zero[i] = 0;
    for (int i = 0; i < ndim; i++) {
        fill_margin(&m, i, 0, m.before[i]);
        fill_margin(&m, i, m.before[i] + x->dim[i], out->dim[i]);
    }
    size_t item = array_item(out);
    cpu_copy(item, ndim, x->dim, cpu_data(out) + origin(&m, ndim) * (int64_t)item, array_stride(out),
             array_data(x, &room), array_stride(x));
    return true;
}
