// import.c - zl_import: reads functions from files, and calls them by recording their calls again.
//
// A file is not trusted. The reader checks bounds and stops at the first invalid entry. Each call becomes a
// template, a call without data, and op_replay checks it against the contract of its op. Each trace is
// replayed once on arrays without data, so that every function that loads can be called.

#include <string.h>

#include "transform/function_file.h"

// A call of a trace: its template, and references to its inputs.
struct step {
    zl_array first; // the first output of the template; retained
    uint32_t *reference;
};

struct traced {
    struct function_inputs inputs;
    struct step *step;
    int steps;
    int arrays; // number of inputs of the trace and outputs of steps
    uint32_t *result;
    int results;
};

struct zl_imported_ {
    char *metadata;
    bool shapeless;
    zl_array *constant; // retained
    int constants;
    struct traced *trace;
    int traces;
};

static const char function[] = "zl_import";

// Reading ---------------------------------------------------------------------------------------------------

// Reads values one after the other. A read past the end, or of an invalid value, gives 0 and sets failed.
struct reader {
    const char *path;
    const uint8_t *data; // the data of constants
    size_t data_bytes;
    size_t data_used; // the end of the constants read so far
    const uint8_t *at, *end; // the position in the structure, and its end
    bool failed;
    zl_dtype *dtype; // by number in the file
    int dtypes;
    struct file_op *op;
    int ops;
};

// An op of the file: the position of each field of our op among the fields in the file.
struct file_op {
    const struct op *op;
    uint8_t field[UINT8_MAX];
};

static bool damaged(struct reader *r, const char *what) {
    if (!r->failed)
        error_set(ZL_ERROR_IO, "%s: %s is damaged: %s", function, r->path, what);
    r->failed = true;
    return false;
}

static uint64_t take(struct reader *r, int bytes) {
    uint64_t value = 0;
    if (r->failed || r->end - r->at < bytes)
        return damaged(r, "it ends too early"), 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return value;
}

// Reads the number of entries of a list, each of at least bytes_each bytes. Fails if they do not fit into the
// rest of the file.
static int take_count(struct reader *r, int bytes_each) {
    uint64_t count = take(r, 4);
    if (r->failed || count > (uint64_t)(r->end - r->at) / (unsigned)bytes_each)
        return damaged(r, "a list is longer than the file"), 0;
    return count > INT32_MAX / 2 ? (damaged(r, "a list is too long"), 0) : (int)count;
}

// Reads a text, which is not NUL-terminated.
static const char *take_text(struct reader *r, int *bytes) {
    *bytes = take_count(r, 1);
    const char *text = (const char *)r->at;
    r->at += *bytes;
    return text;
}

static char *take_string(struct reader *r) {
    int bytes;
    const char *text = take_text(r, &bytes);
    char *copy = r->failed ? NULL : memory_alloc((size_t)bytes + 1);
    if (copy) {
        memcpy(copy, text, (size_t)bytes);
        copy[bytes] = 0;
    }
    return copy;
}

static zl_dtype take_dtype(struct reader *r) {
    int number = (int)take(r, 1);
    if (r->failed || number >= r->dtypes)
        return damaged(r, "a dtype that is not in its table"), ZL_BOOL;
    return r->dtype[number];
}

// Reads a dtype and sizes. The caller frees *dim.
static bool take_kind(struct reader *r, struct array_spec *spec, int64_t **dim) {
    int64_t size;
    *spec = (struct array_spec){.dtype = take_dtype(r), .ndim = take_count(r, 8)};
    *dim = r->failed ? NULL : memory_alloc(sizeof **dim * ((size_t)spec->ndim + 1));
    for (int i = 0; *dim && i < spec->ndim; i++)
        (*dim)[i] = (int64_t)take(r, 8);
    spec->dim = *dim;
    if (!*dim || r->failed)
        return false;
    return (spec->ndim <= UINT16_MAX && shape_size(spec->ndim, *dim, &size) && size <= INT64_MAX / 64) ||
           damaged(r, "an array of an impossible shape");
}

// Tables ----------------------------------------------------------------------------------------------------

static zl_dtype dtype_named(const char *name, int bytes) {
    for (int i = 0; i < ZL_DTYPE_COUNT; i++)
        if ((int)strlen(zl_dtype_name((zl_dtype)i)) == bytes &&
            !memcmp(zl_dtype_name((zl_dtype)i), name, (size_t)bytes))
            return (zl_dtype)i;
    return ZL_DTYPE_COUNT;
}

// Reads the table of dtypes. Fails if this version does not know one of them.
static bool read_dtypes(struct reader *r) {
    int count = take_count(r, 4), bytes;
    r->dtype = memory_alloc(sizeof *r->dtype * ((size_t)count + 1));
    for (; r->dtype && !r->failed && r->dtypes < count; r->dtypes++) {
        const char *name = take_text(r, &bytes);
        r->dtype[r->dtypes] = r->failed ? ZL_BOOL : dtype_named(name, bytes);
        if (r->dtype[r->dtypes] == ZL_DTYPE_COUNT)
            return error_set(ZL_ERROR_VALUE,
                             "%s: %s has arrays of dtype %.*s, which this version does not know", function,
                             r->path, bytes, name),
                   !(r->failed = true);
    }
    return r->dtype && !r->failed;
}

static bool unknown(struct reader *r, const char *what, int bytes, const char *name) {
    if (!r->failed)
        error_set(ZL_ERROR_VALUE, "%s: %s needs the %s %.*s, which this version does not have", function,
                  r->path, what, MIN_OF(bytes, 64), name);
    r->failed = true;
    return false;
}

// Reads a field of an op and finds ours with the same name and type. A field that takes all remaining
// arguments must be the last one both in the file and in our op.
static bool read_field(struct reader *r, struct file_op *o, int index, int fields) {
    int bytes;
    const char *name = take_text(r, &bytes);
    int type = (int)take(r, 1);
    for (int i = 0; !r->failed && i < o->op->fields; i++) {
        const struct op_field *f = &o->op->field[i];
        if ((int)strlen(f->name) == bytes && !memcmp(f->name, name, (size_t)bytes) && (int)f->type == type &&
            (f->type != FIELD_LIST || (i == o->op->fields - 1 && index == fields - 1)) &&
            o->field[i] == UINT8_MAX) {
            o->field[i] = (uint8_t)index;
            return true;
        }
    }
    return unknown(r, "argument", bytes, name);
}

// Returns whether a file may contain this op. Kernels in C for the CPU are never loaded; kernels in CUDA C++
// only if ZL_FILE_KERNELS allows it.
static bool is_welcome(struct reader *r, const struct op *op) {
    if (op != &op_cpu_kernel && (op != &op_cuda_kernel || setting_flag(SETTING_FILE_KERNELS)))
        return true;
    r->failed = true;
    return error_false(ZL_ERROR_VALUE, "%s: %s brings a kernel in %s, which %s", function, r->path,
                       op == &op_cpu_kernel ? "C" : "CUDA C++",
                       op == &op_cpu_kernel ? "files may not" : "ZL_FILE_KERNELS=0 refuses");
}

static bool read_op(struct reader *r, struct file_op *o) {
    int bytes;
    const char *name = take_text(r, &bytes);
    int fields = (int)take(r, 1);
    if (r->failed || !(o->op = op_find(name, (size_t)bytes)))
        return unknown(r, "op", bytes, name);
    if (!is_welcome(r, o->op))
        return false;
    if (fields != o->op->fields)
        return unknown(r, "arguments of", bytes, name);
    memset(o->field, UINT8_MAX, sizeof o->field);
    for (int i = 0; i < fields; i++)
        if (!read_field(r, o, i, fields))
            return false;
    return true;
}

static bool read_ops(struct reader *r) {
    r->ops = take_count(r, 5);
    r->op = r->failed ? NULL : memory_zero(sizeof *r->op * ((size_t)r->ops + 1));
    for (int i = 0; r->op && i < r->ops; i++)
        if (!read_op(r, &r->op[i]))
            return false;
    return r->op;
}

// Constants -------------------------------------------------------------------------------------------------

static zl_array read_number(struct reader *r, const struct array_spec *spec, bool is_weak) {
    uint64_t word = take(r, 8);
    union scalar value;
    memcpy(&value, &word, sizeof value);
    if (r->failed || spec->ndim)
        return damaged(r, "a number with axes"), NULL;
    return graph_inline(spec->dtype, value, is_weak ? ARRAY_WEAK : 0);
}

static zl_array read_data(struct reader *r, const struct array_spec *spec) {
    char digest[FUNCTION_DIGEST + 1];
    int64_t size;
    uint64_t offset = take(r, 8);
    shape_size(spec->ndim, spec->dim, &size);
    size_t bytes = (size_t)size * zl_dtype_size(spec->dtype);
    if (r->failed || r->end - r->at < FUNCTION_DIGEST || offset > r->data_bytes ||
        bytes > r->data_bytes - offset)
        return damaged(r, "a constant outside of it"), NULL;
    if (offset < r->data_used) // overlaps would let a small file take any amount of memory
        return damaged(r, "constants that overlap"), NULL;
    r->data_used = (size_t)offset + bytes;
    hash_sha256(r->data + offset, bytes, digest);
    r->at += FUNCTION_DIGEST;
    if (memcmp(digest, r->at - FUNCTION_DIGEST, FUNCTION_DIGEST))
        return damaged(r, "the data of a constant is not what was written"), NULL;
    return zl_from(r->data + offset, (zl_shape){spec->dim, spec->ndim}, spec->dtype);
}

static zl_array read_constant(struct reader *r) {
    struct array_spec spec;
    int64_t *dim;
    int kind = (int)take(r, 1);
    zl_array a = NULL;
    if (take_kind(r, &spec, &dim) && (kind < CONSTANT_KINDS || damaged(r, "an unknown kind of constant")))
        a = kind == CONSTANT_DATA ? read_data(r, &spec) : read_number(r, &spec, kind == CONSTANT_WEAK);
    memory_free(dim);
    return a;
}

static bool read_constants(struct reader *r, zl_imported *f) {
    int count = take_count(r, 14);
    f->constant = r->failed ? NULL : memory_zero(sizeof *f->constant * ((size_t)count + 1));
    for (; f->constant && f->constants < count; f->constants++)
        if (!(f->constant[f->constants] = zl_retain(read_constant(r))))
            return false;
    return f->constant;
}

// Traces ----------------------------------------------------------------------------------------------------

// The arrays of a trace, by number, while it is read or replayed.
struct values {
    zl_array *array;
    int count;
};

static zl_array value_of(const zl_imported *f, const struct values *v, uint32_t reference) {
    return reference & FUNCTION_CONSTANT ? f->constant[reference & ~FUNCTION_CONSTANT] : v->array[reference];
}

static uint32_t *read_references(struct reader *r, const zl_imported *f, int known, int *count) {
    *count = take_count(r, 4);
    uint32_t *list = r->failed ? NULL : memory_alloc(sizeof *list * ((size_t)*count + 1));
    for (int i = 0; list && i < *count; i++) {
        list[i] = (uint32_t)take(r, 4);
        bool is_constant = list[i] & FUNCTION_CONSTANT;
        if ((list[i] & ~FUNCTION_CONSTANT) < (unsigned)(is_constant ? f->constants : known))
            continue;
        memory_free(list);
        return damaged(r, "a call reads an array that is not there before it"), NULL;
    }
    return list;
}

static zl_array read_placeholder(struct reader *r) {
    struct array_spec spec;
    int64_t *dim;
    zl_array a = NULL;
    if (take_kind(r, &spec, &dim))
        a = trace_placeholder(spec.dtype, spec.ndim, dim,
                              "zl_import: an input of a function in a file has no data");
    memory_free(dim);
    return a;
}

static bool read_inputs(struct reader *r, struct function_inputs *f) {
    int count = take_count(r, 5);
    int named = (int)take(r, 4);
    if (r->failed || named < 0 || named > count)
        return damaged(r, "more names than inputs");
    if (!function_inputs_make(f, count, named))
        return false;
    for (int i = 0; i < count; i++)
        if (!(f->array[i] = zl_retain(read_placeholder(r))))
            return false;
    for (int i = 0; i < named; i++)
        if (!(f->name[i] = take_string(r)))
            return false;
    return true;
}

// Puts the arguments into the order of our op's fields, and translates the numbers of dtypes.
static bool order_arguments(struct reader *r, const struct file_op *o, int args, const int64_t *from,
                            int64_t *to) {
    int fields = o->op->fields;
    bool has_list = fields && o->op->field[fields - 1].type == FIELD_LIST;
    if (has_list ? args < fields - 1 : args != fields)
        return damaged(r, "a call with another number of arguments than its op has");
    for (int i = 0; i < args; i++) {
        int64_t word = from[i < fields - has_list ? o->field[i] : i];
        bool is_dtype = i < fields && o->op->field[i].type == FIELD_DTYPE;
        if (is_dtype && (word < 0 || word >= r->dtypes))
            return damaged(r, "a dtype that is not in its table");
        to[i] = is_dtype ? (int64_t)r->dtype[word] : word;
    }
    return true;
}

// Makes a call without data, whose outputs are those in the file.
static zl_array make_template(const struct op *op, int inputs, const zl_array *in, int args,
                              const int64_t *arg, struct reader *r) {
    int outputs = take_count(r, 5), made = 0;
    struct array_spec *spec = r->failed || !outputs ? NULL : memory_alloc(sizeof *spec * (size_t)outputs);
    int64_t **dim = spec ? memory_zero(sizeof *dim * (size_t)outputs) : NULL;
    while (dim && made < outputs && take_kind(r, &spec[made], &dim[made]))
        made++;
    bool fits = inputs <= UINT16_MAX && args <= UINT16_MAX && outputs <= UINT16_MAX;
    zl_array first = NULL;
    if (dim && made == outputs && (fits || damaged(r, "a call is too long")))
        first = graph_call(op, inputs, in, args, arg, outputs, spec);
    else if (!outputs)
        damaged(r, "a call without results");
    for (int i = 0; dim && i < outputs; i++)
        memory_free(dim[i]);
    memory_free(dim);
    memory_free(spec);
    return first;
}

static zl_array read_template(struct reader *r, const struct file_op *o, int inputs, const zl_array *in) {
    int args = take_count(r, 8);
    OP_TEMP(int64_t, arg, 2 * (int64_t)args);
    for (int i = 0; arg && i < args; i++)
        arg[args + i] = (int64_t)take(r, 8);
    if (!arg || r->failed || !order_arguments(r, o, args, arg + args, arg))
        return NULL;
    return make_template(o->op, inputs, in, args, arg, r);
}

static bool read_step(struct reader *r, const zl_imported *f, struct step *s, struct values *v, int *cap) {
    uint64_t op = take(r, 4);
    int inputs;
    if (r->failed || op >= (unsigned)r->ops)
        return damaged(r, "a call of an op that is not in its table");
    s->reference = read_references(r, f, v->count, &inputs);
    OP_TEMP(zl_array, in, inputs);
    if (!s->reference || !in)
        return false;
    for (int i = 0; i < inputs; i++)
        in[i] = value_of(f, v, s->reference[i]);
    s->first = zl_retain(read_template(r, &r->op[op], inputs, in));
    if (!s->first || !memory_grow(&v->array, cap, v->count + s->first->call->outputs, sizeof *v->array))
        return false;
    for (int i = 0; i < s->first->call->outputs; i++)
        v->array[v->count++] = call_output(s->first->call, i);
    return true;
}

static bool read_steps(struct reader *r, const zl_imported *f, struct traced *t) {
    struct values v = {0};
    int steps = take_count(r, 16), cap = 0;
    t->step = r->failed ? NULL : memory_zero(sizeof *t->step * ((size_t)steps + 1));
    bool ok = t->step && memory_grow(&v.array, &cap, t->inputs.count + 1, sizeof *v.array);
    for (; ok && v.count < t->inputs.count; v.count++)
        v.array[v.count] = t->inputs.array[v.count];
    while (ok && t->steps < steps)
        ok = read_step(r, f, &t->step[t->steps++], &v, &cap);
    t->arrays = v.count;
    memory_free(v.array);
    return ok && (t->result = read_references(r, f, v.count, &t->results));
}

// Replaying -------------------------------------------------------------------------------------------------

// Returns whether the outputs of a call have the shapes that the file states. If not, returns false with an
// error.
static bool has_shapes(const struct call *c, const zl_array *out) {
    for (int i = 0; i < c->outputs; i++) {
        zl_array y = call_output(c, i);
        if (!shape_equal(y->ndim, y->dim, out[i]->ndim, out[i]->dim))
            return error_false(ZL_ERROR_VALUE, "%s: %s gives shape %s, where the file says %s", function,
                               c->op->name, array_text(out[i]), array_text(y));
    }
    return true;
}

static bool replay_step(const zl_imported *f, const struct step *s, struct values *v, bool exact) {
    const struct call *c = s->first->call;
    OP_TEMP(zl_array, in, c->inputs);
    if (!in)
        return false;
    for (int i = 0; i < c->inputs; i++)
        in[i] = value_of(f, v, s->reference[i]);
    zl_array *out = v->array + v->count;
    v->count += c->outputs;
    return op_replay("zl_imported_call", c, in, out) && (!exact || has_shapes(c, out));
}

// Replays a trace. Input i is in[order[i]], or in[i] if order is NULL.
static bool replay(const zl_imported *f, const struct traced *t, const zl_array *in, const int *order,
                   bool exact, zl_outputs *out) {
    struct values v = {.array = memory_alloc(sizeof *v.array * ((size_t)t->arrays + 1))};
    for (; v.array && v.count < t->inputs.count; v.count++)
        v.array[v.count] = in[order ? order[v.count] : v.count];
    bool ok = v.array;
    for (int i = 0; ok && i < t->steps; i++)
        ok = replay_step(f, &t->step[i], &v, exact);
    for (int i = 0; ok && i < t->results; i++)
        ok = zl_give(out, value_of(f, &v, t->result[i]));
    memory_free(v.array);
    return ok;
}

// The file --------------------------------------------------------------------------------------------------

static bool read_trace(struct reader *r, const zl_imported *f, struct traced *t) {
    zl_outputs out = {0};
    bool ok =
        read_inputs(r, &t->inputs) && read_steps(r, f, t) && replay(f, t, t->inputs.array, NULL, true, &out);
    outputs_clear(&out);
    return ok;
}

static bool read_traces(struct reader *r, zl_imported *f) {
    int count = take_count(r, 16);
    f->trace = r->failed ? NULL : memory_zero(sizeof *f->trace * ((size_t)count + 1));
    while (f->trace && f->traces < count)
        if (!read_trace(r, f, &f->trace[f->traces++]))
            return false;
    return f->trace && (r->at == r->end || damaged(r, "something follows its end"));
}

static bool read_structure(struct reader *r, zl_imported *f) {
    int bytes;
    take_text(r, &bytes); // the name of the library that wrote it
    f->shapeless = take(r, 1);
    f->metadata = take_string(r);
    return f->metadata && read_dtypes(r) && read_ops(r) && read_constants(r, f) && read_traces(r, f);
}

// Checks the header against the structure, and sets the bounds of structure and data.
static bool read_header(struct reader *r, const uint8_t *file, size_t bytes) {
    char digest[FUNCTION_DIGEST + 1];
    *r = (struct reader){.path = r->path, .at = file, .end = file + MIN_OF(bytes, FUNCTION_HEADER)};
    if (bytes < FUNCTION_HEADER || memcmp(file, FUNCTION_MAGIC, 8))
        return error_false(ZL_ERROR_IO, "%s: %s is not a function that zl_export wrote", function, r->path);
    r->at += 8;
    unsigned version = (unsigned)take(r, 4);
    if (version != FUNCTION_VERSION)
        return error_false(ZL_ERROR_VALUE,
                           "%s: %s has version %u of the format: this version of the library reads %d",
                           function, r->path, version, FUNCTION_VERSION);
    r->at += 4;
    uint64_t length = take(r, 8);
    if (length > bytes - FUNCTION_HEADER)
        return damaged(r, "it ends too early");
    hash_sha256(file + FUNCTION_HEADER, (size_t)length, digest);
    if (memcmp(digest, r->at, FUNCTION_DIGEST))
        return damaged(r, "its checksum is not that of what it holds");
    size_t data = function_align(FUNCTION_HEADER + (size_t)length);
    r->at = file + FUNCTION_HEADER;
    r->end = r->at + length;
    r->data = file + MIN_OF(data, bytes);
    r->data_bytes = bytes - MIN_OF(data, bytes);
    return true;
}

zl_imported *function_read(const char *path, const uint8_t *file, size_t bytes) {
    struct reader r = {.path = path};
    zl_imported *f = memory_zero(sizeof *f);
    zl_scope scope = zl_scope_begin();
    bool ok = f && read_header(&r, file, bytes) && read_structure(&r, f);
    zl_scope_end(scope);
    memory_free(r.dtype);
    memory_free(r.op);
    if (ok)
        return f;
    zl_imported_free(f);
    return NULL;
}

zl_imported *zl_import(const char *path) {
    size_t bytes;
    if (!path)
        return error_set(ZL_ERROR_VALUE, "%s: no path", function);
    bool is_first = !zl_error();
    char *file = file_read_most(path, allocator_available(), &bytes);
    zl_imported *f = file ? function_read(path, (const uint8_t *)file, bytes) : NULL;
    memory_free(file);
    if (!f && is_first)
        error_name(function);
    return f;
}

static void free_trace(struct traced *t) {
    for (int i = t->steps - 1; i >= 0; i--) {
        zl_release(t->step[i].first);
        memory_free(t->step[i].reference);
    }
    function_inputs_free(&t->inputs);
    memory_free(t->step);
    memory_free(t->result);
}

void zl_imported_free(zl_imported *f) {
    if (!f)
        return;
    for (int i = 0; i < f->traces; i++)
        free_trace(&f->trace[i]);
    for (int i = 0; f->constant && i < f->constants; i++)
        zl_release(f->constant[i]);
    memory_free(f->trace);
    memory_free(f->constant);
    memory_free(f->metadata);
    memory_free(f);
}

const char *zl_imported_metadata(const zl_imported *f) {
    return f ? f->metadata : "";
}

// Calling ---------------------------------------------------------------------------------------------------

static bool no_match(const zl_imported *f, int count, const zl_array *in, int named,
                     const char *const *name) {
    struct text list = {0};
    function_inputs_text(&list, count, in, named, name);
    text_add(&list, ": the function takes%s", f->shapeless ? ", of any sizes," : "");
    for (int i = 0; i < f->traces && i < 8; i++) {
        const struct function_inputs *t = &f->trace[i].inputs;
        text_add(&list, i ? " or " : " ");
        function_inputs_text(&list, t->count, t->array, t->named, (const char *const *)t->name);
    }
    if (!list.failed)
        error_set(ZL_ERROR_VALUE, "zl_imported_call: no trace for inputs %s", list.data);
    text_free(&list);
    return false;
}

static bool call(const zl_imported *f, int count, const zl_array *in, int named, const char *const *name,
                 zl_outputs *out) {
    OP_TEMP(int, order, count);
    for (int i = 0; order && i < f->traces; i++)
        if (function_inputs_match(&f->trace[i].inputs, f->shapeless, count, in, named, name, order))
            return replay(f, &f->trace[i], in, order, false, out);
    return order && no_match(f, count, in, named, name);
}

bool zl_imported_call(const zl_imported *f, int count, const zl_array *in, int named, const char *const *name,
                      zl_outputs *out) {
    static const char caller[] = "zl_imported_call";
    if (!f || !out || out->count)
        return error_false(ZL_ERROR_VALUE, "%s: no %s", caller,
                           f ? "empty list for the results" : "function");
    if (!trace_check_list(caller, count, in) || !function_check_names(caller, count, named, name))
        return false;
    zl_scope scope = zl_scope_begin();
    bool ok = call(f, count, in, named, name, out);
    zl_scope_end(scope);
    if (!ok)
        outputs_clear(out);
    return ok;
}
