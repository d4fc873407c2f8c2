// kernels_scan.c - running sums and their like along an axis.
//
// Along lines that lie behind each other, or by themselves, a group of threads goes in strides of some packs a thread. Where
// another axis is contiguous a thread has a line. Where there are few lines each is cut in parts: what each part gives is
// scanned first, and is where the next begins. 16-bit floats are kept in f32 on the way, and rounded where they are written.

#include "device/kernels/kernels.h"
#include "op/ops.h"

#include <string.h>

enum {
    PACKS = 4, // of a thread, so that 32 sums of 32 threads are there for the whole group
    PACK_BYTES = 16,
    COLUMN_THREADS = 64,
    BUSY = 1 << 17,     // threads that fill a device
    PART_LEAST = 8192,  // elements of a part of a line, for a group
    COLUMN_LEAST = 128, // the same for a thread
    PARTS_MOST = 1024,
};

enum mode { SCAN_WHOLE, SCAN_TOTALS, SCAN_PARTS }; // lines; what parts give; parts, from where they begin

struct recipe {
    int32_t combine, dtype, wide; // op; dtype of elements
    int32_t columns, width, mode, reverse, inclusive;
    char name[8]; // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const enum tile_op ops[] = {TILE_ADD, TILE_MUL, TILE_MAX, TILE_MIN, TILE_LOGADDEXP};

// Of truth values, the largest is their or, the smallest their and.
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

// Text -------------------------------------------------------------------------------------------------------------

static const char beginning[] =
    "#define STEP(to, a, b) \\\n"
    "    { WIDE zl_next; step((PART *)&zl_next, (const PART *)&(a), (const PART *)&(b)); to = zl_next; }\n"
    "FN void take(WIDE *all, ITEM *item) {\n"
    "    WIDE next;\n"
    "    widen((PART *)&next, (const SMALL *)item);\n"
    "    if (!INCLUSIVE)\n"
    "        narrow((SMALL *)item, (const PART *)all);\n"
    "    STEP(*all, *all, next)\n"
    "    if (INCLUSIVE)\n"
    "        narrow((SMALL *)item, (const PART *)all);\n"
    "}\n"
    "#define PLACE(i) (REVERSE ? n - WIDTH - (i) : (i))\n"
    "struct zl_axes { idx dim[8]; idx stride[2][8]; };\n"
    "KERNEL_OF(GROUP_THREADS) zl_kernel(GLOBAL ITEM *y, GLOBAL const ITEM *x, i64 x_at, GLOBAL WIDE *carry, "
    "WIDE start, idx n, idx lines, idx parts, idx each,\n"
    "                 i64 to_step, i64 from_step, AXES s, i32 axes) {\n"
    "    idx number = LINE, part = NUMBER_OF_PART;\n"
    "    GUARD\n"
    "    idx rest = number, begin = part * each, end = n - begin < each ? n : begin + each;\n"
    "    x += x_at;\n"
    "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
    "        idx next = rest / s.dim[axis], at = rest - next * s.dim[axis];\n"
    "        y += (i64)at * s.stride[0][axis];\n"
    "        x += (i64)at * s.stride[1][axis];\n"
    "        rest = next;\n"
    "    }\n"
    "    WIDE all = start;\n"
    "    if (MODE == 2)\n"
    "        all = carry[CARRY];\n";

static const char columns[] = "    UNROLL_4 for (idx i = begin; i < end; i++) {\n"
                              "        ITEM item = x[PLACE(i) * from_step];\n"
                              "        take(&all, &item);\n"
                              "        if (MODE != 1)\n"
                              "            y[PLACE(i) * to_step] = item;\n"
                              "    }\n"
                              "    if (MODE == 1)\n"
                              "        carry[CARRY] = all;\n"
                              "}\n";

// A pack of each of four stretches, so that 8 x 4 sums are one more line of 32.
static const char rows[] =
    "    LOCAL WIDE room[32];\n"
    "    SLOT(WIDE, slot, GROUP_THREADS)\n"
    "    i32 lane = THREAD % 32, team = THREAD / 32;\n"
    "    pack in[4];\n"
    "    WIDE sum[4], sums, run, more, lead;\n"
    "    for (idx at = begin; at < end; at += 4 * GROUP_THREADS * WIDTH) {\n"
    "        UNROLL for (i32 u = 0; u < 4; u++) {\n"
    "            idx i = at + (u * GROUP_THREADS + THREAD) * WIDTH;\n"
    "            if (i < end)\n"
    "                in[u] = LOAD(PLACE(i));\n"
    "        }\n"
    "        UNROLL for (i32 u = 0; u < 4; u++) {\n"
    "            sum[u] = start;\n"
    "            if (at + (u * GROUP_THREADS + THREAD) * WIDTH < end)\n"
    "                UNROLL for (i32 e = 0; e < WIDTH; e++) {\n"
    "                    widen((PART *)&more, (const SMALL *)&in[u].e[REVERSE ? WIDTH - 1 - e : e]);\n"
    "                    STEP(sum[u], sum[u], more)\n"
    "                }\n"
    "            UNROLL for (i32 span = 1; span < 32; span *= 2) {\n"
    "                SHIFT(more, sum[u], span, slot);\n"
    "                if (lane >= span)\n"
    "                    STEP(sum[u], more, sum[u])\n"
    "            }\n"
    "            if (lane == 31)\n"
    "                room[u * 8 + team] = sum[u];\n"
    "        }\n"
    "        BARRIER;\n"
    "        sums = room[lane];\n"
    "        UNROLL for (i32 span = 1; span < 32; span *= 2) {\n"
    "            SHIFT(more, sums, span, slot);\n"
    "            if (lane >= span)\n"
    "                STEP(sums, more, sums)\n"
    "        }\n"
    "        UNROLL for (i32 u = 0; u < 4; u++) {\n"
    "            i32 before = u * 8 + team - 1;\n"
    "            run = all;\n"
    "            FROM(lead, sums, before < 0 ? 0 : before, slot);\n"
    "            SHIFT(more, sum[u], 1, slot);\n"
    "            if (before >= 0)\n"
    "                STEP(run, run, lead)\n"
    "            if (lane > 0)\n"
    "                STEP(run, run, more)\n"
    "            idx i = at + (u * GROUP_THREADS + THREAD) * WIDTH;\n"
    "            if (MODE != 1 && i < end) {\n"
    "                UNROLL for (i32 e = 0; e < WIDTH; e++)\n"
    "                    take(&run, &in[u].e[REVERSE ? WIDTH - 1 - e : e]);\n"
    "                STORE(PLACE(i), in[u])\n"
    "            }\n"
    "        }\n"
    "        FROM(lead, sums, 31, slot);\n"
    "        STEP(all, all, lead)\n"
    "        BARRIER;\n"
    "    }\n"
    "    if (MODE == 1 && THREAD == 0)\n"
    "        carry[CARRY] = all;\n"
    "}\n";

static const char of_columns[] = "#define LINE ((GROUP * THREADS + THREAD) % lines)\n"
                                 "#define NUMBER_OF_PART ((GROUP * THREADS + THREAD) / lines)\n"
                                 "#define GUARD if (part >= parts) return;\n"
                                 "#define CARRY part * lines + number\n";
static const char of_rows[] = "#define LINE (GROUP / parts)\n"
                              "#define NUMBER_OF_PART (GROUP % parts)\n"
                              "#define GUARD\n"
                              "#define CARRY GROUP\n";
static const char of_packs[] = "#define LOAD(at) *(GLOBAL const pack *)(x + (at))\n"
                               "#define STORE(at, value) *(GLOBAL pack *)(y + (at)) = value;\n";
static const char of_elements[] = "#define LOAD(at) *(GLOBAL const pack *)(x + (at) * from_step)\n"
                                  "#define STORE(at, value) y[(at) * to_step] = value.e[0];\n";

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype dtype = (zl_dtype)r->dtype, wide = tile_reduce_gives(dtype);
    kernel_begin(out, w->dialect, r->wide);
    if (!kernel_element(out, tile_row_kernel((enum tile_op)r->combine, wide, "vv"), w->dialect, "step") ||
        !kernel_element(out, tile_cast_kernel(wide, dtype), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(dtype, wide), w->dialect, "narrow"))
        return false;
    text_add(out,
             "#define ITEM %s\n#define SMALL %s\n#define WIDE %s\n#define PART %s\n#define WIDTH %d\n"
             "#define MODE %d\n#define REVERSE %d\n#define INCLUSIVE %d\n#define GROUP_THREADS %d\n"
             "typedef PACK(%s, %d) pack;\n",
             kernel_memory_type(dtype), kernel_part_type(dtype), kernel_memory_type(wide),
             kernel_part_type(wide), r->width, r->mode, r->reverse, r->inclusive,
             r->columns ? COLUMN_THREADS : KERNEL_THREADS, kernel_memory_type(dtype), r->width);
    text_add(out, "%s%s%s%s", r->columns ? of_columns : of_rows, r->width > 1 ? of_packs : of_elements,
             beginning, r->columns ? columns : rows);
    return true;
}

// Running ----------------------------------------------------------------------------------------------------------

struct scanning {
    const struct kernel_place *place;
    struct recipe r;
    struct kernel_layout lines; // the other axes; operands: result, input
    int64_t n, to_step, from_step, parts, each;
    union scalar start; // what no elements give
};

static bool launch(struct scanning *s, void *to, void *from, int64_t offset, void *carry) {
    struct kernel_call k;
    bool wide = s->r.wide;
    kernel_begin_call(&k);
    void *kernel = kernel_find(s->place, &s->r, sizeof s->r, write_text,
                               &(struct writer){&s->r, s->place->target->dialect});
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, offset, true);
    kernel_add_memory(&k, carry);
    kernel_add(&k, &s->start, zl_dtype_size(tile_reduce_gives((zl_dtype)s->r.dtype)));
    kernel_add_int(&k, s->n, wide);
    kernel_add_int(&k, s->lines.size, wide);
    kernel_add_int(&k, s->parts, wide);
    kernel_add_int(&k, s->each, wide);
    kernel_add_int(&k, s->to_step, true);
    kernel_add_int(&k, s->from_step, true);
    kernel_add_axes(&k, &s->lines, 3, wide);
    kernel_add_int(&k, s->lines.axes, false);
    int64_t all = s->lines.size * s->parts;
    int threads = s->r.columns ? COLUMN_THREADS : KERNEL_THREADS;
    return kernel &&
           kernel_launch_by(s->place, kernel,
                            s->r.columns ? (all + COLUMN_THREADS - 1) / COLUMN_THREADS : all, threads, &k);
}

// What no elements give; of an extreme, the number furthest from it.
static void set_start(struct scanning *s, enum scan which, zl_dtype dtype) {
    static const double numbers[] = {0, 1, -1.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0};
    double number = dtype == ZL_BOOL && which == SCAN_MAX ? 0 : numbers[which];
    dtype_convert(&s->start, tile_reduce_gives(dtype), &number, ZL_FLOAT64, 1);
    if (dtype == ZL_COMPLEX64 && (which == SCAN_MAX || which == SCAN_MIN))
        memcpy((char *)&s->start + 4, &s->start, 4); // of both parts
}

// The totals of parts lie behind each other by rows, and beside those of other lines by columns; scanned in place, they are
// where the parts begin.
static bool launch_parts(struct scanning *s, void *to, void *from, int64_t offset) {
    const struct device *d = s->place->target->device;
    struct scanning join = *s;
    zl_dtype kept = tile_reduce_gives((zl_dtype)s->r.dtype);
    int64_t lines = s->lines.size, line_step = s->r.columns ? 1 : s->parts;
    size_t capacity;
    void *room = device_alloc(d, s->place->unit, s->place->lane,
                              (size_t)(lines * s->parts) * zl_dtype_size(kept), &capacity);
    if (!room)
        return false;
    join.r.dtype = (int32_t)kept;
    join.r.width = 1;
    join.r.reverse = join.r.inclusive = 0;
    join.n = join.each = s->parts;
    join.parts = 1;
    join.to_step = join.from_step = s->r.columns ? lines : 1;
    layout_begin(&join.lines, 2);
    layout_push(&join.lines, lines, (const int64_t[]){line_step, line_step});
    s->r.mode = SCAN_TOTALS;
    bool done = launch(s, to, from, offset, room) && launch(&join, room, room, 0, room);
    s->r.mode = SCAN_PARTS;
    done = done && launch(s, to, from, offset, room);
    device_free(d, s->place->unit, s->place->lane, room,
                capacity); // who gets it comes later in the lane's order
    return done;
}

static int width_of(const struct scanning *s, int64_t offset) {
    int width = PACK_BYTES / (int)zl_dtype_size((zl_dtype)s->r.dtype);
    bool fits = s->to_step == 1 && s->from_step == 1 && s->n % width == 0 && offset % width == 0;
    for (int i = 0; i < s->lines.axes; i++)
        fits = fits && s->lines.stride[0][i] % width == 0 && s->lines.stride[1][i] % width == 0;
    return fits ? width : 1;
}

static void choose(struct scanning *s, int64_t offset) {
    const struct kernel_layout *l = &s->lines;
    s->r.columns =
        s->from_step != 1 && l->axes && l->stride[1][l->axes - 1] == 1 && l->size >= COLUMN_THREADS;
    s->r.width = s->r.columns ? 1 : width_of(s, offset);
    int64_t threads = l->size * (s->r.columns ? 1 : KERNEL_THREADS);
    int64_t parts = MIN_OF(BUSY / MAX_OF(threads, 1), s->n / (s->r.columns ? COLUMN_LEAST : PART_LEAST));
    s->parts = MAX_OF(MIN_OF(parts, PARTS_MOST), 1);
    s->each = (s->n + s->parts - 1) / s->parts;
    s->each = (s->each + s->r.width - 1) / s->r.width * s->r.width;
    s->parts = (s->n + s->each - 1) / s->each;
    s->r.wide = layout_is_wide(l) || l->size * s->n > INT32_MAX / 2;
}

// The axes that are not scanned, in the order of the result's memory: that of x, if it lies without gaps.
static void push_lines(struct kernel_layout *l, zl_array y, zl_array x, int axis) {
    int order[64], axes = layout_order(y, order);
    layout_begin(l, 2);
    for (int i = 0; i < axes; i++)
        if (order[i] != axis)
            layout_push(l, x->dim[order[i]],
                        (const int64_t[]){array_stride(y)[order[i]], array_stride(x)[order[i]]});
}

bool kernel_scan(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    const int64_t *arg = call_args(c);
    int axis = (int)arg[1];
    struct scanning s = {.place = p,
                         .r = {.combine = (int32_t)op_of(c),
                               .dtype = x->dtype,
                               .reverse = arg[2] != 0,
                               .inclusive = arg[3] != 0,
                               .name = "scan"},
                         .n = x->dim[axis],
                         .to_step = array_stride(y)[axis],
                         .from_step = array_stride(x)[axis]};
    push_lines(&s.lines, y, x, axis);
    if (s.lines.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES, array_text(x));
    set_start(&s, (enum scan)arg[0], (zl_dtype)x->dtype);
    choose(&s, x->offset);
    void *to = kernel_reach(p, y), *from = kernel_reach(p, x);
    return to && from &&
           (s.parts > 1 ? launch_parts(&s, to, from, x->offset) : launch(&s, to, from, x->offset, to));
}
