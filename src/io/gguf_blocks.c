// gguf_blocks.c - tensors of gguf that are quantised in blocks, as packed words, scales and biases.
//
// Q4_0: a float16 scale, 16 bytes of two numbers each; Q4_1: a scale and a bias before them; Q5_0 and Q5_1: the same with the
// fifth bits of all numbers in four bytes before these; Q8_0: a scale, 32 signed bytes. Byte j of four-bit blocks holds
// numbers j and j + 16; MLX wants neighbours in a byte.

#include "io/gguf.h"

#include <string.h>

static uint16_t half_at(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

// Numbers j and j + 16 of a byte become neighbours.
static void unpack_nibbles(const unsigned char *from, unsigned char *to) {
    for (int j = 0; j < 8; j++) {
        to[j] = (unsigned char)((from[2 * j] & 15) | from[2 * j + 1] << 4);
        to[j + 8] = (unsigned char)(from[2 * j] >> 4 | (from[2 * j + 1] & 0xf0));
    }
}

void gguf_pack_fives(const unsigned char *low, uint32_t high, unsigned char *packed) {
    for (int i = 0; i < 32; i += 8, packed += 5) {
        uint64_t eight = 0;
        for (int n = 0; n < 8; n++)
            eight |= (uint64_t)(low[i + n] | (high >> (i + n) & 1) << 4) << 5 * n;
        for (int n = 0; n < 5; n++)
            packed[n] = (unsigned char)(eight >> 8 * n);
    }
}

// The fifth bits, then the nibbles.
static void unpack_fives(const unsigned char *from, unsigned char *to) {
    unsigned char low[32];
    uint32_t high = (uint32_t)half_at(from) | (uint32_t)half_at(from + 2) << 16;
    for (int j = 0; j < 16; j++) {
        low[j] = from[4 + j] & 15;
        low[j + 16] = from[4 + j] >> 4;
    }
    gguf_pack_fives(low, high, to);
}

static void put_half(const unsigned char *scale, int offset, void *scales, void *biases) {
    uint16_t value = half_at(scale), bias = half_from_float((float)offset * half_to_float(value));
    memcpy(scales, &value, sizeof value);
    memcpy(biases, &bias, sizeof bias);
}

static void unpack_q4_0(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    put_half(block, -8, scales, biases);
    unpack_nibbles(block + 2, packed);
}

static void unpack_q4_1(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    uint16_t bias = half_at(block + 2);
    put_half(block, 0, scales, biases);
    memcpy(biases, &bias, sizeof bias);
    unpack_nibbles(block + 4, packed);
}

static void unpack_q5_0(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    put_half(block, -16, scales, biases);
    unpack_fives(block + 2, packed);
}

static void unpack_q5_1(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    memcpy(scales, block, 2);
    memcpy(biases, block + 2, 2);
    unpack_fives(block + 4, packed);
}

static void unpack_q8_0(const unsigned char *block, unsigned char *packed, void *scales, void *biases) {
    put_half(block, -128, scales, biases);
    for (int j = 0; j < 32; j++)
        packed[j] = block[2 + j] ^ 0x80; // from -128 on becomes from 0 on
}

static const struct gguf_blocks all[] = {
    {GGUF_Q4_0, 32, 18, 4, 32, ZL_FLOAT16, unpack_q4_0},
    {GGUF_Q4_1, 32, 20, 4, 32, ZL_FLOAT16, unpack_q4_1},
    {GGUF_Q5_0, 32, 22, 5, 32, ZL_FLOAT16, unpack_q5_0},
    {GGUF_Q5_1, 32, 24, 5, 32, ZL_FLOAT16, unpack_q5_1},
    {GGUF_Q8_0, 32, 34, 8, 32, ZL_FLOAT16, unpack_q8_0},
    {GGUF_Q4_K, 256, 144, 4, 32, ZL_FLOAT32, gguf_unpack_q4_k},
    {GGUF_Q5_K, 256, 176, 5, 32, ZL_FLOAT32, gguf_unpack_q5_k},
    {GGUF_Q6_K, 256, 210, 6, 16, ZL_FLOAT32, gguf_unpack_q6_k},
};

const struct gguf_blocks *gguf_blocks(uint32_t type) {
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i].type == type)
            return &all[i];
    return NULL;
}

// name.weight becomes name.end.
static bool add_part(const struct blob *b, zl_file *out, const char *name, const char *end, zl_array a) {
    struct text part = {0};
    size_t bytes = strlen(name), tail = strlen(".weight");
    if (bytes >= tail && !strcmp(name + bytes - tail, ".weight"))
        bytes -= tail;
    text_add(&part, "%.*s%s", (int)bytes, name, end);
    bool ok = !part.failed && file_list_add(out, b, part.data, a);
    text_free(&part);
    return ok;
}

struct parts {
    unsigned char *packed;
    char *scales, *biases;
};

static bool add_all(const struct blob *b, zl_file *out, const char *name, const struct gguf_blocks *t,
                    const struct parts *p, zl_shape shape) {
    OP_ROOM(int64_t, dim, shape.ndim);
    if (!dim)
        return false;
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    int64_t *last = &dim[shape.ndim - 1], count = *last;
    *last = count / t->group;
    zl_array scales = zl_from(p->scales, (zl_shape){dim, shape.ndim}, t->dtype);
    zl_array biases = zl_from(p->biases, (zl_shape){dim, shape.ndim}, t->dtype);
    *last = count / 32 * t->bits;
    zl_array packed = zl_from(p->packed, (zl_shape){dim, shape.ndim}, ZL_UINT32);
    return file_list_add(out, b, name, packed) && add_part(b, out, name, ".scales", scales) &&
           add_part(b, out, name, ".biases", biases);
}

// float16 holds the biases that follow from scales unless these are near its end.
static bool check_biases(const struct blob *b, const char *name, const struct gguf_blocks *t,
                         const struct parts *p, size_t groups) {
    for (size_t i = 0; t->dtype == ZL_FLOAT16 && i < groups; i++) {
        uint16_t scale, bias;
        memcpy(&scale, p->scales + 2 * i, sizeof scale);
        memcpy(&bias, p->biases + 2 * i, sizeof bias);
        if ((scale & 0x7c00) != 0x7c00 && (bias & 0x7fff) == 0x7c00)
            return blob_false(b, "'%.200s' has a group of scale %g, whose numbers are no float16", name,
                              (double)half_to_float(scale));
    }
    return true;
}

bool gguf_add_blocks(struct blob *b, zl_file *out, const char *name, const struct gguf_blocks *t,
                     zl_shape shape, size_t offset) {
    size_t count, numbers = (size_t)t->numbers, packed = numbers * (size_t)t->bits / 8;
    size_t scales = numbers / (size_t)t->group * zl_dtype_size(t->dtype);
    if (!blob_size(b, ZL_UINT8, shape, &count))
        return false;
    size_t blocks = count / numbers;
    struct parts p = {.packed = memory_alloc(blocks * packed + 1)};
    p.scales = memory_alloc(blocks * scales + 1);
    p.biases = memory_alloc(blocks * scales + 1);
    bool ok = p.packed && p.scales && p.biases;
    for (size_t i = 0; ok && i < blocks; i++)
        t->unpack(b->data + offset + i * (size_t)t->bytes, p.packed + i * packed, p.scales + i * scales,
                  p.biases + i * scales);
    ok = ok && check_biases(b, name, t, &p, count / (size_t)t->group) && add_all(b, out, name, t, &p, shape);
    memory_free(p.packed);
    memory_free(p.scales);
    memory_free(p.biases);
    return ok;
}
