// fragments.c - decides where the buffers of a block are held: fragments in registers of threads where one layout suits all their
// uses, else in shared memory; local buffers by every thread, unless threads that differ write them.
//
// Products choose the layouts of their results; from there layouts spread over the statements that use two tiles at once. Where
// two do not agree, one tile goes to shared memory, and all is tried anew.

#include "pass/threads.h"

#include <string.h>

enum { REGISTER_BYTES = 1024 }; // of one tile in one thread, at most

int64_t fragments_number(expr e) {
    struct pass_range r = e ? pass_range(e) : (struct pass_range){0, 1};
    return r.low == r.high && r.low != INT64_MIN ? r.low : -1;
}

static struct holding *held(struct group *g, const struct tile_buffer *b) {
    return &g->of[b->id];
}

static bool is_fragment(const struct group *g, const struct tile_buffer *b) {
    return b->memory == TILE_FRAGMENT && b->id < g->buffers && g->of[b->id].how == HELD_IN_REGISTERS;
}

static void each_stmt(struct group *g, const struct tile_stmt *body, void (*visit)(struct group *, const struct tile_stmt *)) {
    for (; body; body = body->next) {
        visit(g, body);
        if (!thread_is_spread(body)) {
            each_stmt(g, body->body, visit);
            each_stmt(g, body->other, visit);
        }
    }
}

// How a statement uses tiles in registers --------------------------------------------------------------------------------

static expr without_casts(expr e) {
    while (e->op == TILE_CAST)
        e = e->arg[0];
    return e;
}

bool fragments_is_whole(const struct tile_region *r, const struct tile_region *other) {
    int mine[TILE_DIMS], theirs[TILE_DIMS], axes = other ? tile_pair(r, other, mine, theirs) : 0;
    for (int i = 0; i < r->buffer->ndim; i++) {
        int64_t size = fragments_number(r->buffer->shape[i]), taken = r->extent ? fragments_number(r->extent[i]) : size;
        if (r->origin && !r->extent) // as the other has it
            taken = other && mine[i] < axes ? 1 : -1;
        for (int k = 0; r->origin && !r->extent && other && k < other->buffer->ndim; k++)
            if (mine[i] >= 0 && theirs[k] == mine[i])
                taken = fragments_number(tile_region_size(other, k));
        if (taken != size || (r->origin && fragments_number(r->origin[i]) != 0))
            return false;
    }
    return true;
}

struct gather {
    const struct tile_stmt *stmt;
    struct use *use;
    int count;
};

static struct use *find_use(struct gather *t, const struct tile_buffer *b, bool *is_new) {
    for (int i = 0; i < t->count; i++)
        if (t->use[i].buffer == b)
            return *is_new = false, &t->use[i];
    if (t->count == USES)
        return NULL;
    *is_new = true;
    t->use[t->count] = (struct use){.buffer = b, .is_good = true};
    for (int i = 0; i < TILE_DIMS; i++)
        t->use[t->count].to[i] = LAYOUT_COPIES;
    return &t->use[t->count++];
}

static int var_of(const struct tile_stmt *s, expr index) {
    index = without_casts(index);
    for (int i = 0; index->op == TILE_INDEX && i < s->indices; i++)
        if (s->name[i] == index->name)
            return i;
    return -1;
}

// The tile's axes as variables of the map: each a variable of its own, or of size 1.
static struct use use_by_index(const struct tile_stmt *s, const struct access *a) {
    struct use u = {.buffer = a->buffer, .is_good = a->index != NULL};
    for (int i = 0; i < TILE_DIMS; i++)
        u.to[i] = LAYOUT_COPIES;
    for (int axis = 0; u.is_good && axis < a->buffer->ndim; axis++) {
        int64_t size = fragments_number(a->buffer->shape[axis]);
        int var = var_of(s, a->index[axis]);
        if (var >= 0 && u.to[var] == LAYOUT_COPIES && size > 1) {
            int64_t extent = fragments_number(s->extent[var]);
            u.to[var] = axis;
            u.size[var] = size;
            u.is_good = extent <= size;
        } else
            u.is_good = size == 1;
    }
    return u;
}

static bool same_use(const struct use *a, const struct use *b) {
    for (int i = 0; i < TILE_DIMS; i++)
        if (a->to[i] != b->to[i])
            return false;
    return a->is_good == b->is_good;
}

static void gather_index(struct group *g, const struct access *a, void *data) {
    struct gather *t = data;
    bool is_new;
    struct use *u = is_fragment(g, a->buffer) ? find_use(t, a->buffer, &is_new) : NULL;
    if (!u)
        return;
    struct use this = use_by_index(t->stmt, a);
    if (is_new)
        *u = this;
    else
        u->is_good = u->is_good && same_use(u, &this);
}

// of: the variable of each axis, -1 of one that stays at its origin.
static void gather_region(struct group *g, struct gather *t, int which, const struct tile_region *other, const int *of) {
    const struct tile_region *r = &t->stmt->region[which];
    bool is_new;
    struct use *u = is_fragment(g, r->buffer) ? find_use(t, r->buffer, &is_new) : NULL;
    if (!u)
        return;
    u->is_good = is_new && fragments_is_whole(r, other);
    for (int axis = 0; axis < r->buffer->ndim; axis++) {
        int64_t size = fragments_number(r->buffer->shape[axis]);
        if (size > 1 && of[axis] >= 0) {
            u->to[of[axis]] = axis;
            u->size[of[axis]] = size;
        }
        u->is_good = u->is_good && (size == 1 || (size > 1 && of[axis] >= 0));
    }
}

static const int in_order[TILE_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};

// The axes of a result: those of the source without the one that is reduced, which may be there with size 1.
static void result_axes(const struct tile_stmt *s, int *of) {
    bool has_it = s->region[1].buffer->ndim == s->region[0].buffer->ndim;
    for (int axis = 0; axis < TILE_DIMS; axis++)
        of[axis] = has_it ? (axis == s->axis ? -1 : axis) : axis + (axis >= s->axis);
}

int fragments_uses(struct group *g, const struct tile_stmt *s, struct use *use) {
    struct gather t = {.stmt = s, .use = use};
    if (thread_is_spread(s))
        thread_accesses(g, s, gather_index, &t);
    else if (s->kind == TILE_COPY) {
        int of[2][TILE_DIMS];
        tile_pair(&s->region[0], &s->region[1], of[0], of[1]);
        gather_region(g, &t, 0, &s->region[1], of[0]);
        gather_region(g, &t, 1, &s->region[0], of[1]);
    } else if (s->kind == TILE_FILL)
        gather_region(g, &t, 1, NULL, in_order);
    else if (s->kind == TILE_REDUCE) {
        int of[TILE_DIMS];
        result_axes(s, of);
        gather_region(g, &t, 0, NULL, in_order);
        if (is_fragment(g, s->region[0].buffer))
            gather_region(g, &t, 1, NULL, of);
    }
    return t.count;
}

// Sweeps ----------------------------------------------------------------------------------------------------------------

static struct sweep extents_of(const struct tile_stmt *s) {
    struct sweep w = {0};
    if (thread_is_spread(s)) {
        w.vars = s->indices;
        for (int i = 0; i < w.vars; i++) {
            w.name[i] = s->name[i];
            w.extent[i] = s->extent[i];
        }
        return w;
    }
    struct box b = s->kind == TILE_FILL     ? box_of(&s->region[1], NULL)
                   : s->kind == TILE_REDUCE ? box_of(&s->region[0], NULL)
                                            : box_of(&s->region[0], &s->region[1]);
    w.vars = b.axes;
    for (int i = 0; i < w.vars; i++) {
        w.name[i] = b.name[i];
        w.extent[i] = b.size[i];
    }
    for (int i = 0; i < 2; i++)
        memcpy(w.pair[i], s->kind == TILE_COPY ? b.pair[i] : in_order, sizeof w.pair[i]);
    return w;
}

static int axes_used(const struct use *u) {
    int count = 0;
    for (int i = 0; i < TILE_DIMS; i++)
        count += u->to[i] != LAYOUT_COPIES;
    return count;
}

// The layout of the tile that has most of the variables decides.
static const struct use *leader(struct group *g, int count, const struct use *use) {
    const struct use *best = NULL;
    for (int i = 0; i < count; i++)
        if (held(g, use[i].buffer)->is_known && (!best || axes_used(&use[i]) > axes_used(best)))
            best = &use[i];
    return best;
}

static bool cover(struct group *g, struct sweep *w, const struct use *u) {
    int back[TILE_DIMS];
    for (int var = 0; var < TILE_DIMS; var++)
        if (u->to[var] != LAYOUT_COPIES)
            back[u->to[var]] = var;
    w->layout = layout_project(&held(g, u->buffer)->layout, back);
    for (int var = 0; var < w->vars; var++) {
        w->covered[var] = u->to[var] != LAYOUT_COPIES ? u->size[var] : fragments_number(w->extent[var]);
        if (w->covered[var] < 0)
            return false;
        if (u->to[var] == LAYOUT_COPIES)
            layout_extend(&w->layout, var, w->covered[var]);
    }
    return w->has_layout = true;
}

struct sweep fragments_sweep(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    struct sweep w = extents_of(s);
    int count = fragments_uses(g, s, use);
    const struct use *lead = leader(g, count, use);
    if (lead)
        cover(g, &w, lead);
    return w;
}

// Products --------------------------------------------------------------------------------------------------------------

static bool is_plain(const struct tile_region *r, int axis) {
    return !r->origin || (fragments_number(r->origin[axis]) >= 0 && fragments_number(r->origin[axis]) % 8 == 0);
}

// A tile in memory of the group that matrix instructions read: 16-bit floats in rows of whole vectors.
static bool is_operand(const struct group *g, const struct tile_region *r) {
    int last = r->buffer->ndim - 1;
    bool is_here = r->buffer->memory == TILE_SHARED || (r->buffer->memory == TILE_FRAGMENT && r->buffer->id < g->buffers);
    return is_here && last >= 1 && !r->buffer->stride && fragments_number(r->buffer->shape[last]) % 8 == 0 &&
           is_plain(r, last) && is_plain(r, last - 1);
}

static bool has_unit(const struct group *g, const struct tile_stmt *s) {
    const struct target *t = g->target;
    const struct tile_region *c = &s->region[2];
    return t->multiplies && g->threads % SUBGROUP == 0 && is_operand(g, &s->region[0]) && is_operand(g, &s->region[1]) &&
           c->buffer->memory == TILE_FRAGMENT && c->buffer->ndim == 2 && fragments_is_whole(c, NULL) &&
           t->multiplies(tile_dtype_of(s->region[0].buffer->type), tile_dtype_of(s->region[1].buffer->type),
                         tile_dtype_of(c->buffer->type));
}

// Subgroups down and across: by rows alone where rows are reduced, else such that each has most of its operands in common.
static void divide(const struct group *g, struct product *p) {
    int subgroups = g->threads / SUBGROUP;
    int64_t best = INT64_MAX;
    p->is_matrix = false;
    for (int down = subgroups; down >= 1; down--) {
        int across = subgroups / down;
        if (down * across != subgroups || p->rows % (16 * down) || p->columns % (16 * across))
            continue;
        int64_t cost = p->rows / down + p->columns / across;
        if (cost < best) {
            best = cost;
            p->down = down;
            p->across = across;
            p->is_matrix = true;
        }
        if (g->by_rows)
            return;
    }
}

struct product fragments_product(const struct group *g, const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    int at_a = a->buffer->ndim - 2, at_b = b->buffer->ndim - 2;
    struct product p = {.rows = fragments_number(box_region_size(a, at_a + s->transpose[0])),
                        .depth = fragments_number(box_region_size(a, at_a + !s->transpose[0])),
                        .columns = fragments_number(box_region_size(b, at_b + !s->transpose[1]))};
    if (has_unit(g, s) && p.rows > 0 && p.columns > 0 && p.depth > 0 && p.depth % 16 == 0)
        divide(g, &p);
    return p;
}

// Deciding --------------------------------------------------------------------------------------------------------------

struct deciding {
    bool changed, conflict;
};
static _Thread_local struct deciding deciding; // of the one search that a thread makes at a time

static void to_shared(struct group *g, const struct tile_buffer *b) {
    if (is_fragment(g, b)) {
        held(g, b)->how = HELD_SHARED;
        deciding.conflict = true;
    }
}

static void settle(struct group *g, const struct tile_buffer *b, const struct layout *l) {
    struct holding *h = held(g, b);
    if (h->is_known && !layout_equal(&h->layout, l))
        to_shared(g, b);
    else if (!h->is_known && layout_registers(l) * tile_type_bytes(b->type) > REGISTER_BYTES)
        to_shared(g, b);
    else if (!h->is_known) {
        h->is_known = deciding.changed = true;
        h->layout = *l;
    }
}

// All tiles of a statement follow the one that leads.
static void spread(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    int count = fragments_uses(g, s, use);
    const struct use *lead = leader(g, count, use);
    if (!lead)
        return;
    struct sweep w = extents_of(s);
    bool good = cover(g, &w, lead);
    for (int i = 0; i < count; i++) {
        bool fits = good && use[i].is_good;
        for (int var = 0; var < w.vars; var++)
            fits = fits && (use[i].to[var] == LAYOUT_COPIES || use[i].size[var] == w.covered[var]);
        struct layout part = fits ? layout_project(&w.layout, use[i].to) : w.layout;
        if (!fits)
            to_shared(g, use[i].buffer);
        else
            settle(g, use[i].buffer, &part);
    }
}

static void seed_product(struct group *g, const struct tile_stmt *s) {
    if (s->kind != TILE_GEMM)
        return;
    const struct tile_region *a = &s->region[0], *b = &s->region[1], *c = &s->region[2];
    struct product p = fragments_product(g, s);
    struct layout l;
    to_shared(g, b->buffer);
    for (int i = 0; i < 2; i++)
        if (p.is_matrix && s->region[i].buffer->id < g->buffers)
            g->of[s->region[i].buffer->id].is_operand = true;
    if (p.is_matrix && is_fragment(g, a->buffer)) {
        bool fits = a->buffer->ndim == 2 && !s->transpose[0] && fragments_is_whole(a, NULL) &&
                    layout_matrix(&l, p.rows, p.depth, p.down, 1);
        if (fits && p.across > 1 && l.threads < LAYOUT_DIGITS)
            l.thread[l.threads++] = (struct layout_digit){LAYOUT_COPIES, p.across, 0};
        if (fits)
            settle(g, a->buffer, &l);
        else
            to_shared(g, a->buffer);
    } else
        to_shared(g, a->buffer);
    if (!is_fragment(g, c->buffer))
        return;
    bool is_tile = c->buffer->ndim == 2 && fragments_is_whole(c, NULL) && p.rows > 0 && p.columns > 0;
    if (is_tile && (p.is_matrix ? layout_matrix(&l, p.rows, p.columns, p.down, p.across)
                                : layout_outer(&l, p.rows, p.columns, g->threads)))
        settle(g, c->buffer, &l);
    else
        to_shared(g, c->buffer);
}

static void share_access(struct group *g, const struct access *a, void *data) {
    (void)data;
    to_shared(g, a->buffer);
}

// Uses that no layout suits: single elements by all threads, scans, parts of tiles, reductions from elsewhere.
static void seed_shared(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    expr root[TILE_STMT_EXPRS];
    bool is_tile = s->kind == TILE_COPY || s->kind == TILE_FILL || s->kind == TILE_REDUCE || s->kind == TILE_GEMM;
    if (thread_is_spread(s) || is_tile) {
        int count = fragments_uses(g, s, use);
        for (int i = 0; i < count; i++)
            if (!use[i].is_good)
                to_shared(g, use[i].buffer);
        if (is_tile || thread_is_spread(s)) { // what origins and extents read
            count = tile_stmt_exprs(s, root);
            thread_expr_accesses(g, count, root, share_access, NULL);
        }
        if (s->kind == TILE_REDUCE && !is_fragment(g, s->region[0].buffer))
            to_shared(g, s->region[1].buffer);
    } else
        thread_accesses(g, s, share_access, NULL);
}

static void choose_alone(struct group *g, const struct tile_buffer *b) {
    int64_t size[TILE_DIMS], count = 1;
    struct layout l;
    for (int i = 0; i < b->ndim; i++) {
        size[i] = fragments_number(b->shape[i]);
        count *= size[i] > 0 ? size[i] : 0;
    }
    bool good = count > 0 && count < 1 << 20 && layout_blocked(&l, b->ndim, size, g->threads, 16 / tile_type_bytes(b->type));
    if (good && (count < g->threads || layout_copies(&l) == 1))
        settle(g, b, &l);
    else
        to_shared(g, b);
}

static bool decide_next(struct group *g, const struct tile_stmt *body, int wanted) {
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC && is_fragment(g, body->buffer) && !held(g, body->buffer)->is_known &&
            body->buffer->ndim == wanted) {
            choose_alone(g, body->buffer);
            return true;
        }
        if (!thread_is_spread(body) && (decide_next(g, body->body, wanted) || decide_next(g, body->other, wanted)))
            return true;
    }
    return false;
}

static void spread_all(struct group *g) {
    do {
        deciding.changed = false;
        each_stmt(g, g->body, spread);
    } while (deciding.changed && !deciding.conflict);
}

static void decide(struct group *g) {
    do {
        deciding = (struct deciding){0};
        for (int i = 0; i < g->buffers; i++)
            g->of[i].is_known = false;
        each_stmt(g, g->body, seed_shared);
        each_stmt(g, g->body, seed_product);
        spread_all(g);
        for (int axes = TILE_DIMS; axes >= 0 && !deciding.conflict; axes--)
            while (!deciding.conflict && decide_next(g, g->body, axes))
                spread_all(g);
    } while (deciding.conflict && !g->failed);
}

// What is held at first -------------------------------------------------------------------------------------------------

static void mark_sums(struct group *g, const struct tile_stmt *s) {
    if (s->kind == TILE_GEMM && s->region[2].buffer->id < g->buffers)
        g->of[s->region[2].buffer->id].is_sum = true;
}

static void mark_rows(struct group *g, const struct tile_stmt *s) {
    bool of_rows = s->kind == TILE_REDUCE && s->axis == s->region[0].buffer->ndim - 1 &&
                   s->region[0].buffer->id < g->buffers && g->of[s->region[0].buffer->id].is_sum;
    bool again = s->kind == TILE_GEMM && s->region[0].buffer->memory == TILE_FRAGMENT;
    g->by_rows = g->by_rows || of_rows || again;
}

static void share_write(struct group *g, const struct access *a, void *data) {
    (void)data;
    if (a->is_write && a->buffer->memory == TILE_REGISTER && a->buffer->id < g->buffers)
        g->of[a->buffer->id].how = HELD_SHARED;
}

// A local buffer that threads write each in its own points is the block's; one that is declared there is the thread's.
static void mark_local(struct group *g, const struct tile_stmt *s) {
    bool is_divided = thread_is_spread(s) || (s->kind >= TILE_COPY && s->kind <= TILE_GEMM);
    if (is_divided)
        thread_accesses(g, s, share_write, NULL);
}

static void hold_inner(struct group *g, const struct tile_stmt *body) {
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC)
            g->of[body->buffer->id].how = HELD_BY_ALL;
        hold_inner(g, body->body);
        hold_inner(g, body->other);
    }
}

// A view is of memory that threads have in common, or of the kernel's.
static void hold_view(struct group *g, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    bool is_here = memory->id < g->buffers && memory->parameter < 0 && g->of[memory->id].how != HELD_AS_IS;
    g->of[b->id].how = is_here ? HELD_SHARED : HELD_AS_IS;
    if (is_here) {
        g->of[memory->id].how = HELD_SHARED;
        g->of[memory->id].has_view = true;
    }
}

static void hold(struct group *g, const struct tile_stmt *s) {
    if (s->kind == TILE_ALLOC && s->buffer->base)
        hold_view(g, s->buffer);
    else if (s->kind == TILE_ALLOC)
        g->of[s->buffer->id].how = s->buffer->memory == TILE_FRAGMENT   ? HELD_IN_REGISTERS
                                   : s->buffer->memory == TILE_REGISTER ? HELD_BY_ALL
                                                                        : HELD_SHARED;
}

static void hold_in_maps(struct group *g, const struct tile_stmt *s) {
    if (thread_is_spread(s))
        hold_inner(g, s->body);
}

bool fragments_place(struct group *g) {
    each_stmt(g, g->body, hold);
    each_stmt(g, g->body, mark_local);
    each_stmt(g, g->body, hold_in_maps);
    each_stmt(g, g->body, mark_sums);
    each_stmt(g, g->body, mark_rows);
    decide(g);
    return !g->failed;
}
