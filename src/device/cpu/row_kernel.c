// row_kernel.c - stretches of a row program as compiled kernels.
//
// A recipe says what a stretch computes: it is the key under which its kernel is kept, and all that the kernel is built
// from. Kernels are compiled by a thread that lives while there are some to compile; until then, and where there is no
// compiler, the rows run one by one, with the same bits.

#include "device/cpu/row_group.h"
#include "render/render.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECIPE_WORDS = 512,
    KERNELS_MOST = 4096,
    OF_INPUT = 1 << 8,   // a reference to an input; else to the result of a row
    BY_INVERSE = 1 << 8, // an op that is a division by a constant whose inverse does (op_has_inverse)
};

enum input_form { FORM_VECTOR, FORM_RUNS, FORM_SCALAR };

// Words: inputs, their forms and dtypes; rows, each with op, dtype of the result and references; outputs.
struct recipe {
    int words, rows, inputs, outputs;
    int16_t word[RECIPE_WORDS];
    int16_t input[STRETCH_OPERANDS];  // form | dtype << 4
    int16_t output[STRETCH_OPERANDS]; // rows
};

// Writing --------------------------------------------------------------------------------------------------------

struct writer {
    struct group *g;
    struct stretch *s;
    struct recipe r;
    int8_t in[STRETCH_OPERANDS]; // where inputs are
    bool mixed;                  // a complex scalar cannot be told from a run
};

static void add(struct writer *w, int word) {
    if (w->r.words < RECIPE_WORDS)
        w->r.word[w->r.words] = (int16_t)word;
    w->r.words++;
}

static enum input_form form_of(const struct group *g, int at) {
    if (at < 0)
        return at < -GROUP_TEMPS ? FORM_RUNS : FORM_VECTOR;
    return g->l.runs >> at & 1 ? FORM_RUNS : g->l.scalar >> at & 1 ? FORM_SCALAR : FORM_VECTOR;
}

// A reference to the input at a place, read as dtype.
static int input_at(struct writer *w, int at, int dtype) {
    enum input_form form = form_of(w->g, at);
    int16_t what = (int16_t)((int)form | dtype << 4);
    for (int i = 0; i < w->r.inputs; i++)
        if (w->in[i] == at && w->r.input[i] == what)
            return OF_INPUT | i;
    if (w->r.inputs == STRETCH_OPERANDS)
        return w->r.words = RECIPE_WORDS + 1;
    w->s->has_runs |= form == FORM_RUNS;
    w->mixed |= dtype == ZL_COMPLEX64;
    w->in[w->r.inputs] = (int8_t)at;
    w->r.input[w->r.inputs] = what;
    return OF_INPUT | w->r.inputs++;
}

// A view as another dtype of what the stretch computes: memory would hold the same bits, but a kernel has numbers.
static bool is_bitcast(struct writer *w, int index) {
    return group_row(w->g, index)->kind == ROW_VIEW && group_source(w->g, index, 0) >= w->s->begin &&
           group_output(w->g, index)->dtype != w->g->b->call[index]->in[0]->dtype;
}

// The row that an input is the result of: a view is none, unless it is of another dtype.
static int source_of(struct writer *w, int index, int k) {
    int source = w->g->p->step[index].source[k];
    while (source >= w->g->begin && group_row(w->g, source)->kind == ROW_VIEW && !is_bitcast(w, source))
        source = w->g->p->step[source].source[0];
    return source;
}

static void add_bitcast(struct writer *w, int index, const int *number) {
    add(w, TILE_BITCAST);
    add(w, group_output(w->g, index)->dtype);
    add(w, 1);
    add(w, number[source_of(w, index, 0) - w->s->begin]);
    w->r.rows++;
}

static void add_row(struct writer *w, int index, const int *number) {
    const struct step *s = &w->g->p->step[index];
    const struct call *c = w->g->b->call[index];
    bool is_cast = c->op->kind == OP_CAST;
    enum tile_op row = is_cast ? TILE_CAST : cpu_row_of(c);
    add(w, row == TILE_DIV && op_has_inverse(c) ? TILE_DIV | BY_INVERSE : (int)row);
    add(w, s->dtype[0]);
    add(w, s->inputs);
    for (int k = 0; k < s->inputs; k++) {
        int source = source_of(w, index, k);
        if (source >= w->s->begin)
            add(w, number[source - w->s->begin]);
        else
            add(w, input_at(w, group_row(w->g, index)->at[k + 1], s->dtype[k + 1]));
    }
    w->r.rows++;
}

// Results that something after the stretch reads.
static void add_outputs(struct writer *w, const int *number) {
    for (int i = w->s->begin; i < w->s->end; i++) {
        const struct row *r = group_row(w->g, i);
        if (r->kind == ROW_VIEW || (!r->stored && r->until < w->s->end))
            continue;
        if (w->r.outputs == STRETCH_OPERANDS) {
            w->r.words = RECIPE_WORDS + 1;
            return;
        }
        w->s->at[w->r.outputs] = r->at[0];
        w->r.output[w->r.outputs++] = (int16_t)number[i - w->s->begin];
    }
}

// False: it has too many operands, or such as kernels do not take.
static bool write_recipe(struct writer *w) {
    int number[GROUP_CALLS];
    for (int i = w->s->begin; i < w->s->end; i++) {
        bool is_view = group_row(w->g, i)->kind == ROW_VIEW;
        if (is_view && !is_bitcast(w, i))
            continue;
        number[i - w->s->begin] = w->r.rows;
        (is_view ? add_bitcast : add_row)(w, i, number);
    }
    add_outputs(w, number);
    int operands = w->r.outputs + w->r.inputs;
    if (w->mixed || operands > STRETCH_OPERANDS || w->r.words + w->r.inputs + w->r.outputs + 2 > RECIPE_WORDS)
        return false;
    memcpy(w->s->at + w->r.outputs, w->in, (size_t)w->r.inputs);
    w->s->operands = operands;
    for (int i = 0; i < w->r.inputs; i++)
        add(w, w->r.input[i]);
    for (int i = 0; i < w->r.outputs; i++)
        add(w, w->r.output[i]);
    add(w, w->r.inputs);
    add(w, w->r.outputs);
    return true;
}

// Building -------------------------------------------------------------------------------------------------------

static expr load_input(int at, int16_t what, expr n, expr i) {
    char name[16];
    struct tile_type type = tile_type_of((zl_dtype)(what >> 4));
    snprintf(name, sizeof name, "x%d", at);
    if ((what & 15) == FORM_SCALAR) {
        const struct tile_name *scalar = tile_parameter_scalar(name, type);
        return scalar ? tile_name_value(scalar, TILE_SCALAR) : NULL;
    }
    bool is_vector = (what & 15) == FORM_VECTOR;
    expr size = is_vector ? n : tile_const_int(tile_index_type(), 1);
    expr index = is_vector ? i : tile_const_int(tile_index_type(), 0);
    struct tile_buffer *buffer = tile_parameter_buffer(name, type, 1, &size, false);
    return buffer ? tile_load(buffer, 1, &index, NULL, NULL) : NULL;
}

// The inverse is computed once.
static expr divide_by_inverse(struct tile_type type, expr a, expr b) {
    const struct tile_type wide = tile_type_of(ZL_FLOAT32);
    expr inverse = tile_binary(TILE_DIV, tile_const(wide, 1), tile_cast(wide, b));
    return tile_cast(type, tile_binary(TILE_MUL, tile_cast(wide, a), inverse));
}

static expr compute_row(const int16_t **word, const expr *input, const expr *value) {
    const int what = *(*word)++;
    enum tile_op op = (enum tile_op)(what & ~BY_INVERSE);
    struct tile_type type = tile_type_of((zl_dtype) * (*word)++);
    int count = *(*word)++;
    expr arg[3] = {NULL};
    for (int k = 0; k < count; k++, (*word)++)
        arg[k] = **word & OF_INPUT ? input[**word & ~OF_INPUT] : value[**word];
    if (what & BY_INVERSE)
        return divide_by_inverse(type, arg[0], arg[1]);
    if (op == TILE_CAST)
        return tile_cast(type, arg[0]);
    if (op == TILE_BITCAST)
        return tile_bitcast(type, arg[0]);
    return count == 1   ? tile_unary(op, arg[0])
           : count == 2 ? tile_binary(op, arg[0], arg[1])
                        : tile_ternary(op, arg[0], arg[1], arg[2]);
}

// map i in n { y0[i] = ...; y1[i] = ...; }
static struct tile_kernel *build(const struct recipe *r) {
    expr input[STRETCH_OPERANDS], value[GROUP_CALLS];
    const int16_t *word = r->word;
    tile_begin("fused");
    expr n = tile_name_value(tile_symbol("n", 0, INT64_MAX, 1), TILE_SYMBOL);
    const struct tile_name *i = tile_index("i", n);
    expr at = tile_name_value(i, TILE_INDEX);
    for (int k = 0; k < r->inputs; k++)
        input[k] = load_input(k, r->input[k], n, at);
    for (int k = 0; k < r->rows; k++)
        value[k] = compute_row(&word, input, value);
    struct tile_buffer *y[STRETCH_OPERANDS];
    for (int k = 0; k < r->outputs; k++) {
        char name[16];
        expr result = value[r->output[k]];
        snprintf(name, sizeof name, "y%d", k);
        y[k] = result ? tile_parameter_buffer(name, result->type, 1, &n, true) : NULL;
    }
    tile_open_map(1, &i, &n);
    for (int k = 0; k < r->outputs; k++)
        tile_store(y[k], 1, &at, value[r->output[k]], NULL);
    tile_close();
    return tile_end();
}

static row_fn *compile(const struct recipe *r) {
    static const char dialect[] = "c";
    struct text source = {0};
    struct tile_kernel *kernel = build(r);
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

// Keeping --------------------------------------------------------------------------------------------------------

struct row_kernel {
    struct row_kernel *next; // to be compiled
    _Atomic(row_fn *) fn;    // NULL: there is none yet
    int runs;
    bool queued; // or was
    struct recipe recipe;
};

static struct {
    struct lock lock;
    struct map kernels;              // by the words of recipes
    struct row_kernel *first, *last; // to be compiled
    bool working;                    // there is a thread that does it
    atomic_uint rests;               // how often it found nothing to do; sleepers watch it
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
    kept.working = false; // that thread stayed behind
}

ZL_AT_LOAD {
    fork_guard(&kept.lock);
    fork_call(forget_worker);
}

static void watch_process(void) {
    atexit(cpu_kernels_stop); // what is being compiled comes to its end, for the next process to find
}

// Under the lock. Without a thread for it nothing is compiled.
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

static struct row_kernel *new_kernel(const struct recipe *r) {
    struct row_kernel *k = kept.kernels.count < KERNELS_MOST ? memory_zero(sizeof *k) : NULL;
    if (!k)
        return NULL;
    k->recipe = *r;
    if (map_set(&kept.kernels, r->word, sizeof r->word[0] * (size_t)r->words, k))
        return k;
    memory_free(k);
    return NULL;
}

// The kernel of a recipe that runs once more; NULL: there is none, or not yet.
static row_fn *use(const struct recipe *r, int hot) {
    bool had_error = zl_error();
    lock_take(&kept.lock);
    struct row_kernel *k = map_get(&kept.kernels, r->word, sizeof r->word[0] * (size_t)r->words);
    if (!k && !(k = new_kernel(r)) && !had_error)
        zl_clear_error(); // the rows will do
    if (k && ++k->runs >= hot && !k->queued)
        queue(k);
    lock_give(&kept.lock);
    return k ? atomic_load_explicit(&k->fn, memory_order_acquire) : NULL;
}

// Stretches ------------------------------------------------------------------------------------------------------

// Where the stretch ends that begins here: before the next row of another kind, and not on a view.
static int stretch_end(struct group *g, int begin) {
    int end = begin, i = begin;
    for (; i < g->end; i++) {
        enum row_kind kind = group_row(g, i)->kind;
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
        rows += group_row(g, i)->kind == ROW_ELEMENTS;
    return rows;
}

static int wanted_runs(const struct group *g) {
    int64_t runs = setting_number(SETTING_HOT);
    return runs > 0 && g->b->call[g->begin]->compiled ? 1 : (int)MIN_OF(runs, INT_MAX);
}

bool group_find_kernels(struct group *g) {
    int hot = wanted_runs(g);
    g->stretches = 0;
    for (int i = g->begin, end; hot > 0 && i < g->end; i = MAX_OF(end, i + 1)) {
        end = group_row(g, i)->kind == ROW_ELEMENTS ? stretch_end(g, i) : i;
        if (rows_of(g, i, end) < 2 || g->stretches == (int)COUNT(g->stretch))
            continue;
        struct stretch *s = &g->stretch[g->stretches];
        struct writer w = {.g = g, .s = s};
        *s = (struct stretch){.begin = i, .end = end};
        if (write_recipe(&w) && (s->fn = use(&w.r, hot)))
            g->stretches++;
    }
    int first = g->begin + group_has_product(g);
    return g->stretches == 1 && g->stretch[0].begin == first && g->stretch[0].end == g->end;
}
