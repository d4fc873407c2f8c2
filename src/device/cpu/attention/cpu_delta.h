// cpu_delta.h - what the delta rule and its gradient share on the CPU.

#ifndef CPU_DELTA_H
#define CPU_DELTA_H

#include "device/cpu/cpu.h"

// The instruction sets that both are compiled for.
enum cpu_delta_level { CPU_DELTA_BASE, CPU_DELTA_AVX2, CPU_DELTA_AVX512, CPU_DELTA_LEVELS };
// Returns the one to use at the level of cpu_level().
enum cpu_delta_level cpu_delta_level(void);
// Returns whether the offsets of so many sequences ascend from 0 to `time`, the number of tokens. Returns
// false, with an error, if they do not: a call that was read from a file may have any offsets.
bool cpu_delta_offsets_ascend(const int32_t *offset, int64_t sequences, int64_t time);

#endif
