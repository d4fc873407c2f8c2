// kernels_lines.c - calls with reductions of the last axis among them, as one kernel: softmax, norms.
//
// A group of threads has a line. For each reduction it goes along the line once and computes what is reduced anew from the
// inputs, which the caches hold by then; at last it goes along it for the results. So memory is read and written once.

#include "device/kernels/kernels.h"

#include <stdio.h>
#include <string.h>

enum {
    RECIPE_WORDS = 440,
    OF_INPUT = 1 << 8,
    REDUCTIONS = 6,
    LINE_LEAST = 128, // elements of a line from which a group of threads is busy
    LINES_LEAST = 32, // lines from which the device is
};

enum line_form { LINE_FLAT, LINE_STRIDED, LINE_SAME, LINE_VALUE }; // along a line; SAME: one element

struct recipe {
    char name[8]; // no other kernel has such a key
    int16_t words, rows, inputs, outputs, reductions, wide;
    int16_t input[KERNEL_OPERANDS];      // form | dtype << 4
    int16_t output[KERNEL_OPERANDS];     // row << 1 | one element a line
    int16_t reduction[REDUCTIONS];       // rows
    int16_t word[RECIPE_WORDS];          // of each row: combines, op, dtypes of result and operand, operands, references
};

struct lines {
    const struct program *program;
    struct call *const *call;
    int begin, end, ndim;
    const int64_t *dim; // shape of the elements
    bool of_lines[KERNEL_CALLS], stored[KERNEL_CALLS];
    int16_t row[KERNEL_CALLS];
    int inputs;
    zl_array input[KERNEL_OPERANDS];
    int64_t step[KERNEL_OPERANDS]; // from an element of a line to the next
    struct recipe r;
    struct kernel_layout l; // of the inputs, over lines
};

// Finding ----------------------------------------------------------------------------------------------------------

static const struct kernel_step *step_of(const struct lines *g, int index) {
    return &g->program->step[index];
}

static zl_array output_of(const struct lines *g, int index) {
    return call_first(g->call[index]);
}

static bool is_reduction(const struct lines *g, int index) {
    return g->call[index]->op->kind == OP_REDUCE;
}

static bool has_shape(const struct lines *g, zl_array x) {
    return shape_equal(x->ndim, x->dim, g->ndim, g->dim);
}

static bool has_line_shape(const struct lines *g, zl_array x) {
    return x->ndim == g->ndim && x->dim[g->ndim - 1] == 1 && shape_equal(g->ndim - 1, x->dim, g->ndim - 1, g->dim);
}

static bool of_lines(const struct lines *g, int index) {
    return g->of_lines[index - g->begin];
}

// Another name of all of a result, or of one element a line for all elements of the line.
static bool is_alias(struct lines *g, int index) {
    zl_array out = output_of(g, index);
    int source = step_of(g, index)->source[0];
    if (step_of(g, index)->inputs != 1 || source < g->begin || out->offset || out->dtype != output_of(g, source)->dtype)
        return false;
    g->of_lines[index - g->begin] = of_lines(g, source);
    if (!of_lines(g, source))
        return has_shape(g, out) && array_is(out, ARRAY_CONTIGUOUS);
    if (has_line_shape(g, out))
        return array_is(out, ARRAY_CONTIGUOUS);
    if (!has_shape(g, out) || array_stride(out)[g->ndim - 1])
        return false;
    int64_t expected = 1;
    for (int i = g->ndim - 2; i >= 0; i--) {
        if (out->dim[i] != 1 && array_stride(out)[i] != expected)
            return false;
        expected *= out->dim[i];
    }
    return true;
}

// Of one element a line: from such, or from what is the same along a line.
static bool is_of_lines(const struct lines *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    for (int k = 0; k < s->inputs; k++) {
        zl_array x = g->call[index]->in[k];
        if (s->source[k] >= g->begin ? !of_lines(g, s->source[k]) : x->ndim && x->dim[x->ndim - 1] != 1)
            return false;
    }
    return true;
}

static bool reduces_lines(const struct lines *g, int index) {
    const struct call *c = g->call[index];
    int source = step_of(g, index)->source[0];
    return g->r.reductions < REDUCTIONS && c->args == 1 && call_args(c)[0] == g->ndim - 1 && has_shape(g, c->in[0]) &&
           (source < g->begin || !of_lines(g, source));
}

// What comes from outside is there: it may have failed.
static bool is_ready(const struct lines *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    for (int k = 0; k < s->inputs; k++)
        if (s->source[k] < g->begin && array_state(g->call[index]->in[k]) != ARRAY_READY)
            return false;
    return true;
}

static bool joins(struct lines *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    bool *lines = &g->of_lines[index - g->begin];
    *lines = false;
    if (s->kind == STEP_VIEW)
        return is_alias(g, index);
    if (!is_ready(g, index))
        return false;
    if (is_reduction(g, index)) {
        *lines = true;
        bool good = reduces_lines(g, index);
        g->r.reductions = (int16_t)(g->r.reductions + good);
        return good;
    }
    if (s->kind != STEP_MAP)
        return false;
    *lines = !has_shape(g, output_of(g, index));
    return !*lines || (has_line_shape(g, output_of(g, index)) && is_of_lines(g, index));
}

static int source_of(const struct lines *g, int index, int k) {
    int source = step_of(g, index)->source[k];
    while (source >= g->begin && step_of(g, source)->kind == STEP_VIEW)
        source = step_of(g, source)->source[0];
    return source >= g->begin ? source : -1;
}

static int find_stored(struct lines *g) {
    int count = 0;
    for (int i = g->begin; i < g->end; i++)
        g->stored[i - g->begin] = step_of(g, i)->needed || step_of(g, i)->last >= g->end;
    for (int i = g->end - 1; i >= g->begin; i--)
        if (step_of(g, i)->kind == STEP_VIEW && g->stored[i - g->begin])
            g->stored[step_of(g, i)->source[0] - g->begin] = true;
    for (int i = g->begin; i < g->end; i++)
        count += g->stored[i - g->begin] && step_of(g, i)->kind != STEP_VIEW;
    return count;
}

static int input_of(struct lines *g, zl_array x, int dtype) {
    for (int i = 0; i < g->inputs; i++)
        if (g->input[i] == x && g->r.input[i] >> 4 == dtype)
            return i;
    if (g->inputs == KERNEL_OPERANDS)
        return -1;
    g->input[g->inputs] = x;
    g->r.input[g->inputs] = (int16_t)(dtype << 4);
    return g->inputs++;
}

static bool add_row(struct lines *g, int index) {
    const struct kernel_step *s = step_of(g, index);
    const struct call *c = g->call[index];
    bool reduces = is_reduction(g, index);
    struct recipe *r = &g->r;
    int from = reduces ? c->in[0]->dtype : s->dtype[s->inputs];
    if (r->words + 10 > RECIPE_WORDS)
        return false;
    g->row[index - g->begin] = r->rows;
    if (reduces)
        r->reduction[r->reductions++] = r->rows;
    r->rows++;
    const int16_t head[] = {reduces,
                            (int16_t)(reduces ? (int)kernel_combines(c) : c->op->kind == OP_ELEMENTWISE ? (int)c->op->row : TILE_CAST),
                            call_first(c)->dtype, (int16_t)from, s->inputs};
    memcpy(r->word + r->words, head, sizeof head);
    r->words = (int16_t)(r->words + (int)COUNT(head));
    for (int k = 0; k < s->inputs; k++) {
        int source = source_of(g, index, k);
        int input = source < 0 ? input_of(g, c->in[k], reduces ? from : s->dtype[k + 1]) : 0;
        if (input < 0)
            return false;
        r->word[r->words++] = (int16_t)(source < 0 ? OF_INPUT | input : g->row[source - g->begin]);
    }
    return true;
}

static bool write_rows(struct lines *g) {
    struct recipe *r = &g->r;
    int outputs = find_stored(g);
    g->inputs = 0;
    r->words = r->rows = r->outputs = r->reductions = 0;
    for (int i = g->begin; i < g->end; i++)
        if (step_of(g, i)->kind != STEP_VIEW && (!add_row(g, i) || g->inputs + outputs > KERNEL_OPERANDS))
            return false;
    for (int i = g->begin; i < g->end; i++)
        if (step_of(g, i)->kind != STEP_VIEW && g->stored[i - g->begin])
            r->output[r->outputs++] = (int16_t)(g->row[i - g->begin] << 1 | of_lines(g, i));
    r->inputs = (int16_t)g->inputs;
    return true;
}

// False: there is no such group here.
static bool find(struct lines *g, int calls) {
    const struct call *c = g->call[g->begin];
    zl_array shape = is_reduction(g, g->begin) ? c->in[0] : output_of(g, g->begin);
    int most = MIN_OF(calls, g->begin + KERNEL_CALLS);
    g->ndim = shape->ndim;
    g->dim = shape->dim;
    g->end = g->begin;
    if (!g->ndim || g->dim[g->ndim - 1] < LINE_LEAST || shape->size / g->dim[g->ndim - 1] < LINES_LEAST)
        return false;
    while (g->end < most && joins(g, g->end))
        g->end++;
    while (g->end > g->begin && step_of(g, g->end - 1)->kind == STEP_VIEW)
        g->end--;
    return g->end - g->begin > 1 && g->r.reductions > 0 && write_rows(g) && g->r.reductions > 0 && g->r.rows > 1;
}

// Layout -----------------------------------------------------------------------------------------------------------

static int64_t stride_at(zl_array x, int ndim, int axis) {
    int at = axis - (ndim - x->ndim);
    return at < 0 || x->dim[at] == 1 ? 0 : array_stride(x)[at];
}

static bool lay_out(struct lines *g) {
    layout_begin(&g->l, g->inputs);
    for (int i = 0; i < g->ndim - 1; i++) {
        int64_t stride[KERNEL_OPERANDS];
        for (int k = 0; k < g->inputs; k++)
            stride[k] = stride_at(g->input[k], g->ndim, i);
        layout_push(&g->l, g->dim[i], stride);
    }
    bool wide = layout_is_wide(&g->l) || g->l.size * g->dim[g->ndim - 1] > INT32_MAX / 2;
    for (int k = 0; k < g->inputs; k++) {
        g->step[k] = stride_at(g->input[k], g->ndim, g->ndim - 1);
        enum line_form form = array_is(g->input[k], ARRAY_INLINE) ? LINE_VALUE
                              : g->step[k] == 0                   ? LINE_SAME
                              : g->step[k] == 1                   ? LINE_FLAT
                                                                  : LINE_STRIDED;
        g->r.input[k] = (int16_t)((g->r.input[k] & ~15) | (int)form);
    }
    g->r.wide = wide;
    return g->l.axes <= KERNEL_AXES;
}

// Text -------------------------------------------------------------------------------------------------------------

struct writer {
    const struct recipe *r;
    const char *dialect;
};

static const int16_t *row_words(const struct recipe *r, int row) {
    const int16_t *word = r->word;
    while (row-- > 0)
        word += 5 + word[4];
    return word;
}

static expr parameter(char letter, int number, zl_dtype dtype, expr n, expr at) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", letter, number);
    struct tile_buffer *x = tile_parameter_buffer(name, tile_type_of(dtype), 1, &n, false);
    return x ? tile_load(x, 1, &at, NULL, NULL) : NULL;
}

static expr compute_row(const int16_t *word, const expr *input, const expr *value) {
    expr arg[3] = {NULL};
    for (int k = 0; k < word[4]; k++)
        arg[k] = word[5 + k] & OF_INPUT ? input[word[5 + k] & ~OF_INPUT] : value[word[5 + k]];
    enum tile_op op = (enum tile_op)word[1];
    if (op == TILE_CAST)
        return tile_cast(tile_type_of((zl_dtype)word[2]), arg[0]);
    return word[4] == 1   ? tile_unary(op, arg[0])
           : word[4] == 2 ? tile_binary(op, arg[0], arg[1])
                          : tile_ternary(op, arg[0], arg[1], arg[2]);
}

// A function of the inputs and the results of reductions that gives the values of rows, or inputs, by their references.
static struct tile_kernel *build(const struct recipe *r, int outputs, const int16_t *output) {
    expr input[KERNEL_OPERANDS], value[KERNEL_CALLS], result[KERNEL_OPERANDS];
    struct tile_buffer *y[KERNEL_OPERANDS];
    int reductions = 0;
    tile_begin("lines");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    expr at = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < r->inputs; k++)
        input[k] = parameter('x', k, (zl_dtype)(r->input[k] >> 4), n, at);
    for (int k = 0; k < r->rows; k++) {
        const int16_t *word = row_words(r, k);
        value[k] = word[0] ? parameter('r', reductions++, (zl_dtype)word[2], n, at) : compute_row(word, input, value);
    }
    for (int k = 0; k < outputs; k++) {
        char name[16];
        result[k] = output[k] & OF_INPUT ? input[output[k] & ~OF_INPUT] : value[output[k]];
        snprintf(name, sizeof name, "y%d", k);
        y[k] = result[k] ? tile_parameter_buffer(name, result[k]->type, 1, &n, true) : NULL;
    }
    tile_open_map(1, &i, &n);
    for (int k = 0; k < outputs; k++)
        tile_store(y[k], 1, &at, result[k], NULL);
    tile_close();
    return tile_end();
}

static const char *part(zl_dtype dtype) { // as element functions take it
    return dtype == ZL_COMPLEX64 ? "f32" : kernel_memory_type(dtype);
}

static zl_dtype input_dtype(const struct recipe *r, int k) {
    return (zl_dtype)(r->input[k] >> 4);
}

static zl_dtype row_dtype(const struct recipe *r, int row) {
    return (zl_dtype)row_words(r, row)[2];
}

// The inputs at element i, of those that differ along a line.
static void add_loads(struct text *out, const struct recipe *r) {
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == LINE_FLAT)
            text_add(out, "        %s a%d = x%d[i];\n", kernel_memory_type(input_dtype(r, k)), k, k);
        else if (r->input[k] % 16 == LINE_STRIDED)
            text_add(out, "        %s a%d = x%d[i * d%d];\n", kernel_memory_type(input_dtype(r, k)), k, k, k);
}

static void add_operands(struct text *out, const struct recipe *r) {
    for (int k = 0; k < r->inputs; k++)
        text_add(out, ", (const %s *)&a%d", part(input_dtype(r, k)), k);
    for (int k = 0; k < r->reductions; k++)
        text_add(out, ", (const %s *)&r%d", part(row_dtype(r, r->reduction[k])), k);
    text_add(out, ");\n");
}

static bool add_functions(struct text *out, const struct writer *w) {
    const struct recipe *r = w->r;
    char name[16];
    bool good = true;
    for (int k = 0; good && k < r->reductions; k++) {
        const int16_t *word = row_words(r, r->reduction[k]);
        zl_dtype from = (zl_dtype)word[3], to = (zl_dtype)word[2], wide = tile_reduce_gives(from);
        snprintf(name, sizeof name, "value%d", k);
        good = kernel_element(out, build(r, 1, word + 5), w->dialect, name);
        snprintf(name, sizeof name, "step%d", k);
        good = good && kernel_element(out, tile_row_kernel((enum tile_op)word[1], wide, "vv"), w->dialect, name);
        snprintf(name, sizeof name, "widen%d", k);
        good = good && kernel_element(out, tile_cast_kernel(wide, from), w->dialect, name);
        snprintf(name, sizeof name, "narrow%d", k);
        good = good && kernel_element(out, tile_cast_kernel(to, wide), w->dialect, name);
    }
    for (int k = 0; good && k < r->outputs; k++) {
        snprintf(name, sizeof name, "result%d", k);
        good = kernel_element(out, build(r, 1, &(int16_t){(int16_t)(r->output[k] >> 1)}), w->dialect, name);
    }
    return good;
}

static void add_parameters(struct text *out, const struct recipe *r) {
    for (int k = 0; k < r->outputs; k++)
        text_add(out, "GLOBAL %s *y%d, ", kernel_memory_type(row_dtype(r, r->output[k] >> 1)), k);
    for (int k = 0; k < r->inputs; k++) {
        const char *type = kernel_memory_type(input_dtype(r, k));
        if (r->input[k] % 16 == LINE_VALUE)
            text_add(out, "%s v%d, ", type, k);
        else
            text_add(out, "GLOBAL const %s *x%d, i64 o%d, idx d%d, ", type, k, k, k);
    }
    text_add(out, "idx line, AXES s, i32 axes");
}

// Where the line of each input begins, and what is the same for all of it.
static void add_lines(struct text *out, const struct recipe *r) {
    int strides = 0;
    text_add(out, "    idx number = GROUP;\n    uidx rest = (uidx)number;\n");
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 != LINE_VALUE)
            text_add(out, "    x%d += o%d;\n", k, k);
    text_add(out, "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                  "        uidx next = rest / (uidx)s.dim[axis];\n"
                  "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n        rest = next;\n");
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 != LINE_VALUE)
            text_add(out, "        x%d += at * s.stride[%d][axis];\n", k, strides++);
    text_add(out, "    }\n");
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 >= LINE_SAME)
            text_add(out, r->input[k] % 16 == LINE_VALUE ? "    %s a%d = v%d;\n" : "    %s a%d = x%d[0];\n",
                     kernel_memory_type(input_dtype(r, k)), k, k);
}

static void add_step(struct text *out, int k, zl_dtype wide, const char *more) {
    text_add(out, "        { %s next; step%d((%s *)&next, (const %s *)&s%d, (const %s *)&%s); s%d = next; }\n",
             kernel_memory_type(wide), k, part(wide), part(wide), k, part(wide), more, k);
}

static void add_reduction(struct text *out, const struct recipe *r, int k) {
    const int16_t *word = row_words(r, r->reduction[k]);
    zl_dtype from = (zl_dtype)word[3], to = (zl_dtype)word[2], wide = tile_reduce_gives(from);
    const char *type = kernel_memory_type(wide);
    uint64_t identity = 0;
    tile_identity((enum tile_op)word[1], tile_type_of(wide), &identity);
    text_add(out, "    %s s%d = ", type, k);
    kernel_constant(out, wide, identity);
    text_add(out, ";\n    for (idx i = THREAD; i < line; i += THREADS) {\n");
    add_loads(out, r);
    text_add(out, "        %s given;\n        value%d((%s *)&given", kernel_memory_type(from), k, part(from));
    add_operands(out, r);
    text_add(out, "        %s more;\n        widen%d((%s *)&more, (const %s *)&given);\n", type, k, part(wide), part(from));
    add_step(out, k, wide, "more");
    text_add(out, "    }\n    room%d[THREAD] = s%d;\n    BARRIER;\n"
                  "    for (i32 span = THREADS / 2; span > 0; span /= 2) {\n        if (THREAD < span) {\n"
                  "        %s more = room%d[THREAD + span];\n",
             k, k, type, k);
    add_step(out, k, wide, "more");
    text_add(out, "        room%d[THREAD] = s%d;\n        }\n        BARRIER;\n    }\n    s%d = room%d[0];\n"
                  "    narrow%d((%s *)&r%d, (const %s *)&s%d);\n",
             k, k, k, k, k, part(to), k, part(wide), k);
}

static void add_output(struct text *out, const struct recipe *r, int k, const char *at) {
    zl_dtype dtype = row_dtype(r, r->output[k] >> 1);
    text_add(out, "        { %s b; result%d((%s *)&b", kernel_memory_type(dtype), k, part(dtype));
    add_operands(out, r);
    text_add(out, "        y%d[%s] = b; }\n", k, at);
}

static void add_outputs(struct text *out, const struct recipe *r) {
    text_add(out, "    for (idx i = THREAD; i < line; i += THREADS) {\n");
    add_loads(out, r);
    for (int k = 0; k < r->outputs; k++)
        if (!(r->output[k] & 1))
            add_output(out, r, k, "number * line + i");
    text_add(out, "    }\n    if (THREAD == 0) {\n        idx i = 0;\n");
    add_loads(out, r);
    for (int k = 0; k < r->outputs; k++)
        if (r->output[k] & 1)
            add_output(out, r, k, "number");
    text_add(out, "    }\n}\n");
}

static bool write_text(struct text *out, const void *data) {
    const struct writer *w = data;
    const struct recipe *r = w->r;
    int strides = 0;
    for (int k = 0; k < r->inputs; k++)
        strides += r->input[k] % 16 != LINE_VALUE;
    kernel_begin(out, w->dialect, r->wide);
    if (!add_functions(out, w))
        return false;
    text_add(out, "struct zl_axes { idx dim[%d]; idx stride[%d][%d]; };\nKERNEL zl_kernel(", KERNEL_AXES, MAX_OF(strides, 1),
             KERNEL_AXES);
    add_parameters(out, r);
    text_add(out, ") {\n");
    for (int k = 0; k < r->reductions; k++) {
        const int16_t *word = row_words(r, r->reduction[k]);
        text_add(out, "    LOCAL %s room%d[%d];\n", kernel_memory_type(tile_reduce_gives((zl_dtype)word[3])), k, KERNEL_THREADS);
    }
    for (int k = 0; k < r->reductions; k++) // read before it is known only by what does not use it
        text_add(out, row_dtype(r, r->reduction[k]) == ZL_COMPLEX64 ? "    %s r%d = {{0, 0}};\n" : "    %s r%d = 0;\n",
                 kernel_memory_type(row_dtype(r, r->reduction[k])), k);
    add_lines(out, r);
    for (int k = 0; k < r->reductions; k++)
        add_reduction(out, r, k);
    add_outputs(out, r);
    return true;
}

// Running ----------------------------------------------------------------------------------------------------------

static bool add_input(const struct kernel_place *p, struct kernel_call *k, const struct lines *g, int at) {
    zl_array x = g->input[at];
    if (array_is(x, ARRAY_INLINE)) {
        union scalar room;
        scalar_write(x, input_dtype(&g->r, at), &room);
        kernel_add(k, &room, zl_dtype_size(input_dtype(&g->r, at)));
        return true;
    }
    void *memory = kernel_reach(p, x);
    kernel_add_memory(k, memory);
    kernel_add_int(k, x->offset, true);
    kernel_add_int(k, g->step[at], g->r.wide);
    return memory;
}

static bool run(const struct kernel_place *p, struct lines *g) {
    struct writer w = {&g->r, p->target->dialect};
    struct kernel_call k = {0};
    unsigned strided = 0;
    void *kernel = kernel_find(p, &g->r, offsetof(struct recipe, word) + sizeof g->r.word[0] * (size_t)g->r.words, write_text, &w);
    bool ok = kernel;
    for (int i = g->begin; ok && i < g->end; i++)
        if (g->stored[i - g->begin] && step_of(g, i)->kind != STEP_VIEW) {
            void *memory = kernel_reach(p, output_of(g, i));
            kernel_add_memory(&k, memory);
            ok = memory;
        }
    for (int i = 0; ok && i < g->inputs; i++) {
        strided |= (unsigned)(g->r.input[i] % 16 != LINE_VALUE) << i;
        ok = add_input(p, &k, g, i);
    }
    kernel_add_int(&k, g->dim[g->ndim - 1], g->r.wide);
    kernel_add_axes(&k, &g->l, strided, g->r.wide);
    kernel_add_int(&k, g->l.axes, false);
    return ok && kernel_launch(p, kernel, g->l.size, &k);
}

static void fail(struct lines *g, struct binding *b, int first) {
    zl_array reason = output_of(g, first);
    if (array_state(reason) != ARRAY_FAILED)
        b->fail(b, first);
    for (int i = g->begin; i < g->end; i++)
        if (array_state(output_of(g, i)) != ARRAY_FAILED) {
            error_put(reason->failure->kind, reason->failure->message);
            b->fail(b, i);
        }
}

// Elements may lie where an input lay: a thread writes where it alone reads.
static bool prepare(struct lines *g, struct binding *b) {
    for (int i = g->begin; i < g->end; i++) {
        bool in_place = step_of(g, i)->kind == STEP_MAP && !of_lines(g, i);
        if (!g->stored[i - g->begin])
            continue;
        if (in_place)
            b->take(b, g->begin, i);
        if (b->prepare(b, i, in_place ? UINT64_MAX : 0))
            continue;
        fail(g, b, i);
        return false;
    }
    return true;
}

int kernel_run_lines(const struct kernel_place *p, const struct program *program, struct binding *b, int index) {
    struct lines g = {.program = program, .call = b->call, .begin = index, .r = {.name = "lines"}};
    if (!find(&g, b->calls) || !lay_out(&g))
        return 0;
    int end = g.end;
    for (int i = index; i < end; i++)
        zl_retain(output_of(&g, i));
    if (prepare(&g, b)) {
        if (run(p, &g))
            for (int i = index; i < end; i++)
                b->finish(b, i);
        else
            fail(&g, b, index);
        counter_add(COUNTER_FUSED, end - index);
    }
    for (int i = index; i < end; i++)
        zl_release(output_of(&g, i));
    return end - index;
}

int kernel_count_lines(const struct program *program, struct call *const *call, int calls, int index) {
    struct lines g = {.program = program, .call = call, .begin = index};
    return find(&g, calls) && lay_out(&g) ? g.end - g.begin : 0;
}
