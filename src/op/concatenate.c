// concatenate.c - joining arrays along an axis, stacking, and splitting.

#include <limits.h>

#include "op/ops.h"

// Records the call, for arrays of one dtype whose shapes differ along axis only.
static zl_array join(const char *function, int count, const zl_array *in, int axis) {
    zl_array x = in[0];
    OP_TEMP(int64_t, dim, x->ndim);
    if (!dim)
        return NULL;
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    for (int i = 1; i < count; i++)
        if (__builtin_add_overflow(dim[axis], in[i]->dim[axis], &dim[axis]))
            return error_set(ZL_ERROR_OVERFLOW, "%s: %d arrays like %s are too long together", function,
                             count, array_text(x));
    if (!op_check_size(function, x->ndim, dim))
        return NULL;
    return op_dense(&op_concatenate, count, in, 1, (int64_t[]){axis}, (zl_dtype)x->dtype, x->ndim, dim);
}

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    return (out[0] = zl_concatenate(in, c->inputs, (int)call_args(c)[0]));
}

// Returns the elements from start to stop along one axis.
static zl_array part(zl_array x, int axis, int64_t start, int64_t stop) {
    OP_TEMP(int64_t, from, 3 * x->ndim);
    if (!from)
        return NULL;
    int64_t *to = from + x->ndim, *step = to + x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        from[i] = i == axis ? start : 0;
        to[i] = i == axis ? stop : x->dim[i];
        step[i] = 1;
    }
    return zl_slice(x, (zl_shape){from, x->ndim}, (zl_shape){to, x->ndim}, (zl_shape){step, x->ndim});
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    int axis = (int)call_args(c)[0];
    int64_t start = 0;
    for (int i = 0; i < input; i++)
        start += c->in[i]->dim[axis];
    return part(cotangent[0], axis, start, start + c->in[input]->dim[axis]);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    OP_TEMP(zl_array, in, c->inputs);
    bool any = false;
    out[0] = NULL;
    for (int i = 0; in && i < c->inputs; i++) {
        any |= tangent[i] != NULL;
        in[i] = tangent[i] ? tangent[i] : op_zeros_of(c->in[i]);
        if (!in[i])
            return false;
    }
    return in && (!any || record(c, in, out));
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    OP_TEMP(zl_array, moved, c->inputs);
    int64_t batch = op_batch_size(c->inputs, in, axis);
    out_axis[0] = batch < 0 ? -1 : 0;
    if (batch < 0)
        return record(c, in, out);
    for (int i = 0; moved && i < c->inputs; i++) {
        moved[i] = op_batch_repeat(in[i], axis[i], batch);
        if (!moved[i])
            return false;
    }
    return moved && (out[0] = join("zl_concatenate", c->inputs, moved, (int)call_args(c)[0] + 1));
}

static bool fits(const struct call *c, const zl_array *in) {
    if (c->inputs < 1 || c->args != 1 || !op_is_axis(in[0], call_args(c)[0]))
        return false;
    for (int i = 1; i < c->inputs; i++)
        if (in[i]->dtype != in[0]->dtype || !op_same_but_along(in[0], in[i], call_args(c)[0]))
            return false;
    return true;
}

static const struct op_field axis_field[] = {{"axis", FIELD_INT}};
const struct op op_concatenate = {
    .name = "concatenate",
    .kind = OP_OTHER,
    .fields = 1,
    .field = axis_field,
    .record = record,
    .fits = fits,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Checks that all sizes except that along axis equal those of the first array.
static bool check_sizes(int count, const zl_array *arrays, int axis) {
    zl_array first = arrays[0];
    for (int i = 0; i < count; i++) {
        bool fits = arrays[i]->ndim == first->ndim;
        for (int k = 0; fits && k < first->ndim; k++)
            fits = k == axis || arrays[i]->dim[k] == first->dim[k];
        if (!fits)
            return error_false(ZL_ERROR_SHAPE, "zl_concatenate: shapes %s and %s differ in more than axis %d",
                               array_text(first), array_text(arrays[i]), axis);
    }
    return true;
}

static bool cast_all(int count, const zl_array *arrays, zl_array *out) {
    zl_dtype dtype = dtype_common(count, arrays);
    for (int i = 0; i < count; i++)
        if (!(out[i] = zl_astype(arrays[i], dtype)))
            return false;
    return true;
}

zl_array zl_concatenate(const zl_array *arrays, int count, int axis) {
    if (!op_check_inputs("zl_concatenate", arrays, count))
        return NULL;
    int at = shape_axis("zl_concatenate", axis, arrays[0]->ndim);
    OP_TEMP(zl_array, in, count);
    if (at < 0 || !in || !check_sizes(count, arrays, at) || !cast_all(count, arrays, in))
        return NULL;
    return count == 1 ? op_same(in[0]) : join("zl_concatenate", count, in, at);
}
OP_SIGNATURE(zl_concatenate, "shape",
             "The arrays one after the other along an axis, in the dtype that holds them all.",
             P_ARRAYS(arrays), P_INT(axis, "0"));

zl_array zl_stack(const zl_array *arrays, int count, int axis) {
    if (!op_check_inputs("zl_stack", arrays, count))
        return NULL;
    int at = shape_axis("zl_stack", axis, arrays[0]->ndim + 1);
    OP_TEMP(zl_array, in, count);
    if (at < 0 || !in || !cast_all(count, arrays, in))
        return NULL;
    for (int i = 0; i < count; i++) {
        if (!shape_equal(arrays[i]->ndim, arrays[i]->dim, arrays[0]->ndim, arrays[0]->dim))
            return error_set(ZL_ERROR_SHAPE, "zl_stack: shapes %s and %s differ", array_text(arrays[0]),
                             array_text(arrays[i]));
        if (!(in[i] = zl_expand_dims(in[i], ZL_AXES(at))))
            return NULL;
    }
    return count == 1 ? op_same(in[0]) : join("zl_stack", count, in, at);
}
OP_SIGNATURE(zl_stack, "shape", "Arrays of one shape side by side along a new axis of the result.",
             P_ARRAYS(arrays), P_INT(axis, "0"));

// Taking apart ----------------------------------------------------------------------------------------------

// Splits x at the positions at[] into count + 1 parts.
static bool cut(zl_array x, int axis, int count, const int64_t *at, zl_array *out) {
    bool all = true;
    for (int i = 0; i <= count; i++) {
        out[i] = all ? part(x, axis, i ? at[i - 1] : 0, i < count ? at[i] : INT64_MAX) : NULL;
        all = out[i] != NULL;
    }
    return all;
}

static bool again_split_at(const union op_value *v, zl_array *out) {
    return zl_split_at(v[0].array, v[1].shape, v[2].number, out);
}

bool zl_split_at(zl_array a, zl_shape indices_or_sections, int axis, zl_array *out) {
    bool ok;
    if (!op_check_list("zl_split_at", indices_or_sections) ||
        !op_check_out("zl_split_at", indices_or_sections.ndim + 1, out))
        return false;
    if (op_again_all(&ok, indices_or_sections.ndim + 1, out, "zl_split_at", again_split_at, a,
                     indices_or_sections, axis))
        return ok;
    int at = a ? shape_axis("zl_split_at", axis, a->ndim) : -1;
    return at >= 0 && cut(a, at, indices_or_sections.ndim, indices_or_sections.dim, out);
}
OP_SIGNATURE_BOOL(zl_split_at, "shape",
                  "a cut along an axis before each of the indices: one part more than there are indices, "
                  "each a slice from one index to the next.",
                  P_ARRAY(a), P_SHAPE(indices_or_sections), P_INT(axis, "0"), P_OUTPUT(out));

static bool again_unstack(const union op_value *v, zl_array *out) {
    int at = shape_axis("zl_unstack", v[1].number, v[0].array->ndim);
    if (at >= 0 && v[0].array->dim[at] != v[2].number)
        return error_false(ZL_ERROR_SHAPE,
                           "zl_unstack: axis %d of shape %s in a function that was compiled shapeless: it "
                           "gave %d parts, and "
                           "cannot give others",
                           v[1].number, array_text(v[0].array), v[2].number);
    return zl_unstack(v[0].array, v[1].number, out);
}

bool zl_unstack(zl_array x, int axis, zl_array *out) {
    bool ok;
    int at = x ? shape_axis("zl_unstack", axis, x->ndim) : -1;
    if (at < 0 || !op_check_out("zl_unstack", (int)MIN_OF(x->dim[at], INT_MAX), out))
        return false;
    if (op_again_all(&ok, (int)x->dim[at], out, "zl_unstack", again_unstack, x, axis))
        return ok;
    for (int64_t i = 0; i < x->dim[at]; i++)
        if (!(out[i] = zl_squeeze(part(x, at, i, i + 1), ZL_AXES(at))))
            return false;
    return true;
}
OP_SIGNATURE_BOOL(zl_unstack, "shape",
                  "x split along an axis into as many views as it is long, which do not have that axis.",
                  P_ARRAY(x), P_INT(axis, "0"), P_OUTPUT(out));

static bool again_split(const union op_value *v, zl_array *out) {
    return zl_split(v[0].array, v[1].number, v[2].number, out);
}

bool zl_split(zl_array a, int indices_or_sections, int axis, zl_array *out) {
    bool ok;
    int sections = indices_or_sections;
    if (sections < 1)
        return error_false(ZL_ERROR_VALUE, "zl_split: %d sections: there must be at least one", sections);
    if (!op_check_out("zl_split", sections, out))
        return false;
    if (op_again_all(&ok, sections, out, "zl_split", again_split, a, sections, axis))
        return ok;
    int at = a ? shape_axis("zl_split", axis, a->ndim) : -1;
    if (at < 0)
        return false;
    if (a->dim[at] % sections)
        return error_false(ZL_ERROR_SHAPE, "zl_split: axis %d of shape %s has no %d equal sections", axis,
                           array_text(a), sections);
    OP_TEMP(int64_t, cuts, sections);
    for (int i = 0; cuts && i < sections; i++)
        cuts[i] = a->dim[at] / sections * (i + 1);
    return cuts && cut(a, at, sections - 1, cuts, out);
}
OP_SIGNATURE_BOOL(zl_split, "shape", "a cut along an axis into equal sections, as views.", P_ARRAY(a),
                  P_INT(indices_or_sections, NULL), P_INT(axis, "0"), P_OUTPUT(out));
