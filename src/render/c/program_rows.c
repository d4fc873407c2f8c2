// program_rows.c - writes the innermost axis of a map as row functions over the vector layer, like those that
// compute arrays.
//
// A statement of a map becomes a row if the elements that it loads and stores move by one element along the
// axis, or not at all. Values that do not move are computed before and passed as scalars. Statements become
// rows one after the other, because the points of a map do not depend on each other. A row that is reduced to
// one element is one function with its reduction. Short formulas of simple ops stay loops, which compilers
// vectorise as well.

#include "render/c/program.h"

#include "render/render.h"

#include <stdio.h>

enum { LONG = 12, INPUTS = 24 }; // least nodes of a simple formula that becomes a row; most inputs of a row

// A row while its function is built.
struct row {
    struct program *p;
    const struct tile_stmt *s;      // the store of the row
    const struct tile_name *along;  // the variable of the axis
    const struct tile_stmt *reduce; // the reduction of the stored row to one element; NULL: none
    bool is_kept;                   // the stored row is also read elsewhere
    int nodes;                      // nodes of the formula
    bool is_hard;                   // compilers do not vectorise it well
    int inputs;
    expr input[INPUTS];     // loads that move along the axis, and values that do not
    bool is_vector[INPUTS]; // the input is a load that moves
    expr made[INPUTS];      // the inputs in the row's kernel
};

// What a formula needs --------------------------------------------------------------------------------------

// Returns whether a node depends on the axis. Nodes are shared, so the answer is kept for each node of a row.
static bool moves(struct row *r, expr e) {
    int *known = &r->p->moving[e->id], yes = 2 * r->p->stamp + 1;
    if (*known >> 1 != r->p->stamp) {
        bool found = e->op == TILE_INDEX && e->name == r->along;
        for (int i = 0; i < tile_operands(e) && !found; i++)
            found = moves(r, tile_operand(e, i));
        *known = found ? yes : yes - 1;
    }
    return *known == yes;
}

static bool is_along(const struct tile_buffer *b, const expr *index, const struct tile_name *along) {
    for (int i = 0; i + 1 < b->ndim; i++)
        if (pass_step_of(index[i], along) != PASS_FIXED)
            return false;
    return b->ndim && pass_step_of(index[b->ndim - 1], along) == PASS_UNIT &&
           program_stride(b, b->ndim - 1) == 1;
}

static bool add_input(struct row *r, expr e, bool is_vector) {
    if (r->inputs == INPUTS || tile_type_is_complex(e->type))
        return false;
    r->is_vector[r->inputs] = is_vector;
    r->input[r->inputs++] = e;
    return true;
}

static bool is_hard(expr e) {
    bool is_float = tile_type_is_float(e->type);
    bool is_half = e->op == TILE_CAST && (tile_type_is_half(e->type) || tile_type_is_half(e->arg[0]->type));
    return is_half || e->op == TILE_RARE || (is_float && (e->op == TILE_MAX || e->op == TILE_MIN));
}

// Adds a node to the formula or to its inputs. Returns false if it can be neither.
static bool look(struct row *r, expr e) {
    struct program *p = r->p;
    if (p->seen[e->id] == p->stamp)
        return true;
    p->seen[e->id] = p->stamp;
    if (e->op == TILE_CONST)
        return !tile_type_is_complex(e->type);
    if (!moves(r, e))
        return add_input(r, e, false);
    if (e->op == TILE_LOAD)
        return !e->args && is_along(e->buffer, e->index, r->along) && add_input(r, e, true);
    if (e->op == TILE_INDEX || tile_type_is_complex(e->type))
        return false;
    r->nodes++;
    r->is_hard |= is_hard(e);
    for (int i = 0; i < e->args; i++)
        if (!look(r, e->arg[i]))
            return false;
    return true;
}

static bool is_row(struct row *r) {
    const struct tile_stmt *s = r->s;
    if (s->kind != TILE_STORE || s->mask || tile_type_is_complex(s->value->type) ||
        !is_along(s->buffer, s->index, r->along))
        return false;
    r->p->stamp++;
    return look(r, s->value) && (r->is_hard || r->nodes >= LONG || r->reduce);
}

bool program_has_rows(struct program *p, const struct tile_stmt *map) {
    bool has = map->body && !p->checks && !p->own;
    for (const struct tile_stmt *s = map->body; has && s; s = s->next)
        has = is_row(&(struct row){.p = p, .s = s, .along = map->name[map->indices - 1]});
    return has;
}

// The row's kernel ------------------------------------------------------------------------------------------

static expr clone(struct row *r, struct map *memo, expr e) {
    expr known = map_get(memo, &e, sizeof e), operand[3];
    if (known || e->op == TILE_CONST)
        return known ? known : tile_const_bits(e->type, e->bits);
    for (int i = 0; i < r->inputs; i++)
        if (r->input[i] == e)
            return r->made[i];
    for (int i = 0; i < e->args; i++)
        if (!(operand[i] = clone(r, memo, e->arg[i])))
            return NULL;
    expr made = tile_rebuild(e, operand);
    return made && map_set(memo, &e, sizeof e, (void *)(uintptr_t)made) ? made : NULL;
}

static expr declare_input(struct row *r, int at, expr n, expr i) {
    char text[24];
    expr e = r->input[at];
    snprintf(text, sizeof text, "x%d", at);
    if (!r->is_vector[at]) {
        const struct tile_name *scalar = tile_parameter_scalar(text, e->type);
        return scalar ? tile_name_value(scalar, TILE_SCALAR) : NULL;
    }
    const struct tile_buffer *b = tile_parameter_buffer(text, e->buffer->type, 1, &n, false);
    return b ? tile_load(b, 1, &i, NULL, NULL) : NULL;
}

static const struct tile_buffer *declare_output(const struct row *r, expr n) {
    struct tile_type type = r->s->buffer->type;
    return !r->reduce || r->is_kept ? tile_parameter_buffer("y", type, 1, &n, true)
                                    : tile_alloc("y", type, TILE_REGISTER, 1, &n);
}

static void append_reduction(const struct row *r, const struct tile_buffer *y) {
    expr one = tile_const_int(tile_index_type(), 1);
    const struct tile_buffer *to =
        one ? tile_parameter_buffer("result", r->reduce->region[1].buffer->type, 1, &one, true) : NULL;
    if (to)
        tile_append((struct tile_stmt){.kind = TILE_REDUCE,
                                       .region = {{.buffer = y}, {.buffer = to}},
                                       .combine = r->reduce->combine,
                                       .clear = true});
}

static struct tile_kernel *build(struct row *r) {
    struct map memo = {0};
    struct tile_kernel *kernel = tile_begin("row");
    const struct tile_name *size = tile_symbol("n", 0, INT64_MAX, 1);
    expr n = size ? tile_name_value(size, TILE_SYMBOL) : NULL;
    const struct tile_name *name = n ? tile_index("i", n) : NULL;
    expr i = name ? tile_name_value(name, TILE_INDEX) : NULL;
    for (int at = 0; i && at < r->inputs; at++)
        r->made[at] = declare_input(r, at, n, i);
    const struct tile_buffer *y = i ? declare_output(r, n) : NULL;
    if (y && tile_open_map(1, &name, &n)) {
        tile_store(y, 1, &i, clone(r, &memo, r->s->value), NULL);
        tile_close();
    }
    if (y && r->reduce)
        append_reduction(r, y);
    map_free(&memo);
    if (kernel)
        kernel->registers = r->p->kernel->registers;
    return tile_end();
}

// Writes the row's function and returns its number in the text; -1, with an error, if that fails.
static int add_function(struct row *r) {
    struct text symbol = {0}, text = {0};
    struct program *p = r->p;
    struct tile_kernel *kernel = build(r);
    text_add(&symbol, "%s_row%d", p->symbol, p->rows);
    bool done = kernel && pass_run(kernel, render_target("c"), NULL) && !symbol.failed &&
                render_function(&text, kernel, "c", symbol.data) && !text.failed;
    if (done) // the text of a reduction begins with a helper function, so `static` cannot precede it
        text_add(&p->row_text, "%s%s", r->reduce ? "" : "static ", text.data);
    tile_free(kernel);
    text_free(&symbol);
    text_free(&text);
    return done ? p->rows++ : -1;
}

// The call --------------------------------------------------------------------------------------------------

// Writes to `root` all expressions that the call names, and returns their number.
static int roots_of(const struct row *r, expr *root) {
    int count = 0;
    for (int i = 0; i < r->s->indices; i++)
        root[count++] = r->s->index[i];
    for (int at = 0; at < r->inputs; at++) {
        expr e = r->input[at];
        if (!r->is_vector[at])
            root[count++] = e;
        for (int i = 0; r->is_vector[at] && i < e->indices; i++)
            root[count++] = e->index[i];
    }
    return count;
}

static void pass_inputs(struct row *r) {
    struct program *p = r->p;
    for (int at = 0; at < r->inputs; at++) {
        expr e = r->input[at];
        text_add(p->style.out, ", (char *)");
        if (r->is_vector[at]) {
            text_add(p->style.out, "&");
            program_element(p, e->buffer, e->index);
        } else
            program_text(p, &e, "&(%s){@}", program_memory(e->type));
    }
}

static void pass_outputs(struct row *r) {
    struct text *out = r->p->style.out;
    if (!r->reduce || r->is_kept) {
        text_add(out, "(char *)&");
        program_element(r->p, r->s->buffer, r->s->index);
    }
    if (r->reduce)
        text_add(out, "%s(char *)b%d", r->is_kept ? ", " : "", r->reduce->region[1].buffer->id);
}

static void write_call(struct row *r, int number, const char *count) {
    struct program *p = r->p;
    expr root[(INPUTS + 1) * TILE_DIMS];
    program_nodes(p, roots_of(r, root), root);
    text_add(p->style.out, "%*s%s_row%d((char *const[]){", 4 * p->style.indent, "", p->symbol, number);
    pass_outputs(r);
    pass_inputs(r);
    text_add(p->style.out, "}, %s, %s);\n", count, count);
}

static void call(struct row *r, const char *count) {
    struct program *p = r->p;
    int number = is_row(r) ? add_function(r) : -1;
    if (number < 0) {
        p->failed = true;
        return;
    }
    style_open(&p->style, "if (%s > 0)", count);
    write_call(r, number, count);
    style_close(&p->style);
}

void program_rows(struct program *p, const struct tile_stmt *map, const char *count) {
    for (const struct tile_stmt *s = map->body; s && !p->failed; s = s->next)
        call(&(struct row){.p = p, .s = s, .along = map->name[map->indices - 1]}, count);
}

// Rows that are reduced -------------------------------------------------------------------------------------

// A map of one row with one store, the allocation of a result, and the reduction of the row to it. `memory`
// is an allocation before these, perhaps that of the row, or NULL.
struct reduced {
    const struct tile_stmt *memory, *map, *result, *reduce;
};

static bool is_that_line(const struct reduced *d) {
    const struct tile_region *r = &d->reduce->region[0];
    const struct tile_stmt *store = d->map->body;
    int last = r->buffer->ndim - 1;
    bool same = r->buffer == store->buffer && r->origin && r->extent && d->reduce->axis == last &&
                pass_number(r->origin[last]) == 0 && r->extent[last] == d->map->extent[0] &&
                store->index[last]->op == TILE_INDEX && store->index[last]->name == d->map->name[0];
    for (int i = 0; same && i < last; i++)
        same = store->index[i] == r->origin[i];
    return same;
}

static bool is_reduced(struct reduced *d, const struct tile_stmt *s) {
    d->memory = s->kind == TILE_ALLOC ? s : NULL;
    d->map = d->memory ? s->next : s;
    d->result = d->map ? d->map->next : NULL;
    d->reduce = d->result ? d->result->next : NULL;
    return d->reduce && d->map->kind == TILE_MAP && d->map->indices == 1 && pass_is_plain_map(d->map) &&
           !d->map->body->next && d->result->kind == TILE_ALLOC && d->reduce->kind == TILE_REDUCE &&
           d->reduce->region[1].buffer == d->result->buffer && is_that_line(d);
}

static bool is_kept(const struct reduced *d) {
    const struct tile_stmt *store = d->map->body;
    return !d->memory || d->memory->buffer != store->buffer || pass_uses(d->reduce->next, store->buffer) ||
           pass_loads(store->value, store->buffer);
}

// Returns the number of a function for the row; -1 if there is none, which is an error only if memory runs
// out.
static int try_function(struct row *r) {
    int number = is_row(r) ? add_function(r) : -1;
    zl_error_kind kind = ZL_ERROR_COMPILE;
    if (number < 0)
        memory_free(error_take(&kind));
    r->p->failed |= kind == ZL_ERROR_MEMORY;
    return number;
}

const struct tile_stmt *program_reduced(struct program *p, const struct tile_stmt *s) {
    struct reduced d;
    char count[24];
    if (p->checks || p->own || !is_reduced(&d, s))
        return NULL;
    struct row r = {
        .p = p, .s = d.map->body, .along = d.map->name[0], .reduce = d.reduce, .is_kept = is_kept(&d)};
    int number = try_function(&r);
    if (number < 0)
        return NULL;
    if (d.memory && (r.is_kept || d.memory->buffer != d.map->body->buffer))
        program_alloc(p, d.memory);
    program_alloc(p, d.result);
    snprintf(count, sizeof count, "e%d", r.along->id);
    program_line(p, NULL, "{");
    program_extents(p, d.map);
    style_line(&p->style, "const %s j%d = 0;", tile_type_name(r.along->type), r.along->id);
    write_call(&r, number, count);
    style_close(&p->style);
    return d.reduce;
}
