// spirv_numbers.c - one op on values: arithmetic, comparisons, conversions. What the unit does not round once, to the nearest, is computed
// in f64, or in parts.

#include "render/spirv_program.h"

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

// By its bits: units need not tell by comparisons.
static spirv_id is_nan(struct spirv_program *p, struct tile_type type, spirv_id x) {
    if (type.bits == 64 || p->unit->keeps_special & PASS_BIT(ZL_FLOAT32)) // of these they do
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

void spirv_open_help(struct spirv_program *p, struct spirv_help *h, struct tile_type result, int count,
                     const struct tile_type *type) {
    spirv_id types[3];
    for (int i = 0; i < count; i++)
        types[i] = spirv_type(p, type[i]);
    spirv_function_open(&p->m, &h->function, spirv_type(p, result), count, types, h->parameter);
}

spirv_id spirv_close_help(struct spirv_program *p, struct spirv_help *h, spirv_id result) {
    spirv_function_close(&p->m, result);
    return h->function.id;
}

spirv_id spirv_call(struct spirv_program *p, spirv_id function, struct tile_type type, int count,
                    const spirv_id *operand) {
    spirv_id all[4] = {function};
    for (int i = 0; i < count; i++)
        all[1 + i] = operand[i];
    return spirv_value_list(&p->m, SPIRV_FunctionCall, spirv_type(p, type), count + 1, all);
}

// Sums and products with what rounding took from them: their value is exactly result + rest.
static spirv_id rest_of_sum(struct spirv_program *p, struct tile_type t, spirv_id a, spirv_id b,
                            spirv_id sum) {
    spirv_id of_b = real(p, SPIRV_FSub, t, sum, a), of_a = real(p, SPIRV_FSub, t, sum, of_b);
    spirv_id rest_of_a = real(p, SPIRV_FSub, t, a, of_a), rest_of_b = real(p, SPIRV_FSub, t, b, of_b);
    return real(p, SPIRV_FAdd, t, rest_of_a, rest_of_b);
}

// x as a number of half its digits, and the rest.
static void split(struct spirv_program *p, struct tile_type t, spirv_id x, spirv_id *high, spirv_id *low) {
    double factor = t.bits == 64 ? 0x1p27 + 1 : 0x1p12 + 1;
    spirv_id scaled = real(p, SPIRV_FMul, t, x, spirv_real(p, t, factor));
    *high = real(p, SPIRV_FSub, t, scaled, real(p, SPIRV_FSub, t, scaled, x));
    *low = real(p, SPIRV_FSub, t, x, *high);
}

static spirv_id rest_of_product(struct spirv_program *p, struct tile_type t, spirv_id a, spirv_id b,
                                spirv_id product) {
    spirv_id a_high, a_low, b_high, b_low;
    split(p, t, a, &a_high, &a_low);
    split(p, t, b, &b_high, &b_low);
    spirv_id rest = real(p, SPIRV_FSub, t, real(p, SPIRV_FMul, t, a_high, b_high), product);
    rest = real(p, SPIRV_FAdd, t, rest, real(p, SPIRV_FMul, t, a_high, b_low));
    rest = real(p, SPIRV_FAdd, t, rest, real(p, SPIRV_FMul, t, a_low, b_high));
    return real(p, SPIRV_FAdd, t, rest, real(p, SPIRV_FMul, t, a_low, b_low));
}

// The sum of two numbers, given with its rest, as the neighbour with an odd last digit where there is a rest: what is added to
// it, or a rounding to fewer digits, then rounds as the exact sum would.
static spirv_id round_to_odd(struct spirv_program *p, struct tile_type t, spirv_id sum, spirv_id rest) {
    spirv_id zero = spirv_constant_of(p, t, 0), is_below = spirv_test(p, SPIRV_FOrdLessThan, rest, zero);
    spirv_id is_above = spirv_test(p, SPIRV_FOrdGreaterThan, rest, zero);
    spirv_id has_rest = spirv_test(p, SPIRV_LogicalOr, is_below, is_above);
    spirv_id bits = t.bits == 64 ? spirv_as(p, spirv_pair(&p->m), sum) : cast_bits(p, u32, sum);
    spirv_id low = t.bits == 64 ? spirv_part(p, bits, 0) : bits;
    spirv_id is_even = spirv_test_by(p, SPIRV_IEqual, spirv_op_by(p, SPIRV_BitwiseAnd, low, 1), 0);
    spirv_id sign = is_negative(p, t, sum), sign_of_rest = is_negative(p, t, rest);
    spirv_id is_outwards = spirv_test(p, SPIRV_LogicalEqual, sign, sign_of_rest);
    spirv_id moves = spirv_test(p, SPIRV_LogicalAnd, has_rest, is_even);
    spirv_id next = spirv_op(p, SPIRV_IAdd, low, spirv_pick_number(p, is_outwards, 1, UINT32_MAX));
    if (t.bits == 64) {
        spirv_id is_zero = spirv_test_by(p, SPIRV_IEqual, low, 0);
        spirv_id borrows = spirv_test(p, SPIRV_LogicalAnd, is_zero, spirv_not(p, is_outwards));
        spirv_id high = spirv_part(p, bits, 1);
        high = spirv_op(p, SPIRV_ISub, high, spirv_pick_number(p, borrows, 1, 0));
        next = spirv_join(p, next, high);
    }
    return spirv_pick(p, t, moves, cast_bits(p, t, next), sum);
}

// a * b is exact in f64.
static spirv_id make_fma_in_f64(struct spirv_program *p) {
    struct spirv_help h;
    spirv_id wide[3];
    spirv_open_help(p, &h, f32, 3, (struct tile_type[]){f32, f32, f32});
    for (int i = 0; i < 3; i++)
        wide[i] = spirv_convert(p, f64, f32, h.parameter[i]);
    spirv_id product = real(p, SPIRV_FMul, f64, wide[0], wide[1]);
    spirv_id sum = real(p, SPIRV_FAdd, f64, product, wide[2]);
    sum = round_to_odd(p, f64, sum, rest_of_sum(p, f64, product, wide[2], sum));
    return spirv_close_help(p, &h, spirv_convert(p, f32, f64, sum));
}

// Boldo and Melquiond's: of the parts, the small ones are added as an odd number. Where a part overflows, so that there is no
// number, the plain ops are close enough.
static spirv_id make_fma(struct spirv_program *p, struct tile_type t) {
    struct spirv_help h;
    spirv_open_help(p, &h, t, 3, (struct tile_type[]){t, t, t});
    spirv_id a = h.parameter[0], b = h.parameter[1], c = h.parameter[2];
    spirv_id product = real(p, SPIRV_FMul, t, a, b), low = rest_of_product(p, t, a, b, product);
    spirv_id first = real(p, SPIRV_FAdd, t, c, low), first_rest = rest_of_sum(p, t, c, low, first);
    spirv_id second = real(p, SPIRV_FAdd, t, product, first);
    spirv_id second_rest = rest_of_sum(p, t, product, first, second);
    spirv_id small = real(p, SPIRV_FAdd, t, first_rest, second_rest);
    small = round_to_odd(p, t, small, rest_of_sum(p, t, first_rest, second_rest, small));
    spirv_id exact = real(p, SPIRV_FAdd, t, second, small);
    spirv_id overflows = is_nan(p, t, exact), plain = real(p, SPIRV_FAdd, t, product, c);
    return spirv_close_help(p, &h, spirv_pick(p, t, overflows, plain, exact));
}

static spirv_id multiply_add(struct spirv_program *p, struct tile_type type, const spirv_id *operand) {
    bool is_wide = type.bits == 64;
    spirv_id *helper = &p->helper[is_wide ? SPIRV_HELP_WIDE_FMA : SPIRV_HELP_FMA];
    if (p->unit->has_exact_fma)
        return spirv_exact(&p->m, spirv_glsl(&p->m, SPIRV_FMA, spirv_type(p, type), 3, operand));
    if (!*helper)
        *helper = !is_wide && p->unit->has_f64 ? make_fma_in_f64(p) : make_fma(p, type);
    return spirv_call(p, *helper, type, 3, operand);
}

// Signed division that rounds down: by 0 it is 0, by -1 it wraps around.
static spirv_id make_divide(struct spirv_program *p, struct tile_type t) {
    struct spirv_help h;
    spirv_open_help(p, &h, t, 2, (struct tile_type[]){t, t});
    spirv_id a = h.parameter[0], b = h.parameter[1], type = spirv_type(p, t);
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
    return spirv_close_help(p, &h, spirv_pick(p, t, is_zero, zero, quotient));
}

static spirv_id floor_divide(struct spirv_program *p, expr e, const spirv_id *operand) {
    spirv_id type = spirv_type(p, e->type);
    if (e->type.kind == TILE_INT) {
        spirv_id *helper = &p->helper[e->type.bits == 64 ? SPIRV_HELP_WIDE_DIVIDE : SPIRV_HELP_DIVIDE];
        if (!*helper)
            *helper = make_divide(p, e->type);
        return spirv_call(p, *helper, e->type, 2, operand);
    }
    if (pass_certain_range(e->arg[1]).low > 0)
        return spirv_value(&p->m, SPIRV_UDiv, type, operand[0], operand[1]);
    spirv_id zero = spirv_constant_of(p, e->type, 0), is_zero = spirv_test(p, SPIRV_IEqual, operand[1], zero);
    spirv_id by = spirv_pick(p, e->type, is_zero, spirv_constant_of(p, e->type, 1), operand[1]);
    return spirv_pick(p, e->type, is_zero, zero, spirv_value(&p->m, SPIRV_UDiv, type, operand[0], by));
}

// The sign alone, by bits: units need not keep that of 0.
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

// A quotient or root of f32 in f64, which has more than twice as many digits, rounds the same.
static spirv_id in_f64(struct spirv_program *p, expr e, const spirv_id *operand) {
    spirv_id wide[2], result;
    for (int i = 0; i < e->args; i++)
        wide[i] = spirv_convert(p, f64, f32, operand[i]);
    result = e->op == TILE_DIV ? real(p, SPIRV_FDiv, f64, wide[0], wide[1])
                               : spirv_glsl(&p->m, SPIRV_SQRT, spirv_type(p, f64), 1, wide);
    return spirv_convert(p, f32, f64, result);
}

static spirv_id exponent_within(struct spirv_program *p, spirv_id x, uint32_t least, uint32_t count) {
    spirv_id first = spirv_u32(p, 23), bits = spirv_u32(p, 8), word = cast_bits(p, u32, x);
    spirv_id exponent = spirv_value(&p->m, SPIRV_BitFieldUExtract, spirv_uint(&p->m, 32), word, first, bits);
    return spirv_test_by(p, SPIRV_ULessThan, spirv_op_by(p, SPIRV_ISub, exponent, least), count);
}

// Markstein's: an inverse and a quotient that fma corrects, by what is left of 1 and of a; the last correction rounds as the quotient does.
// Where exponents are such that something of it could leave the range of f32, in f64.
static spirv_id make_quotient(struct spirv_program *p, expr e) {
    struct spirv_help h;
    spirv_open_help(p, &h, f32, 2, (struct tile_type[]){f32, f32});
    spirv_id a = h.parameter[0], b = h.parameter[1], one = spirv_constant_of(p, f32, 0x3f800000);
    spirv_id minus = of_sign(p, TILE_NEG, f32, b), inverse = real(p, SPIRV_FDiv, f32, one, b);
    spirv_id rest = multiply_add(p, f32, (spirv_id[]){minus, inverse, one});
    inverse = multiply_add(p, f32, (spirv_id[]){inverse, rest, inverse});
    spirv_id quotient = real(p, SPIRV_FMul, f32, a, inverse);
    for (int i = 0; i < 2; i++) {
        rest = multiply_add(p, f32, (spirv_id[]){minus, quotient, a});
        quotient = multiply_add(p, f32, (spirv_id[]){inverse, rest, quotient});
    }
    spirv_id fits = exponent_within(p, a, 63, 128), both = exponent_within(p, b, 67, 120);
    both = spirv_test(p, SPIRV_LogicalAnd, fits, both);
    spirv_id rare = spirv_new(&p->m), behind = spirv_new(&p->m), from = p->m.function->label;
    spirv_choose(&p->m, both, behind, rare, behind);
    spirv_label(&p->m, rare);
    spirv_id wide = in_f64(p, e, h.parameter), last = p->m.function->label;
    spirv_label(&p->m, behind);
    return spirv_close_help(p, &h,
                            spirv_value(&p->m, SPIRV_Phi, spirv_type(p, f32), quotient, from, wide, last));
}

// By a number whose inverse is one: the product rounds as the quotient does.
static bool has_inverse(expr e, uint64_t *inverse) {
    int exponent = 0;
    double x = e->op == TILE_CONST ? tile_value_of(e->type, e->bits).f : 0;
    bool is_power = fabs(frexp(x, &exponent)) == 0.5;
    *inverse = is_power ? tile_bits_of(e->type, (union tile_value){.f = 1 / x}) : 0;
    return is_power && abs(exponent) < 100;
}

// A quotient or root whose rounding the unit does not promise.
static spirv_id made_exact(struct spirv_program *p, expr e, const spirv_id *operand) {
    uint64_t inverse;
    if (e->op == TILE_DIV && has_inverse(e->arg[1], &inverse))
        return real(p, SPIRV_FMul, f32, operand[0], spirv_constant_of(p, f32, inverse));
    if (e->op != TILE_DIV || !p->unit->has_exact_fma)
        return in_f64(p, e, operand);
    spirv_id *helper = &p->helper[SPIRV_HELP_QUOTIENT];
    if (!*helper)
        *helper = make_quotient(p, e);
    return spirv_call(p, *helper, f32, 2, operand);
}

static bool is_inexact(const struct spirv_program *p, expr e) {
    bool is_lacking =
        (e->op == TILE_DIV && !p->unit->has_exact_divide) || (e->op == TILE_SQRT && !p->unit->has_exact_root);
    return is_lacking && e->type.bits == 32 && p->unit->has_f64;
}

// A number that is neither NaN nor 0.
static bool is_plain(expr e) {
    double x = e->op == TILE_CONST ? tile_value_of(e->type, e->bits).f : 0;
    return x < 0 || x > 0;
}

// NaN before all, and -0 before 0. Beside a plain number one comparison tells, which holds for NaN.
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

// Ops that are one instruction: of floats, of integers with and without a sign, of truths; 0: there is none.
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

// Of as many bits as the number has, or more, a shift gives 0, or what the sign is.
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

// Subnormal halves are whole numbers times 2^-24.
static spirv_id make_from_half(struct spirv_program *p) {
    struct spirv_help h;
    spirv_open_help(p, &h, f32, 1, &u32);
    spirv_id x = h.parameter[0], rest = spirv_op_by(p, SPIRV_BitwiseAnd, x, 0x7fff);
    spirv_id sign = spirv_op_by(p, SPIRV_BitwiseAnd, x, 0x8000);
    sign = spirv_op_by(p, SPIRV_ShiftLeftLogical, sign, 16);
    spirv_id wide = spirv_op_by(p, SPIRV_ShiftLeftLogical, rest, 13);
    spirv_id normal = spirv_op_by(p, SPIRV_IAdd, wide, 112u << 23);
    spirv_id small = spirv_value(&p->m, SPIRV_ConvertUToF, spirv_type(p, f32), rest);
    small = cast_bits(p, u32, real(p, SPIRV_FMul, f32, small, spirv_constant_of(p, f32, 103u << 23)));
    spirv_id is_nan = spirv_test_by(p, SPIRV_UGreaterThan, rest, 0x7c00);
    spirv_id quiet = spirv_pick_number(p, is_nan, 0x400000, 0);
    spirv_id large = spirv_op(p, SPIRV_BitwiseOr, spirv_op_by(p, SPIRV_BitwiseOr, wide, 0x7f800000), quiet);
    spirv_id bits = spirv_pick(p, u32, spirv_test_by(p, SPIRV_ULessThan, rest, 0x400), small, normal);
    bits = spirv_pick(p, u32, spirv_test_by(p, SPIRV_UGreaterThanEqual, rest, 0x7c00), large, bits);
    return spirv_close_help(p, &h, cast_bits(p, f32, spirv_op(p, SPIRV_BitwiseOr, bits, sign)));
}

// Small ones are rounded by adding 1/2, whose last digit is theirs.
static spirv_id make_to_half(struct spirv_program *p) {
    struct spirv_help h;
    spirv_open_help(p, &h, u32, 1, &f32);
    spirv_id half = spirv_constant_of(p, f32, 0x3f000000), infinity = spirv_u32(p, 0x7c00);
    spirv_id all = cast_bits(p, u32, h.parameter[0]),
             bits = spirv_op_by(p, SPIRV_BitwiseAnd, all, 0x7fffffff);
    spirv_id sign = spirv_op_by(p, SPIRV_ShiftRightLogical, all, 16);
    sign = spirv_op_by(p, SPIRV_BitwiseAnd, sign, 0x8000);
    spirv_id sum = real(p, SPIRV_FAdd, f32, cast_bits(p, f32, bits), half);
    spirv_id small = spirv_op_by(p, SPIRV_ISub, cast_bits(p, u32, sum), 0x3f000000);
    spirv_id cut = spirv_op_by(p, SPIRV_ShiftRightLogical, bits, 13);
    spirv_id nan = spirv_op_by(p, SPIRV_BitwiseOr, spirv_op_by(p, SPIRV_BitwiseAnd, cut, 0x3ff), 0x7e00);
    spirv_id up = spirv_op_by(p, SPIRV_BitwiseAnd, cut, 1);
    up = spirv_op_by(p, SPIRV_IAdd, up, 0xfff - 0x38000000u);
    spirv_id normal = spirv_op_by(p, SPIRV_ShiftRightLogical, spirv_op(p, SPIRV_IAdd, bits, up), 13);
    spirv_id large =
        spirv_pick(p, u32, spirv_test_by(p, SPIRV_UGreaterThan, bits, 0x7f800000), nan, infinity);
    spirv_id result = spirv_pick(p, u32, spirv_test_by(p, SPIRV_ULessThan, bits, 0x38800000), small, normal);
    result = spirv_pick(p, u32, spirv_test_by(p, SPIRV_UGreaterThanEqual, bits, 0x47800000), large, result);
    return spirv_close_help(p, &h, spirv_op(p, SPIRV_BitwiseOr, result, sign));
}

static spirv_id make_to_brain(struct spirv_program *p) {
    struct spirv_help h;
    spirv_open_help(p, &h, u32, 1, &f32);
    spirv_id bits = cast_bits(p, u32, h.parameter[0]);
    spirv_id last = spirv_op_by(p, SPIRV_BitwiseAnd, spirv_op_by(p, SPIRV_ShiftRightLogical, bits, 16), 1);
    spirv_id rounded = spirv_op(p, SPIRV_IAdd, spirv_op_by(p, SPIRV_IAdd, bits, 0x7fff), last);
    spirv_id nan = spirv_op_by(p, SPIRV_BitwiseOr, bits, 0x400000);
    bits = spirv_pick(p, u32, is_nan(p, f32, h.parameter[0]), nan, rounded);
    return spirv_close_help(p, &h, spirv_op_by(p, SPIRV_ShiftRightLogical, bits, 16));
}

// By the unit's own 16-bit floats. The other way round NVIDIA's do not round to the nearest, whatever mode is asked for.
static spirv_id from_own_half(struct spirv_program *p, spirv_id x) {
    spirv_need(&p->m, SPIRV_INT16);
    x = spirv_value(&p->m, SPIRV_UConvert, spirv_uint(&p->m, 16), x);
    return spirv_value(&p->m, SPIRV_FConvert, spirv_type(p, f32), spirv_as(p, spirv_float(&p->m, 16), x));
}

static spirv_id between_halves(struct spirv_program *p, struct tile_type to, struct tile_type from,
                               spirv_id x) {
    static spirv_id (*const make[])(struct spirv_program *) = {make_from_half, make_to_half, make_to_brain};
    if (from.kind == TILE_BFLOAT)
        return cast_bits(p, f32, spirv_op_by(p, SPIRV_ShiftLeftLogical, x, 16));
    const struct target_spirv *u = p->unit;
    if (tile_type_is_half(from) && u->has_f16 && u->has_small_halves &&
        u->keeps_small & u->keeps_special & PASS_F16)
        return from_own_half(p, x);
    int which = tile_type_is_half(from) ? 0 : to.kind == TILE_BFLOAT ? 2 : 1;
    spirv_id *helper = &p->helper[SPIRV_HELP_FROM_HALF + which];
    if (!*helper)
        *helper = make[which](p);
    return spirv_call(p, *helper, to, 1, &x);
}

// Saturating; NaN gives 0. What a conversion gives outside of the bounds is not looked at.
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

// A sign is made by hand: Mesa 22 takes what was converted, and then compared with a constant, for a number without one.
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
