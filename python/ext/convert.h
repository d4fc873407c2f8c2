// convert.h - shared by convert.c, foreign.c, interchange.c, array_like.c and namespace.c, beyond ext.h.

#ifndef CONVERT_H
#define CONVERT_H

#include "ext.h"

#define CONVERT_AXES 64 // the most axes of an array from Python; others are refused

// Evaluates a, which the caller keeps, without the GIL, and returns its elements in row-major order, lent to
// the current scope. Returns NULL with an exception if that fails; for an array without elements, some
// address that is not NULL.
const void *convert_read(zl_array a);

// Returns what ext_array_of does, for an operand next to an array of a dtype: whole numbers must fit that
// dtype, and NumPy arrays and other memory are converted to it.
zl_array convert_beside(PyObject *o, zl_dtype dtype);

// Returns whether an axis may have this size in MLX; sizes beyond 32 bits raise OverflowError.
bool convert_size(int64_t size);

// Whether an operation may, must or must not copy the memory of its argument.
enum convert_copy { CONVERT_COPY, CONVERT_MAY_SHARE, CONVERT_NEVER_COPY };

// Returns the array in an object that exposes memory: a buffer or DLPack. ZL_DTYPE_COUNT: its own dtype.
// Returns NULL without an exception if the object exposes none.
zl_array convert_memory(PyObject *o, zl_dtype dtype, enum convert_copy copy);
// Returns the same for the result of o.__array__(), as a copy.
zl_array convert_numpy(PyObject *o, zl_dtype dtype);

bool foreign_add(PyObject *core);   // asarray, from_dlpack
bool array_like_add(PyObject *core); // ArrayLike
bool namespace_add(PyObject *core); // __array_namespace_info__
PyObject *namespace_of(PyObject *array, PyObject *args, PyObject *kwargs); // array.__array_namespace__

#endif
