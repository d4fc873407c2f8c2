// fold.c - sums overlapping patches into images: the gradient of a view that cuts windows out of an image.
//
// The op is the transpose of as_strided, where each axis of the view steps along one axis of an array and
// stays in it. Then the positions of an element in the patches follow from its own position, and need no list
// of indices as those of other views do.

#include "op/ops.h"

enum { SIZE, START, STEP, APART, WORDS, ARGS = WORDS * FOLD_AXES };
enum { BATCH, OUTS, TAPS = OUTS + FOLD_AXES, CHANNELS = TAPS + FOLD_AXES, RANK }; // axes of the input

struct fold op_fold_read(const struct call *c) {
    zl_array x = c->in[0];
    const int64_t *stride = array_stride(x);
    struct fold f = {.batch = x->dim[BATCH], .batch_stride = stride[BATCH], .channels = x->dim[CHANNELS]};
    for (int i = 0; i < FOLD_AXES; i++) {
        const int64_t *arg = call_args(c) + i * WORDS;
        f.axis[i] = (struct fold_axis){.size = arg[SIZE],
                                       .start = arg[START],
                                       .step = arg[STEP],
                                       .apart = arg[APART],
                                       .outs = x->dim[OUTS + i],
                                       .taps = x->dim[TAPS + i],
                                       .out_stride = stride[OUTS + i],
                                       .tap_stride = stride[TAPS + i]};
    }
    return f;
}

// Kernels read patches with any strides, unless the channels are not contiguous.
static zl_array call(zl_array x, const int64_t *arg) {
    if (!x)
        return NULL;
    bool lies = !array_is(x, ARRAY_INLINE) && (x->dim[CHANNELS] == 1 || array_stride(x)[CHANNELS] == 1);
    zl_array in = lies ? x : zl_contiguous(x, false);
    int64_t dim[FOLD_AXES + 2] = {x->dim[BATCH]};
    for (int i = 0; i < FOLD_AXES; i++)
        dim[1 + i] = arg[i * WORDS + SIZE];
    dim[1 + FOLD_AXES] = x->dim[CHANNELS];
    return op_dense(&op_fold, 1, &in, ARGS, arg, (zl_dtype)x->dtype, FOLD_AXES + 2, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = call(in[0], call_args(c)));
}

// The cotangent of the input is the windows of the cotangent of the result.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0];
    int64_t stride[RANK], step = x->dim[CHANNELS], offset = 0;
    stride[CHANNELS] = 1;
    for (int i = FOLD_AXES - 1; i >= 0; i--) {
        const int64_t *axis = arg + i * WORDS;
        stride[OUTS + i] = axis[STEP] * step;
        stride[TAPS + i] = axis[APART] * step;
        offset += axis[START] * step;
        step *= axis[SIZE];
    }
    stride[BATCH] = step;
    return zl_as_strided(cotangent[0], zl_shape_of(x), (zl_shape){stride, RANK}, offset);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    zl_array x = op_batch_first(in[0], axis[0]);
    if (!x)
        return false;
    zl_shape two = ZL_SHAPE(x->dim[0], x->dim[1]);
    *out_axis = 0;
    return (out[0] = zl_unflatten(call(zl_flatten(x, 0, 1), call_args(c)), 0, two));
}

// Returns whether the last tap of the last output is inside the axis.
static bool fits_axis(zl_array x, const int64_t *arg, int i) {
    int64_t outs = x->dim[OUTS + i], taps = x->dim[TAPS + i], out, tap, last;
    return outs > 0 && taps > 0 && arg[START] >= 0 && arg[STEP] > 0 && arg[APART] > 0 &&
           !__builtin_mul_overflow(outs - 1, arg[STEP], &out) &&
           !__builtin_mul_overflow(taps - 1, arg[APART], &tap) && !__builtin_add_overflow(out, tap, &last) &&
           !__builtin_add_overflow(last, arg[START], &last) && last < arg[SIZE];
}

static bool fits(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    if (!op_has(c, 1, ARGS) || x->ndim != RANK || !dtype_is_inexact((zl_dtype)x->dtype))
        return false;
    int64_t dim[FOLD_AXES + 2] = {x->dim[BATCH]}, size;
    for (int i = 0; i < FOLD_AXES; i++) {
        if (!fits_axis(x, call_args(c) + i * WORDS, i))
            return false;
        dim[1 + i] = call_args(c)[i * WORDS + SIZE];
    }
    dim[1 + FOLD_AXES] = x->dim[CHANNELS];
    return shape_size(FOLD_AXES + 2, dim, &size) && size <= INT64_MAX / 16;
}

static const struct op_field fields[] = {{"size_start_step_apart", FIELD_LIST}};
const struct op op_fold = {
    .name = "fold",
    .kind = OP_OTHER,
    .fields = 1,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = op_jvp_linear,
    .vmap = vmap,
};

// Views -----------------------------------------------------------------------------------------------------

enum { NONE = -1 };

// A view of an array x that is row-major and not empty.
struct view {
    zl_array x;
    int ndim, still; // still: number of axes with stride 0 or size 1
    int64_t offset;
    const int64_t *dim, *stride;
    int *order;     // the axes: first those that do not step, then the others by descending stride
    int *out, *tap; // for each axis of x, the axes of the view that step along it, the one with the longer
                    // stride first; NONE: there is none
};

static int64_t key_of(const struct view *v, int axis) {
    return v->dim[axis] > 1 && v->stride[axis] ? v->stride[axis] : INT64_MAX;
}

static void order_axes(struct view *v) {
    for (int i = 0; i < v->ndim; i++) {
        int64_t key = key_of(v, i);
        int at = i;
        for (; at > 0 && key_of(v, v->order[at - 1]) < key; at--)
            v->order[at] = v->order[at - 1];
        v->order[at] = i;
        v->still += key == INT64_MAX;
    }
}

// Returns whether the view shows each element of x once, except for axes that do not step.
static bool is_permutation(const struct view *v) {
    int64_t dense = 1;
    for (int i = v->ndim - 1; i >= v->still; i--) {
        if (v->stride[v->order[i]] != dense)
            return false;
        dense *= v->dim[v->order[i]];
    }
    return dense == v->x->size;
}

// Assigns each axis of the view to the axis of x along which it steps. Returns false if there is none, or if
// that has two already.
static bool assign_axes(const struct view *v) {
    int64_t step = v->x->size;
    int next = v->still;
    for (int i = 0; i < v->x->ndim; i++) {
        v->out[i] = v->tap[i] = NONE;
        step /= v->x->dim[i];
        for (; v->x->dim[i] > 1 && next < v->ndim && v->stride[v->order[next]] >= step; next++) {
            int *free = v->out[i] == NONE ? &v->out[i] : &v->tap[i];
            if (*free != NONE || v->stride[v->order[next]] % step)
                return false;
            *free = v->order[next];
        }
    }
    return next == v->ndim; // else some axes step backwards
}

// Describes what the view reads along an axis of x, whose elements are `stride` apart.
static struct fold_axis part_of(const struct view *v, int i, int64_t stride) {
    int out = v->out[i], tap = v->tap[i];
    int64_t size = v->x->dim[i];
    return (struct fold_axis){.size = size,
                              .start = v->offset / stride % size,
                              .step = out == NONE ? 1 : v->stride[out] / stride,
                              .apart = tap == NONE ? 1 : v->stride[tap] / stride,
                              .outs = out == NONE ? 1 : v->dim[out],
                              .taps = tap == NONE ? 1 : v->dim[tap]};
}

static bool is_inside(const struct fold_axis *a) {
    return a->start + (a->outs - 1) * a->step + (a->taps - 1) * a->apart < a->size;
}

static bool is_whole(const struct fold_axis *a) {
    return a->outs == a->size && a->taps == 1;
}

// The range of axes of x, from first to last, that the view does not show unchanged.
struct windows {
    int first, last;
    int64_t arg[ARGS], dim[RANK]; // arg: arguments of the fold; dim: sizes of its input
};

static bool find_windows(const struct view *v, struct windows *w) {
    int64_t stride = v->x->size;
    *w = (struct windows){.first = v->x->ndim, .last = NONE};
    for (int i = 0; i < v->x->ndim; i++) {
        struct fold_axis a = part_of(v, i, stride /= v->x->dim[i]);
        if (!is_inside(&a))
            return false;
        w->first = is_whole(&a) ? w->first : MIN_OF(w->first, i);
        w->last = is_whole(&a) ? w->last : i;
    }
    return w->last - w->first < FOLD_AXES;
}

static void set_axis(struct windows *w, int at, const struct fold_axis *a) {
    int64_t *arg = w->arg + at * WORDS;
    arg[SIZE] = a->size;
    arg[START] = a->start;
    arg[STEP] = a->step;
    arg[APART] = a->apart;
    w->dim[OUTS + at] = a->outs;
    w->dim[TAPS + at] = a->taps;
}

static void set_fold(const struct view *v, struct windows *w) {
    int64_t stride = v->x->size;
    w->dim[BATCH] = w->dim[CHANNELS] = 1;
    for (int i = 0; i < FOLD_AXES; i++)
        set_axis(w, i, &(struct fold_axis){.size = 1, .step = 1, .apart = 1, .outs = 1, .taps = 1});
    for (int i = 0; i < v->x->ndim; i++) {
        struct fold_axis a = part_of(v, i, stride /= v->x->dim[i]);
        if (i < w->first || i > w->last)
            w->dim[i < w->first ? BATCH : CHANNELS] *= a.size;
        else
            set_axis(w, FOLD_AXES - 1 - w->last + i, &a); // the last axis, along which devices sum at once
    }
}

// Orders the view's axes as in the input of the fold.
static void order_for_fold(const struct view *v, const struct windows *w) {
    int next = v->still;
    for (int i = 0; i <= w->last; i++) // including the axes before the windows, which become the batch
        if (v->out[i] != NONE)
            v->order[next++] = v->out[i];
    for (int i = w->first; i <= w->last; i++)
        if (v->tap[i] != NONE)
            v->order[next++] = v->tap[i];
    for (int i = w->last + 1; i < v->x->ndim; i++)
        if (v->out[i] != NONE)
            v->order[next++] = v->out[i];
}

// Returns the cotangent of the view with its axes in this order, summed over the axes that repeat elements,
// in this shape.
static zl_array arrange(const struct view *v, zl_array g, zl_shape shape) {
    OP_TEMP(int, again, v->still);
    int count = 0;
    for (int i = 0; again && i < v->still; i++)
        if (v->dim[v->order[i]] > 1)
            again[count++] = i;
    g = again ? zl_transpose(g, (zl_axes){v->order, v->ndim}) : NULL;
    if (count)
        g = op_reduce_axes("zl_as_strided", REDUCE_SUM, g, (zl_axes){again, count}, false);
    return zl_reshape(g, shape);
}

bool op_fold_view(zl_array g, zl_array x, int ndim, const int64_t *arg, zl_array *out) {
    OP_TEMP(int, order, ndim);
    OP_TEMP(int, axes, 2 * x->ndim);
    zl_shape shape = zl_shape_of(x);
    if (!order || !axes)
        return !(*out = NULL);
    struct view v = {x, ndim, 0, arg[0], arg + 1, arg + 1 + ndim, order, axes, axes + x->ndim};
    struct windows w;
    order_axes(&v);
    if (is_permutation(&v)) {
        *out = arrange(&v, g, shape);
        return true;
    }
    if (!assign_axes(&v) || !find_windows(&v, &w))
        return false;
    set_fold(&v, &w);
    order_for_fold(&v, &w);
    *out = zl_reshape(call(arrange(&v, g, (zl_shape){w.dim, RANK}), w.arg), shape);
    return true;
}
