// vec_neon_bf16.h - f32 to bf16 by instruction (armv8.2-a+bf16), with the same bits as the generic code, also
// for subnormals and NaN; and adding f16 to f32 (+fp16fml).

#ifndef VEC_NEON_BF16_H
#define VEC_NEON_BF16_H

NEON_NARROW(neon_bf16_of_f32, bf16, f32, "bfcvtn", "4h", "8h", "4s")
#define vec_bf16_of_f32 neon_bf16_of_f32

// Rounds one register at a time: the instruction for a second one would wait for the first.
VEC_FN vec_f32 neon_rounded_bf16(vec_f32 x) {
    vec_bf16 narrow;
    __asm__("bfcvtn %0.4h, %1.4s" : "=w"(narrow) : "w"(x));
    return neon_f32_of_bf16(narrow, 0);
}
#define vec_rounded_bf16 neon_rounded_bf16

// Computes a + x * 1, rounded once. This saves a conversion, of which a Neoverse-V1 does one per cycle (sum
// of f16 with conversions: 0.67 of the read bandwidth, 2026-11).
VEC_FN vec_f32 neon_add_f32_f16(vec_f32 a, vec_f16 x, int part) {
    vec_u16 one = vec_splat_u16(0x3c00);
    if (part == 0)
        __asm__("fmlal %0.4s, %1.4h, %2.4h" : "+w"(a) : "w"(x), "w"(one));
    else
        __asm__("fmlal2 %0.4s, %1.4h, %2.4h" : "+w"(a) : "w"(x), "w"(one));
    return a;
}
#define vec_add_f32_f16 neon_add_f32_f16

#endif
