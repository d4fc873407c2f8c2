// cuda_blas.c - products of matrices by cuBLAS, opened at run time, where it takes the layout; else by our own kernel.
//
// cuBLAS has columns where we have rows: it is given the transposes, in the other order. Matrices whose rows or columns lie
// behind each other are read as they are.

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_blas.h"
#include "op/ops.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef struct cublas_ *cublas;

enum { // of cuBLAS's header
    AS_IT_IS = 0,
    TRANSPOSED = 1,
    F32 = 0,
    F64 = 1,
    F16 = 2,
    BF16 = 14,
    IN_F32 = 68,
    IN_F64 = 70,
    CHOOSE = -1,
};

#define CUBLAS_FUNCTIONS(F)                                                                               \
    F(cublasCreate_v2, (cublas * out))                                                                    \
    F(cublasSetStream_v2, (cublas c, cuda_stream s))                                                      \
    F(cublasGemmStridedBatchedEx,                                                                         \
      (cublas c, int a_how, int b_how, int m, int n, int k, const void *alpha, const void *a, int a_type, \
       int a_step, long long a_batch, const void *b, int b_type, int b_step, long long b_batch,           \
       const void *beta, void *y, int y_type, int y_step, long long y_batch, int batch, int computes_in,  \
       int algorithm))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    CUBLAS_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

static bool is_there;
static struct {
    struct lock lock; // a handle serves one thread at a time
    cublas handle;
    bool failed;
} units[CUDA_DEVICES];

// Opening ----------------------------------------------------------------------------------------------------------

static bool bind(void *library) {
#define SYMBOL(name, parameters) {#name, (void **)(void *)&api.name},
    static const struct library_symbol symbols[] = {CUBLAS_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    const char *missing;
    return library && library_bind(library, symbols, COUNT(symbols), &missing);
}

static void find(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
    char path[512];
    if (!*setting_text(SETTING_CUDA) && bind(library_open(names))) {
        is_there = true;
        return;
    }
    snprintf(path, sizeof path, "%s/lib64/libcublas.so",
             *setting_text(SETTING_CUDA) ? setting_text(SETTING_CUDA) : "/usr/local/cuda");
    is_there = access(path, R_OK) == 0 && bind(library_open((const char *const[]){path, NULL}));
}

// Under the unit's lock.
static cublas handle_of(int unit) {
    struct cuda_device *d = cuda_device(unit);
    if (units[unit].handle || units[unit].failed || !d)
        return units[unit].handle;
    units[unit].failed =
        api.cublasCreate_v2(&units[unit].handle) || api.cublasSetStream_v2(units[unit].handle, d->stream);
    if (units[unit].failed)
        units[unit].handle = NULL;
    return units[unit].handle;
}

// Layout -----------------------------------------------------------------------------------------------------------

struct matrix {
    const void *data;
    int how, step; // as cuBLAS sees it; elements from a column to the next
    long long batch;
};

// A matrix of ours as the transpose of one of cuBLAS's; false: it takes no such layout.
static bool see(struct matrix *m, zl_array x, void *memory, const struct kernel_layout *batch, int operand) {
    int64_t rows = x->dim[x->ndim - 2], cols = x->dim[x->ndim - 1];
    int64_t row = array_stride(x)[x->ndim - 2], col = array_stride(x)[x->ndim - 1];
    bool by_rows = (col == 1 || cols == 1) && (row >= cols || rows == 1);
    bool by_cols = (row == 1 || rows == 1) && (col >= rows || cols == 1);
    int64_t step = by_rows ? (rows == 1 ? cols : row) : cols == 1 ? rows : col;
    m->data = (const char *)memory + x->offset * (int64_t)array_item(x);
    m->how = by_rows ? AS_IT_IS : TRANSPOSED;
    m->step = (int)step;
    m->batch = batch->axes ? batch->stride[operand][0] : 0;
    return (by_rows || by_cols) && step <= INT32_MAX && memory;
}

static int type_of(zl_dtype dtype) {
    return dtype == ZL_FLOAT64 ? F64 : dtype == ZL_FLOAT16 ? F16 : dtype == ZL_BFLOAT16 ? BF16 : F32;
}

static bool multiply(cublas handle, const struct matrix *a, const struct matrix *b, zl_array y, void *to,
                     int64_t inner, int64_t batch) {
    static const float one = 1, none = 0;
    static const double one_wide = 1, none_wide = 0;
    zl_dtype dtype = (zl_dtype)y->dtype;
    bool wide = dtype == ZL_FLOAT64;
    int type = type_of(dtype), m = (int)y->dim[y->ndim - 2], n = (int)y->dim[y->ndim - 1];
    int failed = api.cublasGemmStridedBatchedEx(
        handle, b->how, a->how, n, m, (int)inner, wide ? (const void *)&one_wide : &one, b->data, type,
        b->step, b->batch, a->data, type, a->step, a->batch, wide ? (const void *)&none_wide : &none, to,
        type, n, (long long)m * n, (int)batch, wide ? IN_F64 : IN_F32, CHOOSE);
    return !failed ||
           error_false(ZL_ERROR_DEVICE, "cuda: cublasGemmStridedBatchedEx failed with code %d", failed);
}

enum kernel_taken cuda_blas(const struct kernel_place *p, const struct call *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    zl_array a = c->in[0], b = c->in[1], y = call_first(c);
    pthread_once(&once, find);
    if (c->op != &op_matmul || !is_there || !a->size)
        return KERNEL_NOT_TAKEN;
    struct kernel_layout batch;
    layout_begin(&batch, 2);
    for (int i = 0; i < a->ndim - 2; i++)
        layout_push(&batch, a->dim[i], (const int64_t[]){array_stride(a)[i], array_stride(b)[i]});
    int64_t inner = a->dim[a->ndim - 1],
            most = MAX_OF(MAX_OF(y->dim[y->ndim - 1], y->dim[y->ndim - 2]), MAX_OF(inner, batch.size));
    void *to = kernel_reach(p, y);
    struct matrix left, right;
    if (batch.axes > 1 || most > INT32_MAX || !to || !see(&left, a, kernel_reach(p, a), &batch, 0) ||
        !see(&right, b, kernel_reach(p, b), &batch, 1))
        return KERNEL_NOT_TAKEN;
    lock_take(&units[p->unit].lock);
    cublas handle = handle_of(p->unit);
    bool done = handle && multiply(handle, &left, &right, y, to, inner, batch.size);
    lock_give(&units[p->unit].lock);
    return done ? KERNEL_DONE : handle ? KERNEL_FAILED : KERNEL_NOT_TAKEN;
}
