// detect_amd.c - checks AMD's chips, which were found by PCI id, against the nodes of the compute driver: a
// partitioned chip has several.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MOST = 64 };

// Returns the number after a name in the properties of a node, such as "simd_count 304"; 0 if there is none.
static long property(const char *text, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\n%s ", name);
    const char *at = strncmp(text, key + 1, strlen(key + 1)) ? strstr(text, key) : text - 1;
    return at ? strtol(at + strlen(key), NULL, 10) : 0;
}

void bench_detect_amd(struct bench_machine *machine, const struct bench_specs *specs) {
    char text[4096];
    int nodes[BENCH_CHIPS_MOST] = {0};
    for (int node = 0; node < NODES_MOST; node++) {
        if (!bench_read_text(machine, text, sizeof text, "/sys/class/kfd/kfd/topology/nodes/%d/properties",
                             node))
            break;
        text_json_value spec = bench_chip_by_pci(specs, 0x1002, (unsigned)property(text, "device_id"));
        struct bench_chip *chip = spec ? bench_machine_chip(machine, text_json_text_of(spec, "id")) : NULL;
        if (chip && property(text, "simd_count") > 0)
            nodes[chip - machine->chip]++;
    }
    for (int i = 0; i < machine->count; i++) {
        struct bench_chip *chip = &machine->chip[i];
        if (nodes[i] > 0)
            bench_add_evidence(chip->evidence, "KFD has %d nodes", nodes[i]);
        if (nodes[i] > chip->devices) {
            chip->shared = true;
            chip->devices = nodes[i];
            bench_add_evidence(chip->evidence, "partitioned: peak n/a");
        }
    }
}
