// interpret.c - runs kernels on the host, slowly and exactly: the reference that renderers are compared with.
//
// Blocks of a grid and points of a map run in order. Asynchronous statements run at once, so waits do
// nothing.

#include "tile/interpret.h"

#include "tile/syntax.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool run_block(struct machine *m, const struct tile_stmt *body);

bool machine_fail(struct machine *m, const char *format, ...) {
    char message[256];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    const char *file = m->kernel->file ? m->kernel->file : m->kernel->name;
    tile_error_at(ZL_ERROR_VALUE, file, m->kernel->source, m->at ? m->at->place : (struct tile_place){0},
                  "%s: %s", m->at ? tile_stmt_name(m->at->kind) : "kernel", message);
    m->failed = true;
    return false;
}

// Memory ----------------------------------------------------------------------------------------------------

union tile_value machine_read(struct tile_type type, const char *at) {
    uint64_t bits = 0;
    switch (tile_type_bytes(type)) { // little-endian
    case 1: memcpy(&bits, at, 1); break;
    case 2: memcpy(&bits, at, 2); break;
    case 4: memcpy(&bits, at, 4); break;
    default: memcpy(&bits, at, 8);
    }
    return tile_value_of(type, bits);
}

void machine_write(struct tile_type type, char *at, union tile_value value) {
    uint64_t bits = tile_bits_of(type, value);
    memcpy(at, &bits, (size_t)tile_type_bytes(type));
}

bool machine_find(const struct machine *m, const struct tile_buffer *buffer, const int64_t *index,
                  char **at) {
    const struct cells *cells = &m->cells[buffer->id];
    int64_t offset = 0;
    for (int i = 0; i < buffer->ndim; i++) {
        if (index[i] < 0 || index[i] >= cells->shape[i])
            return false;
        offset += index[i] * cells->stride[i];
    }
    *at = cells->data + offset * tile_type_bytes(buffer->type);
    return cells->data;
}

static bool fail_outside(struct machine *m, const struct tile_buffer *buffer, const int64_t *index) {
    struct text text = {0};
    for (int i = 0; i < buffer->ndim; i++)
        text_add(&text, "%s%" PRId64, i ? ", " : "", index[i]);
    text_add(&text, "] is outside of [");
    for (int i = 0; i < buffer->ndim; i++)
        text_add(&text, "%s%" PRId64, i ? ", " : "", m->cells[buffer->id].shape[i]);
    bool known = m->cells[buffer->id].data;
    machine_fail(m, known ? "%s[%s]: mask it" : "%s has no memory", buffer->text, text.data ? text.data : "");
    text_free(&text);
    return false;
}

// Expressions -----------------------------------------------------------------------------------------------

static union tile_value look_up(void *data, expr e, const int64_t *index) {
    struct machine *m = data;
    char *at;
    if (e->op != TILE_LOAD) // only in sizes: other tapes get the values of names as an array
        return m->name[e->name->id];
    if (machine_find(m, e->buffer, index, &at))
        return machine_read(e->type, at);
    if (!m->failed)
        fail_outside(m, e->buffer, index);
    return (union tile_value){.u = 0};
}

static bool run_tape(struct machine *m, struct tile_tape *tape, union tile_value *out) {
    tile_tape_run(tape, m->name, look_up, m, out);
    return !m->failed;
}

// Returns the tape of a statement or of a list of sizes; NULL if it was not made yet.
static struct tile_tape *known_tape(struct machine *m, const void *of) {
    size_t place = (uintptr_t)of / sizeof(struct tile_stmt) % COUNT(m->recent);
    if (UNLIKELY(m->recent[place].of != of)) {
        m->recent[place].of = of;
        m->recent[place].tape = map_get(&m->tapes, &of, sizeof of);
    }
    return m->recent[place].tape;
}

static struct tile_tape *make_tape(struct machine *m, const void *of, int roots, const expr *root) {
    struct tile_tape *tape = tile_tape(roots, root);
    m->recent[(uintptr_t)of / sizeof(struct tile_stmt) % COUNT(m->recent)].of = NULL;
    if (tape && map_set(&m->tapes, &of, sizeof of, tape))
        return tape;
    tile_tape_free(tape);
    m->failed = true;
    return NULL;
}

static struct tile_tape *tape_of(struct machine *m, const struct tile_stmt *s) {
    struct tile_tape *tape = known_tape(m, s);
    expr root[TILE_STMT_EXPRS];
    return LIKELY(tape) ? tape : make_tape(m, s, tile_stmt_exprs(s, root), root);
}

// Computes the sizes or strides of a buffer. Fails if one of them wraps around.
static bool evaluate_sizes(struct machine *m, const struct tile_buffer *b, const expr *list, int64_t *out) {
    union tile_value value[TILE_DIMS];
    if (!b->ndim)
        return true;
    struct tile_tape *tape = known_tape(m, list);
    int which = 0;
    if (!tape && !(tape = make_tape(m, list, b->ndim, list)))
        return false;
    bool good = tile_tape_run_exactly(tape, look_up, m, value, &which) || m->failed ||
                machine_fail(m, "a size of '%s' does not fit into %d bits", b->text, list[which]->type.bits);
    for (int i = 0; i < b->ndim && good; i++)
        out[i] = value[i].i;
    return good && !m->failed;
}

static const union tile_value *take(const union tile_value *from, const expr *list, int count, int64_t *to) {
    for (int i = 0; list && i < count; i++)
        to[i] = (from++)->i;
    return from;
}

// The values of the tape come in the order of tile_stmt_exprs.
bool machine_evaluate(struct machine *m, const struct tile_stmt *s, struct operands *out) {
    union tile_value value[TILE_STMT_EXPRS];
    struct tile_tape *tape = tape_of(m, s);
    if (!tape || !run_tape(m, tape, value))
        return false;
    const union tile_value *at = take(value, s->index, s->indices, out->index);
    at = take(at, s->extent, s->indices, out->extent);
    if (s->value)
        out->value = *at++;
    if (s->mask)
        out->mask = *at++;
    if (s->begin)
        out->begin = (at++)->i;
    if (s->step)
        out->step = (at++)->i;
    for (int i = 0; i < 3; i++) {
        if (!s->region[i].buffer)
            continue;
        int ndim = s->region[i].buffer->ndim;
        memset(out->origin[i], 0, sizeof out->origin[i]);
        at = take(at, s->region[i].origin, ndim, out->origin[i]);
        at = take(at, s->region[i].extent, ndim, out->size[i]);
    }
    return true;
}

// Buffers ---------------------------------------------------------------------------------------------------

// Computes the sizes and strides of a buffer, and its size in bytes.
static bool measure(struct machine *m, const struct tile_buffer *b) {
    struct cells *cells = &m->cells[b->id];
    struct text why = {0};
    if (!evaluate_sizes(m, b, b->shape, cells->shape) ||
        (b->stride && !evaluate_sizes(m, b, b->stride, cells->stride)))
        return false;
    bool good = tile_span(b, cells->shape, b->stride ? cells->stride : NULL, &cells->bytes, &why);
    if (!good)
        machine_fail(m, "%s", why.data ? why.data : "there is no memory");
    text_free(&why);
    int64_t dense = 1;
    for (int i = b->ndim - 1; good && !b->stride && i >= 0; i--) {
        cells->stride[i] = dense;
        dense *= MAX_OF(cells->shape[i], 1);
    }
    return good;
}

static bool run_view(struct machine *m, const struct tile_buffer *b) {
    const struct cells *base = &m->cells[b->base->id];
    struct cells *cells = &m->cells[b->id];
    cells->data = base->data;
    return cells->bytes <= base->bytes ||
           machine_fail(m, "'%s' has %" PRId64 " bytes and '%s', whose memory it is, %" PRId64, b->text,
                        cells->bytes, b->base->text, base->bytes);
}

static bool run_alloc(struct machine *m, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    struct cells *cells = &m->cells[b->id];
    if (!measure(m, b))
        return false;
    if (b->base)
        return run_view(m, b);
    if (cells->is_owned)
        memory_free(cells->data);
    cells->data = memory_zero((size_t)MAX_OF(cells->bytes, 1));
    cells->is_owned = true;
    return cells->data;
}

static bool bind_parameters(struct machine *m, void *const *buffers) {
    for (int i = 0; i < m->kernel->parameters; i++) {
        const struct tile_parameter *p = &m->kernel->parameter[i];
        if (p->is_scalar) {
            m->name[p->scalar->id] = machine_read(p->scalar->type, buffers[i]);
            continue;
        }
        m->cells[p->buffer->id].data = buffers[i];
        if (!measure(m, p->buffer))
            return false;
    }
    return true;
}

// Combining values ------------------------------------------------------------------------------------------

bool combiner_open(struct combiner *c, enum tile_op op, struct tile_type type) {
    *c = (struct combiner){0};
    tile_begin("combine");
    expr a = tile_name_value(tile_name("a", type), TILE_LOCAL),
         b = tile_name_value(tile_name("b", type), TILE_LOCAL);
    expr result = tile_binary(op, a, b);
    c->kernel = tile_end();
    c->tape = c->kernel ? tile_tape(1, &result) : NULL;
    return c->tape;
}

union tile_value combiner_run(struct combiner *c, union tile_value a, union tile_value b) {
    union tile_value out;
    c->arg[0] = a;
    c->arg[1] = b;
    tile_tape_run(c->tape, c->arg, NULL, NULL, &out);
    return out;
}

void combiner_close(struct combiner *c) {
    tile_tape_free(c->tape);
    tile_free(c->kernel);
}

// Statements ------------------------------------------------------------------------------------------------

static bool run_store(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    char *at;
    struct combiner combine;
    if (s->old)
        m->name[s->old->id] = tile_value_of(s->old->type, 0);
    if (s->mask && !o->mask.b)
        return true;
    if (!machine_find(m, s->buffer, o->index, &at))
        return fail_outside(m, s->buffer, o->index);
    union tile_value value = o->value;
    if (s->kind == TILE_ATOMIC) {
        bool good = combiner_open(&combine, s->combine, s->buffer->type);
        union tile_value old = machine_read(s->buffer->type, at);
        if (good)
            value = combiner_run(&combine, old, value);
        if (s->old)
            m->name[s->old->id] = old;
        combiner_close(&combine);
        if (!good)
            return false;
    }
    machine_write(s->buffer->type, at, value);
    return true;
}

// Runs all points of a map or grid; the last name varies fastest.
static bool run_points(struct machine *m, const struct tile_stmt *s, const struct operands *o, int axis) {
    if (axis == s->indices)
        return run_block(m, s->body);
    for (int64_t i = 0; i < o->extent[axis]; i++) {
        m->name[s->name[axis]->id].i = i;
        if (!run_points(m, s, o, axis + 1))
            return false;
    }
    return true;
}

static bool run_for(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    if (o->step == 0)
        return machine_fail(m, "the step is 0");
    int64_t i = o->begin;
    while (o->step > 0 ? i < o->extent[0] : i > o->extent[0]) {
        m->name[s->name[0]->id].i = i;
        if (!run_block(m, s->body))
            return false;
        if (m->broke || __builtin_add_overflow(i, o->step, &i))
            break;
    }
    m->broke = false;
    return true;
}

static bool run_while(struct machine *m, const struct tile_stmt *s) {
    struct operands o;
    while (!m->broke && machine_evaluate(m, s, &o) && o.mask.b)
        if (!run_block(m, s->body))
            return false;
    m->broke = false;
    return !m->failed;
}

static bool run_message(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    struct text text = {0};
    if (s->kind == TILE_ASSERT)
        return o->mask.b || machine_fail(m, "%s", s->message ? s->message : "it does not hold");
    if (s->value)
        tile_print_const(&text, s->value->type, tile_bits_of(s->value->type, o->value), true);
    log_line(ZL_LOG_INFO, "%s: %s %s", m->kernel->name, s->message ? s->message : "",
             text.data ? text.data : "");
    text_free(&text);
    return true;
}

static bool run_evaluated(struct machine *m, const struct tile_stmt *s, const struct operands *o) {
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: return run_store(m, s, o);
    case TILE_ASSIGN: m->name[s->name[0]->id] = o->value; return true;
    case TILE_MAP:
    case TILE_GRID: return run_points(m, s, o, 0);
    case TILE_THREAD: return machine_threads(m, s, o);
    case TILE_FOR: return run_for(m, s, o);
    case TILE_IF: return run_block(m, o->mask.b ? s->body : s->other);
    case TILE_COPY: return machine_copy(m, s, o);
    case TILE_FILL: return machine_fill(m, s, o);
    case TILE_IM2COL: return machine_im2col(m, s, o);
    case TILE_REDUCE: return machine_reduce(m, s, o);
    case TILE_SCAN: return machine_scan(m, s, o);
    case TILE_GEMM: return machine_gemm(m, s, o);
    case TILE_ASSERT:
    case TILE_PRINT: return run_message(m, s, o);
    default: return true; // wait, barrier
    }
}

static bool run_stmt(struct machine *m, const struct tile_stmt *s) {
    struct operands o;
    m->at = s;
    if (s->kind == TILE_BREAK)
        return m->broke = true;
    if (s->kind == TILE_ALLOC)
        return run_alloc(m, s);
    if (s->kind == TILE_WHILE)
        return run_while(m, s);
    if (s->kind == TILE_COMMAND)
        return machine_fail(m, "%s is a function of a chip, and the interpreter is none", s->message);
    return machine_evaluate(m, s, &o) && run_evaluated(m, s, &o);
}

bool machine_run(struct machine *m, const struct tile_stmt *from, const struct tile_stmt *end) {
    for (const struct tile_stmt *s = from; s != end && !m->broke; s = s->next)
        if (!run_stmt(m, s))
            return false;
    return true;
}

static bool run_block(struct machine *m, const struct tile_stmt *body) {
    return machine_run(m, body, NULL);
}

// Kernels ---------------------------------------------------------------------------------------------------

static void free_tape(const void *key, size_t bytes, void *value, void *data) {
    (void)key, (void)bytes, (void)data;
    tile_tape_free(value);
}

static void close_machine(struct machine *m) {
    for (int i = 0; m->cells && i < m->kernel->buffers; i++)
        if (m->cells[i].is_owned)
            memory_free(m->cells[i].data);
    map_each(&m->tapes, free_tape, NULL);
    map_free(&m->tapes);
    memory_free(m->cells);
    memory_free(m->name);
}

bool tile_interpret(const struct tile_kernel *kernel, void *const *buffers, const int64_t *symbol_values) {
    struct machine m = {.kernel = kernel};
    struct tile_sizes *sizes = tile_sizes_open(kernel);
    m.cells = memory_zero((size_t)(kernel->buffers + 1) * sizeof *m.cells);
    m.name = memory_zero((size_t)(kernel->names + 1) * sizeof *m.name);
    bool good = m.cells && m.name && sizes && tile_sizes_check(sizes, symbol_values);
    tile_sizes_close(sizes);
    for (int i = 0; i < kernel->symbols && good; i++)
        m.name[kernel->symbol[i]->id].i = symbol_values[i];
    good = good && bind_parameters(&m, buffers) && run_block(&m, kernel->body);
    close_machine(&m);
    return good;
}
