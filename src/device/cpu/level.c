// level.c - chooses the instruction-set level of the row kernels once, by the features that the CPU reports.

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <string.h>

// Levels, lowest first, as in levels.def.
static const struct cpu_level levels[] = {
#define LEVEL(name, arch, flags) {#name, flags, &rows_##name},
#include "levels_built.def"
};

// The CPU features that each level, and each feature of single kernels, requires. A level without an entry is
// never chosen automatically.
struct need {
    const char *name;
    unsigned long first, second, third;
};

#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

// Bit n of `third` stands for SVE vectors of 16 n bytes.
enum { FP16_NEEDS = HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDDP };
#define SVE_BYTES(bytes) (1ul << (bytes) / 16)

static const struct need needs[] = {
    {"scalar", 0, 0, 0},
    {"neon", HWCAP_ASIMD, 0, 0},
    {"neon_fp16", FP16_NEEDS, 0, 0},
    {"neon_bf16", FP16_NEEDS | HWCAP_ASIMDFHM, HWCAP2_BF16 | HWCAP2_I8MM, 0},
    {"dotprod", HWCAP_ASIMDDP, 0, 0},
    {"fhm", HWCAP_ASIMDFHM, 0, 0},
    {"bf16", 0, HWCAP2_BF16, 0},
    {"i8mm", 0, HWCAP2_I8MM, 0},
    {"sve_256", HWCAP_SVE, 0, SVE_BYTES(32)},
    {"sve_512", HWCAP_SVE, 0, SVE_BYTES(64)},
    {"sve_256_bf16", HWCAP_SVE, HWCAP2_SVEBF16, SVE_BYTES(32)},
    {"sve_512_bf16", HWCAP_SVE, HWCAP2_SVEBF16, SVE_BYTES(64)},
    {"sve_256_i8mm", HWCAP_SVE, HWCAP2_SVEI8MM, SVE_BYTES(32)},
    {"sve_512_i8mm", HWCAP_SVE, HWCAP2_SVEI8MM, SVE_BYTES(64)},
};

static struct need found(void) {
    struct need have = {NULL, getauxval(AT_HWCAP), getauxval(AT_HWCAP2), 0};
    int length = have.first & HWCAP_SVE ? prctl(PR_SVE_GET_VL) : 0;
    if (length > 0)
        have.third = SVE_BYTES(length & PR_SVE_VL_LEN_MASK);
    return have;
}

static bool is_granted(const struct need *need) {
    return need;
}

#elif defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// first: CPUID leaf 1 ECX, with leaf 0x80000001 ECX in the upper 32 bits. second: leaf 7 EBX, with ECX in the
// upper 32 bits. third: leaf 7 EDX, with EAX of subleaf 1 in the upper 32 bits.
#define EXTENDED(bit) ((unsigned long)(bit) << 32)
enum {
    V2_NEEDS = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B,
    V3_NEEDS = V2_NEEDS | bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE,
    V3_SECOND = bit_BMI | bit_AVX2 | bit_BMI2,
    XCR0_YMM = 0x06,
    XCR0_ZMM = 0xe6,
    XCR0_TILES = 0x60000,
};
#define V4_SECOND     (V3_SECOND | bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL)
#define LAHF_LM       EXTENDED(bit_LAHF_LM)
#define LZCNT         EXTENDED(bit_ABM)
#define V3_FIRST      (V3_NEEDS | LAHF_LM | LZCNT)
#define AVX512_VNNI   EXTENDED(1u << 11)
#define AVX_VNNI      EXTENDED(1u << 4)
#define AVX512_BF16   EXTENDED(1u << 5)
#define AMX_BF16      (1ul << 22)
#define AMX_TILE      (1ul << 24)
#define AMX_INT8      (1ul << 25)

static const struct need needs[] = {
    {"scalar", 0, 0, 0},
    {"sse42", V2_NEEDS | LAHF_LM, 0, 0},
    {"avx2", V3_FIRST, V3_SECOND, 0},
    {"avx512", V3_FIRST, V4_SECOND, 0},
    {"avx_vnni", V3_FIRST, V3_SECOND, AVX_VNNI},
    {"avx512_vnni", V3_FIRST, V4_SECOND | AVX512_VNNI, 0},
    {"avx512_bf16", V3_FIRST, V4_SECOND, AVX512_BF16},
    {"amx_int8", V3_FIRST, V4_SECOND, AMX_TILE | AMX_INT8},
    {"amx_bf16", V3_FIRST, V4_SECOND, AMX_TILE | AMX_BF16},
};

// Returns the register sets that the operating system saves and restores for us (XCR0).
static unsigned enabled_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static struct need found(void) {
    unsigned a, b, c, d;
    struct need have = {NULL, 0, 0, 0};
    if (__get_cpuid(1, &a, &b, &c, &d))
        have.first = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        have.second = b | EXTENDED(c), have.third = d;
    if (have.third && a > 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        have.third |= EXTENDED(a);
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        have.first |= EXTENDED(c);
    unsigned state = have.first & bit_OSXSAVE ? enabled_state() : 0;
    if ((state & XCR0_YMM) != XCR0_YMM)
        have.first &= ~(unsigned long)bit_AVX;
    if ((state & XCR0_ZMM) != XCR0_ZMM)
        have.second &= ~(unsigned long)bit_AVX512F;
    if ((state & XCR0_TILES) != XCR0_TILES)
        have.third &= ~AMX_TILE;
    return have;
}

// Asks Linux for permission to use AMX tiles. It saves and restores them only for processes that requested
// this, because they make a thread's saved state much larger.
static bool is_granted(const struct need *need) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return !(need->third & AMX_TILE) || syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

#else

static const struct need needs[] = {{"scalar", 0, 0, 0}};

static struct need found(void) {
    return (struct need){NULL, 0, 0, 0};
}

static bool is_granted(const struct need *need) {
    return need;
}

#endif

static const struct need *need_of(const char *name) {
    for (size_t i = 0; i < COUNT(needs); i++)
        if (!strcmp(needs[i].name, name))
            return &needs[i];
    return NULL;
}

static bool covers(const struct need *have, const struct need *need) {
    return (have->first & need->first) == need->first && (have->second & need->second) == need->second &&
           (have->third & need->third) == need->third;
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

static struct need here;

static void look(void) {
    here = found();
}

// The features are read once: tiny products call this, and CPUID takes microseconds on a virtual machine.
bool cpu_has(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    const struct need *need = need_of(name), *asked = need_of(cpu_level()->name);
    return need && covers(&here, need) && (!*setting_text(SETTING_ISA) || covers(asked, need)) &&
           is_granted(need);
}
