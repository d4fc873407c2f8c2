// attention_neon.c - softmax weights of attention on aarch64, in assembly. exp(x) is a chain of a dozen
// dependent operations, and compilers do not interleave enough independent work. Here each operation is done
// for four keys of twelve queries before the next one.
//
// exp(score - most) is computed as 2^n * 2^r with a whole n. A first pass stores r in place of the score, and
// n, not yet shifted into the place of an exponent, in `room`; a second pass computes 2^r by a polynomial.
// Weights are 0 where score - most is below -88. Scores that are exponents of 2 already, and cannot be large,
// take one pass: there n is stored only until the polynomial has freed its registers.

#include "device/cpu/attention/attention.h"

#if defined(__aarch64__)

#define CLOBBERED                                                                                         \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
        "v30", "v31", "memory", "cc"

// EACH applies DO to vectors v0 to v11, with v12 to v23 as the second operands. EACH_BY applies it to v0 to
// v11 with the three vectors c0, c1 and c2, which hold a number for each of the twelve columns, in turn.
#define EACH(DO) \
    DO(0, 12)    \
    DO(1, 13)    \
    DO(2, 14) DO(3, 15) DO(4, 16) DO(5, 17) DO(6, 18) DO(7, 19) DO(8, 20) DO(9, 21) DO(10, 22) DO(11, 23)
#define EACH_BY(DO, c0, c1, c2) \
    DO(0, c0)                   \
    DO(1, c1)                   \
    DO(2, c2) DO(3, c0) DO(4, c1) DO(5, c2) DO(6, c0) DO(7, c1) DO(8, c2) DO(9, c0) DO(10, c1) DO(11, c2)
#define PAIRS(DO, at) \
    DO(0, 1, at, 0) DO(2, 3, at, 32) DO(4, 5, at, 64) DO(6, 7, at, 96) DO(8, 9, at, 128) DO(10, 11, at, 160)
#define UPPER_PAIRS(DO, at) \
    DO(12, 13, at, 0)       \
    DO(14, 15, at, 32) DO(16, 17, at, 64) DO(18, 19, at, 96) DO(20, 21, at, 128) DO(22, 23, at, 160)
#define LOAD(a, b, at, by)  "ldp q" #a ", q" #b ", [%[" #at "], #" #by "]\n"
#define STORE(a, b, at, by) "stp q" #a ", q" #b ", [%[" #at "], #" #by "]\n"
#define LOOP(BODY)          ".p2align 6\n1:\n" BODY "subs %[keys], %[keys], #4\nb.gt 1b\n"

// Loads constants into registers that an instruction then accumulates into. Loads have execution pipes of
// their own, whereas a move between registers would take an issue slot from a multiplication; so each
// constant is stored eight times in memory.
#define CONSTANT(a, b, by)      "ldp q" #a ", q" #b ", [%[numbers], #" #by "]\n"
#define FOUR_OF(a, b, c, d, by) CONSTANT(a, b, by) CONSTANT(c, d, by)
#define UPPER_OF(by) \
    FOUR_OF(12, 13, 14, 15, by) FOUR_OF(16, 17, 18, 19, by) FOUR_OF(20, 21, 22, 23, by)
#define EIGHT(x) \
    { x, x, x, x, x, x, x, x }
#define LESS(x, top)  "fsub v" #x ".4s, v" #x ".4s, v" #top ".4s\n"
#define CLAMP(x, n)   "fmax v" #x ".4s, v" #x ".4s, v24.4s\n"
#define BY_LOG2(x, n) "fmla v" #n ".4s, v" #x ".4s, v25.4s\n"
#define UNSHIFT(x, n) "fsub v" #n ".4s, v26.4s, v" #n ".4s\n"

// v24: the least score - most; v25: scale * log2(e); v26: the shift that leaves a whole number in the last
// bits.
static void split(float *scores, int64_t keys, float scale, const float *most, float *room) {
    const float numbers[][8] = {EIGHT(12582912 + 127), {-88.03f / scale, 1.44269504f * scale}};
    __asm__ volatile("ldr q26, [%[numbers]]\n"
                     "ldr d25, [%[numbers], #32]\n"
                     "dup v24.4s, v25.s[0]\n"
                     "dup v25.4s, v25.s[1]\n"
                     "ldp q27, q28, [%[most]]\n"
                     "ldr q29, [%[most], #32]\n" LOOP(
                         PAIRS(LOAD, x) UPPER_OF(0) EACH_BY(LESS, 27, 28, 29) EACH(CLAMP) EACH(BY_LOG2)
                             UPPER_PAIRS(STORE, n) EACH(UNSHIFT) EACH(BY_LOG2)
                                 UPPER_PAIRS(STORE, x) "add %[x], %[x], #192\nadd %[n], %[n], #192\n")
                     : [x] "+r"(scores), [n] "+r"(room), [keys] "+r"(keys)
                     : [numbers] "r"(numbers), [most] "r"(most)
                     : CLOBBERED);
}

#define WHOLE(x, n)    "fadd v" #n ".4s, v" #x ".4s, v24.4s\n"
#define UNWHOLE(x, n)  "fsub v" #n ".4s, v" #n ".4s, v24.4s\n"
#define LEFT(x, n)     "fsub v" #x ".4s, v" #x ".4s, v" #n ".4s\n"
#define FIRST(r, p)    "fmla v" #p ".4s, v" #r ".4s, v28.4s\n"
#define BY_R(to, p, r) "fmla v" #to ".4s, v" #p ".4s, v" #r ".4s\n"
#define FOUR_BY_R(t0, t1, t2, t3, p0, p1, p2, p3, r0, r1, r2, r3, by) \
    FOUR_OF(t0, t1, t2, t3, by) BY_R(t0, p0, r0) BY_R(t1, p1, r1) BY_R(t2, p2, r2) BY_R(t3, p3, r3)
// A step of Horner's method for twelve polynomials: p times r plus the next coefficient. The twelve values
// rotate through the sixteen registers v12 to v27, of which four are free.
#define STEP_1(by)                                            \
    FOUR_BY_R(24, 25, 26, 27, 12, 13, 14, 15, 0, 1, 2, 3, by) \
    FOUR_BY_R(12, 13, 14, 15, 16, 17, 18, 19, 4, 5, 6, 7, by) \
    FOUR_BY_R(16, 17, 18, 19, 20, 21, 22, 23, 8, 9, 10, 11, by)
#define STEP_2(by)                                            \
    FOUR_BY_R(20, 21, 22, 23, 24, 25, 26, 27, 0, 1, 2, 3, by) \
    FOUR_BY_R(24, 25, 26, 27, 12, 13, 14, 15, 4, 5, 6, 7, by) \
    FOUR_BY_R(12, 13, 14, 15, 16, 17, 18, 19, 8, 9, 10, 11, by)
#define STEP_3(by)                                            \
    FOUR_BY_R(16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, by) \
    FOUR_BY_R(20, 21, 22, 23, 24, 25, 26, 27, 4, 5, 6, 7, by) \
    FOUR_BY_R(24, 25, 26, 27, 12, 13, 14, 15, 8, 9, 10, 11, by)
#define EACH_AFTER_2(DO) \
    DO(0, 20)            \
    DO(1, 21)            \
    DO(2, 22) DO(3, 23) DO(4, 24) DO(5, 25) DO(6, 26) DO(7, 27) DO(8, 12) DO(9, 13) DO(10, 14) DO(11, 15)
#define EACH_AFTER_3(DO) \
    DO(0, 16)            \
    DO(1, 17)            \
    DO(2, 18) DO(3, 19) DO(4, 20) DO(5, 21) DO(6, 22) DO(7, 23) DO(8, 24) DO(9, 25) DO(10, 26) DO(11, 27)
#define TIMES_R(r, p)  "fmul v" #p ".4s, v" #p ".4s, v" #r ".4s\n"
#define EXPONENT(e, p) "shl v" #e ".4s, v" #e ".4s, #23\n"
#define RAISE(e, p)    "fmla v" #e ".4s, v" #e ".4s, v" #p ".4s\n" // 2^n * (1 + p)
#define MULTIPLY(e, p) "fmul v" #e ".4s, v" #e ".4s, v" #p ".4s\n" // 2^n * p
#define PLUS(to, a, b) "fadd v" #to ".4s, v" #a ".4s, v" #b ".4s\n"
#define TOTALS                                                                                           \
    PLUS(12, 0, 3)                                                                                       \
    PLUS(13, 1, 4)                                                                                       \
    PLUS(14, 2, 5)                                                                                       \
    PLUS(15, 6, 9)                                                                                       \
    PLUS(16, 7, 10)                                                                                      \
    PLUS(17, 8, 11) PLUS(12, 12, 15) PLUS(13, 13, 16) PLUS(14, 14, 17) PLUS(29, 29, 12) PLUS(30, 30, 13) \
        PLUS(31, 31, 14)

static void exp_sum_some(float *scores, int64_t keys, float scale, const float *most, float *sum,
                         float *room) {
    const float numbers[][8] = {EIGHT(0.0013276472f), EIGHT(0.00967554133f), EIGHT(0.0555071327f),
                                EIGHT(0.240221197f), EIGHT(0.693146967f)};
    split(scores, keys, scale, most, room);
    __asm__ volatile(
        "ldr q28, [%[numbers]]\n"
        "ldp q29, q30, [%[sum]]\n"
        "ldr q31, [%[sum], #32]\n" LOOP(
            PAIRS(LOAD, x) UPPER_OF(32) EACH(FIRST) STEP_1(64) STEP_2(96) STEP_3(128) EACH_AFTER_3(TIMES_R)
                PAIRS(LOAD, n) EACH(EXPONENT) EACH_AFTER_3(RAISE) TOTALS PAIRS(
                    STORE, x) "add %[x], %[x], #192\nadd %[n], %[n], #192\n") "stp q29, q30, [%[sum]]\n"
                                                                              "str q31, [%[sum], #32]\n"
        : [x] "+r"(scores), [n] "+r"(room), [keys] "+r"(keys)
        : [numbers] "r"(numbers), [sum] "r"(sum)
        : CLOBBERED);
}

enum { AT_ONCE = 128 }; // keys whose n fit into L1 along with all scores

void cpu_attention_exp_sum_neon(float *scores, int64_t keys, float scale, const float *most, float *sum,
                                float *room) {
    for (int64_t at = 0; at < keys; at += AT_ONCE)
        exp_sum_some(scores + at * HALF_COLS, MIN_OF(AT_ONCE, keys - at), scale, most, sum, room);
}

// Takes four cycles per vector, which is the time that reading the operands of its three-operand instructions
// takes.
void cpu_attention_power_neon(float *scores, int64_t keys, float top, float *sum) {
    const float numbers[][8] = {EIGHT(0.0013276472f), EIGHT(0.00967554133f), EIGHT(0.0555071327f),
                                EIGHT(0.240221197f),  EIGHT(0.693146967f),   EIGHT(ATTENTION_SHIFT(top))};
    float waiting[4 * HALF_COLS];
    __asm__ volatile(
        "ldr q28, [%[numbers]]\n"
        "ldp q29, q30, [%[sum]]\n"
        "ldr q31, [%[sum], #32]\n" LOOP(
            PAIRS(LOAD, x) "ldr q24, [%[numbers], #160]\n" EACH(WHOLE) UPPER_PAIRS(STORE, n) EACH(UNWHOLE)
                EACH(LEFT) UPPER_OF(32) EACH(FIRST) STEP_1(64) STEP_2(96) STEP_3(128) EACH_AFTER_3(TIMES_R)
                    PAIRS(LOAD, n) EACH(EXPONENT) EACH_AFTER_3(RAISE)
                        TOTALS PAIRS(STORE, x) "add %[x], %[x], #192\n") "stp q29, q30, [%[sum]]\n"
                                                                         "str q31, [%[sum], #32]\n"
        : [x] "+r"(scores), [keys] "+r"(keys)
        : [n] "r"(waiting), [numbers] "r"(numbers), [sum] "r"(sum)
        : CLOBBERED);
}

// Narrows four keys of four queries to bf16 and transposes them into four units of four elements, one per
// query.
#define NARROW(a, b, c, d)                                           \
    "bfcvtn v" #a ".4h, v" #a ".4s\nbfcvtn v" #c ".4h, v" #c ".4s\n" \
    "bfcvtn2 v" #a ".8h, v" #b ".4s\nbfcvtn2 v" #c ".8h, v" #d ".4s\n"
#define ZIP(to, other, a, c) \
    "zip1 v" #to ".8h, v" #a ".8h, v" #c ".8h\nzip2 v" #other ".8h, v" #a ".8h, v" #c ".8h\n"

CPU_WITH("bf16")
void cpu_attention_exp_sum_bf16(float *scores, int64_t keys, const struct gemm_kernel *u, float scale,
                                const float *most, float *sum, float *room, char *to) {
    const float numbers[][8] = {EIGHT(0.0551716691f), EIGHT(0.242611122f), EIGHT(0.693260985f),
                                EIGHT(0.999928074f)}; // the error is at most 2^-13
    (void)u;
    split(scores, keys, scale, most, room);
    __asm__ volatile(
        "ldr q28, [%[numbers]]\n"
        "ldp q29, q30, [%[sum]]\n"
        "ldr q31, [%[sum], #32]\n" LOOP(
            PAIRS(LOAD, x) UPPER_OF(32) EACH(FIRST) STEP_1(64) STEP_2(96) PAIRS(LOAD, n) EACH(EXPONENT)
                EACH_AFTER_2(MULTIPLY) TOTALS NARROW(0, 3, 6, 9) NARROW(1, 4, 7, 10) NARROW(2, 5, 8, 11)
                    ZIP(12, 13, 0, 6) ZIP(14, 15, 1, 7) ZIP(16, 17, 2, 8) ZIP(0, 1, 12, 13) ZIP(2, 3, 14, 15)
                        ZIP(4, 5, 16, 17) STORE(0, 1, to, 0) STORE(2, 3, to, 32) STORE(
                            4, 5, to, 64) "add %[x], %[x], #192\nadd %[n], %[n], #192\nadd %[to], %[to], "
                                          "#96\n") "stp q29, q30, [%[sum]]\n"
                                                   "str q31, [%[sum], #32]\n"
        : [x] "+r"(scores), [n] "+r"(room), [to] "+r"(to), [keys] "+r"(keys)
        : [numbers] "r"(numbers), [sum] "r"(sum)
        : CLOBBERED);
}

#endif
