// devices_command.c - `zellige bench devices`: prints the chips of this machine, the evidence for them, and
// their row of the table.

#include "bench.h"

#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct option options[] = {
    {"sysroot", 0, "FOLDER", NULL, "look below this folder instead of at this machine"},
    {"specs", 0, "FILE", NULL, "table of chips instead of the one that is built in"},
    {"peak", 0, "LIST", NULL, "peaks instead of the table's, in TFLOPS: bf16=918,f32=459"},
    {0},
};

static double peak_of(const struct bench_specs *specs, const struct bench_chip *chip,
                      enum bench_dtype dtype) {
    text_json_value spec = bench_chip_by_id(specs, chip->id);
    return spec && !chip->shared ? bench_spec_peak(specs, spec, dtype).rate : (double)NAN;
}

static void print_json(const struct bench_machine *machine, const struct bench_specs *specs) {
    cli_json_open(NULL, '[');
    for (int i = 0; i < machine->count; i++) {
        const struct bench_chip *chip = &machine->chip[i];
        cli_json_open(NULL, '{');
        cli_json_text("chip", chip->id[0] ? chip->id : NULL);
        cli_json_text("name", chip->name);
        cli_json_text("kind", chip->kind);
        cli_json_int("chips", chip->chips);
        cli_json_int("devices", chip->devices);
        cli_json_bool("shared", chip->shared);
        cli_json_bool("is_modelled", chip->is_modelled);
        cli_json_text("runs_as", chip->device[0] ? chip->device : NULL);
        cli_json_text("evidence", chip->evidence);
        cli_json_open("peak_tflops_per_device", '{');
        for (int d = 0; d < BENCH_DTYPES; d++)
            cli_json_number(bench_dtype_name((enum bench_dtype)d),
                            peak_of(specs, chip, (enum bench_dtype)d) * 1e-12);
        cli_json_close();
        cli_json_close();
    }
    cli_json_close();
}

static void print_chip(const struct bench_chip *chip, const struct bench_specs *specs) {
    bool is_cpu = !strcmp(chip->kind, "cpu");
    printf("%s%s%s%s  %s", cli_bold(), cli_green(), chip->id[0] ? chip->id : "unknown", cli_plain(),
           chip->name);
    if (chip->is_modelled)
        printf(", modelled");
    else if (!is_cpu)
        printf(", %d chip%s, %d device%s", chip->chips, chip->chips == 1 ? "" : "s", chip->devices,
               chip->devices == 1 ? "" : "s");
    printf("\n    %s%s%s\n", cli_dim(), chip->evidence, cli_plain());
    bool any = false;
    for (int d = 0; d < BENCH_DTYPES; d++) {
        double peak = peak_of(specs, chip, (enum bench_dtype)d);
        if (!isnan(peak))
            printf("%s %s %.4g",
                   any ? "," : "    peak of one device, TFLOPS:", bench_dtype_name((enum bench_dtype)d),
                   peak * 1e-12);
        any = any || !isnan(peak);
    }
    printf("%s\n", any ? "" : is_cpu ? "    peaks are measured: zellige bench peaks" : "    peaks n/a");
}

static int run(const struct invocation *call) {
    struct bench_specs specs;
    char error[512];
    const char *peaks = cli_option(call, "peak"), *sysroot = cli_option(call, "sysroot");
    if (sysroot && access(sysroot, X_OK))
        return cli_usage(call, "--sysroot %s: no folder that can be read", sysroot);
    if (!bench_specs_open(&specs, cli_option(call, "specs"), error, sizeof error))
        return cli_fail(call, "%s", error);
    if (peaks && !bench_specs_override(&specs, peaks, error, sizeof error)) {
        bench_specs_close(&specs);
        return cli_usage(call, "%s", error);
    }
    struct bench_machine machine;
    bench_detect(&machine, &specs, sysroot);
    if (call->json)
        print_json(&machine, &specs);
    for (int i = 0; i < machine.count && !call->json; i++)
        print_chip(&machine.chip[i], &specs);
    bench_specs_close(&specs);
    return CLI_OK;
}

const struct command cli_bench_devices = {
    .name = "bench devices",
    .summary = "The chips of this machine, how they were recognised, and their peaks",
    .details = "A chip that the table does not know is unknown: it has no peak, and results no utilisation.",
    .options = options,
    .run = run,
};
