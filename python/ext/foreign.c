// foreign.c - arrays from the memory of other libraries: buffers (NumPy, bytes, array.array), DLPack
// (PyTorch, JAX) and objects with __array__.
//
// Memory that other programs may write is copied, since arrays never change. Read-only buffers may be shared:
// asarray and from_dlpack do so unless they are told to copy.

#include "convert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "number.h"

enum { WORTH_SHARING = 4096 }; // bytes; sharing less costs more than copying it

struct memory {
    const char *data;
    int type; // zl_dtype, or NUMBER_COMPLEX128
    int ndim;
    int64_t dim[CONVERT_AXES];
    int64_t stride[CONVERT_AXES]; // in bytes
    bool has_strides;             // else it is row-major
    int64_t size;                 // elements
    Py_buffer *buffer;            // its buffer, which may be kept; NULL: none
};

static void *value_error(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

static zl_dtype default_dtype(int type) {
    if (type == NUMBER_COMPLEX128)
        return ZL_COMPLEX64;
    return type == ZL_FLOAT64 ? ZL_FLOAT32 : (zl_dtype)type;
}

// Layout ----------------------------------------------------------------------------------------------------

static bool count_elements(struct memory *m) {
    int64_t bytes = (int64_t)number_size(m->type);
    m->size = 1;
    for (int i = 0; i < m->ndim; i++)
        if (!convert_size(m->dim[i]))
            return false;
        else if (m->dim[i] < 0 || __builtin_mul_overflow(m->size, m->dim[i], &m->size) ||
                 __builtin_mul_overflow(bytes, m->dim[i] ? m->dim[i] : 1, &bytes))
            return value_error(
                "array(): the memory of an argument has a negative size or more bytes than there can be.");
    return true;
}

static void set_row_major(struct memory *m) {
    int64_t step = (int64_t)number_size(m->type);
    for (int i = m->ndim - 1; i >= 0; step *= m->dim[i--])
        m->stride[i] = step;
}

static bool is_row_major(const struct memory *m) {
    int64_t step = (int64_t)number_size(m->type);
    for (int i = m->ndim - 1; i >= 0; step *= m->dim[i--])
        if (m->dim[i] != 1 && m->stride[i] != step)
            return m->size == 0;
    return true;
}

// Returns the number of elements from the first to the last in memory, or -1 for layouts that no array has.
static int64_t find_extent(const struct memory *m) {
    int64_t item = (int64_t)number_size(m->type), extent = 1, span;
    for (int i = 0; i < m->ndim; i++)
        if (m->stride[i] < 0 || m->stride[i] % item ||
            __builtin_mul_overflow(m->dim[i] - 1, m->stride[i] / item, &span) ||
            __builtin_add_overflow(extent, span, &extent))
            return -1;
    return extent;
}

static bool goes_backward(const struct memory *m) {
    for (int i = 0; i < m->ndim; i++)
        if (m->stride[i] < 0 && m->dim[i] > 1)
            return true;
    return false;
}

#define COPY_ITEMS(bytes)                                \
    for (int64_t i = 0; i < n; i++)                      \
        memcpy(out + i * (bytes), in + i * step, bytes); \
    break

static void pack_items(char *out, const char *in, int64_t n, int64_t step, size_t item) {
    switch (item) {
    case 1: COPY_ITEMS(1);
    case 2: COPY_ITEMS(2);
    case 4: COPY_ITEMS(4);
    case 8: COPY_ITEMS(8);
    default: COPY_ITEMS(16);
    }
}

// Copies the elements at `in`, from the axis on, in row-major order. Returns where the next ones go.
static char *pack(char *out, const char *in, const struct memory *m, int axis) {
    size_t item = number_size(m->type);
    if (axis == m->ndim - 1) {
        pack_items(out, in, m->dim[axis], m->stride[axis], item);
        return out + (size_t)m->dim[axis] * item;
    }
    for (int64_t i = 0; i < m->dim[axis]; i++)
        out = pack(out, in + i * m->stride[axis], m, axis + 1);
    return out;
}

// Copying ---------------------------------------------------------------------------------------------------

static zl_array checked(zl_array lent) {
    return lent ? lent : ext_raise();
}

// Returns an array of consecutive elements.
static zl_array copy_dense(const void *data, int type, zl_shape shape, int64_t size, zl_dtype dtype) {
    if (type == (int)dtype || size == 0)
        return checked(zl_from(data, shape, dtype));
    void *converted = PyMem_RawMalloc((size_t)size * zl_dtype_size(dtype));
    if (!converted)
        return (zl_array)PyErr_NoMemory();
    number_convert(converted, dtype, data, type, (size_t)size);
    zl_array a = checked(zl_from(converted, shape, dtype));
    PyMem_RawFree(converted);
    return a;
}

// Returns a copy with the strides of the memory. It copies everything from the first element to the last,
// gaps included.
static zl_array copy_strided(const struct memory *m, int64_t extent, zl_dtype dtype) {
    int64_t stride[CONVERT_AXES];
    for (int i = 0; i < m->ndim; i++)
        stride[i] = m->stride[i] / (int64_t)number_size(m->type);
    zl_array all = copy_dense(m->data, m->type, (zl_shape){&extent, 1}, extent, dtype);
    if (!all)
        return NULL;
    zl_array view = checked(zl_as_strided(all, (zl_shape){m->dim, m->ndim}, (zl_shape){stride, m->ndim}, 0));
    return view && ext_eval(1, &view) ? view : NULL;
}

static zl_array copy_packed(const struct memory *m, zl_dtype dtype) {
    char *rows = PyMem_RawMalloc((size_t)m->size * number_size(m->type));
    if (!rows)
        return (zl_array)PyErr_NoMemory();
    pack(rows, m->data, m, 0);
    zl_array a = copy_dense(rows, m->type, (zl_shape){m->dim, m->ndim}, m->size, dtype);
    PyMem_RawFree(rows);
    return a;
}

static zl_array copy_memory(const struct memory *m, zl_dtype dtype) {
    if (is_row_major(m))
        return copy_dense(m->data, m->type, (zl_shape){m->dim, m->ndim}, m->size, dtype);
    int64_t extent = find_extent(m);
    if (extent >= 0 && extent / 2 <= m->size) // otherwise the gaps cost more than it is worth
        return copy_strided(m, extent, dtype);
    return copy_packed(m, dtype);
}

// Sharing ---------------------------------------------------------------------------------------------------

// A buffer that an array uses. The array may be freed in a thread without the GIL, which must not wait for
// it, since the thread that holds the GIL may be waiting for that thread. So the buffer is put on a list, and
// a thread that holds the GIL releases it.
struct held {
    struct held *next;
    Py_buffer buffer;
};

static _Atomic(struct held *) dropped;
static atomic_bool exiting; // the interpreter is exiting, and the exporters with it

static int release_dropped(void *unused) {
    (void)unused;
    struct held *h = atomic_exchange(&dropped, NULL);
    while (h) {
        struct held *next = h->next;
        PyBuffer_Release(&h->buffer);
        PyMem_RawFree(h);
        h = next;
    }
    return 0;
}

static void drop(void *context) {
    struct held *h = context;
    if (atomic_load(&exiting) || !Py_IsInitialized())
        return;
    h->next = atomic_load(&dropped);
    while (!atomic_compare_exchange_weak(&dropped, &h->next, h)) {
    }
    if (PyGILState_Check())
        release_dropped(NULL);
    else
        (void)Py_AddPendingCall(release_dropped, NULL); // if that fails, the next one releases this too
}

static bool is_aligned(const struct memory *m) {
    size_t item = m->type == ZL_COMPLEX64 ? 4 : number_size(m->type);
    return (uintptr_t)m->data % item == 0;
}

static bool can_share(const struct memory *m, zl_dtype dtype, enum convert_copy copy) {
    return copy != CONVERT_COPY && m->buffer && m->buffer->readonly && m->type == (int)dtype &&
           is_row_major(m) && is_aligned(m) && m->size > 0 &&
           (copy == CONVERT_NEVER_COPY || m->buffer->len >= WORTH_SHARING);
}

// Shares the buffer, and takes it over.
static zl_array share(struct memory *m, zl_dtype dtype) {
    struct held *h = PyMem_RawMalloc(sizeof *h);
    if (!h)
        return (zl_array)PyErr_NoMemory();
    h->buffer = *m->buffer;
    m->buffer->obj = NULL;
    return checked(zl_from_foreign(m->data, (zl_shape){m->dim, m->ndim}, dtype,
                                   &(zl_foreign_options){.release = drop, .context = h}));
}

static zl_array import_memory(struct memory *m, zl_dtype wanted, enum convert_copy copy) {
    zl_dtype dtype = wanted == ZL_DTYPE_COUNT ? default_dtype(m->type) : wanted;
    if (!count_elements(m))
        return NULL;
    if (!m->has_strides)
        set_row_major(m);
    if (copy != CONVERT_COPY && goes_backward(m))
        return value_error("Cannot convert DLPack arrays with negative strides to an array: copy it first.");
    if (can_share(m, dtype, copy))
        return share(m, dtype);
    if (copy == CONVERT_NEVER_COPY)
        return value_error(
            "[convert] Cannot import a CPU array without a copy: only read-only memory of the same dtype, in "
            "row-major order, is shared.");
    return copy_memory(m, dtype);
}

// Buffers ---------------------------------------------------------------------------------------------------

static int sized_type(const int by_size[4], Py_ssize_t bytes) {
    for (int i = 0; i < 4; i++)
        if (bytes == (Py_ssize_t)1 << i)
            return by_size[i];
    return -1;
}

// Returns the element type of a letter of struct's formats and a size, or -1 if there is none.
static int letter_type(char letter, Py_ssize_t bytes) {
    static const int whole[] = {ZL_INT8, ZL_INT16, ZL_INT32, ZL_INT64};
    static const int natural[] = {ZL_UINT8, ZL_UINT16, ZL_UINT32, ZL_UINT64};
    static const int real[] = {-1, ZL_FLOAT16, ZL_FLOAT32, ZL_FLOAT64};
    if (letter == '?')
        return bytes == 1 ? ZL_BOOL : -1;
    if (strchr("bhilqn", letter))
        return sized_type(whole, bytes);
    if (strchr("cBHILQN", letter))
        return sized_type(natural, bytes);
    return strchr("efd", letter) ? sized_type(real, bytes) : -1;
}

static int format_type(const char *format, Py_ssize_t bytes) {
    if (!strcmp(format, "bfloat16"))
        return ZL_BFLOAT16;
    if (*format && strchr(PY_LITTLE_ENDIAN || bytes == 1 ? "@=<" : "@=>!", *format))
        format++;
    if (!strcmp(format, "Zf"))
        return bytes == 8 ? ZL_COMPLEX64 : -1;
    if (!strcmp(format, "Zd"))
        return bytes == 16 ? NUMBER_COMPLEX128 : -1;
    return *format && !format[1] ? letter_type(*format, bytes) : -1;
}

// Reads a buffer's description of its memory. type: that of its elements if its format does not express it,
// or -1.
static bool read_buffer(Py_buffer *view, int type, struct memory *m) {
    m->data = view->buf;
    m->buffer = view;
    m->has_strides = view->strides;
    m->ndim = view->ndim;
    m->type = type >= 0 ? type : format_type(view->format ? view->format : "B", view->itemsize);
    if (m->type < 0)
        return PyErr_Format(PyExc_ValueError,
                            "array(): elements of format '%.40s' and %zd bytes are of no dtype.",
                            view->format, view->itemsize) != NULL;
    if (m->ndim > CONVERT_AXES)
        return PyErr_Format(PyExc_ValueError, "array(): a buffer of %d axes: at most %d are read.", m->ndim,
                            CONVERT_AXES) != NULL;
    for (int i = 0; i < m->ndim; i++) {
        m->dim[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
        m->stride[i] = view->strides ? view->strides[i] : 0;
    }
    return true;
}

static zl_array import_view(PyObject *o, int type, zl_dtype dtype, enum convert_copy copy) {
    Py_buffer view;
    struct memory m;
    if (PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO))
        return NULL;
    zl_array a = read_buffer(&view, type, &m) ? import_memory(&m, dtype, copy) : NULL;
    PyBuffer_Release(&view);
    return a;
}

// Returns whether o has NumPy's bfloat16, which its buffers cannot express.
static bool is_bfloat16(PyObject *o) {
    PyObject *dtype = PyObject_GetAttrString(o, "dtype"),
             *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    bool yes = name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "bfloat16");
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return yes;
}

static zl_array import_bfloat16(PyObject *o, zl_dtype dtype, enum convert_copy copy) {
    PyObject *bits = PyObject_CallMethod(o, "view", "s", "uint16");
    zl_array a = bits ? import_view(bits, ZL_BFLOAT16, dtype, copy) : NULL;
    Py_XDECREF(bits);
    return a;
}

static zl_array import_buffer(PyObject *o, zl_dtype dtype, enum convert_copy copy) {
    zl_array a = import_view(o, -1, dtype, copy);
    if (a)
        return a;
    PyErr_Clear();
    return is_bfloat16(o) ? import_bfloat16(o, dtype, copy)
                          : import_view(o, -1, dtype, copy); // raises the error again
}

// DLPack ----------------------------------------------------------------------------------------------------

static int dlpack_type(const struct dlpack_tensor *t) {
    static const char letters[] = {
        [DLPACK_INT] = 'q', [DLPACK_UINT] = 'Q', [DLPACK_FLOAT] = 'd', [DLPACK_BOOL] = '?'};
    int bits = t->dtype.bits, code = t->dtype.code;
    if (t->dtype.lanes != 1 || bits % 8)
        return -1;
    if (code == DLPACK_BFLOAT)
        return bits == 16 ? ZL_BFLOAT16 : -1;
    if (code == DLPACK_COMPLEX)
        return bits == 64 ? ZL_COMPLEX64 : bits == 128 ? NUMBER_COMPLEX128 : -1;
    return code < COUNT(letters) && letters[code] ? letter_type(letters[code], bits / 8) : -1;
}

static bool check_device(long device) {
    if (device == DLPACK_CPU || device == DLPACK_CUDA_HOST)
        return true;
    bool cuda = device == DLPACK_CUDA || device == DLPACK_CUDA_MANAGED;
    return value_error(cuda ? "[convert] CUDA import is not supported." : "[convert] Unsupported device.");
}

static bool read_dlpack(const struct dlpack_tensor *t, struct memory *m) {
    m->data = (const char *)t->data + t->byte_offset;
    m->buffer = NULL;
    m->has_strides = t->strides;
    m->ndim = t->ndim;
    m->type = dlpack_type(t);
    if (m->type < 0)
        return value_error("[convert] Cannot convert a DLPack array: its elements are of no dtype.");
    if (m->ndim < 0 || m->ndim > CONVERT_AXES)
        return value_error("[convert] Cannot convert a DLPack array of more than 64 axes.");
    for (int i = 0; i < m->ndim; i++) {
        m->dim[i] = t->shape[i];
        if (t->strides && __builtin_mul_overflow(t->strides[i], (int64_t)number_size(m->type), &m->stride[i]))
            return value_error("[convert] The strides of a DLPack array reach further than memory.");
    }
    return check_device(t->device.type);
}

// Imports a capsule, whose contents may be taken once. Frees them after they are copied.
static zl_array import_capsule(PyObject *capsule, zl_dtype dtype, enum convert_copy copy) {
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *managed = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    struct dlpack_managed *old = versioned ? NULL : managed;
    struct dlpack_versioned *recent = versioned ? managed : NULL;
    if (!managed || PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor"))
        return NULL;
    struct memory m;
    zl_array a = NULL;
    if (versioned && recent->major != 1)
        PyErr_Format(PyExc_ValueError, "[convert] A DLPack array of version %u.%u: 1 is read.", recent->major,
                     recent->minor);
    else if (read_dlpack(versioned ? &recent->tensor : &old->tensor, &m))
        a = import_memory(&m, dtype, copy);
    if (old && old->deleter)
        old->deleter(old);
    if (recent && recent->deleter)
        recent->deleter(recent);
    return a;
}

static bool check_exporter(PyObject *o) {
    PyObject *device = PyObject_CallMethod(o, "__dlpack_device__", NULL);
    PyObject *type = device ? PySequence_GetItem(device, 0) : NULL;
    long which = type ? PyLong_AsLong(type) : -1;
    Py_XDECREF(type);
    Py_XDECREF(device);
    return !PyErr_Occurred() && check_device(which);
}

static PyObject *ask_capsule(PyObject *o) {
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__"), *none = PyTuple_New(0);
    PyObject *version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    PyObject *capsule = method && none && version ? PyObject_Call(method, none, version) : NULL;
    if (!capsule && method && none && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear(); // an object from before DLPack had versions
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(version);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

static zl_array import_dlpack(PyObject *o, zl_dtype dtype, enum convert_copy copy) {
    if (PyCapsule_CheckExact(o))
        return import_capsule(o, dtype, copy);
    PyObject *capsule = check_exporter(o) ? ask_capsule(o) : NULL;
    zl_array a = NULL;
    if (capsule && PyCapsule_CheckExact(capsule))
        a = import_capsule(capsule, dtype, copy);
    else if (capsule)
        PyErr_Format(PyExc_TypeError, "%s.__dlpack__() returned %s instead of a capsule.",
                     Py_TYPE(o)->tp_name, Py_TYPE(capsule)->tp_name);
    Py_XDECREF(capsule);
    return a;
}

// Any of them -----------------------------------------------------------------------------------------------

static bool has(PyObject *o, const char *attribute) {
    return !PyType_Check(o) && PyObject_HasAttrString(o, attribute);
}

zl_array convert_memory(PyObject *o, zl_dtype dtype, enum convert_copy copy) {
    if (PyObject_CheckBuffer(o))
        return import_buffer(o, dtype, copy);
    if (PyCapsule_CheckExact(o) || has(o, "__dlpack__"))
        return import_dlpack(o, dtype, copy);
    return NULL;
}

zl_array convert_numpy(PyObject *o, zl_dtype dtype) {
    if (!has(o, "__array__"))
        return NULL;
    PyObject *result = PyObject_CallMethod(o, "__array__", NULL);
    zl_array a = NULL;
    if (result && PyObject_CheckBuffer(result))
        a = import_buffer(result, dtype, CONVERT_COPY);
    else if (result)
        PyErr_Format(PyExc_TypeError, "%s.__array__() returned %s instead of a NumPy array.",
                     Py_TYPE(o)->tp_name, Py_TYPE(result)->tp_name);
    Py_XDECREF(result);
    return a;
}

zl_array ext_from_buffer(PyObject *o) {
    return import_buffer(o, ZL_DTYPE_COUNT, CONVERT_COPY);
}

zl_array ext_from_dlpack(PyObject *o) {
    return import_dlpack(o, ZL_DTYPE_COUNT, CONVERT_MAY_SHARE);
}

// Functions of the module -----------------------------------------------------------------------------------

static bool read_copy(PyObject *o, enum convert_copy *out) {
    int copy = o == Py_None ? 0 : PyObject_IsTrue(o);
    *out = o == Py_None ? CONVERT_MAY_SHARE : copy ? CONVERT_COPY : CONVERT_NEVER_COPY;
    return copy >= 0;
}

static zl_array as_array(PyObject *o, zl_dtype dtype, enum convert_copy copy) {
    bool plain =
        ext_is_array(o) || PyList_Check(o) || PyTuple_Check(o) || PyFloat_Check(o) || PyLong_Check(o);
    zl_array a = plain || copy == CONVERT_COPY ? NULL : convert_memory(o, dtype, copy);
    if (a || PyErr_Occurred())
        return a;
    if (copy == CONVERT_NEVER_COPY)
        return value_error("Unable to avoid copy while creating an array as requested.");
    return ext_array_from(o, dtype);
}

static PyObject *asarray(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    static char *names[] = {"", "dtype", "copy", NULL};
    PyObject *o, *dtype_object = Py_None, *copy_object = Py_None;
    zl_dtype dtype = ZL_DTYPE_COUNT;
    enum convert_copy copy;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$O:asarray", names, &o, &dtype_object, &copy_object) ||
        (dtype_object != Py_None && !ext_dtype_read(dtype_object, &dtype)) || !read_copy(copy_object, &copy))
        return NULL;
    zl_scope scope = ext_begin();
    zl_array a = as_array(o, dtype, copy);
    PyObject *result = a ? ext_wrap(a) : NULL;
    zl_scope_end(scope);
    return result;
}

static zl_array from_exporter(PyObject *o, enum convert_copy copy) {
    if (ext_is_array(o) && copy != CONVERT_NEVER_COPY)
        return ext_array_of(o);
    zl_array a = convert_memory(o, ZL_DTYPE_COUNT, copy);
    if (!a && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "from_dlpack(): incompatible argument of type %s: an object with __dlpack__ or a "
                     "buffer is needed",
                     Py_TYPE(o)->tp_name);
    return a;
}

static PyObject *from_dlpack(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    static char *names[] = {"", "copy", NULL};
    PyObject *o, *copy_object = Py_None;
    enum convert_copy copy;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:from_dlpack", names, &o, &copy_object) ||
        !read_copy(copy_object, &copy))
        return NULL;
    zl_scope scope = ext_begin();
    zl_array a = from_exporter(o, copy);
    PyObject *result = a ? ext_wrap(a) : NULL;
    zl_scope_end(scope);
    return result;
}

static PyObject *stop_releasing(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    atomic_store(&exiting, true);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"asarray", (PyCFunction)(void (*)(void))asarray, METH_VARARGS | METH_KEYWORDS,
     "asarray(a, /, dtype=None, *, copy=None)\n--\n\n"
     "An array of what array() takes. copy=None shares read-only memory, True copies, False raises where it "
     "would copy."},
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /, *, copy=None)\n--\n\nAn array of an object with __dlpack__ or a buffer. copy as in "
     "asarray()."},
    {0},
};

bool foreign_add(PyObject *core) {
    static PyMethodDef stop = {"stop_releasing", stop_releasing, METH_NOARGS, NULL};
    PyObject *library = PyImport_ImportModule("atexit"), *callback = PyCFunction_New(&stop, NULL);
    PyObject *done = library && callback ? PyObject_CallMethod(library, "register", "O", callback) : NULL;
    bool ok = done && !PyModule_AddFunctions(core, functions);
    Py_XDECREF(done);
    Py_XDECREF(callback);
    Py_XDECREF(library);
    return ok;
}
