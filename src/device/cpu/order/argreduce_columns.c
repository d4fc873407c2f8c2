// argreduce_columns.c - the extremes of many columns: each row is compared with the best elements of the
// columns so far.

#include "device/cpu/order/argreduce.h"
#include "device/cpu/rows/operands.h"

// Compares a row of n elements, at position `at`, with the best of each column, which its better elements
// replace. The first of equal elements wins, and the first NaN wins over all others.
#define BETTER(name, type, position_type, is_better)                                          \
    static void name(const char *row, int64_t n, int64_t at, void *values, void *positions) { \
        type *restrict best = values;                                                         \
        position_type *restrict where = positions;                                            \
        for (int64_t i = 0; i < n; i++) {                                                     \
            type x, y = best[i];                                                              \
            memcpy(&x, row + i * (int64_t)sizeof x, sizeof x);                                \
            bool better = is_better;                                                          \
            best[i] = better ? x : y;                                                         \
            where[i] = better ? (position_type)at : where[i];                                 \
        }                                                                                     \
    }
#define EXTREMES(name, type, position)                         \
    BETTER(max_##name, type, position, (!(x <= y)) & (y == y)) \
    BETTER(min_##name, type, position, (!(x >= y)) & (y == y))
EXTREMES(i32, int32_t, uint32_t)
EXTREMES(u32, uint32_t, uint32_t)
EXTREMES(f32, float, uint32_t)
EXTREMES(i64, int64_t, uint64_t)
EXTREMES(u64, uint64_t, uint64_t)
EXTREMES(f64, double, uint64_t)

bool cpu_argreduce_columns(zl_dtype dtype, bool is_max, struct column_search *s) {
#define PAIR(name) \
    { min_##name, max_##name }
    static better_fn *const better[ZL_DTYPE_COUNT][2] = {
        [ZL_UINT32] = PAIR(u32), [ZL_UINT64] = PAIR(u64),  [ZL_INT32] = PAIR(i32),
        [ZL_INT64] = PAIR(i64),  [ZL_FLOAT32] = PAIR(f32), [ZL_FLOAT64] = PAIR(f64),
    };
    bool half = dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
    zl_dtype wide = better[dtype][0] ? dtype : half ? ZL_FLOAT32 : ZL_INT32;
    s->better = dtype == ZL_COMPLEX64 ? NULL : better[wide][is_max];
    s->widen = wide == dtype ? NULL : cpu_level()->rows->cast[wide][dtype];
    s->item = (int64_t)zl_dtype_size(wide);
    return s->better && (wide == dtype || s->widen);
}

void cpu_argreduce_rows(const struct column_search *s, const char *rows, int64_t stride, int64_t count,
                        int64_t n, char *to) {
    _Alignas(64) char best[COLUMNS_MOST * 8], where[COLUMNS_MOST * 8], wide[COLUMNS_MOST * 8];
    memset(where, 0, sizeof where);
    for (int64_t at = 0; at < count; at++) {
        const char *row = rows + at * stride;
        char *first = at ? wide : best;
        if (s->widen)
            cpu_call_row(s->widen, first, row, NULL, NULL, n);
        else if (at == 0)
            memcpy(best, row, (size_t)(n * s->item));
        if (at)
            s->better(s->widen ? wide : row, n, at, best, where);
    }
    const uint32_t *narrow = (const uint32_t *)(const void *)where;
    const uint64_t *wider = (const uint64_t *)(const void *)where;
    for (int64_t i = 0; i < n; i++) {
        uint32_t position = s->item == 4 ? narrow[i] : (uint32_t)wider[i];
        memcpy(to + 4 * i, &position, 4);
    }
}
