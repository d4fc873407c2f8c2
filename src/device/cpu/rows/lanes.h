// lanes.h - vectors of 16 bytes by element type, and their types for unaligned loads and stores.

#ifndef CPU_LANES_H
#define CPU_LANES_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef int8_t chars16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));
typedef double doubles2 __attribute__((vector_size(16)));

typedef bytes16 bytes_memory __attribute__((aligned(1), may_alias));
typedef halves8 halves_memory __attribute__((aligned(1), may_alias));
typedef floats4 floats_memory __attribute__((aligned(1), may_alias));

// Transposes a square of vectors: as many as a vector has lanes.
static inline __attribute__((always_inline)) void lanes_transpose_f32(floats4 *v) {
    const floats4 even_low = __builtin_shufflevector(v[0], v[2], 0, 4, 1, 5),
                  even_high = __builtin_shufflevector(v[0], v[2], 2, 6, 3, 7),
                  odd_low = __builtin_shufflevector(v[1], v[3], 0, 4, 1, 5),
                  odd_high = __builtin_shufflevector(v[1], v[3], 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(even_low, odd_low, 0, 4, 1, 5);
    v[1] = __builtin_shufflevector(even_low, odd_low, 2, 6, 3, 7);
    v[2] = __builtin_shufflevector(even_high, odd_high, 0, 4, 1, 5);
    v[3] = __builtin_shufflevector(even_high, odd_high, 2, 6, 3, 7);
}

static inline __attribute__((always_inline)) void lanes_transpose_f64(doubles2 *v) {
    const doubles2 first = __builtin_shufflevector(v[0], v[1], 0, 2);
    v[1] = __builtin_shufflevector(v[0], v[1], 1, 3);
    v[0] = first;
}

// Returns the lane sums of four vectors.
static inline __attribute__((always_inline)) floats4 lanes_sums_f32(const floats4 *v) {
    floats4 a =
        __builtin_shufflevector(v[0], v[1], 0, 2, 4, 6) + __builtin_shufflevector(v[0], v[1], 1, 3, 5, 7);
    floats4 b =
        __builtin_shufflevector(v[2], v[3], 0, 2, 4, 6) + __builtin_shufflevector(v[2], v[3], 1, 3, 5, 7);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

// Adds up sums of four chains each. Lane c of sum[i] is the sum of chain c for result i; the chains are added
// to the total in order. Lane i of the result belongs to sum[i]. first: there is no total yet.
static inline __attribute__((always_inline)) floats4 lanes_add_chains(bool first, floats4 *sum,
                                                                      floats4 total) {
    lanes_transpose_f32(sum);
    total = first ? sum[0] : sum[0] + total;
    return sum[3] + (sum[2] + (sum[1] + total));
}

#endif
