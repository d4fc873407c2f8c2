// compiler.h - compiling C text by the system's compiler at run time.

#ifndef COMPILER_H
#define COMPILER_H

#include "device/cpu/cpu.h"

// jit.c, compiler.c -----------------------------------------------------------------------------------------

extern const char cpu_vec_text[]; // the vector layer's text

// Compiles C text, preceded by the vector layer, and returns the address of one of its functions, which is
// never unloaded. Text that was compiled before, even by another process, is loaded from the cache. Returns
// NULL and ZL_ERROR_COMPILE if that fails.
void *cpu_jit(const char *source, const char *symbol);
// Does the same with additional flags. The vector layer is included only if the text has a line `#include
// "vec/vec.h"`.
void *cpu_jit_alone(const char *source, const char *flags, const char *symbol);

// Returns the version of the compiler of ZL_CC, or NULL and an error that says what to install.
const char *cpu_compiler_version(void);
// Appends the compiler's identity, for cache keys. Returns false, with an error, if no compiler is found.
bool cpu_compiler_name(struct text *out);
// Appends the flags of every compilation, for cache keys.
void cpu_compiler_flags(struct text *out);
// Compiles a file to a shared library. Returns false, with an error, if that fails.
bool cpu_compile(const char *source_path, const char *library_path, const char *flags);

#endif
