// quantized.h - products with quantised matrices: what the algorithms for them share.

#ifndef CPU_QUANTIZED_H
#define CPU_QUANTIZED_H

#include "device/cpu/cpu.h"
#include "op/ops.h"

// A call. first and second are the indices of the matrix of x and of the quantised matrix that each product
// multiplies; NULL: there is one product.
struct quantized {
    struct unpacking u;
    zl_dtype dtype; // of x and the result
    bool transpose;
    int64_t item; // bytes per element of these
    int64_t m, k, n;
    int64_t rows, groups; // rows of a quantised matrix, and groups per row
    int64_t scale_item;
    int64_t matrices, products; // matrices of x, and of the result
    const char *x, *words, *scales, *biases;
    char *out;
    const int64_t *first, *second;
};

// The algorithms. They use all threads, and return false, with an error, if memory runs out.

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
// Returns the address of the codes of group `at`.
static inline const uint8_t *quantized_words(const struct quantized *q, int64_t at) {
    return (const uint8_t *)q->words + at * q->u.group * q->u.bits / 8;
}

// Returns the address of the scales of groups from `at` on; in mode gguf_k, `at` is the first group of a
// block.
static inline const char *quantized_scales(const struct quantized *q, int64_t at) {
    if (q->u.mode != QUANT_GGUF_K)
        return q->scales + at * q->scale_item;
    return q->scales + at / op_k_groups(q->u.bits) * op_k_bytes(q->u.bits);
}

// Unpacks the integers of a block of mode gguf_k. With codes of 4 or 5 bits, a block has the f16 numbers d
// and least, then 12 bytes with a six-bit number for each scale and each bias of eight groups of 32: first a
// byte for each of the first four scales and biases, then a byte for each of the other four pairs, with the
// low four bits of the scale and of the bias. The high two bits of those are above the six bits of the first
// bytes. A scale is d times its number, a bias -least times its number. With codes of 6 bits, a block has 16
// signed bytes for scales, then d as f16; 32 is to be subtracted from codes.
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
// Reads the f16 numbers of a block. A block of six-bit codes has only one, which is stored to both.
static inline void quantized_k_halves(int bits, const uint8_t *block, uint16_t *d, uint16_t *least) {
    memcpy(d, block + (bits == 6 ? 16 : 0), sizeof *d);
    memcpy(least, block + (bits == 6 ? 16 : 2), sizeof *least);
}

// Whole numbers ---------------------------------------------------------------------------------------------
//
// A row of x is converted to whole numbers of 16 bits (from 16-bit floats) or 24 bits (from float32) times a
// factor. The numbers are split into two or three signed bytes, the highest first. These are the parts of a
// row; a line is one part of all numbers of a row. A set is a few rows that are multiplied at once. It is
// stored slice by slice: some bytes of each line, then the next bytes of each. Columns (rows of the quantised
// matrix) that are used more than once are zipped, that is, stored slice by slice too, with one byte per
// code.

enum { INT_COLUMNS_MOST = 8, INT_ROWS_MOST = 4, INT_DOZEN = 12, INT_CODES_MOST = 1024 };

struct int_set {
    const int8_t *code;
    const float *factor; // per row
    const float *sum;    // sums of groups, row by row; in a dozen, group by group
    // parts: lines per row. A dozen has the lines of twelve rows, part by part, even if it has fewer rows.
    int parts, rows;
    int64_t groups;
};

struct int_columns {
    const uint8_t *row[INT_COLUMNS_MOST]; // codes of 4 or 8 bits in place; others with one byte each
    const int8_t *zipped;                 // the codes slice by slice; NULL: not zipped
    const float *scale;                   // group by group, those of all columns
    const char *bias[INT_COLUMNS_MOST];   // per column; NULL: there are none, and codes are signed
    // for dozens: scales divided by the column's unit, as integers of which 2^31 is 1; for each block of 32
    // codes, or each group if that is smaller, each twice; with codes of eight bits and three parts, then
    // 1/16 of each
    const int32_t *share;
    const float *unit;                    // per column
    // for dozens, whose codes are always signed: biases, in the order of scales
    const float *offset;
    bool is_offset;                       // some of the offsets are not zero
    zl_dtype dtype;                       // of `bias`: float32 or a 16-bit float
    int bits, group;
};

enum { INT_PADDED = 128, INT_SUMS = 16 };

// The functions for one instruction set.
struct int_kind {
    const char *level;  // the level of row kernels that it is used with
    int slice, columns; // bytes of a line per slice; columns that are multiplied at once
    bool even;          // a set has an even number of lines
    bool apart;         // with four-bit codes, of 16 numbers those at even indices come first
    int64_t rows_most;  // with more, floats are faster
    bool direct;        // it can read columns in place; else they are always zipped, and biases are float32
    // Zips k codes of each column, which have `bits` bits or, as bytes, eight, and subtracts `less` from
    // each, which is 0 except for dozens.
    void (*zip)(const struct unpacking *u, const uint8_t *const *row, int bits, int64_t k, int less,
                int8_t *out);
    // Stores the scales of all columns as float32, group by group.
    void (*turn)(zl_dtype dtype, const char *const *column, int64_t groups, float *out);
    // Multiplies the set by the columns: out[row][column].
    void (*run)(const struct int_set *x, const struct int_columns *w, float *out, int64_t out_row);
    // Computes shares and units such that sums over INT_CODES_MOST codes fit into 32 bits. Products of a code
    // and a whole number are at most `product`. low: also stores the shares for the lowest parts of rows.
    void (*shares)(const float *scale, int64_t groups, int group, double product, bool low, int32_t *share,
                   float *unit);
    // dozen adds the products of a dozen rows and zipped columns over some groups, at most INT_CODES_MOST
    // codes, to sums, which are in units of the column and in an order of the kind's own. ahead: bytes to the
    // codes of rows that are prefetched meanwhile. dozen_results computes the results from all sums. NULL:
    // not supported.
    void (*dozen)(const struct int_set *x, const struct int_columns *w, int64_t from, int64_t to,
                  int64_t ahead, float *sum);
    void (*dozen_results)(const struct int_set *x, const struct int_columns *w, const float *sum, float *out,
                          int64_t out_row);
    // vector multiplies one row by columns in place, from group `at` on, where can_vector returns true. The
    // sums of the row's groups are then sums of its whole numbers. scale has room for a scale per 32 codes,
    // or per group, of all columns that are multiplied at once. NULL: never supported.
    bool (*can_vector)(const struct quantized *q);
    void (*vector)(const struct quantized *q, const struct int_set *x, int64_t at, int64_t columns,
                   float *scale, float *out);
    // Stores the parts of that row in the layout that `vector` reads, padded with zeros to a multiple of
    // INT_PADDED numbers. The sums of its groups are padded with zeros too, to a multiple of INT_SUMS. NULL:
    // the row has the layout of other sets.
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
