// spirv_program.h - a kernel while it is written as SPIR-V. Between the files of render/spirv only.
//
// Values. bool is a bool. Integers of up to 32 bits are words of 32 bits that hold the number, with its sign
// or zeros before it; 16-bit floats are words that hold their bits. i64 and u64 are words of 64 bits, or
// pairs of 32 where the unit has none. f32 and f64 are floats. Complex numbers are pairs of expressions
// (pass_complex).
//
// Memory holds unsigned integers, whatever its elements are: views, atomics and vectors of it are then
// accesses of another size.

#ifndef SPIRV_PROGRAM_H
#define SPIRV_PROGRAM_H

#include "render/spirv/spirv.h"
#include "render/spirv/spirv_module.h"

enum { SPIRV_VECTOR = 4 };     // words of one access, at most
enum { SPIRV_SIZES = 6 };      // of elements: 1, 2, 4, 8, 16 bytes, and 8 for atomics
enum { SPIRV_WIDE_ATOMIC = 5 };

// Of a parameter, or of what a statement allocates; views are accesses to it.
struct spirv_memory {
    bool is_known;       // all below is
    bool has_sizes;      // it has a variable for each size of access
    int64_t at;          // where it begins in all of the group's memory, if that has sizes
    enum spirv_class where;
    int binding;         // of storage
    int piece;           // bytes of an element of the variable; of storage there are variables of all sizes
    bool is_packed;      // pieces are parts of words, which are written by atomics
    spirv_id *sum;       // of sums of products: cooperative matrices, which hold them while is_open
    bool is_open;
    bool has_elements;   // not only vectors of it are accessed
    bool is_read, is_written, has_atomics, has_small_atomics, has_wide_atomics;
    int64_t bytes;       // of memory of a group or thread
    spirv_id variable[SPIRV_SIZES]; // by log2 of the size
};

struct spirv_node {
    int seen;  // the statement that it was computed for
    int depth; // of the branch where it was
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
    struct arena arena; // of what follows
    const struct tile_kernel *kernel;
    const struct target *target;
    const struct target_spirv *unit;
    struct spirv_layout layout;
    const struct tile_stmt *at; // for messages
    struct spirv_node *node;    // by id of expression
    int stamp, depth;
    spirv_id *value, *variable; // by id of name: its value; the variable that has it
    spirv_id *stride;           // by id of buffer and axis, where it is no number
    struct spirv_memory *memory; // by id of buffer
    spirv_id *before;            // by binding: bytes before the argument, or its address
    spirv_id block;              // the variable of all other arguments
    spirv_id built_in[SPIRV_BUILT_INS]; // variables
    spirv_id thread, lane;       // numbers of the thread in its group and subgroup
    spirv_id behind_loop;        // where a break goes
    spirv_id helper[SPIRV_HELPERS]; // functions
    int64_t shared;                 // bytes of the group's memory so far
    struct spirv_memory exchange;   // of the group: through which matrices become registers
    int threads;                    // of a group
    bool has_barriers;
    bool is_vulkan;                 // memory is that of Vulkan's model
    bool is_plain;                  // ops are the unit's own, however they round
    bool failed;
};

// A number; an op of two words, a comparison or another truth of two values, and both with a number for the
// second.
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

// A pair of words, one of a vector or struct of them, and the bits of another value.
static inline spirv_id spirv_join(struct spirv_program *p, spirv_id low, spirv_id high) {
    return spirv_value(&p->m, SPIRV_CompositeConstruct, spirv_pair(&p->m), low, high);
}
static inline spirv_id spirv_part(struct spirv_program *p, spirv_id of, uint32_t which) {
    return spirv_value(&p->m, SPIRV_CompositeExtract, spirv_uint(&p->m, 32), of, which);
}
static inline spirv_id spirv_as(struct spirv_program *p, spirv_id type, spirv_id value) {
    return spirv_value(&p->m, SPIRV_Bitcast, type, value);
}

// false, and an error at the statement
bool spirv_fail(struct spirv_program *p, const char *why, const char *what);

// spirv_values.c: expressions -------------------------------------------------------------------------------

spirv_id spirv_type(struct spirv_program *p, struct tile_type type); // of values
// One of two values, of two numbers.
static inline spirv_id spirv_pick(struct spirv_program *p, struct tile_type type, spirv_id truth, spirv_id a,
                                  spirv_id b) {
    return spirv_value(&p->m, SPIRV_Select, spirv_type(p, type), truth, a, b);
}
static inline spirv_id spirv_pick_number(struct spirv_program *p, spirv_id truth, uint32_t a, uint32_t b) {
    spirv_id first = spirv_u32(p, a), second = spirv_u32(p, b);
    return spirv_pick(p, (struct tile_type){TILE_UINT, 32, 1}, truth, first, second);
}
// Computes values, operands first, each once; then spirv_of gives them.
void spirv_nodes(struct spirv_program *p, int count, const expr *root);
spirv_id spirv_of(struct spirv_program *p, expr e);
spirv_id spirv_index_as(struct spirv_program *p, struct tile_type type, expr e); // of unsigned integers
static inline spirv_id spirv_index(struct spirv_program *p, expr e) { // as a word of 32 bits
    return spirv_index_as(p, (struct tile_type){TILE_UINT, 32, 1}, e);
}
spirv_id spirv_combine(struct spirv_program *p, enum tile_op op, struct tile_type type, spirv_id a,
                       spirv_id b);
// Bits as memory has them, a word or for 8 bytes two, as a value, and the other way round.
spirv_id spirv_from_bits(struct spirv_program *p, struct tile_type type, spirv_id bits);
spirv_id spirv_to_bits(struct spirv_program *p, struct tile_type type, spirv_id value);

// spirv_numbers.c: one op -----------------------------------------------------------------------------------

spirv_id spirv_constant_of(struct spirv_program *p, struct tile_type type, uint64_t bits);
// a constant of a type of floats
spirv_id spirv_real(struct spirv_program *p, struct tile_type type, double value);
spirv_id spirv_operation(struct spirv_program *p, expr e, const spirv_id *operand);
spirv_id spirv_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x);
spirv_id spirv_narrow(struct spirv_program *p, struct tile_type type, spirv_id word); // what fits of a word
// a pair: with its sign, or zeros
spirv_id spirv_extend_word(struct spirv_program *p, struct tile_type from, spirv_id word);

// Calls a function that helps. It is written where it is first called.
spirv_id spirv_call(struct spirv_program *p, enum spirv_helper which, const spirv_id *operand);
// what one gives of its parameters
typedef spirv_id spirv_body(struct spirv_program *p, struct tile_type type, const spirv_id *x);

// spirv_wide.c: integers of 64 bits as pairs ----------------------------------------------------------------

bool spirv_is_pair(const struct spirv_program *p, struct tile_type type);
spirv_id spirv_wide_operation(struct spirv_program *p, expr e, const spirv_id *operand);
spirv_id spirv_wide_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x);
spirv_body spirv_pair_divide; // without signs; by 0 it is 0

// spirv_memory.c --------------------------------------------------------------------------------------------

void spirv_find_memory(struct spirv_program *p); // of the whole kernel
void spirv_bind_rest(struct spirv_program *p); // declares bindings that no code touched: devices count them
void spirv_alloc(struct spirv_program *p, const struct tile_buffer *b); // of a thread
spirv_id spirv_scope(struct spirv_program *p, const struct spirv_memory *m); // of atomics
// threads see what others wrote
bool spirv_is_exchanged(const struct spirv_program *p, const struct spirv_memory *m);
int spirv_item(const struct tile_buffer *b); // bytes of what one access moves: of a complex number half
// Where an element is, from the first on: modulo 2^32, but in memory that is reached by an address as wide as
// indices of the kernel are.
struct tile_type spirv_place_type(struct spirv_program *p, const struct tile_buffer *b);
spirv_id spirv_place(struct spirv_program *p, const struct tile_buffer *b, const expr *index, int part);
// bits; mask 0: none
spirv_id spirv_read(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id mask);
void spirv_write(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id bits);
// The same of several elements that are contiguous, as words.
void spirv_read_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                      spirv_id *word);
void spirv_write_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                       const spirv_id *word);
// To packs of so many elements of memory of the group whose layout is ours, from one on, which is counted in
// packs.
spirv_id spirv_pack_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                            int elements);
// To an element of `exchange`, of so many bytes.
spirv_id spirv_exchange_pointer(struct spirv_program *p, spirv_id place, int bytes);
// The word that an element is, or is part of: shift 0 unless it is smaller.
spirv_id spirv_atomic_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                              spirv_id *shift);
// the lowest bytes above a shift
spirv_id spirv_part_of_word(struct spirv_program *p, spirv_id word, spirv_id shift, int bytes);
spirv_id spirv_argument(struct spirv_program *p, spirv_id word); // a word of the block
// at this place of the block
spirv_id spirv_argument_value(struct spirv_program *p, struct tile_type type, int at);
spirv_id spirv_status(struct spirv_program *p); // pointer to the word of assertions

// spirv_matrix.c: a product by cooperative matrices, after the nodes of its statement. Around a loop, sums
// that its products alone touch are opened: they become matrices before it and registers behind it. Returns
// how many of them there are, in buffer.
enum { SPIRV_SUMS = 4 };
void spirv_gemm(struct spirv_program *p, const struct tile_stmt *s);
// threads of the group or subgroup wait for each other
void spirv_meet(struct spirv_program *p, uint32_t scope);
int spirv_open_sums(struct spirv_program *p, const struct tile_stmt *loop, const struct tile_buffer **buffer);
void spirv_close_sums(struct spirv_program *p, int count, const struct tile_buffer *const *buffer);

// spirv_statements.c ----------------------------------------------------------------------------------------

void spirv_block_of(struct spirv_program *p, const struct tile_stmt *body);
// A loop: its test stands in a block of its own, then its body, then, behind the label `next`, what leads to
// the next turn.
struct spirv_loop {
    spirv_id head, test, body, next, behind, outer; // outer: where breaks went before
};
struct spirv_loop spirv_open_loop(struct spirv_program *p, bool is_unrolled);
void spirv_test_loop(struct spirv_program *p, const struct spirv_loop *l, spirv_id goes_on);
void spirv_close_loop(struct spirv_program *p, const struct spirv_loop *l);

#endif
