// kernels_launch.c - builds the arguments of launches, and merges the axes that operands are walked along.

#include "device/kernels/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Arguments -------------------------------------------------------------------------------------------------

// Adds an argument of `bytes` bytes. Returns where its value is to be written.
static inline char *add_room(struct kernel_call *k, size_t bytes) {
    char *to = k->room + k->used;
    assert(k->used + bytes <= sizeof k->room && k->arguments < (int)COUNT(k->argument));
    k->used += (bytes + 7) & ~(size_t)7;
    k->argument[k->arguments++] = (struct kernel_argument){.bytes = bytes, .value = to};
    return to;
}

void kernel_add(struct kernel_call *k, const void *value, size_t bytes) {
    memcpy(add_room(k, bytes), value, bytes);
}

void kernel_add_int(struct kernel_call *k, int64_t value, bool wide) {
    if (wide)
        memcpy(add_room(k, sizeof value), &value, sizeof value);
    else
        memcpy(add_room(k, sizeof(int32_t)), &(int32_t){(int32_t)value}, sizeof(int32_t));
}

void kernel_add_bytes(struct kernel_call *k, void *memory, size_t reach) {
    memcpy(add_room(k, sizeof memory), &memory, sizeof memory);
    k->argument[k->arguments - 1].access = KERNEL_WRITTEN;
    k->argument[k->arguments - 1].reach = reach;
}

bool kernel_add_array(const struct kernel_place *p, struct kernel_call *k, zl_array x) {
    void *memory = kernel_reach(p, x);
    kernel_add_bytes(k, memory, kernel_bytes(x));
    return memory;
}

bool kernel_launch_function(const struct kernel_place *p, const struct kernel_function *f, int64_t groups,
                            const struct kernel_call *k) {
    if (UNLIKELY(p->batch != NULL))
        return true;
    counter_add(COUNTER_LAUNCHES, 1);
    return p->target->launch(p, f, groups, k->arguments, k->argument);
}

size_t kernel_bytes(zl_array x) {
    return array_is(x, ARRAY_INLINE) ? array_item(x) : x->storage ? x->storage->bytes : 0;
}

static void *write_number(const struct kernel_place *p, zl_array x, void *to) {
    union scalar number;
    scalar_write(x, (zl_dtype)x->dtype, &number);
    return to && kernel_fill(p, (zl_dtype)x->dtype, 0, NULL, to, NULL, &number) ? to : NULL;
}

static void *reach_number(const struct kernel_place *p, zl_array x) {
    struct kernel_numbers *n = p->numbers;
    if (p->batch)
        return write_number(p, x, p->batch);
    for (int i = 0; n && i < n->count; i++)
        if (n->of[i] == x)
            return n->room[i].memory;
    if (!n || n->count == KERNEL_OPERANDS)
        return error_set(ZL_ERROR_DEVICE, "no memory for a number that a kernel reads");
    n->of[n->count] = x;
    return write_number(p, x, kernel_scratch_open(p, &n->room[n->count++], array_item(x)));
}

void kernel_numbers_close(const struct kernel_place *p) {
    for (int i = 0; i < p->numbers->count; i++)
        kernel_scratch_close(p, &p->numbers->room[i]);
}

void *kernel_reach(const struct kernel_place *p, zl_array x) {
    if (UNLIKELY(array_is(x, ARRAY_INLINE)))
        return reach_number(p, x);
    if (UNLIKELY(p->batch != NULL))
        return p->batch; // a placeholder, which is not read
    return device_reach(p->target->device, p->unit, p->lane, x->storage);
}

void *kernel_scratch_open(const struct kernel_place *p, struct kernel_scratch *s, size_t bytes) {
    s->memory = device_alloc(p->target->device, p->unit, p->lane, MAX_OF(bytes, (size_t)1), &s->capacity);
    return s->memory;
}

void kernel_scratch_close(const struct kernel_place *p, struct kernel_scratch *s) {
    if (s->memory)
        device_free(p->target->device, p->unit, p->lane, s->memory, s->capacity);
    s->memory = NULL;
}

// Axes ------------------------------------------------------------------------------------------------------

void kernel_layout_begin(struct kernel_layout *l, int operands) {
    l->operands = operands;
    l->axes = 0;
    l->size = 1;
}

// Returns whether an axis continues the one before it in all operands, so that both are one axis.
static bool joins(const struct kernel_layout *l, int64_t dim, const int64_t *stride) {
    for (int k = 0; l->axes && k < l->operands; k++)
        if (l->stride[k][l->axes - 1] != stride[k] * dim)
            return false;
    return l->axes > 0;
}

void kernel_layout_push(struct kernel_layout *l, int64_t dim, const int64_t *stride) {
    l->size *= dim;
    if (dim == 1)
        return;
    bool joined = joins(l, dim, stride);
    int at = joined ? l->axes - 1 : l->axes++;
    l->dim[at] = joined ? l->dim[at] * dim : dim;
    for (int k = 0; k < l->operands; k++)
        l->stride[k][at] = stride[k];
}

// Writes to axis[] the axes of more than one element, by decreasing stride, and returns their number. There
// are fewer than 64: no memory would hold more.
int kernel_layout_order(zl_array like, int *axis) {
    int count = 0;
    for (int i = 0; i < like->ndim; i++) {
        if (like->dim[i] == 1)
            continue;
        int at = count++;
        for (; at > 0 && array_stride(like)[axis[at - 1]] < array_stride(like)[i]; at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
    }
    return count;
}

int64_t kernel_layout_stride(zl_array x, int ndim, int axis) {
    int at = axis - (ndim - x->ndim);
    return at < 0 || x->dim[at] == 1 ? 0 : array_stride(x)[at];
}

void kernel_layout_of(struct kernel_layout *l, zl_array like, int operands, const zl_array *operand) {
    int axis[64], axes = like->size ? kernel_layout_order(like, axis) : 0;
    kernel_layout_begin(l, operands);
    for (int i = 0; i < axes; i++) {
        int64_t stride[KERNEL_OPERANDS];
        for (int k = 0; k < operands; k++)
            stride[k] = kernel_layout_stride(operand[k], like->ndim, axis[i]);
        kernel_layout_push(l, like->dim[axis[i]], stride);
    }
    l->size = like->size;
}

bool kernel_layout_is_wide(const struct kernel_layout *l) {
    int64_t most = l->size;
    for (int k = 0; k < l->operands; k++) {
        int64_t reach = 0;
        for (int i = 0; i < l->axes; i++)
            reach += (l->dim[i] - 1) * llabs(l->stride[k][i]);
        most = MAX_OF(most, reach);
    }
    return most > KERNEL_NARROW;
}

int64_t kernel_layout_reach(const struct kernel_layout *l, int operand, int64_t at) {
    for (int i = 0; i < l->axes; i++)
        at += (l->dim[i] - 1) * MAX_OF(l->stride[operand][i], 0);
    return at + 1;
}

bool kernel_check_axes(const struct kernel_layout *l, const char *what) {
    return l->axes <= KERNEL_AXES ||
           error_false(ZL_ERROR_DEVICE,
                       "%s: more than %d axes that cannot be joined: use zl_contiguous first", what,
                       KERNEL_AXES);
}

void kernel_add_rows(struct kernel_call *k, int rows, int columns, const int64_t *value, int step,
                     bool wide) {
    size_t item = wide ? sizeof(int64_t) : sizeof(int32_t);
    char *to = add_room(k, (size_t)(rows * columns) * item);
    for (int row = 0; row < rows; row++, value += step)
        for (int i = 0; i < columns; i++, to += item)
            if (wide)
                memcpy(to, &value[i], sizeof value[i]);
            else
                memcpy(to, &(int32_t){(int32_t)value[i]}, sizeof(int32_t));
}

void kernel_add_table(struct kernel_call *k, const struct kernel_layout *l, bool wide) {
    int64_t value[KERNEL_OPERANDS + 1][KERNEL_AXES];
    for (int row = 0; row <= l->operands; row++)
        for (int i = 0; i < KERNEL_AXES; i++) {
            int axis = l->axes - 1 - i;
            value[row][i] = axis < 0 ? row == 0 : row ? l->stride[row - 1][axis] : l->dim[axis];
        }
    kernel_add_rows(k, l->operands + 1, KERNEL_AXES, value[0], KERNEL_AXES, wide);
}
