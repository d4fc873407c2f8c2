// cross_entropy.c - the loss of classifiers, with the slope that everybody knows: softmax less one.
//
// The op also gives the logarithm of the sum of exponentials, from which its derivatives make the softmax in one pass.

#include "op/ops.h"

static const char *const function = "zl_fast_cross_entropy";

// out: the losses, then the logarithms.
static bool entropy(zl_array logits, zl_array targets, zl_array *out) {
    if (!(logits = zl_contiguous(logits, false)) || !(targets = zl_contiguous(targets, false)))
        return false;
    zl_dtype dtype = logits->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    struct array_spec each = {.dtype = dtype, .ndim = targets->ndim, .dim = targets->dim};
    zl_array y = graph_call(&op_cross_entropy, 2, (zl_array[]){logits, targets}, 0, NULL, 2,
                            (struct array_spec[]){each, each});
    if (!y)
        return false;
    out[0] = y;
    out[1] = call_output(y->call, 1);
    return true;
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return entropy(in[0], in[1], out);
}

static zl_array column(zl_array x) {
    return zl_expand_dims(x, ZL_AXES(-1));
}

// As of the op's results.
static zl_array wide_logits(const struct call *c) {
    return zl_astype(c->in[0], (zl_dtype)call_first(c)->dtype);
}

static zl_array softmax(const struct call *c) {
    zl_array sum = graph_lend_sibling((struct call *)(uintptr_t)c, 1);
    return sum ? zl_exp(zl_subtract(wide_logits(c), column(sum))) : NULL;
}

// Positions that are there, as the kernel reads them: negative ones count from the end, others are the nearest.
static zl_array positions(const struct call *c) {
    int64_t classes = c->in[0]->dim[c->in[0]->ndim - 1];
    zl_array at = zl_astype(c->in[1], ZL_INT64), zero = op_number(ZL_INT64, 0);
    at = zl_where(zl_less(at, zero), zl_add(at, op_number(ZL_INT64, (double)classes)), at);
    return column(zl_minimum(zl_maximum(at, zero), op_number(ZL_INT64, (double)(classes - 1))));
}

// Of the losses the slope is softmax less one at the target, of the logarithms it is softmax.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array loss = cotangent[0], sum = cotangent[1];
    (void)input;
    zl_array both = loss && sum ? zl_add(loss, sum) : loss ? loss : sum;
    zl_array grad = zl_multiply(softmax(c), column(both));
    if (loss) {
        zl_array classes = zl_arange_int(0, c->in[0]->dim[c->in[0]->ndim - 1], 1, ZL_INT64);
        grad = zl_where(zl_equal(classes, positions(c)), zl_subtract(grad, column(loss)), grad);
    }
    return zl_astype(grad, (zl_dtype)c->in[0]->dtype);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = out[1] = NULL;
    if (!tangent[0])
        return true;
    zl_array t = zl_astype(tangent[0], (zl_dtype)call_first(c)->dtype);
    out[1] = op_reduce_axes(function, REDUCE_SUM, zl_multiply(softmax(c), t), ZL_AXES(-1), false);
    out[0] = zl_subtract(out[1], zl_squeeze(zl_take_along_axis(t, positions(c), -1), ZL_AXES(-1)));
    return out[0];
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(2, in, axis);
    out_axis[0] = out_axis[1] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    zl_array all[] = {op_batch_repeat(in[0], axis[0], batch), op_batch_repeat(in[1], axis[1], batch)};
    return all[0] && all[1] && record(c, all, out);
}

static bool fits(const struct call *c, const zl_array *in) {
    int last = in[0]->ndim - 1;
    return op_has(c, 2, 0) && last >= 0 && in[0]->dim[last] > 0 && dtype_is_float((zl_dtype)in[0]->dtype) &&
           dtype_is_integer((zl_dtype)in[1]->dtype) && shape_equal(last, in[0]->dim, in[1]->ndim, in[1]->dim);
}

static void kernel(const struct call *c, struct op_kernel *k) {
    zl_array x = c->in[0];
    int64_t classes = x->dim[x->ndim - 1];
    op_kernel_set(k, "cross_entropy", "ITEM=%s,WIDE=%s,TARGET=%s,LANES=%d", op_kernel_type(x),
                  op_kernel_type(call_first(c)), op_kernel_type(c->in[1]), op_kernel_lanes(classes));
    op_kernel_size(k, call_first(c)->size);
    op_kernel_size(k, classes);
}

const struct op op_cross_entropy = {
    .name = "cross_entropy",
    .kind = OP_OTHER,
    .outputs = 2,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
    .kernel = kernel,
};

static bool check(zl_array logits, zl_array targets) {
    if (!dtype_is_float((zl_dtype)logits->dtype))
        return error_false(ZL_ERROR_DTYPE, "%s: logits of %s: floats are needed", function,
                           zl_dtype_name((zl_dtype)logits->dtype));
    if (!dtype_is_integer((zl_dtype)targets->dtype))
        return error_false(ZL_ERROR_DTYPE, "%s: targets of %s: integers are needed", function,
                           zl_dtype_name((zl_dtype)targets->dtype));
    int last = logits->ndim - 1;
    if (last < 0 || logits->dim[last] == 0)
        return error_false(ZL_ERROR_SHAPE, "%s: logits of shape %s: their last axis must have a class",
                           function, array_text(logits));
    return shape_equal(last, logits->dim, targets->ndim, targets->dim) ||
           error_false(ZL_ERROR_SHAPE, "%s: targets of shape %s for logits of shape %s: %s is needed",
                       function, array_text(targets), array_text(logits), shape_text(last, logits->dim));
}

zl_array zl_fast_cross_entropy(zl_array logits, zl_array targets) {
    zl_array out[2];
    if (!logits || !targets || !check(logits, targets))
        return NULL;
    zl_scope s = zl_scope_begin();
    return zl_scope_leave(s, entropy(logits, targets, out) ? zl_astype(out[0], ZL_FLOAT32) : NULL);
}
OP_SIGNATURE(zl_fast_cross_entropy, "fast",
             "log(sum(exp(logits))) along the last axis, less the logit of the class that targets, integers "
             "of the shape of the "
             "other axes, name: as float32, in which it is summed whatever the logits are; float64 is summed "
             "as such. A negative "
             "target counts from the last class; one that is not there is the nearest.",
             P_ARRAY(logits), P_ARRAY(targets));
