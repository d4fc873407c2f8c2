// desk.h - a device for tests that runs tile kernels on the host, in memory of its own, by the interpreter or
// the target `c`. Ops whose kernels are tile IR run there, others on the CPU: `build/test --on interpreter
// op/` runs the tests of ops on it, with their references.
//
// There are many kernels of elements: if ZL_TEST_MAPS is 0, elementwise ops, conversions and copies run on
// the CPU.
//
// Each kernel that an op uses is also verified, printed and read back, and rendered for all targets. If
// ZL_TEST_KERNELS names a file, the names of the files that the kernels come from are appended to it.

#ifndef DESK_H
#define DESK_H

#include "device/kernels/kernels.h"

zl_stream desk_stream(const char *how); // "interpreter" or "c"; NULL for another name
// Returns a place to run kernels that no op uses there: as above, or on "opencl", whose driver copies
// arguments from the host and back.
struct kernel_place desk_place(const char *how);

#endif
