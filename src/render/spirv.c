// spirv.c - the dialect `spirv_tiles`: its record, and where the arguments of its functions lie.

#include "render/spirv.h"
#include "render/render.h"
#include "render/scalar.h"

// Arguments -------------------------------------------------------------------------------------------------------------

static int words_of(const struct tile_parameter *p) {
    int64_t elements = p->is_scalar ? 1 : pass_product(p->buffer->ndim, p->buffer->shape);
    return (int)(elements * tile_type_bytes(p->is_scalar ? p->scalar->type : p->buffer->type) + 3) / 4;
}

static int count_bindings(const struct tile_kernel *kernel) {
    int count = render_has_status(kernel);
    for (int i = 0; i < kernel->parameters; i++)
        count += !tile_is_by_value(&kernel->parameter[i]);
    for (const struct tile_stmt *s = kernel->body; s; s = s->next)
        count += s->kind == TILE_ALLOC && !s->buffer->base;
    return count;
}

int spirv_layout_parameter(const struct tile_kernel *kernel, int parameter) {
    int word = count_bindings(kernel) + 1;
    for (int i = 0; i < parameter; i++)
        word += tile_is_by_value(&kernel->parameter[i]) ? words_of(&kernel->parameter[i]) : 0;
    return 4 * word;
}

struct spirv_layout spirv_layout(const struct tile_kernel *kernel, const struct target *target) {
    struct spirv_layout l = {.bindings = count_bindings(kernel), .symbol_bytes = kernel->index_bits / 8};
    l.groups = 4 * l.bindings;
    l.symbols = spirv_layout_parameter(kernel, kernel->parameters);
    l.bytes = l.symbols + kernel->symbols * l.symbol_bytes;
    l.is_in_buffer = l.bytes > target->spirv->push_bytes;
    return l;
}

// The dialect -----------------------------------------------------------------------------------------------------------

static const struct spelling words[TILE_OP_COUNT] = {[TILE_ADD] = {PASS_INTEGER | PASS_FLOAT, ""}};

static const struct target_group group = {.threads = 128, .flat_threads = 128, .vector_bytes = 16};

// What every unit can be expected to have.
static const struct target_spirv common = {.has_i64 = true,
                                           .has_f64 = true,
                                           .has_bytes = true,
                                           .has_halves = true,
                                           .has_small_bytes = true,
                                           .has_small_halves = true,
                                           .has_exact_divide = true,
                                           .has_exact_root = true,
                                           .push_bytes = 128};

static bool render(struct style *s, const struct tile_kernel *kernel, const char *symbol) {
    (void)s, (void)symbol;
    return error_false(ZL_ERROR_COMPILE, "kernel %s: no SPIR-V yet", kernel->name);
}

bool spirv_disassemble(struct text *out, const char *code, size_t bytes) {
    (void)out, (void)code, (void)bytes;
    return error_false(ZL_ERROR_VALUE, "no SPIR-V yet");
}

const struct dialect dialect_spirv_tiles = {
    .target = SCALAR_TARGET("spirv_tiles", words, .is_program = true, .group = &group, .spirv = &common, ),
    .prelude = "",
    .program = render};
