// kernels_map.c - runs groups of elementwise calls of one shape as one kernel.
//
// The key of the kernel is the group's recipe with what is chosen here for its sizes; the kernel is built
// from it alone (fuse/map.c).

#include "device/kernels/kernels_group.h"

#include <math.h>
#include <string.h>

enum {
    RUN_BYTES = 16,   // bytes that a thread reads at once
    RUN_LEAST = 4096, // elements from which it reads runs
    TWICE_WIDTH = 8,  // with runs of so many elements, a thread reads two runs before it computes, which
                      // takes long
    TWICE_LEAST = 1 << 22,
};

struct map_group {
    struct kernel_group g;
    struct fuse_map r;
    zl_array first;         // the first output
    struct kernel_layout l; // layout of the inputs
};

// Finding ---------------------------------------------------------------------------------------------------

// Returns how a division is computed: as a product, if the divisor is a power of two, whose inverse is exact;
// as a FUSE_QUOTIENT, if it is another scalar of a usual magnitude in f16, bf16 or f32; else as it is.
static int divide(const struct fuse_writer *w, int index) {
    zl_array by = w->g->call[index]->in[1];
    zl_dtype dtype = (zl_dtype)fuse_step(w->g, index)->dtype[2];
    bool is_half = dtype == ZL_FLOAT16, is_short = is_half || dtype == ZL_BFLOAT16 || dtype == ZL_FLOAT32;
    if (fuse_source(w->g, index, 1) >= 0 || !array_is(by, ARRAY_INLINE) || !(is_short || dtype == ZL_FLOAT64))
        return TILE_DIV;
    double size = fabs(scalar_as(by, dtype).f);
    int exponent;
    if (!(size >= (is_half ? 0x1p-14 : fuse_plain_least) && size <= (is_half ? 0x1p14 : fuse_plain_most)))
        return TILE_DIV;
    return frexp(size, &exponent) == 0.5 ? TILE_MUL : is_short ? FUSE_QUOTIENT : TILE_DIV;
}

// Returns whether all results have the same order of axes. They are dense, and the kernel walks the axes in
// the order of the first result.
static bool outputs_lie_alike(struct map_group *m) {
    const struct fuse_group *g = &m->g.f;
    m->first = NULL;
    for (int i = g->begin; i < g->end; i++) {
        zl_array out = fuse_output(g, i);
        if (!fuse_is_output(g, i))
            continue;
        if (m->first && !shape_same_layout(g->ndim, g->dim, array_stride(out), array_stride(m->first)))
            return false;
        m->first = m->first ? m->first : out;
    }
    return m->first != NULL;
}

static enum fuse_end write_rows(struct fuse_group *g) {
    struct map_group *m = (struct map_group *)g;
    if (!outputs_lie_alike(m))
        return FUSE_END_ORDER;
    return kernel_group_write(&m->g, &m->r.f, divide) ? FUSE_END_NONE : FUSE_END_OPERANDS;
}

static const struct fuse_limits limits = {.calls = FUSE_CALLS,
                                          .operands = KERNEL_OPERANDS,
                                          .line_least = GROUP_LINE_LEAST,
                                          .line_most = INT64_MAX,
                                          .lines_least = GROUP_LINES_LEAST,
                                          .line_short = GROUP_LINE_SHORT,
                                          .asides = true,
                                          .fits = write_rows};

// Finds the group that begins at a call. A call that is not ready is a group by itself, and fails when it
// runs.
static void find(struct map_group *m, const struct program *program, struct call *const *call, int index) {
    struct fuse_group *g = &m->g.f;
    *g = (struct fuse_group){.steps = &program->steps, .call = call, .limits = &limits, .begin = index};
    if (program->fuses && fuse_find(g))
        return;
    g->ndim = call_first(call[index])->ndim;
    g->dim = call_first(call[index])->dim;
    g->end = index + 1;
    fuse_find_uses(g);
    write_rows(g);
}

int kernel_count_maps(const struct program *program, struct call *const *call, int index, struct text *why) {
    struct map_group m;
    find(&m, program, call, index);
    fuse_explain(&m.g.f, why);
    return m.g.f.end - m.g.f.begin;
}

// Layout ----------------------------------------------------------------------------------------------------

static bool is_flat(const struct kernel_layout *l, int operand) {
    int64_t expected = 1;
    for (int i = l->axes - 1; i >= 0; i--) {
        if (l->stride[operand][i] != expected)
            return false;
        expected *= l->dim[i];
    }
    return true;
}

static int form_of(const struct map_group *m, int at) {
    if (array_is(m->g.input[at], ARRAY_INLINE))
        return FUSE_SCALAR;
    if (m->g.input[at]->size == 1)
        return FUSE_ONE;
    return is_flat(&m->l, at) ? FUSE_VECTOR : FUSE_STRIDED;
}

// Returns whether a thread reads more than one element of an input.
static bool has_runs(const struct map_group *m, int at) {
    int form = fuse_form(&m->r.f, at);
    return form == FUSE_VECTOR || form == FUSE_STRIDED;
}

// Returns the elements that a thread takes at once: as many of the widest dtype as 16 bytes hold.
static int widest_run(const struct map_group *m) {
    const struct kernel_group *g = &m->g;
    size_t item = 1;
    for (int i = 0; i < g->inputs; i++)
        if (has_runs(m, i))
            item = MAX_OF(item, zl_dtype_size(g->dtype[i]));
    for (int i = g->f.begin; i < g->f.end; i++)
        if (fuse_is_output(&g->f, i))
            item = MAX_OF(item, array_item(fuse_output(&g->f, i)));
    return RUN_BYTES / (int)item;
}

// Returns whether a strided input can be read in runs: along the last axis, which has to be a multiple of the
// width, its elements are contiguous or all the same.
static bool strides_fit(const struct map_group *m, int at, int width) {
    const int64_t *stride = m->l.stride[at];
    int last = m->l.axes - 1;
    bool fits = m->l.dim[last] % width == 0 && (stride[last] == 0 || stride[last] == 1);
    for (int i = 0; i < last && stride[last] == 1; i++)
        fits &= stride[i] % width == 0;
    return fits;
}

static bool width_fits(const struct map_group *m, int width) {
    for (int i = 0; i < m->g.inputs; i++) {
        bool strided = fuse_form(&m->r.f, i) == FUSE_STRIDED;
        if (strided && !strides_fit(m, i, width))
            return false;
        bool one = strided && m->l.stride[i][m->l.axes - 1] == 0;
        if (has_runs(m, i) && !one && m->g.input[i]->offset % width)
            return false;
    }
    return true;
}

// Returns the width of runs. If not all inputs allow 16 bytes, runs may have a half or a quarter of that.
static int width_of(const struct map_group *m) {
    int widest = m->l.size < RUN_LEAST ? 1 : widest_run(m);
    for (int width = widest; width > 1 && 4 * width >= widest; width /= 2)
        if (width_fits(m, width))
            return width;
    return 1;
}

static void lay_out(struct map_group *m) {
    const struct kernel_group *g = &m->g;
    struct fuse_recipe *r = &m->r.f;
    kernel_layout_of(&m->l, m->first, g->inputs, g->input);
    int64_t most = m->l.size;
    for (int i = 0; i < g->inputs; i++) {
        fuse_set_input(r, i, form_of(m, i), g->dtype[i]);
        if (fuse_form(r, i) != FUSE_SCALAR)
            most = MAX_OF(most, kernel_layout_reach(&m->l, i, g->input[i]->offset));
    }
    m->r.wide = most > KERNEL_NARROW;
    m->r.width = (int16_t)width_of(m);
    m->r.runs = m->r.width >= TWICE_WIDTH && m->l.size >= TWICE_LEAST && !fuse_strided_inputs(r) ? 2 : 1;
    for (int i = 0; m->r.width > 1 && i < g->inputs; i++)
        if (fuse_form(r, i) == FUSE_STRIDED)
            fuse_set_input(r, i, m->l.stride[i][m->l.axes - 1] ? FUSE_ROWS : FUSE_SAME, g->dtype[i]);
}

// Running ---------------------------------------------------------------------------------------------------

// Appends the kernel's table of axes.
static void add_axes(struct kernel_call *k, const struct map_group *m, const struct kernel_layout *l) {
    int64_t value[KERNEL_OPERANDS + 1][KERNEL_AXES] = {{0}};
    int rows = 1;
    for (int i = 0; i < KERNEL_AXES; i++)
        value[0][i] = i < l->axes ? l->dim[l->axes - 1 - i] / (i ? 1 : m->r.width) : 1;
    for (int at = 0; at < m->g.inputs; at++) {
        int form = fuse_form(&m->r.f, at), by = form == FUSE_ROWS ? m->r.width : 1;
        for (int i = 0; fuse_is_strided(form) && i < l->axes; i++)
            value[rows][i] = l->stride[at][l->axes - 1 - i] / (i ? by : 1);
        rows += fuse_is_strided(form);
    }
    kernel_add_rows(k, rows, KERNEL_AXES, value[0], KERNEL_AXES, m->r.wide);
}

// Launches the kernel once, with offset[i] added to the position of input i, and with outputs from element
// `from` on.
static bool launch(const struct kernel_place *p, const struct kernel_tiles *kernel, const struct map_group *m,
                   const struct kernel_layout *l, const int64_t *offset, int64_t from) {
    int64_t size[2 * KERNEL_OPERANDS + 3] = {l->size};
    struct kernel_call k;
    int sizes = 1;
    bool ok = true;
    kernel_begin_call(&k);
    for (int i = 0; ok && i < m->g.inputs; i++) {
        ok = kernel_group_add_input(p, &k, &m->g, i);
        if (fuse_form(&m->r.f, i) != FUSE_SCALAR)
            size[sizes++] = m->g.input[i]->offset + offset[i];
    }
    if (fuse_strided_inputs(&m->r.f)) {
        add_axes(&k, m, l);
        size[sizes++] = layout_inner(l);
        size[sizes++] = from;
        for (int i = 0; i < m->g.inputs; i++)
            if (fuse_is_strided(fuse_form(&m->r.f, i)))
                size[sizes++] = kernel_layout_reach(l, i, m->g.input[i]->offset + offset[i]);
    }
    return ok && kernel_group_add_outputs(p, &k, &m->g) && kernel_launch_tiles(p, kernel, &k, sizes, size);
}

static void drop_first(struct kernel_layout *l) {
    l->size /= l->dim[0];
    l->axes--;
    memmove(l->dim, l->dim + 1, sizeof l->dim[0] * (size_t)l->axes);
    for (int k = 0; k < l->operands; k++)
        memmove(l->stride[k], l->stride[k] + 1, sizeof l->dim[0] * (size_t)l->axes);
}

// Launches the kernel. It walks up to KERNEL_AXES axes; the outer ones are walked here, with a launch for
// each index.
static bool launch_all(const struct kernel_place *p, const struct kernel_tiles *kernel,
                       const struct map_group *m, const struct kernel_layout *l, const int64_t *offset,
                       int64_t from) {
    if (l->axes <= KERNEL_AXES || !fuse_strided_inputs(&m->r.f))
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
    const struct fuse_recipe *r = &m->r.f;
    return r->rows == 1 && r->row[0].op == TILE_CAST && (zl_dtype)r->row[0].dtype == m->g.dtype[0] &&
           fuse_is_strided(fuse_form(r, 0));
}

// Writes the layout of a copy to *out: the output, which is dense in the order of the axes, and the input.
// Returns false if the group is not a copy, or if the copy is no transposition.
static bool is_transpose(const struct map_group *m, struct kernel_layout *out) {
    int64_t dense = m->l.size;
    if (!is_copy(m))
        return false;
    kernel_layout_begin(out, 2);
    for (int i = 0; i < m->l.axes; i++) {
        dense /= m->l.dim[i];
        kernel_layout_push(out, m->l.dim[i], (const int64_t[]){dense, m->l.stride[0][i]});
    }
    return kernel_is_transpose(out);
}

static bool run(struct fuse_group *f) {
    static const int64_t none[KERNEL_OPERANDS];
    struct map_group *m = (struct map_group *)f;
    const struct kernel_group *g = &m->g;
    const struct kernel_place *p = g->place;
    struct kernel_layout across;
    lay_out(m);
    if (m->l.size == 0)
        return true;
    if (is_transpose(m, &across)) {
        zl_array x = g->input[0], y = fuse_output(&g->f, g->f.begin);
        return kernel_transpose(p, array_item(x), &across, (struct kernel_end){kernel_reach(p, y), y->offset},
                                (struct kernel_end){kernel_reach(p, x), x->offset});
    }
    size_t bytes = offsetof(struct fuse_map, f.row) + sizeof m->r.f.row[0] * (size_t)m->r.f.rows;
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &m->r, bytes, fuse_make_map, &m->r);
    return kernel && launch_all(p, kernel, m, &m->l, none, 0);
}

int kernel_run_maps(const struct kernel_place *p, const struct program *program, struct binding *b,
                    int index) {
    struct map_group m;
    find(&m, program, b->call, index);
    return kernel_group_run(&m.g, b, run, p);
}
