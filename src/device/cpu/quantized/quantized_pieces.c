// quantized_pieces.c - products with quantised matrices by float products: pieces of the matrix are
// dequantised, then multiplied while they are in the cache. Each piece is dequantised once, for all rows of
// x.

#include "device/cpu/gemm/product.h"
#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/operands.h"

// Bytes of unpacked numbers per piece. With one row of x they are read once, from L1; with many rows they are
// read repeatedly, from L2.
enum { PIECE_ONE = 1 << 15, PIECE_MANY = 1 << 20 };
enum { FLOPS_LEAST = 1 << 18 }; // operations that are worth another thread

struct pieces {
    const struct quantized *q;
    int64_t piece, pieces; // rows, or groups of columns, per piece; the number of pieces
    atomic_bool failed;
};

// Unpacks groups of a row of matrix w, from `group` on.
static void unpack(const struct quantized *q, int64_t w, int64_t row, int64_t group, int64_t groups,
                   char *out) {
    int64_t at = quantized_at(q, w, row, group);
    cpu_unpack(&q->u, q->words + at * q->u.group * q->u.bits / 8, quantized_scales(q, at),
               q->biases ? q->biases + at * q->scale_item : NULL, groups, out);
}

// Returns the most rows that are unpacked at once.
static int64_t rows_most(const struct quantized *q) {
    return MAX_OF((q->m == 1 ? PIECE_ONE : PIECE_MANY) / (q->item * q->k), 1);
}

// Multiplies by some rows of the quantised matrix, which are columns of the result.
static bool multiply_rows(const struct pieces *p, struct gemm g, int64_t w, int64_t from) {
    const struct quantized *q = p->q;
    int64_t rows = MIN_OF(p->piece, q->rows - from), line = q->k * q->item;
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(p->piece * line));
    if (!room)
        return false;
    for (int64_t i = 0; i < rows; i++)
        unpack(q, w, from + i, 0, q->groups, room + i * line);
    g.n = rows;
    g.b = room, g.b_row = 1, g.b_col = q->k;
    g.c += from * q->item;
    // The algorithm is chosen as for a whole piece, so that a part of a matrix, on one rank of several, gives
    // the same bits as the whole matrix there.
    struct gemm whole = g;
    whole.n = rows_most(q);
    return cpu_choose_gemm(q->dtype, &whole)(q->dtype, &g);
}

// Multiplies by a piece of each row, which gives a piece of each row of the result.
static bool multiply_columns(const struct pieces *p, struct gemm g, int64_t w, int64_t from) {
    const struct quantized *q = p->q;
    int64_t groups = MIN_OF(p->piece, q->groups - from), columns = groups * q->u.group;
    char *room = cpu_scratch(SCRATCH_WEIGHTS, (size_t)(q->rows * p->piece * q->u.group * q->item));
    if (!room)
        return false;
    for (int64_t i = 0; i < q->rows; i++)
        unpack(q, w, i, from, groups, room + i * columns * q->item);
    g.n = columns;
    g.b = room, g.b_row = columns, g.b_col = 1;
    g.c += from * q->u.group * q->item;
    return cpu_choose_gemm(q->dtype, &g)(q->dtype, &g);
}

static void multiply_range(const void *context, int64_t from, int64_t to) {
    struct pieces *p = (struct pieces *)(uintptr_t)context;
    const struct quantized *q = p->q;
    for (; from < to; from++) {
        int64_t at = from / p->pieces, x = q->first ? q->first[at] : 0, w = q->second ? q->second[at] : 0;
        struct gemm g = {.m = q->m,
                         .k = q->k,
                         .a = q->x + x * q->m * q->k * q->item,
                         .a_row = q->k,
                         .a_col = 1,
                         .c = q->out + at * q->m * q->n * q->item,
                         .c_row = q->n,
                         .c_col = 1};
        int64_t piece = from % p->pieces * p->piece;
        if (!(q->transpose ? multiply_rows : multiply_columns)(p, g, w, piece))
            atomic_store(&p->failed, true);
    }
}

// Chooses the size of pieces: there are enough for all threads, and they fit into the cache.
static void cut(struct pieces *p) {
    const struct quantized *q = p->q;
    int64_t all = q->transpose ? q->rows : q->groups;
    int64_t wanted = (4 * pool_threads() + q->products - 1) / q->products;
    int64_t columns_most = MAX_OF((q->m == 1 ? PIECE_ONE : PIECE_MANY) / (q->item * q->rows * q->u.group), 1);
    int64_t most = q->transpose ? rows_most(q) : columns_most;
    p->piece = MIN_OF(most, MAX_OF(all / wanted, 1));
    if (q->u.mode == QUANT_GGUF_K && !q->transpose) { // whole blocks of scales
        const int each = op_k_groups(q->u.bits);
        p->piece = (p->piece + each - 1) / each * each;
    }
    p->pieces = (all + p->piece - 1) / p->piece;
}

bool cpu_multiply_pieces(const struct quantized *q) {
    struct pieces p = {.q = q};
    atomic_init(&p.failed, false);
    cut(&p);
    double flops = 2.0 * (double)q->m * (double)q->n * (double)q->k / (double)p.pieces;
    int64_t grain = flops < FLOPS_LEAST ? (int64_t)(FLOPS_LEAST / flops) + 1 : 1;
    cpu_split(q->products * p.pieces, MIN_OF(grain, q->products * p.pieces), multiply_range, &p);
    return !atomic_load(&p.failed);
}
