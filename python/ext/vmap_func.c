// vmap_func.c - the result of vmap: a function of trees, applied along axes of their arrays.

#include "transform_func.h"

// One axis per array of a tree; -1 for None.
struct axes {
    int *axis;
    int count, cap;
    bool of_results; // of results, which have this axis in addition to their own
    bool saw_tuple;
};

struct vmap_call {
    struct wrapper *w;
    PyObject *args, *result;
    struct axes out;
};

// Axes ------------------------------------------------------------------------------------------------------

static bool add_axis(struct axes *a, int axis) {
    if (a->count == a->cap) {
        int cap = a->cap ? 2 * a->cap : 8, *more = PyMem_Resize(a->axis, int, cap);
        if (!more)
            return PyErr_NoMemory(), false;
        a->axis = more;
        a->cap = cap;
    }
    a->axis[a->count++] = axis;
    return true;
}

static bool refuse_axis(const struct axes *a, long axis, zl_array x) {
    PyObject *shape = ext_shape_tuple(zl_shape_of(x));
    if (shape)
        PyErr_Format(ext_axis_error, "[vmap] Invalid%s vectorization axis %ld for array with shape %R",
                     a->of_results ? " output" : "", axis, shape);
    Py_XDECREF(shape);
    return false;
}

static bool refuse_kind(void) {
    PyErr_SetString(PyExc_ValueError, "[vmap] axis must be int or None.");
    return false;
}

// Reads the axis of one array: a number, None, or a tuple with one of these.
static bool read_axis(PyObject *leaf, PyObject *axis, void *context) {
    struct axes *a = context;
    if (!ext_is_array(leaf)) {
        PyErr_SetString(PyExc_ValueError, "[vmap] The arguments should contain only arrays");
        return false;
    }
    if (PyTuple_Check(axis) && PyTuple_GET_SIZE(axis) == 1) {
        a->saw_tuple = true;
        axis = PyTuple_GET_ITEM(axis, 0);
    }
    if (axis == Py_None)
        return add_axis(a, -1);
    if (!PyLong_Check(axis))
        return refuse_kind();
    zl_array x = ext_value(leaf);
    long at = PyLong_AsLong(axis), ndim = zl_ndim(x) + a->of_results;
    if (at == -1 && PyErr_Occurred())
        return false;
    at += at < 0 ? ndim : 0;
    return at >= 0 && at < ndim ? add_axis(a, (int)at) : refuse_axis(a, at, x);
}

static bool read_axes(struct axes *a, PyObject *tree, PyObject *axes) {
    return tree_visit_pair(tree, axes, read_axis, a) &&
           (!a->saw_tuple || ext_is_array(tree) || refuse_kind());
}

// Calling ---------------------------------------------------------------------------------------------------

static bool call_function(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct vmap_call *c = data;
    struct tree_arrays a = {0};
    int next = 0;
    PyObject *args = tree_with(c->args, in, count, &next);
    Py_XSETREF(c->result, args ? PyObject_Call(c->w->fun, args, NULL) : NULL);
    bool ok = c->result && tree_gather(&a, c->result, true) && read_axes(&c->out, c->result, c->w->second) &&
              give_all(&a, out);
    tree_release(&a);
    Py_XDECREF(args);
    return ok;
}

// Moves the mapped axis, which the library puts first, to its place in each result.
static PyObject *place_results(const struct vmap_call *c, const zl_outputs *out) {
    int count = zl_outputs_count(out), next = 0;
    zl_array *moved = PyMem_New(zl_array, count + 1);
    if (!moved)
        return PyErr_NoMemory();
    for (int i = 0; i < count; i++)
        moved[i] = zl_moveaxis(zl_outputs_get(out, i), 0, c->out.axis[i]);
    PyObject *result = tree_with(c->result, moved, count, &next);
    PyMem_Free(moved);
    return result;
}

static PyObject *map_over(struct vmap_call *c, const struct tree_arrays *in, const int *axis) {
    zl_outputs *out = zl_outputs_new();
    PyObject *result = NULL;
    zl_scope scope = ext_begin();
    if (!out)
        PyErr_NoMemory();
    else if (zl_vmap((zl_fn){.call = call_function, .data = c}, in->count, in->value, axis, 0, NULL, out))
        result = place_results(c, out);
    else
        ext_raise();
    zl_scope_end(scope);
    zl_outputs_free(out);
    return result;
}

static PyObject *call_vmap(struct wrapper *w, PyObject *args, PyObject *kwargs) {
    struct vmap_call c = {.w = w, .args = args, .out = {.of_results = true}};
    struct tree_arrays in = {0};
    struct axes axes = {0};
    PyObject *result = NULL;
    PyObject *tree = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : args;
    if (kwargs)
        PyErr_SetString(PyExc_TypeError, "[vmap] The function takes no keyword arguments");
    else if (tree_gather(&in, args, true) && read_axes(&axes, tree, w->first))
        result = map_over(&c, &in, axes.axis);
    tree_release(&in);
    PyMem_Free(axes.axis);
    PyMem_Free(c.out.axis);
    Py_XDECREF(c.result);
    return result;
}

PyObject *vmap_new(PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fun", "in_axes", "out_axes", NULL};
    PyObject *fun, *zero = PyLong_FromLong(0), *in_axes = zero, *out_axes = zero, *result = NULL;
    if (!zero || !PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:vmap", names, &fun, &in_axes, &out_axes))
        ;
    else if (in_axes == Py_None || out_axes == Py_None)
        PyErr_SetString(PyExc_TypeError,
                        "vmap(): in_axes and out_axes are a number or a tree of numbers and None");
    else
        result = wrapper_new("[vmap]", call_vmap, fun, in_axes, out_axes);
    Py_XDECREF(zero);
    return result;
}
