// environment.c - conditions of a measurement: time taken by other virtual machines, load, and the clocks,
// power and temperature that a device reports.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "cli.h"

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Reads the ticks of all cores since the start of the system: those stolen, and all.
static bool read_ticks(double *stolen, double *all) {
    double tick[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    int got = file ? fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &tick[0], &tick[1], &tick[2],
                            &tick[3], &tick[4], &tick[5], &tick[6], &tick[7])
                   : 0;
    if (file)
        fclose(file);
    *stolen = tick[7];
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += tick[i];
    return got == 8;
}

double bench_steal(void) {
    static double stolen_before, all_before;
    double stolen, all;
    if (!read_ticks(&stolen, &all))
        return NAN;
    double part = all > all_before ? (stolen - stolen_before) / (all - all_before) : 0;
    stolen_before = stolen;
    all_before = all;
    return part;
}

double bench_load(void) {
    double load;
    return getloadavg(&load, 1) == 1 ? load : (double)NAN;
}

// Reads the first core's clock from the kernel, and the temperature of the hottest zone; virtual machines
// have neither.
static void read_cpu(struct bench_reading *r) {
    struct bench_machine here = {0};
    char text[64];
    if (bench_read_line(&here, text, sizeof text, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"))
        r->clock_mhz = atof(text) * 1e-3;
    for (int i = 0; bench_read_line(&here, text, sizeof text, "/sys/class/thermal/thermal_zone%d/temp", i);
         i++)
        if (isnan(r->temperature_c) || atof(text) * 1e-3 > r->temperature_c)
            r->temperature_c = atof(text) * 1e-3;
}

struct bench_reading bench_read_device(const char *device) {
    struct bench_reading r = {.clock_mhz = NAN, .power_w = NAN, .temperature_c = NAN};
    if (!strcmp(device, "cpu"))
        read_cpu(&r);
    else
        bench_nvml_read(0, &r);
    return r;
}

// Writes the settings of the library that are set in the environment.
static void write_settings(void) {
    const char *name, *fallback, *doc;
    cli_json_open("settings", '{');
    for (int i = 0; zl_setting(i, &name, &fallback, &doc); i++)
        if (getenv(name))
            cli_json_text(name, getenv(name));
    cli_json_close();
}

void bench_write_environment(FILE *out, const struct bench_run *run) {
    struct utsname system;
    zl_device_info info;
    uname(&system);
    cli_json_to(out, false);
    cli_json_open(NULL, '{');
    cli_json_text("system", system.sysname);
    cli_json_text("release", system.release);
    cli_json_text("machine", system.machine);
    cli_json_text("host", run->host);
    cli_json_text("version", zl_version());
    cli_json_text("recognised_by", run->evidence);
    cli_json_number("load", bench_load());
    write_settings();
    cli_json_open("devices", '[');
    for (int i = 0; zl_device(i, &info); i++) {
        cli_json_open(NULL, '{');
        cli_json_text("device", info.device);
        cli_json_text("model", info.available ? info.model : NULL);
        cli_json_text("detail", info.available ? info.detail : info.reason);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
    cli_json_to(NULL, false);
}
