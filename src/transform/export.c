// export.c - zl_exporter: traces a function and writes what it recorded to a file.
//
// The file lists the calls between inputs and results. Calls that the results do not need are left out. So
// are calls of functions with rules of their own: the calls inside such a function stand in their place.
// Arrays without a history are constants, each stored once for all traces that use it.

#include <string.h>

#include "transform/function_file.h"

struct constant {
    zl_array array, dense; // as the function uses it, and row-major; retained
    char digest[FUNCTION_DIGEST + 1];
};

struct zl_exporter_ {
    char *path, *metadata;
    zl_fn f;
    bool shapeless;
    struct text traces;
    struct function_inputs *inputs; // of each trace
    int count, cap;
    const struct op **op; // by number in the file
    int ops, op_cap;
    struct constant *constant; // by number in the file
    int constants, constant_cap;
    struct map numbers; // numbers of ops and constants plus one, by address
};

// Numbers and texts -----------------------------------------------------------------------------------------

static void put(struct text *out, uint64_t value, int bytes) {
    char byte[8];
    for (int i = 0; i < bytes; i++)
        byte[i] = (char)(value >> (8 * i) & 0xff);
    text_bytes(out, byte, bytes);
}

static void put_count(struct text *out, int64_t count) {
    put(out, (uint64_t)count, 4);
}

static void put_text(struct text *out, const char *value) {
    int bytes = (int)strlen(value);
    put_count(out, bytes);
    text_bytes(out, value, bytes);
}

static void put_kind(struct text *out, zl_array a) {
    put(out, a->dtype, 1);
    put_count(out, a->ndim);
    for (int i = 0; i < a->ndim; i++)
        put(out, (uint64_t)a->dim[i], 8);
}

// Tables ----------------------------------------------------------------------------------------------------

// Returns the number of the entry for an address; a new one gets the number `next`. Returns -1 if memory runs
// out.
static int number_of(struct zl_exporter_ *e, const void *address, int next) {
    uintptr_t known = (uintptr_t)map_get(&e->numbers, &address, sizeof address);
    if (known)
        return (int)known - 1;
    return map_set(&e->numbers, &address, sizeof address, (void *)(uintptr_t)(next + 1)) ? next : -1;
}

static int number_op(struct zl_exporter_ *e, const struct op *op) {
    if (!memory_grow(&e->op, &e->op_cap, e->ops + 1, sizeof *e->op))
        return -1;
    if (op_find(op->name, strlen(op->name)) != op) {
        error_set(ZL_ERROR_VALUE, "zl_exporter_trace: %s cannot be exported: it cannot be found by its name",
                  op->name);
        return -1;
    }
    int number = number_of(e, op, e->ops);
    if (number == e->ops)
        e->op[e->ops++] = op;
    return number;
}

// Evaluates a constant, and reads its data in row-major order.
static bool read_constant(struct constant *c, zl_array a) {
    zl_array dense = array_is(a, ARRAY_INLINE) ? a : zl_contiguous(a, false);
    const void *data = dense ? zl_data(dense) : NULL;
    if (!dense || (!data && dense->size))
        return false;
    *c = (struct constant){.array = zl_retain(a), .dense = zl_retain(dense)};
    if (!array_is(a, ARRAY_INLINE))
        hash_sha256(data, zl_nbytes(dense), c->digest);
    return true;
}

static int number_constant(struct zl_exporter_ *e, zl_array a) {
    if (!memory_grow(&e->constant, &e->constant_cap, e->constants + 1, sizeof *e->constant))
        return -1;
    uintptr_t known = (uintptr_t)map_get(&e->numbers, &a, sizeof a);
    if (known)
        return (int)known - 1;
    if (!read_constant(&e->constant[e->constants], a))
        return -1;
    e->constants++;
    return number_of(e, a, e->constants - 1);
}

static void put_constant(struct text *out, const struct constant *c, size_t *offset) {
    zl_array a = c->dense;
    bool is_number = array_is(a, ARRAY_INLINE);
    uint64_t word;
    put(out, !is_number ? CONSTANT_DATA : array_is(a, ARRAY_WEAK) ? CONSTANT_WEAK : CONSTANT_NUMBER, 1);
    put_kind(out, a);
    if (is_number) {
        memcpy(&word, array_value(a), sizeof word);
        put(out, word, 8);
        return;
    }
    put(out, *offset, 8);
    text_bytes(out, c->digest, FUNCTION_DIGEST);
    *offset += function_align(zl_nbytes(a));
}

static void put_op(struct text *out, const struct op *op) {
    put_text(out, op->name);
    put(out, op->fields, 1);
    for (int i = 0; i < op->fields; i++) {
        put_text(out, op->field[i].name);
        put(out, op->field[i].type, 1);
    }
}

// What a call stands for ------------------------------------------------------------------------------------

// One trace while it is written to the file.
struct listing {
    struct zl_exporter_ *e;
    struct text *out;
    struct walk w;
    bool *live; // by number of the walk: the file needs it
    int *place; // by number of the walk: the number in the file
    int next;
};

// Returns the array inside a function with rules of its own that x passes on, or x itself.
static zl_array unwrapped(zl_array x) {
    while (x->call && !x->call->detached && x->call->op == &op_custom)
        x = x->call->in[x->index];
    return x;
}

static const struct call *made_by(zl_array x, const struct op *op) {
    return x->call && !x->call->detached && x->call->op == op ? x->call : NULL;
}

static const struct call *product_of(zl_array x) {
    const struct call *plain = made_by(x, &op_matmul);
    return plain ? plain : made_by(x, &op_addmm);
}

static bool broadcasts_to(zl_array x, zl_array y) {
    bool fits = x->ndim <= y->ndim;
    for (int i = 0; fits && i < x->ndim; i++)
        fits = x->dim[i] == 1 || x->dim[i] == y->dim[y->ndim - x->ndim + i];
    return fits;
}

// Returns whether y has the shape of the product of the matrices in[0] and in[1] and, with a third input,
// whether that broadcasts to it.
static bool is_product(zl_array y, int inputs, const zl_array *in) {
    zl_array a = in[0], b = in[1];
    OP_TEMP(int64_t, dim, MAX_OF(a->ndim, b->ndim));
    int batch = dim && a->ndim >= 2 && b->ndim >= 2
                    ? shape_broadcast(a->ndim - 2, a->dim, b->ndim - 2, b->dim, dim)
                    : -1;
    if (batch < 0)
        return false;
    dim[batch] = a->dim[a->ndim - 2];
    dim[batch + 1] = b->dim[b->ndim - 1];
    return shape_equal(y->ndim, y->dim, batch + 2, dim) && (inputs < 3 || broadcasts_to(in[2], y));
}

// Returns the call that is written instead of c, and its inputs. A matrix product is recorded with batches
// that are joined or broadcast to the sizes of the trace. If sizes may change, the product is written without
// these steps, as one call on the inputs before them.
static const struct call *meaning(const struct listing *l, const struct call *c, const zl_array **in,
                                  zl_array *before) {
    const struct call *product = c->op == &op_unflatten ? product_of(c->in[0]) : c;
    *in = c->in;
    if (!l->e->shapeless || !product || !op_is_product(product->op))
        return c;
    for (int i = 0; i < product->inputs; i++) {
        const struct call *from = made_by(product->in[i], product == c ? &op_broadcast_to : &op_flatten);
        before[i] = from ? from->in[0] : product->in[i];
    }
    if (!is_product(call_first(c), product->inputs, before))
        return c;
    *in = before;
    return product;
}

static void mark(struct listing *l, zl_array x) {
    int number = walk_number(&l->w, unwrapped(x));
    if (number >= 0)
        l->live[number] = true;
}

static bool is_live(const struct listing *l, int call) {
    bool live = false;
    for (int i = 0; i < l->w.call[call]->outputs; i++)
        live |= l->live[l->w.first[call] + i];
    return live;
}

static int mark_live(struct listing *l, const zl_outputs *results) {
    int count = 0;
    for (int i = 0; i < results->count; i++)
        mark(l, results->item[i]);
    for (int i = l->w.calls - 1; i >= 0; i--) {
        zl_array before[3];
        const zl_array *in;
        if (!is_live(l, i))
            continue;
        count++;
        const struct call *c = meaning(l, l->w.call[i], &in, before);
        for (int k = 0; k < c->inputs; k++)
            mark(l, in[k]);
    }
    return count;
}

// Writing a trace -------------------------------------------------------------------------------------------

static bool put_reference(struct listing *l, zl_array x) {
    x = unwrapped(x);
    int number = walk_number(&l->w, x), constant = number < 0 ? number_constant(l->e, x) : 0;
    if (constant < 0)
        return false;
    put(l->out, number < 0 ? FUNCTION_CONSTANT | (uint32_t)constant : (uint32_t)l->place[number], 4);
    return true;
}

static bool put_references(struct listing *l, int count, const zl_array *x) {
    put_count(l->out, count);
    for (int i = 0; i < count; i++)
        if (!put_reference(l, x[i]))
            return false;
    return true;
}

static bool put_call(struct listing *l, int index) {
    const struct call *c = l->w.call[index];
    zl_array before[3];
    const zl_array *in;
    const struct call *as = meaning(l, c, &in, before);
    int op = number_op(l->e, as->op);
    if (op < 0)
        return false;
    put_count(l->out, op);
    if (!put_references(l, as->inputs, in))
        return false;
    put_count(l->out, as->args);
    for (int i = 0; i < as->args; i++)
        put(l->out, (uint64_t)call_args(as)[i], 8);
    put_count(l->out, c->outputs);
    for (int i = 0; i < c->outputs; i++) {
        put_kind(l->out, call_output(c, i));
        l->place[l->w.first[index] + i] = l->next++;
    }
    return true;
}

static bool put_calls(struct listing *l, const zl_outputs *results) {
    put_count(l->out, mark_live(l, results));
    for (int i = 0; i < l->w.calls; i++)
        if (is_live(l, i) && !put_call(l, i))
            return false;
    return put_references(l, results->count, results->item);
}

static bool put_trace(struct zl_exporter_ *e, const struct function_inputs *f, const zl_outputs *results,
                      struct text *out) {
    struct listing l = {.e = e, .out = out, .w = {.kind = WALK_ALL}};
    put_count(out, f->count);
    put_count(out, f->named);
    for (int i = 0; i < f->count; i++)
        put_kind(out, f->array[i]);
    for (int i = 0; i < f->named; i++)
        put_text(out, f->name[i]);
    bool ok = walk_make(&l.w, f->count, f->array, results->count, results->item);
    l.live = ok ? memory_zero(sizeof *l.live * ((size_t)l.w.arrays + 1)) : NULL;
    l.place = ok ? memory_zero(sizeof *l.place * ((size_t)l.w.arrays + 1)) : NULL;
    for (; l.place && l.next < f->count; l.next++)
        l.place[l.next] = l.next;
    ok = l.live && l.place && put_calls(&l, results) && !out->failed;
    memory_free(l.live);
    memory_free(l.place);
    walk_free(&l.w);
    return ok;
}

// Writing the file ------------------------------------------------------------------------------------------

static void put_structure(const struct zl_exporter_ *e, struct text *out) {
    size_t offset = 0;
    put_text(out, zl_version());
    put(out, e->shapeless, 1);
    put_text(out, e->metadata);
    put_count(out, ZL_DTYPE_COUNT);
    for (int i = 0; i < ZL_DTYPE_COUNT; i++)
        put_text(out, zl_dtype_name((zl_dtype)i));
    put_count(out, e->ops);
    for (int i = 0; i < e->ops; i++)
        put_op(out, e->op[i]);
    put_count(out, e->constants);
    for (int i = 0; i < e->constants; i++)
        put_constant(out, &e->constant[i], &offset);
    put_count(out, e->count);
    text_bytes(out, e->traces.data, e->traces.len);
}

static void put_header(struct text *out, const struct text *structure) {
    char digest[FUNCTION_DIGEST + 1];
    hash_sha256(structure->data, (size_t)structure->len, digest);
    text_bytes(out, FUNCTION_MAGIC, 8);
    put(out, FUNCTION_VERSION, 4);
    put(out, 0, 4);
    put(out, (uint64_t)structure->len, 8);
    text_bytes(out, digest, FUNCTION_DIGEST);
}

// Lists the data of each constant, padded to a multiple of FUNCTION_ALIGN bytes. Returns the number of parts.
static int add_constants(const struct zl_exporter_ *e, struct file_part *part) {
    static const char zeros[FUNCTION_ALIGN];
    int parts = 0;
    for (int i = 0; i < e->constants; i++) {
        zl_array a = e->constant[i].dense;
        size_t bytes = zl_nbytes(a);
        if (array_is(a, ARRAY_INLINE))
            continue;
        part[parts++] = (struct file_part){bytes ? zl_data(a) : zeros, bytes};
        part[parts++] = (struct file_part){zeros, function_align(bytes) - bytes};
    }
    return parts;
}

static bool write_file(const char *function, const struct zl_exporter_ *e) {
    bool is_first = !zl_error();
    struct text structure = {0}, header = {0};
    struct file_part *part = memory_alloc(sizeof *part * (3 + 2 * (size_t)e->constants));
    put_structure(e, &structure);
    bool ok = part && !structure.failed;
    if (ok) {
        static const char zeros[FUNCTION_ALIGN];
        size_t bytes = FUNCTION_HEADER + (size_t)structure.len;
        put_header(&header, &structure);
        part[0] = (struct file_part){header.data, (size_t)header.len};
        part[1] = (struct file_part){structure.data, (size_t)structure.len};
        part[2] = (struct file_part){zeros, function_align(bytes) - bytes};
        ok = !header.failed && file_write_parts(e->path, part, 3 + add_constants(e, part + 3));
    }
    text_free(&structure);
    text_free(&header);
    memory_free(part);
    if (!ok && is_first)
        error_name(function);
    return ok;
}

// Tracing ---------------------------------------------------------------------------------------------------

static const char function[] = "zl_exporter_trace";

static bool make_inputs(struct function_inputs *f, int count, const zl_array *in, int named,
                        const char *const *name) {
    if (!function_inputs_make(f, count, named))
        return false;
    bool ok = true;
    for (int i = 0; ok && i < count; i++)
        ok = (f->array[i] = zl_retain(trace_placeholder(
                  (zl_dtype)in[i]->dtype, in[i]->ndim, in[i]->dim,
                  "zl_exporter_trace: an input of a function that is being exported has no data: what the "
                  "function does with it is recorded for any, so it cannot be read")));
    for (int i = 0; ok && i < named; i++)
        ok = (f->name[i] = memory_copy_text(name[i]));
    return ok;
}

static bool is_new(const zl_exporter *e, int count, const zl_array *in, int named, const char *const *name) {
    OP_TEMP(int, order, count);
    for (int i = 0; order && i < e->count; i++)
        if (function_inputs_match(&e->inputs[i], e->shapeless, count, in, named, name, order))
            return error_false(ZL_ERROR_STATE,
                               "%s: there is a trace for inputs like these: each must be another", function);
    return order;
}

// A trace that fails may leave ops and constants in the tables; no trace in the file refers to them.
static bool add_trace(zl_exporter *e, struct function_inputs *f) {
    struct trace t;
    zl_outputs results = {0};
    int before = e->traces.len;
    trace_begin(&t, function);
    bool outer = recorder.exporting;
    recorder.exporting = true;
    bool ok = memory_grow(&e->inputs, &e->cap, e->count + 1, sizeof *e->inputs) &&
              trace_run(&t, e->f, f->count, f->array, &results) && put_trace(e, f, &results, &e->traces);
    recorder.exporting = outer;
    e->count += ok;
    if (ok && !write_file(function, e)) {
        ok = false;
        e->count--;
    }
    if (ok)
        e->inputs[e->count - 1] = *f;
    else if (!e->traces.failed)
        e->traces.len = before;
    outputs_clear(&results);
    zl_scope_end(t.scope);
    trace_end(&t);
    return ok;
}

bool zl_exporter_trace(zl_exporter *e, int count, const zl_array *in, int named, const char *const *name) {
    if (!e || e->traces.failed)
        return e ? error_false(ZL_ERROR_MEMORY, "%s: memory was out in an earlier trace", function) : false;
    if (!trace_check(function, e->f, count, in) || !function_check_names(function, count, named, name) ||
        !is_new(e, count, in, named, name))
        return false;
    struct function_inputs f;
    zl_scope scope = zl_scope_begin();
    bool ok = make_inputs(&f, count, in, named, name) && add_trace(e, &f);
    zl_scope_end(scope);
    if (!ok)
        function_inputs_free(&f);
    return ok;
}

zl_exporter *zl_exporter_new(const char *path, zl_fn f, const zl_export_options *options) {
    if (!path || !f.call)
        return error_set(ZL_ERROR_VALUE, "zl_exporter_new: no %s", path ? "function to call" : "path");
    zl_exporter *e = memory_zero(sizeof *e);
    if (!e)
        return NULL;
    e->f = f;
    e->shapeless = options && options->shapeless;
    e->path = memory_copy_text(path);
    e->metadata = memory_copy_text(options && options->metadata ? options->metadata : "");
    if (f.retain)
        f.retain(f.data);
    if (e->path && e->metadata && write_file("zl_exporter_new", e))
        return e;
    zl_exporter_free(e);
    return NULL;
}

void zl_exporter_free(zl_exporter *e) {
    if (!e)
        return;
    for (int i = 0; i < e->constants; i++) {
        zl_release(e->constant[i].array);
        zl_release(e->constant[i].dense);
    }
    for (int i = 0; i < e->count; i++)
        function_inputs_free(&e->inputs[i]);
    if (e->f.release)
        e->f.release(e->f.data);
    memory_free(e->constant);
    memory_free(e->inputs);
    memory_free(e->op);
    memory_free(e->path);
    memory_free(e->metadata);
    map_free(&e->numbers);
    text_free(&e->traces);
    memory_free(e);
}

bool zl_export(const char *path, zl_fn f, int count, const zl_array *in, const zl_export_options *options) {
    zl_exporter *e = zl_exporter_new(path, f, options);
    bool ok = zl_exporter_trace(e, count, in, 0, NULL);
    zl_exporter_free(e);
    return ok;
}
