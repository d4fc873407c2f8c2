// kernels_reduce.c - reductions over any axes of any layout.
//
// By rows where the reduced elements lie closer together: a group of threads for each result. By columns where the kept
// ones do: a thread for each. Where there are few results each is computed in parts, which the same kernel joins. What lies
// in whole packs of 16 bytes is read by them. Half floats are accumulated in f32.

#include "device/kernels/kernels.h"

#include <stdlib.h>

enum {
    EACH = 16,                // elements of a thread in a part, at least
    PARTS_MOST = 1024,        // of one result
    INVARIANT_PART = 1 << 16, // elements of a part where that may not depend on the number of results
    BUSY = 1 << 18,           // threads that fill a device
    PACK_BYTES = 16,
    PACK_LEAST = 4096, // elements from which packs are read
};

struct recipe {
    int32_t combine, from, to;         // dtypes of what is read and what is written
    int32_t rows, wide, width, single; // width: elements of a pack; single: one axis is reduced
    char name[8];                      // no other kernel has such a key
};

struct writer {
    const struct recipe *r;
    const char *dialect;
};

bool kernel_can_reduce(const struct call *c) {
    zl_dtype dtype = (zl_dtype)c->in[0]->dtype;
    uint64_t identity;
    return dtype == ZL_BOOL || tile_identity(c->op->row, tile_type_of(tile_reduce_gives(dtype)), &identity);
}

// Text -------------------------------------------------------------------------------------------------------------

static void add_sum(struct text *out, zl_dtype wide, const char *from, const char *more) {
    const char *type = kernel_part_type(wide);
    text_add(out, "        { %s next; step((%s *)&next, (const %s *)&%s, (const %s *)&%s); %s = next; }\n",
             kernel_memory_type(wide), type, type, from, type, more, from);
}

static const char position[] =
    "struct zl_axes { idx dim[8]; idx stride[1][8]; };\n"
    "#define POSITION(to, s, axes, number) \\\n"
    "    if (axes == 1) { \\\n"
    "        to = (idx)(number) * s.stride[0][0]; \\\n"
    "    } else { \\\n"
    "        uidx rest = (uidx)(number); \\\n"
    "        to = 0; \\\n"
    "        for (i32 axis = axes - 1; axis >= 0; axis--) { \\\n"
    "            uidx after = rest / (uidx)s.dim[axis]; \\\n"
    "            to += (idx)(rest - after * (uidx)s.dim[axis]) * s.stride[0][axis]; \\\n"
    "            rest = after; \\\n"
    "        } \\\n"
    "    }\n\n";

static const char signature[] =
    "KERNEL zl_kernel(GLOBAL %s *y, GLOBAL const %s *x, i64 offset, idx results, idx count, "
    "idx parts, idx each, AXES kept, i32 kept_axes, AXES reduced, i32 reduced_axes) {\n";

static void add_identity(struct text *out, const struct recipe *r, zl_dtype wide, const char *name) {
    uint64_t identity = 0;
    tile_identity((enum tile_op)r->combine, tile_type_of(wide), &identity);
    text_add(out, "    %s %s = ", kernel_memory_type(wide), name);
    kernel_constant(out, wide, identity);
    text_add(out, ";\n");
}

// The elements of a part, from `first` on by `by`; sum: the variable, or that of an element of the pack, as is `in`.
static void add_loop(struct text *out, const struct recipe *r, zl_dtype wide, const char *first,
                     const char *by, const char *sum) {
    zl_dtype from = (zl_dtype)r->from;
    text_add(out,
             "    idx base;\n    POSITION(base, kept, kept_axes, result)\n    x += offset + base;\n"
             "    idx end = (part + 1) * each < count ? (part + 1) * each : count;\n"
             "    UNROLL_4 for (idx i = part * each + %s; i < end; i += %s) {\n"
             "        idx at;\n        %s\n"
             "        pack in = *(GLOBAL const pack *)(x + at);\n"
             "        UNROLL for (i32 e = 0; e < WIDTH; e++) {\n"
             "        %s value;\n        widen((%s *)&value, (const %s *)&in.e[e]);\n",
             first, by,
             r->single ? "at = i * reduced.stride[0][0];" : "POSITION(at, reduced, reduced_axes, i)",
             kernel_memory_type(wide), kernel_part_type(wide), kernel_part_type(from));
    add_sum(out, wide, sum, "value");
    text_add(out, "        }\n    }\n");
}

static void add_store(struct text *out, const struct recipe *r, zl_dtype wide, const char *sum,
                      const char *at) {
    zl_dtype to = (zl_dtype)r->to;
    text_add(
        out,
        "    %s all = %s;\n    %s last;\n    narrow((%s *)&last, (const %s *)&all);\n    y[%s] = last;\n",
        kernel_memory_type(wide), sum, kernel_memory_type(to), kernel_part_type(to), kernel_part_type(wide),
        at);
}

static void add_rows(struct text *out, const struct recipe *r, zl_dtype wide) {
    text_add(out, "    LOCAL %s room[%d];\n    idx result = GROUP / parts, part = GROUP %% parts;\n",
             kernel_memory_type(wide), KERNEL_THREADS);
    add_identity(out, r, wide, "sum");
    add_loop(out, r, wide, "THREAD * WIDTH", "THREADS * WIDTH", "sum");
    text_add(out,
             "    room[THREAD] = sum;\n    BARRIER;\n"
             "    for (i32 span = THREADS / 2; span > 0; span /= 2) {\n        if (THREAD < span) {\n"
             "        %s more = room[THREAD + span];\n",
             kernel_memory_type(wide));
    add_sum(out, wide, "sum", "more");
    text_add(out, "        room[THREAD] = sum;\n        }\n        BARRIER;\n    }\n    if (THREAD > 0)\n    "
                  "    return;\n");
    add_store(out, r, wide, "sum", "result * parts + part");
    text_add(out, "}\n");
}

// A thread has a pack of neighbouring results.
static void add_columns(struct text *out, const struct recipe *r, zl_dtype wide) {
    text_add(out, "    idx number = (GROUP * THREADS + THREAD) * WIDTH;\n    if (number >= results * parts)\n"
                  "        return;\n    idx result = number %% results, part = number / results;\n");
    add_identity(out, r, wide, "none");
    text_add(out, "    %s sum[WIDTH];\n    UNROLL for (i32 e = 0; e < WIDTH; e++)\n        sum[e] = none;\n",
             kernel_memory_type(wide));
    add_loop(out, r, wide, "0", "1", "sum[e]");
    text_add(out, "    UNROLL for (i32 e = 0; e < WIDTH; e++) {\n");
    add_store(out, r, wide, "sum[e]", "number + e");
    text_add(out, "    }\n}\n");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    zl_dtype from = (zl_dtype)r->from, to = (zl_dtype)r->to, wide = tile_reduce_gives(from);
    kernel_begin(out, w->dialect, r->wide);
    if (!kernel_element(out, tile_row_kernel((enum tile_op)r->combine, wide, "vv"), w->dialect, "step") ||
        !kernel_element(out, tile_cast_kernel(wide, from), w->dialect, "widen") ||
        !kernel_element(out, tile_cast_kernel(to, wide), w->dialect, "narrow"))
        return false;
    text_add(out, "#define WIDTH %d\ntypedef PACK(%s, WIDTH) pack;\n%s", r->width, kernel_memory_type(from),
             position);
    text_add(out, signature, kernel_memory_type(to), kernel_memory_type(from));
    if (r->rows)
        add_rows(out, r, wide);
    else
        add_columns(out, r, wide);
    return true;
}

// Running ----------------------------------------------------------------------------------------------------------

struct reduction {
    const struct kernel_place *place;
    struct recipe r;
    struct kernel_layout kept, reduced;
    int64_t results, count, parts, each;
};

// Largest strides first, so that neighbours in the order of reduction are neighbours in memory.
static void push_sorted(struct kernel_layout *l, int axes, int64_t *dim, int64_t *stride) {
    for (int left = axes; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < left; i++)
            if (llabs(stride[i]) > llabs(stride[largest]))
                largest = i;
        layout_push(l, dim[largest], &stride[largest]);
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
    layout_begin(&r->kept, 1);
    layout_begin(&r->reduced, 1);
    for (int i = 0; i < x->ndim; i++)
        if (!is_reduced(c, i))
            layout_push(&r->kept, x->dim[i], &array_stride(x)[i]);
        else if (x->dim[i] != 1) {
            dim[axes] = x->dim[i];
            stride[axes++] = array_stride(x)[i];
        }
    push_sorted(&r->reduced, axes, dim, stride);
    r->results = r->kept.size;
    r->count = r->reduced.size;
}

static int64_t inner_stride(const struct kernel_layout *l) {
    return l->axes ? llabs(l->stride[0][l->axes - 1]) : INT64_MAX;
}

// Elements of a pack: along the only reduced axis by rows, the only kept one by columns.
static int width_of(const struct reduction *r, int64_t offset) {
    const struct kernel_layout *along = r->r.rows ? &r->reduced : &r->kept,
                               *across = r->r.rows ? &r->kept : &r->reduced;
    int width = PACK_BYTES / (int)zl_dtype_size((zl_dtype)r->r.from);
    bool fits =
        along->axes == 1 && along->stride[0][0] == 1 && along->size % width == 0 && offset % width == 0;
    for (int i = 0; i < across->axes; i++)
        fits = fits && across->stride[0][i] % width == 0;
    return fits && (r->results * r->count >= PACK_LEAST || device_batch_invariant()) ? width : 1;
}

// Few results are cut into parts, so that all of the device has something to do. Where no result may depend on the number of
// others, long ones are.
static void choose(struct reduction *r, int64_t offset) {
    const bool invariant = device_batch_invariant();
    r->r.rows = inner_stride(&r->reduced) < inner_stride(&r->kept) &&
                (r->count >= 32 || (r->results < KERNEL_THREADS && !invariant));
    r->r.width = width_of(r, offset);
    int64_t threads = r->r.rows ? r->results * KERNEL_THREADS : r->results / r->r.width,
            least = r->r.rows ? EACH * KERNEL_THREADS : EACH;
    int64_t parts = MIN_OF(MIN_OF(BUSY / MAX_OF(threads, 1), r->count / least), PARTS_MOST);
    if (invariant)
        parts = MIN_OF(r->count / INVARIANT_PART, PARTS_MOST);
    r->parts = MAX_OF(parts, 1);
    r->each = (r->count + r->parts - 1) / r->parts;
    if (r->r.rows)
        r->each = (r->each + r->r.width - 1) / r->r.width * r->r.width;
    r->parts = r->each ? (r->count + r->each - 1) / r->each : 1;
    r->r.wide =
        layout_is_wide(&r->kept) || layout_is_wide(&r->reduced) || r->results * r->parts > INT32_MAX / 2;
}

static bool launch(struct reduction *r, void *to, void *from, int64_t offset) {
    struct writer w = {&r->r, r->place->target->dialect};
    struct kernel_call k;
    kernel_begin_call(&k);
    bool wide = r->r.wide;
    r->r.single = r->reduced.axes <= 1;
    void *kernel = kernel_find(r->place, &r->r, sizeof r->r, write_text, &w);
    kernel_add_memory(&k, to);
    kernel_add_memory(&k, from);
    kernel_add_int(&k, offset, true);
    kernel_add_int(&k, r->results, wide);
    kernel_add_int(&k, r->count, wide);
    kernel_add_int(&k, r->parts, wide);
    kernel_add_int(&k, r->each, wide);
    kernel_add_axes(&k, &r->kept, 1, wide);
    kernel_add_int(&k, r->kept.axes, false);
    kernel_add_axes(&k, &r->reduced, 1, wide);
    kernel_add_int(&k, r->reduced.axes, false);
    int64_t all = r->results * r->parts, each = KERNEL_THREADS * r->r.width;
    return kernel && kernel_launch(r->place, kernel, r->r.rows ? all : (all + each - 1) / each, &k);
}

// The parts of a result lie behind each other by rows, and beside those of the others by columns.
static bool launch_parts(struct reduction *r, void *to, void *from, int64_t offset) {
    const struct device *d = r->place->target->device;
    struct reduction join = *r;
    zl_dtype wide = tile_reduce_gives((zl_dtype)r->r.from);
    size_t capacity;
    void *room = device_alloc(d, r->place->unit, r->place->lane,
                              (size_t)(r->results * r->parts) * zl_dtype_size(wide), &capacity);
    if (!room)
        return false;
    r->r.to = (int32_t)wide;
    join.r.from = (int32_t)wide;
    join.count = join.each = r->parts;
    join.parts = 1;
    join.r.width = 1;
    layout_begin(&join.kept, 1);
    layout_begin(&join.reduced, 1);
    layout_push(&join.kept, r->results, &(int64_t){r->r.rows ? r->parts : 1});
    layout_push(&join.reduced, r->parts, &(int64_t){r->r.rows ? 1 : r->results});
    bool done = launch(r, room, from, offset) && launch(&join, to, room, 0);
    device_free(d, r->place->unit, r->place->lane, room,
                capacity); // who gets it comes later in the lane's order
    return done;
}

bool kernel_reduce(const struct kernel_place *p, const struct call *c) {
    zl_array x = c->in[0], y = call_first(c);
    struct reduction r = {.place = p,
                          .r = {(int32_t)fuse_combines(c), x->dtype, y->dtype, 0, 0, 1, 0, "reduce"}};
    void *to = kernel_reach(p, y), *from = x->size && !array_is(x, ARRAY_INLINE) ? kernel_reach(p, x) : to;
    if (!to || !from)
        return false;
    split_axes(&r, c, x);
    choose(&r, x->offset);
    if (r.kept.axes > KERNEL_AXES || r.reduced.axes > KERNEL_AXES)
        return error_false(ZL_ERROR_DEVICE,
                           "%s: more than %d axes of shape %s that cannot be joined: use zl_contiguous first",
                           c->op->name, KERNEL_AXES, array_text(x));
    return r.parts > 1 ? launch_parts(&r, to, from, x->offset) : launch(&r, to, from, x->offset);
}
