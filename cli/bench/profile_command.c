// profile_command.c - `zellige profile`: runs a program with ZL_PROFILE, and passes it the peaks of this
// machine's devices, as the benchmarks know them.

#include "bench.h"
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double cpu_seconds = 0.3; // in which the CPU's peaks are measured

static const struct option options[] = {
    {"out", 'o', "FILE", NULL, "the timeline (default zellige-profile.json)"},
    {"peaks", 0, "LIST", NULL, "peaks for shares of the roofline: cpu.bytes=2e10,cpu.float32=1e11"},
    {0},
};

static void add_peak(char *list, size_t room, const char *device, const char *what, double rate) {
    size_t used = strlen(list);
    if (isfinite(rate) && rate > 0)
        snprintf(list + used, room - used, "%s%s.%s=%.6g", used ? "," : "", device, what, rate);
}

static void add_subject(char *list, size_t room, const struct bench_subject *s) {
    static const enum bench_dtype dtypes[] = {BENCH_F64, BENCH_F32, BENCH_BF16, BENCH_F16};
    add_peak(list, room, s->device, "bytes", s->bandwidth);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        add_peak(list, room, s->device, zl_dtype_name(bench_dtype_of_arrays(dtypes[i])),
                 s->peak[dtypes[i]].rate);
}

// Lists the peaks: those of the CPU are measured, those of other chips come from the table of specs.
static void find_peaks(char *list, size_t room) {
    struct bench_specs specs;
    struct bench_machine machine;
    struct bench_cpu_peaks peaks;
    struct bench_subject subject;
    char error[512];
    if (!bench_specs_open(&specs, NULL, error, sizeof error))
        return; // without peaks, fractions of the roofline are left out
    bench_detect(&machine, &specs, NULL);
    bench_measure_cpu_peaks(&peaks, cpu_seconds);
    bench_subject_of_cpu(&subject, &machine, &specs, &peaks);
    add_subject(list, room, &subject);
    for (int i = 0; i < machine.count; i++)
        if (machine.chip[i].device[0] && strcmp(machine.chip[i].device, "cpu") != 0) {
            bench_subject_of_chip(&subject, &machine.chip[i], &specs);
            add_subject(list, room, &subject);
        }
    bench_specs_close(&specs);
}

// Makes the path absolute, since the program may change its folder.
static bool name_file(const char *file, char *out, size_t room) {
    char folder[PATH_MAX];
    if (file[0] == '/')
        return snprintf(out, room, "%s", file) < (int)room;
    return getcwd(folder, sizeof folder) && snprintf(out, room, "%s/%s", folder, file) < (int)room;
}

static int run(const struct invocation *call) {
    const char *file = cli_option(call, "out"), *given = cli_option(call, "peaks");
    char path[2 * PATH_MAX], peaks[1024] = "";
    if (!call->operand_count)
        return cli_usage(call, "needs a program to run");
    if (!name_file(file ? file : "zellige-profile.json", path, sizeof path))
        return cli_fail(call, "the path of '%s' cannot be found: %s", file ? file : "", strerror(errno));
    if (given)
        snprintf(peaks, sizeof peaks, "%s", given);
    else if (!getenv("ZL_PROFILE_PEAKS"))
        find_peaks(peaks, sizeof peaks);
    if (setenv("ZL_PROFILE", path, 1) || (peaks[0] && setenv("ZL_PROFILE_PEAKS", peaks, 1)))
        return cli_fail(call, "the environment cannot be set: %s", strerror(errno));
    fflush(stdout);
    execvp(call->operands[0], call->operands);
    return cli_fail(call, "cannot run '%s': %s", call->operands[0], strerror(errno));
}

const struct command cli_profile = {
    .name = "profile",
    .operands = "PROGRAM [ARG...]",
    .words = "*",
    .summary = "Run a program that uses Zellige, and show which kernels took its time",
    .details = "When it ends, a table goes to standard error and a timeline, for https://ui.perfetto.dev, to "
               "a file.\n"
               "What follows PROGRAM belongs to it. doc/profile.md explains the table.",
    .operands_most = INT_MAX,
    .takes_program = true,
    .options = options,
    .run = run,
};
