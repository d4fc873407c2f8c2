// gguf_blocks.c - tensors of gguf that are quantised in blocks of 32, as packed words, scales and biases.
//
// Q4_0: a float16 scale, 16 bytes of two numbers each; Q4_1: a scale and a bias before them; Q8_0: a scale, 32 signed
// bytes. Byte j of four-bit blocks holds numbers j and j + 16; MLX wants neighbours in a byte.

#include "io/gguf.h"

#include <string.h>

enum { BLOCK = 32 };

bool gguf_is_blocks(uint32_t type) {
    return type == GGUF_Q4_0 || type == GGUF_Q4_1 || type == GGUF_Q8_0;
}

size_t gguf_block_bytes(uint32_t type) {
    return type == GGUF_Q4_0 ? 18 : type == GGUF_Q4_1 ? 20 : 34;
}

static void unpack_nibbles(const unsigned char *from, unsigned char *to) {
    for (int j = 0; j < 8; j++) {
        to[j] = (unsigned char)((from[2 * j] & 15) | from[2 * j + 1] << 4);
        to[j + 8] = (unsigned char)(from[2 * j] >> 4 | (from[2 * j + 1] & 0xf0));
    }
}

static void unpack_bytes(const unsigned char *from, unsigned char *to) {
    for (int j = 0; j < BLOCK; j++)
        to[j] = from[j] ^ 0x80; // from -128 on becomes from 0 on
}

static void unpack(uint32_t type, const unsigned char *p, unsigned char *packed, uint16_t *scale,
                   uint16_t *bias) {
    *scale = (uint16_t)(p[0] | p[1] << 8);
    if (type == GGUF_Q4_1)
        *bias = (uint16_t)(p[2] | p[3] << 8);
    else
        *bias = half_from_float((type == GGUF_Q4_0 ? -8 : -128) * half_to_float(*scale));
    if (type == GGUF_Q8_0)
        unpack_bytes(p + 2, packed);
    else
        unpack_nibbles(p + (type == GGUF_Q4_1 ? 4 : 2), packed);
}

// name.weight becomes name.end.
static bool add_part(zl_file *out, const char *name, const char *end, zl_array a) {
    struct text part = {0};
    size_t bytes = strlen(name), tail = strlen(".weight");
    if (bytes >= tail && !strcmp(name + bytes - tail, ".weight"))
        bytes -= tail;
    text_add(&part, "%.*s%s", (int)bytes, name, end);
    bool ok = !part.failed && zl_file_add(out, part.data, a);
    text_free(&part);
    return ok;
}

struct parts {
    unsigned char *packed;
    uint16_t *scales, *biases;
};

static bool add_all(zl_file *out, const char *name, const struct parts *p, zl_shape shape, int64_t last,
                    int64_t words) {
    OP_ROOM(int64_t, dim, shape.ndim);
    if (!dim)
        return false;
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    dim[shape.ndim - 1] = last;
    zl_array scales = zl_from(p->scales, (zl_shape){dim, shape.ndim}, ZL_FLOAT16);
    zl_array biases = zl_from(p->biases, (zl_shape){dim, shape.ndim}, ZL_FLOAT16);
    dim[shape.ndim - 1] = last * words;
    zl_array packed = zl_from(p->packed, (zl_shape){dim, shape.ndim}, ZL_UINT32);
    return zl_file_add(out, name, packed) && add_part(out, name, ".scales", scales) &&
           add_part(out, name, ".biases", biases);
}

bool gguf_add_blocks(struct blob *b, zl_file *out, const char *name, uint32_t type, zl_shape shape,
                     size_t offset) {
    size_t bytes, block = gguf_block_bytes(type), packed = type == GGUF_Q8_0 ? 32 : 16;
    if (!blob_size(b, ZL_UINT8, shape, &bytes))
        return false;
    size_t blocks = bytes / BLOCK;
    struct parts p = {.packed = memory_alloc(blocks * packed + 1)};
    p.scales = memory_alloc(blocks * 2 + 1);
    p.biases = memory_alloc(blocks * 2 + 1);
    bool ok = p.packed && p.scales && p.biases;
    for (size_t i = 0; ok && i < blocks; i++)
        unpack(type, b->data + offset + i * block, p.packed + i * packed, &p.scales[i], &p.biases[i]);
    ok = ok && add_all(out, name, &p, shape, shape.dim[shape.ndim - 1] / BLOCK, (int64_t)packed / 4);
    memory_free(p.packed);
    memory_free(p.scales);
    memory_free(p.biases);
    return ok;
}
