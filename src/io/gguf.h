// gguf.h - the numbers of the gguf format.

#ifndef GGUF_H
#define GGUF_H

#include "io/io.h"

enum { GGUF_VERSION = 3, GGUF_ALIGN = 32 };

// Types of metadata values.
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

// Types of tensor elements. Those in blocks become float16, or several arrays.
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

// Return the dtype of a metadata value type; of a tensor element type. ZL_DTYPE_COUNT: there is none.
zl_dtype gguf_value_dtype(uint32_t value);
zl_dtype gguf_tensor_dtype(uint32_t type);
// Return, for a dtype, the type of metadata values; of tensor elements. -1: there is none.
int gguf_dtype_value(zl_dtype dtype);
int gguf_dtype_tensor(zl_dtype dtype);

// gguf_blocks.c: a type of tensor elements quantised in blocks, and the form that it is unpacked to: MLX's
// affine quantisation, or mode gguf_k of zl_dequantize.
struct gguf_blocks {
    uint32_t type;
    int numbers, bytes; // elements and bytes of a block
    int bits, group;    // bits of a code, and elements of a group, after unpacking
    // of the unpacked scales and biases; ZL_UINT8: scales are the bytes of mode gguf_k, and there are no
    // biases
    zl_dtype dtype;
    int scales;         // number of elements of this dtype that are the scales of a block
    void (*unpack)(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
};
// Returns how blocks of this type are unpacked, or NULL if the type does not consist of blocks.
const struct gguf_blocks *gguf_blocks(uint32_t type);
// Unpacks the blocks at an offset, and appends the packed words, their scales and, unless scales are bytes,
// their biases to `out`. The caller has checked that the bytes are there. Returns false, with an error, if
// that fails.
bool gguf_add_blocks(struct blob *b, zl_file *out, const char *name, const struct gguf_blocks *t,
                     zl_shape shape, size_t offset);

// Packs 16 numbers of four bits, which are in bits [shift, shift + 4) of 16 bytes, into 8 bytes: two
// neighbours per byte, the first one in the low bits.
void gguf_pair_nibbles(const unsigned char *from, int shift, unsigned char *to);
// Packs 32 codes of five bits into 20 bytes: low[i] is the lower four bits of code i, bit i of `high` its
// fifth.
void gguf_pack_fives(const unsigned char *low, uint32_t high, unsigned char *packed);

// Unpacks a block of Q4_K, Q5_K or Q6_K (gguf_k.c), for the `unpack` of struct gguf_blocks. biases is
// ignored.
void gguf_unpack_q4_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
void gguf_unpack_q5_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);
void gguf_unpack_q6_k(const unsigned char *block, unsigned char *packed, void *scales, void *biases);

#endif
