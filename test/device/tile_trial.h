// tile_trial.h - runs a tile kernel on a target with random arguments, and compares it with the interpreter.

#ifndef TILE_TRIAL_H
#define TILE_TRIAL_H

#include "zellige_tile.h"

// Compiles the text for the target, runs it with these sizes, in the order of its symbols, and compares its
// outputs: the same bits, or within `near`, relative to values of at least 1.
void tile_trial(const char *text, const char *target, const int64_t *sizes, double near);
// Does the same with the kernel as it is for groups of threads of the target, which the interpreter runs. It
// has no matrix instructions.
struct target;
void tile_trial_of_groups(const char *text, const struct target *target, const int64_t *sizes, double near);
struct tile_kernel;
// Runs all passes on the kernel and renders it for a unit of a dialect. The caller frees the text; NULL after
// an error.
char *tile_rendered(struct tile_kernel *kernel, const char *dialect);
bool tile_renders(const struct tile_kernel *kernel); // returns whether every dialect of groups of threads can
                                                     // render it
void tile_trial_of_manual(const char *target); // tests every example of doc/tile.md

#endif
