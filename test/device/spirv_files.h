// spirv_files.h - modules of SPIR-V that tests make, kept as files until spirv-val, of another party, has
// looked at all of them at once.

#ifndef SPIRV_FILES_H
#define SPIRV_FILES_H

#include "pass/pass.h"

// Units that differ in what they have: all of it, little, what GPUs and lavapipe have; reaching buffers by
// addresses always, or where there are more than two. NULL past the last.
const struct target *spirv_unit(int at);

// Renders the kernel for every such unit. Where ZL_TEST_SPIRV names a folder the modules are left there,
// under their hash. False and an error if one cannot be rendered.
bool spirv_files_keep(const struct tile_kernel *kernel);

const char *spirv_files_lack(void); // why they cannot be checked; NULL: they can
void spirv_files_check(const char *folder); // that spirv-val finds nothing in them

#endif
