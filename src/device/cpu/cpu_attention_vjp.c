// cpu_attention_vjp.c - cotangents of q, k and v: scores are computed again, block by block, from the largest and the sum
// that the forward pass has kept. A thread takes all of one matrix of keys, so that nothing is added up by two.

#include "device/cpu/attention.h"

#include <math.h>

enum { BLOCK = 64 }; // queries and keys of a block

struct backward {
    struct attend a;
    struct attention_input y, g;
    const float *state;
    char *out[3]; // dq, dk, dv
    float *drain; // what each query adds to the cotangents of the sinks; NULL: there are none
    int64_t item;
    row_fn *narrow; // NULL: they are float32
    atomic_bool failed;
};

// In the scratch of a thread. Sizes of rows are whole panels.
struct work {
    int64_t b, m, dim, width;
    float *dq;                                // all rows
    float *dk, *dv;                           // a block of keys
    float *most, *inverse, *less;             // of all rows
    float *k_cols, *k_rows, *v_cols;          // a block of keys, twice, and of values
    float *q_cols, *q_rows, *g_cols, *g_rows; // a block of queries and of the cotangents of their results
    float *weights, *slopes;                  // panels of queries
    float *weights_turned, *slopes_turned;    // panels of keys
    float *room;
};

static float *take(float **at, int64_t count) {
    float *here = *at;
    *at += count;
    return here;
}

static bool open_work(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    int64_t rows = attention_panels(a->rows), dim = attention_panels(a->dim),
            width = attention_panels(a->width);
    int64_t widest = MAX_OF(MAX_OF(dim, width), 2 * PANEL);
    int64_t floats = rows * (dim + 3) + BLOCK * (5 * dim + 4 * width + 4 * BLOCK + widest);
    float *at = cpu_scratch(SCRATCH_WORK, sizeof(float) * (size_t)floats);
    if (!at)
        return false;
    w->dim = dim, w->width = width;
    w->dq = take(&at, rows * dim);
    w->most = take(&at, rows), w->inverse = take(&at, rows), w->less = take(&at, rows);
    w->dk = take(&at, BLOCK * dim), w->dv = take(&at, BLOCK * width);
    w->k_cols = take(&at, BLOCK * dim), w->k_rows = take(&at, BLOCK * dim),
    w->v_cols = take(&at, BLOCK * width);
    w->q_cols = take(&at, BLOCK * dim), w->q_rows = take(&at, BLOCK * dim);
    w->g_cols = take(&at, BLOCK * width), w->g_rows = take(&at, BLOCK * width);
    w->weights = take(&at, BLOCK * BLOCK), w->slopes = take(&at, BLOCK * BLOCK);
    w->weights_turned = take(&at, BLOCK * BLOCK), w->slopes_turned = take(&at, BLOCK * BLOCK);
    w->room = at;
    return true;
}

// What is known of each row. Rows that fill up a panel have no weight.
static void start(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    const float *state = f->state + 2 * (w->b * a->matrices + w->m) * a->rows;
    int64_t unused, count = attention_panels(a->rows);
    float *room = w->g_rows;
    memset(w->dq, 0, sizeof(float) * (size_t)(count * w->dim));
    for (int64_t i = 0; i < count; i++) {
        w->most[i] = i < a->rows ? state[2 * i] : 0;
        w->inverse[i] = i < a->rows ? 1 / state[2 * i + 1] : 0;
        w->less[i] = 0;
        if (i >= a->rows)
            continue;
        const float *y = cpu_attention_read(&f->y, w->b, w->m, i, 1, w->room, &unused);
        const float *g = cpu_attention_read(&f->g, w->b, w->m, i, 1, room, &unused);
        a->code->dots(y, 0, 1, g, a->width, &w->less[i]);
        if (f->drain)
            f->drain[(w->b * a->matrices + w->m) * a->rows + i] =
                -expf(attention_sink(a, w->b, w->m, i) - w->most[i]) * w->inverse[i] * w->less[i];
    }
}

// Weights and slopes of a panel of queries, row i of all, by n keys.
static void weigh_panel(const struct backward *f, struct work *w, int64_t first, int64_t i, int64_t key,
                        int64_t n) {
    const struct attend *a = &f->a;
    int64_t at = i / PANEL * BLOCK * PANEL, whole = attention_panels(n);
    float *weights = w->weights + at, *slopes = w->slopes + at;
    struct attention_span span = attention_span(a, first + i, MIN_OF(PANEL, a->rows - first - i));
    for (int64_t j = 0; j < n; j += PANEL) {
        a->code->multiply(a->dim, w->k_cols + j * a->dim, w->q_cols + i * a->dim, weights + j * PANEL, PANEL,
                          false);
        a->code->multiply(a->width, w->v_cols + j * a->width, w->g_cols + i * a->width, slopes + j * PANEL,
                          PANEL, false);
    }
    if (a->mask.data || span.least < key + n)
        cpu_attention_mask(a, w->b, w->m, first + i, MIN_OF(PANEL, a->rows - first - i), key, n, w->room,
                           weights);
    a->code->weigh(weights, slopes, n, w->most + first + i, w->inverse + first + i, w->less + first + i);
    memset(weights + n * PANEL, 0, sizeof(float) * (size_t)((whole - n) * PANEL));
    memset(slopes + n * PANEL, 0, sizeof(float) * (size_t)((whole - n) * PANEL));
}

// Panels of queries as panels of keys.
static void turn(const float *from, float *to, int64_t count, int64_t n) {
    const int64_t row = PANEL * sizeof(float);
    for (int64_t i = 0; i < count; i += PANEL)
        for (int64_t j = 0; j < n; j += PANEL)
            cpu_transpose(sizeof(float), (char *)(to + j * BLOCK + i * PANEL), row,
                          (const char *)(from + i * BLOCK + j * PANEL), row, PANEL, PANEL);
}

// y (count x cols) += panels times stripes of n rows.
static void add_product(const struct attend *a, float *y, int64_t count, int64_t cols, const float *panels,
                        const float *stripes, int64_t n) {
    for (int64_t i = 0; i < count; i += PANEL)
        for (int64_t e = 0; e < cols; e += PANEL)
            a->code->multiply(n, panels + i * BLOCK, stripes + e * n, y + i * cols + e, cols, true);
}

// count queries with n keys.
static void run_block(const struct backward *f, struct work *w, int64_t first, int64_t count, int64_t key,
                      int64_t n) {
    const struct attend *a = &f->a;
    if (key >= attention_span(a, first, count).most)
        return;
    cpu_attention_by_columns(&a->q, w->b, w->m, first, count, w->room, w->q_cols);
    cpu_attention_by_columns(&f->g, w->b, w->m, first, count, w->room, w->g_cols);
    cpu_attention_by_rows(&a->q, w->b, w->m, first, count, w->room, w->q_rows);
    cpu_attention_by_rows(&f->g, w->b, w->m, first, count, w->room, w->g_rows);
    a->code->scale(w->q_cols, attention_panels(count) * a->dim, a->scale);
    for (int64_t i = 0; i < count; i += PANEL)
        weigh_panel(f, w, first, i, key, n);
    turn(w->weights, w->weights_turned, count, n);
    turn(w->slopes, w->slopes_turned, count, n);
    add_product(a, w->dq + first * w->dim, count, w->dim, w->slopes, w->k_rows, n);
    add_product(a, w->dk, n, w->dim, w->slopes_turned, w->q_rows, count);
    add_product(a, w->dv, n, w->width, w->weights_turned, w->g_rows, count);
}

static void put(const struct backward *f, int which, int64_t row, int64_t count, float *from, int64_t stride,
                int64_t cols, float scale) {
    for (int64_t i = 0; i < count; i++, from += stride) {
        char *to = f->out[which] + (row + i) * cols * f->item;
        f->a.code->scale(from, cols, scale);
        if (f->narrow)
            cpu_call_row(f->narrow, to, (char *)from, NULL, NULL, cols);
        else
            memcpy(to, from, sizeof(float) * (size_t)cols);
    }
}

static void run_matrix(const struct backward *f, struct work *w) {
    const struct attend *a = &f->a;
    int64_t matrix = w->b * a->matrices + w->m;
    start(f, w);
    for (int64_t key = 0; key < a->keys; key += BLOCK) {
        int64_t n = MIN_OF(BLOCK, a->keys - key);
        cpu_attention_by_columns(&a->k, w->b, w->m, key, n, w->room, w->k_cols);
        cpu_attention_by_rows(&a->k, w->b, w->m, key, n, w->room, w->k_rows);
        cpu_attention_by_columns(&a->v, w->b, w->m, key, n, w->room, w->v_cols);
        memset(w->dk, 0, sizeof(float) * (size_t)(BLOCK * w->dim));
        memset(w->dv, 0, sizeof(float) * (size_t)(BLOCK * w->width));
        for (int64_t first = 0; first < a->rows; first += BLOCK)
            run_block(f, w, first, MIN_OF(BLOCK, a->rows - first), key, n);
        put(f, 1, matrix * a->keys + key, n, w->dk, w->dim, a->dim, a->scale);
        put(f, 2, matrix * a->keys + key, n, w->dv, w->width, a->width, 1);
    }
    put(f, 0, matrix * a->rows, a->rows, w->dq, w->dim, a->dim, a->scale);
}

static void run_range(const void *context, int64_t at, int64_t end) {
    struct backward *f = (struct backward *)(uintptr_t)context;
    struct work w;
    if (!open_work(f, &w)) {
        atomic_store(&f->failed, true);
        return;
    }
    for (; at < end; at++) {
        w.b = at / f->a.matrices;
        w.m = at % f->a.matrices;
        run_matrix(f, &w);
    }
}

bool cpu_attention_vjp(const struct call *c) {
    struct attention from = op_attention_read(c, c->in);
    zl_dtype dtype = (zl_dtype)from.q->dtype;
    union scalar room;
    struct backward f = {.item = (int64_t)zl_dtype_size(dtype)};
    zl_array state = from.state;
    if (!cpu_attention_open(&f.a, &from))
        return false;
    cpu_attention_input(&f.a, &f.y, from.y, 4, f.a.q.share);
    cpu_attention_input(&f.a, &f.g, from.g, 5, f.a.q.share);
    f.state = array_data(state, &room);
    f.narrow = dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    for (int i = 0; i < 3; i++)
        f.out[i] = cpu_data(call_output(c, i));
    f.drain = from.sinks ? (float *)(void *)cpu_data(call_output(c, 3)) : NULL;
    atomic_init(&f.failed, false);
    cpu_split(f.a.batch * f.a.matrices, 1, run_range, &f);
    memory_free(f.a.sinks);
    return !atomic_load(&f.failed);
}
