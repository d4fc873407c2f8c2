// measure.c - from a work to samples. It is warm when the last runs agree; a sample is long enough for the clock; where
// a device runs behind our back, the difference of two lengths leaves out what starting it costs.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { AGREE = 5, WARM_MOST = 1000, WIPE_BYTES = 96 << 20, SAMPLES_MOST = 2000 };
static const double agreement = 0.01, sample_seconds = 5e-4;

// Seconds of one call of so many runs; negative: it failed.
static double time_runs(struct bench_work *w, int count) {
    double start = bench_now();
    return bench_work_run(w, count) ? bench_now() - start : -1;
}

// Whether the last few are within a percent of each other.
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

// Runs until it is stable or its time is over. Sets how many runs make a sample.
static bool warm_up(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out) {
    double recent[AGREE], end = bench_now() + timing->warm_seconds, took = 0;
    int inner = 1;
    do {
        took = time_runs(w, inner);
        if (took < 0)
            return false;
        recent[out->warm % AGREE] = took / inner;
        out->warm++;
        while (took < sample_seconds && inner < 1 << 24) { // a sample that the clock can see
            inner *= 2;
            took = time_runs(w, inner);
            if (took < 0)
                return false;
            out->warm = 0;
        }
        out->stable = last_agree(recent, out->warm);
    } while (!out->stable && bench_now() < end && out->warm < WARM_MOST);
    out->inner = inner;
    return true;
}

// Data that nobody uses: what was in the caches is not there any more.
static void wipe_caches(void) {
    static char *room;
    static char value;
    room = room ? room : malloc(WIPE_BYTES);
    if (room)
        memset(room, ++value, WIPE_BYTES);
}

static double take_sample(struct bench_work *w, const struct bench_samples *out, bool wipe) {
    if (wipe)
        wipe_caches();
    double once = time_runs(w, out->inner);
    if (!out->slope || once < 0)
        return once < 0 ? once : once / out->inner;
    double twice = time_runs(w, 2 * out->inner);
    return twice < 0 ? twice : (twice > once ? twice - once : once) / out->inner;
}

bool bench_measure(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out) {
    *out = (struct bench_samples){.slope = w->is_async};
    int most = timing->most < SAMPLES_MOST ? timing->most : SAMPLES_MOST;
    if (!warm_up(w, timing, out))
        return false;
    out->inner = timing->wipe ? 1 : out->inner;
    out->second = malloc((size_t)most * sizeof *out->second);
    double end = bench_now() + timing->seconds;
    while (out->second && out->count < most && (out->count < timing->least || bench_now() < end)) {
        double sample = take_sample(w, out, timing->wipe);
        if (sample < 0)
            break;
        out->second[out->count++] = sample;
    }
    return out->count > 0;
}
