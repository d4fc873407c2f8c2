// export_func.h - shared by export_func.c, export_inputs.c and export_callback.c: functions to be exported.

#ifndef EXPORT_FUNC_H
#define EXPORT_FUNC_H

#include "transform_func.h"

// export_inputs.c -------------------------------------------------------------------------------------------

// Arrays in the forms that MLX takes here: positional and named ones, or a list and a dict of them. Borrowed
// from the arguments.
struct export_inputs {
    zl_array *value;
    const char **name;
    int count, named;
};
// Reads the inputs. Errors begin with the tag. The caller calls export_inputs_free in any case.
bool export_inputs_read(struct export_inputs *in, const char *tag, PyObject *args, PyObject *kwargs);
void export_inputs_free(struct export_inputs *in);

// A Python function as the library calls it: the data of export_call.
struct export_function {
    PyObject *fun;
    const struct export_inputs *now; // of the current trace
};
bool export_call(void *data, int count, const zl_array *in, zl_outputs *out);

// export_callback.c -----------------------------------------------------------------------------------------

PyObject *export_to_callback(PyObject *callback, PyObject *fun, bool shapeless, PyObject *args,
                             PyObject *kwargs);

#endif
