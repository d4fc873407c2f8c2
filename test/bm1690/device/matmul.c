// c = a b in f16, with tiles of 128 x 256 and a depth of 128, two buffers of each operand, blocks shared among the cores.

#include "ppl_helper.h"

typedef struct {
    global_addr_t c, a, b;
    int rows, columns, depth;
} arguments_t;

enum { ROWS = 128, COLUMNS = 256, DEPTH = 128, SUM = 0, A = 0x8000, B = 0x10000, HALF = 0x20000 };

static void load(const arguments_t *a, int row, int column, int k, int buffer) {
    dim4 left = {1, ROWS, 1, DEPTH}, right = {1, DEPTH, 1, COLUMNS};
    dim4 left_stride = {0, a->depth, 0, 1}, right_stride = {0, a->columns, 0, 1};
    tpu_gdma_cpy_S2L(A + buffer * 0x4000, a->a + ((global_addr_t)row * a->depth + k) * 2, &left, NULL, &left_stride, DT_FP16);
    tpu_gdma_cpy_S2L(B + buffer * 0x8000, a->b + ((global_addr_t)k * a->columns + column) * 2, &right, NULL, &right_stride, DT_FP16);
}

int matmul_kernel(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    int across = a.columns / COLUMNS, blocks = a.rows / ROWS * across;
    tpu_initialize();
    for (int block = tpu_workitem_index(); block < blocks; block += tpu_workitem_num()) {
        int row = block / across * ROWS, column = block % across * COLUMNS, steps = a.depth / DEPTH;
        load(&a, row, column, 0, 0);
        for (int k = 0; k < steps; k++) {
            tpu_parallel_start();
            if (k + 1 < steps)
                load(&a, row, column, (k + 1) * DEPTH, (k + 1) % 2);
            tpu_bdc_fp_mm(SUM, A + k % 2 * 0x4000, B + k % 2 * 0x8000, ROWS, DEPTH, COLUMNS, DT_FP32, DT_FP16, k > 0);
            tpu_parallel_end();
        }
        dim4 shape = {1, ROWS, 1, COLUMNS}, stride = {0, a.columns, 0, 1};
        tpu_bdc_cast(HALF, SUM, &shape, NULL, NULL, DT_FP16, DT_FP32, RM_HALF_TO_EVEN);
        tpu_gdma_cpy_L2S(a.c + ((global_addr_t)row * a.columns + column) * 2, HALF, &shape, &stride, NULL, DT_FP16);
    }
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(matmul_kernel)
