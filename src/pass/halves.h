// halves.h - numbers of 64 bits as two of 32, for targets whose commands take no more. Between the files of
// pass/ only.

#ifndef HALVES_H
#define HALVES_H

#include "pass/boxes.h"

static inline bool halves_is_wide(struct tile_type type) {
    return type.bits == 64 && type.lanes == 1;
}

// A number of 64 bits: both words are u32; what is no word is one of its parts.
struct half_words {
    expr low, high; // NULL after an error
};

// halves_integer.c: integers of i64 and u64, of which `type` is the one -------------------------------------

struct half_words halves_of_bits(uint64_t bits);
// Returns what an op gives on words; {NULL} without an error where there is no form. A comparison is in
// `low`.
struct half_words halves_integer(enum tile_op op, struct tile_type type, struct half_words a,
                                 struct half_words b);
struct half_words halves_select(expr test, struct half_words a, struct half_words b);
struct half_words halves_from_narrow(expr e); // of an integer of at most 32 bits, or a truth value
// truncated, within the bounds of the type; NaN is 0
struct half_words halves_from_f32(struct tile_type type, expr e);
expr halves_to_f32(struct tile_type type, struct half_words a);   // rounded to the nearest

// halves_float.c: what an op of f64 is, in terms of u64, by IEEE's rules; NULL where there is no such
// formula. Operands are of f64.
expr halves_float(enum tile_op op, expr a, expr b);
expr halves_float_from_f32(expr e);
expr halves_float_from_integer(expr e); // of i64 or u64
expr halves_float_to_f32(expr e);
expr halves_float_to_integer(struct tile_type type, expr e);

#endif
