// compare.c - decides whether times are the same, faster, slower, or ambiguous, by the confidence interval of
// their ratio. To keep the noise of a machine from looking like a change of the program, runs that were not
// measured in turns must also agree in their best quarters.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

const char *bench_verdict_name(enum bench_verdict verdict) {
    static const char *const names[BENCH_VERDICTS] = {"same",      "faster", "slower",
                                                      "ambiguous", "failed", "not comparable"};
    return verdict < BENCH_VERDICTS ? names[verdict] : "";
}

static enum bench_verdict judge(double low, double high, double threshold) {
    if (isnan(low) || isnan(high))
        return BENCH_INCOMPARABLE;
    if (low > 1 + threshold)
        return BENCH_SLOWER;
    if (high < 1 - threshold)
        return BENCH_FASTER;
    return low >= 1 - threshold && high <= 1 + threshold ? BENCH_SAME : BENCH_AMBIGUOUS;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns the first quartile: a quarter of the samples are faster.
static double best_quarter(const double *sample, int count) {
    double *sorted = malloc((size_t)count * sizeof *sorted), value = NAN;
    if (sorted) {
        memcpy(sorted, sample, (size_t)count * sizeof *sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, by_value);
        value = bench_quantile(sorted, count, 0.25);
    }
    free(sorted);
    return value;
}

// Uses whichever of two estimates has the narrower interval: the median of the ratios of adjacent samples, or
// the ratio of the first quartiles, which other programs on a busy machine disturb less.
static void compare_in_turns(struct bench_comparison *c, const double *before, const double *after, int count,
                             double threshold) {
    double *ratio = malloc((size_t)count * sizeof *ratio), low, high;
    struct bench_stats s = {.median = NAN, .low = NAN, .high = NAN};
    for (int i = 0; ratio && i < count; i++)
        ratio[i] = after[i] / before[i];
    if (ratio)
        bench_statistics(ratio, count, &s);
    free(ratio);
    c->ratio = s.median, c->low = s.low, c->high = s.high;
    bench_ratio_interval(before, count, after, count, 0.25, &low, &high);
    if (high / low < c->high / c->low) {
        c->ratio = best_quarter(after, count) / best_quarter(before, count);
        c->low = low, c->high = high;
    }
    c->verdict = judge(c->low, c->high, threshold);
}

struct bench_comparison bench_compare_samples(const double *before, int before_count, const double *after,
                                              int after_count, double threshold, bool in_turns) {
    struct bench_comparison c = {.verdict = BENCH_INCOMPARABLE, .ratio = NAN, .low = NAN, .high = NAN};
    struct bench_stats b, a;
    if (before_count == 0 || after_count == 0) {
        snprintf(c.why, sizeof c.why, "no samples");
        return c;
    }
    if (in_turns) {
        compare_in_turns(&c, before, after, before_count < after_count ? before_count : after_count,
                         threshold);
        return c;
    }
    bench_statistics(before, before_count, &b);
    bench_statistics(after, after_count, &a);
    c.ratio = a.median / b.median;
    bench_ratio_interval(before, before_count, after, after_count, 0.5, &c.low, &c.high);
    c.verdict = judge(c.low, c.high, threshold);
    double quarters = best_quarter(after, after_count) / best_quarter(before, before_count);
    bool agrees = c.verdict == BENCH_SLOWER ? quarters > 1 + threshold
                                            : c.verdict != BENCH_FASTER || quarters < 1 - threshold;
    if (!agrees) {
        c.verdict = BENCH_AMBIGUOUS;
        snprintf(c.why, sizeof c.why, "medians differ by %+.1f %%, the best quarters by %+.1f %%: noise?",
                 100 * (c.ratio - 1), 100 * (quarters - 1));
    }
    return c;
}

struct bench_comparison bench_compare_rows(const struct bench_row *before, const struct bench_row *after,
                                           double threshold) {
    struct bench_comparison c = {.verdict = BENCH_INCOMPARABLE, .ratio = NAN, .low = NAN, .high = NAN};
    if (before->status != BENCH_OK || after->status != BENCH_OK)
        snprintf(c.why, sizeof c.why, "%s before, %s after: %.100s", bench_status_name(before->status),
                 bench_status_name(after->status), after->status != BENCH_OK ? after->note : before->note);
    else if (before->clock != after->clock)
        snprintf(c.why, sizeof c.why, "times of other clocks: %s and %s", bench_clock_name(before->clock),
                 bench_clock_name(after->clock));
    if (before->status == BENCH_OK && after->status == BENCH_FAILED)
        c.verdict = BENCH_BROKEN;
    else if (!c.why[0] && after->clock == BENCH_CLOCK_MODEL) { // the same in every run: there is no noise
        c.ratio = c.low = c.high = after->stats.median / before->stats.median;
        c.verdict = judge(c.low, c.high, threshold);
    } else if (!c.why[0])
        c = bench_compare_samples(before->second, before->stats.count, after->second, after->stats.count,
                                  threshold, false);
    snprintf(c.id, sizeof c.id, "%s", after->config.id);
    return c;
}

void bench_compare_runs(const struct bench_run *before, const struct bench_run *after, char *why,
                        size_t bytes) {
    const struct bench_subject *b = &before->subject, *a = &after->subject;
    why[0] = 0;
    if (strcmp(b->name, a->name) || strcmp(b->chip, a->chip))
        snprintf(why, bytes, "other chips: %s and %s", b->name, a->name);
    else if (strcmp(b->device, a->device))
        snprintf(why, bytes, "other devices: %s and %s", b->device, a->device);
    else if (b->threads != a->threads)
        snprintf(why, bytes, "other numbers of threads: %d and %d", b->threads, a->threads);
    else if (b->is_modelled != a->is_modelled)
        snprintf(why, bytes, "times of a clock and of a model");
    else if (before->timing.zeros != after->timing.zeros)
        snprintf(why, bytes, "other data: zeros and random numbers");
    else if (before->timing.wipe != after->timing.wipe)
        snprintf(why, bytes, "caches were emptied in one of them only");
}

bool bench_comparisons_add(struct bench_comparisons *list, struct bench_comparison c) {
    struct bench_comparison *more = realloc(list->item, (size_t)(list->count + 1) * sizeof *more);
    if (!more)
        return false;
    list->item = more;
    list->item[list->count++] = c;
    list->of[c.verdict]++;
    return true;
}

void bench_comparison_free(struct bench_comparison *c) {
    free(c->sample[0]), free(c->sample[1]);
}

void bench_comparisons_free(struct bench_comparisons *list) {
    for (int i = 0; i < list->count; i++)
        bench_comparison_free(&list->item[i]);
    free(list->item);
    *list = (struct bench_comparisons){0};
}

bool bench_compare_all(struct bench_comparisons *list, const struct bench_run *before,
                       const struct bench_run *after, double threshold) {
    for (int i = 0; i < after->rows; i++) {
        const struct bench_row *old = bench_run_find(before, after->row[i].config.id);
        if (old && !bench_comparisons_add(list, bench_compare_rows(old, &after->row[i], threshold)))
            return false;
    }
    return true;
}
