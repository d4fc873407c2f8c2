// help.c - `zellige help`: prints the overview, the page of a command, the commands of a group, or the
// environment variables, all from tables.

#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "zellige.h"

static const char *text_of(const char *text) {
    return text ? text : "";
}

// As text ---------------------------------------------------------------------------------------------------

static void print_options(const struct option *options) {
    for (int i = 0; options && options[i].name; i++) {
        char left[64];
        int len = options[i].letter ? snprintf(left, sizeof left, "-%c, ", options[i].letter) : 0;
        snprintf(left + len, sizeof left - (size_t)len, "--%s%s%s", options[i].name,
                 options[i].value ? " " : "", text_of(options[i].value));
        printf("  %-22s %s", left, options[i].help);
        const char *also = text_of(options[i].also);
        for (size_t length; (length = strcspn(also, " ")); also += length, also += strspn(also, " "))
            printf(" [--%.*s]", (int)length, also);
        putchar('\n');
    }
}

static void print_commands(const char *group) {
    size_t len = strlen(group);
    for (int i = 0; cli_command(i); i++) {
        const struct command *c = cli_command(i);
        if (!strncmp(c->name, group, len))
            printf("  %s%-14s%s %s\n", cli_bold(), c->name, cli_plain(), c->summary);
    }
}

static void print_overview(void) {
    printf("usage: zellige COMMAND [OPTION...]\n\n");
    print_commands("");
    printf("\nOptions of every command:\n");
    print_options(cli_global_options);
    printf("\nzellige help COMMAND says more; zellige help environment lists the variables that are read.\n");
}

static void print_command(const struct command *c) {
    bool takes_operands = c->operands && c->operands[0];
    printf("usage: zellige %s%s%s%s\n\n", c->name, c->options ? " [OPTION...]" : "",
           takes_operands ? " " : "", takes_operands ? c->operands : "");
    printf("%s.\n", c->summary);
    if (c->details)
        printf("\n%s\n", c->details);
    printf("\nOptions:\n");
    print_options(c->options);
    print_options(cli_global_options);
}

static void print_environment(void) {
    const char *name, *fallback, *doc;
    for (int i = 0; zl_setting(i, &name, &fallback, &doc); i++)
        printf("%s%s%s%s%s%s\n    %s\n", cli_bold(), name, cli_plain(), fallback[0] ? " (" : "", fallback,
               fallback[0] ? ")" : "", doc);
}

// As JSON ---------------------------------------------------------------------------------------------------

static void json_options(const char *key, const struct option *options) {
    cli_json_open(key, '[');
    for (int i = 0; options && options[i].name; i++) {
        cli_json_open(NULL, '{');
        cli_json_text("name", options[i].name);
        cli_json_text("value", options[i].value);
        cli_json_text("help", options[i].help);
        cli_json_text("also", options[i].also);
        cli_json_close();
    }
    cli_json_close();
}

static void json_overview(void) {
    cli_json_open(NULL, '{');
    cli_json_open("commands", '[');
    for (int i = 0; cli_command(i); i++) {
        const struct command *c = cli_command(i);
        cli_json_open(NULL, '{');
        cli_json_text("name", c->name);
        cli_json_text("operands", text_of(c->operands));
        cli_json_text("summary", c->summary);
        json_options("options", c->options);
        cli_json_close();
    }
    cli_json_close();
    json_options("options", cli_global_options);
    cli_json_open("environment", '[');
    const char *name, *fallback, *doc;
    for (int i = 0; zl_setting(i, &name, &fallback, &doc); i++) {
        cli_json_open(NULL, '{');
        cli_json_text("name", name);
        cli_json_text("default", fallback);
        cli_json_text("help", doc);
        cli_json_close();
    }
    cli_json_close();
    cli_json_close();
}

// The command -----------------------------------------------------------------------------------------------

int cli_print_help(const struct invocation *call, const char *topic) {
    if (call->json) {
        json_overview();
        return CLI_OK;
    }
    if (!topic) {
        print_overview();
        return CLI_OK;
    }
    for (int i = 0; cli_command(i); i++)
        if (!strcmp(cli_command(i)->name, topic)) {
            print_command(cli_command(i));
            return CLI_OK;
        }
    if (cli_is_group(topic))
        print_commands(topic);
    else if (!strcmp(topic, "environment"))
        print_environment();
    else
        return cli_usage(call, "no command '%s'", topic);
    return CLI_OK;
}

static int run(const struct invocation *call) {
    if (call->operand_count == 0)
        return cli_print_help(call, NULL);
    char topic[128];
    bool two = call->operand_count == 2;
    snprintf(topic, sizeof topic, "%s%s%s", call->operands[0], two ? " " : "", two ? call->operands[1] : "");
    return cli_print_help(call, topic);
}

const struct command cli_help = {
    .name = "help",
    .operands = "[COMMAND | environment]",
    .words = "environment",
    .summary = "What a command does, or the environment variables that are read",
    .operands_most = 2,
    .run = run,
};
