// kernels_flash.h - attention by matrix instructions (src/kernel/flash.tile, flash_vjp.tile and
// attention_few.tile): which calls fit, and their kernels.

#ifndef KERNELS_FLASH_H
#define KERNELS_FLASH_H

#include "device/kernels/kernels.h"
#include "op/ops.h"

struct flash { // a kernel's key
    char name[8]; // sets its key apart from those of other kernels
    int32_t dtype, backward, size, width, shares, causal, keeps;
    // of the forward pass: keys per iteration; threads per block; blocks per multiprocessor
    int32_t step, threads, blocks;
    double scale;
};

// Returns the key of the kernel for a call. joined: subgroups multiply together (struct target_group).
struct flash flash_of(const struct attention *a, bool backward, bool joined);
// Returns the bytes of shared memory that a workgroup of the kernel has at most.
int64_t flash_shared(const struct flash *f, const struct target *unit);
// Makes the kernel of a struct flash, as a kernel_maker, or returns NULL and an error.
struct tile_kernel *flash_make(const void *f);

// Returns whether the kernels compute the call on this unit: f16 or bf16, head sizes that are multiples of
// 16, neither mask nor sinks.
bool flash_fits(const struct kernel_place *p, const struct attention *a, bool backward);
// Enqueues the forward pass of a call that fits. Returns false, with an error, if that fails.
bool flash_attend(const struct kernel_place *p, const struct call *c, const struct attention *a);
// Enqueues the cotangents of a call that fits. Returns false, with an error, if that fails.
bool flash_attend_vjp(const struct kernel_place *p, const struct call *c, const struct attention *a);

// Returns whether the unit's matrix instructions compute the call split over keys (kernels_attention_few.c).
// The rows of a block are the queries of all heads that share keys: at most 16, or 64 in f16 or bf16 if each
// head has at most 16 queries.
bool kernel_attention_few_fits(const struct target *unit, const struct attention *a);
// Enqueues a call that fits. Returns false, with an error, if that fails.
bool kernel_attention_few(const struct kernel_place *p, const struct call *c, const struct attention *a);

#endif
