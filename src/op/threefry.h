// threefry.h - random words from counters: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011), which JAX and MLX use too.
//
// Processes sixteen counters at a time, as many vectors as hide the latency of the additions.

#ifndef THREEFRY_H
#define THREEFRY_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t threefry_words __attribute__((vector_size(16)));
enum { THREEFRY_VECTORS = 4, THREEFRY_LANES = 4 * THREEFRY_VECTORS };

#define THREEFRY_INLINE static inline __attribute__((always_inline))
#define THREEFRY_EACH   _Pragma("GCC unroll 4") for (int v = 0; v < THREEFRY_VECTORS; v++)

THREEFRY_INLINE void threefry_round(threefry_words *x, threefry_words *y, uint32_t rotation) {
    THREEFRY_EACH {
        x[v] += y[v];
        y[v] = ((y[v] << rotation) | (y[v] >> (32 - rotation))) ^ x[v];
    }
}

THREEFRY_INLINE void threefry_add(threefry_words *x, threefry_words *y, uint32_t to_x, uint32_t to_y) {
    THREEFRY_EACH {
        x[v] += to_x;
        y[v] += to_y;
    }
}

// Makes random words of the counters (x, y), lane by lane.
THREEFRY_INLINE void threefry(const uint32_t *key, threefry_words *x, threefry_words *y) {
    const uint32_t k[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda};
    threefry_add(x, y, k[0], k[1]);
    _Pragma("GCC unroll 5") for (uint32_t i = 0; i < 5; i++) {
        bool odd = i % 2;
        threefry_round(x, y, odd ? 17 : 13);
        threefry_round(x, y, odd ? 29 : 15);
        threefry_round(x, y, odd ? 16 : 26);
        threefry_round(x, y, odd ? 24 : 6);
        threefry_add(x, y, k[(i + 1) % 3], k[(i + 2) % 3] + i + 1);
    }
}

#endif
