// vec_rest.h - the end of a row: elements that do not fill a block are copied to a buffer of the size of a
// block.

#ifndef VEC_REST_H
#define VEC_REST_H

// Prefetches `bytes` bytes, `ahead` bytes after an address. Does nothing if ahead is 0: the data are in a
// cache then, and the prefetch would only look them up.
VEC_FN void vec_fetch(const char *from, int64_t ahead, int bytes) {
    if (ahead == 0)
        return;
#pragma GCC unroll 16
    for (int at = 0; at < bytes; at += 64)
        __builtin_prefetch(from + ahead + at, 0, 2);
}

// Copies a few bytes, at most some hundred: a call of memcpy would cost as much as the copy. The empty asm
// keeps the compiler from replacing the loop by that call. The last 16 bytes may be copied twice.
__attribute__((noinline, unused)) static void vec_copy(char *to, const char *from, int64_t bytes) {
    if (bytes >= 16) {
        for (int64_t at = 0; at < bytes - 16; at += 16) {
            __builtin_memcpy(to + at, from + at, 16);
            __asm__ volatile("" ::: "memory");
        }
        __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
        return;
    }
    if (bytes & 8)
        __builtin_memcpy(to, from, 8), to += 8, from += 8;
    if (bytes & 4)
        __builtin_memcpy(to, from, 4), to += 4, from += 4;
    if (bytes & 2)
        __builtin_memcpy(to, from, 2), to += 2, from += 2;
    if (bytes & 1)
        *to = *from;
}

// Copies to a block of `room` bytes (a multiple of 16), whose remaining bytes are set to zero.
__attribute__((noinline, unused)) static void vec_rest(char *to, const char *from, int64_t bytes,
                                                       int64_t room) {
    for (int64_t at = bytes / 16 * 16; at < room; at += 16) {
        __builtin_memset(to + at, 0, 16);
        __asm__ volatile("" ::: "memory");
    }
    vec_copy(to, from, bytes);
}

#endif
