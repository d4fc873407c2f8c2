// kernels_attention.c - attention of any layout, mask and size of heads, and the cotangents of its inputs, by src/kernel/attention.tile
// and attention_vjp.tile; by matrix instructions where the call fits them.

#include "device/kernels/kernels_flash.h"
#include "kernel/kernel.h"

enum { LANES = 32, SIZES = 7, VIEWS = 5, VIEWS_MOST = 8 }; // a thread has every 32nd column
enum kind { FORWARD, OF_QUERIES, OF_KEYS };
enum { NO_MASK, MASK_OF_TRUTHS, MASK_ADDED }; // MASKED

struct recipe {
    char name[12]; // no other kernel has such a key
    int32_t kind, dtype, masked, sinks, columns, wide;
};

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    const char *item = kernel_type((zl_dtype)r->dtype), *index = kernel_type(r->wide ? ZL_INT64 : ZL_INT32),
               *mask = r->masked == MASK_OF_TRUTHS ? "bool" : item;
    if (r->kind == FORWARD)
        return kernel_built_in("attention", "ITEM=%s,MASK=%s,INDEX=%s,BITS=%d,COLUMNS=%d,MASKED=%d,SINKS=%d",
                               item, mask, index, kernel_bits(r->wide), r->columns, r->masked, r->sinks);
    return kernel_built_in(
        "attention_vjp", "ITEM=%s,MASK=%s,INDEX=%s,BITS=%d,COLUMNS=%d,MASKED=%d,SINKS=%d,REST=%s,OF_KEYS=%d",
        item, mask, index, kernel_bits(r->wide), r->columns, r->masked, r->sinks,
        r->kind == OF_KEYS ? item : "f32", r->kind == OF_KEYS);
}

// Where a view begins and its strides; one element stands for all along an axis.
static void lay_out(int64_t *out, zl_array x) {
    out[0] = x->offset;
    for (int i = 0; i < x->ndim; i++)
        out[i + 1] = x->dim[i] == 1 ? 0 : array_stride(x)[i];
}

static bool add(const struct kernel_place *p, struct kernel_call *k, zl_array x, struct recipe *r) {
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    r->wide |= kernel_elements(x) > KERNEL_NARROW;
    return memory;
}

// Inputs that are not there are not read, nor is `rest` written where it is NULL.
static bool launch(const struct kernel_place *p, const struct attention *a, enum kind kind, zl_array x,
                   zl_array rest) {
    const zl_array in[VIEWS_MOST] = {a->q, a->k, a->v, a->mask, a->sinks, a->y, a->g, a->state};
    const int64_t *q = a->q->dim, *k = a->k->dim, *v = a->v->dim;
    int64_t size[SIZES + VIEWS_MOST + 2] = {q[0], q[1], q[1] / k[1], q[2], k[2], q[3], v[3]};
    int64_t table[VIEWS_MOST][5] = {{0}}, columns = kind == FORWARD      ? v[3]
                                                    : kind == OF_QUERIES ? q[3]
                                                                         : MAX_OF(q[3], v[3]);
    int views = kind == FORWARD ? VIEWS : VIEWS_MOST;
    int32_t causal = a->causal;
    float scale = (float)a->scale;
    struct kernel_call call;
    struct recipe r = {"attention", (int32_t)kind, a->q->dtype};
    r.masked = !a->mask ? NO_MASK : a->mask->dtype == ZL_BOOL ? MASK_OF_TRUTHS : MASK_ADDED;
    r.sinks = a->sinks && kind != OF_KEYS;
    r.columns = (int32_t)((columns + LANES - 1) / LANES);
    rest = rest ? rest : x;
    kernel_begin_call(&call);
    bool ready = true;
    for (int i = 0; i < views; i++) {
        zl_array view = in[i] ? in[i] : a->q;
        ready = add(p, &call, view, &r) && ready;
        size[SIZES + i] = kernel_elements(view);
        lay_out(table[i], view);
    }
    r.wide |= MAX_OF(kernel_elements(x), kernel_elements(rest)) > KERNEL_NARROW;
    kernel_add_rows(&call, views, 5, &table[0][0], 5, r.wide);
    kernel_add(&call, &scale, sizeof scale);
    kernel_add(&call, &causal, sizeof causal);
    ready = add(p, &call, x, &r) && add(p, &call, rest, &r) && ready;
    size[SIZES + views] = kernel_elements(x);
    size[SIZES + views + 1] = kernel_elements(rest);
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    return kernel && ready && kernel_launch_tiles(p, kernel, &call, SIZES + views + 2, size);
}

bool kernel_attention(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    // Matrix instructions cut keys by the number of queries.
    if (!device_batch_invariant() && flash_fits(p, &a, false))
        return flash_attend(p, c);
    return launch(p, &a, FORWARD, call_first(c), call_output(c, 1));
}

bool kernel_attention_vjp(const struct kernel_place *p, const struct call *c) {
    struct attention a = op_attention_read(c, c->in);
    if (flash_fits(p, &a, true))
        return flash_attend_vjp(p, c);
    return launch(p, &a, OF_QUERIES, call_first(c), a.sinks ? call_output(c, 3) : NULL) &&
           launch(p, &a, OF_KEYS, call_output(c, 1), call_output(c, 2));
}
