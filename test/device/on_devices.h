// on_devices.h - a call on every device that runs kernels, against the CPU.

#ifndef ON_DEVICES_H
#define ON_DEVICES_H

#include "test.h"

#include "op/ops.h"
#include "schedule/schedule.h"

#include <math.h>

// Runs check for each such device; a test is skipped with the reason where there is none. Vulkan on a CPU is
// one of them if ZL_DEVICE names it, or with --long.
void on_devices(void (*check)(void));
const char *test_lacks_opencl(void); // why there is no OpenCL device here; NULL: there is one
const char *test_lacks_vulkan(void); // the same of Vulkan
// f on the device and on the CPU. Bound 0: the same bits, but one NaN is as good as another.
bool agree(const char *what, zl_array (*f)(void *data), void *data, double bound);
// Numbers from -2 to 4; of more than 16384 elements the rest are old ones.
zl_array values(zl_shape shape, zl_dtype dtype, uint64_t seed);

#endif
