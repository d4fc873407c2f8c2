// kernels_quantized_matmul.c - products with quantised matrices, whose codes are read once for some lines of x: by rows of the matrix,
// src/kernel/quantized_rows.tile, or by its columns, quantized_columns.tile.

#include "device/kernels/kernels_quantized.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <string.h>

enum { UNIT = 32, LINES_MOST = 8 }; // codes of a row that a thread reads at a time

struct recipe {
    char file[20];
    struct quantized_key key;
    int32_t dtype, gathered, wide;
    int32_t rows, lines;  // of the matrix and of x that threads have; rows 0: it is multiplied by columns
    int32_t words, items; // what divides where words and x and their rows begin
    int32_t ragged;       // rows end in half a unit
};

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    zl_dtype dtype = (zl_dtype)r->dtype;
    struct text more = {0};
    if (r->rows)
        text_add(&more, ",ROWS=%d,RAGGED=%d,WORDS=%d,ITEMS=%d", r->rows, r->ragged, r->words, r->items);
    struct tile_kernel *kernel =
        more.failed ? NULL
                    : kernel_built_in(r->file, "%s,ITEM=%s,WIDE=%s,BITS=%d,INDEX=i%d,GATHERED=%d,LINES=%d%s",
                                      kernel_quantized_clauses(&r->key).text, kernel_type(dtype),
                                      kernel_type(tile_reduce_gives(dtype)), kernel_bits(r->wide),
                                      kernel_bits(r->wide), r->gathered, r->lines, more.len ? more.data : "");
    text_free(&more);
    return kernel;
}

// Calling ----------------------------------------------------------------------------------------------------------

bool kernel_can_quantized_matmul(const struct call *c) {
    return kernel_inputs_lie(c) &&
           (!call_args(c)[QMM_GATHERED] ||
            (c->in[c->inputs - 2]->dtype == ZL_UINT32 && c->in[c->inputs - 1]->dtype == ZL_UINT32));
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
                                .row_groups = scales->dim[last],
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

// Whether positions need more than 31 bits: of elements that are read, and of codes and results, past the end too.
static bool is_wide(const struct call *c, const struct quantized_sizes *s) {
    int64_t codes = s->matrices * s->rows * s->row_groups * call_args(c)[QMM_GROUP];
    int64_t most = MAX_OF(s->x + s->lists * s->m * s->k, call_first(c)->size);
    most = MAX_OF(most, MAX_OF(s->words, MAX_OF(s->scales, s->biases)) + codes);
    return MAX_OF(most, MAX_OF(s->first, s->second) + call_first(c)->size) > KERNEL_NARROW;
}

// Fewer rows for threads where there are too few of them to fill a device.
static struct recipe recipe_of(const struct call *c, const struct quantized_sizes *s) {
    const int64_t *arg = call_args(c);
    bool many = s->rows * s->products >= 1 << 12;
    struct recipe r = {.key = kernel_quantized_key(arg, c->in[QMM_SCALES]),
                       .dtype = c->in[QMM_X]->dtype,
                       .gathered = (int32_t)arg[QMM_GATHERED],
                       .wide = is_wide(c, s),
                       .lines = 4};
    snprintf(r.file, sizeof r.file, "quantized_%s", arg[QMM_TRANSPOSE] ? "rows" : "columns");
    if (!arg[QMM_TRANSPOSE])
        return r;
    r.lines = s->m < 2 ? 1 : s->m < 3 ? 2 : s->m < 5 ? 4 : LINES_MOST;
    r.rows = r.lines <= 2 && many ? 4 : 2;
    r.words = kernel_divisor(4, s->words, s->row_words);
    r.items = kernel_divisor(8, s->x, s->k);
    r.ragged = s->k % UNIT != 0;
    return r;
}

// Those that are not there stand for x, and are not read.
bool kernel_add_quantized(const struct kernel_place *p, struct kernel_call *k, const struct call *c) {
    bool affine = call_args(c)[QMM_MODE] == QUANT_AFFINE, gathered = call_args(c)[QMM_GATHERED];
    zl_array list[] = {c->in[QMM_X],
                       c->in[QMM_WORDS],
                       c->in[QMM_SCALES],
                       affine ? c->in[QMM_BIASES] : c->in[QMM_X],
                       gathered ? c->in[c->inputs - 2] : c->in[QMM_X],
                       gathered ? c->in[c->inputs - 1] : c->in[QMM_X]};
    for (size_t i = 0; i < COUNT(list); i++)
        if (!kernel_add_array(p, k, list[i]))
            return false;
    return true;
}

bool kernel_quantized_matmul(const struct kernel_place *p, const struct call *c) {
    struct quantized_sizes s = kernel_quantized_sizes(c);
    struct recipe r = recipe_of(c, &s);
    int64_t sizes[sizeof s / sizeof(int64_t)];
    memcpy(sizes, &s, sizeof s);
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    struct kernel_call k;
    kernel_begin_call(&k);
    if (!kernel || !kernel_add_quantized(p, &k, c) || !kernel_add_array(p, &k, call_first(c)))
        return false;
    return kernel_launch_tiles(p, kernel, &k, COUNT(sizes), sizes);
}
