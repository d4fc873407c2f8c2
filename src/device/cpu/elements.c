// elements.c - single elements, block by block, read from places or put there: slices of one element.

#include "device/cpu/cpu.h"
#include "device/cpu/element_ops.h"
#include "op/ops.h"

#define GATHER(type)                                                                          \
    static void gather_##type(char *to, const char *from, const int64_t *offset, int64_t n) { \
        for (int64_t i = 0; i < n; i++)                                                       \
            memcpy(to + i * (int64_t)sizeof(type), from + offset[i], sizeof(type));           \
    }
GATHER(uint8_t)
GATHER(uint16_t)
GATHER(uint32_t)
GATHER(uint64_t)

gather_fn *cpu_gather_elements(size_t item) {
    return item == 1   ? gather_uint8_t
           : item == 2 ? gather_uint16_t
           : item == 4 ? gather_uint32_t
                       : gather_uint64_t;
}

#define SCATTER(name, type, result)                                                              \
    static void scatter_##name(char *out, const int64_t *offset, const char *from, int64_t step, \
                               int64_t n) {                                                      \
        for (int64_t i = 0; i < n; i++) {                                                        \
            type a, b;                                                                           \
            if (offset[i] < 0)                                                                   \
                continue;                                                                        \
            memcpy(&a, out + offset[i], sizeof a);                                               \
            memcpy(&b, from + i * step, sizeof b);                                               \
            a = (type)(result);                                                                  \
            memcpy(out + offset[i], &a, sizeof a);                                               \
        }                                                                                        \
    }

// Those of whole numbers and floats; sums and products of wide are taken in it, so that they wrap around.
#define SCATTER_NUMBERS(name, type, wide)                 \
    SCATTER(name##_add, type, ADD_OF((wide)a, (wide)b))   \
    SCATTER(name##_prod, type, PROD_OF((wide)a, (wide)b)) \
    SCATTER(name##_max, type, MAX_WINS(a, b))             \
    SCATTER(name##_min, type, MIN_WINS(a, b))

SCATTER(1, uint8_t, SET_OF(a, b))
SCATTER(2, uint16_t, SET_OF(a, b))
SCATTER(4, uint32_t, SET_OF(a, b))
SCATTER(8, uint64_t, SET_OF(a, b))
SCATTER(bool_or, uint8_t, OR_OF(a, b))
SCATTER(bool_and, uint8_t, AND_OF(a, b))
SCATTER_NUMBERS(u8, uint8_t, uint32_t)
SCATTER_NUMBERS(u16, uint16_t, uint32_t)
SCATTER_NUMBERS(u32, uint32_t, uint32_t)
SCATTER_NUMBERS(u64, uint64_t, uint64_t)
SCATTER_NUMBERS(i8, int8_t, uint32_t)
SCATTER_NUMBERS(i16, int16_t, uint32_t)
SCATTER_NUMBERS(i32, int32_t, uint32_t)
SCATTER_NUMBERS(i64, int64_t, uint64_t)
SCATTER_NUMBERS(f32, float, float)
SCATTER_NUMBERS(f64, double, double)
SCATTER(f16_add, float16, F16(ADD_OF))
SCATTER(f16_prod, float16, F16(PROD_OF))
SCATTER(f16_max, float16, F16(MAX_WINS))
SCATTER(f16_min, float16, F16(MIN_WINS))
SCATTER(bf16_add, bfloat16, BF16(ADD_OF))
SCATTER(bf16_prod, bfloat16, BF16(PROD_OF))
SCATTER(bf16_max, bfloat16, BF16(MAX_WINS))
SCATTER(bf16_min, bfloat16, BF16(MIN_WINS))
SCATTER(c64_add, complex64, complex_add(a, b))
SCATTER(c64_prod, complex64, complex_prod(a, b))
SCATTER(c64_max, complex64, complex_max(a, b))
SCATTER(c64_min, complex64, complex_min(a, b))

scatter_fn *cpu_scatter_elements(int update, zl_dtype dtype) {
#define ROW(name) \
    { scatter_##name##_add, scatter_##name##_prod, scatter_##name##_max, scatter_##name##_min }
    static scatter_fn *const combine[ZL_DTYPE_COUNT][UPDATE_MIN] = {
        [ZL_BOOL] = {scatter_bool_or, scatter_bool_and, scatter_bool_or, scatter_bool_and},
        [ZL_UINT8] = ROW(u8),
        [ZL_UINT16] = ROW(u16),
        [ZL_UINT32] = ROW(u32),
        [ZL_UINT64] = ROW(u64),
        [ZL_INT8] = ROW(i8),
        [ZL_INT16] = ROW(i16),
        [ZL_INT32] = ROW(i32),
        [ZL_INT64] = ROW(i64),
        [ZL_FLOAT16] = ROW(f16),
        [ZL_BFLOAT16] = ROW(bf16),
        [ZL_FLOAT32] = ROW(f32),
        [ZL_FLOAT64] = ROW(f64),
        [ZL_COMPLEX64] = ROW(c64),
    };
    size_t item = zl_dtype_size(dtype);
    if (update != UPDATE_SET)
        return combine[dtype][update - 1];
    return item == 1 ? scatter_1 : item == 2 ? scatter_2 : item == 4 ? scatter_4 : scatter_8;
}
