// threads.c - generates the code of one thread from a kernel, for targets that run workgroups of threads.
//
// Afterwards the kernel is a list of grids, launched one after the other. The body of each is one `thread`:
// the code of a thread of the workgroup, with barriers where threads wait for each other. Statements outside
// of grids get grids of their own: a map, copy, fill, reduction, scan or product one over its elements or
// rows, others one of a single workgroup.

#include "pass/threads.h"

#include <string.h>

static const struct tile_type u32 = {TILE_UINT, 32, 1};

expr thread_number(int64_t value) {
    return tile_const_int(u32, value);
}

void thread_barrier(void) {
    tile_append((struct tile_stmt){.kind = TILE_BARRIER, .scope = TILE_GROUP});
}

void thread_meet(int half) {
    tile_append((struct tile_stmt){.kind = TILE_BARRIER, .scope = TILE_CLUSTER, .keep = half});
}

// Statements of a block -------------------------------------------------------------------------------------

// Returns strides with which rows are padded to target_row_bytes.
static expr *padded_strides(const struct target *target, const struct tile_buffer *b) {
    struct tile_kernel *kernel = tile_current();
    expr *stride = kernel ? arena_alloc(&kernel->arena, sizeof *stride * (size_t)b->ndim) : NULL;
    int64_t next = 1, bytes = tile_type_bytes(b->type);
    for (int i = b->ndim - 1; stride && i >= 0; i--) {
        int64_t size = pass_number(b->shape[i]);
        stride[i] = box_number(next);
        next *= i < b->ndim - 1 ? size : target_row_bytes(target, size * bytes) / bytes;
    }
    return stride;
}

// Allocates a buffer in shared memory. Rows that matrix instructions read are placed so that eight of them
// have no bank in common: by a swizzle or, in SPIR-V, which has none, by padding between rows.
static void alloc_shared(struct group *g, const struct tile_buffer *b) {
    struct holding *h = &g->of[b->id];
    if (g->cluster > 1) {
        g->failed = !error_false(ZL_ERROR_COMPILE,
                                 "'%s' is no tile of registers, and a cluster has no others", b->text);
        return;
    }
    if (h->now) // since it lent its memory
        return;
    if (h->lender)
        alloc_shared(g, h->lender);
    struct tile_buffer *now = h->lender
                                  ? tile_view(b->text, b->type, thread_now(g, h->lender), b->ndim, b->shape)
                                  : tile_alloc(b->text, b->type, TILE_SHARED, b->ndim, b->shape);
    if (!now)
        return;
    now->stride = b->stride;
    now->align = h->lends ? 1024 : MAX_OF(b->align, 16); // enough for any borrower
    int64_t row = b->ndim ? pass_number(b->shape[b->ndim - 1]) * tile_type_bytes(b->type) : 0;
    int64_t rows = b->ndim > 1 ? pass_number(b->shape[b->ndim - 2]) : 0;
    bool is_even = layout_is_power(row) && row >= 32 &&
                   rows * row % (8 * MAX_OF(row, 128)) == 0; // so is each matrix of a stack
    if (h->is_operand && is_even && !h->has_view && !h->lender && !h->lends && g->target->spirv)
        now->stride = padded_strides(g->target, b);
    else if (h->is_operand && is_even && !h->has_view && !g->target->spirv) {
        now->swizzle = 3;
        now->align = 1024;
    }
    h->now = now;
}

static void alloc(struct group *g, const struct tile_stmt *s) {
    struct holding *h = &g->of[s->buffer->id];
    if (s->buffer->base) {
        h->now = tile_view(s->buffer->text, s->buffer->type, thread_now(g, s->buffer->base), s->buffer->ndim,
                           s->buffer->shape);
    } else if (h->how == HELD_SHARED) {
        alloc_shared(g, s->buffer);
    } else if (h->how == HELD_IN_REGISTERS) {
        expr shape[2] = {box_number(1), box_number(h->is_known ? layout_registers(&h->layout) : 1)};
        h->now = tile_alloc(s->buffer->text, s->buffer->type, TILE_REGISTER, 2, shape);
    } else
        h->now = tile_append(*s) ? s->buffer : NULL;
}

// Has one thread execute a statement, or every thread if each has a buffer of its own.
static void by_first(struct group *g, const struct tile_stmt *s) {
    bool is_own = (s->kind == TILE_STORE || s->kind == TILE_ATOMIC) && thread_is_private(g, s->buffer);
    expr is_first = is_own ? NULL : EQ(g->thread, thread_number(0));
    box_open_if(is_first);
    thread_alone(g, s);
    box_close_if(is_first);
}

// Has one thread execute an atomic and tell the old value to all threads, through shared memory.
static void atomic_by_first(struct group *g, const struct tile_stmt *s) {
    expr one[2] = {box_number(1), box_number(1)}, zero[2] = {box_number(0), box_number(0)};
    struct tile_buffer *told = tile_alloc("told", s->old->type, TILE_SHARED, 2, one);
    thread_barrier();
    tile_open_if(EQ(g->thread, thread_number(0)));
    thread_alone(g, s);
    if (told)
        tile_store(told, 2, zero, tile_name_value(s->old, TILE_LOCAL), NULL);
    tile_close();
    thread_barrier();
    tile_assign(s->old, told ? tile_load(told, 2, zero, NULL, NULL) : NULL);
}

static void with_body(struct group *g, const struct tile_stmt *s) {
    bool is_loop = s->kind != TILE_IF || g->cluster > 1;
    thread_alone(g, s);
    g->loops += is_loop;
    pass_emit_bodies(s, thread_block, g);
    g->loops -= is_loop;
}

static void wait(struct group *g, const struct tile_stmt *s, int keep) {
    if (g->target->group->has_async)
        tile_append((struct tile_stmt){.kind = TILE_WAIT, .token = s->token, .keep = keep});
}

// Ends a group of copies after an asynchronous statement. If the statement was executed synchronously, the
// group is empty, but waits count it all the same.
static void commit(struct group *g, const struct tile_stmt *s) {
    if (s->is_async)
        wait(g, s, TILE_COMMIT);
}

// Returns whether a cluster can execute a statement, with an error if not: its workgroups share the results
// of reductions, but no memory.
static bool suits_cluster(const struct tile_stmt *s) {
    bool shares = s->kind == TILE_THREAD || s->kind == TILE_SCAN || s->kind == TILE_GEMM ||
                  s->kind == TILE_BARRIER || (s->kind == TILE_ATOMIC && s->old);
    return !shares ||
           error_false(ZL_ERROR_COMPILE, "a block of a cluster has no %s", tile_stmt_name(s->kind));
}

static void one(struct group *g, const struct tile_stmt *s) {
    map_free(&g->rewritten); // for the points of the statement before
    if (g->cluster > 1 && !suits_cluster(s)) {
        g->failed = true;
        return;
    }
    if (thread_is_spread(s)) {
        (s->kind == TILE_THREAD ? thread_code : thread_map)(g, s);
        return;
    }
    switch (s->kind) {
    case TILE_ALLOC: alloc(g, s); return;
    case TILE_COPY:
        thread_copy(g, s);
        commit(g, s);
        return;
    case TILE_FILL: thread_fill(g, s); return;
    case TILE_REDUCE: thread_reduce(g, s); return;
    case TILE_SCAN: thread_scan(g, s); return;
    case TILE_GEMM:
        thread_gemm(g, s);
        commit(g, s);
        return;
    case TILE_ATOMIC:
        if (s->old && !thread_is_private(g, s->buffer))
            atomic_by_first(g, s);
        else
            by_first(g, s);
        return;
    case TILE_STORE:
    case TILE_ASSERT:
    case TILE_PRINT: by_first(g, s); return;
    case TILE_FOR:
    case TILE_IF:
    case TILE_WHILE: with_body(g, s); return;
    case TILE_WAIT: wait(g, s, s->keep); return;
    case TILE_BARRIER: thread_barrier(); return;
    default: thread_alone(g, s); return;
    }
}

void thread_block(void *group, const struct tile_stmt *body) {
    struct group *g = group;
    for (; body && !g->failed && tile_current() && !tile_current()->failed; body = body->next)
        one(g, body);
}

// Grids -----------------------------------------------------------------------------------------------------

static bool group_open(struct group *g, const struct tile_stmt *body) {
    struct tile_kernel *kernel = tile_current();
    if (!kernel)
        return false;
    g->body = body;
    g->buffers = kernel->buffers;
    g->ids = kernel->ids;
    g->of = memory_zero(sizeof *g->of * (size_t)(g->buffers + 1));
    g->seen = memory_zero(sizeof *g->seen * (size_t)(g->ids + 1));
    return g->of && g->seen && fragments_place(g);
}

static void group_close(struct group *g) {
    map_free(&g->rewritten);
    memory_free(g->of);
    memory_free(g->seen);
}

// Opens the code of a thread. `rank` is the number of the workgroup in its cluster; NULL: there is no
// cluster. Workgroups of a cluster say that they have begun, because only then others can write to their
// memory.
static void open_threads(struct group *g, const struct tile_name *rank) {
    expr count = box_number(g->threads / g->cluster);
    const struct tile_name *thread = tile_index("t", count);
    tile_open((struct tile_stmt){.kind = TILE_THREAD, .indices = 1, .name = &thread, .extent = &count});
    g->thread = thread ? tile_cast(u32, box_point(thread)) : NULL;
    if (!rank)
        return;
    g->thread = ADD(MUL(tile_cast(u32, box_point(rank)), tile_cast(u32, count)), g->thread);
    thread_meet(TILE_ARRIVE);
}

// Generates a grid. `points` is the number of points of a flat grid whose points are divided among all
// threads; NULL: the grid keeps its extent.
static bool emit_grid(const struct target *target, const struct tile_stmt *grid, struct tile_stmt *body,
                      bool is_flat, expr points) {
    const struct tile_stmt *code = pass_find_kind(body, TILE_THREAD);
    int threads = grid->threads ? grid->threads : code ? (int)pass_number(code->extent[0]) : 0;
    struct group g = {.target = target,
                      .threads = threads ? threads : target->group->threads,
                      .cluster = MAX_OF(MIN_OF(grid->cluster, target->group->cluster), 1),
                      .is_flat = is_flat,
                      .each = 1};
    struct tile_stmt next = *grid;
    const struct tile_name *name[TILE_DIMS];
    expr extent[TILE_DIMS];
    next.threads = g.threads;
    next.cluster = g.cluster > 1 ? g.cluster : 0;
    if (next.cluster) { // the workgroups of a cluster are consecutive
        extent[0] = box_number(g.cluster);
        name[0] = tile_index("rank", extent[0]);
        memcpy(name + 1, grid->name, sizeof *name * (size_t)grid->indices);
        memcpy(extent + 1, grid->extent, sizeof *extent * (size_t)grid->indices);
        next.indices++;
        next.name = name;
        next.extent = extent;
        g.threads *= g.cluster;
    }
    bool good = group_open(&g, body);
    if (good && points && thread_is_spread(body)) {
        bool is_sure;
        g.each = thread_map_run(&g, body, &is_sure);
        points = box_ceil_divide(points, g.threads * g.each);
        next.extent = &points;
    }
    if (good) {
        overlay_share(&g);
        barriers_place(&g, &body);
        tile_open(next);
        if (is_flat)
            g.flat = box_point(grid->name[0]);
        open_threads(&g, next.cluster ? name[0] : NULL);
        thread_block(&g, body);
        if (next.cluster && !g.have_begun)
            thread_meet(TILE_AWAIT);
        if (g.loose.s)
            g.failed = !error_false(ZL_ERROR_COMPILE, "no sum comes after the loose maximum '%s'",
                                    g.loose.s->region[1].buffer->text);
        tile_close();
        tile_close();
    }
    group_close(&g);
    return good && !g.failed;
}

// Generates a grid of `blocks` workgroups for statements outside of all grids. `threads` is the size of its
// workgroups if it is flat, else 0.
static bool new_grid(const struct target *target, struct tile_stmt *body, expr blocks, int threads,
                     expr points) {
    const struct tile_name *name = tile_index("group", blocks);
    struct tile_stmt grid = {.kind = TILE_GRID,
                             .indices = 1,
                             .name = &name,
                             .extent = &blocks,
                             .threads = threads,
                             .place = body->place};
    return name && emit_grid(target, &grid, body, threads, points);
}

// Statements outside of grids -------------------------------------------------------------------------------

// Returns the size of a flat grid, in elements, or in rows of reductions and scans. Each element belongs to a
// thread and each row of a reduction to a workgroup; thread_scan.c says to whom a row of a scan belongs.
static expr flat_count(const struct tile_stmt *s) {
    struct box b = {0};
    int without = s->kind == TILE_REDUCE || s->kind == TILE_SCAN ? s->axis : -1;
    if (thread_is_spread(s)) {
        b.axes = s->indices;
        memcpy(b.size, s->extent, sizeof *b.size * (size_t)s->indices);
    } else if (s->kind == TILE_GEMM) {
        const struct tile_region *a = &s->region[0], *c = &s->region[1];
        b.axes = 2;
        b.size[0] = box_region_size(a, a->buffer->ndim - 2 + s->transpose[0]);
        b.size[1] = box_region_size(c, c->buffer->ndim - 2 + !s->transpose[1]);
    } else
        b = box_of_stmt(s);
    expr count = box_number(1);
    for (int i = 0; i < b.axes; i++)
        if (i != without)
            count = MUL(count, box_index(b.size[i]));
    return count;
}

static bool is_flat(const struct tile_stmt *s) {
    return thread_is_spread(s) || (s->kind >= TILE_COPY && s->kind <= TILE_GEMM);
}

static bool flat_grid(const struct target *target, struct tile_stmt *s) {
    int threads = s->kind == TILE_SCAN ? thread_scan_threads(target) : target->group->flat_threads;
    expr count = flat_count(s);
    bool is_line = s->kind == TILE_REDUCE || s->kind == TILE_SCAN;
    expr blocks = s->kind == TILE_SCAN     ? thread_scan_blocks(target, s, count)
                  : s->kind == TILE_REDUCE ? count
                                           : box_ceil_divide(count, threads);
    return new_grid(target, s, blocks, threads, is_line ? NULL : count);
}

// Returns whether statements have to stay together, because some may need variables or memory of others.
static bool is_together(const struct tile_stmt *s) {
    for (; s; s = s->next)
        if (s->kind == TILE_ASSIGN || s->kind == TILE_WAIT || s->kind == TILE_BARRIER || s->is_async ||
            s->kind == TILE_ALLOC)
            return true;
    return false;
}

static bool emit_run(const struct target *target, struct tile_stmt *run) {
    bool good = true;
    if (is_together(run))
        return new_grid(target, run, box_number(1), 0, NULL);
    for (struct tile_stmt *s = run, *next; s && good; s = next) {
        next = s->next;
        s->next = NULL;
        good = is_flat(s) ? flat_grid(target, s) : new_grid(target, s, box_number(1), 0, NULL);
    }
    return good;
}

// Memory that is declared outside of grids is the kernel's if a grid, or a statement after one, uses it;
// other memory belongs to the workgroup of its statements. A run is the statements between two grids.
struct outside {
    int *where; // by id of buffer: the run that declares it, from 1 on; -1: the kernel's
    int run, buffers;
};

static void note_access(struct group *g, const struct access *a, void *data) {
    struct outside *o = data;
    (void)g;
    int id = tile_memory_of(a->buffer)->id;
    if (id < o->buffers && o->where[id] > 0 && o->where[id] != o->run)
        o->where[id] = -1;
}

static void find_outside(struct group *g, const struct tile_stmt *body, struct outside *o) {
    for (const struct tile_stmt *s = body; s; s = s->next) {
        o->run += s->kind == TILE_GRID;
        if (s->kind == TILE_ALLOC && !s->buffer->base)
            o->where[s->buffer->id] = s->buffer->memory == TILE_GLOBAL ? -1 : o->run;
        struct tile_stmt alone = *s;
        alone.next = NULL;
        thread_all_accesses(g, &alone, note_access, o);
        o->run += s->kind == TILE_GRID;
    }
}

static bool emit_kernel(const struct target *target, struct tile_stmt *body, const struct outside *o) {
    bool good = true;
    struct tile_stmt *run = NULL, **tail = &run;
    for (struct tile_stmt *s = body, *next; s; s = next) {
        next = s->next;
        s->next = NULL;
        const struct tile_buffer *memory = s->kind == TILE_ALLOC ? tile_memory_of(s->buffer) : NULL;
        if (memory && (memory->parameter >= 0 || o->where[memory->id] < 0)) {
            ((struct tile_buffer *)s->buffer)->memory = TILE_GLOBAL;
            tile_append(*s);
            continue;
        }
        if (s->kind != TILE_GRID) {
            *tail = s;
            tail = &s->next;
        }
        if (run && (s->kind == TILE_GRID || !next)) {
            good = good && emit_run(target, run);
            run = NULL;
            tail = &run;
        }
        if (s->kind == TILE_GRID)
            good = good && emit_grid(target, s, s->body, false, NULL);
    }
    if (run)
        good = good && emit_run(target, run);
    return good;
}

bool pass_threads(struct tile_kernel *kernel, const struct target *target) {
    if (!target->group)
        return true;
    struct group g = {.target = target, .ids = kernel->ids};
    struct outside o = {.run = 1, .buffers = kernel->buffers};
    o.where = memory_zero(sizeof *o.where * (size_t)(o.buffers + 1));
    g.seen = memory_zero(sizeof *g.seen * (size_t)(g.ids + 1));
    tile_resume(kernel);
    struct tile_stmt *body = tile_take_body();
    bool good = o.where && g.seen;
    if (good) {
        find_outside(&g, body, &o);
        good = emit_kernel(target, body, &o);
    }
    tile_suspend();
    memory_free(o.where);
    memory_free(g.seen);
    return good && !kernel->failed;
}
