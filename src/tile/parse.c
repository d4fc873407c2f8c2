// parse.c - parses the text form: tokens, names, and kernels with their parameters.
//
// It is a recursive-descent parser that builds the kernel while it reads; statements are in parse_stmt.c,
// expressions in parse_expr.c. It stops at the first error, whose message has file, line, column and a caret.

#include "tile/parse.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST_NESTING = 200 };

// Tokens ----------------------------------------------------------------------------------------------------

void *parse_fail(struct parser *p, struct tile_place place, const char *format, ...) {
    struct text text = {0};
    va_list list;
    if (p->failed)
        return NULL;
    p->failed = true;
    va_start(list, format);
    text_add_list(&text, format, list);
    va_end(list);
    if (!text.failed)
        tile_error_at(ZL_ERROR_SYNTAX, p->file, p->lexer.source, place, "%s", text.data);
    text_free(&text);
    return NULL;
}

void *parse_fail_moved(struct parser *p, struct tile_place place) {
    if (!p->failed && !p->had_error)
        tile_error_move(ZL_ERROR_SYNTAX, p->file, p->lexer.source, place);
    p->failed = true;
    return NULL;
}

void parse_next(struct parser *p) {
    p->token = tile_lex(&p->lexer);
    if (p->token.kind == TOKEN_BAD)
        parse_fail(p, p->token.place, "%s", p->token.text);
}

bool parse_is(const struct parser *p, const char *text) {
    bool is_fixed = p->token.kind == TOKEN_SIGN || p->token.kind == TOKEN_NAME;
    return p->failed || (is_fixed && !strcmp(p->token.text, text)); // a failed parser stops at everything
}

bool parse_accept(struct parser *p, const char *text) {
    bool is_it = !p->failed && parse_is(p, text);
    if (is_it)
        parse_next(p);
    return is_it;
}

bool parse_expect(struct parser *p, const char *text) {
    if (!p->failed && !parse_is(p, text))
        parse_fail(p, p->token.place, "'%s' is expected, not %s", text, p->token.text);
    if (!p->failed)
        parse_next(p);
    return !p->failed;
}

const char *parse_name(struct parser *p, const char *what) {
    const char *text = p->token.text;
    if (p->failed)
        return NULL;
    if (p->token.kind != TOKEN_NAME)
        return parse_fail(p, p->token.place, "the name of %s is expected, not %s", what, text);
    if (tile_is_word(text))
        return parse_fail(p, p->token.place, "'%s' is a word of the language, not the name of %s", text,
                          what);
    const struct binding *b = parse_find(p, text);
    if (b && b->is_clause)
        return parse_fail(p, p->token.place, "'%s' is %s already, declared before the kernel", text,
                          parse_binding_word(b));
    parse_next(p);
    return text;
}

bool parse_enter(struct parser *p) {
    if (++p->depth > DEEPEST_NESTING)
        parse_fail(p, p->token.place, "this is nested too deeply");
    return !p->failed;
}

void parse_leave(struct parser *p) {
    p->depth--;
}

int parse_count(struct parser *p, int least) {
    const struct binding *b = p->token.kind == TOKEN_NAME ? parse_find(p, p->token.text) : NULL;
    bool is_param = b && b->kind == BOUND_PARAM, is_number = is_param || p->token.kind == TOKEN_NUMBER;
    const struct tile_literal *literal = is_param ? &b->param : &p->token.literal;
    if (b && !is_param) {
        parse_fail(p, p->token.place, "a whole number is expected, and '%s' is %s", p->token.text,
                   parse_binding_word(b));
        return 0;
    }
    if (!is_number || literal->is_float || literal->is_word || literal->has_type) {
        parse_fail(p, p->token.place, "a whole number is expected, not %s", p->token.text);
        return 0;
    }
    long long value = strtoll(literal->text, NULL, tile_literal_base(literal->text));
    value = literal->negative ? -value : value;
    if ((value < least || value > 1 << 30) && is_param)
        parse_fail(p, p->token.place, "%s is out of range: it is %lld", p->token.text, value);
    else if (value < least || value > 1 << 30)
        parse_fail(p, p->token.place, "%s is out of range", p->token.text);
    parse_next(p);
    return (int)value;
}

// Names -----------------------------------------------------------------------------------------------------

bool parse_bind(struct parser *p, struct binding binding) {
    if (p->failed || !memory_grow(&p->scope, &p->cap, p->bindings + 1, sizeof *p->scope)) {
        p->failed = true;
        return false;
    }
    p->scope[p->bindings++] = binding;
    return true;
}

struct binding *parse_find(struct parser *p, const char *text) {
    for (int i = p->bindings - 1; i >= 0; i--)
        if (!strcmp(p->scope[i].text, text))
            return &p->scope[i];
    return NULL;
}

void *parse_unknown(struct parser *p, struct tile_token token, enum binding_kind kind, const char *what) {
    struct text known = {0};
    for (int i = 0; i < p->bindings; i++)
        if ((p->scope[i].kind == BOUND_BUFFER) == (kind == BOUND_BUFFER) && p->scope[i].kind != BOUND_TYPE &&
            p->scope[i].kind != BOUND_OP)
            text_add(&known, "%s%s", known.len ? ", " : "; known: ", p->scope[i].text);
    parse_fail(p, token.place, "unknown %s '%s'%s", what, token.text, known.data ? known.data : "");
    text_free(&known);
    return NULL;
}

bool parse_bind_name(struct parser *p, enum binding_kind kind, const char *text,
                     const struct tile_name *name) {
    if (!name)
        return parse_fail_moved(p, p->token.place);
    return parse_bind(p, (struct binding){.text = text, .kind = kind, .name = name});
}

// Buffers: a: f32[n] stride [1] align 16 --------------------------------------------------------------------

expr *parse_own_list(struct parser *p, const expr *list, int count) {
    struct tile_kernel *kernel = tile_current();
    expr *own = p->failed || !kernel ? NULL : arena_alloc(&kernel->arena, (size_t)(count + 1) * sizeof *own);
    if (own && count)
        memcpy(own, list, (size_t)count * sizeof *own);
    p->failed = p->failed || !own;
    return own;
}

static bool parse_stride(struct parser *p, struct tile_buffer *b) {
    expr stride[TILE_DIMS];
    struct tile_place place = p->token.place;
    p->declares_symbols = b->parameter >= 0;
    int count = parse_list(p, stride);
    p->declares_symbols = false;
    if (count >= 0 && count != b->ndim)
        return parse_fail(p, place, "'%s' has %d axes and %d strides", b->text, b->ndim, count);
    b->stride = count < 0 ? NULL : parse_own_list(p, stride, count);
    return b->stride;
}

bool parse_attributes(struct parser *p, struct tile_buffer *b) {
    while (!p->failed) {
        if (parse_accept(p, "stride")) {
            parse_stride(p, b);
        } else if (parse_accept(p, "align")) {
            b->align = parse_count(p, 1);
        } else if (parse_accept(p, "swizzle")) {
            b->swizzle = parse_count(p, 1);
        } else {
            return true;
        }
    }
    return false;
}

// Kernels ---------------------------------------------------------------------------------------------------

static bool parse_parameter(struct parser *p, bool is_output) {
    struct tile_type type;
    expr shape[TILE_DIMS];
    struct tile_place place = p->token.place;
    const char *text = parse_name(p, "a parameter");
    if (!text || !parse_expect(p, ":"))
        return false;
    bool is_table = parse_accept(p, tile_memory_word[TILE_TABLE]);
    enum tile_memory memory = is_table                      ? TILE_TABLE
                              : parse_accept(p, "constant") ? TILE_CONSTANT
                                                            : TILE_GLOBAL;
    if (!parse_type(p, &type))
        return false;
    if (!parse_is(p, "[") && !is_output && !is_table)
        return parse_bind_name(p, BOUND_SCALAR, text, tile_parameter_scalar(text, type));
    p->declares_symbols = true;
    int ndim = parse_list(p, shape);
    p->declares_symbols = false;
    struct tile_buffer *b = ndim < 0 ? NULL : tile_parameter_buffer(text, type, ndim, shape, is_output);
    if (!b)
        return parse_fail_moved(p, place);
    b->memory = memory;
    return parse_attributes(p, b) &&
           parse_bind(p, (struct binding){.text = text, .kind = BOUND_BUFFER, .buffer = b});
}

static bool parse_parameters(struct parser *p, bool is_output) {
    if (!parse_expect(p, "("))
        return false;
    while (!parse_is(p, ")"))
        if (!parse_parameter(p, is_output) || (!parse_is(p, ")") && !parse_expect(p, ",")))
            return false;
    return parse_expect(p, ")");
}

// Parses `<n, m>`, which declares symbols in this order.
static bool parse_symbols(struct parser *p) {
    if (!parse_accept(p, "<"))
        return true;
    do {
        const char *text = parse_name(p, "a symbol");
        if (!text || !parse_bind_name(p, BOUND_SYMBOL, text, tile_symbol(text, 0, INT64_MAX, 1)))
            return false;
    } while (parse_accept(p, ","));
    return parse_expect(p, ">");
}

static int64_t parse_bound(struct parser *p) {
    expr e = parse_index(p);
    if (!e || e->op == TILE_CONST)
        return e ? tile_value_of(e->type, e->bits).i : 0;
    parse_fail(p, p->token.place, "a number is expected before this");
    return 0;
}

// Parses a fact about a symbol: `M % 16 == 0`, `N <= 4096` or `K >= 1`.
static bool parse_fact(struct parser *p) {
    struct tile_token token = p->token;
    struct binding *b = token.kind == TOKEN_NAME ? parse_find(p, token.text) : NULL;
    if (!b || b->kind != BOUND_SYMBOL)
        return parse_fail(p, token.place, "'%s' is no symbol of the shapes", token.text);
    struct tile_name *symbol = (struct tile_name *)b->name; // it may change: the kernel is being built
    parse_next(p);
    if (parse_accept(p, "%")) {
        symbol->divisor = parse_count(p, 1);
        return parse_expect(p, "==") && parse_count(p, 0) == 0 && !p->failed;
    }
    if (parse_accept(p, "<="))
        symbol->high = parse_bound(p);
    else if (parse_accept(p, ">="))
        symbol->low = parse_bound(p);
    else
        parse_fail(p, p->token.place, "a fact is M %% 16 == 0, M <= 16 or M >= 16");
    return !p->failed;
}

static bool parse_facts(struct parser *p) {
    if (!parse_accept(p, "where"))
        return true;
    do {
        if (!parse_fact(p))
            return parse_fail(p, p->token.place, "a divisor is said with == 0");
    } while (parse_accept(p, ","));
    return !p->failed;
}

static bool parse_header(struct parser *p) {
    if (parse_accept(p, "index")) {
        int bits = parse_count(p, 32);
        if (bits != 32 && bits != 64)
            return parse_fail(p, p->token.place, "indices have 32 or 64 bits");
        tile_current()->index_bits = bits;
    }
    return parse_symbols(p) && parse_parameters(p, false) &&
           (!parse_accept(p, "->") || parse_parameters(p, true)) && parse_facts(p);
}

static bool parse_kernel_body(struct parser *p) {
    if (!parse_expect(p, "{"))
        return false;
    parse_stmts(p);
    if (!p->failed && p->token.kind != TOKEN_END)
        parse_fail(p, p->token.place, "the kernel has ended; %s is too much", p->token.text);
    return !p->failed;
}

// Parses a kernel whose memory is already open: its clauses store the values of params in it before its name
// is read.
static bool parse_named(struct parser *p, struct tile_kernel *kernel) {
    kernel->file = arena_text(&kernel->arena, "%s", p->file);
    kernel->source = arena_text(&kernel->arena, "%s", p->lexer.source);
    if (!kernel->file || !kernel->source || !parse_clauses(p))
        return false;
    const char *name = parse_expect(p, "kernel") ? parse_name(p, "a kernel") : NULL;
    kernel->name = name ? arena_text(&kernel->arena, "%s", name) : NULL;
    return kernel->name && parse_header(p) && parse_kernel_body(p);
}

static struct tile_kernel *parse_kernel(struct parser *p) {
    parse_next(p);
    struct tile_kernel *kernel = tile_begin("");
    if (kernel && !parse_named(p, kernel))
        kernel->failed = true;
    return tile_end();
}

// Verifies the kernel. Its errors, but for lack of memory, become syntax errors of the text.
static bool verify(struct parser *p, const struct tile_kernel *kernel) {
    zl_error_kind kind;
    if (tile_verify(kernel))
        return true;
    char *message = p->had_error ? NULL : error_take(&kind);
    if (message)
        error_put(kind == ZL_ERROR_MEMORY ? kind : ZL_ERROR_SYNTAX, message);
    memory_free(message);
    return false;
}

struct tile_kernel *tile_parse(const char *text, const char *file) {
    return tile_parse_with(text, file, NULL);
}

struct tile_kernel *tile_parse_with(const char *text, const char *file, const char *params) {
    struct parser p = {.file = file ? file : "text", .had_error = zl_error() != NULL};
    p.lexer = (struct tile_lexer){.source = text, .at = text, .place = {1, 1}, .arena = &p.arena};
    struct tile_kernel *kernel = parse_given(&p, params) ? parse_kernel(&p) : NULL;
    if (kernel && (!verify(&p, kernel) || !parse_all_used(&p) || !parse_branches(kernel))) {
        tile_free(kernel);
        kernel = NULL;
    }
    memory_free(p.scope);
    arena_free(&p.arena);
    return kernel;
}
