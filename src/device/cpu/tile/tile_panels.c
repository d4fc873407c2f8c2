// tile_panels.c - packed factors of matrix products in tile kernels. They are kept for one run of the kernel,
// because the blocks of a grid multiply the same rows and columns again and again.
//
// Each thread has a cache of bounded size. When it is full, all of its panels are dropped; those still needed
// are soon packed again.

#include "device/cpu/gemm/product.h"
#include "device/cpu/tile/tile_kernel.h"

#include "device/cpu/gemm/gemm.h"

enum { KEPT = 64, ROOM_LEAST = 1 << 20 };

// A packed factor: the matrix that it was packed from, and its panels.
struct panels {
    struct tile_matrix from;
    int64_t lines, k;
    int factor;
    char *data;
};

// The start of a thread's cache. Its size is a multiple of a cache line, because panels follow it, and
// loading a vector that crosses a line takes two reads.
struct shelf {
    _Alignas(64) uint64_t run; // the run of a kernel that the panels belong to
    size_t used;               // bytes
    int count;
    struct panels kept[KEPT];
};

static _Thread_local struct shelf *shelf; // at the start of this thread's SCRATCH_TILES

// Returns the bytes of this thread's cache of panels: its share of half of L3.
static size_t room(void) {
    int64_t part = cpu_cache_bytes(3) / 2 / MAX_OF(pool_threads(), 1);
    return (size_t)MAX_OF(part, ROOM_LEAST);
}

static bool open_shelf(const struct tile_run *run) {
    struct shelf *found = cpu_scratch(SCRATCH_TILES, sizeof *found + room());
    if (!found)
        return false;
    if (found != shelf || found->run != run->id)
        *found = (struct shelf){.run = run->id};
    shelf = found;
    return true;
}

static bool is_same(const struct tile_matrix *a, const struct tile_matrix *b) {
    bool same = a->data == b->data && a->dtype == b->dtype && a->transposed == b->transposed;
    for (int i = 0; i < 2; i++)
        same &= a->stride[i] == b->stride[i] && a->first[i] == b->first[i] && a->size[i] == b->size[i];
    return same;
}

static struct panels panels_of(const struct tile_gemm *t, const struct gemm *g, int factor) {
    return (struct panels){
        .from = factor ? t->b : t->a, .lines = factor ? g->n : g->m, .k = g->k, .factor = factor};
}

static const char *find(const struct panels *p) {
    for (int i = 0; i < shelf->count; i++) {
        const struct panels *kept = &shelf->kept[i];
        if (kept->factor == p->factor && kept->lines == p->lines && kept->k == p->k &&
            is_same(&kept->from, &p->from))
            return kept->data;
    }
    return NULL;
}

static const char *pack_and_keep(struct panels *p, const struct gemm_work *w, size_t bytes) {
    p->data = (char *)(shelf + 1) + shelf->used;
    shelf->used += bytes;
    shelf->kept[shelf->count++] = *p;
    gemm_pack_factor(w, p->factor, p->data);
    return p->data;
}

// Packs a factor that is not an input of the kernel, for a single use.
static const char *pack_once(const struct gemm_work *w, int factor, size_t bytes) {
    char *to = cpu_scratch(factor ? SCRATCH_SHARED : SCRATCH_PACK, bytes);
    if (to)
        gemm_pack_factor(w, factor, to);
    return to;
}

bool cpu_tile_panels(const struct tile_run *run, const struct tile_gemm *t, const struct gemm_work *w,
                     const char **a, const char **b) {
    const char **to[] = {a, b};
    struct panels p[2] = {panels_of(t, w->g, 0), panels_of(t, w->g, 1)};
    size_t bytes[2], more = 0;
    bool is_kept[2] = {t->a.is_input, t->b.is_input};
    if (!open_shelf(run))
        return false;
    for (int i = 0; i < 2; i++) {
        bytes[i] = (gemm_packed_bytes(w, i) + 63) / 64 * 64;
        *to[i] = is_kept[i] ? find(&p[i]) : NULL;
        more += is_kept[i] && !*to[i] ? bytes[i] : 0;
    }
    if ((is_kept[0] ? bytes[0] : 0) + (is_kept[1] ? bytes[1] : 0) > room())
        return false;
    if (shelf->used + more > room() || shelf->count + 2 > KEPT) {
        *shelf = (struct shelf){.run = run->id};
        *a = *b = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (!*to[i])
            *to[i] = is_kept[i] ? pack_and_keep(&p[i], w, bytes[i]) : pack_once(w, i, bytes[i]);
    return *a && *b;
}
