// index_set.c - array[key] = value, array.at[key].add(value) and similar updates. Keys of integers, slices
// and None update a slice. Keys with arrays of positions are one scatter, in which integers and slices give
// the beginning of a part. Masks select elements.

#include "index.h"

typedef zl_array slice_update_op(zl_array, zl_array, zl_shape, zl_shape, zl_shape);
typedef zl_array scatter_op(zl_array, const zl_array *, int, zl_array, zl_axes);
typedef zl_array prepare_op(zl_array value);
typedef zl_array whole_op(zl_array a, zl_array value);

// A way to write values to an array.
struct update {
    slice_update_op *slice;
    scatter_op *scatter;
    prepare_op *prepare; // applied to the value first; NULL: nothing
    whole_op *whole;     // used instead of all this if the key is ... or None; NULL: there is no such op
};

// Values ----------------------------------------------------------------------------------------------------

// Returns whether a whole number of Python is in the range of a dtype. Other values are cast without a check.
static bool check_range(PyObject *o, zl_dtype dtype) {
    static const struct {
        int64_t low;
        uint64_t high;
    } range[ZL_DTYPE_COUNT] = {
        [ZL_UINT8] = {0, UINT8_MAX},         [ZL_UINT16] = {0, UINT16_MAX},
        [ZL_UINT32] = {0, UINT32_MAX},       [ZL_UINT64] = {0, UINT64_MAX},
        [ZL_INT8] = {INT8_MIN, INT8_MAX},    [ZL_INT16] = {INT16_MIN, INT16_MAX},
        [ZL_INT32] = {INT32_MIN, INT32_MAX}, [ZL_INT64] = {INT64_MIN, INT64_MAX},
    };
    if (!PyLong_CheckExact(o) || !range[dtype].high)
        return true;
    int overflow;
    int64_t n = PyLong_AsLongLongAndOverflow(o, &overflow);
    bool fits = overflow ? overflow > 0 && dtype == ZL_UINT64 // integers of more than 64 bits never fit
                         : n >= range[dtype].low && (n < 0 || (uint64_t)n <= range[dtype].high);
    if (!fits)
        PyErr_Format(PyExc_ValueError, "array[key] = value: %R does not fit %s", o, zl_dtype_name(dtype));
    return fits;
}

// Casts a value to the array's dtype, except floats for an array of integers, which are cast after `prepare`.
static zl_array cast(zl_array value, zl_dtype dtype) {
    bool fraction = value && zl_dtype_of(value) > ZL_INT64 && dtype <= ZL_INT64;
    return fraction ? value : zl_astype(value, dtype);
}

// Removes leading axes of size 1, as long as there are more than ndim axes.
static zl_array strip(zl_array value, int ndim) {
    int axis[KEY_MAX], count = 0;
    if (!value)
        return NULL;
    for (int most = zl_ndim(value) - ndim; count < most && count < KEY_MAX && zl_dim(value, count) == 1;
         count++)
        axis[count] = count;
    return count ? zl_squeeze(value, (zl_axes){axis, count}) : value;
}

static zl_array stretch(zl_array value, zl_shape shape) {
    return zl_broadcast_to(strip(value, shape.ndim), shape);
}

// Basic keys ------------------------------------------------------------------------------------------------

// Returns whether a value that fits the result also fits the slice: integers come first and there are no new
// axes.
static bool is_aligned(const struct key *k) {
    int seen = 0;
    for (int i = 0; i < k->count; i++) {
        seen |= k->entry[i].kind;
        if (k->entry[i].kind == ENTRY_INT && seen & ENTRY_SLICE)
            return false;
    }
    return !(seen & ENTRY_NEW);
}

// Returns the value with the axes of the slice: those of integers are added, new ones are removed.
static zl_array fit_value(const struct key *k, zl_array a, zl_array value) {
    int axis[KEY_MAX], ints = key_axes(k, ENTRY_INT, ENTRY_AXES, axis);
    if (!value || zl_ndim(value) == 0)
        return value;
    if (is_aligned(k))
        return strip(value, zl_ndim(a) - ints);
    zl_array view = key_view(k, a);
    value = view ? stretch(value, zl_shape_of(view)) : NULL;
    int gone[KEY_MAX], news = key_axes(k, ENTRY_NEW, ENTRY_KEPT, gone);
    if (news)
        value = zl_squeeze(value, (zl_axes){gone, news});
    return ints ? zl_expand_dims(value, (zl_axes){axis, ints}) : value;
}

static zl_array update_slice(slice_update_op *op, const struct key *k, zl_array a, zl_array value) {
    struct key_range r;
    int ndim = zl_ndim(a);
    key_range(k, &r);
    return op(a, value, (zl_shape){r.start, ndim}, (zl_shape){r.stop, ndim}, (zl_shape){r.step, ndim});
}

// Keys with arrays ------------------------------------------------------------------------------------------

// Writes the shape of array[key]: the axes that slices leave, with the arrays' axes, of shape `inner`,
// inserted.
static int result_shape(const struct key *k, zl_shape part, zl_shape inner, int64_t *dim) {
    int64_t kept[KEY_MAX];
    int count = 0, block = key_block(k, ENTRY_KEPT);
    for (int i = 0, axis = 0; i < k->count; i++) {
        if (k->entry[i].kind & ENTRY_KEPT)
            kept[count++] = k->entry[i].kind == ENTRY_NEW ? 1 : part.dim[axis];
        axis += k->entry[i].kind != ENTRY_NEW;
    }
    for (int i = 0; i < block; i++)
        dim[i] = kept[i];
    for (int i = 0; i < inner.ndim; i++)
        dim[block + i] = inner.dim[i];
    for (int i = block; i < count; i++)
        dim[inner.ndim + i] = kept[i];
    return inner.ndim + count;
}

// Returns the value in scatter's form: the axes of the arrays, then an axis for each axis of the part.
static zl_array fit_updates(const struct key *k, zl_shape part, zl_shape inner, zl_array value) {
    int64_t dim[2 * KEY_MAX];
    int axis[2 * KEY_MAX], count;
    value = stretch(value, (zl_shape){dim, result_shape(k, part, inner, dim)});
    if ((count = key_new_axes(k, inner.ndim, axis)))
        value = zl_squeeze(value, (zl_axes){axis, count});
    value = key_move_block(value, key_block(k, ENTRY_SLICE), 0, inner.ndim);
    count = key_axes(k, ENTRY_INT | ENTRY_ARRAY, ENTRY_AXES, axis);
    for (int i = 0; i < count; i++)
        axis[i] += inner.ndim;
    return zl_expand_dims(value, (zl_axes){axis, count});
}

static bool has_steps(const struct key *k) {
    for (int i = 0; i < k->count; i++)
        if (k->entry[i].kind == ENTRY_SLICE && k->entry[i].step != 1)
            return true;
    return false;
}

static zl_array first_of(const struct entry *e, int64_t size) {
    int64_t start = e->start + (e->start < 0 ? size : 0);
    return zl_scalar_int(start < 0 ? 0 : start);
}

// Lists the positions along the axes of a of which the key takes only a part: the arrays, and where a part of
// that shape begins.
static int list_positions(const struct key *k, zl_array a, zl_shape part, const zl_array *index,
                          zl_array *out, int *axes) {
    int count = 0;
    for (int i = 0, axis = 0; i < k->count; i++) {
        const struct entry *e = &k->entry[i];
        if (e->kind == ENTRY_NEW)
            continue;
        if (e->kind == ENTRY_ARRAY || part.dim[axis] != zl_dim(a, axis)) {
            out[count] = e->kind == ENTRY_ARRAY ? *index++ : first_of(e, zl_dim(a, axis));
            axes[count++] = axis;
        }
        axis++;
    }
    return count;
}

// Updates a by a key with arrays. Slices without steps begin at a position, as arrays do. With steps, the
// part is updated and then written back.
static zl_array scatter(scatter_op *op, const struct key *k, zl_array a, zl_array value) {
    zl_array given[KEY_MAX], index[KEY_MAX], position[KEY_MAX], part = key_slice(k, a);
    int axes[KEY_MAX], count = key_arrays(k, given);
    if (!part || !zl_broadcast_arrays(given, count, index))
        return NULL;
    zl_shape shape = zl_shape_of(part), inner = zl_shape_of(index[0]);
    if (inner.ndim > KEY_MAX - k->count) {
        PyErr_Format(ext_axis_error, "array[key]: a result of more than %d axes", KEY_MAX);
        return NULL;
    }
    value = fit_updates(k, shape, inner, value);
    zl_array target = has_steps(k) ? part : a;
    count = list_positions(k, target, shape, index, position, axes);
    target = op(target, position, count, value, (zl_axes){axes, count});
    return has_steps(k) ? update_slice(zl_slice_update, k, a, target) : target;
}

// array[key] = value ----------------------------------------------------------------------------------------

static zl_array apply(const struct update *u, const struct key *k, zl_array a, zl_array value) {
    if (u->prepare)
        value = u->prepare(cast(value, zl_dtype_of(a)));
    value = zl_astype(value, zl_dtype_of(a));
    if (k->kinds & ENTRY_ARRAY)
        return scatter(u->scatter, k, a, value);
    value = fit_value(k, a, value);
    return value ? update_slice(u->slice, k, a, value) : NULL;
}

static const struct update assignment = {zl_slice_update, zl_scatter, NULL, NULL};

static bool assign(PyObject *array, struct key *k, PyObject *value_object) {
    zl_array value = ext_array_of(value_object);
    zl_array a = ext_value(array); // not earlier, since converting the value may run any code
    if (!value || (a && !check_range(value_object, zl_dtype_of(a))))
        return false;
    if (a && !k->is_tuple && k->kinds & ENTRY_MASK)
        return ext_assign(array, zl_masked_scatter(a, k->entry[0].array, zl_astype(value, zl_dtype_of(a))));
    return key_fit(k, a) && ext_assign(array, apply(&assignment, k, a, value));
}

int ext_set(PyObject *array, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "del array[key]: arrays keep their elements");
        return -1;
    }
    zl_scope scope = ext_begin();
    struct key k;
    bool ok = key_read(&k, key) && assign(array, &k, value);
    key_free(&k);
    zl_scope_end(scope);
    return ok ? 0 : -1;
}

// array.at --------------------------------------------------------------------------------------------------

struct at {
    PyObject base;
    zl_array array; // as it was when .at was read; retained
    PyObject *key;  // NULL: not given yet
};

static PyTypeObject at_type;

PyObject *ext_at(PyObject *array, void *unused) {
    (void)unused;
    zl_scope scope = ext_begin();
    zl_array a = ext_value(array);
    struct at *at = a ? PyObject_GC_New(struct at, &at_type) : ext_raise();
    if (at) {
        at->array = zl_retain(a);
        at->key = NULL;
        PyObject_GC_Track(at);
    }
    zl_scope_end(scope);
    return (PyObject *)at;
}

// As in MLX, at[key] sets the key of this object and returns it.
static PyObject *at_get(PyObject *self, PyObject *key) {
    Py_XSETREF(((struct at *)self)->key, Py_NewRef(key));
    return Py_NewRef(self);
}

static zl_array update_at(const struct update *u, zl_array a, struct key *k, PyObject *key,
                          PyObject *object) {
    zl_array value = ext_array_of(object);
    if (!value || !check_range(object, zl_dtype_of(a)) || !key_fit(k, a))
        return NULL;
    if (u->whole && (key == Py_Ellipsis || key == Py_None))
        return u->whole(a, stretch(cast(value, zl_dtype_of(a)), zl_shape_of(a)));
    return apply(u, k, a, value);
}

static PyObject *at_apply(PyObject *self, PyObject *args, PyObject *kwargs, const struct update *u,
                          const char *form) {
    static char *names[] = {"value", NULL};
    struct at *at = (struct at *)self;
    PyObject *value;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &value))
        return NULL;
    if (!at->key) {
        PyErr_SetString(PyExc_ValueError, "array.at: a key is missing, as in a.at[0].add(4)");
        return NULL;
    }
    zl_scope scope = ext_begin();
    PyObject *key = Py_NewRef(at->key), *result = NULL; // retained: the value may change it
    struct key k;
    if (key_read(&k, key))
        result = ext_wrap(update_at(u, at->array, &k, key, value));
    key_free(&k);
    Py_DECREF(key);
    zl_scope_end(scope);
    return result;
}

#define AT(name, ...)                                                             \
    static PyObject *at_##name(PyObject *self, PyObject *args, PyObject *names) { \
        static const struct update u = {__VA_ARGS__};                             \
        return at_apply(self, args, names, &u, "O:" #name);                       \
    }
AT(add, zl_slice_update_add, zl_scatter_add, NULL, NULL)
AT(subtract, zl_slice_update_add, zl_scatter_add, zl_negative, NULL)
AT(multiply, zl_slice_update_prod, zl_scatter_prod, NULL, NULL)
AT(divide, zl_slice_update_prod, zl_scatter_prod, zl_reciprocal, zl_divide)
AT(maximum, zl_slice_update_max, zl_scatter_max, NULL, NULL)
AT(minimum, zl_slice_update_min, zl_scatter_min, NULL, NULL)

#define ROW(name, doc) \
    { #name, (PyCFunction)(void (*)(void))at_##name, METH_VARARGS | METH_KEYWORDS, PyDoc_STR(doc) }
static PyMethodDef at_methods[] = {
    ROW(add, "The array with value added at the key; a position that occurs twice is added to twice."),
    ROW(subtract, "The array with value subtracted at the key, once for each time that a position occurs."),
    ROW(multiply, "The array multiplied by value at the key, once for each time that a position occurs."),
    ROW(divide, "The array divided by value at the key, once for each time that a position occurs."),
    ROW(maximum, "The array with the larger of its elements and value at the key."),
    ROW(minimum, "The array with the smaller of its elements and value at the key."),
    {0},
};

static int at_visit(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((struct at *)self)->key);
    return 0;
}

static int at_clear(PyObject *self) {
    Py_CLEAR(((struct at *)self)->key);
    return 0;
}

static void at_free(PyObject *self) {
    PyObject_GC_UnTrack(self);
    at_clear(self);
    zl_release(((struct at *)self)->array);
    PyObject_GC_Del(self);
}

static PyMappingMethods at_mapping = {.mp_subscript = at_get};

static PyTypeObject at_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.ArrayAt",
    .tp_doc = PyDoc_STR("Updates of an array at a key that give a new array: a.at[key].add(value)."),
    .tp_basicsize = sizeof(struct at),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = at_free,
    .tp_traverse = at_visit,
    .tp_clear = at_clear,
    .tp_methods = at_methods,
    .tp_as_mapping = &at_mapping,
};

bool index_add_at(PyObject *core) {
    return PyModule_AddType(core, &at_type) == 0;
}
