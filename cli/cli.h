// cli.h - the `zellige` program: a table of commands, one file each. It uses nothing but the public headers.
//
// A new command is one file with its `const struct command cli_<name>` and one line in commands.def; parsing,
// help, completion and suggestions follow from the table.

#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_OK, CLI_FAILED, CLI_USAGE }; // exit codes: done, could not be done, wrong usage

struct option {
    const char *name;   // "stage", given as --stage NAME or --stage=NAME
    char letter;        // -v; 0: none
    const char *value;  // what it takes, for the help: "NAME"; NULL: a flag
    const char *words;  // for completion: "c tile"; NULL: anything
    const char *help;
    const char *also;   // what other programs call it, with spaces between: taken, too; NULL: nothing
};

struct invocation {
    const struct command *command;
    const char **values;      // of command->options, in order: "" for a flag that is set, NULL: not given
    struct given {
        const char *name, *value;
    } *given;                 // the same as they came: an option may be given several times
    int given_count;
    char **operands;
    int operand_count;
    bool json, help, version; // --json, --help, --version
    int verbosity;            // -v counts up, -q down
};

struct command {
    const char *name;     // "kernel show": one word, or two
    const char *operands; // for the usage line: "[FILE]"
    const char *words;    // operands for completion: "bash zsh fish", or "*.tile" for files; NULL: none
    const char *summary;  // one line
    const char *details;  // for its help page; NULL: none
    int operands_most;
    bool takes_program;   // the first operand is a program: what follows belongs to it, options too
    const struct option *options; // the last has no name; NULL: none
    int (*run)(const struct invocation *call);
};

// report.c --------------------------------------------------------------------------------------------------

const struct command *cli_command(int index); // NULL past the last
// the last value, if there are several
const char *cli_option(const struct invocation *call, const char *name);
// the index-th value; NULL past the last
const char *cli_option_at(const struct invocation *call, const char *name, int index);
// The value of an option as a number; *out stays as it is where the option is not given. False after a
// message of wrong usage: it is no number, or not from least to most, which may be INFINITY.
bool cli_number(const struct invocation *call, const char *name, double least, double most, double *out);
bool cli_integer(const struct invocation *call, const char *name, int64_t least, int64_t most, int64_t *out);

// Report and return the exit code. With --json an error is an object on standard output.
int cli_fail(const struct invocation *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(const struct invocation *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_library_failed(const struct invocation *call); // what zl_error() says

// arguments.c -----------------------------------------------------------------------------------------------

extern const struct option cli_global_options[]; // the last has no name

// Fills call from the command line; CLI_OK, or CLI_USAGE after a message. call->command is NULL when none was
// named.
int cli_parse(int argc, char **argv, struct invocation *call);
void cli_parse_free(struct invocation *call);

// The index-th first word of commands, each once; NULL past the last.
const char *cli_first_word(int index, char *out, int bytes);
bool cli_is_group(const char *word); // first of two words

// help.c ----------------------------------------------------------------------------------------------------

int cli_print_help(const struct invocation *call, const char *topic); // topic NULL: the overview

// devices.c -------------------------------------------------------------------------------------------------

// Whether a device other than "cpu", such as "opencl", is this machine's CPU through a driver: PoCL offers
// that. What is measured there is no GPU's speed, which cli_remark_cpu then says, in a line after `indent`.
bool cli_is_cpu(const char *device);
void cli_remark_cpu(const char *device, const char *indent);

// kernel_command.c ------------------------------------------------------------------------------------------

// The whole file, or standard input for "-", NUL-terminated; to be freed. NULL, and errno says why, when it
// cannot be read.
char *cli_read_all(const char *path);

// bench/pull_command.c --------------------------------------------------------------------------------------

// Copies the runs of a folder, or of HOST:FOLDER, to the folder `out` and adds them to the history there.
// Returns an exit code, after a message.
int cli_pull_runs(const struct invocation *call, const char *source, const char *out);

// cloud/clusters.c ------------------------------------------------------------------------------------------

enum { CLI_CLUSTER_NAME = 128 };
// Copies the name of the cluster that .cluster_name has, into CLI_CLUSTER_NAME letters. Returns false without
// a message if there is none, or it is no name.
bool cli_kept_cluster(char *out);

// interrupt.c -----------------------------------------------------------------------------------------------

// From now on the first Ctrl-C, or SIGTERM, gives up evaluations and is what cli_interrupted says; a second
// one ends the program.
void cli_catch_interrupts(void);
bool cli_interrupted(void);

// program.c -------------------------------------------------------------------------------------------------

// Runs a program and waits until it ends. Returns its exit code, 128 and the number of the signal that ended
// it, or CLI_NOT_FOUND if it cannot be run. What it prints, errors included, becomes *output, which the
// caller frees (NULL: no memory); where output is NULL it goes where ours goes. Ctrl-C is for the program:
// it does not end this one.
enum { CLI_NOT_FOUND = 127 };
int cli_run_program(const char *const *argv, char **output);
// Writes a word in single quotes, as shells take it for one word.
void cli_put_quoted(FILE *out, const char *word);

enum { CLI_TOKEN_DIGITS = 32 };
// Writes a random token of CLI_TOKEN_DIGITS digits and a NUL. Returns false where the system has none to
// give.
bool cli_make_token(char *out);

// output.c --------------------------------------------------------------------------------------------------

// Makes text that came from elsewhere safe to print, in place: control characters, which terminals may take
// for commands, characters that reverse the order of what follows, and bytes that are not UTF-8 each become
// '?'. Line feeds and tabs stay if lines, and become spaces if not.
void cli_clean(char *text, bool lines);

// Escape sequences when standard output is a terminal and NO_COLOR is not set, else "".
const char *cli_bold(void);
const char *cli_green(void);
const char *cli_dim(void);
const char *cli_plain(void);

// Writes text in double quotes with escapes, as JSON and YAML read it.
void cli_put_string(FILE *out, const char *text);

// JSON, two spaces a level. key is NULL inside arrays and at the top.
void cli_json_to(FILE *out, bool one_line); // where it goes from now on; NULL: standard output, as at first
void cli_json_open(const char *key, char bracket); // '{' or '['
void cli_json_close(void);
void cli_json_text(const char *key, const char *value); // NULL gives null
void cli_json_int(const char *key, int64_t value);
void cli_json_number(const char *key, double value); // null if it is infinite or NaN
void cli_json_bool(const char *key, bool value);

#endif
