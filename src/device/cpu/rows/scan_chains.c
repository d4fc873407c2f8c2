// scan_chains.c - scans of contiguous elements, for every dtype but 16-bit floats, which are scanned as
// float32.
//
// Each vector is scanned by itself, in log2 steps that double how many elements each lane combines, and then
// combined with the last lane of the vector before. Lanes before the first hold the identity.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/scan.h"

#include "device/cpu/rows/element_ops.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

// Vectors ---------------------------------------------------------------------------------------------------

#define VECTOR(type, unsigned_type, signed_type)                        \
    typedef type vec_##type __attribute__((vector_size(16)));           \
    typedef unsigned_type bits_##type __attribute__((vector_size(16))); \
    typedef signed_type mask_##type __attribute__((vector_size(16)));
VECTOR(uint8_t, uint8_t, int8_t)
VECTOR(uint16_t, uint16_t, int16_t)
VECTOR(uint32_t, uint32_t, int32_t)
VECTOR(uint64_t, uint64_t, int64_t)
VECTOR(int8_t, uint8_t, int8_t)
VECTOR(int16_t, uint16_t, int16_t)
VECTOR(int32_t, uint32_t, int32_t)
VECTOR(int64_t, uint64_t, int64_t)
VECTOR(float, uint32_t, int32_t)
VECTOR(double, uint64_t, int64_t)

// Shifts v up by some bytes, and fills it from the end of `first`.
#define BEHIND(first, v, bytes)                                                                   \
    __builtin_shufflevector((vec_uint8_t)(first), (vec_uint8_t)(v), 16 - (bytes), 17 - (bytes),   \
                            18 - (bytes), 19 - (bytes), 20 - (bytes), 21 - (bytes), 22 - (bytes), \
                            23 - (bytes), 24 - (bytes), 25 - (bytes), 26 - (bytes), 27 - (bytes), \
                            28 - (bytes), 29 - (bytes), 30 - (bytes), 31 - (bytes))

// Broadcasts the last lane.
INLINE vec_uint8_t last_lane(vec_uint8_t v, size_t item) {
    switch (item) {
    case 1:
        return __builtin_shufflevector(v, v, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    case 2:
        return (vec_uint8_t)__builtin_shufflevector((vec_uint16_t)v, (vec_uint16_t)v, 7, 7, 7, 7, 7, 7, 7, 7);
    case 4: return (vec_uint8_t)__builtin_shufflevector((vec_uint32_t)v, (vec_uint32_t)v, 3, 3, 3, 3);
    default: return (vec_uint8_t)__builtin_shufflevector((vec_uint64_t)v, (vec_uint64_t)v, 1, 1);
    }
}

#define VEC_ADD(type, a, b) ((a) + (b))
#define VEC_MUL(type, a, b) ((a) * (b))
#define VEC_OR(type, a, b)  ((a) | (b))
#define VEC_AND(type, a, b) ((a) & (b))
#define VEC_PICK(type, mask, a, b) \
    (vec_##type)(((bits_##type)(b) & (bits_##type)(mask)) | ((bits_##type)(a) & ~(bits_##type)(mask)))
#define VEC_MAX(type, a, b) VEC_PICK(type, ((a) < (b)) | ((b) != (b)), a, b)
#define VEC_MIN(type, a, b) VEC_PICK(type, ((b) < (a)) | ((b) != (b)), a, b)

// Whether a vector can change the result so far. In a long scan for an extreme few vectors do, so a check
// pays.
enum { LONG = 128 }; // elements
#define ALWAYS(type, kept, v)     true
#define IF_LARGER(type, kept, v)  any_lane((vec_uint64_t) ~((v) <= (kept)))
#define IF_SMALLER(type, kept, v) any_lane((vec_uint64_t) ~((v) >= (kept)))
INLINE bool any_lane(vec_uint64_t mask) {
    return (mask[0] | mask[1]) != 0;
}

// Chains ----------------------------------------------------------------------------------------------------

#define DOUBLE(type, bytes, combine) \
    if (sizeof(type) <= (bytes))     \
        v = combine(type, (vec_##type)BEHIND(none, v, bytes), v);

// Scans the next vector of chain k. END scans its end, which is shorter than a vector.
#define NEXT(k, name)                              \
    memcpy(&v, from + (k)*from_apart + at, 16);    \
    v = name##_vector(v, none, &kept[k], is_long); \
    memcpy(to + (k)*to_apart + at, &v, 16);
#define END(k, name)                                         \
    v = none;                                                \
    memcpy(&v, from + (k)*from_apart + whole, (size_t)rest); \
    v = name##_vector(v, none, &kept[k], is_long);           \
    memcpy(to + (k)*to_apart + whole, &v, (size_t)rest);
#define EACH_OF_1(step, name) step(0, name)
#define EACH_OF_4(step, name) step(0, name) step(1, name) step(2, name) step(3, name)

// Scans 1 or 4 chains together.
#define SCAN_TOGETHER(name, type, identity, width)                                                           \
    INLINE void name##_by_##width(const struct chains *c, int first) {                                       \
        const int64_t item = sizeof(type), from_apart = c->from_apart * item, to_apart = c->to_apart * item; \
        const int64_t whole = c->n * item / 16 * 16, rest = c->n * item - whole;                             \
        const vec_##type none = (type)(identity) - (vec_##type){0};                                          \
        const char *from = c->from + first * from_apart;                                                     \
        char *to = c->to + first * to_apart;                                                                 \
        const bool is_long = c->n >= LONG;                                                                   \
        vec_##type v, kept[4] = {none, none, none, none};                                                    \
        for (int64_t at = 0; at < whole; at += 16) {                                                         \
            EACH_OF_##width(NEXT, name)                                                                      \
        }                                                                                                    \
        if (rest) {                                                                                          \
            EACH_OF_##width(END, name)                                                                       \
        }                                                                                                    \
    }

// Computes the last element of a chain, in groups of four vectors and in the order of SCAN(). If order does
// not matter, there are four partial results, and lanes are combined at the end.
#define TOTAL_STEP(k, combine, ordered, type) \
    memcpy(&v, from + at + 16 * (k), 16);     \
    if (ordered) {                            \
        DOUBLE(type, 1, combine)              \
        DOUBLE(type, 2, combine)              \
        DOUBLE(type, 4, combine)              \
        DOUBLE(type, 8, combine)              \
    }                                         \
    seen[(ordered) ? 0 : (k)] = combine(type, seen[(ordered) ? 0 : (k)], v);
#define TOTAL(name, type, identity, combine, ordered)                            \
    static void total_##name(const char *from, int64_t n, void *total) {         \
        const vec_##type none = (type)(identity) - (vec_##type){0};              \
        vec_##type v, seen[4] = {none, none, none, none}, kept = none;           \
        for (int64_t at = 0; at < n * (int64_t)sizeof(type); at += 64) {         \
            TOTAL_STEP(0, combine, ordered, type)                                \
            TOTAL_STEP(1, combine, ordered, type)                                \
            TOTAL_STEP(2, combine, ordered, type)                                \
            TOTAL_STEP(3, combine, ordered, type)                                \
        }                                                                        \
        for (int k = 1; !(ordered) && k < 4; k++)                                \
            seen[0] = combine(type, seen[0], seen[k]);                           \
        if (!(ordered))                                                          \
            seen[0] = name##_vector(seen[0], none, &kept, false);                \
        memcpy(total, (const char *)&seen[0] + 16 - sizeof(type), sizeof(type)); \
    }

#define SCAN(name, type, identity, combine, changes, ordered)                                        \
    INLINE vec_##type name##_vector(vec_##type v, vec_##type none, vec_##type *kept, bool is_long) { \
        if (is_long && !changes(type, *kept, v))                                                     \
            return *kept;                                                                            \
        DOUBLE(type, 1, combine)                                                                     \
        DOUBLE(type, 2, combine)                                                                     \
        DOUBLE(type, 4, combine)                                                                     \
        DOUBLE(type, 8, combine)                                                                     \
        v = combine(type, *kept, v);                                                                 \
        *kept = (vec_##type)last_lane((vec_uint8_t)v, sizeof(type));                                 \
        return v;                                                                                    \
    }                                                                                                \
    SCAN_TOGETHER(name, type, identity, 1)                                                           \
    SCAN_TOGETHER(name, type, identity, 4)                                                           \
    TOTAL(name, type, identity, combine, ordered)                                                    \
    static void scan_##name(const struct chains *c, row_fn *const *rows) {                           \
        int k = 0;                                                                                   \
        (void)rows;                                                                                  \
        for (; k + 4 <= c->count; k += 4)                                                            \
            name##_by_4(c, k);                                                                       \
        for (; k < c->count; k++)                                                                    \
            name##_by_1(c, k);                                                                       \
    }

#define SCAN_SUMS(name, type, zero, ordered)               \
    SCAN(name##_sum, type, zero, VEC_ADD, ALWAYS, ordered) \
    SCAN(name##_prod, type, 1, VEC_MUL, ALWAYS, ordered)
#define SCAN_EXTREMES(name, type, least, most, if_larger, if_smaller) \
    SCAN(name##_max, type, least, VEC_MAX, if_larger, false)          \
    SCAN(name##_min, type, most, VEC_MIN, if_smaller, false)

// Sums wrap around, so those of signed and unsigned integers have the same bits.
SCAN_SUMS(u8, uint8_t, 0, false)
SCAN_SUMS(u16, uint16_t, 0, false)
SCAN_SUMS(u32, uint32_t, 0, false)
SCAN_SUMS(u64, uint64_t, 0, false)
SCAN_SUMS(f32, float, -0.0f, true)
SCAN_SUMS(f64, double, -0.0, true)
SCAN_EXTREMES(u8, uint8_t, 0, UINT8_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(u16, uint16_t, 0, UINT16_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(u32, uint32_t, 0, UINT32_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(u64, uint64_t, 0, UINT64_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(i8, int8_t, INT8_MIN, INT8_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(i16, int16_t, INT16_MIN, INT16_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(i32, int32_t, INT32_MIN, INT32_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(i64, int64_t, INT64_MIN, INT64_MAX, ALWAYS, ALWAYS)
SCAN_EXTREMES(f32, float, -INFINITY, INFINITY, IF_LARGER, IF_SMALLER)
SCAN_EXTREMES(f64, double, -INFINITY, INFINITY, IF_LARGER, IF_SMALLER)
SCAN(bool_or, uint8_t, 0, VEC_OR, ALWAYS, false)
SCAN(bool_and, uint8_t, 1, VEC_AND, ALWAYS, false)

// Complex numbers are scanned element by element.
#define SCAN_COMPLEX(name, combine)                                                   \
    static void scan_##name(const struct chains *c, row_fn *const *rows) {            \
        const int64_t item = sizeof(complex64);                                       \
        (void)rows;                                                                   \
        for (int k = 0; k < c->count; k++) {                                          \
            complex64 kept, next;                                                     \
            memcpy(&kept, c->from + k * c->from_apart * item, sizeof kept);           \
            memcpy(c->to + k * c->to_apart * item, &kept, sizeof kept);               \
            for (int64_t i = 1; i < c->n; i++) {                                      \
                memcpy(&next, c->from + (k * c->from_apart + i) * item, sizeof next); \
                kept = combine(kept, next);                                           \
                memcpy(c->to + (k * c->to_apart + i) * item, &kept, sizeof kept);     \
            }                                                                         \
        }                                                                             \
    }
SCAN_COMPLEX(c64_sum, complex_add)
SCAN_COMPLEX(c64_prod, complex_prod)
SCAN_COMPLEX(c64_max, complex_max)
SCAN_COMPLEX(c64_min, complex_min)

// Logarithms of sums are computed by a row kernel, which is fast for many elements. So a chain is divided
// into pieces, which are scanned side by side as chains themselves; then each piece is combined with the last
// element of the piece before.
enum { PIECES = SCAN_CHAINS, PIECES_LEAST = 64 }; // pieces; least elements of a divided chain

#define SCAN_LOGS(name, type)                                                                            \
    static void side_by_side_##name(const struct chains *c, row_fn *row) {                               \
        const int64_t item = sizeof(type);                                                               \
        type kept[PIECES], next[PIECES];                                                                 \
        for (int64_t i = 0; i < c->n; i++) {                                                             \
            for (int k = 0; k < c->count; k++)                                                           \
                memcpy(i ? &next[k] : &kept[k], c->from + (k * c->from_apart + i) * item, sizeof(type)); \
            if (i)                                                                                       \
                cpu_call_row(row, kept, kept, next, NULL, c->count);                                     \
            for (int k = 0; k < c->count; k++)                                                           \
                memcpy(c->to + (k * c->to_apart + i) * item, &kept[k], sizeof(type));                    \
        }                                                                                                \
    }                                                                                                    \
    static void scan_##name(const struct chains *c, row_fn *const *rows) {                               \
        const int64_t item = sizeof(type), each = c->n / PIECES;                                         \
        if (c->n < PIECES_LEAST) {                                                                       \
            side_by_side_##name(c, rows[0]);                                                             \
            return;                                                                                      \
        }                                                                                                \
        for (int k = 0; k < c->count; k++) {                                                             \
            const char *from = c->from + k * c->from_apart * item;                                       \
            char *to = c->to + k * c->to_apart * item;                                                   \
            side_by_side_##name(&(struct chains){to, from, each, each, each, PIECES}, rows[0]);          \
            int64_t at = each;                                                                           \
            for (; at < each * PIECES; at += each)                                                       \
                cpu_call_row(rows[2], to + at * item, to + at * item, to + (at - 1) * item, NULL, each); \
            for (; at < c->n; at++)                                                                      \
                cpu_call_row(rows[0], to + at * item, to + (at - 1) * item, from + at * item, NULL, 1);  \
        }                                                                                                \
    }
SCAN_LOGS(f32_logs, float)
SCAN_LOGS(f64_logs, double)
SCAN_LOGS(c64_logs, complex64)

scan_total_fn *cpu_scan_total(enum scan which, zl_dtype dtype) {
#define TOTALS(sums, name) \
    { total_##sums##_sum, total_##sums##_prod, total_##name##_max, total_##name##_min }
    static scan_total_fn *const totals[ZL_DTYPE_COUNT][SCAN_LOGADDEXP + 1] = {
        [ZL_BOOL] = {total_bool_or, total_bool_and, total_bool_or, total_bool_and},
        [ZL_UINT8] = TOTALS(u8, u8),
        [ZL_UINT16] = TOTALS(u16, u16),
        [ZL_UINT32] = TOTALS(u32, u32),
        [ZL_UINT64] = TOTALS(u64, u64),
        [ZL_INT8] = TOTALS(u8, i8),
        [ZL_INT16] = TOTALS(u16, i16),
        [ZL_INT32] = TOTALS(u32, i32),
        [ZL_INT64] = TOTALS(u64, i64),
        [ZL_FLOAT32] = TOTALS(f32, f32),
        [ZL_FLOAT64] = TOTALS(f64, f64),
    };
    return totals[dtype][which];
}

scan_chains_fn *cpu_scan_chains(enum scan which, zl_dtype dtype) {
#define ROW(sums, name, logs) \
    { scan_##sums##_sum, scan_##sums##_prod, scan_##name##_max, scan_##name##_min, logs }
    static scan_chains_fn *const chains[ZL_DTYPE_COUNT][SCAN_LOGADDEXP + 1] = {
        [ZL_BOOL] = {scan_bool_or, scan_bool_and, scan_bool_or, scan_bool_and, NULL},
        [ZL_UINT8] = ROW(u8, u8, NULL),
        [ZL_UINT16] = ROW(u16, u16, NULL),
        [ZL_UINT32] = ROW(u32, u32, NULL),
        [ZL_UINT64] = ROW(u64, u64, NULL),
        [ZL_INT8] = ROW(u8, i8, NULL),
        [ZL_INT16] = ROW(u16, i16, NULL),
        [ZL_INT32] = ROW(u32, i32, NULL),
        [ZL_INT64] = ROW(u64, i64, NULL),
        [ZL_FLOAT32] = ROW(f32, f32, scan_f32_logs),
        [ZL_FLOAT64] = ROW(f64, f64, scan_f64_logs),
        [ZL_COMPLEX64] = ROW(c64, c64, scan_c64_logs),
    };
    return chains[dtype][which];
}
