// transform.c - eval, vjp, jvp and depends, and the object that the other transforms return.

#include "transform_func.h"

// Results of functions --------------------------------------------------------------------------------------

bool give_all(const struct tree_arrays *a, zl_outputs *out) {
    for (int i = 0; i < a->count; i++)
        if (!zl_give(out, a->value[i]))
            return false;
    return true;
}

PyObject *wrap_outputs(const zl_outputs *outputs) {
    int count = zl_outputs_count(outputs);
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *a = ext_wrap(zl_outputs_get(outputs, i));
        if (!a)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, a);
    }
    return list;
}

const zl_array *outputs_array(const zl_outputs *outputs) {
    int count = zl_outputs_count(outputs);
    zl_array *array = PyMem_New(zl_array, count + 1);
    for (int i = 0; array && i < count; i++)
        array[i] = zl_outputs_get(outputs, i);
    if (!array)
        PyErr_NoMemory();
    return array;
}

// Evaluation ------------------------------------------------------------------------------------------------

static PyObject *evaluate(PyObject *args, bool (*eval)(int, const zl_array *)) {
    struct tree_arrays a = {0};
    bool ok = tree_gather(&a, args, false) && (!a.count || eval(a.count, a.value));
    tree_release(&a);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *eval(PyObject *m, PyObject *args) {
    (void)m;
    return evaluate(args, ext_eval);
}

static PyObject *async_eval(PyObject *m, PyObject *args) {
    (void)m;
    return evaluate(args, ext_async_eval);
}

// vjp and jvp: functions of arrays, without trees -----------------------------------------------------------

// Appends an array, or the arrays of a list or tuple that contains nothing else.
static bool gather_flat(struct tree_arrays *a, PyObject *o, const char *what) {
    bool is_list = PyList_Check(o) || PyTuple_Check(o);
    for (Py_ssize_t i = 0; is_list && i < PySequence_Fast_GET_SIZE(o); i++)
        is_list = ext_is_array(PySequence_Fast_GET_ITEM(o, i));
    if (!is_list && !ext_is_array(o)) {
        PyErr_Format(PyExc_TypeError, "%s: an array or a list of arrays is needed, not %s", what,
                     Py_TYPE(o)->tp_name);
        return false;
    }
    return tree_gather(a, o, true);
}

static bool call_flat(void *data, int count, const zl_array *in, zl_outputs *out) {
    PyObject *args = ext_wrap_all(count, in, true);
    PyObject *result = args ? PyObject_CallObject(data, args) : NULL;
    struct tree_arrays a = {0};
    bool ok = result && gather_flat(&a, result, "the function's result") && give_all(&a, out);
    tree_release(&a);
    Py_XDECREF(args);
    Py_XDECREF(result);
    return ok;
}

// Arguments of vjp and jvp.
struct flat_call {
    PyObject *fun, *primals, *others;
    struct tree_arrays in, by;
};

static bool read_flat(struct flat_call *c, PyObject *args, PyObject *kwargs, const char *format,
                      char **names) {
    *c = (struct flat_call){0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &c->fun, &c->primals, &c->others))
        return false;
    if (!PyCallable_Check(c->fun))
        return PyErr_Format(PyExc_TypeError, "%s: a function is needed, not %s", names[2],
                            Py_TYPE(c->fun)->tp_name),
               false;
    return gather_flat(&c->in, c->primals, names[1]) && gather_flat(&c->by, c->others, names[2]);
}

static void free_flat(struct flat_call *c) {
    tree_release(&c->in);
    tree_release(&c->by);
}

static PyObject *pair_of(PyObject *a, PyObject *b) {
    PyObject *pair = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

// Runs the function, fills `values`, and returns the gradients or the tangents of the results, a new
// reference.
typedef PyObject *flat_work(const struct flat_call *c, zl_fn f, zl_outputs *values);

static PyObject *pull_back(const struct flat_call *c, zl_fn f, zl_outputs *values) {
    zl_array *grads = PyMem_New(zl_array, c->in.count + 1);
    if (!grads)
        return PyErr_NoMemory();
    bool ok = zl_vjp(f, c->in.count, c->in.value, c->by.count, c->by.value, values, grads);
    PyObject *result = ok ? ext_wrap_all(c->in.count, grads, false) : ext_raise();
    PyMem_Free(grads);
    return result;
}

static PyObject *push_forward(const struct flat_call *c, zl_fn f, zl_outputs *values) {
    if (c->in.count != c->by.count)
        return PyErr_Format(PyExc_ValueError,
                            "[jvp] Number of inputs does not match number of tangents: %d and %d.",
                            c->in.count, c->by.count);
    zl_outputs *tangents = zl_outputs_new();
    if (!tangents)
        return PyErr_NoMemory();
    bool ok = zl_jvp(f, c->in.count, c->in.value, c->by.value, values, tangents);
    PyObject *result = ok ? wrap_outputs(tangents) : ext_raise();
    zl_outputs_free(tangents);
    return result;
}

// Returns the values and the gradients or tangents.
static PyObject *run_flat(const struct flat_call *c, flat_work *work) {
    zl_outputs *values = zl_outputs_new();
    zl_scope scope = ext_begin();
    PyObject *others =
        values ? work(c, (zl_fn){.call = call_flat, .data = c->fun}, values) : PyErr_NoMemory();
    PyObject *result = others ? pair_of(wrap_outputs(values), others) : NULL;
    zl_scope_end(scope);
    zl_outputs_free(values);
    return result;
}

static PyObject *flat(PyObject *args, PyObject *kwargs, const char *format, char **names, flat_work *work) {
    struct flat_call c;
    PyObject *result = read_flat(&c, args, kwargs, format, names) ? run_flat(&c, work) : NULL;
    free_flat(&c);
    return result;
}

static PyObject *vjp(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"fun", "primals", "cotangents", NULL};
    return flat(args, kwargs, "OOO:vjp", names, pull_back);
}

static PyObject *jvp(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"fun", "primals", "tangents", NULL};
    return flat(args, kwargs, "OOO:jvp", names, push_forward);
}

// depends ---------------------------------------------------------------------------------------------------

static PyObject *depend(const struct tree_arrays *in, const struct tree_arrays *on, bool single) {
    PyObject *list = PyList_New(in->count);
    for (int i = 0; list && i < in->count; i++) {
        zl_scope scope = ext_begin();
        zl_array x = in->value[i];
        PyObject *a = ext_wrap(on->count ? zl_depends(x, on->value, on->count) : x);
        zl_scope_end(scope);
        if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    if (!list || !single)
        return list;
    PyObject *one = Py_NewRef(PyList_GET_ITEM(list, 0));
    Py_DECREF(list);
    return one;
}

static PyObject *depends(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"inputs", "dependencies", NULL};
    PyObject *inputs, *dependencies, *result = NULL;
    struct tree_arrays in = {0}, on = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:depends", names, &inputs, &dependencies))
        return NULL;
    if (gather_flat(&in, inputs, "inputs") && gather_flat(&on, dependencies, "dependencies"))
        result = depend(&in, &on, ext_is_array(inputs));
    tree_release(&in);
    tree_release(&on);
    return result;
}

// The object ------------------------------------------------------------------------------------------------

static PyObject *keywords(PyObject *const *values, PyObject *names) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), values[i]))
            Py_CLEAR(dict);
    return dict;
}

static PyObject *call_wrapper(PyObject *self, PyObject *const *args, size_t given, PyObject *names) {
    struct wrapper *w = (struct wrapper *)self;
    Py_ssize_t count = PyVectorcall_NARGS(given);
    if (!w->fun)
        return PyErr_Format(PyExc_RuntimeError, "%s The function is being destroyed.", w->tag);
    PyObject *tuple = PyTuple_New(count), *dict = NULL, *result = NULL;
    for (Py_ssize_t i = 0; tuple && i < count; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    bool named = names && PyTuple_GET_SIZE(names);
    if (tuple && (!named || (dict = keywords(args + count, names))))
        result = w->call(w, tuple, dict);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

static int traverse_wrapper(PyObject *self, visitproc visit, void *arg) {
    struct wrapper *w = (struct wrapper *)self;
    Py_VISIT(w->fun);
    Py_VISIT(w->first);
    Py_VISIT(w->second);
    Py_VISIT(w->third);
    return 0;
}

static int clear_wrapper(PyObject *self) {
    struct wrapper *w = (struct wrapper *)self;
    Py_CLEAR(w->fun);
    Py_CLEAR(w->first);
    Py_CLEAR(w->second);
    Py_CLEAR(w->third);
    return 0;
}

static void free_wrapper(PyObject *self) {
    PyObject_GC_UnTrack(self);
    if (((struct wrapper *)self)->weak)
        PyObject_ClearWeakRefs(self);
    zl_compiled_release(((struct wrapper *)self)->compiled);
    clear_wrapper(self);
    PyObject_GC_Del(self);
}

// Returns an attribute of the function: its name, documentation and all others.
static PyObject *attribute(PyObject *self, PyObject *name) {
    PyObject *fun = ((struct wrapper *)self)->fun;
    return fun ? PyObject_GetAttr(fun, name) : PyObject_GenericGetAttr(self, name);
}

static PyTypeObject wrapper_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core._gc_func",
    .tp_basicsize = sizeof(struct wrapper),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(struct wrapper, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_getattro = attribute,
    .tp_traverse = traverse_wrapper,
    .tp_clear = clear_wrapper,
    .tp_dealloc = free_wrapper,
    .tp_weaklistoffset = offsetof(struct wrapper, weak),
};

PyObject *wrapper_new(const char *tag, PyObject *(*call)(struct wrapper *, PyObject *, PyObject *),
                      PyObject *fun, PyObject *first, PyObject *second) {
    if (!PyCallable_Check(fun))
        return PyErr_Format(PyExc_TypeError, "%s a function is needed, not %s", tag, Py_TYPE(fun)->tp_name);
    struct wrapper *w = PyObject_GC_New(struct wrapper, &wrapper_type);
    if (!w)
        return NULL;
    w->vectorcall = call_wrapper;
    w->call = call;
    w->fun = Py_NewRef(fun);
    w->first = Py_XNewRef(first);
    w->second = Py_XNewRef(second);
    w->tag = tag;
    w->weak = NULL;
    w->third = NULL;
    w->tags = 0;
    w->compiled = NULL;
    PyObject_GC_Track((PyObject *)w);
    return (PyObject *)w;
}

// compile ---------------------------------------------------------------------------------------------------

static PyObject *compile(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return compile_new(args, kwargs);
}

static PyObject *disable_compile(PyObject *m, PyObject *unused) {
    (void)m, (void)unused;
    zl_set_compile_mode(ZL_COMPILE_DISABLED);
    Py_RETURN_NONE;
}

static PyObject *enable_compile(PyObject *m, PyObject *unused) {
    (void)m, (void)unused;
    zl_set_compile_mode(ZL_COMPILE_ENABLED);
    Py_RETURN_NONE;
}

// The module ------------------------------------------------------------------------------------------------

static PyObject *grad(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return grad_new("[grad]", args, kwargs);
}

static PyObject *value_and_grad(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return grad_new("[value_and_grad]", args, kwargs);
}

static PyObject *vmap(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return vmap_new(args, kwargs);
}

static PyObject *checkpoint(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    static char *names[] = {"fun", NULL};
    PyObject *fun;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "O:checkpoint", names, &fun) ? checkpoint_new(fun)
                                                                                  : NULL;
}

#define WITH_KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"eval", eval, METH_VARARGS,
     "eval(*args)\n--\n\nEvaluates the arrays of trees; other leaves are passed over."},
    {"async_eval", async_eval, METH_VARARGS,
     "async_eval(*args)\n--\n\nStarts to evaluate the arrays of trees."},
    {"vjp", WITH_KEYWORDS(vjp),
     "vjp(fun, primals, cotangents)\n--\n\nThe results of fun, and cotangents of its arguments from those of "
     "its results."},
    {"jvp", WITH_KEYWORDS(jvp),
     "jvp(fun, primals, tangents)\n--\n\nThe results of fun, and their tangents from those of its "
     "arguments."},
    {"grad", WITH_KEYWORDS(grad),
     "grad(fun, argnums=None, argnames=[])\n--\n\nA function that gives the gradient of fun, whose result is "
     "a scalar."},
    {"value_and_grad", WITH_KEYWORDS(value_and_grad),
     "value_and_grad(fun, argnums=None, argnames=[])\n--\n\n"
     "A function that gives the result of fun and the gradient of its first array, a scalar."},
    {"vmap", WITH_KEYWORDS(vmap),
     "vmap(fun, in_axes=0, out_axes=0)\n--\n\nA function that applies fun to each element along an axis of "
     "its arguments."},
    {"checkpoint", WITH_KEYWORDS(checkpoint),
     "checkpoint(fun)\n--\n\nA function like fun that is computed again for its gradient instead of kept."},
    {"compile", WITH_KEYWORDS(compile),
     "compile(fun, inputs=None, outputs=None, shapeless=False)\n--\n\n"
     "A function that gives what fun does, which runs once for each kind of arguments. inputs and outputs "
     "are trees of "
     "arrays that fun uses and changes."},
    {"disable_compile", disable_compile, METH_NOARGS,
     "disable_compile()\n--\n\nCompiled functions are called as they are."},
    {"enable_compile", enable_compile, METH_NOARGS, "enable_compile()\n--\n\nUndoes disable_compile."},
    {"depends", WITH_KEYWORDS(depends),
     "depends(inputs, dependencies)\n--\n\nThe inputs, which are not evaluated before the dependencies are."},
    {0},
};

bool ext_add_transforms(PyObject *core) {
    return PyType_Ready(&wrapper_type) == 0 && PyType_Ready(&custom_function_type) == 0 &&
           PyModule_AddFunctions(core, functions) == 0 &&
           ext_add(core, "_gc_func", Py_NewRef((PyObject *)&wrapper_type)) &&
           ext_add(core, "custom_function", Py_NewRef((PyObject *)&custom_function_type));
}
