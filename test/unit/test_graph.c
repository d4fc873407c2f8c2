// test_graph.c - arrays before they are computed: ownership, promotion, views, sizes, foreign memory.

#include <pthread.h>
#include <stdio.h>

#include "graph/graph.h"
#include "op/op.h"
#include "test.h"

TEST(node_of_rank_two_is_128_bytes) {
    zl_array a = zl_zeros(ZL_SHAPE(3, 4), ZL_FLOAT32);
    CHECK_EQ_INT(array_bytes_of(zl_add(a, a)), 128);
}

TEST(scopes_release_what_they_lent) {
    size_t before = slab_live();
    ZL_SCOPE {
        zl_array x = zl_from_f32((float[]){1, 2}, ZL_SHAPE(2));
        for (int i = 0; i < 100; i++)
            x = zl_add(x, x);
        CHECK(slab_live() > before);
    }
    CHECK_EQ_INT(slab_live(), before);
}

static zl_array leave_early(int n) {
    zl_scope s = zl_scope_begin();
    zl_array x = zl_scalar(1);
    for (int i = 0; i < n; i++)
        x = zl_add(x, zl_scalar(i));
    return zl_scope_leave(s, x);
}

TEST(scope_leave_keeps_the_result) {
    CHECK_EQ_F64(zl_item(leave_early(4)), 7);
}

TEST(ending_an_outer_scope_ends_inner_ones) {
    size_t before = slab_live();
    zl_scope outer = zl_scope_begin();
    zl_scope_begin();
    zl_negative(zl_scalar(1));
    zl_scope_end(outer);
    CHECK_EQ_INT(slab_live(), before);
}

TEST(million_calls_are_released_without_recursion) {
    ZL_SCOPE {
        zl_array x = zl_from_f32((float[]){1}, ZL_SHAPE(1));
        for (int i = 0; i < (test_quick() ? 100000 : 1000000); i++)
            x = zl_add(x, x);
        CHECK(x != NULL);
    }
}

// MLX's promotion table, as its CPU build prints it, in the order of zl_dtype.
TEST(promotion_is_that_of_mlx) {
    static const char *const rows[ZL_DTYPE_COUNT] = {
        "bool    u8    u16   u32   u64   i8    i16   i32   i64   f16   bf16  f32   f64   c64",
        "u8      u8    u16   u32   u64   i16   i16   i32   i64   f16   bf16  f32   f64   c64",
        "u16     u16   u16   u32   u64   i32   i32   i32   i64   f16   bf16  f32   f64   c64",
        "u32     u32   u32   u32   u64   i64   i64   i64   i64   f16   bf16  f32   f64   c64",
        "u64     u64   u64   u64   u64   f32   f32   f32   f32   f16   bf16  f32   f64   c64",
        "i8      i16   i32   i64   f32   i8    i16   i32   i64   f16   bf16  f32   f64   c64",
        "i16     i16   i32   i64   f32   i16   i16   i32   i64   f16   bf16  f32   f64   c64",
        "i32     i32   i32   i64   f32   i32   i32   i32   i64   f16   bf16  f32   f64   c64",
        "i64     i64   i64   i64   f32   i64   i64   i64   i64   f16   bf16  f32   f64   c64",
        "f16     f16   f16   f16   f16   f16   f16   f16   f16   f16   f32   f32   f64   c64",
        "bf16    bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  f32   bf16  f32   f64   c64",
        "f32     f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64   c64",
        "f64     f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   c64",
        "c64     c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64",
    };
    for (int a = 0; a < ZL_DTYPE_COUNT; a++) {
        const char *at = rows[a];
        for (int b = 0; b < ZL_DTYPE_COUNT; b++) {
            char want[8];
            int used = 0;
            REQUIRE(sscanf(at, "%7s%n", want, &used) == 1);
            at += used;
            const char *got = tile_type_name(tile_type_of(zl_result_type((zl_dtype)a, (zl_dtype)b)));
            CHECK_STR(got, want);
        }
    }
}

TEST(numbers_are_weak) {
    zl_array half = zl_zeros(ZL_SHAPE(2), ZL_FLOAT16), small = zl_zeros(ZL_SHAPE(2), ZL_INT8);
    zl_array truth = zl_zeros(ZL_SHAPE(2), ZL_BOOL), wide = zl_zeros(ZL_SHAPE(2), ZL_FLOAT64);
    CHECK_EQ_INT(zl_dtype_of(zl_multiply(zl_scalar(0.5), half)), ZL_FLOAT16);
    CHECK_EQ_INT(zl_dtype_of(zl_add(small, zl_scalar_int(3))), ZL_INT8);
    CHECK_EQ_INT(zl_dtype_of(zl_add(small, zl_scalar(0.5))), ZL_FLOAT32);
    CHECK_EQ_INT(zl_dtype_of(zl_add(truth, zl_scalar_int(3))), ZL_INT32);
    CHECK_EQ_INT(zl_dtype_of(zl_add(half, zl_scalar_complex(0, 1))), ZL_COMPLEX64);
    CHECK_EQ_INT(zl_dtype_of(zl_add(zl_scalar_int(1), zl_scalar_int(1))), ZL_INT32);
    CHECK_EQ_F64(zl_item(zl_sum(zl_add(wide, zl_scalar(0.1)))), 0.2); // the number is not rounded to float32
}

TEST(half_conversions_round_to_even) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float x = half_to_float((uint16_t)bits);
        if (x == x)
            CHECK_EQ_INT(half_from_float(x), bits);
        float y = bfloat_to_float((uint16_t)bits);
        if (y == y)
            CHECK_EQ_INT(bfloat_from_float(y), bits);
    }
    CHECK_EQ_INT(zl_float16_from_float(zl_float16_to_float(0x3555)), 0x3555);
    CHECK_EQ_INT(zl_bfloat16_from_float(zl_bfloat16_to_float(0x3eab)), 0x3eab);
    CHECK_EQ_INT(half_from_float(65519.996f), 0x7bff);
    CHECK_EQ_INT(half_from_float(65520.0f), 0x7c00);
    CHECK_EQ_INT(half_from_float(0x1p-25f), 0);
    CHECK_EQ_INT(half_from_float(0x1.000002p-25f), 1);
    CHECK_EQ_INT(bfloat_from_float(0x1.01p0f), 0x3f80);
    CHECK_EQ_INT(bfloat_from_float(0x1.03p0f), 0x3f82);
}

TEST(conversions_saturate) {
    const double from[] = {1e30, -1e30, 0.0 / 0.0, 300.7, -300.7, -0.5};
    int8_t small[6];
    uint8_t positive[6];
    int64_t wide[6];
    dtype_convert(small, ZL_INT8, from, ZL_FLOAT64, 6);
    dtype_convert(positive, ZL_UINT8, from, ZL_FLOAT64, 6);
    dtype_convert(wide, ZL_INT64, from, ZL_FLOAT64, 6);
    const int want_small[] = {127, -128, 0, 127, -128, 0}, want_positive[] = {255, 0, 0, 255, 0, 0};
    for (int i = 0; i < 6; i++) {
        CHECK_EQ_INT(small[i], want_small[i]);
        CHECK_EQ_INT(positive[i], want_positive[i]);
    }
    CHECK_EQ_INT(wide[0], INT64_MAX);
    CHECK_EQ_INT(wide[1], INT64_MIN);
    CHECK_EQ_INT(wide[3], 300);
}

// Foreign memory --------------------------------------------------------------------------------------------

static void count_release(void *context) {
    (*(int *)context)++;
}

TEST(foreign_memory_is_not_copied_and_released_once) {
    float data[6] = {0, 1, 2, 3, 4, 5};
    int released = 0;
    ZL_SCOPE {
        zl_array a = zl_from_foreign(data, ZL_SHAPE(2, 3), ZL_FLOAT32,
                                     &(zl_foreign_options){.release = count_release, .context = &released});
        CHECK(zl_data_f32(a) == data);
        zl_array view = zl_transpose(a, ZL_ALL);
        CHECK(zl_eval(view));
        zl_array sum = zl_add(a, a);
        CHECK_EQ_F64(zl_data_f32(sum)[5], 10);
        CHECK_EQ_F64(data[5], 5); // never donated
        CHECK_EQ_INT(released, 0);
    }
    CHECK_EQ_INT(released, 1);
}

TEST(foreign_memory_with_strides_of_either_sign) {
    int32_t data[6] = {0, 1, 2, 3, 4, 5};
    zl_array a = zl_from_foreign(data + 5, ZL_SHAPE(2, 3), ZL_INT32,
                                 &(zl_foreign_options){.strides = (int64_t[]){-3, -1}});
    int32_t out[6];
    CHECK(zl_copy_to(a, out, sizeof out));
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(out[i], 5 - i);
}

TEST(bad_data_is_refused) {
    float x = 1;
    CHECK_ERROR(ZL_ERROR_VALUE, zl_from_f32(NULL, ZL_SHAPE(3)));
    CHECK_ERROR(ZL_ERROR_SHAPE, zl_from_f32(&x, ZL_SHAPE(-1)));
    CHECK_ERROR(ZL_ERROR_OVERFLOW, zl_from_f32(&x, ZL_SHAPE(1ll << 40, 1ll << 40)));
    CHECK_ERROR(ZL_ERROR_DTYPE, zl_from(&x, ZL_SHAPE(1), (zl_dtype)99));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_from_foreign((char *)&x + 1, ZL_SHAPE(1), ZL_FLOAT32, NULL));
    CHECK_ERROR(ZL_ERROR_AXIS, zl_dim(zl_from_f32(&x, ZL_SHAPE(1)), 1) != -1);
    CHECK(zl_from_f32(NULL, ZL_SHAPE(0, 3)) != NULL);
}

// Fields of structs -----------------------------------------------------------------------------------------

struct inner {
    double mass;
    int32_t id;
};
struct outer {
    float position[3];
    struct inner inner;
    bool fixed;
};

TEST(fields_of_nested_structs_are_views) {
    struct outer p[3] = {
        {{1, 2, 3}, {0.5, 7}, true}, {{4, 5, 6}, {1.5, 8}, false}, {{7, 8, 9}, {2.5, 9}, true}};
    zl_array r = zl_from_records(p, ZL_SHAPE(3), sizeof p[0], NULL);
    zl_array mass = zl_field(r, offsetof(struct outer, inner.mass), ZL_FLOAT64, ZL_SCALAR);
    zl_array position = zl_field(r, offsetof(struct outer, position), ZL_FLOAT32, ZL_SHAPE(3));
    zl_array fixed = zl_field(r, offsetof(struct outer, fixed), ZL_BOOL, ZL_SCALAR);
    CHECK_EQ_INT(zl_strides_of(mass).dim[0], sizeof p[0] / sizeof(double));
    CHECK_EQ_F64(zl_item(zl_sum(mass)), 4.5);
    CHECK_EQ_F64(zl_item(zl_sum(position)), 45);
    CHECK_EQ_INT(zl_item_int(zl_sum(fixed)), 2);
    CHECK_ERROR(ZL_ERROR_VALUE, zl_field(r, sizeof p[0] - 2, ZL_FLOAT32, ZL_SCALAR));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_field(r, 1, ZL_FLOAT32, ZL_SCALAR));
    CHECK_ERROR(ZL_ERROR_VALUE, zl_field(mass, 0, ZL_FLOAT32, ZL_SCALAR));
}

// Threads ---------------------------------------------------------------------------------------------------

static void *lend_in_thread(void *data) {
    zl_array shared = data;
    for (int i = 0; i < 1000; i++)
        zl_add(shared, shared);
    return zl_retain(zl_add(shared, zl_scalar(1)));
}

TEST(threads_end_their_scopes) {
    size_t before = slab_live();
    zl_array x = zl_retain(zl_from_f32((float[]){1, 2}, ZL_SHAPE(2)));
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, lend_in_thread, x);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(thread[i], &result);
        ZL_SCOPE CHECK_EQ_F64(zl_item(zl_sum(result)), 5);
        zl_release(result);
    }
    zl_release(x);
    CHECK_EQ_INT(slab_live(), before + 2); // x and its data are still lent to this scope
}
