// group.c - renders kernels as code of one thread: the dialects `opencl_tiles`, `opencl_cpu_tiles`,
// `cuda_tiles`, `hip_tiles`.
//
// The text has a function for each grid of the kernel, NAME_0, NAME_1, ..., launched in that order with the
// same arguments: parameters (buffers as addresses, scalars and tables as values), memory outside of all
// groups, sizes, and, if the kernel has assertions, zl_status, which receives the line of one that fails. The
// groups of a launch are numbered along one axis; render_launches returns their number and their threads.

#include "render/gpu_c/group.h"

#include <inttypes.h>
#include <stdio.h>

static const struct group_words *words_of(const struct program *p) {
    return p->style.dialect->words;
}

const char *render_group_space(const struct program *p, const struct tile_buffer *b) {
    return b->memory == TILE_REGISTER ? ""
           : b->memory == TILE_SHARED ? words_of(p)->shared
                                      : words_of(p)->global;
}

// Simple statements -----------------------------------------------------------------------------------------

static void print(struct program *p, const struct tile_stmt *s) {
    struct text *out = p->style.out;
    struct text format = {0};
    text_add(&format, "%s: ", p->kernel->name);
    for (const char *at = s->message ? s->message : ""; *at; at++)
        text_add(&format, *at == '%' ? "%%%%" : "%c", *at);
    text_add(&format, s->value ? " %%g\n" : "\n");
    text_add(out, "%*sprintf(", 4 * p->style.indent, "");
    program_quoted(out, format.data);
    text_free(&format);
    if (s->value && tile_type_is_half(s->value->type))
        program_text(p, &s->value, ", (ZL_WIDE)zl_f32_of_%s(@)", tile_type_name(s->value->type));
    else if (s->value)
        program_text(p, &s->value, ", (ZL_WIDE)(@)");
    text_add(out, ");\n");
}

// The thread continues after a failed assertion, since the others of its group wait for it at barriers.
static void message(struct program *p, const struct tile_stmt *s) {
    program_open(p, s, 0, NULL);
    if (s->kind == TILE_PRINT)
        print(p, s);
    else {
        program_line(p, &s->mask, "if (!@)");
        style_line(&p->style, "    ZL_FAIL(%d);", MAX_OF(s->place.line, 1));
    }
    style_close(&p->style);
}

// One access ------------------------------------------------------------------------------------------------

static void vector_place(struct program *p, const struct tile_region *r, int bytes, bool is_read) {
    text_add(p->style.out, "(%s%szl_%d *)&", is_read ? "const " : "", render_group_space(p, r->buffer),
             bytes);
    program_element(p, r->buffer, r->origin);
}

// Writes the place where a vector is stored. In the kernel's memory the index counts vectors: from the
// address of an element, nvcc does not always see that the words of a vector are contiguous, and then stores
// them one by one.
static void vector_target(struct program *p, const struct tile_region *r, int bytes) {
    const struct tile_buffer *b = r->buffer;
    if (b->memory == TILE_REGISTER || b->memory == TILE_SHARED) {
        text_add(p->style.out, "*");
        vector_place(p, r, bytes, false);
        return;
    }
    int last = b->ndim - 1;
    text_add(p->style.out, "((%szl_%d *)(b%d + ", render_group_space(p, b), bytes, b->id);
    program_offset(p, b, r->origin, 0, last);
    text_add(p->style.out, "))[(u64)(");
    program_offset(p, b, r->origin, last, last + 1);
    text_add(p->style.out, ") / %d]", bytes / tile_type_bytes(b->type));
}

static int run_bytes(const struct tile_region *r) {
    return (int)pass_number(r->extent[r->buffer->ndim - 1]) * tile_type_bytes(r->buffer->type);
}

// Writes an asynchronous copy. Where `mask` is not NULL and is false, it stores zeros.
static void async_copy(struct program *p, const struct tile_stmt *s, expr mask) {
    int bytes = run_bytes(&s->region[1]);
    text_add(p->style.out, "%*szl_async_%s%d(", 4 * p->style.indent, "", mask ? "or_zero_" : "", bytes);
    vector_place(p, &s->region[1], bytes, false);
    text_add(p->style.out, ", ");
    vector_place(p, &s->region[0], bytes, true);
    program_text(p, &mask, mask ? ", @);\n" : ");\n");
}

static void vector_copy(struct program *p, const struct tile_stmt *s) {
    struct text *out = p->style.out;
    const struct tile_buffer *from = s->region[0].buffer;
    int bytes = run_bytes(&s->region[1]);
    program_open(p, s, 0, NULL);
    if (s->is_async)
        async_copy(p, s, NULL);
    else {
        int item = tile_type_bytes(from->type);
        bool is_packed = from->memory == TILE_REGISTER && item < 4, is_pairs = s->is_rounded && item == 2;
        bool is_renewed = from == s->region[1].buffer;
        bool loads = program_is_once(s, from), stores = program_is_once(s, s->region[1].buffer);
        text_add(out, "%*s%s", 4 * p->style.indent, "", stores ? "ZL_STORE_ONCE(" : "");
        vector_target(p, &s->region[1], bytes);
        text_add(out, stores ? ", " : " = ");
        text_add(out, loads        ? "ZL_LOAD_ONCE(*"
                      : is_renewed ? "zl_renewed(*"
                      : is_packed  ? (is_pairs ? "zl_pairs(*" : "zl_words(*")
                                   : "*");
        vector_place(p, &s->region[0], bytes, true);
        text_add(out, "%s%s;\n", loads || is_packed || is_renewed ? ")" : "", stores ? ")" : "");
    }
    style_close(&p->style);
}

static bool is_vector(const struct tile_stmt *s, enum tile_stmt_kind kind) {
    return s && s->kind == kind && s->loop == TILE_VECTOR && !s->next;
}

// Writes a masked asynchronous copy that stores zeros where the mask is false, as one instruction. Returns
// false if the statement is not such a copy.
static bool copy_or_zero(struct program *p, const struct tile_stmt *s) {
    const struct tile_stmt *copy = s->body;
    if (!is_vector(copy, TILE_COPY) || !copy->is_async || !is_vector(s->other, TILE_FILL))
        return false;
    program_open(p, copy, 1, &s->mask);
    async_copy(p, copy, s->mask);
    style_close(&p->style);
    return true;
}

static bool only_copies(const struct tile_stmt *s) {
    for (; s; s = s->next) {
        bool is_access = s->kind == TILE_FILL || (s->kind == TILE_COPY && s->is_async);
        bool is_order = s->kind == TILE_WAIT && s->keep == TILE_COMMIT;
        bool is_around =
            (s->kind == TILE_IF || s->kind == TILE_FOR) && only_copies(s->body) && only_copies(s->other);
        if (!is_access && !is_order && !is_around)
            return false;
    }
    return true;
}

static bool has_later_product(const struct tile_stmt *s) {
    for (s = s->next; s; s = s->next)
        if (s->kind == TILE_GEMM)
            return true;
    return false;
}

// Postpones copies before an asynchronous product, so that they are issued while it runs, if another product
// comes before they are needed. Without asynchronous products (ZL_WARPS) they stay before it.
static bool copies_ahead(struct program *p, const struct tile_stmt *s) {
    if (!s->next || !has_later_product(s->next) || s->next->kind != TILE_GEMM ||
        !render_group_gemm_runs_on(s->next) || !only_copies(s->body) || !only_copies(s->other))
        return false;
    struct tile_stmt alone = *s;
    alone.next = NULL;
    text_add(p->style.out, "#ifndef ZL_WARPS\n");
    program_block(p, &alone);
    text_add(p->style.out, "#endif\n");
    p->ahead = s;
    return true;
}

static void vector_zero(struct program *p, const struct tile_stmt *s) {
    int bytes = run_bytes(&s->region[1]);
    program_open(p, s, 0, NULL);
    text_add(p->style.out, "%*s", 4 * p->style.indent, "");
    vector_target(p, &s->region[1], bytes);
    text_add(p->style.out, " = ZL_ZERO_%d;\n", bytes);
    style_close(&p->style);
}

// Memory and order ------------------------------------------------------------------------------------------

// Declares a view: the same memory under another name and element type, which may alias it.
static void declare_view(struct program *p, const struct tile_buffer *b) {
    const struct tile_buffer *memory = tile_memory_of(b);
    const char *constant = memory->parameter >= 0 && !memory->is_output ? "const " : "";
    style_line(&p->style, "typedef %s view%d __attribute__((may_alias));", program_memory(b->type), b->id);
    style_line(&p->style, "%s%sview%d *const b%d = (%s%sview%d *)b%d;", render_group_space(p, memory),
               constant, b->id, b->id, render_group_space(p, memory), constant, b->id, memory->id);
    program_strides(p, b);
}

static void alloc(struct program *p, const struct tile_stmt *s) {
    const struct tile_buffer *b = s->buffer;
    int64_t count = program_elements(b);
    if (b->base && !(tile_is_known_at_launch(b) && tile_is_known_at_launch(b->base)))
        program_fail(p, s, "the size of a view follows from the sizes of arguments: ", b->text);
    if (b->base && b->memory == TILE_REGISTER)
        declare_view(p, b);
    if (b->memory == TILE_SHARED || b->base)
        return; // others are declared at the beginning of the function
    if (count < 0 || b->stride)
        program_fail(p, s, "the size of memory of a thread must be a number, without strides: ", b->text);
    else if (program_size(b) < 0 || program_size(b) > PROGRAM_STACK)
        program_fail(p, s, "the memory of a thread is more than 4 MiB with ", b->text);
    else {
        text_add(p->style.out, "%*s%s b%d[%" PRId64 "]", 4 * p->style.indent, "", program_memory(b->type),
                 b->id, MAX_OF(count * (tile_type_is_complex(b->type) ? 2 : 1), 1));
        text_add(p->style.out, b->align > 1 ? " __attribute__((aligned(%d)));\n" : ";\n", b->align);
    }
}

static void wait(struct program *p, const struct tile_stmt *s) {
    if (s->keep == TILE_COMMIT)
        style_line(&p->style, "ZL_COMMIT;");
    else
        style_line(&p->style, "ZL_WAIT(%d);", s->keep);
}

// Writes a shuffle within a subgroup, as pass_threads leaves it. Values of less than 32 bits are shuffled as
// 32-bit words.
static void shuffle(struct program *p, const struct tile_stmt *s) {
    static const char *const word[] = {"XOR", "UP", "FROM"};
    const char *type = tile_type_name(s->old->type);
    program_open(p, s, 0, NULL);
    program_line(p, (expr[]){s->value, s->step}, "x%d = (%s)ZL_SHUFFLE_%s((%s)@, (u32)@, %du);", s->old->id,
                 type, word[s->shuffle], s->old->type.bits < 32 ? "u32" : type, s->threads);
    style_close(&p->style);
}

static bool own(struct program *p, const struct tile_stmt *s) {
    switch (s->kind) {
    case TILE_ALLOC: alloc(p, s); return true;
    case TILE_ASSERT:
    case TILE_PRINT: message(p, s); return true;
    case TILE_COPY: vector_copy(p, s); return true;
    case TILE_FILL: vector_zero(p, s); return true;
    case TILE_IF: return copy_or_zero(p, s) || copies_ahead(p, s);
    case TILE_BARRIER:
        if (s->scope == TILE_CLUSTER)
            style_line(&p->style, s->keep == TILE_ARRIVE  ? "ZL_CLUSTER_ARRIVE;"
                                  : s->keep == TILE_AWAIT ? "ZL_CLUSTER_AWAIT;"
                                                          : "ZL_CLUSTER_ARRIVE; ZL_CLUSTER_AWAIT;");
        else
            style_line(&p->style, p->fences ? "ZL_FENCE; ZL_BARRIER;" : "ZL_BARRIER;");
        return true;
    case TILE_WAIT: wait(p, s); return true;
    case TILE_SHUFFLE: shuffle(p, s); return true;
    case TILE_GEMM: render_group_gemm(p, s); return true;
    default: return false;
    }
}

// Functions -------------------------------------------------------------------------------------------------

static void argument(struct program *p, bool *is_first, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_add(p->style.out, *is_first ? "" : ", ");
    text_add_list(p->style.out, format, list);
    va_end(list);
    *is_first = false;
}

static void arguments(struct program *p) {
    const struct tile_kernel *k = p->kernel;
    const char *space = words_of(p)->global;
    bool is_first = true;
    for (int i = 0; i < k->parameters; i++) {
        const struct tile_parameter *q = &k->parameter[i];
        if (q->is_scalar && tile_type_is_complex(q->scalar->type))
            program_fail(p, NULL, "the target has no complex scalars: ", q->scalar->text);
        else if (q->is_scalar)
            argument(p, &is_first, "%s a%d", program_memory(q->scalar->type), q->scalar->id);
        else if (tile_is_by_value(q))
            argument(p, &is_first, "%sstruct %s_b%d b%d", words_of(p)->table, p->symbol, q->buffer->id,
                     q->buffer->id);
        else
            argument(p, &is_first, "%s%s%s *b%d", space, q->buffer->is_output ? "" : "const ",
                     program_memory(q->buffer->type), q->buffer->id);
    }
    for (const struct tile_stmt *s = k->body; s; s = s->next)
        if (s->kind == TILE_ALLOC && !s->buffer->base)
            argument(p, &is_first, "%s%s *b%d", space, program_memory(s->buffer->type), s->buffer->id);
    for (int i = 0; i < k->symbols; i++)
        argument(p, &is_first, "%s n%d", tile_type_name(k->symbol[i]->type), k->symbol[i]->id);
    if (render_has_status(k))
        argument(p, &is_first, "%si32 *zl_status", space);
}

// Declares a struct for each table, since C cannot pass an array by value.
static void declare_tables(struct program *p) {
    for (int i = 0; i < p->kernel->parameters; i++) {
        const struct tile_parameter *q = &p->kernel->parameter[i];
        if (!q->is_scalar && tile_is_by_value(q))
            text_add(p->style.out, "struct %s_b%d {\n    %s at[%" PRId64 "];\n};\n\n", p->symbol,
                     q->buffer->id, program_memory(q->buffer->type), program_elements(q->buffer));
    }
}

static int64_t shared_bytes_of(const struct tile_buffer *b) {
    int64_t bytes = program_size(b);
    return bytes == 0 ? tile_type_bytes(b->type) : bytes;
}

// far more than any group has; the sum of two fits into 64 bits
static const int64_t SHARED_MOST = INT64_C(1) << 60;

// Calls visit for each shared buffer of a workgroup with its offset; returns the size of all of them, or -1.
static int64_t each_shared(struct program *p, const struct tile_stmt *body, int64_t at,
                           void (*visit)(struct program *, const struct tile_buffer *, int64_t)) {
    for (; body && at >= 0; body = body->next) {
        if (body->kind == TILE_ALLOC && body->buffer->memory == TILE_SHARED) {
            int64_t bytes = body->buffer->base ? 0 : shared_bytes_of(body->buffer),
                    align = MAX_OF(body->buffer->align, 16);
            bool fits = bytes >= 0 && bytes <= SHARED_MOST && at <= SHARED_MOST;
            at = (at + align - 1) / align * align;
            if (visit && fits)
                visit(p, body->buffer, at);
            if (!fits && p)
                program_fail(p, body,
                             bytes < 0 ? "the size of memory of a group must be a number: "
                                       : "the memory of a group is more than 2^60 bytes with ",
                             body->buffer->text);
            at = fits ? at + bytes : -1;
        }
        at = at < 0 ? at : each_shared(p, body->body, at, visit);
        at = at < 0 ? at : each_shared(p, body->other, at, visit);
    }
    return at;
}

static void declare_shared(struct program *p, const struct tile_buffer *b, int64_t at) {
    const char *type = program_memory(b->type);
    if (b->base) {
        declare_view(p, b);
        return;
    }
    if (!words_of(p)->memory)
        style_line(&p->style, "%s%s b%d[%" PRId64 "] __attribute__((aligned(%d)));", words_of(p)->shared,
                   type, b->id, MAX_OF(program_elements(b), 1) * (tile_type_is_complex(b->type) ? 2 : 1),
                   MAX_OF(b->align, 16));
    else
        style_line(&p->style, "%s *const b%d = (%s *)(zl_memory + %" PRId64 ");", type, b->id, type, at);
    program_strides(p, b);
}

// Declares the views inside of a function whose memory is not the function's own: that of parameters and of
// allocations outside of grids.
static void each_views(struct program *p, const struct tile_stmt *body) {
    for (; body; body = body->next) {
        if (body->kind == TILE_ALLOC && body->buffer->base && body->buffer->memory != TILE_SHARED &&
            body->buffer->memory != TILE_REGISTER)
            declare_view(p, body->buffer);
        each_views(p, body->body);
        each_views(p, body->other);
    }
}

static bool has_gemm(const struct tile_stmt *body) {
    return pass_find_kind(body, TILE_GEMM);
}

static void name_block(struct program *p, const struct tile_name *name, const char *value) {
    style_line(&p->style, "const %s j%d = (%s)(%s);", tile_type_name(name->type), name->id,
               tile_type_name(name->type), value);
}

// Writes the coordinates of the block; the first name varies fastest. Blocks of products are ordered in
// panels of eight rows, so that blocks that run together share their operands in cache.
static void name_blocks(struct program *p, const struct tile_stmt *s) {
    int rest = 0;
    style_line(&p->style, "u32 zl_block = (u32)%s;", words_of(p)->block);
    program_extents(p, s);
    if (s->indices > 1 && has_gemm(s->body)) {
        int x = s->name[0]->id, y = s->name[1]->id;
        style_line(&p->style, "const u32 zl_across = (u32)e%d, zl_down = (u32)e%d;", x, y);
        style_line(&p->style, "const u32 zl_plane = zl_block %% (zl_across * zl_down), zl_first = zl_plane / "
                              "(8 * zl_across) * 8;");
        style_line(&p->style, "const u32 zl_rows = zl_down - zl_first < 8 ? zl_down - zl_first : 8;");
        name_block(p, s->name[0], "zl_plane % (8 * zl_across) / zl_rows");
        name_block(p, s->name[1], "zl_first + zl_plane % (8 * zl_across) % zl_rows");
        style_line(&p->style, "zl_block /= zl_across * zl_down;");
        rest = 2;
    }
    for (int i = rest; i < s->indices; i++) {
        struct text value = {0};
        bool is_last = i + 1 == s->indices;
        text_add(&value, is_last ? "zl_block" : "zl_block %% (u32)e%d", s->name[i]->id);
        name_block(p, s->name[i], value.data ? value.data : "");
        text_free(&value);
        if (!is_last)
            style_line(&p->style, "zl_block /= (u32)e%d;", s->name[i]->id);
    }
}

static void function(struct program *p, const struct tile_stmt *grid, int at) {
    const struct tile_stmt *threads = grid->body;
    struct text *out = p->style.out;
    char bounds[32];
    snprintf(bounds, sizeof bounds, grid->resident && words_of(p)->has_resident ? "%d, %d" : "%d",
             grid->threads, grid->resident);
    text_add(out, words_of(p)->function, bounds);
    if (grid->cluster)
        text_add(out, " ZL_CLUSTER(%d)", grid->cluster);
    text_add(out, " %s_%d(", p->symbol, at);
    arguments(p);
    text_add(out, ") {\n");
    p->style.indent = 1;
    p->fences = p->style.dialect->target.multiplies && has_gemm(threads);
    if (words_of(p)->memory && each_shared(p, threads, 0, NULL) > 0)
        style_line(&p->style, "%s", words_of(p)->memory);
    for (int i = 0; i < p->kernel->parameters; i++)
        if (!p->kernel->parameter[i].is_scalar)
            program_strides(p, p->kernel->parameter[i].buffer);
    for (const struct tile_stmt *s = p->kernel->body; s; s = s->next)
        if (s->kind == TILE_ALLOC && s->buffer->base)
            declare_view(p, s->buffer);
        else if (s->kind == TILE_ALLOC)
            program_strides(p, s->buffer);
    each_views(p, threads->body);
    each_shared(p, threads, 0, declare_shared);
    name_blocks(p, grid);
    name_block(p, threads->name[0], words_of(p)->thread);
    program_locals(p, threads->body);
    program_block(p, threads->body);
    style_close(&p->style);
    text_add(out, "\n");
}

static void functions(struct program *p) {
    int at = 0;
    declare_tables(p);
    for (const struct tile_stmt *s = p->kernel->body; s && !p->failed; s = s->next)
        if (s->kind == TILE_GRID)
            function(p, s, at++);
}

bool render_group(struct style *style, const struct tile_kernel *kernel, const char *symbol) {
    struct program p = {.kernel = kernel, .own = own, .symbol = symbol};
    return program_write(&p, style, functions);
}

bool render_has_status(const struct tile_kernel *kernel) {
    return pass_find_kind(kernel->body, TILE_ASSERT);
}

static struct render_launch launch_of(const struct tile_stmt *grid) {
    return (struct render_launch){grid->indices, grid->extent, grid->threads,
                                  each_shared(NULL, grid->body, 0, NULL)};
}

int render_launches(const struct tile_kernel *kernel, struct render_launch *out, int room) {
    int count = 0;
    for (const struct tile_stmt *s = kernel->body; s; s = s->next)
        if (s->kind == TILE_GRID && count++ < room)
            out[count - 1] = launch_of(s);
    return count;
}

bool render_fits(const struct target *target, const struct tile_kernel *kernel) {
    const struct target_group *g = target->group;
    for (const struct tile_stmt *s = g && g->most_threads ? kernel->body : NULL; s; s = s->next) {
        struct render_launch l = s->kind == TILE_GRID ? launch_of(s) : (struct render_launch){0};
        if (l.threads > g->most_threads || l.shared > g->most_shared)
            return error_false(ZL_ERROR_COMPILE,
                               "%s: kernel %s has groups of %d threads and %lld bytes of shared memory; %s "
                               "has %d and %lld at most",
                               target_called(target), kernel->name, l.threads, (long long)l.shared,
                               target->unit, g->most_threads, (long long)g->most_shared);
    }
    return true;
}
