// completion.c - `zellige completion SHELL`: prints a script that makes a shell complete this program's
// commands, generated from the table of commands. Values are plain words, so they need no quotes.

#include "cli.h"

#include <stdio.h>
#include <string.h>

static bool is_file_pattern(const char *words) {
    return words && strchr(words, '*');
}

static void put_option_words(const struct option *options) {
    for (int i = 0; options && options[i].name; i++)
        printf(" --%s", options[i].name);
}

static void put_first_words(void) {
    char word[64];
    for (int i = 0; cli_first_word(i, word, sizeof word); i++)
        printf("%s%s", i ? " " : "", word);
}

static void put_second_words(const char *group) {
    size_t len = strlen(group);
    const char *gap = "";
    for (int i = 0; cli_command(i); i++) {
        const char *name = cli_command(i)->name;
        if (!strncmp(name, group, len) && name[len] == ' ') {
            printf("%s%s", gap, name + len + 1);
            gap = " ";
        }
    }
}

// bash ------------------------------------------------------------------------------------------------------

static void bash_command(const struct command *c) {
    printf("    '%s')\n        case $previous in\n", c->name);
    for (int i = 0; c->options && c->options[i].name; i++)
        if (c->options[i].value)
            printf("        --%s) words='%s' ;;\n", c->options[i].name,
                   c->options[i].words ? c->options[i].words : "");
    printf("        *) words='");
    if (c->words && !is_file_pattern(c->words))
        printf("%s", c->words);
    put_option_words(c->options);
    put_option_words(cli_global_options);
    printf("'%s ;;\n        esac ;;\n", is_file_pattern(c->words) ? " files=1" : "");
}

static void bash(void) {
    printf("# bash completion of zellige, made by `zellige completion bash`.\n"
           "_zellige() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' "
           "words='' files=''\n"
           "    local i word\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        word=${COMP_WORDS[i]}\n"
           "        [[ $word == -* ]] && continue\n"
           "        if [[ -z $command ]]; then command=$word; continue; fi\n"
           "        case $command in\n");
    char group[64];
    for (int i = 0; cli_first_word(i, group, sizeof group); i++)
        if (cli_is_group(group))
            printf("        %s) command=\"$command $word\" ;;\n", group);
    printf("        esac\n"
           "        break\n"
           "    done\n"
           "    case $command in\n"
           "    '') words='");
    put_first_words();
    put_option_words(cli_global_options);
    printf("' ;;\n");
    for (int i = 0; cli_first_word(i, group, sizeof group); i++)
        if (cli_is_group(group)) {
            printf("    %s) words='", group);
            put_second_words(group);
            printf("' ;;\n");
        }
    for (int i = 0; cli_command(i); i++)
        bash_command(cli_command(i));
    printf("    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "    [[ -z $files ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
           "}\n"
           "complete -F _zellige zellige\n");
}

// zsh -------------------------------------------------------------------------------------------------------

// Writes text in a zsh specification, in which [, ] and : must be escaped.
static void zsh_text(const char *text) {
    for (const char *at = text; *at; at++)
        if (*at == '\'')
            printf("'\\''");
        else
            printf("%s%c", strchr("[]:", *at) ? "\\" : "", *at);
}

static void zsh_option(const struct option *o) {
    printf(" \\\n            '--%s[", o->name);
    zsh_text(o->help);
    printf("]");
    if (o->value)
        printf(":%s:(%s)", o->value, o->words ? o->words : "");
    printf("'");
}

static void zsh_command(const struct command *c) {
    printf("    '%s')\n        _arguments -s", c->name);
    for (int i = 0; c->options && c->options[i].name; i++)
        zsh_option(&c->options[i]);
    for (int i = 0; cli_global_options[i].name; i++)
        zsh_option(&cli_global_options[i]);
    if (is_file_pattern(c->words))
        printf(" \\\n            '*:file:_files'");
    else if (c->words)
        printf(" \\\n            '*:word:(%s)'", c->words);
    printf(" ;;\n");
}

static void zsh(void) {
    char group[64];
    printf("#compdef zellige\n# zsh completion of zellige, made by `zellige completion zsh`.\n"
           "_zellige() {\n"
           "    local command=$words[2]\n"
           "    if ((CURRENT == 2)); then\n"
           "        local -a commands=(");
    put_first_words();
    printf(")\n        _describe command commands\n        return\n    fi\n    case $command in\n    ");
    const char *gap = "";
    for (int i = 0; cli_first_word(i, group, sizeof group); i++)
        if (cli_is_group(group)) {
            printf("%s%s)\n        if ((CURRENT == 3)); then\n            local -a commands=(", gap, group);
            put_second_words(group);
            printf(")\n            _describe command commands\n            return\n        fi\n"
                   "        command=\"$command $words[3]\" ;;\n");
            gap = "    ";
        }
    printf("    esac\n    case $command in\n");
    for (int i = 0; cli_command(i); i++)
        zsh_command(cli_command(i));
    printf("    esac\n}\n_zellige \"$@\"\n");
}

// fish ------------------------------------------------------------------------------------------------------

static void fish_text(const char *text) {
    for (const char *at = text; *at; at++)
        printf("%s%c", strchr("'\\", *at) ? "\\" : "", *at);
}

// Completes an option when the command line so far meets the condition.
static void fish_options(const struct option *options, const char *condition) {
    for (int i = 0; options && options[i].name; i++) {
        printf("complete -c zellige -l %s", options[i].name);
        if (options[i].letter)
            printf(" -s %c", options[i].letter);
        if (options[i].value)
            printf(" -x -a '%s'", options[i].words ? options[i].words : "");
        if (condition[0])
            printf(" -n '%s'", condition);
        printf(" -d '");
        fish_text(options[i].help);
        printf("'\n");
    }
}

static void fish_command(const struct command *c) {
    const char *second = strchr(c->name, ' ');
    char condition[160], first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(c->name, " "), c->name);
    printf("complete -c zellige -n __fish_use_subcommand -a %s -d '", first);
    fish_text(c->summary);
    printf("'\n");
    if (second) {
        printf("complete -c zellige -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ",
               first);
        put_second_words(first);
        printf("' -a %s -d '", second + 1);
        fish_text(c->summary);
        printf("'\n");
    }
    snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s%s%s", first,
             second ? "; and __fish_seen_subcommand_from " : "", second ? second + 1 : "");
    fish_options(c->options, condition);
    if (is_file_pattern(c->words))
        printf("complete -c zellige -n '%s' -F\n", condition);
    else if (c->words)
        printf("complete -c zellige -n '%s' -a '%s'\n", condition, c->words);
}

static void fish(void) {
    printf("# fish completion of zellige, made by `zellige completion fish`.\ncomplete -c zellige -f\n");
    fish_options(cli_global_options, "");
    for (int i = 0; cli_command(i); i++)
        fish_command(cli_command(i));
}

// The command -----------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*write)(void);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

static int run(const struct invocation *call) {
    for (size_t i = 0; call->operand_count && i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, call->operands[0])) {
            shells[i].write();
            return CLI_OK;
        }
    return cli_usage(call, "needs a shell: bash, zsh or fish");
}

const struct command cli_completion = {
    .name = "completion",
    .operands = "bash | zsh | fish",
    .words = "bash zsh fish",
    .summary = "The script by which a shell completes this program's commands",
    .operands_most = 1,
    .run = run,
};
