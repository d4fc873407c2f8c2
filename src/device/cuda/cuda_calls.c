// cuda_calls.c - helpers for calls of libraries: memory, arrays in the layouts that libraries take, and
// kernels that run before and after the calls.

#include "device/cuda/cuda_library.h"
#include "kernel/kernel.h"

#include <string.h>

// Memory ----------------------------------------------------------------------------------------------------

void *cuda_element(const struct kernel_place *p, zl_array x) {
    char *memory = kernel_reach(p, x);
    return memory ? memory + x->offset * (int64_t)array_item(x) : NULL;
}

void *cuda_row_major(const struct kernel_place *p, zl_array x, struct kernel_scratch *s) {
    bool lies = shape_is_row_major(x->ndim, x->dim, array_stride(x));
    return lies ? cuda_element(p, x) : kernel_copy_out(p, x, s);
}

// Returns a copy of the array x, with its last two axes exchanged if `transposed`. The caller frees it.
// Returns NULL, with an error, if memory runs out.
static zl_array view_of(zl_array x, bool transposed) {
    size_t bytes = sizeof *x + 2 * (size_t)x->ndim * sizeof x->dim[0];
    zl_array view = memory_alloc(bytes);
    if (!view)
        return NULL;
    memcpy(view, x, bytes);
    for (int list = 0; transposed && list < 2; list++) {
        int64_t *last = view->dim + (list + 1) * x->ndim - 2, first = last[0];
        last[0] = last[1];
        last[1] = first;
    }
    return view;
}

void *cuda_transposed_copy(const struct kernel_place *p, zl_array x, struct kernel_scratch *s) {
    zl_array transposed = view_of(x, true);
    void *to = transposed ? kernel_copy_out(p, transposed, s) : NULL;
    memory_free(transposed);
    return to;
}

void *cuda_from_fp8(const struct kernel_place *p, zl_array x, bool transposed, zl_dtype dtype,
                    struct kernel_scratch *s) {
    zl_array view = view_of(x, transposed);
    void *to = view ? kernel_scratch_open(p, s, (size_t)x->size * zl_dtype_size(dtype)) : NULL;
    bool done = to && kernel_from_fp8(p, view, dtype, to);
    memory_free(view);
    return done ? to : NULL;
}

// Kernels ---------------------------------------------------------------------------------------------------

static struct tile_kernel *make(const void *data) {
    const struct cuda_file *file = data;
    return kernel_built_in(file->name, "ITEM=%s", kernel_type((zl_dtype)file->dtype));
}

bool cuda_run_file(const struct kernel_place *p, struct cuda_file file, struct kernel_call *k, int symbols,
                   const int64_t *symbol) {
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &file, sizeof file, make, &file);
    return kernel && kernel_launch_tiles(p, kernel, k, symbols, symbol);
}

bool cuda_pair_up(const struct kernel_place *p, zl_dtype dtype, int64_t n, void *x, double second, void *y) {
    union scalar number;
    struct kernel_call k;
    dtype_convert(&number, dtype, &second, ZL_FLOAT64, 1);
    kernel_begin_call(&k);
    kernel_add_memory(&k, x);
    kernel_add(&k, &number, zl_dtype_size(dtype));
    kernel_add_memory(&k, y);
    return x && y && cuda_run_file(p, (struct cuda_file){"pairs", (int32_t)dtype}, &k, 1, &n);
}
