// main.c - finds the command in the table, sets how much is logged, runs it.

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

// ZL_LOG decides unless -v or -q is given.
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
    if (call->help) // of the command, or of a group: `zellige kernel --help`
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
