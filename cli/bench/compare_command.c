// compare_command.c - `zellige bench compare A B` and `zellige bench check`: compare runs, and find out
// whether anything is slower.

#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"

// Reads --threshold, a percentage, as a fraction. Returns false after a message.
static bool read_threshold(const struct invocation *call, double *out) {
    double percent = 5;
    bool known = cli_number(call, "threshold", 0, INFINITY, &percent);
    *out = percent / 100;
    return known;
}

// Reports ---------------------------------------------------------------------------------------------------

static void print_comparisons(const struct bench_comparisons *list) {
    printf("%s%-40s %9s %19s  %s%s\n", cli_bold(), "what", "time", "95 % interval", "verdict", cli_plain());
    for (int i = 0; i < list->count; i++) {
        const struct bench_comparison *c = &list->item[i];
        bool changed = c->verdict == BENCH_SLOWER || c->verdict == BENCH_FASTER || c->verdict == BENCH_BROKEN;
        char time[16] = "", interval[40] = "";
        if (isfinite(c->ratio)) {
            snprintf(time, sizeof time, "%+.1f %%", 100 * (c->ratio - 1));
            snprintf(interval, sizeof interval, "%+.1f ... %+.1f %%", 100 * (c->low - 1),
                     100 * (c->high - 1));
        }
        printf("%-40s %9s %19s  %s%s%s%s%s\n", c->id, time, interval, changed ? cli_bold() : "",
               bench_verdict_name(c->verdict), changed ? cli_plain() : "", c->why[0] ? ": " : "", c->why);
    }
    printf("%d slower, %d failed, %d faster, %d same, %d ambiguous, %d not comparable; %s\n",
           list->of[BENCH_SLOWER], list->of[BENCH_BROKEN], list->of[BENCH_FASTER], list->of[BENCH_SAME],
           list->of[BENCH_AMBIGUOUS], list->of[BENCH_INCOMPARABLE],
           list->in_turns ? "measured in turns"
                          : "not measured in turns: differences of the machine count too");
}

static void json_comparisons(const struct bench_comparisons *list) {
    cli_json_open(NULL, '{');
    cli_json_bool("in_turns", list->in_turns);
    cli_json_bool("interrupted", cli_interrupted());
    for (int v = 0; v < BENCH_VERDICTS; v++)
        cli_json_int(bench_verdict_name((enum bench_verdict)v), list->of[v]);
    cli_json_open("comparisons", '[');
    for (int i = 0; i < list->count; i++) {
        const struct bench_comparison *c = &list->item[i];
        cli_json_open(NULL, '{');
        cli_json_text("id", c->id);
        cli_json_text("verdict", bench_verdict_name(c->verdict));
        cli_json_number("ratio", c->ratio);
        cli_json_number("low", c->low);
        cli_json_number("high", c->high);
        cli_json_text("why", c->why);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

// Prints the comparisons. Returns an exit code for use as a gate: 1 if a row is slower or fails now, 3 if
// nothing could be compared, or not all of it.
static int report(const struct invocation *call, const struct bench_comparisons *list) {
    if (call->json)
        json_comparisons(list);
    else
        print_comparisons(list);
    if (cli_interrupted() && !call->json)
        cli_fail(call, "interrupted: not all of it was compared");
    int compared = list->count - list->of[BENCH_INCOMPARABLE];
    return list->of[BENCH_SLOWER] + list->of[BENCH_BROKEN] ? CLI_FAILED
           : compared && !cli_interrupted()                ? CLI_OK
                                                           : BENCH_NOTHING_CODE;
}

// Reports why two runs cannot be compared, or compares them.
static int compare_two(const struct invocation *call, const struct bench_run *before,
                       const struct bench_run *after, double threshold) {
    struct bench_comparisons list = {0};
    char why[256];
    bench_compare_runs(before, after, why, sizeof why);
    if (why[0]) {
        cli_fail(call, "not comparable: %s", why);
        return BENCH_NOTHING_CODE;
    }
    if (!bench_compare_all(&list, before, after, threshold)) {
        bench_comparisons_free(&list);
        cli_fail(call, "out of memory");
        return BENCH_NOTHING_CODE;
    }
    int code = report(call, &list);
    bench_comparisons_free(&list);
    return code != CLI_FAILED && bench_run_has(after, BENCH_SUSPECT) ? BENCH_SUSPECT_CODE : code;
}

// compare ---------------------------------------------------------------------------------------------------

static const struct option compare_options[] = {
    {"threshold", 0, "PERCENT", NULL, "a smaller change is none (default 5)"},
    {0},
};

static int compare_files(const struct invocation *call, const char *first, const char *second) {
    struct bench_run before, after;
    char error[512];
    double threshold;
    if (!read_threshold(call, &threshold))
        return CLI_USAGE;
    if (!bench_read_run(&before, first, error, sizeof error))
        return cli_usage(call, "%s", error);
    if (!bench_read_run(&after, second, error, sizeof error)) {
        bench_run_free(&before);
        return cli_usage(call, "%s", error);
    }
    int code = compare_two(call, &before, &after, threshold);
    bench_run_free(&before);
    bench_run_free(&after);
    return code;
}

static int run_compare(const struct invocation *call) {
    if (call->operand_count != 2)
        return cli_usage(call, "needs two runs: folders, or their metrics.json");
    int code = compare_files(call, call->operands[0], call->operands[1]);
    return code == CLI_FAILED || code == BENCH_SUSPECT_CODE ? CLI_OK
                                                            : code; // `compare` reports what it finds; only
                                                                    // `check` is a gate
}

const struct command cli_bench_compare = {
    .name = "bench compare",
    .operands = "BEFORE AFTER",
    .words = "*.json",
    .summary = "Two runs row by row: same, faster, slower or ambiguous",
    .details =
        "BEFORE and AFTER are run folders, or files like their metrics.json. Rows are compared that have "
        "the\n"
        "same name; runs of other chips, devices, threads or data are not. Exit code 3: nothing to compare.",
    .operands_most = 2,
    .options = compare_options,
    .run = run_compare,
};

// check -----------------------------------------------------------------------------------------------------

static const struct option check_options[] = {
    BENCH_SESSION_OPTIONS,
    {"baseline", 0, "RUN", NULL, "compare with this run: a folder, or a metrics.json"},
    {"candidate", 0, "RUN", NULL, "this run instead of a new one"},
    {"against", 0, "PROGRAM", NULL, "another zellige, measured in turns with this one"},
    {"record", 0, "FILE", NULL, "append the samples of both programs to it"},
    {"replay", 0, "FILE", NULL, "judge the checks that were recorded in it"},
    {"threshold", 0, "PERCENT", NULL, "a smaller change is none (default 5)"},
    {"only", 0, "WORD", NULL, "configurations whose name contains it"},
    {0},
};

// Options that only make sense for a run, and so not with --against.
static const char *const without_turns[] = {"seconds", "samples", "clock", "wipe-cache", "zeros", "out",
                                            "notes",   "specs",   "peak",  "candidate"};

// Exit code 1 means that a row is slower, so a failure to measure becomes 3.
static int not_done(int code) {
    return code == CLI_FAILED ? BENCH_NOTHING_CODE : code;
}

static int check_new_run(struct bench_session *s, const char *path, double threshold) {
    struct bench_run before;
    char error[512];
    if (!bench_read_run(&before, path, error, sizeof error))
        return cli_usage(s->call, "%s", error);
    snprintf(s->run.baseline, sizeof s->run.baseline, "%s", path);
    int code = not_done(bench_session_start(s, NULL));
    if (code == CLI_OK) {
        bench_session_measure(s, cli_option(s->call, "only"));
        bool done = bench_session_write(s) && !s->failed;
        code = done ? compare_two(s->call, &before, &s->run, threshold) : BENCH_NOTHING_CODE;
    }
    bench_run_free(&before);
    return code;
}

// Checks this before anything is measured.
static bool can_append(const char *path) {
    FILE *file = fopen(path, "a");
    return file && !fclose(file);
}

static int check_in_turns(struct bench_session *s, const char *program, double threshold) {
    struct bench_comparisons list = {0};
    char error[512];
    const char *threads = cli_option(s->call, "threads"), *record = cli_option(s->call, "record");
    if (record && !can_append(record))
        return cli_usage(s->call, "cannot write %s: %s", record, strerror(errno));
    const struct bench_chip *chip = bench_session_find_chip(s);
    if (!chip)
        return BENCH_NOTHING_CODE;
    if (threads)
        setenv("ZL_THREADS", threads, true); // for both programs
    cli_catch_interrupts();
    if (!bench_interleave(&list, &s->suite, chip->device, program, cli_option(s->call, "only"), threshold,
                          error, sizeof error)) {
        bench_comparisons_free(&list);
        return cli_usage(s->call, "%s", error);
    }
    int code = report(s->call, &list);
    if (record && !bench_record_add(record, &list))
        code = not_done(cli_fail(s->call, "cannot write %s: %s", record, strerror(errno)));
    bench_comparisons_free(&list);
    return code;
}

// Repeats the comparisons of a record, one per line; the exit code is 1 if any row is slower.
static int replay(const struct invocation *call, const char *path, double threshold) {
    char *text = access(path, R_OK) ? NULL : cli_read_all(path), *rest = text, *line;
    int checks = 0, slower = 0, code = CLI_OK;
    if (!text)
        return cli_usage(call, "cannot read %s: %s", path, strerror(errno));
    while (code != CLI_USAGE && (line = strsep(&rest, "\n")))
        if (line[0]) {
            struct bench_comparisons list = {0};
            checks++;
            if (bench_record_replay(&list, line, threshold))
                slower += report(call, &list) == CLI_FAILED;
            else
                code = cli_usage(call, "%s:%d is no recorded check", path, checks);
            bench_comparisons_free(&list);
        }
    free(text);
    if (code == CLI_OK && !call->json)
        printf("%d of %d checks found something slower\n", slower, checks);
    return code != CLI_OK ? code : slower ? CLI_FAILED : checks ? CLI_OK : BENCH_NOTHING_CODE;
}

// Returns whether a path looks like a run, for --baseline: a folder, or a JSON file.
static bool is_run(const char *path) {
    struct stat info;
    const char *end = strrchr(path, '.');
    return (!stat(path, &info) && S_ISDIR(info.st_mode)) || (end && !strcmp(end, ".json"));
}

static bool is_program(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode) && !access(path, X_OK);
}

static int run_check(const struct invocation *call) {
    struct bench_session session;
    const char *baseline = cli_option(call, "baseline"), *candidate = cli_option(call, "candidate");
    const char *against = cli_option(call, "against");
    double threshold;
    if (!read_threshold(call, &threshold))
        return CLI_USAGE;
    if (cli_option(call, "replay"))
        return replay(call, cli_option(call, "replay"), threshold);
    if (!baseline == !against)
        return cli_usage(call, "needs --baseline RUN or --against PROGRAM");
    if (against && is_run(against))
        return cli_usage(call,
                         "--against takes a program, another zellige, and %s is a run: use --baseline %s",
                         against, against);
    if (baseline && is_program(baseline))
        return cli_usage(call, "--baseline takes a run, and %s is a program: use --against %s", baseline,
                         baseline);
    if (cli_option(call, "record") && !against)
        return cli_usage(call, "--record keeps samples that were measured in turns: with --against PROGRAM");
    for (size_t i = 0; against && i < sizeof without_turns / sizeof *without_turns; i++)
        if (cli_option(call, without_turns[i]))
            return cli_usage(call, "--%s is for --baseline: in turns, pairs are taken until it is clear",
                             without_turns[i]);
    if (candidate && !baseline)
        return cli_usage(call, "--candidate is a run that exists: with --baseline RUN");
    if (candidate)
        return compare_files(call, baseline, candidate);
    int code = bench_session_open(&session, call, call->operand_count ? call->operands[0] : "simple");
    if (code != CLI_OK)
        return code;
    code = bench_session_check_only(&session, cli_option(call, "only"));
    if (code == CLI_OK)
        code = against ? check_in_turns(&session, against, threshold)
                       : check_new_run(&session, baseline, threshold);
    bench_session_close(&session);
    return code;
}

const struct command cli_bench_check = {
    .name = "bench check",
    .operands = "[SUITE]",
    .words = BENCH_SUITES,
    .summary = "A gate: fails when something got slower than a baseline",
    .details =
        "With --against, both programs measure in turns in one run, and noise of the machine hits both; "
        "with\n"
        "--baseline, a run that was made before counts, and the verdict says that they were not in turns.\n"
        "Exit codes: 0 nothing slower, 1 something is slower or fails now, 2 wrong usage, 3 nothing to\n"
        "compare, or interrupted, 4 suspect.\n"
        "  zellige bench check --against ../before/build/zellige --only gemm\n"
        "  make bench-against REV=HEAD~1    builds that version and does this",
    .operands_most = 1,
    .options = check_options,
    .run = run_check,
};
