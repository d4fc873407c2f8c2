// shaped.h - functions that read their arguments by hand: those whose Python form is not that of one op.
//
// shaped_call.c reads calls; shaped.c and its neighbours have the functions, a table each.

#ifndef SHAPED_H
#define SHAPED_H

#include "ext.h"

enum { SHAPED_NAMED = 8 };

// A function's arguments: those with names, by position or keyword; what is left of the positional ones; the
// stream.
struct shaped_call {
    const char *function;
    PyObject *named[SHAPED_NAMED]; // NULL: left out
    PyObject *const *rest;
    Py_ssize_t rests;
    PyObject *stream;
};

// known: names, NULL at the end. The first `positions` of them may be positional; what comes behind is the
// rest if has_rest, else a mistake.
bool shaped_read(struct shaped_call *c, const char *function, const char *const *known, int positions,
                 bool has_rest, PyObject *const *args, Py_ssize_t count, PyObject *names);
bool shaped_need(const struct shaped_call *c, int at, const char *name); // it was given; else an exception

// A function's work, in a scope for its stream.
typedef PyObject *shaped_work(const struct shaped_call *c);
PyObject *shaped_run(const struct shaped_call *c, shaped_work *body);

static inline bool shaped_given(PyObject *o) {
    return o && o != Py_None;
}

// Arguments that may be left out; false with an exception.
bool shaped_int(PyObject *o, int fallback, int *out);
bool shaped_truth(PyObject *o, bool fallback, bool *out);
bool shaped_dtype(PyObject *o, zl_dtype fallback, zl_dtype *out);
bool shaped_array(PyObject *o, zl_array *out); // NULL when it is left out
// Arrays in a list that the caller frees with PyMem_Free; NULL with an exception. Their values are borrowed
// from their cells: read what else there is first.
zl_array *shaped_arrays(PyObject *const *objects, Py_ssize_t count);

// A number or a list of them as axes. Free it even if it was not read.
struct shaped_axes {
    int *axis;
    int count;
};
bool shaped_axes_read(PyObject *o, struct shaped_axes *out);
void shaped_axes_free(struct shaped_axes *axes);

// Adds a table's functions to a module.
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
