// fuse.h - which calls of a program become one kernel, and what that kernel computes.
//
// A device keeps a step for each call of a program. From one call on, fuse_find follows the calls that can run as one pass
// over memory: they compute elements of one shape, and once one of them reduces lines, also one element a line. Lines lie
// along the last axis or, in a group of columns, along the leading axes. What a device cannot do is in its struct
// fuse_limits. A recipe (fuse_write) says what a group computes; it is the key of a kernel and all that its tile IR is built
// from. Memory, temporaries, layouts and launches belong to the devices.

#ifndef FUSE_H
#define FUSE_H

#include "graph/graph.h"
#include "op/op.h"
#include "tile/tile.h"

// steps.c: facts of a call that a plan's key fixes -----------------------------------------------------------------

enum fuse_kind {
    FUSE_OTHER,   // runs by itself
    FUSE_VIEW,    // another name of its input's memory
    FUSE_MAP,     // each element of the result is computed from one element of each input
    FUSE_REDUCE,
    FUSE_PRODUCT, // a matrix product
};

struct fuse_step {
    uint8_t kind;      // enum fuse_kind
    uint8_t inputs;    // at most 3
    uint8_t dtype[4];  // of the output, and of the inputs of a map or reduction as it reads them
    bool needed;       // the result is read after the segment
    int32_t source[3]; // the call of the segment that makes an input; -1: none does
    int32_t last;      // the call of the segment that reads the result last; -1: none does
};

// The steps of a program. Each is the first member of what its device keeps of a call.
struct fuse_steps {
    struct fuse_step *first;
    size_t apart; // bytes
    int count;
};

static inline struct fuse_step *fuse_step_at(const struct fuse_steps *s, int index) {
    return (struct fuse_step *)(void *)((char *)s->first + s->apart * (size_t)index);
}

void fuse_set_step(struct fuse_step *s, const struct call *c); // all but needed, source and last
// Sets these. False and an error when memory is out.
bool fuse_link_steps(const struct fuse_steps *s, struct call *const *call, const uint8_t *needed);
enum tile_op fuse_combines(const struct call *c); // what a reduction joins two elements by

// group.c: finding groups ------------------------------------------------------------------------------------------

enum { FUSE_CALLS = 32 }; // of a group, on any device

enum row_kind {
    ROW_ELEMENTS, // computes elements of the group's shape
    ROW_LINES,    // computes one element a line, from such elements
    ROW_REDUCE,   // computes one element a line, from the elements of the line
    ROW_VIEW,     // is another name of what an earlier call computes
    ROW_PRODUCT,  // is the matrix product that the group begins with
    ROW_ASIDE,    // is a view of what is made outside of the group, and as good as made there itself
};

// Nothing is computed of it.
static inline bool row_is_view(enum row_kind kind) {
    return kind == ROW_VIEW || kind == ROW_ASIDE;
}

struct fuse_row {
    uint8_t kind;  // enum row_kind
    bool of_lines; // the result is one element a line
    bool stored;   // the result gets memory, because something outside the group reads it
    int until;     // the call that reads the result, or a view of it, last
};

// What kept a group from having one call more.
enum fuse_end {
    FUSE_END_NONE, // there is no call left
    FUSE_END_CALLS,
    FUSE_END_OPERANDS,
    FUSE_END_OP,
    FUSE_END_SHAPE,
    FUSE_END_ORDER,
    FUSE_END_REDUCTION,
    FUSE_END_INPUTS,
};

struct fuse_group;

struct fuse_limits {
    int calls, operands;           // of a kernel; operands 0: fits or the device counts them
    int reductions;                // of a kernel; 0: reductions do not join
    int64_t line_least, line_most; // elements of lines that are reduced
    int64_t lines_least;           // how many lines there must be if they have more than line_short elements:
    int64_t line_short;            // for words, the device checks it
    bool bitcasts;                 // views may have another dtype
    bool products;                 // a matrix product may come first
    bool asides;                   // views of what is made outside may be between
    // Whether the device takes a call whose row is set, as the next of the group; NULL: every one.
    bool (*joins)(struct fuse_group *g, int index);
    // What keeps the group, whose uses are known, from being one kernel: then it is tried without its last call. NULL: nothing.
    enum fuse_end (*fits)(struct fuse_group *g);
};

struct fuse_group {
    // Given:
    const struct fuse_steps *steps;
    struct call *const *call;
    const struct fuse_limits *limits;
    int begin;
    int columns; // leading axes that lines lie along; 0: they lie along the last axis
    // Found:
    int end;
    int ndim;
    const int64_t *dim; // the shape of its elements
    int64_t line;       // elements of a line; 0: the group reduces nothing
    int reductions, outputs;
    enum fuse_end ended;
    struct fuse_row row[FUSE_CALLS];
};

static inline const struct fuse_step *fuse_step(const struct fuse_group *g, int index) {
    return fuse_step_at(g->steps, index);
}

static inline const struct fuse_row *fuse_row(const struct fuse_group *g, int index) {
    return &g->row[index - g->begin];
}

static inline zl_array fuse_output(const struct fuse_group *g, int index) {
    return call_first(g->call[index]);
}

// The input is made outside the group.
static inline bool fuse_is_outside(const struct fuse_group *g, int index, int k) {
    int source = fuse_step(g, index)->source[k];
    return source < g->begin || fuse_row(g, source)->kind == ROW_ASIDE;
}

// The kernel writes the call's result to memory.
static inline bool fuse_is_output(const struct fuse_group *g, int index) {
    const struct fuse_row *r = fuse_row(g, index);
    return r->stored && !row_is_view((enum row_kind)r->kind) && r->kind != ROW_PRODUCT;
}

static inline bool fuse_has_shape(const struct fuse_group *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

// One element a line: 1 for the axes of lines. In a group of columns leading axes may be missing.
bool fuse_has_line_shape(const struct fuse_group *g, zl_array x);
bool fuse_is_ready(const struct fuse_group *g, int index);        // nothing that a call reads from outside failed or is gone

// Returns how many leading axes the next reduction from a call on is over, if it reduces the shape of that call and keeps an axis; 0: it does
// not, or no group that begins there reaches it.
int fuse_columns_ahead(const struct fuse_steps *s, struct call *const *call, int begin);
// Finds the group that begins at a call, as far as limits allow, with its rows and uses. False: not even the first call fits.
bool fuse_find(struct fuse_group *g);
void fuse_find_uses(struct fuse_group *g); // what is stored, and until when results are read, from the kinds of rows
// The call of the group that computes what an input is, or is a view of; -1: none does.
int fuse_source(const struct fuse_group *g, int index, int k);
// Adds in words what ended the group; nothing if no call was left.
void fuse_explain(const struct fuse_group *g, struct text *out);

// run.c: running groups --------------------------------------------------------------------------------------------

// Computes a group, the first member of what its device keeps of it, whose results have memory. False and an error.
typedef bool fuse_body(struct fuse_group *g);
// Gives results their memory, runs body, and publishes them, or fails all of them. Returns how many calls there were.
int fuse_run_group(struct fuse_group *g, struct binding *b, fuse_body *body);

// recipe.c: what a kernel computes ---------------------------------------------------------------------------------

enum { FUSE_OPERANDS = 24 };  // of a kernel, on any device
enum { FUSE_INPUT = 1 << 8 }; // a reference to an input; else to the result of a row
enum { FUSE_FORM = 15 };      // the bits of an input that are its form; its dtype is above them

// How an input lies. Devices have forms of their own from FUSE_FORMS on; for the IR of a map those are vectors.
enum fuse_form { FUSE_VECTOR, FUSE_ONE, FUSE_SCALAR, FUSE_FORMS }; // ONE: an element in memory; SCALAR: by value

// Ops of rows besides those of tile_op: divisions by a number that does not change.
enum {
    FUSE_QUOTIENT = TILE_OP_COUNT, // of x and b, with the inverse of b as a third operand
    FUSE_BY_INVERSE,               // of x and b, as a product with the inverse of b in float32
};

struct fuse_op {
    uint8_t kind;   // enum row_kind
    uint8_t inputs; // operands
    uint8_t dtype;  // of the result
    uint8_t from;   // of the last operand
    int16_t op;     // a tile_op, or one of those above
    int16_t arg[4]; // references
};

// Keys are compared as bytes, up to the last row: what is not used before the rows is zero.
struct fuse_recipe {
    int16_t rows, inputs, outputs;
    int16_t operand[FUSE_OPERANDS]; // inputs: form | dtype << 4; then outputs: row << 1 | one element a line
    struct fuse_op row[FUSE_CALLS];
};

static inline int fuse_form(const struct fuse_recipe *r, int input) {
    return r->operand[input] & FUSE_FORM;
}

static inline zl_dtype fuse_input_dtype(const struct fuse_recipe *r, int input) {
    return (zl_dtype)(r->operand[input] >> 4);
}

static inline void fuse_set_input(struct fuse_recipe *r, int input, int form, zl_dtype dtype) {
    r->operand[input] = (int16_t)(form | (int)dtype << 4);
}

static inline int fuse_output_row(const struct fuse_recipe *r, int output) {
    return r->operand[r->inputs + output] >> 1;
}

static inline bool fuse_output_of_lines(const struct fuse_recipe *r, int output) {
    return r->operand[r->inputs + output] & 1;
}

static inline zl_dtype fuse_output_dtype(const struct fuse_recipe *r, int output) {
    return (zl_dtype)r->row[fuse_output_row(r, output)].dtype;
}

static inline bool fuse_is_row(int reference) {
    return !(reference & FUSE_INPUT);
}

// Writes the recipe of calls [begin, end) of a group.
struct fuse_writer {
    struct fuse_group *g;
    int begin, end;
    int operands;          // at most
    struct fuse_recipe *r; // what it held is lost
    // Which op computes a division: TILE_DIV, TILE_MUL if input gives the inverse of the divisor, or one of the enum above.
    // NULL: TILE_DIV.
    int (*divide)(const struct fuse_writer *w, int index);
    // The number of the input that operand k of a call is, as op reads it; -1: there are too many. It may call fuse_set_input.
    int (*input)(struct fuse_writer *w, int index, int k, int op);
    int16_t number[FUSE_CALLS]; // rows of calls; -1: the call is a view of what these calls do not compute
};
bool fuse_write(struct fuse_writer *w); // false: there are too many operands
// Something besides calls [begin, end) reads what the call computes: it is one of the recipe's outputs, which are in this order.
bool fuse_is_result(const struct fuse_writer *w, int index);

// A row on its operands. A FUSE_QUOTIENT is computed in the quick way, and *rare becomes true where that is wrong too; if rare is NULL, by a division.
expr fuse_apply(const struct fuse_op *op, const expr *arg, expr *rare);
// The kernel of a recipe whose rows all are ROW_ELEMENTS: x0, x1, ... are its inputs, y0, y1, ... its outputs. The last row may be the
// ROW_REDUCE of another, of one line. NULL and an error.
struct tile_kernel *fuse_build_map(const struct fuse_recipe *r);

// tiles.c: pieces of kernels that devices build from recipes, into the current kernel. NULL flows as it does in the builder. ----------

void fuse_begin(const char *kernel, bool wide); // tile_begin; wide: indices have 64 bits
// A size of at least `least` that is a multiple of the divisor. Its name is the word and the number, or without a number if that is -1.
expr fuse_symbol(const char *word, int number, int64_t least, int64_t divisor);
// What holds elements of a dtype: a parameter, registers of a thread, or a number that a launch passes by value.
struct fuse_operand {
    zl_dtype dtype;
    const struct tile_buffer *buffer; // of complex numbers: their parts, the real one first, as f32
    expr value;                       // of a number by value; else NULL
};
// Declare parameters, whose names are the word and the number ("x" and 0: x0). Inputs are declared before outputs, as a launch passes them.
struct fuse_operand fuse_declare(const char *word, int number, zl_dtype dtype, expr elements, bool is_output);
struct fuse_operand fuse_declare_value(const char *word, int number, zl_dtype dtype);
// Allocates registers for `count` elements, in the body that is being built.
struct fuse_operand fuse_run(const char *word, int number, zl_dtype dtype, int count);
expr fuse_read(const struct fuse_operand *o, expr at); // the element at a position; a number by value is the same at all
void fuse_put(const struct fuse_operand *o, expr at, expr value);
// Moves `count` neighbours in an unrolled loop, which passes make vectors of where positions are multiples of the vector's elements.
void fuse_move(const struct fuse_operand *to, expr to_at, const struct fuse_operand *from, expr from_at, int count);
// A table of numbers of index type that a launch passes by value, and one of its numbers.
const struct tile_buffer *fuse_table(const char *text, int rows, int columns);
expr fuse_entry(const struct tile_buffer *table, int row, expr column);
// tile_walk, for which each place that is not NULL becomes a variable.
void fuse_walk(const struct tile_buffer *table, expr inner, expr which, int count, expr *place);
// Sets value[k] to what row k computes, for rows [begin, end), from input[] and from earlier rows in value[]. keeps: each is kept in
// variables, for recipes of several results. rare: see fuse_apply.
void fuse_rows(const struct fuse_recipe *r, int begin, int end, const expr *input, expr *value, bool keeps, expr *rare);

// map.c: kernels of elements ------------------------------------------------------------------------------------------

// Forms of inputs besides those of every recipe, of which a vector lies as the outputs do: by strides; by strides, with neighbours behind each other
// along the last axis, or one element for all of that axis.
enum fuse_stride { FUSE_STRIDED = FUSE_FORMS, FUSE_ROWS, FUSE_SAME };

static inline bool fuse_is_strided(int form) {
    return form >= FUSE_FORMS;
}

enum { FUSE_MAP_THREADS = 256, FUSE_MAP_AXES = 8 };

// The key of such a kernel. Where there are strided inputs, sizes are multiples of the width, and without FUSE_STRIDED unless it is 1.
struct fuse_map {
    int16_t width, runs, wide; // neighbours that a thread takes at once, and how often; indices have 64 bits
    struct fuse_recipe f;      // all rows are ROW_ELEMENTS
};
// The kernel of a struct fuse_map. Its parameters are the inputs in their order, if some are strided a table, and the outputs; its
// symbols the number of elements and, for each input in memory, the position of its first. If some are strided there follow `inner` of
// tile_walk, the position of the first output, and for each of these inputs how many elements its memory has. The table has
// a row for the sizes of axes, innermost first, and one for the strides of each of them: sizes of the last axis and strides of
// FUSE_ROWS are counted in widths. NULL and an error.
struct tile_kernel *fuse_make_map(const void *map);
int fuse_strided_inputs(const struct fuse_recipe *r); // how many there are

extern const double fuse_plain_least, fuse_plain_most; // sizes of divisors and dividends that quick quotients are right for

#endif
