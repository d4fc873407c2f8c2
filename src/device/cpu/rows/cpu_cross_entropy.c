// cpu_cross_entropy.c - log-sum-exp and cross-entropy losses, in one pass over each row of logits, and their
// gradients.
//
// Tiles of a row stay in the cache. If the largest element of a tile exceeds all before it, the sum so far is
// rescaled (online softmax).

#include <math.h>

#include "device/cpu/index/index.h"
#include "device/cpu/rows/operands.h"
#include "device/cpu/rows/reduce.h"
#include "op/ops.h"

enum { TILE = 2048, WIDEST = 8 }; // elements of a tile; bytes of the widest one

struct entropy {
    zl_dtype dtype, wide; // of the logits, and of the computation
    int64_t classes;
    const char *logits;
    char *loss, *sum;
    struct indices targets;
    row_fn *widen, *top, *subtract, *exponential, *total; // widen is NULL if both dtypes are the same
};

static double number_at(zl_dtype dtype, const char *from) {
    double value;
    dtype_convert(&value, ZL_FLOAT64, from, dtype, 1);
    return value;
}

// The sum of the exponentials of the elements so far is exp(top) times sum.
struct running {
    double top, sum;
};

static void add_tile(const struct entropy *e, struct running *r, const char *from, int64_t n) {
    _Alignas(64) char tile[TILE * WIDEST];
    char number[WIDEST];
    if (e->widen) {
        cpu_call_row(e->widen, tile, from, NULL, NULL, n);
        from = tile;
    }
    cpu_call_row(e->top, number, from, NULL, NULL, n);
    double top = number_at(e->wide, number);
    if (!(top <= r->top)) { // also if top is NaN
        r->sum = r->sum == 0 ? 0 : r->sum * exp(r->top - top);
        r->top = top;
    }
    if (isinf(r->top))
        return; // no finite element so far, or an infinite one
    dtype_convert(number, e->wide, &r->top, ZL_FLOAT64, 1);
    cpu_call_row(e->subtract, tile, from, number, NULL, n);
    cpu_call_row(e->exponential, tile, tile, NULL, NULL, n);
    cpu_call_row(e->total, number, tile, NULL, NULL, n);
    r->sum += number_at(e->wide, number);
}

static double log_of_sum(const struct entropy *e, const char *line) {
    struct running r = {-INFINITY, 0};
    int64_t item = (int64_t)zl_dtype_size(e->dtype);
    for (int64_t at = 0; at < e->classes; at += TILE)
        add_tile(e, &r, line + at * item, MIN_OF(TILE, e->classes - at));
    return isinf(r.top) ? r.top : r.top + log(r.sum);
}

static void lines(const void *context, int64_t from, int64_t to) {
    const struct entropy *e = context;
    int64_t item = (int64_t)zl_dtype_size(e->dtype), wide = (int64_t)zl_dtype_size(e->wide);
    for (; from < to; from++) {
        const char *line = e->logits + from * e->classes * item;
        int64_t target;
        cpu_indices_next(&e->targets, from, 1, &target);
        double sum = log_of_sum(e, line);
        double loss =
            sum - number_at(e->dtype, line + cpu_position(target, e->classes, e->classes - 1) * item);
        dtype_convert(e->sum + from * wide, e->wide, &sum, ZL_FLOAT64, 1);
        dtype_convert(e->loss + from * wide, e->wide, &loss, ZL_FLOAT64, 1);
    }
}

static bool choose_rows(struct entropy *e) {
    const struct row_table *rows = cpu_level()->rows;
    e->widen = e->dtype == e->wide ? NULL : rows->cast[e->wide][e->dtype];
    e->top = cpu_reduce_row(TILE_MAX, e->wide);
    e->subtract = rows->op[TILE_SUB][e->wide][2]; // the second operand is a scalar
    e->exponential = rows->op[TILE_EXP][e->wide][0];
    e->total = cpu_reduce_row(TILE_ADD, e->wide);
    return e->top && e->subtract && e->exponential && e->total && (e->widen || e->dtype == e->wide);
}

bool cpu_cross_entropy(const struct call *c) {
    union scalar room;
    zl_array x = c->in[0], out = call_first(c);
    struct entropy e = {.dtype = (zl_dtype)x->dtype,
                        .wide = (zl_dtype)out->dtype,
                        .classes = x->dim[x->ndim - 1],
                        .logits = array_data(x, &room),
                        .loss = cpu_data(out),
                        .sum = cpu_data(call_output(c, 1))};
    if (!choose_rows(&e))
        return error_false(ZL_ERROR_DEVICE, "the cpu device has no kernel for cross_entropy of %s",
                           zl_dtype_name(e.dtype));
    bool ok = cpu_indices_open(&e.targets, c->in[1]);
    if (ok)
        cpu_split(out->size, CPU_SPLIT / 16 / (e.classes * (int64_t)array_item(x)) + 1, lines, &e);
    cpu_indices_close(&e.targets);
    return ok;
}

// The gradient ----------------------------------------------------------------------------------------------

struct slopes {
    zl_dtype dtype, wide;
    int64_t classes;
    const char *logits, *sum, *slope, *correction; // logits have `dtype`; the others have dtype `wide` and
                                                   // one element per row
    char *out;
    struct indices targets;
    row_fn *widen, *subtract, *exponential, *multiply,
        *narrow; // widen and narrow are NULL if both dtypes are the same
};

// Computes n elements of a tile. `target` is the position of the target in the tile, if it is one of the n.
static void slope_tile(const struct slopes *s, int64_t line, const char *from, char *to, int64_t n,
                       int64_t target) {
    _Alignas(64) char tile[TILE * WIDEST];
    int64_t wide = (int64_t)zl_dtype_size(s->wide), at = line * wide;
    char *x = s->narrow ? tile : to;
    if (s->widen)
        cpu_call_row(s->widen, x, from, NULL, NULL, n);
    cpu_call_row(s->subtract, x, s->widen ? x : from, s->sum + at, NULL, n);
    cpu_call_row(s->exponential, x, x, NULL, NULL, n);
    cpu_call_row(s->multiply, x, x, s->slope + at, NULL, n);
    if (target >= 0 && target < n)
        cpu_call_row(s->subtract, x + target * wide, x + target * wide, s->correction + at, NULL, 1);
    if (s->narrow)
        cpu_call_row(s->narrow, to, x, NULL, NULL, n);
}

static void slope_lines(const void *context, int64_t from, int64_t to) {
    const struct slopes *s = context;
    int64_t item = (int64_t)zl_dtype_size(s->dtype);
    for (; from < to; from++) {
        int64_t target, at = from * s->classes * item;
        cpu_indices_next(&s->targets, from, 1, &target);
        target = cpu_position(target, s->classes, s->classes - 1);
        for (int64_t k = 0; k < s->classes; k += TILE)
            slope_tile(s, from, s->logits + at + k * item, s->out + at + k * item,
                       MIN_OF(TILE, s->classes - k), target - k);
    }
}

bool cpu_cross_entropy_vjp(const struct call *c) {
    union scalar room[5];
    const char *data[5];
    zl_array x = c->in[0];
    for (int i = 0; i < 5; i++)
        data[i] = array_data(c->in[i], &room[i]);
    struct slopes s = {.dtype = (zl_dtype)x->dtype,
                       .wide = (zl_dtype)c->in[2]->dtype,
                       .classes = x->dim[x->ndim - 1],
                       .logits = data[0],
                       .sum = data[2],
                       .slope = data[3],
                       .correction = data[4],
                       .out = cpu_data(call_first(c))};
    const struct row_table *rows = cpu_level()->rows;
    s.widen = s.dtype == s.wide ? NULL : rows->cast[s.wide][s.dtype];
    s.narrow = s.dtype == s.wide ? NULL : rows->cast[s.dtype][s.wide];
    s.subtract = rows->op[TILE_SUB][s.wide][2]; // the second operand is a scalar
    s.exponential = rows->op[TILE_EXP][s.wide][0];
    s.multiply = rows->op[TILE_MUL][s.wide][2];
    bool ok = cpu_indices_open(&s.targets, c->in[1]);
    if (ok)
        cpu_split(c->in[1]->size, CPU_SPLIT / 8 / (s.classes * (int64_t)array_item(x)) + 1, slope_lines, &s);
    cpu_indices_close(&s.targets);
    return ok;
}
