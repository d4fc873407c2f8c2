// pass.h - passes: kernel in, kernel out, one file each. pipeline.c is the ordered list.
//
// A pass rewrites the kernel in place, for a target: a record of what its language can spell and what a unit has. Languages have a
// record that fits all units (render_target); a device makes one of it for each of its units. After the last pass every op and cast
// left in the kernel is spelled by the target. A pass never changes the bits that a kernel computes.

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

// How an op is written, on the dtypes (of the operands; of a select, the last two) where it can be. In the
// text %a, %b, %c stand for operands and %t for their type; the renderer's file says what else.
struct spelling {
    uint32_t dtypes;
    const char *text;
    const char *integer; // for integers, where it differs
};

// Of a target whose blocks are groups of threads.
struct target_group {
    int threads, flat_threads; // of a group where a kernel does not say; of one that has a piece of a long map
    int subgroup;              // threads that exchange values by shuffles; 0: none
    int joined;                // subgroups down that multiply as one, where rows of b have 128 bytes; 0: none
    int vector_bytes;          // of one access
    int shared_bytes;          // of a group, that pipelines may fill
    int most_threads;          // that a group can have; 0: not known
    int64_t most_shared;       // bytes of shared memory that a group can have, where most_threads are known
    int cluster;               // groups that write into each other's shared memory, at most; 0: none do
    bool has_async;            // copies to shared memory that run on, and are waited for
    bool is_serial;            // threads run one after the other, on a CPU: each barrier ends a loop over all of them
};

// Of a target whose code is SPIR-V: what the unit's driver says, and what was found by trying.
struct target_spirv {
    bool has_i64, has_f64, has_f16; // arithmetic of these
    bool has_bytes, has_halves;     // elements of 8 and of 16 bits in storage buffers
    bool has_small_bytes, has_small_halves; // and in shared memory: arithmetic of integers of 8 and of 16 bits
    bool has_shared_layout;         // shared memory whose layout a module says, with elements of any size
    bool has_exact_fma, has_exact_divide, has_exact_root; // of f32: rounded once, to the nearest
    bool is_inexact, flushes, fma_flushes; // of f32: sums or products round otherwise, or subnormal numbers become 0; in an fma alone
    // Floats for which it has execution modes that round to the nearest, keep subnormal numbers, keep NaN, infinity and -0.
    uint32_t rounds, keeps_small, keeps_special;
    int push_bytes;    // of push constants, at most
    bool has_addresses; // kernels can reach buffers by addresses
    bool is_far;       // they do, all of them: target.far
    int buffers;       // that a kernel can have by bindings
    uint32_t matrices; // dtypes of which subgroups multiply matrices: target_set_matrices
};

// Of a target whose memory is lanes, and which is given commands on whole tiles: lanes.h.
struct target_lanes {
    int cores;
    int64_t bytes; // of a lane
    int banks;     // that it has; 0: one
};

// What a target can say in its language, and how its loops run.
struct target {
    const char *name; // of the language
    const char *unit; // the model of the unit that has this record; NULL: the record fits all
    uint32_t lacks;   // dtypes that the unit cannot compute with
    bool lacks_wide_atomics; // of words of 64 bits
    const struct spelling *op;     // by enum tile_op
    uint32_t cast[ZL_DTYPE_COUNT]; // [to]: dtypes from which one conversion leads there
    bool is_vector;                // maps over unit-stride data become vector loops
    bool is_program;               // kernels of any statements: tile statements become loops
    const struct target_group *group; // NULL: a block is one thread
    const struct target_spirv *spirv; // NULL: its code is text
    const struct target_lanes *lanes; // NULL: its memory is no lanes
    // Whether it has a unit that multiplies tiles of such types (of a, b and the result); NULL: it has none.
    bool (*multiplies)(zl_dtype a, zl_dtype b, zl_dtype c);
    bool packs; // that unit reads parameters where they lie, rectangles of any length
    // Whether it has a function that reduces elements that lie behind each other; NULL: it has none.
    bool (*reduces)(enum tile_op combine, zl_dtype from, zl_dtype to);
    const struct target *far; // by which kernels are compiled that reach more than so many bytes of one argument; NULL: no others
    uint64_t reach;
};

// The record of a unit. target_set_unit makes it of its language's: the model, which lives as long, and what a group can have at most.
struct target_unit {
    struct target target;
    struct target_group group; // of target
    struct target_spirv spirv; // of target, if its language has one
};
void target_set_unit(struct target_unit *out, const struct target *language, const char *model, int threads, int64_t shared);
// Sets far to a copy of the unit's record, of SPIR-V, whose kernels reach buffers by addresses: those that reach more bytes of one argument.
void target_set_far(struct target_unit *unit, struct target_unit *far, uint64_t reach);

// Says of which dtypes subgroups of 32 threads of a unit of SPIR-V multiply matrices of 16 x 16 elements, with sums of f32 (cooperative
// matrices). Their elements become registers through TARGET_EXCHANGED bytes of shared memory a thread. Those of the first
// TARGET_EXCHANGERS threads are taken from what all groups can have; target_matrix_bytes are those of more. Nothing changes for a
// unit whose shared memory has no layout.
enum { TARGET_EXCHANGED = 32, TARGET_EXCHANGERS = 128 };
void target_set_matrices(struct target_unit *unit, uint32_t dtypes);

// Whether the target spells this node as it stands. Leaves, loads and bit casts always are.
bool target_spells(const struct target *target, expr e);
bool target_spells_op(const struct target *target, enum tile_op op, struct tile_type operand);
bool target_casts(const struct target *target, struct tile_type to, struct tile_type from);
// Bytes from row to row of a tile in shared memory whose rows have so many, where matrix instructions read it.
int64_t target_row_bytes(const struct target *target, int64_t bytes);
int target_stages(const struct target *target, int wanted); // of a pipelined loop that a kernel must have room for
// Of pipelined loops: whether copies run on by themselves, how many stages there can be at most, and bytes of a block for all tiles.
bool target_copies_ahead(const struct target *target);
int target_most_stages(const struct target *target, int wanted);
int64_t target_staged_bytes(const struct target *target);
int target_matrix_threads(const struct target *target); // of a group that multiplies matrices, at most
int64_t target_matrix_bytes(const struct target *target, int threads); // of shared memory that such a group has less than others
// Whether the unit has all dtypes, and atomics, that a kernel uses after its passes. False and an error that says what it lacks.
bool target_has_needs(const struct target *target, struct tile_kernel *kernel);

// pipeline.c ------------------------------------------------------------------------------------------------

// Runs the passes in order, up to the one called `last` (NULL: all). False and an error if one fails. Debug
// builds verify the kernel after each; ZL_DUMP=<pass> prints it, ZL_DUMP=tile what it was at first.
bool pass_run(struct tile_kernel *kernel, const struct target *target, const char *last);
const char *pass_name(int at); // of the at-th pass; NULL past the last

// Prints text to stderr if ZL_DUMP, a list of names with commas, has this stage, or `all`.
bool pass_is_dumped(const char *stage);
void pass_dump(const char *stage, const char *text);
void pass_dump_kernel(const struct tile_kernel *kernel, const char *stage);

typedef bool pass_function(struct tile_kernel *kernel, const struct target *target);
pass_function pass_words, pass_bytes, pass_forward, pass_merge, pass_flat, pass_strips, pass_stages, pass_threads, pass_tiles, pass_split, pass_fuse, pass_carry, pass_lines,
    pass_loops, pass_halves, pass_complex, pass_truth, pass_widen, pass_divide,
    pass_lower, pass_convert, pass_lanes, pass_simplify, pass_vectorise;

// rewrite.c -------------------------------------------------------------------------------------------------

// Replaces every expression of the kernel, operands first. rule gets a node whose operands are replaced
// already and returns what stands for it, or the node itself; what it returns is rewritten again until
// nothing changes.
typedef expr pass_rule(const struct target *target, expr e);
bool pass_rewrite(struct tile_kernel *kernel, const struct target *target, pass_rule *rule);

// Lets `change` change the statements of a kernel in place, where the target packs what it reads and formulas are simple.
bool pass_simple_lists(struct tile_kernel *kernel, const struct target *target,
                       void (*change)(struct tile_kernel *kernel, const struct target *target, struct tile_stmt **list));

// Calls visit for every place of the kernel's statements that holds an expression.
void pass_each_expr(struct tile_stmt *body, void (*visit)(expr *place, void *data), void *data);

// Returns the same op on what `of` gives for each operand, e itself where none of them changes; NULL where one is NULL.
typedef expr pass_replacement(void *data, expr e);
expr pass_rebuild(expr e, pass_replacement *of, void *data);

// emit.c ----------------------------------------------------------------------------------------------------

// Emits statements into the current kernel, with all that is in them. `emit` makes what stands for one and returns true, or
// returns false: the statement stays, and those in it are asked for.
typedef bool pass_emitter(void *data, const struct tile_stmt *s);
void pass_emit(const struct tile_stmt *body, pass_emitter *emit, void *data);
// The same for a kernel whose body is emitted anew. Returns false if that fails.
bool pass_emit_kernel(struct tile_kernel *kernel, pass_emitter *emit, void *data);
// Emits a statement alone, with what `of` gives for its expressions; one that has a body is opened. NULL: it failed.
struct tile_stmt *pass_emit_as(const struct tile_stmt *s, pass_replacement *of, void *data);
// Emits the bodies of a statement that is open, by `block`, and closes it; does nothing where a statement has none.
void pass_emit_bodies(const struct tile_stmt *s, void (*block)(void *data, const struct tile_stmt *body), void *data);

// walk.c ----------------------------------------------------------------------------------------------------

// The nodes that the values stored by these statements are made of, each once, operands first; not
// the indices of loads. The caller frees *nodes with memory_free. How many there are, or -1 when memory is
// out.
int pass_nodes(const struct tile_kernel *kernel, const struct tile_stmt *body, expr **nodes);

// Whether a node of an expression is something; whether an expression depends on a loop variable. Nodes may be visited more than once.
bool pass_any(expr e, bool (*is)(expr e, const void *data), const void *data);
bool pass_depends(expr e, const struct tile_name *variable);
// The first statement that is something, before those in it; NULL: there is none.
const struct tile_stmt *pass_find(const struct tile_stmt *body, bool (*is)(const struct tile_stmt *s, const void *data), const void *data);
const struct tile_stmt *pass_find_kind(const struct tile_stmt *body, enum tile_stmt_kind kind);

// How an index moves with a loop variable.
enum pass_step { PASS_FIXED, PASS_UNIT, PASS_OTHER };
enum pass_step pass_step_of(expr index, const struct tile_name *variable);

// Calls visit once for each node of the kernel's expressions. False: memory is out.
bool pass_each_node(struct tile_kernel *kernel, void (*visit)(expr e, void *data), void *data);

// Whether the paths through each of its formulas are few: passes that walk paths leave others alone.
bool pass_is_simple(struct tile_kernel *kernel);

// The dtypes (PASS_BIT) of all values that a kernel computes, reads and writes: after the passes, what its target has to have.
uint32_t pass_dtypes(struct tile_kernel *kernel);

// Whether statements, with all that is in them, touch a memory; whether one of them does; whether a formula loads it.
bool pass_uses(const struct tile_stmt *body, const struct tile_buffer *memory);
bool pass_touches(const struct tile_stmt *s, const struct tile_buffer *memory);
bool pass_loads(expr e, const struct tile_buffer *memory);
bool pass_is_made_in(const struct tile_stmt *list, const struct tile_buffer *memory); // one of them allocates it
struct tile_stmt *pass_take_alloc(struct tile_stmt **list, const struct tile_buffer *memory); // takes that statement out; NULL: there is none
// A map whose body is stores without masks.
bool pass_is_plain_map(const struct tile_stmt *s);

// swap.c ----------------------------------------------------------------------------------------------------

// Expressions instead of loop variables, and a formula of an element's indices instead of loads of one buffer.
struct pass_swap {
    int names;
    const struct tile_name *const *name;
    const expr *value; // of each name
    const struct tile_buffer *buffer; // NULL: loads stay
    const struct tile_name *const *axis; // in the formula: the element's index along each axis
    expr element;
};
expr pass_swap(const struct pass_swap *swap, expr e); // in the current kernel; NULL when that has failed
bool pass_swap_in(const struct pass_swap *swap, struct tile_stmt *body); // in all expressions of statements

// bounds.c --------------------------------------------------------------------------------------------------

// What an integer can be, both included; INT64_MIN and INT64_MAX where nothing is known.
struct pass_range { int64_t low, high; };
struct pass_range pass_range(expr e); // of an index, which does not wrap around
// The same of any integer, where ops may wrap around; of other types nothing is known.
struct pass_range pass_certain_range(expr e);
int64_t pass_number(expr e); // the number that it is; -1: not known, or e is NULL
int64_t pass_product(int count, const expr *e); // of such numbers; -1 also where 64 bits do not suffice
int64_t pass_common_divisor(int64_t a, int64_t b); // the greatest; of a and 0 it is a
// Returns a number, at most PASS_DIVISOR_MOST, that divides an integer whatever the sizes of arguments are; 1 where nothing is known.
enum { PASS_DIVISOR_MOST = 1 << 20 };
int64_t pass_divisor(expr e);
// Names of loops learn their ranges and divisors from the bounds.
void pass_learn(const struct tile_stmt *body);

#endif
