// transform_func.h - shared by transform.c, grad_func.c, vmap_func.c, custom_func.c and compile_func.c:
// Python functions as functions of the library, and the objects that transforms return.

#ifndef TRANSFORM_FUNC_H
#define TRANSFORM_FUNC_H

#include "tree.h"

// transform.c -----------------------------------------------------------------------------------------------

// The result of grad, value_and_grad, vmap, checkpoint and compile: it calls a function in another way, and
// has the attributes of that function.
struct wrapper {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *(*call)(struct wrapper *w, PyObject *args, PyObject *kwargs); // a tuple; a dict or NULL
    PyObject *fun;
    PyObject *first, *second; // depend on the transform: argnums and argnames, in_axes and out_axes, ...
    const char *tag;          // "[grad]": errors begin with it
    PyObject *third;          // of compile: a dict from tags of results to trees of results
    int64_t tags;             // the number of tags so far
    zl_compiled compiled;     // owned, or NULL
    PyObject *weak;
};
// Returns a new wrapper, which retains the objects. Returns NULL with a TypeError unless fun is callable.
PyObject *wrapper_new(const char *tag, PyObject *(*call)(struct wrapper *, PyObject *, PyObject *),
                      PyObject *fun, PyObject *first, PyObject *second);

// Passes all arrays of a tree to zl_give.
bool give_all(const struct tree_arrays *a, zl_outputs *out);
// Returns new arrays of the results, in a list.
PyObject *wrap_outputs(const zl_outputs *outputs);
// Returns the results in memory that PyMem_Free frees, or NULL with an exception.
const zl_array *outputs_array(const zl_outputs *outputs);

// grad_func.c, vmap_func.c, custom_func.c, compile_func.c ---------------------------------------------------

PyObject *grad_new(const char *tag, PyObject *args, PyObject *kwargs);
PyObject *vmap_new(PyObject *args, PyObject *kwargs);
PyObject *checkpoint_new(PyObject *fun);
PyObject *compile_new(PyObject *args, PyObject *kwargs);
extern PyTypeObject custom_function_type;

#endif
