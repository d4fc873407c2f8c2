// spirv_numbers.c - computes one op on values: arithmetic, comparisons, conversions. An op that the unit does
// not round once to nearest is computed in f64 or in parts.

#include "render/spirv/spirv_program.h"

#include <math.h>
#include <stdlib.h>

static const struct tile_type f32 = {TILE_FLOAT, 32, 1}, f64 = {TILE_FLOAT, 64, 1}, u32 = {TILE_UINT, 32, 1};

static spirv_id cast_bits(struct spirv_program *p, struct tile_type to, spirv_id x) {
    return spirv_as(p, spirv_type(p, to), x);
}

static spirv_id real(struct spirv_program *p, enum spirv_word how, struct tile_type type, spirv_id a,
                     spirv_id b) {
    return spirv_exact(&p->m, spirv_value(&p->m, how, spirv_type(p, type), a, b));
}

spirv_id spirv_constant_of(struct spirv_program *p, struct tile_type type, uint64_t bits) {
    if (tile_type_is_bool(type))
        return spirv_truth(&p->m, bits != 0);
    if (spirv_is_pair(p, type)) {
        spirv_id low = spirv_u32(p, (uint32_t)bits), high = spirv_u32(p, (uint32_t)(bits >> 32));
        return spirv_composite(&p->m, spirv_pair(&p->m), 2, (spirv_id[]){low, high});
    }
    if (type.kind == TILE_INT && type.bits < 32 && bits >> (type.bits - 1))
        bits |= ~UINT64_C(0) << type.bits;
    return spirv_constant(&p->m, spirv_type(p, type), type.bits == 64 ? 64 : 32,
                          type.bits == 64 ? bits : (uint32_t)bits);
}

spirv_id spirv_real(struct spirv_program *p, struct tile_type type, double value) {
    return spirv_constant_of(p, type, tile_bits_of(type, (union tile_value){.f = value}));
}

spirv_id spirv_narrow(struct spirv_program *p, struct tile_type type, spirv_id x) {
    if (type.bits >= 32)
        return x;
    if (type.kind != TILE_INT)
        return spirv_op_by(p, SPIRV_BitwiseAnd, x, (1u << type.bits) - 1);
    spirv_id first = spirv_u32(p, 0), count = spirv_u32(p, type.bits);
    return spirv_value(&p->m, SPIRV_BitFieldSExtract, spirv_uint(&p->m, 32), x, first, count);
}

// Tests for NaN by the bits, because on some units comparisons need not detect it.
static spirv_id is_nan(struct spirv_program *p, struct tile_type type, spirv_id x) {
    if (type.bits == 64 || p->unit->keeps_special & PASS_BIT(ZL_FLOAT32)) // for these, comparisons do
        return spirv_test(p, SPIRV_FUnordNotEqual, x, x);
    spirv_id size = spirv_op_by(p, SPIRV_BitwiseAnd, cast_bits(p, u32, x), 0x7fffffff);
    return spirv_test_by(p, SPIRV_UGreaterThan, size, 0x7f800000);
}

static spirv_id high_word(struct spirv_program *p, struct tile_type type, spirv_id x) {
    return type.bits == 32 ? cast_bits(p, u32, x) : spirv_part(p, spirv_as(p, spirv_pair(&p->m), x), 1);
}

static spirv_id is_negative(struct spirv_program *p, struct tile_type type, spirv_id x) {
    return spirv_test_by(p, SPIRV_SLessThan, high_word(p, type, x), 0);
}

static spirv_id multiply_add(struct spirv_program *p, struct tile_type type, const spirv_id *operand) {
    if (p->unit->has_exact_fma)
        return spirv_exact(&p->m, spirv_glsl(&p->m, SPIRV_FMA, spirv_type(p, type), 3, operand));
    enum spirv_helper in_f32 = p->unit->has_f64 ? SPIRV_HELP_FMA_IN_F64 : SPIRV_HELP_FMA;
    return spirv_call(p, type.bits == 64 ? SPIRV_HELP_WIDE_FMA : in_f32, operand);
}

static spirv_id floor_divide(struct spirv_program *p, expr e, const spirv_id *operand) {
    spirv_id type = spirv_type(p, e->type);
    if (e->type.kind == TILE_INT)
        return spirv_call(p, e->type.bits == 64 ? SPIRV_HELP_WIDE_DIVIDE : SPIRV_HELP_DIVIDE, operand);
    if (pass_certain_range(e->arg[1]).low > 0)
        return spirv_value(&p->m, SPIRV_UDiv, type, operand[0], operand[1]);
    spirv_id zero = spirv_constant_of(p, e->type, 0), is_zero = spirv_test(p, SPIRV_IEqual, operand[1], zero);
    spirv_id by = spirv_pick(p, e->type, is_zero, spirv_constant_of(p, e->type, 1), operand[1]);
    return spirv_pick(p, e->type, is_zero, zero, spirv_value(&p->m, SPIRV_UDiv, type, operand[0], by));
}

// Changes only the bit of the sign: the arithmetic of units need not keep the sign of 0.
static spirv_id of_sign(struct spirv_program *p, enum tile_op op, struct tile_type type, spirv_id x) {
    enum spirv_word how = op == TILE_NEG ? SPIRV_BitwiseXor : SPIRV_BitwiseAnd;
    if (type.bits == 16)
        return spirv_op_by(p, how, x, op == TILE_NEG ? 0x8000 : 0x7fff);
    spirv_id top = spirv_op_by(p, how, high_word(p, type, x), op == TILE_NEG ? 0x80000000 : 0x7fffffff);
    if (type.bits == 32)
        return cast_bits(p, type, top);
    spirv_id low = spirv_part(p, spirv_as(p, spirv_pair(&p->m), x), 0);
    return cast_bits(p, type, spirv_join(p, low, top));
}

// Computes a quotient or root of f32 in f64, which has more than twice as many digits and so rounds to the
// same number.
static spirv_id in_f64(struct spirv_program *p, enum tile_op op, const spirv_id *operand) {
    spirv_id wide[2], result;
    for (int i = 0; i < (op == TILE_DIV ? 2 : 1); i++)
        wide[i] = spirv_convert(p, f64, f32, operand[i]);
    result = op == TILE_DIV ? real(p, SPIRV_FDiv, f64, wide[0], wide[1])
                            : spirv_glsl(&p->m, SPIRV_SQRT, spirv_type(p, f64), 1, wide);
    return spirv_convert(p, f32, f64, result);
}

// Returns whether a divisor is a constant power of two, so that its inverse is a float: the product with it
// rounds as the quotient does.
static bool has_inverse(expr e, uint64_t *inverse) {
    int exponent = 0;
    double x = e->op == TILE_CONST ? tile_value_of(e->type, e->bits).f : 0;
    bool is_power = fabs(frexp(x, &exponent)) == 0.5;
    *inverse = is_power ? tile_bits_of(e->type, (union tile_value){.f = 1 / x}) : 0;
    return is_power && abs(exponent) < 100;
}

// Computes a quotient or root that the unit need not round correctly.
static spirv_id made_exact(struct spirv_program *p, expr e, const spirv_id *operand) {
    uint64_t inverse;
    if (e->op == TILE_DIV && has_inverse(e->arg[1], &inverse))
        return real(p, SPIRV_FMul, f32, operand[0], spirv_constant_of(p, f32, inverse));
    if (e->op != TILE_DIV || !p->unit->has_exact_fma)
        return in_f64(p, e->op, operand);
    return spirv_call(p, SPIRV_HELP_QUOTIENT, operand);
}

static bool is_inexact(const struct spirv_program *p, expr e) {
    bool is_lacking =
        (e->op == TILE_DIV && !p->unit->has_exact_divide) || (e->op == TILE_SQRT && !p->unit->has_exact_root);
    return is_lacking && e->type.bits == 32 && p->unit->has_f64 && !p->is_plain;
}

// Returns whether a value is a constant that is neither NaN nor 0.
static bool is_plain(expr e) {
    double x = e->op == TILE_CONST ? tile_value_of(e->type, e->bits).f : 0;
    return x < 0 || x > 0;
}

// Returns the larger or smaller value; NaN if one is NaN, and -0 is less than 0. If one operand is a plain
// constant, one comparison is enough, which is true for NaN.
static spirv_id extreme(struct spirv_program *p, expr e, struct tile_type type, spirv_id a, spirv_id b) {
    bool is_max = e->op == TILE_MAX, is_first = is_plain(e->arg[0]);
    if ((is_first || is_plain(e->arg[1])) && p->unit->keeps_special & PASS_BIT(tile_dtype_of(type))) {
        spirv_id x = is_first ? b : a, bound = is_first ? a : b;
        return spirv_pick(p, type,
                          spirv_test(p, is_max ? SPIRV_FUnordGreaterThan : SPIRV_FUnordLessThan, x, bound), x,
                          bound);
    }
    spirv_id is_equal = spirv_test(p, SPIRV_FOrdEqual, a, b), sign = is_negative(p, type, is_max ? b : a);
    spirv_id first = spirv_test(p, is_max ? SPIRV_FOrdGreaterThan : SPIRV_FOrdLessThan, a, b);
    first = spirv_test(p, SPIRV_LogicalOr, first, spirv_test(p, SPIRV_LogicalAnd, is_equal, sign));
    first = spirv_test(p, SPIRV_LogicalOr, first, is_nan(p, type, a));
    return spirv_pick(p, type, first, a, b);
}

// Ops that are one instruction: on floats, on signed and unsigned integers, on booleans; 0: there is none.
static const struct words {
    enum spirv_word of_float, of_int, of_uint, of_truth;
} words[TILE_OP_COUNT] = {
    [TILE_ADD] = {SPIRV_FAdd, SPIRV_IAdd, SPIRV_IAdd, 0},
    [TILE_SUB] = {SPIRV_FSub, SPIRV_ISub, SPIRV_ISub, 0},
    [TILE_MUL] = {SPIRV_FMul, SPIRV_IMul, SPIRV_IMul, 0},
    [TILE_DIV] = {SPIRV_FDiv, 0, 0, 0},
    [TILE_AND] = {0, SPIRV_BitwiseAnd, SPIRV_BitwiseAnd, SPIRV_LogicalAnd},
    [TILE_OR] = {0, SPIRV_BitwiseOr, SPIRV_BitwiseOr, SPIRV_LogicalOr},
    [TILE_XOR] = {0, SPIRV_BitwiseXor, SPIRV_BitwiseXor, SPIRV_LogicalNotEqual},
    [TILE_NOT] = {0, SPIRV_Not, SPIRV_Not, SPIRV_LogicalNot},
    [TILE_EQ] = {SPIRV_FOrdEqual, SPIRV_IEqual, SPIRV_IEqual, 0},
    [TILE_NE] = {SPIRV_FUnordNotEqual, SPIRV_INotEqual, SPIRV_INotEqual, 0},
    [TILE_LT] = {SPIRV_FOrdLessThan, SPIRV_SLessThan, SPIRV_ULessThan, 0},
    [TILE_LE] = {SPIRV_FOrdLessThanEqual, SPIRV_SLessThanEqual, SPIRV_ULessThanEqual, 0},
    [TILE_GT] = {SPIRV_FOrdGreaterThan, SPIRV_SGreaterThan, SPIRV_UGreaterThan, 0},
    [TILE_GE] = {SPIRV_FOrdGreaterThanEqual, SPIRV_SGreaterThanEqual, SPIRV_UGreaterThanEqual, 0},
};

static enum spirv_word word_of(enum tile_op op, struct tile_type type) {
    const struct words *w = &words[op];
    return tile_type_is_bool(type)    ? w->of_truth
           : tile_type_is_float(type) ? w->of_float
           : type.kind == TILE_INT    ? w->of_int
                                      : w->of_uint;
}

static spirv_id plain_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    enum spirv_word word = word_of(e->op, e->arg[0]->type);
    if (!word) {
        spirv_fail(p, "the target has no form of ", tile_op_name(e->op));
        return operand[0];
    }
    spirv_id result = spirv_value_list(&p->m, word, spirv_type(p, e->type), e->args, operand);
    return tile_type_is_float(e->type) ? spirv_exact(&p->m, result) : result;
}

static spirv_id float_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    struct tile_type type = e->arg[0]->type;
    spirv_id t = spirv_type(p, type);
    if (is_inexact(p, e))
        return made_exact(p, e, operand);
    switch (e->op) {
    case TILE_NEG:
    case TILE_ABS: return of_sign(p, e->op, type, operand[0]);
    case TILE_SQRT: return spirv_glsl(&p->m, SPIRV_SQRT, t, 1, operand);
    case TILE_FLOOR: return spirv_glsl(&p->m, SPIRV_FLOOR, t, 1, operand);
    case TILE_CEIL: return spirv_glsl(&p->m, SPIRV_CEIL, t, 1, operand);
    case TILE_RINT: return spirv_glsl(&p->m, SPIRV_ROUND_EVEN, t, 1, operand);
    case TILE_TRUNC: return spirv_glsl(&p->m, SPIRV_TRUNC, t, 1, operand);
    case TILE_MAX:
    case TILE_MIN: return extreme(p, e, type, operand[0], operand[1]);
    case TILE_NE:
        return operand[0] == operand[1] ? is_nan(p, type, operand[0]) : plain_operation(p, e, operand);
    case TILE_FMA: return multiply_add(p, type, operand);
    default: return plain_operation(p, e, operand);
    }
}

// A shift by all bits of the number, or more, gives 0; a signed shift to the right gives the sign.
static spirv_id shift(struct spirv_program *p, expr e, const spirv_id *operand) {
    bool is_signed = e->op == TILE_SHR && e->type.kind == TILE_INT;
    spirv_id t = spirv_type(p, e->type), by = operand[1];
    enum spirv_word how = e->op == TILE_SHL ? SPIRV_ShiftLeftLogical
                          : is_signed       ? SPIRV_ShiftRightArithmetic
                                            : SPIRV_ShiftRightLogical;
    if (e->arg[1]->op == TILE_CONST && e->arg[1]->bits < e->type.bits)
        return spirv_value(&p->m, how, t, operand[0], by);
    spirv_id fits = spirv_test(p, SPIRV_ULessThan, by, spirv_constant_of(p, e->type, e->type.bits));
    by = spirv_pick(p, e->type, fits, by, spirv_constant_of(p, e->type, is_signed ? e->type.bits - 1 : 0));
    spirv_id moved = spirv_value(&p->m, how, t, operand[0], by);
    return is_signed ? moved : spirv_pick(p, e->type, fits, moved, spirv_constant_of(p, e->type, 0));
}

static spirv_id integer_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    struct tile_type type = e->arg[0]->type;
    spirv_id a = operand[0], b = operand[1], zero = spirv_constant_of(p, type, 0);
    switch (e->op) {
    case TILE_NEG: return spirv_value(&p->m, SPIRV_ISub, spirv_type(p, type), zero, a);
    case TILE_ABS: {
        spirv_id is_below = spirv_test(p, SPIRV_SLessThan, a, zero);
        return spirv_pick(p, type, is_below, spirv_value(&p->m, SPIRV_ISub, spirv_type(p, type), zero, a), a);
    }
    case TILE_SHL:
    case TILE_SHR: return shift(p, e, operand);
    case TILE_FLOORDIV: return floor_divide(p, e, operand);
    case TILE_MAX:
    case TILE_MIN: {
        enum spirv_word is_first = word_of(e->op == TILE_MAX ? TILE_GT : TILE_LT, type);
        return spirv_pick(p, type, spirv_test(p, is_first, a, b), a, b);
    }
    default: return plain_operation(p, e, operand);
    }
}

spirv_id spirv_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    struct tile_type type = e->arg[0]->type;
    if (e->op == TILE_SELECT || e->op == TILE_RARE)
        return spirv_pick(p, e->type, operand[0], operand[1], operand[2]);
    if (e->op == TILE_BITCAST)
        return spirv_from_bits(p, e->type, spirv_to_bits(p, type, operand[0]));
    if (e->op == TILE_CAST)
        return spirv_convert(p, e->type, type, operand[0]);
    if (tile_type_is_bool(type))
        return plain_operation(p, e, operand);
    if (tile_type_is_float(type))
        return float_operation(p, e, operand);
    if (spirv_is_pair(p, type))
        return spirv_wide_operation(p, e, operand);
    spirv_id result = integer_operation(p, e, operand);
    return tile_type_is_bool(e->type) ? result : spirv_narrow(p, e->type, result);
}

// Converts by the unit's own 16-bit floats. They are not used for the other direction, where NVIDIA's do not
// round to nearest, whatever mode is set.
static spirv_id from_own_half(struct spirv_program *p, spirv_id x) {
    spirv_need(&p->m, SPIRV_INT16);
    x = spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 16), x);
    return spirv_value(&p->m, SPIRV_FConvert, spirv_type(p, f32), spirv_as(p, spirv_float(&p->m, 16), x));
}

static spirv_id between_halves(struct spirv_program *p, struct tile_type to, struct tile_type from,
                               spirv_id x) {
    if (from.kind == TILE_BFLOAT)
        return cast_bits(p, f32, spirv_op_by(p, SPIRV_ShiftLeftLogical, x, 16));
    const struct target_spirv *u = p->unit;
    if (tile_type_is_half(from) && u->has_f16 && u->has_small_halves &&
        u->keeps_small & u->keeps_special & PASS_F16)
        return from_own_half(p, x);
    enum spirv_helper to_it = to.kind == TILE_BFLOAT ? SPIRV_HELP_TO_BRAIN : SPIRV_HELP_TO_HALF;
    return spirv_call(p, tile_type_is_half(from) ? SPIRV_HELP_FROM_HALF : to_it, &x);
}

// Saturates; NaN gives 0. Outside of the bounds, the result of the conversion itself is not used.
static spirv_id to_integer(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    bool is_signed = to.kind == TILE_INT;
    double most = is_signed ? (to.bits == 64 ? 0x1p63 : 0x1p31) : (to.bits == 64 ? 0x1p64 : 0x1p32);
    uint64_t ones = to.bits == 64 ? UINT64_MAX : UINT32_MAX, sign = UINT64_C(1) << (to.bits - 1);
    spirv_id high = spirv_real(p, from, most), low = spirv_real(p, from, is_signed ? -most : 0);
    spirv_id largest = spirv_constant_of(p, to, is_signed ? sign - 1 : ones),
             least = spirv_constant_of(p, to, is_signed ? sign : 0), zero = spirv_constant_of(p, to, 0);
    spirv_id y = spirv_value(&p->m, is_signed ? SPIRV_ConvertFToS : SPIRV_ConvertFToU, spirv_type(p, to), x);
    y = spirv_pick(p, to, spirv_test(p, SPIRV_FOrdGreaterThanEqual, x, high), largest, y);
    y = spirv_pick(p, to, spirv_test(p, SPIRV_FOrdLessThanEqual, x, low), least, y);
    return spirv_pick(p, to, is_nan(p, from, x), zero, y);
}

spirv_id spirv_extend_word(struct spirv_program *p, struct tile_type from, spirv_id x) {
    bool is_signed = from.kind == TILE_INT;
    return spirv_join(p, x, is_signed ? spirv_op_by(p, SPIRV_ShiftRightArithmetic, x, 31) : spirv_u32(p, 0));
}

// The sign is extended by ops of its own: Mesa 22 treats an integer that was converted and then compared with
// a constant as unsigned.
static spirv_id between_integers(struct spirv_program *p, struct tile_type to, struct tile_type from,
                                 spirv_id x) {
    if (to.bits == 64 && from.bits == 64)
        return x;
    if (to.bits == 64)
        return cast_bits(p, to, spirv_extend_word(p, from, x));
    return spirv_narrow(p, to,
                        from.bits == 64 ? spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 32), x) : x);
}

spirv_id spirv_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    if (tile_type_equal(to, from))
        return x;
    if (spirv_is_pair(p, to) || spirv_is_pair(p, from))
        return spirv_wide_convert(p, to, from, x);
    if (tile_type_is_half(to) || tile_type_is_half(from))
        return between_halves(p, to, from, x);
    if (tile_type_is_integer(to) && tile_type_is_integer(from))
        return between_integers(p, to, from, x);
    if (tile_type_is_integer(to))
        return to_integer(p, to, from, x);
    enum spirv_word how = tile_type_is_float(from) ? SPIRV_FConvert
                          : from.kind == TILE_INT  ? SPIRV_ConvertSToF
                                                   : SPIRV_ConvertUToF;
    return spirv_value(&p->m, how, spirv_type(p, to), x);
}

// Functions that are written where they are first called ----------------------------------------------------

// Divides signed integers, rounding down: by 0 it gives 0, by -1 it wraps around.
static spirv_id divide_down(struct spirv_program *p, struct tile_type t, const spirv_id *x) {
    spirv_id a = x[0], b = x[1], type = spirv_type(p, t);
    spirv_id zero = spirv_constant_of(p, t, 0), one = spirv_constant_of(p, t, 1),
             minus = spirv_constant_of(p, t, t.bits == 64 ? UINT64_MAX : UINT32_MAX);
    spirv_id is_zero = spirv_test(p, SPIRV_IEqual, b, zero), is_minus = spirv_test(p, SPIRV_IEqual, b, minus);
    spirv_id is_odd = spirv_test(p, SPIRV_LogicalOr, is_zero, is_minus);
    spirv_id by = spirv_pick(p, t, is_odd, one, b), quotient = spirv_value(&p->m, SPIRV_SDiv, type, a, by);
    spirv_id product = spirv_value(&p->m, SPIRV_IMul, type, quotient, by);
    spirv_id rest = spirv_value(&p->m, SPIRV_ISub, type, a, product);
    spirv_id sign = spirv_test(p, SPIRV_SLessThan, a, zero),
             sign_of_b = spirv_test(p, SPIRV_SLessThan, b, zero);
    spirv_id differ = spirv_test(p, SPIRV_LogicalNotEqual, sign, sign_of_b);
    spirv_id is_less = spirv_test(p, SPIRV_LogicalAnd, differ, spirv_test(p, SPIRV_INotEqual, rest, zero));
    quotient = spirv_pick(p, t, is_less, spirv_value(&p->m, SPIRV_ISub, type, quotient, one), quotient);
    quotient = spirv_pick(p, t, is_minus, spirv_value(&p->m, SPIRV_SNegate, type, a), quotient);
    return spirv_pick(p, t, is_zero, zero, quotient);
}

// Writes a formula of the open function's parameters, with the unit's own ops. Returns its value.
static spirv_id write_formula(struct spirv_program *p, tile_formula *formula, struct tile_type type,
                              int count, spirv_id *parameter) {
    static const char *const name[] = {"a", "b", "c"};
    const struct spirv_program outer = *p;
    spirv_id value = 0;
    expr x[COUNT(name)];
    tile_begin("formula");
    for (int i = 0; i < count; i++)
        x[i] = tile_name_value(tile_name(name[i], type), TILE_LOCAL);
    expr result = formula(x);
    struct tile_kernel *k = tile_end();
    p->node = k ? arena_alloc(&k->arena, sizeof *p->node * (size_t)(k->ids + 1)) : NULL;
    p->variable = k ? arena_alloc(&k->arena, sizeof *p->variable * (size_t)(k->names + 1)) : NULL;
    p->value = parameter;
    p->is_plain = true;
    if (p->node && p->variable) {
        spirv_nodes(p, 1, &result);
        value = spirv_of(p, result);
    } else
        p->failed = true;
    p->node = outer.node;
    p->stamp = outer.stamp;
    p->variable = outer.variable;
    p->value = outer.value;
    p->is_plain = outer.is_plain;
    tile_free(k);
    return value;
}

// The helper functions. The parameters of each have one type.
static const struct {
    tile_formula *formula; // NULL: body writes it
    spirv_body *body;
    zl_dtype result, type;
    int count;
} helpers[SPIRV_HELPERS] = {
    [SPIRV_HELP_FMA] = {tile_fma_in_parts, NULL, ZL_FLOAT32, ZL_FLOAT32, 3},
    [SPIRV_HELP_FMA_IN_F64] = {tile_fma_in_f64, NULL, ZL_FLOAT32, ZL_FLOAT32, 3},
    [SPIRV_HELP_WIDE_FMA] = {tile_fma_in_parts, NULL, ZL_FLOAT64, ZL_FLOAT64, 3},
    [SPIRV_HELP_FROM_HALF] = {tile_from_half, NULL, ZL_FLOAT32, ZL_UINT32, 1},
    [SPIRV_HELP_TO_HALF] = {tile_to_half, NULL, ZL_UINT32, ZL_FLOAT32, 1},
    [SPIRV_HELP_TO_BRAIN] = {tile_to_brain, NULL, ZL_UINT32, ZL_FLOAT32, 1},
    [SPIRV_HELP_QUOTIENT] = {tile_quotient, NULL, ZL_FLOAT32, ZL_FLOAT32, 2},
    [SPIRV_HELP_DIVIDE] = {NULL, divide_down, ZL_INT32, ZL_INT32, 2},
    [SPIRV_HELP_WIDE_DIVIDE] = {NULL, divide_down, ZL_INT64, ZL_INT64, 2},
    [SPIRV_HELP_PAIR_DIVIDE] = {NULL, spirv_pair_divide, ZL_UINT64, ZL_UINT64, 2},
};

spirv_id spirv_call(struct spirv_program *p, enum spirv_helper which, const spirv_id *operand) {
    struct tile_type result = tile_type_of(helpers[which].result), type = tile_type_of(helpers[which].type);
    int count = helpers[which].count;
    if (!p->helper[which]) {
        struct spirv_function f;
        spirv_id of = spirv_type(p, type), x[3];
        spirv_function_open(&p->m, &f, spirv_type(p, result), count, (spirv_id[]){of, of, of}, x);
        spirv_id value = helpers[which].formula ? write_formula(p, helpers[which].formula, type, count, x)
                                                : helpers[which].body(p, type, x);
        spirv_function_close(&p->m, value);
        p->helper[which] = f.id;
    }
    spirv_id all[4] = {p->helper[which]};
    for (int i = 0; i < count; i++)
        all[1 + i] = operand[i];
    return spirv_value_list(&p->m, SPIRV_FunctionCall, spirv_type(p, result), count + 1, all);
}
