// test_works.c - every kind of work: small sizes are right and can be measured, wrong arguments say what is
// right, wrong results are no times. Runs survive JSON.

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "zellige_matrix_ops.h"

static const char *const small =
    "{\"name\": \"small\", \"items\": ["
    "{\"work\": \"gemm\", \"dtypes\": [\"f64\", \"f32\", \"bf16\", \"f16\", \"fp8\", \"int8\"], \"sizes\": "
    "[32, [17, "
    "33, 40]]},"
    "{\"work\": \"gemm\", \"ops\": [\"nt\", \"tn\", \"tt\", \"chain\", \"backward\"], \"dtypes\": [\"f32\", "
    "\"bf16\"], \"sizes\": [48]},"
    "{\"work\": \"view\", \"ops\": [\"transpose\", \"is_contiguous\", \"is_transposed\"]},"
    "{\"work\": \"bandwidth\", \"dtypes\": [\"f32\", \"bf16\"], \"sizes\": [\"4K\"]},"
    "{\"work\": \"elementwise\", \"ops\": [\"add\", \"multiply_add\", \"exp\", \"tanh\", \"gelu\", \"sum\", "
    "\"sum_rows\", "
    "\"argmax_rows\", \"softmax\", \"layer_norm\"], \"dtypes\": [\"f32\", \"bf16\", \"f16\"], \"sizes\": "
    "[\"8K\"]},"
    "{\"work\": \"transfer\", \"ops\": [\"upload\", \"download\"], \"sizes\": [\"4K\"]},"
    "{\"work\": \"latency\", \"ops\": [\"launch\", \"chain\"]},"
    "{\"work\": \"attention\", \"ops\": [\"\", \"causal\"], \"dtypes\": [\"f32\", \"bf16\"], \"sizes\": [[1, "
    "2, 64, 32]]},"
    "{\"work\": \"spmv\", \"ops\": [\"random\", \"banded\"], \"sizes\": [[200, 10]]},"
    "{\"work\": \"structs\", \"sizes\": [1000]},"
    "{\"work\": \"mlp\", \"sizes\": [[32, 16]]},"
    "{\"work\": \"delta\", \"ops\": [\"attention\", \"linear\", \"linear_normalized\", \"retention\", "
    "\"simple_gla\", \"gla\", \"delta\", \"gated_delta\", \"kda\", \"gdn2\", \"precond_gated_delta\", "
    "\"precond_kda\", \"comba\", \"dplr\", \"iplr\", \"gated_delta_product\", \"gated_oja\", "
    "\"momentum_delta\"], \"sizes\": "
    "[[1, 70, 2, "
    "8]]},"
    "{\"work\": \"delta_backward\", \"ops\": [\"attention\", \"kda\"], \"dtypes\": [\"f32\", \"bf16\"], "
    "\"sizes\": "
    "[[2, 70, 2, 8]]},"
    "{\"work\": \"delta_decode\", \"ops\": [\"attention\", \"gated_delta\"], \"dtypes\": [\"f32\", "
    "\"bf16\"], "
    "\"sizes\": [[3, 20, 2, 8]]},"
    "{\"work\": \"llm\", \"ops\": [\"pp\", \"tg\"], \"sizes\": [[3, 5]]},"
    "{\"work\": \"tile\", \"ops\": [\"matmul\"], \"dtypes\": [\"f32\", \"int8\"], \"sizes\": [[70, 40, 50]]},"
    "{\"work\": \"tile\", \"ops\": [\"attention\"], \"dtypes\": [\"f16\"], \"sizes\": [[2, 70, 32]]},"
    "{\"work\": \"tile_rows\", \"ops\": [\"add\"], \"sizes\": [1000]},"
    "{\"work\": \"tile_rows\", \"ops\": [\"softmax\", \"rms_norm\", \"running_sum\"], \"sizes\": [[70, "
    "100]]}]}";

// A file of this test's folder with the text.
static const char *file_of(const char *text) {
    static char path[600];
    snprintf(path, sizeof path, "%s/suite.json", test_folder());
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
    return path;
}

static bool opens(struct bench_suite *suite, const char *text, char *error, size_t bytes) {
    return bench_suite_open(suite, file_of(text), error, bytes);
}

// The list above, with a model for the works that need one.
static bool open_small(struct bench_suite *suite) {
    char error[512];
    return opens(suite, small, error, sizeof error) &&
           bench_llm_open(ZL_TEST_DIR "/model/lm/qwen3", suite, error, sizeof error);
}

static zl_array record_eigenvalues(struct bench_work *w) {
    return zl_linalg_eigvalsh(w->in[0], "L");
}

static zl_array record_sum(struct bench_work *w) {
    return zl_sum(w->in[0]);
}

// Eigenvalues are LAPACK's, on the CPU: their time would not be that of the device.
TEST(work_that_leaves_the_device_is_seen) {
    static const struct bench_work_kind leaves = {.record = record_eigenvalues},
                                        stays = {.record = record_sum};
    if (!zl_use_device("opencl")) {
        zl_clear_error();
        SKIP("no OpenCL");
    }
    ZL_SCOPE {
        zl_array x = zl_eye(4, 4, 0, ZL_FLOAT32);
        CHECK(zl_eval(zl_retain(x)));
        struct bench_work w = {.kind = &leaves, .device = "opencl", .is_async = true, .in = {x}, .inputs = 1};
        CHECK(bench_work_falls_back(&w));
        w.kind = &stays;
        CHECK(!bench_work_falls_back(&w));
        zl_release(x);
    }
    CHECK(zl_use_device("cpu"));
}

TEST(every_work_is_right_and_can_be_measured) {
    struct bench_suite suite;
    struct bench_subject subject = {.device = "cpu", .bandwidth = NAN};
    struct bench_timing timing = {.seconds = 0, .warm_seconds = 0, .least = 2, .most = 2};
    for (int d = 0; d < BENCH_DTYPES; d++)
        subject.peak[d].rate = NAN;
    REQUIRE(open_small(&suite));
    for (int i = 0; bench_work_kind(i); i++) {
        bool listed = false;
        for (int j = 0; j < suite.count; j++)
            listed = listed || !strcmp(suite.config[j].work, bench_work_kind(i)->name);
        if (!CHECK(listed))
            test_note("%s is not in the list above", bench_work_kind(i)->name);
    }
    for (int i = 0; i < suite.count; i++) {
        struct bench_row row;
        bench_measure_row(&row, &suite.config[i], &subject, &timing);
        if (!CHECK(row.status == BENCH_OK && row.stats.count == 2 && row.rate > 0))
            test_note("%s: %s", row.config.id, row.note);
        free(row.second);
    }
    bench_llm_close();
    bench_suite_close(&suite);
}

TEST(zeros_are_right_too) {
    struct bench_suite suite;
    struct bench_subject subject = {.device = "cpu"};
    struct bench_timing timing = {.least = 1, .most = 1, .zeros = true};
    REQUIRE(open_small(&suite));
    for (int i = 0; i < suite.count; i++) {
        struct bench_row row;
        bench_measure_row(&row, &suite.config[i], &subject, &timing);
        if (!CHECK(row.status != BENCH_FAILED))
            test_note("%s: %s", row.config.id, row.note);
        free(row.second);
    }
    bench_llm_close();
    bench_suite_close(&suite);
}

TEST(a_wrong_result_is_not_a_time) {
    struct bench_config config = {
        .work = "transfer", .op = "upload", .dtype = BENCH_F32, .dim = {4096}, .dims = 1};
    struct bench_work w = {0};
    REQUIRE(bench_work_prepare(&w, &config));
    CHECK(w.kind->verify(&w));
    ((unsigned char *)w.data)[100] ^= 1;
    CHECK(!w.kind->verify(&w));
    CHECK_HAS(w.why, "wrong result");
    bench_work_finish(&w);
}

TEST(what_there_is_nothing_of_is_absent) {
    struct bench_config config = {.work = "bandwidth", .dtype = BENCH_FP8, .dim = {64}, .dims = 1};
    struct bench_subject subject = {.device = "cpu"};
    struct bench_timing timing = {.least = 1, .most = 1};
    struct bench_row row;
    bench_measure_row(&row, &config, &subject, &timing);
    CHECK_EQ_INT(row.status, BENCH_ABSENT);
    CHECK_HAS(row.note, "fp8");
}

TEST(suites_say_what_is_wrong) {
    struct bench_suite suite;
    char error[512];
    CHECK(!opens(&suite, "{\"items\": [{\"work\": \"juggle\"}]}", error, sizeof error));
    CHECK_HAS(error, "juggle");
    CHECK(!opens(&suite, "{\"items\": [{\"work\": \"gemm\", \"dtypes\": [\"f31\"], \"sizes\": [1]}]}", error,
                 sizeof error));
    CHECK_HAS(error, "f31");
    CHECK(!opens(&suite, "{\"items\": [{\"work\": \"gemm\", \"sizes\": [\"big\"]}]}", error, sizeof error));
    CHECK_HAS(error, "gemm");
    CHECK(!opens(&suite, "{}", error, sizeof error));
    CHECK_HAS(error, "items");
    CHECK(!bench_suite_open(&suite, "no_such_suite", error, sizeof error));
    CHECK_HAS(error, "there are simple");
    for (int i = 0; bench_files[i].name; i++)
        if (strstr(bench_files[i].text, "\"items\"")) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(bench_files[i].name, "."), bench_files[i].name);
            if (!CHECK(bench_suite_open(&suite, name, error, sizeof error)))
                test_note("%s: %s", name, error);
            bench_suite_close(&suite);
        }
}

TEST(ranges_become_configurations) {
    struct bench_suite suite;
    char error[256];
    REQUIRE(opens(&suite,
                  "{\"items\": [{\"work\": \"gemm\", \"dtypes\": [\"f32\", \"bf16\"], \"sizes\": "
                  "[{\"from\": 256, \"to\": 1024, \"times\": 2}, [8, 16, 24], \"2K\"]}]}",
                  error, sizeof error));
    REQUIRE(suite.count == 10);
    CHECK_STR(suite.config[0].id, "gemm/f32/256");
    CHECK_STR(suite.config[2].id, "gemm/f32/1024");
    CHECK_STR(suite.config[3].id, "gemm/f32/8x16x24");
    CHECK_STR(suite.config[9].id, "gemm/bf16/2048");
    bench_suite_close(&suite);
}

// A run with two rows, one of them with all that is strange.
static void make_run(struct bench_run *run) {
    *run = (struct bench_run){
        .suite = "small", .status = "complete", .notes = "a \"note\",\nin two lines", .dirty = 3};
    struct bench_row *row = bench_run_add(run);
    row->config = (struct bench_config){.work = "gemm", .dtype = BENCH_BF16, .dim = {64, 32, 16}, .dims = 3};
    bench_config_name(&row->config);
    snprintf(row->unit, sizeof row->unit, "FLOP");
    row->flops = 65536, row->bytes = 100, row->rate = 1e9, row->peak = NAN, row->utilisation = NAN,
    row->limit = NAN;
    row->second = malloc(3 * sizeof *row->second);
    row->second[0] = 0.1, row->second[1] = 1e-9 / 3, row->second[2] = 0.3;
    bench_statistics(row->second, 3, &row->stats);
    row = bench_run_add(run);
    row->config = (struct bench_config){.work = "view", .op = "transpose", .dtype = BENCH_F32};
    bench_config_name(&row->config);
    row->status = BENCH_FAILED;
    snprintf(row->note, sizeof row->note, "wrong, \"very\" | wrong");
    row->rate = row->peak = row->utilisation = row->limit = NAN;
    bench_statistics(NULL, 0, &row->stats);
}

static char *text_of(const struct bench_run *run, void (*write)(FILE *out, const struct bench_run *run)) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    write(out, run);
    fclose(out);
    return text;
}

TEST(a_run_survives_its_json) {
    struct bench_run run, again;
    char path[600], error[256];
    make_run(&run);
    snprintf(run.folder, sizeof run.folder, "%.200s", test_folder());
    CHECK(bench_folder_write(&run, "metrics.json", bench_write_run));
    snprintf(path, sizeof path, "%s/metrics.json", test_folder());
    REQUIRE(bench_read_run(&again, path, error, sizeof error));
    char *first = text_of(&run, bench_write_run), *second = text_of(&again, bench_write_run);
    CHECK_STR(first, second);
    char *csv = text_of(&run, bench_write_csv), *csv_again = text_of(&again, bench_write_csv);
    CHECK_STR(csv, csv_again);
    CHECK_HAS(csv, "\"wrong, \"\"very\"\" | wrong\"");
    char *page = text_of(&run, bench_write_markdown);
    CHECK_HAS(page, "\"very\" \\| wrong");
    free(first), free(second), free(csv), free(csv_again), free(page);
    bench_run_free(&run);
    bench_run_free(&again);
}

TEST(a_journal_that_was_cut_short_loses_its_last_line_only) {
    struct bench_run run, again = {0};
    char path[600];
    make_run(&run);
    snprintf(run.folder, sizeof run.folder, "%.200s", test_folder());
    CHECK(bench_journal_add(&run, &run.row[0]) && bench_journal_add(&run, &run.row[1]));
    snprintf(path, sizeof path, "%s/journal.jsonl", run.folder);
    FILE *file = fopen(path, "r+");
    REQUIRE(file && !fseek(file, 0, SEEK_END) && !ftruncate(fileno(file), ftell(file) - 20));
    fclose(file);
    snprintf(again.folder, sizeof again.folder, "%s", run.folder);
    CHECK_EQ_INT(bench_journal_read(&again), 1);
    CHECK_STR(again.row[0].config.id, "gemm/bf16/64x32x16");
    CHECK_EQ_F64(again.row[0].second[1], 1e-9 / 3);
    bench_run_free(&run);
    bench_run_free(&again);
}

TEST(a_page_is_whole_and_escaped) {
    struct bench_run run;
    make_run(&run);
    snprintf(run.folder, sizeof run.folder, "%.200s/none", test_folder());
    snprintf(run.subject.name, sizeof run.subject.name, "chip <b> & \"more\"");
    char *page = text_of(&run, bench_write_html), *again = text_of(&run, bench_write_html);
    CHECK_STR(page, again);
    CHECK_HAS(page, "chip &lt;b&gt; &amp; &quot;more&quot;");
    CHECK_HAS(page, "prefers-color-scheme: dark");
    CHECK_HAS(page, "</html>");
    CHECK(!strstr(page, "http://") && !strstr(page, "https://"));
    CHECK(!strstr(page, "nan") || strstr(page, "nanosecond"));
    free(page), free(again);
    bench_run_free(&run);
}
