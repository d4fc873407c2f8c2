// syntax.c - words and operators of the text form, and errors that point into it.

#include "tile/syntax.h"

#include "op/rules.h"

#include <string.h>

static const struct tile_infix infix[] = {
    {"|", TILE_OR, 1},        {"^", TILE_XOR, 2}, {"&", TILE_AND, 3}, {"==", TILE_EQ, 4}, {"!=", TILE_NE, 4},
    {"<", TILE_LT, 4},        {"<=", TILE_LE, 4}, {">", TILE_GT, 4},  {">=", TILE_GE, 4}, {"<<", TILE_SHL, 5},
    {">>", TILE_SHR, 5},      {"+", TILE_ADD, 6}, {"-", TILE_SUB, 6}, {"*", TILE_MUL, 7}, {"/", TILE_DIV, 7},
    {"//", TILE_FLOORDIV, 7}, {"%", TILE_REM, 7},
};

const struct tile_infix *tile_infix_of(enum tile_op op) {
    for (size_t i = 0; i < COUNT(infix); i++)
        if (infix[i].op == op)
            return &infix[i];
    return NULL;
}

const struct tile_infix *tile_infix_find(const char *text) {
    for (size_t i = 0; i < COUNT(infix); i++)
        if (!strcmp(infix[i].text, text))
            return &infix[i];
    return NULL;
}

enum tile_expectation tile_expectation(enum tile_op op, int at) {
    switch (op) {
    case TILE_SELECT:
    case TILE_RARE: return at == 0 ? EXPECT_BOOL : EXPECT_SAME;
    case TILE_PAIR: return EXPECT_F32;
    case TILE_RE:
    case TILE_IM: return EXPECT_C64;
    case TILE_CAST:
    case TILE_BITCAST: return EXPECT_NOTHING;
    default: return EXPECT_SAME;
    }
}

const struct tile_type *tile_expected_type(enum tile_expectation expectation) {
    static const struct tile_type type[] = {[EXPECT_BOOL] = {TILE_BOOL, 1, 1},
                                            [EXPECT_F32] = {TILE_FLOAT, 32, 1},
                                            [EXPECT_C64] = {TILE_COMPLEX, 64, 1}};
    return expectation < EXPECT_BOOL ? NULL : &type[expectation];
}

// Also true of ops with the rule PART: a literal that takes its type from the result is not complex.
bool tile_op_gives_same(enum tile_op op) {
    return !(tile_op_rule(op) & TRUTH);
}

static const char *const words[] = {
    "kernel",     "param",  "where",     "index",   "grid",       "threads", "map",     "in",
    "step",       "stages", "if",        "else",    "while",      "break",   "let",     "copy",
    "copy_async", "gemm",   "fill",      "load",    "gemm_async", "store",   "reduce",  "scan",
    "accumulate", "clear",  "axis",      "atomic",  "wait",       "keep",    "barrier", "assert",
    "print",      "view",   "transpose", "reverse", "of",         "bits",    "align",   "exclusive",
    "swizzle",    "stride", "inf",       "nan",     "true",       "false",   "im2col",  "thread",
    "shuffle",    "once",   "loose",     "walk",    "command",
};

const char *const tile_memory_word[] = {"global", "constant", "shared", "fragment",
                                        "local",  "extra",    "table"};
const char *const tile_loop_word[] = {"for", "parallel", "unroll", "vector", "pipeline"};
const char *const tile_shuffle_word[] = {"xor", "up", "from"};
const char *const tile_scope_word[] = {"subgroup", "group", "cluster"};

int tile_word_find(const char *const *list, int count, const char *text) {
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i], text))
            return i;
    return -1;
}

// Returns whether a word is a number with a type, such as inf_f32 and nan_bf16.
static bool is_typed_word(const char *text) {
    struct tile_type type;
    return (!strncmp(text, "inf_", 4) || !strncmp(text, "nan_", 4)) && tile_type_find(text + 4, &type);
}

bool tile_is_word(const char *text) {
    struct tile_type type;
    return tile_word_find(words, COUNT(words), text) >= 0 || tile_word_find(tile_memory_word, 6, text) >= 0 ||
           tile_word_find(tile_loop_word, 5, text) >= 0 || tile_word_find(tile_scope_word, 3, text) >= 0 ||
           tile_type_find(text, &type) || is_typed_word(text);
}

// Errors ----------------------------------------------------------------------------------------------------

static const char *find_line(const char *source, int line, int *len) {
    for (int i = 1; i < line; i++) {
        source = strchr(source, '\n');
        if (!source)
            return NULL;
        source++;
    }
    *len = (int)strcspn(source, "\r\n");
    return source;
}

// Appends the line, and below it a caret at the column. Tabs are kept, so that the caret is at the right
// place.
static void add_line(struct text *out, const char *line, int len, int column) {
    text_add(out, "\n%.*s\n", len, line);
    for (int i = 0; i < column - 1 && i < len; i++)
        text_add(out, "%c", line[i] == '\t' ? '\t' : ' ');
    text_add(out, "^");
}

void *tile_error_at(zl_error_kind kind, const char *file, const char *source, struct tile_place place,
                    const char *format, ...) {
    struct text out = {0};
    va_list list;
    int len = 0;
    if (place.line)
        text_add(&out, "%s:%d:%d: ", file, place.line, place.column);
    else
        text_add(&out, "%s: ", file);
    va_start(list, format);
    text_add_list(&out, format, list);
    va_end(list);
    const char *line = source && place.line ? find_line(source, place.line, &len) : NULL;
    if (line)
        add_line(&out, line, len, place.column);
    if (!out.failed)
        error_set(kind, "%s", out.data);
    text_free(&out);
    return NULL;
}

void tile_error_move(zl_error_kind kind, const char *file, const char *source, struct tile_place place) {
    zl_error_kind old;
    char *message = error_take(&old);
    if (!message)
        return;
    const char *what = strncmp(message, "tile: ", 6) ? message : message + 6;
    if (old == ZL_ERROR_MEMORY)
        error_put(old, message);
    else
        tile_error_at(kind, file, source, place, "%s", what);
    memory_free(message);
}
