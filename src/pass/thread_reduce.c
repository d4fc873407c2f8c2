// thread_reduce.c - reductions and scans by the threads of a group.
//
// Each thread combines the elements that it holds, or every n-th of a line; then the threads that share a result exchange what
// they have: in a subgroup by shuffles, else through shared memory. Every one of them has the result afterwards.

#include "pass/threads.h"

static expr identity_of(const struct tile_stmt *s, struct tile_type type) {
    uint64_t bits;
    return tile_identity(s->combine, type, &bits) ? tile_const_bits(type, bits) : NULL;
}

static const struct tile_name *counter(int64_t size) {
    return box_variable(box_number(size));
}

// Between threads -----------------------------------------------------------------------------------------------------------

// Partial results of all threads, one list of registers each.
struct partial {
    struct group *g;
    enum tile_op combine;
    const struct tile_buffer *part; // [1, count]
    int64_t count;
    const struct layout *layout; // whose digits along the axis differ in what they have
    int axis;
};

static int below(const struct layout *l, int at) {
    int size = 1;
    for (int i = 0; i < at; i++)
        size *= l->thread[i].size;
    return size;
}

static bool is_power(int n) {
    return (n & (n - 1)) == 0;
}

static bool is_in_subgroup(const struct partial *p, int at) {
    int low = below(p->layout, at), size = p->layout->thread[at].size, most = p->g->target->group->subgroup;
    return is_power(low) && is_power(size) && low * size <= most;
}

static void shuffle(const struct partial *p, int distance) {
    expr r = thread_unrolled(p->count), mine = thread_load(p->part, r);
    thread_store(p->part, r,
                 tile_binary(p->combine, mine, tile_binary(TILE_SHUFFLE, mine, thread_number(distance))));
    tile_close();
}

// Adds what the threads have that differ in the digits from `at` on and not in a subgroup; where: of the thread itself with these
// digits 0.
static void take_others(const struct partial *p, int at, const struct tile_buffer *scratch, expr where,
                        bool is_first) {
    while (at < p->layout->threads && (p->layout->thread[at].axis != p->axis || is_in_subgroup(p, at)))
        at++;
    if (at == p->layout->threads) {
        expr r = thread_unrolled(p->count);
        expr from = tile_binary(TILE_ADD, tile_binary(TILE_MUL, box_index(where), box_number(p->count)), r);
        expr theirs = thread_load(scratch, from);
        thread_store(p->part, r, is_first ? theirs : tile_binary(p->combine, thread_load(p->part, r), theirs));
        tile_close();
        return;
    }
    const struct tile_name *d = counter(p->layout->thread[at].size);
    tile_open_for(d, NULL, box_number(p->layout->thread[at].size), NULL, TILE_SERIAL);
    expr offset = tile_binary(TILE_MUL, tile_cast(p->g->thread->type, box_point(d)),
                              thread_number(below(p->layout, at)));
    take_others(p, at + 1, scratch, tile_binary(TILE_ADD, where, offset), is_first);
    tile_close();
}

static void start(const struct tile_buffer *part, int64_t count, expr value) {
    expr r = thread_unrolled(count);
    thread_store(part, r, value);
    tile_close();
}

static void exchange(const struct partial *p, expr identity) {
    expr mine = p->g->thread;
    bool is_done = true;
    for (int i = 0; i < p->layout->threads; i++) {
        int size = p->layout->thread[i].size, low = below(p->layout, i);
        if (p->layout->thread[i].axis != p->axis)
            continue;
        if (is_in_subgroup(p, i)) {
            for (int distance = 1; distance < size; distance *= 2)
                shuffle(p, low * distance);
            continue;
        }
        expr digit = layout_thread_digit(p->layout, i, p->g->thread);
        mine = tile_binary(TILE_SUB, mine, tile_binary(TILE_MUL, digit, thread_number(low)));
        is_done = false;
    }
    if (is_done)
        return;
    struct tile_buffer *scratch = thread_registers("scratch", p->part->type, TILE_SHARED, p->g->threads * p->count);
    thread_barrier();
    expr r = thread_unrolled(p->count);
    expr at = tile_binary(TILE_ADD, tile_binary(TILE_MUL, box_index(p->g->thread), box_number(p->count)), r);
    thread_store(scratch, at, thread_load(p->part, r));
    tile_close();
    thread_barrier();
    start(p->part, p->count, identity);
    take_others(p, 0, scratch, mine, false);
}

// Tiles in registers --------------------------------------------------------------------------------------------------------

static bool is_in_registers(const struct group *g, const struct tile_buffer *b) {
    return b->id < g->buffers && g->of[b->id].how == HELD_IN_REGISTERS;
}

// Results by their axes in the destination, whose axis of the line may be there with size 1.
static void put_tile(struct group *g, const struct tile_stmt *s, const struct layout *l,
                     const struct tile_buffer *part) {
    const struct tile_region *to = &s->region[1];
    int axes = s->region[0].buffer->ndim, less = axes - to->buffer->ndim;
    expr digit[LAYOUT_DIGITS], at[TILE_DIMS], origin[TILE_DIMS], slot = NULL;
    int weight = 1;
    for (int i = l->slots - 1; i >= 0; i--)
        digit[i] = thread_unrolled(l->slot[i].size);
    for (int i = 0; i < l->slots; i++) {
        expr part_of = tile_binary(TILE_MUL, digit[i], box_number(weight));
        slot = slot ? tile_binary(TILE_ADD, slot, part_of) : part_of;
        weight *= l->slot[i].size;
        digit[i] = tile_cast(g->thread->type, digit[i]);
    }
    slot = slot ? slot : box_number(0);
    expr value = thread_load(part, slot);
    if (is_in_registers(g, to->buffer)) {
        const struct tile_buffer *now = g->of[to->buffer->id].now;
        thread_store(now, slot, s->clear ? value : tile_binary(s->combine, thread_load(now, slot), value));
    } else {
        struct tile_region here = thread_region(g, to, origin);
        for (int i = 0; i < to->buffer->ndim; i++) {
            int axis = i + (less && i >= s->axis);
            expr point = !less && i == s->axis ? thread_number(0) : layout_index(l, axis, g->thread, digit);
            at[i] = here.origin ? tile_binary(TILE_ADD, here.origin[i], box_index(point)) : box_index(point);
        }
        expr inside = box_both(layout_first(l, g->thread), box_holds(&here, at));
        if (!s->clear)
            value = tile_binary(
                s->combine, tile_load(here.buffer, here.buffer->ndim, at, box_holds(&here, at), NULL), value);
        tile_store(here.buffer, here.buffer->ndim, at, value, inside);
    }
    for (int i = 0; i < l->slots; i++)
        tile_close();
}

static void reduce_tile(struct group *g, const struct tile_stmt *s) {
    struct sweep w = fragments_sweep(g, s);
    struct points p;
    int to[TILE_DIMS];
    for (int i = 0; i < TILE_DIMS; i++)
        to[i] = i == s->axis ? LAYOUT_COPIES : i;
    struct layout result = layout_project(&w.layout, to);
    struct tile_type type = s->region[1].buffer->type;
    struct partial partial = {g,
                              s->combine,
                              thread_registers("part", type, TILE_REGISTER, layout_registers(&result)),
                              layout_registers(&result),
                              &w.layout,
                              s->axis};
    if (!partial.part)
        return;
    start(partial.part, partial.count, identity_of(s, type));
    thread_open_points(g, &p, &w);
    int all[TILE_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < w.vars; i++)
        if (fragments_number(s->region[0].buffer->shape[i]) <= 1)
            all[i] = LAYOUT_COPIES;
    expr x = thread_load(g->of[s->region[0].buffer->id].now, thread_slot(&p, s->region[0].buffer, all));
    expr at = layout_register(&result, &w.layout, to, p.digit);
    thread_store(partial.part, at, tile_binary(s->combine, thread_load(partial.part, at), tile_cast(type, x)));
    thread_close_points(&p);
    exchange(&partial, identity_of(s, type));
    put_tile(g, s, &result, partial.part);
}

// Lines in memory -----------------------------------------------------------------------------------------------------------

struct lines {
    struct box box; // of the source
    struct tile_region from, to;
    expr origin[2][TILE_DIMS];
    int64_t count; // of lines; -1: not known
    int each;      // threads of a line
};

static struct lines lines_of(struct group *g, const struct tile_stmt *s) {
    struct lines l = {.box = box_of(&s->region[0], NULL), .count = 1};
    l.from = thread_region(g, &s->region[0], l.origin[0]);
    l.to = thread_region(g, &s->region[1], l.origin[1]);
    for (int i = 0; i < l.box.axes; i++) {
        int64_t size = fragments_number(l.box.size[i]);
        if (i != s->axis)
            l.count = size < 0 || l.count < 0 ? -1 : l.count * size;
    }
    if (g->flat) { // a line is the whole group's
        l.count = 1;
        for (l.each = 1; g->threads % (l.each * 2) == 0;)
            l.each *= 2;
        return l;
    }
    for (l.each = 1; l.count > 0 && l.each * 2 * l.count <= g->threads && g->threads % (l.each * 2) == 0;)
        l.each *= 2;
    return l;
}

static void put_line(const struct tile_stmt *s, struct lines *l, expr value) {
    struct box place_in = {0};
    expr point[TILE_DIMS];
    for (int i = 0; i < l->box.axes; i++)
        if (i != s->axis || l->to.buffer->ndim >= l->from.buffer->ndim)
            point[place_in.axes++] = i == s->axis ? NULL : l->box.point[i];
    if (!s->clear)
        value = tile_binary(s->combine, box_read(&l->to, &place_in, point, true), value);
    box_write(&l->to, &place_in, point, value, true);
}

static void name_line(const struct tile_stmt *s, struct lines *l, expr line) {
    for (int i = l->box.axes - 1; i >= 0; i--) {
        if (i == s->axis)
            continue;
        l->box.point[i] = tile_binary(TILE_REM, line, l->box.size[i]);
        line = tile_binary(TILE_FLOORDIV, line, l->box.size[i]);
    }
}

static void take_line(struct group *g, const struct tile_stmt *s, struct lines *l,
                      const struct tile_buffer *part, expr lane) {
    const struct tile_name *i = box_variable(l->box.size[s->axis]);
    tile_open_for(i, box_index(lane), l->box.size[s->axis], box_number(l->each), TILE_SERIAL);
    l->box.point[s->axis] = box_point(i);
    expr x = box_read(&l->from, &l->box, l->box.point, true);
    thread_store(part, box_number(0),
                 tile_binary(s->combine, thread_load(part, box_number(0)), x ? tile_cast(part->type, x) : NULL));
    tile_close();
    (void)g;
}

// Whole turns of the group, so that all threads meet at barriers.
static void reduce_lines(struct group *g, const struct tile_stmt *s) {
    struct lines l = lines_of(g, s);
    struct tile_type type = s->region[1].buffer->type;
    struct layout lanes = {.threads = 2, .thread = {{0, l.each, 1}, {1, g->threads / l.each, 1}}};
    const struct tile_buffer *part = thread_registers("part", type, TILE_REGISTER, 1);
    struct partial partial = {g, s->combine, part, 1, &lanes, 0};
    expr lane = layout_thread_digit(&lanes, 0, g->thread), at_once = box_number(g->threads / l.each),
         count = box_number(1);
    for (int i = 0; !g->flat && i < l.box.axes; i++)
        count = i == s->axis ? count : tile_binary(TILE_MUL, count, l.box.size[i]);
    expr turns = tile_binary(TILE_FLOORDIV, tile_binary(TILE_ADD, count, box_number(g->threads / l.each - 1)),
                             at_once);
    const struct tile_name *turn = box_variable(turns);
    tile_open_for(turn, NULL, turns, NULL, TILE_SERIAL);
    expr line = tile_binary(TILE_ADD, tile_binary(TILE_MUL, box_point(turn), at_once),
                            box_index(layout_thread_digit(&lanes, 1, g->thread)));
    expr is_line =
        l.count >= 0 && l.count % (g->threads / l.each) == 0 ? NULL : tile_binary(TILE_LT, line, count);
    name_line(s, &l, g->flat ? g->flat : line);
    start(part, 1, identity_of(s, type));
    if (is_line)
        tile_open_if(is_line);
    take_line(g, s, &l, part, lane);
    if (is_line)
        tile_close();
    if (l.each > 1)
        exchange(&partial, identity_of(s, type));
    expr mine = l.each > 1 ? box_both(is_line, tile_binary(TILE_EQ, lane, thread_number(0))) : is_line;
    if (mine)
        tile_open_if(mine);
    put_line(s, &l, thread_load(part, box_number(0)));
    if (mine)
        tile_close();
    tile_close();
}

void thread_reduce(struct group *g, const struct tile_stmt *s) {
    if (is_in_registers(g, s->region[0].buffer))
        reduce_tile(g, s);
    else
        reduce_lines(g, s);
}

// A line is one thread's, which runs along it.
void thread_scan(struct group *g, const struct tile_stmt *s) {
    struct box b = box_of(&s->region[0], NULL);
    struct sweep w = {0};
    struct points p;
    expr origin[2][TILE_DIMS], at[2][TILE_DIMS], extent[TILE_DIMS];
    for (int i = 0; i < b.axes; i++)
        if (i != s->axis) {
            w.extent[w.vars] = b.size[i];
            w.name[w.vars++] = b.name[i];
        }
    if (!w.vars) {
        w.extent[0] = box_number(1);
        w.name[w.vars++] = box_variable(box_number(1));
    }
    if (thread_open_points(g, &p, &w)) {
        struct tile_stmt line = *s;
        for (int k = 0; k < 2; k++) {
            struct tile_region r = thread_region(g, &s->region[k], origin[k]);
            for (int i = 0, var = 0; i < b.axes; i++) {
                expr point = i == s->axis ? box_number(0) : p.point[var++];
                at[k][i] = r.origin ? tile_binary(TILE_ADD, r.origin[i], point) : point;
                extent[i] = i == s->axis ? b.size[i] : box_number(1);
            }
            line.region[k] = (struct tile_region){r.buffer, at[k], extent};
        }
        tile_append(line);
    }
    thread_close_points(&p);
}
