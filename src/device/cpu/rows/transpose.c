// transpose.c - transposes small matrices in registers.
//
// A square of as many vectors of 16 bytes as a vector has elements is transposed in log2 rounds of
// interleaving. Blocks go along the contiguous axis of the source: every cache line that is fetched is used
// completely, whatever the distance between lines.

#include "device/cpu/rows/operands.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));

// Interleaves the first halves of a and b.
INLINE bytes16 zip_low(size_t item, bytes16 a, bytes16 b) {
    switch (item) {
    case 1: return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    case 2: return (bytes16)__builtin_shufflevector((halves8)a, (halves8)b, 0, 8, 1, 9, 2, 10, 3, 11);
    case 4: return (bytes16)__builtin_shufflevector((words4)a, (words4)b, 0, 4, 1, 5);
    default: return (bytes16)__builtin_shufflevector((longs2)a, (longs2)b, 0, 2);
    }
}

INLINE bytes16 zip_high(size_t item, bytes16 a, bytes16 b) {
    switch (item) {
    case 1:
        return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    case 2: return (bytes16)__builtin_shufflevector((halves8)a, (halves8)b, 4, 12, 5, 13, 6, 14, 7, 15);
    case 4: return (bytes16)__builtin_shufflevector((words4)a, (words4)b, 2, 6, 3, 7);
    default: return (bytes16)__builtin_shufflevector((longs2)a, (longs2)b, 1, 3);
    }
}

// Interleaves rows i and i + lanes / 2, for all i < lanes / 2.
INLINE void interleave(size_t item, int lanes, bytes16 *to, const bytes16 *from) {
#pragma GCC unroll 8
    for (int i = 0; i < lanes / 2; i++) {
        to[2 * i] = zip_low(item, from[i], from[i + lanes / 2]);
        to[2 * i + 1] = zip_high(item, from[i], from[i + lanes / 2]);
    }
}

INLINE void square(size_t item, char *to, int64_t to_row, const char *from, int64_t from_col) {
    enum { MOST = 16 };
    const int lanes = (int)(16 / item);
    bytes16 a[MOST], b[MOST];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i++)
        memcpy(&a[i], from + i * from_col, 16);
    interleave(item, lanes, b, a);
    if (lanes >= 4)
        interleave(item, lanes, a, b);
    if (lanes >= 8)
        interleave(item, lanes, b, a);
    if (lanes >= 16)
        interleave(item, lanes, a, b);
    const bytes16 *done = lanes == 2 || lanes == 8 ? b : a;
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i++)
        memcpy(to + i * to_row, &done[i], 16);
}

INLINE void transpose(size_t item, char *to, int64_t to_row, const char *from, int64_t from_col, int64_t rows,
                      int64_t cols) {
    const int64_t size = (int64_t)item, lanes = 16 / size;
    int64_t whole = rows - rows % lanes, c = 0;
    for (; c + lanes <= cols; c += lanes)
        for (int64_t r = 0; r < whole; r += lanes)
            square(item, to + r * to_row + c * size, to_row, from + c * from_col + r * size, from_col);
    for (; c < cols; c++)
        for (int64_t r = 0; r < whole; r++)
            memcpy(to + r * to_row + c * size, from + c * from_col + r * size, item);
    for (int64_t r = whole; r < rows; r++)
        for (c = 0; c < cols; c++)
            memcpy(to + r * to_row + c * size, from + c * from_col + r * size, item);
}

void cpu_transpose(size_t item, char *to, int64_t to_row, const char *from, int64_t from_col, int64_t rows,
                   int64_t cols) {
    switch (item) {
    case 1: transpose(1, to, to_row, from, from_col, rows, cols); return;
    case 2: transpose(2, to, to_row, from, from_col, rows, cols); return;
    case 4: transpose(4, to, to_row, from, from_col, rows, cols); return;
    default: transpose(8, to, to_row, from, from_col, rows, cols);
    }
}
