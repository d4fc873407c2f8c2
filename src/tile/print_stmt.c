// print_stmt.c - prints statements as text.

#include "tile/syntax.h"

#include <stdio.h>
#include <string.h>

static const struct tile_type truth = {TILE_BOOL, 1, 1};

// Parts of statements ---------------------------------------------------------------------------------------

const char *tile_name_text(struct tile_printer *p, const void *object, const char *text) {
    const char *bound = tile_bound_text(p, object, 0);
    return bound ? bound : text;
}

static void print_list(struct tile_printer *p, const expr *list, int count) {
    text_add(&p->out, "[");
    for (int i = 0; i < count; i++) {
        text_add(&p->out, i ? ", " : "");
        tile_print_operand(p, list[i], &p->index_type);
    }
    text_add(&p->out, "]");
}

static void print_element(struct tile_printer *p, const struct tile_stmt *s) {
    text_add(&p->out, "%s", tile_name_text(p, s->buffer, s->buffer->text));
    print_list(p, s->index, s->indices);
}

static void print_region(struct tile_printer *p, const struct tile_region *r) {
    text_add(&p->out, "%s", tile_name_text(p, r->buffer, r->buffer->text));
    if (r->origin)
        print_list(p, r->origin, r->buffer->ndim);
    if (r->extent) {
        text_add(&p->out, " of ");
        print_list(p, r->extent, r->buffer->ndim);
    }
}

static void print_mask(struct tile_printer *p, expr mask) {
    if (!mask)
        return;
    text_add(&p->out, " where ");
    tile_print_operand(p, mask, &truth);
}

// Prints `a: f32[n, 4] stride [4, 1] align 16`.
void tile_print_buffer(struct tile_printer *p, const struct tile_buffer *b, const char *memory) {
    const char *name = tile_name_text(p, b, b->text);
    text_add(&p->out, "%s: %s%s%s", name, memory, *memory ? " " : "", tile_type_name(b->type));
    print_list(p, b->shape, b->ndim);
    if (b->stride) {
        text_add(&p->out, " stride ");
        print_list(p, b->stride, b->ndim);
    }
    if (b->align)
        text_add(&p->out, " align %d", b->align);
    if (b->swizzle)
        text_add(&p->out, " swizzle %d", b->swizzle);
}

// Prints `i in n, j in 128`.
static void print_ranges(struct tile_printer *p, const struct tile_stmt *s) {
    for (int i = 0; i < s->indices; i++) {
        text_add(&p->out, "%s%s in ", i ? ", " : " ", tile_bind(p, s->name[i], 0, s->name[i]->text));
        tile_print_operand(p, s->extent[i], &p->index_type);
    }
}

// Statements with bodies ------------------------------------------------------------------------------------

static void print_body(struct tile_printer *p, const struct tile_stmt *body) {
    text_add(&p->out, " {\n");
    p->indent++;
    tile_print_block(p, body);
    p->indent--;
    tile_print_indent(p);
    text_add(&p->out, "}");
}

static bool is_number(expr e, int64_t value) {
    return e->op == TILE_CONST && tile_type_is_integer(e->type) && tile_value_of(e->type, e->bits).i == value;
}

static void print_for(struct tile_printer *p, const struct tile_stmt *s) {
    const struct tile_type *type = &s->name[0]->type;
    text_add(&p->out, "%s ", tile_loop_word[s->loop]);
    if (s->unroll)
        text_add(&p->out, "%d ", s->unroll);
    text_add(&p->out, "%s", tile_bind(p, s->name[0], 0, s->name[0]->text));
    if (!tile_type_equal(*type, p->index_type))
        text_add(&p->out, ": %s", tile_type_name(*type));
    text_add(&p->out, " in ");
    if (!is_number(s->begin, 0)) {
        tile_print_operand(p, s->begin, type);
        text_add(&p->out, " .. ");
    }
    tile_print_operand(p, s->extent[0], type);
    if (!is_number(s->step, 1)) {
        text_add(&p->out, " step ");
        tile_print_operand(p, s->step, type);
    }
    if (s->stages)
        text_add(&p->out, " stages %d", s->stages);
    print_body(p, s->body);
}

static void print_grid(struct tile_printer *p, const struct tile_stmt *s) {
    text_add(&p->out, "grid");
    print_ranges(p, s);
    if (s->threads)
        text_add(&p->out, ", threads %d", s->threads);
    if (s->cluster)
        text_add(&p->out, ", cluster %d", s->cluster);
    if (s->resident)
        text_add(&p->out, ", resident %d", s->resident);
    print_body(p, s->body);
}

static void print_condition(struct tile_printer *p, const struct tile_stmt *s) {
    text_add(&p->out, "%s ", s->kind == TILE_IF ? "if" : "while");
    tile_print_operand(p, s->mask, &truth);
    print_body(p, s->body);
    if (s->kind == TILE_IF && s->other) {
        text_add(&p->out, " else");
        print_body(p, s->other);
    }
}

// Other statements ------------------------------------------------------------------------------------------

static void print_assign(struct tile_printer *p, const struct tile_stmt *s) {
    const struct tile_name *name = s->name[0];
    const char *bound = tile_bound_text(p, name, 0);
    struct text before = p->out;
    if (bound) {
        text_add(&p->out, "%s = ", bound);
        tile_print_operand(p, s->value, &name->type);
        return;
    }
    // This is a declaration: its value is printed before its name is in scope.
    p->out = (struct text){0};
    tile_print_operand(p, s->value, &name->type);
    struct text value = p->out;
    p->out = before;
    text_add(&p->out, "%s: %s = %s", tile_bind(p, name, 0, name->text), tile_type_name(name->type),
             value.data ? value.data : "");
    p->failed = p->failed || value.failed;
    text_free(&value);
}

static void print_token(struct tile_printer *p, const struct tile_stmt *s) {
    char name[24];
    if (!s->is_async)
        return;
    snprintf(name, sizeof name, "token%d", s->token);
    text_add(&p->out, "%s = ", tile_bind(p, NULL, s->token, name));
}

static void print_copy(struct tile_printer *p, const struct tile_stmt *s) {
    print_token(p, s);
    text_add(&p->out, s->is_async ? "copy_async " : "copy ");
    print_region(p, &s->region[0]);
    text_add(&p->out, " -> ");
    print_region(p, &s->region[1]);
    if (s->value) {
        text_add(&p->out, " else ");
        tile_print_operand(p, s->value, &s->region[0].buffer->type);
    }
    text_add(&p->out, s->is_once ? " once" : "");
}

static void print_gemm(struct tile_printer *p, const struct tile_stmt *s) {
    print_token(p, s);
    text_add(&p->out, s->is_async ? "gemm_async" : "gemm");
    for (int i = 0; i < 2; i++) {
        text_add(&p->out, "%s%s", i ? ", " : " ", s->transpose[i] ? "transpose " : "");
        print_region(p, &s->region[i]);
    }
    text_add(&p->out, " -> ");
    print_region(p, &s->region[2]);
    text_add(&p->out, s->clear ? " clear" : "");
}

static void print_reduce(struct tile_printer *p, const struct tile_stmt *s) {
    text_add(&p->out, "%s %s ", tile_stmt_name(s->kind), tile_combine_word(s));
    print_region(p, &s->region[0]);
    text_add(&p->out, " -> ");
    print_region(p, &s->region[1]);
    text_add(&p->out, " axis %d%s%s%s%s", s->axis, s->kind == TILE_REDUCE && !s->clear ? " accumulate" : "",
             s->reverse ? " reverse" : "", s->exclusive ? " exclusive" : "", s->is_loose ? " loose" : "");
}

static void print_im2col(struct tile_printer *p, const struct tile_stmt *s) {
    text_add(&p->out, "im2col ");
    print_region(p, &s->region[0]);
    text_add(&p->out, " -> ");
    print_region(p, &s->region[1]);
    text_add(&p->out, " at ");
    print_list(p, s->index, 2);
    text_add(&p->out, " window %d stride %d dilation %d pad %d", s->window.size, s->window.stride,
             s->window.dilation, s->window.pad);
}

static void print_quoted(struct text *out, const char *message) {
    text_add(out, "\"");
    for (; *message; message++)
        if (*message == '\n')
            text_add(out, "\\n");
        else
            text_add(out, *message == '"' || *message == '\\' ? "\\%c" : "%c", *message);
    text_add(out, "\"");
}

static void print_command(struct tile_printer *p, const struct tile_stmt *s) {
    if (s->old)
        text_add(&p->out, "%s = ", tile_name_text(p, s->old, s->old->text));
    text_add(&p->out, "command %s(", s->message);
    for (int i = 0; i < s->indices; i++) {
        text_add(&p->out, i ? ", " : "");
        tile_print_operand(p, s->index[i], &p->index_type);
    }
    text_add(&p->out, ")");
}

static void print_message(struct tile_printer *p, const struct tile_stmt *s) {
    if (s->kind == TILE_ASSERT) {
        text_add(&p->out, "assert ");
        tile_print_operand(p, s->mask, &truth);
        text_add(&p->out, s->message ? ", " : "");
    } else {
        text_add(&p->out, "print ");
    }
    if (s->message || s->kind == TILE_PRINT)
        print_quoted(&p->out, s->message ? s->message : "");
    if (s->kind == TILE_PRINT && s->value) {
        text_add(&p->out, ", ");
        tile_print_operand(p, s->value, NULL);
    }
}

static void print_wait(struct tile_printer *p, const struct tile_stmt *s) {
    const char *token = tile_bound_text(p, NULL, s->token);
    text_add(&p->out, "wait %s", token ? token : "?");
    if (s->keep)
        text_add(&p->out, " keep %d", s->keep);
}

static void print_store(struct tile_printer *p, const struct tile_stmt *s) {
    const char *old = s->old ? tile_bound_text(p, s->old, 0) : NULL;
    if (s->old)
        text_add(&p->out, "%s = ", old ? old : tile_bind(p, s->old, 0, s->old->text));
    if (s->kind == TILE_ATOMIC)
        text_add(&p->out, "atomic %s ", tile_op_name(s->combine));
    print_element(p, s);
    text_add(&p->out, s->kind == TILE_ATOMIC ? ", " : " = ");
    tile_print_operand(p, s->value, &s->buffer->type);
    print_mask(p, s->mask);
    text_add(&p->out, s->is_once ? " once" : "");
}

static void print_shuffle(struct tile_printer *p, const struct tile_stmt *s) {
    static const struct tile_type u32 = {TILE_UINT, 32, 1};
    const char *old = tile_bound_text(p, s->old, 0);
    struct text before = p->out;
    p->out = (struct text){0};
    tile_print_operand(p, s->value, old ? &s->old->type : NULL);
    text_add(&p->out, ", ");
    tile_print_operand(p, s->step, &u32);
    struct text operands = p->out;
    p->out = before;
    text_add(&p->out, "%s = shuffle %s %s of %d", old ? old : tile_bind(p, s->old, 0, s->old->text),
             tile_shuffle_word[s->shuffle], operands.data ? operands.data : "", s->threads);
    p->failed = p->failed || operands.failed;
    text_free(&operands);
}

static void print_alloc(struct tile_printer *p, const struct tile_buffer *b) {
    text_add(&p->out, "%s ", b->base ? "view" : tile_memory_word[b->memory]);
    tile_bind(p, b, 0, b->text);
    tile_print_buffer(p, b, "");
    if (b->base)
        text_add(&p->out, " of %s", tile_name_text(p, b->base, b->base->text));
}

static void print_stmt(struct tile_printer *p, const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: print_store(p, s); break;
    case TILE_ASSIGN: print_assign(p, s); break;
    case TILE_SHUFFLE: print_shuffle(p, s); break;
    case TILE_ALLOC: print_alloc(p, s->buffer); break;
    case TILE_MAP:
    case TILE_THREAD:
        text_add(&p->out, s->kind == TILE_MAP ? "map" : "thread");
        print_ranges(p, s);
        print_body(p, s->body);
        break;
    case TILE_FOR: print_for(p, s); break;
    case TILE_IF:
    case TILE_WHILE: print_condition(p, s); break;
    case TILE_GRID: print_grid(p, s); break;
    case TILE_COPY: print_copy(p, s); break;
    case TILE_FILL:
        text_add(&p->out, "fill ");
        print_region(p, &s->region[1]);
        text_add(&p->out, " = ");
        tile_print_operand(p, s->value, &s->region[1].buffer->type);
        break;
    case TILE_REDUCE:
    case TILE_SCAN: print_reduce(p, s); break;
    case TILE_GEMM: print_gemm(p, s); break;
    case TILE_IM2COL: print_im2col(p, s); break;
    case TILE_WAIT: print_wait(p, s); break;
    case TILE_BARRIER: text_add(&p->out, "barrier %s", tile_scope_word[s->scope]); break;
    case TILE_ASSERT:
    case TILE_PRINT: print_message(p, s); break;
    case TILE_COMMAND: print_command(p, s); break;
    case TILE_BREAK: text_add(&p->out, "break"); break;
    }
}

// Blocks ----------------------------------------------------------------------------------------------------

static bool has_body(enum tile_stmt_kind kind) {
    return kind == TILE_MAP || kind == TILE_THREAD || kind == TILE_FOR || kind == TILE_GRID ||
           kind == TILE_IF || kind == TILE_WHILE;
}

// The lets of a statement go out of scope after it; names that it declares stay until the end of the block.
void tile_print_block(struct tile_printer *p, const struct tile_stmt *body) {
    int outside = p->bindings;
    for (const struct tile_stmt *s = body; s; s = s->next) {
        expr root[TILE_STMT_EXPRS];
        int before = p->bindings;
        tile_print_lets(p, tile_stmt_exprs(s, root), root);
        int after = p->bindings;
        tile_print_indent(p);
        print_stmt(p, s);
        text_add(&p->out, "\n");
        int declared = has_body(s->kind) ? 0 : p->bindings - after;
        if (declared && before < after)
            memmove(p->scope + before, p->scope + after, (size_t)declared * sizeof *p->scope);
        p->bindings = before + declared;
    }
    p->bindings = outside;
}
