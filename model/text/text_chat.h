// text_chat.h - declarations that the files of the template interpreter share: tokens, the syntax tree,
// values, and a run.

#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text_inside.h"

// text_chat_lex.c -------------------------------------------------------------------------------------------

enum token_kind {
    TOKEN_DATA,
    TOKEN_OUTPUT,
    TOKEN_OUTPUT_END,
    TOKEN_BLOCK,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_OPERATOR,
    TOKEN_END
};
struct token {
    enum token_kind kind;
    const char *text; // of data, names and texts; of an operator its characters, NUL-terminated
    size_t bytes;
    int64_t integer;
    double real;
    size_t at; // offset in the source
};
struct token_list {
    struct token *item;
    size_t count, cap;
};

struct text_template {
    char *name, *source;
    size_t bytes;
    struct text_arena arena;
    struct token_list tokens;
    struct node *root;
    char *error; // of the call that reads it
    size_t error_bytes;
};
// Writes an error about an offset of the source, which begins with NAME:LINE:COLUMN. Returns false.
bool text_chat_fail(const struct text_template *t, size_t at, char *error, size_t error_bytes,
                    const char *format, va_list list);
// Splits the source into tokens. Returns false after an error.
bool text_chat_lex(struct text_template *t);
// Writes an error of the call that reads the template, as text_chat_fail does. Returns false.
bool text_chat_wrong(struct text_template *t, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// text_chat_parse.c -----------------------------------------------------------------------------------------

enum node_kind {
    NODE_BODY,
    NODE_DATA,
    NODE_OUTPUT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BODY,
    NODE_MACRO,
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_NAME,
    NODE_TEXT,
    NODE_INTEGER,
    NODE_REAL,
    NODE_TRUE,
    NODE_FALSE,
    NODE_NONE,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,
    NODE_ATTRIBUTE,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_POSITIVE,
    NODE_AND,
    NODE_OR,
    NODE_CONDITION,
    NODE_COMPARE,
    NODE_BINARY,
    NODE_NAMED,    // name=value of a call
    NODE_CAPTURED, // the text to which the filters of {% set name | ... %} apply
};
struct node {
    enum node_kind kind;
    size_t at;
    const char *text; // names, texts, operators
    size_t bytes;
    int64_t integer;
    double real;
    struct node *a, *b, *c, *d;
    struct node **item; // statements, elements, arguments; the operands of a comparison after the first
    const char **word;  // the operators of a comparison
    int count;
};
// Parses the tokens to the tree t->root. Returns false after an error.
bool text_chat_parse(struct text_template *t);

// text_chat_value.c -----------------------------------------------------------------------------------------

enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
    VALUE_METHOD
};
struct value {
    enum value_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        struct { const char *data; size_t bytes; } text;
        struct value_list *list;
        struct value_dict *dict;
        struct loop *loop;
        const struct node *macro;
        const char *name;           // of what is undefined, and of a function
        struct method *method;
    } as;
};
struct value_list {
    struct value *item;
    size_t count, cap;
};
struct value_dict {
    struct value *key, *value;
    size_t count, cap;
};
struct method {
    struct value self;
    const char *name;
};
struct loop {
    const struct value_list *items;
    size_t index;
    int depth;
    struct value last_changed;
    bool has_changed;
};
struct arguments {
    const struct value *item;
    int count;
    const char **name; // of the named ones
    const struct value *named;
    int named_count;
};

struct scope { // names that were set, newest last
    struct binding { const char *name; struct value value; } *item;
    size_t count, cap;
    size_t frame; // where names are set: from here on
    size_t floor; // what a macro sees begins here, besides the outermost scope
    size_t outer; // bindings of the outermost scope
};

struct run {
    const struct text_template *t;
    struct text_arena arena;
    size_t used;                // bytes of the arena
    struct text_buffer out;     // of the body that runs
    size_t written;             // all bytes of output
    struct scope scope;
    const struct text_render_options *options;
    int64_t steps;
    int depth, calls; // of values, of macros
    struct value body; // that a set block captured
    bool failed, breaks, continues;
    size_t at; // of what runs
    char *error;
    size_t error_bytes;
};

// The memory of values belongs to the run. A function that fails marks the run as failed (r->failed), with an
// error, and returns an undefined value, NULL, false or 0.

// Returns a text with a copy of the bytes.
struct value text_value_text(struct run *r, const char *data, size_t bytes);
// Records an error, unless the run has failed already, and marks it as failed. Returns an undefined value.
struct value text_value_fail(struct run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Allocates memory that is freed with the run. Fails if the run uses too much.
void *text_run_memory(struct run *r, size_t bytes);
// Returns an empty list or tuple.
struct value text_value_list(struct run *r, enum value_kind kind);
// Appends an item to a list.
bool text_value_append(struct run *r, struct value_list *list, struct value item);
// Returns an empty dict.
struct value text_value_dict(struct run *r);
// Sets the value of a key, new or not. Fails if the key is a list or a dict.
bool text_value_set(struct run *r, struct value_dict *dict, struct value key, struct value value);
// Returns the value of a key, or NULL if there is none.
const struct value *text_value_get(struct run *r, const struct value_dict *dict, struct value key);
// Returns the value of a key that is a text, or NULL if there is none.
const struct value *text_value_find(const struct value_dict *dict, const char *key);
// Returns whether a condition holds for the value, as in Python.
bool text_value_truth(struct value v);
// Returns whether two values are equal, as in Python.
bool text_value_equal(struct run *r, struct value a, struct value b);
// Returns a number less than, equal to or greater than 0 as a is before, equal to or after b. Fails if
// Python does not order such values.
int  text_value_order(struct run *r, struct value a, struct value b);
// Returns whether a text, a list or a dict contains a value. Fails for other kinds.
bool text_value_contains(struct run *r, struct value where, struct value what);
// Appends a value as Python's str, or repr if `quoted`, prints it. Returns false after an error, or if
// memory runs out.
bool text_value_print(struct run *r, struct text_buffer *out, struct value v, bool quoted);
// Returns a value as a text, like Python's str.
struct value text_value_string(struct run *r, struct value v);
// Appends a value as the filter `tojson` writes it, with the filter's arguments.
bool text_value_json(struct run *r, struct text_buffer *out, struct value v, const struct arguments *args);
// Converts a JSON value. An absent one becomes none.
struct value text_value_of_json(struct run *r, text_json_value json);
// Returns a list of the items over which a loop runs. Fails if the value has none.
struct value text_value_items(struct run *r, struct value v);
// Returns the name of a value's kind, for errors: Python's if it has one.
const char *text_value_kind(struct value v);
// Returns the number of characters in UTF-8.
size_t text_utf8_count(const char *data, size_t bytes);
// Returns a slice of a text or a list, as in Python. `from`, `to` and `step` may be VALUE_NONE.
struct value text_value_slice(struct run *r, struct value v, struct value from, struct value to,
                              struct value step);
// Returns an item of a text, a list or a dict; an undefined value, without an error, if there is none.
struct value text_value_index(struct run *r, struct value v, struct value index);
static inline struct value text_value_integer(int64_t i) {
    return (struct value){VALUE_INTEGER, .as.integer = i};
}
static inline struct value text_value_bool(bool b) { return (struct value){VALUE_BOOL, .as.truth = b}; }
static inline bool text_value_is_number(struct value v) {
    return v.kind >= VALUE_BOOL && v.kind <= VALUE_REAL;
}
static inline double text_value_real(struct value v) {
    return v.kind == VALUE_REAL ? v.as.real : v.kind == VALUE_BOOL ? v.as.truth : (double)v.as.integer;
}
static inline int64_t text_value_whole(struct value v) {
    return v.kind == VALUE_BOOL ? v.as.truth : v.as.integer;
}

// text_chat_filter.c, text_chat_method.c --------------------------------------------------------------------

// Returns the argument at a position, otherwise the one of that name; NULL if it is not given.
const struct value *text_argument(const struct arguments *args, int place, const char *name);
// Applies a filter, which exists.
struct value text_filter(struct run *r, const char *name, struct value in, const struct arguments *args);
// Returns whether there is a filter of that name.
bool text_is_filter(const char *name);
// Returns the result of a test, which exists.
bool text_test(struct run *r, const char *name, struct value in, const struct arguments *args);
// Returns whether there is a test of that name.
bool text_is_test(const char *name);
// Returns whether a value has a method of that name, or would have one in Python that changes it.
bool text_is_method(struct value self, const char *name);
// Calls a method for which text_is_method is true. Fails if the method would change the value.
struct value text_method(struct run *r, struct value self, const char *name, const struct arguments *args);
// Removes the characters of `set` from the ends of a text, like Python's strip. NULL stands for white
// space.
struct value text_strip(struct run *r, struct value v, const char *set, size_t set_bytes, bool left,
                        bool right);

// text_chat_run.c -------------------------------------------------------------------------------------------

// Returns an attribute of a value; an undefined value, without an error, if there is none. Fails if the
// value itself is undefined.
struct value text_chat_attribute(struct run *r, struct value v, const char *name);
// Defines a variable in the outermost scope, before the run.
void text_chat_define(struct run *r, const char *name, struct value v);
// Runs the template, whose output is in r->out then. Returns false after an error.
bool text_chat_run(struct run *r);
// Counts a step of the run. Returns false if there are too many, or the run has failed.
bool text_run_step(struct run *r);

#endif
