// markdown.c - a run as a Markdown table.

#include "bench.h"

#include <string.h>

static void write_cell(FILE *out, const char *text) {
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

void bench_write_markdown(FILE *out, const struct bench_run *run) {
    char median[32], rate[32], part[16], limit[16];
    fprintf(out, "# %s on %s\n\n", run->suite, run->subject.name);
    fprintf(out, "%s, %d threads, %s%s, commit %s%s. `%s`\n\n", run->started, run->subject.threads,
            run->status, run->timing.zeros ? ", data of zeros" : "", run->commit[0] ? run->commit : "unknown",
            run->dirty ? " with changes" : "", run->command);
    fputs("| what | median | rate | of peak | of roofline | samples | remarks |\n| --- | --- | --- | --- | "
          "--- | --- | --- |\n",
          out);
    for (int i = 0; i < run->rows; i++) {
        const struct bench_row *row = &run->row[i];
        fprintf(out, "| %s | %s | %s | %s | %s | %d | ", row->config.id,
                bench_format_seconds(row->stats.median, median),
                bench_format_rate(row->rate, row->unit, rate), bench_format_percent(row->utilisation, part),
                bench_format_percent(row->rate / row->limit, limit), row->stats.count);
        if (row->status != BENCH_OK)
            fprintf(out, "%s: ", bench_status_name(row->status));
        write_cell(out, row->note);
        fprintf(out, "%s%s |\n", row->path, row->stats.bimodal ? " two groups" : "");
    }
}
