// compile_func.c - the results of compile: functions of trees that Python runs once for each kind of
// arguments.
//
// The library records what the function computes from its arrays. All other arguments are in a key. The tree
// that the function returned is kept here, by the tag of its results. Captured trees are further inputs and
// outputs.

#include <string.h>

#include "transform_func.h"

// Keys ------------------------------------------------------------------------------------------------------

// Arguments as bytes: the structure of the trees, and their leaves that are not arrays.
struct key {
    char *data;
    size_t bytes, cap;
};

static bool add_bytes(struct key *k, const void *data, size_t bytes) {
    if (bytes > k->cap - k->bytes) {
        size_t cap = 2 * k->cap + bytes;
        char *more = PyMem_Realloc(k->data, cap);
        if (!more)
            return PyErr_NoMemory(), false;
        k->data = more;
        k->cap = cap;
    }
    memcpy(k->data + k->bytes, data, bytes);
    k->bytes += bytes;
    return true;
}

// Appends the kind of the item that follows, and its size.
static bool add_kind(struct key *k, char kind, Py_ssize_t size) {
    return add_bytes(k, &kind, 1) && add_bytes(k, &size, sizeof size);
}

// Appends any text, also one with lone surrogates, which UTF-8 cannot encode.
static bool add_text(struct key *k, char kind, PyObject *text) {
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass") : NULL;
    Py_ssize_t size = bytes ? PyBytes_GET_SIZE(bytes) : 0;
    bool ok = bytes && add_kind(k, kind, size) && add_bytes(k, PyBytes_AS_STRING(bytes), (size_t)size);
    Py_XDECREF(bytes);
    return ok;
}

static bool add_int(struct key *k, PyObject *o) {
    PyObject *text = PyNumber_ToBase(o, 16);
    bool ok = add_text(k, PyBool_Check(o) ? 'b' : 'i', text);
    Py_XDECREF(text);
    return ok;
}

static bool add_float(struct key *k, PyObject *o) {
    double value = PyFloat_AS_DOUBLE(o);
    return add_kind(k, 'f', 0) && add_bytes(k, &value, sizeof value);
}

static bool add_leaf(struct key *k, PyObject *o) {
    if (ext_is_array(o))
        return add_kind(k, 'a', 0);
    if (o == Py_None)
        return add_kind(k, 'n', 0);
    if (PyUnicode_Check(o))
        return add_text(k, 's', o);
    if (PyLong_Check(o))
        return add_int(k, o);
    if (PyFloat_Check(o))
        return add_float(k, o);
    PyErr_Format(PyExc_ValueError,
                 "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, "
                 "or None), but received type %s.",
                 Py_TYPE(o)->tp_name);
    return false;
}

static bool add_tree(struct key *k, PyObject *o);

// Appends the kind with the object's type, since the function may treat a subclass in another way.
static bool add_type(struct key *k, char kind, PyObject *o, Py_ssize_t size) {
    PyTypeObject *type = Py_TYPE(o);
    return add_kind(k, kind, size) && add_bytes(k, &type, sizeof type);
}

static bool add_sequence(struct key *k, PyObject *o) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    bool ok = add_type(k, PyList_Check(o) ? 'l' : 't', o, count);
    for (Py_ssize_t i = 0; ok && i < count && i < PySequence_Fast_GET_SIZE(o); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(o, i));
        ok = add_tree(k, item);
        Py_DECREF(item);
    }
    return ok;
}

static bool add_name(struct key *k, PyObject *name) {
    if (PyUnicode_Check(name))
        return add_text(k, 's', name);
    Py_hash_t hash = PyObject_Hash(name);
    return (hash != -1 || !PyErr_Occurred()) && add_kind(k, 'h', hash);
}

static bool add_dict(struct key *k, PyObject *o) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    bool ok = add_type(k, 'd', o, PyDict_Size(o));
    while (ok && PyDict_Next(o, &at, &name, &value)) {
        Py_INCREF(name); // both are retained: the __hash__ of a name may change the dict
        Py_INCREF(value);
        ok = add_name(k, name) && add_tree(k, value);
        Py_DECREF(name);
        Py_DECREF(value);
    }
    return ok;
}

static bool add_tree(struct key *k, PyObject *o) {
    bool is_dict = PyDict_Check(o);
    if (!is_dict && !PyList_Check(o) && !PyTuple_Check(o))
        return add_leaf(k, o);
    if (Py_EnterRecursiveCall(" in the arguments of a compiled function"))
        return false;
    bool ok = (is_dict ? add_dict : add_sequence)(k, o);
    Py_LeaveRecursiveCall();
    return ok;
}

// Captured trees --------------------------------------------------------------------------------------------

// Values that replace the arrays of a tree, in order.
struct fill {
    const zl_array *value;
    int count, next;
};

static PyObject *next_value(PyObject *array, void *context) {
    struct fill *f = context;
    (void)array;
    if (f->next < f->count)
        return ext_wrap(f->value[f->next++]);
    PyErr_Format(PyExc_ValueError,
                 "[compile] The captured tree has more arrays than the %d that it had when the "
                 "function was traced.",
                 f->count);
    return NULL;
}

static bool fill_tree(PyObject *tree, const zl_array *value, int count) {
    PyObject *same =
        tree == Py_None ? Py_NewRef(tree) : tree_update(tree, next_value, &(struct fill){value, count, 0});
    Py_XDECREF(same);
    return same;
}

// Arrays that replace their tracers (`stood`) after the function ran.
struct restore {
    PyObject *const *cell; // the original arrays
    const zl_array *stood;
    int count, next;
    bool all; // also replaces arrays that are not tracers
};

static PyObject *earlier(PyObject *array, void *context) {
    struct restore *r = context;
    zl_array value = ext_value(array);
    int at = r->next++;
    if (at < r->count && (r->all || r->stood[at] == value))
        return Py_NewRef(r->cell[at]);
    for (int i = 0; i < r->count; i++)
        if (r->stood[i] == value)
            return Py_NewRef(r->cell[i]);
    return Py_NewRef(array);
}

// Returns the number of arrays in a tree, or -1 with an exception.
static int count_arrays(PyObject *tree) {
    struct tree_arrays a = {0};
    int count = tree_gather(&a, tree, false) ? a.count : -1;
    tree_release(&a);
    return count;
}

// Calling ---------------------------------------------------------------------------------------------------

// A call. The function runs during the call, on the same thread, or not at all.
struct compile_call {
    struct compile_call *outer;
    struct wrapper *w;
    PyObject *args, *kwargs;
    struct tree_arrays in; // arrays of the arguments, then captured ones
    int own;               // number of arrays in the arguments
    struct key key;
    PyObject *structure; // the tree that the function returned, and the number of arrays in it
};

static _Thread_local struct compile_call *current;

static PyObject *call_function(const struct compile_call *c, const zl_array *in) {
    int next = 0;
    PyObject *args = tree_with(c->args, in, c->own, &next), *kwargs = NULL, *result = NULL;
    if (args && (!c->kwargs || (kwargs = tree_with(c->kwargs, in, c->own, &next))))
        result = PyObject_Call(c->w->fun, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static bool give_result(struct compile_call *c, PyObject *result, zl_outputs *out) {
    struct tree_arrays a = {0};
    PyObject *structure = tree_structure(result, &a, false);
    if (structure)
        Py_XSETREF(c->structure, Py_BuildValue("(Ni)", structure, a.count));
    bool ok = structure && c->structure &&
              (c->w->second == Py_None || tree_gather(&a, c->w->second, false)) && give_all(&a, out);
    tree_release(&a);
    return ok;
}

// Restores the captured arrays: after a failure all of them, unless the tree now has another number of
// arrays.
static bool restore_captured(const struct compile_call *c, const zl_array *in, bool ok) {
    PyObject *type, *value, *traceback, *same;
    int count = c->in.count - c->own;
    if (c->w->first == Py_None)
        return ok;
    PyErr_Fetch(&type, &value, &traceback);
    bool all = !ok && count_arrays(c->w->first) == count;
    same =
        tree_update(c->w->first, earlier, &(struct restore){c->in.cell + c->own, in + c->own, count, 0, all});
    Py_XDECREF(same);
    if (type)
        PyErr_Restore(type, value, traceback);
    return ok && same;
}

static bool run_function(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    struct compile_call *c = current;
    PyObject *result = NULL;
    bool ok = fill_tree(c->w->first, in + c->own, count - c->own) && (result = call_function(c, in)) &&
              give_result(c, result, out);
    ok = restore_captured(c, in, ok);
    Py_XDECREF(result);
    zl_outputs_set_tag(out, ++c->w->tags);
    return ok;
}

// Returns the tree that the function returned: in this call, or when its results got this tag.
static PyObject *find_structure(const struct compile_call *c, int64_t tag) {
    PyObject *number = PyLong_FromLongLong(tag), *structure = NULL;
    if (!number || (tag && c->structure && PyDict_SetItem(c->w->third, number, c->structure)))
        structure = NULL;
    else if (!(structure = c->structure ? c->structure : PyDict_GetItemWithError(c->w->third, number)) &&
             !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "[compile] No results have the tag %lld.", (long long)tag);
    Py_XDECREF(number);
    return Py_XNewRef(structure);
}

static PyObject *read_results(const struct compile_call *c, const zl_outputs *out) {
    PyObject *structure = find_structure(c, zl_outputs_tag(out)), *result = NULL;
    const zl_array *value = structure ? outputs_array(out) : NULL;
    if (value) {
        int count = (int)PyLong_AsLong(PyTuple_GET_ITEM(structure, 1));
        if (fill_tree(c->w->second, value + count, zl_outputs_count(out) - count))
            result = tree_from_structure(PyTuple_GET_ITEM(structure, 0), value, count);
    }
    PyMem_Free((void *)value);
    Py_XDECREF(structure);
    return result;
}

static PyObject *run_compiled(struct compile_call *c) {
    zl_outputs *out = zl_outputs_new();
    zl_scope scope = ext_begin();
    PyObject *result = NULL;
    c->outer = current;
    current = c;
    bool ok =
        out && zl_compiled_call(c->w->compiled, c->key.data, c->key.bytes, c->in.count, c->in.value, out);
    current = c->outer;
    if (!out)
        PyErr_NoMemory();
    else
        result = ok ? read_results(c, out) : ext_raise();
    zl_scope_end(scope);
    zl_outputs_free(out);
    return result;
}

static bool read_arguments(struct compile_call *c) {
    if (!add_tree(&c->key, c->args) || (c->kwargs && !add_tree(&c->key, c->kwargs)) ||
        !tree_gather(&c->in, c->args, false) || (c->kwargs && !tree_gather(&c->in, c->kwargs, false)))
        return false;
    c->own = c->in.count;
    return c->w->first == Py_None || tree_gather(&c->in, c->w->first, false);
}

static PyObject *call_compiled(struct wrapper *w, PyObject *args, PyObject *kwargs) {
    struct compile_call c = {.w = w, .args = args, .kwargs = kwargs};
    PyObject *result = read_arguments(&c) ? run_compiled(&c) : NULL;
    tree_release(&c.in);
    PyMem_Free(c.key.data);
    Py_XDECREF(c.structure);
    return result;
}

PyObject *compile_new(PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fun", "inputs", "outputs", "shapeless", NULL};
    PyObject *fun, *inputs = Py_None, *outputs = Py_None;
    int shapeless = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOp:compile", names, &fun, &inputs, &outputs,
                                     &shapeless))
        return NULL;
    struct wrapper *w = (struct wrapper *)wrapper_new("[compile]", call_compiled, fun, inputs, outputs);
    if (!w)
        return NULL;
    w->third = PyDict_New();
    w->compiled = zl_compile((zl_fn){.call = run_function}, shapeless);
    if (w->third && w->compiled)
        return (PyObject *)w;
    Py_DECREF(w);
    return PyErr_Occurred() ? NULL : ext_raise();
}
