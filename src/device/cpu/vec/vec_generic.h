// vec_generic.h - the whole vector layer in the vector extensions that gcc and clang share. It compiles for
// every architecture; a level's own header replaces functions by `#define vec_x level_x` if its instructions
// are better.

#ifndef VEC_GENERIC_H
#define VEC_GENERIC_H

#include "vec/vec_lanes.h"

#define VEC_FN     static inline __attribute__((always_inline, unused))
#define VEC_OF(c)  c __attribute__((vector_size(VEC_BYTES)))
#define VEC_HALF(c) c __attribute__((vector_size(VEC_BYTES / 2)))

// M(name, C type, bits, its mask, its unsigned integer)
#define VEC_EACH_SIGNED(M)                                 \
    M(i8, int8_t, 8, i8, u8) M(i16, int16_t, 16, i16, u16) \
    M(i32, int32_t, 32, i32, u32) M(i64, int64_t, 64, i64, u64)
#define VEC_EACH_UNSIGNED(M)                                 \
    M(u8, uint8_t, 8, i8, u8) M(u16, uint16_t, 16, i16, u16) \
    M(u32, uint32_t, 32, i32, u32) M(u64, uint64_t, 64, i64, u64)
#define VEC_EACH_FLOAT(M) M(f32, float, 32, i32, u32) M(f64, double, 64, i64, u64)
#define VEC_EACH_HALF(M)  M(f16, uint16_t, 16, i16, u16) M(bf16, uint16_t, 16, i16, u16) // as bits
#define VEC_EACH_INT(M)   VEC_EACH_SIGNED(M) VEC_EACH_UNSIGNED(M)
#define VEC_EACH(M)       VEC_EACH_INT(M) VEC_EACH_FLOAT(M) VEC_EACH_HALF(M)

// Types, memory, select -------------------------------------------------------------------------------------

#define VEC_TYPE(T, c, bits, m, u) typedef VEC_OF(c) vec_##T; typedef VEC_HALF(c) vec_half_##T;
VEC_EACH(VEC_TYPE)

#define VEC_MEMORY(T, c, bits, m, u)                                                                       \
    VEC_FN vec_##T vec_load_##T(const char *p) { vec_##T x; __builtin_memcpy(&x, p, sizeof x); return x; } \
    VEC_FN void vec_store_##T(char *p, vec_##T x) { __builtin_memcpy(p, &x, sizeof x); }                   \
    VEC_FN vec_##T vec_splat_##T(c x) { return x - (vec_##T){0}; }                                         \
    VEC_FN vec_##T vec_one_##T(const char *p) {                                                            \
        c x;                                                                                               \
        __builtin_memcpy(&x, p, sizeof x);                                                                 \
        return vec_splat_##T(x);                                                                           \
    }
VEC_EACH(VEC_MEMORY)

#define VEC_SELECT(T, c, bits, m, u)                                                    \
    VEC_FN vec_##T vec_select_##T(vec_##m mask, vec_##T a, vec_##T b) {                 \
        return (vec_##T)(((vec_##u)a & (vec_##u)mask) | ((vec_##u)b & ~(vec_##u)mask)); \
    }
VEC_EACH(VEC_SELECT)

// Converts booleans, as they are in memory, to a mask.
VEC_FN vec_i8 vec_truth(vec_i8 x) { return (vec_i8)(x != 0); }

// Returns whether any bit of a mask is set.
VEC_FN int vec_any(vec_u64 x) {
    uint64_t bits = 0;
    for (int i = 0; i < VEC_LANES_64; i++)
        bits |= x[i];
    return bits != 0;
}

// Moves the upper half of the lowest 2 * bytes down: the other operand of a halving step. bytes is a
// constant.
VEC_FN vec_u64 vec_down(vec_u64 x, int bytes) {
#if VEC_BYTES > 32
    if (bytes == 32)
        return __builtin_shufflevector(x, x, VEC_ORDER(DOWN32, 64));
#endif
#if VEC_BYTES > 16
    if (bytes == 16)
        return __builtin_shufflevector(x, x, VEC_ORDER(DOWN16, 64));
#endif
    if (bytes == 8)
        return __builtin_shufflevector(x, x, VEC_ORDER(DOWN8, 64));
    return x >> (8 * bytes);
}

// Returns the mask of lanes before `count`, if the first lane has the number `from`. Both numbers are small.
#define VEC_BEFORE(T, c, bits, m, u)                                                                         \
    VEC_FN vec_##m vec_before_##bits(int64_t from, int64_t count) {                                          \
        vec_##u lane = {VEC_ORDER(BOTH, bits)};                                                              \
        return (vec_##m)(lane + vec_splat_##u((uint##bits##_t)from) < vec_splat_##u((uint##bits##_t)count)); \
    }
VEC_EACH_SIGNED(VEC_BEFORE)

// Integers --------------------------------------------------------------------------------------------------

#define VEC_BITS(T, c, bits, m, u)                                     \
    VEC_FN vec_##T vec_and_##T(vec_##T a, vec_##T b) { return a & b; } \
    VEC_FN vec_##T vec_or_##T(vec_##T a, vec_##T b) { return a | b; }  \
    VEC_FN vec_##T vec_xor_##T(vec_##T a, vec_##T b) { return a ^ b; } \
    VEC_FN vec_##T vec_not_##T(vec_##T a) { return ~a; }
VEC_EACH_INT(VEC_BITS)

// Signed arithmetic uses unsigned lanes, which wrap around.
#define VEC_WRAP(T, c, bits, m, u)                                                                  \
    VEC_FN vec_##T vec_add_##T(vec_##T a, vec_##T b) { return (vec_##T)((vec_##u)a + (vec_##u)b); } \
    VEC_FN vec_##T vec_sub_##T(vec_##T a, vec_##T b) { return (vec_##T)((vec_##u)a - (vec_##u)b); } \
    VEC_FN vec_##T vec_mul_##T(vec_##T a, vec_##T b) { return (vec_##T)((vec_##u)a * (vec_##u)b); } \
    VEC_FN vec_##T vec_neg_##T(vec_##T a) { return (vec_##T)(-(vec_##u)a); }
VEC_EACH_INT(VEC_WRAP)

#define VEC_COMPARE(T, c, bits, m, u)                                             \
    VEC_FN vec_##m vec_eq_##T(vec_##T a, vec_##T b) { return (vec_##m)(a == b); } \
    VEC_FN vec_##m vec_ne_##T(vec_##T a, vec_##T b) { return (vec_##m)(a != b); } \
    VEC_FN vec_##m vec_lt_##T(vec_##T a, vec_##T b) { return (vec_##m)(a < b); }  \
    VEC_FN vec_##m vec_le_##T(vec_##T a, vec_##T b) { return (vec_##m)(a <= b); }
VEC_EACH_INT(VEC_COMPARE)
VEC_EACH_FLOAT(VEC_COMPARE)

#define VEC_ORDERED(T, c, bits, m, u)                                                                   \
    VEC_FN vec_##T vec_max_##T(vec_##T a, vec_##T b) { return vec_select_##T((vec_##m)(a > b), a, b); } \
    VEC_FN vec_##T vec_min_##T(vec_##T a, vec_##T b) { return vec_select_##T((vec_##m)(a < b), a, b); }
VEC_EACH_INT(VEC_ORDERED)

#define VEC_ABS(T, c, bits, m, u) \
    VEC_FN vec_##T vec_abs_##T(vec_##T a) { return vec_select_##T((vec_##m)(a < 0), vec_neg_##T(a), a); }
VEC_EACH_SIGNED(VEC_ABS)

// Shift counts of the lanes' width or more, and negative ones, shift all bits out.
#define VEC_SHIFT_LEFT(T, c, bits, m, u)                                                            \
    VEC_FN vec_##T vec_shl_##T(vec_##T a, vec_##T b) {                                              \
        return (vec_##T)(((vec_##u)a << ((vec_##u)b & (bits - 1))) & (vec_##u)((vec_##u)b < bits)); \
    }                                                                                               \
    VEC_FN vec_##T vec_shl_by_##T(vec_##T a, int b) { return (vec_##T)((vec_##u)a << b); }          \
    VEC_FN vec_##T vec_shr_by_##T(vec_##T a, int b) { return a >> b; }
VEC_EACH_INT(VEC_SHIFT_LEFT)
#define VEC_SHIFT_UNSIGNED(T, c, bits, m, u) \
    VEC_FN vec_##T vec_shr_##T(vec_##T a, vec_##T b) { return (a >> (b & (bits - 1))) & (vec_##T)(b < bits); }
VEC_EACH_UNSIGNED(VEC_SHIFT_UNSIGNED)
#define VEC_SHIFT_SIGNED(T, c, bits, m, u)                                     \
    VEC_FN vec_##T vec_shr_##T(vec_##T a, vec_##T b) {                         \
        return a >> (vec_##T)vec_min_##u((vec_##u)b, vec_splat_##u(bits - 1)); \
    }
VEC_EACH_SIGNED(VEC_SHIFT_SIGNED)

// Floats ----------------------------------------------------------------------------------------------------

// max and min are NaN if an operand is, and -0 is less than +0.
#define VEC_FLOAT(T, c, bits, m, u)                                                           \
    VEC_FN vec_##T vec_add_##T(vec_##T a, vec_##T b) { return a + b; }                        \
    VEC_FN vec_##T vec_sub_##T(vec_##T a, vec_##T b) { return a - b; }                        \
    VEC_FN vec_##T vec_mul_##T(vec_##T a, vec_##T b) { return a * b; }                        \
    VEC_FN vec_##T vec_div_##T(vec_##T a, vec_##T b) { return a / b; }                        \
    VEC_FN vec_##T vec_max_##T(vec_##T a, vec_##T b) {                                        \
        vec_##u x = (vec_##u)a, y = (vec_##u)b, first = (vec_##u)(a > b) | (vec_##u)(a != a); \
        vec_##u both = (vec_##u)(a == b);                                                     \
        return (vec_##T)((x & (y | ~both) & (first | both)) | (y & ~first & ~both));          \
    }                                                                                         \
    VEC_FN vec_##T vec_min_##T(vec_##T a, vec_##T b) {                                        \
        vec_##u x = (vec_##u)a, y = (vec_##u)b, first = (vec_##u)(a < b) | (vec_##u)(a != a); \
        vec_##u both = (vec_##u)(a == b);                                                     \
        return (vec_##T)((x & (first | both)) | (y & (~first | both)));                       \
    }
VEC_EACH_FLOAT(VEC_FLOAT)

// These change the sign bit only, also of 16-bit floats and NaN.
#define VEC_SIGN(T, c, bits, m, u)                                                             \
    VEC_FN vec_##T vec_abs_##T(vec_##T a) { return (vec_##T)(((vec_##u)a << 1) >> 1); }        \
    VEC_FN vec_##T vec_neg_##T(vec_##T a) {                                                    \
        return (vec_##T)((vec_##u)a ^ vec_splat_##u((uint##bits##_t)1 << (bits - 1)));         \
    }                                                                                          \
    VEC_FN vec_##T vec_with_sign_##T(vec_##T a, vec_##T of) {                                  \
        return vec_select_##T((vec_##m)vec_splat_##u((uint##bits##_t)1 << (bits - 1)), of, a); \
    }
VEC_EACH_FLOAT(VEC_SIGN)
VEC_EACH_HALF(VEC_SIGN)

#define VEC_SQRT(T, one, fma_one)                                 \
    VEC_FN vec_##T vec_sqrt_##T(vec_##T a) {                      \
        for (unsigned i = 0; i < sizeof a / sizeof a[0]; i++)     \
            a[i] = one(a[i]);                                     \
        return a;                                                 \
    }                                                             \
    VEC_FN vec_##T vec_fma_##T(vec_##T a, vec_##T b, vec_##T c) { \
        for (unsigned i = 0; i < sizeof a / sizeof a[0]; i++)     \
            a[i] = fma_one(a[i], b[i], c[i]);                     \
        return a;                                                 \
    }
VEC_SQRT(f32, __builtin_sqrtf, __builtin_fmaf)
VEC_SQRT(f64, __builtin_sqrt, __builtin_fma)

// Returns a constant to which vec_fma adds.
#define VEC_ADDEND(T, c, bits, m, u) VEC_FN vec_##T vec_addend_##T(c x) { return vec_splat_##T(x); }
VEC_EACH_FLOAT(VEC_ADDEND)

// Adding and subtracting 2^(mantissa bits) rounds numbers below it; larger ones are integers already.
#define VEC_ROUND(T, m, big)                                                         \
    VEC_FN vec_##T vec_rint_##T(vec_##T x) {                                         \
        vec_##T a = vec_abs_##T(x), r = vec_with_sign_##T((a + big) - big, x);       \
        return vec_select_##T((vec_##m)(a < big), r, x);                             \
    }                                                                                \
    VEC_FN vec_##T vec_floor_##T(vec_##T x) {                                        \
        vec_##T r = vec_rint_##T(x), one = vec_splat_##T(1);                         \
        return r - (vec_##T)((vec_##m)one & (vec_##m)(r > x));                       \
    }                                                                                \
    VEC_FN vec_##T vec_ceil_##T(vec_##T x) {                                         \
        vec_##T r = vec_rint_##T(x), one = vec_splat_##T(1);                         \
        return vec_with_sign_##T(r + (vec_##T)((vec_##m)one & (vec_##m)(r < x)), x); \
    }                                                                                \
    VEC_FN vec_##T vec_trunc_##T(vec_##T x) { return vec_with_sign_##T(vec_floor_##T(vec_abs_##T(x)), x); }
VEC_ROUND(f32, i32, 0x1p23f)
VEC_ROUND(f64, i64, 0x1p52)

// Widening: part p of a narrow register as one wide register. p is a constant -------------------------------

#define VEC_WIDEN(W, N, bits)                                                                              \
    VEC_FN vec_##W vec_##W##_of_##N(vec_##N x, int part) {                                                 \
        if (part)                                                                                          \
            return __builtin_convertvector(__builtin_shufflevector(x, x, VEC_ORDER(HIGH, bits)), vec_##W); \
        return __builtin_convertvector(__builtin_shufflevector(x, x, VEC_ORDER(LOW, bits)), vec_##W);      \
    }
VEC_WIDEN(i16, i8, 8)
VEC_WIDEN(u16, u8, 8)
VEC_WIDEN(i32, i16, 16)
VEC_WIDEN(u32, u16, 16)
VEC_WIDEN(i64, i32, 32)
VEC_WIDEN(u64, u32, 32)
VEC_WIDEN(f64, f32, 32)
VEC_WIDEN(f64, i32, 32)
VEC_WIDEN(f64, u32, 32)

// Narrowing: two wide registers become one. Integers wrap around.
#define VEC_NARROW(N, W, bits)                                                         \
    VEC_FN vec_##N vec_##N##_of_##W(vec_##W a, vec_##W b) {                            \
        return __builtin_shufflevector((vec_##N)a, (vec_##N)b, VEC_ORDER(EVEN, bits)); \
    }
VEC_NARROW(i8, i16, 8)
VEC_NARROW(u8, u16, 8)
VEC_NARROW(i16, i32, 16)
VEC_NARROW(u16, u32, 16)
VEC_NARROW(i32, i64, 32)
VEC_NARROW(u32, u64, 32)

VEC_FN vec_f32 vec_f32_of_f64(vec_f64 a, vec_f64 b) {
    vec_half_f32 low = __builtin_convertvector(a, vec_half_f32);
    vec_half_f32 high = __builtin_convertvector(b, vec_half_f32);
    return __builtin_shufflevector(low, high, VEC_ORDER(BOTH, 32));
}

// Numbers of one size ---------------------------------------------------------------------------------------

VEC_FN vec_f32 vec_f32_of_i32(vec_i32 x) { return __builtin_convertvector(x, vec_f32); }
VEC_FN vec_f32 vec_f32_of_u32(vec_u32 x) { return __builtin_convertvector(x, vec_f32); }
VEC_FN vec_f64 vec_f64_of_i64(vec_i64 x) { return __builtin_convertvector(x, vec_f64); }
VEC_FN vec_f64 vec_f64_of_u64(vec_u64 x) { return __builtin_convertvector(x, vec_f64); }

// Converts floats to integers, towards zero. Numbers that are too large become the largest integer, those
// that are too small the smallest, and NaN becomes 0.
#define VEC_SATURATE(I, F, m, low, limit, least, most)                                         \
    VEC_FN vec_##I vec_##I##_of_##F(vec_##F x) {                                               \
        vec_##m inside = (vec_##m)(x > (low)) & (vec_##m)(x < (limit));                        \
        vec_##m r = (vec_##m)__builtin_convertvector((vec_##F)((vec_##m)x & inside), vec_##I); \
        r |= (vec_##m)vec_splat_##I(most) & (vec_##m)(x >= (limit));                           \
        return (vec_##I)(r | ((vec_##m)vec_splat_##I(least) & (vec_##m)(x <= (low))));         \
    }
VEC_SATURATE(i32, f32, i32, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
VEC_SATURATE(u32, f32, i32, -1.0f, 0x1p32f, 0, UINT32_MAX)
VEC_SATURATE(i64, f64, i64, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
VEC_SATURATE(u64, f64, i64, -1.0, 0x1p64, 0, UINT64_MAX)

// Converts f64 to 32-bit integers. Every 32-bit integer is a double, so clamping first is exact.
VEC_FN vec_i32 vec_i32_of_f64(vec_f64 a, vec_f64 b) {
    vec_f64 low = vec_splat_f64(INT32_MIN), high = vec_splat_f64(INT32_MAX);
    a = vec_select_f64((vec_i64)(a < low), low, vec_select_f64((vec_i64)(a > high), high, a));
    b = vec_select_f64((vec_i64)(b < low), low, vec_select_f64((vec_i64)(b > high), high, b));
    a = (vec_f64)((vec_i64)a & (vec_i64)(a == a));
    b = (vec_f64)((vec_i64)b & (vec_i64)(b == b));
    vec_half_i32 first = __builtin_convertvector(a, vec_half_i32);
    vec_half_i32 second = __builtin_convertvector(b, vec_half_i32);
    return __builtin_shufflevector(first, second, VEC_ORDER(BOTH, 32));
}
VEC_FN vec_u32 vec_u32_of_f64(vec_f64 a, vec_f64 b) {
    vec_f64 high = vec_splat_f64(UINT32_MAX);
    a = vec_select_f64((vec_i64)(a > high), high, (vec_f64)((vec_i64)a & (vec_i64)(a > 0)));
    b = vec_select_f64((vec_i64)(b > high), high, (vec_f64)((vec_i64)b & (vec_i64)(b > 0)));
    vec_f64 half = vec_splat_f64(0x1p31); // every machine has signed conversions
    vec_u32 flip = vec_splat_u32((uint32_t)1 << 31);
    vec_f64 x = vec_trunc_f64(a) - half, y = vec_trunc_f64(b) - half;
    vec_half_i32 first = __builtin_convertvector(x, vec_half_i32);
    vec_half_i32 second = __builtin_convertvector(y, vec_half_i32);
    return (vec_u32)__builtin_shufflevector(first, second, VEC_ORDER(BOTH, 32)) ^ flip;
}

// Returns the largest integer that is not above the quotient, and 0 for a division by zero. The smallest
// integer divided by -1 wraps around. Narrower integers are divided as floats.
VEC_FN vec_i64 vec_floordiv_i64(vec_i64 a, vec_i64 b) {
    for (int i = 0; i < VEC_LANES_64; i++)
        if (b[i] == -1 || b[i] == 0)
            a[i] = b[i] ? (int64_t)-(uint64_t)a[i] : 0;
        else
            a[i] = a[i] / b[i] - (a[i] % b[i] != 0 && (a[i] < 0) != (b[i] < 0));
    return a;
}
VEC_FN vec_u64 vec_floordiv_u64(vec_u64 a, vec_u64 b) {
    for (int i = 0; i < VEC_LANES_64; i++)
        a[i] = b[i] ? a[i] / b[i] : 0;
    return a;
}

// Complex numbers in memory: pairs of f32 in turn -----------------------------------------------------------

VEC_FN vec_f32 vec_re(vec_f32 a, vec_f32 b) { return __builtin_shufflevector(a, b, VEC_ORDER(EVEN, 32)); }
VEC_FN vec_f32 vec_im(vec_f32 a, vec_f32 b) { return __builtin_shufflevector(a, b, VEC_ORDER(ODD, 32)); }
VEC_FN vec_f32 vec_pair_low(vec_f32 re, vec_f32 im) {
    return __builtin_shufflevector(re, im, VEC_ORDER(ZIPLOW, 32));
}
VEC_FN vec_f32 vec_pair_high(vec_f32 re, vec_f32 im) {
    return __builtin_shufflevector(re, im, VEC_ORDER(ZIPHIGH, 32));
}

#endif
