// cuda_quantized.c - products of many rows with a quantised matrix: the matrix is unpacked, and cuBLASLt
// multiplies.

#include "device/cuda/cuda_lt.h"
#include "device/kernels/kernels_quantized.h"

bool cuda_unpacked_can(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[QMM_X];
    bool are_many = !arg[QMM_TRANSPOSE] || x->dim[x->ndim - 2] >= CUDA_UNPACKED_LINES;
    return kernel_can_quantized_matmul(c) && are_many && !arg[QMM_GATHERED] && lt_is_there();
}

static struct lt_key key_of(const struct call *c, const void *x, const void *matrix) {
    zl_array y = call_first(c);
    bool transpose = call_args(c)[QMM_TRANSPOSE];
    struct lt_key k = {.m = y->dim[0],
                       .n = y->dim[1],
                       .k = c->in[QMM_X]->dim[1],
                       .a_step = c->in[QMM_X]->dim[1],
                       .b_step = transpose ? c->in[QMM_X]->dim[1] : y->dim[1],
                       .batch = 1,
                       .dtype = c->in[QMM_X]->dtype,
                       .out = y->dtype,
                       .transposed = transpose ? 2 : 0};
    uintptr_t all = (uintptr_t)x | (uintptr_t)matrix | 16;
    k.aligned = (int32_t)(all & (~all + 1));
    return k;
}

static enum kernel_taken multiply(const struct kernel_place *p, const struct call *c,
                                  const struct lt_memory *m) {
    struct lt_key k = key_of(c, m->a, m->b);
    bool had_error = zl_error();
    lt_take(p->unit);
    struct lt_product *r = lt_find(p->unit, p->lane, &k);
    enum kernel_taken taken = !r ? zl_error() && !had_error ? KERNEL_FAILED : KERNEL_NOT_TAKEN
                              : lt_multiply(p->unit, p->lane, r, &k, m) ? KERNEL_DONE
                                                                        : KERNEL_FAILED;
    lt_give(p->unit);
    return taken;
}

enum kernel_taken cuda_unpacked_multiply(const struct kernel_place *p, const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[QMM_X];
    struct quantized_matrix matrix = {.words = c->in[QMM_WORDS],
                                      .scales = c->in[QMM_SCALES],
                                      .biases = arg[QMM_MODE] == QUANT_AFFINE ? c->in[QMM_BIASES] : NULL,
                                      .dtype = (zl_dtype)x->dtype};
    struct kernel_scratch room = {0};
    size_t bytes = (size_t)(matrix.words->size * 32 / arg[QMM_BITS]) * array_item(x);
    struct lt_memory m = {.a = cuda_element(p, x), .y = kernel_reach(p, call_first(c)), .scale = 1};
    m.b = kernel_scratch_open(p, &room, bytes);
    enum kernel_taken taken = KERNEL_FAILED;
    if (m.a && m.b && m.y && kernel_unpack(p, arg, &matrix, room.memory))
        taken = multiply(p, c, &m);
    kernel_scratch_close(p, &room);
    return taken;
}
