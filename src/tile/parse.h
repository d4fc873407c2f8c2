// parse.h - the parser's state. Included by parse*.c, elaborate.c and branches.c only.

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
    struct tile_token token; // the next token, not skipped yet
    const char *file;
    struct arena arena;
    struct binding *scope; // innermost last
    int bindings, cap, depth;
    bool failed, declares_symbols, had_error;
    struct given *given; // the caller's values for params, types and ops
};

// The syntax tree of an expression. The types of literals are found after all of it was read.
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
    // the type is known without context; else: whether a literal in it looks like a float
    bool is_typed, has_float;
    bool has_param;           // it is a param, or one of its operands has one
    struct tile_type type;
    struct tile_literal literal;
    expr value;
    const struct tile_buffer *buffer;
    int args, depth;
    bool is_masked;                   // a load whose first two args are mask and other
    struct node *arg[3 + TILE_DIMS];
};

// parse.c: tokens and names. Once an error has marked the parser failed, functions that read or bind return
// NULL, false or 0 and record no other error.

// Records a syntax error at a place, marks the parser failed and returns NULL.
void *parse_fail(struct parser *p, struct tile_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Gives the builder's error this place, marks the parser failed and returns NULL.
void *parse_fail_moved(struct parser *p, struct tile_place place);
// Reads the next token.
void  parse_next(struct parser *p);
// Returns whether the token is this sign or word; true of a failed parser, so that loops end.
bool  parse_is(const struct parser *p, const char *text);
// Skips the token if it is this sign or word, and returns whether it was.
bool  parse_accept(struct parser *p, const char *text);
// Skips the token, which must be this sign or word. Returns false, with an error, if it is not.
bool  parse_expect(struct parser *p, const char *text);
// Reads a name, which must not be a word of the language. Returns NULL, with an error, if there is none.
// `what` is the thing that it names, for messages.
const char *parse_name(struct parser *p, const char *what);
// Reads a whole number from `least` to 2^30, or a param that is one.
int   parse_count(struct parser *p, int least);
// Adds a binding to the scope, where it hides older ones of that name. Returns false if memory runs out.
bool  parse_bind(struct parser *p, struct binding binding);
// Binds a name of the kernel; NULL is the builder's error, which it moves to the token.
bool parse_bind_name(struct parser *p, enum binding_kind kind, const char *text,
                     const struct tile_name *name);
// Returns the innermost binding of that name; NULL, without an error, if there is none. It is valid until the
// next one is added.
struct binding *parse_find(struct parser *p, const char *text);
// Fails with "unknown <what> '<token>'" and a list of known names; returns NULL.
void *parse_unknown(struct parser *p, struct tile_token token, enum binding_kind kind, const char *what);
// Enters one level of nesting. Returns false, with an error, if there are too many; parse_leave is due in any
// case.
bool  parse_enter(struct parser *p);
// Leaves a level of nesting.
void  parse_leave(struct parser *p);

// Copies a list into the kernel's arena; NULL, with the parser failed, if memory runs out.
expr *parse_own_list(struct parser *p, const expr *list, int count);
// Reads a buffer's attributes, `stride [1] align 16 swizzle 3`, of which any may be missing.
bool  parse_attributes(struct parser *p, struct tile_buffer *buffer);

// parse_clause.c: types, params and ops, and the values that are given for them

// Reads the caller's values, "BM=64,ITEM=f16"; NULL: none. Returns false, with an error, if a value is
// missing or given twice, or memory runs out.
bool parse_given(struct parser *p, const char *list);
// Returns false, with an error, if a value was given for a name that the text does not declare.
bool parse_all_used(const struct parser *p);
// Reads and binds all clauses before the kernel.
bool parse_clauses(struct parser *p);
// Reads and binds params among statements, after the word `param`.
bool parse_param(struct parser *p);
// Reads a type of the language or one that was declared.
bool parse_type(struct parser *p, struct tile_type *out);
// Returns the op of that name, of the language or declared; TILE_OP_COUNT, without an error, if there is
// none.
enum tile_op parse_op_find(struct parser *p, const char *text);
// Returns the kind of a binding, for messages: "a type".
const char *parse_binding_word(const struct binding *b);

// branches.c

// Removes the branches of each `if` whose condition is a number that are never executed. Returns false, with
// an error, if memory runs out.
bool parse_branches(struct tile_kernel *kernel);
// Returns whether a condition is made of constants alone, and sets *is_true to its value.
bool parse_decides(expr mask, bool *is_true);

// parse_stmt.c

// Reads the statements of a block, with the } at its end.
bool parse_stmts(struct parser *p);

// Appends a statement to the kernel; if that fails, the builder's error gets the statement's place.
bool parse_append(struct parser *p, struct tile_stmt stmt);

// parse_region.c

// Reads and appends a statement of one kind, whose first word was read already; `stmt` has its kind and
// place. An allocation with `= value` is followed by a fill.
bool parse_alloc(struct parser *p, struct tile_stmt stmt, enum tile_memory memory);
bool parse_view(struct parser *p, struct tile_stmt stmt);
bool parse_copy(struct parser *p, struct tile_stmt stmt);
bool parse_gemm(struct parser *p, struct tile_stmt stmt);
bool parse_fill(struct parser *p, struct tile_stmt stmt);
bool parse_im2col(struct parser *p, struct tile_stmt stmt);
bool parse_reduce(struct parser *p, struct tile_stmt stmt);
// Reads the name of a row of two operands.
bool parse_combine(struct parser *p, enum tile_op *out);

// parse_expr.c, elaborate.c

// Reads an expression into its syntax tree, which lives in the parser's arena.
struct node *parse_node(struct parser *p);
// Returns the code of a syntax tree. `expected`, or NULL, is the type of literals whose type their operands
// do not tell; the result may be of another one.
expr parse_elaborate(struct parser *p, struct node *node, const struct tile_type *expected);
// Reads an expression, which must be of the type that is expected, unless that is NULL.
expr parse_expr(struct parser *p, const struct tile_type *expected);
// Reads an expression of index type.
expr parse_index(struct parser *p);
// Reads an expression of type bool.
expr parse_truth(struct parser *p);
// Reads a list of at most TILE_DIMS expressions, [a, b], and returns how many there are; -1 after an error.
int  parse_list(struct parser *p, expr *out);

#endif
