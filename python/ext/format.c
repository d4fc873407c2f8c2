// format.c - arrays as text, and the options of printing.
//
//     array([[0, 1, 2, ..., 7, 8, 9],
//            [1, 1, 1, ..., 1, 1, 1]], dtype=float32)

#include "convert.h"

#include <math.h>
#include <string.h>

#include "number.h"

enum {
    EDGE = 3,           // an axis of more than twice as many elements is shortened to this many at each end
    MOST_DIGITS = 1074, // after the point; no double needs more
};

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

// Begins a new line, indented by the brackets that are open.
static void put_line(struct text *t, int depth) {
    put(t, "\n       ");
    for (int i = 0; i < depth; i++)
        put(t, " ");
}

// Separates two elements, or two parts.
static void put_comma(struct text *t, bool leaves, int depth) {
    put(t, leaves ? ", " : ",");
    if (!leaves)
        put_line(t, depth);
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

// Returns only the elements that are shown, of axes from this one on. All axes are shortened before anything
// is joined, so that neither a broadcast array nor one in the memory of a GPU is copied as a whole.
static zl_array shown_of(zl_array a, int axis) {
    zl_array part[3];
    while (axis < zl_ndim(a) && zl_dim(a, axis) <= 2 * EDGE)
        axis++;
    if (axis == zl_ndim(a))
        return a;
    if (!zl_split_at(a, ZL_SHAPE(EDGE, zl_dim(a, axis) - EDGE), axis, part))
        return NULL;
    zl_array ends[] = {shown_of(part[0], axis + 1), shown_of(part[2], axis + 1)};
    return zl_concatenate(ends, 2, axis);
}

// Puts the part at `data`, whose first axis is axis `depth` of the array. full: the sizes of its axes in the
// array.
static void put_part(struct text *t, const char *data, zl_shape shape, const int64_t *full, zl_dtype dtype,
                     int depth) {
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
        if (i)
            put_comma(t, leaves, depth);
        if (i == EDGE && full[0] > n)
            put(t, "..."), put_comma(t, leaves, depth);
        if (leaves)
            put_element(t, data + i * step, dtype);
        else
            put_part(t, data + i * step, (zl_shape){shape.dim + 1, shape.ndim - 1}, full + 1, dtype,
                     depth + 1);
    }
    put(t, "]");
    if (shape.ndim > CONVERT_AXES)
        Py_LeaveRecursiveCall();
}

// Puts an array. data: the elements of `shown`.
static void put_array(struct text *t, zl_array a, zl_array shown, const void *data) {
    zl_dtype dtype = zl_dtype_of(a);
    put(t, "array(");
    if (zl_ndim(a) == 0)
        put_element(t, data, dtype);
    else
        put_part(t, data, zl_shape_of(shown), zl_shape_of(a).dim, dtype, 0);
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
        zl_retain(ext_value(array)); // retained: another thread may give the cell another value meanwhile
    zl_array shown = ext_eval(1, &a) ? shown_of(a, 0) : NULL;
    const void *data = shown ? convert_read(shown) : ext_raise();
    PyObject *result = NULL;
    if (data) {
        struct text t = {0};
        put_array(&t, a, shown, data);
        result = finish(&t);
    }
    zl_release(a);
    zl_scope_end(scope);
    return result;
}

PyObject *ext_format(PyObject *array, PyObject *spec) {
    if (!PyUnicode_Check(spec))
        return PyErr_Format(PyExc_TypeError, "array.__format__(): a str is needed, not %.100s",
                            Py_TYPE(spec)->tp_name);
    zl_scope scope = ext_begin();
    zl_array a = ext_value(array);
    bool has_axes = zl_ndim(a) > 0;
    PyObject *number = has_axes ? NULL : ext_item(a), *result = NULL;
    zl_scope_end(scope);
    if (has_axes && PyUnicode_GET_LENGTH(spec) == 0)
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
    PyObject_HEAD int precision;
};

struct context {
    PyObject_HEAD int inside, outside; // precisions
};

static char *option_names[] = {"precision", NULL};

// Reads digits after the point, for "O&". Negative ones mean the default.
static int read_precision(PyObject *o, void *out) {
    int64_t digits;
    if (!ext_to_int64(o, &digits))
        return 0;
    if (digits > MOST_DIGITS) {
        PyErr_Format(PyExc_ValueError, "precision is %lld: no number has more than %d digits after the point",
                     (long long)digits, MOST_DIGITS);
        return 0;
    }
    *(int *)out = digits < 0 ? -1 : (int)digits;
    return 1;
}

static int options_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct options *o = (struct options *)self;
    o->precision = -1;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:PrintOptions", option_names, read_precision,
                                       &o->precision)
               ? 0
               : -1;
}

static PyObject *get_precision(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(((struct options *)self)->precision);
}

static int set_precision(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (!value)
        return PyErr_SetString(PyExc_TypeError, "PrintOptions.precision cannot be deleted"), -1;
    return read_precision(value, &((struct options *)self)->precision) ? 0 : -1;
}

static PyGetSetDef options_getset[] = {
    {"precision", get_precision, set_precision, "Digits after the point; -1: six significant digits.", NULL},
    {0},
};

static PyTypeObject options_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.PrintOptions",
    .tp_basicsize = sizeof(struct options),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "PrintOptions(precision=-1)\n--\n\nHow arrays are printed.",
    .tp_new = PyType_GenericNew,
    .tp_init = options_init,
    .tp_getset = options_getset,
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
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core._PrintOptionsContext",
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:set_printoptions", option_names, read_precision,
                                     &digits))
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:printoptions", option_names, read_precision, &digits))
        return NULL;
    struct context *c = PyObject_New(struct context, &context_type);
    if (c)
        c->inside = digits, c->outside = precision;
    return (PyObject *)c;
}

static PyMethodDef functions[] = {
    {"set_printoptions", (PyCFunction)(void (*)(void))set_printoptions, METH_VARARGS | METH_KEYWORDS,
     "set_printoptions(precision=-1)\n--\n\nSets how many digits after the point arrays are printed with; "
     "-1: six significant digits."},
    {"get_printoptions", get_printoptions, METH_NOARGS, "get_printoptions()\n--\n\nThe print options now."},
    {"printoptions", (PyCFunction)(void (*)(void))printoptions, METH_VARARGS | METH_KEYWORDS,
     "printoptions(precision=-1)\n--\n\nA context manager that sets print options for its body."},
    {0},
};

bool ext_add_format(PyObject *core) {
    return !PyModule_AddType(core, &options_type) && !PyModule_AddType(core, &context_type) &&
           !PyModule_AddFunctions(core, functions);
}
