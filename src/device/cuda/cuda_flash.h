// cuda_flash.h - tile kernels of attention of half floats, forward and backward. Between the files cuda_flash*.c only.

#ifndef CUDA_FLASH_H
#define CUDA_FLASH_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

enum { FLASH_SYMBOLS = 4, FLASH_BUFFERS = 8, FLASH_PARTS = 8 };
enum { FLASH_B, FLASH_N, FLASH_T, FLASH_D }; // axes of q: batch, heads, queries, size of a head

// What a kernel's text depends on.
struct flash_key {
    double scale;
    int32_t dtype, size, width, causal, keeps;
    char name[8];          // no other kernel has such a key
    int32_t shared;        // heads of queries to one of keys: a constant, as copies would divide by a symbol in every turn
    int32_t threads, step; // of a block; of a turn: keys, or queries
    int32_t blocks;        // that a multiprocessor has room for, by as few registers as that takes; 0: one will do
};

// Parts of a kernel named attention, of inputs Q [H, T, d], K [G, S, d], ...; the rest are NULL. Words in them: %n threads, %k the
// step, %h heads of queries to one of keys, %t the type, %d and %e sizes of heads of keys and of values, %s the scale, %p that of
// exponents of 2, %x the block of 128 queries, of which the last comes first with causal; of a block of keys, whose turns go
// through the heads that share them: %u turns of a head, %q the head of a turn, %b its block of queries.
struct flash_text {
    const char *part[FLASH_PARTS];
};

bool flash_fits(const struct attention *a);
struct flash_key flash_key_of(const struct attention *a, const char *name);

// Buffers of memory are inputs, then outputs. KERNEL_NOT_TAKEN: blocks of the unit have too little memory.
enum kernel_taken flash_run(const struct kernel_place *p, const struct flash_key *k, const struct flash_text *text,
                            const struct attention *a, void *const *memory, int count);
// As tiles and as CUDA C; either may be NULL. False and an error.
bool flash_source(const struct flash_key *k, const struct flash_text *text, struct text *tiles, struct text *source);

// cuda_flash_vjp.c: a kernel of the backward pass, of which it chooses threads and step.
struct flash_text flash_vjp_text(struct flash_key *k, enum cuda_flash_kind kind);

#endif
