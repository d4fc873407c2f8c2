// error.c - the library's errors as Python exceptions.

#include "ext.h"

PyObject *ext_axis_error;
static PyObject *file_error;

// Files that cannot be read or written are RuntimeErrors in MLX, and OSErrors everywhere else.
static bool add_file_error(PyObject *core) {
    PyObject *bases = PyTuple_Pack(2, PyExc_RuntimeError, PyExc_OSError);
    if (bases && !file_error)
        file_error = PyErr_NewExceptionWithDoc("zellige.core.FileError",
                                               "A file that could not be read or written.", bases, NULL);
    Py_XDECREF(bases);
    return file_error && ext_add(core, "FileError", Py_NewRef(file_error));
}

// MLX raises ValueError for some axes that are not there and IndexError for others.
bool ext_add_errors(PyObject *core) {
    PyObject *bases = PyTuple_Pack(2, PyExc_ValueError, PyExc_IndexError);
    if (bases && !ext_axis_error)
        ext_axis_error = PyErr_NewExceptionWithDoc(
            "zellige.core.AxisError", "An axis or position that an array does not have.", bases, NULL);
    Py_XDECREF(bases);
    return add_file_error(core) && ext_axis_error && ext_add(core, "AxisError", Py_NewRef(ext_axis_error));
}

static PyObject *exception_of(zl_error_kind kind) {
    switch (kind) {
    case ZL_ERROR_AXIS: return ext_axis_error;
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

void *ext_raise(void) {
    const char *message = zl_error();
    if (!PyErr_Occurred())
        PyErr_SetString(exception_of(zl_error_which()), message ? message : "zellige: an argument was missing");
    zl_clear_error();
    return NULL;
}
