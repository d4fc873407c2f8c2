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

bool lanes_fail(struct lanes *l, const char *format, ...) __attribute__((format(printf, 2, 3))); // false
expr lanes_number(int64_t value); // i64
expr lanes_code(int value);       // i32: dtypes, modes
// a number of the control program as one of the chip's types
expr lanes_scalar(struct tile_type type, expr e);
int64_t lanes_round(int64_t value, int64_t by);
struct tile_type lanes_type(struct tile_type type); // as the chip holds it: bool in bytes, indices in 32 bits
bool lanes_is_local(const struct tile_buffer *b);
bool lanes_tile(struct lanes *l, const struct tile_buffer *b, struct lane_tile *out); // false and an error
void lanes_strides(const int64_t *size, int bytes, int64_t *stride); // those of a tile that is aligned
// Returns which axis of a tile of two to four axes lies across the lanes; -1 for others.
int lanes_axis(int ndim);
// Returns which axis of a view is the axis `lane` of what it is a view of, element by element; -1: none is.
int lanes_view_axis(const struct tile_buffer *view, int lane);
// Which dimension each of some names is, as lanes_open says: LANE_DIMS of one point, -1 of a loop.
void lanes_dims(int names, const expr *extent, int lane, int *dim);
// Loops of a statement over names: of which variable number `lane` (-1: none) is c, and the last others are
// w, h and n. What is more than that, or more than a command takes, becomes loops of the control program.
// `value` is what stands for each name in between.
struct lane_space {
    struct lane_points points;
    int loops;
    expr value[TILE_DIMS];
};
bool lanes_open(struct lanes *l, int names, const struct tile_name *const *name, const expr *extent, int lane,
                struct lane_space *out); // false and an error: nothing is open
// The same of one variable, whose points lie in rows across all lanes; sets *is_flat to whether they can, and
// nothing is open otherwise.
bool lanes_open_flat(const struct tile_name *name, expr extent, struct lane_space *out, bool *is_flat);
void lanes_close(const struct lane_space *space);
// A new tile for the points, or for those along some dimensions alone: the others have one.
bool lanes_temporary(struct lanes *l, const struct lane_points *p, struct tile_type type, const bool *along,
                     struct lane_operand *out);
// Whether a value is the same at all points: the control program has it, or can read it.
bool lanes_is_uniform(const struct lanes *l, const struct lane_points *p, expr e);
// The same value for the control program: elements that it needs are read into variables here, one by one.
expr lanes_control(struct lanes *l, expr e);
// Where an element is, for the points; false and an error where the chip cannot reach it so.
bool lanes_place(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 struct lane_operand *out);
// The coefficients of the variables in an index, NULL for 0, and what is left of it; false: it is not such a
// sum.
bool lanes_affine(struct lanes *l, const struct lane_points *p, expr index, expr *coefficient, expr *rest);
// Whether it is such a sum of which no coefficient is negative: what strides reach.
bool lanes_has_strides(const struct lanes *l, const struct lane_points *p, expr index);
expr lanes_far_stride(const struct tile_buffer *b, int axis); // of an axis of device memory, in elements
// The same of a buffer's index along an axis, which has to be such a sum: false and an error.
bool lanes_index(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                 int axis, expr *coefficient, expr *rest);

// Commands: arguments one after the other.
struct lane_call {
    int count;
    expr argument[TILE_COMMAND_ARGUMENTS];
};
void lanes_add(struct lane_call *c, expr e);
void lanes_add_four(struct lane_call *c, const expr *four);
void lanes_add_dtype(struct lane_call *c, struct tile_type type);
void lanes_call(struct lane_call *c, const char *function);
int lanes_dtype(struct tile_type type); // its code in the vendor's ABI; -1: none

// A part of the points: from some on up to others along each dimension, NULL being all; and whether there is
// any. NULL: nothing is asked.
struct lane_part {
    expr from[LANE_DIMS], end[LANE_DIMS];
    expr test;
};

// lanes_move.c ----------------------------------------------------------------------------------------------

// Copies an operand to another, of the same points; converts.
bool lanes_move(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                const struct lane_operand *from);
bool lanes_move_part(struct lanes *l, const struct lane_points *p, struct lane_operand to,
                     struct lane_operand from, const struct lane_part *in);
// Adds to the part where a condition, or its opposite, holds. False, without an error: that is no such part.
bool lanes_bounds(struct lanes *l, const struct lane_points *p, expr mask, bool is_not, struct lane_part *in);
// Adds to the part where indices are inside of a buffer; false and an error.
bool lanes_inside(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b,
                  const expr *index, struct lane_part *in);
bool lanes_fill(struct lanes *l, const struct lane_points *p, const struct lane_operand *to, expr value);
// An operand that begins in lane 0, is the same in all lanes where the points are across them, and lies in
// the lanes.
bool lanes_near(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool clips, struct lane_operand *out);
// Sets *fits to whether the points reach the elements as they lie: the same variable is across the lanes.
// False and an error.
bool lanes_fits(struct lanes *l, const struct lane_points *p, const struct tile_buffer *b, const expr *index,
                bool *fits);
// What a tile of the points, made by lanes_temporary, is at points that fit a buffer: those of the variables
// that `has` says.
bool lanes_relayout(struct lanes *l, const struct lane_points *p, const bool *has,
                    const struct lane_operand *from, const struct tile_buffer *b, const expr *to_index,
                    struct lane_points *points, struct lane_operand *out);
// The same operand, aligned: as commands want it that take no strides.
bool lanes_aligned(struct lanes *l, const struct lane_points *p, struct lane_operand *o);
// The operand with what is across the lanes along w, and the other way round; `transposed` are points with
// both exchanged.
bool lanes_transposed(struct lanes *l, const struct lane_points *p, const struct lane_operand *from,
                      struct lane_points *transposed, struct lane_operand *out);
// The points of some variables, with `lane` across the lanes, `column` along w, and the rest along h and n;
// false: there are too many.
bool lanes_some_points(const struct lane_points *p, const bool *has, int lane, int column,
                       struct lane_points *out);
bool lanes_copy(struct lanes *l, const struct tile_stmt *s);
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

// One command of an op of two operands, on the points.
bool lanes_binary(struct lanes *l, const struct lane_points *p, enum tile_op op,
                  const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// The maximum or minimum of two tiles of floats, which is a NaN where one of them is. `to` may be one of the
// two.
bool lanes_extreme(struct lanes *l, const struct lane_points *p, enum tile_op op,
                   const struct lane_operand *to, const struct lane_operand *a, const struct lane_operand *b);
// Corrects a conversion from f32 to 16 bits, which the chip ends at the largest number: beyond it is
// infinity.
bool lanes_overflow(struct lanes *l, const struct lane_points *p, const struct lane_operand *to,
                    const struct lane_operand *from);
bool lanes_flip(struct lanes *l, const struct lane_points *p, const struct lane_operand *to); // a truth value
// An operand that is in the lanes: a number becomes a tile.
bool lanes_as_tile(struct lanes *l, const struct lane_points *p, struct lane_operand *o,
                   struct tile_type type);
bool lanes_is_comparison(enum tile_op op);
bool lanes_compare_integers(struct lanes *l, const struct lane_points *p, enum tile_op op,
                            const struct lane_operand *to, struct lane_operand a, struct lane_operand b);
bool lanes_select(struct lane_work *w, struct lane_operand mask, struct lane_operand a, struct lane_operand b,
                  struct tile_type type, struct lane_operand *out);
// An op on operands x, into a place that is given; and those whose result has a place of its own: sets
// *is_done if e is one.
bool lanes_compute(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *to);
bool lanes_compute_apart(struct lane_work *w, expr e, const struct lane_operand *x, struct lane_operand *out,
                         bool *is_done);

// lanes_values.c --------------------------------------------------------------------------------------------

// which variable of the points it is; -1: none
int lanes_variable(const struct lane_work *w, const struct tile_name *name);
// What an expression is at the points. wanted: where it is to be, if that can be done at once; out says where
// it is.
bool lanes_evaluate(struct lane_work *w, expr e, const struct lane_operand *wanted, struct lane_operand *out);

// lanes_gather.c --------------------------------------------------------------------------------------------

// Whether a command can take what a map loads, whose index along one axis is no sum of loop variables, if
// `lane` is across the lanes.
bool lanes_can_gather(const struct tile_stmt *map, int lane, expr load, int axis);
// that axis; -1: there is none
int lanes_gather_axis(const struct lanes *l, const struct lane_points *p, expr load);
bool lanes_gather(struct lane_work *w, expr load, int axis, bool clips, struct lane_operand *out);

// lanes_map.c -----------------------------------------------------------------------------------------------

bool lanes_map(struct lanes *l, const struct tile_stmt *s);
bool lanes_store(struct lanes *l, const struct tile_stmt *s); // of one element, outside of maps

// lanes_places.c --------------------------------------------------------------------------------------------

// Gives every tile an address, and drops their allocations. False and an error where the lanes have too
// little room.
bool lanes_assign(struct lanes *l, struct tile_kernel *kernel);

// lanes_reduce.c, lanes_gemm.c ------------------------------------------------------------------------------

bool lanes_reduce(struct lanes *l, const struct tile_stmt *s);
bool lanes_scan(struct lanes *l, const struct tile_stmt *s);
bool lanes_gemm(struct lanes *l, const struct tile_stmt *s);

#endif
