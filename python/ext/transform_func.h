// transform_func.h - what transform.c, grad_func.c, vmap_func.c, custom_func.c and compile_func.c share:
// Python functions as the library's, and the objects that transforms return.

#ifndef TRANSFORM_FUNC_H
#define TRANSFORM_FUNC_H

#include "tree.h"

// transform.c -----------------------------------------------------------------------------------------------

// What grad, value_and_grad, vmap, checkpoint and compile return: it calls a function in another way, and has
// the attributes of that function.
struct wrapper {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *(*call)(struct wrapper *w, PyObject *args, PyObject *kwargs); // a tuple; a dict or NULL
    PyObject *fun;
    PyObject *first, *second; // more objects of this kind: argnums and argnames, in_axes and out_axes, ...
    const char *tag;          // "[grad]": errors begin with it
    PyObject *third;          // of compile: a dict, what the function returned by the tags of its results
    int64_t tags;             // given so far
    zl_compiled compiled;     // owned, or NULL
    PyObject *weak;
};
// Takes no references over. NULL and a TypeError unless fun can be called.
PyObject *wrapper_new(const char *tag, PyObject *(*call)(struct wrapper *, PyObject *, PyObject *),
                      PyObject *fun, PyObject *first, PyObject *second);

// Gives all arrays of a tree.
bool give_all(const struct tree_arrays *a, zl_outputs *out);
// New arrays of the results, in a list.
PyObject *wrap_outputs(const zl_outputs *outputs);
// The results as plain memory (PyMem_Free it); NULL and an exception when there is none.
const zl_array *outputs_array(const zl_outputs *outputs);

// grad_func.c, vmap_func.c, custom_func.c, compile_func.c ---------------------------------------------------

PyObject *grad_new(const char *tag, PyObject *args, PyObject *kwargs);
PyObject *vmap_new(PyObject *args, PyObject *kwargs);
PyObject *checkpoint_new(PyObject *fun);
PyObject *compile_new(PyObject *args, PyObject *kwargs);
extern PyTypeObject custom_function_type;

#endif
