// halves_integer.c - integers of 64 bits as two words of 32: sums with carries, products of half words, and
// quotients by estimates.
//
// All results are exact, and wrap around as integers of 64 bits do.

#include "pass/halves.h"

static const struct tile_type u32 = {TILE_UINT, 32, 1};

static struct half_words words(expr low, expr high) {
    return (struct half_words){low, high};
}

struct half_words halves_of_bits(uint64_t bits) {
    return words(U32(bits & UINT32_MAX), U32(bits >> 32));
}

static bool is_number(expr e, uint32_t value) {
    return e && e->op == TILE_CONST && e->bits == value;
}

static expr as_word(expr test) { // 1 or 0
    return SELECT(test, U32(1), U32(0));
}

struct half_words halves_select(expr test, struct half_words a, struct half_words b) {
    return words(SELECT(test, a.low, b.low), SELECT(test, a.high, b.high));
}

static expr is_negative(struct half_words a) {
    return LT(AS_I32(a.high), I32(0));
}

static expr is_zero(struct half_words a) {
    return EQ(OR(a.low, a.high), U32(0));
}

// Sums ------------------------------------------------------------------------------------------------------

static struct half_words add(struct half_words a, struct half_words b) {
    expr low = ADD(a.low, b.low);
    return words(low, ADD(ADD(a.high, b.high), as_word(LT(low, a.low))));
}

static struct half_words subtract(struct half_words a, struct half_words b) {
    return words(SUB(a.low, b.low), SUB(SUB(a.high, b.high), as_word(LT(a.low, b.low))));
}

static struct half_words negate(struct half_words a) {
    return subtract(halves_of_bits(0), a);
}

static struct half_words size_of(struct half_words a) {
    return halves_select(is_negative(a), negate(a), a);
}

// Products --------------------------------------------------------------------------------------------------

// Returns both words of the product of two words.
static struct half_words wide_product(expr a, expr b) {
    expr mask = U32(0xffff), half = U32(16);
    expr a0 = AND(a, mask), a1 = SHR(a, half), b0 = AND(b, mask), b1 = SHR(b, half);
    expr low = MUL(a0, b0), x = MUL(a0, b1), y = MUL(a1, b0);
    expr middle = ADD(ADD(SHR(low, half), AND(x, mask)), AND(y, mask));
    expr high = ADD(ADD(MUL(a1, b1), SHR(x, half)), ADD(SHR(y, half), SHR(middle, half)));
    return words(OR(AND(low, mask), SHL(middle, half)), high);
}

static struct half_words multiply(struct half_words a, struct half_words b) {
    struct half_words p = wide_product(a.low, b.low);
    if (!is_number(b.high, 0))
        p.high = ADD(p.high, MUL(a.low, b.high));
    if (!is_number(a.high, 0))
        p.high = ADD(p.high, MUL(a.high, b.low));
    return p;
}

// Comparisons -----------------------------------------------------------------------------------------------

static expr is_less(struct tile_type type, struct half_words a, struct half_words b) {
    bool is_signed = type.kind == TILE_INT;
    expr x = is_signed ? AS_I32(a.high) : a.high, y = is_signed ? AS_I32(b.high) : b.high;
    return OR(LT(x, y), AND(EQ(x, y), LT(a.low, b.low)));
}

static expr compare(enum tile_op op, struct tile_type type, struct half_words a, struct half_words b) {
    switch (op) {
    case TILE_EQ: return AND(EQ(a.low, b.low), EQ(a.high, b.high));
    case TILE_NE: return OR(NE(a.low, b.low), NE(a.high, b.high));
    case TILE_LT: return is_less(type, a, b);
    case TILE_GT: return is_less(type, b, a);
    case TILE_LE: return NOT(is_less(type, b, a));
    case TILE_GE: return NOT(is_less(type, a, b));
    default: return NULL;
    }
}

// Shifts ----------------------------------------------------------------------------------------------------

// A word that is shifted by 32 or more, or by a negative count, is 0. So the bits that move to the other word
// are combined from a left and a right shift, of which one is 0.
static struct half_words shift_left(struct half_words a, expr by) {
    expr over = OR(SHR(a.low, SUB(U32(32), by)), SHL(a.low, SUB(by, U32(32))));
    return words(SHL(a.low, by), OR(SHL(a.high, by), over));
}

static struct half_words shift_right(struct tile_type type, struct half_words a, expr by) {
    expr near = OR(SHR(a.low, by), SHL(a.high, SUB(U32(32), by)));
    if (type.kind == TILE_UINT)
        return words(OR(near, SHR(a.high, SUB(by, U32(32)))), SHR(a.high, by));
    expr high = AS_I32(a.high), far = AS_U32(SHR(high, AS_I32(SUB(by, U32(32)))));
    return words(SELECT(LT(by, U32(32)), near, far), AS_U32(SHR(high, AS_I32(by))));
}

// Returns the count of a shift. Counts above 64, and negative ones, become 64.
static expr shift_count(struct half_words b) {
    if (b.low && b.low->op == TILE_CONST && is_number(b.high, 0))
        return b.low->bits < 64 ? b.low : U32(64);
    return SELECT(EQ(b.high, U32(0)), MIN(b.low, U32(64)), U32(64));
}

// Conversions -----------------------------------------------------------------------------------------------

struct half_words halves_from_narrow(expr e) {
    if (!e)
        return words(NULL, NULL);
    if (tile_type_is_bool(e->type))
        return words(as_word(e), U32(0));
    if (e->type.kind == TILE_UINT)
        return words(tile_cast(u32, e), U32(0));
    expr x = TO_I32(e);
    return words(AS_U32(x), AS_U32(SHR(x, I32(31))));
}

// Returns the words of a whole float from 0 to below 2^64, which has at most 24 bits other than 0.
static struct half_words from_size(expr size) {
    expr high = FLOOR(MUL(size, F32(0x1p-32))), low = SUB(size, MUL(high, F32(0x1p32)));
    expr top = FLOOR(MUL(low, F32(0x1p-16))), rest = SUB(low, MUL(top, F32(0x1p16)));
    expr top_high = FLOOR(MUL(high, F32(0x1p-16))), rest_high = SUB(high, MUL(top_high, F32(0x1p16)));
    expr low_word = OR(SHL(AS_U32(TO_I32(top)), U32(16)), AS_U32(TO_I32(rest)));
    return words(low_word, OR(SHL(AS_U32(TO_I32(top_high)), U32(16)), AS_U32(TO_I32(rest_high))));
}

struct half_words halves_from_f32(struct tile_type type, expr e) {
    bool is_signed = type.kind == TILE_INT;
    expr limit = F32(is_signed ? 0x1p63 : 0x1p64), size = FLOOR(ABS(e)), is_below = LT(e, F32(0));
    struct half_words found = from_size(SELECT(LT(size, limit), size, F32(0)));
    if (is_signed)
        found = halves_select(is_below, negate(found), found);
    struct half_words most = halves_of_bits(is_signed ? INT64_MAX : UINT64_MAX),
                      least = halves_of_bits(is_signed ? (uint64_t)INT64_MIN : 0);
    found = halves_select(GE(e, limit), most, found);
    return halves_select(is_signed ? LE(e, F32(-0x1p63)) : is_below, least, found);
}

// Returns the number of the highest bit of a word below 2^31. This is the exponent of the word as a float.
// Clearing each bit that follows a set one keeps the conversion from rounding up to the next power of two.
static expr top_bit(expr word) {
    expr odd = AND(word, NOT(SHR(word, U32(1))));
    return SUB(SHR(AS_U32(TO_F32(AS_I32(odd))), U32(23)), U32(127));
}

static expr top_bit_of_any(expr word) {
    return SELECT(LT(AS_I32(word), I32(0)), U32(31), top_bit(word));
}

// Returns an unsigned number as f32: its upper 31 bits, the last of which is 1 if any lower bit was, times a
// power of two.
static expr size_to_f32(struct half_words a) {
    expr top = SELECT(NE(a.high, U32(0)), ADD(top_bit_of_any(a.high), U32(32)), top_bit_of_any(a.low));
    expr by = SELECT(LT(AS_I32(top), I32(30)), U32(0), SUB(top, U32(30)));
    struct half_words kept = shift_right((struct tile_type){TILE_UINT, 64, 1}, a, by);
    struct half_words back = shift_left(kept, by);
    expr more = as_word(compare(TILE_NE, u32, back, a));
    return MUL(TO_F32(AS_I32(OR(kept.low, more))), AS_F32(SHL(ADD(by, U32(127)), U32(23))));
}

expr halves_to_f32(struct tile_type type, struct half_words a) {
    if (type.kind == TILE_UINT)
        return size_to_f32(a);
    expr size = size_to_f32(size_of(a));
    return SELECT(is_negative(a), NEG(size), size);
}

// Quotients -------------------------------------------------------------------------------------------------

// Divides unsigned numbers. Each turn divides the rest as f32, by a quotient that is never too large, and
// leaves 2^-19 of it.
static struct half_words divide_sizes(struct half_words a, struct half_words b, struct half_words *rest) {
    const struct tile_type type = {TILE_UINT, 64, 1};
    enum { TURNS = 4 };
    expr inverse = DIV(F32(1 - 0x1p-19), size_to_f32(b));
    struct half_words quotient = halves_of_bits(0), left = a;
    for (int i = 0; i < TURNS; i++) {
        struct half_words part = halves_from_f32(type, MUL(size_to_f32(left), inverse));
        quotient = i ? add(quotient, part) : part;
        left = subtract(left, multiply(part, b));
    }
    for (int i = 0; i < 2; i++) {
        expr is_more = NOT(is_less(type, left, b));
        quotient = halves_select(is_more, add(quotient, halves_of_bits(1)), quotient);
        left = halves_select(is_more, subtract(left, b), left);
    }
    *rest = left;
    return quotient;
}

static struct half_words by_power(enum tile_op op, struct tile_type type, struct half_words a, uint64_t by) {
    struct half_words mask = halves_of_bits(by - 1);
    if (op == TILE_FLOORDIV)
        return shift_right(type, a, U32((uint64_t)__builtin_ctzll(by)));
    return words(AND(a.low, mask.low), AND(a.high, mask.high));
}

// Divides, rounded down; x // 0 is 0, and x % 0 is x.
static struct half_words divide(enum tile_op op, struct tile_type type, struct half_words a,
                                struct half_words b) {
    bool is_signed = type.kind == TILE_INT, is_known = b.low->op == TILE_CONST && b.high->op == TILE_CONST;
    uint64_t known = is_known ? b.high->bits << 32 | b.low->bits : 0;
    if (known && !(known & (known - 1)) && known >> 63 == 0)
        return by_power(op, type, a, known);
    struct half_words zero = halves_of_bits(0), rest, by = is_signed ? size_of(b) : b;
    by = halves_select(is_zero(b), halves_of_bits(1), by);
    struct half_words quotient = divide_sizes(is_signed ? size_of(a) : a, by, &rest);
    if (is_signed) {
        expr differ = NE(is_negative(a), is_negative(b)), is_down = AND(differ, NOT(is_zero(rest)));
        quotient = halves_select(is_down, add(quotient, halves_of_bits(1)), quotient);
        quotient = halves_select(differ, negate(quotient), quotient);
        rest = halves_select(is_down, subtract(by, rest), rest);
        rest = halves_select(is_negative(b), negate(rest), rest);
    }
    return op == TILE_FLOORDIV ? halves_select(is_zero(b), zero, quotient)
                               : halves_select(is_zero(b), a, rest);
}

struct half_words halves_integer(enum tile_op op, struct tile_type type, struct half_words a,
                                 struct half_words b) {
    expr test;
    switch (op) {
    case TILE_ADD: return add(a, b);
    case TILE_SUB: return subtract(a, b);
    case TILE_MUL: return multiply(a, b);
    case TILE_NEG: return negate(a);
    case TILE_ABS: return type.kind == TILE_INT ? size_of(a) : a;
    case TILE_AND: return words(AND(a.low, b.low), AND(a.high, b.high));
    case TILE_OR: return words(OR(a.low, b.low), OR(a.high, b.high));
    case TILE_XOR: return words(XOR(a.low, b.low), XOR(a.high, b.high));
    case TILE_NOT: return words(NOT(a.low), NOT(a.high));
    case TILE_SHL: return shift_left(a, shift_count(b));
    case TILE_SHR: return shift_right(type, a, shift_count(b));
    case TILE_MAX: return halves_select(is_less(type, a, b), b, a);
    case TILE_MIN: return halves_select(is_less(type, b, a), b, a);
    case TILE_FLOORDIV:
    case TILE_REM: return divide(op, type, a, b);
    case TILE_CONJ:
    case TILE_REAL_PART:
    case TILE_FLOOR:
    case TILE_CEIL:
    case TILE_RINT:
    case TILE_TRUNC: return a;
    default: test = compare(op, type, a, b); return words(test, NULL);
    }
}
