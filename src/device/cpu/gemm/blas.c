// blas.c - the BLAS libraries of the system, which are opened at run time if they may be faster than our own
// kernels.
//
// All have Fortran's names and column-major matrices; a row-major product is the product of the transposes in
// reverse order. Each product runs on one thread; cpu_matmul.c decides which parts of a product run at the
// same time.

#include "device/cpu/gemm/product.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void fortran_gemm(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                          const void *alpha, const void *a, const int *lda, const void *b, const int *ldb,
                          const void *beta, void *c, const int *ldc, size_t, size_t);

// The functions of a library that are used.
static struct functions { fortran_gemm *single, *twice, *complex_single; } bound;

static const char *const candidates[] = {
    "libblis.so.4",   "libopenblas.so.0", "libflexiblas.so.3", "libnvpl_blas_lp64_gomp.so.0",
    "libmkl_rt.so.2", "libmkl_rt.so",     "libblas.so.3",
};

// Functions that set how many threads a library may use.
static const char *const set_threads[] = {
    "openblas_set_num_threads", "bli_thread_set_num_threads", "flexiblas_set_num_threads",
    "MKL_Set_Num_Threads",      "nvpl_blas_set_num_threads",
};

static char name[256] = "own kernels";

// Threads ---------------------------------------------------------------------------------------------------

blas_threads *cpu_blas_threads(void *library) {
    blas_threads *set = NULL;
    for (size_t i = 0; !set && i < COUNT(set_threads); i++)
        *(void **)&set = dlsym(library, set_threads[i]);
    return set;
}

// The number of threads is global to a library, so either several callers use it with one thread each (read
// lock), or one caller with all threads (write lock).
static pthread_rwlock_t use = PTHREAD_RWLOCK_INITIALIZER;

// Resets the lock in the child of a fork, where the threads that held it do not exist.
static void forget_users(void) {
    pthread_rwlock_init(&use, NULL);
}

ZL_AT_LOAD {
    fork_call(forget_users);
}

void cpu_blas_begin(blas_threads *alone) {
    if (!alone) {
        pthread_rwlock_rdlock(&use);
        return;
    }
    pthread_rwlock_wrlock(&use);
    alone(pool_threads());
}

void cpu_blas_end(blas_threads *alone) {
    if (alone)
        alone(1);
    pthread_rwlock_unlock(&use);
}

// Multiplying -----------------------------------------------------------------------------------------------

// Describes a row-major matrix to Fortran: as it is ('N') or transposed ('T'), and the distance of its rows.
// Returns false if neither stride is 1, or if the distance does not fit an int.
static bool describe(int64_t rows, int64_t cols, int64_t row, int64_t col, const char **trans, int *lead) {
    int64_t distance;
    if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
        *trans = "N";
        distance = rows == 1 ? cols : row;
    } else if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
        *trans = "T";
        distance = cols == 1 ? rows : col;
    } else {
        return false;
    }
    *lead = (int)distance;
    return distance <= INT_MAX;
}

static bool multiply(zl_dtype dtype, const struct gemm *g) {
    static const float one[2] = {1, 0}, zero[2] = {0, 0};
    static const double one_twice = 1, zero_twice = 0;
    const char *trans_a, *trans_b;
    int lda, ldb, ldc = (int)MAX_OF(g->c_row, g->n), m = (int)g->m, n = (int)g->n, k = (int)g->k;
    bool fits = g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && MAX_OF(g->c_row, g->n) <= INT_MAX;
    if (!fits || g->c_col != 1 || !describe(g->m, g->k, g->a_row, g->a_col, &trans_a, &lda) ||
        !describe(g->k, g->n, g->b_row, g->b_col, &trans_b, &ldb))
        return cpu_own_gemm(dtype, g);
    bool wide = dtype == ZL_FLOAT64;
    fortran_gemm *gemm = wide ? bound.twice : dtype == ZL_FLOAT32 ? bound.single : bound.complex_single;
    const void *alpha = wide ? (const void *)&one_twice : one;
    const void *beta = g->add ? alpha : wide ? (const void *)&zero_twice : zero;
    cpu_blas_begin(NULL);
    gemm(trans_b, trans_a, &n, &m, &k, alpha, g->b, &ldb, g->a, &lda, beta, g->c, &ldc, 1, 1);
    cpu_blas_end(NULL);
    return true;
}

// Choosing --------------------------------------------------------------------------------------------------

static bool bind(const char *path, struct functions *f) {
    void *library = library_open((const char *const[]){path, NULL});
    const char *missing;
    const struct library_symbol symbols[] = {
        {"sgemm_", (void **)&f->single},
        {"dgemm_", (void **)&f->twice},
        {"cgemm_", (void **)&f->complex_single},
    };
    if (!library)
        return false;
    if (!library_bind(library, symbols, COUNT(symbols), &missing)) {
        log_line(ZL_LOG_WARN, "%s is no BLAS: it has no %s", path, missing);
        return false;
    }
    blas_threads *set = cpu_blas_threads(library);
    if (set)
        set(1);
    return true;
}

enum { SIDE = 192, ROUNDS = 3 };

// Returns the nanoseconds of one product of SIDE x SIDE floats: the best of a few after one that warms up.
// Stops early if the product takes more than three times to_beat.
static int64_t time_gemm(gemm_fn *gemm, char *room, int64_t to_beat) {
    const int64_t bytes = SIDE * SIDE * 4;
    struct gemm g = {.m = SIDE,
                     .n = SIDE,
                     .k = SIDE,
                     .a = room,
                     .b = room + bytes,
                     .c = room + 2 * bytes,
                     .a_row = SIDE,
                     .a_col = 1,
                     .b_row = SIDE,
                     .b_col = 1,
                     .c_row = SIDE,
                     .c_col = 1};
    int64_t best = INT64_MAX;
    for (int i = 0; i <= ROUNDS; i++) {
        int64_t start = clock_ns();
        if (!gemm(ZL_FLOAT32, &g))
            return INT64_MAX;
        int64_t took = clock_ns() - start;
        best = i ? MIN_OF(best, took) : best;
        if (i && took / 3 > to_beat)
            break;
    }
    return best;
}

// Records the path of the library that was opened: "libblis.so.4" may be a link to one of several.
static void note_name(const char *path, const struct functions *f) {
    Dl_info info;
    bool known = dladdr((void *)(uintptr_t)f->single, &info) && info.dli_fname;
    snprintf(name, sizeof name, "%s", known ? info.dli_fname : path);
}

// Chooses the fastest of the available libraries, if it is faster than our own kernels.
static gemm_fn *choose_fastest(char *room) {
    gemm_fn *chosen = cpu_own_gemm;
    int64_t best = time_gemm(cpu_own_gemm, room, INT64_MAX);
    struct functions kept = bound;
    log_line(ZL_LOG_INFO, "own matrix product: %lld ns for %d x %d", (long long)best, SIDE, SIDE);
    for (size_t i = 0; i < COUNT(candidates); i++) {
        if (!bind(candidates[i], &bound))
            continue;
        int64_t took = time_gemm(multiply, room, best);
        log_line(ZL_LOG_INFO, "%s: %lld ns", candidates[i], (long long)took);
        if (took >= best)
            continue;
        best = took;
        kept = bound;
        chosen = multiply;
        note_name(candidates[i], &kept);
    }
    bound = kept;
    return chosen;
}

static gemm_fn *choose_by_time(void) {
    char *room = memory_zero(3 * SIDE * SIDE * 4);
    gemm_fn *chosen = room ? choose_fastest(room) : cpu_own_gemm;
    memory_free(room);
    return chosen;
}

static struct blas blas = {name, cpu_own_gemm};

// Libraries are opened only on request: they are slower if both sides of the result are long, and opening one
// takes longer than a small program. GFLOP/s of one thread of a Neoverse-V1, 2026-11 (complex64: 2 m n k per
// second), of our kernels, BLIS 0.9 and OpenBLAS 0.3.21:
//
//                64          256         512         16 x 2048 x 2048   4 x 4096 x 512   2048 x 16 x 2048
//  float32       53 34 55    72 60 59    75 68 60    38 27 51           18 13 43         36 30 37
//  float32, b^T  54 35 51    72 61 56    75 68 58    35 26 28           12  7  9         36 31 37
//  float64       28 20 17    37 31 31    36 33 31    21 25 29            8  9 23         23 24 28
//  complex64     14 11  9    18 17 12    18 17 12     8 10 11            2  3 10         15 13 12
//
// These were measured before gemm_thin.c, which packs neither factor: with it, the last three columns of
// float32 are 38, 26 and 46 (OpenBLAS: 39, 21 and 32), and the first two of them with b^T are 50 and 37
// (OpenBLAS: 29 and 14), in processor time on a busy machine.
//
// One thread of a Xeon with AVX-512 and AMX (2026-11), and all 16 threads of it: our kernels, BLIS 0.9,
// OpenBLAS 0.3.21 (which does not know this CPU):
//
//                64         512           2048           16 x 2048 x 2048  4 x 4096 x 512  2048 x 16 x 2048
//  float32       66 68 18   114 80 30     113 79 32       40 71 27          12 42 17        27 75 23
//  float32, b^T  64 49 27   108 82 33     110 76 33       32 45 25           9 32 15        26 48 23
//  float64       42 39 14    48 40 16      45 39 13       13 34 10           5 15  7        22 39 10
//  complex64     23 15  6    27 20  8      26 20  8        5 10  8           2  5  6        12 14  7
//  float32, 16   80 53 25   841 619 172  1241 640 218    368 402 167       108 235 99      310 547 157
//  float64, 16   40 39 12   482 288  92   587 303 116    202 238  84        50 117 53      208 250  89
//
// Libraries won for thin results, because they do not pack b; gemm_thin.c does not pack it either. CPUs
// without AVX2 were not measured: on these, the fastest is found by timing.
static bool libraries_may_win(void) {
#if defined(__x86_64__)
    return !cpu_has("avx2");
#else
    return false;
#endif
}

static void choose(void) {
    const char *asked = setting_text(SETTING_BLAS);
    if (!strcmp(asked, "none") || (!*asked && !libraries_may_win()))
        return;
    if (!*asked)
        blas.multiply = choose_by_time();
    else if (bind(asked, &bound))
        blas.multiply = multiply, note_name(asked, &bound);
    else
        log_line(ZL_LOG_WARN, "ZL_BLAS=%s could not be opened; own kernels are used", asked);
}

const struct blas *cpu_blas(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &blas;
}
