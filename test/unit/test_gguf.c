// test_gguf.c - quantised tensors of GGUF: random blocks compared bit by bit with the numbers that the format
// defines, and invalid ones.

#include <string.h>

#include "op/op_test.h"

enum { NUMBERS = 512, ROWS = 3, START = 96, MOST = 4096 };

struct kind {
    unsigned char type;
    int block, bytes, group, bits;
    double (*number)(const unsigned char *block, int i);
};

// What number i of a block is -------------------------------------------------------------------------------

static double half(const unsigned char *p) {
    return (double)half_to_float((uint16_t)(p[0] | p[1] << 8));
}

static double q4_0(const unsigned char *b, int i) {
    return half(b) * ((b[2 + i % 16] >> i / 16 * 4 & 15) - 8);
}

static double q4_1(const unsigned char *b, int i) {
    return half(b) * (b[4 + i % 16] >> i / 16 * 4 & 15) + half(b + 2);
}

static double q5_0(const unsigned char *b, int i) {
    return half(b) * (((b[6 + i % 16] >> i / 16 * 4 & 15) | (b[2 + i / 8] >> i % 8 & 1) << 4) - 16);
}

static double q5_1(const unsigned char *b, int i) {
    return half(b) * ((b[8 + i % 16] >> i / 16 * 4 & 15) | (b[4 + i / 8] >> i % 8 & 1) << 4) + half(b + 2);
}

static double q8_0(const unsigned char *b, int i) {
    return half(b) * (b[2 + i] < 128 ? b[2 + i] : b[2 + i] - 256);
}

// Returns the scale or the minimum of a group of Q4_K: the scales and minima of the eight groups are 6-bit
// fields in 12 bytes.
static int field(const unsigned char *p, int group, bool minimum) {
    if (group < 4)
        return p[group + (minimum ? 4 : 0)] % 64;
    int low = minimum ? p[group + 4] / 16 : p[group + 4] % 16, high = p[minimum ? group : group - 4] / 64;
    return low + 16 * high;
}

static double q4_k(const unsigned char *b, int i) {
    int group = i / 32, code = b[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    return half(b) * field(b + 4, group, false) * code - half(b + 2) * field(b + 4, group, true);
}

static double q5_k(const unsigned char *b, int i) {
    int group = i / 32, code = b[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    code += (b[16 + i % 32] >> group & 1) * 16;
    return half(b) * field(b + 4, group, false) * code - half(b + 2) * field(b + 4, group, true);
}

static double q6_k(const unsigned char *b, int i) {
    int part = i / 128, at = i % 128, low = b[part * 64 + at % 64] >> (at / 64 * 4) & 15;
    int high = b[128 + part * 32 + at % 32] >> (at / 32 * 2) & 3, scale = b[192 + i / 16];
    return half(b + 208) * (scale < 128 ? scale : scale - 256) * (low + 16 * high - 32);
}

static const struct kind kinds[] = {
    {2, 32, 18, 32, 4, q4_0},    {3, 32, 20, 32, 4, q4_1},    {6, 32, 22, 32, 5, q5_0},
    {7, 32, 24, 32, 5, q5_1},    {8, 32, 34, 32, 8, q8_0},    {12, 256, 144, 32, 4, q4_k},
    {13, 256, 176, 32, 5, q5_k}, {14, 256, 210, 16, 6, q6_k},
};

// Files -----------------------------------------------------------------------------------------------------

// Writes the header of a file with one tensor "t.weight" of (ROWS, last), without its elements.
static void put_head(unsigned char *file, int type, int last) {
    unsigned char *at = file + 24;
    memset(file, 0, START);
    memcpy(file, "GGUF\3\0\0\0\1", 9);
    memcpy(at, "\10\0\0\0\0\0\0\0t.weight\2", 8 + 8 + 1);
    at[20] = (unsigned char)last, at[21] = (unsigned char)(last >> 8);
    at[28] = ROWS;
    at[36] = (unsigned char)type;
}

// Fills a file with random bits; the scales are finite float16 numbers that are not small.
static size_t fill(const struct kind *k, unsigned char *file) {
    size_t blocks = (size_t)(ROWS * NUMBERS / k->block), bytes = blocks * (size_t)k->bytes;
    put_head(file, k->type, NUMBERS);
    for (size_t i = 0; i < bytes; i++)
        file[START + i] = (unsigned char)test_between(0, 255);
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *block = file + START + i * (size_t)k->bytes;
        for (int n = 0; n < 2; n++)
            block[n ? 3 : k->type == 14 ? 209 : 1] = (unsigned char)(0x20 | test_between(0, 15));
    }
    return START + bytes;
}

static unsigned char *room(void) {
    static unsigned char file[MOST];
    return file;
}

// Returns whether the mode is gguf_k, whose scales are bytes.
static bool is_k(zl_file *f) {
    return zl_dtype_of(zl_file_find(f, "t.scales")) == ZL_UINT8;
}

static zl_array part_of(zl_file *f, const char *name) {
    zl_array part = zl_file_find(f, name);
    return is_k(f) ? part : zl_astype(part, ZL_FLOAT64);
}

// Returns the biases; NULL in mode gguf_k, whose scales include them.
static zl_array biases_of(zl_file *f) {
    return is_k(f) ? NULL : zl_file_find(f, "t.biases");
}

static zl_array number_of(zl_file *f, const struct kind *k) {
    return zl_dequantize(zl_file_find(f, "t.weight"), part_of(f, "t.scales"),
                         is_k(f) ? NULL : part_of(f, "t.biases"), k->group, k->bits,
                         is_k(f) ? "gguf_k" : NULL, NULL, ZL_FLOAT64);
}

static void check_numbers(const struct kind *k) {
    unsigned char *file = room();
    zl_file *f = zl_load_memory("gguf", file, fill(k, file));
    zl_array x = f ? number_of(f, k) : NULL;
    if (CHECK(x && zl_eval(x)))
        for (int i = 0; i < ROWS * NUMBERS; i++)
            CHECK_EQ_F64(((const double *)zl_data(x))[i],
                         k->number(file + START + i / k->block * k->bytes, i % k->block));
    else
        test_note("type %d: %s", k->type, zl_error());
    zl_file_free(f);
}

TEST(gguf_blocks_are_what_the_format_defines) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (int again = 0; again < 4; again++)
            ZL_SCOPE {
                check_numbers(&kinds[i]);
            }
}

static void check_product(const struct kind *k, int64_t rows) {
    unsigned char *file = room();
    zl_file *f = zl_load_memory("gguf", file, fill(k, file));
    zl_array x = zl_random_uniform(zl_scalar(-1), zl_scalar(1), ZL_SHAPE(rows, NUMBERS), ZL_FLOAT32,
                                   zl_random_key(rows));
    zl_array w = number_of(f, k), exact = zl_matmul(zl_astype(x, ZL_FLOAT64), zl_matrix_transpose(w));
    zl_array y = zl_quantized_matmul(x, zl_file_find(f, "t.weight"), zl_file_find(f, "t.scales"),
                                     biases_of(f), true, k->group, k->bits, is_k(f) ? "gguf_k" : NULL);
    zl_array size = zl_matmul(zl_abs(zl_astype(x, ZL_FLOAT64)), zl_abs(zl_matrix_transpose(w)));
    zl_array off = zl_divide(zl_abs(zl_subtract(zl_astype(y, ZL_FLOAT64), exact)), size);
    if (!CHECK(zl_item(zl_max(off)) < 2e-6))
        test_note("type %d, %lld rows", k->type, (long long)rows);
    zl_file_free(f);
}

TEST(gguf_products_with_blocks) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (int64_t rows = 1; rows < 20; rows += 6)
            ZL_SCOPE {
                check_product(&kinds[i], rows);
            }
}

TEST(gguf_blocks_that_are_wrong) {
    unsigned char *file = room();
    for (size_t i = 0; i < COUNT(kinds); i++) {
        size_t bytes = fill(&kinds[i], file);
        CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", file, bytes - 1));
        put_head(file, kinds[i].type, NUMBERS - kinds[i].block / 2);
        CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", file, bytes));
    }
    size_t bytes = fill(&kinds[0], file);
    file[START + 1] = 0x7b; // a scale of more than 57,000
    CHECK_ERROR(ZL_ERROR_IO, zl_load_memory("gguf", file, bytes));
}
