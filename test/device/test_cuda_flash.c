// test_cuda_flash.c - our own tile kernels of attention for the device cuda, without a GPU: they compile for every architecture, and
// what their tiles say is right, as the CPU runs it.

#include "test.h"

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"
#include "zellige_tile.h"

#include <math.h>

TEST(own_attention_compiles_for_cuda) {
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    static const int sizes[] = {16, 64, 80, 128};
    enum { COUNT_OF_ALL = 4 * 4 * 3 };
    if (!cuda_compiler()) {
        test_skip(zl_error());
        zl_clear_error();
        return;
    }
    int some = (int)(test_random() % COUNT_OF_ALL);
    for (int i = 0; i < COUNT_OF_ALL; i++) {
        if (!test_long() && i != some && i != (some + COUNT_OF_ALL / 2 + 1) % COUNT_OF_ALL)
            continue;
        const struct cuda_flash_text t = {.kind = (enum cuda_flash_kind)(i % 5),
                                          .dtype = i / 2 % 2 ? ZL_FLOAT16 : ZL_BFLOAT16,
                                          .scale = 0.125,
                                          .size = sizes[i / 4 % 4],
                                          .shared = 1 + i % 3,
                                          .causal = (i + i / 4) % 2,
                                          .has_warps = i / 16 == 1};
        struct text source = {0}, code = {0};
        REQUIRE(cuda_flash_source(&t, NULL, &source));
        if (!CHECK(cuda_compile(source.data, architectures[i / 16], NULL, &code)) || !CHECK(code.len > 1000))
            test_note("kind %d, size %d, for %s", t.kind, t.size, architectures[i / 16]);
        text_free(&source);
        text_free(&code);
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

static zl_kernel_buffer buffer_of(zl_array x, void *data) {
    return (zl_kernel_buffer){.data = data, .dtype = (zl_dtype)x->dtype, .ndim = x->ndim, .dim = x->dim};
}

// Runs the tiles on the CPU. Outputs are given as what is of their shape and dtype.
static bool run_tiles(const struct cuda_flash_text *t, int inputs, const zl_array *in, int outputs,
                      zl_array *out) {
    struct text tiles = {0};
    zl_kernel_buffer buffer[8];
    if (!cuda_flash_source(t, &tiles, NULL))
        return false;
    zl_kernel kernel = zl_kernel_compile(tiles.data, "attention", "c");
    text_free(&tiles);
    for (int i = 0; i < inputs; i++)
        buffer[i] = buffer_of(in[i], (void *)(uintptr_t)zl_data(in[i]));
    for (int i = 0; i < outputs; i++)
        buffer[inputs + i] = buffer_of(out[i], memory_zero((size_t)out[i]->size * array_item(out[i])));
    bool done = kernel && zl_kernel_run(kernel, inputs + outputs, buffer);
    for (int i = 0; i < outputs; i++) {
        out[i] = zl_from(buffer[inputs + i].data, zl_shape_of(out[i]), (zl_dtype)out[i]->dtype);
        memory_free(buffer[inputs + i].data);
    }
    zl_kernel_release(kernel);
    return done;
}

static void check_close(const char *what, zl_array got, zl_array want) {
    zl_array x = zl_astype(got, ZL_FLOAT64), y = zl_reshape(want, zl_shape_of(got));
    REQUIRE(zl_eval_all(2, (zl_array[]){x, y}));
    double most = zl_item(zl_max(zl_abs(y))), error = zl_item(zl_max(zl_abs(zl_subtract(x, y))));
    if (!CHECK(error <= 3e-3 * fmax(1, most)))
        test_note("%s: %g of %g", what, error, most);
}

static void check_lengths(const struct lengths *l) {
    double scale = 1 / sqrt((double)l->size);
    int64_t heads = l->matrices * l->shared;
    zl_array q = random_half(heads, l->queries, l->size, 1),
             k = random_half(l->matrices, l->keys, l->size, 2),
             v = random_half(l->matrices, l->keys, l->size, 3),
             g = random_half(heads, l->queries, l->size, 4);
    zl_array wide[] = {batch_of(q), batch_of(k), batch_of(v)}, grads[3];
    zl_array y = zl_fast_scaled_dot_product_attention(wide[0], wide[1], wide[2], scale, NULL, NULL,
                                                      l->causal ? "causal" : NULL);
    REQUIRE(zl_grad(zl_sum(zl_multiply(y, batch_of(g))), 3, wide, grads));
    REQUIRE(zl_eval_all(8, (zl_array[]){q, k, v, g, y, grads[0], grads[1], grads[2]}));
    struct cuda_flash_text t = {CUDA_FLASH_KEEPING, ZL_FLOAT16, scale, (int)l->size,
                                (int)l->shared,     l->causal,  true};
    zl_array line = zl_zeros(ZL_SHAPE(heads, l->queries), ZL_FLOAT32),
             state = zl_zeros(ZL_SHAPE(heads, l->queries, 2), ZL_FLOAT32);
    zl_array forward[] = {q, state}, of_queries[] = {line, line}, dq = q, of_keys[] = {k, v};
    REQUIRE(run_tiles(&t, 3, (zl_array[]){q, k, v}, 2, forward));
    check_close("attention", forward[0], y);
    REQUIRE(zl_eval_all(2, forward));
    t.kind = CUDA_FLASH_PREPARING;
    REQUIRE(run_tiles(&t, 3, (zl_array[]){forward[1], forward[0], g}, 2, of_queries));
    zl_array in[] = {q, k, v, g, of_queries[0], of_queries[1]};
    REQUIRE(zl_eval_all(6, in));
    t.kind = CUDA_FLASH_OF_QUERIES;
    REQUIRE(run_tiles(&t, 6, in, 1, &dq));
    check_close("queries", dq, grads[0]);
    t.kind = CUDA_FLASH_OF_KEYS;
    REQUIRE(run_tiles(&t, 6, in, 2, of_keys));
    check_close("keys", of_keys[0], grads[1]);
    check_close("values", of_keys[1], grads[2]);
}

TEST(tiles_of_own_attention_are_right) {
    static const struct lengths all[] = {{1, 1, 128, 128, 64, false}, {2, 2, 150, 150, 16, true},
                                         {1, 1, 70, 200, 32, true},   {1, 2, 90, 140, 64, false},
                                         {1, 3, 129, 300, 32, true},  {1, 1, 40, 50, 80, true}};
    int some = (int)(test_random() % COUNT(all));
    for (int i = 0; i < (int)COUNT(all); i++)
        if (test_long() || i == some)
            ZL_SCOPE
                check_lengths(&all[i]);
}
