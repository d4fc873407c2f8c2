// kernels_reduce.c - reductions over any axes of any layout, by src/kernel/reduce.tile and
// reduce_columns.tile.
//
// If the elements of a row are closer together in memory than neighbouring rows are, the reduction is by
// rows: neighbouring threads read neighbouring elements of a row. Otherwise it is by columns: neighbouring
// threads read neighbouring rows, and threads further apart, the lanes, share a row. If there are few rows,
// each is divided into parts, which a second launch joins. f16 and bf16 are accumulated in f32.

#include "device/kernels/kernels.h"
#include "op/op.h"

#include <stdlib.h>

enum {
    EACH = 16,                // least elements of a thread in a part
    TURN = 4,                 // elements that a thread reads at once
    PARTS_MOST = 1024,        // the most parts of a row
    INVARIANT_PART = 1 << 16, // elements of a part, by rows, if it may not depend on the number of rows
    INVARIANT_LANES = 32,     // the same by columns: lanes,
    INVARIANT_EACH = 64,      // and elements of a thread in a part
    RUN_BYTES = 128,          // bytes that neighbouring threads read, by columns: a cache line
    PACKS_LEAST = 4,          // the fewest packs of a workgroup, by columns
    BUSY = 1 << 18,           // threads that fill a device
    PACK_BYTES = 16,
    PACK_LEAST = 4096, // elements from which packs are used
};

bool kernel_can_reduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    uint64_t identity;
    return !array_is(c->in[0], ARRAY_INLINE) &&
           tile_identity(fuse_combines(c), tile_type_of(tile_reduce_gives(dtype)), &identity);
}

struct reduction {
    const struct kernel_place *place;
    const struct call *call;
    zl_dtype from, to; // the dtypes that are read and written
    int rows, width;   // whether it reduces by rows; elements of a pack
    struct kernel_layout kept, reduced;
    struct kernel_split split;
    int64_t elements, at; // of x, and the position of the first one
};

// Adds the axes with the largest strides first, so that neighbours in the order of reduction are neighbours
// in memory.
static void push_sorted(struct kernel_layout *l, int axes, int64_t *dim, int64_t *stride) {
    for (int left = axes; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < left; i++)
            if (llabs(stride[i]) > llabs(stride[largest]))
                largest = i;
        kernel_layout_push(l, dim[largest], &stride[largest]);
        dim[largest] = dim[left - 1];
        stride[largest] = stride[left - 1];
    }
}

static bool is_reduced(const struct call *c, int axis) {
    for (int i = 0; i < c->args; i++)
        if (call_args(c)[i] == axis)
            return true;
    return false;
}

static void split_axes(struct reduction *r, const struct call *c, zl_array x) {
    int64_t dim[64], stride[64];
    int axes = 0;
    kernel_layout_begin(&r->kept, 1);
    kernel_layout_begin(&r->reduced, 1);
    for (int i = 0; i < x->ndim; i++)
        if (!is_reduced(c, i))
            kernel_layout_push(&r->kept, x->dim[i], &array_stride(x)[i]);
        else if (x->dim[i] != 1) {
            dim[axes] = x->dim[i];
            stride[axes++] = array_stride(x)[i];
        }
    push_sorted(&r->reduced, axes, dim, stride);
}

static int64_t inner_stride(const struct kernel_layout *l) {
    return l->axes ? llabs(l->stride[0][l->axes - 1]) : INT64_MAX;
}

// Counts the contiguous axis in packs, and all positions with it. Returns false, and changes nothing, if
// elements do not form whole packs.
static bool pack(struct reduction *r, int width) {
    struct kernel_layout *along = r->rows ? &r->reduced : &r->kept,
                         *across = r->rows ? &r->kept : &r->reduced;
    int last = along->axes - 1;
    bool fits =
        last >= 0 && along->stride[0][last] == 1 && along->dim[last] % width == 0 && r->at % width == 0;
    for (int i = 0; i < across->axes; i++)
        fits = fits && across->stride[0][i] % width == 0;
    for (int i = 0; i < last; i++)
        fits = fits && along->stride[0][i] % width == 0;
    if (!fits)
        return false;
    for (int i = 0; i < across->axes; i++)
        across->stride[0][i] /= width;
    for (int i = 0; i < last; i++)
        along->stride[0][i] /= width;
    along->dim[last] /= width;
    along->size /= width;
    r->elements /= width;
    r->at /= width;
    return true;
}

// Returns the most threads that may share a pack of rows, by columns. The other threads of the workgroup read
// neighbouring packs, up to a whole cache line if there are as many.
static int most_lanes(int64_t lines, int pack_bytes) {
    int run = RUN_BYTES / pack_bytes, packs = PACKS_LEAST;
    while (packs < run && packs < lines)
        packs *= 2;
    return KERNEL_THREADS / packs;
}

// If there are few packs, each has many lanes, and each lane has some elements. If the result of a row may
// not depend on the number of rows, neither may the lanes.
int kernel_column_lanes(int64_t lines, int64_t count, int pack_bytes) {
    const bool invariant = device_batch_invariant();
    int lanes = 1, most = invariant ? INVARIANT_LANES : most_lanes(lines, pack_bytes);
    while (lanes < most && 2 * TURN * lanes <= count && (invariant || lanes * lines < BUSY))
        lanes *= 2;
    return lanes;
}

static int64_t parts_of_rows(int64_t lines, int64_t count, int width) {
    return device_batch_invariant() ? count / (INVARIANT_PART / width)
                                    : MIN_OF(BUSY / MAX_OF(lines * op_kernel_lanes(count), 1),
                                             count / (EACH * KERNEL_THREADS / width));
}

static int64_t parts_of_columns(int64_t lines, int64_t count, int lanes) {
    return device_batch_invariant() ? count / (INVARIANT_EACH * lanes)
                                    : MIN_OF(BUSY / MAX_OF(lines * lanes, 1), count / (EACH * lanes));
}

// Divides `count` elements into about `parts` parts, each a multiple of `turn` except for the last one.
static void cut(struct kernel_split *s, int64_t count, int64_t parts, int64_t turn) {
    parts = MAX_OF(MIN_OF(parts, PARTS_MOST), 1);
    s->each = (count + parts * turn - 1) / (parts * turn) * turn;
    s->parts = (count + s->each - 1) / s->each;
}

struct kernel_split kernel_split_columns(int64_t lines, int64_t count, int pack_bytes) {
    struct kernel_split s = {.lanes = kernel_column_lanes(lines, count, pack_bytes)};
    cut(&s, count, parts_of_columns(lines, count, s.lanes), TURN * s.lanes);
    return s;
}

static struct kernel_split split_rows(int64_t lines, int64_t count, int width) {
    struct kernel_split s;
    cut(&s, count, parts_of_rows(lines, count, width), 1);
    s.lanes = op_kernel_lanes(s.each);
    return s;
}

static void choose(struct reduction *r) {
    int item = (int)zl_dtype_size(r->from), width = PACK_BYTES / item;
    bool packs = r->kept.size * r->reduced.size >= PACK_LEAST || device_batch_invariant();
    r->rows = inner_stride(&r->reduced) < inner_stride(&r->kept);
    r->width = packs && pack(r, width) ? width : 1;
    r->split = r->rows ? split_rows(r->kept.size, r->reduced.size, r->width)
                       : kernel_split_columns(r->kept.size, r->reduced.size, r->width * item);
}

static bool launch(struct reduction *r, void *to, void *from) {
    struct kernel_work w;
    work_open(&w, r->place, r->call->op->name);
    WORK_SIZES(&w, r->kept.size, r->reduced.size, r->split.parts, r->split.each, layout_inner(&r->kept),
               layout_inner(&r->reduced), r->elements, r->at);
    work_memory(&w, from);
    work_table(&w, &r->kept);
    work_table(&w, &r->reduced);
    work_memory(&w, to);
    w.wide |= r->kept.size * r->split.parts > KERNEL_NARROW;
    zl_dtype wide = tile_reduce_gives(r->from);
    enum tile_op combine = fuse_combines(r->call);
    bool single = r->reduced.axes <= 1;
    return r->rows ? WORK_FILE(&w, "reduce",
                               "ITEM=%t,WIDE=%t,TO=%t,COMBINE=%o,WIDTH=%d,LANES=%d,SINGLE=%d,%i,COUNT=u%b",
                               r->from, wide, r->to, combine, r->width, r->split.lanes, single)
                   : WORK_FILE(&w, "reduce_columns",
                               "ITEM=%t,WIDE=%t,TO=%t,COMBINE=%o,WIDTH=%d,LANES=%d,SINGLE=%d,%i", r->from,
                               wide, r->to, combine, r->width, r->split.lanes, single);
}

// Reduces parts, then joins them. By rows, the parts of a row are adjacent in memory; by columns, those of
// neighbouring rows are.
static bool launch_parts(struct reduction *r, void *to, void *from) {
    struct kernel_scratch room = {0};
    struct reduction join = *r;
    zl_dtype wide = tile_reduce_gives(r->from);
    int64_t lines = r->kept.size;
    join.elements = lines * r->split.parts;
    join.width = r->rows ? 1 : r->width;
    join.split = (struct kernel_split){
        r->rows ? op_kernel_lanes(r->split.parts)
                : kernel_column_lanes(lines, r->split.parts, r->width * (int)zl_dtype_size(wide)),
        1, r->split.parts};
    join.at = 0;
    r->to = join.from = wide;
    kernel_layout_begin(&join.kept, 1);
    kernel_layout_begin(&join.reduced, 1);
    kernel_layout_push(&join.kept, lines, &(int64_t){r->rows ? r->split.parts : 1});
    kernel_layout_push(&join.reduced, r->split.parts, &(int64_t){r->rows ? 1 : lines});
    bool done =
        kernel_scratch_open(r->place, &room, (size_t)(join.elements * join.width) * zl_dtype_size(wide)) &&
        launch(r, room.memory, from) && launch(&join, to, room.memory);
    kernel_scratch_close(r->place, &room);
    return done;
}

bool kernel_reduce(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    struct reduction r = {.place = p,
                          .call = c,
                          .from = (zl_dtype)x->dtype,
                          .to = (zl_dtype)y->dtype,
                          .elements = kernel_elements(x),
                          .at = x->offset};
    split_axes(&r, c, x);
    choose(&r);
    void *to = kernel_reach(p, y), *from = kernel_reach(p, x);
    return to && from && (r.split.parts > 1 ? launch_parts(&r, to, from) : launch(&r, to, from));
}
