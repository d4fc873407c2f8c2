// detect_apple.c - Apple's chips under Linux, by the device tree: the first strings of `compatible` name the
// machine and the chip.

#include "bench.h"

#include <string.h>

static const struct {
    const char *soc, *name;
} socs[] = {
    {"apple,t8103", "Apple M1"},       {"apple,t6000", "Apple M1 Pro"},   {"apple,t6001", "Apple M1 Max"},
    {"apple,t6002", "Apple M1 Ultra"}, {"apple,t8112", "Apple M2"},       {"apple,t6020", "Apple M2 Pro"},
    {"apple,t6021", "Apple M2 Max"},   {"apple,t6022", "Apple M2 Ultra"},
};

void bench_detect_apple(struct bench_machine *machine, const struct bench_specs *specs) {
    char words[512] = ""; // strings, each ending with a NUL
    bench_read_text(machine, words, sizeof words - 1, "/proc/device-tree/compatible");
    for (const char *word = words; *word && word < words + sizeof words; word += strlen(word) + 1)
        for (size_t i = 0; i < sizeof socs / sizeof *socs; i++)
            if (!strcmp(word, socs[i].soc)) {
                text_json_value spec = bench_chip_by_name(specs, "sysctl_brand", socs[i].name);
                struct bench_chip *chip = bench_add_chip(machine, spec, socs[i].name, "gpu");
                chip->chips = chip->devices = 1;
                bench_add_evidence(chip->evidence, "device tree has %s", word);
            }
}
