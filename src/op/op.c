// op.c - recording of calls, shared by all ops.

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "op/op.h"

bool (*op_composed_vjp)(const struct call *c, const bool *wanted, const zl_array *cotangent, zl_array *out);

zl_array op_call(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                 const struct array_spec *spec) {
    for (int i = 0; i < inputs; i++)
        if (!in[i])
            return NULL; // an earlier failure has set the error
    return graph_call(op, inputs, in, args, arg, 1, spec);
}

zl_array op_dense(const struct op *op, int inputs, const zl_array *in, int args, const int64_t *arg,
                  zl_dtype dtype, int ndim, const int64_t *dim) {
    return op_call(op, inputs, in, args, arg, &(struct array_spec){.dtype = dtype, .ndim = ndim, .dim = dim});
}

// Arrays of one element do not matter; the others must have the shape of the result.
const int64_t *op_common_stride(int count, const zl_array *in, int ndim, const int64_t *dim) {
    const int64_t *common = NULL;
    bool plain = true;
    for (int i = 0; i < count; i++)
        plain &= array_is(in[i], ARRAY_CONTIGUOUS);
    if (LIKELY(plain))
        return NULL;
    for (int i = 0; i < count; i++) {
        if (in[i]->size == 1)
            continue;
        const int64_t *stride = array_stride(in[i]);
        if (!shape_equal(in[i]->ndim, in[i]->dim, ndim, dim) ||
            !(common ? shape_same_layout(ndim, dim, stride, common) : shape_is_dense(ndim, dim, stride)))
            return NULL;
        common = stride;
    }
    return common;
}

// Makes a view of a computed array available at once. Its call is kept for gradients until the view is
// evaluated, and keeps the storage alive as long.
static void share(zl_array view, zl_array x) {
    if (array_state(x) != ARRAY_READY || array_is(x, ARRAY_INLINE))
        return;
    view->storage = x->storage;
    atomic_store_explicit(&view->state, ARRAY_READY | (x->storage ? ARRAY_BORROWS : 0), memory_order_release);
}

zl_array op_view_as(const struct op *op, zl_array x, int args, const int64_t *arg,
                    const struct array_spec *spec) {
    zl_array view = op_call(op, 1, &x, args, arg, spec);
    if (view)
        share(view, x);
    return view;
}

HOT zl_array op_view(const struct op *op, zl_array x, int args, const int64_t *arg, int ndim,
                     const int64_t *dim, const int64_t *stride, int64_t offset) {
    if (!x)
        return NULL;
    return op_view_as(
        op, x, args, arg,
        &(struct array_spec){
            .dtype = (zl_dtype)x->dtype, .ndim = ndim, .dim = dim, .stride = stride, .offset = offset});
}

zl_array op_same(zl_array x) {
    if (!x)
        return NULL;
    graph_lend_again(x);
    return graph_lend(x);
}

int64_t op_double_arg(double value) {
    int64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

double op_arg_double(int64_t word) {
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

int op_axes(const char *function, zl_array x, zl_axes axes, int *out) {
    if (axes.count < 0) {
        for (int i = 0; i < x->ndim; i++)
            out[i] = i;
        return x->ndim;
    }
    int count = 0;
    if (axes.count && !axes.axis) {
        error_set(ZL_ERROR_AXIS, "%s: %d axes, but no list of them", function, axes.count);
        return -1;
    }
    for (int i = 0; i < axes.count; i++) {
        int axis = shape_axis(function, axes.axis[i], x->ndim), at = count;
        if (axis < 0)
            return -1;
        while (at > 0 && out[at - 1] > axis)
            at--;
        if (at > 0 && out[at - 1] == axis) {
            error_set(ZL_ERROR_AXIS, "%s: axis %d is given twice", function, axis);
            return -1;
        }
        memmove(out + at + 1, out + at, sizeof(int) * (size_t)(count - at));
        out[at] = axis;
        count++;
    }
    return count;
}

zl_dtype op_computes_in(const struct call *c) {
    int first = c->inputs == 3; // not the condition of a select
    for (int k = first; k < c->inputs; k++)
        if (!array_is(c->in[k], ARRAY_WEAK))
            return (zl_dtype)c->in[k]->dtype;
    zl_dtype out = (zl_dtype)call_output(c, 0)->dtype;
    return out == ZL_BOOL ? dtype_common(c->inputs - first, c->in + first) : out;
}

// Kernels ---------------------------------------------------------------------------------------------------

// Appends a text at *to, which is below end; the part that does not fit is dropped.
static void put_text(char **to, const char *end, const char *from) {
    while (*from && *to + 1 < end)
        *(*to)++ = *from++;
    assert(!*from);
    **to = 0;
}

static void put_int(char **to, const char *end, int value) {
    char digits[16], *at = digits + sizeof digits - 1;
    unsigned left = value < 0 ? 0u - (unsigned)value : (unsigned)value;
    *at = 0;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    put_text(to, end, at);
}

// Writes the clauses without printf: this runs at each launch, and printf would take longer than all the
// rest.
void op_kernel_set(struct op_kernel *k, const char *file, const char *clauses, ...) {
    char *to = k->file;
    va_list list;
    put_text(&to, k->file + sizeof k->file, file);
    to = k->clauses;
    const char *end = k->clauses + sizeof k->clauses;
    va_start(list, clauses);
    for (; *clauses; clauses++) {
        if (*clauses != '%')
            put_text(&to, end, (const char[]){*clauses, 0});
        else if (*++clauses == 's')
            put_text(&to, end, va_arg(list, const char *));
        else
            put_int(&to, end, va_arg(list, int));
    }
    va_end(list);
}

void op_kernel_size(struct op_kernel *k, int64_t size) {
    assert(k->sizes < OP_KERNEL_SIZES);
    k->size[k->sizes++] = size;
}

void op_kernel_value(struct op_kernel *k, zl_dtype dtype, double value) {
    assert(k->values < OP_KERNEL_VALUES);
    struct op_kernel_value *v = &k->value[k->values++];
    if (dtype == ZL_FLOAT64)
        *v = (struct op_kernel_value){.f64 = value, .bytes = sizeof v->f64};
    else
        *v = (struct op_kernel_value){.f32 = (float)value, .bytes = sizeof v->f32};
}

int op_kernel_lanes(int64_t count) {
    enum { THREADS = 256, EACH = 4 };
    int lanes = 1;
    while (lanes < THREADS && (int64_t)lanes * EACH < count)
        lanes *= 2;
    return lanes;
}

const char *op_kernel_type(zl_array x) {
    return tile_type_name(tile_type_of((zl_dtype)x->dtype));
}
