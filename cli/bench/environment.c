// environment.c - what goes on around a measurement: the clock, time that other machines stole, load, and what a device
// says about its clocks, power and temperature.

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Ticks of all cores since the start: stolen, and all.
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

// The first core's clock as the kernel sees it, and the hottest zone; virtual machines have neither.
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
