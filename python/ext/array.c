// array.c - the array type: a mutable cell over an immutable value. Operators and properties are here;
// methods come from the op tables, and from the files that ext.h lists.

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "convert.h"

// Cells -----------------------------------------------------------------------------------------------------

#ifdef Py_GIL_DISABLED
#define LOCKED(o) Py_BEGIN_CRITICAL_SECTION(o)
#define UNLOCKED Py_END_CRITICAL_SECTION()
#else
#define LOCKED(o) {
#define UNLOCKED }
#endif

static PyObject *new_cell(PyTypeObject *type, zl_array lent) {
    struct cell *cell = (struct cell *)type->tp_alloc(type, 0);
    if (cell)
        cell->value = lent ? zl_retain(lent) : NULL;
    return (PyObject *)cell;
}

#ifndef Py_GIL_DISABLED
// Memory of freed cells, for new ones: most cells live for one expression.
enum { SPARE = 64 };
static struct cell *spare[SPARE];
static int spares;
#endif

// Returns whether MLX allows the sizes of a computed array.
static bool check_sizes(zl_array a) {
    zl_shape shape = zl_shape_of(a);
    for (int i = 0; i < shape.ndim; i++)
        if (!convert_size(shape.dim[i]))
            return false;
    return true;
}

PyObject *ext_wrap(zl_array lent) {
    if (UNLIKELY(!lent))
        return ext_raise();
    if (UNLIKELY(zl_size(lent) > INT32_MAX) && !check_sizes(lent))
        return NULL;
#ifndef Py_GIL_DISABLED
    if (LIKELY(spares > 0)) {
        struct cell *cell = spare[--spares];
        (void)PyObject_Init((PyObject *)cell, &ext_array_type);
        cell->value = zl_retain(lent);
        cell->weak = NULL;
        return (PyObject *)cell;
    }
#endif
    return new_cell(&ext_array_type, lent);
}

static void dealloc(PyObject *self) {
    struct cell *cell = (struct cell *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (cell->weak)
        PyObject_ClearWeakRefs(self);
    if (cell->value)
        zl_release(cell->value);
#ifndef Py_GIL_DISABLED
    if (LIKELY(type == &ext_array_type && spares < SPARE)) {
        spare[spares++] = cell;
        return;
    }
#endif
    type->tp_free(self);
}

PyObject *ext_wrap_all(int count, const zl_array *lent, bool as_tuple) {
    PyObject *list = as_tuple ? PyTuple_New(count) : PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *a = ext_wrap(lent[i]);
        if (!a)
            Py_CLEAR(list);
        else if (as_tuple)
            PyTuple_SET_ITEM(list, i, a);
        else
            PyList_SET_ITEM(list, i, a);
    }
    return list;
}

zl_array ext_value(PyObject *array) {
    struct cell *cell = (struct cell *)array;
#ifdef Py_GIL_DISABLED
    zl_array value;
    Py_BEGIN_CRITICAL_SECTION(array);
    zl_scope inner = ext_begin();
    // lent once more, since another thread may give the cell another value
    value = zl_scope_leave(inner, cell->value);
    Py_END_CRITICAL_SECTION();
    return value;
#else
    return cell->value;
#endif
}

bool ext_assign(PyObject *array, zl_array lent) {
    struct cell *cell = (struct cell *)array;
    if (!lent) {
        ext_raise();
        return false;
    }
    zl_array old;
    zl_retain(lent);
    LOCKED(array);
    old = cell->value;
    cell->value = lent;
    UNLOCKED;
    if (old)
        zl_release(old);
    return true;
}

// Evaluation ------------------------------------------------------------------------------------------------

// Returns whether Ctrl-C or another signal handler raised an exception. The library calls this while it works
// without the GIL. Python handles signals only in the main thread; another thread must not wait for the GIL
// here, since its holder may wait for that thread.
static bool was_interrupted(void *context) {
    (void)context;
    if (syscall(SYS_gettid) != getpid())
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
}

bool ext_eval(int count, const zl_array *arrays) {
    bool ok;
    if (count == 1 && zl_is_available(arrays[0])) {
        ok = zl_eval(arrays[0]);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        ok = zl_eval_all(count, arrays);
        Py_END_ALLOW_THREADS;
    }
    if (!ok)
        ext_raise();
    return ok;
}

bool ext_async_eval(int count, const zl_array *arrays) {
    bool ok;
    Py_BEGIN_ALLOW_THREADS;
    ok = zl_async_eval_all(count, arrays);
    Py_END_ALLOW_THREADS;
    if (!ok)
        ext_raise();
    return ok;
}

// Making ----------------------------------------------------------------------------------------------------

// Makes an empty cell, which __init__ or unpickling fills.
static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    return new_cell(type, NULL);
}

static int array_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"val", "dtype", NULL};
    PyObject *val, *dtype_object = Py_None;
    zl_dtype dtype = ZL_DTYPE_COUNT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:array", names, &val, &dtype_object))
        return -1;
    if (dtype_object != Py_None && !ext_dtype_read(dtype_object, &dtype))
        return -1;
    zl_scope scope = ext_begin();
    zl_array a = ext_array_from(val, dtype);
    bool ok = a && ext_assign(self, a);
    zl_scope_end(scope);
    return ok ? 0 : -1;
}

// Operators -------------------------------------------------------------------------------------------------

// Returns the operand next to an array. Returns NULL, with an exception or, for an object that may implement
// the operator itself, without one.
static zl_array operand(PyObject *o, PyObject *beside) {
    if (LIKELY(ext_is_array(o)))
        return ext_value(o);
    if (PyList_Check(o) || PyTuple_Check(o) || PyUnicode_Check(o) || o == Py_None) {
        PyErr_Format(PyExc_ValueError,
                     "an array and a %s have no common operation: make an array of it first",
                     Py_TYPE(o)->tp_name);
        return NULL;
    }
    return convert_beside(o, ext_is_array(beside) ? zl_dtype_of(ext_value(beside)) : ZL_DTYPE_COUNT);
}

// Returns the exception of operand(), or NotImplemented if the other object may implement the operator.
static PyObject *not_ours(PyObject *left, PyObject *right) {
    PyObject *other = ext_is_array(left) ? right : left;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL;
    bool ours = PyList_Check(other) || PyTuple_Check(other) || PyUnicode_Check(other) ||
                PyLong_Check(other) || other == Py_None;
    if (ours && PyErr_Occurred())
        return NULL;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

typedef zl_array unary_op(zl_array);
typedef zl_array binary_op(zl_array, zl_array);

static PyObject *apply_unary(unary_op *op, PyObject *self) {
    zl_scope scope = ext_begin();
    PyObject *result = ext_wrap(op(ext_value(self)));
    zl_scope_end(scope);
    return result;
}

static PyObject *apply_binary(binary_op *op, PyObject *left, PyObject *right) {
    zl_scope scope = ext_begin();
    bool is_ours = ext_is_array(left); // is read last: methods of the other may assign its cell
    zl_array first = is_ours ? operand(right, left) : operand(left, right);
    zl_array last = !first ? NULL : is_ours ? operand(left, right) : operand(right, left);
    zl_array a = is_ours ? last : first, b = is_ours ? first : last;
    PyObject *result = a && b ? ext_wrap(op(a, b)) : not_ours(left, right);
    zl_scope_end(scope);
    return result;
}

// a += b gives the cell another value, so that all holders of the cell see it.
static PyObject *apply_in_place(binary_op *op, PyObject *self, PyObject *other) {
    zl_scope scope = ext_begin();
    zl_array b = operand(other, self);
    PyObject *result = !b                                         ? not_ours(self, other)
                       : ext_assign(self, op(ext_value(self), b)) ? Py_NewRef(self)
                                                                  : NULL;
    zl_scope_end(scope);
    return result;
}

#define UNARY(slot, op) \
    static PyObject *slot(PyObject *self) { return apply_unary(op, self); }
#define BINARY(slot, op)                                                \
    static PyObject *slot(PyObject *left, PyObject *right) {            \
        return apply_binary(op, left, right);                           \
    }                                                                   \
    static PyObject *in_place_##slot(PyObject *self, PyObject *other) { \
        return apply_in_place(op, self, other);                         \
    }

static zl_array both(zl_array a, zl_array b) {
    return zl_bitwise_and(a, b);
}
static zl_array either(zl_array a, zl_array b) {
    return zl_bitwise_or(a, b);
}

UNARY(negative, zl_negative)
UNARY(absolute, zl_abs)
UNARY(invert, zl_bitwise_invert)
UNARY(positive, zl_positive)
BINARY(add, zl_add)
BINARY(subtract, zl_subtract)
BINARY(multiply, zl_multiply)
BINARY(floor_divide, zl_floor_divide)
BINARY(remainder_of, zl_remainder)
BINARY(matrix_multiply, zl_matmul)
BINARY(and_, both)
BINARY(or_, either)
BINARY(xor_, zl_bitwise_xor)
BINARY(left_shift, zl_left_shift)
BINARY(right_shift, zl_right_shift)

static PyObject *true_divide(PyObject *left, PyObject *right) {
    return apply_binary(zl_divide, left, right);
}

static PyObject *in_place_true_divide(PyObject *self, PyObject *other) {
    if (zl_dtype_of(ext_value(self)) >= ZL_FLOAT16)
        return apply_in_place(zl_divide, self, other);
    PyErr_Format(PyExc_ValueError,
                 "/= on an array of %s: its elements cannot hold quotients; use a = a / b, or //=",
                 zl_dtype_name(zl_dtype_of(ext_value(self))));
    return NULL;
}

static PyObject *power(PyObject *left, PyObject *right, PyObject *modulus) {
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return apply_binary(zl_power, left, right);
}

static PyObject *in_place_power(PyObject *self, PyObject *other, PyObject *modulus) {
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return apply_in_place(zl_power, self, other);
}

static PyObject *divide_with_rest(PyObject *left, PyObject *right) {
    zl_scope scope = ext_begin();
    zl_array a = operand(left, right), b = a ? operand(right, left) : NULL, out[2];
    PyObject *result = !a || !b                ? not_ours(left, right)
                       : zl_divmod(a, b, out) ? ext_wrap_all(2, out, true) : ext_raise();
    zl_scope_end(scope);
    return result;
}

static PyObject *compare(PyObject *left, PyObject *right, int how) {
    static binary_op *const ops[] = {
        [Py_LT] = zl_less,      [Py_LE] = zl_less_equal, [Py_EQ] = zl_equal,
        [Py_NE] = zl_not_equal, [Py_GT] = zl_greater,    [Py_GE] = zl_greater_equal};
    bool plain = PyList_Check(right) || PyTuple_Check(right) || PyUnicode_Check(right) || right == Py_None;
    if (plain && (how == Py_EQ || how == Py_NE)) // an array never equals an object that cannot be an element
        return PyBool_FromLong(how == Py_NE);
    return apply_binary(ops[how], left, right);
}

// As numbers ------------------------------------------------------------------------------------------------

static PyObject *number_in(PyObject *self) {
    zl_scope scope = ext_begin();
    PyObject *number = ext_item(ext_value(self));
    zl_scope_end(scope);
    return number;
}

static PyObject *convert_with(PyObject *self, PyObject *(*convert)(PyObject *)) {
    PyObject *number = number_in(self), *result = number ? convert(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *to_int(PyObject *self) {
    return convert_with(self, PyNumber_Long);
}

static PyObject *to_float(PyObject *self) {
    return convert_with(self, PyNumber_Float);
}

static PyObject *to_index(PyObject *self) {
    zl_dtype dtype = zl_dtype_of(ext_value(self));
    if (dtype > ZL_INT64) {
        PyErr_Format(PyExc_TypeError, "an array of %s cannot be an index: integers are needed",
                     zl_dtype_name(dtype));
        return NULL;
    }
    return convert_with(self, PyNumber_Index);
}

static PyObject *to_complex(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *number = number_in(self);
    PyObject *result = number ? PyObject_CallOneArg((PyObject *)&PyComplex_Type, number) : NULL;
    Py_XDECREF(number);
    return result;
}

static int is_true(PyObject *self) {
    PyObject *number = number_in(self);
    int truth = number ? PyObject_IsTrue(number) : -1;
    Py_XDECREF(number);
    return truth;
}

// Properties and small methods ------------------------------------------------------------------------------

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    return ext_shape_tuple(zl_shape_of(ext_value(self)));
}

static PyObject *get_strides(PyObject *self, void *unused) {
    (void)unused;
    return ext_shape_tuple(zl_strides_of(ext_value(self)));
}

static PyObject *get_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(zl_ndim(ext_value(self)));
}

static PyObject *get_size(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(zl_size(ext_value(self)));
}

static PyObject *get_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(zl_dtype_size(zl_dtype_of(ext_value(self))));
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(zl_nbytes(ext_value(self)));
}

static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(ext_dtype_object(zl_dtype_of(ext_value(self))));
}

static zl_array transpose_all(zl_array a) {
    return zl_transpose(a, ZL_ALL);
}

static PyObject *get_view(PyObject *self, void *op) {
    return apply_unary(*(unary_op **)op, self);
}

static unary_op *transposed = transpose_all, *matrix_transposed = zl_matrix_transpose, *real_part = zl_real,
                *imaginary_part = zl_imag;

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "Sizes, a tuple.", NULL},
    {"strides", get_strides, NULL, "Elements from one to the next along each axis.", NULL},
    {"ndim", get_ndim, NULL, "How many axes there are.", NULL},
    {"size", get_size, NULL, "How many elements there are.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"T", get_view, NULL, "The axes in reverse order, as a view.", &transposed},
    {"mT", get_view, NULL, "The last two axes swapped, as a view.", &matrix_transposed},
    {"real", get_view, NULL, "The real part.", &real_part},
    {"imag", get_view, NULL, "The imaginary part.", &imaginary_part},
    {"at", ext_at, NULL, "at[index].add(values) and the like: updates that do not overwrite each other.",
     NULL},
    {0},
};

static PyObject *item(PyObject *self, PyObject *unused) {
    (void)unused;
    return number_in(self);
}

static PyObject *to_list(PyObject *self, PyObject *unused) {
    (void)unused;
    zl_scope scope = ext_begin();
    PyObject *list = ext_to_list(ext_value(self));
    zl_scope_end(scope);
    return list;
}

static Py_ssize_t length(PyObject *self) {
    zl_array a = ext_value(self);
    if (zl_ndim(a) > 0)
        return (Py_ssize_t)zl_dim(a, 0);
    PyErr_SetString(PyExc_TypeError, "len() of a 0-dimensional array");
    return -1;
}

// The names of / in Python 2, which MLX has too.
static PyObject *divided_by(PyObject *self, PyObject *other) {
    return true_divide(self, other);
}

static PyObject *dividing(PyObject *self, PyObject *other) {
    return true_divide(other, self);
}

static PyMethodDef small_methods[] = {
    {"item", item, METH_NOARGS, "The number in an array of one element."},
    {"tolist", to_list, METH_NOARGS, "Nested lists of the elements; of a scalar its number."},
    {"__complex__", to_complex, METH_NOARGS, NULL},
    {"__div__", divided_by, METH_O, NULL},
    {"__rdiv__", dividing, METH_O, NULL},
    {"__format__", ext_format, METH_O, NULL},
    {0},
};

// The type --------------------------------------------------------------------------------------------------

static PyNumberMethods number = {
    .nb_add = add,
    .nb_subtract = subtract,
    .nb_multiply = multiply,
    .nb_remainder = remainder_of,
    .nb_divmod = divide_with_rest,
    .nb_power = power,
    .nb_negative = negative,
    .nb_positive = positive,
    .nb_absolute = absolute,
    .nb_bool = is_true,
    .nb_invert = invert,
    .nb_lshift = left_shift,
    .nb_rshift = right_shift,
    .nb_and = and_,
    .nb_xor = xor_,
    .nb_or = or_,
    .nb_int = to_int,
    .nb_float = to_float,
    .nb_inplace_add = in_place_add,
    .nb_inplace_subtract = in_place_subtract,
    .nb_inplace_multiply = in_place_multiply,
    .nb_inplace_remainder = in_place_remainder_of,
    .nb_inplace_power = in_place_power,
    .nb_inplace_lshift = in_place_left_shift,
    .nb_inplace_rshift = in_place_right_shift,
    .nb_inplace_and = in_place_and_,
    .nb_inplace_xor = in_place_xor_,
    .nb_inplace_or = in_place_or_,
    .nb_floor_divide = floor_divide,
    .nb_true_divide = true_divide,
    .nb_inplace_floor_divide = in_place_floor_divide,
    .nb_inplace_true_divide = in_place_true_divide,
    .nb_index = to_index,
    .nb_matrix_multiply = matrix_multiply,
    .nb_inplace_matrix_multiply = in_place_matrix_multiply,
};

static PyMappingMethods mapping = {.mp_length = length, .mp_subscript = ext_get, .mp_ass_subscript = ext_set};

// Hashes the cell, not the value: == compares elements.
static Py_hash_t hash(PyObject *self) {
    return (Py_hash_t)((uintptr_t)self >> 4);
}

PyTypeObject ext_array_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.array",
    .tp_doc = "array(val, dtype=None)\n--\n\nAn array of numbers: lazy, of any rank, on any device.",
    .tp_basicsize = sizeof(struct cell),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = array_new,
    .tp_init = array_init,
    .tp_dealloc = dealloc,
    .tp_weaklistoffset = offsetof(struct cell, weak),
    .tp_repr = ext_repr,
    .tp_hash = hash,
    .tp_richcompare = compare,
    .tp_iter = ext_iter,
    .tp_as_number = &number,
    .tp_as_mapping = &mapping,
    .tp_as_buffer = &ext_array_buffer,
    .tp_getset = properties,
};

static int count_methods(const PyMethodDef *m) {
    int count = 0;
    while (m[count].ml_name)
        count++;
    return count;
}

static bool is_property(const char *name) {
    for (int i = 0; properties[i].name; i++)
        if (!strcmp(properties[i].name, name))
            return true;
    return false;
}

// Returns all methods in one list. Of methods with the same name the first is used, and a property precedes a
// method.
static PyMethodDef *gather_methods(void) {
    PyMethodDef *const lists[] = {small_methods, ext_interchange_methods, ext_shaped_array_methods,
                                  ext_op_array_methods};
    int total = 0, at = 0;
    for (int i = 0; i < COUNT(lists); i++)
        total += count_methods(lists[i]);
    PyMethodDef *all = PyMem_Calloc((size_t)total + 1, sizeof *all);
    for (int i = 0; all && i < COUNT(lists); i++)
        for (const PyMethodDef *m = lists[i]; m->ml_name; m++)
            if (!is_property(m->ml_name))
                all[at++] = *m;
    return all ? all : (void *)PyErr_NoMemory();
}

bool ext_add_arrays(PyObject *core) {
    // lives as long as the type
    if (!ext_array_type.tp_methods && !(ext_array_type.tp_methods = gather_methods()))
        return false;
    zl_set_interrupt(was_interrupted, NULL);
    return PyType_Ready(&ext_array_type) == 0 &&
           ext_add(core, "array", Py_NewRef((PyObject *)&ext_array_type));
}
