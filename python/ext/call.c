// call.c - ops as Python functions: reads arguments by the tables that zellige-gen makes from the ops'
// signatures.

#include <limits.h>
#include <string.h>

#include "convert.h"
#include "device.h"

enum { PARAMS = 18, SEVERAL = 8 };

// Memory of one argument while the op is called.
struct held {
    struct ext_list list;
    int axis[COUNT(((struct ext_list *)0)->room)];
    void *more;      // allocated, if axes or arrays do not fit
    PyObject *tuple; // the arrays are its items
    bool has_list;
};

struct frame {
    const struct ext_function *f;
    PyObject *given[PARAMS]; // by the parameters of the first variant; NULL: left out
    PyObject *stream;
    union ext_argument value[PARAMS];
    struct held held[PARAMS];
};

// Which object goes where -----------------------------------------------------------------------------------

static PyObject *stream_key;

static bool wrong_call(const struct ext_function *f, const char *what, PyObject *name) {
    PyErr_Format(PyExc_TypeError, name ? "%s(): %s '%U'" : "%s(): %s", f->name, what, name);
    return false;
}

static int find_param(const struct ext_variant *v, PyObject *key) {
    for (int i = 0; i < v->params; i++)
        if (v->param[i].key == key)
            return i;
    for (int i = 0; i < v->params; i++)
        if (PyUnicode_Compare(v->param[i].key, key) == 0)
            return i;
    return -1;
}

static bool place_keyword(struct frame *c, PyObject *key, PyObject *value) {
    int at = find_param(&c->f->variant[0], key);
    if (at < 0 && PyUnicode_Compare(key, stream_key) == 0) {
        c->stream = value;
        return true;
    }
    if (at < 0)
        return wrong_call(c->f, "there is no argument", key);
    if (c->given[at])
        return wrong_call(c->f, "two values for the argument", key);
    c->given[at] = value;
    return true;
}

static bool place(struct frame *c, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    const struct ext_variant *v = &c->f->variant[0];
    int at = 0;
    c->stream = NULL;
    for (int i = 0; i < v->params; i++)
        c->given[i] = NULL;
    if (self)
        c->given[at++] = self;
    if (UNLIKELY(count > v->params - at)) {
        if (count != v->params - at + 1) // the stream may come last
            return wrong_call(c->f, "too many arguments", NULL);
        c->stream = args[--count];
    }
    for (Py_ssize_t i = 0; i < count; i++)
        c->given[at++] = args[i];
    Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < keywords; i++)
        if (!place_keyword(c, PyTuple_GET_ITEM(names, i), args[count + i]))
            return false;
    return true;
}

// Which variant takes them ----------------------------------------------------------------------------------

static bool is_given(const struct frame *c, int at) {
    return c->given[at] && c->given[at] != Py_None;
}

// Returns whether parameter `at` is an axis that is None, given or by default. Another variant of the op,
// without an axis, then applies.
static bool is_no_axis(const struct frame *c, const struct ext_param *p, int at) {
    return p->type == ZL_PARAM_INT && !is_given(c, at) && (c->given[at] || p->fallback.integer == INT_MIN);
}

// Returns whether the call has all parameters that the variant requires, and no parameter that it lacks.
static bool fits(const struct frame *c, const struct ext_variant *v) {
    const struct ext_variant *all = &c->f->variant[0];
    for (int i = 0; i < v->params; i++) {
        int at = find_param(all, v->param[i].key);
        if (at < 0 || (v->param[i].required && !is_given(c, at)) || is_no_axis(c, &v->param[i], at))
            return false;
    }
    for (int i = 0; i < all->params; i++) {
        bool is_default = all->param[i].type == ZL_PARAM_BOOL && c->given[i] == Py_False;
        if (is_given(c, i) && !is_default && find_param(v, all->param[i].key) < 0)
            return false;
    }
    return true;
}

static const struct ext_variant *choose(const struct frame *c) {
    for (int i = 0; i < c->f->variants; i++)
        if (fits(c, &c->f->variant[i]))
            return &c->f->variant[i];
    return &c->f->variant[0]; // its errors say what is missing
}

// Objects to arguments --------------------------------------------------------------------------------------

static bool read_axes(PyObject *o, struct held *held, zl_axes *out) {
    held->has_list = true;
    held->list.item = NULL;
    if (!ext_list_read(o, &held->list))
        return false;
    int *axis = held->axis, count = held->list.count;
    if (count > COUNT(held->axis) && !(axis = held->more = PyMem_Malloc(sizeof(int) * (size_t)count)))
        return PyErr_NoMemory();
    for (int i = 0; i < count; i++) {
        if (held->list.item[i] < INT_MIN || held->list.item[i] > INT_MAX) {
            PyErr_Format(ext_axis_error, "%lld is not an axis of any array", (long long)held->list.item[i]);
            return false;
        }
        axis[i] = (int)held->list.item[i];
    }
    *out = (zl_axes){axis, count};
    return true;
}

static bool read_shape(PyObject *o, struct held *held, zl_shape *out) {
    held->has_list = true;
    held->list.item = NULL;
    if (!ext_list_read(o, &held->list))
        return false;
    for (int i = 0; i < held->list.count; i++)
        if (!convert_size(held->list.item[i]))
            return false;
    *out = (zl_shape){held->list.item, held->list.count};
    return true;
}

static bool read_arrays(PyObject *o, struct held *held, union ext_argument *out) {
    PyObject *tuple = held->tuple = ext_tuple(o, "a list or tuple of arrays is needed");
    if (!tuple)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    zl_array *list = held->more = PyMem_Malloc(sizeof(zl_array) * (size_t)(count + 1));
    bool ok = list && count <= INT_MAX;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        list[i] = ext_is_array(item) ? NULL : ext_array_of(item); // NULL: read_cells sets it
        ok = list[i] || ext_is_array(item);
    }
    out->arrays.list = list;
    out->arrays.count = (int)count;
    return ok || (list ? false : (PyErr_NoMemory(), false));
}

static bool read_int(PyObject *o, int64_t *out) {
    if (!ext_to_int64(o, out))
        return false;
    if (*out >= INT_MIN && *out <= INT_MAX)
        return true;
    PyErr_Format(PyExc_OverflowError, "%lld does not fit 32 bits", (long long)*out);
    return false;
}

static bool read_text(PyObject *o, const char **out) {
    return (*out = ext_utf8(o)) != NULL;
}

static bool read_truth(PyObject *o, bool *out) {
    int truth = PyObject_IsTrue(o);
    *out = truth > 0;
    return truth >= 0;
}

// Returns whether a parameter takes part in promotion. A condition does not.
static bool is_operand(const struct ext_param *p) {
    return p->type == ZL_PARAM_ARRAY && strcmp(p->name, "condition");
}

// Returns the dtype of the first operand that is an array, or ZL_DTYPE_COUNT. Optional arrays, such as a key,
// are not operands.
static zl_dtype dtype_beside(const struct frame *c, const struct ext_variant *v) {
    const struct ext_variant *all = &c->f->variant[0];
    for (int i = 0; i < all->params && v->params > 1; i++)
        if (is_operand(&all->param[i]) && c->given[i] && ext_is_array(c->given[i]))
            return zl_dtype_of(ext_value(c->given[i]));
    return ZL_DTYPE_COUNT;
}

static bool read_argument(PyObject *o, zl_param_type type, zl_dtype beside, struct held *held,
                          union ext_argument *out) {
    switch (type) {
    case ZL_PARAM_OPTIONAL:
        if (o == Py_None)
            return !(out->array = NULL);
        // fallthrough
    case ZL_PARAM_ARRAY:
        return (out->array = convert_beside(o, beside)) != NULL;
    case ZL_PARAM_ARRAYS: return read_arrays(o, held, out);
    case ZL_PARAM_INT: return read_int(o, &out->integer);
    case ZL_PARAM_INT64: return ext_to_int64(o, &out->integer);
    case ZL_PARAM_DOUBLE: return ext_to_double(o, &out->number);
    case ZL_PARAM_BOOL: return read_truth(o, &out->truth);
    case ZL_PARAM_DTYPE: return ext_dtype_read(o, &out->dtype);
    case ZL_PARAM_SHAPE: return read_shape(o, held, &out->shape);
    case ZL_PARAM_AXES: return read_axes(o, held, &out->axes);
    case ZL_PARAM_STRING: return read_text(o, &out->text);
    case ZL_PARAM_OUTPUT: break;
    }
    return false;
}

static zl_array number_as_array(double value) {
    return value == (double)(int64_t)value ? zl_scalar_int((int64_t)value) : zl_scalar(value);
}

static bool is_array_param(const struct ext_param *p) {
    return p->type == ZL_PARAM_ARRAY || p->type == ZL_PARAM_OPTIONAL;
}

// Returns the object for a parameter of a variant, or NULL if it was left out.
static PyObject *given_for(const struct frame *c, const struct ext_variant *v, int i) {
    return c->given[v == c->f->variant ? i : find_param(&c->f->variant[0], v->param[i].key)];
}

static bool read_listed_cells(const struct held *held, union ext_argument *out) {
    bool ok = true;
    for (int i = 0; ok && i < out->arrays.count; i++)
        ok = out->arrays.list[i] || (out->arrays.list[i] = ext_array_of(PyTuple_GET_ITEM(held->tuple, i)));
    return ok;
}

// Reads the values of arrays last, since methods of the other objects may have given their cells other
// values.
static bool read_cells(struct frame *c, const struct ext_variant *v) {
    for (int i = 0; i < v->params; i++) {
        if (c->held[i].tuple && !read_listed_cells(&c->held[i], &c->value[i]))
            return false;
        PyObject *o = is_array_param(&v->param[i]) ? given_for(c, v, i) : NULL;
        if (!o || !ext_is_array(o))
            continue;
        c->value[i].array = ext_value(o);
        if (UNLIKELY(!c->value[i].array))
            return ext_array_of(o) != NULL; // raises
    }
    return true;
}

static bool read_all(struct frame *c, const struct ext_variant *v) {
    for (int i = 0; i < v->params; i++) {
        c->held[i].has_list = false;
        c->held[i].more = NULL;
        c->held[i].tuple = NULL;
    }
    zl_dtype beside = dtype_beside(c, v);
    for (int i = 0; i < v->params; i++) {
        const struct ext_param *p = &v->param[i];
        PyObject *o = given_for(c, v, i);
        if (LIKELY(o && is_array_param(p) && ext_is_array(o)))
            continue;
        bool is_none = o == Py_None && (!p->required || p->type == ZL_PARAM_OPTIONAL);
        if (!o || is_none) {
            if (!is_none && p->required)
                return wrong_call(c->f, "missing argument", p->key);
            c->value[i] = p->fallback;
            if (p->type == ZL_PARAM_AXES && o) // None was passed: all axes, whatever the default
                c->value[i].axes = ZL_ALL;
            if (p->type == ZL_PARAM_ARRAY) // the default is a number
                c->value[i].array = number_as_array(p->fallback.number);
        } else if (!read_argument(o, p->type, is_operand(p) ? beside : ZL_DTYPE_COUNT, &c->held[i],
                                  &c->value[i])) {
            return ext_name_argument(c->f->name, p->key);
        }
    }
    return read_cells(c, v);
}

static void let_go(struct frame *c, const struct ext_variant *v) {
    for (int i = 0; i < v->params; i++) {
        if (c->held[i].has_list)
            ext_list_free(&c->held[i].list);
        if (c->held[i].more)
            PyMem_Free(c->held[i].more);
        Py_XDECREF(c->held[i].tuple);
    }
}

// The call --------------------------------------------------------------------------------------------------

bool ext_scope(PyObject *stream, zl_scope *scope) {
    zl_stream s = NULL;
    if (stream && stream != Py_None && !ext_stream_read(stream, &s))
        return false;
    if (!s && !stream_follow_device())
        return false;
    *scope = zl_scope_begin_on(s);
    return true;
}

zl_scope ext_begin(void) {
    if (!stream_follow_device())
        PyErr_WriteUnraisable(NULL); // keeps the old default
    return zl_scope_begin();
}

static PyObject *run(const struct ext_variant *v, const union ext_argument *a) {
    zl_array out[SEVERAL];
    if (v->call)
        return ext_wrap(v->call(a));
    bool as_tuple = strcmp(v->name, "zl_divmod"); // MLX returns a list for divmod
    return v->call_all(a, out) ? ext_wrap_all(v->outputs, out, as_tuple) : ext_raise();
}

PyObject *ext_call(const struct ext_function *f, PyObject *self, PyObject *const *args, Py_ssize_t count,
                   PyObject *names) {
    struct frame c;
    zl_scope scope;
    c.f = f;
    if (!place(&c, self, args, count, names) || !ext_scope(c.stream, &scope))
        return NULL;
    const struct ext_variant *v = f->variants == 1 ? f->variant : choose(&c);
    PyObject *result = read_all(&c, v) ? run(v, c.value) : NULL;
    let_go(&c, v);
    zl_scope_end(scope);
    return result;
}

// Adding them to their modules ------------------------------------------------------------------------------

static bool intern_names(const struct ext_function *f) {
    for (int v = 0; v < f->variants; v++)
        for (int i = 0; i < f->variant[v].params; i++) {
            struct ext_param *p = &f->variant[v].param[i];
            if (!p->key && !(p->key = PyUnicode_InternFromString(p->name)))
                return false;
        }
    return true;
}

static bool add_function(PyObject *core, const struct ext_function *f, PyMethodDef *method) {
    PyObject *module = *f->module ? ext_submodule(core, f->module, NULL) : core;
    PyObject *name = module ? PyModule_GetNameObject(module) : NULL;
    bool ok = name && intern_names(f) && ext_add(module, f->name, PyCFunction_NewEx(method, NULL, name));
    Py_XDECREF(name);
    return ok;
}

// Other names of the same functions, as NumPy and the array API have them.
static const char *const aliases[][2] = {
    {"acos", "arccos"},
    {"acosh", "arccosh"},
    {"asin", "arcsin"},
    {"asinh", "arcsinh"},
    {"atan", "arctan"},
    {"atan2", "arctan2"},
    {"atanh", "arctanh"},
    {"bitwise_left_shift", "left_shift"},
    {"bitwise_right_shift", "right_shift"},
    {"concat", "concatenate"},
    {"conj", "conjugate"},
    {"cumulative_prod", "cumprod"},
    {"cumulative_sum", "cumsum"},
    {"empty", "zeros"},
    {"empty_like", "zeros_like"},
    {"permute_dims", "transpose"},
    {"pow", "power"},
};

bool ext_add_aliases(PyObject *core) {
    PyObject *names = PyModule_GetDict(core);
    for (int i = 0; i < COUNT(aliases); i++) {
        PyObject *function = PyDict_GetItemString(names, aliases[i][1]);
        if (function && PyDict_SetItemString(names, aliases[i][0], function))
            return false;
    }
    return true;
}

bool ext_add_ops(PyObject *core) {
    if (!stream_key && !(stream_key = PyUnicode_InternFromString("stream")))
        return false;
    for (int i = 0; ext_functions[i].name; i++)
        if (!add_function(core, &ext_functions[i], &ext_op_methods[i]))
            return false;
    return true;
}
