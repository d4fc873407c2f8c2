// hlo_order.c - renders ops along one axis: positions of extremes, scans, sorting.

#include "device/hlo/hlo.h"

#include <math.h>

// Finds the index of the first element that is the extreme or NaN.
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

// Running sums ----------------------------------------------------------------------------------------------

// Shifts x by `by` positions along an axis: toward the end, or toward the beginning if `reverse`. `value`
// fills the gap.
static struct hlo_tensor shift(struct hlo_module *m, struct hlo_tensor x, int axis, int64_t by, bool reverse,
                               struct hlo_tensor value) {
    int64_t low[HLO_AXES] = {0}, high[HLO_AXES] = {0}, between[HLO_AXES] = {0};
    low[axis] = reverse ? -by : by;
    high[axis] = -low[axis];
    return hlo_pad(m, x, value, low, high, between);
}

// Renders a scan in log2(n) steps, each of which doubles the number of elements that are combined.
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

// Sorting ---------------------------------------------------------------------------------------------------

// Emits whether a comes before b; NaN comes last.
static struct hlo_tensor comes_before(struct hlo_module *m, struct hlo_tensor a, struct hlo_tensor b) {
    struct hlo_tensor before = hlo_binary(m, TILE_LT, a, b);
    if (!dtype_is_float(a.dtype))
        return before;
    struct hlo_tensor is_last = hlo_binary(m, TILE_NE, b, b), is_number = hlo_binary(m, TILE_EQ, a, a);
    return hlo_binary(m, TILE_OR, before, hlo_binary(m, TILE_AND, is_last, is_number));
}

// Emits the comparison region of a sort. If another operand is sorted along with the keys, the region has two
// more arguments, its elements, which are not compared.
static void add_order(struct hlo_module *m, zl_dtype dtype, const struct hlo_tensor *beside) {
    struct hlo_tensor x[4];
    hlo_add(m, "({\n^bb0(");
    for (int i = 0; i < (beside ? 4 : 2); i++) {
        x[i] = hlo_type(i < 2 ? dtype : beside->dtype, 0, NULL);
        x[i].name = hlo_writer(m)->names++;
        hlo_add(m, i ? ", %v: %t" : "%v: %t", &x[i], &x[i]);
    }
    hlo_add(m, "):\n");
    struct hlo_tensor before = comes_before(m, x[0], x[1]);
    hlo_add(m, "stablehlo.return %v : %t\n})", &before, &before);
}

// Sorts along the last axis, stably. *beside, unless NULL, is rearranged in the same way.
static struct hlo_tensor sort(struct hlo_module *m, struct hlo_tensor x, struct hlo_tensor *beside) {
    struct hlo_tensor y = x, from;
    y.name = hlo_writer(m)->names++;
    if (beside) {
        from = *beside;
        beside->name = hlo_writer(m)->names++;
        hlo_add(m, "%v, %v = \"stablehlo.sort\"(%v, %v) ", &y, beside, &x, &from);
    } else {
        hlo_add(m, "%v = \"stablehlo.sort\"(%v) ", &y, &x);
    }
    add_order(m, x.dtype, beside);
    hlo_add(m, " {dimension = %d : i64, is_stable = true} : ", x.ndim - 1);
    if (beside)
        hlo_add(m, "(%t, %t) -> (%t, %t)\n", &x, &from, &y, beside);
    else
        hlo_add(m, "(%t) -> %t\n", &x, &y);
    return y;
}

// Returns the keys to sort by. Booleans have no order in StableHLO, and are cast; complex numbers are
// refused.
static bool order_of(struct hlo_module *m, const struct call *c, struct hlo_tensor x,
                     struct hlo_tensor *out) {
    *out = x.dtype == ZL_BOOL ? hlo_cast(m, x, ZL_UINT8) : x;
    return x.dtype != ZL_COMPLEX64 || hlo_refuse(m, "%s of complex numbers", c->op->name);
}

bool hlo_sort(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
              struct hlo_tensor *out) {
    struct hlo_tensor x;
    if (!order_of(m, c, in[0], &x))
        return false;
    out[0] = hlo_cast(m, sort(m, x, NULL), in[0].dtype);
    return true;
}

static struct hlo_tensor places_of(struct hlo_module *m, struct hlo_tensor x) {
    return hlo_iota(m, ZL_UINT32, x.ndim, x.dim, x.ndim - 1);
}

bool hlo_argsort(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                 struct hlo_tensor *out) {
    struct hlo_tensor x;
    if (!order_of(m, c, in[0], &x))
        return false;
    out[0] = places_of(m, x);
    sort(m, x, &out[0]);
    return true;
}

// Renders the elements, or their positions, in three groups, each in the original order: elements before the
// kth of the sorted ones, those equal to it, and the others. The call reads a window of that.
static bool partition(struct hlo_module *m, const struct call *c, struct hlo_tensor given, bool wants_places,
                      struct hlo_tensor *out) {
    struct op_window w;
    struct hlo_tensor x;
    int axis = given.ndim - 1;
    if (!order_of(m, c, given, &x))
        return false;
    if (!op_partition_window(call_args(c), x.dim[axis], &w))
        return hlo_refuse(m, "%s: there is no such run", c->op->name);
    struct hlo_tensor pivot = hlo_cut(m, sort(m, x, NULL), axis, w.kth, w.kth + 1);
    pivot = hlo_fit(m, pivot, x.ndim, x.dim);
    struct hlo_tensor is_later = hlo_cast(m, comes_before(m, pivot, x), ZL_UINT8);
    struct hlo_tensor is_first = hlo_cast(m, comes_before(m, x, pivot), ZL_UINT8);
    struct hlo_tensor group =
        hlo_binary(m, TILE_SUB, hlo_binary(m, TILE_ADD, is_later, hlo_number(m, ZL_UINT8, 1)), is_first);
    *out = wants_places ? places_of(m, x) : given;
    sort(m, group, out);
    *out = hlo_cut(m, *out, axis, w.first, w.first + w.count);
    return true;
}

bool hlo_partition(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                   struct hlo_tensor *out) {
    return partition(m, c, in[0], false, out);
}

bool hlo_argpartition(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                      struct hlo_tensor *out) {
    return partition(m, c, in[0], true, out);
}

// Counts how many elements of the sorted list come before each value, by comparing all of them.
bool hlo_searchsorted(struct hlo_module *m, const struct call *c, const struct hlo_tensor *in,
                      struct hlo_tensor *out) {
    zl_array y = call_first(c);
    int64_t row[] = {1, hlo_size(&in[0])}, column[] = {hlo_size(&in[1]), 1}, last = 1;
    struct hlo_tensor list, value;
    if (!order_of(m, c, in[0], &list) || !order_of(m, c, in[1], &value))
        return false;
    list = hlo_reshape(m, list, 2, row);
    value = hlo_reshape(m, value, 2, column);
    struct hlo_tensor before =
        call_args(c)[0] ? hlo_unary(m, TILE_NOT, comes_before(m, value, list)) : comes_before(m, list, value);
    out[0] = hlo_reduce(m, TILE_ADD, hlo_cast(m, before, ZL_UINT32), 1, &last);
    out[0] = hlo_reshape(m, out[0], y->ndim, y->dim);
    return true;
}
