// thread_scan.c - scans by the threads of a workgroup.
//
// The threads of a row process it in turns, a few consecutive elements each. A thread scans its own elements
// in registers; the threads of a subgroup scan their totals by shuffles; each subgroup writes its total to
// shared memory, and every thread combines the totals before its own. Without shuffles, the first thread of
// each PIECE scans the totals of its threads in shared memory.
//
// In a grid that only scans rows, a short row belongs to a subgroup, or to a thread on targets without
// shuffles: with a workgroup for each of many short rows, most threads would be idle. Sizes that are not
// known are compared at run time.

#include "pass/threads.h"

enum {
    SHORT_LINE = 64,  // elements of a row that one thread scans
    SHARED_RUN = 16,  // elements per thread and turn, in shared memory
    RUN_BYTES = 16,   // bytes per thread and turn, in other memory
    SHORT_TURNS = 4,  // of a subgroup, or a PIECE: a workgroup scans longer rows
    SERIAL_LINES = 8, // per workgroup whose threads run one after the other: few, to spread them over CPUs
};

// Who scans a row.
enum form { BY_THREAD, BY_SUBGROUP, BY_GROUP };

struct scan {
    struct group *g;
    const struct tile_stmt *s;
    struct thread_lines *l;
    struct tile_type type;
    expr identity, lane, is_line; // the thread's number in its row; whether it has one (NULL: yes)
    int width, slots; // threads that scan without shared memory, or a PIECE; such pieces per row
    int run;          // elements per thread and turn
    bool is_once;     // one turn is enough
    const struct tile_buffer *held, *total, *before, *carry;
};

static expr zero(void) {
    return box_number(0);
}

static expr combine(const struct scan *c, expr a, expr b) {
    return tile_binary(c->s->combine, a, b);
}

static void add_to(const struct scan *c, const struct tile_buffer *b, expr value) {
    thread_store(b, zero(), combine(c, thread_load(b, zero()), value));
}

// Returns whether several threads can scan a row. They read ahead of each other, so a scan in place must
// write each result where it read the element.
static bool is_safe(const struct tile_region *from, const struct tile_region *to) {
    bool is_same = from->buffer == to->buffer;
    for (int i = 0; is_same && i < from->buffer->ndim; i++)
        is_same = box_origin(from, i) == box_origin(to, i);
    return is_same || tile_memory_of(from->buffer) != tile_memory_of(to->buffer);
}

// Returns whether several threads scan each row of a flat grid: its elements are adjacent, or there are few
// rows. Else adjacent threads scan adjacent rows.
static bool is_row(const struct tile_stmt *s) {
    int64_t after = 1, lines = 1;
    for (int i = 0; i < s->region[0].buffer->ndim; i++) {
        int64_t size = pass_number(box_region_size(&s->region[0], i));
        if (i != s->axis && lines >= 0 && (size < 0 || !tile_times(lines, size, &lines)))
            lines = -1;
        after = i > s->axis && size != 1 ? -1 : after;
    }
    return after == 1 || (lines >= 0 && lines < SHORT_LINE);
}

static int64_t run_of(const struct tile_stmt *s) {
    return MAX_OF(RUN_BYTES / tile_type_bytes(s->region[1].buffer->type), 1);
}

// Returns the elements of the longest row that is short.
static int64_t short_size(const struct group *g, const struct tile_stmt *s) {
    return SHORT_TURNS * thread_width(g) * run_of(s);
}

static expr line_size(const struct tile_stmt *s) {
    return box_region_size(&s->region[0], s->axis);
}

static enum form form_of(const struct group *g, const struct tile_stmt *s, bool is_flat, bool is_short) {
    int64_t size = pass_number(line_size(s));
    if (g->target->group->is_serial || (size >= 0 && size <= SHORT_LINE) ||
        !is_safe(&s->region[0], &s->region[1]) || (is_flat && !is_row(s)))
        return BY_THREAD;
    if (!is_flat || (size >= 0 ? size > short_size(g, s) : !is_short))
        return BY_GROUP;
    return g->target->group->subgroup ? BY_SUBGROUP : BY_THREAD;
}

// Returns the test whether rows are short; NULL: short and long ones are scanned in the same way.
static expr is_short(const struct group *g, const struct tile_stmt *s, bool is_flat) {
    if (form_of(g, s, is_flat, true) == form_of(g, s, is_flat, false))
        return NULL;
    return LE(line_size(s), box_number(short_size(g, s)));
}

int thread_scan_threads(const struct target *target) {
    return target->group->is_serial ? SERIAL_LINES : target->group->flat_threads;
}

expr thread_scan_blocks(const struct target *target, const struct tile_stmt *s, expr lines) {
    struct group g = {.target = target, .threads = thread_scan_threads(target)};
    const int at_once[] = {
        [BY_THREAD] = g.threads, [BY_SUBGROUP] = g.threads / thread_width(&g), [BY_GROUP] = 1};
    expr test = is_short(&g, s, true), blocks[2];
    for (int i = 0; i < 2; i++)
        blocks[i] = box_ceil_divide(lines, at_once[form_of(&g, s, true, i)]);
    return test ? SELECT(test, blocks[1], blocks[0]) : blocks[0];
}

// A turn ----------------------------------------------------------------------------------------------------

// Writes the indices of the thread's r-th element in a region. Returns whether the row has such an element;
// NULL: it has.
static expr place(struct scan *c, const struct tile_region *at, expr turn, expr r, expr *index) {
    expr size = c->l->box.size[c->s->axis], number = box_index(c->lane);
    number = ADD(MUL(number, box_number(c->run)), r);
    if (turn)
        number = ADD(number, turn);
    struct pass_range all = {INT64_MIN, INT64_MAX}, most = number ? pass_range(number) : all,
                      least = size ? pass_range(size) : all;
    bool is_inside = most.high != INT64_MAX && least.low != INT64_MIN && most.high < least.low;
    expr is_there = is_inside ? c->is_line : box_both(LT(number, size), c->is_line);
    if (c->s->reverse)
        number = SUB(SUB(size, box_number(1)), number);
    c->l->box.point[c->s->axis] = number;
    box_place(at, &c->l->box, c->l->box.point, index);
    return is_there;
}

static void take_run(struct scan *c, expr turn) {
    expr index[TILE_DIMS], r = thread_unrolled(c->run), is_there = place(c, &c->l->from, turn, r, index);
    expr x = tile_load(c->l->from.buffer, c->l->from.buffer->ndim, index,
                       box_both(box_holds(&c->l->from, index), is_there), NULL);
    x = x ? tile_cast(c->type, x) : NULL;
    x = is_there ? SELECT(is_there, x, c->identity) : x;
    if (c->s->exclusive)
        thread_store(c->held, r, thread_load(c->total, zero()));
    add_to(c, c->total, x);
    if (!c->s->exclusive)
        thread_store(c->held, r, thread_load(c->total, zero()));
    tile_close();
}

static void put_run(struct scan *c, expr turn) {
    expr index[TILE_DIMS], r = thread_unrolled(c->run), is_there = place(c, &c->l->to, turn, r, index);
    tile_store(c->l->to.buffer, c->l->to.buffer->ndim, index,
               combine(c, thread_load(c->before, zero()), thread_load(c->held, r)),
               box_both(box_holds(&c->l->to, index), is_there));
    tile_close();
}

// Between threads -------------------------------------------------------------------------------------------

static expr lane_in_piece(const struct scan *c) {
    return AND(c->lane, thread_number(c->width - 1));
}

// Sets `before` to the total of the threads before this one in the subgroup, and `total` to that total with
// its own.
static void scan_subgroup(struct scan *c) {
    for (int step = 1; step < c->width; step *= 2) {
        expr mine = thread_load(c->total, zero());
        expr theirs = thread_shuffled(c->g, TILE_SHUFFLE_UP, mine, thread_number(step), c->width);
        expr has = GE(lane_in_piece(c), thread_number(step));
        thread_store(c->total, zero(), SELECT(has, combine(c, theirs, mine), mine));
    }
    expr theirs =
        thread_shuffled(c->g, TILE_SHUFFLE_UP, thread_load(c->total, zero()), thread_number(1), c->width);
    expr is_first = EQ(lane_in_piece(c), thread_number(0));
    thread_store(c->before, zero(), SELECT(is_first, c->identity, theirs));
}

// Does the same by the first thread of a piece, with a slot per thread in shared memory. That thread has the
// total of the piece afterwards.
static void scan_piece(struct scan *c) {
    const struct tile_buffer *slot = thread_registers("slot", c->type, TILE_SHARED, c->g->threads);
    if (c->g->loops)
        thread_barrier();
    thread_store(slot, c->g->thread, thread_load(c->total, zero()));
    thread_barrier();
    tile_open_if(EQ(lane_in_piece(c), thread_number(0)));
    thread_store(c->total, zero(), c->identity);
    expr at = ADD(box_index(c->g->thread), thread_unrolled(c->width));
    thread_store(c->before, zero(), thread_load(slot, at));
    thread_store(slot, at, thread_load(c->total, zero()));
    add_to(c, c->total, thread_load(c->before, zero()));
    tile_close();
    tile_close();
    thread_barrier();
    thread_store(c->before, zero(), thread_load(slot, c->g->thread));
}

// Combines the totals of pieces: those before this one into `before`, and all of them into `total`, for the
// next turn.
static void join_pieces(struct scan *c, bool by_shuffles) {
    const struct tile_buffer *whole =
        thread_registers("whole", c->type, TILE_SHARED, c->g->threads / c->width);
    expr piece = SHR(c->g->thread, thread_number(layout_log(c->width))),
         index[2] = {zero(), box_index(piece)};
    expr owner = EQ(lane_in_piece(c), thread_number(by_shuffles ? c->width - 1 : 0));
    if (c->g->loops)
        thread_barrier();
    tile_store(whole, 2, index, thread_load(c->total, zero()), owner);
    thread_barrier();
    expr mine = AND(piece, thread_number(c->slots - 1));
    expr first = SUB(piece, mine);
    thread_store(c->held, box_number(c->run), c->identity);
    expr j = thread_unrolled(c->slots), sum = thread_load(c->held, box_number(c->run));
    expr theirs = thread_load(whole, ADD(box_index(first), j));
    expr is_mine = EQ(j, box_index(mine));
    thread_store(
        c->before, zero(),
        SELECT(is_mine, combine(c, sum, thread_load(c->before, zero())), thread_load(c->before, zero())));
    thread_store(c->held, box_number(c->run), combine(c, sum, theirs));
    tile_close();
    thread_store(c->total, zero(), thread_load(c->held, box_number(c->run)));
}

static void scan_turn(struct scan *c, expr turn) {
    bool by_shuffles = c->g->target->group->subgroup;
    thread_store(c->total, zero(), c->identity);
    take_run(c, turn);
    if (by_shuffles)
        scan_subgroup(c);
    else
        scan_piece(c);
    if (c->slots > 1 || (!by_shuffles && !c->is_once))
        join_pieces(c, by_shuffles);
    else if (!c->is_once)
        thread_store(c->total, zero(),
                     thread_shuffled(c->g, TILE_SHUFFLE_FROM, thread_load(c->total, zero()),
                                     thread_number(c->width - 1), c->width));
    if (!c->is_once) {
        expr mine = combine(c, thread_load(c->carry, zero()), thread_load(c->before, zero()));
        thread_store(c->before, zero(), mine);
        add_to(c, c->carry, thread_load(c->total, zero()));
    }
    put_run(c, turn);
}

// Lines -----------------------------------------------------------------------------------------------------

static void measure(struct scan *c) {
    int64_t size = pass_number(c->l->box.size[c->s->axis]);
    bool is_shared = c->l->from.buffer->memory == TILE_SHARED && c->l->to.buffer->memory == TILE_SHARED;
    int64_t most = is_shared ? SHARED_RUN : run_of(c->s);
    int64_t run = size > 0 ? MIN_OF((size + c->l->each - 1) / c->l->each, most) : most;
    c->run = (int)(is_shared && run > 1 ? run | 1 : run); // odd: adjacent runs begin in different banks
    c->is_once = size >= 0 && size <= (int64_t)c->run * c->l->each;
    c->width = MIN_OF(c->l->each, thread_width(c->g));
    c->slots = c->l->each / c->width;
}

static void scan_line(struct scan *c) {
    thread_store(c->carry, zero(), c->identity);
    expr size = c->l->box.size[c->s->axis];
    const struct tile_name *turn = c->is_once ? NULL : box_variable(size);
    if (turn)
        tile_open_for(turn, zero(), size, box_number((int64_t)c->run * c->l->each), TILE_SERIAL);
    c->g->loops += turn != NULL;
    scan_turn(c, turn ? box_point(turn) : NULL);
    c->g->loops -= turn != NULL;
    if (turn)
        tile_close();
}

static void scan_lines(struct group *g, const struct tile_stmt *s, struct thread_lines *l) {
    struct scan c = {.g = g, .s = s, .l = l, .type = s->region[1].buffer->type};
    c.identity = tile_identity_value(s->combine, c.type);
    measure(&c);
    c.held = thread_registers("held", c.type, TILE_REGISTER, c.run + 1);
    c.total = thread_registers("total", c.type, TILE_REGISTER, 1);
    c.before = thread_registers("before", c.type, TILE_REGISTER, 1);
    c.carry = thread_registers("carry", c.type, TILE_REGISTER, 1);
    struct thread_turns turns = thread_open_turns(g, s, l);
    c.lane = turns.lane;
    c.is_line = turns.is_line;
    scan_line(&c);
    thread_close_turns(g, &turns);
}

// Generates a scan in which each row belongs to one thread.
static void scan_alone(struct group *g, const struct tile_stmt *s) {
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
                at[k][i] = r.origin ? ADD(r.origin[i], point) : point;
                extent[i] = i == s->axis ? b.size[i] : box_number(1);
            }
            line.region[k] = (struct tile_region){r.buffer, at[k], extent};
        }
        tile_append(line);
    }
    thread_close_points(&p);
}

static void scan_by(struct group *g, const struct tile_stmt *s, enum form form) {
    struct thread_lines l;
    thread_find_lines(g, s, &l);
    if (form == BY_SUBGROUP)
        l.each = thread_width(g);
    if (form != BY_THREAD && l.each > 1)
        scan_lines(g, s, &l);
    else
        scan_alone(g, s);
}

void thread_scan(struct group *g, const struct tile_stmt *s) {
    expr test = is_short(g, s, g->flat);
    if (test) {
        tile_open_if(test);
        scan_by(g, s, form_of(g, s, g->flat, true));
        tile_else();
    }
    scan_by(g, s, form_of(g, s, g->flat, false));
    if (test)
        tile_close();
}
