// nn_loss.c - losses. All are means, computed in f32 or in a wider dtype of the inputs.

#include "nn.h"

// Computes the cross entropy by ops, for float64: the kernel of zl_fast_cross_entropy has float32 results.
static zl_array wide_cross_entropy(zl_array logits, zl_array targets) {
    zl_array own = zl_take_along_axis(logits, zl_expand_dims(targets, ZL_AXES(-1)), -1);
    return zl_subtract(zl_logsumexp_axis(logits, -1, false), zl_squeeze(own, ZL_AXES(-1)));
}

zl_array zl_nn_cross_entropy(zl_array logits, zl_array targets, zl_array mask) {
    bool wide = logits && zl_dtype_of(logits) == ZL_FLOAT64;
    zl_array loss = wide ? wide_cross_entropy(logits, targets) : zl_fast_cross_entropy(logits, targets);
    if (!mask)
        return zl_mean(loss);
    zl_array counts = zl_astype(mask, ZL_FLOAT32);
    return zl_divide(zl_sum(zl_multiply(loss, counts)), zl_maximum(zl_sum(counts), zl_scalar(1)));
}

// Returns -t log p - (1 - t) log(1 - p) for p = sigmoid(x), computed as log(1 + exp(x)) - x t, where no
// argument of a logarithm rounds to 0.
zl_array zl_nn_binary_cross_entropy(zl_array logits, zl_array targets) {
    zl_array x = zl_astype(logits, ZL_FLOAT32);
    return zl_mean(zl_subtract(zl_logaddexp(x, zl_scalar(0)), zl_multiply(x, targets)));
}

zl_array zl_nn_mean_squares(zl_array y, zl_array targets) {
    return zl_mean(zl_square(zl_subtract(zl_astype(y, ZL_FLOAT32), targets)));
}
