// kernels_positions.c - positions in an array that arrays of indices give, of any number and dtypes: the code
// that kernels use to compute them, and the ops that read at them.

#include "device/kernels/kernels_positions.h"
#include "tile/notation.h"

// Building --------------------------------------------------------------------------------------------------

// The parameters of a kernel of positions.
struct places {
    const struct index_key *key;
    expr inner; // of tile_walk
    struct fuse_operand index[KERNEL_INDICES];
    const struct tile_buffer *s, *of;
};

static struct places declare_places(const struct index_key *key) {
    struct places l = {.key = key, .inner = fuse_symbol("inner", -1, 0, 1)};
    for (int k = 0; k < key->count; k++)
        l.index[k] = fuse_declare("index", k, (zl_dtype)key->dtype[k], fuse_symbol("n", k, 0, 1), false);
    l.s = fuse_table("s", key->count + 2, KERNEL_AXES);
    l.of = fuse_table("along", INDEX_ROWS, MAX_OF(key->count, 1));
    return l;
}

// Returns an index as a position along its axis, clamped into it, and clears *inside if the index is out of
// range. Computes in integers of the index's signedness that hold both the index and the size of the axis.
static expr position(const struct places *l, int k, expr given, expr *inside) {
    struct tile_type index = tile_index_type(), wide = tile_type_of((zl_dtype)l->key->dtype[k]);
    expr column = tile_number(k);
    wide.bits = (uint8_t)MAX_OF(wide.bits, index.bits);
    expr zero = tile_const_int(wide, 0), last = tile_cast(wide, fuse_entry(l->of, INDEX_LAST, column)),
         dim = tile_cast(wide, fuse_entry(l->of, INDEX_DIM, column)),
         value = tile_variable("found", tile_cast(wide, given));
    tile_assign(value ? value->name : NULL, SELECT(LT(value, zero), ADD(value, dim), value));
    *inside = AND(*inside, AND(GE(value, zero), LE(value, last)));
    return tile_cast(index, MIN(MAX(value, zero), last));
}

// Returns the position that the indices of entry i give, from `first` on. Sets *inside to whether all indices
// are in range; others are clamped.
static expr build_place(const struct places *l, expr i, expr first, expr *inside) {
    expr to[1 + KERNEL_INDICES] = {first};
    for (int k = 0; k < l->key->count; k++)
        to[1 + k] = fuse_entry(l->of, INDEX_OFFSET, tile_number(k));
    fuse_walk(l->s, l->inner, i, 1 + l->key->count, to);
    *inside = tile_const_int(tile_type_of(ZL_BOOL), 1);
    for (int k = 0; k < l->key->count; k++) {
        expr given = fuse_read(&l->index[k], to[1 + k]);
        expr step = MUL(position(l, k, given, inside), fuse_entry(l->of, INDEX_STEP, tile_number(k)));
        tile_assign(to[0] ? to[0]->name : NULL, ADD(to[0], step));
    }
    return to[0];
}

struct tile_kernel *kernel_make_places(const void *data) {
    const struct place_recipe *r = data;
    zl_dtype dtype = r->gathers || r->puts ? (zl_dtype)r->word : r->wide ? ZL_UINT64 : ZL_UINT32;
    struct tile_type type = tile_type_of(dtype);
    struct fuse_operand x = {0};
    fuse_begin(r->gathers ? "gather" : "places", r->wide);
    expr n = fuse_symbol("n", -1, 0, 1), first = tile_number(0), inside;
    if (r->gathers || r->puts) {
        x = fuse_declare("x", 0, dtype, fuse_symbol("m", -1, 0, 1), false);
        first = fuse_symbol("at", -1, 0, 1);
    }
    struct places l = declare_places(&r->key);
    struct fuse_operand y = fuse_declare("y", 0, dtype, r->puts ? fuse_symbol("all", -1, 0, 1) : n, true);
    const struct tile_name *name = tile_index("i", n);
    expr i = tile_name_value(name, TILE_INDEX);
    tile_open_map(1, &name, &n);
    expr place = build_place(&l, i, r->puts ? tile_number(0) : first, &inside);
    if (r->puts)
        fuse_put(&y, place, fuse_read(&x, ADD(first, i)));
    else if (r->gathers)
        fuse_put(&y, i, fuse_read(&x, place));
    else if (r->moves)
        fuse_put(&y, i, tile_cast(type, place));
    else
        fuse_put(&y, i, SELECT(inside, tile_cast(type, place), tile_const_int(type, -1)));
    tile_close();
    return tile_end();
}

bool kernel_indices_are_wide(const struct kernel_layout *l, const struct index_list *list) {
    bool wide = kernel_layout_is_wide(l);
    for (int i = 0; i < list->count; i++)
        wide |= list->of[INDEX_DIM][i] > KERNEL_NARROW || kernel_elements(list->index[i]) > KERNEL_NARROW;
    return wide;
}

void kernel_add_indices(struct kernel_work *w, const struct kernel_layout *l, const struct index_list *list) {
    WORK_SIZES(w, layout_inner(l));
    for (int i = 0; i < list->count; i++) {
        work_result(w, list->index[i]);
        WORK_SIZES(w, kernel_elements(list->index[i]));
    }
    work_table(w, l);
    work_rows(w, INDEX_ROWS, MAX_OF(list->count, 1), &list->of[0][0], KERNEL_INDICES);
}

struct index_key kernel_index_key(const struct index_list *list) {
    struct index_key key = {.count = list->count};
    for (int i = 0; i < list->count; i++)
        key.dtype[i] = list->index[i]->dtype;
    return key;
}

void kernel_list_index(struct index_list *list, zl_array x, int64_t axis, int64_t size, zl_array index,
                       int64_t offset) {
    int i = list->count++;
    list->index[i] = index;
    list->of[INDEX_OFFSET][i] = offset;
    list->of[INDEX_DIM][i] = x->dim[axis];
    list->of[INDEX_LAST][i] = x->dim[axis] - size;
    list->of[INDEX_STEP][i] = array_stride(x)[axis];
}

struct index_list kernel_list_indices(zl_array x, int count, const zl_array *index, const int64_t *axes,
                                      const int64_t *size, struct kernel_layout *l) {
    struct index_list list = {0};
    kernel_layout_begin(l, 1 + count);
    for (int i = 0; i < count; i++)
        kernel_list_index(&list, x, axes[i], size[axes[i]], index[i], index[i]->offset);
    for (int axis = 0; count && axis < index[0]->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {0};
        for (int i = 0; i < count; i++)
            stride[1 + i] = array_stride(index[i])[axis];
        kernel_layout_push(l, index[0]->dim[axis], stride);
    }
    return list;
}

// Gather ----------------------------------------------------------------------------------------------------

// Gathers elements along the axes of the result. The operands of l are x and the indices.
static bool gather(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l,
                   const struct index_list *list) {
    zl_array x = c->in[0];
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, l->size);
    work_array(&w, x);
    kernel_add_indices(&w, l, list);
    work_result(&w, call_first(c));
    w.wide |= kernel_indices_are_wide(l, list);
    struct place_recipe r = {
        "places", w.wide, true, true, false, kernel_word(array_item(x)), kernel_index_key(list)};
    return work_run(&w, &r, sizeof r, kernel_make_places);
}

bool kernel_put_slice(const struct kernel_place *p, const struct call *c, zl_array x,
                      const struct index_list *list) {
    zl_array y = call_first(c);
    struct kernel_layout l;
    kernel_layout_begin(&l, 1 + list->count);
    for (int axis = 0; axis < x->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {array_stride(y)[axis]};
        kernel_layout_push(&l, x->dim[axis], stride);
    }
    struct kernel_work w;
    work_open(&w, p, c->op->name);
    WORK_SIZES(&w, l.size);
    work_array(&w, x);
    kernel_add_indices(&w, &l, list);
    WORK_SIZES(&w, kernel_elements(y));
    work_result(&w, y);
    w.wide |= kernel_indices_are_wide(&l, list) || kernel_elements(y) > KERNEL_NARROW;
    struct place_recipe r = {
        "places", w.wide, true, false, true, kernel_word(array_item(x)), kernel_index_key(list)};
    return kernel_check_axes(&l, c->op->name) && work_run(&w, &r, sizeof r, kernel_make_places);
}

// Appends the array's own axes, along which the indices have stride 0.
static void push_slice(struct kernel_layout *l, zl_array x, const int64_t *size) {
    for (int axis = 0; axis < x->ndim; axis++) {
        int64_t stride[1 + KERNEL_INDICES] = {array_stride(x)[axis]};
        kernel_layout_push(l, size[axis], stride);
    }
}

bool kernel_can_gather(const struct call *c) {
    return c->inputs <= KERNEL_INDICES;
}

bool kernel_gather(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0];
    int count = c->inputs - 1;
    const int64_t *axes = call_args(c) + 1, *size = axes + count;
    struct kernel_layout l;
    struct index_list list = kernel_list_indices(x, count, c->in + 1, axes, size, &l);
    push_slice(&l, x, size);
    return gather(p, c, &l, &list);
}

struct index_list kernel_list_starts(zl_array x, zl_array starts, const int64_t *axes, const int64_t *size) {
    struct index_list list = {0};
    for (int i = 0; i < starts->size; i++)
        kernel_list_index(&list, x, axes[i], size[axes[i]], starts,
                          starts->offset + (starts->ndim ? i * array_stride(starts)[0] : 0));
    return list;
}

// There are as many starts as the arguments name axes.
bool kernel_can_dynamic_slice(const struct call *c) {
    return call_args(c)[0] <= KERNEL_INDICES;
}

bool kernel_dynamic_slice(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    struct index_list list = kernel_list_starts(x, c->in[1], call_args(c) + 1, y->dim);
    struct kernel_layout l;
    kernel_layout_begin(&l, 1 + list.count);
    push_slice(&l, x, y->dim);
    return gather(p, c, &l, &list);
}

// Gathers by one array of indices along one axis. l has the axes of the result; along those of the indices
// alone, x has stride 0.
static bool take(const struct kernel_place *p, const struct call *c, const struct kernel_layout *l) {
    zl_array x = c->in[0], indices = c->in[1];
    struct index_list list = {0};
    kernel_list_index(&list, x, call_args(c)[0], 1, indices, indices->offset);
    return gather(p, c, l, &list);
}

bool kernel_take(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    struct kernel_layout l;
    kernel_layout_begin(&l, 2);
    for (int i = 0; i < x->ndim; i++)
        if (i != call_args(c)[0])
            kernel_layout_push(&l, x->dim[i], (const int64_t[]){array_stride(x)[i], 0});
        else
            for (int k = 0; k < indices->ndim; k++)
                kernel_layout_push(&l, indices->dim[k], (const int64_t[]){0, array_stride(indices)[k]});
    return take(p, c, &l);
}

bool kernel_take_along(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], indices = c->in[1];
    struct kernel_layout l;
    kernel_layout_begin(&l, 2);
    for (int i = 0; i < x->ndim; i++)
        kernel_layout_push(
            &l, indices->dim[i],
            (const int64_t[]){i == call_args(c)[0] ? 0 : array_stride(x)[i], array_stride(indices)[i]});
    return take(p, c, &l);
}
