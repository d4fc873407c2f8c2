// halves.h - numbers of 64 bits as two of 32 bits, for targets whose commands take no wider ones. Shared by
// files of pass/ only.

#ifndef HALVES_H
#define HALVES_H

#include "pass/boxes.h"

static inline bool halves_is_wide(struct tile_type type) {
    return type.bits == 64 && type.lanes == 1;
}

// The words of a number of 64 bits, as u32; or the parts of a complex number, as f32.
struct half_words {
    expr low, high; // NULL after an error
};

// halves_integer.c: i64 and u64; `type` says which ----------------------------------------------------------

// Returns the words of a constant.
struct half_words halves_of_bits(uint64_t bits);
// Returns the result of an op on words; {NULL}, without an error, if the op cannot be computed from them. The
// result of a comparison is in `low`.
struct half_words halves_integer(enum tile_op op, struct tile_type type, struct half_words a,
                                 struct half_words b);
// Returns the words of a where the test is true, else those of b.
struct half_words halves_select(expr test, struct half_words a, struct half_words b);
// Returns the words of an integer of at most 32 bits or a bool.
struct half_words halves_from_narrow(expr e);
// Returns the words of an f32, truncated and saturated to the type; NaN gives 0.
struct half_words halves_from_f32(struct tile_type type, expr e);
// Returns the number as an f32, rounded to the nearest.
expr halves_to_f32(struct tile_type type, struct half_words a);

// halves_float.c: f64 by IEEE's rules, in terms of u64 ------------------------------------------------------

// Returns the result of an op on operands of f64; NULL, without an error, if this file does not implement it.
expr halves_float(enum tile_op op, expr a, expr b);
// Returns the f64 of an f32; subnormal numbers become 0.
expr halves_float_from_f32(expr e);
// Returns the f64 of an i64 or u64.
expr halves_float_from_integer(expr e);
// Returns the f32 of an f64, rounded to the nearest; results that would be subnormal become 0.
expr halves_float_to_f32(expr e);
// Returns the i64 or u64 of an f64, truncated and saturated to the type; NaN gives 0.
expr halves_float_to_integer(struct tile_type type, expr e);

#endif
