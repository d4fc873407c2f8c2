// pass.h - passes: kernel in, kernel out, one file each. pipeline.c is the ordered list.
//
// A pass rewrites the kernel in place for a *target*, a record of what a language can spell and what a unit
// has. Each language has a record that fits all units (render_target); a device derives one from it for each
// of its units. After the last pass, the target can spell every op and cast left in the kernel. A pass never
// changes the bits that a kernel computes.

#ifndef PASS_H
#define PASS_H

#include "tile/tile.h"

// Sets of dtypes.
#define PASS_BIT(dtype) (1u << (dtype))
enum {
    PASS_BOOL = PASS_BIT(ZL_BOOL),
    PASS_UNSIGNED = PASS_BIT(ZL_UINT8) | PASS_BIT(ZL_UINT16) | PASS_BIT(ZL_UINT32) | PASS_BIT(ZL_UINT64),
    PASS_SIGNED = PASS_BIT(ZL_INT8) | PASS_BIT(ZL_INT16) | PASS_BIT(ZL_INT32) | PASS_BIT(ZL_INT64),
    PASS_INTEGER = PASS_UNSIGNED | PASS_SIGNED,
    PASS_F16 = PASS_BIT(ZL_FLOAT16),
    PASS_BF16 = PASS_BIT(ZL_BFLOAT16),
    PASS_FLOAT = PASS_BIT(ZL_FLOAT32) | PASS_BIT(ZL_FLOAT64),
    PASS_COMPLEX = PASS_BIT(ZL_COMPLEX64),
};

// How an op is written. In the text, %a, %b, %c stand for operands and %t for their type; the renderer's file
// says what else.
struct spelling {
    uint32_t dtypes; // of the operands (of a select, the last two) for which the language has the op
    const char *text;
    const char *integer; // for integers, where it differs
};

// The workgroups of a target.
struct target_group {
    int threads;         // per workgroup, if a kernel does not say
    int flat_threads;    // per workgroup that computes a piece of a long map
    int subgroup;        // threads that exchange values by shuffles; 0: none do
    // subgroups along the rows that one matrix instruction uses, if rows of b have 128 bytes; 0: one
    int joined;
    int vector_bytes;    // of the widest access
    int shared_bytes;    // of shared memory that the stages of pipelines may fill
    int most_threads;    // the most threads of a workgroup; 0: unknown
    int64_t most_shared; // the most bytes of shared memory of a workgroup, if most_threads is known
    int cluster;         // the most workgroups that can write into each other's shared memory; 0: none can
    bool has_async;      // has asynchronous copies to shared memory
    // threads run one after the other, on a CPU: each barrier ends a loop over all of them
    bool is_serial;
};

// The capabilities of a unit whose code is SPIR-V, as its driver reports them or as tests found.
struct target_spirv {
    bool has_i64, has_f64, has_f16; // arithmetic on these
    bool has_bytes, has_halves;     // elements of 8 and of 16 bits in storage buffers
    // arithmetic on integers of 8 and of 16 bits, and such elements in shared memory
    bool has_small_bytes, has_small_halves;
    // modules may state the layout of shared memory, with elements of any size
    bool has_shared_layout;
    bool has_exact_fma, has_exact_divide, has_exact_root; // in f32, rounded once, to the nearest
    bool is_inexact;                // sums or products of f32 are not rounded to the nearest
    bool flushes, fma_flushes;      // subnormal f32 become 0 everywhere, or in an fma alone
    // Dtypes (PASS_BIT) with execution modes that round to the nearest, keep subnormal numbers, and keep NaN,
    // infinity and -0.
    uint32_t rounds, keeps_small, keeps_special;
    int push_bytes;     // the most bytes of push constants
    bool has_addresses; // kernels can reach buffers by addresses
    bool is_far;        // this is the record of kernels that use addresses (target.far)
    int buffers;        // the most buffers that a kernel can have by bindings
    uint32_t matrices;  // dtypes whose matrices a subgroup multiplies: target_set_matrices
};

// A chip whose memory is divided into lanes, and which executes commands on whole tiles: lanes.h.
struct target_lanes {
    int cores;
    int64_t bytes; // per lane
    int banks;     // per lane; 0: one
};

// What a target can spell in its language, and how its loops run.
struct target {
    const char *name;   // of the language
    const char *called; // what zl_kernel_compile calls it; NULL: its name
    const char *unit; // the model of the unit that this record belongs to; NULL: the record fits all units
    uint32_t lacks;   // dtypes with which the unit cannot compute
    bool lacks_wide_atomics; // has no atomics of 64-bit words
    const struct spelling *op;     // by enum tile_op
    uint32_t cast[ZL_DTYPE_COUNT]; // [to]: the dtypes from which a single conversion leads there
    bool is_vector;                // maps over unit-stride data become vector loops
    bool is_program;               // renders kernels of any statements: tile statements become loops
    const struct target_group *group; // NULL: a block is one thread
    const struct target_spirv *spirv; // NULL: its code is text
    const struct target_lanes *lanes; // NULL: its memory has no lanes
    // Returns whether a unit of the chip multiplies tiles of such types (of a, b and the result). NULL: it
    // has no such unit.
    bool (*multiplies)(zl_dtype a, zl_dtype b, zl_dtype c);
    bool packs; // that unit reads parameters in place, as rectangles of any length
    // Returns whether the target has a function that reduces contiguous elements. NULL: it has none.
    bool (*reduces)(enum tile_op combine, zl_dtype from, zl_dtype to);
    // The record for kernels that reach more than `reach` bytes of one argument; NULL: this record serves
    // all.
    const struct target *far;
    uint64_t reach;
};

// The record of a unit.
struct target_unit {
    struct target target;
    struct target_group group; // that target points to
    struct target_spirv spirv; // that target points to, if its language has one
};
// Sets *out to the record of a unit, made from that of its language, its model, whose text must live as long,
// and the most threads and bytes of shared memory of a workgroup.
void target_set_unit(struct target_unit *out, const struct target *language, const char *model, int threads,
                     int64_t shared);
// Sets *far to a copy of the record of a SPIR-V unit for kernels that reach buffers by addresses, and makes
// it the record of kernels that reach more than `reach` bytes of one argument.
void target_set_far(struct target_unit *unit, struct target_unit *far, uint64_t reach);

enum { TARGET_EXCHANGED = 32, TARGET_EXCHANGERS = 128 };
// Sets the dtypes of which the subgroups of a SPIR-V unit, which have 32 threads, multiply 16 x 16 matrices
// with sums in f32 (cooperative matrices). Elements move between matrices and registers through
// TARGET_EXCHANGED bytes of shared memory per thread. The bytes of the first TARGET_EXCHANGERS threads are
// deducted from the shared memory of every workgroup; target_matrix_bytes returns those of further threads.
// Does nothing for a unit that cannot state the layout of shared memory.
void target_set_matrices(struct target_unit *unit, uint32_t dtypes);

// Returns what users call the target, for messages.
const char *target_called(const struct target *target);
// Return whether the target can spell a node as it stands, an op, a cast. It always can spell leaves, loads
// and bit casts.
bool target_spells(const struct target *target, expr e);
bool target_spells_op(const struct target *target, enum tile_op op, struct tile_type operand);
bool target_casts(const struct target *target, struct tile_type to, struct tile_type from);
// Returns the bytes from row to row of a tile in shared memory that matrix instructions read, given the bytes
// of a row.
int64_t target_row_bytes(const struct target *target, int64_t bytes);
// Returns for how many stages of a pipelined loop a kernel must have room.
int target_stages(const struct target *target, int wanted);
// Return, of pipelined loops: whether copies are asynchronous; the most stages; the bytes of a block that all
// staged tiles may take.
bool target_copies_ahead(const struct target *target);
int target_most_stages(const struct target *target, int wanted);
int64_t target_staged_bytes(const struct target *target);
// Return, of workgroups that multiply matrices: the most threads; the bytes of shared memory that they have
// less than others.
int target_matrix_threads(const struct target *target);
int64_t target_matrix_bytes(const struct target *target, int threads);
// Returns whether the unit has all dtypes and atomics that a kernel uses after its passes; if not, the error
// names what it lacks.
bool target_has_needs(const struct target *target, struct tile_kernel *kernel);

// pipeline.c ------------------------------------------------------------------------------------------------

// Runs the passes in order, up to the one called `last` (NULL: all). Returns false, with an error, if one
// fails. Debug builds verify the kernel after each pass. ZL_DUMP=<pass> prints the kernel after that pass,
// ZL_DUMP=tile before the first.
bool pass_run(struct tile_kernel *kernel, const struct target *target, const char *last);
// Returns the name of the at-th pass; NULL past the last.
const char *pass_name(int at);

// Return whether ZL_DUMP, a list of names separated by commas, has this stage or `all`; print text or a
// kernel to stderr if so.
bool pass_is_dumped(const char *stage);
void pass_dump(const char *stage, const char *text);
void pass_dump_kernel(const struct tile_kernel *kernel, const char *stage);

typedef bool pass_function(struct tile_kernel *kernel, const struct target *target);
pass_function pass_expand, pass_small_types, pass_views, pass_forward, pass_merge, pass_flat, pass_strips,
    pass_stages, pass_threads, pass_tiles, pass_split, pass_fuse, pass_elide, pass_map_reduce, pass_loops,
    pass_halves, pass_complex, pass_booleans, pass_widen, pass_divide, pass_lower, pass_convert, pass_lanes,
    pass_simplify, pass_vectorise;

// rewrite.c -------------------------------------------------------------------------------------------------

// Returns the replacement of a node whose operands are replaced already, or the node itself.
typedef expr pass_rule(const struct target *target, expr e);
// Replaces every expression of the kernel by the rule, operands first, and rewrites replacements again until
// nothing changes. Returns false if that fails.
bool pass_rewrite(struct tile_kernel *kernel, const struct target *target, pass_rule *rule);

// Calls `change` to modify the statements of a kernel in place, if the target packs what it reads and
// formulas are simple. Returns false if the kernel has failed.
bool pass_simple_lists(struct tile_kernel *kernel, const struct target *target,
                       void (*change)(struct tile_kernel *kernel, const struct target *target,
                                      struct tile_stmt **list));

// Calls visit for every place of the kernel's statements that holds an expression.
void pass_each_expr(struct tile_stmt *body, void (*visit)(expr *place, void *data), void *data);

// Returns the replacement of an expression, or the expression itself; NULL: it failed.
typedef expr pass_replacement(void *data, expr e);
// Returns the same op on the replacements of its operands by `of`: e itself if none changes, NULL if one is
// NULL.
expr pass_rebuild(expr e, pass_replacement *of, void *data);

// emit.c ----------------------------------------------------------------------------------------------------

// Appends the replacement of a statement and returns true, or returns false to have it copied.
typedef bool pass_emitter(void *data, const struct tile_stmt *s);
// Copies statements, with their bodies, into the current kernel, but calls `emit` for each first. Where that
// replaces a statement, its body is skipped; else `emit` is called for the statements of its body too.
void pass_emit(const struct tile_stmt *body, pass_emitter *emit, void *data);
// Replaces the body of a kernel in that way. Returns false if that fails.
bool pass_emit_kernel(struct tile_kernel *kernel, pass_emitter *emit, void *data);
// Appends a copy of a statement with its expressions replaced by `of`, without its body; a statement with a
// body is left open. Returns NULL if that fails.
struct tile_stmt *pass_emit_as(const struct tile_stmt *s, pass_replacement *of, void *data);
// Appends the bodies of an open statement by calling `block`, and closes it. Does nothing for a statement
// without a body.
void pass_emit_bodies(const struct tile_stmt *s, void (*block)(void *data, const struct tile_stmt *body),
                      void *data);

// walk.c ----------------------------------------------------------------------------------------------------

// Collects the nodes of the values that these statements store, each once, operands first, without the
// indices of loads. The caller frees *nodes with memory_free. Returns how many there are, or -1 if memory
// runs out.
int pass_nodes(const struct tile_kernel *kernel, const struct tile_stmt *body, expr **nodes);

// Returns whether `is` holds for a node of an expression. Nodes may be visited more than once.
bool pass_any(expr e, bool (*is)(expr e, const void *data), const void *data);
// Returns whether an expression depends on a loop variable.
bool pass_depends(expr e, const struct tile_name *variable);
// Return the first statement for which `is` holds, or of a kind; a statement comes before those in its body.
// NULL: there is none.
const struct tile_stmt *pass_find(const struct tile_stmt *body,
                                  bool (*is)(const struct tile_stmt *s, const void *data), const void *data);
const struct tile_stmt *pass_find_kind(const struct tile_stmt *body, enum tile_stmt_kind kind);

// How an index changes with a loop variable: not at all, by 1, or otherwise.
enum pass_step { PASS_FIXED, PASS_UNIT, PASS_OTHER };
// Returns how an index changes with a loop variable, where that can be seen; else PASS_OTHER.
enum pass_step pass_step_of(expr index, const struct tile_name *variable);

// Calls visit once for each node of the kernel's expressions. Returns false if memory runs out.
bool pass_each_node(struct tile_kernel *kernel, void (*visit)(expr e, void *data), void *data);

// Returns whether each formula of the kernel has few paths from root to leaf. Passes that walk paths skip
// other kernels.
bool pass_is_simple(struct tile_kernel *kernel);

// Returns the dtypes (PASS_BIT) of all values that a kernel computes, reads and writes. After the passes, its
// target must have them.
uint32_t pass_dtypes(struct tile_kernel *kernel);

// Return whether a list of statements with their bodies, one statement with its body, or a formula accesses a
// buffer's memory.
bool pass_uses(const struct tile_stmt *body, const struct tile_buffer *memory);
bool pass_touches(const struct tile_stmt *s, const struct tile_buffer *memory);
bool pass_loads(expr e, const struct tile_buffer *memory);
// Returns whether a statement of the list allocates the buffer.
bool pass_is_made_in(const struct tile_stmt *list, const struct tile_buffer *memory);
// Removes that statement from the list and returns it; NULL: there is none.
struct tile_stmt *pass_take_alloc(struct tile_stmt **list, const struct tile_buffer *memory);
// Returns whether a statement is a map whose body is stores without masks.
bool pass_is_plain_map(const struct tile_stmt *s);

// swap.c ----------------------------------------------------------------------------------------------------

// A substitution: expressions for loop variables, and a formula of an element's indices for loads of one
// buffer.
struct pass_swap {
    int names;
    const struct tile_name *const *name;
    const expr *value; // replaces each name
    const struct tile_buffer *buffer; // whose loads are replaced; NULL: none are
    const struct tile_name *const *axis; // stand for the element's indices in the formula
    expr element; // the formula
};
// Returns the expression after substitution, in the current kernel; NULL if that failed.
expr pass_swap(const struct pass_swap *swap, expr e);
// Replaces all expressions of statements and their bodies by their substitutions. Returns false if one
// failed.
bool pass_swap_in(const struct pass_swap *swap, struct tile_stmt *body);

// bounds.c --------------------------------------------------------------------------------------------------

// The values that an integer can have, both ends included; INT64_MIN and INT64_MAX where nothing is known.
struct pass_range { int64_t low, high; };
// Returns the range of an index, which does not wrap around.
struct pass_range pass_range(expr e);
// Returns the range of any integer, whose ops may wrap around; of other types nothing is known.
struct pass_range pass_certain_range(expr e);
// Returns the value of a constant index that is not negative; -1 if it is not known, or if e is NULL.
int64_t pass_number(expr e);
// Returns the product of such constants; -1 also if it overflows 64 bits.
int64_t pass_product(int count, const expr *e);
// Returns the greatest common divisor; that of a and 0 is a.
int64_t pass_common_divisor(int64_t a, int64_t b);
// Returns a number, at most PASS_DIVISOR_MOST, that divides an integer for all sizes of arguments; 1 where
// nothing is known.
enum { PASS_DIVISOR_MOST = 1 << 20 };
int64_t pass_divisor(expr e);
// Sets the ranges and divisors of loop variables from the bounds of their loops.
void pass_learn(const struct tile_stmt *body);
// Reduces end[i], the number of points of variable i of a map, to those for which a condition holds. Returns
// false if it is anything but `variable < number`, in any spelling, or several of these with `&`, of
// variables whose end is known (not -1); then end may be reduced too far.
bool pass_narrow(const struct tile_stmt *map, expr mask, int64_t *end);

#endif
