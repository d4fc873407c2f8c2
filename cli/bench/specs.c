// specs.c - the table of chips: hw_specs.json, built in or from a file, and the peaks of --peak, which
// replace it.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name;
    zl_dtype arrays;
} dtypes[BENCH_DTYPES] = {
    [BENCH_F64] = {"f64", ZL_FLOAT64},   [BENCH_F32] = {"f32", ZL_FLOAT32},
    [BENCH_TF32] = {"tf32", ZL_FLOAT32}, [BENCH_BF16] = {"bf16", ZL_BFLOAT16},
    [BENCH_F16] = {"f16", ZL_FLOAT16},   [BENCH_FP8] = {"fp8", ZL_UINT8},
    [BENCH_INT8] = {"int8", ZL_INT8},
};

const char *bench_dtype_name(enum bench_dtype dtype) {
    return dtype < BENCH_DTYPES ? dtypes[dtype].name : "";
}

enum bench_dtype bench_dtype_find(const char *name) {
    for (int i = 0; i < BENCH_DTYPES; i++)
        if (!strcmp(dtypes[i].name, name))
            return (enum bench_dtype)i;
    return BENCH_DTYPES;
}

zl_dtype bench_dtype_of_arrays(enum bench_dtype dtype) {
    return dtype < BENCH_DTYPES ? dtypes[dtype].arrays : ZL_DTYPE_COUNT;
}

static const struct bench_file *find_file(const char *name) {
    const struct bench_file *file = bench_files;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    return file; // the last has neither a text nor a hash
}

const char *bench_file_find(const char *name) {
    return find_file(name)->text;
}

const char *bench_file_hash(const char *name) {
    return find_file(name)->hash;
}

// The table -------------------------------------------------------------------------------------------------

bool bench_specs_open(struct bench_specs *specs, const char *path, char *error, size_t error_bytes) {
    *specs = (struct bench_specs){0};
    for (int i = 0; i < BENCH_DTYPES; i++)
        specs->override[i] = NAN;
    snprintf(specs->source, sizeof specs->source, "%s", path ? path : "built in");
    specs->root =
        path ? text_json_load(path, error, error_bytes)
             : text_json_parse(bench_file_find("hw_specs.json"), strlen(bench_file_find("hw_specs.json")),
                               "hw_specs.json", error, error_bytes);
    if (specs->root && !text_json_is_list(text_json_get(specs->root, "chips"))) {
        snprintf(error, error_bytes, "%s: has no list `chips`", specs->source);
        bench_specs_close(specs);
    }
    return specs->root != NULL;
}

void bench_specs_close(struct bench_specs *specs) {
    text_json_free(specs->root);
    specs->root = NULL;
}

// Reads one item "dtype=TFLOPS".
static bool override_one(struct bench_specs *specs, const char *item, char *error, size_t error_bytes) {
    char name[16] = "", *end = NULL;
    const char *equals = strchr(item, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - item : 0), item);
    enum bench_dtype dtype = bench_dtype_find(name);
    double tflops = equals ? strtod(equals + 1, &end) : 0;
    if (dtype == BENCH_DTYPES || !(tflops > 0) || *end) {
        snprintf(error, error_bytes,
                 "--peak %s: wanted dtype=TFLOPS, such as bf16=918; dtypes are f64 f32 tf32 bf16 "
                 "f16 fp8 int8",
                 item);
        return false;
    }
    specs->override[dtype] = tflops * 1e12;
    return true;
}

bool bench_specs_override(struct bench_specs *specs, const char *list, char *error, size_t error_bytes) {
    char copy[256], *rest = copy, *item;
    snprintf(copy, sizeof copy, "%s", list);
    while ((item = strsep(&rest, ",")))
        if (!override_one(specs, item, error, error_bytes))
            return false;
    return true;
}

// Finding a chip: always the whole name, since "A10" is in "A100" -------------------------------------------

text_json_value bench_chip_by_id(const struct bench_specs *specs, const char *id) {
    text_json_value chips = text_json_get(specs->root, "chips");
    for (int i = 0; i < text_json_count(chips); i++)
        if (!strcmp(text_json_text_of(text_json_at(chips, i), "id"), id))
            return text_json_at(chips, i);
    return NULL;
}

text_json_value bench_chip_by_name(const struct bench_specs *specs, const char *list, const char *name) {
    text_json_value chips = text_json_get(specs->root, "chips");
    for (int i = 0; i < text_json_count(chips); i++) {
        text_json_value chip = text_json_at(chips, i);
        if (bench_json_lists(text_json_get(text_json_get(chip, "detect"), list), name))
            return chip;
    }
    return NULL;
}

text_json_value bench_chip_by_pci(const struct bench_specs *specs, unsigned vendor, unsigned device) {
    char name[16];
    snprintf(name, sizeof name, "%04x:%04x", vendor, device);
    return bench_chip_by_name(specs, "pci", name);
}

text_json_value bench_chip_by_accelerator_type(const struct bench_specs *specs, const char *type) {
    char prefix[32];
    const char *dash = strrchr(type, '-');
    if (!dash)
        return NULL;
    snprintf(prefix, sizeof prefix, "%.*s-", (int)(dash - type), type);
    return bench_chip_by_name(specs, "accelerator_type_prefix", prefix);
}

// Peaks -----------------------------------------------------------------------------------------------------

static double devices_per_chip(text_json_value chip) {
    double count = text_json_number_of(chip, "devices_per_chip");
    return count >= 1 ? count : 1;
}

static double table_peak(text_json_value chip, enum bench_dtype dtype) {
    double tflops = text_json_number_of(text_json_get(chip, "peak_tflops"), bench_dtype_name(dtype));
    return tflops * 1e12 / devices_per_chip(chip);
}

// Chooses how products of a dtype are computed, which may be by other units than the dtype's own: XLA
// multiplies f32 as bf16 by default, and some GPUs have matrix units for f64.
static void choose_path(struct bench_peak *peak, text_json_value chip, enum bench_dtype dtype) {
    bool is_tpu = !strcmp(text_json_text_of(chip, "kind"), "tpu");
    double matrix = text_json_number_of(text_json_get(chip, "peak_tflops"), "f64_tensor") * 1e12 /
                    devices_per_chip(chip);
    if (dtype == BENCH_F32 && is_tpu && isnan(peak->rate)) {
        peak->rate = table_peak(chip, BENCH_BF16);
        snprintf(peak->path, sizeof peak->path, "f32 (bf16 path)");
    } else if (dtype == BENCH_F64 && matrix > peak->rate) {
        peak->rate = matrix;
        snprintf(peak->path, sizeof peak->path, "f64 (matrix units)");
    }
}

struct bench_peak bench_spec_peak(const struct bench_specs *specs, text_json_value chip,
                                  enum bench_dtype dtype) {
    struct bench_peak peak = {.rate = table_peak(chip, dtype),
                              .clock_mhz = text_json_number_of(chip, "clock_mhz")};
    const char *own = text_json_text_of(chip, "peak_source"); // of figures that are not published
    snprintf(peak.source, sizeof peak.source, "%.90s", own[0] ? own : specs->source);
    choose_path(&peak, chip, dtype);
    if (!isnan(specs->override[dtype])) {
        peak = (struct bench_peak){.rate = specs->override[dtype], .clock_mhz = NAN};
        snprintf(peak.source, sizeof peak.source, "--peak %s=%g", bench_dtype_name(dtype),
                 specs->override[dtype] * 1e-12);
    }
    return peak;
}

double bench_spec_bandwidth(text_json_value chip) {
    double gbs = text_json_number_of(text_json_get(chip, "memory"), "bandwidth_gbs");
    return gbs * 1e9 / devices_per_chip(chip);
}
