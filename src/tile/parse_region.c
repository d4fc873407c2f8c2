// parse_region.c - parses statements that work on whole buffers or parts of them, and allocations.

#include "tile/parse.h"

// Allocations -----------------------------------------------------------------------------------------------

bool parse_alloc(struct parser *p, struct tile_stmt stmt, enum tile_memory memory) {
    struct tile_type type;
    expr shape[TILE_DIMS];
    const char *text = parse_name(p, "a buffer");
    int ndim = text && parse_expect(p, ":") && parse_type(p, &type) ? parse_list(p, shape) : -1;
    if (ndim < 0)
        return false;
    struct tile_kernel *kernel = tile_current();
    struct tile_stmt **at = kernel->tail;
    struct tile_buffer *b = tile_alloc(text, type, memory, ndim, shape);
    if (!b)
        return parse_fail_moved(p, stmt.place);
    (*at)->place = stmt.place;
    if (!parse_attributes(p, b) ||
        !parse_bind(p, (struct binding){.text = text, .kind = BOUND_BUFFER, .buffer = b}))
        return false;
    if (!parse_accept(p, "="))
        return true;
    stmt.kind = TILE_FILL;
    stmt.region[1].buffer = b;
    stmt.value = parse_expr(p, &type);
    return parse_append(p, stmt);
}

static const struct tile_buffer *parse_buffer(struct parser *p) {
    struct tile_token token = p->token;
    struct binding *b = token.kind == TOKEN_NAME ? parse_find(p, token.text) : NULL;
    if (!b || b->kind != BOUND_BUFFER) {
        parse_unknown(p, token, BOUND_BUFFER, "buffer");
        return NULL;
    }
    const struct tile_buffer *buffer = b->buffer;
    parse_next(p);
    return p->failed ? NULL : buffer;
}

// Parses `view v: u8[64, 4] of a`.
bool parse_view(struct parser *p, struct tile_stmt stmt) {
    struct tile_type type;
    expr shape[TILE_DIMS];
    const char *text = parse_name(p, "a view");
    int ndim = text && parse_expect(p, ":") && parse_type(p, &type) ? parse_list(p, shape) : -1;
    const struct tile_buffer *base = ndim >= 0 && parse_expect(p, "of") ? parse_buffer(p) : NULL;
    if (!base)
        return false;
    struct tile_stmt **at = tile_current()->tail;
    struct tile_buffer *b = tile_view(text, type, base, ndim, shape);
    if (!b)
        return parse_fail_moved(p, stmt.place);
    (*at)->place = stmt.place;
    return parse_bind(p, (struct binding){.text = text, .kind = BOUND_BUFFER, .buffer = b});
}

// Regions ---------------------------------------------------------------------------------------------------

static bool parse_region_list(struct parser *p, const struct tile_buffer *b, expr **out) {
    expr list[TILE_DIMS];
    struct tile_place place = p->token.place;
    int count = parse_list(p, list);
    if (count >= 0 && count != b->ndim)
        return parse_fail(p, place, "'%s' has %d axes, not %d", b->text, b->ndim, count);
    *out = count < 0 ? NULL : parse_own_list(p, list, count);
    return *out;
}

// Parses `a`, `a[i, j]` or `a[i, j] of [4, 4]`.
static bool parse_region(struct parser *p, struct tile_region *region) {
    region->buffer = parse_buffer(p);
    if (!region->buffer)
        return false;
    if (parse_is(p, "[") && !parse_region_list(p, region->buffer, &region->origin))
        return false;
    return !parse_accept(p, "of") || parse_region_list(p, region->buffer, &region->extent);
}

bool parse_copy(struct parser *p, struct tile_stmt stmt) {
    if (!parse_region(p, &stmt.region[0]) || !parse_expect(p, "->") || !parse_region(p, &stmt.region[1]))
        return false;
    if (parse_accept(p, "else"))
        stmt.value = parse_expr(p, &stmt.region[0].buffer->type);
    stmt.is_once = parse_accept(p, "once");
    return !p->failed && parse_append(p, stmt);
}

bool parse_gemm(struct parser *p, struct tile_stmt stmt) {
    stmt.transpose[0] = parse_accept(p, "transpose");
    if (!parse_region(p, &stmt.region[0]) || !parse_expect(p, ","))
        return false;
    stmt.transpose[1] = parse_accept(p, "transpose");
    if (!parse_region(p, &stmt.region[1]) || !parse_expect(p, "->") || !parse_region(p, &stmt.region[2]))
        return false;
    stmt.clear = parse_accept(p, "clear");
    return parse_append(p, stmt);
}

bool parse_fill(struct parser *p, struct tile_stmt stmt) {
    if (!parse_region(p, &stmt.region[1]) || !parse_expect(p, "="))
        return false;
    stmt.value = parse_expr(p, &stmt.region[1].buffer->type);
    return parse_append(p, stmt);
}

bool parse_combine(struct parser *p, enum tile_op *out) {
    enum tile_op op = p->token.kind == TOKEN_NAME ? parse_op_find(p, p->token.text) : TILE_OP_COUNT;
    if (!tile_op_is_row(op) || tile_op_arity(op) != 2)
        return parse_fail(p, p->token.place,
                          "an op that combines is expected (add, multiply, maximum, ...), not %s",
                          p->token.text);
    *out = op;
    parse_next(p);
    return !p->failed;
}

// Parses the op of a reduction; `absmax` and `abssum` reduce magnitudes.
static bool parse_reducer(struct parser *p, struct tile_stmt *stmt) {
    bool is_most = stmt->kind == TILE_REDUCE && parse_accept(p, "absmax");
    stmt->absolute = is_most || (stmt->kind == TILE_REDUCE && parse_accept(p, "abssum"));
    if (!stmt->absolute)
        return parse_combine(p, &stmt->combine);
    stmt->combine = is_most ? TILE_MAX : TILE_ADD;
    return !p->failed;
}

bool parse_reduce(struct parser *p, struct tile_stmt stmt) {
    if (!parse_reducer(p, &stmt) || !parse_region(p, &stmt.region[0]) || !parse_expect(p, "->") ||
        !parse_region(p, &stmt.region[1]))
        return false;
    if (parse_accept(p, "axis"))
        stmt.axis = parse_count(p, 0);
    stmt.clear = stmt.kind == TILE_REDUCE && !parse_accept(p, "accumulate");
    stmt.reverse = parse_accept(p, "reverse");
    stmt.exclusive = parse_accept(p, "exclusive");
    stmt.is_loose = stmt.kind == TILE_REDUCE && parse_accept(p, "loose");
    return parse_append(p, stmt);
}

// Parses `im2col x -> t at [row, column] window 3 stride 1 dilation 1 pad 1`.
bool parse_im2col(struct parser *p, struct tile_stmt stmt) {
    struct tile_window *w = &stmt.window;
    expr at[TILE_DIMS];
    if (!parse_region(p, &stmt.region[0]) || !parse_expect(p, "->") || !parse_region(p, &stmt.region[1]) ||
        !parse_expect(p, "at"))
        return false;
    struct tile_place place = p->token.place;
    int count = parse_list(p, at);
    if (count >= 0 && count != 2)
        return parse_fail(p, place, "a row and a column are expected, not %d numbers", count);
    stmt.index = at;
    stmt.indices = 2;
    w->size = count == 2 && parse_expect(p, "window") ? parse_count(p, 1) : 0;
    w->stride = parse_accept(p, "stride") ? parse_count(p, 1) : 1;
    w->dilation = parse_accept(p, "dilation") ? parse_count(p, 1) : 1;
    w->pad = parse_accept(p, "pad") ? parse_count(p, 0) : 0;
    return !p->failed && parse_append(p, stmt);
}
