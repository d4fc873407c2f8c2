// test_delta_rule.c - the delta family: samples of its ops for tests of all ops, its rules for derivatives
// and batches, invalid input. test/python/test_delta.py compares values.

#include <string.h>

#include "fuzz/call_op.h"
#include "op/op_test.h"

OP_RULES_HERE(zl_fast_delta_rule);
OP_FITTING_WORD(zl_fast_delta_rule, rule, "gated_delta");
OP_FITTING(zl_fast_delta_rule, q, ZL_FLOAT32, 2, 3, 1, 4);
OP_FITTING(zl_fast_delta_rule, k, ZL_FLOAT32, 2, 3, 1, 4);
OP_FITTING(zl_fast_delta_rule, v, ZL_FLOAT32, 2, 3, 2, 5);
OP_FITTING(zl_fast_delta_rule, g, ZL_FLOAT32, 2, 3, 2);
OP_FITTING(zl_fast_delta_rule, beta, ZL_FLOAT32, 2, 3, 2);
OP_FITTING(zl_fast_delta_rule, initial_state, ZL_FLOAT32, 2, 2, 4, 5);
OP_FITTING(zl_fast_delta_rule, mask, ZL_BOOL, 2, 3);
OP_FITTING_NONE(zl_fast_delta_rule, a);
OP_FITTING_NONE(zl_fast_delta_rule, b);
OP_FITTING_NONE(zl_fast_delta_rule, offsets);
OP_FITTING(zl_fast_delta_rule, A_log, ZL_FLOAT32, 2);
OP_FITTING(zl_fast_delta_rule, dt_bias, ZL_FLOAT32, 2);

// Returns the elements of x from *at on in a shape, and advances *at.
static zl_array part_of(zl_array x, int64_t *at, zl_shape shape) {
    int64_t size, from = *at;
    if (!shape_size(shape.ndim, shape.dim, &size))
        return NULL;
    *at += size;
    return zl_reshape(zl_slice(x, ZL_SHAPE(from), ZL_SHAPE(from + size), ZL_SHAPE(1)), shape);
}

// Returns both results in one row, for inputs that are all in one row.
static zl_array of_line(zl_array x, const char *rule, bool by_channel, bool packed) {
    int64_t at = 0;
    zl_array q = part_of(x, &at, ZL_SHAPE(1, 3, 1, 2)), k = part_of(x, &at, ZL_SHAPE(1, 3, 1, 2)), out[2];
    zl_array v = part_of(x, &at, ZL_SHAPE(1, 3, 2, 2)), beta = part_of(x, &at, ZL_SHAPE(1, 3, 2));
    zl_array g = by_channel ? part_of(x, &at, ZL_SHAPE(1, 3, 2, 2)) : part_of(x, &at, ZL_SHAPE(1, 3, 2));
    zl_array state = packed ? part_of(x, &at, ZL_SHAPE(2, 2, 2, 2)) : part_of(x, &at, ZL_SHAPE(1, 2, 2, 2));
    zl_array offsets = packed ? zl_from_i32((int32_t[]){0, 1, 3}, ZL_SHAPE(3)) : NULL;
    bool has_a = !strcmp(rule, "comba");
    if (!zl_fast_delta_rule(rule, q, k, v, zl_negative(g), beta, has_a ? zl_sin(k) : NULL, NULL, state, NULL,
                            offsets, NULL, NULL, 0.5, false, false, out))
        return NULL;
    return zl_concatenate((zl_array[]){zl_flatten(out[0], 0, -1), zl_flatten(out[1], 0, -1)}, 2, 0);
}
RULES_IN(delta_of_heads, ZL_SHAPE(44), 0.1, 0.7, of_line(x, "gated_delta", false, false))
RULES_IN(delta_of_channels, ZL_SHAPE(50), 0.1, 0.7, of_line(x, "kda", true, false))
RULES_IN(delta_packed, ZL_SHAPE(58), 0.1, 0.7, of_line(x, "kda", true, true))
RULES_IN(delta_before, ZL_SHAPE(52), 0.1, 0.7, of_line(x, "comba", false, true))
RULES_IN(delta_of_values, ZL_SHAPE(50), 0.1, 0.7, of_line(x, "gated_oja", true, false))

// The rule with momentum, whose state has twice as many rows.
static zl_array with_momentum(zl_array x, bool packed) {
    int64_t at = 0;
    zl_array q = part_of(x, &at, ZL_SHAPE(1, 3, 1, 2)), k = part_of(x, &at, ZL_SHAPE(1, 3, 1, 2)), out[2];
    zl_array v = part_of(x, &at, ZL_SHAPE(1, 3, 2, 2)), a = part_of(x, &at, ZL_SHAPE(1, 3, 1, 2));
    zl_array b = part_of(x, &at, ZL_SHAPE(1, 3, 2, 2)), beta = part_of(x, &at, ZL_SHAPE(1, 3, 2));
    zl_array g = part_of(x, &at, ZL_SHAPE(1, 3, 2)),
             state = part_of(x, &at, ZL_SHAPE(packed ? 2 : 1, 2, 4, 2));
    zl_array offsets = packed ? zl_from_i32((int32_t[]){0, 1, 3}, ZL_SHAPE(3)) : NULL;
    if (!zl_fast_delta_rule("momentum_delta", q, k, v, zl_negative(g), beta, a, zl_negative(b), state, NULL,
                            offsets, NULL, NULL, 0.5, false, false, out))
        return NULL;
    return zl_concatenate((zl_array[]){zl_flatten(out[0], 0, -1), zl_flatten(out[1], 0, -1)}, 2, 0);
}
RULES_IN(delta_with_momentum, ZL_SHAPE(70), 0.1, 0.7, with_momentum(x, false))
RULES_IN(delta_with_momentum_packed, ZL_SHAPE(86), 0.1, 0.7, with_momentum(x, true))

TEST(delta_rules_have_names) {
    zl_array out[2], x = zl_zeros(ZL_SHAPE(1, 2, 1, 3), ZL_FLOAT32);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_fast_delta_rule("hebb", x, x, x, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                   NULL, NULL, 1, false, false, out));
    CHECK_HAS(test_last_error(), "zl_fast_delta_rule: no rule 'hebb'; there are linear");
}
