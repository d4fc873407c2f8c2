// sort_keys.c - converts elements of each dtype to sort keys (sort.h), and back.

#include "device/cpu/order/sort.h"

// Converts elements, as bits of an unsigned type, to keys and back.
#define KEYS(name, type, key_type, to_key, to_bits)                      \
    static void load_##name(const char *from, int64_t n, void *keys) {   \
        key_type *key = keys;                                            \
        for (int64_t i = 0; i < n; i++) {                                \
            type bits;                                                   \
            memcpy(&bits, from + i * (int64_t)sizeof bits, sizeof bits); \
            key[i] = (type)(to_key);                                     \
        }                                                                \
    }                                                                    \
    static void store_##name(const void *keys, int64_t n, char *to) {    \
        const key_type *key = keys;                                      \
        for (int64_t i = 0; i < n; i++) {                                \
            type bits = (type)key[i];                                    \
            bits = (type)(to_bits);                                      \
            memcpy(to + i * (int64_t)sizeof bits, &bits, sizeof bits);   \
        }                                                                \
    }

// The key of a float: positive numbers get the sign bit, negative ones are inverted. All NaN have the largest
// key.
#define ALL_BITS(sign) ((sign) | ((sign)-1))
#define FLOAT_KEY(sign, infinity)                             \
    ((bits & ((sign)-1)) > (infinity) ? ALL_BITS(sign)        \
     : bits & (sign)                  ? bits ^ ALL_BITS(sign) \
                                      : bits | (sign))
#define FLOAT_BITS(sign) (bits & (sign) ? bits ^ (sign) : bits ^ ALL_BITS(sign))

#define SIGN16 0x8000u
#define SIGN32 0x80000000u
#define SIGN64 0x8000000000000000u

KEYS(u8, uint8_t, uint32_t, bits, bits)
KEYS(u16, uint16_t, uint32_t, bits, bits)
KEYS(u32, uint32_t, uint32_t, bits, bits)
KEYS(u64, uint64_t, uint64_t, bits, bits)
KEYS(i8, uint8_t, uint32_t, bits ^ 0x80u, bits ^ 0x80u)
KEYS(i16, uint16_t, uint32_t, bits ^ SIGN16, bits ^ SIGN16)
KEYS(i32, uint32_t, uint32_t, bits ^ SIGN32, bits ^ SIGN32)
KEYS(i64, uint64_t, uint64_t, bits ^ SIGN64, bits ^ SIGN64)
KEYS(f16, uint16_t, uint32_t, FLOAT_KEY(SIGN16, 0x7c00u), FLOAT_BITS(SIGN16))
KEYS(bf16, uint16_t, uint32_t, FLOAT_KEY(SIGN16, 0x7f80u), FLOAT_BITS(SIGN16))
KEYS(f32, uint32_t, uint32_t, FLOAT_KEY(SIGN32, 0x7f800000u), FLOAT_BITS(SIGN32))
KEYS(f64, uint64_t, uint64_t, FLOAT_KEY(SIGN64, 0x7ff0000000000000u), FLOAT_BITS(SIGN64))

// Returns the key of one part of a complex number; 0 and -0 have the same key.
static uint32_t part_key(uint32_t bits) {
    bits = bits == SIGN32 ? 0 : bits;
    return FLOAT_KEY(SIGN32, 0x7f800000u);
}

// Makes keys that compare the real parts, then the imaginary ones; NaN if either part is. They cannot be
// converted back.
static void load_c64(const char *from, int64_t n, void *keys) {
    uint64_t *key = keys;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[2];
        memcpy(bits, from + i * (int64_t)sizeof bits, sizeof bits);
        uint32_t re = part_key(bits[0]), im = part_key(bits[1]);
        key[i] = re == UINT32_MAX || im == UINT32_MAX ? UINT64_MAX : (uint64_t)re << 32 | im;
    }
}

const struct sort_order *cpu_sort_order(zl_dtype dtype) {
    static const struct sort_order orders[ZL_DTYPE_COUNT] = {
        [ZL_BOOL] = {load_u8, store_u8, 0, false},
        [ZL_UINT8] = {load_u8, store_u8, 0, false},
        [ZL_UINT16] = {load_u16, store_u16, 0, false},
        [ZL_UINT32] = {load_u32, store_u32, 0, false},
        [ZL_UINT64] = {load_u64, store_u64, 0, true},
        [ZL_INT8] = {load_i8, store_i8, 0, false},
        [ZL_INT16] = {load_i16, store_i16, 0, false},
        [ZL_INT32] = {load_i32, store_i32, 0, false},
        [ZL_INT64] = {load_i64, store_i64, 0, true},
        [ZL_FLOAT16] = {load_f16, store_f16, SIGN16 - 1, false},
        [ZL_BFLOAT16] = {load_bf16, store_bf16, SIGN16 - 1, false},
        [ZL_FLOAT32] = {load_f32, store_f32, SIGN32 - 1, false},
        [ZL_FLOAT64] = {load_f64, store_f64, SIGN64 - 1, true},
        [ZL_COMPLEX64] = {load_c64, NULL, 0, true},
    };
    return &orders[dtype];
}

void cpu_sort_load_equal(const struct sort_order *o, const char *from, int64_t n, void *key) {
    uint32_t *narrow = key;
    uint64_t *wide = key;
    o->load(from, n, key);
    if (!o->minus_zero)
        return;
    for (int64_t i = 0; !o->is_long && i < n; i++)
        narrow[i] += narrow[i] == o->minus_zero;
    for (int64_t i = 0; o->is_long && i < n; i++)
        wide[i] += wide[i] == o->minus_zero;
}
