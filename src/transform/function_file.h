// function_file.h - functions in files: what export.c writes and import.c reads.
//
//     header     magic, version, bytes of the structure, its SHA-256
//     structure  all that is not data of constants: tables of dtypes, ops with their fields, constants; then
//                traces
//     data       of constants, each at a multiple of 64 bytes; the structure has the SHA-256 of each
//
// Numbers are little-endian; a text is its bytes behind their number. Ops, fields and dtypes stand for their
// names in the tables, so that a version that numbers them in another way reads the file all the same.

#ifndef FUNCTION_FILE_H
#define FUNCTION_FILE_H

#include "transform/transform.h"

#define FUNCTION_MAGIC "\x89ZLFN\r\n\x1a"
enum {
    FUNCTION_VERSION = 1,
    FUNCTION_HEADER = 88, // magic 8, version 4, unused 4, bytes 8, checksum 64
    FUNCTION_ALIGN = 64,
    FUNCTION_DIGEST = 64,
};
// in a reference: the rest is the number of a constant; else of an array of the trace
#define FUNCTION_CONSTANT 0x80000000u

enum constant_kind { CONSTANT_DATA, CONSTANT_NUMBER, CONSTANT_WEAK, CONSTANT_KINDS };

// The first multiple of FUNCTION_ALIGN that is not less.
static inline size_t function_align(size_t bytes) {
    return (bytes + FUNCTION_ALIGN - 1) / FUNCTION_ALIGN * FUNCTION_ALIGN;
}

// function_file.c -------------------------------------------------------------------------------------------

// What inputs a trace takes: arrays without data, of which the last have names.
struct function_inputs {
    int count, named;
    zl_array *array; // retained
    char **name;
};
// Room for count inputs, of which nothing is set yet.
bool function_inputs_make(struct function_inputs *f, int count, int named);
void function_inputs_free(struct function_inputs *f);
// Whether arrays can be its inputs; then order[i] is which of them is its input i.
bool function_inputs_match(const struct function_inputs *f, bool shapeless, int count, const zl_array *in,
                           int named, const char *const *name, int *order);
// "(float32 (2, 3), x: int32 ())"
void function_inputs_text(struct text *out, int count, const zl_array *in, int named,
                          const char *const *name);
// The list makes sense; else false and an error that begins with function.
bool function_check_names(const char *function, int count, int named, const char *const *name);

// import.c --------------------------------------------------------------------------------------------------

// What zl_import makes of a file that is in memory.
zl_imported *function_read(const char *path, const uint8_t *file, size_t bytes);

#endif
