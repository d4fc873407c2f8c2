// gemm_dots.c - products of a few vectors and a matrix whose rows are contiguous along k, on x86_64, as dot
// products that read the matrix in place. More than SIDE vectors are multiplied SIDE at a time with a block
// of rows that stays in L2, while the next block is prefetched. The order of summation depends on neither the
// number of vectors nor that of threads.

#include "device/cpu/rows/operands.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/gemm/gemm.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)

#include <immintrin.h>

enum {
    SIDE = 4,            // vectors that are multiplied with a row at once
    K_MOST = 2048,       // elements of them that are multiplied at once, which stay in L1
    PADDED = 16,         // vectors are padded with zeros to multiples of it
    BLOCK = 64 * 1024,   // bytes of rows per block
    STREAM_AHEAD = 1024, // bytes that are prefetched ahead of rows that are read once
    LINES_LEAST = 32,    // rows of the matrix
    K_LEAST = 64,
    VECTORS_MOST = 64,
    VECTORS_MOST_PACKED = 32, // with more vectors of float32 or float16 it pays to pack the rows
};

// A product for a range of k, with all vectors; strides of the matrix and of the results are in bytes.
struct dots {
    int64_t k;
    int64_t x_row;
    int64_t line;
    int64_t y_row, y_col;
};

// What is prefetched while a row is read: the distance from the row in bytes, and the factor by which the
// prefetched address advances more slowly than the row.
struct ahead {
    int64_t from, slower;
};

#define PAIRS_512(a, b, first)                                                                               \
    __builtin_shufflevector(a, b, first, first + 2, first + 4, first + 6, first + 8, first + 10, first + 12, \
                            first + 14, first + 16, first + 18, first + 20, first + 22, first + 24,          \
                            first + 26, first + 28, first + 30)
#define PAIRS_256(a, b, first)                                                                               \
    __builtin_shufflevector(a, b, first, first + 2, first + 4, first + 6, first + 8, first + 10, first + 12, \
                            first + 14)

#define DOTS_BYTES      64
#define DOTS_TARGET     __attribute__((target("avx512f,avx512bw,avx512vl,f16c")))
#define DOTS_FOLD(a, b) (PAIRS_512(a, b, 0) + PAIRS_512(a, b, 1))

#define DOTS(name)   name##_f32_avx512
#define DOTS_FROM    float
#define DOTS_LOAD(p) _mm512_loadu_ps(p)
#include "device/cpu/gemm/gemm_dots.h"

#define DOTS(name)   name##_f16_avx512
#define DOTS_FROM    uint16_t
#define DOTS_LOAD(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#include "device/cpu/gemm/gemm_dots.h"

#define DOTS(name) name##_bf16_avx512
#define DOTS_FROM  uint16_t
#define DOTS_LOAD(p) \
    (__m512) _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16)
#include "device/cpu/gemm/gemm_dots.h"

#undef DOTS_BYTES
#undef DOTS_TARGET
#undef DOTS_FOLD

#define DOTS_BYTES      32
#define DOTS_TARGET     __attribute__((target("avx2,fma,f16c")))
#define DOTS_FOLD(a, b) (PAIRS_256(a, b, 0) + PAIRS_256(a, b, 1))

#define DOTS(name)   name##_f32_avx2
#define DOTS_FROM    float
#define DOTS_LOAD(p) _mm256_loadu_ps(p)
#include "device/cpu/gemm/gemm_dots.h"

#define DOTS(name)   name##_f16_avx2
#define DOTS_FROM    uint16_t
#define DOTS_LOAD(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#include "device/cpu/gemm/gemm_dots.h"

#define DOTS(name)   name##_bf16_avx2
#define DOTS_FROM    uint16_t
#define DOTS_LOAD(p) (__m256) _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16)
#include "device/cpu/gemm/gemm_dots.h"

typedef void dots_fn(const struct dots *d, int64_t rows, const float *x, const char *a, int64_t n, char *y,
                     bool add, const struct ahead *ahead);

// The best functions come first.
static const struct {
    const char *needs; // as in cpu_has
    zl_dtype dtype;
    dots_fn *run;
} ways[] = {
    {"avx512", ZL_FLOAT32, dots_f32_avx512},   {"avx512", ZL_FLOAT16, dots_f16_avx512},
    {"avx512", ZL_BFLOAT16, dots_bf16_avx512}, {"avx2", ZL_FLOAT32, dots_f32_avx2},
    {"avx2", ZL_FLOAT16, dots_f16_avx2},       {"avx2", ZL_BFLOAT16, dots_bf16_avx2},
};

static dots_fn *way[ZL_DTYPE_COUNT]; // the best function that this CPU runs; NULL: none
static bool has_amx;

static void choose_ways(void) {
    for (size_t i = COUNT(ways); i-- > 0;)
        if (cpu_has(ways[i].needs))
            way[ways[i].dtype] = ways[i].run;
    has_amx = cpu_has("amx_bf16");
}

static dots_fn *way_for(zl_dtype dtype) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_ways);
    return way[dtype];
}

static struct gemm_lines lines_of(const struct gemm *g) {
    if (g->m <= g->n)
        return (struct gemm_lines){g->m,     g->k,     g->n, g->a,     g->b,    g->a_row,
                                   g->a_col, g->b_col, g->c, g->c_row, g->c_col};
    return (struct gemm_lines){g->n,     g->k,     g->m, g->b,     g->a,    g->b_col,
                               g->b_row, g->a_row, g->c, g->c_col, g->c_row};
}

static bool is_for_amx(zl_dtype dtype, const struct gemm_lines *l) {
    return dtype == ZL_BFLOAT16 && l->n >= GEMM_AMX_LINES && way_for(dtype) && has_amx;
}

bool cpu_is_dots(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_lines l = lines_of(g);
    const bool along = (g->m <= g->n ? g->b_row : g->a_col) == 1;
    const bool is_vector = l.count == 1 && dtype != ZL_FLOAT16; // gemm_vector.c is as fast
    return along && !is_vector && l.n >= LINES_LEAST && l.k >= K_LEAST && !g->add &&
           l.count <= (dtype == ZL_BFLOAT16 ? VECTORS_MOST : VECTORS_MOST_PACKED) && way_for(dtype);
}

// Returns the vectors as f32, each padded with zeros to `padded` elements. Returns NULL if memory runs out.
static float *read_vectors(zl_dtype dtype, const struct gemm_lines *l, int64_t padded) {
    const int64_t item = (int64_t)zl_dtype_size(dtype);
    row_fn *widen = dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[ZL_FLOAT32][dtype];
    char *wide = cpu_scratch(SCRATCH_PACK, (size_t)(l->count * padded * 4 + l->k * item));
    for (int64_t r = 0; wide && r < l->count; r++) {
        char *narrow = wide + l->count * padded * 4, *to = wide + r * padded * 4;
        cpu_move((size_t)item, widen ? narrow : to, (struct stride2){0, item}, l->x + r * l->x_row * item,
                 (struct stride2){0, l->x_col * item}, 1, l->k);
        if (widen)
            cpu_call_row(widen, to, narrow, NULL, NULL, l->k);
        memset(to + l->k * 4, 0, (size_t)((padded - l->k) * 4));
    }
    return (float *)(void *)wide;
}

bool cpu_dots_gemm(zl_dtype dtype, const struct gemm *g) {
    const struct gemm_lines l = lines_of(g);
    if (is_for_amx(dtype, &l))
        return gemm_amx_lines(dtype, &l);
    const int64_t item = (int64_t)zl_dtype_size(dtype), padded = round_up(l.k, PADDED),
                  passes = (l.count + SIDE - 1) / SIDE, line = l.line * item;
    const int64_t lines = passes == 1 ? l.n : BLOCK / (MIN_OF(K_MOST, l.k) * item);
    const float *x = read_vectors(dtype, &l, padded);
    dots_fn *run = way_for(dtype);
    if (!x)
        return false;
    for (int64_t j = 0; j < l.n; j += lines)
        for (int64_t p = 0; p < l.k; p += K_MOST) {
            const struct dots d = {MIN_OF(K_MOST, l.k - p), padded, line, l.y_row * 4, l.y_col * 4};
            const int64_t next = p + K_MOST < l.k ? K_MOST * item : lines * line - p * item;
            for (int64_t pass = 0; pass < passes; pass++) {
                const int64_t r = pass * SIDE;
                const struct ahead ahead = {passes == 1 ? STREAM_AHEAD : next + pass * d.k * item / passes,
                                            passes};
                run(&d, l.count - r, x + r * padded + p, l.a + j * line + p * item, MIN_OF(lines, l.n - j),
                    l.y + r * d.y_row + j * d.y_col, p > 0, &ahead);
            }
        }
    return true;
}

// The rows of the matrix are divided into groups of GEMM_AMX_LINES; the last part also takes the remaining
// rows.
struct byte_lines {
    struct gemm_lines all;
    atomic_bool failed;
};

static void byte_range(const void *context, int64_t from, int64_t to) {
    struct byte_lines *b = (struct byte_lines *)(uintptr_t)context;
    struct gemm_lines l = b->all;
    const int64_t first = from * GEMM_AMX_LINES, end = to == l.n / GEMM_AMX_LINES ? l.n : to * GEMM_AMX_LINES;
    l.a += first * l.line;
    l.y += first * l.y_col * (int64_t)sizeof(int32_t);
    l.n = end - first;
    if (!gemm_amx_lines(ZL_INT8, &l))
        atomic_store(&b->failed, true);
}

// Gives each thread one part of about equal size, because every part packs the vectors again.
bool gemm_few_bytes(const struct gemm *g, bool *done) {
    struct byte_lines b = {.all = lines_of(g)};
    const struct gemm_lines *l = &b.all;
    *done = (g->m <= g->n ? g->b_row : g->a_col) == 1 && l->count <= VECTORS_MOST && l->n >= GEMM_AMX_LINES &&
            l->k >= K_LEAST && !g->add && cpu_has("amx_int8");
    if (!*done)
        return true;
    const int64_t groups = l->n / GEMM_AMX_LINES, threads = pool_threads();
    atomic_init(&b.failed, false);
    cpu_split(groups, MAX_OF((groups + threads - 1) / threads, CPU_SPLIT / (GEMM_AMX_LINES * l->k) + 1),
              byte_range, &b);
    return !atomic_load(&b.failed);
}

#else

bool gemm_few_bytes(const struct gemm *g, bool *done) {
    (void)g;
    *done = false;
    return true;
}

bool cpu_is_dots(zl_dtype dtype, const struct gemm *g) {
    (void)dtype, (void)g;
    return false;
}

bool cpu_dots_gemm(zl_dtype dtype, const struct gemm *g) {
    return cpu_own_gemm(dtype, g);
}

#endif
