// nvml.c - NVIDIA's management library, loaded at run time with the few prototypes that are needed: names,
// MIG, and during a run clocks, power, temperature and reasons for throttling.

#include "bench.h"

#include <dlfcn.h>
#include <string.h>

typedef struct nvml_device *device; // opaque
enum { CLOCK_SM = 1, TEMPERATURE_GPU = 0 };

static struct {
    bool tried, open;
    int (*init)(void);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, device *out);
    int (*name)(device d, char *out, unsigned bytes);
    int (*mig)(device d, unsigned *now, unsigned *pending);
    int (*clock)(device d, int which, unsigned *mhz);
    int (*power)(device d, unsigned *milliwatts);
    int (*temperature)(device d, int sensor, unsigned *celsius);
    int (*throttle)(device d, unsigned long long *reasons);
} nvml;

static bool load(void *library) {
    const struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"nvmlInit_v2", (void **)&nvml.init},
        {"nvmlDeviceGetCount_v2", (void **)&nvml.count},
        {"nvmlDeviceGetHandleByIndex_v2", (void **)&nvml.handle},
        {"nvmlDeviceGetName", (void **)&nvml.name},
        {"nvmlDeviceGetMigMode", (void **)&nvml.mig},
        {"nvmlDeviceGetClockInfo", (void **)&nvml.clock},
        {"nvmlDeviceGetPowerUsage", (void **)&nvml.power},
        {"nvmlDeviceGetTemperature", (void **)&nvml.temperature},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", (void **)&nvml.throttle},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].to = dlsym(library, symbols[i].name)))
            return false;
    return nvml.init() == 0;
}

static bool is_open(void) {
    if (!nvml.tried) {
        nvml.tried = true;
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        nvml.open = library && load(library);
    }
    return nvml.open;
}

int bench_nvml_count(void) {
    unsigned count = 0;
    return is_open() && nvml.count(&count) == 0 ? (int)count : 0;
}

bool bench_nvml_name(int index, char *out, size_t bytes) {
    device d;
    return is_open() && nvml.handle((unsigned)index, &d) == 0 && nvml.name(d, out, (unsigned)bytes) == 0;
}

bool bench_nvml_is_split(int index) {
    device d;
    unsigned now = 0, pending;
    return is_open() && nvml.handle((unsigned)index, &d) == 0 && nvml.mig(d, &now, &pending) == 0 && now;
}

// Writes the names of the reasons for a low clock; harmless ones are left out.
static void name_reasons(unsigned long long reasons, char *out, size_t bytes) {
    static const struct {
        unsigned long long bit;
        const char *name;
    } known[] = {{0x4, "power cap"},
                 {0x8, "hardware slowdown"},
                 {0x20, "software thermal"},
                 {0x40, "hardware thermal"},
                 {0x80, "power brake"}};
    out[0] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (reasons & known[i].bit)
            snprintf(out + strlen(out), bytes - strlen(out), "%s%s", out[0] ? ", " : "", known[i].name);
}

bool bench_nvml_read(int index, struct bench_reading *reading) {
    device d;
    unsigned clock, power, temperature;
    unsigned long long reasons;
    if (!is_open() || nvml.handle((unsigned)index, &d))
        return false;
    if (nvml.clock(d, CLOCK_SM, &clock) == 0)
        reading->clock_mhz = clock;
    if (nvml.power(d, &power) == 0)
        reading->power_w = power * 1e-3;
    if (nvml.temperature(d, TEMPERATURE_GPU, &temperature) == 0)
        reading->temperature_c = temperature;
    if (nvml.throttle(d, &reasons) == 0)
        name_reasons(reasons, reading->throttle, sizeof reading->throttle);
    return true;
}
