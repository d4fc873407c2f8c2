// csv.c - a run as comma-separated values (RFC 4180), one line per row, with all statistics.

#include "bench.h"

#include <string.h>

// Writes a text. One that a spreadsheet would take for a formula gets a single quote before it.
static void write_text(FILE *out, const char *text) {
    bool is_formula = text[0] && strchr("=+-@\t\r", text[0]);
    if (!is_formula && !strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputs(is_formula ? "\"'" : "\"", out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', out);
}

static void write_number(FILE *out, double value) {
    if (isfinite(value))
        fprintf(out, ",%.17g", value);
    else
        putc(',', out);
}

static void write_row(FILE *out, const struct bench_run *run, const struct bench_row *row) {
    const struct bench_stats *s = &row->stats;
    const double numbers[] = {s->median,  s->low,     s->high,    s->mad,      s->p5,
                              s->p95,     s->best,    row->rate,  row->peak,   row->utilisation,
                              row->limit, row->flops, row->bytes, row->memory, row->steal};
    const char *const texts[] = {row->config.id,
                                 row->config.work,
                                 row->config.op,
                                 bench_dtype_name(row->config.dtype),
                                 run->subject.device,
                                 run->subject.chip,
                                 bench_status_name(row->status)};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(out, texts[i]);
        putc(',', out);
    }
    fprintf(out, "%d,%d,%s", s->count, s->outliers, s->bimodal ? "yes" : "no");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        write_number(out, numbers[i]);
    putc(',', out);
    write_text(out, row->unit);
    putc(',', out);
    write_text(out, row->note);
    fprintf(out, ",%s,%s\r\n", row->clock == BENCH_CLOCK_MODEL ? "modelled" : "measured",
            bench_clock_name(row->clock));
}

void bench_write_csv(FILE *out, const struct bench_run *run) {
    fputs("id,work,op,dtype,device,chip,status,samples,outliers,bimodal,median_s,low_s,high_s,mad_s,p5_s,p95_"
          "s,best_s,rate,"
          "peak,utilisation,limit,flops,bytes,memory,steal,unit,note,time,clock\r\n",
          out);
    for (int i = 0; i < run->rows; i++)
        write_row(out, run, &run->row[i]);
}
