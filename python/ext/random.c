// random.c - the state of random numbers: random.seed and random.state. The ops themselves are generated.
//
// The library keeps one key per thread. random.state stands for it: a sequence of one array, which compiled
// functions treat as an input and an output.

#include "shaped.h"

static PyObject *seed(PyObject *m, PyObject *value) {
    (void)m;
    unsigned long long bits = PyLong_AsUnsignedLongLongMask(value);
    if (bits == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    zl_random_seed((int64_t)bits);
    Py_RETURN_NONE;
}

static PyObject *key_now(void) {
    zl_scope scope = ext_begin();
    PyObject *key = ext_wrap(zl_random_state_get());
    zl_scope_end(scope);
    return key;
}

static Py_ssize_t length(PyObject *self) {
    (void)self;
    return 1;
}

static bool is_index(Py_ssize_t index) {
    if (index == 0 || index == -1)
        return true;
    PyErr_Format(PyExc_IndexError, "random.state[%zd]: it has one element", index);
    return false;
}

static PyObject *item(PyObject *self, Py_ssize_t index) {
    (void)self;
    return is_index(index) ? key_now() : NULL;
}

static int set_item(PyObject *self, Py_ssize_t index, PyObject *value) {
    (void)self;
    if (!is_index(index))
        return -1;
    if (!value || !ext_is_array(value)) {
        PyErr_SetString(PyExc_ValueError, "random.state[0] is a key: an array of two uint32");
        return -1;
    }
    zl_scope scope = ext_begin();
    bool ok = zl_random_state_set(ext_value(value));
    zl_scope_end(scope);
    if (!ok)
        ext_raise();
    return ok ? 0 : -1;
}

static PyObject *iterate(PyObject *self) {
    return PySeqIter_New(self);
}

static PySequenceMethods sequence = {.sq_length = length, .sq_item = item, .sq_ass_item = set_item};

PyTypeObject ext_random_state_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.random._RandomState",
    .tp_doc = "The key of this thread: a sequence of one array.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_sequence = &sequence,
    .tp_iter = iterate,
};

// permutation(x, axis=0, key=None): permutes the numbers below x, or an array along an axis.
static PyObject *permutation_work(const struct shaped_call *c) {
    zl_array key;
    int axis;
    int64_t count;
    if (!shaped_int(c->named[1], 0, &axis) || !shaped_array(c->named[2], &key))
        return NULL;
    if (PyLong_Check(c->named[0]))
        return ext_to_int64(c->named[0], &count) ? ext_wrap(zl_random_permutation_int(count, key)) : NULL;
    zl_array x = ext_array_held(c->named[0]);
    return x ? ext_wrap(zl_random_permutation(x, axis, key)) : NULL;
}

static PyObject *permutation(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"x", "axis", "key", NULL};
    return shaped_read(&c, "permutation", known, 3, false, args, n, names) && shaped_need(&c, 0, "x")
               ? shaped_run(&c, permutation_work)
               : NULL;
}

static PyMethodDef functions[] = {
    SHAPED_ROW("permutation", permutation,
               "permutation(x, axis=0, key=None, *, stream=None)\n--\n\n"
               "The numbers below x, or what lies along an axis of x, in a random order."),
    {"seed", seed, METH_O, "seed(seed)\n--\n\nMakes the numbers of this thread those of key(seed)."},
    {0},
};

bool ext_add_random(PyObject *core) {
    PyObject *module = ext_submodule(core, "random", "Random numbers from keys.");
    return module && PyModule_AddFunctions(module, functions) == 0 &&
           PyType_Ready(&ext_random_state_type) == 0 &&
           ext_add(module, "_RandomState", Py_NewRef((PyObject *)&ext_random_state_type)) &&
           ext_add(module, "state", PyObject_New(PyObject, &ext_random_state_type));
}
