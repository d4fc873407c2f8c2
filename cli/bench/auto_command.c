// auto_command.c - `zellige bench auto`: finds the chip, selects its suite, measures, compares with the last
// run of the same kind, and writes the report.

#include "bench.h"

#include <string.h>

#include "cli.h"
#include "session.h"
#include "zellige_tile.h"

static const struct option options[] = {
    BENCH_SESSION_OPTIONS,
    {"full", 0, NULL, NULL, "the full suite: many minutes"},
    {"short", 0, NULL, NULL, "few samples: seconds"},
    {0},
};

// Returns the suite for a chip of this kind; CPUs have those without a prefix.
static const char *suite_of(const struct bench_chip *chip, bool full) {
    if (zl_kernel_runs_on(chip->device))
        return "tile";
    if (!strcmp(chip->kind, "tpu"))
        return full ? "tpu_full" : "tpu_simple";
    if (!strcmp(chip->kind, "gpu"))
        return full ? "gpu_full" : "gpu_simple";
    return full ? "full" : "simple";
}

static void print_changes(const struct bench_session *s, const struct bench_run *before) {
    struct bench_comparisons list = {0};
    char why[256];
    bench_compare_runs(before, &s->run, why, sizeof why);
    if (!why[0] && !bench_compare_all(&list, before, &s->run, 0.05)) {
        bench_comparisons_free(&list);
        fprintf(stderr, "zellige bench auto: %s: not compared: out of memory\n", s->run.baseline);
        return;
    }
    printf("\nsince %s (%s): %d slower, %d failed, %d faster, %d same, %d ambiguous\n", before->started,
           s->run.baseline, list.of[BENCH_SLOWER], list.of[BENCH_BROKEN], list.of[BENCH_FASTER],
           list.of[BENCH_SAME], list.of[BENCH_AMBIGUOUS]);
    for (int i = 0; i < list.count; i++)
        if (list.item[i].verdict == BENCH_SLOWER || list.item[i].verdict == BENCH_FASTER)
            printf("  %-40s %+.1f %% time: %s\n", list.item[i].id, 100 * (list.item[i].ratio - 1),
                   bench_verdict_name(list.item[i].verdict));
    bench_comparisons_free(&list);
}

static void compare_with_last(struct bench_session *s) {
    char **folders, error[512];
    const char *out = cli_option(s->call, "out");
    struct bench_run before;
    int count = bench_history_find(&s->run, out ? out : "runs", &folders), last = count - 1;
    while (last >= 0 && !bench_read_run(&before, folders[last], error, sizeof error)) {
        fprintf(stderr, "zellige bench auto: %s: compared with the one before\n", error);
        last--;
    }
    if (last >= 0) {
        snprintf(s->run.baseline, sizeof s->run.baseline, "%s", folders[last]);
        if (!s->call->json)
            print_changes(s, &before);
        bench_run_free(&before);
    }
    bench_history_free(folders, count);
}

static int run_suite(struct bench_session *s) {
    int code = bench_session_start(s, NULL);
    if (code != CLI_OK)
        return code;
    bench_session_measure(s, NULL);
    compare_with_last(s);
    code = bench_session_finish(s);
    if (!s->call->json)
        printf("\nreport: %s/report.html\n", s->run.folder);
    return code;
}

static int run(const struct invocation *call) {
    struct bench_session session;
    int code = bench_session_open(&session, call, NULL);
    const struct bench_chip *chip = code == CLI_OK ? bench_session_find_chip(&session) : NULL;
    if (code == CLI_OK)
        code =
            chip ? bench_session_take_suite(&session, suite_of(chip, cli_option(call, "full"))) : CLI_FAILED;
    if (code == CLI_OK && cli_option(call, "short")) {
        session.suite.timing.seconds = session.suite.timing.warm_seconds = 0.03;
        session.suite.timing.least = 3;
    }
    if (code == CLI_OK)
        code = run_suite(&session);
    bench_session_close(&session);
    return code;
}

const struct command cli_bench_auto = {
    .name = "bench auto",
    .summary = "Find the chip, measure its suite, compare with the last run, write the report",
    .details = "Exit codes are those of bench run. What changed since the last run is said, but is no "
               "failure: that is\n"
               "what bench check is for.",
    .options = options,
    .run = run,
};
