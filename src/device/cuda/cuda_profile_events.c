// cuda_profile_events.c - times the launches of a profile by an event before and one after each, if there is
// no CUPTI.
//
// Launches are then submitted one by one, without graphs, so that events can be recorded between them. Each
// event costs the GPU about a microsecond.

#include "device/cuda/cuda_queue.h"

// The most launches of a lane whose times are not read yet; with more, the host waits for the oldest.
enum { TIMED = 64 };

static struct timed_lane {
    struct lock lock;
    unsigned profile; // the profile for which `base` was recorded
    cuda_event base;
    int64_t base_ns; // the host's time of `base`
    struct timed {
        cuda_event begin, end;
        uint32_t id;
        bool is_open; // `end` is not recorded yet
    } timed[TIMED];   // a ring
    int first, count;
} lanes[CUDA_DEVICES][CUDA_LANES];

static bool has_event(cuda_event *e) {
    return *e || !cuda_api()->cuEventCreate(e, 0);
}

// Records `base` for the current profile. Under the lock, like the functions below.
static bool record_base(struct timed_lane *l, cuda_stream s) {
    const struct cuda_api *api = cuda_api();
    unsigned now = atomic_load(&profile_now);
    if (l->profile == now)
        return true;
    if (!has_event(&l->base) || api->cuEventRecord(l->base, s) || api->cuEventSynchronize(l->base))
        return false;
    l->base_ns = clock_ns();
    l->profile = now;
    return true;
}

static void report_first(struct timed_lane *l) {
    const struct cuda_api *api = cuda_api();
    const struct timed *t = &l->timed[l->first];
    float until = 0, took = 0;
    l->first = (l->first + 1) % TIMED;
    l->count--;
    if (api->cuEventSynchronize(t->end) || api->cuEventElapsedTime(&until, l->base, t->begin) ||
        api->cuEventElapsedTime(&took, t->begin, t->end))
        return;
    int64_t begin = l->base_ns + (int64_t)((double)until * 1e6);
    profile_add(
        &(struct profile_record){
            .kind = PROFILE_TIME, .id = t->id, .begin = begin, .end = begin + (int64_t)((double)took * 1e6)},
        NULL);
}

// Makes room for one more launch. If the oldest one is still open, as a library's call that launches our
// kernels is, the new launch is not timed.
static bool make_room(struct timed_lane *l) {
    if (l->count == TIMED && !l->timed[l->first].is_open)
        report_first(l);
    if (l->count < TIMED)
        return true;
    profile_drop(1);
    return false;
}

int cuda_events_open(int unit, int lane, uint32_t id) {
    struct cuda_device *d = cuda_device(unit);
    struct timed_lane *l = &lanes[unit][lane];
    int at = -1;
    if (!d)
        return -1;
    lock_take(&l->lock);
    if (record_base(l, d->stream[lane]) && make_room(l)) {
        at = (l->first + l->count) % TIMED;
        struct timed *t = &l->timed[at];
        if (has_event(&t->begin) && has_event(&t->end) &&
            !cuda_api()->cuEventRecord(t->begin, d->stream[lane])) {
            t->id = id;
            t->is_open = true;
            l->count++;
        } else {
            at = -1;
        }
    }
    lock_give(&l->lock);
    return at;
}

void cuda_events_close(int unit, int lane, int at) {
    struct cuda_device *d = cuda_device(unit);
    struct timed_lane *l = &lanes[unit][lane];
    lock_take(&l->lock);
    if (d)
        cuda_api()->cuEventRecord(l->timed[at].end, d->stream[lane]);
    l->timed[at].is_open = false;
    lock_give(&l->lock);
}

void cuda_events_end(void) {
    for (int unit = 0; unit < CUDA_DEVICES; unit++)
        for (int lane = 0; lane < CUDA_LANES; lane++) {
            struct timed_lane *l = &lanes[unit][lane];
            lock_take(&l->lock);
            bool is_there = l->count && cuda_device(unit);
            while (is_there && l->count && !l->timed[l->first].is_open)
                report_first(l);
            lock_give(&l->lock);
        }
}
