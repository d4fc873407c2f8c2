// cuda_library.h - NVIDIA's libraries, opened at their first use, and the calls that they run.
//
// Nothing of theirs is needed to build: each file declares the few functions and numbers that it uses. Their
// work goes to the lane's stream. If a library is missing, its calls run on other kernels.

#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include "device/kernels/kernels.h"

// cuda_library.c --------------------------------------------------------------------------------------------

enum { CUDA_VERSIONS = 3 }; // the most versions of a library that are tried

// Opens lib<name>.so, of the first of these versions that is found. Looked for in this order: the folder of
// ZL_CUDA, and nowhere else if it is set; where the loader looks; folders of toolkits; packages of the
// Pythons in PATH. NULL: it is not there.
void *cuda_library(const char *name, const int version[CUDA_VERSIONS]);

// cuda_overrides.c ------------------------------------------------------------------------------------------

// Returns whether an override may run calls of this op, dtypes and arguments.
bool cuda_takes(int unit, const struct call *c);
// Runs a call by the first override that takes it.
enum kernel_taken cuda_take(const struct kernel_place *p, const struct call *c);
// Describes the index-th override, as override() of struct device. Returns false past the last.
bool cuda_override(int index, zl_kernel_override *out);

// Returns whether the setting ZL_CUDA_LIBRARIES allows libraries.
bool cuda_uses_libraries(void);

// cuda_calls.c ----------------------------------------------------------------------------------------------

// These return memory of the place, or NULL and an error. The caller closes s, which holds copies.

// Returns the elements of x, row-major: x itself if it is so, else a copy.
void *cuda_row_major(const struct kernel_place *p, zl_array x, struct kernel_scratch *s);
// Returns a copy of x with its last two axes transposed.
void *cuda_transposed_copy(const struct kernel_place *p, zl_array x, struct kernel_scratch *s);
// Returns the fp8 numbers that x holds, converted to a dtype: a copy that is row-major, or the copy of the
// transposed matrices.
void *cuda_from_fp8(const struct kernel_place *p, zl_array x, bool transposed, zl_dtype dtype,
                    struct kernel_scratch *s);
// Returns the first element of x, whatever its strides.
void *cuda_element(const struct kernel_place *p, zl_array x);

// A file of src/kernel/, with the dtype of its elements.
struct cuda_file {
    char name[12];
    int32_t dtype;
};
// Launches its kernel, with arguments and sizes as kernel_launch_tiles takes them. Returns false, with an
// error, if that fails.
bool cuda_run_file(const struct kernel_place *p, struct cuda_file file, struct kernel_call *k, int symbols,
                   const int64_t *symbol);
// Copies the n elements of x to y, each followed by `second`. Returns false, with an error, if that fails.
bool cuda_pair_up(const struct kernel_place *p, zl_dtype dtype, int64_t n, void *x, double second, void *y);

// cuda_time.c -----------------------------------------------------------------------------------------------

// Measures the milliseconds of one of so many runs on a lane, for which no commands may be recorded. Returns
// INFINITY if one fails.
float cuda_time(int unit, int lane, int runs, bool (*run)(const void *data), const void *data);

// cuda_text.c: kernels that are CUDA C ----------------------------------------------------------------------

// A file *.cu of this folder, which the build embeds.
struct cuda_text {
    const char *name, *text; // "quantized_lines.cu"
};
extern const struct cuda_text cuda_texts[]; // the last has no name
// Returns the text of an override, or NULL if it has none.
const char *cuda_text_of(const char *override);
// Appends definitions that a text needs.
typedef void cuda_definer(struct text *out, const void *data);
// Appends what define(out, data) appends, then the override's text. Returns false, with an error, if that
// fails.
bool cuda_text_write(struct text *out, const char *override, cuda_definer *define, const void *data);

// Returns the function zl_kernel of an override's text with the definitions that define(out, data) appends,
// compiled at the first use of a key, or NULL and an error.
const struct kernel_function *cuda_text_find(const struct kernel_place *p, const char *override,
                                             const void *key, size_t bytes, cuda_definer *define,
                                             const void *data);

// Returns the function zl_kernel of a text that a program brings, compiled at its first use, or NULL and an
// error.
const struct kernel_function *cuda_program_find(const struct kernel_place *p, const char *text, size_t bytes);

// A file for each override ----------------------------------------------------------------------------------

typedef bool cuda_question(const struct call *c);
typedef enum kernel_taken cuda_function_of(const struct kernel_place *p, const struct call *c);

#define CUDA_OVERRIDE(...)
#define CUDA_OP(op, can, take, override) cuda_question can; cuda_function_of take;
#define CUDA_PROGRAM_OP(op, can, take) cuda_question can; cuda_function_of take;
#define CUDA_COLLECTIVES(name, can, take) cuda_question can; cuda_function_of take;
#include "device/cuda/cuda_overrides.def"

// cuda_lt.c: the functions of struct kernel_target for a matmul and the calls that its epilogue fuses.

// Runs a matmul at index and the calls after it as one. Returns how many calls that were, or 0.
int cuda_lt_fuse(const struct kernel_place *p, const struct program *program, struct binding *b, int index);
// Returns how many calls these would be.
int cuda_lt_count(const struct program *program, struct call *const *call, int index);

enum { CUDA_UNPACKED_LINES = 16 }; // rows of x from which unpacking a quantised matrix pays
struct quantized_key { // part of a kernel's key
    int32_t mode, group, bits;
    int32_t scales; // dtype of scales and biases
};
// Appends the text of cuda_quantized_lines.c for a matrix, a dtype of x, and few rows or a single one.
// Returns false, with an error, if that fails.
bool cuda_quantized_source(const struct quantized_key *key, zl_dtype dtype, bool single, struct text *out);

#endif
