// kernels_lines.c - runs groups of calls with reductions over the last axis as one kernel: softmax, norms.
//
// Several threads share a line and hold its elements in registers: each reads its part of the inputs once, in
// packs, and the stages between reductions compute from that. If a line is too long for this, each stage goes
// along it again and computes from the inputs, which are in the caches by then. So memory is read and written
// once.

#include "device/kernels/kernels_lines.h"

#include <stdlib.h>
#include <string.h>

enum {
    PACK_BYTES = 16, // bytes that a thread reads at once
    LINE_SHORT = 4096,
    HELD_LEAST = 16, // elements of a short line that a thread holds; four packs if those are more
    HELD_MOST = 32,  // most elements that a thread holds; twice as many if there is one input and all have 16
                     // bits
    WARP = 32,       // the fewest threads of a line
};

struct lines {
    struct kernel_group g;
    struct line_recipe r;
    struct kernel_layout l;        // axes of the inputs, across lines
    int64_t step[KERNEL_OPERANDS]; // the distance between neighbouring elements of a line
};

// Finding ---------------------------------------------------------------------------------------------------

static bool joins(struct fuse_group *g, int index) {
    const struct fuse_row *r = fuse_row(g, index);
    if (r->kind == ROW_VIEW && !r->of_lines)
        return array_is(fuse_output(g, index), ARRAY_CONTIGUOUS) &&
               array_is(g->call[index]->in[0], ARRAY_CONTIGUOUS);
    return true;
}

static const struct fuse_limits limits = {.calls = FUSE_CALLS,
                                          .reductions = LINE_REDUCTIONS,
                                          .line_least = GROUP_LINE_LEAST,
                                          .line_most = INT64_MAX,
                                          .joins = joins};

// Writes the recipe of the group. Returns false if it has too many operands or a result that is not
// row-major.
static bool write_rows(struct lines *m) {
    const struct fuse_group *g = &m->g.f;
    for (int i = g->begin; i < g->end; i++)
        if (fuse_is_output(g, i) && !array_is(fuse_output(g, i), ARRAY_CONTIGUOUS))
            return false;
    if (!kernel_group_write(&m->g, &m->r.f, NULL))
        return false;
    for (int row = 0; row < m->r.f.rows; row++)
        if (m->r.f.row[row].kind == ROW_REDUCE)
            m->r.reduction[m->r.reductions++] = (int16_t)row;
    return true;
}

// Returns whether there are so few lines that each may have more threads than is best for many lines. Returns
// false if the result of a line may not depend on the number of lines.
static bool are_few(int64_t lines) {
    return lines < GROUP_LINES_LEAST && !device_batch_invariant();
}

// Finds the group of lines that begins at a call. Returns false if there is none.
static bool find(struct lines *m, const struct program *program, struct call *const *call, int index) {
    struct fuse_group *g = &m->g.f;
    const struct call *c = call[index];
    zl_array shape = c->op->kind == OP_REDUCE ? c->in[0] : call_first(c);
    int64_t line = shape->ndim ? shape->dim[shape->ndim - 1] : 0;
    if (line < GROUP_LINE_LEAST || (line > GROUP_LINE_SHORT && are_few(shape->size / line)))
        return false;
    *g = (struct fuse_group){.steps = &program->steps, .call = call, .limits = &limits, .begin = index};
    memset(&m->r, 0, offsetof(struct line_recipe, f)); // f is large, and is set by fuse_write
    memcpy(m->r.name, "lines", sizeof "lines");
    return fuse_find(g) && g->reductions && g->end - g->begin > 1 && write_rows(m) && m->r.f.rows > 1;
}

// Layout ----------------------------------------------------------------------------------------------------

static enum line_form form_of(zl_array x, int64_t step) {
    if (array_is(x, ARRAY_INLINE))
        return LINE_VALUE;
    return step == 0 ? LINE_SAME : step == 1 ? LINE_FLAT : LINE_STRIDED;
}

// Sets the layout and the forms of inputs. Returns false if lines need more axes than kernels support.
static bool lay_out(struct lines *m) {
    const struct kernel_group *g = &m->g;
    int ndim = g->f.ndim;
    int64_t line = g->f.dim[ndim - 1];
    kernel_layout_begin(&m->l, g->inputs);
    for (int i = 0; i < ndim - 1; i++) {
        int64_t stride[KERNEL_OPERANDS];
        for (int k = 0; k < g->inputs; k++)
            stride[k] = kernel_layout_stride(g->input[k], ndim, i);
        kernel_layout_push(&m->l, g->f.dim[i], stride);
    }
    for (int k = 0; k < g->inputs; k++) {
        m->step[k] = kernel_layout_stride(g->input[k], ndim, ndim - 1);
        fuse_set_input(&m->r.f, k, (int)form_of(g->input[k], m->step[k]), g->dtype[k]);
        m->r.wide |= kernel_elements(g->input[k]) > KERNEL_NARROW || llabs(m->step[k]) * line > INT32_MAX / 2;
    }
    m->r.wide |= kernel_layout_is_wide(&m->l) || m->l.size * line > INT32_MAX / 2;
    return m->l.axes <= KERNEL_AXES;
}

// Packs and threads -----------------------------------------------------------------------------------------

// Returns the elements of a pack: as many elements of the widest contiguous dtype as 16 bytes hold, if lines
// are a multiple of that and inputs begin at multiples of it in every line; else 1.
static int width_for(const struct lines *m) {
    const struct kernel_group *g = &m->g;
    size_t item = 1;
    for (int i = 0; i < g->inputs; i++)
        if (fuse_form(&m->r.f, i) == LINE_FLAT)
            item = MAX_OF(item, zl_dtype_size(g->dtype[i]));
    for (int i = g->f.begin; i < g->f.end; i++)
        if (fuse_is_output(&g->f, i) && !fuse_row(&g->f, i)->of_lines)
            item = MAX_OF(item, array_item(fuse_output(&g->f, i)));
    int width = PACK_BYTES / (int)item;
    bool fits = g->f.dim[g->f.ndim - 1] % width == 0;
    for (int i = 0; i < g->inputs && fits; i++) {
        if (fuse_form(&m->r.f, i) != LINE_FLAT)
            continue;
        fits = g->input[i]->offset % width == 0;
        for (int axis = 0; axis < m->l.axes; axis++)
            fits = fits && m->l.stride[i][axis] % width == 0;
    }
    return fits ? width : 1;
}

static bool is_rough(const struct lines *m) {
    const struct kernel_group *g = &m->g;
    bool rough = true;
    for (int i = 0; i < g->inputs; i++)
        if (line_input_varies(&m->r, i))
            rough = rough && tile_type_is_half(tile_type_of(g->dtype[i]));
    for (int i = g->f.begin; i < g->f.end; i++)
        if (fuse_is_output(&g->f, i))
            rough = rough && tile_type_is_half(tile_type_of((zl_dtype)fuse_output(&g->f, i)->dtype));
    return rough;
}

static int64_t packs_of(int64_t line, int threads, int width) {
    return (line + (int64_t)threads * width - 1) / ((int64_t)threads * width);
}

// Finds a cluster for a line that the registers of one workgroup do not hold. Prefers small workgroups,
// because the device then runs several clusters at once, and some line has work while others wait. Sets
// *threads to those of a workgroup, and returns the number of workgroups; 1 if no cluster holds the line.
static int cluster_for(const struct kernel_place *p, int64_t line, int width, int most, int *threads) {
    for (int each = LINE_CLUSTER_LEAST; each < LINE_THREADS; each *= 2)
        for (int groups = 2; groups <= p->record->group->cluster; groups *= 2)
            if (packs_of(line, each * groups, width) * width <= most) {
                *threads = each;
                return groups;
            }
    return 1;
}

// Returns the threads of a line that is walked several times. With many threads per line, few lines are in
// flight at once, and those stay in the caches.
static int threads_along(const struct kernel_place *p, int64_t line) {
    int threads = KERNEL_THREADS;
    while (threads < LINE_THREADS && threads < line / 8 && 2 * threads <= p->record->group->most_threads)
        threads *= 2;
    return threads;
}

// Chooses packs and threads. A thread has few elements, so that many lines are in flight; of long lines it
// has more, so that it waits for fewer other threads. If there are few lines, a thread has one pack, provided
// that there are enough threads: no other line would hide the time that it computes.
static void choose(const struct kernel_place *p, struct lines *m) {
    int64_t line = m->g.f.dim[m->g.f.ndim - 1];
    int inputs = 0; // inputs that vary along a line
    for (int i = 0; i < m->g.inputs; i++)
        inputs += line_input_varies(&m->r, i);
    m->r.rough = is_rough(m);
    int width = width_for(m), threads = WARP, most = m->r.rough && inputs == 1 ? 2 * HELD_MOST : HELD_MOST;
    int each = line <= LINE_SHORT ? MAX_OF(HELD_LEAST, MIN_OF(4 * width, most)) : most;
    if (are_few(m->l.size))
        each = width;
    while (threads < LINE_THREADS && (int64_t)threads * each < line &&
           2 * threads <= p->record->group->most_threads)
        threads *= 2;
    bool held = packs_of(line, threads, width) * width <= most;
    int groups = held ? 1 : cluster_for(p, line, width, most, &threads);
    if (!held && groups == 1)
        threads = threads_along(p, line);
    m->r.width = (int16_t)width;
    m->r.packs = (int16_t)(held || groups > 1 ? packs_of(line, threads * groups, width) : 0);
    m->r.threads = (int16_t)threads;
    m->r.groups = (int16_t)groups;
    m->r.full = m->r.packs ? (int64_t)m->r.packs * groups * threads * width == line
                           : line % ((int64_t)LINE_DEEP * threads * width) == 0;
}

// Running ---------------------------------------------------------------------------------------------------

// Counts elements of contiguous inputs in packs, so that the kernel knows that their positions are aligned.
static int64_t in_packs(const struct lines *m, int input, int64_t elements) {
    return fuse_form(&m->r.f, input) == LINE_FLAT ? elements / m->r.width : elements;
}

// Appends the inputs and their tables. From here on, the layout counts packs.
static bool add_inputs(const struct kernel_place *p, struct kernel_call *k, struct lines *m) {
    int64_t of[2][KERNEL_OPERANDS] = {{0}}; // offset, and step along a line, of each input
    const struct kernel_group *g = &m->g;
    struct kernel_layout *l = &m->l;
    bool ok = true;
    for (int i = 0; ok && i < g->inputs; i++) {
        ok = kernel_group_add_input(p, k, g, i);
        if (fuse_form(&m->r.f, i) == LINE_VALUE)
            continue;
        of[0][i] = in_packs(m, i, g->input[i]->offset);
        of[1][i] = m->step[i];
        for (int axis = 0; axis < l->axes; axis++)
            l->stride[i][axis] = in_packs(m, i, l->stride[i][axis]);
    }
    kernel_add_table(k, l, m->r.wide);
    kernel_add_rows(k, 2, MAX_OF(g->inputs, 1), &of[0][0], KERNEL_OPERANDS, m->r.wide);
    return ok;
}

static bool run(struct fuse_group *f) {
    struct lines *m = (struct lines *)f;
    const struct kernel_group *g = &m->g;
    const struct kernel_place *p = g->place;
    struct kernel_call k;
    choose(p, m);
    kernel_begin_call(&k);
    size_t bytes = offsetof(struct line_recipe, f.row) + sizeof m->r.f.row[0] * (size_t)m->r.f.rows;
    const struct kernel_tiles *kernel =
        kernel_find_tiles(p, &m->r, bytes, line_build, &(struct line_maker){&m->r, p->record});
    int64_t size[3 + KERNEL_OPERANDS] = {m->l.size, g->f.dim[g->f.ndim - 1] / m->r.width,
                                         layout_inner(&m->l)};
    int sizes = 3;
    for (int i = 0; i < g->inputs; i++)
        if (fuse_form(&m->r.f, i) != LINE_VALUE)
            size[sizes++] = kernel_elements(g->input[i]);
    return kernel && add_inputs(p, &k, m) && kernel_group_add_outputs(p, &k, g) &&
           kernel_launch_tiles(p, kernel, &k, sizes, size);
}

int kernel_run_lines(const struct kernel_place *p, const struct program *program, struct binding *b,
                     int index) {
    struct lines m;
    return find(&m, program, b->call, index) && lay_out(&m) ? kernel_group_run(&m.g, b, run, p) : 0;
}

int kernel_count_lines(const struct program *program, struct call *const *call, int index) {
    struct lines m;
    return find(&m, program, call, index) && lay_out(&m) ? m.g.f.end - m.g.f.begin : 0;
}
