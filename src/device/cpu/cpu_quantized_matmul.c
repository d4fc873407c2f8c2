// cpu_quantized_matmul.c - matrices times quantised ones: pieces of these are unpacked, then multiplied while they are in
// the cache. Each is unpacked once, for all rows of x.

#include "device/cpu/cpu.h"
#include "op/ops.h"

// Bytes of unpacked numbers: those of one row are read once, from L1, those of many again and again, from L2.
enum { PIECE_ONE = 1 << 15, PIECE_MANY = 1 << 18 };
enum { FLOPS_LEAST = 1 << 18 }; // that are worth another thread
enum { DOT_ROWS = 6, DOT_PIECE = 16 }; // rows of x for which codes are multiplied as they are, and rows of codes at once

struct product {
    struct unpacking u;
    zl_dtype dtype; // of x and the result
    bool transpose;
    int64_t item; // bytes of that
    int64_t m, k, n;
    int64_t rows, groups;  // of the quantised matrix
    int64_t piece, pieces; // rows, or groups of columns, that are unpacked at once; how many of these
    int64_t scale_item;
    const char *x, *words, *scales, *biases;
    char *out;
    const int64_t *first, *second; // matrices of each product; NULL: there is one
    char *ready;                   // rows of x as cpu_dot_prepare makes them; NULL: they are multiplied as numbers
    atomic_bool failed;
};

// The group at a row and a place in it of matrix w, and those behind it.
static void unpack(const struct product *p, int64_t w, int64_t row, int64_t group, int64_t groups,
                   char *out) {
    int64_t at = (w * p->rows + row) * p->groups + group;
    cpu_unpack(&p->u, p->words + at * p->u.group * p->u.bits / 8, p->scales + at * p->scale_item,
               p->biases ? p->biases + at * p->scale_item : NULL, groups, out);
}

static bool multiply(const struct product *p, const struct gemm *g) {
    return cpu_choose_gemm(p->dtype, g)(p->dtype, g);
}

// Rows of the quantised matrix are columns of the result.
static bool multiply_rows(const struct product *p, struct gemm g, int64_t w, int64_t from) {
    int64_t rows = MIN_OF(p->piece, p->rows - from), line = p->k * p->item;
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(p->piece * line));
    if (!room)
        return false;
    for (int64_t i = 0; i < rows; i++)
        unpack(p, w, from + i, 0, p->groups, room + i * line);
    g.n = rows;
    g.b = room, g.b_row = 1, g.b_col = p->k;
    g.c += from * p->item;
    return multiply(p, &g);
}

// A piece of each row makes a piece of each row of the result.
static bool multiply_columns(const struct product *p, struct gemm g, int64_t w, int64_t from) {
    int64_t groups = MIN_OF(p->piece, p->groups - from), columns = groups * p->u.group;
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(p->rows * p->piece * p->u.group * p->item));
    if (!room)
        return false;
    for (int64_t i = 0; i < p->rows; i++)
        unpack(p, w, i, from, groups, room + i * columns * p->item);
    g.n = columns;
    g.b = room, g.b_row = columns, g.b_col = 1;
    g.c += from * p->u.group * p->item;
    return multiply(p, &g);
}

// The same without unpacking.
static void dot_rows(const struct product *p, int64_t x, int64_t w, int64_t from, char *out) {
    int64_t rows = MIN_OF(p->piece, p->rows - from), at = (w * p->rows + from) * p->groups;
    const char *words = p->words + at * p->u.group * p->u.bits / 8, *scales = p->scales + at * p->scale_item;
    for (int64_t i = 0; i < p->m; i++)
        cpu_dot_rows(&p->u, p->ready + (int64_t)cpu_dot_bytes(p->groups) * (x * p->m + i), words, scales,
                     p->biases ? p->biases + at * p->scale_item : NULL, rows, p->groups,
                     (float *)(void *)out + i * p->n + from);
}

static void multiply_range(const void *context, int64_t from, int64_t to) {
    struct product *p = (struct product *)(uintptr_t)context;
    for (; from < to; from++) {
        int64_t at = from / p->pieces, x = p->first ? p->first[at] : 0, w = p->second ? p->second[at] : 0;
        struct gemm g = {.m = p->m,
                         .k = p->k,
                         .a = p->x + x * p->m * p->k * p->item,
                         .a_row = p->k,
                         .a_col = 1,
                         .c = p->out + at * p->m * p->n * p->item,
                         .c_row = p->n,
                         .c_col = 1};
        int64_t piece = from % p->pieces * p->piece;
        if (p->ready)
            dot_rows(p, x, w, piece, g.c);
        else if (!(p->transpose ? multiply_rows : multiply_columns)(p, g, w, piece))
            atomic_store(&p->failed, true);
    }
}

// Enough pieces for all threads, and small enough for the cache.
static void cut(struct product *p, int64_t products) {
    int64_t all = p->transpose ? p->rows : p->groups;
    int64_t bytes = p->item * (p->transpose ? p->k : p->rows * p->u.group);
    int64_t wanted = (4 * pool_threads() + products - 1) / products;
    int64_t most = MAX_OF((p->m == 1 ? PIECE_ONE : PIECE_MANY) / bytes, 1);
    p->piece = MIN_OF(p->ready ? DOT_PIECE : most, MAX_OF(all / wanted, 1));
    p->pieces = (all + p->piece - 1) / p->piece;
}

static bool multiply_all(struct product *p, int64_t products) {
    cut(p, products);
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k / (double)p->pieces;
    int64_t grain = flops < FLOPS_LEAST ? (int64_t)(FLOPS_LEAST / flops) + 1 : 1;
    cpu_split(products * p->pieces, MIN_OF(grain, products * p->pieces), multiply_range, p);
    return !atomic_load(&p->failed);
}

// Rows of x as whole numbers, to be freed, if that is possible. False and an error.
static bool make_ready(struct product *p, int64_t matrices) {
    if (!p->transpose || p->m > DOT_ROWS || p->dtype != ZL_FLOAT32 || !cpu_can_dot(&p->u))
        return true;
    int64_t each = (int64_t)cpu_dot_bytes(p->groups), rows = matrices * p->m;
    if (!(p->ready = memory_alloc((size_t)(each * rows))))
        return false;
    for (int64_t i = 0; p->ready && i < rows; i++)
        if (!cpu_dot_prepare(&p->u, (const float *)(const void *)p->x + i * p->k, p->groups, p->ready + i * each)) {
            memory_free(p->ready);
            p->ready = NULL;
        }
    return true;
}

static void read_sizes(struct product *p, const struct call *c) {
    zl_array x = c->in[0], w = c->in[1], scales = c->in[2];
    int last = x->ndim - 1;
    p->m = x->dim[last - 1];
    p->k = x->dim[last];
    p->rows = w->dim[last - 1];
    p->groups = scales->dim[last];
    p->n = p->transpose ? p->rows : p->groups * p->u.group;
}

static void read_inputs(struct product *p, const struct call *c, union scalar *room) {
    bool affine = p->u.mode == QUANT_AFFINE;
    p->x = array_data(c->in[0], &room[0]);
    p->words = array_data(c->in[1], &room[1]);
    p->scales = array_data(c->in[2], &room[2]);
    p->biases = affine ? array_data(c->in[3], &room[3]) : NULL;
    p->scale_item = (int64_t)array_item(c->in[2]);
    p->out = cpu_data(call_first(c));
}

// Those of an input as numbers that are not out of range; to be freed. NULL and an error.
static int64_t *read_indices(zl_array a, int64_t matrices) {
    struct indices i;
    int64_t *list = memory_alloc(sizeof *list * (size_t)a->size);
    if (!list || !cpu_indices_open(&i, a)) {
        memory_free(list);
        return NULL;
    }
    cpu_indices_next(&i, 0, a->size, list);
    for (int64_t k = 0; k < a->size; k++)
        list[k] = cpu_position(list[k], matrices, matrices - 1);
    cpu_indices_close(&i);
    return list;
}

bool cpu_quantized_matmul(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0];
    union scalar room[4];
    struct product p = {.dtype = (zl_dtype)x->dtype, .transpose = arg[3], .item = (int64_t)array_item(x)};
    p.u = (struct unpacking){.mode = (int)arg[0],
                             .group = (int)arg[1],
                             .bits = (int)arg[2],
                             .dtype = (zl_dtype)c->in[2]->dtype,
                             .wide = p.dtype == ZL_FLOAT64,
                             .factor = 1};
    atomic_init(&p.failed, false);
    read_sizes(&p, c);
    read_inputs(&p, c, room);
    if (!make_ready(&p, arg[4] ? x->dim[0] : 1))
        return false;
    if (!arg[4]) {
        bool ok = multiply_all(&p, 1);
        memory_free(p.ready);
        return ok;
    }
    int64_t *first = read_indices(c->in[c->inputs - 2], x->dim[0]);
    int64_t *second = first ? read_indices(c->in[c->inputs - 1], c->in[1]->dim[0]) : NULL;
    p.first = first, p.second = second;
    bool ok = second && multiply_all(&p, call_first(c)->dim[0]);
    memory_free(first);
    memory_free(second);
    memory_free(p.ready);
    return ok;
}
