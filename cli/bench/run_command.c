// run_command.c - `zellige bench run SUITE`: measures a suite, prints each row when it is done, and writes a
// run folder.

#include "bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "session.h"

static const struct option options[] = {
    BENCH_SESSION_OPTIONS,
    {"resume", 0, "FOLDER", NULL,
     "go on with an interrupted run: what its journal has is not measured again"},
    {"only", 0, "WORD", NULL, "configurations whose name contains it"},
    {"model", 'm', "PATH", NULL, "of the suite llm: a checkpoint, or a config.json for random weights"},
    {0},
};

// Returns the suite to run: the operand, that of the run that is resumed, or the smallest one.
static const char *choose_suite(const struct invocation *call, struct bench_run *before) {
    char error[256];
    const char *resume = cli_option(call, "resume");
    if (call->operand_count)
        return call->operands[0];
    return resume && bench_read_run(before, resume, error, sizeof error) ? before->suite : "simple";
}

static int run(const struct invocation *call) {
    struct bench_session session;
    struct bench_run before = {0};
    const char *model = cli_option(call, "model");
    char error[512] = "";
    if (call->operand_count && !strcmp(call->operands[0], "collectives"))
        return bench_collectives(call); // measured by several processes together: not a run of this process
    int code = bench_session_open(&session, call, choose_suite(call, &before));
    bench_run_free(&before);
    if (code != CLI_OK)
        return code;
    code = bench_session_check_only(&session, cli_option(call, "only"));
    if (code == CLI_OK && model && !bench_llm_open(model, &session.suite, error, sizeof error))
        code = cli_fail(call, "%s", error);
    if (code == CLI_OK)
        code = bench_session_start(&session, cli_option(call, "resume"));
    if (code == CLI_OK) {
        bench_session_measure(&session, cli_option(call, "only"));
        code = bench_session_finish(&session);
    }
    bench_llm_close();
    bench_session_close(&session);
    return code;
}

const struct command cli_bench_run = {
    .name = "bench run",
    .operands = "[SUITE]",
    .words = BENCH_SUITES " collectives",
    .summary = "Measure a suite: a table, and a run folder with all samples and reports",
    .details =
        "SUITE is simple (the default), gemm or full, the same after gpu_ or tpu_, tile, delta, gpu_delta, "
        "llm, or a file.\n"
        "llm --model PATH measures a language model: tokens of prompts and drawn ones, behind contexts.\n"
        "collectives measures a group of processes: latency, and bandwidths as nccl-tests defines them.\n"
        "Exit codes: 0 done, 1 something failed, 2 wrong usage, 4 a result is suspect.\n"
        "  zellige bench run gemm --only bf16\n"
        "  zellige launch -n 4 zellige bench run collectives --only all_sum\n"
        "  zellige bench run --resume runs/20261115-190000",
    .operands_most = 1,
    .options = options,
    .run = run,
};
