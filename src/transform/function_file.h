// function_file.h - functions in files: what export.c writes and import.c reads.
//
// header     magic, version, bytes of the structure, its SHA-256
//     structure  everything but the data of constants: tables of dtypes, of ops with their fields, and of
//                constants; then the traces
//     data       of constants, each at a multiple of 64 bytes; the structure has the SHA-256 of each
//
// Numbers are little-endian. A text is its length in bytes, then the bytes. Ops, fields and dtypes are
// positions in the tables, which hold their names, so that a version with another numbering can read the file
// too.

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
// If this bit of a reference is set, the other bits are the number of a constant, else of an array of the
// trace.
#define FUNCTION_CONSTANT 0x80000000u

enum constant_kind { CONSTANT_DATA, CONSTANT_NUMBER, CONSTANT_WEAK, CONSTANT_KINDS };

// Returns the first multiple of FUNCTION_ALIGN that is not less.
static inline size_t function_align(size_t bytes) {
    return (bytes + FUNCTION_ALIGN - 1) / FUNCTION_ALIGN * FUNCTION_ALIGN;
}

// function_file.c -------------------------------------------------------------------------------------------

// The inputs that a trace takes: arrays without data, the last of which have names.
struct function_inputs {
    int count, named;
    zl_array *array; // retained
    char **name;
};
// Allocates room for `count` inputs, none of which is set. Returns false, with an error, if memory runs out.
bool function_inputs_make(struct function_inputs *f, int count, int named);
// Releases the inputs and frees the room.
void function_inputs_free(struct function_inputs *f);
// Returns whether arrays, of which the last `named` have names, can be its inputs. If so, sets order[i] to
// the position in `in` of input i. If shapeless, sizes need not agree.
bool function_inputs_match(const struct function_inputs *f, bool shapeless, int count, const zl_array *in,
                           int named, const char *const *name, int *order);
// Appends the dtypes and shapes of inputs, as "(float32 (2, 3), x: int32 ())".
void function_inputs_text(struct text *out, int count, const zl_array *in, int named,
                          const char *const *name);
// Returns whether each of the last `named` inputs has a name of its own; false, with an error that begins
// with `function`, if not.
bool function_check_names(const char *function, int count, int named, const char *const *name);

// import.c --------------------------------------------------------------------------------------------------

// Reads a file that is in memory, for zl_import. `path` is for errors. Returns NULL, with an error, if that
// fails.
zl_imported *function_read(const char *path, const uint8_t *file, size_t bytes);

#endif
