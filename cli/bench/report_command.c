// report_command.c - `zellige bench report RUN`: writes the report of a run again, from its metrics.json.

#include "bench.h"

#include <string.h>

#include "cli.h"

static const struct option options[] = {
    {"format", 0, "NAME", "html markdown md csv json", "html (the default), markdown or md, csv, or json"},
    {0},
};

static const struct {
    const char *name;
    void (*write)(FILE *out, const struct bench_run *run);
} formats[] = {{"html", bench_write_html},
               {"markdown", bench_write_markdown},
               {"md", bench_write_markdown},
               {"csv", bench_write_csv},
               {"json", bench_write_run}};

static int run(const struct invocation *call) {
    struct bench_run read;
    char error[512];
    const char *format = cli_option(call, "format");
    format = format ? format : "html";
    size_t i = 0;
    while (i < sizeof formats / sizeof *formats && strcmp(formats[i].name, format) != 0)
        i++;
    if (i == sizeof formats / sizeof *formats)
        return cli_usage(call, "no format '%s': there are html, markdown (or md), csv and json", format);
    if (call->operand_count == 0)
        return cli_usage(call, "needs a run: a folder, or its metrics.json");
    if (!bench_read_run(&read, call->operands[0], error, sizeof error))
        return cli_fail(call, "%s", error);
    formats[i].write(stdout, &read);
    bench_run_free(&read);
    return CLI_OK;
}

const struct command cli_bench_report = {
    .name = "bench report",
    .operands = "RUN",
    .words = "*.json",
    .summary = "A run as one HTML page, Markdown, CSV or JSON, on standard output",
    .operands_most = 1,
    .options = options,
    .run = run,
};
