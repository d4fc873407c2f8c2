// branches.c - removes branches of an `if` that params decide, such as `if LANES > 32 { ... }`. They then
// cost nothing: no text, no memory, and no barrier that threads would have to reach together.

#include "tile/parse.h"

static bool is_number(expr e) {
    for (int i = 0; i < tile_operands(e); i++)
        if (!is_number(tile_operand(e, i)))
            return false;
    return e->op == TILE_CONST || (!tile_op_is_leaf(e->op) && e->op != TILE_LOAD);
}

bool parse_decides(expr mask, bool *is_true) {
    bool is_known = is_number(mask);
    *is_true = is_known && tile_bits_of(mask->type, tile_evaluate(mask, NULL)) != 0;
    return is_known;
}

static void decide(struct tile_stmt **at) {
    while (*at) {
        struct tile_stmt *s = *at;
        bool is_true;
        if (s->kind == TILE_IF && parse_decides(s->mask, &is_true)) {
            s->body = is_true ? s->body : s->other;
            s->other = NULL;
            s->mask = tile_const_int(tile_type_of(ZL_BOOL), 1);
        }
        decide(&s->body);
        decide(&s->other);
        if (s->kind == TILE_IF && !s->body && !s->other)
            *at = s->next;
        else
            at = &s->next;
    }
}

bool parse_branches(struct tile_kernel *kernel) {
    tile_resume(kernel);
    decide(&kernel->body);
    tile_suspend();
    return !kernel->failed;
}
