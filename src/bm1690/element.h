// element.h - elements of memory as numbers: loading, storing, rounding and casts, as the reference model
// does them.

#ifndef BM1690_ELEMENT_H
#define BM1690_ELEMENT_H

#include "bm1690/chip.h"

// rounding_mode_t of the vendor's ABI.
enum { ROUND_EVEN, ROUND_AWAY, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_HALF_UP, ROUND_HALF_DOWN };

// Returns whether a dtype is a float of 8, 16 or 32 bits.
bool element_is_float(enum bm1690_dtype dtype);
// Returns whether a dtype is a signed integer of 8, 16 or 32 bits.
bool element_is_signed(enum bm1690_dtype dtype);

// Returns an element of a float dtype.
float element_load(const uint8_t *from, enum bm1690_dtype dtype);
// Stores x as an element of a float dtype, rounded to the nearest even.
void element_store(uint8_t *to, enum bm1690_dtype dtype, float x);
// Returns an element of an integer dtype.
int64_t element_load_int(const uint8_t *from, enum bm1690_dtype dtype);
// Stores the low bits of x as an element of an integer dtype.
void element_store_int(uint8_t *to, enum bm1690_dtype dtype, int64_t x);
// Stores the least and the greatest number of an integer dtype.
void element_range(enum bm1690_dtype dtype, int64_t *least, int64_t *most);
// Rounds x to an integer in a rounding mode.
double element_round(double x, int mode);
// Converts an element to another dtype, rounded in a mode. Integers saturate, and so do casts from f32 to
// smaller floats and from floats to fp8.
void element_cast(uint8_t *to, enum bm1690_dtype to_dtype, const uint8_t *from, enum bm1690_dtype from_dtype,
                  int mode);

// Returns whether a comparison of two elements holds, GREATER to NOT_EQUAL (integer.c). Floats are equal if
// their bits are; LESS is the negation of GREATER_EQUAL and LESS_EQUAL that of GREATER, so both hold for a
// NaN.
bool element_holds(int operation, enum bm1690_dtype dtype, const uint8_t *a, const uint8_t *b);

// A result in its dtype's precision, as a float.
static inline float element_step(enum bm1690_dtype dtype, float x) {
    return dtype == BM1690_FP16    ? half_to_float(half_from_float(x))
           : dtype == BM1690_BFP16 ? bfloat_to_float(bfloat_from_float(x))
                                   : x;
}

// Numbers below the smallest normal one become zero of the same sign.
static inline float element_flush(float x) {
    uint32_t bits = bits_of_float(x);
    return float_of_bits(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

// Arithmetic has no subnormal numbers of f32 and bf16: as an operand, and as a result, they are zeros of
// their sign. A result that is not a number is all ones but the sign.
static inline float element_operand(const uint8_t *from, enum bm1690_dtype dtype) {
    return element_flush(element_load(from, dtype));
}
// Stores a result as an element of a float dtype.
void element_result(uint8_t *to, enum bm1690_dtype dtype, float x);
// Stores a result that is one of the operands: its bits, or a zero for a subnormal number of f32 or bf16.
void element_keep(uint8_t *to, const uint8_t *from, enum bm1690_dtype dtype);

// Rows have `count` elements, `stride` elements apart.

// Loads a row of a float dtype, as element_load does.
void element_load_row(float *out, const uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype);
// Stores a row of a float dtype, as element_store does.
void element_store_row(uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype, const float *x);
// Converts a row, as element_cast does.
void element_cast_row(uint8_t *to, int64_t to_stride, enum bm1690_dtype to_dtype, const uint8_t *from,
                      int64_t from_stride, enum bm1690_dtype from_dtype, int count, int mode);

#endif
