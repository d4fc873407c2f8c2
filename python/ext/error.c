// error.c - the library's errors as Python exceptions.

#include "ext.h"

#include <string.h>

PyObject *ext_axis_error;
static PyObject *argument_error, *dtype_error, *file_error;

// Adds an exception type with two bases, for errors for which MLX raises different types in different
// functions, or another type than this module did.
static bool add_error(PyObject *core, PyObject **error, const char *name, const char *doc, PyObject *first,
                      PyObject *second) {
    PyObject *bases = PyTuple_Pack(2, first, second);
    if (bases && !*error)
        *error = PyErr_NewExceptionWithDoc(name, doc, bases, NULL);
    Py_XDECREF(bases);
    return *error && ext_add(core, strrchr(name, '.') + 1, Py_NewRef(*error));
}

bool ext_add_errors(PyObject *core) {
    return add_error(core, &ext_axis_error, "zellige.core.AxisError",
                     "An axis or position that an array does not have.", PyExc_ValueError,
                     PyExc_IndexError) &&
           add_error(core, &argument_error, "zellige.core.ArgumentError",
                     "An object that a function does not take.", PyExc_TypeError, PyExc_ValueError) &&
           add_error(core, &dtype_error, "zellige.core.DtypeError", "A dtype that an op does not take.",
                     PyExc_ValueError, PyExc_RuntimeError) &&
           add_error(core, &file_error, "zellige.core.FileError", "A file that could not be read or written.",
                     PyExc_RuntimeError, PyExc_OSError);
}

static PyObject *exception_of(zl_error_kind kind) {
    switch (kind) {
    case ZL_ERROR_AXIS: return ext_axis_error;
    case ZL_ERROR_DTYPE: return dtype_error;
    case ZL_ERROR_OVERFLOW: return PyExc_OverflowError;
    case ZL_ERROR_MEMORY: return PyExc_MemoryError;
    case ZL_ERROR_IO: return file_error;
    case ZL_ERROR_STATE:
    case ZL_ERROR_DEVICE:
    case ZL_ERROR_COMPILE:
    case ZL_ERROR_LIBRARY: return PyExc_RuntimeError;
    default: return PyExc_ValueError;
    }
}

// Escapes invalid UTF-8: names of files and devices, and names in files, may have any bytes, and messages
// quote them.
void *ext_raise_as(PyObject *exception) {
    const char *message = zl_error() ? zl_error() : "zellige: an argument was missing";
    PyObject *text = PyErr_Occurred()
                         ? NULL
                         : PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "backslashreplace");
    if (text)
        PyErr_SetObject(exception, text);
    Py_XDECREF(text);
    zl_clear_error();
    return NULL;
}

void *ext_raise(void) {
    return ext_raise_as(exception_of(zl_error_which()));
}

// Returns whether a message names its function, as "zl_take: ...", "take(): ..." and MLX's "[take] ..." do.
static bool names_a_function(const char *text) {
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return text[0] == '[' || !strncmp(text, "zl_", 3) || (word > 0 && !strncmp(text + word, "():", 3));
}

bool ext_name_argument(const char *function, PyObject *argument) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = type == PyExc_TypeError || type == PyExc_ValueError ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8(text) : NULL;
    if (words && (argument || !names_a_function(words))) {
        if (argument)
            PyErr_Format(argument_error, "%s(): %U: %s", function, argument, words);
        else
            PyErr_Format(argument_error, "%s(): %s", function, words);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(text);
    return false;
}
