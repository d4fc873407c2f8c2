// instructions.c - loops of one instruction each. They have 24 independent sums on Arm and 12 on x86, to hide
// the latency, and a body that is repeated often, to hide the loop.

#include "instructions.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)

enum { REPEATS = 16, SUMS = 24, BLOCK = REPEATS * SUMS };
enum {
    HWCAP_HAS_F16 = 1 << 10,
    HWCAP_HAS_FMLAL = 1 << 23,
    HWCAP2_HAS_I8MM = 1 << 13,
    HWCAP2_HAS_BF16 = 1 << 14
};

#define SUM_LIST(DO)                                                                                    \
    DO(0)                                                                                               \
    DO(1)                                                                                               \
    DO(2)                                                                                               \
    DO(3)                                                                                               \
    DO(4)                                                                                               \
    DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) \
        DO(20) DO(21) DO(22) DO(23)
#define ZERO(r)      "movi v" #r ".4s, #0\n" // odd values halve the speed
#define FMLA_F32(r)  "fmla v" #r ".4s, v30.4s, v31.4s\n"
#define FMLA_F64(r)  "fmla v" #r ".2d, v30.2d, v31.2d\n"
#define FMLA_F16(r)  "fmla v" #r ".8h, v30.8h, v31.8h\n"
#define FMLAL_F16(r) "fmlal v" #r ".4s, v30.4h, v31.4h\n"
#define BFMMLA(r)    "bfmmla v" #r ".4s, v30.8h, v31.8h\n"
#define SMMLA(r)     "smmla v" #r ".4s, v30.16b, v31.16b\n"
#define SUM_REGISTERS                                                                                     \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31", "cc"
#if defined(__clang__)
#define WITH(feature) __attribute__((target(feature)))
#else
#define WITH(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#endif
#define REPEAT(name, feature, DO)                                                                      \
    WITH(feature) static void name(int64_t loops) {                                                    \
        __asm__ volatile(                                                                              \
            "movi v30.4s, #0\nmovi v31.4s, #0\n" SUM_LIST(ZERO) ".p2align 6\n1:\n.rept 16\n" SUM_LIST( \
                DO) ".endr\nsubs %0, %0, #1\nb.ne 1b\n"                                                \
            : "+r"(loops)::SUM_REGISTERS);                                                             \
    }
REPEAT(repeat_f32, "crc", FMLA_F32) // every CPU has this one
REPEAT(repeat_f64, "crc", FMLA_F64)
REPEAT(repeat_f16, "fp16fml", FMLA_F16)
REPEAT(repeat_fmlal, "fp16fml", FMLAL_F16)
REPEAT(repeat_bf16, "bf16", BFMMLA)
REPEAT(repeat_i8, "i8mm", SMMLA)

static bool always(void) {
    return true;
}
static bool has_f16(void) {
    return getauxval(AT_HWCAP) & HWCAP_HAS_F16;
}
static bool has_fmlal(void) {
    return getauxval(AT_HWCAP) & HWCAP_HAS_FMLAL;
}
static bool has_bf16(void) {
    return getauxval(AT_HWCAP2) & HWCAP2_HAS_BF16;
}
static bool has_i8mm(void) {
    return getauxval(AT_HWCAP2) & HWCAP2_HAS_I8MM;
}

const struct bench_instruction bench_instructions[] = {
    {"fmla f32", ZL_FLOAT32, BLOCK * 8, always, repeat_f32, "neon neon_fp16 neon_bf16"},
    {"fmla f64", ZL_FLOAT64, BLOCK * 4, always, repeat_f64, "neon neon_fp16 neon_bf16"},
    {"fmla f16", ZL_FLOAT16, BLOCK * 16, has_f16, repeat_f16, "neon_fp16 neon_bf16"},
    {"fmlal f16", ZL_FLOAT16, BLOCK * 8, has_fmlal, repeat_fmlal, "neon_bf16"},
    {"bfmmla", ZL_BFLOAT16, BLOCK * 32, has_bf16, repeat_bf16, "neon_bf16"},
    {"smmla", ZL_INT8, BLOCK * 64, has_i8mm, repeat_i8, "neon_bf16"},
    {0},
};

void bench_chain(int64_t loops) {
    uint64_t x = 0;
    __asm__ volatile("1:\n.rept 48\nadd %0, %0, #1\n.endr\nsubs %1, %1, #1\nb.ne 1b\n"
                     : "+r"(x), "+r"(loops)::"cc");
}

#elif defined(__x86_64__)

#include <cpuid.h>

enum { REPEATS = 8, SUMS = 12, BLOCK = REPEATS * SUMS, TILE_SUMS = 6, TILE_BLOCK = REPEATS * TILE_SUMS };

#define YMM_LIST(OP)                                                                                      \
    OP " %%ymm14, %%ymm15, %%ymm0\n" OP " %%ymm14, %%ymm15, %%ymm1\n" OP " %%ymm14, %%ymm15, %%ymm2\n" OP \
       " %%ymm14, %%ymm15, %%ymm3\n" OP " %%ymm14, %%ymm15, %%ymm4\n" OP " %%ymm14, %%ymm15, %%ymm5\n" OP \
       " %%ymm14, %%ymm15, %%ymm6\n" OP " %%ymm14, %%ymm15, %%ymm7\n" OP " %%ymm14, %%ymm15, %%ymm8\n" OP \
       " %%ymm14, %%ymm15, %%ymm9\n" OP " %%ymm14, %%ymm15, %%ymm10\n" OP " %%ymm14, %%ymm15, %%ymm11\n"
#define ZMM_LIST(OP)                                                                                      \
    OP " %%zmm14, %%zmm15, %%zmm0\n" OP " %%zmm14, %%zmm15, %%zmm1\n" OP " %%zmm14, %%zmm15, %%zmm2\n" OP \
       " %%zmm14, %%zmm15, %%zmm3\n" OP " %%zmm14, %%zmm15, %%zmm4\n" OP " %%zmm14, %%zmm15, %%zmm5\n" OP \
       " %%zmm14, %%zmm15, %%zmm6\n" OP " %%zmm14, %%zmm15, %%zmm7\n" OP " %%zmm14, %%zmm15, %%zmm8\n" OP \
       " %%zmm14, %%zmm15, %%zmm9\n" OP " %%zmm14, %%zmm15, %%zmm10\n" OP " %%zmm14, %%zmm15, %%zmm11\n"
#define TILE_LIST(OP)                                                                               \
    OP " %%tmm7, %%tmm6, %%tmm0\n" OP " %%tmm7, %%tmm6, %%tmm1\n" OP " %%tmm7, %%tmm6, %%tmm2\n" OP \
       " %%tmm7, %%tmm6, %%tmm3\n" OP " %%tmm7, %%tmm6, %%tmm4\n" OP " %%tmm7, %%tmm6, %%tmm5\n"
#define SUM_REGISTERS                                                                                 \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
        "xmm14", "xmm15", "cc"
#define REPEAT(name, list)                                                                    \
    static void name(int64_t loops) {                                                         \
        __asm__ volatile("vzeroall\n1:\n.rept 8\n" list ".endr\ndec %0\njnz 1b\nvzeroupper\n" \
                         : "+r"(loops)::SUM_REGISTERS);                                       \
    }
REPEAT(repeat_f32_256, YMM_LIST("vfmadd231ps"))
REPEAT(repeat_f64_256, YMM_LIST("vfmadd231pd"))
REPEAT(repeat_f32_512, ZMM_LIST("vfmadd231ps"))
REPEAT(repeat_f64_512, ZMM_LIST("vfmadd231pd"))
REPEAT(repeat_f16_512, ZMM_LIST("vfmadd231ph"))
REPEAT(repeat_bf16_512, ZMM_LIST("vdpbf16ps"))
REPEAT(repeat_i8_512, ZMM_LIST("vpdpbusd"))

// Configures the eight AMX tiles as 16 rows of 64 bytes each, and sets them to zero.
static void open_tiles(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = 64;
        tiles.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0\ntilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n"
                     "tilezero %%tmm4\ntilezero %%tmm5\ntilezero %%tmm6\ntilezero %%tmm7\n" ::"m"(tiles));
}
#define REPEAT_TILES(name, OP)                                                                \
    static void name(int64_t loops) {                                                         \
        open_tiles();                                                                         \
        __asm__ volatile("1:\n.rept 8\n" TILE_LIST(OP) ".endr\ndec %0\njnz 1b\ntilerelease\n" \
                         : "+r"(loops)::"cc");                                                \
    }
REPEAT_TILES(repeat_bf16_tiles, "tdpbf16ps")
REPEAT_TILES(repeat_i8_tiles, "tdpbssd")

static unsigned leaf7(unsigned subleaf, int which) {
    unsigned r[4] = {0};
    return __get_cpuid_count(7, subleaf, &r[0], &r[1], &r[2], &r[3]) ? r[which] : 0;
}
enum { EAX, EBX, ECX, EDX };

// Returns whether the system saves these parts of the register state: mask 6 is vectors of 256 bits, 0xe6
// also those of 512.
static bool saves(unsigned mask) {
    unsigned a, b, c = 0, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & mask) == mask;
}
static bool has_fma(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_FMA) && (leaf7(0, EBX) & (1u << 5)) && saves(0x6);
}
static bool has_512(void) {
    return (leaf7(0, EBX) & (1u << 16)) && saves(0xe6);
}
static bool has_f16(void) {
    return has_512() && (leaf7(0, EDX) & (1u << 23));
}
static bool has_bf16(void) {
    return has_512() && (leaf7(1, EAX) & (1u << 5));
}
static bool has_vnni(void) {
    return has_512() && (leaf7(0, ECX) & (1u << 11));
}
// Returns whether this process may use AMX tiles, for which Linux requires a request.
static bool has_tiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return (leaf7(0, EDX) & (1u << 24)) && saves(0x600e6) &&
           !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}
static bool has_bf16_tiles(void) {
    return (leaf7(0, EDX) & (1u << 22)) && has_tiles();
}
static bool has_i8_tiles(void) {
    return (leaf7(0, EDX) & (1u << 25)) && has_tiles();
}

const struct bench_instruction bench_instructions[] = {
    {"fma f32 256", ZL_FLOAT32, BLOCK * 16, has_fma, repeat_f32_256, "avx2 avx512"},
    {"fma f64 256", ZL_FLOAT64, BLOCK * 8, has_fma, repeat_f64_256, "avx2 avx512"},
    {"fma f32 512", ZL_FLOAT32, BLOCK * 32, has_512, repeat_f32_512, "avx512"},
    {"fma f64 512", ZL_FLOAT64, BLOCK * 16, has_512, repeat_f64_512, "avx512"},
    {"fma f16 512", ZL_FLOAT16, BLOCK * 64, has_f16, repeat_f16_512, NULL},
    {"dpbf16ps 512", ZL_BFLOAT16, BLOCK * 64, has_bf16, repeat_bf16_512, NULL},
    {"dpbusd 512", ZL_INT8, BLOCK * 128, has_vnni, repeat_i8_512, NULL},
    {"tdpbf16ps", ZL_BFLOAT16, TILE_BLOCK * 16384.0, has_bf16_tiles, repeat_bf16_tiles, NULL},
    {"tdpbssd", ZL_INT8, TILE_BLOCK * 32768.0, has_i8_tiles, repeat_i8_tiles, NULL},
    {0},
};

void bench_chain(int64_t loops) { // three cycles per loop; additions of constants may be eliminated
    uint64_t x = 1;
    __asm__ volatile("1:\n.rept 16\nimul %0, %0\n.endr\ndec %1\njnz 1b\n" : "+r"(x), "+r"(loops)::"cc");
}

#else

const struct bench_instruction bench_instructions[] = {{0}};

void bench_chain(int64_t loops) {
    for (volatile int64_t left = loops; left > 0; left--)
        ;
}

#endif

static const struct bench_instruction *find(const char *name) {
    for (const struct bench_instruction *i = bench_instructions; i->name; i++)
        if (!strcmp(i->name, name))
            return i;
    return NULL;
}

// Instructions that multiply matrices, the fastest first.
static const struct {
    zl_dtype dtype;
    const char *name;
} of_products[] = {
    {ZL_FLOAT32, "fmla f32"},     {ZL_FLOAT32, "fma f32 512"},  {ZL_FLOAT32, "fma f32 256"},
    {ZL_BFLOAT16, "bfmmla"},      {ZL_BFLOAT16, "tdpbf16ps"},   {ZL_BFLOAT16, "dpbf16ps 512"},
    {ZL_BFLOAT16, "fma f32 512"}, {ZL_BFLOAT16, "fma f32 256"}, {ZL_INT8, "smmla"},
    {ZL_INT8, "tdpbssd"},         {ZL_INT8, "dpbusd 512"},      {ZL_FLOAT16, "fmlal f16"},
    {ZL_FLOAT16, "fma f32 512"},  {ZL_FLOAT16, "fma f32 256"},  {ZL_FLOAT64, "fmla f64"},
    {ZL_FLOAT64, "fma f64 512"},  {ZL_FLOAT64, "fma f64 256"},
};

static bool is_left(const struct bench_instruction *i) {
    const char *level = getenv("ZL_ISA");
    return !level || !*level || (i->levels && strstr(i->levels, level));
}

const struct bench_instruction *bench_instruction_of_products(zl_dtype dtype) {
    for (size_t i = 0; i < sizeof of_products / sizeof of_products[0]; i++) {
        const struct bench_instruction *found =
            of_products[i].dtype == dtype ? find(of_products[i].name) : NULL;
        if (found && found->is_here() && is_left(found))
            return found;
    }
    return NULL;
}
