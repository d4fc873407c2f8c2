// program.c - renders kernels of any statements in plain C, one block of the grid at a time: the dialect
// `c_tiles`.
//
// The text has three functions. NAME_blocks(run, phase) returns the number of blocks of a phase, -1 after the
// last; NAME(run, phase, block) computes one block; NAME_room(run, at) returns the size of a buffer outside
// of all blocks, -1 after the last. A number that does not fit into 64 bits is -2. Phases run one after the
// other, the blocks of a phase in any order. Loops are plain: compilers vectorise them, and a pragma tells
// them that the iterations of a map do not depend on each other.

#include "render/c/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 4096 }; // elements per block of a phase that is a map of one axis

// Bodies ----------------------------------------------------------------------------------------------------

static void open_loop(struct program *p, const struct tile_name *name) {
    style_open(&p->style, "for (%s j%d = 0; j%d < e%d; j%d++)", tile_type_name(name->type), name->id,
               name->id, name->id, name->id);
}

void program_extents(struct program *p, const struct tile_stmt *s) {
    program_nodes(p, s->indices, s->extent);
    for (int i = 0; i < s->indices; i++)
        program_line(p, &s->extent[i], "const %s e%d = @;", tile_type_name(s->name[i]->type), s->name[i]->id);
}

// Writes the last axis of a map as calls of row functions, starting at `first`.
static void rows(struct program *p, const struct tile_stmt *s, const char *first, const char *count) {
    const struct tile_name *name = s->name[s->indices - 1];
    program_line(p, NULL, "{");
    style_line(&p->style, "const %s j%d = %s;", tile_type_name(name->type), name->id, first);
    program_rows(p, s, count);
    style_close(&p->style);
}

// Writes loops over the axes of a map, starting with axis `from`.
static void inner_loops(struct program *p, const struct tile_stmt *s, int from) {
    bool as_rows = program_has_rows(p, s);
    int loops = s->indices - as_rows;
    char count[24];
    snprintf(count, sizeof count, "e%d", s->name[s->indices - 1]->id);
    for (int i = from; i < loops; i++) {
        if (i + 1 == s->indices && !p->own)
            style_line(&p->style, "#pragma GCC ivdep");
        open_loop(p, s->name[i]);
    }
    if (as_rows)
        rows(p, s, "0", count);
    else
        program_block(p, s->body);
    for (int i = from; i < loops; i++)
        style_close(&p->style);
}

static void map(struct program *p, const struct tile_stmt *s) {
    program_line(p, NULL, "{");
    program_extents(p, s);
    inner_loops(p, s, 0);
    style_close(&p->style);
}

static void unroll(struct program *p, const struct tile_stmt *s) {
    int64_t turns = s->unroll ? s->unroll : pass_number(s->extent[0]);
    if (s->loop != TILE_UNROLLED || turns <= 0)
        return;
    if (!p->own)
        style_line(&p->style, "#pragma GCC unroll %" PRId64, MIN_OF(turns, 64));
    else if (s->unroll)
        style_line(&p->style, "ZL_UNROLL_SOME(%d)", s->unroll);
    else
        style_line(&p->style, p->branches ? "ZL_UNROLL_IN_BRANCH" : "ZL_UNROLL");
}

static void emit_for(struct program *p, const struct tile_stmt *s) {
    int id = s->name[0]->id;
    const char *type = tile_type_name(s->name[0]->type);
    expr roots[] = {s->begin, s->extent[0], s->step};
    static const char *const letter[] = {"from", "e", "by"};
    program_line(p, NULL, "{");
    program_nodes(p, 3, roots);
    for (int i = 0; i < 3; i++)
        program_line(p, &roots[i], "const %s %s%d = @;", type, letter[i], id);
    unroll(p, s);
    if (pass_range(s->step).low > 0)
        style_open(&p->style, "for (%s j%d = from%d; j%d < e%d; j%d += by%d)", type, id, id, id, id, id, id);
    else
        style_open(&p->style,
                   "for (%s j%d = from%d; by%d > 0 ? j%d < e%d : by%d < 0 && j%d > e%d; j%d += by%d)", type,
                   id, id, id, id, id, id, id, id, id, id);
    program_block(p, s->body);
    style_close(&p->style);
    style_close(&p->style);
}

static void emit_while(struct program *p, const struct tile_stmt *s) {
    style_open(&p->style, "for (;;)");
    program_nodes(p, 1, &s->mask);
    program_line(p, &s->mask, "if (!@)");
    style_line(&p->style, "    break;");
    program_block(p, s->body);
    style_close(&p->style);
}

static void emit_if(struct program *p, const struct tile_stmt *s) {
    program_line(p, NULL, "{");
    program_nodes(p, 1, &s->mask);
    program_line(p, &s->mask, "if (@) {");
    p->branches++;
    program_block(p, s->body);
    style_close(&p->style);
    if (s->other) {
        style_open(&p->style, "else");
        program_block(p, s->other);
        style_close(&p->style);
    }
    p->branches--;
    style_close(&p->style);
}

// Writes a statement and the expressions that it uses.
static void emit_simple(struct program *p, const struct tile_stmt *s) {
    expr sizes[4 * TILE_DIMS];
    int count = s->kind == TILE_GEMM ? program_gemm_sizes(s, sizes) : 0;
    for (int i = 0; p->checks && s->buffer && i < s->buffer->ndim; i++)
        sizes[count++] = s->buffer->shape[i];
    program_open(p, s, count, sizes);
    switch (s->kind) {
    case TILE_STORE: program_store(p, s); break;
    case TILE_ATOMIC: program_atomic(p, s); break;
    case TILE_GEMM: program_gemm(p, s); break;
    case TILE_REDUCE: program_reduce(p, s); break;
    case TILE_ASSIGN: program_line(p, &s->value, "x%d = @;", s->name[0]->id); break;
    default: program_message(p, s); break;
    }
    style_close(&p->style);
}

static void emit_stmt(struct program *p, const struct tile_stmt *s) {
    p->at = s;
    if (p->own && p->own(p, s))
        return;
    switch (s->kind) {
    case TILE_ALLOC: program_alloc(p, s); return;
    case TILE_MAP: map(p, s); return;
    case TILE_FOR: emit_for(p, s); return;
    case TILE_WHILE: emit_while(p, s); return;
    case TILE_IF: emit_if(p, s); return;
    case TILE_BREAK: style_line(&p->style, "break;"); return;
    case TILE_WAIT:
    case TILE_BARRIER: return; // a block runs in one thread
    case TILE_GRID: program_fail(p, s, "a grid is inside of another statement", ""); return;
    default: emit_simple(p, s); return;
    }
}

void program_block(struct program *p, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body, *last; s && !p->failed; s = s->next)
        if ((last = program_reduced(p, s)))
            s = last;
        else
            emit_stmt(p, s);
}

// Phases ----------------------------------------------------------------------------------------------------

// Writes a grid as a phase: its first name varies fastest over the blocks.
static void grid_phase(struct program *p, const struct tile_stmt *s) {
    program_extents(p, s);
    for (int i = 0; i < s->indices; i++) {
        int id = s->name[i]->id;
        style_line(&p->style, "const %s j%d = (%s)(block %% e%d);", tile_type_name(s->name[i]->type), id,
                   tile_type_name(s->name[i]->type), id);
        if (i + 1 < s->indices)
            style_line(&p->style, "block /= e%d;", id);
    }
    program_block(p, s->body);
}

// Writes a map as a phase. A block is one position along its first axis or, if it has only one axis, some
// elements.
static void map_phase(struct program *p, const struct tile_stmt *s) {
    int id = s->name[0]->id;
    const char *type = tile_type_name(s->name[0]->type);
    program_extents(p, s);
    if (s->indices > 1) {
        style_line(&p->style, "const %s j%d = (%s)block;", type, id, type);
        inner_loops(p, s, 1);
        return;
    }
    style_line(&p->style, "const i64 first = block * %d, end = first + %d < e%d ? first + %d : e%d;", CHUNK,
               CHUNK, id, CHUNK, id);
    if (program_has_rows(p, s)) {
        rows(p, s, "first", "(end - first)");
        return;
    }
    style_line(&p->style, "#pragma GCC ivdep");
    style_open(&p->style, "for (%s j%d = first; j%d < end; j%d++)", type, id, id, id);
    program_block(p, s->body);
    style_close(&p->style);
}

static void count_blocks(struct program *p, const struct tile_stmt *s) {
    if (s->kind != TILE_GRID && s->kind != TILE_MAP) {
        style_line(&p->style, "return 1;");
        return;
    }
    program_extents(p, s);
    text_add(p->style.out, "%*sreturn ", 4 * p->style.indent, "");
    int id = s->name[0]->id, names = s->kind == TILE_GRID ? s->indices : 1;
    if (s->kind == TILE_MAP && s->indices == 1)
        text_add(p->style.out, "((i64)e%d + %d) / %d", id, CHUNK - 1, CHUNK);
    bool is_product = s->kind == TILE_GRID || s->indices > 1;
    for (int i = 1; is_product && i < names; i++)
        text_add(p->style.out, "zl_times(");
    for (int i = 0; is_product && i < names; i++)
        text_add(p->style.out, "%s(e%d > 0 ? (i64)e%d : 0)%s", i ? ", " : "", s->name[i]->id, s->name[i]->id,
                 i ? ")" : "");
    text_add(p->style.out, ";\n");
}

// Returns the end of the phase that begins at s: a grid is a phase, and so are all statements before the next
// grid.
static const struct tile_stmt *phase_end(const struct tile_stmt *s) {
    if (s->kind == TILE_GRID)
        return s->next;
    while (s && s->kind != TILE_GRID)
        s = s->next;
    return s;
}

static bool is_parallel(const struct tile_stmt *s, const struct tile_stmt *end) {
    return s->kind == TILE_GRID || (s->kind == TILE_MAP && s->next == end);
}

static void run_phase(struct program *p, const struct tile_stmt *s, const struct tile_stmt *end) {
    if (s->kind == TILE_GRID)
        grid_phase(p, s);
    else if (is_parallel(s, end))
        map_phase(p, s);
    else
        for (; s != end && !p->failed; s = s->next)
            if (s->kind != TILE_ALLOC) // memory outside of blocks: NAME_room
                emit_stmt(p, s);
}

static const struct tile_stmt *skip_allocs(const struct tile_stmt *s) {
    while (s && s->kind == TILE_ALLOC)
        s = s->next;
    return s;
}

static void each_phase(struct program *p, bool counts) {
    int phase = 0;
    style_open(&p->style, "switch (phase)");
    for (const struct tile_stmt *s = skip_allocs(p->kernel->body), *end; s && !p->failed;
         s = skip_allocs(end)) {
        end = phase_end(s);
        style_open(&p->style, "case %d:", phase++);
        if (!counts)
            run_phase(p, s, end);
        else if (is_parallel(s, end))
            count_blocks(p, s);
        else
            style_line(&p->style, "return 1;");
        style_line(&p->style, "break;");
        style_close(&p->style);
    }
    style_close(&p->style);
}

// Functions -------------------------------------------------------------------------------------------------

static void declare_strides(struct program *p, const struct tile_buffer *b) {
    for (int i = 0; i < b->ndim; i++) {
        if (program_stride(b, i) >= 0)
            continue;
        program_line(p, NULL, "{");
        expr *from = b->stride ? &b->stride[i] : &b->shape[i + 1];
        program_nodes(p, b->stride ? 1 : b->ndim - 1 - i, from);
        text_add(p->style.out, "%*ss%d_%d = ", 4 * p->style.indent, "", b->id, i);
        for (int k = 0; k < (b->stride ? 1 : b->ndim - 1 - i); k++) {
            text_add(p->style.out, k ? " * " : "");
            program_operand(p, from[k]);
        }
        text_add(p->style.out, ";\n");
        style_close(&p->style);
    }
}

void program_strides(struct program *p, const struct tile_buffer *b) {
    for (int i = 0; i < b->ndim; i++)
        if (program_stride(b, i) < 0)
            style_line(&p->style, "i64 s%d_%d;", b->id, i);
    declare_strides(p, b);
}

static void declare_symbols(struct program *p) {
    for (int i = 0; i < p->kernel->symbols; i++) {
        const char *type = tile_type_name(p->kernel->symbol[i]->type);
        style_line(&p->style, "const %s n%d = (%s)run->symbol[%d];", type, p->kernel->symbol[i]->id, type, i);
    }
}

static void declare_parameters(struct program *p) {
    for (int i = 0; i < p->kernel->parameters; i++) {
        const struct tile_parameter *q = &p->kernel->parameter[i];
        if (q->is_scalar) {
            const char *type = program_memory(q->scalar->type);
            style_line(&p->style, "const %s a%d = *(const %s *)run->p[%d];", type, q->scalar->id, type, i);
            continue;
        }
        const char *type = program_memory(q->buffer->type), *constant = q->buffer->is_output ? "" : "const ";
        style_line(&p->style, "%s%s *b%d = (%s%s *)run->p[%d];", constant, type, q->buffer->id, constant,
                   type, i);
        program_strides(p, q->buffer);
    }
}

static void declare_rooms(struct program *p) {
    int at = 0;
    for (const struct tile_stmt *s = p->kernel->body; s; s = s->next) {
        if (s->kind != TILE_ALLOC)
            continue;
        const char *type = program_memory(s->buffer->type);
        if (s->buffer->base)
            program_view(p, s->buffer);
        else
            style_line(&p->style, "%s *b%d = (%s *)run->room[%d];", type, s->buffer->id, type, at++);
        program_strides(p, s->buffer);
    }
}

// Declares local variables at the top of the function, though each is visible in its block only.
static void declare_locals(struct program *p, const struct tile_stmt *body) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        const struct tile_name *name = s->kind == TILE_ASSIGN ? s->name[0] : s->old;
        if (name && !p->declared[name->id]) {
            p->declared[name->id] = true;
            if (tile_type_is_complex(name->type))
                program_fail(p, s, "the target c has no complex variables: ", name->text);
            style_line(&p->style, "%s x%d = 0;", tile_type_name(name->type), name->id);
        }
        declare_locals(p, s->body);
        declare_locals(p, s->other);
    }
}

void program_locals(struct program *p, const struct tile_stmt *body) {
    memset(p->declared, 0, sizeof *p->declared * (size_t)p->kernel->names);
    declare_locals(p, body);
}

static void room_function(struct program *p) {
    int at = 0;
    style_open(&p->style, "i64 %s_room(const struct zl_run *run, i64 at)", p->symbol);
    declare_symbols(p);
    style_open(&p->style, "switch (at)");
    for (const struct tile_stmt *s = p->kernel->body; s; s = s->next) {
        if (s->kind != TILE_ALLOC || s->buffer->base)
            continue;
        if (!tile_is_known_at_launch(s->buffer))
            program_fail(p, s, "the size of memory outside of grids follows from the sizes of arguments: ",
                         s->buffer->text);
        expr root[2 * TILE_DIMS];
        int ndim = s->buffer->ndim;
        for (int i = 0; i < ndim; i++) {
            root[i] = s->buffer->shape[i];
            root[ndim + i] = s->buffer->stride ? s->buffer->stride[i] : NULL;
        }
        style_open(&p->style, "case %d:", at++);
        program_nodes(p, s->buffer->stride ? 2 * ndim : ndim, root);
        text_add(p->style.out, "%*sreturn ", 4 * p->style.indent, "");
        program_bytes(p, s->buffer);
        text_add(p->style.out, ";\n");
        style_close(&p->style);
    }
    style_close(&p->style);
    style_line(&p->style, "return -1;");
    style_close(&p->style);
}

static void functions(struct program *p) {
    room_function(p);
    style_open(&p->style, "i64 %s_blocks(const struct zl_run *run, i64 phase)", p->symbol);
    declare_symbols(p);
    declare_parameters(p);
    each_phase(p, true);
    style_line(&p->style, "return -1;");
    style_close(&p->style);
    style_open(&p->style, "void %s(const struct zl_run *run, i64 phase, i64 block)", p->symbol);
    declare_symbols(p);
    declare_parameters(p);
    declare_rooms(p);
    program_locals(p, p->kernel->body);
    each_phase(p, false);
    style_close(&p->style);
}

// Writes the row functions before the functions that call them.
static bool put_together(struct text *out, struct program *p, const struct text *text) {
    if (p->rows && !p->row_text.failed)
        text_add(out, "#include \"vec/vec.h\"\n\n%s", p->row_text.data);
    if (!text->failed && text->data)
        text_bytes(out, text->data, text->len);
    return !p->row_text.failed && !text->failed;
}

bool program_write(struct program *p, struct style *style, void (*write)(struct program *p)) {
    struct plan plan = {.kernel = p->kernel};
    struct text text = {0};
    size_t ids = (size_t)p->kernel->ids + 1;
    p->style = *style;
    p->style.plan = &plan;
    p->style.out = &text;
    p->seen = memory_zero(sizeof *p->seen * ids);
    p->moving = memory_zero(sizeof *p->moving * ids);
    p->of = plan.of = memory_zero(sizeof *plan.of * ids);
    p->declared = memory_zero(sizeof *p->declared * (size_t)(p->kernel->names + 1));
    bool good = p->seen && p->moving && p->of && p->declared;
    if (good)
        write(p);
    good = good && !p->failed && put_together(style->out, p, &text);
    memory_free(p->seen);
    memory_free(p->moving);
    memory_free(p->of);
    memory_free(p->declared);
    text_free(&p->row_text);
    text_free(&text);
    return good;
}

bool program_render(struct style *style, const struct tile_kernel *kernel, const char *symbol) {
    struct program p = {.kernel = kernel, .symbol = symbol, .checks = setting_flag(SETTING_CHECK)};
    return program_write(&p, style, functions);
}
