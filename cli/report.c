// report.c - the table of commands, and functions by which a command reports errors.

#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

const char *cli_option_at(const struct invocation *call, const char *name, int index) {
    for (int i = 0; i < call->given_count; i++)
        if (!strcmp(call->given[i].name, name) && index-- == 0)
            return call->given[i].value;
    return NULL;
}

const char *cli_option(const struct invocation *call, const char *name) {
    const struct option *options = call->command->options;
    for (int i = 0; options && options[i].name; i++)
        if (!strcmp(options[i].name, name))
            return call->values[i];
    return NULL;
}

bool cli_number(const struct invocation *call, const char *name, double least, double most, double *out) {
    const char *text = cli_option(call, name);
    char *end, range[64] = "";
    double value = text ? strtod(text, &end) : 0;
    if (!text)
        return true;
    if (end != text && !*end && value >= least && value <= most) {
        *out = value;
        return true;
    }
    snprintf(range, sizeof range, isinf(most) ? "%.15g or more" : "from %.15g to %.15g", least, most);
    cli_usage(call, "--%s %s: wanted a number, %s", name, text, range);
    return false;
}

bool cli_integer(const struct invocation *call, const char *name, int64_t least, int64_t most, int64_t *out) {
    const char *text = cli_option(call, name);
    double value = (double)least;
    if (!cli_number(call, name, (double)least, (double)most, &value))
        return false;
    if (text && value != floor(value)) {
        cli_usage(call, "--%s %s: wanted a whole number", name, text);
        return false;
    }
    if (text)
        *out = (int64_t)value;
    return true;
}

static int report(const struct invocation *call, int code, const char *format, va_list list) {
    const char *command = call->command ? call->command->name : NULL;
    char text[2048];
    vsnprintf(text, sizeof text, format, list);
    cli_clean(text, true); // it may contain parts of files and names of files
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
