// hlo_index.c - renders ops that read and write at positions which arrays hold.

#include "device/hlo/hlo.h"

// Returns positions as signed integers, with negative ones counted from the end. Positions that are too large
// stay so.
struct hlo_tensor hlo_positions(struct hlo_module *m, struct hlo_tensor x, int64_t size) {
    bool is_wide = zl_dtype_size(x.dtype) == 8 || x.dtype == ZL_UINT32 || size > INT32_MAX;
    if (x.dtype == ZL_UINT64)
        x = hlo_binary(m, TILE_MIN, x, hlo_bits(m, ZL_UINT64, INT64_MAX));
    struct hlo_tensor at = hlo_cast(m, x, is_wide ? ZL_INT64 : ZL_INT32);
    if (!dtype_is_signed(x.dtype))
        return at;
    struct hlo_tensor is_back = hlo_binary(m, TILE_LT, at, hlo_number(m, at.dtype, 0));
    return hlo_choose(m, is_back, hlo_binary(m, TILE_ADD, at, hlo_number(m, at.dtype, (double)size)), at);
}

// Adds an axis of size 1 at the end, along which the positions of several axes are joined.
static struct hlo_tensor as_column(struct hlo_module *m, struct hlo_tensor x) {
    int64_t dim[HLO_RANK];
    for (int i = 0; i < x.ndim; i++)
        dim[i] = x.dim[i];
    dim[x.ndim] = 1;
    return hlo_reshape(m, x, x.ndim + 1, dim);
}

// Joins the positions of several axes of x: index[k] holds those along axis[k].
static struct hlo_tensor join_positions(struct hlo_module *m, struct hlo_tensor x, int count,
                                        const struct hlo_tensor *index, const int64_t *axis) {
    struct hlo_tensor column[HLO_AXES];
    for (int k = 0; k < count; k++)
        column[k] = hlo_cast(m, as_column(m, hlo_positions(m, index[k], x.dim[axis[k]])), ZL_INT64);
    return hlo_join(m, count, column, column[0].ndim - 1);
}

// Emits a gather of one slice per position in `at`. Axes of a slice that are kept become axes offset[] of the
// result; those in gone[], of size 1, are dropped.
static struct hlo_tensor take_slices(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor at,
                                     struct hlo_tensor y, int offsets, const int64_t *offset, int collapsed,
                                     const int64_t *gone, int axes, const int64_t *axis,
                                     const int64_t *size) {
    hlo_emit(m, &y,
             "\"stablehlo.gather\"(%v, %v) {dimension_numbers = #stablehlo.gather<offset_dims = [%l], "
             "collapsed_slice_dims = [%l], "
             "start_index_map = [%l], index_vector_dim = %d>, slice_sizes = array<i64: %l>} : (%t, %t) -> %t",
             &x, &at, offsets, offset, collapsed, gone, axes, axis, at.ndim - 1, x.ndim, size, &x, &at, &y);
    return y;
}

bool hlo_take(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
              struct hlo_tensor *out) {
    int64_t axis = call_args(c)[0], size[HLO_AXES], offset[HLO_AXES];
    int offsets = 0;
    struct hlo_tensor x = in[0], at = as_column(m, hlo_positions(m, in[1], x.dim[axis]));
    for (int i = 0; i < x.ndim; i++) {
        size[i] = i == axis ? 1 : x.dim[i];
        if (i != axis)
            offset[offsets++] = i < axis ? i : i - 1 + in[1].ndim;
    }
    out[0] = take_slices(m, x, at, hlo_like(call_first(c)), offsets, offset, 1, &axis, 1, &axis, size);
    return true;
}

struct hlo_tensor hlo_pick(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor index) {
    int64_t count[] = {hlo_size(&index)}, first = 0, offset[] = {1, 2}, size[] = {1, x.dim[1], x.dim[2]};
    struct hlo_tensor at = as_column(m, hlo_positions(m, hlo_reshape(m, index, 1, count), x.dim[0])), y = x;
    y.dim[0] = count[0];
    return take_slices(m, x, at, y, 2, offset, 1, &first, 1, &first, size);
}

bool hlo_gather_mm(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    zl_array y = call_first(c);
    struct hlo_tensor a = hlo_pick(m, in[0], in[2]), b = hlo_pick(m, in[1], in[3]);
    a = hlo_multiply(m, a, b, tile_reduce_gives((zl_dtype)y->dtype));
    out[0] = hlo_reshape(m, hlo_cast(m, a, (zl_dtype)y->dtype), y->ndim, y->dim);
    return true;
}

bool hlo_gather(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                struct hlo_tensor *out) {
    const int64_t *arg = call_args(c), *axis = arg + 1, *size = axis + arg[0];
    int64_t offset[HLO_AXES];
    struct hlo_tensor x = in[0], at;
    for (int i = 0; i < x.ndim; i++)
        offset[i] = call_first(c)->ndim - x.ndim + i;
    if (arg[0] == 0)
        return hlo_refuse(m, "gather without indices");
    at = join_positions(m, x, (int)arg[0], in + 1, axis);
    out[0] = take_slices(m, x, at, hlo_like(call_first(c)), x.ndim, offset, 0, NULL, (int)arg[0], axis, size);
    return true;
}

// Returns the positions along all axes: those of one are given, the others count up.
static struct hlo_tensor along(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor index, int axis) {
    struct hlo_tensor at[HLO_AXES];
    int64_t axes[HLO_AXES];
    for (int i = 0; i < x.ndim; i++) {
        at[i] = i == axis ? index : hlo_iota(m, ZL_INT64, index.ndim, index.dim, i);
        axes[i] = i;
    }
    return join_positions(m, x, x.ndim, at, axes);
}

bool hlo_take_along(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                    struct hlo_tensor *out) {
    int64_t all[HLO_AXES], size[HLO_AXES];
    struct hlo_tensor x = in[0], at = along(m, x, in[1], (int)call_args(c)[0]);
    for (int i = 0; i < x.ndim; i++) {
        all[i] = i;
        size[i] = 1;
    }
    out[0] = take_slices(m, x, at, hlo_like(call_first(c)), 0, NULL, x.ndim, all, x.ndim, all, size);
    return true;
}

// Writing ---------------------------------------------------------------------------------------------------

static enum tile_op combiner(enum update how) {
    return how == UPDATE_SET ? TILE_CONST : op_update_row(how);
}

static struct hlo_tensor scatter(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor at,
                                 struct hlo_tensor updates, enum update how, int windows,
                                 const int64_t *window, int inserted, const int64_t *gone, int axes,
                                 const int64_t *axis) {
    struct hlo_tensor y = x;
    y.name = hlo_writer(m)->names++;
    hlo_add(m, "%v = \"stablehlo.scatter\"(%v, %v, %v) ", &y, &x, &at, &updates);
    hlo_combiner(m, combiner(how), x.dtype);
    hlo_add(m,
            " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [%l], "
            "inserted_window_dims = [%l], "
            "scatter_dims_to_operand_dims = [%l], index_vector_dim = %d>} : (%t, %t, %t) -> %t\n",
            windows, window, inserted, gone, axes, axis, at.ndim - 1, &x, &at, &updates, &y);
    return y;
}

bool hlo_scatter(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                 struct hlo_tensor *out) {
    const int64_t *arg = call_args(c);
    int count = c->inputs - 2, lead = in[c->inputs - 1].ndim - in[0].ndim;
    int64_t window[HLO_AXES];
    struct hlo_tensor x = in[0];
    if (count == 0)
        return hlo_refuse(m, "scatter without indices");
    for (int i = 0; i < x.ndim; i++)
        window[i] = lead + i;
    struct hlo_tensor at = join_positions(m, x, count, in + 1, arg + 1);
    out[0] =
        scatter(m, x, at, in[c->inputs - 1], (enum update)arg[0], x.ndim, window, 0, NULL, count, arg + 1);
    return true;
}

bool hlo_put_along(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    int64_t all[HLO_AXES];
    struct hlo_tensor x = in[0], at = along(m, x, in[1], (int)call_args(c)[0]);
    for (int i = 0; i < x.ndim; i++)
        all[i] = i;
    out[0] = scatter(m, x, at, in[2], (enum update)call_args(c)[1], 0, NULL, x.ndim, all, x.ndim, all);
    return true;
}

// The elements of a slice along each axis: the first, how many places they span, and the gap between
// neighbours; and the axes along which the slice runs backwards.
struct places {
    int64_t first[HLO_AXES], span[HLO_AXES], between[HLO_AXES], back[HLO_AXES];
    int backs;
    bool has_gaps;
};

static struct places places_of(const struct call *c, struct hlo_tensor x) {
    struct places p = {0};
    for (int i = 0; i < x.ndim; i++) {
        const int64_t *at = call_args(c) + 1 + i;
        struct slice_run run = op_slice_run(x.dim[i], at[0], at[x.ndim], at[2 * x.ndim]);
        int64_t step = run.step < 0 ? -run.step : run.step;
        p.first[i] = run.step < 0 ? run.start + (run.count - 1) * run.step : run.start;
        p.span[i] = (run.count - 1) * step + 1;
        p.between[i] = run.count > 1 ? step - 1 : 0;
        p.has_gaps |= p.between[i] > 0;
        if (run.step < 0)
            p.back[p.backs++] = i;
    }
    return p;
}

// Returns x with the elements from start[i] on, along each axis i, replaced by u, the value of the call's
// second input. Where the compiler needs it, x is copied by choosing elements, instead of being overwritten.
static struct hlo_tensor put(struct hlo_module *m, const struct call *c, struct hlo_tensor x,
                             struct hlo_tensor u, const struct hlo_tensor *start) {
    if (!hlo_writer(m)->target.overwrites_early || !hlo_depends(m, c->in[1], c->in[0]))
        return hlo_update_at(m, x, u, start);
    struct hlo_tensor is_new = hlo_update_at(m, hlo_same(m, ZL_BOOL, 0, x.ndim, x.dim),
                                             hlo_same(m, ZL_BOOL, 1, u.ndim, u.dim), start);
    return hlo_choose(m, is_new, hlo_update_at(m, hlo_same(m, x.dtype, 0, x.ndim, x.dim), u, start), x);
}

// Updates a slice: takes the span of the slice out, changes its elements, and puts the span back. Its start
// is an argument of the program.
bool hlo_slice_update(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                      struct hlo_tensor *out) {
    enum update how = (enum update)call_args(c)[0];
    struct hlo_tensor x = in[0], u = in[1], start[HLO_AXES], old = x, here;
    int64_t none[HLO_AXES] = {0};
    out[0] = x;
    if (hlo_size(&u) == 0)
        return true;
    struct places p = places_of(c, x);
    hlo_starts(m, x, p.first, p.span, start);
    hlo_is_placed(m);
    if (p.has_gaps || how != UPDATE_SET)
        old = hlo_slice_at(m, x, start, p.span);
    u = hlo_reverse(m, u, p.backs, p.back);
    if (p.has_gaps) {
        here = hlo_pad(m, hlo_same(m, ZL_BOOL, 1, u.ndim, u.dim), hlo_number(m, ZL_BOOL, 0), none, none,
                       p.between);
        u = hlo_pad(m, u, hlo_number(m, u.dtype, 0), none, none, p.between);
    }
    if (how != UPDATE_SET)
        u = hlo_binary(m, op_update_row(how), old, u);
    if (p.has_gaps)
        u = hlo_choose(m, here, u, old);
    out[0] = put(m, c, x, u, start);
    return true;
}

// Sets a start for each axis of x: those of the given axes are in `starts`, the others are 0.
static void add_starts(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor starts, int axes,
                       const int64_t *axis, struct hlo_tensor *start) {
    struct hlo_tensor zero = hlo_number(m, ZL_INT64, 0);
    for (int i = 0; i < x.ndim; i++)
        start[i] = zero;
    for (int k = 0; k < axes; k++) {
        struct hlo_tensor one = hlo_reshape(m, hlo_cut(m, starts, 0, k, k + 1), 0, NULL);
        start[axis[k]] = hlo_cast(m, hlo_positions(m, one, x.dim[axis[k]]), ZL_INT64);
    }
}

bool hlo_dynamic_slice(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                       struct hlo_tensor *out) {
    const int64_t *arg = call_args(c), *axis = arg + 1, *size = axis + arg[0];
    struct hlo_tensor x = in[0], start[HLO_AXES];
    int64_t list[] = {arg[0]};
    add_starts(m, x, hlo_reshape(m, in[1], 1, list), (int)arg[0], axis, start);
    out[0] = hlo_slice_at(m, x, start, size);
    return true;
}

bool hlo_dynamic_slice_update(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                              struct hlo_tensor *out) {
    struct hlo_tensor x = in[0], start[HLO_AXES];
    int64_t list[] = {c->args};
    add_starts(m, x, hlo_reshape(m, in[2], 1, list), c->args, call_args(c), start);
    out[0] = put(m, c, x, in[1], start);
    return true;
}
