// scan_logs.c - logarithms of running sums of exponentials, represented as the maximum so far and the sum
// relative to it.
//
// Each element takes one exponential and one logarithm, which are computed for whole strips at once. The sum
// is at least 1 and never overflows.

#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/scan.h"

#include <math.h>

// last: the maximum so far. Sets max[i] to the maximum including x[i], and far[i] to minus the distance of
// x[i] from the maximum before it. NaN is propagated.
#define SCAN_LOGS(name, type, absolute)                                                              \
    static void climb_##name(const type *x, int64_t n, type last, type *far, type *max) {            \
        for (int64_t i = 0; i < n; i++) {                                                            \
            far[i] = x[i] == last ? 0 : -absolute(x[i] - last);                                      \
            if (!(x[i] <= last) && last == last)                                                     \
                last = x[i];                                                                         \
            max[i] = last;                                                                           \
        }                                                                                            \
    }                                                                                                \
    static void add_##name(struct scan_logs *s, type *exponential, const type *max, int64_t n) {     \
        double sum = s->sum;                                                                         \
        type last = (type)s->max;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                            \
            if (max[i] == last) {                                                                    \
                sum += exponential[i];                                                               \
            } else {                                                                                 \
                sum = sum * exponential[i] + 1;                                                      \
                last = max[i];                                                                       \
            }                                                                                        \
            exponential[i] = (type)sum;                                                              \
        }                                                                                            \
        *s = (struct scan_logs){last, sum};                                                          \
    }                                                                                                \
    static void strip_##name(struct scan_logs *s, const type *x, type *to, int64_t n, zl_dtype d) {  \
        const struct row_table *rows = cpu_level()->rows;                                            \
        type far[SCAN_STRIP], max[SCAN_STRIP];                                                       \
        climb_##name(x, n, (type)s->max, far, max);                                                  \
        cpu_call_row(rows->op[TILE_EXP][d][0], far, far, NULL, NULL, n);                             \
        add_##name(s, far, max, n);                                                                  \
        cpu_call_row(rows->op[TILE_LOG][d][0], far, far, NULL, NULL, n);                             \
        cpu_call_row(rows->op[TILE_ADD][d][0], to, far, max, NULL, n);                               \
    }
SCAN_LOGS(f32, float, fabsf)
SCAN_LOGS(f64, double, fabs)

struct scan_logs cpu_scan_logs_start(void) {
    return (struct scan_logs){-INFINITY, 0};
}

void cpu_scan_logs(struct scan_logs *s, zl_dtype dtype, const void *x, void *to, int64_t n) {
    if (dtype == ZL_FLOAT64)
        strip_f64(s, x, to, n, dtype);
    else
        strip_f32(s, x, to, n, dtype);
}
