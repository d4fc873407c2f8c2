// main.c - finds the command in the table, sets the log level, and runs the command.

#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "zellige.h"

// Without -v and -q the environment variable ZL_LOG sets the level.
static void set_log_level(int verbosity) {
    if (verbosity)
        zl_set_log_level(verbosity < 0 ? ZL_LOG_ERROR : verbosity == 1 ? ZL_LOG_INFO : ZL_LOG_DEBUG);
}

static const struct command *find(const char *name) {
    for (int i = 0; cli_command(i); i++)
        if (!strcmp(cli_command(i)->name, name))
            return cli_command(i);
    return NULL;
}

static int run(struct invocation *call) {
    if (call->help) // for a command, or for a group: `zellige kernel --help`
        return cli_print_help(call, call->command ? call->command->name : call->operands[0]);
    if (call->version)
        call->command = find("version");
    if (!call->command) {
        cli_print_help(call, NULL);
        return CLI_USAGE;
    }
    if (call->operand_count > call->command->operands_most)
        return cli_usage(call, "one argument too many: '%s'", call->operands[call->command->operands_most]);
    set_log_level(call->verbosity);
    return call->command->run(call);
}

int main(int argc, char **argv) {
    struct invocation call = {0};
    int code = cli_parse(argc, argv, &call);
    if (code == CLI_OK)
        code = run(&call);
    cli_parse_free(&call);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("zellige: standard output");
        return code ? code : CLI_FAILED;
    }
    return code;
}
