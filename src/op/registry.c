// registry.c - finds ops by name: the rows of elementwise.def, reduce.def and ops.def.

#include <string.h>

#include "op/ops.h"

static const struct op *const others[] = {
#define OP(name) &op_##name,
#include "op/ops.def"
};

// The rows of elementwise.def come first in enum tile_op; ops for kernels only follow them.
enum { ELEMENTWISE = TILE_CONST, OPS = ELEMENTWISE + REDUCE_COUNT + COUNT(others) };

const struct op *op_at(int index) {
    if (index < ELEMENTWISE)
        return &op_elementwise[index];
    if (index < ELEMENTWISE + REDUCE_COUNT)
        return &op_reduce[index - ELEMENTWISE];
    return index < OPS ? others[index - ELEMENTWISE - REDUCE_COUNT] : NULL;
}

const struct op *op_find(const char *name, size_t bytes) {
    for (int i = 0; i < OPS; i++) {
        const struct op *op = op_at(i);
        if (strlen(op->name) == bytes && !memcmp(op->name, name, bytes))
            return op;
    }
    return NULL;
}
