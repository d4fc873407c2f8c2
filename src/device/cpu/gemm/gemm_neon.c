// gemm_neon.c - micro-kernels for aarch64 in assembly: a compiler places all loads of a step together, and
// the multiplications after them wait to be decoded. Here loads and multiplications alternate, because four
// multiplications and eight instructions in all can start per cycle.
//
// All kernels have 24 vectors of sums in v8..v31, of 8 x 12 or 8 x 6 elements. v0..v3 hold a, and v4..v7 hold
// b in turn: three vectors are loaded ahead.

#include "device/cpu/gemm/gemm.h"

#if defined(__aarch64__)

#define CLOBBERED                                                                                         \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
        "v30", "v31", "memory", "cc"

#define LOAD_A(reg, at) "ldr q" #reg ", [%[a], #" #at "]\n"
#define LOAD_B(reg, at) "ldr q" #reg ", [%[b], #" #at "]\n"
#define ZERO(a, b, c)       \
    "movi v" #a ".4s, #0\n" \
    "movi v" #b ".4s, #0\n" \
    "movi v" #c ".4s, #0\n"
#define EACH_ROW(DO) \
    DO(8, 9, 10)     \
    DO(11, 12, 13) DO(14, 15, 16) DO(17, 18, 19) DO(20, 21, 22) DO(23, 24, 25) DO(26, 27, 28) DO(29, 30, 31)
#define STORE_ROW(a, b, c)           \
    "stp q" #a ", q" #b ", [%[c]]\n" \
    "str q" #c ", [%[c], #32]\n"     \
    "add %[c], %[c], %[row]\n"
#define ADD_ROW(ADD, of, a, b, c, x, y, z)                                                              \
    "ldp q" #x ", q" #y ", [%[c]]\n"                                                                    \
    "ldr q" #z ", [%[c], #32]\n" ADD " v" #a of ", v" #a of ", v" #x of "\n" ADD " v" #b of ", v" #b of \
    ", v" #y of "\n" ADD " v" #c of ", v" #c of ", v" #z of "\n" STORE_ROW(a, b, c)
#define FADD_ROW(a, b, c) ADD_ROW("fadd", ".4s", a, b, c, 0, 1, 2)
#define DADD_ROW(a, b, c) ADD_ROW("fadd", ".2d", a, b, c, 0, 1, 2)
#define IADD_ROW(a, b, c) ADD_ROW("add", ".4s", a, b, c, 0, 1, 2)

// Sums by lanes: each of the eight rows of a is one lane, and every vector of b is multiplied with all eight.
#define FIRST_COLUMN(DO, b, lo, hi, x, y)                                                    \
    DO(8, b, lo, 0)                                                                          \
    x DO(11, b, lo, 1) DO(14, b, lo, 2) DO(17, b, lo, 3) y DO(20, b, hi, 4) DO(23, b, hi, 5) \
        DO(26, b, hi, 6) DO(29, b, hi, 7)
#define SECOND_COLUMN(DO, b, lo, hi, x, y)                                                   \
    DO(9, b, lo, 0)                                                                          \
    x DO(12, b, lo, 1) DO(15, b, lo, 2) DO(18, b, lo, 3) y DO(21, b, hi, 4) DO(24, b, hi, 5) \
        DO(27, b, hi, 6) DO(30, b, hi, 7)
#define THIRD_COLUMN(DO, b, lo, hi, x, y)                                                    \
    DO(10, b, lo, 0)                                                                         \
    x DO(13, b, lo, 1) DO(16, b, lo, 2) DO(19, b, lo, 3) y DO(22, b, hi, 4) DO(25, b, hi, 5) \
        DO(28, b, hi, 6) DO(31, b, hi, 7)

// One step of 8 words of a, in lo and hi, and 12 words of b, in b0, b1 and b2. The loads for the next step
// are at the best of some hundreds of positions tried.
#define WORD_STEP(DO, b0, b1, b2, lo, hi, w, x, y, z)                                                   \
    DO(8, b0, lo, 0)                                                                                    \
    DO(11, b0, lo, 1)                                                                                   \
    DO(14, b0, lo, 2)                                                                                   \
    DO(17, b0, lo, 3)                                                                                   \
    DO(20, b0, hi, 4) w DO(23, b0, hi, 5) DO(26, b0, hi, 6) DO(29, b0, hi, 7) DO(9, b1, lo, 0)          \
        DO(12, b1, lo, 1) x DO(15, b1, lo, 2) DO(18, b1, lo, 3) DO(21, b1, hi, 4) DO(24, b1, hi, 5)     \
            DO(27, b1, hi, 6) y DO(30, b1, hi, 7) DO(10, b2, lo, 0) DO(13, b2, lo, 1) DO(16, b2, lo, 2) \
                DO(19, b2, lo, 3) DO(22, b2, hi, 4) DO(25, b2, hi, 5) DO(28, b2, hi, 6) DO(31, b2, hi, 7) z
// Four steps; `on` advances a and b by four steps.
#define FIRST_WORDS(DO) \
    WORD_STEP(DO, 4, 5, 6, 0, 1, LOAD_B(7, 48), LOAD_A(3, 48), LOAD_B(4, 64) LOAD_A(2, 32), LOAD_B(5, 80))
#define MORE_WORDS(DO, on)                                                                                   \
    WORD_STEP(DO, 7, 4, 5, 2, 3, LOAD_B(6, 96), LOAD_A(1, 80), LOAD_B(7, 112) LOAD_A(0, 64), LOAD_B(4, 128)) \
    WORD_STEP(DO, 6, 7, 4, 0, 1, LOAD_B(5, 144), LOAD_A(3, 112), LOAD_B(6, 160) LOAD_A(2, 96),               \
              LOAD_B(7, 176))                                                                                \
    on WORD_STEP(DO, 5, 6, 7, 2, 3, LOAD_B(4, 0), LOAD_A(1, 16), LOAD_B(5, 16) LOAD_A(0, 0), LOAD_B(6, 32))
#define WORDS_ON       "add %[a], %[a], #128\nadd %[b], %[b], #192\n"
#define WORD_STEPS(DO) FIRST_WORDS(DO) MORE_WORDS(DO, WORDS_ON)
#define WORD_START     LOAD_A(0, 0) LOAD_A(1, 16) LOAD_B(4, 0) LOAD_B(5, 16) LOAD_B(6, 32)

#define WORD_0              "0"
#define WORD_1              "1"
#define WORD_2              "2"
#define WORD_3              "3"
#define WORD_4              "0"
#define WORD_5              "1"
#define WORD_6              "2"
#define WORD_7              "3"
#define FMLA(c, b, a, lane) "fmla v" #c ".4s, v" #b ".4s, v" #a ".s[" WORD_##lane "]\n"
#define SDOT(c, b, a, lane) "sdot v" #c ".4s, v" #b ".16b, v" #a ".4b[" WORD_##lane "]\n"

// Four steps of 8 and 6 doubles. A vector of a has two rows; it is loaded anew in the last column.
#define FMLA_DOUBLE(c, b, a, lane) "fmla v" #c ".2d, v" #b ".2d, v" #a ".d[" #lane "]\n"
#define DOUBLE_COLUMN(b, load, c0, c1, c2, c3, c4, c5, c6, c7)                                               \
    FMLA_DOUBLE(c0, b, 0, 0)                                                                                 \
    load FMLA_DOUBLE(c1, b, 0, 1) FMLA_DOUBLE(c2, b, 1, 0) FMLA_DOUBLE(c3, b, 1, 1) FMLA_DOUBLE(c4, b, 2, 0) \
        FMLA_DOUBLE(c5, b, 2, 1) FMLA_DOUBLE(c6, b, 3, 0) FMLA_DOUBLE(c7, b, 3, 1)
#define DOUBLE_STEP(b0, at0, b1, at1, b2, at2, b3, a0, a1, a2, a3)                                  \
    DOUBLE_COLUMN(b0, LOAD_B(b3, at0), 8, 11, 14, 17, 20, 23, 26, 29)                               \
    DOUBLE_COLUMN(b1, LOAD_B(b0, at1), 9, 12, 15, 18, 21, 24, 27, 30)                               \
    FMLA_DOUBLE(10, b2, 0, 0)                                                                       \
    LOAD_B(b1, at2)                                                                                 \
    FMLA_DOUBLE(13, b2, 0, 1) FMLA_DOUBLE(16, b2, 1, 0) LOAD_A(0, a0) FMLA_DOUBLE(19, b2, 1, 1)     \
        FMLA_DOUBLE(22, b2, 2, 0) LOAD_A(1, a1) FMLA_DOUBLE(25, b2, 2, 1) FMLA_DOUBLE(28, b2, 3, 0) \
            LOAD_A(2, a2) FMLA_DOUBLE(31, b2, 3, 1) LOAD_A(3, a3)
#define DOUBLE_STEPS                                           \
    DOUBLE_STEP(4, 48, 5, 64, 6, 80, 7, 64, 80, 96, 112)       \
    DOUBLE_STEP(7, 96, 4, 112, 5, 128, 6, 128, 144, 160, 176)  \
    DOUBLE_STEP(6, 144, 7, 160, 4, 176, 5, 192, 208, 224, 240) \
    DOUBLE_STEP(5, 192, 6, 208, 7, 224, 4, 256, 272, 288, 304) \
    "add %[a], %[a], #256\nadd %[b], %[b], #192\n"

// Four steps of 8 and 12 16-bit floats. A vector of b has two of the three columns of a step, so three
// vectors serve two steps.
#define LOW(c, b, a, lane)  "fmlal v" #c ".4s, v" #b ".4h, v" #a ".h[" #lane "]\n"
#define HIGH(c, b, a, lane) "fmlal2 v" #c ".4s, v" #b ".4h, v" #a ".h[" #lane "]\n"
#define HALF_STEPS                                                      \
    FIRST_COLUMN(LOW, 2, 0, 0, "", "")                                  \
    SECOND_COLUMN(HIGH, 2, 0, 0, "", "")                                \
    THIRD_COLUMN(LOW, 3, 0, 0, LOAD_B(2, 96), "")                       \
    FIRST_COLUMN(HIGH, 3, 1, 1, LOAD_A(0, 32), "")                      \
    SECOND_COLUMN(LOW, 4, 1, 1, LOAD_B(3, 112), "")                     \
    THIRD_COLUMN(HIGH, 4, 1, 1, "", "")                                 \
    FIRST_COLUMN(LOW, 5, 0, 0, LOAD_B(4, 128), LOAD_A(1, 48))           \
    SECOND_COLUMN(HIGH, 5, 0, 0, "", "")                                \
    THIRD_COLUMN(LOW, 6, 0, 0, LOAD_B(5, 144), "add %[a], %[a], #64\n") \
    FIRST_COLUMN(HIGH, 6, 1, 1, LOAD_A(0, 0), "add %[b], %[b], #96\n")  \
    SECOND_COLUMN(LOW, 7, 1, 1, LOAD_B(6, 64), "")                      \
    THIRD_COLUMN(HIGH, 7, 1, 1, "", "")                                 \
    LOAD_B(7, 80) LOAD_A(1, 16)
#define HALF_START \
    LOAD_A(0, 0)   \
    LOAD_A(1, 16) LOAD_B(2, 0) LOAD_B(3, 16) LOAD_B(4, 32) LOAD_B(5, 48) LOAD_B(6, 64) LOAD_B(7, 80)

// Sums by squares: a vector has two lines of a or b, and the product of two vectors is a square of two by two
// sums. Two steps of four and six vectors, in the best order of some hundreds tried.
#define SQUARE_STEPS(DO)                                                                                     \
    DO(8, 0, 4)                                                                                              \
    LOAD_B(7, 48)                                                                                            \
    DO(14, 1, 4)                                                                                             \
    DO(20, 2, 4)                                                                                             \
    DO(26, 3, 4) LOAD_B(4, 64) DO(27, 3, 5) DO(21, 2, 5) DO(15, 1, 5) DO(9, 0, 5) DO(10, 0, 6) DO(16, 1, 6)  \
        DO(22, 2, 6) LOAD_B(5, 80) DO(28, 3, 6) DO(29, 3, 7) DO(23, 2, 7) DO(17, 1, 7) DO(11, 0, 7)          \
            DO(12, 0, 4) LOAD_B(6, 96) DO(18, 1, 4) DO(24, 2, 4) DO(30, 3, 4) DO(31, 3, 5) DO(25, 2, 5)      \
                LOAD_A(2, 96) LOAD_B(7, 112) DO(19, 1, 5) DO(13, 0, 5) LOAD_A(0, 64) LOAD_A(1, 80)           \
                    LOAD_A(3, 112) DO(8, 0, 6) DO(14, 1, 6)                                                  \
                        DO(20, 2, 6) "add %[a], %[a], #128\n" DO(26, 3, 6) LOAD_B(6, 160) DO(27, 3, 7)       \
                            DO(21, 2, 7) LOAD_B(5, 144) DO(15, 1, 7) DO(9, 0, 7) LOAD_B(4, 128) DO(10, 0, 4) \
                                DO(16, 1, 4) DO(22, 2, 4) DO(28, 3, 4) LOAD_B(4, 192) LOAD_B(7, 176)         \
                                    DO(29, 3, 5) DO(23, 2, 5)                                                \
                                        DO(17, 1, 5) "add %[b], %[b], #192\n" DO(11, 0, 5) LOAD_B(5, 16)     \
                                            DO(12, 0, 6) DO(18, 1, 6) DO(24, 2, 6) DO(30, 3, 6) DO(31, 3, 7) \
                                                LOAD_A(3, 48) LOAD_B(6, 32) DO(25, 2, 7) DO(19, 1, 7)        \
                                                    LOAD_A(2, 32) DO(13, 0, 7) LOAD_A(0, 0) LOAD_A(1, 16)
#define SQUARE_START \
    LOAD_A(0, 0) LOAD_A(1, 16) LOAD_A(2, 32) LOAD_A(3, 48) LOAD_B(4, 0) LOAD_B(5, 16) LOAD_B(6, 32)
#define BFMMLA(c, a, b) "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define SMMLA(c, a, b)  "smmla v" #c ".4s, v" #a ".16b, v" #b ".16b\n"

// Converts six squares to two rows, in v0..v5. The registers of the squares are free afterwards.
#define ZIP(which, to, a, b) "zip" #which " v" #to ".2d, v" #a ".2d, v" #b ".2d\n"
#define TURN(c0, c1, c2, c3, c4, c5) \
    ZIP(1, 0, c0, c1)                \
    ZIP(1, 1, c2, c3) ZIP(1, 2, c4, c5) ZIP(2, 3, c0, c1) ZIP(2, 4, c2, c3) ZIP(2, 5, c4, c5)
#define STORE_SQUARES(c0, c1, c2, c3, c4, c5) \
    TURN(c0, c1, c2, c3, c4, c5) STORE_ROW(0, 1, 2) STORE_ROW(3, 4, 5)
#define ADD_SQUARES(ADD, c0, c1, c2, c3, c4, c5) \
    TURN(c0, c1, c2, c3, c4, c5)                 \
    ADD_ROW(ADD, ".4s", 0, 1, 2, c0, c1, c2) ADD_ROW(ADD, ".4s", 3, 4, 5, c3, c4, c5)
#define FADD_SQUARES(c0, c1, c2, c3, c4, c5) ADD_SQUARES("fadd", c0, c1, c2, c3, c4, c5)
#define IADD_SQUARES(c0, c1, c2, c3, c4, c5) ADD_SQUARES("add", c0, c1, c2, c3, c4, c5)
#define EACH_PAIR(DO) \
    DO(8, 9, 10, 11, 12, 13) DO(14, 15, 16, 17, 18, 19) DO(20, 21, 22, 23, 24, 25) DO(26, 27, 28, 29, 30, 31)

// Sums in memory are prefetched a few steps before they are needed; if it were earlier, they would be evicted
// again.
#define FETCH_ROW(a, b, c)          \
    "prfm pstl1keep, [%[c]]\n"      \
    "prfm pstl1keep, [%[c], #40]\n" \
    "add %[c], %[c], %[row]\n"

// STEPS compute `step` elements along k. All but the last few run four times per iteration, because a loop's
// branch costs a cycle. FETCH is run once per iteration; MORE are its parameters, OF declares its variables,
// and the variable arguments are their registers.
#define KERNEL_WITH(name, TARGET, item, step, START, STEPS, STORE, ADD, MORE, OF, FETCH, ...)               \
    TARGET static void name(int64_t k, const void *a, const void *b, void *c, int64_t c_row,                \
                            bool add MORE) {                                                                \
        int64_t row = c_row * (item);                                                                       \
        OF __asm__ volatile(EACH_ROW(ZERO) START FETCH                                                      \
                            "subs %[k], %[k], #4 * " #step "\n"                                             \
                            "b.le 2f\n"                                                                     \
                            ".p2align 6\n"                                                                  \
                            "1:\n"                                                                          \
                            ".rept 4\n" STEPS ".endr\n" FETCH "subs %[k], %[k], #4 * " #step "\n"           \
                            "b.gt 1b\n"                                                                     \
                            "2: add %[k], %[k], #4 * " #step "\n"                                           \
                            "cbz %w[add], 3f\n" EACH_ROW(FETCH_ROW) "sub %[c], %[c], %[row], lsl #3\n"      \
                                                                    "3:\n" STEPS "subs %[k], %[k], #" #step \
                                                                    "\n"                                    \
                                                                    "b.gt 3b\n"                             \
                                                                    "cbz %w[add], 4f\n" ADD "b 5f\n"        \
                                                                    "4:\n" STORE "5:\n"                     \
                            : [k] "+r"(k), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c)__VA_ARGS__                 \
                            : [row] "r"(row), [add] "r"(add)                                                \
                            : CLOBBERED);                                                                   \
    }
#define NOTHING
#define KERNEL(name, TARGET, item, step, START, STEPS, STORE, ADD) \
    KERNEL_WITH(name, TARGET, item, step, START, STEPS, STORE, ADD, NOTHING, NOTHING, "", )

KERNEL(fmla_f32, , 4, 4, WORD_START, WORD_STEPS(FMLA), EACH_ROW(STORE_ROW), EACH_ROW(FADD_ROW))
// The same kernel, which meanwhile prefetches memory from three addresses on.
#define AHEAD   , const char *const *ahead
#define STREAMS const char *x = ahead[0], *y = ahead[1], *z = ahead[2];
#define FETCH_TWO(at)                     \
    "prfm pldl2keep, [%[" #at "]]\n"      \
    "prfm pldl2keep, [%[" #at "], #64]\n" \
    "add %[" #at "], %[" #at "], #128\n"
KERNEL_WITH(fetching_f32, , 4, 4, WORD_START, WORD_STEPS(FMLA), EACH_ROW(STORE_ROW), EACH_ROW(FADD_ROW),
            AHEAD, STREAMS, FETCH_TWO(x) FETCH_TWO(y) FETCH_TWO(z), , [x] "+r"(x), [y] "+r"(y), [z] "+r"(z))

// Multiplies four of eight rows with two panels, each vector of which is loaded right before it is used. The
// sums of a row are in six vectors.
#define FETCH_HALF(at) "prfm pldl2keep, [%[" #at "]]\nadd %[" #at "], %[" #at "], #32\n"
#define COLUMN(b, from, c0, c1, c2, c3)                                                        \
    "ldr q" #b ", [%[" #from "]], #16\n" FMLA(c0, b, 0, 0) FMLA(c1, b, 0, 1) FMLA(c2, b, 0, 2) \
        FMLA(c3, b, 0, 3)
#define FOUR_STEP                                                                                    \
    "ldr q0, [%[a]], #32\n" COLUMN(1, b, 8, 14, 20, 26) COLUMN(2, b, 9, 15, 21, 27)                  \
        COLUMN(3, b, 10, 16, 22, 28) COLUMN(4, next, 11, 17, 23, 29) COLUMN(5, next, 12, 18, 24, 30) \
            COLUMN(6, next, 13, 19, 25, 31)
#define EACH_FOURTH(DO)      \
    DO(8, 9, 10, 11, 12, 13) \
    DO(14, 15, 16, 17, 18, 19) DO(20, 21, 22, 23, 24, 25) DO(26, 27, 28, 29, 30, 31)
#define STORE_SIX(c0, c1, c2, c3, c4, c5)   \
    "stp q" #c0 ", q" #c1 ", [%[c]]\n"      \
    "stp q" #c2 ", q" #c3 ", [%[c], #32]\n" \
    "stp q" #c4 ", q" #c5 ", [%[c], #64]\n" \
    "add %[c], %[c], %[row]\n"
#define ADD_TWO(c0, c1, at)                  \
    "ldp q0, q1, [%[c], #" #at "]\n"         \
    "fadd v" #c0 ".4s, v" #c0 ".4s, v0.4s\n" \
    "fadd v" #c1 ".4s, v" #c1 ".4s, v1.4s\n"
#define ADD_SIX(c0, c1, c2, c3, c4, c5) \
    ADD_TWO(c0, c1, 0) ADD_TWO(c2, c3, 32) ADD_TWO(c4, c5, 64) STORE_SIX(c0, c1, c2, c3, c4, c5)

static void four_f32(int64_t k, const void *a, const void *b, const void *next, void *c, int64_t c_row,
                     bool add, const char *const *ahead) {
    int64_t row = c_row * 4;
    STREAMS
    __asm__ volatile(EACH_ROW(ZERO) ".p2align 6\n"
                                    "1:\n" FETCH_HALF(x) FETCH_HALF(y)
                                        FETCH_HALF(z) ".rept 4\n" FOUR_STEP ".endr\n"
                                                      "subs %[k], %[k], #4\n"
                                                      "b.gt 1b\n"
                                                      "cbz %w[add], 2f\n" EACH_FOURTH(
                                                          ADD_SIX) "b 3f\n"
                                                                   "2:\n" EACH_FOURTH(STORE_SIX) "3:\n"
                     : [k] "+r"(k), [a] "+r"(a), [b] "+r"(b), [next] "+r"(next), [c] "+r"(c), [x] "+r"(x),
                       [y] "+r"(y), [z] "+r"(z)
                     : [row] "r"(row), [add] "r"(add)
                     : CLOBBERED);
}

KERNEL(fmla_f64, , 8, 4, SQUARE_START, DOUBLE_STEPS, EACH_ROW(STORE_ROW), EACH_ROW(DADD_ROW))
KERNEL(fmlal_f16, CPU_WITH("fp16fml"), 4, 4, HALF_START, HALF_STEPS, EACH_ROW(STORE_ROW), EACH_ROW(FADD_ROW))
KERNEL(bfmmla_bf16, CPU_WITH("bf16"), 4, 8, SQUARE_START, SQUARE_STEPS(BFMMLA), EACH_PAIR(STORE_SQUARES),
       EACH_PAIR(FADD_SQUARES))
KERNEL(smmla_i8, CPU_WITH("i8mm"), 4, 16, SQUARE_START, SQUARE_STEPS(SMMLA), EACH_PAIR(STORE_SQUARES),
       EACH_PAIR(IADD_SQUARES))
KERNEL(sdot_i8, CPU_WITH("dotprod"), 4, 16, WORD_START, WORD_STEPS(SDOT), EACH_ROW(STORE_ROW),
       EACH_ROW(IADD_ROW))

// Computes consecutive tiles. The sums of a tile are stored, and those that the next tile adds to are loaded,
// between the first multiplications of the next tile, which do not depend on earlier sums.
#define STORE_SUMS(a, b, c, at, next) \
    "stp q" #a ", q" #b ", [%[c], #" #at "]\nstr q" #c ", [%[c], #" #at " + 32]\n"
#define READ_SUMS(a, b, c, at, next) \
    "ldp q" #a ", q" #b ", [%[c], #" #at "]\nldr q" #c ", [%[c], #" #at " + 32]\n"
#define SWAP_SUMS(a, b, c, at, next) STORE_SUMS(a, b, c, at, ) READ_SUMS(a, b, c, next, )
#define NO_SUMS(a, b, c, at, next)   ""
#define FMUL(c, b, a, lane)          "fmul v" #c ".4s, v" #b ".4s, v" #a ".s[" WORD_##lane "]\n"
#define TILE_ROW(DO, SUMS, c0, c1, c2, a, lane, at, next) \
    SUMS(c0, c1, c2, at, next) DO(c0, 4, a, lane) DO(c1, 5, a, lane) DO(c2, 6, a, lane)
#define FIRST_OF_TILE(DO, SUMS)                    \
    TILE_ROW(DO, SUMS, 8, 9, 10, 0, 0, 0, 384)     \
    TILE_ROW(DO, SUMS, 11, 12, 13, 0, 1, 48, 432)  \
    LOAD_B(7, 48)                                  \
    TILE_ROW(DO, SUMS, 14, 15, 16, 0, 2, 96, 480)  \
    LOAD_A(3, 48)                                  \
    TILE_ROW(DO, SUMS, 17, 18, 19, 0, 3, 144, 528) \
    TILE_ROW(DO, SUMS, 20, 21, 22, 1, 4, 192, 576) \
    LOAD_A(2, 32)                                  \
    TILE_ROW(DO, SUMS, 23, 24, 25, 1, 5, 240, 624) \
    TILE_ROW(DO, SUMS, 26, 27, 28, 1, 6, 288, 672) \
    TILE_ROW(DO, SUMS, 29, 30, 31, 1, 7, 336, 720) LOAD_B(4, 64) LOAD_B(5, 80)
#define FETCH_TILE                                                                               \
    "prfm pstl1keep, [%[c], #384]\nprfm pstl1keep, [%[c], #448]\nprfm pstl1keep, [%[c], #512]\n" \
    "prfm pstl1keep, [%[c], #576]\nprfm pstl1keep, [%[c], #640]\nprfm pstl1keep, [%[c], #704]\n"
#define STORE_TILE                \
    STORE_SUMS(8, 9, 10, 0, )     \
    STORE_SUMS(11, 12, 13, 48, )  \
    STORE_SUMS(14, 15, 16, 96, )  \
    STORE_SUMS(17, 18, 19, 144, ) \
    STORE_SUMS(20, 21, 22, 192, ) \
    STORE_SUMS(23, 24, 25, 240, ) STORE_SUMS(26, 27, 28, 288, ) STORE_SUMS(29, 30, 31, 336, )

// A tile begins with its first four steps, goes on with all but the last four, and ends with the last four,
// which load the first operands of the next tile.
#define TILE_BEGINS ".p2align 6\n1:\n"
#define TILE_GOES_ON \
    MORE_WORDS(FMLA, WORDS_ON) "subs %[left], %[middle], #0\nb.le 4f\n.p2align 6\n3:\n" WORD_STEPS(FMLA)
#define TILE_ENDS                                                            \
    "subs %[left], %[left], #1\nb.gt 3b\n4:\n" FIRST_WORDS(FMLA) MORE_WORDS( \
        FMLA, "add %[a], %[a], %[hop]\nmov %[b], %[start]\n")               \
        "subs %[tiles], %[tiles], #1\nb.gt 1b\n" STORE_TILE
#define TILES(name, DO, BEGIN, GO_ON, FETCH)                                                               \
    static void name(int64_t k, const void *a, int64_t apart, const void *b, void *c, int64_t tiles) {     \
        const int64_t middle = k / 4 - 2, hop = apart - 32 * k + 128;                                      \
        const void *start = b;                                                                             \
        int64_t left;                                                                                      \
        __asm__ volatile(WORD_START FIRST_OF_TILE(DO, BEGIN) "b 2f\n" TILE_BEGINS FIRST_OF_TILE(DO, GO_ON) \
                         "add %[c], %[c], #384\n2:\n" FETCH TILE_GOES_ON TILE_ENDS                        \
                         : [left] "=&r"(left), [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c),                   \
                           [tiles] "+&r"(tiles)                                                            \
                         : [middle] "r"(middle), [hop] "r"(hop), [start] "r"(start)                        \
                         : CLOBBERED);                                                                     \
    }

TILES(multiply_tiles, FMUL, NO_SUMS, STORE_SUMS, "")
TILES(add_tiles, FMLA, READ_SUMS, SWAP_SUMS, FETCH_TILE)

static void fmla_f32_tiles(int64_t k, const void *a, int64_t apart, const void *b, void *c, int64_t tiles,
                           bool add) {
    (add ? add_tiles : multiply_tiles)(k, a, apart, b, c, tiles);
}

// Multiplies six lines, read in place, with a panel of 8, 12 or 16 columns. The sums of a column of vectors
// are in six registers from v0 on; four elements of each line are in v24..v29. Vectors of the panel are in
// v30 and v31 in turn: a register is loaded again after it has been multiplied with all lines.
#define MEET(b, lane, c0, c1, c2, c3, c4, c5)                                                         \
    FMLA(c0, b, 24, lane) FMLA(c1, b, 25, lane) FMLA(c2, b, 26, lane) FMLA(c3, b, 27, lane)           \
        FMLA(c4, b, 28, lane) FMLA(c5, b, 29, lane) "ldr q" #b ", [%[b]], #16\n"
#define MEET_TWO(x, y, lane)   MEET(x, lane, 0, 1, 2, 3, 4, 5) MEET(y, lane, 6, 7, 8, 9, 10, 11)
#define MEET_THREE(x, y, lane) MEET_TWO(x, y, lane) MEET(x, lane, 12, 13, 14, 15, 16, 17)
#define MEET_FOUR(x, y, lane)  MEET_THREE(x, y, lane) MEET(y, lane, 18, 19, 20, 21, 22, 23)
#define EVEN(MEETS)            MEETS(30, 31, 0) MEETS(30, 31, 1) MEETS(30, 31, 2) MEETS(30, 31, 3)
#define ODD(MEETS)             MEETS(30, 31, 0) MEETS(31, 30, 1) MEETS(30, 31, 2) MEETS(31, 30, 3)
// Rows of sums are loaded or stored: `move` is ld or st. Rows that are added to are loaded into the registers
// of the lines.
#define MOVE_TWO(move, a, b, c, d)   move "p q" #a ", q" #b ", [%[c]]\n"
#define MOVE_THREE(move, a, b, c, d) MOVE_TWO(move, a, b, c, d) move "r q" #c ", [%[c], #32]\n"
#define MOVE_FOUR(move, a, b, c, d)  MOVE_TWO(move, a, b, c, d) move "p q" #c ", q" #d ", [%[c], #32]\n"
#define ADD_TO(to, x)                "fadd v" #to ".4s, v" #to ".4s, v" #x ".4s\n"
#define PLUS_TWO(a, b, c, d)         ADD_TO(a, 24) ADD_TO(b, 25)
#define PLUS_THREE(a, b, c, d)       PLUS_TWO(a, b, c, d) ADD_TO(c, 26)
#define PLUS_FOUR(a, b, c, d)        PLUS_THREE(a, b, c, d) ADD_TO(d, 27)
#define NEXT_ROW                     "add %[c], %[c], %[row]\n"
#define READ_SUM(WIDE, a, b, c, d)   MOVE_##WIDE("ld", a, b, c, d) NEXT_ROW
#define WRITE_SUM(WIDE, a, b, c, d)  MOVE_##WIDE("st", a, b, c, d) NEXT_ROW
#define ADD_SUM(WIDE, a, b, c, d) \
    MOVE_##WIDE("ld", 24, 25, 26, 27) PLUS_##WIDE(a, b, c, d) WRITE_SUM(WIDE, a, b, c, d)
#define NO_SUM(WIDE, a, b, c, d) ZERO(a, b, c) "movi v" #d ".4s, #0\n"
#define EACH_LINE(DO, WIDE)                                                  \
    DO(WIDE, 0, 6, 12, 18) DO(WIDE, 1, 7, 13, 19) DO(WIDE, 2, 8, 14, 20)     \
        DO(WIDE, 3, 9, 15, 21) DO(WIDE, 4, 10, 16, 22) DO(WIDE, 5, 11, 17, 23)
// Loads advance the addresses of lines, or use a common index: the index makes the loop of four vectors 2 %
// faster, and that of two vectors 1 % slower.
#define READ_LINES(READ) READ(24, l0) READ(25, l1) READ(26, l2) READ(27, l3) READ(28, l4) READ(29, l5)
#define READ_AND_MOVE(to, line) "ldr q" #to ", [%[" #line "]], #16\n"
#define READ_AT(to, line)       "ldr q" #to ", [%[" #line "], %[at]]\n"
#define BY_MOVING               READ_LINES(READ_AND_MOVE)
#define BY_INDEX                READ_LINES(READ_AT) "add %[at], %[at], #16\n"
#define LINES(name, WIDE, READ, MEETS)                                                                     \
    static void name(int64_t k, const void *const *lines, const void *b, void *c, int64_t c_row,           \
                     enum gemm_sums sums) {                                                                \
        const int64_t row = c_row * 4;                                                                     \
        const bool begun = sums == GEMM_CONTINUE, add = sums == GEMM_ADD;                                  \
        const void *l0 = lines[0], *l1 = lines[1], *l2 = lines[2], *l3 = lines[3], *l4 = lines[4],         \
                   *l5 = lines[5];                                                                         \
        int64_t at = 0;                                                                                    \
        __asm__ volatile("ldr q30, [%[b]], #16\nldr q31, [%[b]], #16\n"                                    \
                         "cbz %w[begun], 0f\n" EACH_LINE(READ_SUM, WIDE)                                   \
                         "sub %[c], %[c], %[row], lsl #2\nsub %[c], %[c], %[row], lsl #1\n"                \
                         "b 1f\n0:\n" EACH_LINE(NO_SUM, WIDE) ".p2align 6\n"                               \
                         "1:\n" READ MEETS "subs %[k], %[k], #4\n"                                         \
                         "b.gt 1b\ncbz %w[add], 2f\n" EACH_LINE(ADD_SUM, WIDE)                             \
                         "b 3f\n2:\n" EACH_LINE(WRITE_SUM, WIDE) "3:\n"                                    \
                         : [k] "+r"(k), [b] "+r"(b), [c] "+r"(c), [at] "+r"(at), [l0] "+r"(l0),            \
                           [l1] "+r"(l1), [l2] "+r"(l2), [l3] "+r"(l3), [l4] "+r"(l4), [l5] "+r"(l5)       \
                         : [row] "r"(row), [begun] "r"(begun), [add] "r"(add)                              \
                         : CLOBBERED);                                                                     \
    }
LINES(lines_by_two, TWO, BY_MOVING, EVEN(MEET_TWO))
LINES(lines_by_three, THREE, BY_MOVING, ODD(MEET_THREE))
LINES(lines_by_four, FOUR, BY_INDEX, EVEN(MEET_FOUR))

// Multiplies four rows with lines read in place: sums are in v0..v15, a part of one line is in v16..v19, and
// one element of each row is in v20.
#define ACROSS_COLUMN(b, c0, c1, c2, c3) \
    FMLA(c0, b, 20, 0) FMLA(c1, b, 20, 1) FMLA(c2, b, 20, 2) FMLA(c3, b, 20, 3)
#define ACROSS_ROW(move, a, b, c, d, at) \
    move "p q" #a ", q" #b ", [%[c], #" #at "]\n" move "p q" #c ", q" #d ", [%[c], #" #at " + 32]\n"
#define ACROSS_ROWS(move)                                                 \
    ACROSS_ROW(move, 0, 1, 2, 3, 0) ACROSS_ROW(move, 4, 5, 6, 7, 64)      \
    ACROSS_ROW(move, 8, 9, 10, 11, 128) ACROSS_ROW(move, 12, 13, 14, 15, 192)

#define ACROSS_LINE                                                               \
    ".p2align 5\n"                                                                \
    "1: ldr q20, [%[a]], #16\n"                                                   \
    "prfm pldl1keep, [%[b], #128]\n"                                              \
    "ldp q16, q17, [%[b]]\n"                                                      \
    "ldp q18, q19, [%[b], #32]\n" ACROSS_COLUMN(16, 0, 4, 8, 12)                  \
    ACROSS_COLUMN(17, 1, 5, 9, 13) ACROSS_COLUMN(18, 2, 6, 10, 14)                \
    ACROSS_COLUMN(19, 3, 7, 11, 15) "add %[b], %[b], %[row]\n"                    \
    "subs %[left], %[left], #1\nb.gt 1b\n"

static void across_f32(int64_t lines, const void *a, const void *b, int64_t b_row, void *c, int64_t apart,
                       int64_t tiles) {
    for (int64_t i = 0; i < tiles; i++) {
        const char *rows = a, *line = (const char *)b + i * GEMM_ACROSS_BYTES;
        char *to = (char *)c + i * apart;
        int64_t left = lines;
        __asm__ volatile(ACROSS_ROWS("ld") ACROSS_LINE ACROSS_ROWS("st")
                         : [left] "+r"(left), [a] "+r"(rows), [b] "+r"(line)
                         : [c] "r"(to), [row] "r"(b_row)
                         : CLOBBERED);
    }
}

const struct gemm_kernel gemm_kernels_neon[] = {
    {"f32 fmla", NULL, ZL_FLOAT32, ZL_FLOAT32, 8, 12, 1, 4, fmla_f32, .run_tiles = fmla_f32_tiles,
     .fetching = fetching_f32, .four = four_f32, .lines = {lines_by_two, lines_by_three, lines_by_four},
     .across = across_f32},
    {"f64 fmla", NULL, ZL_FLOAT64, ZL_FLOAT64, 8, 6, 1, 4, fmla_f64},
    {"f16 fmlal", "fhm", ZL_FLOAT16, ZL_FLOAT32, 8, 12, 1, 4, fmlal_f16},
    {"bf16 bfmmla", "bf16", ZL_BFLOAT16, ZL_FLOAT32, 8, 12, 4, 8, bfmmla_bf16},
    {"i8 smmla", "i8mm", ZL_INT8, ZL_INT32, 8, 12, 8, 16, smmla_i8},
    {"i8 sdot", "dotprod", ZL_INT8, ZL_INT32, 8, 12, 4, 16, sdot_i8},
    {NULL},
};

#endif
