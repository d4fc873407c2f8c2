// target.c - answers questions about a target from its record.

#include "pass/pass.h"

static bool has(uint32_t set, struct tile_type type) {
    zl_dtype dtype = tile_dtype_of(type);
    return dtype < ZL_DTYPE_COUNT && (set & PASS_BIT(dtype));
}

const char *target_called(const struct target *target) {
    return target->called ? target->called : target->name;
}

bool target_spells_op(const struct target *target, enum tile_op op, struct tile_type operand) {
    return has(target->op[op].dtypes, operand);
}

bool target_casts(const struct target *target, struct tile_type to, struct tile_type from) {
    zl_dtype dtype = tile_dtype_of(to);
    return dtype < ZL_DTYPE_COUNT && has(target->cast[dtype], from);
}

bool target_spells(const struct target *target, expr e) {
    if (e->op == TILE_CAST)
        return target_casts(target, e->type, e->arg[0]->type);
    if (tile_op_is_row(e->op) || e->op == TILE_FMA || e->op == TILE_RARE || e->op == TILE_EXP2)
        return target_spells_op(target, e->op, e->arg[e->args - 1]->type);
    return true;
}

// Cooperative matrices are read from padded rows, so that eight rows have no bank in common; other matrix
// instructions read swizzled rows.
int64_t target_row_bytes(const struct target *target, int64_t bytes) {
    return target->spirv ? bytes + 16 : bytes;
}

// Without asynchronous copies, a loop has one stage if there is no room for two.
int target_stages(const struct target *target, int wanted) {
    return target->group->has_async ? wanted : 1;
}

bool target_copies_ahead(const struct target *target) {
    return target->lanes || target->group->has_async;
}

// Copies to lanes are complete at the end of an iteration, so that one iteration ahead is enough.
int target_most_stages(const struct target *target, int wanted) {
    return target->lanes || !target->group->has_async ? 2 : wanted;
}

// A quarter of the lanes is left for other tiles of commands.
int64_t target_staged_bytes(const struct target *target) {
    if (target->lanes)
        return target->lanes->bytes * 64 / 4 * 3;
    return target->group->is_serial ? 0 : target->group->shared_bytes;
}

int target_matrix_threads(const struct target *target) {
    return target->spirv ? 256 : 1024;
}

int64_t target_matrix_bytes(const struct target *target, int threads) {
    return target->spirv ? MAX_OF(threads - TARGET_EXCHANGERS, 0) * TARGET_EXCHANGED : 0;
}

// Units -----------------------------------------------------------------------------------------------------

void target_set_unit(struct target_unit *out, const struct target *language, const char *model, int threads,
                     int64_t shared) {
    out->target = *language;
    out->group = *language->group;
    out->target.unit = model;
    out->target.group = &out->group;
    if (language->spirv) {
        out->spirv = *language->spirv;
        out->target.spirv = &out->spirv;
    }
    out->group.most_threads = threads;
    out->group.most_shared = shared;
}

void target_set_far(struct target_unit *unit, struct target_unit *far, uint64_t reach) {
    unit->spirv.has_addresses = true;
    *far = *unit;
    far->target.group = &far->group;
    far->target.spirv = &far->spirv;
    far->spirv.is_far = true;
    unit->target.reach = reach;
    unit->target.far = &far->target;
}

static bool multiplies_f16(zl_dtype a, zl_dtype b, zl_dtype c) {
    return a == b && a == ZL_FLOAT16 && c == ZL_FLOAT32;
}

static bool multiplies_halves(zl_dtype a, zl_dtype b, zl_dtype c) {
    return a == b && (a == ZL_FLOAT16 || a == ZL_BFLOAT16) && c == ZL_FLOAT32;
}

void target_set_matrices(struct target_unit *unit, uint32_t dtypes) {
    enum { TAKEN = TARGET_EXCHANGED * TARGET_EXCHANGERS };
    bool has_any = (dtypes & PASS_F16) && unit->group.subgroup == 32 && unit->spirv.has_shared_layout &&
                   unit->group.most_shared > TAKEN;
    unit->spirv.matrices = has_any ? dtypes : 0;
    unit->group.most_shared -= has_any ? TAKEN : 0;
    unit->group.shared_bytes = (int)MIN_OF(unit->group.shared_bytes, unit->group.most_shared);
    unit->target.multiplies = !has_any ? NULL : dtypes & PASS_BF16 ? multiplies_halves : multiplies_f16;
}

static bool is_wide_atomic(const struct tile_stmt *s, const void *data) {
    (void)data;
    return s->kind == TILE_ATOMIC && tile_type_bytes(s->buffer->type) == 8;
}

bool target_has_needs(const struct target *target, struct tile_kernel *kernel) {
    const char *unit = target->unit ? target->unit : "the unit";
    uint32_t lacking = target->lacks ? target->lacks & pass_dtypes(kernel) : 0;
    for (zl_dtype d = 0; d < ZL_DTYPE_COUNT; d++)
        if (lacking & PASS_BIT(d))
            return error_false(ZL_ERROR_COMPILE, "%s: kernel %s computes with %s, which %s does not have",
                               target_called(target), kernel->name, tile_type_name(tile_type_of(d)), unit);
    if (target->lacks_wide_atomics && pass_find(kernel->body, is_wide_atomic, NULL))
        return error_false(ZL_ERROR_COMPILE, "%s: kernel %s has atomics of 64 bits, which %s does not have",
                           target_called(target), kernel->name, unit);
    return !kernel->failed;
}
