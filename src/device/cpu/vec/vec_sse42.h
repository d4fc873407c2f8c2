// vec_sse42.h - x86-64-v2: SSE up to 4.2, whose instructions overwrite their first operand.

#ifndef VEC_SSE42_H
#define VEC_SSE42_H

#define X86_V          ""
#define X86_ROUND_NAME "roundp"
#define X86_UNARY(name, T, instruction)                    \
    VEC_FN vec_##T name(vec_##T a) {                       \
        vec_##T r;                                         \
        __asm__(instruction " %1, %0" : "=x"(r) : "x"(a)); \
        return r;                                          \
    }
#define X86_BINARY(name, T, instruction)                   \
    VEC_FN vec_##T name(vec_##T a, vec_##T b) {            \
        __asm__(instruction " %1, %0" : "+x"(a) : "x"(b)); \
        return a;                                          \
    }
#include "vec/vec_x86.h"

#define vec_f64_of_u64 x86_f64_of_u64
#define vec_f64_of_i64 x86_f64_of_i64
#define vec_f32_of_u32 x86_f32_of_u32

VEC_FN int sse42_any(vec_u64 x) {
    int any;
    __asm__("ptest %1, %1" : "=@ccnz"(any) : "x"(x));
    return any;
}
#define vec_any sse42_any

#endif
