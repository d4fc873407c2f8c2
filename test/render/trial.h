// trial.h - runs a rendered row kernel, and compares it bit by bit with the interpreter's results for its IR.

#ifndef TRIAL_H
#define TRIAL_H

#include "test.h"

#include "tile/tile.h"

enum { TRIAL_MOST = 300, TRIAL_PARAMETERS = 8 };

typedef void trial_fn(char *const *p, int64_t n, int64_t run);

// A kernel with data: inputs of random and special numbers, and the outputs that the interpreter computes.
struct trial {
    struct tile_kernel *kernel; // with one map or one reduction, before any pass
    char *data[TRIAL_PARAMETERS], *want[TRIAL_PARAMETERS];
};

// Takes ownership of the kernel. Returns false, after a failed check, if it is NULL or the interpreter
// rejects it.
bool trial_open(struct trial *t, struct tile_kernel *kernel);
void trial_close(struct trial *t);

// Calls the function on the first n elements; if in_place, also with an output that is an input, where types
// allow. Returns false, with a note on the first difference, unless all bits are equal and no other memory
// was written.
bool trial_check(struct trial *t, trial_fn *fn, int64_t n, bool in_place);

// Does the same for a map with one output, with numbers that change after every `run` elements.
bool trial_check_runs(struct trial *t, trial_fn *fn, int64_t n, int64_t run);

// Returns a row kernel, cast or reduction by its number; NULL past the last.
struct tile_kernel *trial_kernel(int at);
// Returns the function of the same kernel in the built-in table.
struct row_table;
trial_fn *trial_function(const struct row_table *table, int at);

#endif
