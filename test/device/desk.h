// desk.h - a device of the tests that runs tile kernels on the host, with memory of its own, as the
// interpreter or the target `c` has them. Ops whose kernels are tile IR run there, others on the CPU:
// `build/test --on interpreter op/` gives the tests of ops to it, with their references.
//
// There are many kernels of elements: where ZL_TEST_MAPS is 0, elementwise ops, conversions and copies run on
// the CPU.
//
// Each kernel that an op asks for is also verified, printed and read back, and rendered for all targets.
// Where ZL_TEST_KERNELS names a file, the names of the files that kernels are from are appended to it.

#ifndef DESK_H
#define DESK_H

#include "device/kernels/kernels.h"

zl_stream desk_stream(const char *how); // "interpreter" or "c"; NULL: neither
// Where kernels run that no op asks for there: as above, or on "opencl", whose driver copies arguments from
// the host and back.
struct kernel_place desk_place(const char *how);

#endif
