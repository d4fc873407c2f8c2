// bench.h - `zellige bench`: recognises the chip, measures its speed, and compares it with earlier
// measurements. doc/bench.md describes how data flows through the files, to which the sections of this header
// belong.

#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "text/text.h"
#include "zellige.h"

// Files that the program carries in itself ------------------------------------------------------------------

struct bench_file {
    const char *name, *text;
    const char *hash; // SHA-256 of the text in base64, as in content security policies
};
extern const struct bench_file bench_files[]; // ends with a file without a name
// Return the text, or the hash, of the file of this name; NULL if there is no such file.
const char *bench_file_find(const char *name);
const char *bench_file_hash(const char *name);

// json.c ----------------------------------------------------------------------------------------------------

// Copies a text of an object, "" if there is none, truncated to whole characters. It is made safe to print
// (see cli_clean), since files may come from other machines.
void bench_json_copy(text_json_value object, const char *key, bool lines, char *out, size_t bytes);
// Returns whether a list has this text as an item.
bool bench_json_lists(text_json_value list, const char *word);

// specs.c ---------------------------------------------------------------------------------------------------

// Dtypes for which peaks are known, in the order of tables. tf32 is only a way to compute, and fp8 a way to
// read, not dtypes of arrays.
enum bench_dtype {
    BENCH_F64,
    BENCH_F32,
    BENCH_TF32,
    BENCH_BF16,
    BENCH_F16,
    BENCH_FP8,
    BENCH_INT8,
    BENCH_DTYPES
};
// Returns the name of a dtype: "bf16".
const char *bench_dtype_name(enum bench_dtype dtype);
// Returns the dtype of this name; BENCH_DTYPES if there is none.
enum bench_dtype bench_dtype_find(const char *name);
// Returns the dtype of the arrays that hold it: float32 for tf32, uint8 for fp8.
zl_dtype bench_dtype_of_arrays(enum bench_dtype dtype);

struct bench_specs {
    text_json_value root;
    char source[256];                // "built in", or the file
    double override[BENCH_DTYPES];   // --peak, in operations per second; NaN: none
};

// Opens a table of chips; path NULL: the one that is built in. Returns false, with a message in `error`, if
// that fails. The caller closes it with bench_specs_close.
bool bench_specs_open(struct bench_specs *specs, const char *path, char *error, size_t error_bytes);
// Reads peaks in TFLOPS that replace the table's: "bf16=918,f32=459". Returns false, with a message in
// `error`, if the list is wrong.
bool bench_specs_override(struct bench_specs *specs, const char *list, char *error, size_t error_bytes);
// Frees the table.
void bench_specs_close(struct bench_specs *specs);

// Return a chip of the table by its id, or by its PCI numbers. NULL if there is none.
text_json_value bench_chip_by_id(const struct bench_specs *specs, const char *id);
text_json_value bench_chip_by_pci(const struct bench_specs *specs, unsigned vendor, unsigned device);
// Returns a chip of the table by an item of its list `detect.<list>`, which is "nvml_names",
// "pjrt_device_kind", "sysctl_brand" or "hip_names". The whole name has to match. NULL if there is none.
text_json_value bench_chip_by_name(const struct bench_specs *specs, const char *list, const char *name);
// Returns a chip of the table by the name of a slice of it, such as "v6e-8". NULL if there is none.
text_json_value bench_chip_by_accelerator_type(const struct bench_specs *specs, const char *type);

// The most that one device of a chip can do. A chip that appears as two devices has half its peak in each.
struct bench_peak {
    double rate;      // operations per second; NaN: not published
    char path[32];    // how the dtype is computed: "f32 (bf16 path)"; "": in the dtype itself
    char source[96];
    double clock_mhz; // clock that the figure assumes; NaN: unknown
};
// Returns the peak of one device of a chip for a dtype; --peak comes before the table.
struct bench_peak bench_spec_peak(const struct bench_specs *specs, text_json_value chip,
                                  enum bench_dtype dtype);
// Returns the bytes per second of one device's memory; NaN if they are unknown.
double bench_spec_bandwidth(text_json_value chip);

// detect.c and detect_*.c -----------------------------------------------------------------------------------

enum { BENCH_CHIPS_MOST = 8, BENCH_EVIDENCE = 384 };

struct bench_chip {
    char id[32];    // in the table of specs; "": the table does not have the chip
    char name[96];
    char kind[8];   // "cpu", "gpu", "tpu", "npu"
    char device[16]; // device of Zellige that runs on it: "cpu", "cuda", "pjrt", ...
    int chips, devices;
    bool shared;    // only a part of a chip, made by MIG or the like, so the table's peak does not apply
    bool is_modelled; // the machine has no such chip: an emulator runs its kernels, and times are those of a
                      // model
    char evidence[BENCH_EVIDENCE]; // "matched 1ae0:006f x8 in sysfs; TPU_ACCELERATOR_TYPE=v6e-8"
};

struct bench_cpu {
    char model[96], id[32], features[512];
    int cores_online, cores_allowed; // of the machine; those that affinity allows
    double quota;                    // cores that the control group grants; 0: all
    char evidence[BENCH_EVIDENCE];
};

struct bench_machine {
    char sysroot[256]; // "": this machine itself
    struct bench_cpu cpu;
    // accelerators first, then the CPU, then chips that are modelled
    struct bench_chip chip[BENCH_CHIPS_MOST];
    int count;
};

// Fills machine with the CPU and the chips that it finds. sysroot: a folder with files of another machine,
// which is then described; NULL or "": this machine.
void bench_detect(struct bench_machine *machine, const struct bench_specs *specs, const char *sysroot);

// Fills machine->cpu.
void bench_detect_cpu(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the chips that are on the PCI bus.
void bench_detect_pci(struct bench_machine *machine, const struct bench_specs *specs);
// Checks AMD's chips, which were found on the bus, against the topology that the driver reports, and marks
// those that are partitioned.
void bench_detect_amd(struct bench_machine *machine, const struct bench_specs *specs);
// Adds TPUs by their type, from the environment or else from the metadata server.
void bench_detect_tpu(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the chip that a PJRT plugin reports, or checks it against the one that was found.
void bench_detect_pjrt(struct bench_machine *machine, const struct bench_specs *specs);
// Renames NVIDIA's chips, which were found on the bus, to the driver's names, and marks those that MIG
// divides.
void bench_detect_nvidia(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the GPU of an Apple chip, by the device tree.
void bench_detect_apple(struct bench_machine *machine, const struct bench_specs *specs);

// Adds a chip of the table, or if spec is NULL, one of this name and kind. Returns the chip; if there is no
// room, one outside the machine.
struct bench_chip *bench_add_chip(struct bench_machine *machine, text_json_value spec, const char *name,
                                  const char *kind);
// Returns the machine's chip with this id; NULL if there is none.
struct bench_chip *bench_machine_chip(struct bench_machine *machine, const char *id);
// Appends to the evidence of a chip, after "; " unless it is the first. Text that does not fit is cut off.
void bench_add_evidence(char evidence[BENCH_EVIDENCE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Reads the first line of a file below the sysroot, without its end, truncated to `bytes`. Returns false if
// the file is missing or empty.
bool bench_read_line(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Reads a whole file in the same way.
bool bench_read_text(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Returns a variable of the environment, or below a sysroot, of the file etc/environment. It is valid until
// the next call. NULL if it is not set.
const char *bench_environment(const struct bench_machine *machine, const char *name);

// nvml.c ----------------------------------------------------------------------------------------------------

// What a device reports while it works. NaN: unknown.
struct bench_reading {
    double clock_mhz, power_w, temperature_c;
    char throttle[96]; // reasons that a clock is low; "": none
};
// Returns how many GPUs there are; 0 without NVML's library or a driver.
int bench_nvml_count(void);
// Copies the name of a GPU. Returns false if NVML has none.
bool bench_nvml_name(int index, char *out, size_t bytes);
// Returns whether MIG divides a GPU.
bool bench_nvml_is_split(int index);
// Sets those members of *reading that NVML reports for a GPU. Returns false if there is no such GPU.
bool bench_nvml_read(int index, struct bench_reading *reading);

// stats.c ---------------------------------------------------------------------------------------------------

struct bench_stats {
    int count, outliers; // outliers: by modified z-scores
    double median, low, high; // low, high: 95 % confidence interval of the median
    double mad, p5, p95, best;
    bool bimodal;
};
// Fills *out from samples in any order. Without samples, or if memory runs out, the figures are NaN.
void bench_statistics(const double *sample, int count, struct bench_stats *out);
// Returns the quantile q, from 0 to 1, of samples in ascending order; NaN if there are none.
double bench_quantile(const double *sorted, int count, double q);
// Sets *low and *high to the 95 % confidence interval of the median, by resampling; NaN without samples.
void bench_median_interval(const double *sample, int count, double *low, double *high);
// The newest samples of something that is measured many times.
enum { BENCH_WINDOW = 2048 };
struct bench_window {
    double value[BENCH_WINDOW];
    int64_t taken; // may be more than are kept
};
// Adds a sample; it replaces the oldest one when there is no room.
void bench_window_add(struct bench_window *s, double value);
// Returns the quantile q, from 0 to 1, of the samples that are kept; NaN if there are none. It sorts them.
double bench_window_quantile(struct bench_window *s, double q);
// Sets *low and *high to the interval of the ratio of two quantiles q: that of `after` divided by that of
// `before`.
void bench_ratio_interval(const double *before, int before_count, const double *after, int after_count,
                          double q, double *low, double *high);

// cpu_peaks.c -----------------------------------------------------------------------------------------------

enum { BENCH_INSTRUCTIONS_MOST = 16 };
// Of many short slices, the one that counts.
#define BENCH_PEAK_QUANTILE 0.98

struct bench_cpu_peaks {
    double clock_hz;
    struct {
        const char *name;
        zl_dtype dtype;
        double rate;      // operations per second of one core
        double per_cycle; // operations per cycle of one core
        double all;       // operations per second of all threads at once; 0: not measured
    } instruction[BENCH_INSTRUCTIONS_MOST];
    int count, threads;
    double copy, read; // bytes per second of all threads: reading and writing; only reading
};
// Measures the peaks of this CPU's instructions, and those of its memory.
void bench_measure_cpu_peaks(struct bench_cpu_peaks *peaks, double seconds);
// Returns the operations per second of the fastest instruction of a dtype on all threads; NaN if there is
// none. Sets *name, unless it is NULL, to that instruction's name.
double bench_cpu_peak(const struct bench_cpu_peaks *peaks, enum bench_dtype dtype, const char **name);

// all_cores.c -----------------------------------------------------------------------------------------------

struct bench_instruction;
// Fills `all` of the instructions. Takes at most that many seconds, and less if all cores together are as
// fast as their sum.
void bench_measure_all_cores(struct bench_cpu_peaks *peaks, const struct bench_instruction **instruction,
                             const int64_t *loops, double seconds);
// Binds the calling thread to the index-th core that it may run on, if there is one.
void bench_stay_on_core(int index);

// environment.c ---------------------------------------------------------------------------------------------

// Returns the seconds of a monotonic clock.
double bench_now(void);
// Returns the number of runnable processes, on average over the last minute; NaN if the system does not
// report it.
// does not report it.
double bench_steal(void);
// Returns how many processes want to run, on average over the last minute; NaN if the system does not tell.
double bench_load(void);
// Returns clock, power and temperature of "cpu", or for any other device, of NVML's first GPU.
struct bench_reading bench_read_device(const char *device);
struct bench_run;
// Writes env.json.
void bench_write_environment(FILE *out, const struct bench_run *run);

// work.c: what can be measured ------------------------------------------------------------------------------

// One thing to measure: "gemm.nt/bf16/1024x1024x1024".
struct bench_config {
    char work[16], op[24];
    enum bench_dtype dtype;
    int64_t dim[4];
    int dims;
    char id[96]; // results of equal ids are compared with each other
};

struct bench_work {
    const struct bench_work_kind *kind;
    const struct bench_config *config;
    bool zeros;          // data are zeros, on which chips are faster
    const char *device;  // device to run on; NULL: cpu
    bool is_async;       // the device is asynchronous: evaluations are enqueued, then waited for
    bool tells_seconds;  // the device runs tile kernels only, and reports their times itself
    bool is_modelled;    // times are a model's, and the same in each run
    bool is_absent;      // it could not be prepared because the device cannot do it, which is no failure
    zl_array in[8];      // owned
    int inputs;
    void *data;          // owned, by malloc
    double flops, bytes; // of one run
    double items;        // calls, rows or images of one run; 0: the rate does not count these
    char why[256];       // why it failed, if zl_error() has no message
};

// A kind of work, a line of works.def. record returns a result that is not evaluated yet. If that is not what
// is measured, run does the work `count` times and waits.
struct bench_work_kind {
    const char *name;
    const char *unit;    // of its rate: "FLOP", "B", "calls", "images"
    const char *summary;
    bool (*prepare)(struct bench_work *w);
    zl_array (*record)(struct bench_work *w);
    bool (*run)(struct bench_work *w, int count);
    bool (*verify)(struct bench_work *w); // checks the result against a reference, on samples; false: wrong,
                                          // with w->why
    // the seconds of one run, if w->tells_seconds; NULL: the work needs a device of arrays
    bool (*tell)(struct bench_work *w, double *seconds);
    void (*finish)(struct bench_work *w); // frees the contents of w->data, before w->data itself; NULL:
                                          // nothing to free
};

// Returns the kind of work at this index; NULL past the last.
const struct bench_work_kind *bench_work_kind(int index);
// Returns the kind of work of this name; NULL if there is none.
const struct bench_work_kind *bench_work_find(const char *name);
// Prepares a configuration, which the caller keeps; the members of w that describe how it runs are set
// before. Returns false, with w->why or zl_error(), if that fails. The caller calls bench_work_finish in any
// case.
bool bench_work_prepare(struct bench_work *w, const struct bench_config *config);
// Runs the work `count` times and waits for the results. Returns false, with w->why or zl_error(), if that
// fails.
bool bench_work_run(struct bench_work *w, int count);
// Runs the work once. Returns whether a part of it falls back to the CPU, in which case its time is not the
// device's.
bool bench_work_falls_back(struct bench_work *w);
// Releases the arrays and frees the data of the work.
void bench_work_finish(struct bench_work *w);

// Functions for kinds of work.

// Evaluates an array and keeps it in w->in. Returns it; NULL if that fails.
zl_array bench_hold(struct bench_work *w, zl_array a);
// Returns an array of random numbers in the configuration's dtype, or of zeros if w->zeros, which w->in also
// keeps.
zl_array bench_random(struct bench_work *w, zl_shape shape);
// Sets w->why. Returns false.
bool bench_fail(struct bench_work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns all elements as doubles, which the caller frees; NULL if that fails.
double *bench_elements(zl_array a);
// Returns the relative precision of results of a dtype, 0 for integers; results of fp8 are bf16.
double bench_dtype_epsilon(enum bench_dtype dtype);

// measure.c -------------------------------------------------------------------------------------------------

struct bench_timing {
    double seconds, warm_seconds; // limits
    int least, most;              // samples
    bool wipe;                    // caches are wiped before each sample
    bool zeros;
    char clock[8]; // "host" or "device"; "": the device's for a device that runs whole programs and tells it
};

// What tells how long a run took.
enum bench_clock {
    BENCH_CLOCK_HOST,   // the host's, from the call to the result
    BENCH_CLOCK_DEVICE, // the device's, of its work only
    BENCH_CLOCK_MODEL,  // none: a model of the chip
    BENCH_CLOCKS
};
// Returns the name of a clock.
const char *bench_clock_name(enum bench_clock clock);
// Returns what reports say of a row with this clock; "" of the host's.
const char *bench_clock_remark(enum bench_clock clock);
// Returns the clock of this name; BENCH_CLOCK_HOST if there is none, as in runs before the name was kept.
enum bench_clock bench_clock_find(const char *name);
struct bench_samples {
    double *second; // seconds per run of each sample, in the order in which they were taken; freed by the
                    // caller
    int count;
    int inner;      // runs per sample
    int warm;       // runs before the first sample
    bool stable;    // the last samples agreed
    bool slope;     // the cost of starting is subtracted, which follows from samples of two lengths
    double start;   // seconds that were subtracted for starting
    enum bench_clock clock;
};
// Takes samples of a prepared work. Returns false if there is none. The caller frees out->second in any case.
bool bench_measure(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out);
// Replaces the seconds of `inner` runs in `once` by the seconds of one run: the time of twice as many runs,
// minus the cost of starting, divided by their number. The cost of starting follows from the best of `once`
// and the best of `twice`. (The best difference of two adjacent samples would be one whose shorter sample was
// disturbed.) Returns the cost of starting, in seconds.
double bench_take_start_off(double *once, const double *twice, int count, int inner);

// device_clock.c --------------------------------------------------------------------------------------------

// Runs a prepared work `runs` times and sets the seconds that each run took on the device, by its own clock.
// Returns false, with w->why or zl_error(), if the device does not tell.
bool bench_device_seconds(struct bench_work *w, int runs, double *second);

// suite.c ---------------------------------------------------------------------------------------------------

struct bench_suite {
    char name[64];
    struct bench_config *config; // owned
    int count;
    struct bench_timing timing;
};
// Opens a built-in suite by its name, or a file. Returns false, with a message in `error`, if that fails. The
// caller closes it with bench_suite_close.
bool bench_suite_open(struct bench_suite *suite, const char *name, char *error, size_t error_bytes);
// Frees the configurations.
void bench_suite_close(struct bench_suite *suite);
// Appends a copy of a configuration and sets its id. Returns false if memory runs out.
bool bench_suite_add(struct bench_suite *suite, const struct bench_config *config);
// Sets the id of a configuration from its other members.
void bench_config_name(struct bench_config *config);

// work_llm.c ------------------------------------------------------------------------------------------------

// Opens the model that the works `llm` measure, a checkpoint or for random weights a config.json, and sets
// the model's name and dtype in the configurations of these works. Returns false, with a message in `error`,
// if that fails.
bool bench_llm_open(const char *path, struct bench_suite *suite, char *error, size_t error_bytes);
// Closes that model.
void bench_llm_close(void);

// result.c and guard.c --------------------------------------------------------------------------------------

enum bench_status {
    BENCH_OK,
    BENCH_SUSPECT, // faster than its peak: the note has the likely cause
    BENCH_FAILED,  // a wrong result, or an error
    BENCH_ABSENT,  // the device cannot do it
    BENCH_STATUSES
};
// Returns the name of a status.
const char *bench_status_name(enum bench_status status);
// Returns the status of this name; BENCH_STATUSES if there is none.
enum bench_status bench_status_find(const char *name);

struct bench_row {
    struct bench_config config;
    enum bench_status status;
    char note[256];
    char unit[8]; // of its rate: "FLOP", "B", "calls", "images"
    double flops, bytes, items; // of one run
    double *second;             // samples, owned
    struct bench_stats stats;   // of them
    int inner, warm;
    bool stable, slope;
    enum bench_clock clock;     // that told them
    double start;               // seconds of starting, which no sample includes; 0: unknown
    // largest number of bytes of arrays during a run, inputs included; 0: unknown
    double memory;
    double rate;                // units per second, of the median
    double peak, utilisation;   // NaN: unknown
    char path[32];              // as in struct bench_peak
    double limit;               // limit of the roofline model at the work's intensity, in units per second;
                                // NaN: unknown
    bool memory_bound;
    double steal, load;
    struct bench_reading before, after;
};

// What rows are judged by: the chip and its peaks.
struct bench_subject {
    char chip[32], name[96], device[16];
    struct bench_peak peak[BENCH_DTYPES];
    double bandwidth;        // bytes per second
    double clock_hz;         // measured; NaN: not measured
    double devices_per_chip;
    int threads;
    bool is_measured;        // the peaks were measured on this machine
    bool is_modelled;        // there is no chip: times are a model's
};
// Fills s for this machine's CPU from measured peaks, which --peak overrides.
void bench_subject_of_cpu(struct bench_subject *s, const struct bench_machine *machine,
                          const struct bench_specs *specs, const struct bench_cpu_peaks *peaks);
// Fills s for a chip of the table. A chip of which only a part is available has no peaks.
void bench_subject_of_chip(struct bench_subject *s, const struct bench_chip *chip,
                           const struct bench_specs *specs);

// Fills rate, peak, utilisation and limit from the statistics, and calls bench_guard.
void bench_judge(struct bench_row *row, const struct bench_subject *subject);
// Marks a result that is faster than its peak as suspect, with the likely cause in its note.
void bench_guard(struct bench_row *row, const struct bench_subject *subject);

struct bench_run {
    char folder[256], suite[64], status[16]; // "running", "complete", "interrupted"
    char started[32], version[16], commit[48], branch[64], command[256], host[64], notes[256];
    int dirty;         // files that differ from the commit
    char changed[512]; // their names, truncated
    char baseline[256]; // the run that it was compared with; "": none
    struct bench_subject subject;
    char evidence[BENCH_EVIDENCE];
    struct bench_timing timing;
    struct bench_row *row; // owned
    int rows;
};
// Appends a row of zeros. Returns it, valid until the next one is added; NULL if memory runs out.
struct bench_row *bench_run_add(struct bench_run *run);
// Returns the row with this id; NULL if there is none.
const struct bench_row *bench_run_find(const struct bench_run *run, const char *id);
// Returns whether a row has this status.
bool bench_run_has(const struct bench_run *run, enum bench_status status);
// Returns whether a row is right, but its samples had not become stable.
bool bench_row_is_unstable(const struct bench_row *row);
// Returns how many rows are unstable.
int bench_run_unstable(const struct bench_run *run);
// Frees the rows and their samples.
void bench_run_free(struct bench_run *run);

// Measures one configuration; row->status is the outcome.
void bench_measure_row(struct bench_row *row, const struct bench_config *config,
                       const struct bench_subject *subject, const struct bench_timing *timing);

// run_json.c ------------------------------------------------------------------------------------------------

// Writes metrics.json.
void bench_write_run(FILE *out, const struct bench_run *run);
// Writes a row as a line of the journal.
void bench_write_row(FILE *out, const struct bench_row *row);
// Reads a run from its folder, or from a file such as metrics.json. Returns false, with a message in `error`,
// if that fails; otherwise the caller frees it with bench_run_free.
bool bench_read_run(struct bench_run *run, const char *path, char *error, size_t error_bytes);
// Reads a row from a JSON object. Returns false if it is not a row, or memory runs out.
bool bench_read_row(struct bench_row *row, text_json_value object);

// Output: table.c, csv.c, markdown.c ------------------------------------------------------------------------

// Return a number as text, which they write to `out`: "83.1 GFLOP/s"; "268.4 MB"; "1.25 ms"; "63.5 %" for
// 0.635. A number that is not finite, or 0 bytes, becomes "-"; a fraction that is not finite "n/a".
const char *bench_format_rate(double rate, const char *unit, char out[32]);
const char *bench_format_bytes(double bytes, char out[32]);
const char *bench_format_seconds(double seconds, char out[32]);
const char *bench_format_percent(double part, char out[16]);

// Prints the text before the rows of a run: the chip, its peaks and the headings of the columns.
void bench_table_head(const struct bench_run *run);
// Prints a row.
void bench_table_row(const struct bench_row *row);
// Shows a bar with the remaining time on standard error; without a terminal, a line every ten seconds.
// Removes the bar if `all` is 0. started: a time of bench_now.
void bench_progress(int done, int all, double started, const char *what);
// Writes results.csv.
void bench_write_csv(FILE *out, const struct bench_run *run);
// Writes results.md.
void bench_write_markdown(FILE *out, const struct bench_run *run);
// Writes text, escaping the markup of Markdown and HTML.
void bench_markdown(FILE *out, const char *text);
// Writes text as inline code of Markdown.
void bench_markdown_code(FILE *out, const char *text);

// run_folder.c ----------------------------------------------------------------------------------------------

// Creates a folder below `root`, named by the time, and sets run->folder and run->started. Returns false,
// with a message in `error`, if that fails.
bool bench_folder_new(struct bench_run *run, const char *root, char *error, size_t error_bytes);
// Writes a file in the run's folder, completely or not at all. Returns false if that fails.
bool bench_folder_write(const struct bench_run *run, const char *name,
                        void (*write)(FILE *out, const struct bench_run *run));
// Opens a file to append a line, which the caller closes. NULL if it cannot be written.
FILE *bench_append(const char *path);
// Appends a line to log.txt in the run's folder, with the time.
void bench_log(const struct bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Sets commit, branch and changed files of the working folder, and the host and version.
void bench_describe_source(struct bench_run *run);
// Appends a row to the journal in the run's folder and waits until it is on the disk. Returns false if that
// fails.
bool bench_journal_add(const struct bench_run *run, const struct bench_row *row);
// Appends the rows of the journal to the run. Returns how many rows the run has; -1 if there is no journal.
int bench_journal_read(struct bench_run *run);

// history.c -------------------------------------------------------------------------------------------------

// The history is index.jsonl below `root`, with a line per run. Runs are of the same kind if chip, device,
// threads and suite are equal.

// Appends a run to the history. Returns false if that fails.
bool bench_history_add(const struct bench_run *run, const char *root);
// Sets *folders to those of earlier runs of the same kind, the oldest first, which the caller frees with
// bench_history_free. Returns how many there are.
int bench_history_find(const struct bench_run *run, const char *root, char ***folders);
// Frees such a list.
void bench_history_free(char **folders, int count);

// compare.c -------------------------------------------------------------------------------------------------

enum bench_verdict {
    BENCH_SAME,
    BENCH_FASTER,
    BENCH_SLOWER,
    BENCH_AMBIGUOUS,
    BENCH_BROKEN, // it was right before, and fails now
    BENCH_INCOMPARABLE,
    BENCH_VERDICTS
};
// Returns the name of a verdict.
const char *bench_verdict_name(enum bench_verdict verdict);

struct bench_comparison {
    char id[96];
    enum bench_verdict verdict;
    double ratio, low, high; // seconds after divided by those before, and its 95 % interval
    char why[160];
    double *sample[2]; // before and after, if they were measured in turns; owned, NULL: not kept
    int samples;
};
// Compares samples that were taken in turns (after[i] next to before[i]), or independently. threshold: the
// relative difference up to which times count as the same. Returns the comparison, without its id.
struct bench_comparison bench_compare_samples(const double *before, int before_count, const double *after,
                                              int after_count, double threshold, bool in_turns);
// Fills `why` with the reason that two runs cannot be compared at all; "" if they can.
void bench_compare_runs(const struct bench_run *before, const struct bench_run *after, char *why,
                        size_t bytes);
// Compares two rows. Returns the comparison, with a reason if one of them failed or only one is modelled.
struct bench_comparison bench_compare_rows(const struct bench_row *before, const struct bench_row *after,
                                           double threshold);

// A list of comparisons, with the number of each verdict.
struct bench_comparisons {
    struct bench_comparison *item; // owned
    int count, of[BENCH_VERDICTS];
    bool in_turns;
};
// Frees the samples of a comparison.
void bench_comparison_free(struct bench_comparison *c);
// Appends a comparison, whose samples the list then owns. Returns false if memory runs out; the caller keeps
// the samples then.
bool bench_comparisons_add(struct bench_comparisons *list, struct bench_comparison c);
// Appends the comparisons of the rows that both runs have. Returns false if memory runs out, with a part of
// them in the list.
bool bench_compare_all(struct bench_comparisons *list, const struct bench_run *before,
                       const struct bench_run *after, double threshold);
// Frees the comparisons and clears the list.
void bench_comparisons_free(struct bench_comparisons *list);

// interleave.c ----------------------------------------------------------------------------------------------

// Measures the configurations of a suite with `only` in their names (NULL: all) in turns, with another
// `zellige`, which is "before", and with this one. Returns false, with a message in `error`, if that fails.
// After Ctrl-C the list has those that were complete.
bool bench_interleave(struct bench_comparisons *list, const struct bench_suite *suite, const char *device,
                      const char *program, const char *only, double threshold, char *error,
                      size_t error_bytes);

// record.c --------------------------------------------------------------------------------------------------

// Appends a line with all samples to a file. Returns false if it cannot be written.
bool bench_record_add(const char *path, const struct bench_comparisons *list);
// Compares the samples of such a line again. Returns false if the line is not one.
bool bench_record_replay(struct bench_comparisons *list, const char *line, double threshold);

// html.c and charts.c ---------------------------------------------------------------------------------------

// Writes report.html, one page that needs no other file. The history of runs is read from the parent of the
// run's folder.
void bench_write_html(FILE *out, const struct bench_run *run);
// Writes HTML: the format unchanged, every %s with markup escaped, for texts and quoted attributes. All parts
// of the page that are not constant are written by it. Conversions are %s, %d, %%, and %f and %g with a
// precision.
void bench_html(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Writes a section with a chart, or nothing if there are too few rows: the rates by intensity, below the
// roofline. The functions after it do so for other charts.
void bench_chart_roofline(FILE *out, const struct bench_run *run);
// Writes the utilisation of products by size and dtype.
void bench_chart_heat(FILE *out, const struct bench_run *run);
// Writes the best product of each dtype next to its peak.
void bench_chart_bars(FILE *out, const struct bench_run *run);
// Writes the bandwidth by bytes.
void bench_chart_bandwidth(FILE *out, const struct bench_run *run);
// Writes the rates of the rows over several runs, the oldest first.
void bench_chart_trend(FILE *out, const struct bench_run *runs, int count);

#endif
