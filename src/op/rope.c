// rope.c - rotary position embedding: pairs of features are rotated by angles proportional to the position,
// by src/kernel/rope.tile.
//
// Angles, cosines and sines are computed in float32, or float64 for float64 input. Products and sums of the
// features are rounded to their own dtype. The gradient is the rotation in the opposite direction.

#include <math.h>

#include "op/ops.h"

enum { DIMS, TRADITIONAL, INVERSE, BASE, SCALE, OFFSET, OFFSETS, FREQS, ARGS };
enum { MOST_INPUTS = 3 };

struct rope op_rope_read(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    struct rope r = {.x = in[0],
                     .dims = arg[DIMS],
                     .traditional = arg[TRADITIONAL],
                     .inverse = arg[INVERSE],
                     .base = op_arg_double(arg[BASE]),
                     .scale = op_arg_double(arg[SCALE]),
                     .offset = arg[OFFSET]};
    int at = 1;
    if ((r.has_offsets = arg[OFFSETS]))
        r.offsets = in[at++];
    if ((r.has_freqs = arg[FREQS]))
        r.freqs = in[at];
    return r;
}

double op_rope_rate(const struct rope *r) {
    return log(r->base) / (double)(r->dims / 2);
}

static zl_dtype angle_dtype(zl_array x) {
    return x->dtype == ZL_FLOAT64 ? ZL_FLOAT64 : ZL_FLOAT32;
}

// Returns whether kernels can read x in its layout: the features of a position are contiguous, and no stride
// is negative.
static bool is_readable(zl_array x) {
    for (int i = 0; i < 3; i++)
        if (array_stride(x)[i] < 0)
            return false;
    return array_stride(x)[3] == 1;
}

static zl_array call(const struct rope *r) {
    if (!r->x)
        return NULL;
    zl_array in[MOST_INPUTS] = {is_readable(r->x) ? r->x : zl_contiguous(r->x, false)};
    const int64_t arg[ARGS] = {[DIMS] = r->dims,
                               [TRADITIONAL] = r->traditional,
                               [INVERSE] = r->inverse,
                               [BASE] = op_double_arg(r->base),
                               [SCALE] = op_double_arg(r->scale),
                               [OFFSET] = r->offset,
                               [OFFSETS] = r->has_offsets,
                               [FREQS] = r->has_freqs};
    int count = 1;
    if (r->has_offsets)
        in[count++] = zl_contiguous(r->offsets, false);
    if (r->has_freqs)
        in[count++] = zl_contiguous(r->freqs, false);
    return op_dense(&op_rope, count, in, ARGS, arg, (zl_dtype)r->x->dtype, 4, r->x->dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    struct rope r = op_rope_read(c, in);
    return (out[0] = call(&r));
}

// Composed of other ops -------------------------------------------------------------------------------------

// Returns the elements of x from one position of its last axis to another.
static zl_array part(zl_array x, int64_t from, int64_t to, int64_t step) {
    enum { MOST = 5 };
    int last = x->ndim - 1;
    int64_t start[MOST] = {0}, stop[MOST], steps[MOST] = {1, 1, 1, 1, 1};
    for (int i = 0; i <= last; i++)
        stop[i] = x->dim[i];
    start[last] = from;
    stop[last] = to;
    steps[last] = step;
    return zl_slice(x, (zl_shape){start, last + 1}, (zl_shape){stop, last + 1}, (zl_shape){steps, last + 1});
}

// Returns the angles (..., T, dims / 2). `offset` broadcasts to (..., T), and freqs, unless NULL, to (..., T,
// dims / 2).
static zl_array angles(const struct rope *r, zl_array offset, zl_array freqs) {
    zl_dtype dtype = angle_dtype(r->x);
    int64_t length = r->x->dim[r->x->ndim - 2], half = r->dims / 2;
    zl_array place = zl_add(zl_arange(0, (double)length, 1, dtype), zl_astype(offset, dtype));
    place = zl_multiply(place, op_number(dtype, r->scale));
    zl_array frequencies =
        freqs
            ? zl_reciprocal(freqs)
            : zl_exp(zl_multiply(zl_arange(0, -(double)half, -1, dtype), op_number(dtype, op_rope_rate(r))));
    return zl_multiply(zl_expand_dims(place, ZL_AXES(-1)), frequencies);
}

static zl_array rotate(const struct rope *r, zl_array angle) {
    zl_array x = r->x;
    int64_t half = r->dims / 2, end = x->dim[x->ndim - 1];
    zl_array a = r->traditional ? part(x, 0, r->dims, 2) : part(x, 0, half, 1);
    zl_array b = r->traditional ? part(x, 1, r->dims, 2) : part(x, half, r->dims, 1);
    zl_dtype dtype = (zl_dtype)x->dtype;
    zl_array cosine = zl_astype(zl_cos(angle), dtype), sine = zl_astype(zl_sin(angle), dtype);
    if (r->inverse)
        sine = zl_negative(sine);
    zl_array rotated[] = {zl_subtract(zl_multiply(a, cosine), zl_multiply(b, sine)),
                          zl_add(zl_multiply(a, sine), zl_multiply(b, cosine))};
    zl_array y =
        r->traditional ? zl_flatten(zl_stack(rotated, 2, -1), -2, -1) : zl_concatenate(rotated, 2, -1);
    return r->dims == end ? y : zl_concatenate((zl_array[]){y, part(x, r->dims, end, 1)}, 2, -1);
}

static bool composed(const struct call *c, const zl_array *in, zl_array *out) {
    struct rope r = op_rope_read(c, in);
    zl_array offset = r.offsets ? zl_expand_dims(r.offsets, ZL_AXES(-1, -2)) : zl_scalar_int(r.offset);
    zl_array angle = angles(&r, offset, r.freqs);
    return angle && (out[0] = rotate(&r, angle));
}

// Rules -----------------------------------------------------------------------------------------------------

// The cotangents of offsets and freqs are derived from the column composed.
static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    struct rope r = op_rope_read(c, c->in);
    r.x = cotangent[0];
    r.inverse = !r.inverse;
    return input == 0 ? call(&r) : NULL;
}

// Maps over freqs: then the angles are computed as an array.
static zl_array vmap_freqs(struct rope *r, const int *axis, int64_t batch) {
    zl_array offset = zl_scalar_int(r->offset);
    if (r->offsets)
        offset = zl_expand_dims(op_batch_any(r->offsets, axis[1]), ZL_AXES(-1, -2));
    zl_array freqs = zl_expand_dims(op_batch_first(r->freqs, axis[r->offsets ? 2 : 1]), ZL_AXES(1, 2, 3));
    r->x = op_batch_repeat(r->x, axis[0], batch);
    zl_array angle = r->x && freqs ? angles(r, offset, freqs) : NULL;
    return angle ? rotate(r, angle) : NULL;
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    struct rope r = op_rope_read(c, in);
    int64_t batch = op_batch_size(c->inputs, in, axis);
    zl_shape two = ZL_SHAPE(batch, c->in[0]->dim[0]);
    *out_axis = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    if (r.has_freqs && axis[c->inputs - 1] >= 0)
        return (out[0] = vmap_freqs(&r, axis, batch));
    r.x = zl_flatten(op_batch_repeat(in[0], axis[0], batch), 0, 1);
    if (r.has_offsets && (r.offsets->size > 1 || axis[1] >= 0))
        r.offsets = zl_flatten(zl_broadcast_to(op_batch_any(r.offsets, axis[1]), two), 0, 1);
    return (out[0] = zl_unflatten(call(&r), 0, two));
}

static bool fits(const struct call *c, const zl_array *in) {
    const int64_t *arg = call_args(c);
    if (c->args != ARGS || !op_is_among(arg[TRADITIONAL], 2) || !op_is_among(arg[INVERSE], 2) ||
        !op_is_among(arg[OFFSETS], 2) || !op_is_among(arg[FREQS], 2) ||
        c->inputs != 1 + (int)arg[OFFSETS] + (int)arg[FREQS])
        return false;
    struct rope r = op_rope_read(c, in);
    if (r.x->ndim != 4 || !dtype_is_float((zl_dtype)r.x->dtype) || r.dims <= 0 || r.dims % 2 ||
        r.dims > r.x->dim[3])
        return false;
    return (!r.offsets || (r.offsets->ndim == 1 && dtype_is_integer((zl_dtype)r.offsets->dtype) &&
                           (r.offsets->size == 1 || r.offsets->size == r.x->dim[0]))) &&
           (!r.freqs ||
            (r.freqs->ndim == 1 && r.freqs->size == r.dims / 2 && r.freqs->dtype == angle_dtype(r.x)));
}

// Returns how many heads a thread rotates by one angle: several if there are very many elements.
static int heads_of_thread(zl_array x) {
    enum { MOST = 4, MANY = 1 << 20 };
    return x->size >= MANY && x->dim[1] % MOST == 0 ? MOST : 1;
}

static void kernel(const struct call *c, struct op_kernel *k) {
    struct rope r = op_rope_read(c, c->in);
    zl_array x = r.x, offsets = r.offsets ? r.offsets : x,
             freqs = r.freqs ? r.freqs : x; // x if absent: it is not read then
    zl_dtype wide = angle_dtype(x);
    int heads = heads_of_thread(x);
    op_kernel_set(
        k, "rope",
        "ITEM=%s,WIDE=%s,OFFSET=%s,FREQ=%s,HEADS=%d,TRADITIONAL=%d,INVERSE=%d,WHOLE=%d,OFFSETS=%d,FREQS=%d",
        op_kernel_type(x), tile_type_name(tile_type_of(wide)), op_kernel_type(offsets), op_kernel_type(freqs),
        heads, r.traditional, r.inverse, r.dims == x->dim[3], r.offsets ? r.offsets->size > 1 ? 2 : 1 : 0,
        r.freqs != NULL);
    const int64_t *stride = array_stride(x);
    const int64_t sizes[] = {x->dim[0],          x->dim[1] / heads, x->dim[2], r.dims / 2,
                             x->dim[3] - r.dims, stride[0],         stride[1], stride[2]};
    for (size_t i = 0; i < COUNT(sizes); i++)
        op_kernel_size(k, sizes[i]);
    k->inputs = MOST_INPUTS;
    k->in[1] = offsets;
    k->in[2] = freqs;
    op_kernel_value(k, wide, r.freqs ? 0 : op_rope_rate(&r));
    op_kernel_value(k, wide, r.scale);
    op_kernel_value(k, wide, wide == ZL_FLOAT64 ? (double)r.offset : (double)(float)r.offset);
}

static const struct op_field fields[] = {
    {"dims", FIELD_INT},     {"traditional", FIELD_BOOL}, {"inverse", FIELD_BOOL}, {"base", FIELD_DOUBLE},
    {"scale", FIELD_DOUBLE}, {"offset", FIELD_INT},       {"offsets", FIELD_BOOL}, {"freqs", FIELD_BOOL}};

const struct op op_rope = {
    .name = "rope",
    .kind = OP_OTHER,
    .fields = ARGS,
    .field = fields,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .composed = composed,
    .vmap = vmap,
    .kernel = kernel,
};

// Public ----------------------------------------------------------------------------------------------------

static bool check(zl_array a, int dims, double base, zl_array offset, zl_array freqs) {
    if (!dtype_is_float((zl_dtype)a->dtype))
        return error_false(ZL_ERROR_DTYPE, "zl_fast_rope: %s is not possible; floats are",
                           zl_dtype_name((zl_dtype)a->dtype));
    if (a->ndim < 3)
        return error_false(ZL_ERROR_SHAPE, "zl_fast_rope: a of shape %s: at least three axes are needed",
                           array_text(a));
    if (offset->ndim > 1 || (offset->size != 1 && offset->size != a->dim[0]))
        return error_false(ZL_ERROR_SHAPE,
                           "zl_fast_rope: an offset of shape %s: one number, or %lld, are needed",
                           array_text(offset), (long long)a->dim[0]);
    if (!dtype_is_integer((zl_dtype)offset->dtype))
        return error_false(ZL_ERROR_DTYPE, "zl_fast_rope: the offset is %s: integers are needed",
                           zl_dtype_name((zl_dtype)offset->dtype));
    if (dims <= 0 || dims % 2 || dims > a->dim[a->ndim - 1])
        return error_false(ZL_ERROR_VALUE,
                           "zl_fast_rope: %d of the last axis of shape %s: an even number from it is needed",
                           dims, array_text(a));
    bool has_base = !isnan(base);
    if (has_base == (freqs != NULL))
        return error_false(ZL_ERROR_VALUE,
                           "zl_fast_rope: a base of %g %s frequencies: one of the two must be given", base,
                           freqs ? "and" : "without");
    return !freqs || (freqs->ndim == 1 && freqs->dim[0] == dims / 2) ||
           error_false(ZL_ERROR_SHAPE, "zl_fast_rope: frequencies of shape %s: (%d,) is needed",
                       array_text(freqs), dims / 2);
}

// The value of an offset that is a number on the host becomes an argument of the call, so that nothing has to
// be copied to a device.
static void set_offset(struct rope *r, zl_array offset) {
    if (array_is(offset, ARRAY_INLINE) && offset->dtype != ZL_UINT64)
        r->offset = array_value(offset)->i;
    else {
        r->has_offsets = true;
        r->offsets = zl_reshape(offset, ZL_SHAPE(offset->size));
    }
}

static zl_array rope(zl_array a, struct rope *r, zl_array offset) {
    r->x = a->ndim == 3 ? zl_expand_dims(a, ZL_AXES(1)) : a->ndim > 4 ? zl_flatten(a, 1, a->ndim - 3) : a;
    set_offset(r, offset);
    return zl_reshape(call(r), zl_shape_of(a));
}

static bool again_fast_rope(const union op_value *v, zl_array *out) {
    return (out[0] = zl_fast_rope(v[0].array, v[1].number, v[2].number, v[3].real, v[4].real, v[5].array,
                                  v[6].array));
}

zl_array zl_fast_rope(zl_array a, int dims, bool traditional, double base, double scale, zl_array offset,
                      zl_array freqs) {
    zl_array again;
    if (op_again(&again, "zl_fast_rope", again_fast_rope, a, dims, traditional, base, scale, offset, freqs))
        return again;
    if (!a || !offset || !op_check_optional(freqs) || !check(a, dims, base, offset, freqs))
        return NULL;
    zl_scope s = zl_scope_begin();
    struct rope r = {
        .dims = dims, .traditional = traditional, .base = base, .scale = scale, .has_freqs = freqs};
    if (freqs)
        r.freqs = zl_astype(freqs, angle_dtype(a));
    return zl_scope_leave(s, rope(a, &r, offset));
}
OP_SIGNATURE(
    zl_fast_rope, "fast",
    "a, of shape (B, ..., T, D), with pairs of its first dims features rotated by angles that grow with the "
    "position along T: rotary positions. Pairs are neighbours if traditional, else one from each half. "
    "Positions start at offset, one or a number for each of B, and are multiplied by scale. Either base, or "
    "the wave lengths freqs, is given; a base that is not is NaN.",
    P_ARRAY(a), P_INT(dims, NULL), P_BOOL(traditional, NULL), P_DOUBLE(base, "None"), P_DOUBLE(scale, NULL),
    P_ARRAY(offset), P_OPTIONAL(freqs));
