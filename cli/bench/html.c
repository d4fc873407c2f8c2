// html.c - report.html: a run on one page that opens anywhere. It depends only on the run and the runs before
// it, and has no date of its own, so the same data gives the same bytes.

#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TREND_MOST = 20 };

// Escaping --------------------------------------------------------------------------------------------------

static void write_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        const char *name = *text == '<'    ? "&lt;"
                           : *text == '>'  ? "&gt;"
                           : *text == '&'  ? "&amp;"
                           : *text == '"'  ? "&quot;"
                           : *text == '\'' ? "&#39;"
                                           : NULL;
        if (name)
            fputs(name, out);
        else
            putc(*text, out);
    }
}

// Writes one conversion of a format, with the next argument.
static void write_conversion(FILE *out, const char *conversion, va_list *list) {
    switch (conversion[strlen(conversion) - 1]) {
    case 's': write_escaped(out, va_arg(*list, const char *)); break;
    case 'd': fprintf(out, "%d", va_arg(*list, int)); break;
    case '%': putc('%', out); break;
    default: { // %f and %g, with their precision
        char number[400];
        snprintf(number, sizeof number, conversion, va_arg(*list, double));
        fputs(number, out);
    }
    }
}

void bench_html(FILE *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    while (*format) {
        size_t plain = strcspn(format, "%"), len = 0;
        fwrite(format, 1, plain, out);
        format += plain;
        if (*format) {
            char conversion[16];
            len = 1 + strspn(format + 1, "0123456789.") + 1;
            snprintf(conversion, sizeof conversion, "%.*s", (int)len, format);
            write_conversion(out, conversion, &list);
        }
        format += len;
    }
    va_end(list);
}

// The parts of the page -------------------------------------------------------------------------------------

static void write_tile(FILE *out, const char *value, const char *name) {
    bench_html(out, "<div class=\"tile\"><b>%s</b><span class=\"soft\">%s</span></div>\n", value, name);
}

// Writes the most important figures.
static void write_tiles(FILE *out, const struct bench_run *run) {
    const struct bench_row *best = NULL, *memory = NULL;
    char text[32], name[64], part[16];
    int bad = 0;
    for (int i = 0; i < run->rows; i++) {
        const struct bench_row *row = &run->row[i];
        bool is_gemm = !strcmp(row->config.work, "gemm") && row->status == BENCH_OK;
        if (is_gemm && isfinite(row->utilisation) && (!best || row->utilisation > best->utilisation))
            best = row;
        if (!strcmp(row->unit, "B") && isfinite(row->utilisation) && (!memory || row->rate > memory->rate))
            memory = row;
        bad += row->status == BENCH_SUSPECT || row->status == BENCH_FAILED;
    }
    fputs("<div class=\"tiles\">\n", out);
    if (best) {
        snprintf(name, sizeof name, "of the %s peak, at best", bench_dtype_name(best->config.dtype));
        write_tile(out, bench_format_percent(best->utilisation, part), name);
    }
    if (memory)
        write_tile(out, bench_format_rate(memory->rate, "B", text), "from memory, at best");
    snprintf(text, sizeof text, "%d", run->rows);
    write_tile(out, text, "configurations");
    snprintf(text, sizeof text, "%d", bad);
    write_tile(out, text, "failed or suspect");
    snprintf(text, sizeof text, "%d", bench_run_unstable(run));
    write_tile(out, text, "not stable");
    fputs("</div>\n", out);
}

static void write_fact(FILE *out, const char *name, const char *value) {
    if (!value[0])
        return;
    bench_html(out, "<dt>%s</dt><dd>%s</dd>\n", name, value);
}

static void write_facts(FILE *out, const struct bench_run *run) {
    char text[256], rate[32];
    const struct bench_subject *s = &run->subject;
    bench_html(out, "<section><h2>What was %s</h2><dl>\n", s->is_modelled ? "modelled" : "measured");
    write_fact(out, "chip", s->chip[0] ? s->chip : "unknown");
    write_fact(out, "times", s->is_modelled ? "modelled: no chip ran this" : "measured");
    write_fact(out, "recognised by", run->evidence);
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (isfinite(s->peak[d].rate)) {
            snprintf(text, sizeof text, "%s (%s%s%s)", bench_format_rate(s->peak[d].rate, "FLOP", rate),
                     s->peak[d].source, s->peak[d].path[0] ? ", " : "", s->peak[d].path);
            char name[32];
            snprintf(name, sizeof name, "peak of %s", bench_dtype_name((enum bench_dtype)d));
            write_fact(out, name, text);
        }
    write_fact(out, "memory", bench_format_rate(s->bandwidth, "B", rate));
    snprintf(text, sizeof text, "%.3f GHz", s->clock_hz * 1e-9);
    write_fact(out, "clock", isfinite(s->clock_hz) ? text : "");
    snprintf(text, sizeof text, "%s, %d threads, %s", s->device, s->threads,
             run->timing.zeros ? "data of zeros" : "random data");
    write_fact(out, "device", text);
    write_fact(out, "command", run->command);
    snprintf(text, sizeof text, "%s %s%s", run->branch, run->commit, run->dirty ? " with changes" : "");
    write_fact(out, "commit", run->commit[0] ? text : "");
    write_fact(out, "host", run->host);
    write_fact(out, "notes", run->notes);
    fputs("</dl></section>\n", out);
}

static void write_cell(FILE *out, double value, const char *text) {
    if (isfinite(value))
        bench_html(out, "<td data-value=\"%.9g\">%s</td>", value, text);
    else
        fputs("<td data-value=\"\" class=\"soft\">n/a</td>", out);
}

static void write_row(FILE *out, const struct bench_row *row) {
    char text[32], percent[16];
    double spread = (row->stats.high - row->stats.low) / 2 / row->stats.median;
    bench_html(out, "<tr class=\"%s\"><td>%s</td>", bench_status_name(row->status), row->config.id);
    write_cell(out, row->stats.median, bench_format_seconds(row->stats.median, text));
    write_cell(out, spread, bench_format_percent(spread, percent));
    write_cell(out, row->stats.best, bench_format_seconds(row->stats.best, text));
    write_cell(out, row->rate, bench_format_rate(row->rate, row->unit, text));
    write_cell(out, row->utilisation, bench_format_percent(row->utilisation, percent));
    write_cell(out, row->rate / row->limit, bench_format_percent(row->rate / row->limit, percent));
    write_cell(out, row->memory > 0 ? row->memory : NAN, bench_format_bytes(row->memory, text));
    bench_html(out, "<td data-value=\"%d\">%d</td><td data-value=\"%d\">%d</td><td>", row->stats.count,
               row->stats.count, row->stats.outliers, row->stats.outliers);
    if (row->status != BENCH_OK)
        bench_html(out, "%s: ", bench_status_name(row->status));
    bench_html(out, "%s %s%s%s%s</td></tr>\n", bench_clock_remark(row->clock), row->note, row->path,
               row->stats.bimodal ? " two groups of samples" : "",
               bench_row_is_unstable(row) ? " not stable" : "");
}

static void write_table(FILE *out, const struct bench_run *run) {
    fputs(
        "<section><h2>All "
        "rows</h2><table><thead><tr><th>what</th><th>median</th><th>&plusmn;</th><th>best</th><th>rate</th>"
        "<th>of peak</th><th>of "
        "roofline</th><th>memory</th><th>samples</th><th>outliers</th><th>remarks</th></tr></thead><tbody>\n",
        out);
    for (int i = 0; i < run->rows; i++)
        write_row(out, &run->row[i]);
    fputs("</tbody></table></section>\n", out);
}

// Writes the trend of this run and the earlier runs of its kind.
static void write_trend(FILE *out, const struct bench_run *run) {
    struct bench_run runs[TREND_MOST];
    char root[256], error[256], **folders;
    const char *slash = strrchr(run->folder, '/');
    snprintf(root, sizeof root, "%.*s", slash ? (int)(slash - run->folder) : 1, slash ? run->folder : ".");
    int found = bench_history_find(run, root, &folders), count = 0;
    for (int i = found > TREND_MOST - 1 ? found - TREND_MOST + 1 : 0; i < found; i++)
        if (strcmp(folders[i], run->folder) < 0 &&
            bench_read_run(&runs[count], folders[i], error, sizeof error))
            count++;
    runs[count] = *run;
    bench_chart_trend(out, runs, count + 1);
    for (int i = 0; i < count; i++)
        bench_run_free(&runs[i]);
    bench_history_free(folders, found);
}

// Writes a content security policy, a second defence in addition to bench_html: browsers run only the page's
// own script and style, which they know by their hashes, and load nothing.
static void write_policy(FILE *out) {
    bench_html(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-%s'; "
        "style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'\">\n",
        bench_file_hash("report.js"), bench_file_hash("report.css"));
}

void bench_write_html(FILE *out, const struct bench_run *run) {
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n", out);
    write_policy(out);
    fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" "
          "href=\"data:,\">\n",
          out);
    bench_html(out, "<title>%s: %s</title>\n<style>", run->subject.name, run->suite);
    fputs(bench_file_find("report.css"), out); // unchanged, because the policy has its hash
    bench_html(out,
               "</style></head><body>\n<h1>%s</h1>\n<p class=\"soft\">Suite %s, %s, %s%s. Zellige %s.</p>\n",
               run->subject.name, run->suite, run->started, run->status,
               run->subject.is_modelled ? ". All times are modelled: no chip ran this" : "", run->version);
    write_tiles(out, run);
    bench_chart_bars(out, run);
    bench_chart_roofline(out, run);
    bench_chart_heat(out, run);
    bench_chart_bandwidth(out, run);
    write_trend(out, run);
    write_table(out, run);
    write_facts(out, run);
    fputs("<script>", out);
    fputs(bench_file_find("report.js"), out);
    fputs("</script>\n</body></html>\n", out);
}
