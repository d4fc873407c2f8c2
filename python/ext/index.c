// index.c - reads keys and finds the axes that they select. The rules are NumPy's, as far as MLX follows
// them.

#include <string.h>

#include "index.h"

// Reading ---------------------------------------------------------------------------------------------------

static bool is_index(PyObject *o) {
    return PyLong_CheckExact(o) || (PyIndex_Check(o) && !PyBool_Check(o));
}

// Reads an integer. One that does not fit becomes the largest or smallest, which is past the end of every
// axis.
static bool read_int(PyObject *o, int64_t *out) {
    *out = PyNumber_AsSsize_t(o, NULL);
    return *out != -1 || !PyErr_Occurred();
}

static bool read_bound(PyObject *o, int64_t missing, int64_t *out) {
    *out = missing;
    if (o == Py_None)
        return true;
    if (!is_index(o)) {
        PyErr_Format(PyExc_ValueError, "array[key]: slices are made of integers and None, not of %.100s",
                     Py_TYPE(o)->tp_name);
        return false;
    }
    if (!read_int(o, out))
        return false;
    if (LIKELY(*out >= INT32_MIN && *out <= INT32_MAX))
        return true;
    PyErr_Format(PyExc_ValueError, "array[key]: a slice with %R: its numbers must fit 32 bits", o);
    return false;
}

static bool read_slice(PySliceObject *s, struct entry *e) {
    e->kind = ENTRY_SLICE;
    if (!read_bound(s->step, 1, &e->step))
        return false;
    if (e->step == 0) {
        PyErr_SetString(PyExc_ValueError,
                        "array[key]: the step of a slice is 0: it must be positive or negative");
        return false;
    }
    bool back = e->step < 0;
    return read_bound(s->start, back ? INT64_MAX : 0, &e->start) &&
           read_bound(s->stop, back ? INT64_MIN : INT64_MAX, &e->stop);
}

static bool take_array(zl_array a, struct entry *e) {
    if (!a) {
        ext_raise();
        return false;
    }
    zl_dtype dtype = zl_dtype_of(a);
    if (dtype > ZL_INT64) {
        PyErr_Format(PyExc_ValueError, "array[key]: an array of %s cannot be a key: integers or booleans can",
                     zl_dtype_name(dtype));
        return false;
    }
    e->kind = dtype == ZL_BOOL ? ENTRY_MASK : ENTRY_ARRAY;
    e->array = zl_retain(a); // retained, since the rest of the key may give its cell another value
    return true;
}

static bool refuse(PyObject *o) {
    PyErr_Format(
        PyExc_ValueError,
        "array[key]: cannot index with %.100s: integers, slices, None, ..., arrays of integers and lists of "
        "them are keys",
        Py_TYPE(o)->tp_name);
    return false;
}

// Reads foreign buffers, such as NumPy arrays; only booleans are keys.
static bool read_buffer(PyObject *o, struct entry *e) {
    zl_array a = PyObject_CheckBuffer(o) && !PyBytes_Check(o) ? ext_array_of(o) : NULL;
    if (PyErr_Occurred())
        return false;
    return a && zl_dtype_of(a) == ZL_BOOL ? take_array(a, e) : refuse(o);
}

static bool read_object(PyObject *o, struct entry *e) {
    if (PyList_Check(o))
        return take_array(ext_array_from(o, ZL_DTYPE_COUNT), e);
    if (PyBool_Check(o))
        return take_array(zl_scalar_bool(o == Py_True), e);
    if (!PyIndex_Check(o))
        return read_buffer(o, e);
    e->kind = ENTRY_INT;
    if (read_int(o, &e->start))
        return true;
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || !PyObject_CheckBuffer(o))
        return false;
    PyErr_Clear(); // NumPy arrays have __index__, but it fails unless they have one element
    return read_buffer(o, e);
}

static bool read_entry(PyObject *o, struct entry *e) {
    e->array = NULL;
    if (LIKELY(PyLong_CheckExact(o))) {
        e->kind = ENTRY_INT;
        return read_int(o, &e->start);
    }
    if (PySlice_Check(o))
        return read_slice((PySliceObject *)o, e);
    if (ext_is_array(o))
        return take_array(ext_value(o), e);
    if (o != Py_None && o != Py_Ellipsis)
        return read_object(o, e);
    e->kind = o == Py_None ? ENTRY_NEW : ENTRY_REST;
    return true;
}

static bool too_long(Py_ssize_t count) {
    PyErr_Format(ext_axis_error, "array[key]: a key of %zd entries and axes: %d are the most", count,
                 KEY_MAX);
    return false;
}

static bool append(struct key *k, PyObject *o) {
    struct entry *e = &k->entry[k->count];
    if (!read_entry(o, e))
        return false;
    k->count++;
    if (UNLIKELY(k->kinds & e->kind & ENTRY_REST)) {
        PyErr_SetString(PyExc_ValueError, "array[key]: a key can only have one ellipsis (...)");
        return false;
    }
    k->kinds |= e->kind;
    return true;
}

bool key_read(struct key *k, PyObject *o) {
    k->count = k->kinds = 0;
    k->is_tuple = PyTuple_Check(o);
    if (!k->is_tuple)
        return append(k, o);
    if (PyTuple_GET_SIZE(o) > KEY_MAX)
        return too_long(PyTuple_GET_SIZE(o));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
        if (!append(k, PyTuple_GET_ITEM(o, i)))
            return false;
    return true;
}

void key_free(struct key *k) {
    if (k->kinds & (ENTRY_ARRAY | ENTRY_MASK))
        for (int i = 0; i < k->count; i++)
            zl_release(k->entry[i].array);
}

// Fitting ---------------------------------------------------------------------------------------------------

static const struct entry all_of_axis = {.kind = ENTRY_SLICE, .stop = INT64_MAX, .step = 1};

// Inserts a slice for each of the missing axes in place of the ellipsis, or at the end.
static void fill_rest(struct key *k, int missing) {
    int at = 0;
    while (at < k->count && k->entry[at].kind != ENTRY_REST)
        at++;
    int after = at < k->count ? k->count - at - 1 : 0;
    memmove(&k->entry[at + missing], &k->entry[k->count - after], sizeof k->entry[0] * (size_t)after);
    for (int i = 0; i < missing; i++)
        k->entry[at + i] = all_of_axis;
    k->count = at + missing + after;
}

static bool fit_int(struct entry *e, int axis, int64_t size) {
    if (UNLIKELY(e->start < -size || e->start >= size)) {
        PyErr_Format(ext_axis_error, "array[key]: index %lld is out of range for axis %d with size %lld",
                     (long long)e->start, axis, (long long)size);
        return false;
    }
    e->stop =
        e->start == -1 ? INT64_MAX : e->start + 1; // counted from the end, it also fits other sizes
    e->step = 1;
    return true;
}

static bool fit_entries(struct key *k, const int64_t *dim) {
    k->is_whole = true;
    for (int i = 0, axis = 0; i < k->count; i++) {
        struct entry *e = &k->entry[i];
        if (e->kind == ENTRY_INT && !fit_int(e, axis, dim[axis]))
            return false;
        if (e->kind == ENTRY_ARRAY)
            e->start = 0, e->stop = INT64_MAX, e->step = 1;
        if (e->kind == ENTRY_INT ||
            (e->kind == ENTRY_SLICE && (e->start || e->stop < dim[axis] || e->step != 1)))
            k->is_whole = false;
        axis += e->kind != ENTRY_NEW;
    }
    return true;
}

bool key_fit(struct key *k, zl_array a) {
    if (!a) {
        ext_raise();
        return false;
    }
    if (UNLIKELY(k->kinds & ENTRY_MASK)) {
        PyErr_SetString(PyExc_ValueError,
                        "array[key]: a boolean mask can only be assigned to, as the whole key: "
                        "a[mask] = value; use where() to read");
        return false;
    }
    int named = 0;
    for (int i = 0; i < k->count; i++)
        named += (k->entry[i].kind & ENTRY_AXES) != 0;
    int missing = zl_ndim(a) - named;
    if (UNLIKELY(missing < 0)) {
        PyErr_Format(ext_axis_error, "array[key]: too many indices: %d for an array with %d axes", named,
                     zl_ndim(a));
        return false;
    }
    if (UNLIKELY(k->count + missing > KEY_MAX))
        return too_long((Py_ssize_t)k->count + missing);
    if (missing || k->kinds & ENTRY_REST)
        fill_rest(k, missing);
    return fit_entries(k, zl_shape_of(a).dim);
}

// Axes ------------------------------------------------------------------------------------------------------

int key_axes(const struct key *k, int kinds, int counted, int *axis) {
    int found = 0;
    for (int i = 0, at = 0; i < k->count; i++) {
        if (k->entry[i].kind & kinds)
            axis[found++] = at;
        at += (k->entry[i].kind & counted) != 0;
    }
    return found;
}

int key_arrays(const struct key *k, zl_array *index) {
    int count = 0;
    for (int i = 0; i < k->count; i++)
        if (k->entry[i].kind == ENTRY_ARRAY)
            index[count++] = k->entry[i].array;
    return count;
}

int key_block(const struct key *k, int counted) {
    const int advanced = ENTRY_INT | ENTRY_ARRAY;
    int first = 0, last = k->count - 1, at = 0;
    while (!(k->entry[first].kind & advanced))
        at += (k->entry[first++].kind & counted) != 0;
    while (!(k->entry[last].kind & advanced))
        last--;
    for (int i = first; i < last; i++)
        if (!(k->entry[i].kind & advanced))
            return 0;
    return at;
}

zl_array key_move_block(zl_array x, int from, int to, int length) {
    int axis[2 * KEY_MAX], ndim = x ? zl_ndim(x) : 0;
    if (!x || from == to || length == 0)
        return x;
    for (int i = 0, other = 0; i < ndim; i++) {
        bool inside = i >= to && i < to + length;
        if (other == from && !inside)
            other += length;
        axis[i] = inside ? from + i - to : other++;
    }
    return zl_transpose(x, (zl_axes){axis, ndim});
}

int key_new_axes(const struct key *k, int block, int *axis) {
    int count = key_axes(k, ENTRY_NEW, ENTRY_KEPT, axis);
    int from = count && block ? key_block(k, ENTRY_KEPT) : 0;
    for (int i = 0; i < count; i++)
        axis[i] += axis[i] >= from ? block : 0;
    return count;
}

// Views -----------------------------------------------------------------------------------------------------

void key_range(const struct key *k, struct key_range *r) {
    for (int i = 0, axis = 0; i < k->count; i++) {
        const struct entry *e = &k->entry[i];
        if (e->kind == ENTRY_NEW)
            continue;
        r->start[axis] = e->start;
        r->stop[axis] = e->stop;
        r->step[axis++] = e->step;
    }
}

zl_array key_slice(const struct key *k, zl_array a) {
    struct key_range r;
    if (k->is_whole)
        return a;
    int ndim = zl_ndim(a);
    key_range(k, &r);
    return zl_slice(a, (zl_shape){r.start, ndim}, (zl_shape){r.stop, ndim}, (zl_shape){r.step, ndim});
}

zl_array key_view(const struct key *k, zl_array a) {
    int axis[KEY_MAX], count;
    a = key_slice(k, a);
    if ((count = key_axes(k, ENTRY_INT, ENTRY_AXES, axis)))
        a = zl_squeeze(a, (zl_axes){axis, count});
    if ((count = key_axes(k, ENTRY_NEW, ENTRY_KEPT, axis)))
        a = zl_expand_dims(a, (zl_axes){axis, count});
    return a;
}

bool ext_add_indexing(PyObject *core) {
    return index_add_iterator(core) && index_add_at(core);
}
