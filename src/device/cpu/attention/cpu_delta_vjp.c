// cpu_delta_vjp.c - the gradient of the delta rule on the CPU. Each thread takes whole heads and goes through
// them TILE tokens at a time by matrix products, using the WY form of the corrections
// (src/op/delta_chunks.c).
//
// A first pass keeps the state before each chunk, the corrections of its tokens and the inverse of their
// triangular matrix. A second pass goes through the chunks in reverse. Overrides
// src/kernel/delta_wy_vjp.tile, in which workgroups compute the products of a chunk.

#include "device/cpu/attention/cpu_delta.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum { TILE = 32, LINE = 64 }; // TILE: a multiple of the columns of every panel

// A chunk of up to TILE tokens: matrices in panels (delta_back_micro.h), of TILE rows unless stated
// otherwise, and vectors of one number per token. Rows after the last token are 0.
struct delta_chunk {
    int64_t tokens, keys, values; // keys and values: rounded to whole panels
    bool pre;
    double scale;
    void *q, *w, *e, *x, *dy;     // e: NULL if nothing is erased
    void *e_beta, *x_beta;        // e and x times beta
    void *g, *beta;               // beta: NULL if the rule has none
    void *between, *erasing;      // decays after token i until token t: for q; for e
    void *so_far, *before, *rest; // decays from the chunk's start: with, without a token's own; to the end
    void *lower, *inverse;        // the triangle L of the corrections, and the inverse of I + L
    void *late, *room, *pairs, *pairs_e, *ways; // w decayed to the end; room: keys or values; TILE x TILE
    void *found, *r, *dy_now, *r_now;           // a row of values per token
    void *w_transposed, *transposed;            // keys x TILE; a state, or values x TILE
    void *dq, *dw, *de, *dx, *dg, *dbeta;       // cotangents
    void *sums, *from_e, *from_w;
};
struct delta_back_code {
    void (*logarithms)(const struct delta_chunk *c);
    void (*decays)(const struct delta_chunk *c);
    void (*by_beta)(const struct delta_chunk *c);
    void (*forward)(const struct delta_chunk *c, const void *state, void *next, void *delta);
    void (*backward)(const struct delta_chunk *c, const void *state, const void *delta,
                     void *slope); // overwrites lower
    void (*add)(void *sum, const void *x, int64_t count);
    int64_t cols; // columns per panel
};

#define CODE(name) name##_f32_base
#define CODE_TYPE  float
#define CODE_BYTES 16
#define CODE_ROWS  4
#define CODE_TARGET
#include "device/cpu/attention/delta_back_micro.h"
#define CODE(name) name##_f64_base
#define CODE_TYPE  double
#define CODE_BYTES 16
#define CODE_ROWS  4
#define CODE_TARGET
#include "device/cpu/attention/delta_back_micro.h"
#if defined(__x86_64__)
#define CODE(name)  name##_f32_avx2
#define CODE_TYPE   float
#define CODE_BYTES  32
#define CODE_ROWS   4
#define CODE_TARGET __attribute__((target("avx2,fma")))
#include "device/cpu/attention/delta_back_micro.h"
#define CODE(name)  name##_f64_avx2
#define CODE_TYPE   double
#define CODE_BYTES  32
#define CODE_ROWS   4
#define CODE_TARGET __attribute__((target("avx2,fma")))
#include "device/cpu/attention/delta_back_micro.h"
#define CODE(name)  name##_f32_avx512
#define CODE_TYPE   float
#define CODE_BYTES  64
#define CODE_ROWS   8
#define CODE_TARGET __attribute__((target("avx512f")))
#include "device/cpu/attention/delta_back_micro.h"
#define CODE(name)  name##_f64_avx512
#define CODE_TYPE   double
#define CODE_BYTES  64
#define CODE_ROWS   8
#define CODE_TARGET __attribute__((target("avx512f")))
#include "device/cpu/attention/delta_back_micro.h"
#endif

enum { OF_Q, OF_W, OF_X, OF_GATE, OF_STATE, OF_E, OF_BETA };

struct back {
    struct delta_rule r;
    union scalar room[DELTA_INPUTS_MOST + 2];
    const char *q, *w, *x, *g, *state, *e, *beta, *dy, *dstate;
    const int32_t *offsets;
    char *out[DELTA_COTANGENTS];
    int64_t heads, keys, values, time;
    size_t item, wide; // bytes per element of the inputs, and of the state
    row_fn *widen, *narrow, *exponential;
    const struct delta_back_code *code;
    atomic_bool *failed;
};

// The memory of a thread: one chunk, and space for what the first pass keeps of the longest sequence.
struct work {
    struct delta_chunk c;
    char *line, *slope, *states, *deltas, *pairs, *memory;
};

// The code of each level, for float32 and float64.
static const struct delta_back_code *const codes[CPU_DELTA_LEVELS][2] = {
    [CPU_DELTA_BASE] = {&code_f32_base, &code_f64_base},
#if defined(__x86_64__)
    [CPU_DELTA_AVX2] = {&code_f32_avx2, &code_f64_avx2},
    [CPU_DELTA_AVX512] = {&code_f32_avx512, &code_f64_avx512},
#endif
};

// Lines -----------------------------------------------------------------------------------------------------

// Copies `count` numbers to row `row` of panels that have `rows` rows each.
static void put_line(const struct back *b, char *panels, int64_t rows, int64_t row, const char *from,
                     int64_t count) {
    const int64_t cols = b->code->cols, wide = (int64_t)b->wide;
    for (int64_t col = 0; col < count; col += cols)
        memcpy(panels + (col * rows + row * cols) * wide, from + col * wide,
               (size_t)(MIN_OF(cols, count - col) * wide));
}

static void get_line(const struct back *b, char *to, const char *panels, int64_t rows, int64_t row,
                     int64_t count) {
    const int64_t cols = b->code->cols, wide = (int64_t)b->wide;
    for (int64_t col = 0; col < count; col += cols)
        memcpy(to + col * wide, panels + (col * rows + row * cols) * wide,
               (size_t)(MIN_OF(cols, count - col) * wide));
}

// Reads the chunk's tokens, from `first` on, of a head of x (B, T, heads, count) into panels of `padded`
// columns.
static void read_lines(const struct back *b, struct work *w, void *panels, const char *x, int64_t heads,
                       int64_t first, int64_t head, int64_t count, int64_t padded) {
    const int64_t own = head / (b->heads / heads);
    if (w->c.tokens < TILE)
        memset(panels, 0, (size_t)(TILE * padded) * b->wide);
    for (int64_t t = 0; t < w->c.tokens; t++) {
        const char *from = x + ((first + t) * heads + own) * count * (int64_t)b->item;
        if (b->widen)
            cpu_call_row(b->widen, w->line, from, NULL, NULL, count);
        put_line(b, panels, TILE, t, b->widen ? w->line : from, count);
    }
}

static void write_lines(const struct back *b, struct work *w, int which, const void *panels, int64_t first,
                        int64_t head, int64_t count) {
    for (int64_t t = 0; t < w->c.tokens; t++) {
        char *to = b->out[which] + ((first + t) * b->heads + head) * count * (int64_t)b->item;
        get_line(b, b->narrow ? w->line : to, panels, TILE, t, count);
        if (b->narrow)
            cpu_call_row(b->narrow, to, w->line, NULL, NULL, count);
    }
}

static void read_numbers(const struct back *b, struct work *w, void *to, const char *from, int64_t first,
                         int64_t head) {
    memset(to, 0, TILE * b->wide);
    for (int64_t t = 0; t < w->c.tokens; t++)
        memcpy((char *)to + t * (int64_t)b->wide, from + ((first + t) * b->heads + head) * (int64_t)b->wide,
               b->wide);
}

static void write_numbers(const struct back *b, struct work *w, int which, const void *from, int64_t first,
                          int64_t head) {
    for (int64_t t = 0; t < w->c.tokens; t++)
        memcpy(b->out[which] + ((first + t) * b->heads + head) * (int64_t)b->wide,
               (const char *)from + t * (int64_t)b->wide, b->wide);
}

// Chunks ----------------------------------------------------------------------------------------------------

static void read_chunk(const struct back *b, struct work *w, int64_t first, int64_t tokens, int64_t head) {
    struct delta_chunk *c = &w->c;
    c->tokens = tokens;
    read_lines(b, w, c->w, b->w, b->r.w->dim[2], first, head, b->keys, c->keys);
    if (b->e)
        read_lines(b, w, c->e, b->e, b->r.e->dim[2], first, head, b->keys, c->keys);
    read_lines(b, w, c->x, b->x, b->heads, first, head, b->values, c->values);
    read_numbers(b, w, c->g, b->g, first, head);
    if (b->beta)
        read_numbers(b, w, c->beta, b->beta, first, head);
    b->code->by_beta(c);
}

// Makes the matrices of pairs of tokens, and the decays, point to where chunk n keeps them. between, so_far
// and before are contiguous, so that one call computes the exponentials of all three.
enum { PAIRS = 4 * TILE * TILE + 3 * TILE };
static void set_pairs(const struct back *b, struct work *w, int64_t n) {
    struct delta_chunk *c = &w->c;
    char *at = w->pairs + n * PAIRS * (int64_t)b->wide;
    void **const squares[] = {&c->lower, &c->inverse, &c->erasing, &c->between};
    void **const lines[] = {&c->so_far, &c->before, &c->rest};
    for (size_t i = 0; i < COUNT(squares); i++, at += TILE * TILE * (int64_t)b->wide)
        *squares[i] = at;
    for (size_t i = 0; i < COUNT(lines); i++, at += TILE * (int64_t)b->wide)
        *lines[i] = at;
}

static void find_decays(const struct back *b, struct work *w) {
    struct delta_chunk *c = &w->c;
    b->code->logarithms(c);
    cpu_call_row(b->exponential, c->between, c->between, NULL, NULL, TILE * TILE + 2 * TILE);
    b->code->decays(c);
}

static void write_chunk(const struct back *b, struct work *w, int64_t first, int64_t head) {
    const struct delta_chunk *c = &w->c;
    if (b->r.e == b->r.w) // e and w are one input, which has one cotangent
        b->code->add(c->dw, c->de, TILE * c->keys);
    else if (c->e)
        write_lines(b, w, OF_E, c->de, first, head, b->keys);
    write_lines(b, w, OF_Q, c->dq, first, head, b->keys);
    write_lines(b, w, OF_W, c->dw, first, head, b->keys);
    write_lines(b, w, OF_X, c->dx, first, head, b->values);
    write_numbers(b, w, OF_GATE, c->dg, first, head);
    if (c->beta)
        write_numbers(b, w, OF_BETA, c->dbeta, first, head);
}

// Runs one head of one sequence.
static void run_unit(const struct back *b, struct work *w, int64_t unit) {
    struct delta_chunk *c = &w->c;
    const int64_t sequence = unit / b->heads, head = unit % b->heads;
    const int64_t first = b->offsets ? b->offsets[sequence] : sequence * b->time;
    const int64_t time = b->offsets ? b->offsets[sequence + 1] - first : b->time;
    const int64_t wide = (int64_t)b->wide, state = c->keys * c->values * wide, line = b->values * wide;
    const int64_t delta = TILE * c->values * wide, chunks = (time + TILE - 1) / TILE;
    const int64_t own = unit * b->keys * line;
    for (int64_t i = 0; i < b->keys; i++) {
        put_line(b, w->states, c->keys, i, b->state + own + i * line, b->values);
        put_line(b, w->slope, c->keys, i, b->dstate + own + i * line, b->values);
    }
    for (int64_t n = 0; n < chunks; n++) {
        set_pairs(b, w, n);
        read_chunk(b, w, first + n * TILE, MIN_OF(TILE, time - n * TILE), head);
        find_decays(b, w);
        b->code->forward(c, w->states + n * state, w->states + (n + 1) * state, w->deltas + n * delta);
    }
    for (int64_t n = chunks; n-- > 0;) {
        int64_t at = first + n * TILE;
        set_pairs(b, w, n);
        read_chunk(b, w, at, MIN_OF(TILE, time - n * TILE), head);
        read_lines(b, w, c->q, b->q, b->r.q->dim[2], at, head, b->keys, c->keys);
        read_lines(b, w, c->dy, b->dy, b->heads, at, head, b->values, c->values);
        b->code->backward(c, w->states + n * state, w->deltas + n * delta, w->slope);
        write_chunk(b, w, at, head);
    }
    for (int64_t i = 0; i < b->keys; i++)
        get_line(b, b->out[OF_STATE] + own + i * line, w->slope, c->keys, i, b->values);
}

// Scratch ---------------------------------------------------------------------------------------------------

// Returns the address of the next `count` numbers of the scratch memory, and adds their bytes to *used. If
// memory is NULL, only adds up the bytes and returns NULL.
static void *take(const struct back *b, char *memory, size_t *used, int64_t count) {
    size_t before = *used;
    *used += ((size_t)count * b->wide + LINE - 1) / LINE * LINE;
    return memory ? memory + before : NULL;
}

static int64_t longest(const struct back *b) {
    int64_t most = b->offsets ? 0 : b->time;
    for (int64_t i = 0; b->offsets && i < b->r.state->dim[0]; i++)
        most = MAX_OF(most, b->offsets[i + 1] - b->offsets[i]);
    return most;
}

// Assigns all arrays their addresses in memory, unless that is NULL. Returns the bytes that they take.
static size_t lay_out(const struct back *b, struct work *w, char *memory) {
    struct delta_chunk *c = &w->c;
    const int64_t keys = c->keys, values = c->values, chunks = (longest(b) + TILE - 1) / TILE;
    const int64_t more = MAX_OF(keys, values);
    size_t used = 0;
    void **const of_keys[] = {&c->q, &c->w, &c->late, &c->w_transposed, &c->dq, &c->dw, &c->de};
    void **const of_values[] = {&c->x, &c->dy, &c->found, &c->r, &c->dy_now, &c->r_now, &c->dx};
    void **const numbers[] = {&c->g, &c->dg, &c->dbeta, &c->sums, &c->from_e, &c->from_w};
    for (size_t i = 0; i < COUNT(of_keys); i++)
        *of_keys[i] = take(b, memory, &used, TILE * keys);
    for (size_t i = 0; i < COUNT(of_values); i++)
        *of_values[i] = take(b, memory, &used, TILE * values);
    for (size_t i = 0; i < COUNT(numbers); i++)
        *numbers[i] = take(b, memory, &used, TILE);
    c->pairs = take(b, memory, &used, TILE * TILE), c->pairs_e = take(b, memory, &used, TILE * TILE);
    c->ways = take(b, memory, &used, TILE * TILE);
    c->beta = b->beta ? take(b, memory, &used, TILE) : NULL;
    c->e = !b->e ? NULL : b->r.e == b->r.w ? c->w : take(b, memory, &used, TILE * keys);
    c->e_beta = b->beta && b->e ? take(b, memory, &used, TILE * keys) : c->e;
    c->x_beta = b->beta ? take(b, memory, &used, TILE * values) : c->x;
    c->room = take(b, memory, &used, TILE * more),
    c->transposed = take(b, memory, &used, MAX_OF(keys, TILE) * values);
    w->line = take(b, memory, &used, more), w->slope = take(b, memory, &used, keys * values);
    w->deltas = take(b, memory, &used, chunks * TILE * values);
    w->pairs = take(b, memory, &used, chunks * PAIRS);
    w->states = take(b, memory, &used, (chunks + 1) * keys * values);
    return used;
}

static bool open_work(const struct back *b, struct work *w) {
    const int64_t cols = b->code->cols;
    w->c = (struct delta_chunk){.keys = (b->keys + cols - 1) / cols * cols,
                                .values = (b->values + cols - 1) / cols * cols,
                                .pre = b->r.pre,
                                .scale = b->r.scale};
    w->memory = memory_zero(lay_out(b, w, NULL) + LINE);
    if (w->memory)
        lay_out(b, w, w->memory + -(uintptr_t)w->memory % LINE); // vectors do not cross cache lines
    return w->memory;
}

static void run_units(const void *context, int64_t from, int64_t to) {
    const struct back *b = context;
    struct work w;
    if (!open_work(b, &w)) {
        atomic_store(b->failed, true);
        return;
    }
    for (; from < to; from++)
        run_unit(b, &w, from);
    memory_free(w.memory);
}

static void open_call(const struct call *c, struct back *b) {
    b->r = op_delta_read(c, c->in);
    zl_array x = b->r.x, state = b->r.state;
    zl_array given[] = {b->r.q,
                        b->r.w,
                        x,
                        b->r.g,
                        state,
                        b->r.e,
                        b->r.offsets,
                        b->r.beta,
                        c->in[c->inputs - 2],
                        c->in[c->inputs - 1]};
    const void *data[COUNT(given)] = {0};
    for (size_t i = 0; i < COUNT(given); i++)
        data[i] = given[i] ? array_data(given[i], &b->room[i]) : NULL;
    b->q = data[0], b->w = data[1], b->x = data[2], b->g = data[3], b->state = data[4], b->e = data[5];
    b->offsets = data[6], b->beta = data[7], b->dy = data[8], b->dstate = data[9];
    for (int i = 0; i < DELTA_COTANGENTS; i++)
        b->out[i] = call_output(c, i)->size ? cpu_data(call_output(c, i)) : NULL;
    b->heads = x->dim[2], b->keys = b->r.q->dim[3], b->values = x->dim[3], b->time = x->dim[1];
    b->item = array_item(x), b->wide = array_item(state);
    const struct row_table *rows = cpu_level()->rows;
    bool same = x->dtype == state->dtype;
    b->widen = same ? NULL : rows->cast[state->dtype][x->dtype];
    b->narrow = same ? NULL : rows->cast[x->dtype][state->dtype];
    b->exponential = rows->op[TILE_EXP][state->dtype][0];
    b->code = codes[cpu_delta_level()][state->dtype == ZL_FLOAT64];
}

bool cpu_delta_rule_vjp(const struct call *c) {
    struct back b = {0};
    atomic_bool failed = false;
    open_call(c, &b);
    b.failed = &failed;
    int64_t sequences = b.r.state->dim[0];
    if (b.offsets && !cpu_delta_offsets_ascend(b.offsets, sequences, b.time))
        return false;
    cpu_split(sequences * b.heads, 1, run_units, &b);
    return !atomic_load(&failed) || error_false(ZL_ERROR_MEMORY, "delta_rule_vjp: no memory for its work");
}
