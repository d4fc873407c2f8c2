// cuda_calls.c - what calls of the CUDA driver and of cuBLASLt cost here: the floor under our launches,
// products and copies.
//
//   build/bench/cuda_calls

#include "bench.h"

#include "base/base.h"
#include "device/cuda/cuda_lt.h"

enum { CHAIN = 100, ROUNDS = 20, COPY = 4 << 20, RELAXED = 2, PARTS = 8 };

static const char source[] =
    "extern \"C\" __global__ void tiny(float *y, const float *x, long long o, float v, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = x[i + o] * 0.5f + v;\n"
    "}\n";

static const struct cuda_api *cuda;
static struct cuda_device *device;
static cuda_function tiny;
static void *memory[2];

static void must(bool good) {
    if (!good)
        fprintf(stderr, "%s\n", zl_error()), exit(1);
}

// Launches --------------------------------------------------------------------------------------------------

static void launch_chain(int count) {
    for (int i = 0; i < count; i++) {
        int64_t offset = 0;
        float value = (float)i;
        int n = 64;
        void *argument[] = {&memory[i % 2], &memory[1 - i % 2], &offset, &value, &n};
        must(cuda_launch(0, 0, tiny, &(struct cuda_launch){.grid = {1, 1, 1}, .block = {256, 1, 1}},
                         argument));
    }
}

static cuda_graph_exec capture(void (*ask)(int count), int count) {
    cuda_graph graph = NULL;
    cuda_graph_exec exec = NULL;
    must(cuda_check(cuda->cuStreamBeginCapture_v2(device->stream[0], RELAXED), "cuStreamBeginCapture"));
    ask(count);
    must(cuda_check(cuda->cuStreamEndCapture(device->stream[0], &graph), "cuStreamEndCapture"));
    double begin = bench_now();
    must(cuda_check(cuda->cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate"));
    printf("graph of %3d: instantiated in %.1f us\n", count, (bench_now() - begin) * 1e6);
    cuda->cuGraphDestroy(graph);
    return exec;
}

// Best of several: seconds until the calls return, and until all is done.
static void time_chain(void (*ask)(int count), int count, cuda_graph_exec graph, const char *name) {
    double asked = 1, done = 1;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = bench_now();
        for (int i = 0; graph && i < count; i++)
            must(cuda_check(cuda->cuGraphLaunch(graph, device->stream[0]), "cuGraphLaunch"));
        if (!graph)
            ask(count);
        double middle = bench_now();
        must(cuda_check(cuda->cuStreamSynchronize(device->stream[0]), "cuStreamSynchronize"));
        double end = bench_now();
        asked = middle - begin < asked ? middle - begin : asked;
        done = end - begin < done ? end - begin : done;
    }
    printf("%-28s %7.2f us asked, %7.2f us done: %.2f us each\n", name, asked * 1e6, done * 1e6,
           done / CHAIN * 1e6);
}

static void time_launches(void) {
    time_chain(launch_chain, CHAIN, NULL, "100 launches");
    static const int sizes[] = {100, 50, 25, 10, 1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char name[64];
        cuda_graph_exec graph = capture(launch_chain, sizes[i]);
        snprintf(name, sizeof name, "%d graphs of %d launches", CHAIN / sizes[i], sizes[i]);
        time_chain(NULL, CHAIN / sizes[i], graph, name);
        cuda->cuGraphExecDestroy(graph);
    }
    time_chain(launch_chain, 1, NULL, "one launch (times 1/100)");
}

// Products of cuBLASLt --------------------------------------------------------------------------------------

static struct lt_product *product;
static struct lt_key key;

static void multiply_chain(int count) {
    struct lt_memory m = {.a = memory[0], .b = memory[1], .y = (char *)memory[0] + COPY / 2};
    for (int i = 0; i < count; i++)
        must(lt_multiply(0, 0, product, &key, &m));
}

static void time_products_of(int side) {
    char name[64];
    key = (struct lt_key){.m = side,
                          .n = side,
                          .k = side,
                          .a_step = side,
                          .b_step = side,
                          .batch = 1,
                          .dtype = ZL_BFLOAT16,
                          .aligned = 16};
    if (!(product = lt_find(0, 0, &key)))
        return;
    multiply_chain(CHAIN); // choices are timed
    snprintf(name, sizeof name, "100 products of %d", side);
    time_chain(multiply_chain, CHAIN, NULL, name);
    cuda_graph_exec graph = capture(multiply_chain, 1);
    snprintf(name, sizeof name, "100 graphs of one of %d", side);
    time_chain(NULL, CHAIN, graph, name);
    cuda->cuGraphExecDestroy(graph);
}

static void time_products(void) {
    lt_take(0);
    for (int side = 256; lt_is_there() && side <= 1024; side *= 2)
        time_products_of(side);
    lt_give(0);
}

// Copies ----------------------------------------------------------------------------------------------------

static char *pageable, *pinned;

static void up(const char *from) {
    must(cuda_check(cuda->cuMemcpyHtoDAsync_v2((uintptr_t)memory[0], from, COPY, device->stream[0]), "HtoD"));
}

static void down(char *to) {
    must(cuda_check(cuda->cuMemcpyDtoHAsync_v2(to, (uintptr_t)memory[0], COPY, device->stream[0]), "DtoH"));
}

static void up_pageable(void) {
    up(pageable);
}
static void up_pinned(void) {
    up(pinned);
}
static void down_pageable(void) {
    down(pageable);
}
static void down_pinned(void) {
    down(pinned);
}
static void host_copy(void) {
    memcpy(pageable, pinned, COPY);
}

static void part(void *data, int at) {
    int parts = *(int *)data;
    size_t bytes = COPY / (size_t)parts;
    memcpy(pageable + (size_t)at * bytes, pinned + (size_t)at * bytes, bytes);
}

static int parts;
static void host_parts(void) {
    pool_run(parts, part, &parts);
}

static void time_copy(const char *name, void (*copy)(void)) {
    double best = 1;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = bench_now();
        copy();
        must(cuda_check(cuda->cuStreamSynchronize(device->stream[0]), "cuStreamSynchronize"));
        double took = bench_now() - begin;
        best = took < best ? took : best;
    }
    printf("%-28s %7.2f us, %.1f GB/s\n", name, best * 1e6, COPY / best * 1e-9);
}

static void time_copies(void) {
    pageable = malloc(COPY);
    memset(pageable, 1, COPY);
    must(cuda_check(cuda->cuMemHostAlloc((void **)&pinned, COPY, 0), "cuMemHostAlloc"));
    memset(pinned, 1, COPY);
    time_copy("4 MB up, pageable", up_pageable);
    time_copy("4 MB up, pinned", up_pinned);
    time_copy("4 MB down, pageable", down_pageable);
    time_copy("4 MB down, pinned", down_pinned);
    time_copy("4 MB on the host", host_copy);
    for (parts = 2; parts <= 2 * PARTS; parts *= 2) {
        char name[64];
        snprintf(name, sizeof name, "4 MB on the host, %d parts", parts);
        time_copy(name, host_parts);
    }
    cuda->cuMemFreeHost(pinned);
    free(pageable);
}

int main(void) {
    const char *reason = NULL;
    char architecture[16];
    struct text code = {0};
    setenv("ZL_GRAPHS", "0", 1); // products are recorded here, and go to the driver as they are
    if (!cuda_open(&reason))
        return fprintf(stderr, "%s\n", reason), 1;
    cuda = cuda_api();
    must((device = cuda_device(0)));
    cuda_architecture(0, architecture, sizeof architecture);
    must(cuda_compile(source, architecture, NULL, &code) &&
         cuda_load(0, code.data, 1, (const char *[]){"tiny"}, &tiny));
    must((memory[0] = cuda_alloc(0, COPY)) && (memory[1] = cuda_alloc(0, COPY)));
    time_launches();
    time_products();
    time_copies();
    text_free(&code);
    return 0;
}
