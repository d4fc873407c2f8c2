// op_tiles.c - runs ops by their tile kernels in src/kernel/, which are compiled once, or interpreted if
// there is no compiler.

#include "device/cpu/cpu.h"
#include "device/cpu/tile/tile_kernel.h"
#include "device/tile_runtime/op_kernel.h"

struct known {
    struct tile_kernel *kernel;
    void *compiled; // NULL: the kernel is interpreted
};

static struct lock lock; // guards known; kernels are compiled without holding it
static struct map known; // struct op_key -> struct known

ZL_AT_LOAD {
    fork_guard(&lock);
}

static void known_free(struct known *k) {
    if (k && k->compiled)
        kernel_driver_c.free(k->compiled);
    if (k)
        tile_free(k->kernel);
    memory_free(k);
}

static struct known *compile(const struct op_key *key) {
    struct known *k = memory_zero(sizeof *k);
    struct tile_kernel *lowered =
        k && (k->kernel = device_op_launch_kernel(key)) ? kernel_copy(k->kernel) : NULL;
    struct text source = {0};
    if (!lowered) {
        known_free(k);
        return NULL;
    }
    if ((k->compiled = kernel_driver_c.compile(lowered, &source))) {
        tile_free(k->kernel);
        k->kernel = lowered;
    } else {
        log_line(ZL_LOG_WARN, "kernel %s is interpreted, which is slow: %s", key->file, zl_error());
        zl_clear_error();
        tile_free(lowered);
    }
    text_free(&source);
    return k;
}

// Returns the kernel of an op, compiled at its first use. If another thread compiles it at the same time,
// each uses its own.
static const struct known *find(const struct op_key *key) {
    lock_take(&lock);
    struct known *k = map_get(&known, key, sizeof *key);
    lock_give(&lock);
    if (k || !(k = compile(key)))
        return k;
    lock_take(&lock);
    bool kept = map_set(&known, key, sizeof *key, k);
    lock_give(&lock);
    if (kept)
        return k;
    known_free(k);
    return NULL;
}

// Returns the start of an array's memory.
static void *memory_of(zl_array x, union scalar *room) {
    return array_is(x, ARRAY_INLINE) ? (void *)(uintptr_t)array_data(x, room) : x->storage->data;
}

bool cpu_op_tiles(const struct call *c) {
    struct op_launch l;
    union scalar room[OP_KERNEL_INPUTS];
    void *address[OP_KERNEL_INPUTS + OP_KERNEL_VALUES + OP_KERNEL_OUTPUTS];
    device_op_launch_open(&l, c);
    const struct known *k = find(&l.key);
    for (int i = 0; i < l.inputs; i++)
        address[i] = memory_of(l.in[i], &room[i]);
    for (int i = 0; i < l.values; i++)
        address[l.inputs + i] = &l.value[i];
    for (int i = 0; i < c->outputs; i++)
        address[l.inputs + l.values + i] = memory_of(call_output(c, i), NULL);
    return k && (k->compiled ? kernel_driver_c.run(k->compiled, address, l.symbol)
                             : tile_interpret(k->kernel, address, l.symbol));
}
