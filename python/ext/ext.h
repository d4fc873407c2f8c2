// ext.h - the extension module zellige.core: what its files offer each other. The header is the map: a
// section a file.
//
// A Python array is a cell: an object that holds one immutable zl_array and may be given another (a += 1,
// a[0] = 2). The library lends what it returns until a scope ends, so every function that Python calls opens
// a scope, works with lent arrays, keeps what it returns in a cell, and closes the scope:
//
//     zl_scope scope = ext_begin();
//     PyObject *result = ext_wrap(zl_add(a, b));
//     zl_scope_end(scope);
//
// Functions that return PyObject * or zl_array give NULL with a Python exception set. The library's own NULL,
// with a message in zl_error(), becomes an exception in ext_wrap() or ext_raise(), nowhere else.

#ifndef EXT_H
#define EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "zellige.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

// module.c --------------------------------------------------------------------------------------------------

// Each file adds what it defines to zellige.core: false with an exception set. They run in the order of
// module.c.
typedef bool ext_adder(PyObject *core);
ext_adder ext_add_errors, ext_add_dtypes, ext_add_devices, ext_add_arrays, ext_add_indexing, ext_add_format,
    ext_add_interchange, ext_add_trees, ext_add_transforms, ext_add_memory, ext_add_constants, ext_add_ops,
    ext_add_shaped, ext_add_aliases, ext_add_random, ext_add_export, ext_add_absent, ext_add_distributed,
    ext_add_files, ext_add_tile, ext_add_profile, ext_add_language;

// A submodule such as zellige.core.random, made if need be; borrowed.
PyObject *ext_submodule(PyObject *core, const char *name, const char *doc);
// Takes over the reference to object; false if that is NULL or it cannot be added.
bool ext_add(PyObject *module, const char *name, PyObject *object);

// error.c ---------------------------------------------------------------------------------------------------

// Raises the library's error of this thread as a Python exception, and clears it. NULL, to be returned.
void *ext_raise(void);
void *ext_raise_as(PyObject *exception); // as this exception, whatever its kind
// The exception type for an axis that is not there: both ValueError and IndexError.
extern PyObject *ext_axis_error;
// Names a function, and its argument unless that is NULL, in an exception that says only what is wrong with
// an object. False, to be returned.
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

// A new array over what the library returned; NULL raises its error.
PyObject *ext_wrap(zl_array lent);
// A tuple or list of new arrays.
PyObject *ext_wrap_all(int count, const zl_array *lent, bool as_tuple);
// The value of an array: lent to the current scope where threads run without the GIL, else borrowed from the
// cell.
zl_array ext_value(PyObject *array);
// Gives the cell another value; false raises the library's error when that is NULL.
bool ext_assign(PyObject *array, zl_array lent);

// Evaluation without the GIL; an interrupt (Ctrl-C) raises. false with an exception set.
bool ext_eval(int count, const zl_array *arrays);
bool ext_async_eval(int count, const zl_array *arrays);

// profile_context.c -----------------------------------------------------------------------------------------

// Begins a profile with a timeline at path, bytes that may be NULL: false with an exception set. Ends it and
// returns the table, a str.
bool ext_profile_begin(PyObject *path);
PyObject *ext_profile_end(void);

// convert.c: Python values to arrays and back ---------------------------------------------------------------

// What an op takes for an array, lent: arrays, numbers (weak), NumPy scalars and arrays, objects with
// __mlx_array__, buffers and DLPack objects. Lists only through ext_array_from. The value of an array is
// borrowed from its cell, which any Python code may give another: read what else there is first.
zl_array ext_array_of(PyObject *o);
// The same, lent by itself to the current scope: for arrays that are read before other arguments.
zl_array ext_array_held(PyObject *o);
// What array(o, dtype) makes: also nested lists and tuples of numbers and arrays. ZL_DTYPE_COUNT: its own
// dtype.
zl_array ext_array_from(PyObject *o, zl_dtype dtype);
PyObject *ext_item(zl_array a);    // the number in a one-element array
PyObject *ext_to_list(zl_array a); // nested lists; of a scalar the number

// whole numbers and what has __index__
bool ext_to_int64(PyObject *o, int64_t *out);
bool ext_to_double(PyObject *o, double *out);
// The UTF-8 of a str, owned by it. NULL with an exception for other objects, lone surrogates and embedded
// NULs.
const char *ext_utf8(PyObject *o);
int ext_utf8_read(PyObject *o, void *out); // the same for "O&" of PyArg_Parse, into a const char *
// The bytes that name a file, of a str, bytes or an object with __fspath__. NULL with an exception that names
// the function.
PyObject *ext_path(PyObject *o, const char *function);
// Bytes that should be UTF-8 as a str: others become surrogates, as in names of files.
PyObject *ext_text(const char *data, size_t bytes);

// Sizes, strides or axes as op arguments. Lists are kept by the holder until ext_list_free.
struct ext_list {
    int64_t room[16];
    int64_t *item; // room, or allocated
    int count;
};
bool ext_list_read(PyObject *o, struct ext_list *list); // a number or a sequence of them
void ext_list_free(struct ext_list *list);
// The items of a sequence, which nobody can change or let go meanwhile: a new reference. needed: says what
// is.
PyObject *ext_tuple(PyObject *o, const char *needed);
PyObject *ext_shape_tuple(zl_shape shape);

// format.c --------------------------------------------------------------------------------------------------

PyObject *ext_repr(PyObject *array);                      // array([1, 2], dtype=int32)
PyObject *ext_format(PyObject *array, PyObject *spec); // __format__

// dtype.c ---------------------------------------------------------------------------------------------------

extern PyTypeObject ext_dtype_type;
PyObject *ext_dtype_object(zl_dtype dtype);             // borrowed: there is one of each
// a Dtype, a NumPy dtype or Python's bool, int, float, complex
bool ext_dtype_read(PyObject *o, zl_dtype *out);

// device.c --------------------------------------------------------------------------------------------------

// The stream of a stream= argument: None (NULL: this thread's default), a Stream, ThreadLocalStream, Device,
// DeviceType.
bool ext_stream_read(PyObject *o, zl_stream *out);

// index.c ---------------------------------------------------------------------------------------------------

PyObject *ext_get(PyObject *array, PyObject *key);               // array[key]
int ext_set(PyObject *array, PyObject *key, PyObject *value);    // array[key] = value
PyObject *ext_at(PyObject *array, void *unused);                 // array.at
PyObject *ext_iter(PyObject *array);

// interchange.c: buffers, DLPack, NumPy, pickling -----------------------------------------------------------

extern PyBufferProcs ext_array_buffer;
extern PyMethodDef ext_interchange_methods[]; // of arrays: __array__, __dlpack__, __reduce_ex__'s state, ...
// The array in a capsule named "dltensor" or "dltensor_versioned", or NULL with an exception; lent, not
// copied.
zl_array ext_from_dlpack(PyObject *o);
zl_array ext_from_buffer(PyObject *o); // copied, or kept alive as foreign memory where possible

// tree.c ----------------------------------------------------------------------------------------------------

// Calls visit on every leaf of a tree of dicts, lists, tuples, their subclasses and dataclasses, in MLX's
// order.
bool ext_tree_visit(PyObject *tree, bool (*visit)(PyObject *leaf, void *context), void *context);
// The same tree with each leaf replaced by what map gives (a new reference).
PyObject *ext_tree_map(PyObject *tree, PyObject *(*map)(PyObject *leaf, void *context), void *context);
// All arrays of a tree: their cells, borrowed, in *cells (PyMem_Free it); how many, or -1.
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

// A Python function. Of several variants the first has all parameters; the others are for calls that leave
// some out.
struct ext_function {
    const char *module; // "", "random", "linalg", ...
    const char *name;
    const struct ext_variant *variant;
    int variants;
};

// Calls it as Python does (METH_FASTCALL | METH_KEYWORDS); self, if not NULL, is the first argument.
PyObject *ext_call(const struct ext_function *f, PyObject *self, PyObject *const *args, Py_ssize_t count,
                   PyObject *names);
// Opens a scope in which ops are recorded for a stream= argument, which may be NULL. False with an exception
// set.
bool ext_scope(PyObject *stream, zl_scope *scope);
zl_scope ext_begin(void); // opens one in which they are recorded for the default device

// Generated from the op tables by zellige-gen: bindings.c.
extern const struct ext_function ext_functions[];
extern PyMethodDef ext_op_methods[];       // of modules, in the order of ext_functions
extern PyMethodDef ext_op_array_methods[]; // the same as methods of arrays

// shaped.c: functions whose Python form is not that of one op -----------------------------------------------

extern PyMethodDef ext_shaped_array_methods[];

// random.c --------------------------------------------------------------------------------------------------

extern PyTypeObject ext_random_state_type; // a sequence of one array: the key of this thread

#endif
