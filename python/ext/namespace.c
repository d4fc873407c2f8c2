// namespace.c - __array_namespace__ and __array_namespace_info__, which the Python array API requires.

#include "convert.h"

static PyObject *core_module; // lives as long as its types

PyObject *namespace_of(PyObject *array, PyObject *args, PyObject *kwargs) {
    (void)array;
    static char *names[] = {"api_version", NULL};
    PyObject *version = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__array_namespace__", names, &version))
        return NULL;
    if (version != Py_None) {
        PyErr_SetString(PyExc_ValueError, "Explicitly specifying api_version is not yet implemented.");
        return NULL;
    }
    return Py_NewRef(core_module);
}

static PyObject *capabilities(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return Py_BuildValue("{sOsOsi}", "boolean indexing", Py_False, "data-dependent shapes", Py_False,
                         "max dimensions", 10);
}

static PyObject *default_device(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyObject_CallMethod(core_module, "default_device", NULL);
}

// Appends all devices of a type, "cpu" or "gpu", to the list.
static bool add_devices(PyObject *list, const char *name) {
    PyObject *type = PyObject_GetAttrString(core_module, name);
    PyObject *count = type ? PyObject_CallMethod(core_module, "device_count", "O", type) : NULL;
    long n = count ? PyLong_AsLong(count) : -1;
    for (long i = 0; i < n; i++) {
        PyObject *device = PyObject_CallMethod(core_module, "Device", "Ol", type, i);
        if (!device || PyList_Append(list, device))
            n = -1;
        Py_XDECREF(device);
    }
    Py_XDECREF(count);
    Py_XDECREF(type);
    return n >= 0;
}

static PyObject *devices(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0), *tuple = NULL;
    if (list && add_devices(list, "cpu") && add_devices(list, "gpu"))
        tuple = PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

// Checks a device= argument, which may be None.
static bool check_device(PyObject *device) {
    PyObject *type = PyObject_GetAttrString(core_module, "Device");
    int known = device == Py_None ? 1 : type ? PyObject_IsInstance(device, type) : -1;
    Py_XDECREF(type);
    if (known == 0)
        PyErr_Format(PyExc_TypeError, "a Device is expected, not %s", Py_TYPE(device)->tp_name);
    return known > 0;
}

static PyObject *default_dtypes(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)self;
    static char *names[] = {"device", NULL};
    PyObject *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:default_dtypes", names, &device) ||
        !check_device(device))
        return NULL;
    return Py_BuildValue("{sOsOsOsO}", "real floating", ext_dtype_object(ZL_FLOAT32), "complex floating",
                         ext_dtype_object(ZL_COMPLEX64), "integral", ext_dtype_object(ZL_INT32), "indexing",
                         ext_dtype_object(ZL_INT32));
}

// Adds a dtype to a dictionary if it is of a kind, or if kind is None.
static bool add_dtype(PyObject *dict, zl_dtype dtype, PyObject *kind) {
    PyObject *object = ext_dtype_object(dtype);
    PyObject *answer = kind == Py_None ? Py_NewRef(Py_True)
                                       : PyObject_CallMethod(core_module, "isdtype", "OO", object, kind);
    bool ok = answer && (answer != Py_True || !PyDict_SetItemString(dict, zl_dtype_name(dtype), object));
    Py_XDECREF(answer);
    return ok;
}

static PyObject *dtypes(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)self;
    static char *names[] = {"device", "kind", NULL};
    static const zl_dtype all[] = {ZL_BOOL,   ZL_INT8,   ZL_INT16,  ZL_INT32,   ZL_INT64,     ZL_UINT8,
                                   ZL_UINT16, ZL_UINT32, ZL_UINT64, ZL_FLOAT32, ZL_COMPLEX64, ZL_FLOAT64};
    PyObject *device = Py_None, *kind = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OO:dtypes", names, &device, &kind) ||
        !check_device(device))
        return NULL;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < COUNT(all); i++)
        if (!add_dtype(dict, all[i], kind))
            Py_CLEAR(dict);
    return dict;
}

static PyMethodDef info_methods[] = {
    {"capabilities", capabilities, METH_NOARGS, "What of the array API is optional and here."},
    {"default_device", default_device, METH_NOARGS, "The device of new arrays."},
    {"devices", devices, METH_NOARGS, "All devices."},
    {"default_dtypes", (PyCFunction)(void (*)(void))default_dtypes, METH_VARARGS | METH_KEYWORDS,
     "The dtypes of new arrays by kind."},
    {"dtypes", (PyCFunction)(void (*)(void))dtypes, METH_VARARGS | METH_KEYWORDS,
     "The dtypes of the array API by name."},
    {0},
};

static PyTypeObject info_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core.ArrayNamespaceInfo",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "What the array API can be asked about this module.",
    .tp_methods = info_methods,
};

static PyObject *namespace_info(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    return (PyObject *)PyObject_New(PyObject, &info_type);
}

static PyMethodDef functions[] = {
    {"__array_namespace_info__", namespace_info, METH_NOARGS,
     "What the array API can be asked about this module."},
    {0},
};

bool namespace_add(PyObject *core) {
    core_module = core;
    return !PyType_Ready(&info_type) && !PyModule_AddFunctions(core, functions);
}
