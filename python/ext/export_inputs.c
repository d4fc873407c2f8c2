// export_inputs.c - the arrays that a function is exported with, and the function as the library calls it.

#include "export_func.h"

// Inputs ----------------------------------------------------------------------------------------------------

static bool refuse(const char *tag) {
    PyErr_Format(PyExc_ValueError,
                 "%s Inputs are arrays, positional and by keyword, or a tuple and/or a dictionary of arrays.",
                 tag);
    return false;
}

static bool is_list(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o);
}

static bool add_list(struct export_inputs *in, PyObject *list) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        if (!ext_is_array(item) || !(in->value[in->count++] = ext_array_held(item)))
            return false;
    }
    return true;
}

static bool add_dict(struct export_inputs *in, PyObject *dict) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &item);) {
        if (!PyUnicode_Check(key) || !ext_is_array(item) ||
            !(in->value[in->count++] = ext_array_held(item)) || !(in->name[in->named++] = ext_utf8(key)))
            return false;
    }
    return true;
}

// Sets the list and the dict of inputs that arguments stand for; either may be NULL.
static bool sort_out(PyObject *args, PyObject *kwargs, PyObject **list, PyObject **dict) {
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *first = count ? PyTuple_GET_ITEM(args, 0) : NULL;
    *list = args;
    *dict = kwargs;
    if (!first || ext_is_array(first))
        return true;
    if (count > 2 || (kwargs && PyDict_GET_SIZE(kwargs)))
        return false;
    *dict = count == 2 ? PyTuple_GET_ITEM(args, 1) : PyDict_Check(first) ? first : NULL;
    *list = count == 2 || !*dict ? first : NULL;
    return (!*list || is_list(*list)) && (!*dict || PyDict_Check(*dict));
}

bool export_inputs_read(struct export_inputs *in, const char *tag, PyObject *args, PyObject *kwargs) {
    PyObject *list, *dict;
    *in = (struct export_inputs){0};
    if (!sort_out(args, kwargs, &list, &dict))
        return refuse(tag);
    Py_ssize_t named = dict ? PyDict_GET_SIZE(dict) : 0, count = list ? PySequence_Fast_GET_SIZE(list) : 0;
    in->value = PyMem_New(zl_array, (size_t)(count + named + 1));
    in->name = PyMem_New(const char *, (size_t)(named + 1));
    if (!in->value || !in->name)
        return PyErr_NoMemory(), false;
    return ((!list || add_list(in, list)) && add_dict(in, dict)) || (PyErr_Occurred() ? false : refuse(tag));
}

void export_inputs_free(struct export_inputs *in) {
    PyMem_Free(in->value);
    PyMem_Free((void *)in->name);
}

// The function ----------------------------------------------------------------------------------------------

static bool give_results(PyObject *y, zl_outputs *out) {
    bool fits = ext_is_array(y) || is_list(y);
    for (Py_ssize_t i = 0; fits && is_list(y) && i < PySequence_Fast_GET_SIZE(y); i++)
        fits = ext_is_array(PySequence_Fast_GET_ITEM(y, i));
    if (!fits)
        return PyErr_SetString(PyExc_ValueError,
                               "[export_function] Outputs are an array, or a tuple or list of arrays."),
               false;
    struct tree_arrays a = {0};
    bool ok = tree_gather(&a, y, true) && give_all(&a, out);
    tree_release(&a);
    return ok;
}

static PyObject *named_arrays(const struct export_inputs *now, const zl_array *value) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < now->named; i++) {
        PyObject *a = ext_wrap(value[i]);
        if (!a || PyDict_SetItemString(dict, now->name[i], a))
            Py_CLEAR(dict);
        Py_XDECREF(a);
    }
    return dict;
}

bool export_call(void *data, int count, const zl_array *in, zl_outputs *out) {
    const struct export_function *f = data;
    int plain = count - f->now->named;
    PyObject *args = ext_wrap_all(plain, in, true), *kwargs = args ? named_arrays(f->now, in + plain) : NULL;
    PyObject *y = kwargs ? PyObject_Call(f->fun, args, kwargs) : NULL;
    bool ok = y && give_results(y, out);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(y);
    return ok;
}
