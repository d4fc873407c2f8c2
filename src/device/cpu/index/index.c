// index.c - take, gather and scatter: slices of an array that indices select.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum { AHEAD = 12 }; // number of slices ahead of the copy of which the first cache line is prefetched

// Take ------------------------------------------------------------------------------------------------------

struct taking {
    char *out;
    struct indices indices;
    int64_t count;           // of indices
    int64_t dim, step;       // of the indexed axis: elements, bytes
    int64_t bytes;           // of a slice
    struct layout outer;     // the axes before it; operand: x
    struct slice_move slice; // the axes after it
    gather_fn *elements;     // for slices of one element
    take_fn *direct;         // the same for contiguous indices; NULL: indices are converted first
};

// Copies slices [from, to) of one outer position; the result of slice 0 begins at out. Indices out of range
// are clamped, so that no memory outside x is read.
static void take_row(const struct taking *t, char *out, const char *x, int64_t from, int64_t to) {
    int64_t at[INDICES_BLOCK];
    if (t->direct) {
        struct indexed axis = {(char *)(uintptr_t)x, t->dim, t->step, 0};
        t->direct(out + from * t->bytes, &axis, t->indices.data + from * t->indices.step, to - from);
        return;
    }
    for (int64_t n; from < to; from += n) {
        n = MIN_OF(to - from, INDICES_BLOCK);
        cpu_indices_next(&t->indices, from, n, at);
        for (int64_t i = 0; i < n; i++)
            at[i] = cpu_position(at[i], t->dim, t->dim - 1) * t->step;
        if (t->slice.layout.size == 1)
            t->elements(out + from * t->bytes, x, at, n);
        for (int64_t i = 0; t->slice.layout.size > 1 && i < n; i++) {
            __builtin_prefetch(x + at[MIN_OF(i + AHEAD, n - 1)]);
            cpu_slice_move(&t->slice, out + (from + i) * t->bytes, x + at[i]);
        }
    }
}

// Copies slices [from, to) of the result, counted over the outer axes and the indices.
static void take_part(const void *context, int64_t from, int64_t to) {
    const struct taking *t = context;
    struct walk w;
    cpu_walk_to(&t->outer, &w, from / t->count);
    for (;;) {
        int64_t row = from / t->count * t->count, end = MIN_OF(row + t->count, to);
        take_row(t, t->out + row * t->bytes, w.data[0], from - row, end - row);
        if ((from = end) == to)
            return;
        cpu_walk_next(&t->outer, &w);
    }
}

static void plan_outer(struct layout *l, int ndim, const int64_t *dim, const void *data, size_t item,
                       const int64_t *stride) {
    cpu_layout_start(l, ndim, dim, 0);
    cpu_layout_add(l, data, item, ndim, dim, stride);
    cpu_layout_merge(l);
    l->loops = l->axes;
    for (int j = 0; j < l->axes; j++)
        l->axis[j].step = 1;
}

bool cpu_take(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], indices = c->in[1], out = call_output(c, 0);
    int axis = (int)call_args(c)[0], after = x->ndim - axis - 1;
    int64_t item = (int64_t)array_item(x);
    struct taking t;
    t.out = cpu_data(out);
    t.count = indices->size;
    t.dim = x->dim[axis];
    t.step = array_stride(x)[axis] * item;
    cpu_slice_plan(&t.slice, (zl_dtype)x->dtype, UPDATE_SET, after, x->dim + axis + 1,
                   array_stride(out) + out->ndim - after, array_stride(x) + axis + 1);
    t.bytes = t.slice.layout.size * item;
    t.elements = cpu_gather_elements((size_t)item);
    plan_outer(&t.outer, axis, x->dim, array_data(x, &room), (size_t)item, array_stride(x));
    bool ok = cpu_indices_open(&t.indices, indices);
    bool dense = ok && t.slice.layout.size == 1 && t.indices.step == (int64_t)array_item(indices);
    t.direct = dense ? cpu_take_elements((zl_dtype)indices->dtype, (size_t)item) : NULL;
    if (ok)
        cpu_split(t.outer.size * t.count, CPU_SPLIT / 2 / (t.bytes + 16) + 1, take_part, &t);
    cpu_indices_close(&t.indices);
    return ok;
}

// Places ----------------------------------------------------------------------------------------------------

// An indexed axis, and its indices.
struct place {
    struct indices indices;
    struct indices_axis axis;
};

struct places {
    int count;
    struct place *place;
};

static void close_places(struct places *p) {
    for (int k = 0; k < p->count; k++)
        cpu_indices_close(&p->place[k].indices);
    memory_free(p->place);
}

// Opens the indices of all indexed axes. size: of a slice, along each axis of x. On failure, returns false
// with an error, and nothing stays open.
static bool open_places(struct places *p, zl_array x, int count, const zl_array *indices, const int64_t *axes,
                        const int64_t *size) {
    p->count = 0;
    if (!(p->place = memory_alloc(sizeof *p->place * (size_t)(count + 1))))
        return false;
    for (; p->count < count; p->count++) {
        int64_t axis = axes[p->count];
        struct place *to = &p->place[p->count];
        to->axis = (struct indices_axis){x->dim[axis], x->dim[axis] - size[axis],
                                         array_stride(x)[axis] * (int64_t)array_item(x)};
        if (!cpu_indices_open(&to->indices, indices[p->count])) {
            close_places(p);
            return false;
        }
    }
    return true;
}

// Gather ----------------------------------------------------------------------------------------------------

struct gathering {
    char *out;
    const char *data;
    int64_t bytes; // of a slice
    struct places places;
    gather_fn *elements; // for slices of one element
    struct slice_move slice;
};

static void gather_part(const void *context, int64_t from, int64_t to) {
    const struct gathering *g = context;
    for (int64_t n; from < to; from += n) {
        int64_t offset[INDICES_BLOCK] = {0};
        n = MIN_OF(to - from, INDICES_BLOCK);
        for (int k = 0; k < g->places.count; k++)
            cpu_indices_add(&g->places.place[k].indices, &g->places.place[k].axis, from, n, offset);
        if (g->slice.layout.size == 1)
            g->elements(g->out + from * g->bytes, g->data, offset, n);
        for (int64_t i = 0; g->slice.layout.size > 1 && i < n; i++) {
            __builtin_prefetch(g->data + offset[MIN_OF(i + AHEAD, n - 1)]);
            cpu_slice_move(&g->slice, g->out + (from + i) * g->bytes, g->data + offset[i]);
        }
    }
}

bool cpu_gather(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_output(c, 0);
    int count = c->inputs - 1;
    const int64_t *axes = call_args(c) + 1, *size = axes + count;
    struct gathering g;
    if (!open_places(&g.places, x, count, c->in + 1, axes, size))
        return false;
    g.elements = cpu_gather_elements(array_item(x));
    g.out = cpu_data(out);
    g.data = array_data(x, &room);
    cpu_slice_plan(&g.slice, (zl_dtype)x->dtype, UPDATE_SET, x->ndim, size,
                   array_stride(out) + out->ndim - x->ndim, array_stride(x));
    g.bytes = g.slice.layout.size * (int64_t)array_item(x);
    cpu_split(out->size / g.slice.layout.size, CPU_SPLIT / 2 / (g.bytes + 16 * count + 16) + 1, gather_part,
              &g);
    close_places(&g.places);
    return true;
}

// Scatter ---------------------------------------------------------------------------------------------------

// Updates are applied in order, so that the result does not depend on the number of threads. Each part owns a
// range of positions along the first indexed axis, goes through all updates, and skips those of other parts.
struct scattering {
    char *out;
    int64_t count; // of updates
    struct places places;
    struct layout updates; // operand: the first element of each update
    scatter_fn *elements;  // for slices of one element
    struct slice_move slice;
};

enum { LEFT_OUT = -1, SPLIT_LEAST = 64 }; // bytes of a slice for which skipping others' updates pays

// Adds the positions along this axis to the offsets of n updates. Marks updates as left out if their position
// is not in [low, high].
static void add_within(const struct place *p, int64_t low, int64_t high, int64_t from, int64_t n,
                       int64_t *offset) {
    int64_t index[INDICES_BLOCK];
    cpu_indices_next(&p->indices, from, n, index);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i] < 0 ? index[i] + p->axis.dim : index[i];
        bool within = at >= low && at <= high && offset[i] != LEFT_OUT;
        offset[i] = within ? offset[i] + at * p->axis.step : LEFT_OUT;
    }
}

static void find_places(const struct places *p, int64_t low, int64_t high, int64_t from, int64_t n,
                        int64_t *offset) {
    for (int64_t i = 0; i < n; i++)
        offset[i] = 0;
    for (int k = 0; k < p->count; k++)
        add_within(&p->place[k], k ? 0 : low, k ? p->place[k].axis.last : high, from, n, offset);
}

// Applies a block of n updates, the first of which is at w. `more`: another block follows, so w is advanced
// past the last update too.
static void apply(const struct scattering *s, struct walk *w, const int64_t *offset, int64_t n, bool more) {
    const bool is_element = s->slice.layout.size == 1;
    if (is_element && s->updates.axes <= 1) {
        s->elements(s->out, offset, w->data[0], w->next[0], n);
        w->data[0] += n * w->next[0];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (is_element)
            s->elements(s->out, offset + i, w->data[0], 0, 1);
        else if (offset[i] != LEFT_OUT)
            cpu_slice_move(&s->slice, s->out + offset[i], w->data[0]);
        if (i + 1 < n || more)
            cpu_walk_next(&s->updates, w);
    }
}

// Applies the updates at positions [low, end) along the first indexed axis.
static void scatter_part(const void *context, int64_t low, int64_t end) {
    const struct scattering *s = context;
    int64_t offset[INDICES_BLOCK];
    struct walk w;
    cpu_walk_to(&s->updates, &w, 0);
    for (int64_t i = 0, n; i < s->count; i += n) {
        n = MIN_OF(s->count - i, INDICES_BLOCK);
        find_places(&s->places, low, end - 1, i, n, offset);
        apply(s, &w, offset, n, i + n < s->count);
    }
}

static void run_scatter(const struct scattering *s) {
    int64_t bytes = s->slice.layout.size * (int64_t)s->slice.item;
    const struct place *first = s->places.place;
    bool splits = s->places.count && first->axis.last + 1 == first->axis.dim && bytes >= SPLIT_LEAST &&
                  bytes * s->count >= CPU_SPLIT;
    int64_t positions = s->places.count ? first->axis.last + 1 : 1;
    cpu_split(positions, splits ? positions / pool_threads() + 1 : positions, scatter_part, s);
}

bool cpu_scatter(const struct call *c) {
    union scalar room;
    int count = c->inputs - 2;
    zl_array out = call_output(c, 0), updates = c->in[count + 1];
    int lead = updates->ndim - out->ndim;
    struct scattering s;
    if (!open_places(&s.places, out, count, c->in + 1, call_args(c) + 1, updates->dim + lead))
        return false;
    s.out = cpu_copy_input(c);
    cpu_slice_plan(&s.slice, (zl_dtype)out->dtype, (int)call_args(c)[0], out->ndim, updates->dim + lead,
                   array_stride(out), array_stride(updates) + lead);
    s.count = updates->size / s.slice.layout.size;
    s.elements = cpu_scatter_elements((int)call_args(c)[0], (zl_dtype)out->dtype);
    plan_outer(&s.updates, lead, updates->dim, array_data(updates, &room), array_item(updates),
               array_stride(updates));
    run_scatter(&s);
    close_places(&s.places);
    return true;
}
