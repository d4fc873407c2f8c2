// Device C of the golden cases: each entry loads tiles, runs one command, and stores what it gave.

#include "ppl_helper.h"

typedef struct {
    global_addr_t out, a, b;
    int rows, columns, depth, dtype, operation, times;
} arguments_t;

enum { A = 0, B = 0x10000, OUT = 0x20000, WORK0 = 0x30000, WORK1 = 0x34000, COEFFICIENTS = 0x38000, TABLE = 0x39000 };

static void load(local_addr_t to, global_addr_t from, int rows, int columns, data_type_t dtype) {
    dim4 shape = {1, rows, 1, columns};
    tpu_gdma_cpy_S2L(to, from, &shape, NULL, NULL, dtype);
}

static void store(global_addr_t to, local_addr_t from, int rows, int columns, data_type_t dtype) {
    dim4 shape = {1, rows, 1, columns};
    tpu_gdma_cpy_L2S(to, from, &shape, NULL, NULL, dtype);
}

int binary(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, a.rows, 1, a.columns};
    tpu_initialize();
    load(A, a.a, a.rows, a.columns, a.dtype);
    load(B, a.b, a.rows, a.columns, a.dtype);
    if (a.operation == 0)
        tpu_bdc_fp_add(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    if (a.operation == 1)
        tpu_bdc_fp_sub(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    if (a.operation == 2)
        tpu_bdc_fp_mul(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    if (a.operation == 3)
        tpu_bdc_max(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    if (a.operation == 4)
        tpu_bdc_min(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    if (a.operation == 5)
        tpu_bdc_fp_div(OUT, A, B, &shape, NULL, NULL, NULL, a.dtype);
    store(a.out, OUT, a.rows, a.columns, a.dtype);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(binary)

int unary(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, a.rows, 1, a.columns};
    tpu_initialize();
    load(A, a.a, a.rows, a.columns, a.dtype);
    if (a.operation == 0) {
        tpu_bdc_load_fp_exp_coeff(COEFFICIENTS, a.dtype);
        tpu_bdc_fp_exp(OUT, A, WORK0, WORK1, COEFFICIENTS, &shape, a.dtype);
    }
    if (a.operation == 1)
        tpu_bdc_fp_rsqrt(OUT, A, &shape, a.dtype);
    if (a.operation == 2)
        tpu_bdc_fp_sqrt(OUT, A, &shape, a.dtype);
    store(a.out, OUT, a.rows, a.columns, a.dtype);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(unary)

int series(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, a.rows, 1, a.columns};
    enum { ERF = 0x3a000, WORK2 = 0x3c000, WORK3 = 0x3e000 };
    tpu_initialize();
    load(A, a.a, a.rows, a.columns, DT_FP32);
    tpu_bdc_load_fp32_exp_coeff(COEFFICIENTS);
    tpu_bdc_load_fp32_exp_table(TABLE);
    tpu_bdc_load_fp32_erf_coeff(ERF);
    if (a.operation == 0)
        tpu_bdc_fp32_sigmoid(OUT, A, WORK0, WORK1, COEFFICIENTS, TABLE, &shape);
    if (a.operation == 1)
        tpu_bdc_fp32_silu(OUT, A, WORK0, WORK1, COEFFICIENTS, TABLE, &shape);
    if (a.operation == 2)
        tpu_bdc_fp32_tanh(OUT, A, WORK0, WORK1, COEFFICIENTS, TABLE, &shape);
    if (a.operation == 3)
        tpu_bdc_fp32_erf(OUT, A, WORK0, WORK1, WORK2, COEFFICIENTS, ERF, TABLE, &shape);
    if (a.operation == 4)
        tpu_bdc_fp32_gelu(OUT, A, WORK0, WORK1, WORK2, WORK3, COEFFICIENTS, ERF, TABLE, &shape);
    if (a.operation == 5)
        tpu_bdc_load_fp32_log_coeff(COEFFICIENTS);
    if (a.operation == 5)
        tpu_bdc_fp32_log(OUT, A, WORK0, COEFFICIENTS, &shape);
    if (a.operation == 6)
        tpu_bdc_load_fp32_sin_coeff(COEFFICIENTS);
    if (a.operation == 6)
        tpu_bdc_fp32_sin(OUT, A, WORK0, COEFFICIENTS, &shape);
    if (a.operation == 7)
        tpu_bdc_load_fp32_cos_coeff(COEFFICIENTS);
    if (a.operation == 7)
        tpu_bdc_fp32_cos(OUT, A, WORK0, COEFFICIENTS, &shape);
    store(a.out, OUT, a.rows, a.columns, DT_FP32);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(series)

int cast(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, a.rows, 1, a.columns};
    tpu_initialize();
    load(A, a.a, a.rows, a.columns, DT_FP32);
    tpu_bdc_cast(OUT, A, &shape, NULL, NULL, a.dtype, DT_FP32, RM_HALF_TO_EVEN);
    store(a.out, OUT, a.rows, a.columns, a.dtype);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(cast)

int reduce(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    dim4 shape = {1, a.rows, 1, a.columns};
    dim2 kernel = {1, a.columns}, one = {1, 1};
    padding_t none = {0, 0, 0, 0};
    tpu_initialize();
    load(A, a.a, a.rows, a.columns, a.dtype);
    if (a.operation == 0)
        tpu_bdc_fp_avg_pool2d(OUT, A, &shape, &kernel, &none, &one, &one, a.dtype, (scalar_t){.u32 = FP_ONE(a.dtype)});
    else
        tpu_bdc_fp_max_pool2d(OUT, A, &shape, &kernel, &none, &one, &one, a.dtype, (scalar_t){.u32 = FP_NEG_MAX(a.dtype)});
    store(a.out, OUT, a.rows, 1, a.dtype);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(reduce)

int product(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    bool is_transposed = a.operation;
    tpu_initialize();
    load(A, a.a, a.rows, a.depth, a.dtype);
    load(B, a.b, is_transposed ? a.columns : a.depth, is_transposed ? a.depth : a.columns, a.dtype);
    for (int i = 0; i < a.times; i++)
        if (is_transposed)
            tpu_bdc_fp_mm_R_trans(OUT, A, B, a.rows, a.depth, a.columns, DT_FP32, a.dtype);
        else
            tpu_bdc_fp_mm(OUT, A, B, a.rows, a.depth, a.columns, DT_FP32, a.dtype, i > 0);
    store(a.out, OUT, a.rows, a.columns, DT_FP32);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(product)

int product_f32(const void *arguments) {
    arguments_t a = *(const arguments_t *)arguments;
    tpu_initialize();
    tpu_gdma_matrix_S2L(A, a.a, a.rows, a.depth, 16, a.depth, DT_FP32);
    tpu_gdma_matrix_S2L(B, a.b, a.depth, a.columns, 16, a.columns, DT_FP32);
    for (int i = 0; i < a.times; i++)
        tpu_bdc_fp32_mm(OUT, A, B, 0, a.rows, a.depth, a.columns, 16, 16, false, i > 0);
    tpu_gdma_matrix_L2S(a.out, OUT, a.rows, a.columns, 16, a.columns, DT_FP32);
    tpu_poll();
    return 0;
}
TPUKERNEL_FUNC_REGISTER(product_f32)
