// hlo_emit.c - emits the statements of modules, one function per kind of statement.

#include "device/hlo/hlo.h"

#include "render/render.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

// Text ------------------------------------------------------------------------------------------------------

static void add_dims(struct text *out, const struct hlo_tensor *x) {
    for (int i = 0; i < x->ndim; i++)
        text_add(out, "%" PRId64 "x", x->dim[i]);
}

static void add_list(struct text *out, int count, const int64_t *list) {
    for (int i = 0; i < count; i++)
        text_add(out, i ? ", %" PRId64 : "%" PRId64, list[i]);
}

static void add_type(struct text *out, const struct hlo_tensor *x) {
    text_add(out, "tensor<");
    add_dims(out, x);
    text_add(out, "%s>", render_stablehlo_type(x->dtype));
}

bool hlo_is_bounded(const struct hlo_tensor *x) {
    for (int i = 0; i < x->ndim; i++)
        if (x->real[i])
            return true;
    return false;
}

// Appends the name of a value that a statement reads. Refuses bounded values where an op needs their sizes.
static void add_value(struct hlo_module *m, const struct hlo_tensor *x) {
    struct hlo_writer *w = hlo_writer(m);
    if (!w->bounded_ok && !w->failed && hlo_is_bounded(x))
        hlo_refuse(m, "a size that varies is read by an op that needs to know it");
    text_add(&w->body, "%%%d", x->name);
}

static void add_formatted(struct hlo_module *m, const char *format, va_list list) {
    struct text *out = &hlo_writer(m)->body;
    for (const char *at = format; *at; at++) {
        if (*at != '%') {
            text_bytes(out, at, 1);
            continue;
        }
        switch (*++at) {
        case 'v': add_value(m, va_arg(list, const struct hlo_tensor *)); break;
        case 't': add_type(out, va_arg(list, const struct hlo_tensor *)); break;
        case 'e':
            text_add(out, "%s", render_stablehlo_type(va_arg(list, const struct hlo_tensor *)->dtype));
            break;
        case 'l': {
            int count = va_arg(list, int);
            add_list(out, count, va_arg(list, const int64_t *));
            break;
        }
        case 'd': text_add(out, "%d", va_arg(list, int)); break;
        case 's': text_add(out, "%s", va_arg(list, const char *)); break;
        default: text_bytes(out, at, 1);
        }
    }
}

void hlo_add(struct hlo_module *m, const char *format, ...) {
    va_list list;
    va_start(list, format);
    add_formatted(m, format, list);
    va_end(list);
}

void hlo_emit(struct hlo_module *m, struct hlo_tensor *out, const char *format, ...) {
    struct hlo_writer *w = hlo_writer(m);
    va_list list;
    out->name = w->names++;
    text_add(&w->body, "%%%d = ", out->name);
    va_start(list, format);
    add_formatted(m, format, list);
    va_end(list);
    text_add(&w->body, "\n");
}

void *hlo_refuse(struct hlo_module *m, const char *format, ...) {
    va_list list;
    va_start(list, format);
    error_set_list(ZL_ERROR_COMPILE, format, list);
    va_end(list);
    hlo_writer(m)->failed = true;
    return NULL;
}

// Types -----------------------------------------------------------------------------------------------------

struct hlo_tensor hlo_type(zl_dtype dtype, int ndim, const int64_t *dim) {
    struct hlo_tensor x = {.name = -1, .dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        x.dim[i] = dim[i];
    return x;
}

struct hlo_tensor hlo_like(zl_array x) {
    return hlo_type((zl_dtype)x->dtype, x->ndim, x->dim);
}

int64_t hlo_size(const struct hlo_tensor *x) {
    int64_t size = 1;
    for (int i = 0; i < x->ndim; i++)
        size *= x->dim[i];
    return size;
}

// Moving ----------------------------------------------------------------------------------------------------

// Carries the bounds of dynamic axes over to the result y of a reshape. An axis keeps its bound if its size
// and the number of elements before it are unchanged. Returns false if some axis cannot.
static bool keep_bounds(const struct hlo_tensor *x, struct hlo_tensor *y) {
    int64_t before = 1, size;
    for (int i = 0; i < x->ndim; before *= x->dim[i++]) {
        int k = 0;
        for (size = 1; k < y->ndim && (size < before || y->dim[k] != x->dim[i]); k++)
            size *= y->dim[k];
        if (x->real[i] && (k == y->ndim || size != before))
            return false;
        if (x->real[i])
            y->real[k] = x->real[i];
    }
    return true;
}

struct hlo_tensor hlo_reshape(struct hlo_module *m, struct hlo_tensor x, int ndim, const int64_t *dim) {
    struct hlo_tensor y = hlo_type(x.dtype, ndim, dim);
    if (shape_equal(x.ndim, x.dim, ndim, dim))
        return x;
    bool is_bounded = hlo_is_bounded(&x) && keep_bounds(&x, &y);
    hlo_writer(m)->bounded_ok += is_bounded;
    hlo_emit(m, &y, "stablehlo.reshape %v : (%t) -> %t", &x, &x, &y);
    hlo_writer(m)->bounded_ok -= is_bounded;
    return y;
}

struct hlo_tensor hlo_transpose(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis) {
    struct hlo_tensor y = x;
    bool moves = false;
    for (int i = 0; i < x.ndim; i++) {
        y.dim[i] = x.dim[axis[i]];
        y.real[i] = x.real[axis[i]];
        moves |= axis[i] != i;
    }
    hlo_writer(m)->bounded_ok++;
    if (moves)
        hlo_emit(m, &y, "stablehlo.transpose %v, dims = [%l] : (%t) -> %t", &x, x.ndim, axis, &x, &y);
    hlo_writer(m)->bounded_ok--;
    return y;
}

struct hlo_tensor hlo_move_axis(struct hlo_module *m, struct hlo_tensor x, int from, int to) {
    int64_t axis[HLO_RANK];
    int next = 0;
    for (int i = 0; i < x.ndim; i++) {
        next += next == from;
        axis[i] = i == to ? from : next++;
    }
    return hlo_transpose(m, x, axis);
}

struct hlo_tensor hlo_slice(struct hlo_module *m, struct hlo_tensor x, const int64_t *start,
                            const int64_t *stop, const int64_t *step) {
    struct hlo_tensor y = x;
    bool is_all = true;
    for (int i = 0; i < x.ndim; i++) {
        y.dim[i] = (stop[i] - start[i] + step[i] - 1) / step[i];
        is_all &= y.dim[i] == x.dim[i];
        if (x.real[i] && y.dim[i] != x.dim[i])
            hlo_refuse(m, "a part of an axis of which the size varies");
    }
    if (is_all)
        return x;
    struct hlo_writer *w = hlo_writer(m);
    y.name = w->names++;
    text_add(&w->body, "%%%d = stablehlo.slice %%%d [", y.name, x.name);
    for (int i = 0; i < x.ndim; i++)
        text_add(&w->body, "%s%" PRId64 ":%" PRId64 ":%" PRId64, i ? ", " : "", start[i], stop[i], step[i]);
    hlo_add(m, "] : (%t) -> %t\n", &x, &y);
    return y;
}

struct hlo_tensor hlo_cut(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t start, int64_t stop) {
    int64_t from[HLO_RANK], to[HLO_RANK], step[HLO_RANK];
    for (int i = 0; i < x.ndim; i++) {
        from[i] = i == axis ? start : 0;
        to[i] = i == axis ? stop : x.dim[i];
        step[i] = 1;
    }
    return hlo_slice(m, x, from, to, step);
}

struct hlo_tensor hlo_reverse(struct hlo_module *m, struct hlo_tensor x, int axes, const int64_t *axis) {
    struct hlo_tensor y = x;
    if (axes)
        hlo_emit(m, &y, "stablehlo.reverse %v, dims = [%l] : %t", &x, axes, axis, &x);
    return y;
}

struct hlo_tensor hlo_join(struct hlo_module *m, int count, const struct hlo_tensor *x, int axis) {
    struct hlo_tensor y = x[0];
    for (int i = 1; i < count; i++)
        y.dim[axis] += x[i].dim[axis];
    if (count == 1)
        return y;
    struct hlo_writer *w = hlo_writer(m);
    y.name = w->names++;
    text_add(&w->body, "%%%d = stablehlo.concatenate ", y.name);
    for (int i = 0; i < count; i++)
        hlo_add(m, i ? ", %v" : "%v", &x[i]);
    hlo_add(m, ", dim = %d : (", axis);
    for (int i = 0; i < count; i++)
        hlo_add(m, i ? ", %t" : "%t", &x[i]);
    hlo_add(m, ") -> %t\n", &y);
    return y;
}

struct hlo_tensor hlo_stretch(struct hlo_module *m, struct hlo_tensor x, const int64_t *axis, int ndim,
                              const int64_t *dim) {
    struct hlo_tensor y = hlo_type(x.dtype, ndim, dim);
    if (shape_equal(x.ndim, x.dim, ndim, dim))
        return x;
    for (int i = 0; i < x.ndim; i++)
        y.real[axis[i]] = x.real[i];
    for (int i = 0; i < x.ndim; i++)
        if (x.real[i] && y.dim[axis[i]] != x.dim[i])
            hlo_refuse(m, "a size that varies is stretched to another one");
    hlo_writer(m)->bounded_ok++;
    hlo_emit(m, &y, "stablehlo.broadcast_in_dim %v, dims = [%l] : (%t) -> %t", &x, x.ndim, axis, &x, &y);
    hlo_writer(m)->bounded_ok--;
    return y;
}

struct hlo_tensor hlo_fit(struct hlo_module *m, struct hlo_tensor x, int ndim, const int64_t *dim) {
    int64_t axis[HLO_RANK];
    for (int i = 0; i < x.ndim; i++)
        axis[i] = ndim - x.ndim + i;
    return hlo_stretch(m, x, axis, ndim, dim);
}

struct hlo_tensor hlo_pad(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor value,
                          const int64_t *low, const int64_t *high, const int64_t *between) {
    struct hlo_tensor y = x;
    for (int i = 0; i < x.ndim; i++)
        y.dim[i] += low[i] + high[i] + (x.dim[i] ? (x.dim[i] - 1) * between[i] : 0);
    hlo_emit(m, &y, "stablehlo.pad %v, %v, low = [%l], high = [%l], interior = [%l] : (%t, %t) -> %t", &x,
             &value, x.ndim, low, x.ndim, high, x.ndim, between, &x, &value, &y);
    return y;
}

// Numbers ---------------------------------------------------------------------------------------------------

struct hlo_tensor hlo_iota(struct hlo_module *m, zl_dtype dtype, int ndim, const int64_t *dim, int axis) {
    struct hlo_tensor y = hlo_type(dtype, ndim, dim);
    hlo_emit(m, &y, "stablehlo.iota dim = %d : %t", axis, &y);
    return y;
}

struct hlo_tensor hlo_bits(struct hlo_module *m, zl_dtype dtype, uint64_t bits) {
    struct hlo_tensor y = hlo_type(dtype, 0, NULL);
    struct tile_type type = tile_type_of(dtype);
    char text[64];
    if (dtype == ZL_BOOL)
        snprintf(text, sizeof text, "%s", bits ? "true" : "false");
    else if (dtype == ZL_COMPLEX64)
        snprintf(text, sizeof text, "(0x%08" PRIX64 ", 0x%08" PRIX64 ")", bits & 0xffffffff, bits >> 32);
    else if (tile_type_is_float(type))
        snprintf(text, sizeof text, "0x%0*" PRIX64, type.bits / 4, bits);
    else if (type.kind == TILE_UINT)
        snprintf(text, sizeof text, "%" PRIu64, bits);
    else
        snprintf(text, sizeof text, "%" PRId64, tile_value_of(type, bits).i);
    hlo_emit(m, &y, "stablehlo.constant dense<%s> : %t", text, &y);
    return y;
}

struct hlo_tensor hlo_number(struct hlo_module *m, zl_dtype dtype, double value) {
    uint64_t bits = 0;
    dtype_convert(&bits, dtype, &value, ZL_FLOAT64, 1);
    return hlo_bits(m, dtype, bits);
}

struct hlo_tensor hlo_same(struct hlo_module *m, zl_dtype dtype, double value, int ndim, const int64_t *dim) {
    return hlo_fit(m, hlo_number(m, dtype, value), ndim, dim);
}

// Elements --------------------------------------------------------------------------------------------------

// Emits the statements of a kernel that consists of one map, for these operands. Frees the kernel.
static struct hlo_tensor render(struct hlo_module *m, struct tile_kernel *kernel, zl_dtype dtype,
                                struct hlo_tensor like, const int *operand) {
    struct hlo_writer *w = hlo_writer(m);
    struct hlo_tensor y = like;
    y.dtype = dtype;
    struct text shape = {0};
    add_dims(&shape, &y);
    text_bytes(&shape, "", 0);
    if (!kernel ||
        !render_stablehlo(&w->body, kernel, shape.data ? shape.data : "", operand, &w->names, &y.name))
        w->failed = true;
    tile_free(kernel);
    text_free(&shape);
    return y;
}

struct hlo_tensor hlo_cast(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype) {
    return x.dtype == dtype ? x : render(m, tile_cast_kernel(dtype, x.dtype), dtype, x, &x.name);
}

struct hlo_tensor hlo_apply(struct hlo_module *m, enum tile_op op, int count, const struct hlo_tensor *x) {
    struct hlo_tensor y = hlo_type(ZL_BOOL, 0, NULL), fitted;
    int operand[3];
    zl_dtype dtype = x[count - 1].dtype;
    for (int i = 0; i < count && y.ndim >= 0; i++)
        y.ndim = shape_broadcast(x[i].ndim, x[i].dim, y.ndim, y.dim, y.dim);
    if (y.ndim < 0) {
        hlo_refuse(m, "%s of a size that varies and one that does not", tile_op_name(op));
        return hlo_type(dtype, x[0].ndim, x[0].dim);
    }
    for (int i = 0; i < count; i++) {
        fitted = hlo_fit(m, x[i], y.ndim, y.dim);
        operand[i] = fitted.name;
        for (int k = 0; k < y.ndim; k++)
            y.real[k] = y.real[k] ? y.real[k] : fitted.real[k];
    }
    if (dtype == ZL_COMPLEX64 &&
        (op == TILE_LOGADDEXP || op == TILE_LOG2 || op == TILE_LOG10 || op == TILE_RSQRT))
        hlo_refuse(m, "%s of complex numbers is a formula that XLA does not round as it is written",
                   tile_op_name(op));
    return render(m, tile_row_kernel(op, dtype, &"vvv"[3 - count]), tile_row_gives(op, dtype), y, operand);
}

struct hlo_tensor hlo_unary(struct hlo_module *m, enum tile_op op, struct hlo_tensor x) {
    return hlo_apply(m, op, 1, &x);
}

struct hlo_tensor hlo_binary(struct hlo_module *m, enum tile_op op, struct hlo_tensor a,
                             struct hlo_tensor b) {
    return hlo_apply(m, op, 2, (struct hlo_tensor[]){a, b});
}

struct hlo_tensor hlo_choose(struct hlo_module *m, struct hlo_tensor truth, struct hlo_tensor a,
                             struct hlo_tensor b) {
    return hlo_apply(m, TILE_SELECT, 3, (struct hlo_tensor[]){truth, a, b});
}

struct hlo_tensor hlo_reinterpret(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype) {
    struct hlo_tensor y = hlo_type(dtype, x.ndim, x.dim);
    if (x.dtype == dtype)
        return x;
    hlo_emit(m, &y, "stablehlo.bitcast_convert %v : (%t) -> %t", &x, &x, &y);
    return y;
}

// Bounded sizes ---------------------------------------------------------------------------------------------

struct hlo_tensor hlo_fill_axis(struct hlo_module *m, struct hlo_tensor x, int axis,
                                struct hlo_tensor value) {
    struct hlo_tensor real = hlo_type(ZL_INT32, 0, NULL);
    if (!x.real[axis])
        return x;
    real.name = x.real[axis] - 1;
    struct hlo_tensor place = hlo_iota(m, ZL_INT32, x.ndim, x.dim, axis);
    return hlo_choose(m, hlo_binary(m, TILE_LT, place, real), x, value);
}

// Reductions ------------------------------------------------------------------------------------------------

void hlo_combiner(struct hlo_module *m, enum tile_op op, zl_dtype dtype) {
    struct hlo_tensor a = hlo_type(dtype, 0, NULL), b = a;
    a.name = hlo_writer(m)->names++;
    b.name = hlo_writer(m)->names++;
    hlo_add(m, "({\n^bb0(%v: %t, %v: %t):\n", &a, &a, &b, &b);
    struct hlo_tensor c = op == TILE_CONST ? b : hlo_binary(m, op, a, b); // TILE_CONST: takes the second
    hlo_add(m, "stablehlo.return %v : %t\n})", &c, &c);
}

struct hlo_tensor hlo_reduce(struct hlo_module *m, enum tile_op op, struct hlo_tensor x, int axes,
                             const int64_t *axis) {
    zl_dtype dtype = x.dtype, wide = tile_reduce_gives(dtype);
    uint64_t bits = 0;
    if (!tile_identity(op, tile_type_of(wide), &bits))
        hlo_refuse(m, "%s of %s reduces nothing", tile_op_name(op), zl_dtype_name(wide));
    struct hlo_tensor wider = hlo_cast(m, x, wide), init = hlo_bits(m, wide, bits),
                      y = hlo_type(wide, 0, NULL);
    for (int i = 0; i < axes; i++)
        wider = hlo_fill_axis(m, wider, (int)axis[i], init);
    for (int i = 0, k = 0; i < x.ndim; i++) {
        if (k < axes && axis[k] == i) {
            k++;
            continue;
        }
        y.real[y.ndim] = x.real[i];
        y.dim[y.ndim++] = x.dim[i];
    }
    y.name = hlo_writer(m)->names++;
    hlo_writer(m)->bounded_ok++;
    hlo_add(m, "%v = \"stablehlo.reduce\"(%v, %v) ", &y, &wider, &init);
    hlo_combiner(m, op, wide);
    hlo_add(m, " {dimensions = array<i64%s%l>} : (%t, %t) -> %t\n", axes ? ": " : "", axes, axis, &wider,
            &init, &y);
    hlo_writer(m)->bounded_ok--;
    return hlo_cast(m, y, dtype);
}
