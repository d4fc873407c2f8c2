// zellige_ahead.h - compiling ahead of time, for TPUs that this machine need not have: what Google's compiler
// makes of arrays that are not evaluated.

#ifndef ZELLIGE_AHEAD_H
#define ZELLIGE_AHEAD_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// A compiler for a topology of chips: "v6e:1x1", "v5e:2x2", "tpu7x:1x1x1". It belongs to the PJRT plugin that
// ZL_PJRT names, or to libtpu among Python's packages, and needs no chip.
typedef struct zl_ahead_ zl_ahead;
// Returns a compiler, to be closed with zl_ahead_close, or NULL and an error. On a machine without a TPU this
// sets TPU_SKIP_MDS_QUERY=1 in the environment of the process, unless the variable is set: it keeps libtpu
// from waiting for Google's metadata server. Call it before other threads read the environment.
ZL_API zl_ahead *zl_ahead_open(const char *topology);
// Closes a compiler. NULL is allowed.
ZL_API void      zl_ahead_close(zl_ahead *a);

// A compiled program. Cycles, seconds, flops and bytes are the compiler's estimates, 0 where it has none.
typedef struct {
    char *program;   // StableHLO, as it was compiled
    char *optimized; // the program after the compiler's passes, in lines like those of HLO
    int64_t code_bytes, argument_bytes, result_bytes, temporary_bytes; // in the chip's memory
    double cycles;   // of one core; the body of a loop is counted once
    double seconds;  // at least, by the chip's peaks alone
    double flops, bytes;
} zl_ahead_program;

// Compiles all calls that compute the arrays, which are not evaluated, as one program. Returns false, with
// an error, if that fails; the error names an op that TPUs leave to the CPU. *out is freed with
// zl_ahead_program_free in either case.
ZL_API bool zl_ahead_compile(zl_ahead *a, int count, const zl_array *outputs, zl_ahead_program *out);
// Frees the texts of a program.
ZL_API void zl_ahead_program_free(zl_ahead_program *p);

// Records a small call of the index-th op on evaluated zeros of a dtype, as zl_device_support does, and
// sets *op to the op's name, or to NULL past the last. Returns the call's result, or NULL without an error
// if the op does not take the dtype or is a kernel that only a program brings.
ZL_API zl_array zl_op_sample(int index, zl_dtype dtype, const char **op);

#ifdef __cplusplus
}
#endif

#endif
