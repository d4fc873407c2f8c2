// pjrt.c - the device pjrt: the units of a PJRT plugin, which runs whole segments as StableHLO.

#include "device/pjrt/pjrt.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

static bool describe(int unit, zl_device_info *out) {
    bool had_error = zl_error();
    if (!pjrt_is_open()) {
        out->model = "TPU";
        out->detail = "not opened, since that takes the chip: `zellige bench devices` asks for its kind";
        out->cores = 1;
        return true;
    }
    out->model = pjrt_model(unit);
    out->detail = pjrt_detail();
    out->cores = 1;
    out->is_host = !strcmp(pjrt_platform(), "cpu");
    if (out->is_host)
        return true;
    PJRT_CALL(Device_MemoryStats, memory, .device = pjrt_device(unit));
    if (memory_ok && memory.a.limit.is_set)
        out->memory = (size_t)memory.a.limit.value;
    if (!had_error)
        zl_clear_error();
    return true;
}

static int count_files(const char *pattern) {
    glob_t list = {0};
    int found = glob(pattern, GLOB_NOSORT, NULL, &list) == 0 ? (int)list.gl_pathc : 0;
    globfree(&list);
    return found;
}

// Returns whether a PCI device is Google's. vfio also serves devices of other vendors.
static bool has_google_chip(void) {
    glob_t list = {0};
    bool found = false;
    glob("/sys/bus/pci/devices/*/vendor", GLOB_NOSORT, NULL, &list);
    for (size_t i = 0; i < list.gl_pathc && !found; i++) {
        char vendor[16] = "";
        FILE *file = fopen(list.gl_pathv[i], "r");
        found = file && fgets(vendor, sizeof vendor, file) && !strncmp(vendor, "0x1ae0", 6);
        if (file)
            fclose(file);
    }
    globfree(&list);
    return found;
}

// Opening a plugin takes the chip, so the choice of the default device does it only if there is one. TPUs up
// to v4 have one file per chip; later ones are served by vfio.
bool pjrt_has_hardware(void) {
    return count_files("/dev/accel[0-9]*") || (count_files("/dev/vfio/[0-9]*") && has_google_chip());
}

// Returns the number of units without opening the plugin. A client of libtpu takes the chips for itself, so
// they are counted by the files of the kernel's driver.
static int count(const char **reason) {
    const char *path = pjrt_path(reason);
    if (!path || pjrt_is_open() || !pjrt_has_hardware() || !strstr(path, "libtpu"))
        return path ? pjrt_open(reason) : 0;
    return count_files("/dev/accel[0-9]*") + count_files("/dev/vfio/[0-9]*");
}

static bool is_host(int unit) {
    (void)unit;
    return !strcmp(pjrt_platform(), "cpu");
}

bool pjrt_has_doubles(const struct call *c) {
    bool has = false;
    for (int k = 0; k < c->outputs; k++)
        has |= call_output(c, k)->dtype == ZL_FLOAT64;
    for (int k = 0; k < c->inputs; k++)
        has |= c->in[k]->dtype == ZL_FLOAT64 && !array_is(c->in[k], ARRAY_WEAK);
    return has;
}

static bool can(int unit, const struct call *c) {
    (void)unit;
    return !(pjrt_is_tpu() && pjrt_has_doubles(c)) && hlo_can(c);
}

const struct device device_pjrt = {
    .name = "pjrt",
    .alias = "tpu",
    .is_static = true,
    .open = pjrt_open,
    .count = count,
    .describe = describe,
    .has_hardware = pjrt_has_hardware,
    .is_host = is_host,
    .can = can,
    .build = pjrt_build,
    .drop = pjrt_drop,
    .fuses = pjrt_fuses,
    .prepare = pjrt_prepare,
    .run = pjrt_run,
    .free = pjrt_free,
    .put = pjrt_put,
    .get = pjrt_get,
    .carry = pjrt_carry,
    .pin = pjrt_pin,
    .unpin = pjrt_unpin,
    .record = pjrt_record,
    .wait = pjrt_wait,
    .profile_end = pjrt_profile_end,
};
