// tree.c - trees of dicts, lists and tuples, whose leaves are arrays or other objects: visited, mapped,
// changed in place.
//
// Subclasses count as their base class. None, dataclasses and other objects are leaves, as in MLX.

#include "tree.h"

static PyObject *placeholder; // stands for an array in a structure

static bool enter(void) {
    return Py_EnterRecursiveCall(" in a tree of arrays") == 0;
}

static bool is_state(PyObject *o) {
    return Py_TYPE(o) == &ext_random_state_type;
}

// Visiting --------------------------------------------------------------------------------------------------

struct visiting {
    bool (*visit)(PyObject *leaf, void *context);
    void *context;
    bool skips_state; // skips random.state, whose array exists only while it is visited
};

static bool visit_any(PyObject *tree, const struct visiting *v);

static bool visit_sequence(PyObject *tree, const struct visiting *v) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tree); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(tree, i));
        bool ok = visit_any(item, v);
        Py_DECREF(item);
        if (!ok)
            return false;
    }
    return true;
}

static bool visit_dict(PyObject *tree, const struct visiting *v) {
    PyObject *values = PyDict_Values(tree);
    bool ok = values && visit_sequence(values, v);
    Py_XDECREF(values);
    return ok;
}

static bool visit_state(PyObject *state, const struct visiting *v) {
    PyObject *key = v->skips_state ? NULL : PySequence_GetItem(state, 0);
    bool ok = v->skips_state || (key && v->visit(key, v->context));
    Py_XDECREF(key);
    return ok;
}

static bool visit_any(PyObject *tree, const struct visiting *v) {
    bool is_dict = PyDict_Check(tree);
    if (is_state(tree))
        return visit_state(tree, v);
    if (!is_dict && !PyList_Check(tree) && !PyTuple_Check(tree))
        return v->visit(tree, v->context);
    if (!enter())
        return false;
    bool ok = (is_dict ? visit_dict : visit_sequence)(tree, v);
    Py_LeaveRecursiveCall();
    return ok;
}

bool ext_tree_visit(PyObject *tree, bool (*visit)(PyObject *leaf, void *context), void *context) {
    return visit_any(tree, &(struct visiting){visit, context, false});
}

// Visiting with a prefix ------------------------------------------------------------------------------------

struct pair_visit {
    bool (*visit)(PyObject *leaf, PyObject *other, void *context);
    void *context;
};

static bool pair_any(PyObject *tree, PyObject *prefix, const struct pair_visit *v);

static bool refuse_prefix(void) {
    PyErr_SetString(PyExc_ValueError,
                    "[tree_map] Additional input tree is not a valid prefix of the first tree.");
    return false;
}

static bool is_node(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o);
}

static bool pair_sequence(PyObject *tree, PyObject *prefix, const struct pair_visit *v) {
    bool deeper = is_node(prefix);
    if (deeper && (PyDict_Check(prefix) || PyList_Check(prefix) != PyList_Check(tree) ||
                   PySequence_Fast_GET_SIZE(prefix) != PySequence_Fast_GET_SIZE(tree)))
        return refuse_prefix();
    PyObject *items = PySequence_Tuple(tree),
             *others = PySequence_Tuple(deeper ? prefix : tree); // tuples, which no code can change
    bool ok = items && others;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items) && i < PyTuple_GET_SIZE(others); i++)
        ok = pair_any(PyTuple_GET_ITEM(items, i), deeper ? PyTuple_GET_ITEM(others, i) : prefix, v);
    Py_XDECREF(items);
    Py_XDECREF(others);
    return ok;
}

static bool pair_dict(PyObject *tree, PyObject *prefix, const struct pair_visit *v) {
    bool deeper = is_node(prefix);
    if (deeper && (!PyDict_Check(prefix) || PyDict_Size(prefix) != PyDict_Size(tree)))
        return refuse_prefix();
    PyObject *items = PyDict_Items(tree);
    bool ok = items != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        PyObject *other =
            Py_XNewRef(deeper ? PyDict_GetItemWithError(prefix, PyTuple_GET_ITEM(item, 0)) : prefix);
        ok = other ? pair_any(PyTuple_GET_ITEM(item, 1), other, v) : !PyErr_Occurred() && refuse_prefix();
        Py_XDECREF(other);
    }
    Py_XDECREF(items);
    return ok;
}

static bool pair_any(PyObject *tree, PyObject *prefix, const struct pair_visit *v) {
    if (!is_node(tree))
        return v->visit(tree, prefix, v->context);
    if (!enter())
        return false;
    bool ok = (PyDict_Check(tree) ? pair_dict : pair_sequence)(tree, prefix, v);
    Py_LeaveRecursiveCall();
    return ok;
}

bool tree_visit_pair(PyObject *tree, PyObject *prefix,
                     bool (*visit)(PyObject *leaf, PyObject *other, void *context), void *context) {
    return pair_any(tree, prefix, &(struct pair_visit){visit, context});
}

// Mapping ---------------------------------------------------------------------------------------------------

// Returns the replacement of a leaf, a new reference.
typedef PyObject *mapper(PyObject *leaf, void *context);

static PyObject *map_any(PyObject *tree, mapper *map, void *context);

static PyObject *map_sequence(PyObject *tree, mapper *map, void *context) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(tree);
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *item =
            i < PySequence_Fast_GET_SIZE(tree) ? Py_NewRef(PySequence_Fast_GET_ITEM(tree, i)) : NULL;
        PyObject *mapped = item ? map_any(item, map, context) : NULL;
        Py_XDECREF(item);
        if (!item)
            PyErr_SetString(PyExc_RuntimeError, "a list of a tree changed its length while it was read");
        if (!mapped)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, mapped);
    }
    return list;
}

// Returns a tuple of the given type with the items of a list, which it releases.
static PyObject *tuple_like(PyTypeObject *type, PyObject *list) {
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    if (!tuple || type == &PyTuple_Type)
        return tuple;
    PyObject *result = PyObject_HasAttrString((PyObject *)type, "_fields")
                           ? PyObject_CallObject((PyObject *)type, tuple)
                           : PyObject_CallOneArg((PyObject *)type, tuple);
    Py_DECREF(tuple);
    return result;
}

static PyObject *map_dict(PyObject *tree, mapper *map, void *context) {
    PyObject *dict = PyDict_New(), *items = PyDict_Items(tree);
    for (Py_ssize_t i = 0; dict && items && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        PyObject *mapped = map_any(PyTuple_GET_ITEM(item, 1), map, context);
        if (!mapped || PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), mapped))
            Py_CLEAR(dict);
        Py_XDECREF(mapped);
    }
    if (!items)
        Py_CLEAR(dict);
    Py_XDECREF(items);
    return dict;
}

static PyObject *map_any(PyObject *tree, mapper *map, void *context) {
    PyObject *result;
    if (!is_node(tree))
        return map(tree, context);
    if (!enter())
        return NULL;
    if (PyDict_Check(tree))
        result = map_dict(tree, map, context);
    else if (PyList_Check(tree))
        result = map_sequence(tree, map, context);
    else
        result = tuple_like(Py_TYPE(tree), map_sequence(tree, map, context));
    Py_LeaveRecursiveCall();
    return result;
}

PyObject *ext_tree_map(PyObject *tree, PyObject *(*map)(PyObject *leaf, void *context), void *context) {
    return map_any(tree, map, context);
}

// Changing in place -----------------------------------------------------------------------------------------

static PyObject *update_list(PyObject *tree, mapper *replace, void *context) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tree); i++) {
        PyObject *old = Py_NewRef(PyList_GET_ITEM(tree, i)), *item = tree_update(old, replace, context);
        Py_DECREF(old);
        if (!item || PyList_SetItem(tree, i, item))
            return NULL;
    }
    return Py_NewRef(tree);
}

static PyObject *update_dict(PyObject *tree, mapper *replace, void *context) {
    PyObject *items = PyDict_Items(tree);
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i),
                 *value = tree_update(PyTuple_GET_ITEM(pair, 1), replace, context);
        ok = value && PyObject_SetItem(tree, PyTuple_GET_ITEM(pair, 0), value) == 0;
        Py_XDECREF(value);
    }
    Py_XDECREF(items);
    return ok ? Py_NewRef(tree) : NULL;
}

static PyObject *update_tuple(PyObject *tree, mapper *replace, void *context) {
    PyObject *list = PySequence_List(tree), *same = list ? update_list(list, replace, context) : NULL;
    Py_XDECREF(list);
    return same ? tuple_like(Py_TYPE(tree), same) : NULL;
}

static PyObject *update_state(PyObject *state, mapper *replace, void *context) {
    PyObject *key = PySequence_GetItem(state, 0), *next = key ? replace(key, context) : NULL;
    bool ok = next && PySequence_SetItem(state, 0, next) == 0;
    Py_XDECREF(key);
    Py_XDECREF(next);
    return ok ? Py_NewRef(state) : NULL;
}

PyObject *tree_update(PyObject *tree, PyObject *(*replace)(PyObject *array, void *context), void *context) {
    PyObject *result;
    if (ext_is_array(tree))
        return replace(tree, context);
    if (is_state(tree))
        return update_state(tree, replace, context);
    if (!is_node(tree))
        return Py_NewRef(tree);
    if (!enter())
        return NULL;
    if (PyDict_Check(tree))
        result = update_dict(tree, replace, context);
    else
        result = (PyList_Check(tree) ? update_list : update_tuple)(tree, replace, context);
    Py_LeaveRecursiveCall();
    return result;
}

// Arrays of trees -------------------------------------------------------------------------------------------

struct gather {
    struct tree_arrays *arrays;
    bool strict;
};

static bool make_room(struct tree_arrays *a) {
    if (a->count < a->cap)
        return true;
    int cap = a->cap ? 2 * a->cap : 16;
    zl_array *value = PyMem_Resize(a->value, zl_array, cap);
    if (value)
        a->value = value;
    PyObject **cell = value ? PyMem_Resize(a->cell, PyObject *, cap) : NULL;
    if (!cell)
        return PyErr_NoMemory(), false;
    a->cell = cell;
    a->cap = cap;
    return true;
}

static bool add_array(struct tree_arrays *a, PyObject *array) {
    if (!make_room(a))
        return false;
    a->value[a->count] = zl_retain(ext_value(array));
    a->cell[a->count++] = Py_NewRef(array);
    return true;
}

static bool add_leaf(PyObject *leaf, void *context) {
    struct gather *g = context;
    if (ext_is_array(leaf))
        return add_array(g->arrays, leaf);
    if (g->strict)
        PyErr_SetString(PyExc_ValueError, "[tree_flatten] The argument should contain only arrays");
    return !g->strict;
}

bool tree_gather(struct tree_arrays *a, PyObject *tree, bool strict) {
    return ext_tree_visit(tree, add_leaf, &(struct gather){a, strict});
}

void tree_release(struct tree_arrays *a) {
    for (int i = 0; i < a->count; i++) {
        zl_release(a->value[i]);
        Py_DECREF(a->cell[i]);
    }
    PyMem_Free(a->value);
    PyMem_Free(a->cell);
    *a = (struct tree_arrays){0};
}

int ext_tree_arrays(PyObject *tree, PyObject ***cells) {
    struct tree_arrays a = {0};
    struct gather g = {&a, false};
    bool ok = visit_any(tree, &(struct visiting){add_leaf, &g, true});
    int count = ok ? a.count : -1;
    for (int i = 0; i < a.count; i++) { // the tree keeps them alive
        zl_release(a.value[i]);
        Py_DECREF(a.cell[i]);
    }
    *cells = a.cell;
    PyMem_Free(a.value);
    return count;
}

// Values to trees -------------------------------------------------------------------------------------------

struct fill {
    const zl_array *values;
    int count, *next;
};

static PyObject *take_next(const struct fill *f) {
    if (*f->next < f->count)
        return ext_wrap(f->values[(*f->next)++]);
    PyErr_Format(PyExc_ValueError, "a tree has more arrays than the %d that there are for it", f->count);
    return NULL;
}

static PyObject *fill_array(PyObject *leaf, void *context) {
    return ext_is_array(leaf) ? take_next(context) : Py_NewRef(leaf);
}

static PyObject *fill_placeholder(PyObject *leaf, void *context) {
    return leaf == placeholder ? take_next(context) : Py_NewRef(leaf);
}

PyObject *tree_with(PyObject *tree, const zl_array *values, int count, int *next) {
    return map_any(tree, fill_array, &(struct fill){values, count, next});
}

PyObject *tree_from_structure(PyObject *structure, const zl_array *values, int count) {
    int next = 0;
    return map_any(structure, fill_placeholder, &(struct fill){values, count, &next});
}

static PyObject *to_placeholder(PyObject *leaf, void *context) {
    if (!add_leaf(leaf, context))
        return NULL;
    return Py_NewRef(ext_is_array(leaf) ? placeholder : leaf);
}

PyObject *tree_structure(PyObject *tree, struct tree_arrays *a, bool strict) {
    return map_any(tree, to_placeholder, &(struct gather){a, strict});
}

bool ext_add_trees(PyObject *core) {
    (void)core;
    if (!placeholder)
        placeholder = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    return placeholder;
}
