// elements.c - gathers and scatters slices of one element, block by block.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/element_ops.h"
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

#define OF_SIZE(name, item)          \
    ((item) == 1   ? name##_uint8_t  \
     : (item) == 2 ? name##_uint16_t \
     : (item) == 4 ? name##_uint32_t \
                   : name##_uint64_t)

gather_fn *cpu_gather_elements(size_t item) {
    return OF_SIZE(gather, item);
}

// Takes or puts elements by contiguous indices, in one pass.
#define INDEXED(index, type)                                                                                \
    static void take_##index##_##type(char *out, const struct indexed *axis, const char *indices,           \
                                      int64_t n) {                                                          \
        const struct indexed x = *axis;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            index value;                                                                                    \
            memcpy(&value, indices + i * (int64_t)sizeof value, sizeof value);                              \
            int64_t at = cpu_position((int64_t)value, x.dim, x.dim - 1);                                    \
            memcpy(out + i * (int64_t)sizeof(type), x.data + i * x.apart + at * x.step, sizeof(type));      \
        }                                                                                                   \
    }                                                                                                       \
    static void put_##index##_##type(const char *from, const struct indexed *axis, const char *indices,     \
                                     int64_t n) {                                                           \
        const struct indexed x = *axis;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            index value;                                                                                    \
            memcpy(&value, indices + i * (int64_t)sizeof value, sizeof value);                              \
            int64_t at = cpu_from_start((int64_t)value, x.dim);                                             \
            if (at >= 0 && at < x.dim)                                                                      \
                memcpy(x.data + i * x.apart + at * x.step, from + i * (int64_t)sizeof(type), sizeof(type)); \
        }                                                                                                   \
    }
#define INDEXED_BY(index)    \
    INDEXED(index, uint8_t)  \
    INDEXED(index, uint16_t) \
    INDEXED(index, uint32_t) \
    INDEXED(index, uint64_t)
INDEXED_BY(uint32_t)
INDEXED_BY(int32_t)
INDEXED_BY(int64_t)

take_fn *cpu_take_elements(zl_dtype index, size_t item) {
    return index == ZL_UINT32  ? OF_SIZE(take_uint32_t, item)
           : index == ZL_INT32 ? OF_SIZE(take_int32_t, item)
           : index == ZL_INT64 ? OF_SIZE(take_int64_t, item)
                               : NULL;
}

put_fn *cpu_put_elements(zl_dtype index, size_t item) {
    return index == ZL_UINT32  ? OF_SIZE(put_uint32_t, item)
           : index == ZL_INT32 ? OF_SIZE(put_int32_t, item)
           : index == ZL_INT64 ? OF_SIZE(put_int64_t, item)
                               : NULL;
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

// Scatters integers and floats. Sums and products are computed in `wide`, in which integers wrap around.
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
