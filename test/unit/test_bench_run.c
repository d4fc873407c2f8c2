// test_bench_run.c - zellige_bench.h: reading runs and histories from files, and rejecting other files.

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "zellige_bench.h"

static const char *write_file(const char *name, const char *text) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *out = fopen(path, "w");
    CHECK(out && fputs(text, out) >= 0 && !fclose(out));
    return path;
}

static const char run_text[] =
    "{\"schema\": 1, \"suite\": \"gemm\", \"notes\": \"a \\\"note\\\"\", \"later\": {\"x\": [1, {}]},\n"
    " \"subject\": {\"chip\": \"tpu-v6e\", \"name\": \"TPU v6e\", \"threads\": 4, \"bandwidth\": 1.64e12,\n"
    "  \"peaks\": {\"f64\": {\"rate\": null}, \"bf16\": {\"rate\": 9.18e14, \"source\": \"table\"}}},\n"
    " \"rows\": [\n"
    "  {\"id\": \"gemm/bf16/64x32x16\", \"size\": [64, 32, 16], \"status\": \"ok\", \"median_s\": 0.5, "
    "\"peak\": null,\n"
    "   \"outliers\": 2, \"stable\": true, \"samples_s\": [0.25, 5e-1, 1]},\n"
    "  {\"id\": \"gemm/fp8/64\", \"status\": \"absent\", \"note\": \"no fp8\", \"samples_s\": []}]}\n";

TEST(bench_runs_are_read) {
    zl_run run = zl_run_open(write_file("metrics.json", run_text));
    zl_run_row row;
    if (!CHECK(run))
        return;
    CHECK_STR(zl_run_text(run, "suite"), "gemm");
    CHECK_STR(zl_run_text(run, "notes"), "a \"note\"");
    CHECK_STR(zl_run_text(run, "chip"), "tpu-v6e");
    CHECK_STR(zl_run_text(run, "host"), "");
    CHECK_STR(zl_run_text(run, "no such key"), "");
    CHECK_EQ_F64(zl_run_peak(run, "bf16"), 9.18e14);
    CHECK(isnan(zl_run_peak(run, "f64")) && isnan(zl_run_peak(run, "f99")));
    CHECK_EQ_F64(zl_run_bandwidth(run), 1.64e12);
    CHECK_EQ_INT(zl_run_threads(run), 4);
    CHECK_EQ_INT(zl_run_rows(run), 2);
    if (CHECK(zl_run_row_at(run, 0, &row))) {
        CHECK_STR(row.id, "gemm/bf16/64x32x16");
        CHECK_EQ_INT(row.size_count, 3);
        CHECK_EQ_INT(row.size[2], 16);
        CHECK_EQ_F64(row.median, 0.5);
        CHECK(isnan(row.peak) && isnan(row.rate) && row.stable && !row.bimodal);
        CHECK_EQ_INT(row.outliers, 2);
        CHECK_EQ_INT(row.sample_count, 3);
        CHECK_EQ_F64(row.samples[0] + row.samples[1] + row.samples[2], 1.75);
    }
    if (CHECK(zl_run_row_find(run, "gemm/fp8/64", &row)))
        CHECK_STR(row.note, "no fp8");
    CHECK(!zl_run_row_find(run, "gemm/f99", &row) && !zl_run_row_at(run, 2, &row) &&
          !zl_run_row_at(run, -1, &row));
    zl_run_close(run);
    run = zl_run_open(test_folder()); // for a folder its metrics.json is read
    CHECK_EQ_INT(zl_run_rows(run), 2);
    zl_run_close(run);
}

TEST(bench_files_that_are_no_runs) {
    CHECK_ERROR(ZL_ERROR_VALUE, zl_run_open(NULL));
    CHECK_ERROR(ZL_ERROR_IO, zl_run_open("/no/such/run"));
    CHECK_ERROR(ZL_ERROR_IO, zl_run_open(write_file("a.json", "{\"suite\": \"x\"}")));
    CHECK_HAS(test_last_error(), "no list 'rows'");
    CHECK_ERROR(ZL_ERROR_IO, zl_run_open(write_file("b.json", "{\"rows\": [{\"median_s\": fast}]}")));
    CHECK_HAS(test_last_error(), "no number at byte");
    CHECK_ERROR(ZL_ERROR_IO, zl_history_open(write_file("c.json", "")));
    for (size_t end = 1; end + 2 < sizeof run_text; end += 7) { // truncated anywhere
        char cut[sizeof run_text] = "";
        memcpy(cut, run_text, end);
        CHECK_ERROR(ZL_ERROR_IO, zl_run_open(write_file("cut.json", cut)));
    }
    zl_run_close(NULL);
    zl_history_close(NULL);
}

TEST(bench_histories_are_read) {
    zl_history_run run;
    write_file("index.jsonl", "{\"folder\": \"20261115-1\", \"suite\": \"a\", \"threads\": 2}\n"
                              "{\"folder\": \"20261115-2\", \"suite\": \"b\", \"status\": \"interrupted\"}\n"
                              "{\"folder\": \"20261115-2\", \"suite\": \"b\", \"status\": \"complete\"}\n");
    zl_history history = zl_history_open(test_folder());
    CHECK(history);
    if (CHECK(zl_history_run_at(history, 0, &run))) {
        CHECK_HAS(run.path, "/20261115-1");
        CHECK_EQ_INT(run.threads, 2);
        CHECK_STR(run.commit, "");
    }
    if (CHECK(zl_history_run_at(history, 1, &run)))
        CHECK_STR(run.status, "complete");
    CHECK(!zl_history_run_at(history, 2, &run));
    zl_history_close(history);
}

TEST(bench_runs_survive_every_failed_allocation) {
    char path[4096];
    snprintf(path, sizeof path, "%s", write_file("metrics.json", run_text));
    for (long at = 1;; at++) {
        memory_fail_at(at);
        zl_run run = zl_run_open(path);
        bool past = memory_allocations() < at;
        memory_fail_at(0);
        CHECK_EQ_INT(zl_run_rows(run), run ? 2 : 0);
        CHECK(run || zl_error_which() == ZL_ERROR_MEMORY);
        zl_clear_error();
        zl_run_close(run);
        if (past)
            break;
    }
}
