// cost.c - counts the operations of a kernel and the bytes that it moves, from its IR.

#include "tile/tile.h"

#include "op/rules.h"

#include <math.h>

struct cost {
    const struct tile_kernel *kernel;
    union tile_value *name; // by id; of a loop variable, the middle of its range
    bool *varies;           // by id of name: its value depends on memory or scalars
    double *read, *written; // bytes by id of buffer
    int *seen;              // by id of expression: the last statement in which it was counted
    int stmts;
    double operations;
    bool failed;
};

// Sizes -----------------------------------------------------------------------------------------------------

static union tile_value no_load(void *data, expr e, const int64_t *index) {
    (void)data, (void)e, (void)index;
    return (union tile_value){.u = 0};
}

static union tile_value value_of(struct cost *c, expr e) {
    union tile_value value = {.u = 0};
    struct tile_tape *tape = tile_tape(1, &e);
    c->failed = c->failed || !tape;
    if (tape)
        tile_tape_run(tape, c->name, no_load, NULL, &value);
    tile_tape_free(tape);
    return value;
}

static int64_t number(struct cost *c, expr e) {
    return value_of(c, e).i;
}

// Returns whether a value follows from sizes and loop variables alone.
static bool is_known(const struct cost *c, expr e) {
    bool is_name = e->name != NULL;
    bool known = e->op != TILE_LOAD && e->op != TILE_SCALAR && !(is_name && c->varies[e->name->id]);
    for (int i = 0; known && i < e->args; i++)
        known = is_known(c, e->arg[i]);
    return known;
}

static double product(struct cost *c, const expr *list, int count) {
    double result = 1;
    for (int i = 0; i < count; i++)
        result *= (double)MAX_OF(number(c, list[i]), 0);
    return result;
}

static const expr *extents(const struct tile_region *r) {
    return r->extent ? r->extent : r->origin ? NULL : r->buffer->shape;
}

// Returns the elements of a region; if it does not state its size, those of the other side.
static double elements(struct cost *c, const struct tile_region *r, const struct tile_region *other) {
    if (extents(r))
        return product(c, extents(r), r->buffer->ndim);
    return other && extents(other) ? product(c, extents(other), other->buffer->ndim) : 1;
}

static void touch(double *bytes, const struct tile_buffer *b, double count) {
    bytes[tile_memory_of(b)->id] += count * tile_type_bytes(b->type);
}

// Expressions -----------------------------------------------------------------------------------------------

static double operations_of(enum tile_op op, struct tile_type type) {
    bool is_arithmetic = tile_op_is_row(op) && !(tile_op_rule(op) & (TRUTH | BITS)) && op != TILE_SELECT &&
                         op != TILE_CONJ && op != TILE_REAL_PART && op != TILE_IMAG_PART;
    if (op == TILE_FMA || op == TILE_EXP2)
        return op == TILE_FMA ? 2 : 1;
    if (!is_arithmetic)
        return 0;
    return !tile_type_is_complex(type) ? 1 : op == TILE_MUL ? 6 : 2;
}

// Counts each node once per statement, as it is computed. Integer arithmetic is that of indices and does not
// count.
static void count_expr(struct cost *c, expr e, double times) {
    if (c->seen[e->id] == c->stmts)
        return;
    c->seen[e->id] = c->stmts;
    if (e->op == TILE_LOAD)
        touch(c->read, e->buffer, times);
    if (!tile_type_is_integer(e->type))
        c->operations += operations_of(e->op, e->type) * times;
    for (int i = 0; i < e->args; i++)
        count_expr(c, e->arg[i], times);
}

// Statements ------------------------------------------------------------------------------------------------

static void count_block(struct cost *c, const struct tile_stmt *body, double times);

static void count_for(struct cost *c, const struct tile_stmt *s, double times) {
    double begin = (double)number(c, s->begin), step = (double)number(c, s->step);
    double end = (double)number(c, s->extent[0]), trips = step == 0 ? 0 : ceil((end - begin) / step);
    c->name[s->name[0]->id].i = (int64_t)(begin + (trips - 1) / 2 * step);
    count_block(c, s->body, times * (trips > 0 ? trips : 0));
}

static void count_points(struct cost *c, const struct tile_stmt *s, double times) {
    for (int i = 0; i < s->indices; i++) {
        int64_t extent = number(c, s->extent[i]);
        c->name[s->name[i]->id].i = extent / 2;
        times *= (double)MAX_OF(extent, 0);
    }
    count_block(c, s->body, times);
}

static void count_copy(struct cost *c, const struct tile_stmt *s, double times) {
    double count = elements(c, &s->region[0], &s->region[1]) * times;
    touch(c->read, s->region[0].buffer, count);
    touch(c->written, s->region[1].buffer, count);
}

static void count_reduce(struct cost *c, const struct tile_stmt *s, double times) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    double count = elements(c, from, NULL) * times;
    double along = extents(from) ? (double)number(c, extents(from)[s->axis]) : 1;
    c->operations += count * operations_of(s->combine, to->buffer->type);
    touch(c->read, from->buffer, count);
    touch(c->written, to->buffer, s->kind == TILE_REDUCE && along > 0 ? count / along : count);
}

static void count_gemm(struct cost *c, const struct tile_stmt *s, double times) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    const expr *sizes = extents(b) ? extents(b) + b->buffer->ndim - 2 : NULL;
    double columns = sizes ? (double)number(c, sizes[!s->transpose[1]]) : 1;
    double inside = elements(c, a, NULL) * times; // rows times depth
    bool is_complex = tile_type_is_complex(s->region[2].buffer->type);
    c->operations += (is_complex ? 8 : 2) * inside * columns;
    touch(c->read, a->buffer, inside);
    touch(c->read, b->buffer, elements(c, b, NULL) * times);
}

static void count_store(struct cost *c, const struct tile_stmt *s, double times) {
    count_expr(c, s->value, times);
    if (s->mask)
        count_expr(c, s->mask, times);
    touch(c->written, s->buffer, times);
    if (s->kind != TILE_ATOMIC)
        return;
    if (s->old)
        c->varies[s->old->id] = true;
    touch(c->read, s->buffer, times);
    c->operations += operations_of(s->combine, s->buffer->type) * times;
}

// If a condition depends on sizes and loop variables alone, the branch counts that is taken in the middle of
// their ranges; otherwise each branch counts half.
static void count_if(struct cost *c, const struct tile_stmt *s, double times) {
    double share = !is_known(c, s->mask) ? 0.5 : value_of(c, s->mask).b ? 1 : 0;
    count_expr(c, s->mask, times);
    count_block(c, s->body, times * share);
    count_block(c, s->other, times * (1 - share));
}

// A variable with a known integer value, such as an index, is known where it is used.
static void count_assign(struct cost *c, const struct tile_stmt *s, double times) {
    int id = (s->kind == TILE_ASSIGN ? s->name[0] : s->old)->id;
    count_expr(c, s->value, times);
    c->varies[id] = s->kind != TILE_ASSIGN || !tile_type_is_integer(s->value->type) || !is_known(c, s->value);
    if (!c->varies[id])
        c->name[id] = value_of(c, s->value);
}

static void count_stmt(struct cost *c, const struct tile_stmt *s, double times) {
    c->stmts++;
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: count_store(c, s, times); break;
    case TILE_SHUFFLE:
    case TILE_ASSIGN: count_assign(c, s, times); break;
    case TILE_MAP:
    case TILE_THREAD:
    case TILE_GRID: count_points(c, s, times); break;
    case TILE_FOR: count_for(c, s, times); break;
    case TILE_IF: count_if(c, s, times); break;
    case TILE_WHILE:
        count_expr(c, s->mask, times);
        count_block(c, s->body, times);
        break;
    case TILE_COPY: count_copy(c, s, times); break;
    case TILE_IM2COL:
        touch(c->read, s->region[0].buffer, elements(c, &s->region[1], NULL) * times);
        touch(c->written, s->region[1].buffer, elements(c, &s->region[1], NULL) * times);
        break;
    case TILE_FILL: touch(c->written, s->region[1].buffer, elements(c, &s->region[1], NULL) * times); break;
    case TILE_REDUCE:
    case TILE_SCAN: count_reduce(c, s, times); break;
    case TILE_GEMM: count_gemm(c, s, times); break;
    default: break;
    }
}

static void count_block(struct cost *c, const struct tile_stmt *body, double times) {
    for (const struct tile_stmt *s = body; s && !c->failed; s = s->next)
        count_stmt(c, s, times);
}

// Kernels ---------------------------------------------------------------------------------------------------

static double parameter_bytes(struct cost *c) {
    double bytes = 0;
    for (int i = 0; i < c->kernel->parameters; i++) {
        const struct tile_buffer *b = c->kernel->parameter[i].buffer;
        if (tile_is_by_value(&c->kernel->parameter[i]))
            continue;
        double all = product(c, b->shape, b->ndim) * tile_type_bytes(b->type);
        bytes += MIN_OF(c->read[b->id], all) + MIN_OF(c->written[b->id], all);
    }
    return bytes;
}

struct tile_cost tile_cost(const struct tile_kernel *kernel, const int64_t *symbol_values) {
    struct tile_cost result = {0, 0};
    struct cost c = {.kernel = kernel};
    c.name = memory_zero((size_t)(kernel->names + 1) * sizeof *c.name);
    c.varies = memory_zero((size_t)(kernel->names + 1) * sizeof *c.varies);
    c.read = memory_zero((size_t)(kernel->buffers + 1) * sizeof *c.read);
    c.written = memory_zero((size_t)(kernel->buffers + 1) * sizeof *c.written);
    c.seen = memory_zero((size_t)(kernel->ids + 1) * sizeof *c.seen);
    if (c.name && c.varies && c.read && c.written && c.seen) {
        for (int i = 0; i < kernel->symbols; i++)
            c.name[kernel->symbol[i]->id].i = symbol_values[i];
        count_block(&c, kernel->body, 1);
        result = (struct tile_cost){c.operations, parameter_bytes(&c)};
    }
    memory_free(c.name);
    memory_free(c.varies);
    memory_free(c.read);
    memory_free(c.written);
    memory_free(c.seen);
    return c.failed ? (struct tile_cost){0, 0} : result;
}
