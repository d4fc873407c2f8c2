// on_chip.c - an emulated chip for tests.

#include "on_chip.h"

#include "device/bm1690/bm1690_code.h"

#include <stdio.h>
#include <string.h>

bool on_chip_open(struct on_chip *t, const char *device_c) {
    *t = (struct on_chip){.chip = bm1690_open(), .module = device_bm1690_load(device_c)};
    bool good = t->chip && t->module;
    if (!CHECK(good))
        test_note("%s", zl_error() ? zl_error() : "");
    return good;
}

bool on_chip_open_file(struct on_chip *t, const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/bm1690/device/%s", ZL_TEST_DIR, file);
    char *text = file_read(path, NULL);
    bool good = CHECK(text) && on_chip_open(t, text);
    memory_free(text);
    return good;
}

void on_chip_forget(struct on_chip *t) {
    for (int i = 0; i < t->holds; i++)
        bm1690_free(t->chip, t->held[i]);
    t->holds = 0;
}

void on_chip_close(struct on_chip *t) {
    bm1690_module_close(t->module);
    bm1690_close(t->chip);
}

uint64_t on_chip_put(struct on_chip *t, const void *data, size_t bytes) {
    uint64_t address = bm1690_alloc(t->chip, bytes);
    void *zeros = data ? NULL : memory_zero(bytes + 1);
    if (CHECK(address) && CHECK(t->holds < (int)COUNT(t->held))) {
        CHECK(bm1690_write(t->chip, address, data ? data : zeros, bytes));
        t->held[t->holds++] = address;
    }
    memory_free(zeros);
    return address;
}
