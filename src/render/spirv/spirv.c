// spirv.c - the dialect `spirv_tiles`: its record, the layout of its arguments, and the functions of a
// kernel.

#include "render/spirv/spirv_program.h"

#include "render/c/program.h"
#include "render/render.h"
#include "render/c/scalar.h"

#include <string.h>

// Arguments -------------------------------------------------------------------------------------------------

static int words_of(const struct tile_parameter *p) {
    int64_t elements = p->is_scalar ? 1 : pass_product(p->buffer->ndim, p->buffer->shape);
    return (int)(elements * tile_type_bytes(p->is_scalar ? p->scalar->type : p->buffer->type) + 3) / 4;
}

static int count_buffers(const struct tile_kernel *kernel) {
    int count = render_has_status(kernel);
    for (int i = 0; i < kernel->parameters; i++)
        count += !tile_is_by_value(&kernel->parameter[i]);
    for (const struct tile_stmt *s = kernel->body; s; s = s->next)
        count += s->kind == TILE_ALLOC && !s->buffer->base;
    return count;
}

int spirv_layout_parameter(const struct spirv_layout *l, const struct tile_kernel *kernel, int parameter) {
    int word = l->groups / 4 + 1;
    for (int i = 0; i < parameter; i++)
        word += tile_is_by_value(&kernel->parameter[i]) ? words_of(&kernel->parameter[i]) : 0;
    return 4 * word;
}

static struct spirv_layout layout_with(const struct tile_kernel *kernel, const struct target_spirv *unit,
                                       bool has_addresses) {
    struct spirv_layout l = {.buffers = count_buffers(kernel), .has_addresses = has_addresses};
    l.groups = (has_addresses ? 8 : 4) * l.buffers;
    l.symbols = spirv_layout_parameter(&l, kernel, kernel->parameters);
    l.symbol_bytes = kernel->index_bits / 8;
    l.bytes = l.symbols + kernel->symbols * l.symbol_bytes;
    l.is_in_buffer = l.bytes > unit->push_bytes;
    l.binding = has_addresses ? 0 : l.buffers;
    return l;
}

struct spirv_layout spirv_layout(const struct tile_kernel *kernel, const struct target *target) {
    const struct target_spirv *unit = target->spirv;
    struct spirv_layout l = layout_with(kernel, unit, unit->is_far);
    bool fits = l.has_addresses || !unit->has_addresses || l.buffers + l.is_in_buffer <= unit->buffers;
    return fits ? l : layout_with(kernel, unit, true);
}

// Functions -------------------------------------------------------------------------------------------------

bool spirv_fail(struct spirv_program *p, const char *why, const char *what) {
    struct tile_place none = {0};
    if (!p->failed)
        tile_error_at(ZL_ERROR_COMPILE, p->kernel->file ? p->kernel->file : p->kernel->name,
                      p->kernel->source, p->at ? p->at->place : none, "%s: %s%s",
                      p->at ? tile_stmt_name(p->at->kind) : "kernel", why, what);
    return !(p->failed = true);
}

// Loads a built-in input of the thread. `standard` has its number in the specification. All are vectors,
// except the lane.
static spirv_id built_in(struct spirv_program *p, enum spirv_built_in which) {
    static const uint32_t standard[] = {26, 27, 41};
    spirv_id type =
                 which == SPIRV_LANE ? spirv_uint(&p->m, 32) : spirv_vector(&p->m, spirv_uint(&p->m, 32), 3),
             *v = &p->built_in[which];
    if (!*v) {
        *v = spirv_global(&p->m, SPIRV_INPUT, type);
        spirv_decorate(&p->m, *v, SPIRV_BUILT_IN, 1, standard[which]);
    }
    return spirv_load(&p->m, type, *v);
}

static void set_name(struct spirv_program *p, const struct tile_name *name, spirv_id word) {
    static const struct tile_type u32 = {TILE_UINT, 32, 1};
    p->value[name->id] = spirv_convert(p, name->type, u32, word);
}

// Loads the arguments, which are the same for all threads of a launch.
static void load_arguments(struct spirv_program *p) {
    const struct tile_kernel *k = p->kernel;
    struct tile_type type = {TILE_UINT, p->layout.has_addresses ? 64 : 32, 1};
    for (int i = 0; i < p->layout.buffers; i++)
        p->before[i] = spirv_argument_value(p, type, i * tile_type_bytes(type));
    for (int i = 0; i < k->parameters; i++) {
        const struct tile_name *name = k->parameter[i].is_scalar ? k->parameter[i].scalar : NULL;
        if (name && tile_type_is_complex(name->type))
            spirv_fail(p, "the target has no complex scalars: ", name->text);
        else if (name)
            p->value[name->id] =
                spirv_argument_value(p, name->type, spirv_layout_parameter(&p->layout, k, i));
    }
    for (int i = 0; i < k->symbols; i++)
        p->value[k->symbol[i]->id] =
            spirv_argument_value(p, k->symbol[i]->type, p->layout.symbols + i * p->layout.symbol_bytes);
}

// Computes the strides that are not constants, in the type of places.
static void compute_strides(struct spirv_program *p, const struct tile_buffer *b) {
    struct tile_type type = spirv_place_type(p, b);
    for (int i = 0; i < b->ndim; i++) {
        if (program_stride(b, i) >= 0)
            continue;
        int count = b->stride ? 1 : b->ndim - 1 - i;
        const expr *factor = b->stride ? &b->stride[i] : &b->shape[i + 1];
        spirv_id product = 0;
        spirv_nodes(p, count, factor);
        for (int k = 0; k < count; k++) {
            spirv_id one = spirv_index_as(p, type, factor[k]);
            product = product ? spirv_value(&p->m, SPIRV_IMul, spirv_type(p, type), product, one) : one;
        }
        p->stride[b->id * TILE_DIMS + i] = product;
    }
}

static void strides_of_statements(struct spirv_program *p, const struct tile_stmt *s) {
    for (; s; s = s->next) {
        if (s->kind == TILE_ALLOC)
            compute_strides(p, s->buffer);
        if (s->kind != TILE_GRID) {
            strides_of_statements(p, s->body);
            strides_of_statements(p, s->other);
        }
    }
}

// Declares the variables of statements and sets them to 0.
static void declare_locals(struct spirv_program *p, const struct tile_stmt *s) {
    for (; s; s = s->next) {
        const struct tile_name *name = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
        if (name && tile_type_is_complex(name->type))
            spirv_fail(p, "the target has no complex variables: ", name->text);
        else if (name && !p->variable[name->id]) {
            p->variable[name->id] = spirv_local(&p->m, spirv_type(p, name->type));
            spirv_do(&p->m, SPIRV_Store, p->variable[name->id], spirv_constant_of(p, name->type, 0));
        }
        declare_locals(p, s->body);
        declare_locals(p, s->other);
    }
}

// Computes the coordinates of a block; the first name of the grid varies fastest.
static void name_blocks(struct spirv_program *p, const struct tile_stmt *grid, spirv_id block) {
    spirv_nodes(p, grid->indices, grid->extent);
    for (int i = 0; i < grid->indices; i++) {
        bool is_last = i + 1 == grid->indices;
        spirv_id extent = is_last ? 0 : spirv_index(p, grid->extent[i]);
        set_name(p, grid->name[i], is_last ? block : spirv_op(p, SPIRV_UMod, block, extent));
        block = is_last ? block : spirv_op(p, SPIRV_UDiv, block, extent);
    }
}

static void body(struct spirv_program *p, const struct tile_stmt *grid, spirv_id block) {
    const struct tile_stmt *threads = grid->body;
    for (int i = 0; i < p->kernel->parameters; i++)
        if (!p->kernel->parameter[i].is_scalar)
            compute_strides(p, p->kernel->parameter[i].buffer);
    strides_of_statements(p, p->kernel->body);
    strides_of_statements(p, threads);
    name_blocks(p, grid, block);
    p->thread = spirv_part(p, built_in(p, SPIRV_THREAD), 0);
    set_name(p, threads->name[0], p->thread);
    if (pass_find_kind(threads, TILE_SHUFFLE)) {
        spirv_need(&p->m, SPIRV_NON_UNIFORM);
        p->lane = built_in(p, SPIRV_LANE);
    }
    declare_locals(p, threads->body);
    spirv_block_of(p, threads->body);
}

static void set_modes(struct spirv_program *p, spirv_id function) {
    const struct {
        uint32_t floats;
        enum spirv_capability capability;
        enum spirv_mode mode;
    } modes[] = {{p->unit->rounds, SPIRV_ROUNDS, SPIRV_MODE_ROUNDS},
                 {p->unit->keeps_small, SPIRV_KEEPS_SMALL, SPIRV_MODE_SMALL},
                 {p->unit->keeps_special, SPIRV_KEEPS_SPECIAL, SPIRV_MODE_SPECIAL}};
    static const zl_dtype floats[] = {ZL_FLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    for (size_t i = 0; i < COUNT(modes); i++)
        for (size_t k = 0; k < COUNT(floats); k++)
            if (modes[i].floats & PASS_BIT(floats[k])) {
                spirv_need(&p->m, modes[i].capability);
                spirv_mode(&p->m, function, modes[i].mode, 16 << k);
            }
}

// Writes the function of a grid. In a launch of several rows, workgroups after the last block do nothing.
static void function(struct spirv_program *p, const struct tile_stmt *grid, const char *symbol, int at) {
    struct spirv_function f;
    struct text name = {0};
    memset(p->variable, 0, sizeof *p->variable * (size_t)p->kernel->names);
    p->shared = 0;
    p->exchange = (struct spirv_memory){0};
    p->threads = grid->threads;
    spirv_function_open(&p->m, &f, 0, 0, NULL, NULL);
    load_arguments(p);
    spirv_id group = built_in(p, SPIRV_GROUP_NUMBER);
    spirv_id column = spirv_part(p, group, 0), row = spirv_part(p, group, 1);
    spirv_id block = spirv_op(p, SPIRV_IAdd, column, spirv_op_by(p, SPIRV_IMul, row, SPIRV_ROW));
    spirv_id groups = spirv_argument(p, spirv_u32(p, (uint32_t)p->layout.groups / 4));
    spirv_id then = spirv_new(&p->m), merge = spirv_new(&p->m);
    spirv_choose(&p->m, spirv_test(p, SPIRV_ULessThan, block, groups), then, merge, merge);
    spirv_label(&p->m, then);
    body(p, grid, block);
    if (p->exchange.is_known &&
        p->shared > p->target->group->most_shared + TARGET_EXCHANGED * TARGET_EXCHANGERS)
        spirv_fail(p, "matrices leave too little shared memory for the kernel", "");
    spirv_label(&p->m, merge);
    spirv_function_close(&p->m, 0);
    text_add(&name, "%s_%d", symbol, at);
    if (name.failed)
        p->failed = true;
    else
        spirv_entry(&p->m, f.id, name.data, grid->threads);
    set_modes(p, f.id);
    text_free(&name);
}

static bool open_program(struct spirv_program *p) {
    const struct tile_kernel *k = p->kernel;
    p->node = arena_alloc(&p->arena, sizeof *p->node * (size_t)(k->ids + 1));
    p->value = arena_alloc(&p->arena, sizeof *p->value * (size_t)(k->names + 1));
    p->variable = arena_alloc(&p->arena, sizeof *p->variable * (size_t)(k->names + 1));
    p->stride = arena_alloc(&p->arena, sizeof *p->stride * (size_t)(k->buffers + 1) * TILE_DIMS);
    p->memory = arena_alloc(&p->arena, sizeof *p->memory * (size_t)(k->buffers + 1));
    p->before = arena_alloc(&p->arena, sizeof *p->before * (size_t)(p->layout.buffers + 1));
    return p->node && p->value && p->variable && p->stride && p->memory && p->before;
}

static bool render(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    struct spirv_program p = {.kernel = kernel,
                              .target = s->target,
                              .unit = s->target->spirv,
                              .layout = spirv_layout(kernel, s->target)};
    int at = 0;
    bool good = open_program(&p);
    bool has_matrices = pass_find_kind(kernel->body, TILE_GEMM);
    p.is_vulkan = has_matrices || p.layout.has_addresses;
    spirv_open(&p.m, has_matrices, p.layout.has_addresses);
    if (good) {
        spirv_find_memory(&p);
        for (const struct tile_stmt *g = kernel->body; g && !p.failed; g = g->next)
            if (g->kind == TILE_GRID)
                function(&p, g, symbol, at++);
        spirv_bind_rest(&p);
    }
    good = spirv_close(&p.m, s->out) && good && !p.failed;
    arena_free(&p.arena);
    return good;
}

// The dialect -----------------------------------------------------------------------------------------------

#define NUMBERS (PASS_INTEGER | PASS_FLOAT)
static const struct target_group group = {.threads = 128, .flat_threads = 256, .vector_bytes = 16};

// clang-format off
// The features that units of Vulkan are expected to have.
static const struct target_spirv common = {
    .has_i64 = true, .has_f64 = true, .has_bytes = true, .has_halves = true, .has_small_bytes = true, .has_small_halves = true,
    .has_exact_divide = true, .has_exact_root = true, .push_bytes = 128};

const struct dialect dialect_spirv_tiles = {
    .target = {.name = "spirv_tiles", .called = "vulkan", .op = scalar_plain_words, .is_program = true, .group = &group, .spirv = &common,
               .cast = {[ZL_UINT8] = PASS_INTEGER, [ZL_UINT16] = PASS_INTEGER, [ZL_UINT32] = NUMBERS, [ZL_UINT64] = NUMBERS,
                        [ZL_INT8] = PASS_INTEGER, [ZL_INT16] = PASS_INTEGER, [ZL_INT32] = NUMBERS, [ZL_INT64] = NUMBERS,
                        [ZL_FLOAT16] = PASS_BIT(ZL_FLOAT32), [ZL_BFLOAT16] = PASS_BIT(ZL_FLOAT32),
                        [ZL_FLOAT32] = NUMBERS | SCALAR_HALVES, [ZL_FLOAT64] = NUMBERS}},
    .program = render};
// clang-format on
