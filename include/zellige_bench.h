// zellige_bench.h - reads the results of `zellige bench`: the runs of a folder, their rows and their samples.
//
//     zl_run run = zl_run_open("runs/20261115-190000");
//     zl_run_row row;
//     for (int i = 0; zl_run_row_at(run, i, &row); i++)
//         printf("%s %s: %g s\n", row.id, row.status, row.median);
//     zl_run_close(run);
//
// Ownership. A run is yours until zl_run_close(), a history until zl_history_close(); texts and samples
// belong to them.
//
// Errors.    As in zellige.h: NULL, and zl_error() says why. A field that a run does not have is "" or NaN.

#ifndef ZELLIGE_BENCH_H
#define ZELLIGE_BENCH_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

// One run ---------------------------------------------------------------------------------------------------

typedef struct zl_run_ *zl_run; // NULL: failed

// A row: one configuration, as it was measured.
typedef struct {
    const char *id;            // "gemm.nt/bf16/1024": the same work has the same id in other runs
    const char *work, *op, *dtype;
    const char *status;        // "ok", "suspect", "failed", "absent"
    const char *note;          // why it is suspect, failed or absent
    const char *unit;          // of rate and peak: "FLOP", "B", "calls", "images"
    const char *path;          // how the dtype is computed: "f32 (bf16 path)"; "": as it is
    double median, low, high;  // seconds of one run, and the 95 % interval
    double mad, p5, p95, best; // seconds
    double rate, peak, limit;  // units per second: measured, the chip's, the roofline's
    double utilisation;        // rate / peak
    double flops, bytes, items; // of one run
    double steal, load;        // of the machine during the measurement
    const double *samples;     // seconds of one run each, in the order in which they were measured
    int sample_count, outliers;
    int64_t size[4];           // "1024", or "m x n x k"
    int size_count;
    bool stable, bimodal, memory_bound;
} zl_run_row;

// Opens the run of a folder, or of a file like its metrics.json. Returns NULL, with an error, if that fails.
ZL_API zl_run zl_run_open(const char *path);
// Closes a run. NULL is allowed.
ZL_API void   zl_run_close(zl_run run);

// Returns a text about the whole run, by a key: "suite", "status", "started", "host", "version", "commit",
// "branch", "command", "notes", "baseline" or "evidence"; about its chip "chip", "name" or "device".
// Returns "" if the run has no such text.
ZL_API const char *zl_run_text(zl_run run, const char *key);
// Returns the peak of one device for a dtype such as "bf16", in operations per second, or NaN.
ZL_API double zl_run_peak(zl_run run, const char *dtype);
// Returns the memory bandwidth in bytes per second, or NaN.
ZL_API double zl_run_bandwidth(zl_run run);
// Returns the number of CPU threads of the run, or 0 if it is not known.
ZL_API int    zl_run_threads(zl_run run);

// Returns the number of rows; 0 for NULL.
ZL_API int  zl_run_rows(zl_run run);
// Fills in the index-th row. Returns false past the last.
ZL_API bool zl_run_row_at(zl_run run, int index, zl_run_row *out);
// Fills in the first row of that id. Returns false if there is none.
ZL_API bool zl_run_row_find(zl_run run, const char *id, zl_run_row *out);

// The runs of a folder --------------------------------------------------------------------------------------

typedef struct zl_history_ *zl_history; // NULL: failed

typedef struct {
    const char *path; // for zl_run_open
    const char *started, *suite, *status, *chip, *name, *device, *commit;
    int threads;
} zl_history_run;

// Reads the index of the folder `runs`. Returns NULL, with an error, if that fails.
ZL_API zl_history zl_history_open(const char *root);
// Closes a history. NULL is allowed.
ZL_API void       zl_history_close(zl_history history);
// Fills in the index-th run, in the order of the index, the oldest first. A run that was resumed counts
// once. Returns false past the last.
ZL_API bool       zl_history_run_at(zl_history history, int index, zl_history_run *out);

#ifdef __cplusplus
}
#endif

#endif
