// bench.h - `zellige bench`: which chip this is, how fast it is, whether it got slower. doc/bench.md tells
// how data flows through the files, which are the sections here.

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
    const char *hash; // SHA-256 of the text in base64, as content security policies name it
};
extern const struct bench_file bench_files[]; // the last has no name
// Return, of the file of this name: its text; its hash. NULL if there is no such file.
const char *bench_file_find(const char *name);
const char *bench_file_hash(const char *name);

// json.c ----------------------------------------------------------------------------------------------------

// Copies a text of an object, "" if there is none, as far as there is room for whole characters. Since files
// come from other machines, it is made safe to print, as cli_clean says.
void bench_json_copy(text_json_value object, const char *key, bool lines, char *out, size_t bytes);
// Returns whether a list has this text as an item.
bool bench_json_lists(text_json_value list, const char *word);

// specs.c ---------------------------------------------------------------------------------------------------

// What peaks are known for, in this order in tables. tf32 is a way to compute, and fp8 one to read, not
// dtypes of arrays.
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

// What one device of a chip can do at most. A chip that shows itself as two devices has half of it for each.
struct bench_peak {
    double rate;      // operations per second; NaN: nobody published one
    char path[32];    // how the dtype is computed: "f32 (bf16 path)"; "": as it is
    char source[96];
    double clock_mhz; // that the figure assumes; NaN: not said
};
// Returns the peak of one device of a chip for a dtype; --peak comes before the table.
struct bench_peak bench_spec_peak(const struct bench_specs *specs, text_json_value chip,
                                  enum bench_dtype dtype);
// Returns the bytes per second of one device's memory; NaN if they are unknown.
double bench_spec_bandwidth(text_json_value chip);

// detect.c and detect_*.c -----------------------------------------------------------------------------------

enum { BENCH_CHIPS_MOST = 8, BENCH_EVIDENCE = 384 };

struct bench_chip {
    char id[32];    // of the table of specs; "": a chip that it does not know
    char name[96];
    char kind[8];   // "cpu", "gpu", "tpu", "npu"
    char device[16]; // device of Zellige that runs on it: "cpu", "cuda", "pjrt", ...
    int chips, devices;
    bool shared;    // part of a chip, as MIG makes: its peak is not the table's
    bool is_modelled; // there is none: an emulator runs its kernels, and tells times of a model
    char evidence[BENCH_EVIDENCE]; // "matched 1ae0:006f x8 in sysfs; TPU_ACCELERATOR_TYPE=v6e-8"
};

struct bench_cpu {
    char model[96], id[32], features[512];
    int cores_online, cores_allowed; // of the machine; by affinity
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

// Fills machine with the CPU and the chips that it finds. sysroot: where the files of another machine are, by
// which it is described; NULL or "": this machine.
void bench_detect(struct bench_machine *machine, const struct bench_specs *specs, const char *sysroot);

// Fills machine->cpu.
void bench_detect_cpu(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the chips that are on the PCI bus.
void bench_detect_pci(struct bench_machine *machine, const struct bench_specs *specs);
// Checks AMD's chips, which were found on the bus, against the topology that the driver tells, and marks
// those that are partitioned.
void bench_detect_amd(struct bench_machine *machine, const struct bench_specs *specs);
// Adds TPUs by the type that the environment or, without it, the metadata server tells.
void bench_detect_tpu(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the chip that the plugin of PJRT tells, or checks the one that was found.
void bench_detect_pjrt(struct bench_machine *machine, const struct bench_specs *specs);
// Renames Nvidia's chips, which were found on the bus, by the name that the driver tells, and marks those
// that MIG divides.
void bench_detect_nvidia(struct bench_machine *machine, const struct bench_specs *specs);
// Adds the GPU of an Apple chip, by the device tree.
void bench_detect_apple(struct bench_machine *machine, const struct bench_specs *specs);

// Adds a chip of the table; if spec is NULL, one of this name and kind. Returns the chip; one that belongs to
// no machine if there is no room.
struct bench_chip *bench_add_chip(struct bench_machine *machine, text_json_value spec, const char *name,
                                  const char *kind);
// Returns the machine's chip with this id; NULL if there is none.
struct bench_chip *bench_machine_chip(struct bench_machine *machine, const char *id);
// Appends what a chip was recognised by, after "; " unless it is the first. What does not fit is left out.
void bench_add_evidence(char evidence[BENCH_EVIDENCE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Reads the first line of a file below the sysroot, without its end, as far as there is room. Returns false
// if the file is not there or is empty.
bool bench_read_line(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Reads a whole file in the same way.
bool bench_read_text(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Returns a variable of the environment, or of the file etc/environment below a sysroot, until the next call.
// NULL if it is not set.
const char *bench_environment(const struct bench_machine *machine, const char *name);

// nvml.c ----------------------------------------------------------------------------------------------------

// What a device tells while it works. NaN: it does not.
struct bench_reading {
    double clock_mhz, power_w, temperature_c;
    char throttle[96]; // reasons that a clock is low; "": none
};
// Returns how many GPUs there are; 0 without NVML's library or a driver.
int bench_nvml_count(void);
// Copies the name of a GPU. Returns false if NVML does not tell it.
bool bench_nvml_name(int index, char *out, size_t bytes);
// Returns whether MIG divides a GPU.
bool bench_nvml_is_split(int index);
// Sets those members of *reading that NVML tells of a GPU. Returns false if there is no such GPU.
bool bench_nvml_read(int index, struct bench_reading *reading);

// stats.c ---------------------------------------------------------------------------------------------------

struct bench_stats {
    int count, outliers; // by modified z-scores
    double median, low, high; // and the interval that holds it with 95 %
    double mad, p5, p95, best;
    bool bimodal;
};
// Fills *out from samples in any order. Without samples, or if memory runs out, the figures are NaN.
void bench_statistics(const double *sample, int count, struct bench_stats *out);
// Returns the quantile q, from 0 to 1, of samples in ascending order; NaN if there are none.
double bench_quantile(const double *sorted, int count, double q);
// Sets *low and *high to the 95 % confidence interval of the median, by resampling; NaN without samples.
void bench_median_interval(const double *sample, int count, double *low, double *high);
// Sets *low and *high to that of the ratio of two quantiles q: the one after divided by the one before.
void bench_ratio_interval(const double *before, int before_count, const double *after, int after_count,
                          double q, double *low, double *high);

// cpu_peaks.c -----------------------------------------------------------------------------------------------

enum { BENCH_INSTRUCTIONS_MOST = 16 };

struct bench_cpu_peaks {
    double clock_hz;
    struct {
        const char *name;
        zl_dtype dtype;
        double rate; // operations per second of one core
        double all;  // of all threads at once; 0: not measured
    } instruction[BENCH_INSTRUCTIONS_MOST];
    int count, threads;
    double copy, read; // bytes per second of all threads: read and written, read
};
// Measures the peaks of this CPU's instructions, and those of its memory.
void bench_measure_cpu_peaks(struct bench_cpu_peaks *peaks, double seconds);
// Returns the operations per second of the fastest instruction of a dtype, on all threads; NaN if there is
// none. Sets *name to the instruction's, unless name is NULL.
double bench_cpu_peak(const struct bench_cpu_peaks *peaks, enum bench_dtype dtype, const char **name);

// all_cores.c -----------------------------------------------------------------------------------------------

struct bench_instruction;
// Fills `all` of the instructions. Takes at most so many seconds, and less when all cores are as fast
// together as each alone.
void bench_measure_all_cores(struct bench_cpu_peaks *peaks, const struct bench_instruction **instruction,
                             const int64_t *loops, double seconds);
// Binds the calling thread to the index-th core that it may run on, if there is one.
void bench_stay_on_core(int index);

// environment.c ---------------------------------------------------------------------------------------------

// Returns the seconds of a monotonic clock.
double bench_now(void);
// Returns which part, 0 to 1, of the CPUs' time since the last call other virtual machines took; NaN if the
// system does not tell.
double bench_steal(void);
// Returns how many processes want to run, on average over the last minute; NaN if the system does not tell.
double bench_load(void);
// Returns clock, power and temperature of "cpu", or for any other device of the first GPU that NVML has.
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
    char id[96]; // results of equal ids are compared
};

struct bench_work {
    const struct bench_work_kind *kind;
    const struct bench_config *config;
    bool zeros;          // data without entropy: chips are faster on it
    const char *device;  // that it runs on; NULL: cpu
    bool is_async;       // the device runs behind our back: evaluations are queued, then waited for
    bool tells_seconds;  // the device runs tile kernels alone, and tells itself how long they take
    bool is_modelled;    // by a model, which says the same each time
    bool is_absent;      // it could not be prepared since there is no such thing, which is no failure
    zl_array in[8];      // owned
    int inputs;
    void *data;          // owned, by malloc
    double flops, bytes; // of one run
    double items;        // calls, rows or images of one run; 0: not what is counted
    char why[256];       // it failed, where zl_error() has nothing to say
};

// One way to work, a line of works.def. record gives a result that is not evaluated yet; where that is not
// what is measured, run does it so many times and waits.
struct bench_work_kind {
    const char *name;
    const char *unit;    // of its rate: "FLOP", "B", "calls", "images"
    const char *summary;
    bool (*prepare)(struct bench_work *w);
    zl_array (*record)(struct bench_work *w);
    bool (*run)(struct bench_work *w, int count);
    bool (*verify)(struct bench_work *w); // the result is right, by a reference on samples; false: w->why
    // of one run, where w->tells_seconds; NULL: it needs a device of arrays
    bool (*tell)(struct bench_work *w, double *seconds);
    void (*finish)(struct bench_work *w); // frees what w->data holds, before that is freed; NULL: nothing
};

// Returns the kind of work at this index; NULL past the last.
const struct bench_work_kind *bench_work_kind(int index);
// Returns the kind of work of this name; NULL if there is none.
const struct bench_work_kind *bench_work_find(const char *name);
// Prepares a configuration, which the caller keeps, with the members of w that say how it runs. Returns
// false, with w->why or zl_error(), if that fails. The caller calls bench_work_finish in any case.
bool bench_work_prepare(struct bench_work *w, const struct bench_config *config);
// Runs the work so many times and waits until the results are there. Returns false, with w->why or
// zl_error(), if that fails.
bool bench_work_run(struct bench_work *w, int count);
// Runs the work once. Returns whether part of it runs on the CPU instead of the device: its time is then not
// the device's.
bool bench_work_falls_back(struct bench_work *w);
// Releases the arrays and frees the data of the work.
void bench_work_finish(struct bench_work *w);

// For kinds of work.

// Evaluates an array and keeps it in w->in. Returns it; NULL if that fails.
zl_array bench_hold(struct bench_work *w, zl_array a);
// Returns an array of random numbers of the configuration's dtype, or of zeros if w->zeros, kept in the same
// way.
zl_array bench_random(struct bench_work *w, zl_shape shape);
// Sets w->why. Returns false.
bool bench_fail(struct bench_work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns all elements as doubles, which the caller frees; NULL if that fails.
double *bench_elements(zl_array a);
// Returns the relative precision of results of a dtype, 0 for integers; results of fp8 are bf16.
double bench_dtype_epsilon(enum bench_dtype dtype);

// measure.c -------------------------------------------------------------------------------------------------

struct bench_timing {
    double seconds, warm_seconds; // at most
    int least, most;              // samples
    bool wipe;                    // caches before each sample
    bool zeros;
};
struct bench_samples {
    double *second; // of one run each, in the order they were taken; to be freed
    int count;
    int inner;      // runs in a sample
    int warm;       // runs before the first
    bool stable;    // the last of them agreed
    bool slope;     // what starting costs is not in them, by two lengths
    double start;   // seconds that were taken off for that
};
// Takes samples of work that is prepared. Returns false if there is not one. The caller frees out->second in
// any case.
bool bench_measure(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out);
// Replaces the seconds of `inner` runs in `once` by seconds of one run: those of twice as many runs, less
// what starting costs, divided by their number. What starting costs follows from the best of both. (The best
// difference of two neighbours would be one whose shorter sample was disturbed.) Returns what starting costs,
// in seconds.
double bench_take_start_off(double *once, const double *twice, int count, int inner);

// suite.c ---------------------------------------------------------------------------------------------------

struct bench_suite {
    char name[64];
    struct bench_config *config; // owned
    int count;
    struct bench_timing timing;
};
// Opens a suite that is built in, by its name, or a file. Returns false, with a message in `error`, if that
// fails. The caller closes it with bench_suite_close.
bool bench_suite_open(struct bench_suite *suite, const char *name, char *error, size_t error_bytes);
// Frees the configurations.
void bench_suite_close(struct bench_suite *suite);
// Appends a copy of a configuration and sets its id. Returns false if memory runs out.
bool bench_suite_add(struct bench_suite *suite, const struct bench_config *config);
// Sets the id of a configuration from its other members.
void bench_config_name(struct bench_config *config);

// work_llm.c ------------------------------------------------------------------------------------------------

// Opens the model that works `llm` measure, a checkpoint or, with random weights, a config.json, and gives
// their configurations in the suite its name and dtype. Returns false, with a message in `error`, if that
// fails.
bool bench_llm_open(const char *path, struct bench_suite *suite, char *error, size_t error_bytes);
// Closes that model.
void bench_llm_close(void);

// result.c and guard.c --------------------------------------------------------------------------------------

enum bench_status {
    BENCH_OK,
    BENCH_SUSPECT, // faster than its peak: the note says what may be behind it
    BENCH_FAILED,  // a wrong result, or an error
    BENCH_ABSENT,  // the device cannot do it (yet)
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
    bool is_modelled;           // the samples are a model's, not a clock's
    double start;               // seconds that starting takes, which are in no sample; 0: that is not known
    // most bytes of arrays in use during a run, inputs among them; 0: that is not known
    double memory;
    double rate;                // units a second, of the median
    double peak, utilisation;   // NaN: not known
    char path[32];              // as struct bench_peak has it
    double limit;               // the roofline at its intensity, in units a second; NaN: not known
    bool memory_bound;
    double steal, load;
    struct bench_reading before, after;
};

// What rows are judged by: the chip, and what it can do at most.
struct bench_subject {
    char chip[32], name[96], device[16];
    struct bench_peak peak[BENCH_DTYPES];
    double bandwidth;        // bytes per second
    double clock_hz;         // measured; NaN: not
    double devices_per_chip;
    int threads;
    bool is_measured;        // peaks are this machine's own
    bool is_modelled;        // there is no chip: times are a model's
};
// Fills s for this machine's CPU from the peaks that were measured; --peak comes before them.
void bench_subject_of_cpu(struct bench_subject *s, const struct bench_machine *machine,
                          const struct bench_specs *specs, const struct bench_cpu_peaks *peaks);
// Fills s for a chip from the table. A chip that is shared has no peaks.
void bench_subject_of_chip(struct bench_subject *s, const struct bench_chip *chip,
                           const struct bench_specs *specs);

// Fills rate, peak, utilisation and limit from the statistics, and calls bench_guard.
void bench_judge(struct bench_row *row, const struct bench_subject *subject);
// Marks a result that is faster than its peak as suspect, with what may be the cause in its note.
void bench_guard(struct bench_row *row, const struct bench_subject *subject);

struct bench_run {
    char folder[256], suite[64], status[16]; // "running", "complete", "interrupted"
    char started[32], version[16], commit[48], branch[64], command[256], host[64], notes[256];
    int dirty;         // files that differ from the commit
    char changed[512]; // their names, as many as there is room for
    char baseline[256]; // that it was compared with; "": none
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
// Returns whether a row is right, but its samples had not settled when they were taken.
bool bench_row_is_unstable(const struct bench_row *row);
// Returns how many rows are unstable.
int bench_run_unstable(const struct bench_run *run);
// Frees the rows and their samples.
void bench_run_free(struct bench_run *run);

// Measures one configuration; row->status says how it went.
void bench_measure_row(struct bench_row *row, const struct bench_config *config,
                       const struct bench_subject *subject, const struct bench_timing *timing);

// run_json.c ------------------------------------------------------------------------------------------------

// Writes metrics.json.
void bench_write_run(FILE *out, const struct bench_run *run);
// Writes a row as a line of the journal.
void bench_write_row(FILE *out, const struct bench_row *row);
// Reads a run from its folder or from a file as metrics.json is. Returns false, with a message in `error`, if
// that fails; else the caller frees it with bench_run_free.
bool bench_read_run(struct bench_run *run, const char *path, char *error, size_t error_bytes);
// Reads a row from a JSON object. Returns false if it is none, or memory runs out.
bool bench_read_row(struct bench_row *row, text_json_value object);

// Output: table.c, csv.c, markdown.c ------------------------------------------------------------------------

// Return a number as text, which they write to `out`: "83.1 GFLOP/s"; "268.4 MB"; "1.25 ms"; "63.5 %" for
// 0.635. A number that is not finite, or 0 bytes, becomes "-"; a part that is not finite "n/a".
const char *bench_format_rate(double rate, const char *unit, char out[32]);
const char *bench_format_bytes(double bytes, char out[32]);
const char *bench_format_seconds(double seconds, char out[32]);
const char *bench_format_percent(double part, char out[16]);

// Prints what comes before the rows of a run: the chip, its peaks and the heads of the columns.
void bench_table_head(const struct bench_run *run);
// Prints a row.
void bench_table_row(const struct bench_row *row);
// Shows, on standard error, a bar with the time that is left; without a terminal, a line every ten seconds.
// Removes the bar if all is 0. started: by bench_now.
void bench_progress(int done, int all, double started, const char *what);
// Writes results.csv.
void bench_write_csv(FILE *out, const struct bench_run *run);
// Writes results.md.
void bench_write_markdown(FILE *out, const struct bench_run *run);
// Writes text, with what Markdown and HTML take for markup escaped.
void bench_markdown(FILE *out, const char *text);
// Writes text as code of Markdown.
void bench_markdown_code(FILE *out, const char *text);

// run_folder.c ----------------------------------------------------------------------------------------------

// Creates a folder below `root`, named by the time, and sets run->folder and run->started. Returns false,
// with a message in `error`, if that fails.
bool bench_folder_new(struct bench_run *run, const char *root, char *error, size_t error_bytes);
// Writes a file of the run's folder, whole or not at all. Returns false if that fails.
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

// The history is index.jsonl below `root`, with a line per run. Runs are of one kind when chip, device,
// threads and suite are the same.

// Appends a run to the history. Returns false if that fails.
bool bench_history_add(const struct bench_run *run, const char *root);
// Sets *folders to those of earlier runs of this kind, the oldest first, which the caller frees with
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
    double *sample[2]; // before and after, of those that were measured in turns; owned, NULL: not kept
    int samples;
};
// Compares samples that were taken in turns (after[i] right after before[i], or the other way round), or each
// on their own. threshold: the relative difference up to which times are the same. Returns the comparison,
// without its id.
struct bench_comparison bench_compare_samples(const double *before, int before_count, const double *after,
                                              int after_count, double threshold, bool in_turns);
// Fills `why` with the reason that two runs cannot be compared at all; "" if they can.
void bench_compare_runs(const struct bench_run *before, const struct bench_run *after, char *why,
                        size_t bytes);
// Compares two rows. Returns the comparison, with a reason if one of them failed or only one is modelled.
struct bench_comparison bench_compare_rows(const struct bench_row *before, const struct bench_row *after,
                                           double threshold);

// A list of comparisons, and what it comes to.
struct bench_comparisons {
    struct bench_comparison *item; // owned
    int count, of[BENCH_VERDICTS];
    bool in_turns;
};
// Frees the samples of a comparison.
void bench_comparison_free(struct bench_comparison *c);
// Appends a comparison, whose samples belong to the list then. Returns false, and takes nothing, if memory
// runs out.
bool bench_comparisons_add(struct bench_comparisons *list, struct bench_comparison c);
// Appends the comparisons of the rows that both runs have.
void bench_compare_all(struct bench_comparisons *list, const struct bench_run *before,
                       const struct bench_run *after, double threshold);
// Frees the comparisons and clears the list.
void bench_comparisons_free(struct bench_comparisons *list);

// interleave.c ----------------------------------------------------------------------------------------------

// Measures the configurations of a suite with `only` in their names (NULL: all) with another `zellige`, which
// is before, and with this one in turns. Returns false, with a message in `error`, if that fails. After
// Ctrl-C the list has those that were complete.
bool bench_interleave(struct bench_comparisons *list, const struct bench_suite *suite, const char *device,
                      const char *program, const char *only, double threshold, char *error,
                      size_t error_bytes);

// record.c --------------------------------------------------------------------------------------------------

// Appends a line with all samples to a file. Returns false if it cannot be written.
bool bench_record_add(const char *path, const struct bench_comparisons *list);
// Compares the samples of such a line again. Returns false if it is no such line.
bool bench_record_replay(struct bench_comparisons *list, const char *line, double threshold);

// html.c and charts.c ---------------------------------------------------------------------------------------

// Writes report.html, one page that needs no other file. The history of runs is read from the folder that has
// the run's folder.
void bench_write_html(FILE *out, const struct bench_run *run);
// Writes HTML: the format as it is, every %s with what HTML takes for markup escaped, in texts and in quoted
// attributes. All of the page that is not constant goes through it. Conversions are %s, %d, %%, and %f and %g
// with a precision.
void bench_html(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Writes a section with a chart, or nothing if there are too few rows for it. This one: rates by intensity,
// below the roofline.
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
