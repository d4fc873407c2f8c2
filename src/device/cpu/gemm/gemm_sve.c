// gemm_sve.c - micro-kernels for aarch64 with SVE vectors of 32 and 64 bytes; shorter vectors are left to
// gemm_neon.c.
//
// As there, 24 vectors of sums are in z8..z31, for 8 rows and three vectors of columns, and loads alternate
// with the instructions that use them. A load of a repeats its 16 bytes throughout the vector, so lanes and
// squares are numbered as in a vector of 16 bytes.

#include "device/cpu/gemm/gemm.h"

#if defined(__aarch64__)

#define CLOBBERED                                                                                         \
    "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11", "z12", "z13", "z14", "z15", \
        "z16", "z17", "z18", "z19", "z20", "z21", "z22", "z23", "z24", "z25", "z26", "z27", "z28", "z29", \
        "z30", "z31", "p0", "memory", "cc"

#define LOAD_A(reg, at) "ld1rqb {z" #reg ".b}, p0/z, [%[a], #" #at "]\n"
#define LOAD_B(reg, at) "ldr z" #reg ", [%[b], #" #at ", mul vl]\n"
#define ZERO(a, b, c)   "mov z" #a ".s, #0\nmov z" #b ".s, #0\nmov z" #c ".s, #0\n"
#define EACH_ROW(DO) \
    DO(8, 9, 10)     \
    DO(11, 12, 13) DO(14, 15, 16) DO(17, 18, 19) DO(20, 21, 22) DO(23, 24, 25) DO(26, 27, 28) DO(29, 30, 31)
#define STORE_ROW(a, b, c)                                           \
    "str z" #a ", [%[c]]\nstr z" #b ", [%[c], #1, mul vl]\nstr z" #c \
    ", [%[c], #2, mul vl]\nadd %[c], %[c], "                         \
    "%[row]\n"
#define ADD_ROW(ADD, a, b, c, x, y, z)                                                                  \
    "ldr z" #x ", [%[c]]\nldr z" #y ", [%[c], #1, mul vl]\nldr z" #z ", [%[c], #2, mul vl]\n" ADD(a, x) \
        ADD(b, y) ADD(c, z) STORE_ROW(a, b, c)
#define FADD(to, x)       "fadd z" #to ".s, z" #to ".s, z" #x ".s\n"
#define DADD(to, x)       "fadd z" #to ".d, z" #to ".d, z" #x ".d\n"
#define IADD(to, x)       "add z" #to ".s, z" #to ".s, z" #x ".s\n"
#define FADD_ROW(a, b, c) ADD_ROW(FADD, a, b, c, 0, 1, 2)
#define DADD_ROW(a, b, c) ADD_ROW(DADD, a, b, c, 0, 1, 2)

// Sums by lanes: each vector of b is multiplied with eight lanes of a. One step of 8 words and three vectors,
// during which those of the next step are loaded.
#define FMLA(c, b, a, lane) "fmla z" #c ".s, z" #b ".s, z" #a ".s[" #lane "]\n"
#define WORD_COLUMN(b, c0, c1, c2, c3, c4, c5, c6, c7, x, y)                                    \
    FMLA(c0, b, 0, 0)                                                                           \
    FMLA(c1, b, 0, 1)                                                                           \
    FMLA(c2, b, 0, 2) FMLA(c3, b, 0, 3) x FMLA(c4, b, 1, 0) FMLA(c5, b, 1, 1) FMLA(c6, b, 1, 2) \
        FMLA(c7, b, 1, 3) y
#define WORD_STEP                                                               \
    WORD_COLUMN(2, 8, 11, 14, 17, 20, 23, 26, 29, "", LOAD_B(2, 3))             \
    WORD_COLUMN(3, 9, 12, 15, 18, 21, 24, 27, 30, "", LOAD_B(3, 4))             \
    WORD_COLUMN(4, 10, 13, 16, 19, 22, 25, 28, 31, LOAD_A(0, 32), LOAD_B(4, 5)) \
    LOAD_A(1, 48) "add %[a], %[a], #32\naddvl %[b], %[b], #3\n"
#define WORD_START LOAD_A(0, 0) LOAD_A(1, 16) LOAD_B(2, 0) LOAD_B(3, 1) LOAD_B(4, 2)

// The same for f64: a step has 8 rows of a, in four vectors.
#define FMLA_DOUBLE(c, b, a, lane) "fmla z" #c ".d, z" #b ".d, z" #a ".d[" #lane "]\n"
#define DOUBLE_COLUMN(b, c0, c1, c2, c3, c4, c5, c6, c7, w, x, y)                                           \
    FMLA_DOUBLE(c0, b, 0, 0)                                                                                \
    FMLA_DOUBLE(c1, b, 0, 1)                                                                                \
    w FMLA_DOUBLE(c2, b, 1, 0) FMLA_DOUBLE(c3, b, 1, 1) x FMLA_DOUBLE(c4, b, 2, 0) FMLA_DOUBLE(c5, b, 2, 1) \
        y                                                                                                   \
        FMLA_DOUBLE(c6, b, 3, 0) FMLA_DOUBLE(c7, b, 3, 1)
#define DOUBLE_STEP                                                                               \
    DOUBLE_COLUMN(4, 8, 11, 14, 17, 20, 23, 26, 29, "", "", "")                                   \
    LOAD_B(4, 3)                                                                                  \
    DOUBLE_COLUMN(5, 9, 12, 15, 18, 21, 24, 27, 30, "", "", "")                                   \
    LOAD_B(5, 4)                                                                                  \
    DOUBLE_COLUMN(6, 10, 13, 16, 19, 22, 25, 28, 31, LOAD_A(0, 64), LOAD_A(1, 80), LOAD_A(2, 96)) \
    LOAD_A(3, 112) LOAD_B(6, 5) "add %[a], %[a], #64\naddvl %[b], %[b], #3\n"
#define DOUBLE_START \
    LOAD_A(0, 0) LOAD_A(1, 16) LOAD_A(2, 32) LOAD_A(3, 48) LOAD_B(4, 0) LOAD_B(5, 1) LOAD_B(6, 2)

// Sums by squares: 16 bytes of a vector are two lines of a or b. One step of four pairs of lines and six
// vectors.
#define SQUARE_COLUMN(DO, b, c0, c1, c2, c3, w, x, y) \
    DO(c0, 0, b) w DO(c1, 1, b)                       \
    x DO(c2, 2, b)                                    \
    y DO(c3, 3, b)
#define SQUARE_STEP(DO)                                                               \
    SQUARE_COLUMN(DO, 4, 8, 14, 20, 26, LOAD_B(7, 3), "", "")                         \
    SQUARE_COLUMN(DO, 5, 9, 15, 21, 27, LOAD_B(4, 4), "", "")                         \
    SQUARE_COLUMN(DO, 6, 10, 16, 22, 28, LOAD_B(5, 5), "", "")                        \
    SQUARE_COLUMN(DO, 7, 11, 17, 23, 29, LOAD_B(6, 8), "", "")                        \
    SQUARE_COLUMN(DO, 4, 12, 18, 24, 30, "", "", "")                                  \
    LOAD_B(4, 6)                                                                      \
    SQUARE_COLUMN(DO, 5, 13, 19, 25, 31, LOAD_A(0, 64), LOAD_A(1, 80), LOAD_A(2, 96)) \
    LOAD_B(5, 7) LOAD_A(3, 112) "add %[a], %[a], #64\naddvl %[b], %[b], #6\n"
#define SQUARE_START \
    LOAD_A(0, 0) LOAD_A(1, 16) LOAD_A(2, 32) LOAD_A(3, 48) LOAD_B(4, 0) LOAD_B(5, 1) LOAD_B(6, 2)
#define BFMMLA(c, a, b) "bfmmla z" #c ".s, z" #a ".h, z" #b ".h\n"
#define SMMLA(c, a, b)  "smmla z" #c ".s, z" #a ".b, z" #b ".b\n"

// Converts six vectors of squares to two rows, in z0..z5. The registers of the squares are free afterwards.
#define UNZIP(which, to, a, b) "uzp" #which " z" #to ".d, z" #a ".d, z" #b ".d\n"
#define TURN(c0, c1, c2, c3, c4, c5) \
    UNZIP(1, 0, c0, c1)              \
    UNZIP(1, 1, c2, c3) UNZIP(1, 2, c4, c5) UNZIP(2, 3, c0, c1) UNZIP(2, 4, c2, c3) UNZIP(2, 5, c4, c5)
#define STORE_SQUARES(c0, c1, c2, c3, c4, c5) \
    TURN(c0, c1, c2, c3, c4, c5) STORE_ROW(0, 1, 2) STORE_ROW(3, 4, 5)
#define ADD_SQUARES(ADD, c0, c1, c2, c3, c4, c5) \
    TURN(c0, c1, c2, c3, c4, c5) ADD_ROW(ADD, 0, 1, 2, c0, c1, c2) ADD_ROW(ADD, 3, 4, 5, c3, c4, c5)
#define FADD_SQUARES(c0, c1, c2, c3, c4, c5) ADD_SQUARES(FADD, c0, c1, c2, c3, c4, c5)
#define IADD_SQUARES(c0, c1, c2, c3, c4, c5) ADD_SQUARES(IADD, c0, c1, c2, c3, c4, c5)
#define EACH_PAIR(DO) \
    DO(8, 9, 10, 11, 12, 13) DO(14, 15, 16, 17, 18, 19) DO(20, 21, 22, 23, 24, 25) DO(26, 27, 28, 29, 30, 31)

// STEP computes `step` elements along k.
#define KERNEL(name, TARGET, item, step, START, STEP, STORE, ADD)                                        \
    TARGET static void name(int64_t k, const void *a, const void *b, void *c, int64_t c_row, bool add) { \
        int64_t row = c_row * (item);                                                                    \
        __asm__ volatile("ptrue p0.b\n" EACH_ROW(ZERO) START                                             \
                         ".p2align 5\n1:\n" STEP "subs %[k], %[k], #" #step                              \
                         "\nb.gt 1b\ncbz %w[add], 2f\n" ADD "b 3f\n2:\n" STORE "3:\n"                    \
                         : [k] "+r"(k), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c)                            \
                         : [row] "r"(row), [add] "r"(add)                                                \
                         : CLOBBERED);                                                                   \
    }

#if defined(__clang__)
#define WITH_SVE_AND(feature) __attribute__((target("sve," feature)))
#else
#define WITH_SVE_AND(feature) CPU_WITH("sve+" feature)
#endif

KERNEL(sve_f32, CPU_WITH("sve"), 4, 1, WORD_START, WORD_STEP, EACH_ROW(STORE_ROW), EACH_ROW(FADD_ROW))
KERNEL(sve_f64, CPU_WITH("sve"), 8, 1, DOUBLE_START, DOUBLE_STEP, EACH_ROW(STORE_ROW), EACH_ROW(DADD_ROW))
KERNEL(sve_bf16, WITH_SVE_AND("bf16"), 4, 4, SQUARE_START, SQUARE_STEP(BFMMLA), EACH_PAIR(STORE_SQUARES),
       EACH_PAIR(FADD_SQUARES))
KERNEL(sve_i8, WITH_SVE_AND("i8mm"), 4, 8, SQUARE_START, SQUARE_STEP(SMMLA), EACH_PAIR(STORE_SQUARES),
       EACH_PAIR(IADD_SQUARES))

const struct gemm_kernel gemm_kernels_sve[] = {
    {"f32 sve 512", "sve_512", ZL_FLOAT32, ZL_FLOAT32, 8, 48, 1, 1, sve_f32},
    {"f32 sve 256", "sve_256", ZL_FLOAT32, ZL_FLOAT32, 8, 24, 1, 1, sve_f32},
    {"f64 sve 512", "sve_512", ZL_FLOAT64, ZL_FLOAT64, 8, 24, 1, 1, sve_f64},
    {"f64 sve 256", "sve_256", ZL_FLOAT64, ZL_FLOAT64, 8, 12, 1, 1, sve_f64},
    {"bf16 sve 512", "sve_512_bf16", ZL_BFLOAT16, ZL_FLOAT32, 8, 48, 4, 4, sve_bf16},
    {"bf16 sve 256", "sve_256_bf16", ZL_BFLOAT16, ZL_FLOAT32, 8, 24, 4, 4, sve_bf16},
    {"i8 sve 512", "sve_512_i8mm", ZL_INT8, ZL_INT32, 8, 48, 8, 8, sve_i8},
    {"i8 sve 256", "sve_256_i8mm", ZL_INT8, ZL_INT32, 8, 24, 8, 8, sve_i8},
    {NULL},
};

#endif
