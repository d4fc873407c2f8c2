// kernels_scan.c - running sums, products, maxima and minima along an axis, by src/kernel/scan.tile.
//
// Several threads share a line; if another axis is contiguous, each thread has a line of its own. If there
// are few lines, each is divided into parts, whose totals are computed by a first launch. f16 and bf16 are
// accumulated in f32, and rounded when they are written.

#include "device/kernels/kernels.h"
#include "op/ops.h"

enum {
    PACKS = 4, // the most packs that a thread has at once
    PACK_BYTES = 16,
    SUBGROUP = 32, // a line has at most so many threads, or a whole workgroup
    COLUMN_THREADS = 64,
    BUSY = 1 << 17,     // threads that fill a device
    PART_LEAST = 8192,  // least elements of a part, if a workgroup shares the line
    COLUMN_LEAST = 128, // the same if a thread has the line
    PARTS_MOST = 1024,
};

// Scans lines; finds the totals of parts; scans parts, continued from the totals before them.
enum mode { SCAN_WHOLE, SCAN_TOTALS, SCAN_PARTS };

static const enum tile_op ops[] = {TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN, TILE_LOGADDEXP};

// Returns the op of a scan. Of booleans, the maximum is `or`, the minimum `and`.
static enum tile_op op_of(const struct call *c) {
    enum tile_op op = ops[call_args(c)[0]];
    if (c->in[0]->dtype == ZL_BOOL)
        op = op == TILE_MAX ? TILE_OR : op == TILE_MIN ? TILE_AND : op;
    return op;
}

bool kernel_can_scan(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE) &&
           tile_row_takes(op_of(c), tile_reduce_gives((zl_dtype)c->in[0]->dtype));
}

struct scanning {
    const struct kernel_place *place;
    const struct call *call;
    zl_dtype dtype;
    int width, lanes, packs;
    struct kernel_layout lines; // the other axes; operands: result, input
    int64_t n, to_step, from_step, parts, each, to_elements, elements, at;
};

// totals: memory for them, or NULL if lines have no parts.
static bool launch(struct scanning *s, enum mode mode, const struct kernel_scratch *totals) {
    zl_dtype wide = tile_reduce_gives(s->dtype);
    const int64_t *arg = call_args(s->call);
    bool is_complex = s->dtype == ZL_COMPLEX64;
    int steps = __builtin_ctz((unsigned)MIN_OF(s->lanes, SUBGROUP));
    struct kernel_work w;
    work_open(&w, s->place, s->call->op->name);
    WORK_SIZES(&w, s->n, s->lines.size, s->parts, s->each, layout_inner(&s->lines), s->to_elements,
               s->elements, s->at);
    work_place(&w, s->call->in[0]);
    work_table(&w, &s->lines);
    work_int(&w, s->to_step);
    work_int(&w, s->from_step);
    work_place(&w, call_first(s->call));
    if (totals)
        work_bytes(&w, totals->memory, totals->capacity);
    else
        work_place(&w, call_first(s->call));
    w.wide |= s->lines.size * s->n > KERNEL_NARROW;
    return WORK_FILE(
        &w, "scan",
        "ITEM=%t,WIDE=%t,ITEM_PIECE=%t,WIDE_PIECE=%t,PIECES=%d,COMBINE=%o,WIDTH=%d,LANES=%d,STEPS=%d,"
        "THREADS=%d,PACKS=%d,MODE=%d,REVERSE=%d,INCLUSIVE=%d,%i,COUNT=u%b",
        s->dtype, wide, is_complex ? ZL_FLOAT32 : s->dtype, is_complex ? ZL_FLOAT32 : wide, 1 + is_complex,
        op_of(s->call), s->width, s->lanes, steps, s->lanes > 1 ? KERNEL_THREADS : COLUMN_THREADS, s->packs,
        mode, arg[2] != 0, arg[3] != 0);
}

static bool launch_parts(struct scanning *s) {
    struct kernel_scratch room = {0};
    size_t item = zl_dtype_size(tile_reduce_gives(s->dtype));
    bool done = kernel_scratch_open(s->place, &room, (size_t)(s->lines.size * s->parts) * item) &&
                launch(s, SCAN_TOTALS, &room) && launch(s, SCAN_PARTS, &room);
    kernel_scratch_close(s->place, &room);
    return done;
}

// Counts all positions in packs. Returns false, and changes nothing, if elements do not form whole packs.
static bool pack(struct scanning *s, int width) {
    struct kernel_layout *l = &s->lines;
    bool fits = s->to_step == 1 && s->from_step == 1 && s->n % width == 0 && s->at % width == 0;
    for (int i = 0; i < l->axes; i++)
        fits = fits && l->stride[0][i] % width == 0 && l->stride[1][i] % width == 0;
    if (!fits)
        return false;
    for (int i = 0; i < l->axes; i++) {
        l->stride[0][i] /= width;
        l->stride[1][i] /= width;
    }
    s->n /= width;
    s->at /= width;
    s->elements /= width;
    s->to_elements /= width;
    return true;
}

// Chooses at least two threads per line, so that they read and write whole sectors of memory.
static void choose_lanes(struct scanning *s) {
    int lanes = MAX_OF(op_kernel_lanes(s->n), 2);
    s->lanes = lanes < KERNEL_THREADS ? MIN_OF(lanes, SUBGROUP) : lanes;
    while (s->packs > 1 && (int64_t)s->lanes * s->packs / 2 >= s->n)
        s->packs /= 2;
}

// A thread has a line of its own if neighbouring lines are contiguous and elements of a line are not, or if
// threads do not run side by side.
static void choose(struct scanning *s) {
    const struct kernel_layout *l = &s->lines;
    bool columns =
             s->from_step != 1 && l->axes && l->stride[1][l->axes - 1] == 1 && l->size >= COLUMN_THREADS,
         alone = columns || s->place->record->group->is_serial;
    int width = PACK_BYTES / (int)zl_dtype_size(s->dtype);
    s->width = !columns && pack(s, width) ? width : 1;
    s->packs = PACKS;
    s->lanes = 1;
    if (!alone)
        choose_lanes(s);
    int64_t least = MAX_OF((alone ? COLUMN_LEAST : PART_LEAST) / s->width, 1),
            parts = MIN_OF(BUSY / MAX_OF(l->size * s->lanes, 1), s->n / least);
    s->parts = MAX_OF(MIN_OF(parts, PARTS_MOST), 1);
    s->each = (s->n + s->parts - 1) / s->parts;
    s->parts = (s->n + s->each - 1) / s->each;
}

// Appends the axes that are not scanned, in the order of the result's memory, which is that of x if x is
// dense.
static void push_lines(struct kernel_layout *l, zl_array y, zl_array x, int axis) {
    int order[64], axes = kernel_layout_order(y, order);
    kernel_layout_begin(l, 2);
    for (int i = 0; i < axes; i++)
        if (order[i] != axis)
            kernel_layout_push(l, x->dim[order[i]],
                               (const int64_t[]){array_stride(y)[order[i]], array_stride(x)[order[i]]});
}

bool kernel_scan(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    int axis = (int)call_args(c)[1];
    struct scanning s = {.place = p,
                         .call = c,
                         .dtype = (zl_dtype)x->dtype,
                         .n = x->dim[axis],
                         .to_step = array_stride(y)[axis],
                         .from_step = array_stride(x)[axis],
                         .to_elements = kernel_elements(y),
                         .elements = kernel_elements(x),
                         .at = x->offset};
    push_lines(&s.lines, y, x, axis);
    choose(&s);
    return s.parts > 1 ? launch_parts(&s) : launch(&s, SCAN_WHOLE, NULL);
}
