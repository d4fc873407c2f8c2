// cpu_delta.c - the delta rule on the CPU. Each thread takes a head, or a part of its columns, through all
// tokens, some columns of the state at a time.
//
// Overrides src/kernel/delta.tile, in which each thread has a part of a column. Here columns are the lanes of
// vectors, and the columns that are being computed stay in L1 for TILE tokens. This takes 3 us of CPU time
// per token of a head of 128 x 128 float32 (gated_delta, 4 heads of 512 tokens; Xeon with AVX-512, busy with
// other work, 2026-11).

#include <inttypes.h>

#include "device/cpu/attention/cpu_delta.h"
#include "device/cpu/gemm/product.h"
#include "device/cpu/rows/operands.h"
#include "op/ops.h"

enum { TILE = 32, LINE = 64 };

// The data of up to TILE tokens of a head that all columns have in common. e, q and w have a row of `keys`
// numbers per token; `prepare` multiplies decays into e and q, and sets wq to the products of w and q.
struct delta_tokens {
    int64_t tokens, keys;
    bool erases, by_column;
    void *e, *q, *w, *decay, *wq, *beta; // beta: NULL if the rule has none
};
struct delta_code {
    void (*prepare)(const struct delta_tokens *t, double scale, bool pre);
    void (*tokens)(const struct delta_tokens *t, void *state, const void *x, void *y);
    int64_t cols; // columns that `tokens` processes at once
};

#define CODE(name) name##_f32_base
#define CODE_TYPE  float
#define CODE_BYTES 16
#define CODE_TARGET
#include "device/cpu/attention/delta_micro.h"
#define CODE(name) name##_f64_base
#define CODE_TYPE  double
#define CODE_BYTES 16
#define CODE_TARGET
#include "device/cpu/attention/delta_micro.h"
#if defined(__x86_64__)
#define CODE(name)  name##_f32_avx2
#define CODE_TYPE   float
#define CODE_BYTES  32
#define CODE_TARGET __attribute__((target("avx2,fma")))
#include "device/cpu/attention/delta_micro.h"
#define CODE(name)  name##_f64_avx2
#define CODE_TYPE   double
#define CODE_BYTES  32
#define CODE_TARGET __attribute__((target("avx2,fma")))
#include "device/cpu/attention/delta_micro.h"
#define CODE(name)  name##_f32_avx512
#define CODE_TYPE   float
#define CODE_BYTES  64
#define CODE_TARGET __attribute__((target("avx512f")))
#include "device/cpu/attention/delta_micro.h"
#define CODE(name)  name##_f64_avx512
#define CODE_TYPE   double
#define CODE_BYTES  64
#define CODE_TARGET __attribute__((target("avx512f")))
#include "device/cpu/attention/delta_micro.h"
#endif

struct delta {
    struct delta_rule r;
    union scalar room[5 + 3];
    const char *q, *w, *x, *g, *e, *beta;
    const int32_t *offsets;
    const char *state;
    char *next, *y;
    int64_t heads, keys, values, time, units, cols;
    int64_t parts, blocks; // parts of the columns of a head, and the most blocks of cols in a part
    size_t item, wide;     // bytes per element of the inputs, and of the state
    bool by_column;
    row_fn *widen, *narrow, *exponential; // NULL: nothing to convert
    const struct delta_code *code;
    atomic_bool *failed;
};

// The code of each level, for float32 and float64.
static const struct delta_code *const codes[CPU_DELTA_LEVELS][2] = {
    [CPU_DELTA_BASE] = {&code_f32_base, &code_f64_base},
#if defined(__x86_64__)
    [CPU_DELTA_AVX2] = {&code_f32_avx2, &code_f64_avx2},
    [CPU_DELTA_AVX512] = {&code_f32_avx512, &code_f64_avx512},
#endif
};

// Tokens ----------------------------------------------------------------------------------------------------

// Copies numbers of an input and converts them to the dtype of the state.
static void widened(const struct delta *d, void *to, const char *from, int64_t count) {
    if (d->widen)
        cpu_call_row(d->widen, to, from, NULL, NULL, count);
    else
        memcpy(to, from, (size_t)count * d->item);
}

// Returns the address of the vector of a token that belongs to head `head` of x. `of` may have fewer heads
// than x; then consecutive heads of x share one.
static const char *key_at(const struct delta *d, const char *from, zl_array of, int64_t token, int64_t head) {
    int64_t heads = of->dim[2], own = head / (d->heads / heads);
    return from + (token * heads + own) * d->keys * (int64_t)d->item;
}

// Reads tokens of a head, from `first` on, and prepares them.
static void read_tokens(const struct delta *d, const struct delta_tokens *t, int64_t first, int64_t head) {
    int64_t line = d->keys * (int64_t)d->wide, gates = d->by_column ? d->keys : 1;
    for (int64_t s = 0; s < t->tokens; s++) {
        widened(d, (char *)t->q + s * line, key_at(d, d->q, d->r.q, first + s, head), d->keys);
        widened(d, (char *)t->w + s * line, key_at(d, d->w, d->r.w, first + s, head), d->keys);
        if (d->e)
            widened(d, (char *)t->e + s * line, key_at(d, d->e, d->r.e, first + s, head), d->keys);
        memcpy((char *)t->decay + s * gates * (int64_t)d->wide,
               d->g + ((first + s) * d->heads + head) * gates * (int64_t)d->wide, (size_t)gates * d->wide);
        if (d->beta)
            memcpy((char *)t->beta + s * (int64_t)d->wide,
                   d->beta + ((first + s) * d->heads + head) * (int64_t)d->wide, d->wide);
    }
    if (d->exponential)
        cpu_call_row(d->exponential, t->decay, t->decay, NULL, NULL, t->tokens * gates);
    d->code->prepare(t, d->r.scale, d->r.pre);
}

// Columns ---------------------------------------------------------------------------------------------------

static void copy_lines(char *to, int64_t to_line, const char *from, int64_t from_line, int64_t lines,
                       size_t bytes) {
    for (int64_t i = 0; i < lines; i++)
        memcpy(to + i * to_line, from + i * from_line, bytes);
}

// Returns the byte offset of column `col` of a token and head in x and in the result.
static int64_t value_at(const struct delta *d, int64_t token, int64_t head, int64_t col) {
    return ((token * d->heads + head) * d->values + col) * (int64_t)d->item;
}

// Takes a block of columns, from `col` on, through the tokens. x and y have room for d->cols numbers per
// token.
static void run_block(const struct delta *d, const struct delta_tokens *t, int64_t first, int64_t head,
                      int64_t col, char *block, char *x, char *y) {
    int64_t wide = (int64_t)d->wide, cols = MIN_OF(d->cols, d->values - col), line = d->cols * wide;
    for (int64_t s = 0; s < t->tokens; s++)
        widened(d, x + s * line, d->x + value_at(d, first + s, head, col), cols);
    d->code->tokens(t, block, x, y);
    for (int64_t s = 0; s < t->tokens; s++) {
        char *at = d->y + value_at(d, first + s, head, col);
        if (d->narrow)
            cpu_call_row(d->narrow, at, y + s * line, NULL, NULL, cols);
        else
            memcpy(at, y + s * line, (size_t)(cols * wide));
    }
}

// The scratch memory of a thread: e, q, w and the decays with a row of keys for each token, wq and beta, x
// and y of a block of columns, then the state, block by block of columns.
struct scratch {
    struct delta_tokens t;
    char *block, *x, *y, *memory;
};

static bool scratch_open(const struct delta *d, struct scratch *s) {
    size_t keys = (size_t)(TILE * d->keys) * d->wide, cols = (size_t)d->cols * d->wide;
    s->memory =
        memory_zero(4 * keys + 2 * TILE * d->wide + (2 * TILE + (size_t)(d->keys * d->blocks)) * cols + LINE);
    if (!s->memory)
        return false;
    char *at = s->memory;
    s->t = (struct delta_tokens){.keys = d->keys,
                                 .erases = d->e != NULL,
                                 .by_column = d->by_column,
                                 .e = at,
                                 .q = at + keys,
                                 .w = at + 2 * keys,
                                 .decay = at + 3 * keys,
                                 .wq = at + 4 * keys,
                                 .beta = d->beta ? at + 4 * keys + TILE * d->wide : NULL};
    s->x = at + 4 * keys + 2 * TILE * d->wide;
    s->x += -(uintptr_t)s->x % LINE; // vectors do not cross cache lines
    s->y = s->x + TILE * cols;
    s->block = s->y + TILE * cols;
    return true;
}

// Runs one unit: a part of the columns of one head of one sequence.
static void run_unit(const struct delta *d, struct scratch *s, int64_t unit) {
    int64_t line = unit / d->parts, sequence = line / d->heads, head = line % d->heads;
    int64_t first = d->offsets ? d->offsets[sequence] : sequence * d->time;
    int64_t end = d->offsets ? d->offsets[sequence + 1] : first + d->time;
    int64_t blocks = (d->values + d->cols - 1) / d->cols, part = unit % d->parts;
    int64_t from = blocks * part / d->parts * d->cols,
            to = MIN_OF(blocks * (part + 1) / d->parts * d->cols, d->values);
    int64_t wide = (int64_t)d->wide, row = d->values * wide, block = d->cols * wide * d->keys;
    const char *state = d->state + line * d->keys * row;
    char *next = d->next + line * d->keys * row;
    for (int64_t col = from, i = 0; col < to; col += d->cols, i++)
        copy_lines(s->block + i * block, d->cols * wide, state + col * wide, row, d->keys,
                   (size_t)(MIN_OF(d->cols, to - col) * wide));
    for (int64_t at = first; at < end; at += TILE) {
        s->t.tokens = MIN_OF(TILE, end - at);
        read_tokens(d, &s->t, at, head);
        for (int64_t col = from, i = 0; col < to; col += d->cols, i++)
            run_block(d, &s->t, at, head, col, s->block + i * block, s->x, s->y);
    }
    for (int64_t col = from, i = 0; col < to; col += d->cols, i++)
        copy_lines(next + col * wide, row, s->block + i * block, d->cols * wide, d->keys,
                   (size_t)(MIN_OF(d->cols, to - col) * wide));
}

static void run_units(const void *context, int64_t from, int64_t to) {
    const struct delta *d = context;
    struct scratch s;
    if (!scratch_open(d, &s)) {
        atomic_store(d->failed, true);
        return;
    }
    for (; from < to; from++)
        run_unit(d, &s, from);
    memory_free(s.memory);
}

enum cpu_delta_level cpu_delta_level(void) {
#if defined(__x86_64__)
    const char *level = cpu_level()->name;
    if (!strncmp(level, "avx512", 6))
        return CPU_DELTA_AVX512;
    if (!strncmp(level, "avx", 3))
        return CPU_DELTA_AVX2;
#endif
    return CPU_DELTA_BASE;
}

bool cpu_delta_offsets_ascend(const int32_t *offset, int64_t sequences, int64_t time) {
    bool ok = offset[0] == 0 && offset[sequences] == time;
    for (int64_t i = 0; i < sequences; i++)
        ok = ok && offset[i] <= offset[i + 1];
    return ok || error_false(ZL_ERROR_VALUE,
                             "delta_rule: offsets of sequences must ascend from 0 to %" PRId64, time);
}

static void open_call(const struct call *c, struct delta *d) {
    enum { UNITS_MOST = 8 }; // a limit, as each part prepares the tokens for itself
    d->r = op_delta_read(c, c->in);
    zl_array x = d->r.x, state = d->r.state,
             given[] = {d->r.q, d->r.w, x, d->r.g, state, d->r.e, d->r.offsets, d->r.beta};
    const void *data[COUNT(given)] = {0};
    for (size_t i = 0; i < COUNT(given); i++)
        data[i] = given[i] ? array_data(given[i], &d->room[i]) : NULL;
    d->q = data[0], d->w = data[1], d->x = data[2], d->g = data[3], d->state = data[4], d->e = data[5];
    d->offsets = data[6], d->beta = data[7];
    d->next = cpu_data(call_output(c, 0));
    d->y = cpu_data(call_output(c, 1));
    d->heads = x->dim[2], d->keys = d->r.q->dim[3], d->values = x->dim[3], d->time = x->dim[1];
    d->by_column = d->r.g->ndim == 4;
    d->item = array_item(x), d->wide = array_item(state);
    const struct row_table *rows = cpu_level()->rows;
    bool same = x->dtype == state->dtype;
    d->widen = same ? NULL : rows->cast[state->dtype][x->dtype];
    d->narrow = same ? NULL : rows->cast[x->dtype][state->dtype];
    d->exponential = d->r.factors ? NULL : rows->op[TILE_EXP][state->dtype][0];
    d->code = codes[cpu_delta_level()][state->dtype == ZL_FLOAT64];
    d->cols = d->code->cols;
    int64_t lines = state->dim[0] * d->heads, blocks = (d->values + d->cols - 1) / d->cols;
    d->parts = MAX_OF(1, MIN_OF(blocks, UNITS_MOST / MAX_OF(lines, 1)));
    d->blocks = (blocks + d->parts - 1) / d->parts;
    d->units = lines * d->parts;
}

bool cpu_delta_rule(const struct call *c) {
    struct delta d = {0};
    atomic_bool failed = false;
    open_call(c, &d);
    d.failed = &failed;
    if (d.offsets && !cpu_delta_offsets_ascend(d.offsets, d.r.state->dim[0], d.time))
        return false;
    int64_t tokens = d.offsets ? d.time / d.r.state->dim[0] + 1 : d.time;
    int64_t work = tokens * d.keys * d.values / d.parts * (int64_t)d.wide + 1;
    cpu_split(d.units, CPU_SPLIT / 2 / work + 1, run_units, &d);
    return !atomic_load(&failed) || error_false(ZL_ERROR_MEMORY, "delta_rule: no memory for its work");
}
