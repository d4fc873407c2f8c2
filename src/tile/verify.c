// verify.c - checks that a kernel keeps the rules of the IR: types, scopes, which buffers may be written,
// nesting of statements, tokens.
//
// It walks the statements once, in order. Tables by id hold the names and buffers that are visible; the trail
// lists them in the order of their declaration, so that they can be removed at the end of a block.

#include "tile/syntax.h"

#include <ctype.h>
#include <inttypes.h>

struct verifier {
    const struct tile_kernel *kernel;
    const struct tile_stmt *at;
    const struct tile_name **name;     // visible, by id
    enum tile_op *name_op;             // how a visible name is read: TILE_INDEX, TILE_LOCAL, ...
    const struct tile_buffer **buffer; // visible, by id
    bool *token;                       // by number: a statement before this one gives it
    // by id of expression: the number of the last statement that checked it
    int *seen;
    // statements checked so far; enclosing loops that `break` can leave; enclosing grids
    int stmts, loops, grids;
    int maps; // enclosing maps, and loops whose iterations have no order
    // threads per block of the grid, 0: not stated; trail_len at the start of the enclosing `thread`, 0: none
    int threads, outside;
    int *trail, trail_len, trail_cap; // declared names as id, buffers as ~id
};

// Errors ----------------------------------------------------------------------------------------------------

static const char *file_of(const struct tile_kernel *k) {
    return k->file ? k->file : k->name;
}
static struct tile_place place_of(const struct verifier *v) {
    return v->at ? v->at->place : (struct tile_place){0};
}

__attribute__((format(printf, 2, 3))) static bool fail(struct verifier *v, const char *format, ...) {
    struct text text = {0};
    va_list list;
    va_start(list, format);
    text_add_list(&text, format, list);
    va_end(list);
    if (!text.failed)
        tile_error_at(ZL_ERROR_VALUE, file_of(v->kernel), v->kernel->source, place_of(v), "%s: %s",
                      v->at ? tile_stmt_name(v->at->kind) : "kernel", text.data);
    text_free(&text);
    return false;
}

// Scopes ----------------------------------------------------------------------------------------------------

static bool remember(struct verifier *v, int entry) {
    if (!memory_grow(&v->trail, &v->trail_cap, v->trail_len + 1, sizeof *v->trail))
        return false;
    v->trail[v->trail_len++] = entry;
    return true;
}

static void forget(struct verifier *v, int len) {
    while (v->trail_len > len) {
        int entry = v->trail[--v->trail_len];
        if (entry >= 0)
            v->name[entry] = NULL;
        else
            v->buffer[~entry] = NULL;
    }
}

static bool is_identifier(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return !*text;
}

static bool declare_name(struct verifier *v, const struct tile_name *name, enum tile_op op) {
    if (!is_identifier(name->text))
        return fail(v, "'%s' is no name", name->text);
    if (name->id < 0 || name->id >= v->kernel->names)
        return fail(v, "'%s' is of another kernel", name->text);
    if (v->name[name->id])
        return fail(v, "'%s' is declared twice", name->text);
    v->name[name->id] = name;
    v->name_op[name->id] = op;
    return remember(v, name->id);
}

static bool declare_buffer(struct verifier *v, const struct tile_buffer *b) {
    if (!is_identifier(b->text))
        return fail(v, "'%s' is no name", b->text);
    if (b->id < 0 || b->id >= v->kernel->buffers)
        return fail(v, "'%s' is of another kernel", b->text);
    if (v->buffer[b->id])
        return fail(v, "'%s' is allocated twice", b->text);
    v->buffer[b->id] = b;
    return remember(v, ~b->id);
}

static bool is_visible(const struct verifier *v, const struct tile_name *name, enum tile_op op) {
    return name->id >= 0 && name->id < v->kernel->names && v->name[name->id] == name &&
           v->name_op[name->id] == op;
}

static bool check_visible(struct verifier *v, const struct tile_buffer *b) {
    bool visible = b->id >= 0 && b->id < v->kernel->buffers && v->buffer[b->id] == b;
    return visible || fail(v, "buffer '%s' is not defined here", b->text);
}

static bool check_writable(struct verifier *v, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    if (!check_visible(v, b))
        return false;
    if (memory->parameter >= 0 && !memory->is_output)
        return fail(v, "'%s' is an input; only outputs and allocations are written", memory->text);
    return b->memory != TILE_CONSTANT || fail(v, "'%s' is constant", b->text);
}

// Expressions -----------------------------------------------------------------------------------------------

static bool check_expr(struct verifier *v, expr e);

static bool check_type(struct verifier *v, expr e, struct tile_type type, const char *what) {
    return tile_type_equal(e->type, type) ||
           fail(v, "%s is %s, not %s", what, tile_type_name(e->type), tile_type_name(type));
}

static bool check_truth(struct verifier *v, expr e, const char *what) {
    return tile_type_is_bool(e->type) || fail(v, "%s is %s, not bool", what, tile_type_name(e->type));
}

static bool check_integers(struct verifier *v, const expr *list, int count, const char *what) {
    for (int i = 0; list && i < count; i++)
        if (!tile_type_is_integer(list[i]->type))
            return fail(v, "%s is %s, not an integer", what, tile_type_name(list[i]->type));
    return true;
}

static bool check_name(struct verifier *v, expr e) {
    if (!is_visible(v, e->name, e->op))
        return fail(v, "%s '%s' is not defined here", tile_op_name(e->op), e->name->text);
    return check_type(v, e, e->name->type, e->name->text);
}

static bool check_load(struct verifier *v, expr e) {
    if (!check_visible(v, e->buffer))
        return false;
    if (e->indices != e->buffer->ndim)
        return fail(v, "'%s' has %d axes and %d indices", e->buffer->text, e->buffer->ndim, e->indices);
    if (!check_type(v, e, e->buffer->type, "a load") || !check_integers(v, e->index, e->indices, "an index"))
        return false;
    return !e->args ||
           (check_truth(v, e->arg[0], "a mask") && check_type(v, e->arg[1], e->type, "a masked value"));
}

static bool check_address(struct verifier *v, expr e) {
    return check_visible(v, e->buffer) && check_type(v, e, (struct tile_type){TILE_INT, 64, 1}, "an address");
}

static bool check_conversion(struct verifier *v, expr e) {
    bool same_bits = e->op == TILE_CAST || e->type.bits == e->arg[0]->type.bits;
    return (same_bits && e->type.lanes == e->arg[0]->type.lanes) ||
           fail(v, "%s of %s to %s", tile_op_name(e->op), tile_type_name(e->arg[0]->type),
                tile_type_name(e->type));
}

static bool check_op(struct verifier *v, expr e) {
    struct tile_type type;
    bool had_error = zl_error(); // a thread keeps its first error: if it has one, tile_op_type adds none
    if (e->args != tile_op_arity(e->op))
        return fail(v, "%s has %d operands", tile_op_name(e->op), e->args);
    if (tile_op_type(e->op, e->arg, &type))
        return check_type(v, e, type, tile_op_name(e->op));
    if (!had_error)
        tile_error_move(ZL_ERROR_VALUE, file_of(v->kernel), v->kernel->source, place_of(v));
    return false;
}

static bool check_node(struct verifier *v, expr e) {
    switch (e->op) {
    case TILE_CONST: return true;
    case TILE_INDEX:
    case TILE_SYMBOL:
    case TILE_SCALAR:
    case TILE_LOCAL: return check_name(v, e);
    case TILE_LOAD: return check_load(v, e);
    case TILE_ADDRESS: return check_address(v, e);
    case TILE_CAST:
    case TILE_BITCAST: return check_conversion(v, e);
    default: return check_op(v, e);
    }
}

static bool check_expr(struct verifier *v, expr e) {
    if (e->id < 0 || e->id >= v->kernel->ids)
        return fail(v, "an expression is of another kernel");
    if (v->seen[e->id] == v->stmts)
        return true;
    v->seen[e->id] = v->stmts;
    for (int i = 0; i < tile_operands(e); i++)
        if (!check_expr(v, tile_operand(e, i)))
            return false;
    return check_node(v, e);
}

// Statements ------------------------------------------------------------------------------------------------

static bool check_block(struct verifier *v, const struct tile_stmt *body);

// Checks a variable that is assigned to, and declares it if it is new. One that was declared outside of
// `thread` belongs to all threads, so a thread may not assign to it.
static bool check_variable(struct verifier *v, const struct tile_name *name) {
    if (!is_visible(v, name, TILE_LOCAL))
        return declare_name(v, name, TILE_LOCAL);
    for (int i = 0; i < v->outside; i++)
        if (v->trail[i] == name->id)
            return fail(v, "'%s' is declared outside of the thread: declare a variable of its own",
                        name->text);
    return true;
}

static bool check_old(struct verifier *v, const struct tile_stmt *s) {
    if (s->kind != TILE_ATOMIC)
        return fail(v, "only atomics give what was there before");
    if (!tile_type_equal(s->old->type, s->buffer->type))
        return fail(v, "'%s' is %s, not %s", s->old->text, tile_type_name(s->old->type),
                    tile_type_name(s->buffer->type));
    return check_variable(v, s->old);
}

static bool is_outside(const struct tile_buffer *b) {
    enum tile_memory memory = tile_memory_of(b)->memory;
    return memory == TILE_GLOBAL || memory == TILE_CONSTANT;
}

static bool check_once(struct verifier *v, const struct tile_stmt *s, const struct tile_buffer *a,
                       const struct tile_buffer *b) {
    return !s->is_once || is_outside(a) || is_outside(b) ||
           fail(v, "once is said of memory outside of the block, and '%s' is inside", b->text);
}

// Returns the buffer from which a store reads its value, if that is a load or a converted load; else the
// buffer to which it writes.
static const struct tile_buffer *source_of(const struct tile_stmt *s) {
    expr e = s->value;
    while (e && e->op == TILE_CAST)
        e = e->arg[0];
    return e && e->op == TILE_LOAD ? e->buffer : s->buffer;
}

static bool check_store(struct verifier *v, const struct tile_stmt *s) {
    if (!check_writable(v, s->buffer) || !check_once(v, s, source_of(s), s->buffer))
        return false;
    if (s->indices != s->buffer->ndim)
        return fail(v, "'%s' has %d axes and %d indices", s->buffer->text, s->buffer->ndim, s->indices);
    if (s->kind == TILE_ATOMIC &&
        (tile_op_arity(s->combine) != 2 || !tile_op_takes(s->combine, s->buffer->type)))
        return fail(v, "%s does not combine %s", tile_op_name(s->combine), tile_type_name(s->buffer->type));
    return check_integers(v, s->index, s->indices, "an index") &&
           check_type(v, s->value, s->buffer->type, "the value") &&
           (!s->mask || check_truth(v, s->mask, "the mask")) && (!s->old || check_old(v, s));
}

static bool check_assign(struct verifier *v, const struct tile_stmt *s) {
    return check_variable(v, s->name[0]) && check_type(v, s->value, s->name[0]->type, "the value");
}

// Sets *bytes to the size of a buffer whose shape consists of constants, else to -1. Returns false, with an
// error, if a size is negative or they do not fit into 64 bits.
static bool measure(struct verifier *v, const struct tile_buffer *b, int64_t *bytes) {
    int64_t shape[TILE_DIMS];
    struct text why = {0};
    *bytes = -1;
    for (int i = 0; i < b->ndim; i++) {
        if (b->shape[i]->op != TILE_CONST)
            return true;
        shape[i] = tile_value_of(b->shape[i]->type, b->shape[i]->bits).i;
    }
    bool good = tile_span(b, shape, NULL, bytes, &why);
    if (!good && !why.failed)
        fail(v, "%s", why.data);
    text_free(&why);
    return good;
}

static bool check_view(struct verifier *v, const struct tile_buffer *b) {
    if (!check_visible(v, b->base))
        return false;
    if (b->base->memory == TILE_TABLE)
        return fail(v, "'%s' is a table: there are no views of tables", b->base->text);
    if (!b->stride != !b->base->stride) // passes may make views with strides, of buffers with strides
        return fail(v, "'%s' has strides: views are of elements in their order",
                    b->stride ? b->text : b->base->text);
    int64_t bytes, room;
    return measure(v, b, &bytes) && measure(v, b->base, &room) &&
           (bytes < 0 || room < 0 || bytes <= room ||
            fail(v, "'%s' has %" PRId64 " bytes and '%s', whose memory it is, %" PRId64, b->text, bytes,
                 b->base->text, room));
}

// Checks that no operand of a size can change: the size is computed again wherever it is needed.
static bool check_constancy(struct verifier *v, const struct tile_buffer *b, expr e, bool *seen) {
    if (seen[e->id])
        return true;
    seen[e->id] = true;
    if (e->op == TILE_LOCAL)
        return fail(
            v,
            "a size of '%s' is made of '%s', a variable: sizes are made of numbers, sizes of arguments, "
            "scalars, inputs and loop variables",
            b->text, e->name->text);
    const struct tile_buffer *read = e->op == TILE_LOAD ? tile_memory_of(e->buffer) : NULL;
    if (read && (read->parameter < 0 || read->is_output))
        return fail(
            v,
            "a size of '%s' is read from '%s', which a kernel writes: sizes are made of numbers, sizes of "
            "arguments, scalars, inputs and loop variables",
            b->text, read->text);
    for (int i = 0; i < tile_operands(e); i++)
        if (!check_constancy(v, b, tile_operand(e, i), seen))
            return false;
    return true;
}

static bool check_constant_sizes(struct verifier *v, const struct tile_buffer *b) {
    bool *seen = memory_zero((size_t)v->kernel->ids + 1), good = seen;
    for (int i = 0; good && i < b->ndim; i++)
        good = check_constancy(v, b, b->shape[i], seen) &&
               (!b->stride || check_constancy(v, b, b->stride[i], seen));
    memory_free(seen);
    return good;
}

static bool check_alloc(struct verifier *v, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    int64_t bytes;
    if (v->outside && b->memory == TILE_FRAGMENT)
        return fail(v, "'%s' is a tile of the block: inside of a thread memory is local or shared", b->text);
    if (b->memory == TILE_TABLE && !b->base)
        return fail(v, "'%s' is a table: tables are parameters", b->text);
    return check_integers(v, b->shape, b->ndim, "a size") &&
           check_integers(v, b->stride, b->ndim, "a stride") && check_constant_sizes(v, b) &&
           (b->base ? check_view(v, b) : measure(v, b, &bytes)) && declare_buffer(v, b);
}

static bool check_body(struct verifier *v, const struct tile_stmt *s) {
    int loops = v->loops, grids = v->grids, trail = v->trail_len;
    int maps = v->maps, threads = v->threads, outside = v->outside;
    bool is_loop = s->kind == TILE_FOR || s->kind == TILE_WHILE;
    bool is_any_order = s->kind == TILE_FOR && (s->loop == TILE_PARALLEL || s->loop == TILE_VECTOR);
    for (int i = 0; s->kind != TILE_IF && s->kind != TILE_WHILE && i < s->indices; i++)
        if (!declare_name(v, s->name[i], TILE_INDEX))
            return false;
    v->loops = is_loop ? loops + 1 : s->kind == TILE_IF ? loops : 0;
    v->grids += s->kind == TILE_GRID;
    v->threads = s->kind == TILE_GRID ? s->threads : threads;
    v->maps += s->kind == TILE_MAP || is_any_order;
    v->outside = s->kind == TILE_THREAD ? trail : outside;
    bool good = check_block(v, s->body) && check_block(v, s->other);
    v->loops = loops;
    v->grids = grids;
    v->threads = s->kind == TILE_GRID ? threads : v->threads;
    v->maps = maps;
    v->outside = outside;
    forget(v, trail);
    return good;
}

enum {
    MOST_THREADS = 1 << 16, // per block; devices have lower limits, which are checked when they compile
    MOST_GROUPS = 8,        // per cluster
};

static bool check_ranges(struct verifier *v, const struct tile_stmt *s) {
    int most = s->kind == TILE_GRID ? 3 : TILE_DIMS;
    if (s->indices < 1 || s->indices > most)
        return fail(v, "it has %d names; 1 to %d are possible", s->indices, most);
    if (s->kind == TILE_GRID && v->grids)
        return fail(v, "a grid inside of a grid");
    if (s->kind == TILE_GRID && s->threads > MOST_THREADS)
        return fail(v, "it has %d threads; %d are possible", s->threads, MOST_THREADS);
    if (s->kind == TILE_GRID && s->cluster &&
        (s->cluster < 2 || s->cluster > MOST_GROUPS || s->cluster & (s->cluster - 1) || s->threads % 32))
        return fail(v, "a cluster of %d groups of %d threads; 2, 4 or 8 of a multiple of 32 are possible",
                    s->cluster, s->threads);
    for (int i = 0; i < s->indices; i++)
        if (!check_type(v, s->extent[i], s->name[i]->type, "an extent"))
            return false;
    return true;
}

static bool check_thread(struct verifier *v, const struct tile_stmt *s) {
    int64_t count = s->indices == 1 && s->extent[0]->op == TILE_CONST
                        ? tile_value_of(s->extent[0]->type, s->extent[0]->bits).i
                        : 0;
    if (!v->grids || v->maps || v->outside)
        return fail(v, "it stands in a grid, and in no map and no thread");
    if (count < 1 || count > MOST_THREADS)
        return fail(v, "it has one name, and a number of threads from 1 to %d", MOST_THREADS);
    if (v->threads && v->threads != count)
        return fail(v, "the block has %d threads, not %" PRId64, v->threads, count);
    v->threads = (int)count;
    return true;
}

// Checks that a barrier or shuffle is not in a map: its points have no order, so threads cannot meet there.
static bool check_meeting(struct verifier *v) {
    return !v->maps ||
           fail(v, "it stands in a map, whose points have no order: write it outside, or in a thread");
}

static bool check_shuffle(struct verifier *v, const struct tile_stmt *s) {
    struct tile_type type = s->value->type;
    bool is_size = s->threads >= TILE_SUBGROUP_LEAST && s->threads <= TILE_SUBGROUP_MOST &&
                   !(s->threads & (s->threads - 1));
    if (!v->outside)
        return fail(v, "it stands in a thread, which exchanges values with others");
    if (!is_size || v->threads % s->threads)
        return fail(v, "among %d threads: it is a power of two from %d to %d that divides the block's %d",
                    s->threads, TILE_SUBGROUP_LEAST, TILE_SUBGROUP_MOST, v->threads);
    if (type.lanes > 1 || tile_type_is_complex(type) || tile_type_is_small(type))
        return fail(v, "of %s: take %s", tile_type_name(type),
                    tile_type_is_complex(type) ? "re(x) and im(x)"
                                               : "numbers of 8 bits or more, one at a time");
    return check_meeting(v) && check_type(v, s->step, (struct tile_type){TILE_UINT, 32, 1}, "the step") &&
           check_type(v, s->value, s->old->type, "the value") && check_variable(v, s->old);
}

static bool check_for(struct verifier *v, const struct tile_stmt *s) {
    struct tile_type type = s->name[0]->type;
    if (!tile_type_is_integer(type))
        return fail(v, "'%s' is %s, not an integer", s->name[0]->text, tile_type_name(type));
    if (s->loop == TILE_PIPELINED && s->stages < 1)
        return fail(v, "a pipeline needs stages");
    return check_type(v, s->begin, type, "the begin") && check_type(v, s->extent[0], type, "the end") &&
           check_type(v, s->step, type, "the step");
}

static bool check_token(struct verifier *v, const struct tile_stmt *s) {
    if (!s->is_async && s->kind != TILE_WAIT)
        return true;
    if (s->token < 1 || s->token > v->kernel->tokens)
        return fail(v, "there is no token %d", s->token);
    if (s->kind == TILE_WAIT && s->keep != TILE_COMMIT)
        return v->token[s->token] || fail(v, "nothing before it gives token %d", s->token);
    return v->token[s->token] = true; // a token may be given again, as in an unrolled loop
}

// Tile statements -------------------------------------------------------------------------------------------

static bool check_region(struct verifier *v, const struct tile_region *r, bool is_written) {
    int ndim = r->buffer->ndim;
    return (is_written ? check_writable(v, r->buffer) : check_visible(v, r->buffer)) &&
           check_integers(v, r->origin, ndim, "an origin") && check_integers(v, r->extent, ndim, "an extent");
}

static bool check_sized(struct verifier *v, const struct tile_region *r) {
    return tile_region_is_sized(r) ||
           fail(v, "how much of '%s' is not said: write of [...]", r->buffer->text);
}

static bool check_copy(struct verifier *v, const struct tile_stmt *s) {
    return check_once(v, s, s->region[0].buffer, s->region[1].buffer) &&
           check_region(v, &s->region[0], false) && check_region(v, &s->region[1], true) &&
           (tile_region_is_sized(&s->region[0]) || check_sized(v, &s->region[1])) &&
           (!s->value || check_type(v, s->value, s->region[0].buffer->type, "the value outside")) &&
           check_token(v, s);
}

static bool check_fill(struct verifier *v, const struct tile_stmt *s) {
    const struct tile_region *to = &s->region[1];
    return check_region(v, to, true) && check_sized(v, to) &&
           check_type(v, s->value, to->buffer->type, "the value");
}

static bool check_reduce(struct verifier *v, const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    uint64_t identity;
    if (!check_region(v, from, false) || !check_region(v, to, true) || !check_sized(v, from))
        return false;
    if (s->axis < 0 || s->axis >= from->buffer->ndim)
        return fail(v, "'%s' has no axis %d", from->buffer->text, s->axis);
    if (!tile_identity(s->combine, to->buffer->type, &identity))
        return fail(v, "%s does not combine %s", tile_op_name(s->combine), tile_type_name(to->buffer->type));
    if (s->absolute && s->combine != TILE_MAX && s->combine != TILE_ADD)
        return fail(v, "there is no %s of magnitudes", tile_op_name(s->combine));
    bool is_most = s->combine == TILE_MAX && !s->absolute && s->clear &&
                   tile_type_equal(to->buffer->type, (struct tile_type){TILE_FLOAT, 32, 1});
    if (s->is_loose && !is_most)
        return fail(v, "loose is said of the maximum of f32 alone, and '%s' is another result",
                    to->buffer->text);
    int less = from->buffer->ndim - to->buffer->ndim;
    bool fits = less == 0 || (less == 1 && s->kind == TILE_REDUCE);
    return fits || fail(v, "'%s' has %d axes and '%s' %d", from->buffer->text, from->buffer->ndim,
                        to->buffer->text, to->buffer->ndim);
}

static bool check_gemm(struct verifier *v, const struct tile_stmt *s) {
    for (int i = 0; i < 3; i++) {
        if (!check_region(v, &s->region[i], i == 2) || (i < 2 && !check_sized(v, &s->region[i])))
            return false;
        if (s->region[i].buffer->ndim < 2)
            return fail(v, "'%s' is no matrix", s->region[i].buffer->text);
    }
    return check_token(v, s);
}

static bool check_im2col(struct verifier *v, const struct tile_stmt *s) {
    const struct tile_region *from = &s->region[0], *to = &s->region[1];
    if (!check_region(v, from, false) || !check_region(v, to, true) || !check_sized(v, to))
        return false;
    if (from->buffer->ndim != 4 || from->origin || from->extent)
        return fail(v, "'%s' is not a whole buffer of 4 axes: images, rows, columns, channels",
                    from->buffer->text);
    if (to->buffer->ndim != 2 || s->indices != 2)
        return fail(v, "'%s' is no matrix", to->buffer->text);
    const struct tile_window *w = &s->window;
    if (w->size < 1 || w->stride < 1 || w->dilation < 1 || w->pad < 0)
        return fail(v, "window %d stride %d dilation %d pad %d: all but the last are 1 at least", w->size,
                    w->stride, w->dilation, w->pad);
    return check_integers(v, s->index, 2, "an origin");
}

static bool check_command(struct verifier *v, const struct tile_stmt *s) {
    if (s->indices > TILE_COMMAND_ARGUMENTS)
        return fail(v, "%s has %d arguments: %d at most", s->message, s->indices, TILE_COMMAND_ARGUMENTS);
    for (int i = 0; i < s->indices; i++)
        if (s->index[i]->type.lanes != 1 || tile_type_is_complex(s->index[i]->type))
            return fail(v, "argument %d of %s is %s, not a number", i + 1, s->message,
                        tile_type_name(s->index[i]->type));
    return !s->old || is_visible(v, s->old, TILE_LOCAL) || fail(v, "'%s' is not declared", s->old->text);
}

// -----------------------------------------------------------------------------------------------------------

static bool check_kind(struct verifier *v, const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: return check_store(v, s);
    case TILE_ASSIGN: return check_assign(v, s);
    case TILE_ALLOC: return check_alloc(v, s);
    case TILE_MAP:
    case TILE_GRID: return check_ranges(v, s) && check_body(v, s);
    case TILE_THREAD: return check_ranges(v, s) && check_thread(v, s) && check_body(v, s);
    case TILE_BARRIER: return check_meeting(v);
    case TILE_SHUFFLE: return check_shuffle(v, s);
    case TILE_FOR: return check_for(v, s) && check_body(v, s);
    case TILE_IF:
    case TILE_WHILE: return check_truth(v, s->mask, "the condition") && check_body(v, s);
    case TILE_BREAK: return v->loops || fail(v, "no loop is around it");
    case TILE_COPY: return check_copy(v, s);
    case TILE_FILL: return check_fill(v, s);
    case TILE_REDUCE:
    case TILE_SCAN: return check_reduce(v, s);
    case TILE_GEMM: return check_gemm(v, s);
    case TILE_IM2COL: return check_im2col(v, s);
    case TILE_WAIT: return check_token(v, s);
    case TILE_ASSERT: return check_truth(v, s->mask, "the condition");
    case TILE_COMMAND: return check_command(v, s);
    default: return true;
    }
}

static bool check_stmt(struct verifier *v, const struct tile_stmt *s) {
    expr list[TILE_STMT_EXPRS];
    v->at = s;
    v->stmts++;
    int count = tile_stmt_exprs(s, list);
    for (int i = 0; i < count; i++)
        if (!check_expr(v, list[i]))
            return false;
    return check_kind(v, s);
}

static bool check_block(struct verifier *v, const struct tile_stmt *body) {
    int trail = v->trail_len;
    for (const struct tile_stmt *s = body; s; s = s->next)
        if (!check_stmt(v, s))
            return false;
    forget(v, trail);
    return true;
}

static bool check_table(struct verifier *v, const struct tile_buffer *b, int64_t bytes) {
    if (b->is_output)
        return fail(v, "'%s' is a table, which is an input: a launch passes its numbers by value", b->text);
    if (tile_type_is_bool(b->type) || tile_type_is_complex(b->type) || tile_type_is_small(b->type) ||
        b->type.lanes > 1)
        return fail(v, "'%s' is a table of %s: tables are of integers and floats of 8 to 64 bits", b->text,
                    tile_type_name(b->type));
    if (b->stride || b->align || b->swizzle)
        return fail(v, "'%s' is a table, which has no stride, align or swizzle", b->text);
    if (bytes < 0)
        return fail(v, "'%s' is a table, whose sizes are numbers", b->text);
    return (bytes > 0 && bytes <= TILE_TABLE_BYTES) ||
           fail(v, "'%s' is a table of %" PRId64 " bytes, not of 1 to %d", b->text, bytes, TILE_TABLE_BYTES);
}

// Checks that all arguments fit into a launch of every target. An argument is aligned to 8 bytes at most.
static bool check_tables(struct verifier *v) {
    const struct tile_kernel *k = v->kernel;
    int64_t all = 8 * (int64_t)k->symbols, bytes;
    bool has_table = false;
    for (int i = 0; i < k->parameters; i++) {
        const struct tile_parameter *p = &k->parameter[i];
        bool is_table = !p->is_scalar && tile_is_by_value(p);
        if (is_table && (!measure(v, p->buffer, &bytes) || !check_table(v, p->buffer, bytes)))
            return false;
        all += is_table ? (bytes + 7) / 8 * 8 : 8;
        has_table |= is_table;
    }
    return !has_table || all <= TILE_ARGUMENT_BYTES ||
           fail(v,
                "tables, other parameters and sizes take %" PRId64
                " bytes of a launch, which has %d for them",
                all, TILE_ARGUMENT_BYTES);
}

static bool check_parameters(struct verifier *v) {
    const struct tile_kernel *k = v->kernel;
    bool outputs = false;
    for (int i = 0; i < k->parameters; i++) {
        const struct tile_parameter *p = &k->parameter[i];
        if (p->is_scalar ? !declare_name(v, p->scalar, TILE_SCALAR) : !declare_buffer(v, p->buffer))
            return false;
        if (outputs && (p->is_scalar || !p->buffer->is_output))
            return fail(v, "an input comes after an output");
        outputs = outputs || (!p->is_scalar && p->buffer->is_output);
        for (int axis = 0; !p->is_scalar && axis < p->buffer->ndim; axis++)
            if (!check_integers(v, &p->buffer->shape[axis], 1, "a size") ||
                !check_expr(v, p->buffer->shape[axis]))
                return false;
        int64_t bytes;
        if (!p->is_scalar && !measure(v, p->buffer, &bytes))
            return false;
    }
    return check_tables(v);
}

static bool check_kernel(struct verifier *v) {
    const struct tile_kernel *k = v->kernel;
    v->stmts = 1;
    if (!is_identifier(k->name))
        return fail(v, "'%s' is no name", k->name);
    if (k->index_bits != 32 && k->index_bits != 64)
        return fail(v, "indices of %d bits", k->index_bits);
    for (int i = 0; i < k->symbols; i++)
        if (!declare_name(v, k->symbol[i], TILE_SYMBOL))
            return false;
    return check_parameters(v) && check_block(v, k->body);
}

bool tile_verify(const struct tile_kernel *kernel) {
    struct verifier v = {.kernel = kernel};
    v.name = memory_zero((size_t)(kernel->names + 1) * sizeof *v.name);
    v.name_op = memory_zero((size_t)(kernel->names + 1) * sizeof *v.name_op);
    v.buffer = memory_zero((size_t)(kernel->buffers + 1) * sizeof *v.buffer);
    v.token = memory_zero((size_t)(kernel->tokens + 1) * sizeof *v.token);
    v.seen = memory_zero((size_t)(kernel->ids + 1) * sizeof *v.seen);
    bool good = v.name && v.name_op && v.buffer && v.token && v.seen && check_kernel(&v);
    memory_free(v.name);
    memory_free(v.name_op);
    memory_free(v.buffer);
    memory_free(v.token);
    memory_free(v.seen);
    memory_free(v.trail);
    return good;
}
