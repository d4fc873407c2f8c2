// kernels_quantized_matmul.c - products with quantised matrices, whose codes are read once for several rows
// of x: row by row of the matrix, by src/kernel/quantized_rows.tile, or column by column, by
// quantized_columns.tile.

#include "device/kernels/kernels_quantized.h"

#include <string.h>

// The clauses of both kernels.
#define OF_BOTH                                                                                         \
    "MODE=%d,GROUP_SIZE=%d,CODE_BITS=%d,SCALE=%t,ITEM=%t,WIDE=%t,GATHERED=%d,LINES=%d,SCALE_GROUPS=%d," \
    "SCALE_BYTES=%d,%i"

enum { UNIT = 32, LINES_MOST = 8 }; // codes of a row that a thread reads at a time; most rows of x

bool kernel_can_quantized_matmul(const struct call *c) {
    return !call_args(c)[QMM_GATHERED] ||
           (c->in[c->inputs - 2]->dtype == ZL_UINT32 && c->in[c->inputs - 1]->dtype == ZL_UINT32);
}

struct quantized_sizes kernel_quantized_sizes(const struct call *c) {
    zl_array x = c->in[QMM_X], words = c->in[QMM_WORDS], scales = c->in[QMM_SCALES], y = call_first(c);
    const int64_t *arg = call_args(c);
    int last = x->ndim - 1;
    struct quantized_sizes s = {.products = y->size / (x->dim[last - 1] * y->dim[y->ndim - 1]),
                                .m = x->dim[last - 1],
                                .k = x->dim[last],
                                .rows = words->dim[last - 1],
                                .row_words = words->dim[last],
                                .row_groups = words->dim[last] * 32 / arg[QMM_BITS] / arg[QMM_GROUP],
                                .lists = 1,
                                .matrices = 1,
                                .x = x->offset,
                                .words = words->offset,
                                .scales = scales->offset,
                                .biases = arg[QMM_MODE] == QUANT_AFFINE ? c->in[QMM_BIASES]->offset : 0};
    if (arg[QMM_GATHERED]) {
        s.first = c->in[c->inputs - 2]->offset;
        s.second = c->in[c->inputs - 1]->offset;
        s.lists = x->dim[0];
        s.matrices = words->dim[0];
    }
    return s;
}

// Returns whether positions need more than 31 bits: those of elements that are read, and those of codes and
// results, even past the end.
static bool is_wide(const struct call *c, const struct quantized_sizes *s) {
    int64_t codes = s->matrices * s->rows * s->row_groups * call_args(c)[QMM_GROUP];
    int64_t most = MAX_OF(s->x + s->lists * s->m * s->k, call_first(c)->size);
    most = MAX_OF(most, MAX_OF(s->words, MAX_OF(s->scales, s->biases)) + codes);
    return MAX_OF(most, MAX_OF(s->first, s->second) + call_first(c)->size) > KERNEL_NARROW;
}

void kernel_quantized_inputs(const struct call *c, zl_array *list) {
    bool affine = call_args(c)[QMM_MODE] == QUANT_AFFINE, gathered = call_args(c)[QMM_GATHERED];
    for (int i = 0; i < QMM_LISTED; i++)
        list[i] = c->in[i < QMM_BIASES || (i == QMM_BIASES && affine) ? i : QMM_X];
    for (int i = 1; gathered && i <= 2; i++)
        list[QMM_LISTED - i] = c->in[c->inputs - i];
}

// A thread has fewer rows of the matrix if there are too few threads to fill a device.
bool kernel_quantized_matmul(const struct kernel_place *p, const struct call *c) {
    struct quantized_sizes s = kernel_quantized_sizes(c);
    const int64_t *arg = call_args(c);
    int64_t sizes[sizeof s / sizeof(int64_t)];
    zl_array list[QMM_LISTED];
    zl_dtype dtype = (zl_dtype)c->in[QMM_X]->dtype;
    struct kernel_work w;
    memcpy(sizes, &s, sizeof s);
    kernel_quantized_inputs(c, list);
    work_open(&w, p, c->op->name);
    work_sizes(&w, COUNT(sizes), sizes);
    WORK_SIZES(&w, s.scales + list[QMM_SCALES]->size);
    for (int i = 0; i < QMM_LISTED; i++)
        work_place(&w, list[i]);
    work_place(&w, call_first(c));
    w.wide |= is_wide(c, &s);
    int32_t few = s.m < 2 ? 1 : s.m < 3 ? 2 : s.m < 5 ? 4 : LINES_MOST, by_rows = arg[QMM_TRANSPOSE] != 0;
    const int32_t clause[] = {(int32_t)arg[QMM_MODE],
                              (int32_t)arg[QMM_GROUP],
                              (int32_t)arg[QMM_BITS],
                              kernel_scale_type(arg, c->in[QMM_SCALES]),
                              (int32_t)dtype,
                              (int32_t)tile_reduce_gives(dtype),
                              (int32_t)arg[QMM_GATHERED],
                              by_rows ? few : 4,
                              kernel_scale_groups(arg),
                              kernel_scale_bytes(arg),
                              few <= 2 && s.rows * s.products >= 1 << 12 ? 4 : 2,
                              s.k % UNIT != 0,
                              kernel_divisor(4, s.words, s.row_words),
                              kernel_divisor(8, s.x, s.k)};
    return by_rows ? work_file(&w, "quantized_rows", OF_BOTH ",ROWS=%d,RAGGED=%d,WORDS=%d,ITEMS=%d",
                               COUNT(clause), clause)
                   : work_file(&w, "quantized_columns", OF_BOTH, COUNT(clause) - 4, clause);
}
