// export_func.c - functions in files, and graphs as text: export_function, exporter, import_function,
// export_to_dot.

#include "export_func.h"

#include <string.h>

// FunctionExporter ------------------------------------------------------------------------------------------

struct function_exporter {
    PyObject_HEAD struct export_function function; // owns fun
    zl_exporter *exporter;
    bool closed;
};

static PyObject *trace(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct function_exporter *e = (struct function_exporter *)self;
    struct export_inputs in;
    if (e->closed)
        return PyErr_Format(PyExc_RuntimeError,
                            "[export_function] This exporter is closed: nothing can be added.");
    zl_scope scope = ext_begin();
    bool ok = export_inputs_read(&in, "[export_function]", args, kwargs);
    if (ok) {
        e->function.now = &in;
        ok = zl_exporter_trace(e->exporter, in.count, in.value, in.named, in.name) || ext_raise();
        e->function.now = NULL;
    }
    export_inputs_free(&in);
    zl_scope_end(scope);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *close_exporter(PyObject *self, PyObject *unused) {
    (void)unused;
    ((struct function_exporter *)self)->closed = true;
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args) {
    (void)args;
    return close_exporter(self, NULL);
}

static int traverse_exporter(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((struct function_exporter *)self)->function.fun);
    return 0;
}

static int clear_exporter(PyObject *self) {
    ((struct function_exporter *)self)->closed = true;
    Py_CLEAR(((struct function_exporter *)self)->function.fun);
    return 0;
}

static void free_exporter(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear_exporter(self);
    zl_exporter_free(((struct function_exporter *)self)->exporter);
    PyObject_GC_Del(self);
}

static PyMethodDef exporter_methods[] = {
    {"close", close_exporter, METH_NOARGS,
     PyDoc_STR("close()\n--\n\nEnds the export: no trace can be added.")},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {0},
};

static PyTypeObject exporter_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.FunctionExporter",
    .tp_doc = PyDoc_STR("Exports traces of a function to one file; exporter() makes it."),
    .tp_basicsize = sizeof(struct function_exporter),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = trace,
    .tp_traverse = traverse_exporter,
    .tp_clear = clear_exporter,
    .tp_dealloc = free_exporter,
    .tp_methods = exporter_methods,
};

static PyObject *new_exporter(const char *path, PyObject *fun, bool shapeless, const char *metadata) {
    if (!PyCallable_Check(fun))
        return PyErr_Format(PyExc_TypeError, "[export_function] a function is needed, not %s",
                            Py_TYPE(fun)->tp_name);
    struct function_exporter *e = PyObject_GC_New(struct function_exporter, &exporter_type);
    if (!e)
        return NULL;
    e->function = (struct export_function){.fun = Py_NewRef(fun)};
    e->closed = false;
    e->exporter = zl_exporter_new(path, (zl_fn){.call = export_call, .data = &e->function},
                                  &(zl_export_options){.shapeless = shapeless, .metadata = metadata});
    PyObject_GC_Track((PyObject *)e);
    if (e->exporter)
        return (PyObject *)e;
    Py_DECREF(e);
    return ext_raise();
}

static PyObject *exporter(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"file", "fun", "shapeless", "metadata", NULL};
    PyObject *file, *fun, *metadata = Py_None;
    int shapeless = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$pO:exporter", names, &file, &fun, &shapeless,
                                     &metadata))
        return NULL;
    const char *text = metadata == Py_None ? NULL : ext_utf8(metadata);
    if (!text && metadata != Py_None)
        return ext_name_argument("exporter", NULL), NULL;
    PyObject *path = ext_path(file, "exporter");
    PyObject *e = path ? new_exporter(PyBytes_AS_STRING(path), fun, shapeless, text) : NULL;
    Py_XDECREF(path);
    return e;
}

// export_function -------------------------------------------------------------------------------------------

// The options among the keyword arguments; all other keyword arguments are inputs of the function.
struct export_options {
    int shapeless;
    const char *metadata;
};

static bool take_options(PyObject *kwargs, struct export_options *o) {
    PyObject *shapeless = PyDict_GetItemString(kwargs, "shapeless");
    PyObject *metadata = PyDict_GetItemString(kwargs, "metadata");
    if (metadata && metadata != Py_None && !PyUnicode_Check(metadata))
        return PyErr_Format(PyExc_TypeError, "export_function(): metadata must be a string, not %s",
                            Py_TYPE(metadata)->tp_name),
               false;
    o->shapeless = shapeless ? PyObject_IsTrue(shapeless) : 0;
    o->metadata = metadata && metadata != Py_None ? ext_utf8(metadata) : NULL;
    if (!o->metadata && metadata && metadata != Py_None)
        return ext_name_argument("export_function", NULL);
    return o->shapeless >= 0 && (!shapeless || !PyDict_DelItemString(kwargs, "shapeless"));
}

static PyObject *export_to_file(PyObject *file, PyObject *fun, const struct export_options *o, PyObject *args,
                                PyObject *kwargs) {
    PyObject *path = ext_path(file, "export_function");
    PyObject *e = path ? new_exporter(PyBytes_AS_STRING(path), fun, o->shapeless, o->metadata) : NULL;
    PyObject *y = e ? trace(e, args, kwargs) : NULL;
    Py_XDECREF(path);
    Py_XDECREF(e);
    return y;
}

static PyObject *export_to(PyObject *file, PyObject *fun, const struct export_options *o, PyObject *args,
                           PyObject *kwargs) {
    if (PyUnicode_Check(file))
        return export_to_file(file, fun, o, args, kwargs);
    if (!PyCallable_Check(file))
        return PyErr_Format(PyExc_TypeError,
                            "[export_function] the name of a file or a function is needed, not %s",
                            Py_TYPE(file)->tp_name);
    if (o->metadata && *o->metadata)
        return PyErr_Format(PyExc_ValueError,
                            "[export_function] metadata is kept in files, not given to a callback.");
    return export_to_callback(file, fun, o->shapeless, args, kwargs);
}

static PyObject *export_with(PyObject *args, PyObject *kwargs) {
    struct export_options o;
    if (!take_options(kwargs, &o))
        return NULL;
    PyObject *metadata = Py_XNewRef(PyDict_GetItemString(kwargs, "metadata")); // retained: o uses its text
    PyObject *rest = PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args)), *y = NULL;
    if (rest && (!metadata || !PyDict_DelItemString(kwargs, "metadata")))
        y = export_to(PyTuple_GET_ITEM(args, 0), PyTuple_GET_ITEM(args, 1), &o, rest, kwargs);
    Py_XDECREF(rest);
    Py_XDECREF(metadata);
    return y;
}

static PyObject *export_function(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    if (PyTuple_GET_SIZE(args) < 2)
        return PyErr_Format(PyExc_TypeError, "export_function(): a file and a function are needed first");
    PyObject *rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    PyObject *y = rest ? export_with(args, rest) : NULL;
    Py_XDECREF(rest);
    return y;
}

// import_function -------------------------------------------------------------------------------------------

struct imported_function {
    PyObject_HEAD zl_imported *function;
};

static PyObject *as_tuple(const zl_outputs *out) {
    PyObject *list = wrap_outputs(out), *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *call_imported(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct export_inputs in;
    PyObject *y = NULL;
    zl_scope scope = ext_begin();
    zl_outputs *out = zl_outputs_new();
    if (!out)
        PyErr_NoMemory();
    if (export_inputs_read(&in, "[import_function::call]", args, kwargs) && out)
        y = zl_imported_call(((struct imported_function *)self)->function, in.count, in.value, in.named,
                             in.name, out)
                ? as_tuple(out)
                : ext_raise();
    export_inputs_free(&in);
    zl_outputs_free(out);
    zl_scope_end(scope);
    return y;
}

static void free_imported(PyObject *self) {
    zl_imported_free(((struct imported_function *)self)->function);
    PyObject_Free(self);
}

static PyTypeObject imported_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.ImportedFunction",
    .tp_doc = PyDoc_STR("A function from a file: arrays to a tuple of arrays; import_function() makes it."),
    .tp_basicsize = sizeof(struct imported_function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = call_imported,
    .tp_dealloc = free_imported,
};

static PyObject *import_function(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"file", "return_metadata", NULL};
    PyObject *file;
    int with_metadata = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:import_function", names, &file, &with_metadata))
        return NULL;
    PyObject *path = ext_path(file, "import_function");
    struct imported_function *f = path ? PyObject_New(struct imported_function, &imported_type) : NULL;
    if (f)
        f->function = zl_import(PyBytes_AS_STRING(path));
    Py_XDECREF(path);
    if (!f)
        return NULL;
    if (!f->function) {
        Py_DECREF(f);
        return ext_raise();
    }
    const char *metadata = zl_imported_metadata(f->function);
    return with_metadata ? Py_BuildValue("NN", f, ext_text(metadata, strlen(metadata))) : (PyObject *)f;
}

// export_to_dot ---------------------------------------------------------------------------------------------

static PyObject *write_named(PyObject *path, const char *text) {
    PyObject *io = PyImport_ImportModule("io"),
             *file = io ? PyObject_CallMethod(io, "open", "Os", path, "w") : NULL;
    PyObject *written = file ? PyObject_CallMethod(file, "write", "s", text) : NULL;
    PyObject *closed = file ? PyObject_CallMethod(file, "close", NULL) : NULL;
    PyObject *y = written && closed ? Py_NewRef(Py_None) : NULL;
    Py_XDECREF(io);
    Py_XDECREF(file);
    Py_XDECREF(written);
    Py_XDECREF(closed);
    return y;
}

static PyObject *write_text(PyObject *file, const char *text) {
    if (PyUnicode_Check(file))
        return write_named(file, text);
    if (!PyObject_HasAttrString(file, "write"))
        return PyErr_Format(PyExc_ValueError, "[export_to_dot] a file or the name of one is needed, not %s",
                            Py_TYPE(file)->tp_name);
    PyObject *written = PyObject_CallMethod(file, "write", "s", text);
    Py_XDECREF(written);
    return written ? Py_NewRef(Py_None) : NULL;
}

// Returns the names of the arrays: NULL for positional ones, then those of kwargs.
static const char **read_names(int count, int positional, PyObject *kwargs) {
    const char **name = PyMem_New(const char *, (size_t)count + 1);
    PyObject *key, *value;
    for (int i = 0; name && i < count; i++)
        name[i] = NULL;
    int next = positional;
    for (Py_ssize_t at = 0; name && kwargs && PyDict_Next(kwargs, &at, &key, &value) && next < count; next++)
        if (!ext_is_array(value) || !(name[next] = ext_utf8(key))) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "export_to_dot(): only arrays have names, not %s",
                             Py_TYPE(value)->tp_name);
            PyMem_Free((void *)name);
            return NULL;
        }
    return name;
}

static PyObject *to_dot(PyObject *file, const struct tree_arrays *a, int positional, PyObject *kwargs) {
    const char **name = read_names(a->count, positional, kwargs);
    char *text = name ? zl_to_dot(a->count, a->value, name) : NULL;
    PyObject *y = text ? write_text(file, text) : ext_raise();
    zl_free(text);
    PyMem_Free((void *)name);
    return y;
}

static PyObject *export_to_dot(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    if (PyTuple_GET_SIZE(args) < 1)
        return PyErr_Format(PyExc_TypeError, "export_to_dot(): a file is needed first");
    PyObject *arrays = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)), *y = NULL;
    struct tree_arrays a = {0};
    if (arrays && tree_gather(&a, arrays, false)) {
        int positional = a.count;
        PyObject *named = kwargs ? PyDict_Values(kwargs) : NULL;
        if (!kwargs || (named && tree_gather(&a, named, true)))
            y = to_dot(PyTuple_GET_ITEM(args, 0), &a, positional, kwargs);
        Py_XDECREF(named);
    }
    Py_XDECREF(arrays);
    tree_release(&a);
    return y;
}

// The module ------------------------------------------------------------------------------------------------

#define WITH_KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"export_function", WITH_KEYWORDS(export_function),
     PyDoc_STR("export_function(file_or_callback, fun, *args, shapeless=False, metadata=None, "
               "**kwargs)\n--\n\nWrites a "
               "trace of fun on arrays like these to a file; or calls a function with what it takes, gives "
               "and uses, then "
               "with each step, as dictionaries.")},
    {"exporter", WITH_KEYWORDS(exporter),
     PyDoc_STR("exporter(file, fun, *, shapeless=False, metadata=None)\n--\n\nA FunctionExporter, which "
               "writes a trace "
               "of fun to the file each time that it is called.")},
    {"import_function", WITH_KEYWORDS(import_function),
     PyDoc_STR("import_function(file, return_metadata=False)\n--\n\nThe function in a file; with its "
               "metadata a pair.")},
    {"export_to_dot", WITH_KEYWORDS(export_to_dot),
     PyDoc_STR("export_to_dot(file, *args, **kwargs)\n--\n\nWrites the graph that arrays are made from for "
               "Graphviz; "
               "keywords name arrays.")},
    {0},
};

bool ext_add_export(PyObject *core) {
    return PyType_Ready(&imported_type) == 0 && PyModule_AddType(core, &exporter_type) == 0 &&
           PyModule_AddFunctions(core, functions) == 0;
}
