// parse_expr.c - parses expressions of the text form into syntax trees. elaborate.c builds the code once
// types are known.

#include "tile/parse.h"

#include "op/rules.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST_NODE = 4000 };

// Nodes -----------------------------------------------------------------------------------------------------

static struct node *new_node(struct parser *p, enum node_kind kind, struct tile_place place) {
    struct node *n = p->failed ? NULL : arena_alloc(&p->arena, sizeof *n);
    if (!n) {
        p->failed = true;
        return NULL;
    }
    n->kind = kind;
    n->place = place;
    return n;
}

static struct node *typed(struct node *n, struct tile_type type) {
    if (!n)
        return NULL;
    n->is_typed = true;
    n->type = type;
    return n;
}

static struct node *add_arg(struct parser *p, struct node *n, struct node *arg) {
    if (!n || !arg)
        return NULL;
    n->arg[n->args++] = arg;
    n->depth = MAX_OF(n->depth, arg->depth + 1);
    n->has_param = n->has_param || arg->has_param;
    if (n->depth > DEEPEST_NODE)
        return parse_fail(p, n->place, "this expression is nested too deeply; name parts of it with let");
    return n;
}

static struct tile_type part_of(struct tile_type type) {
    return tile_type_is_complex(type) ? (struct tile_type){TILE_FLOAT, 32, type.lanes} : type;
}

// Sets the type of an op, if it follows from its operands without context.
static void find_type(struct node *n) {
    for (int i = 0; i < n->args; i++) {
        const struct node *arg = n->arg[i];
        if (tile_expectation(n->op, i) != EXPECT_SAME)
            continue;
        n->has_float = n->has_float || arg->has_float;
        if (arg->is_typed && !n->is_typed)
            typed(n, arg->type);
    }
    if (tile_op_rule(n->op) & TRUTH)
        typed(n, (struct tile_type){TILE_BOOL, 1, n->is_typed ? n->type.lanes : 1});
    if (tile_op_rule(n->op) & PART)
        n->type = part_of(n->type);
    if (n->op == TILE_RE || n->op == TILE_IM)
        typed(n, (struct tile_type){TILE_FLOAT, 32, 1});
    if (n->op == TILE_PAIR)
        typed(n, (struct tile_type){TILE_COMPLEX, 64, 1});
}

static struct node *op_node(struct parser *p, struct tile_place place, enum tile_op op, int args,
                            struct node *const *arg) {
    struct node *n = new_node(p, NODE_OP, place);
    if (n)
        n->op = op;
    for (int i = 0; i < args; i++)
        n = add_arg(p, n, arg[i]);
    if (n)
        find_type(n);
    return n;
}

static struct node *binary_node(struct parser *p, struct tile_place place, enum tile_op op, struct node *a,
                                struct node *b) {
    return op_node(p, place, op, 2, (struct node *[]){a, b});
}

static struct node *literal_node(struct parser *p, struct tile_place place, struct tile_literal literal) {
    struct node *n = new_node(p, NODE_LITERAL, place);
    if (!n)
        return NULL;
    n->literal = literal;
    n->has_float = literal.is_float;
    return literal.has_type ? typed(n, literal.type) : n;
}

static struct node *param_node(struct parser *p, struct tile_place place, struct tile_literal literal) {
    struct node *n = literal_node(p, place, literal);
    if (n)
        n->has_param = true;
    return n;
}

static struct node *value_node(struct parser *p, struct tile_place place, expr value, int depth) {
    struct node *n = value ? new_node(p, NODE_VALUE, place) : parse_fail_moved(p, place);
    if (!n)
        return NULL;
    n->value = value;
    n->depth = depth;
    return typed(n, value->type);
}

// Primary expressions ---------------------------------------------------------------------------------------

static struct node *load_node(struct parser *p, struct tile_place place, const struct tile_buffer *buffer) {
    struct node *n = new_node(p, NODE_LOAD, place);
    if (!n || !parse_expect(p, "["))
        return NULL;
    n->buffer = buffer;
    while (n && !parse_is(p, "]")) {
        if (n->args == TILE_DIMS)
            return parse_fail(p, p->token.place, "'%s' has at most %d axes", buffer->text, TILE_DIMS);
        n = add_arg(p, n, parse_node(p));
        if (n && !parse_is(p, "]") && !parse_expect(p, ","))
            return NULL;
    }
    parse_next(p);
    if (n && n->args != buffer->ndim)
        return parse_fail(p, place, "'%s' has %d axes and %d indices", buffer->text, buffer->ndim, n->args);
    return typed(n, buffer->type);
}

static struct node *element_node(struct parser *p) {
    struct tile_token token = p->token;
    if (token.kind != TOKEN_NAME)
        return parse_fail(p, token.place, "a buffer is expected, not %s", token.text);
    struct binding *b = parse_find(p, token.text);
    if (!b || b->kind != BOUND_BUFFER)
        return parse_unknown(p, token, BOUND_BUFFER, "buffer");
    parse_next(p);
    return load_node(p, token.place, b->buffer);
}

// Parses `load(a[i], mask, other)`; without `other`, it is 0.
static struct node *masked_load(struct parser *p) {
    struct node *element = parse_expect(p, "(") ? element_node(p) : NULL;
    if (!element || !parse_expect(p, ","))
        return NULL;
    struct node *n = new_node(p, NODE_LOAD, element->place), *mask = parse_node(p), *other = NULL;
    if (parse_accept(p, ","))
        other = parse_node(p);
    else
        other = literal_node(p, element->place, (struct tile_literal){.text = "0", .len = 1});
    if (!n || !parse_expect(p, ")"))
        return NULL;
    n->buffer = element->buffer;
    n->is_masked = true;
    n = add_arg(p, add_arg(p, n, mask), other);
    for (int i = 0; i < element->args; i++)
        n = add_arg(p, n, element->arg[i]);
    return typed(n, element->type);
}

// Parses `address(a)`.
static struct node *address_node(struct parser *p, struct tile_place place) {
    struct binding *b =
        parse_expect(p, "(") && p->token.kind == TOKEN_NAME ? parse_find(p, p->token.text) : NULL;
    if (!b || b->kind != BOUND_BUFFER)
        return parse_unknown(p, p->token, BOUND_BUFFER, "buffer");
    parse_next(p);
    return parse_expect(p, ")") ? value_node(p, place, tile_address_of(b->buffer), 0) : NULL;
}

static struct node *conversion_node(struct parser *p, struct tile_place place, enum node_kind kind,
                                    struct tile_type type) {
    struct node *n = new_node(p, kind, place);
    if (!n || !parse_expect(p, "("))
        return NULL;
    n = add_arg(p, n, parse_node(p));
    bool is_pair = n && kind == NODE_CAST && tile_type_is_complex(type) && parse_accept(p, ",");
    if (is_pair) {
        n->kind = NODE_COMPLEX;
        n = add_arg(p, n, parse_node(p));
        if (n && (n->arg[0]->kind != NODE_LITERAL || n->arg[1]->kind != NODE_LITERAL))
            return parse_fail(p, place, "c64(re, im) is of two numbers; use pair(re, im) for others");
    }
    return n && parse_expect(p, ")") ? typed(n, type) : NULL;
}

// Parses `bits<i32>(x)`.
static struct node *bits_node(struct parser *p, struct tile_place place) {
    struct tile_type type;
    return parse_expect(p, "<") && parse_type(p, &type) && parse_expect(p, ">")
               ? conversion_node(p, place, NODE_BITS, type)
               : NULL;
}

static int parse_args(struct parser *p, struct node **arg, int most) {
    int args = 0;
    if (!parse_expect(p, "("))
        return -1;
    while (!parse_is(p, ")")) {
        if (args == most) {
            parse_fail(p, p->token.place, "one operand too many");
            return -1;
        }
        if (!(arg[args++] = parse_node(p)) || (!parse_is(p, ")") && !parse_expect(p, ",")))
            return -1;
    }
    parse_next(p);
    return args;
}

// Builds ceildiv(a, b), the quotient rounded up, as (a + (b - 1)) // b.
static struct node *ceildiv_node(struct parser *p, struct tile_place place) {
    struct node *arg[2];
    int args = parse_args(p, arg, 2);
    if (args < 0)
        return NULL;
    if (args != 2)
        return parse_fail(p, place, "ceildiv takes 2 operands, not %d", args);
    struct tile_literal one = {.text = "1", .len = 1}, *b = &arg[1]->literal;
    struct node *less;
    if (arg[1]->kind == NODE_LITERAL && !b->is_float && !b->is_word && !b->negative) {
        struct tile_literal literal = *b;
        literal.text = arena_text(&p->arena, "%llu", strtoull(b->text, NULL, tile_literal_base(b->text)) - 1);
        literal.len = literal.text ? (int)strlen(literal.text) : 0;
        less = literal.text && literal.text[0] != '-' ? literal_node(p, place, literal) : NULL;
    } else {
        less = binary_node(p, place, TILE_SUB, arg[1], literal_node(p, place, one));
    }
    return binary_node(p, place, TILE_FLOORDIV, binary_node(p, place, TILE_ADD, arg[0], less), arg[1]);
}

// Parses `identity(add)`: the value from which a reduction by that op starts, with the type that a literal
// would have in its place.
static struct node *identity_node(struct parser *p, struct tile_place place) {
    struct node *n = new_node(p, NODE_IDENTITY, place);
    return n && parse_expect(p, "(") && parse_combine(p, &n->op) && parse_expect(p, ")") ? n : NULL;
}

static struct node *call_node(struct parser *p, struct tile_token token) {
    struct tile_type type;
    struct node *arg[3];
    const struct binding *b = parse_find(p, token.text);
    if (b && b->kind == BOUND_TYPE)
        return conversion_node(p, token.place, NODE_CAST, b->type);
    if (tile_type_find(token.text, &type))
        return conversion_node(p, token.place, NODE_CAST, type);
    if (!strcmp(token.text, "index"))
        return conversion_node(p, token.place, NODE_CAST, tile_index_type());
    if (!strcmp(token.text, "ceildiv"))
        return ceildiv_node(p, token.place);
    if (!strcmp(token.text, "identity"))
        return identity_node(p, token.place);
    enum tile_op op = parse_op_find(p, token.text);
    if (op == TILE_OP_COUNT || !tile_op_arity(op) || op == TILE_CAST)
        return parse_fail(p, token.place, "unknown op '%s'", token.text);
    int args = parse_args(p, arg, 3);
    if (args >= 0 && args != tile_op_arity(op))
        return parse_fail(p, token.place, "%s takes %d operands, not %d", token.text, tile_op_arity(op),
                          args);
    return args < 0 ? NULL : op_node(p, token.place, op, args, arg);
}

static struct node *declare_symbol(struct parser *p, struct tile_token token) {
    const struct tile_name *name = tile_symbol(token.text, 0, INT64_MAX, 1);
    expr value = tile_name_value(name, TILE_SYMBOL);
    parse_bind(p, (struct binding){.text = token.text, .kind = BOUND_SYMBOL, .name = name});
    return value_node(p, token.place, value, 0);
}

static struct node *name_node(struct parser *p, struct tile_token token) {
    static const enum tile_op op[] = {[BOUND_INDEX] = TILE_INDEX,
                                      [BOUND_SYMBOL] = TILE_SYMBOL,
                                      [BOUND_SCALAR] = TILE_SCALAR,
                                      [BOUND_LOCAL] = TILE_LOCAL};
    struct binding *b = parse_find(p, token.text);
    if (!b && p->declares_symbols && !tile_is_word(token.text))
        return declare_symbol(p, token);
    if (!b || b->kind == BOUND_TOKEN)
        return parse_unknown(p, token, parse_is(p, "[") ? BOUND_BUFFER : BOUND_LOCAL,
                             parse_is(p, "[") ? "buffer" : "name");
    if (b->kind == BOUND_TYPE || b->kind == BOUND_OP)
        return parse_fail(p, token.place, "a value is expected, and '%s' is %s", token.text,
                          parse_binding_word(b));
    if (b->kind == BOUND_BUFFER)
        return load_node(p, token.place, b->buffer);
    if (b->kind == BOUND_PARAM)
        return param_node(p, token.place, b->param);
    if (b->kind == BOUND_LET)
        return value_node(p, token.place, b->let, b->depth);
    return value_node(p, token.place, tile_name_value(b->name, op[b->kind]), 0);
}

static struct node *primary_node(struct parser *p) {
    struct tile_token token = p->token;
    parse_next(p);
    if (token.kind == TOKEN_NUMBER)
        return literal_node(p, token.place, token.literal);
    if (token.kind == TOKEN_SIGN && !strcmp(token.text, "(")) {
        struct node *n = parse_node(p);
        return parse_expect(p, ")") ? n : NULL;
    }
    if (token.kind != TOKEN_NAME)
        return parse_fail(p, token.place, "an expression is expected, not %s", token.text);
    if (!strcmp(token.text, "bits"))
        return bits_node(p, token.place);
    if (!strcmp(token.text, "load"))
        return masked_load(p);
    if (!strcmp(token.text, "address") && parse_is(p, "("))
        return address_node(p, token.place);
    return parse_is(p, "(") ? call_node(p, token) : name_node(p, token);
}

// Operators -------------------------------------------------------------------------------------------------

static struct node *prefix_node(struct parser *p) {
    struct tile_place place = p->token.place;
    bool is_minus = parse_accept(p, "-");
    if (!is_minus && !parse_accept(p, "!"))
        return primary_node(p);
    struct node *x = parse_enter(p) ? prefix_node(p) : NULL;
    parse_leave(p);
    if (x && is_minus && x->kind == NODE_LITERAL && (!x->literal.is_word || x->literal.text[0] == 'i')) {
        x->literal.negative = !x->literal.negative;
        return x;
    }
    return op_node(p, place, is_minus ? TILE_NEG : TILE_NOT, 1, &x);
}

static const struct tile_infix *infix_at(const struct parser *p) {
    return p->token.kind == TOKEN_SIGN ? tile_infix_find(p->token.text) : NULL;
}

// Parses operators of at least that level by precedence climbing. Operators of one level associate to the
// left.
static struct node *infix_node(struct parser *p, int level) {
    struct node *left = prefix_node(p);
    const struct tile_infix *infix = infix_at(p);
    while (left && infix && infix->level >= level) {
        struct tile_place place = p->token.place;
        parse_next(p);
        left = binary_node(p, place, infix->op, left, infix_node(p, infix->level + 1));
        const struct tile_infix *next = infix_at(p);
        if (left && next && next->level == LEVEL_COMPARE && infix->level == LEVEL_COMPARE)
            return parse_fail(p, p->token.place, "comparisons do not chain; join them with &");
        infix = next;
    }
    return left;
}

struct node *parse_node(struct parser *p) {
    struct node *n = parse_enter(p) ? infix_node(p, LEVEL_LOOSEST) : NULL;
    parse_leave(p);
    return p->failed ? NULL : n;
}
