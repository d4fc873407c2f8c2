// views.c - replaces views that only use the memory of a tile again by tiles, for targets whose tiles are
// spread across lanes: a view of another shape would have its elements in other lanes.
//
// A tile and its views are *names* of one memory. They part if no name is read while it may hold what another
// one wrote: on every path, each read of a name follows a statement that overwrote all of that name, with no
// write by another name since. Parted tiles get addresses by their lifetimes, so that they share memory
// again.

#include "pass/lanes.h"

enum { NAMES = 8 };

struct names {
    struct tile_buffer *name[NAMES]; // the tile, then its views
    int count;
    unsigned own;    // a bit per name: it certainly holds nothing that another name wrote
    unsigned broken; // the same, at every `break` of the current loop
    bool can_part;
};

static const unsigned ALL = (1u << NAMES) - 1;

static unsigned bit_of(const struct names *n, const struct tile_buffer *b) {
    for (int i = 0; i < n->count; i++)
        if (n->name[i] == b)
            return 1u << i;
    return 0;
}

// Reads and writes ------------------------------------------------------------------------------------------

static bool is_load(expr e, const void *buffer) {
    return e->op == TILE_LOAD && e->buffer == buffer;
}

static bool is_store(const struct tile_stmt *s, const void *buffer) {
    return (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && s->buffer == buffer;
}

static void read(struct names *n, const struct tile_buffer *b) {
    if (bit_of(n, b) & ~n->own)
        n->can_part = false;
}

static void write(struct names *n, const struct tile_buffer *b, bool is_all) {
    unsigned bit = bit_of(n, b);
    if (bit)
        n->own = is_all ? bit : n->own & bit;
}

static void read_expressions(struct names *n, const struct tile_stmt *s) {
    expr root[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, root);
    for (int i = 0; i < n->count; i++)
        for (int k = 0; k < count && !(n->own >> i & 1); k++)
            if (root[k] && pass_any(root[k], is_load, n->name[i]))
                n->can_part = false;
}

// Returns the size of a rectangle along an axis; -1: it is not known.
static int64_t size_of(const struct tile_region *r, int axis) {
    return pass_number(tile_region_size(r, axis));
}

// Returns whether a rectangle is known to be all of its buffer.
static bool is_all(const struct tile_region *r) {
    for (int i = 0; i < r->buffer->ndim; i++) {
        int64_t size = pass_number(r->buffer->shape[i]);
        if ((r->origin && pass_number(r->origin[i]) != 0) ||
            (r->extent ? size < 0 || pass_number(r->extent[i]) != size : r->origin != NULL))
            return false;
    }
    return true;
}

// Returns whether a copy reads as much as the buffer that it writes has. If the source has a size, that is
// the size of the copy.
static bool is_as_large(const struct tile_region *from, const struct tile_region *to) {
    int of_from[TILE_DIMS], of_to[TILE_DIMS];
    if (!tile_region_is_sized(from))
        return true;
    tile_pair(from, to, of_from, of_to);
    for (int i = 0; i < to->buffer->ndim; i++) {
        int64_t size = pass_number(to->buffer->shape[i]), given = 1;
        for (int k = 0; k < from->buffer->ndim && of_to[i] >= 0; k++)
            given = of_from[k] == of_to[i] ? size_of(from, k) : given;
        if (size < 0 || given != size)
            return false;
    }
    return true;
}

// Returns whether a reduction or scan has a result for each element of the buffer that it writes.
static bool is_reduced_to(const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    int less = from->buffer->ndim - to->buffer->ndim;
    for (int i = 0; i < to->buffer->ndim; i++) {
        int64_t size = pass_number(to->buffer->shape[i]);
        bool is_reduced = s->kind == TILE_REDUCE && !less && i == s->axis;
        if (size < 0 || size != (is_reduced ? 1 : size_of(from, i + (less && i >= s->axis))))
            return false;
    }
    return true;
}

static bool is_product_of(const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1], *c = &s->region[2];
    return c->buffer->ndim == 2 && a->buffer->ndim == 2 && b->buffer->ndim == 2 &&
           size_of(a, s->transpose[0]) == size_of(c, 0) && size_of(b, !s->transpose[1]) == size_of(c, 1);
}

// Returns whether a statement overwrites all of the buffer that it writes.
static bool overwrites(const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_COPY: return is_all(&s->region[1]) && is_as_large(&s->region[0], &s->region[1]);
    case TILE_FILL:
    case TILE_IM2COL: return is_all(&s->region[1]);
    case TILE_REDUCE:
    case TILE_SCAN: return is_all(&s->region[1]) && is_reduced_to(s);
    case TILE_GEMM: return is_all(&s->region[2]) && is_product_of(s);
    default: return false;
    }
}

// Returns the number of the region that a statement writes; -1: it has none.
static int written_region(const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_COPY:
    case TILE_FILL:
    case TILE_REDUCE:
    case TILE_SCAN:
    case TILE_IM2COL: return 1;
    case TILE_GEMM: return 2;
    default: return -1;
    }
}

static bool is_sum_of_old(const struct tile_stmt *s) {
    return (s->kind == TILE_REDUCE || s->kind == TILE_GEMM) && !s->clear;
}

static void move_regions(struct names *n, const struct tile_stmt *s) {
    int to = written_region(s);
    for (int i = 0; i < 3; i++)
        if (s->region[i].buffer && (i != to || is_sum_of_old(s)))
            read(n, s->region[i].buffer);
    if (to >= 0)
        write(n, s->region[to].buffer, overwrites(s));
}

// Maps ------------------------------------------------------------------------------------------------------

// The points of a map at which a store is executed: for each variable, those below its end; -1: it is not
// known.
struct points {
    const struct tile_stmt *map;
    int64_t end[TILE_DIMS];
};

static bool fills(const struct points *p, const struct tile_stmt *store) {
    const struct tile_buffer *b = store->buffer;
    bool all = store->indices == p->map->indices && store->indices == b->ndim;
    for (int i = 0; all && i < b->ndim; i++) {
        int64_t size = pass_number(b->shape[i]);
        all = size >= 0 && store->index[i]->op == TILE_INDEX && store->index[i]->name == p->map->name[i] &&
              p->end[i] >= size;
    }
    return all;
}

// Returns the bits of the names that stores in these statements overwrite completely, once all points are
// done.
static unsigned filled(const struct names *n, const struct points *p, const struct tile_stmt *body) {
    unsigned bits = 0;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        struct points part = *p;
        if (s->mask && !pass_narrow(p->map, s->mask, part.end))
            continue;
        if (s->kind == TILE_STORE && fills(&part, s))
            bits |= bit_of(n, s->buffer);
        if (s->kind == TILE_IF)
            bits |= filled(n, &part, s->body);
    }
    return bits;
}

static unsigned filled_by_map(const struct names *n, const struct tile_stmt *map) {
    struct points p = {.map = map};
    for (int i = 0; i < map->indices; i++)
        p.end[i] = pass_number(map->extent[i]);
    return filled(n, &p, map->body);
}

// Statements ------------------------------------------------------------------------------------------------

static void follow(struct names *n, const struct tile_stmt *body);

// Follows a body that runs any number of times, to a fixed point: what holds before an iteration must hold
// after it too.
static void follow_rounds(struct names *n, const struct tile_stmt *s) {
    unsigned before, outside = n->broken;
    n->broken = ALL;
    do {
        before = n->own;
        follow(n, s->body);
        read_expressions(n, s);
        n->own &= before;
    } while (n->own != before);
    n->own &= n->broken;
    n->broken = outside;
}

// Follows a map. If it wrote by one name alone, and all of that, it leaves nothing of the others.
static void follow_map(struct names *n, const struct tile_stmt *map) {
    unsigned full = filled_by_map(n, map), written = 0;
    follow_rounds(n, map);
    for (int i = 0; i < n->count; i++)
        written |= pass_find(map->body, is_store, n->name[i]) ? 1u << i : 0;
    if (full && full == written && !(full & (full - 1)))
        n->own = full;
}

static void follow_either(struct names *n, const struct tile_stmt *s) {
    unsigned before = n->own;
    follow(n, s->body);
    unsigned after = n->own;
    n->own = before;
    follow(n, s->other);
    n->own &= after;
}

static void follow_one(struct names *n, const struct tile_stmt *s) {
    read_expressions(n, s);
    switch (s->kind) {
    case TILE_ALLOC:
        if (s->buffer == n->name[0])
            n->own = ALL;
        break;
    case TILE_ATOMIC:
        read(n, s->buffer);
        write(n, s->buffer, false);
        break;
    case TILE_STORE: write(n, s->buffer, false); break;
    case TILE_MAP: follow_map(n, s); break;
    case TILE_FOR:
    case TILE_WHILE:
    case TILE_GRID: follow_rounds(n, s); break;
    case TILE_IF: follow_either(n, s); break;
    case TILE_BREAK: n->broken &= n->own; break;
    case TILE_COPY:
    case TILE_FILL:
    case TILE_REDUCE:
    case TILE_SCAN:
    case TILE_GEMM:
    case TILE_IM2COL:
        n->can_part = n->can_part && !((s->is_async || s->token) && pass_touches(s, n->name[0]));
        move_regions(n, s);
        break;
    case TILE_THREAD:
    case TILE_SHUFFLE:
    case TILE_COMMAND: n->can_part = n->can_part && !pass_touches(s, n->name[0]); break;
    case TILE_ASSIGN:
    case TILE_WAIT:
    case TILE_BARRIER:
    case TILE_ASSERT:
    case TILE_PRINT: break;
    }
}

static void follow(struct names *n, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s && n->can_part; s = s->next)
        follow_one(n, s);
}

// Names -----------------------------------------------------------------------------------------------------

static bool cuts_across(const struct tile_buffer *view) {
    int lane = lanes_axis(view->base->ndim);
    return lane >= 0 && lanes_view_axis(view, lane) < 0;
}

// Collects the views of the first name. Returns false if there are too many.
static bool find_views(struct names *n, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        bool is_view = s->kind == TILE_ALLOC && s->buffer->base && tile_memory_of(s->buffer) == n->name[0];
        if (is_view && n->count == NAMES)
            return false;
        if (is_view)
            n->name[n->count++] = (struct tile_buffer *)(uintptr_t)s->buffer;
        if (!find_views(n, s->body) || !find_views(n, s->other))
            return false;
    }
    return true;
}

static void part(const struct tile_kernel *kernel, const struct tile_buffer *tile) {
    struct names n = {.name = {(struct tile_buffer *)(uintptr_t)tile}, .count = 1, .own = ALL, .broken = ALL};
    n.can_part = find_views(&n, kernel->body);
    follow(&n, kernel->body);
    for (int i = 1; i < n.count && n.can_part; i++)
        n.name[i]->base = NULL;
}

static void part_in(const struct tile_kernel *kernel, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        bool is_tile =
            s->kind == TILE_ALLOC && (s->buffer->memory == TILE_SHARED || s->buffer->memory == TILE_FRAGMENT);
        if (is_tile && s->buffer->base && cuts_across(s->buffer))
            part(kernel, tile_memory_of(s->buffer));
        part_in(kernel, s->body);
        part_in(kernel, s->other);
    }
}

bool pass_views(struct tile_kernel *kernel, const struct target *target) {
    if (target->lanes)
        part_in(kernel, kernel->body);
    return true;
}
