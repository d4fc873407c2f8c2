// test_kernels_flash.c - attention by matrix instructions: its tile kernels compile for every architecture of CUDA, fit in the shared
// memory that is asked for, and compute what they should on the host and by OpenCL.

#include "device/tile_trial.h"
#include "on_devices.h"

#include "device/cuda/cuda.h"
#include "device/group_kernel.h"
#include "device/kernels/kernels_flash.h"
#include "kernel/kernel.h"
#include "render/render.h"

#include <math.h>

extern const struct kernel_driver kernel_driver_c, kernel_driver_opencl;

// All forms of the kernels: causal or not, forward or backward, for warps and for four of them at once, keeping the state or not.
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
            if (CHECK(source && group_kernel_open(&g, kernel)))
                for (int k = 0; k < g.launches; k++)
                    most = MAX_OF(most, g.launch[k].shared);
            if (!CHECK(most == flash_shared(&f)))
                test_note("size %d, form %d: %lld bytes", size, i, (long long)most);
            group_kernel_close(&g);
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

// Values ------------------------------------------------------------------------------------------------------------

struct lengths {
    int64_t matrices, shared, queries, keys, size;
    bool causal;
};

static zl_array random_half(int64_t a, int64_t b, int64_t c, int seed) {
    zl_array x = zl_random_normal(ZL_SHAPE(a, b, c), ZL_FLOAT32, NULL, NULL, zl_random_key(seed));
    return zl_astype(x, ZL_FLOAT16);
}

static zl_array batch_of(zl_array x) {
    return zl_expand_dims(zl_astype(x, ZL_FLOAT64), ZL_AXES(0));
}

// Runs a kernel by a driver. Outputs are given as what is of their shape and dtype.
static bool run_tiles(const struct kernel_driver *driver, const struct flash *f, const int64_t *symbol,
                      int inputs, const zl_array *in, int outputs, zl_array *out) {
    void *address[9];
    struct text source = {0};
    struct tile_kernel *kernel = flash_make(f);
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
    zl_array x = zl_astype(got, ZL_FLOAT64), y = zl_reshape(want, zl_shape_of(got));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, y}));
    double most = zl_item(zl_max(zl_abs(y))), error = zl_item(zl_max(zl_abs(zl_subtract(x, y))));
    if (!CHECK(error <= 3e-3 * fmax(1, most)))
        test_note("%s: %g of %g", what, error, most);
}

static void check_lengths(const struct kernel_driver *driver, const struct lengths *l) {
    double scale = 1 / sqrt((double)l->size);
    int64_t heads = l->matrices * l->shared;
    const int64_t symbol[] = {heads, l->queries, l->matrices, l->keys};
    zl_array q = random_half(heads, l->queries, l->size, 1),
             k = random_half(l->matrices, l->keys, l->size, 2),
             v = random_half(l->matrices, l->keys, l->size, 3),
             g = random_half(heads, l->queries, l->size, 4);
    zl_array wide[] = {batch_of(q), batch_of(k), batch_of(v)}, grads[3];
    zl_array y = zl_fast_scaled_dot_product_attention(wide[0], wide[1], wide[2], scale, NULL, NULL,
                                                      l->causal ? "causal" : NULL);
    REQUIRE(zl_grad(zl_sum(zl_multiply(y, batch_of(g))), 3, wide, grads));
    REQUIRE(zl_eval_all(8, (zl_array[]){q, k, v, g, y, grads[0], grads[1], grads[2]}));
    const struct attention a = {.q = zl_expand_dims(q, ZL_AXES(0)),
                                .k = zl_expand_dims(k, ZL_AXES(0)),
                                .v = zl_expand_dims(v, ZL_AXES(0)),
                                .scale = scale,
                                .causal = l->causal};
    struct flash f = flash_of(&a, false, true), b = flash_of(&a, true, true);
    f.keeps = true;
    zl_array forward[] = {q, zl_zeros(ZL_SHAPE(heads, l->queries, 2), ZL_FLOAT32)}, backward[] = {q, k, v};
    REQUIRE(run_tiles(driver, &f, symbol, 3, (zl_array[]){q, k, v}, 2, forward));
    check_close("attention", forward[0], y);
    zl_array in[] = {q, k, v, forward[0], g, forward[1]};
    REQUIRE(zl_eval_all(6, in) && run_tiles(driver, &b, symbol, 6, in, 3, backward));
    check_close("queries", backward[0], grads[0]);
    check_close("keys", backward[1], grads[1]);
    check_close("values", backward[2], grads[2]);
}

static void check_some(const struct kernel_driver *driver) {
    static const struct lengths all[] = {{1, 1, 128, 128, 64, false}, {2, 2, 150, 150, 16, true},
                                         {1, 1, 70, 200, 32, true},   {1, 2, 90, 140, 64, false},
                                         {1, 3, 129, 300, 32, true},  {1, 1, 40, 50, 80, true}};
    int some = (int)(test_random() % COUNT(all));
    for (int i = 0; i < (int)COUNT(all); i++)
        if (test_long() || i == some)
            ZL_SCOPE
                check_lengths(driver, &all[i]);
}

TEST(flash_compiled_for_c_is_attention) {
    check_some(&kernel_driver_c);
}

TEST(flash_by_opencl_is_attention) {
    if (test_lacks_opencl())
        SKIP(test_lacks_opencl());
    check_some(&kernel_driver_opencl);
}
