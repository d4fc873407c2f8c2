// report.c - the table of commands, and how a command says what went wrong.

#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "zellige.h"

#define COMMAND(name) extern const struct command cli_##name;
#include "commands.def"

static const struct command *const commands[] = {
#define COMMAND(name) &cli_##name,
#include "commands.def"
};

const struct command *cli_command(int index) {
    return index < (int)(sizeof commands / sizeof *commands) ? commands[index] : NULL;
}

const char *cli_option(const struct invocation *call, const char *name) {
    const struct option *options = call->command->options;
    for (int i = 0; options && options[i].name; i++)
        if (!strcmp(options[i].name, name))
            return call->values[i];
    return NULL;
}

static int report(const struct invocation *call, int code, const char *format, va_list list) {
    const char *command = call->command ? call->command->name : NULL;
    char text[2048];
    vsnprintf(text, sizeof text, format, list);
    if (call->json) {
        cli_json_open(NULL, '{');
        cli_json_text("error", text);
        cli_json_close();
        return code;
    }
    fprintf(stderr, "zellige%s%s: %s\n", command ? " " : "", command ? command : "", text);
    if (code == CLI_USAGE)
        fprintf(stderr, "See: zellige help%s%s\n", command ? " " : "", command ? command : "");
    return code;
}

int cli_fail(const struct invocation *call, const char *format, ...) {
    va_list list;
    va_start(list, format);
    report(call, CLI_FAILED, format, list);
    va_end(list);
    return CLI_FAILED;
}

int cli_usage(const struct invocation *call, const char *format, ...) {
    va_list list;
    va_start(list, format);
    report(call, CLI_USAGE, format, list);
    va_end(list);
    return CLI_USAGE;
}

int cli_library_failed(const struct invocation *call) {
    return cli_fail(call, "%s", zl_error() ? zl_error() : "failed without saying why");
}
