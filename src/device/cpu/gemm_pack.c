// gemm_pack.c - panels of matrices as micro-kernels read them, from any strides.
//
// Lines whose elements are neighbours are transposed, by units of as many elements as a kernel multiplies at once. Where
// the lines are neighbours instead, rows of them are copied, or interleaved if a unit has several elements.

#include "device/cpu/gemm.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    WIDEN_BYTES = 16384, // of elements that are widened at once
    VECTOR = 16,
    ROW_BYTES = 32, // at least as many as a row of units reads
};

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));

INLINE bytes16 load(const char *from) {
    bytes16 x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store(char *to, bytes16 x) {
    memcpy(to, &x, sizeof x);
}

// The first (low) or last halves of a and b, element by element in turn.
INLINE bytes16 zip(int item, bool low, bytes16 a, bytes16 b) {
    if (item == 1)
        return low ? __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
                   : __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                             31);
    halves8 x = (halves8)a, y = (halves8)b;
    return (bytes16)(low ? __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
                         : __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15));
}

// One round: afterwards elements of rows i and i + count / 2 alternate.
INLINE void interleave(int item, int count, bytes16 *to, const bytes16 *from) {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; i++) {
        to[2 * i] = zip(item, true, from[i], from[i + count / 2]);
        to[2 * i + 1] = zip(item, false, from[i], from[i + count / 2]);
    }
}

// unit rows of 16 bytes as units of one element of each. Only the vectors that are stored are computed.
INLINE void interleave_rows(int item, int unit, bytes16 *row) {
    bytes16 other[8];
    interleave(item, unit, other, row);
    interleave(item, unit, row, other);
    if (unit == 8) {
        interleave(item, unit, other, row);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            row[i] = other[i];
    }
}

// Units of `unit` rows, of which `width` elements are taken; as many bytes are read of each row as fill vectors.
INLINE void units_of_rows(int item, int unit, int width, char *to, const char *from, int64_t row,
                          int64_t units) {
    const int lanes = VECTOR / item, each = unit * item;
    for (int64_t g = 0; g < units; g++, from += unit * row, to += width * each)
#pragma GCC unroll 4
        for (int c = 0; c < width; c += lanes) {
            bytes16 lines[8];
#pragma GCC unroll 8
            for (int i = 0; i < unit; i++)
                lines[i] = load(from + i * row + c * item);
            interleave_rows(item, unit, lines);
#pragma GCC unroll 8
            for (int i = 0; i < unit; i++)
                if (c * each + i * VECTOR < width * each)
                    store(to + c * each + i * VECTOR, lines[i]);
        }
}

typedef void units_fn(char *to, const char *from, int64_t row, int64_t units);

#define UNITS(name, item, unit, width)                                         \
    static void name(char *to, const char *from, int64_t row, int64_t units) { \
        units_of_rows(item, unit, width, to, from, row, units);                \
    }
UNITS(halves_4x8, 2, 4, 8)
UNITS(halves_4x12, 2, 4, 12)
UNITS(bytes_8x8, 1, 8, 8)
UNITS(bytes_8x12, 1, 8, 12)
UNITS(bytes_4x8, 1, 4, 8)
UNITS(bytes_4x12, 1, 4, 12)

static const struct {
    int item, unit, width;
    units_fn *run;
} unit_rows[] = {
    {2, 4, 8, halves_4x8},  {2, 4, 12, halves_4x12}, {1, 8, 8, bytes_8x8},
    {1, 8, 12, bytes_8x12}, {1, 4, 8, bytes_4x8},    {1, 4, 12, bytes_4x12},
};

static units_fn *units_for(const struct gemm_packing *p, int64_t width) {
    for (size_t i = 0; i < COUNT(unit_rows); i++)
        if (unit_rows[i].item == p->item && unit_rows[i].unit == p->unit && unit_rows[i].width == width)
            return unit_rows[i].run;
    return NULL;
}

// Rows of so many bytes, one behind the other.
#define COPY_ROWS(bytes)                                     \
    case bytes:                                              \
        for (int64_t p = 0; p < k; p++)                      \
            memcpy(to + p * (bytes), from + p * row, bytes); \
        return;

static void copy_rows(int64_t width, char *to, const char *from, int64_t row, int64_t k) {
    switch (width) {
        COPY_ROWS(16)
        COPY_ROWS(24)
        COPY_ROWS(32)
        COPY_ROWS(48)
        COPY_ROWS(64)
        COPY_ROWS(192)
    default:
        for (int64_t p = 0; p < k; p++)
            memcpy(to + p * width, from + p * row, (size_t)width);
    }
}

// Elements one by one: what no other way can.
static void pack_elements(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                          int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    const int64_t item = p->item, unit = p->unit;
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = 0; at < k; at++)
            memcpy(to + ((at / unit * width + i) * unit + at % unit) * item,
                   from + i * line_stride + at * k_stride, (size_t)item);
}

// Units that rows do not fill, or behind which nothing may be read: by a copy that is large enough.
static void pack_edge(const struct gemm_packing *p, units_fn *units, char *to, int64_t width,
                      const char *from, int64_t row, int64_t k, int64_t count) {
    _Alignas(VECTOR) char room[8 * ROW_BYTES] = {0};
    for (int64_t at = 0; at < k; at += p->unit, to += width * p->unit * p->item) {
        if (k - at < p->unit)
            memset(room, 0, sizeof room);
        for (int64_t i = 0; i < MIN_OF(p->unit, k - at); i++)
            memcpy(room + i * ROW_BYTES, from + (at + i) * row, (size_t)(count * p->item));
        units(to, room, ROW_BYTES, 1);
    }
}

// Lines that are neighbours, with so many more behind them.
static void pack_rows(const struct gemm_packing *p, char *to, int64_t width, const char *from, int64_t row,
                      int64_t k, int64_t count, int64_t spare) {
    const int64_t item = p->item, unit = p->unit, lanes = VECTOR / item;
    units_fn *units = unit > 1 ? units_for(p, width) : NULL;
    int64_t whole = count == width && spare >= (lanes - width % lanes) % lanes ? k / unit : 0;
    if (units) {
        units(to, from, row, whole);
        pack_edge(p, units, to + whole * width * unit * item, width, from + whole * unit * row, row,
                  k - whole * unit, count);
    } else if (unit > 1) {
        pack_elements(p, to, width, from, row, item, k, count);
    } else if (count == width) {
        copy_rows(width * item, to, from, row, k);
    } else {
        cpu_move((size_t)item, to, (struct stride2){width * item, item}, from, (struct stride2){row, item}, k,
                 count);
    }
}

static void pack_same(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                      int64_t k_stride, int64_t line_stride, int64_t k, int64_t count, int64_t spare) {
    const int64_t item = p->item, unit = p->unit, whole = k / unit * unit;
    if (k_stride == item) {
        cpu_transpose((size_t)(item * unit), to, width * unit * item, from, line_stride, k / unit, count);
        pack_elements(p, to + whole * width * item, width, from + whole * item, item, line_stride, k - whole,
                      count);
    } else if (line_stride == item) {
        pack_rows(p, to, width, from, k_stride, k, count, spare);
    } else if (unit == 1) {
        cpu_move((size_t)item, to, (struct stride2){width * item, item}, from,
                 (struct stride2){k_stride, line_stride}, k, count);
    } else {
        pack_elements(p, to, width, from, k_stride, line_stride, k, count);
    }
}

// Widened, some elements of every line at a time.
static void pack_wider(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                       int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    _Alignas(64) char narrow[WIDEN_BYTES / 2], wide[WIDEN_BYTES];
    struct gemm_packing same = {p->item, p->item, NULL, p->unit, p->step};
    int64_t most = WIDEN_BYTES / p->item / count / p->unit * p->unit;
    for (int64_t at = 0, n; at < k; at += n) {
        n = MIN_OF(most, k - at);
        bool rows = line_stride == p->from_item; // else lines lie along k
        struct stride2 stride =
            rows ? (struct stride2){k_stride, line_stride} : (struct stride2){line_stride, k_stride};
        int64_t lines = rows ? n : count, length = rows ? count : n;
        cpu_move((size_t)p->from_item, narrow, (struct stride2){length * p->from_item, p->from_item},
                 from + at * k_stride, stride, lines, length);
        p->widen((char *[]){wide, narrow}, n * count, n * count);
        pack_same(&same, to + at * width * p->item, width, wide, rows ? length * p->item : p->item,
                  rows ? p->item : length * p->item, n, count, 0);
    }
}

void gemm_pack_panel(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                     int64_t k_stride, int64_t line_stride, int64_t k, int64_t count, int64_t spare) {
    int64_t padded = (k + p->step - 1) / p->step * p->step;
    if (count < width)
        memset(to, 0, (size_t)(padded * width * p->item));
    else if (padded > k) // the last unit, of which some may be filled below, and those behind it
        memset(to + k / p->unit * p->unit * width * p->item, 0,
               (size_t)((padded - k / p->unit * p->unit) * width * p->item));
    if (p->widen)
        pack_wider(p, to, width, from, k_stride, line_stride, k, count);
    else
        pack_same(p, to, width, from, k_stride, line_stride, k, count, spare);
}
