// reduction.h - functions that render reductions of one row. Used by the files of render/ only.

#ifndef REDUCTION_H
#define REDUCTION_H

#include "render/c/style.h"

// The words of a dialect.
struct reduction_words {
    const char *function; // the beginning of an inline function
    const char *prefix;   // of the type of a value
    const char *pair;     // type of a complex number
    const char *truth;    // type of a boolean, after the prefix
};

// A reduction, as the text needs it.
struct reduction {
    const struct reduction_words *words;
    const char *symbol, *name; // the function is called symbol, its helper name_step
    zl_dtype input, lane;
    enum tile_op combine;
    bool is_complex;
    const char *value;  // type of one value, after the prefix; of complex numbers, of one part
    int element, bytes; // bytes of an element of the input, and of a value in a lane
};

// reduction.c -----------------------------------------------------------------------------------------------

extern const struct reduction_words reduction_vectors; // of the dialect c
// Describes a reduction from its statement. The struct refers to words, name and symbol.
struct reduction reduction_of(const struct reduction_words *words, const struct tile_stmt *stmt,
                              const char *name, const char *symbol);
// Writes the function NAME_step, which combines two values. Returns false, with an error, if that fails.
bool reduction_step(struct style *s, const struct reduction *r);
// Appends the macro START(R), which declares register R of the accumulator with the op's identity.
void reduction_define_start(struct text *out, const struct reduction *r);
// Appends the macros FOLD(R, S) and DOWN(BYTES), which combine two registers, and the lanes of one register.
void reduction_define_end(struct text *out, const struct reduction *r);
// Writes the end of the function: combines all lanes, stores the result to p[argument], closes the function
// and undefines its macros.
void reduction_finish(struct style *s, const struct reduction *r, int argument);

// row_reduction.c -------------------------------------------------------------------------------------------

// Returns whether the kernel is a map of stores, after at most one allocation, and then a reduction of one
// buffer that the map stores.
bool render_row_reduction_is(const struct tile_kernel *kernel);
// Writes the function of such a kernel, in the dialect `c`: the map and its reduction in one loop. Returns
// false, with an error, if that fails.
bool render_row_reduction(struct style *s, const struct tile_kernel *kernel, const char *symbol);

#endif
