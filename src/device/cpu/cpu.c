// cpu.c - the CPU as a device, which is always available and works on the host's memory.

#include "device/cpu/cpu.h"

static int open_cpu(const char **reason) {
    (void)reason;
    cpu_level(); // warn about ZL_ISA now, not in the middle of the first evaluation
    return 1;
}

const struct device device_cpu = {
    .name = "cpu",
    .open = open_cpu,
    .describe = cpu_describe,
    .can = cpu_can,
    .build = cpu_build,
    .drop = cpu_drop,
    .fuses = cpu_fuses,
    .run = cpu_run,
};
