// group.h - kernels of groups of threads while they are rendered. Between the files of render/ only.

#ifndef GROUP_H
#define GROUP_H

#include "render/c/program.h"

// How a language says what groups need.
struct group_words {
    const char *function;        // how a kernel begins; %s: threads of a group
    bool has_resident;           // behind them: groups that a multiprocessor has at once
    const char *global, *shared; // before the types of what is there, with a space behind, or ""
    const char *thread, *block;  // numbers of the thread in its group, of the group
    const char *table;           // before the struct of a table that is passed by value, with a space behind
    // declares zl_memory, of which buffers of the group are parts; NULL: each by itself
    const char *memory;
};

// Returns the language's qualifier for the memory of a buffer, with a space after it; "" if it needs none.
const char *render_group_space(const struct program *p, const struct tile_buffer *b);

// group_gemm.c

// Writes a product of tiles by CUDA's matrix instructions.
void render_group_gemm(struct program *p, const struct tile_stmt *s);
// Returns whether targets with asynchronous matrix instructions run this product while the threads continue.
bool render_group_gemm_runs_on(const struct tile_stmt *s);

#endif
