// scatter.c - writes slices into an array, or combines them with its elements, at positions given by indices.

#include "op/ops.h"

enum tile_op op_update_row(enum update how) {
    static const enum tile_op row[] = {TILE_OP_COUNT, TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN};
    return row[how];
}

static const char *const names[] = {"zl_scatter", "zl_scatter_add", "zl_scatter_prod", "zl_scatter_max",
                                    "zl_scatter_min"};

// Records the call. The shapes fit, all indices have one shape, and the updates have the dtype of a.
static zl_array scatter(zl_array a, int count, const zl_array *indices, zl_array updates,
                        const int64_t *arg) {
    OP_TEMP(zl_array, in, count + 2);
    if (!in)
        return NULL;
    if (updates->size == 0)
        return op_same(a);
    in[0] = a;
    for (int i = 0; i < count; i++)
        in[i + 1] = indices[i];
    in[count + 1] = updates;
    return op_dense(&op_scatter, count + 2, in, 1 + count, arg, (zl_dtype)a->dtype, a->ndim, a->dim);
}

zl_array op_scatter_slices(enum update how, zl_array a, int count, const zl_array *indices, zl_array updates,
                           const int64_t *axes) {
    OP_TEMP(int64_t, arg, count + 1);
    if (!arg)
        return NULL;
    arg[0] = how;
    for (int i = 0; i < count; i++)
        arg[i + 1] = axes[i];
    return scatter(a, count, indices, updates, arg);
}

static zl_array check_and_scatter(enum update how, zl_array a, const zl_array *indices, int count,
                                  zl_array updates, zl_axes axes);

static bool record(const struct call *c, const zl_array *in, zl_array *out) {
    int count = c->inputs - 2;
    OP_TEMP(int, axes, count);
    if (!axes)
        return false;
    op_axes_of(count, call_args(c) + 1, axes);
    return (out[0] = check_and_scatter((enum update)call_args(c)[0], in[0], in + 1, count, in[count + 1],
                                       (zl_axes){axes, count}));
}

// Derivatives -----------------------------------------------------------------------------------------------

// Returns the slices of x at the positions of the updates.
static zl_array slices_of(const struct call *c, zl_array x) {
    int count = c->inputs - 2;
    zl_array updates = c->in[count + 1];
    OP_TEMP(int, axes, count);
    if (!axes)
        return NULL;
    for (int i = 0; i < count; i++)
        axes[i] = (int)call_args(c)[1 + i];
    return zl_gather(x, c->in + 1, count, (zl_axes){axes, count},
                     (zl_shape){updates->dim + (updates->ndim - x->ndim), x->ndim});
}

static zl_array vjp_a(const struct call *c, enum update how, zl_array g) {
    int count = c->inputs - 2;
    zl_array zeros;
    if (how == UPDATE_ADD)
        return g;
    if (how != UPDATE_SET)
        return op_winners(call_output(c, 0), c->in[0], g);
    zeros = op_zeros_of(c->in[count + 1]);
    return zeros ? op_scatter_slices(UPDATE_SET, g, count, c->in + 1, zeros, call_args(c) + 1) : NULL;
}

static zl_array vjp(const struct call *c, int input, const zl_array *cotangent) {
    enum update how = (enum update)call_args(c)[0];
    if (how == UPDATE_PROD)
        return error_set(ZL_ERROR_VALUE, "zl_grad: zl_scatter_prod has no derivative");
    if (input == 0)
        return vjp_a(c, how, cotangent[0]);
    zl_array g = slices_of(c, cotangent[0]);
    if (how == UPDATE_SET || how == UPDATE_ADD)
        return g;
    return op_winners(slices_of(c, call_output(c, 0)), c->in[input], g);
}

static bool jvp(const struct call *c, const zl_array *tangent, zl_array *out) {
    int last = c->inputs - 1;
    out[0] = NULL;
    if (!tangent[0] && !tangent[last])
        return true;
    if (call_args(c)[0] != UPDATE_SET && call_args(c)[0] != UPDATE_ADD)
        return error_false(ZL_ERROR_VALUE, "%s has no forward derivative", names[call_args(c)[0]]);
    zl_array a = tangent[0] ? tangent[0] : op_zeros_of(c->in[0]);
    zl_array updates = tangent[last] ? tangent[last] : op_zeros_of(c->in[last]);
    return a && updates && (out[0] = scatter(a, last - 1, c->in + 1, updates, call_args(c)));
}

// Batching --------------------------------------------------------------------------------------------------

// Scatters with one more array of indices, for the batch axis, which is the first axis of all inputs and of
// the slices.
static zl_array scatter_each(const struct call *c, const zl_array *in, const int *axis, int64_t batch) {
    int count = c->inputs - 2, lead = count ? c->in[1]->ndim : 0;
    OP_TEMP(zl_array, indices, count + 1);
    OP_TEMP(int64_t, axes, count + 1);
    if (!indices || !axes)
        return NULL;
    zl_array at = zl_arange_int(0, batch, 1, ZL_INT64);
    for (int i = 0; i < lead; i++)
        at = zl_expand_dims(at, ZL_AXES(-1));
    for (int i = 0; i <= count; i++) {
        indices[i] = i < count ? op_batch_any(in[i + 1], axis[i + 1]) : at;
        axes[i] = i < count ? call_args(c)[1 + i] + 1 : 0;
    }
    zl_array a = op_batch_repeat(in[0], axis[0], batch);
    zl_array updates = op_batch_repeat(in[count + 1], axis[count + 1], batch);
    updates = zl_expand_dims(updates, ZL_AXES(lead + 1));
    if (!a || !updates || !op_broadcast(names[call_args(c)[0]], count + 1, indices, indices))
        return NULL;
    return op_scatter_slices((enum update)call_args(c)[0], a, count + 1, indices, updates, axes);
}

static bool vmap(const struct call *c, const zl_array *in, const int *axis, zl_array *out, int *out_axis) {
    int64_t batch = op_batch_size(c->inputs, in, axis);
    out_axis[0] = batch < 0 ? -1 : 0;
    return batch < 0 ? record(c, in, out) : (out[0] = scatter_each(c, in, axis, batch)) != NULL;
}

static bool fits(const struct call *c, const zl_array *in) {
    int count = c->inputs - 2;
    const int64_t *arg = call_args(c);
    return count >= 0 && c->args == 1 + count && op_is_among(arg[0], UPDATE_MIN + 1) &&
           op_are_axes(in[0]->ndim, count, arg + 1, false) && op_are_indices(count, in + 1) &&
           op_are_updates(in[0], in[count + 1], count ? in[1]->ndim : 0, in[1]->dim);
}

static const struct op_field fields[] = {{"how", FIELD_INT}, {"axes", FIELD_LIST}};
const struct op op_scatter = {
    .name = "scatter",
    .kind = OP_OTHER,
    .fields = 2,
    .field = fields,
    .record = record,
    .fits = fits,
    .positions = {1, -2},
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
};

// Public functions ------------------------------------------------------------------------------------------

static bool check_updates(const char *function, zl_array a, int count, const zl_array *indices,
                          zl_array updates) {
    int lead = count ? indices[0]->ndim : 0;
    bool fits = updates->ndim == lead + a->ndim;
    for (int i = 0; fits && i < updates->ndim; i++)
        fits = i < lead ? updates->dim[i] == indices[0]->dim[i] : updates->dim[i] <= a->dim[i - lead];
    return fits ||
           error_false(ZL_ERROR_SHAPE,
                       "%s: updates of shape %s: the shape of the indices %s is needed, then that of a "
                       "slice of %s, size by size",
                       function, array_text(updates), shape_text(lead, lead ? indices[0]->dim : NULL),
                       array_text(a));
}

static zl_array check_and_scatter(enum update how, zl_array a, const zl_array *indices, int count,
                                  zl_array updates, zl_axes axes) {
    if (!a || !updates)
        return NULL;
    OP_TEMP(zl_array, list, MAX_OF(count, 0));
    OP_TEMP(int64_t, arg, MAX_OF(count, 0) + 1);
    if (!list || !arg || !op_check_indices(names[how], a, indices, count, axes, list, arg + 1) ||
        !check_updates(names[how], a, count, list, updates))
        return NULL;
    arg[0] = how;
    updates = zl_astype(updates, (zl_dtype)a->dtype);
    return updates ? scatter(a, count, list, updates, arg) : NULL;
}

#define SCATTER(function, HOW, doc)                                                                     \
    zl_array function(zl_array a, const zl_array *indices, int count, zl_array updates, zl_axes axes) { \
        return check_and_scatter(UPDATE_##HOW, a, indices, count, updates, axes);                       \
    }                                                                                                   \
    OP_SIGNATURE(function, "index", doc, P_ARRAY(a), P_ARRAYS(indices), P_ARRAY(updates), P_AXES(axes, NULL))

SCATTER(zl_scatter, SET,
        "a with slices replaced by updates, in the dtype of a. The indices, one array for each of the axes, "
        "are broadcast against each other; updates has their shape, then that of a slice, with a size for "
        "each axis of a. Negative indices count from the end; an update that does not lie in a is left out. "
        "Of two updates of one element the later one stays, in row-major order of the indices.");
SCATTER(zl_scatter_add, ADD, "a with updates added to its slices, one after the other; else as zl_scatter.");
SCATTER(zl_scatter_prod, PROD,
        "a with its slices multiplied by updates, one after the other; else as zl_scatter.");
SCATTER(zl_scatter_max, MAX,
        "a with the larger of its elements and the updates that fall on them; NaN if one is. Else as "
        "zl_scatter.");
SCATTER(zl_scatter_min, MIN,
        "a with the smaller of its elements and the updates that fall on them; NaN if one is. Else as "
        "zl_scatter.");
