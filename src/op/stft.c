// stft.c - short-time Fourier transforms of a signal, and their inverse, as in mlx.core.fft.
//
// Frames are a view of the signal; only their product with the window takes memory. The inverse adds the
// frames at their positions, and divides by the sum of the squared windows there.

#include <limits.h>
#include <string.h>

#include "op/ops.h"

static const double least_envelope = 1e-8; // where the squared windows sum to less than this, the result is
                                           // divided by this

struct frames {
    const char *function;
    int64_t n, hop; // n: elements per frame; hop: distance of two frames
    int64_t count;
    const char *norm;
    zl_array window; // (n) numbers
};

// Arguments -------------------------------------------------------------------------------------------------

static bool is_norm(const char *norm) {
    return !strcmp(norm, "backward") || !strcmp(norm, "ortho") || !strcmp(norm, "forward");
}

// Returns the window with zeros on both sides, n elements in all.
static zl_array place_window(const struct frames *f, zl_array window, int64_t length) {
    zl_array w = window ? zl_astype(window, ZL_FLOAT32) : zl_ones(ZL_SHAPE(length), ZL_FLOAT32);
    int64_t low = (f->n - length) / 2;
    return zl_pad(w, ZL_SHAPE(low), ZL_SHAPE(f->n - length - low), op_number(ZL_FLOAT32, 0));
}

static bool check_window(const struct frames *f, zl_array window, int64_t length) {
    if (window && (window->ndim != 1 || window->dtype == ZL_COMPLEX64))
        return error_false(ZL_ERROR_SHAPE,
                           "%s: a window of %s and shape %s: one axis of real numbers is needed", f->function,
                           zl_dtype_name((zl_dtype)window->dtype), array_text(window));
    return (length >= 0 && length <= f->n) ||
           error_false(ZL_ERROR_VALUE,
                       "%s: a window of %lld numbers for frames of %lld: at most as many are possible",
                       f->function, (long long)length, (long long)f->n);
}

// Sets everything but count.
static bool read_frames(struct frames *f, int64_t n_fft, int hop_length, int win_length, zl_array window,
                        const char *norm) {
    f->n = n_fft;
    f->hop = hop_length == INT_MIN ? n_fft / 4 : hop_length;
    f->norm = norm ? norm : "backward";
    if (f->n < 1 || f->hop < 1)
        return error_false(ZL_ERROR_VALUE, "%s: frames of %lld, %lld apart: both must be at least 1",
                           f->function, (long long)f->n, (long long)f->hop);
    if (!is_norm(f->norm))
        return error_false(ZL_ERROR_VALUE,
                           "%s: norm \"%s\": \"backward\", \"ortho\" or \"forward\" is needed", f->function,
                           f->norm);
    int64_t length = window ? window->size : win_length == INT_MIN ? f->n : win_length;
    return check_window(f, window, length) && (f->window = place_window(f, window, length));
}

// Forward ---------------------------------------------------------------------------------------------------

// Returns the position in the signal, of `length` elements, of each element of the lengthened signal:
// mirrored at the ends, repeatedly if necessary, or clamped.
static zl_array positions(int64_t length, int64_t more, bool mirrored) {
    zl_array at = zl_arange_int(-more, length + more, 1, ZL_INT64),
             last = op_number(ZL_INT64, (double)(length - 1));
    if (!mirrored || length == 1)
        return zl_minimum(zl_maximum(at, op_number(ZL_INT64, 0)), last);
    zl_array period = op_number(ZL_INT64, 2 * (double)(length - 1));
    zl_array phase = zl_remainder(at, period);
    return zl_minimum(phase, zl_subtract(period, phase));
}

// Returns x with `more` elements before and after the last axis.
static zl_array lengthen(const char *function, zl_array x, int64_t more, const char *mode) {
    int last = x->ndim - 1;
    bool constant = !strcmp(mode, "constant"), mirrored = !strcmp(mode, "reflect");
    if (!constant && !mirrored && strcmp(mode, "edge"))
        return error_set(ZL_ERROR_VALUE,
                         "%s: pad_mode \"%s\": \"reflect\", \"constant\" or \"edge\" is needed", function,
                         mode);
    if (!constant && x->dim[last] == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: x of shape %s: pad_mode \"%s\" needs an element", function,
                         array_text(x), mode);
    if (!constant)
        return zl_take(x, positions(x->dim[last], more, mirrored), last);
    OP_TEMP(int64_t, size, x->ndim);
    if (!size)
        return NULL;
    memset(size, 0, sizeof *size * (size_t)x->ndim);
    size[last] = more;
    return zl_pad(x, (zl_shape){size, x->ndim}, (zl_shape){size, x->ndim}, op_number((zl_dtype)x->dtype, 0));
}

// Returns the frames (..., count, n) as a view of x, which is row-major.
static zl_array cut(struct frames *f, zl_array x) {
    int ndim = x->ndim + 1;
    int64_t length = x->dim[ndim - 2];
    OP_TEMP(int64_t, dim, 2 * (int64_t)ndim);
    if (!dim)
        return NULL;
    if (length < f->n)
        return error_set(ZL_ERROR_SHAPE,
                         "%s: a signal of %lld elements, with what is added at its ends, for frames of %lld",
                         f->function, (long long)length, (long long)f->n);
    f->count = (length - f->n) / f->hop + 1;
    int64_t *stride = dim + ndim;
    shape_row_major(x->ndim, x->dim, stride);
    memcpy(dim, x->dim, sizeof *dim * (size_t)x->ndim);
    dim[ndim - 2] = f->count;
    dim[ndim - 1] = f->n;
    stride[ndim - 2] = f->hop;
    stride[ndim - 1] = 1;
    return op_check_size(f->function, ndim, dim)
               ? zl_as_strided(x, (zl_shape){dim, ndim}, (zl_shape){stride, ndim}, 0)
               : NULL;
}

static zl_array stft(struct frames *f, zl_array x, bool center, const char *mode, bool onesided) {
    bool complex = x->dtype == ZL_COMPLEX64 && !onesided;
    x = zl_astype(x, complex ? ZL_COMPLEX64 : ZL_FLOAT32);
    if (center && x)
        x = lengthen(f->function, x, f->n / 2, mode);
    zl_array y = zl_multiply(x ? cut(f, x) : NULL, f->window);
    y = onesided ? zl_fft_rfft(y, (int)f->n, -1, f->norm) : zl_fft_fft(y, (int)f->n, -1, f->norm);
    return zl_swapaxes(y, -1, -2);
}

static zl_array check_and_stft(zl_array x, struct frames *f, bool center, const char *mode, int onesided) {
    if (x->ndim == 0)
        return error_set(ZL_ERROR_SHAPE, "%s: x is a scalar: it needs an axis", f->function);
    bool is_half = onesided == INT_MIN ? x->dtype != ZL_COMPLEX64 : onesided;
    return stft(f, x, center, mode ? mode : "reflect", is_half);
}

static bool again_fft_stft(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fft_stft(v[0].array, v[1].number, v[2].number, v[3].number, v[4].array, v[5].number,
                                 v[6].string, v[7].string, v[8].number));
}

zl_array zl_fft_stft(zl_array x, int n_fft, int hop_length, int win_length, zl_array window, bool center,
                     const char *pad_mode, const char *norm, int onesided) {
    zl_array again;
    if (op_again(&again, "zl_fft_stft", again_fft_stft, x, n_fft, hop_length, win_length, window, center,
                 pad_mode, norm, onesided))
        return again;
    struct frames f = {.function = "zl_fft_stft"};
    zl_scope s = zl_scope_begin();
    bool ok = x && op_check_optional(window) && read_frames(&f, n_fft, hop_length, win_length, window, norm);
    return zl_scope_leave(s, ok ? check_and_stft(x, &f, center, pad_mode, onesided) : NULL);
}
OP_SIGNATURE(zl_fft_stft, "fft",
             "Fourier transforms, complex64 of shape (..., frequencies, frames), of frames of n_fft "
             "elements, hop_length apart "
             "(by default a quarter of it), along the last axis of x, times a window: one of at most n_fft "
             "numbers, put in the "
             "middle; else win_length ones. If center, the middle of the first frame is the first element: "
             "what is missing at the "
             "ends is mirrored (pad_mode \"reflect\"), 0 (\"constant\") or the last element (\"edge\"). norm "
             "is as of zl_fft_fft. "
             "If onesided, 1, only frequencies that are not negative are given, of complex x those of its "
             "real part; by default so of "
             "real x.",
             P_ARRAY(x), P_INT(n_fft, "2048"), P_INT(hop_length, "None"), P_INT(win_length, "None"),
             P_OPTIONAL(window), P_BOOL(center, "True"), P_STRING(pad_mode, "'reflect'"),
             P_STRING(norm, "'backward'"), P_INT(onesided, "None"));

// Back ------------------------------------------------------------------------------------------------------

// Adds frames (rows, count, n), hop apart, to a signal: (rows, (count - 1) * hop + n).
static zl_array overlap(const struct frames *f, zl_array frames) {
    if (!frames)
        return NULL;
    int64_t rows = frames->dim[0], total = (f->count - 1) * f->hop + f->n;
    zl_array start =
        zl_multiply(zl_arange_int(0, f->count, 1, ZL_INT64), op_number(ZL_INT64, (double)f->hop));
    zl_array updates = zl_moveaxis(frames, 1, 0); // (count, rows, n)
    return zl_scatter_add(zl_zeros(ZL_SHAPE(rows, total), ZL_FLOAT32), &start, 1, updates, ZL_AXES(1));
}

// Returns `length` elements of the last axis of y (rows, total), from `start` on, with zeros after its end.
static zl_array trim(zl_array y, int64_t start, int64_t length) {
    if (!y)
        return NULL;
    int64_t rows = y->dim[0], from = MIN_OF(start, y->dim[1]), there = MIN_OF(length, y->dim[1] - from);
    y = zl_slice(y, ZL_SHAPE(0, from), ZL_SHAPE(rows, from + there), ZL_SHAPE(1, 1));
    return zl_pad(y, ZL_SHAPE(0, 0), ZL_SHAPE(0, length - there), op_number(ZL_FLOAT32, 0));
}

// x: (rows, count, frequencies).
static zl_array istft(const struct frames *f, zl_array x, bool onesided) {
    int n = (int)f->n;
    zl_array frames = onesided ? zl_fft_irfft(x, n, -1, f->norm) : zl_real(zl_fft_ifft(x, n, -1, f->norm));
    zl_array square = zl_broadcast_to(zl_square(f->window), ZL_SHAPE(1, f->count, f->n));
    zl_array envelope = zl_maximum(overlap(f, square), op_number(ZL_FLOAT32, least_envelope));
    return zl_divide(overlap(f, zl_multiply(frames, f->window)), envelope);
}

// Returns y (rows, length) with the axes of x before its last two.
static zl_array unflatten_rows(zl_array y, zl_array x) {
    OP_TEMP(int64_t, dim, x->ndim - 1);
    if (!y || !dim)
        return NULL;
    memcpy(dim, x->dim, sizeof *dim * (size_t)(x->ndim - 2));
    dim[x->ndim - 2] = y->dim[1];
    return zl_reshape(y, (zl_shape){dim, x->ndim - 1});
}

static zl_array invert(struct frames *f, zl_array x, bool center, bool onesided, int length) {
    f->count = x->dim[x->ndim - 1];
    int64_t total = (f->count - 1) * f->hop + f->n, start = center ? f->n / 2 : 0, rows;
    if (!shape_size(x->ndim - 2, x->dim, &rows) || !op_check_size(f->function, 2, (int64_t[]){rows, total}) ||
        !op_check_size(f->function, 3, (int64_t[]){rows, f->count, f->n}))
        return NULL;
    zl_array flat = zl_reshape(zl_swapaxes(x, -1, -2), ZL_SHAPE(rows, f->count, x->dim[x->ndim - 2]));
    int64_t wanted = length == INT_MIN ? total - 2 * start : length;
    return unflatten_rows(trim(istft(f, flat, onesided), start, MAX_OF(wanted, 0)), x);
}

static bool check_spectrum(zl_array x) {
    return (x->ndim >= 2 && x->dim[x->ndim - 1] > 0) ||
           error_false(ZL_ERROR_SHAPE,
                       "zl_fft_istft: a spectrum of shape %s: frequencies and at least one frame are needed",
                       array_text(x));
}

static bool again_fft_istft(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fft_istft(v[0].array, v[1].number, v[2].number, v[3].number, v[4].array, v[5].number,
                                  v[6].string, v[7].number, v[8].number));
}

zl_array zl_fft_istft(zl_array stft_matrix, int n_fft, int hop_length, int win_length, zl_array window,
                      bool center, const char *norm, int onesided, int length) {
    zl_array again;
    if (op_again(&again, "zl_fft_istft", again_fft_istft, stft_matrix, n_fft, hop_length, win_length, window,
                 center, norm, onesided, length))
        return again;
    zl_array x = stft_matrix;
    struct frames f = {.function = "zl_fft_istft"};
    if (!x || !op_check_optional(window) || !check_spectrum(x))
        return NULL;
    int64_t bins = x->dim[x->ndim - 2], n = n_fft != INT_MIN ? n_fft : onesided ? 2 * (bins - 1) : bins;
    if (n > INT_MAX)
        return error_set(ZL_ERROR_SHAPE, "zl_fft_istft: a spectrum of shape %s has too many frequencies",
                         array_text(x));
    zl_scope s = zl_scope_begin();
    bool ok = read_frames(&f, n, hop_length, win_length, window, norm);
    return zl_scope_leave(s, ok ? invert(&f, x, center, onesided != 0, length) : NULL);
}
OP_SIGNATURE(zl_fft_istft, "fft",
             "The signals, float32, whose zl_fft_stft with the same arguments is stft_matrix (..., "
             "frequencies, frames): frames "
             "times the window are added up and divided by the sum of its squares. n_fft is by default an "
             "even number that fits. "
             "onesided, 1 or not given, says that only frequencies that are not negative are there. The "
             "result is cut, or "
             "lengthened with 0, to a length if there is one.",
             P_ARRAY(stft_matrix), P_INT(n_fft, "None"), P_INT(hop_length, "None"), P_INT(win_length, "None"),
             P_OPTIONAL(window), P_BOOL(center, "True"), P_STRING(norm, "'backward'"),
             P_INT(onesided, "None"), P_INT(length, "None"));
