// kernels_attention.c - attention of any layout, mask and head size, and the cotangents of its inputs, by
// src/kernel/attention.tile and attention_vjp.tile. Calls that fit run on the kernels with matrix
// instructions instead.

#include "device/kernels/kernels_flash.h"
#include "op/ops.h"

enum { LANES = 32, VIEWS = 5, VIEWS_MOST = 8 }; // each of LANES threads has every 32nd column
enum kind { FORWARD, OF_QUERIES, OF_KEYS };
enum { NO_MASK, MASK_OF_BOOLS, MASK_ADDED }; // the values of MASKED in the kernels

// Writes the offset of a view and its strides, which are 0 along axes of size 1.
static void lay_out(int64_t *out, zl_array x) {
    out[0] = x->offset;
    for (int i = 0; i < x->ndim; i++)
        out[i + 1] = x->dim[i] == 1 ? 0 : array_stride(x)[i];
}

// Launches one kernel. Inputs that the call does not have are passed as q, and a NULL `rest` as x; the kernel
// does not use them in that role.
static bool launch(const struct kernel_place *p, const struct attention *a, enum kind kind, zl_array x,
                   zl_array rest) {
    const zl_array in[VIEWS_MOST] = {a->q, a->k, a->v, a->mask, a->sinks, a->y, a->g, a->state};
    const int64_t *q = a->q->dim, *k = a->k->dim, *v = a->v->dim;
    int64_t table[VIEWS_MOST + 2][5] = {{0}}, columns = kind == FORWARD      ? v[3]
                                                        : kind == OF_QUERIES ? q[3]
                                                                             : MAX_OF(q[3], v[3]);
    int views = kind == FORWARD ? VIEWS : VIEWS_MOST;
    int32_t causal = a->causal, dtype = a->q->dtype, is_of_keys = kind == OF_KEYS;
    int32_t masked = !a->mask ? NO_MASK : a->mask->dtype == ZL_BOOL ? MASK_OF_BOOLS : MASK_ADDED;
    float scale = (float)a->scale;
    struct kernel_work w;
    work_open(&w, p, "attention");
    WORK_SIZES(&w, q[0], q[1], q[1] / k[1], q[2], k[2], q[3], v[3]);
    for (int i = 0; i < views; i++) {
        zl_array view = in[i] ? in[i] : a->q;
        work_result(&w, view);
        WORK_SIZES(&w, kernel_elements(view));
        lay_out(table[i], view);
    }
    rest = rest ? rest : x;
    lay_out(table[views], x);
    lay_out(table[views + 1], rest);
    work_rows(&w, kind == FORWARD ? views + 1 : views + 2, 5, &table[0][0], 5);
    work_value(&w, &scale, sizeof scale);
    work_value(&w, &causal, sizeof causal);
    work_result(&w, x);
    work_result(&w, rest);
    WORK_SIZES(&w, kernel_elements(x), kernel_elements(rest));
    return work_file(
        &w, kind == FORWARD ? "attention" : "attention_vjp",
        kind == FORWARD
            ? "ITEM=%t,MASK=%t,COLUMNS=%d,MASKED=%d,SINKS=%d,INDEX=i%b,BITS=%b"
            : "ITEM=%t,MASK=%t,COLUMNS=%d,MASKED=%d,SINKS=%d,INDEX=i%b,BITS=%b,REST=%t,OF_KEYS=%d",
        7,
        (const int32_t[]){dtype, masked == MASK_OF_BOOLS ? ZL_BOOL : dtype,
                          (int32_t)((columns + LANES - 1) / LANES), masked, a->sinks && !is_of_keys,
                          is_of_keys ? dtype : ZL_FLOAT32, is_of_keys});
}

bool kernel_attention(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    // The kernels with matrix instructions divide the keys by the number of queries, on which the result of a
    // row would then depend.
    if (!device_batch_invariant() && kernel_attention_few_fits(p->record, &a))
        return kernel_attention_few(p, c, &a);
    if (!device_batch_invariant() && flash_fits(p, &a, false))
        return flash_attend(p, c, &a);
    return launch(p, &a, FORWARD, call_first(c), call_output(c, 1));
}

bool kernel_attention_vjp(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    if (flash_fits(p, &a, true))
        return flash_attend_vjp(p, c, &a);
    return launch(p, &a, OF_QUERIES, call_first(c), a.sinks ? call_output(c, 3) : NULL) &&
           launch(p, &a, OF_KEYS, call_output(c, 1), call_output(c, 2));
}
