// custom_func.c - custom_function and checkpoint: Python functions that the library keeps in its graph.
//
// The graph keeps a closure: the function, its rules, and the structure of the arguments of one call, so that
// arguments can be made from arrays again. The graph may release it on any thread, with or without the GIL.

#include <limits.h>
#include <stdatomic.h>

#include "transform_func.h"

struct closure {
    atomic_int refs;
    struct closure *next; // in the list of closures to be freed
    PyObject *fun, *vjp, *jvp, *vmap;
    PyObject *arguments, *results; // structures: of (args, kwargs), and of the result of fun
    bool strict;                   // fun may return only arrays
};

// Life ------------------------------------------------------------------------------------------------------

static struct closure *_Atomic garbage; // closures that were released without the GIL

static void free_closure(struct closure *c) {
    Py_XDECREF(c->fun);
    Py_XDECREF(c->vjp);
    Py_XDECREF(c->jvp);
    Py_XDECREF(c->vmap);
    Py_XDECREF(c->arguments);
    Py_XDECREF(c->results);
    PyMem_RawFree(c);
}

static int free_garbage(void *unused) {
    (void)unused;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); // freeing objects may run Python code
    for (struct closure *c = atomic_exchange(&garbage, NULL), *next; c; c = next) {
        next = c->next;
        free_closure(c);
    }
    PyErr_Restore(type, value, trace);
    return 0;
}

static void release(void *data) {
    struct closure *c = data;
    if (atomic_fetch_sub(&c->refs, 1) != 1 || !Py_IsInitialized())
        return;
    c->next = atomic_load(&garbage);
    while (!atomic_compare_exchange_weak(&garbage, &c->next, c)) {
    }
    if (PyGILState_Check())
        free_garbage(NULL);
    else
        Py_AddPendingCall(free_garbage, NULL); // if that fails, the next one frees this one too
}

static void retain(void *data) {
    struct closure *c = data;
    atomic_fetch_add(&c->refs, 1);
}

static struct closure *new_closure(PyObject *fun, bool strict) {
    struct closure *c = PyMem_RawCalloc(1, sizeof *c);
    if (!c)
        return (void *)PyErr_NoMemory();
    atomic_init(&c->refs, 1);
    c->fun = Py_NewRef(fun);
    c->strict = strict;
    return c;
}

// Calling ---------------------------------------------------------------------------------------------------

// Returns (args, kwargs) with these arrays.
static PyObject *make_arguments(const struct closure *c, int count, const zl_array *in) {
    return tree_from_structure(c->arguments, in, count);
}

static bool call(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct closure *c = data;
    struct tree_arrays a = {0};
    PyObject *both = make_arguments(c, count, in);
    PyObject *result =
        both ? PyObject_Call(c->fun, PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1)) : NULL;
    PyObject *structure = result ? tree_structure(result, &a, c->strict) : NULL;
    bool ok = structure && give_all(&a, out);
    if (structure)
        Py_XSETREF(c->results, structure);
    tree_release(&a);
    Py_XDECREF(both);
    Py_XDECREF(result);
    return ok;
}

// The results of a rule for each of `count` arrays. None stands for zeros, and so do results that are missing
// at the end.
struct given {
    zl_outputs *out;
    const zl_array *like;
    int count;
};

static bool give_leaf(PyObject *leaf, void *context) {
    struct given *g = context;
    int at = zl_outputs_count(g->out);
    if (!ext_is_array(leaf) && (leaf != Py_None || at >= g->count))
        return true;
    zl_scope scope = ext_begin();
    bool ok =
        zl_give(g->out, ext_is_array(leaf) ? ext_value(leaf) : zl_zeros_like(g->like[at], ZL_DTYPE_COUNT));
    zl_scope_end(scope);
    return ok;
}

static bool give_tree(PyObject *tree, int count, const zl_array *like, int least, zl_outputs *out) {
    struct given g = {out, like, count};
    bool ok = tree && ext_tree_visit(tree, give_leaf, &g);
    while (ok && zl_outputs_count(out) >= least && zl_outputs_count(out) < count)
        ok = give_leaf(Py_None, &g);
    return ok;
}

// Returns the argument itself if it is the only one, otherwise the tuple of all.
static PyObject *single_or_all(PyObject *args) {
    return Py_NewRef(PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : args);
}

// vjp -------------------------------------------------------------------------------------------------------

static bool count_array(PyObject *leaf, void *context) {
    *(int *)context += ext_is_array(leaf);
    return true;
}

static PyObject *call_vjp(const struct closure *c, PyObject *both, int results, const zl_array *result,
                          const zl_array *cotangent) {
    PyObject *cotangents = tree_from_structure(c->results, cotangent, results);
    PyObject *outputs = cotangents ? tree_from_structure(c->results, result, results) : NULL;
    PyObject *primals = outputs ? single_or_all(PyTuple_GET_ITEM(both, 0)) : NULL;
    PyObject *args = primals ? PyTuple_Pack(3, primals, cotangents, outputs) : NULL;
    PyObject *y = args ? PyObject_Call(c->vjp, args, PyTuple_GET_ITEM(both, 1)) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(primals);
    Py_XDECREF(outputs);
    Py_XDECREF(cotangents);
    return y;
}

// Computes the cotangents of the arrays in positional arguments; those in keyword arguments get none.
static bool vjp(void *data, int count, const zl_array *in, int results, const zl_array *result,
                const zl_array *cotangent, zl_outputs *out) {
    struct closure *c = data;
    int positional = 0;
    PyObject *both = make_arguments(c, count, in);
    PyObject *y = both && ext_tree_visit(PyTuple_GET_ITEM(both, 0), count_array, &positional)
                      ? call_vjp(c, both, results, result, cotangent)
                      : NULL;
    bool ok = y && give_tree(y, count, in, positional, out);
    Py_XDECREF(both);
    Py_XDECREF(y);
    return ok;
}

// jvp and vmap ----------------------------------------------------------------------------------------------

// A value per array, for a tree with the structure of the arguments: its tangent or its axis.
struct about {
    const zl_array *tangent;
    const int *axis;
    int next;
};

static PyObject *about_array(PyObject *leaf, void *context) {
    struct about *a = context;
    if (!ext_is_array(leaf))
        Py_RETURN_NONE;
    int i = a->next++;
    if (a->tangent)
        return a->tangent[i] ? ext_wrap(a->tangent[i]) : Py_NewRef(Py_None);
    return a->axis[i] >= 0 ? PyLong_FromLong(a->axis[i]) : Py_NewRef(Py_None);
}

static bool check_positional(const char *rule, PyObject *both) {
    if (PyDict_GET_SIZE(PyTuple_GET_ITEM(both, 1)) == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "[custom %s] Function should only accept positional arguments", rule);
    return false;
}

// Calls rule(arguments, values), with the values of struct about in a tree.
static PyObject *call_rule(const struct closure *c, const char *name, PyObject *rule, int count,
                           const zl_array *in, struct about about) {
    PyObject *both = make_arguments(c, count, in), *y = NULL;
    if (both && check_positional(name, both)) {
        PyObject *args = PyTuple_GET_ITEM(both, 0), *more = ext_tree_map(args, about_array, &about);
        PyObject *first = more ? single_or_all(args) : NULL, *second = more ? single_or_all(more) : NULL;
        y = first ? PyObject_CallFunctionObjArgs(rule, first, second, NULL) : NULL;
        Py_XDECREF(first);
        Py_XDECREF(second);
        Py_XDECREF(more);
    }
    Py_XDECREF(both);
    return y;
}

static bool jvp(void *data, int count, const zl_array *in, const zl_array *tangent, zl_outputs *out) {
    struct closure *c = data;
    PyObject *y = call_rule(c, "jvp", c->jvp, count, in, (struct about){.tangent = tangent});
    bool ok = y && give_tree(y, 0, NULL, 0, out);
    Py_XDECREF(y);
    return ok;
}

// The results of a vmap rule, with their axes.
struct mapped {
    zl_outputs *out;
    int *axis, results;
};

static bool give_mapped(PyObject *leaf, PyObject *axis, void *context) {
    struct mapped *m = context;
    int at = zl_outputs_count(m->out);
    if (!ext_is_array(leaf))
        return true;
    long number = axis == Py_None ? -1 : PyLong_AsLong(axis);
    if (PyErr_Occurred())
        return false;
    if (number < INT_MIN || number > INT_MAX) {
        PyErr_Format(ext_axis_error, "[custom vmap] %ld is not an axis of any array", number);
        return false;
    }
    if (at < m->results)
        m->axis[at] = (int)number;
    return zl_give(m->out, ext_value(leaf));
}

static bool vmap(void *data, int count, const zl_array *in, const int *axis, int results, zl_outputs *out,
                 int *out_axis) {
    struct closure *c = data;
    PyObject *y = call_rule(c, "vmap", c->vmap, count, in, (struct about){.axis = axis});
    bool pair = y && PyTuple_Check(y) && PyTuple_GET_SIZE(y) == 2;
    if (y && !pair)
        PyErr_SetString(PyExc_ValueError, "[custom vmap] Vmap function should return a tuple with 2 items.");
    bool ok = pair && tree_visit_pair(PyTuple_GET_ITEM(y, 0), PyTuple_GET_ITEM(y, 1), give_mapped,
                                      &(struct mapped){out, out_axis, results});
    Py_XDECREF(y);
    return ok;
}

// Running closures ------------------------------------------------------------------------------------------

static bool start_closure(struct closure *c, PyObject *args, PyObject *kwargs, struct tree_arrays *in) {
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *both = named ? PyTuple_Pack(2, args, named) : NULL;
    c->arguments = both ? tree_structure(both, in, false) : NULL;
    Py_XDECREF(named);
    Py_XDECREF(both);
    return c->arguments;
}

static PyObject *finish_closure(const struct closure *c, bool ok, const zl_outputs *out) {
    const zl_array *values = ok ? outputs_array(out) : ext_raise();
    PyObject *result = values ? tree_from_structure(c->results, values, zl_outputs_count(out)) : NULL;
    PyMem_Free((void *)values);
    return result;
}

// Calls the closure through the library, which retains it, and releases it.
static PyObject *run_closure(struct closure *c, PyObject *args, PyObject *kwargs, bool checkpointed) {
    struct tree_arrays in = {0};
    zl_outputs *out = zl_outputs_new();
    PyObject *result = NULL;
    zl_scope scope = ext_begin();
    if (!out) {
        PyErr_NoMemory();
    } else if (start_closure(c, args, kwargs, &in)) {
        zl_fn f = {call, c, retain, release};
        zl_custom_fn rules = {f, c->vjp ? vjp : NULL, c->jvp ? jvp : NULL, c->vmap ? vmap : NULL};
        bool ok = checkpointed ? zl_checkpoint(f, in.count, in.value, out)
                               : zl_custom(&rules, in.count, in.value, out);
        result = finish_closure(c, ok, out);
    }
    zl_scope_end(scope);
    zl_outputs_free(out);
    tree_release(&in);
    release(c);
    return result;
}

// checkpoint ------------------------------------------------------------------------------------------------

static PyObject *call_checkpoint(struct wrapper *w, PyObject *args, PyObject *kwargs) {
    struct closure *c = new_closure(w->fun, false);
    return c ? run_closure(c, args, kwargs, true) : NULL;
}

PyObject *checkpoint_new(PyObject *fun) {
    return wrapper_new("[checkpoint]", call_checkpoint, fun, NULL, NULL);
}

// custom_function -------------------------------------------------------------------------------------------

struct custom_function {
    PyObject_HEAD PyObject *fun, *vjp, *jvp, *vmap;
};

static int init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"f", NULL};
    PyObject *fun;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:custom_function", names, &fun))
        return -1;
    if (!PyCallable_Check(fun)) {
        PyErr_Format(PyExc_TypeError, "custom_function(): a function is needed, not %s",
                     Py_TYPE(fun)->tp_name);
        return -1;
    }
    Py_XSETREF(((struct custom_function *)self)->fun, Py_NewRef(fun));
    return 0;
}

static PyObject *set_rule(PyObject *self, PyObject **rule, PyObject *fun) {
    if (!PyCallable_Check(fun))
        return PyErr_Format(PyExc_TypeError, "custom_function: a rule is a function, not %s",
                            Py_TYPE(fun)->tp_name);
    Py_XSETREF(*rule, Py_NewRef(fun));
    return Py_NewRef(self);
}

static PyObject *set_vjp(PyObject *self, PyObject *fun) {
    return set_rule(self, &((struct custom_function *)self)->vjp, fun);
}

static PyObject *set_jvp(PyObject *self, PyObject *fun) {
    return set_rule(self, &((struct custom_function *)self)->jvp, fun);
}

static PyObject *set_vmap(PyObject *self, PyObject *fun) {
    return set_rule(self, &((struct custom_function *)self)->vmap, fun);
}

static PyObject *call_custom(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct custom_function *f = (struct custom_function *)self;
    if (!f->fun)
        return PyErr_Format(PyExc_TypeError, "custom_function: it was not initialised with a function");
    if (!f->vjp && !f->jvp && !f->vmap)
        return PyObject_Call(f->fun, args, kwargs);
    struct closure *c = new_closure(f->fun, true);
    if (!c)
        return NULL;
    c->vjp = Py_XNewRef(f->vjp);
    c->jvp = Py_XNewRef(f->jvp);
    c->vmap = Py_XNewRef(f->vmap);
    return run_closure(c, args, kwargs, false);
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    struct custom_function *f = (struct custom_function *)self;
    Py_VISIT(f->fun);
    Py_VISIT(f->vjp);
    Py_VISIT(f->jvp);
    Py_VISIT(f->vmap);
    return 0;
}

static int clear(PyObject *self) {
    struct custom_function *f = (struct custom_function *)self;
    Py_CLEAR(f->fun);
    Py_CLEAR(f->vjp);
    Py_CLEAR(f->jvp);
    Py_CLEAR(f->vmap);
    return 0;
}

static void dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"vjp", set_vjp, METH_O,
     "vjp(f)\n--\n\nf(primals, cotangents, outputs) gives the cotangents of the primals."},
    {"jvp", set_jvp, METH_O, "jvp(f)\n--\n\nf(primals, tangents) gives the tangents of the outputs."},
    {"vmap", set_vmap, METH_O, "vmap(f)\n--\n\nf(inputs, axes) gives the outputs and their axes."},
    {0},
};

PyTypeObject custom_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core.custom_function",
    .tp_doc = "custom_function(f)\n--\n\nA function whose derivatives and batches may be defined by other "
              "functions.",
    .tp_basicsize = sizeof(struct custom_function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = init,
    .tp_call = call_custom,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_methods = methods,
};
