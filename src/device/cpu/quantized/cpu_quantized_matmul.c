// cpu_quantized_matmul.c - products of matrices and quantised matrices: reads the call and chooses an
// algorithm.

#include "device/cpu/index/index.h"
#include "device/cpu/quantized/quantized.h"
#include "device/cpu/rows/operands.h"

static void read_sizes(struct quantized *q, const struct call *c) {
    zl_array x = c->in[0], w = c->in[1];
    int last = x->ndim - 1;
    q->m = x->dim[last - 1];
    q->k = x->dim[last];
    q->rows = w->dim[last - 1];
    q->groups =
        op_quant_columns(&(struct quantization){(enum quant_mode)q->u.mode, q->u.group, q->u.bits}, w) /
        q->u.group;
    q->n = q->transpose ? q->rows : q->groups * q->u.group;
}

static void read_inputs(struct quantized *q, const struct call *c, union scalar *room) {
    bool affine = q->u.mode == QUANT_AFFINE;
    q->x = array_data(c->in[0], &room[0]);
    q->words = array_data(c->in[1], &room[1]);
    q->scales = array_data(c->in[2], &room[2]);
    q->biases = affine ? array_data(c->in[3], &room[3]) : NULL;
    q->scale_item = (int64_t)array_item(c->in[2]);
    q->out = cpu_data(call_first(c));
}

// Returns the indices of an input, brought into range; the caller frees them. Returns NULL and an error if
// that fails.
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

// Multiplies by pieces. 16-bit floats are converted to float32 and back.
static bool multiply_wide(const struct quantized *q) {
    if (q->item > 2)
        return cpu_multiply_pieces(q);
    int64_t in = q->matrices * q->m * q->k, out = q->products * q->m * q->n;
    float *x = memory_alloc(sizeof(float) * (size_t)(in + out));
    if (!x)
        return false;
    struct quantized wide = *q;
    wide.dtype = ZL_FLOAT32, wide.item = 4;
    wide.x = (const char *)x, wide.out = (char *)(x + in);
    cpu_call_row(cpu_level()->rows->cast[ZL_FLOAT32][q->dtype], x, q->x, NULL, NULL, in);
    bool ok = cpu_multiply_pieces(&wide);
    if (ok)
        cpu_call_row(cpu_level()->rows->cast[q->dtype][ZL_FLOAT32], q->out, x + in, NULL, NULL, out);
    memory_free(x);
    return ok;
}

// Multiplies by the best algorithm. Those in bf16 and in integers add up in different orders for different
// numbers of rows; that by pieces does not.
static bool multiply(const struct quantized *q) {
    bool done = false;
    if (device_batch_invariant())
        return multiply_wide(q);
    return cpu_multiply_halves(q, &done) && (done || cpu_multiply_ints(q, &done)) &&
           (done || multiply_wide(q));
}

bool cpu_quantized_matmul(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[0];
    union scalar room[4];
    struct quantized q = {.dtype = (zl_dtype)x->dtype, .transpose = arg[3], .item = (int64_t)array_item(x)};
    q.u = (struct unpacking){.mode = (int)arg[0],
                             .group = (int)arg[1],
                             .bits = (int)arg[2],
                             .dtype = (zl_dtype)c->in[2]->dtype,
                             .wide = q.dtype == ZL_FLOAT64,
                             .factor = 1};
    read_sizes(&q, c);
    read_inputs(&q, c, room);
    q.matrices = q.products = 1;
    if (!arg[4])
        return multiply(&q);
    q.matrices = x->dim[0], q.products = call_first(c)->dim[0];
    int64_t *first = read_indices(c->in[c->inputs - 2], x->dim[0]);
    int64_t *second = first ? read_indices(c->in[c->inputs - 1], c->in[1]->dim[0]) : NULL;
    q.first = first, q.second = second;
    bool ok = second && multiply(&q);
    memory_free(first);
    memory_free(second);
    return ok;
}
