// gather.c - copies between strided memory and tiles, for operands and results.
//
// Only the size of an element matters here, not its dtype. A memcpy of a size known to the compiler is one
// load and one store, even if the address is unaligned.

#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

// Copies 1 to 16 bytes as two copies that may overlap.
INLINE void copy_tiny(char *to, const char *from, size_t bytes) {
    char head[8], tail[8];
    size_t half = bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1;
    switch (half) {
    case 8:
        memcpy(head, from, 8), memcpy(tail, from + bytes - 8, 8);
        memcpy(to, head, 8), memcpy(to + bytes - 8, tail, 8);
        return;
    case 4:
        memcpy(head, from, 4), memcpy(tail, from + bytes - 4, 4);
        memcpy(to, head, 4), memcpy(to + bytes - 4, tail, 4);
        return;
    case 2:
        memcpy(head, from, 2), memcpy(tail, from + bytes - 2, 2);
        memcpy(to, head, 2), memcpy(to + bytes - 2, tail, 2);
        return;
    default: *to = *from;
    }
}

// Copies 16 to 128 bytes, for which a call of memcpy would take longer.
INLINE void copy_short(char *to, const char *from, size_t bytes) {
    bytes16 tail;
    memcpy(&tail, from + bytes - 16, 16);
    for (size_t i = 0; i + 16 < bytes; i += 16)
        memcpy(to + i, from + i, 16);
    memcpy(to + bytes - 16, &tail, 16);
}

static void move_runs(char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows,
                      size_t bytes) {
    if (bytes <= 16)
        for (int64_t r = 0; r < rows; r++)
            copy_tiny(to + r * to_row, from + r * from_row, bytes);
    else if (bytes <= 128)
        for (int64_t r = 0; r < rows; r++)
            copy_short(to + r * to_row, from + r * from_row, bytes);
    else
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * to_row, from + r * from_row, bytes);
}

INLINE void move_any(size_t item, char *to, struct stride2 ts, const char *from, struct stride2 fs,
                     int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, to += ts.row, from += fs.row)
        for (int64_t c = 0; c < cols; c++)
            memcpy(to + c * ts.col, from + c * fs.col, item);
}

INLINE bytes16 repeat(size_t item, const char *value) {
    uint8_t byte = (uint8_t)*value;
    uint16_t half;
    uint32_t word;
    uint64_t twice;
    switch (item) {
    case 1: return (bytes16){0} + byte;
    case 2: memcpy(&half, value, 2); return (bytes16)((halves8){0} + half);
    case 4: memcpy(&word, value, 4); return (bytes16)((words4){0} + word);
    default: memcpy(&twice, value, 8); return (bytes16)((longs2){0} + twice);
    }
}

// Fills a run with one value. The last vector may overlap the one before it.
INLINE void fill_run(size_t item, char *to, const char *value, int64_t count) {
    const int64_t size = (int64_t)item, lanes = 16 / size;
    int64_t i = 0;
    if (count >= lanes) {
        bytes16 v = repeat(item, value);
        for (; i + lanes <= count; i += lanes)
            memcpy(to + i * size, &v, 16);
        memcpy(to + (count - lanes) * size, &v, 16);
        return;
    }
    for (; i < count; i++)
        memcpy(to + i * size, value, item);
}

// Fills rows of a few whole vectors, whose number is a constant for the compiler.
INLINE void fill_vectors(size_t item, int vectors, char *to, int64_t to_row, const char *from,
                         int64_t from_row, int64_t rows) {
    for (int64_t r = 0; r < rows; r++, to += to_row, from += from_row) {
        bytes16 v = repeat(item, from);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++)
            memcpy(to + 16 * i, &v, 16);
    }
}

INLINE void fill_rows(size_t item, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows,
                      int64_t cols) {
    switch (cols * (int64_t)item) {
    case 16: fill_vectors(item, 1, to, to_row, from, from_row, rows); return;
    case 32: fill_vectors(item, 2, to, to_row, from, from_row, rows); return;
    case 64: fill_vectors(item, 4, to, to_row, from, from_row, rows); return;
    case 128: fill_vectors(item, 8, to, to_row, from, from_row, rows); return;
    default:
        for (int64_t r = 0; r < rows; r++)
            fill_run(item, to + r * to_row, from + r * from_row, cols);
    }
}

// Returns every other element of two vectors.
INLINE bytes16 even(size_t item, bytes16 a, bytes16 b) {
    switch (item) {
    case 1: return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    case 2: return (bytes16)__builtin_shufflevector((halves8)a, (halves8)b, 0, 2, 4, 6, 8, 10, 12, 14);
    case 4: return (bytes16)__builtin_shufflevector((words4)a, (words4)b, 0, 2, 4, 6);
    default: return (bytes16)__builtin_shufflevector((longs2)a, (longs2)b, 0, 2);
    }
}

// Copies every other element. The last ones are copied one by one, because a vector would read one element
// past the row.
INLINE void pick_even(size_t item, char *to, const char *from, int64_t cols) {
    int64_t lanes = 16 / (int64_t)item, c = 0;
    for (; c + lanes < cols; c += lanes) {
        bytes16 a, b;
        memcpy(&a, from + 2 * c * (int64_t)item, 16);
        memcpy(&b, from + 2 * c * (int64_t)item + 16, 16);
        a = even(item, a, b);
        memcpy(to + c * (int64_t)item, &a, 16);
    }
    for (; c < cols; c++)
        memcpy(to + c * (int64_t)item, from + 2 * c * (int64_t)item, item);
}

INLINE void move_rows(size_t item, char *to, struct stride2 ts, const char *from, struct stride2 fs,
                      int64_t rows, int64_t cols) {
    if (ts.col != (int64_t)item)
        move_any(item, to, ts, from, fs, rows, cols);
    else if (fs.col == 0)
        fill_rows(item, to, ts.row, from, fs.row, rows, cols);
    else if (fs.col == 2 * (int64_t)item)
        for (int64_t r = 0; r < rows; r++)
            pick_even(item, to + r * ts.row, from + r * fs.row, cols);
    else
        move_any(item, to, (struct stride2){ts.row, (int64_t)item}, from, fs, rows, cols);
}

void cpu_move(size_t item, char *to, struct stride2 ts, const char *from, struct stride2 fs, int64_t rows,
              int64_t cols) {
    if (ts.col == (int64_t)item && fs.col == (int64_t)item)
        move_runs(to, ts.row, from, fs.row, rows, item * (size_t)cols);
    else if (item == 4)
        move_rows(4, to, ts, from, fs, rows, cols);
    else if (item == 8)
        move_rows(8, to, ts, from, fs, rows, cols);
    else if (item == 2)
        move_rows(2, to, ts, from, fs, rows, cols);
    else
        move_rows(1, to, ts, from, fs, rows, cols);
}

void cpu_fill(size_t item, char *to, const char *value, int64_t count) {
    cpu_move(item, to, (struct stride2){0, (int64_t)item}, value, (struct stride2){0, 0}, 1, count);
}
