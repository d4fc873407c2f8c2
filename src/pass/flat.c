// flat.c - spreads tiles with one axis, or with one row, over rows across the lanes, if every statement uses
// their elements point by point, or reduces all of them.
//
//     shared t: f32[1024] ; copy a[b * 1024] -> t ; map i in 1024 { t[i] = t[i] * 2 } ; copy t -> y[b * 1024]
//
// Such a tile is in one lane of 64, so that the other lanes are idle, and it can have at most 65536 elements
// of f32. As t: f32[64, 16], element i is at [i // 16, i % 16]: maps run over both axes, copies become maps,
// and reductions reduce rows first, then their results. Tiles that are copied at edges, scanned, or read at
// other indices stay as they are.

#include "pass/lanes.h"

enum { LEAST_ROWS = 32, MOST_ROWS = 64 };

struct flat {
    bool *is_flat;                      // by id of buffer
    const struct tile_buffer **instead; // the tile that replaces it
    int buffers;
    bool changed;
    // Of the current map:
    const struct tile_name *name, *other; // along the tile; of its one row (NULL: none)
    expr row, column, point;
};

static bool is_flat(const struct flat *f, const struct tile_buffer *b) {
    return b && b->id < f->buffers && f->is_flat[b->id];
}

static void refuse(struct flat *f, const struct tile_buffer *b) {
    b = b ? tile_memory_of(b) : NULL;
    if (is_flat(f, b)) {
        f->is_flat[b->id] = false;
        f->changed = true;
    }
}

static int64_t rows_of(int64_t size) {
    int64_t rows = MOST_ROWS;
    while (rows > 1 && size % rows)
        rows--;
    return rows;
}

// Which tiles -----------------------------------------------------------------------------------------------

struct use {
    struct flat *f;
    const struct tile_stmt *map;
    bool is_plain;
};

static int64_t length_of(const struct tile_buffer *b) {
    return pass_number(b->shape[b->ndim - 1]);
}

// Returns the variable of a map over one row: its only variable, or the second if the first has one point;
// -1: it is no such map.
static int line_of(const struct tile_stmt *map) {
    return !map ? -1 : map->indices == 1 ? 0 : map->indices == 2 && pass_number(map->extent[0]) == 1 ? 1 : -1;
}

static const struct tile_name *name_of(expr index) {
    while (index->op == TILE_CAST)
        index = index->arg[0];
    return index->op == TILE_INDEX ? index->name : NULL;
}

static bool is_point(const struct tile_stmt *map, const struct tile_buffer *b, const expr *index) {
    int line = line_of(map);
    const struct tile_name *row = b->ndim == 2 ? name_of(index[0]) : NULL;
    if (line < 0 ||
        (b->ndim == 2 && pass_number(index[0]) != 0 && !(line == 1 && row && row == map->name[0])))
        return false;
    return name_of(index[b->ndim - 1]) == map->name[line] && pass_number(map->extent[line]) == length_of(b);
}

// Returns whether of the indices of an element only the last depends on a name.
static bool is_along_last(expr e, const struct tile_name *name) {
    for (int i = 0; i + 1 < e->indices; i++)
        if (pass_depends(e->index[i], name))
            return false;
    return true;
}

static bool find_use(expr e, const void *data) {
    struct use *u = (struct use *)data;
    if (e->op == TILE_LOAD && is_flat(u->f, tile_memory_of(e->buffer)) &&
        (e->buffer->base || !is_point(u->map, e->buffer, e->index)))
        refuse(u->f, e->buffer);
    int line = e->op == TILE_LOAD ? line_of(u->map) : -1;
    for (int i = 0; line >= 0 && i < e->indices; i++)
        u->is_plain &= is_flat(u->f, e->buffer) || !pass_depends(e->index[i], u->map->name[line]) ||
                       (!lanes_is_local(e->buffer) && !e->args && is_along_last(e, u->map->name[line]));
    return false;
}

static bool refuse_load(expr e, const void *flat) {
    if (e->op == TILE_LOAD)
        refuse((struct flat *)flat, e->buffer);
    return false;
}

// Refuses all tiles of a map that does more than store at its points without a mask.
static void refuse_all(struct flat *f, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], refuse_load, f);
        refuse(f, s->buffer);
        refuse_all(f, s->body);
        refuse_all(f, s->other);
    }
}

// Returns whether points along the last axis of a box are along that of a region too, and are all in its
// buffer if any of them is.
static bool has_whole_lines(const struct tile_region *far, const struct box *b) {
    int last = far->buffer->ndim - 1;
    const struct tile_name *name = b->name[b->axes - 1];
    expr index[TILE_DIMS];
    box_place(far, b, b->point, index);
    for (int i = 0; i < last; i++)
        if (pass_depends(index[i], name))
            return false;
    struct pass_range end = pass_range(index[last]), size = pass_range(box_index(far->buffer->shape[last]));
    return pass_depends(index[last], name) && end.low >= 0 && end.high < size.low;
}

static bool is_copied(const struct flat *f, const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    bool is_load = is_flat(f, to->buffer), is_store = is_flat(f, from->buffer);
    const struct tile_region *tile = is_load ? to : from, *far = is_load ? from : to;
    if (s->kind != TILE_COPY || s->is_async || is_load == is_store || tile->origin || tile->extent ||
        lanes_is_local(far->buffer))
        return false;
    struct box b = box_of(from, to);
    for (int i = 0; i + 1 < b.axes; i++)
        if (pass_number(b.size[i]) != 1)
            return false;
    if (b.axes == 0 || pass_number(b.size[b.axes - 1]) != length_of(tile->buffer))
        return false;
    return !box_inside(far, &b) || has_whole_lines(far, &b);
}

// Returns whether a tile is reduced as a whole, to one element of another tile.
static bool is_reduced(const struct flat *f, const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    return s->kind == TILE_REDUCE && is_flat(f, from->buffer) && !is_flat(f, to->buffer) && !from->origin &&
           !from->extent && s->axis == from->buffer->ndim - 1 && lanes_is_local(to->buffer);
}

static void look_at_map(struct flat *f, const struct tile_stmt *map) {
    struct use u = {f, map, true};
    for (const struct tile_stmt *s = map->body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], find_use, &u);
        bool stores = s->kind == TILE_STORE && !s->mask;
        if (stores && is_flat(f, s->buffer) && !is_point(map, s->buffer, s->index))
            refuse(f, s->buffer);
        u.is_plain &=
            (stores && (is_flat(f, s->buffer) || !lanes_is_local(s->buffer))) || s->kind == TILE_ASSIGN;
    }
    if (!u.is_plain)
        refuse_all(f, map->body);
}

static void look(struct flat *f, const struct tile_stmt *body, bool is_ahead) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        struct use outside = {f, NULL, true};
        for (int i = 0; i < count; i++)
            pass_any(list[i], find_use, &outside);
        bool is_filled = s->kind == TILE_FILL && !s->region[1].origin && !s->region[1].extent,
             is_view = s->kind == TILE_ALLOC && s->buffer->base;
        bool is_taken = is_filled || is_reduced(f, s) || (!is_ahead && is_copied(f, s));
        for (int i = 0; i < 3 && !is_taken; i++)
            refuse(f, s->region[i].buffer);
        if (is_view || s->kind == TILE_STORE || s->kind == TILE_ATOMIC)
            refuse(f, s->buffer);
        if (s->kind == TILE_MAP)
            look_at_map(f, s);
        else {
            look(f, s->body, is_ahead || s->loop == TILE_PIPELINED);
            look(f, s->other, is_ahead);
        }
    }
}

// Marks the tiles that are large enough; look() refuses some of them later.
static bool find_tiles(struct flat *f, const struct tile_stmt *body) {
    bool found = false;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        const struct tile_buffer *b = s->kind == TILE_ALLOC ? s->buffer : NULL;
        bool is_line = b && (b->ndim == 1 || (b->ndim == 2 && pass_number(b->shape[0]) == 1)) && !b->stride;
        int64_t size = is_line ? length_of(b) : 0;
        if (size >= 4 * MOST_ROWS && rows_of(size) >= LEAST_ROWS && lanes_is_local(s->buffer) &&
            !s->buffer->base) {
            f->is_flat[s->buffer->id] = true;
            found = true;
        }
        if (s->kind != TILE_MAP)
            found = find_tiles(f, s->body) || find_tiles(f, s->other) || found;
    }
    return found;
}

// Their statements ------------------------------------------------------------------------------------------

static expr in_rows(void *data, expr e) {
    struct flat *f = data;
    if (e->op == TILE_INDEX && e->name == f->name)
        return tile_cast(e->type, f->point);
    if (e->op == TILE_INDEX && f->other && e->name == f->other)
        return tile_const_int(e->type, 0);
    if (e->op == TILE_LOAD && is_flat(f, e->buffer))
        return tile_load(f->instead[e->buffer->id], 2, (expr[]){f->row, f->column}, NULL, NULL);
    return pass_rebuild(e, in_rows, data);
}

static void open_map(struct flat *f, struct tile_stmt map, const struct tile_name *name, int64_t size) {
    int64_t rows = rows_of(size);
    expr extent[2] = {box_number(rows), box_number(size / rows)};
    const struct tile_name *names[2] = {box_variable(extent[0]), box_variable(extent[1])};
    f->name = name;
    f->row = box_point(names[0]);
    f->column = box_point(names[1]);
    f->point = ADD(MUL(f->row, extent[1]), f->column);
    map.kind = TILE_MAP;
    map.indices = 2;
    map.name = names;
    map.extent = extent;
    tile_open(map);
}

static void emit_map(struct flat *f, const struct tile_stmt *map) {
    int line = line_of(map);
    f->other = line ? map->name[0] : NULL;
    open_map(f, *map, map->name[line], pass_number(map->extent[line]));
    for (const struct tile_stmt *s = map->body; s; s = s->next) {
        expr index[2] = {f->row, f->column};
        struct tile_stmt next = *s;
        bool is_tile = s->kind == TILE_STORE && is_flat(f, s->buffer);
        if (is_tile) {
            next.buffer = f->instead[s->buffer->id];
            next.indices = 2;
            next.index = index;
        }
        pass_emit_as(&next, in_rows, f);
    }
    tile_close();
}

static void emit_copy(struct flat *f, const struct tile_stmt *s) {
    bool is_load = is_flat(f, s->region[1].buffer);
    const struct tile_buffer *tile = s->region[is_load].buffer, *instead = f->instead[tile->id];
    const struct tile_region *far = &s->region[!is_load];
    int axes = far->buffer->ndim;
    struct box b = box_of(&s->region[0], &s->region[1]);
    expr inside = box_inside(far, &b), at[TILE_DIMS];
    if (inside) // all points are inside, or none is
        tile_open_if(inside);
    open_map(f, (struct tile_stmt){.place = s->place}, NULL, length_of(tile));
    expr own[2] = {f->row, f->column};
    for (int i = 0; i < axes; i++)
        at[i] = i + 1 < axes ? box_origin(far, i) : ADD(box_origin(far, i), f->point);
    if (is_load)
        tile_store(instead, 2, own, tile_cast(tile->type, tile_load(far->buffer, axes, at, NULL, NULL)),
                   NULL);
    else
        tile_store(far->buffer, axes, at,
                   tile_cast(far->buffer->type, tile_load(instead, 2, own, NULL, NULL)), NULL);
    tile_close();
    if (inside && is_load) {
        tile_else();
        tile_append((struct tile_stmt){.kind = TILE_FILL,
                                       .place = s->place,
                                       .region = {{NULL}, {.buffer = instead}},
                                       .value = s->value ? tile_cast(tile->type, s->value)
                                                         : tile_const(tile->type, 0)});
    }
    if (inside)
        tile_close();
}

// Reduces each row to one element first, then these. Sums and products of 16 bits are f32 in between.
static void emit_reduction(struct flat *f, const struct tile_stmt *s) {
    const struct tile_buffer *instead = f->instead[s->region[0].buffer->id];
    struct tile_type type = s->region[1].buffer->type;
    if (tile_type_is_half(type) && (s->combine == TILE_ADD || s->combine == TILE_MUL))
        type = (struct tile_type){TILE_FLOAT, 32, 1};
    const struct tile_buffer *rows =
        tile_alloc("rows", type, TILE_FRAGMENT, 2, (expr[]){instead->shape[0], box_number(1)});
    struct tile_stmt inner = *s, outer = *s;
    inner.region[0].buffer = instead;
    inner.region[1] = (struct tile_region){.buffer = rows};
    inner.axis = 1;
    inner.clear = true;
    outer.region[0] = (struct tile_region){.buffer = rows};
    outer.axis = 0;
    tile_append(inner);
    tile_append(outer);
}

static bool is_flat_load(expr e, const void *flat) {
    return e->op == TILE_LOAD && is_flat(flat, e->buffer);
}

static bool uses_flat(const struct tile_stmt *s, const void *flat) {
    expr list[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, list);
    bool uses = is_flat(flat, s->buffer);
    for (int i = 0; i < count && !uses; i++)
        uses = pass_any(list[i], is_flat_load, flat);
    return uses;
}

static bool emit(void *data, const struct tile_stmt *s) {
    struct flat *f = data;
    if (s->kind == TILE_ALLOC && is_flat(f, s->buffer)) {
        int64_t size = length_of(s->buffer), rows = rows_of(size);
        f->instead[s->buffer->id] = tile_alloc(s->buffer->text, s->buffer->type, s->buffer->memory, 2,
                                               (expr[]){box_number(rows), box_number(size / rows)});
    } else if (s->kind == TILE_FILL && is_flat(f, s->region[1].buffer)) {
        struct tile_stmt next = *s;
        next.region[1].buffer = f->instead[s->region[1].buffer->id];
        tile_append(next);
    } else if (s->kind == TILE_COPY && (is_flat(f, s->region[0].buffer) || is_flat(f, s->region[1].buffer)))
        emit_copy(f, s);
    else if (s->kind == TILE_REDUCE && is_flat(f, s->region[0].buffer))
        emit_reduction(f, s);
    else if (s->kind == TILE_MAP && pass_find(s->body, uses_flat, f))
        emit_map(f, s);
    else
        return false;
    return true;
}

bool pass_flat(struct tile_kernel *kernel, const struct target *target) {
    size_t count = (size_t)kernel->buffers + 1;
    struct flat f = {.buffers = kernel->buffers};
    if (!target->lanes || !pass_is_simple(kernel))
        return !kernel->failed;
    f.is_flat = memory_zero(count * sizeof *f.is_flat);
    f.instead = memory_zero(count * sizeof *f.instead);
    bool good = f.is_flat && f.instead;
    if (good && find_tiles(&f, kernel->body)) {
        tile_resume(kernel);
        do {
            f.changed = false;
            look(&f, kernel->body, false);
        } while (f.changed);
        tile_suspend();
        good = pass_emit_kernel(kernel, emit, &f);
    }
    memory_free(f.is_flat);
    memory_free(f.instead);
    return good;
}
