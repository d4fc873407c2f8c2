// group_dialects.c - the dialects for groups of threads: OpenCL C for GPUs and for CPUs, CUDA C, and HIP,
// which has CUDA's words and a prelude of its own.

#include "render/gpu_c/group.h"
#include "render/c/scalar.h"

static const struct group_words opencl_words = {
    .function = "__kernel __attribute__((reqd_work_group_size(%s, 1, 1))) void",
    .global = "__global ",
    .shared = "__local ",
    .table = "const ",
    .thread = "get_local_id(0)",
    .block = "get_group_id(0)"};

static const struct group_words cuda_words = {
    .function = "extern \"C\" __global__ void ZL_BOUNDS(%s)",
    .has_resident = true,
    .global = "",
    .shared = "",
    .table = "const __grid_constant__ ", // read in place: indexing does not copy it to the thread
    .thread = "threadIdx.x",
    .block = "blockIdx.x",
    .memory = "extern __shared__ __align__(1024) unsigned char zl_memory[];"};

static const struct target_group opencl_group = {.threads = 128, .flat_threads = 128, .vector_bytes = 16};
static const struct target_group opencl_cpu_group = {
    .threads = 128, .flat_threads = 128, .vector_bytes = 16, .is_serial = true};
static const struct target_group cuda_group = {.threads = 128,
                                               .flat_threads = 256,
                                               .subgroup = 32,
                                               .joined = 4,
                                               .vector_bytes = 16,
                                               .shared_bytes = 160 << 10,
                                               .cluster = 8,
                                               .has_async = true};
static const struct target_group hip_group = {
    .threads = 256, .flat_threads = 256, .subgroup = 32, .vector_bytes = 16};

// Returns whether mma.m16n8k16 multiplies these dtypes: 16-bit floats, with sums in f32.
static bool has_mma(zl_dtype a, zl_dtype b, zl_dtype c) {
    return a == b && (a == ZL_FLOAT16 || a == ZL_BFLOAT16) && c == ZL_FLOAT32;
}

// Defines the dialect of a GPU language from what users call it, its spellings, prelude and words; the other
// arguments are members of its target.
#define GROUP_DIALECT(id, user_name, spellings, head, own_words, ...)                                  \
    const struct dialect dialect_##id = {                                                              \
        .target = SCALAR_TARGET(#id, spellings, .called = user_name, .is_program = true, __VA_ARGS__), \
        .prelude = head,                                                                               \
        .program = render_group,                                                                       \
        .words = &own_words,                                                                           \
        SCALAR_DIALECT}

GROUP_DIALECT(opencl_tiles, "opencl", scalar_group_words, prelude_opencl_tiles, opencl_words,
              .group = &opencl_group, );
GROUP_DIALECT(opencl_cpu_tiles, "opencl", scalar_group_words, prelude_opencl_tiles, opencl_words,
              .group = &opencl_cpu_group, );
GROUP_DIALECT(cuda_tiles, "cuda", scalar_cuda_words, prelude_cuda_tiles, cuda_words, .group = &cuda_group,
              .multiplies = has_mma, );
GROUP_DIALECT(hip_tiles, "hip", scalar_exp2_words, prelude_hip_tiles, cuda_words, .group = &hip_group, );
