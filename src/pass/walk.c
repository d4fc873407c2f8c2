// walk.c - looks at the nodes of a kernel, each once: expressions share operands, so paths are many more than
// nodes.

#include "pass/pass.h"

// Operands first, from left to right: an order that the formula gives, not the compiler that built it, which may
// evaluate the arguments of a call in any order.
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

// Indices are small sums of products: walking their paths is cheap.
static bool depends(expr e, const struct tile_name *variable) {
    if (e->op == TILE_INDEX)
        return e->name == variable;
    for (int i = 0; i < tile_operands(e); i++)
        if (depends(tile_operand(e, i), variable))
            return true;
    return false;
}

enum pass_step pass_step_of(expr index, const struct tile_name *variable) {
    if (index->op == TILE_INDEX && index->name == variable)
        return PASS_UNIT;
    if (!depends(index, variable))
        return PASS_FIXED;
    if (index->op != TILE_ADD)
        return PASS_OTHER;
    enum pass_step a = pass_step_of(index->arg[0], variable), b = pass_step_of(index->arg[1], variable);
    return (a == PASS_UNIT && b == PASS_FIXED) || (a == PASS_FIXED && b == PASS_UNIT) ? PASS_UNIT
                                                                                      : PASS_OTHER;
}
