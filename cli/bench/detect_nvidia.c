// detect_nvidia.c - NVIDIA's GPUs by their exact names, from the driver's files in /proc or from NVML. A part
// of a GPU (MIG) does not count as the chip of that name.

#include "bench.h"

#include <dirent.h>
#include <string.h>

enum { GPUS_MOST = 32 };

// Reads the model from a file of the driver: "Model: \t\t NVIDIA H200".
static bool read_model(const struct bench_machine *machine, const char *address, char *model, size_t bytes) {
    char text[2048];
    bench_read_text(machine, text, sizeof text, "/proc/driver/nvidia/gpus/%s/information", address);
    const char *at = strstr(text, "Model:");
    if (!at)
        return false;
    at += strlen("Model:");
    at += strspn(at, " \t");
    snprintf(model, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

// Returns whether MIG divides a GPU: each instance has a folder such as gpu0/mig/gi1. It is not known before
// a run which GPU will be used, so one that is divided makes the peaks of all unusable.
static bool is_split(const struct bench_machine *machine) {
    bool found = false;
    for (int gpu = 0; gpu < GPUS_MOST && !found; gpu++) {
        char path[512];
        snprintf(path, sizeof path, "%s/proc/driver/nvidia/capabilities/gpu%d/mig", machine->sysroot, gpu);
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));)
            found = found || !strncmp(entry->d_name, "gi", 2);
        if (folder)
            closedir(folder);
    }
    return found;
}

// Renames the chip that was found by PCI id: the driver's name is more precise, since boards with the same id
// are sold under several names.
static void rename_chip(struct bench_machine *machine, const struct bench_specs *specs, const char *model) {
    text_json_value spec = bench_chip_by_name(specs, "nvml_names", model);
    struct bench_chip *chip = spec ? bench_machine_chip(machine, text_json_text_of(spec, "id")) : NULL;
    if (chip) {
        bench_add_evidence(chip->evidence, "the driver calls it %s", model);
        return;
    }
    for (int i = 0; i < machine->count; i++) { // the first GPU found by PCI id whose name is not confirmed
                                               // yet
        chip = &machine->chip[i];
        if (strcmp(chip->kind, "gpu") || !strstr(chip->evidence, "10de:") || strstr(chip->evidence, "driver"))
            continue;
        bench_json_copy(spec, "id", false, chip->id, sizeof chip->id);
        snprintf(chip->name, sizeof chip->name, "%s", model);
        bench_add_evidence(chip->evidence, "the driver calls it %s%s", model,
                           spec ? "" : ", which no chip of the table is");
        return;
    }
    chip = bench_add_chip(machine, spec, model, "gpu");
    chip->chips = chip->devices = 1;
    bench_add_evidence(chip->evidence, "the driver calls it %s", model);
}

static bool rename_by_files(struct bench_machine *machine, const struct bench_specs *specs) {
    char path[512], model[96], seen[96] = "";
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", machine->sysroot);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && read_model(machine, entry->d_name, model, sizeof model) &&
            strcmp(model, seen)) {
            rename_chip(machine, specs, model);
            snprintf(seen, sizeof seen, "%s", model);
        }
    if (folder)
        closedir(folder);
    return seen[0];
}

static void rename_by_library(struct bench_machine *machine, const struct bench_specs *specs) {
    char model[96], seen[96] = "";
    for (int i = 0; i < bench_nvml_count(); i++)
        if (bench_nvml_name(i, model, sizeof model) && strcmp(model, seen)) {
            rename_chip(machine, specs, model);
            snprintf(seen, sizeof seen, "%s", model);
        }
}

void bench_detect_nvidia(struct bench_machine *machine, const struct bench_specs *specs) {
    bool here = !machine->sysroot[0];
    if (!rename_by_files(machine, specs) && here)
        rename_by_library(machine, specs);
    bool split = is_split(machine);
    for (int i = 0; here && i < bench_nvml_count(); i++)
        split = split || bench_nvml_is_split(i);
    for (int i = 0; i < machine->count && split; i++)
        if (strstr(machine->chip[i].evidence, "10de:") || strstr(machine->chip[i].evidence, "driver")) {
            machine->chip[i].shared = true;
            bench_add_evidence(machine->chip[i].evidence, "split by MIG: peak n/a");
        }
}
