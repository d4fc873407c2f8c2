// cuda_conv.c - convolutions by cuDNN: as they are, as the gradient of an input, or as that of a kernel.
//
// The gradients of a convolution are recorded as convolutions too. cuDNN has kernels of its own for them: a dilated input is the
// gradient of the input of a convolution with that stride, and a kernel larger than the result is the cotangent in the gradient
// of a kernel. Arrays are read as they lie. What cuDNN has no plan for our own kernel does.

#include "device/cuda/cuda_dnn.h"
#include "op/ops.h"

#include <string.h>

enum { SPATIAL = CONV_AXES, AXES = SPATIAL + 2 };

struct view {
    int64_t dim[AXES], stride[AXES]; // batch, channels, then at least two spatial axes
};

struct key {
    struct view x, w, y; // as cuDNN's convolution has them: of its input, kernel and output
    int64_t stride[SPATIAL], dilation[SPATIAL], low[SPATIAL], high[SPATIAL];
    int32_t axes, kind, flip, dtype, exact, unit;
};

struct planned {
    struct dnn_plan plan;
    int64_t tensor[3];
};

static struct lock lock; // guards plans
static struct map plans;

// Views -------------------------------------------------------------------------------------------------------------

// (N, sizes, C) as cuDNN orders axes. One spatial axis gets another of one element in front of it.
static struct view view_of(zl_array x, bool swapped) {
    struct view v = {0};
    int last = x->ndim - 1, spatial = last - 1, shift = spatial == 1;
    v.dim[swapped ? 1 : 0] = x->dim[0];
    v.stride[swapped ? 1 : 0] = array_stride(x)[0];
    v.dim[swapped ? 0 : 1] = x->dim[last];
    v.stride[swapped ? 0 : 1] = array_stride(x)[last];
    if (shift) {
        v.dim[2] = 1;
        v.stride[2] = x->dim[1] * array_stride(x)[1];
    }
    for (int i = 0; i < spatial; i++) {
        v.dim[2 + shift + i] = x->dim[i + 1];
        v.stride[2 + shift + i] = array_stride(x)[i + 1];
    }
    return v;
}

static int64_t span(int64_t size, int64_t dilation) {
    return (size - 1) * dilation + 1;
}

// Padding behind such that `size` elements give `out` of them; the same as in front if that does too.
static int64_t pad_behind(int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t out) {
    int64_t least = (out - 1) * stride + kernel - size - low;
    return low >= least && low < least + stride ? low : least;
}

static void set_axis(struct key *k, int at, const struct conv_axis *a) {
    int64_t kernel = k->w.dim[at + 2], size = k->x.dim[at + 2], out = k->y.dim[at + 2];
    switch ((enum dnn_conv_kind)k->kind) {
    case DNN_CONV_FORWARD:
        k->stride[at] = a->stride;
        k->dilation[at] = a->dilation;
        k->low[at] = a->low;
        break;
    case DNN_CONV_OF_INPUT:
        k->stride[at] = a->input_dilation;
        k->dilation[at] = a->dilation;
        k->low[at] = span(kernel, a->dilation) - 1 - a->low;
        break;
    case DNN_CONV_OF_KERNEL:
        k->stride[at] = a->dilation;
        k->dilation[at] = a->stride;
        k->low[at] = a->low;
        break;
    }
    k->high[at] = pad_behind(size, span(kernel, k->dilation[at]), k->stride[at], k->low[at], out);
}

static enum dnn_conv_kind kind_of(const struct conv *v, zl_array w, zl_array y) {
    int64_t kernel = 1, out = 1;
    bool is_dilated = false;
    for (int i = 0; i < v->axes; i++) {
        is_dilated |= v->axis[i].input_dilation > 1;
        kernel *= w->dim[i + 1];
        out *= y->dim[i + 1];
    }
    return is_dilated                                   ? DNN_CONV_OF_INPUT
           : v->groups == 1 && !v->flip && kernel > out ? DNN_CONV_OF_KERNEL
                                                        : DNN_CONV_FORWARD;
}

// False: there is no such convolution in cuDNN's terms.
static bool fits(const struct key *k, const struct conv *v) {
    for (int i = 0; i < v->axes; i++) {
        const struct conv_axis *a = &v->axis[i];
        if ((k->kind == DNN_CONV_OF_INPUT && a->stride != 1) ||
            (k->kind != DNN_CONV_OF_INPUT && a->input_dilation != 1))
            return false;
    }
    for (int i = 0; i < k->axes; i++)
        if (k->low[i] < 0 || k->high[i] < 0)
            return false;
    return k->kind != DNN_CONV_OF_INPUT || v->groups == 1;
}

static bool read_key(struct key *k, const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], w = c->in[1], y = call_first(c);
    struct conv v = op_conv_read(c);
    int shift = v.axes == 1;
    memset(k, 0, sizeof *k);
    k->axes = v.axes + shift;
    k->kind = kind_of(&v, w, y);
    k->dtype = x->dtype;
    k->exact = x->dtype == ZL_FLOAT32 && !setting_flag(SETTING_TF32);
    k->unit = p->unit;
    bool of_input = k->kind == DNN_CONV_OF_INPUT, of_kernel = k->kind == DNN_CONV_OF_KERNEL;
    k->flip = v.flip != of_input;
    k->x = view_of(of_input ? y : x, of_kernel); // of a kernel: all three lie with batch and channels swapped
    k->w = of_kernel ? view_of(y, true) : view_of(w, of_input);
    k->y = of_kernel ? view_of(w, true) : view_of(of_input ? x : y, false);
    if (shift)
        k->stride[0] = k->dilation[0] = 1;
    for (int i = 0; i < v.axes; i++)
        set_axis(k, shift + i, &v.axis[i]);
    return fits(k, &v);
}

// Plans -------------------------------------------------------------------------------------------------------------

static struct dnn_plan build(const struct key *k, int64_t *tensor) {
    struct dnn_plan plan = {0};
    struct dnn_conv v = {.axes = k->axes, .flip = k->flip};
    struct dnn_graph *g = memory_zero(sizeof *g);
    enum dnn_type type = dnn_type_of((zl_dtype)k->dtype);
    if (!g)
        return plan;
    memcpy(v.stride, k->stride, sizeof v.stride);
    memcpy(v.dilation, k->dilation, sizeof v.dilation);
    memcpy(v.low, k->low, sizeof v.low);
    memcpy(v.high, k->high, sizeof v.high);
    const struct view *const views[] = {&k->x, &k->w, &k->y};
    for (int i = 0; i < 3; i++)
        tensor[i] = dnn_tensor(g, DNN_MEMORY, type, k->axes + 2, views[i]->dim, views[i]->stride);
    dnn_convolve(g, (enum dnn_conv_kind)k->kind, &v, (int)tensor[0], (int)tensor[1], (int)tensor[2]);
    plan = dnn_build(g, k->unit, k->exact);
    dnn_drop(g);
    memory_free(g);
    return plan;
}

// Of a key; its plan may be none. NULL and an error when memory is out.
static struct planned *find_plan(const struct key *k) {
    struct planned *plan = map_get(&plans, k, sizeof *k);
    if (plan || !(plan = memory_zero(sizeof *plan)))
        return plan;
    plan->plan = build(k, plan->tensor);
    if (map_set(&plans, k, sizeof *k, plan))
        return plan;
    memory_free(plan);
    return NULL;
}

bool cuda_convolve_can(const struct call *c) {
    return dtype_is_float((zl_dtype)c->in[0]->dtype) && dnn_is_there();
}

enum kernel_taken cuda_convolve(const struct kernel_place *p, const struct call *c) {
    struct key k;
    if (!read_key(&k, p, c))
        return KERNEL_NOT_TAKEN;
    lock_take(&lock);
    struct planned *plan = find_plan(&k);
    lock_give(&lock);
    if (!plan || !plan->plan.plan)
        return plan ? KERNEL_NOT_TAKEN : KERNEL_FAILED;
    void *x = cuda_element(p, c->in[0]), *w = cuda_element(p, c->in[1]), *y = kernel_reach(p, call_first(c));
    void *const forward[] = {x, w, y}, *const of_input[] = {y, w, x}, *const of_kernel[] = {x, y, w};
    bool is_aligned = ((uintptr_t)x | (uintptr_t)w) % 16 == 0;
    if (!x || !w || !y)
        return KERNEL_FAILED;
    if (!is_aligned)
        return KERNEL_NOT_TAKEN;
    bool done = dnn_run(p, &plan->plan, 3, plan->tensor,
                        k.kind == DNN_CONV_OF_INPUT    ? of_input
                        : k.kind == DNN_CONV_OF_KERNEL ? of_kernel
                                                       : forward);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
