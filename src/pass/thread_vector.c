// thread_vector.c - copies with the widest accesses: between two buffers in memory, and between memory and
// registers with adjacent elements. Conditions that are not known before a call, such as whether rows are of
// whole vectors, are tested once per workgroup.

#include "pass/threads.h"

// One side of a copy.
struct side {
    struct tile_region region; // with the buffer that the thread accesses
    expr origin[TILE_DIMS];
};

struct vectors {
    struct group *g;
    const struct tile_stmt *stmt;
    struct side side[2];
    int64_t run;   // elements of one access
    expr test;     // the condition for vector accesses; NULL: they are always possible
    bool is_whole; // all elements are in their buffers
};

static void require_multiple(struct vectors *v, expr e) {
    if (e && pass_divisor(e) % v->run)
        v->test = box_both(v->test, EQ(REM(box_index(e), box_number(v->run)), box_number(0)));
}

// Returns whether a side can be accessed by vectors, and adds what is not known to the test. Vectors begin at
// multiples of their size along the last axis, so that each is inside or outside of the buffer as a whole.
static bool fits(struct vectors *v, int which) {
    const struct tile_region *r = &v->side[which].region;
    int last = r->buffer->ndim - 1;
    if (last < 0 || tile_type_is_complex(r->buffer->type) || tile_type_is_bool(r->buffer->type) ||
        r->buffer->memory == TILE_TABLE)
        return false;
    for (int i = 0; r->buffer->stride && i <= last; i++) {
        int64_t stride = pass_number(r->buffer->stride[i]); // negative: unknown
        if (i == last ? stride != 1 : stride >= 0 && stride % v->run)
            return false;
        if (i < last && stride < 0)
            require_multiple(v, r->buffer->stride[i]);
    }
    require_multiple(v, r->buffer->shape[last]);
    if (r->origin)
        require_multiple(v, r->origin[last]);
    return true;
}

static bool is_in_registers(const struct vectors *v, int which) {
    const struct tile_buffer *b = v->stmt->region[which].buffer;
    return b->id < v->g->buffers && v->g->of[b->id].how >= HELD_IN_REGISTERS;
}

// Code ------------------------------------------------------------------------------------------------------

static struct tile_stmt *one_access(struct vectors *v, const struct tile_region *from,
                                    const struct tile_region *to, bool is_async) {
    return tile_append((struct tile_stmt){.kind = TILE_COPY,
                                          .loop = TILE_VECTOR,
                                          .region = {*from, *to},
                                          .is_async = is_async,
                                          .is_once = v->stmt->is_once,
                                          .token = is_async ? v->stmt->token : 0,
                                          .place = v->stmt->place});
}

struct tile_region thread_run_at(const struct tile_buffer *b, expr *index, expr *extent, int64_t run) {
    for (int i = 0; i < b->ndim; i++)
        extent[i] = box_number(i == b->ndim - 1 ? run : 1);
    return (struct tile_region){b, index, extent};
}

// Copies a run. Elements outside of the source are 0.
static void copy_run(struct vectors *v, struct points *p) {
    struct tile_region run[2];
    expr at[2][TILE_DIMS], extent[2][TILE_DIMS], inside[2];
    for (int i = 0; i < 2; i++) {
        const struct tile_region *r = &v->side[i].region;
        thread_place(&p->sweep, i, r, p->point, at[i]);
        inside[i] = v->is_whole ? NULL : box_holds(r, at[i]);
        run[i] = thread_run_at(r->buffer, at[i], extent[i], v->run);
    }
    enum tile_memory from = run[0].buffer->memory;
    bool is_async = v->stmt->is_async && v->g->target->group->has_async &&
                    run[1].buffer->memory == TILE_SHARED && (from == TILE_GLOBAL || from == TILE_CONSTANT);
    box_open_if(inside[1]);
    box_open_if(inside[0]);
    one_access(v, &run[0], &run[1], is_async);
    if (inside[0]) {
        tile_else();
        tile_append((struct tile_stmt){.kind = TILE_FILL,
                                       .loop = TILE_VECTOR,
                                       .region = {[1] = run[1]},
                                       .value = tile_const_int(run[1].buffer->type, 0)});
        tile_close();
    }
    box_close_if(inside[1]);
}

static void copy_runs(struct vectors *v) {
    struct sweep w = fragments_sweep(v->g, v->stmt);
    struct points p;
    int last = w.vars - 1;
    w.extent[last] = box_number(pass_number(w.extent[last]) / v->run);
    if (thread_open_points(v->g, &p, &w)) {
        p.point[last] = MUL(p.point[last], box_number(v->run));
        copy_run(v, &p);
    }
    thread_close_points(&p);
}

const struct tile_buffer *thread_run_registers(struct tile_type type, int64_t count, int bytes) {
    expr size = box_number(count);
    struct tile_buffer *run = box_alloc("run", type, TILE_REGISTER, 1, &size);
    if (run)
        run->align = bytes;
    return run;
}

void thread_access(const struct tile_region *from, const struct tile_region *to, bool is_once) {
    tile_append((struct tile_stmt){
        .kind = TILE_COPY, .loop = TILE_VECTOR, .region = {*from, *to}, .is_once = is_once});
}

// Copies between memory and adjacent elements in registers, through a small buffer of the thread. SPIR-V has
// no views of registers, so there the registers of the tile are accessed directly if they have the type of
// the memory.
static void copy_registers(struct vectors *v, int held) {
    struct sweep w = fragments_sweep(v->g, v->stmt);
    const struct tile_region *memory = &v->side[!held].region;
    struct tile_type type = memory->buffer->type, own = v->stmt->region[held].buffer->type;
    struct points p;
    struct layout whole = w.layout;
    w.layout.slot[0].size = 1;
    if (!thread_open_points(v->g, &p, &w))
        return;
    int to[TILE_DIMS];
    thread_axes(&w, held, v->stmt->region[held].buffer, to);
    const struct tile_buffer *tile = v->g->of[v->stmt->region[held].buffer->id].now;
    bool is_direct = v->g->target->spirv && tile_type_equal(type, own);
    expr zero = box_number(0), at[TILE_DIMS], extent[TILE_DIMS], run_extent[2], first[2] = {zero, zero};
    const struct tile_buffer *run =
        is_direct ? tile : thread_run_registers(type, v->run, (int)v->run * tile_type_bytes(type));
    thread_place(&w, !held, memory, p.point, at);
    expr inside = v->is_whole ? NULL : box_holds(memory, at);
    struct tile_region there = thread_run_at(memory->buffer, at, extent, v->run);
    if (!run)
        return;
    if (is_direct) {
        struct points whole_points = p;
        whole_points.sweep.layout = whole;
        whole_points.digit[0] = thread_number(0);
        first[1] = box_index(thread_slot(&whole_points, v->stmt->region[held].buffer, to));
    }
    struct tile_region here = thread_run_at(run, first, run_extent, v->run);
    if (held == 1 && inside) { // elements outside are 0
        tile_append((struct tile_stmt){.kind = TILE_FILL,
                                       .loop = TILE_VECTOR,
                                       .region = {[1] = here},
                                       .value = tile_const_int(type, 0)});
        tile_open_if(inside);
        one_access(v, &there, &here, false);
        tile_close();
    } else if (held == 1)
        one_access(v, &there, &here, false);
    p.sweep.layout = whole;
    for (int k = 0; k < v->run && !is_direct; k++) {
        p.digit[0] = thread_number(k);
        expr in_run = box_number(k),
             in_tile[2] = {zero, box_index(thread_slot(&p, v->stmt->region[held].buffer, to))};
        if (held == 0)
            tile_store(run, 1, &in_run, tile_cast(type, tile_load(tile, 2, in_tile, NULL, NULL)), NULL);
        else
            tile_store(tile, 2, in_tile, tile_cast(own, tile_load(run, 1, &in_run, NULL, NULL)), NULL);
    }
    if (held == 0) {
        inside = box_both(p.first, inside);
        box_open_if(inside);
        struct tile_stmt *store = one_access(v, &here, &there, false);
        if (store)
            store->is_rounded = own.bits > type.bits;
        box_close_if(inside);
    }
    thread_close_points(&p);
}

// Deciding --------------------------------------------------------------------------------------------------

// Returns whether the last axis of the rectangle is that of the buffer.
static bool is_last_pair(const struct vectors *v, const struct box *b, int which) {
    int last = v->stmt->region[which].buffer->ndim - 1;
    return last >= 0 && b->pair[which][last] == b->axes - 1;
}

static bool plan_memory(struct vectors *v) {
    const struct tile_region *from = &v->stmt->region[0], *to = &v->stmt->region[1];
    struct box b = box_of(from, to);
    int bytes = tile_type_bytes(from->buffer->type);
    if (!b.axes || !is_last_pair(v, &b, 0) || !is_last_pair(v, &b, 1) ||
        !tile_type_equal(from->buffer->type, to->buffer->type))
        return false;
    for (int i = 0; i < b.axes; i++)
        if (pass_number(b.size[i]) <= 0)
            return false;
    for (v->run = v->g->target->group->vector_bytes / bytes; v->run > 1; v->run /= 2)
        if (pass_number(b.size[b.axes - 1]) % v->run == 0)
            break;
    return v->run > 1 && v->run * bytes >= 4 && fits(v, 0) && fits(v, 1);
}

static bool plan_registers(struct vectors *v, int held) {
    struct sweep w = fragments_sweep(v->g, v->stmt);
    const struct layout_digit *d = &w.layout.slot[0];
    if (!w.has_layout || !w.layout.slots || d->axis != w.vars - 1 || d->step != 1 ||
        w.pair[!held][v->side[!held].region.buffer->ndim - 1] != w.vars - 1)
        return false;
    for (int i = 0; i < w.vars; i++) // only whole tiles, which need no guards
        if (pass_number(w.extent[i]) != w.covered[i])
            return false;
    v->run = d->size;
    int bytes = tile_type_bytes(v->side[!held].region.buffer->type) * (int)v->run;
    return (bytes == 4 || bytes == 8 || bytes == 16) && bytes <= v->g->target->group->vector_bytes &&
           fits(v, !held);
}

// Returns a test, made once per workgroup, whether both rectangles are in their buffers: with a guard for
// each access, several accesses could not be under way together. NULL: the answer is known, a thread has one
// access, or copies are asynchronous.
static expr whole_test(const struct vectors *v) {
    const struct target_group *group = v->g->target->group;
    struct box b = box_of(&v->stmt->region[0], &v->stmt->region[1]);
    expr test = NULL;
    int64_t accesses = pass_product(b.axes, b.size) / v->run / v->g->threads; // per thread
    for (int i = 0; i < 2 && accesses > 1 && !group->has_async && !group->is_serial; i++) {
        b.paired[i] = &v->side[i].region;
        test = is_in_registers(v, i) ? test : box_both(test, box_inside(&v->side[i].region, &b));
    }
    return test;
}

static void copy(struct vectors *v, const bool *held) {
    if (held[0] || held[1])
        copy_registers(v, held[1]);
    else
        copy_runs(v);
}

bool thread_vector_copy(struct group *g, const struct tile_stmt *s,
                        void (*otherwise)(struct group *g, const struct tile_stmt *s)) {
    struct vectors v = {.g = g, .stmt = s};
    for (int i = 0; i < 2; i++)
        v.side[i].region = thread_region(g, &s->region[i], v.side[i].origin);
    bool held[2] = {is_in_registers(&v, 0), is_in_registers(&v, 1)};
    bool is_zero = !s->value || (s->value->op == TILE_CONST && !s->value->bits); // outside
    bool good = !is_zero             ? false
                : held[0] != held[1] ? plan_registers(&v, held[1])
                                     : !held[0] && plan_memory(&v);
    if (!good || g->flat || !tile_current() || tile_current()->failed)
        return false;
    box_open_if(v.test);
    expr whole = whole_test(&v);
    if (whole) {
        v.is_whole = true;
        tile_open_if(whole);
        copy(&v, held);
        tile_else();
        v.is_whole = false;
    }
    copy(&v, held);
    box_close_if(whole);
    if (v.test) {
        tile_else();
        otherwise(g, s);
        tile_close();
    }
    return true;
}
