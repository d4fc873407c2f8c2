// statement.c - builds the ordered, structured statements of the current kernel.

#include "tile/tile.h"

#include <string.h>

// A statement whose body is being built.
struct tile_frame {
    struct tile_frame *outer;
    struct tile_stmt *stmt;
    struct tile_stmt **tail; // where the next statement of the enclosing block goes
};

static struct tile_kernel *target(void) {
    struct tile_kernel *kernel = tile_current();
    return kernel && !kernel->failed ? kernel : NULL;
}

static void *give_up(void) {
    if (tile_current())
        tile_current()->failed = true;
    return NULL;
}

// Owning what a statement points to -------------------------------------------------------------------------

static void *copy(struct tile_kernel *kernel, const void *list, int count, size_t size) {
    void *own = arena_alloc(&kernel->arena, (size_t)MAX_OF(count, 1) * size);
    if (own && count)
        memcpy(own, list, (size_t)count * size);
    return own;
}

static bool own_exprs(struct tile_kernel *kernel, expr **list, int count) {
    for (int i = 0; *list && i < count; i++)
        if (!(*list)[i])
            return false;
    return !*list || (*list = copy(kernel, *list, count, sizeof **list));
}

static bool own_names(struct tile_kernel *kernel, const struct tile_name ***list, int count) {
    for (int i = 0; *list && i < count; i++)
        if (!(*list)[i])
            return false;
    return !*list || (*list = copy(kernel, *list, count, sizeof **list));
}

static bool own_region(struct tile_kernel *kernel, struct tile_region *region) {
    if (!region->buffer)
        return true;
    int ndim = region->buffer->ndim;
    return own_exprs(kernel, &region->origin, ndim) && own_exprs(kernel, &region->extent, ndim);
}

static bool own_message(struct tile_kernel *kernel, const char **message) {
    return !*message || (*message = arena_text(&kernel->arena, "%s", *message));
}

static bool own(struct tile_kernel *kernel, struct tile_stmt *s) {
    return own_exprs(kernel, &s->index, s->indices) && own_exprs(kernel, &s->extent, s->indices) &&
           own_names(kernel, &s->name, s->indices) && own_region(kernel, &s->region[0]) &&
           own_region(kernel, &s->region[1]) && own_region(kernel, &s->region[2]) &&
           own_message(kernel, &s->message);
}

// Returns whether a statement has the value, mask, buffer or name that its kind needs. If one of them is
// NULL, building it failed.
static bool is_complete(const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_STORE:
    case TILE_ATOMIC: return s->buffer && s->value && (s->index || !s->indices);
    case TILE_ASSIGN: return s->name && s->value;
    case TILE_ALLOC: return s->buffer;
    case TILE_MAP:
    case TILE_THREAD:
    case TILE_FOR:
    case TILE_GRID: return s->name && s->extent;
    case TILE_IF:
    case TILE_WHILE:
    case TILE_ASSERT: return s->mask;
    case TILE_COPY:
    case TILE_IM2COL:
    case TILE_REDUCE:
    case TILE_SCAN: return s->region[0].buffer && s->region[1].buffer;
    case TILE_SHUFFLE: return s->old && s->value && s->step;
    case TILE_COMMAND: return s->message;
    case TILE_FILL: return s->region[1].buffer && s->value;
    case TILE_GEMM: return s->region[0].buffer && s->region[1].buffer && s->region[2].buffer;
    default: return true;
    }
}

static void set_defaults(struct tile_stmt *s) {
    if ((s->kind == TILE_FOR || s->kind == TILE_ASSIGN) && !s->indices)
        s->indices = 1;
    if (s->kind == TILE_FOR && !s->begin)
        s->begin = tile_const_int(s->name[0]->type, 0);
    if (s->kind == TILE_FOR && !s->step)
        s->step = tile_const_int(s->name[0]->type, 1);
}

// Appending -------------------------------------------------------------------------------------------------

struct tile_stmt *tile_append(struct tile_stmt stmt) {
    struct tile_kernel *kernel = target();
    if (!kernel || !is_complete(&stmt))
        return give_up();
    set_defaults(&stmt);
    struct tile_stmt *s = kernel->failed ? NULL : arena_alloc(&kernel->arena, sizeof *s);
    if (!s || !own(kernel, &stmt))
        return give_up();
    *s = stmt;
    s->next = NULL;
    *kernel->tail = s;
    kernel->tail = &s->next;
    return s;
}

struct tile_stmt *tile_store(const struct tile_buffer *buffer, int indices, const expr *index, expr value,
                             expr mask) {
    return tile_append((struct tile_stmt){.kind = TILE_STORE,
                                          .buffer = buffer,
                                          .indices = indices,
                                          .index = (expr *)index,
                                          .value = value,
                                          .mask = mask});
}

struct tile_stmt *tile_command(const char *function, int arguments, const expr *argument) {
    if (arguments > TILE_COMMAND_ARGUMENTS) {
        error_set(ZL_ERROR_VALUE, "tile_command: %s has %d arguments: %d at most", function, arguments,
                  TILE_COMMAND_ARGUMENTS);
        return give_up();
    }
    return tile_append((struct tile_stmt){
        .kind = TILE_COMMAND, .message = function, .indices = arguments, .index = (expr *)argument});
}

struct tile_stmt *tile_shuffle(const struct tile_name *to, enum tile_shuffle how, expr value, expr step,
                               int threads) {
    return tile_append((struct tile_stmt){
        .kind = TILE_SHUFFLE, .old = to, .shuffle = how, .value = value, .step = step, .threads = threads});
}

struct tile_stmt *tile_assign(const struct tile_name *name, expr value) {
    if (!name)
        return give_up();
    return tile_append((struct tile_stmt){.kind = TILE_ASSIGN, .name = &name, .value = value});
}

// Bodies ----------------------------------------------------------------------------------------------------

struct tile_stmt *tile_open(struct tile_stmt stmt) {
    stmt.body = stmt.other = NULL;
    struct tile_kernel *kernel = target();
    struct tile_frame *frame = kernel ? arena_alloc(&kernel->arena, sizeof *frame) : NULL;
    struct tile_stmt *s = frame ? tile_append(stmt) : NULL;
    if (!s)
        return give_up();
    *frame = (struct tile_frame){kernel->open, s, kernel->tail};
    kernel->open = frame;
    kernel->tail = &s->body;
    return s;
}

struct tile_stmt *tile_open_map(int names, const struct tile_name *const *name, const expr *extent) {
    return tile_open((struct tile_stmt){.kind = TILE_MAP,
                                        .indices = names,
                                        .name = (const struct tile_name **)name,
                                        .extent = (expr *)extent});
}

struct tile_stmt *tile_open_for(const struct tile_name *name, expr begin, expr end, expr step,
                                enum tile_loop loop) {
    if (!name || !end)
        return give_up();
    return tile_open((struct tile_stmt){.kind = TILE_FOR,
                                        .indices = 1,
                                        .name = &name,
                                        .extent = &end,
                                        .begin = begin,
                                        .step = step,
                                        .loop = loop});
}

struct tile_stmt *tile_open_if(expr mask) {
    return tile_open((struct tile_stmt){.kind = TILE_IF, .mask = mask});
}

void tile_else(void) {
    struct tile_kernel *kernel = target();
    if (!kernel)
        return;
    if (kernel->open && kernel->open->stmt->kind == TILE_IF) {
        kernel->tail = &kernel->open->stmt->other;
        return;
    }
    error_set(ZL_ERROR_VALUE, "tile: else without an if in kernel '%s'", kernel->name);
    give_up();
}

void tile_close(void) {
    struct tile_kernel *kernel = target();
    if (!kernel)
        return;
    if (kernel->open) {
        kernel->tail = kernel->open->tail;
        kernel->open = kernel->open->outer;
        return;
    }
    error_set(ZL_ERROR_VALUE, "tile: nothing is open to close in kernel '%s'", kernel->name);
    give_up();
}

struct tile_stmt *tile_take_body(void) {
    struct tile_kernel *kernel = tile_current();
    if (!kernel)
        return NULL;
    struct tile_stmt *body = kernel->body;
    kernel->body = NULL;
    kernel->tail = &kernel->body;
    kernel->open = NULL;
    return body;
}

// Reading ---------------------------------------------------------------------------------------------------

static void add(expr *out, int *count, expr e) {
    if (e)
        out[(*count)++] = e;
}

static void add_list(expr *out, int *count, const expr *list, int len) {
    for (int i = 0; list && i < len; i++)
        add(out, count, list[i]);
}

int tile_stmt_exprs(const struct tile_stmt *s, expr *out) {
    int count = 0;
    add_list(out, &count, s->index, s->indices);
    add_list(out, &count, s->extent, s->indices);
    add(out, &count, s->value);
    add(out, &count, s->mask);
    add(out, &count, s->begin);
    add(out, &count, s->step);
    for (int i = 0; i < 3; i++) {
        int ndim = s->region[i].buffer ? s->region[i].buffer->ndim : 0;
        add_list(out, &count, s->region[i].origin, ndim);
        add_list(out, &count, s->region[i].extent, ndim);
    }
    if (s->kind == TILE_ALLOC) {
        add_list(out, &count, s->buffer->shape, s->buffer->ndim);
        add_list(out, &count, s->buffer->stride, s->buffer->ndim);
    }
    return count;
}

const char *tile_stmt_name(enum tile_stmt_kind kind) {
    static const char *const name[] = {"store", "assignment", "allocation", "map",     "loop",    "if",
                                       "while", "break",      "grid",       "copy",    "fill",    "reduce",
                                       "scan",  "gemm",       "atomic",     "wait",    "barrier", "assert",
                                       "print", "im2col",     "thread",     "shuffle", "command"};
    return (size_t)kind < COUNT(name) ? name[kind] : "?";
}

static bool breaks(const struct tile_stmt *s) {
    for (; s; s = s->next)
        if (s->kind == TILE_BREAK || (s->kind == TILE_IF && (breaks(s->body) || breaks(s->other))))
            return true;
    return false;
}

static bool meets(const struct tile_stmt *s) {
    for (; s; s = s->next)
        if (s->kind == TILE_BARRIER || s->kind == TILE_SHUFFLE || meets(s->body) || meets(s->other) ||
            (s->kind == TILE_ALLOC && s->buffer->memory == TILE_SHARED && !s->buffer->base))
            return true;
    return false;
}

bool tile_is_meeting(const struct tile_stmt *s) {
    struct tile_stmt alone = *s;
    alone.next = NULL;
    return meets(&alone) || breaks(&alone);
}

const char *tile_combine_word(const struct tile_stmt *s) {
    if (s->absolute)
        return s->combine == TILE_MAX ? "absmax" : "abssum";
    return tile_op_name(s->combine);
}
