// files.c - save, savez, load and similar functions: arrays in files, given by name or as file-like objects.

#include "ext.h"

#include <string.h>

// Files -----------------------------------------------------------------------------------------------------

// The file of a function: a path, or an object with read() or write().
struct place {
    PyObject *path; // bytes; NULL: it is an object
    PyObject *object;
};

static bool is_path(PyObject *o) {
    return PyUnicode_Check(o) || PyObject_HasAttrString(o, "__fspath__");
}

static bool open_place(struct place *p, PyObject *o, const char *function, const char *method) {
    *p = (struct place){.object = o};
    if (is_path(o))
        return (p->path = ext_path(o, function)) != NULL;
    if (PyObject_HasAttrString(o, method))
        return true;
    PyErr_Format(PyExc_ValueError, "%s(): a path or a file opened in binary mode is needed, not %.100s",
                 function, Py_TYPE(o)->tp_name);
    return false;
}

static void close_place(struct place *p) {
    Py_CLEAR(p->path);
}

// Loading ---------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    bool is_array, has_metadata;
} formats[] = {
    {.name = "npy", .is_array = true},
    {.name = "npz"},
    {.name = "safetensors", .has_metadata = true},
    {.name = "gguf", .has_metadata = true},
};

static int find_format(PyObject *name) {
    for (int i = 0; i < COUNT(formats); i++)
        if (PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, formats[i].name))
            return i;
    PyErr_Format(PyExc_ValueError, "load(): format %R: 'npy', 'npz', 'safetensors' or 'gguf' is needed",
                 name);
    return -1;
}

// Returns the format that is named or, without a name, that of the file's extension; -1 with an exception.
static int choose_format(PyObject *file, PyObject *format) {
    if (format != Py_None)
        return find_format(format);
    if (!is_path(file) && !PyObject_HasAttrString(file, "name")) {
        PyErr_Format(PyExc_ValueError,
                     "load(): a %.100s has no name that would say its format: format= is needed",
                     Py_TYPE(file)->tp_name);
        return -1;
    }
    PyObject *name = is_path(file) ? PyObject_Str(file) : PyObject_GetAttrString(file, "name");
    PyObject *text = name ? PyObject_Str(name) : NULL;
    Py_ssize_t size = text ? PyUnicode_GetLength(text) : 0;
    Py_ssize_t dot = text ? PyUnicode_FindChar(text, '.', 0, size, -1) : -2;
    PyObject *end = dot >= 0 ? PyUnicode_Substring(text, dot + 1, size) : NULL;
    if (dot == -1)
        PyErr_Format(PyExc_ValueError, "load(): %R has no extension: say which format it has", text);
    int which = end ? find_format(end) : -1;
    Py_XDECREF(end);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return which;
}

static zl_file *load_path(int which, const char *path, bool map) {
    zl_load_options options = {.format = formats[which].name, .no_mmap = !map};
    zl_file *file;
    Py_BEGIN_ALLOW_THREADS
    file = zl_load_file(path, &options);
    Py_END_ALLOW_THREADS
    return file ? file : ext_raise();
}

// Loads the rest of a file-like object.
static zl_file *load_object(int which, PyObject *object) {
    PyObject *bytes = PyObject_CallMethod(object, "read", NULL);
    Py_buffer view;
    if (bytes && !PyObject_CheckBuffer(bytes))
        PyErr_Format(PyExc_TypeError, "load(): read() gave a %.100s: a file opened in binary mode is needed",
                     Py_TYPE(bytes)->tp_name);
    if (!bytes || PyErr_Occurred() || PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE)) {
        Py_XDECREF(bytes);
        return NULL;
    }
    zl_file *file;
    Py_BEGIN_ALLOW_THREADS
    file = zl_load_memory(formats[which].name, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    Py_DECREF(bytes);
    return file ? file : ext_raise();
}

// Sets an item, and takes over the references to key and value.
static bool set_item(PyObject *dict, PyObject *key, PyObject *value) {
    bool ok = key && value && PyDict_SetItem(dict, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return ok;
}

static PyObject *arrays_of(const zl_file *file) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < zl_file_count(file); i++) {
        const char *name = zl_file_name(file, i);
        if (!set_item(dict, ext_text(name, strlen(name)), ext_wrap(zl_file_array(file, i))))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *metadata_value(const zl_metadata *m) {
    if (m->array)
        return ext_wrap(m->array);
    if (!m->is_list)
        return ext_text(m->text[0].data, m->text[0].bytes);
    PyObject *list = PyList_New(m->texts);
    for (int i = 0; list && i < m->texts; i++) {
        PyObject *text = ext_text(m->text[i].data, m->text[i].bytes);
        if (!text)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, text);
    }
    return list;
}

static PyObject *metadata_of(const zl_file *file) {
    PyObject *dict = PyDict_New();
    zl_metadata m;
    for (int i = 0; dict && zl_file_metadata(file, i, &m); i++)
        if (!set_item(dict, ext_text(m.name, strlen(m.name)), metadata_value(&m)))
            Py_CLEAR(dict);
    return dict;
}

static PyObject *contents(const zl_file *file, bool is_array, bool with_metadata) {
    if (is_array)
        return ext_wrap(zl_file_array(file, 0));
    PyObject *arrays = arrays_of(file), *metadata = with_metadata && arrays ? metadata_of(file) : NULL;
    if (!with_metadata)
        return arrays;
    PyObject *pair = arrays && metadata ? PyTuple_Pack(2, arrays, metadata) : NULL;
    Py_XDECREF(arrays);
    Py_XDECREF(metadata);
    return pair;
}

static PyObject *load_place(const struct place *p, int which, bool with_metadata, bool map) {
    zl_file *file =
        p->path ? load_path(which, PyBytes_AS_STRING(p->path), map) : load_object(which, p->object);
    PyObject *result = file ? contents(file, formats[which].is_array, with_metadata) : NULL;
    zl_file_free(file);
    return result;
}

static PyObject *load(PyObject *m, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", "format", "return_metadata", "mmap", "stream", NULL};
    PyObject *file, *format = Py_None, *stream = Py_None;
    int with_metadata = 0, map = 1;
    struct place place;
    zl_scope scope;
    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Op$pO:load", names, &file, &format, &with_metadata,
                                     &map, &stream) ||
        !open_place(&place, file, "load", "read"))
        return NULL;
    PyObject *result = NULL;
    int which = choose_format(file, format);
    if (which >= 0 && with_metadata && !formats[which].has_metadata)
        PyErr_Format(PyExc_ValueError, "load(): files of format %s have no metadata", formats[which].name);
    else if (which >= 0 && ext_scope(stream, &scope)) {
        result = load_place(&place, which, with_metadata, map);
        zl_scope_end(scope);
    }
    close_place(&place);
    return result;
}

// Saving ----------------------------------------------------------------------------------------------------

// Adds the arrays of a dict by name.
static bool add_arrays(zl_file *file, PyObject *dict, const char *function) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? ext_utf8(key) : NULL;
        if (!name && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s(): a name is %R: a str is needed", function, key);
        zl_array a = name ? ext_array_of(value) : NULL;
        if (!a)
            return ext_name_argument(function, NULL);
        if (!zl_file_add(file, name, a))
            return ext_raise(), false;
    }
    return true;
}

static bool read_text(PyObject *o, const char *name, const char *function, zl_text *out) {
    Py_ssize_t bytes = 0;
    out->data = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &bytes) : NULL;
    out->bytes = (size_t)bytes;
    if (out->data || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)))
        return out->data != NULL;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s(): metadata '%s' has %A: a str that can be written as UTF-8 is needed",
                 function, name, o);
    return false;
}

static bool add_metadata(zl_file *file, const zl_metadata *value) {
    return zl_file_add_metadata(file, value) || (ext_raise(), false);
}

static bool add_texts(zl_file *file, const char *name, PyObject *list, const char *function) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
    zl_text *text = PyMem_Calloc((size_t)count + 1, sizeof *text);
    bool ok = text != NULL;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = read_text(PySequence_Fast_GET_ITEM(list, i), name, function, &text[i]);
    ok = ok &&
         add_metadata(file, &(zl_metadata){.name = name, .text = text, .texts = (int)count, .is_list = true});
    PyMem_Free(text);
    return ok;
}

// Adds metadata: a text or, unless texts_only, an array or a list of texts.
static bool add_note(zl_file *file, const char *name, PyObject *value, bool texts_only,
                     const char *function) {
    zl_text text;
    if (PyUnicode_Check(value))
        return read_text(value, name, function, &text) &&
               add_metadata(file, &(zl_metadata){.name = name, .text = &text, .texts = 1});
    if (!texts_only && ext_is_array(value))
        return add_metadata(file, &(zl_metadata){.name = name, .array = ext_value(value)});
    if (!texts_only && (PyList_Check(value) || PyTuple_Check(value)))
        return add_texts(file, name, value, function);
    PyErr_Format(PyExc_ValueError, "%s(): metadata '%s' is %R: a str%s is needed", function, name, value,
                 texts_only ? "" : ", a list of them or an array");
    return false;
}

static bool add_notes(zl_file *file, PyObject *dict, bool texts_only, const char *function) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_Format(PyExc_ValueError, "%s(): metadata is named %R: a str is needed", function, key);
            return false;
        }
        const char *name = ext_utf8(key);
        if (!name)
            return ext_name_argument(function, NULL);
        if (!add_note(file, name, value, texts_only, function))
            return false;
    }
    return true;
}

static bool evaluate(const zl_file *file) {
    int count = zl_file_count(file);
    zl_array *list = PyMem_Calloc((size_t)count + 1, sizeof(zl_array));
    if (!list)
        return PyErr_NoMemory(), false;
    for (int i = 0; i < count; i++)
        list[i] = zl_file_array(file, i);
    bool ok = ext_eval(count, list);
    PyMem_Free(list);
    return ok;
}

// The bytes of a file, as an object with a buffer, since a file-like object may keep the data written to it.
struct file_bytes {
    PyObject_HEAD
    char *data; // of zl_save_memory
    Py_ssize_t bytes;
};

static int give_bytes(PyObject *self, Py_buffer *view, int flags) {
    const struct file_bytes *f = (struct file_bytes *)self;
    return PyBuffer_FillInfo(view, self, f->data, f->bytes, 1, flags);
}

static void free_bytes(PyObject *self) {
    zl_free(((struct file_bytes *)self)->data);
    PyObject_Free(self);
}

static PyBufferProcs bytes_buffer = {.bf_getbuffer = give_bytes};

static PyTypeObject bytes_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.core._FileBytes",
    .tp_doc = PyDoc_STR("The bytes of a file that is written."),
    .tp_basicsize = sizeof(struct file_bytes),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_as_buffer = &bytes_buffer,
    .tp_dealloc = free_bytes,
};

// Writes all bytes. An unbuffered file may write fewer bytes than it is given, and returns their number. If
// write() returns no number, all bytes count as written.
static bool write_all(PyObject *object, PyObject *view, const char *function) {
    Py_ssize_t at = 0, bytes = PyMemoryView_GET_BUFFER(view)->len;
    while (at < bytes) {
        PyObject *rest = PySequence_GetSlice(view, at, bytes);
        PyObject *done = rest ? PyObject_CallMethod(object, "write", "O", rest) : NULL;
        Py_ssize_t put = done && PyLong_Check(done) ? PyLong_AsSsize_t(done) : bytes - at;
        if (done && PyErr_Occurred())
            PyErr_Clear(); // the number is too large: the message shows -1
        bool failed = !done;
        Py_XDECREF(done);
        Py_XDECREF(rest);
        if (failed)
            return false;
        if (put <= 0 || put > bytes - at) {
            PyErr_Format(PyExc_OSError, "%s(): write() wrote %zd of %zd bytes", function, put, bytes - at);
            return false;
        }
        at += put;
    }
    return true;
}

static bool write_object(PyObject *object, const zl_file *file, const char *format, const char *function) {
    size_t bytes = 0;
    char *data;
    Py_BEGIN_ALLOW_THREADS
    data = zl_save_memory(format, file, &bytes);
    Py_END_ALLOW_THREADS
    if (!data)
        return ext_raise(), false;
    struct file_bytes *owner = PyObject_New(struct file_bytes, &bytes_type);
    if (!owner) {
        zl_free(data);
        return false;
    }
    owner->data = data;
    owner->bytes = (Py_ssize_t)bytes;
    PyObject *view = PyMemoryView_FromObject((PyObject *)owner);
    bool ok = view && write_all(object, view, function);
    Py_DECREF(owner);
    Py_XDECREF(view);
    return ok;
}

// A function that writes files.
struct writer {
    const char *function, *format;
    bool (*save)(const char *path, const zl_file *file);
};

static bool write_path(const char *path, const zl_file *file, const struct writer *w) {
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = w->save(path, file);
    Py_END_ALLOW_THREADS
    return ok || (ext_raise(), false);
}

static bool write_file(PyObject *to, const zl_file *file, const struct writer *w) {
    struct place place;
    if (!open_place(&place, to, w->function, "write"))
        return false;
    bool ok = evaluate(file) && (place.path ? write_path(PyBytes_AS_STRING(place.path), file, w)
                                            : write_object(place.object, file, w->format, w->function));
    close_place(&place);
    return ok;
}

// Saves arrays and metadata, each a dict or None.
static PyObject *save_dicts(PyObject *to, PyObject *arrays, PyObject *metadata, bool texts_only,
                            const struct writer *w) {
    zl_scope scope = ext_begin();
    zl_file *file = zl_file_new();
    PyObject *copy = PyDict_Copy(arrays); // a copy, which no __mlx_array__ can change
    bool ok = copy && (file || ext_raise());
    ok = ok && add_arrays(file, copy, w->function);
    ok = ok && (metadata == Py_None || add_notes(file, metadata, texts_only, w->function));
    ok = ok && write_file(to, file, w);
    Py_XDECREF(copy);
    zl_file_free(file);
    zl_scope_end(scope);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static bool save_one(const char *path, const zl_file *file) {
    return zl_save(path, zl_file_array(file, 0));
}

static PyObject *save(PyObject *m, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"file", "arr", NULL};
    static const struct writer w = {"save", "npy", save_one};
    PyObject *to, *a;
    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:save", names, &to, &a))
        return NULL;
    PyObject *dict = Py_BuildValue("{s:O}", "", a),
             *done = dict ? save_dicts(to, dict, Py_None, true, &w) : NULL;
    Py_XDECREF(dict);
    return done;
}

// Names the positional arrays arr_0, arr_1 and so on.
static PyObject *name_arrays(PyObject *args, PyObject *kwargs, const char *function) {
    PyObject *dict = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    for (Py_ssize_t i = 1; dict && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *name = PyUnicode_FromFormat("arr_%zd", i - 1);
        if (name && PyDict_Contains(dict, name) == 1)
            PyErr_Format(PyExc_ValueError,
                         "%s(): an array without a name would be %U, but another is named so", function,
                         name);
        if (!name || PyErr_Occurred() || PyDict_SetItem(dict, name, PyTuple_GET_ITEM(args, i)))
            Py_CLEAR(dict);
        Py_XDECREF(name);
    }
    return dict;
}

static PyObject *save_zip(PyObject *args, PyObject *kwargs, const struct writer *w) {
    if (PyTuple_GET_SIZE(args) < 1)
        return PyErr_Format(PyExc_TypeError, "%s(): missing argument 'file'", w->function);
    PyObject *dict = name_arrays(args, kwargs, w->function);
    PyObject *done = dict ? save_dicts(PyTuple_GET_ITEM(args, 0), dict, Py_None, true, w) : NULL;
    Py_XDECREF(dict);
    return done;
}

static PyObject *savez(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return save_zip(args, kwargs, &(struct writer){"savez", "npz", zl_savez});
}

static PyObject *savez_compressed(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return save_zip(args, kwargs,
                    &(struct writer){"savez_compressed", "npz_compressed", zl_savez_compressed});
}

static PyObject *save_named(PyObject *args, PyObject *kwargs, const char *form, bool texts_only,
                            const struct writer *w) {
    static char *names[] = {"file", "arrays", "metadata", NULL};
    PyObject *to, *arrays, *metadata = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &to, &PyDict_Type, &arrays, &metadata))
        return NULL;
    if (metadata != Py_None && !PyDict_Check(metadata))
        return PyErr_Format(PyExc_TypeError, "%s(): metadata must be a dict or None, not %.100s", w->function,
                            Py_TYPE(metadata)->tp_name);
    return save_dicts(to, arrays, metadata, texts_only, w);
}

static PyObject *save_safetensors(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return save_named(args, kwargs, "OO!|O:save_safetensors", true,
                      &(struct writer){"save_safetensors", "safetensors", zl_save_safetensors});
}

static PyObject *save_gguf(PyObject *m, PyObject *args, PyObject *kwargs) {
    (void)m;
    return save_named(args, kwargs, "OO!|O:save_gguf", false,
                      &(struct writer){"save_gguf", "gguf", zl_save_gguf});
}

#define ROW(name, doc) \
    { #name, (PyCFunction)(void (*)(void))name, METH_VARARGS | METH_KEYWORDS, PyDoc_STR(doc) }

static PyMethodDef functions[] = {
    ROW(load, "load(file, /, format=None, return_metadata=False, *, mmap=True, stream=None)\n--\n\n"
              "The array of an npy file, or the arrays of an npz, safetensors or gguf file in a dict; with "
              "the metadata, "
              "which the last two have, a pair of dicts. Files of 1 MiB and more are mapped: as long as an "
              "array of one lives, "
              "nobody may change or shorten it in place, or reading the array ends the process with SIGBUS. "
              "mmap=False reads "
              "the file instead. Saving over it with zellige is safe."),
    ROW(save, "save(file, arr)\n--\n\nWrites an array as an npy file."),
    ROW(savez, "savez(file, *args, **kwargs)\n--\n\nWrites arrays as an npz file, by their names; others are "
               "arr_0, ..."),
    ROW(savez_compressed, "savez_compressed(file, *args, **kwargs)\n--\n\nThe same, deflated."),
    ROW(save_safetensors,
        "save_safetensors(file, arrays, metadata=None)\n--\n\nWrites a dict of arrays and one of texts."),
    ROW(save_gguf, "save_gguf(file, arrays, metadata=None)\n--\n\n"
                   "Writes a dict of arrays and one of texts, lists of texts and arrays."),
    {0},
};

bool ext_add_files(PyObject *core) {
    return PyType_Ready(&bytes_type) == 0 && PyModule_AddFunctions(core, functions) == 0;
}
