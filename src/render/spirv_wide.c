// spirv_wide.c - integers of 64 bits as pairs of words, for units that have none.

#include "render/spirv_program.h"

bool spirv_is_pair(const struct spirv_program *p, struct tile_type type) {
    return tile_type_is_integer(type) && type.bits == 64 && !p->unit->has_i64;
}

spirv_id spirv_wide_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    spirv_fail(p, "the unit has no integers of 64 bits for ", tile_op_name(e->op));
    return operand[0];
}

spirv_id spirv_wide_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    (void)from;
    spirv_fail(p, "the unit has no integers of 64 bits for ", tile_type_name(to));
    return x;
}
