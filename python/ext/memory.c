// memory.c - the memory that arrays use, and its limits.

#include "ext.h"

static PyObject *get_active_memory(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    return PyLong_FromSize_t(zl_get_active_memory());
}

static size_t peak_at_reset =
    SIZE_MAX; // the library's peak at the last reset; MLX's is 0 until more memory is used

static PyObject *get_peak_memory(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    size_t peak = zl_get_peak_memory();
    bool untouched = peak == peak_at_reset && zl_get_active_memory() == peak;
    return PyLong_FromSize_t(untouched ? 0 : peak);
}

static PyObject *get_cache_memory(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    return PyLong_FromSize_t(zl_get_cache_memory());
}

// Returns MLX's limit, which is the library's goal: allocations beyond it do not fail.
static PyObject *get_memory_limit(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    return PyLong_FromSize_t(zl_get_memory_goal());
}

static PyObject *reset_peak_memory(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    zl_reset_peak_memory();
    peak_at_reset = zl_get_peak_memory();
    Py_RETURN_NONE;
}

static PyObject *clear_cache(PyObject *core, PyObject *unused) {
    (void)core, (void)unused;
    zl_clear_cache();
    Py_RETURN_NONE;
}

// Reads the only argument, `limit`, in bytes.
static bool read_limit(PyObject *args, PyObject *kwargs, size_t *limit) {
    static char *names[] = {"limit", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &o))
        return false;
    PyObject *index = PyNumber_Index(o);
    *limit = index ? PyLong_AsSize_t(index) : 0;
    Py_XDECREF(index);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(PyExc_TypeError, "a limit of %.100R bytes: it is from 0 to %zu", o, (size_t)-1);
    return !PyErr_Occurred();
}

// Returns a limit that was set before. The library stores 0 as 1.
static PyObject *old_limit(size_t limit) {
    return PyLong_FromSize_t(limit == 1 ? 0 : limit);
}

static PyObject *set_memory_limit(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    size_t limit;
    return read_limit(args, kwargs, &limit) ? old_limit(zl_set_memory_goal(limit)) : NULL;
}

static PyObject *set_cache_limit(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    size_t limit;
    return read_limit(args, kwargs, &limit) ? old_limit(zl_set_cache_limit(limit)) : NULL;
}

// Only stores the limit, since no memory is wired.
static PyObject *set_wired_limit(PyObject *core, PyObject *args, PyObject *kwargs) {
    (void)core;
    static size_t wired;
    size_t limit, old = wired;
    if (!read_limit(args, kwargs, &limit))
        return NULL;
    wired = limit;
    return PyLong_FromSize_t(old);
}

// Returns the bytes of the arrays in these cells, counting each value once.
static PyObject *sum_sizes(PyObject **cells, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        zl_array a = ext_value(cells[i]);
        if (!zl_is_available(a)) {
            PyErr_SetString(PyExc_ValueError,
                            "[get_array_buffer_size] Arrays must be evaluated before querying buffer size.");
            return NULL;
        }
        int before = 0;
        while (before < i && ext_value(cells[before]) != a)
            before++;
        bytes += before == i ? zl_nbytes(a) : 0;
    }
    return PyLong_FromSize_t(bytes);
}

static PyObject *get_array_buffer_size(PyObject *core, PyObject *args) {
    (void)core;
    PyObject **cells = NULL;
    zl_scope scope = ext_begin();
    int count = ext_tree_arrays(args, &cells);
    PyObject *result = count < 0 ? NULL : sum_sizes(cells, count);
    zl_scope_end(scope);
    PyMem_Free(cells);
    return result;
}

#define WITH_LIMIT(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"get_active_memory", get_active_memory, METH_NOARGS,
     "get_active_memory()\n--\n\nBytes of array data in use."},
    {"get_peak_memory", get_peak_memory, METH_NOARGS,
     "get_peak_memory()\n--\n\nMost bytes in use since reset_peak_memory()."},
    {"get_cache_memory", get_cache_memory, METH_NOARGS,
     "get_cache_memory()\n--\n\nBytes that are kept for reuse."},
    {"get_memory_limit", get_memory_limit, METH_NOARGS,
     "get_memory_limit()\n--\n\nBytes over which nothing is kept for reuse and async_eval waits."},
    {"reset_peak_memory", reset_peak_memory, METH_NOARGS,
     "reset_peak_memory()\n--\n\nCounts the peak from now on."},
    {"clear_cache", clear_cache, METH_NOARGS,
     "clear_cache()\n--\n\nGives memory that is kept for reuse back to the system."},
    {"set_memory_limit", WITH_LIMIT(set_memory_limit),
     "set_memory_limit(limit)\n--\n\nSets the bytes over which nothing is kept for reuse and async_eval "
     "waits; the old limit."},
    {"set_cache_limit", WITH_LIMIT(set_cache_limit),
     "set_cache_limit(limit)\n--\n\nSets how many bytes are kept for reuse; the old limit."},
    {"set_wired_limit", WITH_LIMIT(set_wired_limit),
     "set_wired_limit(limit)\n--\n\nRemembers a limit that has no effect here; the old one."},
    {"get_array_buffer_size", get_array_buffer_size, METH_VARARGS,
     "get_array_buffer_size(*trees)\n--\n\nBytes of all arrays in trees, each counted once."},
    {0},
};

bool ext_add_memory(PyObject *core) {
    return !PyModule_AddFunctions(core, functions);
}
