// tile_kernel.c - zellige.core._tile: tile kernels for the front end in zellige.tile. The front end passes
// texts and addresses, and knows the objects that have them.

#include "ext.h"

#include "zellige_tile.h"

#include <string.h>

struct kernel {
    PyObject_HEAD zl_kernel value;
};

static PyTypeObject kernel_type;

static void free_kernel(PyObject *self) {
    zl_kernel_release(((struct kernel *)self)->value);
    Py_TYPE(self)->tp_free(self);
}

// Parameters ------------------------------------------------------------------------------------------------

static PyObject *parameters(PyObject *self, void *unused) {
    (void)unused;
    zl_kernel k = ((struct kernel *)self)->value;
    PyObject *list = PyList_New(zl_kernel_parameters(k));
    for (int i = 0; list && i < zl_kernel_parameters(k); i++) {
        zl_kernel_parameter p;
        PyObject *one =
            !zl_kernel_parameter_at(k, i, &p)
                ? ext_raise()
                : Py_BuildValue("(ssiOO)", p.name, zl_dtype_name(p.dtype), p.ndim,
                                p.is_scalar ? Py_True : Py_False, p.is_output ? Py_True : Py_False);
        if (!one) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, one);
    }
    return list;
}

static PyObject *source(PyObject *self, void *unused) {
    (void)unused;
    const char *text = zl_kernel_source_text(((struct kernel *)self)->value);
    return text ? ext_text(text, strlen(text)) : ext_raise();
}

static PyObject *show(PyObject *self, PyObject *stage) {
    const char *name = ext_utf8(stage);
    char *text = name ? zl_kernel_print(((struct kernel *)self)->value, name) : NULL;
    PyObject *result = text ? ext_text(text, strlen(text)) : name ? ext_raise() : NULL;
    zl_free(text);
    return result;
}

// cost({"n": 4, ...}): the operations of a run, and the bytes of its parameters.
static PyObject *cost(PyObject *self, PyObject *sizes) {
    zl_kernel k = ((struct kernel *)self)->value;
    int64_t value[64] = {0};
    zl_kernel_cost found;
    if (!PyDict_Check(sizes))
        return PyErr_Format(PyExc_TypeError, "kernel.cost takes a dict of sizes by name, not %.100R", sizes);
    for (int i = 0; zl_kernel_size_name(k, i); i++) {
        PyObject *one = PyDict_GetItemString(sizes, zl_kernel_size_name(k, i));
        if (!one || i >= 64)
            return PyErr_Format(PyExc_KeyError, "kernel.cost: the size '%s' is missing",
                                zl_kernel_size_name(k, i));
        value[i] = PyLong_AsLongLong(one);
        if (PyErr_Occurred())
            return NULL;
    }
    return zl_kernel_cost_of(k, value, &found) ? Py_BuildValue("(dd)", found.flops, found.bytes)
                                               : ext_raise();
}

// Running ---------------------------------------------------------------------------------------------------

enum { DIMS = 8 };

struct argument {
    int64_t dim[DIMS], stride[DIMS];
    union {
        char bytes[16];
        double align;
    } value; // of a scalar
};

static bool read_sizes(PyObject *o, int64_t *out, int *count, const char *what) {
    PyObject *list = ext_tuple(o, "shape and strides are sequences");
    if (list && PyTuple_GET_SIZE(list) > DIMS) {
        PyErr_Format(PyExc_ValueError, "kernel.run: %s has %zd numbers, and at most %d are possible", what,
                     PyTuple_GET_SIZE(list), DIMS);
        Py_CLEAR(list);
    }
    *count = list ? (int)PyTuple_GET_SIZE(list) : 0;
    for (int i = 0; list && i < *count; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(list, i));
        if (PyErr_Occurred())
            Py_CLEAR(list);
    }
    Py_XDECREF(list);
    return list;
}

// Reads (address, dtype, shape, strides in elements or None).
static bool read_memory(PyObject *o, struct argument *a, zl_kernel_buffer *out) {
    PyObject *address, *shape, *strides;
    const char *dtype;
    int steps;
    if (!PyTuple_Check(o)) {
        PyErr_Format(PyExc_TypeError,
                     "kernel.run takes (address, dtype, shape, strides) and numbers, not %.100R", o);
        return false;
    }
    if (!PyArg_ParseTuple(o, "OO&OO;kernel.run takes (address, dtype, shape, strides) and numbers", &address,
                          ext_utf8_read, &dtype, &shape, &strides))
        return false;
    out->data = PyLong_AsVoidPtr(address);
    out->dtype = zl_dtype_find(dtype);
    out->dim = a->dim;
    out->stride = strides == Py_None ? NULL : a->stride;
    if (out->dtype == ZL_DTYPE_COUNT)
        return ext_raise() != NULL;
    return !PyErr_Occurred() && read_sizes(shape, a->dim, &out->ndim, "a shape") &&
           (strides == Py_None || read_sizes(strides, a->stride, &steps, "strides"));
}

// Reads a number as a scalar of the parameter's dtype.
static bool read_number(PyObject *o, zl_dtype dtype, struct argument *a, zl_kernel_buffer *out) {
    zl_scope scope = ext_begin();
    zl_array x = ext_array_of(o), typed = x ? zl_astype(x, dtype) : NULL;
    bool done = typed && zl_copy_to(typed, a->value.bytes, zl_dtype_size(dtype));
    if (x && !done)
        ext_raise();
    zl_scope_end(scope);
    *out = (zl_kernel_buffer){.data = a->value.bytes, .dtype = dtype};
    return done;
}

static bool read_all(zl_kernel k, PyObject *list, int count, struct argument *a, zl_kernel_buffer *out) {
    for (int i = 0; i < count; i++) {
        zl_kernel_parameter p = {.dtype = ZL_FLOAT32};
        PyObject *o = PyTuple_GET_ITEM(list, i);
        bool known = i < zl_kernel_parameters(k) && zl_kernel_parameter_at(k, i, &p);
        if (known && p.is_scalar && !PyTuple_Check(o) ? !read_number(o, p.dtype, &a[i], &out[i])
                                                      : !read_memory(o, &a[i], &out[i]))
            return false;
    }
    return true;
}

static PyObject *report_of(const zl_device_c_report *r) {
    double all = r->seconds > 0 ? r->seconds : 1;
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:L,s:L,s:L,s:L}", "milliseconds", r->seconds * 1e3, "compute",
                         r->compute_seconds / all, "copies", r->copy_seconds / all, "lanes", r->lanes,
                         "commands", (long long)r->commands, "bytes", (long long)r->bytes, "bank_conflicts",
                         (long long)r->bank_conflicts, "scalars", (long long)r->scalars);
}

// Runs the kernel. If `repeats` is positive, returns the mean seconds of that many runs; if -1, the report of
// a modelled run; if 0, None.
static PyObject *run_on(zl_kernel k, PyObject *arguments, int repeats) {
    PyObject *list = ext_tuple(arguments, "kernel.run takes a sequence of arguments"), *result = NULL;
    double seconds = 0;
    zl_device_c_report report;
    if (!list)
        return NULL;
    int count = (int)PyTuple_GET_SIZE(list);
    struct argument *a = PyMem_Calloc((size_t)count + 1, sizeof *a);
    zl_kernel_buffer *buffer = PyMem_Calloc((size_t)count + 1, sizeof *buffer);
    if (!a || !buffer)
        PyErr_NoMemory();
    else if (read_all(k, list, count, a, buffer)) {
        bool done;
        Py_BEGIN_ALLOW_THREADS;
        done = repeats < 0 ? zl_kernel_report(k, count, buffer, &report)
               : repeats   ? zl_kernel_time(k, count, buffer, repeats, &seconds)
                           : zl_kernel_run(k, count, buffer);
        Py_END_ALLOW_THREADS;
        result = !done         ? ext_raise()
                 : repeats < 0 ? report_of(&report)
                 : repeats     ? PyFloat_FromDouble(seconds)
                               : Py_NewRef(Py_None);
    }
    PyMem_Free(a);
    PyMem_Free(buffer);
    Py_DECREF(list);
    return result;
}

static PyObject *run(PyObject *self, PyObject *arguments) {
    return run_on(((struct kernel *)self)->value, arguments, 0);
}

static PyObject *report(PyObject *self, PyObject *arguments) {
    return run_on(((struct kernel *)self)->value, arguments, -1);
}

static PyObject *time_runs(PyObject *self, PyObject *args) {
    PyObject *arguments;
    int repeats;
    if (!PyArg_ParseTuple(args, "Oi", &arguments, &repeats))
        return NULL;
    if (repeats < 1)
        return PyErr_Format(PyExc_ValueError, "kernel.time: repeats is %d, and at least 1 is needed",
                            repeats);
    return run_on(((struct kernel *)self)->value, arguments, repeats);
}

// Arrays ----------------------------------------------------------------------------------------------------

enum { ARRAYS_MOST = 64 };

// Runs the kernel on arrays of zellige.core, on their device. Numbers become scalars. Returns a tuple of new
// arrays.
static PyObject *call(PyObject *self, PyObject *arguments) {
    zl_kernel k = ((struct kernel *)self)->value;
    PyObject *list = ext_tuple(arguments, "kernel.call takes a sequence of arrays"), *result = NULL;
    int count = list ? (int)PyTuple_GET_SIZE(list) : 0, outputs = zl_kernel_parameters(k) - count;
    zl_array in[ARRAYS_MOST], out[ARRAYS_MOST];
    if (list && (outputs < 0 || zl_kernel_parameters(k) > ARRAYS_MOST))
        PyErr_Format(PyExc_ValueError, "kernel.call: %d arguments for %d parameters", count,
                     zl_kernel_parameters(k));
    if (!list || PyErr_Occurred())
        return Py_XDECREF(list), NULL;
    zl_scope scope = ext_begin();
    bool done = true;
    for (int i = 0; done && i < count; i++) {
        zl_kernel_parameter p;
        zl_array x = ext_array_held(PyTuple_GET_ITEM(list, i));
        done = x && zl_kernel_parameter_at(k, i, &p) && (in[i] = p.is_scalar ? zl_astype(x, p.dtype) : x);
    }
    if (done) {
        Py_BEGIN_ALLOW_THREADS;
        done = zl_kernel_call(k, count, in, outputs, out);
        Py_END_ALLOW_THREADS;
        result = done ? ext_wrap_all(outputs, out, true) : NULL;
        for (int i = 0; done && i < outputs; i++)
            zl_release(out[i]);
    }
    if (!result && !PyErr_Occurred())
        ext_raise();
    zl_scope_end(scope);
    Py_DECREF(list);
    return result;
}

// Making ----------------------------------------------------------------------------------------------------

static PyObject *compile(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"text", "name", "target", NULL};
    const char *text, *name = NULL, *target = "auto";
    PyObject *named = Py_None;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OO&", names, ext_utf8_read, &text, &named,
                                     ext_utf8_read, &target) ||
        (named != Py_None && !(name = ext_utf8(named))))
        return NULL;
    struct kernel *k = (struct kernel *)kernel_type.tp_alloc(&kernel_type, 0);
    if (!k)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    k->value = zl_kernel_compile(text, name, target);
    Py_END_ALLOW_THREADS;
    if (k->value)
        return (PyObject *)k;
    ext_raise();
    Py_DECREF(k);
    return NULL;
}

static PyObject *prepare(PyObject *self, PyObject *target) {
    const char *name = ext_utf8(target);
    bool done = false;
    if (!name)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    done = zl_kernel_prepare(((struct kernel *)self)->value, name);
    Py_END_ALLOW_THREADS;
    return done ? Py_NewRef(Py_None) : ext_raise();
}

static PyObject *targets(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && zl_kernel_target(i); i++) {
        PyObject *name = PyUnicode_FromString(zl_kernel_target(i));
        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *is_modelled(PyObject *module, PyObject *target) {
    const char *name = PyUnicode_AsUTF8(target);
    (void)module;
    return name ? PyBool_FromLong(zl_kernel_is_modelled(name)) : NULL;
}

static PyMethodDef methods[] = {
    {"run", run, METH_O,
     "run(arguments): (address, dtype, shape, strides) for each parameter, or a number for a scalar."},
    {"call", call, METH_O,
     "call(arrays): runs it on arrays of zellige.core, where they are; a tuple of its outputs."},
    {"prepare", prepare, METH_O,
     "prepare(target): compiles a kernel that follows its arguments for a target."},
    {"time", time_runs, METH_VARARGS,
     "time(arguments, repeats): seconds of one of so many runs, by the device's clock if it has one."},
    {"report", report, METH_O,
     "report(arguments): what the engines of a modelled chip do in a run, by name."},
    {"cost", cost, METH_O, "cost(sizes): (operations, bytes of parameters) of a run, for sizes by name."},
    {"show", show, METH_O, "show(stage): the kernel as it is after a stage, \"tile\" being the first."},
    {0},
};

static PyGetSetDef members[] = {
    {"parameters", parameters, NULL, "(name, dtype, axes, is_scalar, is_output) of each, in order.", NULL},
    {"source", source, NULL, "The text that the target's compiler got.", NULL},
    {0},
};

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core._tile.Kernel",
    .tp_doc = "A compiled tile kernel.",
    .tp_basicsize = sizeof(struct kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = free_kernel,
    .tp_methods = methods,
    .tp_getset = members,
};

static PyObject *write_file(PyObject *m, PyObject *args) {
    PyObject *to;
    Py_buffer data;
    (void)m;
    if (!PyArg_ParseTuple(args, "Oy*:write_file", &to, &data))
        return NULL;
    PyObject *path = ext_path(to, "write_file");
    bool ok = path && zl_write_file(PyBytes_AS_STRING(path), data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    Py_XDECREF(path);
    return ok ? Py_NewRef(Py_None) : ext_raise();
}

static PyObject *counter(PyObject *m, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    (void)m;
    return text ? PyLong_FromLongLong(zl_counter(text)) : NULL;
}

static PyMethodDef functions[] = {
    {"compile", (PyCFunction)(void (*)(void))compile, METH_VARARGS | METH_KEYWORDS,
     "compile(text, name=None, target=\"auto\"): a kernel in the tile language, compiled."},
    {"targets", targets, METH_NOARGS, "Names of the targets that compile() has."},
    {"counter", counter, METH_O,
     "counter(name): what zl_counter() counted since the process began; -1: no such name."},
    {"is_modelled", is_modelled, METH_O,
     "is_modelled(target): whether its times come from a model of the chip."},
    {"write_file", write_file, METH_VARARGS,
     "write_file(path, data): replaces a file, so that other processes see the old one or the new one."},
    {0},
};

bool ext_add_tile(PyObject *core) {
    PyObject *module = ext_submodule(core, "_tile", "Tile kernels, for zellige.tile.");
    return module && PyType_Ready(&kernel_type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}
