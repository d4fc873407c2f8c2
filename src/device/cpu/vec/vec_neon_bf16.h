// vec_neon_bf16.h - f32 to bf16 by instruction (armv8.2-a+bf16): the same bits as rounding by hand,
// subnormals and NaN among them.

#ifndef VEC_NEON_BF16_H
#define VEC_NEON_BF16_H

NEON_NARROW(neon_bf16_of_f32, bf16, f32, "bfcvtn", "4h", "8h", "4s")
#define vec_bf16_of_f32 neon_bf16_of_f32

#endif
