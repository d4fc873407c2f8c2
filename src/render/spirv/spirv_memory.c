// spirv_memory.c - declares variables for memory, and accesses it.
//
// A storage buffer has one variable for each size of access, all with the same binding, and so has shared
// memory with an explicit layout. Other shared memory, and local memory, has one variable, whose elements
// have the size of the smallest element of the memory or of any of its views; larger accesses are done in
// several parts. Where elements of 8 or 16 bits are not allowed in memory, they are parts of words. In a
// module that uses addresses, storage buffers have no variables.

#include "render/spirv/spirv_program.h"

#include "render/c/program.h"
#include "render/render.h"

static spirv_id times(struct spirv_program *p, spirv_id a, uint32_t factor) {
    return factor == 1 ? a : spirv_op_by(p, SPIRV_IMul, a, factor);
}

static spirv_id plus(struct spirv_program *p, spirv_id a, uint32_t more) {
    return more ? spirv_op_by(p, SPIRV_IAdd, a, more) : a;
}

static spirv_id shifted(struct spirv_program *p, enum spirv_word how, spirv_id a, uint32_t by) {
    return by ? spirv_op_by(p, how, a, by) : a;
}

static int log_of(int64_t n) {
    return 63 - __builtin_clzll((uint64_t)n);
}

int spirv_item(const struct tile_buffer *b) {
    return tile_type_is_complex(b->type) ? 4 : tile_type_bytes(b->type);
}

static struct spirv_memory *memory_of(struct spirv_program *p, const struct tile_buffer *b) {
    return &p->memory[tile_memory_of(b)->id];
}

spirv_id spirv_scope(struct spirv_program *p, const struct spirv_memory *m) {
    return spirv_u32(p, m->where != SPIRV_STORAGE ? SPIRV_GROUP : p->is_vulkan ? SPIRV_QUEUE : SPIRV_DEVICE);
}

bool spirv_is_exchanged(const struct spirv_program *p, const struct spirv_memory *m) {
    return m->where == SPIRV_SHARED ||
           (m->where == SPIRV_STORAGE && m->is_read && m->is_written && (p->has_barriers || m->has_atomics));
}

// What the kernel does with memory --------------------------------------------------------------------------

static void note_load(expr e, void *program) {
    struct spirv_program *p = program;
    if (e->op == TILE_LOAD)
        memory_of(p, e->buffer)->is_read = memory_of(p, e->buffer)->has_elements = true;
}

static void note_piece(struct spirv_program *p, const struct tile_buffer *b) {
    struct spirv_memory *m = memory_of(p, b);
    int item = spirv_item(b);
    m->piece = m->piece ? MIN_OF(m->piece, item) : item;
    if (!b->base && (b->memory == TILE_SHARED || b->memory == TILE_REGISTER))
        m->bytes = MAX_OF(program_size(b), tile_type_bytes(b->type));
}

static void note_statements(struct spirv_program *p, const struct tile_stmt *s) {
    for (; s; s = s->next) {
        struct spirv_memory *m = s->buffer ? memory_of(p, s->buffer) : NULL;
        p->has_barriers |= s->kind == TILE_BARRIER;
        if (s->kind == TILE_ALLOC)
            note_piece(p, s->buffer);
        if (s->kind == TILE_STORE || s->kind == TILE_ATOMIC)
            m->is_written = m->has_elements = true;
        if (s->kind == TILE_GEMM)
            memory_of(p, s->region[0].buffer)->has_elements = true;
        if (s->kind == TILE_ATOMIC) {
            int bytes = tile_type_bytes(s->buffer->type);
            m->has_atomics = m->is_read = true;
            m->has_small_atomics |= bytes < 4;
            m->has_wide_atomics |= bytes == 8;
        }
        if (s->kind == TILE_COPY)
            memory_of(p, s->region[0].buffer)->is_read = true;
        if (s->kind == TILE_COPY || s->kind == TILE_FILL)
            memory_of(p, s->region[1].buffer)->is_written = true;
        note_statements(p, s->body);
        note_statements(p, s->other);
    }
}

static void bind(struct spirv_program *p, const struct tile_buffer *b, int *binding) {
    struct spirv_memory *m = &p->memory[b->id];
    m->where = SPIRV_STORAGE;
    m->binding = (*binding)++;
    m->is_known = m->has_sizes = true;
}

void spirv_find_memory(struct spirv_program *p) {
    const struct tile_kernel *k = p->kernel;
    int binding = 0;
    note_statements(p, k->body);
    p->failed |= !pass_each_node((struct tile_kernel *)(uintptr_t)k, note_load, p);
    for (int i = 0; i < k->parameters; i++)
        if (!tile_is_by_value(&k->parameter[i]))
            bind(p, k->parameter[i].buffer, &binding);
    for (const struct tile_stmt *s = k->body; s; s = s->next)
        if (s->kind == TILE_ALLOC && !s->buffer->base)
            bind(p, s->buffer, &binding);
    p->memory[k->buffers] = (struct spirv_memory){
        // the i32 of assertions
        .is_known = true, .has_sizes = true,  .where = SPIRV_STORAGE, .binding = binding,
        .is_read = true,  .is_written = true, .has_atomics = true};
}

// Variables -------------------------------------------------------------------------------------------------

static spirv_id element_type(struct spirv_program *p, int size) {
    return size == SPIRV_WIDE_ATOMIC ? spirv_uint(&p->m, 64)
           : size == 4               ? spirv_vector(&p->m, spirv_uint(&p->m, 32), 4)
           : size == 3               ? spirv_pair(&p->m)
                                     : spirv_uint(&p->m, 8 << size);
}

static spirv_id bound_variable(struct spirv_program *p, spirv_id type, int binding) {
    spirv_id v = spirv_global(&p->m, SPIRV_STORAGE, type);
    spirv_decorate(&p->m, v, SPIRV_SET, 1, 0);
    spirv_decorate(&p->m, v, SPIRV_BINDING, 1, (uint32_t)binding);
    return v;
}

// Shared memory with an explicit layout: the variables of all sizes overlap.
static spirv_id shared_view(struct spirv_program *p, const struct spirv_memory *m, int size, int bytes) {
    spirv_need(&p->m, bytes == 1   ? SPIRV_SHARED_LAYOUT_8
                      : bytes == 2 ? SPIRV_SHARED_LAYOUT_16
                                   : SPIRV_SHARED_LAYOUT);
    spirv_extend(&p->m, "SPV_KHR_workgroup_memory_explicit_layout");
    int count = (int)((m->bytes + bytes - 1) / bytes);
    return spirv_global(&p->m, SPIRV_SHARED,
                        spirv_block(&p->m, element_type(p, size), bytes, count, (int)m->at));
}

static spirv_id storage_view(struct spirv_program *p, const struct spirv_memory *m, int size, int bytes) {
    if (bytes < 4)
        spirv_need(&p->m, bytes == 1 ? SPIRV_STORAGE_8 : SPIRV_STORAGE_16);
    spirv_id v = bound_variable(p, spirv_block(&p->m, element_type(p, size), bytes, 0, 0), m->binding);
    if (!m->is_written)
        spirv_decorate(&p->m, v, SPIRV_NON_WRITABLE, 0, 0);
    else if (spirv_is_exchanged(p, m) && !p->is_vulkan)
        spirv_decorate(&p->m, v, SPIRV_COHERENT, 0, 0);
    return v;
}

static spirv_id view_of(struct spirv_program *p, struct spirv_memory *m, int size) {
    if (m->variable[size])
        return m->variable[size];
    int bytes = size == SPIRV_WIDE_ATOMIC ? 8 : 1 << size;
    m->variable[size] =
        m->where == SPIRV_STORAGE ? storage_view(p, m, size, bytes) : shared_view(p, m, size, bytes);
    spirv_decorate(&p->m, m->variable[size], SPIRV_ALIASED, 0, 0);
    return m->variable[size];
}

void spirv_bind_rest(struct spirv_program *p) {
    for (int i = 0; i <= p->kernel->buffers && !p->layout.has_addresses; i++) {
        struct spirv_memory *m = &p->memory[i];
        bool is_declared =
            m->where != SPIRV_STORAGE || (i == p->kernel->buffers && !render_has_status(p->kernel));
        for (int size = 0; size < SPIRV_SIZES; size++)
            is_declared |= m->variable[size] != 0;
        if (!is_declared)
            view_of(p, m, 2);
    }
}

static bool lacks_small(const struct target_spirv *u, const struct spirv_memory *m) {
    return m->has_small_atomics || !(m->piece == 1 ? u->has_small_bytes : u->has_small_halves);
}

// Declares memory of a group or of a thread; that of a thread has small elements as whole words.
static void declare(struct spirv_program *p, const struct tile_buffer *b) {
    struct spirv_memory *m = memory_of(p, b);
    bool is_shared = tile_memory_of(b)->memory == TILE_SHARED;
    m->is_known = true;
    m->where = is_shared ? SPIRV_SHARED : SPIRV_PRIVATE;
    if (is_shared && p->unit->has_shared_layout) {
        int64_t align = MAX_OF(tile_memory_of(b)->align, 16);
        m->has_sizes = true;
        m->at = (p->shared + align - 1) / align * align;
        p->shared = m->at + m->bytes;
        return;
    }
    if (!is_shared && !m->has_elements)
        m->piece = MAX_OF(m->piece, 4); // it is accessed only by vectors of whole words
    m->is_packed = is_shared && m->piece < 4 && lacks_small(p->unit, m);
    int64_t count = (m->bytes + m->piece - 1) / m->piece;
    int size = log_of(m->piece);
    if (m->is_packed || (!is_shared && size < 2)) {
        count = m->is_packed ? (m->bytes + 3) / 4 : count;
        size = 2;
    } else if (size < 2)
        spirv_need(&p->m, size == 0 ? SPIRV_INT8 : SPIRV_INT16);
    if (m->has_wide_atomics && m->piece != 8)
        spirv_fail(p, "memory with atomics of 64 bits has no views of smaller elements: ", b->text);
    else if (m->has_wide_atomics)
        size = SPIRV_WIDE_ATOMIC;
    spirv_id type = spirv_array(&p->m, element_type(p, size), count);
    m->variable[size] = is_shared ? spirv_global(&p->m, SPIRV_SHARED, type) : spirv_local(&p->m, type);
}

void spirv_alloc(struct spirv_program *p, const struct tile_buffer *b) {
    if (b->stride || program_size(b) < 0 || program_size(b) > PROGRAM_STACK)
        spirv_fail(p, "the size of memory of a thread must be a number, of 4 MiB at most: ", b->text);
    else
        declare(p, b);
}

// Places ----------------------------------------------------------------------------------------------------

static bool has_address(const struct spirv_program *p, const struct spirv_memory *m) {
    return p->layout.has_addresses && m->where == SPIRV_STORAGE;
}

struct tile_type spirv_place_type(struct spirv_program *p, const struct tile_buffer *b) {
    bool is_wide = has_address(p, memory_of(p, b)) && p->kernel->index_bits == 64;
    return (struct tile_type){TILE_UINT, is_wide ? 64 : 32, 1};
}

static spirv_id offset(struct spirv_program *p, const struct tile_buffer *b, const expr *index, int from,
                       int to) {
    struct tile_type type = spirv_place_type(p, b);
    spirv_id sum = 0, t = spirv_type(p, type);
    for (int i = from; i < to; i++) {
        int64_t stride = program_stride(b, i);
        if (index[i]->op == TILE_CONST && !index[i]->bits)
            continue;
        spirv_id at = spirv_index_as(p, type, index[i]), by = p->stride[b->id * TILE_DIMS + i];
        if (stride >= 0 && stride != 1)
            by = spirv_constant_of(p, type, (uint64_t)stride);
        at = stride == 1 ? at : spirv_value(&p->m, SPIRV_IMul, t, at, by);
        sum = sum ? spirv_value(&p->m, SPIRV_IAdd, t, sum, at) : at;
    }
    return sum ? sum : spirv_constant_of(p, type, 0);
}

// Returns at ^ ((row & 7) << vector).
static spirv_id swizzle(struct spirv_program *p, spirv_id at, spirv_id row, int vector) {
    spirv_id low = spirv_op_by(p, SPIRV_BitwiseAnd, row, 7);
    return spirv_op(p, SPIRV_BitwiseXor, at, shifted(p, SPIRV_ShiftLeftLogical, low, (uint32_t)vector));
}

// Applies the same swizzle as swizzled of program_values.c.
static spirv_id swizzled(struct spirv_program *p, const struct tile_buffer *b, const expr *index) {
    int last = b->ndim - 1, bytes = tile_type_bytes(b->type);
    int width = log_of(128 / bytes), vector = log_of(16 / bytes);
    spirv_id stack = b->ndim > 2 ? offset(p, b, index, 0, b->ndim - 2) : spirv_u32(p, 0), in;
    if (program_has_panels(b)) {
        spirv_id row = spirv_index(p, index[last - 1]), column = spirv_index(p, index[last]);
        spirv_id panel = shifted(p, SPIRV_ShiftRightLogical, column, (uint32_t)width);
        panel = times(p, panel, (uint32_t)(pass_number(b->shape[last - 1]) << width));
        spirv_id within = spirv_op_by(p, SPIRV_BitwiseAnd, column, (1u << width) - 1);
        in = spirv_op(p, SPIRV_IAdd, panel, shifted(p, SPIRV_ShiftLeftLogical, row, (uint32_t)width));
        in = spirv_op(p, SPIRV_IAdd, in, swizzle(p, within, row, vector));
    } else {
        in = offset(p, b, index, MAX_OF(last - 1, 0), b->ndim);
        in = swizzle(p, in, shifted(p, SPIRV_ShiftRightLogical, in, (uint32_t)width), vector);
    }
    return spirv_op(p, SPIRV_IAdd, stack, in);
}

spirv_id spirv_place(struct spirv_program *p, const struct tile_buffer *b, const expr *index, int part) {
    struct tile_type type = spirv_place_type(p, b);
    spirv_id at = b->swizzle ? swizzled(p, b, index) : offset(p, b, index, 0, b->ndim);
    if (part < 0)
        return at;
    at = spirv_combine(p, TILE_ADD, type, at, at);
    return part ? spirv_combine(p, TILE_ADD, type, at, spirv_constant_of(p, type, 1)) : at;
}

// Arguments -------------------------------------------------------------------------------------------------

spirv_id spirv_argument(struct spirv_program *p, spirv_id word) {
    enum spirv_class where = p->layout.is_in_buffer ? SPIRV_STORAGE : SPIRV_PUSH;
    if (!p->block) {
        spirv_id type =
            spirv_block(&p->m, spirv_uint(&p->m, 32), 4, p->layout.is_in_buffer ? 0 : p->layout.bytes / 4, 0);
        p->block = p->layout.is_in_buffer ? bound_variable(p, type, p->layout.binding)
                                          : spirv_global(&p->m, where, type);
        if (p->layout.is_in_buffer)
            spirv_decorate(&p->m, p->block, SPIRV_NON_WRITABLE, 0, 0);
    }
    spirv_id type = spirv_pointer(&p->m, where, spirv_uint(&p->m, 32)), none = spirv_u32(p, 0);
    spirv_id at = spirv_value(&p->m, SPIRV_AccessChain, type, p->block, none, word);
    return spirv_load(&p->m, spirv_uint(&p->m, 32), at);
}

spirv_id spirv_argument_value(struct spirv_program *p, struct tile_type type, int at) {
    int bytes = tile_type_bytes(type);
    spirv_id bits = spirv_argument(p, spirv_u32(p, (uint32_t)at / 4));
    if (bytes < 4) // the bytes after it may be anything
        bits = spirv_op_by(p, SPIRV_BitwiseAnd, bits, (1u << 8 * bytes) - 1);
    if (bytes == 8)
        bits = spirv_join(p, bits, spirv_argument(p, spirv_u32(p, (uint32_t)at / 4 + 1)));
    return spirv_from_bits(p, type, bits);
}

// Returns the shift, in bits, of a byte within its word.
static spirv_id shift_of(struct spirv_program *p, spirv_id byte) {
    return times(p, spirv_op_by(p, SPIRV_BitwiseAnd, byte, 3), 8);
}

spirv_id spirv_part_of_word(struct spirv_program *p, spirv_id word, spirv_id shift, int bytes) {
    spirv_id part = spirv_op(p, SPIRV_ShiftRightLogical, word, shift);
    return bytes < 4 ? spirv_op_by(p, SPIRV_BitwiseAnd, part, (1u << 8 * bytes) - 1) : part;
}

static spirv_id read_table(struct spirv_program *p, const struct tile_buffer *b, spirv_id place) {
    int bytes = spirv_item(b), first = spirv_layout_parameter(&p->layout, p->kernel, b->parameter) / 4;
    spirv_id byte = times(p, place, (uint32_t)bytes);
    spirv_id at = plus(p, shifted(p, SPIRV_ShiftRightLogical, byte, 2), (uint32_t)first);
    spirv_id low = spirv_argument(p, at);
    return bytes == 8  ? spirv_join(p, low, spirv_argument(p, plus(p, at, 1)))
           : bytes < 4 ? spirv_part_of_word(p, low, shift_of(p, byte), bytes)
                       : low;
}

// Accesses --------------------------------------------------------------------------------------------------

// An access to `count` elements of `each` bytes of a variable, from `first` on. `size` is log2 of the bytes
// of the variable's own elements, which may be words that contain these.
struct access {
    struct spirv_memory *m;
    spirv_id variable, first; // with an address: no variable, and `first` is the address
    int size, each, count;
};

static spirv_id address_of(struct spirv_program *p, const struct access *a, struct tile_type type,
                           spirv_id place, int item) {
    spirv_id u64 = spirv_uint(&p->m, 64), by = spirv_u32(p, (uint32_t)log_of(item));
    spirv_id wide = spirv_convert(p, (struct tile_type){TILE_UINT, 64, 1}, type, place);
    spirv_id bytes = spirv_value(&p->m, SPIRV_ShiftLeftLogical, u64, wide, by);
    return spirv_value(&p->m, SPIRV_IAdd, u64, p->before[a->m->binding], bytes);
}

static spirv_id element_of_view(struct spirv_program *p, const struct access *a, spirv_id place, int item) {
    if (a->m->where == SPIRV_STORAGE) {
        spirv_id before = p->before[a->m->binding];
        before = shifted(p, SPIRV_ShiftRightLogical, before, (uint32_t)log_of(item));
        place = spirv_op(p, SPIRV_IAdd, place, before);
    }
    return shifted(p, SPIRV_ShiftRightLogical, place, (uint32_t)log_of(a->each / item));
}

// Returns the access to an element of memory that has elements of every size.
static struct access access_to_one(struct spirv_program *p, struct access a, struct tile_type type,
                                   spirv_id place, int item) {
    bool is_lacking =
        a.m->where == SPIRV_STORAGE && !(a.size == 0 ? p->unit->has_bytes : p->unit->has_halves);
    a.first =
        has_address(p, a.m) ? address_of(p, &a, type, place, item) : element_of_view(p, &a, place, item);
    a.size = a.size < 2 && (is_lacking || a.m->has_small_atomics) ? 2 : a.size;
    if (!has_address(p, a.m))
        a.variable = view_of(p, a.m, a.size);
    else if (a.size < 2)
        spirv_need(&p->m, a.size == 0 ? SPIRV_STORAGE_8 : SPIRV_STORAGE_16);
    return a;
}

static struct access access_to(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                               int bytes, int size) {
    struct access a = {.m = memory_of(p, b), .size = size, .each = bytes, .count = 1};
    int item = spirv_item(b);
    if (!a.m->is_known)
        declare(p, b);
    if (a.m->has_sizes)
        return access_to_one(p, a, spirv_place_type(p, b), place, item);
    a.each = a.m->is_packed && bytes < 4 ? bytes : a.m->piece;
    a.count = bytes / a.each;
    a.first = item >= a.each ? times(p, place, (uint32_t)(item / a.each))
                             : shifted(p, SPIRV_ShiftRightLogical, place, (uint32_t)log_of(a.each / item));
    for (a.size = 0; a.size + 1 < SPIRV_SIZES && !a.m->variable[a.size];)
        a.size++;
    a.variable = a.m->variable[a.size];
    return a;
}

static bool is_part(const struct access *a) {
    return a->each < 4 && a->size == 2 && (a->m->has_sizes || a->m->is_packed);
}

static spirv_id pointer(struct spirv_program *p, const struct access *a, spirv_id at) {
    bool is_address = has_address(p, a->m);
    spirv_id type =
        spirv_pointer(&p->m, is_address ? SPIRV_ADDRESSED : a->m->where, element_type(p, a->size));
    if (is_address)
        return spirv_value(&p->m, SPIRV_ConvertUToPtr, type, at);
    if (!a->m->has_sizes)
        return spirv_value(&p->m, SPIRV_AccessChain, type, a->variable, at);
    spirv_id array = spirv_u32(p, 0);
    return spirv_value(&p->m, SPIRV_AccessChain, type, a->variable, array, at);
}

// Returns a pointer to the word that contains an element, and sets *shift to the element's first bit in it.
static spirv_id part_pointer(struct spirv_program *p, const struct access *a, spirv_id at, spirv_id *shift) {
    spirv_id byte, word;
    if (has_address(p, a->m)) {
        spirv_id u64 = spirv_uint(&p->m, 64), mask = spirv_constant(&p->m, u64, 64, ~UINT64_C(3));
        word = spirv_value(&p->m, SPIRV_BitwiseAnd, u64, at, mask);
        byte = spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 32), at);
    } else {
        byte = times(p, at, (uint32_t)a->each);
        word = shifted(p, SPIRV_ShiftRightLogical, byte, 2);
    }
    *shift = shift_of(p, byte);
    return pointer(p, a, word);
}

// Appends the memory operands of a load or store, and returns the number of operands then. They tell Vulkan's
// memory model that threads exchange the memory, and how an address is aligned.
static int add_memory_operands(struct spirv_program *p, const struct access *a, int count,
                               spirv_id *operand) {
    enum { ALIGNED = 0x2, NON_PRIVATE = 0x20 };
    bool is_address = has_address(p, a->m), is_exchanged = p->is_vulkan && spirv_is_exchanged(p, a->m);
    if (is_address || is_exchanged)
        operand[count++] = (is_address ? ALIGNED : 0) | (is_exchanged ? NON_PRIVATE : 0);
    if (is_address)
        operand[count++] = a->size == SPIRV_WIDE_ATOMIC ? 8 : 1u << a->size;
    return count;
}

static spirv_id load(struct spirv_program *p, const struct access *a, int which) {
    spirv_id at = plus(p, a->first, (uint32_t)which), type = element_type(p, a->size), shift = 0;
    spirv_id operand[3] = {is_part(a) ? part_pointer(p, a, at, &shift) : pointer(p, a, at)};
    int operands = add_memory_operands(p, a, 1, operand);
    spirv_id x = spirv_value_list(&p->m, SPIRV_Load, type, operands, operand);
    if (shift)
        return spirv_part_of_word(p, x, shift, a->each);
    if (a->size == SPIRV_WIDE_ATOMIC)
        return spirv_as(p, spirv_pair(&p->m), x);
    return a->size < 2 ? spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 32), x) : x;
}

// Stores part of a word by two atomics, since other threads may write the rest of it.
static void store_part(struct spirv_program *p, const struct access *a, spirv_id at, spirv_id bits) {
    spirv_id type = spirv_uint(&p->m, 32), none = spirv_u32(p, 0), shift;
    spirv_id scope = spirv_scope(p, a->m), mask = spirv_u32(p, (1u << 8 * a->each) - 1);
    spirv_id word = part_pointer(p, a, at, &shift);
    spirv_id hole = spirv_op(p, SPIRV_ShiftLeftLogical, mask, shift);
    spirv_id part = spirv_op(p, SPIRV_ShiftLeftLogical, spirv_op(p, SPIRV_BitwiseAnd, bits, mask), shift);
    spirv_value(&p->m, SPIRV_AtomicAnd, type, word, scope, none, spirv_value(&p->m, SPIRV_Not, type, hole));
    spirv_value(&p->m, SPIRV_AtomicOr, type, word, scope, none, part);
}

static void store(struct spirv_program *p, const struct access *a, int which, spirv_id bits) {
    spirv_id at = plus(p, a->first, (uint32_t)which);
    if (is_part(a)) {
        store_part(p, a, at, bits);
        return;
    }
    if (a->size == SPIRV_WIDE_ATOMIC)
        bits = spirv_as(p, element_type(p, a->size), bits);
    else if (a->size < 2)
        bits = spirv_value(&p->m, SPIRV_UConvert, element_type(p, a->size), bits);
    spirv_id operand[4] = {pointer(p, a, at), bits};
    spirv_do_list(&p->m, SPIRV_Store, add_memory_operands(p, a, 2, operand), operand);
}

// Inserts a piece of `each` bytes into words at byte `at`. A piece of less than 4 bytes is part of a word.
static void join(struct spirv_program *p, spirv_id piece, int each, int at, spirv_id *word) {
    for (int i = 0; each > 4 && i < each / 4; i++)
        word[at / 4 + i] = spirv_part(p, piece, (uint32_t)i);
    if (each > 4)
        return;
    piece = shifted(p, SPIRV_ShiftLeftLogical, piece, (uint32_t)(at % 4 * 8));
    word[at / 4] = at % 4 ? spirv_op(p, SPIRV_BitwiseOr, word[at / 4], piece) : piece;
}

static spirv_id cut(struct spirv_program *p, const spirv_id *word, int at, int each) {
    word += at / 4;
    if (each > 4)
        return spirv_value_list(&p->m, SPIRV_CompositeConstruct, element_type(p, log_of(each)), each / 4,
                                word);
    spirv_id piece = shifted(p, SPIRV_ShiftRightLogical, *word, (uint32_t)(at % 4 * 8));
    return each == 4 ? piece : spirv_op_by(p, SPIRV_BitwiseAnd, piece, (1u << 8 * each) - 1);
}

void spirv_read_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                      spirv_id *word) {
    struct access a = access_to(p, b, place, bytes, log_of(bytes));
    for (int i = 0; i < a.count; i++)
        join(p, load(p, &a, i), a.each, i * a.each, word);
}

void spirv_write_words(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, int bytes,
                       const spirv_id *word) {
    struct access a = access_to(p, b, place, bytes, log_of(bytes));
    for (int i = 0; i < a.count; i++)
        store(p, &a, i, cut(p, word, i * a.each, a.each));
}

// Where the mask is false, reads the first element, which always exists.
spirv_id spirv_read(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id mask) {
    int bytes = spirv_item(b);
    struct tile_type type = spirv_place_type(p, b);
    spirv_id word[2] = {0};
    if (mask)
        place = spirv_pick(p, type, mask, place, spirv_constant_of(p, type, 0));
    if (b->memory == TILE_TABLE)
        return read_table(p, b, place);
    struct access a = access_to(p, b, place, bytes, log_of(bytes));
    if (a.count == 1)
        return load(p, &a, 0);
    spirv_read_words(p, b, place, bytes, word);
    return bytes == 8 ? spirv_join(p, word[0], word[1]) : word[0];
}

void spirv_write(struct spirv_program *p, const struct tile_buffer *b, spirv_id place, spirv_id bits) {
    int bytes = spirv_item(b);
    struct access a = access_to(p, b, place, bytes, log_of(bytes));
    spirv_id word[2] = {bits};
    if (a.count > 1 && bytes == 8)
        join(p, bits, bytes, 0, word);
    if (a.count > 1)
        spirv_write_words(p, b, place, bytes, word);
    else
        store(p, &a, 0, bits);
}

spirv_id spirv_pack_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                            int elements) {
    struct spirv_memory *m = memory_of(p, b);
    if (!m->is_known)
        declare(p, b);
    struct access a = {.m = m, .size = log_of(spirv_item(b) * elements)};
    a.variable = view_of(p, m, a.size);
    return pointer(p, &a, place);
}

spirv_id spirv_exchange_pointer(struct spirv_program *p, spirv_id place, int bytes) {
    struct spirv_memory *m = &p->exchange;
    if (!m->is_known) {
        *m = (struct spirv_memory){.is_known = true,
                                   .has_sizes = true,
                                   .where = SPIRV_SHARED,
                                   .at = (p->shared + 15) / 16 * 16,
                                   .bytes = TARGET_EXCHANGED * (int64_t)p->threads};
        p->shared = m->at + m->bytes;
    }
    struct access a = {.m = m, .size = log_of(bytes), .variable = view_of(p, m, log_of(bytes))};
    return pointer(p, &a, place);
}

spirv_id spirv_atomic_pointer(struct spirv_program *p, const struct tile_buffer *b, spirv_id place,
                              spirv_id *shift) {
    int bytes = spirv_item(b), size = bytes == 8 ? SPIRV_WIDE_ATOMIC : 2;
    struct access a = access_to(p, b, place, bytes, bytes < 4 ? log_of(bytes) : size);
    *shift = 0;
    if (is_part(&a))
        return part_pointer(p, &a, a.first, shift);
    if (a.size != size || a.count > 1)
        spirv_fail(p, "memory with atomics has no views of smaller elements: ", b->text);
    return pointer(p, &a, a.first);
}

spirv_id spirv_status(struct spirv_program *p) {
    struct access a = {.m = &p->memory[p->kernel->buffers], .size = 2, .each = 4, .count = 1};
    a = access_to_one(p, a, (struct tile_type){TILE_UINT, 32, 1}, spirv_u32(p, 0), 4);
    return pointer(p, &a, a.first);
}
