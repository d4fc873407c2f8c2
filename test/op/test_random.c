// test_random.c - keys, the state, bits compared with a scalar generator, and the shapes and moments of
// distributions.

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "op/op_test.h"

OP_RULES_HERE(random);

// The generator (Threefry) as its authors define it, for one counter.
static void hash(const uint32_t *key, uint32_t *x, uint32_t *y) {
    static const int turns[] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t k[] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda};
    *x += k[0];
    *y += k[1];
    for (int i = 0; i < 20; i++) {
        int turn = turns[i % 8];
        *x += *y;
        *y = (*y << turn | *y >> (32 - turn)) ^ *x;
        if (i % 4 == 3) {
            *x += k[(i / 4 + 1) % 3];
            *y += k[(i / 4 + 2) % 3] + (uint32_t)i / 4 + 1;
        }
    }
}

// Returns word i of n.
static uint32_t word_of(const uint32_t *key, int64_t i, int64_t n) {
    int64_t half = n / 2, pairs = n - half, at = i < pairs ? i : i - pairs;
    uint32_t x = (uint32_t)at, y = at < half ? (uint32_t)(pairs + at) : 0;
    hash(key, &x, &y);
    return i < pairs ? x : y;
}

static bool are_bits(const void *data, size_t bytes, const uint32_t *key) {
    int64_t words = (int64_t)(bytes + 3) / 4;
    for (int64_t i = 0; i < words; i++) {
        uint32_t word = word_of(key, i, words);
        if (memcmp((const char *)data + 4 * i, &word, MIN_OF(4, bytes - 4 * (size_t)i)))
            return false;
    }
    return true;
}

// Evaluates x, so that it can be read more than once.
static zl_array ready(zl_array x) {
    CHECK(zl_eval(x));
    return x;
}

static zl_array key_of(const uint32_t *word) {
    return zl_from(word, ZL_SHAPE(2), ZL_UINT32);
}

TEST(bits_of_the_published_example) { // key and counter of the authors' test vectors
    uint32_t x = 0x243f6a88, y = 0x85a308d3;
    hash((uint32_t[]){0x13198a2e, 0x03707344}, &x, &y);
    CHECK_EQ_INT(x, 0xc4923a9c);
    CHECK_EQ_INT(y, 0x483df7a0);
}

TEST(bits_of_odd_sizes) {
    uint32_t key[] = {(uint32_t)test_random(), (uint32_t)test_random()};
    for (int width = 1; width <= 4; width *= 2)
        for (int64_t n = 1; n < 300; n += n < 80 ? 1 : 17)
            ZL_SCOPE {
                zl_array x = zl_random_bits(ZL_SHAPE(n), width, key_of(key));
                const void *data = zl_data(x);
                if (!CHECK(data && are_bits(data, zl_nbytes(x), key)))
                    test_note("%d times %d bytes", (int)n, width);
            }
    CHECK_EMPTY(zl_random_bits(ZL_SHAPE(0, 3), 4, key_of(key)), ZL_UINT32, ZL_SHAPE(0, 3));
}

TEST(bits_on_any_number_of_threads) {
    int before = zl_threads();
    uint32_t key[] = {1, 2};
    for (int threads = 1; threads <= 4; threads++) {
        CHECK(zl_set_threads(threads));
        zl_array x = zl_random_bits(ZL_SHAPE(100003), 2, key_of(key));
        const void *data = zl_data(x);
        CHECK(data && are_bits(data, zl_nbytes(x), key));
    }
    CHECK(zl_set_threads(before));
}

TEST(split_makes_keys) {
    zl_array key = zl_random_key((7ll << 32) + 5);
    CHECK_ARRAY(key, ZL_UINT32, ZL_SHAPE(2), 7, 5);
    CHECK_ARRAY(zl_random_key(-1), ZL_UINT32, ZL_SHAPE(2), UINT32_MAX, UINT32_MAX);
    zl_array keys = zl_random_split(key, 3), row;
    REQUIRE(zl_eval(keys));
    CHECK(are_bits(zl_data(keys), 24, (uint32_t[]){7, 5}));
    CHECK(row = zl_take(keys, zl_scalar_int(1), 0));
    zl_array mine = zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(4), ZL_FLOAT32, row);
    CHECK(mine && zl_eval(mine));
    zl_array turned = zl_flip(key, ZL_ALL); // any strides
    CHECK(zl_item_int(zl_array_equal(zl_random_bits(ZL_SHAPE(5), 4, turned),
                                     zl_random_bits(ZL_SHAPE(5), 4, zl_random_key((5ll << 32) + 7)), false)));
}

TEST(state_goes_on) {
    uint32_t split[4];
    for (int i = 0; i < 4; i++)
        split[i] = word_of((uint32_t[]){0, 42}, i, 4);
    zl_random_seed(42);
    CHECK_ARRAY(zl_random_state_get(), ZL_UINT32, ZL_SHAPE(2), 0, 42);
    zl_array x = zl_random_bits(ZL_SHAPE(9), 4, NULL);
    REQUIRE(zl_eval(x));
    CHECK(are_bits(zl_data(x), 36, split + 2));
    CHECK_ARRAY(zl_random_state_get(), ZL_UINT32, ZL_SHAPE(2), split[0], split[1]);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_random_state_set(zl_scalar(1)));
    CHECK(!zl_random_state_set(NULL));
}

// A state that is not computed yet is split as an array, and gives the same keys.
TEST(state_that_is_lazy) {
    zl_random_seed(5);
    zl_array a = zl_random_bits(ZL_SHAPE(3), 4, NULL), b = zl_random_bits(ZL_SHAPE(3), 4, NULL);
    zl_array lazy = zl_add(zl_random_key(5), zl_zeros(ZL_SHAPE(2), ZL_UINT32));
    CHECK(zl_random_state_set(lazy) && !zl_is_available(lazy));
    zl_array c = zl_random_bits(ZL_SHAPE(3), 4, NULL), d = zl_random_bits(ZL_SHAPE(3), 4, NULL);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(a, c, false)), 1);
    CHECK_EQ_INT(zl_item_int(zl_array_equal(b, d, false)), 1);
    zl_array rest = ready(zl_random_state_get());
    zl_random_seed(5);
    CHECK(zl_random_bits(ZL_SHAPE(3), 4, NULL) && zl_random_bits(ZL_SHAPE(3), 4, NULL));
    CHECK_EQ_INT(zl_item_int(zl_array_equal(rest, zl_random_state_get(), false)), 1);
    CHECK(zl_random_state_set(rest)); // evaluated: only its words are kept
    CHECK_EQ_INT(zl_item_int(zl_array_equal(rest, zl_random_state_get(), false)), 1);
}

static void *draw_in_thread(void *seed) {
    zl_random_seed(*(int64_t *)seed);
    zl_array lazy = zl_add(zl_random_state_get(), zl_zeros(ZL_SHAPE(2), ZL_UINT32));
    CHECK(zl_random_state_set(lazy)); // freed with the thread
    *(int64_t *)seed = zl_item_int(zl_random_bits(ZL_SCALAR, 2, NULL));
    return NULL;
}

TEST(state_belongs_to_its_thread) {
    pthread_t thread;
    int64_t seed = 9;
    zl_random_seed(1);
    REQUIRE(pthread_create(&thread, NULL, draw_in_thread, &seed) == 0);
    pthread_join(thread, NULL);
    CHECK_ARRAY(zl_random_state_get(), ZL_UINT32, ZL_SHAPE(2), 0, 1);
    zl_random_seed(9);
    CHECK_EQ_INT(zl_item_int(zl_random_bits(ZL_SCALAR, 2, NULL)), seed);
}

TEST(uniform_stays_inside) {
    static const zl_dtype dtypes[] = {ZL_FLOAT16, ZL_BFLOAT16, ZL_FLOAT32};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        zl_array x = ready(
            zl_random_uniform(zl_scalar(0), zl_scalar(1), ZL_SHAPE(20000), dtypes[i], zl_random_key(3)));
        CHECK_EQ_INT(zl_dtype_of(x), dtypes[i]);
        CHECK(zl_item(zl_min(x)) >= 0 && zl_item(zl_max(x)) < 1);
        CHECK_NEAR(zl_item(zl_mean(zl_astype(x, ZL_FLOAT32))), 0.5, 0.02);
    }
    zl_array ends = zl_from_f32((float[]){1, 2, 3}, ZL_SHAPE(3));
    zl_array y =
        ready(zl_random_uniform(ends, zl_add(ends, zl_scalar(1)), ZL_SHAPE(100, 3), ZL_DTYPE_COUNT, NULL));
    CHECK_ARRAY(zl_min_axis(zl_floor(y), 0, false), ZL_FLOAT32, ZL_SHAPE(3), 1, 2, 3);
    CHECK_ARRAY(zl_max_axis(zl_floor(y), 0, false), ZL_FLOAT32, ZL_SHAPE(3), 1, 2, 3);
}

TEST(moments_of_distributions) {
    zl_shape many = ZL_SHAPE(40000);
    zl_array key = zl_random_key(11);
    zl_array x = ready(zl_random_normal(many, ZL_FLOAT32, zl_scalar(3), zl_scalar(2), key));
    CHECK_NEAR(zl_item(zl_mean(x)), 3, 0.05);
    CHECK_NEAR(zl_item(zl_std(x, 0)), 2, 0.05);
    CHECK_EQ_INT(zl_dtype_of(zl_random_normal(many, ZL_FLOAT64, NULL, NULL, key)), ZL_FLOAT64);
    zl_array z = ready(zl_random_normal(many, ZL_COMPLEX64, NULL, NULL, key));
    CHECK_NEAR(zl_item(zl_mean(zl_square(zl_abs(z)))), 1, 0.05);
    x = ready(zl_random_truncated_normal(zl_scalar(-1), zl_scalar(0.5), many, ZL_FLOAT32, key));
    CHECK(zl_item(zl_min(x)) >= -1 && zl_item(zl_max(x)) <= 0.5);
    CHECK_NEAR(zl_item(zl_mean(zl_random_gumbel(many, ZL_FLOAT32, key))), 0.57722, 0.05);
    x = ready(zl_random_laplace(many, ZL_FLOAT32, 2, 3, key));
    CHECK_NEAR(zl_item(zl_mean(x)), 2, 0.1);
    CHECK_NEAR(zl_item(zl_mean(zl_abs(zl_subtract(x, zl_scalar(2))))), 3, 0.1);
    CHECK_NEAR(zl_item(zl_mean(zl_random_bernoulli(zl_scalar(0.3), many, key))), 0.3, 0.02);
    zl_array sure =
        ready(zl_random_bernoulli(zl_from_f32((float[]){0, 1}, ZL_SHAPE(2)), ZL_SHAPE(1000, 2), NULL));
    CHECK_ARRAY(zl_sum_axis(sure, 0, false), ZL_INT32, ZL_SHAPE(2), 0, 1000);
}

TEST(randint_stays_inside) {
    zl_array x = ready(zl_random_randint(zl_scalar_int(-3), zl_scalar_int(4), ZL_SHAPE(2000), ZL_INT8, NULL));
    CHECK_EQ_INT(zl_dtype_of(x), ZL_INT8);
    CHECK_EQ_INT(zl_item_int(zl_min(x)), -3);
    CHECK_EQ_INT(zl_item_int(zl_max(x)), 3);
    int64_t top = (1ll << 40) + 3;
    x = ready(zl_random_randint(zl_scalar_int(top - 1), zl_scalar_int(top), ZL_SHAPE(3), ZL_INT64, NULL));
    CHECK_EQ_INT(zl_item_int(zl_min(x)), top - 1); // float32 does not have this number
    CHECK_EQ_INT(zl_item_int(zl_max(x)), top - 1);
}

TEST(categorical_follows_logits) {
    zl_array key = zl_random_key(4);
    zl_array logits = ready(zl_log(zl_from_f32((float[]){1, 0, 3, 4}, ZL_SHAPE(4))));
    for (int way = 0; way < 2; way++) { // one list of logits; a row of them for each number
        zl_array rows = way ? zl_broadcast_to(logits, ZL_SHAPE(8000, 4)) : logits;
        zl_array x = ready(zl_random_categorical(rows, -1, ZL_SHAPE(8000), INT_MIN, key));
        CHECK_EQ_INT(zl_dtype_of(x), ZL_UINT32);
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(zl_item(zl_mean(zl_equal(x, zl_scalar_int(i)))),
                       i ? (i > 1 ? (i + 1) / 8.0 : 0) : 0.125, 0.02);
    }
    zl_array box = ready(zl_zeros(ZL_SHAPE(2, 5, 3), ZL_FLOAT32));
    zl_shape plain = zl_shape_of(zl_random_categorical(box, 1, ZL_NO_SHAPE, INT_MIN, NULL));
    CHECK(shape_equal(2, (int64_t[]){2, 3}, plain.ndim, plain.dim));
    zl_shape counted = zl_shape_of(zl_random_categorical(box, 1, ZL_NO_SHAPE, 7, NULL));
    CHECK(shape_equal(3, (int64_t[]){2, 3, 7}, counted.ndim, counted.dim));
    zl_array forced = zl_from_f32((float[]){0, INFINITY, 0}, ZL_SHAPE(3));
    CHECK_EQ_INT(zl_item_int(zl_min(zl_random_categorical(forced, 0, ZL_SHAPE(50), INT_MIN, NULL))), 1);
    zl_array only =
        ready(zl_random_categorical(zl_zeros(ZL_SHAPE(1), ZL_INT32), 0, ZL_SHAPE(2), INT_MIN, NULL));
    CHECK_ARRAY(only, ZL_UINT32, ZL_SHAPE(2), 0, 0);
}

TEST(random_refuses) {
    zl_array half = zl_scalar(0.5), key = zl_random_key(0), row = ready(zl_zeros(ZL_SHAPE(3), ZL_FLOAT32));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_random_bits(ZL_SHAPE(2), 3, key));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_random_bits(ZL_SHAPE(2), 4, half));
    CHECK_STR(test_last_error(), "zl_random_bits: a key of shape () of float32: two uint32 are needed, as "
                                 "zl_random_key gives");
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_random_bits(ZL_SHAPE(-2), 4, key));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_random_split(key, -1));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_uniform(half, half, ZL_SCALAR, ZL_FLOAT64, key));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_uniform(half, half, ZL_SCALAR, ZL_INT32, key));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_random_uniform(row, half, ZL_SHAPE(2), ZL_FLOAT32, key));
    CHECK_STR(test_last_error(),
              "zl_random_uniform: parameters of shape (3,) do not stretch to numbers of shape (2,)");
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_randint(half, half, ZL_SCALAR, ZL_FLOAT32, key));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_bernoulli(zl_scalar_int(1), ZL_SCALAR, key));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_random_bernoulli(row, ZL_SHAPE(2), key));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_random_normal(ZL_SCALAR, ZL_INT32, NULL, NULL, key));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_random_categorical(row, 0, ZL_SHAPE(2), 2, key));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_random_categorical(row, 1, ZL_SHAPE(2), INT_MIN, key));
    CHECK_ERROR(ZL_ERROR_AXIS,
                zl_random_bits(ZL_SHAPE(2), 4, zl_flip(key, ZL_AXES(2)))); // an invalid argument is an error,
                                                                           // not an absent one
    CHECK(!zl_random_uniform(NULL, half, ZL_SCALAR, ZL_FLOAT32, key) && !zl_random_split(NULL, 2) &&
          !zl_error());
}

#define KEY_OF(x) zl_astype(zl_multiply(zl_add((x), zl_scalar(3)), zl_scalar(1e8)), ZL_UINT32)
#define WIDE(y)   zl_astype((y), ZL_FLOAT64)

BATCHING(bits_by_key, ZL_SHAPE(2), WIDE(zl_random_bits(ZL_SHAPE(3), 2, KEY_OF(x))))
BATCHING(split_of_key, ZL_SHAPE(2), WIDE(zl_random_split(KEY_OF(x), 2)))
BATCHING(normal_by_key, ZL_SHAPE(2),
         WIDE(zl_random_normal(ZL_SHAPE(2, 2), ZL_FLOAT32, NULL, NULL, KEY_OF(x))))
RULES(normal_of_loc, ZL_SHAPE(3),
      zl_square(zl_random_normal(ZL_SHAPE(2, 3), ZL_FLOAT64, x, x, zl_random_key(1))))
