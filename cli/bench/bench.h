// bench.h - `zellige bench`: which chip this is, how fast it is, whether it got slower. doc/bench.md tells how data
// flows through the files, which are the sections here.

#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "zellige.h"

// Files that the program carries in itself ----------------------------------------------------------------------

struct bench_file {
    const char *name, *text;
};
extern const struct bench_file bench_files[]; // the last has no name
const char *bench_file_find(const char *name); // NULL: none

// json.c --------------------------------------------------------------------------------------------------------

typedef struct json_t *bench_json; // NULL: nothing there; every function takes that

bool bench_json_available(void);
bench_json bench_json_parse(const char *text, const char *name, char *error, size_t error_bytes);
bench_json bench_json_load(const char *path, char *error, size_t error_bytes);
void bench_json_free(bench_json root); // of what parse or load gave; the values inside go with it
bench_json bench_json_get(bench_json object, const char *key);
bench_json bench_json_member(bench_json object, int index, const char **key); // NULL past the last
int bench_json_count(bench_json array);
bench_json bench_json_at(bench_json array, int index);
bool bench_json_is_list(bench_json value);
bool bench_json_true(bench_json value);
const char *bench_json_text(bench_json value);  // NULL: it is no text
double bench_json_number(bench_json value);     // NaN: it is no number
const char *bench_json_text_of(bench_json object, const char *key); // "": none
double bench_json_number_of(bench_json object, const char *key);
bool bench_json_lists(bench_json list, const char *word);

// specs.c -------------------------------------------------------------------------------------------------------

// What peaks are known for, in this order in tables. tf32 and fp8 are ways to compute, not dtypes of arrays.
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
zl_dtype bench_dtype_of_arrays(enum bench_dtype dtype); // ZL_DTYPE_COUNT: there are no such arrays

struct bench_specs {
    bench_json root;
    char source[256];                // "built in", or the file
    double override[BENCH_DTYPES];   // --peak, in operations a second; NaN: none
};

// path NULL: the table that is built in.
bool bench_specs_open(struct bench_specs *specs, const char *path, char *error, size_t error_bytes);
bool bench_specs_override(struct bench_specs *specs, const char *list, char *error, size_t error_bytes); // "bf16=918,f32=459"
void bench_specs_close(struct bench_specs *specs);

bench_json bench_chip_by_id(const struct bench_specs *specs, const char *id);
bench_json bench_chip_by_pci(const struct bench_specs *specs, unsigned vendor, unsigned device);
// By a word of its list `detect.<list>`: "nvml_names", "pjrt_device_kind", "sysctl_brand", "hip_names". Whole words only.
bench_json bench_chip_by_name(const struct bench_specs *specs, const char *list, const char *name);
bench_json bench_chip_by_accelerator_type(const struct bench_specs *specs, const char *type); // "v6e-8"

// What one device of a chip can do at most. A chip that shows itself as two devices has half of it for each.
struct bench_peak {
    double rate;      // operations a second; NaN: nobody published one
    char path[32];    // how the dtype is computed: "f32 (bf16 path)"; "": as it is
    char source[96];
    double clock_mhz; // that the figure assumes; NaN: not said
};
struct bench_peak bench_spec_peak(const struct bench_specs *specs, bench_json chip, enum bench_dtype dtype);
double bench_spec_bandwidth(bench_json chip); // bytes a second of one device; NaN: unknown

// detect.c and detect_*.c ---------------------------------------------------------------------------------------

enum { BENCH_CHIPS_MOST = 8, BENCH_EVIDENCE = 384 };

struct bench_chip {
    char id[32];    // of the table of specs; "": a chip that it does not know
    char name[96];
    char kind[8];   // "cpu", "gpu", "tpu", "npu"
    char device[16]; // device of Zellige that runs on it: "cpu", "cuda", "pjrt", ...
    int chips, devices;
    bool shared;    // part of a chip, as MIG makes: its peak is not the table's
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
    struct bench_chip chip[BENCH_CHIPS_MOST]; // accelerators first, the CPU last
    int count;
};

void bench_detect(struct bench_machine *machine, const struct bench_specs *specs, const char *sysroot);

void bench_detect_cpu(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_pci(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_amd(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_tpu(struct bench_machine *machine, const struct bench_specs *specs); // environment, metadata server
void bench_detect_nvidia(struct bench_machine *machine, const struct bench_specs *specs);
void bench_detect_apple(struct bench_machine *machine, const struct bench_specs *specs);

struct bench_chip *bench_add_chip(struct bench_machine *machine, bench_json spec, const char *name, const char *kind);
struct bench_chip *bench_machine_chip(struct bench_machine *machine, const char *id); // NULL: none
void bench_add_evidence(char evidence[BENCH_EVIDENCE], const char *format, ...) __attribute__((format(printf, 2, 3)));
// First line of a file below the sysroot, without its end; false: not there.
bool bench_read_line(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool bench_read_text(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// A variable of the environment, or of the file etc/environment below a sysroot. NULL: not set.
const char *bench_environment(const struct bench_machine *machine, const char *name);

// nvml.c --------------------------------------------------------------------------------------------------------

// What a device tells while it works. NaN: it does not.
struct bench_reading {
    double clock_mhz, power_w, temperature_c;
    char throttle[96]; // reasons that a clock is low; "": none
};
int bench_nvml_count(void); // 0: no library, no driver, or no GPU
bool bench_nvml_name(int index, char *out, size_t bytes);
bool bench_nvml_is_split(int index); // by MIG
bool bench_nvml_read(int index, struct bench_reading *reading);

#endif
