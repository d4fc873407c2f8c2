// shaped.h - functions that read their arguments in code of their own, because their Python form is not that
// of one op.
//
// shaped_call.c reads calls; shaped.c and the other shaped_*.c have the functions, in one table each.

#ifndef SHAPED_H
#define SHAPED_H

#include "ext.h"

enum { SHAPED_NAMED = 8 };

// A function's arguments: named ones, given by position or keyword; the other positional ones; and the
// stream.
struct shaped_call {
    const char *function;
    PyObject *named[SHAPED_NAMED]; // NULL: left out
    PyObject *const *rest;
    Py_ssize_t rests;
    PyObject *stream;
};

// Reads the arguments of a call. known: names, ending with NULL. The first `positions` of them may be
// positional; further positional arguments are the rest if has_rest, and otherwise an error.
bool shaped_read(struct shaped_call *c, const char *function, const char *const *known, int positions,
                 bool has_rest, PyObject *const *args, Py_ssize_t count, PyObject *names);
bool shaped_need(const struct shaped_call *c, int at, const char *name); // false with an exception if missing

// Does the work of a function. shaped_run calls it in a scope for the stream.
typedef PyObject *shaped_work(const struct shaped_call *c);
PyObject *shaped_run(const struct shaped_call *c, shaped_work *body);

static inline bool shaped_given(PyObject *o) {
    return o && o != Py_None;
}

// Read arguments that may be left out. They return false with an exception.
bool shaped_int(PyObject *o, int fallback, int *out);
bool shaped_truth(PyObject *o, bool fallback, bool *out);
bool shaped_dtype(PyObject *o, zl_dtype fallback, zl_dtype *out);
bool shaped_array(PyObject *o, zl_array *out); // NULL if it is left out
// Returns arrays in a list that the caller frees with PyMem_Free, or NULL with an exception. Their values are
// borrowed from their cells: read all other arguments first.
zl_array *shaped_arrays(PyObject *const *objects, Py_ssize_t count);

// Axes, read from a number or a list of them. Must be freed even if reading failed.
struct shaped_axes {
    int *axis;
    int count;
};
bool shaped_axes_read(PyObject *o, struct shaped_axes *out);
void shaped_axes_free(struct shaped_axes *axes);

// Adds the functions of a table to a module.
bool shaped_add(PyObject *module, PyMethodDef *functions);
#define SHAPED_ROW(name, function, doc) \
    {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, doc}

// metal_kernel.c, cpu_kernel.c
PyObject *shaped_metal_kernel(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *shaped_cpu_kernel(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *shaped_cuda_kernel(PyObject *module, PyObject *args, PyObject *kwargs);
extern PyTypeObject metal_kernel_type, cpu_kernel_type;

extern PyMethodDef shaped_products[]; // shaped_products.c
extern PyMethodDef shaped_fast[];     // shaped_fast.c
extern PyMethodDef shaped_linalg[];   // shaped_linalg.c

#endif
