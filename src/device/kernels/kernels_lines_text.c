// kernels_lines_text.c - the text of a kernel of lines.

#include "device/kernels/kernels_lines.h"

#include <stdio.h>

static const int16_t *row_words(const struct line_recipe *r, int row) {
    const int16_t *word = r->word;
    while (row-- > 0)
        word += 5 + word[4];
    return word;
}

static expr compute_row(const int16_t *word, const expr *input, const expr *value) {
    expr arg[3] = {NULL};
    for (int k = 0; k < word[4]; k++)
        arg[k] = word[5 + k] & GROUP_INPUT ? input[word[5 + k] & ~GROUP_INPUT] : value[word[5 + k]];
    return group_apply((enum tile_op)word[1], (zl_dtype)word[2], word[4], arg);
}

// A function of the inputs and the results of reductions that gives the value of a row, or an input, by its reference.
static struct tile_kernel *build(const struct line_recipe *r, int wanted) {
    expr input[KERNEL_OPERANDS], value[KERNEL_CALLS];
    int reductions = 0;
    tile_begin("lines");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    expr at = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < r->inputs; k++)
        input[k] = group_parameter('x', k, (zl_dtype)(r->input[k] >> 4), n, at);
    for (int k = 0; k < r->rows; k++) {
        const int16_t *word = row_words(r, k);
        value[k] = word[0] ? group_parameter('r', reductions++, (zl_dtype)word[2], n, at)
                           : compute_row(word, input, value);
    }
    group_store(1, wanted & GROUP_INPUT ? &input[wanted & ~GROUP_INPUT] : &value[wanted], i, n);
    return tile_end();
}

static const char *part(zl_dtype dtype) { // as element functions take it
    return dtype == ZL_COMPLEX64 ? "f32" : kernel_memory_type(dtype);
}

static zl_dtype input_dtype(const struct line_recipe *r, int k) {
    return (zl_dtype)(r->input[k] >> 4);
}

static zl_dtype row_dtype(const struct line_recipe *r, int row) {
    return (zl_dtype)row_words(r, row)[2];
}

// The inputs at element i, of those that differ along a line.
static void add_loads(struct text *out, const struct line_recipe *r) {
    for (int k = 0; k < r->inputs; k++)
        if (r->input[k] % 16 == LINE_FLAT)
            text_add(out, "        %s a%d = x%d[i];\n", kernel_memory_type(input_dtype(r, k)), k, k);
        else if (r->input[k] % 16 == LINE_STRIDED)
            text_add(out, "        %s a%d = x%d[i * d%d];\n", kernel_memory_type(input_dtype(r, k)), k, k, k);
}

static void add_operands(struct text *out, const struct line_recipe *r) {
    for (int k = 0; k < r->inputs; k++)
        text_add(out, ", (const %s *)&a%d", part(input_dtype(r, k)), k);
    for (int k = 0; k < r->reductions; k++)
        text_add(out, ", (const %s *)&r%d", part(row_dtype(r, r->reduction[k])), k);
    text_add(out, ");\n");
}

static bool add_functions(struct text *out, const struct line_writer *w) {
    const struct line_recipe *r = w->r;
    char name[24];
    bool good = true;
    for (int k = 0; good && k < r->reductions; k++) {
        const int16_t *word = row_words(r, r->reduction[k]);
        zl_dtype from = (zl_dtype)word[3], to = (zl_dtype)word[2], wide = tile_reduce_gives(from);
        snprintf(name, sizeof name, "value%d", k);
        good = kernel_element(out, build(r, word[5]), w->dialect, name);
        snprintf(name, sizeof name, "step%d", k);
        good =
            good && kernel_element(out, tile_row_kernel((enum tile_op)word[1], wide, "vv"), w->dialect, name);
        snprintf(name, sizeof name, "widen%d", k);
        good = good && kernel_element(out, tile_cast_kernel(wide, from), w->dialect, name);
        snprintf(name, sizeof name, "narrow%d", k);
        good = good && kernel_element(out, tile_cast_kernel(to, wide), w->dialect, name);
    }
    for (int k = 0; good && k < r->outputs; k++) {
        snprintf(name, sizeof name, "result%d", k);
        good = kernel_element(out, build(r, r->output[k] >> 1), w->dialect, name);
    }
    return good;
}

static void add_parameters(struct text *out, const struct line_recipe *r) {
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
static void add_lines(struct text *out, const struct line_recipe *r) {
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
    text_add(out,
             "        { %s next; step%d((%s *)&next, (const %s *)&s%d, (const %s *)&%s); s%d = next; }\n",
             kernel_memory_type(wide), k, part(wide), part(wide), k, part(wide), more, k);
}

static void add_reduction(struct text *out, const struct line_recipe *r, int k) {
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
    text_add(out, "        %s more;\n        widen%d((%s *)&more, (const %s *)&given);\n", type, k,
             part(wide), part(from));
    add_step(out, k, wide, "more");
    text_add(out,
             "    }\n    room%d[THREAD] = s%d;\n    BARRIER;\n"
             "    for (i32 span = THREADS / 2; span > 0; span /= 2) {\n        if (THREAD < span) {\n"
             "        %s more = room%d[THREAD + span];\n",
             k, k, type, k);
    add_step(out, k, wide, "more");
    text_add(out,
             "        room%d[THREAD] = s%d;\n        }\n        BARRIER;\n    }\n    s%d = room%d[0];\n"
             "    narrow%d((%s *)&r%d, (const %s *)&s%d);\n",
             k, k, k, k, k, part(to), k, part(wide), k);
}

static void add_output(struct text *out, const struct line_recipe *r, int k, const char *at) {
    zl_dtype dtype = row_dtype(r, r->output[k] >> 1);
    text_add(out, "        { %s b; result%d((%s *)&b", kernel_memory_type(dtype), k, part(dtype));
    add_operands(out, r);
    text_add(out, "        y%d[%s] = b; }\n", k, at);
}

static void add_outputs(struct text *out, const struct line_recipe *r) {
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

bool kernel_write_lines(struct text *out, const void *data) {
    const struct line_writer *w = data;
    const struct line_recipe *r = w->r;
    int strides = 0;
    for (int k = 0; k < r->inputs; k++)
        strides += r->input[k] % 16 != LINE_VALUE;
    kernel_begin(out, w->dialect, r->wide);
    if (!add_functions(out, w))
        return false;
    text_add(out, "struct zl_axes { idx dim[%d]; idx stride[%d][%d]; };\nKERNEL zl_kernel(", KERNEL_AXES,
             MAX_OF(strides, 1), KERNEL_AXES);
    add_parameters(out, r);
    text_add(out, ") {\n");
    for (int k = 0; k < r->reductions; k++) {
        const int16_t *word = row_words(r, r->reduction[k]);
        text_add(out, "    LOCAL %s room%d[%d];\n", kernel_memory_type(tile_reduce_gives((zl_dtype)word[3])),
                 k, LINE_THREADS);
    }
    for (int k = 0; k < r->reductions; k++) // read before it is known only by what does not use it
        text_add(out,
                 row_dtype(r, r->reduction[k]) == ZL_COMPLEX64 ? "    %s r%d = {{0, 0}};\n"
                                                               : "    %s r%d = 0;\n",
                 kernel_memory_type(row_dtype(r, r->reduction[k])), k);
    add_lines(out, r);
    for (int k = 0; k < r->reductions; k++)
        add_reduction(out, r, k);
    add_outputs(out, r);
    return true;
}
