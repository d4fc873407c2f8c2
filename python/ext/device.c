// device.c - Device, DeviceType and functions about the available devices. Every device of the library with
// memory of its own is a "gpu" here.

#include <stdatomic.h>
#include <string.h>
#include <sys/utsname.h>

#include "device.h"

static const char *const type_name[] = {"cpu", "gpu"};
static PyObject *type_member[DEVICE_TYPES]; // of the enumeration DeviceType

struct device_cell {
    PyObject base;
    struct device device;
};

static PyTypeObject device_type;

// What is here ----------------------------------------------------------------------------------------------

// Returns DEVICE_TYPES for a device of neither type: a driver that runs on the host's CPU is not a GPU.
static enum device_type type_of(const zl_device_info *info) {
    return !strcmp(info->device, "cpu") ? DEVICE_CPU : info->is_gpu ? DEVICE_GPU : DEVICE_TYPES;
}

static bool find(struct device d, zl_device_info *info) {
    int unit = 0;
    for (int i = 0; zl_device(i, info); i++)
        if (info->available && type_of(info) == d.type && unit++ == d.unit)
            return true;
    return false;
}

// Raises the exception for a missing device. If there is no device of its type, the message says why.
static void raise_absent(const char *function, struct device d) {
    char why[600] = "";
    int used = 0;
    zl_device_info info;
    for (int i = 0; !find((struct device){d.type, 0}, &info) && zl_device(i, &info); i++)
        if (!info.available && used < (int)sizeof why)
            used += snprintf(why + used, sizeof why - (size_t)used, "%s%s: %s", used ? "; " : "", info.device,
                             info.reason);
    PyErr_Format(PyExc_ValueError, "%s: there is no Device(%s, %d) here%s%s%s", function, type_name[d.type],
                 d.unit, used ? " (" : "", why, used ? ")" : "");
}

const char *device_name(const char *function, struct device d, char text[static DEVICE_NAME]) {
    zl_device_info info;
    if (find(d, &info)) {
        snprintf(text, DEVICE_NAME, info.unit ? "%s:%d" : "%s", info.device, info.unit);
        return text;
    }
    raise_absent(function, d);
    return NULL;
}

bool device_has(struct device d, zl_stream s) {
    zl_device_info info;
    int unit = 0;
    const char *name = s ? zl_stream_device(s, &unit) : NULL;
    return name && find(d, &info) && !strcmp(info.device, name) && info.unit == unit;
}

// The default -----------------------------------------------------------------------------------------------

static _Atomic int standard; // type and unit, from 1; 0: the device of the library's default stream

// Returns the device of the library's default stream, or the CPU if it has no such stream.
static struct device library_default(void) {
    struct device d = {DEVICE_CPU, 0};
    zl_device_info info;
    zl_stream s = zl_default_stream();
    if (!s || device_has(d, s))
        return d;
    for (d.type = DEVICE_GPU; find(d, &info); d.unit++)
        if (device_has(d, s))
            return d;
    return (struct device){DEVICE_CPU, 0};
}

struct device device_default(void) {
    int both = atomic_load(&standard) - 1;
    return both < 0 ? library_default()
                    : (struct device){(enum device_type)(both % DEVICE_TYPES), both / DEVICE_TYPES};
}

int device_set_default(struct device d) {
    return atomic_exchange(&standard, d.unit * DEVICE_TYPES + (int)d.type + 1);
}

int device_default_number(void) {
    return atomic_load_explicit(&standard, memory_order_relaxed);
}

void device_set_default_number(int number) {
    atomic_store(&standard, number);
}

// DeviceType ------------------------------------------------------------------------------------------------

static PyObject *compare_devices(PyObject *left, PyObject *right, int how);

static PyObject *type_equal(PyObject *self, PyObject *other) {
    return compare_devices(self, other, Py_EQ);
}

static PyObject *type_differs(PyObject *self, PyObject *other) {
    return compare_devices(self, other, Py_NE);
}

static PyMethodDef type_methods[] = {
    {"__eq__", type_equal, METH_O, PyDoc_STR("A type equals the first device of that type.")},
    {"__ne__", type_differs, METH_O, NULL},
};

// Makes DeviceType as an enum.Enum, so that it iterates, prints and pickles as one, but with our comparisons.
static PyObject *make_types(void) {
    PyObject *module = PyImport_ImportModule("enum"), *result = NULL;
    PyObject *base = module ? PyObject_GetAttrString(module, "Enum") : NULL;
    PyObject *text = base ? PyObject_GetAttrString(base, "__str__") : NULL;
    PyObject *args = Py_BuildValue("(s{sisi})", "DeviceType", type_name[0], 0, type_name[1], 1);
    PyObject *names = Py_BuildValue("{ss}", "module", "zellige.core");
    if (text && args && names)
        result = PyObject_Call(base, args, names);
    if (result && PyObject_SetAttrString(result, "__repr__", text))
        Py_CLEAR(result);
    Py_XDECREF(names);
    Py_XDECREF(args);
    Py_XDECREF(text);
    Py_XDECREF(base);
    Py_XDECREF(module);
    return result;
}

static bool add_comparisons(PyObject *types) {
    for (int i = 0; i < COUNT(type_methods); i++) {
        PyObject *method = PyDescr_NewMethod((PyTypeObject *)types, &type_methods[i]);
        int failed = method ? PyObject_SetAttrString(types, type_methods[i].ml_name, method) : -1;
        Py_XDECREF(method);
        if (failed)
            return false;
    }
    return true;
}

static bool add_types(PyObject *core) {
    PyObject *types = make_types();
    bool ok = types && add_comparisons(types);
    for (int i = 0; ok && i < DEVICE_TYPES; i++) {
        Py_XSETREF(type_member[i], PyObject_GetAttrString(types, type_name[i]));
        ok = type_member[i] && ext_add(core, type_name[i], Py_NewRef(type_member[i]));
    }
    ok = ok && ext_add(core, "DeviceType", Py_NewRef(types));
    Py_XDECREF(types);
    return ok;
}

static bool read_type(PyObject *o, enum device_type *out) {
    for (int i = 0; i < DEVICE_TYPES; i++)
        if (o == type_member[i]) {
            *out = (enum device_type)i;
            return true;
        }
    return false;
}

// Device ----------------------------------------------------------------------------------------------------

PyObject *device_object(struct device d) {
    struct device_cell *cell = PyObject_New(struct device_cell, &device_type);
    if (cell)
        cell->device = d;
    return (PyObject *)cell;
}

static bool read_device(PyObject *o, struct device *out) {
    out->unit = 0;
    if (Py_TYPE(o) != &device_type)
        return read_type(o, &out->type);
    *out = ((struct device_cell *)o)->device;
    return true;
}

bool device_is(PyObject *o) {
    struct device ignored;
    return read_device(o, &ignored);
}

bool device_read(const char *function, PyObject *o, struct device *out) {
    if (read_device(o, out))
        return true;
    PyErr_Format(PyExc_TypeError, "%s: a Device or a DeviceType is needed, not %.100s", function,
                 Py_TYPE(o)->tp_name);
    return false;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"type", "index", NULL};
    PyObject *kind;
    struct device d = {DEVICE_CPU, 0};
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:Device", names, &kind, &d.unit))
        return NULL;
    if (!read_type(kind, &d.type)) {
        PyErr_Format(PyExc_TypeError, "Device: the type must be cpu or gpu, a DeviceType, not %.100s",
                     Py_TYPE(kind)->tp_name);
        return NULL;
    }
    return device_object(d);
}

static PyObject *device_repr(PyObject *self) {
    struct device d = ((struct device_cell *)self)->device;
    return PyUnicode_FromFormat("Device(%s, %d)", type_name[d.type], d.unit);
}

static PyObject *compare_devices(PyObject *left, PyObject *right, int how) {
    struct device a, b;
    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    bool equal = read_device(left, &a) && read_device(right, &b) && a.type == b.type && a.unit == b.unit;
    return PyBool_FromLong(equal == (how == Py_EQ));
}

// Hashes a device. The first device of a type has the hash of that type, which it equals.
static Py_hash_t device_hash(PyObject *self) {
    struct device d = ((struct device_cell *)self)->device;
    Py_hash_t hash = PyObject_Hash(type_member[d.type]) ^ d.unit;
    return hash == -1 ? -2 : hash;
}

static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(type_member[((struct device_cell *)self)->device.type]);
}

static PyGetSetDef device_members[] = {
    {"type", get_type, NULL, PyDoc_STR("cpu or gpu, a DeviceType."), NULL},
    {0},
};

static PyTypeObject device_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.Device",
    .tp_doc = PyDoc_STR("Device(type, index=0)\n--\n\nWhere ops run."),
    .tp_basicsize = sizeof(struct device_cell),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = device_new,
    .tp_repr = device_repr,
    .tp_richcompare = compare_devices,
    .tp_hash = device_hash,
    .tp_getset = device_members,
};

// Functions -------------------------------------------------------------------------------------------------

static PyObject *default_device(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return device_object(device_default());
}

static bool read_argument(PyObject *args, PyObject *kwargs, const char *form, char *name,
                          struct device *out) {
    char *names[] = {name, NULL};
    PyObject *o;
    return PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &o) &&
           device_read(strchr(form, ':') + 1, o, out);
}

static PyObject *set_default_device(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    char name[DEVICE_NAME];
    (void)module;
    if (!read_argument(args, kwargs, "O:set_default_device", "device", &d) ||
        !device_name("set_default_device", d, name))
        return NULL;
    int old = device_set_default(d);
    if (stream_follow_device())
        Py_RETURN_NONE;
    device_set_default_number(old);
    return NULL;
}

static PyObject *is_available(PyObject *module, PyObject *args, PyObject *kwargs) {
    struct device d;
    zl_device_info info;
    (void)module;
    if (!read_argument(args, kwargs, "O:is_available", "device", &d))
        return NULL;
    return PyBool_FromLong(find(d, &info));
}

static PyObject *device_count(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"device_type", NULL};
    PyObject *o;
    struct device d = {DEVICE_CPU, 0};
    zl_device_info info;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:device_count", names, &o))
        return NULL;
    if (!read_type(o, &d.type)) {
        PyErr_Format(PyExc_TypeError, "device_count: a DeviceType is needed, not %.100s",
                     Py_TYPE(o)->tp_name);
        return NULL;
    }
    while (find(d, &info))
        d.unit++;
    return PyLong_FromLong(d.unit);
}

static PyObject *describe(const zl_device_info *info) {
    struct utsname system;
    const char *machine = uname(&system) == 0 ? system.machine : "unknown";
    const char *model = info->model && *info->model ? info->model : machine;
    const char *architecture = type_of(info) == DEVICE_CPU ? machine : info->detail;
    return Py_BuildValue("{sNsNsn}", "architecture", ext_text(architecture, strlen(architecture)),
                         "device_name", ext_text(model, strlen(model)), "memory_size",
                         (Py_ssize_t)info->memory);
}

// As in MLX, the result for a missing device is empty.
static PyObject *device_info(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"d", NULL};
    PyObject *o = Py_None;
    struct device d = device_default();
    zl_device_info info;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:device_info", names, &o))
        return NULL;
    if (o != Py_None && !device_read("device_info", o, &d))
        return NULL;
    return find(d, &info) ? describe(&info) : PyDict_New();
}

#define ROW(name, doc) \
    { #name, (PyCFunction)(void (*)(void))name, METH_VARARGS | METH_KEYWORDS, PyDoc_STR(doc) }
static PyMethodDef functions[] = {
    {"default_device", default_device, METH_NOARGS,
     PyDoc_STR("default_device()\n--\n\nThe device that ops run on unless told otherwise.")},
    ROW(set_default_device, "set_default_device(device)\n--\n\nOps run there unless told otherwise."),
    ROW(is_available, "is_available(device)\n--\n\nWhether the device is here."),
    ROW(device_count, "device_count(device_type)\n--\n\nHow many devices of a type are here."),
    ROW(device_info,
        "device_info(d=None)\n--\n\nArchitecture, name and bytes of memory of a device, as a dict."),
    {0},
};

bool ext_add_devices(PyObject *core) {
    return PyModule_AddType(core, &device_type) == 0 && add_types(core) &&
           PyModule_AddFunctions(core, functions) == 0 && stream_add(core);
}
