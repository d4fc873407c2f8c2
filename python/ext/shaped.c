// shaped.c - functions whose Python form is not that of one op: a variable number of arrays, arguments that
// are a number or a list, results in a list. Each turns its arguments into calls of ops.

#include <limits.h>
#include <string.h>

#include "shaped.h"

// Several arrays --------------------------------------------------------------------------------------------

// Returns the arrays of the rest; they may also be given as one list.
static PyObject *rest_tuple(const struct shaped_call *c) {
    if (c->rests == 1 && (PyList_Check(c->rest[0]) || PyTuple_Check(c->rest[0])))
        return ext_tuple(c->rest[0], "a list of arrays is needed");
    PyObject *tuple = PyTuple_New(c->rests);
    for (Py_ssize_t i = 0; tuple && i < c->rests; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(c->rest[i]));
    return tuple;
}

// Computes `count` results from `count` arrays.
typedef bool many_op(const zl_array *in, int count, zl_array *out, const struct shaped_call *c);

static PyObject *map_rest(const struct shaped_call *c, many_op *op, bool as_tuple) {
    PyObject *tuple = rest_tuple(c), *result = NULL;
    if (!tuple)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    zl_array *in = shaped_arrays(PySequence_Fast_ITEMS(tuple), count);
    zl_array *out = PyMem_Calloc((size_t)count + 1, sizeof *out);
    if (in && out)
        result = op(in, (int)count, out, c) ? ext_wrap_all((int)count, out, as_tuple) : ext_raise();
    PyMem_Free(in);
    PyMem_Free(out);
    Py_DECREF(tuple);
    return result;
}

static bool broadcast_op(const zl_array *in, int count, zl_array *out, const struct shaped_call *c) {
    (void)c;
    return zl_broadcast_arrays(in, count, out);
}

static PyObject *broadcast_arrays_work(const struct shaped_call *c) {
    return map_rest(c, broadcast_op, false);
}

static PyObject *broadcast_arrays(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    return shaped_read(&c, "broadcast_arrays", (const char *const[]){NULL}, 0, true, args, n, names)
               ? shaped_run(&c, broadcast_arrays_work)
               : NULL;
}

typedef zl_array one_op(zl_array);

static PyObject *at_least(const char *function, one_op *op, PyObject *const *args, Py_ssize_t n,
                          PyObject *names) {
    struct shaped_call c;
    zl_scope scope;
    if (!shaped_read(&c, function, (const char *const[]){NULL}, 0, true, args, n, names) ||
        !ext_scope(c.stream, &scope))
        return NULL;
    zl_array *list = shaped_arrays(c.rest, c.rests);
    for (Py_ssize_t i = 0; list && i < c.rests; i++)
        list[i] = op(list[i]);
    PyObject *result = !list          ? NULL
                       : c.rests == 1 ? ext_wrap(list[0])
                                      : ext_wrap_all((int)c.rests, list, false);
    PyMem_Free(list);
    zl_scope_end(scope);
    return result;
}

static PyObject *atleast_1d(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    return at_least("atleast_1d", zl_atleast_1d, args, n, names);
}

static PyObject *atleast_2d(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    return at_least("atleast_2d", zl_atleast_2d, args, n, names);
}

static PyObject *atleast_3d(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    return at_least("atleast_3d", zl_atleast_3d, args, n, names);
}

// meshgrid(*arrays, sparse=False, indexing='xy')
static bool meshgrid_op(const zl_array *in, int count, zl_array *out, const struct shaped_call *c) {
    const char *indexing = shaped_given(c->named[1]) ? ext_utf8(c->named[1]) : "xy";
    return indexing && zl_meshgrid(in, count, c->named[0] == Py_True, indexing, out);
}

static PyObject *meshgrid_work(const struct shaped_call *c) {
    struct shaped_call plain = *c;
    bool sparse;
    // Convert `sparse` before the arrays are read, because its __bool__ may change them.
    if (!shaped_truth(c->named[0], false, &sparse))
        return NULL;
    plain.named[0] = sparse ? Py_True : Py_False;
    return map_rest(&plain, meshgrid_op, true);
}

static PyObject *meshgrid(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"sparse", "indexing", NULL};
    return shaped_read(&c, "meshgrid", known, 0, true, args, n, names) ? shaped_run(&c, meshgrid_work) : NULL;
}

// concatenate(arrays, axis=0); with axis=None, of the flattened arrays.
static PyObject *concatenate_work(const struct shaped_call *c) {
    int axis;
    PyObject *tuple = ext_tuple(c->named[0], "concatenate(): a list or tuple of arrays is needed");
    if (!tuple || !shaped_int(c->named[1], 0, &axis)) {
        Py_XDECREF(tuple);
        return NULL;
    }
    int count = (int)PyTuple_GET_SIZE(tuple);
    zl_array *list = shaped_arrays(PySequence_Fast_ITEMS(tuple), count);
    bool flat = c->named[1] == Py_None;
    for (int i = 0; list && flat && i < count; i++)
        list[i] = zl_flatten(list[i], 0, -1);
    PyObject *result = list ? ext_wrap(zl_concatenate(list, count, axis)) : NULL;
    PyMem_Free(list);
    Py_DECREF(tuple);
    return result;
}

static PyObject *concatenate(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"arrays", "axis", NULL};
    return shaped_read(&c, "concatenate", known, 2, false, args, n, names) && shaped_need(&c, 0, "arrays")
               ? shaped_run(&c, concatenate_work)
               : NULL;
}

// Cutting ---------------------------------------------------------------------------------------------------

static PyObject *split_at(zl_array a, PyObject *where, int axis) {
    struct ext_list list;
    if (!ext_list_read(where, &list))
        return NULL;
    zl_array *out = PyMem_Calloc((size_t)list.count + 1, sizeof *out);
    PyObject *result = !out ? PyErr_NoMemory()
                       : zl_split_at(a, (zl_shape){list.item, list.count}, axis, out)
                           ? ext_wrap_all(list.count + 1, out, false)
                           : ext_raise();
    PyMem_Free(out);
    ext_list_free(&list);
    return result;
}

// Returns the size of an axis, or 0 if there is no such axis; the op reports that.
static int64_t axis_size(zl_array a, int axis) {
    int ndim = zl_ndim(a), at = axis < 0 ? axis + ndim : axis;
    return at >= 0 && at < ndim ? zl_dim(a, at) : 0;
}

// Refuses sections that are not equal before it allocates memory for the results.
static PyObject *split_evenly(zl_array a, int sections, int axis) {
    if (sections <= 0) {
        PyErr_Format(PyExc_ValueError, "split(): %d sections: at least one is needed", sections);
        return NULL;
    }
    int64_t size = axis_size(a, axis);
    if (size % sections) {
        PyErr_Format(PyExc_ValueError, "split(): axis %d of %lld elements has no %d equal sections", axis,
                     (long long)size, sections);
        return NULL;
    }
    zl_array whole;
    if (!size && !zl_split(a, 1, axis, &whole)) // reports that there is no such axis
        return ext_raise();
    zl_array *out = PyMem_Calloc((size_t)sections, sizeof *out);
    PyObject *result = !out                               ? PyErr_NoMemory()
                       : zl_split(a, sections, axis, out) ? ext_wrap_all(sections, out, false)
                                                          : ext_raise();
    PyMem_Free(out);
    return result;
}

static PyObject *split_work(const struct shaped_call *c) {
    int axis, sections = 0;
    bool evenly = PyIndex_Check(c->named[1]);
    if (!shaped_int(c->named[2], 0, &axis) || (evenly && !shaped_int(c->named[1], 0, &sections)))
        return NULL;
    zl_array a = evenly ? ext_array_of(c->named[0]) : ext_array_held(c->named[0]);
    return !a ? NULL : evenly ? split_evenly(a, sections, axis) : split_at(a, c->named[1], axis);
}

static const char *const split_names[] = {"a", "indices_or_sections", "axis", NULL};

static PyObject *split(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    return shaped_read(&c, "split", split_names, 3, false, args, n, names) && shaped_need(&c, 0, "a") &&
                   shaped_need(&c, 1, "indices_or_sections")
               ? shaped_run(&c, split_work)
               : NULL;
}

static PyObject *split_method(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct shaped_call c;
    if (!shaped_read(&c, "split", split_names + 1, 2, false, args, n, names) ||
        !shaped_need(&c, 0, "indices_or_sections"))
        return NULL;
    c.named[2] = c.named[1];
    c.named[1] = c.named[0];
    c.named[0] = self;
    return shaped_run(&c, split_work);
}

// unstack(x, *, axis=0): a tuple of one view per element of the axis.
static PyObject *unstack_work(const struct shaped_call *c) {
    zl_array x = ext_array_held(c->named[0]);
    int axis;
    if (!x || !shaped_int(c->named[1], 0, &axis))
        return NULL;
    int64_t count = axis_size(x, axis);
    zl_array *out = PyMem_Calloc((size_t)count + 1, sizeof *out);
    PyObject *result = !out                       ? PyErr_NoMemory()
                       : zl_unstack(x, axis, out) ? ext_wrap_all((int)count, out, true)
                                                  : ext_raise();
    PyMem_Free(out);
    return result;
}

static PyObject *unstack(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"x", "axis", NULL};
    return shaped_read(&c, "unstack", known, 1, false, args, n, names) && shaped_need(&c, 0, "x")
               ? shaped_run(&c, unstack_work)
               : NULL;
}

// slice(a, start_indices, axes, slice_size) and slice_update(a, update, start_indices, axes): the beginning
// of the slice is an array. Slices with numbers are written a[...].
static PyObject *slice_work(const struct shaped_call *c) {
    struct shaped_axes axes = {NULL, 0};
    struct ext_list size;
    zl_array a = ext_array_held(c->named[0]), start = a ? ext_array_from(c->named[1], ZL_DTYPE_COUNT) : NULL;
    if (!start || !ext_list_read(c->named[3], &size))
        return NULL;
    PyObject *result = shaped_axes_read(c->named[2], &axes)
                           ? ext_wrap(zl_dynamic_slice(a, start, (zl_axes){axes.axis, axes.count},
                                                       (zl_shape){size.item, size.count}))
                           : NULL;
    shaped_axes_free(&axes);
    ext_list_free(&size);
    return result;
}

static PyObject *slice_update_work(const struct shaped_call *c) {
    struct shaped_axes axes = {NULL, 0};
    zl_array a = ext_array_held(c->named[0]), update = a ? ext_array_held(c->named[1]) : NULL,
             start = update ? ext_array_from(c->named[2], ZL_DTYPE_COUNT) : NULL;
    PyObject *result =
        start && shaped_axes_read(c->named[3], &axes)
            ? ext_wrap(zl_dynamic_slice_update(a, update, start, (zl_axes){axes.axis, axes.count}))
            : NULL;
    shaped_axes_free(&axes);
    return result;
}

static PyObject *sliced(const char *function, const char *const *known, shaped_work *body,
                        PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct shaped_call c;
    if (!shaped_read(&c, function, known, 4, false, args, n, names))
        return NULL;
    for (int i = 0; known[i]; i++)
        if (!shaped_need(&c, i, known[i]))
            return NULL;
    return shaped_run(&c, body);
}

static PyObject *slice(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    static const char *const known[] = {"a", "start_indices", "axes", "slice_size", NULL};
    return sliced("slice", known, slice_work, args, n, names);
}

static PyObject *slice_update(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    static const char *const known[] = {"a", "update", "start_indices", "axes", NULL};
    return sliced("slice_update", known, slice_update_work, args, n, names);
}

// Ranges ----------------------------------------------------------------------------------------------------

static bool is_whole(PyObject *o) {
    return !shaped_given(o) || PyLong_Check(o) || (PyIndex_Check(o) && !ext_is_array(o));
}

static bool fits_int32(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

static PyObject *whole_range(PyObject *start, PyObject *stop, PyObject *step, zl_dtype dtype) {
    int64_t from = 0, to, by = 1;
    if ((shaped_given(start) && !ext_to_int64(start, &from)) || !ext_to_int64(stop, &to) ||
        (shaped_given(step) && !ext_to_int64(step, &by)))
        return NULL;
    bool wide = !fits_int32(from) || !fits_int32(by) || !fits_int32(to);
    if (((double)to - (double)from) / (double)by > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "arange(): from %lld to %lld there are more than %d numbers",
                     (long long)from, (long long)to, INT32_MAX);
        return NULL;
    }
    return ext_wrap(zl_arange_int(from, to, by,
                                  dtype != ZL_DTYPE_COUNT ? dtype
                                  : wide                  ? ZL_INT64
                                                          : ZL_INT32));
}

static PyObject *real_range(PyObject *start, PyObject *stop, PyObject *step, zl_dtype dtype) {
    double from = 0, to, by = 1;
    if ((shaped_given(start) && !ext_to_double(start, &from)) || !ext_to_double(stop, &to) ||
        (shaped_given(step) && !ext_to_double(step, &by)))
        return NULL;
    return ext_wrap(zl_arange(from, to, by, dtype == ZL_DTYPE_COUNT ? ZL_FLOAT32 : dtype));
}

// arange(stop), arange(start, stop), arange(start, stop, step), each with a dtype, and arange(stop, step,
// dtype). Whole numbers make int32.
static PyObject *arange_work(const struct shaped_call *c) {
    PyObject *start = c->named[0], *stop = c->named[1], *step = c->named[2], *kind = c->named[3];
    zl_dtype dtype;
    if (shaped_given(step) && !shaped_given(kind) && PyObject_TypeCheck(step, &ext_dtype_type)) {
        kind = step;
        step = stop;
        stop = NULL;
    }
    if (!shaped_given(stop)) {
        stop = start;
        start = NULL;
    }
    if (!shaped_given(stop)) {
        PyErr_SetString(PyExc_TypeError, "arange(): where to stop is missing");
        return NULL;
    }
    if (!shaped_dtype(kind, ZL_DTYPE_COUNT, &dtype))
        return NULL;
    bool whole = is_whole(start) && is_whole(stop) && is_whole(step);
    return (whole ? whole_range : real_range)(start, stop, step, dtype);
}

static PyObject *arange(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"start", "stop", "step", "dtype", NULL};
    if (!shaped_read(&c, "arange", known, 4, false, args, n, names))
        return NULL;
    if (n == 0 && shaped_given(c.named[0]) && !shaped_given(c.named[1])) {
        PyErr_SetString(PyExc_TypeError, "arange(): where to stop is missing");
        return NULL;
    }
    return shaped_run(&c, arange_work);
}

// Quantising ------------------------------------------------------------------------------------------------

// Returns the packed words, the scales and, in mode affine, the biases.
static PyObject *quantize_work(const struct shaped_call *c) {
    int group, bits;
    zl_array out[3], w = ext_array_held(c->named[0]);
    zl_array global = w && shaped_given(c->named[4]) ? ext_array_held(c->named[4]) : NULL;
    const char *mode = !shaped_given(c->named[3]) ? NULL : ext_utf8(c->named[3]);
    if (PyErr_Occurred() || !shaped_int(c->named[1], INT_MIN, &group) ||
        !shaped_int(c->named[2], INT_MIN, &bits))
        return NULL;
    if (!zl_quantize(w, group, bits, mode, global, out))
        return ext_raise();
    return ext_wrap_all(out[2] ? 3 : 2, out, true);
}

static PyObject *quantize(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"w", "group_size", "bits", "mode", "global_scale", NULL};
    return shaped_read(&c, "quantize", known, 4, false, args, n, names) && shaped_need(&c, 0, "w")
               ? shaped_run(&c, quantize_work)
               : NULL;
}

// Padding ---------------------------------------------------------------------------------------------------

// The padding before and after each axis: from a number for all axes, a pair for all, or a pair per axis.
struct widths {
    int64_t *low, *high;
    int ndim;
};

static bool read_pair(PyObject *o, int64_t *low, int64_t *high) {
    struct ext_list pair;
    if (!ext_list_read(o, &pair))
        return false;
    bool ok = pair.count == 1 || pair.count == 2;
    if (ok) {
        *low = pair.item[0];
        *high = pair.item[pair.count - 1];
    } else {
        PyErr_Format(PyExc_ValueError, "pad(): %d widths for an axis: one or two are needed", pair.count);
    }
    ext_list_free(&pair);
    return ok;
}

static bool is_pair_list(PyObject *o) {
    if (!PyList_Check(o) && !PyTuple_Check(o))
        return false;
    PyObject *first = PySequence_Size(o) > 0 ? PySequence_GetItem(o, 0) : NULL;
    bool nested = first && PySequence_Check(first) && !ext_is_array(first);
    Py_XDECREF(first);
    return nested;
}

static bool read_widths(PyObject *o, struct widths *w) {
    bool nested = is_pair_list(o);
    if (nested && PySequence_Size(o) != w->ndim && PySequence_Size(o) != 1) {
        PyErr_Format(PyExc_ValueError, "pad(): %zd pairs of widths for an array with %d axes",
                     PySequence_Size(o), w->ndim);
        return false;
    }
    for (int i = 0; i < w->ndim; i++) {
        PyObject *one = nested ? PySequence_GetItem(o, PySequence_Size(o) == 1 ? 0 : i) : Py_NewRef(o);
        bool ok = one && read_pair(one, &w->low[i], &w->high[i]);
        Py_XDECREF(one);
        if (!ok)
            return false;
    }
    return true;
}

enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC, PAD_MODES };

static bool read_mode(PyObject *o, enum pad_mode *out) {
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric"};
    *out = PAD_CONSTANT;
    if (!shaped_given(o))
        return true;
    for (int i = 0; i < PAD_MODES; i++)
        if (PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, modes[i]) == 0) {
            *out = (enum pad_mode)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "pad(): mode %R: 'constant', 'edge', 'reflect' or 'symmetric' is needed",
                 o);
    return false;
}

// Returns which element of an axis of n elements is repeated at position i, which may be before the axis or
// after it.
static int64_t mirrored(int64_t i, int64_t n, enum pad_mode mode) {
    if (mode == PAD_EDGE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    int64_t period = mode == PAD_SYMMETRIC ? 2 * n : n > 1 ? 2 * n - 2 : 1;
    int64_t at = ((i % period) + period) % period;
    return at < n ? at : mode == PAD_SYMMETRIC ? period - 1 - at : period - at;
}

static zl_array pad_axis(zl_array a, int axis, int64_t low, int64_t high, enum pad_mode mode) {
    int64_t n = zl_dim(a, axis), size = n + low + high;
    if (low < 0 || high < 0 || n == 0 || size > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "pad(): %lld before and %lld behind an axis of %lld elements",
                     (long long)low, (long long)high, (long long)n);
        return NULL;
    }
    int32_t *index = PyMem_Malloc(sizeof *index * (size_t)size);
    if (!index)
        return (void *)PyErr_NoMemory();
    for (int64_t i = 0; i < size; i++)
        index[i] = (int32_t)mirrored(i - low, n, mode);
    zl_array padded = zl_take(a, zl_from_i32(index, ZL_SHAPE(size)), axis);
    PyMem_Free(index);
    return padded ? padded : ext_raise();
}

static zl_array pad_with(zl_array a, const struct widths *w, enum pad_mode mode, PyObject *value) {
    if (mode == PAD_CONSTANT) {
        zl_array filler = shaped_given(value) ? ext_array_held(value) : zl_scalar_int(0);
        zl_array padded =
            filler ? zl_pad(a, (zl_shape){w->low, w->ndim}, (zl_shape){w->high, w->ndim}, filler) : NULL;
        return padded || PyErr_Occurred() ? padded : ext_raise();
    }
    for (int i = 0; a && i < w->ndim; i++)
        if (w->low[i] || w->high[i])
            a = pad_axis(a, i, w->low[i], w->high[i], mode);
    return a;
}

static PyObject *pad_work(const struct shaped_call *c) {
    enum pad_mode mode;
    zl_array a = ext_array_held(c->named[0]);
    if (!a || !read_mode(c->named[2], &mode))
        return NULL;
    int ndim = zl_ndim(a);
    int64_t *room = PyMem_Malloc(sizeof *room * (size_t)(2 * ndim + 1));
    struct widths w = {room, room + ndim, ndim};
    zl_array padded = room && read_widths(c->named[1], &w) ? pad_with(a, &w, mode, c->named[3]) : NULL;
    PyMem_Free(room);
    return padded ? ext_wrap(padded) : PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static PyObject *pad(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"a", "pad_width", "mode", "constant_values", NULL};
    return shaped_read(&c, "pad", known, 4, false, args, n, names) && shaped_need(&c, 0, "a") &&
                   shaped_need(&c, 1, "pad_width")
               ? shaped_run(&c, pad_work)
               : NULL;
}

// Convolution -----------------------------------------------------------------------------------------------

enum { STRIDE, LOW, HIGH, KERNEL_DILATION, INPUT_DILATION, CONV_LISTS, CONV_AXES = 3 };

static bool is_two_lists(PyObject *o) {
    return is_pair_list(o) && PySequence_Size(o) == 2;
}

// Reads a list of a convolution. If padding is two lists, reads the first or the second.
static bool read_conv_list(const struct shaped_call *c, int which, struct ext_list *list) {
    static const int at[] = {2, 3, 3, 4, 5};
    PyObject *o = c->named[at[which]];
    list->item = list->room;
    list->count = 1;
    list->room[0] = which != LOW && which != HIGH;
    if (!shaped_given(o))
        return true;
    if ((which != LOW && which != HIGH) || !is_two_lists(o))
        return ext_list_read(o, list);
    PyObject *side = PySequence_GetItem(o, which == HIGH);
    bool ok = side && ext_list_read(side, list);
    Py_XDECREF(side);
    return ok;
}

// Joins the padding before each axis and the padding after each axis. Returns how many numbers there are, or
// -1 with an exception.
static int join_padding(const struct ext_list *low, const struct ext_list *high, int axes, int64_t *out) {
    bool fits = (low->count == 1 || low->count == axes) && (high->count == 1 || high->count == axes);
    if (!fits || axes < 1 || axes > CONV_AXES) {
        PyErr_Format(PyExc_ValueError, "conv_general(): %d and %d numbers as padding for %d spatial axes",
                     low->count, high->count, axes);
        return -1;
    }
    for (int i = 0; i < axes; i++) {
        out[i] = low->item[low->count == 1 ? 0 : i];
        out[axes + i] = high->item[high->count == 1 ? 0 : i];
    }
    return 2 * axes;
}

static PyObject *convolve(const struct shaped_call *c, const struct ext_list *list) {
    zl_array x = ext_array_held(c->named[0]), w = x ? ext_array_held(c->named[1]) : NULL;
    int groups, flip = shaped_given(c->named[7]) ? PyObject_IsTrue(c->named[7]) : 0;
    if (!w || flip < 0 || !shaped_int(c->named[6], 1, &groups))
        return NULL;
    int64_t padding[2 * CONV_AXES];
    int count = join_padding(&list[LOW], &list[HIGH], zl_ndim(x) - 2, padding);
    if (count < 0)
        return NULL;
    return ext_wrap(
        zl_conv_general(x, w, (zl_shape){list[STRIDE].item, list[STRIDE].count}, (zl_shape){padding, count},
                        (zl_shape){list[KERNEL_DILATION].item, list[KERNEL_DILATION].count},
                        (zl_shape){list[INPUT_DILATION].item, list[INPUT_DILATION].count}, groups, flip));
}

static PyObject *conv_general_work(const struct shaped_call *c) {
    struct ext_list list[CONV_LISTS];
    int there = 0;
    while (there < CONV_LISTS && read_conv_list(c, there, &list[there]))
        there++;
    PyObject *result = there == CONV_LISTS ? convolve(c, list) : NULL;
    while (there > 0)
        ext_list_free(&list[--there]);
    return result;
}

static PyObject *conv_general(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"input",          "weight", "stride", "padding", "kernel_dilation",
                                        "input_dilation", "groups", "flip",   NULL};
    return shaped_read(&c, "conv_general", known, 8, false, args, n, names) && shaped_need(&c, 0, "input") &&
                   shaped_need(&c, 1, "weight")
               ? shaped_run(&c, conv_general_work)
               : NULL;
}

// Shapes ----------------------------------------------------------------------------------------------------

// Reads a list given as (2, 3) or as 2, 3: a.reshape and a.transpose take both.
static bool read_rest_list(const struct shaped_call *c, struct ext_list *list) {
    if (c->rests == 1)
        return ext_list_read(c->rest[0], list);
    PyObject *tuple = PyTuple_New(c->rests);
    for (Py_ssize_t i = 0; tuple && i < c->rests; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(c->rest[i]));
    bool ok = tuple && ext_list_read(tuple, list);
    Py_XDECREF(tuple);
    return ok;
}

static PyObject *reshape_method(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct shaped_call c;
    struct ext_list shape;
    zl_scope scope;
    static const char *const known[] = {"shape", NULL};
    if (!shaped_read(&c, "reshape", known, 0, true, args, n, names))
        return NULL;
    if (c.named[0]) {
        c.rest = &c.named[0];
        c.rests = 1;
    }
    if (!read_rest_list(&c, &shape))
        return NULL;
    PyObject *result = NULL;
    if (ext_scope(c.stream, &scope)) {
        result = ext_wrap(zl_reshape(ext_value(self), (zl_shape){shape.item, shape.count}));
        zl_scope_end(scope);
    }
    ext_list_free(&shape);
    return result;
}

static PyObject *conj_work(const struct shaped_call *c) {
    return ext_wrap(zl_conjugate(ext_value(c->named[0])));
}

static PyObject *conj_method(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct shaped_call c;
    if (!shaped_read(&c, "conj", (const char *const[]){NULL}, 0, false, args, n, names))
        return NULL;
    c.named[0] = self;
    return shaped_run(&c, conj_work);
}

static PyObject *transpose_by(zl_array a, const struct ext_list *list) {
    int axis[64];
    if (list->count > COUNT(axis)) {
        PyErr_Format(PyExc_ValueError, "transpose(): %d axes for an array with %d", list->count, zl_ndim(a));
        return NULL;
    }
    for (int i = 0; i < list->count; i++) {
        if (list->item[i] < INT_MIN || list->item[i] > INT_MAX) {
            PyErr_Format(ext_axis_error, "transpose(): %lld is not an axis", (long long)list->item[i]);
            return NULL;
        }
        axis[i] = (int)list->item[i];
    }
    return ext_wrap(zl_transpose(a, (zl_axes){axis, list->count}));
}

static PyObject *transpose_method(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    struct shaped_call c;
    struct ext_list axes = {.count = -1};
    zl_scope scope;
    static const char *const known[] = {"axes", NULL};
    if (!shaped_read(&c, "transpose", known, 0, true, args, n, names))
        return NULL;
    bool all = c.rests == 0 || (c.rests == 1 && c.rest[0] == Py_None);
    if ((!all && !read_rest_list(&c, &axes)) || !ext_scope(c.stream, &scope))
        return NULL;
    PyObject *result =
        all ? ext_wrap(zl_transpose(ext_value(self), ZL_ALL)) : transpose_by(ext_value(self), &axes);
    if (!all)
        ext_list_free(&axes);
    zl_scope_end(scope);
    return result;
}

// Updates `sum` to the shape that it and `one` broadcast to.
static bool broadcast_into(struct ext_list *sum, const struct ext_list *one) {
    int ndim = sum->count > one->count ? sum->count : one->count;
    if (ndim > COUNT(sum->room)) {
        PyErr_Format(PyExc_ValueError, "broadcast_shapes(): %d axes: at most %d are handled", ndim,
                     COUNT(sum->room));
        return false;
    }
    memmove(sum->item + ndim - sum->count, sum->item, sizeof(int64_t) * (size_t)sum->count);
    for (int i = 0; i < ndim - sum->count; i++)
        sum->item[i] = 1;
    sum->count = ndim;
    for (int i = 0; i < one->count; i++) {
        int64_t *a = &sum->item[ndim - one->count + i], b = one->item[i];
        if (*a != b && *a != 1 && b != 1) {
            PyErr_Format(PyExc_ValueError, "broadcast_shapes(): sizes %lld and %lld differ", (long long)*a,
                         (long long)b);
            return false;
        }
        *a = *a == 1 ? b : *a;
    }
    return true;
}

static PyObject *broadcast_shapes(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    struct ext_list sum = {.count = 0};
    sum.item = sum.room;
    if (n == 0) {
        PyErr_SetString(PyExc_ValueError, "broadcast_shapes(): at least one shape is needed");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        struct ext_list one;
        if (!ext_list_read(args[i], &one))
            return NULL;
        bool ok = broadcast_into(&sum, &one);
        ext_list_free(&one);
        if (!ok)
            return NULL;
    }
    return ext_shape_tuple((zl_shape){sum.item, sum.count});
}

// The tables ------------------------------------------------------------------------------------------------

// unique(a, size=None, return_index=False, return_inverse=False, return_counts=False, fill_value=None)
static PyObject *unique_work(const struct shaped_call *c) {
    zl_array a = ext_array_held(c->named[0]), fill, out[4];
    int64_t size = INT64_MIN;
    bool wanted[3];
    if (!a || (shaped_given(c->named[1]) && !ext_to_int64(c->named[1], &size)) ||
        !shaped_array(c->named[5], &fill))
        return NULL;
    for (int i = 0; i < 3; i++)
        if (!shaped_truth(c->named[2 + i], false, &wanted[i]))
            return NULL;
    if (!zl_unique(a, size, wanted[0], wanted[1], wanted[2], fill, out))
        return ext_raise();
    int count = 1 + wanted[0] + wanted[1] + wanted[2];
    return count > 1 ? ext_wrap_all(count, out, true) : ext_wrap(out[0]);
}

static PyObject *unique(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {
        "a", "size", "return_index", "return_inverse", "return_counts", "fill_value", NULL};
    return shaped_read(&c, "unique", known, 6, false, args, n, names) && shaped_need(&c, 0, "a")
               ? shaped_run(&c, unique_work)
               : NULL;
}

static PyMethodDef functions[] = {
    SHAPED_ROW("arange", arange,
               "arange(start, stop=None, step=None, dtype=None, *, stream=None)\n--\n\n"
               "start, start + step and so on before stop; arange(stop) starts at 0."),
    SHAPED_ROW(
        "atleast_1d", atleast_1d,
        "atleast_1d(*arrays, stream=None)\n--\n\nArrays with at least one axis: one for one, else a list."),
    SHAPED_ROW(
        "atleast_2d", atleast_2d,
        "atleast_2d(*arrays, stream=None)\n--\n\nArrays with at least two axes: one for one, else a list."),
    SHAPED_ROW(
        "atleast_3d", atleast_3d,
        "atleast_3d(*arrays, stream=None)\n--\n\nArrays with at least three axes: one for one, else a list."),
    SHAPED_ROW("broadcast_arrays", broadcast_arrays,
               "broadcast_arrays(*arrays, stream=None)\n--\n\nThe arrays as views of one shape."),
    {"broadcast_shapes", (PyCFunction)(void (*)(void))broadcast_shapes, METH_FASTCALL,
     "broadcast_shapes(*shapes)\n--\n\nThe shape that arrays of these shapes broadcast to."},
    SHAPED_ROW("concatenate", concatenate,
               "concatenate(arrays, axis=0, *, stream=None)\n--\n\n"
               "The arrays joined along an axis; flattened if that is None."),
    SHAPED_ROW("conv_general", conv_general,
               "conv_general(input, weight, stride=1, padding=0, kernel_dilation=1, input_dilation=1, "
               "groups=1, flip=False, *, "
               "stream=None)\n--\n\n"
               "The input, (N, sizes, C), convolved with the weight, (O, sizes, C / groups), over one to "
               "three axes. Padding is "
               "a number, one an axis, or two lists: what comes before, and what comes behind."),
    SHAPED_ROW("meshgrid", meshgrid,
               "meshgrid(*arrays, sparse=False, indexing='xy', stream=None)\n--\n\n"
               "The coordinates of a grid: a tuple of one array for each that is given."),
    SHAPED_ROW("pad", pad,
               "pad(a, pad_width, mode='constant', constant_values=0, *, stream=None)\n--\n\n"
               "a with more elements around it: a constant, the edge, or a mirror image."),
    SHAPED_ROW(
        "quantize", quantize,
        "quantize(w, group_size=None, bits=None, mode='affine', *, global_scale=None, stream=None)\n--\n\n"
        "w in few bits per number: packed words, scales and, in mode affine, biases."),
    SHAPED_ROW("split", split,
               "split(a, indices_or_sections, axis=0, *, stream=None)\n--\n\n"
               "a cut along an axis into equal sections, or at positions: a list of views."),
    SHAPED_ROW("slice", slice,
               "slice(a, start_indices, axes, slice_size, *, stream=None)\n--\n\n"
               "The slice of a that begins where start_indices says along the given axes."),
    SHAPED_ROW("slice_update", slice_update,
               "slice_update(a, update, start_indices, axes, *, stream=None)\n--\n\n"
               "a with update written over the slice that begins at start_indices."),
    SHAPED_ROW("unique", unique,
               "unique(a, size=None, return_index=False, return_inverse=False, return_counts=False, "
               "fill_value=None, *, "
               "stream=None)\n--\n\n"
               "The different elements of a in order; where each was first, which each element of a is, and "
               "how often each "
               "is there, if asked for. Without a size a is evaluated to find how many they are."),
    SHAPED_ROW("unstack", unstack,
               "unstack(x, *, axis=0, stream=None)\n--\n\n"
               "x split along an axis: a tuple of views without it."),
    {0},
};

PyMethodDef ext_shaped_array_methods[] = {
    SHAPED_ROW("conj", conj_method, "The complex conjugate."),
    SHAPED_ROW("reshape", reshape_method,
               "The same elements in another shape: a.reshape(2, 3) or a.reshape((2, 3))."),
    SHAPED_ROW("split", split_method,
               "Cut along an axis into equal sections, or at positions: a list of views."),
    SHAPED_ROW("transpose", transpose_method,
               "The axes in another order, as a view; reversed if none is given."),
    {0},
};

bool ext_add_shaped(PyObject *core) {
    PyObject *fast = ext_submodule(core, "fast", "Operations that take several steps at once.");
    PyObject *linalg = ext_submodule(core, "linalg", "Factors, inverses and norms of matrices.");
    return fast && linalg && ext_submodule(core, "fft", "Discrete Fourier transforms.") &&
           !PyType_Ready(&metal_kernel_type) && !PyType_Ready(&cpu_kernel_type) &&
           shaped_add(core, functions) && shaped_add(core, shaped_products) &&
           shaped_add(fast, shaped_fast) && shaped_add(linalg, shaped_linalg) &&
           ext_add(core, "matrix_norm", PyObject_GetAttrString(linalg, "norm"));
}
