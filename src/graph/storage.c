// storage.c - the bytes behind arrays. Small ones lie in the same slab object as their header: one allocation.

#include "graph/graph.h"

enum { INLINE_MOST = 256 }; // bytes of data kept behind the header

static size_t round_up(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

struct storage *storage_new(size_t bytes) {
    bool small = bytes <= INLINE_MOST;
    size_t extra = small ? round_up(bytes) : 0;
    struct storage *s = slab_alloc(sizeof *s + extra);
    if (!s)
        return NULL;
    *s = (struct storage){.owned = !small, .is_inline = small, .bytes = extra};
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    if (small) {
        if (!allocator_count((int64_t)extra)) {
            slab_free(s, sizeof *s + extra);
            return NULL;
        }
        s->data = s + 1;
        return s;
    }
    s->data = allocator_get(bytes, &s->bytes);
    if (!s->data) {
        slab_free(s, sizeof *s);
        return NULL;
    }
    return s;
}

struct storage *storage_foreign(const void *data, size_t bytes, void (*release)(void *), void *context) {
    struct storage *s = slab_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (struct storage){.bytes = bytes, .data = (void *)(uintptr_t)data, .release = release, .context = context};
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void storage_release(struct storage *s) {
    if (atomic_load_explicit(&s->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    size_t extra = 0;
    if (s->is_inline) {
        extra = s->bytes;
        allocator_count(-(int64_t)extra);
    } else if (s->owned) {
        allocator_put(s->data, s->bytes);
    } else if (s->release) {
        s->release(s->context);
    }
    slab_free(s, sizeof *s + extra);
}

bool storage_is_unique(struct storage *s) {
    return (s->owned || s->is_inline) && atomic_load_explicit(&s->refs, memory_order_acquire) == 1;
}
