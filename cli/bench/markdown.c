// markdown.c - a run as a Markdown table.

#include "bench.h"

#include <string.h>

void bench_markdown(FILE *out, const char *text) {
    bool starts_line = true; // at the start of a line, some characters begin headings, lists, quotes and
                             // fences
    for (; *text; text++) {
        bool is_markup = strchr("\\`*[]|", *text) || (starts_line && strchr("#-+=>~", *text));
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", out);
        else
            fprintf(out, is_markup ? "\\%c" : "%c", *text);
        starts_line = *text == '\n';
    }
}

void bench_markdown_code(FILE *out, const char *text) {
    size_t longest = 0;
    for (const char *at = text; *(at += strcspn(at, "`"));) {
        size_t run = strspn(at, "`");
        longest = run > longest ? run : longest;
        at += run;
    }
    for (size_t i = 0; i <= longest; i++)
        putc('`', out);
    fprintf(out, longest ? " %s " : "%s", text);
    for (size_t i = 0; i <= longest; i++)
        putc('`', out);
}

static void write_row(FILE *out, const struct bench_row *row) {
    char median[32], rate[32], part[16], limit[16], memory[32];
    fputs("| ", out);
    bench_markdown(out, row->config.id);
    fprintf(out, " | %s | ", bench_format_seconds(row->stats.median, median));
    bench_markdown(out, bench_format_rate(row->rate, row->unit, rate));
    fprintf(out, " | %s | %s | %s | %d | ", bench_format_percent(row->utilisation, part),
            bench_format_percent(row->rate / row->limit, limit), bench_format_bytes(row->memory, memory),
            row->stats.count);
    if (row->status != BENCH_OK)
        fprintf(out, "%s: ", bench_status_name(row->status));
    bench_markdown(out, row->note);
    bench_markdown(out, row->path);
    fprintf(out, "%s%s%s%s |\n", row->clock ? " " : "", bench_clock_remark(row->clock),
            row->stats.bimodal ? " two groups" : "", bench_row_is_unstable(row) ? " not stable" : "");
}

void bench_write_markdown(FILE *out, const struct bench_run *run) {
    fputs("# ", out);
    bench_markdown(out, run->suite);
    fputs(" on ", out);
    bench_markdown(out, run->subject.name);
    fputs("\n\n", out);
    bench_markdown(out, run->started);
    fprintf(out, ", %d threads, %s", run->subject.threads,
            run->subject.is_modelled ? "modelled: no chip ran this, " : "");
    bench_markdown(out, run->status);
    fprintf(out, "%s, commit ", run->timing.zeros ? ", data of zeros" : "");
    bench_markdown(out, run->commit[0] ? run->commit : "unknown");
    fprintf(out, "%s, %d of %d rows not stable. ", run->dirty ? " with changes" : "", bench_run_unstable(run),
            run->rows);
    bench_markdown_code(out, run->command);
    fputs("\n\n| what | median | rate | of peak | of roofline | memory | samples | remarks |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
          out);
    for (int i = 0; i < run->rows; i++)
        write_row(out, &run->row[i]);
}
