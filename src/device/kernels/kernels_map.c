// kernels_map.c - elementwise calls of one shape as one kernel.
//
// How far a group of calls goes is found at each run, when sizes are known. Its recipe says what it computes: it is the
// kernel's key, and all that its text is made from.

#include "device/kernels/kernels_map.h"

#include <string.h>

enum {
    PACK_BYTES = 16,   // that a thread reads at once
    PACK_LEAST = 4096, // elements from which it does
    TWICE_WIDTH = 8,   // of so many elements it reads two packs, before it computes: they take long
    TWICE_LEAST = 1 << 22,
};

struct map_group {
    struct kernel_group g;
    struct map_recipe r;
    zl_array first;         // of the outputs
    struct kernel_layout l; // of the inputs
};

// Finding ----------------------------------------------------------------------------------------------------------

// A view of a result of the group that is all of it, as it lies.
static bool is_alias(const struct kernel_group *g, int index) {
    zl_array out = group_output(g, index), x = g->call[index]->in[0];
    return group_step(g, index)->inputs == 1 && group_step(g, index)->source[0] >= g->begin &&
           group_has_shape(g, out) && shape_lies_alike(g->ndim, g->dim, array_stride(out), array_stride(x)) &&
           out->offset == 0 && out->dtype == x->dtype;
}

static bool joins(const struct kernel_group *g, int index) {
    const struct kernel_step *s = group_step(g, index);
    if (s->kind == STEP_MAP)
        return group_has_shape(g, group_output(g, index)) && group_is_ready(g, index);
    return s->kind == STEP_VIEW && is_alias(g, index);
}

static void add(struct map_recipe *r, int word) {
    r->word[r->words++] = (int16_t)word;
}

// A reference to what operand k of a call is; -1: there are too many inputs.
static int refer(struct kernel_group *g, int index, int k) {
    int source = group_source(g, index, k);
    if (source >= 0)
        return g->row[source - g->begin];
    int input =
        group_input(g, g->call[index]->in[k], (zl_dtype)group_step(g, index)->dtype[k + 1], GROUP_ITSELF);
    return input < 0 ? -1 : GROUP_INPUT | input;
}

// To the inverse of the number that a call divides by.
static int refer_inverse(struct kernel_group *g, int index, zl_dtype dtype) {
    int input = group_input(g, g->call[index]->in[1], dtype, group_step(g, index)->dtype[2]);
    return input < 0 ? -1 : GROUP_INPUT | input;
}

static int op_of(const struct kernel_group *g, int index) {
    const struct op *op = g->call[index]->op;
    if (op->kind != OP_ELEMENTWISE)
        return TILE_CAST;
    return (int)op->row == TILE_DIV ? group_division(g, index) : (int)op->row;
}

static bool add_row(struct map_group *m, int index) {
    struct kernel_group *g = &m->g;
    const struct kernel_step *s = group_step(g, index);
    int op = op_of(g, index), inputs = s->inputs, reference[4];
    bool is_product = op == TILE_MUL && op != (int)g->call[index]->op->row;
    for (int k = 0; k < inputs; k++)
        reference[k] =
            is_product && k == 1 ? refer_inverse(g, index, (zl_dtype)s->dtype[2]) : refer(g, index, k);
    if (op == GROUP_QUOTIENT)
        reference[inputs++] = refer_inverse(g, index, ZL_FLOAT32);
    g->row[index - g->begin] = m->r.rows++;
    add(&m->r, op);
    add(&m->r, s->dtype[0]);
    add(&m->r, inputs);
    for (int k = 0; k < inputs; k++) {
        if (reference[k] < 0)
            return false;
        add(&m->r, reference[k]);
    }
    return true;
}

// Results lie without gaps, but their axes may be in any order: the kernel walks them in that of the first.
static bool outputs_lie_alike(struct map_group *m) {
    const struct kernel_group *g = &m->g;
    m->first = NULL;
    for (int i = g->begin; i < g->end; i++) {
        zl_array out = group_output(g, i);
        if (!group_has_output(g, i))
            continue;
        if (m->first && !shape_lies_alike(g->ndim, g->dim, array_stride(out), array_stride(m->first)))
            return false;
        m->first = m->first ? m->first : out;
    }
    return m->first != NULL;
}

// What the group computes; false: it has too many operands, or results that do not lie alike.
static bool write_rows(struct map_group *m) {
    struct kernel_group *g = &m->g;
    int outputs = group_find_stored(g);
    if (!outputs_lie_alike(m))
        return false;
    g->inputs = 0;
    m->r.words = m->r.rows = m->r.outputs = 0;
    for (int i = g->begin; i < g->end; i++) {
        g->in_place[i - g->begin] = true; // a thread reads all of its elements before it writes one
        if (group_step(g, i)->kind == STEP_MAP && (!add_row(m, i) || g->inputs + outputs > KERNEL_OPERANDS))
            return false;
    }
    for (int i = g->begin; i < g->end; i++)
        if (group_has_output(g, i))
            m->r.output[m->r.outputs++] = g->row[i - g->begin];
    m->r.inputs = (int16_t)g->inputs;
    return true;
}

// Why the group goes no further; NULL: the calls end.
static const char *find(struct map_group *m, int calls) {
    struct kernel_group *g = &m->g;
    zl_array out = group_output(g, g->begin);
    int most = MIN_OF(calls, g->begin + (g->program->fuses ? KERNEL_CALLS : 1));
    g->ndim = out->ndim;
    g->dim = out->dim;
    g->end = g->begin + 1;
    while (g->end < most && group_is_ready(g, g->begin) && joins(g, g->end))
        g->end++;
    const char *why = g->end == calls                           ? NULL
                      : g->end == most                          ? "a kernel has 32 calls at most"
                      : group_step(g, g->end)->kind == STEP_MAP ? "what follows has another shape"
                                                                : "what follows is not elementwise";
    while (!write_rows(m)) {
        g->end--;
        why = "a kernel has 12 operands at most, and results that lie alike";
    }
    while (group_step(g, g->end - 1)->kind == STEP_VIEW)
        g->end--;
    write_rows(m);
    return why;
}

int kernel_count_maps(const struct program *program, struct call *const *call, int calls, int index,
                      const char **why) {
    struct map_group m = {.g = {.program = program, .call = call, .begin = index}};
    *why = find(&m, calls);
    return m.g.end - m.g.begin;
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

static enum map_form form_of(const struct map_group *m, int at) {
    if (array_is(m->g.input[at], ARRAY_INLINE))
        return FORM_VALUE;
    if (m->g.input[at]->size == 1)
        return FORM_ONE;
    return is_flat(&m->l, at) ? FORM_FLAT : FORM_STRIDED;
}

// Elements that a thread takes at once: as many as 16 bytes hold of the widest.
static int widest_pack(const struct map_group *m) {
    const struct kernel_group *g = &m->g;
    size_t item = 1;
    for (int i = 0; i < g->inputs; i++)
        if (m->r.input[i] % 16 <= FORM_STRIDED)
            item = MAX_OF(item, zl_dtype_size(g->dtype[i]));
    for (int i = g->begin; i < g->end; i++)
        if (g->stored[i - g->begin])
            item = MAX_OF(item, array_item(group_output(g, i)));
    return PACK_BYTES / (int)item;
}

// Whether packs of a strided input lie as they are read: along the last axis, which is made of whole ones.
static bool strides_fit(const struct map_group *m, int at, int width) {
    const int64_t *stride = m->l.stride[at];
    int last = m->l.axes - 1;
    bool fits = m->l.dim[last] % width == 0 && (stride[last] == 0 || stride[last] == 1);
    for (int i = 0; i < last && stride[last] == 1; i++)
        fits &= stride[i] % width == 0;
    return fits;
}

static int width_of(const struct map_group *m) {
    int width = widest_pack(m);
    if (m->l.size < PACK_LEAST || width < 2)
        return 1;
    for (int i = 0; i < m->g.inputs; i++) {
        int form = m->r.input[i] % 16;
        if (form == FORM_STRIDED && !strides_fit(m, i, width))
            return 1;
        bool one = form == FORM_STRIDED && m->l.stride[i][m->l.axes - 1] == 0;
        if (form <= FORM_STRIDED && !one && m->g.input[i]->offset % width)
            return 1;
    }
    return width;
}

static void lay_out(struct map_group *m) {
    const struct kernel_group *g = &m->g;
    layout_of(&m->l, m->first, g->inputs, g->input);
    for (int i = 0; i < g->inputs; i++)
        m->r.input[i] = (int16_t)((int)form_of(m, i) | (int)g->dtype[i] << 4);
    m->r.wide = layout_is_wide(&m->l);
    m->r.width = (int16_t)width_of(m);
    m->r.packs = m->r.width >= TWICE_WIDTH && m->l.size >= TWICE_LEAST && !map_strided_inputs(&m->r) ? 2 : 1;
    for (int i = 0; m->r.width > 1 && i < g->inputs; i++)
        if (m->r.input[i] % 16 == FORM_STRIDED) {
            int form = m->l.stride[i][m->l.axes - 1] ? FORM_ROWS : FORM_SAME;
            m->r.input[i] = (int16_t)((m->r.input[i] & ~15) | form);
        }
}

static void *find_kernel(const struct kernel_place *p, const struct map_recipe *r) {
    struct map_writer w = {r, p->target->dialect};
    return kernel_find(p, r, offsetof(struct map_recipe, word) + sizeof r->word[0] * (size_t)r->words,
                       kernel_write_map, &w);
}

// Running ----------------------------------------------------------------------------------------------------------

// One launch, with more offset for each input, and where the outputs go on.
static bool launch(const struct kernel_place *p, void *kernel, const struct map_group *m,
                   const struct kernel_layout *l, const int64_t *offset, int64_t from) {
    struct kernel_call k;
    unsigned strided = 0;
    kernel_begin_call(&k);
    bool ok = group_add_outputs(p, &k, &m->g);
    for (int i = 0; ok && i < m->g.inputs; i++) {
        strided |= (unsigned)form_is_strided(m->r.input[i] % 16) << i;
        ok = group_add_input(p, &k, &m->g, i, offset[i]);
    }
    kernel_add_int(&k, l->size, m->r.wide);
    if (strided) {
        kernel_add_int(&k, from, true);
        kernel_add_axes(&k, l, strided, m->r.wide);
        kernel_add_int(&k, l->axes, false);
    }
    int64_t each = (int64_t)KERNEL_THREADS * m->r.width * m->r.packs;
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
static bool launch_all(const struct kernel_place *p, void *kernel, const struct map_group *m,
                       const struct kernel_layout *l, const int64_t *offset, int64_t from) {
    if (l->axes <= KERNEL_AXES || !map_strided_inputs(&m->r))
        return launch(p, kernel, m, l, offset, from);
    struct kernel_layout inner = *l;
    int64_t at[KERNEL_OPERANDS];
    drop_first(&inner);
    for (int64_t i = 0; i < l->dim[0]; i++) {
        for (int k = 0; k < m->g.inputs; k++)
            at[k] = offset[k] + i * l->stride[k][0];
        if (!launch_all(p, kernel, m, &inner, at, from + i * inner.size))
            return false;
    }
    return true;
}

static bool is_copy(const struct map_group *m) {
    const struct map_recipe *r = &m->r;
    return r->rows == 1 && r->word[0] == TILE_CAST && (zl_dtype)r->word[1] == m->g.dtype[0] &&
           form_is_strided(r->input[0] % 16);
}

// The only input and the output, which lies without gaps in the order of the axes. False: it is no copy, or not across.
static bool is_transpose(const struct map_group *m, struct kernel_layout *out) {
    int64_t dense = m->l.size;
    if (!is_copy(m))
        return false;
    layout_begin(out, 2);
    for (int i = 0; i < m->l.axes; i++) {
        dense /= m->l.dim[i];
        layout_push(out, m->l.dim[i], (const int64_t[]){dense, m->l.stride[0][i]});
    }
    return kernel_is_transpose(out);
}

static bool run(const struct kernel_place *p, struct kernel_group *g) {
    static const int64_t none[KERNEL_OPERANDS];
    struct map_group *m = (struct map_group *)g;
    struct kernel_layout across;
    lay_out(m);
    if (m->l.size == 0)
        return true;
    if (is_transpose(m, &across)) {
        zl_array x = g->input[0], y = group_output(g, g->begin);
        return kernel_transpose(p, array_item(x), &across, (struct kernel_end){kernel_reach(p, y), y->offset},
                                (struct kernel_end){kernel_reach(p, x), x->offset});
    }
    void *kernel = find_kernel(p, &m->r);
    return kernel && launch_all(p, kernel, m, &m->l, none, 0);
}

// Only what is read of it is set: the rest is large.
int kernel_run_maps(const struct kernel_place *p, const struct program *program, struct binding *b,
                    int index) {
    struct map_group m;
    m.g = (struct kernel_group){.program = program, .call = b->call, .begin = index};
    memset(&m.r, 0, offsetof(struct map_recipe, word));
    find(&m, b->calls);
    return group_run(&m.g, b, run, p);
}
