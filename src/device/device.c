// device.c - the devices of devices.def: finds them by name, opens each at its first use, and describes them.

#include "device/device.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define DEVICE(name) extern const struct device device_##name;
#include "device/devices.def"

static const struct device *const devices[] = {
#define DEVICE(name) &device_##name,
#include "device/devices.def"
};

static struct {
    atomic_bool is_open;
    int units;
    const char *reason; // why `units` is 0
    unsigned era;       // the value of fork_era when it was opened
} opened[COUNT(devices)];

int device_count(void) {
    return (int)COUNT(devices);
}

const struct device *device_at(int index) {
    return index >= 0 && index < device_count() ? devices[index] : NULL;
}

static void open_device(int index) {
    static struct lock lock; // not guarded: drivers may fork while they start
    lock_take(&lock);
    if (!atomic_load_explicit(&opened[index].is_open, memory_order_relaxed)) {
        const char *reason = NULL;
        opened[index].units = devices[index]->open(&reason);
        opened[index].era = atomic_load(&fork_era);
        opened[index].reason = opened[index].units ? NULL : reason ? reason : "no unit was found";
        atomic_store_explicit(&opened[index].is_open, true, memory_order_release);
    }
    lock_give(&lock);
}

int device_units(int index, const char **reason) {
    if (!atomic_load_explicit(&opened[index].is_open, memory_order_acquire))
        open_device(index);
    if (reason)
        *reason = opened[index].reason;
    return opened[index].units;
}

// Returns whether a fork may have made the device unusable: drivers, which may not survive forks, are those
// of devices with memory of their own.
static bool may_be_lost(const struct device *d) {
    return device_is_apart(d) && UNLIKELY(atomic_load_explicit(&fork_era, memory_order_relaxed));
}

// Returns the value of fork_era when a device was opened, or the current value if it is not open.
static unsigned era_of(const struct device *d) {
    for (int i = 0; i < device_count(); i++)
        if (devices[i] == d && atomic_load(&opened[i].is_open))
            return opened[i].era;
    return atomic_load(&fork_era);
}

bool device_is_lost(const struct device *d) {
    return may_be_lost(d) && era_of(d) != atomic_load(&fork_era);
}

bool device_check(const struct device *d) {
    return !may_be_lost(d) || fork_spares(d->name, era_of(d));
}

// Appends the names of all devices, "cpu, null", each followed by the reason in parentheses if it has no
// unit.
static void list_devices(struct text *out) {
    for (int i = 0; i < device_count(); i++) {
        const char *reason;
        int units = device_units(i, &reason);
        text_add(out, "%s%s", i ? ", " : "", devices[i]->name);
        if (!units)
            text_add(out, " (%s)", reason);
    }
}

static void *not_found(const char *name) {
    struct text list = {0};
    list_devices(&list);
    error_set(ZL_ERROR_DEVICE, "there is no device \"%s\"; there are: %s", name ? name : "",
              list.data ? list.data : "");
    text_free(&list);
    return NULL;
}

const struct device *device_find(const char *name, int *units) {
    for (int i = 0; name && i < device_count(); i++) {
        const char *reason;
        if (strcmp(devices[i]->name, name) != 0 &&
            (!devices[i]->alias || strcmp(devices[i]->alias, name) != 0))
            continue;
        int found = device_units(i, &reason);
        if (!found)
            return error_set(ZL_ERROR_DEVICE, "device \"%s\" is not available: %s", name, reason);
        if (units)
            *units = found;
        return device_check(devices[i]) ? devices[i] : NULL;
    }
    return not_found(name);
}

const struct device *device_find_unit(const char *name, int *unit) {
    char kind[32];
    int units = 0, len = 0;
    *unit = 0;
    if (!name || sscanf(name, "%31[^:]:%d%n", kind, unit, &len) < 2 || name[len])
        return device_find(name, &units);
    const struct device *d = device_find(kind, &units);
    if (!d || (*unit >= 0 && *unit < units))
        return d;
    if (units == 1)
        return error_set(ZL_ERROR_DEVICE, "device \"%s\": there is only %s:0", name, kind);
    return error_set(ZL_ERROR_DEVICE, "device \"%s\": there are %s:0 to %s:%d", name, kind, kind, units - 1);
}

bool device_is_gpu(const struct device *d, int unit) {
    return device_is_apart(d) && !(d->is_host && d->is_host(unit));
}

// Without such a file, loaders of drivers find CPUs at most. Opening those takes longer than a small program
// runs: with PoCL, 30 ms and a compiler in memory (Neoverse-V1, 2026-11).
bool device_has_gpu_file(void) {
    static const char *const files[] = {"/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/kfd",
                                        "/dev/dxg",          "/dev/mali*",        "/dev/kgsl-3d*"};
    bool found = false;
    for (size_t i = 0; i < COUNT(files) && !found; i++) {
        glob_t list = {0};
        found = glob(files[i], GLOB_NOSORT, NULL, &list) == 0;
        globfree(&list);
    }
    return found;
}

// Returns the first GPU of a device, or -1 if it has none. Opens the device unless it is known to have no
// hardware.
static int find_gpu(int index) {
    const struct device *d = devices[index];
    if (!device_is_apart(d) || (d->has_hardware && !d->has_hardware()))
        return -1;
    for (int unit = 0; unit < device_units(index, NULL); unit++)
        if (device_is_gpu(d, unit))
            return unit;
    return -1;
}

static const struct device *standard; // the first device that is a GPU, or the CPU
static int standard_unit;

// Opens devices until one of them has a GPU.
static void choose_standard(void) {
    standard = devices[0];
    for (int i = 0; i < device_count(); i++) {
        int unit = find_gpu(i);
        if (unit < 0)
            continue;
        standard = devices[i];
        standard_unit = unit;
        return;
    }
}

const struct device *device_standard(int *unit) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_standard);
    *unit = standard_unit;
    return device_check(standard) ? standard : NULL;
}

// One chip, one GPU -----------------------------------------------------------------------------------------

// Whether ZL_DEVICE names the device, or a unit of it.
static bool is_chosen(int index) {
    const char *name = setting_text(SETTING_DEVICE);
    size_t len = strcspn(name, ":");
    return len == strlen(devices[index]->name) && !strncmp(name, devices[index]->name, len);
}

// Whether a unit of the device is this chip.
static bool has_chip(int index, const unsigned char id[DEVICE_CHIP_ID]) {
    unsigned char other[DEVICE_CHIP_ID];
    for (int unit = 0; devices[index]->chip && unit < device_units(index, NULL); unit++)
        if (devices[index]->chip(unit, other) && !memcmp(id, other, sizeof other))
            return true;
    return false;
}

// Returns whether another device has the chip of a unit and is preferred to this one. Of devices with the
// same chip, the one that ZL_DEVICE names is preferred, else the first row of devices.def.
static bool is_of_another(int index, int unit) {
    unsigned char id[DEVICE_CHIP_ID];
    if (is_chosen(index) || !devices[index]->chip || !devices[index]->chip(unit, id))
        return false;
    for (int i = 0; i < device_count(); i++)
        if (i != index && (i < index || is_chosen(i)) && has_chip(i, id))
            return true;
    return false;
}

static int count_units(int index, const char **reason) {
    return devices[index]->count ? devices[index]->count(reason) : device_units(index, reason);
}

// Describes a unit. A device without units has one entry, with the reason. Listing does not open a device
// that has `count`: its units are GPUs only if has_hardware() says so, as for the choice of the default
// device.
static bool describe(int index, int unit, zl_device_info *info) {
    const char *reason;
    int units = count_units(index, &reason);
    *info = (zl_device_info){.device = devices[index]->name,
                             .unit = unit,
                             .model = "",
                             .detail = "",
                             .available = units > 0,
                             .reason = units ? "" : reason};
    if (units && devices[index]->describe)
        devices[index]->describe(unit, info);
    bool is_known = !devices[index]->count || devices[index]->has_hardware();
    info->is_gpu = units && is_known && device_is_gpu(devices[index], unit) && !is_of_another(index, unit);
    return true;
}

bool zl_device(int index, zl_device_info *info) {
    if (index < 0 || !info)
        return false;
    for (int i = 0; i < device_count(); i++) {
        const char *reason;
        int rows = MAX_OF(count_units(i, &reason), 1);
        if (index < rows)
            return describe(i, index, info);
        index -= rows;
    }
    return false;
}

bool zl_kernel_override_at(int index, zl_kernel_override *out) {
    if (index < 0 || !out)
        return false;
    for (int i = 0; i < device_count(); i++)
        for (int k = 0; devices[i]->override && devices[i]->override(k, out); k++)
            if (index-- == 0) {
                out->device = devices[i]->name;
                return true;
            }
    return false;
}

static bool batch_invariant;

static void read_batch_invariant(void) {
    batch_invariant = setting_flag(SETTING_BATCH_INVARIANT);
}

bool device_batch_invariant(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_batch_invariant);
    return batch_invariant;
}
