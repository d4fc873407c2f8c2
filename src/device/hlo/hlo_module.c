// hlo_module.c - renders the calls of a segment as the text of a StableHLO module.

#include "device/hlo/hlo.h"

#include "render/render.h"

#include <string.h>

// The values of an array. The tensor of a view is made when something reads it.
struct value {
    struct hlo_tensor tensor, base; // base: the dense array in memory that it views
    bool has_tensor, has_base;
};

struct hlo_module {
    struct hlo_writer writer;
    const struct device *device; // NULL: only to find out whether a call can be rendered
    int unit;
    const struct segment *segment;
    bool foresees;     // inputs need not exist yet: they are expected to be dense and row-major
    int view_call, view_input; // call and input whose view is being made; -1: no input of a call of the
                               // segment
    int call;          // index of the call that is being rendered; -1: a call that another is composed of
    struct map values; // struct value *, by array
    struct arena arena;
    struct hlo_words words;
    struct hlo_sizes sizes;
    struct hlo_program *p;
    struct map storages; // index + 1 of the argument that has each storage
    int argument_cap, source_cap, scalar_cap, result_cap, place_cap;
};

struct hlo_writer *hlo_writer(struct hlo_module *m) {
    return &m->writer;
}

struct hlo_words *hlo_words(struct hlo_module *m) {
    return &m->words;
}

uint64_t hlo_varies(struct hlo_module *m, zl_array x) {
    return hlo_sizes_of(&m->sizes, x);
}

static bool render_call(struct hlo_module *m, const struct call *c);

// Values ----------------------------------------------------------------------------------------------------

static struct value *find_value(struct hlo_module *m, zl_array x) {
    return map_get(&m->values, &x, sizeof x);
}

static struct value *add_value(struct hlo_module *m, zl_array x) {
    struct value *v = arena_alloc(&m->arena, sizeof *v);
    if (!v || !map_set(&m->values, &x, sizeof x, v)) {
        m->writer.failed = true;
        return NULL;
    }
    *v = (struct value){0};
    return v;
}

static void set_tensor(struct hlo_module *m, zl_array x, struct hlo_tensor tensor) {
    struct value *v = add_value(m, x);
    if (v) {
        v->tensor = tensor;
        v->has_tensor = true;
    }
}

static struct hlo_tensor empty(struct hlo_module *m, zl_array x) {
    struct hlo_tensor y = hlo_like(x);
    hlo_emit(m, &y, "stablehlo.constant dense<> : %t", &y);
    return y;
}

// Returns an inline scalar that a call reads as a dtype. Its value is set when the program runs.
static struct hlo_tensor scalar(struct hlo_module *m, int input, zl_dtype dtype) {
    struct hlo_program *p = m->p;
    struct hlo_tensor x;
    int word = hlo_word_later(m, dtype, &x);
    if (word >= 0 && memory_grow(&p->scalar, &m->scalar_cap, p->scalars + 1, sizeof *p->scalar))
        p->scalar[p->scalars++] = (struct hlo_scalar){m->call, input, word, dtype};
    else
        m->writer.failed = true;
    return x;
}

// Returns a number of an op's composition. It may depend on an argument of the op, such as a position.
static struct hlo_tensor own_number(struct hlo_module *m, zl_array x, zl_dtype dtype) {
    uint64_t bits = 0;
    scalar_write(x, dtype, &bits);
    return hlo_word(m, dtype, bits);
}

static struct hlo_tensor inline_value(struct hlo_module *m, zl_array x, int input, zl_dtype dtype) {
    return m->call < 0 ? own_number(m, x, dtype) : scalar(m, input, dtype);
}

static bool add_source(struct hlo_module *m, int argument, int input) {
    struct hlo_program *p = m->p;
    bool ok = memory_grow(&p->source, &m->source_cap, p->sources + 1, sizeof *p->source);
    if (ok)
        p->source[p->sources++] = (struct hlo_source){.argument = argument, .call = m->call, .input = input};
    return ok;
}

// Returns the array that a view which does not exist yet will be a view of.
static zl_array shown_by(zl_array x) {
    while (x->call && !x->call->detached && x->call->op->kind == OP_VIEW && !x->storage)
        x = x->call->in[x->index];
    return x;
}

// Returns whether both arrays exist, in one storage.
static bool lie_together(zl_array a, zl_array b) {
    return a->storage && a->storage == b->storage;
}

bool hlo_depends(struct hlo_module *m, zl_array y, zl_array x) {
    zl_array from = shown_by(x);
    struct map made = {0};                  // arrays that are computed from x
    bool ok = m->call >= 0, depends = true; // of the inputs of a composition, nothing is known
    ok = ok && map_set(&made, &from, sizeof from, from);
    for (int i = 0; i < m->call && ok; i++) {
        const struct call *c = m->segment->call[i];
        bool reads = false;
        for (int k = 0; k < c->inputs; k++)
            reads |= map_get(&made, &c->in[k], sizeof c->in[k]) || lie_together(c->in[k], from);
        for (int k = 0; reads && k < c->outputs && ok; k++) {
            zl_array out = call_output(c, k);
            ok = map_set(&made, &out, sizeof out, out);
        }
    }
    if (ok)
        depends = map_get(&made, &y, sizeof y) || lie_together(y, from);
    map_free(&made);
    return depends;
}

// Predicts the form in which device_form will find the base of x. The unit will make it, or the CPU, and then
// it is uploaded in the form of x. Returns false unless it is dense and row-major.
static bool foresee_form(const struct hlo_module *m, zl_array x, zl_dtype *dtype, int *ndim, int64_t *dim) {
    zl_array from = shown_by(x);
    if (!from->call || from->call->detached)
        return false;
    if (!m->device->can(m->unit, from->call) && x->size == from->size)
        from = x;
    bool is_list = from->ndim > x->ndim + 1;
    *dtype = (zl_dtype)from->dtype;
    *ndim = is_list ? 1 : from->ndim;
    memcpy(dim, is_list ? &from->size : from->dim, sizeof *dim * (size_t)*ndim);
    return !from->storage && from->offset == 0 &&
           shape_is_row_major(from->ndim, from->dim, array_stride(from));
}

// Returns the argument that has a storage in this form, or a new one; -1 if memory runs out. Takes over the
// form.
static int find_argument(struct hlo_module *m, zl_array x, struct buffer_form *form) {
    struct hlo_program *p = m->p;
    const void *s = x->storage ? (const void *)x->storage : shown_by(x);
    intptr_t at = (intptr_t)map_get(&m->storages, &s, sizeof s);
    if (form && at && buffer_form_is_equal(p->argument[at - 1].form, form)) {
        memory_free(form);
        return (int)at - 1;
    }
    struct hlo_argument a = {.name = m->writer.names++, .result = -1, .form = form};
    if (!form || !memory_grow(&p->argument, &m->argument_cap, p->arguments + 1, sizeof *p->argument) ||
        !map_set(&m->storages, &s, sizeof s, (void *)(intptr_t)(p->arguments + 1))) {
        memory_free(form);
        return -1;
    }
    p->argument[p->arguments] = a;
    return p->arguments++;
}

// Returns the tensor of an argument. If no sizes vary, what is spare up to its bound is sliced off.
static struct hlo_tensor argument_tensor(struct hlo_module *m, const struct buffer_form *form, int name) {
    struct hlo_tensor y = hlo_type((zl_dtype)form->dtype, form->ndim, form->dim);
    int axis = form->bound.axis;
    if (axis >= 0)
        y.dim[axis] = form->bound.size;
    y.name = name;
    if (axis >= 0 && m->sizes.varied)
        y.real[axis] = hlo_word(m, ZL_INT32, (uint64_t)form->dim[axis]).name + 1;
    return axis >= 0 && !m->sizes.varied ? hlo_cut(m, y, axis, 0, form->dim[axis]) : y;
}

// Chooses the axis that gets a bound above its size, for an array that only the host has, so that the text
// does not depend on its size.
static struct form_bound bound_for(struct hlo_module *m, zl_array x, int ndim, const int64_t *dim) {
    uint64_t varies = hlo_sizes_of(&m->sizes, x);
    struct form_bound none = {.axis = -1};
    if (!varies || !shape_equal(ndim, dim, x->ndim, x->dim) || x->offset || !x->storage->data ||
        atomic_load_explicit(&x->storage->replica, memory_order_acquire) ||
        !shape_is_row_major(x->ndim, x->dim, array_stride(x)))
        return none;
    int axis = __builtin_ctzll(varies);
    bool is_alone = varies == 1ull << axis;
    return is_alone && x->dim[axis] > 1 ? (struct form_bound){axis, hlo_step(x->dim[axis])} : none;
}

// Returns the base of an array from outside of the segment, as an argument.
static struct hlo_tensor argument(struct hlo_module *m, zl_array x, int input) {
    zl_dtype dtype;
    int64_t dim[HLO_RANK];
    int ndim = x->ndim;
    bool is_foreseen = m->foresees && !x->storage && foresee_form(m, x, &dtype, &ndim, dim);
    if (m->call < 0 || (!x->storage && !is_foreseen)) {
        hlo_refuse(m, "an array of shape %s that an op is composed of is not among its inputs",
                   array_text(x));
        return hlo_like(x);
    }
    struct form_bound bound = {.axis = -1};
    if (!is_foreseen) {
        ndim = device_form(m->device, m->unit, x, &dtype, dim, &bound);
        bound = bound.axis < 0 ? bound_for(m, x, ndim, dim) : bound;
    }
    int at = find_argument(m, x, buffer_form_new(dtype, ndim, dim, bound));
    struct value *v = at >= 0 && add_source(m, at, input) ? add_value(m, x) : NULL;
    if (!v) {
        m->writer.failed = true;
        return hlo_type(dtype, ndim, dim);
    }
    v->base = argument_tensor(m, m->p->argument[at].form, m->p->argument[at].name);
    v->has_base = true;
    return v->base;
}

// Returns a tensor with its axes in the order of memory. Axes of size 1, whose strides have no meaning, stay
// in place if all others do, else they come first.
static struct hlo_tensor in_memory_order(struct hlo_module *m, zl_array x, struct hlo_tensor tensor) {
    int64_t axis[HLO_RANK];
    const int64_t *stride = array_stride(x);
    int count = 0, first = 0;
    if (shape_is_row_major(x->ndim, x->dim, stride))
        return tensor;
    for (int i = 0; i < x->ndim; i++)
        if (x->dim[i] == 1)
            axis[count++] = i;
    first = count;
    for (int i = 0; i < x->ndim; i++) {
        int at = count;
        if (x->dim[i] == 1)
            continue;
        for (; at > first && stride[axis[at - 1]] < stride[i]; at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
        count++;
    }
    return hlo_transpose(m, tensor, axis);
}

static struct hlo_tensor base_of(struct hlo_module *m, const struct call *c, int input) {
    zl_array x = c->in[input];
    struct value *v = find_value(m, x);
    bool is_composed = m->call < 0 && x->call && !x->call->detached && !array_is(x, ARRAY_INLINE);
    if (!v && is_composed && render_call(m, x->call))
        v = find_value(m, x);
    if (v && !v->has_base) {
        v->base = in_memory_order(m, x, v->tensor);
        v->has_base = true;
    }
    if (v)
        return v->base;
    if (array_is(x, ARRAY_INLINE))
        return inline_value(m, x, input, (zl_dtype)x->dtype);
    return argument(m, x, input);
}

// Returns an input of a call as a tensor of its shape. A scalar is read as `dtype`.
static struct hlo_tensor value_of(struct hlo_module *m, const struct call *c, int input, zl_dtype dtype) {
    zl_array x = c->in[input];
    if (array_is(x, ARRAY_INLINE))
        return inline_value(m, x, input, dtype);
    if (x->size == 0)
        return empty(m, x);
    struct value *v = find_value(m, x);
    if (v && v->has_tensor)
        return v->tensor;
    struct hlo_tensor base = base_of(m, c, input);
    v = find_value(m, x);
    if (v && v->has_tensor)
        return v->tensor;
    m->view_call = m->call;
    m->view_input = input;
    struct hlo_tensor y = hlo_view_bounded(m, base, (zl_dtype)x->dtype, x->ndim, x->dim, array_stride(x),
                                           x->offset, hlo_sizes_of(&m->sizes, x));
    m->view_call = -1;
    if (v) {
        v->tensor = y;
        v->has_tensor = true;
    }
    return y;
}

// Places ----------------------------------------------------------------------------------------------------

void hlo_is_placed(struct hlo_module *m) {
    if (m->p)
        m->p->is_placed = true;
}

// Notes a position that depends on the offset of an input. Compositions, and views of results of the segment,
// have the same layout in every run.
void hlo_note_place(struct hlo_module *m, struct hlo_place place) {
    struct hlo_program *p = m->p;
    if (!p || m->view_call < 0)
        return;
    place.call = m->view_call;
    place.input = m->view_input;
    if (memory_grow(&p->place, &m->place_cap, p->places + 1, sizeof *p->place))
        p->place[p->places++] = place;
    else
        m->writer.failed = true;
}

static int64_t place_now(const struct hlo_place *at, struct call *const *call) {
    return (call[at->call]->in[at->input]->offset + at->add) % at->above / at->unit;
}

bool hlo_fits(const struct hlo_program *p, struct call *const *call) {
    bool fits = !p->is_placed;
    for (int i = 0; i < p->places && fits; i++)
        fits = place_now(&p->place[i], call) <= p->place[i].most;
    return fits;
}

void hlo_put_places(const struct hlo_program *p, struct call *const *call, uint32_t *word) {
    for (int i = 0; i < p->places; i++) {
        const struct hlo_place *at = &p->place[i];
        int64_t value = place_now(at, call);
        if (at->word >= 0)
            memcpy(word + at->word, &value, at->dtype == ZL_INT64 ? sizeof(int64_t) : sizeof(int32_t));
    }
}

// Calls -----------------------------------------------------------------------------------------------------

static hlo_row *find_row(const struct op *op) {
    static const struct {
        const struct op *op;
        hlo_row *row;
    } rows[] = {
#define ROW(name, function) {&op_##name, function},
#include "device/hlo/hlo_rows.def"
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].op == op)
            return rows[i].row;
    return NULL;
}

static void render_views(struct hlo_module *m, const struct call *c) {
    for (int k = 0; k < c->outputs; k++) {
        zl_array y = call_output(c, k);
        if (array_is(c->in[k], ARRAY_INLINE) && y->ndim == 0 && y->dtype == c->in[k]->dtype) {
            set_tensor(m, y, inline_value(m, c->in[k], k, (zl_dtype)y->dtype));
            continue;
        }
        struct hlo_tensor base = c->in[k]->size ? base_of(m, c, k) : hlo_type(ZL_BOOL, 0, NULL);
        struct value *v = add_value(m, y);
        if (v) {
            v->base = base;
            v->has_base = true;
        }
    }
}

static struct hlo_tensor elementwise(struct hlo_module *m, const struct call *c) {
    zl_dtype dtype = op_computes_in(c);
    zl_array y = call_first(c);
    struct hlo_tensor x[3];
    bool is_bounded = false;
    for (int k = 0; k < c->inputs; k++) {
        x[k] = value_of(m, c, k, c->op->row == TILE_SELECT && k == 0 ? ZL_BOOL : dtype);
        if (c->op->row != TILE_SELECT || k)
            x[k] = hlo_cast(m, x[k], dtype); // a scalar without a dtype of its own, if it was computed
        is_bounded |= hlo_is_bounded(&x[k]);
    }
    for (int k = 0; k < c->inputs && !is_bounded; k++)
        x[k] = hlo_fit(m, x[k], y->ndim, y->dim);
    return hlo_apply(m, c->op->row, c->inputs, x);
}

static struct hlo_tensor reduction(struct hlo_module *m, const struct call *c) {
    zl_array y = call_first(c);
    struct hlo_tensor x = value_of(m, c, 0, (zl_dtype)c->in[0]->dtype);
    return hlo_reshape(m, hlo_reduce(m, c->op->row, x, c->args, call_args(c)), y->ndim, y->dim);
}

static bool render_row(struct hlo_module *m, const struct call *c, hlo_row *row) {
    struct hlo_tensor in[HLO_OPERANDS], out[HLO_OPERANDS];
    if (c->inputs > HLO_OPERANDS || c->outputs > HLO_OPERANDS)
        return hlo_refuse(m, "%s: %d inputs are too many", c->op->name, c->inputs);
    for (int k = 0; k < c->inputs; k++)
        in[k] = value_of(m, c, k, (zl_dtype)c->in[k]->dtype);
    if (!row(m, c, in, out))
        return false;
    for (int k = 0; k < c->outputs; k++)
        set_tensor(m, call_output(c, k), out[k]);
    return true;
}

// Makes an array that stands for an input of a call while the call is rendered as a composition of others.
// Every input gets its own, even if the call has the same array twice.
static zl_array stand_in(struct hlo_module *m, const struct call *c, int input) {
    zl_array x = c->in[input];
    struct array_spec spec = {.dtype = (zl_dtype)x->dtype, .ndim = x->ndim, .dim = x->dim};
    zl_array y = graph_leaf(&spec, storage_new(0));
    if (y)
        set_tensor(m, y, value_of(m, c, input, (zl_dtype)x->dtype));
    return y;
}

static bool render_composed(struct hlo_module *m, const struct call *c) {
    zl_array in[HLO_OPERANDS] = {NULL}, out[HLO_OPERANDS] = {NULL};
    if (!c->op->composed || c->inputs > HLO_OPERANDS || c->outputs > HLO_OPERANDS)
        return hlo_refuse(m, "%s has no form in StableHLO", c->op->name);
    for (int k = 0; k < c->inputs; k++)
        if (!(in[k] = stand_in(m, c, k)))
            return false;
    int call = m->call;
    m->call = -1;
    bool ok = c->op->composed(c, in, out);
    for (int k = 0; ok && k < c->outputs; k++) {
        if (!out[k])
            return hlo_refuse(m, "%s: not all that it gives is composed of other ops", c->op->name);
        ok = (find_value(m, out[k]) || !out[k]->call || render_call(m, out[k]->call));
        struct value *v = ok ? find_value(m, out[k]) : NULL;
        if (ok && !v)
            ok = hlo_refuse(m, "%s is composed of a number", c->op->name);
        if (!ok)
            break;
        if (!v->has_tensor) {
            v->tensor = hlo_view(m, v->base, (zl_dtype)out[k]->dtype, out[k]->ndim, out[k]->dim,
                                 array_stride(out[k]), out[k]->offset);
            v->has_tensor = true;
        }
        set_tensor(m, call_output(c, k),
                   hlo_fit(m, v->tensor, call_output(c, k)->ndim, call_output(c, k)->dim));
    }
    m->call = call;
    return ok && !m->writer.failed;
}

static bool is_empty(const struct call *c) {
    for (int k = 0; k < c->outputs; k++)
        if (call_output(c, k)->size)
            return false;
    return true;
}

static bool has_few_axes(const struct call *c) {
    for (int k = 0; k < c->inputs; k++)
        if (c->in[k]->ndim > HLO_AXES)
            return false;
    for (int k = 0; k < c->outputs; k++)
        if (call_output(c, k)->ndim > HLO_AXES)
            return false;
    return true;
}

// Renders a call. Calls that its inputs are composed of are rendered when they are read.
static bool render_call(struct hlo_module *m, const struct call *c) {
    zl_array y = call_first(c);
    hlo_row *row = c->op->kind == OP_OTHER ? find_row(c->op) : NULL;
    if (!has_few_axes(c))
        return hlo_refuse(m, "%s: arrays of more than %d axes", c->op->name, HLO_AXES);
    if (is_empty(c)) {
        for (int k = 0; k < c->outputs; k++)
            set_tensor(m, call_output(c, k), empty(m, call_output(c, k)));
    } else if (c->op->kind == OP_VIEW) {
        render_views(m, c);
    } else if (c->op->kind == OP_ELEMENTWISE) {
        set_tensor(m, y, elementwise(m, c));
    } else if (c->op->kind == OP_CAST) {
        set_tensor(m, y, hlo_cast(m, value_of(m, c, 0, (zl_dtype)c->in[0]->dtype), (zl_dtype)y->dtype));
    } else if (c->op->kind == OP_COPY) {
        set_tensor(m, y, value_of(m, c, 0, (zl_dtype)c->in[0]->dtype));
    } else if (c->op->kind == OP_REDUCE) {
        set_tensor(m, y, reduction(m, c));
    } else if (row) {
        return render_row(m, c, row) && !m->writer.failed;
    } else {
        return render_composed(m, c);
    }
    return !m->writer.failed;
}

static void close_module(struct hlo_module *m) {
    map_free(&m->values);
    map_free(&m->storages);
    hlo_sizes_close(&m->sizes);
    arena_free(&m->arena);
    text_free(&m->writer.body);
    memory_free(m->words.use);
    memory_free(m->words.word);
}

// Trying ----------------------------------------------------------------------------------------------------

bool hlo_can(const struct call *c) {
    if (c->op->kind == OP_VIEW)
        return has_few_axes(c);
    bool had_error = zl_error();
    struct hlo_module m = {.call = -1, .view_call = -1};
    for (int k = 0; k < c->inputs; k++) {
        zl_array x = c->in[k];
        struct hlo_tensor t = hlo_like(x);
        t.name = m.writer.names++;
        if (x->ndim <= HLO_AXES && !array_is(x, ARRAY_INLINE) && x->size)
            set_tensor(&m, x, t);
    }
    bool ok = false;
    ZL_SCOPE
        ok = render_call(&m, c) && !m.writer.body.failed;
    close_module(&m);
    if (!ok)
        log_line(ZL_LOG_DEBUG, "%s is not rendered as StableHLO: %s", c->op->name,
                 zl_error() ? zl_error() : "memory is out");
    if (!had_error)
        zl_clear_error();
    return ok;
}

// Modules ---------------------------------------------------------------------------------------------------

// Marks calls whose outputs are stored: those that are read after the segment, and those whose views are.
static bool mark_stored(const struct segment *s, const uint8_t *skip, uint8_t *stored) {
    struct map index = {0};
    bool ok = true;
    for (int i = 0; i < s->calls && ok; i++)
        ok = map_set(&index, &s->call[i], sizeof s->call[i], (void *)(intptr_t)(i + 1));
    for (int i = s->calls - 1; i >= 0 && ok; i--) {
        const struct call *c = s->call[i];
        if (skip && skip[i])
            continue;
        stored[i] |= s->needed[i];
        for (int k = 0; stored[i] && c->op->kind == OP_VIEW && k < c->inputs; k++) {
            struct call *from = c->in[k]->call;
            intptr_t at = from && array_state(c->in[k]) != ARRAY_READY
                              ? (intptr_t)map_get(&index, &from, sizeof from)
                              : 0;
            if (at)
                stored[at - 1] = 1;
        }
    }
    map_free(&index);
    return ok;
}

// Sorts the sources by their arguments, in the order in which they were found.
static void order_sources(struct hlo_program *p) {
    for (int i = 1; i < p->sources; i++) {
        struct hlo_source s = p->source[i];
        int at = i;
        for (; at > 0 && p->source[at - 1].argument > s.argument; at--)
            p->source[at] = p->source[at - 1];
        p->source[at] = s;
    }
    for (int i = p->sources - 1; i >= 0; i--) {
        p->argument[p->source[i].argument].first = i;
        p->argument[p->source[i].argument].sources++;
    }
}

static bool add_result(struct hlo_module *m, int call, int output, struct hlo_tensor *last) {
    struct hlo_program *p = m->p;
    zl_array x = call_output(m->segment->call[call], output);
    struct value *v = find_value(m, x);
    if (!v || !memory_grow(&p->result, &m->result_cap, p->results + 1, sizeof *p->result))
        return false;
    *last = v->has_base ? v->base : in_memory_order(m, x, v->tensor);
    struct hlo_tensor y = *last;
    struct form_bound bound = {.axis = -1};
    for (int i = 0; i < y.ndim; i++) {
        if (!y.real[i])
            continue;
        if (bound.axis >= 0 || y.ndim != x->ndim || !shape_is_row_major(x->ndim, x->dim, array_stride(x)))
            return hlo_refuse(m, "a result of which more than a size varies, or that is transposed");
        bound = (struct form_bound){i, y.dim[i]};
        y.dim[i] = x->dim[i];
    }
    struct buffer_form *form = buffer_form_new(y.dtype, y.ndim, y.dim, bound);
    p->result[p->results++] = (struct hlo_result){call, output, form};
    return form;
}

// Appends the return statement; the types of the results go to *types, for the head of the module.
static bool add_results(struct hlo_module *m, const uint8_t *stored, struct text *types) {
    struct text names = {0};
    bool ok = true;
    for (int i = 0; i < m->segment->calls && ok; i++) {
        const struct call *c = m->segment->call[i];
        for (int k = 0; stored[i] && c->op->kind != OP_VIEW && k < c->outputs && ok; k++) {
            struct hlo_tensor y;
            if (!call_output(c, k)->size)
                continue;
            ok = add_result(m, i, k, &y);
            int start = m->writer.body.len;
            if (!ok)
                break;
            hlo_add(m, m->p->results > 1 ? ", %t" : "%t", &y);
            text_bytes(types, m->writer.body.data + start, m->writer.body.len - start);
            m->writer.body.len = start;
            text_add(&names, "%s%%%d", m->p->results > 1 ? ", " : "", y.name);
        }
    }
    if (m->p->results)
        text_add(&m->writer.body, "return %s : %s\n", names.data, types->data);
    ok &= !names.failed && !types->failed;
    text_free(&names);
    return ok;
}

// Names the module after its first ops, so that profiles show what it computes.
static void add_name(struct text *out, const struct segment *s) {
    enum { OPS = 6 };
    text_add(out, "module @zl");
    for (int i = 0, ops = 0; i < s->calls && ops < OPS; i++)
        if (s->call[i]->op->kind != OP_VIEW) {
            text_add(out, "_%s", s->call[i]->op->name);
            ops++;
        }
    text_add(out, " {\n");
}

static bool finish(struct hlo_module *m, const struct text *types) {
    struct hlo_program *p = m->p;
    struct text out = {0};
    struct text body = m->writer.body;
    add_name(&out, m->segment);
    text_add(&out, "func.func public @main(");
    m->writer.body = out;
    for (int i = 0; i < p->arguments; i++) {
        const struct buffer_form *form = p->argument[i].form;
        struct hlo_tensor x = hlo_type((zl_dtype)form->dtype, form->ndim, form->dim);
        if (form->bound.axis >= 0)
            x.dim[form->bound.axis] = form->bound.size;
        x.name = p->argument[i].name;
        hlo_add(m, i ? ", %v: %t" : "%v: %t", &x, &x);
        if (p->argument[i].result >= 0)
            hlo_add(m, " {tf.aliasing_output = %d : i32}", p->argument[i].result);
    }
    int64_t words = m->words.words;
    struct hlo_tensor list = hlo_type(ZL_UINT32, 1, &words);
    list.name = m->writer.names++;
    if (words)
        hlo_add(m, p->arguments ? ", %v: %t" : "%v: %t", &list, &list);
    text_add(&m->writer.body, ") -> (%s) {\n", types->data);
    hlo_words_head(m, list);
    text_add(&m->writer.body, "%s}\n}\n", body.data);
    p->words = m->words.words;
    p->word = m->words.word;
    m->words.word = NULL;
    p->bytes = m->writer.body.len;
    p->text = text_take(&m->writer.body);
    text_free(&body);
    return p->text;
}

static bool render_all(struct hlo_module *m, const uint8_t *skip, const uint8_t *stored,
                       const struct hlo_program *before) {
    struct text types = {0};
    bool ok = true;
    for (int i = 0; i < m->segment->calls && ok; i++) {
        m->call = i;
        ok = (skip && skip[i]) || render_call(m, m->segment->call[i]);
    }
    ok = ok && add_results(m, stored, &types);
    if (ok)
        order_sources(m->p);
    ok = ok && hlo_count_uses(m->p, m->segment, stored);
    if (ok)
        hlo_pair(m->p, m->segment->call, before);
    ok = ok && (!m->p->results || finish(m, &types)) && !m->writer.failed;
    text_free(&types);
    return ok;
}

static struct hlo_program *render(struct hlo_module *m, const uint8_t *skip,
                                  const struct hlo_program *before) {
    uint8_t *stored = memory_zero((size_t)m->segment->calls);
    m->p = memory_zero(sizeof *m->p);
    m->words.is_open = true;
    bool ok = m->p && stored && mark_stored(m->segment, skip, stored);
    ZL_SCOPE // compositions are found by the addresses of their calls, which must stay valid
        ok = ok && render_all(m, skip, stored, before);
    if (m->p)
        m->p->gathers = m->writer.gathers;
    memory_free(stored);
    if (ok)
        return m->p;
    hlo_free(m->p);
    return NULL;
}

// Without results, there is nothing to compute, and no text. If sizes vary, but an op cannot be rendered with
// bounds instead of sizes, the program is rendered for the present sizes.
struct hlo_program *hlo_render(const struct device *d, int unit, const struct segment *s, const uint8_t *skip,
                               const struct hlo_program *before, const struct hlo_target *target) {
    struct hlo_module m = {.device = d, .unit = unit, .segment = s, .view_call = -1}, plain;
    if (target)
        m.writer.target = *target;
    plain = m;
    bool had_error = zl_error();
    struct hlo_program *p = NULL;
    if (hlo_sizes_open(&m.sizes, s) && m.sizes.varied)
        p = render(&m, skip, before);
    if (!p && !had_error)
        zl_clear_error();
    close_module(&m);
    if (!p) {
        p = render(&plain, skip, before);
        close_module(&plain);
    }
    if (!p && !zl_error())
        error_set(ZL_ERROR_MEMORY, "memory is out");
    counter_add(COUNTER_GATHERS, p ? p->gathers : 0);
    return p;
}

struct hlo_program *hlo_foresee(const struct device *d, int unit, const struct segment *s,
                                const struct hlo_target *target) {
    struct hlo_module m = {.device = d, .unit = unit, .segment = s, .view_call = -1, .foresees = true};
    if (target)
        m.writer.target = *target;
    bool had_error = zl_error();
    struct hlo_program *p = render(&m, NULL, NULL);
    close_module(&m);
    if (!p && !had_error)
        zl_clear_error();
    return p;
}

void hlo_free(struct hlo_program *p) {
    if (!p)
        return;
    for (int i = 0; i < p->arguments; i++)
        memory_free(p->argument[i].form);
    for (int i = 0; i < p->results; i++)
        memory_free(p->result[i].form);
    memory_free(p->argument);
    memory_free(p->source);
    memory_free(p->scalar);
    memory_free(p->result);
    memory_free(p->place);
    memory_free(p->word);
    memory_free(p->text);
    memory_free(p);
}
