// bm1690_code.h - device C of the BM1690, compiled for the emulator.

#ifndef BM1690_CODE_H
#define BM1690_CODE_H

#include "bm1690/bm1690.h"
#include "zellige_tile.h"

// Compiles device C, as it is, with the system's C compiler against our headers, and loads it. What was
// compiled before, by any process, is found in the kernel cache. NULL after an error, which has the
// compiler's message.
struct bm1690_module *device_bm1690_load(const char *device_c);

// What a launch did, in the words of the public API. A trace goes over to it.
void device_bm1690_report(zl_device_c_report *out, struct bm1690_report *report);

#endif
