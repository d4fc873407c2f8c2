// tile_gemm.c - products of tiles and reductions of lines, as compiled tile kernels ask for them.

#include "device/cpu/tile_kernel.h"

#include "device/cpu/cpu.h"

static struct gemm gemm_of(const struct tile_gemm *t) {
    return (struct gemm){.m = t->m,
                         .n = t->n,
                         .k = t->k,
                         .a = t->a.data,
                         .b = t->b.data,
                         .c = t->c.data,
                         .a_row = t->a.transposed ? 1 : t->a.row,
                         .a_col = t->a.transposed ? t->a.row : 1,
                         .b_row = t->b.transposed ? 1 : t->b.row,
                         .b_col = t->b.transposed ? t->b.row : 1,
                         .c_row = t->c.row,
                         .c_col = 1,
                         .add = !t->clear};
}

// Sums of 16-bit floats are float32; where the result is not, it goes through one that is.
static void multiply_narrow(const struct tile_gemm *t, struct gemm *g) {
    zl_dtype dtype = (zl_dtype)t->c.dtype;
    row_fn *widen = cpu_level()->rows->cast[ZL_FLOAT32][dtype],
           *narrow = cpu_level()->rows->cast[dtype][ZL_FLOAT32];
    char *room = cpu_scratch(SCRATCH_RESULT, sizeof(float) * (size_t)(t->m * t->n)), *c = g->c;
    if (!room)
        return;
    for (int64_t i = 0; g->add && i < t->m; i++)
        cpu_call_row(widen, room + i * t->n * 4, c + i * t->c.row * 2, NULL, NULL, t->n);
    g->c = room;
    g->c_row = t->n;
    cpu_own_gemm((zl_dtype)t->a.dtype, g);
    for (int64_t i = 0; i < t->m; i++)
        cpu_call_row(narrow, c + i * t->c.row * 2, room + i * t->n * 4, NULL, NULL, t->n);
}

static void multiply_int8(const struct gemm *g) {
    for (int64_t i = 0; i < g->m; i++) {
        int32_t *c = (int32_t *)(void *)g->c + i * g->c_row;
        for (int64_t j = 0; !g->add && j < g->n; j++)
            c[j] = 0;
        for (int64_t k = 0; k < g->k; k++) {
            int32_t a = (int8_t)g->a[i * g->a_row + k * g->a_col];
            const int8_t *b = (const int8_t *)g->b + k * g->b_row;
            for (int64_t j = 0; j < g->n; j++)
                c[j] = (int32_t)((uint32_t)c[j] + (uint32_t)(a * b[j * g->b_col]));
        }
    }
}

void cpu_tile_gemm(const struct tile_gemm *t) {
    struct gemm g = gemm_of(t);
    if (t->a.dtype == ZL_INT8)
        multiply_int8(&g);
    else if (t->c.dtype == ZL_FLOAT16 || t->c.dtype == ZL_BFLOAT16)
        multiply_narrow(t, &g);
    else
        cpu_own_gemm((zl_dtype)t->a.dtype, &g);
}

void cpu_tile_reduce(int op, int dtype, void *to, const void *from, int64_t n) {
    cpu_call_row(cpu_reduce_row((enum tile_op)op, (zl_dtype)dtype), to, from, NULL, NULL, n);
}
