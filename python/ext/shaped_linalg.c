// shaped_linalg.c - functions of zellige.core.linalg whose arguments or results are not those of one op: norm
// and svd.

#include "shaped.h"

// Returns an order in the op's form: a text; of a number, its repr in Python. A new reference, or NULL with
// an exception.
static PyObject *order_text(PyObject *order) {
    if (PyUnicode_Check(order))
        return Py_NewRef(order);
    if (PyFloat_Check(order) || PyLong_Check(order))
        return PyObject_Repr(order);
    double number;
    PyObject *object = ext_to_double(order, &number) ? PyFloat_FromDouble(number) : NULL;
    PyObject *text = object ? PyObject_Repr(object) : NULL;
    Py_XDECREF(object);
    return text;
}

static PyObject *norm_of(zl_array a, PyObject *order, PyObject *axis, bool keepdims) {
    struct shaped_axes axes = {NULL, -1};
    PyObject *text = shaped_given(order) ? order_text(order) : NULL, *result = NULL;
    const char *ord = text ? ext_utf8(text) : NULL;
    bool ok = (ord || !shaped_given(order)) && (!shaped_given(axis) || shaped_axes_read(axis, &axes));
    if (ok)
        result = ext_wrap(zl_linalg_norm(a, ord, (zl_axes){axes.axis, axes.count}, keepdims));
    shaped_axes_free(&axes);
    Py_XDECREF(text);
    return result;
}

static PyObject *norm_work(const struct shaped_call *c) {
    zl_array a = ext_array_held(c->named[0]);
    bool keepdims;
    return a && shaped_truth(c->named[3], false, &keepdims) ? norm_of(a, c->named[1], c->named[2], keepdims)
                                                            : NULL;
}

static PyObject *norm(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"a", "ord", "axis", "keepdims", NULL};
    return shaped_read(&c, "norm", known, 4, false, args, n, names) && shaped_need(&c, 0, "a")
               ? shaped_run(&c, norm_work)
               : NULL;
}

static PyObject *svd_work(const struct shaped_call *c) {
    zl_array a = ext_array_held(c->named[0]), out[3];
    bool vectors;
    if (!a || !shaped_truth(c->named[1], true, &vectors))
        return NULL;
    if (!zl_linalg_svd(a, vectors, out))
        return ext_raise();
    return vectors ? ext_wrap_all(3, out, true) : ext_wrap(out[0]);
}

static PyObject *svd(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"a", "compute_uv", NULL};
    return shaped_read(&c, "svd", known, 2, false, args, n, names) && shaped_need(&c, 0, "a")
               ? shaped_run(&c, svd_work)
               : NULL;
}

PyMethodDef shaped_linalg[] = {
    SHAPED_ROW("norm", norm,
               "norm(a, ord=None, axis=None, keepdims=False, *, stream=None)\n--\n\n"
               "A norm of vectors or matrices: ord is a number, 'fro', 'nuc' or None."),
    SHAPED_ROW("svd", svd,
               "svd(a, compute_uv=True, *, stream=None)\n--\n\n"
               "u, s and v transposed, of which a is the product; s alone if not compute_uv."),
    {0},
};
