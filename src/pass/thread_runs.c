// thread_runs.c - maps and loops by runs of adjacent elements. Where the points of a map along its last
// variable, or the iterations of a short loop, access adjacent elements in memory, a thread moves a run of
// them by vector accesses between memory and its registers. The body then uses these registers in an unrolled
// loop; its arithmetic is still that of single numbers.

#include "pass/threads.h"

enum {
    ACCESSES = 24,
    RUN_BYTES = 64,
    UNROLLED_TURNS = 64,
    SERIAL_TURNS = 16,
    LEAST_BYTES = 4,
    FUNCTION_NODES = 24,
    MOST_NODES = 256
};

// A load or store of the body in memory.
struct run_access {
    expr load;                     // NULL: a store
    const struct tile_stmt *store; // NULL: a load
    const struct tile_buffer *buffer;
    const expr *index;
    int order;       // of the last statement of the body with this access
    bool is_certain; // every iteration does it
    bool is_top;     // of a store: it is in no loop or branch of the body
    bool is_once;    // no thread touches the element again soon
    int64_t width;   // elements of one vector access; 0: it is no vector access
    const struct tile_buffer *registers;
};

struct runs {
    struct group *g;
    const struct tile_name *var; // counts adjacent elements
    const struct tile_stmt *body;
    const struct sweep *sweep; // of a map; NULL: of a loop, whose iterations are in order
    int64_t count;             // of elements in a run
    expr first, turn;          // the variable in the first iteration; the number of the iteration
    expr test;                 // the condition for vector accesses; NULL: they are always possible
    bool builds_test, is_sure; // whether to build the test; whether none is necessary
    bool is_certain, is_possible, is_once;
    int order, accesses;
    struct run_access access[ACCESSES];
    const struct runs *outer;
};

// What a body does ------------------------------------------------------------------------------------------

static bool is_in_memory(const struct group *g, const struct tile_buffer *b) {
    return b->id < g->buffers && g->of[b->id].how <= HELD_SHARED;
}

static int stores_to(const struct tile_stmt *body, const struct tile_buffer *memory) {
    int count = 0;
    for (; body; body = body->next) {
        bool is_store = body->kind == TILE_STORE || body->kind == TILE_ATOMIC;
        count += is_store && tile_memory_of(body->buffer) == memory;
        count += stores_to(body->body, memory) + stores_to(body->other, memory);
    }
    return count;
}

static bool names(const struct tile_stmt *s, const void *name) {
    bool found = s->old == name;
    for (int i = 0; s->name && i < MAX_OF(s->indices, 1); i++)
        found |= s->name[i] == name;
    return found;
}

static bool changes(expr e, const void *data) {
    const struct runs *r = data;
    if (e->op == TILE_INDEX || e->op == TILE_LOCAL)
        return e->name == r->var || pass_find(r->body, names, e->name);
    return e->op == TILE_LOAD && stores_to(r->body, tile_memory_of(e->buffer));
}

// Returns whether an expression is the same in all iterations, wherever the body uses it.
static bool is_steady(const struct runs *r, expr e) {
    return !pass_any(e, changes, r);
}

static bool is_steady_place(const struct runs *r, const struct run_access *a) {
    for (int i = 0; i < a->buffer->ndim; i++)
        if (!is_steady(r, a->index[i]))
            return false;
    return true;
}

static void note(struct group *g, const struct access *a, void *data) {
    struct runs *r = data;
    struct run_access *here = r->access;
    if (!is_in_memory(g, a->buffer))
        return;
    while (here < r->access + r->accesses && (!a->load || here->load != a->load))
        here++;
    if (here == r->access + ACCESSES) {
        r->is_possible = false;
        return;
    }
    if (here == r->access + r->accesses) {
        r->accesses++;
        *here = (struct run_access){.load = a->load, .buffer = a->buffer, .index = a->index};
    }
    here->order = r->order;
    here->is_once = r->is_once && tile_memory_of(a->buffer)->memory == TILE_GLOBAL;
    here->is_certain |= r->is_certain && !(a->load && a->load->args);
}

static bool has_turns(const struct tile_stmt *s) {
    bool is_for = s->kind == TILE_FOR;
    int64_t begin = is_for ? pass_number(s->begin) : 0;
    if ((s->kind != TILE_MAP && !is_for) || begin < 0 || (is_for && pass_number(s->step) <= 0))
        return false;
    for (int i = 0; i < s->indices; i++)
        if (pass_number(s->extent[i]) <= begin)
            return false;
    return true;
}

static void look_at(struct runs *r, const struct tile_stmt *body, bool is_top) {
    expr root[TILE_STMT_EXPRS];
    for (const struct tile_stmt *s = body; s && r->is_possible; s = s->next) {
        bool was_certain = r->is_certain;
        r->order += is_top;
        switch (s->kind) {
        case TILE_STORE:
        case TILE_ATOMIC:
        case TILE_ASSIGN:
        case TILE_MAP:
        case TILE_FOR:
        case TILE_IF:
        case TILE_WHILE:
        case TILE_ASSERT:
        case TILE_PRINT: break;
        case TILE_ALLOC:
            if (!r->sweep) // the body of a map may be made twice
                break;     // fallthrough
        default: r->is_possible = false; return;
        }
        r->is_once = s->is_once;
        if (s->kind != TILE_ALLOC)
            thread_expr_accesses(r->g, tile_stmt_exprs(s, root), root, note, r);
        if (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) {
            r->is_certain = is_top && s->kind == TILE_STORE && !s->mask;
            int before = r->accesses;
            note(r->g, &(struct access){.buffer = s->buffer, .index = s->index, .is_write = true}, r);
            if (r->accesses > before) {
                r->access[before].store = s;
                r->access[before].is_top = is_top;
            }
        }
        r->is_certain = was_certain && has_turns(s);
        look_at(r, s->body, false);
        look_at(r, s->other, false);
        r->is_certain = was_certain;
    }
}

// Alignment -------------------------------------------------------------------------------------------------

static void require(struct runs *r, expr question) {
    expr known = r->test;
    while (known && known != question && known->op == TILE_AND && known->arg[1] != question)
        known = known->arg[0];
    r->is_sure = false;
    if (r->builds_test && (!known || (known != question && known->op != TILE_AND)))
        r->test = box_both(r->test, question);
}

static bool is_fixed(const struct runs *r, expr e) {
    for (int i = 0; i < r->sweep->vars; i++)
        if (pass_step_of(e, r->sweep->name[i]) != PASS_FIXED)
            return false;
    return is_steady(r, e);
}

// Returns whether `by` divides a number, which is known, or which maps test at run time.
static bool divides(struct runs *r, expr e, int64_t by, bool may_test) {
    if (pass_divisor(e) % by == 0)
        return true;
    if (e->op == TILE_ADD || e->op == TILE_SUB)
        return divides(r, e->arg[0], by, may_test) && divides(r, e->arg[1], by, may_test);
    if (!r->sweep || pass_number(e) >= 0)
        return false;
    for (int i = 0; e->op == TILE_MUL && i < 2; i++)
        if (pass_number(e->arg[i]) < 0 && is_fixed(r, e->arg[i]))
            return divides(r, e->arg[i], by, may_test);
    if (!is_fixed(r, e))
        return false;
    if (may_test && r->builds_test) {
        struct points none = {.g = r->g};
        expr rest = REM(box_index(thread_rewrite(&none, e)), box_number(by));
        require(r, EQ(rest, box_number(0)));
    } else if (may_test)
        r->is_sure = false;
    return true;
}

// Returns an index in which `at` replaces the variable.
static expr index_at(const struct runs *r, expr index, expr at) {
    return pass_swap(&(struct pass_swap){.names = 1, .name = &r->var, .value = &at}, index);
}

// Returns whether vectors of an access are aligned. Buffers begin at multiples of a vector, and so does the
// variable at the begin of a run.
static bool is_aligned(struct runs *r, const struct run_access *a, int64_t width, bool may_test) {
    const struct tile_buffer *b = a->buffer;
    int last = b->ndim - 1;
    for (int i = 0; i < last; i++)
        if (b->stride ? !divides(r, b->stride[i], width, may_test)
                      : i == last - 1 && !divides(r, b->shape[last], width, may_test))
            return false;
    expr more = index_at(r, a->index[last], box_number(0));
    return more && divides(r, more, width, may_test);
}

// Planning --------------------------------------------------------------------------------------------------

// Returns whether a load may come before the body, or a store after it. A point of a map may read its element
// before it stores it.
static bool may_move(const struct runs *r, const struct run_access *a) {
    const struct tile_buffer *memory = tile_memory_of(a->buffer);
    int stores = stores_to(r->body, memory);
    if (stores > 1)
        return false;
    for (int i = 0; stores && i < r->accesses; i++) {
        const struct run_access *b = &r->access[i], *load = a->load ? a : b, *store = a->load ? b : a;
        if (tile_memory_of(b->buffer) == memory && !a->load == !!b->load &&
            !(r->sweep && store->is_top && load->order <= store->order))
            return false;
    }
    return true;
}

static bool is_run(const struct runs *r, const struct run_access *a) {
    const struct tile_buffer *b = a->buffer;
    int last = b->ndim - 1;
    if (!a->is_certain || last < 0 || tile_type_is_complex(b->type) ||
        tile_memory_of(b)->memory == TILE_TABLE || (b->stride && pass_number(b->stride[last]) != 1) ||
        pass_step_of(a->index[last], r->var) != PASS_UNIT || !may_move(r, a))
        return false;
    for (int i = 0; i < last; i++)
        if (!is_steady(r, a->index[i]))
            return false;
    expr more = index_at(r, a->index[last], box_number(0));
    return more && is_steady(r, more);
}

static int64_t width_of(struct runs *r, const struct run_access *a) {
    int bytes = tile_type_bytes(a->buffer->type);
    if (!is_run(r, a) || r->count * bytes > RUN_BYTES)
        return 0;
    for (int64_t width = r->g->target->group->vector_bytes / bytes; width > 1; width /= 2)
        if (width * bytes >= LEAST_BYTES && r->count % width == 0 && is_aligned(r, a, width, false))
            return is_aligned(r, a, width, true) ? width : 0;
    return 0;
}

// Chooses which accesses are by vectors, and returns their number. Sets *others to the number of those that
// are not, although they differ between iterations.
static int choose(struct runs *r, int *others) {
    int vectors = 0;
    *others = 0;
    for (int i = 0; i < r->accesses; i++) {
        struct run_access *a = &r->access[i];
        a->width = width_of(r, a);
        vectors += a->width > 0;
        *others += !a->width && !(a->load && is_steady_place(r, a));
    }
    return vectors;
}

static void look(struct runs *r) {
    r->is_certain = r->is_possible = r->is_sure = true;
    look_at(r, r->body, true);
}

// Returns the number of nodes in the formulas of a body. A function that the target computes by a long
// formula counts for several nodes.
static int nodes_of(const struct runs *r) {
    expr *node = NULL;
    int count = tile_current() ? pass_nodes(tile_current(), r->body, &node) : 0, sum = count;
    r->g->failed |= count < 0;
    for (int i = 0; i < count; i++) {
        struct tile_type type = node[i]->args ? node[i]->arg[node[i]->args - 1]->type : node[i]->type;
        type = tile_type_is_half(type) ? tile_type_of(ZL_FLOAT32) : type;
        bool is_long = tile_op_is_row(node[i]->op) && !target_spells_op(r->g->target, node[i]->op, type);
        sum += is_long ? FUNCTION_NODES : 0;
    }
    memory_free(node);
    return sum;
}

// Returns the elements of a run of a map without a layout: those of one vector of the widest type, or fewer
// if some threads would have no run, or if the body, whose code is repeated for each element, is long. On a
// target that runs threads as iterations of a loop, the compiler makes vectors of these, so that a run has
// one element.
static int64_t run_of_map(const struct runs *r) {
    const struct sweep *w = r->sweep;
    int widest = 0, narrowest = RUN_BYTES;
    for (int i = 0; i < r->accesses; i++)
        if (is_run(r, &r->access[i])) {
            int bytes = tile_type_bytes(r->access[i].buffer->type);
            widest = MAX_OF(widest, bytes);
            narrowest = MIN_OF(narrowest, bytes);
        }
    if (!widest || r->g->target->group->is_serial)
        return 1;
    int64_t count = MAX_OF(r->g->target->group->vector_bytes / widest, LEAST_BYTES / narrowest),
            known = pass_product(w->vars, w->extent), points = known < 0 ? INT64_MAX : known;
    int64_t extent = pass_number(w->extent[w->vars - 1]);
    for (int nodes = nodes_of(r); count > 2 && count * nodes > MOST_NODES;)
        count /= 2;
    while (count > 1 &&
           ((extent >= 0 && extent % count) || (!r->g->is_flat && points / count < r->g->threads)))
        count /= 2;
    return count;
}

// Returns whether the points along the last variable are whole runs, which may be tested at run time. In a
// flat grid of one variable, all workgroups but the last have whole runs, whatever the number of points.
static bool has_whole_runs(struct runs *r) {
    expr extent = r->sweep->extent[r->sweep->vars - 1];
    if (!r->g->is_flat || r->sweep->vars > 1 || pass_divisor(extent) % r->count == 0)
        return divides(r, extent, r->count, true);
    r->is_sure = false;
    if (r->builds_test) {
        expr points = box_index(extent), end = ADD(r->g->flat, box_number(1));
        end = MUL(end, box_number(r->g->threads * r->count));
        expr rest = REM(points, box_number(r->count));
        require(r, OR(EQ(rest, box_number(0)), LE(end, points)));
    }
    return true;
}

static bool plan_map(struct runs *r, struct group *g, const struct tile_stmt *s, const struct sweep *w,
                     bool builds_test) {
    int last = w->vars - 1, others;
    const struct layout_digit *d = &w->layout.slot[0];
    *r = (struct runs){.g = g, .var = w->name[last], .body = s->body, .sweep = w, .builds_test = builds_test};
    if (!tile_current() || tile_current()->failed ||
        (w->has_layout && (!w->layout.slots || d->axis != last || d->step != 1)))
        return false;
    look(r);
    r->count = !r->is_possible ? 1 : w->has_layout ? d->size : run_of_map(r);
    if (r->count < 2 || !choose(r, &others) || (others && !w->has_layout))
        return false;
    return (w->has_layout && pass_number(w->extent[last]) == w->covered[last]) || has_whole_runs(r);
}

// Code ------------------------------------------------------------------------------------------------------

static void move_vectors(const struct runs *r, struct points *p, const struct run_access *a) {
    const struct tile_buffer *b = a->buffer;
    expr index[TILE_DIMS], at[TILE_DIMS], extent[2][TILE_DIMS];
    int last = b->ndim - 1, indices;
    for (int i = 0; i <= last; i++)
        index[i] = i == last ? index_at(r, a->index[i], r->first) : a->index[i];
    b = thread_element(p, b, index, at, &indices);
    expr begin = at[last];
    for (int64_t k = 0; k < r->count && a->registers; k += a->width) {
        expr own = box_number(k);
        at[last] = k ? ADD(begin, own) : begin;
        struct tile_region memory = thread_run_at(b, at, extent[0], a->width),
                           here = thread_run_at(a->registers, &own, extent[1], a->width);
        thread_access(a->load ? &memory : &here, a->load ? &here : &memory, a->is_once);
    }
}

static void move_loads(struct runs *r, struct points *p) {
    for (int i = 0; i < r->accesses; i++) {
        struct run_access *a = &r->access[i];
        if (!a->width)
            continue;
        struct tile_type type = a->buffer->type;
        a->registers = thread_run_registers(type, r->count, (int)a->width * tile_type_bytes(type));
        if (a->load)
            move_vectors(r, p, a);
    }
}

static void move_stores(const struct runs *r, struct points *p) {
    bool opened = false;
    for (int i = 0; i < r->accesses; i++)
        if (r->access[i].width && !r->access[i].load) {
            if (p->first && !opened)
                opened = tile_open_if(p->first);
            move_vectors(r, p, &r->access[i]);
        }
    if (opened)
        tile_close();
}

expr thread_run_load(const struct points *p, expr load) {
    for (const struct runs *r = p->runs; r; r = r->outer)
        for (int i = 0; i < r->accesses; i++)
            if (r->access[i].width && r->access[i].load == load)
                return r->access[i].registers ? tile_load(r->access[i].registers, 1, &r->turn, NULL, NULL)
                                              : NULL;
    return load;
}

bool thread_run_store(struct points *p, const struct tile_stmt *s) {
    for (const struct runs *r = p->runs; r; r = r->outer)
        for (int i = 0; i < r->accesses; i++)
            if (r->access[i].width && r->access[i].store == s) {
                if (r->access[i].registers)
                    tile_store(r->access[i].registers, 1, &r->turn, thread_rewrite(p, s->value), NULL);
                return true;
            }
    return false;
}

static void map_runs(struct runs *r, struct sweep *w, const struct tile_stmt *s) {
    struct points p;
    struct layout whole = w->layout;
    int last = w->vars - 1;
    if (w->has_layout)
        w->layout.slot[0].size = 1;
    else {
        w->extent[last] = FLOORDIV(box_index(w->extent[last]), box_number(r->count));
        w->is_by_runs = true;
    }
    if (thread_open_points(r->g, &p, w)) {
        r->first = w->has_layout ? p.point[last] : MUL(p.point[last], box_number(r->count));
        move_loads(r, &p);
        r->turn = thread_unrolled(r->count);
        p.sweep.layout = whole;
        p.digit[0] = tile_cast(r->g->thread->type, r->turn);
        p.point[last] = ADD(r->first, r->turn);
        p.runs = r;
        thread_body(&p, s->body);
        tile_close();
        move_stores(r, &p);
    }
    thread_close_points(&p);
}

int64_t thread_map_run(struct group *g, const struct tile_stmt *s, bool *is_sure) {
    struct sweep w = fragments_sweep(g, s);
    struct runs r;
    *is_sure = true;
    if (s->kind == TILE_THREAD || w.has_layout || !plan_map(&r, g, s, &w, false))
        return 1;
    *is_sure = r.is_sure;
    return r.count;
}

bool thread_run_map(struct group *g, const struct tile_stmt *s,
                    void (*otherwise)(struct group *g, const struct tile_stmt *s)) {
    struct sweep w = fragments_sweep(g, s);
    struct runs r;
    if (!plan_map(&r, g, s, &w, true))
        return false;
    box_open_if(r.test);
    map_runs(&r, &w, s);
    if (r.test) {
        tile_else();
        otherwise(g, s);
        tile_close();
    }
    return true;
}

bool thread_run_loop(struct points *p, const struct tile_stmt *s) {
    struct runs r = {.g = p->g, .var = s->name[0], .body = s->body, .outer = p->runs};
    int others;
    r.count = pass_number(s->extent[0]);
    if (r.count < 2 || r.count > (s->loop == TILE_SERIAL ? SERIAL_TURNS : UNROLLED_TURNS) ||
        s->loop == TILE_PIPELINED || pass_number(s->begin) != 0 || pass_number(s->step) != 1)
        return false;
    look(&r);
    if (!r.is_possible || !choose(&r, &others))
        return false;
    r.first = box_number(0);
    r.turn = box_point(s->name[0]);
    move_loads(&r, p);
    tile_open_for(s->name[0], NULL, s->extent[0], NULL, TILE_UNROLLED);
    p->runs = &r;
    thread_body(p, s->body);
    p->runs = r.outer;
    tile_close();
    move_stores(&r, p);
    return true;
}
