// zellige_tile.h - tile kernels: the code that a device runs, as text that people can read and write.
//
//     zl_kernel k = zl_kernel_parse("kernel scale(a: f32[n]) -> (y: f32[n]) {\n"
//                                   "  map i in n { y[i] = a[i] * 2.0 }\n"
//                                   "}\n", "scale.tile");
//     char *c = zl_kernel_print(k, "c");
//     puts(c ? c : zl_error());
//     zl_free(c);
//     zl_kernel_release(k);
//
// Stages.    A kernel is shown on its way to a device: "tile" is the kernel as it was written; then each pass
//            has its name ("lower", "simplify", ...), and then each language ("c", "cuda", ...).
//
// Ownership. Kernels are yours until zl_kernel_release(), texts until zl_free(). A kernel does not change: it
//            may be printed from several threads.
//
// Errors.    As in zellige.h: NULL, and zl_error() says why. Text that does not parse: with line and caret.

#ifndef ZELLIGE_TILE_H
#define ZELLIGE_TILE_H

#include "zellige.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zl_kernel_ *zl_kernel; // NULL: failed

// Reads a kernel. name is what messages call the text, such as its file; NULL is "kernel".
ZL_API zl_kernel zl_kernel_parse(const char *text, const char *name);
ZL_API void      zl_kernel_release(zl_kernel kernel); // NULL is allowed

// The kernel as it is after a stage. Passes are shown as they are run for the language "c".
ZL_API char *zl_kernel_print(zl_kernel kernel, const char *stage);

// Name of the index-th stage, in order; NULL past the last.
ZL_API const char *zl_kernel_stage(int index);

// The built-in kernel of one op on rows of numbers: op as in zellige_ops.h without zl_ ("add", "exp",
// "where"), "cast_" and a type that the IR knows ("cast_f32", from dtype), or "reduce_" and an op
// ("reduce_add").
ZL_API char *zl_kernel_of_op(const char *op, zl_dtype dtype, const char *stage);

#ifdef __cplusplus
}
#endif

#endif
