// parse.h - the parser's state, shared by parse*.c and elaborate.c. Included by them only.

#ifndef PARSE_H
#define PARSE_H

#include "tile/syntax.h"

enum binding_kind {
    BOUND_BUFFER,
    BOUND_INDEX,
    BOUND_SYMBOL,
    BOUND_SCALAR,
    BOUND_LOCAL,
    BOUND_LET,   // an expression
    BOUND_PARAM, // a number
    BOUND_TOKEN, // of an asynchronous statement
};

struct binding {
    const char *text;
    enum binding_kind kind;
    struct tile_buffer *buffer;
    const struct tile_name *name;
    expr let;
    int depth; // of a let
    struct tile_literal param;
    int token;
};

struct parser {
    struct tile_lexer lexer;
    struct tile_token token; // the one to look at
    const char *file;
    struct arena arena;
    struct binding *scope; // innermost last
    int bindings, cap, depth;
    bool failed, declares_symbols, had_error;
    const char *given;   // "BM=64,BN=32": values of params in place of the text's; NULL: none
    uint64_t given_used; // which of them were params
};

// The syntax of an expression: types of literals are found once all of it is read.
enum node_kind { NODE_LITERAL, NODE_VALUE, NODE_LOAD, NODE_OP, NODE_CAST, NODE_BITS, NODE_COMPLEX };

struct node {
    enum node_kind kind;
    struct tile_place place;
    enum tile_op op;
    bool is_typed, has_float; // its type is known without context; else: a literal in it looks like a float
    struct tile_type type;
    struct tile_literal literal;
    expr value;
    const struct tile_buffer *buffer;
    int args, depth;
    bool is_masked;                   // a load whose first two args are mask and other
    struct node *arg[3 + TILE_DIMS];
};

// parse.c: tokens and names
void *parse_fail(struct parser *p, struct tile_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *parse_fail_moved(struct parser *p, struct tile_place place); // the builder's error, here
void  parse_next(struct parser *p);
bool  parse_is(const struct parser *p, const char *text);     // the token is this sign or word
bool  parse_accept(struct parser *p, const char *text);       // and is skipped
bool  parse_expect(struct parser *p, const char *text);
bool  parse_type(struct parser *p, struct tile_type *out);
const char *parse_name(struct parser *p, const char *what);   // a name that is no word; NULL and an error
int   parse_count(struct parser *p, int least);                // a whole number that is no expression
bool  parse_bind(struct parser *p, struct binding binding);
bool  parse_bind_name(struct parser *p, enum binding_kind kind, const char *text, const struct tile_name *name);
struct binding *parse_find(struct parser *p, const char *text);
void *parse_unknown(struct parser *p, struct tile_token token, enum binding_kind kind, const char *what);
bool  parse_enter(struct parser *p); // one level deeper; false and an error when it is too deep
void  parse_leave(struct parser *p);

expr *parse_own_list(struct parser *p, const expr *list, int count); // a copy in the kernel's arena
bool  parse_attributes(struct parser *p, struct tile_buffer *buffer); // stride [1] align 16 ...

// parse_stmt.c
bool parse_stmts(struct parser *p); // up to and with }

bool parse_append(struct parser *p, struct tile_stmt stmt);

// parse_region.c: each after its first word
bool parse_alloc(struct parser *p, struct tile_stmt stmt, enum tile_memory memory);
bool parse_view(struct parser *p, struct tile_stmt stmt);
bool parse_copy(struct parser *p, struct tile_stmt stmt);
bool parse_gemm(struct parser *p, struct tile_stmt stmt);
bool parse_fill(struct parser *p, struct tile_stmt stmt);
bool parse_im2col(struct parser *p, struct tile_stmt stmt);
bool parse_reduce(struct parser *p, struct tile_stmt stmt);
bool parse_combine(struct parser *p, enum tile_op *out); // the name of an op of two operands

// parse_expr.c, elaborate.c
struct node *parse_node(struct parser *p);
expr parse_elaborate(struct parser *p, struct node *node, const struct tile_type *expected);
expr parse_expr(struct parser *p, const struct tile_type *expected); // both
expr parse_index(struct parser *p);                                  // of index type
expr parse_truth(struct parser *p);
int  parse_list(struct parser *p, expr *out); // [a, b]: how many, at most TILE_DIMS; -1 after an error

#endif
