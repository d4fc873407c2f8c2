// zellige_ahead.h - compiling ahead, for TPUs that are elsewhere: what Google's compiler makes of arrays that
// are not evaluated.

#ifndef ZELLIGE_AHEAD_H
#define ZELLIGE_AHEAD_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// A compiler and the chips that it compiles for: "v6e:1x1", "v5e:2x2", "tpu7x:1x1x1". It is that of the PJRT
// plugin that ZL_PJRT names, or of libtpu among Python's packages, and takes no chip. NULL after an error.
typedef struct zl_ahead_ zl_ahead;
ZL_API zl_ahead *zl_ahead_open(const char *topology);
ZL_API void      zl_ahead_close(zl_ahead *a);

// What the compiler made of a program, and what it expects: cycles, seconds, flops and bytes are its
// estimates, 0 where it has none.
typedef struct {
    char *program;   // StableHLO, as it was compiled
    char *optimized; // what the compiler made of it, in lines like those of HLO
    int64_t code_bytes, argument_bytes, result_bytes, temporary_bytes; // in the chip's memory
    double cycles;   // of one core; what a loop repeats is counted once
    double seconds;  // at least, by the chip's peaks alone
    double flops, bytes;
} zl_ahead_program;

// Compiles all calls behind the arrays, which are not evaluated, as one program. False after an error, which
// names an op that TPUs leave to the CPU. What is filled in is to be freed in any case.
ZL_API bool zl_ahead_compile(zl_ahead *a, int count, const zl_array *outputs, zl_ahead_program *out);
ZL_API void zl_ahead_program_free(zl_ahead_program *p);

// Records a small call of the index-th op, whose name goes to *op, on evaluated zeros of a dtype, as
// zl_device_support asks about it. NULL without an error: the op does not take the dtype, or only programs
// bring it. Past the last *op is NULL.
ZL_API zl_array zl_op_sample(int index, zl_dtype dtype, const char **op);

#ifdef __cplusplus
}
#endif

#endif
