// log_command.c - `zellige bench log`: appends an experiment to a Markdown file: the time, the source, the
// command, the main results, the comparison with a baseline, and notes.

#include "bench.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static const struct option options[] = {
    {"file", 0, "FILE", NULL, "the log (default EXPERIMENTS.md)"},
    {"baseline", 0, "RUN", NULL, "compare with this run (default: the one that the run names)"},
    {"notes", 0, "TEXT", NULL, "what was tried and what it means"},
    {0},
};

// Writes the best row of each work and dtype.
static void write_results(FILE *out, const struct bench_run *run) {
    char median[32], rate[32], part[16];
    fputs("\n| what | median | rate | of peak |\n| --- | --- | --- | --- |\n", out);
    for (int i = 0; i < run->rows; i++) {
        const struct bench_row *row = &run->row[i];
        bool best = isfinite(row->rate);
        for (int j = 0; j < run->rows && best; j++) {
            const struct bench_row *other = &run->row[j];
            bool same = !strcmp(other->config.work, row->config.work) &&
                        other->config.dtype == row->config.dtype && !strcmp(other->config.op, row->config.op);
            best = !same || !(other->rate > row->rate);
        }
        if (!best)
            continue;
        fputs("| ", out);
        bench_markdown(out, row->config.id);
        fprintf(out, " | %s | ", bench_format_seconds(row->stats.median, median));
        bench_markdown(out, bench_format_rate(row->rate, row->unit, rate));
        fprintf(out, " | %s |\n", bench_format_percent(row->utilisation, part));
    }
}

static void write_comparison(FILE *out, const struct bench_run *run, const char *path) {
    struct bench_run before;
    struct bench_comparisons list = {0};
    char error[512], why[256];
    if (!bench_read_run(&before, path, error, sizeof error)) {
        cli_clean(error, false);
        fputs("\nBaseline: ", out);
        bench_markdown(out, error);
        putc('\n', out);
        return;
    }
    bench_compare_runs(&before, run, why, sizeof why);
    if (!why[0] && !bench_compare_all(&list, &before, run, 0.05)) {
        bench_comparisons_free(&list);
        snprintf(why, sizeof why, "out of memory");
    }
    before.commit[12] = 0;
    fputs("\nBaseline ", out);
    bench_markdown(out, path);
    fputs(" (commit ", out);
    bench_markdown(out, before.commit[0] ? before.commit : "unknown");
    fputs(why[0] ? "): not comparable: " : "): ", out);
    bench_markdown(out, why);
    if (why[0])
        putc('\n', out);
    else
        fprintf(out, "%d slower, %d faster, %d same, %d ambiguous; not measured in turns\n",
                list.of[BENCH_SLOWER], list.of[BENCH_FASTER], list.of[BENCH_SAME], list.of[BENCH_AMBIGUOUS]);
    for (int i = 0; i < list.count; i++)
        if (list.item[i].verdict == BENCH_SLOWER || list.item[i].verdict == BENCH_FASTER) {
            fputs("- ", out);
            bench_markdown(out, list.item[i].id);
            fprintf(out, ": %+.1f %% time (%s)\n", 100 * (list.item[i].ratio - 1),
                    bench_verdict_name(list.item[i].verdict));
        }
    bench_comparisons_free(&list);
    bench_run_free(&before);
}

static void write_item(FILE *out, const char *name, const char *const *texts) {
    fprintf(out, "- %s: ", name);
    for (; *texts; texts++)
        bench_markdown(out, *texts);
    putc('\n', out);
}

// Writes the commit, or outside a git tree the version alone.
static void write_source(FILE *out, const struct bench_run *run) {
    char changed[32];
    if (!run->commit[0]) {
        write_item(out, "source", (const char *[]){"no git tree, Zellige ", run->version, NULL});
        return;
    }
    write_item(out, "source",
               (const char *[]){run->commit, run->branch[0] ? ", branch " : "", run->branch,
                                run->dirty ? ", with changes" : "", NULL});
    snprintf(changed, sizeof changed, "%d changed files", run->dirty);
    if (run->dirty)
        write_item(out, changed, (const char *[]){run->changed, NULL});
}

static void write_entry(FILE *out, const struct bench_run *run, const char *baseline, const char *notes) {
    char now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    fprintf(out, "\n## %s: ", now);
    bench_markdown(out, run->suite);
    fputs(" on ", out);
    bench_markdown(out, run->subject.name);
    fputs("\n\n", out);
    write_item(out, "run",
               (const char *[]){run->folder, ", ", run->status, ", started ", run->started, NULL});
    write_source(out, run);
    fputs("- command: ", out);
    bench_markdown_code(out, run->command);
    putc('\n', out);
    write_results(out, run);
    if (baseline[0])
        write_comparison(out, run, baseline);
    if (notes[0] || run->notes[0])
        putc('\n', out);
    if (notes[0])
        fprintf(out, "%s\n", notes); // written as Markdown by the user
    else if (run->notes[0]) {
        bench_markdown(out, run->notes);
        putc('\n', out);
    }
}

static int run(const struct invocation *call) {
    struct bench_run read;
    char error[512];
    const char *file = cli_option(call, "file"), *baseline = cli_option(call, "baseline"),
               *notes = cli_option(call, "notes");
    if (call->operand_count == 0)
        return cli_usage(call, "needs a run: a folder, or its metrics.json");
    if (!bench_read_run(&read, call->operands[0], error, sizeof error))
        return cli_fail(call, "%s", error);
    FILE *out = fopen(file ? file : "EXPERIMENTS.md", "a");
    if (out) {
        if (!fseek(out, 0, SEEK_END) && ftell(out) == 0)
            fputs("# Experiments\n", out);
        write_entry(out, &read, baseline ? baseline : read.baseline, notes ? notes : "");
    }
    bench_run_free(&read);
    if (!out || fclose(out))
        return cli_fail(call, "cannot write %s: %s", file ? file : "EXPERIMENTS.md", strerror(errno));
    return CLI_OK;
}

const struct command cli_bench_log = {
    .name = "bench log",
    .operands = "RUN",
    .words = "*.json",
    .summary = "Append a run to a Markdown log of experiments, with its comparison and notes",
    .operands_most = 1,
    .options = options,
    .run = run,
};
