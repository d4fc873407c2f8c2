// group.h - functions that render kernels for groups of threads. Used by the files of render/ only.

#ifndef GROUP_H
#define GROUP_H

#include "render/c/program.h"

// The words of a language for groups of threads.
struct group_words {
    const char *function;        // the beginning of a kernel; %s: threads per group
    bool has_resident;           // the threads are followed by the least number of groups per multiprocessor
    const char *global, *shared; // before types in such memory, with a space after it, or ""
    const char *thread, *block;  // the number of the thread in its group; that of the group
    // before the struct of a table that is passed by value, with a space after it
    const char *table;
    // declares zl_memory, whose parts are the shared buffers; NULL: each is declared by itself
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
