// lanes_map.c - generates the commands of maps: each statement runs at all points before the next one. A
// branch becomes a mask of its stores. Variables that strides cannot express, and those beyond four axes,
// become loops of the control program.

#include "pass/lanes.h"

static const struct tile_type u8 = {TILE_UINT, 8, 1};

// Variables of a map ----------------------------------------------------------------------------------------

static bool assigns(const struct tile_stmt *s, const void *name) {
    return (s->kind == TILE_ASSIGN && s->name[0] == name) || s->old == name;
}

static const struct tile_buffer *memory_of(const struct tile_buffer *b) {
    while (b->base)
        b = b->base;
    return b;
}

static bool writes(const struct tile_stmt *s, const void *memory) {
    return (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && memory_of(s->buffer) == memory;
}

static bool may_change(expr e, const void *body) {
    return (e->op == TILE_LOCAL && pass_find(body, assigns, e->name)) ||
           (e->op == TILE_LOAD && pass_find(body, writes, memory_of(e->buffer)));
}

static bool is_named(expr e, const void *name) {
    return e->op == TILE_LOCAL && e->name == name;
}

// Returns whether a statement needs the value of a variable in the control program: as the index of a store,
// or as the bound of a loop.
static bool steers_by(const struct tile_stmt *s, const void *name) {
    bool found = false, is_loop = s->kind == TILE_FOR || s->kind == TILE_WHILE;
    expr list[TILE_STMT_EXPRS];
    int count = is_loop ? tile_stmt_exprs(s, list) : 0;
    for (int i = 0; i < count; i++)
        found |= pass_any(list[i], is_named, name);
    for (int i = 0; (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && i < s->indices; i++)
        found |= pass_any(s->index[i], is_named, name);
    return found;
}

static int count_assignments(const struct tile_stmt *body, const struct tile_name *name) {
    int count = 0;
    for (const struct tile_stmt *s = body; s; s = s->next)
        count += assigns(s, name) + count_assignments(s->body, name) + count_assignments(s->other, name);
    return count;
}

// Returns the value of a variable that the control program computes, or NULL for another variable. Such a
// variable is an integer in the index of a store or in the bound of a loop, and the map assigns it once, at
// all points, from values that it does not write. The control program loops over the loop variables that the
// value depends on.
static expr steering_value(const struct tile_stmt *body, const struct tile_name *name) {
    const struct tile_stmt *s = body;
    while (s && !assigns(s, name))
        s = s->next;
    bool is_steering = s && s->kind == TILE_ASSIGN && tile_type_is_integer(name->type) &&
                       count_assignments(body, name) == 1 && pass_find(body, steers_by, name);
    return is_steering && !pass_any(s->value, may_change, body) ? s->value : NULL;
}

// Statements ------------------------------------------------------------------------------------------------

static bool run_block(struct lane_work *w, const struct tile_stmt *body);

// Combines two masks, of which one may be NULL, by AND.
static bool both(struct lane_work *w, const struct lane_operand *a, const struct lane_operand *b,
                 struct lane_operand *out) {
    if (!a || !b) {
        *out = a ? *a : *b;
        return true;
    }
    return lanes_temporary(w->l, w->p, u8, NULL, out) && lanes_binary(w->l, w->p, TILE_AND, out, a, b);
}

static bool is_load(expr e, const void *data) {
    (void)data;
    return e->op == TILE_LOAD;
}

// Stores a value in device memory where a mask is true, if the mask bounds the points; sets *is_done to
// whether it does. Other elements are not touched, because other cores may write them.
static bool put_part(struct lane_work *w, expr value, expr mask, const struct lane_operand *to,
                     bool *is_done) {
    struct lane_operand found;
    struct lane_part part = {.test = NULL};
    *is_done = !pass_any(mask, is_load, NULL) && lanes_bounds(w->l, w->p, mask, false, &part);
    return !*is_done ||
           (lanes_evaluate(w, value, NULL, &found) && lanes_as_tile(w->l, w->p, &found, to->type) &&
            lanes_move_part(w->l, w->p, *to, found, &part));
}

// Stores a value; where a mask is false, the old value stays.
static bool put(struct lane_work *w, const struct tile_stmt *s, expr mask, const struct lane_operand *to) {
    struct lane_operand found, test, own, old = *to, chosen;
    expr all = box_both(w->condition, mask);
    bool is_done;
    if (all && to->is_far) {
        if (!put_part(w, s->value, all, to, &is_done) || is_done)
            return is_done;
        w->l->is_alone = true;
        if (!lanes_near(w->l, w->p, s->buffer, s->index, true, &old))
            return false;
    }
    if (!lanes_evaluate(w, s->value, all || to->is_far || to->is_shifted ? NULL : to, &found))
        return false;
    if (all) {
        if ((mask && !lanes_evaluate(w, mask, NULL, &own)) || !both(w, w->mask, mask ? &own : NULL, &test))
            return false;
        if (!found.scalar && !tile_type_equal(found.type, to->type))
            return lanes_fail(w->l, "stores %s as %s", tile_type_name(found.type), tile_type_name(to->type));
        if (!lanes_select(w, test, found, old, to->type, &chosen))
            return false;
        found = chosen;
    }
    struct lane_part part = {.test = NULL};
    if (all && to->is_far) // where the mask is false, indices may be outside
        return lanes_inside(w->l, w->p, s->buffer, s->index, &part) &&
               lanes_move_part(w->l, w->p, *to, found, &part);
    bool is_there = !found.scalar && found.address == to->address;
    return is_there || lanes_move(w->l, w->p, to, &found);
}

// Stores into a tile whose layout is not that of the points: the value is computed in a temporary tile, and
// copied to that layout.
static bool store_relayout(struct lane_work *w, const struct tile_stmt *s) {
    struct lane_operand value, from, to, old;
    struct lane_points points;
    bool has[TILE_DIMS];
    for (int v = 0; v < w->p->names; v++)
        has[v] = true;
    if (!lanes_temporary(w->l, w->p, s->buffer->type, NULL, &value))
        return false;
    if ((s->mask || w->mask) && // the old values
        (!lanes_near(w->l, w->p, s->buffer, s->index, false, &old) || !lanes_move(w->l, w->p, &value, &old)))
        return false;
    return put(w, s, s->mask, &value) &&
           lanes_relayout(w->l, w->p, has, &value, s->buffer, s->index, &points, &from) &&
           lanes_place(w->l, &points, s->buffer, s->index, &to) && lanes_move(w->l, &points, &to, &from);
}

static bool store(struct lane_work *w, const struct tile_stmt *s) {
    struct lane_operand to;
    bool fits;
    if (!lanes_fits(w->l, w->p, s->buffer, s->index, &fits))
        return false;
    if (!fits)
        return store_relayout(w, s);
    return lanes_place(w->l, w->p, s->buffer, s->index, &to) && put(w, s, s->mask, &to);
}

static bool assign(struct lane_work *w, const struct tile_stmt *s) {
    int at = lanes_variable(w, s->name[0]);
    bool is_whole = tile_type_is_integer(s->name[0]->type) || tile_type_is_bool(s->name[0]->type);
    bool is_of_control = !w->p->names || (w->map && steering_value(w->map, s->name[0]));
    if (at < 0 && is_of_control && !w->mask && is_whole &&
        lanes_is_uniform(w->l, w->p, s->value)) { // an index, which the control program computes
        tile_assign(s->name[0], lanes_control(w->l, s->value));
        return true;
    }
    if (at < 0) {
        at = w->l->variables;
        if (at >= LANE_VARIABLES)
            return lanes_fail(w->l, "takes at most %d variables in a map", LANE_VARIABLES);
        w->l->variable[w->l->variables++] = s->name[0];
        if (!lanes_temporary(w->l, w->p, s->name[0]->type, NULL, &w->variable[at]))
            return false;
        struct lane_operand *mask = w->mask; // the variable has no older value
        expr condition = w->condition;
        w->mask = NULL;
        w->condition = NULL;
        bool good = put(w, s, NULL, &w->variable[at]);
        w->mask = mask;
        w->condition = condition;
        return good;
    }
    return put(w, s, NULL, &w->variable[at]);
}

// Generates an atomic as a load, an op and a store. One core runs all blocks of such a kernel, so that no
// other store comes between.
static bool atomic(struct lane_work *w, const struct tile_stmt *s) {
    struct lane_operand to, old, value, sum;
    struct lane_part part = {.test = NULL};
    bool is_masked = s->mask || w->mask; // where it is false, indices may be outside
    if (!lanes_near(w->l, w->p, s->buffer, s->index, is_masked, &old) ||
        !lanes_place(w->l, w->p, s->buffer, s->index, &to) || !lanes_evaluate(w, s->value, NULL, &value) ||
        !lanes_temporary(w->l, w->p, to.type, NULL, &sum))
        return false;
    if (s->old && !w->p->names &&
        tile_type_is_integer(s->old->type)) { // an index, which the control program computes
        tile_assign(s->old, tile_const_int(s->old->type, 0));
        struct tile_stmt *read = tile_command("tpu_local_mem_addr_unified", 1, &old.address);
        if (read)
            read->old = s->old;
    } else if (s->old) {
        int at = w->l->variables;
        if (at >= LANE_VARIABLES)
            return lanes_fail(w->l, "takes at most %d variables in a map", LANE_VARIABLES);
        w->l->variable[w->l->variables++] = s->old;
        if (!lanes_temporary(w->l, w->p, to.type, NULL, &w->variable[at]) ||
            !lanes_move(w->l, w->p, &w->variable[at], &old))
            return false;
    }
    if (!lanes_as_tile(w->l, w->p, &value, to.type) ||
        !lanes_binary(w->l, w->p, s->combine, &sum, &old, &value))
        return false;
    if (is_masked) {
        struct lane_operand own, test, chosen;
        if ((s->mask && !lanes_evaluate(w, s->mask, NULL, &own)) ||
            !both(w, w->mask, s->mask ? &own : NULL, &test) ||
            !lanes_select(w, test, sum, old, to.type, &chosen))
            return false;
        sum = chosen;
    }
    if (is_masked && to.is_far)
        return lanes_inside(w->l, w->p, s->buffer, s->index, &part) &&
               lanes_move_part(w->l, w->p, to, sum, &part);
    return lanes_move(w->l, w->p, &to, &sum);
}

static bool branch(struct lane_work *w, const struct tile_stmt *s) {
    struct lane_operand *outer = w->mask, test, not_test, now;
    if (lanes_is_uniform(w->l, w->p, s->mask)) {
        tile_open_if(lanes_control(w->l, s->mask));
        bool good = run_block(w, s->body);
        if (s->other) {
            tile_else();
            good = good && run_block(w, s->other);
        }
        tile_close();
        return good;
    }
    struct lane_operand found;
    if (!lanes_evaluate(w, s->mask, NULL, &found) || !lanes_temporary(w->l, w->p, u8, NULL, &test) ||
        !lanes_move(w->l, w->p, &test, &found) || !both(w, outer, &test, &now))
        return false;
    expr condition = w->condition;
    w->mask = &now;
    w->condition = box_both(condition, s->mask);
    bool good = run_block(w, s->body);
    w->condition = box_both(condition, NOT(s->mask));
    if (good && s->other) {
        good = lanes_temporary(w->l, w->p, u8, NULL, &not_test) && lanes_move(w->l, w->p, &not_test, &test) &&
               lanes_flip(w->l, w->p, &not_test) && both(w, outer, &not_test, &now) && run_block(w, s->other);
    }
    w->mask = outer;
    w->condition = condition;
    return good;
}

static bool loop(struct lane_work *w, const struct tile_stmt *s) {
    if (!lanes_is_uniform(w->l, w->p, s->extent[0]) || !lanes_is_uniform(w->l, w->p, s->begin) ||
        !lanes_is_uniform(w->l, w->p, s->step))
        return lanes_fail(w->l, "cannot loop differently at different points");
    struct tile_stmt copy = *s;
    expr end = lanes_control(w->l, s->extent[0]);
    copy.loop = TILE_SERIAL;
    copy.extent = &end;
    copy.begin = lanes_control(w->l, s->begin);
    copy.step = lanes_control(w->l, s->step);
    tile_open(copy);
    bool good = run_block(w, s->body);
    tile_close();
    return good;
}

// Generates a map inside a map: a loop over its points.
static bool inner_map(struct lane_work *w, const struct tile_stmt *s) {
    for (int i = 0; i < s->indices; i++)
        if (!lanes_is_uniform(w->l, w->p, s->extent[i]))
            return lanes_fail(w->l, "cannot loop differently at different points");
    for (int i = 0; i < s->indices; i++)
        tile_open_for(s->name[i], NULL, lanes_control(w->l, s->extent[i]), NULL, TILE_SERIAL);
    bool good = run_block(w, s->body);
    for (int i = 0; i < s->indices; i++)
        tile_close();
    return good;
}

static bool run_block(struct lane_work *w, const struct tile_stmt *body) {
    bool good = true;
    for (const struct tile_stmt *s = body; s && good; s = s->next) {
        w->l->at = s;
        w->l->reads = 0;
        w->values = 0;
        switch (s->kind) {
        case TILE_STORE: good = store(w, s); break;
        case TILE_ASSIGN: good = assign(w, s); break;
        case TILE_ATOMIC: good = atomic(w, s); break;
        case TILE_IF: good = branch(w, s); break;
        case TILE_FOR: good = loop(w, s); break;
        case TILE_MAP: good = inner_map(w, s); break;
        case TILE_ALLOC: tile_append(*s); break;
        default: good = lanes_fail(w->l, "has no command for it in a map");
        }
        w->values = 0;
    }
    return good && !tile_current()->failed;
}

// Maps ------------------------------------------------------------------------------------------------------

// Returns the variable of a map that is across the lanes in a tile at an index; -1: none.
static int lane_in(struct lanes *l, const struct tile_stmt *map, const struct tile_buffer *b,
                   const expr *index) {
    struct lane_tile tile;
    if (!lanes_is_local(b) || !lanes_tile(l, b, &tile) || tile.lane < 0)
        return -1;
    for (int i = 0; i < map->indices; i++)
        if (pass_depends(index[tile.lane], map->name[i]))
            return i;
    return -1;
}

struct lane_search {
    struct lanes *l;
    const struct tile_stmt *map;
    int *found;
};

static bool look(expr e, const void *data) {
    const struct lane_search *s = data;
    if (*s->found < 0 && e->op == TILE_LOAD)
        *s->found = lane_in(s->l, s->map, e->buffer, e->index);
    return false;
}

static void look_in(const struct lane_search *search, const struct tile_stmt *body, bool stores) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        if (stores && s->kind == TILE_STORE && *search->found < 0)
            *search->found = lane_in(search->l, search->map, s->buffer, s->index);
        expr list[TILE_STMT_EXPRS];
        int count = stores ? 0 : tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], look, search);
        look_in(search, s->body, stores);
        look_in(search, s->other, stores);
    }
}

static bool stores_tiles(const struct tile_stmt *s, const void *data) {
    (void)data;
    return s->kind == TILE_STORE && lanes_is_local(s->buffer);
}

// Returns the variable of a map that is across the lanes in the first tile that it stores. If it stores none,
// returns that of the first tile that it loads, or else the last variable but one.
static int choose_lane(struct lanes *l, const struct tile_stmt *s) {
    int lane = -1;
    struct lane_search search = {l, s, &lane};
    look_in(&search, s->body, true);
    if (lane < 0 && !pass_find(s->body, stores_tiles, NULL)) {
        look_in(&search, s->body, false);
        if (lane < 0)
            lane = s->indices - 2;
    }
    return lane;
}

// Finds the variables of a map that an index has in a way that strides cannot express: reversed, divided, or
// inside the index of another load.
struct odd {
    const struct tile_stmt *map;
    bool *is_odd;                 // whether it is such a variable, by its number
    const struct tile_stmt *rest; // the map over the variables that are not odd, as far as known
    int lane;                     // the number of the one across the lanes, in `rest`
};

static void mark(const struct odd *o, expr e, bool is_odd) {
    bool is_sum = e->op == TILE_ADD || e->op == TILE_SUB, is_cast = e->op == TILE_CAST;
    bool is_scaled = e->op == TILE_MUL && (pass_number(e->arg[0]) >= 0 || pass_number(e->arg[1]) >= 0);
    for (int i = 0; e->op == TILE_INDEX && i < o->map->indices; i++)
        if (o->map->name[i] == e->name)
            o->is_odd[i] |= is_odd;
    bool is_own = e->op == TILE_LOCAL && pass_find(o->map->body, assigns, e->name);
    expr steering = is_own ? steering_value(o->map->body, e->name) : NULL;
    if (steering)
        mark(o, steering, true);
    for (int i = 0; is_own && !steering && i < o->map->indices; i++) // its value may be any at each point
        o->is_odd[i] = true;
    for (int i = 0; i < tile_operands(e); i++)
        mark(o, tile_operand(e, i),
             is_odd || (e->op == TILE_SUB && i == 1) || !(is_sum || is_cast || is_scaled));
}

static bool is_odd_index(const struct odd *o, expr index) {
    bool found[TILE_DIMS] = {false}, any = false;
    mark(&(struct odd){.map = o->map, .is_odd = found}, index, false);
    for (int i = 0; i < o->map->indices; i++)
        any |= found[i];
    return any;
}

// Returns whether a value or mask is computed from loaded integers of 64 bits. The control program computes
// it, point by point. Indices need at most 32 bits.
static bool is_wide(expr e) {
    bool is_whole = tile_type_is_integer(e->type) && e->type.bits == 64 && e->args && e->op != TILE_CAST;
    if (e->op != TILE_LOAD && is_whole && pass_any(e, is_load, NULL))
        return true;
    for (int i = 0; i < e->args; i++)
        if (is_wide(e->arg[i]))
            return true;
    return false;
}

static bool has_wide(const struct tile_stmt *s, const void *data) {
    (void)data;
    return (s->value && is_wide(s->value)) || (s->mask && is_wide(s->mask));
}

// Marks the odd variables in the indices of a load. If one axis alone is odd and a command can gather along
// it, that axis is left out.
static bool mark_load(expr e, const void *data) {
    const struct odd *o = data;
    int odd = 0, axis = -1;
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++)
        if (is_odd_index(o, e->index[i])) {
            axis = i;
            odd++;
        }
    bool is_gather =
        odd == 1 && !pass_find(o->map->body, has_wide, NULL) && lanes_can_gather(o->rest, o->lane, e, axis);
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++)
        if (i != axis || !is_gather)
            mark(o, e->index[i], false);
    return false;
}

static bool has_index(const struct tile_stmt *s, const struct tile_name *name) {
    for (int i = 0; i < s->indices; i++)
        if (pass_depends(s->index[i], name))
            return true;
    return false;
}

static void mark_block(const struct odd *o, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr list[TILE_STMT_EXPRS];
        int count = tile_stmt_exprs(s, list);
        for (int i = 0; i < count; i++)
            pass_any(list[i], mark_load, o);
        for (int i = 0; (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && i < s->indices; i++)
            mark(o, s->index[i], false);
        for (int i = 0; s->kind == TILE_ATOMIC && i < o->map->indices; i++) // points may update one element
            o->is_odd[i] |= !has_index(s, o->map->name[i]);
        for (int i = 0; i < count && (s->kind == TILE_FOR || s->kind == TILE_WHILE); i++)
            mark(o, list[i], true);
        for (int i = 0; s->kind == TILE_ALLOC && i < o->map->indices; i++) // each point has its own
            o->is_odd[i] = true;
        mark_block(o, s->body);
        mark_block(o, s->other);
    }
}

// Sets *rest to the map over the variables that are not odd.
static void leave_odd(const struct tile_stmt *s, const bool *is_odd, struct tile_stmt *rest,
                      const struct tile_name **name, expr *extent) {
    rest->indices = 0;
    rest->name = name;
    rest->extent = extent;
    for (int i = 0; i < s->indices; i++)
        if (!is_odd[i]) {
            name[rest->indices] = s->name[i];
            extent[rest->indices++] = s->extent[i];
        }
}

// Opens loops of the control program over the variables that neither strides nor gathers can express, and
// sets *rest to the map over the others. Returns the number of loops.
static int open_odd(struct lanes *l, const struct tile_stmt *s, struct tile_stmt *rest,
                    const struct tile_name **name, expr *extent) {
    bool is_odd[TILE_DIMS] = {false};
    int loops = 0, before;
    do {
        before = rest->indices;
        leave_odd(s, is_odd, rest, name, extent);
        mark_block(&(struct odd){s, is_odd, rest, choose_lane(l, rest)}, s->body);
        leave_odd(s, is_odd, rest, name, extent);
    } while (rest->indices < before);
    for (int i = 0; i < s->indices; i++)
        if (is_odd[i]) {
            tile_open_for(s->name[i], NULL, s->extent[i], NULL, TILE_SERIAL);
            loops++;
        }
    return loops;
}

// Returns whether a node keeps the points of a map from being in any lane: it loads from a tile, under a
// mask, or gathers along several axes. open_points spreads maps of one variable without such nodes over all
// lanes.
static bool is_tied(expr e, const void *data) {
    (void)data;
    bool is_far = e->op != TILE_LOAD || !lanes_is_local(e->buffer), is_plain = e->op != TILE_LOAD || !e->args;
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++) // a gather has one axis
        is_plain &= e->indices == 1 || !pass_any(e->index[i], is_load, NULL);
    return !is_far || !is_plain;
}

static bool is_bound(const struct tile_stmt *s, const void *data) {
    expr list[TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, list);
    bool stores = s->kind == TILE_STORE && !s->mask && !lanes_is_local(s->buffer);
    if (!stores && s->kind != TILE_ASSIGN)
        return true;
    for (int i = 0; i < count; i++)
        if (pass_any(list[i], is_tied, data))
            return true;
    return false;
}

static bool open_points(struct lanes *l, const struct tile_stmt *s, struct lane_space *space) {
    bool is_flat = false;
    if (s->indices == 1 && !pass_find(s->body, is_bound, NULL) &&
        !lanes_open_flat(s->name[0], s->extent[0], space, &is_flat))
        return false;
    return is_flat || lanes_open(l, s->indices, s->name, s->extent, choose_lane(l, s), space);
}

static bool map_points(struct lanes *l, const struct tile_stmt *s) {
    struct lane_space space;
    struct lane_work *w = memory_zero(sizeof *w);
    if (!w || !open_points(l, s, &space)) {
        memory_free(w);
        return false;
    }
    struct pass_swap swap = {.names = s->indices, .name = s->name, .value = space.value};
    w->l = l;
    w->p = &space.points;
    w->map = s->body;
    int variables = l->variables;
    bool good = pass_swap_in(&swap, s->body) && run_block(w, s->body);
    l->variables = variables;
    lanes_close(&space);
    memory_free(w);
    return good;
}

// Narrows a map whose statements are all under conditions that bound its variables to the points where these
// hold; other points may be outside of tiles. `extent` and `store` are space for its new parts.
static void narrow(struct tile_stmt *map, expr *extent, struct tile_stmt *store) {
    for (int i = 0; i < map->indices; i++)
        extent[i] = map->extent[i];
    map->extent = extent;
    while (map->body && !map->body->next) {
        struct tile_stmt *only = map->body;
        expr mask = (only->kind == TILE_IF && !only->other) || only->kind == TILE_STORE ? only->mask : NULL;
        int64_t end[TILE_DIMS];
        for (int i = 0; i < map->indices; i++)
            end[i] = pass_number(extent[i]);
        if (!mask || !pass_narrow(map, mask, end))
            return;
        for (int i = 0; i < map->indices; i++)
            if (end[i] == 0)
                return;
        for (int i = 0; i < map->indices; i++)
            extent[i] = end[i] > 0 ? box_number(end[i]) : extent[i];
        *store = *only;
        store->mask = NULL;
        map->body = only->kind == TILE_IF ? only->body : store;
    }
}

// Variables in indices of loads -----------------------------------------------------------------------------

// The variables that the points of a map assign once, before they use them, from values that no point writes:
//
//     map i in 64, j in 100 { at: i32 = which[i]; t[i, j] = x[at, j] }
//
// An index with such a variable is rewritten to have its value, which makes it a gather or a sum of loop
// variables.
struct named {
    const struct tile_stmt *body;
    int count;
    const struct tile_name *name[TILE_DIMS];
    expr value[TILE_DIMS];
};

static bool is_any_named(expr e, const void *data) {
    const struct named *n = data;
    for (int i = 0; e->op == TILE_LOCAL && i < n->count; i++)
        if (n->name[i] == e->name)
            return true;
    return false;
}

static bool has_named_index(expr e, const void *data) {
    for (int i = 0; e->op == TILE_LOAD && i < e->indices; i++)
        if (pass_any(e->index[i], is_any_named, data))
            return true;
    return false;
}

static expr in_index(void *data, expr e) {
    const struct named *n = data;
    if (!pass_any(e, is_any_named, n)) // most formulas have none
        return e;
    for (int i = 0; e->op == TILE_LOCAL && i < n->count; i++)
        if (n->name[i] == e->name)
            return tile_cast(e->type, n->value[i]);
    return pass_rebuild(e, in_index, data);
}

static expr in_loads(void *data, expr e) {
    expr operand[3 + TILE_DIMS];
    bool is_new = false;
    if (!pass_any(e, has_named_index, data))
        return e;
    for (int i = 0; i < tile_operands(e); i++) {
        operand[i] = e->op == TILE_LOAD && i >= e->args ? in_index(data, e->index[i - e->args])
                                                        : in_loads(data, tile_operand(e, i));
        if (!operand[i])
            return NULL;
        is_new |= operand[i] != tile_operand(e, i);
    }
    return is_new ? tile_rebuild(e, operand) : e;
}

static void name_values(expr *place, void *data) {
    expr e = *place ? in_loads(data, *place) : NULL;
    if (e)
        *place = e;
}

static void name_value(struct named *n, const struct tile_stmt *s) {
    const struct tile_name *name = s->kind == TILE_ASSIGN ? s->name[0] : NULL;
    if (!name || n->count == TILE_DIMS || count_assignments(n->body, name) != 1 ||
        pass_find(n->body, steers_by, name))
        return;
    expr value = in_index(n, s->value);
    if (value && !pass_any(value, may_change, n->body)) {
        n->name[n->count] = name;
        n->value[n->count++] = value;
    }
}

static void name_indices(struct tile_stmt *body) {
    struct named n = {.body = body};
    for (struct tile_stmt *s = body, *next; s; s = next) {
        next = s->next;
        s->next = NULL; // visit this statement alone
        if (n.count)
            pass_each_expr(s, name_values, &n);
        s->next = next;
        name_value(&n, s);
    }
}

bool lanes_map(struct lanes *l, const struct tile_stmt *s) {
    expr bounds[TILE_DIMS];
    struct tile_stmt part = *s, store;
    name_indices(s->body);
    narrow(&part, bounds, &store);
    s = &part;
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    struct tile_stmt rest = *s;
    int loops = open_odd(l, s, &rest, name, extent);
    bool good = map_points(l, &rest);
    while (loops-- > 0)
        tile_close();
    return good;
}

bool lanes_store(struct lanes *l, const struct tile_stmt *s) {
    struct lane_space space;
    struct lane_work *w = memory_zero(sizeof *w);
    bool good = w && lanes_open(l, 0, NULL, NULL, -1, &space);
    if (good) {
        w->l = l;
        w->p = &space.points;
        struct tile_stmt alone = *s;
        alone.next = NULL;
        good = run_block(w, &alone);
    }
    memory_free(w);
    return good;
}
