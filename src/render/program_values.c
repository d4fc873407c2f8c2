// program_values.c - expressions and simple statements of kernels in plain C: each node of an expression is a constant of
// its own, in the block of the statement that uses it.

#include "render/program.h"

#include <inttypes.h>
#include <string.h>

const char *program_memory(struct tile_type type) {
    return tile_type_is_bool(type) ? "u8" : tile_type_is_complex(type) ? "f32" : tile_type_name(type);
}

// Expressions -----------------------------------------------------------------------------------------------------

bool program_fail(struct program *p, const struct tile_stmt *s, const char *why, const char *what) {
    if (!p->failed)
        tile_error_at(ZL_ERROR_COMPILE, p->kernel->file ? p->kernel->file : p->kernel->name,
                      p->kernel->source, s ? s->place : (struct tile_place){0}, "%s: %s%s",
                      s ? tile_stmt_name(s->kind) : "kernel", why, what);
    return !(p->failed = true);
}

// A number of elements, or -1.
int64_t program_number(expr e) {
    struct pass_range r = pass_range(e);
    return r.low == r.high && r.low != INT64_MIN ? r.low : -1;
}

int64_t program_stride(const struct tile_buffer *b, int axis) {
    if (b->stride)
        return program_number(b->stride[axis]);
    int64_t stride = 1;
    for (int i = axis + 1; i < b->ndim; i++) {
        if (!tile_times(stride, program_number(b->shape[i]), &stride))
            return -1;
    }
    return stride;
}

static void emit_node(struct program *p, expr e);

// Visits all that the text of a node names.
static void each_operand(struct program *p, expr e, void (*visit)(struct program *p, expr e)) {
    for (int i = 0; i < tile_operands(e); i++)
        visit(p, tile_operand(e, i));
    for (int i = 0; p->checks && e->op == TILE_LOAD && i < e->indices; i++)
        visit(p, e->buffer->shape[i]);
}

// Times what an index counts in elements.
static void text_stride(struct program *p, const struct tile_buffer *b, int axis) {
    int64_t stride = program_stride(b, axis);
    if (stride < 0)
        text_add(p->style.out, " * s%d_%d", b->id, axis);
    else if (stride != 1)
        text_add(p->style.out, " * %" PRId64, stride);
}

void program_offset(struct program *p, const struct tile_buffer *b, const expr *index, int from, int to) {
    struct text *out = p->style.out;
    text_add(out, from < to ? "" : "0");
    for (int i = from; i < to; i++) {
        text_add(out, i > from ? " + " : "");
        p->style.dialect->operand(&p->style, index[i], 0);
        int64_t stride = program_stride(b, i);
        if (stride < 0)
            text_add(out, " * s%d_%d", b->id, i);
        else if (stride != 1)
            text_add(out, " * %" PRId64, stride);
    }
}

static int log_of(int64_t n) {
    return 63 - __builtin_clzll((uint64_t)n);
}

bool program_has_panels(const struct tile_buffer *b) {
    return b->swizzle && program_number(b->shape[b->ndim - 1]) * tile_type_bytes(b->type) >= 128;
}

// Vectors of 16 bytes in rows of a power of two: their places within 128 bytes depend on the row. Longer rows are cut: 128 bytes of
// each row lie behind each other, then the next 128 bytes of each.
static void swizzled(struct program *p, const struct tile_buffer *b, const expr *index) {
    int last = b->ndim - 1, bytes = tile_type_bytes(b->type);
    if (b->ndim > 2) { // matrices of a stack begin where the pattern does
        program_offset(p, b, index, 0, b->ndim - 2);
        text_add(p->style.out, " + ");
    }
    if (program_has_panels(b)) {
        text_add(p->style.out, "zl_panel((u32)");
        program_operand(p, index[last - 1]);
        text_add(p->style.out, ", (u32)");
        program_operand(p, index[last]);
        text_add(p->style.out, ", %" PRId64 ", %d, %d)", program_number(b->shape[last - 1]),
                 log_of(128 / bytes), log_of(16 / bytes));
        return;
    }
    text_add(p->style.out, "zl_swizzle((u32)(");
    program_offset(p, b, index, MAX_OF(last - 1, 0), b->ndim);
    text_add(p->style.out, "), %d, %d)", log_of(128 / bytes), log_of(16 / bytes));
}

static void element(struct program *p, const struct tile_buffer *b, const expr *index, int part) {
    text_add(p->style.out, "b%d%s[%s", b->id, b->memory == TILE_TABLE && p->own ? ".at" : "",
             part < 0 ? "" : "2 * (");
    if (b->swizzle && p->own)
        swizzled(p, b, index);
    else
        program_offset(p, b, index, 0, b->ndim);
    if (part < 0)
        text_add(p->style.out, "]");
    else
        text_add(p->style.out, ") + %d]", part);
}

void program_element(struct program *p, const struct tile_buffer *b, const expr *index) {
    element(p, b, index, -1);
}

// Ranges are those of numbers that do not wrap around, which is checked of sizes that are known at launch.
static bool is_known_inside(const struct tile_buffer *b, const expr *index, int axis) {
    struct pass_range at = pass_range(index[axis]), size = pass_range(b->shape[axis]);
    return at.low >= 0 && at.high < size.low && (size.high != INT64_MAX || tile_is_known_at_launch(b));
}

// Tests of what is not known of an index, each behind `and`; how many.
static int tests(struct program *p, const struct tile_buffer *b, const expr *index, const char *and) {
    int count = 0;
    for (int i = 0; p->checks && i < b->ndim; i++) {
        if (is_known_inside(b, index, i))
            continue;
        text_add(p->style.out, "%szl_inside(run, %d, \"%s\", %d, (i64)", count ? " && " : and,
                 p->at ? p->at->place.line : 0, b->text, i);
        program_operand(p, index[i]);
        text_add(p->style.out, ", (i64)");
        program_operand(p, b->shape[i]);
        text_add(p->style.out, ")");
        count++;
    }
    return count;
}

static void load(struct program *p, expr e, int part) {
    struct style *s = &p->style;
    if (e->args) {
        s->dialect->operand(s, e->arg[0], 0);
        text_add(s->out, " ? ");
    }
    int tested = tests(p, e->buffer, e->index, "(");
    text_add(s->out, tested ? " ? " : "");
    element(p, e->buffer, e->index, part);
    if (tile_type_is_bool(e->type))
        text_add(s->out, " != 0");
    text_add(s->out, tested ? " : 0)" : "");
    if (e->args) {
        expr other = e->arg[1];
        text_add(s->out, " : ");
        s->dialect->operand(s, part >= 0 && other->op == TILE_PAIR ? other->arg[part] : other, 0);
    }
}

static void leaf(struct program *p, expr e) {
    static const char letter[] = {[TILE_INDEX - TILE_INDEX] = 'j',
                                  [TILE_SYMBOL - TILE_INDEX] = 'n',
                                  [TILE_SCALAR - TILE_INDEX] = 'a',
                                  [TILE_LOCAL - TILE_INDEX] = 'x'};
    text_add(p->style.out, "%c%d", letter[e->op - TILE_INDEX], e->name->id);
}

static bool is_inline(expr e) {
    return e->op == TILE_CONST || e->op == TILE_PAIR || tile_type_is_complex(e->type);
}

static void emit_value(struct program *p, expr e) {
    bool is_part = e->op == TILE_RE || e->op == TILE_IM;
    if (e->op >= TILE_INDEX && e->op <= TILE_LOCAL)
        leaf(p, e);
    else if (e->op == TILE_LOAD)
        load(p, e, -1);
    else if (is_part && e->arg[0]->op == TILE_LOAD)
        load(p, e->arg[0], e->op == TILE_IM);
    else if (is_part || (!tile_op_is_leaf(e->op) && e->op != TILE_BITCAST &&
                         !target_spells(&p->style.dialect->target, e)))
        program_fail(p, p->at, "the target c has no form of ", tile_op_name(e->op));
    else
        p->style.dialect->value(&p->style, e, 0);
}

static void declare(struct program *p, expr e, const char *constant) {
    int *number = &p->of[e->id].number;
    *number = *number ? *number : ++p->numbers;
    text_add(p->style.out, "%*s%s%s v%d = ", 4 * p->style.indent, "", constant, tile_type_name(e->type),
             *number);
}

// What was computed in a branch is not known behind it.
static void forget(struct program *p, expr e) {
    if (p->seen[e->id] != p->stamp || p->of[e->id].block <= p->depth)
        return;
    p->seen[e->id] = 0;
    each_operand(p, e, forget);
}

// The common value first; then, in a branch, the rare one. Returns false if that is there already, or costs nothing.
static bool emit_rare(struct program *p, expr e) {
    expr rare = e->arg[1];
    emit_node(p, e->arg[0]);
    emit_node(p, e->arg[2]);
    if (rare->op == TILE_CONST || p->seen[rare->id] == p->stamp)
        return false;
    declare(p, e, "");
    program_operand(p, e->arg[2]);
    text_add(p->style.out, ";\n%*sif (", 4 * p->style.indent, "");
    program_operand(p, e->arg[0]);
    text_add(p->style.out, ") {\n");
    p->style.indent++;
    p->depth++;
    emit_node(p, rare);
    text_add(p->style.out, "%*s", 4 * p->style.indent, "");
    program_operand(p, e);
    text_add(p->style.out, " = ");
    program_operand(p, rare);
    text_add(p->style.out, ";\n");
    p->depth--;
    forget(p, rare);
    style_close(&p->style);
    return true;
}

// Each node once a statement. Its number is that of its first place in the text: ids are in the order in which the compiler
// that built this had operands made.
static void emit_node(struct program *p, expr e) {
    if (p->seen[e->id] == p->stamp)
        return;
    p->seen[e->id] = p->stamp;
    p->of[e->id].block = p->depth;
    if (e->op == TILE_RARE && emit_rare(p, e))
        return;
    each_operand(p, e, emit_node);
    if (is_inline(e))
        return;
    declare(p, e, "const ");
    emit_value(p, e);
    text_add(p->style.out, ";\n");
}

void program_nodes(struct program *p, int count, const expr *root) {
    p->stamp++;
    for (int i = 0; i < count; i++)
        if (root[i])
            emit_node(p, root[i]);
}

void program_operand(struct program *p, expr e) {
    p->style.dialect->operand(&p->style, e, 0);
}

// Simple statements -------------------------------------------------------------------------------------------------

// What a store or an atomic depends on.
static void open_masked(struct program *p, const struct tile_stmt *s) {
    bool is_tested = false;
    for (int i = 0; p->checks && i < s->indices; i++)
        is_tested |= !is_known_inside(s->buffer, s->index, i);
    if (!s->mask && !is_tested)
        return;
    text_add(p->style.out, "%*sif (", 4 * p->style.indent, "");
    if (s->mask)
        program_operand(p, s->mask);
    tests(p, s->buffer, s->index, s->mask ? " && " : "");
    text_add(p->style.out, ")\n    ");
}

bool program_is_once(const struct tile_stmt *s, const struct tile_buffer *b) {
    return s->is_once && tile_memory_of(b)->memory == TILE_GLOBAL;
}

static void store_part(struct program *p, const struct tile_stmt *s, int part) {
    expr value = s->value;
    bool is_far = s->scope == TILE_CLUSTER, is_call = is_far || (p->own && program_is_once(s, s->buffer));
    open_masked(p, s);
    text_add(p->style.out, "%*s%s", 4 * p->style.indent, "",
             is_far    ? "ZL_PUT("
             : is_call ? "ZL_STORE_ONCE("
                       : "");
    element(p, s->buffer, s->index, part);
    if (is_far) {
        text_add(p->style.out, ", ");
        program_operand(p, s->step);
    }
    text_add(p->style.out, is_call ? ", " : " = ");
    if (part >= 0 && value->op == TILE_PAIR)
        program_operand(p, value->arg[part]);
    else if (part >= 0 && value->op == TILE_LOAD)
        load(p, value, part);
    else if (part >= 0)
        program_fail(p, s, "the target c stores complex numbers as pairs", "");
    else
        program_operand(p, value);
    text_add(p->style.out, is_call ? ");\n" : ";\n");
}

void program_store(struct program *p, const struct tile_stmt *s) {
    bool is_complex = tile_type_is_complex(s->value->type);
    for (int part = is_complex ? 0 : -1; part < (is_complex ? 2 : 0); part++)
        store_part(p, s, part);
}

static const char *atomic_word(enum tile_op op) {
    switch (op) {
    case TILE_ADD: return "add";
    case TILE_MAX: return "max";
    case TILE_MIN: return "min";
    case TILE_AND: return "and";
    case TILE_OR: return "or";
    case TILE_XOR: return "xor";
    default: return NULL;
    }
}

const char *program_atomic_word(struct program *p, const struct tile_stmt *s) {
    struct tile_type type = s->buffer->type;
    const char *word = atomic_word(s->combine);
    bool is_bits = s->combine == TILE_AND || s->combine == TILE_OR || s->combine == TILE_XOR;
    if (word && !tile_type_is_bool(type) && !tile_type_is_complex(type) &&
        (!is_bits || tile_type_is_integer(type)))
        return word;
    program_fail(p, s, "the target has no atomic ", tile_op_name(s->combine));
    return NULL;
}

void program_atomic(struct program *p, const struct tile_stmt *s) {
    struct tile_type type = s->buffer->type;
    const char *word = program_atomic_word(p, s);
    if (!word)
        return;
    if (s->old && s->mask)
        style_line(&p->style, "x%d = 0;", s->old->id);
    open_masked(p, s);
    text_add(p->style.out, "%*s", 4 * p->style.indent, "");
    if (s->old)
        text_add(p->style.out, "x%d = ", s->old->id);
    text_add(p->style.out, "ZL_ATOMIC(%s, u%d, &", tile_type_name(type), type.bits);
    element(p, s->buffer, s->index, -1);
    text_add(p->style.out, ", zl_%s_%s, ", word, tile_type_name(type));
    program_operand(p, s->value);
    text_add(p->style.out, ");\n");
}

void program_quoted(struct text *out, const char *text) {
    text_add(out, "\"");
    for (const char *at = text ? text : ""; *at; at++) {
        bool is_plain = *at >= ' ' && *at < 127 && *at != '"' && *at != '\\';
        text_add(out, is_plain ? "%c" : "\\%03o", (unsigned char)*at);
    }
    text_add(out, "\"");
}

void program_message(struct program *p, const struct tile_stmt *s) {
    struct text *out = p->style.out;
    text_add(out, "%*s", 4 * p->style.indent, "");
    if (s->kind == TILE_ASSERT) {
        text_add(out, "if (!");
        program_operand(p, s->mask);
        text_add(out, ") {\n%*srun->fail(run, %d, ", 4 * p->style.indent + 4, "", s->place.line);
        program_quoted(out, s->message);
        text_add(out, ");\n%*sreturn;\n%*s}\n", 4 * p->style.indent + 4, "", 4 * p->style.indent, "");
        return;
    }
    text_add(out, "run->print(run, ");
    program_quoted(out, s->message);
    bool is_half = s->value && tile_type_is_half(s->value->type);
    text_add(out, ", %d, ", s->value != NULL);
    if (is_half)
        text_add(out, "zl_f32_of_%s(", tile_type_name(s->value->type));
    else
        text_add(out, "(f64)(");
    if (s->value)
        program_operand(p, s->value);
    else
        text_add(out, "0");
    text_add(out, "));\n");
}

int64_t program_elements(const struct tile_buffer *b) {
    int64_t count = 1;
    for (int i = 0; i < b->ndim; i++) {
        if (!tile_times(count, program_number(b->shape[i]), &count))
            return -1;
    }
    return count;
}

int64_t program_size(const struct tile_buffer *b) {
    int64_t bytes;
    return tile_times(program_elements(b), tile_type_bytes(b->type), &bytes) ? bytes : -1;
}

// Strides are of memory outside of blocks only: those are known at launch, and so is that their sum fits.
void program_bytes(struct program *p, const struct tile_buffer *b) {
    struct text *out = p->style.out;
    if (b->stride) {
        text_add(out, "zl_times(%d, 1", tile_type_bytes(b->type));
        for (int i = 0; i < b->ndim; i++) {
            text_add(out, " + ((i64)");
            program_operand(p, b->shape[i]);
            text_add(out, " > 1 ? (i64)");
            program_operand(p, b->shape[i]);
            text_add(out, " - 1 : 0) * ");
            program_operand(p, b->stride[i]);
        }
        text_add(out, ")");
        return;
    }
    for (int i = 0; i < b->ndim; i++)
        text_add(out, "zl_times(");
    text_add(out, "%d", tile_type_bytes(b->type));
    for (int i = 0; i < b->ndim; i++) {
        text_add(out, ", (i64)");
        program_operand(p, b->shape[i]);
        text_add(out, ")");
    }
}

void program_view(struct program *p, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    const char *type = program_memory(b->type),
               *constant = memory->parameter >= 0 && !memory->is_output ? "const " : "";
    style_line(&p->style, "%s%s *b%d = (%s%s *)b%d;", constant, type, b->id, constant, type, b->base->id);
}

// Where its size or that of its memory is known only when the block runs, a view is compared with its memory there.
static void check_view(struct program *p, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    expr root[2 * TILE_DIMS];
    if (tile_is_known_at_launch(b) && tile_is_known_at_launch(b->base))
        return;
    for (int i = 0; i < b->ndim; i++)
        root[i] = b->shape[i];
    for (int i = 0; i < b->base->ndim; i++)
        root[b->ndim + i] = b->base->shape[i];
    style_line(&p->style, "i64 view%d;", b->id);
    style_line(&p->style, "{");
    p->style.indent++;
    program_nodes(p, b->ndim + b->base->ndim, root);
    text_add(p->style.out, "%*sconst i64 bytes = ", 4 * p->style.indent, "");
    program_bytes(p, b);
    text_add(p->style.out, ";\n%*sview%d = bytes >= 0 && bytes <= ", 4 * p->style.indent, "", b->id);
    program_bytes(p, b->base);
    text_add(p->style.out, ";\n");
    style_close(&p->style);
    style_open(&p->style, "if (!view%d)", b->id);
    text_add(p->style.out, "%*srun->fail(run, %d, ", 4 * p->style.indent, "", s->place.line);
    struct text why = {0};
    text_add(&why, "'%s' has more bytes than '%s', whose memory it is", b->text, b->base->text);
    program_quoted(p->style.out, why.data ? why.data : "");
    text_free(&why);
    text_add(p->style.out, ");\n");
    style_line(&p->style, "return;");
    style_close(&p->style);
}

// Memory whose size is known when the block runs: an array of that size, which begins at a multiple of 64 bytes.
static void sized_at_call(struct program *p, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    const char *type = program_memory(b->type);
    style_line(&p->style, "i64 room%d;", b->id);
    style_line(&p->style, "{");
    p->style.indent++;
    program_nodes(p, b->ndim, b->shape);
    text_add(p->style.out, "%*sroom%d = ", 4 * p->style.indent, "", b->id);
    program_bytes(p, b);
    text_add(p->style.out, ";\n");
    style_close(&p->style);
    style_open(&p->style, "if (room%d < 0 || room%d > %d)", b->id, b->id, PROGRAM_ARRAY);
    text_add(p->style.out, "%*srun->fail(run, %d, ", 4 * p->style.indent, "", s->place.line);
    program_quoted(p->style.out, "memory of a block whose size is known at the call has 1 MiB at most");
    text_add(p->style.out, ");\n");
    style_line(&p->style, "return;");
    style_close(&p->style);
    style_line(&p->style, "u8 memory%d[room%d + 64];", b->id, b->id);
    style_line(&p->style, "%s *b%d = (%s *)(((uintptr_t)memory%d + 63) / 64 * 64);", type, b->id, type,
               b->id);
    program_strides(p, b);
}

// Memory of a block is on the stack of its thread.
void program_alloc(struct program *p, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    if (b->base) {
        check_view(p, s);
        program_view(p, b);
        program_strides(p, b);
        return;
    }
    int64_t count = program_elements(b), bytes = program_size(b);
    if (b->stride)
        program_fail(p, s, "memory of a block has no strides in the target c: ", b->text);
    else if (count < 0)
        sized_at_call(p, s);
    else if (bytes < 0 || bytes > PROGRAM_STACK || (p->stack += bytes) > PROGRAM_STACK)
        program_fail(p, s, "the memory of a block is more than 4 MiB with ", b->text);
    else
        style_line(&p->style, "_Alignas(64) %s b%d[%" PRId64 "];", program_memory(b->type), b->id,
                   MAX_OF(count * (tile_type_is_complex(b->type) ? 2 : 1), 1));
}

// The unit for products of tiles ------------------------------------------------------------------------------------

static void tile_address(struct program *p, const struct tile_region *r) {
    struct text *out = p->style.out;
    text_add(out, "b%d", r->buffer->id);
    for (int i = 0; r->origin && i < r->buffer->ndim; i++) {
        text_add(out, " + ");
        program_operand(p, r->origin[i]);
        text_stride(p, r->buffer, i);
    }
}

// One line to one element.
void program_reduce(struct program *p, const struct tile_stmt *s) {
    struct text *out = p->style.out;
    text_add(out, "%*srun->reduce(%d, %d, b%d, ", 4 * p->style.indent, "", (int)s->combine,
             (int)tile_dtype_of(s->region[0].buffer->type), s->region[1].buffer->id);
    tile_address(p, &s->region[0]);
    text_add(out, ", ");
    program_operand(p, s->region[0].extent[s->axis]);
    text_add(out, ");\n");
}

static expr region_size(const struct tile_region *r, int axis) {
    int at = r->buffer->ndim - 2 + axis;
    return r->extent ? r->extent[at] : r->buffer->shape[at];
}

static bool is_read_in_place(const struct tile_region *r) {
    return r->buffer->memory == TILE_GLOBAL;
}

int program_gemm_sizes(const struct tile_stmt *s, expr *out) {
    int count = 0;
    for (int i = 0; i < 3; i++) {
        const struct tile_region *r = &s->region[i];
        for (int axis = 0; axis < r->buffer->ndim; axis++)
            if (is_read_in_place(r) || (!r->extent && axis >= r->buffer->ndim - 2))
                out[count++] = r->buffer->shape[axis];
    }
    return count;
}

static void operand_or(struct program *p, const expr *list, int at) {
    if (list)
        program_operand(p, list[at]);
    else
        text_add(p->style.out, "0");
}

// Rows of a parameter; none where an index before them is outside.
static void rows_inside(struct program *p, const struct tile_region *r) {
    struct text *out = p->style.out;
    int ndim = r->buffer->ndim;
    for (int i = 0; r->origin && i < ndim - 2; i++) {
        text_add(out, "(u64)");
        program_operand(p, r->origin[i]);
        text_add(out, " >= (u64)");
        program_operand(p, r->buffer->shape[i]);
        text_add(out, " ? 0 : ");
    }
    program_operand(p, r->buffer->shape[ndim - 2]);
}

// struct zl_tile of the prelude.
static void matrix(struct program *p, const struct tile_region *r, bool transposed) {
    struct text *out = p->style.out;
    int ndim = r->buffer->ndim;
    bool in_place = is_read_in_place(r);
    text_add(out, ", {(void *)(b%d", r->buffer->id);
    for (int i = 0; r->origin && i < ndim - (in_place ? 2 : 0); i++) {
        text_add(out, " + ");
        program_operand(p, r->origin[i]);
        text_stride(p, r->buffer, i);
    }
    text_add(out, "), {1");
    text_stride(p, r->buffer, ndim - 2);
    text_add(out, ", 1");
    text_stride(p, r->buffer, ndim - 1);
    text_add(out, "}, {");
    operand_or(p, in_place ? r->origin : NULL, ndim - 2);
    text_add(out, ", ");
    operand_or(p, in_place ? r->origin : NULL, ndim - 1);
    text_add(out, "}, {");
    if (in_place)
        rows_inside(p, r);
    else
        program_operand(p, region_size(r, 0));
    text_add(out, ", ");
    program_operand(p, in_place ? r->buffer->shape[ndim - 1] : region_size(r, 1));
    text_add(out, "}, %d, %d, %d}", (int)tile_dtype_of(r->buffer->type), transposed,
             in_place && !r->buffer->is_output);
}

void program_gemm(struct program *p, const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    expr m = region_size(a, s->transpose[0]), k = region_size(a, !s->transpose[0]),
         n = region_size(b, !s->transpose[1]), also_k = region_size(b, s->transpose[1]);
    if (k != also_k && (program_number(k) < 0 || program_number(k) != program_number(also_k))) {
        program_fail(p, s, "inner sizes differ, or are no numbers: ", b->buffer->text);
        return;
    }
    struct text *out = p->style.out;
    text_add(out, "%*srun->gemm(run, &(struct zl_tile_gemm){", 4 * p->style.indent, "");
    program_operand(p, m);
    text_add(out, ", ");
    program_operand(p, n);
    text_add(out, ", ");
    program_operand(p, k);
    for (int i = 0; i < 3; i++)
        matrix(p, &s->region[i], i < 2 && s->transpose[i]);
    text_add(out, ", %d});\n", s->clear);
}
