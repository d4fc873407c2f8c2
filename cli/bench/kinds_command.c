// kinds_command.c - `zellige bench kinds PLUGIN`: prints the kinds of the devices that a PJRT plugin, such as
// libtpu.so, finds. It is a command of its own because a plugin reserves the chip for its process, and may
// end that process; so detection runs it in another one.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int run(const struct invocation *call) {
    if (call->operand_count == 0)
        return cli_usage(call, "needs a plugin: a file such as libtpu.so");
    setenv("ZL_PJRT", call->operands[0], 1); // must be set before the device is opened, which happens once
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++) {
        if (strcmp(info.device, "pjrt"))
            continue;
        if (!info.available)
            return cli_fail(call, "%s", info.reason);
        printf("%s\n", info.model);
    }
    return CLI_OK;
}

const struct command cli_bench_kinds = {
    .name = "bench kinds",
    .operands = "PLUGIN",
    .words = "*.so",
    .summary = "What a PJRT plugin calls its devices, one in a line",
    .details =
        "It takes the chip while it looks. `bench devices` asks the plugin that TPU_LIBRARY_PATH names.",
    .operands_most = 1,
    .run = run,
};
