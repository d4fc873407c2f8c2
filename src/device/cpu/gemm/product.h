// product.h - matrix products, for other files: the functions that compute one, the BLAS libraries, and the
// work that follows a product.

#ifndef PRODUCT_H
#define PRODUCT_H

#include "device/cpu/cpu.h"

// cpu_matmul.c, blas.c, gemm_own.c, gemm_small.c, gemm_vector.c ---------------------------------------------

// What is added to a product of 16-bit floats before it is rounded: each sum becomes alpha times the sum plus
// beta times the element of `data`, which has the same dtype; its strides are in elements. alpha 0: sums stay
// as they are; beta 0: there is no data.
struct gemm_added {
    float alpha, beta;
    const char *data;
    int64_t row, col;
};

// Computes c (m x n) = a (m x k) times b (k x n), plus c's old values if `add`. Strides are in elements and
// arbitrary. If a and b are 16-bit floats, c is float32, and `added` is applied by the code that rounds it.
// Runs on one thread. Returns false, with an error, if memory runs out.
struct gemm {
    int64_t m, n, k;
    const char *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    char *c;
    int64_t c_row, c_col;
    bool add;
    struct gemm_added added;
};
typedef bool gemm_fn(zl_dtype dtype, const struct gemm *g);

// A library, or our own code, that multiplies matrices of float32, float64 and complex64.
struct blas {
    const char *name; // for messages
    gemm_fn *multiply;
};
// Returns the BLAS that ZL_BLAS names, else the one that blas.c prefers. It is chosen at the first use.
const struct blas *cpu_blas(void);

// Sets how many threads a library may use.
typedef void blas_threads(int count);
// Returns the function of an opened library that sets its number of threads, or NULL if it has none.
blas_threads *cpu_blas_threads(void *library);
// Begins a use of a BLAS or LAPACK library. NULL: on one thread, while other threads may use it too; else the
// caller has the library for itself, with all threads. Waits until the library is free for that.
void cpu_blas_begin(blas_threads *alone);
// Ends the use that cpu_blas_begin() began with the same argument, on the same thread.
void cpu_blas_end(blas_threads *alone);

// Applies `added` to n sums, with the elements from data[at] on that are `step` apart.
void cpu_gemm_add(zl_dtype dtype, const struct gemm_added *added, float *sum, int64_t at, int64_t step,
                  int64_t n);
// Computes a product by the best function for its size; c has the dtype of a and b, and nothing is added.
gemm_fn cpu_gemm;
// Returns the best of the following functions for a size.
gemm_fn *cpu_choose_gemm(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_own_gemm; // packs panels for micro-kernels; any float or complex dtype
gemm_fn cpu_gemv;     // m or n is 1; not complex
// Returns whether cpu_gemv_shared suits: the matrix is large, and its rows are contiguous across the vector.
bool cpu_gemv_is_shared(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_gemv_shared; // gemv by all threads; c has the dtype of a and b
// Returns whether packing would take longer than multiplying. cpu_tiny_gemm may be called only then.
bool cpu_is_tiny(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_tiny_gemm;
// Returns whether there are so few rows or columns that cpu_thin_gemm suits. It may be called only then.
bool cpu_is_thin(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_thin_gemm;
// Returns whether cpu_thin_gemm suits and is better than cpu_few_gemm.
bool cpu_has_thin_kernel(zl_dtype dtype, const struct gemm *g);
// Returns whether cpu_few_gemm suits: there are a few dozen rows. It may be called only then.
bool cpu_is_few(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_few_gemm;
// Returns whether cpu_dots_gemm suits, which multiplies a few rows or columns with the wide vectors of
// x86_64. It may be called only then.
bool cpu_is_dots(zl_dtype dtype, const struct gemm *g);
gemm_fn cpu_dots_gemm;
// Returns whether cpu_own_gemm is best because b fits L2, so that panels of b are packed one by one as
// needed.
bool cpu_is_packed_late(zl_dtype dtype, const struct gemm *g);

// The parts in which a product of matmul is computed.
struct product_parts {
    int64_t rows, cols; // of a part; if all threads share each product, of the whole result
    bool whole_rows;    // no row of the result is split between parts
};
// Returns the sizes of the parts of a call.
struct product_parts cpu_matmul_parts(const struct call *c);

// A part that has been computed.
struct product_part {
    int64_t batch, row, col; // its position in the result
    int64_t rows, cols;
    char *data; // its elements, valid until product_then.run returns; NULL: they are in the output
    int64_t data_row; // elements between its rows
};
// The work that follows a product: several threads at once call `run`, once for each part. stored: the output
// has memory. lines: parts must be whole rows, which the caller knows to be possible.
struct product_then {
    void (*run)(void *context, const struct product_part *part);
    void *context;
    bool stored, lines;
};
// Computes a call of matmul and the work that follows. Returns false if memory runs out.
bool cpu_matmul_then(const struct call *c, const struct product_then *then);


// A function that begins with GEMM_FUSED and contains GEMM_CONTRACT may compute products and sums as fused
// multiply-adds.
#if defined(__clang__)
#define GEMM_FUSED
#define GEMM_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define GEMM_FUSED __attribute__((optimize("fp-contract=fast")))
#define GEMM_CONTRACT
#endif

#endif
