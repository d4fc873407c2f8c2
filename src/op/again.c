// again.c - defers ops that read sizes as a whole: their arguments are kept, and the ops are called again
// with other arrays.
//
// The types of an op's arguments are in its signature. Lists and texts are copied; arrays become the inputs
// of the call.

#include <stdarg.h>
#include <string.h>

#include "op/ops.h"

enum { MOST = 18 }; // the most parameters of an op

struct again {
    atomic_int refs;
    const zl_op_info *op;
    op_again_fn *run;
    int results; // number of results
    union op_value value[MOST];
};

// Keeping ---------------------------------------------------------------------------------------------------

static void retain_again(void *data) {
    atomic_fetch_add(&((struct again *)data)->refs, 1);
}

static void release_again(void *data) {
    struct again *a = data;
    if (atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    for (int i = 0; i < a->op->params; i++)
        switch (a->op->param[i].type) {
        case ZL_PARAM_SHAPE: memory_free((void *)(uintptr_t)a->value[i].shape.dim); break;
        case ZL_PARAM_AXES: memory_free((void *)(uintptr_t)a->value[i].axes.axis); break;
        case ZL_PARAM_STRING: memory_free((void *)(uintptr_t)a->value[i].string); break;
        default: break;
        }
    memory_free(a);
}

// Copies `bytes` bytes to new memory; *out is NULL if there are none. Returns false if memory runs out.
static bool copy(const void *from, size_t bytes, void *out) {
    void *data = from && bytes ? memory_alloc(bytes) : NULL;
    if (data)
        memcpy(data, from, bytes);
    *(void **)out = data;
    return data || !from || !bytes;
}

static bool copy_shape(zl_shape from, union op_value *out) {
    int64_t *dim;
    bool ok = copy(from.dim, from.ndim > 0 ? sizeof *dim * (size_t)from.ndim : 0, &dim);
    out->shape = (zl_shape){dim, from.ndim};
    return ok;
}

static bool copy_axes(zl_axes from, union op_value *out) {
    int *axis;
    bool ok = copy(from.axis, from.count > 0 ? sizeof *axis * (size_t)from.count : 0, &axis);
    out->axes = (zl_axes){axis, from.count};
    return ok;
}

// Reads one argument. Arrays are stored as they are; find_arrays() lists them later.
static bool read_value(zl_param_type type, int results, va_list *list, union op_value *out) {
    switch (type) {
    case ZL_PARAM_ARRAY:
    case ZL_PARAM_OPTIONAL: out->array = va_arg(*list, zl_array); return true;
    case ZL_PARAM_ARRAYS:
        out->arrays.list = va_arg(*list, const zl_array *);
        out->arrays.count = va_arg(*list, int);
        return true;
    case ZL_PARAM_INT64: out->wide = va_arg(*list, int64_t); return true;
    case ZL_PARAM_DOUBLE: out->real = va_arg(*list, double); return true;
    case ZL_PARAM_SHAPE: return copy_shape(va_arg(*list, zl_shape), out);
    case ZL_PARAM_AXES: return copy_axes(va_arg(*list, zl_axes), out);
    case ZL_PARAM_STRING: {
        const char *text = va_arg(*list, const char *);
        return copy(text, text ? strlen(text) + 1 : 0, &out->string);
    }
    case ZL_PARAM_OUTPUT: out->number = results; return true; // has no argument in the list
    default: out->number = va_arg(*list, int); return true;
    }
}

static bool is_array(zl_param_type type) {
    return type == ZL_PARAM_ARRAY || type == ZL_PARAM_OPTIONAL;
}

// Lists the arrays among the arguments, in order, if out is not NULL. Returns their number.
static int find_arrays(const struct again *a, zl_array *out) {
    int count = 0;
    for (int i = 0; i < a->op->params; i++) {
        const union op_value *v = &a->value[i];
        bool many = a->op->param[i].type == ZL_PARAM_ARRAYS && v->arrays.list;
        for (int k = 0; many && k < v->arrays.count; k++, count++)
            if (out)
                out[count] = v->arrays.list[k];
        if (is_array(a->op->param[i].type) && v->array) {
            if (out)
                out[count] = v->array;
            count++;
        }
    }
    return count;
}

// Calling ---------------------------------------------------------------------------------------------------

// Copies the values, with these arrays in place of those of the first call.
static void put_arrays(const struct again *a, const zl_array *in, union op_value *out) {
    int next = 0;
    memcpy(out, a->value, sizeof a->value);
    for (int i = 0; i < a->op->params; i++) {
        if (is_array(a->op->param[i].type) && a->value[i].array)
            out[i].array = in[next++];
        if (a->op->param[i].type == ZL_PARAM_ARRAYS) {
            out[i].arrays.list = in + next;
            next += a->value[i].arrays.count;
        }
    }
}

static bool call(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct again *a = data;
    union op_value value[MOST];
    (void)count;
    OP_TEMP(zl_array, y, a->results);
    for (int i = 0; y && i < a->results; i++)
        y[i] = NULL;
    put_arrays(a, in, value);
    return y && a->run(value, y) && op_give_all(a->results, y, out);
}

static const zl_op_info *signature_of(const char *name) {
    for (int i = 0; zl_op(i); i++)
        if (!strcmp(zl_op(i)->name, name))
            return zl_op(i);
    return NULL;
}

static struct again *read(const char *function, op_again_fn *run, int results, va_list *list) {
    struct again *a = memory_zero(sizeof *a);
    if (!a)
        return NULL;
    atomic_init(&a->refs, 1);
    a->op = signature_of(function);
    a->run = run;
    a->results = results;
    bool ok = true;
    for (int i = 0; ok && i < a->op->params; i++)
        ok = read_value(a->op->param[i].type, results, list, &a->value[i]);
    if (ok)
        return a;
    release_again(a);
    return NULL;
}

// Returns whether no array is NULL. Otherwise the op itself handles the earlier failure.
static bool has_all(int count, const zl_array *in) {
    for (int i = 0; i < count; i++)
        if (!in[i])
            return false;
    return true;
}

// Defers the op if needed. Sets *done if it was deferred or failed; otherwise nothing happened.
static bool defer(struct again *a, zl_array *out, bool *done) {
    OP_TEMP(zl_array, in, (int64_t)find_arrays(a, NULL) + 1);
    int count = in ? find_arrays(a, in) : 0;
    *done = !in || (has_all(count, in) && op_defers(count, in));
    return in && *done && op_defer((zl_fn){call, a, retain_again, release_again}, count, in, a->results, out);
}

static bool again(int results, zl_array *out, const char *function, op_again_fn *run, bool *ok,
                  va_list *list) {
    struct again *a = read(function, run, results, list);
    bool done = true;
    *ok = a && defer(a, out, &done);
    if (a)
        release_again(a);
    return done;
}

bool op_again(zl_array *out, const char *function, op_again_fn *run, ...) {
    bool ok = false;
    if (LIKELY(!recorder.deferred))
        return false;
    va_list list;
    va_start(list, run);
    bool done = again(1, out, function, run, &ok, &list);
    va_end(list);
    if (done && !ok)
        *out = NULL;
    return done;
}

bool op_again_all(bool *ok, int results, zl_array *out, const char *function, op_again_fn *run, ...) {
    *ok = false;
    if (LIKELY(!recorder.deferred))
        return false;
    va_list list;
    va_start(list, run);
    bool done = again(results, out, function, run, ok, &list);
    va_end(list);
    return done;
}
