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
const char *bench_file_find(const char *name); // its text; NULL: none
const char *bench_file_hash(const char *name); // NULL: none

// json.c ----------------------------------------------------------------------------------------------------

// Copies a text of an object, "" if there is none, as far as there is room for whole characters. Files come
// from other machines: what terminals would take for commands is taken out, as cli_clean says.
void bench_json_copy(text_json_value object, const char *key, bool lines, char *out, size_t bytes);
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
const char *bench_dtype_name(enum bench_dtype dtype); // "bf16"
enum bench_dtype bench_dtype_find(const char *name);  // BENCH_DTYPES: unknown
zl_dtype bench_dtype_of_arrays(enum bench_dtype dtype); // float32 of tf32, uint8 of fp8

struct bench_specs {
    text_json_value root;
    char source[256];                // "built in", or the file
    double override[BENCH_DTYPES];   // --peak, in operations per second; NaN: none
};

// path NULL: the table that is built in.
bool bench_specs_open(struct bench_specs *specs, const char *path, char *error, size_t error_bytes);
// "bf16=918,f32=459"
bool bench_specs_override(struct bench_specs *specs, const char *list, char *error, size_t error_bytes);
void bench_specs_close(struct bench_specs *specs);

text_json_value bench_chip_by_id(const struct bench_specs *specs, const char *id);
text_json_value bench_chip_by_pci(const struct bench_specs *specs, unsigned vendor, unsigned device);
// By a word of its list `detect.<list>`: "nvml_names", "pjrt_device_kind", "sysctl_brand", "hip_names". Whole
// words only.
text_json_value bench_chip_by_name(const struct bench_specs *specs, const char *list, const char *name);
text_json_value bench_chip_by_accelerator_type(const struct bench_specs *specs, const char *type); // "v6e-8"

// What one device of a chip can do at most. A chip that shows itself as two devices has half of it for each.
struct bench_peak {
    double rate;      // operations per second; NaN: nobody published one
    char path[32];    // how the dtype is computed: "f32 (bf16 path)"; "": as it is
    char source[96];
    double clock_mhz; // that the figure assumes; NaN: not said
};
struct bench_peak bench_spec_peak(const struct bench_specs *specs, text_json_value chip,
                                  enum bench_dtype dtype);
double bench_spec_bandwidth(text_json_value chip); // bytes per second of one device; NaN: unknown

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

void bench_detect(struct bench_machine *machine, const struct bench_specs *specs, const char *sysroot);

void bench_detect_cpu(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_pci(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_amd(struct bench_machine *machine, const struct bench_specs *specs);
// environment, metadata server
void bench_detect_tpu(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_pjrt(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_nvidia(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_apple(struct bench_machine *machine, const struct bench_specs *specs);

struct bench_chip *bench_add_chip(struct bench_machine *machine, text_json_value spec, const char *name,
                                  const char *kind);
struct bench_chip *bench_machine_chip(struct bench_machine *machine, const char *id); // NULL: none
void bench_add_evidence(char evidence[BENCH_EVIDENCE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// First line of a file below the sysroot, without its end; false: not there.
bool bench_read_line(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool bench_read_text(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// A variable of the environment, or of the file etc/environment below a sysroot. NULL: not set.
const char *bench_environment(const struct bench_machine *machine, const char *name);

// nvml.c ----------------------------------------------------------------------------------------------------

// What a device tells while it works. NaN: it does not.
struct bench_reading {
    double clock_mhz, power_w, temperature_c;
    char throttle[96]; // reasons that a clock is low; "": none
};
int bench_nvml_count(void); // 0: no library, no driver, or no GPU
bool bench_nvml_name(int index, char *out, size_t bytes);
bool bench_nvml_is_split(int index); // by MIG
bool bench_nvml_read(int index, struct bench_reading *reading);

// stats.c ---------------------------------------------------------------------------------------------------

struct bench_stats {
    int count, outliers; // by modified z-scores
    double median, low, high; // and the interval that holds it with 95 %
    double mad, p5, p95, best;
    bool bimodal;
};
void bench_statistics(const double *sample, int count, struct bench_stats *out);
double bench_quantile(const double *sorted, int count, double q);
void bench_median_interval(const double *sample, int count, double *low, double *high);
// Of the quantile q after, divided by that before.
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
void bench_measure_cpu_peaks(struct bench_cpu_peaks *peaks, double seconds);
// The fastest instruction of a dtype, on all threads; NaN: none. name: which; may be NULL.
double bench_cpu_peak(const struct bench_cpu_peaks *peaks, enum bench_dtype dtype, const char **name);

// all_cores.c -----------------------------------------------------------------------------------------------

struct bench_instruction;
// Fills `all` of the instructions; at most so many seconds, less when all cores are as fast together as each
// alone.
void bench_measure_all_cores(struct bench_cpu_peaks *peaks, const struct bench_instruction **instruction,
                             const int64_t *loops, double seconds);
void bench_stay_on_core(int index); // the calling thread, to the index-th core that is ours

// environment.c ---------------------------------------------------------------------------------------------

double bench_now(void); // seconds
// Part of the time since the last call that other machines took of ours, 0 to 1; NaN: the system does not
// tell.
double bench_steal(void);
double bench_load(void); // processes that want to run, over the last minute
struct bench_reading bench_read_device(const char *device);
struct bench_run;
void bench_write_environment(FILE *out, const struct bench_run *run); // env.json

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

const struct bench_work_kind *bench_work_kind(int index); // NULL past the last
const struct bench_work_kind *bench_work_find(const char *name);
// false: w->why or zl_error()
bool bench_work_prepare(struct bench_work *w, const struct bench_config *config);
bool bench_work_run(struct bench_work *w, int count);
// one run leaves the device for the CPU: its time is not the device's
bool bench_work_falls_back(struct bench_work *w);
void bench_work_finish(struct bench_work *w);

// For kinds: arrays that the work owns. dtype as the config has it.
zl_array bench_hold(struct bench_work *w, zl_array a);       // evaluates and keeps; NULL: failed
zl_array bench_random(struct bench_work *w, zl_shape shape); // held
bool bench_fail(struct bench_work *w, const char *format, ...) __attribute__((format(printf, 2, 3))); // false
// All elements as double, to be freed; NULL: failed.
double *bench_elements(zl_array a);
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
bool bench_measure(struct bench_work *w, const struct bench_timing *timing, struct bench_samples *out);
// From seconds of inner runs and of twice as many to seconds of one run, in `once`: the longer ones, less
// what starting costs by the best of both. Differences of neighbours would not do: their best is where the
// shorter one was disturbed. Returns what was taken off.
double bench_take_start_off(double *once, const double *twice, int count, int inner);

// suite.c ---------------------------------------------------------------------------------------------------

struct bench_suite {
    char name[64];
    struct bench_config *config; // owned
    int count;
    struct bench_timing timing;
};
// name: of one that is built in, or a file.
bool bench_suite_open(struct bench_suite *suite, const char *name, char *error, size_t error_bytes);
void bench_suite_close(struct bench_suite *suite);
bool bench_suite_add(struct bench_suite *suite, const struct bench_config *config); // false: out of memory
void bench_config_name(struct bench_config *config); // sets id

// work_llm.c ------------------------------------------------------------------------------------------------

// Opens the model that works `llm` measure, a checkpoint or, with random weights, a config.json, and gives
// their configurations in the suite its name and dtype. False with an error.
bool bench_llm_open(const char *path, struct bench_suite *suite, char *error, size_t error_bytes);
void bench_llm_close(void);

// result.c and guard.c --------------------------------------------------------------------------------------

enum bench_status {
    BENCH_OK,
    BENCH_SUSPECT, // faster than its peak: the note says what may be behind it
    BENCH_FAILED,  // a wrong result, or an error
    BENCH_ABSENT,  // the device cannot do it (yet)
    BENCH_STATUSES
};
const char *bench_status_name(enum bench_status status);
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
void bench_subject_of_cpu(struct bench_subject *s, const struct bench_machine *machine,
                          const struct bench_specs *specs, const struct bench_cpu_peaks *peaks);
void bench_subject_of_chip(struct bench_subject *s, const struct bench_chip *chip,
                           const struct bench_specs *specs);

// Fills rate, peak, utilisation and limit from the statistics, and marks what cannot be.
void bench_judge(struct bench_row *row, const struct bench_subject *subject);
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
struct bench_row *bench_run_add(struct bench_run *run); // NULL: out of memory
const struct bench_row *bench_run_find(const struct bench_run *run, const char *id);
bool bench_run_has(const struct bench_run *run, enum bench_status status);
// it is right, but its samples had not settled when they were taken
bool bench_row_is_unstable(const struct bench_row *row);
int bench_run_unstable(const struct bench_run *run);     // how many such rows
void bench_run_free(struct bench_run *run);

// Measures one configuration; row->status says how it went.
void bench_measure_row(struct bench_row *row, const struct bench_config *config,
                       const struct bench_subject *subject, const struct bench_timing *timing);

// run_json.c ------------------------------------------------------------------------------------------------

void bench_write_run(FILE *out, const struct bench_run *run);  // metrics.json
void bench_write_row(FILE *out, const struct bench_row *row);  // a line of the journal
// a folder or a file
bool bench_read_run(struct bench_run *run, const char *path, char *error, size_t error_bytes);
bool bench_read_row(struct bench_row *row, text_json_value object);

// Output: table.c, csv.c, markdown.c ------------------------------------------------------------------------

const char *bench_format_rate(double rate, const char *unit, char out[32]);  // "83.1 GFLOP/s"
// "268.4 MB"; "-" where there are none
const char *bench_format_bytes(double bytes, char out[32]);
const char *bench_format_seconds(double seconds, char out[32]);              // "1.25 ms"
const char *bench_format_percent(double part, char out[16]);                 // "63.5 %"; "n/a"

void bench_table_head(const struct bench_run *run);
void bench_table_row(const struct bench_row *row);
// A bar with the time that is left; where there is no terminal a line each ten seconds. all 0: takes it away.
void bench_progress(int done, int all, double started, const char *what);
void bench_write_csv(FILE *out, const struct bench_run *run);
void bench_write_markdown(FILE *out, const struct bench_run *run);
void bench_markdown(FILE *out, const char *text);      // with what Markdown and HTML take for markup escaped
void bench_markdown_code(FILE *out, const char *text); // as code

// run_folder.c ----------------------------------------------------------------------------------------------

// A new folder below `root`, by the time; run->folder and run->started are set.
bool bench_folder_new(struct bench_run *run, const char *root, char *error, size_t error_bytes);
bool bench_folder_write(const struct bench_run *run, const char *name,
                        void (*write)(FILE *out, const struct bench_run *run));
FILE *bench_append(const char *path); // for one more line; NULL: cannot be written
// A line of log.txt, with the time: what happened when.
void bench_log(const struct bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_describe_source(struct bench_run *run); // commit, branch, dirty files of the folder that we are in
// Journal: every row as soon as it is there.
bool bench_journal_add(const struct bench_run *run, const struct bench_row *row);
int bench_journal_read(struct bench_run *run); // rows that an interrupted run has; -1: no journal

// history.c -------------------------------------------------------------------------------------------------

// runs/index.jsonl: a line a run. Runs are of one kind when chip, device, threads and suite are the same.
bool bench_history_add(const struct bench_run *run, const char *root);
// Folders of earlier runs of this kind, the oldest first; to be freed, each and the list. Returns how many.
int bench_history_find(const struct bench_run *run, const char *root, char ***folders);
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
const char *bench_verdict_name(enum bench_verdict verdict);

struct bench_comparison {
    char id[96];
    enum bench_verdict verdict;
    double ratio, low, high; // seconds after divided by those before, and its 95 % interval
    char why[160];
    double *sample[2]; // before and after, of those that were measured in turns; owned, NULL: not kept
    int samples;
};
// Of samples that were taken in turns (before[i] beside after[i]), or each on their own.
struct bench_comparison bench_compare_samples(const double *before, int before_count, const double *after,
                                              int after_count, double threshold, bool in_turns);
// Why two runs cannot be compared at all; "": they can.
void bench_compare_runs(const struct bench_run *before, const struct bench_run *after, char *why,
                        size_t bytes);
struct bench_comparison bench_compare_rows(const struct bench_row *before, const struct bench_row *after,
                                           double threshold);

// A list of comparisons, and what it comes to.
struct bench_comparisons {
    struct bench_comparison *item; // owned
    int count, of[BENCH_VERDICTS];
    bool in_turns;
};
void bench_comparison_free(struct bench_comparison *c);
// false: out of memory, c is not taken
bool bench_comparisons_add(struct bench_comparisons *list, struct bench_comparison c);
void bench_compare_all(struct bench_comparisons *list, const struct bench_run *before,
                       const struct bench_run *after, double threshold);
void bench_comparisons_free(struct bench_comparisons *list);

// interleave.c ----------------------------------------------------------------------------------------------

// Measures the suite with this program and another `zellige` in turns. False after an error; one that
// is interrupted has what it has.
bool bench_interleave(struct bench_comparisons *list, const struct bench_suite *suite, const char *device,
                      const char *program, const char *only, double threshold, char *error,
                      size_t error_bytes);

// record.c --------------------------------------------------------------------------------------------------

// appends a line with all samples
bool bench_record_add(const char *path, const struct bench_comparisons *list);
// Compares the samples of such a line anew. False: it is none.
bool bench_record_replay(struct bench_comparisons *list, const char *line, double threshold);

// html.c and charts.c ---------------------------------------------------------------------------------------

// report.html: one page that needs nothing else. The history of runs is read from beside the run's folder.
void bench_write_html(FILE *out, const struct bench_run *run);
// Writes HTML: the format as it is, every %s with what HTML takes for markup escaped, in texts and in quoted
// attributes. All of the page that is not constant goes through it. Conversions are %s, %d, %%, and %f and %g
// with a precision.
void bench_html(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

void bench_chart_roofline(FILE *out, const struct bench_run *run);
void bench_chart_heat(FILE *out, const struct bench_run *run);  // utilisation of products by size and dtype
void bench_chart_bars(FILE *out, const struct bench_run *run);  // best product of each dtype beside its peak
void bench_chart_bandwidth(FILE *out, const struct bench_run *run);
void bench_chart_trend(FILE *out, const struct bench_run *runs, int count); // the oldest first

#endif
