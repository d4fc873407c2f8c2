// lanes.h - shared by the passes that generate commands for a chip whose memory is divided into lanes.
//
// A tile is stored in the lanes as a tensor of four dimensions, {n, c, h, w}: element i along c is in lane i
// mod 64. At most one axis of a tile is c. The points of a statement form such a tensor too: each of its
// variables is one of the dimensions, and every operand of its commands has a stride along each dimension.

#ifndef LANES_H
#define LANES_H

#include "pass/boxes.h"

enum { LANE_VARIABLES = 32, LANE_READS = 32 };
enum lane_dim { LANE_N, LANE_C, LANE_H, LANE_W, LANE_DIMS };

// An element that the control program has read in a block of statements.
struct lane_read {
    expr element, value;
    const struct tile_frame *block;
};

struct lanes {
    const struct target *target;
    bool *is_column; // by id of a buffer of one axis: its elements are spread across the lanes
    bool *is_partly; // by id of a buffer: a statement stores only a part of it, under a mask
    int buffers;     // the length of both
    // constants of the exponential, in the current block; NULL: there are none yet
    struct tile_buffer *exponents;
    const struct tile_stmt *at; // for messages
    // is_ahead: the current copy runs ahead of the iteration that needs it; the DMA engine makes it.
    // is_mixed: in the current iteration, the DMA engine does other work too, or the compute engine a part of
    // such a copy. Both engines may then touch one tile, so that the iteration is no parallel region.
    bool is_ahead, is_mixed;
    bool is_alone; // blocks of the grid may write to the same elements: one core runs all of them
    const struct tile_name *whole; // a variable to divide only where commands require it; NULL: none
    int variables; // names that have a value at each point of the current map
    const struct tile_name *variable[LANE_VARIABLES];
    int reads; // by the control program, for the current statement
    struct lane_read read[LANE_READS];
};

// The layout of a tile: the dimension of each axis, and the elements from one index to the next.
struct lane_tile {
    int dim[TILE_DIMS];
    int lane; // the axis across the lanes; -1: none, all of it is in lane 0
    int64_t size[LANE_DIMS], stride[LANE_DIMS];
    int64_t step[TILE_DIMS]; // along each axis
    int64_t bytes;           // in each lane
};

// The points of a statement: one for each combination of its variables' values.
struct lane_points {
    int names;
    const struct tile_name *name[TILE_DIMS];
    int dim[TILE_DIMS];     // of each name
    expr size[LANE_DIMS];   // the number of points; 1 along dimensions without a variable
    int64_t most[LANE_DIMS]; // upper bounds of size
};

// An operand of a command: a tile, an array in device memory, or a number.
struct lane_operand {
    struct tile_type type; // as the chip holds it
    // a number of the control program that is the same for all points; else NULL
    expr scalar;
    bool is_far;           // it is in device memory, not in the lanes
    bool is_wide;          // its elements in device memory have 64 bits, of which the lower 32 are read
    bool is_shifted;       // it may begin in a lane other than lane 0
    expr address;          // in bytes
    expr stride[LANE_DIMS];
};

// lanes.c ---------------------------------------------------------------------------------------------------

// Functions that return bool return false, with an error, if the chip cannot do what they are to generate or
// memory runs out, unless they say otherwise.

// Records an error that names the kernel, statement and target, marks the current kernel failed and returns
// false.
bool lanes_fail(struct lanes *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns a constant of i64: a size, stride or address.
expr lanes_number(int64_t value);
// Returns a constant of i32: a dtype or mode of a command.
expr lanes_code(int value);
// Returns a number of the control program converted to a type of the chip.
expr lanes_scalar(struct tile_type type, expr e);
// Returns a value rounded up to a multiple of `by`.
int64_t lanes_round(int64_t value, int64_t by);
// Returns the type in which the chip has values of another: a byte for bool, 32 bits for integers of 64.
struct tile_type lanes_type(struct tile_type type);
// Returns whether a buffer is in the lanes, not in device memory.
bool lanes_is_local(const struct tile_buffer *b);
// Sets *out to the layout of a tile in the lanes.
bool lanes_tile(struct lanes *l, const struct tile_buffer *b, struct lane_tile *out);
// Writes the strides of an aligned tile, in elements: each n and c begins at a multiple of 64 bytes.
void lanes_strides(const int64_t *size, int bytes, int64_t *stride);
// Returns which axis of a tile of two to four axes is across the lanes; -1 for other tiles.
int lanes_axis(int ndim);
// Returns which axis of a view is the axis `lane` of its base, element by element; -1: none.
int lanes_view_axis(const struct tile_buffer *view, int lane);
// Sets dim[i] to the dimension that lanes_open gives variable i: LANE_DIMS if it has one point, -1 for a
// loop.
void lanes_dims(int names, const expr *extent, int lane, int *dim);
// The points of a statement, and the loops of the control program around them.
struct lane_space {
    struct lane_points points;
    int loops;
    expr value[TILE_DIMS]; // of each name, inside the loops
};
// Opens the points of a statement over `names` variables. Variable number `lane` (-1: none) becomes c; the
// others, from the last, become w, h and n. Further variables, and points beyond what a command takes, become
// loops of the control program. After a failure there is nothing to close.
bool lanes_open(struct lanes *l, int names, const struct tile_name *const *name, const expr *extent, int lane,
                struct lane_space *out);
// Opens the points of one variable as rows across all lanes. Sets *is_flat to whether that is possible; if
// not, opens nothing and returns true.
bool lanes_open_flat(const struct tile_name *name, expr extent, struct lane_space *out, bool *is_flat);
// Closes the loops of a space.
void lanes_close(const struct lane_space *space);
// Allocates a tile for the points. If `along` is not NULL, the tile has one element along dimensions that it
// does not mark.
bool lanes_temporary(struct lanes *l, const struct lane_points *p, struct tile_type type, const bool *along,
                     struct lane_operand *out);
// Returns whether a value is the same at all points, so that the control program can compute or read it.
bool lanes_is_uniform(const struct lanes *l, const struct lane_points *p, expr e);
// Returns the value for the control program; reads elements that it needs into variables, one by one. Returns
// NULL for NULL, and if it fails.
expr lanes_control(struct lanes *l, expr e);
// Sets *out to the address and strides of an element of a buffer at the points.
bool lanes_place(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 struct lane_operand *out);
// Writes the coefficients of the variables in an index, with NULL for 0, and the rest of it. Returns false,
// without an error, if the index is no sum of loop variables.
bool lanes_affine(struct lanes *l, const struct lane_points *p, expr index, expr *coefficient, expr *rest);
// Returns whether an index is a sum of loop variables without negative coefficients, which strides can
// express.
bool lanes_has_strides(const struct lanes *l, const struct lane_points *p, expr index);
// Returns the stride of an axis of a buffer in device memory, in elements.
expr lanes_far_stride(const struct tile_buffer *b, int axis);
// Does the same as lanes_affine for the index of a buffer along an axis, but it is an error if the index is
// no such sum.
bool lanes_index(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 int axis, expr *coefficient, expr *rest);

// A command and its arguments, in order.
struct lane_call {
    int count;
    expr argument[TILE_COMMAND_ARGUMENTS];
};
// Adds one argument. Beyond TILE_COMMAND_ARGUMENTS they are only counted, and lanes_call fails.
void lanes_add(struct lane_call *c, expr e);
// Adds an argument per dimension.
void lanes_add_four(struct lane_call *c, const expr *four);
// Adds the code of a type.
void lanes_add_dtype(struct lane_call *c, struct tile_type type);
// Appends the call of a function with the arguments. With more than TILE_COMMAND_ARGUMENTS of them the
// current kernel fails.
void lanes_call(struct lane_call *c, const char *function);
// Returns the code of a type in the vendor's ABI; -1: the chip has none.
int lanes_dtype(struct tile_type type);

// A part of the points: from `from` to `end` along each dimension (NULL: no bound), and a condition of the
// control program for there being any point (NULL: none).
struct lane_part {
    expr from[LANE_DIMS], end[LANE_DIMS];
    expr test;
};

// lanes_move.c ----------------------------------------------------------------------------------------------

// Copies an operand to another one at the same points, with conversion.
bool lanes_move(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                const struct lane_operand *from);
// Copies an operand at a part of the points.
bool lanes_move_part(struct lanes *l, const struct lane_points *p, struct lane_operand to,
                     struct lane_operand from, const struct lane_part *in);
// Reduces a part to the points where a condition holds or, with is_not, does not hold. Returns false,
// without an error, if these are not such a part.
bool lanes_bounds(struct lanes *l, const struct lane_points *p, expr mask, bool is_not, struct lane_part *in);
// Reduces a part to the points at which indices are inside of a buffer.
bool lanes_inside(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                  const expr *index, struct lane_part *in);
// Fills an operand with a number of the control program.
bool lanes_fill(struct lanes *l, const struct lane_points *p, const struct lane_operand *to, expr value);
// Sets *out to an operand in the lanes that begins in lane 0 and, if it does not vary across the lanes, has
// the same value in all of them; copies it where its layout is different. With `clips`, indices outside of a
// buffer in device memory give 0.
bool lanes_near(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool clips, struct lane_operand *out);
// Sets *fits to whether the layout of a buffer is that of the points: the same variable is across the lanes.
bool lanes_fits(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool *fits);
// Copies a tile that lanes_temporary made to the layout of a buffer. `has` marks the variables of the tile.
// Sets *points to the points in the new layout and *out to the copy.
bool lanes_relayout(struct lanes *l, const struct lane_points *p, const bool *has,
                    const struct lane_operand *from, const struct tile_buffer *b, const expr *to_index,
                    struct lane_points *points, struct lane_operand *out);
// Replaces an operand by an aligned copy, for commands that take no strides, unless it is aligned or a
// number.
bool lanes_aligned(struct lanes *l, const struct lane_points *p, struct lane_operand *o);
// Copies an operand with c and w exchanged; sets *transposed to the points with both exchanged.
bool lanes_transposed(struct lanes *l, const struct lane_points *p, const struct lane_operand *from,
                      struct lane_points *transposed, struct lane_operand *out);
// Sets *out to the points of the variables that `has` marks, with `lane` across the lanes, `column` along w,
// and the others along h and n. Returns false, without an error, if there are too many.
bool lanes_some_points(const struct lane_points *p, const bool *has, int lane, int column,
                       struct lane_points *out);
// Generates the commands of a copy.
bool lanes_copy(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a fill.
bool lanes_fill_region(struct lanes *l, const struct tile_stmt *s);

// lanes_ops.c -----------------------------------------------------------------------------------------------

enum { LANE_VALUES = 8192 };

// The state of a map while its commands are generated.
struct lane_work {
    struct lanes *l;
    const struct lane_points *p;
    const struct tile_stmt *map; // its body; NULL outside of maps
    int values;                  // nodes of the current statement whose values are computed
    expr node[LANE_VALUES];
    struct lane_operand value[LANE_VALUES];
    struct lane_operand variable[LANE_VARIABLES]; // values of the names in lanes.variable
    struct lane_operand *mask;                    // the mask of the current branch; NULL: none
    expr condition;                               // the mask as a formula
};

// Generates one command of an op of two operands, on the points.
bool lanes_binary(struct lanes *l, const struct lane_points *p, enum tile_op op,
                  const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// Generates the maximum or minimum of two tiles of floats, which is NaN where one of them is NaN. `to` may be
// one of the two.
bool lanes_extreme(struct lanes *l, const struct lane_points *p, enum tile_op op,
                   const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// Corrects the result of a conversion from f32 to 16 bits, in which the chip saturates: numbers beyond the
// largest become infinity.
bool lanes_overflow(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                    const struct lane_operand *from);
// Inverts a boolean, 0 or 1, in place.
bool lanes_flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to);
// Replaces an operand that is a number by a tile in the lanes that is filled with it.
bool lanes_as_tile(struct lanes *l, const struct lane_points *p, struct lane_operand *o,
                   struct tile_type type);
// Returns whether an op compares.
bool lanes_is_comparison(enum tile_op op);
// Generates the command that compares integers; its result is bytes of 0 or 1.
bool lanes_compare_integers(struct lanes *l, const struct lane_points *p, enum tile_op op,
                            const struct lane_operand *to, struct lane_operand a, struct lane_operand b);
// Selects a where the mask is not 0, else b, into a new tile.
bool lanes_select(struct lane_work *w, struct lane_operand mask, struct lane_operand a, struct lane_operand b,
                  struct tile_type type, struct lane_operand *out);
// Computes an op on operands x into `to`.
bool lanes_compute(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *to);
// Computes an op whose result is not written to a given place. Sets *is_done to whether e is such an op.
bool lanes_compute_apart(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                         bool *is_done);

// lanes_values.c --------------------------------------------------------------------------------------------

// Returns the position of a name among the variables that have a value at each point; -1: it is none of them.
int lanes_variable(const struct lane_work *w, const struct tile_name *name);
// Computes an expression at the points, each node once per statement. `wanted` (or NULL) suggests a place for
// the result, which need not be used; *out says where the result is.
bool lanes_evaluate(struct lane_work *w, expr e, const struct lane_operand *wanted, struct lane_operand *out);

// lanes_gather.c --------------------------------------------------------------------------------------------

// Returns whether a command can gather what a map loads if the index along `axis` is no sum of loop variables
// and variable `lane` is across the lanes.
bool lanes_can_gather(const struct tile_stmt *map, int lane, expr load, int axis);
// Returns the first axis of a load whose index strides cannot express; -1: there is none.
int lanes_gather_axis(const struct lanes *l, const struct lane_points *p, expr load);
// Gathers loaded elements into a new tile. With `clips`, indices may be outside of the buffer; their elements
// then have any value.
bool lanes_gather(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out);

// lanes_map.c -----------------------------------------------------------------------------------------------

// Generates the commands of a map.
bool lanes_map(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a store or atomic of one element, outside of maps.
bool lanes_store(struct lanes *l, const struct tile_stmt *s);

// lanes_places.c --------------------------------------------------------------------------------------------

// Assigns an address to every tile, and removes the allocations. Fails if the memory of the lanes is too
// small.
bool lanes_assign(struct lanes *l, struct tile_kernel *kernel);

// lanes_reduce.c, lanes_gemm.c ------------------------------------------------------------------------------

// Generates the commands of a reduction.
bool lanes_reduce(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a scan.
bool lanes_scan(struct lanes *l, const struct tile_stmt *s);
// Generates the commands of a gemm.
bool lanes_gemm(struct lanes *l, const struct tile_stmt *s);

#endif
