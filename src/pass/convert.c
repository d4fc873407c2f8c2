// convert.c - replaces conversions that the target does not have by chains of those that it has.
//
// Steps: through f32 for 16-bit floats (as casts are defined), through the next size for integers, through a
// wider integer and its bounds for floats. Each chain gives the same bits as the one conversion.

#include "pass/pass.h"

static const struct tile_type f32 = {TILE_FLOAT, 32, 1}, f64 = {TILE_FLOAT, 64, 1};

static struct tile_type integer(enum tile_kind kind, int bits) {
    return (struct tile_type){(uint8_t)kind, (uint8_t)bits, 1};
}

// Converts between integers: a change of signedness keeps the bits; sizes change by factors of two.
static expr between_integers(struct tile_type to, expr x) {
    struct tile_type from = x->type;
    if (from.bits == to.bits)
        return tile_bitcast(to, x);
    if (from.bits > to.bits)
        return tile_cast(to, tile_cast(integer(from.kind, from.bits / 2), x));
    return tile_cast(to, tile_cast(integer(from.kind, from.bits * 2), x));
}

// Limits an integer x to the bounds of a smaller type.
static expr bounded(struct tile_type to, expr x) {
    if (!x)
        return NULL;
    int64_t high = to.kind == TILE_INT ? ((int64_t)1 << (to.bits - 1)) - 1 : ((int64_t)1 << to.bits) - 1;
    int64_t low = to.kind == TILE_INT ? -high - 1 : 0;
    expr above = tile_binary(TILE_MAX, x, tile_const_int(x->type, low));
    return tile_binary(TILE_MIN, above, tile_const_int(x->type, high));
}

// Converts to an integer, saturating: to 32 bits from f32, to 64 bits from f64, to fewer bits through 32 bits
// and the bounds.
static expr to_integer(struct tile_type to, expr x) {
    if (to.bits == 64)
        return tile_cast(to, tile_cast(f64, x));
    if (to.bits < 32)
        return tile_cast(to, bounded(to, tile_cast(integer(TILE_INT, 32), x)));
    return tile_cast(to, tile_cast(f32, x));
}

// Converts an integer to a float: small integers through 32 bits; others to 16 bits through f32, else through
// 64 bits, as f64 holds every integer of 32 bits exactly.
static expr from_integer(struct tile_type to, expr x) {
    struct tile_type from = x->type;
    if (from.bits < 32)
        return tile_cast(to, tile_cast(integer(from.kind, 32), x));
    return to.bits == 16 ? tile_cast(to, tile_cast(f32, x))
                         : tile_cast(to, tile_cast(integer(from.kind, 64), x));
}

static expr step(const struct target *target, expr e) {
    expr x = e->arg[0];
    struct tile_type to = e->type, from = x->type;
    if (tile_type_is_bool(to) && target_spells_op(target, TILE_NE, from))
        return tile_binary(TILE_NE, x, tile_const(from, 0));
    if (tile_type_is_bool(from))
        return tile_ternary(TILE_SELECT, x, tile_const(to, 1), tile_const(to, 0));
    if (tile_type_is_integer(to) && tile_type_is_integer(from))
        return between_integers(to, x);
    if (tile_type_is_half(from) || (tile_type_is_half(to) && tile_type_is_float(from)))
        return tile_cast(to, tile_cast(f32, x));
    if (tile_type_is_integer(to))
        return to_integer(to, x);
    return from_integer(to, x);
}

static expr rule(const struct target *target, expr e) {
    if (e->op != TILE_CAST || target_casts(target, e->type, e->arg[0]->type))
        return e;
    expr next = step(target, e);
    if (next && next != e)
        return next;
    return error_set(ZL_ERROR_COMPILE, "pass convert: target %s has no way from %s to %s",
                     target_called(target), tile_type_name(e->arg[0]->type), tile_type_name(e->type));
}

bool pass_convert(struct tile_kernel *kernel, const struct target *target) {
    return pass_rewrite(kernel, target, rule);
}
