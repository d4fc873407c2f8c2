// prelude.c - the text before functions that compute one element at a time: types with the IR's names, and
// functions for ops without an operator in these languages. They compute the same as the vector layer does,
// for one lane.

#include "render/c/style.h"

// clang-format off
#define FLOATS "typedef float f32;\ntypedef u16 f16;\ntypedef u16 bf16;\n\n"
#define DOUBLE "typedef double f64;\n"

#define HALVES \
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
    "    u32 small = zl_f32_bits(zl_f32_from(bits) + 0.5f) - 0x3f000000, nan = 0x7e00 | (bits >> 13 & 0x3ff);\n" \
    "    u32 normal = (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13, large = bits > 0x7f800000 ? nan : 0x7c00;\n" \
    "    return (f16)(sign | (bits >= 0x47800000 ? large : bits < 0x38800000 ? small : normal));\n" \
    "}\n"

// exp of bf16: shorter than that of f32, with the same result after rounding for each of the 65536 operands.
// It is 2^f by a polynomial, scaled by two factors.
#define HALF_MATH \
    "FN bf16 zl_exp_bf16(bf16 a) {\n" \
    "    f32 x = zl_min_f32(zl_max_f32(zl_f32_of_bf16(a), -93.5f), 89.0f);\n" \
    "    f32 t = zl_fma_f32(x, 1.44269502f, 12583166.0f), f = zl_fma_f32(x, 1.44269502f, 12583166.0f - t);\n" \
    "    f32 p = zl_fma_f32(f, 0.00132453348f, 0.00967377517f);\n" \
    "    p = zl_fma_f32(f, zl_fma_f32(f, p, 0.0555081032f), 0.240221754f);\n" \
    "    p = zl_fma_f32(f, zl_fma_f32(f, p, 0.693146944f), 1.00000012f);\n" \
    "    i32 all = (i32)zl_f32_bits(t), half_of_it = all >> 1;\n" \
    "    return zl_bf16_of_f32(p * zl_f32_from((u32)half_of_it << 23) * zl_f32_from((u32)(all - half_of_it) << 23));\n" \
    "}\n"

#define EXTREMES \
    "FN f32 zl_max_f32(f32 a, f32 b) { return a != a || a > b || (a == b && zl_f32_bits(b) >> 31) ? a : b; }\n" \
    "FN f32 zl_min_f32(f32 a, f32 b) { return a != a || a < b || (a == b && zl_f32_bits(a) >> 31) ? a : b; }\n"

#define DIVISIONS_64 \
    "FN u64 zl_floordiv_u64(u64 a, u64 b) { return b ? a / b : 0; }\n" \
    "FN i64 zl_floordiv_i64(i64 a, i64 b) {\n" \
    "    if (b == 0 || b == -1)\n" \
    "        return b ? (i64)(0 - (u64)a) : 0;\n" \
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n" \
    "}\n"

// FN stands for the beginning of a function. sqrt is the name of the language's square root, s the ending of
// its functions of f32.
#define HELPERS_32(sqrt, s) \
    "FN u32 zl_f32_bits(f32 x) { union { f32 f; u32 u; } v; v.f = x; return v.u; }\n" \
    "FN f32 zl_f32_from(u32 x) { union { f32 f; u32 u; } v; v.u = x; return v.f; }\n" \
    "FN f32 zl_neg_f32(f32 x) { return -x; }\n" \
    "FN f16 zl_neg_f16(f16 x) { return (f16)(x ^ 0x8000); }\n" \
    "FN bf16 zl_neg_bf16(bf16 x) { return (bf16)(x ^ 0x8000); }\n" \
    "FN f32 zl_abs_f32(f32 x) { return zl_f32_from(zl_f32_bits(x) & 0x7fffffffu); }\n" \
    "FN f16 zl_abs_f16(f16 x) { return (f16)(x & 0x7fff); }\n" \
    "FN bf16 zl_abs_bf16(bf16 x) { return (bf16)(x & 0x7fff); }\n" \
    "FN i32 zl_i32_of_f32(f32 x) { return x >= 0x1p31f ? 0x7fffffff : x > -0x1p31f ? (i32)x : x == x ? -0x7fffffff - 1 : 0; }\n" \
    "FN u32 zl_u32_of_f32(f32 x) { return x >= 0x1p32f ? 0xffffffffu : x > 0 ? (u32)x : 0; }\n" \
    DIVISIONS_64 \
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

// No header is included: that would take a fifth of the time in which a kernel is compiled.
#define C_INTEGERS(bits) "typedef __INT" bits "_TYPE__ i" bits ";\ntypedef __UINT" bits "_TYPE__ u" bits ";\n"
#define C_MATH(T, s) \
    T " floor" s "(" T "), ceil" s "(" T "), rint" s "(" T "), trunc" s "(" T "), sqrt" s "(" T "), fma" s "(" T ", " T ", " T ");\n"
#define C_SCALAR \
    "#define FN static inline __attribute__((unused))\n" \
    "typedef _Bool bool;\ntypedef __INT64_TYPE__ int64_t;\ntypedef __UINTPTR_TYPE__ uintptr_t;\n" C_INTEGERS("8") C_INTEGERS("16") C_INTEGERS("32") C_INTEGERS("64") FLOATS DOUBLE \
    C_MATH("float", "f") C_MATH("double", "") \
    "struct c64 {\n    f32 re, im;\n};\n" HELPERS_32("sqrtf", "f") EXTREMES HALVES HELPERS_64("sqrt")

const char prelude_c_scalar[] = C_SCALAR;

#define DIVISIONS_32 \
    "FN u32 zl_floordiv_u32(u32 a, u32 b) { return b ? a / b : 0; }\n" \
    "FN i32 zl_floordiv_i32(i32 a, i32 b) {\n" \
    "    if (b == 0 || b == -1)\n" \
    "        return b ? (i32)(0 - (u32)a) : 0;\n" \
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n" \
    "}\n"

// Arithmetic of 16-bit floats in f32: a sum or product that is rounded twice equals the one that is rounded
// once.
#define HALF_BY_F32(T, op, how) \
    "FN " T " zl_" op "_" T "(" T " a, " T " b) { f32 x = zl_f32_of_" T "(a), y = zl_f32_of_" T "(b); return zl_" T "_of_f32(" how "); }\n"
#define HALF_WHOLE(T, op) "FN " T " zl_" op "_" T "(" T " x) { return zl_" T "_of_f32(zl_" op "_f32(zl_f32_of_" T "(x))); }\n"
#define HALF_CONTROL(T) \
    "FN f32 zl_value_" T "(" T " x) { return zl_f32_of_" T "(x); }\n" \
    HALF_BY_F32(T, "add", "x + y") HALF_BY_F32(T, "sub", "x - y") HALF_BY_F32(T, "mul", "x * y") \
    HALF_BY_F32(T, "max", "zl_max_f32(x, y)") HALF_BY_F32(T, "min", "zl_min_f32(x, y)") \
    HALF_WHOLE(T, "floor") HALF_WHOLE(T, "ceil") HALF_WHOLE(T, "rint") HALF_WHOLE(T, "trunc")

// The vendor's header defines i64, u64 and u32, but no mathematical functions, which math.h declares.
const char prelude_bm1690[] =
    "#include \"tpu_kernel.h\"\n#include <math.h>\n"
    "#define FN static inline __attribute__((unused))\n"
    "typedef signed char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef unsigned char u8;\ntypedef unsigned short u16;\n" FLOATS
    HELPERS_32("sqrtf", "f") DIVISIONS_32 EXTREMES HALVES
    "FN f32 zl_value_f32(f32 x) { return x; }\n" HALF_CONTROL("f16") HALF_CONTROL("bf16");

// The host's part: copies arguments to memory of the device and back with the vendor's runtime.
const char prelude_bm1690_host[] =
    "#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n#include <tpuv7_rt.h>\n"
    "#define FN static inline __attribute__((unused))\n"
    "typedef int8_t i8;\ntypedef int16_t i16;\ntypedef int32_t i32;\ntypedef int64_t i64;\ntypedef uint8_t u8;\ntypedef uint16_t u16;\n"
    "typedef uint32_t u32;\ntypedef uint64_t u64;\ntypedef float f32;\ntypedef uint16_t f16;\ntypedef uint16_t bf16;\n" DIVISIONS_32 DIVISIONS_64
    "FN i64 zl_times(i64 a, i64 b) { return a * b; }\n"
    "struct zl_memory { void *host, *device; i64 bytes; };\n"
    "FN tpuRtStatus_t zl_put(struct zl_memory *m, void *host, i64 bytes) {\n"
    "    m->host = host;\n"
    "    m->bytes = bytes;\n"
    "    tpuRtStatus_t status = tpuRtMalloc(&m->device, (unsigned long long)(bytes > 0 ? bytes : 1), 0);\n"
    "    return status || !host ? status : tpuRtMemcpyS2D(m->device, host, (unsigned long long)bytes);\n"
    "}\n"
    "FN tpuRtStatus_t zl_take(const struct zl_memory *m) { return tpuRtMemcpyD2S(m->host, m->device, (unsigned long long)m->bytes); }\n"
    "FN tpuRtStatus_t zl_open(const char *module_file, tpuRtKernelModule_t *module, tpuRtStream_t *stream) {\n"
    "    tpuRtStatus_t status = tpuRtInit();\n"
    "    status = status ? status : tpuRtSetDevice(0);\n"
    "    status = status ? status : tpuRtStreamCreate(stream);\n"
    "    *module = status ? NULL : tpuRtKernelLoadModuleFile(module_file, *stream);\n"
    "    return status ? status : *module ? tpuRtSuccess : tpuRtErrFailure;\n"
    "}\n";

// Atomics are loops of compare and swap. struct zl_run is struct tile_run of device/cpu/cpu.h.
#define ATOMIC_NUMBERS(T, one, more) \
    "FN " T " zl_add_" T "(" T " a, " T " b) { return (" T ")((" one ")a + (" one ")b); }\n" more
#define ATOMIC_INTEGERS(T, U) \
    ATOMIC_NUMBERS(T, U, \
    "FN " T " zl_max_" T "(" T " a, " T " b) { return a > b ? a : b; }\n" \
    "FN " T " zl_min_" T "(" T " a, " T " b) { return a < b ? a : b; }\n" \
    "FN " T " zl_and_" T "(" T " a, " T " b) { return (" T ")(a & b); }\n" \
    "FN " T " zl_or_" T "(" T " a, " T " b) { return (" T ")(a | b); }\n" \
    "FN " T " zl_xor_" T "(" T " a, " T " b) { return (" T ")(a ^ b); }\n")
#define ATOMIC_HALVES(T) \
    HALF_BY_F32(T, "add", "x + y") HALF_BY_F32(T, "max", "zl_max_f32(x, y)") HALF_BY_F32(T, "min", "zl_min_f32(x, y)")

#define PLAIN_COMBINERS \
    ATOMIC_INTEGERS("i8", "u32") ATOMIC_INTEGERS("i16", "u32") ATOMIC_INTEGERS("i32", "u32") ATOMIC_INTEGERS("i64", "u64") \
    ATOMIC_INTEGERS("u8", "u32") ATOMIC_INTEGERS("u16", "u32") ATOMIC_INTEGERS("u32", "u32") ATOMIC_INTEGERS("u64", "u64") \
    ATOMIC_NUMBERS("f32", "f32", "")
#define COMBINERS PLAIN_COMBINERS ATOMIC_HALVES("f16") ATOMIC_HALVES("bf16")
#define COMBINERS_64 ATOMIC_NUMBERS("f64", "f64", "")

const char prelude_c_tiles[] = C_SCALAR COMBINERS COMBINERS_64
    "#define ZL_ATOMIC(T, U, at, fn, value) \\\n"
    "    ({ \\\n"
    "        U *zl_at = (U *)(at); \\\n"
    "        U zl_old = __atomic_load_n(zl_at, __ATOMIC_RELAXED), zl_new; \\\n"
    "        T zl_a, zl_b; \\\n"
    "        do { \\\n"
    "            __builtin_memcpy(&zl_a, &zl_old, sizeof zl_a); \\\n"
    "            zl_b = fn(zl_a, value); \\\n"
    "            __builtin_memcpy(&zl_new, &zl_b, sizeof zl_new); \\\n"
    "        } while (!__atomic_compare_exchange_n(zl_at, &zl_old, zl_new, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)); \\\n"
    "        zl_a; \\\n"
    "    })\n\n"
    "struct zl_tile {\n    void *data;\n    i64 stride[2], first[2], size[2];\n    int dtype, transposed, is_input;\n};\n"
    "struct zl_tile_gemm {\n    i64 m, n, k;\n    struct zl_tile a, b, c;\n    int clear;\n};\n"
    "struct zl_run {\n"
    "    char *const *p;\n"
    "    const i64 *symbol;\n"
    "    char *const *room;\n"
    "    void (*gemm)(const struct zl_run *run, const struct zl_tile_gemm *g);\n"
    "    void (*reduce)(int op, int dtype, void *to, const void *from, i64 n);\n"
    "    void (*fail)(const struct zl_run *run, int line, const char *message);\n"
    "    void (*print)(const struct zl_run *run, const char *message, int has_value, f64 value);\n"
    "    u64 id;\n"
    "    void (*outside)(const struct zl_run *run, int line, const char *buffer, int axis, i64 index, i64 size);\n"
    "};\n"
    "FN i64 zl_times(i64 a, i64 b) {\n"
    "    i64 c;\n"
    "    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &c) ? -2 : c;\n"
    "}\n"
    "FN int zl_inside(const struct zl_run *run, int line, const char *buffer, int axis, i64 index, i64 size) {\n"
    "    if (index < 0 || index >= size)\n"
    "        run->outside(run, line, buffer, axis, index, size);\n"
    "    return index >= 0 && index < size;\n"
    "}\n";

// One instruction each, for sm_80 and later. A 16-bit float is rounded as one of a pair, whose other number
// is zero: rounding a single one takes eight times as long.
#define CUDA_ROUND(T) \
    "FN " T " zl_" T "_of_f32(f32 x) { u32 y; asm(\"cvt.rn." T "x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(0.0f), \"f\"(x)); return (" T ")y; }\n"
#define CUDA_FLOATS \
    "FN f32 zl_max_f32(f32 a, f32 b) { f32 y; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b)); return y; }\n" \
    "FN f32 zl_min_f32(f32 a, f32 b) { f32 y; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b)); return y; }\n" \
    "FN f32 zl_f32_of_bf16(bf16 x) { return zl_f32_from((u32)x << 16); }\n" \
    "FN f32 zl_f32_of_f16(f16 x) { f32 y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }\n" \
    CUDA_ROUND("bf16") CUDA_ROUND("f16")
#define CUDA_EXP2 \
    "FN f32 zl_exp2_f32(f32 x) { f32 y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }\n"

// Computes a * b as fma(a, b, -0), where -0 changes nothing, and sums as fma with a factor of 1 or -1.
#define CUDA_HALF_FMA(T, a, b, c) "{ " T " y; asm(\"fma.rn." T " %0, %1, %2, %3;\" : \"=h\"(y) : \"h\"(" a "), \"h\"(" b "), \"h\"(" c ")); return y; }\n"
#define CUDA_HALF_TWO(T, op) \
    "FN " T " zl_" op "_" T "(" T " a, " T " b) { " T " y; asm(\"" op ".NaN." T " %0, %1, %2;\" : \"=h\"(y) : \"h\"(a), \"h\"(b)); return y; }\n"
#define CUDA_HALF(T, one, minus_one) \
    "FN " T " zl_add_" T "(" T " a, " T " b) " CUDA_HALF_FMA(T, "a", "(u16)" one, "b") \
    "FN " T " zl_sub_" T "(" T " a, " T " b) " CUDA_HALF_FMA(T, "b", "(u16)" minus_one, "a") \
    "FN " T " zl_mul_" T "(" T " a, " T " b) " CUDA_HALF_FMA(T, "a", "b", "(u16)0x8000") \
    CUDA_HALF_TWO(T, "max") CUDA_HALF_TWO(T, "min")
#define CUDA_HALVES CUDA_HALF("bf16", "0x3f80", "0xbf80") CUDA_HALF("f16", "0x3c00", "0xbc00")

// Groups of threads -----------------------------------------------------------------------------------------

// Division in 32 bits; places of vectors in swizzled rows (see program_values.c).
#define GROUP_HELPERS DIVISIONS_32 \
    "FN u32 zl_swizzle(u32 at, int row, int vector) { return at ^ ((at >> row & 7) << vector); }\n" \
    "FN u32 zl_panel(u32 row, u32 column, u32 rows, int width, int vector) {\n" \
    "    return ((column >> width) * rows << width) + (row << width) + ((column & ((1u << width) - 1)) ^ (row & 7) << vector);\n" \
    "}\n"

// An atomic is a loop of compare and swap. Elements of 8 and 16 bits are changed as part of a word. OLD is
// the text before the previous value, such as an assignment; SPACE is the address space of the element.
#define ATOMIC_WORD(bits) \
    "#define ZL_ATOMIC_" bits "(OLD, SPACE, T, at, fn, value) \\\n" \
    "    do { \\\n" \
    "        volatile SPACE u" bits " *zl_at = (volatile SPACE u" bits " *)(at); \\\n" \
    "        union { u" bits " u; T t; } zl_old, zl_new; \\\n" \
    "        u" bits " zl_seen = *zl_at; \\\n" \
    "        do { \\\n" \
    "            zl_old.u = zl_seen; \\\n" \
    "            zl_new.t = fn(zl_old.t, value); \\\n" \
    "            zl_seen = ZL_SWAP_" bits "(zl_at, zl_old.u, zl_new.u); \\\n" \
    "        } while (zl_seen != zl_old.u); \\\n" \
    "        OLD zl_old.t; \\\n" \
    "    } while (0)\n"
#define ATOMIC_WORDS \
    ATOMIC_WORD("32") ATOMIC_WORD("64") \
    "#define ZL_ATOMIC_PART(OLD, SPACE, T, at, fn, value) \\\n" \
    "    do { \\\n" \
    "        SPACE char *zl_byte = (SPACE char *)(at); \\\n" \
    "        volatile SPACE u32 *zl_at = (volatile SPACE u32 *)(zl_byte - ((ZL_ADDRESS)zl_byte & 3)); \\\n" \
    "        u32 zl_shift = (u32)((ZL_ADDRESS)zl_byte & 3) * 8, zl_mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << zl_shift; \\\n" \
    "        u32 zl_seen = *zl_at, zl_old, zl_new; \\\n" \
    "        do { \\\n" \
    "            zl_old = zl_seen; \\\n" \
    "            T zl_part = fn((T)(zl_old >> zl_shift), value); \\\n" \
    "            zl_new = (zl_old & ~zl_mask) | ((u32)zl_part << zl_shift & zl_mask); \\\n" \
    "            zl_seen = ZL_SWAP_32(zl_at, zl_old, zl_new); \\\n" \
    "        } while (zl_seen != zl_old); \\\n" \
    "        OLD (T)(zl_old >> zl_shift); \\\n" \
    "    } while (0)\n" \
    "#define ZL_ATOMIC_8 ZL_ATOMIC_PART\n#define ZL_ATOMIC_16 ZL_ATOMIC_PART\n"

#define UNROLL_SOME "#define ZL_PRAGMA(text) _Pragma(#text)\n#define ZL_UNROLL_SOME(turns) ZL_PRAGMA(unroll turns)\n"

// Plain accesses, for languages without a hint for data that is not read again soon.
#define PLAIN_ONCE "#define ZL_LOAD_ONCE(x) (x)\n#define ZL_STORE_ONCE(x, value) ((x) = (value))\n"

#define VECTOR_ZEROS "#define ZL_ZERO_4 (zl_4)(0)\n#define ZL_ZERO_8 (zl_8)(0)\n#define ZL_ZERO_16 (zl_16)(0)\n"

// Compiled with -cl-fp32-correctly-rounded-divide-sqrt.
const char prelude_opencl_tiles[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#ifdef cl_khr_int64_base_atomics\n#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n#endif\n\n"
    "#define FN static inline\n"
    "typedef char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long i64;\n"
    "typedef uchar u8;\ntypedef ushort u16;\ntypedef uint u32;\ntypedef ulong u64;\n" FLOATS
    HELPERS_32("sqrt", "") EXTREMES HALVES HALF_MATH COMBINERS GROUP_HELPERS
    "#if defined(cl_khr_fp64) || defined(__opencl_c_fp64)\n" DOUBLE HELPERS_64("sqrt") COMBINERS_64
    "#define ZL_WIDE f64\n#else\n#define ZL_WIDE f32\n#endif\n"
    "#define ZL_ADDRESS ulong\n"
    // On a CPU work-items are loops, so nothing is unrolled. In branches it is: PoCL 5 for x86 drops loops
    // there.
    "#ifdef ZL_CPU\n#define ZL_UNROLL\n#define ZL_UNROLL_SOME(turns)\n#else\n#define ZL_UNROLL _Pragma(\"unroll\")\n" UNROLL_SOME "#endif\n"
    "#define ZL_UNROLL_IN_BRANCH _Pragma(\"unroll\")\n"
    "#define ZL_SWAP_32(at, old, next) atomic_cmpxchg(at, old, next)\n"
    "#define ZL_SWAP_64(at, old, next) atom_cmpxchg(at, old, next)\n" ATOMIC_WORDS
    // Vectors of 4, 8 and 16 bytes with elements of any type.
    "typedef uint zl_4 __attribute__((may_alias));\ntypedef uint2 zl_8 __attribute__((may_alias));\n"
    "typedef uint4 zl_16 __attribute__((may_alias));\n#define zl_words(x) (x)\n#define zl_pairs(x) (x)\n#define zl_renewed(x) (x)\n" VECTOR_ZEROS PLAIN_ONCE
    "#define ZL_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#define ZL_FAIL(line) atomic_cmpxchg(zl_status, 0, line)\n";

// Definitions that CUDA and HIP have in common.
#define CUDA_TYPES \
    "#define FN static __device__ __forceinline__\n" \
    "typedef signed char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long long i64;\n" \
    "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned u32;\ntypedef unsigned long long u64;\n"
#define CUDA_GROUP \
    "#define ZL_BOUNDS(...) __launch_bounds__(__VA_ARGS__)\n" \
    "#define ZL_WIDE f64\n" \
    "#define ZL_ADDRESS size_t\n#define ZL_UNROLL _Pragma(\"unroll\")\n#define ZL_UNROLL_IN_BRANCH ZL_UNROLL\n" UNROLL_SOME \
    "#define ZL_SWAP_32(at, old, next) atomicCAS((u32 *)(at), old, next)\n" \
    "#define ZL_SWAP_64(at, old, next) atomicCAS((u64 *)(at), old, next)\n" ATOMIC_WORDS \
    "#define ZL_BARRIER __syncthreads()\n" \
    "#define ZL_FAIL(line) atomicCAS((int *)zl_status, 0, line)\n"

#define LOAD_MATRICES(name, trans) \
    "FN void " name "(u32 *x, const void *at) {\n" \
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];\"\n" \
    "                 : \"=r\"(x[0]), \"=r\"(x[1]), \"=r\"(x[2]), \"=r\"(x[3]) : \"r\"(zl_shared(at)) : \"memory\");\n" \
    "}\n"

// Asynchronous copies and matrix instructions, for sm_80 and later. Compiled with --fmad=false.
const char prelude_cuda_tiles[] = CUDA_TYPES FLOATS DOUBLE HELPERS_32("__fsqrt_rn", "f")
    CUDA_FLOATS CUDA_HALVES HALF_MATH
    HELPERS_64("__dsqrt_rn") PLAIN_COMBINERS COMBINERS_64 GROUP_HELPERS
    CUDA_EXP2
    "#define ZL_SHUFFLE_XOR(x, by, of) __shfl_xor_sync(0xffffffffu, x, (by) & (of - 1), of)\n"
    "#define ZL_SHUFFLE_UP(x, by, of) __shfl_up_sync(0xffffffffu, x, (by) & (of - 1), of)\n"
    "#define ZL_SHUFFLE_FROM(x, by, of) __shfl_sync(0xffffffffu, x, (by) & (of - 1), of)\n" CUDA_GROUP
    "typedef u32 zl_4;\ntypedef uint2 zl_8;\ntypedef uint4 zl_16;\n"
    "#define ZL_LOAD_ONCE(x) __ldcs(&(x))\n#define ZL_STORE_ONCE(x, value) __stcs(&(x), value)\n"
    // Turns numbers of 8 and 16 bits in registers into words: nvcc would store them two by two.
    "FN zl_4 zl_words(zl_4 x) { asm(\"\" : \"+r\"(x)); return x; }\n"
    "FN zl_8 zl_words(zl_8 v) { asm(\"\" : \"+r\"(v.x), \"+r\"(v.y)); return v; }\n"
    "FN zl_16 zl_words(zl_16 v) { asm(\"\" : \"+r\"(v.x), \"+r\"(v.y), \"+r\"(v.z), \"+r\"(v.w)); return v; }\n"
    // For 16-bit numbers, joins pairs by mov and not by prmt: then ptxas rounds and joins two numbers in one
    // instruction.
    "FN zl_4 zl_pairs(zl_4 x) {\n    u32 y;\n"
    "    asm(\"mov.b32 %0, {%1, %2};\" : \"=r\"(y) : \"h\"((u16)x), \"h\"((u16)(x >> 16)));\n    return y;\n}\n"
    "FN zl_8 zl_pairs(zl_8 v) { return make_uint2(zl_pairs(v.x), zl_pairs(v.y)); }\n"
    "FN zl_16 zl_pairs(zl_16 v) { return make_uint4(zl_pairs(v.x), zl_pairs(v.y), zl_pairs(v.z), zl_pairs(v.w)); }\n"
    // Clusters, for compute capability 9 and later: zl_put writes to the shared memory of one of a cluster's
    // groups.
    "#define ZL_CLUSTER(groups) __cluster_dims__(groups, 1, 1)\n"
    "#define ZL_CLUSTER_ARRIVE asm volatile(\"barrier.cluster.arrive;\" ::: \"memory\")\n"
    "#define ZL_CLUSTER_AWAIT asm volatile(\"barrier.cluster.wait;\" ::: \"memory\")\n"
    "#define ZL_PUT(x, group, value) zl_put(&(x), group, value)\n"
    "template <typename T, typename V> FN void zl_put(T *at, u32 group, V value) {\n"
    "    volatile T *to;\n"
    "    asm volatile(\"mapa.u64 %0, %1, %2;\" : \"=l\"(to) : \"l\"(at), \"r\"(group));\n    *to = (T)value;\n}\n"
    "FN zl_16 zl_renewed(zl_16 v) { asm volatile(\"\" : \"+r\"(v.x), \"+r\"(v.y), \"+r\"(v.z), \"+r\"(v.w)); return v; }\n"
    "#define ZL_ZERO_4 0u\n#define ZL_ZERO_8 make_uint2(0, 0)\n#define ZL_ZERO_16 make_uint4(0, 0, 0, 0)\n"
    "FN u32 zl_shared(const void *at) { return (u32)__cvta_generic_to_shared(at); }\n"
    "#define ZL_ASYNC(BYTES, KIND) \\\n"
    "    FN void zl_async_##BYTES(void *to, const void *from) { \\\n"
    "        asm volatile(\"cp.async.\" KIND \".shared.global [%0], [%1], \" #BYTES \";\" ::\"r\"(zl_shared(to)), \"l\"(from)); \\\n"
    "    } \\\n"
    "    FN void zl_async_or_zero_##BYTES(void *to, const void *from, bool inside) { \\\n"
    "        asm volatile(\"cp.async.\" KIND \".shared.global [%0], [%1], \" #BYTES \", %2;\" \\\n"
    "                     ::\"r\"(zl_shared(to)), \"l\"(from), \"r\"(inside ? BYTES : 0)); \\\n"
    "    }\n"
    "ZL_ASYNC(4, \"ca\")\nZL_ASYNC(8, \"ca\")\nZL_ASYNC(16, \"cg\")\n"
    "#define ZL_COMMIT asm volatile(\"cp.async.commit_group;\" ::: \"memory\")\n"
    "#define ZL_WAIT(keep) asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(keep) : \"memory\")\n"
    LOAD_MATRICES("zl_load_matrices", "") LOAD_MATRICES("zl_load_transposed", ".trans")
    "#define ZL_MULTIPLY(NAME, TYPE) \\\n"
    "    FN void NAME(f32 *c, const u32 *a, const u32 *b) { \\\n"
    "        asm(\"mma.sync.aligned.m16n8k16.row.col.f32.\" TYPE \".\" TYPE \".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" \\\n"
    "                     : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) \\\n"
    "                     : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); \\\n"
    "    }\n"
    "ZL_MULTIPLY(zl_multiply_f16, \"f16\")\n"
    "ZL_MULTIPLY(zl_multiply_bf16, \"bf16\")\n"
    // four warps multiply together (wgmma), from descriptors of panels
    "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n#define ZL_WARPS\n"
    "#define ZL_FENCE asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\")\n"
    "#define ZL_MATRICES_BEGIN asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\")\n"
    "#define ZL_MATRICES_END asm volatile(\"wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;\" ::: \"memory\")\n"
    "FN u64 zl_descriptor(const void *at, u32 across) {\n"
    "    return (u64)((zl_shared(at) & 0x3ffff) >> 4) | (u64)(across >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;\n"
    "}\n"
    "#else\n"
    "#define ZL_FENCE (void)0\n"
    "#endif\n";

// Uses clang's own keywords and no headers of the vendor. Compiled with -ffp-contract=off.
const char prelude_hip_tiles[] =
    "#define __global__ __attribute__((global))\n#define __device__ __attribute__((device))\n"
    "#define __shared__ __attribute__((shared))\n#define __forceinline__ inline __attribute__((always_inline))\n"
    "#define __launch_bounds__(n, ...) __attribute__((amdgpu_flat_work_group_size(1, n)))\n"
    "#define __align__(n) __attribute__((aligned(n)))\n#define __grid_constant__\n"
    "typedef __SIZE_TYPE__ size_t;\n" CUDA_TYPES FLOATS DOUBLE
    "#define floorf __builtin_floorf\n#define ceilf __builtin_ceilf\n#define rintf __builtin_rintf\n"
    "#define truncf __builtin_truncf\n#define fmaf __builtin_fmaf\n#define floor __builtin_floor\n#define ceil __builtin_ceil\n"
    "#define rint __builtin_rint\n#define trunc __builtin_trunc\n#define fma __builtin_fma\n"
    HELPERS_32("__builtin_sqrtf", "f") EXTREMES HALVES HALF_MATH HELPERS_64("__builtin_sqrt") COMBINERS COMBINERS_64 GROUP_HELPERS
    "struct zl_axes {\n    u32 x;\n};\n"
    "FN struct zl_axes zl_this_thread() { struct zl_axes a = {__builtin_amdgcn_workitem_id_x()}; return a; }\n"
    "FN struct zl_axes zl_this_block() { struct zl_axes a = {__builtin_amdgcn_workgroup_id_x()}; return a; }\n"
    "#define threadIdx zl_this_thread()\n#define blockIdx zl_this_block()\n"
    "FN void __syncthreads() {\n"
    "    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"workgroup\");\n    __builtin_amdgcn_s_barrier();\n"
    "    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"workgroup\");\n}\n"
    "template <typename T> FN T atomicCAS(T *at, T old, T next) {\n"
    "    __atomic_compare_exchange_n(at, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);\n    return old;\n}\n"
    "FN u32 zl_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }\n"
    "template <typename T> FN T zl_shuffle(T x, u32 from) {\n"
    "    union { T t; u32 u[sizeof(T) / 4]; } v;\n    v.t = x;\n"
    "    for (u32 i = 0; i < sizeof(T) / 4; i++)\n"
    "        v.u[i] = (u32)__builtin_amdgcn_ds_bpermute((int)(from * 4), (int)v.u[i]);\n    return v.t;\n}\n"
    "FN u32 zl_lane_up(u32 by, u32 of) { return zl_lane() - ((zl_lane() & (of - 1)) < by ? 0 : by); }\n"
    "#define ZL_SHUFFLE_XOR(x, by, of) zl_shuffle(x, zl_lane() ^ ((by) & (of - 1)))\n"
    "#define ZL_SHUFFLE_UP(x, by, of) zl_shuffle(x, zl_lane_up((by) & (of - 1), of))\n"
    "#define ZL_SHUFFLE_FROM(x, by, of) zl_shuffle(x, (zl_lane() & ~(of - 1)) | ((by) & (of - 1)))\n"
    "FN f32 zl_exp2_f32(f32 x) { return __builtin_exp2f(x); }\n"
    "extern \"C\" __device__ int printf(const char *, ...);\n" CUDA_GROUP
    "typedef u32 zl_4 __attribute__((may_alias));\ntypedef u32 zl_8 __attribute__((ext_vector_type(2), may_alias));\n"
    "typedef u32 zl_16 __attribute__((ext_vector_type(4), may_alias));\n#define zl_words(x) (x)\n#define zl_pairs(x) (x)\n#define zl_renewed(x) (x)\n" VECTOR_ZEROS PLAIN_ONCE;
// clang-format on
