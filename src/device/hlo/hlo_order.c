// hlo_order.c - rows along one axis: the place of an extreme, running sums, sorting.

#include "device/hlo/hlo.h"

#include <math.h>

// The first element that is the extreme, or not a number.
bool hlo_argreduce(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    zl_array y = call_first(c);
    int64_t axis = call_args(c)[1], kept[HLO_AXES];
    struct hlo_tensor x = in[0].dtype == ZL_BOOL ? hlo_cast(m, in[0], ZL_UINT8) : in[0];
    if (x.dtype == ZL_COMPLEX64)
        return hlo_refuse(m, "argreduce of complex numbers");
    for (int i = 0; i < x.ndim; i++)
        kept[i] = i == axis ? 1 : x.dim[i];
    struct hlo_tensor best =
        hlo_reshape(m, hlo_reduce(m, call_args(c)[0] ? TILE_MAX : TILE_MIN, x, 1, &axis), x.ndim, kept);
    struct hlo_tensor is_one =
        hlo_binary(m, TILE_OR, hlo_binary(m, TILE_EQ, x, best), hlo_binary(m, TILE_NE, x, x));
    struct hlo_tensor place = hlo_iota(m, ZL_UINT32, x.ndim, x.dim, (int)axis);
    place = hlo_choose(m, is_one, place, hlo_number(m, ZL_UINT32, UINT32_MAX));
    out[0] = hlo_reshape(m, hlo_reduce(m, TILE_MIN, place, 1, &axis), y->ndim, y->dim);
    return true;
}

// Running sums --------------------------------------------------------------------------------------------------------

// Element i becomes that `by` places before it, or after it in reverse; what comes from outside is value.
static struct hlo_tensor shift(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t by, bool reverse,
                               struct hlo_tensor value) {
    int64_t low[HLO_AXES] = {0}, high[HLO_AXES] = {0}, between[HLO_AXES] = {0};
    low[axis] = reverse ? -by : by;
    high[axis] = -low[axis];
    return hlo_pad(m, x, value, low, high, between);
}

// Each step doubles how many elements are combined.
bool hlo_scan(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
              struct hlo_tensor *out) {
    static const enum tile_op ops[] = {[SCAN_SUM] = TILE_ADD,
                                       [SCAN_PROD] = TILE_MUL,
                                       [SCAN_MAX] = TILE_MAX,
                                       [SCAN_MIN] = TILE_MIN,
                                       [SCAN_LOGADDEXP] = TILE_LOGADDEXP};
    const int64_t *arg = call_args(c);
    enum tile_op op = ops[arg[0]];
    int axis = (int)arg[1];
    bool reverse = arg[2], inclusive = arg[3];
    zl_dtype dtype = (zl_dtype)call_first(c)->dtype, wide = tile_reduce_gives(dtype);
    struct hlo_tensor x = hlo_cast(m, in[0], wide), none;
    uint64_t bits = 0;
    if (tile_identity(op, tile_type_of(wide), &bits))
        none = hlo_bits(m, wide, bits);
    else
        none = hlo_number(m, wide, -INFINITY);
    if (!inclusive)
        x = shift(m, x, axis, 1, reverse, none);
    for (int64_t by = 1; by < x.dim[axis]; by *= 2)
        x = hlo_binary(m, op, shift(m, x, axis, by, reverse, none), x);
    out[0] = hlo_cast(m, x, dtype);
    return true;
}

// Sorting -------------------------------------------------------------------------------------------------------------

// The region that says whether the first of two elements comes before the second; with places, those are two more arguments.
static void add_order(struct hlo_module *m, zl_dtype dtype, bool has_places) {
    struct hlo_tensor x[4];
    int count = has_places ? 4 : 2;
    hlo_add(m, "({\n^bb0(");
    for (int i = 0; i < count; i++) {
        x[i] = hlo_type(i < 2 ? dtype : ZL_UINT32, 0, NULL);
        x[i].name = hlo_writer(m)->names++;
        hlo_add(m, i ? ", %v: %t" : "%v: %t", &x[i], &x[i]);
    }
    hlo_add(m, "):\n");
    struct hlo_tensor before = hlo_binary(m, TILE_LT, x[0], x[1]);
    if (dtype_is_float(dtype)) {
        struct hlo_tensor last = hlo_binary(m, TILE_NE, x[1], x[1]),
                          first = hlo_binary(m, TILE_EQ, x[0], x[0]);
        before = hlo_binary(m, TILE_OR, before, hlo_binary(m, TILE_AND, last, first));
    }
    hlo_add(m, "stablehlo.return %v : %t\n})", &before, &before);
}

// Sorts along the last axis; places: of each element where it was, or NULL.
static struct hlo_tensor sort(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor *places) {
    zl_dtype dtype = x.dtype;
    if (dtype == ZL_BOOL)
        x = hlo_cast(m, x, ZL_UINT8);
    struct hlo_tensor y = x, from, to;
    if (places) {
        from = hlo_iota(m, ZL_UINT32, x.ndim, x.dim, x.ndim - 1);
        to = from;
        to.name = hlo_writer(m)->names++;
    }
    y.name = hlo_writer(m)->names++;
    if (places)
        hlo_add(m, "%v, %v = \"stablehlo.sort\"(%v, %v) ", &y, &to, &x, &from);
    else
        hlo_add(m, "%v = \"stablehlo.sort\"(%v) ", &y, &x);
    add_order(m, x.dtype, places);
    hlo_add(m, " {dimension = %d : i64, is_stable = true} : ", x.ndim - 1);
    if (places)
        hlo_add(m, "(%t, %t) -> (%t, %t)\n", &x, &from, &y, &to);
    else
        hlo_add(m, "(%t) -> %t\n", &x, &y);
    if (places)
        *places = to;
    return hlo_cast(m, y, dtype);
}

bool hlo_sort(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
              struct hlo_tensor *out) {
    (void)c;
    out[0] = sort(m, in[0], NULL);
    return in[0].dtype != ZL_COMPLEX64 || hlo_refuse(m, "sort of complex numbers");
}

bool hlo_argsort(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                 struct hlo_tensor *out) {
    (void)c;
    if (in[0].dtype == ZL_COMPLEX64)
        return hlo_refuse(m, "argsort of complex numbers");
    sort(m, in[0], &out[0]);
    return true;
}

// A run of the sorted elements.
static struct hlo_tensor window(struct hlo_module *m, const struct call *c, struct hlo_tensor x) {
    struct op_window w;
    if (!op_partition_window(call_args(c), x.dim[x.ndim - 1], &w))
        hlo_refuse(m, "%s: there is no such run", c->op->name);
    return hlo_cut(m, x, x.ndim - 1, w.first, w.first + w.count);
}

bool hlo_partition(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    if (in[0].dtype == ZL_COMPLEX64)
        return hlo_refuse(m, "partition of complex numbers");
    out[0] = window(m, c, sort(m, in[0], NULL));
    return true;
}

bool hlo_argpartition(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                      struct hlo_tensor *out) {
    if (!hlo_argsort(m, c, in, out))
        return false;
    out[0] = window(m, c, out[0]);
    return true;
}
