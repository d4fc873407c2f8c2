// test_pjrt_growing.c - a small transformer with a growing cache on a PJRT plugin: it needs few programs, and
// its logits are the CPU's.

#define TEST_LACKS lacks_plugin

static const char *lacks_plugin(void);

#include "test.h"

#include "device/pjrt/pjrt.h"

#include <math.h>

static const char *lacks_plugin(void) {
    const char *reason = NULL;
    return pjrt_open(&reason) ? NULL : reason;
}

enum { WORDS = 24, WIDE = 16, HEADS = 2, SHARED = 1, HEAD = 8, LAYERS = 1, MATRICES = 6 };
enum { TOKENS = 300, STEP = 256 };

struct model {
    uint32_t random; // state of the random numbers from which it is made
    zl_array embedding, matrix[LAYERS][MATRICES], cache[LAYERS][2];
    int count;  // tokens in the cache
    bool joins; // the cache is concatenated for each token, instead of being updated in place
};

static zl_array random_matrix(struct model *m, int rows, int columns) {
    static float data[WIDE * 4 * WIDE];
    for (int i = 0; i < rows * columns; i++) {
        m->random = m->random * 1664525 + 1013904223;
        data[i] = (float)((m->random / 4294967296.0 * 2 - 1) * sqrt(3.0 / rows));
    }
    return zl_retain(zl_from_f32(data, ZL_SHAPE(rows, columns)));
}

static void replace(zl_array *owned, zl_array by) {
    zl_array old = *owned;
    *owned = zl_retain(by);
    zl_release(old);
}

// Makes a model, with the same numbers each time.
static void make_model(struct model *m, bool joins) {
    static const int sizes[MATRICES][2] = {{WIDE, HEADS * HEAD}, {WIDE, SHARED * HEAD}, {WIDE, SHARED * HEAD},
                                           {HEADS * HEAD, WIDE}, {WIDE, 2 * WIDE},      {2 * WIDE, WIDE}};
    *m = (struct model){.random = (uint32_t)test_seed(), .joins = joins};
    m->embedding = random_matrix(m, WORDS, WIDE);
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < MATRICES; k++)
            m->matrix[i][k] = random_matrix(m, sizes[k][0], sizes[k][1]);
        for (int k = 0; k < 2 && !joins; k++)
            m->cache[i][k] = zl_retain(zl_zeros(ZL_SHAPE(1, SHARED, STEP, HEAD), ZL_FLOAT32));
    }
}

static void free_model(struct model *m) {
    zl_release(m->embedding);
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < MATRICES; k++)
            zl_release(m->matrix[i][k]);
        zl_release(m->cache[i][0]);
        zl_release(m->cache[i][1]);
    }
}

static zl_array heads(zl_array x, int count) {
    return zl_transpose(zl_reshape(x, ZL_SHAPE(1, 1, count, HEAD)), ZL_AXES(0, 2, 1, 3));
}

// Writes the newest keys or values after those of the cache, which is enlarged if it is full. Returns all of
// them.
static zl_array extend(struct model *m, zl_array *cache, zl_array x) {
    int64_t at = m->count;
    if (m->joins) {
        replace(cache, *cache ? zl_concatenate((zl_array[]){*cache, x}, 2, 2) : x);
        return *cache;
    }
    if (at == zl_dim(*cache, 2)) {
        zl_array more = zl_zeros(ZL_SHAPE(1, SHARED, STEP, HEAD), ZL_FLOAT32);
        replace(cache, zl_concatenate((zl_array[]){*cache, more}, 2, 2));
    }
    replace(cache, zl_slice_update(*cache, x, ZL_SHAPE(0, 0, at, 0), ZL_SHAPE(1, SHARED, at + 1, HEAD),
                                   ZL_SHAPE(1, 1, 1, 1)));
    return zl_slice(*cache, ZL_SHAPE(0, 0, 0, 0), ZL_SHAPE(1, SHARED, at + 1, HEAD), ZL_SHAPE(1, 1, 1, 1));
}

static zl_array layer(struct model *m, int i, zl_array x) {
    zl_array *w = m->matrix[i], norm = zl_fast_rms_norm(x, NULL, 1e-5), at = zl_scalar_int(m->count);
    zl_array q = heads(zl_matmul(norm, w[0]), HEADS), k = heads(zl_matmul(norm, w[1]), SHARED);
    q = zl_fast_rope(q, HEAD, false, 10000, 1, at, NULL);
    k = extend(m, &m->cache[i][0], zl_fast_rope(k, HEAD, false, 10000, 1, at, NULL));
    zl_array v = extend(m, &m->cache[i][1], heads(zl_matmul(norm, w[2]), SHARED));
    zl_array y = zl_fast_scaled_dot_product_attention(q, k, v, 1 / sqrt(HEAD), NULL, NULL, "");
    y = zl_reshape(zl_transpose(y, ZL_AXES(0, 2, 1, 3)), ZL_SHAPE(1, HEADS * HEAD));
    x = zl_add(x, zl_matmul(y, w[3]));
    y = zl_matmul(zl_tanh(zl_matmul(zl_fast_rms_norm(x, NULL, 1e-5), w[4])), w[5]);
    return zl_add(x, y);
}

// Computes the logits after one more token into out.
static bool next(struct model *m, int32_t token, float *out) {
    bool ok = false;
    ZL_SCOPE {
        zl_array x = zl_take(m->embedding, zl_from_i32(&token, ZL_SHAPE(1)), 0);
        for (int i = 0; i < LAYERS; i++)
            x = layer(m, i, x);
        zl_array all[1 + 2 * LAYERS] = {
            zl_matmul(zl_fast_rms_norm(x, NULL, 1e-5), zl_transpose(m->embedding, ZL_AXES(1, 0)))};
        for (int i = 0; i < 2 * LAYERS; i++)
            all[1 + i] = m->cache[i / 2][i % 2];
        ok = zl_eval_all(1 + 2 * LAYERS, all);
        for (int i = 0; ok && i < WORDS; i++)
            out[i] = zl_data_f32(all[0])[i];
    }
    m->count++;
    return ok;
}

static void check_generating(bool joins) {
    static float logits[2][TOKENS][WORDS];
    struct model m;
    test_setenv("ZL_CACHE_DIR", test_folder()); // an empty cache folder: programs of earlier runs are not
                                                // found
    for (int on = 0; on < 2; on++) {
        REQUIRE(zl_use_device(on ? "pjrt" : "cpu"));
        make_model(&m, joins);
        int64_t compiles = zl_counter("compiles"), launches = zl_counter("launches");
        for (int i = 0; i < TOKENS; i++)
            REQUIRE(next(&m, (i * 31 + i / 7) % WORDS, logits[on][i]));
        if (on && !CHECK(zl_counter("compiles") - compiles <= 24))
            test_note("%lld programs", (long long)(zl_counter("compiles") - compiles));
        if (on)
            CHECK_EQ_INT(zl_counter("launches") - launches, TOKENS);
        free_model(&m);
    }
    for (int i = 0; i < TOKENS; i++)
        for (int k = 0; k < WORDS; k++)
            CHECK_NEAR(logits[1][i][k], logits[0][i][k], 2e-4);
}

TEST(a_cache_that_grows_takes_few_programs) {
    check_generating(false);
}

TEST(a_cache_that_is_joined_anew_takes_few_programs) {
    check_generating(true);
}

// Arrays from the host: each has the bytes of its own size, and so have the results.
TEST(sizes_that_vary_take_few_programs) {
    enum { ROUNDS = 60 };
    static float data[3 * 200];
    test_setenv("ZL_CACHE_DIR", test_folder());
    REQUIRE(zl_use_device("pjrt"));
    int64_t compiles = zl_counter("compiles");
    for (int i = 0; i < 3 * 200; i++)
        data[i] = (float)i;
    for (int round = 0; round < ROUNDS; round++)
        ZL_SCOPE {
            int n = 2 + round * 37 % 190;
            zl_array x = zl_from_f32(data, ZL_SHAPE(3, n)), y = zl_add(zl_square(x), zl_scalar(1)),
                     sum = zl_sum_axis(y, 1, false);
            REQUIRE(zl_eval_all(2, (zl_array[]){y, sum}));
            for (int i = 0; i < 3; i++) {
                double all = 0;
                for (int k = 0; k < n; k++) {
                    double at = i * n + k, one = at * at + 1;
                    all += one;
                    CHECK_EQ_F64(zl_data_f32(y)[i * n + k], one);
                }
                CHECK_NEAR(zl_data_f32(sum)[i], all, 1e-5 * all);
            }
        }
    if (!CHECK(zl_counter("compiles") - compiles <= 8))
        test_note("%lld programs", (long long)(zl_counter("compiles") - compiles));
}

// An update of all elements but the first: both arrays have the bound of the same step.
TEST(updates_of_sizes_that_vary_are_in_their_place) {
    enum { MOST = 70 };
    static const int sizes[] = {33, 34, 35, 41, 64, 2, MOST};
    static float data[MOST];
    REQUIRE(zl_use_device("pjrt"));
    for (int i = 0; i < MOST; i++)
        data[i] = (float)(i + 1);
    for (size_t k = 0; k < COUNT(sizes); k++)
        ZL_SCOPE {
            int n = sizes[k];
            zl_array x = zl_from_f32(data, ZL_SHAPE(n)), u = zl_negative(zl_from_f32(data, ZL_SHAPE(n - 1)));
            zl_array y = zl_slice_update(x, u, ZL_SHAPE(1), ZL_SHAPE(n), ZL_SHAPE(1));
            zl_array z = zl_dynamic_slice_update(x, u, zl_from_i32((int32_t[]){1}, ZL_SHAPE(1)), ZL_AXES(0));
            REQUIRE(zl_eval_all(2, (zl_array[]){y, z}));
            for (int i = 0; i < n; i++) {
                CHECK_EQ_F64(zl_data_f32(y)[i], i ? -i : 1);
                CHECK_EQ_F64(zl_data_f32(z)[i], i ? -i : 1);
            }
        }
}

// Negative targets count from the last class, of which there are more each time.
TEST(targets_count_from_the_end_of_classes_that_vary) {
    enum { MOST = 38 };
    static float data[MOST];
    static const int32_t target[] = {-1};
    REQUIRE(zl_use_device("pjrt"));
    for (int i = 0; i < MOST; i++)
        data[i] = (float)(i % 5);
    for (int n = 33; n < MOST; n++)
        ZL_SCOPE {
            double sum = 0;
            zl_array y =
                zl_fast_cross_entropy(zl_from_f32(data, ZL_SHAPE(1, n)), zl_from_i32(target, ZL_SHAPE(1)));
            for (int i = 0; i < n; i++)
                sum += exp(data[i]);
            REQUIRE(zl_eval(y));
            CHECK_NEAR(zl_data_f32(y)[0], log(sum) - data[n - 1], 1e-5);
        }
}
