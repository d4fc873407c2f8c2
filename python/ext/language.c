// language.c - zellige.core._language: models, sequences and tokenizers of zellige_model.h, which
// zellige.model exports.

#include "ext.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "zellige_model.h"

enum { MESSAGE = 512 };

static PyTypeObject model_type, sequence_type, tokenizer_type, reader_type;

// Raises the function's message, or, if that is empty, the error that an evaluation recorded.
static void *raise(const char *message) {
    if (!*message)
        return PyErr_Occurred() ? NULL : ext_raise();
    zl_clear_error();
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "backslashreplace");
    if (text)
        PyErr_SetObject(PyExc_ValueError, text);
    Py_XDECREF(text);
    return NULL;
}

static PyObject *path_argument(PyObject *args, PyObject *kwargs, const char *form, const char *function) {
    static char *names[] = {"path", NULL};
    PyObject *path;
    return PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &path) ? ext_path(path, function) : NULL;
}

// Models ----------------------------------------------------------------------------------------------------

struct model {
    PyObject_HEAD
    zl_model model;
};

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    char error[MESSAGE] = "";
    PyObject *path = path_argument(args, kwargs, "O:Model", "Model");
    struct model *self = path ? (struct model *)type->tp_alloc(type, 0) : NULL;
    if (self) {
        const char *name = PyBytes_AS_STRING(path);
        Py_BEGIN_ALLOW_THREADS
        self->model = zl_model_open(name, error, sizeof error);
        Py_END_ALLOW_THREADS
        if (!self->model) {
            Py_CLEAR(self);
            raise(error);
        }
    }
    Py_XDECREF(path);
    return (PyObject *)self;
}

static void model_free(PyObject *o) {
    zl_model_close(((struct model *)o)->model);
    Py_TYPE(o)->tp_free(o);
}

static zl_model model_of(PyObject *o) {
    return ((struct model *)o)->model;
}

static PyObject *model_about(PyObject *o, void *unused) {
    (void)unused;
    zl_model_info i = zl_model_about(model_of(o));
    PyObject *eos = PyTuple_New(i.eos_count);
    for (int k = 0; eos && k < i.eos_count; k++)
        PyTuple_SET_ITEM(eos, k, PyLong_FromLong(i.eos[k]));
    return eos ? Py_BuildValue("{s:s,s:i,s:i,s:i,s:L,s:L,s:n,s:i,s:N}", "type", i.type, "layers", i.layers,
                               "hidden", i.hidden, "vocabulary", i.vocabulary, "positions",
                               (long long)i.positions, "parameters", (long long)i.parameters, "bytes",
                               (Py_ssize_t)i.bytes, "bos", i.bos, "eos", eos)
               : NULL;
}

static PyObject *model_logits(PyObject *o, PyObject *ids) {
    zl_scope scope = zl_scope_begin();
    zl_array a = ext_array_from(ids, ZL_INT32),
             rows = a && zl_ndim(a) == 1 ? zl_expand_dims(a, ZL_AXES(0)) : a;
    PyObject *result = NULL;
    if (a && zl_ndim(a) != 1 && zl_ndim(a) != 2)
        PyErr_Format(PyExc_ValueError, "logits(): ids have %d axes: one or two are needed", zl_ndim(a));
    else if (rows) {
        zl_array logits = zl_model_logits(model_of(o), rows);
        result = ext_wrap(zl_ndim(a) == 1 && logits ? zl_squeeze(logits, ZL_AXES(0)) : logits);
    }
    zl_scope_end(scope);
    return result;
}

static PyObject *model_parameters(PyObject *o, PyObject *unused) {
    (void)unused;
    PyObject *all = PyDict_New();
    const char *name;
    zl_array a;
    for (int i = 0; all && (a = zl_model_parameter(model_of(o), i, &name)); i++) {
        PyObject *array = ext_wrap(a);
        if (!array || PyDict_SetItemString(all, name, array))
            Py_CLEAR(all);
        Py_XDECREF(array);
    }
    return all;
}

// Sequences -------------------------------------------------------------------------------------------------

struct sequence {
    PyObject_HEAD
    PyObject *model;
    zl_sequence sequence;
    int64_t done; // ids of the prompt that have been computed
    atomic_bool busy;
};

// Marks the sequence as in use by this thread. If another thread uses it, raises an exception.
static bool enter(struct sequence *self) {
    if (!atomic_exchange(&self->busy, true))
        return true;
    PyErr_SetString(PyExc_RuntimeError, "this Sequence is being computed by another thread");
    return false;
}

static void leave(struct sequence *self) {
    atomic_store(&self->busy, false);
}

// Returns ids as numbers, which the caller frees; NULL with an exception if that fails.
static int32_t *read_ids(PyObject *o, int64_t *count) {
    PyObject *list = PySequence_Fast(o, "ids must be a sequence of integers");
    Py_ssize_t size = list ? PySequence_Fast_GET_SIZE(list) : 0;
    int32_t *ids = list ? PyMem_Malloc(sizeof *ids * (size_t)(size + 1)) : NULL;
    for (Py_ssize_t i = 0; ids && i < size; i++) {
        int64_t id;
        bool read = ext_to_int64(PySequence_Fast_GET_ITEM(list, i), &id);
        if (read && (id < 0 || id > INT32_MAX)) {
            PyErr_Format(PyExc_ValueError, "id %lld at position %zd: ids are not negative, and of 32 bits",
                         (long long)id, i);
            read = false;
        }
        if (!read) {
            PyMem_Free(ids);
            ids = NULL;
            break;
        }
        ids[i] = (int32_t)id;
    }
    if (list && !ids && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(list);
    *count = size;
    return ids;
}

// Reads a dict from ids to the values that are added to their logits.
static bool read_bias(PyObject *o, zl_sampling *s, int **ids, double **values) {
    if (o == Py_None)
        return true;
    if (!PyDict_Check(o)) {
        PyErr_Format(PyExc_TypeError, "start(): logit_bias must be a dict of ids, not %.100s",
                     Py_TYPE(o)->tp_name);
        return false;
    }
    size_t count = (size_t)PyDict_GET_SIZE(o);
    *ids = PyMem_Calloc(count + 1, sizeof **ids);
    *values = PyMem_Calloc(count + 1, sizeof **values);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    bool read = *ids && *values;
    if (!read)
        PyErr_NoMemory();
    while (read && (size_t)s->biases < count && PyDict_Next(o, &at, &key, &value)) {
        int64_t id;
        read = ext_to_int64(key, &id) && ext_to_double(value, &(*values)[s->biases]);
        if (read && (id < INT32_MIN || id > INT32_MAX)) {
            PyErr_Format(PyExc_ValueError, "start(): logit_bias: id %lld is of more than 32 bits",
                         (long long)id);
            read = false;
        }
        if (read)
            (*ids)[s->biases++] = (int)id;
    }
    s->bias_id = *ids, s->bias = *values;
    return read;
}

static PyObject *start(PyObject *o, const zl_sequence_options *how, PyObject *ids) {
    char error[MESSAGE] = "";
    int64_t count;
    int32_t *list = read_ids(ids, &count);
    struct sequence *self = list ? PyObject_New(struct sequence, &sequence_type) : NULL;
    if (self) {
        self->model = Py_NewRef(o);
        self->done = 0;
        atomic_init(&self->busy, false);
        self->sequence = zl_sequence_start(model_of(o), list, count, how, error, sizeof error);
        if (!self->sequence) {
            Py_CLEAR(self);
            raise(error);
        }
    }
    PyMem_Free(list);
    return (PyObject *)self;
}

static PyObject *model_start(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"ids",
                            "temperature",
                            "top_k",
                            "top_p",
                            "min_p",
                            "xtc_probability",
                            "xtc_threshold",
                            "repetition_penalty",
                            "presence_penalty",
                            "frequency_penalty",
                            "penalty_window",
                            "logit_bias",
                            "seed",
                            "chunk",
                            NULL};
    zl_sampling s = {.xtc_threshold = 0.1, .seed = -1};
    PyObject *ids, *bias = Py_None, *seed = Py_None, *result = NULL;
    int chunk = 0, *bias_ids = NULL;
    double *bias_values = NULL;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "O|$didddddddiOOi:start", names, &ids, &s.temperature,
                                    &s.top_k, &s.top_p, &s.min_p, &s.xtc_probability, &s.xtc_threshold,
                                    &s.repetition_penalty, &s.presence_penalty, &s.frequency_penalty,
                                    &s.penalty_window, &bias, &seed, &chunk) &&
        (seed == Py_None || ext_to_int64(seed, &s.seed)) && read_bias(bias, &s, &bias_ids, &bias_values))
        result = start(o, &(zl_sequence_options){.sampling = &s, .chunk = chunk}, ids);
    PyMem_Free(bias_ids);
    PyMem_Free(bias_values);
    return result;
}

static void sequence_free(PyObject *o) {
    struct sequence *self = (struct sequence *)o;
    zl_sequence_close(self->sequence);
    Py_DECREF(self->model);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *sequence_prefill(PyObject *o, PyObject *unused) {
    struct sequence *self = (struct sequence *)o;
    char error[MESSAGE] = "";
    bool more;
    (void)unused;
    if (!enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    more = zl_sequence_prefill(self->sequence, &self->done, error, sizeof error);
    Py_END_ALLOW_THREADS
    leave(self);
    if (!more && *error)
        return raise(error);
    return more ? PyLong_FromLongLong(self->done) : Py_NewRef(Py_None);
}

static PyObject *sequence_next(PyObject *o) {
    struct sequence *self = (struct sequence *)o;
    char error[MESSAGE] = "";
    zl_token token;
    bool drawn;
    if (!enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    drawn = zl_sequence_next(self->sequence, &token, error, sizeof error);
    Py_END_ALLOW_THREADS
    leave(self);
    return drawn ? Py_BuildValue("(id)", (int)token.id, (double)token.log_probability) : raise(error);
}

static PyObject *sequence_append(PyObject *o, PyObject *ids) {
    char error[MESSAGE] = "";
    int64_t count;
    struct sequence *self = (struct sequence *)o;
    int32_t *list = read_ids(ids, &count);
    bool entered = list && enter(self);
    bool done = entered && zl_sequence_append(self->sequence, list, count, error, sizeof error);
    if (entered)
        leave(self);
    PyMem_Free(list);
    return done ? Py_NewRef(Py_None) : entered ? raise(error) : NULL;
}

static PyObject *sequence_trim(PyObject *o, PyObject *length) {
    char error[MESSAGE] = "";
    int64_t to;
    struct sequence *self = (struct sequence *)o;
    if (!ext_to_int64(length, &to) || !enter(self))
        return NULL;
    bool done = zl_sequence_trim(self->sequence, to, error, sizeof error);
    leave(self);
    return done ? Py_NewRef(Py_None) : raise(error);
}

static Py_ssize_t sequence_length(PyObject *o) {
    return (Py_ssize_t)zl_sequence_length(((struct sequence *)o)->sequence);
}

// Tokenizers ------------------------------------------------------------------------------------------------

struct tokenizer {
    PyObject_HEAD
    zl_tokenizer tokenizer;
};

static PyObject *tokenizer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    char error[MESSAGE] = "";
    PyObject *path = path_argument(args, kwargs, "O:Tokenizer", "Tokenizer");
    struct tokenizer *self = path ? (struct tokenizer *)type->tp_alloc(type, 0) : NULL;
    if (self && !(self->tokenizer = zl_tokenizer_open(PyBytes_AS_STRING(path), error, sizeof error))) {
        Py_CLEAR(self);
        raise(error);
    }
    Py_XDECREF(path);
    return (PyObject *)self;
}

static void tokenizer_free(PyObject *o) {
    zl_tokenizer_close(((struct tokenizer *)o)->tokenizer);
    Py_TYPE(o)->tp_free(o);
}

static zl_tokenizer tokenizer_of(PyObject *o) {
    return ((struct tokenizer *)o)->tokenizer;
}

static Py_ssize_t tokenizer_length(PyObject *o) {
    return zl_tokenizer_count(tokenizer_of(o));
}

static PyObject *tokenizer_encode(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"text", "special", NULL};
    char error[MESSAGE] = "";
    const char *text;
    Py_ssize_t bytes;
    int special = 1;
    int64_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s#|p:encode", names, &text, &bytes, &special))
        return NULL;
    int32_t *ids =
        zl_tokenizer_encode(tokenizer_of(o), text, (size_t)bytes, special, &count, error, sizeof error);
    if (!ids)
        return raise(error);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (int64_t i = 0; list && i < count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLong(ids[i]));
    free(ids);
    return list;
}

static PyObject *tokenizer_render(PyObject *o, PyObject *json) {
    char error[MESSAGE] = "";
    size_t bytes;
    Py_ssize_t json_bytes;
    const char *data = PyUnicode_AsUTF8AndSize(json, &json_bytes);
    char *text =
        data ? zl_tokenizer_chat(tokenizer_of(o), data, (size_t)json_bytes, &bytes, error, sizeof error)
             : NULL;
    if (!text)
        return data ? raise(error) : NULL;
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
    free(text);
    return result;
}

struct reader {
    PyObject_HEAD
    PyObject *tokenizer;
    zl_reader reader;
};

static PyObject *tokenizer_reader(PyObject *o, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"special", NULL};
    int special = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:reader", names, &special))
        return NULL;
    struct reader *self = PyObject_New(struct reader, &reader_type);
    if (self) {
        self->tokenizer = Py_NewRef(o);
        self->reader = zl_reader_new(tokenizer_of(o), special);
        if (!self->reader) {
            Py_CLEAR(self);
            PyErr_NoMemory();
        }
    }
    return (PyObject *)self;
}

static void reader_free(PyObject *o) {
    struct reader *self = (struct reader *)o;
    zl_reader_free(self->reader);
    Py_DECREF(self->tokenizer);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *as_text(const char *text, size_t bytes, const char *error) {
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace") : raise(error);
}

static PyObject *reader_read(PyObject *o, PyObject *number) {
    char error[MESSAGE] = "";
    size_t bytes = 0;
    int64_t id;
    if (!ext_to_int64(number, &id))
        return NULL;
    if (id < 0 || id > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "read(): id %lld: ids are not negative, and of 32 bits",
                            (long long)id);
    const char *text = zl_reader_read(((struct reader *)o)->reader, (int32_t)id, &bytes, error, sizeof error);
    return as_text(text, bytes, error);
}

static PyObject *reader_end(PyObject *o, PyObject *unused) {
    char error[MESSAGE] = "";
    size_t bytes = 0;
    (void)unused;
    const char *text = zl_reader_end(((struct reader *)o)->reader, &bytes, error, sizeof error);
    return as_text(text, bytes, error);
}

// Types -----------------------------------------------------------------------------------------------------

#define WORDS(name, function, doc) \
    {name, (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS, PyDoc_STR(doc)}

static PyMethodDef model_methods[] = {
    {"logits", model_logits, METH_O,
     PyDoc_STR("logits(ids)\n--\n\nThe logits behind each of the ids, (..., T, vocabulary), of ids (T) or "
               "(batch, T).")},
    {"parameters", model_parameters, METH_NOARGS,
     PyDoc_STR("parameters()\n--\n\nThe tensors of the model, by their names in the checkpoint.")},
    WORDS("start", model_start,
          "start(ids, *, temperature=0, top_k=0, top_p=0, min_p=0, xtc_probability=0, xtc_threshold=0.1, "
          "repetition_penalty=0, "
          "presence_penalty=0, frequency_penalty=0, penalty_window=0, logit_bias=None, seed=None, "
          "chunk=0)\n--\n\n"
          "A Sequence behind a prompt of at least one id. Without options the most likely ids are drawn."),
    {0},
};
static PyGetSetDef model_members[] = {
    {"about", model_about, NULL, PyDoc_STR("type, sizes, and the ids that begin and end a text, in a dict."),
     NULL},
    {0},
};
static PyTypeObject model_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.model.Model",
    .tp_basicsize = sizeof(struct model),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = PyDoc_STR(
        "Model(path)\n--\n\nA language model: a folder with config.json and safetensors, or a GGUF file."),
    .tp_new = model_new,
    .tp_dealloc = model_free,
    .tp_methods = model_methods,
    .tp_getset = model_members,
};

static PyMethodDef sequence_methods[] = {
    {"prefill", sequence_prefill, METH_NOARGS,
     PyDoc_STR("prefill()\n--\n\nComputes the next chunk of the prompt and returns how many of its ids are "
               "computed; None: all are.")},
    {"append", sequence_append, METH_O,
     PyDoc_STR("append(ids)\n--\n\nAppends ids to what was drawn, such as the next question.")},
    {"trim", sequence_trim, METH_O, PyDoc_STR("trim(length)\n--\n\nForgets the ids from this position on.")},
    {0},
};
static PySequenceMethods sequence_protocol = {.sq_length = sequence_length};
static PyTypeObject sequence_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "zellige.model.Sequence",
    .tp_basicsize = sizeof(struct sequence),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = PyDoc_STR(
        "Ids that are drawn one after the other: an iterator of pairs of an id and its log-probability. It "
        "does "
        "not end by itself; len() counts the ids of the prompt and those drawn. It belongs to one thread."),
    .tp_dealloc = sequence_free,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = sequence_next,
    .tp_as_sequence = &sequence_protocol,
    .tp_methods = sequence_methods,
};

static PyMethodDef tokenizer_methods[] = {
    WORDS("encode", tokenizer_encode,
          "encode(text, special=True)\n--\n\nThe ids of a text; special: with those that the tokenizer puts "
          "around one."),
    {"render", tokenizer_render, METH_O,
     PyDoc_STR("render(json)\n--\n\nA conversation as the chat template writes it, of a JSON object with its "
               "variables.")},
    WORDS("reader", tokenizer_reader,
          "reader(special=False)\n--\n\nA Reader, which gives special tokens too if special."),
    {0},
};
static PySequenceMethods tokenizer_protocol = {.sq_length = tokenizer_length};
static PyTypeObject tokenizer_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.core._language.Tokenizer",
    .tp_basicsize = sizeof(struct tokenizer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = PyDoc_STR("Tokenizer(path)\n--\n\nThe tokenizer of a model's folder or GGUF file."),
    .tp_new = tokenizer_new,
    .tp_dealloc = tokenizer_free,
    .tp_as_sequence = &tokenizer_protocol,
    .tp_methods = tokenizer_methods,
};

static PyMethodDef reader_methods[] = {
    {"read", reader_read, METH_O,
     PyDoc_STR("read(id)\n--\n\nThe text that is complete with this id, of whole characters.")},
    {"end", reader_end, METH_NOARGS,
     PyDoc_STR("end()\n--\n\nWhat is left of a character that is not complete.")},
    {0},
};
static PyTypeObject reader_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zellige.model.Reader",
    .tp_basicsize = sizeof(struct reader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = PyDoc_STR("Reads ids one by one as text."),
    .tp_dealloc = reader_free,
    .tp_methods = reader_methods,
};

static PyObject *quantize(PyObject *m, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", "out", "mode", "bits", "group_size", "mixed", NULL};
    char error[MESSAGE] = "";
    zl_quantize_options how = {0};
    PyObject *from, *to;
    bool done = false;
    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$ziiz:quantize", names, &from, &to, &how.mode,
                                     &how.bits, &how.group_size, &how.mixed) ||
        !(from = ext_path(from, "quantize")))
        return NULL;
    if ((to = ext_path(to, "quantize"))) {
        const char *in = PyBytes_AS_STRING(from), *out = PyBytes_AS_STRING(to);
        Py_BEGIN_ALLOW_THREADS
        done = zl_model_quantize(in, out, &how, error, sizeof error);
        Py_END_ALLOW_THREADS
        if (!done)
            raise(error);
    }
    Py_DECREF(from);
    Py_XDECREF(to);
    return done ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    WORDS("quantize", quantize,
          "quantize(path, out, *, mode=None, bits=0, group_size=0, mixed=None)\n--\n\n"
          "Writes a model's folder with fewer bits for each weight, in MLX's format: modes affine, mxfp4, "
          "mxfp8 and nvfp4; 0 is "
          "what the mode has. mixed: mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6."),
    {0},
};

bool ext_add_language(PyObject *core) {
    PyTypeObject *types[] = {&model_type, &sequence_type, &tokenizer_type, &reader_type};
    PyObject *module = ext_submodule(core, "_language", "What zellige.model is made of.");
    bool added = module && !PyModule_AddFunctions(module, functions);
    for (int i = 0; added && i < COUNT(types); i++)
        added = !PyModule_AddType(module, types[i]);
    return added;
}
