// small.c - numbers of 8 and 4 bits, which are stored and converted but not computed with: the values of
// their codes, and conversions as formulas on bytes for targets without these types. An element takes a byte
// of memory, even if it has 4 bits.
//
// A format has an exponent and a fraction; numbers are rounded to the nearest, ties to even, and saturate at
// its largest number. e8m0 has only an exponent; numbers are rounded down to a power of two.

#include "tile/notation.h"

#include <math.h>

struct format {
    int fraction, bias; // bits of the fraction; bias of the exponent
    double largest;     // finite
    unsigned nan;       // the code of NaN; of e2m1, which has none, that of the largest number
};

static const struct format formats[] = {
    [TILE_E4M3 - TILE_E4M3] = {3, 7, 448, 0x7f},     [TILE_E5M2 - TILE_E4M3] = {2, 15, 57344, 0x7f},
    [TILE_E4M3FNUZ - TILE_E4M3] = {3, 8, 240, 0x80}, [TILE_E5M2FNUZ - TILE_E4M3] = {2, 16, 57344, 0x80},
    [TILE_E2M1 - TILE_E4M3] = {1, 1, 6, 0x7},
};

static const struct format *format_of(struct tile_type type) {
    return &formats[type.kind - TILE_E4M3];
}

static unsigned sign_of(struct tile_type type) {
    return 1u << (type.bits - 1);
}

// Numbers ---------------------------------------------------------------------------------------------------

static bool is_special(struct tile_type type, unsigned code, double *value) {
    unsigned size = code & (sign_of(type) - 1);
    bool is_unsigned_zero =
        format_of(type)->nan == 0x80; // fnuz types: the code of -0 is NaN, and there are no infinities
    *value = NAN;
    if (type.kind == TILE_E2M1)
        return false;
    if (is_unsigned_zero)
        return code == 0x80;
    if (type.kind == TILE_E5M2 && size == 0x7c)
        *value = code & 0x80 ? -INFINITY : INFINITY;
    return type.kind == TILE_E5M2 ? size >= 0x7c : size == 0x7f;
}

double tile_small_value(struct tile_type type, uint64_t bits) {
    unsigned code = (unsigned)bits, size = code & (sign_of(type) - 1);
    if (type.kind == TILE_E8M0)
        return code == 255 ? NAN : ldexp(1, (int)code - 127);
    const struct format *f = format_of(type);
    double value;
    if (is_special(type, code, &value))
        return value;
    int exponent = (int)(size >> f->fraction);
    double fraction = ldexp(size & ((1u << f->fraction) - 1), -f->fraction);
    value = ldexp(exponent ? 1 + fraction : fraction, MAX_OF(exponent, 1) - f->bias);
    return code & sign_of(type) ? -value : value;
}

// Returns the code of the number nearest to `size`, which is an f32 without sign; ties to even.
static unsigned nearest(struct tile_type type, double size) {
    const struct format *f = format_of(type);
    int exponent = 1 - f->bias;
    if (size >= ldexp(1, exponent))
        frexp(size, &exponent), exponent--;
    double steps =
        nearbyint(ldexp(size, f->fraction - exponent)); // up to 2^(fraction + 1): carries into the exponent
    return ((unsigned)(exponent - 1 + f->bias) << f->fraction) + (unsigned)steps;
}

uint64_t tile_small_bits(struct tile_type type, double value) {
    float single = (float)value;
    if (type.kind == TILE_E8M0)
        return bits_of_float(single) >> 23 & 255;
    const struct format *f = format_of(type);
    if (isnan(single))
        return f->nan;
    unsigned code = nearest(type, fmin(fabs((double)single), f->largest));
    bool is_negative = signbit(single) && (code || f->nan != 0x80);
    return code | (is_negative ? sign_of(type) : 0);
}

// Formulas --------------------------------------------------------------------------------------------------

static const struct tile_type u8 = {TILE_UINT, 8, 1}, i8 = {TILE_INT, 8, 1}, u32 = {TILE_UINT, 32, 1};

static expr number_of_power(expr code) {
    return SELECT(EQ(code, U32(0)), AS_F32(U32(0x00400000)),
                  SELECT(EQ(code, U32(255)), F32(NAN), AS_F32(SHL(code, U32(23)))));
}

static expr with_specials(struct tile_type type, expr code, expr size, expr value) {
    if (type.kind == TILE_E2M1)
        return value;
    if (format_of(type)->nan == 0x80)
        return SELECT(EQ(code, U32(0x80)), F32(NAN), value);
    if (type.kind == TILE_E4M3)
        return SELECT(EQ(size, U32(0x7f)), F32(NAN), value);
    expr infinity = SELECT(GE(code, U32(0x80)), F32(-INFINITY), F32(INFINITY));
    return SELECT(GT(size, U32(0x7c)), F32(NAN), SELECT(EQ(size, U32(0x7c)), infinity, value));
}

expr tile_decode(struct tile_type type, expr byte) {
    if (type.kind == TILE_UINT)
        return byte;
    if (type.kind == TILE_INT) // the sign is bit 3
        return SUB(tile_bitcast(i8, XOR(byte, tile_const_int(u8, 8))), tile_const_int(i8, 8));
    expr code = tile_cast(u32, byte);
    if (type.kind == TILE_E8M0)
        return number_of_power(code);
    const struct format *f = format_of(type);
    unsigned sign = sign_of(type);
    expr size = AND(code, U32(sign - 1));
    expr bits =
        OR(SHL(AND(code, U32(sign)), U32(32u - type.bits)), SHL(size, U32(23u - (unsigned)f->fraction)));
    return with_specials(type, code, size, MUL(AS_F32(bits), F32(ldexp(1, 127 - f->bias))));
}

// If the exponent of a code is 0, the value is its fraction as a whole number, scaled; else the code's bits
// are moved to those of an f32 and the bias of the exponent is changed.
expr tile_decode_normal(struct tile_type type, expr byte) {
    if (!tile_type_is_small_float(type) || type.kind == TILE_E8M0)
        return tile_decode(type, byte);
    const struct format *f = format_of(type);
    unsigned sign = sign_of(type);
    expr code = tile_cast(u32, byte), size = AND(code, U32(sign - 1));
    expr least = MUL(TO_F32(tile_bitcast((struct tile_type){TILE_INT, 32, 1}, size)),
                     F32(ldexp(1, 1 - f->bias - f->fraction)));
    expr normal =
        AS_F32(ADD(SHL(size, U32(23u - (unsigned)f->fraction)), U32((unsigned)(127 - f->bias) << 23)));
    expr value = SELECT(LT(size, U32(1u << f->fraction)), least, normal);
    return with_specials(type, code, size, SELECT(NE(AND(code, U32(sign)), U32(0)), NEG(value), value));
}

static expr integer_code(struct tile_type type, expr x) {
    bool is_signed = type.kind == TILE_INT;
    if (tile_type_is_float(x->type)) {
        expr f = TO_F32(x), low = F32(is_signed ? -8 : 0), high = F32(is_signed ? 7 : 15);
        x = SELECT(NE(f, f), I32(0), TO_I32(MIN(MAX(f, low), high)));
    }
    return AND(tile_cast(u8, x), tile_const_int(u8, 15));
}

expr tile_encode(struct tile_type type, expr x) {
    if (!x || tile_type_is_integer(type))
        return x ? integer_code(type, x) : NULL;
    expr f = TO_F32(x);
    if (type.kind == TILE_E8M0)
        return tile_cast(u8, AND(SHR(AS_U32(f), U32(23)), U32(255)));
    const struct format *form = format_of(type);
    unsigned shift = 23u - (unsigned)form->fraction;
    expr size = MIN(ABS(f), F32(form->largest)), bits = AS_U32(size);
    expr even = AND(SHR(bits, U32(shift)), U32(1));
    expr rounded = SHR(ADD(ADD(bits, U32((1u << (shift - 1)) - 1)), even), U32(shift));
    expr normal = SUB(rounded, U32((unsigned)(127 - form->bias) << form->fraction));
    expr small = tile_cast(u32, RINT(MUL(size, F32(ldexp(1, form->bias - 1 + form->fraction)))));
    expr code = SELECT(LT(size, F32(ldexp(1, 1 - form->bias))), small, normal);
    expr sign = AND(SHR(AS_U32(f), U32(32u - type.bits)), U32(sign_of(type)));
    if (form->nan == 0x80)
        sign = SELECT(EQ(code, U32(0)), U32(0), sign);
    return tile_cast(u8, SELECT(NE(f, f), U32(form->nan), OR(code, sign)));
}
