// test_stats.c - statistics of samples, and the verdicts that rest on them.

#include "test.h"

#include <stdlib.h>

#include "bench.h"

// Samples around 1 that are the same at each run: a width of 2 spread, and each hundredth is slow.
static void make_samples(double *out, int count, double spread, unsigned seed) {
    uint32_t state = seed;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = 1 + spread * ((state >> 8) * 0x1p-23 - 1) + (i % 100 == 99 ? 5 : 0);
    }
}

TEST(quantiles_interpolate) {
    const double sorted[] = {1, 2, 3, 4};
    CHECK_EQ_F64(bench_quantile(sorted, 4, 0), 1);
    CHECK_EQ_F64(bench_quantile(sorted, 4, 0.5), 2.5);
    CHECK_EQ_F64(bench_quantile(sorted, 4, 1), 4);
    CHECK(isnan(bench_quantile(sorted, 0, 0.5)));
}

TEST(statistics_of_known_samples) {
    const double sample[] = {3, 1, 2, 5, 4, 100};
    struct bench_stats s;
    bench_statistics(sample, 6, &s);
    CHECK_EQ_INT(s.count, 6);
    CHECK_EQ_F64(s.median, 3.5);
    CHECK_EQ_F64(s.best, 1);
    CHECK_EQ_F64(s.mad, 1.5);
    CHECK_EQ_INT(s.outliers, 1);
    CHECK(s.low <= s.median && s.median <= s.high);
}

TEST(statistics_of_nothing_are_not_numbers) {
    struct bench_stats s;
    bench_statistics(NULL, 0, &s);
    CHECK(isnan(s.median) && isnan(s.low) && isnan(s.best));
    CHECK_EQ_INT(s.count, 0);
}

TEST(the_interval_is_the_same_each_time_and_holds_the_median) {
    double sample[200];
    struct bench_stats first, second;
    int holds = 0;
    for (unsigned seed = 1; seed <= 40; seed++) {
        make_samples(sample, 200, 0.1, seed * 977);
        bench_statistics(sample, 200, &first);
        bench_statistics(sample, 200, &second);
        CHECK_EQ_F64(first.low, second.low);
        CHECK_EQ_F64(first.high, second.high);
        holds += first.low <= 1 && 1 <= first.high;
    }
    CHECK(holds >= 34); // of 40; 38 are to be expected
}

TEST(two_groups_are_seen_one_is_not) {
    double sample[120];
    struct bench_stats s;
    make_samples(sample, 120, 0.02, 3);
    bench_statistics(sample, 120, &s);
    CHECK(!s.bimodal);
    for (int i = 0; i < 120; i += 3)
        sample[i] *= 1.5;
    bench_statistics(sample, 120, &s);
    CHECK(s.bimodal);
}

TEST(the_interval_of_a_ratio_holds_it) {
    double before[100], after[100], low, high;
    make_samples(before, 100, 0.05, 5);
    make_samples(after, 100, 0.05, 9);
    for (int i = 0; i < 100; i++)
        after[i] *= 1.2;
    bench_ratio_interval(before, 100, after, 100, 0.5, &low, &high);
    CHECK(low < 1.2 && 1.2 < high);
    CHECK(low > 1.1 && high < 1.3);
}

// Runs of 1 second each and 0.3 to start them, on a machine that disturbs a third of the samples by up to a
// half.
static void make_lengths(double *once, double *twice, int count, int inner, unsigned seed) {
    uint32_t state = seed;
    for (int i = 0; i < 2 * count; i++) {
        state = state * 1664525u + 1013904223u;
        double part = (state >> 8) * 0x1p-24, length = i % 2 ? 2 * inner : inner;
        (i % 2 ? twice : once)[i / 2] = 0.3 + length * (1 + (part < 1.0 / 3 ? 1.5 * part : 0));
    }
}

TEST(what_starting_costs_is_taken_off_and_no_run_is_too_fast) {
    for (unsigned seed = 1; seed <= 50; seed++) {
        double once[40], twice[40], neighbours = INFINITY;
        struct bench_stats s;
        make_lengths(once, twice, 40, 4, seed * 977);
        for (int i = 0; i < 40; i++)
            neighbours = fmin(neighbours, (twice[i] - once[i]) / 4);
        double start = bench_take_start_off(once, twice, 40, 4);
        bench_statistics(once, 40, &s);
        CHECK(fabs(start - 0.3) < 1e-9);
        CHECK(fabs(s.best - 1) < 1e-9);
        CHECK(s.median >= 1 && s.median < 1.05);
        CHECK(neighbours < 0.9); // what is not done
    }
}

TEST(noise_above_the_work_takes_nothing_off) {
    double once[] = {5, 6, 5.5}, twice[] = {4.8, 5, 6};
    CHECK_EQ_F64(bench_take_start_off(once, twice, 3, 2), 0);
    CHECK_EQ_F64(once[0], 1.2);
}
