// cuda_copy.c - copies between memory of the host and of a device, in pieces through a ring of pinned buffers.
//
// The device reads and writes pinned pages by itself, while the host goes on. So each thread of the pool fills a buffer and sends
// it off, or waits for one to arrive and empties it: one thread alone copies slower than the device does. A buffer is used again
// when its event is done.

#include "device/cuda/cuda.h"

#include <string.h>

enum {
    BUFFER = 256 << 10, // bytes
    BUFFERS = 32,
    HALF = BUFFERS / 2, // of them arrives while the other is emptied
    DIRECT = 64 << 10,  // bytes up to which the driver takes what it is given into its own queue
    WITHOUT_TIMES = 2,
};

static struct ring {
    struct lock lock; // held for a copy
    char *memory;     // BUFFERS times BUFFER; NULL: not made yet
    cuda_event done[BUFFERS];
    bool failed; // there is no pinned memory: the driver copies in its own way
} rings[CUDA_DEVICES];

// The ring ---------------------------------------------------------------------------------------------------------

static bool make_ring(struct ring *r) {
    const struct cuda_api *api = cuda_api();
    void *memory = NULL;
    if (api->cuMemHostAlloc(&memory, (size_t)BUFFERS * BUFFER, 0))
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

// A part of a copy: bytes, which fit in some buffers of the ring from the first on.
struct part {
    const struct ring *r;
    int unit, first;
    char *to;
    const char *from;
    size_t bytes;
    atomic_bool failed;
};

static size_t bytes_of(const struct part *p, int i) {
    return MIN_OF((size_t)BUFFER, p->bytes - (size_t)i * BUFFER);
}

static int buffers_of(const struct part *p) {
    return (int)((p->bytes + BUFFER - 1) / BUFFER);
}

static char *buffer_of(const struct part *p, int i) {
    return p->r->memory + (size_t)(p->first + i) * BUFFER;
}

static bool wait_for(const struct part *p, int i) {
    return cuda_check(cuda_api()->cuEventSynchronize(p->r->done[p->first + i]), "cuEventSynchronize");
}

static bool record(const struct part *p, int i, cuda_stream s) {
    return cuda_check(cuda_api()->cuEventRecord(p->r->done[p->first + i], s), "cuEventRecord");
}

// Up ---------------------------------------------------------------------------------------------------------------

// What other threads send in between is before the event too: it is later than it could be, not earlier.
static bool send_buffer(struct part *p, int i) {
    struct cuda_device *d = cuda_device(p->unit);
    size_t at = (size_t)i * BUFFER;
    if (!d || !wait_for(p, i)) // for what went through it last
        return false;
    memcpy(buffer_of(p, i), p->from + at, bytes_of(p, i));
    return cuda_check(
               cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)(p->to + at), buffer_of(p, i), bytes_of(p, i), d->stream),
               "cuMemcpyHtoD") &&
           record(p, i, d->stream);
}

static void send_any(void *data, int i) {
    struct part *p = data;
    if (!send_buffer(p, i))
        atomic_store(&p->failed, true);
}

static bool send(const struct ring *r, int unit, char *to, const char *from, size_t bytes) {
    size_t whole = (size_t)BUFFERS * BUFFER;
    for (size_t at = 0; at < bytes; at += whole) {
        struct part p = {.r = r, .unit = unit, .to = to + at, .from = from + at, .bytes = MIN_OF(whole, bytes - at)};
        pool_run(buffers_of(&p), send_any, &p);
        if (atomic_load(&p.failed))
            return false;
    }
    return true;
}

// Down -------------------------------------------------------------------------------------------------------------

// Uploads that still read a buffer come earlier in the stream's order than what writes it here.
static bool ask_for(const struct part *p, cuda_stream s) {
    bool good = true;
    for (int i = 0; good && i < buffers_of(p); i++)
        good = cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(
                              buffer_of(p, i), (uintptr_t)(p->from + (size_t)i * BUFFER), bytes_of(p, i), s),
                          "cuMemcpyDtoH") &&
               record(p, i, s);
    return good;
}

static void empty_any(void *data, int i) {
    struct part *p = data;
    if (cuda_device(p->unit) && wait_for(p, i))
        memcpy(p->to + (size_t)i * BUFFER, buffer_of(p, i), bytes_of(p, i));
    else
        atomic_store(&p->failed, true);
}

static struct part half_at(const struct ring *r, int unit, char *to, const char *from, size_t bytes, size_t at) {
    size_t half = (size_t)HALF * BUFFER;
    return (struct part){.r = r,
                         .unit = unit,
                         .first = at / half % 2 ? HALF : 0,
                         .to = to + at,
                         .from = from + at,
                         .bytes = at < bytes ? MIN_OF(half, bytes - at) : 0};
}

static bool receive(const struct ring *r, int unit, char *to, const char *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct part p = half_at(r, unit, to, from, bytes, 0);
    bool good = d && ask_for(&p, d->stream);
    for (size_t at = 0; good && at < bytes; at += (size_t)HALF * BUFFER) {
        struct part next = half_at(r, unit, to, from, bytes, at + (size_t)HALF * BUFFER);
        p = half_at(r, unit, to, from, bytes, at);
        good = ask_for(&next, d->stream);
        pool_run(buffers_of(&p), empty_any, &p);
        good = good && !atomic_load(&p.failed);
    }
    return good;
}

// Copies -----------------------------------------------------------------------------------------------------------

bool cuda_write(int unit, void *to, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit];
    if (!d)
        return false;
    lock_take(&r->lock);
    bool staged = bytes > DIRECT && has_buffers(r);
    bool done = staged && send(r, unit, to, from, bytes);
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
    bool done = staged && receive(r, unit, to, from, bytes);
    lock_give(&r->lock);
    if (staged)
        return done;
    return cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, d->stream),
                      "cuMemcpyDtoH") &&
           cuda_check(cuda_api()->cuStreamSynchronize(d->stream), "cuStreamSynchronize");
}
