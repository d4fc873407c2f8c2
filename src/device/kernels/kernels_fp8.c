// kernels_fp8.c - numbers of eight bits (e4m3) as floats, from any strides: for products that only other dtypes have.

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"

struct recipe {
    char file[12];
    int32_t dtype, wide;
};

static struct tile_kernel *make(const void *data) {
    const struct recipe *r = data;
    return kernel_built_in(r->file, "ITEM=%s,%s", kernel_type((zl_dtype)r->dtype),
                           kernel_index_clauses(r->wide));
}

bool kernel_from_fp8(const struct kernel_place *p, zl_array x, zl_dtype dtype, void *to) {
    struct kernel_layout l;
    struct kernel_call k;
    layout_begin(&l, 1);
    for (int i = 0; i < x->ndim; i++)
        layout_push(&l, x->dim[i], &array_stride(x)[i]);
    if (!kernel_check_axes(&l, "numbers of eight bits"))
        return false;
    struct recipe r = {"from_fp8", (int32_t)dtype, layout_is_wide(&l) || kernel_elements(x) > KERNEL_NARROW};
    const struct kernel_tiles *kernel = kernel_find_tiles(p, &r, sizeof r, make, &r);
    void *from = kernel_reach(p, x);
    kernel_begin_call(&k);
    kernel_add_memory(&k, from);
    kernel_add_table(&k, &l, r.wide);
    kernel_add_memory(&k, to);
    return kernel && from &&
           kernel_launch_tiles(p, kernel, &k, 4,
                               (const int64_t[]){l.size, l.axes, kernel_elements(x), x->offset});
}
