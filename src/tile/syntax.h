// syntax.h - what the printer and the parser of the text form share. Included by them only.

#ifndef SYNTAX_H
#define SYNTAX_H

#include "tile/tile.h"

// syntax.c: words and operators -----------------------------------------------------------------------------

// Operators between two operands, loosest first by level. Comparisons do not chain.
struct tile_infix {
    const char *text;
    enum tile_op op;
    int level;
};
enum { LEVEL_LOOSEST = 1, LEVEL_COMPARE = 4, LEVEL_UNARY = 8 };
const struct tile_infix *tile_infix_of(enum tile_op op);        // NULL if it is written as a call
const struct tile_infix *tile_infix_find(const char *text);

// What the reader expects of an operand: EXPECT_SAME is the type that operands share, and the result
// too if tile_op_gives_same.
enum tile_expectation { EXPECT_NOTHING, EXPECT_SAME, EXPECT_BOOL, EXPECT_F32, EXPECT_C64 };
enum tile_expectation tile_expectation(enum tile_op op, int at);
const struct tile_type *tile_expected_type(enum tile_expectation expectation); // NULL for NOTHING and SAME
bool tile_op_gives_same(enum tile_op op);

bool tile_is_word(const char *text); // of the language: no name can be called so

// by enum tile_memory; all but the last, "table", are words of statements
extern const char *const tile_memory_word[];
extern const char *const tile_loop_word[];    // by enum tile_loop
extern const char *const tile_shuffle_word[]; // by enum tile_shuffle
extern const char *const tile_scope_word[];   // by enum tile_scope
int tile_word_find(const char *const *words, int count, const char *text); // -1: none

// Records "file:line:column: message", the line and a caret. Returns NULL.
void *tile_error_at(zl_error_kind kind, const char *file, const char *source, struct tile_place place,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

// Gives an error that was recorded without a place ("tile: ...") this one.
void tile_error_move(zl_error_kind kind, const char *file, const char *source, struct tile_place place);

// literal.c: numbers, both ways -----------------------------------------------------------------------------

struct tile_literal {
    const char *text;      // digits, without sign and suffix; "inf", "nan", "true", "false"
    int len;
    bool is_float, is_word, negative, has_type, has_payload;
    struct tile_type type; // by suffix
    uint64_t payload;      // of nan(0x...)
};

// Prints a constant so that reading it gives the same bits. is_known: the reader knows its type from the
// context.
void tile_print_const(struct text *out, struct tile_type type, uint64_t bits, bool is_known);

// The bits of a literal as that type; a message if it has none, else NULL.
const char *tile_literal_bits(const struct tile_literal *literal, struct tile_type type, uint64_t *bits);

// print_expr.c: expressions as text -------------------------------------------------------------------------

struct tile_binding {
    const void *object; // name, buffer, expression
    int token;          // or the token of an asynchronous statement
    const char *text;
};

struct tile_printer {
    struct text out;
    struct arena arena;
    struct tile_binding *scope; // innermost last
    int bindings, cap, indent, lets;
    struct tile_type index_type;
    bool failed;
};

// The text that stands for an object in scope, and a new one for an object that enters it.
const char *tile_bound_text(const struct tile_printer *p, const void *object, int token);
const char *tile_bind(struct tile_printer *p, const void *object, int token, const char *wanted);

// Prints e; expected is the type that the reader expects there, or NULL.
void tile_print_operand(struct tile_printer *p, expr e, const struct tile_type *expected);
// Prints `let` lines for what these expressions share or repeat, each on a line of its own.
void tile_print_lets(struct tile_printer *p, int roots, const expr *root);
void tile_print_indent(struct tile_printer *p);

// print_stmt.c: statements as text --------------------------------------------------------------------------

const char *tile_name_text(struct tile_printer *p, const void *object, const char *text); // as bound, or text
void tile_print_buffer(struct tile_printer *p, const struct tile_buffer *b, const char *memory);
void tile_print_block(struct tile_printer *p, const struct tile_stmt *body);

// lex.c: text to tokens -------------------------------------------------------------------------------------

enum tile_token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN, TOKEN_BAD };

struct tile_token {
    enum tile_token_kind kind;
    struct tile_place place;
    const char *text;            // NUL-terminated, in the lexer's arena; of a string, unquoted
    struct tile_literal literal; // numbers
};

struct tile_lexer {
    const char *source, *at;
    struct tile_place place;
    struct arena *arena;
};

struct tile_token tile_lex(struct tile_lexer *lexer); // the next token; TOKEN_BAD: text says why

#endif
