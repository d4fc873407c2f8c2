// detect.c - finds the chips of this machine, and records the evidence for each. All files are read below a
// sysroot, which is a folder in tests. A chip that is missing from the table of specs is reported as unknown.

#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "zellige_tile.h"

// Reading ---------------------------------------------------------------------------------------------------

static size_t read_below(const struct bench_machine *machine, char *out, size_t bytes, const char *format,
                         va_list list) {
    char name[512], path[800];
    vsnprintf(name, sizeof name, format, list);
    snprintf(path, sizeof path, "%s%s", machine->sysroot, name);
    FILE *file = fopen(path, "rb");
    size_t len = file ? fread(out, 1, bytes - 1, file) : 0;
    out[len] = 0;
    if (file)
        fclose(file);
    return len;
}

bool bench_read_text(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t len = read_below(machine, out, bytes, format, list);
    va_end(list);
    return len > 0;
}

bool bench_read_line(const struct bench_machine *machine, char *out, size_t bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t len = read_below(machine, out, bytes, format, list);
    va_end(list);
    out[strcspn(out, "\n")] = 0;
    return len > 0;
}

const char *bench_environment(const struct bench_machine *machine, const char *name) {
    static char value[256]; // the caller reads it before the next call
    char text[4096], *rest = text, *line;
    size_t len = strlen(name);
    if (!machine->sysroot[0])
        return getenv(name);
    bench_read_text(machine, text, sizeof text, "/etc/environment");
    while ((line = strsep(&rest, "\n")))
        if (!strncmp(line, name, len) && line[len] == '=') {
            snprintf(value, sizeof value, "%s", line + len + 1);
            return value;
        }
    return NULL;
}

// Chips -----------------------------------------------------------------------------------------------------

void bench_add_evidence(char evidence[BENCH_EVIDENCE], const char *format, ...) {
    size_t used = strlen(evidence);
    va_list list;
    va_start(list, format);
    if (used)
        used += (size_t)snprintf(evidence + used, BENCH_EVIDENCE - used, "; ");
    if (used < BENCH_EVIDENCE)
        vsnprintf(evidence + used, BENCH_EVIDENCE - used, format, list);
    va_end(list);
}

struct bench_chip *bench_machine_chip(struct bench_machine *machine, const char *id) {
    for (int i = 0; i < machine->count; i++)
        if (!strcmp(machine->chip[i].id, id))
            return &machine->chip[i];
    return NULL;
}

// Devices of Zellige that run on a vendor's chips, the best one first.
static const struct {
    const char *vendor, *devices;
} runs_on[] = {{"nvidia", "cuda vulkan"}, {"amd", "hip vulkan"},       {"google", "tpu pjrt"},
               {"intel", "gaudi pjrt"},   {"sophgo", "sophgo bm1690"}, {"aws", "neuron pjrt"},
               {"apple", "metal vulkan"}};

static void choose_device(struct bench_chip *chip, const char *vendor) {
    zl_device_info info;
    for (size_t i = 0; i < sizeof runs_on / sizeof *runs_on; i++) {
        char words[64], *rest = words, *word;
        snprintf(words, sizeof words, "%s", strcmp(runs_on[i].vendor, vendor) ? "" : runs_on[i].devices);
        while ((word = strsep(&rest, " ")))
            for (int d = 0; zl_device(d, &info) && !chip->device[0]; d++)
                if (!strcmp(info.device, word) && info.available)
                    snprintf(chip->device, sizeof chip->device, "%s", word);
    }
}

struct bench_chip *bench_add_chip(struct bench_machine *machine, text_json_value spec, const char *name,
                                  const char *kind) {
    static struct bench_chip nowhere;
    if (machine->count == BENCH_CHIPS_MOST)
        return &nowhere;
    struct bench_chip *chip = &machine->chip[machine->count++];
    *chip = (struct bench_chip){0};
    bench_json_copy(spec, "id", false, chip->id, sizeof chip->id);
    bench_json_copy(spec, "name", false, chip->name, sizeof chip->name);
    bench_json_copy(spec, "kind", false, chip->kind, sizeof chip->kind);
    if (!spec) {
        snprintf(chip->name, sizeof chip->name, "%s", name);
        snprintf(chip->kind, sizeof chip->kind, "%s", kind);
        cli_clean(chip->name, false);
    }
    if (!machine->sysroot[0])
        choose_device(chip, text_json_text_of(spec, "vendor"));
    return chip;
}

static void add_cpu(struct bench_machine *machine) {
    struct bench_chip *chip = bench_add_chip(machine, NULL, machine->cpu.model, "cpu");
    snprintf(chip->id, sizeof chip->id, "%s", machine->cpu.id);
    snprintf(chip->device, sizeof chip->device, "cpu");
    snprintf(chip->evidence, sizeof chip->evidence, "%s", machine->cpu.evidence);
    chip->chips = chip->devices = 1;
}

// Adds chips that have tile kernels but no device of arrays. The chip runs them if the machine has one,
// otherwise an emulator does.
static void add_tile_targets(struct bench_machine *machine, const struct bench_specs *specs) {
    const char *target;
    for (int i = 0; (target = zl_kernel_target(i)); i++) {
        const char *how = zl_kernel_runs_on(target);
        if (!how)
            continue;
        bool is_modelled = zl_kernel_is_modelled(target);
        struct bench_chip *chip = is_modelled ? NULL : bench_machine_chip(machine, target);
        chip = chip ? chip : bench_add_chip(machine, bench_chip_by_id(specs, target), target, "npu");
        snprintf(chip->device, sizeof chip->device, "%s", target);
        chip->is_modelled = is_modelled;
        bench_add_evidence(chip->evidence, "tile kernels only, on the %s", how);
    }
}

void bench_detect(struct bench_machine *machine, const struct bench_specs *specs, const char *sysroot) {
    *machine = (struct bench_machine){0};
    snprintf(machine->sysroot, sizeof machine->sysroot, "%s", sysroot ? sysroot : "");
    bench_detect_pci(machine, specs);
    bench_detect_nvidia(machine, specs);
    bench_detect_amd(machine, specs);
    bench_detect_tpu(machine, specs);
    bench_detect_pjrt(machine, specs);
    bench_detect_apple(machine, specs);
    bench_detect_cpu(machine, specs);
    add_cpu(machine);
    if (!machine->sysroot[0])
        add_tile_targets(machine, specs);
}
