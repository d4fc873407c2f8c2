// instructions.h - multiply-adds of this CPU in loops that do nothing else: how fast each instruction can be.
// `zellige bench` measures peaks with it, and so do the programs of bench/.

#ifndef INSTRUCTIONS_H
#define INSTRUCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "zellige.h"

struct bench_instruction {
    const char *name;              // "bfmmla"
    zl_dtype dtype;
    double operations;             // of one loop
    bool (*is_here)(void);         // whether this CPU has it, and the system allows it
    void (*repeat)(int64_t loops);
    // settings of ZL_ISA that leave it to the library; NULL: it needs more than a level
    const char *levels;
};
extern const struct bench_instruction bench_instructions[]; // the last has no name

// Returns what products of matrices of a dtype are measured by: the fastest instruction for them that the
// library may use on this CPU, under ZL_ISA too; NULL: none. f16 and, where nothing multiplies it, bf16 are
// summed as f32.
const struct bench_instruction *bench_instruction_of_products(zl_dtype dtype);

enum { BENCH_CHAIN_CYCLES = 48 };
// Runs a chain of dependent instructions that takes BENCH_CHAIN_CYCLES per loop, whatever else the core could
// do at the same time.
void bench_chain(int64_t loops);

#endif
