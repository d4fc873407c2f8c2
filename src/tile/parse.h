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
    BOUND_TYPE,
    BOUND_OP,
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
    struct tile_type type;
    enum tile_op op;
    int token;
    bool is_clause; // declared before the kernel: nothing else may have its name
};

struct parser {
    struct tile_lexer lexer;
    struct tile_token token; // the one to look at
    const char *file;
    struct arena arena;
    struct binding *scope; // innermost last
    int bindings, cap, depth;
    bool failed, declares_symbols, had_error;
    struct given *given; // values in place of the text's
};

// The syntax of an expression: types of literals are found once all of it is read.
enum node_kind {
    NODE_LITERAL,
    NODE_VALUE,
    NODE_LOAD,
    NODE_OP,
    NODE_CAST,
    NODE_BITS,
    NODE_COMPLEX,
    NODE_IDENTITY
};

struct node {
    enum node_kind kind;
    struct tile_place place;
    enum tile_op op;
    bool is_typed, has_float; // its type is known without context; else: a literal in it looks like a float
    bool has_param;           // it is a param, or one of its operands has one
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
const char *parse_name(struct parser *p, const char *what);   // a name that is no word; NULL and an error
// a whole number that is part of a statement, or a param
int   parse_count(struct parser *p, int least);
bool  parse_bind(struct parser *p, struct binding binding);
bool parse_bind_name(struct parser *p, enum binding_kind kind, const char *text,
                     const struct tile_name *name);
struct binding *parse_find(struct parser *p, const char *text);
void *parse_unknown(struct parser *p, struct tile_token token, enum binding_kind kind, const char *what);
bool  parse_enter(struct parser *p); // one level deeper; false and an error when it is too deep
void  parse_leave(struct parser *p);

expr *parse_own_list(struct parser *p, const expr *list, int count); // a copy in the kernel's arena
bool  parse_attributes(struct parser *p, struct tile_buffer *buffer); // stride [1] align 16 ...

// parse_clause.c: types, params and ops, and the values that are given for them
bool parse_given(struct parser *p, const char *list); // "BM=64,ITEM=f16"; NULL: none
// false and an error: a value is given for a name that is not there
bool parse_all_used(const struct parser *p);
bool parse_clauses(struct parser *p);                 // all that stand before the kernel
bool parse_param(struct parser *p);                   // among statements, after its word
bool parse_type(struct parser *p, struct tile_type *out);
// of the language, or declared; TILE_OP_COUNT: none
enum tile_op parse_op_find(struct parser *p, const char *text);
const char *parse_binding_word(const struct binding *b);        // what it is, for messages: "a type"

// branches.c: leaves out branches whose conditions are numbers. False and an error when memory is out.
bool parse_branches(struct tile_kernel *kernel);
bool parse_decides(expr mask, bool *is_true); // whether a condition is a number, and which

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
