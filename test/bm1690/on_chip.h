// on_chip.h - an emulated chip for tests: modules of device C, arguments in device memory, launches.

#ifndef ON_CHIP_H
#define ON_CHIP_H

#include "bm1690/bm1690.h"
#include "test.h"

struct on_chip {
    struct bm1690 *chip;
    struct bm1690_module *module;
    uint64_t held[16]; // memory that on_chip_close frees
    int holds;
};

// Opens a chip with device C from a file of test/bm1690/device, or from a text. Returns false, after failed
// checks, if it does not compile.
bool on_chip_open_file(struct on_chip *t, const char *file);
bool on_chip_open(struct on_chip *t, const char *device_c);
void on_chip_close(struct on_chip *t);
void on_chip_forget(struct on_chip *t); // frees the memory of on_chip_put

// Allocates device memory with a copy of data, or zeros if data is NULL. Returns its address.
uint64_t on_chip_put(struct on_chip *t, const void *data, size_t bytes);

#endif
