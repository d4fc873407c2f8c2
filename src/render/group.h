// group.h - kernels of groups of threads while they are rendered. Between the files of render/ only.

#ifndef GROUP_H
#define GROUP_H

#include "render/program.h"

const char *group_space(const struct program *p, const struct tile_buffer *b); // the word before its type, or ""

// group_gemm.c: a product by matrix instructions.
void group_gemm(struct program *p, const struct tile_stmt *s);

#endif
