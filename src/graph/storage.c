// storage.c - the memory of arrays. A small one is in the same slab object as its header, so that it takes a
// single allocation.

#include "graph/graph.h"

enum { INLINE_MOST = 256 }; // bytes of data that are kept after the header

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
        if (!allocator_count((int64_t)extra, false)) {
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
    *s = (struct storage){
        .bytes = bytes, .data = (void *)(uintptr_t)data, .release = release, .context = context};
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

struct storage *storage_elsewhere(size_t bytes, struct replica *replica) {
    struct storage *s = slab_alloc(sizeof *s);
    if (!s)
        return replica->release(replica), NULL;
    *s = (struct storage){.bytes = allocator_capacity(bytes)};
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&s->replica, replica, memory_order_relaxed);
    return s;
}

void *storage_host_memory(struct storage *s) {
    if (s->is_inline)
        return s + 1;
    size_t same; // bytes is a capacity already
    void *data = allocator_get(s->bytes, &same);
    s->owned = data != NULL;
    return data;
}

void storage_lend_host(struct storage *s, void (*release)(void *), void *context) {
    s->owned = true;
    s->release = release;
    s->context = context;
}

static void give_back_host(struct storage *s) {
    if (s->release)
        s->release(s->context);
    else if (s->owned)
        allocator_put(s->data, s->bytes);
}

void storage_drop_host(struct storage *s) {
    give_back_host(s);
    s->owned = 0;
    s->release = NULL;
    s->data = NULL;
}

void storage_drop_replicas(struct storage *s, const struct replica *but) {
    struct replica *next, *kept = NULL;
    for (struct replica *r = atomic_load_explicit(&s->replica, memory_order_acquire); r; r = next) {
        next = r->next;
        if (r == but) {
            r->next = NULL;
            kept = r;
        } else {
            r->release(r);
        }
    }
    atomic_store_explicit(&s->replica, kept, memory_order_release);
}

void storage_release(struct storage *s) {
    if (atomic_load_explicit(&s->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    size_t extra = 0;
    if (UNLIKELY(atomic_load_explicit(&s->replica, memory_order_relaxed) != NULL))
        storage_drop_replicas(s, NULL);
    if (s->is_inline) {
        extra = s->bytes;
        allocator_count(-(int64_t)extra, false);
    } else {
        give_back_host(s);
    }
    slab_free(s, sizeof *s + extra);
}

// Loads the number of references first, with acquire order: the other fields may only be read once no other
// thread uses the storage.
bool storage_is_held(struct storage *s, int refs) {
    return atomic_load_explicit(&s->refs, memory_order_acquire) == refs &&
           (s->owned || s->is_inline ||
            (!s->data && atomic_load_explicit(&s->replica, memory_order_relaxed)));
}

bool storage_is_unique(struct storage *s) {
    return storage_is_held(s, 1);
}
