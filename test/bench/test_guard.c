// test_guard.c - rates above a peak are suspect, with the likely cause; unknown peaks give no utilisation.

#include "test.h"

#include <stdio.h>
#include <string.h>

#include "bench.h"

// A chip of the table, with peaks that are given instead.
static struct bench_subject subject_of(const char *chip, const char *peaks) {
    struct bench_specs specs;
    struct bench_subject s = {0};
    struct bench_chip found = {.chips = 1, .devices = 1};
    char error[256];
    snprintf(found.id, sizeof found.id, "%s", chip);
    if (CHECK(bench_specs_open(&specs, NULL, error, sizeof error))) {
        if (peaks)
            CHECK(bench_specs_override(&specs, peaks, error, sizeof error));
        bench_subject_of_chip(&s, &found, &specs);
        bench_specs_close(&specs);
    }
    return s;
}

// A product that runs at so many TFLOPS.
static struct bench_row row_of(enum bench_dtype dtype, double tflops) {
    struct bench_row row = {
        .config = {.work = "gemm", .dtype = dtype}, .unit = "FLOP", .flops = 1e12, .bytes = 1e9};
    row.stats.median = 1 / tflops;
    row.after.clock_mhz = NAN;
    return row;
}

TEST(f32_on_v6e_with_a_wrong_peak_names_the_bf16_path) {
    struct bench_subject s = subject_of("tpu-v6e", "f32=459");
    struct bench_row row = row_of(BENCH_F32, 583);
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_SUSPECT);
    CHECK_NEAR(row.utilisation, 583.0 / 459, 1e-9);
    CHECK_HAS(row.note, "bf16 path");
    CHECK_HAS(row.note, "63.5 %");
    CHECK_HAS(row.note, "--peak f32=459");
}

TEST(f32_on_v6e_counts_against_bf16) {
    struct bench_subject s = subject_of("tpu-v6e", NULL);
    struct bench_row row = row_of(BENCH_F32, 583);
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_OK);
    CHECK_NEAR(row.utilisation, 0.635, 0.0005);
    CHECK_STR(row.path, "f32 (bf16 path)");
}

TEST(f64_counts_against_matrix_units) {
    struct bench_subject s = subject_of("h200-sxm", NULL);
    struct bench_row row = row_of(BENCH_F64, 56); // as measured on one
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_OK);
    CHECK_NEAR(row.utilisation, 56.0 / 67, 1e-9);
    CHECK_STR(row.path, "f64 (matrix units)");
}

TEST(a_whole_chip_against_half_of_one) {
    struct bench_subject s = subject_of("tpu-7x", NULL);
    struct bench_row row = row_of(BENCH_BF16, 1800);
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_SUSPECT);
    CHECK_HAS(row.note, "whole chip");
}

TEST(a_clock_above_the_peaks_own) {
    struct bench_subject s = subject_of("h200-sxm", NULL);
    struct bench_row row = row_of(BENCH_BF16, 1030);
    row.after.clock_mhz = 1980;
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_SUSPECT);
    CHECK_HAS(row.note, "1980 MHz");
    CHECK_HAS(row.note, "1830");
}

TEST(far_too_fast_is_work_that_was_not_done) {
    struct bench_subject s = subject_of("h200-sxm", NULL);
    struct bench_row row = row_of(BENCH_BF16, 9000);
    bench_judge(&row, &s);
    CHECK_HAS(row.note, "never done");
}

TEST(an_unknown_chip_has_no_utilisation) {
    struct bench_subject s = subject_of("", NULL);
    struct bench_row row = row_of(BENCH_BF16, 1e6);
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_OK);
    CHECK(isnan(row.utilisation) && isnan(row.peak));
}

TEST(a_failed_row_has_no_rate) {
    struct bench_subject s = subject_of("h200-sxm", NULL);
    struct bench_row row = row_of(BENCH_BF16, 9000);
    row.status = BENCH_FAILED;
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_FAILED);
    CHECK(isnan(row.rate) && isnan(row.utilisation));
}

TEST(the_roofline_is_the_lower_of_both) {
    struct bench_subject s = subject_of("h200-sxm", NULL);
    struct bench_row row = row_of(BENCH_BF16, 100);
    row.bytes = 1e11; // 10 operations a byte
    bench_judge(&row, &s);
    CHECK(row.memory_bound);
    CHECK_NEAR(row.limit, 10 * 4.8e12, 1);
}

TEST(guard_of_memory_speaks_of_caches) {
    struct bench_subject s = subject_of("tpu-v6e", NULL);
    struct bench_row row = {.config = {.work = "bandwidth", .dtype = BENCH_F32}, .unit = "B", .bytes = 1e9};
    row.stats.median = row.bytes / (s.bandwidth * 1.5);
    row.after.clock_mhz = NAN;
    bench_judge(&row, &s);
    CHECK_EQ_INT(row.status, BENCH_SUSPECT);
    CHECK(strstr(row.note, "in a cache"));
    CHECK(!strstr(row.note, "path"));
}
