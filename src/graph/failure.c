// failure.c - the reason why an evaluation failed, shared by all arrays that it should have computed.

#include <string.h>

#include "graph/graph.h"

// Stands for all failures for whose message there is no memory; never freed.
static struct failure no_memory = {
    .refs = 1, .kind = ZL_ERROR_MEMORY, .message = "evaluation failed: memory is out"};

struct failure *failure_new(zl_error_kind kind, const char *message) {
    size_t bytes = strlen(message) + 1;
    struct failure *f = memory_alloc(sizeof *f + bytes);
    if (!f) {
        failure_retain(&no_memory);
        return &no_memory;
    }
    atomic_store_explicit(&f->refs, 1, memory_order_relaxed);
    f->kind = kind;
    f->message = memcpy(f + 1, message, bytes);
    return f;
}

void failure_retain(struct failure *f) {
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

void failure_release(struct failure *f) {
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
        memory_free(f);
}
