// version_command.c - `zellige version`: prints the version of the library, and with -v also that of the
// headers at compile time.

#include "cli.h"

#include <stdio.h>

#include "zellige.h"

static int run(const struct invocation *call) {
    char header[32];
    snprintf(header, sizeof header, "%d.%d.%d", ZL_VERSION_MAJOR, ZL_VERSION_MINOR, ZL_VERSION_PATCH);
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("version", zl_version());
        cli_json_text("headers", header);
        cli_json_close();
        return CLI_OK;
    }
    printf("zellige %s\n", zl_version());
    if (call->verbosity > 0)
        printf("headers %s\n", header);
    return CLI_OK;
}

const struct command cli_version = {
    .name = "version",
    .summary = "The version of the library",
    .run = run,
};
