// gguf_blocks.c - unpacks tensors of gguf that are quantised in blocks into packed words, scales and biases.
//
// Q4_0 has an f16 scale and 16 bytes of two elements each; Q4_1 has a scale and a bias before them. Q5_0 and
// Q5_1 are the same, with the fifth bits of all elements in four bytes before the 16 bytes. Q8_0 has a scale
// and 32 signed bytes. Byte j of four-bit blocks holds elements j and j + 16; MLX expects neighbours in a
// byte.

#include "io/gguf.h"

#include <string.h>

static uint16_t half_at(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

void gguf_pair_nibbles(const unsigned char *from, int shift, unsigned char *to) {
    typedef uint16_t words8 __attribute__((vector_size(16)));
    typedef uint8_t bytes8 __attribute__((vector_size(8)));
    words8 both;
    memcpy(&both, from, sizeof both);
    both = both >> shift & 0x0f0f;
    bytes8 pairs = __builtin_convertvector((both | both >> 4) & 0xff, bytes8);
    memcpy(to, &pairs, sizeof pairs);
}

// Unpacks a block's nibbles and packs them again in the order of elements: byte j has elements j and j + 16.
static void unpack_nibbles(const unsigned char *from, unsigned char *to) {
    gguf_pair_nibbles(from, 0, to);
    gguf_pair_nibbles(from, 4, to + 8);
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

// Unpacks the fifth bits, which come first, and then the nibbles.
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
        packed[j] = block[2 + j] ^ 0x80; // codes start at 0 instead of -128
}

static const struct gguf_blocks all[] = {
    {GGUF_Q4_0, 32, 18, 4, 32, ZL_FLOAT16, 1, unpack_q4_0},
    {GGUF_Q4_1, 32, 20, 4, 32, ZL_FLOAT16, 1, unpack_q4_1},
    {GGUF_Q5_0, 32, 22, 5, 32, ZL_FLOAT16, 1, unpack_q5_0},
    {GGUF_Q5_1, 32, 24, 5, 32, ZL_FLOAT16, 1, unpack_q5_1},
    {GGUF_Q8_0, 32, 34, 8, 32, ZL_FLOAT16, 1, unpack_q8_0},
    {GGUF_Q4_K, 256, 144, 4, 32, ZL_UINT8, 16, gguf_unpack_q4_k},
    {GGUF_Q5_K, 256, 176, 5, 32, ZL_UINT8, 16, gguf_unpack_q5_k},
    {GGUF_Q6_K, 256, 210, 6, 16, ZL_UINT8, 18, gguf_unpack_q6_k},
};

const struct gguf_blocks *gguf_blocks(uint32_t type) {
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i].type == type)
            return &all[i];
    return NULL;
}

// Adds a part of the tensor "name.weight" under the name "name.end".
static bool add_part(const struct blob *b, zl_file *out, const char *name, const char *end, zl_array a) {
    struct text part = {0};
    size_t bytes = strlen(name), tail = strlen(".weight");
    if (bytes >= tail && !strcmp(name + bytes - tail, ".weight"))
        bytes -= tail;
    text_add(&part, "%.*s%s", (int)bytes, name, end);
    bool ok = !part.failed && io_file_list_add(out, b, part.data, a);
    text_free(&part);
    return ok;
}

// The arrays that a tensor is unpacked into: packed words, scales and biases.
enum { WORDS, SCALES, BIASES, PARTS };
enum { LEAVE_EACH = 1 << 20 }; // bytes of the file after which pages are released
struct parts {
    const struct gguf_blocks *type;
    const struct blob *blob;
    size_t from; // offset in the blob
    size_t blocks;
    int pieces;          // number of pieces that are unpacked in parallel
    size_t bytes[PARTS]; // per block; 0: there is no such part
    struct storage *to[PARTS];
};

// Returns NULL if the format has no such part.
static unsigned char *part_at(const struct parts *p, int part, size_t block) {
    return p->to[part] ? (unsigned char *)p->to[part]->data + block * p->bytes[part] : NULL;
}

static size_t block_at(const struct parts *p, size_t block) {
    return p->from + block * (size_t)p->type->bytes;
}

// Unpacks one of several pieces of the blocks, and releases the pages of the file that it has read: otherwise
// the packed and the unpacked data would both be in memory.
static void unpack_piece(void *data, int piece) {
    const struct parts *p = data;
    const size_t pieces = (size_t)p->pieces, from = p->blocks * (size_t)piece / pieces,
                 to = p->blocks * ((size_t)piece + 1) / pieces;
    size_t next = from; // the first block whose pages are not released yet
    for (size_t i = from; i < to; i++) {
        p->type->unpack(p->blob->data + block_at(p, i), part_at(p, WORDS, i), part_at(p, SCALES, i),
                        part_at(p, BIASES, i));
        if (block_at(p, i + 1) - block_at(p, next) < LEAVE_EACH && i + 1 < to)
            continue;
        blob_leave(p->blob, block_at(p, next), block_at(p, i + 1));
        next = i + 1;
    }
}

static bool open_parts(struct parts *p) {
    bool ok = true;
    for (int i = 0; ok && i < PARTS; i++)
        ok = !p->bytes[i] || (p->to[i] = storage_new(p->blocks * p->bytes[i]));
    return ok;
}

static void close_parts(struct parts *p) {
    for (int i = 0; i < PARTS; i++)
        if (p->to[i])
            storage_release(p->to[i]);
}

// Returns a part as an array, which takes over its storage. Its shape is `shape`, except for the last size.
static zl_array part_array(struct parts *p, int part, zl_shape shape, zl_dtype dtype) {
    OP_TEMP(int64_t, dim, shape.ndim);
    struct storage *to = p->to[part];
    if (!dim)
        return NULL;
    for (int i = 0; i < shape.ndim; i++)
        dim[i] = shape.dim[i];
    dim[shape.ndim - 1] =
        dim[shape.ndim - 1] / p->type->numbers * (int64_t)(p->bytes[part] / zl_dtype_size(dtype));
    p->to[part] = NULL;
    return graph_leaf(&(struct array_spec){.dtype = dtype, .ndim = shape.ndim, .dim = dim}, to);
}

static bool add_all(const struct blob *b, zl_file *out, const char *name, struct parts *p, zl_shape shape) {
    zl_dtype dtype = p->type->dtype;
    zl_array words = part_array(p, WORDS, shape, ZL_UINT32), scales = part_array(p, SCALES, shape, dtype);
    zl_array biases = p->bytes[BIASES] ? part_array(p, BIASES, shape, dtype) : NULL;
    return io_file_list_add(out, b, name, words) && add_part(b, out, name, ".scales", scales) &&
           (!p->bytes[BIASES] || add_part(b, out, name, ".biases", biases));
}

// Checks that the biases are finite in f16. They are computed from the scales, and scales near the limit of
// f16 can give larger biases.
static bool check_biases(const struct blob *b, const char *name, const struct parts *p) {
    for (size_t i = 0; p->bytes[BIASES] && i < p->blocks; i++) {
        uint16_t scale, bias;
        memcpy(&scale, part_at(p, SCALES, i), sizeof scale);
        memcpy(&bias, part_at(p, BIASES, i), sizeof bias);
        if ((scale & 0x7c00) != 0x7c00 && (bias & 0x7fff) == 0x7c00)
            return blob_false(b, "'%.200s' has a group of scale %g, whose numbers are no float16", name,
                              (double)half_to_float(scale));
    }
    return true;
}

bool gguf_add_blocks(struct blob *b, zl_file *out, const char *name, const struct gguf_blocks *t,
                     zl_shape shape, size_t offset) {
    size_t count, scales = (size_t)t->scales * zl_dtype_size(t->dtype);
    if (!blob_size(b, ZL_UINT8, shape, &count))
        return false;
    struct parts p = {
        .type = t,
        .blob = b,
        .from = offset,
        .blocks = count / (size_t)t->numbers,
        .pieces = pool_threads(),
        .bytes = {(size_t)t->numbers * (size_t)t->bits / 8, scales, t->dtype == ZL_UINT8 ? 0 : scales}};
    bool ok = open_parts(&p);
    if (ok)
        pool_run(p.pieces, unpack_piece, &p);
    ok = ok && check_biases(b, name, &p) && add_all(b, out, name, &p, shape);
    close_parts(&p);
    return ok;
}
