// result.c - rows and runs: a configuration is prepared, verified, measured and judged, and becomes a row; a
// run is a list of rows with all information that is needed to understand them.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "zellige_tile.h"

static const char *const status_names[BENCH_STATUSES] = {"ok", "suspect", "failed", "absent"};

static const char *const clock_names[BENCH_CLOCKS] = {"host", "device", "model"};

const char *bench_clock_name(enum bench_clock clock) {
    return clock_names[clock];
}

const char *bench_clock_remark(enum bench_clock clock) {
    static const char *const remarks[BENCH_CLOCKS] = {"", "by the device's clock", "modelled"};
    return remarks[clock];
}

enum bench_clock bench_clock_find(const char *name) {
    for (int i = 0; i < BENCH_CLOCKS; i++)
        if (!strcmp(name, clock_names[i]))
            return (enum bench_clock)i;
    return BENCH_CLOCK_HOST;
}

const char *bench_status_name(enum bench_status status) {
    return status < BENCH_STATUSES ? status_names[status] : "";
}

enum bench_status bench_status_find(const char *name) {
    for (int i = 0; i < BENCH_STATUSES; i++)
        if (!strcmp(status_names[i], name))
            return (enum bench_status)i;
    return BENCH_STATUSES;
}

// Runs ------------------------------------------------------------------------------------------------------

struct bench_row *bench_run_add(struct bench_run *run) {
    struct bench_row *more = realloc(run->row, (size_t)(run->rows + 1) * sizeof *more);
    if (!more)
        return NULL;
    run->row = more;
    run->row[run->rows] = (struct bench_row){0};
    return &run->row[run->rows++];
}

const struct bench_row *bench_run_find(const struct bench_run *run, const char *id) {
    for (int i = 0; i < run->rows; i++)
        if (!strcmp(run->row[i].config.id, id))
            return &run->row[i];
    return NULL;
}

bool bench_run_has(const struct bench_run *run, enum bench_status status) {
    for (int i = 0; i < run->rows; i++)
        if (run->row[i].status == status)
            return true;
    return false;
}

bool bench_row_is_unstable(const struct bench_row *row) {
    return row->status == BENCH_OK && !row->stable;
}

int bench_run_unstable(const struct bench_run *run) {
    int count = 0;
    for (int i = 0; i < run->rows; i++)
        count += bench_row_is_unstable(&run->row[i]);
    return count;
}

void bench_run_free(struct bench_run *run) {
    for (int i = 0; i < run->rows; i++)
        free(run->row[i].second);
    free(run->row);
    run->row = NULL;
    run->rows = 0;
}

// What rows are judged by -----------------------------------------------------------------------------------

void bench_subject_of_cpu(struct bench_subject *s, const struct bench_machine *machine,
                          const struct bench_specs *specs, const struct bench_cpu_peaks *peaks) {
    *s = (struct bench_subject){.device = "cpu",
                                .threads = peaks->threads,
                                .clock_hz = peaks->clock_hz,
                                .devices_per_chip = 1,
                                .is_measured = true};
    snprintf(s->chip, sizeof s->chip, "%s", machine->cpu.id);
    snprintf(s->name, sizeof s->name, "%s", machine->cpu.model);
    s->bandwidth = fmax(peaks->copy, peaks->read);
    for (int d = 0; d < BENCH_DTYPES; d++) {
        const char *instruction = "";
        struct bench_peak *peak = &s->peak[d];
        *peak = (struct bench_peak){.rate = bench_cpu_peak(peaks, (enum bench_dtype)d, &instruction),
                                    .clock_mhz = peaks->clock_hz * 1e-6};
        snprintf(peak->source, sizeof peak->source, "measured: %s", instruction);
        if (!isnan(specs->override[d]))
            *peak = bench_spec_peak(specs, NULL, (enum bench_dtype)d);
    }
}

void bench_subject_of_chip(struct bench_subject *s, const struct bench_chip *chip,
                           const struct bench_specs *specs) {
    text_json_value spec = chip->shared ? NULL : bench_chip_by_id(specs, chip->id);
    *s = (struct bench_subject){.threads = zl_threads(), .clock_hz = NAN};
    snprintf(s->chip, sizeof s->chip, "%s", chip->id);
    snprintf(s->name, sizeof s->name, "%s", chip->name);
    snprintf(s->device, sizeof s->device, "%s", chip->device);
    s->is_modelled = chip->is_modelled;
    s->devices_per_chip = fmax(1, text_json_number_of(spec, "devices_per_chip"));
    s->bandwidth = bench_spec_bandwidth(spec);
    for (int d = 0; d < BENCH_DTYPES; d++)
        s->peak[d] = bench_spec_peak(specs, spec, (enum bench_dtype)d);
}

// From a configuration to a row -----------------------------------------------------------------------------

static void describe(struct bench_row *row, const struct bench_work *w) {
    snprintf(row->unit, sizeof row->unit, "%s", w->kind->unit);
    row->flops = w->flops;
    row->bytes = w->bytes;
    row->items = w->items;
}

static void fail(struct bench_row *row, const struct bench_work *w, enum bench_status status) {
    row->status = status;
    snprintf(row->note, sizeof row->note, "%s",
             w->why[0]    ? w->why
             : zl_error() ? zl_error()
                          : "failed without saying why");
}

static void take_samples(struct bench_row *row, struct bench_work *w, const struct bench_timing *timing) {
    struct bench_samples samples;
    if (!bench_measure(w, timing, &samples)) {
        free(samples.second);
        fail(row, w, BENCH_FAILED);
        return;
    }
    row->second = samples.second;
    row->inner = samples.inner;
    row->warm = samples.warm;
    row->stable = samples.stable;
    row->slope = samples.slope;
    row->start = samples.start;
    row->clock = samples.clock;
    bench_statistics(samples.second, samples.count, &row->stats);
}

void bench_measure_row(struct bench_row *row, const struct bench_config *config,
                       const struct bench_subject *subject, const struct bench_timing *timing) {
    bool tells = zl_kernel_runs_on(subject->device);
    struct bench_work w = {.zeros = timing->zeros,
                           .device = subject->device,
                           .tells_seconds = tells,
                           .is_modelled = subject->is_modelled,
                           .is_async = !tells && strcmp(subject->device, "cpu") != 0};
    *row = (struct bench_row){.config = *config, .status = BENCH_OK, .load = bench_load()};
    row->before = bench_read_device(subject->device);
    bench_steal();
    zl_clear_error();
    bool verified = false, falls_back = false;
    if (!bench_work_prepare(&w, config)) {
        fail(row, &w, w.is_absent || zl_error_which() == ZL_ERROR_DTYPE ? BENCH_ABSENT : BENCH_FAILED);
    } else {
        describe(row, &w);
        ZL_SCOPE {
            verified = w.kind->verify(&w);
        }
        if (verified && !tells) {
            zl_reset_peak_memory();
            falls_back = bench_work_falls_back(&w);
            row->memory = (double)zl_get_peak_memory();
        }
        if (!verified) {
            fail(row, &w, BENCH_FAILED);
        } else if (falls_back) {
            bench_fail(&w, "%s has no kernel for some of it yet: it would run on the CPU", subject->device);
            fail(row, &w, BENCH_ABSENT);
        } else {
            take_samples(row, &w, timing);
        }
    }
    bench_work_finish(&w);
    zl_clear_error();
    row->after = bench_read_device(subject->device);
    row->steal = bench_steal();
    if (row->status != BENCH_OK)
        bench_statistics(NULL, 0, &row->stats);
    bench_judge(row, subject);
}
