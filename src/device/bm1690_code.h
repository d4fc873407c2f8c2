// bm1690_code.h - device C of the BM1690, compiled for the emulator.

#ifndef BM1690_CODE_H
#define BM1690_CODE_H

#include "bm1690/bm1690.h"

// Compiles device C, as it is, with the system's C compiler against our headers, and loads it. What was compiled before, by any
// process, is found in the kernel cache. NULL after an error, which has the compiler's message.
struct bm1690_module *device_bm1690_load(const char *device_c);

#endif
