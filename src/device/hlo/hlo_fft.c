// hlo_fft.c - Fourier transforms along one axis. Those of StableHLO are along the last axis, and inverse ones
// divide by n.

#include "device/hlo/hlo.h"

// Returns the first `size` elements of an axis, with zeros after them if it has fewer.
static struct hlo_tensor fit_axis(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t size) {
    int64_t none[HLO_AXES] = {0}, high[HLO_AXES] = {0};
    if (x.dim[axis] >= size)
        return hlo_cut(m, x, axis, 0, size);
    high[axis] = size - x.dim[axis];
    return hlo_pad(m, x, hlo_bits(m, x.dtype, 0), none, high, none);
}

bool hlo_fft(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
             struct hlo_tensor *out) {
    static const char *const names[] = {
        [FFT_FORWARD] = "FFT", [FFT_INVERSE] = "IFFT", [FFT_REAL] = "RFFT", [FFT_HERMITIAN] = "IRFFT"};
    const int64_t *arg = call_args(c);
    enum fft which = (enum fft)arg[0];
    int axis = (int)arg[1], last = in[0].ndim - 1;
    int64_t n = arg[2];
    bool is_back = which == FFT_INVERSE || which == FFT_HERMITIAN;
    zl_dtype dtype = (zl_dtype)call_first(c)->dtype;
    struct hlo_tensor x = hlo_cast(m, in[0], which == FFT_REAL ? ZL_FLOAT32 : ZL_COMPLEX64);
    x = hlo_move_axis(m, fit_axis(m, x, axis, which == FFT_HERMITIAN ? n / 2 + 1 : n), axis, last);
    struct hlo_tensor y = hlo_type(dtype, x.ndim, x.dim);
    y.dim[last] = which == FFT_REAL ? n / 2 + 1 : n;
    hlo_emit(m, &y, "stablehlo.fft %v, type = %s, length = [%l] : (%t) -> %t", &x, names[which], 1, &n, &x,
             &y);
    double scale = op_arg_double(arg[3]) * (is_back ? (double)n : 1);
    if (scale != 1)
        y = hlo_binary(m, TILE_MUL, y, hlo_number(m, dtype, scale));
    out[0] = hlo_move_axis(m, y, last, axis);
    return true;
}
