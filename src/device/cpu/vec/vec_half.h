// vec_half.h - 16-bit floats by way of f32, and conversions through a wider type that round only once. It
// uses the names that the level has chosen; vec_neon_fp16.h and vec_neon_bf16.h replace it where instructions
// exist.

#ifndef VEC_HALF_H
#define VEC_HALF_H

// bf16: the upper half of an f32. Rounds to nearest even; a NaN is made quiet and keeps its upper bits.
#ifndef vec_f32_of_bf16
VEC_FN vec_f32 vec_f32_of_bf16(vec_bf16 x, int part) {
    return (vec_f32)(vec_u32_of_u16((vec_u16)x, part) << 16);
}
#endif
VEC_FN vec_u32 vec_round_bf16(vec_f32 x) {
    vec_u32 bits = (vec_u32)x, rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return (vec_u32)vec_select_u32((vec_i32)(x == x), rounded, bits | 0x400000);
}
VEC_FN vec_bf16 vec_bf16_of_f32(vec_f32 a, vec_f32 b) {
    vec_u16 low = (vec_u16)vec_round_bf16(a), high = (vec_u16)vec_round_bf16(b);
    return (vec_bf16)__builtin_shufflevector(low, high, VEC_ORDER(ODD, 16));
}
// Rounds to the nearest bf16, as f32.
VEC_FN vec_f32 vec_rounded_bf16(vec_f32 x) { return (vec_f32)(vec_round_bf16(x) & 0xffff0000); }

// f16: after scaling by a power of two, subnormals are exact.
#ifndef vec_f32_of_f16
VEC_FN vec_f32 vec_f32_of_f16(vec_f16 x, int part) {
    vec_u32 bits = vec_u32_of_u16((vec_u16)x, part);
    vec_u32 sign = (bits & 0x8000) << 16, rest = (bits & 0x7fff) << 13;
    vec_u32 large = (vec_u32)(rest >= 0x0f800000) & 0x7f800000, nan = (vec_u32)(rest > 0x0f800000) & 0x400000;
    return (vec_f32)((vec_u32)((vec_f32)rest * 0x1p112f) | large | nan | sign);
}
#endif
#ifndef vec_add_f32_f16
VEC_FN vec_f32 vec_add_f32_f16(vec_f32 a, vec_f16 x, int part) {
    return vec_add_f32(a, vec_f32_of_f16(x, part));
}
#endif
#ifndef vec_f16_of_f32
VEC_FN vec_u32 vec_round_f16(vec_f32 x) {
    vec_u32 bits = (vec_u32)x & 0x7fffffff, sign = ((vec_u32)x >> 16) & 0x8000;
    vec_u32 normal = (bits + 0xfff + ((bits >> 13) & 1) - 0x38000000) >> 13;
    vec_u32 small = (vec_u32)((vec_f32)bits + 0.5f) - 0x3f000000; // the addition rounds at the right bit
    vec_u32 nan = 0x7e00 | ((bits >> 13) & 0x3ff);
    vec_u32 r = vec_select_u32((vec_i32)(bits < 0x38800000), small, normal);
    r = vec_select_u32((vec_i32)(bits >= 0x47800000), vec_splat_u32(0x7c00), r);
    return vec_select_u32((vec_i32)(bits > 0x7f800000), nan, r) | sign;
}
VEC_FN vec_f16 vec_f16_of_f32(vec_f32 a, vec_f32 b) {
    return (vec_f16)vec_u16_of_u32(vec_round_f16(a), vec_round_f16(b));
}
#endif

// Arithmetic of f16: f32 has more than twice as many digits, so rounding the result again gives the same as
// rounding once.
#define VEC_HALF_UNARY(op)                                                                                 \
    VEC_FN vec_f16 vec_##op##_f16(vec_f16 a) {                                                             \
        return vec_f16_of_f32(vec_##op##_f32(vec_f32_of_f16(a, 0)), vec_##op##_f32(vec_f32_of_f16(a, 1))); \
    }
VEC_HALF_UNARY(sqrt)
VEC_HALF_UNARY(floor)
VEC_HALF_UNARY(ceil)
VEC_HALF_UNARY(rint)
VEC_HALF_UNARY(trunc)

#define VEC_HALF_BINARY(op)                                                                \
    VEC_FN vec_f16 vec_##op##_f16(vec_f16 a, vec_f16 b) {                                  \
        return vec_f16_of_f32(vec_##op##_f32(vec_f32_of_f16(a, 0), vec_f32_of_f16(b, 0)),  \
                              vec_##op##_f32(vec_f32_of_f16(a, 1), vec_f32_of_f16(b, 1))); \
    }
VEC_HALF_BINARY(add)
VEC_HALF_BINARY(sub)
VEC_HALF_BINARY(mul)
VEC_HALF_BINARY(div)
VEC_HALF_BINARY(max)
VEC_HALF_BINARY(min)

#define VEC_HALF_COMPARE(op)                                                               \
    VEC_FN vec_i16 vec_##op##_f16(vec_f16 a, vec_f16 b) {                                  \
        return vec_i16_of_i32(vec_##op##_f32(vec_f32_of_f16(a, 0), vec_f32_of_f16(b, 0)),  \
                              vec_##op##_f32(vec_f32_of_f16(a, 1), vec_f32_of_f16(b, 1))); \
    }
VEC_HALF_COMPARE(eq)
VEC_HALF_COMPARE(ne)
VEC_HALF_COMPARE(lt)
VEC_HALF_COMPARE(le)

// Converts 64-bit integers to f32. Low bits that f64 cannot hold are combined into the lowest bit that it
// can: then the conversion to f64 is exact, and only the one to f32 rounds.
VEC_FN vec_u64 vec_gather_low(vec_u64 x, vec_u64 is_large) {
    vec_u64 gathered = (x | ((x & 0x7ff) + 0x7ff)) & ~vec_splat_u64(0x7ff);
    return vec_select_u64((vec_i64)is_large, gathered, x);
}
VEC_FN vec_f64 vec_exact_i64(vec_i64 x) {
    vec_u64 upper = ((vec_u64)x + ((uint64_t)1 << 53)) >> 54; // 0 if |x| < 2^53
    return vec_f64_of_i64((vec_i64)vec_gather_low((vec_u64)x, (vec_u64)(upper != 0)));
}
VEC_FN vec_f64 vec_exact_u64(vec_u64 x) {
    return vec_f64_of_u64(vec_gather_low(x, (vec_u64)((x >> 53) != 0)));
}
VEC_FN vec_f32 vec_f32_of_i64(vec_i64 a, vec_i64 b) {
    return vec_f32_of_f64(vec_exact_i64(a), vec_exact_i64(b));
}
VEC_FN vec_f32 vec_f32_of_u64(vec_u64 a, vec_u64 b) {
    return vec_f32_of_f64(vec_exact_u64(a), vec_exact_u64(b));
}

#endif
