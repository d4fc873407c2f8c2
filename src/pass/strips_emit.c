// strips_emit.c - emits the loop over strips: the statements of the kernel on smaller tiles, from the first
// element of the strip on.

#include "pass/strips.h"

// Rebuilds an expression of a map for one strip: the map's variable becomes the start of the strip plus the
// index within it, but the tiles of strips are indexed by the latter alone.
static expr shifted(void *data, expr e) {
    struct strips *p = data;
    if (e->op == TILE_INDEX && e->name == p->old_name)
        return ADD(p->inner, tile_cast(p->inner->type, p->base));
    expr made = pass_rebuild(e, shifted, p);
    const struct cut *c = made && made->op == TILE_LOAD ? strips_cut(p, made->buffer) : NULL;
    if (!c)
        return made;
    expr index[TILE_DIMS];
    for (int i = 0; i < made->indices; i++)
        index[i] = i == c->axis ? tile_cast(made->index[i]->type, p->inner) : made->index[i];
    bool is_masked = made->args;
    return tile_load(c->now, made->indices, index, is_masked ? made->arg[0] : NULL,
                     is_masked ? made->arg[1] : NULL);
}

static void map_block(void *data, const struct tile_stmt *body) {
    struct strips *p = data;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        struct tile_stmt next = *s;
        bool stores = s->kind == TILE_STORE || s->kind == TILE_ATOMIC;
        const struct cut *c = stores ? strips_cut(p, s->buffer) : NULL;
        if (c)
            next.buffer = c->now;
        struct tile_stmt *made = pass_emit_as(&next, shifted, p);
        if (made && c)
            made->index[c->axis] = tile_cast(s->index[c->axis]->type, p->inner);
        pass_emit_bodies(s, map_block, p);
    }
}

static void emit_map(struct strips *p, const struct tile_stmt *s) {
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    int variable = strips_variable(p, s);
    for (int i = 0; i < s->indices; i++) {
        name[i] = s->name[i];
        extent[i] = s->extent[i];
    }
    extent[variable] = tile_const_int(extent[variable]->type, p->size);
    name[variable] = box_variable(extent[variable]);
    p->old_name = s->name[variable];
    p->inner = tile_cast(s->name[variable]->type, box_point(name[variable]));
    struct tile_stmt next = *s;
    next.name = name;
    next.extent = extent;
    tile_open(next);
    map_block(p, s->body);
    tile_close();
}

// Returns the strip of a region. `origin` and `extent` have space for its lists.
static struct tile_region strip_of(struct strips *p, const struct tile_region *r, int axis, expr *origin,
                                   expr *extent) {
    const struct cut *c = strips_cut(p, r->buffer);
    bool says_size = r->extent || (!c && tile_region_is_sized(r));
    for (int i = 0; i < r->buffer->ndim; i++) {
        origin[i] = c || i != axis ? box_origin(r, i) : ADD(box_origin(r, i), p->base);
        extent[i] = i == axis ? box_number(p->size) : box_region_size(r, i);
    }
    return (struct tile_region){c ? c->now : r->buffer, c && !r->origin ? NULL : origin,
                                says_size ? extent : NULL};
}

static int result_of(const struct tile_stmt *s) {
    return s->kind == TILE_GEMM ? 2 : 1;
}

static void emit_regions(struct strips *p, const struct tile_stmt *s, const struct tile_buffer *sum) {
    struct tile_stmt next = *s;
    int axis[3];
    expr origin[3][TILE_DIMS], extent[3][TILE_DIMS];
    bool adds_up = strips_adds_up(p, s);
    strips_axes(p, s, axis);
    for (int i = 0; i < 3; i++)
        if (s->region[i].buffer && axis[i] >= 0)
            next.region[i] = strip_of(p, &s->region[i], axis[i], origin[i], extent[i]);
    if (sum)
        next.region[result_of(s)] = (struct tile_region){.buffer = sum};
    next.clear &= !adds_up;
    tile_append(next);
}

// Has pass_emit copy every statement.
static bool as_it_is(void *data, const struct tile_stmt *s) {
    (void)data;
    (void)s;
    return false;
}

static void keep(const struct tile_stmt *s) {
    struct tile_stmt alone = *s;
    alone.next = NULL;
    pass_emit(&alone, as_it_is, NULL);
}

static void emit_in_loop(struct strips *p, const struct tile_stmt *s, const struct tile_buffer *sum);

static void loop_block(void *data, const struct tile_stmt *body) {
    for (; body; body = body->next)
        emit_in_loop(data, body, NULL);
}

static void emit_in_loop(struct strips *p, const struct tile_stmt *s, const struct tile_buffer *sum) {
    if (s->kind == TILE_ALLOC && strips_cut(p, s->buffer))
        return;
    if (!strips_touch(p, s))
        keep(s);
    else if (s->kind == TILE_MAP)
        emit_map(p, s);
    else if (s->kind == TILE_FOR || s->kind == TILE_IF) {
        tile_open(*s);
        pass_emit_bodies(s, loop_block, p);
    } else
        emit_regions(p, s, sum);
}

// Initialises the result of a statement that adds up over the strips, before the loop: with the identity of
// its op, or with the old result. Returns a tile of f32 that the loop adds to, or NULL if it adds to the
// result itself.
static const struct tile_buffer *begin_sum(const struct tile_stmt *s) {
    const struct tile_region *to = &s->region[result_of(s)];
    enum tile_op combine = s->kind == TILE_GEMM ? TILE_ADD : s->combine;
    struct tile_type type = to->buffer->type;
    bool is_wider = tile_type_is_half(type) && (combine == TILE_ADD || combine == TILE_MUL) && !to->origin;
    struct tile_region sum = *to;
    if (is_wider) {
        type = (struct tile_type){TILE_FLOAT, 32, 1};
        sum.buffer = box_alloc("sum", type, TILE_FRAGMENT, to->buffer->ndim, to->buffer->shape);
    }
    if (s->clear)
        tile_append((struct tile_stmt){.kind = TILE_FILL,
                                       .place = s->place,
                                       .region = {{NULL}, sum},
                                       .value = tile_identity_value(combine, type)});
    else if (is_wider)
        tile_append((struct tile_stmt){.kind = TILE_COPY, .place = s->place, .region = {*to, sum}});
    return is_wider ? sum.buffer : NULL;
}

static void end_sum(const struct tile_stmt *s, const struct tile_buffer *sum) {
    tile_append((struct tile_stmt){
        .kind = TILE_COPY, .place = s->place, .region = {{.buffer = sum}, s->region[result_of(s)]}});
}

static void allocate(struct strips *p) {
    for (int i = 0; i < p->cuts; i++) {
        const struct tile_buffer *b = p->cut[i].old;
        expr shape[TILE_DIMS];
        for (int k = 0; k < b->ndim; k++)
            shape[k] = k == p->cut[i].axis ? box_number(p->size) : b->shape[k];
        p->cut[i].now = tile_alloc(b->text, b->type, b->memory, b->ndim, shape);
    }
}

void strips_emit(struct strips *p) {
    for (int i = 0; i < p->count; i++) {
        const struct tile_stmt *s = p->statement[i];
        if (p->place[i] == STRIPS_BEFORE && (s->kind != TILE_ALLOC || !strips_cut(p, s->buffer)))
            keep(s);
    }
    for (int i = 0; i < p->count; i++)
        p->sum[i] = p->place[i] == STRIPS_INSIDE && strips_adds_up(p, p->statement[i])
                        ? begin_sum(p->statement[i])
                        : NULL;
    expr turns = box_number(p->extent / p->size);
    const struct tile_name *turn = box_variable(turns);
    p->base = MUL(box_point(turn), box_number(p->size));
    tile_open_for(turn, NULL, turns, NULL, TILE_SERIAL);
    allocate(p);
    for (int i = 0; i < p->count; i++)
        if (p->place[i] == STRIPS_INSIDE)
            emit_in_loop(p, p->statement[i], p->sum[i]);
    tile_close();
    for (int i = 0; i < p->count; i++) {
        if (p->sum[i])
            end_sum(p->statement[i], p->sum[i]);
        if (p->place[i] == STRIPS_BEHIND)
            keep(p->statement[i]);
    }
}
