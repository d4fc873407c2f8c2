// kernels_quantize.c - quantises groups of numbers to codes of a few bits, by src/kernel/quantize.tile, and
// converts them back, by dequantize.tile.

#include "device/kernels/kernels_quantized.h"

enum { MODE, GROUP_OF, CODE_BITS, EIGHT = 8, VECTOR_BYTES = 16 };

int32_t kernel_scale_type(const int64_t *arg, zl_array scales) {
    return arg[MODE] == QUANT_NVFP4 ? WORK_E4M3 : scales->dtype;
}

int32_t kernel_scale_groups(const int64_t *arg) {
    return arg[MODE] == QUANT_GGUF_K ? op_k_groups((int)arg[CODE_BITS]) : 1;
}

int32_t kernel_scale_bytes(const int64_t *arg) {
    return arg[MODE] == QUANT_GGUF_K ? op_k_bytes((int)arg[CODE_BITS]) : 1;
}

int32_t kernel_divisor(int64_t most, int64_t a, int64_t b) {
    int32_t count = 1;
    while (2 * count <= most && (a | b) % (2 * count) == 0)
        count *= 2;
    return count;
}

// Back ------------------------------------------------------------------------------------------------------

bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m,
                   void *to) {
    zl_array part[] = {m->words, m->scales, m->biases, m->global};
    int64_t size = m->words->size * 32 / arg[CODE_BITS], groups = size / arg[GROUP_OF];
    int32_t each = VECTOR_BYTES / (int32_t)zl_dtype_size(m->dtype), bits = each * (int32_t)arg[CODE_BITS];
    struct kernel_work w;
    work_open(&w, p, "dequantize");
    WORK_SIZES(&w, groups);
    for (size_t i = 0; i < COUNT(part); i++) { // a missing input is not read
        int64_t offset = part[i] ? part[i]->offset : 0;
        work_place(&w, part[i] ? part[i] : m->scales);
        WORK_SIZES(&w, offset);
        w.wide |= offset + size > KERNEL_NARROW;
    }
    WORK_SIZES(&w, m->words->offset + m->words->size, m->scales->offset + m->scales->size);
    work_memory(&w, to);
    w.wide |= size > KERNEL_NARROW / arg[CODE_BITS];
    return WORK_FILE(
        &w, "dequantize",
        "MODE=%d,GROUP_SIZE=%d,CODE_BITS=%d,SCALE=%t,ITEM=%t,WIDE=%t,CHUNK=u%d,EACH=%d,OVER=%d,"
        "SCALE_GROUPS=%d,SCALE_BYTES=%d,BITS=%b",
        (int32_t)arg[MODE], (int32_t)arg[GROUP_OF], (int32_t)arg[CODE_BITS],
        kernel_scale_type(arg, m->scales), m->dtype, tile_reduce_gives(m->dtype),
        bits > 32 || 32 % bits ? 64 : 32, each, m->global != NULL, kernel_scale_groups(arg),
        kernel_scale_bytes(arg));
}

bool kernel_dequantize(const struct kernel_place *p, const struct call *c) {
    bool affine = call_args(c)[MODE] == QUANT_AFFINE;
    zl_array third = c->inputs > 2 ? c->in[2] : NULL;
    struct quantized_matrix m = {.words = c->in[0],
                                 .scales = c->in[1],
                                 .biases = affine ? third : NULL,
                                 .global = affine ? NULL : third,
                                 .dtype = (zl_dtype)call_first(c)->dtype};
    return kernel_unpack(p, call_args(c), &m, kernel_reach(p, call_first(c)));
}

// Quantising ------------------------------------------------------------------------------------------------

bool kernel_quantize(const struct kernel_place *p, const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array w = c->in[0];
    struct kernel_work k;
    work_open(&k, p, c->op->name);
    WORK_SIZES(&k, call_output(c, 1)->size, w->offset);
    work_result(&k, w);
    for (int i = 0; i < 3; i++)
        work_result(&k, call_output(c, i));
    k.wide |= w->offset + w->size > KERNEL_NARROW;
    return WORK_FILE(&k, "quantize", "GROUP_SIZE=%d,CODE_BITS=%d,ITEM=%t,CHUNK=u%d,ALIGNED=%d,BITS=%b",
                     (int32_t)arg[GROUP_OF], (int32_t)arg[CODE_BITS], w->dtype, arg[CODE_BITS] > 4 ? 64 : 32,
                     kernel_divisor(EIGHT, w->offset, 0));
}
