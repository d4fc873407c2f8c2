// shaped_call.c - reads the arguments of functions that are not one op.

#include <limits.h>

#include "shaped.h"

static bool find_keyword(struct shaped_call *c, const char *const *known, PyObject *key, PyObject *value) {
    if (PyUnicode_CompareWithASCIIString(key, "stream") == 0) {
        c->stream = value;
        return true;
    }
    for (int i = 0; known[i]; i++)
        if (PyUnicode_CompareWithASCIIString(key, known[i]) == 0 && !c->named[i]) {
            c->named[i] = value;
            return true;
        }
    PyErr_Format(PyExc_TypeError, "%s(): no place for the argument '%U'", c->function, key);
    return false;
}

bool shaped_read(struct shaped_call *c, const char *function, const char *const *known, int positions,
                 bool has_rest, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    *c = (struct shaped_call){.function = function};
    int at = 0;
    for (; at < count && at < positions; at++)
        c->named[at] = args[at];
    c->rest = args + at;
    c->rests = count - at;
    if (c->rests && !has_rest) {
        PyErr_Format(PyExc_TypeError, "%s(): %zd arguments, but it takes %d", function, count, positions);
        return false;
    }
    Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < keywords; i++)
        if (!find_keyword(c, known, PyTuple_GET_ITEM(names, i), args[count + i]))
            return false;
    return true;
}

bool shaped_need(const struct shaped_call *c, int at, const char *name) {
    if (c->named[at])
        return true;
    PyErr_Format(PyExc_TypeError, "%s(): missing argument '%s'", c->function, name);
    return false;
}

PyObject *shaped_run(const struct shaped_call *c, shaped_work *body) {
    zl_scope scope;
    if (!ext_scope(c->stream, &scope))
        return NULL;
    PyObject *result = body(c);
    zl_scope_end(scope);
    if (!result)
        ext_name_argument(c->function, NULL);
    return result;
}

bool shaped_int(PyObject *o, int fallback, int *out) {
    int64_t value = fallback;
    if (shaped_given(o) && !ext_to_int64(o, &value))
        return false;
    if (value < INT_MIN || value > INT_MAX) {
        PyErr_Format(PyExc_OverflowError, "%lld does not fit 32 bits", (long long)value);
        return false;
    }
    *out = (int)value;
    return true;
}

bool shaped_truth(PyObject *o, bool fallback, bool *out) {
    int truth = shaped_given(o) ? PyObject_IsTrue(o) : fallback;
    *out = truth > 0;
    return truth >= 0;
}

bool shaped_dtype(PyObject *o, zl_dtype fallback, zl_dtype *out) {
    *out = fallback;
    return !shaped_given(o) || ext_dtype_read(o, out);
}

bool shaped_array(PyObject *o, zl_array *out) {
    *out = shaped_given(o) ? ext_array_held(o) : NULL;
    return *out || !shaped_given(o);
}

zl_array *shaped_arrays(PyObject *const *objects, Py_ssize_t count) {
    zl_array *list = PyMem_Malloc(sizeof(zl_array) * (size_t)(count + 1));
    if (!list || count > INT_MAX) {
        PyMem_Free(list);
        return (void *)PyErr_NoMemory();
    }
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = ext_is_array(objects[i]) || (list[i] = ext_array_of(objects[i]));
    // last, since methods of the other objects may give cells other values
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = !ext_is_array(objects[i]) || (list[i] = ext_array_of(objects[i]));
    if (ok)
        return list;
    PyMem_Free(list);
    return NULL;
}

static bool copy_axes(const struct ext_list *list, struct shaped_axes *out) {
    if (!(out->axis = PyMem_Malloc(sizeof(int) * (size_t)(list->count + 1))))
        return PyErr_NoMemory();
    for (; out->count < list->count; out->count++) {
        int64_t axis = list->item[out->count];
        if (axis < INT_MIN || axis > INT_MAX) {
            PyErr_Format(ext_axis_error, "%lld is not an axis of any array", (long long)axis);
            return false;
        }
        out->axis[out->count] = (int)axis;
    }
    return true;
}

bool shaped_axes_read(PyObject *o, struct shaped_axes *out) {
    struct ext_list list;
    *out = (struct shaped_axes){NULL, 0};
    if (!ext_list_read(o, &list))
        return false;
    bool ok = copy_axes(&list, out);
    ext_list_free(&list);
    return ok;
}

void shaped_axes_free(struct shaped_axes *axes) {
    PyMem_Free(axes->axis);
}

bool shaped_add(PyObject *module, PyMethodDef *functions) {
    PyObject *name = PyModule_GetNameObject(module);
    bool ok = name != NULL;
    for (int i = 0; ok && functions[i].ml_name; i++)
        ok = ext_add(module, functions[i].ml_name, PyCFunction_NewEx(&functions[i], NULL, name));
    Py_XDECREF(name);
    return ok;
}
