// convert.c - Python values to arrays and back: numbers, nested lists of them, sizes and axes.
//
// A list is read twice. The survey finds its shape and dtype; the filling writes the elements to one buffer,
// and checks lengths and types again, since the list may have changed in between.

#include "convert.h"

#include <stdlib.h>
#include <string.h>

#include "number.h"

static zl_array invalid_type(PyObject *o) {
    PyErr_Format(PyExc_ValueError, "Invalid type %s received in array initialization.", Py_TYPE(o)->tp_name);
    return NULL;
}

static zl_array no_argument(void) {
    PyErr_SetString(PyExc_TypeError,
                    "array(): incompatible argument None: a number, a list, a tuple, an array or an object "
                    "with a buffer is needed.");
    return NULL;
}

static bool invalid_length(void) {
    PyErr_SetString(PyExc_ValueError, "Initialization encountered non-uniform length.");
    return false;
}

// Returns a result of the library, or raises its error.
static zl_array checked(zl_array lent) {
    return lent ? lent : ext_raise();
}

// Numbers ---------------------------------------------------------------------------------------------------

// Returns whether o is a NumPy scalar. Does not import NumPy for this: if it is not imported, there are no
// such objects.
static bool is_numpy_scalar(PyObject *o) {
    static PyObject *generic;
    if (!generic) {
        PyObject *modules = PyImport_GetModuleDict(), *numpy = PyDict_GetItemString(modules, "numpy");
        generic = numpy ? PyObject_GetAttrString(numpy, "generic") : NULL;
        PyErr_Clear();
    }
    return generic && PyType_Check(generic) && PyObject_TypeCheck(o, (PyTypeObject *)generic);
}

static bool is_number(PyObject *o) {
    return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o);
}

// Returns a number or NumPy scalar as a Python number, a new reference; NULL without an exception for other
// objects.
static PyObject *plain_number(PyObject *o) {
    if (is_number(o))
        return Py_NewRef(o);
    PyObject *item = is_numpy_scalar(o) ? PyObject_CallMethod(o, "item", NULL) : NULL;
    if (item && !is_number(item))
        Py_CLEAR(item);
    PyErr_Clear();
    return item;
}

static bool read_int(PyObject *o, int64_t *out) {
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
        PyErr_Format(PyExc_OverflowError, "array(): %.200R does not fit int64.", o);
    return !overflow;
}

static zl_array weak_int(PyObject *o) {
    int64_t value;
    return read_int(o, &value) ? checked(zl_scalar_int(value)) : NULL;
}

// Returns a Python number as a weak scalar.
static zl_array weak_number(PyObject *o) {
    if (PyBool_Check(o))
        return checked(zl_scalar_bool(o == Py_True));
    if (PyLong_Check(o))
        return weak_int(o);
    if (PyFloat_Check(o))
        return checked(zl_scalar(PyFloat_AS_DOUBLE(o)));
    Py_complex c = PyComplex_AsCComplex(o);
    return checked(zl_scalar_complex(c.real, c.imag));
}

// Lists: the survey -----------------------------------------------------------------------------------------

enum rank { RANK_BOOL, RANK_INT, RANK_FLOAT, RANK_COMPLEX };

struct survey {
    int64_t dim[CONVERT_AXES];
    int ndim;
    enum rank rank; // the highest of all elements
    bool wide;      // an integer beyond int32
    bool has_arrays;
};

static bool is_list(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o);
}

static bool add_axis(struct survey *s, int64_t size) {
    if (s->ndim == CONVERT_AXES) {
        PyErr_Format(PyExc_ValueError, "array(): lists are nested deeper than %d, or contain themselves.",
                     CONVERT_AXES);
        return false;
    }
    s->dim[s->ndim++] = size;
    return true;
}

static bool add_axes(struct survey *s, zl_shape shape) {
    for (int i = 0; i < shape.ndim; i++)
        if (!add_axis(s, shape.dim[i]))
            return false;
    return true;
}

// Finds the shape from the first element, its first element and so on.
static bool find_shape(struct survey *s, PyObject *o) {
    while (is_list(o)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
        if (!add_axis(s, n))
            return false;
        if (n == 0)
            return true;
        o = PySequence_Fast_GET_ITEM(o, 0);
    }
    return !ext_is_array(o) || add_axes(s, zl_shape_of(ext_value(o)));
}

static void raise_rank(struct survey *s, enum rank rank) {
    if (rank > s->rank)
        s->rank = rank;
}

static void survey_int(struct survey *s, PyObject *o) {
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    raise_rank(s, RANK_INT);
    if (overflow || value > INT32_MAX || value < INT32_MIN)
        s->wide = true;
}

static bool survey_array(struct survey *s, zl_array a, int depth) {
    zl_shape shape = zl_shape_of(a);
    s->has_arrays = true;
    if (shape.ndim + depth != s->ndim ||
        (shape.ndim && memcmp(shape.dim, s->dim + depth, sizeof(int64_t) * (size_t)shape.ndim)))
        return invalid_length();
    return true;
}

static bool survey_number(struct survey *s, PyObject *o) {
    PyObject *number = plain_number(o);
    if (!number)
        return invalid_type(o) != NULL;
    if (PyBool_Check(number))
        raise_rank(s, RANK_BOOL);
    else if (PyLong_Check(number))
        survey_int(s, number);
    else
        raise_rank(s, PyFloat_Check(number) ? RANK_FLOAT : RANK_COMPLEX);
    Py_DECREF(number);
    return true;
}

static bool survey_list(struct survey *s, PyObject *list, int depth);

static bool survey_leaf(struct survey *s, PyObject *o, int depth) {
    if (ext_is_array(o))
        return survey_array(s, ext_value(o), depth);
    return survey_number(s, o) && (depth == s->ndim || invalid_length());
}

// Surveys an element at a depth of lists. It is retained, since the method of a NumPy scalar may change the
// list.
static bool survey_element(struct survey *s, PyObject *o, int depth) {
    Py_INCREF(o);
    bool ok = is_list(o) ? survey_list(s, o, depth) : survey_leaf(s, o, depth);
    Py_DECREF(o);
    return ok;
}

static bool survey_list(struct survey *s, PyObject *list, int depth) {
    if (depth >= s->ndim) {
        PyErr_SetString(PyExc_ValueError, "Initialization encountered extra dimension.");
        return false;
    }
    if (PySequence_Fast_GET_SIZE(list) != s->dim[depth])
        return invalid_length();
    if (s->dim[depth] == 0)
        raise_rank(s, RANK_FLOAT);
    bool leaves = depth + 1 == s->ndim;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (LIKELY(leaves && PyFloat_CheckExact(o)))
            raise_rank(s, RANK_FLOAT);
        else if (leaves && PyLong_CheckExact(o))
            survey_int(s, o);
        else if (leaves && PyBool_Check(o))
            continue; // the lowest rank
        else if (!survey_element(s, o, depth + 1))
            return false;
    }
    return true;
}

// Lists: the filling ----------------------------------------------------------------------------------------

#define CHUNK 256 // numbers that are gathered before they are stored

struct filling {
    const struct survey *survey;
    zl_dtype dtype;
    enum number_kind kind; // of the gathered numbers
    char *out;
    int gathered;
    union number number[CHUNK];
};

static void flush(struct filling *f) {
    number_store(f->out, f->dtype, f->number, f->kind, (size_t)f->gathered);
    f->out += (size_t)f->gathered * zl_dtype_size(f->dtype);
    f->gathered = 0;
}

static union number *next_number(struct filling *f) {
    if (f->gathered == CHUNK)
        flush(f);
    return &f->number[f->gathered++];
}

// Reads a number for uint64; negative numbers wrap.
static bool read_uint(PyObject *o, uint64_t *out) {
    int overflow;
    *out = (uint64_t)PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
        *out = PyLong_AsUnsignedLongLong(o);
    return *out != UINT64_MAX || !PyErr_Occurred();
}

static bool read_complex(PyObject *o, float out[2]) {
    Py_complex c = PyComplex_AsCComplex(o);
    out[0] = (float)c.real;
    out[1] = (float)c.imag;
    return c.real != -1 || !PyErr_Occurred();
}

// Reads a Python number as the kind that is gathered. Returns false with an exception if it is not a number
// or does not fit.
static bool read_number(struct filling *f, PyObject *o, union number *out) {
    switch (f->kind) {
    case NUMBER_INT: return read_int(o, &out->i);
    case NUMBER_UINT: return read_uint(o, &out->u);
    case NUMBER_FLOAT: return ext_to_double(o, &out->f);
    default: return read_complex(o, out->c);
    }
}

static bool fill_number(struct filling *f, PyObject *o) {
    if (LIKELY(PyLong_Check(o) || PyFloat_Check(o)))
        return read_number(f, o, next_number(f));
    PyObject *number = plain_number(o);
    if (!number)
        return invalid_type(o) != NULL;
    bool ok = read_number(f, number, next_number(f));
    Py_DECREF(number);
    return ok;
}

static bool fill_list(struct filling *f, PyObject *list, int depth);

// Fills a list at a depth of lists, or a number if depth is -1. The object is retained meanwhile.
static bool fill_element(struct filling *f, PyObject *o, int depth) {
    if (is_list(o) != (depth >= 0))
        return invalid_length();
    Py_INCREF(o);
    bool ok = depth < 0 ? fill_number(f, o) : fill_list(f, o, depth);
    Py_DECREF(o);
    return ok;
}

static bool fill_list(struct filling *f, PyObject *list, int depth) {
    int64_t size = depth < f->survey->ndim ? f->survey->dim[depth] : -1;
    bool leaves = depth + 1 == f->survey->ndim, floats = f->kind == NUMBER_FLOAT;
    for (int64_t i = 0; i < size; i++) {
        if (i >= PySequence_Fast_GET_SIZE(list))
            return invalid_length();
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (LIKELY(leaves && floats && PyFloat_CheckExact(o)))
            next_number(f)->f = PyFloat_AS_DOUBLE(o);
        else if (!fill_element(f, o, leaves ? -1 : depth + 1))
            return false;
    }
    return true;
}

static zl_dtype own_dtype(const struct survey *s) {
    static const zl_dtype of_rank[] = {ZL_BOOL, ZL_INT32, ZL_FLOAT32, ZL_COMPLEX64};
    return s->rank == RANK_INT && s->wide ? ZL_INT64 : of_rank[s->rank];
}

// Returns the kind in which the numbers of the survey are gathered for a dtype.
static enum number_kind gathered_kind(const struct survey *s, zl_dtype dtype) {
    if (s->rank == RANK_COMPLEX)
        return NUMBER_COMPLEX;
    if (s->rank == RANK_FLOAT || number_kind(dtype) >= NUMBER_FLOAT)
        return NUMBER_FLOAT;
    return dtype == ZL_UINT64 ? NUMBER_UINT : NUMBER_INT;
}

static bool count_bytes(const struct survey *s, zl_dtype dtype, size_t *bytes) {
    *bytes = zl_dtype_size(dtype);
    for (int i = 0; i < s->ndim; i++)
        if (__builtin_mul_overflow(*bytes, (size_t)s->dim[i], bytes)) {
            PyErr_SetString(PyExc_OverflowError, "array(): nested lists of more elements than fit memory.");
            return false;
        }
    return true;
}

// Returns an array of the numbers in o, a list or a number, that were surveyed.
static zl_array fill_array(const struct survey *s, PyObject *o, zl_dtype dtype) {
    char room[512], *data = room;
    size_t bytes;
    if (!count_bytes(s, dtype, &bytes))
        return NULL;
    if (bytes > sizeof room && !(data = PyMem_RawMalloc(bytes)))
        return (zl_array)PyErr_NoMemory();
    struct filling f;
    f.survey = s, f.dtype = dtype, f.kind = gathered_kind(s, dtype), f.out = data, f.gathered = 0;
    zl_array result = NULL;
    if (s->ndim ? fill_list(&f, o, 0) : fill_number(&f, o)) {
        flush(&f);
        result = checked(zl_from(data, (zl_shape){s->dim, s->ndim}, dtype));
    }
    if (data != room)
        PyMem_RawFree(data);
    return result;
}

// Stacks the elements of a list that contains arrays, after making an array of each.
static zl_array stack_list(PyObject *list, zl_dtype dtype) {
    PyObject *items = PySequence_Tuple(list);
    Py_ssize_t n = items ? PyTuple_GET_SIZE(items) : 0, i = 0;
    zl_array *arrays = items && n <= INT_MAX ? PyMem_New(zl_array, n) : NULL;
    for (; arrays && i < n && (arrays[i] = ext_array_from(PyTuple_GET_ITEM(items, i), dtype)); i++) {
    }
    zl_array result = arrays && i == n ? checked(zl_stack(arrays, (int)n, 0)) : NULL;
    if (!result && !PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(arrays);
    Py_XDECREF(items);
    return result;
}

static zl_array array_of_list(PyObject *list, zl_dtype dtype) {
    struct survey s = {.rank = RANK_BOOL};
    if (!find_shape(&s, list) || !survey_list(&s, list, 0))
        return NULL;
    if (s.has_arrays)
        return stack_list(list, dtype);
    return fill_array(&s, list, dtype == ZL_DTYPE_COUNT ? own_dtype(&s) : dtype);
}

static zl_array array_of_number(PyObject *number, zl_dtype dtype) {
    struct survey s = {.rank = RANK_BOOL};
    if (!survey_number(&s, number))
        return NULL;
    return fill_array(&s, number, dtype == ZL_DTYPE_COUNT ? own_dtype(&s) : dtype);
}

// Any object ------------------------------------------------------------------------------------------------

// Returns the result of o.__mlx_array__(), lent; NULL without an exception if there is no such method.
static zl_array array_of_method(PyObject *o) {
    PyObject *method = PyObject_GetAttrString(o, "__mlx_array__");
    if (!method) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear();
        return NULL;
    }
    PyObject *result = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    zl_array a = NULL;
    if (result && ext_is_array(result))
        a = zl_scope_leave(ext_begin(), ext_value(result)); // lent by itself, since its cell may be freed now
    else if (result)
        PyErr_Format(PyExc_TypeError, "%s.__mlx_array__() returned %s instead of an array.",
                     Py_TYPE(o)->tp_name, Py_TYPE(result)->tp_name);
    Py_XDECREF(result);
    return a;
}

static zl_array array_of_object(PyObject *o, zl_dtype dtype) {
    if (o == Py_None)
        return no_argument();
    zl_array a = convert_memory(o, dtype, CONVERT_COPY);
    if (!a && !PyErr_Occurred() && (a = array_of_method(o)) && dtype != ZL_DTYPE_COUNT)
        a = checked(zl_astype(a, dtype));
    if (!a && !PyErr_Occurred())
        a = convert_numpy(o, dtype);
    return a || PyErr_Occurred() ? a : invalid_type(o);
}

static zl_array never_initialized(void) {
    PyErr_SetString(PyExc_ValueError,
                    "array(): an array that was never initialized: its __init__ was not called.");
    return NULL;
}

zl_array ext_array_of(PyObject *o) {
    if (LIKELY(ext_is_array(o))) {
        zl_array a = ext_value(o);
        return LIKELY(a) ? a : never_initialized();
    }
    if (PyFloat_CheckExact(o))
        return checked(zl_scalar(PyFloat_AS_DOUBLE(o)));
    PyObject *number = plain_number(o);
    if (!number)
        return is_list(o) ? invalid_type(o) : array_of_object(o, ZL_DTYPE_COUNT);
    zl_array a = weak_number(number);
    Py_DECREF(number);
    return a;
}

zl_array ext_array_held(PyObject *o) {
    zl_array a = ext_array_of(o);
    return a && ext_is_array(o) ? zl_scope_leave(zl_scope_begin(), a) : a;
}

// Returns whether a weak whole number fits the dtype of the array next to it.
static bool check_fits(int64_t value, zl_dtype dtype) {
    int bits = 8 * (int)zl_dtype_size(dtype);
    if (dtype == ZL_BOOL || dtype > ZL_INT64 || bits == 64)
        return true;
    bool natural = dtype <= ZL_UINT64;
    int64_t low = natural ? 0 : -((int64_t)1 << (bits - 1)), high = ((int64_t)1 << (bits - !natural)) - 1;
    if (value >= low && value <= high)
        return true;
    PyErr_Format(PyExc_ValueError, "Converting %lld to %s would result in overflow.", (long long)value,
                 zl_dtype_name(dtype));
    return false;
}

zl_array convert_beside(PyObject *o, zl_dtype dtype) {
    if (PyLong_CheckExact(o)) {
        int64_t value;
        return read_int(o, &value) && check_fits(value, dtype) ? checked(zl_scalar_int(value)) : NULL;
    }
    if (ext_is_array(o) || is_number(o) || is_list(o) || is_numpy_scalar(o))
        return ext_array_of(o);
    zl_array a = convert_memory(o, dtype, CONVERT_COPY);
    return a || PyErr_Occurred() ? a : ext_array_of(o);
}

zl_array ext_array_from(PyObject *o, zl_dtype dtype) {
    if (ext_is_array(o)) {
        zl_array a = ext_array_held(o);
        return !a || dtype == ZL_DTYPE_COUNT || dtype == zl_dtype_of(a) ? a : checked(zl_astype(a, dtype));
    }
    if (is_list(o))
        return array_of_list(o, dtype);
    if (is_number(o))
        return array_of_number(o, dtype);
    return array_of_object(o, dtype);
}

// Arrays to Python ------------------------------------------------------------------------------------------

const void *convert_read(zl_array a) {
    if (!ext_eval(1, &a))
        return NULL;
    if (zl_size(a) == 0)
        return "";
    zl_array rows = zl_contiguous(a, false);
    if (!rows)
        return ext_raise();
    if (rows != a && !ext_eval(1, &rows))
        return NULL;
    const void *data = zl_data(rows);
    return data ? data : ext_raise();
}

PyObject *ext_item(zl_array a) {
    if (zl_size(a) != 1) {
        PyErr_SetString(PyExc_ValueError,
                        "[convert] Only length-1 arrays can be converted to Python scalars.");
        return NULL;
    }
    zl_scope scope = ext_begin();
    const void *data =
        convert_read(zl_retain(a)); // retained: without the GIL its cell may get another value
    PyObject *result = data ? number_object(data, zl_dtype_of(a)) : NULL;
    zl_release(a);
    zl_scope_end(scope);
    return result;
}

// Returns the list of the elements at *data, or the number if there are no axes. Advances *data past them.
static PyObject *list_of(const char **data, zl_dtype dtype, zl_shape shape) {
    if (shape.ndim == 0) {
        const char *element = *data;
        *data += zl_dtype_size(dtype);
        return number_object(element, dtype);
    }
    if (shape.ndim > CONVERT_AXES && Py_EnterRecursiveCall(" in tolist()"))
        return NULL;
    PyObject *list = PyList_New(shape.dim[0]);
    for (int64_t i = 0; list && i < shape.dim[0]; i++) {
        PyObject *item = list_of(data, dtype, (zl_shape){shape.dim + 1, shape.ndim - 1});
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    if (shape.ndim > CONVERT_AXES)
        Py_LeaveRecursiveCall();
    return list;
}

PyObject *ext_to_list(zl_array a) {
    if (zl_ndim(a) == 0)
        return ext_item(a);
    zl_scope scope = ext_begin();
    const char *data = convert_read(zl_retain(a));
    PyObject *list = data ? list_of(&data, zl_dtype_of(a), zl_shape_of(a)) : NULL;
    zl_release(a);
    zl_scope_end(scope);
    return list;
}

// Arguments -------------------------------------------------------------------------------------------------

bool ext_to_int64(PyObject *o, int64_t *out) {
    PyObject *index = PyNumber_Index(o);
    if (!index)
        return false;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    if (overflow)
        PyErr_Format(PyExc_OverflowError, "%.200R does not fit 64 bits.", index);
    Py_DECREF(index);
    return !overflow;
}

bool ext_to_double(PyObject *o, double *out) {
    *out = PyFloat_AsDouble(o);
    return *out != -1 || !PyErr_Occurred();
}

const char *ext_utf8(PyObject *o) {
    Py_ssize_t bytes;
    if (!PyUnicode_Check(o)) {
        PyErr_Format(PyExc_TypeError, "a str is needed, not %.100s", Py_TYPE(o)->tp_name);
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(o, &bytes);
    if (text && strlen(text) == (size_t)bytes)
        return text;
    if (text)
        PyErr_Format(PyExc_ValueError, "%.200A has a NUL, which no text may have here", o);
    else if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        PyErr_Format(PyExc_ValueError, "%.200A has a lone surrogate, which UTF-8 cannot encode", o);
    return NULL;
}

int ext_utf8_read(PyObject *o, void *out) {
    const char **text = out;
    return (*text = ext_utf8(o)) != NULL;
}

PyObject *ext_path(PyObject *o, const char *function) {
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(o, &path))
        ext_name_argument(function, NULL);
    return path;
}

PyObject *ext_text(const char *data, size_t bytes) {
    return PyUnicode_DecodeUTF8(data, (Py_ssize_t)bytes, "surrogateescape");
}

bool convert_size(int64_t size) {
    if (size >= INT32_MIN && size <= INT32_MAX)
        return true;
    PyErr_Format(PyExc_OverflowError,
                 "Shape dimension %lld is outside the supported range [%d, %d]. MLX currently uses 32-bit "
                 "integers for shape dimensions.",
                 (long long)size, INT32_MIN, INT32_MAX);
    return false;
}

static bool list_reserve(struct ext_list *list, Py_ssize_t count) {
    if (count > COUNT(list->room) && !(list->item = count < INT_MAX ? PyMem_New(int64_t, count) : NULL)) {
        list->item = list->room;
        PyErr_NoMemory();
        return false;
    }
    list->count = (int)count;
    return true;
}

// Reads the items of a tuple, which, unlike a list, no __index__ can change meanwhile.
static bool list_fill(struct ext_list *list, PyObject *tuple) {
    bool ok = list_reserve(list, PyTuple_GET_SIZE(tuple));
    for (int i = 0; ok && i < list->count; i++)
        ok = ext_to_int64(PyTuple_GET_ITEM(tuple, i), &list->item[i]);
    return ok;
}

PyObject *ext_tuple(PyObject *o, const char *needed) {
    PyObject *tuple = PySequence_Tuple(o);
    if (!tuple && PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(o)->tp_iter)
        PyErr_SetString(PyExc_TypeError, needed);
    return tuple;
}

// Returns whether o is a single number. Arrays without axes are numbers, other arrays are lists.
static bool is_one_number(PyObject *o) {
    if (ext_is_array(o))
        return zl_ndim(ext_value(o)) == 0;
    return !PyTuple_Check(o) && !PyList_Check(o) && PyIndex_Check(o) && !PySequence_Check(o);
}

bool ext_list_read(PyObject *o, struct ext_list *list) {
    list->item = list->room;
    list->count = 1;
    if (PyLong_Check(o))
        return ext_to_int64(o, list->item);
    if (is_one_number(o))
        return ext_to_int64(o, list->item);
    PyObject *tuple = PySequence_Tuple(o);
    bool ok = tuple && list_fill(list, tuple);
    Py_XDECREF(tuple);
    if (!ok)
        ext_list_free(list);
    return ok;
}

void ext_list_free(struct ext_list *list) {
    if (list->item != list->room)
        PyMem_Free(list->item);
    list->item = list->room;
}

PyObject *ext_shape_tuple(zl_shape shape) {
    PyObject *tuple = PyTuple_New(shape.ndim);
    for (int i = 0; tuple && i < shape.ndim; i++) {
        PyObject *size = PyLong_FromLongLong(shape.dim[i]);
        if (!size)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, size);
    }
    return tuple;
}
