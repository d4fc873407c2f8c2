// gemm_pack.c - packs matrices of any strides into the panels that micro-kernels read.
//
// A line is a row of a or a column of b: k elements. Lines that are contiguous along k are transposed, in
// units of as many elements as a kernel multiplies at once. If instead the elements of different lines are
// adjacent, rows of them are copied, or interleaved if a unit has several elements.

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/rows/lanes.h"
#include "device/cpu/rows/operands.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    WIDEN_BYTES = 16384, // bytes of elements that are widened at once
    VECTOR = 16,
    LONGEST = 8,     // bytes of the longest unit that cpu_transpose takes
    ROW_BYTES = 128, // at least the bytes that are read of a row
    CHAINED_AT_ONCE =
        64, // elements of a line that are packed before they are moved to their chains: a multiple of
            // GEMM_CHAINS
    CHAINED_ROW = 192, // bytes of one row of a panel, at most
};

INLINE bytes16 load(const char *from) {
    bytes16 x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store(char *to, bytes16 x) {
    memcpy(to, &x, sizeof x);
}

// Interleaves the first (low) or last halves of a and b.
INLINE bytes16 zip(int item, bool low, bytes16 a, bytes16 b) {
    if (item == 1)
        return low ? __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
                   : __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                             31);
    halves8 x = (halves8)a, y = (halves8)b;
    return (bytes16)(low ? __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
                         : __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15));
}

// Interleaves rows i and i + count / 2, for all i < count / 2.
INLINE void interleave(int item, int count, bytes16 *to, const bytes16 *from) {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; i++) {
        to[2 * i] = zip(item, true, from[i], from[i + count / 2]);
        to[2 * i + 1] = zip(item, false, from[i], from[i + count / 2]);
    }
}

// Interleaves `unit` rows of 16 bytes, so that units have one element of each row.
INLINE void interleave_rows(int item, int unit, bytes16 *row) {
    bytes16 other[8];
    interleave(item, unit, other, row);
    if (unit > 2)
        interleave(item, unit, row, other);
    if (unit == 8)
        interleave(item, unit, other, row);
    if (unit != 4)
#pragma GCC unroll 8
        for (int i = 0; i < unit; i++)
            row[i] = other[i];
}

// Rows across adjacent lines, which are packed into panels. Each row is read for all panels before the next
// row: rows are often so far apart that the cache holds few of them at once.
struct rows {
    const char *from;
    int64_t row; // bytes between rows
    char *to;
    int64_t panel; // bytes
    int64_t panels;
};

// Packs units of `unit` rows; a panel has `width` elements of each row. Whole vectors are read of each row,
// even past `width`.
INLINE void pack_units(int item, int unit, int width, const struct rows *r, int64_t units) {
    const int lanes = VECTOR / item, each = unit * item;
    for (int64_t g = 0; g < units; g++)
        for (int64_t j = 0; j < r->panels; j++) {
            const char *from = r->from + g * unit * r->row + j * width * item;
            char *to = r->to + j * r->panel + g * width * each;
#pragma GCC unroll 4
            for (int c = 0; c < width; c += lanes) {
                bytes16 lines[8];
#pragma GCC unroll 8
                for (int i = 0; i < unit; i++)
                    lines[i] = load(from + i * r->row + c * item);
                interleave_rows(item, unit, lines);
#pragma GCC unroll 8
                for (int i = 0; i < unit; i++)
                    if (c * each + i * VECTOR < width * each)
                        store(to + c * each + i * VECTOR, lines[i]);
            }
        }
}

// Copies n rows into all panels.
INLINE void copy_rows(int64_t bytes, const struct rows *r, int64_t row, int n) {
    const char *from = r->from + row * r->row;
    char *to = r->to + row * bytes;
    for (int64_t j = 0; j < r->panels; j++, from += bytes, to += r->panel)
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            memcpy(to + i * bytes, from + i * r->row, (size_t)bytes);
}

INLINE void copy_units(int64_t bytes, const struct rows *r, int64_t units) {
    int64_t i = 0;
    for (; i + 4 <= units; i += 4)
        copy_rows(bytes, r, i, 4);
    for (; i < units; i++)
        copy_rows(bytes, r, i, 1);
}

typedef void units_fn(const struct rows *r, int64_t units);

#define UNITS(item, unit, width)                                                       \
    static void units_##item##_##unit##_##width(const struct rows *r, int64_t units) { \
        if (unit > 1)                                                                  \
            pack_units(item, unit, width, r, units);                                   \
        else                                                                           \
            copy_units((item) * (width), r, units);                                    \
    }
// clang-format off
#define ALL_UNITS(DO)                                                           \
    DO(4, 1, 6) DO(4, 1, 8) DO(4, 1, 12) DO(4, 1, 16) DO(4, 1, 24) DO(4, 1, 32) DO(4, 1, 48) \
    DO(8, 1, 6) DO(8, 1, 8) DO(8, 1, 12) DO(8, 1, 24)                           \
    DO(2, 1, 8) DO(2, 1, 12)                                                    \
    DO(2, 2, 4) DO(2, 2, 8) DO(2, 2, 16) DO(2, 2, 32) DO(2, 2, 48)              \
    DO(2, 4, 8) DO(2, 4, 12) DO(2, 4, 24) DO(2, 4, 48)                          \
    DO(1, 4, 4) DO(1, 4, 8) DO(1, 4, 12) DO(1, 4, 16) DO(1, 4, 24) DO(1, 4, 32) DO(1, 4, 48) \
    DO(1, 8, 8) DO(1, 8, 12) DO(1, 8, 24) DO(1, 8, 48)
// clang-format on
ALL_UNITS(UNITS)

#define UNITS_ROW(item, unit, width) {item, unit, width, units_##item##_##unit##_##width},
static const struct {
    int item, unit, width;
    units_fn *run;
} unit_rows[] = {ALL_UNITS(UNITS_ROW)};

static units_fn *units_for(const struct gemm_packing *p, int64_t width) {
    for (size_t i = 0; i < COUNT(unit_rows); i++)
        if (unit_rows[i].item == p->item && unit_rows[i].unit == p->unit && unit_rows[i].width == width)
            return unit_rows[i].run;
    return NULL;
}

// Packs element by element, where no faster way applies.
static void pack_elements(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                          int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    const int64_t item = p->item, unit = p->unit;
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = 0; at < k; at++)
            memcpy(to + ((at / unit * width + i) * unit + at % unit) * item,
                   from + i * line_stride + at * k_stride, (size_t)item);
}

// Packs units for which rows are missing, or past which nothing may be read, through a copy that is large
// enough.
static void pack_edge(const struct gemm_packing *p, units_fn *units, char *to, int64_t width,
                      const char *from, int64_t row, int64_t k, int64_t count) {
    _Alignas(VECTOR) char room[8 * ROW_BYTES] = {0};
    struct rows r = {room, ROW_BYTES, to, 0, 1};
    for (int64_t at = 0; at < k; at += p->unit, r.to += width * p->unit * p->item) {
        if (k - at < p->unit)
            memset(room, 0, sizeof room);
        for (int64_t i = 0; i < MIN_OF(p->unit, k - at); i++)
            memcpy(room + i * ROW_BYTES, from + (at + i) * row, (size_t)(count * p->item));
        units(&r, 1);
    }
}

// Packs units that are too long for cpu_transpose.
static void pack_long(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                      int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    const int64_t item = p->item, unit = p->unit;
    for (int64_t at = 0; at < k; at += unit)
        cpu_move((size_t)item, to + at * width * item, (struct stride2){unit * item, item},
                 from + at * k_stride, (struct stride2){line_stride, k_stride}, count, MIN_OF(unit, k - at));
}

// Packs one panel without a conversion.
static void pack_same(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                      int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    const int64_t item = p->item, unit = p->unit, whole = k / unit * unit;
    units_fn *units = unit > 1 && line_stride == item ? units_for(p, width) : NULL;
    if (unit * item > LONGEST) {
        pack_long(p, to, width, from, k_stride, line_stride, k, count);
    } else if (k_stride == item) {
        cpu_transpose((size_t)(item * unit), to, width * unit * item, from, line_stride, k / unit, count);
        pack_elements(p, to + whole * width * item, width, from + whole * item, item, line_stride, k - whole,
                      count);
    } else if (units) {
        pack_edge(p, units, to, width, from, k_stride, k, count);
    } else if (unit == 1) {
        cpu_move((size_t)item, to, (struct stride2){width * item, item}, from,
                 (struct stride2){k_stride, line_stride}, k, count);
    } else {
        pack_elements(p, to, width, from, k_stride, line_stride, k, count);
    }
}

// Packs one panel and converts its elements, some elements of every line at a time.
static void pack_wider(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                       int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    _Alignas(64) char narrow[WIDEN_BYTES / 2], wide[WIDEN_BYTES];
    struct gemm_packing same = {p->item, p->item, NULL, p->unit, p->step};
    int64_t most = WIDEN_BYTES / p->item / count / p->unit * p->unit;
    for (int64_t at = 0, n; at < k; at += n) {
        n = MIN_OF(most, k - at);
        bool rows = line_stride == p->from_item; // else lines are contiguous along k
        struct stride2 stride =
            rows ? (struct stride2){k_stride, line_stride} : (struct stride2){line_stride, k_stride};
        int64_t lines = rows ? n : count, length = rows ? count : n;
        cpu_move((size_t)p->from_item, narrow, (struct stride2){length * p->from_item, p->from_item},
                 from + at * k_stride, stride, lines, length);
        p->widen((char *[]){wide, narrow}, n * count, n * count);
        pack_same(&same, to + at * width * p->item, width, wide, rows ? length * p->item : p->item,
                  rows ? p->item : length * p->item, n, count);
    }
}

static void pack_panel(const struct gemm_packing *p, char *to, int64_t width, const char *from,
                       int64_t k_stride, int64_t line_stride, int64_t k, int64_t count) {
    int64_t padded = (k + p->step - 1) / p->step * p->step, whole = k / p->unit * p->unit;
    if (count < width)
        memset(to, 0, (size_t)(padded * width * p->item));
    else // units after the last full one; part of them may be filled below
        memset(to + whole * width * p->item, 0, (size_t)((padded - whole) * width * p->item));
    (p->widen ? pack_wider : pack_same)(p, to, width, from, k_stride, line_stride, k, count);
}

// Packs as many whole panels as can be read by rows, and returns their number.
static int64_t pack_rows(const struct gemm_packing *p, char *to, int64_t width, const char *from, int64_t row,
                         int64_t k, int64_t count, int64_t spare) {
    const int64_t lanes = VECTOR / p->item, more = p->unit > 1 ? (lanes - width % lanes) % lanes : 0;
    const int64_t padded = (k + p->step - 1) / p->step * p->step, whole = k / p->unit * p->unit;
    units_fn *units = units_for(p, width);
    struct rows r = {from, row, to, padded * width * p->item, (count + spare - more) / width};
    r.panels = units ? MAX_OF(MIN_OF(r.panels, count / width), 0) : 0;
    if (r.panels > 0)
        units(&r, k / p->unit);
    for (int64_t j = 0; padded > whole && j < r.panels; j++) {
        char *rest = to + j * r.panel + whole * width * p->item;
        memset(rest, 0, (size_t)((padded - whole) * width * p->item));
        pack_same(p, rest, width, from + whole * row + j * width * p->item, row, p->item, k - whole, width);
    }
    return r.panels;
}

void gemm_pack(const struct gemm_packing *p, char *to, int64_t width, const char *from, int64_t k_stride,
               int64_t line_stride, int64_t k, int64_t count, int64_t spare) {
    const int64_t padded = (k + p->step - 1) / p->step * p->step;
    bool rows = !p->widen && line_stride == p->item && k_stride != p->item;
    int64_t done = rows ? width * pack_rows(p, to, width, from, k_stride, k, count, spare) : 0;
    for (; done < count; done += width)
        pack_panel(p, to + done * padded * p->item, width, from + done * line_stride, k_stride, line_stride,
                   k, MIN_OF(width, count - done));
}

// Packs four lines of 4-byte elements along k: element c of every four goes to chain c, in rows that are
// `row` bytes apart. groups: the number of fours.
static void pack_chained_words(char *const *to, int64_t row, const char *from, int64_t line_stride,
                               int64_t groups) {
    for (int64_t i = 0; i < groups; i++) {
        words4 line[4];
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++)
            line[l] = (words4)load(from + l * line_stride + i * VECTOR);
        const words4 even_low = __builtin_shufflevector(line[0], line[2], 0, 4, 1, 5),
                     even_high = __builtin_shufflevector(line[0], line[2], 2, 6, 3, 7),
                     odd_low = __builtin_shufflevector(line[1], line[3], 0, 4, 1, 5),
                     odd_high = __builtin_shufflevector(line[1], line[3], 2, 6, 3, 7);
        store(to[0] + i * row, (bytes16)__builtin_shufflevector(even_low, odd_low, 0, 4, 1, 5));
        store(to[1] + i * row, (bytes16)__builtin_shufflevector(even_low, odd_low, 2, 6, 3, 7));
        store(to[2] + i * row, (bytes16)__builtin_shufflevector(even_high, odd_high, 0, 4, 1, 5));
        store(to[3] + i * row, (bytes16)__builtin_shufflevector(even_high, odd_high, 2, 6, 3, 7));
    }
}

// Packs a panel of lines along k, some elements at a time: they are packed in order first, and then rows are
// copied to their chains.
static void pack_chains(const struct gemm_packing *p, units_fn *units, const struct gemm_order *o,
                        int64_t elements, char *const *to, int64_t width, const char *from,
                        int64_t line_stride, int64_t count) {
    _Alignas(64) char room[CHAINED_AT_ONCE * CHAINED_ROW];
    const int64_t row = width * p->item, groups = elements / GEMM_CHAINS;
    int64_t k = 0;
    if (p->item == 4 && !p->widen && count == width && width % 4 == 0) {
        for (int64_t i = 0; i < width; i += 4) {
            const int64_t at = i * p->item;
            pack_chained_words((char *[]){to[0] + at, to[1] + at, to[2] + at, to[3] + at}, row,
                               from + i * line_stride, line_stride, groups);
        }
        k = groups * GEMM_CHAINS;
    }
    for (int64_t n; k < elements; k += n) {
        n = MIN_OF(CHAINED_AT_ONCE, elements - k);
        pack_panel(p, room, width, from + k * p->from_item, p->from_item, line_stride, n, count);
        for (int c = 0; c < o->chains; c++)
            units(&(struct rows){room + c * row, o->chains * row, to[c] + k / o->chains * row, 0, 1},
                  (n - c + o->chains - 1) / o->chains);
    }
}

void gemm_pack_span(const struct gemm_packing *p, const struct gemm_order *o, int64_t span,
                    char *const to[GEMM_CHAINS], int64_t width, const char *from, int64_t k_stride,
                    int64_t line_stride, int64_t count, int64_t spare) {
    const int64_t row = width * p->item, chains = o->chains;
    const bool chained = chains > 1 && k_stride == p->from_item && row <= CHAINED_ROW;
    units_fn *units = chained ? units_for(p, width) : NULL;
    struct gemm_chain chain[GEMM_CHAINS];
    for (int c = 0; c < chains; c++) {
        chain[c] = gemm_chain_at(o, span * chains + c);
        if (!units)
            gemm_pack(p, to[c], width, from + chain[c].first * k_stride, k_stride * chain[c].apart,
                      line_stride, chain[c].count, count, spare);
    }
    for (int64_t done = 0; units && done < count; done += width) {
        char *panel[GEMM_CHAINS];
        for (int c = 0; c < chains; c++) {
            panel[c] = to[c] + done * chain[c].length * p->item;
            memset(panel[c] + chain[c].count * row, 0, (size_t)((chain[c].length - chain[c].count) * row));
        }
        pack_chains(p, units, o, gemm_span_elements(o, span), panel, width,
                    from + span * o->span * k_stride + done * line_stride, line_stride,
                    MIN_OF(width, count - done));
    }
}
