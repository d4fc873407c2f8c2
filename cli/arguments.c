// arguments.c - parses the command line into an invocation: the words of the command first, options anywhere
// after them. For an unknown word it suggests the nearest known one.

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option cli_global_options[] = {
    {"json", 0, NULL, NULL, "print JSON"},           {"verbose", 'v', NULL, NULL, "say more; twice: all"},
    {"quiet", 'q', NULL, NULL, "say less"},          {"help", 'h', NULL, NULL, "print help"},
    {"version", 0, NULL, NULL, "print the version"}, {0},
};

// First words -----------------------------------------------------------------------------------------------

static bool starts_with_word(const char *name, const char *word) {
    size_t len = strlen(word);
    return !strncmp(name, word, len) && (name[len] == 0 || name[len] == ' ');
}

const char *cli_first_word(int index, char *out, int bytes) {
    for (int i = 0; cli_command(i); i++) {
        snprintf(out, (size_t)bytes, "%.*s", (int)strcspn(cli_command(i)->name, " "), cli_command(i)->name);
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen = seen || starts_with_word(cli_command(j)->name, out);
        if (!seen && index-- == 0)
            return out;
    }
    return NULL;
}

bool cli_is_group(const char *word) {
    for (int i = 0; cli_command(i); i++)
        if (starts_with_word(cli_command(i)->name, word) && strchr(cli_command(i)->name, ' '))
            return true;
    return false;
}

// Suggestions -----------------------------------------------------------------------------------------------

// Returns the edit distance of two words (Levenshtein), of which at most 31 letters count.
static int distance(const char *a, const char *b) {
    int row[32];
    for (int j = 0; j < 32; j++)
        row[j] = j;
    int len = (int)strnlen(b, 31);
    for (int i = 0; a[i] && i < 31; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < len; j++) {
            int best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j + 1] = diagonal + 1 < best ? diagonal + 1 : best;
        }
    }
    return row[len];
}

struct nearest {
    const char *word;
    char name[64];
    int distance;
};

static void consider(struct nearest *nearest, const char *name) {
    int far = distance(nearest->word, name);
    if (far < nearest->distance) {
        nearest->distance = far;
        snprintf(nearest->name, sizeof nearest->name, "%s", name);
    }
}

static struct nearest look_near(const char *word) {
    return (struct nearest){.word = word, .distance = (int)strlen(word) / 3 + 2};
}

static int unknown_command(const struct invocation *call, const char *word) {
    struct nearest nearest = look_near(word);
    char first[64];
    for (int i = 0; cli_first_word(i, first, sizeof first); i++)
        consider(&nearest, first);
    if (nearest.name[0])
        return cli_usage(call, "no command '%s'; did you mean '%s'?", word, nearest.name);
    return cli_usage(call, "no command '%s'", word);
}

static int unknown_second_word(const struct invocation *call, const char *group, const char *word) {
    struct nearest nearest = look_near(word ? word : "");
    char known[256] = "";
    for (int i = 0; cli_command(i); i++) {
        const char *second = strchr(cli_command(i)->name, ' ');
        if (!second || !starts_with_word(cli_command(i)->name, group))
            continue;
        consider(&nearest, second + 1);
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", second + 1);
    }
    if (!word)
        return cli_usage(call, "%s needs one of: %s", group, known);
    if (nearest.name[0])
        return cli_usage(call, "no command '%s %s'; did you mean '%s %s'?", group, word, group, nearest.name);
    return cli_usage(call, "no command '%s %s'; there is: %s", group, word, known);
}

static int unknown_option(const struct invocation *call, const char *arg) {
    struct nearest nearest = look_near(arg + strspn(arg, "-"));
    const struct option *lists[] = {call->command ? call->command->options : NULL, cli_global_options};
    for (int k = 0; k < 2; k++)
        for (int i = 0; lists[k] && lists[k][i].name; i++)
            consider(&nearest, lists[k][i].name);
    if (nearest.name[0])
        return cli_usage(call, "no option '%s'; did you mean '--%s'?", arg, nearest.name);
    return cli_usage(call, "no option '%s'", arg);
}

// Options ---------------------------------------------------------------------------------------------------

static bool is_option(const char *arg) {
    return arg[0] == '-' && arg[1] != 0;
} // "-" alone is standard input

// Returns whether one of `names`, which spaces separate, equals the first `bytes` bytes of `name`.
static bool has_name(const char *names, const char *name, size_t bytes) {
    for (const char *at = names; at && *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == bytes && !strncmp(at, name, bytes))
            return true;
        at += length;
    }
    return false;
}

// Returns the index of the option that arg names, such as --stage or --stage=x; -1 if there is none.
static int find_option(const struct option *options, const char *arg) {
    size_t len = strcspn(arg, "=");
    for (int i = 0; options && options[i].name; i++) {
        bool is_long = !strncmp(arg, "--", 2) && (has_name(options[i].name, arg + 2, len - 2) ||
                                                  has_name(options[i].also, arg + 2, len - 2));
        if (is_long || (options[i].letter && arg[1] == options[i].letter && !arg[2]))
            return i;
    }
    return -1;
}

static void set_global(struct invocation *call, const char *name) {
    call->json = call->json || !strcmp(name, "json");
    call->help = call->help || !strcmp(name, "help");
    call->version = call->version || !strcmp(name, "version");
    call->verbosity += !strcmp(name, "verbose") - !strcmp(name, "quiet");
}

// Accepts a word of several one-letter global options, such as -vv. Returns false, and sets nothing, if one
// of the letters is not such an option.
static bool set_letters(struct invocation *call, const char *arg) {
    if (arg[1] == '-')
        return false;
    for (const char *at = arg + 1; *at; at++)
        if (find_option(cli_global_options, (char[]){'-', *at, 0}) < 0)
            return false;
    for (const char *at = arg + 1; *at; at++)
        set_global(call, cli_global_options[find_option(cli_global_options, (char[]){'-', *at, 0})].name);
    return true;
}

// Takes the option at argv[*at], and the next word if that is its value.
static int take_option(struct invocation *call, int argc, char **argv, int *at) {
    const char *arg = argv[*at];
    const struct option *options = call->command ? call->command->options : NULL;
    const char *equals = strchr(arg, '=');
    int own = find_option(options, arg), global = find_option(cli_global_options, arg);
    if (own < 0 && global < 0)
        return set_letters(call, arg) ? CLI_OK : unknown_option(call, arg);
    const struct option *option = own >= 0 ? &options[own] : &cli_global_options[global];
    if (!option->value && equals)
        return cli_usage(call, "--%s takes no value", option->name);
    if (own < 0) {
        set_global(call, option->name);
        return CLI_OK;
    }
    if (!option->value)
        call->values[own] = "";
    else if (equals)
        call->values[own] = equals + 1;
    else if (*at + 1 < argc)
        call->values[own] = argv[++*at];
    else
        return cli_usage(call, "--%s needs a value: %s", option->name, option->value);
    call->given[call->given_count++] = (struct given){option->name, call->values[own]};
    return CLI_OK;
}

// Commands --------------------------------------------------------------------------------------------------

static const struct command *find_command(const char *first, const char *second) {
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", first, second ? " " : "", second ? second : "");
    for (int i = 0; cli_command(i); i++)
        if (!strcmp(cli_command(i)->name, name))
            return cli_command(i);
    return NULL;
}

static int option_count(const struct option *options) {
    int count = 0;
    while (options && options[count].name)
        count++;
    return count;
}

// Finds the command whose first word is argv[*at], and moves *at to its last word.
static int take_command(struct invocation *call, int argc, char **argv, int *at) {
    const char *first = argv[*at], *second = *at + 1 < argc ? argv[*at + 1] : NULL;
    if (cli_is_group(first)) {
        if (second && is_option(second) && (!strcmp(second, "--help") || !strcmp(second, "-h"))) {
            call->command = NULL;
            call->help = true;
            call->operands[call->operand_count++] = argv[*at];
            *at = argc;
            return CLI_OK;
        }
        call->command = second ? find_command(first, second) : NULL;
        if (!call->command)
            return unknown_second_word(call, first, second);
        ++*at;
    } else {
        call->command = find_command(first, NULL);
        if (!call->command)
            return unknown_command(call, first);
    }
    call->values = calloc((size_t)option_count(call->command->options) + 1, sizeof *call->values);
    return call->values ? CLI_OK : cli_fail(call, "out of memory");
}

int cli_parse(int argc, char **argv, struct invocation *call) {
    call->operands = calloc((size_t)argc + 1, sizeof *call->operands);
    call->given = calloc((size_t)argc + 1, sizeof *call->given);
    if (!call->operands || !call->given)
        return cli_fail(call, "out of memory");
    for (int i = 1; i < argc; i++) // found first, so that errors of parsing are JSON too
        call->json = call->json || !strcmp(argv[i], "--json");
    bool only_operands = false;
    for (int at = 1; at < argc; at++) {
        int code = CLI_OK;
        if (!only_operands && !strcmp(argv[at], "--"))
            only_operands = true;
        else if (!only_operands && is_option(argv[at]))
            code = take_option(call, argc, argv, &at);
        else if (!call->command)
            code = take_command(call, argc, argv, &at);
        else
            call->operands[call->operand_count++] = argv[at];
        only_operands |= call->operand_count && call->command && call->command->takes_program;
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

void cli_parse_free(struct invocation *call) {
    free(call->operands);
    free(call->given);
    free(call->values);
}
