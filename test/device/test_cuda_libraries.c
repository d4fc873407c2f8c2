// test_cuda_libraries.c - calls that NVIDIA's libraries compute for the device cuda, compared with the CPU,
// in every layout that they are given.

#include "test.h"

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_library.h"
#include "op/ops.h"

#include <math.h>
#include <string.h>

// Both devices ----------------------------------------------------------------------------------------------

static bool skips(void) {
    const char *reason = NULL;
    if (cuda_open(&reason) && cuda_compiler())
        return false;
    test_skip(reason ? reason : zl_error());
    zl_clear_error();
    return true;
}

// Returns random numbers of a seed, made on the CPU and copied to the current device; uint8 is fp8.
static zl_array numbers(zl_shape shape, zl_dtype dtype, int seed) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    zl_array key = zl_random_key(seed), x = zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, key);
    if (dtype == ZL_COMPLEX64)
        x = zl_add(x, zl_multiply(zl_random_normal(shape, ZL_FLOAT32, NULL, NULL, zl_random_key(seed + 1000)),
                                  zl_scalar_complex(0, 1)));
    if (dtype == ZL_INT8)
        x = zl_multiply(x, zl_scalar(40));
    x = dtype == ZL_UINT8 ? zl_to_fp8(x) : zl_astype(x, dtype);
    CHECK(zl_eval(x));
    return zl_scope_leave(scope, x);
}

typedef zl_array maker(const void *data);

static zl_array make_on(const char *device, maker *make, const void *data) {
    zl_scope scope = zl_scope_begin_on(zl_new_stream(device));
    zl_array y = zl_retain(make(data));
    if (!CHECK(y && zl_eval(y)))
        test_note("%s on %s", zl_error() ? zl_error() : "no error", device);
    zl_scope_end(scope);
    return y;
}

static zl_array wide(zl_array x) {
    return x && x->dtype == ZL_COMPLEX64 ? x : zl_astype(x, ZL_FLOAT64);
}

// Compares the results of cuda and of the CPU: the largest difference, relative to the largest expected
// value.
static void agree(const char *what, maker *make, const void *data, double bound) {
    int64_t fallbacks = zl_counter("fallbacks");
    zl_array got = make_on("cuda", make, data);
    CHECK_EQ_INT(zl_counter("fallbacks"), fallbacks);
    zl_array want = make_on("cpu", make, data);
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    double most = zl_item(zl_max(zl_abs(wide(want))));
    double error = zl_item(zl_max(zl_abs(zl_subtract(wide(got), wide(want)))));
    if (!CHECK(error <= bound * fmax(1, most)))
        test_note("%s: %g of %g", what, error, most);
    zl_scope_end(scope);
    zl_release(got);
    zl_release(want);
}

// Checks that two computations have the same bits.
static void repeats(const char *what, maker *make, const void *data) {
    zl_array first = make_on("cuda", make, data), again = make_on("cuda", make, data);
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    if (!CHECK(zl_item(zl_array_equal(first, again, true)) == 1))
        test_note("%s differs", what);
    zl_scope_end(scope);
    zl_release(first);
    zl_release(again);
}

// The libraries have the functions that the files declare; needs no GPU.
TEST(libraries_have_what_is_used) {
    static const struct {
        const char *name;
        int version[CUDA_VERSIONS];
        cuda_question *can;
    } libraries[] = {{"cufft", {12, 11}, cuda_fft_can},
                     {"cusolver", {12, 11}, cuda_factor_can},
                     {"cudnn", {9}, cuda_convolve_can},
                     {"cublasLt", {13, 12}, cuda_lt_can}};
    int found = 0;
    ZL_SCOPE {
        zl_array x = zl_zeros(ZL_SHAPE(2, 2), ZL_FLOAT32);
        struct call *c = zl_matmul(x, x)->call;
        for (size_t i = 0; i < COUNT(libraries); i++)
            if (cuda_library(libraries[i].name, libraries[i].version)) {
                found++;
                if (!CHECK(libraries[i].can(c)))
                    test_note("lib%s.so lacks a function", libraries[i].name);
            }
    }
    if (!found)
        SKIP("none of NVIDIA's libraries is here: a CUDA toolkit, or its packages of PyPI");
}

// Products --------------------------------------------------------------------------------------------------

struct product {
    zl_dtype dtype;
    int64_t batch[2], m, k, n;
    int turned;     // bit 0: a, bit 1: b is transposed
    bool crossed;   // the batch axes of a are exchanged
    bool sparse;    // a is every second column of an array
    bool shared;    // b is the same for the whole batch
    zl_dtype gives; // dtype of the result, for fp8
};

static zl_array multiply(const void *data) {
    const struct product *p = data;
    int64_t wide = p->sparse ? 2 * p->k : p->k;
    int64_t first = p->batch[p->crossed], second = p->batch[!p->crossed];
    zl_array a =
        numbers(p->turned & 1 ? ZL_SHAPE(first, second, wide, p->m) : ZL_SHAPE(first, second, p->m, wide),
                p->dtype, 1);
    zl_array b = numbers(p->turned & 2 ? ZL_SHAPE(p->batch[0], p->batch[1], p->n, p->k)
                                       : ZL_SHAPE(p->batch[0], p->batch[1], p->k, p->n),
                         p->dtype, 2);
    a = p->turned & 1 ? zl_swapaxes(a, 2, 3) : a;
    b = p->turned & 2 ? zl_swapaxes(b, 2, 3) : b;
    a = p->crossed ? zl_swapaxes(a, 0, 1) : a;
    if (p->sparse)
        a = zl_slice(a, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(p->batch[0], p->batch[1], p->m, wide),
                     ZL_SHAPE(1, 1, 1, 2));
    if (p->shared)
        b = zl_slice(b, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(1, 1, p->k, p->n), ZL_SHAPE(1, 1, 1, 1));
    return p->dtype == ZL_INT8    ? zl_matmul_int8(a, b)
           : p->dtype == ZL_UINT8 ? zl_matmul_fp8(a, b, 0.75, 2, p->gives)
                                  : zl_matmul(a, b);
}

TEST(products_by_libraries) {
    static const struct {
        zl_dtype dtype;
        double bound;
    } kinds[] = {{ZL_FLOAT32, 2e-6},  {ZL_BFLOAT16, 8e-3},  {ZL_FLOAT16, 1e-3},
                 {ZL_FLOAT64, 1e-14}, {ZL_COMPLEX64, 2e-6}, {ZL_INT8, 0}};
    static const int64_t sizes[][3] = {{1, 1, 1},   {64, 64, 64}, {70, 33, 65},
                                       {1, 200, 5}, {5, 17, 1},   {128, 96, 16}};
    if (skips())
        return;
    for (size_t d = 0; d < COUNT(kinds); d++)
        for (int i = 0; i < (test_quick() ? 8 : 96); i++)
            ZL_SCOPE {
                const int64_t *size = sizes[i % (int)COUNT(sizes)];
                struct product p = {kinds[d].dtype, {1 + i % 3, 1 + i % 2},
                                    size[0],        size[1],
                                    size[2],        i / 2 % 4,
                                    i / 8 % 2,      i / 16 % 2,
                                    i / 32 % 2};
                agree("a product", multiply, &p, kinds[d].bound);
            }
}

// Large enough that factors of bytes are transposed first if the library needs that.
TEST(products_of_bytes_by_libraries) {
    static const int64_t sizes[][3] = {{512, 512, 512}, {520, 528, 516}, {64, 4096, 576}, {2, 2048, 8192}};
    if (skips())
        return;
    for (int i = 0; i < (int)COUNT(sizes) * 4; i++)
        ZL_SCOPE {
            const int64_t *size = sizes[i / 4];
            struct product p = {ZL_INT8, {1, 1 + i / 4 % 2}, size[0], size[1], size[2], i % 4, false,
                                false,   i / 4 == 2};
            agree("a product of int8", multiply, &p, 0);
            p.dtype = ZL_UINT8;
            p.gives = ZL_FLOAT32;
            agree("a product of fp8", multiply, &p, 4e-3);
        }
}

// Sizes and layouts of fp8 that cuBLASLt supports, and others.
TEST(fp8_products_by_libraries) {
    static const zl_dtype gives[] = {ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT32};
    static const double bounds[] = {8e-3, 4e-3, 4e-3};
    static const int64_t sizes[][3] = {{64, 64, 64}, {70, 33, 65}, {1, 256, 48},
                                       {5, 17, 16},  {33, 96, 16}, {16, 16, 1}};
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 24 : 96); i++)
        ZL_SCOPE {
            const int64_t *size = sizes[i % (int)COUNT(sizes)];
            int to = i % (int)COUNT(gives);
            struct product p = {ZL_UINT8,   {1 + i % 3, 1 + i % 2},
                                size[0],    size[1],
                                size[2],    i / 2 % 4,
                                i / 8 % 2,  i / 16 % 2,
                                i / 32 % 2, gives[to]};
            agree("a product of fp8", multiply, &p, bounds[to]);
        }
}

// The algorithms for a shape are timed when it is used for one of the first times; the result must not
// change.
TEST(a_product_that_comes_again_by_libraries) {
    if (skips())
        return;
    struct product p = {ZL_BFLOAT16, {1, 1}, 512, 1024, 768, 0, false, false, false};
    for (int i = 0; i < 5; i++)
        ZL_SCOPE
            agree("a product again", multiply, &p, 8e-3);
}

// The addend of a product of 16-bit floats: a number per column, a matrix with the result's layout, or one
// that has to be copied first.
struct added {
    zl_dtype dtype;
    int64_t batch, m, k, n;
    // 0: per column, 1: a matrix, 2: a transposed one, 3: per row, 4: one number, 5: at an unaligned address
    int kind;
    double alpha, beta;
};

static zl_array add(const void *data) {
    const struct added *p = data;
    zl_array a = numbers(ZL_SHAPE(p->batch, p->m, p->k), p->dtype, 1),
             b = numbers(ZL_SHAPE(p->batch, p->k, p->n), p->dtype, 2);
    zl_array c = NULL;
    switch (p->kind) {
    case 0: c = numbers(ZL_SHAPE(p->n), p->dtype, 3); break;
    case 1: c = numbers(ZL_SHAPE(p->batch, p->m, p->n), p->dtype, 3); break;
    case 2: c = zl_swapaxes(numbers(ZL_SHAPE(p->batch, p->n, p->m), p->dtype, 3), 1, 2); break;
    case 3: c = numbers(ZL_SHAPE(p->m, 1), p->dtype, 3); break;
    case 4: c = zl_astype(zl_scalar(2), p->dtype); break;
    default:
        c = zl_slice(numbers(ZL_SHAPE(p->n + 1), p->dtype, 3), ZL_SHAPE(1), ZL_SHAPE(p->n + 1), ZL_SHAPE(1));
    }
    return p->batch == 1 ? zl_addmm(p->kind == 1 || p->kind == 2 ? zl_squeeze(c, ZL_AXES(0)) : c,
                                    zl_squeeze(a, ZL_AXES(0)), zl_squeeze(b, ZL_AXES(0)), p->alpha, p->beta)
                         : zl_addmm(c, a, b, p->alpha, p->beta);
}

TEST(sums_of_products_by_libraries) {
    static const int64_t sizes[][3] = {{64, 64, 64}, {70, 33, 65},  {1, 200, 5},
                                       {5, 17, 1},   {4, 512, 250}, {512, 1024, 768}};
    static const double factors[][2] = {{1, 1}, {0.5, 2}, {2, 0}};
    if (skips())
        return;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < (int)COUNT(sizes) * 6 * 3 * 2; i += test_quick() ? 5 : 1)
            ZL_SCOPE {
                const int64_t *size = sizes[i % (int)COUNT(sizes)];
                const double *by = factors[i / 36 % 3];
                struct added p = {d ? ZL_BFLOAT16 : ZL_FLOAT16,
                                  1 + 2 * (i / 108),
                                  size[0],
                                  size[1],
                                  size[2],
                                  i / 6 % 6,
                                  by[0],
                                  by[1]};
                agree("addmm", add, &p, d ? 8e-3 : 1e-3);
            }
}

// Algorithms are timed during one of the uses, but never when that would add to the addend twice.
TEST(sums_of_products_that_come_again_by_libraries) {
    if (skips())
        return;
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 5; i++)
            ZL_SCOPE {
                struct added p = {ZL_BFLOAT16, 1, 512, 1024, 768, kind, 0.5, kind ? 2 : 1};
                int64_t launches = zl_counter("launches");
                agree("addmm again", add, &p, 8e-3);
                CHECK(zl_counter("launches") - launches <= (kind == 2 ? 2 : 1));
            }
}

// Ops that follow a product and are computed with it.
struct layer {
    zl_dtype dtype;
    int64_t rows;
    bool relu, keeps; // keeps: the result before relu is read too
};

static zl_array layer(const void *data) {
    const struct layer *l = data;
    zl_array x = numbers(ZL_SHAPE(l->rows, 48), l->dtype, 10), w = numbers(ZL_SHAPE(48, 40), l->dtype, 11),
             b = numbers(ZL_SHAPE(40), l->dtype, 12);
    zl_array product = zl_matmul(x, w), sum = zl_add(product, b);
    zl_array y = l->relu ? zl_maximum(sum, zl_scalar(0)) : sum;
    return l->keeps ? zl_concatenate((zl_array[]){y, product, zl_exp(sum)}, 3, 0) : y;
}

TEST(layers_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < 16; i++)
        ZL_SCOPE {
            struct layer l = {i & 1 ? ZL_BFLOAT16 : ZL_FLOAT32, i & 2 ? 33 : 64, i & 4, i & 8};
            agree("a layer", layer, &l, l.dtype == ZL_FLOAT32 ? 2e-6 : 1.6e-2);
        }
    int64_t launches = zl_counter("launches"), fused = zl_counter("fused");
    struct layer l = {ZL_FLOAT32, 64, true, false};
    zl_release(make_on("cuda", layer, &l));
    CHECK_EQ_INT(zl_counter("launches") - launches, 2);
    CHECK_EQ_INT(zl_counter("fused") - fused, 2);
}

// Fourier transforms ----------------------------------------------------------------------------------------

struct transform {
    int n, axis, which;
    bool real; // real numbers, if both are possible
};

static zl_array transform(const void *data) {
    const struct transform *t = data;
    int64_t dim[] = {3, 4, 5};
    dim[t->axis] = t->which == 3 ? t->n / 2 + 1 : t->n;
    bool is_real = t->which == 2 || (t->which < 2 && t->real);
    zl_array x = numbers((zl_shape){dim, 3}, is_real ? ZL_FLOAT32 : ZL_COMPLEX64, 3);
    switch (t->which) {
    case 0: return zl_fft_fft(x, t->n, t->axis, "backward");
    case 1: return zl_fft_ifft(x, t->n, t->axis, "ortho");
    case 2: return zl_fft_rfft(x, t->n, t->axis, "forward");
    default: return zl_fft_irfft(x, t->n, t->axis, "backward");
    }
}

TEST(transforms_by_libraries) {
    static const int counts[] = {1, 2, 3, 8, 17, 60, 128, 1009, 4096};
    if (skips())
        return;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int which = 0; which < 4; which++)
            for (int axis = 0; axis < 6; axis++)
                ZL_SCOPE
                    agree("a transform", transform,
                          &(struct transform){counts[i], axis % 3, which, axis >= 3}, 2e-6);
}

// Attention -------------------------------------------------------------------------------------------------

struct attending {
    zl_dtype dtype;
    int64_t heads, shared, queries, keys, size;
    bool causal, turned; // transposed: the heads of a row are adjacent, as projections write them
};

static zl_array heads_of(const struct attending *a, int64_t heads, int64_t length, int seed) {
    zl_array x =
        numbers(a->turned ? ZL_SHAPE(2, length, heads, a->size) : ZL_SHAPE(2, heads, length, a->size),
                a->dtype, seed);
    return a->turned ? zl_swapaxes(x, 1, 2) : x;
}

static zl_array attend(const void *data) {
    const struct attending *a = data;
    zl_array q = heads_of(a, a->heads, a->queries, 4), k = heads_of(a, a->shared, a->keys, 5),
             v = heads_of(a, a->shared, a->keys, 6);
    return zl_fast_scaled_dot_product_attention(q, k, v, 1 / sqrt((double)a->size), NULL, NULL,
                                                a->causal ? "causal" : NULL);
}

TEST(attention_by_libraries) {
    static const int64_t lengths[][2] = {{128, 128}, {77, 77}, {1, 300}, {50, 333}, {200, 60}};
    static const zl_dtype dtypes[] = {ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT32};
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 24 : 240); i++)
        ZL_SCOPE {
            const int64_t *length = lengths[i % 5];
            struct attending a = {dtypes[i % 3], 4,         i % 2 ? 4 : 2,
                                  length[0],     length[1], i % 4 == 3 ? 40 : i % 4 == 2 ? 128 : 64,
                                  i / 2 % 2,     i / 4 % 2};
            agree("attention", attend, &a,
                  a.dtype == ZL_FLOAT32   ? 2e-6
                  : a.dtype == ZL_FLOAT16 ? 2e-3
                                          : 1.6e-2);
        }
}

struct attending_back {
    struct attending a;
    int of;          // 0, 1, 2: q, k, v; 3: the sinks
    bool sinks;      // the softmax has sinks
    zl_dtype hidden; // dtype of the mask; ZL_DTYPE_COUNT: none
};

static zl_array attend_back(const void *data) {
    const struct attending_back *b = data;
    const struct attending *a = &b->a;
    zl_array in[] = {heads_of(a, a->heads, a->queries, 4), heads_of(a, a->shared, a->keys, 5),
                     heads_of(a, a->shared, a->keys, 6), numbers(ZL_SHAPE(a->heads), a->dtype, 7)};
    zl_array mask = NULL, grads[4];
    if (b->hidden < ZL_DTYPE_COUNT)
        mask = numbers(ZL_SHAPE(a->queries, a->keys), a->dtype, 8);
    if (b->hidden == ZL_BOOL)
        mask = zl_greater(mask, zl_zeros(ZL_SHAPE(1), a->dtype));
    zl_array y =
        zl_fast_scaled_dot_product_attention(in[0], in[1], in[2], 1 / sqrt((double)a->size), mask,
                                             b->sinks ? in[3] : NULL, a->causal && !mask ? "causal" : NULL);
    zl_array weights = numbers(ZL_SHAPE(2, a->heads, a->queries, a->size), a->dtype, 9);
    zl_array loss = zl_sum(zl_astype(zl_multiply(y, weights), ZL_FLOAT32));
    return zl_grad(loss, b->sinks ? 4 : 3, in, grads) ? grads[b->of] : NULL;
}

TEST(gradients_of_attention_on_cuda) {
    static const int64_t lengths[][2] = {{128, 128}, {77, 77}, {50, 333}, {200, 60}, {300, 300}};
    static const zl_dtype dtypes[] = {ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT32};
    static const zl_dtype masks[] = {ZL_DTYPE_COUNT, ZL_DTYPE_COUNT, ZL_BOOL, ZL_FLOAT32};
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 36 : 240); i++)
        ZL_SCOPE {
            const int64_t *length = lengths[i % 5];
            bool sinks = i % 7 == 6;
            struct attending_back b = {{dtypes[i % 3], 4, i % 2 ? 4 : 2, length[0], length[1],
                                        i % 4 == 3   ? 40
                                        : i % 4 == 2 ? 128
                                                     : 64,
                                        i / 2 % 2, i / 4 % 2},
                                       i % (sinks ? 4 : 3),
                                       sinks,
                                       masks[i / 3 % 4]};
            agree("a gradient of attention", attend_back, &b,
                  b.a.dtype == ZL_FLOAT32   ? 5e-6
                  : b.a.dtype == ZL_FLOAT16 ? 4e-3
                                            : 3e-2);
        }
}

// Heads for which cuDNN has kernels. Their sums must not depend on which block comes first.
TEST(gradients_of_large_heads_on_cuda) {
    static const int64_t lengths[][2] = {{128, 128}, {77, 77}, {50, 333}, {300, 300}};
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 24 : 192); i++)
        ZL_SCOPE {
            const int64_t *length = lengths[i % 4];
            struct attending_back b = {.a = {i % 2 ? ZL_BFLOAT16 : ZL_FLOAT16, 4, i / 2 % 2 ? 4 : 2,
                                             length[0], length[1], i % 6 == 5 ? 256 : 128, i / 3 % 2,
                                             i / 4 % 2},
                                       .of = i / 2 % 3,
                                       .hidden = ZL_DTYPE_COUNT};
            agree("a gradient of attention", attend_back, &b, b.a.dtype == ZL_FLOAT16 ? 4e-3 : 3e-2);
            repeats("a gradient of attention", attend_back, &b);
        }
}

// Returns an array at element `first` of its memory. Which library computes a call must not depend on the
// alignment of its inputs, since the bits would.
static zl_array part_of(int64_t heads, int64_t length, int64_t size, int64_t first, int seed) {
    int64_t count = heads * length * size;
    zl_array all = numbers(ZL_SHAPE(first + count), ZL_FLOAT16, seed);
    zl_array part = zl_slice(all, ZL_SHAPE(first), ZL_SHAPE(first + count), ZL_SHAPE(1));
    return zl_reshape(part, ZL_SHAPE(1, heads, length, size));
}

static bool attend_parts(void *data, int count, const zl_array *in, zl_outputs *out) {
    (void)data;
    (void)count;
    return zl_give(out, zl_fast_scaled_dot_product_attention(in[0], in[1], in[2], 1, NULL, NULL, NULL));
}

// Uses the cuDNN of test/fake, which counts calls and rejects unaligned memory. The cotangent may also be
// unaligned alone.
TEST(attention_of_parts_by_the_same_library) {
    static const char *const names[] = {"libcudnn.so.9", NULL};
    static const int64_t firsts[][2] = {{0, 0}, {1, 5}, {5, 8}, {0, 1}, {8, 0}};
    int64_t (*count)(void) = NULL;
    const struct library_symbol symbols[] = {{"fake_dnn_runs", (void **)(void *)&count}};
    void *library = library_open(names);
    if (!library || !library_bind(library, symbols, 1, NULL))
        SKIP("its cuDNN is that of test/fake: device/test_cuda:calls_of_libraries runs it so");
    for (size_t i = 0; i < COUNT(firsts); i++) {
        zl_scope scope = zl_scope_begin_on(zl_new_stream("cuda"));
        int64_t first = firsts[i][0], before = count();
        zl_array in[] = {part_of(2, 20, 128, first, 1), part_of(2, 24, 128, first, 2),
                         part_of(2, 24, 128, first, 3)};
        zl_array g = part_of(2, 20, 128, firsts[i][1], 4), out[3];
        REQUIRE(zl_eval_all(3, in) && zl_eval(g));
        REQUIRE(zl_vjp((zl_fn){.call = attend_parts}, 3, in, 1, &g, NULL, out) && zl_eval_all(3, out));
        if (!CHECK(count() - before == 2))
            test_note("from element %lld: %lld calls of cuDNN", (long long)first,
                      (long long)(count() - before));
        zl_scope_end(scope);
    }
}

static zl_array turned_part_of(int64_t lines, int seed) {
    return zl_swapaxes(zl_reshape(part_of(2, lines, 128, 8, seed), ZL_SHAPE(1, lines, 2, 128)), 1, 2);
}

// Counts launches of our own kernels: copies, and two that read and write cuDNN's statistics of each query.
// First nothing is transposed, then the cotangent, then all arrays, including the results that the backward
// pass reads.
TEST(cotangents_of_attention_are_read_as_they_lie) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    int64_t (*calls)(const char *function) = NULL, launches[3];
    const struct library_symbol symbols[] = {{"fake_calls", (void **)(void *)&calls}};
    void *library = library_open(names);
    if (!library || !library_bind(library, symbols, 1, NULL))
        SKIP("its driver is that of test/fake: device/test_cuda:calls_of_libraries runs it so");
    for (int turned = 0; turned < 3; turned++) {
        zl_scope scope = zl_scope_begin_on(zl_new_stream("cuda"));
        zl_array in[3], g = turned ? turned_part_of(20, 4) : part_of(2, 20, 128, 0, 4), out[3];
        for (int i = 0; i < 3; i++)
            in[i] = turned == 2 ? turned_part_of(i ? 24 : 20, i + 1) : part_of(2, i ? 24 : 20, 128, 0, i + 1);
        REQUIRE(zl_eval_all(3, in) && zl_eval(g));
        launches[turned] = calls("cuLaunchKernel");
        REQUIRE(zl_vjp((zl_fn){.call = attend_parts}, 3, in, 1, &g, NULL, out) && zl_eval_all(3, out));
        launches[turned] = calls("cuLaunchKernel") - launches[turned];
        CHECK((array_stride(out[0])[1] < array_stride(out[0])[2]) == (turned == 2));
        zl_scope_end(scope);
    }
    CHECK_EQ_INT(launches[1], launches[0]);
    CHECK_EQ_INT(launches[2], launches[0]);
}

// Factors ---------------------------------------------------------------------------------------------------

struct factor {
    zl_dtype dtype;
    int64_t m, n;
    int which;
    bool other; // the upper triangle, or a transposed view
};

enum {
    CHOLESKY,
    INVERSE,
    TRIANGLE,
    LU,
    LU_ROWS,
    QR,
    QR_LENGTHS,
    SVD,
    SVD_VALUES,
    EIGH,
    EIGH_VALUES,
    FACTORS
};

static zl_array adjoint(zl_array x) {
    return zl_matrix_transpose(x->dtype == ZL_COMPLEX64 ? zl_conjugate(x) : x);
}

static zl_array symmetric(zl_array x) {
    zl_array y = zl_matmul(x, adjoint(x));
    return zl_add(y, zl_astype(zl_eye(x->dim[1], x->dim[1], 0, ZL_FLOAT32), (zl_dtype)x->dtype));
}

// Multiplies the factors again, because they may differ in signs.
static zl_array factor(const void *data) {
    const struct factor *f = data;
    zl_array out[3] = {NULL};
    zl_array x = f->other ? zl_matrix_transpose(numbers(ZL_SHAPE(2, f->n, f->m), f->dtype, 7))
                          : numbers(ZL_SHAPE(2, f->m, f->n), f->dtype, 7);
    switch (f->which) {
    case CHOLESKY: return zl_linalg_cholesky(symmetric(x), f->other);
    case INVERSE: return zl_linalg_inv(symmetric(x));
    case TRIANGLE: return zl_linalg_tri_inv(zl_linalg_cholesky(symmetric(x), f->other), f->other);
    case LU: return zl_linalg_lu(x, out) ? zl_matmul(out[1], out[2]) : NULL;
    case LU_ROWS: return zl_linalg_lu(x, out) ? out[0] : NULL;
    case QR: return zl_linalg_qr(x, out) ? zl_matmul(out[0], zl_triu(out[1], 0)) : NULL;
    case QR_LENGTHS: return zl_linalg_qr(x, out) ? zl_matmul(zl_matrix_transpose(out[0]), out[0]) : NULL;
    case SVD: {
        int64_t k = f->m < f->n ? f->m : f->n;
        if (!zl_linalg_svd(x, true, out))
            return NULL;
        zl_array u = zl_slice(out[0], ZL_SHAPE(0, 0, 0), ZL_SHAPE(2, f->m, k), ZL_SHAPE(1, 1, 1));
        zl_array v = zl_slice(out[2], ZL_SHAPE(0, 0, 0), ZL_SHAPE(2, k, f->n), ZL_SHAPE(1, 1, 1));
        return zl_matmul(zl_multiply(u, zl_expand_dims(out[1], ZL_AXES(1))), v);
    }
    case SVD_VALUES: return zl_linalg_svd(x, false, out) ? out[0] : NULL;
    case EIGH:
        if (!zl_linalg_eigh(symmetric(x), f->other ? "U" : "L", out))
            return NULL;
        return zl_matmul(zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(1))), adjoint(out[1]));
    default: return zl_linalg_eigvalsh(symmetric(x), "L");
    }
}

static void check_factors(int first, int end) {
    static const int64_t sizes[][2] = {{1, 1}, {5, 5}, {40, 40}, {7, 20}, {33, 12}};
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_COMPLEX64};
    for (int which = first; which < end; which++)
        for (int i = 0; i < 30; i++)
            ZL_SCOPE {
                struct factor f = {dtypes[i % 3], sizes[i / 3 % 5][0], sizes[i / 3 % 5][1], which, i / 15};
                if (f.dtype == ZL_COMPLEX64 && which < SVD)
                    continue;
                agree("factors", factor, &f, f.dtype == ZL_FLOAT64 ? 1e-11 : 2e-4);
            }
}

TEST(triangular_factors_by_libraries) {
    if (!skips())
        check_factors(CHOLESKY, QR);
}

TEST(factors_by_libraries) {
    if (!skips())
        check_factors(QR, FACTORS);
}

// Computes results that do not depend on the order of eigenvalues: the matrices times their vectors minus
// these times their values, the lengths of the vectors, and sums of the values and of their squares.
static zl_array eigen(const void *data) {
    const struct factor *f = data;
    zl_array x = numbers(ZL_SHAPE(2, f->n, f->n), f->dtype, 7), out[2];
    x = f->other ? zl_matrix_transpose(x) : x;
    zl_array values = zl_linalg_eigvals(x);
    if (!zl_linalg_eig(x, out))
        return NULL;
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cpu"));
    zl_array off = zl_subtract(zl_matmul(zl_astype(x, ZL_COMPLEX64), out[1]),
                               zl_multiply(out[1], zl_expand_dims(out[0], ZL_AXES(1))));
    zl_array lengths = zl_astype(zl_sum_axis(zl_square(zl_abs(out[1])), 1, false), ZL_COMPLEX64);
    zl_array parts[] = {zl_flatten(off, 0, -1), zl_flatten(lengths, 0, -1), zl_sum_axis(values, 1, false),
                        zl_sum_axis(zl_square(out[0]), 1, false)};
    return zl_scope_leave(scope, zl_concatenate(parts, 4, 0));
}

TEST(eigenvalues_by_libraries) {
    static const int64_t sizes[] = {1, 2, 5, 40};
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_COMPLEX64};
    if (skips())
        return;
    ZL_SCOPE {
        zl_array x = zl_zeros(ZL_SHAPE(2, 2), ZL_FLOAT32);
        if (!cuda_eig_can(zl_matmul(x, x)->call))
            SKIP("cuSOLVER is not here, or older than CUDA 12.6");
    }
    for (int i = 0; i < 24; i++)
        ZL_SCOPE {
            struct factor f = {dtypes[i % 3], 0, sizes[i / 3 % 4], 0, i / 12};
            agree("eigenvalues", eigen, &f, f.dtype == ZL_FLOAT64 ? 1e-5 : 1e-3);
        }
}

TEST(factors_that_do_not_exist_by_libraries) {
    if (skips())
        return;
    zl_scope scope = zl_scope_begin_on(zl_new_stream("cuda"));
    CHECK_ERROR(ZL_ERROR_DEVICE,
                zl_eval(zl_linalg_cholesky(zl_negative(zl_eye(4, 4, 0, ZL_FLOAT32)), false)));
    CHECK_HAS(test_last_error(), "not positive definite");
    CHECK_ERROR(ZL_ERROR_DEVICE, zl_eval(zl_linalg_inv(zl_zeros(ZL_SHAPE(4, 4), ZL_FLOAT32))));
    CHECK_HAS(test_last_error(), "singular");
    zl_scope_end(scope);
}

// Convolutions ----------------------------------------------------------------------------------------------

struct convolution {
    zl_dtype dtype;
    int axes, groups, which; // which: 0 the result, 1 and 2 gradients with respect to the input and to the
                             // kernel
    int64_t stride, padding, dilation, gaps;
    bool flip;
};

static zl_array convolve(const void *data) {
    const struct convolution *v = data;
    int64_t x[] = {2, 12, 11, 9, 8}, w[] = {16, 3, 2, 3, 8 / v->groups};
    x[v->axes + 1] = 8;
    w[v->axes + 1] = 8 / v->groups;
    zl_array in[] = {numbers((zl_shape){x, v->axes + 2}, v->dtype, 8),
                     numbers((zl_shape){w, v->axes + 2}, v->dtype, 9)};
    zl_array y = zl_conv_general(in[0], in[1], ZL_SHAPE(v->stride), ZL_SHAPE(v->padding),
                                 ZL_SHAPE(v->dilation), ZL_SHAPE(v->gaps), v->groups, v->flip),
             grad[2];
    if (!v->which)
        return y;
    return zl_grad(zl_sum(zl_square(y)), 2, in, grad) ? grad[v->which - 1] : NULL;
}

static const zl_dtype conv_dtypes[] = {ZL_FLOAT32, ZL_BFLOAT16, ZL_FLOAT16, ZL_FLOAT64};
static const double conv_bounds[] = {5e-6, 3e-2, 4e-3, 1e-13};

TEST(convolutions_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 36 : 216); i++)
        ZL_SCOPE {
            struct convolution v = {conv_dtypes[i % 3], 1 + i / 3 % 3, i / 27 % 2 ? 2 : 1, i / 9 % 3,
                                    1 + i / 9 % 2,      i / 18 % 3,    1 + i / 54 % 2,     1};
            agree("a convolution", convolve, &v, conv_bounds[i % 3]);
        }
}

// cuDNN computes gradients of kernels in groups from arrays in their own layouts, so there are no more
// launches than for one group.
TEST(kernels_in_groups_are_not_copied) {
    if (skips())
        return;
    int64_t launches[2];
    for (int i = 0; i < 4; i++) // each once before counting, because plans are searched for then
        ZL_SCOPE {
            struct convolution v = {ZL_BFLOAT16, 2, i % 2 ? 2 : 1, 2, 1, 1, 1, 1};
            int64_t before = zl_counter("launches");
            zl_release(make_on("cuda", convolve, &v));
            launches[i % 2] = zl_counter("launches") - before;
        }
    CHECK_EQ_INT(launches[1], launches[0]);
}

// A convolution of integers, whose results are exact, with different padding at the two ends.
struct uneven {
    zl_dtype dtype;
    int axes, groups, which;
    int64_t batch, in, out, size[2], kernel[2], stride[2], dilation[2], low[2], high[2];
    bool flip;
};

static struct uneven draw_uneven(void) {
    static const zl_dtype dtypes[] = {ZL_FLOAT32, ZL_FLOAT64, ZL_FLOAT32, ZL_FLOAT64, ZL_BFLOAT16};
    struct uneven v = {.dtype = dtypes[test_between(0, 4)],
                       .axes = (int)test_between(1, 2),
                       .groups = (int)test_between(1, 3),
                       .which = (int)test_between(0, 2),
                       .batch = test_between(1, 3),
                       .in = test_between(1, 3),
                       .out = test_between(1, 3),
                       .flip = test_between(0, 1)};
    for (int i = 0; i < 2; i++) {
        v.kernel[i] = test_between(1, 4);
        v.stride[i] = test_between(1, 2);
        v.dilation[i] = test_between(1, 2);
        v.low[i] = test_between(0, 3);
        v.high[i] = test_between(0, 3);
        v.size[i] = (v.kernel[i] - 1) * v.dilation[i] + test_between(1, 6);
    }
    return v;
}

// Draws a convolution that is large enough for its plans to be timed; float32, also computed by matrix
// products.
static struct uneven draw_large(void) {
    struct uneven v = draw_uneven();
    v.dtype = ZL_FLOAT32;
    v.axes = 2;
    v.groups = 1;
    v.batch = 8;
    v.in = test_between(61, 68);
    v.out = test_between(61, 68);
    for (int i = 0; i < 2; i++) {
        v.kernel[i] = test_between(3, 4);
        v.size[i] = 28 * v.stride[i] + test_between(0, 6);
    }
    return v;
}

static zl_array whole(zl_shape shape, zl_dtype dtype, int seed) {
    return zl_round(numbers(shape, dtype, seed), 0);
}

static zl_array convolve_uneven(const void *data) {
    const struct uneven *v = data;
    int64_t x[] = {v->batch, v->size[0], v->size[1], 0},
            w[] = {v->out * v->groups, v->kernel[0], v->kernel[1], 0};
    int64_t padding[] = {v->low[0], v->low[1], 0, 0};
    x[v->axes + 1] = v->in * v->groups;
    w[v->axes + 1] = v->in;
    memcpy(padding + v->axes, v->high, sizeof v->high);
    zl_array in[] = {whole((zl_shape){x, v->axes + 2}, v->dtype, 8),
                     whole((zl_shape){w, v->axes + 2}, v->dtype, 9)};
    zl_array y = zl_conv_general(in[0], in[1], (zl_shape){v->stride, v->axes},
                                 (zl_shape){padding, 2 * v->axes}, (zl_shape){v->dilation, v->axes},
                                 ZL_NO_SHAPE, v->groups, v->flip),
             grad[2];
    if (!v->which || !y)
        return y;
    zl_array g = whole(zl_shape_of(y), v->dtype, 10);
    return zl_grad(zl_sum(zl_astype(zl_multiply(y, g), ZL_FLOAT32)), 2, in, grad) ? grad[v->which - 1] : NULL;
}

TEST(convolutions_padded_unevenly_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 150 : 600); i++)
        ZL_SCOPE {
            struct uneven v = draw_uneven();
            agree("a convolution padded unevenly", convolve_uneven, &v, 0);
        }
}

TEST(large_convolutions_padded_unevenly_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 18 : 72); i++)
        ZL_SCOPE {
            struct uneven v = draw_large();
            v.which = i % 3;
            agree("a large convolution padded unevenly", convolve_uneven, &v, 0);
            repeats("a large convolution padded unevenly", convolve_uneven, &v);
        }
}

// Transposed convolutions, with or without gaps in the input, also with more padding than elements.
TEST(transposed_convolutions_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < (test_quick() ? 48 : 288); i++)
        ZL_SCOPE {
            struct convolution v = {conv_dtypes[i % 4],
                                    1 + i / 12 % 3,
                                    i / 36 % 2 ? 2 : 1,
                                    i / 4 % 3,
                                    1,
                                    i % 5,
                                    1 + i / 72 % 2,
                                    1 + i % 3,
                                    true};
            agree("a transposed convolution", convolve, &v, conv_bounds[i % 4]);
        }
}

// Large enough that a few plans are timed at the first use, and the best one is kept.
struct large {
    zl_dtype dtype;
    bool transposed;
    int groups, which; // the result, or the gradient with respect to the input or the kernel
    bool whole;        // integers, of which one factor has up to 13 bits: sums are exact in float32, but not
                       // in TF32
};

static zl_array large_factor(const struct large *l, zl_shape shape, int seed, bool wide) {
    zl_array x = numbers(shape, l->dtype, seed);
    return l->whole ? zl_round(zl_multiply(x, zl_scalar(wide ? 1000 : 1)), 0) : x;
}

static zl_array convolve_large(const void *data) {
    const struct large *l = data;
    zl_array in[] = {large_factor(l, ZL_SHAPE(8, 28, 28, 64), 8, l->which != 1),
                     large_factor(l, ZL_SHAPE(64, 3, 3, 64 / l->groups), 9, false)};
    zl_array y = l->transposed ? zl_conv_transpose2d(in[0], in[1], ZL_SHAPE(2), ZL_SHAPE(1), ZL_NO_SHAPE,
                                                     ZL_NO_SHAPE, l->groups)
                               : zl_conv2d(in[0], in[1], ZL_SHAPE(1), ZL_SHAPE(1), ZL_NO_SHAPE, l->groups),
             grad[2];
    zl_array g = large_factor(l, zl_shape_of(y), 10, l->which == 1);
    if (!l->which)
        return y;
    return zl_grad(zl_sum(zl_astype(zl_multiply(y, g), ZL_FLOAT32)), 2, in, grad) ? grad[l->which - 1] : NULL;
}

TEST(large_convolutions_by_libraries) {
    if (skips())
        return;
    for (int i = 0; i < 48; i++)
        ZL_SCOPE {
            struct large l = {conv_dtypes[i / 12 % 3], i % 2, i / 6 % 2 ? 4 : 1, i / 2 % 3, i >= 36};
            if (l.whole)
                l.dtype = ZL_FLOAT32;
            agree("a large convolution", convolve_large, &l, l.whole ? 0 : conv_bounds[i / 12 % 3]);
            for (int again = 0; again < 3; again++)
                repeats("a large convolution", convolve_large, &l);
        }
}
