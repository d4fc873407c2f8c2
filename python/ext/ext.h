// ext.h - the extension module zellige.core: declarations shared by its files, in one section per file.
//
// A Python array is a cell: an object that holds one immutable zl_array, and may get another one (a += 1,
// a[0] = 2). The library lends its results until a scope ends, so every function that Python calls opens a
// scope, works with lent arrays, wraps its result in a cell, and closes the scope:
//
//     zl_scope scope = ext_begin();
//     PyObject *result = ext_wrap(zl_add(a, b));
//     zl_scope_end(scope);
//
// Functions that return PyObject * or zl_array return NULL with a Python exception set. The library itself
// returns NULL with a message in zl_error(); only ext_wrap() and ext_raise() turn that into an exception.

#ifndef EXT_H
#define EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "zellige.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

// module.c --------------------------------------------------------------------------------------------------

// Adds the definitions of a file to zellige.core. Returns false, with an exception set, if that fails. The
// adders are called in the order of module.c.
typedef bool ext_adder(PyObject *core);
ext_adder ext_add_errors, ext_add_dtypes, ext_add_devices, ext_add_arrays, ext_add_indexing, ext_add_format,
    ext_add_interchange, ext_add_trees, ext_add_transforms, ext_add_memory, ext_add_constants, ext_add_ops,
    ext_add_shaped, ext_add_aliases, ext_add_random, ext_add_export, ext_add_absent, ext_add_distributed,
    ext_add_files, ext_add_tile, ext_add_profile, ext_add_language;

// Returns a submodule such as zellige.core.random, borrowed, and makes it if needed.
PyObject *ext_submodule(PyObject *core, const char *name, const char *doc);
// Adds an object to a module, and takes over the reference to it. Returns false if object is NULL or that
// fails.
bool ext_add(PyObject *module, const char *name, PyObject *object);

// error.c ---------------------------------------------------------------------------------------------------

// Raises the library's error of this thread as a Python exception, and clears it. Returns NULL.
void *ext_raise(void);
void *ext_raise_as(PyObject *exception); // as this exception, whatever the error's kind
// The exception type for an axis out of range: both a ValueError and an IndexError.
extern PyObject *ext_axis_error;
// Adds the name of a function, and of its argument unless that is NULL, to an exception that only says what
// is wrong with an object. Returns false.
bool ext_name_argument(const char *function, PyObject *argument);

// array.c ---------------------------------------------------------------------------------------------------

struct cell {
    PyObject_HEAD
    zl_array value; // retained
    PyObject *weak;
};

extern PyTypeObject ext_array_type; // subclasses are allowed

static inline bool ext_is_array(PyObject *o) {
    return LIKELY(Py_TYPE(o) == &ext_array_type) || PyObject_TypeCheck(o, &ext_array_type);
}

// Returns a new array over a result of the library. NULL raises the library's error.
PyObject *ext_wrap(zl_array lent);
// Returns a tuple or list of new arrays.
PyObject *ext_wrap_all(int count, const zl_array *lent, bool as_tuple);
// Returns the value of an array. It is lent to the current scope if threads run without the GIL, and
// otherwise borrowed from the cell.
zl_array ext_value(PyObject *array);
// Gives the cell another value. If that is NULL, raises the library's error and returns false.
bool ext_assign(PyObject *array, zl_array lent);

// Evaluate arrays without the GIL. An interrupt (Ctrl-C) raises. They return false with an exception set if
// that fails.
bool ext_eval(int count, const zl_array *arrays);
bool ext_async_eval(int count, const zl_array *arrays);

// profile_context.c -----------------------------------------------------------------------------------------

// Begins a profile, with a timeline at path, which is bytes or NULL. Returns false with an exception set if
// that fails.
bool ext_profile_begin(PyObject *path);
PyObject *ext_profile_end(void);

// convert.c: Python values to arrays and back ---------------------------------------------------------------

// Returns the array, lent, that an op takes for an object: arrays, numbers (weak), NumPy scalars and arrays,
// objects with __mlx_array__, buffers and DLPack objects; lists only through ext_array_from. The value of an
// array is borrowed from its cell, to which any Python code may give another value: read all other arguments
// first.
zl_array ext_array_of(PyObject *o);
// Returns the same, lent by itself to the current scope: for arrays that are read before other arguments.
zl_array ext_array_held(PyObject *o);
// Returns the array that array(o, dtype) makes, also of nested lists and tuples of numbers and arrays.
// ZL_DTYPE_COUNT: the object's own dtype.
zl_array ext_array_from(PyObject *o, zl_dtype dtype);
PyObject *ext_item(zl_array a);    // returns the number in a one-element array
PyObject *ext_to_list(zl_array a); // returns nested lists, or the number in a scalar

// read whole numbers and objects with __index__
bool ext_to_int64(PyObject *o, int64_t *out);
bool ext_to_double(PyObject *o, double *out);
// Returns the UTF-8 of a str, which owns it. Returns NULL with an exception for other objects, lone
// surrogates and embedded NULs.
const char *ext_utf8(PyObject *o);
int ext_utf8_read(PyObject *o, void *out); // does the same for "O&" of PyArg_Parse, into a const char *
// Returns the bytes that name a file, for a str, bytes or an object with __fspath__. Returns NULL with an
// exception that names the function if that fails.
PyObject *ext_path(PyObject *o, const char *function);
// Returns bytes that should be UTF-8 as a str; other bytes become surrogates, as in names of files.
PyObject *ext_text(const char *data, size_t bytes);

// Sizes, strides or axes as op arguments, kept until ext_list_free.
struct ext_list {
    int64_t room[16];
    int64_t *item; // room, or allocated
    int count;
};
bool ext_list_read(PyObject *o, struct ext_list *list); // a number or a sequence of them
void ext_list_free(struct ext_list *list);
// Returns the items of a sequence as a tuple, a new reference, so that no other code can change or free them
// in the meantime. needed: the message for other objects.
PyObject *ext_tuple(PyObject *o, const char *needed);
PyObject *ext_shape_tuple(zl_shape shape);

// format.c --------------------------------------------------------------------------------------------------

PyObject *ext_repr(PyObject *array);                      // array([1, 2], dtype=int32)
PyObject *ext_format(PyObject *array, PyObject *spec); // __format__

// dtype.c ---------------------------------------------------------------------------------------------------

extern PyTypeObject ext_dtype_type;
PyObject *ext_dtype_object(zl_dtype dtype);             // borrowed; there is one per dtype
// reads a Dtype, a NumPy dtype or Python's bool, int, float, complex
bool ext_dtype_read(PyObject *o, zl_dtype *out);

// device.c --------------------------------------------------------------------------------------------------

// Reads the stream of a stream= argument: None (NULL: this thread's default), a Stream, ThreadLocalStream,
// Device or DeviceType.
bool ext_stream_read(PyObject *o, zl_stream *out);

// index.c ---------------------------------------------------------------------------------------------------

PyObject *ext_get(PyObject *array, PyObject *key);               // array[key]
int ext_set(PyObject *array, PyObject *key, PyObject *value);    // array[key] = value
PyObject *ext_at(PyObject *array, void *unused);                 // array.at
PyObject *ext_iter(PyObject *array);

// interchange.c: buffers, DLPack, NumPy, pickling -----------------------------------------------------------

extern PyBufferProcs ext_array_buffer;
extern PyMethodDef ext_interchange_methods[]; // of arrays: __array__, __dlpack__, __getstate__, ...
// Returns the array in a capsule named "dltensor" or "dltensor_versioned", lent, not copied; NULL with an
// exception if that fails.
zl_array ext_from_dlpack(PyObject *o);
zl_array ext_from_buffer(PyObject *o); // copies, or keeps the buffer alive as foreign memory where possible

// tree.c ----------------------------------------------------------------------------------------------------

// Calls visit on every leaf of a tree of dicts, lists, tuples and their subclasses, in MLX's order.
bool ext_tree_visit(PyObject *tree, bool (*visit)(PyObject *leaf, void *context), void *context);
// Returns the same tree with each leaf replaced by the result of map (a new reference).
PyObject *ext_tree_map(PyObject *tree, PyObject *(*map)(PyObject *leaf, void *context), void *context);
// Sets *cells to the cells of all arrays of a tree, borrowed, which the caller frees with PyMem_Free. Returns
// their number, or -1.
int ext_tree_arrays(PyObject *tree, PyObject ***cells);

// call.c: ops as Python functions ---------------------------------------------------------------------------

union ext_argument {
    zl_array array;
    struct { zl_array *list; int count; } arrays;
    int64_t integer;
    double number;
    bool truth;
    zl_dtype dtype;
    zl_shape shape;
    zl_axes axes;
    const char *text;
};

struct ext_param {
    const char *name;
    zl_param_type type;
    bool required;
    union ext_argument fallback;
    PyObject *key; // the name, interned at import
};

// One way to call a Python function: a C op.
struct ext_variant {
    const char *name; // "zl_sum_axes"
    struct ext_param *param;
    int params;
    zl_array (*call)(const union ext_argument *a);                // ops with one result
    bool (*call_all)(const union ext_argument *a, zl_array *out); // ops with several
    int outputs;
};

// A Python function. If it has several variants, the first has all parameters, and the others are for calls
// that leave some out.
struct ext_function {
    const char *module; // "", "random", "linalg", ...
    const char *name;
    const struct ext_variant *variant;
    int variants;
};

// Calls it as Python does (METH_FASTCALL | METH_KEYWORDS). self, if not NULL, is the first argument.
PyObject *ext_call(const struct ext_function *f, PyObject *self, PyObject *const *args, Py_ssize_t count,
                   PyObject *names);
// Opens a scope in which ops are recorded for a stream= argument, which may be NULL. Returns false with an
// exception set if that fails.
bool ext_scope(PyObject *stream, zl_scope *scope);
zl_scope ext_begin(void); // opens one in which ops are recorded for the default device

// bindings.c, generated from the op tables by zellige-gen
extern const struct ext_function ext_functions[];
extern PyMethodDef ext_op_methods[];       // of modules, in the order of ext_functions
extern PyMethodDef ext_op_array_methods[]; // the same as methods of arrays

// shaped.c: functions whose Python form is not that of one op -----------------------------------------------

extern PyMethodDef ext_shaped_array_methods[];

// random.c --------------------------------------------------------------------------------------------------

extern PyTypeObject ext_random_state_type; // a sequence of one array: this thread's key

#endif
