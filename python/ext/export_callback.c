// export_callback.c - export_function with a callback: describes a function in dictionaries, in MLX's form.

#include "export_func.h"

#include <string.h>

struct telling {
    PyObject *callback;
    const struct export_inputs *in;
    PyObject *names; // names of arrays by address
};

// Returns a new reference to the name of an array. Names are A, B, ..., Z, AA, ... in the order in which
// arrays are first named.
static PyObject *name_of(const struct telling *t, zl_array a) {
    char letter[16];
    int at = COUNT(letter);
    PyObject *key = PyLong_FromVoidPtr(a),
             *name = key ? Py_XNewRef(PyDict_GetItemWithError(t->names, key)) : NULL;
    if (key && !name && !PyErr_Occurred()) {
        for (Py_ssize_t left = PyDict_GET_SIZE(t->names) + 1; left > 0; left = (left - 1) / 26)
            letter[--at] = (char)('A' + (left - 1) % 26);
        name = PyUnicode_FromStringAndSize(letter + at, COUNT(letter) - at);
        if (name && PyDict_SetItem(t->names, key, name))
            Py_CLEAR(name);
    }
    Py_XDECREF(key);
    return name;
}

// Returns a list of (name, shape, dtype).
static PyObject *describe(const struct telling *t, int count, const zl_array *arrays) {
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *item =
            Py_BuildValue("(NNO)", name_of(t, arrays[i]), ext_shape_tuple(zl_shape_of(arrays[i])),
                          ext_dtype_object(zl_dtype_of(arrays[i])));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

// Calls the callback with a dictionary, to which it takes over the reference.
static bool tell(const struct telling *t, PyObject *what) {
    PyObject *y = what ? PyObject_CallOneArg(t->callback, what) : NULL;
    Py_XDECREF(what);
    Py_XDECREF(y);
    return y;
}

static PyObject *keywords(const struct telling *t, const zl_array *input) {
    PyObject *list = PyList_New(t->in->named);
    for (int i = 0; list && i < t->in->named; i++) {
        zl_array a = input[t->in->count - t->in->named + i];
        PyObject *item = Py_BuildValue("(sN)", t->in->name[i], name_of(t, a));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *constants(const struct telling *t, int count, const zl_array *arrays) {
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *item = Py_BuildValue("(NN)", name_of(t, arrays[i]), ext_wrap(arrays[i]));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static bool begin(void *data, int inputs, const zl_array *input, int outputs, const zl_array *output,
                  int count, const zl_array *constant) {
    const struct telling *t = data;
    return tell(t, Py_BuildValue("{sssN}", "type", "inputs", "inputs", describe(t, inputs, input))) &&
           tell(t, Py_BuildValue("{sssN}", "type", "keyword_inputs", "keywords", keywords(t, input))) &&
           tell(t, Py_BuildValue("{sssN}", "type", "outputs", "outputs", describe(t, outputs, output))) &&
           tell(t, Py_BuildValue("{sssN}", "type", "constants", "constants", constants(t, count, constant)));
}

static PyObject *list_of(zl_shape shape) {
    PyObject *list = PyList_New(shape.ndim);
    for (int i = 0; list && i < shape.ndim; i++) {
        PyObject *number = PyLong_FromLongLong(shape.dim[i]);
        if (!number)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, number);
    }
    return list;
}

static PyObject *argument(const zl_argument *a) {
    switch (a->type) {
    case ZL_ARGUMENT_INT: return PyLong_FromLongLong(a->integer);
    case ZL_ARGUMENT_BOOL: return PyBool_FromLong(a->integer != 0);
    case ZL_ARGUMENT_DOUBLE: return PyFloat_FromDouble(a->number);
    case ZL_ARGUMENT_DTYPE: return Py_NewRef(ext_dtype_object((zl_dtype)a->integer));
    case ZL_ARGUMENT_LIST: return list_of(a->list);
    case ZL_ARGUMENT_SHAPE: return ext_shape_tuple(a->list);
    case ZL_ARGUMENT_TEXT: return ext_text(a->text, strlen(a->text));
    }
    return Py_NewRef(Py_None);
}

static PyObject *arguments(const zl_step *step) {
    PyObject *list = PyList_New(step->arguments);
    for (int i = 0; list && i < step->arguments; i++) {
        PyObject *item = argument(&step->argument[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static bool tell_step(void *data, const zl_step *step) {
    const struct telling *t = data;
    PyObject *inputs = describe(t, step->inputs, step->input);
    PyObject *outputs = inputs ? describe(t, step->outputs, step->output) : NULL;
    return tell(t, Py_BuildValue("{sssNsNsssN}", "type", "primitive", "inputs", inputs, "outputs", outputs,
                                 "name", step->name, "arguments", arguments(step)));
}

static bool export_steps(struct telling *t, PyObject *fun, bool shapeless) {
    struct export_function f = {.fun = fun, .now = t->in};
    zl_listener listener = {.begin = begin, .step = tell_step, .data = t};
    zl_fn function = {.call = export_call, .data = &f};
    return zl_export_steps(function, t->in->count, t->in->value, shapeless, &listener) || ext_raise();
}

PyObject *export_to_callback(PyObject *callback, PyObject *fun, bool shapeless, PyObject *args,
                             PyObject *kwargs) {
    if (!PyCallable_Check(fun))
        return PyErr_Format(PyExc_TypeError, "[export_function] a function is needed, not %s",
                            Py_TYPE(fun)->tp_name);
    struct export_inputs in;
    struct telling t = {.callback = callback, .in = &in, .names = PyDict_New()};
    zl_scope scope = ext_begin();
    bool ok = export_inputs_read(&in, "[export_function]", args, kwargs) && t.names &&
              export_steps(&t, fun, shapeless);
    export_inputs_free(&in);
    zl_scope_end(scope);
    Py_XDECREF(t.names);
    return ok ? Py_NewRef(Py_None) : NULL;
}
