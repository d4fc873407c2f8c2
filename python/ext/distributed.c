// distributed.c - zellige.core.distributed: groups of processes and their collectives (include/zellige.h,
// "Groups of processes").
//
// The semantics are MLX's: without a launcher, `init` returns a group of one, whose collectives return their
// input. Collectives run on the stream of their group; stream=, as in MLX, decides where their inputs are
// computed.

#include <string.h>

#include "ext.h"

struct group {
    PyObject_HEAD zl_group value; // retained
};
static PyTypeObject group_type;

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

// Wraps a group that the library returned, and takes it over; NULL raises the library's error.
static PyObject *wrap(zl_group value) {
    if (!value)
        return ext_raise();
    struct group *g = PyObject_New(struct group, &group_type);
    if (g)
        g->value = value;
    else
        zl_group_release(value);
    return (PyObject *)g;
}

// Group -----------------------------------------------------------------------------------------------------

static void group_free(PyObject *self) {
    zl_group_release(((struct group *)self)->value);
    PyObject_Free(self);
}

static PyObject *group_rank(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(zl_group_rank(((struct group *)self)->value));
}

static PyObject *group_size(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(zl_group_size(((struct group *)self)->value));
}

static PyObject *group_split(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"color", "key", NULL};
    int color, key = -1;
    zl_group part;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|i:split", names, &color, &key))
        return NULL;
    Py_BEGIN_ALLOW_THREADS part = zl_group_split(((struct group *)self)->value, color, key);
    Py_END_ALLOW_THREADS return wrap(part);
}

static PyObject *group_repr(PyObject *self) {
    zl_group g = ((struct group *)self)->value;
    return PyUnicode_FromFormat("Group(rank=%d, size=%d, backend='%s')", zl_group_rank(g), zl_group_size(g),
                                zl_group_engine(g));
}

static PyMethodDef group_methods[] = {
    {"rank", group_rank, METH_NOARGS, PyDoc_STR("rank()\n--\n\nThe number of this process in the group.")},
    {"size", group_size, METH_NOARGS, PyDoc_STR("size()\n--\n\nHow many processes the group has.")},
    {"split", KEYWORDS(group_split),
     PyDoc_STR(
         "split(color, key=-1)\n--\n\nThe group of those processes that give this color, ordered by key.")},
    {0},
};

static PyTypeObject group_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.distributed.Group",
    .tp_doc = PyDoc_STR("Processes that communicate."),
    .tp_basicsize = sizeof(struct group),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = group_free,
    .tp_repr = group_repr,
    .tp_methods = group_methods,
};

// init ------------------------------------------------------------------------------------------------------

static PyObject *is_available(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"backend", NULL};
    const char *backend = "any";
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:is_available", names, ext_utf8_read, &backend))
        return NULL;
    bool is = zl_group_available(backend);
    zl_clear_error(); // for an unknown name the result is False
    return PyBool_FromLong(is);
}

static PyObject *init(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"strict", "backend", "all_gather_factory", NULL};
    int strict = 0;
    const char *backend = "any";
    PyObject *factory = Py_None;
    zl_group g;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pO&$O:init", names, &strict, ext_utf8_read, &backend,
                                     &factory))
        return NULL;
    if (factory != Py_None && !PyCallable_Check(factory))
        return PyErr_Format(PyExc_TypeError,
                            "distributed.init: all_gather_factory must be a function, not %.100s",
                            Py_TYPE(factory)->tp_name);
    if (factory != Py_None && strcmp(backend, "jaccl"))
        return PyErr_Format(PyExc_ValueError,
                            "distributed.init: all_gather_factory is for the backend jaccl, not %.100s",
                            backend);
    Py_BEGIN_ALLOW_THREADS g = zl_group_init(strict, backend);
    Py_END_ALLOW_THREADS return wrap(g);
}

// Collectives -----------------------------------------------------------------------------------------------

// Reads a group= argument; None becomes NULL.
static bool read_group(const char *function, PyObject *o, zl_group *out) {
    *out = Py_TYPE(o) == &group_type ? ((struct group *)o)->value : NULL;
    if (*out || o == Py_None)
        return true;
    PyErr_Format(PyExc_TypeError, "distributed.%s: the group must be a Group or None, not %.100s", function,
                 Py_TYPE(o)->tp_name);
    return false;
}

// Opens the scope in which a collective is recorded. The first use of the default group may wait for other
// processes.
static bool begin(const char *function, PyObject *group, PyObject *stream, zl_group *g, zl_scope *scope) {
    if (!read_group(function, group, g))
        return false;
    if (!*g) {
        zl_group all;
        Py_BEGIN_ALLOW_THREADS all = zl_group_init(false, "any");
        Py_END_ALLOW_THREADS if (!all) return ext_raise(), false;
        *g = all;
    } else {
        zl_group_retain(*g);
    }
    if (ext_scope(stream == Py_None ? NULL : stream, scope))
        return true;
    zl_group_release(*g);
    return false;
}

static PyObject *finish(zl_array y, zl_group g, zl_scope scope) {
    PyObject *result = PyErr_Occurred() ? NULL : ext_wrap(y);
    zl_scope_end(scope);
    zl_group_release(g);
    return result;
}

static PyObject *together(PyObject *args, PyObject *kwargs, const char *form,
                          zl_array (*call)(zl_array x, zl_group g)) {
    static char *names[] = {"x", "group", "stream", NULL};
    PyObject *x, *group = Py_None, *stream = Py_None;
    zl_group g;
    zl_scope scope;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &x, &group, &stream) ||
        !begin(strchr(form, ':') + 1, group, stream, &g, &scope))
        return NULL;
    zl_array a = ext_array_held(x);
    return finish(a ? call(a, g) : NULL, g, scope);
}

#define TOGETHER(name)                                                          \
    static PyObject *name(PyObject *module, PyObject *args, PyObject *kwargs) { \
        (void)module;                                                           \
        return together(args, kwargs, "O|$OO:" #name, zl_##name);               \
    }
TOGETHER(all_sum)
TOGETHER(all_max)
TOGETHER(all_min)
TOGETHER(all_gather)
TOGETHER(sum_scatter)
TOGETHER(all_to_all)

static zl_array recv_like_array(zl_array x, int src, zl_group g) {
    zl_shape shape = zl_shape_of(x);
    return zl_recv(shape, zl_dtype_of(x), src, g);
}

static PyObject *with_peer(PyObject *args, PyObject *kwargs, const char *form, char *peer_name,
                           zl_array (*call)(zl_array x, int peer, zl_group g)) {
    char *names[] = {"x", peer_name, "group", "stream", NULL};
    PyObject *x, *group = Py_None, *stream = Py_None;
    int peer;
    zl_group g;
    zl_scope scope;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &x, &peer, &group, &stream) ||
        !begin(strchr(form, ':') + 1, group, stream, &g, &scope))
        return NULL;
    zl_array a = ext_array_held(x);
    return finish(a ? call(a, peer, g) : NULL, g, scope);
}

static PyObject *send(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return with_peer(args, kwargs, "Oi|$OO:send", "dst", zl_send);
}

static PyObject *recv_like(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return with_peer(args, kwargs, "Oi|$OO:recv_like", "src", recv_like_array);
}

static PyObject *broadcast(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return with_peer(args, kwargs, "Oi|$OO:broadcast", "root", zl_broadcast);
}

static PyObject *recv(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"shape", "dtype", "src", "group", "stream", NULL};
    PyObject *shape, *dtype, *group = Py_None, *stream = Py_None;
    struct ext_list list;
    zl_dtype type;
    int src;
    zl_group g;
    zl_scope scope;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOi|$OO:recv", names, &shape, &dtype, &src, &group,
                                     &stream) ||
        !ext_dtype_read(dtype, &type) || !ext_list_read(shape, &list))
        return NULL;
    PyObject *result = NULL;
    if (begin("recv", group, stream, &g, &scope))
        result = finish(zl_recv((zl_shape){list.item, list.count}, type, src, g), g, scope);
    ext_list_free(&list);
    return result;
}

static PyObject *barrier(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"group", NULL};
    PyObject *group = Py_None;
    zl_group g;
    bool ok;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:barrier", names, &group) ||
        !read_group("barrier", group, &g))
        return NULL;
    Py_BEGIN_ALLOW_THREADS ok = zl_group_barrier(g);
    Py_END_ALLOW_THREADS return ok ? Py_NewRef(Py_None) : ext_raise();
}

static PyMethodDef functions[] = {
    {"is_available", KEYWORDS(is_available),
     PyDoc_STR("is_available(backend='any')\n--\n\nWhether this machine has what a backend needs: any, ring, "
               "mpi or nccl.")},
    {"init", KEYWORDS(init),
     PyDoc_STR(
         "init(strict=False, backend='any', *, all_gather_factory=None)\n--\n\nThe group of all processes "
         "that a launcher "
         "started together. Where there is none: a group of this process alone, or an error if strict.")},
    {"all_sum", KEYWORDS(all_sum),
     PyDoc_STR("all_sum(x, *, group=None, stream=None)\n--\n\nThe sum over all processes.")},
    {"all_max", KEYWORDS(all_max),
     PyDoc_STR("all_max(x, *, group=None, stream=None)\n--\n\nThe largest of all processes.")},
    {"all_min", KEYWORDS(all_min),
     PyDoc_STR("all_min(x, *, group=None, stream=None)\n--\n\nThe smallest of all processes.")},
    {"all_gather", KEYWORDS(all_gather),
     PyDoc_STR(
         "all_gather(x, *, group=None, stream=None)\n--\n\nWhat all processes have, along the first axis.")},
    {"sum_scatter", KEYWORDS(sum_scatter),
     PyDoc_STR("sum_scatter(x, *, group=None, stream=None)\n--\n\nThis process's part of the sum, along the "
               "first axis.")},
    {"all_to_all", KEYWORDS(all_to_all),
     PyDoc_STR("all_to_all(x, *, group=None, stream=None)\n--\n\nPart k of the first axis goes to process k; "
               "the result has a part of each.")},
    {"broadcast", KEYWORDS(broadcast),
     PyDoc_STR(
         "broadcast(x, root, *, group=None, stream=None)\n--\n\nWhat process root has, on all of them.")},
    {"send", KEYWORDS(send),
     PyDoc_STR("send(x, dst, *, group=None, stream=None)\n--\n\nSends x to a process when it is evaluated; "
               "gives x.")},
    {"recv", KEYWORDS(recv),
     PyDoc_STR("recv(shape, dtype, src, *, group=None, stream=None)\n--\n\nAn array of a process.")},
    {"recv_like", KEYWORDS(recv_like),
     PyDoc_STR("recv_like(x, src, *, group=None, stream=None)\n--\n\nAn array of a process, with the shape "
               "and dtype of x.")},
    {"barrier", KEYWORDS(barrier),
     PyDoc_STR("barrier(*, group=None)\n--\n\nWaits until all processes have come to it.")},
    {0},
};

bool ext_add_distributed(PyObject *core) {
    PyObject *module = ext_submodule(core, "distributed", "Communication between processes.");
    return module && PyModule_AddFunctions(module, functions) == 0 &&
           PyModule_AddType(module, &group_type) == 0;
}
