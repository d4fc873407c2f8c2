// loops.c - replaces tile statements for which a target with commands has no command by maps over their
// elements: copies, fills, reductions, scans and products of numbers of 64 bits, and reductions and scans by
// ops that are formulas.
//
// Reductions, scans and products become a loop along their axis, whose iterations are maps over all rows.

#include "pass/halves.h"

static bool has_wide(const struct tile_stmt *s) {
    for (size_t i = 0; i < COUNT(s->region); i++)
        if (s->region[i].buffer && halves_is_wide(s->region[i].buffer->type))
            return true;
    return false;
}

static void open_map(const struct box *b) {
    tile_open_map(b->axes, b->name, b->size);
}

static void copy(const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    struct box b = box_of(from, to);
    open_map(&b);
    expr value = box_read_or(from, &b, b.point, true, s->value);
    box_write(to, &b, b.point, value ? tile_cast(to->buffer->type, value) : NULL, true);
    tile_close();
}

static void fill(const struct tile_stmt *s) {
    struct box b = box_of(&s->region[1], NULL);
    open_map(&b);
    box_write(&s->region[1], &b, b.point, s->value, true);
    tile_close();
}

// The rows of a statement: the axes of its box but one, or one point if there is no other axis. `room` is the
// shape of a tile with an element for each row.
struct lines {
    struct box box, of;
    expr room[TILE_DIMS];
};

static bool has_sizes(const struct lines *l) {
    for (int i = 0; i < l->of.axes; i++)
        if (!l->of.size[i])
            return false;
    return l->of.axes > 0;
}

static void find_lines(struct lines *l, int axis) {
    struct box *of = &l->of;
    of->axes = 0;
    for (int i = 0; i < l->box.axes; i++)
        if (i != axis) {
            of->size[of->axes] = l->box.size[i];
            of->name[of->axes++] = l->box.name[i];
        }
    if (!of->axes) {
        of->axes = 1;
        of->size[0] = box_number(1);
        of->name[0] = box_variable(of->size[0]);
    }
    for (int i = 0; i < of->axes; i++) {
        of->point[i] = box_point(of->name[i]);
        l->room[i] = of->size[i] ? box_number(pass_range(of->size[i]).high) : NULL;
    }
}

// Opens a grid of blocks of 64 rows, for rows outside of blocks.
static void open_blocks(struct lines *l, int axis) {
    enum { LINES = 64 };
    struct box *b = &l->box;
    int first = axis ? 0 : 1;
    bool is_one = first >= b->axes;
    expr blocks = is_one ? box_number(1) : box_ceil_divide(b->size[first], LINES);
    const struct tile_name *block = box_variable(blocks);
    tile_open((struct tile_stmt){.kind = TILE_GRID, .indices = 1, .name = &block, .extent = &blocks});
    if (is_one)
        return;
    expr from = MUL(box_point(block), box_number(LINES));
    b->size[first] = MIN(box_number(LINES), SUB(b->size[first], from));
    b->name[first] = box_variable(box_number(LINES));
    b->point[first] = ADD(from, box_point(b->name[first]));
}

static struct lines open_lines(const struct tile_stmt *s, bool is_in_grid) {
    struct lines l = {.box = box_of(&s->region[0], NULL)};
    if (!is_in_grid)
        open_blocks(&l, s->axis);
    find_lines(&l, s->axis);
    return l;
}

static void close_lines(bool is_in_grid) {
    if (!is_in_grid)
        tile_close();
}

static const struct tile_name *open_along(expr size) {
    const struct tile_name *k = box_variable(size);
    tile_open_for(k, NULL, size, NULL, TILE_SERIAL);
    return k;
}

static void reduce(const struct tile_stmt *s, bool is_in_grid) {
    struct tile_type type = s->region[1].buffer->type;
    struct lines l = open_lines(s, is_in_grid);
    struct tile_stmt sum = *s;
    if (s->clear) {
        open_map(&l.of);
        box_write_line(s, &s->region[1], &l.box, tile_identity_value(s->combine, type));
        tile_close();
        sum.clear = false;
    }
    l.box.point[s->axis] = box_point(open_along(l.box.size[s->axis]));
    open_map(&l.of);
    expr x = box_read(&s->region[0], &l.box, l.box.point, true);
    box_write_line(&sum, &s->region[1], &l.box, x ? tile_cast(type, x) : NULL);
    tile_close();
    tile_close();
    close_lines(is_in_grid);
}

// Scans rows, with the results so far in a tile.
static void scan_lines(const struct tile_stmt *s, struct lines *l, const struct tile_buffer *sum) {
    struct tile_type type = s->region[1].buffer->type;
    const struct tile_name *next = box_local("next", type);
    struct box *b = &l->box, *of = &l->of;
    open_map(of);
    tile_store(sum, of->axes, of->point, tile_identity_value(s->combine, type), NULL);
    tile_close();
    expr size = b->size[s->axis], at = box_point(open_along(size));
    b->point[s->axis] = s->reverse ? SUB(SUB(size, box_number(1)), at) : at;
    open_map(of);
    expr x = box_read(&s->region[0], b, b->point, true),
         before = tile_load(sum, of->axes, of->point, NULL, NULL);
    tile_assign(next, x ? tile_binary(s->combine, before, tile_cast(type, x)) : NULL);
    box_write(&s->region[1], b, b->point, s->exclusive ? before : box_local_value(next), true);
    tile_store(sum, of->axes, of->point, box_local_value(next), NULL);
    tile_close();
    tile_close();
}

static void scan(const struct tile_stmt *s, bool is_in_grid) {
    struct lines l = open_lines(s, is_in_grid);
    const struct tile_buffer *sum =
        has_sizes(&l) ? box_alloc("sum", s->region[1].buffer->type, TILE_SHARED, l.of.axes, l.room) : NULL;
    if (sum)
        scan_lines(s, &l, sum);
    close_lines(is_in_grid);
}

static void multiply(const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1], *c = &s->region[2];
    struct tile_type type = c->buffer->type;
    struct box of_a = box_of_matrix(a), of_b = box_of_matrix(b), of_c = {.axes = 2};
    of_c.size[0] = of_a.size[s->transpose[0]];
    of_c.size[1] = of_b.size[!s->transpose[1]];
    box_name(&of_c);
    if (s->clear) {
        open_map(&of_c);
        box_write(c, &of_c, of_c.point, tile_const(type, 0), true);
        tile_close();
    }
    expr row = of_c.point[0], column = of_c.point[1],
         inner = box_point(open_along(of_a.size[!s->transpose[0]]));
    expr at_a[2] = {s->transpose[0] ? inner : row, s->transpose[0] ? row : inner};
    expr at_b[2] = {s->transpose[1] ? column : inner, s->transpose[1] ? inner : column};
    open_map(&of_c);
    expr x = box_read(a, &of_a, at_a, true), y = box_read(b, &of_b, at_b, true),
         before = box_read(c, &of_c, of_c.point, true);
    if (x && y && before)
        box_write(c, &of_c, of_c.point, ADD(before, MUL(tile_cast(type, x), tile_cast(type, y))), true);
    tile_close();
    tile_close();
}

// Emits a product. Its loop has to be in a block, so a product outside of all grids gets a grid of one block.
static void gemm(const struct tile_stmt *s, bool is_in_grid) {
    expr one = box_number(1);
    const struct tile_name *block = is_in_grid ? NULL : box_variable(one);
    if (block)
        tile_open((struct tile_stmt){.kind = TILE_GRID, .indices = 1, .name = &block, .extent = &one});
    multiply(s);
    if (block)
        tile_close();
}

struct loops {
    bool *is_done; // by token: a statement with it became maps
    int grids;     // around the current statement
};

static bool is_formula(const struct tile_stmt *s) {
    bool is_line = s->kind == TILE_REDUCE || s->kind == TILE_SCAN;
    return is_line && !tile_row_is_base(s->combine, tile_dtype_of(s->region[1].buffer->type));
}

static bool emit_loops(const struct loops *l, const struct tile_stmt *s) {
    if (!has_wide(s) && !is_formula(s))
        return false;
    switch (s->kind) {
    case TILE_COPY: copy(s); return true;
    case TILE_FILL: fill(s); return true;
    case TILE_REDUCE: reduce(s, l->grids > 0); return true;
    case TILE_SCAN: scan(s, l->grids > 0); return true;
    case TILE_GEMM: gemm(s, l->grids > 0); return true;
    default: return false;
    }
}

// Emits a statement as maps, and removes the waits for it, because maps are synchronous.
static bool emit(void *data, const struct tile_stmt *s) {
    struct loops *l = data;
    if (s->kind == TILE_GRID) {
        tile_open(*s);
        l->grids++;
        pass_emit(s->body, emit, l);
        l->grids--;
        tile_close();
        return true;
    }
    if (!emit_loops(l, s))
        return s->kind == TILE_WAIT && s->token > 0 && l->is_done[s->token];
    if (s->token > 0)
        l->is_done[s->token] = true;
    return true;
}

static bool is_asked(const struct tile_stmt *s, const void *unused) {
    (void)unused;
    return has_wide(s) || is_formula(s);
}

bool pass_loops(struct tile_kernel *kernel, const struct target *target) {
    if (!target->lanes || !pass_find(kernel->body, is_asked, NULL))
        return true;
    struct loops l = {.is_done = memory_zero((size_t)kernel->tokens + 1)};
    bool good = l.is_done && pass_emit_kernel(kernel, emit, &l);
    memory_free(l.is_done);
    return good;
}
