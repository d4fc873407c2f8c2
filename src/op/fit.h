// fit.h - what fit.c and fit_matrices.c share.

#ifndef FIT_H
#define FIT_H

#include "op/ops.h"

static inline bool has(const struct call *c, int inputs, int args) {
    return c->inputs == inputs && c->args == args;
}

#endif
