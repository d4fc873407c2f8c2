// gemm_amx.c - micro-kernels of x86_64 with AMX: products of tiles of 16 rows of 64 bytes.
//
// Two tiles of rows times two of columns make four of sums: all eight that there are. A tile of a has 64 bytes of each
// line, so that is the unit of a; one of b has 16 rows of units of four bytes, so two panels of 16 columns are one of b.

#include "device/cpu/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

enum {
    TILE_ROWS = 16,
    TILE_BYTES = 64, // of a row
    TILE = TILE_ROWS * TILE_BYTES,
    ROWS = 2 * TILE_ROWS,
    COLS = 2 * TILE_ROWS,
};

// What the processor is told about tiles.
struct tiles {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define AMX_TARGET __attribute__((target("amx-tile,amx-int8,amx-bf16")))

AMX_TARGET static void open_tiles(void) {
    struct tiles all = {.palette = 1};
    for (int i = 0; i < 8; i++)
        all.row_bytes[i] = TILE_BYTES, all.rows[i] = TILE_ROWS;
    _tile_loadconfig(&all);
}

AMX_TARGET static void close_tiles(void) {
    _tile_release();
}

// Half a tile of each.
static inline __attribute__((always_inline)) void fetch(const char *a, const char *b) {
#pragma GCC unroll 8
    for (int i = 0; i < TILE / 2; i += TILE_BYTES) {
        __builtin_prefetch(a + i);
        __builtin_prefetch(b + i);
    }
}

// Tiles 0..3 are sums, 4 and 5 are a, 6 and 7 are b. Lines are fetched two steps ahead, some behind each load of a tile: where
// two threads share a core that makes 11100 GFLOP/s of 7000, though all is in L1 (Xeon, 16 threads, 2026-11).
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

// Blocks of k are as long as L2 allows: adding to sums again costs more than reading panels from there.
enum { BLOCK_EIGHTHS = 44 };

const struct gemm_kernel gemm_kernels_amx[] = {
    {"bf16 amx", "amx_bf16", ZL_BFLOAT16, ZL_FLOAT32, ROWS, COLS, 2, 32, amx_bf16, .a_unit = 32,
     .b_cols = TILE_ROWS, .l1_eighths = BLOCK_EIGHTHS, .open = open_tiles, .close = close_tiles,
     .fetches = true},
    {"i8 amx", "amx_int8", ZL_INT8, ZL_INT32, ROWS, COLS, 4, 64, amx_i8, .a_unit = 64, .b_cols = TILE_ROWS,
     .l1_eighths = BLOCK_EIGHTHS, .open = open_tiles, .close = close_tiles, .fetches = true},
    {NULL},
};

#endif
