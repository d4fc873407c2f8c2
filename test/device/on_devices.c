// on_devices.c - runs a call on every device that runs kernels, and compares it with the CPU.

#include "on_devices.h"

#include "device/opencl/opencl.h"
#include "device/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns whether to leave out lavapipe, which takes minutes where others take seconds, unless ZL_DEVICE
// names it or the run is long.
static bool is_left_out(const struct device *d) {
    const char *chosen = getenv("ZL_DEVICE");
    return !strcmp(d->name, "vulkan") && !test_long() && vulkan_open(NULL) && vulkan_is_host(0) &&
           !(chosen && !strcmp(chosen, "vulkan"));
}

void on_devices(void (*check)(void)) {
    static char reasons[512];
    int found = 0;
    reasons[0] = 0;
    for (int i = 0; i < device_count(); i++) {
        const char *reason = NULL;
        if (!device_at(i)->alloc || is_left_out(device_at(i)))
            continue;
        if (!device_units(i, &reason)) {
            snprintf(reasons + strlen(reasons), sizeof reasons - strlen(reasons), "%s%s: %s",
                     *reasons ? "; " : "", device_at(i)->name, reason);
            continue;
        }
        found++;
        zl_stream stream = zl_new_stream(device_at(i)->name);
        zl_scope scope = zl_scope_begin_on(stream);
        check();
        zl_scope_end(scope);
    }
    if (!found)
        SKIP(reasons);
}

const char *test_lacks_opencl(void) {
    const char *reason = NULL;
    return opencl_open(&reason) ? NULL : reason;
}

const char *test_lacks_vulkan(void) {
    const char *reason = NULL;
    return vulkan_open(&reason) ? NULL : reason;
}

static zl_array on_cpu(zl_array (*f)(void *data), void *data) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    zl_array y = zl_retain(f(data));
    CHECK(zl_eval(y));
    zl_scope_end(scope);
    return y;
}

static bool same_number(const void *a, const void *b, zl_dtype dtype, double bound) {
    double x, y;
    if (!memcmp(a, b, zl_dtype_size(dtype)))
        return true;
    if (dtype == ZL_COMPLEX64)
        return same_number(a, b, ZL_FLOAT32, bound) &&
               same_number((const char *)a + 4, (const char *)b + 4, ZL_FLOAT32, bound);
    if (!dtype_is_float(dtype))
        return false;
    dtype_convert(&x, ZL_FLOAT64, a, dtype, 1);
    dtype_convert(&y, ZL_FLOAT64, b, dtype, 1);
    return (isnan(x) && isnan(y)) || fabs(x - y) <= bound * fmax(1, fabs(y));
}

bool agree(const char *what, zl_array (*f)(void *data), void *data, double bound) {
    zl_array want = on_cpu(f, data), got = zl_retain(f(data));
    bool ok = CHECK(want && got && zl_eval(got) && zl_dtype_of(got) == zl_dtype_of(want) &&
                    got->size == want->size);
    zl_array a = ok ? zl_retain(zl_contiguous(got, false)) : NULL,
             b = ok ? zl_retain(zl_contiguous(want, false)) : NULL;
    const char *p = zl_data(a), *q = zl_data(b);
    size_t item = ok ? array_item(got) : 0;
    for (int64_t i = 0; ok && p && q && i < got->size; i++)
        if (!same_number(p + (size_t)i * item, q + (size_t)i * item, zl_dtype_of(got), bound)) {
            double x, y;
            dtype_convert(&x, ZL_FLOAT64, p + (size_t)i * item, zl_dtype_of(got), 1);
            dtype_convert(&y, ZL_FLOAT64, q + (size_t)i * item, zl_dtype_of(got), 1);
            ok = CHECK(!"the device and the CPU agree");
            test_note("element %lld is %.9g, not %.9g", (long long)i, x, y);
        }
    if (!ok)
        test_note("%s of %s on %s: %s", what, want ? zl_dtype_name(zl_dtype_of(want)) : "?",
                  zl_default_stream()->device->name, zl_error() ? zl_error() : "no error");
    zl_release(a);
    zl_release(b);
    zl_release(want);
    zl_release(got);
    return ok;
}

zl_array values(zl_shape shape, zl_dtype dtype, uint64_t seed) {
    static float data[1 << 16];
    int64_t size;
    shape_size(shape.ndim, shape.dim, &size);
    if (!CHECK(size <= (int64_t)COUNT(data)))
        return NULL;
    for (int64_t i = 0; i < size; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)((double)(seed >> 40) / (1 << 24) * 6 - 2);
    }
    return zl_astype(zl_from_f32(data, shape), dtype);
}
