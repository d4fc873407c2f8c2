// format.c - arrays as text, and the options of printing.
//
//     array([[0, 1, 2, ..., 7, 8, 9],
//            [1, 1, 1, ..., 1, 1, 1]], dtype=float32)

#include "convert.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "number.h"

enum { EDGE = 3 }; // of more than twice as many along an axis, those at its ends are shown

static int precision = -1; // digits after the point; -1: six significant ones

// Text ------------------------------------------------------------------------------------------------------

struct text {
    char *start;
    size_t length, room;
    bool failed;
};

static void put_bytes(struct text *t, const char *bytes, size_t count) {
    if (t->room - t->length < count) {
        size_t room = 2 * t->room + count + 256;
        char *more = t->failed ? NULL : PyMem_Realloc(t->start, room);
        if (!more) {
            t->failed = true;
            return;
        }
        t->start = more, t->room = room;
    }
    memcpy(t->start + t->length, bytes, count);
    t->length += count;
}

static void put(struct text *t, const char *words) {
    put_bytes(t, words, strlen(words));
}

// A new line, indented below what the outer brackets enclose.
static void put_line(struct text *t, int depth) {
    put(t, "\n       ");
    for (int i = 0; i < depth; i++)
        put(t, " ");
}

static void put_float(struct text *t, double value) {
    if (value != value) {
        put(t, signbit(value) ? "-nan" : "nan");
        return;
    }
    char *digits =
        PyOS_double_to_string(value, precision < 0 ? 'g' : 'f', precision < 0 ? 6 : precision, 0, NULL);
    t->failed |= !digits;
    if (digits)
        put(t, digits);
    PyMem_Free(digits);
}

static void put_complex(struct text *t, const float *parts) {
    bool minus = parts[1] < 0;
    put_float(t, (double)parts[0]);
    put(t, minus ? "-" : "+");
    put_float(t, (double)(minus ? -parts[1] : parts[1]));
    put(t, "j");
}

static void put_element(struct text *t, const void *element, zl_dtype dtype) {
    union number x;
    char digits[24];
    number_load(&x, element, dtype, 1);
    if (dtype == ZL_BOOL)
        put(t, x.i ? "True" : "False");
    else if (number_kind(dtype) == NUMBER_FLOAT)
        put_float(t, x.f);
    else if (number_kind(dtype) == NUMBER_COMPLEX)
        put_complex(t, x.c);
    else {
        PyOS_snprintf(digits, sizeof digits, dtype == ZL_UINT64 ? "%llu" : "%lld", (long long)x.i);
        put(t, digits);
    }
}

// Arrays ----------------------------------------------------------------------------------------------------

// The part at data, whose first axis is the depth-th of the array.
static void put_part(struct text *t, const char *data, zl_shape shape, zl_dtype dtype, int depth) {
    if (shape.ndim > CONVERT_AXES && Py_EnterRecursiveCall(" in the text of an array")) {
        t->failed = true;
        return;
    }
    bool leaves = shape.ndim == 1;
    int64_t n = shape.dim[0], step = (int64_t)zl_dtype_size(dtype);
    for (int i = 1; i < shape.ndim; i++)
        step *= shape.dim[i];
    put(t, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i && leaves)
            put(t, ", ");
        else if (i)
            put(t, ","), put_line(t, depth);
        if (i == EDGE && n > 2 * EDGE)
            put(t, "..."), i = n - EDGE - 1;
        else if (leaves)
            put_element(t, data + i * step, dtype);
        else
            put_part(t, data + i * step, (zl_shape){shape.dim + 1, shape.ndim - 1}, dtype, depth + 1);
    }
    put(t, "]");
    if (shape.ndim > CONVERT_AXES)
        Py_LeaveRecursiveCall();
}

static void put_array(struct text *t, zl_array a, const void *data) {
    zl_dtype dtype = zl_dtype_of(a);
    put(t, "array(");
    if (zl_ndim(a) == 0)
        put_element(t, data, dtype);
    else
        put_part(t, data, zl_shape_of(a), dtype, 0);
    put(t, ", dtype=");
    put(t, zl_dtype_name(dtype));
    put(t, ")");
}

static PyObject *finish(struct text *t) {
    PyObject *string = t->failed ? NULL : PyUnicode_FromStringAndSize(t->start, (Py_ssize_t)t->length);
    if (t->failed && !PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(t->start);
    return string;
}

PyObject *ext_repr(PyObject *array) {
    zl_scope scope = ext_begin();
    zl_array a =
        zl_retain(ext_value(array)); // while it is computed another thread may give the cell another value
    const void *data = convert_read(a);
    PyObject *result = NULL;
    if (data) {
        struct text t = {0};
        put_array(&t, a, data);
        result = finish(&t);
    }
    zl_release(a);
    zl_scope_end(scope);
    return result;
}

PyObject *ext_format(PyObject *array, PyObject *spec) {
    zl_scope scope = ext_begin();
    zl_array a = ext_value(array);
    bool has_axes = zl_ndim(a) > 0;
    PyObject *number = has_axes ? NULL : ext_item(a), *result = NULL;
    zl_scope_end(scope);
    if (has_axes && PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec) == 0)
        return ext_repr(array);
    if (has_axes)
        PyErr_SetString(PyExc_TypeError,
                        "unsupported format string passed to array.__format__: only an array without axes "
                        "takes one");
    else if (number)
        result = PyObject_Format(number, spec);
    Py_XDECREF(number);
    return result;
}

// Options ---------------------------------------------------------------------------------------------------

struct options {
    PyObject_HEAD
    int precision;
};

struct context {
    PyObject_HEAD
    int inside, outside; // precisions
};

static char *option_names[] = {"precision", NULL};

static int options_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct options *o = (struct options *)self;
    o->precision = -1;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|i:PrintOptions", option_names, &o->precision) ? 0 : -1;
}

static PyMemberDef options_members[] = {
    {"precision", T_INT, offsetof(struct options, precision), 0,
     "Digits after the point; -1: six significant digits."},
    {0},
};

static PyTypeObject options_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core.PrintOptions",
    .tp_basicsize = sizeof(struct options),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "PrintOptions(precision=-1)\n--\n\nHow arrays are printed.",
    .tp_new = PyType_GenericNew,
    .tp_init = options_init,
    .tp_members = options_members,
};

static int context_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", NULL};
    PyObject *options;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &options_type, &options))
        return -1;
    ((struct context *)self)->inside = ((struct options *)options)->precision;
    return 0;
}

static PyObject *context_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    struct context *c = (struct context *)self;
    c->outside = precision;
    precision = c->inside;
    return Py_NewRef(self);
}

static PyObject *context_exit(PyObject *self, PyObject *unused) {
    (void)unused;
    precision = ((struct context *)self)->outside;
    Py_RETURN_NONE;
}

static PyMethodDef context_methods[] = {
    {"__enter__", context_enter, METH_NOARGS, NULL},
    {"__exit__", context_exit, METH_VARARGS, NULL},
    {0},
};

static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core._PrintOptionsContext",
    .tp_basicsize = sizeof(struct context),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Print options for the body of a with statement.",
    .tp_new = PyType_GenericNew,
    .tp_init = context_init,
    .tp_methods = context_methods,
};

static PyObject *set_printoptions(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    int digits = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:set_printoptions", option_names, &digits))
        return NULL;
    precision = digits;
    Py_RETURN_NONE;
}

static PyObject *get_printoptions(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    struct options *o = PyObject_New(struct options, &options_type);
    if (o)
        o->precision = precision;
    return (PyObject *)o;
}

static PyObject *printoptions(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    int digits = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:printoptions", option_names, &digits))
        return NULL;
    struct context *c = PyObject_New(struct context, &context_type);
    if (c)
        c->inside = digits, c->outside = precision;
    return (PyObject *)c;
}

static PyMethodDef functions[] = {
    {"set_printoptions", (PyCFunction)(void (*)(void))set_printoptions, METH_VARARGS | METH_KEYWORDS,
     "set_printoptions(precision=-1)\n--\n\nSets how many digits after the point arrays are printed with; -1: six significant digits."},
    {"get_printoptions", get_printoptions, METH_NOARGS, "get_printoptions()\n--\n\nThe print options now."},
    {"printoptions", (PyCFunction)(void (*)(void))printoptions, METH_VARARGS | METH_KEYWORDS,
     "printoptions(precision=-1)\n--\n\nA context manager that sets print options for its body."},
    {0},
};

bool ext_add_format(PyObject *core) {
    return !PyModule_AddType(core, &options_type) && !PyModule_AddType(core, &context_type) &&
           !PyModule_AddFunctions(core, functions);
}
