// export_func.h - what export_func.c, export_inputs.c and export_callback.c share: functions on their way
// out.

#ifndef EXPORT_FUNC_H
#define EXPORT_FUNC_H

#include "transform_func.h"

// export_inputs.c -------------------------------------------------------------------------------------------

// Arrays as MLX takes them here: positional and named ones, or a list and a dict of them. Borrowed from the
// arguments.
struct export_inputs {
    zl_array *value;
    const char **name;
    int count, named;
};
// Errors begin with the tag. To be freed in any case.
bool export_inputs_read(struct export_inputs *in, const char *tag, PyObject *args, PyObject *kwargs);
void export_inputs_free(struct export_inputs *in);

// A function as the library calls it: export_call takes it as its data.
struct export_function {
    PyObject *fun;
    const struct export_inputs *now; // of the trace that is being made
};
bool export_call(void *data, int count, const zl_array *in, zl_outputs *out);

// export_callback.c -----------------------------------------------------------------------------------------

PyObject *export_to_callback(PyObject *callback, PyObject *fun, bool shapeless, PyObject *args,
                             PyObject *kwargs);

#endif
