// gguf.h - the numbers of the gguf format.

#ifndef GGUF_H
#define GGUF_H

#include "io/io.h"

enum { GGUF_VERSION = 3, GGUF_ALIGN = 32 };

// Values of the metadata.
enum gguf_value {
    GGUF_UINT8,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_VALUES
};

// Elements of tensors. Those that are blocks become float16, or several arrays.
enum {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_I8 = 24,
    GGUF_I16 = 25,
    GGUF_I32 = 26,
    GGUF_I64 = 27,
    GGUF_F64 = 28,
    GGUF_BF16 = 30
};

// Dtype of a value or of elements, and back; ZL_DTYPE_COUNT, -1: there is none.
zl_dtype gguf_value_dtype(uint32_t value);
zl_dtype gguf_tensor_dtype(uint32_t type);
int gguf_dtype_value(zl_dtype dtype);
int gguf_dtype_tensor(zl_dtype dtype);

// gguf_blocks.c: elements quantised in blocks, as MLX's affine quantisation has them.
struct gguf_blocks {
    uint32_t type;
    int numbers, bytes; // of a block
    int bits, group;    // of what it becomes
    // of its scales and biases; ZL_UINT8: scales are bytes, as mode gguf_k of zl_dequantize has them
    zl_dtype dtype;
    int scales;         // of these elements that a block has
    void (*unpack)(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
};
const struct gguf_blocks *gguf_blocks(uint32_t type); // NULL: these are no blocks
// Adds name, its scales and, where they are no bytes, its biases; the bytes are there.
bool gguf_add_blocks(struct blob *b, zl_file *out, const char *name, const struct gguf_blocks *t,
                     zl_shape shape, size_t offset);

// Brings 16 numbers of four bits, of which each byte has one from bit `shift` on, into 8 bytes of two
// neighbours.
void gguf_pair_nibbles(const unsigned char *from, int shift, unsigned char *to);
// Packs 32 codes of five bits into 20 bytes: low[i] is the lower four bits of code i, bit i of `high` its
// fifth.
void gguf_pack_fives(const unsigned char *low, uint32_t high, unsigned char *packed);

// gguf_k.c
void gguf_unpack_q4_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
void gguf_unpack_q5_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
void gguf_unpack_q6_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);

#endif
