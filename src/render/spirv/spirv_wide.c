// spirv_wide.c - computes with integers of 64 bits as pairs of words, the low one first, for units that have
// none.

#include "render/spirv/spirv_program.h"

static const struct tile_type u32 = {TILE_UINT, 32, 1}, u64 = {TILE_UINT, 64, 1}, f32 = {TILE_FLOAT, 32, 1};

bool spirv_is_pair(const struct spirv_program *p, struct tile_type type) {
    return tile_type_is_integer(type) && type.bits == 64 && !p->unit->has_i64;
}

struct pair {
    spirv_id low, high;
};

static struct pair parts(struct spirv_program *p, spirv_id x) {
    spirv_id low = spirv_part(p, x, 0);
    return (struct pair){low, spirv_part(p, x, 1)};
}

static spirv_id pick_word(struct spirv_program *p, spirv_id truth, spirv_id a, spirv_id b) {
    return spirv_pick(p, u32, truth, a, b);
}

static spirv_id pick(struct spirv_program *p, spirv_id truth, spirv_id a, spirv_id b) {
    return spirv_pick(p, u64, truth, a, b);
}

static spirv_id number(struct spirv_program *p, uint64_t value) {
    return spirv_constant_of(p, u64, value);
}

// Returns the two words of an instruction that gives a word and its carry, borrow or upper half.
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
    spirv_id right = spirv_op(p, SPIRV_IMul, x.low, y.high), left = spirv_op(p, SPIRV_IMul, x.high, y.low);
    spirv_id across = spirv_op(p, SPIRV_IAdd, right, left);
    return spirv_join(p, low.low, spirv_op(p, SPIRV_IAdd, low.high, across));
}

static spirv_id equals(struct spirv_program *p, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b);
    spirv_id low = spirv_test(p, SPIRV_IEqual, x.low, y.low),
             high = spirv_test(p, SPIRV_IEqual, x.high, y.high);
    return spirv_test(p, SPIRV_LogicalAnd, low, high);
}

static spirv_id is_less(struct spirv_program *p, bool is_signed, spirv_id a, spirv_id b) {
    struct pair x = parts(p, a), y = parts(p, b);
    spirv_id high = spirv_test(p, is_signed ? SPIRV_SLessThan : SPIRV_ULessThan, x.high, y.high);
    spirv_id same = spirv_test(p, SPIRV_IEqual, x.high, y.high),
             low = spirv_test(p, SPIRV_ULessThan, x.low, y.low);
    return spirv_test(p, SPIRV_LogicalOr, high, spirv_test(p, SPIRV_LogicalAnd, same, low));
}

static spirv_id is_negative(struct spirv_program *p, spirv_id x) {
    return spirv_test_by(p, SPIRV_SLessThan, spirv_part(p, x, 1), 0);
}

static spirv_id without_sign(struct spirv_program *p, spirv_id x) {
    spirv_id is_below = is_negative(p, x);
    return pick(p, is_below, negate(p, x), x);
}

// Returns the bits that move from one word into the other. It shifts twice, because the count may be 32.
static spirv_id carried(struct spirv_program *p, enum spirv_word how, spirv_id word, spirv_id by) {
    spirv_id rest = spirv_op(p, SPIRV_ISub, spirv_u32(p, 31), by);
    return spirv_op(p, how, spirv_op_by(p, how, word, 1), rest);
}

// Shifts a pair by a word, which is less than 64.
static spirv_id move(struct spirv_program *p, spirv_id x, spirv_id by, bool is_left, bool is_signed) {
    struct pair a = parts(p, x);
    enum spirv_word right = is_signed ? SPIRV_ShiftRightArithmetic : SPIRV_ShiftRightLogical;
    spirv_id few = spirv_op_by(p, SPIRV_BitwiseAnd, by, 31), none = spirv_u32(p, 0), low, high;
    spirv_id is_many = spirv_test_by(p, SPIRV_UGreaterThanEqual, by, 32);
    if (is_left) {
        low = spirv_op(p, SPIRV_ShiftLeftLogical, a.low, few);
        high = spirv_op(p, SPIRV_ShiftLeftLogical, a.high, few);
        high = spirv_op(p, SPIRV_BitwiseOr, high, carried(p, SPIRV_ShiftRightLogical, a.low, few));
        high = pick_word(p, is_many, low, high);
        low = pick_word(p, is_many, none, low);
    } else {
        spirv_id rest = is_signed ? spirv_op_by(p, right, a.high, 31) : none;
        high = spirv_op(p, right, a.high, few);
        low = spirv_op(p, SPIRV_ShiftRightLogical, a.low, few);
        low = spirv_op(p, SPIRV_BitwiseOr, low, carried(p, SPIRV_ShiftLeftLogical, a.high, few));
        low = pick_word(p, is_many, high, low);
        high = pick_word(p, is_many, rest, high);
    }
    return spirv_join(p, low, high);
}

// Shifts a pair left by 1 and sets its last bit to `digit`.
static spirv_id append(struct spirv_program *p, spirv_id x, spirv_id digit) {
    spirv_id left = move(p, x, spirv_u32(p, 1), true, false), low = spirv_part(p, left, 0);
    low = spirv_op(p, SPIRV_BitwiseOr, low, digit);
    return spirv_join(p, low, spirv_part(p, left, 1));
}

static spirv_id shift(struct spirv_program *p, expr e, const spirv_id *operand) {
    bool is_left = e->op == TILE_SHL, is_signed = !is_left && e->type.kind == TILE_INT;
    spirv_id fits = is_less(p, false, operand[1], number(p, 64));
    spirv_id by = spirv_part(p, operand[1], 0);
    by = pick_word(p, fits, by, spirv_u32(p, is_signed ? 63 : 0));
    spirv_id moved = move(p, operand[0], by, is_left, is_signed);
    return is_signed ? moved : pick(p, fits, moved, number(p, 0));
}

// Long division, one bit at a time.
spirv_id spirv_pair_divide(struct spirv_program *p, struct tile_type t, const spirv_id *x) {
    struct spirv_module *m = &p->m;
    spirv_id type = spirv_type(p, t), word = spirv_uint(m, 32), zero = number(p, 0);
    spirv_id rest = spirv_local(m, type), quotient = spirv_local(m, type), digit = spirv_local(m, word);
    spirv_do(m, SPIRV_Store, rest, zero);
    spirv_do(m, SPIRV_Store, quotient, zero);
    spirv_do(m, SPIRV_Store, digit, spirv_u32(p, 64));
    struct spirv_loop l = spirv_open_loop(p, false);
    spirv_id at = spirv_load(m, word, digit);
    spirv_test_loop(p, &l, spirv_test_by(p, SPIRV_INotEqual, at, 0));
    spirv_id which = spirv_op_by(p, SPIRV_ISub, at, 1);
    spirv_id one = spirv_part(p, move(p, x[0], which, false, false), 0);
    one = spirv_op_by(p, SPIRV_BitwiseAnd, one, 1);
    spirv_id left = append(p, spirv_load(m, type, rest), one);
    spirv_id fits = spirv_not(p, is_less(p, false, left, x[1]));
    spirv_id last = spirv_pick_number(p, fits, 1, 0);
    spirv_do(m, SPIRV_Store, rest, pick(p, fits, subtract(p, left, x[1]), left));
    spirv_do(m, SPIRV_Store, quotient, append(p, spirv_load(m, type, quotient), last));
    spirv_label(m, l.next);
    spirv_do(m, SPIRV_Store, digit, which);
    spirv_close_loop(p, &l);
    spirv_id is_zero = equals(p, x[1], zero);
    return pick(p, is_zero, zero, spirv_load(m, type, quotient));
}

// Divides, rounding down; a quotient by 0 is 0.
static spirv_id divide(struct spirv_program *p, struct tile_type type, spirv_id a, spirv_id b) {
    if (type.kind == TILE_UINT)
        return spirv_call(p, SPIRV_HELP_PAIR_DIVIDE, (spirv_id[]){a, b});
    spirv_id x = without_sign(p, a), y = without_sign(p, b);
    spirv_id quotient = spirv_call(p, SPIRV_HELP_PAIR_DIVIDE, (spirv_id[]){x, y});
    spirv_id is_exact = equals(p, multiply(p, quotient, y), x), zero = number(p, 0);
    spirv_id sign = is_negative(p, a), sign_of_b = is_negative(p, b);
    spirv_id differ = spirv_test(p, SPIRV_LogicalNotEqual, sign, sign_of_b), down = negate(p, quotient);
    down = subtract(p, down, pick(p, is_exact, zero, number(p, 1)));
    quotient = pick(p, differ, down, quotient);
    return pick(p, equals(p, b, zero), zero, quotient);
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
    case TILE_NE: return spirv_not(p, equals(p, a, b));
    case TILE_LT: return is_less(p, is_signed, a, b);
    case TILE_LE: return spirv_not(p, is_less(p, is_signed, b, a));
    case TILE_GT: return is_less(p, is_signed, b, a);
    case TILE_GE: return spirv_not(p, is_less(p, is_signed, a, b));
    default: spirv_fail(p, "the target has no form of ", tile_op_name(e->op)); return a;
    }
}

static spirv_id times(struct spirv_program *p, struct tile_type type, spirv_id a, double factor) {
    spirv_id by = spirv_real(p, type, factor);
    return spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FMul, spirv_type(p, type), a, by));
}

static spirv_id from_word(struct spirv_program *p, struct tile_type to, spirv_id word) {
    return spirv_value(&p->m, SPIRV_ConvertUToF, spirv_type(p, to), word);
}

// Converts an unsigned number to f32. If it has more than 32 bits, converts the upper ones, and sets the last
// of these if any lower bit is set: that rounds as all bits do.
static spirv_id to_f32(struct spirv_program *p, spirv_id x) {
    struct pair a = parts(p, x);
    spirv_id type = spirv_type(p, f32), none = spirv_u32(p, 0);
    spirv_id is_short = spirv_test(p, SPIRV_IEqual, a.high, none);
    spirv_id top = spirv_glsl(&p->m, SPIRV_FIND_TOP, spirv_uint(&p->m, 32), 1, &a.high);
    spirv_id by = pick_word(p, is_short, none, spirv_op_by(p, SPIRV_IAdd, top, 1));
    spirv_id upper = move(p, x, by, false, false), back = move(p, upper, by, true, false);
    spirv_id sticky = spirv_pick_number(p, equals(p, back, x), 0, 1);
    spirv_id digits = spirv_op(p, SPIRV_BitwiseOr, spirv_part(p, upper, 0), sticky);
    spirv_id scale = spirv_op_by(p, SPIRV_ShiftLeftLogical, spirv_op_by(p, SPIRV_IAdd, by, 127), 23);
    digits = from_word(p, f32, digits);
    return spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FMul, type, digits, spirv_as(p, type, scale)));
}

static spirv_id to_float(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    spirv_id type = spirv_type(p, to), size = from.kind == TILE_INT ? without_sign(p, x) : x, y;
    if (to.bits == 32)
        y = to_f32(p, size);
    else { // both parts are exact
        struct pair a = parts(p, size);
        y = times(p, to, from_word(p, to, a.high), 0x1p32);
        y = spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FAdd, type, y, from_word(p, to, a.low)));
    }
    if (from.kind == TILE_UINT)
        return y;
    spirv_id is_below = is_negative(p, x);
    return spirv_pick(p, to, is_below, spirv_value(&p->m, SPIRV_FNegate, type, y), y);
}

// Converts a float to a 64-bit integer: saturates, and gives 0 for NaN. All steps are exact.
static spirv_id from_float(struct spirv_program *p, struct tile_type to, struct tile_type from, spirv_id x) {
    bool is_signed = to.kind == TILE_INT;
    spirv_id type = spirv_type(p, from), word = spirv_uint(&p->m, 32), zero = spirv_real(p, from, 0);
    spirv_id is_below = spirv_test(p, SPIRV_FOrdLessThan, x, zero);
    spirv_id size = spirv_pick(p, from, is_below, spirv_value(&p->m, SPIRV_FNegate, type, x), x);
    spirv_id most = spirv_real(p, from, is_signed ? 0x1p63 : 0x1p64);
    spirv_id is_large = spirv_test(p, SPIRV_FOrdGreaterThanEqual, size, most);
    spirv_id is_number = spirv_test(p, SPIRV_FOrdGreaterThanEqual, size, zero);
    size =
        spirv_pick(p, from, spirv_test(p, SPIRV_LogicalAnd, is_number, spirv_not(p, is_large)), size, zero);
    spirv_id high = spirv_value(&p->m, SPIRV_ConvertFToU, word, times(p, from, size, 0x1p-32));
    spirv_id upper = times(p, from, from_word(p, from, high), 0x1p32);
    spirv_id rest = spirv_exact(&p->m, spirv_value(&p->m, SPIRV_FSub, type, size, upper));
    spirv_id y = spirv_join(p, spirv_value(&p->m, SPIRV_ConvertFToU, word, rest), high);
    y = pick(p, is_large, number(p, is_signed ? INT64_MAX : UINT64_MAX), y);
    spirv_id least = number(p, is_signed ? UINT64_C(1) << 63 : 0);
    return pick(p, is_below, is_signed ? pick(p, is_large, least, negate(p, y)) : least, y);
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
    return spirv_extend_word(p, from, x);
}
