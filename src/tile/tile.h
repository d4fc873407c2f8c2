// tile.h - the kernel IR: pure typed expressions under ordered, structured statements.
//
// Two levels, one IR. Tile statements (map, copy, fill, reduce, gemm) work on whole tiles; passes turn them
// into loops, masked loads and stores and scalar code, as far as the target needs it. A row kernel is one
// map:
//
//     kernel add_f32(a: f32[n], b: f32[n]) -> (y: f32[n]) {
//       map i in n { y[i] = a[i] + b[i] }
//     }
//
// Expressions are hash-consed in their kernel: equal ones are one node, so that pointers can be compared. An
// expression is computed in each statement that uses it: one load node in two statements reads twice.
// Operands agree in type: nothing is promoted. A formula is rounded as written on every target; fma is an op
// that its author writes. doc/tile.md has the results of each op in special cases: wrap-around, division by
// zero, NaN, shifts, casts.

#ifndef TILE_H
#define TILE_H

#include "base/base.h"

enum { TILE_DIMS = 8 }; // most axes of a buffer, and most names of a map

// types.c: types --------------------------------------------------------------------------------------------

enum tile_kind {
    TILE_BOOL, TILE_UINT, TILE_INT, TILE_FLOAT, TILE_BFLOAT, TILE_COMPLEX,
    TILE_E4M3, TILE_E5M2, TILE_E4M3FNUZ, TILE_E5M2FNUZ, TILE_E2M1, TILE_E8M0, // small.c
};

// A bool takes 8 bits in memory. lanes > 1: a vector of that many.
struct tile_type {
    uint8_t kind;   // enum tile_kind
    uint8_t bits;   // of one lane: 1 for bool, 4..64, 64 for complex of two f32
    uint16_t lanes; // 1, 2, 4 .. 128
};

// Returns the type of one element of a dtype; all zeros if there is no such dtype.
struct tile_type tile_type_of(zl_dtype dtype);
// Returns the dtype of a type; ZL_DTYPE_COUNT for vectors and small types.
zl_dtype    tile_dtype_of(struct tile_type type);
// Returns the dtype of arrays that hold elements of a type: u8 for small types, else that of tile_dtype_of.
zl_dtype    tile_array_dtype(struct tile_type type);
// Returns whether two types have the same kind, bits and lanes.
bool        tile_type_equal(struct tile_type a, struct tile_type b);
// Returns the type's name in the text form: "f32", "bf16", "i8", "bool", "c64", "f32x4"; "?" if it has none.
const char *tile_type_name(struct tile_type type);
// Sets *out to the type of that name. Returns false, without an error, if there is none.
bool        tile_type_find(const char *name, struct tile_type *out);
// Returns the bytes of an element in memory, with all lanes; 4-bit types take a byte per lane.
int         tile_type_bytes(struct tile_type type);

static inline bool tile_type_is_integer(struct tile_type t) {
    return t.kind == TILE_UINT || t.kind == TILE_INT;
}
static inline bool tile_type_is_float(struct tile_type t) {
    return t.kind == TILE_FLOAT || t.kind == TILE_BFLOAT;
}
static inline bool tile_type_is_half(struct tile_type t) { return tile_type_is_float(t) && t.bits == 16; }
static inline bool tile_type_is_bool(struct tile_type t) { return t.kind == TILE_BOOL; }
static inline bool tile_type_is_complex(struct tile_type t) { return t.kind == TILE_COMPLEX; }

static inline bool tile_type_is_small_float(struct tile_type t) { return t.kind >= TILE_E4M3; }
// Floats of 8 and 4 bits and integers of 4 bits: they are converted, not computed with.
static inline bool tile_type_is_small(struct tile_type t) {
    return tile_type_is_small_float(t) || (tile_type_is_integer(t) && t.bits == 4);
}

// ops.c: ops of expressions ---------------------------------------------------------------------------------

// The rows of elementwise.def, which are ops of arrays too, then the ops that only kernels have.
enum tile_op {
#define UNARY(NAME, ...)   TILE_##NAME,
#define BINARY(NAME, ...)  TILE_##NAME,
#define TERNARY(NAME, ...) TILE_##NAME,
#include "op/elementwise.def"
    TILE_CONST,   // a constant, whose value is in `bits`
    TILE_INDEX,   // a loop variable
    TILE_SYMBOL,  // a size that is known at each call
    TILE_SCALAR,  // a scalar parameter
    TILE_LOCAL,   // the value of a local variable (assigned by a statement)
    // the address of a buffer in the memory of a chip that runs commands (TILE_COMMAND): an i64
    TILE_ADDRESS,
    TILE_LOAD,    // buffer[index...], with optional mask and other
    // converts a value: saturates from float to integer (NaN gives 0), wraps between integers
    TILE_CAST,
    TILE_BITCAST, // same bits, other type of the same size
    TILE_FMA,     // a * b + c rounded once
    TILE_EXP2,    // 2^x of f32 by the fastest means of the target: doc/tile.md
    TILE_RARE,    // select(c, a, b) that need not compute a where no lane takes it
    TILE_RE,      // real part of a complex
    TILE_IM,      // imaginary part
    TILE_PAIR,    // complex of two floats
    TILE_OP_COUNT
};
typedef const struct tile_expr *expr;

// Returns the op's name in the text form ("add", "exp"); of a row, its public name without `zl_`.
const char *tile_op_name(enum tile_op op);
// Returns the number of operands in arg[]; 0 for leaves and loads.
int         tile_op_arity(enum tile_op op);
// Returns the bits of enum op_rule (op/rules.h) of a row; 0 for other ops.
int         tile_op_rule(enum tile_op op);
// Returns the op of that name, or the row with that name in lower case ("max", "select"); TILE_OP_COUNT if
// there is none.
enum tile_op tile_op_find(const char *name);
static inline bool tile_op_is_row(enum tile_op op) { return op < TILE_CONST; }
static inline bool tile_op_is_leaf(enum tile_op op) { return op >= TILE_CONST && op <= TILE_ADDRESS; }

// Sets *out to the type of the op's result on these operands. Returns false, with an error, if it does not
// take them, or is a leaf, load or cast.
bool tile_op_type(enum tile_op op, const expr *arg, struct tile_type *out);

// Returns whether the op is a row that takes operands of that type.
bool tile_op_takes(enum tile_op op, struct tile_type type);

struct tile_expr {
    enum tile_op op;
    struct tile_type type;
    int id;                          // order of creation in its kernel
    int args;
    expr arg[3];                     // operands; of a masked load: mask and other (args is 2, else 0)
    // TILE_CONST: the value's bits, upper ones 0; of complex the real part is low
    uint64_t bits;
    const struct tile_buffer *buffer; // TILE_LOAD, TILE_ADDRESS
    const struct tile_name *name;    // TILE_INDEX, TILE_SYMBOL, TILE_SCALAR, TILE_LOCAL
    int indices;                     // TILE_LOAD
    expr *index;                     // TILE_LOAD: one per axis of buffer
};

// Something with a name: a loop variable, symbol, scalar parameter or local variable.
struct tile_name {
    const char *text;
    struct tile_type type;
    int64_t low, high; // known range, inclusive; INT64_MIN and INT64_MAX: unknown
    int64_t divisor;   // known divisor of symbols; 1 when nothing is known
    int id;            // among the kernel's names
};

// Buffers and statements ------------------------------------------------------------------------------------

// TILE_TABLE is for inputs only: a few numbers that a launch passes by value.
enum tile_memory {
    TILE_GLOBAL,
    TILE_CONSTANT,
    TILE_SHARED,
    TILE_FRAGMENT,
    TILE_REGISTER,
    TILE_EXTRA,
    TILE_TABLE
};
// most bytes of one table, and of all arguments of a launch
enum { TILE_TABLE_BYTES = 1024, TILE_ARGUMENT_BYTES = 4000 };

struct tile_buffer {
    const char *text;
    struct tile_type type; // in memory
    enum tile_memory memory;
    int ndim;
    expr *shape;
    expr *stride;  // NULL: row-major
    int align;     // bytes; 0 is that of the element
    int swizzle;   // bits; 0 is none
    bool is_output;
    int parameter; // position among the kernel's parameters; -1: allocated inside
    // of a view: the buffer whose memory it uses, which has at least as many bytes; else NULL
    const struct tile_buffer *base;
    int id;        // among the kernel's buffers
};

enum tile_loop { TILE_SERIAL, TILE_PARALLEL, TILE_UNROLLED, TILE_VECTOR, TILE_PIPELINED };
enum tile_scope { TILE_SUBGROUP, TILE_GROUP, TILE_CLUSTER };

enum tile_stmt_kind {
    // buffer[index] = value, where mask; is_once. With scope TILE_CLUSTER, in the memory of the cluster's
    // group number `step`.
    TILE_STORE,
    TILE_ASSIGN,  // name = value (declares it at first)
    TILE_ALLOC,   // buffer, or a view of one
    TILE_MAP,     // body for all name[] in extent[], in any order
    TILE_FOR,     // body for name[0] in [begin, extent[0]) by step
    TILE_IF,      // mask ? body : other
    TILE_WHILE,   // while mask: body
    TILE_BREAK,
    TILE_GRID,    // body for every block of the launch; name[], extent[], threads, resident, cluster
    // region[0] -> region[1], converted, with `value` outside of the source; is_once; may be asynchronous and
    // give a token
    TILE_COPY,
    TILE_FILL,    // region[1] = value
    TILE_REDUCE,  // region[0] -> region[1] along axis by op combine; clear or accumulate
    TILE_SCAN,    // the same with every intermediate result; reverse, exclusive
    TILE_GEMM,    // region[0] x region[1] -> region[2]; clear or accumulate; may be asynchronous
    TILE_ATOMIC,  // buffer[index] combine= value, where mask; old = the previous value
    // waits for the asynchronous statement of the token, and for all others but the `keep` newest.
    // TILE_COMMIT: does not wait, but makes the copies begun so far one group, which gets the token.
    TILE_WAIT,
    TILE_BARRIER, // scope; with keep TILE_ARRIVE or TILE_AWAIT, one half of a barrier
    TILE_ASSERT,  // mask, with message
    TILE_PRINT,   // message, value
    // region[1] = the part from `index` on of the im2col matrix of region[0], whose product is a convolution;
    // window
    TILE_IM2COL,
    // body for every thread name[0] of the extent[0] threads of a block; threads may meet at barriers in it
    TILE_THREAD,
    // old = value in another one of `threads` consecutive threads, which `shuffle` and `step` choose
    TILE_SHUFFLE,
    // calls the function `message` of a chip's device API with the numbers in `index`
    TILE_COMMAND,
};

enum { TILE_COMMIT = -1, TILE_COMMAND_ARGUMENTS = 56 };
enum { TILE_ARRIVE = 1, TILE_AWAIT }; // `keep` of barriers of clusters; passes place these

// The thread, of N, from which thread i takes a value in a shuffle by d, which is `step`, a u32, modulo N.
// Threads count from 0.
enum tile_shuffle {
    TILE_SHUFFLE_XOR,  // i ^ d
    TILE_SHUFFLE_UP,   // i - d, or i where that is negative
    TILE_SHUFFLE_FROM, // d
};
enum { TILE_SUBGROUP_LEAST = 2, TILE_SUBGROUP_MOST = 64 }; // the range of N, which is a power of two

// A rectangle of a buffer; tile_pair says how the axes of two belong together. Where a copy leaves its source
// it reads 0 or `value`; where it leaves its destination it writes nothing. That handles the edges of tiles.
struct tile_region {
    const struct tile_buffer *buffer;
    expr *origin;  // buffer->ndim of them; NULL: the whole buffer
    // buffer->ndim of them; NULL: the whole buffer, or the sizes of the other side if there is an origin
    expr *extent;
};

// The window of a convolution over images, the same along both axes.
struct tile_window {
    int size, stride, dilation, pad;
};

struct tile_place { // the position of a statement in the text
    int line, column;
};

struct tile_stmt {
    enum tile_stmt_kind kind;
    struct tile_place place;
    struct tile_stmt *next; // the next statement of the block
    struct tile_stmt *body, *other;
    const struct tile_buffer *buffer;
    // of a store or atomic: number of indices; of a map, for, grid or thread: of names; of a command: of
    // arguments, at most TILE_COMMAND_ARGUMENTS
    int indices;
    expr *index;
    const struct tile_name **name;
    // Of an atomic, or NULL: the variable that takes the previous value, or 0 where the mask is false. Of a
    // shuffle: the variable that takes the result. Of a command, or NULL: an existing variable that takes the
    // element at the address that the command returns.
    const struct tile_name *old;
    expr *extent;
    expr value, mask, begin, step;
    struct tile_region region[3];
    enum tile_op combine;
    enum tile_loop loop;
    enum tile_scope scope;
    enum tile_shuffle shuffle;
    // token 0: synchronous. Of a gemm by matrix instructions: `threads` and `keep` are the subgroups down and
    // across, `extent` the gemm's sizes.
    int axis, stages, threads, keep, token;
    // of a grid: the least number of blocks that a multiprocessor can hold at once; 0: not stated
    int resident;
    int cluster;  // of a grid: groups of threads that compute one block together; 0: one
    // of an unrolled loop: copies of its body; 0: one for each iteration, if their number is known
    int unroll;
    bool clear, transpose[2], is_async, reverse, exclusive;
    bool absolute; // of a reduction: of magnitudes
    // of a reduction by maximum in a cluster: each subgroup may use its own maximum until sums of
    // exponentials are combined
    bool is_loose;
    // of a copy by vectors from registers: the values were just rounded from wider numbers
    bool is_rounded;
    bool is_ahead; // of a copy or map: no thread has used what it writes since the group's last barrier
    bool is_once;  // of a copy or store: the memory outside of the block that it uses is not read again soon
    // of a gemm whose factors are bytes: the small float types (enum tile_kind) of a and b; 0: integers
    uint8_t small[2];
    struct tile_window window;
    const char *message;
};

// Kernels ---------------------------------------------------------------------------------------------------

struct tile_parameter {
    bool is_scalar;
    struct tile_buffer *buffer;    // if not a scalar
    const struct tile_name *scalar;
};

// Returns whether a launch passes the parameter by value: a scalar or a table.
static inline bool tile_is_by_value(const struct tile_parameter *p) {
    return p->is_scalar || p->buffer->memory == TILE_TABLE;
}

struct tile_kernel {
    const char *name;
    const char *file, *source; // the text that it was parsed from, for messages, or NULL
    int parameters;
    struct tile_parameter *parameter; // inputs, then outputs, in order
    int symbols;
    const struct tile_name **symbol; // sizes, which calls find in the shapes of arguments
    struct tile_stmt *body;
    int index_bits; // of loop variables and symbols: 32, or 64 as at first
    int registers;  // vector registers of the machine that it is compiled for; 0: for several machines
    // bytes per lane of all tiles, and the most that are in use at once; 0: not known
    int64_t lane_bytes, live_bytes;
    int ids, names, buffers, tokens; // numbers of expressions, names and buffers; the last token
    // Builder state:
    struct arena arena;
    struct map exprs; // for hash-consing
    struct tile_stmt **tail; // where the next statement goes
    struct tile_frame *open; // statements whose body is being built
    struct tile_kernel *outer; // the current kernel before this one
    bool failed;             // memory ran out or an error was recorded
};

// build.c: builds kernels. A kernel under construction is the thread's current one between tile_begin and
// tile_end: the notation of rows and mathematics (notation.h) builds into it. These calls nest. Each
// tile_begin needs its tile_end (each tile_resume its tile_suspend) even if it returned NULL: until then all
// that is built is NULL too.

// Begins a kernel with 64-bit indices and makes it the current one. Returns NULL, with an error, if memory
// runs out.
struct tile_kernel *tile_begin(const char *name);
// Returns the current kernel of this thread; NULL outside of one, and after a tile_begin that failed.
struct tile_kernel *tile_current(void);
// Ends the current kernel and returns it; the caller frees it with tile_free. Returns NULL if building it
// failed; it is freed then.
struct tile_kernel *tile_end(void);
// Makes a finished kernel the current one again, for passes; statements are appended to its body.
void tile_resume(struct tile_kernel *kernel);
// Ends what tile_resume began; the kernel stays the caller's.
void tile_suspend(void);
// Frees a kernel with all that was built into it; NULL is allowed.
void tile_free(struct tile_kernel *kernel);

// Names, buffers, expressions and statements belong to the kernel into which they were built. The functions
// that make them copy texts and lists; on failure they return NULL and mark the kernel failed.

// Returns the type of indices in the current kernel, i64 or i32; i64 if there is none.
struct tile_type tile_index_type(void);
// Adds a symbol, whose values are in low..high and are multiples of the divisor.
const struct tile_name *tile_symbol(const char *text, int64_t low, int64_t high, int64_t divisor);
// Adds a parameter, in the order of the calls: a buffer in global memory.
struct tile_buffer *tile_parameter_buffer(const char *text, struct tile_type type, int ndim,
                                          const expr *shape, bool is_output);
// Adds an input that a launch passes by value.
struct tile_buffer *tile_parameter_table(const char *text, struct tile_type type, int ndim,
                                         const expr *shape);
// Adds a scalar parameter.
const struct tile_name *tile_parameter_scalar(const char *text, struct tile_type type);
// Appends the allocation of a buffer.
struct tile_buffer *tile_alloc(const char *text, struct tile_type type, enum tile_memory memory, int ndim,
                               const expr *shape);
// Appends a view: the elements of a buffer without strides, in their order, with another shape or type.
// Raises the alignment of registers if the new type is wider than theirs.
struct tile_buffer *tile_view(const char *text, struct tile_type type, const struct tile_buffer *base,
                              int ndim, const expr *shape);
// Returns the buffer whose memory this one uses: the one under all views, or itself.
const struct tile_buffer *tile_memory_of(const struct tile_buffer *buffer);
// Creates a loop variable or local variable without a known range.
const struct tile_name *tile_name(const char *text, struct tile_type type);
// Creates a loop variable of index type for 0 .. extent - 1; its upper bound is known if extent is a
// constant.
const struct tile_name *tile_index(const char *text, expr extent);

// Expressions. Operands must agree in type where the op requires it. If an operand is NULL, the result is
// NULL and the kernel is marked failed.

// Returns a constant: the value converted to the type as TILE_CAST does. A vector has it in all lanes.
expr tile_const(struct tile_type type, double value);
// Returns a constant of an integer: exact, wrapped to a smaller integer type, or rounded to a float.
expr tile_const_int(struct tile_type type, int64_t value);
// Returns a constant with these bits in each lane; bits above those of the type are dropped.
expr tile_const_bits(struct tile_type type, uint64_t bits);
// Returns a constant of index type.
expr tile_number(int64_t value);
// Returns the leaf that reads a name; op is TILE_INDEX, TILE_SYMBOL, TILE_SCALAR or TILE_LOCAL.
expr tile_name_value(const struct tile_name *name, enum tile_op op);
// Return an op on its operands; a ternary one is TILE_SELECT, TILE_FMA or TILE_RARE.
expr tile_unary(enum tile_op op, expr x);
expr tile_binary(enum tile_op op, expr a, expr b);
expr tile_ternary(enum tile_op op, expr a, expr b, expr c);
// Returns x converted to a type with as many lanes; x itself if it has that type.
expr tile_cast(struct tile_type type, expr x);
// Returns the bits of x as a type with as many bits and lanes; x itself if it has that type.
expr tile_bitcast(struct tile_type type, expr x);
// Returns the address of a buffer in a chip's memory, an i64: TILE_ADDRESS.
expr tile_address_of(const struct tile_buffer *buffer);
// Returns an element of a buffer, with an index per axis. Where `mask` is false, it reads nothing and gives
// `other` (NULL: 0); without a mask it ignores `other`.
expr tile_load(const struct tile_buffer *buffer, int indices, const expr *index, expr mask, expr other);

// Returns how many operands an expression has in one list: arg[], then index[].
int  tile_operands(expr e);
// Returns an operand by its position in that list.
expr tile_operand(expr e, int at);
// Returns the same op on other operands, in the current kernel. Casts keep their type, other ops find theirs
// anew; leaves, and the buffers of loads, stay.
expr tile_rebuild(expr old, const expr *operands);

// statement.c: statements are appended to the current block; bodies are built between _open and _close. Lists
// that a statement points to are copied. A statement that is returned may be changed until its kernel ends;
// NULL after a failure.

// Appends buffer[index] = value, where mask (NULL: everywhere).
struct tile_stmt *tile_store(const struct tile_buffer *buffer, int indices, const expr *index, expr value,
                             expr mask);
// Appends name = value, which declares a local variable if it is the first one.
struct tile_stmt *tile_assign(const struct tile_name *name, expr value);
// Appends a shuffle (TILE_SHUFFLE) among `threads` consecutive threads, which assigns its result to `to`.
struct tile_stmt *tile_shuffle(const struct tile_name *to, enum tile_shuffle how, expr value, expr step,
                               int threads);
// Appends a call of a function of a chip's device API (TILE_COMMAND). It is an error if it has more than
// TILE_COMMAND_ARGUMENTS arguments.
struct tile_stmt *tile_command(const char *function, int arguments, const expr *argument);
// Appends a copy of a statement of any kind.
struct tile_stmt *tile_append(struct tile_stmt stmt);
// Appends a copy of a map, for, if, while, grid or thread, without bodies. Statements that follow, until
// tile_close, are its body.
struct tile_stmt *tile_open(struct tile_stmt stmt);
// Opens a map over all points of the extents.
struct tile_stmt *tile_open_map(int names, const struct tile_name *const *name, const expr *extent);
// Opens a loop from begin (NULL: 0) to end, which is excluded, by step (NULL: 1).
struct tile_stmt *tile_open_for(const struct tile_name *name, expr begin, expr end, expr step,
                                enum tile_loop loop);
// Opens an `if`. Statements that follow, until tile_else or tile_close, are its first branch.
struct tile_stmt *tile_open_if(expr mask);
// Begins the other branch of the if that was opened last. Elsewhere it is an error and the kernel fails.
void tile_else(void);
// Closes the statement that was opened last. If none is open, it is an error and the kernel fails.
void tile_close(void);
// Returns the name of a kind of statement in messages: "store", "map", "loop".
const char *tile_stmt_name(enum tile_stmt_kind kind);
// Writes the expressions that a statement itself uses, not its body, to `out`, which has room for
// TILE_STMT_EXPRS, and returns how many there are. Their order is index, extent, value, mask, begin, step,
// then origin and extent of its regions; of an allocation shape and stride.
enum { TILE_STMT_EXPRS = 8 * TILE_DIMS + 4 };
int tile_stmt_exprs(const struct tile_stmt *stmt, expr *out);
// Returns the number of axes of the rectangle that two regions share, and writes which of them each axis of a
// and of b is; -1: the axis stays at its origin. If both regions state their sizes and have equally many axes
// whose size is not the constant 1, these pair in order. Otherwise axes pair from the last; a missing axis
// has size 1.
int  tile_pair(const struct tile_region *a, const struct tile_region *b, int *of_a, int *of_b);
// Returns whether a region states its size, or is a whole buffer.
bool tile_region_is_sized(const struct tile_region *r);
// Returns a region's extent along an axis; if it states none, the size of the buffer.
expr tile_region_size(const struct tile_region *r, int axis);
// Returns whether all threads of a block have to reach a statement of `thread` together: a barrier, a
// shuffle, an allocation of shared memory, a statement that contains one of these, or a break that leaves a
// loop around the statement.
bool tile_is_meeting(const struct tile_stmt *s);
// Returns the text form's word for a reduction's op: "add"; of magnitudes "absmax" or "abssum".
const char *tile_combine_word(const struct tile_stmt *s);
// Removes all statements from the current kernel and returns the first, for a pass that emits them anew; NULL
// if it had none.
struct tile_stmt *tile_take_body(void);

// walk.c: builds several statements at once.

// Declares a variable, assigns the value to it and returns the expression that reads it.
expr tile_variable(const char *text, expr value);
// Adds to each place, a variable or NULL, the offset of the element with number `which` along axes. Row 0 of
// the table has the sizes of the axes, innermost first, and row 1 + k the strides for place[k]. `inner` is
// the number of axes less one, or 0.
void tile_walk(const struct tile_buffer *table, expr inner, expr which, int count, const expr *place);

// print.c: the text form. parse.c reads it back; printing what was parsed gives the same text.

// Returns the text of a kernel, which the caller frees with memory_free; NULL, with an error, if memory runs
// out.
char *tile_print(const struct tile_kernel *kernel);
// Appends the text of an expression to `out`; "NULL" if it is NULL.
void  tile_print_expr(struct text *out, expr e);
// Parses and verifies a kernel; the caller frees it with tile_free. Messages name `file`, or "text" if it is
// NULL. Returns NULL, with an error that shows line and caret, if the text is no valid kernel.
struct tile_kernel *tile_parse(const char *text, const char *file);
// Parses a kernel like tile_parse, with other values of the text's params, types and ops:
// "BM=64,ITEM=f16,COMBINE=maximum"; NULL: none.
struct tile_kernel *tile_parse_with(const char *text, const char *file, const char *params);

// verify.c

// Verifies a kernel. Returns false, with an error that names statement and reason, if a kernel breaks the
// rules of the IR.
bool tile_verify(const struct tile_kernel *kernel);

// cost.c
struct tile_cost { double flops, bytes; };
// Returns the arithmetic operations of one run, and the bytes of parameters that it moves, for these values
// of the symbols; {0, 0} if memory runs out. An op counts 1, an fma 2, a complex op 2, a complex product 6;
// ops on integers, such as indices, and comparisons count nothing. If the condition of an `if` depends on
// sizes and loop variables alone, the branch counts that is taken in the middle of their ranges; otherwise
// each branch counts half. A `while` counts as one iteration. Bytes of a parameter count once, however often
// they are accessed.
struct tile_cost tile_cost(const struct tile_kernel *kernel, const int64_t *symbol_values);

// value.c: numbers of the IR. f16, bf16 and f32 are kept as doubles, which hold them exactly.
union tile_value { double f; int64_t i; uint64_t u; bool b; struct { float re, im; } c; };
// Returns the value that the bits of one lane stand for.
union tile_value tile_value_of(struct tile_type type, uint64_t bits);
// Returns the bits of a value: the inverse of tile_value_of.
uint64_t         tile_bits_of(struct tile_type type, union tile_value value);
// Converts a value as TILE_CAST does.
union tile_value tile_convert(struct tile_type to, struct tile_type from, union tile_value value);
// Rounds to a float type, ties to even; to 16 bits by way of f32, to small types with saturation.
double           tile_round(struct tile_type type, double value);

// small.c: numbers of 8 and 4 bits. In memory each is a byte, its code. The formulas decode small floats to
// f32, and 4-bit integers to i8 and u8.

// Returns the number that a code of a small float type stands for.
double   tile_small_value(struct tile_type type, uint64_t bits);
// Returns the code of the nearest number of a small float type, ties to even; it saturates. For e8m0 it
// rounds down.
uint64_t tile_small_bits(struct tile_type type, double value);
// Returns the formula of the number that a byte stands for.
expr tile_decode(struct tile_type type, expr byte);
// Returns a formula as tile_decode does, without subnormal intermediate values, for targets that do not have
// them.
expr tile_decode_normal(struct tile_type type, expr byte);
// Returns the formula of the byte that stands for a number, rounded as tile_small_bits does.
expr tile_encode(struct tile_type type, expr value);

// arithmetic.c

// Computes a base op. `type` is that of the result, `from` that of the last operand. It takes complex numbers
// only in select, casts and parts; complex.c has the rest of their arithmetic.
union tile_value tile_apply(enum tile_op op, struct tile_type type, struct tile_type from,
                            const union tile_value *arg);

// evaluate.c: computes expressions of one lane on the host. A tape is one or more expressions, in base ops,
// in the order in which their nodes are computed.

// Returns a tape, which the caller frees with tile_tape_free and which keeps pointing to the leaves of the
// expressions; NULL, with an error, if memory runs out or a node has several lanes.
struct tile_tape *tile_tape(int roots, const expr *root);
// Frees a tape; NULL is allowed.
void              tile_tape_free(struct tile_tape *tape);
// Returns the value of a name, or of a load at these indices.
typedef union tile_value tile_leaf(void *data, expr e, const int64_t *index);
// Runs a tape and writes the value of each root to `out`. Values of names come from `name`, by their ids, or
// from `leaf` if it is NULL; those of loads come from `leaf`. A tape serves one thread at a time.
void tile_tape_run(struct tile_tape *tape, const union tile_value *name, tile_leaf *leaf, void *data,
                   union tile_value *out);
// Runs a tape, and returns whether every root is what exact arithmetic gives; if not, sets *which to the
// first root that wrapped around.
bool tile_tape_run_exactly(struct tile_tape *tape, tile_leaf *leaf, void *data, union tile_value *out,
                           int *which);
// Prepares a tape of sizes for tile_tape_sizes: integers whose leaves are symbols and scalar parameters of
// the kernel, which may be freed afterwards. Returns false, with an error, if a leaf is something else.
bool tile_tape_bind(struct tile_tape *tape, const struct tile_kernel *kernel);
// Computes the sizes of a bound tape from the values of all symbols, followed by those of all parameters if
// scalars are leaves (those of other parameters are ignored). Returns false if a size is negative or not what
// exact arithmetic gives, or if memory runs out; only the last sets an error. Threads may call it
// concurrently.
bool tile_tape_sizes(const struct tile_tape *tape, const int64_t *given, int64_t *out);
// Returns the value of an expression. Values of its names and loads are in `leaf` by the ids of their nodes;
// if that is NULL, they are 0. Returns 0, with an error, where tile_tape fails.
union tile_value tile_evaluate(expr e, const union tile_value *leaf);

// sizes.c: computes the bytes of buffers and the blocks of grids, and detects sizes that wrap around.

// Values of the symbols of a kernel, the data of tile_symbol_value.
struct tile_symbols {
    const struct tile_kernel *kernel;
    const int64_t *value;
};
// Returns the value of a symbol; 0 for other names. It is a tile_leaf, by which a tape reads symbols.
union tile_value tile_symbol_value(void *symbols, expr e, const int64_t *index);

// Sets *out to a * b; returns false unless both are 0 or more and the product fits into 64 bits.
bool tile_times(int64_t a, int64_t b, int64_t *out);
// Sets *bytes to the bytes from the first element of a buffer to its last, with these sizes, and with these
// strides unless they are NULL. Where a size is negative, or a number does not fit into 64 bits, appends the
// reason and returns false.
bool tile_span(const struct tile_buffer *b, const int64_t *shape, const int64_t *stride, int64_t *bytes,
               struct text *why);
// Returns whether expressions follow from the sizes of arguments alone, so that they are known before a
// kernel runs. NULL is an empty list.
bool tile_are_known_at_launch(const expr *list, int count);
// Returns whether expressions follow from the sizes of arguments and from scalar parameters that are signed
// integers.
bool tile_are_known_with_scalars(const expr *list, int count);
// Returns whether the sizes and strides of a buffer follow from the sizes of arguments alone.
bool tile_is_known_at_launch(const struct tile_buffer *b);
// Creates a check of all sizes that are known at launch. The kernel must live longer. The caller frees it
// with tile_sizes_close. Returns NULL, with an error, if memory runs out.
struct tile_sizes *tile_sizes_open(const struct tile_kernel *kernel);
// Checks that these symbols fit the index type, and that with them no size is negative or wraps around, no
// view is larger than its memory, and no grid has more blocks than 64 bits count. Returns false, with an
// error at the statement, if not. Threads may call it concurrently.
bool tile_sizes_check(struct tile_sizes *sizes, const int64_t *symbol_values);
// Frees a check; NULL is allowed.
void tile_sizes_close(struct tile_sizes *sizes);

// interpret.c

// Runs a kernel on the host, slowly and exactly: the reference for renderers. `buffers` has one address per
// parameter; of a scalar it is that of its value. Returns false, with an error, if the kernel fails, such as
// by a load or store outside of its buffer.
bool tile_interpret(const struct tile_kernel *kernel, void *const *buffers, const int64_t *symbol_values);

// rows.c: makes the kernels of single elementwise ops from the rows of elementwise.def.

// Returns whether a row takes operands of that dtype.
bool tile_row_takes(enum tile_op op, zl_dtype dtype);
// Returns the dtype of a row's output.
zl_dtype tile_row_gives(enum tile_op op, zl_dtype dtype);
// Returns whether a row takes the dtype and has no lower form there, so that targets spell it.
bool tile_row_is_base(enum tile_op op, zl_dtype dtype);
// Returns the kernel of a row; the caller frees it with tile_free. The form has a letter per operand: 'v' for
// a vector, 's' for a scalar (one element, which is read once). Returns NULL, with an error, if the row does
// not take the dtype or form.
//     add_f32_vs(a: f32[n], b: f32[1]) -> (y: f32[n])
//     where_f32_vvv(a: bool[n], b: f32[n], c: f32[n]) -> (y: f32[n])
struct tile_kernel *tile_row_kernel(enum tile_op op, zl_dtype dtype, const char *form);
// Returns the kernel of a conversion, cast_i8_f32(a: i8[n]) -> (y: f32[n]), as tile_row_kernel does.
struct tile_kernel *tile_cast_kernel(zl_dtype to, zl_dtype from);
// Returns the kernel of a reduction, reduce_add_f16(x: f16[n]) -> (y: f32[1]), as tile_row_kernel does.
// `combine` is an op with an identity.
struct tile_kernel *tile_reduce_kernel(enum tile_op combine, zl_dtype dtype);
// Returns the dtype of a reduction's accumulator: f32 for 16-bit floats, else the same.
zl_dtype tile_reduce_gives(zl_dtype dtype);
// Sets *bits to the value from which a reduction starts. `combine` is ADD, MUL, MAX, MIN, AND, OR or
// LOGADDEXP. Returns false, without an error, for other ops and for types that it does not take.
bool tile_identity(enum tile_op combine, struct tile_type type, uint64_t *bits);
// Returns the value from which a reduction starts as a constant of the current kernel; NULL if there is none.
expr tile_identity_value(enum tile_op combine, struct tile_type type);

// Returns a row on these operands in simpler ops, one step of lowering (the row's `lower` column); NULL for
// base ops. Of f16 and bf16 it is the op on f32, rounded back.
expr tile_lower(enum tile_op op, expr a, expr b, expr c);

// exact.c: formulas for ops in other ops, with the same bits. x: the operands; 16-bit floats are u32 words
// that hold their bits.
typedef expr tile_formula(const expr *x);
// Return x[0] * x[1] + x[2], rounded once: of f32, computed in f64; of f32 or f64, by sums and products
// alone.
tile_formula tile_fma_in_f64, tile_fma_in_parts;
// Returns x[0] / x[1] of f32, for targets with an exact fma whose division is not correctly rounded.
tile_formula tile_quotient;
// Return conversions: f16 to f32; f32 to f16; f32 to bf16.
tile_formula tile_from_half, tile_to_half, tile_to_brain;

// complex.c

// Returns a base op on c64 as ops on the parts, for targets without complex numbers; these must give the same
// bits. NULL for other ops and types (select needs no such form).
expr tile_lower_complex(enum tile_op op, expr a, expr b);

// derived.c: helpers of the lower column that are not transcendental.

// Return the sign (x itself for bool); the imaginary part, 0 for real types; a to the power of b.
expr lower_sign(expr x);
expr lower_imag(expr x);
expr lower_power(expr a, expr b);

// division.c

// Returns the floor of the rounded a / b; NULL for integers, whose division is a base op.
expr lower_floor_divide(expr a, expr b);
// Returns how many times b goes into a, rounded down; of f32 and f64 alone.
expr lower_quotient(expr a, expr b);
// Returns the remainder with the sign of b, exact for floats; NULL for integers.
expr lower_remainder(expr a, expr b);

#endif
