// nn_layer.c - layers: each is a formula and the parameters in it.

#include "nn.h"

#include <math.h>

static const double eps = 1e-6; // of the norms

static zl_nn_init matrix(int64_t inputs) {
    return (zl_nn_init){.deviation = 1 / sqrt((double)inputs), .kind = ZL_NN_MATRIX};
}

// Returns x W^T, along the last axis of x.
static zl_array apply(zl_array x, zl_array weight) {
    return zl_matmul(x, zl_swapaxes(weight, -1, -2));
}

// Returns x W^T with the weight of the place `here`. entered: x is a result of nn_enter.
static zl_array product(zl_nn here, zl_array x, int outputs, zl_nn_init init, bool entered) {
    int64_t inputs = zl_dim(x, -1) * nn_parts(here, "weight", 1);
    zl_array weight = zl_nn_parameter(here, "weight", ZL_SHAPE(outputs, inputs), init);
    if (nn_parts(here, "weight", 0) > 1 && !entered)
        x = nn_enter(here, x);
    zl_array y = nn_use_weight(here, "weight", 0, apply, x, weight);
    return nn_parts(here, "weight", 1) > 1 ? nn_leave(here, y) : y;
}

zl_array zl_nn_product(zl_nn nn, const char *name, zl_array x, int outputs, zl_nn_init init) {
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    return here ? product(here, x, outputs, init, false) : NULL;
}

zl_array nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias, bool entered) {
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    if (!here)
        return NULL;
    zl_nn_init init = matrix(zl_dim(x, -1) * nn_parts(here, "weight", 1));
    zl_array y = product(here, x, outputs, init, entered);
    return bias && y ? zl_add(y, zl_nn_parameter(here, "bias", ZL_SHAPE(outputs), (zl_nn_init){0})) : y;
}

zl_array zl_nn_linear(zl_nn nn, const char *name, zl_array x, int outputs, bool bias) {
    return nn_linear(nn, name, x, outputs, bias, false);
}

// Returns a table whose rows have a length of about 1, whatever the width is: logits of a tied output matrix
// then start near 1.
static zl_array table(zl_nn nn, const char *name, int64_t rows, int64_t width) {
    zl_nn_init init = {.deviation = 1 / sqrt((double)width), .kind = ZL_NN_TABLE};
    return zl_nn_parameter(zl_nn_at(nn, "%s", name), "weight", ZL_SHAPE(rows, width), init);
}

static zl_array take(zl_array ids, zl_array rows) {
    return zl_take(rows, ids, 0);
}

zl_array zl_nn_embedding(zl_nn nn, const char *name, zl_array ids, int count, int width) {
    zl_array rows = ids ? table(nn, name, count, width) : NULL;
    return rows ? nn_use_weight(zl_nn_at(nn, "%s", name), "weight", 1, take, ids, rows) : NULL;
}

zl_array zl_nn_logits(zl_nn nn, const char *name, zl_array x, int classes) {
    zl_array rows = x ? table(nn, name, classes, zl_dim(x, -1)) : NULL;
    return rows ? nn_use_weight(zl_nn_at(nn, "%s", name), "weight", 0, apply, x, rows) : NULL;
}

static zl_array gain(zl_nn nn, const char *name, zl_array x) {
    return zl_nn_parameter(zl_nn_at(nn, "%s", name), "weight", ZL_SHAPE(zl_dim(x, -1)),
                           (zl_nn_init){.mean = 1});
}

zl_array zl_nn_rms_norm(zl_nn nn, const char *name, zl_array x) {
    zl_array weight = x ? gain(nn, name, x) : NULL;
    return weight ? zl_fast_rms_norm(x, weight, eps) : NULL;
}

zl_array zl_nn_layer_norm(zl_nn nn, const char *name, zl_array x) {
    zl_array weight = x ? gain(nn, name, x) : NULL;
    zl_array bias =
        weight ? zl_nn_parameter(zl_nn_at(nn, "%s", name), "bias", ZL_SHAPE(zl_dim(x, -1)), (zl_nn_init){0})
               : NULL;
    return bias ? zl_fast_layer_norm(x, weight, bias, eps) : NULL;
}

zl_array zl_nn_conv(zl_nn nn, const char *name, zl_array x, int outputs, zl_shape kernel, int stride,
                    int padding, int groups) {
    enum { AXES_MOST = 3 };
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    if (!here)
        return NULL;
    if (kernel.ndim < 1 || kernel.ndim > AXES_MOST || groups < 1) {
        nn_fail(nn,
                "zl_nn_conv: a kernel of %d axes in %d groups; 1 to 3 axes and at least 1 group are possible",
                kernel.ndim, groups);
        return NULL;
    }
    int64_t shape[AXES_MOST + 2] = {outputs}, inputs = zl_dim(x, -1) / groups;
    shape[kernel.ndim + 1] = inputs;
    for (int i = 0; i < kernel.ndim; i++)
        inputs *= shape[i + 1] = kernel.dim[i];
    zl_nn_init init = {.spread = 1 / sqrt((double)inputs)};
    zl_array weight = zl_nn_parameter(here, "weight", (zl_shape){shape, kernel.ndim + 2}, init);
    zl_array bias = zl_nn_parameter(here, "bias", ZL_SHAPE(outputs), (zl_nn_init){0});
    return zl_add(zl_conv_general(x, weight, ZL_SHAPE(stride), ZL_SHAPE(padding), ZL_SHAPE(1), ZL_SHAPE(1),
                                  groups, false),
                  bias);
}

zl_array zl_nn_causal_conv(zl_nn nn, const char *name, zl_array x, int width) {
    if (!x)
        return NULL;
    if (zl_ndim(x) != 3 || width < 1) {
        nn_fail(
            nn,
            "zl_nn_causal_conv: x of %d axes and a width of %d; (batch, time, channels) and at least 1 are "
            "needed",
            zl_ndim(x), width);
        return NULL;
    }
    int64_t batch = zl_dim(x, 0), time = zl_dim(x, 1), channels = zl_dim(x, 2);
    zl_nn here = zl_nn_at(nn, "%s", name);
    zl_nn_init init = {.spread = 1 / sqrt((double)width)};
    zl_shape shape = ZL_SHAPE(width, channels * nn_parts(here, "weight", 1));
    zl_array weight = zl_nn_parameter(here, "weight", shape, init);
    zl_array before = zl_pad(x, ZL_SHAPE(0, width - 1, 0), ZL_SHAPE(0, 0, 0), zl_scalar(0)), y = NULL;
    for (int j = 0; j < width; j++) {
        zl_array shifted =
            zl_slice(before, ZL_SHAPE(0, j, 0), ZL_SHAPE(batch, j + time, channels), ZL_SHAPE(1, 1, 1));
        zl_array part =
            zl_multiply(shifted, zl_slice(weight, ZL_SHAPE(j, 0), ZL_SHAPE(j + 1, channels), ZL_SHAPE(1, 1)));
        y = j ? zl_add(y, part) : part;
    }
    return y;
}

static zl_array silu(zl_array x) {
    return zl_multiply(x, zl_sigmoid(x));
}

// Returns x Phi(x), by the error function.
static zl_array gelu(zl_array x) {
    zl_array share = zl_add(zl_erf(zl_multiply(x, zl_scalar(sqrt(0.5)))), zl_scalar(1));
    return zl_multiply(zl_multiply(x, zl_scalar(0.5)), share);
}

zl_array zl_nn_mlp(zl_nn nn, const char *name, zl_array x, int hidden) {
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    return x ? zl_nn_linear(here, "down", gelu(zl_nn_linear(here, "up", x, hidden, true)), (int)zl_dim(x, -1),
                            true)
             : NULL;
}

// Both products take one x, so that its two cotangents are added before they are summed over tensor.
zl_array zl_nn_swiglu(zl_nn nn, const char *name, zl_array x, int hidden) {
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    bool divided = nn_parts(here, "up.weight", 0) > 1 && nn_parts(here, "gate.weight", 0) > 1;
    zl_array in = divided ? nn_enter(here, x) : x, gate = nn_linear(here, "gate", in, hidden, false, divided),
             up = nn_linear(here, "up", in, hidden, false, divided);
    return x ? zl_nn_linear(here, "down", zl_multiply(silu(gate), up), (int)zl_dim(x, -1), false) : NULL;
}

// Experts ---------------------------------------------------------------------------------------------------

// Multiplies x (tokens, used or 1, 1, inputs) by the matrices of the experts chosen for each token. Returns
// (tokens, used, 1, outputs).
static zl_array by_experts(zl_nn nn, const char *name, zl_array x, zl_array chosen, int experts,
                           int64_t outputs, int64_t inputs) {
    zl_array weight = zl_nn_parameter(zl_nn_at(nn, "%s", name), "weight", ZL_SHAPE(experts, outputs, inputs),
                                      matrix(inputs));
    zl_array token =
        NULL; // index of the row of x for each choice, (tokens, 1) or (tokens, used)
    if (x && zl_dim(x, 1) == 1)
        token = zl_expand_dims(zl_arange_int(0, zl_dim(x, 0), 1, ZL_UINT32), ZL_AXES(1));
    else if (x)
        token = zl_reshape(zl_arange_int(0, zl_dim(x, 0) * zl_dim(x, 1), 1, ZL_UINT32),
                           ZL_SHAPE(zl_dim(x, 0), zl_dim(x, 1)));
    return zl_gather_mm(x, zl_swapaxes(weight, -1, -2), token, chosen, false);
}

static zl_array balance_of(zl_array chosen, zl_array probability, const zl_nn_moe_options *o) {
    zl_array expert = zl_arange_int(0, o->experts, 1, ZL_UINT32);
    zl_array hit = zl_astype(zl_equal(zl_expand_dims(chosen, ZL_AXES(-1)), expert), ZL_FLOAT32);
    zl_array share = zl_mean_axes(hit, ZL_AXES(0, 1), false),
             mean = zl_mean_axes(probability, ZL_AXES(0), false);
    return zl_multiply(zl_scalar(o->experts), zl_sum(zl_multiply(zl_stop_gradient(share), mean)));
}

zl_array zl_nn_moe(zl_nn nn, const char *name, zl_array x, const zl_nn_moe_options *o, zl_array *balance) {
    zl_nn here = x ? zl_nn_at(nn, "%s", name) : NULL;
    if (!here)
        return NULL;
    if (o->experts < 1 || o->used < 1 || o->used > o->experts || o->hidden < 1) {
        nn_fail(nn, "zl_nn_moe: %d of %d experts of %d; at least 1, and no more than there are, are possible",
                o->used, o->experts, o->hidden);
        return NULL;
    }
    int64_t width = zl_dim(x, -1), tokens = zl_size(x) / width;
    zl_array flat = zl_reshape(x, ZL_SHAPE(tokens, width));
    zl_array probability =
        zl_softmax(zl_astype(zl_nn_linear(here, "router", flat, o->experts, false), ZL_FLOAT32), -1, true);
    zl_array order = zl_argsort(zl_stop_gradient(zl_negative(probability)), -1);
    zl_array chosen = zl_slice(order, ZL_SHAPE(0, 0), ZL_SHAPE(tokens, o->used), ZL_SHAPE(1, 1));
    zl_array weight = zl_take_along_axis(probability, chosen, -1);
    weight = zl_divide(weight, zl_sum_axes(weight, ZL_AXES(-1), true));

    zl_array in = zl_expand_dims(flat, ZL_AXES(1, 2));
    zl_array gate = by_experts(here, "gate", in, chosen, o->experts, o->hidden, width);
    zl_array up = by_experts(here, "up", in, chosen, o->experts, o->hidden, width);
    zl_array y = by_experts(here, "down", zl_multiply(silu(gate), up), chosen, o->experts, width, o->hidden);
    y = zl_sum_axes(zl_multiply(zl_squeeze(y, ZL_AXES(2)), zl_expand_dims(weight, ZL_AXES(-1))), ZL_AXES(1),
                    false);
    if (balance)
        *balance = balance_of(chosen, probability, o);
    return zl_reshape(zl_astype(y, zl_dtype_of(x)), zl_shape_of(x));
}
