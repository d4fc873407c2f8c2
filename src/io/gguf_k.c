// gguf_k.c - gguf's blocks of 256 elements ("K-quants"): the scale of each group is a small integer times the
// scale of the block. Codes are reordered into packed words; the bytes of scales are kept as they are, in the
// form that mode gguf_k reads.

#include "io/gguf.h"

#include <string.h>

enum { SCALES = 16, GROUPS_6 = 16 }; // bytes of the scales of Q4_K and Q5_K; groups of Q6_K

// Unpacks Q4_K. After the scales, each pair of groups shares 32 bytes: the first group has the low nibbles,
// the second the high ones.
void gguf_unpack_q4_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    (void)biases;
    memcpy(scales, block, SCALES);
    for (int g = 0; g < 8; g++, packed += 16)
        for (int half = 0; half < 2; half++)
            gguf_pair_nibbles(block + SCALES + g / 2 * 32 + half * 16, g % 2 * 4, packed + half * 8);
}

// Unpacks Q5_K: as Q4_K, but after 32 bytes of fifth bits. Bit g of byte i belongs to element i of group g.
void gguf_unpack_q5_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    (void)biases;
    memcpy(scales, block, SCALES);
    for (int g = 0; g < 8; g++, packed += 20) {
        unsigned char low[32];
        uint32_t high = 0;
        for (int i = 0; i < 32; i++) {
            low[i] = block[48 + g / 2 * 32 + i] >> g % 2 * 4 & 15;
            high |= (uint32_t)(block[16 + i] >> g & 1) << i;
        }
        gguf_pack_fives(low, high, packed);
    }
}

// Reads quarter q of half a block of Q6_K: 32 codes, one per byte, from 64 bytes of low bits and 32 bytes of
// high bits.
static void read_quarter(const unsigned char *low, const unsigned char *high, int q, unsigned char *code) {
    typedef uint8_t bytes16 __attribute__((vector_size(16)));
    for (int i = 0; i < 32; i += 16) {
        bytes16 four, two;
        memcpy(&four, low + q % 2 * 32 + i, sizeof four);
        memcpy(&two, high + i, sizeof two);
        four = (q / 2 ? four >> 4 : four & 15) | (two >> 2 * q & 3) << 4;
        memcpy(code + i, &four, sizeof four);
    }
}

// Packs eight codes of six bits, one per byte, into six bytes.
static void pack_sixes(const unsigned char *code, unsigned char *packed) {
    uint64_t x;
    memcpy(&x, code, sizeof x);
    x = (x & 0x3f0000003f) | (x >> 2 & 0xfc000000fc0) | (x >> 4 & 0x3f0000003f000) |
        (x >> 6 & 0xfc000000fc0000);
    x = (x & 0xffffff) | x >> 32 << 24;
    for (int n = 0; n < 6; n++)
        packed[n] = (unsigned char)(x >> 8 * n);
}

// Unpacks Q6_K. A block has 128 bytes of low bits, 64 of high bits, 16 signed scales of 16 elements each, and
// a scale of the block. Codes are stored with 32 added.
void gguf_unpack_q6_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    (void)biases;
    memcpy(scales, block + 192, GROUPS_6);
    memcpy((char *)scales + GROUPS_6, block + 208, 2);
    for (int q = 0; q < 8; q++) {
        unsigned char code[32];
        read_quarter(block + q / 4 * 64, block + 128 + q / 4 * 32, q % 4, code);
        for (int i = 0; i < 32; i += 8, packed += 6)
            pack_sixes(code + i, packed);
    }
}
