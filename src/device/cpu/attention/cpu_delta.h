// cpu_delta.h - what the delta rule and its gradient share on the CPU.

#ifndef CPU_DELTA_H
#define CPU_DELTA_H

#include "device/cpu/cpu.h"

// Returns whether the offsets of so many sequences ascend from 0 to the last token, as an op needs that may
// have been read from a file. Returns false, with an error, if they do not.
bool cpu_delta_offsets_ascend(const int32_t *offset, int64_t sequences, int64_t time);

#endif
