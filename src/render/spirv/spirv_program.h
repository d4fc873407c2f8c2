// spirv_program.h - the state while a kernel is written as SPIR-V. Used by the files of render/spirv only.
//
// Values: bool is a bool. Integers of up to 32 bits are words of 32 bits that hold the number, extended by
// its sign or by zeros; 16-bit floats are words that hold their bits. i64 and u64 are words of 64 bits, or
// pairs of 32 if the unit has none. f32 and f64 are floats. Complex numbers are pairs of expressions
// (pass_complex).
//
// Memory holds unsigned integers, whatever the type of its elements: views, atomics and vectors of it are
// then accesses of another size.

#ifndef SPIRV_PROGRAM_H
#define SPIRV_PROGRAM_H

#include "render/spirv/spirv.h"
#include "render/spirv/spirv_module.h"

enum { SPIRV_VECTOR = 4 };     // most words of one access
enum { SPIRV_SIZES = 6 };      // sizes of elements: 1, 2, 4, 8, 16 bytes, and 8 for atomics
enum { SPIRV_WIDE_ATOMIC = 5 };

// The memory of a parameter or of an allocation, which its views share.
struct spirv_memory {
    bool is_known;       // the members below are set
    bool has_sizes;      // it has a variable per size of access
    int64_t at;          // its offset in the group's memory, if that has sizes
    enum spirv_class where;
    int binding;         // of a storage buffer
    int piece;           // bytes per element of the variable; storage buffers have variables of all sizes
    bool is_packed;      // elements are parts of words, which are written by atomics
    spirv_id *sum;       // of sums of products: the cooperative matrices that hold them while is_open
    bool is_open;
    bool has_elements;   // it is accessed by elements, not only by vectors
    bool is_read, is_written, has_atomics, has_small_atomics, has_wide_atomics;
    int64_t bytes;       // of memory of a group or a thread
    spirv_id variable[SPIRV_SIZES]; // by log2 of the size
};

struct spirv_node {
    int seen;  // stamp of the last statement that computed it
    int depth; // of the branch that computed it
    spirv_id id;
};

enum spirv_helper {
    SPIRV_HELP_FMA,
    SPIRV_HELP_FMA_IN_F64,
    SPIRV_HELP_WIDE_FMA,
    SPIRV_HELP_FROM_HALF,
    SPIRV_HELP_TO_HALF,
    SPIRV_HELP_TO_BRAIN,
    SPIRV_HELP_QUOTIENT,
    SPIRV_HELP_DIVIDE,
    SPIRV_HELP_WIDE_DIVIDE,
    SPIRV_HELP_PAIR_DIVIDE,
    SPIRV_HELPERS,
};

enum spirv_built_in { SPIRV_GROUP_NUMBER, SPIRV_THREAD, SPIRV_LANE, SPIRV_BUILT_INS };

struct spirv_program {
    struct spirv_module m;
    struct arena arena; // for the arrays below
    const struct tile_kernel *kernel;
    const struct target *target;
    const struct target_spirv *unit;
    struct spirv_layout layout;
    const struct tile_stmt *at; // for messages
    struct spirv_node *node;    // by id of expression
    int stamp, depth;
    spirv_id *value, *variable; // by id of name: its value, or the variable that holds it
    spirv_id *stride;           // by id of buffer and axis, if it is not a constant
    struct spirv_memory *memory; // by id of buffer
    spirv_id *before;            // by binding: bytes before the argument, or the argument's address
    spirv_id block;              // the variable with all other arguments
    spirv_id built_in[SPIRV_BUILT_INS]; // variables
    spirv_id thread, lane;       // numbers of the thread in its group and subgroup
    spirv_id loop_merge;         // the label to which a break goes
    spirv_id helper[SPIRV_HELPERS]; // functions
    int64_t shared;                 // bytes of the group's memory that were declared so far
    struct spirv_memory exchange;   // memory of the group through which matrices become registers
    int threads;                    // per group
    bool has_barriers;
    bool is_vulkan;                 // the module has Vulkan's memory model
    bool is_plain;                  // ops are the unit's own, whatever their rounding
    bool failed;
};

// Return a value of 32 bits: a constant; an op of two words; a comparison of two values, which is a bool; an
// op and a comparison with a constant as the second operand; the negation of a bool.
static inline spirv_id spirv_u32(struct spirv_program *p, uint32_t value) {
    return spirv_number(&p->m, value);
}
static inline spirv_id spirv_op(struct spirv_program *p, enum spirv_word how, spirv_id a, spirv_id b) {
    return spirv_value(&p->m, how, spirv_uint(&p->m, 32), a, b);
}
static inline spirv_id spirv_test(struct spirv_program *p, enum spirv_word how, spirv_id a, spirv_id b) {
    return spirv_value(&p->m, how, spirv_bool(&p->m), a, b);
}
static inline spirv_id spirv_op_by(struct spirv_program *p, enum spirv_word how, spirv_id a,
                                   uint32_t number) {
    return spirv_op(p, how, a, spirv_u32(p, number));
}
static inline spirv_id spirv_test_by(struct spirv_program *p, enum spirv_word how, spirv_id a,
                                     uint32_t number) {
    return spirv_test(p, how, a, spirv_u32(p, number));
}
static inline spirv_id spirv_not(struct spirv_program *p, spirv_id truth) {
    return spirv_value(&p->m, SPIRV_LogicalNot, spirv_bool(&p->m), truth);
}

// Return a pair of words; one word of a vector or of a struct of words; the bits of a value as another type.
static inline spirv_id spirv_join(struct spirv_program *p, spirv_id low, spirv_id high) {
    return spirv_value(&p->m, SPIRV_CompositeConstruct, spirv_pair(&p->m), low, high);
}
static inline spirv_id spirv_part(struct spirv_program *p, spirv_id of, uint32_t which) {
    return spirv_value(&p->m, SPIRV_CompositeExtract, spirv_uint(&p->m, 32), of, which);
}
static inline spirv_id spirv_as(struct spirv_program *p, spirv_id type, spirv_id value) {
    return spirv_value(&p->m, SPIRV_Bitcast, type, value);
}

// Sets p->failed and, for the first failure, the error: `why`, then `what`, at the current statement. Returns
// false.
bool spirv_fail(struct spirv_program *p, const char *why, const char *what);

// spirv_values.c: expressions -------------------------------------------------------------------------------

// Returns the type that values of a tile type have in the module.
spirv_id spirv_type(struct spirv_program *p, struct tile_type type);
// Return one of two values, or of two numbers, by a bool.
static inline spirv_id spirv_pick(struct spirv_program *p, struct tile_type type, spirv_id truth, spirv_id a,
                                  spirv_id b) {
    return spirv_value(&p->m, SPIRV_Select, spirv_type(p, type), truth, a, b);
}
static inline spirv_id spirv_pick_number(struct spirv_program *p, spirv_id truth, uint32_t a, uint32_t b) {
    spirv_id first = spirv_u32(p, a), second = spirv_u32(p, b);
    return spirv_pick(p, (struct tile_type){TILE_UINT, 32, 1}, truth, first, second);
}
// Computes values, operands first, each once; then spirv_of returns them.
void spirv_nodes(struct spirv_program *p, int count, const expr *root);
// Returns the value of a constant, or of an expression that spirv_nodes computed.
spirv_id spirv_of(struct spirv_program *p, expr e);
// Returns the value of an index as one of an unsigned type, of 32 or 64 bits.
spirv_id spirv_index_as(struct spirv_program *p, struct tile_type type, expr e);
// Returns the value of an index as a word of 32 bits.
static inline spirv_id spirv_index(struct spirv_program *p, expr e) {
    return spirv_index_as(p, (struct tile_type){TILE_UINT, 32, 1}, e);
}
// Computes an op of two values of a type as an expression would; of 16-bit floats in f32. Returns the result,
// of the same type, or a bool for a comparison.
spirv_id spirv_combine(struct spirv_program *p, enum tile_op op, struct tile_type type, spirv_id a,
                       spirv_id b);
// Converts bits as they are in memory (a word, or two for 8 bytes) to a value. Returns the value.
spirv_id spirv_from_bits(struct spirv_program *p, struct tile_type type, spirv_id bits);
// Converts a value to bits as they are in memory. Returns the bits.
spirv_id spirv_to_bits(struct spirv_program *p, struct tile_type type, spirv_id value);

// spirv_numbers.c: one op -----------------------------------------------------------------------------------

// Returns the constant of a type with these bits.
spirv_id spirv_constant_of(struct spirv_program *p, struct tile_type type, uint64_t bits);
// Returns a constant of a floating-point type.
spirv_id spirv_real(struct spirv_program *p, struct tile_type type, double value);
// Computes the op of e on the values of its operands. Returns the result.
spirv_id spirv_operation(struct spirv_program *p, expr e, const spirv_id *operand);
// Converts a value between types. Returns the result: x itself if the types are equal.
spirv_id spirv_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x);
// Reduces a word to the bits of an integer type, extended by its sign or zeros. Returns the result.
spirv_id spirv_narrow(struct spirv_program *p, struct tile_type type, spirv_id word);
// Widens a word to a pair: by its sign if the type is signed, else by zeros. Returns the pair.
spirv_id spirv_extend_word(struct spirv_program *p, struct tile_type from, spirv_id word);

// Calls a helper function, which is written where it is first called. Returns its result.
spirv_id spirv_call(struct spirv_program *p, enum spirv_helper which, const spirv_id *operand);
// Writes the body of a helper function with the parameters x. Returns its result.
typedef spirv_id spirv_body(struct spirv_program *p, struct tile_type type, const spirv_id *x);

// spirv_wide.c: integers of 64 bits as pairs ----------------------------------------------------------------

// Returns whether values of a type are pairs of words: integers of 64 bits, where the unit has none.
bool spirv_is_pair(const struct spirv_program *p, struct tile_type type);
// Computes the op of e on pairs. Returns the result.
spirv_id spirv_wide_operation(struct spirv_program *p, expr e, const spirv_id *operand);
// Converts a value to or from a pair. Returns the result.
spirv_id spirv_wide_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x);
spirv_body spirv_pair_divide; // divides unsigned pairs; a quotient by 0 is 0

// spirv_memory.c --------------------------------------------------------------------------------------------

// Finds how the kernel uses its memory, fills p->memory with it, and numbers the bindings.
void spirv_find_memory(struct spirv_program *p);
// Declares the bindings that no code uses: devices count on all of them.
void spirv_bind_rest(struct spirv_program *p);
// Declares memory of a thread. Fails if its size is not a constant of at most 4 MiB.
void spirv_alloc(struct spirv_program *p, const struct tile_buffer *b);
// Returns the scope of atomics on this memory.
spirv_id spirv_scope(struct spirv_program *p, const struct spirv_memory *m);
// Returns whether threads read what other threads wrote to this memory.
bool spirv_is_exchanged(const struct spirv_program *p, const struct spirv_memory *m);
// Returns the bytes that one access moves: those of an element, or of one part of a complex number.
int spirv_item(const struct tile_buffer *b);
// Returns the type of places in a buffer: 32 bits, which wrap, or as wide as the kernel's indices if the
// buffer is reached by an address.
struct tile_type spirv_place_type(struct spirv_program *p, const struct tile_buffer *b);
// Returns the place of an element: the number of elements before it. part is -1, or 0 or 1 for the place of
// the real or imaginary part of a complex number, counted in parts.
spirv_id spirv_place(struct spirv_program *p, const struct tile_buffer *b, const expr *index, int part);
// Returns the bits of an element. Where the mask is false (0: no mask) they are those of the first element.
spirv_id spirv_read(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id mask);
// Stores the bits of an element.
void spirv_write(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id bits);
// Reads `bytes` bytes of contiguous elements as words.
void spirv_read_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                      spirv_id *word);
// Writes `bytes` bytes of contiguous elements from words.
void spirv_write_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                       const spirv_id *word);
// Returns a pointer to a pack of `elements` elements in shared memory; `place` counts packs.
spirv_id spirv_pack_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                            int elements);
// Returns a pointer to an element of p->exchange of `bytes` bytes; `place` counts such elements.
spirv_id spirv_exchange_pointer(struct spirv_program *p, spirv_id place, int bytes);
// Returns a pointer for atomics to an element, or to the word that it is part of. Sets *shift to the number
// of its first bit in that word; to 0, which is no id, if it is no part of one.
spirv_id spirv_atomic_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                              spirv_id *shift);
// Returns `bytes` bytes (1 to 4) of a word, from bit `shift` on.
spirv_id spirv_part_of_word(struct spirv_program *p, spirv_id word, spirv_id shift, int bytes);
// Returns a word of the block of arguments.
spirv_id spirv_argument(struct spirv_program *p, spirv_id word);
// Returns the value of a type that begins at byte `at` of the block of arguments.
spirv_id spirv_argument_value(struct spirv_program *p, struct tile_type type, int at);
// Returns a pointer to the word that receives the line of a failed assertion.
spirv_id spirv_status(struct spirv_program *p);

// spirv_matrix.c --------------------------------------------------------------------------------------------

enum { SPIRV_SUMS = 4 };
// Writes a product by cooperative matrices, after the nodes of its statement.
void spirv_gemm(struct spirv_program *p, const struct tile_stmt *s);
// Writes a barrier of a scope: the threads of the group or subgroup wait for each other.
void spirv_meet(struct spirv_program *p, uint32_t scope);
// Loads the sums that only products of a loop use into cooperative matrices, before the loop. Fills buffer
// with them and returns how many there are, SPIRV_SUMS at most.
int spirv_open_sums(struct spirv_program *p, const struct tile_stmt *loop, const struct tile_buffer **buffer);
// Stores these sums to registers again, after the loop.
void spirv_close_sums(struct spirv_program *p, int count, const struct tile_buffer *const *buffer);

// spirv_statements.c ----------------------------------------------------------------------------------------

// Writes statements, up to a break or a failure.
void spirv_block_of(struct spirv_program *p, const struct tile_stmt *body);
// The labels of a loop. Its test has a block of its own; then come its body and, after the label `next`, the
// code that leads to the next iteration.
struct spirv_loop {
    spirv_id head, test, body, next, merge, outer; // outer: the label to which breaks went before
};
// Begins a loop and its test. A break inside it goes to `merge`.
struct spirv_loop spirv_open_loop(struct spirv_program *p, bool is_unrolled);
// Ends the test and begins the body, which runs while goes_on is true.
void spirv_test_loop(struct spirv_program *p, const struct spirv_loop *l, spirv_id goes_on);
// Ends the iteration and the loop.
void spirv_close_loop(struct spirv_program *p, const struct spirv_loop *l);

#endif
