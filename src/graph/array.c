// array.c - makes, counts and frees the blocks of a call and its outputs.

#include <assert.h>
#include <string.h>

#include "graph/graph.h"

#define ONE_LEND (1ul << 32) // in zl_array_.count

static size_t array_bytes(int ndim, uint8_t flags) {
    return sizeof(struct zl_array_) + 2 * sizeof(int64_t) * (size_t)ndim +
           (flags & ARRAY_INLINE ? sizeof(union scalar) : 0);
}

static zl_array next_output(zl_array a) {
    return (zl_array)(void *)((char *)a + array_bytes(a->ndim, a->flags));
}

zl_array call_later(const struct call *c, int index) {
    zl_array a = call_first(c);
    while (index--)
        a = next_output(a);
    return a;
}

static size_t call_bytes(const struct call *c) {
    zl_array last = call_output(c, c->outputs - 1);
    return (size_t)((char *)next_output(last) - (const char *)c);
}

size_t array_bytes_of(zl_array a) {
    return a->call ? call_bytes(a->call) : array_bytes(a->ndim, a->flags);
}

int array_references(zl_array a) {
    unsigned long count = atomic_load_explicit(&a->count, memory_order_acquire);
    return (int)((uint32_t)count - (uint32_t)(count >> 32));
}

bool array_is_pending(zl_array a) {
    enum array_state state = array_state(a);
    return state == ARRAY_LAZY || state == ARRAY_CLAIMED;
}

static struct lock moves; // held while offsets are changed

int64_t array_pin(zl_array a) {
    uint8_t state = atomic_load_explicit(&a->state, memory_order_acquire);
    if (!(state & ARRAY_PINNED))
        state = atomic_fetch_or_explicit(&a->state, ARRAY_PINNED, memory_order_acq_rel);
    if (UNLIKELY(state & ARRAY_MOVING)) { // wait until it has moved
        lock_take(&moves);
        lock_give(&moves);
    }
    return a->offset;
}

void array_open_moves(void) {
    lock_take(&moves);
}

void array_close_moves(void) {
    lock_give(&moves);
}

bool array_begin_move(zl_array a) {
    uint8_t state = ARRAY_LAZY;
    return atomic_compare_exchange_strong(&a->state, &state, ARRAY_LAZY | ARRAY_MOVING);
}

void array_end_move(zl_array a, int64_t offset) {
    a->offset = offset;
    atomic_fetch_and_explicit(&a->state, (uint8_t)~ARRAY_MOVING, memory_order_release);
}

static __attribute__((noinline)) bool too_big(const struct array_spec *spec) {
    return error_false(ZL_ERROR_OVERFLOW, "an array of shape %s is too big: it has more elements than 2^59",
                       shape_text(spec->ndim, spec->dim));
}

// Returns whether the number of elements fits. Small sizes cannot overflow: the product is checked step by
// step only if the sizes have too many bits together.
static bool size_fits(const struct array_spec *spec, uint64_t all_bits, int64_t *size) {
    int bits = all_bits ? 64 - __builtin_clzll(all_bits) : 0;
    if (LIKELY(bits * spec->ndim < 59))
        return true;
    return (shape_size(spec->ndim, spec->dim, size) && *size <= INT64_MAX / 16) || too_big(spec);
}

static bool fill_dense(zl_array a, const struct array_spec *spec) {
    uint64_t step = 1, all_bits = 0;
    int64_t *stride = a->dim + spec->ndim;
    bool empty = false;
    for (int i = spec->ndim - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)spec->dim[i];
        a->dim[i] = spec->dim[i];
        stride[i] = (int64_t)step;
        all_bits |= extent;
        empty |= extent == 0;
        step *= extent ? extent : 1;
    }
    a->size = empty ? 0 : (int64_t)step;
    a->flags |= ARRAY_CONTIGUOUS;
    return size_fits(spec, all_bits, &a->size);
}

static bool fill_strided(zl_array a, const struct array_spec *spec) {
    uint64_t size = 1, all_bits = 0;
    int64_t *stride = a->dim + spec->ndim;
    bool dense = true;
    for (int i = spec->ndim - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)spec->dim[i];
        a->dim[i] = spec->dim[i];
        stride[i] = spec->stride[i];
        dense &= extent == 1 || spec->stride[i] == (int64_t)size;
        all_bits |= extent;
        size *= extent;
    }
    a->size = (int64_t)size;
    if (dense || size == 0)
        a->flags |= ARRAY_CONTIGUOUS;
    return size_fits(spec, all_bits, &a->size);
}

static bool fill(zl_array a, const struct array_spec *spec) {
    a->dtype = (uint8_t)spec->dtype;
    a->ndim = (uint16_t)spec->ndim;
    a->offset = spec->offset;
    a->flags = spec->flags;
    return spec->stride ? fill_strided(a, spec) : fill_dense(a, spec);
}

static void start(zl_array a, struct call *call, int index) {
    atomic_store_explicit(&a->count, ONE_LEND + 1, memory_order_relaxed);
    atomic_store_explicit(&a->state, call ? ARRAY_LAZY : ARRAY_READY, memory_order_relaxed);
    a->call = call;
    a->index = (uint16_t)index;
    a->storage = NULL;
    a->trace = 0;
}

static __attribute__((noinline)) bool check_limits(int inputs, int args, int outputs,
                                                   const struct array_spec *spec) {
    for (int i = 0; i < outputs; i++)
        if (spec[i].ndim > UINT16_MAX)
            return error_false(ZL_ERROR_SHAPE, "an array of %d axes: at most %d are possible", spec[i].ndim,
                               UINT16_MAX);
    if (inputs > UINT16_MAX || args > UINT16_MAX || outputs > UINT16_MAX)
        return error_false(ZL_ERROR_VALUE, "an op on %d arrays with %d arguments: at most %d are possible",
                           inputs, args, UINT16_MAX);
    return true;
}

// Makes a call without its outputs. bytes is the size of the block that it will share with them.
static struct call *new_call(const struct op *op, int inputs, int args, const int64_t *arg, int outputs,
                             size_t bytes) {
    struct call *c = slab_alloc(bytes);
    if (!c)
        return NULL;
    *c = (struct call){.op = op,
                       .stream = recorder.stream,
                       .compiled = recorder.compiled,
                       .inputs = (uint16_t)inputs,
                       .args = (uint16_t)args,
                       .outputs = (uint16_t)outputs};
    atomic_init(&c->alive, (uint16_t)outputs);
    int64_t *to = (int64_t *)(void *)(c->in + inputs); // does not read the fields back that were just written
    for (int i = 0; i < args; i++)
        to[i] = arg[i];
    return c;
}

static void hold_inputs(struct call *c, int inputs, const zl_array *in) {
    for (int i = 0; i < inputs; i++) {
        c->in[i] = in[i];
        array_hold(in[i]);
    }
}

// Lends every output. If memory runs out, the outputs that could not be lent are freed, and with the last of
// them the call.
static zl_array lend_outputs(struct call *c) {
    int outputs = c->outputs;
    zl_array first = call_first(c), a = first;
    bool all = true;
    for (int i = 0; i < outputs; i++) {
        zl_array next = next_output(a);
        all &= graph_lend(a) != NULL;
        a = next;
    }
    return all ? first : NULL;
}

static size_t block_bytes(int inputs, int args) {
    return sizeof(struct call) + 8 * ((size_t)inputs + (size_t)args);
}

// Returns the outermost of the transforms that the inputs depend on, which is the last to end.
static __attribute__((noinline)) uint8_t outermost_trace(int inputs, const zl_array *in) {
    uint8_t trace = 0;
    for (int i = 0; i < inputs; i++)
        if (array_is_tracer(in[i]) && (!trace || in[i]->trace < trace))
            trace = in[i]->trace;
    return trace;
}

static uint8_t trace_of(int inputs, const zl_array *in) {
    return UNLIKELY(recorder.trace_depth) ? outermost_trace(inputs, in) : 0;
}

static __attribute__((noinline)) zl_array call_many(const struct op *op, int inputs, const zl_array *in,
                                                    int args, const int64_t *arg, int outputs,
                                                    const struct array_spec *spec) {
    size_t bytes = block_bytes(inputs, args);
    for (int i = 0; i < outputs; i++)
        bytes += array_bytes(spec[i].ndim, spec[i].flags);
    struct call *c = new_call(op, inputs, args, arg, outputs, bytes);
    if (!c)
        return NULL;
    zl_array a = call_first(c);
    for (int i = 0; i < outputs; i++, a = next_output(a)) {
        if (!fill(a, &spec[i])) {
            slab_free(c, bytes);
            return NULL;
        }
        start(a, c, i);
        a->flags |= ARRAY_SIBLING;
        a->trace = trace_of(inputs, in);
    }
    hold_inputs(c, inputs, in);
    return lend_outputs(c);
}

HOT zl_array graph_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                        int outputs, const struct array_spec *spec) {
    if (UNLIKELY((inputs | args | outputs | spec->ndim) > 255) && !check_limits(inputs, args, outputs, spec))
        return NULL;
    if (outputs != 1)
        return call_many(op, inputs, in, args, arg, outputs, spec);
    size_t bytes = block_bytes(inputs, args) + array_bytes(spec->ndim, spec->flags);
    struct call *c = new_call(op, inputs, args, arg, 1, bytes);
    if (!c)
        return NULL;
    zl_array a = (zl_array)(void *)((char *)c + block_bytes(inputs, args));
    if (!fill(a, spec)) {
        slab_free(c, bytes);
        return NULL;
    }
    start(a, c, 0);
    a->trace = trace_of(inputs, in);
    hold_inputs(c, inputs, in);
    return graph_lend(a);
}

zl_array graph_leaf(const struct array_spec *spec, struct storage *storage) {
    size_t bytes = array_bytes(spec->ndim, spec->flags);
    zl_array a = slab_alloc(bytes);
    if (!a || !fill(a, spec)) {
        if (a)
            slab_free(a, bytes);
        if (storage)
            storage_release(storage);
        return NULL;
    }
    start(a, NULL, 0);
    a->storage = storage;
    return graph_lend(a);
}

zl_array graph_inline(zl_dtype dtype, union scalar value, uint8_t flags) {
    zl_array a = graph_leaf(&(struct array_spec){.dtype = dtype, .flags = flags | ARRAY_INLINE}, NULL);
    if (a)
        *array_value(a) = value;
    return a;
}

// Does what graph_call does, for a result without axes that is an inline scalar.
zl_array graph_inline_from(const struct op *op, zl_array x, zl_dtype dtype, union scalar value,
                           uint8_t flags) {
    flags |= ARRAY_INLINE | ARRAY_CONTIGUOUS;
    struct call *c = new_call(op, 1, 0, NULL, 1, block_bytes(1, 0) + array_bytes(0, flags));
    if (!c)
        return NULL;
    zl_array a = (zl_array)(void *)(c->in + 1);
    start(a, c, 0);
    a->dtype = (uint8_t)dtype;
    a->flags = flags;
    a->ndim = 0;
    a->offset = 0;
    a->size = 1;
    a->trace = trace_of(1, &x);
    *array_value(a) = value;
    atomic_store_explicit(&a->state, ARRAY_READY, memory_order_relaxed);
    hold_inputs(c, 1, &x);
    return graph_lend(a);
}

// Taking apart ----------------------------------------------------------------------------------------------

// Releases `amount` references; returns true if they were the last. A thread that holds all references is
// alone, since no other thread can add one, so a plain load decides and the costly subtraction is skipped. An
// output of several may be lent again, so it is always subtracted.
static bool give_back(zl_array a, unsigned long amount) {
    if (!array_is(a, ARRAY_SIBLING) && atomic_load_explicit(&a->count, memory_order_relaxed) == amount)
        return atomic_load_explicit(&a->count, memory_order_acquire) == amount;
    if ((uint32_t)atomic_fetch_sub_explicit(&a->count, amount, memory_order_release) != 1)
        return false;
    (void)atomic_load_explicit(&a->count, memory_order_acquire); // sees what others did before releasing
    return true;
}

static void drop_source(zl_array a) {
    switch (array_state(a)) {
    case ARRAY_READY:
        if (a->storage && !array_borrows(a))
            storage_release(a->storage);
        break;
    case ARRAY_FAILED:
        failure_release(a->failure);
        break;
    default:
        break; // a claimed array is kept alive by its evaluation
    }
}

// Records that an output is gone; returns true if it was the last of its call.
static bool is_last(zl_array a) {
    return !array_is(a, ARRAY_SIBLING) ||
           atomic_fetch_sub_explicit(&a->call->alive, 1, memory_order_acq_rel) == 1;
}

bool array_is_forgotten(zl_array a) {
    return array_is(a, ARRAY_SIBLING) && atomic_load_explicit(&a->count, memory_order_acquire) == 0;
}

zl_array graph_lend_sibling(struct call *c, int index) {
    zl_array a = call_output(c, index);
    unsigned long count = atomic_load_explicit(&a->count, memory_order_acquire);
    while (!atomic_compare_exchange_weak(&a->count, &count, count + ONE_LEND + 1)) {
    }
    if (count == 0)
        atomic_fetch_add(&c->alive, 1);
    return graph_lend(a);
}

// Handles the end of one of several outputs. As long as their history is kept, a derivative may still read
// it; without history its storage is released.
static void forget(zl_array a) {
    if (array_state(a) != ARRAY_READY || !a->call->detached)
        return;
    drop_source(a);
    atomic_store_explicit(&a->state, ARRAY_CONSUMED, memory_order_release);
}

// Adds an array without references to a list. The list is linked through `offset`, which is not needed any
// more, so that a chain of a million calls is freed without recursion.
static zl_array push(zl_array list, zl_array a) {
    if (!is_last(a))
        return forget(a), list;
    a->offset = (int64_t)(intptr_t)list;
    return a;
}

static zl_array drop(zl_array a, zl_array list) {
    return give_back(a, 1) ? push(list, a) : list;
}

static zl_array drop_inputs(struct call *c, zl_array list) {
    if (c->detached)
        return list;
    c->detached = 1;
    for (int i = 0; i < c->inputs; i++)
        list = drop(c->in[i], list);
    return list;
}

static zl_array free_call(struct call *c, zl_array list) {
    for (int i = 0; i < c->outputs; i++)
        drop_source(call_output(c, i));
    list = drop_inputs(c, list);
    slab_free(c, call_bytes(c));
    return list;
}

static void take_apart(zl_array list) {
    while (list) {
        zl_array a = list;
        list = (zl_array)(intptr_t)a->offset;
        if (a->call) {
            list = free_call(a->call, list);
        } else {
            drop_source(a);
            slab_free(a, array_bytes(a->ndim, a->flags));
        }
    }
}

static void release(zl_array a, unsigned long amount) {
    if (give_back(a, amount))
        take_apart(push(NULL, a));
}

// Lets a view that keeps its data but not its history hold the storage itself.
static void own_storage(zl_array a) {
    if (!array_borrows(a))
        return;
    storage_retain(a->storage);
    atomic_store_explicit(&a->state, ARRAY_READY, memory_order_release);
}

HOT void graph_detach(struct call *c) {
    own_storage(call_first(c)); // a view is the only output of its call
    take_apart(drop_inputs(c, NULL));
}

zl_array zl_retain(zl_array a) {
    if (a)
        array_hold(a);
    return a;
}

void zl_release(zl_array a) {
    if (a)
        release(a, 1);
}

HOT void graph_end_lend(zl_array a) {
    release(a, ONE_LEND + 1);
}

void graph_lend_again(zl_array a) {
    word_add(&a->count, ONE_LEND + 1);
}
