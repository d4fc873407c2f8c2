// instructions.h - multiply-adds of this CPU in loops that do nothing else: how fast each instruction can be. `zellige
// bench` measures peaks with it, and so do the programs of bench/.

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
};
extern const struct bench_instruction bench_instructions[]; // the last has no name

const struct bench_instruction *bench_instruction_find(const char *name); // NULL: not on this architecture

// A chain of dependent instructions that takes BENCH_CHAIN_CYCLES a loop, whatever else the core could do besides.
enum { BENCH_CHAIN_CYCLES = 48 };
void bench_chain(int64_t loops);

#endif
