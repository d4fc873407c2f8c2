// convert.h - what convert.c, foreign.c, interchange.c, array_like.c and namespace.c offer each other beyond
// ext.h.

#ifndef CONVERT_H
#define CONVERT_H

#include "ext.h"

#define CONVERT_AXES 64 // of arrays that come from Python: deeper lists and bigger buffers are refused

// Evaluates a, which the caller keeps, without the GIL; its elements in row-major order, lent to the current
// scope. NULL with an exception; an array of no elements gives any address that is not NULL.
const void *convert_read(zl_array a);

// ext_array_of for what stands beside an array in an op: whole numbers must fit its dtype, NumPy arrays and
// other memory take it.
zl_array convert_beside(PyObject *o, zl_dtype dtype);

// Whether an axis may have this size, as MLX sees it: sizes beyond 32 bits raise OverflowError there.
bool convert_size(int64_t size);

// Whether an operation may, must or must not copy the memory of its argument.
enum convert_copy { CONVERT_COPY, CONVERT_MAY_SHARE, CONVERT_NEVER_COPY };

// The array in an object that exposes memory: a buffer or DLPack. ZL_DTYPE_COUNT: its own dtype. NULL without
// an exception when the object exposes none.
zl_array convert_memory(PyObject *o, zl_dtype dtype, enum convert_copy copy);
// The same of what o.__array__() gives, a copy.
zl_array convert_numpy(PyObject *o, zl_dtype dtype);

bool foreign_add(PyObject *core);   // asarray, from_dlpack
bool array_like_add(PyObject *core); // ArrayLike
bool namespace_add(PyObject *core); // __array_namespace_info__
PyObject *namespace_of(PyObject *array, PyObject *args, PyObject *kwargs); // array.__array_namespace__

#endif
