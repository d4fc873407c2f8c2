// cotangent.c - sums of cotangents in reverse mode. Cotangents of disjoint slices of an array are
// concatenated instead of padded and added.
//
// Each element is the sum of the same numbers in the same order as if every slice were padded with zeros and
// added, so results have the same bits. The one exception is the sign of zero: a -0.0 in a slice stays -0.0,
// whereas adding the zeros that pad another slice would make it 0.0.

#include <string.h>

#include "transform/transform.h"

// The cotangent of the elements from start to stop along an axis.
struct part {
    int64_t start, stop;
    zl_array g;
};

// Cotangents of slices along one axis that do not overlap, sorted by descending position: mostly they arrive
// in this order.
struct cotangent_parts {
    struct part *part;
    int count, cap, axis;
    zl_array of;      // the array that was sliced
    zl_stream stream; // of the last slice
};

enum { PARTS_MOST = 1 << 14 }; // with zeros in between, still fewer than a call may have inputs

// Adding two terms is commutative, so slices may still be collected after the first cotangent of the whole
// array.
bool cotangent_add(struct cotangent *t, zl_array g) {
    if (t->sum && !cotangent_join(t))
        return false;
    t->sum = t->sum ? zl_add(t->sum, g) : g;
    return t->sum;
}

// Joining ---------------------------------------------------------------------------------------------------

static zl_array pad(const struct cotangent_parts *p) {
    const struct part *only = p->part;
    int ndim = p->of->ndim;
    OP_TEMP(int64_t, low, 2 * ndim);
    if (!low)
        return NULL;
    memset(low, 0, sizeof *low * 2 * (size_t)ndim);
    low[p->axis] = only->start;
    low[ndim + p->axis] = p->of->dim[p->axis] - only->stop;
    return zl_pad(only->g, (zl_shape){low, ndim}, (zl_shape){low + ndim, ndim},
                  op_number((zl_dtype)only->g->dtype, 0));
}

// Appends zeros for the elements in [from, to), if there are any.
static bool add_gap(const struct cotangent_parts *p, int64_t from, int64_t to, zl_array *in, int *count) {
    int ndim = p->of->ndim;
    if (from == to)
        return true;
    OP_TEMP(int64_t, dim, ndim);
    if (!dim)
        return false;
    memcpy(dim, p->of->dim, sizeof *dim * (size_t)ndim);
    dim[p->axis] = to - from;
    return (in[(*count)++] =
                zl_broadcast_to(op_number((zl_dtype)p->part->g->dtype, 0), (zl_shape){dim, ndim}));
}

static zl_array concatenate(const struct cotangent_parts *p) {
    OP_TEMP(zl_array, in, 2 * p->count + 1);
    if (!in)
        return NULL;
    int count = 0;
    int64_t at = 0;
    for (int i = p->count - 1; i >= 0; i--) {
        if (!add_gap(p, at, p->part[i].start, in, &count))
            return NULL;
        in[count++] = p->part[i].g;
        at = p->part[i].stop;
    }
    return add_gap(p, at, p->of->dim[p->axis], in, &count) ? zl_concatenate(in, count, p->axis) : NULL;
}

bool cotangent_join(struct cotangent *t) {
    struct cotangent_parts *p = t->parts;
    if (!p || !p->count)
        return true;
    zl_stream before = recorder.stream;
    recorder.stream = p->stream;
    zl_array all = p->count == 1 ? pad(p) : concatenate(p);
    t->sum = t->sum && all ? zl_add(t->sum, all) : all;
    recorder.stream = before;
    p->count = 0;
    return t->sum;
}

// Slices ----------------------------------------------------------------------------------------------------

// Returns the axis along which a call takes a contiguous part of an array while it takes all of the other
// axes. Returns -1 if it does something else.
static int axis_of(const struct call *c, struct slice_run *out) {
    if (c->op != &op_slice || sized_is(c, c->in))
        return -1;
    zl_array x = c->in[0];
    int axis = -1;
    for (int i = 0; i < x->ndim; i++) {
        struct slice_run run = op_slice_along(x, call_args(c), i);
        if (run.count == 0 || run.step != 1 || (run.count != x->dim[i] && axis >= 0))
            return -1;
        if (run.count != x->dim[i]) {
            axis = i;
            *out = run;
        }
    }
    return axis;
}

bool cotangent_is_part(const struct call *c) {
    return axis_of(c, &(struct slice_run){0}) >= 0;
}

// Returns the position at which to insert a part. Returns -1 if it overlaps another part, if the parts are
// slices of another axis, or if there are too many.
static int place_of(const struct cotangent_parts *p, int axis, const struct part *added) {
    int at = p->count;
    while (at && p->part[at - 1].start < added->start)
        at--;
    bool overlaps =
        (at && p->part[at - 1].start < added->stop) || (at < p->count && p->part[at].stop > added->start);
    return overlaps || (p->count && p->axis != axis) || p->count == PARTS_MOST ? -1 : at;
}

static bool add_part(struct cotangent *t, const struct call *c, int axis, struct part added) {
    if (!t->parts && !(t->parts = memory_zero(sizeof *t->parts)))
        return false;
    struct cotangent_parts *p = t->parts;
    int at = place_of(p, axis, &added);
    if (at < 0 && (at = 0, !cotangent_join(t)))
        return false;
    if (!memory_grow(&p->part, &p->cap, p->count + 1, sizeof *p->part))
        return false;
    memmove(p->part + at + 1, p->part + at, sizeof *p->part * (size_t)(p->count - at));
    p->part[at] = added;
    p->count++;
    p->axis = axis;
    p->of = c->in[0];
    p->stream = c->stream;
    return true;
}

bool cotangent_add_part(struct cotangent *t, const struct call *c, struct cotangent *of_slice) {
    struct slice_run run = {0};
    int axis = axis_of(c, &run);
    const struct cotangent_parts *p = of_slice->parts;
    if (!of_slice->sum && p && p->count && p->axis == axis) { // A slice of a slice: its parts become parts of
                                                              // the whole array.
        for (int i = 0; i < p->count; i++) {
            struct part moved = {p->part[i].start + run.start, p->part[i].stop + run.start, p->part[i].g};
            if (!add_part(t, c, axis, moved))
                return false;
        }
        return true;
    }
    return cotangent_join(of_slice) &&
           (!of_slice->sum ||
            add_part(t, c, axis, (struct part){run.start, run.start + run.count, of_slice->sum}));
}

void cotangent_free(struct cotangent *t, int count) {
    for (int i = 0; t && i < count; i++)
        if (t[i].parts) {
            memory_free(t[i].parts->part);
            memory_free(t[i].parts);
        }
    memory_free(t);
}
