// cuda_copy.c - copies between host and device memory: in pieces through a ring of pinned buffers, or
// directly to pinned pages.
//
// The device reads and writes pinned pages by DMA while the host continues. So the threads of the pool fill
// one buffer while the previous one is transferred, and empty one while the next arrives. A buffer is reused
// when its event is done. Uploads use few and large buffers, because waking threads and calling the driver
// takes longer than copying small ones.

#include "device/cuda/cuda.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    RING = 8 << 20,      // bytes of the ring
    SENT = 2 << 20,      // bytes of a buffer for uploads,
    ARRIVED = 512 << 10, // and for downloads
    PART = 64 << 10,     // bytes that a thread copies at once
    BUFFERS = RING / ARRIVED,
    DIRECT = 64 << 10, // up to this size, the driver copies the source into its own queue before it returns
};

static struct ring {
    struct lock lock; // held during a copy
    char *memory;     // RING bytes; NULL if they are not allocated yet
    cuda_event done[BUFFERS];
    cuda_event received; // after copies to pinned pages; NULL if it is not made yet
    bool failed;         // pinned memory is not available: the driver copies in its own way
} rings[CUDA_DEVICES][CUDA_STREAMS];

// The host's side -------------------------------------------------------------------------------------------

struct move {
    char *to;
    const char *from;
    size_t bytes;
};

static void move_part(void *data, int part) {
    const struct move *m = data;
    size_t at = (size_t)part * PART;
    memcpy(m->to + at, m->from + at, MIN_OF((size_t)PART, m->bytes - at));
}

// Copies a part past the caches, in which the device would have to look for it. `to` is a multiple of 16.
static void fill_part(void *data, int part) {
#ifdef __SSE2__
    const struct move *m = data;
    size_t at = (size_t)part * PART, end = MIN_OF(at + PART, m->bytes);
    for (; at + 16 <= end; at += 16)
        _mm_stream_si128((__m128i *)(void *)(m->to + at),
                         _mm_loadu_si128((const __m128i *)(const void *)(m->from + at)));
    memcpy(m->to + at, m->from + at, end - at);
    _mm_sfence();
#else
    move_part(data, part);
#endif
}

static void move(void *to, const void *from, size_t bytes, void (*part)(void *data, int part)) {
    pool_run((int)((bytes + PART - 1) / PART), part, &(struct move){to, from, bytes});
}

// The ring --------------------------------------------------------------------------------------------------

static bool make_ring(struct ring *r) {
    const struct cuda_api *api = cuda_api();
    void *memory = NULL;
    if (api->cuMemHostAlloc(&memory, RING, 0))
        return false;
    for (int i = 0; i < BUFFERS; i++)
        if (cuda_event_make(&r->done[i])) {
            api->cuMemFreeHost(memory);
            return false;
        }
    r->memory = memory;
    return true;
}

// Returns whether the ring exists, and makes it at its first use. Under its lock.
static bool has_buffers(struct ring *r) {
    if (!r->memory && !r->failed)
        r->failed = !make_ring(r);
    return r->memory;
}

static bool wait_for(const struct ring *r, size_t at) {
    return cuda_event_wait(r->done[at % RING / ARRIVED]);
}

static bool record(const struct ring *r, size_t at, cuda_stream s) {
    return cuda_check(cuda_api()->cuEventRecord(r->done[at % RING / ARRIVED], s), "cuEventRecord");
}

// Copies ----------------------------------------------------------------------------------------------------

static bool send(const struct ring *r, cuda_stream s, char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += SENT) {
        size_t some = MIN_OF((size_t)SENT, bytes - at);
        char *buffer = r->memory + at % RING;
        if (!wait_for(r, at)) // for the last upload through this buffer; downloads through it are done
            return false;
        move(buffer, from + at, some, fill_part);
        if (!cuda_check(cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)(to + at), buffer, some, s),
                        "cuMemcpyHtoD") ||
            !record(r, at, s))
            return false;
    }
    return true;
}

static bool enqueue_copy(const struct ring *r, cuda_stream s, const char *from, size_t bytes, size_t at) {
    return at >= bytes ||
           (cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(r->memory + at % RING, (uintptr_t)(from + at),
                                                        MIN_OF((size_t)ARRIVED, bytes - at), s),
                       "cuMemcpyDtoH") &&
            record(r, at, s));
}

// Copies to the host through the ring. Uploads that still read a buffer precede these writes to it in the
// lane's order.
static bool receive(const struct ring *r, cuda_stream s, char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < RING; at += ARRIVED)
        if (!enqueue_copy(r, s, from, bytes, at))
            return false;
    for (size_t at = 0; at < bytes; at += ARRIVED) {
        if (!wait_for(r, at))
            return false;
        move(to + at, r->memory + at % RING, MIN_OF((size_t)ARRIVED, bytes - at), move_part);
        if (!enqueue_copy(r, s, from, bytes, at + RING))
            return false;
    }
    return true;
}

bool cuda_write(int unit, int lane, void *to, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit][lane];
    if (!d)
        return false;
    lock_take(&r->lock);
    bool staged = bytes > DIRECT && has_buffers(r);
    bool done = staged && send(r, d->stream[lane], to, from, bytes);
    lock_give(&r->lock);
    return staged ? done
                  : cuda_check(cuda_api()->cuMemcpyHtoDAsync_v2((uintptr_t)to, from, bytes, d->stream[lane]),
                               "cuMemcpyHtoD");
}

bool cuda_read(int unit, int lane, void *to, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit][lane];
    if (!d)
        return false;
    lock_take(&r->lock);
    bool staged = has_buffers(r);
    bool done = staged && receive(r, d->stream[lane], to, from, bytes);
    lock_give(&r->lock);
    if (staged)
        return done;
    return cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, d->stream[lane]),
                      "cuMemcpyDtoH") &&
           cuda_check(cuda_api()->cuStreamSynchronize(d->stream[lane]), "cuStreamSynchronize");
}

// Pinned pages ----------------------------------------------------------------------------------------------

bool cuda_pin(int unit, void *pages, size_t bytes) {
    enum { PORTABLE = 1 }; // for the contexts of all devices
    return cuda_device(unit) && !cuda_api()->cuMemHostRegister_v2(pages, bytes, PORTABLE);
}

void cuda_unpin(int unit, void *pages) {
    if (cuda_device(unit))
        cuda_api()->cuMemHostUnregister(pages);
}

// Waits for all work enqueued on the stream. Under the ring's lock.
static bool wait_for_stream(struct ring *r, cuda_stream s) {
    return (r->received || cuda_check(cuda_event_make(&r->received), "cuEventCreate")) &&
           cuda_check(cuda_api()->cuEventRecord(r->received, s), "cuEventRecord") &&
           cuda_event_wait(r->received);
}

bool cuda_receive(int unit, int lane, void *pages, const void *from, size_t bytes) {
    struct cuda_device *d = cuda_device(unit);
    struct ring *r = &rings[unit][lane];
    if (!d)
        return false;
    cuda_stream s = d->stream[lane];
    lock_take(&r->lock);
    bool enqueued =
        cuda_check(cuda_api()->cuMemcpyDtoHAsync_v2(pages, (uintptr_t)from, bytes, s), "cuMemcpyDtoH");
    bool done = enqueued && wait_for_stream(r, s);
    lock_give(&r->lock);
    if (enqueued && !done)
        cuda_api()->cuStreamSynchronize(s); // the pages may be reused now, so nothing may still write to them
    return done;
}
