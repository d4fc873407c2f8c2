// dtype.c - Dtype, the categories of dtypes, finfo and iinfo, and functions that compare dtypes.
//
// There is one Dtype object for each dtype, made with the module; copies and pickles of it are that object.

#include "dtype.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

struct dtype {
    PyObject_HEAD
    zl_dtype dtype;
};

static PyObject *object_of[ZL_DTYPE_COUNT];

PyObject *ext_dtype_object(zl_dtype dtype) {
    return object_of[dtype];
}

// MLX's numbers of the dtypes; they are hashes, and pickles of arrays contain them.
static const int codes[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = 0,     [ZL_UINT8] = 1,    [ZL_UINT16] = 2,    [ZL_UINT32] = 3,     [ZL_UINT64] = 4,
    [ZL_INT8] = 5,     [ZL_INT16] = 6,    [ZL_INT32] = 7,     [ZL_INT64] = 8,      [ZL_FLOAT16] = 9,
    [ZL_FLOAT32] = 10, [ZL_FLOAT64] = 11, [ZL_BFLOAT16] = 12, [ZL_COMPLEX64] = 13,
};

int dtype_code(zl_dtype dtype) {
    return codes[dtype];
}

// Returns the dtype's name in the module: `bool` would hide Python's own type.
static const char *public_name(zl_dtype dtype) {
    return dtype == ZL_BOOL ? "bool_" : zl_dtype_name(dtype);
}

static zl_dtype dtype_of(PyObject *o) {
    return ((struct dtype *)o)->dtype;
}

static bool is_dtype(PyObject *o) {
    return Py_TYPE(o) == &ext_dtype_type;
}

// The type --------------------------------------------------------------------------------------------------

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("mlx.core.%s", zl_dtype_name(dtype_of(self)));
}

static PyObject *dtype_compare(PyObject *self, PyObject *other, int how) {
    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    bool same = is_dtype(other) && dtype_of(self) == dtype_of(other);
    return PyBool_FromLong(how == Py_EQ ? same : !same);
}

static Py_hash_t dtype_hash(PyObject *self) {
    return codes[dtype_of(self)];
}

static PyObject *dtype_size(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(zl_dtype_size(dtype_of(self)));
}

// Returns a name in the module, by which pickle and copy find the dtype's only object.
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyUnicode_FromString(public_name(dtype_of(self)));
}

static PyGetSetDef dtype_properties[] = {
    {"size", dtype_size, NULL, "Bytes of an element.", NULL},
    {0},
};

static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {0},
};

PyTypeObject ext_dtype_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core.Dtype",
    .tp_basicsize = sizeof(struct dtype),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The type of the elements of an array.",
    .tp_repr = dtype_repr,
    .tp_hash = dtype_hash,
    .tp_richcompare = dtype_compare,
    .tp_getset = dtype_properties,
    .tp_methods = dtype_methods,
};

// Reading a dtype argument ----------------------------------------------------------------------------------

static zl_dtype python_type(PyObject *o) {
    if (o == (PyObject *)&PyBool_Type)
        return ZL_BOOL;
    if (o == (PyObject *)&PyLong_Type)
        return ZL_INT32;
    if (o == (PyObject *)&PyFloat_Type)
        return ZL_FLOAT32;
    return o == (PyObject *)&PyComplex_Type ? ZL_COMPLEX64 : ZL_DTYPE_COUNT;
}

// Returns the dtype that an attribute of o names: np.dtype('int8').name or np.int8.__name__.
static zl_dtype named_by(PyObject *o, const char *attribute) {
    PyObject *name = PyObject_GetAttrString(o, attribute);
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    zl_dtype found = ZL_DTYPE_COUNT;
    for (int d = 0; text && found == ZL_DTYPE_COUNT && d < ZL_DTYPE_COUNT; d++)
        if (!strcmp(text, zl_dtype_name((zl_dtype)d)) || !strcmp(text, public_name((zl_dtype)d)))
            found = (zl_dtype)d;
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

static bool starts_with(const char *text, const char *prefix) {
    return !strncmp(text, prefix, strlen(prefix));
}

// Reads NumPy's dtype objects and scalar types, and those of ml_dtypes.
static zl_dtype numpy_dtype(PyObject *o) {
    const char *type = PyType_Check(o) ? ((PyTypeObject *)o)->tp_name : Py_TYPE(o)->tp_name;
    if (!starts_with(type, "numpy.") && !starts_with(type, "ml_dtypes.") && !starts_with(type, "bfloat16"))
        return ZL_DTYPE_COUNT;
    return named_by(o, PyType_Check(o) ? "__name__" : "name");
}

bool ext_dtype_read(PyObject *o, zl_dtype *out) {
    if (LIKELY(is_dtype(o))) {
        *out = dtype_of(o);
        return true;
    }
    *out = python_type(o);
    if (*out == ZL_DTYPE_COUNT)
        *out = numpy_dtype(o);
    if (*out == ZL_DTYPE_COUNT)
        PyErr_Format(PyExc_TypeError, "%.100R is not a dtype: one such as float32 is needed", o);
    return *out != ZL_DTYPE_COUNT;
}

// Categories: a tree. The order is that of MLX's enumeration. -----------------------------------------------

enum category {
    COMPLEXFLOATING,
    FLOATING,
    INEXACT,
    SIGNEDINTEGER,
    UNSIGNEDINTEGER,
    INTEGER,
    NUMBER,
    GENERIC,
    CATEGORIES
};

static const struct {
    const char *name;
    enum category parent;
} categories[CATEGORIES] = {
    [COMPLEXFLOATING] = {"complexfloating", INEXACT},
    [FLOATING] = {"floating", INEXACT},
    [INEXACT] = {"inexact", NUMBER},
    [SIGNEDINTEGER] = {"signedinteger", INTEGER},
    [UNSIGNEDINTEGER] = {"unsignedinteger", INTEGER},
    [INTEGER] = {"integer", NUMBER},
    [NUMBER] = {"number", GENERIC},
    [GENERIC] = {"generic", GENERIC},
};

static PyObject *category_type; // the Enum DtypeCategory
static PyObject *category_object[CATEGORIES];

static enum category category_of(zl_dtype dtype) {
    if (dtype == ZL_BOOL)
        return GENERIC;
    if (dtype <= ZL_UINT64)
        return UNSIGNEDINTEGER;
    if (dtype <= ZL_INT64)
        return SIGNEDINTEGER;
    return dtype == ZL_COMPLEX64 ? COMPLEXFLOATING : FLOATING;
}

static bool is_under(enum category c, enum category ancestor) {
    while (c != ancestor && c != GENERIC)
        c = categories[c].parent;
    return c == ancestor;
}

static bool dtype_is(zl_dtype dtype, enum category c) {
    return is_under(category_of(dtype), c);
}

static enum category find_category(PyObject *o) {
    int c = 0;
    while (c < CATEGORIES && category_object[c] != o)
        c++;
    return (enum category)c;
}

static PyObject *category_members(void) {
    PyObject *list = PyList_New(CATEGORIES);
    for (int c = 0; list && c < CATEGORIES; c++) {
        PyObject *pair = Py_BuildValue("(si)", categories[c].name, c);
        if (!pair)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, c, pair);
    }
    return list;
}

// Makes enum.Enum("DtypeCategory", members, module=...), whose members print as their names.
static PyObject *make_enum(const char *module) {
    PyObject *library = PyImport_ImportModule("enum");
    PyObject *base = library ? PyObject_GetAttrString(library, "Enum") : NULL;
    PyObject *members = category_members();
    PyObject *args = members ? Py_BuildValue("(sO)", "DtypeCategory", members) : NULL;
    PyObject *kwargs = Py_BuildValue("{ss}", "module", module);
    PyObject *type = base && args && kwargs ? PyObject_Call(base, args, kwargs) : NULL;
    PyObject *print = type ? PyObject_GetAttrString(type, "__str__") : NULL;
    if (print && PyObject_SetAttrString(type, "__repr__", print))
        Py_CLEAR(type);
    Py_XDECREF(print), Py_XDECREF(kwargs), Py_XDECREF(args);
    Py_XDECREF(members), Py_XDECREF(base), Py_XDECREF(library);
    return type;
}

static bool add_categories(PyObject *core) {
    if (!(category_type = make_enum(PyModule_GetName(core))))
        return false;
    for (int c = 0; c < CATEGORIES; c++) {
        category_object[c] = PyObject_GetAttrString(category_type, categories[c].name);
        if (!ext_add(core, categories[c].name, Py_XNewRef(category_object[c])))
            return false;
    }
    return ext_add(core, "DtypeCategory", Py_NewRef(category_type));
}

// Questions -------------------------------------------------------------------------------------------------

static PyObject *value_error(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

// Reads a dtype or a category. Sets *category, and *dtype to the dtype, or ZL_DTYPE_COUNT for a category.
static bool read_class(PyObject *o, zl_dtype *dtype, enum category *category) {
    *dtype = is_dtype(o) ? dtype_of(o) : ZL_DTYPE_COUNT;
    *category = is_dtype(o) ? category_of(*dtype) : find_category(o);
    return *category != CATEGORIES;
}

static PyObject *issubdtype(PyObject *core, PyObject *args) {
    (void)core;
    PyObject *first, *second;
    zl_dtype a, b;
    enum category under, above;
    if (!PyArg_ParseTuple(args, "OO:issubdtype", &first, &second))
        return NULL;
    if (!read_class(first, &a, &under))
        return value_error("[issubdtype] Received invalid type for first input.");
    if (!read_class(second, &b, &above))
        return value_error("[issubdtype] Received invalid type for second input.");
    return PyBool_FromLong(b != ZL_DTYPE_COUNT ? a == b : is_under(under, above));
}

// Returns 1 if the dtype is of a kind, 0 if not, and -1 with an exception.
static int is_of_kind(zl_dtype dtype, PyObject *kind) {
    static const struct {
        const char *name;
        enum category category;
    } kinds[] = {
        {"signed integer", SIGNEDINTEGER}, {"unsigned integer", UNSIGNEDINTEGER}, {"integral", INTEGER},
        {"real floating", FLOATING},       {"complex floating", COMPLEXFLOATING}, {"numeric", NUMBER}};
    if (is_dtype(kind))
        return dtype == dtype_of(kind);
    if (!PyUnicode_Check(kind)) {
        value_error("[isdtype] `kind` must be a dtype, a string, or a tuple of dtypes and strings.");
        return -1;
    }
    if (!PyUnicode_CompareWithASCIIString(kind, "bool"))
        return dtype == ZL_BOOL;
    for (int i = 0; i < COUNT(kinds); i++)
        if (!PyUnicode_CompareWithASCIIString(kind, kinds[i].name))
            return dtype_is(dtype, kinds[i].category);
    PyErr_Format(PyExc_ValueError, "[isdtype] Unknown data type kind: '%U'.", kind);
    return -1;
}

static PyObject *isdtype(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    static char *names[] = {"dtype", "kind", NULL};
    PyObject *o, *kind;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O:isdtype", names, &ext_dtype_type, &o, &kind))
        return NULL;
    int found = 0;
    if (PyTuple_Check(kind))
        for (Py_ssize_t i = 0; found == 0 && i < PyTuple_GET_SIZE(kind); i++)
            found = is_of_kind(dtype_of(o), PyTuple_GET_ITEM(kind, i));
    else
        found = is_of_kind(dtype_of(o), kind);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

// Reads the dtype of an array, or a dtype itself.
static bool dtype_in(PyObject *o, zl_dtype *out, const char *message) {
    bool known = is_dtype(o) || ext_is_array(o);
    if (known)
        *out = is_dtype(o) ? dtype_of(o) : zl_dtype_of(ext_value(o));
    else
        value_error(message);
    return known;
}

static PyObject *result_type(PyObject *core, PyObject *const *args, Py_ssize_t count) {
    (void)core;
    if (count == 0)
        return value_error("[result_type] At least one array or dtype is required.");
    zl_scope scope = ext_begin();
    zl_dtype result = ZL_BOOL, next;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        if ((ok = dtype_in(args[i], &next, "[result_type] Inputs must be arrays or dtypes.")))
            result = zl_result_type(result, next);
    zl_scope_end(scope);
    return ok ? Py_NewRef(object_of[result]) : NULL;
}

static PyObject *can_cast(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    static char *names[] = {"from_", "to", NULL};
    PyObject *o, *target;
    zl_dtype from;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!:can_cast", names, &o, &ext_dtype_type, &target))
        return NULL;
    zl_scope scope = ext_begin();
    bool ok = dtype_in(o, &from, "[can_cast] `from_` must be an array or a dtype.");
    zl_scope_end(scope);
    return ok ? PyBool_FromLong(zl_result_type(from, dtype_of(target)) == dtype_of(target)) : NULL;
}

// finfo and iinfo -------------------------------------------------------------------------------------------

struct finfo {
    PyObject_HEAD
    PyObject *dtype; // borrowed: it lives as long as the module
    int bits;
    double min, max, eps, smallest_normal;
};

struct iinfo {
    PyObject_HEAD
    PyObject *dtype; // borrowed
    long long min;
    unsigned long long max;
};

// Computes all limits of a float from the bits of its fraction and its largest exponent.
static void fill_finfo(struct finfo *f, int bits, int fraction, int top) {
    f->bits = bits;
    f->eps = ldexp(1, -fraction);
    f->max = ldexp(2 - f->eps, top);
    f->min = -f->max;
    f->smallest_normal = ldexp(1, 1 - top);
}

static PyObject *finfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:finfo", names, &ext_dtype_type, &o))
        return NULL;
    zl_dtype dtype = dtype_of(o) == ZL_COMPLEX64 ? ZL_FLOAT32 : dtype_of(o); // a complex number is two floats
    if (!dtype_is(dtype, FLOATING))
        return PyErr_Format(PyExc_ValueError, "[finfo] dtype %s is not inexact.", zl_dtype_name(dtype));
    struct finfo *f = (struct finfo *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->dtype = object_of[dtype];
    switch (dtype) {
    case ZL_FLOAT16: fill_finfo(f, 16, 10, 15); break;
    case ZL_BFLOAT16: fill_finfo(f, 16, 7, 127); break;
    case ZL_FLOAT32: fill_finfo(f, 32, 23, 127); break;
    default: fill_finfo(f, 64, 52, 1023);
    }
    return (PyObject *)f;
}

static PyObject *iinfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:iinfo", names, &ext_dtype_type, &o))
        return NULL;
    zl_dtype dtype = dtype_of(o);
    if (!dtype_is(dtype, INTEGER))
        return PyErr_Format(PyExc_ValueError, "[iinfo] Only integer types supported but %s was provided",
                            zl_dtype_name(dtype));
    struct iinfo *i = (struct iinfo *)type->tp_alloc(type, 0);
    if (!i)
        return NULL;
    bool is_signed = dtype_is(dtype, SIGNEDINTEGER);
    i->dtype = object_of[dtype];
    i->max = UINT64_MAX >> (64 - 8 * zl_dtype_size(dtype) + is_signed);
    i->min = is_signed ? -(long long)i->max - 1 : 0;
    return (PyObject *)i;
}

static PyObject *finfo_repr(PyObject *self) {
    struct finfo *f = (struct finfo *)self;
    char *low = PyOS_double_to_string(f->min, 'g', 6, 0, NULL),
         *high = PyOS_double_to_string(f->max, 'g', 6, 0, NULL);
    PyObject *text = NULL;
    if (low && high)
        text = PyUnicode_FromFormat("finfo(min=%s, max=%s, dtype=%s)", low, high,
                                    zl_dtype_name(dtype_of(f->dtype)));
    PyMem_Free(low);
    PyMem_Free(high);
    return text;
}

static PyObject *iinfo_repr(PyObject *self) {
    struct iinfo *i = (struct iinfo *)self;
    return PyUnicode_FromFormat("iinfo(min=%lld, max=%llu, dtype=%s)", i->min, i->max,
                                zl_dtype_name(dtype_of(i->dtype)));
}

static PyMemberDef finfo_members[] = {
    {"dtype", T_OBJECT_EX, offsetof(struct finfo, dtype), READONLY,
     "The dtype, of a complex one that of its parts."},
    {"bits", T_INT, offsetof(struct finfo, bits), READONLY, "Bits of an element."},
    {"min", T_DOUBLE, offsetof(struct finfo, min), READONLY, "The lowest number."},
    {"max", T_DOUBLE, offsetof(struct finfo, max), READONLY, "The highest number."},
    {"eps", T_DOUBLE, offsetof(struct finfo, eps), READONLY, "From 1 to the next number above."},
    {"smallest_normal", T_DOUBLE, offsetof(struct finfo, smallest_normal), READONLY,
     "The smallest normal number above 0."},
    {0},
};

static PyMemberDef iinfo_members[] = {
    {"dtype", T_OBJECT_EX, offsetof(struct iinfo, dtype), READONLY, "The dtype."},
    {"min", T_LONGLONG, offsetof(struct iinfo, min), READONLY, "The lowest number."},
    {"max", T_ULONGLONG, offsetof(struct iinfo, max), READONLY, "The highest number."},
    {0},
};

static PyTypeObject finfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core.finfo",
    .tp_basicsize = sizeof(struct finfo),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "finfo(dtype, /)\n--\n\nThe limits of a floating-point dtype.",
    .tp_new = finfo_new,
    .tp_repr = finfo_repr,
    .tp_members = finfo_members,
};

static PyTypeObject iinfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core.iinfo",
    .tp_basicsize = sizeof(struct iinfo),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "iinfo(dtype, /)\n--\n\nThe limits of an integer dtype.",
    .tp_new = iinfo_new,
    .tp_repr = iinfo_repr,
    .tp_members = iinfo_members,
};

// The module ------------------------------------------------------------------------------------------------

static PyMethodDef functions[] = {
    {"issubdtype", issubdtype, METH_VARARGS,
     "issubdtype(arg1, arg2, /)\n--\n\nWhether the first dtype or category is the second, or under it."},
    {"isdtype", (PyCFunction)(void (*)(void))isdtype, METH_VARARGS | METH_KEYWORDS,
     "isdtype(dtype, kind)\n--\n\nWhether a dtype is another, or of a kind of the array API such as "
     "\"integral\", or any of a tuple of "
     "these."},
    {"result_type", (PyCFunction)(void (*)(void))result_type, METH_FASTCALL,
     "result_type(*arrays_and_dtypes)\n--\n\nThe dtype of an op on these arrays and dtypes."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS,
     "can_cast(from_, to)\n--\n\nWhether an op on an array or dtype and another dtype gives the latter."},
    {0},
};

static bool add_objects(PyObject *core) {
    for (int d = 0; d < ZL_DTYPE_COUNT; d++) {
        struct dtype *o = PyObject_New(struct dtype, &ext_dtype_type);
        if (!o)
            return false;
        o->dtype = (zl_dtype)d;
        object_of[d] = (PyObject *)o;
        if (!ext_add(core, public_name(o->dtype), Py_NewRef(object_of[d])))
            return false;
    }
    return true;
}

bool ext_add_dtypes(PyObject *core) {
    return !PyModule_AddType(core, &ext_dtype_type) && !PyModule_AddType(core, &finfo_type) &&
           !PyModule_AddType(core, &iinfo_type) && add_objects(core) && add_categories(core) &&
           !PyModule_AddFunctions(core, functions);
}
