// cpu_kernel.c - zellige.core.fast.cpu_kernel and cuda_kernel: kernels in C and in CUDA C++, compiled at run
// time.

#include "device.h"
#include "kernel_launch.h"
#include "shaped.h"

struct cpu_kernel {
    PyObject_HEAD PyObject *name, *source, *header; // texts
    PyObject *inputs, *outputs;                     // lists of names
    int contiguous;
    bool is_cuda;
    Py_ssize_t shared; // bytes of shared memory that a block needs
};

static PyObject *make(const char *function, const struct cpu_kernel *given) {
    PyObject *in = kernel_names(function, "input_names", given->inputs);
    PyObject *out = in ? kernel_names(function, "output_names", given->outputs) : NULL;
    struct cpu_kernel *k = NULL;
    if (out && PyList_GET_SIZE(out) == 0)
        PyErr_Format(PyExc_ValueError, "[%s] Must specify at least one output.", function);
    else if (out)
        k = PyObject_New(struct cpu_kernel, &cpu_kernel_type);
    if (!k) {
        Py_XDECREF(in);
        Py_XDECREF(out);
        return NULL;
    }
    k->name = Py_NewRef(given->name);
    k->source = Py_NewRef(given->source);
    k->header = Py_XNewRef(given->header);
    k->inputs = in;
    k->outputs = out;
    k->contiguous = given->contiguous;
    k->is_cuda = given->is_cuda;
    k->shared = given->shared;
    return (PyObject *)k;
}

PyObject *shaped_cpu_kernel(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {
        "name", "input_names", "output_names", "source", "header", "ensure_row_contiguous", NULL};
    struct cpu_kernel k = {.contiguous = 1};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOU|Up:cpu_kernel", names, &k.name, &k.inputs,
                                     &k.outputs, &k.source, &k.header, &k.contiguous))
        return NULL;
    return make("cpu_kernel", &k);
}

PyObject *shaped_cuda_kernel(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name",   "input_names",           "output_names",  "source",
                            "header", "ensure_row_contiguous", "shared_memory", NULL};
    struct cpu_kernel k = {.contiguous = 1, .is_cuda = true};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOU|Upn:cuda_kernel", names, &k.name, &k.inputs,
                                     &k.outputs, &k.source, &k.header, &k.contiguous, &k.shared))
        return NULL;
    return make("cuda_kernel", &k);
}

// Calling ---------------------------------------------------------------------------------------------------

// Returns names in a list that the caller frees with PyMem_Free.
static const char **texts_of(PyObject *list) {
    Py_ssize_t count = PyList_GET_SIZE(list);
    const char **text = PyMem_New(const char *, (size_t)count + 1);
    if (!text)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; text && i < count; i++)
        if (!(text[i] = ext_utf8(PyList_GET_ITEM(list, i)))) {
            PyMem_Free(text);
            return NULL;
        }
    return text;
}

static bool read_argument(PyObject *pair, zl_kernel_argument *out) {
    PyObject *value = PyTuple_GET_ITEM(pair, 1);
    zl_dtype dtype;
    out->name = ext_utf8(PyTuple_GET_ITEM(pair, 0));
    out->is_dtype = Py_TYPE(value) == &ext_dtype_type;
    if (!out->is_dtype)
        return out->name && ext_to_int64(value, &out->value);
    bool ok = out->name && ext_dtype_read(value, &dtype);
    out->value = ok ? dtype : 0;
    return ok;
}

// Returns the arguments in memory that the caller frees with PyMem_Free. They refer to texts of the pairs.
static zl_kernel_argument *read_arguments(PyObject *pairs) {
    Py_ssize_t count = PyList_GET_SIZE(pairs);
    zl_kernel_argument *list = PyMem_New(zl_kernel_argument, (size_t)count + 1);
    if (!list)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; list && i < count; i++)
        if (!read_argument(PyList_GET_ITEM(pairs, i), &list[i])) {
            PyMem_Free(list);
            return NULL;
        }
    return list;
}

static const char *function_of(const struct cpu_kernel *k) {
    return k->is_cuda ? "cuda_kernel" : "cpu_kernel";
}

static bool show(const struct cpu_kernel *k, const zl_cpu_kernel_source *source,
                 const struct kernel_launch *l) {
    char *text = k->is_cuda ? zl_cuda_kernel_text(source, l->inputs, l->in)
                            : zl_cpu_kernel_text(source, l->inputs, l->in);
    if (!text)
        return ext_raise(), false;
    PySys_FormatStdout("Generated source code for `%s`:\n%s\n", source->name, text);
    zl_free(text);
    return true;
}

static PyObject *run(const struct cpu_kernel *k, const struct kernel_launch *l,
                     zl_cpu_kernel_source *source) {
    double init = l->init == Py_None ? 0 : PyFloat_AsDouble(l->init);
    if (init == -1 && PyErr_Occurred())
        return NULL;
    source->name = ext_utf8(k->name);
    source->source = ext_utf8(k->source);
    source->header = k->header ? ext_utf8(k->header) : "";
    if (!source->name || !source->source || !source->header)
        return NULL;
    source->inputs = l->inputs;
    source->outputs = l->outputs;
    source->shape = l->shape;
    source->dtype = l->dtype;
    memcpy(source->grid, l->grid, sizeof l->grid);
    memcpy(source->group, l->group, sizeof l->group);
    source->init = l->init == Py_None ? NULL : &init;
    source->strided = !k->contiguous;
    if (l->verbose && !show(k, source, l))
        return NULL;
    bool ok = k->is_cuda ? zl_cuda_kernel(source, k->shared, l->inputs, l->in, l->out)
                         : zl_cpu_kernel(source, l->inputs, l->in, l->out);
    return ok ? ext_wrap_all(l->outputs, l->out, false) : ext_raise();
}

static PyObject *call_with(const struct cpu_kernel *k, const struct kernel_launch *l) {
    PyObject *pairs = kernel_templates(function_of(k), l->arguments), *y = NULL;
    zl_cpu_kernel_source source = {.arguments = pairs ? (int)PyList_GET_SIZE(pairs) : 0};
    const char **in = pairs ? texts_of(k->inputs) : NULL, **out = in ? texts_of(k->outputs) : NULL;
    zl_kernel_argument *list = out ? read_arguments(pairs) : NULL;
    source.input = in;
    source.output = out;
    source.argument = list;
    if (list)
        y = run(k, l, &source);
    PyMem_Free(in);
    PyMem_Free(out);
    PyMem_Free(list);
    Py_XDECREF(pairs);
    return y;
}

// Returns the stream= argument of a call, or None.
static PyObject *stream_of(PyObject *kwargs) {
    PyObject *stream = kwargs ? PyDict_GetItemString(kwargs, "stream") : NULL;
    return stream ? stream : Py_None;
}

// Returns whether a call goes to the CPU, by its own stream or by the default device.
static bool is_on_cpu(PyObject *stream) {
    return stream == Py_None ? device_default().type == DEVICE_CPU : stream_is_cpu(stream);
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
    const struct cpu_kernel *k = (struct cpu_kernel *)self;
    struct kernel_launch l = {.function = function_of(k),
                              .inputs = (int)PyList_GET_SIZE(k->inputs),
                              .outputs = (int)PyList_GET_SIZE(k->outputs)};
    zl_scope scope;
    if (k->is_cuda && is_on_cpu(stream_of(kwargs)))
        return PyErr_Format(
            PyExc_ValueError,
            "[cuda_kernel] Only supports the GPU. On the CPU fast.cpu_kernel runs kernels in C: "
            "doc/custom-kernels.md explains both.");
    if (!ext_scope(stream_of(kwargs), &scope))
        return NULL;
    PyObject *y = kernel_launch_read(&l, args, kwargs, k->is_cuda) ? call_with(k, &l) : NULL;
    kernel_launch_close(&l);
    zl_scope_end(scope);
    return y;
}

static void dealloc(PyObject *self) {
    struct cpu_kernel *k = (struct cpu_kernel *)self;
    Py_DECREF(k->name);
    Py_DECREF(k->source);
    Py_XDECREF(k->header);
    Py_DECREF(k->inputs);
    Py_DECREF(k->outputs);
    PyObject_Free(self);
}

PyTypeObject cpu_kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.fast.SourceKernel",
    .tp_doc = PyDoc_STR(
        "A kernel in C or CUDA C++; fast.cpu_kernel() and cuda_kernel() make it. Called with the keywords "
        "inputs, output_shapes, "
        "output_dtypes and grid, and threadgroup, template, init_value, verbose and stream if wanted, it "
        "gives a list of arrays."),
    .tp_basicsize = sizeof(struct cpu_kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = call,
    .tp_dealloc = dealloc,
};
