// bm1690_code.h - device C of the BM1690, compiled for the emulator.

#ifndef BM1690_CODE_H
#define BM1690_CODE_H

#include "bm1690/bm1690.h"
#include "zellige_tile.h"

// Compiles device C, as it is, with the system's C compiler against our headers, and loads it. What was
// compiled before, by any process, is found in the kernel cache. Returns NULL, with an error that has the
// compiler's message, if that fails. The caller frees it with bm1690_module_close.
struct bm1690_module *device_bm1690_load(const char *device_c);

// Converts the report of a launch to the struct of the public API, which takes over the trace.
void device_bm1690_report(zl_device_c_report *out, struct bm1690_report *report);

#endif
