// limits.h - what this machine can do at most: copy and read bandwidth, and multiply-adds, of all cores at
// once.

#ifndef LIMITS_H
#define LIMITS_H

#include <sys/mman.h>

#include "bench.h"
#include "instructions.h"

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

enum { FMA_LOOPS = 10000 };
static const struct bench_instruction *multiply_adds; // NULL: none that this CPU has

static void fma_part(int part, int parts) {
    (void)part, (void)parts;
    if (multiply_adds)
        multiply_adds->repeat(FMA_LOOPS);
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
    multiply_adds = bench_instruction_of_products(ZL_FLOAT32);
    limits[3].work = multiply_adds ? FMA_LOOPS * multiply_adds->operations * zl_threads() : 1;
}

static inline struct bench_rates limit_rates(void) {
    struct bench_rates r = {{0}};
    for (int i = 0; i < LIMITS; i++)
        r.rate[limits[i].limit] = limits[i].best > 0 ? limits[i].work / limits[i].best : 1;
    return r;
}

#endif
