// cuda_quantized_lines.c - products of a few rows of f16 or bf16 with a 4-bit quantised matrix, by matrix
// instructions (quantized_lines.cu).
//
// With few rows, most of the time is spent reading codes, so the kernel multiplies them as it reads them.

#include "device/cuda/cuda_library.h"
#include "device/kernels/kernels_quantized.h"

enum { TILE = 16, PIECE = 128, COLUMNS = 8 };

static const char override[] = "quantized_lines";

struct recipe {
    struct quantized_key key;
    int32_t dtype, gathered, single; // single: x has one row
};

bool cuda_quantized_lines_can(const struct call *c) {
    const int64_t *arg = call_args(c);
    zl_array x = c->in[QMM_X];
    struct quantized_sizes s = kernel_quantized_sizes(c);
    bool is_half = x->dtype == ZL_BFLOAT16 || x->dtype == ZL_FLOAT16;
    bool are_few = x->dim[x->ndim - 2] < CUDA_UNPACKED_LINES || arg[QMM_GATHERED];
    return is_half && are_few && arg[QMM_MODE] != QUANT_GGUF_K && arg[QMM_TRANSPOSE] && arg[QMM_BITS] == 4 &&
           arg[QMM_GROUP] >= 32 && s.k % PIECE == 0 && s.words % 4 == 0 && s.x % 8 == 0 &&
           !device_batch_invariant();
}

// Returns whether the kernel for a single row of x applies. It reads pairs of groups, which it counts in 32
// bits.
static bool is_single(const struct quantized_sizes *s) {
    return s->m == 1 && s->row_groups % 2 == 0 && s->scales % 2 == 0 && s->biases % 2 == 0 &&
           s->rows * s->row_groups <= INT32_MAX;
}

// The last parameter of the kernel.
struct axes {
    struct quantized_sizes of;
    int64_t blocks, chunks; // workgroups for rows of the matrix, and for rows of x
};

static void define(struct text *out, const void *data) {
    const struct recipe *r = data;
    const char *scale = kernel_type((zl_dtype)r->key.scales);
    text_add(out, "#define ITEM %s\n#define IS_BF16 %d\n", kernel_type((zl_dtype)r->dtype),
             r->dtype == ZL_BFLOAT16);
    text_add(out, "#define SCALE %s\n#define SCALE_OF(x) scale_of_%s(x)\n", scale, scale);
    text_add(out, "#define AFFINE %d\n#define GROUP_SIZE %d\n#define GATHERED %d\n#define SINGLE %d\n",
             r->key.mode == QUANT_AFFINE, r->key.group, r->gathered, r->single);
}

bool cuda_quantized_source(const struct quantized_key *key, zl_dtype dtype, bool single, struct text *out) {
    struct recipe r = {*key, (int32_t)dtype, 0, single};
    return cuda_text_write(out, override, define, &r);
}

enum kernel_taken cuda_quantized_lines(const struct kernel_place *p, const struct call *c) {
    struct quantized_sizes s = kernel_quantized_sizes(c);
    const int64_t *arg = call_args(c);
    bool single = is_single(&s);
    int64_t lines = single ? 1 : COLUMNS * arg[QMM_GROUP] / PIECE;
    struct recipe r = {.key = {(int32_t)arg[QMM_MODE], (int32_t)arg[QMM_GROUP], (int32_t)arg[QMM_BITS],
                               c->in[QMM_SCALES]->dtype},
                       .dtype = c->in[QMM_X]->dtype,
                       .gathered = (int32_t)arg[QMM_GATHERED],
                       .single = single};
    zl_array list[QMM_LISTED];
    const struct kernel_function *kernel = cuda_text_find(p, override, &r, sizeof r, define, &r);
    struct kernel_call k;
    kernel_begin_call(&k);
    struct axes axes = {s, (s.rows + TILE - 1) / TILE, (s.m + lines - 1) / lines};
    kernel_quantized_inputs(c, list);
    bool added = kernel_add_array(p, &k, call_first(c));
    for (int i = 0; added && i < QMM_LISTED; i++)
        added = kernel_add_array(p, &k, list[i]);
    if (!kernel || !added)
        return KERNEL_FAILED;
    for (int i = 1; i < k.arguments; i++)
        k.argument[i].access = KERNEL_READ;
    kernel_add(&k, &axes, sizeof axes);
    return kernel_launch_function(p, kernel, axes.blocks * axes.chunks * s.products, &k) ? KERNEL_DONE
                                                                                         : KERNEL_FAILED;
}
