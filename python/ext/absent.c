// absent.c - the submodules of MLX that stand for hardware and for other processes: metal, cuda and distributed.
// They say that there is neither; a group of processes is this one alone.

#include <string.h>

#include "ext.h"

// metal and cuda -------------------------------------------------------------------------------------------------

static PyObject *no(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *nothing(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_RETURN_NONE;
}

static PyObject *start_capture(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", NULL};
    PyObject *path;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:start_capture", names, &path))
        return NULL;
    PyObject *bytes = ext_path(path, "start_capture");
    bool begun = bytes && ext_profile_begin(bytes);
    Py_XDECREF(bytes);
    return begun ? nothing(module, NULL) : NULL;
}

static PyObject *stop_capture(PyObject *module, PyObject *unused) {
    PyObject *table = ext_profile_end();
    Py_XDECREF(table);
    return table ? nothing(module, unused) : NULL;
}

static PyObject *no_info(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyDict_New();
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS
static PyMethodDef metal_functions[] = {
    {"is_available", no, METH_NOARGS, PyDoc_STR("is_available()\n--\n\nFalse: there is no Metal here.")},
    {"start_capture", KEYWORDS(start_capture), PyDoc_STR("start_capture(path)\n--\n\nBegins a profile, whose timeline for Perfetto is left at path.")},
    {"stop_capture", stop_capture, METH_NOARGS, PyDoc_STR("stop_capture()\n--\n\nEnds the profile that start_capture began.")},
    {"device_info", no_info, METH_NOARGS, PyDoc_STR("device_info()\n--\n\nAn empty dict: there is no Metal here.")},
    {0},
};

static PyObject *has_cuda(PyObject *module, PyObject *unused) {
    zl_device_info info;
    bool found = false;
    (void)module, (void)unused;
    for (int i = 0; !found && zl_device(i, &info); i++)
        found = info.available && !strcmp(info.device, "cuda");
    return PyBool_FromLong(found);
}

static PyMethodDef cuda_functions[] = {
    {"is_available", has_cuda, METH_NOARGS, PyDoc_STR("is_available()\n--\n\nWhether there is an NVIDIA GPU here.")},
    {0},
};

// Old names, from before they moved to mlx.core.
static const char *const moved[] = {"get_active_memory", "get_peak_memory",  "reset_peak_memory",
                                    "get_cache_memory",  "set_memory_limit", "set_cache_limit",
                                    "set_wired_limit",   "clear_cache"};

static bool add_moved(PyObject *core, PyObject *metal) {
    for (int i = 0; i < COUNT(moved); i++)
        if (!ext_add(metal, moved[i], PyObject_GetAttrString(core, moved[i])))
            return false;
    return true;
}

// distributed ----------------------------------------------------------------------------------------------------

static PyObject *group_rank(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(0);
}

static PyObject *group_size(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(1);
}

static PyObject *group_split(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"color", "key", NULL};
    int color, key = -1;
    (void)self;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "i|i:split", names, &color, &key))
        PyErr_SetString(PyExc_RuntimeError, "Group.split: a group of one process cannot be split");
    return NULL;
}

static PyMethodDef group_methods[] = {
    {"rank", group_rank, METH_NOARGS, PyDoc_STR("The number of this process in the group.")},
    {"size", group_size, METH_NOARGS, PyDoc_STR("How many processes the group has.")},
    {"split", KEYWORDS(group_split),
     PyDoc_STR("split(color, key=-1)\n--\n\nThe processes of the group with this color.")},
    {0},
};

static PyTypeObject group_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.distributed.Group",
    .tp_doc = PyDoc_STR("Processes that communicate: here always this one alone."),
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = group_methods,
};

static const char *const backends[] = {"any", "mpi", "ring", "nccl", "jaccl"};

static bool is_backend(const char *name) {
    for (int i = 0; i < COUNT(backends); i++)
        if (!strcmp(name, backends[i]))
            return true;
    return false;
}

static PyObject *is_available(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"backend", NULL};
    const char *backend;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:is_available", names, ext_utf8_read, &backend))
        return NULL;
    return no(module, NULL);
}

static PyObject *init(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"strict", "backend", "all_gather_factory", NULL};
    int strict = 0;
    const char *backend = "any";
    PyObject *factory = Py_None;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pO&$O:init", names, &strict, ext_utf8_read, &backend, &factory))
        return NULL;
    if (!is_backend(backend))
        return PyErr_Format(PyExc_ValueError,
                            "distributed.init: the backend is any, mpi, ring, nccl or jaccl, not '%.100s'",
                            backend);
    if (factory != Py_None && strcmp(backend, "jaccl"))
        return PyErr_Format(PyExc_ValueError,
                            "distributed.init: all_gather_factory is for the backend jaccl, not %s", backend);
    if (strict)
        return PyErr_Format(PyExc_RuntimeError, "distributed.init: the backend '%s' is not available here",
                            backend);
    return (PyObject *)PyObject_New(PyObject, &group_type);
}

// Reads what all ops take besides their own arguments.
static bool check_common(const char *function, PyObject *group, PyObject *stream) {
    zl_stream ignored;
    if (group == Py_None || Py_TYPE(group) == &group_type)
        return ext_stream_read(stream, &ignored);
    PyErr_Format(PyExc_TypeError, "distributed.%s: the group must be a Group or None, not %.100s", function,
                 Py_TYPE(group)->tp_name);
    return false;
}

// What every collective op gives in a group of one: x.
static PyObject *alone(PyObject *args, PyObject *kwargs, const char *form) {
    static char *names[] = {"x", "group", "stream", NULL};
    PyObject *x, *group = Py_None, *stream = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &x, &group, &stream) ||
        !check_common(strchr(form, ':') + 1, group, stream))
        return NULL;
    zl_scope scope = ext_begin();
    zl_array a = ext_array_held(x);
    PyObject *result = a ? ext_wrap(a) : NULL;
    zl_scope_end(scope);
    return result;
}

#define ALONE(name)                                                             \
    static PyObject *name(PyObject *module, PyObject *args, PyObject *kwargs) { \
        (void)module;                                                           \
        return alone(args, kwargs, "O|$OO:" #name);                             \
    }
ALONE(all_sum)
ALONE(all_max)
ALONE(all_min)
ALONE(all_gather)
ALONE(sum_scatter)

static PyObject *nobody(const char *function) {
    return PyErr_Format(PyExc_ValueError, "distributed.%s: there is no other process in a group of one",
                        function);
}

// send(x, dst) and recv_like(x, src).
static PyObject *exchange(PyObject *args, PyObject *kwargs, const char *form, char *peer_name) {
    char *names[] = {"x", peer_name, "group", "stream", NULL};
    PyObject *x, *group = Py_None, *stream = Py_None;
    const char *function = strchr(form, ':') + 1;
    int peer;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &x, &peer, &group, &stream) ||
        !check_common(function, group, stream))
        return NULL;
    return nobody(function);
}

static PyObject *send(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return exchange(args, kwargs, "Oi|$OO:send", "dst");
}

static PyObject *recv_like(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return exchange(args, kwargs, "Oi|$OO:recv_like", "src");
}

static PyObject *recv(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"shape", "dtype", "src", "group", "stream", NULL};
    PyObject *shape, *dtype, *group = Py_None, *stream = Py_None;
    int src;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOi|$OO:recv", names, &shape, &dtype, &src, &group,
                                     &stream) ||
        !check_common("recv", group, stream))
        return NULL;
    return nobody("recv");
}

static PyMethodDef distributed_functions[] = {
    {"is_available", KEYWORDS(is_available),
     PyDoc_STR("is_available(backend='any')\n--\n\nWhether processes can be joined.")},
    {"init", KEYWORDS(init),
     PyDoc_STR("init(strict=False, backend='any', *, all_gather_factory=None)\n--\n\nThe group of all processes.")},
    {"all_sum", KEYWORDS(all_sum),
     PyDoc_STR("all_sum(x, *, group=None, stream=None)\n--\n\nThe sum over all processes.")},
    {"all_max", KEYWORDS(all_max),
     PyDoc_STR("all_max(x, *, group=None, stream=None)\n--\n\nThe largest of all processes.")},
    {"all_min", KEYWORDS(all_min),
     PyDoc_STR("all_min(x, *, group=None, stream=None)\n--\n\nThe smallest of all processes.")},
    {"all_gather", KEYWORDS(all_gather),
     PyDoc_STR("all_gather(x, *, group=None, stream=None)\n--\n\nWhat all processes have, along the first axis.")},
    {"sum_scatter", KEYWORDS(sum_scatter),
     PyDoc_STR("sum_scatter(x, *, group=None, stream=None)\n--\n\nThis process's part of the sum.")},
    {"send", KEYWORDS(send), PyDoc_STR("send(x, dst, *, group=None, stream=None)\n--\n\nSends x to a process.")},
    {"recv", KEYWORDS(recv),
     PyDoc_STR("recv(shape, dtype, src, *, group=None, stream=None)\n--\n\nAn array of a process.")},
    {"recv_like", KEYWORDS(recv_like),
     PyDoc_STR("recv_like(x, src, *, group=None, stream=None)\n--\n\nAn array of a process, with the shape of x.")},
    {0},
};

bool ext_add_absent(PyObject *core) {
    PyObject *metal = ext_submodule(core, "metal", "Apple's Metal, which is not here.");
    PyObject *cuda = ext_submodule(core, "cuda", "NVIDIA GPUs.");
    PyObject *distributed = ext_submodule(core, "distributed", "Communication between processes.");
    return metal && cuda && distributed && PyModule_AddFunctions(metal, metal_functions) == 0 &&
           add_moved(core, metal) && PyModule_AddFunctions(cuda, cuda_functions) == 0 &&
           PyModule_AddFunctions(distributed, distributed_functions) == 0 &&
           PyModule_AddType(distributed, &group_type) == 0;
}
