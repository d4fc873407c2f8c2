// kernels_flash.h - attention by matrix instructions (src/kernel/flash.tile, flash_vjp.tile and
// attention_few.tile): which calls fit, and their kernels.

#ifndef KERNELS_FLASH_H
#define KERNELS_FLASH_H

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct flash { // a kernel's key
    char name[8]; // no other kernel has such a key
    int32_t dtype, backward, size, width, shares, causal, keeps;
    // of the forward pass: keys of a turn; threads of a block; blocks of a multiprocessor
    int32_t step, threads, blocks;
    double scale;
};

// The kernel for a call. joined: subgroups multiply together (struct target_group).
struct flash flash_of(const struct attention *a, bool backward, bool joined);
int64_t flash_shared(const struct flash *f, const struct target *unit); // bytes that its blocks have at most
struct tile_kernel *flash_make(const void *f); // as of kernel_maker

// Whether the kernels compute the call on this unit: of f16 or bf16, heads of a multiple of 16 elements,
// without mask and sinks.
bool flash_fits(const struct kernel_place *p, const struct attention *a, bool backward);
// false and an error
bool flash_attend(const struct kernel_place *p, const struct call *c, const struct attention *a);
// false and an error
bool flash_attend_vjp(const struct kernel_place *p, const struct call *c, const struct attention *a);

// kernels_attention_few.c: whether a unit's matrix instructions compute the call split over keys: 16 lines at
// most, of all queries of heads that share keys, or 64 of f16 or bf16 that are of 16 queries at most. False
// and an error.
bool kernel_attention_few_fits(const struct target *unit, const struct attention *a);
bool kernel_attention_few(const struct kernel_place *p, const struct call *c, const struct attention *a);

#endif
