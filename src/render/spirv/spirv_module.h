// spirv_module.h - writes one module of SPIR-V. Used by the files of render/spirv only.
//
// Types and constants are interned: equal ones have one id. Capabilities are declared where they are needed.
// Code goes to the open function. Functions nest, because helper functions are written where they are first
// called.

#ifndef SPIRV_MODULE_H
#define SPIRV_MODULE_H

#include "base/base.h"

typedef uint32_t spirv_id; // 0: none

enum spirv_word {
#define WORD(name, number, form) SPIRV_##name = number,
#include "render/spirv/spirv_words.def"
};

// Numbers of the specification.
enum spirv_class {
    SPIRV_INPUT = 1,
    SPIRV_SHARED = 4,
    SPIRV_PRIVATE = 7,
    SPIRV_PUSH = 9,
    SPIRV_STORAGE = 12,
    SPIRV_ADDRESSED = 5349
};
enum { SPIRV_DEVICE = 1, SPIRV_GROUP = 2, SPIRV_SUBGROUP = 3, SPIRV_QUEUE = 5 }; // scopes
enum spirv_capability {
    SPIRV_SHADER = 1,
    SPIRV_FLOAT16 = 9,
    SPIRV_FLOAT64 = 10,
    SPIRV_INT64 = 11,
    SPIRV_INT64_ATOMICS = 12,
    SPIRV_INT16 = 22,
    SPIRV_INT8 = 39,
    SPIRV_NON_UNIFORM = 61,
    SPIRV_NON_UNIFORM_SHUFFLE = 65,
    SPIRV_SHARED_LAYOUT = 4428,
    SPIRV_SHARED_LAYOUT_8 = 4429,
    SPIRV_SHARED_LAYOUT_16 = 4430,
    SPIRV_STORAGE_16 = 4433,
    SPIRV_STORAGE_8 = 4448,
    SPIRV_BFLOAT = 5116,
    SPIRV_BFLOAT_MATRIX = 5118,
    SPIRV_VULKAN_MEMORY = 5345,
    SPIRV_ADDRESSES = 5347,
    SPIRV_MATRIX = 6022,
    SPIRV_KEEPS_SMALL = 4464,
    SPIRV_KEEPS_SPECIAL = 4466,
    SPIRV_ROUNDS = 4467,
};
enum spirv_decoration {
    SPIRV_BLOCK = 2,
    SPIRV_STRIDE = 6,
    SPIRV_BUILT_IN = 11,
    SPIRV_ALIASED = 20,
    SPIRV_COHERENT = 23,
    SPIRV_NON_WRITABLE = 24,
    SPIRV_BINDING = 33,
    SPIRV_SET = 34,
    SPIRV_OFFSET = 35,
    SPIRV_NO_CONTRACTION = 42,
};
enum spirv_mode {
    SPIRV_LOCAL_SIZE = 17,
    SPIRV_MODE_SMALL = 4459,
    SPIRV_MODE_SPECIAL = 4461,
    SPIRV_MODE_ROUNDS = 4462
};
enum spirv_glsl { // functions of GLSL.std.450
    SPIRV_ROUND_EVEN = 2,
    SPIRV_TRUNC = 3,
    SPIRV_FLOOR = 8,
    SPIRV_CEIL = 9,
    SPIRV_SQRT = 31,
    SPIRV_FMA = 50,
    SPIRV_FIND_TOP = 75,
};

enum spirv_section {
    SPIRV_CAPABILITIES,
    SPIRV_EXTENSIONS,
    SPIRV_IMPORTS,
    SPIRV_MODEL,
    SPIRV_ENTRIES,
    SPIRV_MODES,
    SPIRV_DECORATIONS,
    SPIRV_TYPES,
    SPIRV_FUNCTIONS,
    SPIRV_SECTIONS,
};

// A function while it is written. Its variables precede its code.
struct spirv_function {
    spirv_id id, type, result;
    struct text parameters, variables, code; // words
    spirv_id first, label;                   // blocks: the first one; the open one, 0: it has ended
    struct spirv_function *outer;
};

struct spirv_module {
    struct text section[SPIRV_SECTIONS]; // words
    struct map interned;
    // ids of variables outside of functions; of shared memory, which belongs to one entry point
    struct text interface, shared;
    spirv_id ids, glsl;
    uint32_t version;
    struct spirv_function *function;
    bool failed;
};

// Begins a module. Cooperative matrices and addresses require Vulkan's memory model, and matrices SPIR-V 1.6.
void spirv_open(struct spirv_module *m, bool has_matrices, bool has_addresses);
// Appends the words of the module and frees it; false, with an error, if something failed.
bool spirv_close(struct spirv_module *m, struct text *out);

// Returns a new id.
spirv_id spirv_new(struct spirv_module *m);
// Declares a capability, once.
void spirv_need(struct spirv_module *m, enum spirv_capability capability);
// Declares an extension, once.
void spirv_extend(struct spirv_module *m, const char *name);
// Appends a decoration of an id with `count` operands: 0, or 1 for the value.
void spirv_decorate(struct spirv_module *m, spirv_id id, enum spirv_decoration how, int count,
                    uint32_t value);
// Appends an instruction to a section.
void spirv_put(struct spirv_module *m, enum spirv_section where, enum spirv_word word, int count,
               const uint32_t *operand);

// Types, constants, variables -------------------------------------------------------------------------------

#define SPIRV_COUNT(...) ((int)(sizeof((spirv_id[]){__VA_ARGS__}) / sizeof(spirv_id)))
#define SPIRV_LIST(...)  SPIRV_COUNT(__VA_ARGS__), ((spirv_id[]){__VA_ARGS__})

// Returns the id of a type or constant with this instruction, which it appends if the module has none. `type`
// is that of a constant; 0 for a type.
spirv_id spirv_intern(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                      const uint32_t *operand);
#define SPIRV_TYPE(m, word, ...) spirv_intern(m, SPIRV_Type##word, 0, SPIRV_LIST(__VA_ARGS__))

// Return, with the capabilities that it needs declared, a type: unsigned integers; IEEE floats; f16 or bf16.
spirv_id spirv_uint(struct spirv_module *m, int bits);
spirv_id spirv_float(struct spirv_module *m, int bits);
spirv_id spirv_half(struct spirv_module *m, bool is_bfloat);
// Returns the type of cooperative matrices of a subgroup with side * side elements of type `of`. The caller
// declares capability and extension.
spirv_id spirv_matrix(struct spirv_module *m, spirv_id of, uint32_t side, uint32_t use);
// Returns the type of a block: an array of `count` elements (0: of any length) of `bytes` bytes each, which
// begins `offset` bytes after the block does.
spirv_id spirv_block(struct spirv_module *m, spirv_id element, int bytes, int count, int offset);
// Returns a constant of a type of up to 64 bits; value has its bits.
spirv_id spirv_constant(struct spirv_module *m, spirv_id type, int bits, uint64_t value);
// Creates a variable outside of functions and returns its id, which is a pointer.
spirv_id spirv_global(struct spirv_module *m, enum spirv_class where, spirv_id type);
// Creates a variable of the open function and returns its id, which is a pointer.
spirv_id spirv_local(struct spirv_module *m, spirv_id type);

// Return a type: bool; a vector.
static inline spirv_id spirv_bool(struct spirv_module *m) {
    return spirv_intern(m, SPIRV_TypeBool, 0, 0, &m->ids);
}
static inline spirv_id spirv_vector(struct spirv_module *m, spirv_id of, int count) {
    return SPIRV_TYPE(m, Vector, of, (uint32_t)count);
}
// Returns the type of two words of 32 bits.
static inline spirv_id spirv_pair(struct spirv_module *m) { return spirv_vector(m, spirv_uint(m, 32), 2); }
// Return a type: a struct of two members of a type; a pointer.
static inline spirv_id spirv_struct_of_two(struct spirv_module *m, spirv_id type) {
    return SPIRV_TYPE(m, Struct, type, type);
}
static inline spirv_id spirv_pointer(struct spirv_module *m, enum spirv_class where, spirv_id to) {
    return SPIRV_TYPE(m, Pointer, where, to);
}
// Returns a constant of 32 bits.
static inline spirv_id spirv_number(struct spirv_module *m, uint32_t value) {
    return spirv_constant(m, spirv_uint(m, 32), 32, value);
}
// Returns the type of an array without a layout.
static inline spirv_id spirv_array(struct spirv_module *m, spirv_id element, int64_t count) {
    return SPIRV_TYPE(m, Array, element, spirv_number(m, (uint32_t)count));
}
// Return a constant: a bool; a vector, array or struct of constants.
static inline spirv_id spirv_truth(struct spirv_module *m, bool value) {
    return spirv_intern(m, value ? SPIRV_ConstantTrue : SPIRV_ConstantFalse, spirv_bool(m), 0, &m->ids);
}
static inline spirv_id spirv_composite(struct spirv_module *m, spirv_id type, int count,
                                       const spirv_id *part) {
    return spirv_intern(m, SPIRV_ConstantComposite, type, count, part);
}

// Code ------------------------------------------------------------------------------------------------------

// Appends an instruction with a result of a type to the open function. Returns the result.
spirv_id spirv_value_list(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                          const spirv_id *operand);
// Appends an instruction without a result to the open function.
void spirv_do_list(struct spirv_module *m, enum spirv_word word, int count, const spirv_id *operand);
// The same, with the operands as arguments.
#define spirv_value(m, word, type, ...) spirv_value_list(m, word, type, SPIRV_LIST(__VA_ARGS__))
#define spirv_do(m, word, ...)          spirv_do_list(m, word, SPIRV_LIST(__VA_ARGS__))
// Forbids that the instruction of a value is contracted with others, as in a fused multiply-add. Returns the
// value.
static inline spirv_id spirv_exact(struct spirv_module *m, spirv_id value) {
    spirv_decorate(m, value, SPIRV_NO_CONTRACTION, 0, 0);
    return value;
}
// Appends a call of a function of GLSL.std.450. Returns its result.
spirv_id spirv_glsl(struct spirv_module *m, enum spirv_glsl which, spirv_id type, int count,
                    const spirv_id *operand);
// Appends a load of a value of a type. Returns the value.
static inline spirv_id spirv_load(struct spirv_module *m, spirv_id type, spirv_id pointer) {
    return spirv_value(m, SPIRV_Load, type, pointer);
}
// Begins a block. The block before branches there unless it has ended.
void spirv_label(struct spirv_module *m, spirv_id label);
// Ends the block with a branch, unless it has ended.
void spirv_branch(struct spirv_module *m, spirv_id label);
// Ends the block with a conditional branch.
void spirv_branch_if(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise);
// Ends the block with a selection: a conditional branch whose two sides meet at the label `merge`, which the
// caller places after them.
void spirv_choose(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise, spirv_id merge);

// Begins a function, inside the open one if there is one, and its first block. `result` is its type (0:
// void), type has those of the parameters, whose ids are stored to `parameter`. The caller keeps f until the
// function is closed.
void spirv_function_open(struct spirv_module *m, struct spirv_function *f, spirv_id result, int parameters,
                         const spirv_id *type, spirv_id *parameter);
// Ends the open function with its result (0: void) and continues the one around it.
void spirv_function_close(struct spirv_module *m, spirv_id result);
// Makes a function an entry point for workgroups of `threads` threads. It refers to all global variables so
// far; of shared variables only to those since the entry point before.
void spirv_entry(struct spirv_module *m, spirv_id function, const char *name, int threads);
// Appends an execution mode of an entry point.
static inline void spirv_mode(struct spirv_module *m, spirv_id function, enum spirv_mode mode, int bits) {
    spirv_put(m, SPIRV_MODES, SPIRV_ExecutionMode, 3, (uint32_t[]){function, mode, (uint32_t)bits});
}

#endif
