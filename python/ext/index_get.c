// index_get.c - array[key] and iteration. Integers, slices and None give views; arrays of positions are one
// take or one gather from that view.

#include <stdatomic.h>

#include "index.h"

// array[key] ------------------------------------------------------------------------------------------------

// Gathers along the indexed axes, which come first in the result.
static zl_array gather_all(zl_array x, const zl_array *index, const int *axis, int count) {
    int64_t size[KEY_MAX];
    int gone[KEY_MAX], ndim = zl_ndim(x);
    for (int i = 0; i < ndim; i++)
        size[i] = zl_dim(x, i);
    for (int i = 0; i < count; i++)
        size[axis[i]] = 1;
    x = zl_gather(x, index, count, (zl_axes){axis, count}, (zl_shape){size, ndim});
    for (int i = 0; x && i < count; i++)
        gone[i] = zl_ndim(x) - ndim + axis[i];
    return zl_squeeze(x, (zl_axes){gone, count});
}

static zl_array gather(const struct key *k, zl_array a) {
    zl_array index[KEY_MAX], x = key_slice(k, a);
    int axis[KEY_MAX], count = key_axes(k, ENTRY_INT, ENTRY_AXES, axis);
    if (count)
        x = zl_squeeze(x, (zl_axes){axis, count});
    if (!x)
        return NULL;
    key_arrays(k, index);
    count = key_axes(k, ENTRY_ARRAY, ENTRY_SLICE | ENTRY_ARRAY, axis);
    int ndim = zl_ndim(x), from = count == 1 ? axis[0] : 0;
    x = count == 1 ? zl_take(x, index[0], axis[0]) : gather_all(x, index, axis, count);
    if (!x)
        return NULL;
    int block = zl_ndim(x) - (ndim - count); // axes of the arrays
    if (zl_ndim(x) > KEY_MAX) {
        PyErr_Format(ext_axis_error, "array[key]: a result of %d axes: %d are the most", zl_ndim(x), KEY_MAX);
        return NULL;
    }
    x = key_move_block(x, from, key_block(k, ENTRY_SLICE), block);
    count = key_new_axes(k, block, axis);
    return count ? zl_expand_dims(x, (zl_axes){axis, count}) : x;
}

PyObject *ext_get(PyObject *array, PyObject *key) {
    zl_scope scope = ext_begin();
    struct key k;
    PyObject *result = NULL;
    if (key_read(&k, key)) {
        zl_array a = ext_value(array); // not earlier, since reading a key may run any code
        if (key_fit(&k, a))
            result = ext_wrap(k.kinds & ENTRY_ARRAY ? gather(&k, a) : key_view(&k, a));
    }
    key_free(&k);
    zl_scope_end(scope);
    return result;
}

// Iteration -------------------------------------------------------------------------------------------------

struct iterator {
    PyObject base;
    zl_array array; // as it was when the iteration began; retained
    _Atomic int64_t next;
};

static PyTypeObject iterator_type;

PyObject *ext_iter(PyObject *array) {
    zl_scope scope = ext_begin();
    zl_array a = ext_value(array);
    struct iterator *it = NULL;
    if (!a)
        ext_raise();
    else if (zl_ndim(a) == 0)
        PyErr_SetString(PyExc_TypeError, "iter(array): an array without axes has nothing to iterate over");
    else if ((it = PyObject_New(struct iterator, &iterator_type))) {
        it->array = zl_retain(a);
        atomic_init(&it->next, 0);
    }
    zl_scope_end(scope);
    return (PyObject *)it;
}

static PyObject *iterator_next(PyObject *self) {
    struct iterator *it = (struct iterator *)self;
    int64_t at = atomic_load(&it->next);
    do {
        if (at >= zl_dim(it->array, 0))
            return NULL;
    } while (!atomic_compare_exchange_weak(&it->next, &at, at + 1));
    zl_scope scope = ext_begin();
    struct key k;
    k.count = 1;
    k.kinds = ENTRY_INT;
    k.entry[0] = (struct entry){.kind = ENTRY_INT, .start = at};
    PyObject *result = key_fit(&k, it->array) ? ext_wrap(key_view(&k, it->array)) : NULL;
    zl_scope_end(scope);
    return result;
}

static void iterator_free(PyObject *self) {
    zl_release(((struct iterator *)self)->array);
    PyObject_Free(self);
}

static PyTypeObject iterator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.ArrayIterator",
    .tp_doc = PyDoc_STR("Iterates over the first axis of an array."),
    .tp_basicsize = sizeof(struct iterator),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = iterator_free,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = iterator_next,
};

bool index_add_iterator(PyObject *core) {
    return PyModule_AddType(core, &iterator_type) == 0;
}
