// cuda_dnn_time.c - which of some plans of cuDNN is the fastest: each is run where it would be, between two events.

#include "device/cuda/cuda_dnn.h"

#include <math.h>

enum { TIMED_RUNS = 3, FAR_LONGER = 3 };

// What a plan is timed with.
struct trial {
    const struct kernel_place *place;
    cuda_stream stream;
    cuda_event mark[2];
    int count;
    const int64_t *tensor;
    void *const *memory;
};

// Milliseconds of so many runs; INFINITY: it fails.
static float time_runs(const struct trial *t, const struct dnn_plan *plan, void *work, int runs) {
    const struct cuda_api *cuda = cuda_api();
    float ms = INFINITY;
    int failed = cuda->cuEventRecord(t->mark[0], t->stream);
    for (int i = 0; !failed && i < runs; i++)
        failed = dnn_execute(t->place, plan, t->count, t->tensor, t->memory, work);
    failed = failed || cuda->cuEventRecord(t->mark[1], t->stream) || cuda->cuEventSynchronize(t->mark[1]) ||
             cuda->cuEventElapsedTime(&ms, t->mark[0], t->mark[1]);
    return failed ? INFINITY : ms;
}

// Milliseconds of a run, behind one that is not counted unless it says enough: that it takes far longer than `best`.
static float time_plan(const struct trial *t, const struct dnn_plan *plan, void *work, float best) {
    float first = time_runs(t, plan, work, 1);
    return first > FAR_LONGER * best ? first : time_runs(t, plan, work, TIMED_RUNS) / TIMED_RUNS;
}

// Memory that there is not makes a plan no slower than it is: it is left out.
static float try_plan(const struct trial *t, const struct dnn_plan *plan, float best) {
    struct cuda_scratch work = {0};
    bool had_error = zl_error();
    float ms = cuda_scratch_open(t->place, &work, plan->workspace) ? time_plan(t, plan, work.memory, best)
                                                                   : INFINITY;
    cuda_scratch_close(t->place, &work);
    if (!had_error)
        zl_clear_error();
    return ms;
}

static int find_fastest(struct trial *t, int plans, const struct dnn_plan *plan) {
    const struct cuda_api *cuda = cuda_api();
    float best = INFINITY;
    int fastest = 0;
    bool ready = !cuda->cuEventCreate(&t->mark[0], 0) && !cuda->cuEventCreate(&t->mark[1], 0);
    for (int i = 0; ready && i < plans; i++) {
        float ms = try_plan(t, &plan[i], best);
        if (ms < best) {
            best = ms;
            fastest = i;
        }
    }
    for (int i = 0; i < 2; i++)
        if (t->mark[i])
            cuda->cuEventDestroy_v2(t->mark[i]);
    return fastest;
}

int dnn_fastest(const struct kernel_place *p, int plans, const struct dnn_plan *plan, int count,
                const int64_t *tensor, void *const *memory) {
    struct cuda_device *d = cuda_device(p->unit);
    if (!d)
        return 0;
    struct trial t = {
        .place = p, .stream = d->stream[p->lane], .count = count, .tensor = tensor, .memory = memory};
    dnn_take(p);
    int fastest = find_fastest(&t, plans, plan);
    dnn_give(p);
    return fastest;
}
