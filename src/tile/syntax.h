// syntax.h - declarations that the printer and the parser of the text form share. Included by them only.

#ifndef SYNTAX_H
#define SYNTAX_H

#include "tile/tile.h"

// syntax.c: words and operators -----------------------------------------------------------------------------

// An infix operator. A higher level binds more tightly; comparisons do not chain.
struct tile_infix {
    const char *text;
    enum tile_op op;
    int level;
};
enum { LEVEL_LOOSEST = 1, LEVEL_COMPARE = 4, LEVEL_UNARY = 8 };
// Returns the operator of an op; NULL if it is written as a call.
const struct tile_infix *tile_infix_of(enum tile_op op);
// Returns the operator with this text; NULL if there is none.
const struct tile_infix *tile_infix_find(const char *text);

// The type that the parser expects of an operand. EXPECT_SAME: the type that operands share, which is also
// that of the result if tile_op_gives_same.
enum tile_expectation { EXPECT_NOTHING, EXPECT_SAME, EXPECT_BOOL, EXPECT_F32, EXPECT_C64 };
// Returns the type that is expected of an op's operand number `at`.
enum tile_expectation tile_expectation(enum tile_op op, int at);
// Returns the type that is expected; NULL for EXPECT_NOTHING and EXPECT_SAME.
const struct tile_type *tile_expected_type(enum tile_expectation expectation);
// Returns whether an op's result has the type that its operands share; also true of an op that gives the f32
// parts of complex operands.
bool tile_op_gives_same(enum tile_op op);

// Returns whether a text is a word of the language, which no name can be.
bool tile_is_word(const char *text);

// by enum tile_memory; all but the last, "table", begin statements
extern const char *const tile_memory_word[];
extern const char *const tile_loop_word[];    // by enum tile_loop
extern const char *const tile_shuffle_word[]; // by enum tile_shuffle
extern const char *const tile_scope_word[];   // by enum tile_scope
// Returns the position of a text in a list of words; -1 if it is not there.
int tile_word_find(const char *const *words, int count, const char *text);

// Records an error, "file:line:column: message", the line of the source and a caret, and returns NULL.
// Without a place (line 0) it is "file: message"; without a source (NULL) it has no line and caret.
void *tile_error_at(zl_error_kind kind, const char *file, const char *source, struct tile_place place,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

// Gives this kind and place to the recorded error, if there is one; its message loses the prefix "tile: ". An
// error for lack of memory stays as it is.
void tile_error_move(zl_error_kind kind, const char *file, const char *source, struct tile_place place);

// literal.c: numbers, both ways -----------------------------------------------------------------------------

struct tile_literal {
    const char *text;      // digits, without sign and suffix; "inf", "nan", "true", "false"
    int len;
    bool is_float, is_word, negative, has_type, has_payload;
    struct tile_type type; // by suffix
    uint64_t payload;      // of nan(0x...)
};

// Prints a constant so that reading it gives the same bits. is_known: the parser knows its type from the
// context.
void tile_print_const(struct text *out, struct tile_type type, uint64_t bits, bool is_known);

// Sets *bits to those of a literal as that type. Returns NULL, or a message, which is static, if the type
// does not have it.
const char *tile_literal_bits(const struct tile_literal *literal, struct tile_type type, uint64_t *bits);
// Returns the base of an integer's digits: 16 after 0x, else 10, also after other zeros.
int tile_literal_base(const char *digits);

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

// Returns the text that stands for an object or token in scope; NULL if it is not in scope.
const char *tile_bound_text(const struct tile_printer *p, const void *object, int token);
// Binds an object or token to a text that nothing else in scope has, `wanted` or one made of it, and returns
// that. Printer and text live equally long.
const char *tile_bind(struct tile_printer *p, const void *object, int token, const char *wanted);

// Prints e; expected is the type that the reader expects there, or NULL.
void tile_print_operand(struct tile_printer *p, expr e, const struct tile_type *expected);
// Prints `let` lines for expressions that these share or repeat, each on a line of its own.
void tile_print_lets(struct tile_printer *p, int roots, const expr *root);
// Prints the spaces at the beginning of a line.
void tile_print_indent(struct tile_printer *p);

// print_stmt.c: statements as text --------------------------------------------------------------------------

// Returns the text to which an object is bound, or `text` if it is not in scope.
const char *tile_name_text(struct tile_printer *p, const void *object, const char *text);
// Prints a buffer's declaration, `a: f32[n, 4] stride [4, 1]`; `memory` is the word before the type, or "".
void tile_print_buffer(struct tile_printer *p, const struct tile_buffer *b, const char *memory);
// Prints statements at the current indentation, and ends the scope of the names that they declare.
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

// Reads the next token. The text of a TOKEN_BAD is a message.
struct tile_token tile_lex(struct tile_lexer *lexer);

#endif
