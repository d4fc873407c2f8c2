// cpu_collective.c - collectives of arrays on the host: the group moves the data, row kernels combine it.

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

static void combine(const struct op_transfer *t, void *to, const void *a, const void *b, int64_t n) {
    row_fn *row;
    __builtin_memcpy(&row, t->row, sizeof row);
    cpu_call_row(row, to, a, b, NULL, n);
}

// Returns the update by which a collective combines the ranks' values, or UPDATE_SET if it only moves data.
static enum update update_of(const struct op *op, zl_dtype dtype) {
    switch ((enum collective)(op - op_collectives)) {
    case COLLECTIVE_ALL_SUM:
    case COLLECTIVE_SUM_SCATTER:
    case COLLECTIVE_BARRIER: return dtype == ZL_BOOL ? UPDATE_MAX : UPDATE_ADD;
    case COLLECTIVE_ALL_MAX: return UPDATE_MAX;
    case COLLECTIVE_ALL_MIN: return UPDATE_MIN;
    default: return UPDATE_SET;
    }
}

bool cpu_collective(const struct call *c) {
    zl_array y = call_first(c);
    union scalar room;
    row_fn *row = cpu_update_row(update_of(c->op, (zl_dtype)y->dtype), (zl_dtype)y->dtype);
    struct op_transfer t = {.in = c->inputs > 1 ? array_data(c->in[0], &room) : NULL,
                            .out = cpu_data(y),
                            .combine = row ? combine : NULL,
                            .row = &row};
    return op_collective_run(c, &t);
}
