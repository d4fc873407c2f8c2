// quantized.h - products with quantised matrices: what the ways to multiply have in common.

#ifndef CPU_QUANTIZED_H
#define CPU_QUANTIZED_H

#include "device/cpu/cpu.h"
#include "op/ops.h"

// A call. Indices name the matrices of each product; NULL: there is one product.
struct quantized {
    struct unpacking u;
    zl_dtype dtype; // of x and the result
    bool transpose;
    int64_t item; // bytes of that
    int64_t m, k, n;
    int64_t rows, groups; // of a quantised matrix
    int64_t scale_item;
    int64_t matrices, products; // of x; of the result
    const char *x, *words, *scales, *biases;
    char *out;
    const int64_t *first, *second;
};

// Ways to multiply, by all threads. They return false, with an error, if memory runs out.

// Multiplies by pieces of the matrix that are unpacked to float32 or float64.
bool cpu_multiply_pieces(const struct quantized *q);
// Multiplies in integers and sets *done, or leaves *done as it is if that cannot be done for this call.
bool cpu_multiply_ints(const struct quantized *q, bool *done);
// Multiplies in bfloat16 and sets *done, or leaves *done as it is if that cannot be done for this call.
bool cpu_multiply_halves(const struct quantized *q, bool *done);

// Returns the number of groups before a group of a row of matrix w.
static inline int64_t quantized_at(const struct quantized *q, int64_t w, int64_t row, int64_t group) {
    return (w * q->rows + row) * q->groups + group;
}
// Returns where the codes of group `at` begin.
static inline const uint8_t *quantized_words(const struct quantized *q, int64_t at) {
    return (const uint8_t *)q->words + at * q->u.group * q->u.bits / 8;
}

// Returns where the scales of groups from `at` on begin; of mode gguf_k, `at` is the first group of a block.
static inline const char *quantized_scales(const struct quantized *q, int64_t at) {
    if (q->u.mode != QUANT_GGUF_K)
        return q->scales + at * q->scale_item;
    return q->scales + at / op_k_groups(q->u.bits) * op_k_bytes(q->u.bits);
}

// Unpacks the integers of a block of mode gguf_k. Bits 4 and 5: f16 d and least, then 12 bytes with numbers
// of six bits for eight groups of 32: those of the first four scales and biases, then four bits of each of
// the other four, whose high bits are above the former. A scale is d times its number, a bias -least times
// its own. Bits 6: 16 signed bytes, and f16 d; codes are less by 32.
static inline void quantized_k_whole(int bits, const uint8_t *block, uint8_t *scale, uint8_t *bias) {
    uint32_t part[3], six[2][2];
    if (bits == 6) {
        memcpy(scale, block, 16);
        return;
    }
    memcpy(part, block + 4, sizeof part);
    six[0][0] = part[0] & 0x3f3f3f3f;
    six[0][1] = (part[2] & 0x0f0f0f0f) | (part[0] >> 2 & 0x30303030);
    six[1][0] = part[1] & 0x3f3f3f3f;
    six[1][1] = (part[2] >> 4 & 0x0f0f0f0f) | (part[1] >> 2 & 0x30303030);
    memcpy(scale, six[0], sizeof six[0]);
    memcpy(bias, six[1], sizeof six[1]);
}
// Reads the f16 numbers of a block; those of six bits have one, which is stored twice.
static inline void quantized_k_halves(int bits, const uint8_t *block, uint16_t *d, uint16_t *least) {
    memcpy(d, block + (bits == 6 ? 16 : 0), sizeof *d);
    memcpy(least, block + (bits == 6 ? 16 : 2), sizeof *least);
}

// Whole numbers ---------------------------------------------------------------------------------------------
//
// A row of x becomes lines of bytes: two of 16-bit floats, three of float32, the highest first. Together they
// are whole numbers of 16 or 24 bits times a factor; codes are bytes anyway. A few rows, which are multiplied
// at once, are a set: it lies slice by slice, some bytes of each line, then the next of each. So do a few
// columns (rows of the matrix), where they are used more than once.

enum { INT_COLUMNS_MOST = 8, INT_ROWS_MOST = 4, INT_DOZEN = 12, INT_CODES_MOST = 1024 };

struct int_set {
    const int8_t *code;
    const float *factor; // of each row
    const float *sum;    // of each row those of its groups; of a dozen, of each group those of its rows
    // lines of a row; those of a dozen are of twelve rows, be they there or not, part by part
    int parts, rows;
    int64_t groups;
};

struct int_columns {
    const uint8_t *row[INT_COLUMNS_MOST]; // codes of 4 or 8 bits as they are
    const int8_t *zipped;                 // or slice by slice; NULL: not
    const float *scale;                   // of each group those of all columns
    const char *bias[INT_COLUMNS_MOST];   // of each column; NULL: there are none, and codes are signed
    // for dozens: scales as parts of a column's unit, of which 2^31 is one; of each block of 32 codes or
    // group, each twice; where codes have eight bits, then 1/16 of them
    const int32_t *share;
    const float *unit;                    // of each column
    // for dozens, whose codes are always signed: biases, in the order of scales
    const float *offset;
    bool is_offset;                       // some of these are not zero
    zl_dtype dtype;                       // of those: float32 or half of it
    int bits, group;
};

enum { INT_PADDED = 128, INT_SUMS = 16 };

// Products of one instruction set.
struct int_kind {
    const char *level;  // of the row kernels with which it is used
    int slice, columns; // bytes of a slice; columns at once
    bool even;          // lines of a set are a multiple of two
    bool apart;         // of 16 codes of four bits those at even places come first
    int64_t rows_most;  // with more, floats are faster
    bool direct;        // it reads columns also as they are; else they are always zipped, and biases float32
    // k codes of each column, in the form that they have or one a byte, slice by slice, less a number: zero
    // but for dozens.
    void (*zip)(const struct unpacking *u, const uint8_t *const *row, int bits, int64_t k, int less,
                int8_t *out);
    // Scales of all columns as float32, group by group.
    void (*turn)(zl_dtype dtype, const char *const *column, int64_t groups, float *out);
    // The set times the columns: out[row][column].
    void (*run)(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row);
    // Scales as shares of units, such that sums of INT_CODES_MOST codes fit 32 bits: products of codes and
    // whole numbers are at most `product`. low: there are those of the low parts of rows, too.
    void (*shares)(const float *scale, int64_t groups, int group, double product, bool low, int32_t *share,
                   float *unit);
    // Adds a dozen times the columns, which are zipped, of some groups, at most INT_CODES_MOST codes: sums of
    // units, in the kind's order. NULL: it has none. Makes results of all. ahead: bytes to codes that are
    // fetched meanwhile.
    void (*dozen)(const struct int_set *x, const struct int_columns *w, int64_t from, int64_t to,
                  int64_t ahead, float *sum);
    void (*dozen_results)(const struct int_set *x, const struct int_columns *w, const float *sum, float *out,
                          int64_t out_row);
    // One row times columns as they are, from group `at` on, where it can; sums of the row's groups are those
    // of its whole numbers. scale: room for one of every 32 codes or group, of all columns at once. NULL: it
    // never can.
    bool (*can_vector)(const struct quantized *q);
    void (*vector)(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                   float *scale, float *out);
    // Brings the parts of that row to where its set lies, as `vector` reads them: with zeros up to a multiple
    // of INT_PADDED. Sums of its groups have zeros behind them, too, up to a multiple of INT_SUMS. NULL: they
    // lie as those of other sets.
    void (*arrange)(const int8_t *const *part, int parts, int64_t k, int bits, int8_t *out);
};

extern const struct int_kind cpu_int_i8mm; // of aarch64

// Members of cpu_int_i8mm.

// Does what shares does.
void cpu_shares_i8mm(const float *scale, int64_t groups, int group, double product, bool low, int32_t *share,
                     float *unit);
// Does what dozen does.
void cpu_dozen_i8mm(const struct int_set *x, const struct int_columns *w, int64_t from, int64_t to,
                    int64_t ahead, float *sum);
// Does what dozen_results does.
void cpu_dozen_results_i8mm(const struct int_set *x, const struct int_columns *w, const float *sum,
                            float *out, int64_t out_row);
// Returns what can_vector returns.
bool cpu_can_vector_i8mm(const struct quantized *q);
// Does what vector does.
void cpu_vector_i8mm(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                     float *scale, float *out);

// Members of the kinds of x86_64, with VNNI and with AVX2 alone.

// Returns what can_vector returns, of both kinds.
bool cpu_can_line(const struct quantized *q);
// Does what vector does, with VNNI.
void cpu_line_vnni(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                   float *scale, float *out);
// Does what vector does, with AVX2.
void cpu_line_avx2(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                   float *scale, float *out);
// Does what arrange does, for cpu_line_vnni().
void cpu_arrange_vnni(const int8_t *const *part, int parts, int64_t k, int bits, int8_t *out);
// Does what arrange does, for cpu_line_avx2().
void cpu_arrange_avx2(const int8_t *const *part, int parts, int64_t k, int bits, int8_t *out);
// Returns the best kind for this CPU, or NULL if there is none.
const struct int_kind *cpu_int_kind(void);

// Returns the number of lines of a set.
static inline int int_set_lines(const struct int_kind *kind, int parts, int rows) {
    return kind->even ? (parts * rows + 1) / 2 * 2 : parts * rows;
}
// Returns the line of a part of a row.
static inline int int_line(int rows, int row, int part) {
    return part < 2 ? 2 * row + part : 2 * rows + row;
}

#endif
