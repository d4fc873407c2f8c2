// detect_pci.c - accelerators by their PCI ids, from sysfs. Nodes in /dev are no evidence, because other
// drivers also create such nodes.

#include "bench.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_DISPLAY = 0x03, CLASS_ACCELERATOR = 0x12, FUNCTIONS_MOST = 256 };

struct function {
    unsigned vendor, device, class;
};

static unsigned read_id(const struct bench_machine *machine, const char *address, const char *name) {
    char text[32];
    bench_read_line(machine, text, sizeof text, "/sys/bus/pci/devices/%s/%s", address, name);
    return (unsigned)strtoul(text, NULL, 16);
}

static int list_functions(const struct bench_machine *machine, struct function *out) {
    char path[512];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", machine->sysroot);
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder && count < FUNCTIONS_MOST && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            out[count++] = (struct function){read_id(machine, entry->d_name, "vendor"),
                                             read_id(machine, entry->d_name, "device"),
                                             read_id(machine, entry->d_name, "class")};
    if (folder)
        closedir(folder);
    return count;
}

static const char *vendor_name(unsigned vendor) {
    static const struct {
        unsigned id;
        const char *name;
    } vendors[] = {{0x1ae0, "Google"}, {0x10de, "NVIDIA"}, {0x1002, "AMD"},     {0x1da3, "Habana"},
                   {0x1f1c, "Sophgo"}, {0x1d0f, "Amazon"}, {0x1e30, "Bitmain"}, {0x8086, "Intel"}};
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (vendors[i].id == vendor)
            return vendors[i].name;
    return NULL;
}

// Returns whether a function of the bus is a compute device that the table does not have: an accelerator of
// any vendor, or a GPU of a vendor of large ones.
static bool is_unknown_compute(const struct function *f) {
    bool makes_gpus = f->vendor == 0x10de || f->vendor == 0x1002;
    return f->class >> 16 == CLASS_ACCELERATOR || (f->class >> 16 == CLASS_DISPLAY && makes_gpus);
}

static void add_known(struct bench_machine *machine, text_json_value spec, const struct function *f,
                      int functions) {
    double each = text_json_number_of(text_json_get(spec, "detect"), "pci_functions_per_chip");
    double devices = text_json_number_of(spec, "devices_per_chip");
    struct bench_chip *chip = bench_machine_chip(machine, text_json_text_of(spec, "id"));
    chip = chip ? chip : bench_add_chip(machine, spec, "", "");
    int chips = each > 1 ? (functions + (int)each - 1) / (int)each : functions;
    chip->chips += chips;
    chip->devices += each > 1 ? functions : chips * (devices > 1 ? (int)devices : 1);
    bench_add_evidence(chip->evidence, "matched %04x:%04x x%d in sysfs", f->vendor, f->device, functions);
}

static void add_unknown(struct bench_machine *machine, const struct function *f, int functions) {
    char name[96];
    const char *vendor = vendor_name(f->vendor);
    snprintf(name, sizeof name, "unknown %s %04x:%04x", vendor ? vendor : "accelerator", f->vendor,
             f->device);
    struct bench_chip *chip =
        bench_add_chip(machine, NULL, name, f->class >> 16 == CLASS_DISPLAY ? "gpu" : "npu");
    chip->chips = chip->devices = functions;
    bench_add_evidence(chip->evidence, "%04x:%04x x%d in sysfs, which no chip of the table has", f->vendor,
                       f->device, functions);
}

static int compare_functions(const void *a, const void *b) {
    const struct function *x = a, *y = b;
    int by_vendor = (x->vendor > y->vendor) - (x->vendor < y->vendor);
    return by_vendor ? by_vendor : (x->device > y->device) - (x->device < y->device);
}

void bench_detect_pci(struct bench_machine *machine, const struct bench_specs *specs) {
    struct function function[FUNCTIONS_MOST];
    int count = list_functions(machine, function), same;
    qsort(function, (size_t)count, sizeof *function, compare_functions);
    for (int i = 0; i < count; i += same) {
        const struct function *f = &function[i];
        for (same = 1; i + same < count && !compare_functions(f, f + same);)
            same++;
        text_json_value spec = bench_chip_by_pci(specs, f->vendor, f->device);
        if (spec)
            add_known(machine, spec, f, same);
        else if (is_unknown_compute(f))
            add_unknown(machine, f, same);
    }
}
