// session.c - runs a benchmark, from its options to its folder of results. Ctrl-C abandons the configuration
// that is being measured; the results before it are kept.

#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "zellige_tile.h"

// Opening ---------------------------------------------------------------------------------------------------

static int read_timing(struct bench_session *s) {
    struct bench_timing *t = &s->suite.timing;
    int64_t most = t->most, threads = 0;
    double seconds = NAN;
    if (!cli_number(s->call, "seconds", 0, INFINITY, &seconds) ||
        !cli_integer(s->call, "samples", 1, INT32_MAX, &most) ||
        !cli_integer(s->call, "threads", 1, INT32_MAX, &threads))
        return CLI_USAGE;
    const char *clock = cli_option(s->call, "clock");
    if (clock && strcmp(clock, "host") && strcmp(clock, "device"))
        return cli_usage(s->call, "--clock %s: there are host and device", clock);
    if (clock && !strcmp(clock, "device") && cli_option(s->call, "wipe-cache"))
        return cli_usage(s->call, "--clock device and --wipe-cache: the device's clock would count the "
                                  "emptying of caches too");
    snprintf(t->clock, sizeof t->clock, "%s", clock ? clock : "");
    t->wipe = cli_option(s->call, "wipe-cache");
    t->zeros = cli_option(s->call, "zeros");
    if (!isnan(seconds))
        t->seconds = t->warm_seconds = seconds;
    t->most = (int)most;
    t->least = t->most < t->least ? t->most : t->least;
    if (t->most < 1 || t->seconds < 0)
        return cli_usage(s->call, "suite %s: samples_most must be 1 or more, seconds 0 or more",
                         s->suite.name);
    if (threads && !zl_set_threads((int)threads))
        return cli_usage(s->call, "--threads %lld: %s", (long long)threads, zl_error());
    return CLI_OK;
}

static void remember_command(struct bench_session *s, const char *suite) {
    struct bench_run *run = &s->run;
    size_t used =
        (size_t)snprintf(run->command, sizeof run->command, "zellige %s%s%s", s->call->command->name,
                         s->call->command->operands ? " " : "", s->call->command->operands ? suite : "");
    const struct option *options = s->call->command->options;
    for (int i = 0; options[i].name && used < sizeof run->command; i++)
        if (s->call->values[i])
            used += (size_t)snprintf(run->command + used, sizeof run->command - used, " --%s%s%s",
                                     options[i].name, options[i].value ? " " : "", s->call->values[i]);
}

int bench_session_take_suite(struct bench_session *s, const char *suite) {
    char error[512];
    if (!bench_suite_open(&s->suite, suite, error, sizeof error))
        return cli_usage(s->call, "%s", error);
    snprintf(s->run.suite, sizeof s->run.suite, "%s", s->suite.name);
    remember_command(s, s->suite.name);
    return read_timing(s);
}

int bench_session_open(struct bench_session *s, const struct invocation *call, const char *suite) {
    char error[512];
    const char *peaks = cli_option(call, "peak"), *notes = cli_option(call, "notes");
    *s = (struct bench_session){.call = call};
    int code = CLI_OK;
    if (!bench_specs_open(&s->specs, cli_option(call, "specs"), error, sizeof error))
        return cli_usage(call, "%s", error);
    snprintf(s->run.notes, sizeof s->run.notes, "%s", notes ? notes : "");
    if (peaks && !bench_specs_override(&s->specs, peaks, error, sizeof error))
        code = cli_usage(call, "%s", error);
    else if (suite)
        code = bench_session_take_suite(s, suite);
    if (code != CLI_OK)
        bench_session_close(s);
    return code;
}

void bench_session_close(struct bench_session *s) {
    bench_run_free(&s->run);
    bench_suite_close(&s->suite);
    bench_specs_close(&s->specs);
}

// Running ---------------------------------------------------------------------------------------------------

// Adds a device that is not the first one of a chip, or whose chip was not recognised: as the chip of the
// table that has the device's own name, otherwise as an unknown chip of that name, without peaks.
static const struct bench_chip *add_device(struct bench_session *s, const char *device) {
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++) {
        if (strcmp(info.device, device) || !info.available)
            continue;
        text_json_value spec = bench_chip_by_name(&s->specs, "nvml_names", info.model);
        struct bench_chip *chip = bench_add_chip(&s->machine, spec, info.model, "gpu");
        chip->chips = chip->devices = 1;
        snprintf(chip->device, sizeof chip->device, "%s", device);
        bench_add_evidence(chip->evidence, "device %s calls it %s%s", device, info.model,
                           spec ? "" : ", which no chip of the table is");
        return chip;
    }
    return NULL;
}

const struct bench_chip *bench_session_find_chip(struct bench_session *s) {
    const char *wanted = cli_option(s->call, "device");
    bench_detect(&s->machine, &s->specs, NULL);
    for (int i = 0; i < s->machine.count; i++) {
        const struct bench_chip *chip = &s->machine.chip[i];
        if (wanted ? !strcmp(chip->device, wanted) : chip->device[0] != 0)
            return chip;
    }
    const struct bench_chip *chip = wanted ? add_device(s, wanted) : NULL;
    if (!chip && wanted && !zl_use_device(wanted))
        cli_library_failed(s->call); // the message is why the device is not available
    else if (!chip)
        cli_fail(s->call, "there is no device '%s' here; see zellige devices", wanted ? wanted : "cpu");
    return chip;
}

static int find_subject(struct bench_session *s) {
    const struct bench_chip *chip = bench_session_find_chip(s);
    if (!chip)
        return CLI_FAILED;
    if (!zl_use_device(zl_kernel_runs_on(chip->device) ? "cpu" : chip->device)) // the device that holds the
                                                                                // arguments
        return cli_library_failed(s->call);
    snprintf(s->run.evidence, sizeof s->run.evidence, "%s", chip->evidence);
    if (!strcmp(chip->device, "cpu")) {
        struct bench_cpu_peaks peaks;
        bench_measure_cpu_peaks(&peaks, 0.5);
        bench_subject_of_cpu(&s->run.subject, &s->machine, &s->specs, &peaks);
    } else {
        bench_subject_of_chip(&s->run.subject, chip, &s->specs);
    }
    return CLI_OK;
}

// Resumes the run in `folder`: reads its journal, and fails if that run and this one cannot be compared.
static int resume_folder(struct bench_session *s, const char *folder) {
    snprintf(s->run.folder, sizeof s->run.folder, "%s", folder);
    for (size_t end = strlen(s->run.folder); end > 1 && s->run.folder[end - 1] == '/'; end--)
        s->run.folder[end - 1] = 0;
    if (bench_journal_read(&s->run) < 0)
        return cli_fail(s->call, "%s has no journal to resume", folder);
    struct bench_run before;
    char error[256], why[256] = "";
    if (bench_read_run(&before, folder, error, sizeof error)) {
        bench_compare_runs(&before, &s->run, why, sizeof why);
        snprintf(s->run.started, sizeof s->run.started, "%s", before.started);
        snprintf(s->run.suite, sizeof s->run.suite, "%s", before.suite);
        bench_run_free(&before);
    }
    return why[0] ? cli_usage(s->call, "%s cannot be resumed like this: %s", folder, why) : CLI_OK;
}

static void log_start(const struct bench_session *s, const char *resume) {
    const struct bench_run *run = &s->run;
    char rate[32];
    bench_log(run, "%s: %s", resume ? "resumed" : "started", run->command);
    bench_log(run, "zellige %s, commit %s%s, on %s", run->version, run->commit[0] ? run->commit : "unknown",
              run->dirty ? " with changes" : "", run->host);
    bench_log(run, "chip %s (%s), device %s, %d threads: %s", run->subject.name,
              run->subject.chip[0] ? run->subject.chip : "unknown", run->subject.device, run->subject.threads,
              run->evidence);
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (isfinite(run->subject.peak[d].rate))
            bench_log(run, "peak of %s: %s (%s)", bench_dtype_name((enum bench_dtype)d),
                      bench_format_rate(run->subject.peak[d].rate, "FLOP", rate),
                      run->subject.peak[d].source);
    bench_log(run, "memory: %s", bench_format_rate(run->subject.bandwidth, "B", rate));
}

static void log_row(const struct bench_run *run, const struct bench_row *row, double took) {
    char median[32], rate[32], part[16];
    bench_log(run, "%s: %s, median %s of %d samples (%d outliers%s), %s, %s of the peak, %.1f s%s%s",
              row->config.id, bench_status_name(row->status), bench_format_seconds(row->stats.median, median),
              row->stats.count, row->stats.outliers, row->stable ? "" : ", not stable",
              bench_format_rate(row->rate, row->unit, rate), bench_format_percent(row->utilisation, part),
              took, row->note[0] ? ": " : "", row->note);
}

static int cannot_write(const struct bench_session *s) {
    return cli_fail(s->call, "cannot write into %s: %s", s->run.folder,
                    zl_error() ? zl_error() : strerror(errno));
}

int bench_session_start(struct bench_session *s, const char *resume) {
    char error[512];
    const char *out = cli_option(s->call, "out");
    int code = find_subject(s);
    if (code != CLI_OK)
        return code;
    bench_describe_source(&s->run);
    s->run.timing = s->suite.timing;
    snprintf(s->run.status, sizeof s->run.status, "running");
    if (resume)
        code = resume_folder(s, resume);
    else if (!bench_folder_new(&s->run, out ? out : "runs", error, sizeof error))
        code = cli_fail(s->call, "%s", error);
    if (code == CLI_OK && !bench_folder_write(&s->run, "metrics.json", bench_write_run))
        code = cannot_write(s);
    if (code == CLI_OK)
        log_start(s, resume);
    if (code == CLI_OK && !s->call->json)
        bench_table_head(&s->run);
    cli_catch_interrupts();
    return code;
}

struct bench_row *bench_session_one(struct bench_session *s, const struct bench_config *config) {
    struct bench_row *row = bench_run_add(&s->run);
    if (!row) {
        s->failed = true;
        cli_fail(s->call, "out of memory");
        return NULL;
    }
    double started = bench_now();
    bench_measure_row(row, config, &s->run.subject, &s->suite.timing);
    if (cli_interrupted()) {
        bench_log(&s->run, "interrupted in %s", config->id);
        free(row->second);
        s->run.rows--;
        return NULL;
    }
    if (!bench_journal_add(&s->run, row)) {
        s->failed = true;
        cli_fail(s->call, "cannot write %s/journal.jsonl: %s", s->run.folder, strerror(errno));
        return NULL;
    }
    log_row(&s->run, row, bench_now() - started);
    bench_progress(0, 0, 0, NULL);
    if (!s->call->json)
        bench_table_row(row);
    return row;
}

int bench_session_check_only(const struct bench_session *s, const char *only) {
    for (int i = 0; i < s->suite.count; i++)
        if (!only || strstr(s->suite.config[i].id, only))
            return CLI_OK;
    return cli_usage(s->call, "no configuration of %s has '%s' in its name", s->suite.name, only);
}

// Returns whether a configuration is selected by --only and has no result yet.
static bool is_wanted(const struct bench_session *s, const struct bench_config *config, const char *only) {
    return (!only || strstr(config->id, only)) && !bench_run_find(&s->run, config->id);
}

void bench_session_measure(struct bench_session *s, const char *only) {
    double started = bench_now();
    int done = 0, all = 0;
    for (int i = 0; i < s->suite.count; i++)
        all += is_wanted(s, &s->suite.config[i], only);
    for (int i = 0; i < s->suite.count && !cli_interrupted(); i++) {
        const struct bench_config *config = &s->suite.config[i];
        if (!is_wanted(s, config, only))
            continue;
        if (!s->call->json)
            bench_progress(done++, all, started, config->id);
        if (!bench_session_one(s, config))
            break;
    }
}

bool bench_session_write(struct bench_session *s) {
    struct bench_run *run = &s->run;
    char root[256];
    snprintf(run->status, sizeof run->status, "%s",
             cli_interrupted() || s->failed ? "interrupted" : "complete");
    const char *slash = strrchr(run->folder, '/');
    snprintf(root, sizeof root, "%.*s", slash ? (int)(slash - run->folder) : 1, slash ? run->folder : ".");
    bench_log(run, "%s: %d rows", run->status, run->rows);
    bool written = bench_folder_write(run, "metrics.json", bench_write_run) &&
                   bench_folder_write(run, "env.json", bench_write_environment) &&
                   bench_folder_write(run, "results.csv", bench_write_csv) &&
                   bench_folder_write(run, "results.md", bench_write_markdown) &&
                   bench_folder_write(run, "report.html", bench_write_html) && bench_history_add(run, root);
    if (!written)
        cannot_write(s);
    return written;
}

// Reports the interruption. (A run as JSON has it in its status.)
static void say_interrupted(const struct bench_session *s) {
    const char *name = strcmp(s->call->command->name, "bench search") ? "bench run" : "bench search";
    cli_fail(s->call, "interrupted after %d rows; zellige %s --resume %s goes on", s->run.rows, name,
             s->run.folder);
}

int bench_session_finish(struct bench_session *s) {
    if (!bench_session_write(s))
        return CLI_FAILED;
    if (s->call->json)
        bench_write_run(stdout, &s->run);
    else if (cli_interrupted())
        say_interrupted(s);
    bool failed = s->failed || cli_interrupted() || bench_run_has(&s->run, BENCH_FAILED);
    return failed ? CLI_FAILED : bench_run_has(&s->run, BENCH_SUSPECT) ? BENCH_SUSPECT_CODE : CLI_OK;
}
