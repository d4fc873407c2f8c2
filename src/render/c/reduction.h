// reduction.h - reductions of one row while they are rendered. Between the files of render/ only.

#ifndef REDUCTION_H
#define REDUCTION_H

#include "render/c/style.h"

// How a dialect says the same.
struct reduction_words {
    const char *function; // what an inline function begins with
    const char *prefix;   // of the type of a value
    const char *pair;     // type of a complex number
    const char *truth;    // type of a truth value, after the prefix
};

// What the text needs to know of one reduction.
struct reduction {
    const struct reduction_words *words;
    const char *symbol, *name; // the function is called symbol, its helper name_step
    zl_dtype input, lane;
    enum tile_op combine;
    bool is_complex;
    const char *value;  // type of one value, after the prefix; of complex numbers, of one part
    int element, bytes; // of the input; of a value in a lane
};

// reduction.c -----------------------------------------------------------------------------------------------

extern const struct reduction_words reduction_vectors; // of the dialect c
// What is known of a reduction from its statement; the helper's name is `name`.
struct reduction reduction_of(const struct reduction_words *words, const struct tile_stmt *stmt,
                              const char *name, const char *symbol);
bool reduction_step(struct style *s, const struct reduction *r); // the function NAME_step of two values
// What all lanes start from, how registers are combined at the end, and the text of that end: the result goes
// to p[argument].
void reduction_define_start(struct text *out, const struct reduction *r);
void reduction_define_end(struct text *out, const struct reduction *r);
void reduction_finish(struct style *s, const struct reduction *r, int argument);

// row_reduction.c -------------------------------------------------------------------------------------------

// The reduction of one of the things that a map stores, in the same loop; whether the kernel is one:
// [memory,] a map of stores, the reduction.
bool render_row_reduction_is(const struct tile_kernel *kernel);
bool render_row_reduction(struct style *s, const struct tile_kernel *kernel, const char *symbol);

#endif
