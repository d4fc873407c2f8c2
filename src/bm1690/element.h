// element.h - elements of memory as numbers: loading, storing, rounding and casts, as the reference model
// does them.

#ifndef BM1690_ELEMENT_H
#define BM1690_ELEMENT_H

#include "bm1690/chip.h"

// rounding_mode_t of the vendor's ABI.
enum { ROUND_EVEN, ROUND_AWAY, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_HALF_UP, ROUND_HALF_DOWN };

bool element_is_float(enum bm1690_dtype dtype);
bool element_is_signed(enum bm1690_dtype dtype);

float element_load(const uint8_t *from, enum bm1690_dtype dtype);  // a float
void element_store(uint8_t *to, enum bm1690_dtype dtype, float x); // rounded to the nearest even
int64_t element_load_int(const uint8_t *from, enum bm1690_dtype dtype);
void element_store_int(uint8_t *to, enum bm1690_dtype dtype, int64_t x);    // its low bits
void element_range(enum bm1690_dtype dtype, int64_t *least, int64_t *most); // of an integer dtype
double element_round(double x, int mode);                                   // to an integer
void element_cast(uint8_t *to, enum bm1690_dtype to_dtype, const uint8_t *from, enum bm1690_dtype from_dtype,
                  int mode);

// A comparison of two elements, GREATER to NOT_EQUAL. Floats are equal if their bits are; LESS is what is not
// GREATER_EQUAL and LESS_EQUAL what is not GREATER, so both hold for a NaN. (integer.c)
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
void element_result(uint8_t *to, enum bm1690_dtype dtype, float x);
// A result that is one of the operands: its bits, or a zero for a subnormal number.
void element_keep(uint8_t *to, const uint8_t *from, enum bm1690_dtype dtype);

// Rows: `count` elements, `stride` elements apart.
void element_load_row(float *out, const uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype);
void element_store_row(uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype, const float *x);

void element_cast_row(uint8_t *to, int64_t to_stride, enum bm1690_dtype to_dtype, const uint8_t *from,
                      int64_t from_stride, enum bm1690_dtype from_dtype, int count, int mode);

#endif
