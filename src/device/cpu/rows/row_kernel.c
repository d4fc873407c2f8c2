// row_kernel.c - compiled kernels for stretches of a row program.
//
// A kernel is built from the stretch's recipe alone, and stored with the recipe as its key. A background
// thread, which exists only while there is work, compiles the kernels. Until a kernel is ready, or if there
// is no compiler, the row kernels run one by one, with bit-identical results.

#include "device/cpu/rows/reduce.h"
#include "device/cpu/rows/row_group.h"
#include "device/cpu/tile/compiler.h"
#include "render/render.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS_MOST = 4096 };

// Recipes ---------------------------------------------------------------------------------------------------

struct writer {
    struct fuse_writer w;
    struct group *g;
    struct stretch *s;
    int8_t in[STRETCH_OPERANDS]; // where each input is, as in struct stretch
    bool mixed;                  // an input is complex, for which kernels cannot tell scalars from runs
};

static enum fuse_form form_of(const struct group *g, int at) {
    if (at < 0)
        return at < -GROUP_TEMPS ? FUSE_ONE : FUSE_VECTOR;
    return g->l.runs >> at & 1 ? FUSE_ONE : g->l.scalar >> at & 1 ? FUSE_SCALAR : FUSE_VECTOR;
}

static int divide(const struct fuse_writer *w, int index) {
    const struct call *c = w->g->call[index];
    enum tile_op row = cpu_row_of(c);
    return row == TILE_DIV && op_has_inverse(c) ? FUSE_BY_INVERSE : (int)row;
}

static int input_of(struct fuse_writer *base, int index, int k, int op) {
    struct writer *w = (struct writer *)base;
    struct fuse_recipe *r = base->r;
    int8_t at = group_row(w->g, index)->at[k + 1];
    zl_dtype dtype = (zl_dtype)fuse_step(base->g, index)->dtype[k + 1];
    enum fuse_form form = form_of(w->g, at);
    (void)op;
    for (int i = 0; i < r->inputs; i++)
        if (w->in[i] == at && fuse_form(r, i) == (int)form && fuse_input_dtype(r, i) == dtype)
            return i;
    if (r->inputs == STRETCH_OPERANDS)
        return -1;
    w->s->has_runs |= form == FUSE_ONE;
    w->mixed |= dtype == ZL_COMPLEX64;
    w->in[r->inputs] = at;
    fuse_set_input(r, r->inputs, (int)form, dtype);
    return r->inputs;
}

// Sets the bytes from one row to the next for each operand.
static void set_lines(const struct group *g, struct stretch *s, const struct fuse_recipe *r) {
    for (int k = 0; k < s->operands; k++) {
        int input = k - r->outputs;
        bool of_lines = input < 0 ? fuse_output_of_lines(r, k) : fuse_form(r, input) == FUSE_ONE;
        bool is_scalar = input >= 0 && fuse_form(r, input) == FUSE_SCALAR;
        zl_dtype dtype = input < 0 ? fuse_output_dtype(r, k) : fuse_input_dtype(r, input);
        s->next[k] = (int32_t)(is_scalar ? 0 : (of_lines ? 1 : g->f.line) * (int64_t)zl_dtype_size(dtype));
    }
}

// Writes the recipe. Returns false if the stretch has too many operands, or operands that kernels do not
// take.
static bool write_recipe(struct group *g, struct stretch *s, struct fuse_recipe *r) {
    struct writer w = {.w = {.g = &g->f,
                             .begin = s->begin,
                             .end = s->end,
                             .operands = STRETCH_OPERANDS,
                             .r = r,
                             .divide = divide,
                             .input = input_of},
                       .g = g,
                       .s = s};
    if (!fuse_write(&w.w) || w.mixed)
        return false;
    for (int i = s->begin; i < s->end; i++)
        if (fuse_is_result(&w.w, i))
            s->at[s->operands++] = group_row(g, i)->at[0];
    memcpy(s->at + s->operands, w.in, (size_t)r->inputs);
    s->operands += r->inputs;
    if (s->reduces)
        set_lines(g, s, r);
    return true;
}

static row_fn *compile(const struct fuse_recipe *r) {
    static const char dialect[] = "c";
    struct text source = {0};
    struct tile_kernel *kernel = fuse_build_map(r);
    row_fn *fn = NULL;
    if (kernel)
        kernel->registers = cpu_level_registers();
    if (kernel && pass_run(kernel, render_target(dialect), NULL) &&
        render_function(&source, kernel, dialect, NULL))
        fn = (row_fn *)cpu_jit(source.data, kernel->name);
    text_free(&source);
    tile_free(kernel);
    return fn;
}

// Keeping ---------------------------------------------------------------------------------------------------

struct row_kernel {
    struct row_kernel *next; // the next one to be compiled
    _Atomic(row_fn *) fn;    // NULL: it is not compiled yet
    int runs;
    bool queued; // it is queued, or was
    struct fuse_recipe recipe;
};

static struct {
    struct lock lock;
    struct map kernels;              // by their recipes
    struct row_kernel *first, *last; // queue of those to be compiled
    bool working;                    // the compiling thread exists
    atomic_uint rests;               // how often it found no work; waiting threads watch it
} kept;

static struct row_kernel *take_queued(void) {
    lock_take(&kept.lock);
    struct row_kernel *k = kept.first;
    kept.first = k ? k->next : NULL;
    kept.working = k;
    lock_give(&kept.lock);
    if (!k) {
        atomic_fetch_add(&kept.rests, 1);
        pool_wake(&kept.rests, INT_MAX);
    }
    return k;
}

void cpu_kernels_settle(void) {
    for (;;) {
        unsigned rests = atomic_load(&kept.rests);
        lock_take(&kept.lock);
        bool working = kept.working;
        lock_give(&kept.lock);
        if (!working)
            return;
        pool_sleep(&kept.rests, rests);
    }
}

void cpu_kernels_stop(void) {
    lock_take(&kept.lock);
    kept.first = NULL;
    lock_give(&kept.lock);
    cpu_kernels_settle();
}

static void *work(void *data) {
    (void)data;
    for (struct row_kernel *k; (k = take_queued());) {
        row_fn *fn = compile(&k->recipe);
        if (!fn) {
            log_line(ZL_LOG_INFO, "a fused kernel was not compiled: %s",
                     zl_error() ? zl_error() : "no reason");
            zl_clear_error();
        }
        atomic_store_explicit(&k->fn, fn, memory_order_release);
    }
    return NULL;
}

static void forget_worker(void) {
    kept.working = false; // a forked child does not have that thread
}

ZL_AT_LOAD {
    fork_guard(&kept.lock);
    fork_call(forget_worker);
}

static void watch_process(void) {
    atexit(cpu_kernels_stop); // finishes the current compilation, so that the next process finds its result
}

// Queues a kernel for compilation, and starts the compiling thread if there is none; if it cannot start,
// nothing is compiled. The caller holds the lock.
static void queue(struct row_kernel *k) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_t thread;
    pthread_once(&once, watch_process);
    k->queued = true;
    k->next = NULL;
    if (kept.first)
        kept.last->next = k;
    else
        kept.first = k;
    kept.last = k;
    if (!kept.working && pthread_create(&thread, NULL, work, NULL) == 0) {
        pthread_detach(thread);
        kept.working = true;
    }
}

static size_t key_bytes(const struct fuse_recipe *r) {
    return offsetof(struct fuse_recipe, row) + sizeof r->row[0] * (size_t)r->rows;
}

static struct row_kernel *new_kernel(const struct fuse_recipe *r) {
    struct row_kernel *k = kept.kernels.count < KERNELS_MOST ? memory_zero(sizeof *k) : NULL;
    if (!k)
        return NULL;
    k->recipe = *r;
    if (map_set(&kept.kernels, r, key_bytes(r), k))
        return k;
    memory_free(k);
    return NULL;
}

// Counts a run of the recipe and returns its compiled kernel, or NULL if there is none yet.
static row_fn *use(const struct fuse_recipe *r, int hot) {
    bool had_error = zl_error();
    lock_take(&kept.lock);
    struct row_kernel *k = map_get(&kept.kernels, r, key_bytes(r));
    if (!k && !(k = new_kernel(r)) && !had_error)
        zl_clear_error(); // the row kernels run instead
    if (k && ++k->runs >= hot && !k->queued)
        queue(k);
    lock_give(&kept.lock);
    return k ? atomic_load_explicit(&k->fn, memory_order_acquire) : NULL;
}

// Stretches -------------------------------------------------------------------------------------------------

// Returns the end of the stretch that begins here: before the next row of another kind, and not after a view.
static int stretch_end(struct group *g, int begin) {
    int end = begin, i = begin;
    for (; i < g->f.end; i++) {
        enum row_kind kind = fuse_row(&g->f, i)->kind;
        if (kind == ROW_ELEMENTS)
            end = i + 1;
        else if (kind != ROW_VIEW)
            break;
    }
    return end;
}

static int rows_of(struct group *g, int begin, int end) {
    int rows = 0;
    for (int i = begin; i < end; i++)
        rows += fuse_row(&g->f, i)->kind != ROW_VIEW;
    return rows;
}

// Returns whether a kernel for rows [begin, index) can also compute the reduction after them: all values must
// be as wide as the accumulator, except for 16-bit floats that are cast to float32 when they are read, and a
// row must be one run of the reduction.
static bool takes_reduction(struct group *g, int begin, int index) {
    const struct reduce_rows *by = &group_row(g, index)->by;
    if (index >= g->f.end || fuse_row(&g->f, index)->kind != ROW_REDUCE ||
        fuse_source(&g->f, index, 0) < begin || by->widen || by->wide != 4 || g->f.line > REDUCE_RUN_MOST)
        return false;
    for (int i = begin; i < index; i++) {
        const struct fuse_step *s = fuse_step(&g->f, i);
        bool is_cast = g->b->call[i]->op->kind == OP_CAST && s->source[0] < begin;
        bool is_fine = zl_dtype_size((zl_dtype)s->dtype[0]) == 4;
        for (int k = 1; k <= s->inputs; k++)
            is_fine &= zl_dtype_size((zl_dtype)s->dtype[k]) == 4 ||
                       (is_cast && tile_type_is_half(tile_type_of((zl_dtype)s->dtype[k])));
        if (!is_fine)
            return false;
    }
    return true;
}

static int wanted_runs(const struct group *g) {
    int64_t runs = setting_number(SETTING_HOT);
    return runs > 0 && g->b->call[g->f.begin]->compiled ? 1 : (int)MIN_OF(runs, INT_MAX);
}

bool row_group_find_kernels(struct group *g) {
    int hot = wanted_runs(g);
    g->stretches = 0;
    for (int i = g->f.begin, end; hot > 0 && i < g->f.end; i = MAX_OF(end, i + 1)) {
        end = fuse_row(&g->f, i)->kind == ROW_ELEMENTS ? stretch_end(g, i) : i;
        bool reduces = end > i && takes_reduction(g, i, end);
        end += reduces;
        if (rows_of(g, i, end) < 2 || g->stretches == (int)COUNT(g->stretch))
            continue;
        struct stretch *s = &g->stretch[g->stretches];
        struct fuse_recipe r;
        *s = (struct stretch){.begin = i, .end = end, .reduces = reduces};
        if (write_recipe(g, s, &r) && (s->fn = use(&r, hot)))
            g->stretches++;
    }
    int first = g->f.begin + group_has_product(g);
    return g->stretches == 1 && g->stretch[0].begin == first && g->stretch[0].end == g->f.end;
}
