// on_devices.h - runs a call on every device that runs kernels, and compares it with the CPU.

#ifndef ON_DEVICES_H
#define ON_DEVICES_H

#include "test.h"

#include "op/ops.h"
#include "schedule/schedule.h"

#include <math.h>

// Calls `check` with each such device as the default; skips the test, with the reason, if there is none.
// Vulkan on a CPU only counts if ZL_DEVICE names it, or with --long.
void on_devices(void (*check)(void));
const char *test_lacks_opencl(void); // returns why there is no OpenCL device; NULL: there is one
const char *test_lacks_vulkan(void); // the same for Vulkan
// Compares f on the device with f on the CPU. Bound 0 means the same bits, except that all NaNs are equal.
bool agree(const char *what, zl_array (*f)(void *data), void *data, double bound);
// Returns numbers from -2 to 4; after 16384 elements they repeat.
zl_array values(zl_shape shape, zl_dtype dtype, uint64_t seed);

#endif
