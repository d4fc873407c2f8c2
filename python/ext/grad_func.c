// grad_func.c - the results of grad and value_and_grad: gradients of functions of trees.

#include "transform_func.h"

// A call of such a function. The library differentiates a function of the arrays of all arguments.
struct grad_call {
    struct wrapper *w;
    PyObject *args, *kwargs; // kwargs may be NULL
    struct tree_arrays in;
    int *wanted, *begin; // arrays to differentiate by; position of each argument's first one in it
    int wanteds, begins;
    PyObject *result; // the function's result
};

static bool is_grad_only(const struct grad_call *c) {
    return c->w->tag[1] == 'g';
}

// Arguments -------------------------------------------------------------------------------------------------

static bool add_argument(struct grad_call *c, PyObject *tree, bool wanted) {
    int before = c->in.count;
    if (!tree_gather(&c->in, tree, wanted))
        return false;
    if (!wanted)
        return true;
    int *more = PyMem_Resize(c->wanted, int, c->in.count + 1);
    if (!more)
        return PyErr_NoMemory(), false;
    c->wanted = more;
    c->begin[c->begins++] = c->wanteds;
    for (int i = before; i < c->in.count; i++)
        c->wanted[c->wanteds++] = i;
    return true;
}

static long argnum(const struct grad_call *c, Py_ssize_t i) {
    return PyLong_AsLong(PyTuple_GET_ITEM(c->w->first, i));
}

static bool add_positional(struct grad_call *c) {
    Py_ssize_t next = 0, argnums = PyTuple_GET_SIZE(c->w->first);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(c->args); i++) {
        bool wanted = next < argnums && argnum(c, next) == i;
        if (!add_argument(c, PyTuple_GET_ITEM(c->args, i), wanted))
            return false;
        next += wanted;
    }
    return true;
}

static bool add_named(struct grad_call *c) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (c->kwargs && PyDict_Next(c->kwargs, &at, &key, &value)) {
        int wanted = PySet_Contains(c->w->second, key);
        if (wanted < 0 || !add_argument(c, value, wanted))
            return false;
    }
    return true;
}

static bool check_positional(const struct grad_call *c) {
    Py_ssize_t argnums = PyTuple_GET_SIZE(c->w->first), given = PyTuple_GET_SIZE(c->args);
    if (!argnums || argnum(c, argnums - 1) < given)
        return true;
    PyErr_Format(
        PyExc_ValueError,
        "%s Can't compute the gradient of argument index %ld because the function is called with only %zd "
        "positional arguments.",
        c->w->tag, argnum(c, argnums - 1), given);
    return false;
}

static bool check_named(const struct grad_call *c) {
    PyObject *names = PySequence_List(c->w->second);
    bool ok = names;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        int found = c->kwargs ? PyDict_Contains(c->kwargs, name) : 0;
        if (found > 0)
            continue;
        PyObject *given = found < 0 ? NULL : c->kwargs ? PyDict_Keys(c->kwargs) : PyList_New(0);
        if (given)
            PyErr_Format(PyExc_ValueError,
                         "%s Can't compute the gradient of keyword argument '%U' because the function is "
                         "called with the "
                         "following keyword arguments %R",
                         c->w->tag, name, given);
        Py_XDECREF(given);
        ok = false;
    }
    Py_XDECREF(names);
    return ok;
}

static bool read_arguments(struct grad_call *c) {
    Py_ssize_t most = PyTuple_GET_SIZE(c->args) + (c->kwargs ? PyDict_GET_SIZE(c->kwargs) : 0);
    c->begin = PyMem_New(int, most + 1);
    c->wanted = PyMem_New(int, 1);
    if (!c->begin || !c->wanted)
        return PyErr_NoMemory(), false;
    return check_positional(c) && check_named(c) && add_positional(c) && add_named(c);
}

// Calling ---------------------------------------------------------------------------------------------------

// The arrays of a tree in order, and the tracer of each.
struct exchange {
    const struct grad_call *c;
    const zl_array *tracer;
    int next;
};

static PyObject *put_tracer(PyObject *array, void *context) {
    struct exchange *e = context;
    return e->next < e->c->in.count ? ext_wrap(e->tracer[e->next++]) : Py_NewRef(array);
}

// Puts the caller's array back in place of its tracer. An array that the function stored there itself stays.
static PyObject *put_back(PyObject *array, void *context) {
    struct exchange *e = context;
    int i = e->next++;
    return Py_NewRef(i < e->c->in.count && ext_value(array) == e->tracer[i] ? e->c->in.cell[i] : array);
}

// Calls the function with tracers. The containers of the caller hold them during the call, since the function
// may reach these containers in other ways than by its arguments.
static PyObject *call_with(const struct grad_call *c, const zl_array *tracer) {
    PyObject *tree = c->kwargs ? Py_BuildValue("[OO]", c->args, c->kwargs) : Py_BuildValue("[O]", c->args);
    struct exchange in = {c, tracer, 0}, out = {c, tracer, 0};
    PyObject *filled = tree ? tree_update(tree, put_tracer, &in) : NULL;
    PyObject *result = filled ? PyObject_Call(c->w->fun, PyList_GET_ITEM(tree, 0),
                                              c->kwargs ? PyList_GET_ITEM(tree, 1) : NULL)
                              : NULL;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *restored = tree ? tree_update(tree, put_back, &out) : NULL;
    if (type)
        PyErr_Restore(type, value, trace);
    else if (!restored)
        Py_CLEAR(result);
    Py_XDECREF(restored);
    Py_XDECREF(filled);
    Py_XDECREF(tree);
    return result;
}

#define SHOULD_BE "%s The return value of the function whose gradient we want to compute should be "

static bool check_result(const struct grad_call *c, PyObject *y) {
    static const char either[] = "either a scalar array or a tuple with the first value being a scalar array "
                                 "(Union[array, tuple[array, Any, ...]]); but";
    const char *tag = c->w->tag;
    if (ext_is_array(y))
        return true;
    if (is_grad_only(c))
        PyErr_Format(PyExc_ValueError, SHOULD_BE "a scalar array; but %s was returned.", tag,
                     Py_TYPE(y)->tp_name);
    else if (!PyTuple_Check(y))
        PyErr_Format(PyExc_ValueError, SHOULD_BE "%s %s was returned.", tag, either, Py_TYPE(y)->tp_name);
    else if (!PyTuple_GET_SIZE(y))
        PyErr_Format(PyExc_ValueError,
                     SHOULD_BE "either a scalar array or a non-empty tuple. Instead, we got an empty "
                               "tuple.",
                     tag);
    else if (!ext_is_array(PyTuple_GET_ITEM(y, 0)))
        PyErr_Format(PyExc_ValueError, SHOULD_BE "%s it was a tuple with the first value being of type %s.",
                     tag, either, Py_TYPE(PyTuple_GET_ITEM(y, 0))->tp_name);
    else
        return true;
    return false;
}

// Checks that the loss is a scalar.
static bool check_loss(const struct grad_call *c, zl_array loss) {
    if (zl_ndim(loss) == 0)
        return true;
    PyObject *shape = ext_shape_tuple(zl_shape_of(loss));
    if (shape)
        PyErr_Format(PyExc_ValueError,
                     "%s The function must return a scalar, but its first array has shape %R.", c->w->tag,
                     shape);
    Py_XDECREF(shape);
    return false;
}

static bool call_function(void *data, int count, const zl_array *in, zl_outputs *out) {
    struct grad_call *c = data;
    struct tree_arrays a = {0};
    (void)count;
    Py_XSETREF(c->result, call_with(c, in));
    bool ok = c->result && check_result(c, c->result) && tree_gather(&a, c->result, false) &&
              check_loss(c, a.value[0]) && give_all(&a, out);
    tree_release(&a);
    return ok;
}

// Gradients -------------------------------------------------------------------------------------------------

static PyObject *grads_of(const struct grad_call *c, PyObject *tree, int which, const zl_array *grads) {
    if (which >= c->begins) // names of a subclass of str whose comparisons vary
        return PyErr_Format(PyExc_RuntimeError,
                            "%s The names of the keyword arguments changed during the call.", c->w->tag);
    int next = c->begin[which];
    return tree_with(tree, grads, c->wanteds, &next);
}

// Returns the gradient by one argument alone, those by several in a tuple, and None without arguments.
static PyObject *positional_grads(const struct grad_call *c, const zl_array *grads) {
    int count = (int)PyTuple_GET_SIZE(c->w->first);
    if (count == 0)
        Py_RETURN_NONE;
    if (count == 1)
        return grads_of(c, PyTuple_GET_ITEM(c->args, argnum(c, 0)), 0, grads);
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *g = grads_of(c, PyTuple_GET_ITEM(c->args, argnum(c, i)), i, grads);
        if (g)
            PyTuple_SET_ITEM(tuple, i, g);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *named_grads(const struct grad_call *c, const zl_array *grads) {
    PyObject *dict = PyDict_New(), *key, *value;
    int which = (int)PyTuple_GET_SIZE(c->w->first);
    Py_ssize_t at = 0;
    while (dict && PyDict_Next(c->kwargs, &at, &key, &value)) {
        if (PySet_Contains(c->w->second, key) != 1)
            continue;
        PyObject *g = grads_of(c, value, which++, grads);
        if (!g || PyDict_SetItem(dict, key, g))
            Py_CLEAR(dict);
        Py_XDECREF(g);
    }
    return dict;
}

static PyObject *join(PyObject *a, PyObject *b) {
    PyObject *pair = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

static PyObject *all_grads(const struct grad_call *c, const zl_array *grads) {
    PyObject *positional = positional_grads(c, grads);
    return PySet_GET_SIZE(c->w->second) && positional ? join(positional, named_grads(c, grads)) : positional;
}

static PyObject *give_back(const struct grad_call *c, const zl_outputs *values, const zl_array *grads) {
    PyObject *g = all_grads(c, grads);
    if (!g || is_grad_only(c))
        return g;
    const zl_array *value = outputs_array(values);
    int next = 0;
    PyObject *y = value ? tree_with(c->result, value, zl_outputs_count(values), &next) : NULL;
    PyMem_Free((void *)value);
    return join(y, g);
}

static PyObject *differentiate(struct grad_call *c) {
    zl_array *grads = PyMem_New(zl_array, c->wanteds + 1);
    zl_outputs *values = zl_outputs_new();
    PyObject *result = NULL;
    zl_scope scope = ext_begin();
    if (!grads || !values)
        PyErr_NoMemory();
    else if (zl_value_and_grad((zl_fn){.call = call_function, .data = c}, c->in.count, c->in.value,
                               c->wanteds, c->wanted, values, grads))
        result = give_back(c, values, grads);
    else
        ext_raise();
    zl_scope_end(scope);
    zl_outputs_free(values);
    PyMem_Free(grads);
    return result;
}

static PyObject *call_grad(struct wrapper *w, PyObject *args, PyObject *kwargs) {
    struct grad_call c = {.w = w, .args = args, .kwargs = kwargs};
    PyObject *result = read_arguments(&c) ? differentiate(&c) : NULL;
    tree_release(&c.in);
    PyMem_Free(c.wanted);
    PyMem_Free(c.begin);
    Py_XDECREF(c.result);
    return result;
}

// Making ----------------------------------------------------------------------------------------------------

// Raises an exception about an argument; o is that argument or one of its items.
static bool refuse(const char *tag, const char *needed, PyObject *o) {
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s %s: an object of type %.100s is neither.", tag, needed,
                     Py_TYPE(o)->tp_name);
    return false;
}

static const char argnums_needed[] = "argnums must be an int or a list of ints";
static const char argnames_needed[] = "argnames must be a str or a list of strs";

// Replaces the items of a list by plain ints, so that no __index__ can return another value later.
static bool make_plain(const char *tag, PyObject *list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyIndex_Check(item))
            return refuse(tag, argnums_needed, item);
        PyObject *number = PyNumber_Index(item);
        if (!number || PyList_SetItem(list, i, number))
            return false;
    }
    return true;
}

// Returns a sorted tuple of the numbers in an int or a sequence.
static PyObject *read_argnums(const char *tag, PyObject *o) {
    PyObject *list = PyIndex_Check(o) ? PyList_New(0) : PySequence_List(o), *tuple = NULL;
    if (!list)
        return refuse(tag, argnums_needed, o), NULL;
    if (PyIndex_Check(o) && PyList_Append(list, o))
        Py_CLEAR(list);
    if (list && make_plain(tag, list) && PyList_Sort(list) == 0)
        tuple = PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

static bool check_argnums(const char *tag, PyObject *argnums) {
    long last = -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(argnums); i++) {
        PyObject *number = PyTuple_GET_ITEM(argnums, i);
        int overflow;
        long n = PyLong_AsLongAndOverflow(number, &overflow);
        if (overflow > 0)
            return PyErr_Format(PyExc_ValueError,
                                "%s Can't compute the gradient of argument index %.100R: no function has as "
                                "many arguments",
                                tag, number),
                   false;
        if (n < 0)
            return PyErr_Format(PyExc_ValueError,
                                "%s Can't compute the gradient of negative argument index %.100R", tag,
                                number),
                   false;
        if (n == last)
            return PyErr_Format(PyExc_ValueError, "%s Duplicate argument index %ld is not allowed.", tag, n),
                   false;
        last = n;
    }
    return true;
}

static bool add_argname(const char *tag, PyObject *set, PyObject *name) {
    if (!PyUnicode_Check(name))
        return refuse(tag, argnames_needed, name);
    PyObject *plain = PyUnicode_FromObject(name); // without the methods of a subclass
    bool ok = plain && PySet_Add(set, plain) == 0;
    Py_XDECREF(plain);
    return ok;
}

// Returns a set of plain texts, from one name or an iterable of names; o is NULL if no argument was given.
static PyObject *read_argnames(const char *tag, PyObject *o) {
    PyObject *tuple = !o ? PyTuple_New(0) : PyUnicode_Check(o) ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
    if (!tuple)
        return refuse(tag, argnames_needed, o), NULL;
    PyObject *set = PySet_New(NULL);
    for (Py_ssize_t i = 0; set && i < PyTuple_GET_SIZE(tuple); i++)
        if (!add_argname(tag, set, PyTuple_GET_ITEM(tuple, i)))
            Py_CLEAR(set);
    Py_DECREF(tuple);
    return set;
}

// Returns the argnums, by default the first argument unless argnames are given.
static PyObject *default_argnums(const char *tag, PyObject *argnums, PyObject *argnames) {
    if (argnums != Py_None)
        return read_argnums(tag, argnums);
    return PySet_GET_SIZE(argnames) ? PyTuple_New(0) : Py_BuildValue("(i)", 0);
}

PyObject *grad_new(const char *tag, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fun", "argnums", "argnames", NULL};
    PyObject *fun, *argnums = Py_None, *argnames = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO", names, &fun, &argnums, &argnames))
        return NULL;
    PyObject *set = read_argnames(tag, argnames);
    PyObject *numbers = set ? default_argnums(tag, argnums, set) : NULL;
    if (numbers && !PyTuple_GET_SIZE(numbers) && !PySet_GET_SIZE(set))
        PyErr_Format(PyExc_ValueError, "%s Gradient wrt no argument requested", tag);
    else if (numbers && check_argnums(tag, numbers))
        result = wrapper_new(tag, call_grad, fun, numbers, set);
    Py_XDECREF(set);
    Py_XDECREF(numbers);
    return result;
}
