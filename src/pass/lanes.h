// lanes.h - tiles of a chip whose memory is lanes, and what commands take. Between the files of pass/ only.
//
// A tile lies in the lanes as a tensor of four dimensions, {n, c, h, w}: element c of the second is in lane c
// mod 64. One axis of a tile, at most, is c. The points of a statement are such a tensor too: each of its
// variables is one of the dimensions, and every operand of its commands has a stride along each of them.

#ifndef LANES_H
#define LANES_H

#include "pass/boxes.h"

enum { LANE_VARIABLES = 32, LANE_READS = 32 };
enum lane_dim { LANE_N, LANE_C, LANE_H, LANE_W, LANE_DIMS };

// An element that the control program has read, in a block of statements.
struct lane_read {
    expr element, value;
    const struct tile_frame *block;
};

struct lanes {
    const struct target *target;
    bool *is_column; // by id of a buffer of one axis: it lies across the lanes
    bool *is_partly; // by id of a buffer: a part of it is stored, as a mask says
    int buffers;     // of which that is known
    // constants of the exponential, in the block that is being made; NULL: there are none yet
    struct tile_buffer *exponents;
    const struct tile_stmt *at; // for messages
    // Copies that run ahead of the turn that needs them are made by the engine for copies alone, and nothing
    // else of their turn is: a turn in which both engines touch one tile is no region.
    bool is_ahead, is_mixed;
    bool is_alone; // the blocks of the grid may meet in what they write: one core has all of them
    const struct tile_name *whole; // a variable that stays whole where there are many points; NULL: none
    int variables; // names that have a value at each point of the map that is being made
    const struct tile_name *variable[LANE_VARIABLES];
    int reads; // of the statement that is being made
    struct lane_read read[LANE_READS];
};

// How a tile lies: the dimension that each axis is, and elements from one to the next along the dimensions.
struct lane_tile {
    int dim[TILE_DIMS];
    int lane; // the axis across the lanes; -1: none, all of it is in lane 0
    int64_t size[LANE_DIMS], stride[LANE_DIMS];
    int64_t step[TILE_DIMS]; // along each axis
    int64_t bytes;           // in each lane
};

// The points of a statement.
struct lane_points {
    int names;
    const struct tile_name *name[TILE_DIMS];
    int dim[TILE_DIMS];     // of each name
    expr size[LANE_DIMS];   // the numbers of points; 1 where no name is
    int64_t most[LANE_DIMS]; // what they are at most
};

struct lane_operand {
    struct tile_type type; // as the chip holds it
    // a number that is the same for all points, which the control program has; else NULL
    expr scalar;
    bool is_far;           // it is in device memory, not in the lanes
    bool is_wide;          // its elements have 64 bits there, of which the lower 32 are read: places
    bool is_shifted;       // it may begin in another lane than lane 0
    expr address;          // in bytes
    expr stride[LANE_DIMS];
};

// lanes.c ---------------------------------------------------------------------------------------------------

// Functions that return bool return false, with an error, if the chip cannot do what is asked or memory runs
// out, unless they say otherwise.

// Records an error that names the kernel, statement and target, marks the current kernel failed and returns
// false.
bool lanes_fail(struct lanes *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns a constant of i64: a size, stride or address.
expr lanes_number(int64_t value);
// Returns a constant of i32: a dtype or mode of a command.
expr lanes_code(int value);
// Returns a number of the control program converted to one of the chip's types.
expr lanes_scalar(struct tile_type type, expr e);
// Returns a value rounded up to a multiple of `by`.
int64_t lanes_round(int64_t value, int64_t by);
// Returns the type by which the chip holds another: a byte for bool, 32 bits for integers of 64.
struct tile_type lanes_type(struct tile_type type);
// Returns whether a buffer is in the lanes, not in device memory.
bool lanes_is_local(const struct tile_buffer *b);
// Sets *out to how a tile lies in the lanes.
bool lanes_tile(struct lanes *l, const struct tile_buffer *b, struct lane_tile *out);
// Writes the strides of an aligned tile, in elements: each n and c begins at a multiple of 64 bytes.
void lanes_strides(const int64_t *size, int bytes, int64_t *stride);
// Returns which axis of a tile of two to four axes lies across the lanes; -1 for others.
int lanes_axis(int ndim);
// Returns which axis of a view is the axis `lane` of what it is a view of, element by element; -1: none is.
int lanes_view_axis(const struct tile_buffer *view, int lane);
// Writes which dimension each of some names is, as lanes_open has it: LANE_DIMS for one point, -1 for a loop.
void lanes_dims(int names, const expr *extent, int lane, int *dim);
// The points of a statement, and the loops of the control program around them.
struct lane_space {
    struct lane_points points;
    int loops;
    expr value[TILE_DIMS]; // of each name, inside the loops
};
// Opens the points of a statement over names. Variable number `lane` (-1: none) is c; the others, from the
// last, are w, h and n. Further variables, and points beyond what a command takes, become loops of the
// control program. After a failure there is nothing to close.
bool lanes_open(struct lanes *l, int names, const struct tile_name *const *name, const expr *extent, int lane,
                struct lane_space *out);
// Opens the points of one variable as rows across all lanes. Sets *is_flat to whether they can lie so; if
// not, nothing is open and it returns true.
bool lanes_open_flat(const struct tile_name *name, expr extent, struct lane_space *out, bool *is_flat);
// Closes the loops of a space.
void lanes_close(const struct lane_space *space);
// Allocates a tile for the points; with `along`, for those along some dimensions alone, while the others have
// one.
bool lanes_temporary(struct lanes *l, const struct lane_points *p, struct tile_type type, const bool *along,
                     struct lane_operand *out);
// Returns whether a value is the same at all points, so that the control program has it or can read it.
bool lanes_is_uniform(const struct lanes *l, const struct lane_points *p, expr e);
// Returns the same value for the control program; elements that it needs are read into variables here, one by
// one. Returns NULL for NULL, and if it fails.
expr lanes_control(struct lanes *l, expr e);
// Sets *out to where an element lies, for the points.
bool lanes_place(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 struct lane_operand *out);
// Writes the coefficients of the variables in an index, NULL for 0, and what is left of it. Returns false,
// without an error, if it is no such sum.
bool lanes_affine(struct lanes *l, const struct lane_points *p, expr index, expr *coefficient, expr *rest);
// Returns whether an index is such a sum without negative coefficients, which strides can express.
bool lanes_has_strides(const struct lanes *l, const struct lane_points *p, expr index);
// Returns the stride of an axis of a buffer in device memory, in elements.
expr lanes_far_stride(const struct tile_buffer *b, int axis);
// Writes the same as lanes_affine for the index of a buffer along an axis; if it is no such sum, that is an
// error.
bool lanes_index(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 int axis, expr *coefficient, expr *rest);

// A command and its arguments, in order.
struct lane_call {
    int count;
    expr argument[TILE_COMMAND_ARGUMENTS];
};
// Adds one argument; ignored beyond TILE_COMMAND_ARGUMENTS.
void lanes_add(struct lane_call *c, expr e);
// Adds an argument per dimension.
void lanes_add_four(struct lane_call *c, const expr *four);
// Adds the code of a type.
void lanes_add_dtype(struct lane_call *c, struct tile_type type);
// Appends the call of a function with the arguments.
void lanes_call(struct lane_call *c, const char *function);
// Returns the code of a type in the vendor's ABI; -1: the chip has none.
int lanes_dtype(struct tile_type type);

// A part of the points: `from` and `end` along each dimension, where NULL is all, and a test whether there is
// any. NULL: there is no test.
struct lane_part {
    expr from[LANE_DIMS], end[LANE_DIMS];
    expr test;
};

// lanes_move.c ----------------------------------------------------------------------------------------------

// Copies an operand to another one of the same points, and converts it.
bool lanes_move(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                const struct lane_operand *from);
// Copies the part of the points.
bool lanes_move_part(struct lanes *l, const struct lane_points *p, struct lane_operand to,
                     struct lane_operand from, const struct lane_part *in);
// Reduces a part to where a condition holds or, with is_not, does not. Returns false, without an error, if
// that is no such part.
bool lanes_bounds(struct lanes *l, const struct lane_points *p, expr mask, bool is_not, struct lane_part *in);
// Reduces a part to where indices are inside of a buffer.
bool lanes_inside(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                  const expr *index, struct lane_part *in);
// Fills an operand with a number of the control program.
bool lanes_fill(struct lanes *l, const struct lane_points *p, const struct lane_operand *to, expr value);
// Sets *out to an operand in the lanes that begins in lane 0, with the same value in all lanes if the points
// are across them; it is copied where it does not lie so. With `clips`, indices outside of a buffer in device
// memory give 0.
bool lanes_near(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool clips, struct lane_operand *out);
// Sets *fits to whether the points reach the elements as they lie: the same variable is across the lanes.
bool lanes_fits(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool *fits);
// Copies a tile of the points, made by lanes_temporary, for points that fit a buffer. `has` marks the
// variables of these, which it writes to *points.
bool lanes_relayout(struct lanes *l, const struct lane_points *p, const bool *has,
                    const struct lane_operand *from, const struct tile_buffer *b, const expr *to_index,
                    struct lane_points *points, struct lane_operand *out);
// Replaces an operand by an aligned copy, for commands without strides, unless it is aligned or a number.
bool lanes_aligned(struct lanes *l, const struct lane_points *p, struct lane_operand *o);
// Copies an operand with c and w exchanged; sets *transposed to the points with both exchanged.
bool lanes_transposed(struct lanes *l, const struct lane_points *p, const struct lane_operand *from,
                      struct lane_points *transposed, struct lane_operand *out);
// Sets *out to the points of some variables, with `lane` across the lanes, `column` along w, and the rest
// along h and n. Returns false, without an error, if there are too many.
bool lanes_some_points(const struct lane_points *p, const bool *has, int lane, int column,
                       struct lane_points *out);
// Generates the commands of a copy.
bool lanes_copy(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a fill.
bool lanes_fill_region(struct lanes *l, const struct tile_stmt *s);

// lanes_ops.c -----------------------------------------------------------------------------------------------

enum { LANE_VALUES = 8192 };

// A map that is being made.
struct lane_work {
    struct lanes *l;
    const struct lane_points *p;
    const struct tile_stmt *map; // its body; NULL outside of maps
    int values;                  // of the statement, computed so far
    expr node[LANE_VALUES];
    struct lane_operand value[LANE_VALUES];
    struct lane_operand variable[LANE_VARIABLES]; // of the names that each point has
    struct lane_operand *mask;                    // of the branch that statements are in; NULL: none
    expr condition;                               // the same as a formula
};

// Generates one command of an op of two operands, on the points.
bool lanes_binary(struct lanes *l, const struct lane_points *p, enum tile_op op,
                  const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// Generates the maximum or minimum of two tiles of floats, which is a NaN where one of them is. `to` may be
// one of the two.
bool lanes_extreme(struct lanes *l, const struct lane_points *p, enum tile_op op,
                   const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// Corrects a conversion from f32 to 16 bits, in which the chip saturates: numbers beyond the largest become
// infinity.
bool lanes_overflow(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                    const struct lane_operand *from);
// Changes a boolean, 0 or 1, to its opposite in place.
bool lanes_flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to);
// Replaces an operand that is a number by a tile of it in the lanes.
bool lanes_as_tile(struct lanes *l, const struct lane_points *p, struct lane_operand *o,
                   struct tile_type type);
// Returns whether an op compares.
bool lanes_is_comparison(enum tile_op op);
// Generates the command that compares integers; it gives bytes of 0 or 1.
bool lanes_compare_integers(struct lanes *l, const struct lane_points *p, enum tile_op op,
                            const struct lane_operand *to, struct lane_operand a, struct lane_operand b);
// Selects a where the mask is not 0, else b, into a new tile.
bool lanes_select(struct lane_work *w, struct lane_operand mask, struct lane_operand a, struct lane_operand b,
                  struct tile_type type, struct lane_operand *out);
// Computes an op on operands x into a place that is given.
bool lanes_compute(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *to);
// Computes an op whose result has a place of its own. Sets *is_done to whether e is one.
bool lanes_compute_apart(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                         bool *is_done);

// lanes_values.c --------------------------------------------------------------------------------------------

// Returns the position of a name among the variables that each point has; -1: it is none.
int lanes_variable(const struct lane_work *w, const struct tile_name *name);
// Computes an expression at the points, each node once per statement. `wanted`, or NULL, is a place for the
// result that it need not take; *out says where the result is.
bool lanes_evaluate(struct lane_work *w, expr e, const struct lane_operand *wanted, struct lane_operand *out);

// lanes_gather.c --------------------------------------------------------------------------------------------

// Returns whether a command can gather what a map loads, whose index along an axis is no sum of loop
// variables, if variable `lane` is across the lanes.
bool lanes_can_gather(const struct tile_stmt *map, int lane, expr load, int axis);
// Returns the first axis of a load along which strides do not express its index; -1: there is none.
int lanes_gather_axis(const struct lanes *l, const struct lane_points *p, expr load);
// Gathers what is loaded into a new tile. With `clips`, indices may be outside of the buffer; their elements
// are then any numbers.
bool lanes_gather(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out);

// lanes_map.c -----------------------------------------------------------------------------------------------

// Generates the commands of a map.
bool lanes_map(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a store or atomic of one element, outside of maps.
bool lanes_store(struct lanes *l, const struct tile_stmt *s);

// lanes_places.c --------------------------------------------------------------------------------------------

// Assigns an address to every tile, and removes their allocations. It fails if the lanes have too little
// room.
bool lanes_assign(struct lanes *l, struct tile_kernel *kernel);

// lanes_reduce.c, lanes_gemm.c ------------------------------------------------------------------------------

// Generates the commands of a reduction.
bool lanes_reduce(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a scan.
bool lanes_scan(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a gemm.
bool lanes_gemm(struct lanes *l, const struct tile_stmt *s);

#endif
