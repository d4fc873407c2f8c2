// elaborate.c - builds the code of expressions from their syntax trees.
//
// A literal without suffix takes the type of the operands beside it, else the type that the context expects,
// else f32 or the index type. The same holds for the identity of an op.

#include "tile/parse.h"

static expr elaborate_literal(struct parser *p, const struct node *n, struct tile_type type) {
    uint64_t bits;
    const char *why = tile_literal_bits(&n->literal, type, &bits);
    if (why)
        return parse_fail(p, n->place, "%s%.*s as %s: %s", n->literal.negative ? "-" : "", n->literal.len,
                          n->literal.text, tile_type_name(type), why);
    return tile_const_bits(type, bits);
}

// Returns the type of literals in an expression whose operands do not tell it.
static struct tile_type default_type(const struct node *n, const struct tile_type *expected) {
    if (expected)
        return *expected;
    return n->has_float ? (struct tile_type){TILE_FLOAT, 32, 1} : tile_index_type();
}

static struct tile_type operand_type(const struct node *n, const struct tile_type *expected) {
    for (int i = 0; i < n->args; i++)
        if (tile_expectation(n->op, i) == EXPECT_SAME && n->arg[i]->is_typed)
            return n->arg[i]->type;
    return default_type(n, tile_op_gives_same(n->op) ? expected : NULL);
}

// Where a param decides the condition of a select, returns the operand that it chooses: passes determine the
// ranges of sizes and indices, and would take both operands to be possible.
static expr elaborate_choice(const struct node *n, const expr *arg) {
    bool is_true;
    expr e = tile_ternary(n->op, arg[0], arg[1], arg[2]);
    bool is_decided = e && n->op == TILE_SELECT && n->arg[0]->has_param && parse_decides(arg[0], &is_true);
    return is_decided ? arg[is_true ? 1 : 2] : e;
}

static expr elaborate_op(struct parser *p, struct node *n, const struct tile_type *expected) {
    struct tile_type same = operand_type(n, expected);
    expr arg[3] = {NULL};
    for (int i = 0; i < n->args; i++) {
        enum tile_expectation expectation = tile_expectation(n->op, i);
        const struct tile_type *type = expectation == EXPECT_SAME ? &same : tile_expected_type(expectation);
        if (!(arg[i] = parse_elaborate(p, n->arg[i], type)))
            return NULL;
    }
    if (n->args == 1)
        return tile_unary(n->op, arg[0]);
    return n->args == 2 ? tile_binary(n->op, arg[0], arg[1]) : elaborate_choice(n, arg);
}

static expr elaborate_load(struct parser *p, struct node *n) {
    static const struct tile_type truth = {TILE_BOOL, 1, 1};
    struct tile_type index_type = tile_index_type();
    expr arg[2 + TILE_DIMS];
    int masked = n->is_masked ? 2 : 0;
    for (int i = 0; i < n->args; i++) {
        const struct tile_type *type = i >= masked ? &index_type : i == 0 ? &truth : &n->buffer->type;
        if (!(arg[i] = parse_elaborate(p, n->arg[i], type)))
            return NULL;
    }
    return tile_load(n->buffer, n->args - masked, arg + masked, masked ? arg[0] : NULL,
                     masked ? arg[1] : NULL);
}

static expr elaborate_complex(struct parser *p, struct node *n) {
    static const struct tile_type f32 = {TILE_FLOAT, 32, 1};
    expr re = elaborate_literal(p, n->arg[0], f32), im = re ? elaborate_literal(p, n->arg[1], f32) : NULL;
    return im ? tile_const_bits(n->type, re->bits | im->bits << 32) : NULL;
}

static expr elaborate_identity(struct parser *p, const struct node *n, struct tile_type type) {
    uint64_t bits;
    if (type.lanes == 1 && tile_identity(n->op, type, &bits))
        return tile_const_bits(type, bits);
    return parse_fail(p, n->place, "%s does not combine %s: it has no identity", tile_op_name(n->op),
                      tile_type_name(type));
}

// A literal without suffix takes the type that it is cast to, if that type has the number: f64(0.1) is not
// rounded to f32.
static expr elaborate_cast(struct parser *p, struct node *n) {
    const struct node *number = n->arg[0];
    uint64_t bits;
    if (number->kind == NODE_IDENTITY)
        return elaborate_identity(p, number, n->type);
    if (number->kind == NODE_LITERAL && !number->is_typed && n->type.lanes == 1 &&
        !tile_literal_bits(&number->literal, n->type, &bits))
        return tile_const_bits(n->type, bits);
    expr x = parse_elaborate(p, n->arg[0], NULL);
    return x ? tile_cast(n->type, x) : NULL;
}

static expr elaborate(struct parser *p, struct node *n, const struct tile_type *expected) {
    expr x;
    switch (n->kind) {
    case NODE_LITERAL: return elaborate_literal(p, n, n->is_typed ? n->type : default_type(n, expected));
    case NODE_VALUE: return n->value;
    case NODE_LOAD: return elaborate_load(p, n);
    case NODE_OP: return elaborate_op(p, n, expected);
    case NODE_COMPLEX: return elaborate_complex(p, n);
    case NODE_IDENTITY: return elaborate_identity(p, n, default_type(n, expected));
    case NODE_CAST: return elaborate_cast(p, n);
    default: x = parse_elaborate(p, n->arg[0], NULL); return x ? tile_bitcast(n->type, x) : NULL;
    }
}

expr parse_elaborate(struct parser *p, struct node *n, const struct tile_type *expected) {
    if (!n || p->failed)
        return NULL;
    expr e = elaborate(p, n, expected);
    return e ? e : parse_fail_moved(p, n->place);
}

// What statements ask for -----------------------------------------------------------------------------------

expr parse_expr(struct parser *p, const struct tile_type *expected) {
    struct node *n = parse_node(p);
    expr e = parse_elaborate(p, n, expected);
    if (e && expected && !tile_type_equal(e->type, *expected))
        return parse_fail(p, n->place, "this is %s and must be %s; write the cast %s(...)",
                          tile_type_name(e->type), tile_type_name(*expected), tile_type_name(*expected));
    return e;
}

expr parse_index(struct parser *p) {
    struct tile_type type = tile_index_type();
    return parse_expr(p, &type);
}

expr parse_truth(struct parser *p) {
    static const struct tile_type truth = {TILE_BOOL, 1, 1};
    return parse_expr(p, &truth);
}

int parse_list(struct parser *p, expr *out) {
    struct tile_type type = tile_index_type();
    int count = 0;
    if (!parse_expect(p, "["))
        return -1;
    while (!parse_is(p, "]")) {
        if (count == TILE_DIMS) {
            parse_fail(p, p->token.place, "more than %d axes", TILE_DIMS);
            return -1;
        }
        if (!(out[count++] = parse_elaborate(p, parse_node(p), &type)) ||
            (!parse_is(p, "]") && !parse_expect(p, ",")))
            return -1;
    }
    parse_next(p);
    return p->failed ? -1 : count;
}
