// op_kernel.c - calls of ops that have a kernel in src/kernel/, as devices launch them.

#include "device/tile_runtime/op_kernel.h"

#include "kernel/kernel.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// Of what is only looked ahead at, nobody has memory yet.
int64_t kernel_elements(zl_array x) {
    if (array_is(x, ARRAY_INLINE))
        return 1;
    return x->storage ? (int64_t)(x->storage->bytes / array_item(x)) : 0;
}

static bool is_wide(const struct call *c, const struct op_kernel *k) {
    bool wide = false;
    for (int i = 0; i < k->inputs; i++)
        wide |= kernel_elements(k->in[i]) > KERNEL_NARROW;
    for (int i = 0; i < c->outputs; i++)
        wide |= call_output(c, i)->size > KERNEL_NARROW;
    return wide;
}

void op_launch_open(struct op_launch *l, const struct call *c) {
    struct op_kernel k = {.inputs = c->inputs};
    assert(c->inputs <= OP_KERNEL_INPUTS && c->outputs <= OP_KERNEL_OUTPUTS);
    for (int i = 0; i < c->inputs; i++)
        k.in[i] = c->in[i];
    c->op->kernel(c, &k);
    *l = (struct op_launch){.key.bits = is_wide(c, &k) ? 64 : 32, .inputs = k.inputs, .values = k.values};
    memcpy(l->key.file, k.file, sizeof k.file);
    memcpy(l->key.clauses, k.clauses, sizeof k.clauses);
    memcpy(l->in, k.in, sizeof k.in);
    memcpy(l->value, k.value, sizeof k.value);
    for (int i = 0; i < k.sizes; i++)
        l->symbol[l->symbols++] = k.size[i];
    for (int i = 0; i < k.inputs; i++)
        l->symbol[l->symbols++] = k.in[i]->offset;
    for (int i = 0; i < k.inputs; i++)
        l->symbol[l->symbols++] = kernel_elements(k.in[i]);
}

struct tile_kernel *op_launch_kernel(const void *key) {
    const struct op_key *k = key;
    return kernel_built_in(k->file, "%s%sBITS=%" PRId64, k->clauses, *k->clauses ? "," : "", k->bits);
}
