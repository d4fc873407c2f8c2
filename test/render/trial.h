// trial.h - runs a rendered row kernel and compares it, bit for bit, with what the interpreter makes of its
// IR.

#ifndef TRIAL_H
#define TRIAL_H

#include "test.h"

#include "tile/tile.h"

enum { TRIAL_MOST = 300, TRIAL_PARAMETERS = 8 };

typedef void trial_fn(char *const *p, int64_t n, int64_t run);

// A kernel with data: inputs of random and special numbers, outputs as the interpreter computes them.
struct trial {
    struct tile_kernel *kernel; // of one map or one reduction, before any pass
    char *data[TRIAL_PARAMETERS], *want[TRIAL_PARAMETERS];
};

// Takes the kernel over. False if there is none, or the interpreter refused it: a failed check already.
bool trial_open(struct trial *t, struct tile_kernel *kernel);
void trial_close(struct trial *t);

// Calls the function on the first n elements; with in_place also on an output that is an input, where types
// allow. False, with a note on the first difference, unless everything is equal and nothing else was written.
bool trial_check(struct trial *t, trial_fn *fn, int64_t n, bool in_place);

// The same, of a map with one output, for scalars that serve for run elements each.
bool trial_check_runs(struct trial *t, trial_fn *fn, int64_t n, int64_t run);

// The row kernels, casts and reductions: all of them, by number; NULL past the last.
struct tile_kernel *trial_kernel(int at);
// Where the built-in table has the same kernel.
struct row_table;
trial_fn *trial_function(const struct row_table *table, int at);

#endif
