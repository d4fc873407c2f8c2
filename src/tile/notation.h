// notation.h - the ops as functions that build code: the notation of the `lower` column and of the
// mathematics.
//
// Included by math_*.c, division.c, derived.c, rows.c and by passes that write formulas. Its names are short,
// so other files do not include it.

#ifndef NOTATION_H
#define NOTATION_H

#include "tile/tile.h"

#define UNARY(NAME, ...) \
    static inline expr NAME(expr x) { return tile_unary(TILE_##NAME, x); }
#define BINARY(NAME, ...) \
    static inline expr NAME(expr a, expr b) { return tile_binary(TILE_##NAME, a, b); }
#define TERNARY(NAME, ...) \
    static inline expr NAME(expr a, expr b, expr c) { return tile_ternary(TILE_##NAME, a, b, c); }
#include "op/elementwise.def"

#define TYPE_OF_BITS(kind, bits) ((struct tile_type){(kind), (bits), 1})

static inline expr F32(double v) { return tile_const(TYPE_OF_BITS(TILE_FLOAT, 32), v); }
static inline expr F64(double v) { return tile_const(TYPE_OF_BITS(TILE_FLOAT, 64), v); }
static inline expr I32(int64_t v) { return tile_const_int(TYPE_OF_BITS(TILE_INT, 32), v); }
static inline expr I64(int64_t v) { return tile_const_int(TYPE_OF_BITS(TILE_INT, 64), v); }
static inline expr U32(uint64_t v) { return tile_const_int(TYPE_OF_BITS(TILE_UINT, 32), (int64_t)v); }
static inline expr U64(uint64_t v) { return tile_const_int(TYPE_OF_BITS(TILE_UINT, 64), (int64_t)v); }

static inline expr FMA(expr a, expr b, expr c) { return tile_ternary(TILE_FMA, a, b, c); }
static inline expr RARE(expr c, expr rare, expr common) { return tile_ternary(TILE_RARE, c, rare, common); }
static inline expr TO_I32(expr x) { return tile_cast(TYPE_OF_BITS(TILE_INT, 32), x); }
static inline expr TO_I64(expr x) { return tile_cast(TYPE_OF_BITS(TILE_INT, 64), x); }
static inline expr TO_F32(expr x) { return tile_cast(TYPE_OF_BITS(TILE_FLOAT, 32), x); }
static inline expr TO_F64(expr x) { return tile_cast(TYPE_OF_BITS(TILE_FLOAT, 64), x); }
static inline expr AS_I32(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_INT, 32), x); }
static inline expr AS_U32(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_UINT, 32), x); }
static inline expr AS_F32(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_FLOAT, 32), x); }
static inline expr AS_I64(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_INT, 64), x); }
static inline expr AS_U64(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_UINT, 64), x); }
static inline expr AS_F64(expr x) { return tile_bitcast(TYPE_OF_BITS(TILE_FLOAT, 64), x); }
static inline expr RE(expr x) { return tile_unary(TILE_RE, x); }
static inline expr IM(expr x) { return tile_unary(TILE_IM, x); }
static inline expr COMPLEX(expr re, expr im) { return tile_binary(TILE_PAIR, re, im); }

static inline bool tile_is_f32(expr x) { return x && x->type.kind == TILE_FLOAT && x->type.bits == 32; }
static inline bool tile_is_f64(expr x) { return x && x->type.kind == TILE_FLOAT && x->type.bits == 64; }
static inline bool tile_is_c64(expr x) { return x && x->type.kind == TILE_COMPLEX; }

#endif
