// session.h - what the commands that measure share: options, the chip, a run with its folder, a loop that
// Ctrl-C ends.

#ifndef SESSION_H
#define SESSION_H

#include "bench.h"
#include "cli.h"

enum { BENCH_SUSPECT_CODE = 4, BENCH_NOTHING_CODE = 3 }; // exit codes beside CLI_OK, CLI_FAILED and CLI_USAGE

// that are built in
#define BENCH_SUITES "simple gemm full gpu_simple gpu_gemm gpu_full tpu_simple tpu_gemm tpu_full tile llm"

#define BENCH_SESSION_OPTIONS                                                                            \
    {"device", 0, "NAME", NULL, "device to measure (default: the accelerator that is there, else cpu)"}, \
        {"out", 0, "FOLDER", NULL, "where run folders go (default runs)"},                               \
        {"specs", 0, "FILE", NULL, "table of chips instead of the one that is built in"},                \
        {"peak", 0, "LIST", NULL, "peaks instead of the table's, in TFLOPS: bf16=918,f32=459"},          \
        {"seconds", 0, "N", NULL, "time for the samples of a configuration"},                            \
        {"samples", 0, "N", NULL, "samples of a configuration at most"},                                 \
        {"threads", 0, "N", NULL, "threads of the CPU"},                                                 \
        {"wipe-cache", 0, NULL, NULL, "empty the caches before each sample"},                            \
        {"zeros", 0, NULL, NULL, "data of zeros instead of random numbers"},                             \
        {"notes", 0, "TEXT", NULL, "kept with the run"}

struct bench_session {
    const struct invocation *call;
    struct bench_specs specs;
    struct bench_machine machine;
    struct bench_suite suite;
    struct bench_run run;
};

// CLI_OK, or an exit code after a message. suite: a name or a file; NULL: none.
int bench_session_open(struct bench_session *s, const struct invocation *call, const char *suite);
int bench_session_take_suite(struct bench_session *s, const char *suite); // where it was opened without one
const struct bench_chip *bench_session_find_chip(struct bench_session *s); // that runs; NULL after a message
int bench_session_start(struct bench_session *s, const char *resume); // finds peaks, makes the folder
// CLI_OK: it leaves something to measure
int bench_session_check_only(const struct bench_session *s, const char *only);
void bench_session_measure(struct bench_session *s, const char *only);
// NULL: out of memory, interrupted before it was measured, or not written, after a message.
struct bench_row *bench_session_one(struct bench_session *s, const struct bench_config *config);
// the folder's files and the history; false after a message
bool bench_session_write(struct bench_session *s);
int bench_session_finish(struct bench_session *s); // the same, and the exit code
void bench_session_close(struct bench_session *s);

// collectives.c: `bench run collectives`, on each rank of a group; the exit code.
int bench_collectives(const struct invocation *call);

#endif
