// cpu_attention.c - attention by blocks of queries and keys: a softmax whose largest score and sum are not known before the
// last block, so that what was added up is corrected when a block has a larger one. No matrix of all scores exists.

#include "device/cpu/attention.h"

enum {
    ROWS = 256,            // queries of a block
    KEYS = 64,             // of a block: with their values they stay in L1
    FEW = 7,               // rows for which keys are read where they are
    FLOPS_LEAST = 1 << 19, // that are worth another thread
};

struct forward {
    struct attend a;
    char *out;
    int64_t out_item;
    row_fn *narrow; // NULL: the result is float32
    float *state;
    bool half;             // products are those of attention_bf16.c
    int64_t block, blocks; // rows of one, and how many a matrix has
    atomic_bool failed;
};

// What one block works with, in the scratch of its thread.
struct work {
    float *q, *y; // panels of queries, by columns, and of results
    float *keys, *values, *scores, *room;
    float *weights; // scores as half floats
    float most[ROWS], sum[ROWS];
    int64_t b, m, first, count; // of rows
    int64_t seen;               // keys that any of them sees
};

static bool open_work(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    int64_t width = attention_panels(a->width), dim = attention_panels(a->dim),
            rows = attention_panels(f->block);
    int64_t room = KEYS * MAX_OF(MAX_OF(dim, width), 2 * PANEL);
    float *at =
        cpu_scratch(SCRATCH_WORK, sizeof(float) * (size_t)(rows * (dim + width) + KEYS * (dim + width) +
                                                           2 * KEYS * PANEL + room));
    if (!at)
        return false;
    w->q = at, at += rows * dim;
    w->y = at, at += rows * width;
    w->keys = at, at += KEYS * dim;
    w->values = at, at += KEYS * width;
    w->scores = at, at += KEYS * PANEL;
    w->weights = at, at += KEYS * PANEL;
    w->room = at;
    return true;
}

static void start(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    w->seen = attention_span(a, w->first, w->count).most;
    for (int64_t i = 0; i < w->count; i++) {
        w->most[i] = a->sinks ? attention_sink(a, w->b, w->m, w->first + i) : HIDDEN;
        w->sum[i] = a->sinks ? 1 : 0;
    }
    for (int64_t i = w->count; i < attention_panels(w->count); i++)
        w->most[i] = HIDDEN, w->sum[i] = 0;
}

static void finish(const struct forward *f, struct work *w, int64_t row) {
    const struct attend *a = &f->a;
    int64_t at = (w->b * a->matrices + w->m) * a->rows + w->first; // heads that share keys are neighbours
    for (int64_t i = 0; i < w->count; i++, at++) {
        float *y = w->y + i * row;
        char *to = f->out + at * a->width * f->out_item;
        a->code->scale(y, a->width, 1 / w->sum[i]);
        if (f->narrow)
            cpu_call_row(f->narrow, to, (char *)y, NULL, NULL, a->width);
        else
            memcpy(to, y, sizeof(float) * (size_t)a->width);
        f->state[2 * at] = w->most[i];
        f->state[2 * at + 1] = w->sum[i];
    }
}

// Panels -------------------------------------------------------------------------------------------------------------

static void score(const struct forward *f, struct work *w, int64_t i, int64_t n) {
    const struct attend *a = &f->a;
    for (int64_t j = 0; j < n; j += PANEL)
        if (f->half)
            cpu_attention_half_scores(a->dim, (char *)w->keys + cpu_attention_half_bytes(j, a->dim),
                                      (char *)w->q + cpu_attention_half_bytes(i, a->dim), a->scale,
                                      w->scores + j * PANEL);
        else
            a->code->multiply(a->dim, w->keys + j * a->dim, w->q + i * a->dim, w->scores + j * PANEL, PANEL,
                              false);
}

static void correct(const struct forward *f, float *y, int64_t width, const float *factor) {
    for (int64_t e = 0; f->half && e < width; e += PANEL)
        cpu_attention_half_correct(y + e * PANEL, factor);
    for (int i = 0; !f->half && i < PANEL; i++)
        f->a.code->scale(y + i * width, width, factor[i]);
}

static void add_values(const struct forward *f, struct work *w, float *y, int64_t width, int64_t n) {
    if (f->half)
        cpu_attention_half_weights(w->scores, n, (char *)w->weights);
    for (int64_t e = 0; e < width; e += PANEL)
        if (f->half)
            cpu_attention_half_add(n, (char *)w->weights, (char *)w->values + cpu_attention_half_bytes(e, n),
                                   y + e * PANEL);
        else
            f->a.code->multiply(n, w->scores, w->values + e * n, y + e, width, true);
}

// One panel of queries, row i of w on, with n keys.
static void attend_panel(const struct forward *f, struct work *w, int64_t i, int64_t key, int64_t n) {
    const struct attend *a = &f->a;
    int64_t width = attention_panels(a->width), count = MIN_OF(PANEL, w->count - i);
    float *y = w->y + i * width, factor[PANEL];
    struct attention_span span = attention_span(a, w->first + i, count);
    if (key >= span.most)
        return;
    score(f, w, i, n);
    if (a->mask.data || span.least < key + n)
        cpu_attention_mask(a, w->b, w->m, w->first + i, count, key, n, w->room, w->scores);
    if (a->code->soften(w->scores, n, w->most + i, w->sum + i, factor))
        correct(f, y, width, factor);
    add_values(f, w, y, width, n);
}

static void read_queries(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    if (f->half) {
        cpu_attention_half_rows(&a->q, w->b, w->m, w->first, w->count, w->room, (char *)w->q);
        return;
    }
    cpu_attention_by_columns(&a->q, w->b, w->m, w->first, w->count, w->room, w->q);
    a->code->scale(w->q, attention_panels(w->count) * a->dim, a->scale);
}

static void read_keys(const struct forward *f, struct work *w, int64_t key, int64_t n) {
    const struct attend *a = &f->a;
    if (f->half) {
        cpu_attention_half_rows(&a->k, w->b, w->m, key, n, w->room, (char *)w->keys);
        cpu_attention_half_values(&a->v, w->b, w->m, key, n, w->room, (char *)w->values);
    } else {
        cpu_attention_by_columns(&a->k, w->b, w->m, key, n, w->room, w->keys);
        cpu_attention_by_rows(&a->v, w->b, w->m, key, n, w->room, w->values);
    }
}

// Squares of two by two as rows.
static void lay_out(float *y, int64_t width, float *room) {
    memcpy(room, y, sizeof(float) * (size_t)(PANEL * width));
    for (int64_t i = 0; i < PANEL; i++)
        for (int64_t e = 0; e < width; e++) {
            int64_t square = e / PANEL * PANEL * PANEL + (i / 2 * (PANEL / 2) + e % PANEL / 2) * 4;
            y[i * width + e] = room[square + i % 2 * 2 + e % 2];
        }
}

static void attend_panels(const struct forward *f, struct work *w) {
    int64_t width = attention_panels(f->a.width), rows = attention_panels(w->count);
    read_queries(f, w);
    memset(w->y, 0, sizeof(float) * (size_t)(rows * width));
    for (int64_t key = 0; key < w->seen; key += KEYS) {
        int64_t n = MIN_OF(KEYS, w->seen - key);
        read_keys(f, w, key, n);
        for (int64_t i = 0; i < w->count; i += PANEL)
            attend_panel(f, w, i, key, n);
    }
    for (int64_t i = 0; f->half && i < rows; i += PANEL)
        lay_out(w->y + i * width, width, w->room);
    finish(f, w, width);
}

// Few rows -----------------------------------------------------------------------------------------------------------

static void attend_few(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    int64_t row;
    float factor;
    for (int64_t i = 0; i < w->count; i++) {
        const float *q = cpu_attention_read(&a->q, w->b, w->m, w->first + i, 1, w->room, &row);
        memcpy(w->q + i * a->dim, q, sizeof(float) * (size_t)a->dim);
    }
    a->code->scale(w->q, w->count * a->dim, a->scale);
    memset(w->y, 0, sizeof(float) * (size_t)(w->count * a->width));
    for (int64_t key = 0; key < w->seen; key += KEYS) {
        int64_t n = MIN_OF(KEYS, w->seen - key), value;
        const float *keys = cpu_attention_read(&a->k, w->b, w->m, key, n, w->keys, &row);
        const float *values = cpu_attention_read(&a->v, w->b, w->m, key, n, w->room, &value);
        for (int64_t i = 0; i < w->count; i++) {
            float *y = w->y + i * a->width;
            a->code->dots(keys, row, n, w->q + i * a->dim, a->dim, w->scores);
            cpu_attention_mask_row(a, w->b, w->m, w->first + i, key, n, w->values, w->scores);
            if (a->code->soften_row(w->scores, n, &w->most[i], &w->sum[i], &factor))
                a->code->scale(y, a->width, factor);
            a->code->add_rows(values, value, n, w->scores, a->width, y);
        }
    }
    finish(f, w, a->width);
}

// All of them --------------------------------------------------------------------------------------------------------

static void run_range(const void *context, int64_t at, int64_t end) {
    struct forward *f = (struct forward *)(uintptr_t)context;
    struct work w;
    if (!open_work(f, &w)) {
        atomic_store(&f->failed, true);
        return;
    }
    for (; at < end; at++) {
        w.b = at / f->blocks / f->a.matrices;
        w.m = at / f->blocks % f->a.matrices;
        w.first = at % f->blocks * f->block;
        w.count = MIN_OF(f->block, f->a.rows - w.first);
        start(f, &w);
        (w.count <= FEW ? attend_few : attend_panels)(f, &w);
    }
}

// Blocks for all threads, as large as that allows.
static void cut(struct forward *f) {
    const struct attend *a = &f->a;
    int64_t matrices = a->batch * a->matrices, wanted = (4 * pool_threads() + matrices - 1) / matrices;
    int64_t each = attention_panels((a->rows + wanted - 1) / wanted);
    f->block = MIN_OF(ROWS, MAX_OF(each, ROWS / 8));
    f->blocks = (a->rows + f->block - 1) / f->block;
}

bool cpu_attention(const struct call *c) {
    struct attention from = op_attention_read(c, c->in);
    zl_array out = call_output(c, 0);
    struct forward f = {.out = cpu_data(out), .out_item = (int64_t)array_item(out)};
    if (!cpu_attention_open(&f.a, &from))
        return false;
    f.state = (float *)(void *)cpu_data(call_output(c, 1));
    f.narrow = out->dtype == ZL_FLOAT32 ? NULL : cpu_level()->rows->cast[out->dtype][ZL_FLOAT32];
    f.half = cpu_attention_has_half((zl_dtype)out->dtype);
    atomic_init(&f.failed, false);
    cut(&f);
    double flops = 2.0 * (double)MIN_OF(f.block, f.a.rows) * (double)f.a.keys * (double)(f.a.dim + f.a.width);
    int64_t items = f.a.batch * f.a.matrices * f.blocks;
    double grain = FLOPS_LEAST / flops;
    cpu_split(items, grain < (double)items ? (int64_t)grain + 1 : items, run_range, &f);
    memory_free(f.a.sinks);
    return !atomic_load(&f.failed);
}
