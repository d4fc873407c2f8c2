// run_json.c - a run as JSON, and back: metrics.json of a run folder, and the lines of its journal. All other outputs are
// made from what is in it.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

// Writing ---------------------------------------------------------------------------------------------------

static void write_reading(const char *key, const struct bench_reading *r) {
    cli_json_open(key, '{');
    cli_json_number("clock_mhz", r->clock_mhz);
    cli_json_number("power_w", r->power_w);
    cli_json_number("temperature_c", r->temperature_c);
    cli_json_text("throttle", r->throttle);
    cli_json_close();
}

static void write_stats(const struct bench_stats *s) {
    cli_json_number("median_s", s->median);
    cli_json_number("low_s", s->low);
    cli_json_number("high_s", s->high);
    cli_json_number("mad_s", s->mad);
    cli_json_number("p5_s", s->p5);
    cli_json_number("p95_s", s->p95);
    cli_json_number("best_s", s->best);
    cli_json_int("outliers", s->outliers);
    cli_json_bool("bimodal", s->bimodal);
}

static void write_row(const char *key, const struct bench_row *row) {
    cli_json_open(key, '{');
    cli_json_text("id", row->config.id);
    cli_json_text("work", row->config.work);
    cli_json_text("op", row->config.op);
    cli_json_text("dtype", bench_dtype_name(row->config.dtype));
    cli_json_open("size", '[');
    for (int i = 0; i < row->config.dims; i++)
        cli_json_int(NULL, row->config.dim[i]);
    cli_json_close();
    cli_json_text("status", bench_status_name(row->status));
    cli_json_text("note", row->note);
    cli_json_text("unit", row->unit);
    cli_json_number("flops", row->flops);
    cli_json_number("bytes", row->bytes);
    cli_json_number("items", row->items);
    cli_json_number("rate", row->rate);
    cli_json_number("peak", row->peak);
    cli_json_number("utilisation", row->utilisation);
    cli_json_text("path", row->path);
    cli_json_number("limit", row->limit);
    cli_json_bool("memory_bound", row->memory_bound);
    write_stats(&row->stats);
    cli_json_int("inner", row->inner);
    cli_json_int("warm", row->warm);
    cli_json_bool("stable", row->stable);
    cli_json_bool("slope", row->slope);
    cli_json_number("steal", row->steal);
    cli_json_number("load", row->load);
    write_reading("before", &row->before);
    write_reading("after", &row->after);
    cli_json_open("samples_s", '[');
    for (int i = 0; i < row->stats.count; i++)
        cli_json_number(NULL, row->second[i]);
    cli_json_close();
    cli_json_close();
}

void bench_write_row(FILE *out, const struct bench_row *row) {
    cli_json_to(out, true);
    write_row(NULL, row);
    cli_json_to(NULL, false);
}

static void write_subject(const struct bench_subject *s) {
    cli_json_open("subject", '{');
    cli_json_text("chip", s->chip);
    cli_json_text("name", s->name);
    cli_json_text("device", s->device);
    cli_json_int("threads", s->threads);
    cli_json_number("clock_hz", s->clock_hz);
    cli_json_number("bandwidth", s->bandwidth);
    cli_json_number("devices_per_chip", s->devices_per_chip);
    cli_json_bool("is_measured", s->is_measured);
    cli_json_open("peaks", '{');
    for (int d = 0; d < BENCH_DTYPES; d++) {
        cli_json_open(bench_dtype_name((enum bench_dtype)d), '{');
        cli_json_number("rate", s->peak[d].rate);
        cli_json_text("path", s->peak[d].path);
        cli_json_text("source", s->peak[d].source);
        cli_json_number("clock_mhz", s->peak[d].clock_mhz);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

static void write_timing(const struct bench_timing *t) {
    cli_json_open("timing", '{');
    cli_json_number("seconds", t->seconds);
    cli_json_number("warm_seconds", t->warm_seconds);
    cli_json_int("least", t->least);
    cli_json_int("most", t->most);
    cli_json_bool("wipe", t->wipe);
    cli_json_bool("zeros", t->zeros);
    cli_json_close();
}

void bench_write_run(FILE *out, const struct bench_run *run) {
    cli_json_to(out, false);
    cli_json_open(NULL, '{');
    cli_json_int("schema", 1);
    cli_json_text("folder", run->folder);
    cli_json_text("suite", run->suite);
    cli_json_text("status", run->status);
    cli_json_text("started", run->started);
    cli_json_text("host", run->host);
    cli_json_text("version", run->version);
    cli_json_text("commit", run->commit);
    cli_json_text("branch", run->branch);
    cli_json_int("dirty", run->dirty);
    cli_json_text("command", run->command);
    cli_json_text("notes", run->notes);
    cli_json_text("baseline", run->baseline);
    cli_json_text("evidence", run->evidence);
    write_subject(&run->subject);
    write_timing(&run->timing);
    cli_json_open("rows", '[');
    for (int i = 0; i < run->rows; i++)
        write_row(NULL, &run->row[i]);
    cli_json_close();
    cli_json_close();
    cli_json_to(NULL, false);
}

// Reading ---------------------------------------------------------------------------------------------------

#define COPY_TEXT(to, object, key) \
    snprintf((to), sizeof(to), "%.*s", (int)sizeof(to) - 1, bench_json_text_of(object, key))

static int int_of(bench_json object, const char *key) {
    double number = bench_json_number_of(object, key);
    return isnan(number) ? 0 : (int)number;
}

static bool true_of(bench_json object, const char *key) {
    return bench_json_true(bench_json_get(object, key));
}

static void read_reading(struct bench_reading *r, bench_json from) {
    r->clock_mhz = bench_json_number_of(from, "clock_mhz");
    r->power_w = bench_json_number_of(from, "power_w");
    r->temperature_c = bench_json_number_of(from, "temperature_c");
    COPY_TEXT(r->throttle, from, "throttle");
}

static void read_config(struct bench_config *c, bench_json from) {
    bench_json size = bench_json_get(from, "size");
    COPY_TEXT(c->id, from, "id");
    COPY_TEXT(c->work, from, "work");
    COPY_TEXT(c->op, from, "op");
    c->dtype = bench_dtype_find(bench_json_text_of(from, "dtype"));
    c->dims = bench_json_count(size) < 4 ? bench_json_count(size) : 4;
    for (int i = 0; i < c->dims; i++)
        c->dim[i] = (int64_t)bench_json_number(bench_json_at(size, i));
}

static bool read_samples(struct bench_row *row, bench_json samples) {
    int count = bench_json_count(samples);
    row->second = malloc((size_t)(count ? count : 1) * sizeof *row->second);
    for (int i = 0; row->second && i < count; i++)
        row->second[i] = bench_json_number(bench_json_at(samples, i));
    if (row->second)
        bench_statistics(row->second, count, &row->stats);
    return row->second;
}

bool bench_read_row(struct bench_row *row, bench_json from) {
    *row = (struct bench_row){.status = bench_status_find(bench_json_text_of(from, "status"))};
    read_config(&row->config, from);
    COPY_TEXT(row->note, from, "note");
    COPY_TEXT(row->unit, from, "unit");
    COPY_TEXT(row->path, from, "path");
    row->flops = bench_json_number_of(from, "flops");
    row->bytes = bench_json_number_of(from, "bytes");
    row->items = bench_json_number_of(from, "items");
    row->rate = bench_json_number_of(from, "rate");
    row->peak = bench_json_number_of(from, "peak");
    row->utilisation = bench_json_number_of(from, "utilisation");
    row->limit = bench_json_number_of(from, "limit");
    row->memory_bound = true_of(from, "memory_bound");
    row->inner = int_of(from, "inner");
    row->warm = int_of(from, "warm");
    row->stable = true_of(from, "stable");
    row->slope = true_of(from, "slope");
    row->steal = bench_json_number_of(from, "steal");
    row->load = bench_json_number_of(from, "load");
    read_reading(&row->before, bench_json_get(from, "before"));
    read_reading(&row->after, bench_json_get(from, "after"));
    bool known = row->config.id[0] && row->config.dtype < BENCH_DTYPES && row->status < BENCH_STATUSES;
    return known && read_samples(row, bench_json_get(from, "samples_s"));
}

static void read_subject(struct bench_subject *s, bench_json from) {
    bench_json peaks = bench_json_get(from, "peaks");
    COPY_TEXT(s->chip, from, "chip");
    COPY_TEXT(s->name, from, "name");
    COPY_TEXT(s->device, from, "device");
    s->threads = int_of(from, "threads");
    s->clock_hz = bench_json_number_of(from, "clock_hz");
    s->bandwidth = bench_json_number_of(from, "bandwidth");
    s->devices_per_chip = bench_json_number_of(from, "devices_per_chip");
    s->is_measured = true_of(from, "is_measured");
    for (int d = 0; d < BENCH_DTYPES; d++) {
        bench_json peak = bench_json_get(peaks, bench_dtype_name((enum bench_dtype)d));
        s->peak[d].rate = bench_json_number_of(peak, "rate");
        s->peak[d].clock_mhz = bench_json_number_of(peak, "clock_mhz");
        COPY_TEXT(s->peak[d].path, peak, "path");
        COPY_TEXT(s->peak[d].source, peak, "source");
    }
}

static void read_head(struct bench_run *run, bench_json root) {
    COPY_TEXT(run->folder, root, "folder");
    COPY_TEXT(run->suite, root, "suite");
    COPY_TEXT(run->status, root, "status");
    COPY_TEXT(run->started, root, "started");
    COPY_TEXT(run->host, root, "host");
    COPY_TEXT(run->version, root, "version");
    COPY_TEXT(run->commit, root, "commit");
    COPY_TEXT(run->branch, root, "branch");
    COPY_TEXT(run->command, root, "command");
    COPY_TEXT(run->notes, root, "notes");
    COPY_TEXT(run->baseline, root, "baseline");
    COPY_TEXT(run->evidence, root, "evidence");
    run->dirty = int_of(root, "dirty");
    read_subject(&run->subject, bench_json_get(root, "subject"));
    bench_json t = bench_json_get(root, "timing");
    run->timing = (struct bench_timing){.seconds = bench_json_number_of(t, "seconds"),
                                        .warm_seconds = bench_json_number_of(t, "warm_seconds"),
                                        .least = int_of(t, "least"),
                                        .most = int_of(t, "most"),
                                        .wipe = true_of(t, "wipe"),
                                        .zeros = true_of(t, "zeros")};
}

bool bench_read_run(struct bench_run *run, const char *path, char *error, size_t error_bytes) {
    struct stat info;
    char file[512];
    bool is_folder = !stat(path, &info) && S_ISDIR(info.st_mode);
    snprintf(file, sizeof file, "%s%s", path, is_folder ? "/metrics.json" : "");
    *run = (struct bench_run){0};
    bench_json root = bench_json_load(file, error, error_bytes), rows = bench_json_get(root, "rows");
    bool done = root && bench_json_is_list(rows);
    if (root && !done)
        snprintf(error, error_bytes, "%s: has no list `rows`", file);
    if (done)
        read_head(run, root);
    for (int i = 0; done && i < bench_json_count(rows); i++) {
        struct bench_row *row = bench_run_add(run);
        done = row && bench_read_row(row, bench_json_at(rows, i));
        if (!done)
            snprintf(error, error_bytes, "%s: row %d is damaged", file, i);
    }
    bench_json_free(root);
    if (!done)
        bench_run_free(run);
    return done;
}
