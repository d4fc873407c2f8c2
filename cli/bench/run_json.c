// run_json.c - a run as JSON, and back: metrics.json of a run folder, and the lines of its journal. All other
// output files are made from them.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

// A table with a row per member, in the order in which they are written; the same table reads them back.
enum kind { TEXT, LINES, NUMBER, INTEGER, FLAG, DTYPE, STATUS, CLOCK, SIZES, READING };

struct member {
    const char *name;
    enum kind kind;
    size_t at, bytes; // in the structure
};

#define MEMBER(type, kind, name, field) \
    { name, kind, offsetof(type, field), sizeof(((type *)0)->field) }

#define OF_READING(kind, name) MEMBER(struct bench_reading, kind, #name, name)
static const struct member reading_members[] = {
    OF_READING(NUMBER, clock_mhz),
    OF_READING(NUMBER, power_w),
    OF_READING(NUMBER, temperature_c),
    OF_READING(TEXT, throttle),
    {0},
};

#define OF_ROW(kind, name, field) MEMBER(struct bench_row, kind, name, field)
static const struct member row_members[] = {
    OF_ROW(TEXT, "id", config.id),
    OF_ROW(TEXT, "work", config.work),
    OF_ROW(TEXT, "op", config.op),
    OF_ROW(DTYPE, "dtype", config.dtype),
    OF_ROW(SIZES, "size", config),
    OF_ROW(STATUS, "status", status),
    OF_ROW(TEXT, "note", note),
    OF_ROW(TEXT, "unit", unit),
    OF_ROW(NUMBER, "flops", flops),
    OF_ROW(NUMBER, "bytes", bytes),
    OF_ROW(NUMBER, "items", items),
    OF_ROW(NUMBER, "memory", memory),
    OF_ROW(NUMBER, "rate", rate),
    OF_ROW(NUMBER, "peak", peak),
    OF_ROW(NUMBER, "utilisation", utilisation),
    OF_ROW(TEXT, "path", path),
    OF_ROW(NUMBER, "limit", limit),
    OF_ROW(FLAG, "memory_bound", memory_bound),
    OF_ROW(NUMBER, "median_s", stats.median),
    OF_ROW(NUMBER, "low_s", stats.low),
    OF_ROW(NUMBER, "high_s", stats.high),
    OF_ROW(NUMBER, "mad_s", stats.mad),
    OF_ROW(NUMBER, "p5_s", stats.p5),
    OF_ROW(NUMBER, "p95_s", stats.p95),
    OF_ROW(NUMBER, "best_s", stats.best),
    OF_ROW(INTEGER, "outliers", stats.outliers),
    OF_ROW(FLAG, "bimodal", stats.bimodal),
    OF_ROW(INTEGER, "inner", inner),
    OF_ROW(INTEGER, "warm", warm),
    OF_ROW(FLAG, "stable", stable),
    OF_ROW(FLAG, "slope", slope),
    OF_ROW(CLOCK, "clock", clock),
    OF_ROW(NUMBER, "start_s", start),
    OF_ROW(NUMBER, "steal", steal),
    OF_ROW(NUMBER, "load", load),
    OF_ROW(READING, "before", before),
    OF_ROW(READING, "after", after),
    {0},
};

#define OF_SUBJECT(kind, name) MEMBER(struct bench_subject, kind, #name, name)
static const struct member subject_members[] = {
    OF_SUBJECT(TEXT, chip),
    OF_SUBJECT(TEXT, name),
    OF_SUBJECT(TEXT, device),
    OF_SUBJECT(INTEGER, threads),
    OF_SUBJECT(NUMBER, clock_hz),
    OF_SUBJECT(NUMBER, bandwidth),
    OF_SUBJECT(NUMBER, devices_per_chip),
    OF_SUBJECT(FLAG, is_measured),
    OF_SUBJECT(FLAG, is_modelled),
    {0},
};

#define OF_PEAK(kind, name) MEMBER(struct bench_peak, kind, #name, name)
static const struct member peak_members[] = {
    OF_PEAK(NUMBER, rate), OF_PEAK(TEXT, path), OF_PEAK(TEXT, source), OF_PEAK(NUMBER, clock_mhz), {0},
};

#define OF_TIMING(kind, name) MEMBER(struct bench_timing, kind, #name, name)
static const struct member timing_members[] = {
    OF_TIMING(NUMBER, seconds),
    OF_TIMING(NUMBER, warm_seconds),
    OF_TIMING(INTEGER, least),
    OF_TIMING(INTEGER, most),
    OF_TIMING(FLAG, wipe),
    OF_TIMING(FLAG, zeros),
    OF_TIMING(TEXT, clock),
    {0},
};

#define OF_RUN(kind, name) MEMBER(struct bench_run, kind, #name, name)
static const struct member run_members[] = {
    OF_RUN(TEXT, folder),   OF_RUN(TEXT, suite),    OF_RUN(TEXT, status),
    OF_RUN(TEXT, started),  OF_RUN(TEXT, host),     OF_RUN(TEXT, version),
    OF_RUN(TEXT, commit),   OF_RUN(TEXT, branch),   OF_RUN(INTEGER, dirty),
    OF_RUN(TEXT, changed),  OF_RUN(TEXT, command),  OF_RUN(LINES, notes),
    OF_RUN(TEXT, baseline), OF_RUN(TEXT, evidence), {0},
};

// Writing ---------------------------------------------------------------------------------------------------

static void write_sizes(const char *name, const struct bench_config *config) {
    cli_json_open(name, '[');
    for (int i = 0; i < config->dims; i++)
        cli_json_int(NULL, config->dim[i]);
    cli_json_close();
}

static void write_members(const struct member *m, const void *from) {
    for (; m->name; m++) {
        const void *at = (const char *)from + m->at;
        switch (m->kind) {
        case TEXT:
        case LINES: cli_json_text(m->name, at); break;
        case NUMBER: cli_json_number(m->name, *(const double *)at); break;
        case INTEGER: cli_json_int(m->name, *(const int *)at); break;
        case FLAG: cli_json_bool(m->name, *(const bool *)at); break;
        case DTYPE: cli_json_text(m->name, bench_dtype_name(*(const enum bench_dtype *)at)); break;
        case STATUS: cli_json_text(m->name, bench_status_name(*(const enum bench_status *)at)); break;
        case CLOCK: cli_json_text(m->name, bench_clock_name(*(const enum bench_clock *)at)); break;
        case SIZES: write_sizes(m->name, at); break;
        case READING:
            cli_json_open(m->name, '{');
            write_members(reading_members, at);
            cli_json_close();
        }
    }
}

static void write_row(const struct bench_row *row) {
    cli_json_open(NULL, '{');
    write_members(row_members, row);
    cli_json_open("samples_s", '[');
    for (int i = 0; i < row->stats.count; i++)
        cli_json_number(NULL, row->second[i]);
    cli_json_close();
    cli_json_close();
}

void bench_write_row(FILE *out, const struct bench_row *row) {
    cli_json_to(out, true);
    write_row(row);
    cli_json_to(NULL, false);
}

static void write_subject(const struct bench_subject *s) {
    cli_json_open("subject", '{');
    write_members(subject_members, s);
    cli_json_open("peaks", '{');
    for (int d = 0; d < BENCH_DTYPES; d++) {
        cli_json_open(bench_dtype_name((enum bench_dtype)d), '{');
        write_members(peak_members, &s->peak[d]);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

void bench_write_run(FILE *out, const struct bench_run *run) {
    cli_json_to(out, false);
    cli_json_open(NULL, '{');
    cli_json_int("schema", 1);
    write_members(run_members, run);
    write_subject(&run->subject);
    cli_json_open("timing", '{');
    write_members(timing_members, &run->timing);
    cli_json_close();
    cli_json_open("rows", '[');
    for (int i = 0; i < run->rows; i++)
        write_row(&run->row[i]);
    cli_json_close();
    cli_json_close();
    cli_json_to(NULL, false);
}

// Reading ---------------------------------------------------------------------------------------------------

static void read_sizes(struct bench_config *config, text_json_value list) {
    config->dims = text_json_count(list) < 4 ? text_json_count(list) : 4;
    for (int i = 0; i < config->dims; i++)
        config->dim[i] = text_json_integer(text_json_at(list, i));
}

static void read_members(const struct member *m, void *into, text_json_value from) {
    for (; m->name; m++) {
        void *at = (char *)into + m->at;
        text_json_value value = text_json_get(from, m->name);
        double number = text_json_number(value);
        switch (m->kind) {
        case TEXT:
        case LINES: bench_json_copy(from, m->name, m->kind == LINES, at, m->bytes); break;
        case NUMBER: *(double *)at = number; break;
        case INTEGER: *(int *)at = fabs(number) < INT32_MAX ? (int)number : 0; break;
        case FLAG: *(bool *)at = text_json_true(value); break;
        case DTYPE: *(enum bench_dtype *)at = bench_dtype_find(text_json_text_of(from, m->name)); break;
        case STATUS: *(enum bench_status *)at = bench_status_find(text_json_text_of(from, m->name)); break;
        case CLOCK: *(enum bench_clock *)at = bench_clock_find(text_json_text_of(from, m->name)); break;
        case SIZES: read_sizes(at, value); break;
        case READING: read_members(reading_members, at, value);
        }
    }
}

// Computes the statistics from the samples; those in the file are ignored.
static bool read_samples(struct bench_row *row, text_json_value samples) {
    int count = text_json_count(samples);
    row->second = malloc((size_t)(count ? count : 1) * sizeof *row->second);
    for (int i = 0; row->second && i < count; i++)
        row->second[i] = text_json_number(text_json_at(samples, i));
    if (row->second)
        bench_statistics(row->second, count, &row->stats);
    return row->second;
}

bool bench_read_row(struct bench_row *row, text_json_value from) {
    *row = (struct bench_row){0};
    read_members(row_members, row, from);
    if (text_json_true(text_json_get(from, "is_modelled"))) // as version 0.1 wrote it
        row->clock = BENCH_CLOCK_MODEL;
    bool known = row->config.id[0] && row->config.dtype < BENCH_DTYPES && row->status < BENCH_STATUSES;
    return known && read_samples(row, text_json_get(from, "samples_s"));
}

static void read_head(struct bench_run *run, text_json_value root) {
    text_json_value subject = text_json_get(root, "subject"), peaks = text_json_get(subject, "peaks");
    read_members(run_members, run, root);
    read_members(subject_members, &run->subject, subject);
    for (int d = 0; d < BENCH_DTYPES; d++)
        read_members(peak_members, &run->subject.peak[d],
                     text_json_get(peaks, bench_dtype_name((enum bench_dtype)d)));
    read_members(timing_members, &run->timing, text_json_get(root, "timing"));
}

// Sets the folder to that of the file, whatever the file has: it may have been moved, or come from another
// machine.
static void take_folder(struct bench_run *run, const char *file) {
    const char *slash = strrchr(file, '/');
    snprintf(run->folder, sizeof run->folder, "%.*s", slash ? (int)(slash - file) : 1, slash ? file : ".");
}

bool bench_read_run(struct bench_run *run, const char *path, char *error, size_t error_bytes) {
    struct stat info;
    char file[512];
    bool is_folder = !stat(path, &info) && S_ISDIR(info.st_mode);
    snprintf(file, sizeof file, "%s%s", path, is_folder ? "/metrics.json" : "");
    *run = (struct bench_run){0};
    text_json_value root = text_json_load(file, error, error_bytes), rows = text_json_get(root, "rows");
    bool done = root && text_json_is_list(rows);
    if (root && !done)
        snprintf(error, error_bytes, "%s: has no list `rows`", file);
    if (done) {
        read_head(run, root);
        take_folder(run, file);
    }
    for (int i = 0; done && i < text_json_count(rows); i++) {
        struct bench_row *row = bench_run_add(run);
        done = row && bench_read_row(row, text_json_at(rows, i));
        if (!done)
            snprintf(error, error_bytes, "%s: row %d is damaged", file, i);
    }
    text_json_free(root);
    if (!done)
        bench_run_free(run);
    return done;
}
