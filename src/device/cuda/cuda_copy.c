// cuda_copy.c - copies between memory of the host and of a device, in pieces through a ring of pinned buffers.
//
// The device reads and writes pinned pages by itself, while the host goes on. So the threads of the pool fill one buffer
// while the one before it travels, and empty one while the next arrives. A buffer is used again when its event is done. Buffers are
// large: waking the threads takes as long as they need for a megabyte, and they are slow when each of them calls the driver.

#include "device/cuda/cuda.h"

enum {
    PIECE = 2 << 20,   // bytes: of a buffer
    BUFFERS = 4,       // of a ring
    DIRECT = 64 << 10, // up to here the driver takes what it is given into its own queue
    WITHOUT_TIMES = 2,
};

static struct ring {
    struct lock lock; // held for a copy
    char *memory;     // BUFFERS times PIECE; NULL: not made yet
    cuda_event done[BUFFERS];
    bool failed; // there is no pinned memory: the driver copies in its own way
} rings[CUDA_DEVICES];

// The ring ---------------------------------------------------------------------------------------------------------

static bool make_ring(struct ring *r) {
    const struct cuda_api *api = cuda_api();
    void *memory = NULL;
    if (api->cuMemHostAlloc(&memory, (size_t)BUFFERS * PIECE, 0))
        return false;
    for (int i = 0; i < BUFFERS; i++)
        if (api->cuEventCreate(&r->done[i], WITHOUT_TIMES)) {
            api->cuMemFreeHost(memory);
            return false;
        }
    r->memory = memory;
    return true;
}

// Under its lock.
static bool has_buffers(struct ring *r) {
    if (!r->memory && !r->failed)
        r->failed = !make_ring(r);
    return r->memory;
}

static char *buffer_at(const struct ring *r, size_t piece) {
    return r->memory + piece % BUFFERS * PIECE;
}

static bool wait_for(const struct ring *r, size_t piece) {
    return cuda_check(cuda_api()->cuEventSynchronize(r->done[piece % BUFFERS]), "cuEventSynchronize");
}

static size_t bytes_of(size_t piece, size_t bytes) {
    return MIN_OF((size_t)PIECE, bytes - piece * PIECE);
}

// Copies -----------------------------------------------------------------------------------------------------------

static bool send(const struct ring *r, cuda_stream s, char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i * PIECE < bytes; i++) {
        char *buffer = buffer_at(r, i);
        if (!wait_for(r, i)) // for what went through it last
            return false;
        pool_copy(buffer, from + i * PIECE, bytes_of(i, bytes));
        if (!cuda_check(
                cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)(to + i * PIECE), buffer, bytes_of(i, bytes), s),
                "cuMemcpyHtoD") ||
            !cuda_check(cuda_api()->cuEventRecord(r->done[i % BUFFERS], s), "cuEventRecord"))
            return false;
    }
    return true;
}

static bool ask_for(const struct ring *r, cuda_stream s, const char *from, size_t bytes, size_t piece) {
    return piece * PIECE >= bytes ||
           (cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(
                           buffer_at(r, piece), (uintptr_t)(from + piece * PIECE), bytes_of(piece, bytes), s),
                       "cuMemcpyDtoH") &&
            cuda_check(cuda_api()->cuEventRecord(r->done[piece % BUFFERS], s), "cuEventRecord"));
}

// Uploads that still read a buffer come earlier in the stream's order than what writes it here.
static bool receive(const struct ring *r, cuda_stream s, char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < BUFFERS; i++)
        if (!ask_for(r, s, from, bytes, i))
            return false;
    for (size_t i = 0; i * PIECE < bytes; i++) {
        if (!wait_for(r, i))
            return false;
        pool_copy(to + i * PIECE, buffer_at(r, i), bytes_of(i, bytes));
        if (!ask_for(r, s, from, bytes, i + BUFFERS))
            return false;
    }
    return true;
}

bool cuda_write(int unit, void *to, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit];
    if (!d)
        return false;
    lock_take(&r->lock);
    bool staged = bytes > DIRECT && has_buffers(r);
    bool done = staged && send(r, d->stream, to, from, bytes);
    lock_give(&r->lock);
    return staged ? done
                  : cuda_check(cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)to, from, bytes, d->stream),
                               "cuMemcpyHtoD");
}

bool cuda_read(int unit, void *to, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit];
    if (!d)
        return false;
    lock_take(&r->lock);
    bool staged = has_buffers(r);
    bool done = staged && receive(r, d->stream, to, from, bytes);
    lock_give(&r->lock);
    if (staged)
        return done;
    return cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, d->stream),
                      "cuMemcpyDtoH") &&
           cuda_check(cuda_api()->cuStreamSynchronize(d->stream), "cuStreamSynchronize");
}
