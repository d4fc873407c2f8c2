// kernel_launch.h - what kernels from source have in common in Python: their names, and how they are called.

#ifndef KERNEL_LAUNCH_H
#define KERNEL_LAUNCH_H

#include "ext.h"

// A list of texts, as a new reference; NULL and an exception.
PyObject *kernel_names(const char *function, const char *what, PyObject *names);

// The arguments of a call. Borrowed objects, and memory that kernel_launch_close() frees.
struct kernel_launch {
    const char *function;
    PyObject *arguments; // template=
    PyObject *init, *stream;
    int verbose;
    int64_t grid[3], group[3];
    int inputs, outputs;
    zl_array *in, *out; // borrowed; room for the results
    PyObject *tuple;    // that the inputs are in
    zl_shape *shape;
    zl_dtype *dtype;
    struct ext_list *list; // that the shapes are in
    int lists;
};
// What a kernel with so many inputs and outputs is called with, inside a scope of the caller's. Close it even
// after false.
bool kernel_launch_read(struct kernel_launch *l, PyObject *args, PyObject *kwargs, bool needs_group);
void kernel_launch_close(struct kernel_launch *l);

// A list of tuples (name, value) that template= gives, with values that are numbers, truth values or dtypes.
// A new reference.
PyObject *kernel_templates(const char *function, PyObject *given);

#endif
