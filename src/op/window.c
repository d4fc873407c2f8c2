// window.c - window functions of signal processing, and differences of adjacent elements.

#include <math.h>

#include "op/ops.h"

// Returns `count` numbers evenly spaced from 0 to `step`. With fewer than two, sets *few and returns ones,
// which are then the whole window.
static zl_array angles(const char *function, int count, double step, bool *few) {
    *few = count < 2;
    if (*few)
        return zl_ones(ZL_SHAPE(MAX_OF(count, 0)), ZL_FLOAT32);
    int64_t size = count;
    if (!op_check_size(function, 1, &size))
        return NULL;
    return zl_multiply(op_number(ZL_FLOAT32, step / (count - 1)), zl_arange(0, count, 1, ZL_FLOAT32));
}

zl_array zl_bartlett(int M) {
    bool few;
    zl_array x = angles("zl_bartlett", M, 2, &few);
    return few ? x : zl_subtract(zl_scalar(1), zl_abs(zl_subtract(x, zl_scalar(1))));
}
OP_SIGNATURE(zl_bartlett, "create", "The Bartlett window of M numbers: a triangle.", P_INT(M, NULL));

zl_array zl_hanning(int M) {
    bool few;
    zl_array x = angles("zl_hanning", M, M_PI, &few);
    return few ? x : zl_square(zl_sin(x));
}
OP_SIGNATURE(zl_hanning, "create", "The Hanning window of M numbers: a raised cosine.", P_INT(M, NULL));

zl_array zl_hamming(int M) {
    bool few;
    zl_array x = angles("zl_hamming", M, 2 * M_PI, &few);
    return few ? x : zl_subtract(zl_scalar(0.54), zl_multiply(zl_scalar(0.46), zl_cos(x)));
}
OP_SIGNATURE(zl_hamming, "create", "The Hamming window of M numbers: a raised cosine on a step.",
             P_INT(M, NULL));

zl_array zl_blackman(int M) {
    bool few;
    zl_array x = angles("zl_blackman", M, 2 * M_PI, &few);
    if (few)
        return x;
    x = zl_cos(x); // 0.42 - 0.5 cos(t) + 0.08 cos(2 t), in powers of the cosine
    return zl_add(zl_subtract(zl_scalar(0.34), zl_multiply(zl_scalar(0.5), x)),
                  zl_multiply(zl_scalar(0.16), zl_square(x)));
}
OP_SIGNATURE(zl_blackman, "create", "The Blackman window of M numbers: three terms of a cosine series.",
             P_INT(M, NULL));

// Returns x without `skip` elements at the start of an axis and `drop` at its end.
static zl_array cut(zl_array x, int axis, int64_t skip, int64_t drop) {
    OP_TEMP(int64_t, start, 3 * x->ndim);
    if (!start)
        return NULL;
    int64_t *stop = start + x->ndim, *step = stop + x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        start[i] = i == axis ? skip : 0;
        stop[i] = i == axis ? MAX_OF(x->dim[i] - drop, 0) : x->dim[i];
        step[i] = 1;
    }
    return zl_slice(x, (zl_shape){start, x->ndim}, (zl_shape){stop, x->ndim}, (zl_shape){step, x->ndim});
}

static bool again_diff(const union op_value *v, zl_array *out) {
    return (out[0] = zl_diff(v[0].array, v[1].number, v[2].number));
}

zl_array zl_diff(zl_array a, int n, int axis) {
    zl_array y;
    if (op_again(&y, "zl_diff", again_diff, a, n, axis))
        return y;
    int at = a ? shape_axis("zl_diff", axis, a->ndim) : -1;
    if (at < 0)
        return NULL;
    if (n < 0)
        return error_set(ZL_ERROR_VALUE, "zl_diff: %d times: not less than 0 is possible", n);
    if (n >= a->dim[at])
        return cut(a, at, 0, a->dim[at]);
    zl_scope s = zl_scope_begin();
    zl_array x = op_same(a);
    for (int i = 0; x && i < n; i++)
        x = a->dtype == ZL_BOOL ? zl_bitwise_xor(cut(x, at, 1, 0), cut(x, at, 0, 1))
                                : zl_subtract(cut(x, at, 1, 0), cut(x, at, 0, 1));
    return zl_scope_leave(s, x);
}
OP_SIGNATURE(zl_diff, "shape",
             "Each element less the one before it along an axis, n times over; of truth values, "
             "whether they differ.",
             P_ARRAY(a), P_INT(n, "1"), P_INT(axis, "-1"));
