// measure.c - takes samples of a work. Warming up ends when the last runs agree; otherwise the first and the
// last samples must agree. A sample is long enough for the clock. For an asynchronous device, runs of two
// lengths give the cost of starting, which is subtracted; or the device's own clock tells (device_clock.c).

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGREE = 5, WARM_MOST = 1000, SAMPLES_MOST = 2000, PROFILED_MOST = 200, INNER_MOST = 1 << 24 };
enum { WIPE_BYTES = 96 << 20 };
static const double agreement = 0.01, sample_seconds = 5e-4, long_seconds = 0.02;

// Returns the seconds of `count` runs together; negative after an error.
static double time_runs(struct bench_work *w, int count) {
    double start = bench_now();
    return bench_work_run(w, count) ? bench_now() - start : -1;
}

// Returns whether the last few runs agree within a percent.
static bool last_agree(const double *recent, int count) {
    double low = INFINITY, high = 0;
    if (count < AGREE)
        return false;
    for (int i = 0; i < AGREE; i++) {
        low = fmin(low, recent[i]);
        high = fmax(high, recent[i]);
    }
    return high - low <= agreement * low;
}

// Returns whether `count` runs, which took that time, are enough for the clock; on an asynchronous device,
// whether twice as many take longer by enough.
static bool is_long_enough(struct bench_work *w, const struct bench_samples *out, int count, double took) {
    if (!out->slope || took < sample_seconds || took > long_seconds)
        return took >= sample_seconds;
    return time_runs(w, 2 * count) - took >= sample_seconds;
}

// Runs until the times are stable or its time is over. Sets the number of runs per sample.
static bool warm_up(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out) {
    double recent[AGREE], end = bench_now() + timing->warm_seconds, took = 0;
    int inner = 1;
    do {
        took = time_runs(w, inner);
        recent[out->warm % AGREE] = took / inner;
        out->warm++;
        while (took >= 0 && inner < INNER_MOST && !is_long_enough(w, out, inner, took)) {
            inner *= 2;
            took = time_runs(w, inner);
            out->warm = 0;
        }
        if (took < 0)
            return false;
        out->stable = last_agree(recent, out->warm);
    } while (!out->stable && bench_now() < end && out->warm < WARM_MOST);
    out->inner = inner;
    return true;
}

// Replaces the contents of the caches of all threads, or of the device, by moving other data through them.
static bool wipe_caches(void) {
    int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    bool done = false;
    ZL_SCOPE {
        zl_shape shape = ZL_SHAPE((bytes > WIPE_BYTES ? bytes : WIPE_BYTES) / (int64_t)sizeof(float));
        zl_array room = zl_full(shape, zl_scalar(1), ZL_FLOAT32);
        done = room && zl_eval(zl_retain(room)) && zl_eval(zl_negative(room)) && zl_synchronize();
        zl_release(room);
    }
    return done;
}

double bench_take_start_off(double *once, const double *twice, int count, int inner) {
    double best_once = INFINITY, best_twice = INFINITY;
    for (int i = 0; i < count; i++) {
        best_once = fmin(best_once, once[i]);
        best_twice = fmin(best_twice, twice[i]);
    }
    double start = fmax(2 * best_once - best_twice, 0);
    if (best_twice <= best_once) // the noise is larger than the work: rather overestimate the time than
                                 // underestimate it
        start = 0;
    for (int i = 0; i < count; i++)
        once[i] = (twice[i] - start) / (2.0 * inner);
    return start;
}

// Takes one more sample. Returns false after an error.
static bool add_sample(struct bench_work *w, struct bench_samples *out, double *twice, bool wipe) {
    if (wipe && !wipe_caches())
        return false;
    double took = time_runs(w, out->inner);
    if (took < 0 || (out->slope && (twice[out->count] = time_runs(w, 2 * out->inner)) < 0))
        return false;
    out->second[out->count++] = took / (out->slope ? 1 : out->inner);
    return true;
}

// Returns whether the best samples of both halves agree within a percent, which means that the work was warm.
static bool halves_agree(const struct bench_samples *s) {
    double best[2] = {INFINITY, INFINITY};
    for (int i = 0; i < s->count; i++)
        best[2 * i >= s->count] = fmin(best[2 * i >= s->count], s->second[i]);
    return s->count >= 3 && fabs(best[0] - best[1]) <= agreement * fmin(best[0], best[1]);
}

// Takes samples that the device or the model reports; of a model, one.
static bool take_told(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out) {
    int most = w->is_modelled ? 1 : timing->most < SAMPLES_MOST ? timing->most : SAMPLES_MOST;
    double end = bench_now() + timing->seconds;
    *out = (struct bench_samples){.inner = 1,
                                  .stable = w->is_modelled,
                                  .clock = w->is_modelled ? BENCH_CLOCK_MODEL : BENCH_CLOCK_DEVICE};
    out->second = malloc((size_t)most * sizeof *out->second);
    while (out->second && out->count < most && (out->count < timing->least || bench_now() < end)) {
        if (!w->kind->tell(w, &out->second[out->count]))
            return false;
        out->count++;
    }
    out->stable = out->stable || halves_agree(out);
    return out->count > 0;
}

// Takes samples by the device's clock. Returns false, without an error, if it does not tell the time.
static bool take_on_device(struct bench_work *w, const struct bench_timing *timing,
                           struct bench_samples *out) {
    *out = (struct bench_samples){.clock = BENCH_CLOCK_DEVICE};
    double start = bench_now();
    if (!warm_up(w, timing, out) || !(start = bench_now(), bench_work_run(w, 1)))
        return false;
    double runs = timing->seconds / fmax(bench_now() - start, 1e-6);
    runs = fmin(fmax(runs, timing->least), fmin(timing->most, PROFILED_MOST));
    out->second = malloc((size_t)runs * sizeof *out->second);
    if (!out->second || !bench_device_seconds(w, (int)runs, out->second)) {
        free(out->second);
        out->second = NULL;
        return false;
    }
    out->count = (int)runs;
    out->inner = 1;
    out->stable = halves_agree(out);
    return true;
}

// Returns whether the device's clock is to be used if it tells the time: of a device that runs whole
// programs, since what starting one costs is not the chip's.
static bool wants_device_clock(const struct bench_work *w, const struct bench_timing *timing) {
    if (timing->clock[0])
        return !strcmp(timing->clock, "device");
    return w->is_async && !timing->wipe && (!strncmp(w->device, "pjrt", 4) || !strncmp(w->device, "tpu", 3));
}

bool bench_measure(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out) {
    if (w->tells_seconds)
        return take_told(w, timing, out);
    if (wants_device_clock(w, timing) && !w->kind->run) {
        if (take_on_device(w, timing, out))
            return true;
        if (timing->clock[0])
            return false;
        w->why[0] = 0;
        zl_clear_error();
    }
    *out =
        (struct bench_samples){.slope = w->is_async && !timing->wipe}; // without this if caches are wiped: a
                                                                       // second run would find them full
    int most = timing->most < SAMPLES_MOST ? timing->most : SAMPLES_MOST;
    if (!warm_up(w, timing, out))
        return false;
    out->inner = timing->wipe ? 1 : out->inner;
    out->second = malloc((size_t)most * sizeof *out->second);
    double *twice = malloc((size_t)most * sizeof *twice), end = bench_now() + timing->seconds;
    bool done = out->second && twice;
    while (done && out->count < most && (out->count < timing->least || bench_now() < end))
        done = add_sample(w, out, twice, timing->wipe);
    if (out->slope && out->count)
        out->start = bench_take_start_off(out->second, twice, out->count, out->inner);
    free(twice);
    out->stable = out->stable || halves_agree(out);
    return done && out->count > 0;
}
