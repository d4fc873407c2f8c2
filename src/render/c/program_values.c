// program_values.c - writes expressions and simple statements of kernels in plain C: each node of an
// expression is a constant of its own, in the block of the statement that uses it.

#include "render/gpu_c/group.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const char *program_memory(struct tile_type type) {
    return tile_type_is_bool(type) ? "u8" : tile_type_is_complex(type) ? "f32" : tile_type_name(type);
}

// Expressions -----------------------------------------------------------------------------------------------

bool program_fail(struct program *p, const struct tile_stmt *s, const char *why, const char *what) {
    if (!p->failed)
        tile_error_at(ZL_ERROR_COMPILE, p->kernel->file ? p->kernel->file : p->kernel->name,
                      p->kernel->source, s ? s->place : (struct tile_place){0}, "%s: %s%s",
                      s ? tile_stmt_name(s->kind) : "kernel", why, what);
    return !(p->failed = true);
}

int64_t program_stride(const struct tile_buffer *b, int axis) {
    return b->stride ? pass_number(b->stride[axis]) : pass_product(b->ndim - axis - 1, b->shape + axis + 1);
}

static void emit_node(struct program *p, expr e);

// Visits all values that the text of a node names.
static void each_operand(struct program *p, expr e, void (*visit)(struct program *p, expr e)) {
    for (int i = 0; i < tile_operands(e); i++)
        visit(p, tile_operand(e, i));
    for (int i = 0; p->checks && e->op == TILE_LOAD && i < e->indices; i++)
        visit(p, e->buffer->shape[i]);
}

// Appends the factor of an index: the stride of its axis in elements.
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
        program_operand(p, index[i]);
        text_stride(p, b, i);
    }
}

static int log_of(int64_t n) {
    return 63 - __builtin_clzll((uint64_t)n);
}

bool program_has_panels(const struct tile_buffer *b) {
    return b->swizzle && pass_number(b->shape[b->ndim - 1]) * tile_type_bytes(b->type) >= 128;
}

// Appends the place of an element in a swizzled buffer. Rows consist of vectors of 16 bytes, as many as a
// power of two, and the place of a vector within 128 bytes depends on the row. Longer rows are cut into
// panels: 128 bytes of every row are contiguous, then the next 128 bytes of every row.
static void swizzled(struct program *p, const struct tile_buffer *b, const expr *index) {
    int last = b->ndim - 1, bytes = tile_type_bytes(b->type);
    if (b->ndim > 2) { // in a stack, the pattern begins anew with each matrix
        program_offset(p, b, index, 0, b->ndim - 2);
        text_add(p->style.out, " + ");
    }
    if (program_has_panels(b)) {
        program_text(p, &index[last - 1], "zl_panel((u32)@, (u32)@, %" PRId64 ", %d, %d)",
                     pass_number(b->shape[last - 1]), log_of(128 / bytes), log_of(16 / bytes));
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

// Returns whether an index is certainly inside of the buffer. Ranges hold if numbers do not wrap around,
// which is checked for sizes that are known at launch.
static bool is_known_inside(const struct tile_buffer *b, const expr *index, int axis) {
    struct pass_range at = pass_range(index[axis]), size = pass_range(b->shape[axis]);
    return at.low >= 0 && at.high < size.low && (size.high != INT64_MAX || tile_is_known_at_launch(b));
}

// Appends `and` and tests of the indices that may be outside, joined by &&; nothing if there are none.
// Returns their number.
static int tests(struct program *p, const struct tile_buffer *b, const expr *index, const char *and) {
    int count = 0;
    for (int i = 0; p->checks && i < b->ndim; i++) {
        if (is_known_inside(b, index, i))
            continue;
        program_text(p, (expr[]){index[i], b->shape[i]}, "%szl_inside(run, %d, \"%s\", %d, (i64)@, (i64)@)",
                     count++ ? " && " : and, p->at ? p->at->place.line : 0, b->text, i);
    }
    return count;
}

static void load(struct program *p, expr e, int part) {
    struct style *s = &p->style;
    if (e->args)
        program_text(p, &e->arg[0], "@ ? ");
    int tested = tests(p, e->buffer, e->index, "(");
    text_add(s->out, tested ? " ? " : "");
    element(p, e->buffer, e->index, part);
    if (tile_type_is_bool(e->type))
        text_add(s->out, " != 0");
    text_add(s->out, tested ? " : 0)" : "");
    if (e->args)
        program_text(p, part >= 0 && e->arg[1]->op == TILE_PAIR ? &e->arg[1]->arg[part] : &e->arg[1], " : @");
}

static void leaf(struct program *p, expr e) {
    if (e->op == TILE_ADDRESS) {
        text_add(p->style.out, "b%d", e->buffer->id);
        return;
    }
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
    if (e->op >= TILE_INDEX && e->op <= TILE_ADDRESS)
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

// Forgets the values that were computed in a branch: they are not visible after it.
static void forget(struct program *p, expr e) {
    if (p->seen[e->id] != p->stamp || p->of[e->id].block <= p->depth)
        return;
    p->seen[e->id] = 0;
    each_operand(p, e, forget);
}

// Writes the common value; then, in a branch, the rare one. Returns false if the rare one is a constant or
// was computed already.
static bool emit_rare(struct program *p, expr e) {
    expr rare = e->arg[1];
    emit_node(p, e->arg[0]);
    emit_node(p, e->arg[2]);
    if (rare->op == TILE_CONST || p->seen[rare->id] == p->stamp)
        return false;
    declare(p, e, "");
    program_text(p, &e->arg[2], "@;\n");
    program_line(p, &e->arg[0], "if (@) {");
    p->depth++;
    emit_node(p, rare);
    program_line(p, (expr[]){e, rare}, "@ = @;");
    p->depth--;
    forget(p, rare);
    style_close(&p->style);
    return true;
}

// Writes each node once per statement. Nodes are numbered by their first place in the text, because ids
// depend on the order in which the compiler of this code evaluates arguments.
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

static void add_text(struct program *p, const expr *operand, const char *format, va_list list) {
    struct text *out = p->style.out, named = {0};
    p->style.out = &named;
    for (const char *at = format, *end; *at; at = end) {
        end = *at == '@' ? at + 1 : at + strcspn(at, "@");
        if (*at == '@')
            program_operand(p, *operand++);
        else
            text_bytes(&named, at, (int)(end - at));
    }
    p->style.out = out;
    if (named.failed)
        p->failed = true;
    else
        text_add_list(out, named.data, list);
    text_free(&named);
}

void program_text(struct program *p, const expr *operand, const char *format, ...) {
    va_list list;
    va_start(list, format);
    add_text(p, operand, format, list);
    va_end(list);
}

void program_line(struct program *p, const expr *operand, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_add(p->style.out, "%*s", 4 * p->style.indent, "");
    add_text(p, operand, format, list);
    text_add(p->style.out, "\n");
    p->style.indent += format[strlen(format) - 1] == '{';
    va_end(list);
}

void program_open(struct program *p, const struct tile_stmt *s, int more, const expr *others) {
    expr root[4 * TILE_STMT_EXPRS];
    int count = tile_stmt_exprs(s, root);
    for (int i = 0; i < more; i++)
        root[count++] = others[i];
    program_line(p, NULL, "{");
    program_nodes(p, count, root);
}

// Simple statements -----------------------------------------------------------------------------------------

// Writes the `if` of a store or an atomic, with its mask and the tests of its indices.
static void open_masked(struct program *p, const struct tile_stmt *s) {
    bool is_tested = false;
    for (int i = 0; p->checks && i < s->indices; i++)
        is_tested |= !is_known_inside(s->buffer, s->index, i);
    if (!s->mask && !is_tested)
        return;
    program_text(p, &s->mask, s->mask ? "%*sif (@" : "%*sif (", 4 * p->style.indent, "");
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
    if (is_far)
        program_text(p, &s->step, ", @");
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

// Returns the name of an atomic's op; NULL, with an error, if the target does not have it.
static const char *find_atomic(struct program *p, const struct tile_stmt *s) {
    struct tile_type type = s->buffer->type;
    const char *word = atomic_word(s->combine);
    bool is_bits = s->combine == TILE_AND || s->combine == TILE_OR || s->combine == TILE_XOR;
    if (word && !tile_type_is_bool(type) && !tile_type_is_complex(type) &&
        (!is_bits || tile_type_is_integer(type)))
        return word;
    program_fail(p, s, "the target has no atomic ", tile_op_name(s->combine));
    return NULL;
}

// For groups of threads an atomic is a macro that is a statement.
void program_atomic(struct program *p, const struct tile_stmt *s) {
    struct tile_type type = s->buffer->type;
    struct text *out = p->style.out;
    const char *word = find_atomic(p, s), *name = tile_type_name(type);
    if (!word)
        return;
    if (s->old && s->mask)
        style_line(&p->style, "x%d = 0;", s->old->id);
    if (p->own)
        program_line(p, NULL, "{");
    open_masked(p, s);
    text_add(out, "%*s", 4 * p->style.indent, "");
    if (p->own) {
        text_add(out, "ZL_ATOMIC_%d(", type.bits);
        text_add(out, s->old ? "x%d =, " : "(void), ", s->old ? s->old->id : 0);
        text_add(out, "%s, %s, &", render_group_space(p, s->buffer), name);
    } else {
        if (s->old)
            text_add(out, "x%d = ", s->old->id);
        text_add(out, "ZL_ATOMIC(%s, u%d, &", name, type.bits);
    }
    element(p, s->buffer, s->index, -1);
    program_text(p, &s->value, ", zl_%s_%s, @);\n", word, name);
    if (p->own)
        style_close(&p->style);
}

void program_quoted(struct text *out, const char *text) {
    text_add(out, "\"");
    for (const char *at = text ? text : ""; *at; at++) {
        bool is_plain = *at >= ' ' && *at < 127 && *at != '"' && *at != '\\';
        text_add(out, is_plain ? "%c" : "\\%03o", (unsigned char)*at);
    }
    text_add(out, "\"");
}

// Writes the report of a failure, a return, and the closing brace of the block that the caller opened.
static void fail_if(struct program *p, const struct tile_stmt *s, const char *message) {
    text_add(p->style.out, "%*srun->fail(run, %d, ", 4 * p->style.indent, "", s->place.line);
    program_quoted(p->style.out, message);
    text_add(p->style.out, ");\n");
    style_line(&p->style, "return;");
    style_close(&p->style);
}

void program_message(struct program *p, const struct tile_stmt *s) {
    struct text *out = p->style.out;
    if (s->kind == TILE_ASSERT) {
        program_line(p, &s->mask, "if (!@) {");
        fail_if(p, s, s->message);
        return;
    }
    text_add(out, "%*srun->print(run, ", 4 * p->style.indent, "");
    program_quoted(out, s->message);
    if (!s->value)
        text_add(out, ", 0, (f64)(0));\n");
    else if (tile_type_is_half(s->value->type))
        program_text(p, &s->value, ", 1, zl_f32_of_%s(@));\n", tile_type_name(s->value->type));
    else
        program_text(p, &s->value, ", 1, (f64)(@));\n");
}

// Strides of a block's own memory are constants, of which the first is the largest.
int64_t program_elements(const struct tile_buffer *b) {
    int64_t count;
    if (b->memory != TILE_SHARED || !b->stride || !b->ndim)
        return pass_product(b->ndim, b->shape);
    return tile_times(pass_number(b->shape[0]), pass_number(b->stride[0]), &count) ? count : -1;
}

int64_t program_size(const struct tile_buffer *b) {
    int64_t bytes;
    return tile_times(program_elements(b), tile_type_bytes(b->type), &bytes) ? bytes : -1;
}

// Here only memory outside of blocks has strides. They are known at launch, where it was checked that the sum
// fits.
void program_bytes(struct program *p, const struct tile_buffer *b) {
    struct text *out = p->style.out;
    if (b->stride) {
        text_add(out, "zl_times(%d, 1", tile_type_bytes(b->type));
        for (int i = 0; i < b->ndim; i++)
            program_text(p, (expr[]){b->shape[i], b->shape[i], b->stride[i]},
                         " + ((i64)@ > 1 ? (i64)@ - 1 : 0) * @");
        text_add(out, ")");
        return;
    }
    for (int i = 0; i < b->ndim; i++)
        text_add(out, "zl_times(");
    text_add(out, "%d", tile_type_bytes(b->type));
    for (int i = 0; i < b->ndim; i++)
        program_text(p, &b->shape[i], ", (i64)@)");
}

void program_view(struct program *p, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    const char *type = program_memory(b->type),
               *constant = memory->parameter >= 0 && !memory->is_output ? "const " : "";
    style_line(&p->style, "%s%s *b%d = (%s%s *)b%d;", constant, type, b->id, constant, type, b->base->id);
}

// If the size of a view or of its memory is known only when the block runs, writes a test that the view fits.
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
    program_line(p, NULL, "{");
    program_nodes(p, b->ndim + b->base->ndim, root);
    text_add(p->style.out, "%*sconst i64 bytes = ", 4 * p->style.indent, "");
    program_bytes(p, b);
    text_add(p->style.out, ";\n%*sview%d = bytes >= 0 && bytes <= ", 4 * p->style.indent, "", b->id);
    program_bytes(p, b->base);
    text_add(p->style.out, ";\n");
    style_close(&p->style);
    style_open(&p->style, "if (!view%d)", b->id);
    struct text why = {0};
    text_add(&why, "'%s' has more bytes than '%s', whose memory it is", b->text, b->base->text);
    fail_if(p, s, why.data);
    text_free(&why);
}

// Declares memory whose size is known only when the block runs: an array of that size, aligned to 64 bytes.
static void sized_at_call(struct program *p, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    const char *type = program_memory(b->type);
    style_line(&p->style, "i64 room%d;", b->id);
    program_line(p, NULL, "{");
    program_nodes(p, b->ndim, b->shape);
    text_add(p->style.out, "%*sroom%d = ", 4 * p->style.indent, "", b->id);
    program_bytes(p, b);
    text_add(p->style.out, ";\n");
    style_close(&p->style);
    style_open(&p->style, "if (room%d < 0 || room%d > %d)", b->id, b->id, PROGRAM_ARRAY);
    fail_if(p, s, "memory of a block whose size is known at the call has 1 MiB at most");
    style_line(&p->style, "u8 memory%d[room%d + 64];", b->id, b->id);
    style_line(&p->style, "%s *b%d = (%s *)(((uintptr_t)memory%d + 63) / 64 * 64);", type, b->id, type,
               b->id);
    program_strides(p, b);
}

// The memory of a block is on the stack of its thread.
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

// The unit for products of tiles ----------------------------------------------------------------------------

// Appends the address of a region's origin, along its first `axes` axes.
static void tile_address(struct program *p, const struct tile_region *r, int axes) {
    text_add(p->style.out, "b%d", r->buffer->id);
    if (r->origin && axes) {
        text_add(p->style.out, " + ");
        program_offset(p, r->buffer, r->origin, 0, axes);
    }
}

// Reduces one row to one element.
void program_reduce(struct program *p, const struct tile_stmt *s) {
    text_add(p->style.out, "%*srun->reduce(%d, %d, b%d, ", 4 * p->style.indent, "", (int)s->combine,
             (int)tile_dtype_of(s->region[0].buffer->type), s->region[1].buffer->id);
    tile_address(p, &s->region[0], s->region[0].buffer->ndim);
    program_text(p, &s->region[0].extent[s->axis], ", @);\n");
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

// Appends the number of rows of a parameter; 0 if an index before them is outside.
static void rows_inside(struct program *p, const struct tile_region *r) {
    int rows = r->buffer->ndim - 2;
    for (int i = 0; r->origin && i < rows; i++)
        program_text(p, (expr[]){r->origin[i], r->buffer->shape[i]}, "(u64)@ >= (u64)@ ? 0 : ");
    program_operand(p, r->buffer->shape[rows]);
}

// Appends a struct zl_tile, which the prelude defines.
static void matrix(struct program *p, const struct tile_region *r, bool transposed) {
    struct text *out = p->style.out;
    int ndim = r->buffer->ndim;
    bool in_place = is_read_in_place(r);
    text_add(out, ", {(void *)(");
    tile_address(p, r, ndim - (in_place ? 2 : 0));
    text_add(out, "), {1");
    text_stride(p, r->buffer, ndim - 2);
    text_add(out, ", 1");
    text_stride(p, r->buffer, ndim - 1);
    if (in_place && r->origin)
        program_text(p, r->origin + ndim - 2, "}, {@, @}, {");
    else
        text_add(out, "}, {0, 0}, {");
    if (in_place)
        rows_inside(p, r);
    else
        program_operand(p, region_size(r, 0));
    expr columns = in_place ? r->buffer->shape[ndim - 1] : region_size(r, 1);
    program_text(p, &columns, ", @}, %d, %d, %d}", (int)tile_dtype_of(r->buffer->type), transposed,
                 in_place && !r->buffer->is_output);
}

void program_gemm(struct program *p, const struct tile_stmt *s) {
    const struct tile_region *a = &s->region[0], *b = &s->region[1];
    expr m = region_size(a, s->transpose[0]), k = region_size(a, !s->transpose[0]),
         n = region_size(b, !s->transpose[1]), also_k = region_size(b, s->transpose[1]);
    if (k != also_k && (pass_number(k) < 0 || pass_number(k) != pass_number(also_k))) {
        program_fail(p, s, "inner sizes differ, or are no numbers: ", b->buffer->text);
        return;
    }
    program_text(p, (expr[]){m, n, k}, "%*srun->gemm(run, &(struct zl_tile_gemm){@, @, @",
                 4 * p->style.indent, "");
    for (int i = 0; i < 3; i++)
        matrix(p, &s->region[i], i < 2 && s->transpose[i]);
    text_add(p->style.out, ", %d});\n", s->clear);
}
