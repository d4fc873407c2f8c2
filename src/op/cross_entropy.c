// cross_entropy.c - the cross entropy of classes. Its gradient is the softmax, less one at the target.
//
// The op also gives the logarithm of the sum of exponentials. From it the gradient, an op of its own,
// computes the softmax in one pass.

#include "op/ops.h"

static const char *const function = "zl_fast_cross_entropy";

// out: the losses, then the logarithms of the sums.
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

// Returns exp(logits - sums), in the dtype of the sums.
static zl_array softmax(zl_array logits, zl_array sums) {
    return sums ? zl_exp(zl_subtract(zl_astype(logits, (zl_dtype)sums->dtype), column(sums))) : NULL;
}

static zl_array sums_of(const struct call *c) {
    return graph_lend_sibling((struct call *)(uintptr_t)c, 1);
}

// Returns valid positions, as the kernel reads them: negative ones count from the end, and others are
// clamped.
static zl_array positions(zl_array logits, zl_array targets) {
    int64_t classes = logits->dim[logits->ndim - 1];
    zl_array at = zl_astype(targets, ZL_INT64), zero = op_number(ZL_INT64, 0);
    at = zl_where(zl_less(at, zero), zl_add(at, op_number(ZL_INT64, (double)classes)), at);
    return column(zl_minimum(zl_maximum(at, zero), op_number(ZL_INT64, (double)(classes - 1))));
}

// Returns how many consecutive elements each thread reads at once: 16 bytes if every row is aligned to that,
// else one element.
static int run_of(zl_array logits) {
    int run = 16 / (int)array_item(logits);
    return logits->dim[logits->ndim - 1] % run || logits->offset % run ? 1 : run;
}

// The gradient ----------------------------------------------------------------------------------------------

enum { LOGITS, TARGETS, SUMS, SLOPE, AT_TARGET, GRADIENT_INPUTS };

static zl_array gradient(const zl_array *in) {
    zl_array dense[GRADIENT_INPUTS];
    for (int i = 0; i < GRADIENT_INPUTS; i++)
        if (!(dense[i] = zl_contiguous(in[i], false)))
            return NULL;
    zl_array x = dense[LOGITS];
    return op_dense(&op_cross_entropy_vjp, GRADIENT_INPUTS, dense, 0, NULL, (zl_dtype)x->dtype, x->ndim,
                    x->dim);
}

static bool record_gradient(const struct call *c, const zl_array *in, zl_array *out) {
    (void)c;
    return (out[0] = gradient(in));
}

static bool composed_gradient(const struct call *c, const zl_array *in, zl_array *out) {
    zl_array x = in[LOGITS], grad = zl_multiply(softmax(x, in[SUMS]), column(in[SLOPE]));
    zl_array classes = zl_arange_int(0, x->dim[x->ndim - 1], 1, ZL_INT64);
    (void)c;
    grad = zl_where(zl_equal(classes, positions(x, in[TARGETS])), zl_subtract(grad, column(in[AT_TARGET])),
                    grad);
    return (out[0] = zl_astype(grad, (zl_dtype)x->dtype));
}

static bool vmap_gradient(const struct call *c, const zl_array *in, const int *axis, zl_array *out,
                          int *out_axis) {
    int64_t batch = op_batch_size(GRADIENT_INPUTS, in, axis);
    zl_array all[GRADIENT_INPUTS];
    *out_axis = batch < 0 ? -1 : 0;
    for (int i = 0; i < GRADIENT_INPUTS; i++)
        if (!(all[i] = batch < 0 ? in[i] : op_batch_repeat(in[i], axis[i], batch)))
            return false;
    return record_gradient(c, all, out);
}

// Returns whether logits and targets fit each other.
static bool are_classes(const zl_array *in) {
    int last = in[0]->ndim - 1;
    return last >= 0 && in[0]->dim[last] > 0 && dtype_is_float((zl_dtype)in[0]->dtype) &&
           dtype_is_integer((zl_dtype)in[1]->dtype) && shape_equal(last, in[0]->dim, in[1]->ndim, in[1]->dim);
}

static bool fits_gradient(const struct call *c, const zl_array *in) {
    if (!op_has(c, GRADIENT_INPUTS, 0) || !are_classes(in))
        return false;
    zl_dtype wide = in[LOGITS]->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
    for (int i = SUMS; i < GRADIENT_INPUTS; i++)
        if (in[i]->dtype != wide || !op_same_shape(in[i], in[TARGETS]))
            return false;
    return true;
}

static void kernel_gradient(const struct call *c, struct op_kernel *k) {
    zl_array x = c->in[LOGITS];
    op_kernel_set(k, "cross_entropy_vjp", "ITEM=%s,WIDE=%s,TARGET=%s,RUN=%d,QUICK=%d", op_kernel_type(x),
                  op_kernel_type(c->in[SUMS]), op_kernel_type(c->in[TARGETS]), run_of(x), array_item(x) == 2);
    op_kernel_size(k, c->in[TARGETS]->size);
    op_kernel_size(k, x->dim[x->ndim - 1]);
}

const struct op op_cross_entropy_vjp = {
    .name = "cross_entropy_vjp",
    .kind = OP_OTHER,
    .record = record_gradient,
    .fits = fits_gradient,
    .composed = composed_gradient,
    .vmap = vmap_gradient,
    .kernel = kernel_gradient,
    .in_place = 1 << LOGITS, // each element is read only by the thread that writes it
};

// Rules -----------------------------------------------------------------------------------------------------

// The gradient of the losses is softmax less one at the target; that of the logarithms is softmax.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    zl_array loss = cotangent[0], sum = cotangent[1], x = c->in[0], sums = sums_of(c);
    (void)input;
    zl_array both = loss && sum ? zl_add(loss, sum) : loss ? loss : sum;
    if (!sums)
        return NULL;
    return loss ? gradient((zl_array[]){x, c->in[1], sums, both, loss})
                : zl_astype(zl_multiply(softmax(x, sums), column(both)), (zl_dtype)x->dtype);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    out[0] = out[1] = NULL;
    if (!tangent[0])
        return true;
    zl_array t = zl_astype(tangent[0], (zl_dtype)call_first(c)->dtype);
    out[1] = op_reduce_axes(function, REDUCE_SUM, zl_multiply(softmax(c->in[0], sums_of(c)), t), ZL_AXES(-1),
                            false);
    out[0] = zl_subtract(out[1],
                         zl_squeeze(zl_take_along_axis(t, positions(c->in[0], c->in[1]), -1), ZL_AXES(-1)));
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
    return op_has(c, 2, 0) && are_classes(in);
}

static void kernel(const struct call *c, struct op_kernel *k) {
    zl_array x = c->in[0];
    int64_t classes = x->dim[x->ndim - 1];
    int run = run_of(x);
    op_kernel_set(k, "cross_entropy", "ITEM=%s,WIDE=%s,TARGET=%s,LANES=%d,RUN=%d,QUICK=%d", op_kernel_type(x),
                  op_kernel_type(call_first(c)), op_kernel_type(c->in[1]),
                  op_kernel_lanes(4 * ((classes + run - 1) / run)), run, x->dtype != ZL_FLOAT64);
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

// Returns 16-bit logits if these were cast to float32, also before a reshape or slice, and are not computed
// yet: the values are the same, and the float32 ones need not be stored.
static zl_array narrowest(zl_array logits) {
    const struct call *c = logits->call;
    if (!c || c->detached || c->inputs != 1 || !array_is_pending(logits) || logits->dtype != ZL_FLOAT32)
        return logits;
    zl_array x = c->in[0], y;
    if (c->op == &op_cast)
        return x->dtype == ZL_FLOAT16 || x->dtype == ZL_BFLOAT16 ? x : logits;
    if (c->op != &op_reshape && c->op != &op_slice)
        return logits;
    zl_array from = narrowest(x);
    return from == x ? logits : from && c->op->record(c, &from, &y) ? y : NULL;
}

zl_array zl_fast_cross_entropy(zl_array logits, zl_array targets) {
    zl_array out[2];
    if (!logits || !targets || !check(logits, targets))
        return NULL;
    zl_scope s = zl_scope_begin();
    bool ok = entropy(narrowest(logits), targets, out);
    return zl_scope_leave(s, ok ? zl_astype(out[0], ZL_FLOAT32) : NULL);
}
OP_SIGNATURE(zl_fast_cross_entropy, "fast",
             "log(sum(exp(logits))) along the last axis, less the logit of the class that targets, integers "
             "of the shape of the "
             "other axes, name: as float32, in which it is summed whatever the logits are; float64 is summed "
             "as such. A negative "
             "target counts from the last class; one that is not there is the nearest.",
             P_ARRAY(logits), P_ARRAY(targets));
