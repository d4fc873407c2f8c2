// profile_context.c - zellige.core.profile, which records the work inside a `with` block, and
// metal.start_capture, which does the same.

#include "ext.h"

struct context {
    PyObject base;
    PyObject *path;  // bytes; NULL: no timeline is written
    PyObject *table; // a str, after the profile has ended; NULL before
};

bool ext_profile_begin(PyObject *path) {
    return zl_profile_begin(path ? PyBytes_AsString(path) : NULL) || ext_raise();
}

PyObject *ext_profile_end(void) {
    char *text;
    Py_BEGIN_ALLOW_THREADS;
    text = zl_profile_end(); // waits for other threads
    Py_END_ALLOW_THREADS;
    PyObject *table = text ? ext_text(text, strlen(text)) : ext_raise();
    zl_free(text);
    return table;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", NULL};
    PyObject *path = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:profile", names, &path))
        return NULL;
    PyObject *bytes = path == Py_None ? NULL : ext_path(path, "profile");
    struct context *c = path == Py_None || bytes ? (struct context *)type->tp_alloc(type, 0) : NULL;
    if (c)
        c->path = bytes;
    else
        Py_XDECREF(bytes);
    return (PyObject *)c;
}

static PyObject *context_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    return ext_profile_begin(((struct context *)self)->path) ? Py_NewRef(self) : NULL;
}

static PyObject *context_exit(PyObject *self, PyObject *args) {
    struct context *c = (struct context *)self;
    PyObject *table = ext_profile_end(), *old = c->table;
    (void)args;
    if (!table)
        return NULL;
    c->table = table;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *get_table(PyObject *self, void *unused) {
    PyObject *table = ((struct context *)self)->table;
    (void)unused;
    return Py_NewRef(table ? table : Py_None);
}

static PyObject *context_text(PyObject *self) {
    PyObject *table = ((struct context *)self)->table;
    return table ? Py_NewRef(table) : PyUnicode_FromString("a profile that has not ended");
}

static void context_free(PyObject *self) {
    Py_XDECREF(((struct context *)self)->path);
    Py_XDECREF(((struct context *)self)->table);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef context_methods[] = {
    {"__enter__", context_enter, METH_NOARGS, NULL},
    {"__exit__", context_exit, METH_VARARGS, NULL},
    {0},
};

static PyGetSetDef context_members[] = {
    {"table", get_table, NULL,
     PyDoc_STR("Kernels by the time that they took, as text; None until the profile has ended."), NULL},
    {0},
};

static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.profile",
    .tp_doc = PyDoc_STR("profile(path=None)\n--\n\nWithin `with`, records which kernels run and when. Its "
                        "`table` says then where the "
                        "time went, and path, if it is given, is a timeline for Perfetto."),
    .tp_basicsize = sizeof(struct context),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = context_new,
    .tp_dealloc = context_free,
    .tp_str = context_text,
    .tp_methods = context_methods,
    .tp_getset = context_members,
};

bool ext_add_profile(PyObject *core) {
    return PyType_Ready(&context_type) == 0 &&
           PyModule_AddObjectRef(core, "profile", (PyObject *)&context_type) == 0;
}
