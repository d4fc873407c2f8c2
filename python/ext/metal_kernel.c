// metal_kernel.c - zellige.core.fast.metal_kernel: kernels in Metal's language, which functions that are exported may call.
//
// What a kernel is made of is kept as a dictionary and goes into the file as JSON: who has Metal makes the source of it.

#include "device.h"
#include "shaped.h"

struct metal_kernel {
    PyObject_HEAD PyObject *parts; // a dict
    Py_ssize_t inputs, outputs;
};

// Making -----------------------------------------------------------------------------------------------------------

static bool check_options(PyObject *options) {
    PyObject *key, *value;
    if (options != Py_None && !PyDict_Check(options))
        return PyErr_SetString(PyExc_ValueError, "[metal_kernel] Expected `compile_options` to be a dict."),
               false;
    for (Py_ssize_t at = 0; options != Py_None && PyDict_Next(options, &at, &key, &value);) {
        if (!PyUnicode_Check(key) || PyUnicode_CompareWithASCIIString(key, "math_mode"))
            return PyErr_Format(PyExc_ValueError, "[metal_kernel] Unknown compile option `%S`.", key), false;
        bool known = PyUnicode_Check(value) && (!PyUnicode_CompareWithASCIIString(value, "safe") ||
                                                !PyUnicode_CompareWithASCIIString(value, "relaxed") ||
                                                !PyUnicode_CompareWithASCIIString(value, "fast"));
        if (!known)
            return PyErr_Format(PyExc_ValueError,
                                "[metal_kernel] math_mode is %R: 'safe', 'relaxed' or 'fast' is needed.",
                                value),
                   false;
    }
    return true;
}

// A list of texts; NULL and an exception.
static PyObject *read_names(const char *what, PyObject *names) {
    PyObject *list = PyUnicode_Check(names) ? NULL : PySequence_List(names);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++)
        if (!PyUnicode_Check(PyList_GET_ITEM(list, i)))
            Py_CLEAR(list);
    if (!list && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "metal_kernel(): %s must be a list of names", what);
    return list;
}

static PyObject *make(PyObject *parts, Py_ssize_t inputs, Py_ssize_t outputs) {
    struct metal_kernel *k = parts ? PyObject_New(struct metal_kernel, &metal_kernel_type) : NULL;
    if (!k)
        return NULL;
    k->parts = Py_NewRef(parts);
    k->inputs = inputs;
    k->outputs = outputs;
    return (PyObject *)k;
}

PyObject *shaped_metal_kernel(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name",           "input_names",     "output_names",
                            "source",         "header",          "ensure_row_contiguous",
                            "atomic_outputs", "compile_options", NULL};
    const char *name, *source, *header = "";
    PyObject *inputs, *outputs, *options = Py_None;
    int contiguous = 1, atomic = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOOs|sppO:metal_kernel", names, &name, &inputs, &outputs,
                                     &source, &header, &contiguous, &atomic, &options) ||
        !check_options(options))
        return NULL;
    PyObject *in = read_names("input_names", inputs), *out = in ? read_names("output_names", outputs) : NULL;
    PyObject *parts = NULL, *kernel = NULL;
    if (out && PyList_GET_SIZE(out) == 0)
        PyErr_SetString(PyExc_ValueError, "[metal_kernel] Must specify at least one output.");
    else if (out)
        parts = Py_BuildValue("{sssssOsOsssssOsOsO}", "language", "metal", "name", name, "input_names", in,
                              "output_names", out, "source", source, "header", header,
                              "ensure_row_contiguous", contiguous ? Py_True : Py_False, "atomic_outputs",
                              atomic ? Py_True : Py_False, "compile_options", options);
    if (parts)
        kernel = make(parts, PyList_GET_SIZE(in), PyList_GET_SIZE(out));
    Py_XDECREF(parts);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return kernel;
}

// Calling ----------------------------------------------------------------------------------------------------------

// The arguments of a call, as sequences; new references.
struct launch {
    PyObject *inputs, *shapes, *dtypes;
    zl_array *in;
    struct ext_list *list;
    zl_shape *shape;
    zl_dtype *dtype;
    zl_array *out;
    zl_kernel_source source;
};

static bool check_size(PyObject *list, const char *what, Py_ssize_t count) {
    if (PySequence_Fast_GET_SIZE(list) == count)
        return true;
    PyErr_Format(PyExc_ValueError, "[metal_kernel] Expected `%s` to have size %zd but got size %zd.", what,
                 count, PySequence_Fast_GET_SIZE(list));
    return false;
}

static bool open_launch(struct launch *l, const struct metal_kernel *k, PyObject *inputs, PyObject *shapes,
                        PyObject *dtypes) {
    l->inputs = PySequence_Fast(inputs, "metal_kernel: inputs must be a list");
    l->shapes = l->inputs ? PySequence_Fast(shapes, "metal_kernel: output_shapes must be a list") : NULL;
    l->dtypes = l->shapes ? PySequence_Fast(dtypes, "metal_kernel: output_dtypes must be a list") : NULL;
    if (!l->dtypes || !check_size(l->inputs, "inputs", k->inputs) ||
        !check_size(l->shapes, "output_shapes", k->outputs) ||
        !check_size(l->dtypes, "output_dtypes", k->outputs))
        return false;
    size_t outputs = (size_t)k->outputs;
    l->in = PyMem_New(zl_array, (size_t)k->inputs + 1);
    l->list = PyMem_New(struct ext_list, outputs);
    l->shape = PyMem_New(zl_shape, outputs);
    l->dtype = PyMem_New(zl_dtype, outputs);
    l->out = PyMem_New(zl_array, outputs);
    if (l->in && l->list && l->shape && l->dtype && l->out)
        return true;
    return PyErr_NoMemory(), false;
}

static void close_launch(struct launch *l) {
    for (int i = 0; i < l->source.outputs; i++)
        ext_list_free(&l->list[i]);
    Py_XDECREF(l->inputs);
    Py_XDECREF(l->shapes);
    Py_XDECREF(l->dtypes);
    PyMem_Free(l->in);
    PyMem_Free(l->list);
    PyMem_Free(l->shape);
    PyMem_Free(l->dtype);
    PyMem_Free(l->out);
}

static bool read_arrays(struct launch *l) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(l->inputs); i++)
        if (!(l->in[i] = ext_array_of(PySequence_Fast_GET_ITEM(l->inputs, i))))
            return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(l->shapes); i++) {
        l->source.outputs++;
        if (!ext_list_read(PySequence_Fast_GET_ITEM(l->shapes, i), &l->list[i]) ||
            !ext_dtype_read(PySequence_Fast_GET_ITEM(l->dtypes, i), &l->dtype[i]))
            return false;
        l->shape[i] = (zl_shape){l->list[i].item, l->list[i].count};
    }
    l->source.shape = l->shape;
    l->source.dtype = l->dtype;
    return true;
}

static bool read_sizes(const char *what, PyObject *o, int64_t *out) {
    PyObject *three = PySequence_Fast(o, "metal_kernel: grid and threadgroup must have three numbers");
    bool ok = three && PySequence_Fast_GET_SIZE(three) == 3;
    if (three && !ok)
        PyErr_Format(PyExc_TypeError, "metal_kernel: %s must have three numbers, not %zd", what,
                     PySequence_Fast_GET_SIZE(three));
    for (int i = 0; ok && i < 3; i++)
        ok = ext_to_int64(PySequence_Fast_GET_ITEM(three, i), &out[i]);
    Py_XDECREF(three);
    return ok;
}

// A template argument as JSON has it: dtypes are texts. A new reference.
static PyObject *template_value(PyObject *value) {
    if (Py_TYPE(value) == &ext_dtype_type)
        return PyObject_Str(value);
    if (PyLong_Check(value)) // bool too
        return Py_NewRef(value);
    return PyErr_Format(
        PyExc_ValueError,
        "[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.");
}

// A list of [name, value].
static PyObject *template_list(PyObject *given) {
    PyObject *pairs = given == Py_None ? PyList_New(0) : PySequence_List(given);
    for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *name, *value, *shown = NULL, *pair = PySequence_Tuple(PyList_GET_ITEM(pairs, i));
        if (pair && PyArg_ParseTuple(pair, "UO:template", &name, &value))
            shown = template_value(value);
        PyObject *entry = shown ? Py_BuildValue("[ON]", name, shown) : NULL;
        Py_XDECREF(pair);
        if (!entry || PyList_SetItem(pairs, i, entry))
            Py_CLEAR(pairs);
    }
    return pairs;
}

// All that there is to know, as JSON; a new reference.
static PyObject *as_text(const struct metal_kernel *k, PyObject *given, PyObject *init_value) {
    PyObject *json = PyImport_ImportModule("json"), *list = json ? template_list(given) : NULL;
    PyObject *parts = list ? PyDict_Copy(k->parts) : NULL, *text = NULL;
    if (parts && !PyDict_SetItemString(parts, "template", list) &&
        !PyDict_SetItemString(parts, "init_value", init_value))
        text = PyObject_CallMethod(json, "dumps", "O", parts);
    Py_XDECREF(json);
    Py_XDECREF(list);
    Py_XDECREF(parts);
    return text;
}

static PyObject *run(struct launch *l, PyObject *stream) {
    if (!zl_custom_kernel(&l->source, (int)PySequence_Fast_GET_SIZE(l->inputs), l->in, l->out))
        return ext_raise();
    if (stream_is_cpu(stream))
        return PyErr_Format(PyExc_ValueError, "[metal_kernel] Only supports the GPU.");
    return ext_wrap_all(l->source.outputs, l->out, false);
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"inputs",   "output_shapes", "output_dtypes", "grid",   "threadgroup",
                            "template", "init_value",    "verbose",       "stream", NULL};
    PyObject *inputs = NULL, *shapes = NULL, *dtypes = NULL, *grid = NULL, *group = NULL;
    PyObject *given = Py_None, *init = Py_None, *stream = Py_None;
    int verbose = 0; // there is no source to be printed: who has Metal makes it
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOOOpO:metal_kernel", names, &inputs, &shapes,
                                     &dtypes, &grid, &group, &given, &init, &verbose, &stream))
        return NULL;
    if (!inputs || !shapes || !dtypes || !grid || !group)
        return PyErr_Format(PyExc_TypeError,
                            "metal_kernel: inputs, output_shapes, output_dtypes, grid and threadgroup are "
                            "needed");
    const struct metal_kernel *k = (struct metal_kernel *)self;
    struct launch l = {.source = {.language = "Metal"}};
    zl_scope scope = zl_scope_begin();
    PyObject *text = NULL, *y = NULL;
    if (open_launch(&l, k, inputs, shapes, dtypes) && read_arrays(&l) &&
        read_sizes("grid", grid, l.source.grid) && read_sizes("threadgroup", group, l.source.group) &&
        (text = as_text(k, given, init)) && (l.source.text = PyUnicode_AsUTF8(text)))
        y = run(&l, stream);
    close_launch(&l);
    Py_XDECREF(text);
    zl_scope_end(scope);
    return y;
}

static void dealloc(PyObject *self) {
    Py_DECREF(((struct metal_kernel *)self)->parts);
    PyObject_Free(self);
}

PyTypeObject metal_kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.fast.MetalKernel",
    .tp_doc = PyDoc_STR("A kernel in Metal's language; fast.metal_kernel() makes it."),
    .tp_basicsize = sizeof(struct metal_kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = call,
    .tp_dealloc = dealloc,
};
