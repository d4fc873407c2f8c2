// cuda_text.c - translates kernels in CUDA C to C++ that runs on the host, one thread of a GPU at a time, for
// the driver of cuda.c.

#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Text before the kernel: definitions of what CUDA C has and C++ lacks. Text after it: how the kernel is
// called.
static const char before[] =
    "#include <cmath>\n#include <cstddef>\n#include <cstring>\n#include <utility>\n"
    "#define __global__\n#define __device__\n#define __host__\n#define __forceinline__ inline\n#define "
    "__constant__\n"
    "#define __shared__ static\n#define __grid_constant__\n#define __launch_bounds__(...)\n"
    "#define __align__(n) __attribute__((aligned(n)))\n"
    // instructions of GPUs, such as those for 16-bit floats, which are not computed here
    "#define asm(...)\n"
    "struct fake_index { unsigned x, y, z; };\n"
    "struct dim3 { unsigned x, y, z; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) "
    "{} };\n"
    "extern \"C\" { fake_index fake_place[4]; void (*fake_barrier)(), (*fake_subgroup)(); }\n"
    "#define threadIdx fake_place[0]\n#define blockIdx fake_place[1]\n"
    "#define blockDim fake_place[2]\n#define gridDim fake_place[3]\n"
    "#define __syncthreads() fake_barrier()\n"
    "static inline float __int_as_float(int x) { float y; std::memcpy(&y, &x, 4); return y; }\n"
    "static inline int __float_as_int(float x) { int y; std::memcpy(&y, &x, 4); return y; }\n"
    "static inline float __uint_as_float(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }\n"
    "static inline unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }\n"
    "static inline double __longlong_as_double(long long x) { double y; std::memcpy(&y, &x, 8); return y; }\n"
    "static inline long long __double_as_longlong(double x) { long long y; std::memcpy(&y, &x, 8); return y; "
    "}\n"
    "struct uint2 { unsigned x, y; };\nstruct uint4 { unsigned x, y, z, w; };\n"
    "static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }\n"
    "static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; "
    "}\n"
    "static inline std::size_t __cvta_generic_to_shared(const void *at) { return (std::size_t)at; }\n"
    "template <class T> static inline T atomicCAS(T *at, T old, T next) "
    "{ T was = *at; *at = was == old ? next : was; return was; }\n"
    // Threads of a subgroup exchange values in slots; all of them write before any of them reads.
    "static unsigned long long fake_slot[1024];\n"
    "template <class T> static T fake_shuffle(T x, unsigned from) {\n"
    "    std::memcpy(&fake_slot[threadIdx.x], &x, sizeof x);\n    fake_subgroup();\n"
    "    std::memcpy(&x, &fake_slot[from], sizeof x);\n    fake_subgroup();\n    return x;\n}\n"
    "#define __shfl_xor_sync(mask, value, by, of) fake_shuffle(value, threadIdx.x ^ (by))\n"
    "#define __shfl_up_sync(mask, value, by, of) "
    "fake_shuffle(value, threadIdx.x - (threadIdx.x % (of) < (by) ? 0 : (by)))\n"
    "#define __shfl_sync(mask, value, by, of) fake_shuffle(value, threadIdx.x / (of) * (of) + (by))\n"
    "alignas(1024) static unsigned char zl_memory[256 << 10];\n" // of the block that runs
    "template <class T> static inline T __ldcs(const T *at) { return *at; }\n"
    "template <class T, class V> static inline void __stcs(T *at, V value) { *at = value; }\n"
    "static inline float __fsqrt_rn(float x) { return std::sqrt(x); }\n"
    "static inline double __dsqrt_rn(double x) { return std::sqrt(x); }\n"
    "#line 1 \"kernel.cu\"\n";
static const char behind[] =
    "\ntemplate <class... A, std::size_t... I>\n"
    "static void fake_call(void (*f)(A...), void **a, std::index_sequence<I...>) { f(*(std::remove_cv_t<A> "
    "*)a[I]...); }\n"
    "template <class... A> static void fake_start(void (*f)(A...), void **a) "
    "{ fake_call(f, a, std::index_sequence_for<A...>()); }\n"
    "template <class... A> static std::size_t fake_size(void (*)(A...), int i) "
    "{ const std::size_t all[] = {sizeof(A)..., 0}; return i < (int)sizeof...(A) ? all[i] : 0; }\n"
    "template <class T> struct fake_use { static const int is = 0; };\n"
    "template <class T> struct fake_use<T *> { static const int is = 2; };\n"
    "template <class T> struct fake_use<const T *> { static const int is = 1; };\n"
    "template <class... A> static int fake_uses(void (*)(A...), int i) "
    "{ const int all[] = {fake_use<A>::is..., 0}; return i < (int)sizeof...(A) ? all[i] : 0; }\n"
    "extern \"C\" int fake_access(int i) { return fake_uses(%1$s, i); }\n"
    "extern \"C\" void fake_run(void **a) { fake_start(%1$s, a); }\n"
    "extern \"C\" std::size_t fake_bytes(int i) { return fake_size(%1$s, i); }\n";

// Parts of a text, and their replacements in C++. Shared memory whose size the launch determines is one array
// for all kernels, so its declarations are removed.
static const struct {
    const char *part, *instead;
} parts[] = {
    {"extern __shared__ __align__(1024) unsigned char zl_memory[];", ""},
    {"asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));",
     "y = a != a ? a : b != b ? b : a > b || (a == b && !std::signbit(a)) ? a : b;"},
    {"asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));",
     "y = a != a ? a : b != b ? b : a < b || (a == b && std::signbit(a)) ? a : b;"},
    {"asm(\"mov.b32 %0, {%1, %2};\" : \"=r\"(y) : \"h\"((u16)x), \"h\"((u16)(x >> 16)));", "y = x;"},
    {"asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));", "y = std::exp2(x);"},
    // Asynchronous copies are done at once.
    {"asm volatile(\"cp.async.\" KIND \".shared.global [%0], [%1], \" #BYTES \";\" ::\"r\"(zl_shared(to)), "
     "\"l\"(from));",
     "std::memcpy(to, from, BYTES);"},
    {"asm volatile(\"cp.async.\" KIND \".shared.global [%0], [%1], \" #BYTES \", %2;\" \\\n"
     "                     ::\"r\"(zl_shared(to)), \"l\"(from), \"r\"(inside ? BYTES : 0));",
     "if (inside) std::memcpy(to, from, BYTES); else std::memset(to, 0, BYTES);"},
    {"asm volatile(\"cp.async.commit_group;\" ::: \"memory\")", ""},
    {"asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(keep) : \"memory\")", ""},
};

static void put_text(FILE *file, const char *text) {
    while (*text) {
        const char *first = NULL;
        size_t which = 0;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const char *found = strstr(text, parts[i].part);
            if (found && (!first || found < first)) {
                first = found;
                which = i;
            }
        }
        fwrite(text, 1, first ? (size_t)(first - text) : strlen(text), file);
        if (!first)
            return;
        fputs(parts[which].instead, file);
        text = first + strlen(parts[which].part);
    }
}

void *fake_compile(const char *text, const char *name) {
    void *code = NULL;
    char folder[] = "/tmp/fake-cuda-XXXXXX", path[64], library[64], command[512];
    if (!mkdtemp(folder))
        return NULL;
    snprintf(path, sizeof path, "%s/k.cc", folder);
    snprintf(library, sizeof library, "%s/k.so", folder);
    FILE *file = fopen(path, "w");
    fputs(before, file);
    put_text(file, text);
    fprintf(file, behind, name);
    fclose(file);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O0 -w -ffp-contract=off -fno-strict-aliasing -shared -fPIC -o %s %s %s",
             library, path, getenv("FAKE_CUDA_VERBOSE") ? "" : "2>/dev/null");
    if (system(command) == 0)
        code = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    unlink(library);
    rmdir(folder);
    return code;
}
