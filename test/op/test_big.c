// test_big.c - arrays of more than 2^31 elements: indices, strides, offsets and counts that need 64 bits.
//
// Runs only with --long: each test uses up to 7 GB.

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "test.h"

enum { PERIOD = 251 }; // of the pattern: prime, so that an index that is wrong by a power of two is noticed

static const int64_t big = (1ll << 31) + (1ll << 27) + 6;

// Returns the bytes of memory that programs may still allocate; 0 if the system does not report it.
static int64_t available_memory(void) {
    char line[128];
    long long kibibytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && !kibibytes && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %lld kB", &kibibytes);
    if (file)
        fclose(file);
    return kibibytes * 1024;
}

// Returns why to skip these tests; NULL: run them.
static const char *reason_to_skip(void) {
    if (!test_long())
        return "only in the long run";
    return available_memory() < 10ll << 30 ? "less than 10 GiB of memory are available" : NULL;
}

static uint8_t pattern(int64_t i) {
    return (uint8_t)(i % PERIOD);
}

static uint8_t *data; // memory of the foreign array

static void give_back(void *context) {
    free(context);
    data = NULL;
}

// Returns 0, 1, ..., 250, 0, 1, ...; NULL if memory runs out.
static zl_array big_pattern(zl_dtype dtype) {
    data = malloc((size_t)big);
    for (int64_t i = 0; data && i < big; i++)
        data[i] = pattern(i);
    return data ? zl_from_foreign(data, ZL_SHAPE(big), dtype,
                                  &(zl_foreign_options){.release = give_back, .context = data})
                : NULL;
}

// Returns positions near the ends, near 2^31, and random ones.
static int64_t probe(int i, int64_t size) {
    switch (i) {
    case 0: return 0;
    case 1: return size - 1;
    case 2: return INT32_MAX;
    case 3: return 1ll << 31;
    default: return test_between(0, size - 1);
    }
}

enum { PROBES = 5000 };

TEST(big_elementwise) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    zl_array x = big_pattern(ZL_UINT8);
    REQUIRE(x);
    zl_array y = zl_add(x, x);
    const uint8_t *out = zl_data(y);
    REQUIRE(out);
    for (int i = 0; i < PROBES; i++) {
        int64_t at = probe(i, big);
        CHECK_EQ_INT(out[at], (uint8_t)(2 * pattern(at)));
    }
}

TEST(big_comparison_and_counting) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    zl_array x = big_pattern(ZL_UINT8);
    REQUIRE(x);
    zl_array low = zl_less(x, zl_full(ZL_SCALAR, zl_scalar_int(100), ZL_UINT8));
    const bool *out = zl_data_bool(low);
    REQUIRE(out);
    for (int i = 0; i < PROBES; i++) {
        int64_t at = probe(i, big);
        CHECK_EQ_INT(out[at], pattern(at) < 100);
    }
    int64_t whole = big / PERIOD, rest = big % PERIOD;
    CHECK_EQ_INT(zl_item_int(zl_sum(low)), (int32_t)(whole * 100 + MIN_OF(rest, 100)));
    CHECK_EQ_INT(zl_item_int(zl_all(low)), 0);
}

TEST(big_sum_and_extremes) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    zl_array x = big_pattern(ZL_UINT8);
    REQUIRE(x);
    int64_t whole = big / PERIOD, rest = big % PERIOD;
    int64_t sum = whole * (PERIOD * (PERIOD - 1) / 2) + rest * (rest - 1) / 2;
    CHECK_EQ_INT(zl_item_int(zl_sum(x)), (uint32_t)sum); // wraps around in uint32, the dtype of the sum
    CHECK_EQ_INT(zl_item_int(zl_max(x)), PERIOD - 1);
    int64_t place = (1ll << 31) + 12345;
    data[place] = 255;
    data[place + 7] = 255;
    CHECK_EQ_INT(zl_item_int(zl_argmax(x)), place);
    CHECK_EQ_INT(zl_item_int(zl_max(x)), 255);
}

TEST(big_slices) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    zl_array x = big_pattern(ZL_INT8);
    REQUIRE(x);
    int64_t start = (1ll << 31) + 5;
    zl_array near = zl_contiguous(zl_slice(x, ZL_SHAPE(start), ZL_SHAPE(start + 1000), ZL_SHAPE(1)), false);
    zl_array back = zl_contiguous(zl_slice(x, ZL_SHAPE(-1), ZL_SHAPE(0), ZL_SHAPE(-(1ll << 20))), false);
    const int8_t *a = zl_data(near), *b = zl_data(back);
    REQUIRE(a && b);
    for (int64_t i = 0; i < 1000; i++)
        CHECK_EQ_INT(a[i], (int8_t)pattern(start + i));
    CHECK_EQ_INT(zl_size(back), (big - 2) / (1 << 20) + 1);
    for (int64_t i = 0; i < zl_size(back); i++)
        CHECK_EQ_INT(b[i], (int8_t)pattern(big - 1 - (i << 20)));
    zl_array taken = zl_take(x, zl_from_i64((int64_t[]){start, -1, 0}, ZL_SHAPE(3)), 0);
    const int8_t *c = zl_data(taken);
    REQUIRE(c);
    CHECK_EQ_INT(c[0], (int8_t)pattern(start));
    CHECK_EQ_INT(c[1], (int8_t)pattern(big - 1));
}

TEST(big_transpose_of_a_thin_matrix) {
    if (reason_to_skip())
        SKIP(reason_to_skip());
    zl_array x = big_pattern(ZL_UINT8);
    REQUIRE(x);
    int64_t rows = big / 3;
    zl_array thin = zl_reshape(zl_slice(x, ZL_SHAPE(0), ZL_SHAPE(3 * rows), ZL_SHAPE(1)), ZL_SHAPE(rows, 3));
    zl_array turned = zl_contiguous(zl_transpose(thin, ZL_ALL), false);
    const uint8_t *out = zl_data(turned);
    REQUIRE(out);
    for (int i = 0; i < PROBES; i++) {
        int64_t at = probe(i, 3 * rows);
        CHECK_EQ_INT(out[at], pattern(at % rows * 3 + at / rows));
    }
    zl_array sums = zl_sum_axis(thin, 0, false);
    int64_t want[3] = {0};
    for (int64_t i = 0; i < 3 * rows; i++)
        want[i % 3] += pattern(i);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(((const uint32_t *)zl_data(sums))[i], (uint32_t)want[i]);
}
