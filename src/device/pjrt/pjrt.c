// pjrt.c - the device of a PJRT plugin: whole segments as StableHLO.

#include "device/pjrt/pjrt.h"

#include <glob.h>
#include <string.h>

static bool describe(int unit, zl_device_info *out) {
    bool had_error = zl_error();
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

// To open a plugin takes the chip: it is done for the default device only where there is a TPU.
static bool has_hardware(void) {
    glob_t list = {0};
    bool found = glob("/dev/accel[0-9]*", GLOB_NOSORT, NULL, &list) == 0;
    globfree(&list);
    return found;
}

static bool is_host(int unit) {
    (void)unit;
    return !strcmp(pjrt_platform(), "cpu");
}

// TPUs have doubles by emulation alone.
static bool has_dtypes(const struct call *c) {
    bool has = strcmp(pjrt_platform(), "tpu") != 0;
    for (int k = 0; k < c->outputs && !has; k++)
        if (call_output(c, k)->dtype == ZL_FLOAT64)
            return false;
    for (int k = 0; k < c->inputs && !has; k++)
        if (c->in[k]->dtype == ZL_FLOAT64 && !array_is(c->in[k], ARRAY_WEAK))
            return false;
    return true;
}

static bool can(int unit, const struct call *c) {
    (void)unit;
    return has_dtypes(c) && hlo_can(c);
}

const struct device device_pjrt = {
    .name = "pjrt",
    .alias = "tpu",
    .is_static = true,
    .open = pjrt_open,
    .describe = describe,
    .has_hardware = has_hardware,
    .is_host = is_host,
    .can = can,
    .build = pjrt_build,
    .drop = pjrt_drop,
    .fuses = pjrt_fuses,
    .run = pjrt_run,
    .free = pjrt_free,
    .put = pjrt_put,
    .get = pjrt_get,
    .carry = pjrt_carry,
    .record = pjrt_record,
    .wait = pjrt_wait,
};
