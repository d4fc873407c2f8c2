// session.h - functions that the commands which measure share: options, the chip, a run with its folder, and
// a loop that Ctrl-C ends.

#ifndef SESSION_H
#define SESSION_H

#include "bench.h"
#include "cli.h"

enum { BENCH_SUSPECT_CODE = 4, BENCH_NOTHING_CODE = 3 }; // exit codes besides CLI_OK, CLI_FAILED and
                                                         // CLI_USAGE

// the built-in suites
#define BENCH_SUITES "simple gemm full gpu_simple gpu_gemm gpu_full tpu_simple tpu_gemm tpu_full tile llm"

#define BENCH_SESSION_OPTIONS                                                                            \
    {"device", 0, "NAME", NULL, "device to measure (default: the accelerator that is there, else cpu)"}, \
        {"out", 0, "FOLDER", NULL, "where run folders go (default runs)"},                               \
        {"specs", 0, "FILE", NULL, "table of chips instead of the one that is built in"},                \
        {"peak", 0, "LIST", NULL, "peaks instead of the table's, in TFLOPS: bf16=918,f32=459"},          \
        {"seconds", 0, "N", NULL, "time for the samples of a configuration"},                            \
        {"samples", 0, "N", NULL, "samples of a configuration at most"},                                 \
        {"threads", 0, "N", NULL, "threads of the CPU"},                                                 \
        {"clock", 0, "NAME", "host device",                                                              \
         "whose clock tells the time (default: the device's if it runs whole programs and tells it)"},   \
        {"wipe-cache", 0, NULL, NULL, "empty the caches before each sample"},                            \
        {"zeros", 0, NULL, NULL, "data of zeros instead of random numbers"},                             \
        {"notes", 0, "TEXT", NULL, "kept with the run"}

struct bench_session {
    const struct invocation *call;
    struct bench_specs specs;
    struct bench_machine machine;
    struct bench_suite suite;
    struct bench_run run;
    bool failed; // measuring ended early, after a message, although nobody interrupted it
};

// Functions that return an exit code other than CLI_OK have written a message, except bench_session_finish if
// results failed or are suspect.

// Opens the table of chips and a suite, by its name or file (NULL: none yet). Returns an exit code. After
// CLI_OK the caller closes it with bench_session_close.
int bench_session_open(struct bench_session *s, const struct invocation *call, const char *suite);
// Opens a suite after the session was opened without one. Returns an exit code.
int bench_session_take_suite(struct bench_session *s, const char *suite);
// Finds the machine's chips. Returns the one to measure, named by --device, otherwise the first with a
// device; NULL after a message.
const struct bench_chip *bench_session_find_chip(struct bench_session *s);
// Finds the chip's peaks and creates the folder of the run, or continues the run in the folder `resume`.
// Returns an exit code. After this Ctrl-C only ends measuring.
int bench_session_start(struct bench_session *s, const char *resume);
// Checks that `only`, a part of a configuration's name or NULL, leaves something to measure. Returns an exit
// code.
int bench_session_check_only(const struct bench_session *s, const char *only);
// Measures the configurations with `only` in their names (NULL: all) that the run does not have yet, until
// Ctrl-C, or until bench_session_one returns NULL.
void bench_session_measure(struct bench_session *s, const char *only);
// Measures one configuration. Returns its row in the run. Returns NULL if it was interrupted, and after a
// message, with `failed` set, if memory runs out or the journal cannot be written.
struct bench_row *bench_session_one(struct bench_session *s, const struct bench_config *config);
// Writes the files of the folder and adds the run to the history. Returns false after a message.
bool bench_session_write(struct bench_session *s);
// Calls bench_session_write and prints the result. Returns the exit code of the command.
int bench_session_finish(struct bench_session *s);
// Frees the run, the suite and the table of chips.
void bench_session_close(struct bench_session *s);

// collectives.c ---------------------------------------------------------------------------------------------

// Runs `bench run collectives` on this rank of a group. Returns an exit code.
int bench_collectives(const struct invocation *call);

#endif
