// number.h - elements of memory as numbers: loading, storing, rounding and casts, as the reference model does them.

#ifndef BM1690_NUMBER_H
#define BM1690_NUMBER_H

#include "bm1690/chip.h"

// rounding_mode_t of the vendor's ABI.
enum { ROUND_EVEN, ROUND_AWAY, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_HALF_UP, ROUND_HALF_DOWN };

bool number_is_float(enum bm1690_dtype dtype);
bool number_is_signed(enum bm1690_dtype dtype);

float number_load(const uint8_t *from, enum bm1690_dtype dtype);  // a float
void number_store(uint8_t *to, enum bm1690_dtype dtype, float x); // rounded to the nearest even
int64_t number_load_int(const uint8_t *from, enum bm1690_dtype dtype);
void number_store_int(uint8_t *to, enum bm1690_dtype dtype, int64_t x);    // its low bits
void number_range(enum bm1690_dtype dtype, int64_t *least, int64_t *most); // of an integer dtype
double number_round(double x, int mode);                                   // to an integer
void number_cast(uint8_t *to, enum bm1690_dtype to_dtype, const uint8_t *from, enum bm1690_dtype from_dtype,
                 int mode);

// A comparison of two elements, GREATER to NOT_EQUAL. Floats are equal if their bits are; LESS is what is not GREATER_EQUAL and
// LESS_EQUAL what is not GREATER, so both hold for a NaN. (integer.c)
bool number_holds(int operation, enum bm1690_dtype dtype, const uint8_t *a, const uint8_t *b);

// A result in its dtype's precision, as a float.
static inline float number_step(enum bm1690_dtype dtype, float x) {
    return dtype == BM1690_FP16    ? half_to_float(half_from_float(x))
           : dtype == BM1690_BFP16 ? bfloat_to_float(bfloat_from_float(x))
                                   : x;
}

// Numbers below the smallest normal one become zero of the same sign.
static inline float number_flush(float x) {
    uint32_t bits = bits_of_float(x);
    return float_of_bits(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

// Rows: `count` elements, `stride` elements apart.
void number_load_row(float *out, const uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype);
void number_store_row(uint8_t *row, int64_t stride, int count, enum bm1690_dtype dtype, const float *x);

void number_cast_row(uint8_t *to, int64_t to_stride, enum bm1690_dtype to_dtype, const uint8_t *from,
                     int64_t from_stride, enum bm1690_dtype from_dtype, int count, int mode);

#endif
