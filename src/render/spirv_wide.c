// spirv_wide.c - integers of 64 bits as pairs of words, the low one first, for units that have none.

#include "render/spirv_program.h"

static const struct tile_type u64 = {TILE_UINT, 64, 1}, f32 = {TILE_FLOAT, 32, 1};

bool spirv_is_pair(const struct spirv_program *p, struct tile_type type) {
    return tile_type_is_integer(type) && type.bits == 64 && !p->unit->has_i64;
}

struct pair {
    spirv_id low, high;
};

static struct pair parts(struct spirv_program *p, spirv_id x) {
    return (struct pair){spirv_part(p, x, 0), spirv_part(p, x, 1)};
}

static spirv_id pick_word(struct spirv_program *p, spirv_id truth, spirv_id a, spirv_id b) {
    return spirv_pick(p, spirv_uint(&p->m, 32), truth, a, b);
}

static spirv_id pick(struct spirv_program *p, spirv_id truth, spirv_id a, spirv_id b) {
    return spirv_pick(p, spirv_pair(&p->m), truth, a, b);
}

static spirv_id number(struct spirv_program *p, uint64_t value) {
    return spirv_constant_of(p, u64, value);
}

// An instruction that gives a word and what went over it.
static struct pair both(struct spirv_program *p, enum spirv_word how, spirv_id a, spirv_id b) {
    spirv_id two = spirv_value(&p->m, how, spirv_struct_of_two(&p->m, spirv_uint(&p->m, 32)), a, b);
    return parts(p, two);
}

static spirv_id add(struct spirv_program *p, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b), low = both(p, SPIRV_IAddCarry, x.low, y.low);
    return spirv_join(p, low.low, spirv_op(p, SPIRV_IAdd, spirv_op(p, SPIRV_IAdd, x.high, y.high), low.high));
}

static spirv_id subtract(struct spirv_program *p, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b), low = both(p, SPIRV_ISubBorrow, x.low, y.low);
    return spirv_join(p, low.low, spirv_op(p, SPIRV_ISub, spirv_op(p, SPIRV_ISub, x.high, y.high), low.high));
}

static spirv_id negate(struct spirv_program *p, spirv_id x) {
    return subtract(p, number(p, 0), x);
}

static spirv_id multiply(struct spirv_program *p, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b), low = both(p, SPIRV_UMulExtended, x.low, y.low);
    spirv_id across = spirv_op(p, SPIRV_IAdd, spirv_op(p, SPIRV_IMul, x.low, y.high),
                               spirv_op(p, SPIRV_IMul, x.high, y.low));
    return spirv_join(p, low.low, spirv_op(p, SPIRV_IAdd, low.high, across));
}

static spirv_id equals(struct spirv_program *p, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b);
    return spirv_test(p, SPIRV_LogicalAnd, spirv_test(p, SPIRV_IEqual, x.low, y.low),
                      spirv_test(p, SPIRV_IEqual, x.high, y.high));
}

static spirv_id is_less(struct spirv_program *p, bool is_signed, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b);
    spirv_id high = spirv_test(p, is_signed ? SPIRV_SLessThan : SPIRV_ULessThan, x.high, y.high);
    spirv_id low = spirv_test(p, SPIRV_LogicalAnd, spirv_test(p, SPIRV_IEqual, x.high, y.high),
                              spirv_test(p, SPIRV_ULessThan, x.low, y.low));
    return spirv_test(p, SPIRV_LogicalOr, high, low);
}

static spirv_id is_negative(struct spirv_program *p, spirv_id x) {
    return spirv_test(p, SPIRV_SLessThan, spirv_part(p, x, 1), spirv_u32(p, 0));
}

static spirv_id not(struct spirv_program * p, spirv_id truth) {
    return spirv_value(&p->m, SPIRV_LogicalNot, spirv_bool(&p->m), truth);
}

static spirv_id without_sign(struct spirv_program *p, spirv_id x) {
    return pick(p, is_negative(p, x), negate(p, x), x);
}

// What moves from one word into the other: a shift by 32 is none, so it is done in two.
static spirv_id carried(struct spirv_program *p, enum spirv_word how, spirv_id word, spirv_id by) {
    spirv_id rest = spirv_op(p, SPIRV_ISub, spirv_u32(p, 31), by);
    return spirv_op(p, how, spirv_op(p, how, word, spirv_u32(p, 1)), rest);
}

// By a word, less than 64.
static spirv_id move(struct spirv_program *p, spirv_id x, spirv_id by, bool is_left, bool is_signed) {
    struct pair a = parts(p, x);
    spirv_id few = spirv_op(p, SPIRV_BitwiseAnd, by, spirv_u32(p, 31));
    spirv_id is_many = spirv_test(p, SPIRV_UGreaterThanEqual, by, spirv_u32(p, 32));
    if (is_left) {
        spirv_id low = spirv_op(p, SPIRV_ShiftLeftLogical, a.low, few);
        spirv_id high = spirv_op(p, SPIRV_BitwiseOr, spirv_op(p, SPIRV_ShiftLeftLogical, a.high, few),
                                 carried(p, SPIRV_ShiftRightLogical, a.low, few));
        return spirv_join(p, pick_word(p, is_many, spirv_u32(p, 0), low), pick_word(p, is_many, low, high));
    }
    enum spirv_word right = is_signed ? SPIRV_ShiftRightArithmetic : SPIRV_ShiftRightLogical;
    spirv_id high = spirv_op(p, right, a.high, few);
    spirv_id low = spirv_op(p, SPIRV_BitwiseOr, spirv_op(p, SPIRV_ShiftRightLogical, a.low, few),
                            carried(p, SPIRV_ShiftLeftLogical, a.high, few));
    spirv_id rest = is_signed ? spirv_op(p, right, a.high, spirv_u32(p, 31)) : spirv_u32(p, 0);
    return spirv_join(p, pick_word(p, is_many, high, low), pick_word(p, is_many, rest, high));
}

static spirv_id shift(struct spirv_program *p, expr e, const spirv_id *operand) {
    bool is_left = e->op == TILE_SHL, is_signed = !is_left && e->type.kind == TILE_INT;
    spirv_id fits = is_less(p, false, operand[1], number(p, 64));
    spirv_id by = pick_word(p, fits, spirv_part(p, operand[1], 0), spirv_u32(p, is_signed ? 63 : 0));
    spirv_id moved = move(p, operand[0], by, is_left, is_signed);
    return is_signed ? moved : pick(p, fits, moved, number(p, 0));
}

// Digit by digit, without signs; by 0 it is 0.
static spirv_id make_divide(struct spirv_program *p) {
    struct spirv_help h;
    struct spirv_module *m = &p->m;
    spirv_open_help(p, &h, u64, 2, (struct tile_type[]){u64, u64});
    spirv_id type = spirv_pair(m), word = spirv_uint(m, 32), head = spirv_new(m), test = spirv_new(m),
             body = spirv_new(m), next = spirv_new(m), behind = spirv_new(m);
    spirv_id rest = spirv_local(m, type), quotient = spirv_local(m, type), digit = spirv_local(m, word);
    spirv_do(m, SPIRV_Store, rest, number(p, 0));
    spirv_do(m, SPIRV_Store, quotient, number(p, 0));
    spirv_do(m, SPIRV_Store, digit, spirv_u32(p, 64));
    spirv_label(m, head);
    spirv_do(m, SPIRV_LoopMerge, behind, next, 0);
    spirv_branch(m, test);
    spirv_label(m, test);
    spirv_id at = spirv_load(m, word, digit);
    spirv_branch_if(m, spirv_test(p, SPIRV_INotEqual, at, spirv_u32(p, 0)), body, behind);
    spirv_label(m, body);
    spirv_id which = spirv_op(p, SPIRV_ISub, at, spirv_u32(p, 1));
    spirv_id one = spirv_op(p, SPIRV_BitwiseAnd,
                            spirv_part(p, move(p, h.parameter[0], which, false, false), 0), spirv_u32(p, 1));
    spirv_id left = move(p, spirv_load(m, type, rest), spirv_u32(p, 1), true, false);
    left = spirv_join(p, spirv_op(p, SPIRV_BitwiseOr, spirv_part(p, left, 0), one), spirv_part(p, left, 1));
    spirv_id fits = not(p, is_less(p, false, left, h.parameter[1]));
    spirv_id so_far = move(p, spirv_load(m, type, quotient), spirv_u32(p, 1), true, false);
    spirv_id last = pick_word(p, fits, spirv_u32(p, 1), spirv_u32(p, 0));
    spirv_do(m, SPIRV_Store, rest, pick(p, fits, subtract(p, left, h.parameter[1]), left));
    spirv_do(m, SPIRV_Store, quotient,
             spirv_join(p, spirv_op(p, SPIRV_BitwiseOr, spirv_part(p, so_far, 0), last),
                        spirv_part(p, so_far, 1)));
    spirv_label(m, next);
    spirv_do(m, SPIRV_Store, digit, which);
    spirv_branch(m, head);
    spirv_label(m, behind);
    spirv_id is_zero = equals(p, h.parameter[1], number(p, 0));
    return spirv_close_help(p, &h, pick(p, is_zero, number(p, 0), spirv_load(m, type, quotient)));
}

// Rounds down.
static spirv_id divide(struct spirv_program *p, struct tile_type type, spirv_id a, spirv_id b) {
    spirv_id *helper = &p->helper[SPIRV_HELP_PAIR_DIVIDE];
    if (!*helper)
        *helper = make_divide(p);
    if (type.kind == TILE_UINT)
        return spirv_call(p, *helper, u64, 2, (spirv_id[]){a, b});
    spirv_id x = without_sign(p, a), y = without_sign(p, b);
    spirv_id quotient = spirv_call(p, *helper, u64, 2, (spirv_id[]){x, y});
    spirv_id is_exact = equals(p, multiply(p, quotient, y), x), zero = number(p, 0);
    spirv_id differ = spirv_test(p, SPIRV_LogicalNotEqual, is_negative(p, a), is_negative(p, b));
    spirv_id down = subtract(p, negate(p, quotient), pick(p, is_exact, zero, number(p, 1)));
    return pick(p, equals(p, b, zero), zero, pick(p, differ, down, quotient));
}

spirv_id spirv_wide_operation(struct spirv_program *p, expr e, const spirv_id *operand) {
    struct tile_type type = e->arg[0]->type;
    spirv_id t = spirv_pair(&p->m), a = operand[0], b = operand[1];
    bool is_signed = type.kind == TILE_INT;
    switch (e->op) {
    case TILE_NEG: return negate(p, a);
    case TILE_ABS: return without_sign(p, a);
    case TILE_NOT: return spirv_value(&p->m, SPIRV_Not, t, a);
    case TILE_ADD: return add(p, a, b);
    case TILE_SUB: return subtract(p, a, b);
    case TILE_MUL: return multiply(p, a, b);
    case TILE_AND: return spirv_value(&p->m, SPIRV_BitwiseAnd, t, a, b);
    case TILE_OR: return spirv_value(&p->m, SPIRV_BitwiseOr, t, a, b);
    case TILE_XOR: return spirv_value(&p->m, SPIRV_BitwiseXor, t, a, b);
    case TILE_SHL:
    case TILE_SHR: return shift(p, e, operand);
    case TILE_FLOORDIV: return divide(p, type, a, b);
    case TILE_MAX: return pick(p, is_less(p, is_signed, a, b), b, a);
    case TILE_MIN: return pick(p, is_less(p, is_signed, b, a), b, a);
    case TILE_EQ: return equals(p, a, b);
    case TILE_NE: return not(p, equals(p, a, b));
    case TILE_LT: return is_less(p, is_signed, a, b);
    case TILE_LE: return not(p, is_less(p, is_signed, b, a));
    case TILE_GT: return is_less(p, is_signed, b, a);
    case TILE_GE: return not(p, is_less(p, is_signed, a, b));
    default: spirv_fail(p, "the target has no form of ", tile_op_name(e->op)); return a;
    }
}

static spirv_id real(struct spirv_program *p, struct tile_type type, double value) {
    return spirv_constant_of(p, type, tile_bits_of(type, (union tile_value){.f = value}));
}

static spirv_id times(struct spirv_program *p, struct tile_type type, spirv_id a, double factor) {
    return spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FMul, spirv_type(p, type), a, real(p, type, factor)));
}

// Without a sign, to f32: of more than 32 bits the upper ones, with a last one that says whether others follow, round as all of them.
static spirv_id to_f32(struct spirv_program *p, spirv_id x) {
    struct pair a = parts(p, x);
    spirv_id type = spirv_type(p, f32), word = spirv_uint(&p->m, 32), bias = spirv_u32(p, 127);
    spirv_id is_short = spirv_test(p, SPIRV_IEqual, a.high, spirv_u32(p, 0));
    spirv_id top = spirv_glsl(&p->m, SPIRV_FIND_TOP, word, 1, &a.high);
    spirv_id by = pick_word(p, is_short, spirv_u32(p, 0), spirv_op(p, SPIRV_IAdd, top, spirv_u32(p, 1)));
    spirv_id upper = move(p, x, by, false, false), back = move(p, upper, by, true, false);
    spirv_id sticky = pick_word(p, equals(p, back, x), spirv_u32(p, 0), spirv_u32(p, 1));
    spirv_id digits = spirv_op(p, SPIRV_BitwiseOr, spirv_part(p, upper, 0), sticky);
    spirv_id scale = spirv_op(p, SPIRV_ShiftLeftLogical, spirv_op(p, SPIRV_IAdd, by, bias), spirv_u32(p, 23));
    return spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FMul, type,
                                          spirv_value(&p->m, SPIRV_ConvertUToF, type, digits),
                                          spirv_value(&p->m, SPIRV_Bitcast, type, scale)));
}

static spirv_id to_float(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    spirv_id type = spirv_type(p, to), size = from.kind == TILE_INT ? without_sign(p, x) : x, y;
    struct pair a = parts(p, size);
    if (to.bits == 32)
        y = to_f32(p, size);
    else { // both parts are exact
        y = times(p, to, spirv_value(&p->m, SPIRV_ConvertUToF, type, a.high), 0x1p32);
        y = spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FAdd, type, y,
                                           spirv_value(&p->m, SPIRV_ConvertUToF, type, a.low)));
    }
    return from.kind == TILE_UINT
               ? y
               : spirv_pick(p, type, is_negative(p, x), spirv_value(&p->m, SPIRV_FNegate, type, y), y);
}

// Saturating; NaN gives 0. All steps are exact.
static spirv_id from_float(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    bool is_signed = to.kind == TILE_INT;
    spirv_id type = spirv_type(p, from), word = spirv_uint(&p->m, 32), zero = real(p, from, 0);
    spirv_id is_below = spirv_test(p, SPIRV_FOrdLessThan, x, zero);
    spirv_id size = spirv_pick(p, type, is_below, spirv_value(&p->m, SPIRV_FNegate, type, x), x);
    spirv_id most = real(p, from, is_signed ? 0x1p63 : 0x1p64);
    spirv_id is_large = spirv_test(p, SPIRV_FOrdGreaterThanEqual, size, most);
    spirv_id is_number = spirv_test(p, SPIRV_FOrdGreaterThanEqual, size, zero);
    size = spirv_pick(p, type, spirv_test(p, SPIRV_LogicalAnd, is_number, not(p, is_large)), size, zero);
    spirv_id high = spirv_value(&p->m, SPIRV_ConvertFToU, word, times(p, from, size, 0x1p-32));
    spirv_id upper = times(p, from, spirv_value(&p->m, SPIRV_ConvertUToF, type, high), 0x1p32);
    spirv_id rest = spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FSub, type, size, upper));
    spirv_id y = spirv_join(p, spirv_value(&p->m, SPIRV_ConvertFToU, word, rest), high);
    y = pick(p, is_large, number(p, is_signed ? INT64_MAX : UINT64_MAX), y);
    if (!is_signed)
        return pick(p, is_below, number(p, 0), y);
    return pick(p, is_below, pick(p, is_large, number(p, UINT64_C(1) << 63), negate(p, y)), y);
}

spirv_id spirv_wide_convert(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    if (tile_type_is_float(from))
        return from_float(p, to, from, x);
    if (tile_type_is_float(to))
        return to_float(p, to, from, x);
    if (to.bits == 64 && from.bits == 64)
        return x;
    if (from.bits == 64)
        return spirv_narrow(p, to, spirv_part(p, x, 0));
    return spirv_join(p, x,
                      from.kind == TILE_INT ? spirv_op(p, SPIRV_ShiftRightArithmetic, x, spirv_u32(p, 31))
                                            : spirv_u32(p, 0));
}
