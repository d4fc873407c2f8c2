// desk.c - a device that runs the tile kernels of ops on the host, for tests.

#include "device/desk.h"
#include "device/spirv_files.h"
#include "device/tile_trial.h"

#include "device/kernels/kernels.h"
#include "kernel/kernel.h"
#include "op/ops.h"
#include "render/render.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERPRETER, COMPILED, OPENCL, UNITS };

extern const struct kernel_driver kernel_driver_c, kernel_driver_opencl;
extern const struct device desk;

// Ops whose kernels are all tile IR, besides elementwise ops and those that have a kernel of their own.
static const struct op *const tiled[] = {
#define REDUCE(NAME, ...) &op_reduce[REDUCE_##NAME],
#include "op/reduce.def"
    &op_scan,
    &op_arange,
    &op_arange_int,
    &op_random_bits,
    &op_take,
    &op_take_along,
    &op_gather,
    &op_dynamic_slice,
    &op_slice_update,
    &op_pad,
    &op_conv,
    &op_argreduce,
    &op_divmod,
    &op_scatter,
    &op_fold,
    &op_put_along,
    &op_dynamic_slice_update,
    &op_sort,
    &op_argsort,
    &op_partition,
    &op_argpartition,
    &op_searchsorted,
    &op_csr_matmul,
    &op_csr_sample,
    &op_csr_rows,
    &op_attention,
    &op_attention_vjp,
    &op_quantize,
    &op_dequantize,
    &op_quantized_matmul,
    &op_matmul,
    &op_addmm,
    &op_matmul_int8,
    &op_matmul_fp8,
    &op_gather_mm,
    &op_segmented_mm};

// Kernels ---------------------------------------------------------------------------------------------------

static const char *const names[] = {[INTERPRETER] = "interpreter", [COMPILED] = "c", [OPENCL] = "opencl"};
static const struct kernel_driver *const drivers[] = {
    [COMPILED] = &kernel_driver_c, [OPENCL] = &kernel_driver_opencl};

struct kept {
    struct tile_kernel *kernel;
    void *compiled; // NULL: the kernel is interpreted
};

static bool prints_alike(const struct tile_kernel *a, const struct tile_kernel *b) {
    char *one = tile_print(a), *other = tile_print(b);
    bool same = one && other && !strcmp(one, other);
    memory_free(one);
    memory_free(other);
    return same ||
           error_false(ZL_ERROR_COMPILE, "kernel %s is printed otherwise when it was read back", a->name);
}

static bool renders(const struct tile_kernel *kernel) {
    static const char *const dialects[] = {"c_tiles", "opencl_tiles", "cuda_tiles", "hip_tiles"};
    for (size_t i = 0; i < COUNT(dialects); i++) {
        struct tile_kernel *copy = kernel_copy(kernel);
        char *text = copy ? tile_rendered(copy, dialects[i]) : NULL;
        bool good = text != NULL;
        memory_free(text);
        tile_free(copy);
        if (!good)
            return false;
    }
    return spirv_files_keep(kernel);
}

static void note_file(const struct tile_kernel *kernel) {
    const char *path = getenv("ZL_TEST_KERNELS");
    FILE *f = path && kernel->file ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s\n", kernel->file);
    fclose(f);
}

static void *keep(int unit, const struct tile_kernel *kernel) {
    struct text source = {0};
    struct kept *k = memory_zero(sizeof *k);
    note_file(kernel);
    bool good = k && tile_verify(kernel) && (k->kernel = kernel_copy(kernel)) &&
                prints_alike(kernel, k->kernel) && renders(kernel) &&
                (unit == INTERPRETER || (k->compiled = drivers[unit]->compile(k->kernel, &source)));
    text_free(&source);
    if (good)
        return k;
    if (k)
        tile_free(k->kernel);
    memory_free(k);
    return NULL;
}

static bool run_kernel(const struct kernel_place *p, void *kept, void *const *address,
                       const int64_t *symbol) {
    struct kept *k = kept;
    return k->compiled ? drivers[p->unit]->run(k->compiled, address, symbol)
                       : tile_interpret(k->kernel, address, symbol);
}

// The device ------------------------------------------------------------------------------------------------

static const char *identity(int unit) {
    (void)unit;
    return "desk";
}

static struct target_unit records[UNITS];

static bool has_products(zl_dtype a, zl_dtype b, zl_dtype c) {
    return a == b && (a == ZL_FLOAT16 || a == ZL_BFLOAT16) && c == ZL_FLOAT32;
}

// Makes the units claim matrix instructions, so that ops choose the kernels that need them.
static void set_records(void) {
    for (int i = 0; i < UNITS; i++) {
        target_set_unit(&records[i], render_target("opencl_tiles"), names[i], 1024, 48 << 10);
        records[i].target.multiplies = has_products;
        records[i].group.shared_bytes = 48 << 10;
    }
}

static const struct target *record(int unit) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_records);
    return &records[unit].target;
}

static bool compile(int unit, const struct text *source, struct text *code) {
    (void)unit, (void)source, (void)code;
    return error_false(ZL_ERROR_COMPILE, "desk: an op of desk.c has a kernel that is no tile IR");
}

static const struct kernel_target target = {.device = &desk,
                                            .identity = identity,
                                            .record = record,
                                            .compile = compile,
                                            .keep = keep,
                                            .run = run_kernel};

static int open_desk(const char **reason) {
    (void)reason;
    return UNITS;
}

static bool can(int unit, const struct call *c) {
    const char *maps = getenv("ZL_TEST_MAPS");
    bool is_map = c->op->kind == OP_ELEMENTWISE || c->op->kind == OP_CAST || c->op->kind == OP_COPY;
    bool is_tiled = c->op->kernel || (is_map && (!maps || strcmp(maps, "0") != 0));
    for (size_t i = 0; i < COUNT(tiled); i++)
        is_tiled |= c->op == tiled[i];
    return is_tiled && kernels_can(&target, unit, c);
}

static struct program *build(int unit, const struct segment *s) {
    return kernels_build(&target, unit, s);
}

static bool copy(int unit, int lane, void *to, const void *from, size_t bytes, bool to_host) {
    (void)unit, (void)lane, (void)to_host;
    return memcpy(to, from, bytes);
}

static void *alloc(int unit, size_t bytes) {
    (void)unit;
    return calloc(1, bytes);
}

static void free_memory(int unit, void *memory) {
    (void)unit;
    free(memory);
}

const struct device desk = {.name = "desk",
                            .open = open_desk,
                            .can = can,
                            .build = build,
                            .drop = kernels_drop,
                            .run = kernels_run,
                            .copy = copy,
                            .alloc = alloc,
                            .free = free_memory};

static int unit_of(const char *how) {
    int unit = UNITS - 1;
    while (unit >= 0 && strcmp(how, names[unit]) != 0)
        unit--;
    return unit;
}

struct kernel_place desk_place(const char *how) {
    int unit = unit_of(how);
    return (struct kernel_place){.target = &target, .unit = unit, .record = record(unit)};
}

zl_stream desk_stream(const char *how) {
    static struct zl_stream_ stream;
    int unit = unit_of(how);
    if (unit != INTERPRETER && unit != COMPILED)
        return NULL;
    if (!stream.device) {
        stream.device = &desk;
        stream.unit = unit;
        pthread_mutex_init(&stream.lock, NULL);
        pthread_cond_init(&stream.changed, NULL);
    }
    stream.owner = pthread_self();
    return &stream;
}
