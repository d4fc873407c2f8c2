// kernels_gated_delta.c - the gated delta rule, by src/kernel/gated_delta.tile.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"

enum { Q, K, V, GATE, BETA, STATE, MASK, INPUTS };
enum { LANES = 32, HELD_MOST = 16 }; // threads of a row of the state; elements of it that a thread holds

// The key of a kernel begins with the name of its file.
struct recipe {
    char file[16];
    int32_t dtype, held, by_column, masked, wide; // held 0: in memory; by_column: a gate for each column
};

bool kernel_can_gated_delta(const struct call *c) {
    for (int i = 0; i < c->inputs; i++)
        if (array_is(c->in[i], ARRAY_INLINE))
            return false;
    return true;
}

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "WIDE=%s,BITS=%d,HELD=%d,BY_COLUMN=%d,MASKED=%d",
                           kernel_type((zl_dtype)r->dtype), kernel_bits(r->wide), r->held, r->by_column,
                           r->masked);
}

bool kernel_gated_delta(const struct kernel_place *p, const struct call *c) {
    const int64_t *q = c->in[Q]->dim, *v = c->in[V]->dim; // (B, T, heads, size)
    int64_t keys = q[3], rows = v[0] * v[2] * v[3], held = (keys + LANES - 1) / LANES;
    struct recipe r = {"gated_delta", c->in[V]->dtype, held > HELD_MOST ? 0 : (int32_t)held,
                       c->in[GATE]->ndim == 4, c->inputs > MASK};
    int64_t sizes[6 + 2 * INPUTS] = {q[1], q[2], v[2], keys, v[3], rows};
    struct kernel_call k;
    kernel_begin_call(&k);
    for (int i = 0; i < INPUTS; i++) { // the mask, if there is none, is not read
        zl_array x = c->in[MIN_OF(i, c->inputs - 1)];
        void *memory = kernel_reach(p, x);
        if (!memory)
            return false;
        kernel_add_memory(&k, memory);
        sizes[6 + i] = x->offset;
        sizes[6 + INPUTS + i] = kernel_elements(x);
        r.wide |= kernel_elements(x) > KERNEL_NARROW;
    }
    r.wide |= call_first(c)->size > KERNEL_NARROW;
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *to[] = {kernel_reach(p, call_first(c)), kernel_reach(p, call_output(c, 1))};
    kernel_add_memory(&k, to[0]);
    kernel_add_memory(&k, to[1]);
    return kernel && to[0] && to[1] && kernel_launch_tiles(p, kernel, &k, COUNT(sizes), sizes);
}
