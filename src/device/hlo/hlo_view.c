// hlo_view.c - renders views of dense arrays as slices, reversals, transposes, reshapes and broadcasts.
//
// The index of an element in the flat list is written in digits of a mixed radix. With cuts c0 > c1 > ... >
// 1, each of which divides the one before, the list is an array of sizes c0/c1, c1/c2, ... An axis of the
// view with stride s times a cut, whose elements stay within one of these axes, is a slice of that axis with
// step s. The cuts of the base's own shape are tried first, because they need no reshape. A view that no cuts
// express, such as overlapping windows, becomes a gather, which is counted.

#include "device/hlo/hlo.h"

#include <string.h>

enum { CUTS = 3 * HLO_RANK };

// An axis of the view that has more than one element and a stride, which is kept without its sign.
struct run {
    int axis; // of the view
    int64_t size, stride;
    bool is_back;
    int64_t above, unit; // found: the list's axis that it slices has above / unit elements of `unit` elements
                         // each
    bool varies;         // its size may differ in other runs
    int64_t bound;       // found: the bound of its size, or 0
};

struct view {
    int runs;
    struct run run[HLO_RANK];
    int64_t offset, elements;
    int cuts;
    int64_t cut[CUTS]; // candidates, the best first
};

static void add_cut(struct view *v, int64_t at) {
    if (at < 1 || v->elements % at)
        return;
    for (int i = 0; i < v->cuts; i++)
        if (v->cut[i] == at)
            return;
    if (v->cuts < CUTS)
        v->cut[v->cuts++] = at;
}

// Lists the runs, the one with the longest stride first; runs of equal strides, which overlap, in any order.
static void list_runs(struct view *v, int ndim, const int64_t *dim, const int64_t *stride) {
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == 1 || stride[i] == 0)
            continue;
        struct run r = {.axis = i,
                        .size = dim[i],
                        .stride = stride[i] < 0 ? -stride[i] : stride[i],
                        .is_back = stride[i] < 0};
        if (r.is_back)
            v->offset += (dim[i] - 1) * stride[i];
        int at = v->runs++;
        for (; at > 0 && v->run[at - 1].stride < r.stride; at--)
            v->run[at] = v->run[at - 1];
        v->run[at] = r;
    }
}

static void list_cuts(struct view *v, const struct hlo_tensor *base) {
    int64_t unit = 1;
    for (int i = base->ndim; i >= 0; i--) {
        add_cut(v, unit);
        unit *= i ? base->dim[i - 1] : 1;
    }
    for (int i = 0; i < v->runs; i++) {
        add_cut(v, v->run[i].stride);
        add_cut(v, v->run[i].stride * v->run[i].size);
    }
}

// Returns whether a run stays within an axis of the list.
static bool fits(const struct view *v, const struct run *r, int64_t above, int64_t unit) {
    return above % unit == 0 && r->stride % unit == 0 &&
           v->offset % above / unit + (r->size - 1) * (r->stride / unit) < above / unit;
}

// Finds cuts for the runs from `at` on, below a cut.
static bool find_cuts(struct view *v, int at, int64_t below) {
    if (at == v->runs)
        return true;
    struct run *r = &v->run[at];
    for (int i = 0; i < v->cuts; i++) {
        r->above = v->cut[i];
        for (int k = 0; below % r->above == 0 && k < v->cuts; k++) {
            r->unit = v->cut[k];
            if (r->unit < r->above && fits(v, r, r->above, r->unit) && find_cuts(v, at + 1, r->unit))
                return true;
        }
    }
    return false;
}

// Notes how the starts of the axes depend on the offset of the view. Axes that are not taken whole have
// consecutive words from `word` on.
static void note_places(struct hlo_module *m, const struct view *v, int ndim, const int64_t *dim,
                        const int64_t *span, int word, int64_t given) {
    zl_dtype dtype = ZL_INT32;
    int64_t unit = 1;
    bool varies = false;
    for (int i = 0; i < ndim; i++)
        dtype = dim[i] > INT32_MAX ? ZL_INT64 : dtype;
    for (int i = 0; i < v->runs; i++)
        varies |= v->run[i].varies;
    struct hlo_place place[HLO_RANK];
    for (int i = ndim - 1; i >= 0; unit *= dim[i--])
        place[i] = (struct hlo_place){.word = -1,
                                      .dtype = dtype,
                                      .add = v->offset - given,
                                      .above = unit * dim[i],
                                      .unit = unit,
                                      .most = varies ? 0 : dim[i] - span[i]};
    for (int i = 0; i < ndim; i++) {
        if (span[i] != dim[i]) {
            place[i].word = word;
            word += dtype == ZL_INT64 ? 2 : 1;
        }
        hlo_note_place(m, place[i]);
    }
}

// Reshapes the list by the cuts, slices it, and drops the axes of which one element is left: each run becomes
// one axis, in their order. The starts of slices are arguments.
static struct hlo_tensor slice_runs(struct hlo_module *m, struct hlo_tensor base, struct view *v,
                                    int64_t given) {
    int64_t dim[HLO_RANK], place[HLO_RANK], span[HLO_RANK], step[HLO_RANK], left[HLO_RANK],
        none[HLO_RANK] = {0}, above = v->elements;
    struct hlo_tensor start[HLO_RANK];
    int ndim = 0;
    for (int i = 0; i <= v->runs; i++) {
        struct run *r = i < v->runs ? &v->run[i] : NULL;
        int64_t to = r ? r->above : 1;
        if (to != above) { // takes one element of the axis between two runs
            dim[ndim] = above / to;
            place[ndim] = v->offset % above / to;
            span[ndim] = 1;
            step[ndim++] = 1;
        }
        if (!r)
            break;
        dim[ndim] = r->above / r->unit;
        step[ndim] = r->stride / r->unit;
        place[ndim] = v->offset % r->above / r->unit;
        if (r->varies && r->size < dim[ndim] && place[ndim] == 0 && step[ndim] == 1 && !r->is_back)
            r->bound = MIN_OF(hlo_step(r->size), dim[ndim]);
        span[ndim] = r->bound ? r->bound : (r->size - 1) * step[ndim] + 1;
        left[i] = r->bound ? r->bound : r->size;
        ndim++;
        above = r->unit;
    }
    struct hlo_tensor x = hlo_reshape(m, base, ndim, dim);
    int word = hlo_words(m)->words;
    if (!shape_equal(ndim, dim, ndim, span)) {
        hlo_starts(m, x, place, span, start);
        x = hlo_slice_at(m, x, start, span);
    }
    note_places(m, v, ndim, dim, span, word, given);
    return hlo_reshape(m, hlo_slice(m, x, none, span, step), v->runs, left);
}

// Arranges the runs as axes of the view, and adds the axes along which it does not move.
static struct hlo_tensor order_runs(struct hlo_module *m, struct hlo_tensor x, const struct view *v, int ndim,
                                    const int64_t *dim) {
    int64_t back[HLO_RANK], axis[HLO_RANK], to[HLO_RANK], bound[HLO_RANK];
    int backs = 0, count = 0;
    memcpy(bound, dim, sizeof *dim * (size_t)ndim);
    for (int i = 0; i < v->runs; i++)
        if (v->run[i].is_back)
            back[backs++] = i;
    x = hlo_reverse(m, x, backs, back);
    for (int i = 0; i < ndim; i++)
        for (int k = 0; k < v->runs; k++)
            if (v->run[k].axis == i) {
                to[count] = i;
                axis[count++] = k;
                bound[i] = v->run[k].bound ? v->run[k].bound : dim[i];
            }
    struct hlo_tensor y = hlo_stretch(m, hlo_transpose(m, x, axis), to, ndim, bound);
    for (int k = 0; k < v->runs; k++)
        if (v->run[k].bound)
            y.real[v->run[k].axis] = hlo_word(m, ZL_INT32, (uint64_t)v->run[k].size).name + 1;
    return y;
}

// Gathers each element by its index in the list.
static struct hlo_tensor gather(struct hlo_module *m, struct hlo_tensor base, int ndim, const int64_t *dim,
                                const int64_t *stride, int64_t offset) {
    int64_t elements = hlo_size(&base), flat[] = {elements}, last[HLO_RANK];
    zl_dtype wide = elements > INT32_MAX ? ZL_INT64 : ZL_INT32;
    struct hlo_tensor list = hlo_reshape(m, base, 1, flat);
    struct hlo_tensor at = hlo_fit(m, hlo_word(m, wide, (uint64_t)offset), ndim, dim);
    for (int i = 0; i < ndim; i++)
        if (stride[i] && dim[i] > 1)
            at = hlo_binary(m, TILE_ADD, at,
                            hlo_binary(m, TILE_MUL, hlo_iota(m, wide, ndim, dim, i),
                                       hlo_number(m, wide, (double)stride[i])));
    memcpy(last, dim, sizeof *dim * (size_t)ndim);
    last[ndim] = 1;
    at = hlo_reshape(m, at, ndim + 1, last);
    struct hlo_tensor y = hlo_type(base.dtype, ndim, dim);
    hlo_emit(m, &y,
             "\"stablehlo.gather\"(%v, %v) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = "
             "[0], start_index_map = [0], "
             "index_vector_dim = %d>, slice_sizes = array<i64: 1>} : (%t, %t) -> %t",
             &list, &at, ndim, &list, &at, &y);
    hlo_writer(m)->gathers++;
    return y;
}

// Other dtypes ----------------------------------------------------------------------------------------------

// Returns elements as integers with the same bits, for booleans, or as pairs of f32, for complex numbers:
// neither has a bitcast in StableHLO.
static struct hlo_tensor plain_bits(struct hlo_module *m, struct hlo_tensor x) {
    if (x.dtype == ZL_BOOL)
        return hlo_cast(m, x, ZL_UINT8);
    if (x.dtype != ZL_COMPLEX64)
        return x;
    struct hlo_tensor part[2];
    int64_t dim[HLO_RANK];
    memcpy(dim, x.dim, sizeof *dim * (size_t)x.ndim);
    dim[x.ndim] = 1;
    for (int i = 0; i < 2; i++) {
        part[i] = hlo_type(ZL_FLOAT32, x.ndim, x.dim);
        hlo_emit(m, &part[i], i ? "stablehlo.imag %v : (%t) -> %t" : "stablehlo.real %v : (%t) -> %t", &x, &x,
                 &part[i]);
        part[i] = hlo_reshape(m, part[i], x.ndim + 1, dim);
    }
    return hlo_join(m, 2, part, x.ndim);
}

// Converts a list of elements of one size to elements of another size, by bitcast_convert.
static struct hlo_tensor resize(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype) {
    int64_t from = (int64_t)zl_dtype_size(x.dtype), to = (int64_t)zl_dtype_size(dtype), n = hlo_size(&x),
            list[] = {n};
    x = hlo_reshape(m, x, 1, list);
    if (from == to)
        return hlo_reinterpret(m, x, dtype);
    int64_t dim[] = {from > to ? n : n * from / to, from > to ? from / to : to / from},
            flat[] = {n * from / to};
    if (from < to) { // drops elements at the end that do not fill a wider one
        x = hlo_reshape(m, hlo_cut(m, x, 0, 0, dim[0] * dim[1]), 2, dim);
    }
    struct hlo_tensor y = hlo_type(dtype, from > to ? 2 : 1, dim);
    hlo_emit(m, &y, "stablehlo.bitcast_convert %v : (%t) -> %t", &x, &x, &y);
    return hlo_reshape(m, y, 1, flat);
}

static struct hlo_tensor from_bits(struct hlo_module *m, struct hlo_tensor x, zl_dtype dtype) {
    if (dtype == ZL_BOOL)
        return hlo_cast(m, resize(m, x, ZL_UINT8), ZL_BOOL);
    if (dtype != ZL_COMPLEX64)
        return resize(m, x, dtype);
    struct hlo_tensor all = resize(m, x, ZL_FLOAT32), part[2];
    int64_t dim[] = {all.dim[0] / 2, 2}, flat[] = {all.dim[0] / 2};
    all = hlo_reshape(m, hlo_cut(m, all, 0, 0, dim[0] * 2), 2, dim);
    for (int i = 0; i < 2; i++)
        part[i] = hlo_reshape(m, hlo_cut(m, all, 1, i, i + 1), 1, flat);
    struct hlo_tensor y = hlo_type(ZL_COMPLEX64, 1, flat);
    hlo_emit(m, &y, "stablehlo.complex %v, %v : %t", &part[0], &part[1], &y);
    return y;
}

static bool is_plain(zl_dtype d) {
    return d != ZL_BOOL && d != ZL_COMPLEX64;
}

static struct hlo_tensor as_dtype(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype) {
    if (base.dtype == dtype)
        return base;
    if (is_plain(base.dtype) && is_plain(dtype) && zl_dtype_size(base.dtype) == zl_dtype_size(dtype))
        return hlo_reinterpret(m, base, dtype);
    return from_bits(m, plain_bits(m, base), dtype);
}

// The view --------------------------------------------------------------------------------------------------

struct hlo_tensor hlo_view(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                           const int64_t *dim, const int64_t *stride, int64_t offset) {
    return hlo_view_bounded(m, base, dtype, ndim, dim, stride, offset, 0);
}

// Renders a view of a base with a bounded axis. It has to be a view of the whole base, with axes in any order
// and axes along which it does not move: each run is an axis of the base.
static struct hlo_tensor view_of_bounded(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype,
                                         int ndim, const int64_t *dim, const int64_t *stride,
                                         int64_t offset) {
    struct view v = {.offset = offset};
    int64_t held[HLO_RANK], unit = 1;
    int axes = 0;
    list_runs(&v, ndim, dim, stride);
    bool is_whole = base.dtype == dtype && offset == 0;
    for (int i = 0; i < base.ndim; i++)
        if (base.dim[i] != 1)
            held[axes++] = i;
    is_whole &= axes == v.runs;
    for (int i = axes - 1; i >= 0 && is_whole; i--) {
        struct run *r = &v.run[i];
        bool is_bound = base.real[held[i]];
        r->bound = is_bound ? base.dim[held[i]] : 0;
        is_whole = !r->is_back && r->stride == unit &&
                   (is_bound ? r->size <= r->bound : r->size == base.dim[held[i]]);
        unit *= r->size;
        held[i] = base.dim[held[i]];
    }
    if (!is_whole) {
        hlo_refuse(m, "a part of an array of which a size varies");
        return hlo_type(dtype, ndim, dim);
    }
    return order_runs(m, hlo_reshape(m, base, axes, held), &v, ndim, dim);
}

struct hlo_tensor hlo_view_bounded(struct hlo_module *m, struct hlo_tensor base, zl_dtype dtype, int ndim,
                                   const int64_t *dim, const int64_t *stride, int64_t offset,
                                   uint64_t varies) {
    if (hlo_is_bounded(&base))
        return view_of_bounded(m, base, dtype, ndim, dim, stride, offset);
    base = as_dtype(m, base, dtype);
    struct view v = {.offset = offset, .elements = hlo_size(&base)};
    int64_t first, last;
    shape_span(ndim, dim, stride, offset, &first, &last);
    if (first < 0 || last >= v.elements) {
        hlo_refuse(m, "a view reaches element %lld of %lld", (long long)(first < 0 ? first : last),
                   (long long)v.elements);
        return hlo_type(dtype, ndim, dim);
    }
    list_runs(&v, ndim, dim, stride);
    for (int i = 0; i < v.runs; i++)
        v.run[i].varies = varies >> v.run[i].axis & 1;
    list_cuts(&v, &base);
    if (find_cuts(&v, 0, v.elements))
        return order_runs(m, slice_runs(m, base, &v, offset), &v, ndim, dim);
    hlo_is_placed(m);
    return gather(m, base, ndim, dim, stride, offset);
}
