// cuda_kernel_text.c - writes the CUDA C++ text of a kernel whose function body is given.
//
// All inputs are pointers, numbers too. Template arguments become types and constants inside the function.
// The text defines briefly what MLX's kernels use of cooperative groups and for indexing strided arrays,
// because NVIDIA's own headers take seconds to compile.

#include "op/ops.h"

#include <string.h>

static const char *const types[ZL_DTYPE_COUNT] = {
    [ZL_BOOL] = "bool",
    [ZL_UINT8] = "uint8_t",
    [ZL_UINT16] = "uint16_t",
    [ZL_UINT32] = "uint32_t",
    [ZL_UINT64] = "uint64_t",
    [ZL_INT8] = "int8_t",
    [ZL_INT16] = "int16_t",
    [ZL_INT32] = "int32_t",
    [ZL_INT64] = "int64_t",
    [ZL_FLOAT16] = "__half",
    [ZL_FLOAT32] = "float",
    [ZL_FLOAT64] = "double",
    [ZL_BFLOAT16] = "__nv_bfloat16",
    [ZL_COMPLEX64] = "complex64_t",
};

// clang-format off
static const char prelude[] =
    "#ifdef __CUDACC_RTC__\n"
    "typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\ntypedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\ntypedef unsigned uint32_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "#else\n#include <stdint.h>\n#endif\n"
    "struct complex64_t { float x, y; };\n"
    "constexpr int WARP_SIZE = 32, MAX_NDIM = 8;\n"
    "template <typename T> struct zellige_list {\n"
    "    T of[MAX_NDIM];\n"
    "    __device__ const T *data() const { return of; }\n"
    "    __device__ T operator[](int i) const { return of[i]; }\n"
    "};\n"
    "using Shape = zellige_list<int32_t>;\n"
    "using Strides = zellige_list<int64_t>;\n"
    "template <typename I = int64_t> __device__ inline I elem_to_loc(I elem, const int *shape, const int64_t *strides, int ndim) {\n"
    "    I loc = 0;\n"
    "    for (int i = ndim - 1; i >= 0; i--) {\n"
    "        loc += (elem % shape[i]) * I(strides[i]);\n"
    "        elem /= shape[i];\n"
    "    }\n"
    "    return loc;\n"
    "}\n";

// Left out if the kernel includes NVIDIA's header.
static const char groups[] =
    "namespace cooperative_groups {\n"
    "struct thread_block {\n"
    "    static __device__ unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }\n"
    "    static __device__ unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }\n"
    "    static __device__ unsigned size() { return num_threads(); }\n"
    "    static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }\n"
    "    static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }\n"
    "    static __device__ void sync() { __syncthreads(); }\n"
    "};\n"
    "struct grid_group {\n"
    "    static __device__ unsigned long long block_rank() {\n"
    "        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);\n"
    "    }\n"
    "    static __device__ unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }\n"
    "    static __device__ unsigned long long thread_rank() {\n"
    "        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();\n"
    "    }\n"
    "    static __device__ unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }\n"
    "    static __device__ unsigned long long size() { return num_threads(); }\n"
    "};\n"
    "static __device__ inline grid_group this_grid() { return grid_group(); }\n"
    "static __device__ inline thread_block this_thread_block() { return thread_block(); }\n"
    "}\n"
    "namespace cg = cooperative_groups;\n";
// clang-format on

static bool is_half(zl_dtype dtype) {
    return dtype == ZL_FLOAT16 || dtype == ZL_BFLOAT16;
}

static bool has_halves(const zl_cpu_kernel_source *k, const zl_array *in) {
    bool has = false;
    for (int i = 0; i < k->inputs; i++)
        has |= is_half((zl_dtype)in[i]->dtype);
    for (int i = 0; i < k->outputs; i++)
        has |= is_half(k->dtype[i]);
    for (int i = 0; i < k->arguments; i++)
        has |= k->argument[i].is_dtype && is_half((zl_dtype)k->argument[i].value);
    return has;
}

static bool includes_groups(const zl_cpu_kernel_source *k) {
    return k->header && strstr(k->header, "cooperative_groups.h");
}

static void write_parameters(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    for (int i = 0; i < k->inputs; i++) {
        const char *name = k->input[i];
        text_add(out, "const %s *%s, ", types[in[i]->dtype], name);
        if (in[i]->ndim)
            text_add(out,
                     "const __grid_constant__ Shape %s_shape, const __grid_constant__ Strides %s_strides, "
                     "const int %s_ndim, ",
                     name, name, name);
    }
    for (int i = 0; i < k->outputs; i++)
        text_add(out, "%s%s *%s", i ? ", " : "", types[k->dtype[i]], k->output[i]);
}

static void write_arguments(struct text *out, const zl_cpu_kernel_source *k) {
    for (int i = 0; i < k->arguments; i++) {
        const zl_kernel_argument *a = &k->argument[i];
        bool is_long = a->value != (int32_t)a->value;
        if (a->is_dtype)
            text_add(out, "    using %s = %s;\n", a->name, types[a->value]);
        else
            text_add(out, "    constexpr %s %s = %lld;\n", is_long ? "int64_t" : "int", a->name,
                     (long long)a->value);
    }
}

void op_cuda_kernel_text(struct text *out, const zl_cpu_kernel_source *k, const zl_array *in) {
    text_add(out, "// %s\n", k->name);
    text_bytes(out, prelude, (int)sizeof prelude - 1);
    if (has_halves(k, in))
        text_add(out, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n");
    if (!includes_groups(k))
        text_bytes(out, groups, (int)sizeof groups - 1);
    if (k->header && *k->header)
        op_kernel_own(out, k->name, " (header)", k->header);
    if (includes_groups(k))
        text_add(out, "namespace cg = cooperative_groups;\n");
    text_add(out, "extern \"C\" __global__ void zl_kernel(");
    write_parameters(out, k, in);
    text_add(out, ") {\n");
    write_arguments(out, k);
    op_kernel_own(out, k->name, "", k->source);
    text_add(out, "}\n");
}
