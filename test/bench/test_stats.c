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
