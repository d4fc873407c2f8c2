// stats.c - statistics of samples: the median with its confidence interval, spread, outliers, and whether
// there are two groups. The interval is a bootstrap whose random numbers are always the same, so that the
// same samples give the same figures.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 500, BOOTSTRAP_MOST = 512 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(double *value, int count) {
    qsort(value, (size_t)count, sizeof *value, by_value);
}

double bench_quantile(const double *sorted, int count, double q) {
    if (count == 0)
        return NAN;
    double at = q * (count - 1);
    int low = (int)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

void bench_window_add(struct bench_window *s, double value) {
    s->value[s->taken++ % BENCH_WINDOW] = value;
}

double bench_window_quantile(struct bench_window *s, double q) {
    int count = s->taken < BENCH_WINDOW ? (int)s->taken : BENCH_WINDOW;
    sort(s->value, count);
    return bench_quantile(s->value, count, q);
}

// Draws a random number by PCG32 (Melissa O'Neill), with fixed state and increment.
static uint32_t draw(uint64_t *state) {
    uint64_t old = *state;
    *state = old * 6364136223846793005u + 1442695040888963407u;
    uint32_t mixed = (uint32_t)(((old >> 18) ^ old) >> 27), turn = (uint32_t)(old >> 59);
    return mixed >> turn | mixed << (-turn & 31);
}

static double resampled_quantile(const double *sample, int count, double q, uint64_t *state) {
    double copy[BOOTSTRAP_MOST];
    int take = count < BOOTSTRAP_MOST ? count : BOOTSTRAP_MOST;
    for (int i = 0; i < take; i++)
        copy[i] = sample[draw(state) % (uint32_t)count];
    sort(copy, take);
    return bench_quantile(copy, take, q);
}

static void interval_of(double *values, double *low, double *high) {
    sort(values, RESAMPLES);
    *low = bench_quantile(values, RESAMPLES, 0.025);
    *high = bench_quantile(values, RESAMPLES, 0.975);
}

void bench_median_interval(const double *sample, int count, double *low, double *high) {
    double medians[RESAMPLES];
    uint64_t state = 42;
    *low = *high = NAN;
    if (count == 0)
        return;
    for (int i = 0; i < RESAMPLES; i++)
        medians[i] = resampled_quantile(sample, count, 0.5, &state);
    interval_of(medians, low, high);
}

void bench_ratio_interval(const double *before, int before_count, const double *after, int after_count,
                          double q, double *low, double *high) {
    double ratios[RESAMPLES];
    uint64_t state = 42;
    *low = *high = NAN;
    if (before_count == 0 || after_count == 0)
        return;
    for (int i = 0; i < RESAMPLES; i++) {
        double below = resampled_quantile(before, before_count, q, &state);
        ratios[i] = resampled_quantile(after, after_count, q, &state) / below;
    }
    interval_of(ratios, low, high);
}

// Spread ----------------------------------------------------------------------------------------------------

static double median_deviation(const double *value, int count, double from) {
    double *distance = malloc((size_t)count * sizeof *distance), result = NAN;
    for (int i = 0; distance && i < count; i++)
        distance[i] = fabs(value[i] - from);
    if (distance) {
        sort(distance, count);
        result = bench_quantile(distance, count, 0.5);
    }
    free(distance);
    return result;
}

// Counts modified z-scores above 3.5, as Iglewicz and Hoaglin recommend.
static int count_outliers(const double *value, int count, double median, double mad) {
    int outliers = 0;
    for (int i = 0; i < count && mad > 0; i++)
        outliers += 0.6745 * fabs(value[i] - median) / mad > 3.5;
    return outliers;
}

// Returns whether the samples form two groups: the widest gap has at least a sixth of the samples on each
// side, and is large compared with the spread of both sides and with the values themselves.
static bool is_bimodal(const double *sorted, int count) {
    int least = count / 6 > 3 ? count / 6 : 3;
    for (int cut = least; cut <= count - least; cut++) {
        double gap = sorted[cut] - sorted[cut - 1];
        double left = bench_quantile(sorted, cut, 0.9) - bench_quantile(sorted, cut, 0.1);
        double right =
            bench_quantile(sorted + cut, count - cut, 0.9) - bench_quantile(sorted + cut, count - cut, 0.1);
        if (gap > 2 * fmax(left, right) && gap > 0.05 * sorted[cut])
            return true;
    }
    return false;
}

void bench_statistics(const double *sample, int count, struct bench_stats *out) {
    *out = (struct bench_stats){.count = count};
    double *sorted = malloc((size_t)(count ? count : 1) * sizeof *sorted);
    if (!sorted || count == 0) {
        out->median = out->low = out->high = out->mad = out->p5 = out->p95 = out->best = NAN;
        free(sorted);
        return;
    }
    memcpy(sorted, sample, (size_t)count * sizeof *sorted);
    sort(sorted, count);
    out->best = sorted[0];
    out->median = bench_quantile(sorted, count, 0.5);
    out->p5 = bench_quantile(sorted, count, 0.05);
    out->p95 = bench_quantile(sorted, count, 0.95);
    out->mad = median_deviation(sorted, count, out->median);
    out->outliers = count_outliers(sorted, count, out->median, out->mad);
    out->bimodal = is_bimodal(sorted, count);
    bench_median_interval(sample, count, &out->low, &out->high);
    free(sorted);
}
