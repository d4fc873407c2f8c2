// shaped_products.c - sums of products: einsum and its path, tensordot.

#include <stdlib.h>
#include <string.h>

#include "shaped.h"

// einsum ----------------------------------------------------------------------------------------------------

static const char *const einsum_names[] = {"subscripts", NULL};

static const char *subscripts_of(const struct shaped_call *c) {
    if (PyUnicode_Check(c->named[0]))
        return ext_utf8(c->named[0]);
    PyErr_Format(PyExc_TypeError, "%s(): the subscripts are a text, not %.100s", c->function,
                 Py_TYPE(c->named[0])->tp_name);
    return NULL;
}

static PyObject *einsum_work(const struct shaped_call *c) {
    const char *subscripts = subscripts_of(c);
    zl_array *list = subscripts ? shaped_arrays(c->rest, c->rests) : NULL;
    PyObject *result = list ? ext_wrap(zl_einsum(subscripts, list, (int)c->rests)) : NULL;
    PyMem_Free(list);
    return result;
}

static PyObject *einsum(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    return shaped_read(&c, "einsum", einsum_names, 1, true, args, n, names) &&
                   shaped_need(&c, 0, "subscripts")
               ? shaped_run(&c, einsum_work)
               : NULL;
}

// Reads "1,2", up to a blank or the end, as (1, 2), and advances *at past it.
static PyObject *read_step(const char **at) {
    PyObject *list = PyList_New(0);
    for (bool more = true; list && more;) {
        char *end;
        PyObject *number = PyLong_FromLong(strtol(*at, &end, 10));
        if (!number || PyList_Append(list, number))
            Py_CLEAR(list);
        Py_XDECREF(number);
        more = *end == ',';
        *at = *end && *end != '\n' ? end + 1 : end;
    }
    PyObject *step = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return step;
}

// Returns the path's first line as a list of tuples, and the text after it.
static PyObject *path_of(const char *text) {
    PyObject *steps = PyList_New(0);
    while (steps && *text && *text != '\n') {
        PyObject *step = read_step(&text);
        if (!step || PyList_Append(steps, step))
            Py_CLEAR(steps);
        Py_XDECREF(step);
    }
    return steps ? Py_BuildValue("(Ns)", steps, *text ? text + 1 : text) : NULL;
}

static PyObject *einsum_path_work(const struct shaped_call *c) {
    const char *subscripts = subscripts_of(c);
    zl_array *list = subscripts ? shaped_arrays(c->rest, c->rests) : NULL;
    if (!list)
        return NULL;
    char *text = zl_einsum_path(subscripts, list, (int)c->rests);
    PyMem_Free(list);
    PyObject *result = text ? path_of(text) : ext_raise();
    zl_free(text);
    return result;
}

static PyObject *einsum_path(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    return shaped_read(&c, "einsum_path", einsum_names, 1, true, args, n, names) &&
                   shaped_need(&c, 0, "subscripts")
               ? shaped_run(&c, einsum_path_work)
               : NULL;
}

// tensordot -------------------------------------------------------------------------------------------------

static PyObject *tensordot_lists(zl_array a, zl_array b, PyObject *axes) {
    PyObject *pair = ext_tuple(axes, "tensordot(): axes is a number or two lists of axes");
    struct shaped_axes list[2] = {{NULL, 0}, {NULL, 0}};
    PyObject *result = NULL;
    if (pair && PyTuple_GET_SIZE(pair) != 2)
        PyErr_Format(PyExc_ValueError, "tensordot(): %zd lists of axes: two are needed",
                     PyTuple_GET_SIZE(pair));
    else if (pair && shaped_axes_read(PyTuple_GET_ITEM(pair, 0), &list[0]) &&
             shaped_axes_read(PyTuple_GET_ITEM(pair, 1), &list[1]))
        result = ext_wrap(zl_tensordot_axes(a, b, (zl_axes){list[0].axis, list[0].count},
                                            (zl_axes){list[1].axis, list[1].count}));
    shaped_axes_free(&list[0]);
    shaped_axes_free(&list[1]);
    Py_XDECREF(pair);
    return result;
}

static PyObject *tensordot_work(const struct shaped_call *c) {
    zl_array a = ext_array_held(c->named[0]), b = a ? ext_array_held(c->named[1]) : NULL;
    int count;
    if (!b)
        return NULL;
    if (shaped_given(c->named[2]) && !PyIndex_Check(c->named[2]))
        return tensordot_lists(a, b, c->named[2]);
    return shaped_int(c->named[2], 2, &count) ? ext_wrap(zl_tensordot(a, b, count)) : NULL;
}

static PyObject *tensordot(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"a", "b", "axes", NULL};
    return shaped_read(&c, "tensordot", known, 3, false, args, n, names) && shaped_need(&c, 0, "a") &&
                   shaped_need(&c, 1, "b")
               ? shaped_run(&c, tensordot_work)
               : NULL;
}

PyMethodDef shaped_products[] = {
    SHAPED_ROW(
        "einsum", einsum,
        "einsum(subscripts, *operands, stream=None)\n--\n\nThe sum of products that subscripts describe."),
    SHAPED_ROW("einsum_path", einsum_path,
               "einsum_path(subscripts, *operands)\n--\n\n"
               "The order in which einsum joins its operands, and a text about it."),
    SHAPED_ROW("tensordot", tensordot,
               "tensordot(a, b, axes=2, *, stream=None)\n--\n\n"
               "The sum of products over the last axes of a and the first of b, or over two lists of axes."),
    {0},
};
