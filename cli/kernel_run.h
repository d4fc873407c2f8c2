// kernel_run.h - what the commands that run tile kernels share.

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

// A compiled kernel with arguments: random numbers, the same at each run.
struct run {
    zl_kernel kernel;
    int64_t size[CLI_SIZES];
    int count;
    zl_kernel_parameter parameter[CLI_PARAMETERS];
    zl_array array[CLI_PARAMETERS];
    int64_t dim[CLI_PARAMETERS][CLI_DIMS];
    zl_kernel_buffer buffer[CLI_PARAMETERS];
};

double cli_now(void); // seconds
// The target that --target names; without it, or with `auto`, that of the default device, whose driver is
// opened.
const char *cli_target(const struct invocation *call);
// Sizes of --size for a kernel that was read; makes arguments for them. False after a message.
bool cli_run_sizes(const struct invocation *call, zl_kernel k, int64_t *size);
bool cli_run_arguments(struct run *r); // false: zl_error() says why
void cli_run_end(struct run *r);
// Seconds of the best run within about so many seconds, 3 runs at least, without copies of arguments; -1: it
// failed.
double cli_run_best(struct run *r, double within, int *runs);

#endif
