// spirv_module.c - writes the words of a module: sections, interned types and constants, functions.

#include "render/spirv/spirv_module.h"

#include <string.h>

// 1.5 is the version of Vulkan 1.2
enum { MAGIC = 0x07230203, VERSION = 0x10500, VERSION_OF_MATRICES = 0x10600 };

static void put_word(struct text *out, uint32_t word) {
    char bytes[4] = {(char)(word & 255), (char)(word >> 8 & 255), (char)(word >> 16 & 255),
                     (char)(word >> 24)};
    text_bytes(out, bytes, sizeof bytes);
}

static void put_words(struct text *out, int count, const uint32_t *word) {
    for (int i = 0; i < count; i++)
        put_word(out, word[i]);
}

static void put(struct text *out, enum spirv_word word, int count, const uint32_t *operand) {
    put_word(out, (uint32_t)(count + 1) << 16 | word);
    put_words(out, count, operand);
}

// Appends an instruction with a text after its operands, padded with zero bytes, at least one, and with
// `more` words after the text, which the caller appends.
static void put_text(struct text *out, enum spirv_word word, int count, const uint32_t *operand,
                     const char *text, int more) {
    int len = (int)strlen(text);
    put_word(out, (uint32_t)(1 + count + len / 4 + 1 + more) << 16 | word);
    put_words(out, count, operand);
    text_bytes(out, text, len);
    text_bytes(out, "\0\0\0", 4 - len % 4);
}

static void move(struct text *to, struct text *from) {
    if (from->failed)
        to->failed = true;
    else
        text_bytes(to, from->data ? from->data : "", from->len);
    text_free(from);
}

void spirv_put(struct spirv_module *m, enum spirv_section where, enum spirv_word word, int count,
               const uint32_t *operand) {
    put(&m->section[where], word, count, operand);
}

spirv_id spirv_new(struct spirv_module *m) {
    return ++m->ids;
}

enum { KEY_WORDS = 12 };

static spirv_id find(struct spirv_module *m, int count, const uint32_t *key) {
    return (spirv_id)(uintptr_t)map_get(&m->interned, key, sizeof *key * (size_t)count);
}

static spirv_id keep(struct spirv_module *m, int count, const uint32_t *key, spirv_id id) {
    m->failed |= !map_set(&m->interned, key, sizeof *key * (size_t)count, (void *)(uintptr_t)id);
    return id;
}

spirv_id spirv_intern(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                      const uint32_t *operand) {
    uint32_t key[KEY_WORDS] = {word, type}, all[KEY_WORDS];
    memcpy(key + 2, operand, sizeof *key * (size_t)count);
    spirv_id id = find(m, count + 2, key);
    if (id)
        return id;
    id = keep(m, count + 2, key, spirv_new(m));
    int at = 0;
    if (type)
        all[at++] = type;
    all[at++] = id;
    memcpy(all + at, operand, sizeof *all * (size_t)count);
    spirv_put(m, SPIRV_TYPES, word, at + count, all);
    return id;
}

void spirv_need(struct spirv_module *m, enum spirv_capability capability) {
    uint32_t key[] = {SPIRV_Capability, capability};
    if (find(m, 2, key))
        return;
    keep(m, 2, key, 1);
    spirv_put(m, SPIRV_CAPABILITIES, SPIRV_Capability, 1, key + 1);
}

void spirv_extend(struct spirv_module *m, const char *name) {
    if (map_get(&m->interned, name, strlen(name)))
        return;
    m->failed |= !map_set(&m->interned, name, strlen(name), m);
    put_text(&m->section[SPIRV_EXTENSIONS], SPIRV_Extension, 0, NULL, name, 0);
}

void spirv_decorate(struct spirv_module *m, spirv_id id, enum spirv_decoration how, int count,
                    uint32_t value) {
    spirv_put(m, SPIRV_DECORATIONS, SPIRV_Decorate, 2 + count, (uint32_t[]){id, how, value});
}

spirv_id spirv_uint(struct spirv_module *m, int bits) {
    if (bits == 64)
        spirv_need(m, SPIRV_INT64);
    return SPIRV_TYPE(m, Int, (uint32_t)bits, 0);
}

spirv_id spirv_float(struct spirv_module *m, int bits) {
    if (bits != 32)
        spirv_need(m, bits == 64 ? SPIRV_FLOAT64 : SPIRV_FLOAT16);
    return SPIRV_TYPE(m, Float, (uint32_t)bits);
}

spirv_id spirv_half(struct spirv_module *m, bool is_bfloat) {
    if (!is_bfloat)
        return spirv_float(m, 16);
    spirv_need(m, SPIRV_BFLOAT);
    spirv_extend(m, "SPV_KHR_bfloat16");
    return SPIRV_TYPE(m, Float, 16, 0);
}

spirv_id spirv_matrix(struct spirv_module *m, spirv_id of, uint32_t side, uint32_t use) {
    spirv_id size = spirv_number(m, side), scope = spirv_number(m, SPIRV_SUBGROUP);
    return SPIRV_TYPE(m, CooperativeMatrixKHR, of, scope, size, size, spirv_number(m, use));
}

// Arrays and blocks with a layout have types of their own, one for each kind of element, because decorations
// belong to types.
spirv_id spirv_block(struct spirv_module *m, spirv_id element, int bytes, int count, int offset) {
    uint32_t key[] = {SPIRV_MemberDecorate, element, (uint32_t)count, (uint32_t)offset};
    spirv_id block = find(m, 4, key);
    if (block)
        return block;
    spirv_id length = count ? spirv_number(m, (uint32_t)count) : 0, array = spirv_new(m);
    spirv_put(m, SPIRV_TYPES, count ? SPIRV_TypeArray : SPIRV_TypeRuntimeArray, count ? 3 : 2,
              (uint32_t[]){array, element, length});
    block = keep(m, 4, key, spirv_new(m));
    spirv_put(m, SPIRV_TYPES, SPIRV_TypeStruct, 2, (uint32_t[]){block, array});
    spirv_decorate(m, array, SPIRV_STRIDE, 1, (uint32_t)bytes);
    spirv_decorate(m, block, SPIRV_BLOCK, 0, 0);
    spirv_put(m, SPIRV_DECORATIONS, SPIRV_MemberDecorate, 4,
              (uint32_t[]){block, 0, SPIRV_OFFSET, (uint32_t)offset});
    return block;
}

spirv_id spirv_constant(struct spirv_module *m, spirv_id type, int bits, uint64_t value) {
    return spirv_intern(m, SPIRV_Constant, type, bits == 64 ? 2 : 1,
                        (uint32_t[]){(uint32_t)value, (uint32_t)(value >> 32)});
}

spirv_id spirv_global(struct spirv_module *m, enum spirv_class where, spirv_id type) {
    spirv_id pointer = spirv_pointer(m, where, type), id = spirv_new(m);
    spirv_put(m, SPIRV_TYPES, SPIRV_Variable, 3, (uint32_t[]){pointer, id, where});
    put_word(where == SPIRV_SHARED ? &m->shared : &m->interface, id);
    return id;
}

spirv_id spirv_local(struct spirv_module *m, spirv_id type) {
    spirv_id pointer = spirv_pointer(m, SPIRV_PRIVATE, type), id = spirv_new(m);
    put(&m->function->variables, SPIRV_Variable, 3, (uint32_t[]){pointer, id, SPIRV_PRIVATE});
    return id;
}

enum { OPERANDS = 24 };

spirv_id spirv_value_list(struct spirv_module *m, enum spirv_word word, spirv_id type, int count,
                          const spirv_id *operand) {
    uint32_t all[OPERANDS] = {type, spirv_new(m)};
    memcpy(all + 2, operand, sizeof *all * (size_t)count);
    put(&m->function->code, word, count + 2, all);
    return all[1];
}

void spirv_do_list(struct spirv_module *m, enum spirv_word word, int count, const spirv_id *operand) {
    put(&m->function->code, word, count, operand);
}

spirv_id spirv_glsl(struct spirv_module *m, enum spirv_glsl which, spirv_id type, int count,
                    const spirv_id *operand) {
    uint32_t all[OPERANDS] = {m->glsl, which};
    memcpy(all + 2, operand, sizeof *all * (size_t)count);
    return spirv_value_list(m, SPIRV_ExtInst, type, count + 2, all);
}

void spirv_branch(struct spirv_module *m, spirv_id label) {
    if (m->function->label)
        spirv_do(m, SPIRV_Branch, label);
    m->function->label = 0;
}

void spirv_label(struct spirv_module *m, spirv_id label) {
    spirv_branch(m, label);
    spirv_do(m, SPIRV_Label, label);
    m->function->label = label;
}

void spirv_branch_if(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise) {
    spirv_do(m, SPIRV_BranchConditional, truth, then, otherwise);
    m->function->label = 0;
}

void spirv_choose(struct spirv_module *m, spirv_id truth, spirv_id then, spirv_id otherwise, spirv_id merge) {
    spirv_do(m, SPIRV_SelectionMerge, merge, 0);
    spirv_branch_if(m, truth, then, otherwise);
}

void spirv_function_open(struct spirv_module *m, struct spirv_function *f, spirv_id result, int parameters,
                         const spirv_id *type, spirv_id *parameter) {
    uint32_t all[KEY_WORDS] = {result ? result : spirv_intern(m, SPIRV_TypeVoid, 0, 0, (uint32_t[]){0})};
    for (int i = 0; i < parameters; i++)
        all[1 + i] = type[i];
    *f = (struct spirv_function){.id = spirv_new(m), .result = all[0], .outer = m->function};
    f->type = spirv_intern(m, SPIRV_TypeFunction, 0, parameters + 1, all);
    for (int i = 0; i < parameters; i++) {
        parameter[i] = spirv_new(m);
        put(&f->parameters, SPIRV_FunctionParameter, 2, (uint32_t[]){type[i], parameter[i]});
    }
    m->function = f;
    f->first = f->label = spirv_new(m);
}

void spirv_function_close(struct spirv_module *m, spirv_id result) {
    struct spirv_function *f = m->function;
    struct text *out = &m->section[SPIRV_FUNCTIONS];
    if (result)
        spirv_do(m, SPIRV_ReturnValue, result);
    else
        put(&f->code, SPIRV_Return, 0, NULL);
    put(out, SPIRV_Function, 4, (uint32_t[]){f->result, f->id, 0, f->type});
    move(out, &f->parameters);
    put(out, SPIRV_Label, 1, (uint32_t[]){f->first});
    move(out, &f->variables);
    move(out, &f->code);
    put(out, SPIRV_FunctionEnd, 0, NULL);
    m->function = f->outer;
}

// The module does not record which variables a function uses: an entry point lists all variables so far,
// except the shared memory of others.
void spirv_entry(struct spirv_module *m, spirv_id function, const char *name, int threads) {
    enum { COMPUTE = 5 };
    struct text *out = &m->section[SPIRV_ENTRIES];
    put_text(out, SPIRV_EntryPoint, 2, (uint32_t[]){COMPUTE, function}, name,
             (m->interface.len + m->shared.len) / 4);
    text_bytes(out, m->interface.data ? m->interface.data : "", m->interface.len);
    move(out, &m->shared);
    spirv_put(m, SPIRV_MODES, SPIRV_ExecutionMode, 5,
              (uint32_t[]){function, SPIRV_LOCAL_SIZE, (uint32_t)threads, 1, 1});
}

void spirv_open(struct spirv_module *m, bool has_matrices, bool has_addresses) {
    enum { LOGICAL = 0, GLSL450 = 1, VULKAN = 3, ADDRESSES_OF_64_BITS = 5348 };
    *m = (struct spirv_module){.version = has_matrices ? VERSION_OF_MATRICES : VERSION};
    m->glsl = spirv_new(m);
    put_text(&m->section[SPIRV_IMPORTS], SPIRV_ExtInstImport, 1, &m->glsl, "GLSL.std.450", 0);
    bool is_vulkan = has_matrices || has_addresses;
    uint32_t model[] = {has_addresses ? ADDRESSES_OF_64_BITS : LOGICAL, is_vulkan ? VULKAN : GLSL450};
    spirv_put(m, SPIRV_MODEL, SPIRV_MemoryModel, 2, model);
    spirv_need(m, SPIRV_SHADER);
    if (is_vulkan)
        spirv_need(m, SPIRV_VULKAN_MEMORY);
    if (has_addresses)
        spirv_need(m, SPIRV_ADDRESSES);
}

bool spirv_close(struct spirv_module *m, struct text *out) {
    bool good = !m->failed && !m->interface.failed;
    put_words(out, 5, (uint32_t[]){MAGIC, m->version, 0, m->ids + 1, 0});
    for (int i = 0; i < SPIRV_SECTIONS; i++) {
        good = good && !m->section[i].failed;
        move(out, &m->section[i]);
    }
    text_free(&m->interface);
    map_free(&m->interned);
    return good && !out->failed;
}
