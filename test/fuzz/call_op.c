// call_op.c - finds a function among this program's own symbols, and calls it with arguments passed as the
// ABI requires.
//
// Both ABIs that we build for pass integers and pointers in one set of registers and doubles in another; a
// pair of words, such as a zl_shape, takes two registers or none. Arguments without a register are passed on
// the stack, word by word.

#include "fuzz/call_op.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Symbols ---------------------------------------------------------------------------------------------------

static const Elf64_Ehdr *own_file(void) {
    static const Elf64_Ehdr *file;
    struct stat info;
    int fd = file ? -1 : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file;
    if (fstat(fd, &info) == 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        file = data == MAP_FAILED ? NULL : data;
    }
    close(fd);
    return file;
}

// Returns the value of a function's symbol, which is its address relative to where the program was loaded; 0
// if there is none.
static uintptr_t symbol_value(const char *name) {
    const Elf64_Ehdr *file = own_file();
    if (!file)
        return 0;
    const char *base = (const char *)file;
    const Elf64_Shdr *section = (const void *)(base + file->e_shoff);
    for (int i = 0; i < file->e_shnum; i++) {
        if (section[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbol = (const void *)(base + section[i].sh_offset);
        const char *text = base + section[section[i].sh_link].sh_offset;
        for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++)
            if (ELF64_ST_TYPE(symbol[k].st_info) == STT_FUNC && symbol[k].st_value &&
                !strcmp(text + symbol[k].st_name, name))
                return symbol[k].st_value;
    }
    return 0;
}

op_function *op_address(const char *name) {
    uintptr_t known = symbol_value("zl_add"), wanted = symbol_value(name);
    return known && wanted ? (op_function *)((uintptr_t)zl_add - known + wanted) : NULL;
}

// Arguments -------------------------------------------------------------------------------------------------

bool op_argument_none(const zl_param *param, union op_argument *out) {
    bool is_none = param->fallback && !strcmp(param->fallback, "None");
    if (!is_none && param->type != ZL_PARAM_OPTIONAL)
        return false;
    switch (param->type) {
    case ZL_PARAM_INT: out->number = INT_MIN; return true;
    case ZL_PARAM_INT64: out->wide = INT64_MIN; return true;
    case ZL_PARAM_DOUBLE: out->real = NAN; return true;
    case ZL_PARAM_DTYPE: out->number = ZL_DTYPE_COUNT; return true;
    case ZL_PARAM_SHAPE: out->shape = ZL_NO_SHAPE; return true;
    case ZL_PARAM_AXES: out->axes = ZL_ALL; return true;
    case ZL_PARAM_OPTIONAL: out->array = NULL; return true;
    case ZL_PARAM_STRING: out->string = NULL; return true;
    default: return false;
    }
}

static zl_array quantized_array(const zl_op_info *op, const char *name) {
    bool packs = !strcmp(op->name, "zl_quantize");
    if (!strcmp(op->name, "zl_from_fp8"))
        return zl_full(ZL_SHAPE(2, 3), zl_scalar_int(7), ZL_UINT8);
    if (!strcmp(name, "x") || (packs && !strcmp(name, "w")))
        return zl_full(ZL_SHAPE(2, 64), zl_scalar(0.5), ZL_FLOAT32);
    if (!strcmp(name, "w"))
        return zl_full(ZL_SHAPE(4, 8), zl_scalar_int(0x1234567), ZL_UINT32);
    bool bytes = strstr(op->name, "qqmm");
    return bytes ? zl_full(ZL_SHAPE(4, 4), zl_scalar_int(56), ZL_UINT8)
                 : zl_full(ZL_SHAPE(4, 1), zl_scalar(0.25), ZL_FLOAT32);
}

static bool choose_quantized(const zl_op_info *op, const zl_param *param, union op_argument *out) {
    bool is_array =
        param->type == ZL_PARAM_ARRAY || !strcmp(param->name, "scales") || !strcmp(param->name, "biases");
    if (is_array)
        out->array = quantized_array(op, param->name);
    else if (param->type == ZL_PARAM_BOOL)
        out->number = 1;
    else if (param->type == ZL_PARAM_STRING)
        out->string = NULL;
    else if (!op_argument_none(param, out))
        out->number = ZL_FLOAT32;
    return true;
}

extern const struct op_fitting *const __start_op_fittings[],
    *const __stop_op_fittings[]; // made by the linker

bool op_argument_fitting(const zl_op_info *op, const zl_param *param, union op_argument *out) {
    if (!strcmp(op->family, "quantized") && param->type != ZL_PARAM_OUTPUT)
        return choose_quantized(op, param, out);
    for (const struct op_fitting *const *f = __start_op_fittings; f < __stop_op_fittings; f++)
        if (!strcmp((*f)->op, op->name) && !strcmp((*f)->param, param->name)) {
            if (param->type == ZL_PARAM_STRING)
                out->string = (*f)->word;
            else
                out->array = (*f)->dtype == ZL_DTYPE_COUNT
                                 ? NULL
                                 : zl_zeros((zl_shape){(*f)->dim, (*f)->ndim}, (*f)->dtype);
            return true;
        }
    return false;
}

// Calls -----------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
enum { REGISTERS = 6, LATER_FIT = true }; // a word may take a register that was left over when a pair did not
                                          // fit
#else
enum { REGISTERS = 8, LATER_FIT = false };
#endif
enum { STACK = 18, DOUBLES = 8 };

struct frame {
    uintptr_t word[REGISTERS], stack[STACK];
    double real[DOUBLES];
    int words, stacked, reals;
};

static void add_words(struct frame *f, int count, uintptr_t first, uintptr_t second) {
    bool fits = f->words + count <= REGISTERS;
    uintptr_t *to = fits ? f->word + f->words : f->stack + f->stacked;
    to[0] = first;
    if (count == 2)
        to[1] = second;
    *(fits ? &f->words : &f->stacked) += count;
    if (!fits && !LATER_FIT)
        f->words = REGISTERS;
}

static void add_argument(struct frame *f, zl_param_type type, const union op_argument *a) {
    switch (type) {
    case ZL_PARAM_ARRAY:
    case ZL_PARAM_OPTIONAL: add_words(f, 1, (uintptr_t)a->array, 0); break;
    case ZL_PARAM_STRING: add_words(f, 1, (uintptr_t)a->string, 0); break;
    case ZL_PARAM_OUTPUT: add_words(f, 1, (uintptr_t)a->output, 0); break;
    case ZL_PARAM_INT64: add_words(f, 1, (uintptr_t)a->wide, 0); break;
    case ZL_PARAM_INT:
    case ZL_PARAM_DTYPE: add_words(f, 1, (uintptr_t)a->number, 0); break;
    case ZL_PARAM_BOOL: add_words(f, 1, a->number != 0, 0); break;
    case ZL_PARAM_SHAPE: add_words(f, 2, (uintptr_t)a->shape.dim, (uintptr_t)a->shape.ndim); break;
    case ZL_PARAM_AXES: add_words(f, 2, (uintptr_t)a->axes.axis, (uintptr_t)a->axes.count); break;
    case ZL_PARAM_DOUBLE: f->real[f->reals++] = a->real; break;
    case ZL_PARAM_ARRAYS: // two parameters, not a pair
        add_words(f, 1, (uintptr_t)a->arrays.list, 0);
        add_words(f, 1, (uintptr_t)a->arrays.count, 0);
        break;
    }
}

#if defined(__x86_64__)
#define REGISTER_TYPES  uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t
#define REGISTER_VALUES f->word[0], f->word[1], f->word[2], f->word[3], f->word[4], f->word[5]
#else
#define REGISTER_TYPES uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t
#define REGISTER_VALUES \
    f->word[0], f->word[1], f->word[2], f->word[3], f->word[4], f->word[5], f->word[6], f->word[7]
#endif
#define REAL_TYPES double, double, double, double, double, double, double, double
#define REAL_VALUES \
    f->real[0], f->real[1], f->real[2], f->real[3], f->real[4], f->real[5], f->real[6], f->real[7]
#define STACK_TYPES                                                                                    \
    uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, \
        uintptr_t
#define STACK_VALUES                                                                                        \
    f->stack[0], f->stack[1], f->stack[2], f->stack[3], f->stack[4], f->stack[5], f->stack[6], f->stack[7], \
        f->stack[8], f->stack[9]

typedef zl_array array_call(REGISTER_TYPES, REAL_TYPES, STACK_TYPES);
typedef bool bool_call(REGISTER_TYPES, REAL_TYPES, STACK_TYPES);

__attribute__((no_sanitize("undefined"))) // newer sanitizers compare the types of a call with those of the
                                          // function
static bool
call(op_function *function, bool returns_bool, const struct frame *f, zl_array *result) {
    if (returns_bool)
        return ((bool_call *)function)(REGISTER_VALUES, REAL_VALUES, STACK_VALUES);
    *result = ((array_call *)function)(REGISTER_VALUES, REAL_VALUES, STACK_VALUES);
    return *result != NULL;
}

bool call_op(const zl_op_info *op, op_function *function, const union op_argument *argument,
             zl_array *result) {
    struct frame f = {.words = 0};
    *result = NULL;
    for (int i = 0; i < op->params; i++)
        add_argument(&f, op->param[i].type, &argument[i]);
    if (!CHECK(f.stacked <= 10))
        return false; // then STACK_TYPES needs more parameters
    return call(function, op->returns_bool, &f, result);
}
