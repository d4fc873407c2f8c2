// walk.c - visits the nodes of a kernel, each once: expressions share operands, so that there are many more
// paths than nodes.

#include "pass/pass.h"

#include <string.h>

// Lists operands first, from left to right. The formula alone determines this order; ids depend on the
// compiler, which may evaluate the arguments of a call in any order.
static int list_nodes(expr e, bool *seen, expr *nodes, int count) {
    if (seen[e->id])
        return count;
    seen[e->id] = true;
    for (int i = 0; i < e->args; i++)
        count = list_nodes(e->arg[i], seen, nodes, count);
    nodes[count] = e;
    return count + 1;
}

int pass_nodes(const struct tile_kernel *kernel, const struct tile_stmt *body, expr **nodes) {
    int count = 0;
    bool *seen = memory_zero((size_t)(kernel->ids + 1) * sizeof *seen);
    *nodes = memory_zero((size_t)(kernel->ids + 1) * sizeof **nodes);
    if (!seen || !*nodes) {
        memory_free(seen);
        return -1;
    }
    for (const struct tile_stmt *s = body; s; s = s->next)
        if (s->value)
            count = list_nodes(s->value, seen, *nodes, count);
    memory_free(seen);
    return count;
}

// A search that follows every path of an expression as long as these are few, and then remembers the nodes
// that it has seen. Formulas of functions share their parts, and can have too many paths to follow.
enum { FEW_NODES = 64 };

struct search {
    bool (*is)(expr e, const void *data);
    const void *data;
    int left; // nodes that may be visited without a list of those seen
    bool remembers;
    uint8_t *seen; // by id
    int cap;
};

// Returns whether a node was seen before, and marks it as seen. Returns false if there is no memory for that.
static bool was_seen(struct search *s, expr e) {
    int old = s->cap;
    if (e->id >= s->cap) {
        if (!memory_grow(&s->seen, &s->cap, e->id + 1, sizeof *s->seen))
            return false;
        memset(s->seen + old, 0, (size_t)(s->cap - old));
    }
    bool was = s->seen[e->id];
    s->seen[e->id] = true;
    return was;
}

static bool finds(struct search *s, expr e) {
    if (s->remembers ? was_seen(s, e) : s->left-- <= 0)
        return false;
    bool found = s->is(e, s->data);
    for (int i = 0; i < tile_operands(e) && !found; i++)
        found = finds(s, tile_operand(e, i));
    return found;
}

bool pass_any(expr e, bool (*is)(expr e, const void *data), const void *data) {
    struct search s = {.is = is, .data = data, .left = FEW_NODES};
    bool found = finds(&s, e);
    if (found || s.left >= 0)
        return found;
    s.remembers = true;
    found = finds(&s, e);
    memory_free(s.seen);
    return found;
}

static bool is_index(expr e, const void *variable) {
    return e->op == TILE_INDEX && e->name == variable;
}

// Indices are small sums of products: walking their paths is cheap.
bool pass_depends(expr e, const struct tile_name *variable) {
    return pass_any(e, is_index, variable);
}

enum pass_step pass_step_of(expr index, const struct tile_name *variable) {
    if (is_index(index, variable))
        return PASS_UNIT;
    if (!pass_depends(index, variable))
        return PASS_FIXED;
    if (index->op != TILE_ADD)
        return PASS_OTHER;
    enum pass_step a = pass_step_of(index->arg[0], variable), b = pass_step_of(index->arg[1], variable);
    return (a == PASS_UNIT && b == PASS_FIXED) || (a == PASS_FIXED && b == PASS_UNIT) ? PASS_UNIT
                                                                                      : PASS_OTHER;
}

bool pass_is_plain_map(const struct tile_stmt *s) {
    if (s->kind != TILE_MAP || !s->body)
        return false;
    for (const struct tile_stmt *b = s->body; b; b = b->next)
        if (b->kind != TILE_STORE || b->mask)
            return false;
    return true;
}

static bool is_load(expr e, const void *memory) {
    return e->op == TILE_LOAD && tile_memory_of(e->buffer) == memory;
}

bool pass_loads(expr e, const struct tile_buffer *memory) {
    return pass_any(e, is_load, memory);
}

const struct tile_stmt *pass_find(const struct tile_stmt *body,
                                  bool (*is)(const struct tile_stmt *s, const void *data), const void *data) {
    const struct tile_stmt *found = NULL;
    for (const struct tile_stmt *s = body; s && !found; s = s->next) {
        found = is(s, data) ? s : pass_find(s->body, is, data);
        found = found ? found : pass_find(s->other, is, data);
    }
    return found;
}

static bool is_kind(const struct tile_stmt *s, const void *kind) {
    return s->kind == *(const enum tile_stmt_kind *)kind;
}

const struct tile_stmt *pass_find_kind(const struct tile_stmt *body, enum tile_stmt_kind kind) {
    return pass_find(body, is_kind, &kind);
}

static bool uses(const struct tile_stmt *s, const void *memory) {
    expr root[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, root);
    bool used = s->buffer && tile_memory_of(s->buffer) == memory;
    for (int i = 0; i < 3; i++)
        used |= s->region[i].buffer && tile_memory_of(s->region[i].buffer) == memory;
    for (int i = 0; i < count && !used; i++)
        used = root[i] && pass_loads(root[i], memory);
    return used;
}

bool pass_uses(const struct tile_stmt *body, const struct tile_buffer *memory) {
    return pass_find(body, uses, memory);
}

bool pass_touches(const struct tile_stmt *s, const struct tile_buffer *memory) {
    return uses(s, memory) || pass_uses(s->body, memory) || pass_uses(s->other, memory);
}

bool pass_is_made_in(const struct tile_stmt *list, const struct tile_buffer *memory) {
    for (const struct tile_stmt *s = list; s; s = s->next)
        if (s->kind == TILE_ALLOC && s->buffer == memory)
            return true;
    return false;
}

struct tile_stmt *pass_take_alloc(struct tile_stmt **list, const struct tile_buffer *memory) {
    while (*list && ((*list)->kind != TILE_ALLOC || (*list)->buffer != memory))
        list = &(*list)->next;
    struct tile_stmt *alloc = *list;
    if (alloc)
        *list = alloc->next;
    return alloc;
}

enum { PATHS = 2000 }; // a simple formula has fewer

// The number of paths from each node, along which some passes walk formulas. Shared nodes make many.
struct paths {
    int *count; // by id
    bool many;
};

static int count_paths(struct paths *p, expr e) {
    int *count = &p->count[e->id];
    if (!*count) {
        *count = 1;
        for (int i = 0; i < tile_operands(e); i++)
            *count = MIN_OF(*count + count_paths(p, tile_operand(e, i)), PATHS);
    }
    return *count;
}

static void look_at(expr *place, void *data) {
    struct paths *p = data;
    p->many |= count_paths(p, *place) >= PATHS;
}

bool pass_is_simple(struct tile_kernel *kernel) {
    struct paths p = {memory_zero(sizeof *p.count * (size_t)(kernel->ids + 1)), false};
    kernel->failed |= !p.count;
    if (p.count)
        pass_each_expr(kernel->body, look_at, &p);
    memory_free(p.count);
    return !p.many;
}

struct nodes {
    bool *seen; // by id
    void (*visit)(expr e, void *data);
    void *data;
};

static void visit_node(struct nodes *n, expr e) {
    if (n->seen[e->id])
        return;
    n->seen[e->id] = true;
    n->visit(e, n->data);
    for (int i = 0; i < tile_operands(e); i++)
        visit_node(n, tile_operand(e, i));
}

static void visit_place(expr *place, void *nodes) {
    visit_node(nodes, *place);
}

bool pass_each_node(struct tile_kernel *kernel, void (*visit)(expr e, void *data), void *data) {
    struct nodes n = {memory_zero(sizeof *n.seen * (size_t)(kernel->ids + 1)), visit, data};
    kernel->failed |= !n.seen;
    if (n.seen)
        pass_each_expr(kernel->body, visit_place, &n);
    memory_free(n.seen);
    return !kernel->failed;
}

static void note_type(expr e, void *found) {
    zl_dtype dtype = tile_dtype_of((struct tile_type){e->type.kind, e->type.bits, 1});
    *(uint32_t *)found |= dtype < ZL_DTYPE_COUNT ? PASS_BIT(dtype) : 0;
}

uint32_t pass_dtypes(struct tile_kernel *kernel) {
    uint32_t found = 0;
    pass_each_node(kernel, note_type, &found);
    return found;
}
