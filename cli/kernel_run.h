// kernel_run.h - functions that the commands for tile kernels share.

#ifndef KERNEL_RUN_H
#define KERNEL_RUN_H

#include "cli.h"

#include "zellige.h"
#include "zellige_tile.h"

enum { CLI_DIMS = 8, CLI_PARAMETERS = 64, CLI_SIZES = 64 };

#define CLI_TARGET_OPTION                                                    \
    {                                                                        \
        "target", 0, "NAME", "auto c opencl vulkan cuda hip bm1690",         \
            "what it is compiled for (default auto: for the default device)" \
    }

#define CLI_PARAM_OPTION                                                          \
    {                                                                             \
        "param", 0, "NAME=VALUE,...", NULL,                                       \
            "values of its params, types and ops: BM=64,ITEM=f16,COMBINE=maximum" \
    }

// A compiled kernel with its arguments: random numbers that are the same in each run.
struct run {
    zl_kernel kernel;
    int64_t size[CLI_SIZES];
    int count;
    zl_kernel_parameter parameter[CLI_PARAMETERS];
    zl_array array[CLI_PARAMETERS];
    int64_t dim[CLI_PARAMETERS][CLI_DIMS];
    zl_kernel_buffer buffer[CLI_PARAMETERS];
};

// Returns the seconds of a monotonic clock.
double cli_now(void);
// Returns the target that --target names. Without it, or with `auto`, it is the target of the default device,
// whose driver is then opened.
const char *cli_target(const struct invocation *call);
// Fills size[CLI_SIZES] with the kernel's sizes from --size. Returns false, after a message, if one is
// missing or the kernel has none of that name.
bool cli_run_sizes(const struct invocation *call, zl_kernel k, int64_t *size);
// Creates arguments for r->kernel and r->size on the CPU. Returns false, with an error, if that fails.
bool cli_run_arguments(struct run *r);
// Releases the arguments and the kernel.
void cli_run_end(struct run *r);
// Returns the seconds of the fastest run, without copies of arguments. It runs the kernel for about `within`
// seconds, and at least 3 times. Returns -1, with an error, if a run fails. Sets *runs to the number of runs.
double cli_run_best(struct run *r, double within, int *runs);

#endif
