// cli.h - the `zellige` program: a table of commands, one file each. It uses only the public headers.
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
    const char *value;  // name of its value in the help: "NAME"; NULL: a flag, without a value
    const char *words;  // values for completion: "c tile"; NULL: anything
    const char *help;
    const char *also;   // names of the option in other programs, separated by spaces, which are accepted too;
                        // NULL: none
};

struct invocation {
    const struct command *command;
    const char **values;      // in the order of command->options: "" for a flag that is set, NULL: not given
    struct given {
        const char *name, *value;
    } *given;                 // all options in the order in which they were given; one may be given several
                              // times
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
    bool takes_program;   // the first operand is a program, and all words after it, options included, are its
                          // own
    const struct option *options; // ends with an option without a name; NULL: none
    int (*run)(const struct invocation *call);
};

// report.c --------------------------------------------------------------------------------------------------

// Returns the command at this index of the table; NULL past the last.
const struct command *cli_command(int index);
// Returns the value of an option, the last one if it is given several times: "" for a flag. Returns NULL if
// it is not given or the command has no such option.
const char *cli_option(const struct invocation *call, const char *name);
// Returns the index-th value of an option; NULL past the last.
const char *cli_option_at(const struct invocation *call, const char *name, int index);
// Sets *out to the value of an option, and leaves it if the option is not given. Returns false, after a
// message of wrong usage, if the value is no number or not from least to most, which may be INFINITY.
bool cli_number(const struct invocation *call, const char *name, double least, double most, double *out);
// Does the same for whole numbers.
bool cli_integer(const struct invocation *call, const char *name, int64_t least, int64_t most, int64_t *out);

// Reports that the command failed and returns CLI_FAILED. The message goes to standard error; with --json,
// to standard output as an object.
int cli_fail(const struct invocation *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Reports wrong usage, in the same way, and returns CLI_USAGE.
int cli_usage(const struct invocation *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Reports zl_error() as cli_fail does and returns CLI_FAILED.
int cli_library_failed(const struct invocation *call);

// arguments.c -----------------------------------------------------------------------------------------------

extern const struct option cli_global_options[]; // ends with an option without a name

// Fills call, which is zeros before, from the command line, to whose texts it then points. Returns CLI_OK, or
// another exit code after a message. call->command is NULL if no command was named. The caller calls
// cli_parse_free in any case.
int cli_parse(int argc, char **argv, struct invocation *call);
// Frees what cli_parse allocated.
void cli_parse_free(struct invocation *call);

// Copies to `out`, and returns, the index-th of the first words of commands, each of which counts once; NULL
// past the last.
const char *cli_first_word(int index, char *out, int bytes);
// Returns whether the word is the first word of commands with two words.
bool cli_is_group(const char *word);

// help.c ----------------------------------------------------------------------------------------------------

// Prints the help on a topic: a command, the first word of commands, or "environment"; NULL: the overview.
// Returns the exit code, CLI_USAGE after a message if there is no such topic.
int cli_print_help(const struct invocation *call, const char *topic);

// devices.c -------------------------------------------------------------------------------------------------

// Returns whether a device other than "cpu", such as "opencl", is this machine's CPU through a driver: PoCL
// offers that.
bool cli_is_cpu(const char *device);
// Prints a line after `indent`, if cli_is_cpu, that results of this device do not show a GPU's speed.
void cli_remark_cpu(const char *device, const char *indent);

// kernel_command.c ------------------------------------------------------------------------------------------

// Returns the text of the whole file, or of standard input for "-", NUL-terminated, which the caller frees.
// Returns NULL, and sets errno, if it cannot be read.
char *cli_read_all(const char *path);

// bench/pull_command.c --------------------------------------------------------------------------------------

// Copies the runs of a folder, or of HOST:FOLDER, to the folder `out` and adds them to the history there.
// Returns an exit code, after a message.
int cli_pull_runs(const struct invocation *call, const char *source, const char *out);

// cloud/clusters.c ------------------------------------------------------------------------------------------

enum { CLI_CLUSTER_NAME = 128 };
// Copies the name of the cluster in the file .cluster_name to `out`, which has CLI_CLUSTER_NAME bytes.
// Returns false without a message if there is no such file, or no valid name in it.
bool cli_kept_cluster(char *out);

// interrupt.c -----------------------------------------------------------------------------------------------

// Installs handlers: from now on the first Ctrl-C or SIGTERM cancels evaluations and makes cli_interrupted
// true; a second one ends the program.
void cli_catch_interrupts(void);
// Returns whether there was such a signal.
bool cli_interrupted(void);

// program.c -------------------------------------------------------------------------------------------------

enum { CLI_NOT_FOUND = 127 };
// Starts a program and waits until it ends. Returns its exit code, 128 plus the number of the signal that
// ended it, or CLI_NOT_FOUND if it cannot be run. *output receives what it prints, errors included, which the
// caller frees (NULL: no memory); if output is NULL, the program prints to this program's output. Meanwhile
// Ctrl-C does not end this program, only the one that it runs.
int cli_run_program(const char *const *argv, char **output);
// Writes a word in single quotes, so that a shell reads it as one word.
void cli_put_quoted(FILE *out, const char *word);

enum { CLI_TOKEN_DIGITS = 32 };
// Writes a random token of CLI_TOKEN_DIGITS digits and a NUL. Returns false if the system has no random
// numbers.
bool cli_make_token(char *out);

// output.c --------------------------------------------------------------------------------------------------

// Makes text from another source safe to print, in place. Each control character, which terminals could
// execute, each character that reverses the order of those after it, and each byte that is not UTF-8 becomes
// '?'. Line feeds and tabs stay if `lines` is true, otherwise they become spaces.
void cli_clean(char *text, bool lines);

// Return an escape sequence if standard output is a terminal and NO_COLOR is not set, otherwise "". It begins
// bold, green or dim text, or ends all of these.
const char *cli_bold(void);
const char *cli_green(void);
const char *cli_dim(void);
const char *cli_plain(void);

// Writes text in double quotes, with escapes that JSON and YAML both understand.
void cli_put_string(FILE *out, const char *text);

// JSON, with two spaces per level. key is NULL inside arrays and at the top.

// Sets where the JSON that follows is written, and whether on one line. NULL is standard output, as at the
// start.
void cli_json_to(FILE *out, bool one_line);
// Opens an object ('{') or an array ('[').
void cli_json_open(const char *key, char bracket);
// Closes what was opened last. A line feed follows the outermost one.
void cli_json_close(void);
// Writes a string; null if value is NULL.
void cli_json_text(const char *key, const char *value);
// Writes an integer.
void cli_json_int(const char *key, int64_t value);
// Writes a number; null if it is infinite or NaN.
void cli_json_number(const char *key, double value);
// Writes true or false.
void cli_json_bool(const char *key, bool value);

#endif
