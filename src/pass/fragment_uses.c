// fragment_uses.c - finds how statements use tiles in registers and which thread executes which of their
// points, and divides products among subgroups.

#include "pass/threads.h"

#include <string.h>

bool fragments_is_held(const struct group *g, const struct tile_buffer *b) {
    return b->memory == TILE_FRAGMENT && thread_is_held(g, b);
}

// How a statement uses tiles in registers -------------------------------------------------------------------

bool fragments_is_whole(const struct tile_region *r, const struct tile_region *other) {
    int mine[TILE_DIMS], theirs[TILE_DIMS], axes = other ? tile_pair(r, other, mine, theirs) : 0;
    for (int i = 0; i < r->buffer->ndim; i++) {
        int64_t size = pass_number(r->buffer->shape[i]), taken = r->extent ? pass_number(r->extent[i]) : size;
        if (r->origin && !r->extent) // as large as the other region
            taken = other && mine[i] < axes ? 1 : -1;
        for (int k = 0; r->origin && !r->extent && other && k < other->buffer->ndim; k++)
            if (mine[i] >= 0 && theirs[k] == mine[i])
                taken = pass_number(tile_region_size(other, k));
        if (taken != size || (r->origin && pass_number(r->origin[i]) != 0))
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
    index = thread_without_casts(index);
    for (int i = 0; index->op == TILE_INDEX && i < s->indices; i++)
        if (s->name[i] == index->name)
            return i;
    return -1;
}

// Returns how a map uses a tile: each axis is indexed by a variable of its own, or has size 1.
static struct use use_by_index(const struct tile_stmt *s, const struct access *a) {
    struct use u = {.buffer = a->buffer, .is_good = a->index != NULL};
    for (int i = 0; i < TILE_DIMS; i++)
        u.to[i] = LAYOUT_COPIES;
    for (int axis = 0; u.is_good && axis < a->buffer->ndim; axis++) {
        int64_t size = pass_number(a->buffer->shape[axis]);
        int var = var_of(s, a->index[axis]);
        if (var >= 0 && u.to[var] == LAYOUT_COPIES && size > 1) {
            int64_t extent = pass_number(s->extent[var]);
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
    struct use *u = fragments_is_held(g, a->buffer) ? find_use(t, a->buffer, &is_new) : NULL;
    if (!u)
        return;
    struct use this = use_by_index(t->stmt, a);
    if (is_new)
        *u = this;
    else
        u->is_good = u->is_good && same_use(u, &this);
}

// Adds the use of a region. of[axis] is the variable of an axis; -1: the axis stays at its origin.
static void gather_region(struct group *g, struct gather *t, int which, const struct tile_region *other,
                          const int *of) {
    const struct tile_region *r = &t->stmt->region[which];
    bool is_new;
    struct use *u = fragments_is_held(g, r->buffer) ? find_use(t, r->buffer, &is_new) : NULL;
    if (!u)
        return;
    u->is_good = is_new && fragments_is_whole(r, other);
    for (int axis = 0; axis < r->buffer->ndim; axis++) {
        int64_t size = pass_number(r->buffer->shape[axis]);
        if (size > 1 && of[axis] >= 0) {
            u->to[of[axis]] = axis;
            u->size[of[axis]] = size;
        }
        u->is_good = u->is_good && (size == 1 || (size > 1 && of[axis] >= 0));
    }
}

static const int in_order[TILE_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};

// Sets of[axis] for the axes of a result: those of the source without the one that is reduced, which the
// result may have with size 1.
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
        if (fragments_is_held(g, s->region[0].buffer))
            gather_region(g, &t, 1, NULL, of);
    }
    return t.count;
}

// Sweeps ----------------------------------------------------------------------------------------------------

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
    struct box b = box_of_stmt(s);
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

// Returns the use whose layout decides: that of the tile with most variables.
static const struct use *leader(struct group *g, int count, const struct use *use) {
    const struct use *best = NULL;
    for (int i = 0; i < count; i++)
        if (g->of[use[i].buffer->id].is_known && (!best || axes_used(&use[i]) > axes_used(best)))
            best = &use[i];
    return best;
}

// Returns how many adjacent elements along a variable one thread has, by the alignment of tiles, if all
// threads can have as many.
static int64_t vector_along(const struct sweep *w, int var, int count, const struct use *use) {
    int64_t vector = 1;
    for (int i = 0; i < count; i++) {
        const struct tile_buffer *b = use[i].buffer;
        int64_t wanted = b->align ? MIN_OF(b->align, 16) / tile_type_bytes(b->type) : 1;
        if (use[i].to[var] == b->ndim - 1 && w->covered[var] % (wanted * layout_copies(&w->layout)) == 0)
            vector = MAX_OF(vector, wanted);
    }
    return vector;
}

static bool cover(struct group *g, struct sweep *w, const struct use *u, int count, const struct use *use) {
    int back[TILE_DIMS];
    for (int var = 0; var < TILE_DIMS; var++)
        if (u->to[var] != LAYOUT_COPIES)
            back[u->to[var]] = var;
    w->layout = layout_project(&g->of[u->buffer->id].layout, back);
    for (int var = 0; var < w->vars; var++) {
        w->covered[var] = u->to[var] != LAYOUT_COPIES ? u->size[var] : pass_number(w->extent[var]);
        for (int i = 0; i < count && w->covered[var] < 0; i++) // the size of a tile
            w->covered[var] = use[i].to[var] != LAYOUT_COPIES ? use[i].size[var] : -1;
        if (w->covered[var] < 0)
            return false;
        if (u->to[var] == LAYOUT_COPIES)
            layout_extend(&w->layout, var, w->covered[var], vector_along(w, var, count, use));
    }
    return w->has_layout = true;
}

const struct use *fragments_lead(struct group *g, const struct tile_stmt *s, int count, const struct use *use,
                                 struct sweep *w) {
    const struct use *lead = leader(g, count, use);
    if (lead) {
        *w = extents_of(s);
        cover(g, w, lead, count, use);
    }
    return lead;
}

struct sweep fragments_sweep(struct group *g, const struct tile_stmt *s) {
    struct use use[USES];
    struct sweep w;
    int count = fragments_uses(g, s, use);
    return fragments_lead(g, s, count, use, &w) ? w : extents_of(s);
}

// Products --------------------------------------------------------------------------------------------------

static bool is_plain(const struct tile_region *r, int axis) {
    return !r->origin || (pass_number(r->origin[axis]) >= 0 && pass_number(r->origin[axis]) % 8 == 0);
}

// Returns whether a region is in a tile that matrix instructions can read: in memory of the workgroup, in
// rows of whole vectors.
static bool is_operand(const struct group *g, const struct tile_region *r) {
    int last = r->buffer->ndim - 1;
    bool is_here = r->buffer->memory == TILE_SHARED ||
                   (r->buffer->memory == TILE_FRAGMENT && r->buffer->id < g->buffers);
    return is_here && last >= 1 && !r->buffer->stride && pass_number(r->buffer->shape[last]) % 8 == 0 &&
           is_plain(r, last) && is_plain(r, last - 1);
}

static bool has_unit(const struct group *g, const struct tile_stmt *s) {
    const struct target *t = g->target;
    const struct tile_region *c = &s->region[2];
    return t->multiplies && g->threads <= target_matrix_threads(t) && g->threads % SUBGROUP == 0 &&
           is_operand(g, &s->region[0]) && is_operand(g, &s->region[1]) &&
           c->buffer->memory == TILE_FRAGMENT && c->buffer->ndim == 2 && fragments_is_whole(c, NULL) &&
           t->multiplies(tile_dtype_of(s->region[0].buffer->type), tile_dtype_of(s->region[1].buffer->type),
                         tile_dtype_of(c->buffer->type));
}

static bool can_join(const struct group *g, const struct tile_region *b) {
    int64_t row = pass_number(b->buffer->shape[b->buffer->ndim - 1]) * tile_type_bytes(b->buffer->type);
    return g->target->group->joined && row >= 128 && layout_is_power(row);
}

// Divides rows (down) and columns (across) among subgroups: rows alone if rows are reduced; else, if
// subgroups can be joined, such that they have the fewest rows, as their other operand stays in memory; else
// such that each reads the fewest rows and columns.
static void divide(const struct group *g, struct product *p, bool joins) {
    int subgroups = g->threads / SUBGROUP;
    int64_t best = INT64_MAX;
    p->is_matrix = false;
    for (int down = subgroups; down >= 1; down--) {
        int across = subgroups / down;
        if (down * across != subgroups || p->rows % (16 * down) || p->columns % (16 * across))
            continue;
        bool is_joined = joins && down % g->target->group->joined == 0;
        int64_t cost = p->rows / down + (is_joined ? 0 : p->columns / across + INT32_MAX);
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
    struct product p = {.rows = pass_number(box_region_size(a, at_a + s->transpose[0])),
                        .depth = pass_number(box_region_size(a, at_a + !s->transpose[0])),
                        .columns = pass_number(box_region_size(b, at_b + !s->transpose[1]))};
    if (has_unit(g, s) && p.rows > 0 && p.columns > 0 && p.depth > 0 && p.depth % 16 == 0)
        divide(g, &p, can_join(g, b));
    return p;
}
