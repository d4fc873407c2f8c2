// peaks_command.c - `zellige bench peaks`: measures what this CPU can do at most, and prints it next to the
// product of instructions per cycle and the measured clock.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct option options[] = {
    {"seconds", 0, "N", NULL, "how long to look for the best slices (default 1)"},
    {0},
};

// Returns the operations per cycle and core that the table of specs has for this CPU; NaN if it is not in the
// table.
static double in_table(const struct bench_machine *machine, const struct bench_specs *specs,
                       enum bench_dtype dtype) {
    text_json_value cpus = text_json_get(specs->root, "cpus");
    for (int i = 0; i < text_json_count(cpus); i++)
        if (!strcmp(text_json_text_of(text_json_at(cpus, i), "id"), machine->cpu.id))
            return text_json_number_of(text_json_get(text_json_at(cpus, i), "ops_per_cycle_per_core"),
                                       bench_dtype_name(dtype));
    return NAN;
}

static enum bench_dtype dtype_of(zl_dtype arrays) {
    for (int d = 0; d < BENCH_DTYPES; d++)
        if (bench_dtype_of_arrays((enum bench_dtype)d) == arrays)
            return (enum bench_dtype)d;
    return BENCH_DTYPES;
}

static void print_json(const struct bench_cpu_peaks *peaks) {
    cli_json_open(NULL, '{');
    cli_json_number("clock_ghz", peaks->clock_hz * 1e-9);
    cli_json_int("threads", peaks->threads);
    cli_json_number("copy_gb_s", peaks->copy * 1e-9);
    cli_json_number("read_gb_s", peaks->read * 1e-9);
    cli_json_open("instructions", '[');
    for (int i = 0; i < peaks->count; i++) {
        cli_json_open(NULL, '{');
        cli_json_text("name", peaks->instruction[i].name);
        cli_json_text("dtype", bench_dtype_name(dtype_of(peaks->instruction[i].dtype)));
        cli_json_number("gop_s_per_core", peaks->instruction[i].rate * 1e-9);
        cli_json_number("gop_s_all_cores", peaks->instruction[i].all * 1e-9);
        cli_json_number("per_cycle", peaks->instruction[i].per_cycle);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

static int run(const struct invocation *call) {
    struct bench_specs specs;
    struct bench_machine machine;
    struct bench_cpu_peaks peaks;
    char error[512];
    double seconds = 1;
    if (!cli_number(call, "seconds", 0, INFINITY, &seconds))
        return CLI_USAGE;
    if (!bench_specs_open(&specs, NULL, error, sizeof error))
        return cli_fail(call, "%s", error);
    bench_detect(&machine, &specs, NULL);
    bench_measure_cpu_peaks(&peaks, seconds);
    if (call->json) {
        print_json(&peaks);
        bench_specs_close(&specs);
        return CLI_OK;
    }
    printf("%s%s%s, clock %.3f GHz, %d threads\n", cli_bold(), machine.cpu.model, cli_plain(),
           peaks.clock_hz * 1e-9, peaks.threads);
    printf("%-14s %-5s %16s %10s %8s %20s\n", "instruction", "dtype", "GFLOP/s a core", "a cycle", "table",
           "GFLOP/s, all at once");
    for (int i = 0; i < peaks.count; i++) {
        enum bench_dtype dtype = dtype_of(peaks.instruction[i].dtype);
        double wanted = in_table(&machine, &specs, dtype);
        char table[16] = "-";
        if (!isnan(wanted))
            snprintf(table, sizeof table, "%.0f", wanted);
        printf("%-14s %-5s %16.1f %10.2f %8s %20.1f\n", peaks.instruction[i].name, bench_dtype_name(dtype),
               peaks.instruction[i].rate * 1e-9, peaks.instruction[i].per_cycle, table,
               peaks.instruction[i].all * 1e-9);
    }
    printf("memory: copy %.1f GB/s, read %.1f GB/s\n", peaks.copy * 1e-9, peaks.read * 1e-9);
    bench_specs_close(&specs);
    return CLI_OK;
}

const struct command cli_bench_peaks = {
    .name = "bench peaks",
    .summary = "What this CPU can do at most: clock, multiply-adds of each dtype, memory",
    .details = "Short slices, of which the best fiftieth counts: other processes that use the machine do not "
               "show.",
    .options = options,
    .run = run,
};
