// parse_clause.c - parses the types, params and ops with which a text is instantiated.
//
// Clauses before the kernel name types, params and ops; a param may also be named among the statements. Each
// has a value in the text, which the caller may override. Names are replaced by values while the text is
// read, so the kernel that is built does not contain them.

#include "tile/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Values that are given -------------------------------------------------------------------------------------

struct given {
    const char *name, *value;
    bool is_used;
    struct given *next;
};

static struct given *find_given(const struct parser *p, const char *name) {
    for (struct given *g = p->given; g; g = g->next)
        if (!strcmp(g->name, name))
            return g;
    return NULL;
}

bool parse_given(struct parser *p, const char *list) {
    struct given **end = &p->given;
    for (const char *at = list, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        int len = comma ? (int)(comma - at) : (int)strlen(at), name = (int)strcspn(at, "=,");
        if (name == 0 || name == len)
            return error_false(ZL_ERROR_VALUE, "%s: '%.*s' gives no value; write NAME=value", p->file, len,
                               at);
        struct given *g = arena_alloc(&p->arena, sizeof *g);
        if (!g || !(g->name = arena_text(&p->arena, "%.*s", name, at)) ||
            !(g->value = arena_text(&p->arena, "%.*s", len - name - 1, at + name + 1)))
            return false;
        if (find_given(p, g->name))
            return error_false(ZL_ERROR_VALUE, "%s: two values are given for '%s'", p->file, g->name);
        *end = g;
        end = &g->next;
    }
    return true;
}

bool parse_all_used(const struct parser *p) {
    for (const struct given *g = p->given; g; g = g->next)
        if (!g->is_used)
            return error_false(ZL_ERROR_VALUE, "%s: there is no param '%s', and no type or op of that name",
                               p->file, g->name);
    return true;
}

// Returns the value that the caller gave for a name; NULL if the text's own value holds.
static const char *take_given(struct parser *p, const char *name) {
    struct given *g = find_given(p, name);
    if (g)
        g->is_used = true;
    return g ? g->value : NULL;
}

// Names -----------------------------------------------------------------------------------------------------

// Used in messages where a binding of another kind is expected.
const char *parse_binding_word(const struct binding *b) {
    switch (b->kind) {
    case BOUND_TYPE: return "a type";
    case BOUND_OP: return "an op";
    case BOUND_PARAM: return "a param";
    case BOUND_BUFFER: return "a buffer";
    case BOUND_TOKEN: return "the token of an asynchronous statement";
    default: return "a value";
    }
}

// Parses `NAME =` of a clause and returns the name. It must not have a meaning in the language: not that of
// an op, nor of a word that is read like a call or in the place of a type.
static const char *parse_clause_name(struct parser *p, const char *what) {
    static const char *const taken[] = {"ceildiv", "identity", "table"};
    struct tile_token token = p->token;
    const char *text = parse_name(p, what);
    if (text && (tile_op_find(text) != TILE_OP_COUNT || tile_word_find(taken, COUNT(taken), text) >= 0))
        return parse_fail(p, token.place, "'%s' has a meaning in the language and cannot be the name of %s",
                          text, what);
    return text && parse_expect(p, "=") ? text : NULL;
}

// Types and ops ---------------------------------------------------------------------------------------------

bool parse_type(struct parser *p, struct tile_type *out) {
    const struct binding *b = p->token.kind == TOKEN_NAME ? parse_find(p, p->token.text) : NULL;
    if (b && b->kind == BOUND_TYPE)
        *out = b->type;
    else if (b)
        return parse_fail(p, p->token.place, "a type is expected, and '%s' is %s", p->token.text,
                          parse_binding_word(b));
    else if (p->token.kind != TOKEN_NAME || !tile_type_find(p->token.text, out))
        return parse_fail(p, p->token.place, "a type is expected (f32, i8, bool, ...), not %s",
                          p->token.text);
    parse_next(p);
    return !p->failed;
}

static bool parse_type_clause(struct parser *p) {
    struct tile_place place = p->token.place;
    struct binding b = {.kind = BOUND_TYPE, .is_clause = true, .text = parse_clause_name(p, "a type")};
    if (!b.text || !parse_type(p, &b.type))
        return false;
    const char *given = take_given(p, b.text);
    if (given && !tile_type_find(given, &b.type))
        return parse_fail(p, place, "'%s' is given for the type %s and is no type (f32, i8, bool, ...)",
                          given, b.text);
    return parse_bind(p, b);
}

enum tile_op parse_op_find(struct parser *p, const char *text) {
    const struct binding *b = parse_find(p, text);
    return b && b->kind == BOUND_OP ? b->op : tile_op_find(text);
}

static bool is_function(enum tile_op op) {
    return op != TILE_OP_COUNT && tile_op_arity(op) && op != TILE_CAST && op != TILE_BITCAST;
}

static bool parse_op_clause(struct parser *p) {
    struct tile_place place = p->token.place;
    struct binding b = {.kind = BOUND_OP, .is_clause = true, .text = parse_clause_name(p, "an op")};
    if (!b.text)
        return false;
    b.op = p->token.kind == TOKEN_NAME ? parse_op_find(p, p->token.text) : TILE_OP_COUNT;
    if (!is_function(b.op))
        return parse_fail(p, p->token.place, "an op is expected (add, maximum, exp, ...), not %s",
                          p->token.text);
    parse_next(p);
    const char *given = take_given(p, b.text);
    enum tile_op op = given ? tile_op_find(given) : b.op;
    if (!is_function(op))
        return parse_fail(p, place, "'%s' is given for the op %s and is no op (add, maximum, exp, ...)",
                          given, b.text);
    if (tile_op_arity(op) != tile_op_arity(b.op))
        return parse_fail(p, place, "'%s' is given for the op %s and takes %d operands, where %s takes %d",
                          given, b.text, tile_op_arity(op), tile_op_name(b.op), tile_op_arity(b.op));
    b.op = op;
    return parse_bind(p, b);
}

// Params ----------------------------------------------------------------------------------------------------

static bool is_constant(expr e) {
    for (int i = 0; i < tile_operands(e); i++)
        if (!is_constant(tile_operand(e, i)))
            return false;
    return e->op == TILE_CONST || tile_operands(e);
}

// Binds a param to its value as a literal, so that it takes its type where it is used, like a number in the
// text.
static bool bind_param(struct parser *p, const char *text, expr value, bool is_clause) {
    struct text digits = {0};
    tile_print_const(&digits, value->type, tile_bits_of(value->type, tile_evaluate(value, NULL)), true);
    const char *copy = digits.failed ? NULL : arena_text(&p->arena, "%s", digits.data);
    text_free(&digits);
    if (!copy)
        return parse_fail_moved(p, p->token.place);
    struct tile_literal literal = {.text = copy + (*copy == '-'), .negative = *copy == '-'};
    literal.len = (int)strlen(literal.text);
    literal.is_float = tile_type_is_float(value->type);
    literal.is_word = literal.text[0] == 'i' || literal.text[0] == 'n';
    return parse_bind(
        p, (struct binding){.text = text, .kind = BOUND_PARAM, .param = literal, .is_clause = is_clause});
}

// Returns the number that the caller gave for a param: a float if `usual`, the text's own value, is one; else
// an integer.
static expr given_number(struct parser *p, struct tile_place place, const char *name, const char *digits,
                         expr usual) {
    char *end;
    bool is_float = tile_type_is_float(usual->type);
    errno = 0;
    double real = is_float ? strtod(digits, &end) : 0;
    int64_t whole = is_float ? 0 : strtoll(digits, &end, 10);
    if (end > digits && !*end && (is_float || !errno))
        return is_float ? tile_const(usual->type, real) : tile_const_int(usual->type, whole);
    return parse_fail(p, place, "'%s' is given for the param %s and is no %s", digits, name,
                      is_float ? "number" : "whole number of 64 bits");
}

static bool parse_one_param(struct parser *p, bool is_clause) {
    static const struct tile_type f64 = {TILE_FLOAT, 64, 1};
    const char *text = is_clause ? parse_clause_name(p, "a param") : parse_name(p, "a param");
    struct node *n = text && (is_clause || parse_expect(p, "=")) ? parse_node(p) : NULL;
    struct tile_type type = n && n->has_float ? f64 : tile_index_type();
    expr value = parse_elaborate(p, n, &type);
    if (!value)
        return false;
    bool is_number = tile_type_is_float(value->type) || tile_type_is_integer(value->type);
    if (!is_constant(value) || !is_number)
        return parse_fail(p, n->place, "a param is a number that is known here");
    const char *given = take_given(p, text);
    if (given && !(value = given_number(p, n->place, text, given, value)))
        return false;
    return bind_param(p, text, value, is_clause);
}

static bool parse_param_clause(struct parser *p) {
    return parse_one_param(p, true);
}

bool parse_param(struct parser *p) {
    do {
        if (!parse_one_param(p, false))
            return false;
    } while (parse_accept(p, ","));
    return !p->failed;
}

// Clauses ---------------------------------------------------------------------------------------------------

bool parse_clauses(struct parser *p) {
    static const struct {
        const char *word;
        bool (*parse)(struct parser *p);
    } clauses[] = {{"type", parse_type_clause}, {"param", parse_param_clause}, {"op", parse_op_clause}};
    for (size_t i = 0; i < COUNT(clauses);) {
        if (!parse_accept(p, clauses[i].word)) {
            i++;
            continue;
        }
        do {
            if (!clauses[i].parse(p))
                return false;
        } while (parse_accept(p, ","));
        i = 0;
    }
    return !p->failed;
}
