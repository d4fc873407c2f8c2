// cpu_attention_vjp.c - cotangents of q, k and v. Scores are recomputed, block by block, from the maximum and
// the sum per row that the forward pass kept. One thread handles all keys of a matrix, so that no two threads
// add to the same dk and dv. If there are fewer matrices than threads, the rows of queries are divided too;
// each part then has its own dk and dv, which are added up afterwards.
//
// All results have the layout that attention.h gives for the forward pass: one row per column, panel by
// panel.

#include "device/cpu/attention/attention.h"
#include "device/cpu/rows/operands.h"

#include <math.h>

// Multiples of the columns of all kernels.
enum {
    ROWS = 480,   // queries that are packed at once
    QUERIES = 96, // queries per block, over which the products for dk and dv sum
    KEYS = 240,
};

struct backward {
    struct attend a;
    struct attention_input y, g;
    const float *state;
    struct attention_output out[3]; // dq, dk, dv
    float *drain;  // what each query adds to the cotangent of its head's sink; NULL: no sinks
    int64_t parts; // of the rows of a matrix; the chunks are dealt to them in turn
    int64_t chunk;
    float *sums; // dk and dv of every part of every matrix; NULL if there is one part
    atomic_bool failed;
};

// Arrays in a thread's scratch memory.
struct work {
    int64_t b, m, first, count;            // of the rows
    char *q, *g;                           // panels of queries, and of the cotangents of their results
    char *q_cols, *g_cols;                 // the same transposed, block by block
    char *k, *k_cols, *v;                  // a block of keys and values
    float *most, *inverse, *less;          // of the rows
    float *top;                            // log-sum-exp of each row / scale, subtracted from unscaled scores
    float *weights, *dscores;              // of a panel of queries; dscores: cotangents of scores
    float *weights_t, *dscores_t;          // transposed: panels of keys by a block of queries
    float *dq, *dk, *dv;                   // dq: of the rows; dk and dv: of all keys
    float *room;
};

static void *take(char *at, size_t *used, int64_t count) {
    size_t before = *used;
    *used += sizeof(float) * (size_t)attention_round(count, 16);
    return at ? at + before : NULL;
}

// Assigns the arrays their addresses from `at` on, unless that is NULL. Returns the bytes that they take.
static size_t lay_out(const struct backward *f, struct work *w, char *at) {
    const struct attend *a = &f->a;
    const int64_t rows = a->kernel->rows, cols = a->kernel->cols, step = a->kernel->step;
    const int64_t dim = attention_round(a->dim, MAX_OF(rows, step)),
                  width = attention_round(a->width, MAX_OF(rows, step));
    const int64_t queries = attention_round(MIN_OF(ROWS, a->rows), QUERIES),
                  keys = f->sums ? 0 : attention_round(a->keys, cols);
    size_t used = 0;
    w->q = take(at, &used, queries * dim), w->g = take(at, &used, queries * width);
    w->q_cols = take(at, &used, queries * dim), w->g_cols = take(at, &used, queries * width);
    w->k = take(at, &used, KEYS * dim), w->k_cols = take(at, &used, KEYS * dim),
    w->v = take(at, &used, KEYS * width);
    w->most = take(at, &used, queries), w->inverse = take(at, &used, queries),
    w->less = take(at, &used, queries);
    w->top = take(at, &used, queries);
    w->weights = take(at, &used, (KEYS + rows) * cols), w->dscores = take(at, &used, (KEYS + rows) * cols);
    w->weights_t = take(at, &used, KEYS * QUERIES), w->dscores_t = take(at, &used, KEYS * QUERIES);
    w->dq = take(at, &used, queries * dim), w->dk = take(at, &used, keys * dim),
    w->dv = take(at, &used, keys * width);
    w->room = take(at, &used, MAX_OF(2 * cols * KEYS, QUERIES * MAX_OF(dim, width)));
    return used + GEMM_SLACK;
}

// Returns the number of floats of dk, or of dk and dv together.
static int64_t keys_size(const struct backward *f, bool both) {
    const struct attend *a = &f->a;
    int64_t rows = a->kernel->rows, columns = attention_round(a->dim, rows);
    return attention_round(a->keys, a->kernel->cols) *
           (columns + (both ? attention_round(a->width, rows) : 0));
}

// Makes dk and dv point to the shared sums of this part of this matrix.
static void set_sums(const struct backward *f, struct work *w, int64_t matrix, int64_t part) {
    w->dk = f->sums + (matrix * f->parts + part) * keys_size(f, true);
    w->dv = w->dk + keys_size(f, false);
}

static bool open_work(const struct backward *f, struct work *w) {
    char *at = cpu_scratch(SCRATCH_WORK, lay_out(f, w, NULL));
    if (at)
        lay_out(f, w, at);
    return at;
}

// Loads the per-row state that the forward pass kept. Rows that only pad a panel get no weight.
static void start_rows(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    const int64_t first = (w->b * a->matrices + w->m) * a->rows + w->first;
    float *room = w->room + attention_round(a->width, 16);
    int64_t unused;
    for (int64_t i = 0; i < attention_round(w->count, a->kernel->cols); i++) {
        bool is = i < w->count;
        w->most[i] = is ? f->state[2 * (first + i)] : 0;
        w->inverse[i] = is ? 1 / f->state[2 * (first + i) + 1] : 0;
        w->top[i] = is ? (w->most[i] + logf(f->state[2 * (first + i) + 1])) / a->scale : FLT_MAX;
        w->less[i] = 0;
        if (!is)
            continue;
        const float *y = cpu_attention_read(&f->y, w->b, w->m, w->first + i, 1, w->room, &unused);
        const float *g = cpu_attention_read(&f->g, w->b, w->m, w->first + i, 1, room, &unused);
        a->code->dots(y, 0, 1, g, a->width, &w->less[i]);
        if (f->drain)
            f->drain[first + i] =
                -expf(attention_sink(a, w->b, w->m, w->first + i) - w->most[i]) * w->inverse[i] * w->less[i];
    }
}

// Returns the panel of c, of `columns` columns, that begins at row or key i.
static float *panel_of(const struct attend *a, float *c, int64_t i, int64_t columns) {
    return c + i * attention_round(columns, a->kernel->rows);
}

static void pack_queries(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    const int64_t rows = a->kernel->rows;
    char *room = (char *)w->room;
    cpu_attention_pack_rows(a, &a->q, 1, w->b, w->m, w->first, w->count, room, w->q);
    cpu_attention_pack_rows(a, &f->g, 1, w->b, w->m, w->first, w->count, room, w->g);
    for (int64_t i = 0; i < w->count; i += QUERIES) {
        int64_t n = MIN_OF(QUERIES, w->count - i), first = w->first + i;
        cpu_attention_pack_cols(a, &a->q, w->b, w->m, first, n, room,
                                w->q_cols + attention_packed(a, rows, a->dim, i));
        cpu_attention_pack_cols(a, &f->g, w->b, w->m, first, n, room,
                                w->g_cols + attention_packed(a, rows, a->width, i));
    }
}

static void pack_keys(const struct backward *f, struct work *w, int64_t key, int64_t n) {
    const struct attend *a = &f->a;
    char *room = (char *)w->room;
    cpu_attention_pack_rows(a, &a->k, 0, w->b, w->m, key, n, room, w->k);
    cpu_attention_pack_rows(a, &a->v, 0, w->b, w->m, key, n, room, w->v);
    cpu_attention_pack_cols(a, &a->k, w->b, w->m, key, n, room, w->k_cols);
}

// Computes the weights and the cotangents of the scores of a panel of queries, from row i of w on, with n
// keys. Zeros after these keys fill the last panel of keys.
static void weigh_panel(const struct backward *f, struct work *w, int64_t i, int64_t key, int64_t n) {
    const struct attend *a = &f->a;
    const int64_t cols = a->kernel->cols, count = MIN_OF(cols, w->count - i);
    struct attention_span span = attention_span(a, w->first + i, count);
    cpu_attention_multiply(a, n, a->dim, a->dim, w->k, w->q + attention_packed(a, cols, i, a->dim),
                           w->weights, false);
    cpu_attention_multiply(a, n, a->width, a->width, w->v, w->g + attention_packed(a, cols, i, a->width),
                           w->dscores, false);
    if (a->mask.data || span.least < key + n || !(a->scale > 0)) {
        a->code->scale(w->weights, n * cols, a->scale);
        cpu_attention_mask(a, w->b, w->m, w->first + i, count, key, n, w->room, w->weights);
        a->code->weigh(w->weights, w->dscores, n, cols, w->most + i, w->inverse + i, w->less + i);
    } else {
        float unused[GEMM_COLS_MOST] = {0};
        int64_t keys = attention_round(n, a->kernel->step);
        a->code->exp_sum(w->weights, keys, cols, a->scale, w->top + i, unused, w->room);
        a->code->softmax_vjp(w->weights, w->dscores, n, cols, w->less + i);
    }
    size_t rest = sizeof(float) * (size_t)((attention_round(n, cols) - n) * cols);
    memset(w->weights + n * cols, 0, rest);
    memset(w->dscores + n * cols, 0, rest);
}

// Transposes a panel of queries by n keys into panels of keys. The first of the queries becomes row i of
// each.
static void transpose_panel(const struct attend *a, const float *from, int64_t n, int64_t i, float *to) {
    const int64_t cols = a->kernel->cols, row = cols * (int64_t)sizeof(float);
    for (int64_t j = 0; j < n; j += cols)
        cpu_transpose(sizeof(float), (char *)(to + j * QUERIES + i * cols), row,
                      (const char *)(from + j * cols), row, cols, cols);
}

// Adds what a block of queries, from row i on, and n keys contribute to dq, dk and dv; of the keys, only
// those that the queries see.
static void run_block(const struct backward *f, struct work *w, int64_t i, int64_t key, int64_t n) {
    const struct attend *a = &f->a;
    const int64_t cols = a->kernel->cols, rows = a->kernel->rows, count = MIN_OF(QUERIES, w->count - i);
    const int64_t packed = n;
    n = MIN_OF(n, attention_span(a, w->first + i, count).most - key);
    for (int64_t at = 0; n > 0 && at < count; at += cols) {
        weigh_panel(f, w, i + at, key, n);
        transpose_panel(a, w->weights, n, at, w->weights_t);
        transpose_panel(a, w->dscores, n, at, w->dscores_t);
        cpu_attention_multiply(a, a->dim, n, packed, w->k_cols, (char *)w->dscores,
                               panel_of(a, w->dq, i + at, a->dim), true);
    }
    const char *q = w->q_cols + attention_packed(a, rows, a->dim, i),
               *g = w->g_cols + attention_packed(a, rows, a->width, i);
    for (int64_t j = 0; j < n; j += cols) {
        const char *dscores = (char *)(w->dscores_t + j * QUERIES),
                   *weights = (char *)(w->weights_t + j * QUERIES);
        cpu_attention_multiply(a, a->dim, count, count, q, dscores, panel_of(a, w->dk, key + j, a->dim),
                               true);
        cpu_attention_multiply(a, a->width, count, count, g, weights, panel_of(a, w->dv, key + j, a->width),
                               true);
    }
}

// Stores panels, multiplied by scale, as rows of a result, from `row` on.
static void put(const struct backward *f, struct work *w, int which, int64_t row, int64_t count, float *from,
                float scale) {
    const struct attend *a = &f->a;
    const int64_t cols = a->kernel->cols, columns = f->out[which].cols;
    for (int64_t i = 0; i < count; i += cols) {
        float *panel = panel_of(a, from, i, columns);
        a->code->scale(panel, columns * cols, scale);
        cpu_attention_put(&f->out[which], w->b, w->m, row + i, MIN_OF(cols, count - i), panel, cols, w->room);
    }
}

static void run_rows(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    const int64_t rows = attention_round(w->count, a->kernel->cols);
    start_rows(f, w);
    pack_queries(f, w);
    memset(w->dq, 0, sizeof(float) * (size_t)(rows * attention_round(a->dim, a->kernel->rows)));
    int64_t seen = attention_span(a, w->first, w->count).most;
    for (int64_t key = 0, n; key < seen; key += n) {
        n = MIN_OF(KEYS, a->keys - key);
        pack_keys(f, w, key, n);
        for (int64_t i = 0; i < w->count; i += QUERIES)
            run_block(f, w, i, key, n);
    }
    put(f, w, 0, w->first, w->count, w->dq, a->scale);
}

static void put_keys(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    put(f, w, 1, 0, a->keys, w->dk, a->scale);
    put(f, w, 2, 0, a->keys, w->dv, 1);
}

static void run_part(const struct backward *f, struct work *w, int64_t part) {
    const struct attend *a = &f->a;
    memset(w->dk, 0, sizeof(float) * (size_t)keys_size(f, false));
    memset(w->dv, 0, sizeof(float) * (size_t)(keys_size(f, true) - keys_size(f, false)));
    for (w->first = part * f->chunk; w->first < a->rows; w->first += f->parts * f->chunk) {
        w->count = MIN_OF(f->chunk, a->rows - w->first);
        run_rows(f, w);
    }
}

// Calls `one` for the parts from `at` to `end`, of which each matrix has `parts`.
static void run_each(const void *context, int64_t at, int64_t end, int64_t parts,
                     void (*one)(const struct backward *f, struct work *w, int64_t matrix, int64_t part)) {
    struct backward *f = (struct backward *)(uintptr_t)context;
    struct work w;
    if (!open_work(f, &w)) {
        atomic_store(&f->failed, true);
        return;
    }
    for (; at < end; at++) {
        int64_t matrix = at / parts;
        w.b = matrix / f->a.matrices;
        w.m = matrix % f->a.matrices;
        one(f, &w, matrix, at % parts);
    }
}

static void run_one(const struct backward *f, struct work *w, int64_t matrix, int64_t part) {
    if (f->sums)
        set_sums(f, w, matrix, part);
    run_part(f, w, part);
    if (!f->sums)
        put_keys(f, w);
}

static void add_parts(const struct backward *f, struct work *w, int64_t matrix, int64_t unused) {
    (void)unused;
    for (int64_t part = 1; part < f->parts; part++) {
        set_sums(f, w, matrix, part);
        const float *more = w->dk;
        set_sums(f, w, matrix, 0);
        f->a.code->add(w->dk, more, keys_size(f, true));
    }
    put_keys(f, w);
}

static void run_range(const void *context, int64_t at, int64_t end) {
    run_each(context, at, end, ((const struct backward *)context)->parts, run_one);
}

static void add_range(const void *context, int64_t at, int64_t end) {
    run_each(context, at, end, 1, add_parts);
}

// Divides each matrix into about one part per thread, and its rows into chunks of about equal length.
static bool cut(struct backward *f) {
    const int64_t matrices = f->a.batch * f->a.matrices, most = (f->a.rows + QUERIES - 1) / QUERIES;
    f->parts = MAX_OF(MIN_OF((pool_threads() + matrices - 1) / matrices, most), 1);
    f->chunk = ROWS;
    if (f->parts == 1)
        return true;
    f->chunk = MIN_OF(ROWS, attention_round((f->a.rows + 2 * f->parts - 1) / (2 * f->parts), QUERIES));
    f->sums = cpu_scratch(SCRATCH_SHARED,
                          sizeof(float) * (size_t)(matrices * f->parts * keys_size(f, true)) + GEMM_SLACK);
    return f->sums;
}

bool cpu_attention_vjp(const struct call *c) {
    struct attention from = op_attention_read(c, c->in);
    union scalar room;
    struct backward f = {0};
    zl_array state = from.state;
    if (!cpu_attention_open(&f.a, &from))
        return false;
    f.a.kernel = cpu_attention_kernel(ZL_FLOAT32, f.a.rows);
    cpu_attention_input(&f.a, &f.y, from.y, 4, f.a.q.share);
    cpu_attention_input(&f.a, &f.g, from.g, 5, f.a.q.share);
    f.state = array_data(state, &room);
    for (int i = 0; i < 3; i++)
        cpu_attention_output(&f.out[i], call_output(c, i), i == 0 ? f.a.q.share : 1);
    f.drain = from.sinks ? (float *)(void *)cpu_data(call_output(c, 3)) : NULL;
    atomic_init(&f.failed, false);
    const int64_t matrices = f.a.batch * f.a.matrices;
    bool ok = cut(&f);
    if (ok)
        cpu_split(matrices * f.parts, 1, run_range, &f);
    if (ok && f.sums)
        cpu_split(matrices, 1, add_range, &f);
    memory_free(f.a.sinks);
    return ok && !atomic_load(&f.failed);
}
