// print_expr.c - prints expressions: names in scope, operators with as few parentheses as possible, and `let`
// lines for large expressions that a statement uses more than once, so that the text is no longer than the
// graph.

#include "tile/syntax.h"

#include <stdio.h>
#include <string.h>

enum { LET_SIZE = 4, LONGEST = 1 << 24 }; // least nodes of a `let`; most characters of a tree

// Names in scope --------------------------------------------------------------------------------------------

const char *tile_bound_text(const struct tile_printer *p, const void *object, int token) {
    for (int i = p->bindings - 1; i >= 0; i--)
        if (p->scope[i].object == object && p->scope[i].token == token)
            return p->scope[i].text;
    return NULL;
}

static bool is_taken(const struct tile_printer *p, const char *text) {
    for (int i = p->bindings - 1; i >= 0; i--)
        if (!strcmp(p->scope[i].text, text))
            return true;
    return tile_is_word(text);
}

const char *tile_bind(struct tile_printer *p, const void *object, int token, const char *wanted) {
    const char *text = arena_text(&p->arena, "%s", wanted);
    for (int i = 1; text && is_taken(p, text); i++)
        text = arena_text(&p->arena, "%s_%d", wanted, i);
    if (!text || !memory_grow(&p->scope, &p->cap, p->bindings + 1, sizeof *p->scope)) {
        p->failed = true;
        return wanted;
    }
    p->scope[p->bindings++] = (struct tile_binding){object, token, text};
    return text;
}

static void print_name(struct tile_printer *p, const void *object, const char *text) {
    const char *bound = tile_bound_text(p, object, 0);
    text_add(&p->out, "%s", bound ? bound : text);
}

void tile_print_indent(struct tile_printer *p) {
    text_add(&p->out, "%*s", p->indent * 2, "");
}

// Operands whose type the reader has to find ----------------------------------------------------------------

static void print_expr(struct tile_printer *p, expr e, int level, const struct tile_type *expected);

// Returns the operand from which a parser learns the type of the others if the context does not tell it: the
// first that is not a constant; -1: none.
static int telling_operand(expr e) {
    for (int i = 0; i < e->args; i++)
        if (tile_expectation(e->op, i) == EXPECT_SAME && e->arg[i]->op != TILE_CONST)
            return i;
    return -1;
}

static void print_arg(struct tile_printer *p, expr e, int at, int level, const struct tile_type *expected) {
    enum tile_expectation expectation = tile_expectation(e->op, at);
    if (expectation != EXPECT_SAME) {
        print_expr(p, e->arg[at], level, tile_expected_type(expectation));
        return;
    }
    int telling = telling_operand(e);
    bool is_told = telling >= 0 && telling != at;
    bool is_known = expected && tile_type_equal(*expected, e->type) && tile_op_gives_same(e->op);
    print_expr(p, e->arg[at], level, is_told || is_known ? &e->arg[at]->type : NULL);
}

// Forms -----------------------------------------------------------------------------------------------------

static void print_call(struct tile_printer *p, expr e, const struct tile_type *expected) {
    if (e->op == TILE_CAST)
        text_add(&p->out, "%s(", tile_type_name(e->type));
    else if (e->op == TILE_BITCAST)
        text_add(&p->out, "bits<%s>(", tile_type_name(e->type));
    else
        text_add(&p->out, "%s(", tile_op_name(e->op));
    for (int i = 0; i < e->args; i++) {
        text_add(&p->out, i ? ", " : "");
        print_arg(p, e, i, 0, expected);
    }
    text_add(&p->out, ")");
}

static void print_infix(struct tile_printer *p, expr e, int level, const struct tile_type *expected) {
    const struct tile_infix *infix = tile_infix_of(e->op);
    bool is_inner = infix->level < level;
    int left = infix->level == LEVEL_COMPARE ? infix->level + 1 : infix->level;
    text_add(&p->out, is_inner ? "(" : "");
    print_arg(p, e, 0, left, expected);
    text_add(&p->out, " %s ", infix->text);
    print_arg(p, e, 1, infix->level + 1, expected);
    text_add(&p->out, is_inner ? ")" : "");
}

static void print_prefix(struct tile_printer *p, expr e, const struct tile_type *expected) {
    text_add(&p->out, e->op == TILE_NEG ? "-" : "!");
    print_arg(p, e, 0, LEVEL_UNARY, expected);
}

static void print_load(struct tile_printer *p, expr e) {
    static const struct tile_type truth = {TILE_BOOL, 1, 1};
    text_add(&p->out, e->args ? "load(" : "");
    print_name(p, e->buffer, e->buffer->text);
    text_add(&p->out, "[");
    for (int i = 0; i < e->indices; i++) {
        text_add(&p->out, i ? ", " : "");
        print_expr(p, e->index[i], 0, &p->index_type);
    }
    text_add(&p->out, "]");
    if (!e->args)
        return;
    text_add(&p->out, ", ");
    print_expr(p, e->arg[0], 0, &truth);
    text_add(&p->out, ", ");
    print_expr(p, e->arg[1], 0, &e->type);
    text_add(&p->out, ")");
}

// Returns whether an op is printed as -x or !x. The negation of a constant is printed as a call, because -1
// would be read as a constant.
static bool is_prefix(expr e) {
    return (e->op == TILE_NEG && e->arg[0]->op != TILE_CONST) || e->op == TILE_NOT;
}

static void print_node(struct tile_printer *p, expr e, int level, const struct tile_type *expected) {
    if (e->op == TILE_CONST)
        tile_print_const(&p->out, e->type, e->bits, expected && tile_type_equal(*expected, e->type));
    else if (e->name)
        print_name(p, e->name, e->name->text);
    else if (e->op == TILE_LOAD)
        print_load(p, e);
    else if (e->op == TILE_ADDRESS)
        text_add(&p->out, "address(%s)", tile_name_text(p, e->buffer, e->buffer->text));
    else if (tile_infix_of(e->op))
        print_infix(p, e, level, expected);
    else if (is_prefix(e))
        print_prefix(p, e, expected);
    else
        print_call(p, e, expected);
}

static void print_expr(struct tile_printer *p, expr e, int level, const struct tile_type *expected) {
    const char *let = tile_operands(e) ? tile_bound_text(p, e, 0) : NULL;
    if (let)
        text_add(&p->out, "%s", let);
    else if (p->out.len > LONGEST)
        text_add(&p->out, "...");
    else
        print_node(p, e, level, expected);
}

void tile_print_operand(struct tile_printer *p, expr e, const struct tile_type *expected) {
    print_expr(p, e, 0, expected);
}

// let -------------------------------------------------------------------------------------------------------

struct usage {
    int uses, size; // size: nodes of the tree, at most LET_SIZE
};

struct sharing {
    struct tile_printer *p;
    struct map usage; // expression -> struct usage
};

static struct usage *count_uses(struct sharing *s, expr e) {
    struct usage *u = map_get(&s->usage, &e, sizeof e);
    if (u) {
        u->uses++;
        return u;
    }
    int size = 1;
    for (int i = 0; i < tile_operands(e); i++) {
        struct usage *operand = count_uses(s, tile_operand(e, i));
        size = MIN_OF(size + (operand ? operand->size : 0), LET_SIZE);
    }
    u = arena_alloc(&s->p->arena, sizeof *u);
    if (!u || !map_set(&s->usage, &e, sizeof e, u)) {
        s->p->failed = true;
        return NULL;
    }
    *u = (struct usage){1, size};
    return u;
}

// Prints the lets of operands first, because a let may use earlier ones. Each expression is visited once;
// then its uses are set to 0.
static void emit_lets(struct sharing *s, expr e) {
    struct usage *u = map_get(&s->usage, &e, sizeof e);
    if (!u || u->uses == 0)
        return;
    bool is_let = u->uses > 1 && u->size >= LET_SIZE;
    u->uses = 0;
    for (int i = 0; i < tile_operands(e); i++)
        emit_lets(s, tile_operand(e, i));
    if (!is_let)
        return;
    char name[16];
    snprintf(name, sizeof name, "t%d", s->p->lets++);
    tile_print_indent(s->p);
    text_add(&s->p->out, "let %s = ", tile_bind(s->p, e, 0, name));
    print_node(s->p, e, 0, NULL);
    text_add(&s->p->out, "\n");
}

void tile_print_lets(struct tile_printer *p, int roots, const expr *root) {
    struct sharing s = {.p = p};
    for (int i = 0; i < roots; i++)
        count_uses(&s, root[i]);
    for (int i = 0; i < roots; i++)
        emit_lets(&s, root[i]);
    map_free(&s.usage);
}

void tile_print_expr(struct text *out, expr e) {
    struct tile_printer p = {.out = *out, .index_type = {TILE_INT, 64, 1}};
    if (e)
        print_expr(&p, e, 0, NULL);
    else
        text_add(&p.out, "NULL");
    *out = p.out;
    arena_free(&p.arena);
    memory_free(p.scope);
}
