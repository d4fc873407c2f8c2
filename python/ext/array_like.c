// array_like.c - zellige.core.ArrayLike: wraps an object that stands for an array.
//
// MLX has it as the type of arguments with a method __mlx_array__, for annotations. Ops take such objects
// without it.

#include "convert.h"

struct array_like {
    PyObject_HEAD
    PyObject *object;
};

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", NULL};
    PyObject *object;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:ArrayLike", names, &object))
        return NULL;
    struct array_like *a = (struct array_like *)type->tp_alloc(type, 0);
    if (a)
        a->object = Py_NewRef(object);
    return (PyObject *)a;
}

static PyObject *to_array(PyObject *self, PyObject *unused) {
    (void)unused;
    if (Py_EnterRecursiveCall(" in ArrayLike.__mlx_array__")) // they may be nested
        return NULL;
    zl_scope scope = ext_begin();
    zl_array a = ext_array_of(((struct array_like *)self)->object);
    PyObject *result = a ? ext_wrap(a) : NULL;
    zl_scope_end(scope);
    Py_LeaveRecursiveCall();
    return result;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((struct array_like *)self)->object);
    return 0;
}

static int clear(PyObject *self) {
    Py_CLEAR(((struct array_like *)self)->object);
    return 0;
}

static void dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, dealloc)
    clear(self);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyMethodDef methods[] = {
    {"__mlx_array__", to_array, METH_NOARGS, "The array that the object stands for."},
    {0},
};

static PyTypeObject array_like_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.ArrayLike",
    .tp_doc = PyDoc_STR(
        "ArrayLike(arg, /)\n--\n\nAn object that stands for an array: one with a method __mlx_array__, or "
        "another that ops take. Meant for annotations."),
    .tp_basicsize = sizeof(struct array_like),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = make,
    .tp_methods = methods,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
};

bool array_like_add(PyObject *core) {
    return PyModule_AddType(core, &array_like_type) == 0;
}
