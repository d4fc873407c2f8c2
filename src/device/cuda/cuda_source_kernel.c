// cuda_source_kernel.c - runs kernels that programs supply as CUDA C++.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

bool cuda_source_can(const struct call *c) {
    return !array_is(c->in[0], ARRAY_INLINE);
}

// Compiling -------------------------------------------------------------------------------------------------

// Returns the kernel of a text, or NULL and an error, which begins with the name in the first line of the
// text. Kernels are found again by their text.
static void *find_kernel(const struct kernel_place *p, zl_array text) {
    if (!device_fetch(text->storage))
        return NULL;
    const struct kernel_function *f =
        cuda_program_find(p, (const char *)text->storage->data + text->offset, (size_t)text->size);
    return f ? f->handle : NULL;
}

// Arguments -------------------------------------------------------------------------------------------------

struct operand {
    void *memory;
    struct kernel_scratch room; // for the value of an inline scalar
    struct op_cuda_sizes sizes;
    struct op_cuda_strides strides;
    int32_t ndim;
};

static bool reach(const struct kernel_place *p, zl_array x, struct operand *o) {
    union scalar value;
    if (!array_is(x, ARRAY_INLINE) || x->size == 0) {
        o->memory = x->size ? cuda_element(p, x) : kernel_scratch_open(p, &o->room, 1);
        return o->memory;
    }
    o->memory = kernel_scratch_open(p, &o->room, array_item(x));
    return o->memory && cuda_write(p->unit, p->lane, o->memory, array_data(x, &value), array_item(x));
}

static bool read_input(const struct kernel_place *p, zl_array x, struct operand *o) {
    o->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        o->sizes.of[i] = (int32_t)x->dim[i];
        o->strides.of[i] = array_stride(x)[i];
    }
    return reach(p, x, o);
}

// Reads an output, and first fills it with the value that the call gives for it, if any.
static bool read_output(const struct kernel_place *p, const struct call *c, int i, struct operand *o) {
    zl_array y = call_output(c, i);
    struct operand like = {0};
    if (!reach(p, y, o))
        return false;
    bool done = true;
    if (call_args(c)[KERNEL_FILLS] && y->size)
        done = reach(p, c->in[1 + i], &like) &&
               kernel_move(p, (zl_dtype)y->dtype, y->ndim, y->dim, o->memory, array_stride(y), like.memory,
                           array_stride(c->in[1 + i]));
    kernel_scratch_close(p, &like.room);
    return done;
}

// The arguments of a launch: the address and the bytes of each.
struct arguments {
    int count;
    void **address;
    size_t *bytes;
};

static void add_argument(struct arguments *a, void *address, size_t bytes) {
    a->address[a->count] = address;
    a->bytes[a->count++] = bytes;
}

// Lists one argument per operand, and three more for an input with axes.
static void list_arguments(struct operand *o, int inputs, int outputs, struct arguments *a) {
    for (int i = 0; i < inputs + outputs; i++) {
        add_argument(a, &o[i].memory, sizeof o[i].memory);
        if (i < inputs && o[i].ndim) {
            add_argument(a, &o[i].sizes, sizeof o[i].sizes);
            add_argument(a, &o[i].strides, sizeof o[i].strides);
            add_argument(a, &o[i].ndim, sizeof o[i].ndim);
        }
    }
}

// Running ---------------------------------------------------------------------------------------------------

static bool read_grid(const int64_t *arg, struct cuda_launch *l) {
    for (int i = 0; i < 3; i++) {
        int64_t group = arg[KERNEL_GROUP + i], groups = (arg[KERNEL_GRID + i] + group - 1) / group;
        if (group > 1024 || groups > (i ? 65535 : INT32_MAX))
            return error_false(
                ZL_ERROR_VALUE,
                "zl_cuda_kernel: %lld blocks of %lld threads along axis %d: a GPU has no room for them",
                (long long)groups, (long long)group, i);
        l->grid[i] = (unsigned)groups;
        l->block[i] = (unsigned)group;
    }
    l->shared = (unsigned)arg[KERNEL_SHARED];
    return true;
}

// Checks the parameters, because the text may come from a file.
static bool check_parameters(void *kernel, const struct arguments *a) {
    return cuda_has_parameters(kernel, a->count, a->bytes) ||
           error_false(ZL_ERROR_VALUE,
                       "zl_cuda_kernel: zl_kernel of the text has other parameters than its %d arguments",
                       a->count);
}

static bool run(const struct kernel_place *p, const struct call *c, struct operand *o, struct arguments *a) {
    int first = 1 + c->outputs, inputs = c->inputs - first;
    struct cuda_launch l;
    for (int i = 0; i < inputs; i++)
        if (!read_input(p, c->in[first + i], &o[i]))
            return false;
    for (int i = 0; i < c->outputs; i++)
        if (!read_output(p, c, i, &o[inputs + i]))
            return false;
    void *kernel = find_kernel(p, c->in[0]);
    list_arguments(o, inputs, c->outputs, a);
    if (!kernel || !check_parameters(kernel, a) || !read_grid(call_args(c), &l))
        return false;
    counter_add(COUNTER_LAUNCHES, 1);
    return !l.grid[0] || !l.grid[1] || !l.grid[2] || cuda_launch(p->unit, p->lane, kernel, &l, a->address);
}

enum kernel_taken cuda_source_kernel(const struct kernel_place *p, const struct call *c) {
    size_t operands = (size_t)(c->inputs - 1);
    struct operand *o = memory_zero(sizeof *o * operands);
    struct arguments a = {.address = memory_zero(sizeof *a.address * 4 * operands),
                          .bytes = memory_zero(sizeof *a.bytes * 4 * operands)};
    bool done = o && a.address && a.bytes && run(p, c, o, &a);
    for (size_t i = 0; o && i < operands; i++)
        kernel_scratch_close(p, &o[i].room);
    memory_free(o);
    memory_free(a.address);
    memory_free(a.bytes);
    return done ? KERNEL_DONE : KERNEL_FAILED;
}
