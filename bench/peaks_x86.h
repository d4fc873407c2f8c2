// peaks_x86.h - the instructions of matrix products on x86_64, best first for each dtype, and whether they are here.

#ifndef PEAKS_X86_H
#define PEAKS_X86_H

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEAF_7_EBX, LEAF_7_ECX, LEAF_7_EDX, LEAF_7_1_EAX };

static bool has_bit(int word, int bit) {
    unsigned at[4] = {0}, more[4] = {0}, unused;
    __get_cpuid_count(7, 0, &unused, &at[LEAF_7_EBX], &at[LEAF_7_ECX], &at[LEAF_7_EDX]);
    if (__get_cpuid_count(7, 1, &more[0], &more[1], &more[2], &more[3]))
        at[LEAF_7_1_EAX] = more[0];
    return at[word] >> bit & 1;
}

static bool has_avx512(void) { return __builtin_cpu_supports("avx512bw"); } // as the system keeps its registers too
static bool has_vnni(void) { return has_avx512() && has_bit(LEAF_7_ECX, 11); }
static bool has_bf16(void) { return has_avx512() && has_bit(LEAF_7_1_EAX, 5); }
static bool has_tiles(void) {
    return has_avx512() && has_bit(LEAF_7_EDX, 24) && has_bit(LEAF_7_EDX, 22) && has_bit(LEAF_7_EDX, 25) &&
           syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XFEATURE_XTILEDATA */) == 0;
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#define ZMM_LIST(DO)                                                                                                    \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) \
    DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) // PEAK_SUMS
#define YMM_LIST(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) // half as many

#define ZMM_ZERO(r) "vpxord %%zmm" #r ", %%zmm" #r ", %%zmm" #r "\n"
#define YMM_ZERO(r) "vpxor %%ymm" #r ", %%ymm" #r ", %%ymm" #r "\n"
#define ZMM_DO(instruction, r) instruction " %%zmm30, %%zmm31, %%zmm" #r "\n"
#define YMM_DO(instruction, r) instruction " %%ymm14, %%ymm15, %%ymm" #r "\n"

// Sums start as zeros: what else is in a register may be numbers so small that they take a hundred times as long.
#define PEAK(name, features, LIST, START, repeats, DO, ...)                                                       \
    __attribute__((target(features))) static void name(int part, int parts) {                                     \
        (void)part, (void)parts;                                                                                  \
        int64_t left = PEAK_LOOPS;                                                                                \
        __asm__ volatile(START "1:\n.rept " #repeats "\n" LIST(DO) ".endr\nsub $1, %0\njnz 1b\n"                  \
                         : "+r"(left)::"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",    \
                           "xmm9", "xmm10", "xmm11", "xmm14", "xmm15", ##__VA_ARGS__, "cc");                      \
    }
#define ZMM_REST                                                                                                  \
    "xmm12", "xmm13", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30", "xmm31"
#define ZMM_START ZMM_LIST(ZMM_ZERO) ZMM_ZERO(30) ZMM_ZERO(31)
#define YMM_START YMM_LIST(YMM_ZERO) YMM_ZERO(14) YMM_ZERO(15)
#define ZMM_FMA(r)   ZMM_DO("vfmadd231ps", r)
#define ZMM_FMA2(r)  ZMM_DO("vfmadd231pd", r)
#define ZMM_DOT(r)   ZMM_DO("vpdpbusd", r)
#define ZMM_BFDOT(r) ZMM_DO("vdpbf16ps", r)
#define ZMM_MADD(r)  "vpmaddwd %%zmm30, %%zmm31, %%zmm29\nvpaddd %%zmm29, %%zmm" #r ", %%zmm" #r "\n"
#define YMM_FMA(r)   YMM_DO("vfmadd231ps", r)
#define YMM_FMA2(r)  YMM_DO("vfmadd231pd", r)
#define YMM_MADD(r)  "vpmaddwd %%ymm14, %%ymm15, %%ymm13\nvpaddd %%ymm13, %%ymm" #r ", %%ymm" #r "\n"
PEAK(zmm_f32, "avx512f", ZMM_LIST, ZMM_START, 16, ZMM_FMA, ZMM_REST)
PEAK(zmm_f64, "avx512f", ZMM_LIST, ZMM_START, 16, ZMM_FMA2, ZMM_REST)
PEAK(zmm_i8, "avx512f,avx512vnni", ZMM_LIST, ZMM_START, 16, ZMM_DOT, ZMM_REST)
PEAK(zmm_bf16, "avx512f,avx512bf16", ZMM_LIST, ZMM_START, 16, ZMM_BFDOT, ZMM_REST)
PEAK(zmm_i16, "avx512f,avx512bw", ZMM_LIST, ZMM_START, 16, ZMM_MADD, ZMM_REST, "xmm29")
PEAK(ymm_f32, "avx2,fma", YMM_LIST, YMM_START, 32, YMM_FMA)
PEAK(ymm_f64, "avx2,fma", YMM_LIST, YMM_START, 32, YMM_FMA2)
PEAK(ymm_i16, "avx2", YMM_LIST, YMM_START, 32, YMM_MADD, "xmm13")

// Four tiles of sums in turn, as a micro-kernel has them.
#define TILE_PEAK(name, instruction)                                                                              \
    __attribute__((target("amx-tile,amx-int8,amx-bf16"))) static void name(int part, int parts) {                 \
        (void)part, (void)parts;                                                                                  \
        int64_t left = PEAK_LOOPS;                                                                                \
        struct { uint8_t palette, unused[15]; uint16_t bytes[16]; uint8_t rows[16]; } all = {.palette = 1};       \
        for (int i = 0; i < 8; i++)                                                                               \
            all.bytes[i] = 64, all.rows[i] = 16;                                                                  \
        __asm__ volatile("ldtilecfg %1\n.irp t, 0, 1, 2, 3, 4, 5, 6, 7\ntilezero %%tmm\\t\n.endr\n1:\n.rept 96\n" \
                         instruction " %%tmm7, %%tmm5, %%tmm0\n" instruction " %%tmm7, %%tmm6, %%tmm1\n"          \
                         instruction " %%tmm7, %%tmm5, %%tmm2\n" instruction " %%tmm7, %%tmm6, %%tmm3\n"          \
                         ".endr\nsub $1, %0\njnz 1b\ntilerelease\n" : "+r"(left) : "m"(all) : "cc");               \
    }
TILE_PEAK(tile_i8, "tdpbssd")
TILE_PEAK(tile_bf16, "tdpbf16ps")

static struct peak peaks[] = {
    {ZL_FLOAT32, "vfmadd231ps zmm", 32, zmm_f32, has_avx512, 0},
    {ZL_FLOAT32, "vfmadd231ps ymm", 16, ymm_f32, has_avx2, 0},
    {ZL_BFLOAT16, "tdpbf16ps", 16384, tile_bf16, has_tiles, 0},
    {ZL_BFLOAT16, "vdpbf16ps zmm", 64, zmm_bf16, has_bf16, 0},
    {ZL_BFLOAT16, "vfmadd231ps zmm", 32, zmm_f32, has_avx512, 0},
    {ZL_BFLOAT16, "vfmadd231ps ymm", 16, ymm_f32, has_avx2, 0},
    {ZL_INT8, "tdpbssd", 32768, tile_i8, has_tiles, 0},
    {ZL_INT8, "vpdpbusd zmm", 128, zmm_i8, has_vnni, 0},
    {ZL_INT8, "vpmaddwd zmm", 64, zmm_i16, has_avx512, 0},
    {ZL_INT8, "vpmaddwd ymm", 32, ymm_i16, has_avx2, 0},
    {ZL_FLOAT16, "vfmadd231ps zmm", 32, zmm_f32, has_avx512, 0},
    {ZL_FLOAT16, "vfmadd231ps ymm", 16, ymm_f32, has_avx2, 0},
    {ZL_FLOAT64, "vfmadd231pd zmm", 16, zmm_f64, has_avx512, 0},
    {ZL_FLOAT64, "vfmadd231pd ymm", 8, ymm_f64, has_avx2, 0},
};

#endif
