// thread_gemm.c - products of tiles: by matrix instructions if the target has them; else each thread
// multiplies some rows and columns in registers; else each element is computed by itself.

#include "pass/threads.h"

// Matrix instructions ---------------------------------------------------------------------------------------

static struct tile_region operand(struct group *g, const struct tile_region *r, expr *origin) {
    return thread_is_held(g, r->buffer) ? (struct tile_region){.buffer = thread_now(g, r->buffer)}
                                        : thread_region(g, r, origin);
}

// Generates a product by matrix instructions; `sums` are the registers of the result.
static void by_unit(struct group *g, const struct tile_stmt *s, const struct product *p,
                    const struct tile_buffer *sums) {
    expr origin[2][TILE_DIMS],
        extent[3] = {box_number(p->rows), box_number(p->columns), box_number(p->depth)};
    struct tile_stmt gemm = *s;
    for (int i = 0; i < 2; i++)
        gemm.region[i] = operand(g, &s->region[i], origin[i]);
    gemm.region[2] = (struct tile_region){.buffer = sums};
    gemm.extent = extent;
    gemm.indices = 3;
    gemm.threads = p->down;
    gemm.keep = p->across;
    gemm.is_async = false;
    tile_append(gemm);
}

// Copies the result from shared memory to registers with the layout of sums, or back.
static void move_sums(struct group *g, const struct tile_buffer *sums, const struct tile_buffer *result,
                      const struct layout *l, bool is_back) {
    static const int same[TILE_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct sweep w = {.vars = 2, .has_layout = true, .layout = *l};
    struct points p;
    for (int i = 0; i < 2; i++) {
        w.extent[i] = result->shape[i];
        w.covered[i] = pass_number(result->shape[i]);
    }
    if (thread_open_points(g, &p, &w)) {
        expr at = box_index(layout_register(l, l, same, p.digit));
        if (is_back)
            tile_store(result, 2, p.point, thread_load(sums, at), NULL);
        else
            thread_store(sums, at, tile_load(result, 2, p.point, NULL, NULL));
    }
    thread_close_points(&p);
}

// Generates a product by matrix instructions whose result is in shared memory: no layout suits it, because it
// is also read in another shape or in parts.
static void by_unit_from_memory(struct group *g, const struct tile_stmt *s, const struct product *p) {
    const struct tile_buffer *result = thread_now(g, s->region[2].buffer);
    struct layout l;
    if (!layout_matrix(&l, p->rows, p->columns, p->down,
                       p->across)) // fragments_product chooses sizes that have one
        g->failed = !error_false(ZL_ERROR_COMPILE, "a product of %lld x %lld has no layout",
                                 (long long)p->rows, (long long)p->columns);
    if (g->failed || !result)
        return;
    const struct tile_buffer *sums =
        thread_registers("sums", result->type, TILE_REGISTER, layout_registers(&l));
    if (!sums)
        return;
    if (!s->clear)
        move_sums(g, sums, result, &l, false);
    by_unit(g, s, p, sums);
    move_sums(g, sums, result, &l, true);
}

// Registers -------------------------------------------------------------------------------------------------

struct outer {
    struct group *g;
    const struct tile_stmt *stmt;
    struct layout layout;
    struct tile_region from[2];
    expr origin[2][TILE_DIMS];
    struct tile_type type;
    int64_t size[2]; // rows and columns of a thread: layout axes 0 and 1
    const struct tile_buffer *line[2], *sum;
};

static int64_t along(const struct layout *l, int axis) {
    int64_t size = 1;
    for (int i = 0; i < l->slots; i++)
        size *= l->slot[i].axis == axis ? l->slot[i].size : 1;
    return size;
}

// Returns the index of the thread's element `at` along an axis of the result.
static expr where(const struct outer *o, int axis, expr at) {
    expr digit[LAYOUT_DIGITS];
    for (int i = 0; i < o->layout.slots; i++)
        digit[i] = tile_cast(o->g->thread->type, at);
    return box_index(layout_index(&o->layout, axis, o->g->thread, digit));
}

// Loads the factors of one step of the depth: the thread's rows of a, or its columns of b.
static void read_line(const struct outer *o, int which, expr k) {
    const struct tile_region *r = &o->from[which];
    expr at = thread_unrolled(o->size[which]), index[TILE_DIMS], mine = where(o, which, at);
    bool depth_first = o->stmt->transpose[which] != (which == 1);
    for (int i = 0; i < r->buffer->ndim; i++) {
        int axis = i - r->buffer->ndim + 2;
        expr point = axis < 0 ? box_number(0) : (axis == 0) == depth_first ? k : mine;
        index[i] = r->origin ? ADD(r->origin[i], point) : point;
    }
    expr x = tile_load(r->buffer, r->buffer->ndim, index, box_holds(r, index), NULL);
    thread_store(o->line[which], at, x ? tile_cast(o->type, x) : NULL);
    tile_close();
}

static void multiply_lines(const struct outer *o) {
    expr row = thread_unrolled(o->size[0]), column = thread_unrolled(o->size[1]);
    expr at = ADD(MUL(row, box_number(o->size[1])), column);
    expr a = thread_load(o->line[0], row), b = thread_load(o->line[1], column), sum = thread_load(o->sum, at);
    thread_store(o->sum, at, tile_type_is_float(o->type) ? FMA(a, b, sum) : ADD(sum, MUL(a, b)));
    tile_close();
    tile_close();
}

static void convert_sums(const struct tile_buffer *from, const struct tile_buffer *to, int64_t count) {
    expr at = thread_unrolled(count);
    thread_store(to, at, from ? tile_cast(to->type, thread_load(from, at)) : tile_const(to->type, 0));
    tile_close();
}

static void by_registers(struct group *g, const struct tile_stmt *s, const struct product *p) {
    const struct tile_buffer *result = g->of[s->region[2].buffer->id].now;
    struct tile_type type = result->type;
    if (tile_type_is_half(type))
        type = (struct tile_type){TILE_FLOAT, 32, 1};
    struct outer o = {.g = g, .stmt = s, .layout = g->of[s->region[2].buffer->id].layout, .type = type};
    for (int i = 0; i < 2; i++) {
        o.from[i] = thread_region(g, &s->region[i], o.origin[i]);
        o.size[i] = along(&o.layout, i);
        o.line[i] = thread_registers("line", type, TILE_REGISTER, o.size[i]);
    }
    int64_t count = o.size[0] * o.size[1];
    bool is_other = !tile_type_equal(type, result->type);
    o.sum = is_other ? thread_registers("sum", type, TILE_REGISTER, count) : result;
    if (!o.sum || !o.line[0] || !o.line[1])
        return;
    if (s->clear || is_other)
        convert_sums(s->clear ? NULL : result, o.sum, count);
    const struct tile_name *k = box_variable(box_number(p->depth));
    tile_open_for(k, NULL, box_number(p->depth), NULL, TILE_SERIAL);
    read_line(&o, 0, box_point(k));
    read_line(&o, 1, box_point(k));
    multiply_lines(&o);
    tile_close();
    if (is_other)
        convert_sums(o.sum, result, count);
}

// Elements --------------------------------------------------------------------------------------------------

// Generates the product of a row and a column, as a gemm that a later pass replaces by a loop.
static void one_element(struct group *g, const struct tile_stmt *s, const struct points *p) {
    expr origin[3][TILE_DIMS], at[3][TILE_DIMS], extent[3][TILE_DIMS];
    struct tile_stmt gemm = *s;
    expr row = p->point[0], column = p->point[1], point[3][2] = {{row, NULL}, {NULL, column}, {row, column}};
    for (int i = 0; i < 3; i++) {
        struct tile_region r = thread_region(g, &s->region[i], origin[i]);
        bool swaps = i < 2 && s->transpose[i];
        for (int axis = 0; axis < r.buffer->ndim; axis++) {
            int k = axis - r.buffer->ndim + 2;
            expr step = k < 0 ? NULL : point[i][swaps ? !k : k];
            at[i][axis] = r.origin ? r.origin[axis] : box_number(0);
            extent[i][axis] = k < 0 || step ? box_number(1) : box_region_size(&r, axis);
            at[i][axis] = step ? ADD(at[i][axis], step) : at[i][axis];
        }
        gemm.region[i] = (struct tile_region){r.buffer, at[i], extent[i]};
    }
    gemm.is_async = false;
    tile_append(gemm);
}

static void by_elements(struct group *g, const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    struct sweep w = {.vars = 2};
    struct points p;
    w.extent[0] = box_region_size(a, a->buffer->ndim - 2 + s->transpose[0]);
    w.extent[1] = box_region_size(b, b->buffer->ndim - 2 + !s->transpose[1]);
    if (thread_open_points(g, &p, &w))
        one_element(g, s, &p);
    thread_close_points(&p);
}

void thread_gemm(struct group *g, const struct tile_stmt *s) {
    struct product p = fragments_product(g, s);
    bool is_held = thread_is_held(g, s->region[2].buffer);
    if (is_held && p.is_matrix)
        by_unit(g, s, &p, thread_now(g, s->region[2].buffer));
    else if (p.is_matrix)
        by_unit_from_memory(g, s, &p);
    else if (is_held)
        by_registers(g, s, &p);
    else
        by_elements(g, s);
}
