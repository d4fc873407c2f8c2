// kernels_source.c - what texts of CUDA begin with, and the pieces of them that come from rows.

#include "device/kernels/kernels.h"
#include "render/render.h"

// clang-format off
static const char words[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define GLOBAL\n"
    "#define LOCAL __shared__\n"
    "#define AXES const __grid_constant__ struct zl_axes\n"
    "#define BARRIER __syncthreads()\n"
    "#define GROUP ((idx)blockIdx.x)\n"
    "#define THREAD ((i32)threadIdx.x)\n"
    "#define THREADS ((i32)blockDim.x)\n"
    "#define UNROLL _Pragma(\"unroll\")\n"
    "#define PACK(type, count) struct __align__(sizeof(type) * count) { type e[count]; }\n";
// clang-format on

void kernel_begin(struct text *out, const char *dialect, bool wide) {
    text_add(out, "%s\n%stypedef %s idx;\n\n", render_prelude(dialect), words, wide ? "i64" : "i32");
}

bool kernel_element(struct text *out, struct tile_kernel *kernel, const char *dialect, const char *symbol) {
    bool done = kernel && pass_run(kernel, render_target(dialect), NULL) &&
                render_element(out, kernel, dialect, symbol);
    text_add(out, "\n");
    tile_free(kernel);
    return done;
}

const char *kernel_memory_type(zl_dtype dtype) {
    return dtype == ZL_BOOL ? "u8" : tile_type_name(tile_type_of(dtype));
}
