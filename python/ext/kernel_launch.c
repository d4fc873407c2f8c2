// kernel_launch.c - reads the calls of kernels made from source, with the keywords of MLX's kernels.

#include "kernel_launch.h"

PyObject *kernel_names(const char *function, const char *what, PyObject *names) {
    PyObject *list = PyUnicode_Check(names) ? NULL : PySequence_List(names);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++)
        if (!PyUnicode_Check(PyList_GET_ITEM(list, i)))
            Py_CLEAR(list);
    if (!list && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s(): %s must be a list of names", function, what);
    return list;
}

// Returns a sequence of this length as a tuple, a new reference.
static PyObject *read_list(const char *function, const char *what, PyObject *o, int count) {
    PyObject *list = ext_tuple(o, "a kernel's inputs, output_shapes and output_dtypes must be lists");
    if (!list || PyTuple_GET_SIZE(list) == count)
        return list;
    PyErr_Format(PyExc_ValueError, "[%s] Expected `%s` to have size %d but got size %zd.", function, what,
                 count, PyTuple_GET_SIZE(list));
    Py_DECREF(list);
    return NULL;
}

static bool open_room(struct kernel_launch *l) {
    size_t outputs = (size_t)l->outputs;
    l->in = PyMem_New(zl_array, (size_t)l->inputs + 1);
    l->list = PyMem_New(struct ext_list, outputs);
    l->shape = PyMem_New(zl_shape, outputs);
    l->dtype = PyMem_New(zl_dtype, outputs);
    l->out = PyMem_New(zl_array, outputs);
    if (l->in && l->list && l->shape && l->dtype && l->out)
        return true;
    return PyErr_NoMemory(), false;
}

void kernel_launch_close(struct kernel_launch *l) {
    for (int i = 0; i < l->lists; i++)
        ext_list_free(&l->list[i]);
    PyMem_Free(l->in);
    PyMem_Free(l->list);
    PyMem_Free(l->shape);
    PyMem_Free(l->dtype);
    PyMem_Free(l->out);
    Py_XDECREF(l->tuple);
}

static bool read_inputs(struct kernel_launch *l, PyObject *given) {
    l->tuple = read_list(l->function, "inputs", given, l->inputs);
    bool ok = l->tuple;
    for (int i = 0; ok && i < l->inputs; i++)
        ok = (l->in[i] = ext_array_held(PyTuple_GET_ITEM(l->tuple, i)));
    return ok;
}

static bool read_shapes(struct kernel_launch *l, PyObject *given) {
    PyObject *shapes = read_list(l->function, "output_shapes", given, l->outputs);
    bool ok = shapes;
    for (int i = 0; ok && i < l->outputs; i++) {
        l->lists++;
        ok = ext_list_read(PyTuple_GET_ITEM(shapes, i), &l->list[i]);
        l->shape[i] = (zl_shape){l->list[i].item, l->list[i].count};
    }
    Py_XDECREF(shapes);
    return ok;
}

static bool read_dtypes(struct kernel_launch *l, PyObject *given) {
    PyObject *dtypes = read_list(l->function, "output_dtypes", given, l->outputs);
    bool ok = dtypes;
    for (int i = 0; ok && i < l->outputs; i++)
        ok = ext_dtype_read(PyTuple_GET_ITEM(dtypes, i), &l->dtype[i]);
    Py_XDECREF(dtypes);
    return ok;
}

static bool read_sizes(const char *function, const char *what, PyObject *o, int64_t *out) {
    PyObject *three = ext_tuple(o, "grid and threadgroup must have three numbers");
    bool ok = three && PyTuple_GET_SIZE(three) == 3;
    if (three && !ok)
        PyErr_Format(PyExc_TypeError, "%s: %s must have three numbers, not %zd", function, what,
                     PyTuple_GET_SIZE(three));
    for (int i = 0; ok && i < 3; i++)
        ok = ext_to_int64(PyTuple_GET_ITEM(three, i), &out[i]);
    Py_XDECREF(three);
    return ok;
}

bool kernel_launch_read(struct kernel_launch *l, PyObject *args, PyObject *kwargs, bool needs_group) {
    static char *names[] = {"inputs",   "output_shapes", "output_dtypes", "grid",   "threadgroup",
                            "template", "init_value",    "verbose",       "stream", NULL};
    PyObject *inputs = NULL, *shapes = NULL, *dtypes = NULL, *grid = NULL, *group = NULL;
    l->arguments = l->init = l->stream = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOOOpO:kernel", names, &inputs, &shapes, &dtypes,
                                     &grid, &group, &l->arguments, &l->init, &l->verbose, &l->stream))
        return false;
    if (!inputs || !shapes || !dtypes || !grid || (needs_group && !group))
        return PyErr_Format(PyExc_TypeError, "%s: inputs, output_shapes, output_dtypes%s are needed",
                            l->function, needs_group ? ", grid and threadgroup" : " and grid"),
               false;
    return open_room(l) && read_inputs(l, inputs) && read_shapes(l, shapes) && read_dtypes(l, dtypes) &&
           read_sizes(l->function, "grid", grid, l->grid) &&
           (!group || read_sizes(l->function, "threadgroup", group, l->group));
}

static bool check_template(const char *function, PyObject *pair) {
    PyObject *name, *value;
    if (!PyArg_ParseTuple(pair, "UO:template", &name, &value))
        return false;
    if (Py_TYPE(value) == &ext_dtype_type || PyLong_Check(value)) // bool is a subclass of int
        return true;
    PyErr_Format(PyExc_ValueError,
                 "[%s] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.", function);
    return false;
}

PyObject *kernel_templates(const char *function, PyObject *given) {
    PyObject *pairs = given == Py_None ? PyList_New(0) : PySequence_List(given);
    for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PySequence_Tuple(PyList_GET_ITEM(pairs, i));
        if (!pair || PyList_SetItem(pairs, i, pair) || !check_template(function, pair))
            Py_CLEAR(pairs);
    }
    return pairs;
}
