// stretch.c - broadcasting, and ops that return their input but mark it in the graph: stop_gradient, depends.

#include "op/ops.h"

// broadcast_to ----------------------------------------------------------------------------------------------

// dim: sizes to which x broadcasts; new axes come first.
static zl_array stretch(zl_array x, int ndim, const int64_t *dim) {
    OP_TEMP(int64_t, stride, ndim);
    if (!stride)
        return NULL;
    int added = ndim - x->ndim;
    for (int i = 0; i < ndim; i++)
        stride[i] = i < added || x->dim[i - added] != dim[i] ? 0 : array_stride(x)[i - added];
    return op_view(&op_broadcast_to, x, ndim, dim, ndim, dim, stride, op_offset(x));
}

static bool record_broadcast(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_broadcast_to(in[0], (zl_shape){call_args(c), c->args}));
}

static zl_array vjp_broadcast(const struct call *c, int input, const zl_array *cotangent) {
    (void)input;
    return op_unbroadcast(cotangent[0], c->in[0]);
}

// Inserts `gap` axes between the extra axis and those of x: the axes that the result has more than x.
static zl_array open_gap(zl_array x, int gap) {
    OP_TEMP(int, axes, gap);
    if (!axes)
        return NULL;
    for (int i = 0; i < gap; i++)
        axes[i] = i + 1;
    return zl_expand_dims(x, (zl_axes){axes, gap});
}

static bool vmap_broadcast(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                           int *out_axis) {
    if (axis[0] < 0)
        return op_vmap_same(c, in, axis, out, out_axis);
    OP_TEMP(int64_t, dim, c->args + 1);
    zl_array x = op_batch_first(in[0], axis[0]);
    if (!dim || !x)
        return false;
    x = open_gap(x, c->args + 1 - x->ndim);
    if (!x)
        return false;
    out_axis[0] = 0;
    dim[0] = x->dim[0];
    for (int i = 0; i < c->args; i++)
        dim[i + 1] = call_args(c)[i];
    return (out[0] = stretch(x, c->args + 1, dim));
}

static bool fits_broadcast_to(const struct call *c, const zl_array *in) {
    zl_array x = in[0];
    int added = c->args - x->ndim;
    int64_t size;
    if (!op_has(c, 1, c->args) || added < 0 || !shape_size(c->args, call_args(c), &size))
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (x->dim[i] != 1 && x->dim[i] != call_args(c)[added + i])
            return false;
    return true;
}

static const struct op_field shape_field[] = {{"shape", FIELD_LIST}};
const struct op op_broadcast_to = {
    .name = "broadcast_to",
    .kind = OP_VIEW,
    .fields = 1,
    .field = shape_field,
    .record = record_broadcast,
    .fits = fits_broadcast_to,
    .vjp = vjp_broadcast,
    .jvp = op_jvp_linear,
    .vmap = vmap_broadcast,
};

static bool fits(zl_array x, zl_shape shape) {
    int added = shape.ndim - x->ndim;
    for (int i = 0; added >= 0 && i < x->ndim; i++)
        if (x->dim[i] != 1 && x->dim[i] != shape.dim[added + i])
            return false;
    return added >= 0;
}

zl_array zl_broadcast_to(zl_array a, zl_shape shape) {
    if (!a || !op_check_shape("zl_broadcast_to", shape))
        return NULL;
    if (!fits(a, shape))
        return error_set(ZL_ERROR_SHAPE,
                         "zl_broadcast_to: shape %s does not stretch to %s: from the last axis on, sizes "
                         "must be equal or 1",
                         array_text(a), shape_text(shape.ndim, shape.dim));
    if (shape.ndim == a->ndim && shape_equal(a->ndim, a->dim, shape.ndim, shape.dim))
        return op_same(a);
    return stretch(a, shape.ndim, shape.dim);
}
OP_SIGNATURE(zl_broadcast_to, "view",
             "a with axes of size 1, and new first axes, repeated to the given shape.", P_ARRAY(a),
             P_SHAPE(shape));

bool zl_broadcast_arrays(const zl_array *arrays, int count, zl_array *out) {
    return op_check_out("zl_broadcast_arrays", count, out) &&
           op_check_inputs("zl_broadcast_arrays", arrays, count) &&
           op_broadcast("zl_broadcast_arrays", count, arrays, out);
}
OP_SIGNATURE_BOOL(zl_broadcast_arrays, "view",
                  "The arrays stretched to the shape that all of them fit; count results.", P_ARRAYS(arrays),
                  P_OUTPUT(out));

// stop_gradient, depends ------------------------------------------------------------------------------------

static zl_array identity(const struct op *op, int inputs, const zl_array *in) {
    zl_array x = in[0];
    return op_call(op, inputs, in, 0, NULL,
                   &(struct array_spec){.dtype = (zl_dtype)x->dtype,
                                        .ndim = x->ndim,
                                        .dim = x->dim,
                                        .stride = array_stride(x),
                                        .offset = op_offset(x)});
}

static bool record_identity(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = identity(c->op, c->inputs, in));
}

static zl_array vjp_depends(const struct call *c, int input, const zl_array *cotangent) {
    (void)c;
    return input == 0 ? op_same(cotangent[0]) : NULL;
}

static bool jvp_depends(const struct call *c, const zl_array *tangent, zl_array *out) {
    (void)c;
    out[0] = tangent[0] ? op_same(tangent[0]) : NULL;
    return true;
}

static bool fits_identity(const struct call *c, const zl_array *in) {
    (void)in;
    return c->inputs >= 1 && c->args == 0;
}

const struct op op_stop_gradient = {
    .name = "stop_gradient",
    .kind = OP_VIEW,
    .record = record_identity,
    .fits = fits_identity,
    .vjp = op_vjp_zero,
    .jvp = op_jvp_zero,
    .vmap = op_vmap_same,
};
const struct op op_depends = {
    .name = "depends",
    .kind = OP_VIEW,
    .record = record_identity,
    .fits = fits_identity,
    .vjp = vjp_depends,
    .jvp = jvp_depends,
    .vmap = op_vmap_same,
};

zl_array zl_stop_gradient(zl_array a) {
    if (!a)
        return NULL;
    return op_view(&op_stop_gradient, a, 0, NULL, a->ndim, a->dim, array_stride(a), op_offset(a));
}
OP_SIGNATURE(zl_stop_gradient, "view", "a, but a constant to gradients.", P_ARRAY(a));

zl_array zl_depends(zl_array inputs, const zl_array *dependencies, int count) {
    if (!inputs || !op_check_inputs("zl_depends", dependencies, count))
        return NULL;
    OP_TEMP(zl_array, in, (int64_t)count + 1);
    if (!in)
        return NULL;
    in[0] = inputs;
    for (int i = 0; i < count; i++)
        in[i + 1] = dependencies[i];
    return identity(&op_depends, count + 1, in);
}
OP_SIGNATURE(zl_depends, "view", "inputs, which is not evaluated before the dependencies are.",
             P_ARRAY(inputs), P_ARRAYS(dependencies));
