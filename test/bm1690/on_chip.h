// on_chip.h - an emulated chip for tests: modules of device C, arguments in device memory, launches.

#ifndef ON_CHIP_H
#define ON_CHIP_H

#include "bm1690/bm1690.h"
#include "test.h"

struct on_chip {
    struct bm1690 *chip;
    struct bm1690_module *module;
    uint64_t held[16]; // freed by on_chip_close
    int holds;
};

// Device C from a file of test/bm1690/device, or from a text. False, after failed checks, if it does not
// compile.
bool on_chip_open_file(struct on_chip *t, const char *file);
bool on_chip_open(struct on_chip *t, const char *device_c);
void on_chip_close(struct on_chip *t);
void on_chip_forget(struct on_chip *t); // frees what on_chip_put allocated

// Device memory with a copy of data; NULL: zeros.
uint64_t on_chip_put(struct on_chip *t, const void *data, size_t bytes);

#endif
