// parse_stmt.c - parses statements of the text form, with one function per form, and builds them while they
// are read.

#include "tile/parse.h"

#include <string.h>

// Statements ------------------------------------------------------------------------------------------------

static bool parse_block(struct parser *p);
static bool parse_else(struct parser *p);

bool parse_append(struct parser *p, struct tile_stmt stmt) {
    return (!p->failed && tile_append(stmt)) || parse_fail_moved(p, stmt.place);
}

// Parses { ... } as the body of stmt. Names that were bound after the first `bindings`, such as loop
// variables, go out of scope at its end.
static bool parse_body(struct parser *p, struct tile_stmt stmt, int bindings) {
    if (p->failed || !tile_open(stmt))
        return parse_fail_moved(p, stmt.place);
    bool good = parse_block(p);
    if (stmt.kind == TILE_IF && parse_accept(p, "else")) {
        tile_else();
        good = good && parse_else(p);
    }
    tile_close();
    p->bindings = bindings;
    return good && !p->failed;
}

struct ranges {
    int count;
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
};

// Parses `i in n`. The name is in scope only after its extent.
static bool parse_range(struct parser *p, struct ranges *r) {
    if (r->count == TILE_DIMS)
        return parse_fail(p, p->token.place, "more than %d names", TILE_DIMS);
    const char *text = parse_name(p, "a loop variable");
    expr extent = text && parse_expect(p, "in") ? parse_index(p) : NULL;
    if (!extent)
        return false;
    const struct tile_name *name = tile_index(text, extent);
    r->name[r->count] = name;
    r->extent[r->count++] = extent;
    return parse_bind_name(p, BOUND_INDEX, text, name);
}

static bool parse_ranges(struct parser *p, struct tile_stmt stmt) {
    struct ranges r = {0};
    int bindings = p->bindings;
    do {
        if (stmt.kind == TILE_GRID && parse_accept(p, "threads")) {
            stmt.threads = parse_count(p, 1);
            bool more = parse_accept(p, ",");
            if (more && parse_accept(p, "cluster")) {
                stmt.cluster = parse_count(p, 2);
                more = parse_accept(p, ",");
            }
            if (more)
                stmt.resident = parse_expect(p, "resident") ? parse_count(p, 1) : 0;
            break;
        }
        if (!parse_range(p, &r))
            return false;
    } while (parse_accept(p, ","));
    if (!r.count)
        return parse_fail(p, stmt.place, "a grid needs a name: grid b in n");
    stmt.indices = r.count;
    stmt.name = r.name;
    stmt.extent = r.extent;
    return parse_body(p, stmt, bindings);
}

static bool is_upwards(expr step) {
    return !step || (step->op == TILE_CONST && tile_value_of(step->type, step->bits).i > 0);
}

static bool parse_for(struct parser *p, struct tile_stmt stmt) {
    struct tile_type type = tile_index_type();
    int bindings = p->bindings;
    if (stmt.loop == TILE_UNROLLED && p->token.kind == TOKEN_NUMBER)
        stmt.unroll = parse_count(p, 1);
    const char *text = parse_name(p, "a loop variable");
    if (!text || (parse_accept(p, ":") && !parse_type(p, &type)) || !parse_expect(p, "in"))
        return false;
    expr end = parse_expr(p, &type);
    if (parse_accept(p, "..")) {
        stmt.begin = end;
        end = parse_expr(p, &type);
    }
    if (parse_accept(p, "step"))
        stmt.step = parse_expr(p, &type);
    if (parse_accept(p, "stages"))
        stmt.stages = parse_count(p, 1);
    if (p->failed)
        return false;
    bool is_usual = !stmt.begin && is_upwards(stmt.step) && tile_type_equal(type, tile_index_type());
    const struct tile_name *name = is_usual ? tile_index(text, end) : tile_name(text, type);
    stmt.indices = 1;
    stmt.name = &name;
    stmt.extent = &end;
    return parse_bind_name(p, BOUND_INDEX, text, name) && parse_body(p, stmt, bindings);
}

static bool parse_condition(struct parser *p, struct tile_stmt stmt) {
    int bindings = p->bindings;
    stmt.mask = parse_truth(p);
    return stmt.mask && parse_body(p, stmt, bindings);
}

// Stores and assignments ------------------------------------------------------------------------------------

static bool parse_element(struct parser *p, struct tile_stmt *stmt, expr *index) {
    struct tile_token token = p->token;
    struct binding *b = token.kind == TOKEN_NAME ? parse_find(p, token.text) : NULL;
    if (!b || b->kind != BOUND_BUFFER)
        return parse_unknown(p, token, BOUND_BUFFER, "buffer");
    parse_next(p);
    stmt->buffer = b->buffer;
    stmt->index = index;
    stmt->indices = parse_list(p, index);
    if (stmt->indices >= 0 && stmt->indices != stmt->buffer->ndim)
        return parse_fail(p, token.place, "'%s' has %d axes and %d indices", token.text, stmt->buffer->ndim,
                          stmt->indices);
    return stmt->indices >= 0;
}

// Parses the value and mask of a store, `v where m`, and `once`, which says that the element is not read
// again soon.
static bool parse_stored(struct parser *p, struct tile_stmt *stmt) {
    stmt->value = parse_expr(p, &stmt->buffer->type);
    if (stmt->value && parse_accept(p, "where"))
        stmt->mask = parse_truth(p);
    stmt->is_once = stmt->kind == TILE_STORE && parse_accept(p, "once");
    return !p->failed && parse_append(p, *stmt);
}

static bool parse_element_store(struct parser *p, struct tile_stmt stmt) {
    expr index[TILE_DIMS];
    return parse_element(p, &stmt, index) && parse_expect(p, "=") && parse_stored(p, &stmt);
}

static bool parse_atomic(struct parser *p, struct tile_stmt stmt) {
    expr index[TILE_DIMS];
    return parse_combine(p, &stmt.combine) && parse_element(p, &stmt, index) && parse_expect(p, ",") &&
           parse_stored(p, &stmt);
}

// Parses `x = atomic add y[i], v`; declares x if there is no such name.
static bool parse_atomic_old(struct parser *p, struct tile_stmt stmt, const char *text) {
    expr index[TILE_DIMS];
    struct tile_place place = stmt.place;
    stmt.kind = TILE_ATOMIC;
    if (!parse_combine(p, &stmt.combine) || !parse_element(p, &stmt, index) || !parse_expect(p, ","))
        return false;
    struct binding *b = parse_find(p, text);
    if (b && (b->kind != BOUND_LOCAL || !tile_type_equal(b->name->type, stmt.buffer->type)))
        return parse_fail(p, place, "'%s' is no variable of %s", text, tile_type_name(stmt.buffer->type));
    stmt.old = b ? b->name : tile_name(text, stmt.buffer->type);
    return stmt.old && parse_stored(p, &stmt) && (b || parse_bind_name(p, BOUND_LOCAL, text, stmt.old));
}

// Parses `x = shuffle xor v, 1 of 32`; declares x if there is no such name.
static bool parse_shuffle(struct parser *p, struct tile_stmt stmt, const char *text) {
    static const struct tile_type u32 = {TILE_UINT, 32, 1};
    int how = p->token.kind == TOKEN_NAME ? tile_word_find(tile_shuffle_word, 3, p->token.text) : -1;
    if (how < 0)
        return parse_fail(p, p->token.place, "xor, up or from is expected, not %s", p->token.text);
    parse_next(p);
    struct binding *b = parse_find(p, text);
    if (b && b->kind != BOUND_LOCAL)
        return parse_fail(p, stmt.place, "'%s' is no variable: it cannot be assigned to", text);
    stmt.kind = TILE_SHUFFLE;
    stmt.shuffle = (enum tile_shuffle)how;
    stmt.value = parse_expr(p, b ? &b->name->type : NULL);
    stmt.step = stmt.value && parse_expect(p, ",") ? parse_expr(p, &u32) : NULL;
    if (!stmt.step || !parse_expect(p, "of"))
        return false;
    stmt.threads = parse_count(p, 1);
    stmt.old = b ? b->name : tile_name(text, stmt.value->type);
    return stmt.old && parse_append(p, stmt) && (b || parse_bind_name(p, BOUND_LOCAL, text, stmt.old));
}

// Parses `store(y[i], value, mask)`.
static bool parse_store_call(struct parser *p, struct tile_stmt stmt) {
    expr index[TILE_DIMS];
    if (!parse_expect(p, "(") || !parse_element(p, &stmt, index) || !parse_expect(p, ","))
        return false;
    stmt.value = parse_expr(p, &stmt.buffer->type);
    if (stmt.value && parse_accept(p, ","))
        stmt.mask = parse_truth(p);
    if (!parse_expect(p, ")"))
        return false;
    stmt.is_once = parse_accept(p, "once");
    return parse_append(p, stmt);
}

static bool parse_async(struct parser *p, struct tile_stmt stmt, const char *text) {
    bool is_copy = parse_accept(p, "copy_async");
    if (!is_copy && !parse_expect(p, "gemm_async"))
        return false;
    stmt.kind = is_copy ? TILE_COPY : TILE_GEMM;
    stmt.is_async = true;
    stmt.token = ++tile_current()->tokens;
    return (is_copy ? parse_copy : parse_gemm)(p, stmt) &&
           parse_bind(p, (struct binding){.text = text, .kind = BOUND_TOKEN, .token = stmt.token});
}

static bool assign(struct parser *p, struct tile_stmt stmt, const struct tile_name *name) {
    stmt.kind = TILE_ASSIGN;
    stmt.name = &name;
    return name && parse_append(p, stmt);
}

// Parses the value of `x: f32 = value`, or of `x = value` for a new x.
static bool parse_declaration(struct parser *p, struct tile_stmt stmt, const char *text,
                              const struct tile_type *type) {
    stmt.value = parse_expr(p, type);
    if (!stmt.value)
        return false;
    const struct tile_name *name = tile_name(text, stmt.value->type);
    return assign(p, stmt, name) && parse_bind_name(p, BOUND_LOCAL, text, name);
}

// Parses `command name(1, address(a), ...)`.
static bool parse_command(struct parser *p, struct tile_stmt stmt) {
    expr argument[TILE_COMMAND_ARGUMENTS];
    stmt.message = parse_name(p, "a function of the chip");
    stmt.index = argument;
    if (!stmt.message || !parse_expect(p, "("))
        return false;
    while (!parse_is(p, ")")) {
        if (stmt.indices == TILE_COMMAND_ARGUMENTS)
            return parse_fail(p, p->token.place, "a command has at most %d arguments",
                              TILE_COMMAND_ARGUMENTS);
        if (stmt.indices && !parse_expect(p, ","))
            return false;
        struct tile_type index = tile_index_type(); // the type of numbers without one
        struct node *n = parse_node(p);
        if (!n || !(argument[stmt.indices++] = parse_elaborate(p, n, n->is_typed ? NULL : &index)))
            return false;
    }
    return parse_expect(p, ")") && parse_append(p, stmt);
}

static bool parse_assignment(struct parser *p, struct tile_stmt stmt) {
    struct tile_token token = p->token;
    struct tile_type type;
    const char *text = parse_name(p, "a variable");
    if (!text)
        return false;
    if (parse_accept(p, ":"))
        return parse_type(p, &type) && parse_expect(p, "=") && parse_declaration(p, stmt, text, &type);
    if (p->token.kind == TOKEN_NAME) // two words in a row: an unknown statement
        return parse_fail(p, token.place, "there is no statement '%s'", text);
    if (!parse_expect(p, "="))
        return false;
    if (parse_is(p, "copy_async") || parse_is(p, "gemm_async"))
        return parse_async(p, stmt, text);
    if (parse_accept(p, "atomic"))
        return parse_atomic_old(p, stmt, text);
    if (parse_accept(p, "shuffle"))
        return parse_shuffle(p, stmt, text);
    struct binding *b = parse_find(p, text);
    if (!b)
        return parse_declaration(p, stmt, text, NULL);
    if (b->kind != BOUND_LOCAL)
        return parse_fail(p, token.place, "'%s' is no variable: it cannot be assigned to", text);
    const struct tile_name *name = b->name;
    if (parse_accept(p, "command")) {
        stmt.kind = TILE_COMMAND;
        stmt.old = name;
        return parse_command(p, stmt);
    }
    stmt.value = parse_expr(p, &name->type);
    return stmt.value && assign(p, stmt, name);
}

static bool parse_let(struct parser *p) {
    const char *text = parse_name(p, "an expression");
    if (!text || !parse_expect(p, "="))
        return false;
    struct node *n = parse_node(p);
    expr value = parse_elaborate(p, n, NULL);
    return value &&
           parse_bind(p, (struct binding){.text = text, .kind = BOUND_LET, .let = value, .depth = n->depth});
}

// Parses `walk i in s, inner -> from = at, to = 0`.
static bool parse_walk(struct parser *p, struct tile_stmt stmt) {
    struct tile_type index = tile_index_type();
    expr place[TILE_DIMS], which = parse_expr(p, NULL);
    int count = 0;
    if (!which || !parse_expect(p, "in"))
        return false;
    struct tile_token token = p->token;
    struct binding *b = token.kind == TOKEN_NAME ? parse_find(p, token.text) : NULL;
    const struct tile_buffer *table = b && b->kind == BOUND_BUFFER ? b->buffer : NULL;
    if (!table || table->ndim != 2 || !tile_type_equal(table->type, index))
        return parse_fail(p, token.place, "'%s' is no buffer of %s with two axes", token.text,
                          tile_type_name(index));
    parse_next(p);
    expr inner = parse_expect(p, ",") ? parse_index(p) : NULL;
    if (!inner || !parse_expect(p, "->"))
        return false;
    do {
        token = p->token;
        stmt.place = token.place;
        if (count == TILE_DIMS)
            return parse_fail(p, token.place, "more than %d places", TILE_DIMS);
        b = parse_assignment(p, stmt) ? parse_find(p, token.text) : NULL;
        if (b && (b->kind != BOUND_LOCAL || !tile_type_equal(b->name->type, index)))
            return parse_fail(p, token.place, "'%s' is no variable of %s", token.text, tile_type_name(index));
        if (!b || !(place[count++] = tile_name_value(b->name, TILE_LOCAL)))
            return false;
    } while (parse_accept(p, ","));
    tile_walk(table, inner, which, count, place);
    return true;
}

// Short statements ------------------------------------------------------------------------------------------

static bool parse_wait(struct parser *p, struct tile_stmt stmt) {
    struct tile_token token = p->token;
    struct binding *b = token.kind == TOKEN_NAME ? parse_find(p, token.text) : NULL;
    if (!b || b->kind != BOUND_TOKEN)
        return parse_fail(p, token.place, "'%s' is not the token of an asynchronous statement", token.text);
    stmt.token = b->token;
    parse_next(p);
    if (parse_accept(p, "keep"))
        stmt.keep = parse_count(p, 0);
    return parse_append(p, stmt);
}

static bool parse_barrier(struct parser *p, struct tile_stmt stmt) {
    int scope = p->token.kind == TOKEN_NAME ? tile_word_find(tile_scope_word, 3, p->token.text) : -1;
    stmt.scope = scope < 0 ? TILE_GROUP : (enum tile_scope)scope;
    if (scope >= 0)
        parse_next(p);
    return parse_append(p, stmt);
}

static const char *parse_string(struct parser *p) {
    const char *text = p->token.text;
    if (p->token.kind != TOKEN_STRING)
        return parse_fail(p, p->token.place, "a text in quotes is expected, not %s", text);
    parse_next(p);
    return text;
}

static bool parse_assert(struct parser *p, struct tile_stmt stmt) {
    stmt.mask = parse_truth(p);
    if (stmt.mask && parse_accept(p, ","))
        stmt.message = parse_string(p);
    return parse_append(p, stmt);
}

static bool parse_print(struct parser *p, struct tile_stmt stmt) {
    stmt.message = parse_string(p);
    if (stmt.message && parse_accept(p, ","))
        stmt.value = parse_expr(p, NULL);
    return parse_append(p, stmt);
}

// Blocks ----------------------------------------------------------------------------------------------------

static const struct {
    const char *word;
    enum tile_stmt_kind kind;
    bool (*parse)(struct parser *p, struct tile_stmt stmt);
} forms[] = {
    {"map", TILE_MAP, parse_ranges},          {"grid", TILE_GRID, parse_ranges},
    {"if", TILE_IF, parse_condition},         {"while", TILE_WHILE, parse_condition},
    {"break", TILE_BREAK, parse_append},      {"copy", TILE_COPY, parse_copy},
    {"fill", TILE_FILL, parse_fill},          {"reduce", TILE_REDUCE, parse_reduce},
    {"scan", TILE_SCAN, parse_reduce},        {"gemm", TILE_GEMM, parse_gemm},
    {"atomic", TILE_ATOMIC, parse_atomic},    {"wait", TILE_WAIT, parse_wait},
    {"barrier", TILE_BARRIER, parse_barrier}, {"assert", TILE_ASSERT, parse_assert},
    {"print", TILE_PRINT, parse_print},       {"store", TILE_STORE, parse_store_call},
    {"view", TILE_ALLOC, parse_view},         {"im2col", TILE_IM2COL, parse_im2col},
    {"thread", TILE_THREAD, parse_ranges},    {"walk", TILE_FOR, parse_walk},
    {"command", TILE_COMMAND, parse_command},
};

static bool parse_stmt(struct parser *p) {
    struct tile_stmt stmt = {.place = p->token.place};
    if (p->token.kind != TOKEN_NAME)
        return parse_fail(p, p->token.place, "a statement is expected, not %s", p->token.text);
    for (size_t i = 0; i < COUNT(forms); i++)
        if (parse_accept(p, forms[i].word)) {
            stmt.kind = forms[i].kind;
            return forms[i].parse(p, stmt);
        }
    int loop = tile_word_find(tile_loop_word, 5, p->token.text);
    int memory = tile_word_find(tile_memory_word, 6, p->token.text);
    if (loop >= 0 || memory >= 0)
        parse_next(p);
    if (memory >= 0)
        return parse_alloc(p, stmt, (enum tile_memory)memory);
    stmt.kind = loop >= 0 ? TILE_FOR : TILE_STORE;
    stmt.loop = loop >= 0 ? (enum tile_loop)loop : TILE_SERIAL;
    if (loop >= 0)
        return parse_for(p, stmt);
    if (parse_accept(p, "let"))
        return parse_let(p);
    if (parse_accept(p, "param"))
        return parse_param(p);
    struct tile_lexer ahead = p->lexer;
    struct tile_token next = tile_lex(&ahead);
    bool is_element = next.kind == TOKEN_SIGN && !strcmp(next.text, "[");
    return is_element ? parse_element_store(p, stmt) : parse_assignment(p, stmt);
}

bool parse_stmts(struct parser *p) {
    while (!parse_accept(p, "}") && !p->failed)
        parse_stmt(p);
    return !p->failed;
}

static bool parse_block(struct parser *p) {
    int bindings = p->bindings;
    bool good = parse_enter(p) && parse_expect(p, "{") && parse_stmts(p);
    parse_leave(p);
    p->bindings = bindings;
    return good;
}

// Parses the branch after `else`: a block, or another `if`.
static bool parse_else(struct parser *p) {
    if (!parse_is(p, "if"))
        return parse_block(p);
    bool good = parse_enter(p) && parse_stmt(p);
    parse_leave(p);
    return good;
}
