// strips.c - makes tiles fit into the lanes: statements that use a tile that is too large become a loop over
// strips along an axis of it.
//
//     copy A[b * 512, 0] -> t ; reduce add t -> s axis 1 ; copy s -> y[b * 512]
//
// becomes, with tiles of 64 rows,
//
//     for k in 8 {
//         copy A[b * 512 + k * 64, 0] -> t ; reduce add t -> s axis 1 ; copy s -> y[b * 512 + k * 64]
//     }
//
// One tile is cut along an axis, and with it every tile that a statement accesses with the same indices.
// Reductions along that axis combine one strip after the other. Statements between them that touch none of
// these tiles go before or behind the loop.

#include "pass/strips.h"

#include <string.h>

struct cut *strips_cut(struct strips *p, const struct tile_buffer *b) {
    for (int i = 0; i < p->cuts; i++)
        if (p->cut[i].old == b)
            return &p->cut[i];
    return NULL;
}

bool strips_touch(const struct strips *p, const struct tile_stmt *s) {
    for (int i = 0; i < p->cuts; i++)
        if (pass_touches(s, p->cut[i].old))
            return true;
    return false;
}

// Which axis of which tile ----------------------------------------------------------------------------------

static void add_cut(struct strips *p, const struct tile_buffer *b, int axis) {
    const struct cut *known = strips_cut(p, b);
    if (known || p->cuts == STRIPS_CUTS || b->base || b->stride || pass_number(b->shape[axis]) != p->extent) {
        p->good = p->good && known && known->axis == axis;
        return;
    }
    p->cut[p->cuts++] = (struct cut){.old = b, .axis = axis};
    p->changed = true;
}

static bool begins_at_0(const struct tile_region *r, int axis) {
    return !r->origin || pass_number(r->origin[axis]) == 0;
}

static int axis_of_pair(const int *of, int ndim, int axis) {
    for (int i = 0; i < ndim; i++)
        if (of[i] == axis)
            return i;
    return -1;
}

static bool copy_axes(struct strips *p, const struct tile_stmt *s, int *axis) {
    int of[2][TILE_DIMS], sized = tile_region_is_sized(&s->region[0]) ? 0 : 1;
    tile_pair(&s->region[0], &s->region[1], of[0], of[1]);
    for (int side = 0; side < 2; side++) {
        const struct cut *c = strips_cut(p, s->region[side].buffer);
        const struct tile_buffer *other = s->region[!side].buffer;
        if (!c)
            continue;
        int in_other = of[side][c->axis] < 0 ? -1 : axis_of_pair(of[!side], other->ndim, of[side][c->axis]);
        if (in_other < 0)
            return false;
        axis[side] = c->axis;
        axis[!side] = in_other;
    }
    return pass_number(tile_region_size(&s->region[sized], axis[sized])) == p->extent;
}

static bool line_axes(struct strips *p, const struct tile_stmt *s, int *axis) {
    const struct cut *from = strips_cut(p, s->region[0].buffer), *to = strips_cut(p, s->region[1].buffer);
    bool keeps = s->region[0].buffer->ndim == s->region[1].buffer->ndim;
    axis[0] = from ? from->axis : keeps ? to->axis : to->axis + (to->axis >= s->axis);
    axis[1] = keeps ? axis[0] : axis[0] - (axis[0] > s->axis);
    if (axis[0] == s->axis)
        axis[1] = -1;
    return (axis[0] != s->axis || s->kind == TILE_REDUCE) &&
           pass_number(tile_region_size(&s->region[0], axis[0])) == p->extent;
}

// The result has the rows of a and the columns of b; a and b share the depth.
static bool product_axes(struct strips *p, const struct tile_stmt *s, int *axis) {
    enum { ROWS, COLUMNS, DEPTH };
    const int of[3][2] = {{s->transpose[0] ? DEPTH : ROWS, s->transpose[0] ? ROWS : DEPTH},
                          {s->transpose[1] ? COLUMNS : DEPTH, s->transpose[1] ? DEPTH : COLUMNS},
                          {ROWS, COLUMNS}};
    int which = -1;
    for (int i = 0; i < 3; i++) {
        const struct cut *c = strips_cut(p, s->region[i].buffer);
        int at = c ? c->axis - s->region[i].buffer->ndim + 2 : 0;
        if (c && (at < 0 || (which >= 0 && which != of[i][at])))
            return false;
        which = c ? of[i][at] : which;
    }
    for (int i = 0; i < 3; i++)
        for (int at = 0; at < 2; at++)
            if (of[i][at] == which)
                axis[i] = s->region[i].buffer->ndim - 2 + at;
    return true;
}

bool strips_axes(struct strips *p, const struct tile_stmt *s, int *axis) {
    axis[0] = axis[1] = axis[2] = -1;
    switch (s->kind) {
    case TILE_COPY: return copy_axes(p, s, axis);
    case TILE_FILL: axis[1] = strips_cut(p, s->region[1].buffer)->axis; return true;
    case TILE_REDUCE:
    case TILE_SCAN: return line_axes(p, s, axis);
    case TILE_GEMM: return product_axes(p, s, axis);
    default: return false;
    }
}

// Returns whether an expression of a statement, such as a size or an index, loads from a tile that is cut.
static bool depends_on_cut(const struct strips *p, const struct tile_stmt *s) {
    expr list[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, list);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < p->cuts; k++)
            if (pass_loads(list[i], p->cut[k].old))
                return true;
    return false;
}

static void join_regions(struct strips *p, const struct tile_stmt *s) {
    int axis[3];
    p->good = p->good && strips_axes(p, s, axis);
    for (int i = 0; p->good && i < 3; i++) {
        const struct tile_region *r = &s->region[i];
        if (!r->buffer || !lanes_is_local(r->buffer))
            continue;
        if (axis[i] < 0)
            p->good = !strips_cut(p, r->buffer);
        else {
            bool is_all =
                begins_at_0(r, axis[i]) && (!r->extent || pass_number(r->extent[axis[i]]) == p->extent);
            p->good = is_all;
            add_cut(p, r->buffer, axis[i]);
        }
    }
}

// Maps ------------------------------------------------------------------------------------------------------

static int variable_of(const struct tile_stmt *map, expr index) {
    while (index->op == TILE_CAST)
        index = index->arg[0];
    for (int i = 0; index->op == TILE_INDEX && i < map->indices; i++)
        if (map->name[i] == index->name)
            return i;
    return -1;
}

// A search for the variable of a map that indexes the cut axes or, if that is known, for other tiles that it
// indexes.
struct map_join {
    struct strips *p;
    const struct tile_stmt *map;
    int variable; // -1: not known
    bool is_known;
};

static void join_access(struct map_join *m, const struct tile_buffer *b, const expr *index, bool writes) {
    struct strips *p = m->p;
    const struct cut *c = strips_cut(p, b);
    if (!m->is_known) {
        int found = c ? variable_of(m->map, index[c->axis]) : m->variable;
        p->good = p->good && (!c || (found >= 0 && (m->variable < 0 || m->variable == found)));
        m->variable = found;
        return;
    }
    if (!lanes_is_local(b) || pass_is_made_in(m->map->body, tile_memory_of(b)))
        return;
    int along = 0;
    for (int i = 0; i < b->ndim; i++)
        if (pass_depends(index[i], m->map->name[m->variable])) {
            p->good = p->good && variable_of(m->map, index[i]) == m->variable;
            add_cut(p, b, i);
            along++;
        }
    p->good = p->good && along <= 1 && (along || !writes);
}

static bool join_load(expr e, const void *data) {
    if (e->op == TILE_LOAD)
        join_access((struct map_join *)data, e->buffer, e->index, false);
    return false;
}

static void join_block(struct map_join *m, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && m->p->good; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], join_load, m);
        if (s->kind == TILE_STORE || s->kind == TILE_ATOMIC)
            join_access(m, s->buffer, s->index, true);
        join_block(m, s->body);
        join_block(m, s->other);
    }
}

int strips_variable(struct strips *p, const struct tile_stmt *map) {
    struct map_join m = {.p = p, .map = map, .variable = -1};
    join_block(&m, map->body);
    return m.variable;
}

static void join_map(struct strips *p, const struct tile_stmt *s) {
    struct map_join m = {.p = p, .map = s, .variable = strips_variable(p, s), .is_known = true};
    p->good = p->good && m.variable >= 0 && pass_number(s->extent[m.variable]) == p->extent;
    if (p->good)
        join_block(&m, s->body);
}

// Statements ------------------------------------------------------------------------------------------------

static bool has_bodies(const struct tile_stmt *s) {
    return s->kind == TILE_FOR || s->kind == TILE_IF;
}

static void join_list(struct strips *p, const struct tile_stmt *list) {
    for (const struct tile_stmt *s = list; s && p->good; s = s->next) {
        if (s->kind == TILE_ALLOC) {
            p->good = !s->buffer->base || !strips_cut(p, tile_memory_of(s->buffer));
            continue;
        }
        if (!strips_touch(p, s))
            continue;
        p->good = !depends_on_cut(p, s);
        if (!p->good)
            return;
        if (s->kind == TILE_MAP)
            join_map(p, s);
        else if (has_bodies(s)) {
            join_list(p, s->body);
            join_list(p, s->other);
        } else
            join_regions(p, s);
    }
}

// Order -----------------------------------------------------------------------------------------------------

static const struct tile_buffer *written_by(const struct tile_stmt *s) {
    const struct tile_buffer *b = s->kind == TILE_STORE || s->kind == TILE_ATOMIC ? s->buffer
                                  : s->kind == TILE_GEMM                          ? s->region[2].buffer
                                                                                  : s->region[1].buffer;
    return b ? tile_memory_of(b) : NULL;
}

static bool writes_of(const struct tile_stmt *s, const void *other) {
    const struct tile_buffer *memory = written_by(s);
    return memory && pass_touches(other, memory);
}

static bool uses_local(expr e, const void *name) {
    return e->op == TILE_LOCAL && e->name == name;
}

static bool reads_name(const struct tile_stmt *s, const void *name) {
    expr list[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, list);
    bool reads = s->kind == TILE_ASSIGN && s->name[0] == name;
    for (int i = 0; i < count && !reads; i++)
        reads = pass_any(list[i], uses_local, name);
    return reads;
}

static bool assigns_of(const struct tile_stmt *s, const void *other) {
    const struct tile_name *name = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
    return name && pass_find(other, reads_name, name);
}

// Returns whether two statements must keep their order.
static bool conflict(const struct tile_stmt *a, const struct tile_stmt *b) {
    struct tile_stmt one = *a, two = *b;
    one.next = two.next = NULL;
    return pass_find(&one, writes_of, &two) || pass_find(&two, writes_of, &one) ||
           pass_find(&one, assigns_of, &two) || pass_find(&two, assigns_of, &one);
}

// Statements of the loop, without those that contain others.
struct leaves {
    const struct tile_stmt *of[STRIPS_LEAVES],
        *outer[STRIPS_LEAVES]; // the statement of the list that contains it
    int count;
};

static void add_leaves(struct leaves *v, const struct tile_stmt *outer, const struct tile_stmt *s) {
    if (!has_bodies(s)) {
        if (v->count < STRIPS_LEAVES && s->kind != TILE_ALLOC) {
            v->of[v->count] = s;
            v->outer[v->count] = outer;
        }
        v->count += s->kind != TILE_ALLOC;
        return;
    }
    for (int i = 0; i < 2; i++)
        for (const struct tile_stmt *t = i ? s->other : s->body; t; t = t->next)
            add_leaves(v, outer, t);
}

bool strips_adds_up(struct strips *p, const struct tile_stmt *s) {
    int axis[3];
    return (s->kind == TILE_REDUCE || s->kind == TILE_GEMM) && strips_axes(p, s, axis) &&
           axis[s->kind == TILE_GEMM ? 2 : 1] < 0;
}

static const struct tile_region *region_of(const struct tile_stmt *s, const struct tile_buffer *memory) {
    for (int i = 0; i < 2; i++)
        if (s->region[i].buffer == memory)
            return &s->region[i];
    return NULL;
}

// Returns whether two statements copy from or to the same rectangle of device memory, so that their different
// strips do not overlap.
static bool are_alike(const struct tile_stmt *a, const struct tile_stmt *b,
                      const struct tile_buffer *memory) {
    const struct tile_region *x = region_of(a, memory), *y = region_of(b, memory);
    if (a->kind != TILE_COPY || b->kind != TILE_COPY || !x || !y || !x->origin || !y->origin)
        return false;
    return !memcmp(x->origin, y->origin, sizeof *x->origin * (size_t)memory->ndim);
}

// Returns whether a statement of the loop that touches no strip may be repeated for each strip. What it
// writes has to be a variable, or a tile that is set as a whole first, and only the same statement of the
// list may use it.
static bool can_repeat(const struct leaves *v, const struct tile_stmt *list, int at) {
    const struct tile_stmt *s = v->of[at], *outer = v->outer[at], *first = NULL;
    const struct tile_buffer *memory = written_by(s);
    for (const struct tile_stmt *t = list; t; t = t->next) {
        struct tile_stmt alone = *t;
        alone.next = NULL;
        bool is_other = t != outer && t->kind != TILE_ALLOC;
        if (is_other && ((memory && pass_touches(t, memory)) ||
                         (s->kind == TILE_ASSIGN && pass_find(&alone, reads_name, s->name[0]))))
            return false;
    }
    if (!memory)
        return s->kind == TILE_ASSIGN;
    for (int i = 0; i < v->count && !first; i++)
        first = v->outer[i] == outer && pass_touches(v->of[i], memory) ? v->of[i] : NULL;
    return lanes_is_local(memory) && first && (first->kind == TILE_COPY || first->kind == TILE_FILL) &&
           first->region[1].buffer == memory && !first->region[1].origin;
}

static bool writes_far_of(const struct tile_stmt *s, const void *other) {
    const struct tile_buffer *memory = written_by(s);
    return memory && !lanes_is_local(memory) && pass_touches(other, memory) && !are_alike(s, other, memory);
}

// Returns whether a statement writes device memory that another one accesses as another rectangle.
static bool meet(const struct tile_stmt *a, const struct tile_stmt *b) {
    struct tile_stmt alone = *a;
    alone.next = NULL;
    return pass_find(&alone, writes_far_of, b);
}

// Returns whether the statements of the loop may run for one strip after the other.
static bool can_follow(struct strips *p, const struct tile_stmt *list, const struct leaves *v) {
    if (v->count > STRIPS_LEAVES)
        return false;
    for (int i = 0; i < v->count; i++) {
        const struct tile_stmt *s = v->of[i];
        const struct tile_buffer *memory = written_by(s);
        bool adds_up = strips_touch(p, s) && strips_adds_up(p, s);
        if (!strips_touch(p, s) && !can_repeat(v, list, i))
            return false;
        if (adds_up && s->clear && v->outer[i] != s)
            return false;
        for (int k = 0; k < v->count; k++)
            if (k != i && (meet(s, v->of[k]) || (adds_up && pass_touches(v->of[k], memory))))
                return false;
    }
    return true;
}

// Finds the first and the last statement that touches a strip, and the place of each statement between them.
// Returns false if no loop is possible.
static bool order(struct strips *p, const struct tile_stmt *list) {
    struct leaves leaves = {.count = 0};
    p->first = p->last = NULL;
    for (const struct tile_stmt *s = list; s; s = s->next)
        if (s->kind != TILE_ALLOC && strips_touch(p, s)) {
            p->first = p->first ? p->first : s;
            p->last = s;
        }
    if (!p->first)
        return false;
    p->count = 0;
    for (const struct tile_stmt *s = p->first; s != p->last->next; s = s->next) {
        if (p->count == STRIPS_STATEMENTS || s->kind == TILE_BREAK)
            return false;
        enum strips_place place = s->kind == TILE_ALLOC ? STRIPS_BEFORE
                                  : strips_touch(p, s)  ? STRIPS_INSIDE
                                                        : STRIPS_BEFORE;
        for (int i = 0; i < p->count && place == STRIPS_BEFORE && s->kind != TILE_ALLOC; i++)
            if (p->place[i] != STRIPS_BEFORE && conflict(p->statement[i], s))
                place = STRIPS_BEHIND;
        for (int i = 0; i < p->count && place == STRIPS_INSIDE; i++)
            if (p->place[i] == STRIPS_BEHIND && conflict(p->statement[i], s))
                return false;
        if (place == STRIPS_INSIDE)
            add_leaves(&leaves, s, s);
        p->statement[p->count] = s;
        p->place[p->count++] = place;
    }
    return can_follow(p, list, &leaves);
}

// Returns whether a statement allocates a buffer.
static bool is_made_in_list(const struct tile_stmt *s, const void *buffer) {
    return s->kind == TILE_ALLOC && s->buffer == buffer;
}

// Cuts a tile along an axis, and all tiles that have to be cut with it. Returns false if that is not
// possible, or if one of them is allocated outside of the list.
static bool cut_along(struct strips *p, const struct tile_stmt *list, const struct tile_buffer *tile,
                      int axis) {
    p->cuts = 0;
    p->good = true;
    p->extent = pass_number(tile->shape[axis]);
    if (p->extent < 4)
        return false;
    add_cut(p, tile, axis);
    do {
        p->changed = false;
        join_list(p, list);
    } while (p->good && p->changed);
    for (int i = 0; p->good && i < p->cuts; i++)
        p->good = pass_find(list, is_made_in_list, p->cut[i].old);
    return p->good && order(p, list);
}

// How much memory -------------------------------------------------------------------------------------------

static int lane_of(const struct tile_buffer *b) {
    return b->ndim < 2 ? -1 : b->ndim == 4 ? 1 : b->ndim - 2;
}

// Returns the bytes of a tile per lane, if no vector is spread across the lanes.
static int64_t bytes_of(struct strips *p, const struct tile_buffer *b) {
    int64_t size[TILE_DIMS], count = tile_type_bytes(lanes_type(b->type));
    const struct cut *c = strips_cut(p, b);
    int lane = lane_of(b);
    for (int i = b->ndim - 1; i >= 0; i--) {
        size[i] = c && c->axis == i ? p->size : MAX_OF(pass_number(b->shape[i]), 1);
        if (!tile_times(count, i == lane ? (size[i] + 63) / 64 : size[i], &count) || count > INT32_MAX)
            return INT32_MAX;
    }
    return lanes_round(count, 64);
}

static bool is_used_between(const struct tile_stmt *from, const struct tile_stmt *end,
                            const struct tile_buffer *tile) {
    for (const struct tile_stmt *s = from; s && s != end; s = s->next)
        if (s->kind != TILE_ALLOC && pass_touches(s, tile))
            return true;
    return false;
}

// Returns the most bytes per lane that the tiles of a list, and of statements in it, need at the same time.
static int64_t most_bytes(struct strips *p, const struct tile_stmt *list) {
    int64_t most = 0;
    for (const struct tile_stmt *s = list; s; s = s->next) {
        int64_t now = s->kind == TILE_MAP ? 0 : MAX_OF(most_bytes(p, s->body), most_bytes(p, s->other));
        for (const struct tile_stmt *a = list; a; a = a->next)
            if (a->kind == TILE_ALLOC && lanes_is_local(a->buffer) && !a->buffer->base &&
                is_used_between(list, s->next, a->buffer) && is_used_between(s, NULL, a->buffer))
                now += bytes_of(p, a->buffer);
        most = MAX_OF(most, now);
    }
    return most;
}

// Chooses the size of strips among the divisors of the axis: the largest with which the tiles need at most an
// eighth of the lanes' memory, or else the smallest with which they need at most three quarters. If the axis
// is across the lanes, strips have a multiple of 64 elements where possible.
static bool choose_size(struct strips *p) {
    int64_t lanes = p->target->lanes->bytes, least = 0;
    bool by_lanes = false;
    for (int i = 0; i < p->cuts; i++)
        by_lanes |= p->cut[i].axis == lane_of(p->cut[i].old);
    by_lanes = by_lanes && p->extent % 64 == 0 && p->extent >= 128;
    for (int64_t size = p->extent / 2; size >= 2; size--) {
        if (p->extent % size || (by_lanes && size % 64))
            continue;
        p->size = size;
        int64_t bytes = most_bytes(p, p->block);
        least = bytes <= lanes / 4 * 3 ? size : least;
        if (bytes <= lanes / 8)
            return true;
    }
    p->size = least;
    return least;
}

// The loop --------------------------------------------------------------------------------------------------

static bool emit(void *data, const struct tile_stmt *s) {
    struct strips *p = data;
    for (int i = 0; i < p->count; i++)
        if (p->statement[i] == s) {
            if (!i)
                strips_emit(p);
            return true;
        }
    return s->kind == TILE_ALLOC && strips_cut(p, s->buffer);
}

static bool is_before(const struct tile_buffer *a, const struct tile_buffer *b, int64_t x, int64_t y) {
    return x > y || (x == y && a->id < b->id);
}

// Tries to cut the tiles of a list, the largest first, each along one axis after the other.
static bool cut_one(struct strips *p, const struct tile_stmt *list) {
    const struct tile_buffer *last = NULL, *next;
    int64_t last_bytes = INT64_MAX, bytes;
    for (;;) {
        next = NULL;
        bytes = 0;
        p->cuts = 0;
        for (const struct tile_stmt *s = list; s; s = s->next) {
            bool is_tile = s->kind == TILE_ALLOC && lanes_is_local(s->buffer) && !s->buffer->base;
            int64_t its = is_tile ? bytes_of(p, s->buffer) : 0;
            if (is_tile && (!last || is_before(last, s->buffer, last_bytes, its)) &&
                (!next || is_before(s->buffer, next, its, bytes))) {
                next = s->buffer;
                bytes = its;
            }
        }
        if (!next || bytes < p->target->lanes->bytes / 16)
            return false;
        for (int axis = 0; axis < next->ndim; axis++)
            if (cut_along(p, list, next, axis) && choose_size(p))
                return true;
        last = next;
        last_bytes = bytes;
    }
}

// Tries to cut a tile in the inner lists first, where a cut affects fewer statements.
static bool cut_in(struct strips *p, const struct tile_stmt *list) {
    for (const struct tile_stmt *s = list; s; s = s->next)
        if (s->kind != TILE_MAP && s->kind != TILE_GRID && (cut_in(p, s->body) || cut_in(p, s->other)))
            return true;
    return cut_one(p, list);
}

// Finds a block whose tiles need too much memory, and a tile to cut in it. pass_strips repeats this, because
// a tile may be cut again.
static bool find_cut(struct strips *p, const struct tile_stmt *body) {
    p->cuts = 0;
    p->block = body;
    if (most_bytes(p, body) > p->target->lanes->bytes / 4 * 3 && cut_in(p, body))
        return true;
    for (const struct tile_stmt *s = body; s; s = s->next)
        if (s->kind == TILE_GRID && find_cut(p, s->body))
            return true;
    return false;
}

bool pass_strips(struct tile_kernel *kernel, const struct target *target) {
    enum { TURNS = 16 };
    if (!target->lanes || !pass_is_simple(kernel))
        return !kernel->failed;
    struct strips *p = memory_zero(sizeof *p);
    for (int i = 0; p && i < TURNS; i++) {
        *p = (struct strips){.target = target};
        tile_resume(kernel);
        bool found = find_cut(p, kernel->body);
        tile_suspend();
        if (!found || !pass_emit_kernel(kernel, emit, p))
            break;
    }
    kernel->failed |= !p;
    memory_free(p);
    return !kernel->failed;
}
