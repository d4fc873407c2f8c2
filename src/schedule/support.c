// support.c - finds out which calls a device runs itself, by small calls of every op and dtype that are not
// evaluated.

#include "schedule/schedule.h"

#include "zellige_ahead.h"

#include "device/kernels/kernels.h"
#include "op/ops.h"

#include <string.h>

// Samples ---------------------------------------------------------------------------------------------------

#define X(...) zl_zeros(ZL_SHAPE(__VA_ARGS__), t)
#define U(...) zl_zeros(ZL_SHAPE(__VA_ARGS__), ZL_UINT32)

#define SAMPLE(op, call)                      \
    static zl_array sample_##op(zl_dtype t) { \
        return call;                          \
    }
#define COUNTED(op, outputs, call)            \
    static zl_array sample_##op(zl_dtype t) { \
        zl_array out[outputs];                \
        return (call) ? out[0] : NULL;        \
    }
#include "schedule/support.def"

static const struct {
    const struct op *op;
    zl_array (*make)(zl_dtype t);
} samples[] = {
#define SAMPLE(op, call)           {&op_##op, sample_##op},
#define COUNTED(op, outputs, call) {&op_##op, sample_##op},
#include "schedule/support.def"
};

// clang-format off
static zl_array sample_of_row(enum tile_op row, zl_dtype t) {
    switch (row) {
#define UNARY(NAME, fn, ...)   case TILE_##NAME: return fn(X(2, 3));
#define BINARY(NAME, fn, ...)  case TILE_##NAME: return fn(X(2, 3), X(2, 3));
#define TERNARY(NAME, fn, ...) case TILE_##NAME: return fn(zl_zeros(ZL_SHAPE(2, 3), ZL_BOOL), X(2, 3), X(2, 3));
#include "op/elementwise.def"
    default: return NULL;
    }
}
// clang-format on

static zl_array sample_of_reduction(int which, zl_dtype t) {
    static zl_array (*const all[])(zl_array a) = {
#define REDUCE(NAME, fn, ...) [REDUCE_##NAME] = zl_##fn,
#include "op/reduce.def"
    };
    return all[which](X(2, 3));
}

// Returns an array that a call of the op computes, or NULL, with or without an error, if there is no such
// call.
static zl_array make_sample(const struct op *op, zl_dtype t) {
    if (op->kind == OP_ELEMENTWISE)
        return sample_of_row(op->row, t);
    if (op->kind == OP_REDUCE)
        return sample_of_reduction((int)(op - op_reduce), t);
    for (size_t i = 0; i < COUNT(samples); i++)
        if (samples[i].op == op)
            return samples[i].make(t);
    return NULL;
}

// Asking ----------------------------------------------------------------------------------------------------

// Returns the call of the op that the array was computed from, at most `depth` calls before it, or NULL.
static const struct call *find_call(zl_array a, const struct op *op, int depth) {
    const struct call *c = a ? a->call : NULL, *found = c && c->op == op ? c : NULL;
    for (int i = 0; c && !found && depth > 0 && i < c->inputs; i++)
        found = find_call(c->in[i], op, depth - 1);
    return found;
}

enum { DEPTH = 6 }; // most calls between a sample and the call of its op

static void query(const struct device *d, int unit, const struct op *op, zl_dtype t, zl_op_support *out) {
    bool had_error = zl_error();
    ZL_SCOPE {
        const struct call *c = find_call(make_sample(op, t), op, DEPTH);
        if (c && d->can(unit, c))
            out->native |= 1u << t;
        else if (c)
            out->elsewhere |= 1u << t;
    }
    if (!had_error)
        zl_clear_error();
}

bool zl_device_support(const char *device, int index, zl_op_support *out) {
    int unit = 0;
    const struct device *d = device_find_unit(device, &unit);
    const struct op *op = d && index >= 0 && out ? op_at(index) : NULL;
    if (!op)
        return false;
    *out = (zl_op_support){.op = op->name};
    for (int t = 0; t < ZL_DTYPE_COUNT; t++)
        query(d, unit, op, (zl_dtype)t, out);
    if (out->elsewhere)
        out->reason = op->kind == OP_OTHER && !kernels_have(op) ? "there is no kernel of it"
                      : out->native ? "the device lacks these dtypes, or a kernel of them"
                                    : "the device lacks what its kernel needs";
    return true;
}

zl_array zl_op_sample(int index, zl_dtype dtype, const char **name) {
    bool had_error = zl_error();
    const struct op *op = index >= 0 ? op_at(index) : NULL;
    *name = op ? op->name : NULL;
    zl_array out = op && dtype >= 0 && dtype < ZL_DTYPE_COUNT ? make_sample(op, dtype) : NULL;
    const struct call *c = find_call(out, op, DEPTH);
    for (int i = 0; c && i < c->inputs; i++) // arrays, since a compiler would fold numbers
        if (!array_is(c->in[i], ARRAY_INLINE) && !zl_eval(c->in[i]))
            c = NULL;
    if (!had_error)
        zl_clear_error();
    return c ? out : NULL;
}
