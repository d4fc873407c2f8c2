// cpu_attention.c - the forward pass of attention, by blocks of queries and keys with an online softmax: the
// largest score and the sum of a row are known only after the last block, so that sums computed so far are
// corrected when a block has a larger score. The matrix of all scores is never stored.

#include "device/cpu/attention/attention.h"
#include "device/cpu/rows/operands.h"

#include <math.h>

enum {
    ROWS = 2048, // queries per block; keys are packed once for each block
    ROWS_LEAST = 16,
    KEYS = 512,    // per block: they and their values fit into L2, the scores of a panel of queries into L1
    FEW = 7,       // up to so many rows, keys are not packed
    FEW_KEYS = 64, // keys per block in that case
    FLOPS_LEAST = 1 << 19, // operations that are worth another thread
    TOP_MOST = 36,         // largest bound of scores: weights are 2^-72 or more, far from underflow
    TOP_ROWS = 96,         // the fewest rows of a block that make it worth computing the lengths of keys
    INVARIANT_KEYS = 64,   // up to so many keys, computing all rows in the same way costs nothing
};

struct forward {
    struct attend a;
    struct attention_output out;
    float *state;
    float scale;           // applied when weights are computed; 1 if scores are scaled before masking
    int64_t block, blocks; // rows per block, and blocks per matrix
    bool invariant;        // rows must not depend on each other: panels for all, and no bound of scores
    atomic_bool failed;
};

// The arrays of one block, in the scratch memory of its thread.
struct work {
    char *q, *keys, *values; // packed
    char *weights;           // of a panel of queries, packed as bf16; float32 weights replace the scores
    float *scores, *y;       // y: for each panel of queries, a row per column of the values
    float *most, *sum;       // one number per row of the block
    float *room;
    int64_t b, m, first, count; // of the block's rows
    int64_t seen;               // the most keys that count for one of the rows
    float top;                  // the bound of the scores (find_top), or 0
};

static void *take(char *at, size_t *used, int64_t bytes) {
    size_t before = *used;
    *used += (size_t)attention_round(bytes, 64);
    return at ? at + before : NULL;
}

// Assigns the arrays their addresses from `at` on, unless that is NULL. Returns the bytes that they take.
static size_t lay_out(const struct forward *f, struct work *w, char *at) {
    const struct attend *a = &f->a;
    const struct gemm_kernel *u = a->kernel;
    const int64_t word = sizeof(float), rows = f->block, widest = MAX_OF(a->dim, a->width);
    size_t used = 0;
    w->q = take(at, &used, attention_packed(a, u->cols, rows, a->dim));
    w->keys = take(at, &used, attention_packed(a, u->rows, KEYS, a->dim));
    w->values = take(at, &used, attention_packed(a, u->rows, a->width, KEYS));
    w->scores = take(at, &used, (KEYS + u->rows) * u->cols * word);
    w->weights = take(at, &used, attention_packed(a, u->cols, u->cols, KEYS));
    w->y = take(at, &used, rows * attention_round(a->width, u->rows) * word);
    w->most = take(at, &used, rows * word);
    w->sum = take(at, &used, rows * word);
    w->room = take(at, &used, MAX_OF(2 * u->cols * KEYS, MAX_OF(u->cols, FEW_KEYS) * widest) * word);
    return used + GEMM_SLACK;
}

static bool open_work(const struct forward *f, struct work *w) {
    char *at = cpu_scratch(SCRATCH_WORK, lay_out(f, w, NULL));
    if (at)
        lay_out(f, w, at);
    return at;
}

static void start(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    w->seen = attention_span(a, w->first, w->count).most;
    w->top = 0;
    for (int64_t i = 0; i < w->count; i++) {
        w->most[i] = a->sinks ? attention_sink(a, w->b, w->m, w->first + i) : MASKED;
        w->sum[i] = a->sinks ? 1 : 0;
    }
    for (int64_t i = w->count; i < attention_round(w->count, a->kernel->cols); i++)
        w->most[i] = MASKED, w->sum[i] = 0;
}

// Stores the largest score and the sum of each row for the backward pass. Heads that share keys are
// consecutive.
static void keep_state(const struct forward *f, const struct work *w, float scale) {
    float *to = f->state + 2 * ((w->b * f->a.matrices + w->m) * f->a.rows + w->first);
    const float most = w->top * (float)M_LN2, rest = (float)exp(w->top * M_LN2 - most);
    for (int64_t i = 0; w->top > 0 && i < w->count; i++)
        to[2 * i] = most, to[2 * i + 1] = w->sum[i] * rest;
    if (w->top > 0)
        return;
    for (int64_t i = 0; i < w->count; i++) {
        to[2 * i] = w->most[i] == MASKED ? MASKED : w->most[i] * scale;
        to[2 * i + 1] = w->sum[i];
    }
}

// Scores that are small -------------------------------------------------------------------------------------
// No score is larger in magnitude than the length of the longest query times the length of the longest key.
// If that bound is small, softmax does not need the largest score of each row: queries are scaled so that
// scores are exponents of 2, and the bound is subtracted from all of them.

static float longest(const struct attend *a, const struct attention_input *x, const struct work *w,
                     int64_t first, int64_t count) {
    float most = 0;
    for (int64_t i = 0, n, row; i < count; i += n) {
        n = MIN_OF(FEW_KEYS, count - i);
        const float *at = cpu_attention_read(x, w->b, w->m, first + i, n, w->room, &row);
        float next = a->code->longest(at, row, n, a->dim);
        most = next <= most ? most : next;
    }
    return most;
}

static float exponents(const struct attend *a) {
    return a->scale * (float)M_LOG2E;
}

// Returns the bound of the block's scores, or 0 if they may be large. Also returns 0 if a query may see no
// key: then all keys count alike, which weights of 0 cannot express.
static float find_top(const struct forward *f, const struct work *w) {
    const struct attend *a = &f->a;
    if (f->invariant || a->mask.data || a->sinks || !(a->scale > 0) || a->kernel->dtype != ZL_FLOAT32 ||
        w->count < TOP_ROWS || (a->causal && a->q.lines > a->keys))
        return 0;
    float square = longest(a, &a->q, w, w->first, w->count) * longest(a, &a->k, w, 0, w->seen);
    float top = ceilf(sqrtf(square) * exponents(a)) + 1;
    return top <= TOP_MOST ? top : 0; // 0 if it is NaN
}

// Panels ----------------------------------------------------------------------------------------------------

// Turns the scores of n keys into packed weights and returns their address. Keys that only pad the last step
// of the kernel get a weight of 0.
static const char *pack_weights(const struct forward *f, struct work *w, int64_t i, int64_t n) {
    const struct attention_code *code = f->a.code;
    const int64_t cols = f->a.kernel->cols, keys = attention_round(n, f->a.kernel->step);
    const bool half = f->a.kernel->dtype == ZL_BFLOAT16;
    for (int64_t j = n * cols; j < keys * cols; j++)
        w->scores[j] = w->top > 0 ? ATTENTION_NONE(w->top) : -INFINITY;
    if (w->top > 0)
        code->power(w->scores, keys, cols, w->top, w->sum + i);
    else if (half)
        code->exp_sum_bf16(w->scores, keys, f->a.kernel, f->scale, w->most + i, w->sum + i, w->room,
                           w->weights);
    else
        code->exp_sum(w->scores, keys, cols, f->scale, w->most + i, w->sum + i, w->room);
    return half ? w->weights : (const char *)w->scores;
}

// Adds what a block of keys, from `key` on, contributes to one panel of queries, from row i of w on. `packed`
// keys of the block are packed. The first block contains keys that count for every panel, so that it sets y,
// and the others add to it.
static void attend_panel(const struct forward *f, struct work *w, int64_t i, int64_t key, int64_t packed) {
    const struct attend *a = &f->a;
    const struct gemm_kernel *u = a->kernel;
    const int64_t width = attention_round(a->width, u->rows), count = MIN_OF(u->cols, w->count - i);
    float *y = w->y + i * width, factor[GEMM_COLS_MOST];
    struct attention_span span = attention_span(a, w->first + i, count);
    int64_t n = MIN_OF(packed, span.most - key);
    if (n <= 0)
        return;
    cpu_attention_multiply(a, n, a->dim, a->dim, w->keys, w->q + attention_packed(a, u->cols, i, a->dim),
                           w->scores, false);
    if (f->scale != a->scale)
        a->code->scale(w->scores, n * u->cols, a->scale);
    if (w->top > 0 && span.least < key + n)
        cpu_attention_mask_causal(a, w->first + i, count, key, n, ATTENTION_NONE(w->top), w->scores);
    else if (a->mask.data || span.least < key + n)
        cpu_attention_mask(a, w->b, w->m, w->first + i, count, key, n, w->room, w->scores);
    if (w->top == 0 && a->code->raise_max(w->scores, n, u->cols, f->scale, w->most + i, w->sum + i, factor) &&
        key > 0)
        a->code->scale_cols(y, width, u->cols, factor);
    cpu_attention_multiply(a, a->width, n, packed, w->values, pack_weights(f, w, i, n), y, key > 0);
}

// Divides the results of a panel of queries by their sums, and stores them as rows of the result.
static void finish_panel(const struct forward *f, struct work *w, int64_t i) {
    const struct attend *a = &f->a;
    const int64_t cols = a->kernel->cols, count = MIN_OF(cols, w->count - i);
    float *y = w->y + i * attention_round(a->width, a->kernel->rows), inverse[GEMM_COLS_MOST];
    for (int64_t j = 0; j < cols; j++)
        inverse[j] = 1 / w->sum[i + j];
    a->code->scale_cols(y, a->width, cols, inverse);
    cpu_attention_put(&f->out, w->b, w->m, w->first + i, count, y, cols, w->room);
}

static void attend_panels(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    const struct gemm_kernel *u = a->kernel;
    const int64_t rows = attention_round(w->count, u->cols);
    if (u->open)
        u->open();
    w->top = find_top(f, w);
    cpu_attention_pack_rows(a, &a->q, 1, w->b, w->m, w->first, w->count, (char *)w->room, w->q);
    if (w->top > 0)
        a->code->scale((float *)(void *)w->q, rows * attention_round(a->dim, u->step), exponents(a));
    if (w->seen == 0)
        memset(w->y, 0, sizeof(float) * (size_t)(rows * attention_round(a->width, u->rows)));
    for (int64_t key = 0; key < w->seen; key += KEYS) {
        int64_t n = MIN_OF(KEYS, w->seen - key);
        cpu_attention_pack_rows(a, &a->k, 0, w->b, w->m, key, n, (char *)w->room, w->keys);
        cpu_attention_pack_cols(a, &a->v, w->b, w->m, key, n, (char *)w->room, w->values);
        for (int64_t i = 0; i < w->count; i += u->cols)
            attend_panel(f, w, i, key, n);
    }
    if (u->close)
        u->close();
    for (int64_t i = 0; i < w->count; i += u->cols)
        finish_panel(f, w, i);
}

// Few rows --------------------------------------------------------------------------------------------------

static void finish_row(const struct forward *f, struct work *w, int64_t i) {
    const struct attend *a = &f->a;
    float *y = w->y + i * a->width;
    char *to = attention_place(&f->out, w->b, w->m, w->first + i);
    a->code->scale(y, a->width, 1 / w->sum[i]);
    if (f->out.narrow)
        cpu_call_row(f->out.narrow, to, (char *)y, NULL, NULL, a->width);
    else
        memcpy(to, y, sizeof(float) * (size_t)a->width);
}

// Some keys and their values, as float32.
struct few {
    const float *keys, *values;
    int64_t key, n, row, value; // the first key and their number; floats between rows of keys, of values
};

// Adds what some keys contribute to `rows` queries, FOUR or one, from row i of w on.
static void attend_rows(const struct forward *f, struct work *w, const struct few *k, int64_t i,
                        int64_t rows) {
    const struct attend *a = &f->a;
    const float *queries = (const float *)(const void *)w->q + i * a->dim;
    float *y = w->y + i * a->width, factor;
    if (rows == FOUR)
        a->code->dots_of_four(k->keys, k->row, k->n, queries, a->dim, w->scores, FEW_KEYS, k->values);
    else
        a->code->dots(k->keys, k->row, k->n, queries, a->dim, w->scores);
    for (int64_t j = 0; j < rows; j++) {
        float *scores = w->scores + j * FEW_KEYS;
        cpu_attention_mask_row(a, w->b, w->m, w->first + i + j, k->key, k->n, (float *)(void *)w->values,
                               scores);
        if (a->code->softmax_row(scores, k->n, &w->most[i + j], &w->sum[i + j], &factor))
            a->code->scale(y + j * a->width, a->width, factor);
    }
    if (rows == FOUR)
        a->code->add_rows_to_four(k->values, k->value, k->n, w->scores, FEW_KEYS, a->width, y,
                                  k->keys + k->n * k->row);
    else
        a->code->add_rows(k->values, k->value, k->n, w->scores, a->width, y);
}

static void attend_few(const struct forward *f, struct work *w) {
    const struct attend *a = &f->a;
    float *queries = (float *)(void *)w->q;
    int64_t row;
    for (int64_t i = 0; i < w->count; i++) {
        const float *q = cpu_attention_read(&a->q, w->b, w->m, w->first + i, 1, w->room, &row);
        memcpy(queries + i * a->dim, q, sizeof(float) * (size_t)a->dim);
    }
    a->code->scale(queries, w->count * a->dim, a->scale);
    memset(w->y, 0, sizeof(float) * (size_t)(w->count * a->width));
    for (int64_t key = 0; key < w->seen; key += FEW_KEYS) {
        struct few k = {.key = key, .n = MIN_OF(FEW_KEYS, w->seen - key)};
        k.keys = cpu_attention_read(&a->k, w->b, w->m, key, k.n, (float *)(void *)w->keys, &k.row);
        k.values = cpu_attention_read(&a->v, w->b, w->m, key, k.n, w->room, &k.value);
        for (int64_t i = 0, rows; i < w->count; i += rows) {
            rows = i + FOUR <= w->count ? FOUR : 1;
            attend_rows(f, w, &k, i, rows);
        }
    }
    for (int64_t i = 0; i < w->count; i++)
        finish_row(f, w, i);
}

// All of them -----------------------------------------------------------------------------------------------

// Computes the blocks from `at` to `end`. Blocks are numbered so that the last rows of all matrices come
// first: causal ones see the most keys, and the shortest blocks are left for the end.
static void run_range(const void *context, int64_t at, int64_t end) {
    struct forward *f = (struct forward *)(uintptr_t)context;
    const int64_t matrices = f->a.batch * f->a.matrices;
    struct work w;
    if (!open_work(f, &w)) {
        atomic_store(&f->failed, true);
        return;
    }
    for (; at < end; at++) {
        w.b = at % matrices / f->a.matrices;
        w.m = at % f->a.matrices;
        w.first = (f->blocks - 1 - at / matrices) * f->block;
        w.count = MIN_OF(f->block, f->a.rows - w.first);
        start(f, &w);
        const bool few = w.count <= FEW && !f->invariant;
        (few ? attend_few : attend_panels)(f, &w);
        keep_state(f, &w, few ? 1 : f->scale);
    }
}

// Divides the rows into blocks, as large as possible while there are enough for all threads.
static void cut(struct forward *f) {
    const struct attend *a = &f->a;
    int64_t matrices = a->batch * a->matrices, wanted = (4 * pool_threads() + matrices - 1) / matrices;
    int64_t each = MIN_OF(ROWS, MAX_OF((a->rows + wanted - 1) / wanted, ROWS_LEAST));
    f->block = attention_round(each, a->kernel->cols);
    f->blocks = (a->rows + f->block - 1) / f->block;
}

bool cpu_attention(const struct call *c) {
    struct attention from = op_attention_read(c, c->in);
    zl_array out = call_output(c, 0);
    struct forward f = {0};
    if (!cpu_attention_open(&f.a, &from))
        return false;
    f.state = (float *)(void *)cpu_data(call_output(c, 1));
    cpu_attention_output(&f.out, out, f.a.q.share);
    f.invariant = device_batch_invariant() || f.a.keys <= INVARIANT_KEYS;
    f.a.kernel = cpu_attention_kernel((zl_dtype)out->dtype, f.invariant ? INT64_MAX : f.a.rows);
    f.scale = f.a.mask.data || f.a.sinks || !(f.a.scale > 0) ? 1 : f.a.scale;
    atomic_init(&f.failed, false);
    cut(&f);
    double flops = 2.0 * (double)MIN_OF(f.block, f.a.rows) * (double)f.a.keys * (double)(f.a.dim + f.a.width);
    int64_t items = f.a.batch * f.a.matrices * f.blocks;
    double grain = FLOPS_LEAST / flops;
    cpu_split(items, grain < (double)items ? (int64_t)grain + 1 : items, run_range, &f);
    memory_free(f.a.sinks);
    return !atomic_load(&f.failed);
}
