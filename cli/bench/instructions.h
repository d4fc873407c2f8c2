// instructions.h - loops of this CPU's multiply-add instructions, to measure the highest rate of each.
// `zellige bench` and the programs of bench/ measure peaks with them.

#ifndef INSTRUCTIONS_H
#define INSTRUCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "zellige.h"

struct bench_instruction {
    const char *name;              // "bfmmla"
    zl_dtype dtype;
    double operations;             // operations per loop
    bool (*is_here)(void);         // returns whether this CPU has it, and the system allows it
    void (*repeat)(int64_t loops);
    // settings of ZL_ISA that allow the library to use it; NULL: it needs more than a level
    const char *levels;
};
extern const struct bench_instruction bench_instructions[]; // ends with an instruction without a name

// Returns the instruction by which products of matrices of a dtype are judged: the fastest one for them that
// the library may use on this CPU, under ZL_ISA too; NULL if there is none. f16, and without instructions for
// it bf16, are accumulated in f32.
const struct bench_instruction *bench_instruction_of_products(zl_dtype dtype);

enum { BENCH_CHAIN_CYCLES = 48 };
// Runs a chain of dependent instructions, which takes BENCH_CHAIN_CYCLES per loop independently of the core's
// width.
void bench_chain(int64_t loops);

#endif
