// halves_float.c - arithmetic of f64 by that of u64, according to IEEE 754: rounded to the nearest, ties to
// even, with subnormal numbers.
//
// A sum or product is computed as m * 2^(e - 1078), with an m of at most 57 bits whose last bit says whether
// anything was lost, and rounded once at the end. A quotient has five digits of 11 bits. Which NaN results is
// not defined.

#include "pass/halves.h"

static const struct tile_type f64 = {TILE_FLOAT, 64, 1}, u64 = {TILE_UINT, 64, 1}, u32 = {TILE_UINT, 32, 1};

static const uint64_t sign_bit = UINT64_C(1) << 63, infinity = UINT64_C(0x7ff) << 52,
                      hidden_bit = UINT64_C(1) << 52;

static expr wide(expr word) {
    return tile_cast(u64, word);
}

static expr low_word(expr e) {
    return tile_cast(u32, e);
}

static expr high_word(expr e) {
    return tile_cast(u32, SHR(e, U64(32)));
}

static expr size_bits(expr bits) {
    return AND(bits, U64(sign_bit - 1));
}

static expr is_nan(expr bits) {
    return GT(size_bits(bits), U64(infinity));
}

static expr quiet_nan(void) {
    return U64(UINT64_C(0x7ff8) << 48);
}

static expr truth(expr test) { // as u64
    return SELECT(test, U64(1), U64(0));
}

// Shifts right by an i32 that is not negative; the last bit becomes 1 if any bit is lost.
static expr shift_right_sticky(expr m, expr by) {
    expr count = wide(AS_U32(MIN(by, I32(63)))), kept = SHR(m, count);
    return OR(kept, truth(NE(SHL(kept, count), m)));
}

// Returns the number of the highest bit of a word below 2^31; -127 for 0. This is the exponent of the word as
// a float. Clearing each bit that follows a set one keeps the conversion from rounding up to the next power
// of two.
static expr top_of_word(expr word) {
    expr odd = AND(word, NOT(SHR(word, U32(1))));
    return SUB(AS_I32(SHR(AS_U32(TO_F32(AS_I32(odd))), U32(23))), I32(127));
}

// Does the same for a number below 2^59.
static expr top_bit(expr m) {
    expr high = low_word(SHR(m, U64(28))), low = AND(low_word(m), U32((1u << 28) - 1));
    return SELECT(NE(high, U32(0)), ADD(top_of_word(high), I32(28)), top_of_word(low));
}

// Returns m * 2^(e - 1078) with a sign, rounded. m has at most 58 bits; e is an i32.
static expr rounded(expr sign, expr e, expr m) {
    expr by = SUB(top_bit(m), I32(55)), exponent = ADD(e, by), less = MAX(SUB(I32(1), exponent), I32(0));
    by = ADD(by, less);
    exponent = ADD(exponent, less);
    expr left = wide(AS_U32(MAX(NEG(by), I32(0))));
    m = SELECT(GT(by, I32(0)), shift_right_sticky(m, MAX(by, I32(0))), SHL(m, left));
    expr last = AND(low_word(m), U32(7)), is_odd = NE(AND(low_word(m), U32(8)), U32(0));
    expr is_up = OR(GT(last, U32(4)), AND(EQ(last, U32(4)), is_odd));
    expr fraction = ADD(SHR(m, U64(3)), truth(is_up));
    expr bits = ADD(fraction, SHL(wide(AS_U32(SUB(exponent, I32(1)))), U64(52)));
    bits = SELECT(GT(exponent, I32(2046)), U64(infinity), bits);
    return OR(sign, SELECT(EQ(m, U64(0)), U64(0), bits));
}

// The parts of a number: its bits without the sign are `size`; the exponent of a subnormal number is 1; the
// fraction has the hidden bit.
struct parts {
    expr bits, size, sign, exponent, fraction;
};

static struct parts parts_of(expr bits) {
    struct parts p = {.bits = bits, .size = size_bits(bits), .sign = AND(bits, U64(sign_bit))};
    expr exponent = AS_I32(AND(SHR(high_word(bits), U32(20)), U32(0x7ff)));
    expr rest = AND(bits, U64(hidden_bit - 1));
    p.fraction = SELECT(EQ(exponent, I32(0)), rest, OR(rest, U64(hidden_bit)));
    p.exponent = MAX(exponent, I32(1));
    return p;
}

// Returns the parts of a number with a fraction of 53 bits, which subnormal numbers get by a smaller
// exponent.
static struct parts normal_parts(expr bits) {
    struct parts p = parts_of(bits);
    expr by = MAX(SUB(I32(52), top_bit(p.fraction)), I32(0));
    by = MIN(by, I32(52));
    p.fraction = SHL(p.fraction, wide(AS_U32(by)));
    p.exponent = SUB(p.exponent, by);
    return p;
}

static expr as_float(expr bits) {
    return tile_bitcast(f64, bits);
}

static expr add(expr a, expr b) {
    expr is_swapped = GT(size_bits(b), size_bits(a));
    struct parts x = parts_of(SELECT(is_swapped, b, a)), y = parts_of(SELECT(is_swapped, a, b));
    expr m = SHL(x.fraction, U64(3)),
         n = shift_right_sticky(SHL(y.fraction, U64(3)), SUB(x.exponent, y.exponent));
    expr differ = NE(x.sign, y.sign), sum = SELECT(differ, SUB(m, n), ADD(m, n));
    expr sign = SELECT(AND(EQ(sum, U64(0)), differ), U64(0), x.sign);
    expr special = SELECT(AND(differ, EQ(y.size, U64(infinity))), quiet_nan(), x.bits);
    return as_float(SELECT(GE(x.size, U64(infinity)), special, rounded(sign, x.exponent, sum)));
}

// Returns the upper 64 bits of a product; sets *is_rest to whether any lower bit is 1.
static expr high_product(expr a, expr b, expr *is_rest) {
    expr a0 = wide(low_word(a)), a1 = wide(high_word(a)), b0 = wide(low_word(b)), b1 = wide(high_word(b));
    expr p = MUL(a0, b0), q = MUL(a0, b1), r = MUL(a1, b0);
    expr middle = ADD(ADD(wide(high_word(p)), wide(low_word(q))), wide(low_word(r)));
    *is_rest = NE(OR(low_word(p), low_word(middle)), U32(0));
    return ADD(ADD(MUL(a1, b1), wide(high_word(q))), ADD(wide(high_word(r)), wide(high_word(middle))));
}

static expr multiply(expr a, expr b) {
    struct parts x = normal_parts(a), y = normal_parts(b);
    expr is_rest, sign = XOR(x.sign, y.sign);
    expr high = high_product(SHL(x.fraction, U64(11)), SHL(y.fraction, U64(11)), &is_rest);
    expr m = OR(shift_right_sticky(high, I32(7)), truth(is_rest));
    expr product = rounded(sign, SUB(ADD(x.exponent, y.exponent), I32(1023)), m);
    expr is_zero = OR(EQ(x.size, U64(0)), EQ(y.size, U64(0)));
    expr is_large = OR(GE(x.size, U64(infinity)), GE(y.size, U64(infinity)));
    expr is_none = OR(OR(is_nan(a), is_nan(b)), AND(is_zero, is_large));
    product = SELECT(is_large, OR(sign, U64(infinity)), SELECT(is_zero, sign, product));
    return as_float(SELECT(is_none, quiet_nan(), product));
}

// Returns a quotient as digits of 11 bits. Each is estimated in f32, which is off by one at most, and
// corrected. Sets *rest to what is left.
static expr quotient_of(expr a, expr b, expr *rest) {
    enum { DIGITS = 5, BITS = 11 };
    expr is_first = GE(a, b), left = SELECT(is_first, SUB(a, b), a), quotient = truth(is_first);
    expr by = DIV(F32(1), TO_F32(AS_I32(low_word(SHR(b, U64(22))))));
    for (int i = 0; i < DIGITS; i++) {
        expr estimate = MUL(MUL(TO_F32(AS_I32(low_word(SHR(left, U64(22))))), by), F32(1 << BITS));
        expr digit = wide(AS_U32(TO_I32(estimate)));
        left = SUB(SHL(left, U64(BITS)), MUL(digit, b));
        expr is_less = LT(AS_I64(left), I64(0));
        left = SELECT(is_less, ADD(left, b), left);
        digit = SELECT(is_less, SUB(digit, U64(1)), digit);
        expr is_more = GE(left, b);
        left = SELECT(is_more, SUB(left, b), left);
        digit = SELECT(is_more, ADD(digit, U64(1)), digit);
        quotient = ADD(SHL(quotient, U64(BITS)), digit);
    }
    *rest = left;
    return quotient;
}

static expr divide(expr a, expr b) {
    struct parts x = normal_parts(a), y = normal_parts(b);
    expr rest, sign = XOR(x.sign, y.sign), m = quotient_of(x.fraction, y.fraction, &rest);
    m = OR(m, truth(NE(rest, U64(0))));
    expr quotient = rounded(sign, ADD(SUB(x.exponent, y.exponent), I32(1023)), m);
    expr a_zero = EQ(x.size, U64(0)), b_zero = EQ(y.size, U64(0)), a_large = GE(x.size, U64(infinity)),
         b_large = GE(y.size, U64(infinity));
    expr is_none = OR(OR(is_nan(a), is_nan(b)), OR(AND(a_zero, b_zero), AND(a_large, b_large)));
    quotient = SELECT(OR(a_zero, b_large), sign, quotient);
    quotient = SELECT(OR(b_zero, a_large), OR(sign, U64(infinity)), quotient);
    return as_float(SELECT(is_none, quiet_nan(), quotient));
}

// Corrects y, a root of x * 2^52 that is off by one at most: compares x * 2^52 - y^2 with y and -y. x has 53
// or 54 bits.
static expr rounded_root(expr x, expr y) {
    expr left = AS_I64(SUB(SHL(x, U64(52)), MUL(y, y))), one = U64(1);
    expr down = SELECT(LE(left, NEG(AS_I64(y))), SUB(y, one), y);
    return SELECT(GT(left, AS_I64(y)), ADD(y, one), down);
}

// Computes a root by Newton's method, from the root in f32: that of a fraction from 1 to 4, times a power of
// two.
static expr root(expr x) {
    struct parts p = normal_parts(AS_U64(x));
    expr half = SHR(SUB(p.exponent, I32(1023)), I32(1)), odd = AND(SUB(p.exponent, I32(1023)), I32(1));
    expr scaled =
        as_float(ADD(AND(p.fraction, U64(hidden_bit - 1)), SHL(wide(AS_U32(ADD(I32(1023), odd))), U64(52))));
    expr y = TO_F64(tile_unary(TILE_SQRT, TO_F32(scaled)));
    for (int i = 0; i < 2; i++)
        y = MUL(ADD(y, DIV(scaled, y)), F64(0.5));
    y = MIN(y, F64(0x1.fffffffffffffp0)); // the root of almost 4 was rounded to 2
    expr whole = OR(AND(AS_U64(y), U64(hidden_bit - 1)), U64(hidden_bit));
    whole = rounded_root(SHL(p.fraction, wide(AS_U32(odd))), whole);
    expr found = ADD(SUB(whole, U64(hidden_bit)), SHL(AS_U64(TO_I64(ADD(half, I32(1023)))), U64(52)));
    found = SELECT(GE(p.size, U64(infinity)), p.bits, found);
    found = SELECT(AND(NE(p.sign, U64(0)), NE(p.size, U64(0))), quiet_nan(), found);
    found = SELECT(is_nan(p.bits), quiet_nan(), found);
    return as_float(SELECT(EQ(p.size, U64(0)), p.bits, found));
}

// Comparisons -----------------------------------------------------------------------------------------------

// Maps the bits of floats that are not NaN to integers in the same order; -0 comes before 0.
static expr order_of(expr bits) {
    expr x = AS_I64(bits);
    return XOR(x, AND(SHR(x, I64(63)), I64(INT64_MAX)));
}

static expr either_nan(expr a, expr b) {
    return OR(is_nan(a), is_nan(b));
}

static expr compare(enum tile_op op, expr a, expr b) {
    expr zero = U64(0), are_zeros = EQ(size_bits(OR(a, b)), zero);
    expr is_equal = OR(EQ(a, b), are_zeros), is_less = AND(LT(order_of(a), order_of(b)), NOT(are_zeros));
    expr is_known = NOT(either_nan(a, b));
    switch (op) {
    case TILE_EQ: return AND(is_known, is_equal);
    case TILE_NE: return NOT(AND(is_known, is_equal));
    case TILE_LT: return AND(is_known, is_less);
    case TILE_LE: return AND(is_known, OR(is_less, is_equal));
    case TILE_GT: return AND(is_known, NOT(OR(is_less, is_equal)));
    case TILE_GE: return AND(is_known, NOT(is_less));
    default: return NULL;
    }
}

static expr extreme(enum tile_op op, expr a, expr b) {
    expr is_less = LT(order_of(a), order_of(b)),
         chosen = op == TILE_MIN ? SELECT(is_less, a, b) : SELECT(is_less, b, a);
    return as_float(SELECT(either_nan(a, b), quiet_nan(), chosen));
}

// Whole numbers ---------------------------------------------------------------------------------------------

static expr truncated(expr x) {
    struct parts p = parts_of(AS_U64(x));
    expr fraction = SUB(I32(1075), p.exponent); // bits after the point
    expr mask = SHL(U64(UINT64_MAX), wide(AS_U32(MAX(fraction, I32(0)))));
    expr kept = SELECT(GT(fraction, I32(52)), p.sign, AND(p.bits, mask));
    return as_float(SELECT(GT(fraction, I32(0)), kept, p.bits));
}

static expr stepped(enum tile_op op, expr x) {
    expr t = truncated(x), is_off = op == TILE_FLOOR ? LT(x, t) : LT(t, x);
    expr next = as_float(OR(AS_U64(ADD(t, F64(op == TILE_FLOOR ? -1 : 1))), AND(AS_U64(x), U64(sign_bit))));
    return SELECT(is_off, next, t);
}

// Rounds to the nearest integer: numbers from 2^52 on have no bits after the point.
static expr nearest(expr x) {
    expr bits = AS_U64(x), size = as_float(size_bits(bits)), large = F64(0x1p52);
    expr near = OR(AS_U64(SUB(ADD(size, large), large)), AND(bits, U64(sign_bit)));
    return SELECT(LT(size, large), as_float(near), x);
}

expr halves_float(enum tile_op op, expr a, expr b) {
    expr x = AS_U64(a), y = b ? AS_U64(b) : NULL;
    switch (op) {
    case TILE_ADD: return add(x, y);
    case TILE_SUB: return add(x, XOR(y, U64(sign_bit)));
    case TILE_MUL: return multiply(x, y);
    case TILE_DIV: return divide(x, y);
    case TILE_CONJ:
    case TILE_REAL_PART: return a;
    case TILE_NEG: return as_float(XOR(x, U64(sign_bit)));
    case TILE_ABS: return as_float(size_bits(x));
    case TILE_SQRT: return root(a);
    case TILE_MAX:
    case TILE_MIN: return extreme(op, x, y);
    case TILE_TRUNC: return truncated(a);
    case TILE_FLOOR:
    case TILE_CEIL: return stepped(op, a);
    case TILE_RINT: return nearest(a);
    default: return y ? compare(op, x, y) : NULL;
    }
}

// Conversions -----------------------------------------------------------------------------------------------

// Every f32 is an f64. The chip has no subnormal f32.
expr halves_float_from_f32(expr e) {
    expr bits = AS_U32(e), size = AND(bits, U32(0x7fffffff)), sign = AND(bits, U32(0x80000000));
    expr number = ADD(SHL(wide(size), U64(29)), U64(UINT64_C(896) << 52));
    number = SELECT(GE(size, U32(0x7f800000)), OR(SHL(wide(size), U64(29)), U64(infinity)), number);
    number = SELECT(LT(size, U32(0x00800000)), U64(0), number);
    return as_float(OR(number, SHL(wide(sign), U64(32))));
}

expr halves_float_to_f32(expr e) {
    expr bits = AS_U64(e), size = size_bits(bits), bias = U64(UINT64_C(896) << 52);
    expr less = SUB(size, bias), odd = AND(SHR(less, U64(29)), U64(1));
    expr number = low_word(SHR(ADD(ADD(less, U64(0x0fffffff)), odd), U64(29)));
    number = SELECT(LT(size, U64((UINT64_C(897) << 52) - (1 << 28))), U32(0), number);
    number = SELECT(GE(size, U64((UINT64_C(1151) << 52) - (1 << 28))), U32(0x7f800000), number);
    number = SELECT(is_nan(bits), U32(0x7fc00000), number);
    return AS_F32(OR(number, AND(high_word(bits), U32(0x80000000))));
}

expr halves_float_from_integer(expr e) {
    bool is_signed = e->type.kind == TILE_INT;
    expr bits = is_signed ? AS_U64(e) : e, sign = is_signed ? AND(bits, U64(sign_bit)) : U64(0);
    expr size = is_signed ? AS_U64(ABS(e)) : bits, is_large = GE(size, U64(UINT64_C(1) << 56));
    expr m = SELECT(is_large, shift_right_sticky(size, I32(8)), size);
    return as_float(rounded(sign, SELECT(is_large, I32(1086), I32(1078)), m));
}

expr halves_float_to_integer(struct tile_type type, expr e) {
    bool is_signed = type.kind == TILE_INT;
    struct parts p = parts_of(AS_U64(e));
    expr by = SUB(p.exponent, I32(1075)), left = wide(AS_U32(MIN(MAX(by, I32(0)), I32(63)))),
         right = wide(AS_U32(MIN(MAX(NEG(by), I32(0)), I32(63))));
    expr size = SELECT(GE(by, I32(0)), SHL(p.fraction, left), SHR(p.fraction, right));
    expr is_below = NE(p.sign, U64(0)), is_large = GE(p.exponent, I32(is_signed ? 1086 : 1087));
    expr number = is_signed ? SELECT(is_below, SUB(U64(0), size), size) : SELECT(is_below, U64(0), size);
    expr least = U64(is_signed ? (uint64_t)INT64_MIN : 0), most = U64(is_signed ? INT64_MAX : UINT64_MAX);
    number = SELECT(is_large, SELECT(is_below, least, most), number);
    number = SELECT(is_nan(p.bits), U64(0), number);
    return is_signed ? AS_I64(number) : number;
}
