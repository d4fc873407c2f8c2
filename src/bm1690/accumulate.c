// accumulate.c - DMA that combines the elements that it transfers with those in L2.

#include "bm1690/element.h"

run_function run_reduce;

enum { OPCODE_NONE, OPCODE_MUL, OPCODE_MAX, OPCODE_MIN, OPCODE_ADD }; // all_reduce_opcode_t

// Integers are compared as signed ones, whatever their dtype is.
static int64_t combine_ints(int opcode, int64_t there, int64_t x) {
    switch (opcode) {
    case OPCODE_MAX: return MAX_OF(there, x);
    case OPCODE_MIN: return MIN_OF(there, x);
    default: return there + x;
    }
}

static void reduce_element(int opcode, enum bm1690_dtype dtype, uint8_t *to, const uint8_t *from) {
    if (!element_is_float(dtype)) {
        element_store_int(
            to, dtype,
            combine_ints(opcode, element_load_int(to, BM1690_INT32), element_load_int(from, BM1690_INT32)));
        return;
    }
    float there = element_operand(to, dtype), x = element_operand(from, dtype);
    switch (opcode) {
    case OPCODE_MAX: element_keep(to, x > there ? from : to, dtype); break;
    case OPCODE_MIN: element_keep(to, there <= x ? to : from, dtype); break;
    default: element_result(to, dtype, opcode == OPCODE_MUL ? there * x : there + x); break;
    }
}

// Cores that accumulate in the same memory take turns.
static struct lock turn;

ZL_AT_LOAD {
    fork_guard(&turn);
}

bool run_reduce(struct command *command) {
    const struct view *to = command_operand(command, 0), *from = command_operand(command, 1);
    int opcode = (int)command_value(command, "reduce_opcode")->i;
    bool copies = opcode == OPCODE_NONE || !command_value(command, "reduce_psum_op")->i;
    if (!chip_is_l2(command_value(command, "dst_addr")->u))
        return command_refuse(command, "dst_addr", "is 0x%llx; only L2 accumulates",
                              (unsigned long long)command_value(command, "dst_addr")->u);
    if (opcode == OPCODE_MUL && !element_is_float(to->dtype))
        return command_refuse(command, "reduce_opcode",
                              "is a product; integers have sums, maxima and minima");
    lock_take(&turn);
    for (int n = 0; !command->core->counts_only && n < to->dim.n; n++)
        for (int c = 0; c < to->dim.c; c++)
            for (int h = 0; h < to->dim.h; h++)
                for (int w = 0; w < to->dim.w; w++) {
                    uint8_t *y = view_row(to, n, c, h) + w * to->stride[3] * to->size;
                    const uint8_t *x = view_row(from, n, c, h) + w * from->stride[3] * from->size;
                    if (copies)
                        memcpy(y, x, (size_t)to->size);
                    else
                        reduce_element(opcode, to->dtype, y, x);
                }
    lock_give(&turn);
    return true;
}
