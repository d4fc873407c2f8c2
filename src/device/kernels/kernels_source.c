// kernels_source.c - what the texts of kernels begin with, and the pieces that come from rows.

#include "device/kernels/kernels.h"
#include "render/render.h"

#include <string.h>

// clang-format off
static const struct words {
    const char *dialect, *text;
} words[] = {
    {"cuda",
     "#define KERNEL extern \"C\" __global__ void\n"
     "#define GLOBAL\n"
     "#define LOCAL __shared__\n"
     "#define AXES_OF(type) const __grid_constant__ struct type\n#define AXES AXES_OF(zl_axes)\n"
     "#define BARRIER __syncthreads()\n"
     "#define GROUP ((idx)blockIdx.x)\n"
     "#define THREAD ((i32)threadIdx.x)\n"
     "#define THREADS ((i32)blockDim.x)\n"
     "#define UNROLL _Pragma(\"unroll\")\n"
     "#define PACK(type, count) struct __align__(sizeof(type) * count) { type e[count]; }\n"},
    {"opencl",
     "#define KERNEL __kernel void\n"
     "#define GLOBAL __global\n"
     "#define LOCAL __local\n"
     "#define AXES_OF(type) struct type\n#define AXES AXES_OF(zl_axes)\n"
     "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n"
     "#define GROUP ((idx)get_group_id(0))\n"
     "#define THREAD ((i32)get_local_id(0))\n"
     "#define THREADS ((i32)get_local_size(0))\n"
     "#define UNROLL\n"
     "#define PACK(type, count) struct __attribute__((aligned(sizeof(type) * count))) { type e[count]; }\n"},
};
// clang-format on

void kernel_begin(struct text *out, const char *dialect, bool wide) {
    text_add(out, "%s\n", render_prelude(dialect));
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcmp(words[i].dialect, dialect))
            text_add(out, "%s", words[i].text);
    text_add(out, "typedef struct { f32 e[2]; } c64;\n");
    text_add(out, "typedef %s idx;\ntypedef %s uidx;\n\n", wide ? "i64" : "i32", wide ? "u64" : "u32");
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
