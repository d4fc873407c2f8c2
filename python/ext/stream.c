// stream.c - Stream, ThreadLocalStream and StreamContext, and the default streams. Streams belong to threads,
// as in MLX: those of a thread are in the dictionary that Python has for each thread, and are freed with it.

#include <stdatomic.h>

#include "device.h"

struct stream {
    PyObject base;
    struct device device;
    int index;
    int64_t owner;    // number of the thread; 0: any thread, each of which has a stream of its own
    zl_stream stream; // NULL if owner is 0
};

static PyTypeObject stream_type, local_type;

static _Atomic int streams, locals;      // number made so far
static _Atomic int64_t threads;          // number of threads that have got a number
static _Thread_local int64_t own_number; // 0: none yet, or its streams were cleared
// the number of the default device when this thread's default stream was chosen
static _Thread_local int followed;

static int64_t thread_number(void) {
    if (!own_number)
        own_number = atomic_fetch_add(&threads, 1) + 1;
    return own_number;
}

static struct stream *make(PyTypeObject *type, struct device d, int index, zl_stream stream) {
    struct stream *s = PyObject_New(struct stream, type);
    if (!s)
        return NULL;
    s->device = d;
    s->index = index;
    s->owner = stream ? thread_number() : 0;
    s->stream = stream;
    return s;
}

static struct stream *make_own(struct device d, zl_stream stream) {
    if (!stream)
        return ext_raise();
    return make(&stream_type, d, atomic_fetch_add(&streams, 1), stream);
}

// What this thread has --------------------------------------------------------------------------------------

static const char table_name[] = "zellige.core.streams";

// Returns this thread's streams by key, borrowed: default streams by device, and its own streams for streams
// of any thread by object.
static PyObject *own_table(void) {
    PyObject *all = PyThreadState_GetDict(); // NULL without an exception if memory runs out
    PyObject *table = all ? PyDict_GetItemString(all, table_name) : PyErr_NoMemory();
    if (table || !all)
        return table;
    table = PyDict_New();
    if (!table || PyDict_SetItemString(all, table_name, table))
        Py_CLEAR(table);
    Py_XDECREF(table); // `all` holds a reference
    return table;
}

// Stores s, and takes over the reference to it.
static struct stream *remember(PyObject *table, PyObject *key, struct stream *s) {
    if (s && PyDict_SetItem(table, key, (PyObject *)s))
        Py_CLEAR(s);
    return s;
}

static bool same_device(struct device a, struct device b) {
    return a.type == b.type && a.unit == b.unit;
}

static PyObject *device_key(struct device d) {
    return PyLong_FromLong((long)d.unit * DEVICE_TYPES + (long)d.type);
}

// Returns a new reference, as the functions below do.
static struct stream *default_of(const char *function, struct device d) {
    char text[DEVICE_NAME];
    const char *name = device_name(function, d, text);
    PyObject *table = name ? own_table() : NULL, *key = table ? device_key(d) : NULL;
    PyObject *known = key ? PyDict_GetItemWithError(table, key) : NULL;
    struct stream *s = (struct stream *)Py_XNewRef(known);
    if (key && !known && !PyErr_Occurred())
        s = remember(table, key, make_own(d, zl_default_stream_of(name)));
    Py_XDECREF(key);
    return s;
}

// Returns this thread's own stream for a stream of any thread.
static struct stream *own_of(PyObject *shared) {
    struct device d = ((struct stream *)shared)->device;
    char text[DEVICE_NAME];
    const char *name = device_name("stream", d, text);
    PyObject *table = name ? own_table() : NULL;
    PyObject *known = table ? PyDict_GetItemWithError(table, shared) : NULL;
    if (!table || known || PyErr_Occurred())
        return (struct stream *)Py_XNewRef(known);
    return remember(table, shared, make_own(d, zl_new_stream(name)));
}

static struct stream *resolve(const char *function, PyObject *o) {
    struct stream *s = (struct stream *)o;
    struct device d;
    if (Py_TYPE(o) == &local_type || (Py_TYPE(o) == &stream_type && !s->owner))
        return own_of(o);
    if (Py_TYPE(o) != &stream_type)
        return device_read(function, o, &d) ? default_of(function, d) : NULL;
    if (s->owner == thread_number())
        return (struct stream *)Py_NewRef(o);
    PyErr_Format(PyExc_RuntimeError,
                 "%s: %R is of another thread, or was cleared: make one here with new_stream", function, o);
    return NULL;
}

static bool check_target(PyObject *o) {
    if (Py_TYPE(o) == &stream_type || Py_TYPE(o) == &local_type || device_is(o))
        return true;
    PyErr_Format(PyExc_TypeError,
                 "stream: a Stream, ThreadLocalStream, Device or DeviceType is needed, not %.100s",
                 Py_TYPE(o)->tp_name);
    return false;
}

bool stream_is_cpu(PyObject *o) {
    struct device d;
    if (Py_TYPE(o) == &stream_type || Py_TYPE(o) == &local_type)
        return ((struct stream *)o)->device.type == DEVICE_CPU;
    return device_is(o) && device_read("stream", o, &d) && d.type == DEVICE_CPU;
}

bool ext_stream_read(PyObject *o, zl_stream *out) {
    struct device d;
    *out = NULL;
    if (o == Py_None)
        return true;
    if (!check_target(o))
        return false;
    if (device_is(o) && device_default_number() && device_read("stream", o, &d) &&
        same_device(d, device_default()))
        return true;
    struct stream *s = resolve("stream", o);
    if (s)
        *out = s->stream; // the library keeps it as long as the thread runs
    Py_XDECREF(s);
    return s != NULL;
}

// Makes s this thread's default stream of its device and, if that is the default device, the stream of ops.
static bool use(struct stream *s) {
    PyObject *table = own_table(), *key = table ? device_key(s->device) : NULL;
    bool ok = key && PyDict_SetItem(table, key, (PyObject *)s) == 0;
    Py_XDECREF(key);
    if (!ok || !same_device(s->device, device_default()))
        return ok;
    followed = device_default_number();
    return zl_set_default_stream(s->stream) || ext_raise();
}

bool stream_follow_device(void) {
    if (followed == device_default_number())
        return true;
    struct stream *s = default_of("set_default_device", device_default());
    bool ok = s && use(s);
    Py_XDECREF(s);
    return ok;
}

// Types -----------------------------------------------------------------------------------------------------

static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    return device_object(((struct stream *)self)->device);
}

static PyObject *stream_repr(PyObject *self) {
    struct stream *s = (struct stream *)self;
    const char *name = Py_TYPE(self) == &local_type ? "ThreadLocalStream" : "Stream";
    PyObject *device = device_object(s->device);
    PyObject *text = device ? PyUnicode_FromFormat("%s(%R, %d)", name, device, s->index) : NULL;
    Py_XDECREF(device);
    return text;
}

static PyObject *stream_compare(PyObject *left, PyObject *right, int how) {
    struct stream *a = (struct stream *)left, *b = (struct stream *)right;
    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    bool equal = Py_TYPE(left) == Py_TYPE(right) && a->index == b->index && same_device(a->device, b->device);
    return PyBool_FromLong(equal == (how == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *self) {
    return ((struct stream *)self)->index;
}

static PyGetSetDef stream_members[] = {
    {"device", get_device, NULL, PyDoc_STR("The Device that it is on."), NULL},
    {0},
};

static PyTypeObject stream_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.Stream",
    .tp_doc = PyDoc_STR("Work in order, on one device, of one thread."),
    .tp_basicsize = sizeof(struct stream),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = stream_repr,
    .tp_richcompare = stream_compare,
    .tp_hash = stream_hash,
    .tp_getset = stream_members,
};

static PyTypeObject local_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.ThreadLocalStream",
    .tp_doc = PyDoc_STR("Stands for a stream of its own on every thread that uses it."),
    .tp_basicsize = sizeof(struct stream),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = stream_repr,
    .tp_richcompare = stream_compare,
    .tp_hash = stream_hash,
    .tp_getset = stream_members,
};

// Contexts --------------------------------------------------------------------------------------------------

struct context {
    PyObject base;
    PyObject *target;     // the argument
    struct stream *saved; // the previous default; NULL: not entered
};

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"s", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:stream", names, &o))
        return NULL;
    if (!check_target(o))
        return NULL;
    struct context *c = (struct context *)type->tp_alloc(type, 0);
    if (c)
        c->target = Py_NewRef(o);
    return (PyObject *)c;
}

static bool switch_to(struct stream *s) {
    int old = device_set_default(s->device);
    if (use(s))
        return true;
    device_set_default_number(old);
    return false;
}

static PyObject *context_enter(PyObject *self, PyObject *unused) {
    struct context *c = (struct context *)self;
    (void)unused;
    struct stream *old = default_of("stream", device_default());
    struct stream *s = old ? resolve("stream", c->target) : NULL;
    bool ok = s && switch_to(s);
    if (ok)
        Py_XSETREF(c->saved, (struct stream *)Py_NewRef((PyObject *)old));
    Py_XDECREF(s);
    Py_XDECREF(old);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *context_exit(PyObject *self, PyObject *unused) {
    struct context *c = (struct context *)self;
    struct stream *old = c->saved;
    (void)unused;
    c->saved = NULL;
    bool ok = !old || switch_to(old);
    Py_XDECREF(old);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static void context_free(PyObject *self) {
    struct context *c = (struct context *)self;
    Py_XDECREF(c->target);
    Py_XDECREF(c->saved);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef context_methods[] = {
    {"__enter__", context_enter, METH_NOARGS, NULL},
    {"__exit__", context_exit, METH_VARARGS, NULL},
    {0},
};

static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.StreamContext",
    .tp_doc = PyDoc_STR("StreamContext(s)\n--\n\nWithin `with`, ops run on a stream or device."),
    .tp_basicsize = sizeof(struct context),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = context_new,
    .tp_dealloc = context_free,
    .tp_methods = context_methods,
};

// Functions -------------------------------------------------------------------------------------------------

static bool read_argument(PyObject *args, PyObject *kwargs, const char *form, struct device *out) {
    static char *names[] = {"device", NULL};
    PyObject *o;
    return PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &o) && device_read(form + 2, o, out);
}

static PyObject *default_stream(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    (void)module;
    return read_argument(args, kwargs, "O:default_stream", &d) ? (PyObject *)default_of("default_stream", d)
                                                               : NULL;
}

static PyObject *set_default_stream(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", NULL};
    PyObject *o;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:set_default_stream", names, &stream_type, &o))
        return NULL;
    struct stream *s = resolve("set_default_stream", o);
    bool ok = s && use(s);
    Py_XDECREF(s);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *new_stream(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    char text[DEVICE_NAME];
    (void)module;
    const char *name =
        read_argument(args, kwargs, "O:new_stream", &d) ? device_name("new_stream", d, text) : NULL;
    return name ? (PyObject *)make_own(d, zl_new_stream(name)) : NULL;
}

static PyObject *new_thread_unsafe_stream(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    char text[DEVICE_NAME];
    (void)module;
    if (!read_argument(args, kwargs, "O:new_thread_unsafe_stream", &d) ||
        !device_name("new_thread_unsafe_stream", d, text))
        return NULL;
    return (PyObject *)make(&stream_type, d, atomic_fetch_add(&streams, 1), NULL);
}

static PyObject *new_thread_local_stream(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    (void)module;
    if (!read_argument(args, kwargs, "O:new_thread_local_stream", &d))
        return NULL;
    return (PyObject *)make(&local_type, d, atomic_fetch_add(&locals, 1), NULL);
}

static PyObject *clear_streams(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *table = own_table();
    if (!table)
        return NULL;
    own_number = 0; // streams with the old number are not found any more
    PyDict_Clear(table);
    Py_RETURN_NONE;
}

static PyObject *synchronize(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", NULL};
    PyObject *o = Py_None;
    zl_stream s;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:synchronize", names, &o) || !stream_follow_device() ||
        !ext_stream_read(o, &s))
        return NULL;
    bool ok;
    Py_BEGIN_ALLOW_THREADS;
    ok = s ? zl_stream_synchronize(s) : zl_synchronize();
    Py_END_ALLOW_THREADS;
    return ok ? Py_NewRef(Py_None) : ext_raise();
}

static PyObject *stream_context(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    return context_new(&context_type, args, kwargs);
}

#define ROW(name, function, doc) \
    { name, (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS, PyDoc_STR(doc) }
static PyMethodDef functions[] = {
    ROW("default_stream", default_stream,
        "default_stream(device)\n--\n\nThis thread's default stream of a device."),
    ROW("set_default_stream", set_default_stream,
        "set_default_stream(stream)\n--\n\nThe stream becomes this thread's default for its device."),
    ROW("new_stream", new_stream, "new_stream(device)\n--\n\nA new stream, to be used on this thread."),
    ROW("new_thread_unsafe_stream", new_thread_unsafe_stream,
        "new_thread_unsafe_stream(device)\n--\n\nA new stream that any thread can use."),
    ROW("new_thread_local_stream", new_thread_local_stream,
        "new_thread_local_stream(device)\n--\n\nStands for a stream of its own on every thread."),
    ROW("stream", stream_context, "stream(s)\n--\n\nA context in which ops run on a stream or device."),
    ROW("synchronize", synchronize,
        "synchronize(stream=None)\n--\n\nWaits for what was started on a stream."),
    {"clear_streams", clear_streams, METH_NOARGS,
     PyDoc_STR("clear_streams()\n--\n\nEnds the use of all streams of this thread.")},
    {0},
};

bool stream_add(PyObject *core) {
    return PyModule_AddType(core, &stream_type) == 0 && PyModule_AddType(core, &local_type) == 0 &&
           PyModule_AddType(core, &context_type) == 0 && PyModule_AddFunctions(core, functions) == 0;
}
