// thread_reduce.c - reductions by the threads of a workgroup.
//
// Each thread combines the elements that it holds, or every n-th element of a row. Then the threads that
// share a result combine theirs in two levels: within a subgroup by shuffles, and between subgroups through
// one slot per subgroup in shared memory. Afterwards all of them have the result.

#include "pass/threads.h"
#include "tile/math.h"

enum {
    NARROW_MOST = 64, // from this many registers of 16 bits on, renew_narrow copies them
    TAKEN_MOST = 4,   // slots of subgroups that one thread combines
};

// Between threads -------------------------------------------------------------------------------------------

// Partial results of all threads, a list of registers in each. Threads that differ only in digits along the
// axis share a result: within a subgroup they exchange theirs by shuffles, and each subgroup writes one slot
// in shared memory for the others.
struct partial {
    struct group *g;
    enum tile_op combine;
    const struct tile_buffer *part; // [1, count]
    int64_t count;
    int axis;
    bool is_loose;        // each subgroup keeps its own result
    struct layout layout; // of the threads; no digit crosses the end of a subgroup
    int weight[LAYOUT_DIGITS],
        slots; // slots of a step of each digit (0: its threads share one), and of all digits
    const struct tile_buffer *scratch; // [1, count * slots]
    const struct partial *most; // the maxima that are subtracted in the exponentials of this sum; or NULL
};

int thread_width(const struct group *g) {
    return g->target->group->subgroup ? g->target->group->subgroup : PIECE;
}

static bool is_shared(const struct partial *p, int at) {
    return p->layout.thread[at].axis == p->axis;
}

static bool is_in_subgroup(const struct partial *p, int at) {
    int low = layout_below(&p->layout, at), size = p->layout.thread[at].size;
    return layout_is_power(low) && layout_is_power(size) && low * size <= thread_width(p->g);
}

// Splits digits that cross the end of a subgroup.
static struct layout cut(const struct layout *l, int width) {
    struct layout out = {0};
    for (int i = 0, low = 1; i < l->threads; low *= l->thread[i++].size) {
        struct layout_digit d = l->thread[i];
        int inside = 1;
        while (layout_is_power(low) && d.size % (inside * 2) == 0 && low * inside * 2 <= width)
            inside *= 2;
        if (inside > 1 && inside < d.size && l->threads < LAYOUT_DIGITS) {
            out.thread[out.threads++] = (struct layout_digit){d.axis, inside, d.step};
            d = (struct layout_digit){d.axis, d.size / inside, d.step * inside};
        }
        if (d.size > 1)
            out.thread[out.threads++] = d;
    }
    return out;
}

static struct partial partial_of(struct group *g, const struct tile_stmt *s, const struct layout *l, int axis,
                                 int64_t count) {
    struct partial p = {.g = g, .combine = s->combine, .count = count, .axis = axis, .slots = 1};
    p.part = thread_registers("part", s->region[1].buffer->type, TILE_REGISTER, count);
    p.layout = cut(l, thread_width(g));
    for (int i = 0; i < p.layout.threads; i++) {
        bool is_one = g->target->group->subgroup && is_shared(&p, i) && is_in_subgroup(&p, i);
        p.weight[i] = is_one ? 0 : p.slots;
        p.slots *= is_one ? 1 : p.layout.thread[i].size;
    }
    return p;
}

static void start(const struct tile_buffer *part, int64_t count, expr value) {
    expr r = thread_unrolled(count);
    thread_store(part, r, value);
    tile_close();
}

expr thread_shuffled(const struct group *g, enum tile_shuffle how, expr value, expr step, int threads) {
    if (value && tile_type_is_complex(value->type)) {
        expr re = thread_shuffled(g, how, RE(value), step, threads);
        return COMPLEX(re, thread_shuffled(g, how, IM(value), step, threads));
    }
    while (g->threads % threads)
        threads /= 2;
    const struct tile_name *theirs = value ? box_local("theirs", value->type) : NULL;
    tile_shuffle(theirs, how, value, step, threads);
    return box_local_value(theirs);
}

static void shuffle(const struct partial *p, int distance) {
    expr r = thread_unrolled(p->count), mine = thread_load(p->part, r);
    expr theirs = thread_shuffled(p->g, TILE_SHUFFLE_XOR, mine, thread_number(distance), thread_width(p->g));
    thread_store(p->part, r, tile_binary(p->combine, mine, theirs));
    tile_close();
}

// Returns the thread's slot, with 0 for the shared digits between subgroups if `outer`, and for those within
// a subgroup if `inner`.
static expr slot_of(const struct partial *p, bool outer, bool inner) {
    expr slot = NULL;
    if (!outer && !inner && p->slots == p->g->threads)
        return p->g->thread;
    for (int i = 0; i < p->layout.threads; i++) {
        bool is_zero = is_shared(p, i) && (is_in_subgroup(p, i) ? inner : outer);
        if (is_zero || !p->weight[i])
            continue;
        expr step = MUL(layout_thread_digit(&p->layout, i, p->g->thread), thread_number(p->weight[i]));
        slot = slot ? ADD(slot, step) : step;
    }
    return slot ? slot : thread_number(0);
}

static expr number_of(const struct partial *p, expr slot, expr r) {
    return ADD(MUL(r, box_number(p->slots)), box_index(slot));
}

// Returns a test that is true for one of the threads that share a result in a subgroup; NULL: there is only
// one.
static expr is_first(const struct partial *p) {
    expr test = NULL;
    for (int i = 0; i < p->layout.threads; i++)
        if (is_shared(p, i) && is_in_subgroup(p, i))
            test = box_both(test, EQ(layout_thread_digit(&p->layout, i, p->g->thread), thread_number(0)));
    return test;
}

static void put(const struct partial *p, expr mask) {
    expr r = thread_unrolled(p->count), index[2] = {box_number(0), number_of(p, slot_of(p, false, false), r)};
    tile_store(p->scratch, 2, index, thread_load(p->part, r), mask);
    tile_close();
}

// Writes the result of a subgroup into the shared memory of all workgroups of the cluster: thread i of the
// subgroup writes into that of workgroup i.
static void put_in_all(const struct partial *p) {
    expr lane = AND(p->g->thread, thread_number(thread_width(p->g) - 1));
    expr r = thread_unrolled(p->count), index[2] = {box_number(0), number_of(p, slot_of(p, false, false), r)};
    struct tile_stmt *s =
        tile_store(p->scratch, 2, index, thread_load(p->part, r), LT(lane, thread_number(p->g->cluster)));
    if (s) {
        s->scope = TILE_CLUSTER;
        s->step = lane;
    }
    tile_close();
}

// Gives every workgroup of a cluster the slots of all workgroups, and waits until all have written theirs:
// the slots of sums and, unless `most` is NULL, of the maxima that belong to them.
static void exchange_in_cluster(struct partial *p, struct partial *most, int inner) {
    if (inner != thread_width(p->g) || p->g->loops) {
        p->g->failed = !error_false(ZL_ERROR_COMPILE,
                                    "a cluster reduces lines of whole subgroups, in no loop and no branch");
        return;
    }
    if (!p->g->have_begun)
        thread_meet(TILE_AWAIT);
    p->g->have_begun = true;
    if (most) {
        most->scratch = thread_registers("scratch", p->part->type, TILE_SHARED, most->slots * most->count);
        put_in_all(most);
    }
    put_in_all(p);
    thread_meet(0);
}

// Returns the factor by which exp(x - own) becomes exp(x - most[r]).
static expr factor(expr own, const struct tile_buffer *most, expr r) {
    return math_short_exp_f32(SUB(own, thread_load(most, r)), false);
}

static void get(const struct partial *p, expr slot, bool adds) {
    expr r = thread_unrolled(p->count), theirs = thread_load(p->scratch, number_of(p, slot, r));
    if (p->most)
        theirs = MUL(theirs, factor(thread_load(p->most->scratch, number_of(p, slot, r)), p->most->part, r));
    thread_store(p->part, r, adds ? tile_binary(p->combine, thread_load(p->part, r), theirs) : theirs);
    tile_close();
}

// Combines the slots that differ in shared digits from `at` on: those of one subgroup if `inner`, else those
// of several subgroups.
static void get_all(const struct partial *p, int at, expr slot, bool inner) {
    while (at < p->layout.threads && (!is_shared(p, at) || is_in_subgroup(p, at) != inner))
        at++;
    if (at == p->layout.threads) {
        get(p, slot, true);
        return;
    }
    expr d = thread_unrolled(p->layout.thread[at].size);
    expr step = MUL(tile_cast(p->g->thread->type, d), thread_number(p->weight[at]));
    get_all(p, at + 1, ADD(slot, step), inner);
    tile_close();
}

static void shuffle_digit(const struct partial *p, int at, int size) {
    for (int distance = 1; distance < size; distance *= 2)
        shuffle(p, layout_below(&p->layout, at) * distance);
}

// Returns the digit within a subgroup whose threads can read the slots of all subgroups, a few each; -1:
// there is none.
static int taker_of(const struct partial *p, int outer) {
    for (int i = 0; i < p->layout.threads && layout_is_power(outer); i++)
        if (is_shared(p, i) && !p->weight[i] && p->layout.thread[i].size * TAKEN_MOST >= outer)
            return i;
    return -1;
}

// Returns the slot of the subgroup with this number among those that share a result.
static expr slot_from(const struct partial *p, expr number) {
    expr slot = slot_of(p, true, true);
    for (int i = 0, shift = 0; i < p->layout.threads; i++) {
        int size = p->layout.thread[i].size;
        if (!is_shared(p, i) || is_in_subgroup(p, i))
            continue;
        expr digit = AND(SHR(number, thread_number(shift)), thread_number(size - 1));
        slot = ADD(slot, MUL(digit, thread_number(p->weight[i])));
        shift += layout_log(size);
    }
    return slot;
}

static void take_and_shuffle(const struct partial *p, int taker, int outer) {
    int lanes = MIN_OF(p->layout.thread[taker].size, outer);
    expr lane = layout_thread_digit(&p->layout, taker, p->g->thread);
    for (int from = 0; from < outer; from += lanes)
        get(p, slot_from(p, from ? ADD(lane, thread_number(from)) : lane), from > 0);
    shuffle_digit(p, taker, lanes);
}

// Has the first thread of each piece combine the slots of its threads, on a target without shuffles.
static void combine_pieces(const struct partial *p, expr identity) {
    tile_open_if(is_first(p));
    start(p->part, p->count, identity);
    get_all(p, 0, slot_of(p, false, true), true);
    put(p, NULL);
    tile_close();
    thread_barrier();
}

static void get_from_slots(const struct partial *p, int inner, int outer, expr identity) {
    bool has_shuffles = p->g->target->group->subgroup;
    int taker = has_shuffles ? taker_of(p, outer) : -1;
    if (taker >= 0) {
        take_and_shuffle(p, taker, outer);
        return;
    }
    if (!has_shuffles && inner > 1)
        combine_pieces(p, identity);
    start(p->part, p->count, identity);
    get_all(p, 0, slot_of(p, true, true), false);
}

// Combines the results of the threads that share one. A barrier comes first only in loops, where another
// thread may still read the slots in the iteration before. `most` (or NULL) has the loose maxima of a sum,
// one per subgroup; it is set to the maxima of all subgroups.
static void exchange(struct partial *p, struct partial *most) {
    int inner = 1, outer = 1;
    bool has_shuffles = p->g->target->group->subgroup;
    expr identity = tile_identity_value(p->combine, p->part->type);
    for (int i = 0; i < p->layout.threads; i++)
        if (is_shared(p, i) && is_in_subgroup(p, i)) {
            inner *= p->layout.thread[i].size;
            if (has_shuffles)
                shuffle_digit(p, i, p->layout.thread[i].size);
        } else if (is_shared(p, i))
            outer *= p->layout.thread[i].size;
    if (p->is_loose || (outer == 1 && (has_shuffles || inner == 1)))
        return;
    p->scratch = thread_registers("scratch", p->part->type, TILE_SHARED, p->slots * p->count);
    if (p->g->cluster > 1)
        exchange_in_cluster(p, most, inner);
    else {
        if (p->g->loops)
            thread_barrier();
        put(p, has_shuffles ? is_first(p) : NULL);
        thread_barrier();
    }
    if (most) {
        most->part = thread_registers("most", p->part->type, TILE_REGISTER, most->count);
        if (!most->part)
            return;
        get_from_slots(most, inner, outer, tile_identity_value(most->combine, most->part->type));
        p->most = most;
    }
    get_from_slots(p, inner, outer, identity);
}

// Tiles in registers ----------------------------------------------------------------------------------------

// Stores results in the destination, which may have the reduced axis with size 1.
static void put_tile(struct group *g, const struct tile_stmt *s, const struct layout *l,
                     const struct tile_buffer *part) {
    const struct tile_region *to = &s->region[1];
    int axes = s->region[0].buffer->ndim, less = axes - to->buffer->ndim;
    expr digit[LAYOUT_DIGITS], at[TILE_DIMS], origin[TILE_DIMS], slot = NULL;
    int weight = 1;
    for (int i = l->slots - 1; i >= 0; i--)
        digit[i] = thread_unrolled(l->slot[i].size);
    for (int i = 0; i < l->slots; i++) {
        expr part_of = MUL(digit[i], box_number(weight));
        slot = slot ? ADD(slot, part_of) : part_of;
        weight *= l->slot[i].size;
        digit[i] = tile_cast(g->thread->type, digit[i]);
    }
    slot = slot ? slot : box_number(0);
    expr value = thread_load(part, slot);
    if (thread_is_held(g, to->buffer)) {
        const struct tile_buffer *now = thread_now(g, to->buffer);
        thread_store(now, slot, s->clear ? value : tile_binary(s->combine, thread_load(now, slot), value));
    } else {
        struct tile_region here = thread_region(g, to, origin);
        for (int i = 0; i < to->buffer->ndim; i++) {
            int axis = i + (less && i >= s->axis);
            expr point = !less && i == s->axis ? thread_number(0) : layout_index(l, axis, g->thread, digit);
            at[i] = here.origin ? ADD(here.origin[i], box_index(point)) : box_index(point);
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

// Makes a compiler read many numbers of 16 bits again at their next use, by a copy of the registers onto
// themselves. It would otherwise keep them converted to 32 bits, in twice the registers.
static void renew_narrow(struct group *g, const struct tile_stmt *s) {
    for (const struct tile_stmt *a = g->body; a; a = a->next) {
        const struct holding *h = a->kind == TILE_ALLOC ? &g->of[a->buffer->id] : NULL;
        if (!h || h->how != HELD_IN_REGISTERS || !h->now || tile_type_bytes(h->now->type) != 2)
            continue;
        int64_t count = layout_registers(&h->layout), run = g->target->group->vector_bytes / 2;
        if (count < NARROW_MOST || count % run || !pass_uses(s->next, a->buffer))
            continue;
        ((struct tile_buffer *)h->now)->align = g->target->group->vector_bytes;
        expr r = thread_unrolled(count / run), at[2] = {box_number(0), MUL(r, box_number(run))};
        expr extent[TILE_DIMS];
        struct tile_region here = thread_run_at(h->now, at, extent, run);
        thread_access(&here, &here, false);
        tile_close();
    }
}

// Calls `each` for the elements of the tile that is reduced, with the register of the element and that of its
// result.
static void each_element(struct group *g, const struct tile_stmt *s, const struct sweep *w,
                         const struct layout *result, const int *to, const struct partial *partial,
                         void (*each)(const struct partial *p, const struct tile_buffer *tile, expr slot,
                                      expr at)) {
    struct points p;
    int all[TILE_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    thread_open_points(g, &p, w);
    for (int i = 0; i < w->vars; i++)
        if (pass_number(s->region[0].buffer->shape[i]) <= 1)
            all[i] = LAYOUT_COPIES;
    expr slot = thread_slot(&p, s->region[0].buffer, all);
    each(partial, thread_now(g, s->region[0].buffer), slot, layout_register(result, &w->layout, to, p.digit));
    thread_close_points(&p);
}

static void add_element(const struct partial *p, const struct tile_buffer *tile, expr slot, expr at) {
    expr x = thread_load(tile, slot);
    thread_store(p->part, at, tile_binary(p->combine, thread_load(p->part, at), tile_cast(p->part->type, x)));
}

static void scale_element(const struct partial *p, const struct tile_buffer *tile, expr slot, expr at) {
    expr x = tile_cast(p->part->type, thread_load(tile, slot));
    thread_store(tile, slot, tile_cast(tile->type, MUL(x, thread_load(p->part, at))));
}

// Keeps the maxima of each subgroup until the sum that needs them. For a subgroup that has only -inf, the
// destination gets 0, so that exponentials less it are 0 and not NaN.
static void keep_loose(struct group *g, const struct tile_stmt *s, const struct partial *p,
                       const struct layout *result) {
    struct tile_type type = p->part->type;
    const struct tile_buffer *shift = thread_registers("shift", type, TILE_REGISTER, p->count);
    if (!shift)
        return;
    expr r = thread_unrolled(p->count), own = thread_load(p->part, r);
    thread_store(shift, r, SELECT(EQ(own, tile_identity_value(TILE_MAX, type)), tile_const(type, 0), own));
    tile_close();
    g->loose = (struct thread_loose){s, p->part, *result};
    put_tile(g, s, result, shift);
}

// Multiplies the exponentials that were added up such that the maximum of all subgroups, which is known now,
// is subtracted in them instead of that of one subgroup.
static void tighten(struct group *g, const struct tile_stmt *s, const struct sweep *w,
                    const struct layout *result, const int *to, const struct partial *most) {
    struct partial by = *most;
    by.part = most->part ? thread_registers("by", most->part->type, TILE_REGISTER, most->count) : NULL;
    if (!by.part)
        return;
    expr r = thread_unrolled(by.count);
    thread_store(by.part, r, factor(thread_load(g->loose.own, r), most->part, r));
    tile_close();
    each_element(g, s, w, result, to, &by, scale_element);
    put_tile(g, g->loose.s, &g->loose.layout, most->part);
    g->loose.s = NULL;
}

static void reduce_tile(struct group *g, const struct tile_stmt *s) {
    struct sweep w = fragments_sweep(g, s);
    int to[TILE_DIMS];
    for (int i = 0; i < TILE_DIMS; i++)
        to[i] = i == s->axis ? LAYOUT_COPIES : i;
    struct layout result = layout_project(&w.layout, to);
    struct partial partial = partial_of(g, s, &w.layout, s->axis, layout_registers(&result)), most = partial;
    if (!partial.part)
        return;
    bool tightens = g->loose.s;
    if (tightens && (s->combine != TILE_ADD || !s->clear || s->axis != g->loose.s->axis ||
                     !tile_type_equal(partial.part->type, g->loose.own->type) ||
                     !layout_equal(&result, &g->loose.layout))) {
        g->failed =
            !error_false(ZL_ERROR_COMPILE, "no sum of the same lines comes after the loose maximum '%s'",
                         g->loose.s->region[1].buffer->text);
        return;
    }
    partial.is_loose = s->is_loose && g->cluster > 1;
    most.combine = TILE_MAX;
    most.part = g->loose.own;
    start(partial.part, partial.count, tile_identity_value(s->combine, partial.part->type));
    each_element(g, s, &w, &result, to, &partial, add_element);
    exchange(&partial, tightens ? &most : NULL);
    if (tightens)
        tighten(g, s, &w, &result, to, &most);
    if (partial.is_loose)
        keep_loose(g, s, &partial, &result);
    else
        put_tile(g, s, &result, partial.part);
    renew_narrow(g, s);
}

// Lines in memory -------------------------------------------------------------------------------------------

void thread_find_lines(struct group *g, const struct tile_stmt *s, struct thread_lines *l) {
    *l = (struct thread_lines){.box = box_of(&s->region[0], NULL), .count = 1, .each = 1};
    l->from = thread_region(g, &s->region[0], l->origin[0]);
    l->to = thread_region(g, &s->region[1], l->origin[1]);
    for (int i = 0; i < l->box.axes && !g->flat; i++) {
        int64_t size = pass_number(l->box.size[i]);
        if (i != s->axis)
            l->count = size < 0 || l->count < 0 ? -1 : l->count * size;
    }
    // In a flat grid, a row belongs to the whole workgroup, unless thread_scan.c gives it to a subgroup.
    while (l->count > 0 && l->each * 2 * l->count <= g->threads && g->threads % (l->each * 2) == 0)
        l->each *= 2;
}

// Sets the point of the box to a row, by its number. Rows after the last are masked, so the position along
// the outermost axis, whose size is often not known, needs no division.
static void name_line(const struct tile_stmt *s, struct thread_lines *l, expr line) {
    int outermost = s->axis == 0;
    for (int i = l->box.axes - 1; i >= 0; i--) {
        if (i == s->axis)
            continue;
        if (i == outermost && pass_number(l->box.size[i]) < 0) {
            l->box.point[i] = line;
            break;
        }
        l->box.point[i] = REM(line, l->box.size[i]);
        line = FLOORDIV(line, l->box.size[i]);
    }
}

static void take_line(const struct tile_stmt *s, struct thread_lines *l, const struct tile_buffer *part,
                      expr lane) {
    const struct tile_name *i = box_variable(l->box.size[s->axis]);
    tile_open_for(i, box_index(lane), l->box.size[s->axis], box_number(l->each), TILE_SERIAL);
    l->box.point[s->axis] = box_point(i);
    expr x = box_read(&l->from, &l->box, l->box.point, true);
    thread_store(
        part, box_number(0),
        tile_binary(s->combine, thread_load(part, box_number(0)), x ? tile_cast(part->type, x) : NULL));
    tile_close();
}

static struct layout lanes_of(const struct group *g, const struct thread_lines *l) {
    return (struct layout){.threads = 2, .thread = {{0, l->each, 1}, {1, g->threads / l->each, 1}}};
}

// All threads take the same number of turns, so that they meet at barriers.
struct thread_turns thread_open_turns(struct group *g, const struct tile_stmt *s, struct thread_lines *l) {
    struct layout lanes = lanes_of(g, l);
    int64_t at_once = g->threads / l->each;
    struct thread_turns t = {.lane = layout_thread_digit(&lanes, 0, g->thread),
                             .is_loop = l->count < 0 || l->count > at_once};
    expr line = box_index(layout_thread_digit(&lanes, 1, g->thread)), count = box_number(1);
    for (int i = 0; i < l->box.axes; i++)
        count = i == s->axis ? count : MUL(count, l->box.size[i]);
    if (g->flat && at_once == 1)
        line = g->flat;
    else if (g->flat)
        line = ADD(MUL(g->flat, box_number(at_once)), line);
    if (t.is_loop) {
        expr turns = box_ceil_divide(count, at_once);
        const struct tile_name *turn = box_variable(turns);
        tile_open_for(turn, NULL, turns, NULL, TILE_SERIAL);
        line = ADD(MUL(box_point(turn), box_number(at_once)), line);
    }
    g->loops += t.is_loop;
    bool is_whole = g->flat ? at_once == 1 : l->count >= 0 && l->count % at_once == 0;
    t.is_line = is_whole ? NULL : LT(line, count);
    name_line(s, l, line);
    return t;
}

void thread_close_turns(struct group *g, const struct thread_turns *t) {
    g->loops -= t->is_loop;
    if (t->is_loop)
        tile_close();
}

static void reduce_lines(struct group *g, const struct tile_stmt *s) {
    struct thread_lines l;
    thread_find_lines(g, s, &l);
    struct tile_type type = s->region[1].buffer->type;
    struct layout lanes = lanes_of(g, &l);
    struct partial partial = partial_of(g, s, &lanes, 0, 1);
    if (!partial.part)
        return;
    struct thread_turns t = thread_open_turns(g, s, &l);
    start(partial.part, 1, tile_identity_value(s->combine, type));
    box_open_if(t.is_line);
    take_line(s, &l, partial.part, t.lane);
    box_close_if(t.is_line);
    if (l.each > 1)
        exchange(&partial, NULL);
    expr mine = l.each > 1 ? box_both(t.is_line, EQ(t.lane, thread_number(0))) : t.is_line;
    box_open_if(mine);
    box_write_line(s, &l.to, &l.box, thread_load(partial.part, box_number(0)));
    box_close_if(mine);
    thread_close_turns(g, &t);
}

void thread_reduce(struct group *g, const struct tile_stmt *s) {
    if (thread_is_held(g, s->region[0].buffer))
        reduce_tile(g, s);
    else
        reduce_lines(g, s);
}
