// gemm_amx.c - micro-kernels for x86_64 with AMX: products of tiles of 16 rows of 64 bytes.
//
// Two tiles of rows times two tiles of columns make four tiles of sums; these are all eight tiles of the CPU.
// A tile of a has 64 bytes of each row, so 64 bytes are the unit of a. A tile of b has 16 rows of units of
// four bytes, so two panels of 16 columns form one panel of b.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/rows/operands.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum {
    TILE_ROWS = 16,
    TILE_BYTES = 64, // of a row
    TILE = TILE_ROWS * TILE_BYTES,
    ROWS = 2 * TILE_ROWS,
    COLS = 2 * TILE_ROWS,
};

// The tile configuration of the CPU (TILECFG).
struct tiles {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define AMX_TARGET __attribute__((target("amx-tile,amx-int8,amx-bf16")))

// The configuration is a constant: gcc's intrinsic declares that it reads only 8 bytes, so stores to the
// other bytes of a variable could be removed.
AMX_TARGET static void open_tiles(void) {
#define ALL_TILES(x) {x, x, x, x, x, x, x, x}
    static const struct tiles all = {
        .palette = 1, .row_bytes = ALL_TILES(TILE_BYTES), .rows = ALL_TILES(TILE_ROWS)};
    _tile_loadconfig(&all);
}

AMX_TARGET static void close_tiles(void) {
    _tile_release();
}

// Prefetches half a tile of a, and of b.
static inline __attribute__((always_inline)) void fetch(const char *a, const char *b) {
#pragma GCC unroll 8
    for (int i = 0; i < TILE / 2; i += TILE_BYTES) {
        __builtin_prefetch(a + i);
        __builtin_prefetch(b + i);
    }
}

// Tiles 0..3 are sums, 4 and 5 are a, 6 and 7 are b. Data are prefetched two steps ahead, a part after each
// tile load: with two threads per core this raises 7000 to 11100 GFLOP/s, although all data are in L1 (Xeon,
// 16 threads, 2026-11).
#define AMX_KERNEL(name, item, DOT)                                                                \
    AMX_TARGET static void name(int64_t k, const void *a_panel, const void *b_panel, void *c_tile, \
                                int64_t c_row, bool add) {                                         \
        const char *a = a_panel, *b = b_panel, *right = b + k * TILE_ROWS * (item);                \
        char *c = c_tile, *low = c + TILE_ROWS * c_row * 4;                                        \
        const size_t row = (size_t)c_row * 4;                                                      \
        if (add) {                                                                                 \
            _tile_loadd(0, c, row);                                                                \
            _tile_loadd(1, c + TILE_BYTES, row);                                                   \
            _tile_loadd(2, low, row);                                                              \
            _tile_loadd(3, low + TILE_BYTES, row);                                                 \
        } else {                                                                                   \
            _tile_zero(0);                                                                         \
            _tile_zero(1);                                                                         \
            _tile_zero(2);                                                                         \
            _tile_zero(3);                                                                         \
        }                                                                                          \
        for (; k > 0; k -= TILE_BYTES / (item), a += 2 * TILE, b += TILE, right += TILE) {         \
            _tile_loadd(6, b, TILE_BYTES);                                                         \
            _tile_loadd(4, a, TILE_BYTES);                                                         \
            fetch(a + 4 * TILE, b + 2 * TILE);                                                     \
            DOT(0, 4, 6);                                                                          \
            _tile_loadd(5, a + TILE, TILE_BYTES);                                                  \
            fetch(a + 4 * TILE + TILE / 2, b + 2 * TILE + TILE / 2);                               \
            DOT(2, 5, 6);                                                                          \
            _tile_loadd(7, right, TILE_BYTES);                                                     \
            fetch(a + 5 * TILE, right + 2 * TILE);                                                 \
            DOT(1, 4, 7);                                                                          \
            fetch(a + 5 * TILE + TILE / 2, right + 2 * TILE + TILE / 2);                           \
            DOT(3, 5, 7);                                                                          \
        }                                                                                          \
        _tile_stored(0, c, row);                                                                   \
        _tile_stored(1, c + TILE_BYTES, row);                                                      \
        _tile_stored(2, low, row);                                                                 \
        _tile_stored(3, low + TILE_BYTES, row);                                                    \
    }

AMX_KERNEL(amx_i8, 1, _tile_dpbssd)
AMX_KERNEL(amx_bf16, 2, _tile_dpbf16ps)

// Blocks of k are as long as L2 allows: adding to sums again costs more than reading panels from L2.
enum { BLOCK_EIGHTHS = 44 };

// Few vectors -----------------------------------------------------------------------------------------------
//
// A tile of a is 64 bytes of 16 lines along k, read in place; a tile of b has 16 packed vectors. An element
// is summed in the same order as by the kernels above, so that its bits do not depend on the number of
// vectors.

enum { LINES = 4 * TILE_ROWS, AHEAD = 8 * TILE_BYTES };

// Prefetches AHEAD bytes ahead in 16 lines.
static inline __attribute__((always_inline)) void fetch_lines(const char *a, int64_t line) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; i++)
        gemm_fetch(a, i * line + AHEAD);
}

// Continues the sums of LINES lines with 16 vectors, or of half as many lines with 32, for `steps` steps of
// 64 bytes; lines are `line` bytes apart.
#define AMX_LINES(name, DOT)                                                                      \
    AMX_TARGET static void name##_16(int64_t steps, const char *a, int64_t line, const char *b) { \
        for (; steps > 0; steps--, a += TILE_BYTES, b += TILE) {                                  \
            _tile_loadd(4, b, TILE_BYTES);                                                        \
            _tile_loadd(5, a, (size_t)line);                                                      \
            fetch_lines(a, line);                                                                 \
            DOT(0, 5, 4);                                                                         \
            _tile_loadd(6, a + TILE_ROWS * line, (size_t)line);                                   \
            fetch_lines(a + TILE_ROWS * line, line);                                              \
            DOT(1, 6, 4);                                                                         \
            _tile_loadd(7, a + 2 * TILE_ROWS * line, (size_t)line);                               \
            fetch_lines(a + 2 * TILE_ROWS * line, line);                                          \
            DOT(2, 7, 4);                                                                         \
            _tile_loadd(5, a + 3 * TILE_ROWS * line, (size_t)line);                               \
            fetch_lines(a + 3 * TILE_ROWS * line, line);                                          \
            DOT(3, 5, 4);                                                                         \
        }                                                                                         \
    }                                                                                             \
    AMX_TARGET static void name##_32(int64_t steps, const char *a, int64_t line, const char *b,   \
                                     const char *right) {                                         \
        for (; steps > 0; steps--, a += TILE_BYTES, b += TILE, right += TILE) {                   \
            _tile_loadd(6, b, TILE_BYTES);                                                        \
            _tile_loadd(4, a, (size_t)line);                                                      \
            fetch_lines(a, line);                                                                 \
            DOT(0, 4, 6);                                                                         \
            _tile_loadd(5, a + TILE_ROWS * line, (size_t)line);                                   \
            fetch_lines(a + TILE_ROWS * line, line);                                              \
            DOT(2, 5, 6);                                                                         \
            _tile_loadd(7, right, TILE_BYTES);                                                    \
            DOT(1, 4, 7);                                                                         \
            DOT(3, 5, 7);                                                                         \
        }                                                                                         \
    }

AMX_LINES(lines_bf16, _tile_dpbf16ps)
AMX_LINES(lines_i8, _tile_dpbssd)

struct amx_lines {
    int item;
    void (*meet_16)(int64_t steps, const char *a, int64_t line, const char *b);
    void (*meet_32)(int64_t steps, const char *a, int64_t line, const char *b, const char *right);
};
static const struct amx_lines of_bf16 = {2, lines_bf16_16, lines_bf16_32},
                              of_i8 = {1, lines_i8_16, lines_i8_32};

// Computes the sums of a group of lines with one panel of vectors, or with two; `bytes` is the length of
// lines.
AMX_TARGET static void meet_lines(const struct amx_lines *code, int64_t bytes, const char *a, int64_t line,
                                  int64_t lines, const char *b, const char *right, float *sum) {
    const int64_t whole = bytes / TILE_BYTES;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (right)
        code->meet_32(whole, a, line, b, right);
    else
        code->meet_16(whole, a, line, b);
    if (bytes % TILE_BYTES) {
        _Alignas(64) char rest[LINES][TILE_BYTES] = {{0}};
        for (int64_t i = 0; i < lines; i++)
            memcpy(rest[i], a + i * line + whole * TILE_BYTES, (size_t)(bytes % TILE_BYTES));
        __asm__ volatile("" ::: "memory"); // tile loads do not tell the compiler that they read memory
        if (right)
            code->meet_32(1, rest[0], TILE_BYTES, b + whole * TILE, right + whole * TILE);
        else
            code->meet_16(1, rest[0], TILE_BYTES, b + whole * TILE);
    }
    char *to = (char *)sum;
    const size_t row = right ? 2 * TILE_BYTES : TILE_BYTES;
    _tile_stored(0, to, row);
    _tile_stored(1, right ? to + TILE_BYTES : to + TILE, row);
    _tile_stored(2, to + 2 * TILE, row);
    _tile_stored(3, right ? to + 2 * TILE + TILE_BYTES : to + 3 * TILE, row);
}

bool gemm_amx_lines(zl_dtype dtype, const struct gemm_lines *l) {
    const struct amx_lines *code = dtype == ZL_INT8 ? &of_i8 : &of_bf16;
    const int64_t item = code->item, step = TILE_BYTES / item,
                  panel = round_up(l->k, step) * TILE_ROWS * item;
    const struct gemm_packing packing = {
        .item = item, .from_item = item, .unit = 4 / code->item, .step = (int)step};
    char *b =
        cpu_scratch(SCRATCH_PACK, (size_t)(round_up(l->count, TILE_ROWS) / TILE_ROWS * panel + GEMM_SLACK));
    _Alignas(64) float sum[LINES * TILE_ROWS];
    if (!b)
        return false;
    gemm_pack(&packing, b, TILE_ROWS, l->x, l->x_col * item, l->x_row * item, l->k, l->count, 0);
    open_tiles();
    for (int64_t j = 0; j < l->n; j += LINES)
        for (int64_t v = 0, vectors; v < l->count; v += vectors) {
            const bool two = l->count - v > TILE_ROWS;
            const int64_t lines = two ? LINES / 2 : LINES, width = two ? 2 * TILE_ROWS : TILE_ROWS;
            vectors = MIN_OF(width, l->count - v);
            for (int64_t i = j; i < MIN_OF(j + LINES, l->n); i += lines) {
                const int64_t first = MIN_OF(i, l->n - lines); // the last two groups may share lines
                const char *at = b + v / TILE_ROWS * panel;
                meet_lines(code, l->k * item, l->a + first * l->line * item, l->line * item, lines, at,
                           two ? at + panel : NULL, sum);
                cpu_move(4, l->y + (v * l->y_row + first * l->y_col) * 4,
                         (struct stride2){l->y_col * 4, l->y_row * 4}, (char *)sum,
                         (struct stride2){width * 4, 4}, lines, vectors);
            }
        }
    close_tiles();
    return true;
}

const struct gemm_kernel gemm_kernels_amx[] = {
    {"bf16 amx", "amx_bf16", ZL_BFLOAT16, ZL_FLOAT32, ROWS, COLS, 2, 32, amx_bf16, .a_unit = 32,
     .b_cols = TILE_ROWS, .l1_eighths = BLOCK_EIGHTHS, .open = open_tiles, .close = close_tiles,
     .fetches = true},
    {"i8 amx", "amx_int8", ZL_INT8, ZL_INT32, ROWS, COLS, 4, 64, amx_i8, .a_unit = 64, .b_cols = TILE_ROWS,
     .l1_eighths = BLOCK_EIGHTHS, .open = open_tiles, .close = close_tiles, .fetches = true},
    {NULL},
};

#endif
