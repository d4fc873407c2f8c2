// level.c - chooses the instruction-set level of the row kernels, once, by what the CPU reports.

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <string.h>

// Lowest first, as in levels.def.
static const struct cpu_level levels[] = {
#define LEVEL(name, arch, flags) {#name, flags, &rows_##name},
#include "levels_built.def"
};

// What levels, and features that single kernels use, need, by name. A level without a row here is never chosen by
// itself.
struct need {
    const char *name;
    unsigned long first, second;
};

#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

enum { FP16_NEEDS = HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDDP };

static const struct need needs[] = {
    {"scalar", 0, 0},
    {"neon", HWCAP_ASIMD, 0},
    {"neon_fp16", FP16_NEEDS, 0},
    {"neon_bf16", FP16_NEEDS | HWCAP_ASIMDFHM, HWCAP2_BF16 | HWCAP2_I8MM},
    {"dotprod", HWCAP_ASIMDDP, 0},
    {"fhm", HWCAP_ASIMDFHM, 0},
    {"bf16", 0, HWCAP2_BF16},
    {"i8mm", 0, HWCAP2_I8MM},
};

static struct need found(void) {
    return (struct need){NULL, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
}

#elif defined(__x86_64__)

#include <cpuid.h>

// first: CPUID leaf 1 ECX, with leaf 0x80000001 ECX in the high half. second: leaf 7 EBX.
#define EXTENDED(bit) ((unsigned long)(bit) << 32)
enum {
    V2_NEEDS = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B,
    V3_NEEDS = V2_NEEDS | bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE,
    V3_SECOND = bit_BMI | bit_AVX2 | bit_BMI2,
    XCR0_YMM = 0x06,
    XCR0_ZMM = 0xe6,
};
#define V4_SECOND     (V3_SECOND | bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL)
#define LAHF_LM       EXTENDED(bit_LAHF_LM)
#define LZCNT         EXTENDED(bit_ABM)

static const struct need needs[] = {
    {"scalar", 0, 0},
    {"sse42", V2_NEEDS | LAHF_LM, 0},
    {"avx2", V3_NEEDS | LAHF_LM | LZCNT, V3_SECOND},
    {"avx512", V3_NEEDS | LAHF_LM | LZCNT, V4_SECOND},
};

// Registers that the operating system keeps for us.
static unsigned enabled_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static struct need found(void) {
    unsigned a, b, c, d;
    struct need have = {NULL, 0, 0};
    if (__get_cpuid(1, &a, &b, &c, &d))
        have.first = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        have.second = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        have.first |= EXTENDED(c);
    unsigned state = have.first & bit_OSXSAVE ? enabled_state() : 0;
    if ((state & XCR0_YMM) != XCR0_YMM)
        have.first &= ~(unsigned long)bit_AVX;
    if ((state & XCR0_ZMM) != XCR0_ZMM)
        have.second &= ~(unsigned long)bit_AVX512F;
    return have;
}

#else

static const struct need needs[] = {{"scalar", 0, 0}};

static struct need found(void) {
    return (struct need){NULL, 0, 0};
}

#endif

static const struct need *need_of(const char *name) {
    for (size_t i = 0; i < COUNT(needs); i++)
        if (!strcmp(needs[i].name, name))
            return &needs[i];
    return NULL;
}

static bool covers(const struct need *have, const struct need *need) {
    return (have->first & need->first) == need->first && (have->second & need->second) == need->second;
}

static bool is_supported(const struct cpu_level *level) {
    struct need have = found();
    const struct need *need = need_of(level->name);
    return need && covers(&have, need);
}

static const struct cpu_level *best_level(void) {
    const struct cpu_level *best = &levels[0];
    for (size_t i = 0; i < COUNT(levels); i++)
        if (is_supported(&levels[i]))
            best = &levels[i];
    return best;
}

static const struct cpu_level *asked_level(const char *name, const struct cpu_level *best) {
    for (size_t i = 0; i < COUNT(levels); i++) {
        if (strcmp(levels[i].name, name) != 0)
            continue;
        if (is_supported(&levels[i]))
            return &levels[i];
        log_line(ZL_LOG_WARN, "ZL_ISA=%s: this CPU does not have it; %s is used", name, best->name);
        return best;
    }
    struct text known = {0};
    for (size_t i = 0; i < COUNT(levels); i++)
        text_add(&known, " %s", levels[i].name);
    log_line(ZL_LOG_WARN, "ZL_ISA=%s: no such level in this library, which has%s; %s is used", name,
             known.data ? known.data : "", best->name);
    text_free(&known);
    return best;
}

static const struct cpu_level *chosen;

static void choose(void) {
    const char *name = setting_text(SETTING_ISA);
    const struct cpu_level *best = best_level();
    chosen = *name ? asked_level(name, best) : best;
}

const struct cpu_level *cpu_level(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return chosen;
}

int cpu_level_registers(void) {
    static const char *const many[] = {"neon", "neon_fp16", "neon_bf16", "avx512"};
    for (size_t i = 0; i < COUNT(many); i++)
        if (!strcmp(cpu_level()->name, many[i]))
            return 32;
    return 16;
}

bool cpu_has(const char *name) {
    struct need have = found();
    const struct need *need = need_of(name), *asked = need_of(cpu_level()->name);
    return need && covers(&have, need) && (!*setting_text(SETTING_ISA) || covers(asked, need));
}
