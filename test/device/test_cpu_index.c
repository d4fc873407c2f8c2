// test_cpu_index.c - take, concatenate, pad and arange over random layouts.

#include "random_view.h"

#include "graph/graph.h"

static int rounds(int quick, int usual) {
    return test_quick() ? quick : test_long() ? 10 * usual : usual;
}

static void take_once(void) {
    int64_t dim[VIEW_AXES], at[VIEW_AXES] = {0}, out[VIEW_AXES], n = 0;
    int ndim = view_shape(5000, dim), wrong = 0;
    if (ndim == 0)
        return;
    int axis = (int)test_between(0, ndim - 1);
    int64_t count = test_between(1, 20), index[20];
    for (int64_t i = 0; i < count; i++)
        index[i] = test_between(-dim[axis], dim[axis] - 1);
    struct view x = view_random((zl_dtype)test_between(0, ZL_COMPLEX64), ndim, dim);
    zl_array y = zl_take(
        x.array, zl_astype(zl_from_i64(index, ZL_SHAPE(count)), test_between(0, 1) ? ZL_INT32 : ZL_INT64),
        axis);
    REQUIRE(zl_eval(y));
    for (int i = 0; i < ndim; i++)
        out[i] = i == axis ? count : dim[i];
    do {
        int64_t from[VIEW_AXES];
        for (int i = 0; i < ndim; i++)
            from[i] = at[i];
        from[axis] = index[at[axis]] < 0 ? index[at[axis]] + dim[axis] : index[at[axis]];
        wrong += dense_at(y, n++, 0) != view_at(&x, ndim, from, 0);
    } while (next_position(ndim, out, at));
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%s strides %s axis %d", array_text(x.array), shape_text(ndim, x.stride), axis);
}

TEST(random_takes) {
    for (int round = 0; round < rounds(60, 300); round++)
        ZL_SCOPE {
            take_once();
        }
}

TEST(take_reads_nothing_but_its_array) {
    zl_array x = zl_from_i32((int32_t[]){10, 20, 30}, ZL_SHAPE(3));
    zl_array y = zl_take(x, zl_from_i64((int64_t[]){5, -9, INT64_MAX, INT64_MIN, 1}, ZL_SHAPE(5)), 0);
    const int32_t *data = zl_data_i32(y);
    REQUIRE(data);
    for (int i = 0; i < 4; i++)
        CHECK(data[i] == 10 || data[i] == 20 || data[i] == 30 || data[i] == 0);
    CHECK_EQ_INT(data[4], 20);
}

static void join_once(void) {
    int64_t dim[VIEW_AXES], at[VIEW_AXES] = {0}, out[VIEW_AXES], n = 0;
    int ndim = view_shape(5000, dim), wrong = 0;
    if (ndim == 0)
        return;
    int axis = (int)test_between(0, ndim - 1);
    zl_dtype dtype = (zl_dtype)test_between(0, ZL_COMPLEX64);
    int64_t length = dim[axis];
    struct view a = view_random(dtype, ndim, dim);
    dim[axis] = test_between(1, 4);
    struct view b = view_random(dtype, ndim, dim);
    zl_array y = zl_concatenate((zl_array[]){a.array, b.array}, 2, axis);
    REQUIRE(zl_eval(y));
    for (int i = 0; i < ndim; i++)
        out[i] = y->dim[i];
    do {
        int64_t from[VIEW_AXES];
        for (int i = 0; i < ndim; i++)
            from[i] = at[i];
        bool second = at[axis] >= length;
        from[axis] -= second ? length : 0;
        wrong += dense_at(y, n++, 0) != view_at(second ? &b : &a, ndim, from, 0);
    } while (next_position(ndim, out, at));
    CHECK_EQ_INT(wrong, 0);
}

static void pad_once(void) {
    int64_t dim[VIEW_AXES], low[VIEW_AXES], high[VIEW_AXES], at[VIEW_AXES] = {0}, out[VIEW_AXES], n = 0;
    int ndim = view_shape(3000, dim), wrong = 0;
    struct view x = view_random(ZL_INT16, ndim, dim);
    for (int i = 0; i < ndim; i++) {
        low[i] = test_between(0, 3);
        high[i] = test_between(0, 2);
        out[i] = low[i] + dim[i] + high[i];
    }
    zl_array y =
        zl_contiguous(zl_pad(x.array, (zl_shape){low, ndim}, (zl_shape){high, ndim}, zl_scalar_int(77)));
    REQUIRE(zl_eval(y));
    do {
        int64_t from[VIEW_AXES];
        bool inside = true;
        for (int i = 0; i < ndim; i++) {
            from[i] = at[i] - low[i];
            inside &= from[i] >= 0 && from[i] < dim[i];
        }
        wrong += dense_at(y, n++, 0) != (inside ? view_at(&x, ndim, from, 0) : 77);
    } while (next_position(ndim, out, at));
    CHECK_EQ_INT(wrong, 0);
}

TEST(random_joins_and_pads) {
    for (int round = 0; round < rounds(40, 200); round++)
        ZL_SCOPE {
            join_once();
            pad_once();
        }
}

TEST(counting) {
    const float *f = zl_data_f32(zl_arange(1, 100001, 0.5, ZL_FLOAT32));
    REQUIRE(f);
    for (int i = 0; i < 200000; i += 997)
        CHECK_EQ_F64(f[i], 1 + 0.5 * i);
    zl_array small = zl_arange_int(-300, 300, 7, ZL_INT8);
    CHECK_EQ_INT((int64_t)dense_at(small, 0, 0), (int8_t)-300);
    const int64_t *big = zl_data_i64(zl_arange_int(INT64_MAX - 2, INT64_MAX, 1, ZL_INT64));
    CHECK(big && big[1] == INT64_MAX - 1);
}

TEST(quotient_and_remainder) {
    for (int round = 0; round < rounds(10, 60); round++)
        ZL_SCOPE {
            int64_t dim[VIEW_AXES], at[VIEW_AXES] = {0}, n = 0;
            int ndim = view_shape(5000, dim), wrong = 0;
            zl_dtype dtype = (zl_dtype)test_between(ZL_INT8, ZL_INT64);
            struct view a = view_random(dtype, ndim, dim), b = view_random(dtype, ndim, dim);
            zl_array out[2];
            REQUIRE(zl_divmod(a.array, b.array, out) && zl_eval_all(2, out));
            do {
                double x = view_at(&a, ndim, at, 0), y = view_at(&b, ndim, at, 0);
                if (y != 0)
                    wrong += dense_at(out[0], n, 0) * y + dense_at(out[1], n, 0) != x;
                n++;
            } while (next_position(ndim, dim, at));
            CHECK_EQ_INT(wrong, 0);
        }
}
