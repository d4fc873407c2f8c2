// test_cpu_index.c - take, gather, scatter, concatenate, pad and arange over random layouts.

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

// One or two axes are indexed by rows and columns of random numbers, some of them out of range.
struct picks {
    int axis[2], count;
    int64_t index[2][12], lead[2]; // number of rows and columns of the indices
    int64_t size[VIEW_AXES];       // of a slice
};

static struct picks random_picks(int ndim, const int64_t *dim) {
    struct picks p = {.axis = {(int)test_between(0, ndim - 1), (int)test_between(0, ndim - 1)},
                      .lead = {test_between(1, 4), test_between(1, 3)}};
    p.count = p.axis[0] == p.axis[1] ? 1 : 2;
    for (int i = 0; i < ndim; i++)
        p.size[i] = test_between(0, 2) ? dim[i] : test_between(1, dim[i]);
    for (int k = 0; k < 2; k++) {
        int64_t n = dim[p.axis[k]];
        p.size[p.axis[k]] = test_between(0, 2) ? 1 : p.size[p.axis[k]];
        for (int i = 0; i < 12; i++)
            p.index[k][i] = test_between(-n - 1, n);
    }
    return p;
}

// Returns the i-th index, counted over rows and columns; with two axes the first one is indexed by the rows.
static int64_t pick_at(const struct picks *p, int k, int64_t i) {
    return p->index[k][p->count == 1 ? i : k == 0 ? i / p->lead[1] : i % p->lead[1]];
}

static void pick_arrays(const struct picks *p, zl_array *out) {
    zl_dtype dtype = (zl_dtype)test_between(ZL_INT16, ZL_INT64);
    zl_shape both = ZL_SHAPE(p->lead[0], p->lead[1]), column = ZL_SHAPE(p->lead[0], 1),
             row = ZL_SHAPE(1, p->lead[1]);
    out[0] = zl_astype(zl_from_i64(p->index[0], p->count == 1 ? both : column), dtype);
    out[1] = zl_astype(zl_from_i64(p->index[1], row), ZL_INT32);
}

// Finds where the i-th slice begins in x. Returns false if it leaves x and is not to be moved back.
static bool slice_start(const struct picks *p, int ndim, const int64_t *dim, int64_t i, bool move,
                        int64_t *start) {
    for (int k = 0; k < ndim; k++)
        start[k] = 0;
    for (int k = 0; k < p->count; k++) {
        int64_t n = dim[p->axis[k]], last = n - p->size[p->axis[k]], at = pick_at(p, k, i);
        at += at < 0 ? n : 0;
        if (!move && (at < 0 || at > last))
            return false;
        start[p->axis[k]] = at < 0 ? 0 : at > last ? last : at;
    }
    return true;
}

static void gather_once(void) {
    int64_t dim[VIEW_AXES], n = 0;
    int ndim = view_shape(2000, dim), wrong = 0;
    if (ndim == 0)
        return;
    struct picks p = random_picks(ndim, dim);
    struct view x = view_random((zl_dtype)test_between(0, ZL_COMPLEX64), ndim, dim);
    zl_array index[2];
    pick_arrays(&p, index);
    zl_array y = zl_gather(x.array, index, p.count, (zl_axes){p.axis, p.count}, (zl_shape){p.size, ndim});
    REQUIRE(zl_eval(y));
    for (int64_t i = 0; i < p.lead[0] * p.lead[1]; i++) {
        int64_t start[VIEW_AXES], from[VIEW_AXES], at[VIEW_AXES] = {0};
        slice_start(&p, ndim, dim, i, true, start);
        do {
            for (int k = 0; k < ndim; k++)
                from[k] = start[k] + at[k];
            wrong += dense_at(y, n++, 0) != view_at(&x, ndim, from, 0);
        } while (next_position(ndim, p.size, at));
    }
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%s strides %s", array_text(x.array), shape_text(ndim, x.stride));
}

// Applies one slice of updates: adds it to the expected values, or overwrites them.
static void apply_slice(const struct view *updates, const struct picks *p, int ndim, const int64_t *dim,
                        int64_t i, bool add, double *want) {
    int64_t start[VIEW_AXES], at[VIEW_AXES] = {0}, source[VIEW_AXES + 2] = {i / p->lead[1], i % p->lead[1]};
    if (!slice_start(p, ndim, dim, i, false, start))
        return;
    do {
        int64_t place = 0;
        for (int k = 0; k < ndim; k++) {
            place = place * dim[k] + start[k] + at[k];
            source[k + 2] = at[k];
        }
        double value = view_at(updates, ndim + 2, source, 0);
        want[place] = add ? want[place] + value : value;
    } while (next_position(ndim, p->size, at));
}

static void scatter_once(void) {
    int64_t dim[VIEW_AXES], shape[VIEW_AXES], at[VIEW_AXES] = {0}, n = 0;
    double want[2000];
    int ndim = view_shape(2000, dim), wrong = 0;
    if (ndim == 0 || ndim > VIEW_AXES - 2)
        return;
    struct picks p = random_picks(ndim, dim);
    bool add = test_between(0, 1);
    for (int i = 0; i < ndim + 2; i++)
        shape[i] = i < 2 ? p.lead[i] : p.size[i - 2];
    struct view x = view_random(ZL_FLOAT64, ndim, dim), updates = view_random(ZL_FLOAT64, ndim + 2, shape);
    zl_array index[2];
    pick_arrays(&p, index);
    zl_axes axes = {p.axis, p.count};
    zl_array y = add ? zl_scatter_add(x.array, index, p.count, updates.array, axes)
                     : zl_scatter(x.array, index, p.count, updates.array, axes);
    REQUIRE(zl_eval(y));
    do
        want[n++] = view_at(&x, ndim, at, 0);
    while (next_position(ndim, dim, at));
    for (int64_t i = 0; i < p.lead[0] * p.lead[1]; i++)
        apply_slice(&updates, &p, ndim, dim, i, add, want);
    for (int64_t i = 0; i < n; i++)
        wrong += dense_at(y, i, 0) != want[i];
    if (!CHECK_EQ_INT(wrong, 0))
        test_note("%s axes %d %d", array_text(x.array), p.axis[0], p.axis[1]);
}

TEST(random_gathers_and_scatters) {
    for (int round = 0; round < rounds(60, 300); round++)
        ZL_SCOPE {
            gather_once();
            scatter_once();
        }
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
    zl_array y = zl_contiguous(
        zl_pad(x.array, (zl_shape){low, ndim}, (zl_shape){high, ndim}, zl_scalar_int(77)), false);
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

// Elements at consecutive indices, for every dtype of indices and every size of elements. Indices that are
// out of range read the nearest element, and write nothing.
static void check_indexed(zl_dtype index_dtype, zl_dtype dtype, int axis) {
    enum { N = 40, LEAST = -3 };
    bool is_signed = index_dtype >= ZL_INT8;
    int64_t index[N], taken[N], put[N];
    for (int64_t i = 0; i < N; i++) {
        index[i] = test_between(is_signed ? -N + LEAST : 0, N - LEAST);
        put[i] = i;
    }
    for (int64_t i = 0; i < N; i++) {
        int64_t at = index[i] < 0 ? index[i] + N : index[i];
        taken[i] = at < 0 ? 0 : at >= N ? N - 1 : at;
        if (at >= 0 && at < N)
            put[at] = 50 + i;
    }
    zl_shape shape = axis ? ZL_SHAPE(1, N) : ZL_SHAPE(N, 1);
    zl_array x = zl_astype(zl_reshape(zl_arange_int(0, N, 1, ZL_INT64), shape), dtype);
    zl_array v = zl_astype(zl_reshape(zl_arange_int(50, 50 + N, 1, ZL_INT64), shape), dtype);
    zl_array at = zl_astype(zl_from_i64(index, ZL_SHAPE(N)), index_dtype), places = zl_reshape(at, shape);
    REQUIRE(zl_eval_all(4, (zl_array[]){x, v, at, places}));
    zl_array got[] = {zl_take(x, at, axis), zl_take_along_axis(x, places, axis),
                      zl_put_along_axis(x, places, v, axis)};
    for (int k = 0; k < 3; k++) {
        zl_array want = zl_astype(zl_reshape(zl_from_i64(k == 2 ? put : taken, ZL_SHAPE(N)), shape), dtype);
        if (!CHECK_EQ_INT(zl_item_int(zl_array_equal(got[k], want, false)), 1))
            test_note("%d: %s by %s along %d", k, zl_dtype_name(dtype), zl_dtype_name(index_dtype), axis);
    }
}

TEST(elements_by_indices_of_every_dtype) {
    static const zl_dtype sizes[] = {ZL_UINT8, ZL_BFLOAT16, ZL_FLOAT32, ZL_COMPLEX64};
    for (int index = ZL_UINT8; index <= ZL_INT64; index++)
        for (size_t k = 0; k < COUNT(sizes); k++)
            for (int axis = 0; axis < 2; axis++)
                ZL_SCOPE
                    check_indexed((zl_dtype)index, sizes[k], axis);
}
