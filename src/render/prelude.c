// prelude.c - what stands before functions that compute one element at a time: types by the IR's names, and
// the ops that these languages have no operator for. The same definitions as the vector layer's, for one
// lane.

#include "render/style.h"

// clang-format off
#define FLOATS "typedef float f32;\ntypedef u16 f16;\ntypedef u16 bf16;\n\n"
#define DOUBLE "typedef double f64;\n"

// FN is how a function begins; sqrt and s are names and endings of the language's own functions.
#define HELPERS_32(sqrt, s) \
    "FN u32 zl_f32_bits(f32 x) { union { f32 f; u32 u; } v; v.f = x; return v.u; }\n" \
    "FN f32 zl_f32_from(u32 x) { union { f32 f; u32 u; } v; v.u = x; return v.f; }\n" \
    "FN f32 zl_neg_f32(f32 x) { return -x; }\n" \
    "FN f16 zl_neg_f16(f16 x) { return (f16)(x ^ 0x8000); }\n" \
    "FN bf16 zl_neg_bf16(bf16 x) { return (bf16)(x ^ 0x8000); }\n" \
    "FN f32 zl_abs_f32(f32 x) { return zl_f32_from(zl_f32_bits(x) & 0x7fffffffu); }\n" \
    "FN f16 zl_abs_f16(f16 x) { return (f16)(x & 0x7fff); }\n" \
    "FN bf16 zl_abs_bf16(bf16 x) { return (bf16)(x & 0x7fff); }\n" \
    "FN f32 zl_max_f32(f32 a, f32 b) { return a != a || a > b || (a == b && zl_f32_bits(b) >> 31) ? a : b; }\n" \
    "FN f32 zl_min_f32(f32 a, f32 b) { return a != a || a < b || (a == b && zl_f32_bits(a) >> 31) ? a : b; }\n" \
    "FN i32 zl_i32_of_f32(f32 x) { return x >= 0x1p31f ? 0x7fffffff : x > -0x1p31f ? (i32)x : x == x ? -0x7fffffff - 1 : 0; }\n" \
    "FN u32 zl_u32_of_f32(f32 x) { return x >= 0x1p32f ? 0xffffffffu : x > 0 ? (u32)x : 0; }\n" \
    "FN u64 zl_floordiv_u64(u64 a, u64 b) { return b ? a / b : 0; }\n" \
    "FN i64 zl_floordiv_i64(i64 a, i64 b) {\n" \
    "    if (b == 0 || b == -1)\n" \
    "        return b ? (i64)(0 - (u64)a) : 0;\n" \
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n" \
    "}\n" \
    "FN f32 zl_f32_of_bf16(bf16 x) { return zl_f32_from((u32)x << 16); }\n" \
    "FN bf16 zl_bf16_of_f32(f32 x) {\n" \
    "    u32 bits = zl_f32_bits(x);\n" \
    "    return (bf16)((x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000) >> 16);\n" \
    "}\n" \
    "FN f32 zl_f32_of_f16(f16 x) {\n" \
    "    u32 sign = (u32)(x & 0x8000) << 16, rest = (u32)(x & 0x7fff) << 13;\n" \
    "    u32 large = rest >= 0x0f800000 ? 0x7f800000 : 0, nan = rest > 0x0f800000 ? 0x400000 : 0;\n" \
    "    return zl_f32_from(zl_f32_bits(zl_f32_from(rest) * 0x1p112f) | large | nan | sign);\n" \
    "}\n" \
    "FN f16 zl_f16_of_f32(f32 x) {\n" \
    "    u32 bits = zl_f32_bits(x) & 0x7fffffff, sign = zl_f32_bits(x) >> 16 & 0x8000;\n" \
    "    if (bits > 0x7f800000)\n" \
    "        return (f16)(sign | 0x7e00 | (bits >> 13 & 0x3ff));\n" \
    "    if (bits >= 0x47800000)\n" \
    "        return (f16)(sign | 0x7c00);\n" \
    "    if (bits < 0x38800000)\n" \
    "        return (f16)(sign | (zl_f32_bits(zl_f32_from(bits) + 0.5f) - 0x3f000000));\n" \
    "    return (f16)(sign | (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13);\n" \
    "}\n" \
    "FN f32 zl_floor_f32(f32 x) { return floor" s "(x); }\n" \
    "FN f32 zl_ceil_f32(f32 x) { return ceil" s "(x); }\n" \
    "FN f32 zl_rint_f32(f32 x) { return rint" s "(x); }\n" \
    "FN f32 zl_trunc_f32(f32 x) { return trunc" s "(x); }\n" \
    "FN f32 zl_sqrt_f32(f32 x) { return " sqrt "(x); }\n" \
    "FN f32 zl_fma_f32(f32 a, f32 b, f32 c) { return fma" s "(a, b, c); }\n"

#define HELPERS_64(sqrt) \
    "FN u64 zl_f64_bits(f64 x) { union { f64 f; u64 u; } v; v.f = x; return v.u; }\n" \
    "FN f64 zl_f64_from(u64 x) { union { f64 f; u64 u; } v; v.u = x; return v.f; }\n" \
    "FN f64 zl_neg_f64(f64 x) { return -x; }\n" \
    "FN f64 zl_abs_f64(f64 x) { return zl_f64_from(zl_f64_bits(x) & 0x7fffffffffffffffu); }\n" \
    "FN f64 zl_max_f64(f64 a, f64 b) { return a != a || a > b || (a == b && zl_f64_bits(b) >> 63) ? a : b; }\n" \
    "FN f64 zl_min_f64(f64 a, f64 b) { return a != a || a < b || (a == b && zl_f64_bits(a) >> 63) ? a : b; }\n" \
    "FN i32 zl_i32_of_f64(f64 x) { return x >= 0x1p31 ? 0x7fffffff : x > -0x1p31 ? (i32)x : x == x ? -0x7fffffff - 1 : 0; }\n" \
    "FN u32 zl_u32_of_f64(f64 x) { return x >= 0x1p32 ? 0xffffffffu : x > 0 ? (u32)x : 0; }\n" \
    "FN i64 zl_i64_of_f64(f64 x) {\n" \
    "    return x >= 0x1p63 ? 0x7fffffffffffffff : x > -0x1p63 ? (i64)x : x == x ? -0x7fffffffffffffff - 1 : 0;\n" \
    "}\n" \
    "FN u64 zl_u64_of_f64(f64 x) { return x >= 0x1p64 ? 0xffffffffffffffffu : x > 0 ? (u64)x : 0; }\n" \
    "FN f64 zl_floor_f64(f64 x) { return floor(x); }\n" \
    "FN f64 zl_ceil_f64(f64 x) { return ceil(x); }\n" \
    "FN f64 zl_rint_f64(f64 x) { return rint(x); }\n" \
    "FN f64 zl_trunc_f64(f64 x) { return trunc(x); }\n" \
    "FN f64 zl_sqrt_f64(f64 x) { return " sqrt "(x); }\n" \
    "FN f64 zl_fma_f64(f64 a, f64 b, f64 c) { return fma(a, b, c); }\n"

#define C_SCALAR \
    "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n\n" \
    "#define FN static inline __attribute__((unused))\n" \
    "typedef int8_t i8;\ntypedef int16_t i16;\ntypedef int32_t i32;\ntypedef int64_t i64;\n" \
    "typedef uint8_t u8;\ntypedef uint16_t u16;\ntypedef uint32_t u32;\ntypedef uint64_t u64;\n" FLOATS DOUBLE \
    "struct c64 {\n    f32 re, im;\n};\n" HELPERS_32("sqrtf", "f") HELPERS_64("sqrt")

const char prelude_c_scalar[] = C_SCALAR;

// Atomics repeat until nobody else was quicker. struct zl_run is struct tile_run of device/cpu/cpu.h.
#define ATOMIC_NUMBERS(T, one, more) \
    "FN " T " zl_add_" T "(" T " a, " T " b) { return (" T ")((" one ")a + (" one ")b); }\n" more
#define ATOMIC_INTEGERS(T, U) \
    ATOMIC_NUMBERS(T, U, \
    "FN " T " zl_max_" T "(" T " a, " T " b) { return a > b ? a : b; }\n" \
    "FN " T " zl_min_" T "(" T " a, " T " b) { return a < b ? a : b; }\n" \
    "FN " T " zl_and_" T "(" T " a, " T " b) { return (" T ")(a & b); }\n" \
    "FN " T " zl_or_" T "(" T " a, " T " b) { return (" T ")(a | b); }\n" \
    "FN " T " zl_xor_" T "(" T " a, " T " b) { return (" T ")(a ^ b); }\n")
#define ATOMIC_HALF(T, op, how) \
    "FN " T " zl_" op "_" T "(" T " a, " T " b) { f32 x = zl_f32_of_" T "(a), y = zl_f32_of_" T "(b); return zl_" T "_of_f32(" how "); }\n"
#define ATOMIC_HALVES(T) \
    ATOMIC_HALF(T, "add", "x + y") ATOMIC_HALF(T, "max", "zl_max_f32(x, y)") ATOMIC_HALF(T, "min", "zl_min_f32(x, y)")

const char prelude_c_tiles[] = C_SCALAR
    ATOMIC_INTEGERS("i8", "u32") ATOMIC_INTEGERS("i16", "u32") ATOMIC_INTEGERS("i32", "u32") ATOMIC_INTEGERS("i64", "u64")
    ATOMIC_INTEGERS("u8", "u32") ATOMIC_INTEGERS("u16", "u32") ATOMIC_INTEGERS("u32", "u32") ATOMIC_INTEGERS("u64", "u64")
    ATOMIC_NUMBERS("f32", "f32", "") ATOMIC_NUMBERS("f64", "f64", "") ATOMIC_HALVES("f16") ATOMIC_HALVES("bf16")
    "#define ZL_ATOMIC(T, U, at, fn, value) \\\n"
    "    do { \\\n"
    "        U *zl_at = (U *)(at); \\\n"
    "        U zl_old = __atomic_load_n(zl_at, __ATOMIC_RELAXED), zl_new; \\\n"
    "        T zl_a, zl_b; \\\n"
    "        do { \\\n"
    "            __builtin_memcpy(&zl_a, &zl_old, sizeof zl_a); \\\n"
    "            zl_b = fn(zl_a, value); \\\n"
    "            __builtin_memcpy(&zl_new, &zl_b, sizeof zl_new); \\\n"
    "        } while (!__atomic_compare_exchange_n(zl_at, &zl_old, zl_new, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)); \\\n"
    "    } while (0)\n\n"
    "struct zl_tile {\n    void *data;\n    i64 stride[2], first[2], size[2];\n    int dtype, transposed;\n};\n"
    "struct zl_tile_gemm {\n    i64 m, n, k;\n    struct zl_tile a, b, c;\n    int clear;\n};\n"
    "struct zl_run {\n"
    "    char *const *p;\n"
    "    const i64 *symbol;\n"
    "    char *const *room;\n"
    "    void (*gemm)(const struct zl_tile_gemm *g);\n"
    "    void (*reduce)(int op, int dtype, void *to, const void *from, i64 n);\n"
    "    void (*fail)(const struct zl_run *run, int line, const char *message);\n"
    "    void (*print)(const struct zl_run *run, const char *message, int has_value, f64 value);\n"
    "};\n";

// Compiled with --fmad=false.
const char prelude_cuda[] =
    "#define FN static __device__ __forceinline__\n"
    "typedef signed char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long long i64;\n"
    "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned u32;\ntypedef unsigned long long u64;\n"
    FLOATS DOUBLE HELPERS_32("__fsqrt_rn", "f") HELPERS_64("__dsqrt_rn");

// Compiled with -cl-fp32-correctly-rounded-divide-sqrt. Not every device has double.
const char prelude_opencl[] =
    "#pragma OPENCL FP_CONTRACT OFF\n\n"
    "#define FN static inline\n"
    "typedef char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long i64;\n"
    "typedef uchar u8;\ntypedef ushort u16;\ntypedef uint u32;\ntypedef ulong u64;\n" FLOATS
    HELPERS_32("sqrt", "")
    "#if defined(cl_khr_fp64) || defined(__opencl_c_fp64)\n" DOUBLE HELPERS_64("sqrt") "#endif\n";
// clang-format on
