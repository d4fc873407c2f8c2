// spirv_module.h - one module of SPIR-V while it is written. Between the files of render/spirv only.
//
// Types and constants are interned: asked for twice they are one. Capabilities are noted where they are
// needed. Code goes to the function that is open; functions nest, as those that help are written where they
// are first called.

#ifndef SPIRV_MODULE_H
#define SPIRV_MODULE_H

#include "base/base.h"

typedef uint32_t spirv_id; // 0: none

enum spirv_word {
#define WORD(name, number, form) SPIRV_##name = number,
#include "render/spirv/spirv_words.def"
};

// Numbers of the standard.
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

// A function while it is written: variables stand before all else of it.
struct spirv_function {
    spirv_id id, type, result;
    struct text parameters, variables, code; // words
    spirv_id first, label;                   // blocks: the first, the one that is open; 0: it has ended
    struct spirv_function *outer;
};

struct spirv_module {
    struct text section[SPIRV_SECTIONS]; // words
    struct map interned;
    // ids of variables outside of functions; of groups' memory, which belongs to one of them
    struct text interface, shared;
    spirv_id ids, glsl;
    uint32_t version;
    struct spirv_function *function;
    bool failed;
};

// Cooperative matrices and addresses want Vulkan's memory model, the former 1.6 too.
void spirv_open(struct spirv_module *m, bool has_matrices, bool has_addresses);
// Appends the words of the module and frees it; false, with an error, if something failed.
bool spirv_close(struct spirv_module *m, struct text *out);

spirv_id spirv_new(struct spirv_module *m);
void spirv_need(struct spirv_module *m, enum spirv_capability capability);
void spirv_extend(struct spirv_module *m, const char *name); // with an extension
void spirv_decorate(struct spirv_module *m, spirv_id id, enum spirv_decoration how, int count,
                    uint32_t value);
void spirv_put(struct spirv_module *m, enum spirv_section where, enum spirv_word word, int count,
               const uint32_t *operand);

// Types, constants, variables -------------------------------------------------------------------------------

#define SPIRV_COUNT(...) ((int)(sizeof((spirv_id[]){__VA_ARGS__}) / sizeof(spirv_id)))
#define SPIRV_LIST(...)  SPIRV_COUNT(__VA_ARGS__), ((spirv_id[]){__VA_ARGS__})

// A type or constant by its instruction; the type of a constant stands before its result, a type has none
// (0).
spirv_id spirv_intern(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                      const uint32_t *operand);
#define SPIRV_TYPE(m, word, ...) spirv_intern(m, SPIRV_Type##word, 0, SPIRV_LIST(__VA_ARGS__))

spirv_id spirv_uint(struct spirv_module *m, int bits);
spirv_id spirv_float(struct spirv_module *m, int bits);
spirv_id spirv_half(struct spirv_module *m, bool is_bfloat); // 16 bits
spirv_id spirv_matrix(struct spirv_module *m, spirv_id of, uint32_t side, uint32_t use);
// An array of elements of so many bytes with a layout, from an offset of a block on; count 0: of any length.
spirv_id spirv_block(struct spirv_module *m, spirv_id element, int bytes, int count, int offset);
spirv_id spirv_constant(struct spirv_module *m, spirv_id type, int bits, uint64_t value);
spirv_id spirv_global(struct spirv_module *m, enum spirv_class where, spirv_id type); // a variable
spirv_id spirv_local(struct spirv_module *m, spirv_id type); // a variable of the function

static inline spirv_id spirv_bool(struct spirv_module *m) {
    return spirv_intern(m, SPIRV_TypeBool, 0, 0, &m->ids);
}
static inline spirv_id spirv_vector(struct spirv_module *m, spirv_id of, int count) {
    return SPIRV_TYPE(m, Vector, of, (uint32_t)count);
}
// two words of 32 bits
static inline spirv_id spirv_pair(struct spirv_module *m) { return spirv_vector(m, spirv_uint(m, 32), 2); }
static inline spirv_id spirv_struct_of_two(struct spirv_module *m, spirv_id type) {
    return SPIRV_TYPE(m, Struct, type, type);
}
static inline spirv_id spirv_pointer(struct spirv_module *m, enum spirv_class where, spirv_id to) {
    return SPIRV_TYPE(m, Pointer, where, to);
}
static inline spirv_id spirv_number(struct spirv_module *m, uint32_t value) { // of 32 bits
    return spirv_constant(m, spirv_uint(m, 32), 32, value);
}
// without a layout
static inline spirv_id spirv_array(struct spirv_module *m, spirv_id element, int64_t count) {
    return SPIRV_TYPE(m, Array, element, spirv_number(m, (uint32_t)count));
}
static inline spirv_id spirv_truth(struct spirv_module *m, bool value) {
    return spirv_intern(m, value ? SPIRV_ConstantTrue : SPIRV_ConstantFalse, spirv_bool(m), 0, &m->ids);
}
static inline spirv_id spirv_composite(struct spirv_module *m, spirv_id type, int count,
                                       const spirv_id *part) {
    return spirv_intern(m, SPIRV_ConstantComposite, type, count, part);
}

// Code ------------------------------------------------------------------------------------------------------

spirv_id spirv_value_list(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                          const spirv_id *operand);
void spirv_do_list(struct spirv_module *m, enum spirv_word word, int count, const spirv_id *operand);
// An instruction that gives a value; one that gives none.
#define spirv_value(m, word, type, ...) spirv_value_list(m, word, type, SPIRV_LIST(__VA_ARGS__))
#define spirv_do(m, word, ...)          spirv_do_list(m, word, SPIRV_LIST(__VA_ARGS__))
// that is not contracted with others; itself
static inline spirv_id spirv_exact(struct spirv_module *m, spirv_id value) {
    spirv_decorate(m, value, SPIRV_NO_CONTRACTION, 0, 0);
    return value;
}
spirv_id spirv_glsl(struct spirv_module *m, enum spirv_glsl which, spirv_id type, int count,
                    const spirv_id *operand);
static inline spirv_id spirv_load(struct spirv_module *m, spirv_id type, spirv_id pointer) {
    return spirv_value(m, SPIRV_Load, type, pointer);
}
// opens a block; the one before branches there unless it has ended
void spirv_label(struct spirv_module *m, spirv_id label);
void spirv_branch(struct spirv_module *m, spirv_id label);
void spirv_branch_if(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise);
// The same where `behind` is where both meet again; its label is to follow.
void spirv_choose(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise, spirv_id behind);

void spirv_function_open(struct spirv_module *m, struct spirv_function *f, spirv_id result, int parameters,
                         const spirv_id *type, spirv_id *parameter); // result 0: void
void spirv_function_close(struct spirv_module *m, spirv_id result); // 0: void
void spirv_entry(struct spirv_module *m, spirv_id function, const char *name, int threads);
static inline void spirv_mode(struct spirv_module *m, spirv_id function, enum spirv_mode mode, int bits) {
    spirv_put(m, SPIRV_MODES, SPIRV_ExecutionMode, 3, (uint32_t[]){function, mode, (uint32_t)bits});
}

#endif
