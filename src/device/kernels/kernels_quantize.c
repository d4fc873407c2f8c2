// kernels_quantize.c - groups of numbers as codes of a few bits each, by src/kernel/quantize.tile, and back, by dequantize.tile.

#include "device/kernels/kernels_quantized.h"
#include "kernel/kernel.h"

#include <stdio.h>

enum { MODE, GROUP_OF, CODE_BITS, EIGHT = 8, VECTOR_BYTES = 16 };

struct recipe {
    char file[12];
    struct quantized_key key;
    int32_t dtype, more, wide; // dtype: of the matrix; more: what the file says of it
};

struct quantized_key kernel_quantized_key(const int64_t *arg, zl_array scales) {
    return (struct quantized_key){(int32_t)arg[MODE], (int32_t)arg[GROUP_OF], (int32_t)arg[CODE_BITS],
                                  scales->dtype};
}

struct quantized_clauses kernel_quantized_clauses(const struct quantized_key *key) {
    struct quantized_clauses c;
    snprintf(c.text, sizeof c.text, "MODE=%d,GROUP_SIZE=%d,CODE_BITS=%d,SCALE=%s", key->mode, key->group,
             key->bits, key->mode == QUANT_NVFP4 ? "e4m3" : kernel_type((zl_dtype)key->scales));
    return c;
}

int32_t kernel_divisor(int64_t most, int64_t a, int64_t b) {
    int32_t count = 1;
    while (2 * count <= most && (a | b) % (2 * count) == 0)
        count *= 2;
    return count;
}

// Back -------------------------------------------------------------------------------------------------------------

// Numbers of one vector, which a thread makes.
static int each_of(zl_dtype dtype) {
    return VECTOR_BYTES / (int)zl_dtype_size(dtype);
}

static struct tile_kernel *make_unpack(const void *data) {
    const struct recipe *r = data;
    zl_dtype dtype = (zl_dtype)r->dtype;
    int bits = each_of(dtype) * r->key.bits;
    return kernel_built_in(r->file, "%s,ITEM=%s,WIDE=%s,CHUNK=%s,BITS=%d,EACH=%d,OVER=%d",
                           kernel_quantized_clauses(&r->key).text, kernel_type(dtype),
                           kernel_type(tile_reduce_gives(dtype)), bits > 32 || 32 % bits ? "u64" : "u32",
                           kernel_bits(r->wide), each_of(dtype), r->more);
}

bool kernel_unpack(const struct kernel_place *p, const int64_t *arg, const struct quantized_matrix *m,
                   void *to) {
    zl_array part[] = {m->words, m->scales, m->biases, m->global};
    int64_t size = m->scales->size * arg[GROUP_OF];
    struct recipe r = {"dequantize", kernel_quantized_key(arg, m->scales), (int32_t)m->dtype,
                       m->global != NULL, size > KERNEL_NARROW / arg[CODE_BITS]};
    struct kernel_work w;
    work_open(&w, p, "dequantize");
    WORK_SIZES(&w, m->scales->size);
    for (size_t i = 0; i < COUNT(part); i++) { // one that is not there is not read
        int64_t offset = part[i] ? part[i]->offset : 0;
        work_place(&w, part[i] ? part[i] : m->scales);
        WORK_SIZES(&w, offset);
        r.wide |= offset + size > KERNEL_NARROW;
    }
    WORK_SIZES(&w, m->words->offset + m->words->size);
    work_memory(&w, to);
    return work_run(&w, &r, sizeof r, make_unpack);
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

// Quantising -------------------------------------------------------------------------------------------------------

static struct tile_kernel *make_pack(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "GROUP_SIZE=%d,CODE_BITS=%d,ITEM=%s,CHUNK=%s,ALIGNED=%d,BITS=%d",
                           r->key.group, r->key.bits, kernel_type((zl_dtype)r->dtype),
                           r->key.bits > 4 ? "u64" : "u32", r->more, kernel_bits(r->wide));
}

bool kernel_quantize(const struct kernel_place *p, const struct call *c) {
    zl_array w = c->in[0];
    struct recipe r = {"quantize", kernel_quantized_key(call_args(c), w), w->dtype,
                       kernel_divisor(EIGHT, w->offset, 0), w->offset + w->size > KERNEL_NARROW};
    struct kernel_work k;
    work_open(&k, p, c->op->name);
    WORK_SIZES(&k, call_output(c, 1)->size, w->offset);
    work_result(&k, w);
    for (int i = 0; i < 3; i++)
        work_result(&k, call_output(c, i));
    return work_run(&k, &r, sizeof r, make_pack);
}
