// gguf_k.c - the blocks of 256 numbers of gguf, whose groups have scales that are small whole numbers times one of the block.
// What they stand for is exact: such products fit float32.

#include "io/gguf.h"

#include <string.h>

static float float_at(const unsigned char *p) {
    return half_to_float((uint16_t)(p[0] | p[1] << 8));
}

static void put(void *list, int at, float value) {
    memcpy((char *)list + at * (int)sizeof value, &value, sizeof value);
}

// Scales and biases of Q4_K, 6 bits each, in 12 bytes: the low bits of the first four, of four biases, then four bits of each
// of the other four pairs, whose high bits are on top of the former.
static void read_six(const unsigned char *p, int group, int *scale, int *bias) {
    if (group < 4) {
        *scale = p[group] & 63;
        *bias = p[group + 4] & 63;
    } else {
        *scale = (p[group + 4] & 15) | p[group - 4] >> 6 << 4;
        *bias = p[group + 4] >> 4 | p[group] >> 6 << 4;
    }
}

// Scale and bias of a group of Q4_K or Q5_K, which both begin with a scale, one of the biases, and 12 bytes for eight groups.
static void put_numbers(const unsigned char *block, int group, void *scales, void *biases) {
    int scale, bias;
    read_six(block + 4, group, &scale, &bias);
    put(scales, group, float_at(block) * (float)scale);
    put(biases, group, -(float_at(block + 2) * (float)bias));
}

// Then two groups in 32 bytes each: a byte has a number of both.
void gguf_unpack_q4_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    for (int g = 0; g < 8; g++) {
        const unsigned char *from = block + 16 + g / 2 * 32;
        int shift = g % 2 * 4;
        put_numbers(block, g, scales, biases);
        for (int j = 0; j < 16; j++)
            *packed++ = (unsigned char)((from[2 * j] >> shift & 15) | (from[2 * j + 1] >> shift & 15) << 4);
    }
}

// The same after 32 bytes of fifth bits: bit g of byte i is that of number i of group g.
void gguf_unpack_q5_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    for (int g = 0; g < 8; g++, packed += 20) {
        unsigned char low[32];
        uint32_t high = 0;
        put_numbers(block, g, scales, biases);
        for (int i = 0; i < 32; i++) {
            low[i] = block[48 + g / 2 * 32 + i] >> g % 2 * 4 & 15;
            high |= (uint32_t)(block[16 + i] >> g & 1) << i;
        }
        gguf_pack_fives(low, high, packed);
    }
}

// Number i of a half of a block of Q6_K: of its 64 bytes of low bits, then 32 of high ones.
static unsigned code_at(const unsigned char *low, const unsigned char *high, int i) {
    int quarter = i / 32, place = i % 32;
    unsigned four = low[place + quarter % 2 * 32] >> (quarter / 2 * 4) & 15;
    return four | (high[place] >> 2 * quarter & 3u) << 4;
}

// 128 bytes of low bits, 64 of high bits, 16 signed scales of as many numbers, and one for all. Codes are less by 32.
void gguf_unpack_q6_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    float whole = float_at(block + 208);
    for (int g = 0; g < 16; g++) {
        int8_t byte;
        memcpy(&byte, block + 192 + g, 1);
        put(scales, g, whole * (float)byte);
        put(biases, g, -32 * (whole * (float)byte));
    }
    for (int i = 0; i < 256; i += 8, packed += 6) {
        uint64_t eight = 0;
        for (int n = 0; n < 8; n++)
            eight |= (uint64_t)code_at(block + i / 128 * 64, block + 128 + i / 128 * 32, i % 128 + n)
                     << 6 * n;
        for (int n = 0; n < 6; n++)
            packed[n] = (unsigned char)(eight >> 8 * n);
    }
}
