// spirv_files.h - SPIR-V modules of tests, kept as files until spirv-val, an independent validator, checks
// all of them at once.

#ifndef SPIRV_FILES_H
#define SPIRV_FILES_H

#include "pass/pass.h"

// Returns a unit; they differ in their capabilities: all, few, those of GPUs and of lavapipe; with buffers
// reached by addresses always, or if there are more than two. NULL past the last.
const struct target *spirv_unit(int at);

// Renders the kernel for every such unit. If ZL_TEST_SPIRV names a folder, the modules are written there,
// named by their hash. Returns false after an error.
bool spirv_files_keep(const struct tile_kernel *kernel);

const char *spirv_files_lack(void); // returns why they cannot be checked; NULL: they can
void spirv_files_check(const char *folder); // checks that spirv-val accepts all of them

#endif
