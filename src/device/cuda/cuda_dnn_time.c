// cuda_dnn_time.c - finds the fastest of several plans of cuDNN by running each on the lane that will use it.

#include "device/cuda/cuda_dnn.h"

#include <math.h>

enum { TIMED_RUNS = 3, FAR_LONGER = 3 };

// The arguments of a run that is timed.
struct trial {
    const struct kernel_place *place;
    const struct dnn_plan *plan;
    int count;
    const int64_t *tensor;
    void *const *memory;
    void *work;
};

static bool execute(const void *data) {
    const struct trial *t = data;
    return !dnn_execute(t->place, t->plan, t->count, t->tensor, t->memory, t->work);
}

// Returns the milliseconds of a run. The first run only warms up, unless it shows that the plan takes far
// longer than `best`.
static float time_plan(const struct trial *t, float best) {
    float first = cuda_time(t->place->unit, t->place->lane, 1, execute, t);
    return first > FAR_LONGER * best ? first
                                     : cuda_time(t->place->unit, t->place->lane, TIMED_RUNS, execute, t);
}

// Returns the milliseconds of a plan, or INFINITY if it fails or there is no memory for its workspace: then
// the plan is left out.
static float try_plan(struct trial *t, float best) {
    struct kernel_scratch work = {0};
    bool had_error = zl_error();
    t->work = kernel_scratch_open(t->place, &work, t->plan->workspace);
    float ms = t->work ? time_plan(t, best) : INFINITY;
    kernel_scratch_close(t->place, &work);
    if (!had_error)
        zl_clear_error();
    return ms;
}

int dnn_fastest(const struct kernel_place *p, int plans, const struct dnn_plan *plan, int count,
                const int64_t *tensor, void *const *memory, float *ms) {
    int fastest = 0;
    *ms = INFINITY;
    dnn_take(p);
    for (int i = 0; i < plans; i++) {
        struct trial t = {.place = p, .plan = &plan[i], .count = count, .tensor = tensor, .memory = memory};
        float took = try_plan(&t, *ms);
        if (took < *ms) {
            *ms = took;
            fastest = i;
        }
    }
    dnn_give(p);
    return fastest;
}
