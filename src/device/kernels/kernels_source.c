// kernels_source.c - what the texts of kernels begin with, and the pieces that come from rows.

#include "device/kernels/kernels.h"
#include "render/render.h"

#include <inttypes.h>
#include <string.h>

// clang-format off
static const struct words {
    const char *dialect, *text;
} words[] = {
    {"cuda",
     "#define KERNEL extern \"C\" __global__ void\n"
     "#define KERNEL_OF(threads) extern \"C\" __global__ void __launch_bounds__(threads, 1024 / threads)\n"
     "#define GLOBAL\n"
     "#define LOCAL __shared__\n"
     "#define AXES_OF(type) const __grid_constant__ struct type\n#define AXES AXES_OF(zl_axes)\n"
     "#define BARRIER __syncthreads()\n"
     "#define GROUP ((idx)blockIdx.x)\n"
     "#define THREAD ((i32)threadIdx.x)\n"
     "#define THREADS ((i32)blockDim.x)\n"
     "#define UNROLL _Pragma(\"unroll\")\n#define UNROLL_4 _Pragma(\"unroll 4\")\n"
     "#define PACK(type, count) struct __align__(sizeof(type) * count) { type e[count]; }\n"
     // Values of other threads of 32: of one whose number differs in a bit, is less by so much, or is given.
     "#define SLOT(type, name, threads)\n"
     "#define EXCHANGE(to, x, by, slot) to = zl_exchange(x, [](unsigned u, int b) { return __shfl_xor_sync(~0u, u, b); }, by)\n"
     "#define SHIFT(to, x, by, slot) to = zl_exchange(x, [](unsigned u, int b) { return __shfl_up_sync(~0u, u, b); }, by)\n"
     "#define FROM(to, x, lane, slot) to = zl_exchange(x, [](unsigned u, int b) { return __shfl_sync(~0u, u, b); }, lane)\n"
     "template <typename T, typename F> static __device__ __forceinline__ T zl_exchange(T x, F f, int by) {\n"
     "    union { T t; unsigned u[(sizeof(T) + 3) / 4]; } v;\n    v.t = x;\n"
     "    for (unsigned i = 0; i < sizeof v.u / 4; i++)\n        v.u[i] = f(v.u[i], by);\n"
     "    return v.t;\n}\n"},
    {"opencl",
     "#define KERNEL __kernel void\n"
     "#define KERNEL_OF(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void\n"
     "#define GLOBAL __global\n"
     "#define LOCAL __local\n"
     "#define AXES_OF(type) struct type\n#define AXES AXES_OF(zl_axes)\n"
     "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n"
     "#define GROUP ((idx)get_group_id(0))\n"
     "#define THREAD ((i32)get_local_id(0))\n"
     "#define THREADS ((i32)get_local_size(0))\n"
     "#define UNROLL\n#define UNROLL_4\n"
     "#define PACK(type, count) struct __attribute__((aligned(sizeof(type) * count))) { type e[count]; }\n"
     // Through local memory, which all threads of the group have to reach.
     "#define SLOT(type, name, threads) LOCAL type name[threads];\n"
     "#define EXCHANGE(to, x, by, slot) slot[THREAD] = x; BARRIER; to = slot[THREAD ^ (by)]; BARRIER\n"
     "#define SHIFT(to, x, by, slot) slot[THREAD] = x; BARRIER; to = slot[THREAD < (by) ? THREAD : THREAD - (by)]; BARRIER\n"
     "#define FROM(to, x, lane, slot) slot[THREAD] = x; BARRIER; to = slot[THREAD / 32 * 32 + (lane)]; BARRIER\n"},
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

const char *kernel_part_type(zl_dtype dtype) {
    return dtype == ZL_COMPLEX64 ? "f32" : kernel_memory_type(dtype);
}

void kernel_constant(struct text *out, zl_dtype dtype, uint64_t bits) {
    if (dtype == ZL_COMPLEX64)
        text_add(out, "{{zl_f32_from(0x%xu), zl_f32_from(0x%xu)}}", (unsigned)bits, (unsigned)(bits >> 32));
    else if (dtype == ZL_FLOAT32 || dtype == ZL_FLOAT64)
        text_add(out, "zl_%s_from(0x%" PRIx64 "u)", kernel_memory_type(dtype), bits);
    else
        text_add(out, "(%s)0x%" PRIx64 "u", kernel_memory_type(dtype), bits);
}
