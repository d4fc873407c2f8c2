// kernels_map.c - elementwise calls of one shape as one kernel.
//
// How far a group of calls goes is found at each run, when sizes are known. Its recipe says what it computes: it is the
// kernel's key, and all that its text is made from.

#include "device/kernels/kernels.h"

#include <stdio.h>
#include <string.h>

enum {
    RECIPE_WORDS = 480,
    OF_INPUT = 1 << 8, // a reference to an input; else to the result of a row
    PACK_BYTES = 16,   // that a thread reads at once
    PACK_LEAST = 4096, // elements from which it does
};

enum form { FORM_FLAT, FORM_STRIDED, FORM_ONE, FORM_VALUE };

struct recipe {
    int16_t words, rows, inputs, outputs;
    int16_t width, wide; // elements of a thread; indices have 64 bits
    int16_t input[KERNEL_OPERANDS];  // form | dtype << 4
    int16_t output[KERNEL_OPERANDS]; // rows
    int16_t word[RECIPE_WORDS];      // of each row: op, dtype of the result, number of operands, references
};

struct group {
    const struct program *program;
    struct call *const *call;
    int begin, end;
    int ndim;
    const int64_t *dim;
    bool stored[KERNEL_CALLS]; // the result gets memory
    int16_t row[KERNEL_CALLS];
    int inputs;
    zl_array input[KERNEL_OPERANDS];
    struct recipe r;
    struct kernel_layout l; // of the inputs
};

// Finding ----------------------------------------------------------------------------------------------------------

static zl_array output_of(const struct group *g, int index) {
    return call_first(g->call[index]);
}

static const struct kernel_step *step_of(const struct group *g, int index) {
    return &g->program->step[index];
}

static bool has_shape(const struct group *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

// A view of a result of the group that is all of it, in order.
static bool is_alias(const struct group *g, int index) {
    zl_array out = output_of(g, index);
    int source = step_of(g, index)->source[0];
    return step_of(g, index)->inputs == 1 && source >= g->begin && has_shape(g, out) &&
           array_is(out, ARRAY_CONTIGUOUS) && out->offset == 0 && out->dtype == output_of(g, source)->dtype;
}

// What comes from outside is there: it may have failed.
static bool is_ready(const struct group *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    for (int k = 0; k < s->inputs; k++)
        if (s->source[k] < g->begin && array_state(g->call[index]->in[k]) != ARRAY_READY)
            return false;
    return true;
}

static bool joins(const struct group *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    if (s->kind == STEP_MAP)
        return has_shape(g, output_of(g, index)) && is_ready(g, index);
    return s->kind == STEP_VIEW && is_alias(g, index);
}

// The call of the group that computes what an input is another name of; -1: none does.
static int source_of(const struct group *g, int index, int k) {
    int source = step_of(g, index)->source[k];
    while (source >= g->begin && step_of(g, source)->kind == STEP_VIEW)
        source = step_of(g, source)->source[0];
    return source >= g->begin ? source : -1;
}

// What something after the group reads; a view passes that on.
static int find_stored(struct group *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++)
        g->stored[i - g->begin] = step_of(g, i)->needed || step_of(g, i)->last >= g->end || g->end == g->begin + 1;
    for (int i = g->end - 1; i >= g->begin; i--)
        if (step_of(g, i)->kind == STEP_VIEW && g->stored[i - g->begin])
            g->stored[step_of(g, i)->source[0] - g->begin] = true;
    for (int i = g->begin; i < g->end; i++)
        count += g->stored[i - g->begin] && step_of(g, i)->kind == STEP_MAP;
    return count;
}

static int input_of(struct group *g, zl_array x, int dtype) {
    for (int i = 0; i < g->inputs; i++)
        if (g->input[i] == x && g->r.input[i] >> 4 == dtype)
            return i;
    if (g->inputs == KERNEL_OPERANDS)
        return -1;
    g->input[g->inputs] = x;
    g->r.input[g->inputs] = (int16_t)(dtype << 4);
    return g->inputs++;
}

static void add(struct recipe *r, int word) {
    r->word[r->words++] = (int16_t)word;
}

static bool add_row(struct group *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    const struct call *c = g->call[index];
    struct recipe *r = &g->r;
    g->row[index - g->begin] = r->rows++;
    add(r, c->op->kind == OP_ELEMENTWISE ? (int)c->op->row : TILE_CAST);
    add(r, s->dtype[0]);
    add(r, s->inputs);
    for (int k = 0; k < s->inputs; k++) {
        int source = source_of(g, index, k), input = source < 0 ? input_of(g, c->in[k], s->dtype[k + 1]) : 0;
        if (input < 0)
            return false;
        add(r, source < 0 ? OF_INPUT | input : g->row[source - g->begin]);
    }
    return true;
}

// What the group computes; false: it has too many operands.
static bool write_rows(struct group *g) {
    int outputs = find_stored(g);
    g->inputs = 0;
    g->r.words = g->r.rows = g->r.outputs = 0;
    for (int i = g->begin; i < g->end; i++)
        if (step_of(g, i)->kind == STEP_MAP && (!add_row(g, i) || g->inputs + outputs > KERNEL_OPERANDS))
            return false;
    for (int i = g->begin; i < g->end; i++)
        if (step_of(g, i)->kind == STEP_MAP && g->stored[i - g->begin])
            g->r.output[g->r.outputs++] = g->row[i - g->begin];
    g->r.inputs = (int16_t)g->inputs;
    return true;
}

static const char *find(struct group *g, int calls) {
    zl_array out = output_of(g, g->begin);
    int most = MIN_OF(calls, g->begin + (g->program->fuses ? KERNEL_CALLS : 1));
    g->ndim = out->ndim;
    g->dim = out->dim;
    g->end = g->begin + 1;
    while (g->end < most && is_ready(g, g->begin) && joins(g, g->end))
        g->end++;
    const char *why = g->end == calls ? NULL
                      : g->end == most ? "a kernel has 32 calls at most"
                      : step_of(g, g->end)->kind == STEP_MAP ? "what follows has another shape"
                                                             : "what follows is not elementwise";
    while (!write_rows(g)) {
        g->end--;
        why = "a kernel has 12 operands at most";
    }
    while (step_of(g, g->end - 1)->kind == STEP_VIEW)
        g->end--;
    write_rows(g);
    return why;
}

int kernel_count_maps(const struct program *program, struct call *const *call, int calls, int index, const char **why) {
    struct group g = {.program = program, .call = call, .begin = index};
    *why = find(&g, calls);
    return g.end - g.begin;
}

// Layout -----------------------------------------------------------------------------------------------------------

static bool is_flat(const struct kernel_layout *l, int operand) {
    int64_t expected = 1;
    for (int i = l->axes - 1; i >= 0; i--) {
        if (l->stride[operand][i] != expected)
            return false;
        expected *= l->dim[i];
    }
    return true;
}

static enum form form_of(const struct group *g, int at) {
    if (array_is(g->input[at], ARRAY_INLINE))
        return FORM_VALUE;
    if (g->input[at]->size == 1)
        return FORM_ONE;
    return is_flat(&g->l, at) ? FORM_FLAT : FORM_STRIDED;
}

static int item_of(int dtype) {
    return (int)zl_dtype_size((zl_dtype)dtype);
}

// Elements that a thread takes at once: as many as 16 bytes hold of the widest.
static int width_of(const struct group *g) {
    int item = 1, width;
    for (int i = 0; i < g->inputs; i++)
        if (g->r.input[i] % 16 == FORM_FLAT)
            item = MAX_OF(item, item_of(g->r.input[i] >> 4));
    for (int i = g->begin; i < g->end; i++)
        if (g->stored[i - g->begin])
            item = MAX_OF(item, (int)array_item(output_of(g, i)));
    width = PACK_BYTES / item;
    if (g->l.size < PACK_LEAST || width < 2)
        return 1;
    for (int i = 0; i < g->inputs; i++)
        if (g->r.input[i] % 16 == FORM_STRIDED || (g->r.input[i] % 16 == FORM_FLAT && g->input[i]->offset % width))
            return 1;
    return width;
}

static void lay_out(struct group *g) {
    layout_of(&g->l, g->ndim, g->dim, g->inputs, g->input);
    for (int i = 0; i < g->inputs; i++)
        g->r.input[i] = (int16_t)((g->r.input[i] & ~15) | (int)form_of(g, i));
    g->r.wide = layout_is_wide(&g->l);
    g->r.width = (int16_t)width_of(g);
}

// Text -------------------------------------------------------------------------------------------------------------

static expr compute_row(const int16_t **word, const expr *input, const expr *value) {
    enum tile_op op = (enum tile_op) * (*word)++;
    struct tile_type type = tile_type_of((zl_dtype) * (*word)++);
    int count = *(*word)++;
    expr arg[3] = {NULL};
    for (int k = 0; k < count; k++, (*word)++)
        arg[k] = **word & OF_INPUT ? input[**word & ~OF_INPUT] : value[**word];
    if (op == TILE_CAST)
        return tile_cast(type, arg[0]);
    return count == 1   ? tile_unary(op, arg[0])
           : count == 2 ? tile_binary(op, arg[0], arg[1])
                        : tile_ternary(op, arg[0], arg[1], arg[2]);
}

// map i in n { y0[i] = ...; y1[i] = ...; }, of which one element is rendered.
static struct tile_kernel *build(const struct recipe *r) {
    expr input[KERNEL_OPERANDS], value[KERNEL_CALLS];
    const int16_t *word = r->word;
    char name[16];
    tile_begin("fused");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    expr at = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < r->inputs; k++) {
        snprintf(name, sizeof name, "x%d", k);
        struct tile_buffer *x =
            tile_parameter_buffer(name, tile_type_of((zl_dtype)(r->input[k] >> 4)), 1, &n, false);
        input[k] = x ? tile_load(x, 1, &at, NULL, NULL) : NULL;
    }
    for (int k = 0; k < r->rows; k++)
        value[k] = compute_row(&word, input, value);
    struct tile_buffer *y[KERNEL_OPERANDS];
    for (int k = 0; k < r->outputs; k++) {
        expr result = value[r->output[k]];
        snprintf(name, sizeof name, "y%d", k);
        y[k] = result ? tile_parameter_buffer(name, result->type, 1, &n, true) : NULL;
    }
    tile_open_map(1, &i, &n);
    for (int k = 0; k < r->outputs; k++)
        tile_store(y[k], 1, &at, value[r->output[k]], NULL);
    tile_close();
    return tile_end();
}

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const char *input_type(const struct recipe *r, int at) {
    return kernel_memory_type((zl_dtype)(r->input[at] >> 4));
}

// The dtype of a row's result is the second of its words.
static zl_dtype output_dtype(const struct recipe *r, int at) {
    const int16_t *word = r->word;
    for (int row = 0; row < r->output[at]; row++)
        word += 3 + word[2];
    return (zl_dtype)word[1];
}

static const char *output_type(const struct recipe *r, int at) {
    return kernel_memory_type(output_dtype(r, at));
}

static int strided_inputs(const struct recipe *r) {
    int count = 0;
    for (int k = 0; k < r->inputs; k++)
        count += r->input[k] % 16 == FORM_STRIDED;
    return count;
}

static void add_parameters(struct text *out, const struct recipe *r) {
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "GLOBAL %s *y%d, ", output_type(r, k), k);
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == FORM_VALUE)
            text_add(out, "%s v%d, ", input_type(r, k), k);
        else
            text_add(out, "GLOBAL const %s *x%d, i64 o%d, ", input_type(r, k), k, k);
    text_add(out, strided_inputs(r) ? "idx n, i64 from, AXES s, i32 axes" : "idx n");
}

// element(results, operands), each the address of a variable; the j-th of a pack where there are packs.
static void add_element(struct text *out, const struct recipe *r, const char *indent, bool packs) {
    text_add(out, "%selement(", indent);
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "%s(%s *)&b%d%s", k ? ", " : "",
                 output_dtype(r, k) == ZL_COMPLEX64 ? "f32" : output_type(r, k), k, packs ? ".e[j]" : "");
    for (int k = 0; k < r->inputs; k++)
        text_add(out, ", (const %s *)&a%d%s", r->input[k] >> 4 == ZL_COMPLEX64 ? "f32" : input_type(r, k), k,
                 packs && r->input[k] % 16 == FORM_FLAT ? ".e[j]" : "");
    text_add(out, ");\n");
}

static void add_single(struct text *out, const struct recipe *r, const char *indent) {
    int strided = 0;
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "%s%s b%d;\n", indent, output_type(r, k), k);
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == FORM_FLAT)
            text_add(out, "%s%s a%d = x%d[i];\n", indent, input_type(r, k), k, k);
        else if (r->input[k] % 16 == FORM_STRIDED)
            text_add(out, "%s%s a%d = x%d[p%d];\n", indent, input_type(r, k), k, k, strided++);
    add_element(out, r, indent, false);
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "%sy%d[i] = b%d;\n", indent, k, k);
}

static void add_packs(struct text *out, const struct recipe *r) {
    text_add(out, "    if (i + %d <= n) {\n", r->width);
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "        py%d b%d;\n", k, k);
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == FORM_FLAT)
            text_add(out, "        px%d a%d = *(GLOBAL const px%d *)(x%d + i);\n", k, k, k, k);
    text_add(out, "        for (i32 j = 0; j < %d; j++)\n", r->width);
    add_element(out, r, "            ", true);
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "        *(GLOBAL py%d *)(y%d + i) = b%d;\n", k, k, k);
    text_add(out, "        return;\n    }\n    for (; i < n; i++) {\n");
    add_single(out, r, "        ");
    text_add(out, "    }\n");
}

// Where the strided operands have their element of number i.
static void add_positions(struct text *out, const struct recipe *r, int strided) {
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "    y%d += from;\n", k);
    text_add(out, "    uidx rest = (uidx)i;\n");
    for (int k = 0; k < strided; k++)
        text_add(out, "    idx p%d = 0;\n", k);
    text_add(out, "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                  "        uidx next = rest / (uidx)s.dim[axis];\n"
                  "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n"
                  "        rest = next;\n");
    for (int k = 0; k < strided; k++)
        text_add(out, "        p%d += at * s.stride[%d][axis];\n", k, k);
    text_add(out, "    }\n");
}

static void add_kernel(struct text *out, const struct recipe *r) {
    int strided = strided_inputs(r);
    for (int k = 0; r->width > 1 && k < r->outputs; k++)
        text_add(out, "typedef PACK(%s, %d) py%d;\n", output_type(r, k), r->width, k);
    for (int k = 0; r->width > 1 && k < r->inputs; k++)
        if (r->input[k] % 16 == FORM_FLAT)
            text_add(out, "typedef PACK(%s, %d) px%d;\n", input_type(r, k), r->width, k);
    if (strided)
        text_add(out, "struct zl_axes { idx dim[%d]; idx stride[%d][%d]; };\n", KERNEL_AXES, strided, KERNEL_AXES);
    text_add(out, "\nKERNEL zl_kernel(");
    add_parameters(out, r);
    text_add(out, ") {\n    idx i = (GROUP * THREADS + THREAD) * %d;\n    if (i >= n)\n        return;\n", r->width);
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == FORM_VALUE)
            text_add(out, "    %s a%d = v%d;\n", input_type(r, k), k, k);
        else if (r->input[k] % 16 == FORM_ONE)
            text_add(out, "    %s a%d = x%d[o%d];\n", input_type(r, k), k, k, k);
        else
            text_add(out, "    x%d += o%d;\n", k, k);
    if (strided)
        add_positions(out, r, strided);
    if (r->width > 1)
        add_packs(out, r);
    else
        add_single(out, r, "    ");
    text_add(out, "}\n");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    if (!kernel_element(out, build(w->r), w->dialect, "element"))
        return false;
    add_kernel(out, w->r);
    return true;
}

static void *find_kernel(const struct kernel_place *p, const struct recipe *r) {
    struct writer w = {r, p->target->dialect};
    return kernel_find(p, r, offsetof(struct recipe, word) + sizeof r->word[0] * (size_t)r->words, write_text, &w);
}

// Running ----------------------------------------------------------------------------------------------------------

static bool add_input(const struct kernel_place *p, struct kernel_call *k, const struct group *g, int at,
                      int64_t offset) {
    zl_array x = g->input[at];
    zl_dtype dtype = (zl_dtype)(g->r.input[at] >> 4);
    if (array_is(x, ARRAY_INLINE)) {
        union scalar room;
        scalar_write(x, dtype, &room);
        kernel_add(k, &room, zl_dtype_size(dtype));
        return true;
    }
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset + offset, true);
    return memory;
}

static bool add_outputs(const struct kernel_place *p, struct kernel_call *k, const struct group *g) {
    bool ok = true;
    for (int i = g->begin; ok && i < g->end; i++)
        if (g->stored[i - g->begin] && step_of(g, i)->kind == STEP_MAP) {
            void *memory = kernel_reach(p, output_of(g, i));
            kernel_add_memory(k, memory);
            ok = memory;
        }
    return ok;
}

// One launch for the axes from `first` on: offset of each input, and where the outputs go on.
static bool launch(const struct kernel_place *p, void *kernel, const struct group *g, const struct kernel_layout *l,
                   const int64_t *offset, int64_t from) {
    struct kernel_call k = {0};
    unsigned strided = 0;
    bool ok = add_outputs(p, &k, g);
    for (int i = 0; ok && i < g->inputs; i++) {
        strided |= (unsigned)(g->r.input[i] % 16 == FORM_STRIDED) << i;
        ok = add_input(p, &k, g, i, offset[i]);
    }
    kernel_add_int(&k, l->size, g->r.wide);
    if (strided) {
        kernel_add_int(&k, from, true);
        kernel_add_axes(&k, l, strided, g->r.wide);
        kernel_add_int(&k, l->axes, false);
    }
    int64_t each = (int64_t)KERNEL_THREADS * g->r.width;
    return ok && kernel_launch(p, kernel, (l->size + each - 1) / each, &k);
}

static void drop_first(struct kernel_layout *l) {
    l->size /= l->dim[0];
    l->axes--;
    memmove(l->dim, l->dim + 1, sizeof l->dim[0] * (size_t)l->axes);
    for (int k = 0; k < l->operands; k++)
        memmove(l->stride[k], l->stride[k] + 1, sizeof l->dim[0] * (size_t)l->axes);
}

// Kernels walk KERNEL_AXES axes; the outer ones are walked here.
static bool launch_all(const struct kernel_place *p, void *kernel, const struct group *g, const struct kernel_layout *l,
                       const int64_t *offset, int64_t from) {
    if (l->axes <= KERNEL_AXES || !strided_inputs(&g->r))
        return launch(p, kernel, g, l, offset, from);
    struct kernel_layout inner = *l;
    int64_t at[KERNEL_OPERANDS];
    drop_first(&inner);
    for (int64_t i = 0; i < l->dim[0]; i++) {
        for (int k = 0; k < g->inputs; k++)
            at[k] = offset[k] + i * l->stride[k][0];
        if (!launch_all(p, kernel, g, &inner, at, from + i * inner.size))
            return false;
    }
    return true;
}

static bool run(const struct kernel_place *p, struct group *g) {
    static const int64_t none[KERNEL_OPERANDS];
    lay_out(g);
    if (g->l.size == 0)
        return true;
    void *kernel = find_kernel(p, &g->r);
    return kernel && launch_all(p, kernel, g, &g->l, none, 0);
}

// All calls of the group fail for the reason of one.
static void fail(struct group *g, struct binding *b, int first) {
    zl_array reason = output_of(g, first);
    if (array_state(reason) != ARRAY_FAILED)
        b->fail(b, first);
    for (int i = g->begin; i < g->end; i++)
        if (array_state(output_of(g, i)) != ARRAY_FAILED) {
            error_put(reason->failure->kind, reason->failure->message);
            b->fail(b, i);
        }
}

// Results get their memory, which may be that of an input: a thread reads all of its elements before it writes.
static bool prepare(struct group *g, struct binding *b) {
    for (int i = g->begin; i < g->end; i++) {
        if (!g->stored[i - g->begin])
            continue;
        if (step_of(g, i)->kind == STEP_MAP)
            b->take(b, g->begin, i);
        if (b->prepare(b, i, UINT64_MAX))
            continue;
        fail(g, b, i);
        return false;
    }
    return true;
}

// Of several outputs one may take memory that another thread still reads through a stride or for all elements: such
// inputs are as large as the outputs only if they are flat.
int kernel_run_maps(const struct kernel_place *p, const struct program *program, struct binding *b, int index) {
    struct group g = {.program = program, .call = b->call, .begin = index};
    find(&g, b->calls);
    int end = g.end;
    for (int i = index; i < end; i++) // a call that fails lets its inputs go
        zl_retain(output_of(&g, i));
    if (prepare(&g, b)) {
        if (run(p, &g))
            for (int i = index; i < end; i++)
                b->finish(b, i);
        else
            fail(&g, b, index);
        counter_add(COUNTER_FUSED, end - index > 1 ? end - index : 0);
    }
    for (int i = index; i < end; i++)
        zl_release(output_of(&g, i));
    return end - index;
}
