// fft_kit.c - cached plans and roots of unity for Fourier transforms: made once per length, and kept for the
// next transform of that length.

#include "device/cpu/fft/fft_plan.h"

#include "base/base.h"

enum { KITS = 16, NUMBERS_MOST = 1 << 21 }; // limits of the kept kits, and of the sum of their lengths

static struct {
    struct lock lock;
    struct fft_kit *kit[KITS];
    uint64_t time;
} kept;

ZL_AT_LOAD {
    fork_guard(&kept.lock);
}

static void free_kit(struct fft_kit *k) {
    if (k->plan)
        cpu_fft_free(k->plan);
    if (k->split)
        cpu_fft_split_free(k->split);
    memory_free(k->roots);
    memory_free(k);
}

static struct fft_kit *make_kit(int64_t n, bool real) {
    struct fft_kit *k = memory_alloc(sizeof *k);
    if (!k)
        return NULL;
    int64_t length = real ? n / 2 : n;
    *k = (struct fft_kit){.n = n, .real = real, .users = 1};
    bool ok = cpu_fft_can_split(length) ? (k->split = cpu_fft_split(length)) != NULL
                                        : (k->plan = cpu_fft_plan(length)) != NULL;
    if (ok && real) {
        k->roots = memory_alloc(sizeof(float) * 2 * (size_t)(length + 1));
        ok = k->roots && cpu_fft_roots(n, length + 1, k->roots);
    }
    if (ok)
        return k;
    free_kit(k);
    return NULL;
}

static struct fft_kit *find(int64_t n, bool real) {
    for (int i = 0; i < KITS; i++)
        if (kept.kit[i] && kept.kit[i]->n == n && kept.kit[i]->real == real) {
            kept.kit[i]->users++;
            kept.kit[i]->used = ++kept.time;
            return kept.kit[i];
        }
    return NULL;
}

// Returns an empty slot for a kit of n numbers. Frees unused kits until the new one fits, the least recently
// used first. Returns NULL if it cannot fit.
static struct fft_kit **make_room(int64_t n) {
    for (;;) {
        struct fft_kit **empty = NULL, **oldest = NULL;
        int64_t numbers = n;
        for (int i = 0; i < KITS; i++) {
            struct fft_kit **at = &kept.kit[i];
            if (!*at) {
                empty = at;
                continue;
            }
            numbers += (*at)->n;
            if ((*at)->users == 0 && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
        }
        if (numbers <= NUMBERS_MOST && empty)
            return empty;
        if (!oldest)
            return NULL;
        free_kit(*oldest);
        *oldest = NULL;
    }
}

struct fft_kit *cpu_fft_take(int64_t n, bool real) {
    lock_take(&kept.lock);
    struct fft_kit *k = find(n, real);
    lock_give(&kept.lock);
    if (k || !(k = make_kit(n, real)))
        return k;
    lock_take(&kept.lock);
    struct fft_kit **place = n <= NUMBERS_MOST ? make_room(n) : NULL;
    if (place) {
        *place = k;
        k->used = ++kept.time;
    }
    k->kept = place != NULL;
    lock_give(&kept.lock);
    return k;
}

void cpu_fft_give(struct fft_kit *k) {
    lock_take(&kept.lock);
    bool last = --k->users == 0 && !k->kept;
    lock_give(&kept.lock);
    if (last)
        free_kit(k);
}
