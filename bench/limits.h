// limits.h - what this machine can do at most: copy and read bandwidth, and multiply-adds, of all cores at once.

#ifndef LIMITS_H
#define LIMITS_H

#include <sys/mman.h>

#include "bench.h"

static size_t limit_bytes = 64 << 20; // of the arrays that are copied and read

typedef float float4 __attribute__((vector_size(16)));

static char *copy_to, *copy_from;

static char *map_pages(size_t bytes) {
    char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        exit(2);
    madvise(data, bytes, MADV_HUGEPAGE);
    memset(data, 1, bytes);
    return data;
}

static void copy_part(int part, int parts) {
    size_t each = limit_bytes / (size_t)parts;
    memcpy(copy_to + (size_t)part * each, copy_from + (size_t)part * each, each);
}

static volatile float sink;

static void read_part(int part, int parts) {
    size_t count = limit_bytes / (size_t)parts / sizeof(float4);
    const float4 *from = (const float4 *)(const void *)copy_from + (size_t)part * count;
    float4 s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (size_t i = 0; i + 8 <= count; i += 8) {
        s0 += from[i], s1 += from[i + 1], s2 += from[i + 2], s3 += from[i + 3];
        s4 += from[i + 4], s5 += from[i + 5], s6 += from[i + 6], s7 += from[i + 7];
    }
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    sink = s0[0];
}

// Two streams a core.
static void read_two_part(int part, int parts) {
    size_t count = limit_bytes / (size_t)parts / sizeof(float4) / 2;
    const float4 *a = (const float4 *)(const void *)copy_from + (size_t)part * count * 2, *b = a + count;
    float4 s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (size_t i = 0; i + 4 <= count; i += 4) {
        s0 += a[i], s1 += a[i + 1], s2 += a[i + 2], s3 += a[i + 3];
        s4 += b[i], s5 += b[i + 1], s6 += b[i + 2], s7 += b[i + 3];
    }
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    sink = s0[0];
}

enum { FMA_LOOPS = 10000, FMA_BLOCKS = 16 }; // blocks behind each other: the loop does not show

#if defined(__aarch64__)
enum { FMA_FLOPS = FMA_BLOCKS * 24 * 8 };
static void fma_block(void) {
    __asm__ volatile("movi v30.4s, #0\n movi v31.4s, #0\n .rept 16\n" // odd values cost half the speed
                     "fmla v0.4s, v30.4s, v31.4s\n fmla v1.4s, v30.4s, v31.4s\n fmla v2.4s, v30.4s, v31.4s\n"
                     "fmla v3.4s, v30.4s, v31.4s\n fmla v4.4s, v30.4s, v31.4s\n fmla v5.4s, v30.4s, v31.4s\n"
                     "fmla v6.4s, v30.4s, v31.4s\n fmla v7.4s, v30.4s, v31.4s\n fmla v16.4s, v30.4s, v31.4s\n"
                     "fmla v17.4s, v30.4s, v31.4s\n fmla v18.4s, v30.4s, v31.4s\n fmla v19.4s, v30.4s, v31.4s\n"
                     "fmla v20.4s, v30.4s, v31.4s\n fmla v21.4s, v30.4s, v31.4s\n fmla v22.4s, v30.4s, v31.4s\n"
                     "fmla v23.4s, v30.4s, v31.4s\n fmla v24.4s, v30.4s, v31.4s\n fmla v25.4s, v30.4s, v31.4s\n"
                     "fmla v26.4s, v30.4s, v31.4s\n fmla v27.4s, v30.4s, v31.4s\n fmla v28.4s, v30.4s, v31.4s\n"
                     "fmla v29.4s, v30.4s, v31.4s\n fmla v8.4s, v30.4s, v31.4s\n fmla v9.4s, v30.4s, v31.4s\n .endr\n" ::
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v16", "v17", "v18", "v19", "v20",
                           "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#elif defined(__x86_64__)
enum { FMA_FLOPS = FMA_BLOCKS * 12 * 16 };
__attribute__((target("avx2,fma"))) static void fma_block(void) { // sums of zeros: others may be slow
    __asm__ volatile(".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15\n vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n .endr\n .rept 16\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm0\n vfmadd231ps %%ymm14, %%ymm15, %%ymm1\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm2\n vfmadd231ps %%ymm14, %%ymm15, %%ymm3\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm4\n vfmadd231ps %%ymm14, %%ymm15, %%ymm5\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm6\n vfmadd231ps %%ymm14, %%ymm15, %%ymm7\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm8\n vfmadd231ps %%ymm14, %%ymm15, %%ymm9\n"
                     "vfmadd231ps %%ymm14, %%ymm15, %%ymm10\n vfmadd231ps %%ymm14, %%ymm15, %%ymm11\n .endr\n" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
                           "xmm15");
}
#else
enum { FMA_FLOPS = 1 };
static void fma_block(void) { sink += 1; }
#endif

static void fma_part(int part, int parts) {
    (void)part, (void)parts;
    for (int i = 0; i < FMA_LOOPS; i++)
        fma_block();
}

static void run_copy(struct bench_case *c) { c->took = bench_on_all_cores(copy_part); }
static void run_read(struct bench_case *c) { c->took = bench_on_all_cores(read_part); }
static void run_read_two(struct bench_case *c) { c->took = bench_on_all_cores(read_two_part); }
static void run_fma(struct bench_case *c) { c->took = bench_on_all_cores(fma_part); }

enum { LIMITS = 4 };
static struct bench_case limits[LIMITS] = {
    {.name = "copy", .limit = BENCH_COPY, .run = run_copy},
    {.name = "read", .limit = BENCH_READ, .run = run_read},
    {.name = "read two", .limit = BENCH_READ_TWO, .run = run_read_two},
    {.name = "fma", .limit = BENCH_FMA, .run = run_fma},
};

// Call once, before the first round.
static inline void start_limits(void) {
    copy_to = map_pages(limit_bytes);
    copy_from = map_pages(limit_bytes);
    limits[0].work = 2.0 * (double)limit_bytes;
    limits[1].work = limits[2].work = (double)limit_bytes;
    limits[3].work = (double)FMA_LOOPS * FMA_FLOPS * zl_threads();
}

static inline struct bench_rates limit_rates(void) {
    struct bench_rates r = {{0}};
    for (int i = 0; i < LIMITS; i++)
        r.rate[limits[i].limit] = limits[i].best > 0 ? limits[i].work / limits[i].best : 1;
    return r;
}

#endif
