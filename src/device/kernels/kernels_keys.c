// kernels_keys.c - keys, by which elements are sorted and searched: unsigned numbers in the order of the elements, NaN last.

#include "device/kernels/kernels.h"

static const char part_of_float[] = "FN KEY key_of_bits(KEY bits) {\n"
                                    "    if (ZEROS_ARE_ONE && bits == SIGN)\n"
                                    "        bits = 0;\n"
                                    "    if ((bits & (SIGN - 1)) > INFINITE)\n"
                                    "        return SIGN | (SIGN - 1);\n"
                                    "    return bits & SIGN ? bits ^ (SIGN | (SIGN - 1)) : bits | SIGN;\n"
                                    "}\n";

// By the real part, then by the imaginary one; NaN if either is.
static const char complex_key[] =
    "FN u64 key_of(ITEM x) {\n"
    "    u32 re = key_of_bits((u32)x), im = key_of_bits((u32)(x >> 32));\n"
    "    return re == 0xffffffffu || im == 0xffffffffu ? 0xffffffffffffffffu : (u64)re << 32 | im;\n"
    "}\n";

size_t kernel_key_bytes(zl_dtype dtype) {
    return zl_dtype_size(dtype) == 8 ? 8 : 4;
}

void kernel_write_key(struct text *out, zl_dtype dtype, bool zeros_are_one) {
    static const struct {
        const char *sign, *infinite;
    } floats[ZL_DTYPE_COUNT] = {
        [ZL_FLOAT16] = {"0x8000u", "0x7c00u"},
        [ZL_BFLOAT16] = {"0x8000u", "0x7f80u"},
        [ZL_FLOAT32] = {"0x80000000u", "0x7f800000u"},
        [ZL_COMPLEX64] = {"0x80000000u", "0x7f800000u"},
        [ZL_FLOAT64] = {"0x8000000000000000u", "0x7ff0000000000000u"},
    };
    int bits = 8 * (int)zl_dtype_size(dtype), wide = 8 * (int)kernel_key_bytes(dtype);
    text_add(out, "#define ITEM u%d\n", bits);
    if (floats[dtype].sign) {
        text_add(
            out,
            "#define KEY u%d\n#define SIGN ((KEY)%s)\n#define INFINITE ((KEY)%s)\n#define ZEROS_ARE_ONE %d\n",
            dtype == ZL_COMPLEX64 ? 32 : wide, floats[dtype].sign, floats[dtype].infinite,
            zeros_are_one || dtype == ZL_COMPLEX64);
        text_add(out, "%s%s", part_of_float,
                 dtype == ZL_COMPLEX64 ? complex_key : "FN KEY key_of(ITEM x) { return key_of_bits(x); }\n");
    } else if (dtype_is_integer(dtype) && tile_type_of(dtype).kind == TILE_INT)
        text_add(out, "FN u%d key_of(ITEM x) { return (ITEM)(x ^ ((ITEM)1 << %d)); }\n", wide, bits - 1);
    else
        text_add(out, "FN u%d key_of(ITEM x) { return x; }\n", wide);
}
