// vectorise.c - turns maps whose accesses all advance by one element per point, or stay, into vector loops.
//
// The loop keeps its scalar body: only the renderer's header knows how many elements a register holds.

#include "pass/pass.h"

// Returns whether an access advances by one element with the variable, along the last axis alone, or stays.
static bool is_regular(int indices, const expr *index, const struct tile_name *variable) {
    for (int i = 0; i + 1 < indices; i++)
        if (pass_step_of(index[i], variable) != PASS_FIXED)
            return false;
    return !indices || pass_step_of(index[indices - 1], variable) != PASS_OTHER;
}

static bool is_vector_node(expr e, const struct tile_name *variable) {
    if (e->op == TILE_LOAD)
        return !e->args && is_regular(e->indices, e->index, variable);
    return e->op != TILE_INDEX && e->op != TILE_LOCAL && e->op != TILE_SYMBOL;
}

static bool is_vector_store(const struct tile_stmt *s, const struct tile_name *variable) {
    return s->kind == TILE_STORE && !s->mask && s->indices && is_regular(s->indices, s->index, variable) &&
           pass_step_of(s->index[s->indices - 1], variable) == PASS_UNIT;
}

static bool can_vectorise(const struct tile_kernel *kernel, const struct tile_stmt *map, bool *can) {
    *can = map->kind == TILE_MAP && map->indices == 1 && map->body;
    for (const struct tile_stmt *s = map->body; *can && s; s = s->next)
        *can = is_vector_store(s, map->name[0]);
    if (!*can)
        return true;
    expr *node;
    int count = pass_nodes(kernel, map->body, &node);
    for (int i = 0; i < count; i++)
        *can = *can && is_vector_node(node[i], map->name[0]);
    memory_free(node);
    return count >= 0;
}

bool pass_vectorise(struct tile_kernel *kernel, const struct target *target) {
    for (struct tile_stmt *s = kernel->body; target->is_vector && s; s = s->next) {
        bool can;
        if (!can_vectorise(kernel, s, &can))
            return false;
        if (can)
            s->loop = TILE_VECTOR;
    }
    return true;
}
