// kernels_columns.c - runs groups of calls with reductions over leading axes as one kernel or two: statistics
// of a batch norm, gradients of weights that all rows share.
//
// The group's elements form a matrix: leading axes are its rows, the others its columns. Threads go down the
// columns; they compute elements and add them up, without writing those that only a sum reads. Ops on the
// sums, one element per column, are part of the same kernel. If columns are divided into parts, a second
// kernel joins the parts and computes those ops.

#include "device/kernels/kernels_columns.h"

#include <stdlib.h>
#include <string.h>

enum {
    PACK_BYTES = 16,   // bytes that a thread reads at once
    PACK_LEAST = 4096, // elements from which packs are used
};

struct columns {
    struct kernel_group g;
    struct column_recipe r;
    struct kernel_layout rows, kept; // layouts of the inputs: down the columns, and across them
    struct kernel_split split;
};

// Finding ---------------------------------------------------------------------------------------------------

static bool joins(struct fuse_group *g, int index) {
    const struct fuse_row *r = fuse_row(g, index);
    if (r->kind == ROW_REDUCE)
        return kernel_can_reduce(g->call[index]);
    if (r->kind == ROW_ASIDE)
        return true;
    if (r->kind == ROW_VIEW && !r->of_lines)
        return array_is(fuse_output(g, index), ARRAY_CONTIGUOUS) &&
               array_is(g->call[index]->in[0], ARRAY_CONTIGUOUS);
    const struct fuse_step *s = fuse_step(g, index);
    return s->dtype[0] != ZL_COMPLEX64 && s->dtype[s->inputs] != ZL_COMPLEX64; // packs: no complex
}

// Writes the recipe of the group, if its results are row-major.
static enum fuse_end write_rows(struct fuse_group *g) {
    struct columns *m = (struct columns *)g;
    for (int i = g->begin; i < g->end; i++)
        if (fuse_is_output(g, i) && !array_is(fuse_output(g, i), ARRAY_CONTIGUOUS))
            return FUSE_END_ORDER;
    return kernel_group_write(&m->g, &m->r.f, NULL) ? FUSE_END_NONE : FUSE_END_OPERANDS;
}

static const struct fuse_limits limits = {.calls = FUSE_CALLS,
                                          .operands = KERNEL_OPERANDS,
                                          .reductions = COLUMN_REDUCTIONS,
                                          .line_least = 2,
                                          .line_most = INT64_MAX,
                                          .asides = true,
                                          .joins = joins,
                                          .fits = write_rows};

static void list_reductions(struct column_recipe *r) {
    for (int row = 0; row < r->f.rows; row++)
        if (r->f.row[row].kind == ROW_REDUCE)
            r->reduction[r->reductions++] = (int16_t)row;
}

// Finds the group of columns that begins at a call. Returns false if there is none.
static bool find(struct columns *m, const struct program *program, struct call *const *call, int index) {
    struct fuse_group *g = &m->g.f;
    *g = (struct fuse_group){.steps = &program->steps, .call = call, .limits = &limits, .begin = index};
    g->columns = fuse_columns_ahead(&program->steps, call, index);
    memset(&m->r, 0, offsetof(struct column_recipe, f)); // f is large, and is set by fuse_write
    memcpy(m->r.name, "columns", sizeof "columns");
    if (!g->columns || !fuse_find(g) || g->end - g->begin < 2)
        return false;
    list_reductions(&m->r);
    return m->r.reductions && m->r.f.rows > 1;
}

// Layout ----------------------------------------------------------------------------------------------------

static void push_axes(const struct columns *m, struct kernel_layout *l, int begin, int end) {
    const struct kernel_group *g = &m->g;
    kernel_layout_begin(l, g->inputs);
    for (int i = begin; i < end; i++) {
        int64_t stride[KERNEL_OPERANDS];
        for (int k = 0; k < g->inputs; k++)
            stride[k] = kernel_layout_stride(g->input[k], g->f.ndim, i);
        kernel_layout_push(l, g->f.dim[i], stride);
    }
}

static int64_t across(const struct columns *m, int input) { // the distance between neighbouring columns
    return m->kept.axes ? m->kept.stride[input][0] : 0;
}

static int form_of(const struct columns *m, int input) {
    bool varies = false;
    if (array_is(m->g.input[input], ARRAY_INLINE))
        return FUSE_SCALAR;
    for (int i = 0; i < m->rows.axes; i++)
        varies |= m->rows.stride[input][i] != 0;
    return varies ? (across(m, input) ? FUSE_VECTOR : COLUMN_SAME)
                  : (across(m, input) ? COLUMN_ONCE : FUSE_ONE);
}

static bool is_in_packs(const struct columns *m, int input) {
    int form = fuse_form(&m->r.f, input);
    return form == FUSE_VECTOR || form == COLUMN_ONCE;
}

static int item_of(const struct column_recipe *r) { // bytes of the widest elements that are reduced
    int item = 1;
    for (int k = 0; k < r->reductions; k++)
        item = MAX_OF(item, (int)zl_dtype_size((zl_dtype)column_reduction(r, k)->from));
    return item;
}

// Returns the elements of a pack: as many elements of the widest reduced dtype as 16 bytes hold, if the
// columns are a multiple of that and inputs begin at multiples of it in every row; else, or for a small
// group, 1.
static int width_for(const struct columns *m) {
    int width = PACK_BYTES / item_of(&m->r);
    bool fits =
        m->kept.size % width == 0 && (m->kept.size * m->rows.size >= PACK_LEAST || device_batch_invariant());
    for (int i = 0; i < m->g.inputs && fits; i++) {
        if (!is_in_packs(m, i))
            continue;
        fits = m->g.input[i]->offset % width == 0;
        for (int axis = 0; axis < m->rows.axes; axis++)
            fits = fits && m->rows.stride[i][axis] % width == 0;
    }
    return fits ? width : 1;
}

// Sets the layouts and the forms of inputs. Returns false if the columns of an input are neither contiguous
// nor one element, or if rows need more axes than kernels support.
static bool lay_out(struct columns *m) {
    const struct fuse_group *g = &m->g.f;
    push_axes(m, &m->rows, 0, g->columns);
    push_axes(m, &m->kept, g->columns, g->ndim);
    if (m->kept.axes != 1 || m->rows.axes == 0 || m->rows.axes > KERNEL_AXES)
        return false;
    for (int k = 0; k < m->g.inputs; k++) {
        if (across(m, k) != 0 && across(m, k) != 1)
            return false;
        fuse_set_input(&m->r.f, k, form_of(m, k), m->g.dtype[k]);
    }
    m->r.single = m->rows.axes == 1;
    m->r.width = (int16_t)width_for(m);
    return true;
}

// Running ---------------------------------------------------------------------------------------------------

static int64_t in_packs(const struct columns *m, int input, int64_t elements) {
    return is_in_packs(m, input) ? elements / m->r.width : elements;
}

static bool add_inputs(const struct kernel_place *p, struct kernel_call *k, const struct columns *m) {
    struct kernel_layout rows = m->rows;
    int64_t first[KERNEL_OPERANDS] = {0};
    bool ok = true;
    for (int i = 0; ok && i < m->g.inputs; i++) {
        if (column_reads(&m->r, i))
            ok = kernel_group_add_input(p, k, &m->g, i);
        if (fuse_form(&m->r.f, i) != FUSE_SCALAR)
            first[i] = in_packs(m, i, m->g.input[i]->offset);
        for (int axis = 0; axis < rows.axes; axis++)
            rows.stride[i][axis] = in_packs(m, i, rows.stride[i][axis]);
    }
    kernel_add_table(k, &rows, m->r.wide);
    kernel_add_rows(k, 1, MAX_OF(m->g.inputs, 1), first, KERNEL_OPERANDS, m->r.wide);
    return ok;
}

static bool add_outputs(const struct kernel_place *p, struct kernel_call *k, const struct columns *m) {
    const struct fuse_group *g = &m->g.f;
    bool ok = true;
    for (int i = g->begin, output = 0; ok && i < g->end; i++)
        if (fuse_is_output(g, i) && column_writes(&m->r, output++))
            ok = kernel_add_array(p, k, fuse_output(g, i));
    return ok;
}

// Launches one stage. COLUMN_PARTS writes the parts of columns, and COLUMN_JOIN reads them.
static bool launch(const struct kernel_place *p, const struct columns *m, const struct kernel_scratch *part) {
    struct kernel_call k;
    bool is_join = m->r.stage == COLUMN_JOIN;
    int64_t size[5 + KERNEL_OPERANDS] = {m->kept.size / m->r.width, is_join ? m->split.parts : m->rows.size,
                                         is_join ? 1 : m->split.parts,
                                         is_join ? m->split.parts : m->split.each, layout_inner(&m->rows)};
    int sizes = 5;
    for (int i = 0; i < m->g.inputs; i++)
        if (column_reads(&m->r, i) && fuse_form(&m->r.f, i) != FUSE_SCALAR)
            size[sizes++] = kernel_elements(m->g.input[i]);
    size_t bytes = offsetof(struct column_recipe, f.row) + sizeof m->r.f.row[0] * (size_t)m->r.f.rows;
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &m->r, bytes, column_build, &m->r);
    kernel_begin_call(&k);
    for (int i = 0; is_join && i < m->r.reductions; i++)
        kernel_add_memory(&k, part[i].memory);
    if (!kernel || !add_inputs(p, &k, m) || !add_outputs(p, &k, m))
        return false;
    for (int i = 0; m->r.stage == COLUMN_PARTS && i < m->r.reductions; i++)
        kernel_add_memory(&k, part[i].memory);
    return kernel_launch_tiles(p, kernel, &k, sizes, size);
}

static bool launch_parts(const struct kernel_place *p, struct columns *m) {
    struct kernel_scratch part[COLUMN_REDUCTIONS] = {{0}};
    int64_t lines = m->kept.size / m->r.width;
    int pack = 0;
    bool done = true;
    for (int k = 0; done && k < m->r.reductions; k++) {
        int item = (int)zl_dtype_size(column_sum(&m->r, k));
        pack = MAX_OF(pack, m->r.width * item);
        done = kernel_scratch_open(p, &part[k], (size_t)(m->split.parts * m->kept.size) * (size_t)item);
    }
    m->r.stage = COLUMN_PARTS;
    done = done && launch(p, m, part);
    m->r.stage = COLUMN_JOIN;
    m->r.lanes = (int16_t)kernel_column_lanes(lines, m->split.parts, pack);
    done = done && launch(p, m, part);
    for (int k = 0; k < m->r.reductions; k++)
        kernel_scratch_close(p, &part[k]);
    return done;
}

static bool is_wide(const struct columns *m) {
    bool wide = kernel_layout_is_wide(&m->rows) ||
                m->kept.size * MAX_OF(m->rows.size, m->split.parts) > KERNEL_NARROW;
    for (int k = 0; k < m->g.inputs; k++)
        wide |= kernel_elements(m->g.input[k]) > KERNEL_NARROW;
    return wide;
}

static bool run(struct fuse_group *f) {
    struct columns *m = (struct columns *)f;
    const struct kernel_place *p = m->g.place;
    m->split = kernel_split_columns(m->kept.size / m->r.width, m->rows.size, m->r.width * item_of(&m->r));
    m->r.lanes = (int16_t)m->split.lanes;
    m->r.wide = is_wide(m);
    return m->split.parts > 1 ? launch_parts(p, m) : launch(p, m, NULL);
}

int kernel_run_columns(const struct kernel_place *p, const struct program *program, struct binding *b,
                       int index) {
    struct columns m;
    return find(&m, program, b->call, index) && lay_out(&m) ? kernel_group_run(&m.g, b, run, p) : 0;
}

int kernel_count_columns(const struct program *program, struct call *const *call, int index) {
    struct columns m;
    return find(&m, program, call, index) && lay_out(&m) ? m.g.f.end - m.g.f.begin : 0;
}
