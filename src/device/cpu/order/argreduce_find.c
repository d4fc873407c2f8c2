// argreduce_find.c - compares elements for argmin and argmax, and finds the first of many that equals a given
// one.

#include "device/cpu/order/argreduce.h"
#include "device/cpu/rows/element_ops.h"

enum { GROUP = 4, VECTOR = 16 }; // vectors that are compared together; bytes of one

typedef uint64_t words __attribute__((vector_size(VECTOR)));

static inline bool any_lane(words mask) {
    return (mask[0] | mask[1]) != 0;
}

// Returns the first set lane of a group's masks, without a branch, which could not be predicted.
#define FIRST_LANE(name, type)                                                         \
    static inline int64_t first_##name(words w, words x, words y, words z) {           \
        typedef type vec __attribute__((vector_size(VECTOR)));                         \
        enum { LANES = VECTOR / sizeof(type) };                                        \
        const vec hit[GROUP] = {(vec)w, (vec)x, (vec)y, (vec)z};                       \
        vec at, least = ~(vec){0};                                                     \
        type first = (type)-1;                                                         \
        for (int i = 0; i < LANES; i++)                                                \
            at[i] = (type)i;                                                           \
        for (int k = 0; k < GROUP; k++) {                                              \
            vec next = (at + (type)(k * LANES)) | ~hit[k], less = (vec)(next < least); \
            least = (next & less) | (least & ~less);                                   \
        }                                                                              \
        for (int i = 0; i < LANES; i++)                                                \
            first = MIN_OF(first, least[i]);                                           \
        return first;                                                                  \
    }
FIRST_LANE(1, uint8_t)
FIRST_LANE(2, uint16_t)
FIRST_LANE(4, uint32_t)
FIRST_LANE(8, uint64_t)

// Returns the index of the first element that equals `value`, or is NaN if `value` is NaN; n if there is
// none. EQUAL(v) compares a vector or an element with `sought`; `bytes` is the size of an element.
#define FIND(name, type, bytes, EQUAL, IS_NAN)                                                        \
    static int64_t find_##name(const char *from, int64_t n, const char *value) {                      \
        typedef type vec __attribute__((vector_size(VECTOR)));                                        \
        const int64_t item = sizeof(type), group = GROUP * VECTOR / item;                             \
        type sought, one;                                                                             \
        int64_t i = 0;                                                                                \
        memcpy(&sought, value, sizeof sought);                                                        \
        bool is_nan = IS_NAN(sought);                                                                 \
        for (; !is_nan && i + group <= n; i += group) {                                               \
            vec a, b, c, d;                                                                           \
            const char *at = from + i * item;                                                         \
            memcpy(&a, at, VECTOR);                                                                   \
            memcpy(&b, at + VECTOR, VECTOR);                                                          \
            memcpy(&c, at + 2 * VECTOR, VECTOR);                                                      \
            memcpy(&d, at + 3 * VECTOR, VECTOR);                                                      \
            words w = (words)EQUAL(a), x = (words)EQUAL(b), y = (words)EQUAL(c), z = (words)EQUAL(d); \
            if (any_lane(w | x | y | z))                                                              \
                return i + first_##bytes(w, x, y, z);                                                 \
        }                                                                                             \
        for (; i < n; i++) {                                                                          \
            memcpy(&one, from + i * item, sizeof one);                                                \
            if (is_nan ? IS_NAN(one) : EQUAL(one))                                                    \
                break;                                                                                \
        }                                                                                             \
        return i;                                                                                     \
    }

#define SAME(x) ((x) == sought)
#define SAME_HALF(x) \
    (((x) == sought) | ((((x) << 1 & 0xffff) | (uint16_t)((sought & 0x7fff) != 0)) == 0)) // 0 equals -0
#define NO_NAN(x)    (false)
#define FLOAT_NAN(x) ((x) != (x))
#define F16_NAN(x)   (((x)&0x7fff) > 0x7c00)
#define BF16_NAN(x)  (((x)&0x7fff) > 0x7f80)

FIND(u8, uint8_t, 1, SAME, NO_NAN)
FIND(u16, uint16_t, 2, SAME, NO_NAN)
FIND(u32, uint32_t, 4, SAME, NO_NAN)
FIND(u64, uint64_t, 8, SAME, NO_NAN)
FIND(f16, uint16_t, 2, SAME_HALF, F16_NAN)
FIND(bf16, uint16_t, 2, SAME_HALF, BF16_NAN)
FIND(f32, float, 4, SAME, FLOAT_NAN)
FIND(f64, double, 8, SAME, FLOAT_NAN)

static int64_t find_c64(const char *from, int64_t n, const char *value) {
    complex64 sought, x;
    int64_t i = 0;
    memcpy(&sought, value, sizeof sought);
    for (; i < n; i++) {
        memcpy(&x, from + i * (int64_t)sizeof x, sizeof x);
        if (complex_is_nan(sought) ? complex_is_nan(x) : x.re == sought.re && x.im == sought.im)
            break;
    }
    return i;
}

#define COMPARE(name, type, LESS, IS_NAN)                            \
    static bool less_##name(const char *first, const char *second) { \
        type a, b;                                                   \
        memcpy(&a, first, sizeof a);                                 \
        memcpy(&b, second, sizeof b);                                \
        return LESS(a, b);                                           \
    }                                                                \
    static bool nan_##name(const char *value) {                      \
        type a;                                                      \
        memcpy(&a, value, sizeof a);                                 \
        return IS_NAN(a);                                            \
    }
#define BELOW(a, b) ((a) < (b))
COMPARE(u8, uint8_t, BELOW, NO_NAN)
COMPARE(u16, uint16_t, BELOW, NO_NAN)
COMPARE(u32, uint32_t, BELOW, NO_NAN)
COMPARE(u64, uint64_t, BELOW, NO_NAN)
COMPARE(i8, int8_t, BELOW, NO_NAN)
COMPARE(i16, int16_t, BELOW, NO_NAN)
COMPARE(i32, int32_t, BELOW, NO_NAN)
COMPARE(i64, int64_t, BELOW, NO_NAN)
COMPARE(f32, float, BELOW, FLOAT_NAN)
COMPARE(f64, double, BELOW, FLOAT_NAN)
COMPARE(c64, complex64, complex_less, complex_is_nan)

struct element_search cpu_element_search(zl_dtype dtype) {
#define ROW(find, kept) \
    { find_##find, less_##kept, nan_##kept }
    static const struct element_search rows[ZL_DTYPE_COUNT] = {
        [ZL_BOOL] = ROW(u8, u8),        [ZL_UINT8] = ROW(u8, u8),       [ZL_UINT16] = ROW(u16, u16),
        [ZL_UINT32] = ROW(u32, u32),    [ZL_UINT64] = ROW(u64, u64),    [ZL_INT8] = ROW(u8, i8),
        [ZL_INT16] = ROW(u16, i16),     [ZL_INT32] = ROW(u32, i32),     [ZL_INT64] = ROW(u64, i64),
        [ZL_FLOAT16] = ROW(f16, f32),   [ZL_FLOAT32] = ROW(f32, f32),   [ZL_FLOAT64] = ROW(f64, f64),
        [ZL_BFLOAT16] = ROW(bf16, f32), [ZL_COMPLEX64] = ROW(c64, c64),
    };
    return rows[dtype];
}
