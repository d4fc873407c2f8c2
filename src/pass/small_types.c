// small_types.c - numbers of 8 and 4 bits become bytes that hold their codes: loads and stores move bytes,
// conversions are formulas (tile/small.c). Copies that convert become maps; products and reductions read a
// tile of a type that the target computes with.

#include "pass/boxes.h"

static const struct tile_type u8 = {TILE_UINT, 8, 1}, i8 = {TILE_INT, 8, 1}, i32 = {TILE_INT, 32, 1},
                              f16 = {TILE_FLOAT, 16, 1}, f32 = {TILE_FLOAT, 32, 1};

struct bytes {
    struct tile_type *was; // by id of the buffer: its type before this pass
    expr *memo;            // by id of the expression: its replacement
    int ids;
    bool *is_done; // by token: its copy became a map
    bool is_lanes; // the target has no subnormal numbers, and multiplies floats of 8 bits
    bool failed;
};

// Expressions -----------------------------------------------------------------------------------------------

static expr in_bytes(struct bytes *b, expr e);

static expr convert(const struct bytes *b, struct tile_type to, struct tile_type from, expr x) {
    expr value = !tile_type_is_small(from) ? x
                 : b->is_lanes             ? tile_decode_normal(from, x)
                                           : tile_decode(from, x);
    return !value ? NULL : tile_type_is_small(to) ? tile_encode(to, value) : tile_cast(to, value);
}

// Keeps the bits of a value. A 4-bit value is the low nibble of a byte whose high nibble is zero.
static expr reinterpret(struct tile_type to, struct tile_type from, expr x) {
    return tile_type_is_small(to) ? (tile_type_is_small(from) ? x : tile_bitcast(u8, x))
                                  : tile_bitcast(to, x);
}

static expr rebuild(struct bytes *b, expr e) {
    expr operand[3 + TILE_DIMS];
    bool is_small = tile_type_is_small(e->type), is_new = is_small;
    for (int i = 0; i < tile_operands(e); i++) {
        if (!(operand[i] = in_bytes(b, tile_operand(e, i))))
            return NULL;
        is_new |= operand[i] != tile_operand(e, i);
    }
    struct tile_type from = e->args ? e->arg[0]->type : e->type;
    if (e->op == TILE_CONST && is_small)
        return tile_const_bits(u8, e->bits);
    if (e->op == TILE_CAST && (is_small || tile_type_is_small(from)))
        return convert(b, e->type, from, operand[0]);
    if (e->op == TILE_BITCAST && (is_small || tile_type_is_small(from)))
        return reinterpret(e->type, from, operand[0]);
    if (tile_op_is_leaf(e->op))
        return is_small ? tile_name_value(e->name, e->op) : e;
    return is_new ? tile_rebuild(e, operand) : e;
}

static expr in_bytes(struct bytes *b, expr e) {
    if (e->id >= b->ids)
        return e; // this pass made it
    if (!b->memo[e->id])
        b->memo[e->id] = rebuild(b, e);
    return b->memo[e->id];
}

static void replace(expr *place, void *data) {
    struct bytes *b = data;
    expr e = in_bytes(b, *place);
    b->failed |= !e;
    *place = e ? e : *place;
}

// Statements ------------------------------------------------------------------------------------------------

static struct tile_type was(const struct bytes *b, const struct tile_region *r) {
    return r->buffer ? b->was[r->buffer->id] : u8;
}

// Emits a copy that converts, element by element.
static void copy(struct bytes *b, const struct tile_region *from, const struct tile_region *to, expr outside,
                 struct tile_type type) {
    struct box box = box_of(from, to);
    tile_open_map(box.axes, box.name, box.size);
    expr value = box_read_or(from, &box, box.point, true, outside);
    box_write(to, &box, box.point, value ? convert(b, type, was(b, from), value) : NULL, true);
    tile_close();
}

// Returns a new tile of another type with the same numbers.
static struct tile_region widened(struct bytes *b, const struct tile_region *r, struct tile_type type,
                                  int axes) {
    int ndim = r->buffer->ndim;
    expr size[TILE_DIMS], extent[TILE_DIMS];
    struct tile_region from = *r;
    for (int i = 0; i < ndim; i++) {
        expr whole = box_region_size(r, i);
        extent[i] = i < ndim - axes ? box_number(1) : whole;
        if (i >= ndim - axes)
            size[i - (ndim - axes)] = whole;
    }
    from.extent = axes < ndim ? extent : r->extent;
    struct tile_region to = {.buffer = box_alloc("wide", type, TILE_FRAGMENT, axes, size)};
    if (to.buffer)
        copy(b, &from, &to, NULL, type);
    return to;
}

// Returns the type that stands for a small one in a product, and has all of its numbers: that of the other
// factor if it is a float, else one that the unit of a target takes.
static struct tile_type factor_type(struct tile_type type, struct tile_type other) {
    if (tile_type_is_integer(type))
        return i8;
    return tile_type_is_float(other) ? other : type.kind == TILE_E8M0 ? f32 : f16;
}

static bool is_multiplied(struct tile_type type) {
    return type.kind == TILE_E4M3 || type.kind == TILE_E5M2;
}

static void emit_gemm(struct bytes *b, struct tile_stmt s) {
    struct tile_type type[2] = {was(b, &s.region[0]), was(b, &s.region[1])};
    if (b->is_lanes && is_multiplied(type[0]) && is_multiplied(type[1])) {
        s.small[0] = type[0].kind;
        s.small[1] = type[1].kind;
        tile_append(s);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (tile_type_is_small(type[i]))
            s.region[i] = widened(b, &s.region[i], factor_type(type[i], type[!i]), 2);
    tile_append(s);
}

static void emit_line(struct bytes *b, struct tile_stmt s) {
    struct tile_type type = was(b, &s.region[0]);
    s.region[0] = widened(b, &s.region[0], tile_type_is_integer(type) ? i32 : f32, s.region[0].buffer->ndim);
    tile_append(s);
}

static bool converts(const struct bytes *b, const struct tile_stmt *s) {
    struct tile_type from = was(b, &s->region[0]), to = was(b, &s->region[1]);
    return (tile_type_is_small(from) || tile_type_is_small(to)) && !tile_type_equal(from, to);
}

// Replaces a statement, and removes the waits for conversions, which are synchronous.
static bool emit(void *data, const struct tile_stmt *s) {
    struct bytes *b = data;
    bool is_line =
        (s->kind == TILE_REDUCE || s->kind == TILE_SCAN) && tile_type_is_small(was(b, &s->region[0]));
    if (s->kind == TILE_COPY && converts(b, s)) {
        copy(b, &s->region[0], &s->region[1], s->value, was(b, &s->region[1]));
        b->is_done[s->token] = true;
    } else if (is_line)
        emit_line(b, *s);
    else if (s->kind == TILE_GEMM)
        emit_gemm(b, *s);
    else
        return s->kind == TILE_WAIT && s->token > 0 && b->is_done[s->token];
    return true;
}

// The kernel ------------------------------------------------------------------------------------------------

static void look_at(expr e, void *found) {
    *(bool *)found |= tile_type_is_small(e->type);
}

// Makes a buffer of small numbers one of bytes. Returns whether it was one.
static bool take_buffer(struct bytes *b, struct tile_buffer *buffer) {
    bool is_small = tile_type_is_small(buffer->type);
    b->was[buffer->id] = buffer->type;
    buffer->type = is_small ? u8 : buffer->type;
    return is_small;
}

static bool take_name(const struct tile_name *name) {
    bool is_small = name && tile_type_is_small(name->type);
    if (is_small)
        ((struct tile_name *)(uintptr_t)name)->type = u8;
    return is_small;
}

static bool take_all(struct bytes *b, const struct tile_stmt *body) {
    bool found = false;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        if (s->kind == TILE_ALLOC)
            found |= take_buffer(b, (struct tile_buffer *)(uintptr_t)s->buffer);
        if (s->kind == TILE_ASSIGN)
            found |= take_name(s->name[0]);
        found |= take_all(b, s->body);
        found |= take_all(b, s->other);
    }
    return found;
}

static bool has_small(struct bytes *b, struct tile_kernel *kernel) {
    bool found = false;
    for (int i = 0; i < kernel->parameters; i++) {
        struct tile_parameter *p = &kernel->parameter[i];
        found |= p->is_scalar ? take_name(p->scalar) : take_buffer(b, p->buffer);
    }
    found |= take_all(b, kernel->body);
    if (!found)
        pass_each_node(kernel, look_at, &found);
    return found;
}

bool pass_small_types(struct tile_kernel *kernel, const struct target *target) {
    struct bytes b = {.is_lanes = target->lanes,
                      .was = memory_zero(((size_t)kernel->buffers + 1) * sizeof *b.was),
                      .memo = memory_zero(((size_t)kernel->ids + 1) * sizeof *b.memo),
                      .ids = kernel->ids + 1,
                      .is_done = memory_zero((size_t)kernel->tokens + 1)};
    bool good = b.was && b.memo && b.is_done;
    if (good && has_small(&b, kernel)) {
        tile_resume(kernel);
        pass_each_expr(kernel->body, replace, &b);
        tile_suspend();
        good = pass_emit_kernel(kernel, emit, &b);
    }
    memory_free(b.was);
    memory_free(b.memo);
    memory_free(b.is_done);
    return good && !b.failed && !kernel->failed;
}
