// peaks.h - how fast the instructions of matrix products are: multiply-adds of each dtype, on all cores at once.

#ifndef PEAKS_H
#define PEAKS_H

#include "bench.h"

enum { PEAK_LOOPS = 4000, PEAK_REPEATS = 16, PEAK_SUMS = 24 };

struct peak {
    zl_dtype dtype;
    const char *instruction;
    double work;                  // operations of one instruction
    void (*part)(int part, int parts);
    bool (*here)(void);           // whether the CPU has it
    double best;                  // seconds
};

#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#define PEAK_LIST(DO)                                                                                              \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) \
    DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define PEAK_FMLA(r)   "fmla v" #r ".4s, v30.4s, v31.4s\n"
#define PEAK_FMLA2(r)  "fmla v" #r ".2d, v30.2d, v31.2d\n"
#define PEAK_FMLAL(r)  "fmlal v" #r ".4s, v30.4h, v31.4h\n"
#define PEAK_BFMMLA(r) "bfmmla v" #r ".4s, v30.8h, v31.8h\n"
#define PEAK_SMMLA(r)  "smmla v" #r ".4s, v30.16b, v31.16b\n"
#define PEAK_ZERO(r)   "movi v" #r ".4s, #0\n"
#if defined(__clang__)
#define PEAK_WITH(feature) __attribute__((target(feature)))
#else
#define PEAK_WITH(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#endif
#define PEAK(name, feature, DO)                                                                                    \
    PEAK_WITH(feature) static void name(int part, int parts) {                                                                        \
        (void)part, (void)parts;                                                                                   \
        int64_t left = PEAK_LOOPS;                                                                                 \
        __asm__ volatile("movi v30.4s, #0\nmovi v31.4s, #0\n" PEAK_LIST(PEAK_ZERO)                                 \
                         "1:\n.rept 16\n" PEAK_LIST(DO) ".endr\nsubs %0, %0, #1\nb.ne 1b\n"                        \
                         : "+r"(left)::"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",   \
                           "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",     \
                           "v30", "v31", "cc");                                                                    \
    }
PEAK(peak_f32, "crc", PEAK_FMLA) // which every CPU has
PEAK(peak_f64, "crc", PEAK_FMLA2)
PEAK(peak_f16, "fp16fml", PEAK_FMLAL)
PEAK(peak_bf16, "bf16", PEAK_BFMMLA)
PEAK(peak_i8, "i8mm", PEAK_SMMLA)

static bool has(int word, unsigned long bit) { return getauxval((unsigned long)word) & bit; }
static bool has_neon(void) { return true; }
static bool has_fmlal(void) { return has(AT_HWCAP, HWCAP_ASIMDFHM); }
static bool has_bfmmla(void) { return has(AT_HWCAP2, HWCAP2_BF16); }
static bool has_smmla(void) { return has(AT_HWCAP2, HWCAP2_I8MM); }

static struct peak peaks[] = {
    {ZL_FLOAT32, "fmla", 8, peak_f32, has_neon, 0},        {ZL_BFLOAT16, "bfmmla", 32, peak_bf16, has_bfmmla, 0},
    {ZL_INT8, "smmla", 64, peak_i8, has_smmla, 0},         {ZL_FLOAT16, "fmlal", 8, peak_f16, has_fmlal, 0},
    {ZL_FLOAT64, "fmla of f64", 4, peak_f64, has_neon, 0},
};

#else

#include "peaks_x86.h"

#endif

// The best instruction for a dtype that the CPU has; NULL: none.
static struct peak *find_peak(zl_dtype dtype) {
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        if (peaks[i].dtype == dtype && peaks[i].here())
            return &peaks[i];
    return NULL;
}

static void measure_peak(struct peak *p) {
    double took = bench_on_all_cores(p->part);
    p->best = p->best > 0 && p->best < took ? p->best : took;
}

// Operations a second of all cores.
static double peak_rate(const struct peak *p) {
    return p->work * PEAK_LOOPS * PEAK_REPEATS * PEAK_SUMS * zl_threads() / p->best;
}

#endif
