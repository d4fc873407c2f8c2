// test_kernels_flash.c - attention by matrix instructions: its tile kernels compile for every architecture of
// CUDA, fit into the shared memory that is allowed, and compute the right results on the host and by OpenCL.

#include "device/tile_trial.h"
#include "on_devices.h"

#include "device/cuda/cuda.h"
#include "device/tile_runtime/group_kernel.h"
#include "device/kernels/kernels_flash.h"
#include "kernel/kernel.h"
#include "render/render.h"

#include <math.h>
#include <string.h>

extern const struct kernel_driver kernel_driver_c, kernel_driver_opencl;

// All forms of the kernels: causal or not, forward or backward, for one warp or four at once, keeping the
// state or not.
enum { FORMS = 16 };

static struct flash flash_like(int form, zl_dtype dtype, int size, int width, int shares) {
    struct flash f = {0};
    ZL_SCOPE {
        zl_array q = zl_zeros(ZL_SHAPE(1, shares, 1, size), dtype),
                 k = zl_zeros(ZL_SHAPE(1, 1, 1, size), dtype), v = zl_zeros(ZL_SHAPE(1, 1, 1, width), dtype);
        struct attention a = {.q = q, .k = k, .v = v, .scale = 0.125, .causal = form & 1};
        f = flash_of(&a, form & 2, form & 4);
        f.keeps = form / 8;
    }
    return f;
}

TEST(flash_has_the_shared_memory_it_asks_for) {
    for (int i = 0; i < FORMS; i++)
        for (int size = 16; size <= 128; size += test_quick() ? 48 : 16) {
            struct flash f = flash_like(i, ZL_FLOAT16, size, 144 - size, 1 + i % 3);
            struct group_kernel g = {0};
            struct tile_kernel *kernel = flash_make(&f);
            char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
            int64_t most = 0;
            if (CHECK(source && device_group_kernel_open(&g, kernel)))
                for (int k = 0; k < g.launches; k++)
                    most = MAX_OF(most, g.launch[k].shared);
            if (!CHECK(most == flash_shared(&f, render_target("cuda_tiles"))))
                test_note("size %d, form %d: %lld bytes", size, i, (long long)most);
            device_group_kernel_close(&g);
            memory_free(source);
            tile_free(kernel);
        }
}

TEST(flash_compiles_for_cuda) {
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    static const int sizes[] = {16, 64, 80, 128};
    enum { COUNT_OF_ALL = FORMS * 4 * 3 };
    if (!cuda_compiler()) {
        test_skip(zl_error());
        zl_clear_error();
        return;
    }
    int some = (int)(test_random() % COUNT_OF_ALL);
    for (int i = 0; i < COUNT_OF_ALL; i++) {
        if (!test_long() && i != some && i != (some + COUNT_OF_ALL / 2 + 2) % COUNT_OF_ALL)
            continue;
        const char *architecture = architectures[i / FORMS % 3];
        int size = sizes[i / FORMS / 3];
        struct flash f = flash_like(i % FORMS, i % 5 ? ZL_BFLOAT16 : ZL_FLOAT16, size, size, 1 + i % 3);
        struct tile_kernel *kernel = flash_make(&f);
        char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
        struct text code = {0};
        if (!CHECK(source && cuda_compile(source, architecture, NULL, &code)) || !CHECK(code.len > 1000))
            test_note("form %d, size %d, for %s", i % FORMS, size, architecture);
        text_free(&code);
        memory_free(source);
        tile_free(kernel);
    }
}

// The first grid of the backward pass reads the result, b3, and its cotangent, b4.
TEST(flash_reads_results_by_16_bytes) {
    for (int width = 16; width <= 128; width += 16) {
        struct flash f = flash_like(2, ZL_BFLOAT16, 64, width, 1);
        struct tile_kernel *kernel = flash_make(&f);
        char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
        char *grid = source ? strstr(source, "flash_vjp_0(") : NULL,
             *end = grid ? strstr(grid, "flash_vjp_1(") : NULL;
        if (CHECK(end)) {
            *end = 0;
            CHECK(strstr(grid, "*(const zl_16 *)&b3[") && strstr(grid, "*(const zl_16 *)&b4["));
            if (!CHECK(!strstr(grid, "= b3[") && !strstr(grid, "= b4[")))
                test_note("width %d", width);
        }
        memory_free(source);
        tile_free(kernel);
    }
}

// Values ----------------------------------------------------------------------------------------------------

struct lengths {
    int64_t batch, matrices, shared, queries, keys, size;
    bool causal,
        turned; // transposed: the heads of a query are adjacent, and inputs have an offset in their memory
};

// A kernel's argument, and the array that it represents: (batch, heads, rows, size).
struct view {
    zl_array base, x;
    int64_t symbol[4]; // offset and strides
};

static zl_array swap_heads(zl_array x) {
    return zl_transpose(x, ZL_AXES(0, 2, 1, 3));
}

static struct view random_view(const struct lengths *l, int64_t heads, int64_t lines, int seed) {
    const zl_shape plain = ZL_SHAPE(l->batch, heads, lines, l->size),
                   turned = ZL_SHAPE(l->batch, lines + 1, heads, l->size);
    zl_array x = zl_random_normal(l->turned ? turned : plain, ZL_FLOAT32, NULL, NULL, zl_random_key(seed));
    struct view v = {.base = zl_astype(x, ZL_FLOAT16)};
    v.x = l->turned
              ? swap_heads(zl_slice(v.base, ZL_SHAPE(0, 1, 0, 0), zl_shape_of(v.base), ZL_SHAPE(1, 1, 1, 1)))
              : v.base;
    v.symbol[0] = v.x->offset / 8;
    for (int i = 0; i < 3; i++)
        v.symbol[i + 1] = array_stride(v.x)[i];
    return v;
}

// Returns memory for a result of the shape of x, and its strides.
static zl_array result_of(const struct lengths *l, zl_array x, int64_t *stride) {
    zl_array room = zl_zeros(
        ZL_SHAPE(x->dim[0], x->dim[l->turned ? 2 : 1], x->dim[l->turned ? 1 : 2], x->dim[3]), ZL_FLOAT16);
    zl_array y = l->turned ? swap_heads(room) : room;
    for (int i = 0; i < 3; i++)
        stride[i] = array_stride(y)[i];
    return room;
}

// Runs a kernel by a driver, and frees it. Outputs are passed as arrays of their shape and dtype.
static bool run_tiles(const struct kernel_driver *driver, struct tile_kernel *kernel, const int64_t *symbol,
                      int inputs, const zl_array *in, int outputs, zl_array *out) {
    void *address[9];
    struct text source = {0};
    void *compiled = kernel ? driver->compile(kernel, &source) : NULL;
    for (int i = 0; i < inputs; i++)
        address[i] = (void *)(uintptr_t)zl_data(in[i]);
    for (int i = 0; i < outputs; i++)
        address[inputs + i] = memory_zero((size_t)out[i]->size * array_item(out[i]));
    bool done = compiled && driver->run(compiled, address, symbol);
    for (int i = 0; i < outputs; i++) {
        out[i] = zl_from(address[inputs + i], zl_shape_of(out[i]), (zl_dtype)out[i]->dtype);
        memory_free(address[inputs + i]);
    }
    if (compiled)
        driver->free(compiled);
    text_free(&source);
    tile_free(kernel);
    return done;
}

static void check_close(const char *what, zl_array got, zl_array want) {
    zl_array x = zl_astype(got, ZL_FLOAT64);
    REQUIRE(zl_eval_all(2, (zl_array[]){x, want}));
    double most = zl_item(zl_max(zl_abs(want))), error = zl_item(zl_max(zl_abs(zl_subtract(x, want))));
    if (!CHECK(error <= 3e-3 * fmax(1, most)))
        test_note("%s: %g of %g", what, error, most);
}

enum { Q, K, V, G, VIEWS };

// Computes attention and its gradients in float64: y, and the gradients with respect to q, k and v.
static bool attend(const struct lengths *l, const struct view *view, zl_array *y, zl_array *grads) {
    zl_array wide[VIEWS];
    for (int i = 0; i < VIEWS; i++)
        wide[i] = zl_astype(view[i].x, ZL_FLOAT64);
    *y = zl_fast_scaled_dot_product_attention(wide[Q], wide[K], wide[V], 1 / sqrt((double)l->size), NULL,
                                              NULL, l->causal ? "causal" : NULL);
    return zl_grad(zl_sum(zl_multiply(*y, wide[G])), 3, wide, grads) &&
           zl_eval_all(8, (zl_array[]){view[Q].base, view[K].base, view[V].base, view[G].base, *y, grads[0],
                                       grads[1], grads[2]});
}

static void check_lengths(const struct kernel_driver *driver, const struct lengths *l) {
    int64_t heads = l->matrices * l->shared;
    const struct view view[] = {random_view(l, heads, l->queries, 1), random_view(l, l->matrices, l->keys, 2),
                                random_view(l, l->matrices, l->keys, 3),
                                random_view(l, heads, l->queries, 4)};
    int64_t symbol[5 + 4 * VIEWS + 4 + 9] = {l->batch, heads, l->matrices, l->queries, l->keys},
                                       *at = symbol + 5;
    zl_array y, grads[3], backward[3];
    REQUIRE(attend(l, view, &y, grads));
    for (int i = 0; i < 3; i++, at += 4)
        memcpy(at, view[i].symbol, sizeof view[i].symbol);
    zl_array forward[] = {result_of(l, y, at),
                          zl_zeros(ZL_SHAPE(l->batch, heads, l->queries, 2), ZL_FLOAT32)};
    const struct attention a = {view[Q].x, view[K].x, view[V].x, .scale = 1 / sqrt((double)l->size),
                                .causal = l->causal};
    struct flash f = flash_of(&a, false, true), b = flash_of(&a, true, true);
    f.keeps = true;
    zl_array in[] = {view[Q].base, view[K].base, view[V].base, NULL, view[G].base, NULL};
    REQUIRE(run_tiles(driver, flash_make(&f), symbol, 3, in, 2, forward));
    check_close("attention", l->turned ? swap_heads(forward[0]) : forward[0], y);
    memmove(at + 1, at, sizeof *at * 3);
    *at = 0; // the result begins at its memory
    memcpy(at + 4, view[G].symbol, sizeof view[G].symbol);
    for (int i = 0; i < 3; i++)
        backward[i] = result_of(l, view[i].x, at + 8 + 3 * i);
    in[3] = forward[0];
    in[5] = forward[1];
    REQUIRE(zl_eval_all(6, in) && run_tiles(driver, flash_make(&b), symbol, 6, in, 3, backward));
    static const char *const what[] = {"queries", "keys", "values"};
    for (int i = 0; i < 3; i++)
        check_close(what[i], l->turned ? swap_heads(backward[i]) : backward[i], grads[i]);
}

static void check_some(const struct kernel_driver *driver) {
    static const struct lengths all[] = {
        {1, 1, 1, 128, 128, 64, false, false}, {2, 2, 2, 150, 150, 16, true, true},
        {1, 1, 1, 70, 200, 32, true, false},   {2, 1, 2, 90, 140, 64, false, true},
        {1, 1, 3, 129, 300, 32, true, true},   {2, 1, 1, 40, 50, 80, true, false}};
    int some = (int)(test_random() % COUNT(all));
    for (int i = 0; i < (int)COUNT(all); i++)
        if (test_long() || i == some)
            ZL_SCOPE
                check_lengths(driver, &all[i]);
}

// Two queries of two heads that share keys, in `parts` parts of the keys, of which the last has fewer.
// transposed: the heads of a result are adjacent. lines: room for queries.
static void check_few(const struct kernel_driver *driver, int64_t parts, bool has_sinks, bool turned,
                      int lines) {
    enum { HEADS = 2, QUERIES = 2, SIZE = 16, EACH = 64 };
    const int64_t keys = parts * EACH - 5, line = SIZE, head = turned ? line : QUERIES * line,
                  query = turned ? HEADS * line : line;
    const int64_t symbol[] = {HEADS, EACH, parts, 1,    HEADS, 1, QUERIES, keys, 0, QUERIES * line,
                              line,  0,    0,     line, 0,     0, line,    0,    0, 0,
                              0,     1,    0,     head, query};
    struct lengths l = {1, 1, HEADS, QUERIES, keys, SIZE, .causal = true};
    const struct view q = random_view(&l, HEADS, QUERIES, 1), k = random_view(&l, 1, keys, 2),
                      v = random_view(&l, 1, keys, 3);
    zl_array sinks = zl_full(ZL_SHAPE(HEADS), zl_scalar(2), ZL_FLOAT16),
             power = zl_full(ZL_SHAPE(1), zl_scalar(0.25 * 1.4426950408889634), ZL_FLOAT32);
    zl_array in[] = {q.x, k.x, v.x, q.x, sinks, power};
    zl_array y = zl_fast_scaled_dot_product_attention(
        zl_astype(q.x, ZL_FLOAT64), zl_astype(k.x, ZL_FLOAT64), zl_astype(v.x, ZL_FLOAT64), 0.25, NULL,
        has_sinks ? zl_astype(sinks, ZL_FLOAT64) : NULL, "causal");
    zl_array out[] = {zl_astype(turned ? swap_heads(y) : y, ZL_FLOAT16),
                      zl_zeros(ZL_SHAPE(1, HEADS, QUERIES, 2), ZL_FLOAT32)};
    REQUIRE(zl_eval_all(6, in));
    REQUIRE(run_tiles(driver,
                      kernel_built_in("attention_few",
                                      "ITEM=f16,MASK=f16,SIZE=%d,WIDTH=%d,CAUSAL=1,SINKS=%d,LINES=%d", SIZE,
                                      SIZE, has_sinks, lines),
                      symbol, COUNT(in), in, 2, out));
    check_close("attention of few queries", turned ? swap_heads(out[0]) : out[0], y);
}

// Numbers of parts of which none, some or most are loaded before their weights are known.
static void check_parts(const struct kernel_driver *driver) {
    static const int64_t parts[] = {1, 9, 33, 70};
    for (int i = 0; i < (int)COUNT(parts); i++)
        ZL_SCOPE
            check_few(driver, parts[i], i % 2, i / 2, 16 << i % 3);
}

TEST(parts_of_keys_are_put_together) {
    check_parts(&kernel_driver_c);
    if (!test_lacks_opencl())
        check_parts(&kernel_driver_opencl);
}

TEST(parts_of_keys_are_read_by_16_bytes) {
    struct tile_kernel *kernel = kernel_built_in("attention_few", "ITEM=bf16");
    char *source = kernel ? tile_rendered(kernel, "cuda_tiles") : NULL;
    char *grid = source ? strstr(source, "attention_few_1(") : NULL;
    CHECK(grid && strstr(grid, "*(const zl_16 *)&b7["));
    memory_free(source);
    tile_free(kernel);
}

TEST(flash_compiled_for_c_is_attention) {
    check_some(&kernel_driver_c);
}

TEST(flash_by_opencl_is_attention) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    check_some(&kernel_driver_opencl);
}
