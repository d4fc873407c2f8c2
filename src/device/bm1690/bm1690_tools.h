// bm1690_tools.h - the vendor's tools for the BM1690 on this machine: its compiler, headers and archive, and
// its runtime with a chip.
//
// Nothing has to be sourced before: folders are found through PPL_PROJECT_ROOT, through an envsetup.sh, which
// is read but not run, and in the usual places of the vendor's packages. This code has never run on a chip;
// tests use a runtime that imitates one.

#ifndef BM1690_TOOLS_H
#define BM1690_TOOLS_H

#include "base/base.h"

#include <limits.h>

enum { BM1690_HEADER_FOLDERS = 3 };

struct bm1690_tools {
    char root[PATH_MAX]; // root of PPL, the vendor's package; "": not found
    char include[BM1690_HEADER_FOLDERS][PATH_MAX];
    char archive[PATH_MAX];  // the archive that device C is linked with
    char compiler[PATH_MAX]; // a gcc for the control core
    // the first missing part, and how to specify it; "": nothing is missing
    char missing[PATH_MAX + 256];
};
// Finds the tools; `missing` says what is not there.
void bm1690_tools_find(struct bm1690_tools *out);

// Returns whether tile kernels run on a chip: ZL_BM1690 says so, or it does not ask for the emulator, and a
// chip and all tools are here. This is decided once.
bool bm1690_chip_is_used(void);
// Returns a line that says what runs tile kernels and why: "emulator: ..." or "chip: ...".
const char *bm1690_chip_says(void);

struct bm1690_chip_module;
// Loads device C on the chip, and compiles it unless its code is on disk. Returns NULL, with an error, if
// that fails.
struct bm1690_chip_module *bm1690_chip_load(const struct text *source);
// Unloads a module; NULL is allowed.
void bm1690_chip_unload(struct bm1690_chip_module *module);
// Runs an entry on `cores` cores, each with a copy of the arguments, and waits for its end. Returns false,
// with an error, if that fails.
bool bm1690_chip_launch(struct bm1690_chip_module *module, const char *entry, const void *arguments,
                        size_t bytes, int cores);
// Returns memory of the chip, or NULL and an error.
void *bm1690_chip_alloc(size_t bytes);
// Copies from the host to the chip; returns false, with an error, if that fails.
bool bm1690_chip_write(void *to, const void *from, size_t bytes);
// Copies from the chip to the host; returns false, with an error, if that fails.
bool bm1690_chip_read(void *to, const void *from, size_t bytes);
// Frees memory of the chip; NULL is allowed.
void bm1690_chip_free(void *memory);

#endif
