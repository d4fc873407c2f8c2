// op_kernel.c - launches, for all devices, the calls of ops that have a kernel in src/kernel/.

#include "device/tile_runtime/op_kernel.h"

#include "kernel/kernel.h"
#include "render/render.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// Returns the number of elements of x's storage; 0 if x has no memory yet, because the kernel is only
// prepared in advance.
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

void device_op_launch_open(struct op_launch *l, const struct call *c) {
    struct op_kernel k = {.inputs = c->inputs};
    assert(c->inputs <= OP_KERNEL_INPUTS && c->outputs <= OP_KERNEL_OUTPUTS);
    for (int i = 0; i < c->inputs; i++)
        k.in[i] = c->in[i];
    c->op->kernel(c, &k);
    *l = (struct op_launch){.key.bits = is_wide(c, &k) ? 64 : 32, .inputs = k.inputs, .values = k.values};
    memcpy(l->key.file, k.file, sizeof k.file);
    memcpy(l->key.clauses, k.clauses, sizeof k.clauses);
    memcpy(l->key.smaller, k.smaller, sizeof k.smaller);
    memcpy(l->in, k.in, sizeof k.in);
    memcpy(l->value, k.value, sizeof k.value);
    for (int i = 0; i < k.sizes; i++)
        l->symbol[l->symbols++] = k.size[i];
    for (int i = 0; i < k.inputs; i++)
        l->symbol[l->symbols++] = k.in[i]->offset;
    for (int i = 0; i < k.inputs; i++)
        l->symbol[l->symbols++] = kernel_elements(k.in[i]);
}

static struct tile_kernel *built(const struct op_key *k, const char *more) {
    return kernel_built_in(k->file, "%s%s%s%sBITS=%" PRId64, k->clauses, *k->clauses ? "," : "", more,
                           *more ? "," : "", k->bits);
}

struct tile_kernel *device_op_launch_kernel(const void *key) {
    return built(key, "");
}

static bool fits(const struct tile_kernel *kernel, const struct target *target) {
    struct tile_kernel *lowered = kernel_copy(kernel);
    bool good = lowered && pass_run(lowered, target, NULL) && render_fits(target, lowered);
    tile_free(lowered);
    return good;
}

struct tile_kernel *device_op_choice_kernel(const void *choice) {
    const struct op_choice *o = choice;
    struct tile_kernel *kernel = device_op_launch_kernel(o->key);
    bool had_error = zl_error();
    if (!kernel || !*o->key->smaller || fits(kernel, o->target))
        return kernel;
    if (!had_error)
        zl_clear_error();
    tile_free(kernel);
    return built(o->key, o->key->smaller);
}
