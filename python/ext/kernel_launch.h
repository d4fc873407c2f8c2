// kernel_launch.h - shared by the kernels that are made from source: their names, and how they are called.

#ifndef KERNEL_LAUNCH_H
#define KERNEL_LAUNCH_H

#include "ext.h"

// Returns a list of texts, a new reference; NULL with an exception if that fails.
PyObject *kernel_names(const char *function, const char *what, PyObject *names);

// The arguments of a call. Borrowed objects, and memory that kernel_launch_close() frees.
struct kernel_launch {
    const char *function;
    PyObject *arguments; // the template= argument
    PyObject *init, *stream;
    int verbose;
    int64_t grid[3], group[3];
    int inputs, outputs;
    zl_array *in, *out; // in: borrowed; out: room for the results
    PyObject *tuple;    // holds the inputs
    zl_shape *shape;
    zl_dtype *dtype;
    struct ext_list *list; // holds the shapes
    int lists;
};
// Reads the arguments of a call of a kernel with this many inputs and outputs, inside a scope of the caller.
// kernel_launch_close must be called even after false.
bool kernel_launch_read(struct kernel_launch *l, PyObject *args, PyObject *kwargs, bool needs_group);
void kernel_launch_close(struct kernel_launch *l);

// Returns the template= argument as a list of tuples (name, value), with values that are numbers, booleans or
// dtypes. A new reference.
PyObject *kernel_templates(const char *function, PyObject *given);

#endif
