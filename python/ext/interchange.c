// interchange.c - access of other libraries to arrays: the buffer protocol, DLPack, NumPy, pickles and
// copies.
//
// Each access has an export, which keeps the value that the array had, since the array may get another value
// meanwhile.

#include "convert.h"

#include <string.h>

#include "dlpack.h"
#include "dtype.h"
#include "number.h"

struct export {
    struct dlpack_managed managed; // used by DLPack
    zl_array kept;                 // owns data, unless copy does
    void *copy;
    void *data;
    zl_dtype dtype;
    int ndim;
    int64_t *strides; // in elements
    int64_t sizes[];  // ndim sizes, then ndim strides
};

static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "sizes of exports are lent as Py_ssize_t");

// Frees an export, on any thread, with or without the GIL.
static void export_free(struct export *e) {
    if (e && e->kept)
        zl_release(e->kept);
    if (e)
        PyMem_RawFree(e->copy);
    PyMem_RawFree(e);
}

static struct export *export_new(zl_array a) {
    int ndim = zl_ndim(a);
    struct export *e = PyMem_RawCalloc(1, sizeof *e + 2 * sizeof(int64_t) * (size_t)ndim);
    if (!e)
        return (struct export *)PyErr_NoMemory();
    e->ndim = ndim;
    e->dtype = zl_dtype_of(a);
    e->strides = e->sizes + ndim;
    for (int i = 0; i < ndim; i++)
        e->sizes[i] = zl_shape_of(a).dim[i];
    return e;
}

static bool allocate(struct export *e, size_t bytes) {
    e->data = e->copy = PyMem_RawCalloc(bytes ? bytes : 1, 1);
    if (!e->copy)
        PyErr_NoMemory();
    return e->copy != NULL;
}

static void set_row_major(struct export *e) {
    int64_t step = 1;
    for (int i = e->ndim - 1; i >= 0; step *= e->sizes[i--])
        e->strides[i] = step;
}

// Exports a copy of a in row-major order.
static bool export_rows(struct export *e, zl_array a) {
    const void *data = convert_read(a);
    set_row_major(e);
    if (!data || !allocate(e, zl_nbytes(a)))
        return false;
    memcpy(e->copy, data, zl_nbytes(a));
    return true;
}

// Exports the memory of a view that is row-major with its axes in another order. Returns false, without an
// exception, if a is not such a view.
static bool export_permuted(struct export *e, zl_array a) {
    const int64_t *stride = zl_strides_of(a).dim;
    int order[CONVERT_AXES];
    for (int i = 0; i < e->ndim; i++) {
        int at = i;
        for (; at > 0 && stride[order[at - 1]] < stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    zl_array rows = zl_transpose(a, (zl_axes){order, e->ndim});
    if (!rows || !zl_is_contiguous(rows) || !zl_eval(rows) || !(e->data = (void *)zl_data(rows))) {
        zl_clear_error();
        return false;
    }
    e->kept = zl_retain(rows);
    memcpy(e->strides, stride, sizeof(int64_t) * (size_t)e->ndim);
    return true;
}

// Returns the number of elements from the first to the last in memory, or -1 if some are before the first, or
// if there are too many gaps to copy.
static int64_t find_extent(zl_array a) {
    zl_shape shape = zl_shape_of(a), strides = zl_strides_of(a);
    int64_t extent = 1;
    for (int i = 0; i < shape.ndim; i++) {
        extent += (shape.dim[i] - 1) * strides.dim[i];
        if (strides.dim[i] < 0 || extent / 2 > zl_size(a))
            return -1;
    }
    return extent;
}

// Writes row-major elements to the positions that the strides give. Returns the address of the next element.
static const char *spread(struct export *e, int axis, char *out, const char *in, size_t item) {
    if (axis == e->ndim) {
        memcpy(out, in, item);
        return in + item;
    }
    for (int64_t i = 0; i < e->sizes[axis]; i++)
        in = spread(e, axis + 1, out + (size_t)(i * e->strides[axis]) * item, in, item);
    return in;
}

// Exports a copy of a with its strides.
static bool export_strided(struct export *e, zl_array a, int64_t extent) {
    size_t item = zl_dtype_size(e->dtype);
    memcpy(e->strides, zl_strides_of(a).dim, sizeof(int64_t) * (size_t)e->ndim);
    const char *data = convert_read(a);
    if (!data || !allocate(e, (size_t)extent * item))
        return false;
    spread(e, 0, e->copy, data, item);
    return true;
}

// Exports the memory of a if its layout can be expressed, otherwise a copy. The value of a scalar has no
// lasting address.
static bool export_view(struct export *e, zl_array a) {
    if (zl_size(a) <= 1 || e->ndim > CONVERT_AXES)
        return export_rows(e, a);
    if (zl_is_contiguous(a)) {
        set_row_major(e);
        e->data = (void *)zl_data(a);
        e->kept = e->data ? zl_retain(a) : NULL;
        return e->data || ext_raise();
    }
    if (export_permuted(e, a))
        return true;
    int64_t extent = find_extent(a);
    return extent < 0 ? export_rows(e, a) : export_strided(e, a, extent);
}

enum export_layout { EXPORT_VIEW, EXPORT_ROWS, EXPORT_COPY };

// Evaluates an array and exports its value. The caller opens the scope.
static struct export *export_array(PyObject *array, enum export_layout layout) {
    zl_array a = zl_retain(ext_value(array));
    struct export *e = ext_eval(1, &a) ? export_new(a) : NULL;
    bool rows = layout == EXPORT_COPY || (layout == EXPORT_ROWS && !zl_is_contiguous(a));
    if (e && !(rows ? export_rows(e, a) : export_view(e, a))) {
        export_free(e);
        e = NULL;
    }
    zl_release(a);
    return e;
}

// Buffers ---------------------------------------------------------------------------------------------------

static char *buffer_format(zl_dtype dtype) {
    static char *const formats[ZL_DTYPE_COUNT] = {
        [ZL_BOOL] = "?",    [ZL_UINT8] = "B",      [ZL_UINT16] = "H",          [ZL_UINT32] = "I",
        [ZL_UINT64] = "Q",  [ZL_INT8] = "b",       [ZL_INT16] = "h",           [ZL_INT32] = "i",
        [ZL_INT64] = "q",   [ZL_FLOAT16] = "e",    [ZL_BFLOAT16] = "bfloat16", [ZL_FLOAT32] = "f",
        [ZL_FLOAT64] = "d", [ZL_COMPLEX64] = "Zf",
    };
    return formats[dtype];
}

static void fill_view(Py_buffer *view, struct export *e, int flags) {
    Py_ssize_t item = (Py_ssize_t)zl_dtype_size(e->dtype), len = item;
    for (int i = 0; i < e->ndim; i++) {
        len *= e->sizes[i];
        e->strides[i] *= item;
    }
    *view = (Py_buffer){.buf = e->data, .itemsize = item, .len = len, .ndim = e->ndim, .internal = e};
    if (flags & PyBUF_FORMAT)
        view->format = buffer_format(e->dtype);
    if (flags & PyBUF_ND)
        view->shape = (Py_ssize_t *)e->sizes;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES)
        view->strides = (Py_ssize_t *)e->strides;
}

static bool wants(int flags, int what) {
    return (flags & what) == what;
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    bool rows = !wants(flags, PyBUF_STRIDES) || wants(flags, PyBUF_C_CONTIGUOUS);
    zl_scope scope = ext_begin();
    struct export *e = export_array(self, rows ? EXPORT_ROWS : EXPORT_VIEW);
    zl_scope_end(scope);
    view->obj = NULL;
    if (!e)
        return -1;
    fill_view(view, e, flags);
    if (wants(flags, PyBUF_F_CONTIGUOUS) && !PyBuffer_IsContiguous(view, 'F')) {
        export_free(e);
        PyErr_SetString(PyExc_BufferError,
                        "the array is not in column-major order, which the buffer should be in");
        return -1;
    }
    view->obj = Py_NewRef(self);
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view) {
    (void)self;
    export_free(view->internal);
}

PyBufferProcs ext_array_buffer = {get_buffer, release_buffer};

static PyObject *to_bytes(PyObject *self, PyObject *unused) {
    (void)unused;
    zl_scope scope = ext_begin();
    zl_array a = zl_retain(ext_value(self));
    const char *data = convert_read(a);
    PyObject *bytes = data ? PyBytes_FromStringAndSize(data, (Py_ssize_t)zl_nbytes(a)) : NULL;
    zl_release(a);
    zl_scope_end(scope);
    return bytes;
}

// DLPack ----------------------------------------------------------------------------------------------------

static void delete_managed(struct dlpack_managed *managed) {
    export_free(managed->context);
}

static void delete_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
}

static int dlpack_code(zl_dtype dtype) {
    if (dtype == ZL_BOOL)
        return DLPACK_BOOL;
    if (dtype == ZL_BFLOAT16)
        return DLPACK_BFLOAT;
    if (dtype == ZL_COMPLEX64)
        return DLPACK_COMPLEX;
    return dtype > ZL_INT64 ? DLPACK_FLOAT : dtype > ZL_UINT64 ? DLPACK_INT : DLPACK_UINT;
}

static PyObject *make_capsule(struct export *e) {
    e->managed = (struct dlpack_managed){.context = e, .deleter = delete_managed};
    struct dlpack_tensor *t = &e->managed.tensor;
    t->data = e->data;
    t->device.type = DLPACK_CPU;
    t->ndim = e->ndim;
    t->dtype.code = (uint8_t)dlpack_code(e->dtype);
    t->dtype.bits = (uint8_t)(8 * zl_dtype_size(e->dtype));
    t->dtype.lanes = 1;
    t->shape = e->sizes;
    t->strides = e->strides;
    PyObject *capsule = PyCapsule_New(&e->managed, "dltensor", delete_capsule);
    if (!capsule)
        export_free(e);
    return capsule;
}

// Checks the requested device, a tuple (type, id): only memory of the CPU can be exported.
static bool check_device(PyObject *device) {
    int type = DLPACK_CPU, id;
    if (device != Py_None && !(PyTuple_Check(device) && PyArg_ParseTuple(device, "ii", &type, &id))) {
        PyErr_SetString(PyExc_TypeError, "__dlpack__(): dl_device is a tuple of a device type and an id");
        return false;
    }
    if (type == DLPACK_CPU)
        return true;
    bool cuda = type == DLPACK_CUDA || type == DLPACK_CUDA_MANAGED;
    PyErr_SetString(PyExc_BufferError, cuda ? "CUDA DLPack export is not supported."
                                       : type == DLPACK_METAL
                                           ? "Metal DLPack export is not available."
                                           : "Cannot export mlx array to requested DLPack device.");
    return false;
}

static PyObject *to_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream, *version, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device,
                                     &copy) ||
        !check_device(device))
        return NULL;
    int must_copy = PyObject_IsTrue(copy);
    if (must_copy < 0)
        return NULL;
    zl_scope scope = ext_begin();
    struct export *e = export_array(self, must_copy ? EXPORT_COPY : EXPORT_VIEW);
    zl_scope_end(scope);
    return e ? make_capsule(e) : NULL;
}

static PyObject *dlpack_device(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

// NumPy -----------------------------------------------------------------------------------------------------

// Returns numpy.asarray(memoryview(array), dtype), which shares memory if the dtype allows it.
static PyObject *numpy_view(PyObject *array, PyObject *dtype) {
    if (zl_dtype_of(ext_value(array)) == ZL_BFLOAT16) {
        PyErr_SetString(PyExc_TypeError, "bfloat16 arrays cannot be converted to NumPy.");
        return NULL;
    }
    PyObject *numpy = PyImport_ImportModule("numpy"), *memory = numpy ? PyMemoryView_FromObject(array) : NULL;
    PyObject *result = memory ? PyObject_CallMethod(numpy, "asarray", "OO", memory, dtype) : NULL;
    Py_XDECREF(memory);
    Py_XDECREF(numpy);
    return result;
}

static PyObject *to_numpy(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    PyObject *view = numpy_view(self, dtype);
    if (!view || copy != Py_True)
        return view;
    PyObject *result = PyObject_CallMethod(view, "copy", NULL);
    Py_DECREF(view);
    return result;
}

// Pickles and copies ----------------------------------------------------------------------------------------

// Returns the state, as in MLX: a NumPy array and the number of the dtype. The elements of bfloat16 are in it
// as uint16.
static PyObject *get_state(PyObject *self, PyObject *unused) {
    (void)unused;
    zl_scope scope = ext_begin();
    zl_array a = ext_value(self);
    zl_dtype dtype = zl_dtype_of(a);
    PyObject *array = ext_wrap(dtype == ZL_BFLOAT16 ? zl_view(a, ZL_UINT16) : a);
    PyObject *elements = array ? numpy_view(array, Py_None) : NULL;
    zl_scope_end(scope);
    Py_XDECREF(array);
    return elements ? Py_BuildValue("(Ni)", elements, dtype_code(dtype)) : NULL;
}

static zl_array read_state(PyObject *state) {
    PyObject *elements;
    int code, dtype = 0;
    if (!PyTuple_Check(state) || !PyArg_ParseTuple(state, "Oi", &elements, &code)) {
        PyErr_SetString(PyExc_ValueError,
                        "Invalid pickle state: expected a NumPy array and the number of a dtype");
        return NULL;
    }
    while (dtype < ZL_DTYPE_COUNT && dtype_code((zl_dtype)dtype) != code)
        dtype++;
    if (dtype == ZL_DTYPE_COUNT || !PyObject_CheckBuffer(elements)) {
        PyErr_Format(PyExc_ValueError, "Invalid pickle state: %s with the number %d of a dtype",
                     Py_TYPE(elements)->tp_name, code);
        return NULL;
    }
    if (dtype != ZL_BFLOAT16)
        return convert_memory(elements, (zl_dtype)dtype, CONVERT_COPY);
    zl_array bits = convert_memory(elements, ZL_UINT16, CONVERT_COPY),
             a = bits ? zl_view(bits, ZL_BFLOAT16) : NULL;
    return bits && !a ? ext_raise() : a && ext_eval(1, &a) ? a : NULL;
}

static PyObject *set_state(PyObject *self, PyObject *state) {
    zl_scope scope = ext_begin();
    zl_array a = read_state(state);
    bool ok = a && ext_assign(self, a);
    zl_scope_end(scope);
    return ok ? Py_NewRef(Py_None) : NULL;
}

// Returns another cell with the same value, which never changes.
static PyObject *copy(PyObject *self, PyObject *unused) {
    (void)unused;
    zl_scope scope = ext_begin();
    PyObject *result = ext_wrap(ext_value(self));
    zl_scope_end(scope);
    return result;
}

#define WITH_NAMES(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

PyMethodDef ext_interchange_methods[] = {
    {"__array__", WITH_NAMES(to_numpy), "A NumPy array of the same elements, shared where possible."},
    {"__dlpack__", WITH_NAMES(to_dlpack), "A DLPack capsule of the elements, shared where possible."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "The device of __dlpack__: the CPU."},
    {"__array_namespace__", WITH_NAMES(namespace_of), "The module with the functions of the array API."},
    {"__bytes__", to_bytes, METH_NOARGS, "The bytes of the elements in row-major order."},
    {"__getstate__", get_state, METH_NOARGS, NULL},
    {"__setstate__", set_state, METH_O, NULL},
    {"__copy__", copy, METH_NOARGS, NULL},
    {"__deepcopy__", copy, METH_O, NULL},
    {0},
};

bool ext_add_interchange(PyObject *core) {
    return foreign_add(core) && array_like_add(core) && namespace_add(core);
}
