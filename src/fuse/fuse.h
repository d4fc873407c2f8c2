// fuse.h - finds which calls of a program become one kernel, and builds that kernel.
//
// A device keeps a step for each call of a program. Starting at one call, fuse_find collects the calls that
// can run as one pass over memory, a *group*. Its calls compute elements of one shape and, once one of them
// reduces a line to one element, also one element per line. A *line* is the elements that a reduction
// combines: a row along the last axis or, in a group of columns, the elements along the leading axes. A
// device states its limits in struct fuse_limits. A *recipe* (fuse_write) describes the computation of a
// group: it is the key of the kernel, and the kernel's tile IR is built from it alone. Memory, temporaries,
// layouts and launches belong to the devices.

#ifndef FUSE_H
#define FUSE_H

#include "graph/graph.h"
#include "op/op.h"
#include "tile/tile.h"

// steps.c: facts of a call that a plan's key fixes ----------------------------------------------------------

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
    uint8_t dtype[4];  // of the output, then of the inputs of a map or reduction as the kernel reads them
    bool needed;       // the result is read after the segment
    int32_t source[3]; // the call of the segment that computes each input, or -1
    int32_t last;      // the last call of the segment that reads the result, or -1
};

// The steps of a program. Each is the first member of the device's own record of a call.
struct fuse_steps {
    struct fuse_step *first;
    size_t apart; // bytes from one step to the next
    int count;
};

static inline struct fuse_step *fuse_step_at(const struct fuse_steps *s, int index) {
    return (struct fuse_step *)(void *)((char *)s->first + s->apart * (size_t)index);
}

// Sets all members except needed, source and last.
void fuse_set_step(struct fuse_step *s, const struct call *c);
// Sets needed, source and last of all steps. Returns false, with an error, if memory runs out.
bool fuse_link_steps(const struct fuse_steps *s, struct call *const *call, const uint8_t *needed);
// Returns the op by which a reduction combines two elements.
enum tile_op fuse_combines(const struct call *c);

// group.c: finding groups -----------------------------------------------------------------------------------

enum { FUSE_CALLS = 32 }; // the most calls of a group, on any device

// The part of a call in its group.
enum row_kind {
    ROW_ELEMENTS, // computes elements of the group's shape
    ROW_LINES,    // computes one element per line, from other elements per line
    ROW_REDUCE,   // computes one element per line, from the elements of the line
    ROW_VIEW,     // is a view of the result of an earlier call of the group
    ROW_PRODUCT,  // is the matrix product that the group begins with
    ROW_ASIDE,    // is a view of an array from outside the group
};

// Returns whether a call of this kind computes nothing.
static inline bool row_is_view(enum row_kind kind) {
    return kind == ROW_VIEW || kind == ROW_ASIDE;
}

struct fuse_row {
    uint8_t kind;  // enum row_kind
    bool of_lines; // the result is one element per line
    bool stored;   // the result gets memory, because something outside the group reads it
    int until;     // the last call that reads the result or a view of it
};

// The reason why a group does not contain the next call.
enum fuse_end {
    FUSE_END_NONE, // no call was left
    FUSE_END_CALLS,
    FUSE_END_OPERANDS,
    FUSE_END_OP,
    FUSE_END_SHAPE,
    FUSE_END_ORDER,
    FUSE_END_REDUCTION,
    FUSE_END_INPUTS,
};

struct fuse_group;

// The limits of one kernel of a device.
struct fuse_limits {
    int calls;                     // the most calls
    int operands;                  // the most inputs and outputs; 0: fits or the device counts them
    int reductions;                // the most reductions; 0: reductions are not fused
    int64_t line_least, line_most; // the fewest and the most elements of a line that is reduced
    // lines of more elements than line_short are reduced only if there are at least lines_least of them; the
    // device checks this, and explanations name both
    int64_t line_short;
    int64_t lines_least;
    bool bitcasts;                 // views may have a dtype other than their array's
    bool products;                 // a group may begin with a matrix product
    bool asides;                   // a group may contain views of arrays from outside
    // Returns whether the device accepts a call, whose row is set, as the next of the group. NULL: it accepts
    // every call.
    bool (*joins)(struct fuse_group *g, int index);
    // Returns the reason why the group, whose uses are known, cannot be one kernel; it is then tried without
    // its last call. NULL: every group fits.
    enum fuse_end (*fits)(struct fuse_group *g);
};

struct fuse_group {
    // Set by the caller:
    const struct fuse_steps *steps;
    struct call *const *call;
    const struct fuse_limits *limits;
    int begin;
    int columns; // the number of leading axes along which lines run; 0: lines run along the last axis
    // Found by fuse_find:
    int end;
    int ndim;
    const int64_t *dim; // the shape of its elements
    int64_t line;       // elements per line; 0: the group reduces nothing
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

// Returns whether input k of a call comes from outside the group.
static inline bool fuse_is_outside(const struct fuse_group *g, int index, int k) {
    int source = fuse_step(g, index)->source[k];
    return source < g->begin || fuse_row(g, source)->kind == ROW_ASIDE;
}

// Returns whether the kernel writes the call's result to memory.
static inline bool fuse_is_output(const struct fuse_group *g, int index) {
    const struct fuse_row *r = fuse_row(g, index);
    return r->stored && !row_is_view((enum row_kind)r->kind) && r->kind != ROW_PRODUCT;
}

static inline bool fuse_has_shape(const struct fuse_group *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

// Returns whether x has one element per line: the axes of lines have size 1. In a group of columns, leading
// axes may be missing.
bool fuse_has_line_shape(const struct fuse_group *g, zl_array x);
// Returns whether all arrays that a call reads from outside the group are available: none failed or was
// consumed.
bool fuse_is_ready(const struct fuse_group *g, int index);

// Looks ahead from a call to the next reduction. Returns the number of leading axes over which it reduces, if
// it reduces arrays of the call's shape and keeps at least one axis; otherwise, or if no group that begins
// here reaches it, 0.
int fuse_columns_ahead(const struct fuse_steps *s, struct call *const *call, int begin);
// Finds the longest group within the limits that begins at a call, with its rows and uses. Returns false if
// not even the first call fits.
bool fuse_find(struct fuse_group *g);
// Finds, from the kinds of rows, which results are stored and which call reads each last.
void fuse_find_uses(struct fuse_group *g);
// Returns the call of the group that computes input k of a call, or the array which that input is a view of;
// -1 if none does.
int fuse_source(const struct fuse_group *g, int index, int k);
// Appends why the group ended, in words; nothing if no call was left.
void fuse_explain(const struct fuse_group *g, struct text *out);

// run.c: running groups -------------------------------------------------------------------------------------

// Computes a group whose results have memory. The group is the first member of the device's own record.
// Returns false, with an error, if that fails.
typedef bool fuse_body(struct fuse_group *g);
// Allocates the results of a group, runs body, and publishes the results or marks them all as failed. Returns
// the number of calls.
int fuse_run_group(struct fuse_group *g, struct binding *b, fuse_body *body);

// recipe.c: what a kernel computes --------------------------------------------------------------------------

enum { FUSE_OPERANDS = 24 };  // the most inputs and outputs of a kernel, on any device
enum { FUSE_INPUT = 1 << 8 }; // set in a reference to an input; clear in one to the result of a row
enum { FUSE_FORM = 15 };      // mask of the bits of an input that hold its form; its dtype is above them

// How a kernel reads an input. Devices add forms of their own from FUSE_FORMS on; in the IR of a map, those
// are vectors.
enum fuse_form {
    FUSE_VECTOR, // one element per element of the result
    FUSE_ONE,    // a single element in memory
    FUSE_SCALAR, // a number passed by value
    FUSE_FORMS,
};

// Ops of rows besides those of tile_op: divisions by a scalar.
enum {
    FUSE_QUOTIENT = TILE_OP_COUNT, // x / b, with the inverse of b as a third operand
    FUSE_BY_INVERSE,               // x / b as a product with the inverse of b, in float32
};

struct fuse_op {
    uint8_t kind;   // enum row_kind
    uint8_t inputs; // how many operands it has
    uint8_t dtype;  // of the result
    uint8_t from;   // dtype of the last operand
    int16_t op;     // a tile_op, or one of those above
    int16_t arg[4]; // references to inputs or rows
};

// The computation of a kernel. Recipes are compared as bytes, up to the last row, so unused fields before the
// rows are zero.
struct fuse_recipe {
    int16_t rows, inputs, outputs;
    // inputs: form | dtype << 4; then outputs: row << 1 | has one element per line
    int16_t operand[FUSE_OPERANDS];
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

// How the recipe of calls [begin, end) of a group is written.
struct fuse_writer {
    struct fuse_group *g;
    int begin, end;
    int operands;          // the most inputs and outputs
    struct fuse_recipe *r; // receives the recipe
    // Returns the op that computes a division: TILE_DIV, TILE_MUL if input supplies the inverse of the
    // divisor, or one of the enum above. NULL: always TILE_DIV.
    int (*divide)(const struct fuse_writer *w, int index);
    // Returns the number of the input which operand k of a call is, as `op` reads it, or -1 if there are too
    // many inputs. It may call fuse_set_input.
    int (*input)(struct fuse_writer *w, int index, int k, int op);
    // the row of each call; -1: the call is a view of an array that these calls do not compute
    int16_t number[FUSE_CALLS];
};
// Writes the recipe; returns false if there are too many operands.
bool fuse_write(struct fuse_writer *w);
// Returns whether something outside calls [begin, end) reads the call's result: then it is an output of the
// recipe. Outputs are in the order of calls.
bool fuse_is_result(const struct fuse_writer *w, int index);

// Returns the value of a row applied to its operands. With rare, a FUSE_QUOTIENT is computed by the quick
// formula, and *rare becomes true where that formula is wrong; without, it is a division.
expr fuse_apply(const struct fuse_op *op, const expr *arg, expr *rare);
// Returns the kernel of a recipe whose rows are all ROW_ELEMENTS, with inputs x0, x1, ... and outputs y0, y1,
// ..., or NULL and an error. The last row may be a ROW_REDUCE of another row, over one line.
struct tile_kernel *fuse_build_map(const struct fuse_recipe *r);

// tiles.c: pieces of kernels that devices build from recipes ------------------------------------------------
//
// They append to the kernel that is being built. As in the builder, they return NULL if an operand is NULL.

// Begins a kernel as tile_begin does; with `wide`, its indices have 64 bits.
void fuse_begin(const char *kernel, bool wide);
// Returns a symbol for a size of at least `least` that is a multiple of `divisor`. It is named by the word
// and the number, or by the word alone if the number is -1.
expr fuse_symbol(const char *word, int number, int64_t least, int64_t divisor);
// Where elements of a dtype are: in a parameter, in registers of a thread, or in a scalar that a launch
// passes by value.
struct fuse_operand {
    zl_dtype dtype;
    const struct tile_buffer *buffer; // complex elements are pairs of f32, the real part first
    expr value;                       // of a scalar passed by value; else NULL
};
// Declares a buffer parameter, named by the word and the number ("x" and 0: x0). Inputs are declared before
// outputs, in the order in which a launch passes them.
struct fuse_operand fuse_declare(const char *word, int number, zl_dtype dtype, expr elements, bool is_output);
// Declares a parameter for a scalar that a launch passes by value, named likewise.
struct fuse_operand fuse_declare_value(const char *word, int number, zl_dtype dtype);
// Allocates registers for `count` elements in the body that is being built.
struct fuse_operand fuse_run(const char *word, int number, zl_dtype dtype, int count);
// Returns the element at a position. A scalar passed by value is the same at every position.
expr fuse_read(const struct fuse_operand *o, expr at);
// Stores the element at a position.
void fuse_put(const struct fuse_operand *o, expr at, expr value);
// Copies `count` adjacent elements in an unrolled loop, which passes turn into vector accesses where
// positions are multiples of the vector's length.
void fuse_move(const struct fuse_operand *to, expr to_at, const struct fuse_operand *from, expr from_at,
               int count);
// Declares a table of integers that a launch passes by value.
const struct tile_buffer *fuse_table(const char *text, int rows, int columns);
// Returns an entry of the table.
expr fuse_entry(const struct tile_buffer *table, int row, expr column);
// Calls tile_walk with a new variable for each place that is not NULL, which is set to it.
void fuse_walk(const struct tile_buffer *table, expr inner, expr which, int count, expr *place);
// Sets value[k] to the result of row k, for rows [begin, end), from input[] and from earlier rows in value[].
// With `keeps`, each value is held in a variable, for recipes of several results. For `rare`, see fuse_apply.
void fuse_rows(const struct fuse_recipe *r, int begin, int end, const expr *input, expr *value, bool keeps,
               expr *rare);

// map.c: kernels of elements --------------------------------------------------------------------------------

// Forms of inputs of a map besides those of every recipe, whose vectors are laid out as the outputs are.
enum fuse_stride {
    FUSE_STRIDED = FUSE_FORMS, // any strides
    FUSE_ROWS,                 // any strides, but contiguous along the last axis
    // any strides, but stride 0 along the last axis, whose elements all read the same element
    FUSE_SAME,
};

static inline bool fuse_is_strided(int form) {
    return form >= FUSE_FORMS;
}

enum { FUSE_MAP_THREADS = 256, FUSE_MAP_AXES = 8 };

// The key of a map kernel. With strided inputs, sizes are multiples of the width; a width above 1 excludes
// FUSE_STRIDED.
struct fuse_map {
    int16_t width; // adjacent elements that a thread computes at once
    int16_t runs;  // runs of these elements per thread
    int16_t wide;  // whether indices have 64 bits
    struct fuse_recipe f; // all rows are ROW_ELEMENTS
};
// Returns the kernel of a struct fuse_map, or NULL and an error. Parameters: the inputs in order; with
// strided inputs, a table; the outputs. Symbols: the number of elements; for each input in memory, the
// position of its first element. With strided inputs also: `inner` of tile_walk, the position of the first
// output, and the number of elements in the memory of each strided input. The table has a row for the sizes
// of axes, innermost first, and a row for the strides of each strided input. Sizes of the last axis and
// strides of FUSE_ROWS are in units of the width.
struct tile_kernel *fuse_make_map(const void *map);
// Returns how many inputs of a recipe are strided.
int fuse_strided_inputs(const struct fuse_recipe *r);

// The magnitudes of divisors and dividends between which quick quotients are right.
extern const double fuse_plain_least, fuse_plain_most;

#endif
