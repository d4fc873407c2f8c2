// tile_trial.h - a tile kernel on a target against the interpreter, on random arguments.

#ifndef TILE_TRIAL_H
#define TILE_TRIAL_H

#include "zellige_tile.h"

// Compiles the text for the target, runs it with these sizes, in the order of its symbols, and compares what
// it wrote: the same bits, or within `near` relative to values of at least 1.
void tile_trial(const char *text, const char *target, const int64_t *sizes, double near);
// Does the same with the kernel as groups of threads of the target, which the interpreter runs. It has no
// matrix instructions.
struct target;
void tile_trial_of_groups(const char *text, const struct target *target, const int64_t *sizes, double near);
struct tile_kernel;
// Runs all passes on the kernel and renders it for any unit of a dialect. The caller frees the text; NULL and
// an error.
char *tile_rendered(struct tile_kernel *kernel, const char *dialect);
bool tile_renders(const struct tile_kernel *kernel); // for every dialect of groups of threads
void tile_trial_of_manual(const char *target); // every example of doc/tile.md

#endif
