// metal_kernel.c - zellige.core.fast.metal_kernel: kernels in Metal's language, which exported functions may
// call.
//
// The parts of a kernel are kept in a dictionary and are written to the file as JSON, from which a library
// with Metal makes the kernel's source.

#include "device.h"
#include "kernel_launch.h"
#include "shaped.h"

struct metal_kernel {
    PyObject_HEAD PyObject *parts; // a dict
    Py_ssize_t inputs, outputs;
};

// Making ----------------------------------------------------------------------------------------------------

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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&OOO&|O&ppO:metal_kernel", names, ext_utf8_read, &name,
                                     &inputs, &outputs, ext_utf8_read, &source, ext_utf8_read, &header,
                                     &contiguous, &atomic, &options) ||
        !check_options(options))
        return NULL;
    PyObject *in = kernel_names("metal_kernel", "input_names", inputs);
    PyObject *out = in ? kernel_names("metal_kernel", "output_names", outputs) : NULL;
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

// Calling ---------------------------------------------------------------------------------------------------

// Returns a list of [name, value] for JSON, in which dtypes are texts. A new reference.
static PyObject *template_list(PyObject *given) {
    PyObject *pairs = kernel_templates("metal_kernel", given);
    for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PyList_GET_ITEM(pairs, i), *value = PyTuple_GET_ITEM(pair, 1);
        PyObject *shown = Py_TYPE(value) == &ext_dtype_type ? PyObject_Str(value) : Py_NewRef(value);
        PyObject *entry = shown ? Py_BuildValue("[ON]", PyTuple_GET_ITEM(pair, 0), shown) : NULL;
        if (!entry || PyList_SetItem(pairs, i, entry))
            Py_CLEAR(pairs);
    }
    return pairs;
}

// Returns all parts of a call as JSON; a new reference.
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

// Raises an exception that says what a program can do instead; the library's own message is for programs in
// C.
static void *raise_absent(const struct metal_kernel *k) {
    if (zl_error_which() != ZL_ERROR_DEVICE || PyErr_Occurred())
        return ext_raise();
    zl_clear_error();
    return PyErr_Format(
        PyExc_RuntimeError,
        "[metal_kernel] No Metal back-end: the kernel %R is in Metal's language, which no device here runs. "
        "Write it in C for fast.cpu_kernel, which takes the same arguments, or in CUDA C++ for "
        "fast.cuda_kernel: doc/custom-kernels.md explains both. Kernels in Metal are only recorded, by "
        "functions that are exported.",
        PyDict_GetItemString(k->parts, "name"));
}

// Ignores `verbose`, since there is no source to print: a library with Metal makes it.
static PyObject *run(const struct metal_kernel *k, const struct kernel_launch *l, const char *text) {
    zl_kernel_source source = {
        .language = "Metal", .text = text, .outputs = l->outputs, .shape = l->shape, .dtype = l->dtype};
    memcpy(source.grid, l->grid, sizeof l->grid);
    memcpy(source.group, l->group, sizeof l->group);
    if (!zl_custom_kernel(&source, l->inputs, l->in, l->out))
        return raise_absent(k);
    if (stream_is_cpu(l->stream))
        return PyErr_Format(PyExc_ValueError, "[metal_kernel] Only supports the GPU.");
    return ext_wrap_all(l->outputs, l->out, false);
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
    const struct metal_kernel *k = (struct metal_kernel *)self;
    struct kernel_launch l = {
        .function = "metal_kernel", .inputs = (int)k->inputs, .outputs = (int)k->outputs};
    zl_scope scope = ext_begin();
    PyObject *text = NULL, *y = NULL;
    if (kernel_launch_read(&l, args, kwargs, true) && (text = as_text(k, l.arguments, l.init))) {
        const char *utf8 = PyUnicode_AsUTF8(text);
        y = utf8 ? run(k, &l, utf8) : NULL;
    }
    kernel_launch_close(&l);
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
