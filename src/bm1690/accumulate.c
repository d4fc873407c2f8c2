// accumulate.c - DMA that combines what it brings with what is in L2.

#include "bm1690/number.h"

run_function run_reduce;

enum { OPCODE_NONE, OPCODE_MUL, OPCODE_MAX, OPCODE_MIN, OPCODE_ADD }; // all_reduce_opcode_t

static float combine(int opcode, float there, float x) {
    switch (opcode) {
    case OPCODE_MUL: return there * x;
    case OPCODE_MAX: return there > x ? there : x;
    case OPCODE_MIN: return there < x ? there : x;
    default: return there + x;
    }
}

// Integers are compared as signed ones, whatever their dtype.
static int64_t combine_ints(int opcode, int64_t there, int64_t x) {
    switch (opcode) {
    case OPCODE_MAX: return MAX_OF(there, x);
    case OPCODE_MIN: return MIN_OF(there, x);
    default: return there + x;
    }
}

static void reduce_element(int opcode, enum bm1690_dtype dtype, uint8_t *to, const uint8_t *from) {
    if (number_is_float(dtype))
        number_store(to, dtype, number_flush(combine(opcode, number_flush(number_load(to, dtype)), number_flush(number_load(from, dtype)))));
    else
        number_store_int(to, dtype, combine_ints(opcode, number_load_int(to, BM1690_INT32), number_load_int(from, BM1690_INT32)));
}

bool run_reduce(struct call *call) {
    const struct view *to = call_operand(call, 0), *from = call_operand(call, 1);
    int opcode = (int)call_value(call, "reduce_opcode")->i;
    bool copies = opcode == OPCODE_NONE || !call_value(call, "reduce_psum_op")->i;
    if (!chip_is_l2(call_value(call, "dst_addr")->u))
        return call_refuse(call, "dst_addr", "is 0x%llx; only L2 accumulates", (unsigned long long)call_value(call, "dst_addr")->u);
    if (opcode == OPCODE_MUL && !number_is_float(to->dtype))
        return call_refuse(call, "reduce_opcode", "is a product; integers have sums, maxima and minima");
    for (int n = 0; !call->core->counts_only && n < to->dim.n; n++)
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
    return true;
}
