// sort_short.c - sorts many short rows side by side by a sorting network, whose comparisons are the same for
// all rows.
//
// The network is Batcher's merge exchange: Knuth, The Art of Computer Programming, volume 3, algorithm
// 5.2.2M.

#include "device/cpu/order/sort.h"

// Compares a and b lane by lane, and puts the smaller element into a, the larger into b.
#define EXCHANGE(type, lanes)                                                          \
    typedef type vec_##type __attribute__((vector_size(16)));                          \
    static inline void exchange_##type(type *a, type *b) {                             \
        for (int k = 0; k < SORT_LANES; k += (lanes)) {                                \
            vec_##type x, y;                                                           \
            memcpy(&x, a + k, 16);                                                     \
            memcpy(&y, b + k, 16);                                                     \
            vec_##type swaps = (vec_##type)(y < x), change = (x ^ y) & swaps;          \
            x ^= change;                                                               \
            y ^= change;                                                               \
            memcpy(a + k, &x, 16);                                                     \
            memcpy(b + k, &y, 16);                                                     \
        }                                                                              \
    }                                                                                  \
    static void sort_##type(type *a, int64_t n) {                                      \
        int64_t top = 1;                                                               \
        while (top < n)                                                                \
            top *= 2;                                                                  \
        for (int64_t p = top / 2; p > 0; p /= 2)                                       \
            for (int64_t q = top / 2, r = 0, d = p; d > 0; d = q - p, q /= 2, r = p)   \
                for (int64_t i = 0; i + d < n; i++)                                    \
                    if ((i & p) == r)                                                  \
                        exchange_##type(a + i * SORT_LANES, a + (i + d) * SORT_LANES); \
    }
EXCHANGE(uint32_t, 4)
EXCHANGE(uint64_t, 2)

void cpu_sort_lanes(enum sort_item item, void *a, int64_t n) {
    if (item == SORT_U32)
        sort_uint32_t(a, n);
    else
        sort_uint64_t(a, n);
}
